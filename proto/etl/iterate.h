/* SPDX-License-Identifier: Apache-2.0
 *
 * The only reader of buffers and events, of files and of memory alike. Hostile-safe: the caller
 * hands a private copy of the bytes, every size is checked before use, no input loops or reads out
 * of bounds. No allocation, any thread; an iterator is used by one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "../base/clock.h"
#include "classes.h"
#include "layout.h"

/* A buffer header after checks. */
struct etl_buffer_info {
    uint32_t size; /* bytes in the file, >= ETL_BUFFER_HEADER_SIZE */
    uint32_t end;  /* end of events in the (uncompressed) buffer, >= ETL_BUFFER_HEADER_SIZE */
    uint64_t time_stamp;
    int64_t sequence_number;
    uint16_t processor;
    uint16_t logger_id;
    uint16_t flags; /* enum etl_buffer_flags */
    uint16_t type;  /* enum etl_buffer_type */
};

/* Checks the 72 bytes at data (len >= 72 or -ENODATA). -EBADMSG: not a buffer header (BufferSize
 * below 72 or above 64 MiB, end below 72). An end beyond an uncompressed buffer's size is clamped.
 */
int etl_buffer_parse(const void *data, size_t len, struct etl_buffer_info *ret);

/* One event, pointing into the buffer given to the iterator. Fields that its header kind does not
 * have are 0 (thread_id, process_id: UINT32_MAX). Of ETL_ERROR records, whose layout nobody knows,
 * all behind the marker is data. When the extended items are garbage the event has no data, and
 * etl_item_next() says -EBADMSG where the garbage begins. */
struct etl_event {
    const uint8_t *raw;   /* the header's first byte */
    uint32_t size;        /* without padding */
    uint8_t header_type;  /* enum etl_header_type; WPP messages: ETL_MESSAGE */
    uint8_t pointer_size; /* 4 or 8; 0: a message that does not say, ETL_ERROR */
    uint8_t group;        /* system headers */
    uint8_t opcode;       /* system headers' type; Class.Type; descriptor.opcode */
    uint8_t version;      /* without extension bits; Class.Version: its low byte */
    uint8_t level;
    bool has_guid; /* guid holds provider, class or message GUID */
    bool has_time; /* false: WPP message without a stamp, ETL_ERROR */
    uint16_t message_number;
    uint16_t message_flags;
    uint16_t flags; /* EVENT_HEADER.Flags as stored */
    uint16_t event_property;
    uint32_t component_id;
    uint32_t message_sequence;
    uint32_t thread_id;
    uint32_t process_id;
    uint32_t kernel_time;
    uint32_t user_time;
    uint64_t time_stamp;
    struct etw_guid guid;
    struct etw_guid activity_id;
    struct etl_event_descriptor descriptor;
    struct etl_instance_extra instance; /* INSTANCE headers */
    const uint8_t *items;               /* extended items in file form */
    uint32_t items_size;
    const uint8_t *data; /* user data */
    uint32_t data_size;
};

/* A system header's hook id, for the log-file header 0x0000. */
static inline uint16_t etl_event_hook(const struct etl_event *e)
{
    return (uint16_t) (e->group << 8 | e->opcode);
}

bool etl_header_is_system(uint8_t header_type);

struct etl_iter {
    const uint8_t *data;
    uint32_t pos;
    uint32_t end;
    int error; /* 0, or -EBADMSG when the events ended at garbage: `pos` is where */
};

/* Iterates the events of one uncompressed buffer: data[0 .. min(end, len)). `end` as parsed. */
void etl_iter_init(struct etl_iter *it, const void *data, size_t len, uint32_t end);
/* 1 and the event; 0 at the end (filler, end of data, or garbage: see it->error), *ret is then
 * undefined. Records that hold nothing for a consumer (marker 0xB0, unknown header types, WNODE)
 * are stepped over by their size. */
int etl_iter_next(struct etl_iter *it, struct etl_event *ret);

/* Parses the one event at data. 0, -EBADMSG. What the iterator uses, for records of rings too. */
int etl_event_parse(const void *data, size_t len, struct etl_event *ret);

/* The next extended item: *pos starts at 0. 1 and the item, 0 at the end, -EBADMSG at garbage. */
struct etl_item {
    uint16_t type;
    uint16_t size;
    const uint8_t *data;
};
int etl_item_next(const struct etl_event *e, uint32_t *pos, struct etl_item *ret);

/* The log-file header, from the first event of a file (32- or 64-bit form, made equal). */
struct etl_logfile {
    uint32_t buffer_size;
    uint8_t version[4]; /* major, minor, sub, subminor */
    uint32_t provider_version;
    uint32_t processors;
    uint64_t end_time;
    uint32_t timer_resolution;
    uint32_t maximum_file_size;
    uint32_t log_file_mode;
    uint32_t buffers_written;
    uint32_t start_buffers;
    uint32_t pointer_size;
    uint32_t events_lost;
    uint32_t cpu_mhz;
    uint8_t time_zone[172];
    uint64_t boot_time;
    uint64_t perf_frequency;
    uint64_t start_time;
    uint32_t clock_type;
    uint32_t buffers_lost;
    uint64_t start_raw; /* the event's own stamp */
    /* UTF-16LE in the event, units without the NUL; may be unaligned. */
    const uint8_t *logger_name;
    uint32_t logger_name_len;
    const uint8_t *log_file_name;
    uint32_t log_file_name_len;
};
/* 0; -EBADMSG when e is not a log-file header event or is cut short. */
int etl_logfile_parse(const struct etl_event *e, struct etl_logfile *ret);
void etl_logfile_timebase(const struct etl_logfile *lf, struct etw_timebase *ret);

/* One field of an event's data, by its layout. */
struct etl_value {
    const struct etl_field *field;
    const uint8_t
        *data;     /* sid: the SID itself; strings: without the terminator; may be unaligned */
    uint32_t size; /* bytes of data */
    bool is_signed;
    bool is_integer; /* integer holds the value (also ptr, ft) */
    uint64_t integer;
};
struct etl_fields {
    const struct etl_field *next;
    const uint8_t *data;
    uint32_t pos;
    uint32_t size;
    uint8_t pointer_size;
};
/* Walks the data of e by row's fields. next: 1 and a value; 0 at the end; -EBADMSG: data are cut
 * short inside a field (what came before is good). A newer version's surplus is ignored, and data
 * that end at a field's border are an older version's. Arrays of wch are texts: up to their NUL;
 * other arrays are their bytes. */
/* Programs may write classic events with the pointers of another system than theirs, which only
 * shows in the data: 4 or 8, the width with which the row takes all of them, else the header's. */
uint8_t etl_row_pointer_size(const struct etl_class_row *row, const struct etl_event *e);
void etl_fields_init(struct etl_fields *f, const struct etl_class_row *row,
                     const struct etl_event *e);
int etl_fields_next(struct etl_fields *f, struct etl_value *ret);

/* Length of the SID at data, 0 when it is not one. "S-1-5-18" needs at most ETL_SID_STRING_MAX. */
#define ETL_SID_STRING_MAX 192
size_t etl_sid_size(const void *data, size_t len);
/* What classes have for a user: the words of a TOKEN_USER and a SID, or the null form. Returns the
 * bytes that it takes; ret_size 0: no SID. -EBADMSG: it does not fit. */
int etl_token_user(const void *data, size_t len, uint8_t pointer_size, const uint8_t **ret_sid,
                   uint32_t *ret_size);
char *etl_sid_format(const void *sid, size_t len, char buf[ETL_SID_STRING_MAX]);
