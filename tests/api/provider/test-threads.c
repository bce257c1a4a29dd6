/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing from many threads and in signal handlers: rings claimed, given back, and missed; writes
 * that interrupt writes, and those that were left by longjmp(3).
 */
#include "write-fixture.h"

#include <setjmp.h>
#include <signal.h>

static pthread_barrier_t barrier;
static atomic_uint failures;

static atomic_bool patient;

/* An event that finds no ring within a moment is lost; patient threads wait for theirs first. */
static void *write_ten(void *arg)
{
    while (patient && EventWriteString(h, 0, 0, u"") != ERROR_SUCCESS)
        (void) usleep(1000);
    for (uint32_t i = 0; i < 10; i++) {
        EVENT_DATA_DESCRIPTOR data;
        EventDataDescCreate(&data, &i, sizeof(i));
        if (EventWrite(h, &plain, 1, &data) != ERROR_SUCCESS)
            atomic_fetch_add(&failures, 1);
    }
    *(uint32_t *) arg = (uint32_t) syscall(SYS_gettid);
    (void) pthread_barrier_wait(&barrier);
    (void) pthread_barrier_wait(&barrier);
    return NULL;
}

static void run_threads(unsigned n, bool succeed)
{
    pthread_t threads[64];
    uint32_t tids[64];
    struct pd_event *e;
    size_t got;

    ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, n + 1), 0);
    atomic_store(&failures, 0);
    for (unsigned i = 0; i < n; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_ten, &tids[i]), 0);
    (void) pthread_barrier_wait(&barrier);
    got = pd_read(d, pd_connection(d), &e);
    ck_assert_uint_eq(got, (patient ? 11 : 10) * n - failures);
    if (succeed)
        ck_assert_uint_eq(failures, 0);
    for (size_t i = 0; succeed && i < got; i++) {
        bool known = false;
        uint32_t number;
        for (unsigned k = 0; k < n; k++)
            known |= tids[k] == e[i].tid;
        ck_assert(known);
        if (patient && i % 11 == 0)
            continue;
        memcpy(&number, e[i].event.data, sizeof(number));
        ck_assert_uint_eq(number, patient ? i % 11 - 1 : i % 10);
    }
    pd_events_free(e, got);
    (void) pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < n; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

START_TEST(a_ring_a_thread)
{
    /* Given back at exit, so that they do for many rounds. */
    for (unsigned i = 0; i < 10; i++)
        run_threads(15, true);
    ck_assert_uint_eq(pd_connection(d)->more_rings, 0);
    ck_assert_uint_eq(pd_connection(d)->n_arenas, 1);
}
END_TEST

START_TEST(more_rings)
{
    atomic_store(&patient, true);
    run_threads(40, true);
    ck_assert_uint_gt(pd_connection(d)->more_rings, 0);
    ck_assert_uint_gt(pd_connection(d)->n_arenas, 1);
}
END_TEST

START_TEST(no_more_rings)
{
    struct pd_connection *c = pd_connection(d);
    uint64_t lost;

    d->rings_more = 0;
    run_threads(20, false);
    lost = pd_lost(d, c, 5, SHM_LOST_RING_FULL);
    ck_assert_uint_gt(failures, 0);
    ck_assert_uint_eq(lost, failures);
    /* Those that are given back serve others. */
    run_threads(15, true);
}
END_TEST

static void *exit_by_system_call(void *arg)
{
    if (EventWrite(h, &plain, 0, NULL) != ERROR_SUCCESS)
        atomic_fetch_add(&failures, 1);
    *(atomic_bool *) arg = true;
    (void) syscall(SYS_exit, 0);
    return NULL;
}

START_TEST(threads_that_end_without_a_word)
{
    struct pd_event *e;
    size_t n;

    if (getenv("ETW_SANITIZED"))
        test_skip("sanitizers do not let threads end like that");
    atomic_store(&failures, 0);
    d->rings_more = 0;
    for (unsigned i = 0; i < 40; i++) {
        atomic_bool done = false;
        pthread_t t;
        ck_assert_int_eq(pthread_create(&t, NULL, exit_by_system_call, &done), 0);
        ck_assert_int_eq(pthread_join(t, NULL), 0);
        ck_assert(done);
        n = pd_read(d, pd_connection(d), &e);
        pd_events_free(e, n);
    }
    ck_assert_uint_eq(failures, 0);
}
END_TEST

/* ---- signals ---- */

static atomic_uint handler_ok, handler_nested, handler_other;

static void on_signal(int signal)
{
    int saved = errno;

    errno = 12345;
    switch (EventWrite(h, &plain, 0, NULL)) {
    case ERROR_SUCCESS:
        atomic_fetch_add(&handler_ok, 1);
        break;
    case ERROR_NOT_ENOUGH_MEMORY:
        atomic_fetch_add(&handler_nested, 1);
        break;
    default:
        atomic_fetch_add(&handler_other, 1);
        break;
    }
    if (errno != 12345)
        atomic_fetch_add(&handler_other, 1);
    errno = saved;
}

static atomic_bool hammer_stop;
static pthread_t hammered;

static void *hammer(void *arg)
{
    while (!atomic_load(&hammer_stop)) {
        (void) pthread_kill(hammered, SIGUSR1);
        (void) usleep(50);
    }
    return NULL;
}

static void signals(bool alternative)
{
    static uint8_t stack[65536];
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = alternative ? SA_ONSTACK : 0};
    struct pd_connection *c = pd_connection(d);
    uint64_t wrote = 0;
    uint64_t failed = 0;
    uint64_t read = 0;
    uint8_t bytes[2000] = {0};
    EVENT_DATA_DESCRIPTOR data;
    pthread_t t;
    struct pd_event *e;
    size_t n;

    EventDataDescCreate(&data, bytes, sizeof(bytes));
    if (alternative)
        ck_assert_int_eq(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL),
                         0);
    ck_assert_int_eq(sigaction(SIGUSR1, &sa, NULL), 0);
    hammered = pthread_self();
    ck_assert_int_eq(pthread_create(&t, NULL, hammer, NULL), 0);
    for (int i = 0; i < 200000 && (i < 2000 || handler_nested < 3); i++) {
        ULONG r = EventWrite(h, &plain, 1, &data);
        if (r == ERROR_SUCCESS)
            wrote++;
        else
            failed++;
        if (i % 10 == 0) {
            n = pd_read(d, c, &e);
            read += n;
            pd_events_free(e, n);
        }
    }
    atomic_store(&hammer_stop, true);
    ck_assert_int_eq(pthread_join(t, NULL), 0);
    n = pd_read(d, c, &e);
    read += n;
    pd_events_free(e, n);
    ck_assert_uint_eq(handler_other, 0);
    ck_assert_uint_gt(handler_ok, 0);
    ck_assert_uint_eq(read, wrote + handler_ok);
    ck_assert_uint_eq(pd_lost(d, c, 5, SHM_LOST_NESTED) + pd_lost(d, c, 5, SHM_LOST_RING_FULL),
                      handler_nested + failed);
}

START_TEST(signal_handlers)
{
    signals(false);
}
END_TEST

START_TEST(signal_handlers_on_their_own_stack)
{
    signals(true);
}
END_TEST

/* A write that a handler left for good. */
static sigjmp_buf jump;
static uint8_t *bad_page;

static void on_fault(int signal)
{
    siglongjmp(jump, 1);
}

static __attribute__((noinline)) void fault_in_write(unsigned depth)
{
    volatile uint8_t room[512];
    EVENT_DATA_DESCRIPTOR data;

    memset((void *) (uintptr_t) room, 0x33, sizeof(room));
    if (depth > 0) {
        fault_in_write(depth - 1);
    } else {
        EventDataDescCreate(&data, bad_page, 8);
        (void) EventWrite(h, &plain, 1, &data);
    }
    room[0] = 1;
}

static __attribute__((noinline)) ULONG write_deep(unsigned depth)
{
    volatile uint8_t room[512];
    ULONG r;

    memset((void *) (uintptr_t) room, 0x55, sizeof(room));
    r = depth > 0 ? write_deep(depth - 1) : EventWrite(h, &plain, 0, NULL);
    room[0] = 1;
    return r;
}

START_TEST(left_by_longjmp)
{
    static uint8_t stack[65536];
    struct sigaction sa = {.sa_handler = on_fault};

    bad_page = (uint8_t *) 16;
    if (_i & 1) {
        ck_assert_int_eq(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL),
                         0);
        sa.sa_flags = SA_ONSTACK;
    }
    ck_assert_int_eq(sigaction(SIGSEGV, &sa, NULL), 0);
    if (sigsetjmp(jump, 1) == 0) {
        fault_in_write(_i & 2 ? 0 : 20);
        ck_abort_msg("no fault");
    }
    ck_assert_uint_eq(write_deep(_i & 4 ? 0 : 30), ERROR_SUCCESS);
    ck_assert_uint_eq(write_deep(1), ERROR_SUCCESS);
    {
        struct pd_event *e;
        size_t n = pd_read(d, pd_connection(d), &e);
        ck_assert_uint_eq(n, 2);
        pd_events_free(e, n);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-threads");
    TCase *t = tcase_create("write");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_ring_a_thread);
    tcase_add_test(t, more_rings);
    tcase_add_test(t, no_more_rings);
    tcase_add_test(t, threads_that_end_without_a_word);
    tcase_add_test(t, signal_handlers);
    tcase_add_test(t, signal_handlers_on_their_own_stack);
    tcase_add_loop_test(t, left_by_longjmp, 0, 8);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
