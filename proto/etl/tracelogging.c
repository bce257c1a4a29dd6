/* SPDX-License-Identifier: Apache-2.0
 *
 * Reader of self-describing events; see tracelogging.h. Any thread.
 */
#include "tracelogging.h"

#include <errno.h>
#include <string.h>

#define IN_CHAIN 0x80u
#define IN_ARRAY 0x60u
#define IN_TYPE 0x1Fu

static uint16_t get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

/* Chained tag bytes at *pos: high bit means another follows, 28 bits are kept. */
static int read_tag(const uint8_t *meta, uint32_t end, uint32_t *pos, uint32_t *ret)
{
    uint32_t tag = 0;

    for (int n = 0;; n++) {
        if (*pos >= end)
            return -EBADMSG;
        uint8_t b = meta[(*pos)++];
        if (n < 4)
            tag |= (uint32_t) (b & 0x7F) << (21 - 7 * n);
        if (!(b & 0x80))
            break;
    }
    *ret = tag;
    return 0;
}

static int read_name(const uint8_t *meta, uint32_t end, uint32_t *pos, const char **ret,
                     uint32_t *ret_len)
{
    const uint8_t *nul = *pos < end ? memchr(meta + *pos, 0, end - *pos) : NULL;

    if (!nul)
        return -EBADMSG;
    *ret = (const char *) meta + *pos;
    *ret_len = (uint32_t) (nul - (meta + *pos));
    *pos += *ret_len + 1;
    return 0;
}

int etl_tl_provider_name(const void *traits, size_t size, const char **ret_name,
                         uint32_t *ret_name_len)
{
    uint32_t pos = 2;

    if (size < 3)
        return -EBADMSG;
    size_t total = get16(traits);
    if (total > size || total < 3)
        return -EBADMSG;
    return read_name(traits, (uint32_t) total, &pos, ret_name, ret_name_len);
}

int etl_tl_init(struct etl_tl *tl, const void *metadata, size_t metadata_size, const void *data,
                size_t data_size, uint8_t pointer_size)
{
    const char *name;
    uint32_t name_len, tag, pos = 2;
    int r;

    if (metadata_size < 4 || data_size > UINT32_MAX)
        return -EBADMSG;
    size_t total = get16(metadata);
    if (total > metadata_size)
        return -EBADMSG;
    r = read_tag(metadata, (uint32_t) total, &pos, &tag);
    if (r < 0)
        return r;
    r = read_name(metadata, (uint32_t) total, &pos, &name, &name_len);
    if (r < 0)
        return r;

    *tl = (struct etl_tl){
        .event_name = name,
        .event_name_len = name_len,
        .tag = tag,
        .meta = metadata,
        .meta_pos = pos,
        .meta_end = (uint32_t) total,
        .data = data,
        .data_end = (uint32_t) data_size,
        .pointer_size = pointer_size == 4 ? 4 : 8,
    };
    return 0;
}

static int read_field(struct etl_tl *tl, struct etl_tl_field *ret)
{
    struct etl_tl_field f = {0};
    uint32_t pos = tl->meta_pos;
    int r;

    r = read_name(tl->meta, tl->meta_end, &pos, &f.name, &f.name_len);
    if (r < 0)
        return r;
    if (pos >= tl->meta_end)
        return -EBADMSG;
    uint8_t in = tl->meta[pos++];
    f.in_type = in & IN_TYPE;
    f.array = in & IN_ARRAY;
    if (in & IN_CHAIN) {
        if (pos >= tl->meta_end)
            return -EBADMSG;
        uint8_t out = tl->meta[pos++];
        f.out_type = out & 0x7F;
        if (out & 0x80) {
            r = read_tag(tl->meta, tl->meta_end, &pos, &f.tag);
            if (r < 0)
                return r;
        }
    }
    if (f.array == ETL_TL_ARRAY_FIXED || f.array == ETL_TL_ARRAY_CUSTOM) {
        if (tl->meta_end - pos < 2)
            return -EBADMSG;
        f.count = get16(tl->meta + pos);
        pos += 2;
        if (f.array == ETL_TL_ARRAY_CUSTOM) {
            /* type information of a format we do not know: the count is its length */
            if (tl->meta_end - pos < f.count)
                return -EBADMSG;
            pos += f.count;
        }
    }
    tl->meta_pos = pos;
    *ret = f;
    return 0;
}

int etl_tl_next_field(struct etl_tl *tl, struct etl_tl_field *ret)
{
    int r;

    if (tl->meta_pos >= tl->meta_end)
        return 0;
    r = read_field(tl, ret);
    return r < 0 ? r : 1;
}

/* Passes over `members` fields and what is in them: an array of structs that has no element. */
static int skip_members(struct etl_tl *tl, uint32_t members)
{
    struct etl_tl_field f;
    int r;

    for (; members > 0; members--) {
        r = read_field(tl, &f);
        if (r < 0)
            return r;
        if (f.in_type == ETL_TL_STRUCT)
            members += f.out_type;
    }
    return 0;
}

static int take(struct etl_tl *tl, uint32_t n, struct etl_tl_value *v)
{
    if (tl->data_end - tl->data_pos < n)
        return -EBADMSG;
    v->data = tl->data + tl->data_pos;
    v->size = n;
    tl->data_pos += n;
    return 0;
}

static int take16(struct etl_tl *tl, uint16_t *ret)
{
    if (tl->data_end - tl->data_pos < 2)
        return -EBADMSG;
    *ret = get16(tl->data + tl->data_pos);
    tl->data_pos += 2;
    return 0;
}

static int take_counted(struct etl_tl *tl, struct etl_tl_value *v)
{
    uint16_t n;
    int r;

    r = take16(tl, &n);
    if (r < 0)
        return r;
    return take(tl, n, v);
}

/* Bytes of an in-type of fixed size; 0 for the others. */
static uint32_t fixed_size(const struct etl_tl *tl, uint8_t in_type)
{
    switch (in_type) {
    case ETL_TL_INT8:
    case ETL_TL_UINT8:
        return 1;
    case ETL_TL_INT16:
    case ETL_TL_UINT16:
        return 2;
    case ETL_TL_INT32:
    case ETL_TL_UINT32:
    case ETL_TL_HEXINT32:
    case ETL_TL_FLOAT:
    case ETL_TL_BOOL32:
        return 4;
    case ETL_TL_INT64:
    case ETL_TL_UINT64:
    case ETL_TL_HEXINT64:
    case ETL_TL_DOUBLE:
    case ETL_TL_FILETIME:
        return 8;
    case ETL_TL_GUID:
    case ETL_TL_SYSTEMTIME:
        return 16;
    case ETL_TL_POINTER:
        return tl->pointer_size;
    default:
        return 0;
    }
}

static enum etl_tl_kind fixed_kind(uint8_t in_type, uint8_t out_type)
{
    switch (in_type) {
    case ETL_TL_FLOAT:
    case ETL_TL_DOUBLE:
        return ETL_TL_IS_FLOAT;
    case ETL_TL_BOOL32:
        return ETL_TL_IS_BOOLEAN;
    case ETL_TL_GUID:
        return ETL_TL_IS_GUID;
    case ETL_TL_SYSTEMTIME:
        return ETL_TL_IS_SYSTEMTIME;
    case ETL_TL_FILETIME:
        return ETL_TL_IS_FILETIME;
    case ETL_TL_INT8:
    case ETL_TL_UINT8:
        if (out_type == ETL_TL_OUT_STRING || out_type == ETL_TL_OUT_UTF8)
            return ETL_TL_IS_UTF8;
        break;
    case ETL_TL_INT16:
    case ETL_TL_UINT16:
        if (out_type == ETL_TL_OUT_STRING)
            return ETL_TL_IS_UTF16;
        break;
    default:
        break;
    }
    if (out_type == ETL_TL_OUT_BOOLEAN)
        return ETL_TL_IS_BOOLEAN;
    if (out_type == ETL_TL_OUT_FILETIME)
        return ETL_TL_IS_FILETIME;
    return ETL_TL_IS_INTEGER;
}

static void set_integer(struct etl_tl_value *v)
{
    uint64_t u = 0;

    memcpy(&u, v->data, v->size); /* little-endian, as the file */
    v->is_signed = (v->in_type == ETL_TL_INT8 || v->in_type == ETL_TL_INT16 ||
                    v->in_type == ETL_TL_INT32 || v->in_type == ETL_TL_INT64);
    if (v->is_signed && v->size < 8 && u >> (v->size * 8 - 1))
        u |= UINT64_MAX << (v->size * 8);
    v->integer = u;
}

static int read_value(struct etl_tl *tl, const struct etl_tl_field *f, struct etl_tl_value *v)
{
    const uint8_t *p = tl->data + tl->data_pos;
    uint32_t left = tl->data_end - tl->data_pos, n;
    int r;

    v->in_type = f->in_type;
    v->out_type = f->out_type;

    n = fixed_size(tl, f->in_type);
    if (n > 0) {
        r = take(tl, n, v);
        if (r < 0)
            return r;
        v->kind = fixed_kind(f->in_type, f->out_type);
        if (n <= 8)
            set_integer(v);
        return 0;
    }

    switch (f->in_type) {
    case ETL_TL_NULL:
        v->kind = ETL_TL_IS_NULL;
        v->data = p;
        return 0;
    case ETL_TL_UNICODESTRING:
        v->kind = ETL_TL_IS_UTF16;
        for (n = 0; n + 1 < left; n += 2)
            if (p[n] == 0 && p[n + 1] == 0)
                break;
        v->data = p;
        v->size = n;
        /* a string whose end is missing ends with the data */
        tl->data_pos += n + 1 < left ? n + 2 : left;
        return 0;
    case ETL_TL_ANSISTRING:
        v->kind = ETL_TL_IS_UTF8;
        n = (uint32_t) strnlen((const char *) p, left);
        v->data = p;
        v->size = n;
        tl->data_pos += n < left ? n + 1 : n;
        return 0;
    case ETL_TL_COUNTEDSTRING:
        v->kind = ETL_TL_IS_UTF16;
        return take_counted(tl, v);
    case ETL_TL_COUNTEDANSISTRING:
        v->kind = ETL_TL_IS_UTF8;
        return take_counted(tl, v);
    case ETL_TL_BINARY:
    case ETL_TL_COUNTEDBINARY:
        v->kind = ETL_TL_IS_BINARY;
        return take_counted(tl, v);
    case ETL_TL_SID: {
        size_t sid = etl_sid_size(p, left);
        if (sid == 0)
            return -EBADMSG;
        v->kind = ETL_TL_IS_SID;
        return take(tl, (uint32_t) sid, v);
    }
    default:
        return -EBADMSG; /* a type that nobody defined: its length is unknown */
    }
}

/* An array that is text by its out-type is one value. */
static bool is_text_array(const struct etl_tl_field *f)
{
    switch (f->in_type) {
    case ETL_TL_INT8:
    case ETL_TL_UINT8:
        return f->out_type == ETL_TL_OUT_STRING || f->out_type == ETL_TL_OUT_UTF8;
    case ETL_TL_INT16:
    case ETL_TL_UINT16:
        return f->out_type == ETL_TL_OUT_STRING;
    default:
        return false;
    }
}

static int begin_field(struct etl_tl *tl, struct etl_tl_value *v)
{
    struct etl_tl_field f;
    uint16_t count;
    int r;

    r = read_field(tl, &f);
    if (r < 0)
        return r;
    v->name = f.name;
    v->name_len = f.name_len;
    v->in_type = f.in_type;
    v->out_type = f.out_type;

    if (f.array == ETL_TL_ARRAY_CUSTOM) {
        v->kind = ETL_TL_IS_BINARY;
        r = take_counted(tl, v);
        return r < 0 ? r : ETL_TL_VALUE;
    }
    count = f.count;
    if (f.array == ETL_TL_ARRAY_VARIABLE) {
        r = take16(tl, &count);
        if (r < 0)
            return r;
    }

    if (f.in_type == ETL_TL_STRUCT) {
        if (tl->depth == ETL_TL_DEPTH_MAX)
            return -EBADMSG;
        struct etl_tl_frame *frame = &tl->frames[tl->depth];
        *frame = (struct etl_tl_frame){
            .members_at = tl->meta_pos,
            .elements = f.array ? count : 1,
            .members = f.out_type,
            .array = f.array != 0,
            .name = f.name,
            .name_len = f.name_len,
        };
        if (frame->elements == 0) {
            r = skip_members(tl, frame->members);
            if (r < 0)
                return r;
        }
        tl->depth++;
        v->count = count;
        return f.array ? ETL_TL_ARRAY_BEGIN : -EAGAIN;
    }

    if (!f.array) {
        r = read_value(tl, &f, v);
        return r < 0 ? r : ETL_TL_VALUE;
    }
    if (is_text_array(&f)) {
        r = take(tl, fixed_size(tl, f.in_type) * count, v);
        if (r < 0)
            return r;
        v->kind = fixed_kind(f.in_type, f.out_type);
        return ETL_TL_VALUE;
    }
    tl->element = f;
    tl->elements = count;
    tl->in_array = true;
    v->count = count;
    return ETL_TL_ARRAY_BEGIN;
}

/* One step; -EAGAIN: nothing to tell yet, step again. */
static int step(struct etl_tl *tl, struct etl_tl_value *v)
{
    struct etl_tl_frame *f = tl->depth > 0 ? &tl->frames[tl->depth - 1] : NULL;
    int r;

    if (tl->in_array) {
        if (tl->elements == 0) {
            tl->in_array = false;
            return ETL_TL_ARRAY_END;
        }
        tl->elements--;
        r = read_value(tl, &tl->element, v);
        return r < 0 ? r : ETL_TL_VALUE;
    }
    if (f && !f->open) {
        if (f->elements == 0) {
            tl->depth--;
            return f->array ? ETL_TL_ARRAY_END : -EAGAIN;
        }
        f->elements--;
        f->open = true;
        f->left = f->members;
        tl->meta_pos = f->members_at;
        if (!f->array) {
            v->name = f->name;
            v->name_len = f->name_len;
        }
        v->in_type = ETL_TL_STRUCT;
        return ETL_TL_STRUCT_BEGIN;
    }
    if (f && f->left == 0) {
        f->open = false;
        return ETL_TL_STRUCT_END;
    }
    if (tl->meta_pos == tl->meta_end)
        return f ? -EBADMSG : ETL_TL_END;
    if (f)
        f->left--;
    return begin_field(tl, v);
}

int etl_tl_next(struct etl_tl *tl, struct etl_tl_value *ret)
{
    int r;

    do {
        if (++tl->tokens > ETL_TL_TOKENS_MAX)
            return -EBADMSG;
        *ret = (struct etl_tl_value){0};
        r = step(tl, ret);
    } while (r == -EAGAIN);
    return r;
}

int etl_tl_unwind(struct etl_tl *tl)
{
    if (tl->in_array) {
        tl->in_array = false;
        return ETL_TL_ARRAY_END;
    }
    while (tl->depth > 0) {
        struct etl_tl_frame *f = &tl->frames[tl->depth - 1];
        if (f->open) {
            f->open = false;
            return ETL_TL_STRUCT_END;
        }
        tl->depth--;
        if (f->array)
            return ETL_TL_ARRAY_END;
    }
    return 0;
}
