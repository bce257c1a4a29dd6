/* SPDX-License-Identifier: Apache-2.0
 *
 * The program in etw-provider(7) does what the page says: it is cut out of the page, compiled as it
 * stands and recorded; and the GUID that the page records is the program's.
 *
 *     test-provider-page PAGE LIBRARY-FOLDER CC INCLUDE... (an include folder each)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "lib/test.h"

static const char *page, *library;
static char **compiler; /* CC, then include folders */

/* The n-th display of the page, as it is shown. */
static char *display(unsigned n)
{
    _cleanup_free_ char *text = test_read_file(page, NULL);
    char *at = text, *out;

    for (unsigned i = 0; i <= n; i++) {
        at = strstr(i ? at + 1 : at, "\n.Bd ");
        ck_assert_ptr_nonnull(at);
    }
    at = strchr(at + 1, '\n') + 1;
    char *end = strstr(at, "\n.Ed");
    ck_assert_ptr_nonnull(end);
    out = calloc(1, (size_t) (end - at) + 2);
    size_t k = 0;
    for (char *p = at; p < end; p++) {
        if (p[0] == '\\' && p[1] == 'e') /* mdoc's backslash */
            p++, out[k++] = '\\';
        else
            out[k++] = *p;
    }
    out[k] = '\n';
    return out;
}

START_TEST(example)
{
    _cleanup_free_ char *source = display(0), *commands = display(1), *c = test_path("web.c"),
                        *program = test_path("web"), *trace = test_path("web.etl"), *rpath = NULL,
                        *link = NULL;
    const char *argv[64];
    struct test_output o;
    unsigned n = 0;

    ck_assert_int_gt(asprintf(&rpath, "-Wl,-rpath,%s", library), 0);
    ck_assert_int_gt(asprintf(&link, "-L%s", library), 0);
    FILE *f = fopen(c, "w");
    ck_assert_int_ge(fputs(source, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    /* at most ten lines */
    unsigned lines = 0;
    for (char *p = source; *p; p++)
        lines += *p == '\n';
    ck_assert_uint_le(lines, 10);

    for (char *word = strtok(compiler[0], " "); word; word = strtok(NULL, " "))
        argv[n++] = word;
    argv[n++] = "-Wall";
    argv[n++] = "-Wextra";
    argv[n++] = "-Werror";
    for (unsigned i = 1; compiler[i]; i++) {
        argv[n++] = "-I";
        argv[n++] = compiler[i];
    }
    argv[n++] = "-o";
    argv[n++] = program;
    argv[n++] = c;
    argv[n++] = link;
    argv[n++] = rpath;
    argv[n++] = "-letw";
    argv[n] = NULL;
    test_run_ok_limit(&o, 0, argv);
    test_output_done(&o);

    /* What the page records. */
    char *brace = strchr(commands, '{');
    ck_assert_ptr_nonnull(brace);
    brace[38] = '\0';
    struct test_daemon *d = test_daemon_start();
    test_etwctl_ok(&o, "record", "-p", brace, "-o", trace, "--", program);
    test_output_done(&o);
    test_daemon_stop(d);
    test_daemon_free(d);
    test_etwctl_ok(&o, "dump", "--json", "--provider", "My-Company-Web", trace);
    struct json_object *events = test_json_lines(o.out);
    ck_assert_uint_eq(json_object_array_length(events), 1);
    struct json_object *e = json_object_array_get_idx(events, 0);
    ck_assert_str_eq(test_json_str(e, "event"), "Request");
    ck_assert_str_eq(test_json_str(e, "payload.path"), "/index");
    ck_assert_uint_eq(test_json_u64(e, "payload.status"), 200);
    json_object_put(events);
    test_output_done(&o);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s = suite_create("provider-page");
    TCase *t = tcase_create("page");

    if (argc < 5)
        return 2;
    page = argv[1];
    library = argv[2];
    compiler = argv + 3;
    tcase_add_test(t, example);
    suite_add_tcase(s, t);
    return test_main(s);
}
