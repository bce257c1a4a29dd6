/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the data of an event, field by field: classes by their row of classes.def, self-describing
 * events by their own metadata. Numbers beyond 2^53 are strings in JSON; addresses and object ids
 * are "0x..."; words for numbers are for people only. One thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "decode.h"
#include "etl/classes.h"

/* What JSON numbers hold exactly everywhere. */
#define JSON_NUMBER_MAX (1ull << 53)
/* Bytes of a fixed array shown to people. */
#define TEXT_BYTES_MAX 16u

void emit_key(struct emitter *em, const char *name, size_t len)
{
    if (em->separate)
        out_char(em->o, em->json ? ',' : ' ');
    if (em->json) {
        out_json_string(em->o, name, len);
        out_char(em->o, ':');
    } else {
        out_escaped(em->o, name, len, 0);
        out_char(em->o, '=');
    }
    em->separate = true;
}

/* Before an element of an array, which has no key. */
void emit_field_element(struct emitter *em)
{
    if (em->separate)
        out_char(em->o, ',');
    em->separate = true;
}

void emit_begin(struct emitter *em, char bracket)
{
    out_char(em->o, bracket);
    em->separate = false;
}

void emit_end(struct emitter *em, char bracket)
{
    out_char(em->o, bracket);
    em->separate = true;
}

static void emit_unsigned(struct emitter *em, uint64_t v)
{
    bool quote = em->json && v > JSON_NUMBER_MAX;

    if (quote)
        out_char(em->o, '"');
    out_u64(em->o, v);
    if (quote)
        out_char(em->o, '"');
}

static void emit_signed(struct emitter *em, int64_t v)
{
    if (v >= 0) {
        emit_unsigned(em, (uint64_t) v);
        return;
    }
    bool quote = em->json && v < -(int64_t) JSON_NUMBER_MAX;
    if (quote)
        out_char(em->o, '"');
    out_i64(em->o, v);
    if (quote)
        out_char(em->o, '"');
}

static void emit_hex(struct emitter *em, uint64_t v)
{
    out_str(em->o, em->json ? "\"0x" : "0x");
    out_hex(em->o, v);
    if (em->json)
        out_char(em->o, '"');
}

static void emit_hex_bytes(struct emitter *em, const void *data, size_t size)
{
    if (em->json)
        out_char(em->o, '"');
    out_hex_bytes(em->o, data, size);
    if (em->json)
        out_char(em->o, '"');
}

static void emit_utf8(struct emitter *em, const void *data, size_t size)
{
    if (em->json) {
        out_json_string(em->o, data, size);
        return;
    }
    out_char(em->o, '"');
    out_escaped(em->o, data, size, '"');
    out_char(em->o, '"');
}

void emit_field_utf16(struct emitter *em, const void *data, size_t size)
{
    if (em->json) {
        out_json_utf16(em->o, data, size);
        return;
    }
    out_char(em->o, '"');
    out_escaped_utf16(em->o, data, size, '"');
    out_char(em->o, '"');
}

static void emit_guid(struct emitter *em, const void *data)
{
    struct etw_guid g;

    memcpy(&g, data, sizeof(g));
    if (em->json)
        out_char(em->o, '"');
    out_guid(em->o, &g);
    if (em->json)
        out_char(em->o, '"');
}

void emit_field_null(struct emitter *em)
{
    out_str(em->o, em->json ? "null" : "-");
}

static void emit_filetime(struct emitter *em, uint64_t filetime)
{
    char buf[ETW_RFC3339_MAX];

    if (filetime == 0) {
        emit_field_null(em);
        return;
    }
    out_printf(em->o, em->json ? "\"%s\"" : "%s", etw_rfc3339_filetime(filetime, buf));
}

static void emit_sid(struct emitter *em, const void *data, size_t size)
{
    char buf[ETL_SID_STRING_MAX];

    if (size == 0 || etl_sid_size(data, size) == 0) {
        emit_field_null(em);
        return;
    }
    out_printf(em->o, em->json ? "\"%s\"" : "%s", etl_sid_format(data, size, buf));
}

/* How a row's field is shown to people; JSON takes types alone. */
enum hint { HINT_UNSET, HINT_NONE, HINT_HEX, HINT_WAIT_REASON, HINT_STATE, HINT_ADJUST };
#define FIELDS_MAX 64

static enum hint find_hint(const struct etl_class_row *row, const char *name)
{
    if (!strncmp(name, "GroupMask", 9) || !strcmp(name, "LogFileMode") ||
        !strcmp(name, "KernelEventVersion") || !strcmp(name, "ImageChecksum"))
        return HINT_HEX;
    if (!strcmp(name, "OldThreadWaitReason"))
        return HINT_WAIT_REASON;
    if (!strcmp(name, "OldThreadState"))
        return HINT_STATE;
    if (!strcmp(name, "AdjustReason"))
        return HINT_ADJUST;
    return HINT_NONE;
}

static enum hint hint_of(const struct etl_class_row *row, const struct etl_field *field)
{
    static uint8_t hints[ETL_ROW_COUNT][FIELDS_MAX];
    ptrdiff_t r = row - etl_rows, f = field - row->fields;

    if (r < 0 || r >= ETL_ROW_COUNT || f < 0 || f >= FIELDS_MAX)
        return find_hint(row, field->name);
    if (hints[r][f] == HINT_UNSET)
        hints[r][f] = (uint8_t) find_hint(row, field->name);
    return hints[r][f];
}

static void emit_row_integer(struct emitter *em, const struct etl_class_row *row,
                             const struct etl_value *v)
{
    const char *word = NULL;

    switch (em->json ? HINT_NONE : hint_of(row, v->field)) {
    case HINT_HEX:
        emit_hex(em, v->integer);
        return;
    case HINT_WAIT_REASON:
        word = wait_reason_name((int) v->integer);
        break;
    case HINT_STATE:
        word = thread_state_name((int) v->integer);
        break;
    case HINT_ADJUST:
        word = adjust_reason_name((int) v->integer);
        break;
    default:
        break;
    }
    if (word)
        out_str(em->o, word);
    else if (v->is_signed)
        emit_signed(em, (int64_t) v->integer);
    else
        emit_unsigned(em, v->integer);
}

static void emit_row_address(struct emitter *em, int family, const uint8_t *data)
{
    char buf[INET6_ADDRSTRLEN];

    out_printf(em->o, em->json ? "\"%s\"" : "%s", inet_ntop(family, data, buf, sizeof(buf)));
}

static void emit_row_array(struct emitter *em, const struct etl_value *v, uint8_t pointer_size)
{
    size_t width;

    switch (v->field->type) {
    case ETL_T_wch:
        emit_field_utf16(em, v->data, v->size);
        return;
    case ETL_T_guid:
        if (v->size == sizeof(struct etw_guid)) {
            emit_guid(em, v->data);
            return;
        }
        emit_hex_bytes(em, v->data, v->size);
        return;
    case ETL_T_u32:
        width = 4;
        break;
    case ETL_T_ptr:
        emit_begin(em, '[');
        width = v->field->count == ETL_COUNT_REST && pointer_size == 4 ? 4 : 8;
        for (size_t i = 0; i + width <= v->size; i += width) {
            uint64_t n = 0;
            memcpy(&n, v->data + i, width);
            emit_field_element(em);
            emit_hex(em, n);
        }
        emit_end(em, ']');
        return;
    default:
        /* the time zone of a header: nothing to read for people */
        if (!em->json && v->size > TEXT_BYTES_MAX) {
            out_hex_bytes(em->o, v->data, TEXT_BYTES_MAX);
            out_printf(em->o, "...(%u bytes)", v->size);
            return;
        }
        emit_hex_bytes(em, v->data, v->size);
        return;
    }
    emit_begin(em, '[');
    for (size_t i = 0; i + width <= v->size; i += width) {
        uint32_t n;
        memcpy(&n, v->data + i, sizeof(n));
        emit_field_element(em);
        emit_unsigned(em, n);
    }
    emit_end(em, ']');
}

static void emit_row_value(struct emitter *em, const struct etl_class_row *row,
                           const struct etl_value *v, uint8_t pointer_size)
{
    if (v->field->count > 0) {
        emit_row_array(em, v, pointer_size);
        return;
    }
    switch (v->field->type) {
    case ETL_T_ptr:
    case ETL_T_hex64:
        emit_hex(em, v->integer);
        break;
    case ETL_T_ip4:
        emit_row_address(em, AF_INET, v->data);
        break;
    case ETL_T_ip6:
        emit_row_address(em, AF_INET6, v->data);
        break;
    case ETL_T_ft:
        emit_filetime(em, v->integer);
        break;
    case ETL_T_guid:
        emit_guid(em, v->data);
        break;
    case ETL_T_sid:
        emit_sid(em, v->data, v->size);
        break;
    case ETL_T_asz:
        emit_utf8(em, v->data, v->size);
        break;
    case ETL_T_wsz:
    case ETL_T_wch:
        emit_field_utf16(em, v->data, v->size);
        break;
    case ETL_T_bin:
        emit_hex_bytes(em, v->data, v->size);
        break;
    default:
        emit_row_integer(em, row, v);
        break;
    }
}

static int emit_row_fields(struct emitter *em, const struct decoded *d)
{
    struct etl_fields f;
    struct etl_value v;
    int r;

    etl_fields_init(&f, d->row, &d->e);
    while ((r = etl_fields_next(&f, &v)) > 0) {
        emit_key(em, v.field->name, strlen(v.field->name));
        emit_row_value(em, d->row, &v, d->e.pointer_size);
    }
    return r;
}

static void emit_float(struct emitter *em, const struct etl_tl_value *v)
{
    double x;
    char buf[40];

    if (v->size == 4) {
        float f;
        memcpy(&f, v->data, sizeof(f));
        x = (double) f;
    } else {
        memcpy(&x, v->data, sizeof(x));
    }
    if (isfinite(x)) {
        (void) snprintf(buf, sizeof(buf), "%.*g", v->size == 4 ? 9 : 17, x);
        out_str(em->o, buf);
        return;
    }
    /* JSON has no number for these */
    const char *word = isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
    out_printf(em->o, em->json ? "\"%s\"" : "%s", word);
}

static void emit_systemtime(struct emitter *em, const uint8_t *data)
{
    uint16_t t[8]; /* year, month, day of week, day, hour, minute, second, milliseconds */

    memcpy(t, data, sizeof(t));
    if (t[0] < 1601 || t[0] > 9999 || t[1] < 1 || t[1] > 12 || t[3] < 1 || t[3] > 31 || t[4] > 23 ||
        t[5] > 59 || t[6] > 60 || t[7] > 999) {
        emit_hex_bytes(em, data, sizeof(t));
        return;
    }
    out_printf(em->o,
               em->json ? "\"%04u-%02u-%02uT%02u:%02u:%02u.%03u000000Z\""
                        : "%04u-%02u-%02uT%02u:%02u:%02u.%03u000000Z",
               t[0], t[1], t[3], t[4], t[5], t[6], t[7]);
}

static bool emit_address(struct emitter *em, const struct etl_tl_value *v)
{
    char buf[INET6_ADDRSTRLEN];
    bool v6 = v->out_type == ETL_TL_OUT_IPV6;

    if (v->size != (v6 ? 16u : 4u) ||
        !inet_ntop(v6 ? AF_INET6 : AF_INET, v->data, buf, sizeof(buf)))
        return false;
    out_printf(em->o, em->json ? "\"%s\"" : "%s", buf);
    return true;
}

static void emit_tl_integer(struct emitter *em, const struct etl_tl_value *v)
{
    uint64_t mask = v->size < 8 ? (1ull << (v->size * 8)) - 1 : UINT64_MAX;

    switch (v->out_type) {
    case ETL_TL_OUT_IPV4:
        if (emit_address(em, v))
            return;
        break;
    case ETL_TL_OUT_PORT:
        if (v->size == 2) {
            emit_unsigned(em, (uint64_t) v->data[0] << 8 | v->data[1]);
            return;
        }
        break;
    case ETL_TL_OUT_HEX:
    case ETL_TL_OUT_NTSTATUS:
    case ETL_TL_OUT_HRESULT:
    case ETL_TL_OUT_CODE_POINTER:
        emit_hex(em, v->integer & mask);
        return;
    case ETL_TL_OUT_SIGNED:
        if (v->size < 8 && v->integer >> (v->size * 8 - 1) & 1)
            emit_signed(em, (int64_t) (v->integer | ~mask));
        else
            emit_signed(em, (int64_t) v->integer);
        return;
    case ETL_TL_OUT_UNSIGNED:
    case ETL_TL_OUT_PID:
    case ETL_TL_OUT_TID:
        emit_unsigned(em, v->integer & mask);
        return;
    default:
        break;
    }
    if (v->in_type == ETL_TL_HEXINT32 || v->in_type == ETL_TL_HEXINT64 ||
        v->in_type == ETL_TL_POINTER)
        emit_hex(em, v->integer);
    else if (v->is_signed)
        emit_signed(em, (int64_t) v->integer);
    else
        emit_unsigned(em, v->integer);
}

void emit_field_value(struct emitter *em, const struct etl_tl_value *v)
{
    switch (v->kind) {
    case ETL_TL_IS_NULL:
        emit_field_null(em);
        break;
    case ETL_TL_IS_INTEGER:
        emit_tl_integer(em, v);
        break;
    case ETL_TL_IS_FLOAT:
        emit_float(em, v);
        break;
    case ETL_TL_IS_BOOLEAN:
        out_str(em->o, v->integer ? "true" : "false");
        break;
    case ETL_TL_IS_UTF16:
        emit_field_utf16(em, v->data, v->size);
        break;
    case ETL_TL_IS_UTF8:
        emit_utf8(em, v->data, v->size);
        break;
    case ETL_TL_IS_BINARY:
        if ((v->out_type != ETL_TL_OUT_IPV6 && v->out_type != ETL_TL_OUT_IPV4) ||
            !emit_address(em, v))
            emit_hex_bytes(em, v->data, v->size);
        break;
    case ETL_TL_IS_GUID:
        emit_guid(em, v->data);
        break;
    case ETL_TL_IS_FILETIME:
        emit_filetime(em, v->integer);
        break;
    case ETL_TL_IS_SYSTEMTIME:
        emit_systemtime(em, v->data);
        break;
    case ETL_TL_IS_SID:
        emit_sid(em, v->data, v->size);
        break;
    }
}

static void emit_tl_token(struct emitter *em, int token, const struct etl_tl_value *v)
{
    if (token == ETL_TL_VALUE || token == ETL_TL_STRUCT_BEGIN || token == ETL_TL_ARRAY_BEGIN) {
        if (v->name)
            emit_key(em, v->name, v->name_len);
        else
            emit_field_element(em);
    }
    switch (token) {
    case ETL_TL_VALUE:
        emit_field_value(em, v);
        break;
    case ETL_TL_STRUCT_BEGIN:
        emit_begin(em, '{');
        break;
    case ETL_TL_STRUCT_END:
        emit_end(em, '}');
        break;
    case ETL_TL_ARRAY_BEGIN:
        emit_begin(em, '[');
        break;
    case ETL_TL_ARRAY_END:
        emit_end(em, ']');
        break;
    default:
        break;
    }
}

static int emit_tl_fields(struct emitter *em, struct etl_tl *tl)
{
    struct etl_tl_value v;
    int token, open;

    while ((token = etl_tl_next(tl, &v)) > 0)
        emit_tl_token(em, token, &v);
    /* what an error left open is closed, so that the line stays JSON */
    while ((open = etl_tl_unwind(tl)) > 0)
        emit_tl_token(em, open, &v);
    return token;
}

/* Bytes of a text up to its NUL. */
static size_t text_size(const EVENT_RECORD *r)
{
    const uint8_t *p = r->UserData;
    size_t n = 0;

    while (n + 1 < r->UserDataLength && (p[n] || p[n + 1]))
        n += 2;
    return n;
}

bool decode_has_fields(const struct decoded *d)
{
    return d->has_tl || d->row || d->schema || d->is_text || d->message;
}

int emit_fields(struct emitter *em, struct decoded *d)
{
    if (d->is_text) {
        emit_key(em, "message", strlen("message"));
        emit_field_utf16(em, d->record->UserData, text_size(d->record));
        return 0;
    }
    if (d->message) {
        emit_key(em, "message", strlen("message"));
        emit_field_utf16(em, d->message, d->message_size);
        return 0;
    }
    if (d->schema)
        return emit_schema_fields(em, d->schema, d->record);
    return d->has_tl ? emit_tl_fields(em, &d->tl) : emit_row_fields(em, d);
}
