/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * The byte layouts of an .etl file that no table row describes: buffer header and event headers.
 * What events carry stands in classes.def. Both sides compile this, BPF programs too. Nothing here
 * parses: readers use iterate.h, which checks.
 */
#pragma once

#include "record.h"

/* WMI_BUFFER_HEADER. */
struct etl_buffer_header {
    uint32_t buffer_size;    /* bytes this buffer takes in the file */
    uint32_t saved_offset;   /* end of the last event */
    uint32_t current_offset; /* readers ignore it */
    int32_t reference_count;
    uint64_t time_stamp; /* of the flush, session clock */
    int64_t sequence_number;
    uint64_t clock; /* 0 in files */
    uint16_t processor_index;
    uint16_t logger_id;
    uint32_t state;
    uint32_t offset; /* end of events, of the uncompressed buffer */
    uint16_t flags;
    uint16_t type;
    uint64_t reference_time[2];
};
ETL_ASSERT(sizeof(struct etl_buffer_header) == 0x48, "buffer header is 72 bytes");

#define ETL_BUFFER_HEADER_SIZE 0x48u
#define ETL_BUFFER_STATE_FLUSH 3u
#define ETL_PROCESSOR_INDEX_MASK 0x07FFu

enum etl_buffer_flags {
    ETL_BUFFER_FLUSH_MARKER = 0x0001,
    ETL_BUFFER_EVENTS_LOST = 0x0002,
    ETL_BUFFER_BUFFER_LOST = 0x0004,
    ETL_BUFFER_RTBACKUP_CORRUPT = 0x0008,
    ETL_BUFFER_RTBACKUP = 0x0010,
    ETL_BUFFER_PROC_INDEX = 0x0020,
    ETL_BUFFER_COMPRESSED = 0x0040,
};

enum etl_buffer_type {
    ETL_BUFFER_GENERIC = 0,
    ETL_BUFFER_RUNDOWN = 1,
    ETL_BUFFER_CTX_SWAP = 2,
    ETL_BUFFER_REFTIME = 3,
    ETL_BUFFER_HEADER = 4,
    ETL_BUFFER_BATCHED = 5,
    ETL_BUFFER_EMPTY_MARKER = 6,
    ETL_BUFFER_DBG_INFO = 7,
};

/* Byte 3 of an event: what kind of header. */
#define ETL_MARKER_TRACE 0xC0u
#define ETL_MARKER_MESSAGE 0x90u
#define ETL_MARKER_ULONG32_TIME 0xB0u
#define ETL_FILLER 0xFFFFFFFFu

enum etl_header_type {
    ETL_SYSTEM32 = 0x01,
    ETL_SYSTEM64 = 0x02,
    ETL_COMPACT32 = 0x03,
    ETL_COMPACT64 = 0x04,
    ETL_FULL32 = 0x0A,
    ETL_INSTANCE32 = 0x0B,
    ETL_TIMED = 0x0C,
    ETL_ERROR = 0x0D,
    ETL_WNODE = 0x0E,
    ETL_MESSAGE = 0x0F, /* our class number for marker 0x90 */
    ETL_PERFINFO32 = 0x10,
    ETL_PERFINFO64 = 0x11,
    ETL_EVENT32 = 0x12,
    ETL_EVENT64 = 0x13,
    ETL_FULL64 = 0x14,
    ETL_INSTANCE64 = 0x15,
};

/* SYSTEM_TRACE_HEADER; COMPACT is its first 24 bytes. */
struct etl_system_header {
    uint16_t version;
    uint8_t header_type;
    uint8_t marker;
    uint16_t size;
    uint8_t type;
    uint8_t group;
    uint32_t thread_id;
    uint32_t process_id;
    uint64_t time_stamp;
    uint32_t kernel_time;
    uint32_t user_time;
};
ETL_ASSERT(sizeof(struct etl_system_header) == 32, "system header is 32 bytes");

/* PERFINFO_TRACE_HEADER. */
struct etl_perfinfo_header {
    uint16_t version;
    uint8_t header_type;
    uint8_t marker;
    uint16_t size;
    uint8_t type;
    uint8_t group;
    uint64_t time_stamp;
};
ETL_ASSERT(sizeof(struct etl_perfinfo_header) == 16, "perfinfo header is 16 bytes");

#ifndef __bpf__
#include "../base/guid.h"

/* EVENT_TRACE_HEADER as classic providers write it (FULL32, FULL64). */
struct etl_full_header {
    uint16_t size;
    uint8_t header_type;
    uint8_t marker;
    uint8_t type;
    uint8_t level;
    uint16_t version;
    uint32_t thread_id;
    uint32_t process_id;
    uint64_t time_stamp;
    struct etw_guid guid;
    uint32_t kernel_time;
    uint32_t user_time;
};
ETL_ASSERT(sizeof(struct etl_full_header) == 48, "full header is 48 bytes");

/* What INSTANCE32, INSTANCE64 add. */
struct etl_instance_extra {
    uint32_t instance_id;
    uint32_t parent_instance_id;
    struct etw_guid parent_guid;
};
ETL_ASSERT(sizeof(struct etl_instance_extra) == 24, "instance header is 72 bytes");

struct etl_event_descriptor {
    uint16_t id;
    uint8_t version;
    uint8_t channel;
    uint8_t level;
    uint8_t opcode;
    uint16_t task;
    uint64_t keyword;
};
ETL_ASSERT(sizeof(struct etl_event_descriptor) == 16, "event descriptor is 16 bytes");

/* EVENT_HEADER (EVENT32, EVENT64). */
struct etl_event_header {
    uint16_t size;
    uint8_t header_type;
    uint8_t marker;
    uint16_t flags;
    uint16_t event_property;
    uint32_t thread_id;
    uint32_t process_id;
    uint64_t time_stamp;
    struct etw_guid provider_id;
    struct etl_event_descriptor descriptor;
    uint32_t kernel_time;
    uint32_t user_time;
    struct etw_guid activity_id;
};
ETL_ASSERT(sizeof(struct etl_event_header) == 80, "event header is 80 bytes");

#define ETL_EVENT_FLAG_EXTENDED_INFO 0x0001u

/* An extended item in the file; `size` counts this header, the data and padding to 8. */
struct etl_item_header {
    uint16_t size;
    uint16_t type;
    uint16_t linkage; /* bit 0: another item follows */
    uint16_t data_size;
};
ETL_ASSERT(sizeof(struct etl_item_header) == 8, "item header is 8 bytes");

enum etl_item_type {
    ETL_ITEM_RELATED_ACTIVITYID = 1,
    ETL_ITEM_SID = 2,
    ETL_ITEM_TS_ID = 3,
    ETL_ITEM_INSTANCE_INFO = 4,
    ETL_ITEM_STACK_TRACE32 = 5,
    ETL_ITEM_STACK_TRACE64 = 6,
    ETL_ITEM_PEBS_INDEX = 7,
    ETL_ITEM_PMC_COUNTERS = 8,
    ETL_ITEM_PSM_KEY = 9,
    ETL_ITEM_EVENT_KEY = 10,
    ETL_ITEM_EVENT_SCHEMA_TL = 11,
    ETL_ITEM_PROV_TRAITS = 12,
    ETL_ITEM_PROCESS_START_KEY = 13,
    ETL_ITEM_CONTROL_GUID = 14,
    ETL_ITEM_QPC_DELTA = 15,
    ETL_ITEM_CONTAINER_ID = 16,
    ETL_ITEM_STACK_KEY32 = 17,
    ETL_ITEM_STACK_KEY64 = 18,
};

/* WPP message: this, then optional parts by flag, then arguments. */
struct etl_message_header {
    uint16_t size;
    uint8_t reserved;
    uint8_t marker;
    uint16_t number;
    uint16_t flags;
};
ETL_ASSERT(sizeof(struct etl_message_header) == 8, "message header is 8 bytes");

enum etl_message_flags {
    ETL_MESSAGE_SEQUENCE = 0x01,
    ETL_MESSAGE_GUID = 0x02,
    ETL_MESSAGE_COMPONENTID = 0x04,
    ETL_MESSAGE_TIMESTAMP = 0x08,
    ETL_MESSAGE_PERFORMANCE_TIMESTAMP = 0x10,
    ETL_MESSAGE_SYSTEMINFO = 0x20,
    ETL_MESSAGE_POINTER32 = 0x40,
    ETL_MESSAGE_POINTER64 = 0x80,
};

/* LogFileMode of sessions and headers. */
enum etl_log_file_mode {
    ETL_MODE_SEQUENTIAL = 0x00000001,
    ETL_MODE_CIRCULAR = 0x00000002,
    ETL_MODE_APPEND = 0x00000004,
    ETL_MODE_NEWFILE = 0x00000008,
    ETL_MODE_USE_MS_FLUSH_TIMER = 0x00000010,
    ETL_MODE_PREALLOCATE = 0x00000020,
    ETL_MODE_NONSTOPPABLE = 0x00000040,
    ETL_MODE_SECURE = 0x00000080,
    ETL_MODE_REAL_TIME = 0x00000100,
    ETL_MODE_DELAY_OPEN_FILE = 0x00000200,
    ETL_MODE_BUFFERING = 0x00000400,
    ETL_MODE_PRIVATE_LOGGER = 0x00000800,
    ETL_MODE_ADD_HEADER = 0x00001000,
    ETL_MODE_USE_KBYTES_FOR_SIZE = 0x00002000,
    ETL_MODE_USE_GLOBAL_SEQUENCE = 0x00004000,
    ETL_MODE_USE_LOCAL_SEQUENCE = 0x00008000,
    ETL_MODE_RELOG = 0x00010000,
    ETL_MODE_PRIVATE_IN_PROC = 0x00020000,
    ETL_MODE_RESERVED = 0x00100000,
    ETL_MODE_STOP_ON_HYBRID_SHUTDOWN = 0x00400000,
    ETL_MODE_PERSIST_ON_HYBRID_SHUTDOWN = 0x00800000,
    ETL_MODE_USE_PAGED_MEMORY = 0x01000000,
    ETL_MODE_SYSTEM_LOGGER = 0x02000000,
    ETL_MODE_COMPRESSED = 0x04000000,
    ETL_MODE_INDEPENDENT_SESSION = 0x08000000,
    ETL_MODE_NO_PER_PROCESSOR_BUFFERING = 0x10000000,
};
#endif
