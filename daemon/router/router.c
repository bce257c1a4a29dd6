/* SPDX-License-Identifier: Apache-2.0
 *
 * The router: a merge of the sources by time stamp, under a watermark, into sessions. It is not a
 * buffer (sessions have those) and knows no ring's layout (sources do). Called by the kernel logger
 * and sessions. Loop thread only.
 *
 * Invariants:
 *  - within a pass records leave in stamp order (ties: by source), all below the watermark;
 *  - `emitted` never falls: what comes with a smaller stamp afterwards is late, and the session
 *    finds it a late buffer;
 *  - routes[] holds, for each row, the sessions whose masks want it; it changes only between
 * passes.
 */
#include "router.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "etl/build.h"
#include "io/loop.h"
#include "router/merge_heap.h"
#include "sessions/session.h"
#include "state/state.h"

/* How a pass's bytes move the interval: more than this, and the next pass comes sooner; less, and
 * it comes later. 256 KiB in 3 ms are about 850 000 records of 100 bytes a second. */
#define BUSY_BYTES (256u * 1024)
#define CALM_BYTES (16u * 1024)
/* Waiting after a pass: go on at once. */
#define PENDING_BYTES (1024u * 1024)
/* Between passes while somebody waits for a drain: probes vouch for 50 us ago. */
#define DRAIN_INTERVAL_NS 200000u
/* Passes in the time in which a source fills up. */
#define PASSES_PER_FILL 4u
/* Sources that would wake us if they filled up need not be looked at more often than this. */
#define SLEEPERS_INTERVAL_NS 20000000u
/* Passes in a row that found nothing before the router sleeps: waking it costs a writer 12 us,
 * these passes cost us less. */
#define IDLE_PASSES 3u

/* A source in the heap and its next record. They lie in the order of the sources, which decides
 * between equal stamps. */
struct head {
    struct router_source *source;
    const struct etl_record *rec;
};

struct router_session {
    struct session *session;
    uint32_t masks[8];
};

struct route {
    struct session **sessions;
    size_t n;
};

struct drain {
    uint64_t stamp;
    uint64_t deadline;
    void (*done)(bool complete, void *userdata);
    void *userdata;
    struct drain *next;
};

struct router {
    struct loop *loop;
    struct state *state; /* each pass is one of its transactions; NULL: nobody takes over */
    struct loop_timer *timer;
    uint64_t base_ns, interval_ns;
    struct router_source **sources;
    size_t n_sources, sources_cap;
    struct head *heads;       /* room for every source */
    struct merge_entry *heap; /* of heads: sources that have a record below the watermark */
    size_t n_heap;
    struct router_session *sessions;
    size_t n_sessions, sessions_cap;
    struct route routes[ETL_ROW_COUNT];
    struct session **route_memory;
    uint32_t union_masks[8];
    struct router_finisher finisher;
    uint64_t emitted; /* all records below are out */
    uint64_t hold;
    uint64_t bytes; /* of records in the pass */
    unsigned idle;  /* passes in a row that found none */
    bool in_pass;
    bool exact;   /* the pass was asked for */
    bool kicked;  /* the next pass comes at once */
    uint64_t due; /* the timer's time; UINT64_MAX: none */
    struct drain *drains;
};

static void timer_fired(void *userdata);

int router_new(struct loop *l, uint64_t interval_ns, struct router **ret)
{
    int r;

    struct router *rt = calloc(1, sizeof(*rt));
    if (!rt)
        return -ENOMEM;
    rt->loop = l;
    rt->base_ns = rt->interval_ns = interval_ns;
    rt->hold = UINT64_MAX;
    rt->due = UINT64_MAX;
    r = loop_timer_new(l, timer_fired, rt, &rt->timer);
    if (r < 0) {
        free(rt);
        return r;
    }
    *ret = rt;
    return 0;
}

void router_set_state(struct router *r, struct state *st)
{
    r->state = st;
}

struct router *router_free(struct router *r)
{
    if (!r)
        return NULL;
    loop_timer_free(r->timer);
    while (r->drains) {
        struct drain *d = r->drains;
        r->drains = d->next;
        free(d);
    }
    free(r->sources);
    free(r->heads);
    free(r->heap);
    free(r->sessions);
    free(r->route_memory);
    free(r);
    return NULL;
}

/* Probes' records have nowhere to go without a session that wants them. */
static bool has_work(const struct router *r)
{
    if (r->n_sessions > 0 && r->n_sources > 0)
        return true;
    for (size_t i = 0; i < r->n_sources; i++)
        if (r->sources[i]->ops->deliver)
            return true;
    return false;
}

static bool all_sleep(struct router *r)
{
    for (size_t i = 0; i < r->n_sources; i++)
        if (!r->sources[i]->ops->sleep)
            return false;
    for (size_t i = 0; i < r->n_sources; i++)
        if (!r->sources[i]->ops->sleep(r->sources[i]))
            return false;
    return true;
}

static void arm(struct router *r, uint64_t when)
{
    r->due = when;
    /* No memory for the timer heap: it has had room for this timer since its first arming. */
    (void) loop_timer_arm(r->timer, when);
}

static void disarm(struct router *r)
{
    r->due = UINT64_MAX;
    loop_timer_disarm(r->timer);
}

/* When the next pass comes. No records can come: none, and the loop sleeps. */
static void schedule(struct router *r, uint64_t pending)
{
    uint64_t wait;

    if (r->kicked)
        wait = 0;
    else if (r->drains)
        wait = DRAIN_INTERVAL_NS;
    else if (!has_work(r)) {
        disarm(r);
        return;
    } else
        wait = pending > PENDING_BYTES ? 0 : r->interval_ns;
    arm(r, etw_clock_boottime() + wait);
}

static void pass(struct router *r, bool exact);

static void timer_fired(void *userdata)
{
    struct router *r = userdata;

    r->due = UINT64_MAX;
    pass(r, false);
}

bool router_exact(const struct router *r)
{
    return r->exact || r->drains;
}

void router_kick(struct router *r)
{
    r->kicked = true;
    router_kick_by(r, etw_clock_boottime());
}

void router_kick_by(struct router *r, uint64_t when)
{
    r->idle = 0;
    if (r->interval_ns > r->base_ns)
        r->interval_ns = r->base_ns;
    if (!r->in_pass && when < r->due) /* a pass looks after itself */
        arm(r, when);
}

int router_add_source(struct router *r, struct router_source *s)
{
    if (r->n_sources == r->sources_cap) {
        size_t cap = r->sources_cap ? r->sources_cap * 2 : 8;
        struct router_source **sources = realloc(r->sources, cap * sizeof(*sources));
        if (!sources)
            return -ENOMEM;
        r->sources = sources;
        struct head *heads = realloc(r->heads, cap * sizeof(*heads));
        if (!heads)
            return -ENOMEM;
        r->heads = heads;
        struct merge_entry *heap = realloc(r->heap, cap * sizeof(*heap));
        if (!heap)
            return -ENOMEM;
        r->heap = heap;
        r->sources_cap = cap;
    }
    r->sources[r->n_sources++] = s;
    s->router_data = r;
    schedule(r, 0);
    return 0;
}

void router_remove_source(struct router *r, struct router_source *s)
{
    for (size_t i = 0; i < r->n_sources; i++) {
        if (r->sources[i] != s)
            continue;
        memmove(&r->sources[i], &r->sources[i + 1], (r->n_sources - i - 1) * sizeof(*r->sources));
        r->n_sources--;
        s->router_data = NULL;
        schedule(r, 0);
        return;
    }
}

static bool masks_want(const uint32_t masks[8], const struct etl_class_row *row)
{
    return row->mask_bit == 0 || (masks[row->mask] & row->mask_bit) != 0;
}

/* Makes routes[] anew. Without memory the old ones stay, and -ENOMEM. */
static int routes_update(struct router *r)
{
    struct session **memory = NULL;
    if (r->n_sessions > 0) {
        memory = calloc(r->n_sessions * ETL_ROW_COUNT, sizeof(*memory));
        if (!memory)
            return -ENOMEM;
    }
    struct session **p = memory;
    for (int row = 0; row < ETL_ROW_COUNT; row++) {
        r->routes[row] = (struct route){.sessions = p};
        for (size_t i = 0; i < r->n_sessions; i++)
            if (masks_want(r->sessions[i].masks, &etl_rows[row]))
                r->routes[row].sessions[r->routes[row].n++] = r->sessions[i].session;
        if (p)
            p += r->routes[row].n;
    }
    free(r->route_memory);
    r->route_memory = memory;

    memset(r->union_masks, 0, sizeof(r->union_masks));
    for (size_t i = 0; i < r->n_sessions; i++)
        for (int m = 0; m < 8; m++)
            r->union_masks[m] |= r->sessions[i].masks[m];
    return 0;
}

int router_add_session(struct router *r, struct session *s)
{
    int ret;

    for (size_t i = 0; i < r->n_sessions; i++)
        if (r->sessions[i].session == s)
            return -EEXIST;
    if (r->n_sessions == r->sessions_cap) {
        size_t cap = r->sessions_cap ? r->sessions_cap * 2 : 4;
        struct router_session *sessions = realloc(r->sessions, cap * sizeof(*sessions));
        if (!sessions)
            return -ENOMEM;
        r->sessions = sessions;
        r->sessions_cap = cap;
    }
    r->sessions[r->n_sessions++] = (struct router_session){.session = s};
    ret = routes_update(r);
    if (ret < 0) {
        r->n_sessions--;
        return ret;
    }
    schedule(r, 0);
    return 0;
}

void router_remove_session(struct router *r, struct session *s)
{
    for (size_t i = 0; i < r->n_sessions; i++) {
        if (r->sessions[i].session != s)
            continue;
        memmove(&r->sessions[i], &r->sessions[i + 1],
                (r->n_sessions - i - 1) * sizeof(*r->sessions));
        r->n_sessions--;
        if (routes_update(r) < 0) {
            /* Take it out of the routes in place: it must not be named any more. */
            for (int row = 0; row < ETL_ROW_COUNT; row++) {
                struct route *t = &r->routes[row];
                for (size_t k = 0; k < t->n; k++) {
                    if (t->sessions[k] != s)
                        continue;
                    memmove(&t->sessions[k], &t->sessions[k + 1],
                            (t->n - k - 1) * sizeof(*t->sessions));
                    t->n--;
                    break;
                }
            }
        }
        schedule(r, 0);
        return;
    }
}

void router_set_masks(struct router *r, struct session *s, const uint32_t masks[8])
{
    for (size_t i = 0; i < r->n_sessions; i++) {
        if (r->sessions[i].session != s)
            continue;
        uint32_t old[8];
        memcpy(old, r->sessions[i].masks, sizeof(old));
        memcpy(r->sessions[i].masks, masks, sizeof(old));
        if (routes_update(r) < 0)
            memcpy(r->sessions[i].masks, old, sizeof(old)); /* routes and masks agree */
        return;
    }
}

void router_union_masks(struct router *r, uint32_t masks[8])
{
    memcpy(masks, r->union_masks, sizeof(r->union_masks));
}

bool router_wants(const struct router *r, enum etl_row row)
{
    return r->routes[row].n > 0;
}

void router_set_finisher(struct router *r, const struct router_finisher *f)
{
    r->finisher = f ? *f : (struct router_finisher){0};
}

uint64_t router_time(const struct router *r)
{
    if (r->n_sources > 0 && r->emitted > 0)
        return r->emitted;
    return etw_clock_boottime();
}

static inline void deliver(struct session *s, enum etl_row row, uint16_t cpu, uint64_t stamp,
                           const void *event, uint32_t size)
{
    void *p = session_reserve(s, cpu, stamp, size);
    if (!p)
        return;
    memcpy(p, event, size);
    if (session_converts(s))
        session_convert(s, row, p, size, stamp);
}

void router_emit(struct router *r, enum etl_row row, uint16_t cpu, uint64_t stamp,
                 const void *event, uint32_t size, struct session *only)
{
    if (only) {
        deliver(only, row, cpu, stamp, event, size);
        return;
    }
    const struct route *t = &r->routes[row];
    for (size_t i = 0; i < t->n; i++)
        deliver(t->sessions[i], row, cpu, stamp, event, size);
}

/* Size of the event in a final record, or 0 when the record cannot hold what it says. */
static inline uint32_t final_size(const struct etl_record *rec, const struct etl_class_row *row)
{
    const uint8_t *event = (const uint8_t *) (rec + 1);
    uint32_t room = rec->size - (uint32_t) sizeof(*rec);
    bool system = row->header == ETL_SYSTEM64 || row->header == ETL_PERFINFO64;
    uint16_t size;
    if (room < sizeof(struct etl_perfinfo_header))
        return 0;
    memcpy(&size, event + (system ? 4 : 0), sizeof(size));
    return size >= sizeof(struct etl_perfinfo_header) && size <= room ? size : 0;
}

static void count_invalid(struct router *r, unsigned row)
{
    if (row < ETL_ROW_COUNT)
        for (size_t i = 0; i < r->routes[row].n; i++)
            session_count_lost(r->routes[row].sessions[i], LOSS_INVALID, 1);
    else /* nobody can say whose it was */
        for (size_t i = 0; i < r->n_sessions; i++)
            session_count_lost(r->sessions[i].session, LOSS_INVALID, 1);
}

static void take(struct router *r, struct router_source *s, const struct etl_record *rec,
                 uint64_t stamp)
{
    r->bytes += rec->size;
    if (s->ops->deliver) {
        s->ops->deliver(s, rec, stamp);
        return;
    }
    if (rec->type == ETL_RECORD_RAW) {
        if (r->finisher.raw)
            r->finisher.raw(r->finisher.userdata, rec, stamp);
        return;
    }
    unsigned row = rec->registration;
    uint32_t size =
        rec->type == ETL_RECORD_FINAL && row < ETL_ROW_COUNT && rec->size >= sizeof(*rec)
            ? final_size(rec, &etl_rows[row])
            : 0;
    if (size == 0) {
        count_invalid(r, row);
        return;
    }
    const void *event = rec + 1;
    uint64_t copy[32]; /* rows with a last touch are small: fixed layouts */
    if (r->finisher.touch && r->finisher.touch_rows[row] && size <= sizeof(copy)) {
        memcpy(copy, event, size);
        r->finisher.touch(r->finisher.userdata, (enum etl_row) row, copy, stamp, rec->cpu);
        event = copy;
    }
    const struct route *t = &r->routes[row];
    for (size_t i = 0; i < t->n; i++)
        deliver(t->sessions[i], (enum etl_row) row, rec->cpu, stamp, event, size);
}

/* ---- the merge ---- */

static uint64_t sources_begin(struct router *r, uint64_t now)
{
    uint64_t watermark = now;
    for (size_t i = 0; i < r->n_sources; i++) {
        uint64_t vouched = r->sources[i]->ops->begin(r->sources[i], now);
        if (vouched < watermark)
            watermark = vouched;
    }
    return watermark < r->hold ? watermark : r->hold;
}

/* Merges what lies below the watermark. Returns the stamp up to which everything is out. */
static uint64_t merge(struct router *r, uint64_t watermark)
{
    r->n_heap = 0;
    for (size_t i = 0; i < r->n_sources; i++) {
        struct head *h = &r->heads[i];
        struct merge_entry e = {.of = h};
        h->source = r->sources[i];
        h->rec = h->source->ops->peek(h->source, &e.stamp);
        if (h->rec && e.stamp < watermark)
            r->heap[r->n_heap++] = e;
    }
    merge_build(r->heap, r->n_heap);

    while (r->n_heap > 0) {
        struct merge_entry *top = &r->heap[0];
        struct head *h = top->of;
        struct router_source *s = h->source;
        /* As long as this source is the earliest: no look at the heap. */
        struct merge_entry rival = {.stamp = watermark};
        if (r->n_heap > 1)
            rival = r->heap[1];
        if (r->n_heap > 2 && merge_earlier(&r->heap[2], &rival))
            rival = r->heap[2];
        for (;;) {
            take(r, s, h->rec, top->stamp);
            s->ops->pop(s);
            h->rec = s->ops->peek(s, &top->stamp);
            if (!h->rec || top->stamp >= watermark) {
                *top = r->heap[--r->n_heap];
                break;
            }
            if (r->n_heap > 1 && !merge_earlier(top, &rival))
                break;
            if (r->bytes >= ETWD_PASS_BYTES)
                break;
        }
        if (r->n_heap > 1)
            merge_down(r->heap, r->n_heap, 0);
        if (r->bytes >= ETWD_PASS_BYTES && r->n_heap > 0)
            return r->heap[0].stamp; /* the rest comes in the next pass */
    }
    return watermark;
}

/* Returns whether the next pass is to come at once. */
static bool adapt(struct router *r)
{
    uint64_t least = r->base_ns / 3, most = r->base_ns * 5 / 3, fill = UINT64_MAX;
    bool sleepers = true;

    for (size_t i = 0; i < r->n_sources; i++) {
        const struct router_source_ops *ops = r->sources[i]->ops;
        sleepers &= ops->sleep != NULL;
        if (ops->fill_ns) {
            uint64_t one = ops->fill_ns(r->sources[i]);
            fill = one < fill ? one : fill;
        }
    }
    if (sleepers && most < SLEEPERS_INTERVAL_NS)
        most = SLEEPERS_INTERVAL_NS;
    if (sleepers ||
        r->interval_ns < least) /* rarer step by step; how fast they fill is the limit */
        r->interval_ns += r->interval_ns / 4;
    else if (r->bytes > BUSY_BYTES)
        r->interval_ns = r->interval_ns / 2 > least ? r->interval_ns / 2 : least;
    else if (r->bytes < CALM_BYTES)
        r->interval_ns += r->interval_ns / 4;
    else
        r->interval_ns = (r->interval_ns + r->base_ns) / 2;
    if (r->interval_ns > most)
        r->interval_ns = most;
    bool flood = fill < ROUTER_FLOOD_NS;
    if (flood)
        fill = ROUTER_FLOOD_NS;
    if (r->interval_ns > fill / PASSES_PER_FILL)
        r->interval_ns = fill / PASSES_PER_FILL;
    return flood;
}

/* Ends the drains that have what they waited for, or have waited long enough. */
static void drains_run(struct router *r, uint64_t now)
{
    struct drain *ended = NULL, **tail = &ended;
    for (struct drain **p = &r->drains; *p;) {
        struct drain *d = *p;
        if (r->emitted >= d->stamp || now >= d->deadline) {
            *p = d->next;
            d->next = NULL;
            *tail = d;
            tail = &d->next;
        } else
            p = &d->next;
    }
    while (ended) {
        struct drain *d = ended;
        ended = d->next;
        d->done(r->emitted >= d->stamp, d->userdata);
        free(d);
    }
}

static void pass(struct router *r, bool exact)
{
    if (r->in_pass)
        return;
    if (state_active(r->state)) {
        router_kick(r);
        return;
    }
    r->in_pass = true;
    r->exact = exact;
    r->kicked = false;
    r->bytes = 0;

    state_begin(r->state);
    uint64_t now = etw_clock_boottime();
    uint64_t watermark = sources_begin(r, now);
    uint64_t emitted = merge(r, watermark);
    if (emitted > r->emitted)
        r->emitted = emitted;

    /* What is in session buffers is theirs for good; only then sources give its space back. */
    state_commit(r->state);

    uint64_t pending = r->bytes >= ETWD_PASS_BYTES ? UINT64_MAX : 0;
    for (size_t i = 0; i < r->n_sources; i++) {
        struct router_source *s = r->sources[i];
        s->ops->commit(s);
        if (pending != UINT64_MAX && s->ops->pending)
            pending += s->ops->pending(s);
    }
    if (adapt(r))
        pending = UINT64_MAX;
    r->idle = r->bytes > 0 ? 0 : r->idle + 1;
    r->in_pass = false;
    if (r->hold != UINT64_MAX)
        pending = 0; /* what waits behind the hold is no reason to hurry */
    if (r->drains)
        drains_run(r, now);
    if (r->idle >= IDLE_PASSES && !r->drains && !r->kicked && has_work(r) && all_sleep(r)) {
        disarm(r);
        return;
    }
    schedule(r, pending);
}

void router_pass(struct router *r)
{
    pass(r, true);
}

uint64_t router_emitted(const struct router *r)
{
    return r->emitted;
}

void router_hold(struct router *r, uint64_t stamp)
{
    r->hold = stamp;
    if (stamp == UINT64_MAX)
        schedule(r, UINT64_MAX);
}

int router_drain(struct router *r, uint64_t stamp, void (*done)(bool complete, void *userdata),
                 void *userdata)
{
    struct drain *d = malloc(sizeof(*d));
    if (!d)
        return -ENOMEM;
    *d = (struct drain){
        .stamp = stamp,
        .deadline = etw_clock_boottime() + ETWD_DRAIN_MS * 1000000ULL,
        .done = done,
        .userdata = userdata,
    };
    struct drain **p = &r->drains;
    while (*p)
        p = &(*p)->next;
    *p = d;
    schedule(r, 0);
    return 0;
}
