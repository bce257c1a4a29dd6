/* SPDX-License-Identifier: Apache-2.0
 *
 * TdhGetEventInformation, TdhGetProperty, TdhGetPropertySize, TdhFormatProperty and the enumerators
 * on events made here: what comes back is what went in, and every code.
 */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include <tdh.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "etl/classes.h"
#include "lib/test.h"

/* ---- events ---- */

struct event {
    EVENT_RECORD record;
    EVENT_HEADER_EXTENDED_DATA_ITEM items[2];
    uint8_t metadata[512];
    uint16_t metadata_size;
    uint8_t traits[64];
    uint8_t data[2048];
};

static void put(uint8_t *to, uint16_t *size, const void *p, size_t n)
{
    memcpy(to + *size, p, n);
    *size = (uint16_t) (*size + n);
}

static void put_data(struct event *e, const void *p, size_t n)
{
    put(e->data, &e->record.UserDataLength, p, n);
}

#define DATA(e, type, value)                                                                       \
    do {                                                                                           \
        type v_ = (value);                                                                         \
        put_data((e), &v_, sizeof(v_));                                                            \
    } while (0)

static void event_init(struct event *e)
{
    memset(e, 0, sizeof(*e));
    e->record.UserData = e->data;
    e->record.EventHeader.Flags = EVENT_HEADER_FLAG_64_BIT_HEADER;
}

static void class_event(struct event *e, enum etl_row row)
{
    event_init(e);
    e->record.EventHeader.Flags |= EVENT_HEADER_FLAG_CLASSIC_HEADER;
    memcpy(&e->record.EventHeader.ProviderId, &etl_rows[row].guid, sizeof(GUID));
    e->record.EventHeader.EventDescriptor.Opcode = etl_rows[row].opcode;
    e->record.EventHeader.EventDescriptor.Version = etl_rows[row].version;
}

static void tl_event(struct event *e, const char *name)
{
    static const char provider[] = "Test-Provider";

    event_init(e);
    e->metadata_size = 2;
    put(e->metadata, &e->metadata_size, "", 1);
    put(e->metadata, &e->metadata_size, name, strlen(name) + 1);
    e->traits[0] = 2 + sizeof(provider);
    memcpy(e->traits + 2, provider, sizeof(provider));
    e->items[0] = (EVENT_HEADER_EXTENDED_DATA_ITEM){
        .ExtType = EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL, .DataPtr = (uintptr_t) e->metadata};
    e->items[1] = (EVENT_HEADER_EXTENDED_DATA_ITEM){.ExtType = EVENT_HEADER_EXT_TYPE_PROV_TRAITS,
                                                    .DataSize = e->traits[0],
                                                    .DataPtr = (uintptr_t) e->traits};
    e->record.ExtendedData = e->items;
    e->record.ExtendedDataCount = 2;
}

/* in, and what follows it in the metadata */
static void tl_field(struct event *e, const char *name, const void *type, size_t n)
{
    put(e->metadata, &e->metadata_size, name, strlen(name) + 1);
    put(e->metadata, &e->metadata_size, type, n);
    memcpy(e->metadata, &e->metadata_size, 2);
    e->items[0].DataSize = e->metadata_size;
}
#define FIELD(e, name, ...)                                                                        \
    tl_field((e), (name), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static TRACE_EVENT_INFO *info_of(struct event *e)
{
    ULONG size = 0;

    ck_assert_uint_eq(TdhGetEventInformation(&e->record, 0, NULL, NULL, &size),
                      ERROR_INSUFFICIENT_BUFFER);
    ck_assert_uint_eq(GetLastError(), ERROR_INSUFFICIENT_BUFFER);
    TRACE_EVENT_INFO *info = malloc(size);
    ULONG less = size - 1;
    ck_assert_uint_eq(TdhGetEventInformation(&e->record, 0, NULL, info, &less),
                      ERROR_INSUFFICIENT_BUFFER);
    ck_assert_uint_eq(less, size);
    ck_assert_uint_eq(TdhGetEventInformation(&e->record, 0, NULL, info, &size), ERROR_SUCCESS);
    return info;
}

static char *text_at(const TRACE_EVENT_INFO *info, ULONG offset)
{
    return offset ? etw_utf16_dup_utf8((const uint8_t *) info + offset, SIZE_MAX) : strdup("");
}

static void check_text(const TRACE_EVENT_INFO *info, ULONG offset, const char *want)
{
    _cleanup_free_ char *s = text_at(info, offset);
    ck_assert_str_eq(s, want);
}

static void check_property(const TRACE_EVENT_INFO *info, unsigned i, const char *name, unsigned in,
                           unsigned out)
{
    ck_assert_uint_lt(i, info->PropertyCount);
    const EVENT_PROPERTY_INFO *p = &info->EventPropertyInfoArray[i];
    check_text(info, p->NameOffset, name);
    ck_assert_uint_eq(p->nonStructType.InType, in);
    ck_assert_uint_eq(p->nonStructType.OutType, out);
}

/* ---- values by name ---- */

static uint32_t get(struct event *e, void *buffer, ULONG room, ULONG *ret_size, unsigned n,
                    const char *const names[], const ULONG indexes[])
{
    PROPERTY_DATA_DESCRIPTOR d[4] = {0};
    uint16_t *wide[4];
    ULONG size = 0, code, again;

    for (unsigned i = 0; i < n; i++) {
        wide[i] = etw_utf8_dup_utf16(names[i], SIZE_MAX);
        d[i].PropertyName = (uintptr_t) wide[i];
        d[i].ArrayIndex = indexes[i];
    }
    code = TdhGetPropertySize(&e->record, 0, NULL, n, d, &size);
    again = TdhGetProperty(&e->record, 0, NULL, n, d, room, buffer);
    if (code == ERROR_SUCCESS && size > room)
        ck_assert_uint_eq(again, ERROR_INSUFFICIENT_BUFFER);
    else
        ck_assert_uint_eq(again, code);
    for (unsigned i = 0; i < n; i++)
        free(wide[i]);
    *ret_size = size;
    return code;
}

static uint64_t number(struct event *e, const char *name, ULONG index)
{
    uint64_t v = 0;
    ULONG size;

    ck_assert_uint_eq(get(e, &v, sizeof(v), &size, 1, &name, &index), ERROR_SUCCESS);
    return v;
}

#define WHOLE 0xFFFFFFFFu

START_TEST(class_schema)
{
    struct event e;
    struct etl_Thread_CSwitch c = {.NewThreadId = 7, .OldThreadId = 9, .NewThreadWaitTime = 11};

    class_event(&e, ETL_ROW_Thread_CSwitch);
    put_data(&e, &c, sizeof(c));
    _cleanup_free_ TRACE_EVENT_INFO *info = info_of(&e);
    ck_assert_int_eq(info->DecodingSource, DecodingSourceWbem);
    ck_assert_mem_eq(&info->ProviderGuid, &SystemTraceControlGuid, sizeof(GUID));
    ck_assert_mem_eq(&info->EventGuid, &ThreadGuid, sizeof(GUID));
    check_text(info, info->TaskNameOffset, "Thread");
    check_text(info, info->OpcodeNameOffset, "CSwitch");
    ck_assert_uint_eq(info->PropertyCount, info->TopLevelPropertyCount);
    check_property(info, 0, "NewThreadId", TDH_INTYPE_UINT32, TDH_OUTTYPE_NULL);
    ck_assert_uint_eq(number(&e, "NewThreadId", WHOLE), 7);
    ck_assert_uint_eq(number(&e, "OldThreadId", 0), 9);
    ck_assert_uint_eq(number(&e, "NewThreadWaitTime", WHOLE), 11);
}
END_TEST

/* Every row: all its properties lie one after the other, and their sizes add up. */
START_TEST(all_classes)
{
    for (int row = 0; row < ETL_ROW_COUNT; row++) {
        struct event e;
        if (etl_rows[row].level != 0 || etl_rows[row].keyword != 0)
            continue;
        class_event(&e, (enum etl_row) row);
        e.record.UserDataLength = sizeof(e.data);
        _cleanup_free_ TRACE_EVENT_INFO *info = info_of(&e);
        ULONG sum = 0;
        unsigned n = 0;
        for (const struct etl_field *f = etl_rows[row].fields; f->name; f++, n++) {
            uint8_t value[2048];
            const ULONG whole = WHOLE;
            ULONG size;
            check_text(info, info->EventPropertyInfoArray[n].NameOffset, f->name);
            ck_assert_uint_eq(get(&e, value, sizeof(value), &size, 1, &f->name, &whole),
                              ERROR_SUCCESS);
            sum += size;
            if (sum == etl_rows[row].fixed_size)
                break; /* what follows takes its size from the data */
        }
        ck_assert_uint_ge(sum, etl_rows[row].fixed_size);
    }
}
END_TEST

START_TEST(tl_schema)
{
    struct event e;

    tl_event(&e, "Something");
    e.record.EventHeader.EventDescriptor.Level = 4;
    FIELD(&e, "a", 8);                     /* UINT32 */
    FIELD(&e, "s", 24 | 0x80, 2);          /* struct of two */
    FIELD(&e, "b", 0x80 | 7, 0x80 | 4, 5); /* INT32 as hex, with a tag */
    FIELD(&e, "c", 0x40 | 6);              /* UINT16, variable */
    FIELD(&e, "d", 14);                    /* binary */
    FIELD(&e, "f", 0x20 | 8, 3, 0);        /* three UINT32 */
    FIELD(&e, "g", 0x80 | 4, 3);           /* UINT8 as boolean */
    FIELD(&e, "h", 0x80 | 2, 35);          /* UTF-8 */
    _cleanup_free_ TRACE_EVENT_INFO *info = info_of(&e);
    ck_assert_int_eq(info->DecodingSource, DecodingSourceTlg);
    check_text(info, info->ProviderNameOffset, "Test-Provider");
    check_text(info, info->EventNameOffset, "Something");
    check_text(info, info->LevelNameOffset, "Information");
    ck_assert_uint_eq(info->TopLevelPropertyCount, 7);
    ck_assert_uint_eq(info->PropertyCount, 10);
    const EVENT_PROPERTY_INFO *p = info->EventPropertyInfoArray;
    check_property(info, 0, "a", TDH_INTYPE_UINT32, TDH_OUTTYPE_NULL);
    check_text(info, p[1].NameOffset, "s");
    ck_assert_int_eq(p[1].Flags, PropertyStruct);
    ck_assert_uint_eq(p[1].structType.StructStartIndex, 7);
    ck_assert_uint_eq(p[1].structType.NumOfStructMembers, 3);
    check_property(info, 7, "b", TDH_INTYPE_INT32, TDH_OUTTYPE_HEXINT32);
    ck_assert_int_eq(p[7].Flags, PropertyHasTags);
    ck_assert_uint_eq(p[7].Tags, 5u << 21);
    check_property(info, 8, "c.Count", TDH_INTYPE_UINT16, TDH_OUTTYPE_NULL);
    check_property(info, 9, "c", TDH_INTYPE_UINT16, TDH_OUTTYPE_NULL);
    ck_assert_int_eq(p[9].Flags, PropertyParamCount);
    ck_assert_uint_eq(p[9].countPropertyIndex, 8);
    check_property(info, 2, "d.Length", TDH_INTYPE_UINT16, TDH_OUTTYPE_NULL);
    check_property(info, 3, "d", TDH_INTYPE_BINARY, TDH_OUTTYPE_NULL);
    ck_assert_int_eq(p[3].Flags, PropertyParamLength);
    ck_assert_uint_eq(p[3].lengthPropertyIndex, 2);
    check_property(info, 4, "f", TDH_INTYPE_UINT32, TDH_OUTTYPE_NULL);
    ck_assert_int_eq(p[4].Flags, PropertyParamFixedCount);
    ck_assert_uint_eq(p[4].count, 3);
    check_property(info, 5, "g", TDH_INTYPE_UINT8, TDH_OUTTYPE_BOOLEAN);
    check_property(info, 6, "h", TDH_INTYPE_ANSISTRING, TDH_OUTTYPE_UTF8);
}
END_TEST

START_TEST(tl_values)
{
    static const char *const path[] = {"s", "c"};
    struct event e;
    uint8_t value[64];
    ULONG size;

    tl_event(&e, "Values");
    FIELD(&e, "n", 0x40 | 24 | 0x80, 2); /* any number of structs */
    FIELD(&e, "x", 4);
    FIELD(&e, "y", 22);
    FIELD(&e, "d", 14);
    FIELD(&e, "s", 24 | 0x80, 1);
    FIELD(&e, "c", 0x40 | 8);
    FIELD(&e, "end", 10);
    DATA(&e, uint16_t, 2);
    DATA(&e, uint8_t, 0x11);
    DATA(&e, uint16_t, 4);
    put_data(&e, "a\0b", 4);
    DATA(&e, uint8_t, 0x22);
    DATA(&e, uint16_t, 0);
    DATA(&e, uint16_t, 3);
    put_data(&e, "\1\2\3", 3);
    DATA(&e, uint16_t, 2);
    DATA(&e, uint32_t, 100);
    DATA(&e, uint32_t, 200);
    DATA(&e, uint64_t, 0x123456789abcdefULL);

    ck_assert_uint_eq(number(&e, "n.Count", WHOLE), 2);
    static const char *const x[] = {"n", "x"}, *const y[] = {"n", "y"};
    ck_assert_uint_eq(get(&e, value, sizeof(value), &size, 2, x, (ULONG[]){1, WHOLE}), 0);
    ck_assert_uint_eq(size, 1);
    ck_assert_uint_eq(value[0], 0x22);
    ck_assert_uint_eq(get(&e, value, sizeof(value), &size, 2, y, (ULONG[]){0, WHOLE}), 0);
    ck_assert_uint_eq(size, 6); /* the count and two characters */
    ck_assert_mem_eq(value, "\4\0a\0b\0", 6);
    ck_assert_uint_eq(get(&e, value, sizeof(value), &size, 2, x, (ULONG[]){2, WHOLE}),
                      ERROR_NOT_FOUND);
    ck_assert_uint_eq(number(&e, "d", WHOLE), 0x030201);
    ck_assert_uint_eq(get(&e, value, sizeof(value), &size, 2, path, (ULONG[]){WHOLE, 1}), 0);
    ck_assert_mem_eq(value, "\xC8\0\0\0", 4);
    ck_assert_uint_eq(get(&e, value, sizeof(value), &size, 2, path, (ULONG[]){WHOLE, WHOLE}), 0);
    ck_assert_uint_eq(size, 8);
    ck_assert_uint_eq(number(&e, "end", WHOLE), 0x123456789abcdefULL);
    ck_assert_uint_eq(number(&e, "end", 0), 0x123456789abcdefULL);
    /* a buffer that is too small is told by TdhGetProperty alone */
    ck_assert_uint_eq(get(&e, value, 7, &size, 1, (const char *const[]){"end"}, (ULONG[]){WHOLE}),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(
        get(&e, value, sizeof(value), &size, 1, (const char *const[]){"none"}, (ULONG[]){WHOLE}),
        ERROR_NOT_FOUND);
    static const char *const not_struct[] = {"end", "x"};
    ck_assert_uint_eq(get(&e, value, sizeof(value), &size, 2, not_struct, (ULONG[]){0, 0}),
                      ERROR_INVALID_PARAMETER);
    e.record.UserDataLength--;
    ck_assert_uint_eq(
        get(&e, value, sizeof(value), &size, 1, (const char *const[]){"end"}, (ULONG[]){WHOLE}),
        ERROR_EVT_INVALID_EVENT_DATA);
}
END_TEST

/* ---- texts ---- */

struct format_case {
    unsigned in, out, length;
    unsigned size;
    const char *data;
    const char *text;  /* NULL: code */
    unsigned consumed; /* or the code */
};

static const struct format_case format_cases[] = {
    {TDH_INTYPE_INT8, 0, 0, 1, "\xff", "-1", 1},
    {TDH_INTYPE_UINT8, 0, 0, 1, "\xff", "255", 1},
    {TDH_INTYPE_UINT8, TDH_OUTTYPE_HEXINT8, 0, 1, "\xff", "0xFF", 1},
    {TDH_INTYPE_UINT8, TDH_OUTTYPE_BOOLEAN, 0, 1, "\1", "true", 1},
    {TDH_INTYPE_UINT8, TDH_OUTTYPE_STRING, 0, 1, "A", "A", 1},
    {TDH_INTYPE_INT16, 0, 0, 2, "\xfe\xff", "-2", 2},
    {TDH_INTYPE_UINT16, TDH_OUTTYPE_PORT, 0, 2, "\x01\xbb", "443", 2},
    {TDH_INTYPE_UINT16, TDH_OUTTYPE_STRING, 0, 2, "\xe4\0", "ä", 2},
    {TDH_INTYPE_INT32, 0, 0, 4, "\xfd\xff\xff\xff", "-3", 4},
    {TDH_INTYPE_INT32, TDH_OUTTYPE_HRESULT, 0, 4, "\x05\x00\x07\x80", "0x80070005", 4},
    {TDH_INTYPE_UINT32, 0, 0, 5, "\xff\xff\xff\xff\1", "4294967295", 4},
    {TDH_INTYPE_UINT32, TDH_OUTTYPE_IPV4, 0, 4, "\x7f\0\0\1", "127.0.0.1", 4},
    {TDH_INTYPE_UINT32, TDH_OUTTYPE_WIN32ERROR, 0, 4, "\5\0\0\0", "5", 4},
    {TDH_INTYPE_UINT32, TDH_OUTTYPE_NTSTATUS, 0, 4, "\5\0\0\xc0", "0xC0000005", 4},
    {TDH_INTYPE_UINT32, TDH_OUTTYPE_PID, 0, 4, "\xff\xff\xff\xff", "4294967295", 4},
    {TDH_INTYPE_HEXINT32, 0, 0, 4, "\xab\0\0\0", "0xAB", 4},
    {TDH_INTYPE_INT64, 0, 0, 8, "\xff\xff\xff\xff\xff\xff\xff\xff", "-1", 8},
    {TDH_INTYPE_UINT64, 0, 0, 8, "\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615", 8},
    {TDH_INTYPE_HEXINT64, 0, 0, 8, "\0\0\0\0\0\0\0\x80", "0x8000000000000000", 8},
    {TDH_INTYPE_POINTER, 0, 0, 8, "\0\x10\0\0\0\0\0\0", "0x1000", 8},
    {TDH_INTYPE_FLOAT, 0, 0, 4, "\0\0\xc0\x3f", "1.5", 4},
    {TDH_INTYPE_DOUBLE, 0, 0, 8, "\x9a\x99\x99\x99\x99\x99\xb9\x3f", "0.1", 8},
    {TDH_INTYPE_BOOLEAN, 0, 0, 4, "\0\0\0\0", "false", 4},
    {TDH_INTYPE_GUID, 0, 0, 16, "\x33\x22\x11\x00\x55\x44\x77\x66\x88\x99\xaa\xbb\xcc\xdd\xee\xff",
     "{00112233-4455-6677-8899-AABBCCDDEEFF}", 16},
    {TDH_INTYPE_FILETIME, 0, 0, 8, "\x07\x80\x3e\xd5\xde\xb1\x9d\x01",
     "1970-01-01T00:00:00.0000007Z", 8},
    {TDH_INTYPE_SYSTEMTIME, 0, 0, 16, "\xea\x07\x0c\0\0\0\x1\0\x2\0\x3\0\x4\0\x5\0",
     "2026-12-01T02:03:04.0050000Z", 16},
    {TDH_INTYPE_SID, 0, 0, 12, "\1\1\0\0\0\0\0\5\x12\0\0\0", "S-1-5-18", 12},
    {TDH_INTYPE_WBEMSID, 0, 0, 4, "\0\0\0\0", "", 4},
    {TDH_INTYPE_UNICODESTRING, 0, 0, 7, "h\0i\0\0\0x", "hi", 6},
    {TDH_INTYPE_UNICODESTRING, 0, 0, 4, "h\0i\0", "hi", 4},
    {TDH_INTYPE_UNICODESTRING, 0, 1, 4, "h\0i\0", "h", 2},
    {TDH_INTYPE_ANSISTRING, 0, 0, 4, "hi\0x", "hi", 3},
    {TDH_INTYPE_ANSISTRING, 0, 2, 4, "hi?x", "hi", 2},
    {TDH_INTYPE_ANSISTRING, TDH_OUTTYPE_UTF8, 0, 3, "\xc3\xa4", "ä", 3},
    {TDH_INTYPE_MANIFEST_COUNTEDSTRING, 0, 0, 6, "\4\0h\0i\0", "hi", 6},
    {TDH_INTYPE_COUNTEDANSISTRING, 0, 0, 5, "\2\0hix", "hi", 4},
    {TDH_INTYPE_REVERSEDCOUNTEDANSISTRING, 0, 0, 5, "\0\2hix", "hi", 4},
    {TDH_INTYPE_NONNULLTERMINATEDANSISTRING, 0, 0, 3, "abc", "abc", 3},
    {TDH_INTYPE_BINARY, 0, 3, 4, "\1\2\xff\4", "0x0102FF", 3},
    {TDH_INTYPE_MANIFEST_COUNTEDBINARY, 0, 0, 4, "\2\0\1\2", "0x0102", 4},
    {TDH_INTYPE_HEXDUMP, 0, 0, 5, "\1\0\0\0\7", "0x07", 5},
    {TDH_INTYPE_BINARY, TDH_OUTTYPE_IPV6, 0, 16, "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1",
     "2001:db8::1", 16},
    {TDH_INTYPE_BINARY, TDH_OUTTYPE_IPV6, 16, 16, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "::", 16},
    {TDH_INTYPE_BINARY, TDH_OUTTYPE_IPV6, 16, 16, "\0\1\0\0\0\2\0\3\0\4\0\5\0\6\0\7",
     "1:0:2:3:4:5:6:7", 16},
    {TDH_INTYPE_BINARY, TDH_OUTTYPE_SOCKETADDRESS, 16, 16, "\2\0\0\x50\x0a\0\0\1\0\0\0\0\0\0\0\0",
     "10.0.0.1:80", 16},
    {TDH_INTYPE_UNICODECHAR, 0, 0, 2, "x\0", "x", 2},
    {TDH_INTYPE_NULL, 0, 0, 1, "x", "", 0},
    /* types that do not fit each other, data that do not fit the type */
    {TDH_INTYPE_GUID, TDH_OUTTYPE_PID, 0, 16, "0123456789abcdef", NULL, ERROR_INVALID_PARAMETER},
    {TDH_INTYPE_UINT8, TDH_OUTTYPE_IPV4, 0, 1, "x", NULL, ERROR_INVALID_PARAMETER},
    {TDH_INTYPE_RESERVED24, 0, 0, 4, "abcd", NULL, ERROR_INVALID_PARAMETER},
    {TDH_INTYPE_UINT32, 0, 0, 3, "abc", NULL, ERROR_EVT_INVALID_EVENT_DATA},
    {TDH_INTYPE_UNICODESTRING, 0, 3, 4, "h\0i\0", NULL, ERROR_EVT_INVALID_EVENT_DATA},
    {TDH_INTYPE_COUNTEDSTRING, 0, 0, 3, "\4\0h", NULL, ERROR_EVT_INVALID_EVENT_DATA},
    {TDH_INTYPE_SID, 0, 0, 8, "\1\1\0\0\0\0\0\5", NULL, ERROR_EVT_INVALID_EVENT_DATA},
    {TDH_INTYPE_BINARY, 0, 5, 4, "abcd", NULL, ERROR_EVT_INVALID_EVENT_DATA},
};

static void format_one(const struct format_case *c)
{
    TRACE_EVENT_INFO info = {0};
    uint8_t data[64];
    WCHAR out[128];
    ULONG size = sizeof(out);
    USHORT consumed = 99;

    memcpy(data, c->data, c->size);
    ULONG code =
        TdhFormatProperty(&info, NULL, 8, (USHORT) c->in, (USHORT) c->out, (USHORT) c->length,
                          (USHORT) c->size, data, &size, out, &consumed);
    if (!c->text) {
        ck_assert_uint_eq(code, c->consumed);
        ck_assert_uint_eq(consumed, 99);
        return;
    }
    ck_assert_uint_eq(code, ERROR_SUCCESS);
    _cleanup_free_ char *text = etw_utf16_dup_utf8(out, SIZE_MAX);
    ck_assert_str_eq(text, c->text);
    ck_assert_uint_eq(consumed, c->consumed);
    ck_assert_uint_eq(size, 2 * (etw_utf16_len((const uint16_t *) out, ARRAY_SIZE(out)) + 1));
    ULONG none = 0;
    ck_assert_uint_eq(TdhFormatProperty(&info, NULL, 8, (USHORT) c->in, (USHORT) c->out,
                                        (USHORT) c->length, (USHORT) c->size, data, &none, NULL,
                                        &consumed),
                      ERROR_INSUFFICIENT_BUFFER);
    ck_assert_uint_eq(none, size);
}

START_TEST(format_case)
{
    format_one(&format_cases[_i]);
}
END_TEST

/* The program's locale does not show in numbers. */
START_TEST(format_locale)
{
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
        test_skip("no locale with a decimal comma is installed");
    format_one(&(const struct format_case){TDH_INTYPE_FLOAT, 0, 0, 4, "\0\0\xc0\x3f", "1.5", 4});
}
END_TEST

START_TEST(format_map)
{
    struct {
        EVENT_MAP_INFO map;
        EVENT_MAP_ENTRY more;
        WCHAR text[32];
    } m = {.map = {.Flag = EVENTMAP_INFO_FLAG_MANIFEST_VALUEMAP, .EntryCount = 2}};
    TRACE_EVENT_INFO info = {0};
    WCHAR out[64];
    USHORT consumed;

    (void) etw_utf8_to_utf16("One ", SIZE_MAX, m.text, 8);
    (void) etw_utf8_to_utf16("Two ", SIZE_MAX, m.text + 8, 8);
    EVENT_MAP_ENTRY *entries = m.map.MapEntryArray;
    entries[0].Value = 1;
    entries[0].OutputOffset = (ULONG) ((uint8_t *) m.text - (uint8_t *) &m);
    m.more.Value = 2;
    m.more.OutputOffset = entries[0].OutputOffset + 16;
    static const struct {
        MAP_FLAGS flag;
        const char *value, *text;
    } cases[] = {
        {EVENTMAP_INFO_FLAG_MANIFEST_VALUEMAP, "\2\0\0\0", "Two"},
        {EVENTMAP_INFO_FLAG_MANIFEST_VALUEMAP, "\3\0\0\0", "3"},
        {EVENTMAP_INFO_FLAG_MANIFEST_BITMAP, "\3\0\0\0", "One|Two"},
        {EVENTMAP_INFO_FLAG_MANIFEST_BITMAP, "\5\0\0\0", "One|0x4"},
        {EVENTMAP_INFO_FLAG_MANIFEST_BITMAP, "\0\0\0\0", "0"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint8_t data[4];
        ULONG size = sizeof(out);
        memcpy(data, cases[i].value, 4);
        m.map.Flag = cases[i].flag;
        ck_assert_uint_eq(TdhFormatProperty(&info, &m.map, 8, TDH_INTYPE_UINT32, 0, 0, 4, data,
                                            &size, out, &consumed),
                          ERROR_SUCCESS);
        _cleanup_free_ char *text = etw_utf16_dup_utf8(out, SIZE_MAX);
        ck_assert_str_eq(text, cases[i].text);
    }
}
END_TEST

/* ---- codes ---- */

START_TEST(codes)
{
    struct event e;
    uint8_t buffer[4096] __attribute__((aligned(8)));
    ULONG size = sizeof(buffer);
    WCHAR name[2] = {'x'};
    PROPERTY_DATA_DESCRIPTOR d = {.PropertyName = (uintptr_t) name, .ArrayIndex = WHOLE};

    tl_event(&e, "E");
    FIELD(&e, "x", 4);
    PEVENT_RECORD r = &e.record;
    PTRACE_EVENT_INFO info = (PTRACE_EVENT_INFO) buffer;
    ck_assert_uint_eq(TdhGetEventInformation(NULL, 0, NULL, info, &size), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhGetEventInformation(r, 0, NULL, info, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhGetEventInformation(r, 1, NULL, info, &size), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhGetEventInformation(r, 0, NULL, NULL, &size), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(size, sizeof(buffer));

    ck_assert_uint_eq(TdhGetPropertySize(r, 0, NULL, 1, &d, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhGetPropertySize(NULL, 0, NULL, 1, &d, &size), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhGetPropertySize(r, 0, NULL, 0, &d, &size), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhGetPropertySize(r, 0, NULL, 1, NULL, &size), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhGetProperty(r, 0, NULL, 1, &d, 10, NULL), ERROR_INVALID_PARAMETER);
    d.PropertyName = 0;
    ck_assert_uint_eq(TdhGetPropertySize(r, 0, NULL, 1, &d, &size), ERROR_INVALID_PARAMETER);

    size = sizeof(buffer);
    ck_assert_uint_eq(TdhGetEventMapInformation(r, name, (PEVENT_MAP_INFO) buffer, &size),
                      ERROR_NOT_FOUND);
    ck_assert_uint_eq(TdhGetEventMapInformation(r, NULL, (PEVENT_MAP_INFO) buffer, &size),
                      ERROR_INVALID_PARAMETER);

    /* Nobody knows these. */
    event_init(&e);
    ck_assert_uint_eq(TdhGetEventInformation(r, 0, NULL, info, &size), ERROR_NOT_FOUND);
    class_event(&e, ETL_ROW_Thread_CSwitch);
    e.record.EventHeader.EventDescriptor.Opcode = 251;
    ck_assert_uint_eq(TdhGetEventInformation(r, 0, NULL, info, &size), ERROR_NOT_FOUND);

    uint8_t data[8] = {0};
    USHORT consumed;
    WCHAR out[8];
    size = sizeof(out);
    ck_assert_uint_eq(TdhFormatProperty(NULL, NULL, 8, 4, 0, 0, 8, data, &size, out, &consumed),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhFormatProperty(info, NULL, 7, 4, 0, 0, 8, data, &size, out, &consumed),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhFormatProperty(info, NULL, 8, 4, 0, 0, 8, NULL, &size, out, &consumed),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhFormatProperty(info, NULL, 8, 4, 0, 0, 8, data, NULL, out, &consumed),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhFormatProperty(info, NULL, 8, 4, 0, 0, 8, data, &size, NULL, &consumed),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhFormatProperty(info, NULL, 8, 4, 0, 0, 8, data, &size, out, NULL),
                      ERROR_INVALID_PARAMETER);
}
END_TEST

START_TEST(providers)
{
    ULONG size = 1, need;
    uint8_t buffer[4096] __attribute__((aligned(8)));
    PPROVIDER_ENUMERATION_INFO info = (PPROVIDER_ENUMERATION_INFO) buffer;

    ck_assert_uint_eq(TdhEnumerateProviders(NULL, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhEnumerateProviders(NULL, &size), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(size, 1);
    size = 0;
    ck_assert_uint_eq(TdhEnumerateProviders(NULL, &size), ERROR_INSUFFICIENT_BUFFER);
    need = size;
    size = 1;
    ck_assert_uint_eq(TdhEnumerateProviders(info, &size), ERROR_INSUFFICIENT_BUFFER);
    ck_assert_uint_eq(size, need);
    ck_assert_uint_eq(TdhEnumerateProviders(info, &size), ERROR_SUCCESS);
    ck_assert_uint_eq(size, need);
    ck_assert_uint_ge(size, 8 + 24 * info->NumberOfProviders);
    ck_assert_uint_ge(info->NumberOfProviders, 1);
    for (ULONG i = 0; i < info->NumberOfProviders; i++) {
        ULONG at = info->TraceProviderInfoArray[i].ProviderNameOffset;
        ck_assert_uint_lt(at, size);
        _cleanup_free_ char *name = etw_utf16_dup_utf8(buffer + at, (size - at) / 2);
        ck_assert_uint_gt(strlen(name), 0);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tdh");
    TCase *t = tcase_create("tdh");

    tcase_add_test(t, class_schema);
    tcase_add_test(t, all_classes);
    tcase_add_test(t, tl_schema);
    tcase_add_test(t, tl_values);
    tcase_add_loop_test(t, format_case, 0, ARRAY_SIZE(format_cases));
    tcase_add_test(t, format_locale);
    tcase_add_test(t, format_map);
    tcase_add_test(t, codes);
    tcase_add_test(t, providers);
    suite_add_tcase(s, t);
    return test_main(s);
}
