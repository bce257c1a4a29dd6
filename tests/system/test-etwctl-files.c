/* SPDX-License-Identifier: Apache-2.0
 *
 * etwctl summary and dump on files that the test writes: what is counted, decoded, filtered and
 * escaped, and how incomplete files end. No daemon.
 */
#include "lib/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/synthetic.h"

#define T0 1000u /* raw stamp of the header, in ns */

/* What is hostile in a name: a terminal escape, a new line, a C1 control, a direction override,
 * bytes that are no UTF-8, a quote and a backslash. */
#define EVIL "\033[31mx\ny\xC2\x9Bz\xE2\x80\xAE\xFFq\"\\"
#define EVIL_IN_TEXT "\\x1b[31mx\\ny\\u009bz\\u202e\xEF\xBF\xBDq"

static const uint16_t no_text[1];

static void add(struct synthetic *s, const void *event, int size)
{
    ck_assert_int_gt(size, 0);
    void *to = synthetic_reserve(s, (uint32_t) size);
    ck_assert_ptr_nonnull(to);
    memcpy(to, event, (size_t) size);
}

static void add_process(struct synthetic *s, enum etl_row row, uint64_t stamp, uint32_t pid,
                        const char *name, const char *command)
{
    static uint8_t data[4096];
    struct etl_writer w = {.data = data, .cap = sizeof(data)};
    struct etl_Process_TypeGroup1 p = {.ProcessId = pid, .ParentId = 1, .ExitStatus = -3};
    uint8_t sid[ETL_SID_MAX];

    p.UniqueProcessKey = 0xFFFF000000000000ull + pid;
    etl_event_begin(&w, row);
    etl_put(&w, &p, sizeof(p));
    etl_put_user_sid(&w, sid, etl_sid_from_uid(1000, sid));
    etl_put_asz(&w, name, SIZE_MAX);
    etl_put_wsz(&w, command, SIZE_MAX, 1000);
    etl_put(&w, no_text, 2);
    etl_put(&w, no_text, 2);
    add(s, data, etl_event_end(&w, row, 0, 7, 6, stamp));
}

static void add_thread(struct synthetic *s, enum etl_row row, uint64_t stamp, uint32_t pid,
                       uint32_t tid)
{
    static uint8_t data[256];
    struct etl_writer w = {.data = data, .cap = sizeof(data)};
    struct etl_Thread_TypeGroup1 t = {.ProcessId = pid, .ThreadId = tid};

    etl_event_begin(&w, row);
    etl_put(&w, &t, sizeof(t));
    etl_put(&w, no_text, 2);
    add(s, data, etl_event_end(&w, row, 0, 7, 6, stamp));
}

static void add_switch(struct synthetic *s, uint64_t stamp, uint32_t from, uint32_t to)
{
    static uint8_t data[256];
    struct etl_writer w = {.data = data, .cap = sizeof(data)};
    struct etl_Thread_CSwitch c = {
        .NewThreadId = to,
        .OldThreadId = from,
        .NewThreadPriority = -1,
        .OldThreadWaitReason = 6,
        .OldThreadState = 5,
    };

    etl_event_begin(&w, ETL_ROW_Thread_CSwitch);
    etl_put(&w, &c, sizeof(c));
    add(s, data, etl_event_end(&w, ETL_ROW_Thread_CSwitch, 0, 0, 0, stamp));
}

static void add_image(struct synthetic *s, enum etl_row row, uint64_t stamp, uint32_t pid,
                      uint64_t base, const uint8_t *build_id)
{
    static uint8_t data[1024];
    struct etl_writer w = {.data = data, .cap = sizeof(data)};
    struct etl_LinuxKernel_ImageBuildId b = {.ProcessId = pid, .ImageBase = base};
    struct etl_Image_TypeGroup1 i = {.ProcessId = pid, .ImageBase = base, .ImageSize = 0x1000};

    if (build_id) {
        etl_event_begin(&w, ETL_ROW_LinuxKernel_ImageBuildId);
        etl_put(&w, &b, sizeof(b));
        etl_put_bin(&w, build_id, 20);
        etl_put_asz(&w, "/lib/x.so", SIZE_MAX);
        add(s, data, etl_event_end(&w, ETL_ROW_LinuxKernel_ImageBuildId, 0, pid, pid, stamp));
    }
    w.size = 0;
    etl_event_begin(&w, row);
    etl_put(&w, &i, sizeof(i));
    etl_put_wsz(&w, "/lib/x.so", SIZE_MAX, 100);
    add(s, data, etl_event_end(&w, row, 0, pid, pid, stamp));
}

/* A self-describing event with any metadata; both blobs without their size words. */
static void add_tl(struct synthetic *s, uint64_t stamp, const char *provider, const void *meta,
                   size_t meta_len, const void *payload, size_t payload_len)
{
    static uint8_t data[4096];
    struct etl_event_header h = {
        .header_type = ETL_EVENT64,
        .marker = ETL_MARKER_TRACE,
        .flags = ETL_EVENT_FLAG_EXTENDED_INFO,
        .thread_id = 21,
        .process_id = 20,
        .time_stamp = stamp,
        .provider_id = {.data1 = 0x11223344},
        .descriptor = {.channel = 11, .level = 5, .keyword = 0x8000000000000001ull},
    };
    size_t at = sizeof(h), name_len = strlen(provider) + 1;
    uint16_t total;

    memset(data, 0, sizeof(data));
    for (int item = 0; item < 2; item++) {
        size_t len = 2 + (item ? meta_len : name_len);
        struct etl_item_header ih = {
            .size = (uint16_t) ((8 + len + 7) & ~7u),
            .type = item ? ETL_ITEM_EVENT_SCHEMA_TL : ETL_ITEM_PROV_TRAITS,
            .linkage = item ? 0 : 1,
            .data_size = (uint16_t) len,
        };
        memcpy(data + at, &ih, sizeof(ih));
        total = (uint16_t) len;
        memcpy(data + at + 8, &total, 2);
        if (item)
            memcpy(data + at + 10, meta, meta_len);
        else
            memcpy(data + at + 10, provider, name_len);
        at += ih.size;
    }
    memcpy(data + at, payload, payload_len);
    h.size = (uint16_t) (at + payload_len);
    memcpy(data, &h, sizeof(h));
    add(s, data, h.size);
}

static struct json_object *dump(const char *file, const char *option, const char *value,
                                const char *option2, const char *value2)
{
    struct test_output o;
    const char *argv[10] = {test_env("ETWCTL"), "dump", "--json", file};
    struct json_object *lines;
    size_t n = 4;

    if (option)
        argv[n++] = option;
    if (value)
        argv[n++] = value;
    if (option2)
        argv[n++] = option2;
    if (value2)
        argv[n++] = value2;
    test_run_limit(&o, 0, argv);
    ck_assert_msg(o.status == 0, "dump: status %d: %s", o.status, o.err);
    lines = test_json_lines(o.out);
    test_output_done(&o);
    return lines;
}

static size_t dump_count(const char *file, const char *option, const char *value)
{
    struct json_object *lines = dump(file, option, value, NULL, NULL);
    size_t n = json_object_array_length(lines);

    json_object_put(lines);
    return n;
}

static bool is_null(struct json_object *o, const char *key)
{
    struct json_object *v = o;

    ck_assert_msg(json_object_object_get_ex(o, key, &v), "no '%s'", key);
    return v == NULL;
}

/* Two processors, a process that is there at the beginning and becomes another program. */
static char *story(void)
{
    struct synthetic_params params = {.processors = 2};
    char *path = test_path("story.etl");
    struct synthetic *s = synthetic_new(path, &params);

    synthetic_begin(s, 0, 0);
    add_process(s, ETL_ROW_Process_DCStart, T0 + 10, 100, "sh", "sh -c 'a b'");
    add_thread(s, ETL_ROW_Thread_DCStart, T0 + 10, 100, 101);
    add_switch(s, T0 + 100, 0, 101);
    add_switch(s, T0 + 300, 101, 0);
    add_process(s, ETL_ROW_Process_End, T0 + 400, 100, "sh", "");
    add_process(s, ETL_ROW_Process_Start, T0 + 400, 100, "true", "true");
    add_switch(s, T0 + 500, 0, 101);
    synthetic_flush(s, T0 + 600, 0);
    synthetic_begin(s, 1, 0);
    add_switch(s, T0 + 200, 0, 999);
    synthetic_flush(s, T0 + 600, ETL_BUFFER_FLUSH_MARKER);
    synthetic_finish(s, SYNTHETIC_START + 100);
    return path;
}

START_TEST(events_in_order_with_names)
{
    static const char *const keys[] = {
        "time",    "timestamp", "filetime", "cpu",         "pid",
        "tid",     "kind",      "provider", "event",       "id",
        "version", "opcode",    "task",     "level",       "channel",
        "keyword", "payload",   "stack",    "activity_id", "related_activity_id",
    };
    static const struct {
        const char *event;
        uint64_t offset;
        unsigned cpu;
        long tid;
        long pid; /* -1: null */
        const char *process;
    } expected[] = {
        {"Process/DCStart", 10, 0, 7, 6, NULL},     {"Thread/DCStart", 10, 0, 7, 6, NULL},
        {"Thread/CSwitch", 100, 0, 101, 100, "sh"}, {"Thread/CSwitch", 200, 1, 999, -1, NULL},
        {"Thread/CSwitch", 300, 0, 0, 0, "Idle"},   {"Process/End", 400, 0, 7, 6, NULL},
        {"Process/Start", 400, 0, 7, 6, NULL},      {"Thread/CSwitch", 500, 0, 101, 100, "true"},
    };
    char *file = story();
    struct json_object *lines = dump(file, NULL, NULL, NULL, NULL);
    size_t header = json_object_array_length(lines) - sizeof(expected) / sizeof(expected[0]);
    uint64_t start = 0;

    ck_assert_uint_ge(header, 1);
    for (size_t i = 0; i < json_object_array_length(lines); i++) {
        struct json_object *e = json_object_array_get_idx(lines, i), *v;
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            ck_assert_msg(json_object_object_get_ex(e, keys[k], &v), "no '%s'", keys[k]);
        if (i < header) {
            if (i == 0) {
                start = test_json_u64(e, "timestamp");
                ck_assert_str_eq(test_json_str(e, "time"), "2024-01-01T00:00:00.000000000Z");
                ck_assert_uint_eq(test_json_u64(e, "filetime"), SYNTHETIC_START);
                ck_assert_str_eq(test_json_str(e, "event"), "Header");
                ck_assert_str_eq(test_json_str(e, "payload.SessionNameString"), "synthetic");
            }
            continue;
        }
        char name[64];
        (void) snprintf(name, sizeof(name), "%s/%s", test_json_str(e, "provider.name"),
                        test_json_str(e, "event"));
        ck_assert_str_eq(name, expected[i - header].event);
        ck_assert_uint_eq(test_json_u64(e, "timestamp"), start + expected[i - header].offset);
        ck_assert_uint_eq(test_json_u64(e, "filetime"),
                          SYNTHETIC_START + expected[i - header].offset / 100);
        ck_assert_uint_eq(test_json_u64(e, "cpu"), expected[i - header].cpu);
        ck_assert_uint_eq(test_json_u64(e, "tid"), (uint64_t) expected[i - header].tid);
        if (expected[i - header].pid < 0)
            ck_assert(is_null(e, "pid"));
        else
            ck_assert_uint_eq(test_json_u64(e, "pid"), (uint64_t) expected[i - header].pid);
        if (expected[i - header].process)
            ck_assert_str_eq(test_json_str(e, "process"), expected[i - header].process);
        else
            ck_assert(is_null(e, "process"));
        ck_assert_str_eq(test_json_str(e, "kind"), "system");
    }
    struct json_object *p = json_object_array_get_idx(lines, header);
    ck_assert_str_eq(test_json_str(p, "payload.UniqueProcessKey"), "0xffff000000000064");
    ck_assert_str_eq(test_json_str(p, "payload.UserSID"), "S-1-22-1-1000");
    ck_assert_str_eq(test_json_str(p, "payload.CommandLine"), "sh -c 'a b'");
    ck_assert_int_eq(json_object_get_int(test_json_get(p, "payload.ExitStatus")), -3);
    json_object_put(lines);
    free(file);
}
END_TEST

START_TEST(filters)
{
    char *file = story();
    size_t all = dump_count(file, NULL, NULL);
    struct json_object *lines;

    ck_assert_uint_eq(dump_count(file, "--event", "CSwitch"), 4);
    ck_assert_uint_eq(dump_count(file, "--event", "thread/cswitch"), 4);
    ck_assert_uint_eq(dump_count(file, "--event", "Process/CSwitch"), 0);
    ck_assert_uint_eq(dump_count(file, "--event", "36"), 4);
    ck_assert_uint_eq(dump_count(file, "--provider", "Process"), 3);
    ck_assert_uint_eq(dump_count(file, "--provider", "{3D6FA8D0-fe05-11d0-9dda-00c04fd7ba7c}"), 3);
    ck_assert_uint_eq(dump_count(file, "--cpu", "1"), 1);
    /* switched in or out, and the events that name it */
    ck_assert_uint_eq(dump_count(file, "--pid", "100"), 7);
    ck_assert_uint_eq(dump_count(file, "--tid", "101"), 4);
    ck_assert_uint_eq(dump_count(file, "--tid", "998,999"), 1);
    ck_assert_uint_eq(dump_count(file, "--limit", "2"), 2);
    ck_assert_uint_eq(dump_count(file, "--limit", "0"), 0);
    ck_assert_uint_eq(dump_count(file, "--since", "300ns"), 4);
    ck_assert_uint_eq(dump_count(file, "--since", "2024-01-01T00:00:00.000000300Z"), 4);
    ck_assert_uint_eq(dump_count(file, "--since", "2024-01-01T01:00:00.000000300+01:00"), 4);
    ck_assert_uint_eq(dump_count(file, "--until", "+300ns"), all - 3);
    lines = dump(file, "--until", "300ns", "--event", "CSwitch");
    ck_assert_uint_eq(json_object_array_length(lines), 3);
    /* names are known though what told them is filtered away */
    lines = dump(file, "--since", "500ns", NULL, NULL);
    ck_assert_uint_eq(json_object_array_length(lines), 1);
    ck_assert_str_eq(test_json_str(json_object_array_get_idx(lines, 0), "process"), "true");
    json_object_put(lines);
    free(file);
}
END_TEST

START_TEST(words_for_people)
{
    char *file = story();
    struct test_output o;

    test_etwctl_ok(&o, "dump", file);
    ck_assert_ptr_nonnull(strstr(o.out, "100(sh)     101  Thread/CSwitch"));
    ck_assert_ptr_nonnull(strstr(o.out, "OldThreadWaitReason=UserRequest"));
    ck_assert_ptr_nonnull(strstr(o.out, "OldThreadState=Waiting"));
    ck_assert_ptr_nonnull(strstr(o.out, "NewThreadPriority=-1"));
    ck_assert_ptr_nonnull(strstr(o.out, "CommandLine=\"sh -c 'a b'\""));
    ck_assert_ptr_nonnull(strstr(o.out, "2024-01-01T00:00:00.000000100Z [  0]"));
    test_output_done(&o);
    free(file);
}
END_TEST

/* No control character but the line's end, and valid UTF-8. */
static void check_harmless(const char *text)
{
    for (const unsigned char *p = (const unsigned char *) text; *p; p++) {
        ck_assert_msg(*p == '\n' || (*p >= 0x20 && *p != 0x7F), "control character 0x%02x in %s",
                      *p, text);
        ck_assert_msg(p[0] != 0xC2 || p[1] >= 0xA0, "C1 control in %s", text);
        ck_assert_msg(!(p[0] == 0xE2 && p[1] == 0x80 && p[2] >= 0xA8 && p[2] <= 0xAE),
                      "direction override in %s", text);
        ck_assert_msg(*p != 0xFF, "invalid UTF-8 in %s", text);
    }
}

START_TEST(hostile_names)
{
    /* event EVIL with a field EVIL whose text is EVIL, twice: 8 and 16 bits */
    static const char meta[] = "\0" EVIL "\0" EVIL "\0\2w\0\1";
    static const char payload[] = EVIL "\0\033\0[\0\x9B\0\x2E\x20\0\xD8";
    char *path = test_path("evil.etl"), *line;
    struct synthetic *s = synthetic_new(path, NULL);
    struct json_object *lines, *e, *f;
    struct test_output o;

    synthetic_begin(s, 0, 0);
    add_process(s, ETL_ROW_Process_Start, T0 + 1, 50, EVIL, EVIL);
    add_thread(s, ETL_ROW_Thread_Start, T0 + 1, 50, 50);
    add_switch(s, T0 + 2, 0, 50);
    add_tl(s, T0 + 3, EVIL, meta, sizeof(meta) - 1, payload, sizeof(payload) - 1);
    synthetic_flush(s, T0 + 4, 0);
    synthetic_finish(s, SYNTHETIC_START + 1);

    test_etwctl_ok(&o, "dump", path);
    check_harmless(o.out);
    line = strstr(o.out, "Thread/CSwitch");
    ck_assert_ptr_nonnull(strstr(o.out, "50(" EVIL_IN_TEXT));
    ck_assert_ptr_nonnull(line);
    ck_assert_ptr_nonnull(strstr(line, EVIL_IN_TEXT "\"\\/" EVIL_IN_TEXT));
    test_output_done(&o);

    lines = dump(path, NULL, NULL, NULL, NULL);
    e = json_object_array_get_idx(lines, json_object_array_length(lines) - 1);
    ck_assert_str_eq(test_json_str(e, "kind"), "tracelogging");
    ck_assert_str_eq(test_json_str(e, "event"),
                     "\033[31mx\ny\xC2\x9Bz\xE2\x80\xAE\xEF\xBF\xBDq\"\\");
    ck_assert_str_eq(test_json_str(e, "provider.name"), test_json_str(e, "event"));
    ck_assert(json_object_object_get_ex(test_json_get(e, "payload"), "w", &f));
    ck_assert_str_eq(json_object_get_string(f), "\033[\xC2\x9B\xE2\x80\xAE\xEF\xBF\xBD");
    json_object_put(lines);

    test_etwctl_ok(&o, "dump", "--json", path);
    check_harmless(o.out);
    test_output_done(&o);
    test_etwctl_ok(&o, "summary", path);
    check_harmless(o.out);
    test_output_done(&o);
    test_etwctl_ok(&o, "summary", "--json", path);
    check_harmless(o.out);
    json_object_put(test_json(o.out));
    test_output_done(&o);

    /* and of the file itself, on stdout and stderr */
    char *evil_path = test_path("\033[31m\xFF.etl");
    ck_assert_int_eq(rename(path, evil_path), 0);
    test_etwctl_ok(&o, "summary", evil_path);
    check_harmless(o.out);
    test_output_done(&o);
    ck_assert_int_eq(truncate(evil_path, 10), 0);
    test_etwctl(&o, "dump", evil_path);
    ck_assert_int_eq(o.status, 1);
    check_harmless(o.err);
    test_output_done(&o);
    free(evil_path);
    free(path);
}
END_TEST

START_TEST(self_describing)
{
    /* every kind of value, arrays, a struct, an array of structs */
    static const char meta[] = "\0Event\0"
                               "i8\0\3"
                               "u64\0\12"
                               "big\0\11"
                               "hex\0\24"
                               "bool\0\204\3"
                               "float\0\13"
                               "port\0\206\7"
                               "ip\0\210\10"
                               "chars\0\306\2"
                               "list\0\110"
                               "pair\0\230\2"
                               "a\0\4"
                               "b\0\2"
                               "pairs\0\330\1"
                               "c\0\4"
                               "blob\0\16"
                               "none\0\0";
    static const char payload[] = "\376"
                                  "\1\0\0\0\0\0\0\200"
                                  "\1\0\0\0\0\0\0\200"
                                  "\357\276\255\336"
                                  "\1"
                                  "\0\0\300\77"
                                  "\0\120"
                                  "\177\0\0\1"
                                  "\2\0h\0i\0"
                                  "\2\0\1\0\0\0\2\0\0\0"
                                  "\7x\0"
                                  "\2\0\10\11"
                                  "\3\0\1\2\3";
    static const char expected[] =
        "{\"i8\":-2,\"u64\":\"9223372036854775809\",\"big\":\"-9223372036854775807\","
        "\"hex\":\"0xdeadbeef\",\"bool\":true,\"float\":1.5,\"port\":80,\"ip\":\"127.0.0.1\","
        "\"chars\":\"hi\",\"list\":[1,2],\"pair\":{\"a\":7,\"b\":\"x\"},"
        "\"pairs\":[{\"c\":8},{\"c\":9}],\"blob\":\"010203\",\"none\":null}";
    char *path = test_path("tl.etl");
    struct synthetic *s = synthetic_new(path, NULL);
    struct json_object *lines, *e, *want;

    synthetic_begin(s, 0, 0);
    add_tl(s, T0 + 1, "Some.Provider", meta, sizeof(meta) - 1, payload, sizeof(payload) - 1);
    /* the same cut short inside a struct: what was there is shown, closed, and raw besides */
    add_tl(s, T0 + 2, "Some.Provider", meta, sizeof(meta) - 1, payload, sizeof(payload) - 7);
    synthetic_flush(s, T0 + 4, 0);
    synthetic_finish(s, SYNTHETIC_START + 1);

    lines = dump(path, "--provider", "some.provider", NULL, NULL);
    ck_assert_uint_eq(json_object_array_length(lines), 2);
    e = json_object_array_get_idx(lines, 0);
    want = test_json(expected);
    ck_assert_msg(json_object_equal(test_json_get(e, "payload"), want), "payload %s",
                  json_object_to_json_string(test_json_get(e, "payload")));
    ck_assert_str_eq(test_json_str(e, "keyword"), "0x8000000000000001");
    ck_assert_str_eq(test_json_str(e, "provider.guid"), "11223344-0000-0000-0000-000000000000");
    ck_assert_uint_eq(test_json_u64(e, "level"), 5);
    ck_assert_uint_eq(test_json_u64(e, "channel"), 11);
    ck_assert_uint_eq(test_json_u64(e, "pid"), 20);
    ck_assert_uint_eq(test_json_u64(e, "tid"), 21);
    ck_assert(!test_json_has(e, "raw"));
    json_object_put(want);

    e = json_object_array_get_idx(lines, 1);
    ck_assert_uint_eq(test_json_u64(e, "payload.pair.a"), 7);
    ck_assert_str_eq(test_json_str(e, "payload.pair.b"), "x");
    ck_assert(!test_json_has(e, "payload.blob"));
    ck_assert_uint_eq(json_object_array_length(test_json_get(e, "payload.pairs")), 2);
    ck_assert_uint_eq(strlen(test_json_str(e, "raw")), 2 * (sizeof(payload) - 7));
    json_object_put(lines);

    struct test_output o;
    test_etwctl_ok(&o, "dump", "--event", "Event", "--limit", "1", path);
    ck_assert_ptr_nonnull(strstr(o.out, "Some.Provider/Event"));
    ck_assert_ptr_nonnull(strstr(o.out, " list=[1,2] pair={a=7 b=\"x\"} pairs=[{c=8},{c=9}] "
                                        "blob=010203 none=-\n"));
    test_output_done(&o);
    free(path);
}
END_TEST

START_TEST(images_have_their_build_id)
{
    static const uint8_t first[20] = {0xAB, 1, 2, 3, 4, 5, 6, 7, 8, 9}, second[20] = {0xCD};
    static const struct {
        enum etl_row row;
        unsigned offset;
        unsigned pid;
        uint64_t base;
        const uint8_t *told;
        uint8_t expected; /* first byte; 0: none */
    } images[] = {
        {ETL_ROW_Image_DCStart, 1, 5, 0x400000, first, 0xAB},
        {ETL_ROW_Image_Load, 1, 5, 0x500000, second, 0xCD},
        {ETL_ROW_Image_Load, 1, 6, 0x400000, NULL, 0}, /* another process */
        {ETL_ROW_Image_UnLoad, 2, 6, 0x400000, NULL, 0},
        {ETL_ROW_Image_UnLoad, 2, 5, 0x400000, NULL, 0xAB}, /* known from when it came */
        {ETL_ROW_Image_Load, 3, 5, 0x400000, NULL, 0},      /* another file there */
        {ETL_ROW_Image_UnLoad, 4, 5, 0x400000, NULL, 0},
        {ETL_ROW_Image_DCEnd, 5, 5, 0x500000, NULL, 0xCD},
    };
    size_t n = sizeof(images) / sizeof(images[0]);
    char *path = test_path("images.etl");
    struct synthetic *s = synthetic_new(path, NULL);
    struct json_object *lines;

    synthetic_begin(s, 0, 0);
    for (size_t i = 0; i < n; i++)
        add_image(s, images[i].row, T0 + images[i].offset, images[i].pid, images[i].base,
                  images[i].told);
    synthetic_flush(s, T0 + 9, 0);
    synthetic_finish(s, SYNTHETIC_START + 1);

    lines = dump(path, "--provider", "Image", NULL, NULL);
    ck_assert_uint_eq(json_object_array_length(lines), n);
    for (size_t i = 0; i < n; i++) {
        struct json_object *e = json_object_array_get_idx(lines, i);
        if (images[i].expected) {
            const char *id = test_json_str(e, "build_id");
            char byte[3];
            (void) snprintf(byte, sizeof(byte), "%02x", images[i].expected);
            ck_assert_uint_eq(strlen(id), 40);
            ck_assert_msg(!strncmp(id, byte, 2), "image %zu has build-id %s", i, id);
        } else {
            ck_assert_msg(!test_json_has(e, "build_id"), "image %zu has a build-id", i);
        }
    }
    ck_assert_str_eq(test_json_str(json_object_array_get_idx(lines, 0), "payload.ImageBase"),
                     "0x400000");
    json_object_put(lines);
    free(path);
}
END_TEST

/* Very many images that come and go: the table keeps up. */
START_TEST(many_images)
{
    struct synthetic_params params = {.buffer_size = 1 << 20};
    char *path = test_path("many.etl");
    struct synthetic *s;
    struct test_output o;
    uint8_t id[20] = {1};
    size_t n = 0;

    s = synthetic_new(path, &params);
    for (unsigned round = 0; round < 10; round++) {
        synthetic_begin(s, 0, 0);
        for (unsigned i = 0; i < 1500; i++) {
            id[1] = (uint8_t) i;
            add_image(s, ETL_ROW_Image_Load, T0 + round * 10000 + i, 100 + i % 7,
                      0x1000ull * (i + 1), id);
        }
        for (unsigned i = 0; i < 1500; i++)
            add_image(s, ETL_ROW_Image_UnLoad, T0 + round * 10000 + 2000 + i, 100 + i % 7,
                      0x1000ull * (i + 1), NULL);
        synthetic_flush(s, T0 + round * 10000 + 9000, 0);
    }
    synthetic_finish(s, SYNTHETIC_START + 10000);
    test_etwctl_ok(&o, "dump", "--event", "UnLoad", path);
    for (const char *p = o.out; (p = strstr(p, " BuildId=")); p++) {
        char expected[48];
        (void) snprintf(expected, sizeof(expected), " BuildId=01%02x", (unsigned) (n % 1500) & 255);
        ck_assert_msg(!strncmp(p, expected, strlen(expected)), "image %zu: %.20s", n, p);
        n++;
    }
    ck_assert_uint_eq(n, 15000);
    test_output_done(&o);
    free(path);
}
END_TEST

START_TEST(not_understood)
{
    static const uint8_t bytes[] = {0xDE, 0xAD, 0xBE, 0xEF};
    char *path = test_path("raw.etl");
    struct synthetic *s = synthetic_new(path, NULL);
    struct etl_full_header full = {
        .size = sizeof(full) + sizeof(bytes),
        .header_type = ETL_FULL64,
        .marker = ETL_MARKER_TRACE,
        .type = 9,
        .level = 3,
        .version = 2,
        .thread_id = 31,
        .process_id = 30,
        .time_stamp = T0 + 1,
        .guid = {.data1 = 0xABCDEF01},
    };
    struct etl_message_header msg = {
        .size = sizeof(msg) + 16 + 8 + 8 + sizeof(bytes),
        .marker = ETL_MARKER_MESSAGE,
        .number = 17,
        .flags = ETL_MESSAGE_GUID | ETL_MESSAGE_TIMESTAMP | ETL_MESSAGE_SYSTEMINFO,
    };
    uint64_t stamp = T0 + 2;
    uint32_t ids[2] = {41, 40};
    uint8_t data[128], *at = data;
    struct json_object *lines, *e;

    synthetic_begin(s, 0, 0);
    memcpy(data, &full, sizeof(full));
    memcpy(data + sizeof(full), bytes, sizeof(bytes));
    add(s, data, full.size);
    /* a class of the kernel, but written by a program */
    full.guid = etl_rows[ETL_ROW_Thread_CSwitch].guid;
    memcpy(data, &full, sizeof(full));
    add(s, data, full.size);
    full.guid = (struct etw_guid){.data1 = 0xABCDEF01};
    memcpy(at, &msg, sizeof(msg));
    at += sizeof(msg);
    memcpy(at, &full.guid, 16);
    memcpy(at + 16, &stamp, 8);
    memcpy(at + 24, ids, 8);
    memcpy(at + 32, bytes, sizeof(bytes));
    add(s, data, msg.size);
    synthetic_flush(s, T0 + 4, 0);
    synthetic_finish(s, SYNTHETIC_START + 1);

    lines = dump(path, "--provider", "abcdef01-0000-0000-0000-000000000000", NULL, NULL);
    ck_assert_uint_eq(json_object_array_length(lines), 2);
    e = json_object_array_get_idx(lines, 0);
    ck_assert_str_eq(test_json_str(e, "kind"), "classic");
    ck_assert_uint_eq(test_json_u64(e, "opcode"), 9);
    ck_assert_uint_eq(test_json_u64(e, "level"), 3);
    ck_assert_uint_eq(test_json_u64(e, "version"), 2);
    ck_assert_uint_eq(test_json_u64(e, "pid"), 30);
    ck_assert(is_null(e, "event"));
    ck_assert(is_null(e, "payload"));
    ck_assert_str_eq(test_json_str(e, "raw"), "deadbeef");
    ck_assert(!test_json_has(e, "raw_timestamp"));
    e = json_object_array_get_idx(lines, 1);
    ck_assert_str_eq(test_json_str(e, "kind"), "message");
    ck_assert_uint_eq(test_json_u64(e, "id"), 17);
    ck_assert_uint_eq(test_json_u64(e, "tid"), 41);
    ck_assert_str_eq(test_json_str(e, "raw"), "deadbeef");
    json_object_put(lines);

    lines = dump(path, "--provider", "Thread", NULL, NULL);
    ck_assert_uint_eq(json_object_array_length(lines), 1);
    e = json_object_array_get_idx(lines, 0);
    ck_assert_str_eq(test_json_str(e, "kind"), "classic");
    ck_assert_uint_eq(test_json_u64(e, "opcode"), 9);
    json_object_put(lines);

    lines = dump(path, "--raw", NULL, "--event", "Header");
    e = json_object_array_get_idx(lines, 0);
    ck_assert_uint_eq(test_json_u64(e, "raw_timestamp"), T0);
    ck_assert_uint_gt(strlen(test_json_str(e, "raw")), 2 * 0x118);
    json_object_put(lines);

    struct test_output o;
    test_etwctl_ok(&o, "dump", path);
    ck_assert_ptr_nonnull(strstr(o.out, "abcdef01-0000-0000-0000-000000000000/op9"));
    ck_assert_ptr_nonnull(strstr(o.out, "raw=deadbeef"));
    test_output_done(&o);
    free(path);
}
END_TEST

static struct json_object *summary(const char *file, int status)
{
    struct test_output o;
    struct json_object *s;

    test_etwctl(&o, "summary", "--json", file);
    ck_assert_msg(o.status == status, "summary: status %d, expected %d: %s", o.status, status,
                  o.err);
    s = test_json(o.out);
    test_output_done(&o);
    return s;
}

START_TEST(summary_counts)
{
    static const char *const keys[] = {
        "file",           "complete",      "buffers",      "buffer_size",  "compressed_buffers",
        "events",         "events_lost",   "buffers_lost", "logger_name",  "log_file_name",
        "os_version",     "machine",       "processors",   "pointer_size", "clock",
        "perf_frequency", "start_time",    "end_time",     "first_event",  "last_event",
        "first_filetime", "last_filetime", "counts",
    };
    static const char *const count_keys[] = {"kind",    "provider", "name", "event",   "id",
                                             "version", "opcode",   "hook", "message", "count"};
    char *file = story();
    struct json_object *s = summary(file, 0), *counts, *v;
    uint64_t sum = 0, switches = 0;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        ck_assert_msg(json_object_object_get_ex(s, keys[i], &v), "no '%s'", keys[i]);
    ck_assert(test_json_bool(s, "complete"));
    ck_assert_uint_eq(test_json_u64(s, "buffers"), 3);
    ck_assert_uint_eq(test_json_u64(s, "processors"), 2);
    ck_assert_str_eq(test_json_str(s, "clock"), "qpc");
    ck_assert_str_eq(test_json_str(s, "logger_name"), "synthetic");
    ck_assert_str_eq(test_json_str(s, "start_time"), "2024-01-01T00:00:00.000000000Z");
    ck_assert_str_eq(test_json_str(s, "end_time"), "2024-01-01T00:00:00.000010000Z");
    ck_assert_str_eq(test_json_str(s, "first_event"), "2024-01-01T00:00:00.000000000Z");
    ck_assert_str_eq(test_json_str(s, "last_event"), "2024-01-01T00:00:00.000000500Z");
    ck_assert_uint_eq(test_json_u64(s, "last_filetime"), SYNTHETIC_START + 5);
    counts = test_json_get(s, "counts");
    for (size_t i = 0; i < json_object_array_length(counts); i++) {
        struct json_object *c = json_object_array_get_idx(counts, i);
        for (size_t k = 0; k < sizeof(count_keys) / sizeof(count_keys[0]); k++)
            ck_assert_msg(json_object_object_get_ex(c, count_keys[k], &v), "no '%s'",
                          count_keys[k]);
        sum += test_json_u64(c, "count");
        if (test_json_u64(c, "hook") == 0x0524) {
            switches = test_json_u64(c, "count");
            ck_assert_str_eq(test_json_str(c, "name"), "Thread");
            ck_assert_str_eq(test_json_str(c, "event"), "CSwitch");
            ck_assert_str_eq(test_json_str(c, "provider"), "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c");
        }
    }
    ck_assert_uint_eq(switches, 4);
    ck_assert_uint_eq(test_json_u64(s, "events"), sum);
    ck_assert_uint_eq(dump_count(file, NULL, NULL), sum);
    json_object_put(s);
    free(file);
}
END_TEST

static void patch32(const char *file, off_t at, uint32_t v)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, &v, sizeof(v), at), sizeof(v));
    close(fd);
}

START_TEST(incomplete_files)
{
    struct test_output o;
    struct json_object *s;
    char *file = story();

    /* cut in the last buffer, behind its event: all events are there, still it is cut */
    ck_assert_int_eq(truncate(file, 3 * 4096 - 8), 0);
    s = summary(file, 4);
    ck_assert(!test_json_bool(s, "complete"));
    json_object_put(s);
    test_etwctl(&o, "summary", file);
    ck_assert_int_eq(o.status, 4);
    ck_assert_ptr_nonnull(strstr(o.out, "cut short"));
    test_output_done(&o);
    test_etwctl(&o, "dump", file);
    ck_assert_int_eq(o.status, 4);
    ck_assert_ptr_nonnull(strstr(o.err, "cut short"));
    test_output_done(&o);
    free(file);

    /* a whole buffer less than the header tells */
    file = story();
    ck_assert_int_eq(truncate(file, 2 * 4096), 0);
    s = summary(file, 4);
    ck_assert(!test_json_bool(s, "complete"));
    ck_assert_uint_eq(test_json_u64(s, "buffers"), 2);
    json_object_put(s);
    free(file);

    /* never closed: EndTime 0 */
    file = story();
    patch32(file, 0x78, 0);
    patch32(file, 0x7C, 0);
    s = summary(file, 4);
    ck_assert(!test_json_bool(s, "complete"));
    ck_assert(is_null(s, "end_time"));
    json_object_put(s);
    free(file);

    /* garbage where an event should be */
    file = story();
    patch32(file, 4096 + 0x48, 0x12345678);
    s = summary(file, 4);
    ck_assert(!test_json_bool(s, "complete"));
    json_object_put(s);
    free(file);

    /* events were lost: whole, but not without a word */
    file = story();
    patch32(file, 0x98, 41);
    s = summary(file, 4);
    ck_assert(test_json_bool(s, "complete"));
    ck_assert_uint_eq(test_json_u64(s, "events_lost"), 41);
    json_object_put(s);
    test_etwctl(&o, "dump", file);
    ck_assert_int_eq(o.status, 4);
    ck_assert_ptr_nonnull(strstr(o.err, "41 events"));
    test_output_done(&o);
    free(file);
}
END_TEST

START_TEST(files_that_are_none)
{
    char *good = story(), *bad = test_path("bad.etl");
    struct test_output o;
    struct json_object *lines;
    FILE *f = fopen(bad, "we");

    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 1000; i++)
        fputs("this is text. ", f);
    fclose(f);

    test_etwctl(&o, "summary", bad);
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "not an .etl file"));
    test_output_done(&o);
    test_etwctl(&o, "dump", bad);
    ck_assert_int_eq(o.status, 1);
    test_output_done(&o);
    test_etwctl(&o, "dump", "/nowhere/at/all.etl");
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "/nowhere/at/all.etl"));
    test_output_done(&o);
    test_etwctl(&o, "summary", "/");
    ck_assert_int_eq(o.status, 1);
    test_output_done(&o);
    /* one bad file does not hide a good one */
    test_etwctl(&o, "summary", "--json", bad, good);
    ck_assert_int_eq(o.status, 1);
    lines = test_json_lines(o.out);
    ck_assert_uint_eq(json_object_array_length(lines), 1);
    json_object_put(lines);
    test_output_done(&o);
    free(good);
    free(bad);
}
END_TEST

START_TEST(several_files_by_time)
{
    struct synthetic_params params = {.start = SYNTHETIC_START, .frequency = 10000000};
    char *one = story(), *two = test_path("two.etl");
    struct synthetic *s;
    struct test_output o;
    struct json_object *lines;
    uint64_t last = 0;

    /* another clock: 100 ns a tick, so its events fall between those of the first */
    params.start_raw = 5;
    s = synthetic_new(two, &params);
    synthetic_begin(s, 0, 0);
    for (uint64_t i = 1; i <= 4; i++)
        add_switch(s, 5 + i, 0, 77);
    synthetic_flush(s, 10, 0);
    synthetic_finish(s, SYNTHETIC_START + 10);

    test_etwctl_ok(&o, "dump", "--json", one, two);
    lines = test_json_lines(o.out);
    for (size_t i = 0; i < json_object_array_length(lines); i++) {
        uint64_t stamp = test_json_u64(json_object_array_get_idx(lines, i), "timestamp");
        ck_assert_uint_ge(stamp, last);
        last = stamp;
    }
    ck_assert_uint_eq(json_object_array_length(lines),
                      dump_count(one, NULL, NULL) + dump_count(two, NULL, NULL));
    json_object_put(lines);
    test_output_done(&o);
    free(one);
    free(two);
}
END_TEST

START_TEST(reader_goes_away)
{
    char *file = test_path("big.etl"), command[8192];
    struct test_output o;

    (void) synthetic_kernel_file(file, 8 << 20, 65536, 2, 4);
    (void) snprintf(command, sizeof(command), "set -o pipefail; '%s' dump '%s' | head -n 3",
                    test_env("ETWCTL"), file);
    test_run(&o, "bash", "-c", command);
    ck_assert_msg(o.status == 0, "status %d: %s", o.status, o.err);
    ck_assert_str_eq(o.err, "");
    test_output_done(&o);
    (void) snprintf(command, sizeof(command), "'%s' dump '%s' > /dev/full", test_env("ETWCTL"),
                    file);
    test_run(&o, "bash", "-c", command);
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "standard output"));
    test_output_done(&o);
    free(file);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("etwctl-files");
    TCase *tc = tcase_create("etwctl-files");

    tcase_set_timeout(tc, 180);
    tcase_add_test(tc, events_in_order_with_names);
    tcase_add_test(tc, filters);
    tcase_add_test(tc, words_for_people);
    tcase_add_test(tc, hostile_names);
    tcase_add_test(tc, self_describing);
    tcase_add_test(tc, images_have_their_build_id);
    tcase_add_test(tc, many_images);
    tcase_add_test(tc, not_understood);
    tcase_add_test(tc, summary_counts);
    tcase_add_test(tc, incomplete_files);
    tcase_add_test(tc, files_that_are_none);
    tcase_add_test(tc, several_files_by_time);
    tcase_add_test(tc, reader_goes_away);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
