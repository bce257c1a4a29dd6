/* SPDX-License-Identifier: Apache-2.0
 *
 * A process with rings as etwd sees it, and its writers, in one process: for unit tests of
 * daemon/providers/rings.c and deliver.c. The tables are the test's.
 */
#pragma once

#include "daemon-fixture.h"
#include "shm-fixture.h"

#include "providers/deliver.h"
#include "providers/rings.h"
#include "providers/rings_internal.h"
#include "providers/tables.h"
#include "router/router.h"
#include "state/state.h"

struct provider_process {
    struct table table;
    struct session *counters[SHM_LOST_COUNTERS];
    struct process_facts facts;
    unsigned misbehaved;
    char what[128];
    unsigned gone;
    uint64_t cookies[64];
    unsigned n_cookies;
    uint32_t tid_offset;
    /* At its first record: what stood in *watched. */
    const uint64_t *watched;
    uint64_t *seen;
};

const struct table *tables_find(const struct provider_process *pp, uint16_t registration,
                                uint16_t generation)
{
    if (pp->watched && *pp->seen == 0)
        *pp->seen = *pp->watched;
    return registration == 3 && generation == (uint16_t) pp->table.generation ? &pp->table : NULL;
}

struct session *tables_counter(const struct provider_process *pp, uint16_t counter)
{
    return pp->counters[counter];
}

uint32_t tables_counters(const struct provider_process *pp)
{
    return SHM_LOST_COUNTERS;
}

const struct process_facts *process_facts(const struct provider_process *pp)
{
    return &pp->facts;
}

void process_misbehaved(struct provider_process *pp, const char *what)
{
    pp->misbehaved++;
    (void) snprintf(pp->what, sizeof(pp->what), "%s", what);
}

static uint32_t fixture_thread_id(struct provider_process *pp, uint32_t tid)
{
    return pp->tid_offset ? tid + pp->tid_offset : tid;
}

static inline void fixture_gone(struct provider_process *pp)
{
    pp->gone++;
}

static inline void fixture_past(struct provider_process *pp, uint64_t cookie)
{
    ck_assert_uint_lt(pp->n_cookies, ARRAY_SIZE(pp->cookies));
    pp->cookies[pp->n_cookies++] = cookie;
}

/* One process: an arena, a set of `n_rings` rings; slot 0 is the session's. */
struct rings_fixture {
    struct shm_fixture shm;
    struct provider_process process;
    struct ring_set *set;
    struct shm_writer writers[SHM_RINGS_PER_ARENA];
};

static struct etw_conf fixture_conf;

static inline struct rings *rings_fixture_rings(struct loop *l, struct router *r, struct state *st)
{
    struct rings *rings;
    struct rings_env env = {.loop = l, .router = r, .state = st, .conf = &fixture_conf, .cpus = 4};
    ck_assert_int_eq(rings_new(&env, &rings), 0);
    return rings;
}

/* The rings of a process that is there; its writers stay what they are. */
static inline void rings_fixture_attach(struct rings_fixture *f, struct rings *rings,
                                        uint32_t n_rings)
{
    const struct shm_arena *mapping;
    struct ring_set_config c = {
        .process = &f->process,
        .number = 5,
        .control = f->shm.area,
        .control_base = f->shm.base,
        .ring_size = f->shm.ring_size,
        .fast_clock = true,
        .thread_id = fixture_thread_id,
    };
    ck_assert_int_eq(ring_set_new(rings, &c, &f->set), 0);
    ck_assert_int_eq(shm_arena_map_read(f->shm.arena_fd, f->shm.ring_size, &mapping), 0);
    ck_assert_int_eq(ring_set_add_arena(f->set, 0, mapping), 0);
    for (uint32_t i = 0; i < n_rings; i++)
        ck_assert_int_eq(shm_arena_give_ring(f->shm.arena_fd, f->shm.ring_size, i), 0);
    ck_assert_int_eq(ring_set_add_rings(f->set, n_rings), 0);
    ck_assert_int_eq(ring_set_add_rings(f->set, 17), -EINVAL);
    /* Nothing is older than its ring; but tests choose their stamps. */
    for (uint32_t i = 0; i < n_rings; i++)
        f->set->arenas[0]->rings[i].last = 0;
    shm_control_set_rings(f->shm.area, n_rings);
}

/* Threads 1000, 1001 ... claim the first `claimed` rings. */
static inline void rings_fixture_open(struct rings_fixture *f, struct rings *rings,
                                      struct session *s, uint32_t ring_size, uint32_t n_rings,
                                      uint32_t claimed)
{
    memset(f, 0, sizeof(*f));
    shm_fixture_open(&f->shm, ring_size);
    f->process.table.generation = 7;
    f->process.table.used = 1;
    f->process.table.slots[0].session = s;
    f->process.counters[0] = s;
    f->process.facts =
        (struct process_facts){.pid = 77, .uid = 1234, .start_key = 0xABCDEF, .session_id = 42};
    rings_fixture_attach(f, rings, n_rings);
    for (uint32_t i = 0; i < claimed; i++)
        ck_assert_int_eq(shm_writer_claim(&f->writers[i], f->shm.arena, f->shm.control, 0, i,
                                          ring_size, true, 1000 + i),
                         0);
}

static inline void rings_fixture_close(struct rings_fixture *f)
{
    f->set = ring_set_free(f->set);
    shm_fixture_close(&f->shm);
}

/* ---- writing ---- */

struct written {
    uint64_t stamp; /* 0: now */
    uint32_t slots; /* 0: slot 0 */
    uint16_t cpu;
    uint32_t payload; /* bytes */
    const void *items;
    uint32_t items_size;
    uint8_t fill;
    uint8_t flags; /* of the prefix */
    /* Lies. */
    void (*forge)(struct etl_record *prefix, struct etl_event_header *h);
};

/* Whether a wake is to be sent; -1: the ring is full. */
static inline int ring_write(struct shm_writer *w, const struct written *e)
{
    uint32_t size = (uint32_t) sizeof(struct etl_event_header) + e->items_size + e->payload;
    uint32_t record = shm_record_size(size);
    uint64_t stamp;

    shm_writer_begin(w);
    if (e->stamp == 0)
        stamp = shm_writer_stamp(w, etw_clock_boottime());
    else {
        stamp = e->stamp;
        atomic_store_explicit(&w->line->stamp, stamp, memory_order_release);
    }
    struct etl_record *p = shm_writer_reserve(w, record);
    if (!p) {
        shm_writer_abandon(w);
        return -1;
    }
    *p = (struct etl_record){
        .size = record,
        .cpu = e->cpu,
        .type = SHM_RECORD_EVENT,
        .flags = e->flags,
        .registration = 3,
        .generation = 7,
        .slots = e->slots ? e->slots : 1,
    };
    struct etl_event_header *h = (struct etl_event_header *) (p + 1);
    memset(h, 0, sizeof(*h));
    h->size = (uint16_t) size;
    h->flags = e->items_size ? ETL_EVENT_FLAG_EXTENDED_INFO : 0;
    h->thread_id = 0xDEAD; /* nobody believes these */
    h->process_id = 0xBEEF;
    h->time_stamp = stamp;
    if (e->items_size)
        memcpy(h + 1, e->items, e->items_size);
    memset((uint8_t *) (h + 1) + e->items_size, e->fill, e->payload);
    if (e->forge)
        e->forge(p, h);
    return shm_writer_publish(w, record);
}

/* ---- looking at a session's open buffer ---- */

static inline const struct etl_event_header *event_at(const struct session *s, unsigned cpu,
                                                      unsigned n)
{
    const struct stream *st = &s->streams[cpu];
    uint32_t at = ETL_BUFFER_HEADER_SIZE;

    while (at < st->end) {
        const struct etl_event_header *h = (const void *) (st->data + at);
        if (n-- == 0)
            return h;
        at += etl_padded(h->size);
    }
    ck_abort_msg("the buffer has fewer events");
}
