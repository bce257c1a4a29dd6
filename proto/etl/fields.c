/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks an event's user data by the fields of its layout. Packed, no alignment; each field is
 * checked against what is left. No allocation, any thread.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "iterate.h"

void etl_fields_init(struct etl_fields *f, const struct etl_class_row *row,
                     const struct etl_event *e)
{
    *f = (struct etl_fields){
        .next = row->fields,
        .data = e->data,
        .size = e->data_size,
        .pointer_size = e->pointer_size,
    };
}

/* Bytes of a value of fixed size; 0 for those whose size stands in the data. */
static uint32_t type_size(enum etl_field_type type, uint8_t pointer_size)
{
    switch (type) {
    case ETL_T_u8:
    case ETL_T_i8:
        return 1;
    case ETL_T_u16:
    case ETL_T_i16:
    case ETL_T_wch:
    case ETL_T_port:
        return 2;
    case ETL_T_u32:
    case ETL_T_i32:
    case ETL_T_ip4:
        return 4;
    case ETL_T_u64:
    case ETL_T_i64:
    case ETL_T_hex64:
    case ETL_T_ft:
    case ETL_T_stamp:
    case ETL_T_ticks:
        return 8;
    case ETL_T_ptr:
    case ETL_T_size:
        return pointer_size == 4 ? 4 : 8;
    case ETL_T_guid:
    case ETL_T_ip6:
        return 16;
    case ETL_T_sid:
    case ETL_T_asz:
    case ETL_T_wsz:
    case ETL_T_bin:
        return 0;
    }
    return 0;
}

void etl_times_convert(const struct etl_class_row *row, void *payload, uint32_t size,
                       const struct etw_clock_line *line)
{
    uint8_t *p = payload;
    uint32_t at = 0;

    for (const struct etl_field *f = row->fields; f->name; f++) {
        uint32_t bytes = type_size(f->type, 8) * (f->count ? f->count : 1);
        uint64_t value;
        if (bytes == 0 || bytes > size - at) /* the fixed part ends here */
            return;
        if (f->type == ETL_T_stamp || f->type == ETL_T_ticks) {
            memcpy(&value, p + at, sizeof(value));
            value = f->type == ETL_T_stamp ? etw_clock_line_raw(line, value)
                                           : etw_clock_line_ticks(line, value);
            memcpy(p + at, &value, sizeof(value));
        }
        at += bytes;
    }
}

static bool type_is_signed(enum etl_field_type type)
{
    return type == ETL_T_i8 || type == ETL_T_i16 || type == ETL_T_i32 || type == ETL_T_i64;
}

#define LOAD(type, p)                                                                              \
    ({                                                                                             \
        type _v;                                                                                   \
        memcpy(&_v, (p), sizeof(_v));                                                              \
        _v;                                                                                        \
    })

static uint64_t load_integer(const uint8_t *p, uint32_t size, bool is_signed)
{
    switch (size) {
    case 1:
        return is_signed ? (uint64_t) LOAD(int8_t, p) : LOAD(uint8_t, p);
    case 2:
        return is_signed ? (uint64_t) LOAD(int16_t, p) : LOAD(uint16_t, p);
    case 4:
        return is_signed ? (uint64_t) LOAD(int32_t, p) : LOAD(uint32_t, p);
    default:
        return LOAD(uint64_t, p);
    }
}

/* UTF-16 units in n bytes up to a NUL; *ret_nul says whether one was there. */
static uint32_t wide_units(const uint8_t *p, uint32_t n, bool *ret_nul)
{
    uint32_t units = 0;

    for (; 2 * units + 1 < n; units++)
        if (p[2 * units] == 0 && p[2 * units + 1] == 0) {
            *ret_nul = true;
            return units;
        }
    *ret_nul = false;
    return units;
}

/* Sets v's data and returns the bytes that the field takes of the n > 0 at p, or -EBADMSG. */
static int variable_field(const struct etl_fields *f, const uint8_t *p, uint32_t n,
                          struct etl_value *v)
{
    const uint8_t *nul;
    bool ended;
    uint16_t count;

    v->data = p;
    switch (v->field->type) {
    case ETL_T_asz:
        nul = memchr(p, 0, n);
        v->size = nul ? (uint32_t) (nul - p) : n;
        return (int) (nul ? v->size + 1 : n);
    case ETL_T_wsz:
        v->size = 2 * wide_units(p, n, &ended);
        /* Without a NUL the text ends with the data. */
        return (int) (ended ? v->size + 2 : n);
    case ETL_T_sid:
        return etl_token_user(p, n, f->pointer_size, &v->data, &v->size);
    case ETL_T_bin:
        if (n < sizeof(count))
            return -EBADMSG;
        memcpy(&count, p, sizeof(count));
        if (count > n - sizeof(count))
            return -EBADMSG;
        v->data = p + sizeof(count);
        v->size = count;
        return (int) (sizeof(count) + count);
    default:
        return -EBADMSG;
    }
}

int etl_fields_next(struct etl_fields *f, struct etl_value *ret)
{
    const struct etl_field *field = f->next;
    struct etl_value v = {.field = field};
    uint32_t left = f->size - f->pos, unit, size;
    const uint8_t *p = f->data + f->pos;
    bool ended;
    int r;

    /* Older versions of a layout end earlier, at a field's border. */
    if (!field->name || left == 0)
        return 0;
    unit = type_size(field->type, f->pointer_size);
    if (unit == 0) {
        r = variable_field(f, p, left, &v);
        if (r < 0)
            goto broken;
        size = (uint32_t) r;
    } else {
        size = field->count == ETL_COUNT_REST ? left / unit * unit
               : field->count                 ? unit * field->count
                                              : unit;
        if (size > left) {
            r = -EBADMSG;
            goto broken;
        }
        v.data = p;
        v.size = size;
        if (field->type == ETL_T_wch && field->count) {
            v.size = 2 * wide_units(p, size, &ended);
        } else if (!field->count && unit <= 8) {
            v.is_integer = true;
            v.is_signed = type_is_signed(field->type);
            v.integer = load_integer(p, size, v.is_signed);
            if (field->type == ETL_T_port)
                v.integer = be16toh((uint16_t) v.integer);
        }
    }
    f->pos += size;
    f->next++;
    *ret = v;
    return 1;

broken:
    /* Nothing after a broken field can be placed. */
    f->pos = f->size;
    return r;
}
