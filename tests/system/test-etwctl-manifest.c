/* SPDX-License-Identifier: Apache-2.0
 *
 * etwctl dump on events that do not describe themselves: by a manifest in the file (also one that
 * comes after them, in pieces), by descriptions that a merge put in, by installed manifests; texts;
 * and damaged descriptions. argv[1]: the manifest with one of everything. No daemon.
 */
#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tdh.h>

#include "base/cleanup.h"
#include "etl/layout.h"
#include "lib/synthetic.h"

static const char *manifest_path;
static const struct etw_guid provider =
    ETW_GUID(0x11223344, 0x5566, 0x7788, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00);
static const struct etw_guid metadata =
    ETW_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71);

static const uint8_t payload[] = "\2\0\0\0"
                                 "\2\0"
                                 "\xa\0\0\0\xb\0\0\0"
                                 "\2"
                                 "h\0i\0"
                                 "\1one\0"
                                 "\2two\0"
                                 "abc"
                                 "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1"
                                 "\5\0\0\0";

static void add_event(struct synthetic *s, uint64_t stamp, uint16_t id, uint8_t version,
                      uint16_t flags, const void *data, size_t size)
{
    struct etl_event_header h = {
        .size = (uint16_t) (sizeof(h) + size),
        .header_type = ETL_EVENT64,
        .marker = 0xC0,
        .flags = flags,
        .thread_id = 3,
        .process_id = 2,
        .time_stamp = stamp,
        .provider_id = provider,
        .descriptor = {.id = id, .version = version, .level = 4, .opcode = 20, .keyword = 1},
    };
    uint8_t *to = synthetic_reserve(s, h.size);

    ck_assert_ptr_nonnull(to);
    memcpy(to, &h, sizeof(h));
    memcpy(to + sizeof(h), data, size);
}

static void add_metadata(struct synthetic *s, uint64_t stamp, uint8_t type, const void *data,
                         size_t size)
{
    struct etl_full_header h = {
        .size = (uint16_t) (sizeof(h) + size),
        .header_type = ETL_FULL64,
        .marker = 0xC0,
        .type = type,
        .time_stamp = stamp,
        .guid = metadata,
    };
    uint8_t *to = synthetic_reserve(s, h.size);

    ck_assert_ptr_nonnull(to);
    memcpy(to, &h, sizeof(h));
    memcpy(to + sizeof(h), data, size);
}

static struct synthetic *file_new(const char *path)
{
    struct synthetic *s =
        synthetic_new(path, &(struct synthetic_params){.buffer_size = 65536, .plain = 1});
    synthetic_begin(s, 0, 0);
    return s;
}

static void file_done(struct synthetic *s)
{
    synthetic_flush(s, 100000, 0);
    synthetic_finish(s, SYNTHETIC_START + 1000);
}

/* The line of `dump --json` of event 1.0, or NULL. */
static json_object *dumped(const char *path)
{
    struct test_output o;
    json_object *found = NULL;

    test_etwctl_ok(&o, "dump", "--json", path);
    for (char *line = o.out, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        json_object *j = json_tokener_parse(line), *id, *version;
        ck_assert_ptr_nonnull(j);
        if (json_object_object_get_ex(j, "id", &id) && json_object_get_int(id) == 1 &&
            json_object_object_get_ex(j, "version", &version) && json_object_get_int(version) == 0)
            found = j;
        else
            json_object_put(j);
    }
    test_output_done(&o);
    return found;
}

static const char wanted[] =
    "{\"Colour\":\"Green\",\"Count\":2,\"Values\":[\"0xa\",\"0xb\"],\"Length\":2,\"Name\":\"hi\","
    "\"Pair\":[{\"Key\":1,\"Text\":\"one\"},{\"Key\":2,\"Text\":\"two\"}],\"Fixed\":\"616263\","
    "\"Address\":\"2001:db8::1\",\"Flags\":\"Red|Blue\"}";

static void check_event(const char *path)
{
    json_object *j = dumped(path), *value, *name;

    ck_assert_ptr_nonnull(j);
    ck_assert(json_object_object_get_ex(j, "payload", &value));
    ck_assert_str_eq(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN), wanted);
    ck_assert(json_object_object_get_ex(j, "provider", &value));
    ck_assert(json_object_object_get_ex(value, "name", &name));
    ck_assert_str_eq(json_object_get_string(name), "Test-Manifest");
    ck_assert(json_object_object_get_ex(j, "event", &value));
    ck_assert_str_eq(json_object_get_string(value), "Working/Half done");
    json_object_put(j);
}

static void add_the_event(struct synthetic *s, uint64_t stamp)
{
    add_event(s, stamp, 1, 0, 0, payload, sizeof(payload) - 1);
}

static void add_chunks(struct synthetic *s, uint64_t stamp, const char *xml, size_t size,
                       unsigned n, unsigned skip)
{
    size_t each = size / n + 1;

    for (unsigned i = 0; i < n; i++) {
        uint8_t chunk[8192] = {1, 1, 0, 0x5B, (uint8_t) n, 0, (uint8_t) i, 0};
        size_t at = i * each, len = size - at < each ? size - at : each;
        ck_assert_uint_le(len, sizeof(chunk) - 8);
        memcpy(chunk + 8, xml + at, len);
        if (i != skip)
            add_event(s, stamp + i, 0xFFFE, 1, 0, chunk, 8 + len);
    }
}

START_TEST(manifest_in_file)
{
    _cleanup_free_ char *path = test_path("embedded.etl");
    size_t size;
    _cleanup_free_ char *xml = test_read_file(manifest_path, &size);

    struct synthetic *s = file_new(path);
    add_the_event(s, 2000);
    add_chunks(s, 3000, xml, size, 3, 99);
    file_done(s);
    check_event(path);
}
END_TEST

START_TEST(manifest_with_a_hole)
{
    _cleanup_free_ char *path = test_path("hole.etl");
    size_t size;
    _cleanup_free_ char *xml = test_read_file(manifest_path, &size);
    json_object *value, *raw;

    struct synthetic *s = file_new(path);
    add_the_event(s, 2000);
    add_chunks(s, 3000, xml, size, 3, 1);
    file_done(s);
    json_object *j = dumped(path);
    ck_assert(json_object_object_get_ex(j, "payload", &value));
    ck_assert_ptr_null(value);
    ck_assert(json_object_object_get_ex(j, "raw", &raw));
    ck_assert_uint_eq((size_t) json_object_get_string_len(raw), 2 * (sizeof(payload) - 1));
    json_object_put(j);
}
END_TEST

/* What TdhGetEventInformation says is what a merge puts in. */
static uint8_t *description(size_t *ret_size)
{
    static uint8_t info[8192] __attribute__((aligned(8)));
    EVENT_RECORD r = {0};
    ULONG size = sizeof(info);
    size_t n;
    _cleanup_free_ char *xml = test_read_file(manifest_path, &n);

    memcpy(&r.EventHeader.ProviderId, &provider, sizeof(provider));
    r.EventHeader.EventDescriptor.Id = 1;
    r.EventHeader.EventDescriptor.Opcode = 20;
    ck_assert_uint_eq(TdhLoadManifestFromMemory(xml, (ULONG) n), ERROR_SUCCESS);
    ck_assert_uint_eq(TdhGetEventInformation(&r, 0, NULL, (PTRACE_EVENT_INFO) info, &size),
                      ERROR_SUCCESS);
    *ret_size = size;
    return info;
}

static void add_map(struct synthetic *s, const WCHAR *name)
{
    static uint8_t map[1024] __attribute__((aligned(8)));
    EVENT_RECORD r = {0};
    ULONG size = sizeof(map) - 16;

    memcpy(&r.EventHeader.ProviderId, &provider, sizeof(provider));
    memcpy(map, &provider, sizeof(provider));
    ck_assert_uint_eq(TdhGetEventMapInformation(&r, (LPWSTR) (uintptr_t) name,
                                                (PEVENT_MAP_INFO) (map + 16), &size),
                      ERROR_SUCCESS);
    add_metadata(s, 1500, 33, map, 16 + size);
}

START_TEST(merged)
{
    _cleanup_free_ char *path = test_path("merged.etl");
    size_t size;
    uint8_t *info = description(&size);

    struct synthetic *s = file_new(path);
    add_metadata(s, 1400, 32, info, size);
    add_map(s, ETW_W("Colours"));
    add_map(s, ETW_W("Bits"));
    add_the_event(s, 2000);
    file_done(s);
    check_event(path);
}
END_TEST

/* Descriptions that lie do no harm: each 16-bit word of the fixed part and the properties is set to
 * the worst there is. */
START_TEST(hostile_descriptions)
{
    _cleanup_free_ char *path = test_path("lies.etl");
    size_t size;
    uint8_t *info = description(&size);

    struct synthetic *s = file_new(path);
    for (size_t i = 48; i + 1 < 112 + 11 * 24; i += 2) {
        uint8_t lie[8192];
        memcpy(lie, info, size);
        lie[i] = lie[i + 1] = 0xFF;
        /* another event each, so that all are looked at */
        uint16_t id = (uint16_t) (100 + i);
        memcpy(lie + 32, &id, sizeof(id));
        add_metadata(s, 1400, 32, lie, size);
        add_event(s, 2000 + i, id, 0, 0, payload, sizeof(payload) - 1);
        if (i % 32 == 16) {
            synthetic_flush(s, 100000, 0);
            synthetic_begin(s, 0, 0);
        }
    }
    add_metadata(s, 1400, 32, info, 50);
    add_metadata(s, 1400, 33, info, 20);
    file_done(s);
    struct test_output o;
    test_etwctl_ok(&o, "dump", "--json", path);
    for (char *line = o.out, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        json_object *j = json_tokener_parse(line);
        ck_assert_msg(j != NULL, "%s", line);
        json_object_put(j);
    }
    test_output_done(&o);
}
END_TEST

/* Nearly as many descriptions as are taken, and events that ask for thousands of them: each is
 * found, and of two of the same event the first one counts. */
START_TEST(many_descriptions)
{
    enum { EVENTS = 8000, MAPS = 50000 };
    _cleanup_free_ char *path = test_path("many.etl");
    uint8_t map[256] __attribute__((aligned(8))) = {0};
    EVENT_MAP_INFO *m = (EVENT_MAP_INFO *) (map + 16);
    size_t size;
    uint8_t *info = description(&size);
    struct test_output o;

    struct synthetic *s = file_new(path);
    memcpy(map, &provider, sizeof(provider));
    m->NameOffset = sizeof(*m);
    for (unsigned i = 0; i < MAPS; i++) {
        uint16_t *name = (uint16_t *) (map + 16 + sizeof(*m));
        for (unsigned k = 0, n = i * 7919 % MAPS; k < 5; k++, n /= 10)
            name[k] = (uint16_t) ('0' + n % 10);
        if (i % 400 == 399) {
            synthetic_flush(s, 100000, 0);
            synthetic_begin(s, 0, 0);
        }
        add_metadata(s, 1300, 33, map, 16 + sizeof(*m) + 12);
    }
    for (uint16_t id = EVENTS; id > 0; id--) {
        if (id % 40 == 0) {
            synthetic_flush(s, 100000, 0);
            synthetic_begin(s, 0, 0);
        }
        memcpy(info + 32, &id, sizeof(id));
        add_metadata(s, 1400, 32, info, size);
        add_event(s, 2000, id, 0, 0, payload, sizeof(payload) - 1);
    }
    add_map(s, ETW_W("Colours"));
    add_map(s, ETW_W("Bits"));
    ((TRACE_EVENT_INFO *) info)->TopLevelPropertyCount = 0; /* too late */
    add_metadata(s, 1500, 32, info, size);
    file_done(s);
    check_event(path);
    test_etwctl_ok(&o, "dump", "--json", path);
    unsigned found = 0;
    for (const char *at = o.out; (at = strstr(at, wanted)); at++)
        found++;
    ck_assert_uint_eq(found, EVENTS);
    test_output_done(&o);
}
END_TEST

START_TEST(installed_manifest)
{
    _cleanup_free_ char *path = test_path("installed.etl"), *data = test_path("data"),
                        *etwd = test_path("data/etwd"), *folder = test_path("data/etwd/manifests"),
                        *file = test_path("data/etwd/manifests/x.man");
    size_t size;
    _cleanup_free_ char *xml = test_read_file(manifest_path, &size);

    ck_assert_int_eq(mkdir(data, 0755) | mkdir(etwd, 0755) | mkdir(folder, 0755), 0);
    FILE *f = fopen(file, "w");
    ck_assert_uint_eq(fwrite(xml, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(setenv("XDG_DATA_HOME", data, 1), 0);
    struct synthetic *s = file_new(path);
    add_the_event(s, 2000);
    file_done(s);
    check_event(path);
}
END_TEST

/* A payload that ends early shows what is there. */
START_TEST(short_payload)
{
    _cleanup_free_ char *path = test_path("short.etl");
    size_t size;
    _cleanup_free_ char *xml = test_read_file(manifest_path, &size);
    json_object *value;

    struct synthetic *s = file_new(path);
    add_chunks(s, 1500, xml, size, 3, 99);
    add_event(s, 2000, 1, 0, 0, payload, 10);
    file_done(s);
    json_object *j = dumped(path);
    ck_assert(json_object_object_get_ex(j, "payload", &value));
    ck_assert_str_eq(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN),
                     "{\"Colour\":\"Green\",\"Count\":2,\"Values\":[\"0xa\",null]}");
    ck_assert(json_object_object_get_ex(j, "raw", &value));
    ck_assert_uint_eq((size_t) json_object_get_string_len(value), 20);
    json_object_put(j);
}
END_TEST

START_TEST(text_event)
{
    _cleanup_free_ char *path = test_path("text.etl");
    json_object *value;

    struct synthetic *s = file_new(path);
    add_event(s, 2000, 1, 0, EVENT_HEADER_FLAG_STRING_ONLY, ETW_W("words"), 12);
    file_done(s);
    json_object *j = dumped(path);
    ck_assert(json_object_object_get_ex(j, "payload", &value));
    ck_assert_str_eq(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN),
                     "{\"message\":\"words\"}");
    json_object_put(j);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s = suite_create("manifest");
    TCase *t = tcase_create("dump");

    if (argc < 2 || setenv("XDG_DATA_HOME", "/nonexistent", 1) < 0)
        return 2;
    manifest_path = argv[1];
    tcase_add_test(t, manifest_in_file);
    tcase_add_test(t, manifest_with_a_hole);
    tcase_add_test(t, merged);
    tcase_add_test(t, hostile_descriptions);
    tcase_add_test(t, many_descriptions);
    tcase_add_test(t, installed_manifest);
    tcase_add_test(t, short_payload);
    tcase_add_test(t, text_event);
    suite_add_tcase(s, t);
    return test_main(s);
}
