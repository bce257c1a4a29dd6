/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * What classes.def gives to C: packed structs of the fixed parts (etl_Thread_CSwitch), a row number
 * per event (ETL_ROW_Thread_CSwitch), the rows as a table, and fields for decoding. BPF programs
 * take the structs and rows alone.
 */
#pragma once

#include "layout.h"

#ifdef __bpf__
struct etw_guid {
    uint8_t bytes[16];
};
#endif

typedef uint8_t etl_u8;
typedef int8_t etl_i8;
typedef uint16_t etl_u16;
typedef int16_t etl_i16;
typedef uint32_t etl_u32;
typedef int32_t etl_i32;
typedef uint64_t etl_u64;
typedef int64_t etl_i64;
typedef uint64_t etl_hex64;
typedef uint64_t etl_ptr;
typedef uint64_t etl_ft;
typedef uint64_t etl_stamp;
typedef uint64_t etl_ticks;
typedef uint16_t etl_wch;
typedef struct etw_guid etl_guid;

#define LAYOUT(class, layout, version, header)                                                     \
    struct etl_##class##_##layout                                                                  \
    {
#define LAYOUT_END(class, layout)                                                                  \
    }                                                                                              \
    __attribute__((packed));
#define FIXED(type, name) etl_##type name;
#define ARRAY(type, name, count) etl_##type name[count];
#define TL_EVENT(provider, event, level, keyword) struct etl_##provider##_##event {
#define TL_EVENT_END(provider, event)                                                              \
    }                                                                                              \
    __attribute__((packed));
#include "classes.def"

enum etl_row {
#define OPCODE(class, layout, name, group, opcode, mask, bit) ETL_ROW_##class##_##name,
#define TL_EVENT(provider, event, level, keyword) ETL_ROW_##provider##_##event,
#include "classes.def"
    ETL_ROW_COUNT
};

/* Version, hook group, opcode of each row, for BPF programs that fill headers. */
enum {
#define OPCODE(class, layout, name, group, opcode, mask, bit)                                      \
    ETL_GROUP_##class##_##name = group, ETL_OPCODE_##class##_##name = opcode,
#define LAYOUT(class, layout, version, header) ETL_VERSION_##class##_##layout = version,
#include "classes.def"
};

ETL_ASSERT(sizeof(struct etl_EventTrace_Header) == 0x118, "log-file header, fixed part");
ETL_ASSERT(sizeof(struct etl_EventTrace_Extension) == 36, "Extension");
ETL_ASSERT(sizeof(struct etl_Process_TypeGroup1) == 36, "Process, fixed part");
ETL_ASSERT(sizeof(struct etl_Thread_TypeGroup1) == 72, "Thread, fixed part");
ETL_ASSERT(sizeof(struct etl_Thread_CSwitch) == 24, "CSwitch");
ETL_ASSERT(sizeof(struct etl_Thread_ReadyThread) == 8, "ReadyThread");
ETL_ASSERT(sizeof(struct etl_Image_TypeGroup1) == 56, "Image, fixed part");
ETL_ASSERT(sizeof(struct etl_SystemConfig_CPU) == 828, "SystemConfig CPU");
ETL_ASSERT(sizeof(struct etl_SystemConfig_PhyDisk) == 568, "SystemConfig PhyDisk");
ETL_ASSERT(sizeof(struct etl_SystemConfig_LogDisk) == 112, "SystemConfig LogDisk");
ETL_ASSERT(sizeof(struct etl_SystemConfig_NIC) == 20, "SystemConfig NIC, fixed part");

#ifndef __bpf__
#include <stdbool.h>

enum etl_field_type {
    ETL_T_u8,
    ETL_T_i8,
    ETL_T_u16,
    ETL_T_i16,
    ETL_T_u32,
    ETL_T_i32,
    ETL_T_u64,
    ETL_T_i64,
    ETL_T_hex64,
    ETL_T_ptr,
    ETL_T_ft,
    ETL_T_stamp,
    ETL_T_ticks,
    ETL_T_wch,
    ETL_T_guid,
    ETL_T_sid,
    ETL_T_asz,
    ETL_T_wsz,
    ETL_T_bin,
    /* Of windows.def alone. */
    ETL_T_size, /* as wide as a pointer, but a number */
    ETL_T_ip4,  /* in network order, as what follows */
    ETL_T_ip6,
    ETL_T_port,
};

#define ETL_COUNT_REST UINT16_MAX

struct etl_field {
    const char *name; /* NULL ends the list */
    enum etl_field_type type;
    uint16_t count; /* of an array; 0: a single value; ETL_COUNT_REST: to the end of the data */
};

/* One event of classes.def. */
struct etl_class_row {
    const char *class_name; /* "Thread"; the provider's name for TraceLogging: "Linux-Kernel" */
    const char *event_name; /* "CSwitch" */
    struct etw_guid guid;
    uint8_t version;
    uint8_t header; /* enum etl_header_type that we write */
    uint8_t group;
    uint8_t opcode;
    uint8_t level;     /* TraceLogging */
    uint8_t mask;      /* index of the group mask word */
    uint32_t mask_bit; /* 0: always logged */
    uint64_t keyword;  /* TraceLogging */
    const struct etl_field *fields;
    uint16_t fixed_size; /* bytes of the fixed part */
    uint16_t n_times;    /* of its fields are in the session's clock: stamp, ticks */
};

/* Indexed by enum etl_row. */
extern const struct etl_class_row etl_rows[ETL_ROW_COUNT];

/* The class GUID and name that consumers see for a hook (0x030A is Image); NULL for groups that
 * have none. Covers every group of the reference, also those whose layouts are not in the table. */
const struct etw_guid *etl_hook_guid(uint8_t group, uint8_t opcode);
const char *etl_class_name(const struct etw_guid *class_guid);

/* The row that decodes (class, opcode, version): the highest version <= the event's, or that of an
 * earlier system, which is not in etl_rows. NULL: none. */
const struct etl_class_row *etl_find_row(const struct etw_guid *class_guid, uint8_t opcode,
                                         uint8_t version);

/* The same with what only Windows writes (windows.def): for readers. */
const struct etl_class_row *etl_find_any_row(const struct etw_guid *class_guid, uint8_t opcode,
                                             uint8_t version);
/* The rows of windows.def; returns how many. */
size_t etl_windows_rows(const struct etl_class_row **ret);

struct etw_clock_line;
/* Brings the fields of a payload that are in the session's clock (their values: CLOCK_BOOTTIME
 * stamps, and durations in nanoseconds) to the clock of the file. size: of the payload. */
void etl_times_convert(const struct etl_class_row *row, void *payload, uint32_t size,
                       const struct etw_clock_line *line);

/* EnableFlags of the API <-> the eight group masks of the file (several flags live in mask 1, 2).
 */
void etl_masks_from_flags(uint32_t flags, uint32_t masks[8]);
uint32_t etl_flags_from_masks(const uint32_t masks[8]);

/* EVENT_TRACE_FLAG_*: bit, etwctl's name, and what becomes of it. */
enum etl_flag_support { ETL_FLAG_INERT, ETL_FLAG_LATER, ETL_FLAG_PROBED, ETL_FLAG_CONTROL };
struct etl_enable_flag {
    uint32_t bit;
    const char *name; /* "cswitch" */
    enum etl_flag_support support;
};
extern const struct etl_enable_flag etl_enable_flags[]; /* ends with name NULL */
#endif
