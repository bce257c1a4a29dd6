/* SPDX-License-Identifier: Apache-2.0
 *
 * See rings.h; here: the rings as one source of the router. A pass is one membarrier, a look at
 * each ring (R5, R6 of abi.h), a merge by a heap of those that have something, tails. What rings
 * there are is ring_sets.c. Loop thread only; no allocation.
 *
 * Invariants:
 *  - the heap holds each ring that has a record of a stamp below this pass's time, by that stamp;
 *  - what is not in it and not seen yet has a stamp that begin() did not vouch for, but for writers
 *    that were passed over: those are late.
 */
#include "rings_internal.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "deliver.h"
#include "shm/control.h"
#include "tables.h"

/* Somebody's ring is more than half full: writers that were interrupted in the middle of an event
 * hold the others up by no more than this. They may be late, nobody must lose for them. */
#define PRESSED_BUSY_NS 1000000u
/* A stamp by the clock line may be ahead of the clock by this much, when the clock was slewed (500
 * ppm) while nobody refitted the line: it has to wait for its time. */
#define LINE_AHEAD_NS (SHM_CLOCK_SPAN_NS / 2000 + SHM_CLOCK_ERROR_NS)
/* Wakes of one process that pull the next pass forward: a thousand a second. */
#define KICK_INTERVAL_NS (1000000000u / ETWD_PROCESS_CALLS_PER_S)

/* Losses of processes that write are looked at without being asked for, so that they stand near
 * their place in time. */
#define LOSSES_INTERVAL_NS 100000000u

/* A membarrier takes 20 to 60 us on a virtual machine and interrupts each writer, so when passes
 * come often, those within so much of one with a membarrier do without. What a writer stored is
 * visible after some 100 ns all the same, and should it once be later, then its event is late.
 * Whoever waits for something to be out for certain (router_exact(), S3, a process's end) gets it
 * with one. */
#define LIGHT_PASSES_NS 1000000u
#define LIGHT_VOUCH_NS 5000u

/* What one process gets of a pass while others have something, too: a millisecond's work. Who
 * writes more than that between two passes, or makes stamps so old that they come first, is late,
 * and nobody else. */
#define SET_PASS_BYTES (ETWD_PASS_BYTES / 4u)
/* Records in a row that are no events: a writer puts one into its ring, when it claims it. */
#define OTHER_RECORDS_MAX 64u

static bool barrier(struct rings *r)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0)
        return true;
    if (!r->membarrier_failed)
        log_warning("membarrier: %s: providers' events wait in their rings", strerror(errno));
    r->membarrier_failed = true;
    return false;
}

/* Its image changes with this pass. */
static inline void advance(struct ring *ring)
{
    struct rings *r = ring->set->rings;

    if (ring->advanced)
        return;
    ring->advanced = true;
    ring->set->active = true;
    ring->next_advanced = r->advanced;
    r->advanced = ring;
}

static void give_up(struct ring *ring, const char *what)
{
    ring->given_up = true;
    ring->busy = false;
    advance(ring);
    process_misbehaved(ring->set->config.process, what);
}

/* ---- records ---- */

static void claim(struct ring *ring)
{
    struct ring_set *s = ring->set;
    uint32_t tid;

    memcpy(&tid, ring->head.event, sizeof(tid));
    if (s->config.thread_id)
        tid = s->config.thread_id(s->config.process, tid);
    /* A thread that nobody knows any more; 0 is idle's. */
    ring->tid = tid != 0 ? tid : UINT32_MAX;
}

/* The stamp of the record at hand in our time. False: it is for another pass. */
static bool stamp_take(struct ring *ring, uint64_t now)
{
    uint64_t stamp, ahead = 0;

    memcpy(&stamp, ring->head.event + offsetof(struct etl_event_header, time_stamp), sizeof(stamp));
    stamp -= (uint64_t) ring->set->config.clock_offset;
    ring->forged = false;
    if (stamp < ring->last) {
        stamp = ring->last;
        ring->forged = true;
    } else if (stamp >= now) {
        if (ring->head.prefix.flags & SHM_RECORD_TSC && ring->set->config.fast_clock)
            ahead = LINE_AHEAD_NS;
        if (stamp <= etw_clock_boottime() + ahead)
            return false; /* published after this pass began */
        stamp = now - 1 > ring->last ? now - 1 : ring->last;
        ring->forged = true;
    }
    ring->stamp = stamp;
    return true;
}

/* The next event of the ring to be merged in this pass. What is none is dropped on the way. */
static bool ring_load(struct ring *ring, uint64_t now)
{
    for (unsigned others = 0;; others++) {
        uint64_t before = ring->reader.position;
        int size = shm_reader_peek(&ring->reader, &ring->head, sizeof(ring->head), &ring->record);
        if (size < 0) {
            give_up(ring, "a record that does not fit its ring");
            return false;
        }
        if (ring->reader.position != before)
            advance(ring); /* over a pad */
        if (size == 0)
            return false;
        if (ring->head.prefix.type == SHM_RECORD_EVENT && (uint32_t) size >= sizeof(ring->head)) {
            if (ring->tid == 0) {
                give_up(ring, "an event before a thread claimed the ring");
                return false;
            }
            __builtin_prefetch((const uint8_t *) ring->record + 256);
            return stamp_take(ring, now);
        }
        if (others == OTHER_RECORDS_MAX) {
            give_up(ring, "records without end that are no events");
            return false;
        }
        if (ring->head.prefix.type == SHM_RECORD_CLAIM &&
            (uint32_t) size >= sizeof(struct etl_record) + sizeof(uint32_t))
            claim(ring);
        else
            process_misbehaved(ring->set->config.process, "a record of an unknown type");
        shm_reader_pop(&ring->reader, (uint32_t) size);
        advance(ring);
    }
}

/* ---- looks ---- */

/* One line is all that a ring costs which nobody uses: idle, and nothing new. */
static inline bool quiet(const struct ring *ring)
{
    const struct shm_ring_line *line = ring->reader.line;

    return atomic_load_explicit(&line->busy, memory_order_acquire) == 0 &&
           atomic_load_explicit(&line->head, memory_order_acquire) == ring->reader.end;
}

/* S3, after a look. */
static void past_look(struct ring *ring)
{
    bool idle = !ring->busy;

    if (ring->past == PAST_LOOK && !idle) {
        ring->past = PAST_BUSY;
        ring->past_stamp = ring->reader.stamp;
        ring->past_end = ring->reader.end;
    } else if (ring->past == PAST_LOOK ||
               (ring->past == PAST_BUSY && (idle || ring->reader.stamp != ring->past_stamp ||
                                            ring->reader.end != ring->past_end))) {
        ring->past = PAST_DRAIN;
        ring->past_end = ring->reader.end;
    }
}

/* Returns what the ring vouches for. */
static uint64_t look(struct rings *r, struct ring *ring)
{
    struct shm_reader *reader = &ring->reader;
    uint64_t end = reader->end, vouch;

    if (!ring->busy && r->looked > reader->vouched)
        reader->vouched = r->looked;
    if (shm_reader_look(reader, r->look, ring->set->dead, &vouch) < 0) {
        give_up(ring, "a head that is not a writer's");
        return r->look;
    }
    if (reader->end != end) {
        uint64_t fill = r->since * reader->size / (reader->end - end);
        if (reader->end - reader->tail > reader->size - reader->size / 8)
            fill /= 2; /* it would perhaps have got more */
        if (fill < r->fill_ns)
            r->fill_ns = fill;
    }
    ring->busy = reader->busy;
    ring->stuck = ring->busy && vouch == r->look && reader->vouched < r->look;
    if (ring->past != PAST_NOTHING)
        past_look(ring);
    return vouch;
}

static void fit_clock(struct rings *r)
{
    uint64_t tsc, ns;

    shm_clock_sample(&tsc, &ns);
    bool changed = shm_clock_fit_add(&r->fit, tsc, ns);
    for (struct ring_set *s = r->first; s && changed; s = s->next)
        if (s->config.fast_clock)
            shm_clock_publish(shm_control_clock(s->config.control_base), &r->fit);
    /* After a sleep, and at the first time, two samples make a line. */
    r->next_fit = r->now + (r->fit.good ? SHM_CLOCK_FIT_NS : SHM_CLOCK_FIT_NS / 4);
}

static uint64_t set_look(struct rings *r, struct ring_set *s, bool *ret_pressed)
{
    uint64_t vouch, held = r->look;

    s->in_heap = 0;
    s->taken = 0;
    if (s->asked && !s->begun)
        ring_set_begin_past(s);
    if (s->active && r->now - s->losses_synced > LOSSES_INTERVAL_NS)
        ring_set_sync_losses(s);
    for (uint32_t a = 0; a < s->n_arenas; a++)
        for (uint32_t i = 0; i < s->arenas[a]->n; i++) {
            struct ring *ring = &s->arenas[a]->rings[i];
            if (ring->given_up)
                continue;
            if (!ring->busy && ring->past == PAST_NOTHING && shm_reader_drained(&ring->reader) &&
                quiet(ring))
                continue;
            if (!s->last_look) {
                vouch = look(r, ring);
                if (vouch < held)
                    held = vouch;
            } else if (ring->past != PAST_NOTHING) {
                ring->busy = false;
                past_look(ring);
            }
            if (ring->given_up)
                continue;
            if (ring->reader.end - ring->reader.tail > ring->reader.size / 2)
                *ret_pressed = true;
            if (ring_load(ring, r->now)) {
                r->heap[r->n_heap++] = (struct merge_entry){ring->stamp, ring};
                s->in_heap++;
            }
        }
    /* A dead one has no more: what somebody else may still write there is not its. */
    s->last_look = s->dead;
    return held;
}

static uint64_t source_begin(struct router_source *base, uint64_t now)
{
    struct rings *r = container_of(base, struct rings, source);
    bool light = now - r->barrier < LIGHT_PASSES_NS && r->n_past == 0 && r->n_dead == 0 &&
                 !router_exact(r->env.router);
    bool pressed = false;

    r->asleep = false;
    r->n_heap = 0;
    r->fill_ns = UINT64_MAX;
    r->withheld = false;
    if (!light && !barrier(r))
        return r->vouched;
    r->since = now - r->now < ETW_NSEC_PER_SEC ? now - r->now : ETW_NSEC_PER_SEC;
    r->now = now;
    r->look = light ? now - LIGHT_VOUCH_NS : now;
    if (!light)
        r->barrier = now;
    uint64_t held = r->look;
    if (r->n_fast > 0 && now >= r->next_fit)
        fit_clock(r);
    for (struct ring_set *s = r->first; s; s = s->next) {
        uint64_t vouch = set_look(r, s, &pressed);
        if (vouch < held)
            held = vouch;
    }
    merge_build(r->heap, r->n_heap);
    if (pressed && now - held > PRESSED_BUSY_NS)
        held = now - PRESSED_BUSY_NS;
    if (r->n_fast > 0 && now - held < SHM_CLOCK_ERROR_NS)
        held = now - SHM_CLOCK_ERROR_NS;
    r->looked = r->look;
    if (held > r->vouched)
        r->vouched = held;
    return r->vouched;
}

static const struct etl_record *source_peek(struct router_source *base, uint64_t *ret_stamp)
{
    struct rings *r = container_of(base, struct rings, source);

    if (r->n_heap == 0)
        return NULL;
    const struct ring *ring = r->heap[0].of;
    *ret_stamp = r->heap[0].stamp;
    return &ring->head.prefix;
}

static void source_pop(struct router_source *base)
{
    struct rings *r = container_of(base, struct rings, source);
    struct ring *ring = r->heap[0].of;

    struct ring_set *s = ring->set;
    bool more;

    ring->last = ring->stamp;
    s->taken += ring->head.prefix.size;
    shm_reader_pop(&ring->reader, ring->head.prefix.size);
    advance(ring);
    if (__builtin_expect(s->taken > SET_PASS_BYTES, 0) && r->n_heap > s->in_heap &&
        !router_exact(r->env.router)) {
        r->withheld = true;
        more = false;
    } else
        more = ring_load(ring, r->now);
    if (more)
        r->heap[0].stamp = ring->stamp;
    else {
        r->heap[0] = r->heap[--r->n_heap];
        s->in_heap--;
    }
    if (r->n_heap > 1)
        merge_down(r->heap, r->n_heap, 0);
}

static void source_deliver(struct router_source *base, const struct etl_record *rec, uint64_t stamp)
{
    struct rings *r = container_of(base, struct rings, source);
    const struct ring *ring = r->heap[0].of;

    deliver_event(r->deliver, &(struct deliver_record){
                                  .process = ring->set->config.process,
                                  .prefix = rec,
                                  .record = ring->record,
                                  .stamp = stamp,
                                  .thread_id = ring->tid,
                                  .forged_stamp = ring->forged,
                              });
}

/* Before the pass counts: where its rings stand then. */
static void before_commit(void *userdata)
{
    struct rings *r = userdata;

    for (struct ring *ring = r->advanced; ring; ring = ring->next_advanced) {
        state_save(r->env.state, ring->image, sizeof(*ring->image));
        *ring->image = (struct ring_image){
            .position = ring->reader.position,
            .last = ring->last,
            .tid = ring->tid,
            .given_up = ring->given_up,
        };
    }
}

/* It counts: space is given back, numbers that were answered get a successor. */
static void source_commit(struct router_source *base)
{
    struct rings *r = container_of(base, struct rings, source);

    r->n_heap = 0;
    while (r->advanced) {
        struct ring *ring = r->advanced;
        r->advanced = ring->next_advanced;
        ring->advanced = false;
        if (!ring->given_up)
            shm_reader_commit(&ring->reader);
    }
    /* Who comes again at once need not be asked to. */
    if (r->n_woke > 0 && r->fill_ns >= ROUTER_FLOOD_NS)
        for (struct ring_set *s = r->first; s; s = s->next)
            if (s->woke)
                ring_set_bump(s, false);
    if (r->n_past > 0 || r->n_dead > 0 || r->done)
        rings_settle(r);
}

static uint64_t source_fill_ns(struct router_source *base)
{
    const struct rings *r = container_of(base, struct rings, source);

    return r->withheld ? 0 : r->fill_ns;
}

/* ---- sleep ---- */

static bool set_sleeps(const struct ring_set *s)
{
    for (uint32_t a = 0; a < s->n_arenas; a++)
        for (uint32_t i = 0; i < s->arenas[a]->n; i++) {
            const struct ring *ring = &s->arenas[a]->rings[i];
            const struct shm_reader *reader = &ring->reader;
            if (ring->given_up || (ring_drained(ring) && !ring->busy && quiet(ring)))
                continue;
            /* Stopped in the middle of an event: it wakes us when it goes on, as all do. */
            if (ring->stuck && ring_drained(ring) &&
                atomic_load_explicit(&reader->line->stamp, memory_order_relaxed) == reader->stamp &&
                atomic_load_explicit(&reader->line->head, memory_order_acquire) == reader->end)
                continue;
            return false;
        }
    return true;
}

static bool source_sleep(struct router_source *base)
{
    struct rings *r = container_of(base, struct rings, source);
    bool mark =
        r->low_latency || (r->env.first_record != NULL && r->env.first_record(r->env.userdata));

    if (r->n_dead > 0)
        return false;
    for (struct ring_set *s = r->first; s; s = s->next) {
        if (s->asked)
            return false;
        if (s->woke || mark != (s->sleep & SHM_SLEEP_LOW_LATENCY))
            ring_set_bump(s, mark);
    }
    if (!barrier(r))
        return false;
    for (struct ring_set *s = r->first; s; s = s->next)
        if (!set_sleeps(s))
            return false;
    r->asleep = true;
    return true;
}

/* The number stays there while we are awake: a ring that is half full before the next pass is due
 * asks for it. One answer to each number, a new number after each pass that an answer asked for. */
void ring_set_bump(struct ring_set *s, bool mark)
{
    uint32_t number = (s->sleep & ~SHM_SLEEP_LOW_LATENCY) + 2;

    if (number == 0)
        number = 2;
    s->sleep = number | (mark ? SHM_SLEEP_LOW_LATENCY : 0);
    shm_control_set_sleep(s->config.control, s->sleep);
    if (s->woke)
        s->rings->n_woke--;
    s->woke = false;
}

void ring_set_wake(struct ring_set *s)
{
    struct rings *r = s->rings;
    uint64_t now = etw_clock_boottime(), when = s->last_kick + KICK_INTERVAL_NS;

    if (!s->woke) {
        s->woke = true;
        r->n_woke++;
    }
    /* Awake, a first record can wait for the next pass; half a ring must not. */
    if (!r->asleep && s->sleep & SHM_SLEEP_LOW_LATENCY)
        return;
    if (s->last_kick > now)
        return; /* on its way */
    if (when < now)
        when = now;
    s->last_kick = when;
    router_kick_by(r->env.router, when);
}

void rings_set_low_latency(struct rings *r, bool on)
{
    r->low_latency = on;
    if (r->asleep)
        router_kick(r->env.router); /* the next sleep is marked so */
}

/* ---- the source ---- */

static const struct router_source_ops ops = {
    .name = "providers",
    .begin = source_begin,
    .peek = source_peek,
    .pop = source_pop,
    .commit = source_commit,
    .deliver = source_deliver,
    .sleep = source_sleep,
    .fill_ns = source_fill_ns,
};

void rings_init_source(struct rings *r)
{
    r->source.ops = &ops;
    r->hook = (struct state_hook){.before_commit = before_commit, .userdata = r};
}
