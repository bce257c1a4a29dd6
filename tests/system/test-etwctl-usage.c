/* SPDX-License-Identifier: Apache-2.0
 *
 * What etwctl says without a daemon: help, wrong usage, what is not there yet, who cannot be
 * reached; and the exit codes that scripts rely on. No daemon.
 */
#include "lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_ARGS 12

/* One command line: its exit code, and a piece of what it says on stderr. */
struct call {
    int status;
    const char *says;
    const char *args[MAX_ARGS];
};

static void check_calls(const struct call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *argv[MAX_ARGS + 2] = {test_env("ETWCTL")};
        struct test_output o;

        for (size_t k = 0; k < MAX_ARGS && calls[i].args[k]; k++)
            argv[k + 1] = calls[i].args[k];
        test_run_limit(&o, 0, argv);
        ck_assert_msg(o.status == calls[i].status, "call %zu (%s %s): status %d, expected %d: %s",
                      i, argv[1] ? argv[1] : "", argv[1] && argv[2] ? argv[2] : "", o.status,
                      calls[i].status, o.err);
        ck_assert_msg(!calls[i].says || strstr(o.err, calls[i].says), "call %zu (%s): '%s' says %s",
                      i, argv[1] ? argv[1] : "", calls[i].says, o.err);
        test_output_done(&o);
    }
}
#define CHECK_CALLS(calls) check_calls(calls, sizeof(calls) / sizeof(calls[0]))

static void no_daemon(void)
{
    char *path = test_path("nobody.sock");

    setenv("ETWD_SOCKET", path, 1);
    free(path);
}

START_TEST(help)
{
    static const char *const verbs[] = {"status", "doctor", "list",   "show",    "start",
                                        "stop",   "flush",  "record", "summary", "dump"};
    struct test_output o;

    test_etwctl_ok(&o, "--help");
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        struct test_output v;
        ck_assert_msg(strstr(o.out, verbs[i]), "%s is not in --help", verbs[i]);
        test_etwctl_ok(&v, verbs[i], "--help");
        ck_assert_ptr_nonnull(strstr(v.out, verbs[i]));
        ck_assert_str_eq(v.err, "");
        test_output_done(&v);
    }
    test_output_done(&o);
    test_etwctl_ok(&o, "--version");
    ck_assert_ptr_eq(strstr(o.out, "etwctl "), o.out);
    test_output_done(&o);
}
END_TEST

START_TEST(wrong_usage)
{
    static const struct call calls[] = {
        {2, "etwctl VERB", {NULL}},
        {2, "no verb 'fly'", {"fly"}},
        {2, NULL, {"status", "--wrong"}},
        {2, NULL, {"status", "extra"}},
        {2, NULL, {"list", "extra"}},
        {2, NULL, {"doctor", "extra"}},
        {2, "exactly one session", {"show"}},
        {2, "exactly one session", {"show", "a", "b"}},
        {2, "exactly one session", {"stop", "--kernel", "b"}},
        {2, "NAME is missing", {"start", "-o", "x.etl"}},
        {2, "-o FILE is wanted", {"start", "x"}},
        {2, "'y' is too much", {"start", "x", "y", "-o", "x.etl"}},
        {2, "always called", {"start", "--kernel", "x", "-o", "x.etl"}},
        {2, "--flags belongs to --kernel", {"start", "x", "--flags", "process", "-o", "x.etl"}},
        {2,
         "no kernel flag 'nonsense'",
         {"start", "--kernel", "--flags", "process,nonsense", "-o", "x.etl"}},
        {2, "out of range", {"start", "--kernel", "--buffer-size", "17M", "-o", "x.etl"}},
        {2, "not understood", {"start", "--kernel", "--buffer-size", "1X", "-o", "x.etl"}},
        {2, "not understood", {"start", "--kernel", "--buffers", "2:", "-o", "x.etl"}},
        {2, "below the minimum", {"start", "--kernel", "--buffers", "5:4", "-o", "x.etl"}},
        {2, "whole seconds", {"start", "--kernel", "--flush-timer", "10ms", "-o", "x.etl"}},
        {2, "not understood", {"start", "--kernel", "--clock", "sundial", "-o", "x.etl"}},
        {2, "not understood", {"start", "--kernel", "--mode", "spiral", "-o", "x.etl"}},
        {2, "--strict belongs to", {"start", "--kernel", "--strict", "-o", "x.etl"}},
        {2, "COMMAND", {"record", "--kernel", "-o", "x.etl"}},
        {2, "nothing to record", {"record", "-o", "x.etl", "--", "true"}},
        {2, "a FILE is missing", {"summary"}},
        {2, "a FILE is missing", {"dump"}},
        {2, "not understood", {"dump", "--pid", "12x", "f"}},
        {2, "out of range", {"dump", "--limit", "99999999999999999999", "f"}},
        {2, "not understood", {"dump", "--since", "yesterday", "f"}},
        {2, "not understood", {"dump", "--since", "2026-13-01", "f"}},
    };

    no_daemon();
    CHECK_CALLS(calls);
    ck_assert_int_ne(access("x.etl", F_OK), 0);
}
END_TEST

/* Refused by name, never ignored, before anything is made. */
START_TEST(what_is_not_there_yet)
{
    static const struct call calls[] = {
        {1, "'watch': not there yet", {"watch", "x"}},
        {2, "-o FILE is wanted", {"snapshot", "x"}},
        {1, "'merge': not there yet", {"merge", "a", "-o", "b"}},
        {1, "--stacks", {"start", "--kernel", "--stacks", "cswitch", "-o", "x.etl"}},
        {1,
         "--profile-interval",
         {"start", "--kernel", "--profile-interval", "1ms", "-o", "x.etl"}},
        {1, "--heap", {"start", "--heap", "1", "-o", "x.etl"}},
        {1, "--latency", {"start", "x", "--latency", "1ms", "-o", "x.etl"}},
        {1, "--mode newfile", {"start", "x", "--mode", "newfile", "-o", "x%d.etl"}},
        {1, "--real-time without -o", {"start", "x", "--real-time"}},
        {1, "--stacks", {"record", "--kernel", "--stacks", "x", "-o", "x.etl", "--", "true"}},
        {1, "--csv", {"dump", "--csv", "f"}},
        {1, "--xml", {"dump", "--xml", "f"}},
        {1, "--symbols", {"dump", "--symbols", "f"}},
    };

    no_daemon();
    CHECK_CALLS(calls);
    ck_assert_int_ne(access("x.etl", F_OK), 0);
}
END_TEST

START_TEST(nobody_there)
{
    char *path = test_path("nobody.sock"), *file = test_path("x.etl");
    const struct call calls[] = {
        {3, path, {"status"}},
        {3, path, {"list"}},
        {3, path, {"show", "x"}},
        {3, path, {"stop", "x"}},
        {3, path, {"flush", "--kernel"}},
        {3, path, {"enable", "x", "*Name"}},
        {3, path, {"disable", "x", "*Name"}},
        {3, path, {"providers"}},
        {3, path, {"mark", "text"}},
        {3, path, {"record", "-p", "*Name", "-o", file, "--", "true"}},
        {3, "systemctl start etwd", {"start", "x", "-o", file}},
        {3, "ETWD_SOCKET", {"record", "--kernel", "-o", file, "--", "true"}},
        {3, NULL, {"doctor"}},
    };
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct json_object *o;
    struct test_output out;
    int fd;

    no_daemon();
    CHECK_CALLS(calls);
    ck_assert_int_ne(access(file, F_OK), 0);

    test_etwctl(&out, "status", "--json");
    ck_assert_int_eq(out.status, 3);
    o = test_json(out.out);
    ck_assert(!test_json_bool(o, "reachable"));
    ck_assert_str_eq(test_json_str(o, "socket"), path);
    json_object_put(o);
    test_output_done(&out);

    test_etwctl(&out, "doctor", "--json");
    ck_assert_int_eq(out.status, 3);
    o = test_json(out.out);
    struct json_object *first = json_object_array_get_idx(o, 0);
    ck_assert_str_eq(test_json_str(first, "check"), "daemon");
    ck_assert(!test_json_bool(first, "ok"));
    ck_assert_ptr_nonnull(strstr(test_json_str(first, "mend"), "systemctl start etwd"));
    json_object_put(o);
    test_output_done(&out);

    /* a socket file that nobody listens on */
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_uint_lt(strlen(path), sizeof(a.sun_path));
    strcpy(a.sun_path, path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *) &a, sizeof(a)), 0);
    close(fd);
    static const struct call dead[] = {{3, "nobody listens", {"list"}}};
    CHECK_CALLS(dead);
    unlink(path);
    free(path);
    free(file);
}
END_TEST

START_TEST(access_denied)
{
    struct test_output o;
    char *dir = test_path("closed"), command[4096];

    test_need_root();
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    /* an ordinary user, who may run etwctl but not look into the folder */
    (void) snprintf(command, sizeof(command),
                    "ETWD_SOCKET='%s/control.sock' setpriv --reuid 65534 --regid 65534 "
                    "--clear-groups '%s' list",
                    dir, test_env("ETWCTL"));
    test_run(&o, "sh", "-c", command);
    if (o.status == 126 || o.status == 127)
        test_skip("an ordinary user cannot run the etwctl under test");
    ck_assert_msg(o.status == 5, "status %d: %s", o.status, o.err);
    ck_assert_ptr_nonnull(strstr(o.err, "group 'etw'"));
    test_output_done(&o);
    free(dir);
}
END_TEST

/* A daemon that hangs up, and one that talks nonsense. */
START_TEST(strange_daemon)
{
    char *path = test_path("strange.sock");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct test_output o;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_uint_lt(strlen(path), sizeof(a.sun_path));
    strcpy(a.sun_path, path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *) &a, sizeof(a)), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    setenv("ETWD_SOCKET", path, 1);
    for (int nonsense = 0; nonsense < 2; nonsense++) {
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
            if (nonsense)
                (void) send(c, "\xFF\xFF\xFF nonsense", 12, MSG_NOSIGNAL);
            _exit(c < 0);
        }
        test_etwctl(&o, "list");
        ck_assert_msg(o.status == 3, "status %d: %s", o.status, o.err);
        ck_assert_ptr_nonnull(strstr(o.err, path));
        test_output_done(&o);
    }
    close(fd);
    unlink(path);
    free(path);
}
END_TEST

/* Bash completion: verbs, and of every verb only options that its help knows. */
START_TEST(completion)
{
    static const char *const verbs[] = {"status", "doctor", "list",   "show",    "start",
                                        "stop",   "flush",  "record", "summary", "dump"};
    char *path, command[8192];
    struct test_output o;

    ck_assert_int_ge(
        asprintf(&path, "%s/client/etwctl/etwctl.bash-completion", test_env("ETW_SOURCE_ROOT")), 0);
    (void) snprintf(command, sizeof(command),
                    "source '%s'; COMP_WORDS=(etwctl ''); COMP_CWORD=1; _etwctl; "
                    "printf '%%s\\n' \"${COMPREPLY[@]}\"",
                    path);
    test_run_ok(&o, "bash", "-c", command);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        ck_assert_msg(strstr(o.out, verbs[i]), "%s is not completed", verbs[i]);
    test_output_done(&o);

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        struct test_output options_help;
        char *save = NULL;
        int options = 0;

        (void) snprintf(command, sizeof(command),
                        "source '%s'; COMP_WORDS=(etwctl %s --); COMP_CWORD=2; _etwctl; "
                        "printf '%%s\\n' \"${COMPREPLY[@]}\"",
                        path, verbs[i]);
        test_run_ok(&o, "bash", "-c", command);
        test_etwctl_ok(&options_help, verbs[i], "--help");
        for (char *w = strtok_r(o.out, "\n", &save); w; w = strtok_r(NULL, "\n", &save)) {
            options++;
            ck_assert_msg(!strcmp(w, "--") || strstr(options_help.out, w),
                          "%s: %s is not in its help", verbs[i], w);
        }
        ck_assert_int_ge(options, 2);
        test_output_done(&options_help);
        test_output_done(&o);
    }
    free(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("etwctl-usage");
    TCase *tc = tcase_create("etwctl-usage");

    tcase_set_timeout(tc, 180);
    tcase_add_test(tc, help);
    tcase_add_test(tc, wrong_usage);
    tcase_add_test(tc, what_is_not_there_yet);
    tcase_add_test(tc, nobody_there);
    tcase_add_test(tc, access_denied);
    tcase_add_test(tc, strange_daemon);
    tcase_add_test(tc, completion);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
