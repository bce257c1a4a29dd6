/* SPDX-License-Identifier: Apache-2.0
 *
 * The program in the shape that Windows programs have (tests/api/windows_shape.c), built the way a
 * user builds it: against an installed tree, with what pkg-config says, as C11, C17 and C++20 and
 * with the warnings of careful people. Each build records this machine's kernel and reads it back.
 */
#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *root_of_install(void)
{
    static char *root;
    struct test_output o;

    if (root)
        return root;
    root = test_path("installed");
    test_run_ok_limit(&o, 300,
                      (const char *const[]){"meson", "install", "-C", test_env("ETW_BUILD_ROOT"),
                                            "--no-rebuild", "--quiet", "--destdir", root, NULL});
    test_output_done(&o);
    return root;
}

/* The folder of libetw.pc, and that of the library. */
static char *find_one(const char *name)
{
    struct test_output o;
    char *line;

    test_run_ok(&o, "find", root_of_install(), "-name", name);
    line = strtok(o.out, "\n");
    ck_assert_msg(line, "%s is not installed", name);
    line = strdup(line);
    *strrchr(line, '/') = '\0';
    test_output_done(&o);
    return line;
}

static void build(const char *compiler, const char *standard, const char *program)
{
    struct test_output o;
    char *source, *command;

    if (getenv("ETW_SANITIZED"))
        test_skip("the library of this build needs the sanitizers' runtime");
    setenv("PKG_CONFIG_PATH", find_one("libetw.pc"), 1);
    setenv("PKG_CONFIG_SYSROOT_DIR", root_of_install(), 1);
    if (asprintf(&source, "%s/tests/api/windows_shape.c", test_env("ETW_SOURCE_ROOT")) < 0 ||
        asprintf(&command,
                 "exec %s -std=%s -Wall -Wextra -Wconversion -O2 -o %s %s "
                 "$(pkg-config --cflags --libs libetw)",
                 compiler, standard, program, source) < 0)
        ck_abort_msg("out of memory");
    test_run_ok(&o, "sh", "-c", command);
    ck_assert_msg(o.out_size == 0 && o.err_size == 0, "%s says:\n%s%s", command, o.out, o.err);
    test_output_done(&o);
    free(command);
    free(source);
}

static void record(const char *program)
{
    struct test_daemon *d;
    struct test_output o;
    struct json_object *s;
    unsigned long long events, lost, starts;
    char *file = test_path("shape.etl");

    test_need_root();
    setenv("LD_LIBRARY_PATH", find_one("libetw.so"), 1);
    d = test_daemon_start();
    test_run_ok(&o, program, file);
    ck_assert_msg(sscanf(o.out, "events %llu lost %llu starts %llu", &events, &lost, &starts) == 3,
                  "it prints: %s", o.out);
    test_output_done(&o);
    ck_assert_uint_eq(lost, 0);
    ck_assert_uint_ge(starts, 5);
    test_etwctl_ok(&o, "summary", "--json", file);
    s = test_json(o.out);
    ck_assert_uint_eq(test_json_u64(s, "events"), events);
    ck_assert(test_json_bool(s, "complete"));
    json_object_put(s);
    test_output_done(&o);
    test_daemon_stop(d);
    test_daemon_free(d);
    free(file);
}

static const struct {
    const char *compiler;
    const char *standard;
} languages[] = {
    {"cc", "c11"},
    {"cc", "c17"},
    {"c++ -x c++", "c++20"},
};

START_TEST(builds_and_records)
{
    char *program = test_path("shape");

    build(languages[_i].compiler, languages[_i].standard, program);
    record(program);
    free(program);
}
END_TEST

START_TEST(everything_is_installed)
{
    static const char *const names[] = {
        "etwd",       "etwctl",   "etwd-image", "libetw.so.0", "libetw.so",
        "libetw.pc",  "etl.5",    "etwctl.1",   "etw.7",       "etw-kernel-events.7",
        "etwd.8",     "libetw.3", "evntrace.h", "evntcons.h",  "KernelTraceControl.h",
        "winerror.h", "wmistr.h", "evntprov.h", "etwd.conf",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        free(find_one(names[i]));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("installed-program");
    TCase *tc = tcase_create("installed-program");

    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, everything_is_installed);
    tcase_add_loop_test(tc, builds_and_records, 0, sizeof(languages) / sizeof(languages[0]));
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
