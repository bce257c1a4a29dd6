/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of an event by its description: libtdh says how far each value reaches and what mapped
 * ones are called, fields.c prints values as those of self-describing events. One thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "decode.h"
#include "schemas_internal.h"

struct walk {
    struct emitter *em;
    const struct schema *s;
    const uint8_t *data;
    uint32_t pos, end;
    uint8_t pointer_size;
    uint32_t steps;
    uint64_t *values;
};

static enum etl_tl_kind kind_of(uint16_t in)
{
    switch (in) {
    case TDH_INTYPE_UNICODESTRING:
    case TDH_INTYPE_MANIFEST_COUNTEDSTRING:
    case TDH_INTYPE_COUNTEDSTRING:
    case TDH_INTYPE_REVERSEDCOUNTEDSTRING:
    case TDH_INTYPE_NONNULLTERMINATEDSTRING:
    case TDH_INTYPE_UNICODECHAR:
        return ETL_TL_IS_UTF16;
    case TDH_INTYPE_ANSISTRING:
    case TDH_INTYPE_MANIFEST_COUNTEDANSISTRING:
    case TDH_INTYPE_COUNTEDANSISTRING:
    case TDH_INTYPE_REVERSEDCOUNTEDANSISTRING:
    case TDH_INTYPE_NONNULLTERMINATEDANSISTRING:
    case TDH_INTYPE_ANSICHAR:
        return ETL_TL_IS_UTF8;
    case TDH_INTYPE_FLOAT:
    case TDH_INTYPE_DOUBLE:
        return ETL_TL_IS_FLOAT;
    case TDH_INTYPE_BOOLEAN:
        return ETL_TL_IS_BOOLEAN;
    case TDH_INTYPE_GUID:
        return ETL_TL_IS_GUID;
    case TDH_INTYPE_FILETIME:
        return ETL_TL_IS_FILETIME;
    case TDH_INTYPE_SYSTEMTIME:
        return ETL_TL_IS_SYSTEMTIME;
    case TDH_INTYPE_SID:
        return ETL_TL_IS_SID;
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
    case TDH_INTYPE_POINTER:
    case TDH_INTYPE_SIZET:
        return ETL_TL_IS_INTEGER;
    default:
        return ETL_TL_IS_BINARY;
    }
}

/* The two numberings of out-types. */
static uint8_t out_of(uint16_t out)
{
    switch (out) {
    case TDH_OUTTYPE_BOOLEAN:
        return ETL_TL_OUT_BOOLEAN;
    case TDH_OUTTYPE_HEXINT8:
    case TDH_OUTTYPE_HEXINT16:
    case TDH_OUTTYPE_HEXINT32:
    case TDH_OUTTYPE_HEXINT64:
        return ETL_TL_OUT_HEX;
    case TDH_OUTTYPE_PORT:
        return ETL_TL_OUT_PORT;
    case TDH_OUTTYPE_IPV4:
        return ETL_TL_OUT_IPV4;
    case TDH_OUTTYPE_IPV6:
        return ETL_TL_OUT_IPV6;
    case TDH_OUTTYPE_SOCKETADDRESS:
        return ETL_TL_OUT_SOCKETADDRESS;
    case TDH_OUTTYPE_NTSTATUS:
        return ETL_TL_OUT_NTSTATUS;
    case TDH_OUTTYPE_HRESULT:
        return ETL_TL_OUT_HRESULT;
    case TDH_OUTTYPE_CODE_POINTER:
        return ETL_TL_OUT_CODE_POINTER;
    default:
        return ETL_TL_OUT_DEFAULT;
    }
}

static bool is_counted(uint16_t in)
{
    return (in >= TDH_INTYPE_MANIFEST_COUNTEDSTRING && in <= TDH_INTYPE_MANIFEST_COUNTEDBINARY) ||
           (in >= TDH_INTYPE_COUNTEDSTRING && in <= TDH_INTYPE_REVERSEDCOUNTEDANSISTRING);
}

static bool is_signed(uint16_t in)
{
    return in == TDH_INTYPE_INT8 || in == TDH_INTYPE_INT16 || in == TDH_INTYPE_INT32 ||
           in == TDH_INTYPE_INT64;
}

/* Strings end at their NUL. */
static uint32_t text_bytes(const uint8_t *p, uint32_t n, bool wide)
{
    const uint8_t *nul;

    if (!wide) {
        nul = n ? memchr(p, 0, n) : NULL;
        return nul ? (uint32_t) (nul - p) : n;
    }
    for (uint32_t i = 0; i + 1 < n; i += 2)
        if (p[i] == 0 && p[i + 1] == 0)
            return i;
    return n & ~1u;
}

static void emit_value(struct walk *w, ULONG index, const uint8_t *p, uint32_t size)
{
    const EVENT_PROPERTY_INFO *info = &w->s->info->EventPropertyInfoArray[index];
    uint16_t in = info->nonStructType.InType;
    struct etl_tl_value v = {
        .in_type = (uint8_t) (in <= TDH_INTYPE_MANIFEST_COUNTEDBINARY ? in : ETL_TL_POINTER),
        .out_type = out_of(info->nonStructType.OutType),
        .kind = kind_of(in),
        .is_signed = is_signed(in),
        .data = p,
        .size = size,
    };

    if (is_counted(in) && size >= 2) {
        v.data += 2;
        v.size -= 2;
    }
    if (v.kind == ETL_TL_IS_UTF16 || v.kind == ETL_TL_IS_UTF8)
        v.size = text_bytes(v.data, v.size, v.kind == ETL_TL_IS_UTF16);
    if (size <= sizeof(v.integer)) {
        memcpy(&v.integer, p, size);
        if (v.is_signed && size < 8 && size > 0 && v.integer >> (8 * size - 1))
            v.integer |= UINT64_MAX << (8 * size);
    }
    w->values[index] = v.integer;
    if (v.kind == ETL_TL_IS_INTEGER && v.out_type == ETL_TL_OUT_BOOLEAN)
        v.kind = ETL_TL_IS_BOOLEAN;
    emit_field_value(w->em, &v);
}

/* A value with a name of its own; false: its map has none. */
static bool emit_mapped(struct walk *w, const EVENT_MAP_INFO *map, const uint8_t *p, uint32_t size)
{
    WCHAR text[512];
    ULONG bytes = sizeof(text);
    USHORT used;
    uint64_t value = 0;

    if (!map || size > 4)
        return false;
    memcpy(&value, p, size);
    /* Whether there is one: TdhFormatProperty gives the number else. */
    bool bits = map->Flag & EVENTMAP_INFO_FLAG_MANIFEST_BITMAP, found = false;
    for (ULONG i = 0; i < map->EntryCount && !found; i++)
        found = bits ? (value & map->MapEntryArray[i].Value) != 0
                     : value == map->MapEntryArray[i].Value;
    uint16_t in = size == 1 ? TDH_INTYPE_UINT8 : size == 2 ? TDH_INTYPE_UINT16 : TDH_INTYPE_UINT32;
    if (!found || TdhFormatProperty(w->s->info, (PEVENT_MAP_INFO) (uintptr_t) map, 8, in,
                                    TDH_OUTTYPE_NULL, 0, (USHORT) size, (PBYTE) (uintptr_t) p,
                                    &bytes, text, &used) != ERROR_SUCCESS)
        return false;
    emit_field_utf16(w->em, text, bytes - sizeof(WCHAR));
    return true;
}

static int referred(const struct walk *w, uint32_t index, uint32_t *ret)
{
    if (index >= w->s->info->PropertyCount || w->values[index] > UINT16_MAX)
        return -EBADMSG;
    *ret = (uint32_t) w->values[index];
    return 0;
}

static int emit_property(struct walk *w, ULONG index, unsigned depth);

static int emit_element(struct walk *w, ULONG index, unsigned depth)
{
    TRACE_EVENT_INFO *info = w->s->info;
    const EVENT_PROPERTY_INFO *p = &info->EventPropertyInfoArray[index];
    uint32_t length = p->length;
    USHORT used = 0;
    int r = 0;

    if (++w->steps > ETL_TL_TOKENS_MAX)
        return -EBADMSG;
    if (p->Flags & PropertyStruct) {
        if (depth == ETL_TL_DEPTH_MAX)
            return -EBADMSG;
        emit_begin(w->em, '{');
        for (ULONG m = 0; m < p->structType.NumOfStructMembers && r == 0; m++)
            r = emit_property(w, p->structType.StructStartIndex + m, depth + 1);
        emit_end(w->em, '}');
        return r;
    }
    if (p->Flags & PropertyParamLength)
        r = referred(w, p->lengthPropertyIndex, &length);
    if (r < 0)
        return r;
    PBYTE at = (PBYTE) (uintptr_t) w->data + w->pos;
    /* A text whose length is told may be empty; 0 would mean up to its NUL. */
    if (length > 0 || !(p->Flags & PropertyParamLength)) {
        /* The largest text: all data of an event in hex. */
        static WCHAR text[2 * UINT16_MAX + 16];
        ULONG bytes = sizeof(text);
        /* Only the one out-type that says how long the value is. */
        USHORT out =
            p->nonStructType.OutType == TDH_OUTTYPE_IPV6 ? TDH_OUTTYPE_IPV6 : TDH_OUTTYPE_NULL;
        if (TdhFormatProperty(info, NULL, w->pointer_size, p->nonStructType.InType, out,
                              (USHORT) length, (USHORT) (w->end - w->pos), at, &bytes, text,
                              &used) != ERROR_SUCCESS)
            return -EBADMSG;
    }
    w->pos += used;
    if (emit_mapped(w, w->s->maps[index], at, used))
        memcpy(&w->values[index], at, used);
    else
        emit_value(w, index, at, used);
    return 0;
}

static int emit_property(struct walk *w, ULONG index, unsigned depth)
{
    const EVENT_PROPERTY_INFO *p = &w->s->info->EventPropertyInfoArray[index];
    const char *name = w->s->names[index] ? w->s->names[index] : "";
    uint32_t count = p->count;
    int r = 0;

    if (p->Flags & PropertyParamCount)
        r = referred(w, p->countPropertyIndex, &count);
    if (r < 0)
        return r;
    bool array = (p->Flags & (PropertyParamCount | PropertyParamFixedCount)) || count > 1;
    if (!array && count == 0)
        return 0;
    /* Data that end at a field's border are of an older program. */
    if (w->pos == w->end && count > 0)
        return -ENODATA;
    emit_key(w->em, name, strlen(name));
    if (!array) {
        r = emit_element(w, index, depth);
        if (r < 0 && !(p->Flags & PropertyStruct))
            emit_field_null(w->em);
        return r;
    }
    emit_begin(w->em, '[');
    for (uint32_t i = 0; i < count && r == 0; i++) {
        emit_field_element(w->em);
        r = emit_element(w, index, depth);
        if (r < 0 && !(p->Flags & PropertyStruct))
            emit_field_null(w->em);
    }
    emit_end(w->em, ']');
    return r;
}

int emit_schema_fields(struct emitter *em, const struct schema *s, const EVENT_RECORD *r)
{
    const TRACE_EVENT_INFO *info = s->info;
    _cleanup_free_ uint64_t *values =
        calloc(info->PropertyCount ? info->PropertyCount : 1, sizeof(*values));
    struct walk w = {
        .em = em,
        .s = s,
        .data = r->UserData,
        .end = r->UserDataLength,
        .pointer_size = r->EventHeader.Flags & EVENT_HEADER_FLAG_32_BIT_HEADER ? 4 : 8,
        .values = values,
    };
    int e = values ? 0 : -ENOMEM;

    for (ULONG i = 0; i < info->TopLevelPropertyCount && e == 0; i++)
        e = emit_property(&w, i, 0);
    return e == -ENODATA ? 0 : e;
}
