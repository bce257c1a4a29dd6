/* SPDX-License-Identifier: Apache-2.0
 *
 * Schemas of classic events from classes.def and windows.def: the kernel's and heap's classes in
 * all versions that stand there. As on Windows their provider is the system's trace provider, the
 * class is their task, the event's name their opcode.
 */
#include "schema.h"

#include <errno.h>
#include <string.h>

#include "etl/iterate.h"

static uint16_t in_type(const struct etl_field *f)
{
    switch (f->type) {
    case ETL_T_u8:
        return TDH_INTYPE_UINT8;
    case ETL_T_i8:
        return TDH_INTYPE_INT8;
    case ETL_T_u16:
        return TDH_INTYPE_UINT16;
    case ETL_T_i16:
        return TDH_INTYPE_INT16;
    case ETL_T_u32:
        return TDH_INTYPE_UINT32;
    case ETL_T_i32:
        return TDH_INTYPE_INT32;
    case ETL_T_u64:
    case ETL_T_stamp:
    case ETL_T_ticks:
        return TDH_INTYPE_UINT64;
    case ETL_T_i64:
        return TDH_INTYPE_INT64;
    case ETL_T_hex64:
        return TDH_INTYPE_HEXINT64;
    case ETL_T_ptr:
        return TDH_INTYPE_POINTER;
    case ETL_T_ft:
        return TDH_INTYPE_FILETIME;
    case ETL_T_wch:
        return f->count ? TDH_INTYPE_UNICODESTRING : TDH_INTYPE_UNICODECHAR;
    case ETL_T_guid:
        return TDH_INTYPE_GUID;
    case ETL_T_sid:
        return TDH_INTYPE_WBEMSID;
    case ETL_T_asz:
        return TDH_INTYPE_ANSISTRING;
    case ETL_T_wsz:
        return TDH_INTYPE_UNICODESTRING;
    case ETL_T_bin:
        return TDH_INTYPE_MANIFEST_COUNTEDBINARY;
    case ETL_T_size:
        return TDH_INTYPE_SIZET;
    case ETL_T_ip4:
        return TDH_INTYPE_UINT32;
    case ETL_T_ip6:
        return TDH_INTYPE_BINARY;
    case ETL_T_port:
        return TDH_INTYPE_UINT16;
    }
    return TDH_INTYPE_NULL;
}

static uint16_t out_type(const struct etl_field *f)
{
    switch (f->type) {
    case ETL_T_ip4:
        return TDH_OUTTYPE_IPV4;
    case ETL_T_ip6:
        return TDH_OUTTYPE_IPV6;
    case ETL_T_port:
        return TDH_OUTTYPE_PORT;
    default:
        return TDH_OUTTYPE_NULL;
    }
}

/* How many elements of the last field this event's data have. */
static uint16_t rest_count(const struct etl_class_row *row, const EVENT_RECORD *r)
{
    struct etl_event e = {
        .data = r->UserData,
        .data_size = r->UserDataLength,
        .pointer_size = r->EventHeader.Flags & EVENT_HEADER_FLAG_32_BIT_HEADER ? 4 : 8,
    };
    struct etl_fields f;
    struct etl_value v;

    etl_fields_init(&f, row, &e);
    while (etl_fields_next(&f, &v) > 0)
        if (v.field->count == ETL_COUNT_REST)
            return (uint16_t) (v.size / e.pointer_size);
    return 0;
}

int schema_from_class(struct schema *s, const EVENT_RECORD *r)
{
    const EVENT_HEADER *h = &r->EventHeader;
    struct etw_guid guid;

    if (!(h->Flags & EVENT_HEADER_FLAG_CLASSIC_HEADER) ||
        (h->Flags & EVENT_HEADER_FLAG_TRACE_MESSAGE))
        return -ENOENT;
    memcpy(&guid, &h->ProviderId, sizeof(guid));
    const struct etl_class_row *row =
        etl_find_any_row(&guid, h->EventDescriptor.Opcode, h->EventDescriptor.Version);
    if (!row)
        return -ENOENT;

    memcpy(&s->provider, &SystemTraceControlGuid, sizeof(s->provider));
    s->event = guid;
    s->source = DecodingSourceWbem;
    s->provider_name = text_of("MSNT_SystemTrace");
    s->task = text_of(row->class_name);
    s->opcode = text_of(row->event_name);
    for (const struct etl_field *f = row->fields; f->name; f++) {
        struct field *p = schema_add(s);
        if (!p)
            return -ENOMEM;
        p->name = text_of(f->name);
        p->in = in_type(f);
        p->out = out_type(f);
        if (f->type == ETL_T_ip6) {
            p->flags = PropertyParamFixedLength;
            p->length = 16;
        }
        if (f->count && f->type == ETL_T_wch) {
            p->flags = PropertyParamFixedLength;
            p->length = f->count;
        } else if (f->count == ETL_COUNT_REST) {
            p->flags = PropertyParamFixedCount;
            p->count = rest_count(row, r);
        } else if (f->count) {
            p->flags = PropertyParamFixedCount;
            p->count = f->count;
        }
    }
    s->n_top = s->n;
    return 0;
}
