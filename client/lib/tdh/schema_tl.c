/* SPDX-License-Identifier: Apache-2.0
 *
 * Schemas of self-describing events, from the metadata that they carry.
 *
 * The metadata name a struct and then its members; TRACE_EVENT_INFO wants those of one struct
 * together and all top-level properties first. Arrays of variable length and binary values begin
 * with a count that has no name of its own: it becomes the property NAME.Count or NAME.Length, as
 * Windows' consumers expect, so that who walks the data by properties meets every byte.
 */
#include "schema.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "etl/tracelogging.h"

/* The metadata of one event are below 64 KiB, a field takes three bytes. */
#define TL_FIELDS_MAX 21845u

struct raw {
    struct etl_tl_field f;
    uint32_t subtree; /* fields in it, itself included; 0: not known yet */
};

/* Members to be put together: of the struct `owner`, or the top level. */
struct group {
    uint32_t first, members;
    int32_t owner; /* its property, -1: top level */
};

static uint16_t hex_type(uint16_t in)
{
    switch (in) {
    case TDH_INTYPE_INT8:
    case TDH_INTYPE_UINT8:
        return TDH_OUTTYPE_HEXINT8;
    case TDH_INTYPE_INT16:
    case TDH_INTYPE_UINT16:
        return TDH_OUTTYPE_HEXINT16;
    case TDH_INTYPE_INT32:
    case TDH_INTYPE_UINT32:
    case TDH_INTYPE_HEXINT32:
        return TDH_OUTTYPE_HEXINT32;
    case TDH_INTYPE_INT64:
    case TDH_INTYPE_UINT64:
    case TDH_INTYPE_HEXINT64:
        return TDH_OUTTYPE_HEXINT64;
    default:
        return TDH_OUTTYPE_HEXBINARY;
    }
}

static uint16_t signed_type(uint16_t in, bool is_signed)
{
    switch (in) {
    case TDH_INTYPE_INT8:
    case TDH_INTYPE_UINT8:
        return is_signed ? TDH_OUTTYPE_BYTE : TDH_OUTTYPE_UNSIGNEDBYTE;
    case TDH_INTYPE_INT16:
    case TDH_INTYPE_UINT16:
        return is_signed ? TDH_OUTTYPE_SHORT : TDH_OUTTYPE_UNSIGNEDSHORT;
    case TDH_INTYPE_INT32:
    case TDH_INTYPE_UINT32:
        return is_signed ? TDH_OUTTYPE_INT : TDH_OUTTYPE_UNSIGNEDINT;
    case TDH_INTYPE_INT64:
    case TDH_INTYPE_UINT64:
        return is_signed ? TDH_OUTTYPE_LONG : TDH_OUTTYPE_UNSIGNEDLONG;
    default:
        return TDH_OUTTYPE_NULL;
    }
}

/* The two numberings of out-types differ up to 32. */
static uint16_t out_type(uint8_t out, uint16_t in)
{
    static const uint16_t types[] = {
        [ETL_TL_OUT_NOPRINT] = TDH_OUTTYPE_NOPRINT,
        [ETL_TL_OUT_STRING] = TDH_OUTTYPE_STRING,
        [ETL_TL_OUT_BOOLEAN] = TDH_OUTTYPE_BOOLEAN,
        [ETL_TL_OUT_PID] = TDH_OUTTYPE_PID,
        [ETL_TL_OUT_TID] = TDH_OUTTYPE_TID,
        [ETL_TL_OUT_PORT] = TDH_OUTTYPE_PORT,
        [ETL_TL_OUT_IPV4] = TDH_OUTTYPE_IPV4,
        [ETL_TL_OUT_IPV6] = TDH_OUTTYPE_IPV6,
        [ETL_TL_OUT_SOCKETADDRESS] = TDH_OUTTYPE_SOCKETADDRESS,
        [ETL_TL_OUT_XML] = TDH_OUTTYPE_XML,
        [ETL_TL_OUT_JSON] = TDH_OUTTYPE_JSON,
        [ETL_TL_OUT_WIN32ERROR] = TDH_OUTTYPE_WIN32ERROR,
        [ETL_TL_OUT_NTSTATUS] = TDH_OUTTYPE_NTSTATUS,
        [ETL_TL_OUT_HRESULT] = TDH_OUTTYPE_HRESULT,
        [ETL_TL_OUT_FILETIME] = TDH_OUTTYPE_DATETIME,
        [ETL_TL_OUT_DATETIME] = TDH_OUTTYPE_CULTURE_INSENSITIVE_DATETIME,
        [ETL_TL_OUT_UTF8] = TDH_OUTTYPE_UTF8,
        [ETL_TL_OUT_PKCS7] = TDH_OUTTYPE_PKCS7_WITH_TYPE_INFO,
        [ETL_TL_OUT_CODE_POINTER] = TDH_OUTTYPE_CODE_POINTER,
        [ETL_TL_OUT_DATETIME_UTC] = TDH_OUTTYPE_DATETIME_UTC,
    };

    if (out == ETL_TL_OUT_HEX)
        return hex_type(in);
    if (out == ETL_TL_OUT_SIGNED || out == ETL_TL_OUT_UNSIGNED)
        return signed_type(in, out == ETL_TL_OUT_SIGNED);
    return out < ARRAY_SIZE(types) ? types[out] : TDH_OUTTYPE_NULL;
}

/* A number that stands before what it counts. */
static int add_count(struct schema *s, const struct etl_tl_field *f, const char *suffix,
                     uint16_t *ret_index)
{
    uint32_t index = s->n;
    struct field *p = schema_add(s);

    if (!p)
        return -ENOMEM;
    p->name = (struct text){f->name, f->name_len};
    p->suffix = suffix;
    p->in = TDH_INTYPE_UINT16;
    *ret_index = (uint16_t) index;
    return 0;
}

static void set_type(struct field *p, const struct etl_tl_field *f)
{
    p->in = f->in_type;
    p->out = out_type(f->out_type, f->in_type);
    /* Characters are numbers with the out-type of texts. */
    if (p->out == TDH_OUTTYPE_STRING && f->in_type == ETL_TL_UINT16)
        p->in = TDH_INTYPE_UNICODECHAR;
    else if (p->out == TDH_OUTTYPE_STRING &&
             (f->in_type == ETL_TL_UINT8 || f->in_type == ETL_TL_INT8))
        p->in = TDH_INTYPE_ANSICHAR;
    if (p->in == TDH_INTYPE_UNICODECHAR || p->in == TDH_INTYPE_ANSICHAR)
        p->out = TDH_OUTTYPE_NULL;
}

static int add_member(struct schema *s, const struct etl_tl_field *f)
{
    uint16_t count = f->array == ETL_TL_ARRAY_FIXED ? f->count : 1, length = 0;
    uint16_t flags = f->array == ETL_TL_ARRAY_FIXED ? PropertyParamFixedCount : 0;
    struct field *p;
    int r;

    if (f->array == ETL_TL_ARRAY_CUSTOM)
        return -EBADMSG; /* nobody can tell how long its value is */
    if (f->array == ETL_TL_ARRAY_VARIABLE) {
        r = add_count(s, f, ".Count", &count);
        if (r < 0)
            return r;
        flags = PropertyParamCount;
    }
    /* In an array each element has its own length, for which there is no property. */
    bool lone_binary = f->in_type == ETL_TL_BINARY && f->array == 0;
    if (lone_binary) {
        r = add_count(s, f, ".Length", &length);
        if (r < 0)
            return r;
        flags |= PropertyParamLength;
    }
    p = schema_add(s);
    if (!p)
        return -ENOMEM;
    p->name = (struct text){f->name, f->name_len};
    p->flags = flags;
    p->count = count;
    p->length = length;
    if (f->tag) {
        p->flags |= PropertyHasTags;
        p->tags = f->tag;
    }
    if (f->in_type == ETL_TL_STRUCT)
        p->flags |= PropertyStruct;
    else
        set_type(p, f);
    if (f->in_type == ETL_TL_BINARY && !lone_binary)
        p->in = TDH_INTYPE_MANIFEST_COUNTEDBINARY;
    return 0;
}

static int read_all(struct etl_tl *tl, struct raw **ret, uint32_t *ret_n)
{
    _cleanup_free_ struct raw *fields = NULL;
    uint32_t n = 0, cap = 0;
    struct etl_tl_field f;
    int r;

    while ((r = etl_tl_next_field(tl, &f)) > 0) {
        if (n == TL_FIELDS_MAX)
            return -EBADMSG;
        if (n == cap) {
            cap = cap ? cap * 2 : 32;
            struct raw *more = realloc(fields, cap * sizeof(*more));
            if (!more)
                return -ENOMEM;
            fields = more;
        }
        fields[n++] = (struct raw){.f = f};
    }
    if (r < 0)
        return r;
    /* From the last on, the members of a struct are known before it. */
    for (uint32_t i = n; i-- > 0;) {
        fields[i].subtree = 1;
        if (fields[i].f.in_type != ETL_TL_STRUCT)
            continue;
        for (uint32_t m = 0; m < fields[i].f.out_type; m++) {
            if (i + fields[i].subtree >= n)
                return -EBADMSG;
            fields[i].subtree += fields[i + fields[i].subtree].subtree;
        }
    }
    *ret = fields;
    fields = NULL;
    *ret_n = n;
    return 0;
}

static int arrange(struct schema *s, const struct raw *fields, uint32_t n)
{
    /* Each struct is a group, and so is the top level. */
    _cleanup_free_ struct group *groups = malloc((n + 1u) * sizeof(*groups));
    uint32_t n_groups = 0, top = 0;
    int r;

    if (!groups)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i += fields[i].subtree)
        top++;
    groups[n_groups++] = (struct group){.members = top, .owner = -1};
    for (uint32_t g = 0; g < n_groups; g++) {
        uint32_t begin = s->n, at = groups[g].first;
        for (uint32_t m = 0; m < groups[g].members; m++) {
            r = add_member(s, &fields[at].f);
            if (r < 0)
                return r;
            if (fields[at].f.in_type == ETL_TL_STRUCT)
                groups[n_groups++] = (struct group){
                    .first = at + 1, .members = fields[at].f.out_type, .owner = (int32_t) s->n - 1};
            at += fields[at].subtree;
        }
        if (groups[g].owner < 0) {
            s->n_top = s->n;
        } else {
            s->fields[groups[g].owner].first = (uint16_t) begin;
            s->fields[groups[g].owner].members = (uint16_t) (s->n - begin);
        }
    }
    return 0;
}

int schema_from_tl(struct schema *s, const EVENT_RECORD *r)
{
    _cleanup_free_ struct raw *fields = NULL;
    uint16_t size, traits_size = 0;
    struct etl_tl tl;
    const char *name;
    uint32_t n, length;
    int e;

    const void *metadata = record_item(r, EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL, &size);
    if (!metadata)
        return -ENOENT;
    e = etl_tl_init(&tl, metadata, size, r->UserData, r->UserDataLength, 8);
    if (e < 0)
        return e;
    memcpy(&s->provider, &r->EventHeader.ProviderId, sizeof(s->provider));
    s->source = DecodingSourceTlg;
    s->event_name = (struct text){tl.event_name, tl.event_name_len};
    s->task = s->event_name; /* where older programs look for it */
    s->tags = tl.tag;
    const void *traits = record_item(r, EVENT_HEADER_EXT_TYPE_PROV_TRAITS, &traits_size);
    if (traits && etl_tl_provider_name(traits, traits_size, &name, &length) == 0)
        s->provider_name = (struct text){name, length};
    e = read_all(&tl, &fields, &n);
    if (e < 0)
        return e;
    return arrange(s, fields, n);
}
