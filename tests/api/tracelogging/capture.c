/* SPDX-License-Identifier: Apache-2.0
 *
 * See capture.h.
 */
#include "capture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <winerror.h>

#include "etl/tracelogging.h"
#include "lib/test.h"

#define HANDLE ((REGHANDLE) 7 << 32 | 1)

static struct etw_enable_line chunk[ETW_ENABLE_CHUNK_LINES];
static char *text;
static char provider[256];
/* Of the last event; the first two lie in the program's constant data. */
static const uint8_t *traits, *metadata;
static size_t traits_size, metadata_size, payload_size;
static uint8_t payload[65536];

void capture_enable(int on, unsigned char level, unsigned long long any)
{
    chunk[0].On = (UCHAR) on;
    chunk[0].Level = level;
    chunk[0].Any = any;
    etw_enable_table[0] = chunk;
}

ULONG capture_register(LPCGUID id, PENABLECALLBACK callback, PVOID context, PREGHANDLE handle)
{
    *handle = HANDLE;
    return ERROR_SUCCESS;
}

ULONG capture_unregister(REGHANDLE handle)
{
    ck_assert_uint_eq(handle, HANDLE);
    return ERROR_SUCCESS;
}

static void take_traits(const void *data, size_t size)
{
    const char *name;
    uint32_t len;

    ck_assert_int_eq(etl_tl_provider_name(data, size, &name, &len), 0);
    (void) snprintf(provider, sizeof(provider), "%.*s", (int) len, name);
}

ULONG capture_set_information(REGHANDLE handle, EVENT_INFO_CLASS what, PVOID data, ULONG size)
{
    ck_assert_int_eq((int) what, EventProviderSetTraits);
    take_traits(data, size);
    return ERROR_SUCCESS;
}

const char *capture_provider(void)
{
    return provider;
}

static void put_bytes(FILE *f, const uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "%02x", p[i]);
}

static void put_value(FILE *f, const struct etl_tl_value *v)
{
    float single;
    double x;

    switch (v->kind) {
    case ETL_TL_IS_NULL:
        fputs("null", f);
        break;
    case ETL_TL_IS_INTEGER:
    case ETL_TL_IS_BOOLEAN:
    case ETL_TL_IS_FILETIME:
        if (v->is_signed)
            fprintf(f, "%" PRId64, (int64_t) v->integer);
        else
            fprintf(f, "%" PRIu64, v->integer);
        break;
    case ETL_TL_IS_FLOAT:
        if (v->size == sizeof(single)) {
            memcpy(&single, v->data, sizeof(single));
            x = (double) single;
        } else
            memcpy(&x, v->data, sizeof(x));
        fprintf(f, "%g", x);
        break;
    case ETL_TL_IS_UTF8:
        fprintf(f, "'%.*s'", (int) v->size, (const char *) v->data);
        break;
    case ETL_TL_IS_UTF16:
        fputc('\'', f);
        for (uint32_t i = 0; i < v->size; i += 2)
            fputc(v->data[i + 1] ? '?' : v->data[i], f);
        fputc('\'', f);
        break;
    default:
        put_bytes(f, v->data, v->size);
        break;
    }
}

static void put_event(FILE *f, struct etl_tl *tl)
{
    struct etl_tl_value v;
    int token;

    while ((token = etl_tl_next(tl, &v)) > 0) {
        if (token == ETL_TL_STRUCT_END || token == ETL_TL_ARRAY_END) {
            fputs(token == ETL_TL_STRUCT_END ? "} " : "] ", f);
            continue;
        }
        if (v.name)
            fprintf(f, "%.*s=", (int) v.name_len, v.name);
        if (token == ETL_TL_VALUE) {
            if (v.name)
                fprintf(f, "%u/%u=", v.in_type, v.out_type);
            put_value(f, &v);
            fputc(' ', f);
        } else
            fputs(token == ETL_TL_STRUCT_BEGIN ? "{ " : "[ ", f);
    }
    ck_assert_int_eq(token, 0);
    ck_assert_uint_eq(tl->data_pos, tl->data_end);
}

ULONG capture_write(REGHANDLE handle, PCEVENT_DESCRIPTOR event, LPCGUID activity, LPCGUID related,
                    ULONG n, PEVENT_DATA_DESCRIPTOR data)
{
    size_t size = 0, length;
    struct etl_tl tl;

    ck_assert_uint_eq(handle, HANDLE);
    ck_assert_uint_ge(n, 2);
    ck_assert_uint_eq(event->Id, 0);
    ck_assert_uint_eq(data[0].Type, EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA);
    ck_assert_uint_eq(data[1].Type, EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA);
    take_traits((const void *) (uintptr_t) data[0].Ptr, data[0].Size);
    for (ULONG i = 2; i < n; i++) {
        ck_assert_uint_le(size + data[i].Size, sizeof(payload));
        if (data[i].Size)
            memcpy(payload + size, (const void *) (uintptr_t) data[i].Ptr, data[i].Size);
        size += data[i].Size;
    }
    traits = (const uint8_t *) (uintptr_t) data[0].Ptr;
    traits_size = data[0].Size;
    metadata = (const uint8_t *) (uintptr_t) data[1].Ptr;
    metadata_size = data[1].Size;
    payload_size = size;
    ck_assert_int_eq(etl_tl_init(&tl, metadata, metadata_size, payload, size, 8), 0);
    free(text);
    FILE *f = open_memstream(&text, &length);
    fprintf(f, "%.*s l%u k%" PRIx64 " o%u c%u t%x", (int) tl.event_name_len, tl.event_name,
            event->Level, (uint64_t) event->Keyword, event->Opcode, event->Channel, tl.tag);
    if (activity)
        fprintf(f, " a%x", activity->Data1);
    if (related)
        fprintf(f, " r%x", related->Data1);
    fputs(": ", f);
    put_event(f, &tl);
    ck_assert_int_eq(fclose(f), 0);
    return ERROR_SUCCESS;
}

ULONG capture_write_ex(REGHANDLE handle, PCEVENT_DESCRIPTOR event, ULONG64 filter, ULONG flags,
                       LPCGUID activity, LPCGUID related, ULONG n, PEVENT_DATA_DESCRIPTOR data)
{
    ck_assert_uint_eq(filter, 6);
    ck_assert_uint_eq(flags, 1);
    return capture_write(handle, event, activity, related, n, data);
}

static void expect(const char *file, int line, const char *what, const void *got, size_t got_size,
                   const void *want, size_t size)
{
    const uint8_t *a = got, *b = want;

    ck_assert_msg(got_size == size, "%s:%d: %s: %zu bytes instead of %zu", file, line, what,
                  got_size, size);
    for (size_t i = 0; i < size; i++)
        ck_assert_msg(a[i] == b[i], "%s:%d: %s: byte %zu is 0x%02x instead of 0x%02x", file, line,
                      what, i, a[i], b[i]);
}

void capture_expect_bytes(const char *file, int line, const void *want, size_t want_size,
                          const void *data, size_t size)
{
    ck_assert_msg(text != NULL, "%s:%d: nothing was written", file, line);
    expect(file, line, "description", metadata, metadata_size, want, want_size);
    expect(file, line, "data", payload, payload_size, data, size);
}

void capture_expect_traits(const char *file, int line, const void *want, size_t size)
{
    expect(file, line, "traits", traits, traits_size, want, size);
}

static size_t put_type(uint8_t *p, unsigned in, unsigned out)
{
    p[0] = (uint8_t) (in | (out ? 0x80u : 0));
    if (out)
        p[1] = (uint8_t) out;
    return out ? 2 : 1;
}

void capture_expect_arrays(const char *file, int line, unsigned in, unsigned out, const void *two,
                           size_t size)
{
    static const uint8_t head[] = {0, 0, 0, 'A', 0, 'v', 0}, second[] = {'f', 0}, count[] = {2, 0};
    uint8_t want[32], data[2 + 64];
    size_t n = sizeof(head);

    memcpy(want, head, sizeof(head));
    n += put_type(want + n, in | 0x40, out);
    memcpy(want + n, second, sizeof(second));
    n += sizeof(second);
    n += put_type(want + n, in | 0x20, out);
    memcpy(want + n, count, sizeof(count));
    n += sizeof(count);
    want[0] = (uint8_t) n;
    ck_assert_uint_le(size, 32);
    memcpy(data, count, sizeof(count));
    memcpy(data + 2, two, size);
    memcpy(data + 2 + size, two, size);
    capture_expect_bytes(file, line, want, n, data, 2 + 2 * size);
    free(text);
    text = NULL;
}

void capture_expect(const char *file, int line, const char *want)
{
    const char *got = text ? text : "";
    ck_assert_msg(strcmp(got, want) == 0, "%s:%d: '%s' instead of '%s'", file, line, got, want);
    free(text);
    text = NULL;
}
