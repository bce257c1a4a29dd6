/* SPDX-License-Identifier: Apache-2.0
 *
 * See file_sink.h. The way of a buffer: queue -> write under way (up to ETWD_SINK_DEPTH) -> written
 * or failed -> settled, in the order it was put. When a write fails, those under way end, the file
 * is cut back to its last good buffer, the failed buffers are lost, those written behind them are
 * written again in their place; then one write at a time tries the same place until one succeeds.
 */
#include "file_sink_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fileio.h"
#include "base/limits.h"
#include "base/log.h"
#include "behind.h"
#include "io/worker.h"
#include "keep.h"
#include "state/state.h"

int file_sink_new(struct loop *l, struct worker *w, struct worker *syncer, struct session *s,
                  int fd, struct file_sink **ret)
{
    int r;

    struct file_sink *f = calloc(1, sizeof(*f));
    if (!f) {
        (void) safe_close(fd);
        return -ENOMEM;
    }
    *f = (struct file_sink){
        .loop = l,
        .worker = w,
        .syncer = syncer,
        .session = s,
        .fd = fd,
        .buffer_bytes = s->buffer_bytes,
        .queue = {BUFFER_NONE, BUFFER_NONE, 0},
        .flight = {BUFFER_NONE, BUFFER_NONE, 0},
        .turn = {.fd = -1},
    };
    f->header = aligned_alloc(4096, ALIGN_UP((size_t) s->buffer_bytes, (size_t) 4096));
    if (!f->header) {
        r = -ENOMEM;
        goto fail;
    }
    r = loop_timer_new(l, sink_header_fired, f, &f->header_timer);
    if (r < 0)
        goto fail;
    *ret = f;
    return 0;

fail:
    file_sink_free(f);
    return r;
}

struct file_sink *file_sink_free(struct file_sink *f)
{
    if (!f)
        return NULL;
    worker_close(f->worker, f->fd);
    worker_close(f->worker, f->turn.fd);
    free(f->turn.header);
    loop_timer_free(f->header_timer);
    behind_free(f->behind);
    slots_done(&f->slots);
    while (f->waiters) {
        struct waiter *w = f->waiters;
        f->waiters = w->next;
        free(w);
    }
    free(f->header);
    free(f);
    return NULL;
}

int file_sink_shape(struct file_sink *f, uint64_t bytes)
{
    uint32_t mode = f->session->properties.log_file_mode;

    if (mode & ETL_MODE_PREALLOCATE)
        f->reserved = bytes;
    if (!(mode & ETL_MODE_CIRCULAR))
        return 0;
    uint64_t buffers = bytes / f->buffer_bytes;
    if (buffers < 2 || buffers - 1 > ETWD_CIRCULAR_BUFFERS_MAX)
        return -EBADMSG;
    return slots_init(&f->slots, buffers - 1);
}

void file_sink_keep_start(struct file_sink *f)
{
    session_touch(f->session);
    slots_keep(&f->slots, f->next_ticket);
}

int sink_behind_begin(struct file_sink *f)
{
    if (f->cache == 0 && f->interval_ns == 0)
        return 0;
    return behind_new(f->loop, f->syncer, f->fd, f->cache, f->interval_ns, &f->behind);
}

int file_sink_write_behind(struct file_sink *f, const struct etw_conf *conf)
{
    f->cache = (uint64_t) conf->file_cache_mb << 20;
    f->interval_ns = conf->sync_interval * ETW_NSEC_PER_SEC;
    return sink_behind_begin(f);
}

void file_sink_write_by(struct file_sink *f, struct worker *w)
{
    f->writer = w;
}

int sink_write(struct file_sink *f, const void *data, size_t len, uint64_t offset, int index,
               loop_write_fn fn, void *userdata)
{
    if (f->writer)
        return loop_write_by(f->loop, f->writer, f->fd, data, len, offset, fn, userdata);
    return loop_write(f->loop, f->fd, data, len, offset, index, fn, userdata);
}

static struct buffer *item(struct file_sink *f, uint32_t index)
{
    return buffers_get(f->session->buffers, index);
}

static void list_put(struct file_sink *f, struct list *l, uint32_t index)
{
    item(f, index)->next = BUFFER_NONE;
    if (l->n++ == 0)
        l->first = index;
    else
        item(f, l->last)->next = index;
    l->last = index;
}

static uint32_t list_take(struct file_sink *f, struct list *l)
{
    uint32_t index = l->first;
    l->first = item(f, index)->next;
    if (--l->n == 0)
        l->first = l->last = BUFFER_NONE;
    return index;
}

int file_sink_trouble(const struct file_sink *f)
{
    return f->trouble;
}

/* Where the buffer that is written after `ahead` more of them lies. */
static uint64_t place_of_next(const struct file_sink *f, uint32_t ahead)
{
    return slots_place(&f->slots, f->committed / f->buffer_bytes - 1 + ahead);
}

uint64_t sink_file_end(const struct file_sink *f)
{
    return (1 + slots_used(&f->slots, f->committed / f->buffer_bytes - 1)) * f->buffer_bytes;
}

uint64_t sink_settled(struct file_sink *f)
{
    if (f->flight.n > 0)
        return item(f, f->flight.first)->ticket - 1;
    if (f->queue.n > 0)
        return item(f, f->queue.first)->ticket - 1;
    return f->next_ticket;
}

/* Buffers. */

static void place_put(struct file_sink *f, uint64_t place, uint32_t events)
{
    uint32_t old = slots_put(&f->slots, place, events);

    if (f->slots.n == 0)
        return;
    session_touch(f->session);
    f->session->counters.overwritten += old;
    keep_slot(f->session, place, events);
}

static void settle(struct file_sink *f, uint32_t index, bool lost)
{
    if (!lost) {
        if (f->behind)
            behind_wrote(f->behind, item(f, index)->offset, f->buffer_bytes);
        place_put(f, place_of_next(f, 0), item(f, index)->events);
        f->committed += f->buffer_bytes;
    }
    session_buffer_done(f->session, index, lost);
}

static void trouble_begins(struct file_sink *f, int result)
{
    if (f->trouble == 0) {
        f->lost_in_trouble = 0;
        /* A disk that is full, has room, is full again would fill the journal. */
        uint64_t now = etw_clock_boottime();
        f->trouble_told = now >= f->tell_after;
        if (f->trouble_told) {
            f->tell_after = now + ETWD_TROUBLE_LOG_S * ETW_NSEC_PER_SEC;
            log_warning("session '%s': file '%s': failed to write: %s; its events are lost until "
                        "there is room again",
                        f->session->properties.name, f->session->properties.log_file,
                        strerror(-result));
        }
    }
    f->trouble = result;
}

static void trouble_ends(struct file_sink *f)
{
    if (f->trouble == 0)
        return;
    f->trouble = 0;
    if (!f->trouble_told)
        return;
    log_notice("session '%s': file '%s': writing goes on, %llu buffers were lost",
               f->session->properties.name, f->session->properties.log_file,
               (unsigned long long) f->lost_in_trouble);
}

/* A place in the middle of a circular file whose buffer could not be written: no events, until the
 * next one is written there. */
static int blank_write(const struct file_sink *f, uint64_t offset)
{
    _cleanup_free_ uint8_t *block = aligned_alloc(4096, HEADER_WRITE);
    if (!block)
        return -ENOMEM;
    memset(block, 0xFF, HEADER_WRITE);
    etl_buffer_begin(block, f->buffer_bytes, 0, f->session->id, 0, ETL_BUFFER_GENERIC);
    return etw_pwrite(f->fd, block, HEADER_WRITE, offset);
}

static void cut_run(void *userdata)
{
    struct file_sink *f = userdata;
    f->job_result = ftruncate(f->fd, (off_t) f->cut.end) < 0 ? -errno : 0;
    if (f->job_result == 0)
        f->job_result = sink_reserve(f);
    for (uint32_t i = 0; i < f->cut.n_blank; i++) {
        int r = blank_write(f, f->cut.blank[i]);
        if (f->job_result == 0)
            f->job_result = r;
    }
}

static void cut_prepare(struct file_sink *f)
{
    f->cut.end = sink_file_end(f);
    f->cut.n_blank = 0;
    for (uint32_t i = f->flight.first; i != BUFFER_NONE; i = item(f, i)->next) {
        if (item(f, i)->offset >= f->cut.end)
            continue;
        f->cut.blank[f->cut.n_blank++] = item(f, i)->offset;
        place_put(f, item(f, i)->offset / f->buffer_bytes - 1, 0);
    }
}

/* The file ends at its last good buffer again. What failed is lost, the rest goes round again. */
static void cut_done(void *userdata)
{
    struct file_sink *f = userdata;
    struct state *st = f->session->kept;
    f->on_worker = false;
    state_begin(st);
    if (f->job_result < 0)
        log_warning("session '%s': file '%s': failed to cut it back after a failed write: %s",
                    f->session->properties.name, f->session->properties.log_file,
                    strerror(-f->job_result));
    struct list again = {BUFFER_NONE, BUFFER_NONE, 0};
    while (f->flight.n > 0) {
        uint32_t index = list_take(f, &f->flight);
        if (item(f, index)->result < 0) {
            f->lost_in_trouble++;
            settle(f, index, true);
        } else
            list_put(f, &again, index);
    }
    while (f->queue.n > 0)
        list_put(f, &again, list_take(f, &f->queue));
    f->queue = again;
    f->finished = f->failed = 0;
    sink_header_soon(f);
    sink_pump(f);
    state_commit(st);
}

static void buffer_written(int result, struct file_sink *f)
{
    struct state *st = f->session->kept;

    state_begin(st);
    f->finished++;
    if (result < 0) {
        f->failed++;
        trouble_begins(f, result);
    } else if (f->failed == 0)
        trouble_ends(f);

    /* In order, up to the first that is under way or failed. */
    while (f->flight.n > 0 && item(f, f->flight.first)->result == 0) {
        settle(f, list_take(f, &f->flight), false);
        f->finished--;
    }
    if (f->failed > 0 && f->finished == f->flight.n) {
        f->on_worker = true;
        cut_prepare(f);
        if (worker_submit(f->worker, cut_run, cut_done, f) < 0) {
            cut_run(f); /* without memory: here, rather than a gap in the file */
            cut_done(f);
        }
    } else {
        sink_header_soon(f);
        sink_pump(f);
    }
    state_commit(st);
}

struct flight_note {
    struct file_sink *sink;
    uint32_t index;
};

static void write_done(int result, void *userdata)
{
    struct flight_note note = *(struct flight_note *) userdata;
    free(userdata);
    item(note.sink, note.index)->result = result;
    buffer_written(result, note.sink);
}

/* Starts what may be started: writes, then the header for those who wait, then the end. */
void sink_pump(struct file_sink *f)
{
    int r;

    if (!f->open || f->on_worker || f->failed > 0)
        return;
    /* A successor would not know of it yet: file_sink_released() comes. */
    if (f->session->kept && f->session->dirty)
        return;
    uint32_t depth = f->trouble ? 1 : slots_depth(&f->slots, ETWD_SINK_DEPTH);
    while (f->queue.n > 0 && f->flight.n < depth) {
        if (f->turn.fd >= 0 && item(f, f->queue.first)->ticket > f->turn.ticket)
            break;
        uint32_t index = list_take(f, &f->queue);
        struct buffer *b = item(f, index);
        b->offset = (1 + place_of_next(f, f->flight.n)) * f->buffer_bytes;
        b->result = RESULT_PENDING;
        list_put(f, &f->flight, index);
        struct flight_note *note = malloc(sizeof(*note));
        r = note ? 0 : -ENOMEM;
        if (note) {
            *note = (struct flight_note){.sink = f, .index = index};
            r = sink_write(f, b->data, f->buffer_bytes, b->offset, b->fixed, write_done, note);
        }
        if (r < 0) {
            free(note);
            b->result = r;
            buffer_written(r, f);
            return;
        }
    }
    if (f->turn.fd >= 0 && f->flight.n == 0) {
        sink_turn_begin(f);
        return;
    }
    if (f->flight.n > 0 || f->queue.n > 0) {
        if (sink_waiter_ready(f))
            sink_header_write(f);
        return;
    }
    if (f->closing && !f->header_final) {
        f->header_final = true;
        sink_header_write(f);
    } else if (sink_waiter_ready(f))
        sink_header_write(f);
}

void file_sink_put(struct file_sink *f, uint32_t index)
{
    session_touch(f->session);
    item(f, index)->ticket = ++f->next_ticket;
    buffers_touch(f->session->buffers, index);
    list_put(f, &f->queue, index);
    sink_pump(f);
}

int file_sink_sync(struct file_sink *f, file_sink_fn fn, void *userdata)
{
    struct waiter *w = malloc(sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct waiter){.ticket = f->next_ticket, .fn = fn, .userdata = userdata};
    struct waiter **p = &f->waiters;
    while (*p)
        p = &(*p)->next;
    *p = w;
    sink_pump(f);
    return 0;
}

int file_sink_close(struct file_sink *f, file_sink_fn fn, void *userdata)
{
    f->closing = true;
    f->fn = fn;
    f->userdata = userdata;
    sink_pump(f);
    return 0;
}

/* Handing on. */

void file_sink_released(struct file_sink *f)
{
    sink_pump(f);
}

int file_sink_fd(const struct file_sink *f)
{
    return f->fd;
}

void file_sink_position(const struct file_sink *f, struct file_sink_position *ret)
{
    *ret = (struct file_sink_position){
        .committed = f->committed,
        .ticket = f->next_ticket,
        .kept = f->slots.kept,
    };
}

const uint32_t *file_sink_slots(const struct file_sink *f, uint64_t *ret_n)
{
    *ret_n = f->slots.n;
    return f->slots.events;
}

const void *file_sink_header(const struct file_sink *f)
{
    return f->header;
}

struct ticket {
    uint64_t ticket;
    uint32_t index;
};

static int by_ticket(const void *a, const void *b)
{
    const struct ticket *x = a, *y = b;
    return x->ticket < y->ticket ? -1 : x->ticket > y->ticket;
}

int file_sink_resume(struct file_sink *f, const struct file_sink_position *p, const uint32_t *slots,
                     const void *header)
{
    struct buffers *b = f->session->buffers;
    _cleanup_free_ struct ticket *waiting = calloc(buffers_out(b) + 1, sizeof(*waiting));
    uint32_t n = 0;

    if (!waiting)
        return -ENOMEM;
    if (p->committed < f->buffer_bytes || p->committed % f->buffer_bytes != 0 ||
        (f->slots.n == 0 && p->committed / f->buffer_bytes > UINT32_MAX) ||
        (p->kept > 0 && p->kept >= f->slots.n))
        return -EBADMSG;
    for (uint32_t i = 0; i < buffers_maximum(b); i++)
        if (item(f, i)->ticket)
            waiting[n++] = (struct ticket){item(f, i)->ticket, i};
    qsort(waiting, n, sizeof(*waiting), by_ticket);
    for (uint32_t i = 0; i < n; i++)
        if (waiting[i].ticket > p->ticket || (i > 0 && waiting[i].ticket == waiting[i - 1].ticket))
            return -EBADMSG;
    for (uint32_t i = 0; i < n; i++)
        list_put(f, &f->queue, waiting[i].index);
    memcpy(f->header, header, HEADER_WRITE);
    etl_logfile_buffer_totals(f->header, &f->before);
    if (f->slots.n > 0)
        memcpy(f->slots.events, slots, f->slots.n * sizeof(*slots));
    f->slots.kept = p->kept;
    f->committed = p->committed;
    f->next_ticket = p->ticket;
    f->open = true;
    return 0;
}
