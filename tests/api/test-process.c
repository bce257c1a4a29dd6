/* SPDX-License-Identifier: Apache-2.0
 *
 * The library in a program's life: threads, fork, changed credentials, closed and scarce
 * descriptors, signals, cancellation, a hostile environment.
 */
#include "lib/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake-daemon.h"
#include "properties.h"

#define NOBODY 65534

static struct fake_daemon *d;
static const char *helper; /* secure-helper, or NULL */

static void setup(void)
{
    d = fake_daemon_start();
    ck_assert_int_eq(chmod(d->path, 0666), 0);
}

static void teardown(void)
{
    d = fake_daemon_stop(d);
}

static ULONG query(void)
{
    struct test_properties t;

    properties_init(&t, NULL);
    return QueryTraceA(0, "session", &t.p);
}

static ULONG start(const char *file)
{
    struct test_properties t;
    TRACEHANDLE h;

    properties_init(&t, file);
    return StartTraceA(&h, "session", &t.p);
}

/* Runs f in a child; its result is the exit status. */
static int in_child(int (*f)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(f());
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

START_TEST(nothing_stays_open)
{
    char *file = test_path("open.etl");
    size_t before;

    ck_assert_uint_eq(query(), ERROR_SUCCESS);
    before = test_count_fds(getpid());
    for (int i = 0; i < 50; i++) {
        ck_assert_uint_eq(query(), ERROR_SUCCESS);
        ck_assert_uint_eq(start(file), ERROR_SUCCESS);
    }
    d->reply_status = ERROR_ALREADY_EXISTS;
    for (int i = 0; i < 50; i++)
        ck_assert_uint_eq(start(file), ERROR_ALREADY_EXISTS);
    d->behaviour = FAKE_GARBAGE;
    for (int i = 0; i < 50; i++)
        ck_assert_uint_eq(start(file), ERROR_WMI_SERVER_UNAVAILABLE);
    /* The daemon's thread closes its ends of the last calls in its own time. */
    for (int i = 0; i < TEST_HANG_LIMIT_S * 1000 && test_count_fds(getpid()) > before; i++)
        usleep(1000);
    ck_assert_uint_le(test_count_fds(getpid()), before);
    free(file);
}
END_TEST

static void *query_often(void *arg)
{
    for (int i = 0; i < 50; i++)
        if (query() != ERROR_SUCCESS)
            atomic_fetch_add((atomic_int *) arg, 1);
    return NULL;
}

START_TEST(threads)
{
    pthread_t workers[8];
    atomic_int failures = 0;

    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&workers[i], NULL, query_often, &failures), 0);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_join(workers[i], NULL), 0);
    ck_assert_int_eq(failures, 0);
    ck_assert_uint_eq(d->connections, 8 * 50);
}
END_TEST

static int query_in_child(void)
{
    return (int) query();
}

START_TEST(forked_child_has_its_own_connection)
{
    ck_assert_uint_eq(query(), ERROR_SUCCESS);
    ck_assert_int_eq(d->last_pid, getpid());
    ck_assert_int_eq(in_child(query_in_child), 0);
    ck_assert_int_ne(d->last_pid, getpid());
    ck_assert_uint_eq(query(), ERROR_SUCCESS);
    ck_assert_int_eq(d->last_pid, getpid());
}
END_TEST

static int query_before_and_after_setuid(void)
{
    if (query() != ERROR_SUCCESS)
        return 1;
    if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
        return 2;
    return query() == ERROR_SUCCESS ? 0 : 3;
}

START_TEST(credentials_are_those_of_the_moment)
{
    test_need_root();
    ck_assert_int_eq(in_child(query_before_and_after_setuid), 0);
    ck_assert_uint_eq(d->last_uid, NOBODY);
}
END_TEST

/* Sockets and regular files among the low descriptors of the caller, while it waits for us. */
static atomic_int low_descriptors;

static void look_at_descriptors(struct fake_daemon *daemon)
{
    char dir[64], path[64 + 256];
    struct dirent *e;
    DIR *fds;

    (void) snprintf(dir, sizeof(dir), "/proc/%d/fd", (int) daemon->last_pid);
    fds = opendir(dir);
    if (!fds) {
        low_descriptors = 1000;
        return;
    }
    while ((e = readdir(fds))) {
        char target[256];
        ssize_t n;
        if (e->d_name[0] == '.' || atoi(e->d_name) > 2)
            continue;
        (void) snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        n = readlink(path, target, sizeof(target));
        if (n > 0 && strncmp(target, "/dev/", 5) != 0)
            low_descriptors++;
    }
    (void) closedir(fds);
}

static int start_without_standard_descriptors(void)
{
    char *file = test_path("low.etl");

    for (int fd = 0; fd <= 2; fd++)
        (void) close(fd);
    return (int) start(file);
}

START_TEST(standard_descriptors_are_left_alone)
{
    low_descriptors = 0;
    d->on_request = look_at_descriptors;
    ck_assert_int_eq(in_child(start_without_standard_descriptors), 0);
    ck_assert_int_eq(low_descriptors, 0);
    ck_assert(d->had_file);
}
END_TEST

static int start_with_few_descriptors(void)
{
    char *file = test_path("few.etl");
    struct rlimit few = {.rlim_cur = 30, .rlim_max = 30};
    int highest = -1;

    if (setrlimit(RLIMIT_NOFILE, &few) < 0)
        return 100;
    if (start(file) != ERROR_SUCCESS) /* low numbers do, when there are no others */
        return 101;
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;)
        highest = fd;
    if (start(file) != ERROR_TOO_MANY_OPEN_FILES)
        return 102;
    /* Room for the connection, not for the file. */
    (void) close(highest);
    return start(file) == ERROR_TOO_MANY_OPEN_FILES ? 0 : 103;
}

START_TEST(scarce_descriptors)
{
    ck_assert_int_eq(in_child(start_with_few_descriptors), 0);
}
END_TEST

static atomic_int asked;

static void wait_a_little(struct fake_daemon *daemon)
{
    (void) daemon;
    asked = 1;
    usleep(200000);
}

static atomic_int alarms;

static void on_alarm(int sig)
{
    (void) sig;
    alarms++;
}

START_TEST(signals_do_not_interrupt)
{
    struct sigaction sa = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct itimerval often = {.it_interval.tv_usec = 5000, .it_value.tv_usec = 5000};
    struct itimerval off = {0};

    d->on_request = wait_a_little;
    ck_assert_int_eq(sigaction(SIGALRM, &sa, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(query(), ERROR_SUCCESS);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &off, NULL), 0);
    ck_assert_int_gt(alarms, 3);
}
END_TEST

static void *query_until_cancelled(void *arg)
{
    *(ULONG *) arg = query();
    for (;;)
        pause(); /* where the cancellation takes effect */
    return NULL;
}

START_TEST(cancellation_waits)
{
    ULONG result = 4711;
    pthread_t t;
    void *status;
    size_t before;

    if (getenv("ETW_SANITIZED"))
        test_skip("the sanitizers' own thread state does not survive a cancellation");
    ck_assert_uint_eq(query(), ERROR_SUCCESS);
    before = test_count_fds(getpid());
    d->on_request = wait_a_little;
    asked = 0;
    ck_assert_int_eq(pthread_create(&t, NULL, query_until_cancelled, &result), 0);
    while (!asked)
        usleep(1000);
    ck_assert_int_eq(pthread_cancel(t), 0);
    ck_assert_int_eq(pthread_join(t, &status), 0);
    ck_assert_ptr_eq(status, PTHREAD_CANCELED);
    ck_assert_uint_eq(result, ERROR_SUCCESS); /* the call was finished first */
    for (int i = 0; i < TEST_HANG_LIMIT_S * 1000 && test_count_fds(getpid()) > before; i++)
        usleep(1000);
    ck_assert_uint_le(test_count_fds(getpid()), before);
}
END_TEST

START_TEST(daemon_that_comes_back)
{
    ck_assert_uint_eq(query(), ERROR_SUCCESS);
    d = fake_daemon_stop(d);
    ck_assert_uint_eq(query(), ERROR_WMI_SERVER_UNAVAILABLE);
    d = fake_daemon_start();
    ck_assert_uint_eq(query(), ERROR_SUCCESS);
}
END_TEST

START_TEST(daemon_that_hangs)
{
    struct timespec a, b;

    d->behaviour = FAKE_SILENT;
    (void) clock_gettime(CLOCK_MONOTONIC, &a);
    ck_assert_uint_eq(query(), ERROR_WMI_SERVER_UNAVAILABLE);
    (void) clock_gettime(CLOCK_MONOTONIC, &b);
    ck_assert_int_ge(b.tv_sec - a.tv_sec, 9); /* it was given its time */
}
END_TEST

START_TEST(queue_of_a_hanging_daemon)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char *path = test_path("stopped.sock");
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), waiting;

    /* Nobody accepts, and the queue is full. */
    strcpy(sa.sun_path, path);
    ck_assert_int_eq(bind(listener, (const struct sockaddr *) &sa, sizeof(sa)), 0);
    ck_assert_int_eq(listen(listener, 0), 0);
    do {
        waiting = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ck_assert_int_ge(waiting, 0);
    } while (connect(waiting, (const struct sockaddr *) &sa, sizeof(sa)) == 0);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(setenv("ETWD_SOCKET", path, 1), 0);
    ck_assert_uint_eq(query(), ERROR_WMI_SERVER_UNAVAILABLE);
    free(path);
}
END_TEST

START_TEST(empty_environment_means_the_default)
{
    /* Whoever listens there, it is not the fake daemon. */
    ck_assert_int_eq(setenv("ETWD_SOCKET", "", 1), 0);
    (void) query();
    ck_assert_int_eq(unsetenv("ETWD_SOCKET"), 0);
    (void) query();
    ck_assert_uint_eq(d->connections, 0);
}
END_TEST

/* A set-user-id program of root that an ordinary user runs with an environment of that user's. */
START_TEST(privileged_program_ignores_the_environment)
{
    char *copy = test_path("secure-helper");
    struct test_output out;
    pid_t pid;
    int status;

    test_need_root();
    if (!helper)
        test_skip("not with sanitizers");
    test_run_ok(&out, "cp", helper, copy);
    test_output_done(&out);
    ck_assert_int_eq(chmod(copy, 04755), 0);
    pid = fork();
    if (pid == 0) {
        if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
            _exit(100);
        (void) execl(copy, copy, (char *) NULL);
        _exit(101);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        test_skip("set-user-id programs have no effect here");
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_uint_eq(d->connections, 0);
    free(copy);
}
END_TEST

int main(int argc, char *argv[])
{
    Suite *s = suite_create("process");
    TCase *c = tcase_create("process");

    helper = argc > 1 ? argv[1] : NULL;
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, nothing_stays_open);
    tcase_add_test(c, threads);
    tcase_add_test(c, forked_child_has_its_own_connection);
    tcase_add_test(c, credentials_are_those_of_the_moment);
    tcase_add_test(c, standard_descriptors_are_left_alone);
    tcase_add_test(c, scarce_descriptors);
    tcase_add_test(c, signals_do_not_interrupt);
    tcase_add_test(c, cancellation_waits);
    tcase_add_test(c, daemon_that_comes_back);
    tcase_add_test(c, daemon_that_hangs);
    tcase_add_test(c, queue_of_a_hanging_daemon);
    tcase_add_test(c, empty_environment_means_the_default);
    tcase_add_test(c, privileged_program_ignores_the_environment);
    suite_add_tcase(s, c);
    return test_main(s);
}
