/* SPDX-License-Identifier: Apache-2.0
 *
 * TdhGetProperty and TdhGetPropertySize: walks an event's data by its schema up to the property.
 * Any thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "etl/tracelogging.h"
#include "internal.h"
#include "schema.h"

#define WHOLE 0xFFFFFFFFu

struct walk {
    const struct schema *s;
    const uint8_t *data;
    uint32_t pos, end;
    uint8_t pointer_size;
    uint32_t steps;
    uint64_t *values; /* of properties that were passed: counts and lengths refer to them */
};

/* Another property's value, at most what 16 bits hold. */
static int referred(const struct walk *w, uint16_t index, uint32_t *ret)
{
    if (index >= w->s->n || w->values[index] > UINT16_MAX)
        return -EBADMSG;
    *ret = (uint32_t) w->values[index];
    return 0;
}

static int field_count(const struct walk *w, const struct field *f, uint32_t *ret)
{
    if (f->flags & PropertyParamCount)
        return referred(w, f->count, ret);
    *ret = f->count;
    return 0;
}

static int pass_field(struct walk *w, uint32_t index, unsigned depth);

/* One element of a property. */
static int pass_element(struct walk *w, uint32_t index, unsigned depth)
{
    const struct field *f = &w->s->fields[index];
    uint32_t length = f->length, size;
    int r;

    if (++w->steps > ETL_TL_TOKENS_MAX)
        return -EBADMSG;
    if (f->flags & PropertyStruct) {
        if (depth == ETL_TL_DEPTH_MAX || (uint32_t) f->first + f->members > w->s->n)
            return -EBADMSG;
        for (uint32_t m = 0; m < f->members; m++) {
            r = pass_field(w, f->first + m, depth + 1);
            if (r < 0)
                return r;
        }
        return 0;
    }
    if (f->flags & PropertyParamLength) {
        r = referred(w, f->length, &length);
        if (r < 0)
            return r;
    }
    /* A text whose length is told may be empty; 0 would mean up to its NUL. */
    if ((f->flags & PropertyParamLength) && length == 0)
        size = 0;
    else {
        r = value_size(f->in, f->out, length, w->pointer_size, w->data + w->pos, w->end - w->pos,
                       &size);
        if (r < 0)
            return -EBADMSG;
    }
    (void) value_integer(f->in, w->data + w->pos, size, &w->values[index]);
    w->pos += size;
    return 0;
}

static int pass_field(struct walk *w, uint32_t index, unsigned depth)
{
    uint32_t count;
    int r;

    r = field_count(w, &w->s->fields[index], &count);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < count; i++) {
        r = pass_element(w, index, depth);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool has_name(const struct field *f, const char *utf8)
{
    size_t suffix = strlen(f->suffix);

    return strlen(utf8) == f->name.length + suffix &&
           memcmp(utf8, f->name.utf8, f->name.length) == 0 &&
           memcmp(utf8 + f->name.length, f->suffix, suffix) == 0;
}

/* Goes to what the descriptors name. ERROR_SUCCESS, and where it lies. */
static uint32_t find(struct walk *w, const PROPERTY_DATA_DESCRIPTOR *d, ULONG n, uint32_t *ret_at,
                     uint32_t *ret_size)
{
    uint32_t first = 0, members = w->s->n_top, count;

    for (ULONG level = 0;; level++, d++) {
        _cleanup_free_ char *name = NULL;
        bool last = level + 1 == n;
        uint32_t i;

        if (!d->PropertyName || level == ETL_TL_DEPTH_MAX)
            return ERROR_INVALID_PARAMETER;
        name = etw_utf16_dup_utf8((const void *) (uintptr_t) d->PropertyName, SIZE_MAX);
        if (!name)
            return ERROR_NOT_ENOUGH_MEMORY;
        for (i = first; i < first + members; i++) {
            if (has_name(&w->s->fields[i], name))
                break;
            if (pass_field(w, i, level) < 0)
                return ERROR_EVT_INVALID_EVENT_DATA;
        }
        if (i == first + members)
            return ERROR_NOT_FOUND;

        const struct field *f = &w->s->fields[i];
        if (field_count(w, f, &count) < 0)
            return ERROR_EVT_INVALID_EVENT_DATA;
        if (last && d->ArrayIndex == WHOLE) {
            *ret_at = w->pos;
            if (pass_field(w, i, level) < 0)
                return ERROR_EVT_INVALID_EVENT_DATA;
            *ret_size = w->pos - *ret_at;
            return ERROR_SUCCESS;
        }
        /* Programs say "the whole" of a single struct, too. */
        uint32_t element = d->ArrayIndex == WHOLE ? 0 : d->ArrayIndex;
        if (element >= count)
            return ERROR_NOT_FOUND;
        for (uint32_t e = 0; e < element; e++)
            if (pass_element(w, i, level) < 0)
                return ERROR_EVT_INVALID_EVENT_DATA;
        if (last) {
            *ret_at = w->pos;
            if (pass_element(w, i, level) < 0)
                return ERROR_EVT_INVALID_EVENT_DATA;
            *ret_size = w->pos - *ret_at;
            return ERROR_SUCCESS;
        }
        if (!(f->flags & PropertyStruct) || (uint32_t) f->first + f->members > w->s->n)
            return ERROR_INVALID_PARAMETER;
        first = f->first;
        members = f->members;
    }
}

static uint8_t pointer_size_of(const EVENT_RECORD *r, ULONG n, const TDH_CONTEXT *contexts)
{
    for (ULONG i = 0; i < n; i++)
        if (contexts[i].ParameterType == TDH_CONTEXT_POINTERSIZE)
            return contexts[i].ParameterValue == 4 ? 4 : 8;
    return r->EventHeader.Flags & EVENT_HEADER_FLAG_32_BIT_HEADER ? 4 : 8;
}

static uint32_t locate(const EVENT_RECORD *r, ULONG n_contexts, const TDH_CONTEXT *contexts,
                       ULONG n, const PROPERTY_DATA_DESCRIPTOR *d, uint32_t *ret_at,
                       uint32_t *ret_size)
{
    _cleanup_schema_ struct schema s = {0};
    _cleanup_free_ uint64_t *values = NULL;
    uint32_t code;

    if (!r || n == 0 || !d || (n_contexts > 0 && !contexts) ||
        (r->UserDataLength > 0 && !r->UserData))
        return ERROR_INVALID_PARAMETER;
    code = schema_of(r, &s);
    if (code != ERROR_SUCCESS)
        return code;
    values = calloc(s.n ? s.n : 1, sizeof(*values));
    if (!values)
        return ERROR_NOT_ENOUGH_MEMORY;
    struct walk w = {
        .s = &s,
        .data = r->UserData,
        .end = r->UserDataLength,
        .pointer_size = pointer_size_of(r, n_contexts, contexts),
        .values = values,
    };
    return find(&w, d, n, ret_at, ret_size);
}

ULONG WINAPI TdhGetPropertySize(PEVENT_RECORD pEvent, ULONG TdhContextCount,
                                PTDH_CONTEXT pTdhContext, ULONG PropertyDataCount,
                                PPROPERTY_DATA_DESCRIPTOR pPropertyData, ULONG *pPropertySize)
{
    uint32_t at, size, code;

    if (!pPropertySize)
        return finish(ERROR_INVALID_PARAMETER);
    code =
        locate(pEvent, TdhContextCount, pTdhContext, PropertyDataCount, pPropertyData, &at, &size);
    if (code == ERROR_SUCCESS)
        *pPropertySize = size;
    return finish(code);
}

ULONG WINAPI TdhGetProperty(PEVENT_RECORD pEvent, ULONG TdhContextCount, PTDH_CONTEXT pTdhContext,
                            ULONG PropertyDataCount, PPROPERTY_DATA_DESCRIPTOR pPropertyData,
                            ULONG BufferSize, PBYTE pBuffer)
{
    uint32_t at, size, code;

    if (!pBuffer)
        return finish(ERROR_INVALID_PARAMETER);
    code =
        locate(pEvent, TdhContextCount, pTdhContext, PropertyDataCount, pPropertyData, &at, &size);
    if (code != ERROR_SUCCESS)
        return finish(code);
    if (size > BufferSize)
        return finish(ERROR_INSUFFICIENT_BUFFER);
    if (size > 0)
        memcpy(pBuffer, (const uint8_t *) pEvent->UserData + at, size);
    return ERROR_SUCCESS;
}
