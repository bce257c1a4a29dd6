/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses that writers count, the clock line, and a successor that goes on with both.
 */
#include "rings-session.h"

#include "shm/clock.h"

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

/* Of a predecessor: as they were when it was killed. */
static struct rings *volatile rings_before;
static struct ring_set *volatile set_before;
static struct state *volatile state_before;

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
    Suite *s = suite_create("rings-losses");
    TCase *t;

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
