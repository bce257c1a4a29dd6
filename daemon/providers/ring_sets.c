/* SPDX-License-Identifier: Apache-2.0
 *
 * See rings.h; here: how rings come and go, who waits until they are past a moment, and what a
 * successor finds of them. Loop thread only, outside passes but where said.
 */
#include "rings_internal.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "deliver.h"
#include "io/loop.h"
#include "shm/arena.h"
#include "shm/control.h"

/* What a successor takes the rings of busy writers to vouch for: half of the patience that such
 * writers get is left. */
#define TAKEOVER_VOUCH_NS (ETWD_BUSY_MAX_MS * 1000000ull / 2)

static void settle(void *userdata);

int rings_new(const struct rings_env *env, struct rings **ret)
{
    int r;

    /* Also refused where nobody registered; a kernel without it says ENOSYS or EINVAL. */
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) < 0)
        return errno == EINVAL ? -ENOSYS : -errno;
    struct rings *rs = calloc(1, sizeof(*rs));
    if (!rs)
        return -ENOMEM;
    r = deliver_new(env->cpus, &rs->deliver);
    if (r < 0) {
        free(rs);
        return r;
    }
    rs->env = *env;
    rs->end = &rs->first;
    rs->fill_ns = UINT64_MAX;
    rings_init_source(rs);
    state_add_hook(env->state, &rs->hook);
    *ret = rs;
    return 0;
}

struct rings *rings_free(struct rings *r)
{
    if (!r)
        return NULL;
    while (r->first)
        ring_set_free(r->first);
    state_remove_hook(r->env.state, &r->hook);
    deliver_free(r->deliver);
    free(r->heap);
    free(r);
    return NULL;
}

/* ---- sets ---- */

int ring_set_new(struct rings *r, const struct ring_set_config *c, struct ring_set **ret)
{
    int e;

    struct ring_set *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->rings = r;
    s->config = *c;
    s->config.fast_clock = c->fast_clock && r->env.conf->fast_clock;
    s->asked_end = &s->asked;
    s->losses_synced = etw_clock_boottime();
    if (!r->sourced) {
        e = router_add_source(r->env.router, &r->source);
        if (e < 0) {
            free(s);
            return e;
        }
        r->sourced = true;
    }
    /* Not one that a predecessor's writers have answered. */
    s->sleep =
        atomic_load_explicit(&shm_control_process(c->control_base)->sleep, memory_order_relaxed);
    ring_set_bump(s, false);
    if (s->config.fast_clock) {
        /* A predecessor's line ended meanwhile, or goes on where ours does not. */
        shm_clock_publish(shm_control_clock(c->control_base), &r->fit);
        r->n_fast++;
    }
    s->at = r->end;
    *r->end = s;
    r->end = &s->next;
    *ret = s;
    return 0;
}

static void requests_free(struct past_request *q)
{
    while (q) {
        struct past_request *next = q->next;
        free(q);
        q = next;
    }
}

struct ring_set *ring_set_free(struct ring_set *s)
{
    if (!s)
        return NULL;
    struct rings *r = s->rings;
    struct state *st = r->env.state;

    *s->at = s->next;
    if (s->next)
        s->next->at = s->at;
    else
        r->end = s->at;
    r->n_rings -= s->n_rings;
    r->n_woke -= s->woke;
    r->n_fast -= s->config.fast_clock;
    r->n_dead -= s->dead && s->gone;
    r->n_past -= s->asked || s->begun;
    requests_free(s->asked);
    requests_free(s->begun);
    for (struct past_request **q = &r->done; *q;) {
        struct past_request *request = *q;
        if (request->set != s) {
            q = &request->next;
            continue;
        }
        *q = request->next;
        free(request);
    }
    state_begin(st);
    for (uint32_t i = 0; i < s->n_arenas; i++) {
        struct ring_arena *a = s->arenas[i];
        ring_losses_free(s, i);
        state_block_free(st, a->images);
        shm_arena_unmap(a->mapping, s->config.ring_size);
        free(a);
    }
    state_commit(st);
    free(s);
    if (!r->first && r->sourced) {
        router_remove_source(r->env.router, &r->source);
        r->sourced = false;
    }
    return NULL;
}

int ring_set_add_arena(struct ring_set *s, uint32_t arena, const struct shm_arena *mapping)
{
    struct state *st = s->rings->env.state;
    uint64_t key = ring_arena_key(s, arena);
    size_t size = 0;
    void *images;
    int r = 0;

    if (arena != s->n_arenas || arena >= ARRAY_SIZE(s->arenas))
        return -EINVAL;
    struct ring_arena *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    a->mapping = mapping;
    state_begin(st);
    images = state_block_find(st, STATE_RING, key, &size);
    if (!images)
        r = state_block_new(st, STATE_RING, key, SHM_RINGS_PER_ARENA * sizeof(*a->images), &images);
    else if (size != SHM_RINGS_PER_ARENA * sizeof(*a->images))
        r = -EBADMSG;
    state_commit(st);
    if (r < 0) {
        free(a);
        return r;
    }
    a->images = images;
    s->arenas[s->n_arenas++] = a;
    ring_losses_find(s, arena);
    return 0;
}

static int heap_reserve(struct rings *r, size_t n)
{
    if (n <= r->heap_cap)
        return 0;
    size_t cap = r->heap_cap ? r->heap_cap * 2 : 64;
    while (cap < n)
        cap *= 2;
    struct merge_entry *heap = reallocarray(r->heap, cap, sizeof(*heap));
    if (!heap)
        return -ENOMEM;
    r->heap = heap;
    r->heap_cap = cap;
    return 0;
}

int ring_set_add_rings(struct ring_set *s, uint32_t n)
{
    struct rings *r = s->rings;
    uint64_t now = etw_clock_boottime();
    int e;

    if (n > s->n_arenas * SHM_RINGS_PER_ARENA)
        return -EINVAL;
    while (s->n_rings < n) {
        uint32_t i = s->n_rings, number = i / SHM_RINGS_PER_ARENA;
        struct ring_arena *a = s->arenas[number];
        struct ring *ring = &a->rings[i % SHM_RINGS_PER_ARENA];
        e = heap_reserve(r, r->n_rings + 1u);
        if (e == 0)
            e = shm_control_add_ring(s->config.control, i);
        if (e == 0)
            e = shm_reader_init(&ring->reader, a->mapping, s->config.control_base, number,
                                i % SHM_RINGS_PER_ARENA, s->config.ring_size, now);
        if (e < 0)
            return e;
        ring->reader.clock_offset = s->config.clock_offset;
        ring->set = s;
        /* Who stamps below claims to have written before there was a ring. */
        ring->last = now > SHM_CLOCK_ERROR_NS ? now - SHM_CLOCK_ERROR_NS : 0;
        ring->image = &a->images[i % SHM_RINGS_PER_ARENA];
        a->n++;
        s->n_rings++;
        r->n_rings++;
    }
    return 0;
}

uint32_t ring_set_claimed(const struct ring_set *s)
{
    uint32_t claimed = 0;

    for (uint32_t a = 0; a < s->n_arenas; a++)
        for (uint32_t i = 0; i < s->arenas[a]->n; i++)
            claimed += atomic_load_explicit(&s->arenas[a]->rings[i].reader.line->claims,
                                            memory_order_relaxed) &
                       1;
    return claimed;
}

int ring_set_takeover(struct ring_set *s)
{
    uint64_t now = etw_clock_boottime();

    for (uint32_t a = 0; a < s->n_arenas; a++)
        for (uint32_t i = 0; i < s->arenas[a]->n; i++) {
            struct ring *ring = &s->arenas[a]->rings[i];
            struct shm_reader *reader = &ring->reader;
            const struct ring_image *image = ring->image;
            if (image->position % SHM_RECORD_ALIGN != 0 || image->position < reader->tail ||
                image->position - reader->tail > reader->size)
                return -EBADMSG;
            /* Read up to here for good; the predecessor had perhaps no time to say so. */
            reader->position = reader->end = image->position;
            shm_reader_commit(reader);
            reader->vouched = now > TAKEOVER_VOUCH_NS ? now - TAKEOVER_VOUCH_NS : 0;
            ring->last = image->last;
            ring->tid = image->tid;
            ring->given_up = image->given_up != 0;
            ring->busy = true; /* until a look says no */
        }
    s->losses_synced = 0; /* who knows when */
    router_kick(s->rings->env.router);
    return 0;
}

/* ---- S3 ---- */

int ring_set_when_past(struct ring_set *s,
                       void (*past)(struct provider_process *pp, uint64_t cookie), uint64_t cookie)
{
    struct past_request *q = malloc(sizeof(*q));

    if (!q)
        return -ENOMEM;
    *q = (struct past_request){.set = s, .past = past, .cookie = cookie};
    if (!s->asked && !s->begun)
        s->rings->n_past++;
    *s->asked_end = q;
    s->asked_end = &q->next;
    router_kick(s->rings->env.router);
    return 0;
}

/* In a pass. Rings that come later are past it: their threads claim them after this. */
void ring_set_begin_past(struct ring_set *s)
{
    s->begun = s->asked;
    s->asked = NULL;
    s->asked_end = &s->asked;
    for (uint32_t a = 0; a < s->n_arenas; a++)
        for (uint32_t i = 0; i < s->arenas[a]->n; i++)
            s->arenas[a]->rings[i].past = PAST_LOOK;
}

/* Whether every ring is past it. */
static bool set_past(struct ring_set *s)
{
    bool all = true;

    for (uint32_t a = 0; a < s->n_arenas; a++)
        for (uint32_t i = 0; i < s->arenas[a]->n; i++) {
            struct ring *ring = &s->arenas[a]->rings[i];
            if (ring->given_up ||
                (ring->past == PAST_DRAIN && ring->reader.position >= ring->past_end))
                ring->past = PAST_NOTHING;
            all &= ring->past == PAST_NOTHING;
        }
    return all;
}

/* ---- after a pass, from the loop ---- */

static bool set_drained(const struct ring_set *s)
{
    for (uint32_t a = 0; a < s->n_arenas; a++)
        for (uint32_t i = 0; i < s->arenas[a]->n; i++)
            if (!ring_drained(&s->arenas[a]->rings[i]))
                return false;
    return true;
}

/* The end of a pass, still in it. */
void rings_settle(struct rings *r)
{
    struct past_request **end = &r->done;
    bool due = false;

    while (*end)
        end = &(*end)->next;
    for (struct ring_set *s = r->first; s && r->n_past > 0; s = s->next) {
        if (!s->begun || !set_past(s))
            continue;
        *end = s->begun;
        while (*end)
            end = &(*end)->next;
        s->begun = NULL;
        if (!s->asked)
            r->n_past--;
    }
    for (struct ring_set *s = r->first; s && r->n_dead > 0 && !due; s = s->next)
        due = s->gone && s->last_look && set_drained(s);
    if ((due || r->done) && !r->settling && loop_defer(r->env.loop, settle, r) == 0)
        r->settling = true;
}

static struct ring_set *find_gone(struct rings *r)
{
    for (struct ring_set *s = r->first; s && r->n_dead > 0; s = s->next)
        if (s->gone && s->last_look && set_drained(s))
            return s;
    return NULL;
}

/* What is called may free sets, and ask again. */
static void settle(void *userdata)
{
    struct rings *r = userdata;
    struct ring_set *s;

    r->settling = false;
    while (r->done) {
        struct past_request q = *r->done;
        free(r->done);
        r->done = q.next;
        q.past(q.set->config.process, q.cookie);
    }
    while ((s = find_gone(r))) {
        void (*gone)(struct provider_process * pp) = s->gone;
        s->gone = NULL;
        r->n_dead--;
        ring_set_sync_losses(s);
        gone(s->config.process);
    }
}

void ring_set_dead(struct ring_set *s, void (*gone)(struct provider_process *pp))
{
    if (s->dead)
        return;
    s->dead = true;
    s->gone = gone;
    s->rings->n_dead += gone != NULL;
    router_kick(s->rings->env.router);
}
