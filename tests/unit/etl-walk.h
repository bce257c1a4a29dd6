/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads everything that an .etl file holds, as a consumer would: for the tests of hostile input and
 * the fuzz targets. Ends the process (abort) when the readers break a promise of theirs.
 */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "etl/file.h"
#include "etl/iterate.h"
#include "etl/tracelogging.h"

struct walk {
    uint64_t buffers, events, fields, items, tokens, broken, lost_data;
    uint64_t sum; /* of every byte handed out, so that each is read */
};

#define WALK_CHECK(c)                                                                              \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

static inline void walk_bytes(struct walk *w, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w->sum += p[i];
}

/* Self-describing data; metadata is the data of item 11. */
static inline void walk_tracelogging(struct walk *w, const struct etl_event *e,
                                     const struct etl_item *metadata)
{
    struct etl_tl_value v;
    struct etl_tl tl;
    int token;

    if (etl_tl_init(&tl, metadata->data, metadata->size, e->data, e->data_size, e->pointer_size) <
        0) {
        w->broken++;
        return;
    }
    walk_bytes(w, (const uint8_t *) tl.event_name, tl.event_name_len);
    while ((token = etl_tl_next(&tl, &v)) > 0) {
        if (token != ETL_TL_VALUE)
            continue;
        if (v.name)
            walk_bytes(w, (const uint8_t *) v.name, v.name_len);
        WALK_CHECK(v.size == 0 || (v.data >= e->data && v.data + v.size <= e->data + e->data_size));
        walk_bytes(w, v.data, v.size);
        w->sum += v.integer;
        w->tokens++;
    }
    w->broken += token < 0;
}

static inline void walk_event(struct walk *w, const struct etl_event *e, const uint8_t *begin,
                              const uint8_t *end)
{
    const struct etl_class_row *row = NULL;
    struct etl_logfile lf;
    struct etl_item item;
    uint32_t pos = 0;
    int r;

    w->events++;
    WALK_CHECK(e->raw >= begin && e->raw + e->size <= end);
    WALK_CHECK(e->data >= e->raw && e->data + e->data_size <= e->raw + e->size);
    walk_bytes(w, e->raw, e->size);
    if (e->items) {
        while ((r = etl_item_next(e, &pos, &item)) == 1) {
            WALK_CHECK(item.data >= e->raw && item.data + item.size <= e->raw + e->size);
            walk_bytes(w, item.data, item.size);
            w->items++;
            if (item.type == ETL_ITEM_EVENT_SCHEMA_TL)
                walk_tracelogging(w, e, &item);
        }
        if (r < 0) {
            WALK_CHECK(e->data_size == 0);
            w->lost_data++;
        }
    }
    if (etl_logfile_parse(e, &lf) == 0) {
        struct etw_timebase tb;
        char time[ETW_RFC3339_MAX];
        walk_bytes(w, lf.logger_name, 2 * (size_t) lf.logger_name_len);
        walk_bytes(w, lf.log_file_name, 2 * (size_t) lf.log_file_name_len);
        etl_logfile_timebase(&lf, &tb);
        w->sum += etw_timebase_raw(&tb, etw_timebase_filetime(&tb, lf.end_time));
        w->sum += etw_timebase_unix_ns(&tb, lf.end_time);
        w->sum += (uint8_t) etw_rfc3339_filetime(lf.end_time, time)[0];
    }
    if (e->has_guid)
        row = etl_find_row(&e->guid, e->opcode, e->version);
    if (row) {
        struct etl_fields f;
        struct etl_value v;
        etl_fields_init(&f, row, e);
        while ((r = etl_fields_next(&f, &v)) == 1) {
            WALK_CHECK(v.data >= e->data && v.data + v.size <= e->data + e->data_size);
            walk_bytes(w, v.data, v.size);
            if (v.field->type == ETL_T_sid) {
                char text[ETL_SID_STRING_MAX];
                w->sum += strlen(etl_sid_format(v.data, v.size, text));
            }
            w->fields++;
        }
        w->broken += r < 0;
    }
}

/* One uncompressed buffer in memory. */
static inline void walk_buffer(struct walk *w, const uint8_t *buf, size_t len, uint32_t buffer_end)
{
    struct etl_iter it;
    struct etl_event e;

    etl_iter_init(&it, buf, len, buffer_end);
    while (etl_iter_next(&it, &e) == 1)
        walk_event(w, &e, buf, buf + len);
    WALK_CHECK(it.error == 0 || it.error == -EBADMSG);
    w->broken += it.error != 0;
    w->buffers++;
}

/* A file by descriptor. 0, or what etl_file_open_fd() or etl_file_index() said. */
static inline int walk_file(struct walk *w, int fd)
{
    const struct etl_buffer_ref *refs;
    struct etl_file *f;
    uint8_t *buf;
    bool truncated;
    size_t n;
    int r;

    r = etl_file_open_fd(fd, &f);
    if (r < 0)
        return r;
    r = etl_file_index(f, &refs, &n, &truncated);
    if (r < 0) {
        (void) etl_file_free(f);
        return r;
    }
    buf = malloc(etl_file_buffer_bytes(f));
    WALK_CHECK(buf);
    w->broken += truncated;
    for (size_t i = 0; i < n; i++) {
        struct etl_buffer_info info;
        size_t len;
        r = etl_file_read_buffer(f, &refs[i], buf, etl_file_buffer_bytes(f), &info, &len);
        WALK_CHECK(r != -ENOBUFS);
        if (r < 0) {
            w->broken++;
            continue;
        }
        WALK_CHECK(len <= etl_file_buffer_bytes(f));
        walk_buffer(w, buf, len, info.end);
    }
    free(buf);
    (void) etl_file_free(f);
    return 0;
}
