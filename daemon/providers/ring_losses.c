/* SPDX-License-Identifier: Apache-2.0
 *
 * What the writers counted as lost, into the sessions' counters. See rings.h. Loop thread only.
 *
 * The counters are the process's to write: what it adds in a time in which nobody could lose as
 * much is not believed, nor that something was found again. (For one that forges its counters the
 * identity of losses is not claimed; it must not make nonsense of the sessions' numbers, though.)
 */
#include "rings_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "sessions/session.h"
#include "tables.h"

/* Events that all threads of a process lose at most: eight a nanosecond, and what an unlucky moment
 * of reading the clock adds. */
#define LOST_PER_NS 8u
#define LOST_AT_ONCE (1u << 20)

static const enum loss_cause causes[SHM_LOST_CAUSES] = {
    [SHM_LOST_RING_FULL] = LOSS_RING_FULL,
    [SHM_LOST_NESTED] = LOSS_NESTED,
    [SHM_LOST_TOO_BIG] = LOSS_TOO_BIG,
    [SHM_LOST_SESSION_FULL] = LOSS_SLOW_CONSUMER,
};

static uint64_t chunk_key(const struct ring_set *s, uint32_t arena, uint32_t chunk)
{
    return ring_arena_key(s, arena) << 8 | chunk;
}

/* Those of a predecessor. */
void ring_losses_find(struct ring_set *s, uint32_t arena)
{
    struct ring_arena *a = s->arenas[arena];
    size_t size;

    for (uint32_t i = 0; i < LOSSES_CHUNKS; i++) {
        void *p =
            state_block_find(s->rings->env.state, STATE_LOSSES, chunk_key(s, arena, i), &size);
        if (!p || size != sizeof(*a->losses[i]))
            continue;
        a->losses[i] = p;
        s->losses_high = (uint16_t) ((i + 1) * LOSSES_CHUNK);
    }
}

void ring_losses_free(struct ring_set *s, uint32_t arena)
{
    for (uint32_t i = 0; i < LOSSES_CHUNKS; i++)
        state_block_free(s->rings->env.state, s->arenas[arena]->losses[i]);
}

/* Where counter c of an arena was last; made when there is first something to remember. */
static uint64_t *seen_get(struct ring_set *s, uint32_t arena, uint32_t c)
{
    struct losses_image **at = &s->arenas[arena]->losses[c / LOSSES_CHUNK];

    if (!*at) {
        void *p;
        if (state_block_new(s->rings->env.state, STATE_LOSSES,
                            chunk_key(s, arena, c / LOSSES_CHUNK), sizeof(**at), &p) < 0)
            return NULL; /* no memory: it is counted another time */
        *at = p;
    }
    return (*at)->seen[c % LOSSES_CHUNK];
}

static void counter_sync(struct ring_set *s, uint32_t arena, uint32_t c, struct session *session,
                         uint64_t most)
{
    const struct losses_image *chunk = s->arenas[arena]->losses[c / LOSSES_CHUNK];
    const struct shm_lost *lost = &s->arenas[arena]->mapping->lost[c];

    for (uint32_t i = 0; i < SHM_LOST_CAUSES; i++) {
        uint64_t now = atomic_load_explicit(&lost->events[i], memory_order_relaxed);
        uint64_t before = chunk ? chunk->seen[c % LOSSES_CHUNK][i] : 0;
        if (now == before)
            continue;
        uint64_t *seen = seen_get(s, arena, c);
        if (!seen)
            return;
        chunk = s->arenas[arena]->losses[c / LOSSES_CHUNK];
        uint64_t more = now - before;
        state_save(s->rings->env.state, &seen[i], sizeof(seen[i]));
        seen[i] = now;
        if (more > most) {
            process_misbehaved(s->config.process, "loss counters that jump");
            more = now > before ? most : 0;
        }
        if (session)
            session_count_lost(session, causes[i], more);
    }
}

void ring_set_sync_losses(struct ring_set *s)
{
    struct state *st = s->rings->env.state;
    uint64_t now = etw_clock_boottime();
    uint64_t most = (now - s->losses_synced) * LOST_PER_NS + LOST_AT_ONCE;

    s->active = false;
    state_begin(st);
    uint32_t n = tables_counters(s->config.process);
    if (n < s->losses_high)
        n = s->losses_high;
    for (uint32_t c = 0; c < n; c++) {
        struct session *session = tables_counter(s->config.process, (uint16_t) c);
        if (session && c >= s->losses_high)
            s->losses_high = (uint16_t) (c + 1);
        /* What a counter counts while it is nobody's is not the next one's. */
        if (session || c < s->losses_high)
            for (uint32_t a = 0; a < s->n_arenas; a++)
                counter_sync(s, a, c, session, most);
    }
    s->losses_synced = now;
    state_commit(st);
}

void rings_sync_losses(struct rings *r)
{
    state_begin(r->env.state);
    for (struct ring_set *s = r->first; s; s = s->next)
        ring_set_sync_losses(s);
    state_commit(r->env.state);
}
