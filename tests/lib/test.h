/* SPDX-License-Identifier: Apache-2.0
 *
 * What all test programs share: a main that speaks TAP, skips with a reason, temporary folders,
 * running commands, a private etwd, JSON getters and the check of the loss identity. Helpers fail
 * the running Check test themselves (ck_abort_msg) unless they say otherwise; limits are only there
 * to end a hang. Not for the fuzz targets and benchmarks. Single-threaded.
 *
 * Environment, set by `meson test` (tests/meson.build): ETWD, ETWCTL, ETWD_LIBEXEC, ETW_SAMPLES,
 * ETW_TEST_SCALE.
 */
#pragma once

#include <check.h>
#include <json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Ends waits that would hang the suite; no test measures time with it. */
#define TEST_HANG_LIMIT_S 90

/* Runs the suite and prints TAP on stdout; everything the tests print goes to stderr. The exit
 * status of main: 0, or 1 when a test failed. Use: int main(void) { return test_main(suite()); } */
int test_main(Suite *suite);

/* Ends this test as skipped, with a reason that the TAP line shows. In a test body only. */
#define test_skip(...) test_skip_at(__func__, __VA_ARGS__)
void test_skip_at(const char *test, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
/* In main, before test_main: the whole program is skipped. */
void test_skip_all(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
#define test_need_root()                                                                           \
    do {                                                                                           \
        if (geteuid() != 0)                                                                        \
            test_skip("needs root");                                                               \
    } while (0)

/* n times ETW_TEST_SCALE (a decimal number, default 1), at least 1. */
int test_scale(int n);

/* An environment variable that `meson test` sets; fails the test when it is missing. */
const char *test_env(const char *name);

/* A folder of this process, removed with its content when the process ends. The same at each call;
 * mode 0755. A forked child that calls it gets its own. */
const char *test_tempdir(void);
/* "<tempdir>/<name>" in memory of malloc(3). */
char *test_path(const char *name);
/* Removes a folder and everything below it; errors are ignored. */
void test_remove_tree(const char *path);
/* A file's bytes and a NUL after them, in memory of malloc(3). ret_size may be NULL. */
char *test_read_file(const char *path, size_t *ret_size);

/* A command's results. */
struct test_output {
    int status; /* exit status, or 128 + signal */
    char *out;
    size_t out_size;
    char *err;
    size_t err_size;
};
/* Runs argv (found through PATH), stdin from /dev/null, and waits for it: at most limit_s seconds
 * (0: TEST_HANG_LIMIT_S), then it is killed and the test fails. test_output_done() frees. */
void test_run_limit(struct test_output *ret, int limit_s, const char *const argv[]);
#define test_run(ret, ...) test_run_limit((ret), 0, (const char *const[]){__VA_ARGS__, NULL})
/* The same with etwctl as the program: test_etwctl(&out, "status", "--json"). */
#define test_etwctl(ret, ...)                                                                      \
    test_run_limit((ret), 0, (const char *const[]){test_env("ETWCTL"), __VA_ARGS__, NULL})
/* As above, and the exit status must be 0. */
#define test_run_ok(ret, ...) test_run_ok_limit((ret), 0, (const char *const[]){__VA_ARGS__, NULL})
#define test_etwctl_ok(ret, ...)                                                                   \
    test_run_ok_limit((ret), 0, (const char *const[]){test_env("ETWCTL"), __VA_ARGS__, NULL})
void test_run_ok_limit(struct test_output *ret, int limit_s, const char *const argv[]);
void test_output_done(struct test_output *o);

/* A private etwd. */
struct test_daemon {
    char *dir;    /* --runtime-dir, mode 0755 */
    char *socket; /* <dir>/control.sock */
    char *log;    /* its stderr */
    pid_t pid;    /* 0: not running */
};
/* Starts ETWD with --runtime-dir and these arguments, waits until it accepts connections, and sets
 * ETWD_SOCKET for this process and its children. */
#define test_daemon_start(...)                                                                     \
    test_daemon_start_args((const char *const[]){"", ##__VA_ARGS__, NULL} + 1)
struct test_daemon *test_daemon_start_args(const char *const args[]);
/* The same program and folder again, after a stop or a kill. */
void test_daemon_again(struct test_daemon *d, const char *const args[]);
/* SIGTERM; it must exit with 0. The object stays; test_daemon_free() also kills. */
void test_daemon_stop(struct test_daemon *d);
/* kill -9, and waits. */
void test_daemon_kill(struct test_daemon *d);
/* What it wrote to stderr so far, in memory of malloc(3). */
char *test_daemon_log(const struct test_daemon *d);
/* Fails when the daemon has died. */
void test_daemon_alive(const struct test_daemon *d);
struct test_daemon *test_daemon_free(struct test_daemon *d);
/* Open descriptors and resident KiB of a process. */
size_t test_count_fds(pid_t pid);
size_t test_resident_kb(pid_t pid);

/* JSON: one document; one document a line. Both fail the test on what is not JSON. */
struct json_object *test_json(const char *text);
struct json_object *test_json_lines(const char *text); /* an array */
/* A member by a path of keys, "start.count"; fails when it is missing or of another type. */
struct json_object *test_json_get(struct json_object *o, const char *path);
bool test_json_has(struct json_object *o, const char *path); /* there, and not null */
uint64_t test_json_u64(struct json_object *o, const char *path);
bool test_json_bool(struct json_object *o, const char *path);
const char *test_json_str(struct json_object *o, const char *path);

/* written = recorded + sum of lost, recorded >= overwritten, by `etwctl show SESSION --json`. */
void test_loss_identity(const char *session);
/* The same for an object of `show --json` or `list --json`. */
void test_loss_identity_object(struct json_object *session);
