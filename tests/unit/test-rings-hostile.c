/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings whose writers break the rules: forged sizes, heads, types, stamps and random bytes cost
 * nobody but themselves anything.
 */
#include "rings-session.h"

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

static Suite *suite(void)
{
    Suite *s = suite_create("rings-hostile");
    TCase *t;

    t = tcase_create("hostile");
    tcase_add_loop_test(t, forged_sizes, 0, 3);
    tcase_add_loop_test(t, forged_heads, 0, 5);
    tcase_add_test(t, event_before_claim);
    tcase_add_test(t, no_events);
    tcase_add_test(t, flood_of_old_stamps);
    tcase_add_loop_test(t, random_arena, 0, 4);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
