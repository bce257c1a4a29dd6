/* SPDX-License-Identifier: Apache-2.0
 *
 * The rings of provider processes as a source of the router: order, watermark, those that wait
 * until all are past, dead ones. What becomes of a record's bytes is test-deliver.c. Writers are
 * shm_writers of this process.
 */
#include "rings-session.h"

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

static Suite *suite(void)
{
    Suite *s = suite_create("rings");
    TCase *t;

    t = tcase_create("merge");
    tcase_add_test(t, plain);
    tcase_add_test(t, merge_with_probes);
    tcase_add_test(t, watermark);
    tcase_add_test(t, pressed);
    tcase_add_test(t, wraps);
    tcase_add_test(t, other_time_namespace);
    tcase_add_test(t, stamps);
    tcase_add_test(t, older_than_its_ring);
    suite_add_tcase(s, t);
    t = tcase_create("past");
    tcase_add_test(t, past);
    tcase_add_test(t, past_waits_for_delivery);
    tcase_add_test(t, dead);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
