/* SPDX-License-Identifier: Apache-2.0
 *
 * Both ends of a ring: the writer (in the provider process, on its hot path: no system call, no
 * lock, no allocation) and the hostile-safe reader (in etwd). abi.h states the protocol.
 *
 * The writer is one thread; it may be interrupted by signal handlers that do not write (those that
 * would are told apart before they come here and count SHM_LOST_NESTED). The reader is etwd's loop
 * thread. Nothing here is called by others.
 */
#pragma once

#include <stdbool.h>

#include "abi.h"

/* ---- writer ---- */

struct shm_writer {
    uint8_t *data;
    struct shm_ring_line *line;
    uint64_t head;      /* published */
    uint64_t tail_seen; /* at most the true tail */
    uint64_t stamp;     /* last one given */
    uint32_t size;      /* of the ring, a power of two */
    uint32_t pad;       /* bytes before the reserved record */
    bool fences;
    uint32_t answered; /* sleep number that got its wake */
    const struct shm_process *process;
    const struct shm_tail_line *tail;
    struct shm_lost *lost; /* the arena's counters */
    const void *control;
};

/* Takes ring `index` (0 .. SHM_RINGS_PER_ARENA-1) of arena number `arena_number`: the caller
 * claimed it among the process's threads. Publishes the claim record with tid. -EAGAIN: not drained
 * yet; -EBUSY: claimed in the arena's words; -EINVAL: no such ring. */
int shm_writer_claim(struct shm_writer *w, struct shm_arena *arena, const void *control,
                     uint32_t arena_number, uint32_t index, uint32_t ring_size, bool fences,
                     uint32_t tid);
/* Gives it back: thread exit. No write may be under way. */
void shm_writer_release(struct shm_writer *w);

/* For each event: begin, clock (shm_writer_now() of clock.h, or shm_writer_stamp()), table
 * (shm_slots_match() of slots.h), reserve, fill, publish; or abandon at any point after begin. */
static inline void shm_writer_begin(struct shm_writer *w)
{
    atomic_store_explicit(&w->line->busy, 1, memory_order_relaxed);
    if (__builtin_expect(w->fences, 0))
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
}

/* The stamp of the event begun, from the time that the clock shows: not below the one before, so
 * that a ring's stamps never go back. Also tells etwd (R6). */
static inline uint64_t shm_writer_stamp(struct shm_writer *w, uint64_t now)
{
    if (__builtin_expect(now < w->stamp, 0))
        now = w->stamp;
    w->stamp = now;
    atomic_store_explicit(&w->line->stamp, now, memory_order_release);
    return now;
}

/* Out of line: no room as far as we knew, or the ring's end. */
void *shm_writer_reserve_slow(struct shm_writer *w, uint32_t size);

/* etwd has read what lies ahead: its lines are shared, and each store would wait for its line. So
 * the lines of the next events are asked for while there is something else to do. */
#define SHM_PREFETCH_AHEAD 1024u
static inline void shm_writer_prefetch(const struct shm_writer *w, uint32_t at)
{
    for (uint32_t i = 0; i < 3; i++) {
        const uint8_t *line =
            w->data + ((at + SHM_PREFETCH_AHEAD + i * SHM_CACHE_LINE) & (w->size - 1));
#if defined(__x86_64__)
        /* The compiler takes it for a read where the target may be older than the instruction,
         * which does nothing there. */
        __asm__ volatile("prefetchw %0" ::"m"(*line));
#else
        __builtin_prefetch(line, 1);
#endif
    }
}

/* Room for a record of `size` bytes (shm_record_size()): where to put it, 16-byte aligned, or NULL:
 * the ring is full, or the size is above half of it. Writes a pad when needed. */
static inline void *shm_writer_reserve(struct shm_writer *w, uint32_t size)
{
    uint32_t at = (uint32_t) w->head & (w->size - 1);

    if (__builtin_expect(size <= w->size - at && size <= w->size / 2 &&
                             w->head + size - w->tail_seen <= w->size,
                         1)) {
        w->pad = 0;
        shm_writer_prefetch(w, at);
        return w->data + at;
    }
    return shm_writer_reserve_slow(w, size);
}

static inline bool shm_writer_must_wake(struct shm_writer *w)
{
    uint32_t sleep = atomic_load_explicit(&w->process->sleep, memory_order_relaxed);

    if (__builtin_expect(sleep == 0 || sleep == w->answered, 1))
        return false;
    if (!(sleep & SHM_SLEEP_LOW_LATENCY) && w->head - w->tail_seen < w->size / 2)
        return false;
    w->tail_seen = atomic_load_explicit(&w->tail->tail, memory_order_acquire);
    if (w->head - w->tail_seen < (sleep & SHM_SLEEP_LOW_LATENCY ? 1 : w->size / 2))
        return false;
    w->answered = sleep;
    return true;
}

/* The record from reserve, of the same size, is complete. True: send one WAKE. */
static inline bool shm_writer_publish(struct shm_writer *w, uint32_t size)
{
    w->head += (uint64_t) w->pad + size;
    atomic_store_explicit(&w->line->head, w->head, memory_order_release);
    if (__builtin_expect(w->fences, 0))
        atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&w->line->busy, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    return shm_writer_must_wake(w);
}

/* The event is given up. */
static inline void shm_writer_abandon(struct shm_writer *w)
{
    atomic_store_explicit(&w->line->busy, 0, memory_order_release);
}

/* Counts a loss for each slot (of registration) in the mask. Before abandon or publish: a slot's
 * counter is kept as long as a ring is busy. */
void shm_writer_lost(struct shm_writer *w, enum shm_lost_cause cause, uint32_t registration,
                     uint32_t slots);
/* The same for a thread without a ring: arena 0. Any thread, also a signal handler. */
void shm_lost_add(struct shm_arena *arena, const void *control, enum shm_lost_cause cause,
                  uint32_t registration, uint32_t slots);

/* ---- reader ---- */

struct shm_reader {
    const struct shm_ring_line *line; /* read-only mapping: hostile */
    const uint8_t *data;
    struct shm_tail_line *tail_line; /* etwd's */
    uint32_t size;
    bool busy;            /* as the last look saw it */
    uint64_t tail;        /* given back */
    uint64_t position;    /* read up to here, not given back yet */
    uint64_t end;         /* head as the last look saw it */
    uint64_t stamp;       /* the stamp word as the last look saw it: any number, for S3 */
    uint64_t vouched;     /* the latest stamp this ring ever vouched for, passing over left out */
    int64_t clock_offset; /* of the process's time namespace: its stamp minus our time */
};

/* The ring `index` of a mapped arena; the process cannot have claimed it before `now`. Goes on at
 * the tail that the control area has (shm_control_add_ring() came before). -EINVAL: no such ring.
 */
int shm_reader_init(struct shm_reader *r, const struct shm_arena *arena, void *control,
                    uint32_t arena_number, uint32_t index, uint32_t ring_size, uint64_t now);

/* Looks at busy, stamp and head (R5, R6), after the caller read time `now` and called membarrier:
 * *ret_vouch is the stamp this ring vouches for. dead: the writer was known to be gone before `now`
 * was read (one that is found dead later may have written until then). A head that no honest writer
 * has (not a multiple, going back, more than the ring's size ahead) is -EPROTO: the ring is to be
 * given up. */
int shm_reader_look(struct shm_reader *r, uint64_t now, bool dead, uint64_t *ret_vouch);

/* The next record below `end`, pads left out. Copies its first cap bytes (all, when it is shorter)
 * into out, and returns its size, a multiple of SHM_RECORD_ALIGN that fits in the ring; 0 at the
 * end; -EPROTO at a record that breaks the rules (the ring is to be given up: a writer that forges
 * sizes gets nothing). *ret_record is where the record lies: bytes beyond the copied ones may be
 * copied from there once (never looked at: they may change at any time) until commit. The types and
 * all that stands in the record are for the caller to check. cap: at least the prefix. */
int shm_reader_peek(struct shm_reader *r, void *out, uint32_t cap, const void **ret_record);
/* The record of that size, which peek returned, is done. */
static inline void shm_reader_pop(struct shm_reader *r, uint32_t size)
{
    r->position += size;
}
/* peek and pop: the whole record; larger than cap is -EPROTO. */
int shm_reader_next(struct shm_reader *r, void *out, uint32_t cap);
/* Everything was read that was published: with the ring seen idle, no older record is to come. */
static inline bool shm_reader_drained(const struct shm_reader *r)
{
    return r->position == r->end;
}
/* Gives the space up to `position` back. */
void shm_reader_commit(struct shm_reader *r);
