/* SPDX-License-Identifier: Apache-2.0
 *
 * See schema.h: memory of a schema, and which source has it.
 */
#include "schema.h"

#include "manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct field *schema_add(struct schema *s)
{
    if (s->n > UINT16_MAX)
        return NULL;
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 16;
        struct field *fields = realloc(s->fields, cap * sizeof(*fields));
        if (!fields)
            return NULL;
        s->fields = fields;
        s->cap = cap;
    }
    s->fields[s->n] = (struct field){.suffix = "", .count = 1};
    return &s->fields[s->n++];
}

void schema_done(struct schema *s)
{
    free(s->fields);
    s->fields = NULL;
    if (s->locked)
        store_unlock();
    s->locked = false;
}

const void *record_item(const EVENT_RECORD *r, uint16_t type, uint16_t *ret_size)
{
    for (unsigned i = 0; i < r->ExtendedDataCount; i++) {
        if (r->ExtendedData[i].ExtType != type)
            continue;
        *ret_size = r->ExtendedData[i].DataSize;
        return (const void *) (uintptr_t) r->ExtendedData[i].DataPtr;
    }
    return NULL;
}

uint32_t schema_of(const EVENT_RECORD *r, struct schema *ret)
{
    static int (*const sources[])(struct schema *, const EVENT_RECORD *) = {
        schema_from_class,
        schema_from_tl,
        schema_from_manifest,
    };

    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        *ret = (struct schema){0};
        int e = sources[i](ret, r);
        if (e == 0)
            return ERROR_SUCCESS;
        schema_done(ret);
        if (e == -ENOMEM)
            return ERROR_NOT_ENOUGH_MEMORY;
    }
    return ERROR_NOT_FOUND;
}
