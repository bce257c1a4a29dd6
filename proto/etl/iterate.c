/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses buffer headers, event headers, extended items and the log-file header. Every byte may be
 * hostile: offsets are compared with what is there before they are used, fields are loaded with
 * memcpy (nothing is aligned). Not for memory that somebody else may change meanwhile: hand in a
 * copy. No allocation, any thread.
 */
#include "iterate.h"

#include <errno.h>
#include <string.h>

#include "../base/cleanup.h"
#include "../base/limits.h"
#include "peek.h"

/* ETW's largest buffer is 16 MiB; ours too. The rest is room for what is to come. */
#define BUFFER_SIZE_MAX (64u << 20)

/* Extension bits in the version word of system headers. */
#define VERSION_PEBS_INDEX 0x8000u
#define VERSION_PMC_SHIFT 8
#define VERSION_PMC_MASK 7u

#define WNODE_HEADER_SIZE 48u
#define WNODE_FLAG_TRACED_GUID 0x00020000u

#define LOAD(type, p)                                                                              \
    ({                                                                                             \
        type _v;                                                                                   \
        memcpy(&_v, (p), sizeof(_v));                                                              \
        _v;                                                                                        \
    })

int etl_buffer_parse(const void *data, size_t len, struct etl_buffer_info *ret)
{
    struct etl_buffer_header h;
    struct etl_buffer_info info;

    if (len < sizeof(h))
        return -ENODATA;
    memcpy(&h, data, sizeof(h));
    if (h.buffer_size < ETL_BUFFER_HEADER_SIZE || h.buffer_size > BUFFER_SIZE_MAX)
        return -EBADMSG;
    info = (struct etl_buffer_info){
        .size = h.buffer_size,
        .end = h.offset >= ETL_BUFFER_HEADER_SIZE ? h.offset : h.saved_offset,
        .time_stamp = h.time_stamp,
        .sequence_number = h.sequence_number,
        .logger_id = h.logger_id,
        .flags = h.flags,
        .type = h.type,
    };
    if (info.end < ETL_BUFFER_HEADER_SIZE)
        return -EBADMSG;
    if (h.flags & ETL_BUFFER_COMPRESSED) {
        if (info.end > BUFFER_SIZE_MAX)
            return -EBADMSG;
    } else if (info.end > info.size) {
        info.end = info.size;
    }
    /* Before Windows 8 the first byte is the processor, the second an alignment. */
    info.processor = h.flags & ETL_BUFFER_PROC_INDEX
                         ? (uint16_t) (h.processor_index & ETL_PROCESSOR_INDEX_MASK)
                         : (uint16_t) (h.processor_index & 0xFF);
    *ret = info;
    return 0;
}

bool etl_header_is_system(uint8_t header_type)
{
    switch (header_type) {
    case ETL_SYSTEM32:
    case ETL_SYSTEM64:
    case ETL_COMPACT32:
    case ETL_COMPACT64:
    case ETL_PERFINFO32:
    case ETL_PERFINFO64:
        return true;
    default:
        return false;
    }
}

static uint8_t header_pointer_size(uint8_t header_type)
{
    switch (header_type) {
    case ETL_SYSTEM32:
    case ETL_COMPACT32:
    case ETL_PERFINFO32:
    case ETL_FULL32:
    case ETL_INSTANCE32:
    case ETL_EVENT32:
        return 4;
    default:
        return 8;
    }
}

static void set_data(struct etl_event *e, uint32_t offset)
{
    e->data = e->raw + offset;
    e->data_size = e->size - offset;
}

/* SYSTEM, COMPACT, PERFINFO: version first, size at 4. len >= 8. */
static int parse_system(const uint8_t *p, size_t len, struct etl_event *e)
{
    bool perfinfo = e->header_type == ETL_PERFINFO32 || e->header_type == ETL_PERFINFO64;
    bool compact = e->header_type == ETL_COMPACT32 || e->header_type == ETL_COMPACT64;
    uint32_t header = perfinfo  ? sizeof(struct etl_perfinfo_header)
                      : compact ? offsetof(struct etl_system_header, kernel_time)
                                : sizeof(struct etl_system_header);
    uint16_t version = LOAD(uint16_t, p);
    const struct etw_guid *guid;

    e->size = LOAD(uint16_t, p + offsetof(struct etl_system_header, size));
    if (e->size < header || e->size > len)
        return -EBADMSG;
    e->version = (uint8_t) version;
    e->opcode = p[offsetof(struct etl_system_header, type)];
    e->group = p[offsetof(struct etl_system_header, group)];
    e->has_time = true;
    if (perfinfo) {
        e->time_stamp = LOAD(uint64_t, p + offsetof(struct etl_perfinfo_header, time_stamp));
    } else {
        e->time_stamp = LOAD(uint64_t, p + offsetof(struct etl_system_header, time_stamp));
        e->thread_id = LOAD(uint32_t, p + offsetof(struct etl_system_header, thread_id));
        e->process_id = LOAD(uint32_t, p + offsetof(struct etl_system_header, process_id));
        if (!compact) {
            e->kernel_time = LOAD(uint32_t, p + offsetof(struct etl_system_header, kernel_time));
            e->user_time = LOAD(uint32_t, p + offsetof(struct etl_system_header, user_time));
        }
    }
    guid = etl_hook_guid(e->group, e->opcode);
    if (guid) {
        e->guid = *guid;
        e->has_guid = true;
    }
    if (version & VERSION_PEBS_INDEX)
        header += 8;
    header += 8 * (version >> VERSION_PMC_SHIFT & VERSION_PMC_MASK);
    if (header > e->size)
        return -EBADMSG;
    set_data(e, header);
    return 0;
}

/* FULL, INSTANCE: EVENT_TRACE_HEADER. */
static int parse_full(const uint8_t *p, size_t len, struct etl_event *e)
{
    bool instance = e->header_type == ETL_INSTANCE32 || e->header_type == ETL_INSTANCE64;
    struct etl_full_header h;
    uint32_t header = sizeof(h) + (instance ? sizeof(e->instance) : 0);

    e->size = LOAD(uint16_t, p);
    if (e->size < header || e->size > len)
        return -EBADMSG;
    memcpy(&h, p, sizeof(h));
    e->opcode = h.type;
    e->level = h.level;
    e->version = (uint8_t) h.version;
    e->thread_id = h.thread_id;
    e->process_id = h.process_id;
    e->time_stamp = h.time_stamp;
    e->has_time = true;
    e->guid = h.guid;
    e->has_guid = true;
    e->kernel_time = h.kernel_time;
    e->user_time = h.user_time;
    if (instance)
        memcpy(&e->instance, p + sizeof(h), sizeof(e->instance));
    set_data(e, header);
    return 0;
}

/* One item of the n bytes at p. Returns its size in the file, or -EBADMSG. */
static int item_parse(const uint8_t *p, uint32_t n, struct etl_item_header *ret)
{
    struct etl_item_header h;

    if (n < sizeof(h))
        return -EBADMSG;
    memcpy(&h, p, sizeof(h));
    if (h.size < sizeof(h) || h.size > n || h.size % 8 != 0 || h.data_size > h.size - sizeof(h))
        return -EBADMSG;
    *ret = h;
    return h.size;
}

static int parse_event(const uint8_t *p, size_t len, struct etl_event *e)
{
    struct etl_event_header h;
    struct etl_item_header item = {.linkage = 1};
    uint32_t offset = sizeof(h);
    int r;

    e->size = LOAD(uint16_t, p);
    if (e->size < sizeof(h) || e->size > len)
        return -EBADMSG;
    memcpy(&h, p, sizeof(h));
    e->flags = h.flags;
    e->event_property = h.event_property;
    e->thread_id = h.thread_id;
    e->process_id = h.process_id;
    e->time_stamp = h.time_stamp;
    e->has_time = true;
    e->guid = h.provider_id;
    e->has_guid = true;
    e->descriptor = h.descriptor;
    e->opcode = h.descriptor.opcode;
    e->version = h.descriptor.version;
    e->level = h.descriptor.level;
    e->kernel_time = h.kernel_time;
    e->user_time = h.user_time;
    e->activity_id = h.activity_id;
    e->items = p + offset;
    if (h.flags & ETL_EVENT_FLAG_EXTENDED_INFO) {
        while (item.linkage & 1) {
            r = item_parse(p + offset, e->size - offset, &item);
            if (r < 0) {
                /* Nobody can say where the user data begin. The event's size is good: deliver it
                 * without data; etl_item_next() reports the garbage. */
                offset = e->size;
                break;
            }
            offset += (uint32_t) r;
        }
        e->items_size = offset - (uint32_t) sizeof(h);
    }
    set_data(e, offset);
    return 0;
}

/* WPP. */
static int parse_message(const uint8_t *p, size_t len, struct etl_event *e)
{
    struct etl_message_header h;
    uint32_t offset = sizeof(h), need;

    e->header_type = ETL_MESSAGE;
    e->size = LOAD(uint16_t, p);
    if (e->size < sizeof(h) || e->size > len)
        return -EBADMSG;
    memcpy(&h, p, sizeof(h));
    need = offset + (h.flags & ETL_MESSAGE_SEQUENCE ? 4u : 0u) +
           (h.flags & ETL_MESSAGE_GUID          ? 16u
            : h.flags & ETL_MESSAGE_COMPONENTID ? 4u
                                                : 0u) +
           (h.flags & ETL_MESSAGE_TIMESTAMP ? 8u : 0u) +
           (h.flags & ETL_MESSAGE_SYSTEMINFO ? 8u : 0u);
    if (need > e->size)
        return -EBADMSG;
    e->message_number = h.number;
    e->message_flags = h.flags;
    e->pointer_size = h.flags & ETL_MESSAGE_POINTER64 ? 8 : h.flags & ETL_MESSAGE_POINTER32 ? 4 : 0;
    if (h.flags & ETL_MESSAGE_SEQUENCE) {
        e->message_sequence = LOAD(uint32_t, p + offset);
        offset += 4;
    }
    if (h.flags & ETL_MESSAGE_GUID) {
        e->guid = LOAD(struct etw_guid, p + offset);
        e->has_guid = true;
        offset += 16;
    } else if (h.flags & ETL_MESSAGE_COMPONENTID) {
        e->component_id = LOAD(uint32_t, p + offset);
        offset += 4;
    }
    if (h.flags & ETL_MESSAGE_TIMESTAMP) {
        e->time_stamp = LOAD(uint64_t, p + offset);
        e->has_time = true;
        offset += 8;
    }
    if (h.flags & ETL_MESSAGE_SYSTEMINFO) {
        e->thread_id = LOAD(uint32_t, p + offset);
        e->process_id = LOAD(uint32_t, p + offset + 4);
        offset += 8;
    }
    set_data(e, offset);
    return 0;
}

/* Kinds that carry nothing for a consumer: their size, to step over them, or -EBADMSG. */
static int skip_size(uint32_t mark, const uint8_t *p, size_t len)
{
    uint32_t size;

    if (mark >> 31) {
        size = mark & 0xFFFF;
        return size >= 8 && size <= len ? (int) size : -EBADMSG;
    }
    /* A WNODE as loggers before Windows 2000 kept it. Its flag tells it from garbage. */
    size = mark;
    if (size < WNODE_HEADER_SIZE || size > ETW_EVENT_MAX || size > len ||
        !(LOAD(uint32_t, p + 44) & WNODE_FLAG_TRACED_GUID))
        return -EBADMSG;
    return (int) size;
}

/* gcc clears the whole structure by `rep stos`, which takes longer than the rest of the parsing;
 * pieces it clears by vector stores. */
static inline void event_clear(struct etl_event *e)
{
    enum { PIECE = 48 };
    uint8_t *p = (uint8_t *) e;
    size_t i = 0;

    for (; i + PIECE <= sizeof(*e); i += PIECE)
        memset(p + i, 0, PIECE);
    memset(p + i, 0, sizeof(*e) - i);
}

/* 1 and an event; 0: e->size bytes to step over; -EBADMSG. */
static int parse_any(const uint8_t *p, size_t len, struct etl_event *e)
{
    uint32_t mark;
    uint8_t marker;
    int r;

    if (len < 8)
        return -EBADMSG;
    mark = LOAD(uint32_t, p);
    marker = (uint8_t) (mark >> 24);
    event_clear(e);
    e->raw = p;
    e->header_type = (uint8_t) (mark >> 16);
    e->thread_id = UINT32_MAX;
    e->process_id = UINT32_MAX;
    if (marker == ETL_MARKER_MESSAGE) {
        r = parse_message(p, len, e);
        return r < 0 ? r : 1;
    }
    if (marker == ETL_MARKER_TRACE) {
        e->pointer_size = header_pointer_size(e->header_type);
        switch (e->header_type) {
        case ETL_SYSTEM32:
        case ETL_SYSTEM64:
        case ETL_COMPACT32:
        case ETL_COMPACT64:
        case ETL_PERFINFO32:
        case ETL_PERFINFO64:
            r = parse_system(p, len, e);
            return r < 0 ? r : 1;
        case ETL_FULL32:
        case ETL_FULL64:
        case ETL_INSTANCE32:
        case ETL_INSTANCE64:
            r = parse_full(p, len, e);
            return r < 0 ? r : 1;
        case ETL_EVENT32:
        case ETL_EVENT64:
            r = parse_event(p, len, e);
            return r < 0 ? r : 1;
        case ETL_ERROR:
            /* Its layout is not known: everything behind the marker is opaque data. */
            e->size = mark & 0xFFFF;
            if (e->size < 8 || e->size > len)
                return -EBADMSG;
            e->pointer_size = 0;
            set_data(e, 4);
            return 1;
        default:
            break;
        }
    } else if (marker != ETL_MARKER_ULONG32_TIME && mark >> 31) {
        return -EBADMSG;
    }
    r = skip_size(mark, p, len);
    if (r < 0)
        return r;
    e->size = (uint32_t) r;
    return 0;
}

int etl_event_parse(const void *data, size_t len, struct etl_event *ret)
{
    struct etl_event e;
    int r;

    r = parse_any(data, len, &e);
    if (r <= 0)
        return -EBADMSG;
    *ret = e;
    return 0;
}

void etl_iter_init(struct etl_iter *it, const void *data, size_t len, uint32_t end)
{
    *it = (struct etl_iter){
        .data = data,
        .pos = ETL_BUFFER_HEADER_SIZE,
        .end = len < end ? (uint32_t) len : end,
    };
}

int etl_iter_next(struct etl_iter *it, struct etl_event *ret)
{
    for (;;) {
        uint32_t left, step;
        int r;

        if (it->error || it->pos >= it->end)
            return 0;
        left = it->end - it->pos;
        if (left >= 4 && LOAD(uint32_t, it->data + it->pos) == ETL_FILLER)
            return 0;
        r = parse_any(it->data + it->pos, left, ret);
        if (r < 0) {
            it->error = r;
            return 0;
        }
        /* The size is >= 8, so that this ends; the last event's padding may be cut off. */
        step = ALIGN_UP(ret->size, 8u);
        it->pos = step < left ? it->pos + step : it->end;
        if (r == 1)
            return 1;
    }
}

bool etl_peek_stamp(const void *data, size_t len, uint64_t *ret)
{
    const uint8_t *p = data;
    uint32_t mark, offset;

    if (len < 8)
        return false;
    mark = LOAD(uint32_t, p);
    if (mark >> 24 == ETL_MARKER_MESSAGE) {
        uint16_t flags = LOAD(uint16_t, p + offsetof(struct etl_message_header, flags));
        if (!(flags & ETL_MESSAGE_TIMESTAMP))
            return false;
        offset = 8 + (flags & ETL_MESSAGE_SEQUENCE ? 4u : 0u) +
                 (flags & ETL_MESSAGE_GUID          ? 16u
                  : flags & ETL_MESSAGE_COMPONENTID ? 4u
                                                    : 0u);
    } else if (mark >> 24 == ETL_MARKER_TRACE) {
        switch ((uint8_t) (mark >> 16)) {
        case ETL_PERFINFO32:
        case ETL_PERFINFO64:
            offset = offsetof(struct etl_perfinfo_header, time_stamp);
            break;
        case ETL_SYSTEM32:
        case ETL_SYSTEM64:
        case ETL_COMPACT32:
        case ETL_COMPACT64:
        case ETL_FULL32:
        case ETL_FULL64:
        case ETL_INSTANCE32:
        case ETL_INSTANCE64:
        case ETL_EVENT32:
        case ETL_EVENT64:
            offset = offsetof(struct etl_system_header, time_stamp);
            break;
        default:
            return false;
        }
    } else {
        return false;
    }
    if (offset + 8 > len)
        return false;
    *ret = LOAD(uint64_t, p + offset);
    return true;
}

int etl_item_next(const struct etl_event *e, uint32_t *pos, struct etl_item *ret)
{
    struct etl_item_header h;
    int r;

    if (*pos >= e->items_size)
        return 0;
    r = item_parse(e->items + *pos, e->items_size - *pos, &h);
    if (r < 0)
        return r;
    *ret = (struct etl_item){
        .type = h.type,
        .size = h.data_size,
        .data = e->items + *pos + sizeof(h),
    };
    /* The parser ended at the last item, or at garbage that lies in items_size. */
    *pos += (uint32_t) r;
    return 1;
}

/* One UTF-16 text of the data at *pos: where it is and its units. A missing NUL ends it with the
 * data. */
static void header_text(const struct etl_event *e, uint32_t *pos, const uint8_t **ret_text,
                        uint32_t *ret_units)
{
    uint32_t units = 0;

    *ret_text = e->data + *pos;
    while (*pos + 2 * units + 1 < e->data_size && LOAD(uint16_t, e->data + *pos + 2 * units) != 0)
        units++;
    *ret_units = units;
    *pos += 2 * units + 2;
    if (*pos > e->data_size)
        *pos = e->data_size;
}

#define HOOK_LOGFILE_HEADER 0x0000
/* TRACE_LOGFILE_HEADER: the two pointers in the middle make the difference. */
#define LOGFILE32_FIXED 0x110u
#define LOGFILE64_FIXED 0x118u

int etl_logfile_parse(const struct etl_event *e, struct etl_logfile *ret)
{
    const uint8_t *p = e->data, *tail;
    struct etl_logfile lf;
    uint32_t fixed, zone;

    if ((e->header_type != ETL_SYSTEM32 && e->header_type != ETL_SYSTEM64) ||
        etl_event_hook(e) != HOOK_LOGFILE_HEADER)
        return -EBADMSG;
    fixed = e->header_type == ETL_SYSTEM32 ? LOGFILE32_FIXED : LOGFILE64_FIXED;
    zone = e->header_type == ETL_SYSTEM32 ? 0x40 : 0x48;
    if (e->data_size < fixed)
        return -EBADMSG;
    tail = p + fixed - 0x20;
    lf = (struct etl_logfile){
        .buffer_size = LOAD(uint32_t, p),
        .provider_version = LOAD(uint32_t, p + 0x08),
        .processors = LOAD(uint32_t, p + 0x0C),
        .end_time = LOAD(uint64_t, p + 0x10),
        .timer_resolution = LOAD(uint32_t, p + 0x18),
        .maximum_file_size = LOAD(uint32_t, p + 0x1C),
        .log_file_mode = LOAD(uint32_t, p + 0x20),
        .buffers_written = LOAD(uint32_t, p + 0x24),
        .start_buffers = LOAD(uint32_t, p + 0x28),
        .pointer_size = LOAD(uint32_t, p + 0x2C),
        .events_lost = LOAD(uint32_t, p + 0x30),
        .cpu_mhz = LOAD(uint32_t, p + 0x34),
        .boot_time = LOAD(uint64_t, tail),
        .perf_frequency = LOAD(uint64_t, tail + 0x08),
        .start_time = LOAD(uint64_t, tail + 0x10),
        .clock_type = LOAD(uint32_t, tail + 0x18),
        .buffers_lost = LOAD(uint32_t, tail + 0x1C),
        .start_raw = e->time_stamp,
    };
    memcpy(lf.version, p + 0x04, sizeof(lf.version));
    memcpy(lf.time_zone, p + zone, sizeof(lf.time_zone));
    header_text(e, &fixed, &lf.logger_name, &lf.logger_name_len);
    header_text(e, &fixed, &lf.log_file_name, &lf.log_file_name_len);
    *ret = lf;
    return 0;
}

void etl_logfile_timebase(const struct etl_logfile *lf, struct etw_timebase *ret)
{
    *ret = (struct etw_timebase){
        .start_filetime = lf->start_time,
        .start_raw = lf->start_raw,
        .frequency = lf->perf_frequency,
        .type = lf->clock_type,
        .cpu_mhz = lf->cpu_mhz,
    };
}
