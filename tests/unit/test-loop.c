/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop on both back-ends: timers, deferred calls, watches, writes; the worker.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "io/loop.h"
#include "io/worker.h"
#include "lib/test.h"

static const enum loop_backend_kind kinds[] = {LOOP_URING, LOOP_EPOLL};
static struct loop *l;
static char order[64];

static void start(int kind)
{
    order[0] = '\0';
    ck_assert_int_eq(loop_new_backend(kinds[kind], &l), 0);
    ck_assert_str_eq(loop_backend_name(l), kind == 0 ? "io_uring" : "epoll");
}

static void note(const char *what)
{
    ck_assert_uint_lt(strlen(order) + strlen(what), sizeof(order));
    strcat(order, what);
}

static void note_timer(void *userdata)
{
    note(userdata);
    if (strcmp(userdata, "!") == 0)
        loop_exit(l, 5);
}

START_TEST(timers)
{
    struct loop_timer *t[5];
    static char names[5][2] = {"a", "b", "c", "d", "!"};
    start(_i);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(loop_timer_new(l, note_timer, names[i], &t[i]), 0);
    uint64_t now = etw_clock_boottime();
    ck_assert_int_eq(loop_timer_arm(t[0], now + 30000000), 0);
    ck_assert_int_eq(loop_timer_arm(t[1], now + 10000000), 0);
    ck_assert_int_eq(loop_timer_arm(t[2], now + 20000000), 0);
    ck_assert_int_eq(loop_timer_arm(t[3], now + 15000000), 0);
    ck_assert_int_eq(loop_timer_arm(t[4], now + 40000000), 0);
    loop_timer_disarm(t[3]);
    ck_assert_int_eq(loop_timer_arm(t[2], now + 35000000), 0); /* anew: later */
    ck_assert_int_eq(loop_run(l), 5);
    ck_assert_str_eq(order, "bac!");
    ck_assert_uint_ge(etw_clock_boottime(), now + 40000000);
    for (int i = 0; i < 5; i++)
        loop_timer_free(t[i]);
    loop_timer_free(NULL);
    loop_free(l);
}
END_TEST

/* Many timers in random order come out in theirs. */
static uint64_t last_when;
static unsigned fired;
struct dated {
    struct loop_timer *t;
    uint64_t when;
};

static void dated_fired(void *userdata)
{
    struct dated *d = userdata;
    ck_assert_uint_ge(d->when, last_when);
    last_when = d->when;
    loop_timer_free(d->t); /* from inside its own call */
    if (++fired == 666)
        loop_exit(l, 0);
}

START_TEST(timer_heap)
{
    static struct dated d[1000];
    start(_i);
    last_when = fired = 0;
    for (int i = 0; i < 1000; i++) {
        d[i].when = 1 + (uint64_t) (i * 7919 % 1000);
        ck_assert_int_eq(loop_timer_new(l, dated_fired, &d[i], &d[i].t), 0);
        ck_assert_int_eq(loop_timer_arm(d[i].t, d[i].when), 0);
    }
    for (int i = 0; i < 1000; i += 3)
        loop_timer_disarm(d[i].t);
    ck_assert_int_eq(loop_run(l), 0);
    ck_assert_uint_eq(fired, 666); /* 334 were disarmed */
    for (int i = 0; i < 1000; i += 3)
        loop_timer_free(d[i].t);
    loop_free(l);
}
END_TEST

static void deferred_again(void *userdata)
{
    note("2");
    loop_exit(l, 0);
}

static void deferred(void *userdata)
{
    note("1");
    ck_assert_int_eq(loop_defer(l, deferred_again, NULL), 0);
    note("-"); /* not from inside the call */
}

START_TEST(defer)
{
    start(_i);
    ck_assert_int_eq(loop_defer(l, deferred, NULL), 0);
    ck_assert_int_eq(loop_run(l), 0);
    ck_assert_str_eq(order, "1-2");
    loop_free(l);
}
END_TEST

struct reader {
    struct loop_watch *w;
};

static void read_one(int fd, uint32_t revents, void *userdata)
{
    struct reader *r = userdata;
    char c[2] = "";
    if (read(fd, c, 1) == 1)
        note(c); /* the rest is told again */
    else {
        note("$");
        r->w = loop_watch_free(r->w); /* from inside its own call */
        (void) close(fd);
        loop_exit(l, 0);
    }
}

START_TEST(watch_is_level_triggered)
{
    int s[2];
    struct reader r;
    start(_i);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s), 0);
    ck_assert_int_eq(loop_watch_new(l, s[0], POLLIN, read_one, &r, &r.w), 0);
    ck_assert_int_eq(write(s[1], "xyz", 3), 3);
    (void) close(s[1]);
    ck_assert_int_eq(loop_run(l), 0);
    ck_assert_str_eq(order, "xyz$");
    loop_free(l);
}
END_TEST

static void never(int fd, uint32_t revents, void *userdata)
{
    ck_abort_msg("a freed watch was called");
}

static void free_other(int fd, uint32_t revents, void *userdata)
{
    struct loop_watch **other = userdata;
    char c;
    note("f");
    *other = loop_watch_free(*other);
    (void) read(fd, &c, 1);
}

static void end_soon(void *userdata)
{
    loop_exit(l, 0);
}

/* Both are ready; one's callback frees the other; its descriptor is closed and used again. */
START_TEST(watch_freed_while_ready)
{
    int a[2], b[2];
    struct loop_watch *wa, *wb;
    struct loop_timer *t;
    start(_i);
    ck_assert_int_eq(pipe2(a, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(b, O_CLOEXEC), 0);
    ck_assert_int_eq(write(a[1], "x", 1), 1);
    ck_assert_int_eq(loop_watch_new(l, a[0], POLLIN, free_other, &wb, &wa), 0);
    ck_assert_int_eq(loop_watch_new(l, b[0], POLLIN, never, NULL, &wb), 0);
    ck_assert_int_eq(loop_timer_new(l, end_soon, NULL, &t), 0);
    ck_assert_int_eq(loop_timer_arm(t, etw_clock_boottime() + 30000000), 0);
    ck_assert_int_eq(loop_run(l), 0);
    ck_assert_str_eq(order, "f");
    ck_assert_ptr_null(wb);
    ck_assert_int_eq(write(b[1], "x", 1), 1); /* nobody listens */
    ck_assert_int_eq(loop_timer_arm(t, etw_clock_boottime() + 30000000), 0);
    ck_assert_int_eq(loop_run(l), 0);
    loop_watch_free(wa);
    loop_timer_free(t);
    loop_free(l);
    for (int i = 0; i < 2; i++) {
        (void) close(a[i]);
        (void) close(b[i]);
    }
}
END_TEST

static int results[4], done;

static void written(int result, void *userdata)
{
    *(int *) userdata = result;
    if (--done == 0)
        loop_exit(l, 0);
}

START_TEST(writes)
{
    start(_i);
    char *path = test_path("writes");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t size = 1 << 20;
    uint8_t *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(data, MAP_FAILED);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t) (i * 31 + (i >> 8));
    int index = -1;
    if (_i == 0)
        ck_assert_int_eq(loop_range_register(l, data, size, &index), 0);
    else
        ck_assert_int_lt(loop_range_register(l, data, size, &index), 0);
    done = 4;
    ck_assert_int_eq(loop_write(l, fd, data, size / 2, 0, index, written, &results[0]), 0);
    ck_assert_int_eq(
        loop_write(l, fd, data + size / 2, size / 2, size / 2, -1, written, &results[1]), 0);
    int readonly = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(loop_write(l, readonly, data, 10, 0, -1, written, &results[2]), 0);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(loop_write(l, full, data, 4096, 0, index, written, &results[3]), 0);
    ck_assert_int_eq(loop_run(l), 0);
    ck_assert_int_eq(results[0], 0);
    ck_assert_int_eq(results[1], 0);
    ck_assert_int_eq(results[2], -EBADF);
    ck_assert_int_eq(results[3], -ENOSPC);
    loop_range_unregister(l, index);
    size_t n;
    char *back = test_read_file(path, &n);
    ck_assert_uint_eq(n, size);
    ck_assert_mem_eq(back, data, size);
    free(back);
    free(path);
    (void) close(fd);
    (void) close(readonly);
    (void) close(full);
    loop_free(l);
    (void) munmap(data, size);
}
END_TEST

/* A file-size limit cuts a write in two: the error of its second half is told, the first is there.
 */
START_TEST(short_write)
{
    static uint8_t data[8192];
    start(_i);
    char *path = test_path("short");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct rlimit old, limit = {.rlim_cur = 4096};
    (void) signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit.rlim_max = old.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    done = 1;
    ck_assert_int_eq(loop_write(l, fd, data, sizeof(data), 0, -1, written, &results[0]), 0);
    int r = loop_run(l);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_int_eq(r, 0);
    ck_assert_int_eq(results[0], -EFBIG);
    ck_assert_int_eq(lseek(fd, 0, SEEK_END), 4096);
    free(path);
    (void) close(fd);
    loop_free(l);
}
END_TEST

static int job_order, job_seen[100];

static void job_run(void *userdata)
{
    *(int *) userdata = ++job_order; /* one thread: no race */
}

static void job_done(void *userdata)
{
    int i = (int) ((int *) userdata - job_seen);
    ck_assert_int_eq(job_seen[i], i + 1);
    if (i == 99)
        loop_exit(l, 0);
}

START_TEST(worker_in_order)
{
    struct worker *w;
    start(_i);
    job_order = 0;
    ck_assert_int_eq(worker_new(l, "test", &w), 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(worker_submit(w, job_run, job_done, &job_seen[i]), 0);
    ck_assert_int_eq(loop_run(l), 0);
    worker_free(w);
    loop_free(l);
}
END_TEST

static void slow_run(void *userdata)
{
    (void) usleep(50000);
    *(int *) userdata = 1;
}

static void must_not(void *userdata)
{
    ck_abort_msg("done after worker_free()");
}

START_TEST(worker_free_waits)
{
    struct worker *w;
    int first = 0, second = 0;
    start(_i);
    ck_assert_int_eq(worker_new(l, "test", &w), 0);
    ck_assert_int_eq(worker_submit(w, slow_run, must_not, &first), 0);
    (void) usleep(20000); /* it has begun */
    ck_assert_int_eq(worker_submit(w, slow_run, must_not, &second), 0);
    worker_free(w);
    ck_assert_int_eq(first, 1);
    ck_assert_int_eq(second, 0);
    loop_free(l);
}
END_TEST

/* Where io_uring is refused, as in containers, the other back-end is taken by itself. */
START_TEST(io_uring_refused)
{
    static const int errors[] = {EPERM, ENOSYS, ENOMEM};
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned) errors[_i]),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = ARRAY_SIZE(code), .filter = code};
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
    ck_assert_int_eq(loop_new(&l), 0);
    ck_assert_str_eq(loop_backend_name(l), "epoll");
    loop_free(l);
    ck_assert_int_eq(loop_new_backend(LOOP_URING, &l), -errors[_i]);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("loop");
    TCase *t = tcase_create("loop");
    tcase_add_loop_test(t, timers, 0, 2);
    tcase_add_loop_test(t, timer_heap, 0, 2);
    tcase_add_loop_test(t, defer, 0, 2);
    tcase_add_loop_test(t, watch_is_level_triggered, 0, 2);
    tcase_add_loop_test(t, watch_freed_while_ready, 0, 2);
    tcase_add_loop_test(t, writes, 0, 2);
    tcase_add_loop_test(t, short_write, 0, 2);
    tcase_add_loop_test(t, io_uring_refused, 0, 3);
    tcase_add_loop_test(t, worker_in_order, 0, 2);
    tcase_add_loop_test(t, worker_free_waits, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
