/* SPDX-License-Identifier: Apache-2.0
 *
 * Callbacks that die: each of the four signals ends ProcessTrace with ERROR_NOACCESS and leaves
 * nothing behind; a program's own handlers and other threads are none of our business.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace.h"

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

/* ---- ways to die ---- */

static volatile int zero;
static volatile int dividend = 100;
static volatile int sink;
static volatile uintptr_t nowhere = 16;

__attribute__((no_sanitize("address", "undefined"))) static void die_of(int sig)
{
    char *page;

    switch (sig) {
    case SIGSEGV:
        sink = *(volatile int *) nowhere;
        break;
    case SIGBUS: {
        /* A page behind the end of its file. */
        int fd = memfd_create("empty", MFD_CLOEXEC);

        page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        sink = *(volatile char *) page;
        break;
    }
    case SIGFPE:
#if defined(__x86_64__)
        sink = dividend / zero;
#else
        raise(SIGFPE); /* no trap on this processor: see the tests that leave it out */
#endif
        break;
    case SIGILL:
        __builtin_trap();
        break;
    }
}

static bool can_trap(int sig)
{
#if defined(__x86_64__)
    (void) sig;
    return true;
#else
    return sig != SIGFPE && sig != SIGILL;
#endif
}

/* ---- callbacks ---- */

static int die_signal;
static size_t die_at; /* the how manieth event or buffer */
static bool in_buffer;

static void dying_event(PEVENT_RECORD e)
{
    note_event(e);
    if (!in_buffer && notes.data == die_at)
        die_of(die_signal);
}

static void dying_legacy(PEVENT_TRACE e)
{
    (void) e;
    if (++notes.data == die_at)
        die_of(die_signal);
}

static ULONG dying_buffer(PEVENT_TRACE_LOGFILEA lf)
{
    (void) note_buffer(lf);
    if (in_buffer && notes.buffers == die_at)
        die_of(die_signal);
    return TRUE;
}

static char *path;

static TRACEHANDLE open_dying(void)
{
    EVENT_TRACE_LOGFILEA lf = {
        .LogFileName = path,
        .BufferCallback = dying_buffer,
        .EventRecordCallback = dying_event,
    };
    TRACEHANDLE h;

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    h = OpenTraceA(&lf);
    ck_assert(h != INVALID_PROCESSTRACE_HANDLE);
    return h;
}

static ULONG process_dying(void)
{
    TRACEHANDLE h = open_dying();
    ULONG code;

    notes_reset();
    code = ProcessTrace(&h, 1, NULL, NULL);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    return code;
}

static size_t mapped_kb(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages;

    ck_assert_int_eq(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return pages * 4;
}

static void check_default_actions(void)
{
    struct sigaction sa;
    stack_t st;
    sigset_t mask;

    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(sigaction(signals[i], NULL, &sa), 0);
        ck_assert(sa.sa_handler == SIG_DFL);
        ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
        ck_assert(!sigismember(&mask, signals[i]));
    }
    ck_assert_int_eq(sigaltstack(NULL, &st), 0);
    ck_assert_int_eq(st.ss_flags, SS_DISABLE);
}

static void setup(void)
{
    path = long_file("faults.etl", 10, 10);
    die_at = 25;
    in_buffer = false;
}

static void teardown(void)
{
    free(path);
}

/* ---- tests ---- */

START_TEST(each_signal)
{
    die_signal = signals[_i];
    if (!can_trap(die_signal))
        test_skip("this processor does not trap for it");
    ck_assert_uint_eq(process_dying(), ERROR_NOACCESS);
    ck_assert_uint_eq(GetLastError(), ERROR_NOACCESS);
    ck_assert_uint_eq(notes.data, 25);
    check_default_actions();
    /* The library goes on. */
    die_at = SIZE_MAX;
    ck_assert_uint_eq(process_dying(), ERROR_SUCCESS);
    ck_assert_uint_eq(notes.data, 100);
    check_default_actions();
}
END_TEST

START_TEST(in_a_buffer_callback)
{
    die_signal = signals[_i];
    if (!can_trap(die_signal))
        test_skip("this processor does not trap for it");
    in_buffer = true;
    die_at = 4;
    ck_assert_uint_eq(process_dying(), ERROR_NOACCESS);
    ck_assert_uint_eq(notes.buffers, 4);
    check_default_actions();
}
END_TEST

START_TEST(in_a_legacy_callback)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventCallback = dying_legacy};
    TRACEHANDLE h = OpenTraceA(&lf);

    die_signal = SIGSEGV;
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_NOACCESS);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    check_default_actions();
}
END_TEST

START_TEST(nothing_stays_behind)
{
    size_t fds;
    size_t kb;

    die_signal = SIGSEGV;
    for (int i = 0; i < 20; i++)
        ck_assert_uint_eq(process_dying(), ERROR_NOACCESS);
    fds = test_count_fds(getpid());
    kb = mapped_kb();
    for (int i = 0; i < 500; i++)
        ck_assert_uint_eq(process_dying(), ERROR_NOACCESS);
    ck_assert_uint_eq(test_count_fds(getpid()), fds);
    ck_assert_uint_le(mapped_kb(), kb + 64);
}
END_TEST

/* The handle was processed: only closing is left. */
START_TEST(the_handle_afterwards)
{
    TRACEHANDLE h = open_dying();

    die_signal = SIGSEGV;
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_NOACCESS);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    ck_assert_uint_eq(CloseTrace(h), ERROR_INVALID_HANDLE);
}
END_TEST

/* Ends for the compiler's eyes only. */
__attribute__((noinline, no_sanitize("address"))) static int overflow(int depth)
{
    volatile char room[4096];

    room[0] = (char) depth;
    room[4095] = room[0];
    return depth > 0 ? overflow(depth + 1) + room[4095] : 0;
}

static void overflowing_event(PEVENT_RECORD e)
{
    note_event(e);
    if (notes.data == die_at)
        sink = overflow(1);
}

static void *overflow_thread(void *arg)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = overflowing_event};
    ULONG *code = arg;
    TRACEHANDLE h;

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    notes.data = 0;
    h = OpenTraceA(&lf);
    *code = ProcessTrace(&h, 1, NULL, NULL);
    CloseTrace(h);
    return NULL;
}

START_TEST(stack_overflow)
{
    pthread_t thread;
    ULONG code = 0;

    overflow_thread(&code);
    ck_assert_uint_eq(code, ERROR_NOACCESS);
    check_default_actions();
    code = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, overflow_thread, &code), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(code, ERROR_NOACCESS);
}
END_TEST

/* A stack of the program's own is used and left alone. */
START_TEST(own_alternate_stack)
{
    stack_t mine = {.ss_size = 65536};
    stack_t now;

    mine.ss_sp = malloc(mine.ss_size);
    ck_assert_int_eq(sigaltstack(&mine, NULL), 0);
    die_signal = SIGSEGV;
    ck_assert_uint_eq(process_dying(), ERROR_NOACCESS);
    ck_assert_int_eq(sigaltstack(NULL, &now), 0);
    ck_assert_ptr_eq(now.ss_sp, mine.ss_sp);
    ck_assert_int_eq(now.ss_flags, 0);
    mine.ss_flags = SS_DISABLE;
    ck_assert_int_eq(sigaltstack(&mine, NULL), 0);
    free(mine.ss_sp);
}
END_TEST

/* Threads that block all signals are usual; a blocked fault would kill. */
START_TEST(blocked_signals)
{
    sigset_t all;
    sigset_t now;

    sigfillset(&all);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
    die_signal = SIGSEGV;
    ck_assert_uint_eq(process_dying(), ERROR_NOACCESS);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    for (size_t i = 0; i < 4; i++)
        ck_assert(sigismember(&now, signals[i]));
}
END_TEST

/* ---- the program's own handlers ---- */

static sigjmp_buf own_env;
static volatile sig_atomic_t own_calls;

static void own_handler(int sig)
{
    (void) sig;
    own_calls++;
    siglongjmp(own_env, 1);
}

static void surviving_event(PEVENT_RECORD e)
{
    note_event(e);
    if (notes.data == die_at && sigsetjmp(own_env, 1) == 0)
        die_of(die_signal);
}

START_TEST(own_handler_is_not_touched)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = surviving_event};
    struct sigaction mine = {.sa_handler = own_handler, .sa_flags = SA_RESTART};
    struct sigaction now;
    TRACEHANDLE h;

    die_signal = signals[_i];
    if (!can_trap(die_signal))
        test_skip("this processor does not trap for it");
    sigaddset(&mine.sa_mask, SIGUSR1);
    ck_assert_int_eq(sigaction(die_signal, &mine, NULL), 0);
    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    h = OpenTraceA(&lf);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(notes.data, 100);
    ck_assert_int_eq(own_calls, 1);
    CloseTrace(h);
    ck_assert_int_eq(sigaction(die_signal, NULL, &now), 0);
    ck_assert(now.sa_handler == own_handler);
    ck_assert_int_eq(now.sa_flags & SA_RESTART, SA_RESTART);
    ck_assert(sigismember(&now.sa_mask, SIGUSR1));
}
END_TEST

static void installing_event(PEVENT_RECORD e)
{
    if (notes.data == 0) {
        struct sigaction mine = {.sa_handler = own_handler};

        sigaction(SIGSEGV, &mine, NULL);
    }
    surviving_event(e);
}

/* Set while we run: it is used at once, and stays. */
START_TEST(own_handler_set_meanwhile)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = installing_event};
    struct sigaction now;
    TRACEHANDLE h;

    die_signal = SIGSEGV;
    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    h = OpenTraceA(&lf);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(notes.data, 100);
    ck_assert_int_eq(own_calls, 1);
    CloseTrace(h);
    ck_assert_int_eq(sigaction(SIGSEGV, NULL, &now), 0);
    ck_assert(now.sa_handler == own_handler);
    ck_assert_int_eq(sigaction(SIGBUS, NULL, &now), 0);
    ck_assert(now.sa_handler == SIG_DFL);
}
END_TEST

START_TEST(ignored_stays_ignored)
{
    struct sigaction now;

    signal(SIGFPE, SIG_IGN);
    die_signal = SIGSEGV;
    ck_assert_uint_eq(process_dying(), ERROR_NOACCESS);
    ck_assert_int_eq(sigaction(SIGFPE, NULL, &now), 0);
    ck_assert(now.sa_handler == SIG_IGN);
}
END_TEST

/* ---- several threads ---- */

static atomic_int stage;

static void waiting_event(PEVENT_RECORD e)
{
    (void) e;
    if (atomic_load(&stage) == 0)
        atomic_store(&stage, 1);
    while (atomic_load(&stage) != 2)
        usleep(1000);
}

static void *waiting_thread(void *arg)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = waiting_event};
    TRACEHANDLE h;

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    h = OpenTraceA(&lf);
    *(ULONG *) arg = ProcessTrace(&h, 1, NULL, NULL);
    CloseTrace(h);
    return NULL;
}

START_TEST(one_thread_dies_the_other_goes_on)
{
    pthread_t thread;
    ULONG code = 1;
    struct sigaction now;

    ck_assert_int_eq(pthread_create(&thread, NULL, waiting_thread, &code), 0);
    while (atomic_load(&stage) != 1)
        usleep(1000);
    die_signal = SIGSEGV;
    ck_assert_uint_eq(process_dying(), ERROR_NOACCESS);
    /* The other thread is still in: its faults would still be caught. */
    ck_assert_int_eq(sigaction(SIGSEGV, NULL, &now), 0);
    ck_assert(now.sa_handler != SIG_DFL);
    ck_assert_uint_eq(process_dying(), ERROR_NOACCESS);
    atomic_store(&stage, 2);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(code, ERROR_SUCCESS);
    check_default_actions();
}
END_TEST

static void *dying_thread(void *arg)
{
    (void) arg;
    while (atomic_load(&stage) != 1)
        usleep(1000);
    die_of(die_signal);
    return NULL;
}

static void *killed_thread(void *arg)
{
    while (atomic_load(&stage) != 1)
        usleep(1000);
    kill(getpid(), die_signal);
    for (;;)
        pause();
    return arg;
}

/* Runs body in a child; returns its wait status. */
static int in_child(void (*body)(void))
{
    int status;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        alarm(TEST_HANG_LIMIT_S);
        body();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void child_other_thread_dies(void)
{
    pthread_t thread;
    ULONG code;

    pthread_create(&thread, NULL, dying_thread, NULL);
    waiting_thread(&code);
}

/* Faults of threads that are not in a callback kill, as ever. */
START_TEST(fault_of_another_thread_kills)
{
    int status;

    die_signal = signals[_i];
    if (!can_trap(die_signal))
        test_skip("this processor does not trap for it");
    status = in_child(child_other_thread_dies);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), die_signal);
}
END_TEST

static void child_is_killed(void)
{
    pthread_t thread;
    ULONG code;

    pthread_create(&thread, NULL, killed_thread, NULL);
    waiting_thread(&code);
}

/* A signal that somebody sends is no fault, also when the callback's thread takes it. */
START_TEST(sent_signal_kills)
{
    int status;

    die_signal = signals[_i];
    status = in_child(child_is_killed);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), die_signal);
}
END_TEST

static void raising_event(PEVENT_RECORD e)
{
    (void) e;
    raise(die_signal);
}

static void child_raises(void)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = raising_event};
    TRACEHANDLE h;

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    h = OpenTraceA(&lf);
    (void) ProcessTrace(&h, 1, NULL, NULL);
}

START_TEST(raised_signal_kills)
{
    int status;

    die_signal = signals[_i];
    status = in_child(child_raises);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), die_signal);
}
END_TEST

static struct sigaction taken;

static void taking_event(PEVENT_RECORD e)
{
    note_event(e);
    sigaction(SIGSEGV, NULL, &taken);
}

static void child_puts_ours_back(void)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = taking_event};
    TRACEHANDLE h;

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    h = OpenTraceA(&lf);
    if (ProcessTrace(&h, 1, NULL, NULL) != ERROR_SUCCESS || taken.sa_handler == SIG_DFL)
        _exit(7);
    sigaction(SIGSEGV, &taken, NULL);
    die_of(SIGSEGV);
}

/* A program that restores what it saved while we ran gets the default action. */
START_TEST(our_handler_put_back_later)
{
    int status = in_child(child_puts_ours_back);

    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGSEGV);
}
END_TEST

/* ---- nested calls ---- */

static ULONG inner_code;

static void outer_event(PEVENT_RECORD e)
{
    note_event(e);
    if (notes.data == 50 && inner_code == 0) {
        struct notes outer = notes;

        memset(&notes, 0, sizeof(notes));
        inner_code = process_dying();
        notes_reset();
        notes = outer;
    }
    if (notes.data == 60)
        die_of(die_signal);
}

START_TEST(fault_in_an_inner_call)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = outer_event};
    TRACEHANDLE h;

    die_signal = SIGSEGV;
    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    h = OpenTraceA(&lf);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_NOACCESS);
    ck_assert_uint_eq(inner_code, ERROR_NOACCESS);
    ck_assert_uint_eq(notes.data, 60);
    CloseTrace(h);
    check_default_actions();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("consumer-faults");
    TCase *t = tcase_create("faults");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, each_signal, 0, 4);
    tcase_add_loop_test(t, in_a_buffer_callback, 0, 4);
    tcase_add_test(t, in_a_legacy_callback);
    tcase_add_test(t, nothing_stays_behind);
    tcase_add_test(t, the_handle_afterwards);
    tcase_add_test(t, stack_overflow);
    tcase_add_test(t, own_alternate_stack);
    tcase_add_test(t, blocked_signals);
    tcase_add_loop_test(t, own_handler_is_not_touched, 0, 4);
    tcase_add_test(t, own_handler_set_meanwhile);
    tcase_add_test(t, ignored_stays_ignored);
    tcase_add_test(t, one_thread_dies_the_other_goes_on);
    tcase_add_loop_test(t, fault_of_another_thread_kills, 0, 4);
    tcase_add_loop_test(t, sent_signal_kills, 0, 4);
    tcase_add_loop_test(t, raised_signal_kills, 0, 4);
    tcase_add_test(t, our_handler_put_back_later);
    tcase_add_test(t, fault_in_an_inner_call);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
