/* SPDX-License-Identifier: Apache-2.0
 *
 * daemon/sessions/behind.c: what was written leaves the page cache in time and reaches the disk.
 */
#include <sys/mman.h>

#include "daemon-fixture.h"
#include "sessions/behind.h"

#define MIB (1024u * 1024u)
#define PIECE (256u * 1024u)

struct log {
    struct loop *loop;
    struct worker *syncer;
    struct behind *behind;
    char *path;
    int fd;
    uint64_t size;
};

static void log_begin(struct log *l, uint64_t cache, uint64_t interval_ns)
{
    *l = (struct log){.path = test_path("behind.bin")};
    ck_assert_int_eq(loop_new_backend(LOOP_EPOLL, &l->loop), 0);
    ck_assert_int_eq(worker_new(l->loop, "syncer", &l->syncer), 0);
    l->fd = open(l->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_int_ge(l->fd, 0);
    ck_assert_int_eq(behind_new(l->loop, l->syncer, l->fd, cache, interval_ns, &l->behind), 0);
}

static void log_end(struct log *l)
{
    behind_end(l->behind);
    while (!worker_settle(l->syncer))
        usleep(1000);
    l->behind = behind_free(l->behind);
    l->syncer = worker_free(l->syncer);
    l->loop = loop_free(l->loop);
    ck_assert_int_eq(close(l->fd), 0);
    ck_assert_int_eq(unlink(l->path), 0);
    free(l->path);
}

static void log_write(struct log *l, uint64_t bytes)
{
    static uint8_t piece[PIECE];

    for (uint64_t done = 0; done < bytes; done += PIECE) {
        memset(piece, (int) (l->size / PIECE), sizeof(piece));
        ck_assert_int_eq(pwrite(l->fd, piece, PIECE, (off_t) l->size), PIECE);
        behind_wrote(l->behind, l->size, PIECE);
        l->size += PIECE;
        (void) worker_settle(l->syncer);
    }
}

/* All that was started is done. */
static void log_settle(struct log *l)
{
    while (!worker_settle(l->syncer))
        usleep(1000);
}

/* Bytes of [from, to) in the page cache. */
static uint64_t resident(const struct log *l, uint64_t from, uint64_t to)
{
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    size_t n = (to - from) / page;
    uint8_t *in = calloc(n, 1);
    uint64_t sum = 0;
    void *p = mmap(NULL, to - from, PROT_READ, MAP_SHARED, l->fd, (off_t) from);

    ck_assert_ptr_nonnull(in);
    ck_assert_ptr_ne(p, MAP_FAILED);
    ck_assert_int_eq(mincore(p, to - from, in), 0);
    for (size_t i = 0; i < n; i++)
        sum += (in[i] & 1) * page;
    ck_assert_int_eq(munmap(p, to - from), 0);
    free(in);
    return sum;
}

/* File systems in memory keep their pages: nothing is to be seen there. */
static bool pages_can_go(const struct log *l)
{
    ck_assert_int_eq(fdatasync(l->fd), 0);
    ck_assert_int_eq(posix_fadvise(l->fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    return resident(l, 0, l->size) < l->size;
}

START_TEST(old_pages_go_new_ones_stay)
{
    struct log l;

    log_begin(&l, 2 * MIB, 0);
    log_write(&l, 24 * MIB);
    log_settle(&l);
    /* Ranges may have grown while the disk was busy; the last two never go. */
    ck_assert_uint_ge(behind_dropped(l.behind), 1);
    for (int i = 0; i < 4; i++) {
        log_write(&l, MIB);
        log_settle(&l);
    }
    ck_assert_uint_eq(resident(&l, l.size - MIB, l.size), MIB);
    uint64_t kept = resident(&l, 0, l.size);
    if (pages_can_go(&l))
        ck_assert_uint_le(kept, 2 * MIB + PIECE);
    log_end(&l);
}
END_TEST

/* 0: the kernel decides, nothing is done at all. */
START_TEST(all_pages_stay)
{
    struct log l;

    log_begin(&l, 0, 3600 * ETW_NSEC_PER_SEC);
    log_write(&l, 16 * MIB);
    log_settle(&l);
    ck_assert_uint_eq(behind_dropped(l.behind), 0);
    ck_assert_uint_eq(behind_synced(l.behind), 0);
    ck_assert_uint_eq(resident(&l, 0, l.size), l.size);
    log_end(&l);
}
END_TEST

/* A circular file goes back to its beginning: what is written there is a range of its own, and
 * nothing outside of what was written is touched. */
START_TEST(goes_back_to_the_beginning)
{
    struct log l;

    log_begin(&l, 2 * MIB, 0);
    for (int round = 0; round < 3; round++) {
        l.size = 0;
        log_write(&l, 8 * MIB);
        log_settle(&l);
    }
    ck_assert_uint_ge(behind_dropped(l.behind), 3);
    for (uint64_t at = 0; at < l.size; at += PIECE) {
        uint8_t byte;
        ck_assert_int_eq(pread(l.fd, &byte, 1, (off_t) at), 1);
        ck_assert_uint_eq(byte, (uint8_t) (at / PIECE));
    }
    log_end(&l);
}
END_TEST

struct watch {
    struct log log;
    struct loop_timer *timer;
};

static void look(void *userdata)
{
    struct watch *w = userdata;

    if (behind_synced(w->log.behind) > 0)
        loop_exit(w->log.loop, 0);
    else
        (void) loop_timer_arm(w->timer, etw_clock_boottime() + ETW_NSEC_PER_SEC / 100);
}

/* Once, though it was written to many times. */
START_TEST(reaches_the_disk)
{
    struct watch w;

    log_begin(&w.log, 0, ETW_NSEC_PER_SEC / 50);
    log_write(&w.log, 2 * MIB);
    ck_assert_int_eq(loop_timer_new(w.log.loop, look, &w, &w.timer), 0);
    look(&w);
    ck_assert_int_eq(loop_run(w.log.loop), 0);
    ck_assert_uint_eq(behind_synced(w.log.behind), 1);
    loop_timer_free(w.timer);
    log_end(&w.log);
}
END_TEST

/* Its file ends while the disk is busy. */
START_TEST(freed_while_busy)
{
    struct log l;

    log_begin(&l, 2 * MIB, 0);
    log_write(&l, 8 * MIB);
    l.behind = behind_free(l.behind);
    while (!worker_settle(l.syncer))
        usleep(1000);
    l.syncer = worker_free(l.syncer);
    l.loop = loop_free(l.loop);
    ck_assert_int_eq(close(l.fd), 0);
    ck_assert_int_eq(unlink(l.path), 0);
    free(l.path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("behind");
    TCase *t = tcase_create("behind");

    tcase_add_test(t, old_pages_go_new_ones_stay);
    tcase_add_test(t, all_pages_stay);
    tcase_add_test(t, goes_back_to_the_beginning);
    tcase_add_test(t, reaches_the_disk);
    tcase_add_test(t, freed_while_busy);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
