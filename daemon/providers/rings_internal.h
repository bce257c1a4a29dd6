/* SPDX-License-Identifier: Apache-2.0
 *
 * The rings from inside: shared by rings.c (the router's source), ring_sets.c (how rings come and
 * go), ring_losses.c. Loop thread only.
 *
 * Invariants:
 *  - between passes no ring is in the heap or the list of advanced ones, and each tail is
 * published;
 *  - a ring's image in the state has the position and `last` of the last committed pass;
 *  - a ring that was not `busy` at the pass of time `looked` vouched for that time, also when
 * nothing was stored for it.
 */
#pragma once

#include "rings.h"

#include "router/merge_heap.h"
#include "router/router.h"
#include "shm/clock.h"
#include "shm/ring.h"
#include "state/state.h"

struct deliver;
struct loop;

/* What lies in the state of each ring, of a kind STATE_RING block an arena. */
struct ring_image {
    uint64_t position; /* everything below is in session buffers */
    uint64_t last;     /* stamp of the last record taken */
    uint32_t tid;
    uint32_t given_up;
    uint64_t reserved;
};
_Static_assert(sizeof(struct ring_image) == 32, "part of the format");

/* Loss counters as they were when last read, a STATE_LOSSES block for as many. */
#define LOSSES_CHUNK 64u
#define LOSSES_CHUNKS (SHM_LOST_COUNTERS / LOSSES_CHUNK)
struct losses_image {
    uint64_t seen[LOSSES_CHUNK][SHM_LOST_CAUSES];
};

enum past_state {
    PAST_NOTHING, /* nobody asked, or this ring is past */
    PAST_LOOK,    /* to be looked at */
    PAST_BUSY,    /* was busy, with past_stamp and past_end */
    PAST_DRAIN,   /* what is below past_end has to be read */
};

struct ring {
    struct shm_reader reader;
    struct ring_set *set;
    /* The record at hand: what order and size are decided by, and where the rest is. */
    struct {
        struct etl_record prefix;
        uint8_t event[24];
    } head;
    const void *record;
    uint64_t stamp;
    uint64_t last;
    uint32_t tid;
    bool busy;  /* at the last look */
    bool stuck; /* and passed over then */
    bool given_up;
    bool forged; /* the stamp is not the record's */
    bool advanced;
    uint8_t past; /* enum past_state */
    uint64_t past_stamp, past_end;
    struct ring *next_advanced;
    struct ring_image *image;
};

struct ring_arena {
    const struct shm_arena *mapping;
    struct ring_image *images;
    struct losses_image *losses[LOSSES_CHUNKS];
    uint32_t n; /* rings that are looked at: the first ones */
    struct ring rings[SHM_RINGS_PER_ARENA];
};

struct past_request {
    struct past_request *next;
    struct ring_set *set;
    void (*past)(struct provider_process *pp, uint64_t cookie);
    uint64_t cookie;
};

struct ring_set {
    struct ring_set *next, **at;
    struct rings *rings;
    struct ring_set_config config;
    struct ring_arena *arenas[SHM_RINGS_MAX / SHM_RINGS_PER_ARENA];
    uint32_t n_arenas;
    uint32_t n_rings;
    /* Sleep numbers: the one that stands there; woke: it was answered. */
    uint32_t sleep;
    bool woke;
    uint64_t last_kick;
    /* S3: asked, not begun; begun. */
    struct past_request *asked, **asked_end;
    struct past_request *begun;
    /* In the present pass: rings in the heap, bytes taken. */
    unsigned in_heap;
    uint64_t taken;
    bool dead;
    bool last_look; /* of a dead one: it was taken */
    bool active;    /* advanced since losses were synced */
    void (*gone)(struct provider_process *pp);
    uint64_t losses_synced;
    uint16_t losses_high; /* counters below were somebody's at some time */
};

struct rings {
    struct router_source source;
    struct rings_env env;
    struct deliver *deliver;
    struct ring_set *first, **end;
    bool sourced; /* the router has it */
    bool asleep;
    bool low_latency;
    bool settling;
    bool membarrier_failed; /* told */
    bool withheld;          /* something was left for the next pass */
    unsigned n_rings, n_past, n_dead, n_woke, n_fast;
    struct merge_entry *heap; /* of rings: room for n_rings */
    size_t n_heap, heap_cap;
    struct ring *advanced;
    uint64_t now;     /* of this pass */
    uint64_t look;    /* what an idle ring vouches for in it */
    uint64_t looked;  /* in the last one */
    uint64_t barrier; /* time of the last membarrier */
    uint64_t since;   /* the last pass */
    uint64_t vouched; /* never falls */
    uint64_t fill_ns; /* of the ring that gets most; UINT64_MAX: none got anything */
    struct past_request *done;
    struct state_hook hook;
    struct shm_clock_fit fit;
    uint64_t next_fit;
};

/* rings.c */
void rings_init_source(struct rings *r);
void ring_set_bump(struct ring_set *s, bool mark);

/* ring_sets.c */
/* What is due after a pass is done from the loop. */
void rings_settle(struct rings *r);

/* What was asked is begun: every ring is to be looked at. */
void ring_set_begin_past(struct ring_set *s);

/* ring_losses.c */
void ring_losses_find(struct ring_set *s, uint32_t arena);
void ring_losses_free(struct ring_set *s, uint32_t arena);

static inline uint64_t ring_arena_key(const struct ring_set *s, uint32_t arena)
{
    return s->config.number << 8 | arena;
}

static inline bool ring_drained(const struct ring *ring)
{
    return ring->given_up || shm_reader_drained(&ring->reader);
}
