/* SPDX-License-Identifier: Apache-2.0
 *
 * Events and files of known content, for the tests of proto/etl, the fuzz corpus and whoever needs
 * an .etl file without a daemon. Everything follows from row and seed.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "etl/build.h"

/* Byte n of what a field of a sample holds. Never 0, so that texts have the length meant. */
static inline uint8_t sample_byte(uint32_t seed, uint32_t n)
{
    return (uint8_t) (1 + (seed * 31 + n * 7) % 120);
}

static inline uint32_t sample_fixed_size(enum etl_field_type t)
{
    switch (t) {
    case ETL_T_u8:
    case ETL_T_i8:
        return 1;
    case ETL_T_u16:
    case ETL_T_i16:
    case ETL_T_wch:
        return 2;
    case ETL_T_u32:
    case ETL_T_i32:
        return 4;
    case ETL_T_guid:
        return 16;
    case ETL_T_sid:
    case ETL_T_asz:
    case ETL_T_wsz:
    case ETL_T_bin:
        return 0;
    case ETL_T_port:
        return 2;
    case ETL_T_ip4:
        return 4;
    case ETL_T_ip6:
        return 16;
    default:
        return 8;
    }
}

/* The text of a text field: "s" and the seed in letters. */
static inline size_t sample_text(uint32_t seed, char out[16])
{
    size_t n = 1 + seed % 9;

    for (size_t i = 0; i < n; i++)
        out[i] = (char) ('a' + (seed + i) % 26);
    out[n] = 0;
    return n;
}

/* Appends the data of a row's event. */
static inline void sample_data(struct etl_writer *w, enum etl_row row, uint32_t seed)
{
    uint8_t sid[ETL_SID_MAX];
    uint32_t k = 0;
    char text[16];

    for (const struct etl_field *f = etl_rows[row].fields; f->name; f++, k++) {
        uint32_t size = sample_fixed_size(f->type) * (f->count ? f->count : 1u);
        switch (f->type) {
        case ETL_T_sid:
            etl_put_user_sid(w, sid, etl_sid_from_uid(seed, sid));
            break;
        case ETL_T_asz:
            sample_text(seed + k, text);
            etl_put_asz(w, text, SIZE_MAX);
            break;
        case ETL_T_wsz:
            sample_text(seed + k, text);
            etl_put_wsz(w, text, SIZE_MAX, 1000);
            break;
        case ETL_T_bin:
            sample_text(seed + k, text);
            etl_put_bin(w, text, (uint16_t) strlen(text));
            break;
        default:
            for (uint32_t i = 0; i < size; i++) {
                uint8_t b = sample_byte(seed + k, i);
                etl_put(w, &b, 1);
            }
        }
    }
}

/* A whole event. What etl_event_end() says. */
static inline int sample_event(struct etl_writer *w, enum etl_row row, uint32_t seed,
                               uint64_t stamp)
{
    uint32_t start = w->size;

    etl_event_begin(w, row);
    sample_data(w, row, seed);
    return etl_event_end(w, row, start, seed + 1, seed + 2, stamp);
}

static inline void sample_pad(struct etl_writer *w)
{
    static const uint8_t zeros[8];

    etl_put(w, zeros, etl_padded(w->size) - w->size);
}

/* The header kinds that we read and do not write. Each appends one event of `size` data bytes. */
static inline void sample_system(struct etl_writer *w, uint8_t type, uint16_t version,
                                 uint16_t hook, uint64_t stamp, uint32_t size)
{
    bool perfinfo = type == ETL_PERFINFO32 || type == ETL_PERFINFO64;
    bool compact = type == ETL_COMPACT32 || type == ETL_COMPACT64;
    uint16_t header = perfinfo ? 16 : compact ? 24 : 32;
    uint16_t total = (uint16_t) (header + size);
    uint8_t h[32] = {
        (uint8_t) version, (uint8_t) (version >> 8), type,           0xC0,
        (uint8_t) total,   (uint8_t) (total >> 8),   (uint8_t) hook, (uint8_t) (hook >> 8)};
    static const uint32_t ids[2] = {0x1111, 0x2222}, times[2] = {3, 4};

    memcpy(h + (perfinfo ? 8 : 16), &stamp, 8);
    if (!perfinfo)
        memcpy(h + 8, ids, 8);
    if (header == 32)
        memcpy(h + 24, times, 8);
    etl_put(w, h, header);
    for (uint32_t i = 0; i < size; i++) {
        uint8_t b = sample_byte(hook, i);
        etl_put(w, &b, 1);
    }
}

static inline void sample_full(struct etl_writer *w, uint8_t type, uint64_t stamp, uint32_t size)
{
    bool instance = type == ETL_INSTANCE32 || type == ETL_INSTANCE64;
    struct etl_full_header h = {
        .size = (uint16_t) (48 + (instance ? 24 : 0) + size),
        .header_type = type,
        .marker = 0xC0,
        .type = 5,
        .level = 4,
        .version = 0x203,
        .thread_id = 0x1111,
        .process_id = 0x2222,
        .time_stamp = stamp,
        .guid = {.data1 = 0xABCD},
        .kernel_time = 3,
        .user_time = 4,
    };
    struct etl_instance_extra x = {7, 8, {.data1 = 0xEF01}};

    etl_put(w, &h, sizeof(h));
    if (instance)
        etl_put(w, &x, sizeof(x));
    for (uint32_t i = 0; i < size; i++) {
        uint8_t b = sample_byte(type, i);
        etl_put(w, &b, 1);
    }
}

/* EVENT_HEADER with n_items items: a related activity, then stacks of two frames. */
static inline void sample_modern(struct etl_writer *w, uint8_t type, uint64_t stamp,
                                 uint32_t n_items, uint32_t size)
{
    struct etl_event_header h = {
        .size = (uint16_t) (80 + (n_items > 0 ? 24 + (n_items - 1) * 32 : 0) + size),
        .header_type = type,
        .marker = 0xC0,
        .flags = n_items > 0,
        .event_property = 8,
        .thread_id = 0x1111,
        .process_id = 0x2222,
        .time_stamp = stamp,
        .provider_id = {.data1 = 0xABCD},
        .descriptor = {.id = 300,
                       .version = 2,
                       .channel = 9,
                       .level = 3,
                       .opcode = 12,
                       .task = 77,
                       .keyword = 0x8000000000000001},
        .kernel_time = 3,
        .user_time = 4,
        .activity_id = {.data1 = 0x55},
    };

    etl_put(w, &h, sizeof(h));
    for (uint32_t i = 0; i < n_items; i++) {
        static const uint64_t stack[3] = {0, 0x1000, 0x2000};
        static const struct etw_guid related = {.data1 = 0x66};
        struct etl_item_header item = {
            .size = i == 0 ? 24 : 32,
            .type = i == 0 ? ETL_ITEM_RELATED_ACTIVITYID : ETL_ITEM_STACK_TRACE64,
            .linkage = i + 1 < n_items,
            .data_size = i == 0 ? 16 : 24,
        };
        etl_put(w, &item, sizeof(item));
        if (i == 0)
            etl_put(w, &related, sizeof(related));
        else
            etl_put(w, stack, sizeof(stack));
    }
    for (uint32_t i = 0; i < size; i++) {
        uint8_t b = sample_byte(type, i);
        etl_put(w, &b, 1);
    }
}

static inline void sample_message(struct etl_writer *w, uint16_t flags, uint64_t stamp,
                                  uint32_t size)
{
    static const struct etw_guid guid = {.data1 = 0xABCD};
    static const uint32_t sequence = 99, component = 88, ids[2] = {0x1111, 0x2222};
    uint32_t start = w->size;
    struct etl_message_header h = {.marker = 0x90, .number = 43, .flags = flags};

    etl_put(w, &h, sizeof(h));
    if (flags & ETL_MESSAGE_SEQUENCE)
        etl_put(w, &sequence, 4);
    if (flags & ETL_MESSAGE_GUID)
        etl_put(w, &guid, 16);
    else if (flags & ETL_MESSAGE_COMPONENTID)
        etl_put(w, &component, 4);
    if (flags & ETL_MESSAGE_TIMESTAMP)
        etl_put(w, &stamp, 8);
    if (flags & ETL_MESSAGE_SYSTEMINFO)
        etl_put(w, ids, 8);
    for (uint32_t i = 0; i < size; i++) {
        uint8_t b = sample_byte(flags, i);
        etl_put(w, &b, 1);
    }
    h.size = (uint16_t) (w->size - start);
    if (!w->overflow)
        memcpy(w->data + start, &h, sizeof(h));
}

/* What samples of files have in their header. */
#define SAMPLE_T0 1000000ull
#define SAMPLE_START_FILETIME 132392018711387363ull

static inline struct etl_logfile_params sample_params(uint32_t buffer_size, bool kernel)
{
    static const uint16_t name[] = u"sample", file[] = u"/var/tmp/sample.etl";

    return (struct etl_logfile_params){
        .buffer_size = buffer_size,
        .processors = 2,
        .maximum_file_size = 64,
        .log_file_mode = ETL_MODE_SEQUENTIAL,
        .boot_time = SAMPLE_START_FILETIME - 100000,
        .start_time = SAMPLE_START_FILETIME,
        .start_raw = SAMPLE_T0,
        .frequency = 1000000000,
        .clock_type = 1,
        .cpu_mhz = 2100,
        .tid = 11,
        .pid = 12,
        .logger_id = 3,
        .bias_minutes = -60,
        .kernel = kernel,
        .logger_name = name,
        .log_file_name = file,
    };
}

/* Fills buf with a file of whole buffers; the bytes used, 0 when they do not fit. Data buffer k
 * (from 0) has every row of the table, then the other header kinds; processor k % 2. */
static inline size_t sample_file(uint8_t *buf, size_t cap, uint32_t buffer_size, uint32_t buffers,
                                 uint32_t *ret_events)
{
    struct etl_logfile_params p = sample_params(buffer_size, true);
    struct etl_logfile_totals totals = {SAMPLE_START_FILETIME + 1000, buffers + 1, 5, 6};
    uint64_t stamp = SAMPLE_T0;
    uint32_t events = 2;

    if (cap / buffer_size < buffers + 1 || etl_logfile_buffer_put(buf, &p, &totals) < 0)
        return 0;
    for (uint32_t k = 0; k < buffers; k++) {
        uint8_t *b = buf + (size_t) (k + 1) * buffer_size;
        struct etl_writer w = {.data = b, .cap = buffer_size, .size = ETL_BUFFER_HEADER_SIZE};

        etl_buffer_begin(b, buffer_size, (uint16_t) (k % 2), 3, k + 1, ETL_BUFFER_GENERIC);
        for (int row = 0; row < ETL_ROW_COUNT; row++) {
            if (sample_event(&w, (enum etl_row) row, k + (uint32_t) row, ++stamp) < 0)
                return 0;
            events++;
            sample_pad(&w);
        }
        static const uint8_t system[] = {ETL_SYSTEM32, ETL_COMPACT32, ETL_COMPACT64, ETL_PERFINFO32,
                                         ETL_PERFINFO64};
        for (size_t i = 0; i < sizeof(system); i++, events++, sample_pad(&w))
            sample_system(&w, system[i], 0x8302, 0x0F2E, ++stamp, 45);
        static const uint8_t full[] = {ETL_FULL32, ETL_FULL64, ETL_INSTANCE32, ETL_INSTANCE64};
        for (size_t i = 0; i < sizeof(full); i++, events++, sample_pad(&w))
            sample_full(&w, full[i], ++stamp, 13);
        for (uint32_t i = 0; i < 4; i++, events++, sample_pad(&w))
            sample_modern(&w, i % 2 ? ETL_EVENT32 : ETL_EVENT64, ++stamp, i, 11);
        for (uint16_t flags = 0; flags < 256; flags += 17, events++, sample_pad(&w))
            sample_message(&w, flags, ++stamp, 9);
        if (w.overflow)
            return 0;
        etl_buffer_close(b, w.size, ++stamp, k + 1 == buffers ? ETL_BUFFER_FLUSH_MARKER : 0);
    }
    if (ret_events)
        *ret_events = events;
    return (size_t) (buffers + 1) * buffer_size;
}
