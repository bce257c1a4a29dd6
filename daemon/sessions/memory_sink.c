/* SPDX-License-Identifier: Apache-2.0
 *
 * See memory_sink.h.
 */
#include "memory_sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fileio.h"
#include "base/limits.h"
#include "clock.h"
#include "internal.h"
#include "io/loop.h"
#include "io/uid_workers.h"
#include "state/state.h"

struct piece {
    uint32_t index;
    uint32_t end;
    uint64_t last; /* for the order of those that are being filled */
    const uint8_t *data;
    uint8_t header[ETL_BUFFER_HEADER_SIZE];
};

struct snapshot {
    struct memory_sink *sink;
    struct uid_worker *workers;
    int fd;
    uint8_t *first; /* the file's first buffer */
    struct piece *pieces;
    size_t n_pieces;
    uint32_t buffer_bytes;
    int result;
    memory_sink_fn fn;
    void *userdata;
};

struct memory_sink {
    struct session *session;
    uint32_t oldest, newest; /* of the list by buffer.next */
    uint32_t n;
    uint64_t next_ticket;
    struct snapshot *snapshot; /* under way */
    uint32_t lent;             /* of those out */
    void (*idle)(int result, void *userdata);
    void *idle_userdata;
};

uint32_t memory_sink_buffers(uint32_t minimum, uint32_t buffer_bytes)
{
    /* A pass may fill this much before anything goes; and all may be lent. */
    uint64_t pass = 2 * (uint64_t) ETWD_PASS_BYTES / buffer_bytes + 16;
    uint64_t n = 2 * (minimum + pass);
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t) n;
}

int memory_sink_new(struct session *s, struct memory_sink **ret)
{
    struct memory_sink *m = malloc(sizeof(*m));
    if (!m)
        return -ENOMEM;
    *m = (struct memory_sink){.session = s, .oldest = BUFFER_NONE, .newest = BUFFER_NONE};
    *ret = m;
    return 0;
}

struct memory_sink *memory_sink_free(struct memory_sink *m)
{
    free(m);
    return NULL;
}

static struct buffer *item(const struct memory_sink *m, uint32_t index)
{
    return buffers_get(m->session->buffers, index);
}

static void append(struct memory_sink *m, uint32_t index)
{
    item(m, index)->next = BUFFER_NONE;
    if (m->n++ == 0)
        m->oldest = index;
    else
        item(m, m->newest)->next = index;
    m->newest = index;
}

void memory_sink_put(struct memory_sink *m, uint32_t index)
{
    struct session *s = m->session;

    session_touch(s);
    item(m, index)->ticket = ++m->next_ticket;
    buffers_touch(s->buffers, index);
    append(m, index);
}

void memory_sink_trim(struct memory_sink *m)
{
    struct session *s = m->session;
    uint32_t limit = s->properties.minimum_buffers;
    uint32_t before = BUFFER_NONE, index = m->oldest;

    while (index != BUFFER_NONE && buffers_out(s->buffers) - m->lent > limit) {
        struct buffer *b = item(m, index);
        uint32_t next = b->next;
        if (b->pinned) { /* it was being filled when the snapshot began */
            before = index;
            index = next;
            continue;
        }
        if (before == BUFFER_NONE)
            m->oldest = next;
        else
            item(m, before)->next = next;
        if (m->newest == index)
            m->newest = before;
        m->n--;
        s->counters.overwritten += b->events;
        buffers_give(s->buffers, index);
        index = next;
    }
}

static void idle_deferred(void *userdata)
{
    struct memory_sink *m = userdata;
    void (*fn)(int result, void *userdata) = m->idle;

    m->idle = NULL;
    fn(0, m->idle_userdata);
}

void memory_sink_idle(struct memory_sink *m, void (*fn)(int result, void *userdata), void *userdata)
{
    m->idle = fn;
    m->idle_userdata = userdata;
    if (!m->snapshot && loop_defer(m->session->loop, idle_deferred, m) < 0)
        idle_deferred(m);
}

/* ---- snapshots ---- */

static int write_piece(struct snapshot *o, const struct piece *p, uint64_t offset,
                       const void *filler)
{
    int r;

    r = etw_pwrite(o->fd, p->header, sizeof(p->header), offset);
    if (r == 0)
        r = etw_pwrite(o->fd, p->data + sizeof(p->header), p->end - sizeof(p->header),
                       offset + sizeof(p->header));
    return r < 0 ? r : etw_pwrite(o->fd, filler, o->buffer_bytes - p->end, offset + p->end);
}

/* Worker thread. */
static void snapshot_run(void *userdata)
{
    struct snapshot *o = userdata;
    _cleanup_free_ uint8_t *filler = malloc(o->buffer_bytes);
    int r = filler ? 0 : -ENOMEM;

    if (r == 0 && ftruncate(o->fd, 0) < 0)
        r = -errno;
    if (r == 0) {
        memset(filler, 0xFF, o->buffer_bytes);
        r = etw_pwrite(o->fd, o->first, o->buffer_bytes, 0);
    }
    for (size_t i = 0; i < o->n_pieces && r == 0; i++)
        r = write_piece(o, &o->pieces[i], (uint64_t) (i + 1) * o->buffer_bytes, filler);
    if (r == 0 && fsync(o->fd) < 0)
        r = -errno;
    if (r < 0)
        (void) ftruncate(o->fd, 0);
    if (close(o->fd) < 0 && r == 0)
        r = -errno;
    o->fd = -1;
    o->result = r;
}

static struct snapshot *snapshot_free(struct snapshot *o)
{
    if (!o)
        return NULL;
    if (o->fd >= 0)
        uid_worker_close(o->workers, o->fd);
    free(o->first);
    free(o->pieces);
    free(o);
    return NULL;
}

static int by_ticket(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return x->last < y->last ? -1 : x->last > y->last;
}

/* What was lent goes back before all that came since. */
static void take_back(struct memory_sink *m, struct snapshot *o)
{
    struct session *s = m->session;
    uint32_t last = BUFFER_NONE;

    state_begin(s->kept);
    session_touch(s);
    for (size_t i = o->n_pieces; i-- > 0;) {
        struct buffer *b = item(m, o->pieces[i].index);
        b->pinned = false;
        if (!o->pieces[i].last) /* its stream has it, or it is in the list since */
            continue;
        b->next = last == BUFFER_NONE ? m->oldest : last;
        last = o->pieces[i].index;
        if (m->n++ == 0)
            m->newest = last;
    }
    if (last != BUFFER_NONE)
        m->oldest = last;
    m->lent = 0;
    m->snapshot = NULL;
    if (!s->kept)
        memory_sink_trim(m);
    state_commit(s->kept);
}

static void snapshot_done(void *userdata)
{
    struct snapshot *o = userdata;
    struct memory_sink *m = o->sink;

    take_back(m, o);
    o->fn(o->result, o->userdata);
    snapshot_free(o);
    if (m->idle)
        idle_deferred(m);
}

static void piece_make(struct piece *p, const struct session *s, uint32_t index, uint32_t end,
                       uint64_t now, uint16_t flags)
{
    struct etl_buffer_header h;

    *p = (struct piece){.index = index, .end = end, .data = buffers_get(s->buffers, index)->data};
    memcpy(&h, p->data, sizeof(h));
    etl_buffer_close_header(&h, end, now, flags);
    memcpy(p->header, &h, sizeof(h));
}

/* Closed ones in their order, then those that are being filled. */
static void pieces_make(struct memory_sink *m, struct snapshot *o)
{
    struct session *s = m->session;
    uint64_t now = etw_clock_line_raw(&s->line, etw_clock_boottime());
    size_t n = 0;

    for (uint32_t i = m->oldest; i != BUFFER_NONE; i = item(m, i)->next) {
        struct piece *p = &o->pieces[n++];
        struct etl_buffer_header h;
        *p = (struct piece){.index = i, .data = item(m, i)->data, .last = item(m, i)->ticket};
        memcpy(&h, p->data, sizeof(h));
        p->end = h.saved_offset;
        memcpy(p->header, &h, sizeof(h));
    }
    size_t first = n;
    for (uint32_t i = 0; i < s->n_streams + ETWD_LATE_BUFFERS; i++) {
        struct stream *st = i < s->n_streams ? &s->streams[i] : &s->late[i - s->n_streams];
        if (st->buffer == BUFFER_NONE)
            continue;
        struct piece *p = &o->pieces[n++];
        piece_make(p, s, st->buffer, st->end, now, s->pending_flags);
        p->last = st->last;
    }
    qsort(o->pieces + first, n - first, sizeof(*o->pieces), by_ticket);
    for (size_t i = first; i < n; i++)
        o->pieces[i].last = 0;
    o->n_pieces = n;
}

int memory_sink_snapshot(struct memory_sink *m, struct uid_worker *w, int fd,
                         const struct etl_logfile_params *p, memory_sink_fn fn, void *userdata)
{
    struct session *s = m->session;
    struct snapshot *o = calloc(1, sizeof(*o));
    size_t most = m->n + (size_t) s->n_streams + ETWD_LATE_BUFFERS;
    int r = -ENOMEM;

    if (!o) {
        uid_worker_close(w, fd);
        return r;
    }
    *o = (struct snapshot){
        .sink = m,
        .workers = w,
        .fd = fd,
        .buffer_bytes = s->buffer_bytes,
        .first = malloc(s->buffer_bytes),
        .pieces = calloc(most, sizeof(*o->pieces)),
        .fn = fn,
        .userdata = userdata,
    };
    if (!o->first || !o->pieces)
        goto fail;
    pieces_make(m, o);
    struct etl_logfile_totals totals = {
        .end_time = session_clock_filetime(s),
        .buffers_written = (uint32_t) o->n_pieces + 1,
        .events_lost = session_events_lost(s),
        .buffers_lost = s->counters.log_buffers_lost,
    };
    r = etl_logfile_buffer_put(o->first, p, &totals);
    if (r == 0)
        r = worker_submit(w->syncer, snapshot_run, snapshot_done, o);
    if (r < 0)
        goto fail;
    for (size_t i = 0; i < o->n_pieces; i++)
        item(m, o->pieces[i].index)->pinned = true;
    m->lent = m->n; /* those that are being filled count */
    m->oldest = m->newest = BUFFER_NONE;
    m->n = 0;
    m->snapshot = o;
    return 0;

fail:
    snapshot_free(o);
    return r;
}

bool memory_sink_busy(const struct memory_sink *m)
{
    return m->snapshot != NULL;
}

/* ---- handing on ---- */

uint64_t memory_sink_ticket(const struct memory_sink *m)
{
    return m->next_ticket;
}

int memory_sink_resume(struct memory_sink *m, uint64_t ticket)
{
    struct buffers *b = m->session->buffers;
    _cleanup_free_ struct piece *found = calloc(buffers_out(b) + 1, sizeof(*found));
    size_t n = 0;

    if (!found)
        return -ENOMEM;
    for (uint32_t i = 0; i < buffers_maximum(b); i++)
        if (item(m, i)->ticket)
            found[n++] = (struct piece){.index = i, .last = item(m, i)->ticket};
    qsort(found, n, sizeof(*found), by_ticket);
    for (size_t i = 0; i < n; i++)
        if (found[i].last > ticket || (i > 0 && found[i].last == found[i - 1].last))
            return -EBADMSG;
    for (size_t i = 0; i < n; i++)
        append(m, found[i].index);
    m->next_ticket = ticket;
    return 0;
}
