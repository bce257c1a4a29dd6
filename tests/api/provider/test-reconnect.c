/* SPDX-License-Identifier: Apache-2.0
 *
 * A daemon that is not there yet, goes, comes again; descriptors that the program closes; children.
 */
#include "lib/test.h"

#include <evntprov.h>
#include <evntrace.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "provider-daemon.h"

static const GUID guid = {0x11223344, 0x5566, 0x7788, {1, 2, 3, 4, 5, 6, 7, 8}};
static const EVENT_DESCRIPTOR plain = {.Id = 7, .Level = 4, .Keyword = 2};
static const struct shm_slot_config slot = {.state = SHM_SLOT_OPEN, .largest_event = 30000};
static struct etw_guid id;
static struct provider_daemon *d;
static REGHANDLE h;
static atomic_int codes[2];

static void NTAPI callback(LPCGUID source, ULONG code, UCHAR level, ULONGLONG any, ULONGLONG all,
                           PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    if (code < 2)
        atomic_fetch_add(&codes[code], 1);
}

static void daemon_start(const char *path)
{
    d = pd_start(path, 65536);
    pd_enable(d, &id, &slot, 1, 0);
}

static void setup(void)
{
    memcpy(&id, &guid, sizeof(id));
}

static void teardown(void)
{
    d = pd_stop(d);
}

static void wait_enabled(bool enabled)
{
    for (int i = 0; i < TEST_HANG_LIMIT_S * 1000 && EventProviderEnabled(h, 0, 0) != enabled; i++)
        (void) usleep(1000);
    ck_assert_int_eq(EventProviderEnabled(h, 0, 0), enabled);
}

static void wait_code(unsigned code, int n)
{
    for (int i = 0; i < TEST_HANG_LIMIT_S * 1000 && codes[code] != n; i++)
        (void) usleep(1000);
    ck_assert_int_eq(codes[code], n);
}

static unsigned events_of(pid_t pid)
{
    unsigned n = 0;

    for (unsigned k = 0; k < PD_CONNECTIONS; k++) {
        struct pd_connection *c = &d->connections[k];
        struct pd_event *e;
        size_t got;
        if (!c->was || c->pid != pid)
            continue;
        got = pd_read(d, c, &e);
        for (size_t i = 0; i < got; i++)
            ck_assert_uint_eq(e[i].tid, (uint32_t) pid);
        n += (unsigned) got;
        pd_events_free(e, got);
    }
    return n;
}

/* Writes until it is in this process's ring: a connection may just be coming. */
static void write_one(void)
{
    for (int i = 0; i < TEST_HANG_LIMIT_S * 1000; i++) {
        ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
        if (events_of(getpid()) > 0)
            return;
        (void) usleep(1000);
    }
    ck_abort_msg("no event arrives");
}

START_TEST(daemon_that_comes_later)
{
    /* Folders that come one by one, too. */
    char *path = test_path(_i == 0 ? "p.sock" : "a/b/p.sock");
    char *a = test_path("a");
    char *b = test_path("a/b");

    ck_assert_int_eq(setenv("ETWD_SOCKET", path, 1), 0);
    ck_assert_uint_eq(EventRegister(&guid, callback, NULL, &h), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
    (void) usleep(20000);
    if (_i > 0) {
        ck_assert_int_eq(mkdir(a, 0755), 0);
        (void) usleep(_i == 1 ? 20000 : 0);
        ck_assert_int_eq(mkdir(b, 0755), 0);
        (void) usleep(_i == 1 ? 20000 : 0);
    }
    daemon_start(path);
    wait_enabled(true);
    wait_code(1, 1);
    write_one();
    free(path);
    free(a);
    free(b);
}
END_TEST

START_TEST(daemon_that_goes_and_comes)
{
    char *path = test_path("again.sock");

    daemon_start(path);
    ck_assert_uint_eq(EventRegister(&guid, callback, NULL, &h), ERROR_SUCCESS);
    ck_assert_int_eq(codes[1], 1);
    for (int i = 0; i < 5; i++) {
        write_one();
        d = pd_stop(d);
        wait_enabled(false);
        wait_code(0, i + 1);
        ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
        daemon_start(path);
        wait_enabled(true);
        wait_code(1, i + 2);
    }
    write_one();
    free(path);
}
END_TEST

static atomic_bool stop_writers;

static void *writer(void *arg)
{
    uint8_t bytes[64] = {0};
    EVENT_DATA_DESCRIPTOR data;

    EventDataDescCreate(&data, bytes, sizeof(bytes));
    while (!atomic_load(&stop_writers))
        (void) EventWrite(h, &plain, 1, &data);
    return NULL;
}

START_TEST(daemon_that_goes_while_threads_write)
{
    char *path = test_path("busy.sock");
    pthread_t t[4];

    daemon_start(path);
    ck_assert_uint_eq(EventRegister(&guid, callback, NULL, &h), ERROR_SUCCESS);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, writer, NULL), 0);
    for (int i = 0; i < 10; i++) {
        struct pd_event *e;
        size_t n;
        (void) usleep(5000);
        n = pd_read(d, pd_connection(d), &e);
        pd_events_free(e, n);
        d = pd_stop(d);
        wait_enabled(false);
        daemon_start(path);
        wait_enabled(true);
    }
    atomic_store(&stop_writers, true);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(t[i], NULL), 0);
    free(path);
}
END_TEST

static bool attached_twice(struct provider_daemon *daemon, void *arg)
{
    return daemon->accepted >= 2 && daemon->connections[daemon->accepted - 1].registers > 0;
}

START_TEST(closed_descriptors_and_a_registration)
{
    static const GUID another = {5, 5, 5, {5}};
    REGHANDLE g;

    daemon_start(NULL);
    ck_assert_uint_eq(EventRegister(&guid, callback, NULL, &h), ERROR_SUCCESS);
    write_one();
    /* The program's own file may have our number now. */
    for (int fd = 100; fd < 110; fd++)
        ck_assert_int_eq(dup2(STDERR_FILENO, fd), fd);
    ck_assert_uint_eq(EventRegister(&another, NULL, NULL, &g), ERROR_SUCCESS);
    pd_wait(d, attached_twice, NULL);
    wait_enabled(true);
    write_one();
    for (int fd = 100; fd < 110; fd++) {
        struct stat st[2];
        ck_assert_int_eq(fstat(fd, &st[0]), 0);
        ck_assert_int_eq(fstat(STDERR_FILENO, &st[1]), 0);
        ck_assert_uint_eq(st[0].st_ino, st[1].st_ino);
    }
}
END_TEST

START_TEST(closed_descriptors_and_a_message)
{
    daemon_start(NULL);
    ck_assert_uint_eq(EventRegister(&guid, callback, NULL, &h), ERROR_SUCCESS);
    write_one();
    for (int fd = 100; fd < 110; fd++)
        (void) close(fd);
    /* What the daemon says next still comes, and shows that the descriptor is gone. */
    pd_change(d, &id, EVENT_CONTROL_CODE_CAPTURE_STATE, NULL, NULL, 0, 0);
    pd_wait(d, attached_twice, NULL);
    wait_enabled(true);
    write_one();
}
END_TEST

START_TEST(closed_descriptors_and_a_wake)
{
    struct pd_connection *c;

    daemon_start(NULL);
    ck_assert_uint_eq(EventRegister(&guid, callback, NULL, &h), ERROR_SUCCESS);
    write_one();
    c = pd_connection(d);
    for (int fd = 100; fd < 110; fd++)
        (void) close(fd);
    for (unsigned i = 1; i < 4000 && d->accepted < 3; i++) {
        pd_sleep(d, c, i << 1 | SHM_SLEEP_LOW_LATENCY);
        (void) EventWrite(h, &plain, 0, NULL);
        (void) usleep(1000);
        if (c->fd < 0)
            break;
    }
    wait_enabled(true);
    write_one();
}
END_TEST

/* ---- children ---- */

enum kind { FORK, UNDER_FORK, CLONE };

static pid_t child_of(enum kind kind)
{
    switch (kind) {
    case FORK:
        return fork();
    case UNDER_FORK:
        return _Fork();
    case CLONE:
        return (pid_t) syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    }
    return -1;
}

static void child_exit(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "signal %d", WTERMSIG(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

START_TEST(children)
{
    pid_t pid;

    daemon_start(NULL);
    ck_assert_uint_eq(EventRegister(&guid, callback, NULL, &h), ERROR_SUCCESS);
    if (_i >= 3) /* the parent has a ring */
        write_one();
    pid = child_of((enum kind)(_i % 3));
    if (pid == 0) {
        ULONG r = 0;
        for (unsigned i = 0; i < 10; i++)
            r |= EventWrite(h, &plain, 0, NULL);
        (void) syscall(SYS_exit_group, r == 0 && EventUnregister(h) == 0 ? 0 : 1);
    }
    ck_assert_int_gt(pid, 0);
    child_exit(pid);
    ck_assert_uint_eq(events_of(pid), 10);
    /* The parent's were left alone. */
    ck_assert_uint_eq(events_of(getpid()), 0);
    write_one();
}
END_TEST

START_TEST(child_of_a_child)
{
    pid_t pid;

    daemon_start(NULL);
    ck_assert_uint_eq(EventRegister(&guid, callback, NULL, &h), ERROR_SUCCESS);
    pid = fork();
    if (pid == 0) {
        pid_t inner;
        if (_i == 1 && EventWrite(h, &plain, 0, NULL) != 0)
            _exit(2);
        inner = fork();
        if (inner == 0)
            _exit(EventWrite(h, &plain, 0, NULL) == 0 ? 0 : 3);
        if (inner < 0 || waitpid(inner, NULL, 0) != inner)
            _exit(4);
        _exit(EventWrite(h, &plain, 0, NULL) == 0 ? 0 : 5);
    }
    child_exit(pid);
    ck_assert_uint_eq(events_of(pid), 1 + (unsigned) _i);
    ck_assert_uint_eq(d->accepted, 3);
}
END_TEST

START_TEST(child_that_is_enabled_later)
{
    /* The parent ends, as in daemon(3): what it was told helps nobody. */
    char *path = test_path("later.sock");
    int got[2];
    pid_t child;
    pid_t pid;

    if (getenv("ETW_SANITIZED"))
        test_skip("the sanitizer's malloc is not whole in a child of a process with threads");
    d = pd_start(path, 65536);
    ck_assert_int_eq(pipe(got), 0);
    pid = fork();
    if (pid == 0) {
        if (EventRegister(&guid, callback, NULL, &h) != 0)
            _exit(1);
        pid = fork();
        if (pid != 0)
            _exit(0);
        pid = getpid();
        /* Nobody wants it now; it connects all the same. */
        (void) EventWrite(h, &plain, 0, NULL);
        (void) !write(got[1], &pid, sizeof(pid));
        for (int i = 0; i < 60000 && codes[1] == 0; i++)
            (void) usleep(1000);
        (void) EventWrite(h, &plain, 0, NULL);
        (void) !write(got[1], &pid, sizeof(pid));
        _exit(0);
    }
    child_exit(pid);
    ck_assert_int_eq(read(got[0], &child, sizeof(child)), sizeof(child));
    pd_enable(d, &id, &slot, 1, 0);
    ck_assert_int_eq(read(got[0], &child, sizeof(child)), sizeof(child));
    ck_assert_uint_eq(events_of(child), 1);
    free(path);
}
END_TEST

START_TEST(child_that_only_executes)
{
    daemon_start(NULL);
    ck_assert_uint_eq(EventRegister(&guid, callback, NULL, &h), ERROR_SUCCESS);
    for (int i = 0; i < 10; i++) {
        pid_t pid = _i ? vfork() : fork();
        if (pid == 0) {
            (void) execl("/bin/true", "true", (char *) NULL);
            _exit(1);
        }
        child_exit(pid);
    }
    ck_assert_uint_eq(d->accepted, 1);
    write_one();
}
END_TEST

static void fork_in_handler(int signal)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(EventWrite(h, &plain, 0, NULL) == 0 ? 0 : 1);
    child_exit(pid);
}

START_TEST(child_of_a_handler)
{
    struct sigaction sa = {.sa_handler = fork_in_handler};

    daemon_start(NULL);
    ck_assert_uint_eq(EventRegister(&guid, callback, NULL, &h), ERROR_SUCCESS);
    write_one();
    ck_assert_int_eq(sigaction(SIGUSR1, &sa, NULL), 0);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(raise(SIGUSR1), 0);
        write_one();
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-reconnect");
    TCase *t = tcase_create("reconnect");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, daemon_that_comes_later, 0, 3);
    tcase_add_test(t, daemon_that_goes_and_comes);
    tcase_add_test(t, daemon_that_goes_while_threads_write);
    tcase_add_test(t, closed_descriptors_and_a_registration);
    tcase_add_test(t, closed_descriptors_and_a_message);
    tcase_add_test(t, closed_descriptors_and_a_wake);
    suite_add_tcase(s, t);
    t = tcase_create("children");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, children, 0, 6);
    tcase_add_loop_test(t, child_of_a_child, 0, 2);
    tcase_add_test(t, child_that_is_enabled_later);
    tcase_add_loop_test(t, child_that_only_executes, 0, 2);
    tcase_add_test(t, child_of_a_handler);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
