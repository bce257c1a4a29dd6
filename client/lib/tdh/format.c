/* SPDX-License-Identifier: Apache-2.0
 *
 * TdhFormatProperty: text of one value. The same text in every locale. Any thread.
 */
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf16.h"
#include "base/utf8.h"
#include "etl/iterate.h"
#include "internal.h"
#include "schema.h"

/* Windows' numbers for address families. */
#define FAMILY_INET 2
#define FAMILY_INET6_WINDOWS 23
#define FAMILY_INET6_LINUX 10

/* Text that is written as far as there is room, and counted. */
struct wide {
    uint8_t *out; /* UTF-16, any alignment */
    size_t room;  /* units */
    size_t n;
};

static void put_unit(struct wide *w, uint16_t u)
{
    if (w->n < w->room)
        memcpy(w->out + w->n * 2, &u, sizeof(u));
    w->n++;
}

static void put_ascii(struct wide *w, const char *s)
{
    for (; *s; s++)
        put_unit(w, (uint16_t) (unsigned char) *s);
}

static void put_character(struct wide *w, uint32_t c)
{
    if (c > 0x10FFFF)
        c = ETW_UTF8_REPLACEMENT;
    if (c >= 0x10000) {
        put_unit(w, (uint16_t) (0xD800 + ((c - 0x10000) >> 10)));
        put_unit(w, (uint16_t) (0xDC00 + ((c - 0x10000) & 0x3FF)));
    } else
        put_unit(w, (uint16_t) c);
}

/* Up to a NUL. */
static void put_utf8(struct wide *w, const uint8_t *p, size_t n)
{
    while (n > 0 && *p) {
        uint32_t c;
        size_t k = etw_utf8_decode((const char *) p, n, &c);
        put_character(w, c);
        p += k;
        n -= k;
    }
}

static void put_utf16(struct wide *w, const uint8_t *p, size_t bytes)
{
    for (; bytes >= 2; p += 2, bytes -= 2) {
        uint16_t u;
        memcpy(&u, p, sizeof(u));
        if (u == 0)
            return;
        put_unit(w, u);
    }
}

static void put_hex_bytes(struct wide *w, const uint8_t *p, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";

    put_ascii(w, "0x");
    for (size_t i = 0; i < n; i++) {
        put_unit(w, (uint16_t) digits[p[i] >> 4]);
        put_unit(w, (uint16_t) digits[p[i] & 15]);
    }
}

static void put_printf(struct wide *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void put_printf(struct wide *w, const char *format, ...)
{
    char text[128];
    va_list ap;

    va_start(ap, format);
    (void) vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    put_ascii(w, text);
}

static void put_guid(struct wide *w, const uint8_t *p)
{
    struct etw_guid g;
    memcpy(&g, p, sizeof(g));
    put_printf(w, "{%08X-%04X-%04X-%02X%02X-%02X%02X%02X%02X%02X%02X}", g.data1, g.data2, g.data3,
               g.data4[0], g.data4[1], g.data4[2], g.data4[3], g.data4[4], g.data4[5], g.data4[6],
               g.data4[7]);
}

static void put_filetime(struct wide *w, uint64_t ft)
{
    int64_t since = (int64_t) (ft / ETW_FILETIME_PER_SEC) -
                    (int64_t) (ETW_FILETIME_UNIX_EPOCH / ETW_FILETIME_PER_SEC);
    time_t t = (time_t) since;
    struct tm tm;

    if (!gmtime_r(&t, &tm)) {
        put_printf(w, "%llu", (unsigned long long) ft);
        return;
    }
    put_printf(w, "%04d-%02d-%02dT%02d:%02d:%02d.%07uZ", tm.tm_year + 1900, tm.tm_mon + 1,
               tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
               (unsigned) (ft % ETW_FILETIME_PER_SEC));
}

static void put_systemtime(struct wide *w, const uint8_t *p)
{
    uint16_t f[8]; /* year, month, day of week, day, hour, minute, second, ms */
    memcpy(f, p, sizeof(f));
    put_printf(w, "%04u-%02u-%02uT%02u:%02u:%02u.%03u0000Z", f[0], f[1], f[3], f[4], f[5], f[6],
               f[7]);
}

static void put_ipv4(struct wide *w, const uint8_t *p)
{
    put_printf(w, "%u.%u.%u.%u", p[0], p[1], p[2], p[3]);
}

/* RFC 5952: the longest run of zeros is left out. */
static void put_ipv6(struct wide *w, const uint8_t *p)
{
    unsigned best = 8, best_n = 1;

    for (unsigned i = 0; i < 8; i++) {
        unsigned n = 0;
        while (i + n < 8 && p[2 * (i + n)] == 0 && p[2 * (i + n) + 1] == 0)
            n++;
        if (n > best_n) {
            best = i;
            best_n = n;
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        if (i == best) {
            put_ascii(w, "::");
            i += best_n - 1;
            continue;
        }
        put_printf(w, "%s%x", i > 0 && i != best + best_n ? ":" : "",
                   (unsigned) (p[2 * i] << 8 | p[2 * i + 1]));
    }
}

static void put_socket_address(struct wide *w, const uint8_t *p, size_t n)
{
    uint16_t family = n >= 2 ? (uint16_t) (p[0] | p[1] << 8) : 0;
    unsigned port = n >= 4 ? (unsigned) (p[2] << 8 | p[3]) : 0;

    if (family == FAMILY_INET && n >= 8) {
        put_ipv4(w, p + 4);
        put_printf(w, ":%u", port);
    } else if ((family == FAMILY_INET6_WINDOWS || family == FAMILY_INET6_LINUX) && n >= 24) {
        put_ascii(w, "[");
        put_ipv6(w, p + 8);
        put_printf(w, "]:%u", port);
    } else
        put_hex_bytes(w, p, n);
}

static locale_t c_locale;

static void c_locale_make(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
}

/* The shortest digits that mean the same number, with a point whatever the program's locale. */
static void put_float(struct wide *w, double v, bool single)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    locale_t old = (locale_t) 0;
    char text[64];

    (void) pthread_once(&once, c_locale_make);
    if (c_locale)
        old = uselocale(c_locale);
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        (void) snprintf(text, sizeof(text), "%.*g", digits, v);
        if (single ? strtof(text, NULL) == (float) v : strtod(text, NULL) == v)
            break;
    }
    if (c_locale)
        (void) uselocale(old);
    put_ascii(w, text);
}

/* ---- types ---- */

enum family {
    OF_NONE,
    OF_NUMBER,
    OF_REAL,
    OF_BOOLEAN,
    OF_BYTES,
    OF_GUID,
    OF_POINTER,
    OF_TIME,
    OF_SID,
    OF_TEXT16,
    OF_TEXT8,
    OF_CHARACTER,
};

static enum family family_of(uint16_t in)
{
    switch (in) {
    case TDH_INTYPE_NULL:
        return OF_NONE;
    case TDH_INTYPE_INT8:
    case TDH_INTYPE_UINT8:
    case TDH_INTYPE_INT16:
    case TDH_INTYPE_UINT16:
    case TDH_INTYPE_INT32:
    case TDH_INTYPE_UINT32:
    case TDH_INTYPE_INT64:
    case TDH_INTYPE_UINT64:
    case TDH_INTYPE_HEXINT32:
    case TDH_INTYPE_HEXINT64:
        return OF_NUMBER;
    case TDH_INTYPE_FLOAT:
    case TDH_INTYPE_DOUBLE:
        return OF_REAL;
    case TDH_INTYPE_BOOLEAN:
        return OF_BOOLEAN;
    case TDH_INTYPE_BINARY:
    case TDH_INTYPE_MANIFEST_COUNTEDBINARY:
    case TDH_INTYPE_HEXDUMP:
        return OF_BYTES;
    case TDH_INTYPE_GUID:
        return OF_GUID;
    case TDH_INTYPE_POINTER:
    case TDH_INTYPE_SIZET:
        return OF_POINTER;
    case TDH_INTYPE_FILETIME:
    case TDH_INTYPE_SYSTEMTIME:
        return OF_TIME;
    case TDH_INTYPE_SID:
    case TDH_INTYPE_WBEMSID:
        return OF_SID;
    case TDH_INTYPE_UNICODESTRING:
    case TDH_INTYPE_MANIFEST_COUNTEDSTRING:
    case TDH_INTYPE_COUNTEDSTRING:
    case TDH_INTYPE_REVERSEDCOUNTEDSTRING:
    case TDH_INTYPE_NONNULLTERMINATEDSTRING:
        return OF_TEXT16;
    case TDH_INTYPE_ANSISTRING:
    case TDH_INTYPE_MANIFEST_COUNTEDANSISTRING:
    case TDH_INTYPE_COUNTEDANSISTRING:
    case TDH_INTYPE_REVERSEDCOUNTEDANSISTRING:
    case TDH_INTYPE_NONNULLTERMINATEDANSISTRING:
        return OF_TEXT8;
    case TDH_INTYPE_UNICODECHAR:
    case TDH_INTYPE_ANSICHAR:
        return OF_CHARACTER;
    default:
        return OF_NONE;
    }
}

static bool is_time(uint16_t out)
{
    return out == TDH_OUTTYPE_DATETIME || out == TDH_OUTTYPE_CULTURE_INSENSITIVE_DATETIME ||
           out == TDH_OUTTYPE_DATETIME_UTC || out == TDH_OUTTYPE_ETWTIME ||
           out == TDH_OUTTYPE_CIMDATETIME;
}

static bool number_fits(uint16_t out, uint32_t size)
{
    switch (out) {
    case TDH_OUTTYPE_BYTE:
    case TDH_OUTTYPE_UNSIGNEDBYTE:
    case TDH_OUTTYPE_HEXINT8:
        return size == 1;
    case TDH_OUTTYPE_SHORT:
    case TDH_OUTTYPE_UNSIGNEDSHORT:
    case TDH_OUTTYPE_HEXINT16:
    case TDH_OUTTYPE_PORT:
        return size == 2;
    case TDH_OUTTYPE_INT:
    case TDH_OUTTYPE_UNSIGNEDINT:
    case TDH_OUTTYPE_HEXINT32:
    case TDH_OUTTYPE_IPV4:
    case TDH_OUTTYPE_ERRORCODE:
    case TDH_OUTTYPE_WIN32ERROR:
    case TDH_OUTTYPE_NTSTATUS:
    case TDH_OUTTYPE_HRESULT:
        return size == 4;
    case TDH_OUTTYPE_LONG:
    case TDH_OUTTYPE_UNSIGNEDLONG:
    case TDH_OUTTYPE_HEXINT64:
        return size == 8;
    case TDH_OUTTYPE_STRING:
        return size <= 2;
    case TDH_OUTTYPE_BOOLEAN:
        return true;
    case TDH_OUTTYPE_PID:
    case TDH_OUTTYPE_TID:
    case TDH_OUTTYPE_CODE_POINTER:
        return size >= 4;
    default:
        return size == 8 && is_time(out);
    }
}

/* Whether the out-type makes sense of the in-type. */
static bool types_fit(uint16_t in, uint16_t out, uint32_t size)
{
    if (out == TDH_OUTTYPE_NULL || out == TDH_OUTTYPE_NOPRINT)
        return true;
    switch (family_of(in)) {
    case OF_NONE:
        return false;
    case OF_NUMBER:
        return number_fits(out, size);
    case OF_REAL:
        return out == (in == TDH_INTYPE_FLOAT ? TDH_OUTTYPE_FLOAT : TDH_OUTTYPE_DOUBLE);
    case OF_BOOLEAN:
        return out == TDH_OUTTYPE_BOOLEAN;
    case OF_BYTES:
        return out == TDH_OUTTYPE_HEXBINARY || out == TDH_OUTTYPE_IPV6 ||
               out == TDH_OUTTYPE_SOCKETADDRESS || out == TDH_OUTTYPE_PKCS7_WITH_TYPE_INFO;
    case OF_GUID:
        return out == TDH_OUTTYPE_GUID;
    case OF_POINTER:
        return out == TDH_OUTTYPE_HEXINT32 || out == TDH_OUTTYPE_HEXINT64 ||
               out == TDH_OUTTYPE_UNSIGNEDLONG || out == TDH_OUTTYPE_CODE_POINTER;
    case OF_TIME:
        return is_time(out);
    case OF_SID:
    case OF_CHARACTER:
        return out == TDH_OUTTYPE_STRING;
    case OF_TEXT16:
    case OF_TEXT8:
        return out == TDH_OUTTYPE_STRING || out == TDH_OUTTYPE_XML || out == TDH_OUTTYPE_JSON ||
               out == TDH_OUTTYPE_UTF8 || out == TDH_OUTTYPE_REDUCEDSTRING ||
               out == TDH_OUTTYPE_DATETIME_UTC;
    }
    return false;
}

static bool is_signed(uint16_t in)
{
    return in == TDH_INTYPE_INT8 || in == TDH_INTYPE_INT16 || in == TDH_INTYPE_INT32 ||
           in == TDH_INTYPE_INT64;
}

static bool reads_signed(uint16_t in, uint16_t out)
{
    switch (out) {
    case TDH_OUTTYPE_BYTE:
    case TDH_OUTTYPE_SHORT:
    case TDH_OUTTYPE_INT:
    case TDH_OUTTYPE_LONG:
        return true;
    case TDH_OUTTYPE_UNSIGNEDBYTE:
    case TDH_OUTTYPE_UNSIGNEDSHORT:
    case TDH_OUTTYPE_UNSIGNEDINT:
    case TDH_OUTTYPE_UNSIGNEDLONG:
    case TDH_OUTTYPE_PID:
    case TDH_OUTTYPE_TID:
        return false;
    default:
        return is_signed(in);
    }
}

static int64_t extend(uint64_t v, uint32_t size)
{
    unsigned shift = 64 - 8 * size;
    return (int64_t) (v << shift) >> shift;
}

static void put_number(struct wide *w, uint16_t in, uint16_t out, const uint8_t *p, uint32_t size)
{
    uint64_t v = 0;

    memcpy(&v, p, size);
    switch (out) {
    case TDH_OUTTYPE_HEXINT8:
    case TDH_OUTTYPE_HEXINT16:
    case TDH_OUTTYPE_HEXINT32:
    case TDH_OUTTYPE_HEXINT64:
    case TDH_OUTTYPE_CODE_POINTER:
        put_printf(w, "0x%llX", (unsigned long long) v);
        return;
    case TDH_OUTTYPE_NTSTATUS:
    case TDH_OUTTYPE_HRESULT:
        put_printf(w, "0x%08llX", (unsigned long long) v);
        return;
    case TDH_OUTTYPE_BOOLEAN:
        put_ascii(w, v ? "true" : "false");
        return;
    case TDH_OUTTYPE_STRING:
        put_character(w, (uint32_t) v);
        return;
    case TDH_OUTTYPE_PORT:
        put_printf(w, "%u", (unsigned) __builtin_bswap16((uint16_t) v));
        return;
    case TDH_OUTTYPE_IPV4:
        put_ipv4(w, p);
        return;
    default:
        break;
    }
    if (is_time(out))
        put_filetime(w, v);
    else if (in == TDH_INTYPE_HEXINT32 || in == TDH_INTYPE_HEXINT64)
        put_printf(w, "0x%llX", (unsigned long long) v);
    else if (reads_signed(in, out))
        put_printf(w, "%lld", (long long) extend(v, size));
    else
        put_printf(w, "%llu", (unsigned long long) v);
}

static void put_bytes(struct wide *w, uint16_t out, const uint8_t *p, uint32_t size)
{
    if (out == TDH_OUTTYPE_IPV6 && size == 16)
        put_ipv6(w, p);
    else if (out == TDH_OUTTYPE_SOCKETADDRESS)
        put_socket_address(w, p, size);
    else
        put_hex_bytes(w, p, size);
}

/* Bytes of a count before the value. */
static uint32_t count_width(uint16_t in)
{
    switch (in) {
    case TDH_INTYPE_MANIFEST_COUNTEDSTRING:
    case TDH_INTYPE_MANIFEST_COUNTEDANSISTRING:
    case TDH_INTYPE_MANIFEST_COUNTEDBINARY:
    case TDH_INTYPE_COUNTEDSTRING:
    case TDH_INTYPE_COUNTEDANSISTRING:
    case TDH_INTYPE_REVERSEDCOUNTEDSTRING:
    case TDH_INTYPE_REVERSEDCOUNTEDANSISTRING:
        return 2;
    case TDH_INTYPE_HEXDUMP:
        return 4;
    default:
        return 0;
    }
}

static void put_sid(struct wide *w, const uint8_t *p, uint32_t size)
{
    char text[ETL_SID_STRING_MAX];
    const char *sid = etl_sid_format(p, size, text);
    put_ascii(w, sid ? sid : "");
}

static void put_value(struct wide *w, uint16_t in, uint16_t out, uint8_t pointer_size,
                      const uint8_t *p, uint32_t size)
{
    uint32_t skip = count_width(in), token = 2u * pointer_size;
    double d;
    float f;

    p += skip;
    size -= skip;
    switch (family_of(in)) {
    case OF_NONE:
        break;
    case OF_NUMBER:
        put_number(w, in, out, p, size);
        break;
    case OF_REAL:
        if (in == TDH_INTYPE_FLOAT) {
            memcpy(&f, p, sizeof(f));
            put_float(w, (double) f, true);
        } else {
            memcpy(&d, p, sizeof(d));
            put_float(w, d, false);
        }
        break;
    case OF_BOOLEAN:
        put_number(w, in, TDH_OUTTYPE_BOOLEAN, p, size);
        break;
    case OF_BYTES:
        put_bytes(w, out, p, size);
        break;
    case OF_GUID:
        put_guid(w, p);
        break;
    case OF_POINTER:
        put_number(w, in, out == TDH_OUTTYPE_UNSIGNEDLONG ? out : TDH_OUTTYPE_HEXINT64, p, size);
        break;
    case OF_TIME:
        if (in == TDH_INTYPE_SYSTEMTIME)
            put_systemtime(w, p);
        else
            put_number(w, in, TDH_OUTTYPE_DATETIME, p, size);
        break;
    case OF_SID:
        if (in == TDH_INTYPE_SID)
            put_sid(w, p, size);
        else if (size > token)
            put_sid(w, p + token, size - token);
        break;
    case OF_TEXT16:
        put_utf16(w, p, size);
        break;
    case OF_TEXT8:
        put_utf8(w, p, size);
        break;
    case OF_CHARACTER:
        if (in == TDH_INTYPE_UNICODECHAR)
            put_utf16(w, p, size);
        else
            put_character(w, *p);
        break;
    }
}

/* ---- maps ---- */

static void put_map_text(struct wide *w, const EVENT_MAP_INFO *map, const EVENT_MAP_ENTRY *entry)
{
    const uint8_t *text = (const uint8_t *) map + entry->OutputOffset;
    size_t units = 0;
    uint16_t u;

    for (;; units++) {
        memcpy(&u, text + 2 * units, sizeof(u));
        if (u == 0)
            break;
    }
    /* The compiler of manifests puts a space behind each. */
    if (units > 0) {
        memcpy(&u, text + 2 * (units - 1), sizeof(u));
        if (u == ' ')
            units--;
    }
    put_utf16(w, text, 2 * units);
}

/* False: the map says nothing of the value. */
static bool put_mapped(struct wide *w, const EVENT_MAP_INFO *map, uint64_t value)
{
    bool bits = map->Flag & (EVENTMAP_INFO_FLAG_MANIFEST_BITMAP | EVENTMAP_INFO_FLAG_WBEM_BITMAP |
                             EVENTMAP_INFO_FLAG_WBEM_FLAG);
    uint64_t left = value;

    if (map->Flag & EVENTMAP_INFO_FLAG_MANIFEST_PATTERNMAP)
        return false;
    for (ULONG i = 0; i < map->EntryCount; i++) {
        const EVENT_MAP_ENTRY *e = &map->MapEntryArray[i];
        if (!bits && e->Value == value) {
            put_map_text(w, map, e);
            return true;
        }
        if (bits && e->Value && (left & e->Value) == e->Value) {
            if (w->n > 0)
                put_ascii(w, "|");
            put_map_text(w, map, e);
            left &= ~(uint64_t) e->Value;
        }
    }
    if (!bits || left == value)
        return false;
    if (left)
        put_printf(w, "|0x%llX", (unsigned long long) left);
    return true;
}

ULONG WINAPI TdhFormatProperty(PTRACE_EVENT_INFO EventInfo, PEVENT_MAP_INFO MapInfo,
                               ULONG PointerSize, USHORT PropertyInType, USHORT PropertyOutType,
                               USHORT PropertyLength, USHORT UserDataLength, PBYTE UserData,
                               ULONG *BufferSize, LPWSTR Buffer, USHORT *UserDataConsumed)
{
    uint32_t size;
    uint64_t number;
    int r;

    if (!EventInfo || !BufferSize || !UserDataConsumed || (UserDataLength > 0 && !UserData) ||
        (PointerSize != 4 && PointerSize != 8) || (!Buffer && *BufferSize > 0))
        return finish(ERROR_INVALID_PARAMETER);
    r = value_size(PropertyInType, PropertyOutType, PropertyLength, (uint8_t) PointerSize, UserData,
                   UserDataLength, &size);
    if (r == -EINVAL)
        return finish(ERROR_INVALID_PARAMETER);
    if (r < 0)
        return finish(ERROR_EVT_INVALID_EVENT_DATA);
    if (!types_fit(PropertyInType, PropertyOutType, size))
        return finish(ERROR_INVALID_PARAMETER);

    struct wide w = {.out = (uint8_t *) Buffer, .room = *BufferSize / sizeof(WCHAR)};
    if (!MapInfo || !value_integer(PropertyInType, UserData, size, &number) ||
        !put_mapped(&w, MapInfo, number))
        put_value(&w, PropertyInType, PropertyOutType, (uint8_t) PointerSize, UserData, size);
    put_unit(&w, 0);
    *BufferSize = (ULONG) (w.n * sizeof(WCHAR));
    if (w.n > w.room)
        return finish(ERROR_INSUFFICIENT_BUFFER);
    *UserDataConsumed = (USHORT) size;
    return ERROR_SUCCESS;
}
