/* SPDX-License-Identifier: Apache-2.0
 *
 * Events that a manifest describes: their schemas, values, maps, and what manifests a process
 * knows. The manifest is that of the fuzz target (argv[1]), which has one of everything.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tdh.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "lib/test.h"

static const char *manifest_path;
static const GUID provider = {
    0x11223344, 0x5566, 0x7788, {0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00}};

static uint16_t *wide(const char *s)
{
    return etw_utf8_dup_utf16(s, SIZE_MAX);
}

static ULONG load(const char *path)
{
    _cleanup_free_ uint16_t *w = wide(path);
    return TdhLoadManifest((LPWSTR) w);
}

static ULONG unload(const char *path)
{
    _cleanup_free_ uint16_t *w = wide(path);
    return TdhUnloadManifest((LPWSTR) w);
}

struct data {
    uint8_t bytes[256];
    uint16_t size;
};

static void put(struct data *d, const void *p, size_t n)
{
    memcpy(d->bytes + d->size, p, n);
    d->size = (uint16_t) (d->size + n);
}

static EVENT_RECORD record(uint16_t id, uint8_t version, struct data *d)
{
    EVENT_RECORD r = {.UserData = d ? d->bytes : NULL, .UserDataLength = d ? d->size : 0};
    r.EventHeader.ProviderId = provider;
    r.EventHeader.Flags = EVENT_HEADER_FLAG_64_BIT_HEADER;
    r.EventHeader.EventDescriptor.Id = id;
    r.EventHeader.EventDescriptor.Version = version;
    r.EventHeader.EventDescriptor.Keyword = 3;
    return r;
}

static TRACE_EVENT_INFO *info_of(EVENT_RECORD *r)
{
    ULONG size = 0;

    ck_assert_uint_eq(TdhGetEventInformation(r, 0, NULL, NULL, &size), ERROR_INSUFFICIENT_BUFFER);
    TRACE_EVENT_INFO *info = malloc(size);
    ck_assert_uint_eq(TdhGetEventInformation(r, 0, NULL, info, &size), ERROR_SUCCESS);
    return info;
}

static void check_text(const void *base, ULONG offset, const char *want)
{
    _cleanup_free_ char *s =
        offset ? etw_utf16_dup_utf8((const uint8_t *) base + offset, SIZE_MAX) : strdup("");
    ck_assert_str_eq(s, want);
}

START_TEST(schema)
{
    ck_assert_uint_eq(load(manifest_path), ERROR_SUCCESS);
    EVENT_RECORD r = record(1, 0, NULL);
    _cleanup_free_ TRACE_EVENT_INFO *info = info_of(&r);
    ck_assert_int_eq(info->DecodingSource, DecodingSourceXMLFile);
    check_text(info, info->ProviderNameOffset, "Test-Manifest");
    check_text(info, info->ProviderMessageOffset, "A provider");
    check_text(info, info->LevelNameOffset, "Very loud");
    check_text(info, info->ChannelNameOffset, "Test-Manifest/Operational");
    check_text(info, info->TaskNameOffset, "Working");
    check_text(info, info->OpcodeNameOffset, "Half done");
    check_text(info, info->EventMessageOffset, "Colour %1 of %2 <things>");
    check_text(info, info->KeywordsNameOffset, "The disk");
    check_text(info, info->KeywordsNameOffset + 2 * sizeof("The disk"), "Net");
    check_text(info, info->KeywordsNameOffset + 2 * (sizeof("The disk") + sizeof("Net")), "");
    ck_assert_uint_eq(info->TopLevelPropertyCount, 9);
    ck_assert_uint_eq(info->PropertyCount, 11);
    const EVENT_PROPERTY_INFO *p = info->EventPropertyInfoArray;
    check_text(info, p[0].NameOffset, "Colour");
    check_text(info, p[0].nonStructType.MapNameOffset, "Colours");
    ck_assert_uint_eq(p[0].nonStructType.OutType, TDH_OUTTYPE_UNSIGNEDINT);
    ck_assert_int_eq(p[2].Flags, PropertyParamCount);
    ck_assert_uint_eq(p[2].countPropertyIndex, 1);
    ck_assert_uint_eq(p[2].nonStructType.OutType, TDH_OUTTYPE_HEXINT32);
    ck_assert_int_eq(p[4].Flags, PropertyParamLength);
    ck_assert_uint_eq(p[4].lengthPropertyIndex, 3);
    ck_assert_int_eq(p[5].Flags, PropertyStruct | PropertyParamFixedCount);
    ck_assert_uint_eq(p[5].count, 2);
    ck_assert_uint_eq(p[5].structType.StructStartIndex, 9);
    ck_assert_uint_eq(p[5].structType.NumOfStructMembers, 2);
    ck_assert_int_eq(p[6].Flags, PropertyParamFixedLength);
    ck_assert_uint_eq(p[6].length, 3);

    /* The opcode of another task's name. */
    EVENT_RECORD other = record(1, 1, NULL);
    _cleanup_free_ TRACE_EVENT_INFO *second = info_of(&other);
    check_text(second, second->TaskNameOffset, "Rest");
    check_text(second, second->OpcodeNameOffset, "Half");
    check_text(second, second->LevelNameOffset, "Error");
    ck_assert_uint_eq(second->PropertyCount, 0);

    ULONG size = 0;
    EVENT_RECORD none = record(1, 2, NULL);
    ck_assert_uint_eq(TdhGetEventInformation(&none, 0, NULL, NULL, &size), ERROR_NOT_FOUND);
}
END_TEST

static ULONG get(EVENT_RECORD *r, const char *name, ULONG index, const char *member, void *value,
                 ULONG room)
{
    _cleanup_free_ uint16_t *a = wide(name), *b = wide(member ? member : "");
    PROPERTY_DATA_DESCRIPTOR d[2] = {
        {.PropertyName = (uintptr_t) a, .ArrayIndex = index},
        {.PropertyName = (uintptr_t) b, .ArrayIndex = 0xFFFFFFFF},
    };
    ULONG size = 0, n = member ? 2 : 1;

    ck_assert_uint_eq(TdhGetPropertySize(r, 0, NULL, n, d, &size), ERROR_SUCCESS);
    ck_assert_uint_eq(TdhGetProperty(r, 0, NULL, n, d, room, value), ERROR_SUCCESS);
    return size;
}

START_TEST(values)
{
    struct data d = {0};
    uint8_t value[64];

    ck_assert_uint_eq(load(manifest_path), ERROR_SUCCESS);
    put(&d, "\2\0\0\0", 4);
    put(&d, "\2\0", 2);
    put(&d, "\xa\0\0\0\xb\0\0\0", 8);
    put(&d, "\2", 1);
    put(&d, "h\0i\0", 4);
    put(&d, "\1one\0", 5);
    put(&d, "\2two\0", 5);
    put(&d, "abc", 3);
    put(&d, "0123456789abcdef", 16);
    put(&d, "\5\0\0\0", 4);
    EVENT_RECORD r = record(1, 0, &d);
    ck_assert_uint_eq(get(&r, "Values", 0xFFFFFFFF, NULL, value, sizeof(value)), 8);
    ck_assert_uint_eq(get(&r, "Values", 1, NULL, value, sizeof(value)), 4);
    ck_assert_uint_eq(value[0], 0xb);
    ck_assert_uint_eq(get(&r, "Name", 0xFFFFFFFF, NULL, value, sizeof(value)), 4);
    ck_assert_mem_eq(value, "h\0i\0", 4);
    ck_assert_uint_eq(get(&r, "Pair", 1, "Text", value, sizeof(value)), 4);
    ck_assert_str_eq((char *) value, "two");
    ck_assert_uint_eq(get(&r, "Fixed", 0xFFFFFFFF, NULL, value, sizeof(value)), 3);
    ck_assert_uint_eq(get(&r, "Address", 0xFFFFFFFF, NULL, value, sizeof(value)), 16);
    ck_assert_uint_eq(get(&r, "Flags", 0xFFFFFFFF, NULL, value, sizeof(value)), 4);
    ck_assert_uint_eq(value[0], 5);
}
END_TEST

START_TEST(maps)
{
    uint8_t buffer[512] __attribute__((aligned(8)));
    PEVENT_MAP_INFO map = (PEVENT_MAP_INFO) buffer;
    TRACE_EVENT_INFO info = {0};
    EVENT_RECORD r = record(1, 0, NULL);
    WCHAR text[32];
    ULONG size = 0, need;
    USHORT consumed;

    ck_assert_uint_eq(load(manifest_path), ERROR_SUCCESS);
    _cleanup_free_ uint16_t *bits = wide("Bits"), *none = wide("Nothing");
    ck_assert_uint_eq(TdhGetEventMapInformation(&r, (LPWSTR) bits, NULL, &size),
                      ERROR_INSUFFICIENT_BUFFER);
    need = size--;
    ck_assert_uint_eq(TdhGetEventMapInformation(&r, (LPWSTR) bits, map, &size),
                      ERROR_INSUFFICIENT_BUFFER);
    ck_assert_uint_eq(size, need);
    ck_assert_uint_eq(TdhGetEventMapInformation(&r, (LPWSTR) bits, map, &size), ERROR_SUCCESS);
    ck_assert_int_eq(map->Flag, EVENTMAP_INFO_FLAG_MANIFEST_BITMAP);
    ck_assert_uint_eq(map->EntryCount, 2);
    check_text(map, map->NameOffset, "Bits");
    check_text(map, map->MapEntryArray[0].OutputOffset, "Red ");
    size = sizeof(text);
    ck_assert_uint_eq(TdhFormatProperty(&info, map, 8, TDH_INTYPE_HEXINT32, TDH_OUTTYPE_HEXINT32, 0,
                                        4, (PBYTE) "\5\0\0\0", &size, text, &consumed),
                      ERROR_SUCCESS);
    _cleanup_free_ char *utf8 = etw_utf16_dup_utf8(text, SIZE_MAX);
    ck_assert_str_eq(utf8, "Red|Blue");
    size = sizeof(buffer);
    ck_assert_uint_eq(TdhGetEventMapInformation(&r, (LPWSTR) none, map, &size), ERROR_NOT_FOUND);
}
END_TEST

static bool knows_event(void)
{
    EVENT_RECORD r = record(2, 0, NULL);
    ULONG size = 0;
    return TdhGetEventInformation(&r, 0, NULL, NULL, &size) == ERROR_INSUFFICIENT_BUFFER;
}

START_TEST(load_and_unload)
{
    ck_assert_uint_eq(TdhLoadManifest(NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhUnloadManifest(NULL), ERROR_INVALID_PARAMETER);
    char long_path[300];
    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[sizeof(long_path) - 1] = '\0';
    ck_assert_uint_eq(load(long_path), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(load("/nonexistent/file.man"), ERROR_FILE_NOT_FOUND);
    ck_assert_uint_eq(load("/proc/self/comm"), ERROR_XML_PARSE_ERROR);
    ck_assert_uint_eq(unload(manifest_path), ERROR_FILE_NOT_FOUND);
    ck_assert(!knows_event());
    ck_assert_uint_eq(load(manifest_path), ERROR_SUCCESS);
    ck_assert(knows_event());
    ck_assert_uint_eq(load(manifest_path), ERROR_SUCCESS);
    ck_assert_uint_eq(unload(manifest_path), ERROR_SUCCESS);
    ck_assert(!knows_event());

    size_t size;
    _cleanup_free_ char *xml = test_read_file(manifest_path, &size);
    ck_assert_uint_eq(TdhLoadManifestFromMemory(NULL, 5), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhLoadManifestFromMemory(xml, 0), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhLoadManifestFromMemory(xml, (ULONG) size / 2), ERROR_XML_PARSE_ERROR);
    ck_assert_uint_eq(TdhLoadManifestFromMemory(xml, (ULONG) size), ERROR_SUCCESS);
    ck_assert(knows_event());

    /* and the enumeration has it */
    ULONG need = 0;
    ck_assert_uint_eq(TdhEnumerateProviders(NULL, &need), ERROR_INSUFFICIENT_BUFFER);
    _cleanup_free_ PROVIDER_ENUMERATION_INFO *all = malloc(need);
    ck_assert_uint_eq(TdhEnumerateProviders(all, &need), ERROR_SUCCESS);
    bool found = false;
    for (ULONG i = 0; i < all->NumberOfProviders; i++)
        if (memcmp(&all->TraceProviderInfoArray[i].ProviderGuid, &provider, sizeof(GUID)) == 0) {
            check_text(all, all->TraceProviderInfoArray[i].ProviderNameOffset, "Test-Manifest");
            ck_assert_uint_eq(all->TraceProviderInfoArray[i].SchemaSource, 0);
            found = true;
        }
    ck_assert(found);
}
END_TEST

/* The user's folder is looked at when the first manifest is needed; a broken file there is passed
 * over. */
START_TEST(installed)
{
    _cleanup_free_ char *data = test_path("data"), *etwd = test_path("data/etwd"),
                        *folder = test_path("data/etwd/manifests"),
                        *file = test_path("data/etwd/manifests/test.man"),
                        *broken = test_path("data/etwd/manifests/broken.xml");
    size_t size;
    _cleanup_free_ char *xml = test_read_file(manifest_path, &size);

    ck_assert_int_eq(mkdir(data, 0755) | mkdir(etwd, 0755) | mkdir(folder, 0755), 0);
    FILE *f = fopen(file, "w");
    ck_assert_uint_eq(fwrite(xml, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
    f = fopen(broken, "w");
    ck_assert_int_ge(fputs("<instrumentationManifest>", f), 0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(setenv("XDG_DATA_HOME", data, 1), 0);
    ck_assert(knows_event());
}
END_TEST

/* Nothing outside the text is read: not files, not from the network. */
START_TEST(external_entity)
{
    static const char xml[] =
        "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/hostname'>]>"
        "<instrumentationManifest><instrumentation><events><provider name='P' "
        "guid='{11223344-5566-7788-99aa-bbccddeeff00}'><events><event value='2' "
        "message='$(string.A)'/></events></provider></events></instrumentation><localization>"
        "<resources><stringTable><string id='A' value='x'>&e;</string></stringTable></resources>"
        "</localization></instrumentationManifest>";

    ck_assert_uint_eq(TdhLoadManifestFromMemory((LPVOID) xml, sizeof(xml) - 1), ERROR_SUCCESS);
    EVENT_RECORD r = record(2, 0, NULL);
    _cleanup_free_ TRACE_EVENT_INFO *info = info_of(&r);
    check_text(info, info->EventMessageOffset, "x");
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s = suite_create("manifest");
    TCase *t = tcase_create("manifest");

    if (argc < 2)
        return 2;
    manifest_path = argv[1];
    /* Not those of whoever runs the tests. */
    if (setenv("XDG_DATA_HOME", "/nonexistent", 1) < 0)
        return 2;
    tcase_add_test(t, schema);
    tcase_add_test(t, values);
    tcase_add_test(t, maps);
    tcase_add_test(t, load_and_unload);
    tcase_add_test(t, installed);
    tcase_add_test(t, external_entity);
    suite_add_tcase(s, t);
    return test_main(s);
}
