/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways out of a callback besides returning and dying: a C++ exception and pthread_exit() pass
 * through ProcessTrace; the handle is closed and nothing stays behind.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "exception.h"
#include "trace.h"

static size_t mapped_kb(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages;

    ck_assert_int_eq(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return pages * 4;
}

static void check_signals(void)
{
    struct sigaction sa;
    stack_t st;

    ck_assert_int_eq(sigaction(SIGSEGV, NULL, &sa), 0);
    ck_assert(sa.sa_handler == SIG_DFL);
    ck_assert_int_eq(sigaltstack(NULL, &st), 0);
    ck_assert_int_eq(st.ss_flags, SS_DISABLE);
}

START_TEST(exception_passes_through)
{
    char *path = long_file("exception.etl", 10, 10);
    size_t fds = test_count_fds(getpid());
    TRACEHANDLE h;

    /* _i: in an event callback or in a buffer callback */
    ck_assert_int_eq(throw_through(path, 4, _i, &h), 1);
    ck_assert_uint_eq(CloseTrace(h), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(test_count_fds(getpid()), fds);
    check_signals();
    process_noted(path, NULL, NULL);
    ck_assert_uint_eq(notes.data, 100);
    free(path);
}
END_TEST

START_TEST(exceptions_leave_nothing)
{
    char *path = long_file("many.etl", 10, 10);
    TRACEHANDLE h;
    size_t fds;
    size_t kb;

    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(throw_through(path, 50, 0, &h), 1);
    fds = test_count_fds(getpid());
    kb = mapped_kb();
    for (int i = 0; i < 500; i++)
        ck_assert_int_eq(throw_through(path, 50, 0, &h), 1);
    ck_assert_uint_eq(test_count_fds(getpid()), fds);
    ck_assert_uint_le(mapped_kb(), kb + 64);
    free(path);
}
END_TEST

START_TEST(exception_caught_inside)
{
    char *path = long_file("inside.etl", 10, 10);

    ck_assert_int_eq(catch_inside(path), 102);
    free(path);
}
END_TEST

static void leaving_event(PEVENT_RECORD e)
{
    note_event(e);
    if (notes.data == 10)
        pthread_exit((void *) 1);
}

static TRACEHANDLE left;

static void *leaving_thread(void *arg)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = arg, .EventRecordCallback = leaving_event};

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    left = OpenTraceA(&lf);
    (void) ProcessTrace(&left, 1, NULL, NULL);
    return NULL;
}

START_TEST(thread_exit_in_a_callback)
{
    char *path = long_file("exit.etl", 10, 10);
    size_t fds = test_count_fds(getpid());
    pthread_t thread;
    void *result;

    ck_assert_int_eq(pthread_create(&thread, NULL, leaving_thread, path), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, (void *) 1);
    ck_assert_uint_eq(CloseTrace(left), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(test_count_fds(getpid()), fds);
    check_signals();
    free(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("consumer-exception");
    TCase *t = tcase_create("exception");

    tcase_add_loop_test(t, exception_passes_through, 0, 2);
    tcase_add_test(t, exceptions_leave_nothing);
    tcase_add_test(t, exception_caught_inside);
    tcase_add_test(t, thread_exit_in_a_callback);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
