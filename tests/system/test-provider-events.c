/* SPDX-License-Identifier: Apache-2.0
 *
 * What providers write comes back: every kind of event, through a session's file, by ProcessTrace
 * and by `etwctl dump --json`; activity ids, extended items, sizes at their limits, sessions with
 * different buffers, and the kernel logger beside them. This program is the provider.
 *
 *     test-provider-events PROVIDER-PROGRAM
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <KernelTraceControl.h>
#include <TraceLoggingProvider.h>

#include "api/properties.h"
#include "base/clock.h"
#include "captured.h"
#include "provider-tests.h"

static const GUID guid = {
    0x3a7e0f21, 0x51c4, 0x4b6d, {0x8e, 0x90, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc}};
#define GUID_TEXT "3a7e0f21-51c4-4b6d-8e90-123456789abc"

TRACELOGGING_DEFINE_PROVIDER(self_describing, "Etw.Test.Events",
                             (0xd56d6f9b, 0x4a6f, 0x4d23, 0xa3, 0x0e, 0x5e, 0x3a, 0x5b, 0x11, 0x77,
                              0x42));
static const GUID self_describing_guid = {
    0xd56d6f9b, 0x4a6f, 0x4d23, {0xa3, 0x0e, 0x5e, 0x3a, 0x5b, 0x11, 0x77, 0x42}};

static struct test_daemon *d;
static char *files[3];
static TRACEHANDLE session;
static REGHANDLE provider;

static void setup(void)
{
    d = test_daemon_start();
    for (unsigned i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof(name), "events%u.etl", i);
        files[i] = test_path(name);
    }
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &provider), ERROR_SUCCESS);
    session = session_start("Zero", files[0], 0, 0, 0, 0);
    session_enable_guid(session, &guid, 0xff, 0, 0);
}

static void teardown(void)
{
    ck_assert_uint_eq(EventUnregister(provider), ERROR_SUCCESS);
    test_daemon_alive(d);
    test_daemon_stop(d);
    d = test_daemon_free(d);
    for (unsigned i = 0; i < 3; i++)
        free(files[i]);
}

static const EVENT_DESCRIPTOR plain = {.Id = 1, .Level = 4, .Keyword = 1};

static ULONG write_id(USHORT id, const void *data, ULONG size)
{
    EVENT_DESCRIPTOR e = plain;
    EVENT_DATA_DESCRIPTOR piece;

    e.Id = id;
    EventDataDescCreate(&piece, data, size);
    return EventWrite(provider, &e, size ? 1 : 0, &piece);
}

/* The events of our provider as etwctl shows them. */
static struct json_object *dump(const char *file, const char *provider_guid)
{
    struct json_object *all, *ours = json_object_new_array();
    struct test_output o;

    test_etwctl_ok(&o, "dump", "--json", "--raw", file);
    all = test_json_lines(o.out);
    test_output_done(&o);
    for (size_t i = 0; i < json_object_array_length(all); i++) {
        struct json_object *e = json_object_array_get_idx(all, i);
        if (strcmp(test_json_str(e, "provider.guid"), provider_guid) == 0)
            json_object_array_add(ours, json_object_get(e));
    }
    json_object_put(all);
    return ours;
}

START_TEST(event_with_pieces)
{
    static const uint32_t first = 0x01020304;
    static const char second[] = "seven b";
    static const uint64_t third = 0x1122334455667788;
    static const uint8_t expected[] = {4,   3, 2,    1,    's',  'e',  'v',  'e',  'n',  ' ',
                                       'b', 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    const EVENT_DESCRIPTOR descriptor = {.Id = 0xfffe,
                                         .Version = 3,
                                         .Channel = 16,
                                         .Level = 2,
                                         .Opcode = 11,
                                         .Task = 0x1234,
                                         .Keyword = 0x8000000000000042};
    EVENT_DATA_DESCRIPTOR data[4];
    uint64_t before = etw_filetime_now(), after;
    struct json_object *shown, *e;
    const struct captured_event *c;
    struct captured got;

    EventDataDescCreate(&data[0], &first, sizeof(first));
    EventDataDescCreate(&data[1], second, sizeof(second));
    EventDataDescCreate(&data[2], NULL, 0);
    EventDataDescCreate(&data[3], &third, sizeof(third));
    ck_assert(EventEnabled(provider, &descriptor));
    ck_assert_uint_eq(EventWrite(provider, &descriptor, 4, data), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWrite(provider, &descriptor, 0, NULL), ERROR_SUCCESS);
    after = etw_filetime_now();
    ck_assert_uint_eq(session_stop("Zero").lost, 0);

    capture(&got, files[0], &guid);
    ck_assert_uint_eq(got.n, 2);
    c = &got.events[0];
    ck_assert_uint_eq(c->size, sizeof(expected));
    ck_assert_mem_eq(c->data, expected, sizeof(expected));
    ck_assert_mem_eq(&c->h.EventDescriptor, &descriptor, sizeof(descriptor));
    ck_assert_uint_eq(c->h.ProcessId, (ULONG) getpid());
    ck_assert_uint_eq(c->h.ThreadId, (ULONG) syscall(SYS_gettid));
    ck_assert_uint_eq(c->h.HeaderType, 0x13); /* EVENT64 */
    ck_assert_uint_eq(c->h.Flags &
                          (EVENT_HEADER_FLAG_64_BIT_HEADER | EVENT_HEADER_FLAG_CLASSIC_HEADER |
                           EVENT_HEADER_FLAG_EXTENDED_INFO | EVENT_HEADER_FLAG_STRING_ONLY),
                      EVENT_HEADER_FLAG_64_BIT_HEADER);
    ck_assert_uint_eq(c->n_items, 0);
    ck_assert_uint_lt(c->cpu, (ULONG) sysconf(_SC_NPROCESSORS_CONF));
    /* A step of the clock in between would be the only way out; 1 s for NTP. */
    ck_assert_uint_ge((uint64_t) c->h.TimeStamp.QuadPart + 10000000, before);
    ck_assert_uint_le((uint64_t) c->h.TimeStamp.QuadPart, after + 10000000);
    ck_assert_uint_eq(got.events[1].size, 0);
    ck_assert_int_ge(got.events[1].h.TimeStamp.QuadPart, c->h.TimeStamp.QuadPart);
    captured_done(&got);

    shown = dump(files[0], GUID_TEXT);
    ck_assert_uint_eq(json_object_array_length(shown), 2);
    e = json_object_array_get_idx(shown, 0);
    ck_assert_str_eq(test_json_str(e, "kind"), "event");
    ck_assert_uint_eq(test_json_u64(e, "id"), 0xfffe);
    ck_assert_uint_eq(test_json_u64(e, "version"), 3);
    ck_assert_uint_eq(test_json_u64(e, "channel"), 16);
    ck_assert_uint_eq(test_json_u64(e, "level"), 2);
    ck_assert_uint_eq(test_json_u64(e, "opcode"), 11);
    ck_assert_uint_eq(test_json_u64(e, "task"), 0x1234);
    ck_assert_str_eq(test_json_str(e, "keyword"), "0x8000000000000042");
    ck_assert_uint_eq(test_json_u64(e, "pid"), (uint64_t) getpid());
    ck_assert_str_eq(test_json_str(e, "raw"), "04030201736576656e2062008877665544332211");
    json_object_put(shown);
}
END_TEST

START_TEST(strings)
{
    static const WCHAR text[] = ETW_W("Gr\u00FC\u00DFe \u20ac");
    struct json_object *shown, *e;
    const struct captured_event *c;
    struct captured got;

    ck_assert_uint_eq(EventWriteString(provider, 3, 0x20, text), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWriteString(provider, 0, 0, ETW_W("")), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWriteString(provider, 3, 0x20, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventWriteString(0, 3, 0x20, text), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(session_stop("Zero").lost, 0);
    capture(&got, files[0], &guid);
    ck_assert_uint_eq(got.n, 2);
    c = &got.events[0];
    ck_assert_uint_eq(c->size, sizeof(text));
    ck_assert_mem_eq(c->data, text, sizeof(text));
    ck_assert(c->h.Flags & EVENT_HEADER_FLAG_STRING_ONLY);
    ck_assert_uint_eq(c->h.EventDescriptor.Level, 3);
    ck_assert_uint_eq(c->h.EventDescriptor.Keyword, 0x20);
    ck_assert_uint_eq(c->h.EventDescriptor.Id, 0);
    ck_assert_uint_eq(got.events[1].size, 2);
    captured_done(&got);
    shown = dump(files[0], GUID_TEXT);
    ck_assert_uint_eq(json_object_array_length(shown), 2);
    e = json_object_array_get_idx(shown, 0);
    ck_assert_str_eq(test_json_str(e, "raw"), "47007200fc00df0065002000ac200000");
    json_object_put(shown);
}
END_TEST

START_TEST(self_describing_events)
{
    static const uint16_t list[] = {7, 8, 65535};
    struct json_object *shown, *e;
    struct captured got;
    int evaluated = 0;

    ck_assert_int_eq(TraceLoggingRegister(self_describing), 0);
    TraceLoggingWrite(self_describing, "Nobody", TraceLoggingInt32(++evaluated, "n"));
    ck_assert_int_eq(evaluated, 0);
    session_enable_guid(session, &self_describing_guid, 0xff, 0, 0);
    TraceLoggingWrite(self_describing, "Sold", TraceLoggingLevel(3), TraceLoggingKeyword(0x2),
                      TraceLoggingOpcode(1), TraceLoggingString("apple", "article"),
                      TraceLoggingInt32(++evaluated, "pieces"), TraceLoggingFloat64(1.5, "price"),
                      TraceLoggingBool(1, "fresh"), TraceLoggingUInt16Array(list, 3, "list"));
    TraceLoggingWrite(self_describing, "Bare");
    ck_assert_int_eq(evaluated, 1);
    TraceLoggingUnregister(self_describing);
    TraceLoggingWrite(self_describing, "Gone");
    ck_assert_uint_eq(session_stop("Zero").lost, 0);

    capture(&got, files[0], &self_describing_guid);
    ck_assert_uint_eq(got.n, 2);
    ck_assert_ptr_nonnull(captured_item(&got.events[0], EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL));
    ck_assert_ptr_nonnull(captured_item(&got.events[0], EVENT_HEADER_EXT_TYPE_PROV_TRAITS));
    ck_assert_uint_eq(got.events[0].h.EventDescriptor.Channel, 11);
    ck_assert_uint_eq(got.events[0].h.EventDescriptor.Level, 3);
    ck_assert_uint_eq(got.events[0].h.EventDescriptor.Opcode, 1);
    ck_assert_uint_eq(got.events[0].h.EventDescriptor.Keyword, 2);
    captured_done(&got);
    shown = dump(files[0], "d56d6f9b-4a6f-4d23-a30e-5e3a5b117742");
    ck_assert_uint_eq(json_object_array_length(shown), 2);
    e = json_object_array_get_idx(shown, 0);
    ck_assert_str_eq(test_json_str(e, "kind"), "tracelogging");
    ck_assert_str_eq(test_json_str(e, "provider.name"), "Etw.Test.Events");
    ck_assert_str_eq(test_json_str(e, "event"), "Sold");
    ck_assert_str_eq(test_json_str(e, "payload.article"), "apple");
    ck_assert_uint_eq(test_json_u64(e, "payload.pieces"), 1);
    ck_assert_double_eq(json_object_get_double(test_json_get(e, "payload.price")), 1.5);
    ck_assert(json_object_get_boolean(test_json_get(e, "payload.fresh")));
    ck_assert_str_eq(
        json_object_to_json_string_ext(test_json_get(e, "payload.list"), JSON_C_TO_STRING_PLAIN),
        "[7,8,65535]");
    ck_assert_str_eq(test_json_str(json_object_array_get_idx(shown, 1), "event"), "Bare");
    json_object_put(shown);
}
END_TEST

static void *thread_activity(void *arg)
{
    GUID id;

    /* Not inherited. */
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_ID, &id), ERROR_SUCCESS);
    *(bool *) arg = IsEqualGUID(&id, &(GUID){0});
    (void) write_id(3, NULL, 0);
    return NULL;
}

START_TEST(activity_ids)
{
    const GUID mine = {1, 2, 3, {4}}, other = {5, 6, 7, {8}}, related = {9, 10, 11, {12}};
    const EVENT_DESCRIPTOR e4 = {.Id = 4}, e5 = {.Id = 5}, e6 = {.Id = 6};
    const struct captured_item *item;
    struct json_object *shown;
    struct captured got;
    GUID id = {0}, created;
    bool null_there;
    pthread_t t;

    (void) write_id(1, NULL, 0);
    id = mine;
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_SET_ID, &id), ERROR_SUCCESS);
    (void) write_id(2, NULL, 0);
    ck_assert_int_eq(pthread_create(&t, NULL, thread_activity, &null_there), 0);
    ck_assert_int_eq(pthread_join(t, NULL), 0);
    ck_assert(null_there);
    ck_assert_uint_eq(EventWriteTransfer(provider, &e4, NULL, &related, 0, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWriteTransfer(provider, &e5, &other, NULL, 0, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWriteEx(provider, &e6, 0, 0, &other, &related, 0, NULL), ERROR_SUCCESS);
    id = (GUID){0};
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_CREATE_SET_ID, &id),
                      ERROR_SUCCESS);
    ck_assert(IsEqualGUID(&id, &mine));
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_ID, &created), ERROR_SUCCESS);
    ck_assert(!IsEqualGUID(&created, &mine) && !IsEqualGUID(&created, &(GUID){0}));
    (void) write_id(7, NULL, 0);
    ck_assert_uint_eq(EventWriteEx(provider, &e6, 0, 0x80, NULL, NULL, 0, NULL),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(session_stop("Zero").lost, 0);

    capture(&got, files[0], &guid);
    captured_ids(&got, "activities", (const USHORT[]){1, 2, 3, 4, 5, 6, 7}, 7);
    const GUID *const expected[] = {&(GUID){0}, &mine, &(GUID){0}, &mine, &other, &other, &created};
    for (size_t i = 0; i < 7; i++) {
        bool has = i == 3 || i == 5;
        ck_assert_msg(IsEqualGUID(&got.events[i].h.ActivityId, expected[i]), "event %zu", i + 1);
        item = captured_item(&got.events[i], EVENT_HEADER_EXT_TYPE_RELATED_ACTIVITYID);
        ck_assert_msg(!item == !has, "event %zu", i + 1);
        if (!has)
            continue;
        ck_assert_uint_eq(item->size, sizeof(GUID));
        ck_assert_mem_eq(item->data, &related, sizeof(GUID));
        ck_assert(got.events[i].h.Flags & EVENT_HEADER_FLAG_EXTENDED_INFO);
    }
    captured_done(&got);
    shown = dump(files[0], GUID_TEXT);
    ck_assert_str_eq(test_json_str(json_object_array_get_idx(shown, 5), "activity_id"),
                     "00000005-0006-0007-0800-000000000000");
    ck_assert_str_eq(test_json_str(json_object_array_get_idx(shown, 5), "related_activity_id"),
                     "00000009-000a-000b-0c00-000000000000");
    json_object_put(shown);
}
END_TEST

#define SID_TS_KEYS                                                                                \
    (EVENT_ENABLE_PROPERTY_SID | EVENT_ENABLE_PROPERTY_TS_ID |                                     \
     EVENT_ENABLE_PROPERTY_PROCESS_START_KEY | EVENT_ENABLE_PROPERTY_EVENT_KEY)

/* Each session's events have what that session asked for. */
START_TEST(extended_items)
{
    static const USHORT types[] = {EVENT_HEADER_EXT_TYPE_SID, EVENT_HEADER_EXT_TYPE_TS_ID,
                                   EVENT_HEADER_EXT_TYPE_PROCESS_START_KEY,
                                   EVENT_HEADER_EXT_TYPE_EVENT_KEY};
    static const ULONG properties[] = {EVENT_ENABLE_PROPERTY_SID, EVENT_ENABLE_PROPERTY_TS_ID,
                                       EVENT_ENABLE_PROPERTY_PROCESS_START_KEY,
                                       EVENT_ENABLE_PROPERTY_EVENT_KEY};
    const GUID related = {9, 10, 11, {12}};
    ENABLE_TRACE_PARAMETERS p = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2};
    uint64_t start_key = 0, key = 0;

    for (unsigned i = 1; i < 3; i++) {
        TRACEHANDLE h = session_start(i == 1 ? "One" : "Two", files[i], 0, 0, 0, 0);
        p.EnableProperty = i == 1 ? SID_TS_KEYS : EVENT_ENABLE_PROPERTY_TS_ID;
        ck_assert_uint_eq(
            EnableTraceEx2(h, &guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, INFINITE, &p),
            ERROR_SUCCESS);
    }
    ck_assert_uint_eq(write_id(1, "abc", 3), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWriteTransfer(provider, &plain, NULL, &related, 0, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(session_stop("Zero").lost, 0);
    ck_assert_uint_eq(session_stop("One").lost, 0);
    ck_assert_uint_eq(session_stop("Two").lost, 0);
    for (unsigned i = 0; i < 3; i++) {
        ULONG asked = i == 0 ? 0 : i == 1 ? SID_TS_KEYS : EVENT_ENABLE_PROPERTY_TS_ID;
        struct captured got;

        capture(&got, files[i], &guid);
        ck_assert_uint_eq(got.n, 2);
        ck_assert_uint_eq(got.events[0].size, 3);
        ck_assert_mem_eq(got.events[0].data, "abc", 3);
        for (size_t k = 0; k < 4; k++)
            for (size_t e = 0; e < 2; e++)
                ck_assert_msg(!captured_item(&got.events[e], types[k]) == !(asked & properties[k]),
                              "session %u, item %u", i, types[k]);
        ck_assert_ptr_nonnull(
            captured_item(&got.events[1], EVENT_HEADER_EXT_TYPE_RELATED_ACTIVITYID));
        if (i == 1) {
            const struct captured_item *sid = captured_item(&got.events[0], types[0]);
            const uint8_t root[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
            ck_assert_uint_eq(sid->size, etl_sid_size(sid->data, sid->size));
            if (geteuid() == 0)
                ck_assert(sid->size == sizeof(root) && memcmp(sid->data, root, sizeof(root)) == 0);
            ck_assert_uint_eq(captured_item(&got.events[0], types[1])->size, 4);
            ck_assert_uint_eq(captured_item(&got.events[0], types[2])->size, 8);
            ck_assert_uint_eq(captured_item(&got.events[0], types[3])->size, 8);
            memcpy(&start_key, captured_item(&got.events[0], types[2])->data, 8);
            ck_assert_uint_ne(start_key, 0);
            ck_assert_mem_eq(captured_item(&got.events[1], types[2])->data, &start_key, 8);
            memcpy(&key, captured_item(&got.events[0], types[3])->data, 8);
            ck_assert_mem_ne(captured_item(&got.events[1], types[3])->data, &key, 8);
        }
        captured_done(&got);
    }
}
END_TEST

/* Sizes at the limits of an event and of a session's buffers. */
START_TEST(sizes)
{
    static uint8_t big[65536];
    struct session_counts small, large;
    struct captured got;
    ULONG most = 65535 - 80;

    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (uint8_t) (i * 7 + i / 256);
    /* 64 KiB buffers do not hold the largest event: their header. */
    ck_assert_uint_eq(session_stop("Zero").lost, 0);
    session_enable_guid(session_start("Large", files[1], 1024, 0, 0, 0), &guid, 0xff, 0, 0);
    ck_assert_uint_eq(write_id(1, big, most), ERROR_SUCCESS);
    ck_assert_uint_eq(write_id(2, big, most + 1), ERROR_ARITHMETIC_OVERFLOW);
    ck_assert_uint_eq(write_id(2, big, sizeof(big)), ERROR_ARITHMETIC_OVERFLOW);
    ck_assert_uint_eq(write_id(2, big, 0x7fffffff), ERROR_ARITHMETIC_OVERFLOW);
    /* One that cannot take it: none gets it, and both say that they lost it. */
    session_enable_guid(session_start("Small", files[2], 4, 0, 0, 0), &guid, 0xff, 0, 0);
    ck_assert_uint_eq(write_id(3, big, 3000), ERROR_SUCCESS);
    ck_assert_uint_eq(write_id(4, big, 4096), ERROR_MORE_DATA);
    ck_assert_uint_eq(write_id(5, big, most), ERROR_MORE_DATA);
    small = session_stop("Small");
    ck_assert_uint_eq(small.too_big, 2);
    ck_assert_uint_eq(small.lost, 2);
    /* Alone again. */
    ck_assert_uint_eq(write_id(6, big, 4096), ERROR_SUCCESS);
    large = session_stop("Large");
    ck_assert_uint_eq(large.lost, large.too_big);
    ck_assert_uint_eq(large.too_big, 2);
    capture(&got, files[1], &guid);
    captured_ids(&got, "large buffers", (const USHORT[]){1, 3, 6}, 3);
    ck_assert_uint_eq(got.events[0].size, most);
    ck_assert_mem_eq(got.events[0].data, big, most);
    ck_assert_mem_eq(got.events[2].data, big, 4096);
    captured_done(&got);
    capture(&got, files[2], &guid);
    captured_ids(&got, "small buffers", (const USHORT[]){3}, 1);
    captured_done(&got);
}
END_TEST

/* A session that takes no part in what others cannot take. */
START_TEST(independent_sessions)
{
    static uint8_t big[8192];
    struct captured got;

    ck_assert_uint_eq(session_stop("Zero").lost, 0);
    session_enable_guid(
        session_start("Large", files[1], 64, 0, 0,
                      EVENT_TRACE_INDEPENDENT_SESSION_MODE | EVENT_TRACE_FILE_MODE_SEQUENTIAL),
        &guid, 0xff, 0, 0);
    session_enable_guid(
        session_start("Small", files[2], 4, 0, 0,
                      EVENT_TRACE_INDEPENDENT_SESSION_MODE | EVENT_TRACE_FILE_MODE_SEQUENTIAL),
        &guid, 0xff, 0, 0);
    ck_assert_uint_eq(write_id(1, big, sizeof(big)), ERROR_SUCCESS);
    ck_assert_uint_eq(write_id(2, big, 100), ERROR_SUCCESS);
    ck_assert_uint_eq(session_stop("Small").too_big, 1);
    ck_assert_uint_eq(session_stop("Large").lost, 0);
    capture(&got, files[1], &guid);
    captured_ids(&got, "large buffers", (const USHORT[]){1, 2}, 2);
    captured_done(&got);
    capture(&got, files[2], &guid);
    captured_ids(&got, "small buffers", (const USHORT[]){2}, 1);
    captured_done(&got);
}
END_TEST

/* The clock that shows is the writer's. */
START_TEST(time_of_events)
{
    struct test_properties t;
    uint64_t before, after;
    struct captured got;
    TRACEHANDLE h;

    ck_assert_uint_eq(session_stop("Zero").lost, 0);
    properties_init(&t, files[1]);
    t.p.Wnode.ClientContext = 1;
    ck_assert_uint_eq(StartTraceA(&h, "Clock", &t.p), ERROR_SUCCESS);
    session_enable_guid(h, &guid, 0xff, 0, 0);
    before = etw_filetime_now();
    for (USHORT i = 1; i <= 3; i++)
        ck_assert_uint_eq(write_id(i, NULL, 0), ERROR_SUCCESS);
    after = etw_filetime_now();
    ck_assert_uint_eq(session_stop("Clock").lost, 0);
    capture(&got, files[1], &guid);
    captured_ids(&got, "clock", (const USHORT[]){1, 2, 3}, 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_ge((uint64_t) got.events[i].h.TimeStamp.QuadPart + 10000000, before);
        ck_assert_uint_le((uint64_t) got.events[i].h.TimeStamp.QuadPart, after + 10000000);
    }
    captured_done(&got);
}
END_TEST

/* Kernel events and a provider's at the same time, each in its file. */
START_TEST(beside_the_kernel_logger)
{
    struct test_properties t;
    struct captured got;
    struct test_output o;
    TRACEHANDLE h;
    pid_t pid;

    test_need_root();
    properties_init_kernel(&t, files[1]);
    ck_assert_uint_eq(StartTraceA(&h, KERNEL_LOGGER_NAMEA, &t.p), ERROR_SUCCESS);
    for (USHORT i = 0; i < 100; i++) {
        ck_assert_uint_eq(write_id(i, &i, sizeof(i)), ERROR_SUCCESS);
        if (i % 10)
            continue;
        pid = fork();
        if (pid == 0)
            _exit(0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    }
    test_loss_identity(KERNEL_LOGGER_NAMEA);
    test_etwctl(&o, "stop", "--kernel");
    test_output_done(&o);
    ck_assert_uint_eq(session_stop("Zero").lost, 0);
    capture(&got, files[0], &guid);
    ck_assert_uint_eq(got.n, 100);
    for (USHORT i = 0; i < 100; i++)
        ck_assert_uint_eq(got.events[i].h.EventDescriptor.Id, i);
    captured_done(&got);
    capture(&got, files[0], &ProcessGuid);
    ck_assert_uint_eq(got.n, 0);
    captured_done(&got);
    capture(&got, files[1], &guid);
    ck_assert_uint_eq(got.n, 0);
    captured_done(&got);
    capture(&got, files[1], &ProcessGuid);
    ck_assert_uint_ge(got.n, 10);
    captured_done(&got);
}
END_TEST

START_TEST(codes_of_writing)
{
    const EVENT_DESCRIPTOR other = {.Id = 2};
    EVENT_DATA_DESCRIPTOR data[129];
    struct captured got;
    REGHANDLE h;

    for (size_t i = 0; i < 129; i++)
        EventDataDescCreate(&data[i], "x", 1);
    ck_assert_uint_eq(EventWrite(provider, NULL, 0, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventWrite(provider, &plain, 1, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventWrite(provider, &plain, 129, data), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventWrite(0, &plain, 0, NULL), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(EventWrite(provider + (1ull << 32), &plain, 0, NULL), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(EventWrite(provider + 1, &plain, 0, NULL), ERROR_INVALID_HANDLE);
    ck_assert(!EventEnabled(0, &plain));
    ck_assert(!EventEnabled(provider, NULL));
    ck_assert(!EventProviderEnabled(0, 1, 1));
    ck_assert_uint_eq(EventUnregister(0), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(EventWrite(provider, &plain, 128, data), ERROR_SUCCESS);
    ck_assert_uint_eq(EventRegister(NULL, NULL, NULL, &h), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(h, 0);
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, NULL), ERROR_INVALID_PARAMETER);
    /* The same provider again: handles of their own. */
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    ck_assert_uint_ne(h, provider);
    ck_assert(EventEnabled(h, &other));
    ck_assert_uint_eq(EventWrite(h, &other, 0, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
    ck_assert_uint_eq(EventUnregister(h), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(EventWrite(h, &other, 0, NULL), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(session_stop("Zero").lost, 0);
    /* Nobody listens any more. */
    ck_assert(!EventEnabled(provider, &plain));
    ck_assert_uint_eq(EventWrite(provider, &plain, 0, NULL), ERROR_SUCCESS);
    capture(&got, files[0], &guid);
    captured_ids(&got, "written", (const USHORT[]){1, 2}, 2);
    ck_assert_uint_eq(got.events[0].size, 128);
    captured_done(&got);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-events");
    TCase *c = tcase_create("events");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_test(c, event_with_pieces);
    tcase_add_test(c, strings);
    tcase_add_test(c, self_describing_events);
    tcase_add_test(c, activity_ids);
    tcase_add_test(c, extended_items);
    tcase_add_test(c, sizes);
    tcase_add_test(c, independent_sessions);
    tcase_add_test(c, time_of_events);
    tcase_add_test(c, beside_the_kernel_logger);
    tcase_add_test(c, codes_of_writing);
    suite_add_tcase(s, c);
    return s;
}

int main(int argc, char **argv)
{
    provider_tests_init(argc, argv);
    return test_main(suite());
}
