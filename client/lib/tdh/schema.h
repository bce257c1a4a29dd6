/* SPDX-License-Identifier: Apache-2.0
 *
 * An event's schema as the files of this folder pass it on: made by a source (schema_class.c,
 * schema_tl.c), turned into TRACE_EVENT_INFO by event_info.c, walked by walk.c. Texts point into
 * the event or the tables. Nothing here is exported. Any thread; one object is one thread's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tdh.h>

#include "base/guid.h"

/* UTF-8, not terminated; length 0: there is none. */
struct text {
    const char *utf8;
    uint32_t length;
};

/* As EVENT_PROPERTY_INFO has it. */
struct field {
    struct text name;
    const char *suffix; /* after the name; "" mostly */
    uint16_t flags;     /* PROPERTY_FLAGS */
    uint16_t in, out;
    uint16_t first, members; /* of a struct */
    uint16_t count;          /* or the index of the property that has it */
    uint16_t length;         /* likewise */
    uint32_t tags;
    struct text map;
};

struct schema {
    struct etw_guid provider, event;
    DECODING_SOURCE source;
    struct text provider_name, level, channel, task, opcode, event_name;
    struct text message, provider_message;
    struct text keywords[64];
    uint32_t n_keywords;
    uint32_t tags;
    struct field *fields;
    uint32_t n, cap;
    uint32_t n_top;
    bool locked; /* texts are a manifest's: it stays as long */
};

/* 0, or a Win32 code: ERROR_NOT_FOUND, _NOT_ENOUGH_MEMORY. ret is for schema_done() on success. */
uint32_t schema_of(const EVENT_RECORD *r, struct schema *ret);
void schema_done(struct schema *s);
#define _cleanup_schema_ __attribute__((cleanup(schema_done)))

/* A field at the end, zeroed but for suffix and count 1; NULL: no memory, or more than indexes
 * have room for. Pointers to others are not valid any more. */
struct field *schema_add(struct schema *s);

/* The sources; -ENOENT: not theirs; -EBADMSG; -ENOMEM. s is zeroed. */
int schema_from_class(struct schema *s, const EVENT_RECORD *r);
int schema_from_tl(struct schema *s, const EVENT_RECORD *r);
int schema_from_manifest(struct schema *s, const EVENT_RECORD *r);

/* The extended data item of a type; NULL: none. */
const void *record_item(const EVENT_RECORD *r, uint16_t type, uint16_t *ret_size);
static inline struct text text_of(const char *s)
{
    return (struct text){s, s ? (uint32_t) __builtin_strlen(s) : 0};
}

/* ---- value.c: how many bytes values take ---- */

/* One value of a type at p, of which `left` bytes are there. length as EVENT_PROPERTY_INFO's. 0 and
 * its bytes; -EBADMSG: it does not fit; -EINVAL: no such type. */
int value_size(uint16_t in, uint16_t out, uint32_t length, uint8_t pointer_size, const uint8_t *p,
               uint32_t left, uint32_t *ret);
/* A value of up to 8 bytes as a number; false: it is none. */
bool value_integer(uint16_t in, const uint8_t *p, uint32_t size, uint64_t *ret);
