/* SPDX-License-Identifier: Apache-2.0
 *
 * etwctl and providers, as users type it: enable, disable, providers, start -p, record -p, mark;
 * for people and as JSON; what is wrong is said with what to do.
 *
 *     test-etwctl-providers PROVIDER-PROGRAM
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <TraceLoggingProvider.h>

#include "captured.h"
#include "provider-tests.h"

TRACELOGGING_DEFINE_PROVIDER(self_describing, "Etw.Test.Etwctl",
                             (0x2c0b77f1, 0x93ab, 0x4e0e, 0x8a, 0x6b, 0x40, 0x0d, 0x35, 0x6d, 0x2b,
                              0x10));
#define SELF_TEXT "2c0b77f1-93ab-4e0e-8a6b-400d356d2b10"
#define NUMBERED_TEXT(nn) "5ad1c0de-7e57-4b0a-9e11-0000000000" nn

static struct test_daemon *d;
static char *file;
static struct tally tally;

static void setup(void)
{
    d = test_daemon_start();
    file = test_path("etwctl.etl");
}

static void teardown(void)
{
    test_daemon_alive(d);
    test_daemon_stop(d);
    d = test_daemon_free(d);
    free(file);
}

static void ok(const char *const argv[])
{
    struct test_output o;
    const char *all[32] = {test_env("ETWCTL")};

    for (size_t i = 0; argv[i]; i++)
        all[i + 1] = argv[i];
    test_run_ok_limit(&o, 0, all);
    test_output_done(&o);
}
#define etwctl_ok(...) ok((const char *const[]){__VA_ARGS__, NULL})

/* It fails with this status, and its message has this text. */
static void refused_args(int status, const char *text, const char *const argv[])
{
    struct test_output o;
    const char *all[32] = {test_env("ETWCTL")};

    for (size_t i = 0; argv[i]; i++)
        all[i + 1] = argv[i];
    test_run_limit(&o, 0, all);
    ck_assert_msg(o.status == status && strstr(o.err, text), "%s %s: status %d: %s", argv[0],
                  argv[1] ? argv[1] : "", o.status, o.err);
    /* One word for a message's subject, always. */
    ck_assert_msg(strncmp(o.err, "etwctl: ", 8) == 0, "%s", o.err);
    test_output_done(&o);
}
#define refused(status, text, ...)                                                                 \
    refused_args((status), (text), (const char *const[]){__VA_ARGS__, NULL})

static struct json_object *json(const char *const argv[])
{
    const char *all[32] = {test_env("ETWCTL")};
    struct json_object *j;
    struct test_output o;

    for (size_t i = 0; argv[i]; i++)
        all[i + 1] = argv[i];
    test_run_ok_limit(&o, 0, all);
    j = test_json(o.out);
    test_output_done(&o);
    return j;
}
#define etwctl_json(...) json((const char *const[]){__VA_ARGS__, "--json", NULL})

/* The element of an array whose `key` is `value`, or NULL. */
static struct json_object *element(struct json_object *array, const char *key, const char *value)
{
    ck_assert(json_object_is_type(array, json_type_array));
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        struct json_object *e = json_object_array_get_idx(array, i);
        if (strcmp(test_json_str(e, key), value) == 0)
            return e;
    }
    return NULL;
}

START_TEST(enable_and_disable)
{
    struct json_object *s, *list, *p;
    struct test_output o;

    etwctl_ok("start", "Web", "-o", file);
    s = etwctl_json("show", "Web");
    ck_assert_uint_eq(json_object_array_length(test_json_get(s, "providers")), 0);
    json_object_put(s);
    etwctl_ok("enable", "Web", "{" NUMBERED_TEXT("01") "}:4:0x10:0x10", NUMBERED_TEXT("02"),
              "*Etw-Test-Name:verbose");
    s = etwctl_json("show", "Web");
    list = test_json_get(s, "providers");
    ck_assert_uint_eq(json_object_array_length(list), 3);
    p = element(list, "guid", NUMBERED_TEXT("01"));
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(test_json_u64(p, "level"), 4);
    ck_assert_str_eq(test_json_str(p, "any"), "0x10");
    ck_assert_str_eq(test_json_str(p, "all"), "0x10");
    ck_assert(json_object_is_type(test_json_get(p, "filters"), json_type_array));
    ck_assert_ptr_nonnull(element(list, "guid", NUMBERED_TEXT("02")));
    json_object_put(s);
    test_etwctl_ok(&o, "show", "Web");
    ck_assert_ptr_nonnull(strstr(o.out, NUMBERED_TEXT("01")));
    test_output_done(&o);

    /* Again: other values. */
    s = etwctl_json("enable", "Web", NUMBERED_TEXT("01") ":2");
    ck_assert_str_eq(test_json_str(s, "name"), "Web");
    p = element(test_json_get(s, "providers"), "guid", NUMBERED_TEXT("01"));
    ck_assert_uint_eq(test_json_u64(p, "level"), 2);
    json_object_put(s);
    s = etwctl_json("disable", "Web", NUMBERED_TEXT("01"), "*Etw-Test-Name");
    ck_assert_uint_eq(json_object_array_length(test_json_get(s, "providers")), 1);
    json_object_put(s);
    etwctl_ok("stop", "Web");
}
END_TEST

START_TEST(providers_that_are_there)
{
    char pid[32], other[32];
    struct json_object *list, *p, *i;
    struct provider prog;
    struct test_output o;

    list = etwctl_json("providers");
    ck_assert_uint_eq(json_object_array_length(list), 0);
    json_object_put(list);
    ck_assert_int_eq(TraceLoggingRegister(self_describing), 0);
    provider_start(&prog, "guid=3", "wait=0", "go=1", "count=1");
    provider_wait_ready(&prog, 1);
    etwctl_ok("start", "Web", "-o", file, "-p", NUMBERED_TEXT("03") ":4");

    list = etwctl_json("providers");
    ck_assert_uint_eq(json_object_array_length(list), 2);
    p = element(list, "guid", SELF_TEXT);
    ck_assert_ptr_nonnull(p);
    ck_assert_str_eq(test_json_str(p, "name"), "Etw.Test.Etwctl");
    i = test_json_get(p, "instances");
    ck_assert_uint_eq(json_object_array_length(i), 1);
    i = json_object_array_get_idx(i, 0);
    ck_assert_uint_eq(test_json_u64(i, "pid"), (uint64_t) getpid());
    ck_assert_uint_eq(test_json_u64(i, "uid"), (uint64_t) getuid());
    ck_assert_ptr_nonnull(strstr(test_json_str(i, "image"), "test-etwctl-providers"));
    ck_assert_uint_eq(json_object_array_length(test_json_get(p, "enables")), 0);
    p = element(list, "guid", NUMBERED_TEXT("03"));
    ck_assert_ptr_nonnull(p);
    i = test_json_get(p, "enables");
    ck_assert_uint_eq(json_object_array_length(i), 1);
    i = json_object_array_get_idx(i, 0);
    ck_assert_str_eq(test_json_str(i, "session"), "Web");
    ck_assert_uint_eq(test_json_u64(i, "level"), 4);
    json_object_put(list);

    snprintf(pid, sizeof(pid), "%d", (int) prog.pid);
    list = etwctl_json("providers", "--pid", pid);
    ck_assert_uint_eq(json_object_array_length(list), 1);
    ck_assert_ptr_nonnull(element(list, "guid", NUMBERED_TEXT("03")));
    json_object_put(list);
    snprintf(other, sizeof(other), "%d", (int) d->pid);
    list = etwctl_json("providers", "--pid", other);
    ck_assert_uint_eq(json_object_array_length(list), 0);
    json_object_put(list);
    test_etwctl_ok(&o, "providers");
    ck_assert_ptr_nonnull(strstr(o.out, SELF_TEXT));
    ck_assert_ptr_nonnull(strstr(o.out, "Etw.Test.Etwctl"));
    ck_assert_ptr_nonnull(strstr(o.out, NUMBERED_TEXT("03")));
    ck_assert_ptr_nonnull(strstr(o.out, "Web"));
    test_output_done(&o);

    prog.page->go = 1;
    provider_end(&prog);
    provider_free(&prog);
    TraceLoggingUnregister(self_describing);
    etwctl_ok("stop", "Web");
    /* A process that ended is forgotten once its rings are read. */
    for (int k = 0;; k++) {
        list = etwctl_json("providers");
        size_t n = json_object_array_length(list);
        json_object_put(list);
        if (n == 0)
            break;
        ck_assert_int_lt(k, TEST_HANG_LIMIT_S * 20);
        usleep(50000);
    }
}
END_TEST

/* A provider's name comes from a program: it may hold anything. */
START_TEST(hostile_names)
{
    static const char name[] = "a\x1b[31m\x07 b\n\"c\"";
    const GUID guid = NUMBERED_GUID(0x77);
    struct {
        USHORT size;
        char name[sizeof(name)];
    } traits = {.size = sizeof(traits)};
    struct json_object *list;
    struct test_output o;
    REGHANDLE h;

    traits.size = (USHORT) (2 + sizeof(name));
    memcpy(traits.name, name, sizeof(name));
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderSetTraits, &traits, traits.size),
                      ERROR_SUCCESS);
    /* Telling the daemon takes a moment. */
    for (int k = 0;; k++) {
        list = etwctl_json("providers");
        struct json_object *p = element(list, "guid", NUMBERED_TEXT("77"));
        bool there = p && test_json_has(p, "name") && strcmp(test_json_str(p, "name"), name) == 0;
        json_object_put(list);
        if (there)
            break;
        ck_assert_msg(k < TEST_HANG_LIMIT_S * 20, "the name does not arrive");
        usleep(50000);
    }
    test_etwctl_ok(&o, "providers");
    for (const char *c = o.out; *c; c++)
        ck_assert_msg((unsigned char) *c >= ' ' || *c == '\n', "a control character: %d", *c);
    ck_assert_ptr_null(strstr(o.out, " b\n\"c\""));
    test_output_done(&o);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
}
END_TEST

START_TEST(start_with_providers)
{
    struct provider prog;

    etwctl_ok("start", "Web", "-o", file, "-p", NUMBERED_TEXT("04"), "-p", SELF_TEXT ":5:0xff");
    provider_start(&prog, "guid=4", "threads=2", "count=100");
    provider_end(&prog);
    ck_assert_int_eq(TraceLoggingRegister(self_describing), 0);
    TraceLoggingWrite(self_describing, "Yes", TraceLoggingKeyword(0x10),
                      TraceLoggingString("\x1b]0;x", "text"));
    TraceLoggingWrite(self_describing, "No", TraceLoggingKeyword(0x100));
    TraceLoggingUnregister(self_describing);
    ck_assert_uint_eq(session_stop("Web").lost, 0);
    tally_file(&tally, file);
    tally_complete(&tally, 0, 100);
    tally_complete(&tally, 1, 100);

    struct test_output o;
    test_etwctl_ok(&o, "dump", "--provider", SELF_TEXT, file);
    ck_assert_ptr_nonnull(strstr(o.out, "Yes"));
    ck_assert_ptr_null(strchr(o.out, 0x1b));
    test_output_done(&o);
    test_etwctl_ok(&o, "dump", "--json", "--provider", SELF_TEXT, file);
    struct json_object *events = test_json_lines(o.out);
    ck_assert_uint_eq(json_object_array_length(events), 1);
    struct json_object *e = json_object_array_get_idx(events, 0);
    ck_assert_str_eq(test_json_str(e, "event"), "Yes");
    ck_assert_str_eq(test_json_str(e, "payload.text"), "\x1b]0;x");
    json_object_put(events);
    test_output_done(&o);
    struct json_object *s = etwctl_json("summary", file);
    ck_assert(test_json_bool(s, "complete"));
    ck_assert_uint_eq(test_json_u64(s, "events_lost"), 0);
    json_object_put(s);
}
END_TEST

/* A failed start leaves nothing: no session, no file. */
START_TEST(start_that_fails)
{
    struct json_object *list;

    refused(2, "nonsense", "start", "Web", "-o", file, "-p", "nonsense");
    refused(2, "", "start", "Web", "-o", file, "-p", NUMBERED_TEXT("04") ":x");
    refused(2, "", "start", "Web", "-o", file, "-p", NUMBERED_TEXT("04") ":256");
    refused(2, "", "start", "Web", "-o", file, "-p", NUMBERED_TEXT("04") ":1:2:3:4");
    refused(2, "", "start", "--kernel", "-o", file, "-p", NUMBERED_TEXT("04"));
    list = etwctl_json("list");
    ck_assert_uint_eq(json_object_array_length(list), 0);
    json_object_put(list);
    ck_assert_int_ne(access(file, F_OK), 0);
}
END_TEST

/* From its first instruction to its last, with its exit status. */
START_TEST(record_a_program)
{
    struct test_output o;

    for (int round = 0; round < 3; round++) {
        etwctl_ok("record", "-p", NUMBERED_TEXT("05"), "-o", file, "--", provider_program(), "-",
                  "guid=5", "wait=0", "count=50", "threads=3");
        tally_file(&tally, file);
        tally_sound(&tally);
        for (uint32_t s = 0; s < 3; s++)
            tally_complete(&tally, s, 50);
    }
    test_etwctl(&o, "record", "-p", NUMBERED_TEXT("05"), "-o", file, "--", "sh", "-c", "exit 7");
    ck_assert_int_eq(o.status, 7);
    test_output_done(&o);
    tally_file(&tally, file);
    ck_assert_uint_eq(tally.ours, 0);
    struct json_object *list = etwctl_json("list");
    ck_assert_uint_eq(json_object_array_length(list), 0);
    json_object_put(list);
}
END_TEST

/* A mark reaches every session, in its place among the events. */
START_TEST(marks)
{
    static const char text[] = "half \xe2\x82\xac time \x1b[0m";
    struct test_output o;
    struct json_object *all, *said;
    size_t found = 0, at = 0, ours = 0;
    struct provider prog;
    char *second = test_path("second.etl");

    etwctl_ok("start", "Web", "-o", file, "-p", NUMBERED_TEXT("06"));
    etwctl_ok("start", "Db", "-o", second);
    provider_start(&prog, "guid=6", "count=20", "source=0");
    provider_end(&prog);
    provider_free(&prog);
    said = etwctl_json("mark", text);
    ck_assert_str_eq(test_json_str(said, "text"), text);
    json_object_put(said);
    provider_start(&prog, "guid=6", "count=20", "source=1");
    provider_end(&prog);
    provider_free(&prog);
    etwctl_ok("stop", "Web");
    etwctl_ok("stop", "Db");
    for (int f = 0; f < 2; f++) {
        test_etwctl_ok(&o, "dump", "--json", f ? second : file);
        all = test_json_lines(o.out);
        for (size_t i = 0; i < json_object_array_length(all); i++) {
            struct json_object *e = json_object_array_get_idx(all, i);
            if (strcmp(test_json_str(e, "provider.guid"), NUMBERED_TEXT("06")) == 0)
                ours++;
            if (!test_json_has(e, "event") || strcmp(test_json_str(e, "event"), "Mark") != 0)
                continue;
            ck_assert_str_eq(test_json_str(e, "provider.name"), "Linux-Etwd");
            found++;
            at = ours;
            ck_assert_ptr_nonnull(strstr(
                json_object_to_json_string_ext(test_json_get(e, "payload"), JSON_C_TO_STRING_PLAIN),
                "half \xe2\x82\xac time \\u001b[0m"));
        }
        if (f == 0) {
            ck_assert_uint_eq(ours, 40);
            ck_assert_uint_eq(at, 20);
        }
        json_object_put(all);
        test_output_done(&o);
    }
    ck_assert_uint_eq(found, 2);
    free(second);
}
END_TEST

START_TEST(errors)
{
    refused(1, "NoSuch", "enable", "NoSuch", NUMBERED_TEXT("01"));
    refused(1, "NoSuch", "disable", "NoSuch", NUMBERED_TEXT("01"));
    etwctl_ok("start", "Web", "-o", file);
    refused(2, "nonsense", "enable", "Web", "nonsense");
    refused(2, "", "enable", "Web", "{" NUMBERED_TEXT("01") "}:300");
    refused(2, "", "enable", "Web");
    refused(2, "", "enable");
    refused(2, "", "disable", "Web");
    refused(2, "", "providers", "surplus");
    refused(2, "", "providers", "--pid", "x");
    refused(2, "", "mark");
    etwctl_ok("stop", "Web");
    test_daemon_stop(d);
    refused(3, "", "enable", "Web", NUMBERED_TEXT("01"));
    refused(3, "", "disable", "Web", NUMBERED_TEXT("01"));
    refused(3, "", "providers");
    refused(3, "", "mark", "text");
    test_daemon_again(d, NULL);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("etwctl-providers");
    TCase *c = tcase_create("providers");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_test(c, enable_and_disable);
    tcase_add_test(c, providers_that_are_there);
    tcase_add_test(c, hostile_names);
    tcase_add_test(c, start_with_providers);
    tcase_add_test(c, start_that_fails);
    tcase_add_test(c, record_a_program);
    tcase_add_test(c, marks);
    tcase_add_test(c, errors);
    suite_add_tcase(s, c);
    return s;
}

int main(int argc, char **argv)
{
    provider_tests_init(argc, argv);
    return test_main(suite());
}
