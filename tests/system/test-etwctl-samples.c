/* SPDX-License-Identifier: Apache-2.0
 *
 * etwctl on trace files that Windows wrote: summary and dump against what is known of each. Skipped
 * where no samples are (ETW_SAMPLES: a folder of .etl files with an expected.json).
 */
#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct json_object *expected;

/* In a test's body. */
#define need_samples()                                                                             \
    do {                                                                                           \
        if (!getenv("ETW_SAMPLES"))                                                                \
            test_skip("ETW_SAMPLES is not set");                                                   \
    } while (0)

static struct json_object *files(void)
{
    const char *dir = test_env("ETW_SAMPLES");
    char path[4096];

    if (!expected) {
        (void) snprintf(path, sizeof(path), "%s/expected.json", dir);
        char *text = test_read_file(path, NULL);
        expected = test_json(text);
        free(text);
    }
    return test_json_get(expected, "files");
}

static char *sample_path(const char *name)
{
    char *path;

    ck_assert_int_ge(asprintf(&path, "%s/%s", getenv("ETW_SAMPLES"), name), 0);
    return path;
}

static void same_u64(const char *file, struct json_object *s, const char *key,
                     struct json_object *e, const char *expected_key)
{
    uint64_t got = test_json_u64(s, key), want = test_json_u64(e, expected_key);

    ck_assert_msg(got == want, "%s: %s is %llu, expected %llu", file, key, (unsigned long long) got,
                  (unsigned long long) want);
}

static void same_str(const char *file, struct json_object *s, const char *key, const char *want)
{
    const char *got = test_json_str(s, key);

    ck_assert_msg(!strcmp(got, want), "%s: %s is '%s', expected '%s'", file, key, got, want);
}

/* counts in the words of expected.json: {provider: {event: n}} */
static void put_count(struct json_object *sums, const struct json_object *count)
{
    struct json_object *c = (struct json_object *) count, *inner, *old;
    const char *kind = test_json_str(c, "kind");
    char group[64], event[600];
    uint64_t n = test_json_u64(c, "count");

    if (!strcmp(kind, "system")) {
        unsigned hook = (unsigned) test_json_u64(c, "hook");
        (void) snprintf(group, sizeof(group), "hook:%02x", hook >> 8);
        (void) snprintf(event, sizeof(event), "%02x.v%u", hook & 255,
                        (unsigned) test_json_u64(c, "version"));
    } else if (!strcmp(kind, "classic")) {
        (void) snprintf(group, sizeof(group), "classic:%s", test_json_str(c, "provider"));
        (void) snprintf(event, sizeof(event), "op%u.v%u", (unsigned) test_json_u64(c, "opcode"),
                        (unsigned) test_json_u64(c, "version"));
    } else if (!strcmp(kind, "message")) {
        (void) snprintf(group, sizeof(group), "wpp:%s", test_json_str(c, "provider"));
        (void) snprintf(event, sizeof(event), "%u", (unsigned) test_json_u64(c, "message"));
    } else {
        (void) snprintf(group, sizeof(group), "%s", test_json_str(c, "provider"));
        if (!strcmp(kind, "tracelogging"))
            (void) snprintf(event, sizeof(event), "TL:%s", test_json_str(c, "event"));
        else
            (void) snprintf(event, sizeof(event), "%u.v%u.op%u", (unsigned) test_json_u64(c, "id"),
                            (unsigned) test_json_u64(c, "version"),
                            (unsigned) test_json_u64(c, "opcode"));
    }
    if (!json_object_object_get_ex(sums, group, &inner)) {
        inner = json_object_new_object();
        json_object_object_add(sums, group, inner);
    }
    if (json_object_object_get_ex(inner, event, &old))
        n += json_object_get_uint64(old);
    json_object_object_add(inner, event, json_object_new_int64((int64_t) n));
}

START_TEST(summaries)
{
    need_samples();
    json_object_object_foreach(files(), name, e)
    {
        char *path = sample_path(name);
        struct json_object *s, *sums = json_object_new_object(), *counts;
        struct test_output o;
        bool lost = test_json_u64(e, "events_lost") > 0 || test_json_u64(e, "buffers_lost") > 0;

        test_etwctl(&o, "summary", "--json", path);
        ck_assert_msg(o.status == (lost ? 4 : 0), "%s: status %d: %s", name, o.status, o.err);
        s = test_json(o.out);
        ck_assert_msg(test_json_bool(s, "complete"), "%s is not complete", name);
        same_u64(name, s, "events", e, "events_total");
        same_u64(name, s, "events_lost", e, "events_lost");
        same_u64(name, s, "buffers_lost", e, "buffers_lost");
        same_u64(name, s, "buffers", e, "buffers");
        same_u64(name, s, "compressed_buffers", e, "compressed_buffers");
        same_u64(name, s, "buffer_size", e, "header_buffer_size");
        same_u64(name, s, "processors", e, "processors_in_header");
        same_u64(name, s, "pointer_size", e, "pointer_size");
        same_u64(name, s, "perf_frequency", e, "perf_freq");
        same_u64(name, s, "first_filetime", e, "first_filetime");
        same_u64(name, s, "last_filetime", e, "last_filetime");
        same_str(name, s, "logger_name", test_json_str(e, "logger_name"));
        same_str(name, s, "log_file_name", test_json_str(e, "log_file_name"));
        same_str(name, s, "os_version", test_json_str(e, "os_version"));
        same_str(name, s, "clock", !strcmp(test_json_str(e, "clock"), "QPC") ? "qpc" : "system");
        counts = test_json_get(s, "counts");
        for (size_t i = 0; i < json_object_array_length(counts); i++)
            put_count(sums, json_object_array_get_idx(counts, i));
        ck_assert_msg(json_object_equal(sums, test_json_get(e, "providers")),
                      "%s: counts are\n%s\nexpected\n%s", name, json_object_to_json_string(sums),
                      json_object_to_json_string(test_json_get(e, "providers")));
        json_object_put(sums);
        json_object_put(s);
        test_output_done(&o);
        free(path);
    }
}
END_TEST

START_TEST(dumps)
{
    need_samples();
    json_object_object_foreach(files(), name, e)
    {
        char *path = sample_path(name);
        struct json_object *lines;
        struct test_output o;
        uint64_t last = 0, bytes = 0;

        int status = test_json_u64(e, "events_lost") > 0 ? 4 : 0;

        test_etwctl(&o, "dump", "--json", "--raw", path);
        ck_assert_msg(o.status == status, "%s: dump: status %d: %s", name, o.status, o.err);
        lines = test_json_lines(o.out);
        ck_assert_msg(json_object_array_length(lines) == test_json_u64(e, "events_total"),
                      "%s: %zu lines", name, json_object_array_length(lines));
        for (size_t i = 0; i < json_object_array_length(lines); i++) {
            struct json_object *l = json_object_array_get_idx(lines, i);
            uint64_t stamp = test_json_u64(l, "timestamp");
            ck_assert_msg(stamp >= last, "%s: time runs backwards at line %zu", name, i + 1);
            last = stamp;
            bytes += strlen(test_json_str(l, "raw")) / 2;
        }
        ck_assert_msg(bytes == test_json_u64(e, "userdata_bytes"), "%s: %llu bytes of data", name,
                      (unsigned long long) bytes);
        json_object_put(lines);
        test_output_done(&o);

        /* for people: as many lines, whatever is in the events */
        size_t n = 0;
        test_etwctl(&o, "dump", path);
        ck_assert_int_eq(o.status, status);
        for (const char *p = o.out; *p; p++)
            n += *p == '\n';
        ck_assert_msg(n == test_json_u64(e, "events_total"), "%s: %zu lines of text", name, n);
        test_output_done(&o);
        free(path);
    }
}
END_TEST

/* Decoded values that an independent reader published. */
START_TEST(decoded_values)
{
    struct json_object *list, *lines;
    struct test_output o;
    size_t compared = 0;
    char *path;

    need_samples();
    (void) files();
    path = sample_path("pv-primitive-types.etl");
    json_object_object_get_ex(test_json_get(expected, "decode"), "pv-primitive-types.etl", &list);
    ck_assert_ptr_nonnull(list);
    list = test_json_get(list, "events");
    test_etwctl_ok(&o, "dump", "--json", "--raw", "--event", "PrimitiveTypesTest", path);
    lines = test_json_lines(o.out);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *e = json_object_array_get_idx(list, i), *fields;
        if (!test_json_has(e, "provider"))
            continue;
        for (size_t k = 0; k < json_object_array_length(lines); k++) {
            struct json_object *l = json_object_array_get_idx(lines, k);
            if (test_json_u64(l, "raw_timestamp") != test_json_u64(e, "raw_ts"))
                continue;
            fields = test_json_get(e, "fields");
            compared++;
            same_str("", l, "raw", test_json_str(e, "payload_hex"));
            same_u64("", l, "filetime", e, "filetime");
            same_u64("", l, "pid", e, "pid");
            same_u64("", l, "tid", e, "tid");
            same_u64("", l, "cpu", e, "processor");
            same_u64("", l, "level", e, "level");
            same_str("", l, "payload.string_type", test_json_str(fields, "string_type"));
            ck_assert_int_eq(test_json_bool(l, "payload.boolean_type"),
                             !strcmp(test_json_str(fields, "boolean_type"), "True"));
            ck_assert_int_eq(test_json_str(l, "payload.char_type")[0],
                             atoi(test_json_str(fields, "char_type")));
            ck_assert_int_eq(json_object_get_int(test_json_get(l, "payload.int16_type")),
                             atoi(test_json_str(fields, "int16_type")));
            ck_assert_int_eq(json_object_get_int(test_json_get(l, "payload.int32_type")),
                             atoi(test_json_str(fields, "int32_type")));
            ck_assert_int_eq(json_object_get_int(test_json_get(l, "payload.uint32_type")),
                             atoi(test_json_str(fields, "uint32_type")));
            ck_assert_int_eq(strncmp(test_json_str(l, "payload.guid_type"),
                                     test_json_str(fields, "guid_type"), 20),
                             0);
        }
    }
    ck_assert_uint_eq(compared, 5);
    json_object_put(lines);
    test_output_done(&o);
    free(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("etwctl-samples");
    TCase *tc = tcase_create("etwctl-samples");

    tcase_set_timeout(tc, 180);
    tcase_add_test(tc, summaries);
    tcase_add_test(tc, dumps);
    tcase_add_test(tc, decoded_values);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
