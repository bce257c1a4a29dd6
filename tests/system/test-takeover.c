/* SPDX-License-Identifier: Apache-2.0
 *
 * A killed etwd and its successor, without providers: sessions, their files and connections under a
 * service manager of the test's own. With providers: test-takeover-events.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/manager.h"
#include "lib/test.h"
#include "named-session.h"

static struct test_manager *manager;

static void begin(const struct test_manager_options *o)
{
    static const struct test_manager_options none;
    manager = test_manager_start(o ? o : &none);
}

static void end(void)
{
    char *log;
    test_manager_stop(manager);
    log = test_manager_log(manager);
    ck_assert_msg(!strstr(log, "Sanitizer"), "%s", log);
    free(log);
    manager = test_manager_free(manager);
}

static struct json_object *show(const char *name)
{
    struct test_output o;
    test_etwctl_ok(&o, "show", name, "--json");
    struct json_object *j = test_json(o.out);
    test_output_done(&o);
    return j;
}

static bool runs(const char *name)
{
    struct test_output o;
    test_etwctl(&o, "show", name, "--json");
    bool there = o.status == 0;
    test_output_done(&o);
    return there;
}

/* The file is whole, and its events are as many as the session counted. */
static void check_file(const char *name, bool complete, uint64_t recorded)
{
    struct test_output o;
    char *path = test_path(name);
    test_etwctl(&o, "summary", path, "--json");
    ck_assert_msg(o.status == (complete ? 0 : 4), "%s: exit status %d, %s", path, o.status, o.err);
    struct json_object *j = test_json(o.out);
    ck_assert_msg(test_json_bool(j, "complete") == complete, "%s: %s", name, o.out);
    if (complete) {
        ck_assert_uint_eq(test_json_u64(j, "events_lost"), 0);
        if (recorded)
            ck_assert_uint_eq(test_json_u64(j, "events"), recorded + 1); /* the header's */
    }
    json_object_put(j);
    test_output_done(&o);
    free(path);
}

/* The same session; it may have got a ClockSync event meanwhile, since somebody set the clock. */
static void check_same(struct json_object *before, struct json_object *after)
{
    static const char *const counts[] = {"written", "recorded"};
    struct json_object *copy = test_json(json_object_to_json_string(before));
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_ge(test_json_u64(after, counts[i]), test_json_u64(copy, counts[i]));
        json_object_object_add(copy, counts[i], json_object_get(test_json_get(after, counts[i])));
    }
    ck_assert_str_eq(json_object_to_json_string(copy), json_object_to_json_string(after));
    json_object_put(copy);
}

START_TEST(sessions_go_on)
{
    begin(NULL);
    start("one");
    start("two");
    struct json_object *before = show("one"), *after;
    ck_assert(test_manager_has(manager, "state"));
    size_t stored = test_manager_stored(manager);
    ck_assert_uint_eq(stored, 6); /* state, socket, and two a session */
    for (int i = 0; i < 3; i++) {
        test_manager_kill(manager);
        after = show("one");
        check_same(before, after);
        json_object_put(after);
        test_loss_identity("two");
        ck_assert_uint_eq(test_manager_stored(manager), stored);
    }
    uint64_t recorded = test_json_u64(before, "recorded");
    json_object_put(before);
    /* Ids and handles are not given again. */
    start("three");
    before = show("two");
    after = show("three");
    ck_assert_uint_ne(test_json_u64(before, "handle"), test_json_u64(after, "handle"));
    json_object_put(before);
    json_object_put(after);
    stop("one");
    check_file("one", true, recorded);
    test_manager_kill(manager);
    ck_assert(!runs("one"));
    stop("two");
    stop("three");
    check_file("two", true, recorded);
    check_file("three", true, recorded);
    ck_assert_uint_eq(test_manager_stored(manager), 2);
    end();
}
END_TEST

/* What is flushed is in the file; what is not comes with the stop of a successor. */
START_TEST(flush_goes_on)
{
    struct test_output o;
    begin(NULL);
    start("flushed");
    test_etwctl_ok(&o, "flush", "flushed");
    test_output_done(&o);
    test_manager_kill(manager);
    test_etwctl_ok(&o, "flush", "flushed");
    test_output_done(&o);
    test_manager_kill(manager);
    struct json_object *j = show("flushed");
    uint64_t recorded = test_json_u64(j, "recorded");
    json_object_put(j);
    stop("flushed");
    check_file("flushed", true, recorded);
    end();
}
END_TEST

/* Killed at any moment of start, flush and stop: a session is there or not, and when its stop was
 * answered its file is whole. */
START_TEST(killed_during_calls)
{
    unsigned seed = 1;
    begin(NULL);
    start("still");
    int rounds = test_scale(20);
    char *path = test_path("busy");
    for (int i = 0; i < rounds; i++) {
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            const char *etwctl = test_env("ETWCTL");
            char command[4096];
            (void) snprintf(command, sizeof(command),
                            "'%s' start busy -o '%s' && '%s' flush busy && '%s' stop busy", etwctl,
                            path, etwctl, etwctl);
            if (!freopen("/dev/null", "w", stderr))
                _exit(126);
            (void) execl("/bin/sh", "sh", "-c", command, (char *) NULL);
            _exit(127);
        }
        usleep((useconds_t) (rand_r(&seed) % 30000));
        test_manager_kill(manager);
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        /* A stop that was under way goes on. */
        for (int k = 0; runs("busy") && k < TEST_HANG_LIMIT_S * 100; k++) {
            struct json_object *j = show("busy");
            json_object_put(j);
            struct test_output o;
            test_etwctl(&o, "stop", "busy");
            test_output_done(&o);
            usleep(10000);
        }
        ck_assert(!runs("busy"));
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            check_file("busy", true, 0);
        (void) unlink(path);
        test_loss_identity("still");
    }
    free(path);
    stop("still");
    check_file("still", true, 0);
    end();
}
END_TEST

static bool log_says(const char *text)
{
    char *log = test_manager_log(manager);
    bool found = strstr(log, text) != NULL;
    free(log);
    return found;
}

/* A state that cannot be read: the start goes on, sessions are told of, their files stay. */
static void unreadable(long offset, const void *bytes, size_t size)
{
    begin(NULL);
    start("gone");
    test_manager_kill_and_write(manager, offset, bytes, size);
    ck_assert(!runs("gone"));
    ck_assert(log_says("cannot be read"));
    ck_assert(test_manager_has(manager, "aside"));
    ck_assert(test_manager_has(manager, "state"));
    check_file("gone", false, 0);
    /* And all is well from here on, also the next time. */
    start("new");
    test_manager_kill(manager);
    ck_assert(runs("new"));
    stop("new");
    check_file("new", true, 0);
    manager = test_manager_free(manager);
}

START_TEST(state_unreadable)
{
    static const uint64_t magic = 7;
    unreadable(0, &magic, sizeof(magic));
}
END_TEST

START_TEST(state_of_another_version)
{
    static const uint32_t version = 99;
    unreadable(8, &version, sizeof(version));
}
END_TEST

/* A session whose block is damaged is lost alone. */
START_TEST(blocks_damaged)
{
    static const unsigned char zeros[64];
    begin(NULL);
    start("hurt");
    test_manager_kill_and_write(manager, 64l << 20, zeros, sizeof(zeros));
    ck_assert(!runs("hurt"));
    ck_assert(log_says("does not hold together"));
    start("new");
    stop("new");
    manager = test_manager_free(manager);
}
END_TEST

START_TEST(store_is_full)
{
    static const char *const args[] = {"-o", "FdStoreMax=16", NULL};
    struct test_output o;
    char name[16], *path;
    int n = 0;
    begin(&(struct test_manager_options){.args = args, .store_max = 16});
    for (;; n++) {
        (void) snprintf(name, sizeof(name), "s%d", n);
        path = test_path(name);
        test_etwctl(&o, "start", name, "-o", path);
        free(path);
        if (o.status != 0)
            break;
        test_output_done(&o);
        ck_assert_int_lt(n, 16);
    }
    ck_assert_msg(strstr(o.err, "FdStoreMax=16") != NULL, "%s", o.err);
    test_output_done(&o);
    ck_assert_int_ge(n, 5);
    ck_assert_uint_eq(test_manager_dropped(manager), 0);
    test_manager_kill(manager);
    for (int i = 0; i < n; i++) {
        (void) snprintf(name, sizeof(name), "s%d", i);
        stop(name);
        check_file(name, true, 0);
    }
    end();
}
END_TEST

/* More than the manager keeps: what it dropped is lost and told of, nothing else. */
START_TEST(manager_drops)
{
    begin(&(struct test_manager_options){.store_max = 5});
    start("kept");
    start("lost");
    /* It reads what it is told on its own time. */
    while (test_manager_dropped(manager) == 0)
        usleep(5000);
    test_manager_kill(manager);
    ck_assert(runs("kept"));
    ck_assert(!runs("lost"));
    ck_assert(log_says("not in the descriptor store"));
    stop("kept");
    check_file("kept", true, 0);
    end();
}
END_TEST

START_TEST(socket_unit)
{
    begin(&(struct test_manager_options){.socket_unit = true});
    start("one");
    test_manager_kill(manager);
    ck_assert(runs("one"));
    stop("one");
    check_file("one", true, 0);
    end();
}
END_TEST

/* A bound session lives as long as its connection, whoever serves that. */
START_TEST(bound_session)
{
    begin(NULL);
    char *path = test_path("bound");
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void) execl(test_env("ETWCTL"), "etwctl", "start", "bound", "--bound", "-o", path,
                     (char *) NULL);
        _exit(127);
    }
    while (!runs("bound"))
        usleep(5000);
    ck_assert_uint_eq(test_manager_stored(manager), 5);
    test_manager_kill(manager);
    test_manager_kill(manager);
    ck_assert(runs("bound"));
    /* It also ends when the process goes while nobody serves the connection. */
    test_manager_kill_only(manager);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    test_manager_wait_ready(manager);
    while (runs("bound"))
        usleep(5000);
    check_file("bound", true, 0);
    free(path);
    end();
}
END_TEST

/* SIGTERM ends sessions in good order, also of a successor. */
START_TEST(sigterm_finalises)
{
    begin(NULL);
    start("one");
    test_manager_kill(manager);
    end();
    check_file("one", true, 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("takeover");
    TCase *c = tcase_create("takeover");
    tcase_set_timeout(c, 900);
    tcase_add_test(c, sessions_go_on);
    tcase_add_test(c, flush_goes_on);
    tcase_add_test(c, killed_during_calls);
    tcase_add_test(c, state_unreadable);
    tcase_add_test(c, state_of_another_version);
    tcase_add_test(c, blocks_damaged);
    tcase_add_test(c, store_is_full);
    tcase_add_test(c, manager_drops);
    tcase_add_test(c, socket_unit);
    tcase_add_test(c, bound_session);
    tcase_add_test(c, sigterm_finalises);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_main(suite());
}
