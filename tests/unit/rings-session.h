/* SPDX-License-Identifier: Apache-2.0
 *
 * A session that takes the events of rings through a router, and the file that comes of it: what
 * the tests of daemon/providers/rings.c share. Each program has one of them.
 */
#pragma once

#include "rings-fixture.h"

static struct fixture f;
static struct fixture_file file;
static struct router *router;
static struct rings *rings;
static struct rings_fixture p;
static struct state *state;
static inline void begin_with(const struct fixture_params *params, uint32_t ring_size,
                              uint32_t n_rings, uint32_t claimed)
{
    etw_conf_init(&fixture_conf);
    fixture_session(&f, params);
    fixture_open(&f);
    ck_assert_int_eq(router_new(f.loop, 3000000, &router), 0);
    router_set_state(router, state);
    rings = rings_fixture_rings(f.loop, router, state);
    rings_fixture_open(&p, rings, f.session, ring_size, n_rings, claimed);
}

static inline void begin(uint32_t n_rings)
{
    begin_with(&(struct fixture_params){.cpus = 4, .buffer_kb = 64}, 64u << 10, n_rings, n_rings);
}

/* The file is complete; every event of it was written. */
static inline void end(void)
{
    rings_fixture_close(&p);
    rings = rings_free(rings);
    router = router_free(router);
    fixture_close(&f);
    fixture_identity(&f);
    fixture_read(f.path, &file);
    fixture_free(&f);
}

static inline uint64_t recorded(void)
{
    return f.session->counters.recorded;
}

static inline void stop(void *userdata)
{
    loop_exit(f.loop, 0);
}

/* Runs the loop for about so long. */
static inline void run_ms(unsigned ms)
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
