/* SPDX-License-Identifier: Apache-2.0
 *
 * etwctl against a private etwd: status, list, show, start, stop, flush, record, and what is left
 * behind when they fail or are interrupted.
 */
#include "lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct test_daemon *daemon_;

static void setup(void)
{
    daemon_ = test_daemon_start();
}

static void teardown(void)
{
    test_daemon_stop(daemon_);
    daemon_ = test_daemon_free(daemon_);
}

static struct json_object *etwctl_json(const char *verb, const char *name)
{
    struct test_output o;
    struct json_object *j;
    const char *argv[] = {test_env("ETWCTL"), verb, "--json", name, NULL};

    test_run_ok_limit(&o, 0, argv);
    j = test_json(o.out);
    test_output_done(&o);
    return j;
}

static size_t sessions(void)
{
    struct json_object *l = etwctl_json("list", NULL);
    size_t n = json_object_array_length(l);

    json_object_put(l);
    return n;
}

/* etwctl in the background, its stderr in a file. */
static pid_t background(const char *err, const char *const argv[])
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int fd = open(err, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || dup2(fd, 2) < 0)
            _exit(126);
        execv(argv[0], (char *const *) argv);
        _exit(127);
    }
    return pid;
}

/* Waits for its end: exit status, or 128 + signal. */
static int end_of(pid_t pid)
{
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100; i++) {
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        usleep(10000);
    }
    kill(pid, SIGKILL);
    ck_abort_msg("etwctl did not end");
}

static void wait_for_file(const char *path)
{
    for (int i = 0; access(path, F_OK) < 0; i++) {
        ck_assert_msg(i < TEST_HANG_LIMIT_S * 100, "%s does not appear", path);
        usleep(10000);
    }
}

static void wait_for_sessions(size_t n)
{
    for (int i = 0; sessions() != n; i++) {
        ck_assert_msg(i < TEST_HANG_LIMIT_S * 20, "there are still not %zu sessions", n);
        usleep(50000);
    }
}

static void check_complete(const char *file)
{
    struct json_object *s = etwctl_json("summary", file);

    ck_assert(test_json_bool(s, "complete"));
    json_object_put(s);
}

START_TEST(status_and_doctor)
{
    struct json_object *s = etwctl_json("status", NULL);
    struct test_output o;

    ck_assert(test_json_bool(s, "reachable"));
    ck_assert_str_eq(test_json_str(s, "socket"), daemon_->socket);
    ck_assert_uint_eq(test_json_u64(s, "pid"), (uint64_t) daemon_->pid);
    ck_assert_uint_eq(test_json_u64(s, "sessions"), 0);
    ck_assert_uint_ge(test_json_u64(s, "max_sessions"), 1);
    ck_assert_uint_ge(test_json_u64(s, "processors"), 1);
    ck_assert_uint_ge(test_json_u64(s, "connections"), 1);
    (void) test_json_bool(s, "kernel.available");
    json_object_put(s);
    test_etwctl_ok(&o, "status");
    ck_assert_ptr_nonnull(strstr(o.out, daemon_->socket));
    test_output_done(&o);

    test_etwctl(&o, "doctor", "--json");
    ck_assert(o.status == 0 || o.status == 1);
    s = test_json(o.out);
    ck_assert_str_eq(test_json_str(json_object_array_get_idx(s, 0), "check"), "daemon");
    ck_assert(test_json_bool(json_object_array_get_idx(s, 0), "ok"));
    bool all = true;
    for (size_t i = 0; i < json_object_array_length(s); i++)
        all &= test_json_bool(json_object_array_get_idx(s, i), "ok");
    ck_assert_int_eq(o.status, all ? 0 : 1);
    json_object_put(s);
    test_output_done(&o);
}
END_TEST

START_TEST(a_session)
{
    static const char *const keys[] = {
        "name",
        "handle",
        "guid",
        "owner_uid",
        "modes",
        "log_file",
        "clock",
        "buffer_size_kb",
        "min_buffers",
        "max_buffers",
        "buffers_in_use",
        "buffers_written",
        "flush_timer_s",
        "real_time_consumers",
        "written",
        "recorded",
        "overwritten",
        "lost",
        "events_lost",
        "log_buffers_lost",
        "real_time_buffers_lost",
        "inert_flags",
        "providers",
    };
    char *file = test_path("web.etl");
    struct json_object *s, *l, *v;
    struct test_output o;

    l = etwctl_json("list", NULL);
    ck_assert(json_object_is_type(l, json_type_array));
    ck_assert_uint_eq(json_object_array_length(l), 0);
    json_object_put(l);
    test_etwctl_ok(&o, "list");
    ck_assert_str_eq(o.out, "");
    test_output_done(&o);

    test_etwctl_ok(&o, "start", "web", "-o", file, "--buffer-size", "128K", "--buffers", "6:10",
                   "--flush-timer", "5s", "--clock", "qpc", "--max-size", "3M");
    ck_assert_str_eq(o.out, "");
    ck_assert_str_eq(o.err, "");
    test_output_done(&o);

    s = etwctl_json("show", "web");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        ck_assert_msg(json_object_object_get_ex(s, keys[i], &v), "no '%s'", keys[i]);
    ck_assert_str_eq(test_json_str(s, "name"), "web");
    ck_assert_str_eq(test_json_str(s, "log_file"), file);
    ck_assert_str_eq(test_json_str(s, "clock"), "qpc");
    ck_assert_uint_eq(test_json_u64(s, "owner_uid"), getuid());
    ck_assert_uint_eq(test_json_u64(s, "buffer_size_kb"), 128);
    ck_assert_uint_ge(test_json_u64(s, "min_buffers"), 6);
    ck_assert_uint_ge(test_json_u64(s, "max_buffers"), 10);
    ck_assert_uint_eq(test_json_u64(s, "flush_timer_s"), 5);
    ck_assert_uint_eq(test_json_u64(s, "maximum_file_size"), 3);
    ck_assert_uint_eq(strlen(test_json_str(s, "guid")), 36);
    ck_assert_str_eq(
        json_object_get_string(json_object_array_get_idx(test_json_get(s, "modes"), 0)),
        "sequential");
    test_loss_identity_object(s);
    json_object_put(s);
    /* names do not care for case */
    s = etwctl_json("show", "WEB");
    ck_assert_str_eq(test_json_str(s, "name"), "web");
    json_object_put(s);

    ck_assert_uint_eq(sessions(), 1);
    test_etwctl_ok(&o, "list");
    ck_assert_ptr_eq(strstr(o.out, "web "), o.out);
    ck_assert_ptr_nonnull(strstr(o.out, file));
    test_output_done(&o);
    test_etwctl_ok(&o, "show", "web");
    ck_assert_ptr_nonnull(strstr(o.out, "session: web\n"));
    test_output_done(&o);

    s = etwctl_json("flush", "web");
    ck_assert_str_eq(test_json_str(s, "name"), "web");
    json_object_put(s);
    test_etwctl_ok(&o, "stop", "web");
    ck_assert_str_eq(o.out, "");
    ck_assert_ptr_nonnull(strstr(o.err, file));
    ck_assert_ptr_nonnull(strstr(o.err, " 0 lost, "));
    test_output_done(&o);
    ck_assert_uint_eq(sessions(), 0);
    check_complete(file);

    test_etwctl(&o, "stop", "web");
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "ERROR_WMI_INSTANCE_NOT_FOUND"));
    test_output_done(&o);
    test_etwctl(&o, "show", "web");
    ck_assert_int_eq(o.status, 1);
    test_output_done(&o);
    free(file);
}
END_TEST

static uint64_t shown(const char *session, const char *key)
{
    struct test_output o;
    test_etwctl_ok(&o, "show", session, "--json");
    struct json_object *s = test_json(o.out);
    uint64_t n = test_json_u64(s, key);
    json_object_put(s);
    test_output_done(&o);
    return n;
}

/* What is named changes, all else stays. */
START_TEST(update)
{
    char *file = test_path("update.etl");
    struct test_output o;

    test_etwctl_ok(&o, "start", "web", "-o", file, "--buffers", "2:10");
    test_output_done(&o);
    test_etwctl_ok(&o, "update", "web", "--buffers", "50");
    test_output_done(&o);
    ck_assert_uint_eq(shown("web", "max_buffers"), 50);
    ck_assert_uint_eq(shown("web", "flush_timer_s"), 0);
    test_etwctl_ok(&o, "update", "web", "--flush-timer", "7s", "--json");
    struct json_object *s = test_json(o.out);
    ck_assert_uint_eq(test_json_u64(s, "flush_timer_s"), 7);
    ck_assert_uint_eq(test_json_u64(s, "max_buffers"), 50);
    json_object_put(s);
    test_output_done(&o);
    test_etwctl(&o, "update", "web", "--buffers", "20");
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "can only grow"));
    test_output_done(&o);
    test_etwctl(&o, "update", "web");
    ck_assert_int_eq(o.status, 2);
    test_output_done(&o);
    test_etwctl(&o, "update", "other", "--buffers", "20");
    ck_assert_int_eq(o.status, 1);
    test_output_done(&o);
    test_etwctl(&o, "update", "web", "--buffers", "999999");
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "MaxBufferMemoryMB"));
    test_output_done(&o);
    test_loss_identity("web");
    test_etwctl_ok(&o, "stop", "web");
    test_output_done(&o);
    free(file);
}
END_TEST

START_TEST(many_sessions_in_pages)
{
    struct test_output o;
    char name[1100], path[64];
    int n = 30;

    /* long names, so that one message does not hold them all */
    memset(name, 'n', sizeof(name));
    for (int i = 0; i < n; i++) {
        (void) snprintf(name, sizeof(name), "session-%03d-%0950d", i, 0);
        (void) snprintf(path, sizeof(path), "many-%d.etl", i);
        char *file = test_path(path);
        test_etwctl_ok(&o, "start", name, "-o", file);
        test_output_done(&o);
        free(file);
    }
    struct json_object *l = etwctl_json("list", NULL);
    ck_assert_uint_eq(json_object_array_length(l), (size_t) n);
    for (int i = 0; i < n; i++) {
        (void) snprintf(name, sizeof(name), "session-%03d-%0950d", i, 0);
        bool found = false;
        for (int k = 0; k < n; k++)
            found |= !strcmp(test_json_str(json_object_array_get_idx(l, (size_t) k), "name"), name);
        ck_assert_msg(found, "%.20s is not listed", name);
        test_etwctl_ok(&o, "stop", name);
        test_output_done(&o);
    }
    json_object_put(l);
}
END_TEST

START_TEST(hostile_session_name)
{
    static const char name[] = "\033[31mevil\n\xC2\x9B\xE2\x80\xAE";
    char *file = test_path("evil.etl");
    struct test_output o;
    struct json_object *s;

    test_etwctl_ok(&o, "start", name, "-o", file);
    test_output_done(&o);
    for (int json = 0; json < 2; json++)
        for (int show = 0; show < 2; show++) {
            const char *argv[] = {test_env("ETWCTL"), show ? "show" : "list",
                                  json ? "--json" : "--no-legend", show ? name : NULL, NULL};
            test_run_ok_limit(&o, 0, argv);
            for (const char *p = o.out; *p; p++)
                ck_assert_msg(*p == '\n' || (unsigned char) *p >= 0x20, "control 0x%02x in %s",
                              (unsigned) *p, o.out);
            ck_assert_ptr_null(strstr(o.out, "\xC2\x9B"));
            ck_assert_ptr_null(strstr(o.out, "\xE2\x80\xAE"));
            ck_assert_ptr_nonnull(strstr(o.out, "[31mevil"));
            test_output_done(&o);
        }
    s = etwctl_json("show", name);
    ck_assert_str_eq(test_json_str(s, "name"), name);
    json_object_put(s);
    test_etwctl_ok(&o, "stop", name);
    test_output_done(&o);
    free(file);
}
END_TEST

START_TEST(failed_starts_leave_nothing)
{
    char *one = test_path("one.etl"), *two = test_path("two.etl"), *dir = test_path("dir.etl");
    struct test_output o;
    char *content;

    test_etwctl_ok(&o, "start", "web", "-o", one);
    test_output_done(&o);

    /* the name is taken: whose it is, and no file */
    test_etwctl(&o, "start", "WEB", "-o", two);
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "runs already"));
    ck_assert_ptr_nonnull(strstr(o.err, "(uid "));
    test_output_done(&o);
    ck_assert_int_lt(access(two, F_OK), 0);

    /* a file that was there is as it was */
    FILE *f = fopen(two, "we");
    ck_assert_ptr_nonnull(f);
    fputs("precious", f);
    fclose(f);
    test_etwctl(&o, "start", "web", "-o", two);
    ck_assert_int_eq(o.status, 1);
    test_output_done(&o);
    content = test_read_file(two, NULL);
    ck_assert_str_eq(content, "precious");
    free(content);

    /* the file of a running session */
    test_etwctl(&o, "start", "other", "-o", one);
    ck_assert_int_eq(o.status, 1);
    test_output_done(&o);
    test_etwctl(&o, "start", "other", "-o", "/nowhere/at/all.etl");
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "/nowhere/at/all.etl"));
    test_output_done(&o);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    test_etwctl(&o, "start", "other", "-o", dir);
    ck_assert_int_eq(o.status, 1);
    test_output_done(&o);
    ck_assert_uint_eq(sessions(), 1);

    /* and an agreed start overwrites */
    test_etwctl_ok(&o, "start", "other", "-o", two);
    test_output_done(&o);
    test_etwctl_ok(&o, "stop", "other");
    test_output_done(&o);
    check_complete(two);
    test_etwctl_ok(&o, "stop", "web");
    test_output_done(&o);
    check_complete(one);
    free(one);
    free(two);
    free(dir);
}
END_TEST

START_TEST(relative_path)
{
    struct json_object *s;
    struct test_output o;
    char *path = test_path("here.etl");

    ck_assert_int_eq(chdir(test_tempdir()), 0);
    test_etwctl_ok(&o, "start", "web", "-o", "here.etl");
    test_output_done(&o);
    s = etwctl_json("show", "web");
    ck_assert_str_eq(test_json_str(s, "log_file"), path);
    json_object_put(s);
    test_etwctl_ok(&o, "stop", "web");
    test_output_done(&o);
    check_complete(path);
    free(path);
}
END_TEST

START_TEST(kernel_needs_the_group)
{
    struct test_output o;
    char *dir = test_path("open"), command[8192];

    test_need_root();
    ck_assert_int_eq(mkdir(dir, 0755), 0);
    ck_assert_int_eq(chmod(dir, 01777), 0);
    (void) snprintf(command, sizeof(command),
                    "setpriv --reuid 65534 --regid 65534 --clear-groups '%s' start --kernel -o "
                    "'%s/k.etl'",
                    test_env("ETWCTL"), dir);
    test_run(&o, "sh", "-c", command);
    if (o.status == 126 || o.status == 127)
        test_skip("an ordinary user cannot run the etwctl under test");
    ck_assert_msg(o.status == 5, "status %d: %s", o.status, o.err);
    ck_assert_ptr_nonnull(strstr(o.err, "etw"));
    ck_assert_ptr_nonnull(strstr(o.err, "ERROR_ACCESS_DENIED"));
    test_output_done(&o);
    (void) snprintf(command, sizeof(command), "%s/k.etl", dir);
    ck_assert_int_lt(access(command, F_OK), 0);
    ck_assert_uint_eq(sessions(), 0);
    free(dir);
}
END_TEST

/* start --bound: lives as long as etwctl. */
START_TEST(bound)
{
    char *file = test_path("bound.etl"), *err = test_path("bound.err"), *text;
    const char *argv[] = {test_env("ETWCTL"), "start", "b", "--bound", "-o", file, NULL};
    pid_t pid = background(err, argv);

    wait_for_sessions(1);
    kill(pid, SIGINT);
    ck_assert_int_eq(end_of(pid), 0);
    text = test_read_file(err, NULL);
    ck_assert_ptr_nonnull(strstr(text, " 0 lost, "));
    free(text);
    ck_assert_uint_eq(sessions(), 0);
    check_complete(file);

    /* killed: the daemon sees it and closes the file */
    pid = background(err, argv);
    wait_for_sessions(1);
    kill(pid, SIGKILL);
    ck_assert_int_eq(end_of(pid), 128 + SIGKILL);
    wait_for_sessions(0);
    check_complete(file);
    free(file);
    free(err);
}
END_TEST

static bool kernel_available(void)
{
    struct json_object *s = etwctl_json("status", NULL);
    bool available = test_json_bool(s, "kernel.available");

    json_object_put(s);
    return available;
}

/* In a test's body. */
#define need_kernel()                                                                              \
    do {                                                                                           \
        test_need_root();                                                                          \
        if (!kernel_available())                                                                   \
            test_skip("this kernel does not let etwd load its probes");                            \
    } while (0)

START_TEST(record_statuses)
{
    char *file = test_path("r.etl"), *other = test_path("o.etl"), *ran = test_path("ran");
    struct test_output o;
    struct json_object *s;

    need_kernel();
    test_etwctl(&o, "record", "--kernel", "--strict", "-o", file, "--", "sh", "-c",
                "echo out; exit 7");
    ck_assert_msg(o.status == 7, "status %d: %s", o.status, o.err);
    ck_assert_str_eq(o.out, "out\n");
    ck_assert_ptr_nonnull(strstr(o.err, file));
    ck_assert_ptr_nonnull(strstr(o.err, " 0 lost, "));
    test_output_done(&o);
    check_complete(file);
    ck_assert_uint_eq(sessions(), 0);

    test_etwctl(&o, "record", "--kernel", "-o", file, "--", "/nowhere/at/all");
    ck_assert_int_eq(o.status, 127);
    ck_assert_ptr_nonnull(strstr(o.err, "/nowhere/at/all"));
    test_output_done(&o);
    check_complete(file);
    test_etwctl(&o, "record", "--kernel", "-o", file, "--", "/etc/passwd");
    ck_assert_int_eq(o.status, 126);
    test_output_done(&o);

    /* the session's facts besides, for scripts */
    test_etwctl_ok(&o, "record", "--json", "--kernel", "--flags", "0x3", "-o", file, "--", "true");
    s = test_json(o.out);
    ck_assert_str_eq(test_json_str(s, "name"), "NT Kernel Logger");
    ck_assert_uint_eq(json_object_array_length(test_json_get(s, "enable_flags")), 2);
    ck_assert(test_json_bool(s, "bound"));
    test_loss_identity_object(s);
    json_object_put(s);
    test_output_done(&o);

    /* a second one: says whose the first is, and COMMAND does not run */
    test_etwctl_ok(&o, "start", "--kernel", "-o", file);
    test_output_done(&o);
    test_etwctl(&o, "record", "--kernel", "-o", other, "--", "touch", ran);
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "(uid 0"));
    ck_assert_ptr_nonnull(strstr(o.err, "etwctl stop --kernel"));
    test_output_done(&o);
    ck_assert_int_lt(access(other, F_OK), 0);
    ck_assert_int_lt(access(ran, F_OK), 0);
    test_etwctl_ok(&o, "stop", "--kernel");
    test_output_done(&o);
    check_complete(file);
    free(file);
    free(other);
    free(ran);
}
END_TEST

START_TEST(later_kernel_flags)
{
    char *file = test_path("later.etl");
    struct test_output o;
    struct json_object *s;

    need_kernel();
    test_etwctl(&o, "start", "--kernel", "--flags", "process,0x80", "-o", file);
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "ERROR_NOT_SUPPORTED"));
    test_output_done(&o);
    test_etwctl(&o, "start", "--kernel", "--flags", "0x08000000", "-o", file);
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "ERROR_INVALID_FLAGS"));
    test_output_done(&o);
    ck_assert_int_lt(access(file, F_OK), 0);

    /* accepted, but nothing comes of it on Linux: shown */
    test_etwctl_ok(&o, "start", "--kernel", "--flags", "process,registry", "-o", file);
    test_output_done(&o);
    s = etwctl_json("show", "--kernel");
    ck_assert_uint_eq(json_object_array_length(test_json_get(s, "inert_flags")), 1);
    ck_assert_str_eq(
        json_object_get_string(json_object_array_get_idx(test_json_get(s, "inert_flags"), 0)),
        "registry");
    json_object_put(s);
    test_etwctl_ok(&o, "stop", "--kernel");
    test_output_done(&o);
    free(file);
}
END_TEST

/* One signal: COMMAND gets it, too, its end is in the trace, the file is saved. */
START_TEST(record_interrupted)
{
    char *file = test_path("i.etl"), *err = test_path("i.err"), *up = test_path("up"), *text;
    char script[4096];
    const char *argv[] = {
        test_env("ETWCTL"), "record", "--kernel", "-o", file, "--", "sh", "-c", script, NULL};
    struct test_output o;
    struct json_object *l, *e;

    need_kernel();
    (void) snprintf(script, sizeof(script), "echo $$ > '%s.new'; mv '%s.new' '%s'; exec sleep 1000",
                    up, up, up);
    pid_t pid = background(err, argv);
    wait_for_file(up);
    kill(pid, SIGTERM);
    ck_assert_int_eq(end_of(pid), 128 + SIGTERM);
    ck_assert_uint_eq(sessions(), 0);
    check_complete(file);
    text = test_read_file(err, NULL);
    ck_assert_ptr_nonnull(strstr(text, " 0 lost, "));
    free(text);
    /* the process is there from before its first instruction to its end by the signal */
    text = test_read_file(up, NULL);
    text[strcspn(text, "\n")] = '\0';
    test_etwctl_ok(&o, "dump", "--json", "--pid", text, "--event", "Process/End", file);
    l = test_json_lines(o.out);
    ck_assert_uint_ge(json_object_array_length(l), 2);
    e = json_object_array_get_idx(l, json_object_array_length(l) - 1);
    ck_assert_int_eq(json_object_get_int(test_json_get(e, "payload.ExitStatus")), 128 + SIGTERM);
    json_object_put(l);
    free(text);
    test_output_done(&o);
    free(file);
    free(err);
    free(up);
}
END_TEST

/* COMMAND does not heed the signal: the trace is saved all the same, a second one quits. */
START_TEST(record_interrupted_twice)
{
    char *file = test_path("i.etl"), *err = test_path("i.err"), *up = test_path("up"), *text;
    char script[4096];
    const char *argv[] = {
        test_env("ETWCTL"), "record", "--kernel", "-o", file, "--", "sh", "-c", script, NULL};

    need_kernel();
    (void) snprintf(script, sizeof(script),
                    "trap '' INT; echo $$ > '%s.new'; mv '%s.new' '%s'; for i in $(seq 3000); do "
                    "sleep 0.1; done",
                    up, up, up);
    pid_t pid = background(err, argv);
    wait_for_file(up);
    text = test_read_file(up, NULL);
    pid_t command = (pid_t) strtol(text, NULL, 10);
    free(text);
    kill(pid, SIGINT);
    wait_for_sessions(0);
    check_complete(file);
    ck_assert_int_eq(kill(command, 0), 0);
    ck_assert_int_eq(kill(pid, 0), 0);
    kill(pid, SIGINT);
    ck_assert_int_eq(end_of(pid), 128 + SIGINT);
    kill(command, SIGKILL);
    free(file);
    free(err);
    free(up);
}
END_TEST

/* The daemon dies: said, and COMMAND's end is waited for. */
START_TEST(record_without_daemon)
{
    char *file = test_path("d.etl"), *err = test_path("d.err"), *up = test_path("up"), *text;
    char *stop = test_path("stop"), script[4096];
    const char *argv[] = {
        test_env("ETWCTL"), "record", "--kernel", "-o", file, "--", "sh", "-c", script, NULL};

    need_kernel();
    (void) snprintf(script, sizeof(script), "touch '%s'; while [ ! -e '%s' ]; do sleep 0.05; done",
                    up, stop);
    pid_t pid = background(err, argv);
    wait_for_file(up);
    test_daemon_kill(daemon_);
    for (int i = 0;; i++) {
        text = test_read_file(err, NULL);
        bool said = strstr(text, "etwd") != NULL;
        free(text);
        if (said)
            break;
        ck_assert_int_lt(i, TEST_HANG_LIMIT_S * 100);
        usleep(10000);
    }
    ck_assert_int_eq(kill(pid, 0), 0);
    FILE *f = fopen(stop, "we");
    ck_assert_ptr_nonnull(f);
    fclose(f);
    ck_assert_int_eq(end_of(pid), 3);
    test_daemon_again(daemon_, NULL);
    ck_assert_uint_eq(sessions(), 0);
    free(file);
    free(err);
    free(up);
    free(stop);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("etwctl-sessions");
    TCase *tc = tcase_create("etwctl-sessions");

    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, status_and_doctor);
    tcase_add_test(tc, a_session);
    tcase_add_test(tc, update);
    tcase_add_test(tc, many_sessions_in_pages);
    tcase_add_test(tc, hostile_session_name);
    tcase_add_test(tc, failed_starts_leave_nothing);
    tcase_add_test(tc, relative_path);
    tcase_add_test(tc, kernel_needs_the_group);
    tcase_add_test(tc, bound);
    tcase_add_test(tc, record_statuses);
    tcase_add_test(tc, later_kernel_flags);
    tcase_add_test(tc, record_interrupted);
    tcase_add_test(tc, record_interrupted_twice);
    tcase_add_test(tc, record_without_daemon);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
