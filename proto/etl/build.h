/* SPDX-License-Identifier: Apache-2.0
 *
 * The only writer of buffers and events. The caller owns the memory; one thread per buffer at a
 * time. No allocation but where said.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "classes.h"
#include "layout.h"

/* What Extension and EndExtension say, from the Windows whose layouts we write. */
#define ETL_KERNEL_EVENT_VERSION 0x46u

/* Bytes that an event of `size` takes in a buffer. */
static inline uint32_t etl_padded(uint32_t size)
{
    return (size + 7u) & ~7u;
}

/* Begins a buffer of `size` bytes at buf: header with end 0x48. `sequence` is given when begun. */
void etl_buffer_begin(void *buf, uint32_t size, uint16_t cpu, uint16_t logger_id, int64_t sequence,
                      uint16_t type);
/* Closes it: events end at `end` (a multiple of 8), flushed at `stamp`; the rest becomes 0xFF.
 * `flags` are added to PROC_INDEX, which every buffer of ours has. */
void etl_buffer_close(void *buf, uint32_t end, uint64_t stamp, uint16_t flags);

/* What the above makes of the header. */
void etl_buffer_close_header(struct etl_buffer_header *h, uint32_t end, uint64_t stamp,
                             uint16_t flags);

/* Group masks and row <-> header: fills the header of a row's event (SYSTEM64, PERFINFO64, FULL64)
 * for `data_size` bytes of user data (TraceLogging: and items); returns the header's size, 0 when
 * the event would exceed ETW_EVENT_MAX. Stamp 0 is allowed (patched later by
 * etl_event_set_stamp). tid, pid are ignored where the header has none. */
uint32_t etl_header_put(void *out, enum etl_row row, uint32_t data_size, uint32_t tid, uint32_t pid,
                        uint64_t stamp);
uint32_t etl_header_size(enum etl_row row);
void etl_event_set_stamp(void *event, uint64_t stamp);

/* Appends variable parts to a record under construction: bounded, never past `cap`; `overflow` is
 * set and the rest dropped. */
struct etl_writer {
    uint8_t *data;
    uint32_t size; /* used */
    uint32_t cap;
    bool overflow;
};
void etl_put(struct etl_writer *w, const void *data, uint32_t size);
void etl_put_asz(struct etl_writer *w, const char *s, size_t len); /* len SIZE_MAX: to the NUL */
/* UTF-8 in, UTF-16 out, cut with an ellipsis to max_units (without the NUL). NULL texts are empty
 * ones, in etl_put_asz() too; a NUL inside the text ends it. */
void etl_put_wsz(struct etl_writer *w, const char *s, size_t len, size_t max_units);
/* TOKEN_USER words, then the SID; NULL sid: the 4-byte null form. */
void etl_put_user_sid(struct etl_writer *w, const void *sid, uint32_t sid_size);
void etl_put_bin(struct etl_writer *w, const void *data, uint16_t size);

/* SIDs of Linux: S-1-22-1-uid; root S-1-5-18. Returns the size; `out` takes 28 bytes. */
#define ETL_SID_MAX 28
uint32_t etl_sid_from_uid(uint32_t uid, uint8_t out[ETL_SID_MAX]);

/* A whole event of classes.def: header, fixed part, then what `more` appends. Begin reserves the
 * header in w, end fills it in; -ENOSPC on overflow or above ETW_EVENT_MAX (w is then as before
 * begin), else the event's size (unpadded).
 *     start = w.size;
 *     etl_event_begin(&w, ETL_ROW_Process_Start);
 *     etl_put(&w, &fixed, sizeof(fixed)); etl_put_...;
 *     r = etl_event_end(&w, ETL_ROW_Process_Start, start, tid, pid, stamp);
 * TraceLogging rows get EVENT_HEADER64 with items 12 and 11 from the table. */
void etl_event_begin(struct etl_writer *w, enum etl_row row);
int etl_event_end(struct etl_writer *w, enum etl_row row, uint32_t start, uint32_t tid,
                  uint32_t pid, uint64_t stamp);

/* The first buffer of a file: header event and, for kernel sessions, an empty Extension. */
struct etl_logfile_params {
    uint32_t buffer_size;
    uint32_t processors;
    uint32_t maximum_file_size;
    uint32_t log_file_mode;
    uint64_t boot_time;  /* FILETIME */
    uint64_t start_time; /* FILETIME of start_raw */
    uint64_t start_raw;
    uint64_t frequency;
    uint32_t clock_type;
    uint32_t cpu_mhz;
    uint32_t tid; /* the controller's */
    uint32_t pid;
    uint16_t logger_id;
    int32_t bias_minutes; /* UTC = local + bias */
    bool kernel;
    const uint16_t *logger_name; /* NUL-terminated */
    const uint16_t *log_file_name;
};
/* What changes while the session runs and at its end. */
struct etl_logfile_totals {
    uint64_t end_time;        /* FILETIME; 0 while it runs */
    uint32_t buffers_written; /* first one included */
    uint32_t events_lost;
    uint32_t buffers_lost;
};
/* Bytes of events that the first buffer needs, header included: the least BufferSize. */
uint32_t etl_logfile_buffer_need(const struct etl_logfile_params *p);
/* Writes the whole first buffer (p->buffer_size bytes), closed. -ENOSPC: it does not fit. */
int etl_logfile_buffer_put(void *buf, const struct etl_logfile_params *p,
                           const struct etl_logfile_totals *totals);
/* The totals in a first buffer made by the above, or checked by etl_append_check(). */
void etl_logfile_buffer_totals(const void *buf, struct etl_logfile_totals *ret);
/* Changes them. */
void etl_logfile_buffer_update(void *buf, const struct etl_logfile_totals *totals);
