/* SPDX-License-Identifier: Apache-2.0
 *
 * Reader of self-describing (TraceLogging) events: provider traits (item 12), event metadata
 * (item 11) and the data they describe, as a stream of tokens. It is not a formatter: what a value
 * looks like is the caller's matter. Hostile-safe: every size is checked, nesting and the number of
 * tokens are bounded. No allocation, any thread; one object is used by one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "iterate.h"

/* InType without its array bits. */
enum etl_tl_in {
    ETL_TL_NULL = 0,
    ETL_TL_UNICODESTRING = 1,
    ETL_TL_ANSISTRING = 2,
    ETL_TL_INT8 = 3,
    ETL_TL_UINT8 = 4,
    ETL_TL_INT16 = 5,
    ETL_TL_UINT16 = 6,
    ETL_TL_INT32 = 7,
    ETL_TL_UINT32 = 8,
    ETL_TL_INT64 = 9,
    ETL_TL_UINT64 = 10,
    ETL_TL_FLOAT = 11,
    ETL_TL_DOUBLE = 12,
    ETL_TL_BOOL32 = 13,
    ETL_TL_BINARY = 14,
    ETL_TL_GUID = 15,
    ETL_TL_POINTER = 16,
    ETL_TL_FILETIME = 17,
    ETL_TL_SYSTEMTIME = 18,
    ETL_TL_SID = 19,
    ETL_TL_HEXINT32 = 20,
    ETL_TL_HEXINT64 = 21,
    ETL_TL_COUNTEDSTRING = 22,
    ETL_TL_COUNTEDANSISTRING = 23,
    ETL_TL_STRUCT = 24,
    ETL_TL_COUNTEDBINARY = 25,
};

/* OutType without its chain bit; 0: the in-type's own form. */
enum etl_tl_out {
    ETL_TL_OUT_DEFAULT = 0,
    ETL_TL_OUT_NOPRINT = 1,
    ETL_TL_OUT_STRING = 2,
    ETL_TL_OUT_BOOLEAN = 3,
    ETL_TL_OUT_HEX = 4,
    ETL_TL_OUT_PID = 5,
    ETL_TL_OUT_TID = 6,
    ETL_TL_OUT_PORT = 7,
    ETL_TL_OUT_IPV4 = 8,
    ETL_TL_OUT_IPV6 = 9,
    ETL_TL_OUT_SOCKETADDRESS = 10,
    ETL_TL_OUT_XML = 11,
    ETL_TL_OUT_JSON = 12,
    ETL_TL_OUT_WIN32ERROR = 13,
    ETL_TL_OUT_NTSTATUS = 14,
    ETL_TL_OUT_HRESULT = 15,
    ETL_TL_OUT_FILETIME = 16,
    ETL_TL_OUT_SIGNED = 17,
    ETL_TL_OUT_UNSIGNED = 18,
    ETL_TL_OUT_DATETIME = 33,
    ETL_TL_OUT_UTF8 = 35,
    ETL_TL_OUT_PKCS7 = 36,
    ETL_TL_OUT_CODE_POINTER = 37,
    ETL_TL_OUT_DATETIME_UTC = 38,
};

/* What a value's bytes are, so that callers need no table of types. */
enum etl_tl_kind {
    ETL_TL_IS_NULL,
    ETL_TL_IS_INTEGER, /* `integer`; is_signed says how to read it */
    ETL_TL_IS_FLOAT,   /* 4 or 8 bytes at data */
    ETL_TL_IS_BOOLEAN, /* `integer` != 0 */
    ETL_TL_IS_UTF16,   /* data, size bytes, no terminator */
    ETL_TL_IS_UTF8,    /* likewise; 8-bit text of unknown code page is treated as UTF-8 */
    ETL_TL_IS_BINARY,
    ETL_TL_IS_GUID,
    ETL_TL_IS_FILETIME, /* `integer` */
    ETL_TL_IS_SYSTEMTIME,
    ETL_TL_IS_SID,
};

enum etl_tl_token {
    ETL_TL_END = 0,
    ETL_TL_VALUE = 1,
    ETL_TL_STRUCT_BEGIN = 2,
    ETL_TL_STRUCT_END = 3,
    ETL_TL_ARRAY_BEGIN = 4,
    ETL_TL_ARRAY_END = 5,
};

/* A token. Names point into the metadata and are not terminated; elements of arrays have none. */
struct etl_tl_value {
    const char *name;
    uint32_t name_len;
    uint8_t in_type;  /* enum etl_tl_in */
    uint8_t out_type; /* enum etl_tl_out */
    enum etl_tl_kind kind;
    bool is_signed;
    uint64_t integer;
    const uint8_t *data; /* may be unaligned */
    uint32_t size;
    uint32_t count; /* ARRAY_BEGIN: elements */
};

struct etl_tl_field {
    const char *name;
    uint32_t name_len;
    uint8_t in_type;
    uint8_t array; /* the 0x60 bits */
    uint8_t out_type;
    uint16_t count; /* of a fixed array */
    uint32_t tag;
};

/* etl_tl_field.array */
#define ETL_TL_ARRAY_FIXED 0x20u
#define ETL_TL_ARRAY_VARIABLE 0x40u
#define ETL_TL_ARRAY_CUSTOM 0x60u

/* Innermost last. */
struct etl_tl_frame {
    uint32_t members_at; /* in the metadata */
    uint32_t elements;   /* of an array of structs, still to come */
    uint8_t members;
    uint8_t left; /* members of this element still to come */
    bool array;
    bool open;
    const char *name; /* of a single struct */
    uint32_t name_len;
};

/* Structs in structs: Windows' own decoders stop far earlier. Manifests' events keep to both limits
 * too. */
#define ETL_TL_DEPTH_MAX 8
/* One event: 65535 one-byte elements and what encloses them. More comes only of arrays whose
 * elements take no bytes, which multiply without bound. */
#define ETL_TL_TOKENS_MAX 200000u

struct etl_tl {
    const char *event_name; /* not terminated */
    uint32_t event_name_len;
    uint32_t tag;

    const uint8_t *meta;
    uint32_t meta_pos;
    uint32_t meta_end;
    const uint8_t *data;
    uint32_t data_pos;
    uint32_t data_end;
    uint8_t pointer_size;
    uint32_t tokens;
    struct etl_tl_field element; /* of the array of values being read */
    uint32_t elements;
    bool in_array;
    uint32_t depth;
    struct etl_tl_frame frames[ETL_TL_DEPTH_MAX];
};

/* The provider's name in traits (item 12). 0; -EBADMSG. *ret_name is not terminated. */
int etl_tl_provider_name(const void *traits, size_t size, const char **ret_name,
                         uint32_t *ret_name_len);

/* Begins reading an event: metadata is the data of item 11, data the event's user data. 0;
 * -EBADMSG: the metadata have no valid head (event_name is not set then). */
int etl_tl_init(struct etl_tl *tl, const void *metadata, size_t metadata_size, const void *data,
                size_t data_size, uint8_t pointer_size);
/* An enum etl_tl_token; ETL_TL_END (0) when everything is read; -EBADMSG: metadata or data are cut
 * short or too deep (tokens before are good; open arrays and structs stay unclosed). */
int etl_tl_next(struct etl_tl *tl, struct etl_tl_value *ret);
/* The schema alone: the next field of the metadata, whatever the data. 1; 0 when all were read;
 * -EBADMSG. The out_type of a struct is the number of its members, which follow it. Not mixed with
 * etl_tl_next(). */
int etl_tl_next_field(struct etl_tl *tl, struct etl_tl_field *ret);
/* Arrays and structs that are open, innermost first: closes what an error left open. Returns the
 * END token, or 0 when none is open. */
int etl_tl_unwind(struct etl_tl *tl);
