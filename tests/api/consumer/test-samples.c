/* SPDX-License-Identifier: Apache-2.0
 *
 * ProcessTrace over files that Windows wrote, against what is known of them. Skipped without
 * ETW_SAMPLES, a folder of .etl files with an expected.json.
 */
#include <stdio.h>
#include <unistd.h>

#include "trace.h"
#include "unit/sha256.h"

static struct {
    uint64_t events;
    uint64_t bytes;
    int64_t first;
    int64_t last;
    int64_t before;
    uint64_t backwards;
} seen;

/* Of each event: the raw stamp in the order of delivery, and the digest of its user data. */
static struct {
    uint64_t *stamps;
    uint8_t (*digests)[32];
    size_t count;
    size_t capacity;
} raw;

static void on_event(PEVENT_RECORD e)
{
    int64_t t = e->EventHeader.TimeStamp.QuadPart;

    if (seen.events++ == 0) {
        seen.first = seen.last = t;
        ck_assert(IsEqualGUID(&e->EventHeader.ProviderId, &EventTraceGuid));
        ck_assert_uint_eq(e->EventHeader.EventDescriptor.Opcode, EVENT_TRACE_TYPE_INFO);
    } else if (t < seen.before) {
        seen.backwards++;
    }
    seen.before = t;
    seen.first = t < seen.first ? t : seen.first;
    seen.last = t > seen.last ? t : seen.last;
    seen.bytes += e->UserDataLength;
    for (unsigned i = 0; i < e->ExtendedDataCount; i++)
        ck_assert(e->ExtendedData[i].DataSize == 0 || e->ExtendedData[i].DataPtr != 0);
}

static void on_raw_event(PEVENT_RECORD e)
{
    if (raw.count == raw.capacity) {
        raw.capacity = raw.capacity ? 2 * raw.capacity : 1024;
        raw.stamps = reallocarray(raw.stamps, raw.capacity, sizeof(*raw.stamps));
        raw.digests = reallocarray(raw.digests, raw.capacity, sizeof(*raw.digests));
        ck_assert(raw.stamps && raw.digests);
    }
    raw.stamps[raw.count] = (uint64_t) e->EventHeader.TimeStamp.QuadPart;
    sha256(e->UserData, e->UserDataLength, raw.digests[raw.count]);
    raw.count++;
}

static int compare_digests(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

static void check_digest(const char *name, struct json_object *expected, const char *key,
                         const void *data, size_t size)
{
    uint8_t digest[32];
    char text[65];

    sha256(data, size, digest);
    for (unsigned i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    if (strcmp(text, test_json_str(expected, key)) != 0)
        ck_abort_msg("%s: %s differs", name, key);
}

/* Every stamp, in the order of time, and every byte of user data. */
static void check_content(const char *name, char *path, struct json_object *expected)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = on_raw_event};
    TRACEHANDLE h;

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    raw.count = 0;
    h = OpenTraceA(&lf);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
    CloseTrace(h);
    check_digest(name, expected, "sorted_raw_ts_sha256", raw.stamps, 8 * raw.count);
    qsort(raw.digests, raw.count, 32, compare_digests);
    check_digest(name, expected, "userdata_multiset_sha256", raw.digests, 32 * raw.count);
}

static void check_file(const char *folder, const char *name, struct json_object *expected)
{
    char path[4096];
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = on_event};
    ULONG code;
    TRACEHANDLE h;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    memset(&seen, 0, sizeof(seen));
    h = OpenTraceA(&lf);
    if (h == INVALID_PROCESSTRACE_HANDLE)
        ck_abort_msg("%s: OpenTrace: %u", name, GetLastError());
    code = ProcessTrace(&h, 1, NULL, NULL);
#define CHECK(got, key)                                                                            \
    do {                                                                                           \
        if ((uint64_t) (got) != test_json_u64(expected, key))                                      \
            ck_abort_msg("%s: %s is %lld, not %llu", name, key, (long long) (got),                 \
                         (unsigned long long) test_json_u64(expected, key));                       \
    } while (0)
    if (code != ERROR_SUCCESS)
        ck_abort_msg("%s: ProcessTrace: %u", name, code);
    CHECK(seen.events, "events_total");
    CHECK(seen.bytes, "userdata_bytes");
    CHECK(seen.first, "first_filetime");
    CHECK(seen.last, "last_filetime");
    CHECK(lf.EventsLost, "events_lost");
    CHECK(lf.LogfileHeader.BuffersLost, "buffers_lost");
    CHECK(lf.LogfileHeader.PointerSize, "pointer_size");
    CHECK(lf.LogfileHeader.StartTime.QuadPart, "start_filetime");
    CHECK(lf.LogfileHeader.BootTime.QuadPart, "boot_filetime");
    CHECK(lf.LogfileHeader.NumberOfProcessors, "processors_in_header");
    CHECK(lf.BufferSize, "header_buffer_size");
    ck_assert_str_eq(lf.LoggerName, test_json_str(expected, "logger_name"));
    CloseTrace(h); /* the names were its */
    if (seen.backwards)
        ck_abort_msg("%s: time runs backwards %llu times", name,
                     (unsigned long long) seen.backwards);
}

START_TEST(all_files)
{
    const char *folder = getenv("ETW_SAMPLES");
    struct json_object *root;
    struct json_object *files;
    unsigned checked = 0;
    char path[4096];
    char *text;

    if (!folder || !*folder)
        test_skip("ETW_SAMPLES names no folder of trace files");
    snprintf(path, sizeof(path), "%s/expected.json", folder);
    if (access(path, R_OK) < 0)
        test_skip("%s is not there", path);
    text = test_read_file(path, NULL);
    root = test_json(text);
    files = test_json_get(root, "files");
    json_object_object_foreach(files, name, expected)
    {
        check_file(folder, name, expected);
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        check_content(name, path, expected);
        checked++;
    }
    ck_assert_uint_gt(checked, 0);
    json_object_put(root);
    free(text);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("consumer-samples");
    TCase *t = tcase_create("samples");

    tcase_add_test(t, all_files);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
