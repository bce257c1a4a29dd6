/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd as a service: restarts that sessions outlive, the watchdog, a daemon with nothing to do that
 * does nothing. The service manager is the test's own; test-units.c has the real one.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/manager.h"
#include "lib/test.h"
#include "named-session.h"

#define IDLE_S 10

/* Closed, and nothing lost. */
static void check_file(const char *name)
{
    struct test_output o;
    char *path = test_path(name);
    test_etwctl_ok(&o, "summary", path, "--json");
    struct json_object *j = test_json(o.out);
    ck_assert(test_json_bool(j, "complete"));
    ck_assert_uint_eq(test_json_u64(j, "events_lost"), 0);
    json_object_put(j);
    test_output_done(&o);
    free(path);
}

START_TEST(restart_hands_over)
{
    static const struct test_manager_options none;
    struct test_manager *m = test_manager_start(&none);
    start("one");
    for (int i = 0; i < 5; i++) {
        pid_t before = test_manager_pid(m);
        test_manager_restart(m);
        ck_assert_int_ne(test_manager_pid(m), before);
        test_loss_identity("one");
    }
    stop("one");
    check_file("one");
    start("two");
    test_manager_restart(m);
    test_manager_stop(m);
    check_file("two");
    (void) test_manager_free(m);
}
END_TEST

/* There is nobody to hand anything to. */
START_TEST(restart_alone)
{
    struct test_daemon *d = test_daemon_start();
    int status;
    start("one");
    ck_assert_int_eq(kill(d->pid, SIGUSR1), 0);
    ck_assert_int_eq(waitpid(d->pid, &status, 0), d->pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status 0x%x", (unsigned) status);
    d->pid = 0;
    check_file("one");
    (void) test_daemon_free(d);
}
END_TEST

START_TEST(watchdog_is_fed)
{
    struct test_manager *m =
        test_manager_start(&(struct test_manager_options){.watchdog_us = 3000000});
    start("one");
    test_manager_wait_watchdogs(m, 3);
    stop("one");
    test_manager_stop(m);
    (void) test_manager_free(m);
}
END_TEST

START_TEST(watchdog_bites)
{
    struct test_manager *m =
        test_manager_start(&(struct test_manager_options){.watchdog_us = 2000000});
    start("one");
    unsigned deaths = test_manager_deaths(m);
    ck_assert_int_eq(kill(test_manager_pid(m), SIGSTOP), 0);
    test_manager_wait_death(m, deaths + 1);
    test_loss_identity("one");
    stop("one");
    check_file("one");
    (void) test_manager_free(m);
}
END_TEST

/* How often the threads of a process went to sleep, and so were woken; the kernel's own threads for
 * io_uring, which it ends when it likes, aside. */
static uint64_t sleeps(pid_t pid)
{
    char path[300];
    uint64_t n = 0;
    (void) snprintf(path, sizeof(path), "/proc/%d/task", (int) pid);
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        (void) snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int) pid, e->d_name);
        char *text = test_read_file(path, NULL), *p = strstr(text, "\nvoluntary_ctxt_switches:");
        ck_assert_ptr_nonnull(p);
        if (strncmp(text, "Name:\tiou-", strlen("Name:\tiou-")) != 0)
            n += strtoull(p + strlen("\nvoluntary_ctxt_switches:"), NULL, 10);
        free(text);
    }
    closedir(dir);
    return n;
}

/* Woken by nobody for so long; what it has to end after its last client takes a moment. */
static void wait_asleep(pid_t pid, unsigned seconds)
{
    for (int i = 0; i < TEST_HANG_LIMIT_S; i++) {
        uint64_t before = sleeps(pid);
        sleep(seconds);
        if (sleeps(pid) == before)
            return;
    }
    ck_abort_msg("etwd does not sleep for %u s", seconds);
}

START_TEST(idle_sleeps)
{
    struct test_daemon *d = test_daemon_start();
    struct test_output o;
    /* As one that has worked. */
    start("one");
    stop("one");
    test_etwctl_ok(&o, "status");
    test_output_done(&o);
    wait_asleep(d->pid, IDLE_S);
    test_daemon_stop(d);
    (void) test_daemon_free(d);
}
END_TEST

static double now_real(void)
{
    struct timespec ts;
    (void) clock_gettime(CLOCK_REALTIME, &ts);
    return (double) ts.tv_sec + (double) ts.tv_nsec * 1e-9;
}

START_TEST(idle_makes_no_calls)
{
    struct test_output o;
    char *log = test_path("strace"), pid_text[16], *text;
    if (system("command -v strace >/dev/null") != 0)
        test_skip("needs strace");
    test_run(&o, "strace", "-f", "-qq", "-o", "/dev/null", "true");
    bool allowed = o.status == 0;
    test_output_done(&o);
    if (!allowed)
        test_skip("needs to be allowed to trace");

    struct test_daemon *d = test_daemon_start();
    start("one");
    stop("one");
    wait_asleep(d->pid, 2);
    (void) snprintf(pid_text, sizeof(pid_text), "%d", (int) d->pid);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void) execlp("strace", "strace", "-f", "-qq", "-ttt", "-o", log, "-p", pid_text,
                      (char *) NULL);
        _exit(127);
    }
    /* Until it sees calls; the attach itself interrupts those that sleep. */
    for (int ticks = 0;; ticks++) {
        struct test_output s;
        test_etwctl_ok(&s, "status");
        test_output_done(&s);
        if (access(log, F_OK) == 0) {
            text = test_read_file(log, NULL);
            bool seen = strstr(text, "accept") != NULL;
            free(text);
            if (seen)
                break;
        }
        ck_assert_int_lt(ticks, TEST_HANG_LIMIT_S * 10);
        usleep(100000);
    }
    wait_asleep(d->pid, 2);
    double from = now_real();
    sleep(IDLE_S);
    double to = now_real();
    ck_assert_int_eq(kill(pid, SIGINT), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    text = test_read_file(log, NULL);
    unsigned lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *after;
        (void) strtoul(line, &after, 10);
        double t = strtod(after, NULL);
        lines++;
        ck_assert_msg(t < from || t > to, "a system call of an idle etwd: %s", line);
    }
    ck_assert_uint_gt(lines, 0);
    free(text);
    free(log);
    test_daemon_stop(d);
    (void) test_daemon_free(d);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("service");
    TCase *c = tcase_create("service");
    tcase_set_timeout(c, 600);
    tcase_add_test(c, restart_hands_over);
    tcase_add_test(c, restart_alone);
    tcase_add_test(c, watchdog_is_fed);
    tcase_add_test(c, watchdog_bites);
    tcase_add_test(c, idle_sleeps);
    tcase_add_test(c, idle_makes_no_calls);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_main(suite());
}
