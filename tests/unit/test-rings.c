/* SPDX-License-Identifier: Apache-2.0
 *
 * The rings of provider processes as a source of the router: order, watermark, sleep, those that
 * wait until all are past, dead ones, losses, a successor. What becomes of a record's bytes is
 * test-deliver.c. Writers are shm_writers of this process.
 */
#include "rings-fixture.h"

#include "shm/clock.h"

static struct fixture f;
static struct fixture_file file;
static struct router *router;
static struct rings *rings;
static struct rings_fixture p;
static struct state *state;
/* Of a predecessor: as they were when it was killed. */
static struct rings *volatile rings_before;
static struct ring_set *volatile set_before;
static struct state *volatile state_before;

static void begin_with(const struct fixture_params *params, uint32_t ring_size, uint32_t n_rings,
                       uint32_t claimed)
{
    etw_conf_init(&fixture_conf);
    fixture_session(&f, params);
    fixture_open(&f);
    ck_assert_int_eq(router_new(f.loop, 3000000, &router), 0);
    router_set_state(router, state);
    rings = rings_fixture_rings(f.loop, router, state);
    rings_fixture_open(&p, rings, f.session, ring_size, n_rings, claimed);
}

static void begin(uint32_t n_rings)
{
    begin_with(&(struct fixture_params){.cpus = 4, .buffer_kb = 64}, 64u << 10, n_rings, n_rings);
}

/* The file is complete; every event of it was written. */
static void end(void)
{
    rings_fixture_close(&p);
    rings = rings_free(rings);
    router = router_free(router);
    fixture_close(&f);
    fixture_identity(&f);
    fixture_read(f.path, &file);
    fixture_free(&f);
}

static uint64_t recorded(void)
{
    return f.session->counters.recorded;
}

static void stop(void *userdata)
{
    loop_exit(f.loop, 0);
}

/* Runs the loop for about so long. */
static void run_ms(unsigned ms)
{
    struct loop_timer *t;
    ck_assert_int_eq(loop_timer_new(f.loop, stop, NULL, &t), 0);
    ck_assert_int_eq(loop_timer_arm(t, etw_clock_boottime() + ms * 1000000ull), 0);
    ck_assert_int_eq(loop_run(f.loop), 0);
    loop_timer_free(t);
}

/* Runs the loop until the condition holds; the test's limit ends a hang. */
#define RUN_UNTIL(condition)                                                                       \
    do {                                                                                           \
        run_ms(2);                                                                                 \
    } while (!(condition))

START_TEST(plain)
{
    begin(2);
    for (unsigned i = 0; i < 10; i++)
        ck_assert_int_eq(
            ring_write(&p.writers[i % 2], &(struct written){.cpu = 1, .payload = 24, .fill = 9}),
            0);
    ck_assert_uint_eq(ring_set_claimed(p.set), 2);
    router_pass(router);
    ck_assert_uint_eq(recorded(), 10);
    /* The space is given back. */
    ck_assert_uint_eq(atomic_load(&p.writers[0].tail->tail), p.writers[0].head);
    shm_writer_release(&p.writers[0]);
    ck_assert_uint_eq(ring_set_claimed(p.set), 1);
    ck_assert_int_eq(
        shm_writer_claim(&p.writers[0], p.shm.arena, p.shm.control, 0, 0, 64u << 10, true, 2000),
        0);
    ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.cpu = 1}), 0);
    router_pass(router);
    end();
    ck_assert_uint_eq(file.events, 11);
    for (unsigned i = 0; i < 10; i++)
        ck_assert_uint_eq(file.marks[i], 1000 + i % 2);
    ck_assert_uint_eq(file.marks[10], 2000);
    ck_assert_uint_eq(p.process.misbehaved, 0);
}
END_TEST

/* A probe's source in the same merge. */
struct fake {
    struct router_source base;
    struct {
        struct etl_record prefix;
        uint8_t event[48];
    } records[200];
    uint64_t stamps[200];
    unsigned n, next;
};

static uint64_t fake_begin(struct router_source *base, uint64_t now)
{
    return now;
}

static const struct etl_record *fake_peek(struct router_source *base, uint64_t *ret_stamp)
{
    struct fake *s = (struct fake *) base;
    if (s->next == s->n)
        return NULL;
    *ret_stamp = s->stamps[s->next];
    return &s->records[s->next].prefix;
}

static void fake_pop(struct router_source *base)
{
    ((struct fake *) base)->next++;
}

static void fake_commit(struct router_source *base)
{
}

static const struct router_source_ops fake_ops = {
    .name = "fake",
    .begin = fake_begin,
    .peek = fake_peek,
    .pop = fake_pop,
    .commit = fake_commit,
};

START_TEST(merge_with_probes)
{
    static const uint32_t masks[8] = {[1] = 0x200};
    static struct fake fake;
    uint64_t seed = 5, base;

    begin_with(
        &(struct fixture_params){.mode = ETL_MODE_NO_PER_PROCESSOR_BUFFERING, .buffer_kb = 64},
        64u << 10, 5, 5);
    base = etw_clock_boottime(); /* not before there were rings */
    fake.base.ops = &fake_ops;
    ck_assert_int_eq(router_add_source(router, &fake.base), 0);
    ck_assert_int_eq(router_add_session(router, f.session), 0);
    router_set_masks(router, f.session, masks);
    for (unsigned i = 0; i < 1000; i++) {
        unsigned n = (unsigned) (shm_random(&seed) % 6);
        if (n < 5) {
            ck_assert_int_ge(ring_write(&p.writers[n], &(struct written){.stamp = base + i / 2}),
                             0);
            continue;
        }
        ck_assert_uint_lt(fake.n, ARRAY_SIZE(fake.records));
        fake.records[fake.n].prefix = (struct etl_record){
            .size = 64, .type = ETL_RECORD_FINAL, .registration = ETL_ROW_Thread_ReadyThread};
        etl_header_put(fake.records[fake.n].event, ETL_ROW_Thread_ReadyThread, 8, 1, 0,
                       base + i / 2);
        fake.stamps[fake.n++] = base + i / 2;
    }
    router_pass(router);
    router_remove_session(router, f.session);
    router_remove_source(router, &fake.base);
    end();
    ck_assert_uint_eq(file.events, 1000);
    for (unsigned i = 0; i < 1000; i++)
        ck_assert_uint_eq(file.stamps[i], base + i / 2);
    ck_assert_uint_eq(file.buffers, 2 + 1000 * 80 / (65536 - 72));
}
END_TEST

/* A writer in the middle of an event holds the others back to what it vouches for; not for ever,
 * and then it is late. */
START_TEST(watermark)
{
    begin(2);
    router_pass(router);
    shm_writer_begin(&p.writers[0]);
    uint64_t stamp = shm_writer_stamp(&p.writers[0], etw_clock_boottime());
    ck_assert_int_eq(ring_write(&p.writers[1], &(struct written){.stamp = stamp - 1}), 0);
    ck_assert_int_eq(ring_write(&p.writers[1], &(struct written){.stamp = stamp + 1}), 0);
    router_pass(router);
    ck_assert_uint_eq(recorded(), 1);
    /* It is there no more; all the time the ring was looked at. */
    do
        router_pass(router);
    while (recorded() == 1);
    ck_assert_uint_ge(etw_clock_boottime() - stamp, ETWD_BUSY_MAX_MS * 1000000ull);
    ck_assert_uint_eq(recorded(), 2);
    ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.stamp = stamp}), 0);
    router_pass(router);
    ck_assert_uint_eq(recorded(), 3);
    bool late = false;
    for (unsigned i = 0; i < ETWD_LATE_BUFFERS; i++)
        late |= f.session->late[i].last == stamp;
    ck_assert(late);
    end();
    ck_assert_uint_eq(file.events, 3);
    ck_assert_uint_eq(file.buffers, 3);
}
END_TEST

/* When a ring is more than half full, an interrupted writer holds it up by a millisecond only. */
START_TEST(pressed)
{
    begin_with(&(struct fixture_params){.cpus = 4, .buffer_kb = 64}, 4096, 2, 2);
    router_pass(router);
    shm_writer_begin(&p.writers[0]);
    uint64_t stamp = shm_writer_stamp(&p.writers[0], etw_clock_boottime());
    unsigned n = 0;
    while (ring_write(&p.writers[1], &(struct written){.payload = 16}) >= 0)
        n++;
    do
        router_pass(router);
    while (recorded() < n);
    ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.stamp = stamp}), 0);
    router_pass(router);
    ck_assert_uint_eq(recorded(), n + 1);
    end();
    ck_assert_uint_eq(file.events, n + 1);
}
END_TEST

START_TEST(wraps)
{
    unsigned n = 0;

    begin_with(&(struct fixture_params){.cpus = 4, .buffer_kb = 16, .maximum = 200}, 4096, 1, 1);
    /* Many rounds through the ring, pads included, sizes of all kinds. */
    for (unsigned i = 0; i < 2000; i++) {
        while (ring_write(&p.writers[0], &(struct written){.payload = i * 7 % 1500}) < 0)
            router_pass(router);
        n++;
    }
    router_pass(router);
    ck_assert_uint_eq(recorded(), n);
    end();
    ck_assert_uint_eq(file.events, n);
    ck_assert_uint_eq(p.process.misbehaved, 0);
    for (unsigned i = 1; i < n; i++)
        ck_assert_uint_ge(file.stamps[i], file.stamps[i - 1]);
}
END_TEST

START_TEST(other_time_namespace)
{
    begin(1);
    uint64_t now = etw_clock_boottime();
    p.set->config.clock_offset = 5000000000000; /* theirs is ahead */
    p.set->arenas[0]->rings[0].reader.clock_offset = 5000000000000;
    ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.stamp = now + 5000000000000}), 0);
    router_pass(router);
    end();
    ck_assert_uint_eq(file.events, 1);
    ck_assert_uint_eq(file.stamps[0], now);
    ck_assert_uint_eq(file.header.events_lost, 0);
}
END_TEST

static void stamp_now_plus_hour(struct etl_record *prefix, struct etl_event_header *h)
{
    h->time_stamp = etw_clock_boottime() + 3600 * ETW_NSEC_PER_SEC;
}

/* Forged stamps are counted and do not get through: neither back nor into the future. */
START_TEST(stamps)
{
    begin(1);
    uint64_t now = etw_clock_boottime();
    (void) ring_write(&p.writers[0], &(struct written){.stamp = now});
    (void) ring_write(&p.writers[0], &(struct written){.stamp = now - 500});
    (void) ring_write(&p.writers[0], &(struct written){.stamp = now, .forge = stamp_now_plus_hour});
    router_pass(router);
    uint64_t then = etw_clock_boottime();
    (void) ring_write(&p.writers[0], &(struct written){.fill = 1});
    router_pass(router);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_INVALID], 2);
    end();
    ck_assert_uint_eq(file.events, 4);
    ck_assert_uint_eq(file.stamps[0], now);
    ck_assert_uint_eq(file.stamps[1], now);
    ck_assert_uint_lt(file.stamps[2], then);
    ck_assert_uint_ge(file.stamps[3], then);
}
END_TEST

START_TEST(older_than_its_ring)
{
    uint64_t before = etw_clock_boottime() - 1000000;

    begin(1);
    ck_assert_int_eq(ring_set_add_rings(p.set, 2), 0); /* as it is, without the fixture */
    ck_assert_int_eq(shm_arena_give_ring(p.shm.arena_fd, 64u << 10, 1), 0);
    ck_assert_int_eq(
        shm_writer_claim(&p.writers[1], p.shm.arena, p.shm.control, 0, 1, 64u << 10, true, 1001),
        0);
    (void) ring_write(&p.writers[1], &(struct written){.stamp = before});
    router_pass(router);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_INVALID], 1);
    end();
    ck_assert_uint_eq(file.events, 1);
    ck_assert_uint_gt(file.stamps[0], before + 900000);
}
END_TEST

/* ---- rings that break the rules ---- */

static void size_odd(struct etl_record *prefix, struct etl_event_header *h)
{
    prefix->size += 8;
}

static void size_large(struct etl_record *prefix, struct etl_event_header *h)
{
    prefix->size = 0x7FFFFFF0;
}

static void size_zero(struct etl_record *prefix, struct etl_event_header *h)
{
    prefix->size = 0;
}

static void check_given_up(void)
{
    (void) ring_write(&p.writers[1], &(struct written){.payload = 8});
    (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
    router_pass(router);
    ck_assert_uint_eq(p.process.misbehaved, 1);
    ck_assert(p.set->arenas[0]->rings[0].given_up);
    /* Nothing of it any more; the others go on, and nothing holds them up. */
    (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
    (void) ring_write(&p.writers[1], &(struct written){.payload = 8});
    shm_writer_begin(&p.writers[0]);
    router_pass(router);
    ck_assert_uint_eq(p.process.misbehaved, 1);
    end();
}

START_TEST(forged_sizes)
{
    static void (*const forge[])(struct etl_record *,
                                 struct etl_event_header *) = {size_odd, size_large, size_zero};
    begin(2);
    (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
    (void) ring_write(&p.writers[0], &(struct written){.payload = 8, .forge = forge[_i]});
    check_given_up();
    ck_assert_uint_eq(file.events, 3);
}
END_TEST

START_TEST(forged_heads)
{
    begin(2);
    router_pass(router);
    uint64_t head = p.writers[0].head;
    uint64_t forged[] = {head - 16, head + 8, head + (1u << 20), UINT64_MAX - 15, 0};
    p.writers[0].head = forged[_i] - 112; /* the next record's publication ends there */
    atomic_store(&p.writers[0].line->head, forged[_i]);
    router_pass(router);
    ck_assert_uint_eq(p.process.misbehaved, 1);
    p.writers[0].head = head;
    check_given_up();
    ck_assert_uint_eq(file.events, 2);
}
END_TEST

START_TEST(event_before_claim)
{
    begin_with(&(struct fixture_params){.cpus = 4}, 4096, 2, 2);
    /* As if the claim had not been written. */
    struct etl_record *claim = (struct etl_record *) p.writers[0].data;
    claim->type = 0x55;
    (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
    router_pass(router);
    ck_assert_uint_eq(p.process.misbehaved, 2); /* the record, and the ring */
    ck_assert(p.set->arenas[0]->rings[0].given_up);
    end();
    ck_assert_uint_eq(file.events, 0);
}
END_TEST

static void as_claim(struct etl_record *prefix, struct etl_event_header *h)
{
    prefix->type = SHM_RECORD_CLAIM;
}

static void unknown_type(struct etl_record *prefix, struct etl_event_header *h)
{
    prefix->type = 0x77;
}

/* A few are dropped; a ring full of them is not read to its end. */
START_TEST(no_events)
{
    begin(2);
    for (unsigned i = 0; i < 10; i++)
        (void) ring_write(&p.writers[0], &(struct written){.forge = unknown_type});
    (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
    router_pass(router);
    ck_assert_uint_eq(recorded(), 1);
    ck_assert_uint_eq(p.process.misbehaved, 10);
    ck_assert(!p.set->arenas[0]->rings[0].given_up);
    for (unsigned i = 0; i < 200; i++)
        (void) ring_write(&p.writers[0],
                          &(struct written){.forge = i % 2 ? as_claim : unknown_type});
    router_pass(router);
    ck_assert(p.set->arenas[0]->rings[0].given_up);
    (void) ring_write(&p.writers[1], &(struct written){.payload = 8});
    router_pass(router);
    ck_assert_uint_eq(recorded(), 2);
    end();
}
END_TEST

/* A process that fills many rings with the oldest stamps there can be delays nobody else: what is
 * too much of it waits, and is late. */
START_TEST(flood_of_old_stamps)
{
    struct rings_fixture honest;
    uint64_t seen = 0;
    unsigned n = 0;

    begin_with(&(struct fixture_params){.cpus = 4, .buffer_kb = 1024, .maximum = 16}, 256u << 10,
               16, 16);
    rings_fixture_open(&honest, rings, f.session, 4096, 1, 1);
    honest.process.facts.pid = 88;
    router_pass(router);
    for (unsigned i = 0; i < 16; i++)
        while (ring_write(&p.writers[i], &(struct written){.stamp = 1, .payload = 900}) >= 0)
            n++;
    (void) ring_write(&honest.writers[0], &(struct written){.payload = 8});
    honest.process.watched = &f.session->counters.recorded;
    honest.process.seen = &seen;
    /* As the loop makes passes, where nobody waits for all. */
    router_kick(router);
    while (seen == 0)
        run_ms(1);
    ck_assert_uint_lt(seen, n / 2);
    /* Who waits for all gets all. */
    router_pass(router);
    router_pass(router);
    ck_assert_uint_eq(recorded(), n + 1);
    ck_assert_uint_eq(honest.process.misbehaved, 0);
    rings_fixture_close(&honest);
    rings_fixture_close(&p);
    rings = rings_free(rings);
    router = router_free(router);
    fixture_close(&f);
    fixture_identity(&f);
    fixture_free(&f);
}
END_TEST

/* Random bytes in everything that the process can write: nothing but its own is lost. */
START_TEST(random_arena)
{
    uint64_t seed = 77 + (uint64_t) _i;
    struct rings_fixture honest;
    unsigned n = 0;

    begin_with(&(struct fixture_params){.cpus = 4, .buffer_kb = 64}, 4096, 4, 2);
    rings_fixture_open(&honest, rings, f.session, 4096, 1, 1);
    honest.process.facts.pid = 88;
    for (unsigned round = 0; round < 300; round++) {
        uint8_t *bytes = (uint8_t *) p.shm.arena;
        for (unsigned i = 0; i < 64; i++) {
            size_t at = shm_random(&seed) % shm_arena_size(4096);
            if (i % 4 == 0)
                at = shm_random(&seed) % (4 * 64);
            bytes[at] = (uint8_t) shm_random(&seed);
        }
        if (round % 16 == 0) /* heads that are within reach */
            for (unsigned i = 0; i < 4; i++)
                atomic_store(&p.shm.arena->rings[i].head, p.set->arenas[0]->rings[i].reader.tail +
                                                              shm_random(&seed) % 4096 / 16 * 16);
        if (ring_write(&honest.writers[0], &(struct written){.payload = 40}) >= 0)
            n++;
        router_pass(router);
        rings_sync_losses(rings);
    }
    /* Busy bytes of the hostile hold it up for 0.1 s at most. */
    do
        router_pass(router);
    while (honest.set->arenas[0]->rings[0].reader.position !=
           honest.set->arenas[0]->rings[0].reader.end);
    ck_assert_uint_eq(honest.set->arenas[0]->rings[0].last, honest.writers[0].stamp);
    ck_assert_uint_eq(honest.process.misbehaved, 0);
    ck_assert_uint_ge(recorded(), n);
    fixture_identity(&f);
    rings_fixture_close(&honest);
    end();
}
END_TEST

/* ---- sleep ---- */

START_TEST(sleep_and_wake)
{
    begin(2);
    RUN_UNTIL(rings->asleep);
    uint32_t number = atomic_load(&p.writers[0].process->sleep);
    ck_assert_uint_ne(number, 0);
    ck_assert_uint_eq(number & SHM_SLEEP_LOW_LATENCY, 0);
    /* Below half: nobody is woken, nothing happens. */
    unsigned n = 0;
    for (; p.writers[0].head - atomic_load(&p.writers[0].tail->tail) < (32u << 10) - 512; n++)
        ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.payload = 400}), 0);
    run_ms(30);
    ck_assert(rings->asleep);
    ck_assert_uint_eq(recorded(), 0);
    /* At half there is one wake, and no second one. */
    ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.payload = 400}), 1);
    ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.payload = 400}), 0);
    n += 2;
    ring_set_wake(p.set);
    RUN_UNTIL(recorded() == n);
    ck_assert_uint_ne(atomic_load(&p.writers[0].process->sleep), number);
    RUN_UNTIL(rings->asleep);
    end();
    ck_assert_uint_eq(file.events, n);
}
END_TEST

static bool first_record(void *userdata)
{
    return *(bool *) userdata;
}

START_TEST(low_latency)
{
    bool wanted = _i == 1;

    begin(1);
    rings->env.first_record = first_record;
    rings->env.userdata = &wanted;
    if (_i == 0)
        rings_set_low_latency(rings, true);
    RUN_UNTIL(rings->asleep);
    ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.payload = 8}), 1);
    ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.payload = 8}), 0);
    ring_set_wake(p.set);
    RUN_UNTIL(recorded() == 2);
    /* Nobody wants it any more: the next sleep is an ordinary one. */
    wanted = false;
    rings_set_low_latency(rings, false);
    RUN_UNTIL(rings->asleep);
    ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.payload = 8}), 0);
    /* A pass for another reason takes it. */
    router_pass(router);
    ck_assert_uint_eq(recorded(), 3);
    end();
}
END_TEST

/* Awake: half a ring asks for the next pass, which is not due for long. */
START_TEST(half_full_awake)
{
    begin(1);
    struct router *own = router;
    ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.payload = 8}), 0);
    router_pass(own);
    ck_assert(!rings->asleep);
    int wake = 0;
    unsigned n = 1;
    while (wake == 0) {
        wake = ring_write(&p.writers[0], &(struct written){.payload = 400});
        n++;
    }
    ck_assert_int_eq(wake, 1);
    uint32_t number = atomic_load(&p.writers[0].process->sleep);
    ring_set_wake(p.set);
    RUN_UNTIL(recorded() == n);
    ck_assert_uint_ne(atomic_load(&p.writers[0].process->sleep), number);
    end();
}
END_TEST

/* A process that stopped in the middle of an event does not keep the daemon awake. */
START_TEST(sleep_over_stuck)
{
    begin(2);
    shm_writer_begin(&p.writers[0]);
    RUN_UNTIL(rings->asleep);
    ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.payload = 8}), 0);
    router_pass(router);
    ck_assert_uint_eq(recorded(), 1);
    end();
}
END_TEST

/* ---- past a moment ---- */

START_TEST(past)
{
    begin(2);
    struct rings_fixture other;
    rings_fixture_open(&other, rings, f.session, 4096, 1, 1);
    ck_assert_int_eq(ring_set_when_past(p.set, fixture_past, 1), 0);
    ck_assert_int_eq(ring_set_when_past(p.set, fixture_past, 2), 0);
    ck_assert_uint_eq(p.process.n_cookies, 0);
    RUN_UNTIL(p.process.n_cookies == 2);
    ck_assert_uint_eq(p.process.cookies[0], 1);
    ck_assert_uint_eq(p.process.cookies[1], 2);

    /* A writer that was busy then, and goes on: the next event says so, idle or not. */
    shm_writer_begin(&p.writers[0]);
    (void) shm_writer_stamp(&p.writers[0], etw_clock_boottime());
    ck_assert_int_eq(ring_set_when_past(p.set, fixture_past, 3), 0);
    run_ms(5);
    ck_assert_int_eq(ring_set_when_past(p.set, fixture_past, 4), 0);
    run_ms(150); /* passed over, but not believed */
    ck_assert_uint_eq(p.process.n_cookies, 2);
    /* The other one's busy writer is its own matter. */
    shm_writer_begin(&other.writers[0]);
    (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
    shm_writer_begin(&p.writers[0]);
    (void) shm_writer_stamp(&p.writers[0], etw_clock_boottime());
    router_pass(router);
    RUN_UNTIL(p.process.n_cookies == 3);
    run_ms(10);
    ck_assert_uint_eq(p.process.n_cookies, 3);
    shm_writer_abandon(&p.writers[0]);
    router_pass(router);
    RUN_UNTIL(p.process.n_cookies == 4);
    ck_assert_uint_eq(p.process.cookies[2], 3);
    ck_assert_uint_eq(p.process.cookies[3], 4);
    ck_assert_uint_eq(recorded(), 1);
    /* One that waits goes with its set. */
    ck_assert_int_eq(ring_set_when_past(other.set, fixture_past, 5), 0);
    run_ms(5);
    rings_fixture_close(&other);
    ck_assert_uint_eq(other.process.n_cookies, 0);
    end();
}
END_TEST

/* What was written before the change is delivered before it counts as past. */
START_TEST(past_waits_for_delivery)
{
    begin(2);
    router_pass(router);
    shm_writer_begin(&p.writers[1]); /* holds the watermark */
    uint64_t stamp = shm_writer_stamp(&p.writers[1], etw_clock_boottime());
    (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
    ck_assert_int_eq(ring_set_when_past(p.set, fixture_past, 1), 0);
    router_pass(router);
    shm_writer_begin(&p.writers[1]);
    (void) shm_writer_stamp(&p.writers[1], stamp + 1);
    router_pass(router);
    ck_assert_uint_eq(recorded(), 0);
    ck_assert_int_eq(loop_defer(f.loop, stop, NULL), 0);
    ck_assert_int_eq(loop_run(f.loop), 0);
    ck_assert_uint_eq(p.process.n_cookies, 0);
    shm_writer_abandon(&p.writers[1]);
    router_pass(router);
    ck_assert_uint_eq(recorded(), 1);
    RUN_UNTIL(p.process.n_cookies == 1);
    end();
}
END_TEST

START_TEST(dead)
{
    begin(2);
    (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
    atomic_store(&p.shm.arena->lost[0].events[SHM_LOST_RING_FULL], 3);
    shm_writer_begin(&p.writers[1]); /* killed in the middle of an event */
    ring_set_dead(p.set, fixture_gone);
    ck_assert_uint_eq(p.process.gone, 0);
    RUN_UNTIL(p.process.gone == 1);
    ck_assert_uint_eq(recorded(), 1);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_RING_FULL], 3);
    /* Somebody else who has the memory writes into the void. */
    (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
    run_ms(20);
    ck_assert_uint_eq(recorded(), 1);
    ck_assert_uint_eq(p.process.gone, 1);
    end();
}
END_TEST

/* ---- losses ---- */

START_TEST(losses)
{
    begin(1);
    struct shm_lost *lost = p.shm.arena->lost;
    const uint64_t *k = f.session->counters.lost;

    for (unsigned i = 0; i < SHM_LOST_CAUSES; i++)
        atomic_store(&lost[0].events[i], 10 + i);
    atomic_store(&lost[9].events[0], 1000); /* nobody's */
    rings_sync_losses(rings);
    ck_assert_uint_eq(k[LOSS_RING_FULL], 10);
    ck_assert_uint_eq(k[LOSS_NESTED], 11);
    ck_assert_uint_eq(k[LOSS_TOO_BIG], 12);
    ck_assert_uint_eq(k[LOSS_SLOW_CONSUMER], 13);
    rings_sync_losses(rings);
    ck_assert_uint_eq(k[LOSS_RING_FULL], 10);
    atomic_store(&lost[0].events[0], 15);
    rings_sync_losses(rings);
    ck_assert_uint_eq(k[LOSS_RING_FULL], 15);
    /* A counter that was somebody's: what came while it was nobody's is not the next one's. */
    p.process.counters[200] = f.session;
    atomic_store(&lost[200].events[0], 1);
    ring_set_sync_losses(p.set);
    p.process.counters[200] = NULL;
    atomic_store(&lost[200].events[0], 51);
    ring_set_sync_losses(p.set);
    p.process.counters[200] = f.session;
    atomic_store(&lost[200].events[0], 52);
    ring_set_sync_losses(p.set);
    ck_assert_uint_eq(k[LOSS_RING_FULL], 17);
    /* Forged ones: down, and up beyond anything. */
    ck_assert_uint_eq(p.process.misbehaved, 0);
    atomic_store(&lost[0].events[0], 5);
    rings_sync_losses(rings);
    ck_assert_uint_eq(k[LOSS_RING_FULL], 17);
    ck_assert_uint_eq(p.process.misbehaved, 1);
    atomic_store(&lost[0].events[0], UINT64_MAX - 5);
    rings_sync_losses(rings);
    ck_assert_uint_eq(p.process.misbehaved, 2);
    ck_assert_uint_lt(k[LOSS_RING_FULL], UINT32_MAX);
    fixture_identity(&f);
    end();
}
END_TEST

/* Without being asked for: near the events that were not lost. */
START_TEST(losses_follow)
{
    begin(1);
    atomic_store(&p.shm.arena->lost[0].events[SHM_LOST_NESTED], 3);
    do {
        (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
        run_ms(5);
    } while (f.session->counters.lost[LOSS_NESTED] == 0);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_NESTED], 3);
    end();
}
END_TEST

/* Full rings beside a quiet one: the identity holds to the event. */
START_TEST(identity)
{
    unsigned tried = 0, lost = 0;
    struct shm_slot_config slot = {.state = SHM_SLOT_OPEN, .largest_event = 2000};
    uint32_t generation;

    begin_with(&(struct fixture_params){.cpus = 4, .maximum = 100}, 4096, 2, 2);
    ck_assert_int_eq(shm_control_publish(p.shm.area, 3, &slot, 1, &generation), 0);
    for (unsigned i = 0; i < 1000; i++) {
        struct shm_writer *w = &p.writers[i % 8 == 0];
        if (ring_write(w, &(struct written){.payload = 64}) < 0) {
            shm_writer_lost(w, SHM_LOST_RING_FULL, 3, 1);
            lost++;
        }
        tried++;
        if (i % 100 == 99)
            router_pass(router);
    }
    router_pass(router);
    rings_sync_losses(rings);
    ck_assert_uint_gt(lost, 0);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_RING_FULL], lost);
    ck_assert_uint_eq(f.session->counters.written, tried);
    ck_assert_uint_eq(recorded(), tried - lost);
    end();
    ck_assert_uint_eq(file.events, tried - lost);
    ck_assert_uint_eq(file.header.events_lost, lost);
}
END_TEST

/* ---- the clock line ---- */

START_TEST(clock_line)
{
    const struct shm_clock *line;

    begin(1);
    end();
    if (!shm_clock_usable())
        return;
    begin_with(&(struct fixture_params){.cpus = 4, .buffer_kb = 64}, 64u << 10, 1, 0);
    /* Not asked for: never good. */
    line = shm_control_clock(p.shm.base);
    ck_assert(!p.set->config.fast_clock);
    run_ms(600);
    ck_assert_uint_eq(atomic_load(&line->good), 0);
    rings_fixture_close(&p);
    fixture_conf.fast_clock = 1;
    rings_fixture_open(&p, rings, f.session, 64u << 10, 1, 1);
    line = shm_control_clock(p.shm.base);
    for (;;) {
        (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
        run_ms(5);
        if (atomic_load(&line->good))
            break;
    }
    uint64_t stamp;
    uint8_t flags = 0;
    unsigned n = 0;
    for (unsigned i = 0; i < 100; i++) {
        shm_writer_begin(&p.writers[0]);
        stamp = shm_writer_now(&p.writers[0], &flags);
        if (flags & SHM_RECORD_TSC)
            n++;
        (void) ring_write(&p.writers[0], &(struct written){.stamp = stamp, .flags = flags});
        router_pass(router);
    }
    ck_assert_uint_gt(n, 0);
    RUN_UNTIL(rings->asleep);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_INVALID], 0);
    for (unsigned i = 0; i < ETWD_LATE_BUFFERS; i++)
        ck_assert_uint_eq(f.session->late[i].last, 0);
    end();
}
END_TEST

/* ---- a successor ---- */

/* Another rings over the same state, as if the process that had the first were gone. */
static void succeed(void)
{
    struct shm_control *area = p.shm.area;
    struct state *next;

    int fd = fcntl(state_fd(state), F_DUPFD_CLOEXEC, 3);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(state_load(fd, &next), 0);
    /* The predecessor does nothing more; what it holds is left as it is. */
    router_free(router);
    rings_before = rings;
    set_before = p.set;
    state_before = state;
    state = next;
    ck_assert_int_eq(shm_control_load(p.shm.control_fd, p.shm.base, &p.shm.area), 0);
    shm_control_free(area);
    ck_assert_int_eq(router_new(f.loop, 3000000, &router), 0);
    router_set_state(router, state);
    rings = rings_fixture_rings(f.loop, router, state);
    rings_fixture_attach(&p, rings, 2);
    ck_assert_int_eq(ring_set_takeover(p.set), 0);
}

START_TEST(successor)
{
    ck_assert_int_eq(state_new(&state), 0);
    begin(2);
    p.process.counters[1] = f.session;

    for (unsigned i = 0; i < 5; i++)
        (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
    atomic_store(&p.shm.arena->lost[1].events[SHM_LOST_NESTED], 4);
    router_pass(router);
    rings_sync_losses(rings);
    ck_assert_uint_eq(recorded(), 5);
    /* It died before it could say that it had read them. */
    atomic_store(&shm_control_tail(p.shm.base, 0)->tail, 0);
    (void) ring_write(&p.writers[0], &(struct written){.payload = 8});
    /* And in the middle of the next pass. */
    state_begin(state);
    struct ring_image *image = p.set->arenas[0]->rings[0].image;
    state_save(state, image, sizeof(*image));
    memset(image, 0x55, sizeof(*image));
    uint32_t number = atomic_load(&p.writers[0].process->sleep);

    succeed();
    ck_assert_uint_eq(atomic_load(&shm_control_tail(p.shm.base, 0)->tail),
                      p.writers[0].head - shm_record_size(88));
    ck_assert_uint_ne(atomic_load(&p.writers[0].process->sleep), number);
    router_pass(router);
    rings_sync_losses(rings);
    ck_assert_uint_eq(recorded(), 6);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_NESTED], 4);
    atomic_store(&p.shm.arena->lost[1].events[SHM_LOST_NESTED], 6);
    rings_sync_losses(rings);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_NESTED], 6);
    (void) ring_write(&p.writers[1], &(struct written){.payload = 8});
    router_pass(router);
    end();
    ck_assert_uint_eq(file.events, 7);
    for (unsigned i = 0; i < 6; i++)
        ck_assert_uint_eq(file.marks[i], 1000);
    ck_assert_uint_eq(file.marks[6], 1001);
    state = state_free(state);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("rings");
    TCase *t = tcase_create("merge");
    tcase_add_test(t, plain);
    tcase_add_test(t, merge_with_probes);
    tcase_add_test(t, watermark);
    tcase_add_test(t, pressed);
    tcase_add_test(t, wraps);
    tcase_add_test(t, other_time_namespace);
    tcase_add_test(t, stamps);
    tcase_add_test(t, older_than_its_ring);
    suite_add_tcase(s, t);
    t = tcase_create("hostile");
    tcase_add_loop_test(t, forged_sizes, 0, 3);
    tcase_add_loop_test(t, forged_heads, 0, 5);
    tcase_add_test(t, event_before_claim);
    tcase_add_test(t, no_events);
    tcase_add_test(t, flood_of_old_stamps);
    tcase_add_loop_test(t, random_arena, 0, 4);
    suite_add_tcase(s, t);
    t = tcase_create("sleep");
    tcase_add_test(t, sleep_and_wake);
    tcase_add_loop_test(t, low_latency, 0, 2);
    tcase_add_test(t, half_full_awake);
    tcase_add_test(t, sleep_over_stuck);
    suite_add_tcase(s, t);
    t = tcase_create("past");
    tcase_add_test(t, past);
    tcase_add_test(t, past_waits_for_delivery);
    tcase_add_test(t, dead);
    suite_add_tcase(s, t);
    t = tcase_create("losses");
    tcase_add_test(t, losses);
    tcase_add_test(t, losses_follow);
    tcase_add_test(t, identity);
    suite_add_tcase(s, t);
    t = tcase_create("clock");
    tcase_add_test(t, clock_line);
    suite_add_tcase(s, t);
    t = tcase_create("successor");
    tcase_add_test(t, successor);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
