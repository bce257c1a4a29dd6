/* SPDX-License-Identifier: Apache-2.0
 *
 * The harness itself: what the other tests believe in.
 */
#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(command_results)
{
    struct test_output o;

    test_run(&o, "sh", "-c", "printf out; printf err >&2; exit 7");
    ck_assert_int_eq(o.status, 7);
    ck_assert_str_eq(o.out, "out");
    ck_assert_str_eq(o.err, "err");
    test_output_done(&o);

    test_run(&o, "sh", "-c", "kill -KILL $$");
    ck_assert_int_eq(o.status, 128 + 9);
    test_output_done(&o);

    /* More than a pipe holds, on both ends. */
    test_run_ok(&o, "sh", "-c", "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2");
    ck_assert_uint_eq(o.out_size, 300000);
    ck_assert_uint_eq(o.err_size, 300000);
    test_output_done(&o);

    test_run(&o, "/nonexistent/program");
    ck_assert_int_eq(o.status, 127);
    test_output_done(&o);
}
END_TEST

START_TEST(temporary_folder_is_removed)
{
    struct test_output o;
    struct stat st;
    char *path = test_path("file");

    ck_assert_ptr_eq(test_tempdir(), test_tempdir());
    test_run_ok(&o, "sh", "-c", "echo hello > \"$0\"", path);
    test_output_done(&o);
    char *text = test_read_file(path, NULL);
    ck_assert_str_eq(text, "hello\n");
    free(text);
    free(path);
    test_remove_tree(test_tempdir());
    ck_assert_int_eq(stat(test_tempdir(), &st), -1);
}
END_TEST

START_TEST(json_getters)
{
    struct json_object *o =
        test_json("{\"a\":{\"b\":18446744073709551615},\"c\":null,\"d\":\"x\"}");
    struct json_object *lines;

    ck_assert(test_json_u64(o, "a.b") == UINT64_MAX);
    ck_assert(!test_json_has(o, "c"));
    ck_assert(!test_json_has(o, "a.b.c"));
    ck_assert_str_eq(test_json_str(o, "d"), "x");
    json_object_put(o);

    lines = test_json_lines("{\"n\":1}\n{\"n\":2}\n");
    ck_assert_uint_eq(json_object_array_length(lines), 2);
    ck_assert_uint_eq(test_json_u64(json_object_array_get_idx(lines, 1), "n"), 2);
    json_object_put(lines);
}
END_TEST

START_TEST(identity_holds)
{
    struct json_object *o = test_json(
        "{\"written\":10,\"recorded\":7,\"overwritten\":0,\"lost\":{\"disk\":1,\"no_buffer\":2}}");

    test_loss_identity_object(o);
    json_object_put(o);
}
END_TEST

/* These fail on purpose, in a program of their own. */
static void fails_on_bad_identity(int i)
{
    (void) i;
    test_loss_identity_object(
        test_json("{\"written\":10,\"recorded\":7,\"overwritten\":0,\"lost\":{\"disk\":1}}"));
}

static void fails_on_bad_json(int i)
{
    (void) i;
    (void) test_json("{\"a\":1,}");
}

static void fails_on_status(int i)
{
    struct test_output o;

    (void) i;
    test_run_ok(&o, "false");
}

START_TEST(skips_itself)
{
    test_skip("for # a\nreason");
}
END_TEST

START_TEST(passes)
{
    printf("ok 1 - not a result\n");
}
END_TEST

START_TEST(fails_in_lines)
{
    ck_abort_msg("first line\nok 3 - second line");
}
END_TEST

/* Runs in a program of its own: `test-harness inner`. */
static Suite *inner_suite(void)
{
    static const TTest tests[] = {
        {"fails_on_bad_identity", fails_on_bad_identity, __FILE__, __LINE__},
        {"fails_on_bad_json", fails_on_bad_json, __FILE__, __LINE__},
        {"fails_on_status", fails_on_status, __FILE__, __LINE__},
    };
    Suite *s = suite_create("inner");
    TCase *tc = tcase_create("inner");

    tcase_add_test(tc, passes);
    tcase_add_test(tc, fails_in_lines);
    tcase_add_test(tc, skips_itself);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, &tests[i]);
    suite_add_tcase(s, tc);
    return s;
}

START_TEST(results_are_told_truthfully)
{
    struct test_output o;

    test_run(&o, "/proc/self/exe", "inner");
    ck_assert_int_eq(o.status, 1);
    ck_assert_msg(strncmp(o.out, "ok 1 - test-harness.c:inner:passes: Passed\n", 43) == 0, "%s",
                  o.out);
    ck_assert_ptr_nonnull(strstr(o.out, "\nnot ok 2 - test-harness.c:inner:fails_in_lines: "));
    ck_assert_ptr_nonnull(strstr(o.out, "\n# ok 3 - second line\n"));
    ck_assert_ptr_nonnull(strstr(o.out, "\nok 3 - test-harness.c:inner:skips_itself: "));
    ck_assert_ptr_nonnull(strstr(o.out, " # SKIP for # a reason\n"));
    ck_assert_ptr_nonnull(strstr(o.out, "\nnot ok 4 - json.c:inner:fails_on_bad_identity: "));
    ck_assert_ptr_nonnull(strstr(o.out, "\nnot ok 5 - json.c:inner:fails_on_bad_json: "));
    ck_assert_ptr_nonnull(strstr(o.out, "\nnot ok 6 - command.c:inner:fails_on_status: "));
    ck_assert_ptr_nonnull(strstr(o.out, "\n1..6\n"));
    test_output_done(&o);
}
END_TEST

START_TEST(scale)
{
    setenv("ETW_TEST_SCALE", "2.5", 1);
    ck_assert_int_eq(test_scale(10), 25);
    setenv("ETW_TEST_SCALE", "0.01", 1);
    ck_assert_int_eq(test_scale(10), 1);
    unsetenv("ETW_TEST_SCALE");
    ck_assert_int_eq(test_scale(10), 10);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("harness");
    TCase *tc = tcase_create("harness");

    tcase_add_test(tc, command_results);
    tcase_add_test(tc, temporary_folder_is_removed);
    tcase_add_test(tc, json_getters);
    tcase_add_test(tc, identity_holds);
    tcase_add_test(tc, results_are_told_truthfully);
    tcase_add_test(tc, scale);
    suite_add_tcase(s, tc);
    return s;
}

int main(int argc, char **argv)
{
    return test_main(argc == 2 && strcmp(argv[1], "inner") == 0 ? inner_suite() : suite());
}
