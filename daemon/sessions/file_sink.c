/* SPDX-License-Identifier: Apache-2.0
 *
 * See file_sink.h. The way of a buffer: queue -> write under way (up to ETWD_SINK_DEPTH) -> written
 * or failed -> settled, in the order it was put. When a write fails, those under way end, the file
 * is cut back to its last good buffer, the failed buffers are lost, those written behind them are
 * written again in their place; then one write at a time tries the same place until one succeeds.
 */
#include "file_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "behind.h"
#include "clock.h"
#include "etl/append.h"
#include "internal.h"
#include "io/loop.h"
#include "io/worker.h"
#include "keep.h"
#include "slots.h"
#include "state/state.h"

/* What is rewritten of the first buffer, and kept of it: the totals lie within its first 400 bytes;
 * 4096 suits any disk's sector. Buffers have at least that. */
#define HEADER_WRITE FILE_SINK_HEADER
#define RESULT_PENDING 1
_Static_assert(HEADER_WRITE == ETL_APPEND_HEADER, "what is kept of a file that is added to");

struct waiter {
    uint64_t ticket; /* all up to this one are settled */
    file_sink_fn fn;
    void *userdata;
    struct waiter *next;
};

struct list {
    uint32_t first, last;
    uint32_t n;
};

struct file_sink {
    struct loop *loop;
    struct worker *worker;
    struct worker *syncer;
    struct worker *writer; /* NULL: the loop */
    struct session *session;
    int fd;
    uint32_t buffer_bytes;
    bool open;
    bool closing;
    bool on_worker; /* a job is under way */
    bool turning;   /* it is the one that begins another file */
    struct list queue;
    struct list flight;
    uint32_t finished; /* of those in flight */
    uint32_t failed;
    int trouble; /* of the last write */
    uint64_t lost_in_trouble;
    bool trouble_told;
    uint64_t tell_after;
    uint64_t committed; /* in all; what a circular file overwrites counts, too */
    struct slots slots;
    uint64_t reserved;     /* bytes that the file has on the disk from the start; 0: as it grows */
    struct behind *behind; /* NULL: the kernel alone says when pages go */
    uint64_t next_ticket;
    struct waiter *waiters;
    /* The first buffer. */
    uint8_t *header;
    struct etl_logfile_totals before; /* of sessions that wrote to the file before */
    uint64_t header_settled;          /* what the header under way, or the last, tells of */
    bool header_busy;
    bool header_dirty;
    bool header_final;
    struct loop_timer *header_timer;
    bool header_timer_armed;
    file_sink_fn fn; /* of open or close */
    void *userdata;
    /* Another file is to take the place of this one. */
    struct {
        int fd;          /* -1: none is */
        uint64_t ticket; /* the last one of this file */
        uint8_t *header;
        uint64_t old_end;
        file_sink_fn fn;
        void *userdata;
    } turn;
    uint64_t cache, interval_ns; /* of behind */
    /* For the job. */
    int job_result;
    bool job_direct;
    uint64_t job_end; /* of what is in the file and stays; 0: nothing */
    struct {
        uint64_t end; /* of the file */
        uint64_t blank[ETWD_SINK_DEPTH];
        uint32_t n_blank;
    } cut;
};

static void pump(struct file_sink *f);
static void header_write(struct file_sink *f);
static void header_fired(void *userdata);

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
    r = loop_timer_new(l, header_fired, f, &f->header_timer);
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

static int behind_begin(struct file_sink *f)
{
    if (f->cache == 0 && f->interval_ns == 0)
        return 0;
    return behind_new(f->loop, f->syncer, f->fd, f->cache, f->interval_ns, &f->behind);
}

int file_sink_write_behind(struct file_sink *f, const struct etw_conf *conf)
{
    f->cache = (uint64_t) conf->file_cache_mb << 20;
    f->interval_ns = conf->sync_interval * ETW_NSEC_PER_SEC;
    return behind_begin(f);
}

void file_sink_write_by(struct file_sink *f, struct worker *w)
{
    f->writer = w;
}

static int sink_write(struct file_sink *f, const void *data, size_t len, uint64_t offset, int index,
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

/* What of the file is there. */
static uint64_t file_end(const struct file_sink *f)
{
    return (1 + slots_used(&f->slots, f->committed / f->buffer_bytes - 1)) * f->buffer_bytes;
}

/* All tickets up to this one are in the file or lost: queue and flight are in their order. */
static uint64_t settled(struct file_sink *f)
{
    if (f->flight.n > 0)
        return item(f, f->flight.first)->ticket - 1;
    if (f->queue.n > 0)
        return item(f, f->queue.first)->ticket - 1;
    return f->next_ticket;
}

/* The header. */

static uint32_t sum(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static void totals_now(const struct file_sink *f, struct etl_logfile_totals *ret)
{
    struct session *s = f->session;
    if (s->refresh)
        s->refresh(s);
    *ret = (struct etl_logfile_totals){
        .end_time = f->header_final ? session_clock_filetime(s) : 0,
        .buffers_written = (uint32_t) (file_end(f) / f->buffer_bytes),
        .events_lost = sum(f->before.events_lost, session_events_lost(s)),
        .buffers_lost = sum(f->before.buffers_lost, s->counters.log_buffers_lost),
    };
}

static void close_run(void *userdata)
{
    struct file_sink *f = userdata;
    /* Gives back what was reserved and not used. */
    if (f->reserved > 0)
        (void) ftruncate(f->fd, (off_t) file_end(f));
    /* A write error that the page cache kept to itself shows here. */
    f->job_result = fsync(f->fd) < 0 ? -errno : 0;
    f->fd = safe_close(f->fd);
}

static void close_done(void *userdata)
{
    struct file_sink *f = userdata;
    f->on_worker = false;
    f->fn(f->job_result, f->userdata);
}

/* Tells those whose buffers are settled, and the header in the file knows of it. */
static void waiters_run(struct file_sink *f, int result)
{
    struct waiter *ready = NULL, **tail = &ready;
    for (struct waiter **p = &f->waiters; *p;) {
        struct waiter *w = *p;
        if (w->ticket <= f->header_settled) {
            *p = w->next;
            w->next = NULL;
            *tail = w;
            tail = &w->next;
        } else
            p = &w->next;
    }
    while (ready) {
        struct waiter *w = ready;
        ready = w->next;
        w->fn(result, w->userdata);
        free(w);
    }
}

static void header_written(int result, void *userdata)
{
    struct file_sink *f = userdata;
    f->header_busy = false;
    if (f->header_dirty) {
        header_write(f);
        return;
    }
    waiters_run(f, result);
    if (f->header_final) {
        if (result < 0)
            log_warning("session '%s': file '%s': the final header could not be written: %s",
                        f->session->properties.name, f->session->properties.log_file,
                        strerror(-result));
        if (f->behind)
            behind_end(f->behind);
        f->on_worker = true;
        if (worker_submit(f->syncer, close_run, close_done, f) < 0) {
            close_run(f);
            close_done(f);
        }
        return;
    }
    pump(f);
}

static void header_write(struct file_sink *f)
{
    struct etl_logfile_totals totals;
    int r;

    /* During a job the file's end may change hands. */
    if (f->header_busy || f->turning) {
        f->header_dirty = true;
        return;
    }
    loop_timer_disarm(f->header_timer);
    f->header_timer_armed = false;
    f->header_dirty = false;
    totals_now(f, &totals);
    f->header_settled = settled(f);
    etl_logfile_buffer_update(f->header, &totals);
    f->header_busy = true;
    r = sink_write(f, f->header, HEADER_WRITE, 0, -1, header_written, f);
    if (r < 0)
        header_written(r, f);
}

static void header_fired(void *userdata)
{
    struct file_sink *f = userdata;
    f->header_timer_armed = false;
    header_write(f);
}

static void header_soon(struct file_sink *f)
{
    if (f->header_timer_armed || f->header_final)
        return;
    uint64_t when = etw_clock_boottime() + ETWD_HEADER_INTERVAL_MS * 1000000ULL;
    f->header_timer_armed = loop_timer_arm(f->header_timer, when) == 0;
}

/* Whether a waiter has all it waits for but the header. */
static bool waiter_ready(struct file_sink *f)
{
    uint64_t upto = settled(f);
    for (const struct waiter *w = f->waiters; w; w = w->next)
        if (w->ticket <= upto)
            return true;
    return false;
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
    ssize_t n = pwrite(f->fd, block, HEADER_WRITE, (off_t) offset);
    return n == HEADER_WRITE ? 0 : n < 0 ? -errno : -EIO;
}

static int reserve(const struct file_sink *f)
{
    if (f->reserved == 0)
        return 0;
    int r;
    do
        r = fallocate(f->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t) f->reserved);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : 0;
}

static void cut_run(void *userdata)
{
    struct file_sink *f = userdata;
    f->job_result = ftruncate(f->fd, (off_t) f->cut.end) < 0 ? -errno : 0;
    if (f->job_result == 0)
        f->job_result = reserve(f);
    for (uint32_t i = 0; i < f->cut.n_blank; i++) {
        int r = blank_write(f, f->cut.blank[i]);
        if (f->job_result == 0)
            f->job_result = r;
    }
}

static void cut_prepare(struct file_sink *f)
{
    f->cut.end = file_end(f);
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
    header_soon(f);
    pump(f);
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
        header_soon(f);
        pump(f);
    }
    state_commit(st);
}

struct flight_note {
    struct file_sink *sink;
    uint32_t index;
};

static void turn_begin(struct file_sink *f);

static void write_done(int result, void *userdata)
{
    struct flight_note note = *(struct flight_note *) userdata;
    free(userdata);
    item(note.sink, note.index)->result = result;
    buffer_written(result, note.sink);
}

/* Starts what may be started: writes, then the header for those who wait, then the end. */
static void pump(struct file_sink *f)
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
        turn_begin(f);
        return;
    }
    if (f->flight.n > 0 || f->queue.n > 0) {
        if (waiter_ready(f))
            header_write(f);
        return;
    }
    if (f->closing && !f->header_final) {
        f->header_final = true;
        header_write(f);
    } else if (waiter_ready(f))
        header_write(f);
}

void file_sink_put(struct file_sink *f, uint32_t index)
{
    session_touch(f->session);
    item(f, index)->ticket = ++f->next_ticket;
    buffers_touch(f->session->buffers, index);
    list_put(f, &f->queue, index);
    pump(f);
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
    pump(f);
    return 0;
}

int file_sink_close(struct file_sink *f, file_sink_fn fn, void *userdata)
{
    f->closing = true;
    f->fn = fn;
    f->userdata = userdata;
    pump(f);
    return 0;
}

/* Opening: on the worker, since truncating and the first write may wait for the disk. */

static int write_all(int fd, const uint8_t *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pwrite(fd, data + done, len - done, (off_t) done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t) n;
    }
    return 0;
}

static void open_run(void *userdata)
{
    struct file_sink *f = userdata;
    /* The library may have opened it so for fear of a FIFO. io_uring would give up instead of
     * waiting for the disk. */
    int flags = fcntl(f->fd, F_GETFL);
    if (flags >= 0 && (flags & O_NONBLOCK))
        (void) fcntl(f->fd, F_SETFL, flags & ~O_NONBLOCK);
    /* Asked for first, so that a disk without room for it leaves what is in the file. */
    f->job_result = reserve(f);
    if (f->job_result < 0) {
        struct stat sb;
        if (fstat(f->fd, &sb) == 0)
            (void) ftruncate(f->fd, sb.st_size);
        return;
    }
    if (ftruncate(f->fd, (off_t) f->job_end) < 0) {
        f->job_result = -errno;
        return;
    }
    f->job_result = reserve(f);
    if (f->job_result < 0)
        return;
    f->job_result = write_all(f->fd, f->header, f->job_end ? HEADER_WRITE : f->buffer_bytes);
    if (f->job_result < 0) {
        if (f->job_end == 0)
            (void) ftruncate(f->fd, 0);
        return;
    }
    if (!f->job_direct)
        return;
    /* Ours alone: only after the first write, and only where sizes suit every disk. */
    flags = fcntl(f->fd, F_GETFL);
    if (flags >= 0 && fcntl(f->fd, F_SETFL, flags | O_DIRECT) == 0) {
        ssize_t n = pwrite(f->fd, f->header, HEADER_WRITE, 0);
        if (n != HEADER_WRITE) /* accepted, but it does not work here */
            (void) fcntl(f->fd, F_SETFL, flags);
    }
}

static void open_done(void *userdata)
{
    struct file_sink *f = userdata;
    f->on_worker = false;
    int r = f->job_result;
    if (r == 0) {
        uint8_t *start = aligned_alloc(4096, HEADER_WRITE);
        if (start) {
            memcpy(start, f->header, HEADER_WRITE);
            free(f->header);
            f->header = start;
        }
        f->open = true;
        f->committed = f->job_end ? f->job_end : f->buffer_bytes;
        f->session->counters.buffers_written = (uint32_t) (f->committed / f->buffer_bytes);
    }
    f->fn(r, f->userdata);
    if (r == 0)
        pump(f);
}

static int open_begin(struct file_sink *f, bool direct, file_sink_fn fn, void *userdata)
{
    int r;

    f->fn = fn;
    f->userdata = userdata;
    f->job_direct = direct && f->buffer_bytes % HEADER_WRITE == 0;
    f->on_worker = true;
    r = worker_submit(f->worker, open_run, open_done, f);
    if (r < 0)
        f->on_worker = false;
    return r;
}

int file_sink_open(struct file_sink *f, const struct etl_logfile_params *p, bool direct,
                   file_sink_fn fn, void *userdata)
{
    struct etl_logfile_totals totals = {.buffers_written = 1};
    int r;

    r = etl_logfile_buffer_put(f->header, p, &totals);
    return r < 0 ? r : open_begin(f, direct, fn, userdata);
}

int file_sink_open_append(struct file_sink *f, const struct etl_append *a, bool direct,
                          file_sink_fn fn, void *userdata)
{
    struct etl_logfile_totals totals = {.buffers_written = (uint32_t) (a->end / a->buffer_size)};

    if (a->buffer_size != f->buffer_bytes || a->end / a->buffer_size > UINT32_MAX)
        return -EINVAL;
    memcpy(f->header, a->header, HEADER_WRITE);
    etl_logfile_buffer_totals(f->header, &f->before);
    totals.events_lost = f->before.events_lost;
    totals.buffers_lost = f->before.buffers_lost;
    etl_logfile_buffer_update(f->header, &totals);
    f->job_end = a->end;
    return open_begin(f, direct, fn, userdata);
}

/* Another file. */

struct old_file {
    int fd;
    uint64_t cut; /* to give back what was reserved; 0: nothing was */
};

static void old_run(void *userdata)
{
    struct old_file *o = userdata;
    if (o->cut > 0)
        (void) ftruncate(o->fd, (off_t) o->cut);
    (void) fsync(o->fd);
    (void) safe_close(o->fd);
}

/* The new file is begun as file_sink_open() does it; then the old one's header is final. Killed
 * before the end is committed, a successor finds the old one and goes on there. */
static void turn_run(void *userdata)
{
    struct file_sink *f = userdata;
    struct file_sink new = {
        .fd = f->turn.fd,
        .header = f->turn.header,
        .buffer_bytes = f->buffer_bytes,
        .reserved = f->reserved,
        .job_direct = f->job_direct,
    };
    open_run(&new);
    f->job_result = new.job_result;
    if (f->job_result == 0 && pwrite(f->fd, f->header, HEADER_WRITE, 0) != HEADER_WRITE)
        log_warning("session '%s': file '%s': the final header could not be written",
                    f->session->properties.name, f->session->properties.log_file);
}

static void turn_end(struct file_sink *f, int result)
{
    file_sink_fn fn = f->turn.fn;
    void *userdata = f->turn.userdata;

    free(f->turn.header);
    f->turn.header = NULL;
    f->turn.fn = NULL;
    fn(result, userdata);
    if (f->header_dirty)
        header_write(f);
    pump(f);
}

static void turn_done(void *userdata)
{
    struct file_sink *f = userdata;
    struct old_file *old = NULL;
    int r = f->job_result;

    f->on_worker = false;
    f->turning = false;
    if (r == 0) {
        old = malloc(sizeof(*old));
        r = old ? 0 : -ENOMEM;
    }
    if (r < 0) {
        worker_close(f->worker, f->turn.fd);
        f->turn.fd = -1;
        f->header_dirty = true; /* it is not final */
        turn_end(f, r);
        return;
    }
    state_begin(f->session->kept);
    session_touch(f->session);
    *old = (struct old_file){.fd = f->fd, .cut = f->reserved > 0 ? file_end(f) : 0};
    f->behind = behind_free(f->behind);
    f->fd = f->turn.fd;
    f->turn.fd = -1;
    memcpy(f->header, f->turn.header, HEADER_WRITE);
    f->before = (struct etl_logfile_totals){0};
    f->committed = f->buffer_bytes;
    f->session->counters.buffers_written++;
    slots_clear(&f->slots);
    if (behind_begin(f) < 0)
        log_debug("session '%s': no memory to watch its file's pages", f->session->properties.name);
    turn_end(f, 0);
    state_commit(f->session->kept);
    /* Behind what was submitted for it before. */
    if (worker_submit(f->syncer, old_run, free, old) < 0) {
        old_run(old);
        free(old);
    }
}

static void turn_begin(struct file_sink *f)
{
    struct etl_logfile_totals totals;

    if (f->header_busy) /* comes back when it is written */
        return;
    loop_timer_disarm(f->header_timer);
    f->header_timer_armed = false;
    f->header_dirty = false;
    totals_now(f, &totals);
    totals.end_time = session_clock_filetime(f->session);
    f->header_settled = settled(f);
    etl_logfile_buffer_update(f->header, &totals);
    f->on_worker = true;
    f->turning = true;
    if (worker_submit(f->worker, turn_run, turn_done, f) < 0) {
        f->job_result = -ENOMEM;
        turn_done(f);
    }
}

int file_sink_turn(struct file_sink *f, int fd, const struct etl_logfile_params *p, file_sink_fn fn,
                   void *userdata)
{
    struct etl_logfile_totals totals = {.buffers_written = 1};
    int r;

    if (f->turn.fn || f->closing || !f->open)
        return -EBUSY;
    uint8_t *header = aligned_alloc(4096, ALIGN_UP((size_t) f->buffer_bytes, (size_t) 4096));
    if (!header)
        return -ENOMEM;
    r = etl_logfile_buffer_put(header, p, &totals);
    if (r < 0) {
        free(header);
        return r;
    }
    f->turn.fd = fd;
    f->turn.ticket = f->next_ticket;
    f->turn.header = header;
    f->turn.fn = fn;
    f->turn.userdata = userdata;
    pump(f);
    return 0;
}

/* Handing on. */

void file_sink_released(struct file_sink *f)
{
    pump(f);
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
