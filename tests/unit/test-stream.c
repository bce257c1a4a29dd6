/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract between etwd and a consumer: loans, fills, returns, the watermark, sleep; what a
 * hostile consumer can do (nothing but to its own loans), and what it cannot make writable.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etl/layout.h"
#include "lib/test.h"
#include "shm/arena.h"
#include "shm/stream.h"

#define HEADER SHM_STREAM_FIRST
_Static_assert(HEADER == ETL_BUFFER_HEADER_SIZE, "two words for one thing");

#define BYTES 1096u /* 128 events of 8 bytes */
#define BUFFERS 24u

static int stream_fd, client_fd, returns_fd;
static struct shm_stream *stream;          /* etwd's */
static const struct shm_stream *view;      /* the consumer's */
static struct shm_returns *returns;        /* the consumer's */
static const struct shm_returns *ret_read; /* etwd's */
static struct shm_lender lender;
static struct shm_borrower borrower;

static void open_all(uint32_t limit)
{
    ck_assert_int_eq(shm_stream_create(&stream_fd, &client_fd), 0);
    ck_assert_int_eq(shm_stream_map_write(stream_fd, &stream), 0);
    ck_assert_int_eq(shm_returns_create(&returns_fd), 0);
    ck_assert_int_eq(shm_lender_init(&lender, stream, NULL, BYTES, limit), 0);
    ck_assert_int_eq(shm_stream_map(client_fd, &view), 0);
    ck_assert_int_eq(shm_returns_map(returns_fd, &returns), 0);
    ck_assert_int_eq(shm_returns_seal(returns_fd, &ret_read), 0);
    lender.returns = ret_read;
    ck_assert_int_eq(shm_borrower_init(&borrower, view, returns), 0);
}

static void close_all(void)
{
    shm_stream_unmap(stream);
    shm_stream_unmap(view);
    shm_returns_unmap(returns);
    shm_returns_unmap(ret_read);
    close(stream_fd);
    close(client_fd);
    close(returns_fd);
}

static struct shm_loan loan_of(uint32_t buffer, uint32_t fill)
{
    return (struct shm_loan){.offset = (uint64_t) buffer * BYTES,
                             .sequence = buffer + 100,
                             .buffer = buffer,
                             .from = HEADER,
                             .fill = fill,
                             .cpu = 3};
}

START_TEST(lend_and_return)
{
    struct shm_loan loan = loan_of(7, 80), seen, second;
    uint32_t back[BUFFERS];

    open_all(2);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), 0);
    ck_assert_int_eq(shm_lender_lend(&lender, &loan), 0);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), 1);
    ck_assert_uint_eq(seen.offset, 7 * BYTES);
    ck_assert_uint_eq(seen.sequence, 107);
    ck_assert_uint_eq(seen.number, 1);
    ck_assert_uint_eq(seen.from, HEADER);
    ck_assert_uint_eq(seen.fill, 80);
    ck_assert_uint_eq(seen.cpu, 3);
    ck_assert(!seen.closed && !seen.late);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), 0);
    shm_lender_fill(&lender, loan.slot, 160, false);
    ck_assert_int_eq(shm_borrower_look(&borrower, &seen), 0);
    ck_assert_uint_eq(seen.fill, 160);

    /* The limit; what is over it is counted. */
    second = loan_of(8, 80);
    ck_assert_int_eq(shm_lender_lend(&lender, &second), 0);
    second = loan_of(9, 80);
    ck_assert_int_eq(shm_lender_lend(&lender, &second), -ENOBUFS);
    shm_lender_missed(&lender, 11);
    ck_assert_uint_eq(atomic_load(&view->missed_buffers), 1);
    ck_assert_uint_eq(atomic_load(&view->missed_events), 11);

    /* Given back while it is open: counts when it is closed. */
    shm_borrower_return(&borrower, &seen);
    ck_assert_uint_eq(shm_lender_collect(&lender, back, BUFFERS), 0);
    shm_lender_fill(&lender, loan.slot, 168, true);
    ck_assert_uint_eq(shm_lender_collect(&lender, back, BUFFERS), 1);
    ck_assert_uint_eq(back[0], 7);
    ck_assert_uint_eq(shm_lender_collect(&lender, back, BUFFERS), 0);
    /* The same number again is no return of the slot's next loan. */
    second = loan_of(9, 80);
    second.closed = true;
    ck_assert_int_eq(shm_lender_lend(&lender, &second), 0);
    ck_assert_uint_eq(second.slot, loan.slot);
    ck_assert_uint_eq(shm_lender_collect(&lender, back, BUFFERS), 0);

    /* The watermark only grows. */
    shm_lender_watermark(&lender, 50);
    shm_lender_watermark(&lender, 40);
    ck_assert_uint_eq(shm_borrower_watermark(&borrower), 50);

    ck_assert(!shm_borrower_ended(&borrower));
    shm_lender_end(&lender);
    ck_assert(shm_borrower_ended(&borrower));
    ck_assert_uint_eq(shm_lender_reclaim(&lender, back, BUFFERS), 2);
    ck_assert_uint_eq(back[0] + back[1], 8 + 9);
    ck_assert_uint_eq(lender.lent, 0);
    close_all();
}
END_TEST

START_TEST(refused)
{
    static struct shm_lender other;
    struct shm_loan loan = loan_of(0, HEADER - 8);

    open_all(2);
    ck_assert_int_eq(shm_lender_lend(&lender, &loan), -EINVAL);
    loan = loan_of(0, BYTES + 8);
    ck_assert_int_eq(shm_lender_lend(&lender, &loan), -EINVAL);
    loan = loan_of(0, 80);
    loan.from = 88;
    ck_assert_int_eq(shm_lender_lend(&lender, &loan), -EINVAL);
    ck_assert_int_eq(shm_lender_init(&other, stream, ret_read, BYTES, 0), -EINVAL);
    ck_assert_int_eq(shm_lender_init(&other, stream, ret_read, BYTES, SHM_STREAM_SLOTS + 1),
                     -EINVAL);
    ck_assert_int_eq(shm_lender_init(&other, stream, ret_read, HEADER, 2), -EINVAL);
    ck_assert_int_eq(shm_lender_resume(&other, stream, ret_read, BYTES * 2, 2), -EBADMSG);
    stream->version++;
    ck_assert_int_eq(shm_borrower_init(&borrower, view, returns), -EPROTO);
    ck_assert_int_eq(shm_lender_resume(&other, stream, ret_read, BYTES, 2), -EBADMSG);
    close_all();
}
END_TEST

/* A stream that breaks its rules stops the consumer, whatever it says. */
START_TEST(broken_stream)
{
    struct shm_loan loan = loan_of(0, 80), seen;

    open_all(4);
    ck_assert_int_eq(shm_lender_lend(&lender, &loan), 0);
    atomic_store(&stream->order[1], SHM_STREAM_SLOTS);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), -EPROTO);
    atomic_store(&stream->order[1], (uint16_t) (loan.slot + 1));
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), -EPROTO);
    atomic_store(&stream->order[1], (uint16_t) loan.slot);
    atomic_store(&stream->lent, SHM_STREAM_SLOTS + 1);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), -EPROTO);
    atomic_store(&stream->lent, 1);
    atomic_store(&stream->slots[loan.slot].fill, BYTES + 8);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), -EPROTO);
    atomic_store(&stream->slots[loan.slot].fill, 160);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), 1);
    atomic_store(&stream->lent, 0);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), -EPROTO);
    atomic_store(&stream->slots[loan.slot].fill, 152);
    ck_assert_int_eq(shm_borrower_look(&borrower, &seen), -EPROTO);
    atomic_store(&stream->slots[loan.slot].fill, 168 | SHM_STREAM_CLOSED);
    ck_assert_int_eq(shm_borrower_look(&borrower, &seen), 0);
    atomic_store(&stream->slots[loan.slot].fill, 176 | SHM_STREAM_CLOSED);
    ck_assert_int_eq(shm_borrower_look(&borrower, &seen), -EPROTO);
    close_all();
}
END_TEST

START_TEST(sleep_numbers)
{
    open_all(1);
    ck_assert(!shm_lender_must_wake(&lender));
    shm_borrower_sleep(&borrower);
    ck_assert(shm_lender_must_wake(&lender));
    ck_assert(!shm_lender_must_wake(&lender));
    shm_borrower_sleep(&borrower);
    ck_assert(shm_lender_must_wake(&lender));
    /* Numbers wrap past 0, which means awake. */
    borrower.sleep = UINT32_MAX;
    shm_borrower_sleep(&borrower);
    ck_assert_uint_eq(borrower.sleep, 1);
    ck_assert(shm_lender_must_wake(&lender));
    close_all();
}
END_TEST

/* Any words in the returns: a buffer never comes back twice, or while it is open, or unlent. */
START_TEST(hostile_returns)
{
    bool out[SHM_STREAM_SLOTS] = {false}, closed[SHM_STREAM_SLOTS] = {false};
    struct shm_loan loans[64];
    uint32_t back[8], n, slots = 0;
    unsigned seed = 1;

    open_all(64);
    for (unsigned round = 0; round < 20000; round++) {
        uint32_t buffer = (uint32_t) rand_r(&seed) % 64;
        if (!out[buffer]) {
            loans[buffer] = loan_of(buffer, 80);
            ck_assert_int_eq(shm_lender_lend(&lender, &loans[buffer]), 0);
            out[buffer] = true;
            closed[buffer] = false;
            if (loans[buffer].slot >= slots)
                slots = loans[buffer].slot + 1;
        } else if (!closed[buffer]) {
            shm_lender_fill(&lender, loans[buffer].slot, 88, true);
            closed[buffer] = true;
        }
        uint32_t at = (uint32_t) rand_r(&seed) % SHM_STREAM_SLOTS;
        if (rand_r(&seed) % 2)
            at %= 64;
        uint64_t word = rand_r(&seed) % 3 ? stream->slots[at].number
                                          : lender.number - (uint64_t) rand_r(&seed) % 80;
        atomic_store(&returns->returned[at], word);
        atomic_store(&returns->sleep, (uint32_t) rand_r(&seed));
        (void) shm_lender_must_wake(&lender);
        n = shm_lender_collect(&lender, back, 8);
        for (uint32_t i = 0; i < n; i++) {
            ck_assert(back[i] < 64 && out[back[i]] && closed[back[i]]);
            out[back[i]] = false;
        }
    }
    n = 0;
    for (unsigned i = 0; i < 64; i++)
        n += out[i];
    ck_assert_uint_eq(lender.lent, n);
    ck_assert_uint_eq(lender.n_free, SHM_STREAM_SLOTS - n);
    ck_assert_uint_le(slots, 64);
    close_all();
}
END_TEST

/* A later etwd finds the loans as they were; one that was being made is not there. */
START_TEST(resumed)
{
    static struct shm_lender later;
    struct shm_loan a = loan_of(1, 80), b = loan_of(2, 80), c = loan_of(3, 80), seen;
    uint32_t back[BUFFERS];

    open_all(4);
    ck_assert_int_eq(shm_lender_lend(&lender, &a), 0);
    ck_assert_int_eq(shm_lender_lend(&lender, &b), 0);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), 1);
    shm_lender_fill(&lender, a.slot, 96, true);
    shm_borrower_return(&borrower, &seen);
    /* Killed before it published the third. */
    ck_assert_int_eq(shm_lender_lend(&lender, &c), 0);
    atomic_store(&stream->lent, 2);
    ck_assert_int_eq(shm_lender_resume(&later, stream, ret_read, BYTES, 2), 0);
    ck_assert_uint_eq(later.lent, 2);
    ck_assert_uint_eq(shm_lender_collect(&later, back, BUFFERS), 1);
    ck_assert_uint_eq(back[0], 1);
    c = loan_of(3, 80);
    ck_assert_int_eq(shm_lender_lend(&later, &c), 0);
    ck_assert_uint_eq(c.number, 3);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), 1);
    ck_assert_uint_eq(seen.buffer, 2);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), 1);
    ck_assert_uint_eq(seen.buffer, 3);
    ck_assert_int_eq(shm_borrower_next(&borrower, &seen), 0);
    close_all();
}
END_TEST

/* ---- both at once ---- */

#define EVENTS 400000u

static uint64_t memory[BUFFERS][BYTES / 8];

static void *consume(void *arg)
{
    struct shm_loan loans[BUFFERS];
    uint32_t read_to[BUFFERS], n = 0;
    uint64_t next = 0, *ret = arg;
    bool ended = false;

    while (!ended) {
        ended = shm_borrower_ended(&borrower);
        uint64_t watermark = shm_borrower_watermark(&borrower);
        while (n < BUFFERS && shm_borrower_next(&borrower, &loans[n]) == 1) {
            read_to[n] = loans[n].from;
            n++;
        }
        for (uint32_t i = 0; i < n;) {
            if (shm_borrower_look(&borrower, &loans[i]) < 0)
                return NULL;
            for (; read_to[i] < loans[i].fill; read_to[i] += 8)
                if (memory[loans[i].buffer][read_to[i] / 8] != next++)
                    return NULL;
            if (!loans[i].closed) {
                i++;
                continue;
            }
            shm_borrower_return(&borrower, &loans[i]);
            n--;
            memmove(&loans[i], &loans[i + 1], (n - i) * sizeof(*loans));
            memmove(&read_to[i], &read_to[i + 1], (n - i) * sizeof(*read_to));
        }
        if (next < watermark)
            return NULL; /* L4: all below it was there */
    }
    *ret = next;
    return NULL;
}

START_TEST(both_at_once)
{
    uint32_t unused[BUFFERS], n_unused = 0, fill;
    struct shm_loan loan;
    uint64_t event = 0, got = 0;
    pthread_t thread;

    open_all(BUFFERS);
    /* One address for both ends: ThreadSanitizer knows no two mappings of one memory. */
    borrower.stream = stream;
    lender.returns = returns;
    for (uint32_t i = 0; i < BUFFERS; i++)
        unused[n_unused++] = i;
    ck_assert_int_eq(pthread_create(&thread, NULL, consume, &got), 0);
    while (event < EVENTS) {
        while (n_unused == 0) {
            n_unused = shm_lender_collect(&lender, unused, BUFFERS);
            if (n_unused == 0)
                (void) sched_yield();
        }
        uint32_t buffer = unused[--n_unused];
        fill = HEADER;
        memory[buffer][fill / 8] = event++;
        fill += 8;
        loan = loan_of(buffer, fill);
        ck_assert_int_eq(shm_lender_lend(&lender, &loan), 0);
        while (fill < BYTES) {
            for (unsigned k = 0; k < 5 && fill < BYTES; k++, fill += 8)
                memory[buffer][fill / 8] = event++;
            shm_lender_fill(&lender, loan.slot, fill, fill == BYTES);
            shm_lender_watermark(&lender, event);
        }
    }
    shm_lender_end(&lender);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(got, event);
    close_all();
}
END_TEST

/* ---- what a consumer was given is all it gets ---- */

static int reopen(int fd, int flags)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

START_TEST(no_way_to_write)
{
    pid_t pid;
    int status;

    open_all(2);
    ck_assert_ptr_eq(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, client_fd, 0), MAP_FAILED);
    ck_assert_int_eq(mprotect((void *) (uintptr_t) view, 4096, PROT_READ | PROT_WRITE), -1);
    ck_assert_int_eq(fcntl(client_fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    ck_assert_int_eq(ftruncate(client_fd, 0), -1);
    ck_assert_int_eq(fcntl(stream_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    /* The returns: the mapping that the consumer has, and no second one; no holes. */
    ck_assert_ptr_eq(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, returns_fd, 0), MAP_FAILED);
    ck_assert_int_eq(fallocate(returns_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096),
                     -1);
    ck_assert_int_eq(madvise(returns, 4096, MADV_REMOVE), -1);
    ck_assert_int_eq(ftruncate(returns_fd, 0), -1);
    ck_assert_int_eq(mprotect((void *) (uintptr_t) ret_read, 4096, PROT_READ | PROT_WRITE), -1);
    const struct shm_returns *again = NULL;
    ck_assert_int_eq(shm_returns_seal(returns_fd, &again), 0);
    shm_returns_unmap(again);
    /* Neither is taken for the other, nor anything else for them. */
    const struct shm_stream *s = NULL;
    struct shm_returns *r = NULL;
    ck_assert_int_eq(shm_stream_map(returns_fd, &s), -EPROTO);
    ck_assert_int_eq(shm_returns_map(client_fd, &r), -EPROTO);
    ck_assert_int_eq(shm_stream_map(STDERR_FILENO, &s), -EPROTO);
    ck_assert_int_eq(shm_returns_seal(client_fd, &again), -EPROTO);
    if (geteuid() == 0) {
        /* Another user cannot open it for writing. */
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            close(stream_fd);
            if (setresuid(65534, 65534, 65534) < 0)
                _exit(2);
            _exit(reopen(client_fd, O_RDWR) < 0 && reopen(client_fd, O_WRONLY) < 0 ? 0 : 1);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
    }
    close_all();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("stream");
    TCase *t = tcase_create("stream");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, lend_and_return);
    tcase_add_test(t, refused);
    tcase_add_test(t, broken_stream);
    tcase_add_test(t, sleep_numbers);
    tcase_add_test(t, hostile_returns);
    tcase_add_test(t, resumed);
    tcase_add_test(t, both_at_once);
    tcase_add_test(t, no_way_to_write);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
