/* SPDX-License-Identifier: Apache-2.0
 *
 * Events into buffers: the streams of a session, late records, losses, flushing. Not how sessions
 * come and go (sessions.c, start.c, stop.c), not files (file_sink.c). Called by the router for each
 * event. Loop thread only.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "file_sink.h"
#include "io/loop.h"
#include "io/uid_workers.h"
#include "memory_sink.h"
#include "state/state.h"

#define likely(x) __builtin_expect(!!(x), 1)

const char *loss_cause_name(enum loss_cause c)
{
    static const char *const names[LOSS_CAUSES] = {
        [LOSS_RING_FULL] = "ring_full",
        [LOSS_NESTED] = "nested",
        [LOSS_TOO_BIG] = "too_big",
        [LOSS_NO_BUFFER] = "no_buffer",
        [LOSS_PROBE_RING_FULL] = "probe_ring_full",
        [LOSS_SLOW_CONSUMER] = "slow_consumer",
        [LOSS_DISK] = "disk",
        [LOSS_QUOTA] = "quota",
        [LOSS_INVALID] = "invalid",
    };
    return (unsigned) c < LOSS_CAUSES ? names[c] : NULL;
}

const struct session_properties *session_properties(const struct session *s)
{
    return &s->properties;
}

void session_counters(const struct session *s, struct session_counters *ret)
{
    *ret = s->counters;
}

uint16_t session_id(const struct session *s)
{
    return s->id;
}

uint64_t session_handle(const struct session *s)
{
    return s->generation << 16 | s->id;
}

uint32_t session_inert_flags(const struct session *s)
{
    return s->inert_flags;
}

uint32_t session_buffers_left(const struct session *s)
{
    return buffers_maximum(s->buffers) - buffers_out(s->buffers);
}

bool session_waits_for_first(const struct session *s)
{
    return s->flush_interval_ns != 0 && !s->flush_armed && !s->sealed;
}

uint32_t session_events_lost(const struct session *s)
{
    uint64_t sum = 0;
    for (int c = 0; c < LOSS_CAUSES; c++)
        sum += s->counters.lost[c];
    return sum > UINT32_MAX ? UINT32_MAX : (uint32_t) sum;
}

void session_properties_clear(struct session_properties *p)
{
    free(p->name);
    free(p->log_file);
    *p = (struct session_properties){0};
}

static void flush_fired(void *userdata);
static void full_fired(void *userdata);

int session_new(struct loop *l, struct session_properties *p, unsigned cpus, struct session **ret)
{
    int r;

    struct session *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->loop = l;
    s->dirty = true;
    s->properties = *p;
    *p = (struct session_properties){0};
    s->buffer_bytes = s->properties.buffer_size_kb * 1024;
    s->single = (s->properties.log_file_mode & ETL_MODE_NO_PER_PROCESSOR_BUFFERING) != 0;
    s->n_streams = s->single ? 1 : cpus;
    s->next_sequence = 1;
    s->data_buffers_max = UINT64_MAX;
    s->streams = calloc(s->n_streams, sizeof(*s->streams));
    if (!s->streams) {
        r = -ENOMEM;
        goto fail;
    }
    for (uint32_t i = 0; i < s->n_streams; i++)
        s->streams[i] =
            (struct stream){.end = s->buffer_bytes, .buffer = BUFFER_NONE, .cpu = (uint16_t) i};
    for (unsigned i = 0; i < ETWD_LATE_BUFFERS; i++)
        s->late[i] = (struct stream){.end = s->buffer_bytes, .buffer = BUFFER_NONE};
    r = loop_timer_new(l, flush_fired, s, &s->flush_timer);
    if (r < 0)
        goto fail;
    r = loop_timer_new(l, full_fired, s, &s->full_timer);
    if (r < 0)
        goto fail;
    session_set_flush_timer(s);
    *ret = s;
    return 0;

fail:
    session_free(s);
    return r;
}

void session_set_buffer_size(struct session *s, uint32_t bytes)
{
    s->properties.buffer_size_kb = bytes / 1024;
    s->buffer_bytes = bytes;
    for (uint32_t i = 0; i < s->n_streams; i++)
        s->streams[i].end = bytes;
    for (unsigned i = 0; i < ETWD_LATE_BUFFERS; i++)
        s->late[i].end = bytes;
}

struct session *session_free(struct session *s)
{
    if (!s)
        return NULL;
    loop_timer_free(s->flush_timer);
    loop_timer_free(s->full_timer);
    file_sink_free(s->sink);
    memory_sink_free(s->memory);
    uid_worker_put(s->workers);
    buffers_free(s->buffers);
    session_properties_clear(&s->properties);
    free(s->folded_name);
    free(s->streams);
    free(s);
    return NULL;
}

void session_set_flush_timer(struct session *s)
{
    uint64_t value = s->properties.flush_timer_s;
    s->flush_interval_ns = s->properties.log_file_mode & ETL_MODE_USE_MS_FLUSH_TIMER
                               ? value * 1000000u
                               : value * ETW_NSEC_PER_SEC;
    if (s->flush_interval_ns == 0) {
        loop_timer_disarm(s->flush_timer);
        s->flush_armed = false;
    }
}

/* Closes the stream's buffer and hands it on. An open buffer holds at least one event. */
static void stream_close(struct session *s, struct stream *st, uint64_t now, uint16_t flags)
{
    if (st->buffer == BUFFER_NONE)
        return;
    uint32_t index = st->buffer;
    struct buffer *b = buffers_get(s->buffers, index);
    b->events = st->events;
    b->flags = (uint16_t) (ETL_BUFFER_PROC_INDEX | flags | s->pending_flags);
    s->pending_flags = 0;
    etl_buffer_close(st->data, st->end, etw_clock_line_raw(&s->line, now), b->flags);
    st->buffer = BUFFER_NONE;
    st->data = NULL;
    st->end = s->buffer_bytes;
    st->events = 0;
    if (s->memory)
        memory_sink_put(s->memory, index);
    else
        file_sink_put(s->sink, index);
}

static void full_fired(void *userdata)
{
    struct session *s = userdata;
    s->full(s);
}

static void flush_arm(struct session *s)
{
    if (s->flush_interval_ns && !s->flush_armed &&
        loop_timer_arm(s->flush_timer, etw_clock_boottime() + s->flush_interval_ns) == 0)
        s->flush_armed = true;
}

static int stream_open(struct session *s, struct stream *st)
{
    uint32_t index;
    int r;

    if ((uint64_t) s->next_sequence > s->data_buffers_max) {
        /* The file takes no more: the session ends here, as ETW's do. */
        s->sealed = true;
        if (s->full)
            (void) loop_timer_arm(s->full_timer, 0);
        return -EFBIG;
    }
    r = buffers_take(s->buffers, &index);
    if (r < 0)
        return r;
    if (s->memory && !s->kept)
        memory_sink_trim(s->memory);
    st->buffer = index;
    st->data = buffers_get(s->buffers, index)->data;
    st->end = ETL_BUFFER_HEADER_SIZE;
    st->events = 0;
    etl_buffer_begin(st->data, s->buffer_bytes, st->cpu, s->id, s->next_sequence++,
                     ETL_BUFFER_GENERIC);
    flush_arm(s);
    return 0;
}

void session_resume(struct session *s)
{
    flush_arm(s);
}

static inline void *stream_put(struct session *s, struct stream *st, uint64_t stamp,
                               uint32_t padded)
{
    uint8_t *p = st->data + st->end;
    st->end += padded;
    st->events++;
    st->last = stamp;
    s->counters.recorded++;
    memset(p + padded - 8, 0, 8); /* padding is zero; the event covers the rest */
    return p;
}

/* A late buffer for this CPU and stamp: the one whose last stamp is nearest below. Else a new one,
 * for which the one with the oldest last stamp makes room. */
static struct stream *late_stream(struct session *s, uint16_t cpu, uint64_t stamp)
{
    struct stream *best = NULL, *empty = NULL, *oldest = &s->late[0];
    for (unsigned i = 0; i < ETWD_LATE_BUFFERS; i++) {
        struct stream *l = &s->late[i];
        if (l->buffer == BUFFER_NONE) {
            empty = l;
            continue;
        }
        if (l->cpu == cpu && l->last <= stamp && (!best || l->last > best->last))
            best = l;
        if (l->last < oldest->last)
            oldest = l;
    }
    if (best)
        return best;
    if (!empty) {
        stream_close(s, oldest, etw_clock_boottime(), 0);
        empty = oldest;
    }
    empty->cpu = cpu;
    return empty;
}

static __attribute__((noinline)) void *
reserve_slow(struct session *s, uint16_t cpu, struct stream *st, uint64_t stamp, uint32_t size)
{
    int r;

    if (s->sealed) {
        s->counters.written--;
        return NULL;
    }
    if (!st) {
        session_count_lost(s, LOSS_INVALID, 1);
        s->counters.written--; /* counted twice */
        return NULL;
    }
    uint32_t padded = etl_padded(size);
    if (size == 0 || size > ETW_EVENT_MAX || padded > s->buffer_bytes - ETL_BUFFER_HEADER_SIZE) {
        session_count_lost(s, LOSS_TOO_BIG, 1);
        s->counters.written--;
        return NULL;
    }
    if (stamp < st->last)
        st = late_stream(s, s->single ? 0 : cpu, stamp);
    if (padded > s->buffer_bytes - st->end) {
        stream_close(s, st, etw_clock_boottime(), 0);
        r = stream_open(s, st);
        if (r < 0) {
            if (r != -EFBIG)
                session_count_lost(s, LOSS_NO_BUFFER, 1);
            s->counters.written--;
            return NULL;
        }
    }
    return stream_put(s, st, stamp, padded);
}

void *session_reserve(struct session *s, uint16_t cpu, uint64_t stamp, uint32_t size)
{
    uint32_t i = s->single ? 0 : cpu;
    session_touch(s);
    s->counters.written++;
    struct stream *st = likely(i < s->n_streams) ? &s->streams[i] : NULL;
    uint32_t padded = etl_padded(size);
    if (likely(st && stamp >= st->last && padded <= s->buffer_bytes - st->end &&
               size <= ETW_EVENT_MAX && size > 0 && !s->sealed))
        return stream_put(s, st, stamp, padded);
    return reserve_slow(s, cpu, st, stamp, size);
}

void session_count_lost(struct session *s, enum loss_cause cause, uint64_t events)
{
    if (events == 0)
        return;
    session_touch(s);
    s->counters.written += events;
    s->counters.lost[cause] += events;
    s->pending_flags |= ETL_BUFFER_EVENTS_LOST;
}

void session_buffer_done(struct session *s, uint32_t index, bool lost)
{
    struct buffer *b = buffers_get(s->buffers, index);
    session_touch(s);
    if (lost) {
        s->counters.recorded -= b->events;
        s->counters.lost[LOSS_DISK] += b->events;
        s->counters.log_buffers_lost++;
        s->pending_flags |= ETL_BUFFER_EVENTS_LOST | ETL_BUFFER_BUFFER_LOST;
        /* Its place in the file is free again. */
        if (s->data_buffers_max != UINT64_MAX)
            s->data_buffers_max++;
    } else
        s->counters.buffers_written++;
    buffers_give(s->buffers, index);
}

/* The open streams by last stamp: a handful, and rarely. */
static int by_last(const void *a, const void *b)
{
    const struct stream *x = *(struct stream *const *) a, *y = *(struct stream *const *) b;
    return x->last < y->last ? -1 : x->last > y->last;
}

void session_flush(struct session *s, bool final)
{
    loop_timer_disarm(s->flush_timer);
    s->flush_armed = false;
    if (final) {
        session_touch(s);
        s->sealed = true;
    }

    struct stream *few[64];
    _cleanup_free_ struct stream **many = NULL;
    struct stream **open = few;
    uint32_t n = 0;
    if (s->n_streams + ETWD_LATE_BUFFERS > ARRAY_SIZE(few)) {
        many = malloc((s->n_streams + ETWD_LATE_BUFFERS) * sizeof(*many));
        open = many;
    }
    uint64_t now = etw_clock_boottime();
    for (uint32_t i = 0; i < s->n_streams + ETWD_LATE_BUFFERS; i++) {
        struct stream *st = i < s->n_streams ? &s->streams[i] : &s->late[i - s->n_streams];
        if (st->buffer == BUFFER_NONE)
            continue;
        if (open)
            open[n++] = st;
        else /* no memory to sort: the order in the file is only a kindness to readers */
            stream_close(s, st, now, 0);
    }
    if (n == 0)
        return;
    session_touch(s);
    qsort(open, n, sizeof(*open), by_last);
    for (uint32_t i = 0; i < n; i++)
        stream_close(s, open[i], now, final && i == n - 1 ? ETL_BUFFER_FLUSH_MARKER : 0);
}

static void flush_fired(void *userdata)
{
    struct session *s = userdata;
    s->flush_armed = false; /* as it is from now on for who asks session_waits_for_first() */
    if (s->gather)
        s->gather(s);
    state_begin(s->kept);
    session_flush(s, false);
    state_commit(s->kept);
}
