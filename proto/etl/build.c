/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes buffers and events in file layout into memory of the caller. The only writer: what it
 * makes, iterate.c reads back. No allocation, no state; one thread per buffer at a time.
 */
#include "build.h"

#include <errno.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/cleanup.h"
#include "../base/limits.h"
#include "../base/utf16.h"

#define BUFFER_STATE_GENERAL_LOGGING 1u
/* The Windows whose layouts we write, see etl(5). */
#define OS_MAJOR 10u
#define OS_MINOR 0u
#define OS_BUILD 19041u
#define TRACELOGGING_CHANNEL 11u
/* Log format: 1.5 is the ordinary file; buffers above 1 MiB came with 2.0. */
#define LOG_FORMAT_ORDINARY 0x0501u
#define LOG_FORMAT_LARGE_BUFFERS 0x0002u
#define ORDINARY_BUFFER_MAX (1u << 20)

void etl_buffer_begin(void *buf, uint32_t size, uint16_t cpu, uint16_t logger_id, int64_t sequence,
                      uint16_t type)
{
    struct etl_buffer_header h = {
        .buffer_size = size,
        .saved_offset = ETL_BUFFER_HEADER_SIZE,
        .current_offset = ETL_BUFFER_HEADER_SIZE,
        .sequence_number = sequence,
        .processor_index = cpu & ETL_PROCESSOR_INDEX_MASK,
        .logger_id = logger_id,
        .state = BUFFER_STATE_GENERAL_LOGGING,
        .offset = ETL_BUFFER_HEADER_SIZE,
        .flags = ETL_BUFFER_PROC_INDEX,
        .type = type,
    };

    memcpy(buf, &h, sizeof(h));
}

void etl_buffer_close_header(struct etl_buffer_header *h, uint32_t end, uint64_t stamp,
                             uint16_t flags)
{
    h->saved_offset = end;
    h->offset = end;
    /* Windows leaves the cursor past the end in data buffers; readers ignore it. */
    h->current_offset = h->type == ETL_BUFFER_HEADER ? end : end + h->buffer_size;
    h->time_stamp = stamp;
    h->state = ETL_BUFFER_STATE_FLUSH;
    h->flags |= flags;
}

void etl_buffer_close(void *buf, uint32_t end, uint64_t stamp, uint16_t flags)
{
    struct etl_buffer_header h;

    memcpy(&h, buf, sizeof(h));
    etl_buffer_close_header(&h, end, stamp, flags);
    memcpy(buf, &h, sizeof(h));
    memset((uint8_t *) buf + end, 0xFF, h.buffer_size - end);
}

uint32_t etl_header_size(enum etl_row row)
{
    switch (etl_rows[row].header) {
    case ETL_SYSTEM64:
        return sizeof(struct etl_system_header);
    case ETL_PERFINFO64:
        return sizeof(struct etl_perfinfo_header);
    case ETL_FULL64:
        return sizeof(struct etl_full_header);
    default:
        return sizeof(struct etl_event_header);
    }
}

uint32_t etl_header_put(void *out, enum etl_row row, uint32_t data_size, uint32_t tid, uint32_t pid,
                        uint64_t stamp)
{
    const struct etl_class_row *c = &etl_rows[row];
    uint32_t header = etl_header_size(row), size;

    if (__builtin_add_overflow(header, data_size, &size) || size > ETW_EVENT_MAX)
        return 0;
    switch (c->header) {
    case ETL_SYSTEM64: {
        struct etl_system_header h = {
            .version = c->version,
            .header_type = ETL_SYSTEM64,
            .marker = ETL_MARKER_TRACE,
            .size = (uint16_t) size,
            .type = c->opcode,
            .group = c->group,
            .thread_id = tid,
            .process_id = pid,
            .time_stamp = stamp,
        };
        memcpy(out, &h, sizeof(h));
        break;
    }
    case ETL_PERFINFO64: {
        struct etl_perfinfo_header h = {
            .version = c->version,
            .header_type = ETL_PERFINFO64,
            .marker = ETL_MARKER_TRACE,
            .size = (uint16_t) size,
            .type = c->opcode,
            .group = c->group,
            .time_stamp = stamp,
        };
        memcpy(out, &h, sizeof(h));
        break;
    }
    case ETL_FULL64: {
        struct etl_full_header h = {
            .size = (uint16_t) size,
            .header_type = ETL_FULL64,
            .marker = ETL_MARKER_TRACE,
            .type = c->opcode,
            .version = c->version,
            .thread_id = tid,
            .process_id = pid,
            .time_stamp = stamp,
            .guid = c->guid,
        };
        memcpy(out, &h, sizeof(h));
        break;
    }
    default: {
        struct etl_event_header h = {
            .size = (uint16_t) size,
            .header_type = ETL_EVENT64,
            .marker = ETL_MARKER_TRACE,
            .flags = ETL_EVENT_FLAG_EXTENDED_INFO,
            .thread_id = tid,
            .process_id = pid,
            .time_stamp = stamp,
            .provider_id = c->guid,
            .descriptor =
                {
                    .channel = TRACELOGGING_CHANNEL,
                    .level = c->level,
                    .keyword = c->keyword,
                },
        };
        memcpy(out, &h, sizeof(h));
        break;
    }
    }
    return header;
}

void etl_event_set_stamp(void *event, uint64_t stamp)
{
    const uint8_t *p = event;
    size_t at = p[2] == ETL_PERFINFO64 || p[2] == ETL_PERFINFO32
                    ? offsetof(struct etl_perfinfo_header, time_stamp)
                    : offsetof(struct etl_system_header, time_stamp);

    memcpy((uint8_t *) event + at, &stamp, sizeof(stamp));
}

/* Room for size bytes, or NULL and overflow. */
static uint8_t *writer_take(struct etl_writer *w, uint32_t size)
{
    uint8_t *p;

    if (w->overflow || size > w->cap - w->size) {
        w->overflow = true;
        return NULL;
    }
    p = w->data + w->size;
    w->size += size;
    return p;
}

void etl_put(struct etl_writer *w, const void *data, uint32_t size)
{
    uint8_t *p = writer_take(w, size);

    if (p && size > 0)
        memcpy(p, data, size);
}

void etl_put_asz(struct etl_writer *w, const char *s, size_t len)
{
    uint8_t *p;

    len = !s ? 0 : len == SIZE_MAX ? strlen(s) : strnlen(s, len);
    if (len >= UINT32_MAX) {
        w->overflow = true;
        return;
    }
    p = writer_take(w, (uint32_t) len + 1);
    if (!p)
        return;
    if (len > 0)
        memcpy(p, s, len);
    p[len] = 0;
}

void etl_put_wsz(struct etl_writer *w, const char *s, size_t len, size_t max_units)
{
    size_t units;
    uint8_t *p;

    if (!s) {
        s = "";
        len = 0;
    }
    units = etw_utf8_to_utf16_size(s, len);
    if (units > max_units)
        units = max_units;
    if (units >= UINT32_MAX / 2 - 1) {
        w->overflow = true;
        return;
    }
    p = writer_take(w, 2 * (uint32_t) units + 2);
    if (!p)
        return;
    /* A cut between characters may leave one unit unused: give it back. */
    w->size -= 2 * (uint32_t) (units - etw_utf8_to_utf16(s, len, p, units + 1));
}

void etl_put_user_sid(struct etl_writer *w, const void *sid, uint32_t sid_size)
{
    /* TOKEN_USER: where the SID is (only 0 has a meaning to readers), attributes. */
    static const uint64_t token_user[2] = {sizeof(token_user), 0};
    static const uint32_t no_sid;

    if (!sid || sid_size == 0) {
        etl_put(w, &no_sid, sizeof(no_sid));
        return;
    }
    etl_put(w, token_user, sizeof(token_user));
    etl_put(w, sid, sid_size);
}

void etl_put_bin(struct etl_writer *w, const void *data, uint16_t size)
{
    etl_put(w, &size, sizeof(size));
    etl_put(w, data, size);
}

/* TraceLogging types of classes.def's. Two bytes where an OutType follows. */
enum {
    TL_CHAIN = 0x80, /* OutType follows */
    TL_CCOUNT = 0x20,
    TL_OUT_UTF8 = 35,
};

static uint8_t tl_in_type(enum etl_field_type type)
{
    switch (type) {
    case ETL_T_wsz:
        return 1;
    case ETL_T_asz:
        return 2;
    case ETL_T_i8:
        return 3;
    case ETL_T_u8:
        return 4;
    case ETL_T_i16:
        return 5;
    case ETL_T_u16:
    case ETL_T_wch:
        return 6;
    case ETL_T_i32:
        return 7;
    case ETL_T_u32:
        return 8;
    case ETL_T_i64:
        return 9;
    case ETL_T_u64:
    case ETL_T_stamp:
    case ETL_T_ticks:
        return 10;
    case ETL_T_bin:
        return 14;
    case ETL_T_guid:
        return 15;
    case ETL_T_ft:
        return 17;
    case ETL_T_sid:
        return 19;
    case ETL_T_ptr:
    case ETL_T_hex64:
    case ETL_T_size: /* the last four are read only */
    case ETL_T_ip4:
    case ETL_T_ip6:
    case ETL_T_port:
        return 21;
    }
    return 0;
}

/* Begins an item; returns where, for item_end(). */
static uint32_t item_begin(struct etl_writer *w)
{
    static const struct etl_item_header zero;
    static const uint16_t blob_size;
    uint32_t at = w->size;

    etl_put(w, &zero, sizeof(zero));
    /* Both blobs begin with their own size. */
    etl_put(w, &blob_size, sizeof(blob_size));
    return at;
}

static void item_end(struct etl_writer *w, uint32_t at, uint16_t type, bool more)
{
    static const uint8_t padding[8];
    uint32_t data = w->size - at - (uint32_t) sizeof(struct etl_item_header);
    uint16_t data_size = (uint16_t) data;
    struct etl_item_header h = {.type = type, .linkage = more, .data_size = data_size};

    etl_put(w, padding, ALIGN_UP(w->size - at, 8u) - (w->size - at));
    if (w->overflow)
        return;
    h.size = (uint16_t) (w->size - at);
    memcpy(w->data + at, &h, sizeof(h));
    memcpy(w->data + at + sizeof(h), &data_size, sizeof(data_size));
}

/* Items 12 and 11 straight from the table: a few hundred bytes for events that are rare, and no
 * state to make first. */
static void put_tracelogging_items(struct etl_writer *w, const struct etl_class_row *c)
{
    static const uint8_t no_tags;
    uint32_t at = item_begin(w);

    etl_put_asz(w, c->class_name, SIZE_MAX);
    item_end(w, at, ETL_ITEM_PROV_TRAITS, true);

    at = item_begin(w);
    etl_put(w, &no_tags, sizeof(no_tags));
    etl_put_asz(w, c->event_name, SIZE_MAX);
    for (const struct etl_field *f = c->fields; f->name; f++) {
        uint8_t in = tl_in_type(f->type);
        bool counted = f->count > 1;
        etl_put_asz(w, f->name, SIZE_MAX);
        if (f->type == ETL_T_asz)
            etl_put(w, (const uint8_t[]){in | TL_CHAIN, TL_OUT_UTF8}, 2);
        else
            etl_put(w, (const uint8_t[]){counted ? in | TL_CCOUNT : in}, 1);
        if (counted)
            etl_put(w, &f->count, sizeof(f->count));
    }
    item_end(w, at, ETL_ITEM_EVENT_SCHEMA_TL, false);
}

void etl_event_begin(struct etl_writer *w, enum etl_row row)
{
    uint32_t size = etl_header_size(row);
    uint8_t *p = writer_take(w, size);

    if (p)
        memset(p, 0, size);
    if (etl_rows[row].header == ETL_EVENT64)
        put_tracelogging_items(w, &etl_rows[row]);
}

int etl_event_end(struct etl_writer *w, enum etl_row row, uint32_t start, uint32_t tid,
                  uint32_t pid, uint64_t stamp)
{
    uint32_t header = etl_header_size(row), size = w->size - start;

    if (w->overflow || size < header ||
        etl_header_put(w->data + start, row, size - header, tid, pid, stamp) == 0) {
        w->size = start;
        w->overflow = false;
        return -ENOSPC;
    }
    return (int) size;
}

static uint32_t header_event_size(const struct etl_logfile_params *p)
{
    return (uint32_t) sizeof(struct etl_system_header) +
           (uint32_t) sizeof(struct etl_EventTrace_Header) +
           2 * (uint32_t) (etw_utf16_len(p->logger_name, ETW_NAME_MAX) + 1 +
                           etw_utf16_len(p->log_file_name, ETW_PATH_MAX) + 1);
}

uint32_t etl_logfile_buffer_need(const struct etl_logfile_params *p)
{
    uint32_t need = ETL_BUFFER_HEADER_SIZE + etl_padded(header_event_size(p));

    if (p->kernel)
        need += etl_padded((uint32_t) (sizeof(struct etl_system_header) +
                                       sizeof(struct etl_EventTrace_Extension)));
    return need;
}

static void set_totals(struct etl_EventTrace_Header *h, const struct etl_logfile_totals *totals)
{
    h->EndTime = totals->end_time;
    h->BuffersWritten = totals->buffers_written;
    h->EventsLost = totals->events_lost;
    h->BuffersLost = totals->buffers_lost;
}

static void put_units(struct etl_writer *w, const uint16_t *s, size_t max)
{
    static const uint16_t nul;

    etl_put(w, s, 2 * (uint32_t) etw_utf16_len(s, max));
    etl_put(w, &nul, sizeof(nul));
}

/* Bytes 0 up to the next multiple of 8. */
static void put_padding(struct etl_writer *w)
{
    static const uint8_t zeros[8];

    etl_put(w, zeros, etl_padded(w->size) - w->size);
}

int etl_logfile_buffer_put(void *buf, const struct etl_logfile_params *p,
                           const struct etl_logfile_totals *totals)
{
    struct etl_writer w = {.data = buf, .cap = p->buffer_size, .size = ETL_BUFFER_HEADER_SIZE};
    struct etl_EventTrace_Header h = {
        .BufferSize = p->buffer_size,
        .Version =
            OS_MAJOR | OS_MINOR << 8 |
            (p->buffer_size > ORDINARY_BUFFER_MAX ? LOG_FORMAT_LARGE_BUFFERS : LOG_FORMAT_ORDINARY)
                << 16,
        .ProviderVersion = OS_BUILD,
        .NumberOfProcessors = p->processors,
        .TimerResolution = ETW_TIMER_RESOLUTION,
        .MaxFileSize = p->maximum_file_size,
        .LogFileMode = p->log_file_mode,
        .StartBuffers = 1,
        .PointerSize = 8,
        .CPUSpeed = p->cpu_mhz,
        .BootTime = p->boot_time,
        .PerfFreq = p->frequency,
        .StartTime = p->start_time,
        .ReservedFlags = p->clock_type,
    };
    uint32_t start;
    int r;

    if (p->buffer_size < etl_logfile_buffer_need(p))
        return -ENOSPC;
    /* TIME_ZONE_INFORMATION begins with Bias; without names and dates there is no daylight time. */
    memcpy(h.TimeZoneInformation, &p->bias_minutes, sizeof(p->bias_minutes));
    set_totals(&h, totals);
    etl_buffer_begin(buf, p->buffer_size, 0, p->logger_id, 0, ETL_BUFFER_HEADER);

    start = w.size;
    etl_event_begin(&w, ETL_ROW_EventTrace_Header);
    etl_put(&w, &h, sizeof(h));
    put_units(&w, p->logger_name, ETW_NAME_MAX);
    put_units(&w, p->log_file_name, ETW_PATH_MAX);
    r = etl_event_end(&w, ETL_ROW_EventTrace_Header, start, p->tid, p->pid, p->start_raw);
    if (r < 0)
        return r;
    put_padding(&w);

    if (p->kernel) {
        struct etl_EventTrace_Extension x = {.KernelEventVersion = ETL_KERNEL_EVENT_VERSION};
        start = w.size;
        etl_event_begin(&w, ETL_ROW_EventTrace_Extension);
        etl_put(&w, &x, sizeof(x));
        r = etl_event_end(&w, ETL_ROW_EventTrace_Extension, start, p->tid, p->pid, p->start_raw);
        if (r < 0)
            return r;
        put_padding(&w);
    }
    etl_buffer_close(buf, w.size, 0, ETL_BUFFER_FLUSH_MARKER);
    return 0;
}

void etl_logfile_buffer_totals(const void *buf, struct etl_logfile_totals *ret)
{
    const uint8_t *at =
        (const uint8_t *) buf + ETL_BUFFER_HEADER_SIZE + sizeof(struct etl_system_header);
    struct etl_EventTrace_Header h;

    memcpy(&h, at, sizeof(h));
    *ret = (struct etl_logfile_totals){
        .end_time = h.EndTime,
        .buffers_written = h.BuffersWritten,
        .events_lost = h.EventsLost,
        .buffers_lost = h.BuffersLost,
    };
}

void etl_logfile_buffer_update(void *buf, const struct etl_logfile_totals *totals)
{
    uint8_t *at = (uint8_t *) buf + ETL_BUFFER_HEADER_SIZE + sizeof(struct etl_system_header);
    struct etl_EventTrace_Header h;

    memcpy(&h, at, sizeof(h));
    set_totals(&h, totals);
    memcpy(at, &h, sizeof(h));
}
