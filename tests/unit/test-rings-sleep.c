/* SPDX-License-Identifier: Apache-2.0
 *
 * When the daemon sleeps, who wakes it, and what keeps it awake.
 */
#include "rings-session.h"

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

static Suite *suite(void)
{
    Suite *s = suite_create("rings-sleep");
    TCase *t;

    t = tcase_create("sleep");
    tcase_add_test(t, sleep_and_wake);
    tcase_add_loop_test(t, low_latency, 0, 2);
    tcase_add_test(t, half_full_awake);
    tcase_add_test(t, sleep_over_stuck);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
