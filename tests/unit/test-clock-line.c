/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock line: the fitter over made-up clocks, the seqlock under threads, and the real counter.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

#include "shm-fixture.h"

#define SEC 1000000000ull

/* A counter of `hz` that runs past CLOCK_BOOTTIME. */
static uint64_t ticks_at(uint64_t ns, double hz)
{
    return 123456789 + (uint64_t) ((long double) ns * hz / 1e9L);
}

static int64_t line_error(const struct shm_clock_fit *fit, uint64_t tsc, uint64_t ns)
{
    int64_t ticks = (int64_t) (tsc - fit->tsc0);

    return (int64_t) (fit->ns0 + (uint64_t) (((__int128) ticks * fit->mult) >> fit->shift) - ns);
}

/* Any rate: good from the second sample on, precise between samples. */
START_TEST(any_rate)
{
    static const double rates[] = {20e6, 1e9, 1.8e9, 2.4e9, 3.1234567e9, 5.5e9, 60e9};

    for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
        struct shm_clock_fit fit = {0};
        uint64_t ns = 5000 * SEC;
        double hz = rates[i];
        int64_t tick = (int64_t) (1e9 / hz) + 1;

        ck_assert(!shm_clock_fit_add(&fit, ticks_at(ns, hz), ns));
        ck_assert(!fit.good);
        for (unsigned n = 0; n < 20; n++) {
            ns += SEC + n * 1000003;
            ck_assert(shm_clock_fit_add(&fit, ticks_at(ns, hz), ns));
            ck_assert(fit.good);
            for (uint64_t d = 0; d <= 2 * SEC; d += SEC / 7)
                ck_assert_int_le(llabs(line_error(&fit, ticks_at(ns + d, hz), ns + d)),
                                 3 * tick + 3);
            ck_assert_uint_gt(fit.span, ticks_at(3 * SEC, hz) - ticks_at(0, hz));
            ck_assert_uint_lt(fit.span, ticks_at(5 * SEC, hz) - ticks_at(0, hz));
        }
        /* Too close: left out. */
        struct shm_clock_fit before = fit;
        ck_assert(!shm_clock_fit_add(&fit, ticks_at(ns + SEC / 10, hz), ns + SEC / 10));
        ck_assert_int_eq(memcmp(&before, &fit, sizeof(fit)), 0);
    }
}
END_TEST

/* A clock that is slewed and sampled with noise: the line never steps, and stays within bounds. */
START_TEST(bends)
{
    struct shm_clock_fit fit = {0};
    uint64_t seed = 8;
    double hz = 2.5e9;
    long double tsc = 1e12L;
    uint64_t ns = 77 * SEC;
    int64_t worst = 0;

    for (unsigned n = 0; n < 2000; n++) {
        struct shm_clock_fit old = fit;
        int64_t noise = (int64_t) (shm_random(&seed) % 61) - 30;
        uint64_t sample = ns + (uint64_t) noise;
        bool changed = shm_clock_fit_add(&fit, (uint64_t) tsc, sample);
        ck_assert(changed == (n > 0));
        ck_assert(fit.good == (n > 0));
        if (n > 1)
            ck_assert_int_eq(line_error(&old, fit.tsc0, fit.ns0), 0);
        /* The rate wanders by up to 0.2 parts in a million a second. */
        hz *= 1 + ((double) (shm_random(&seed) % 401) - 200) * 1e-9;
        tsc += (long double) hz;
        ns += SEC;
        if (n > 0) {
            int64_t e = llabs(line_error(&fit, (uint64_t) tsc, ns));
            worst = e > worst ? e : worst;
        }
    }
    fprintf(stderr, "worst: %jd ns\n", (intmax_t) worst);
    ck_assert_int_lt(worst, SHM_CLOCK_ERROR_NS / 2);
}
END_TEST

START_TEST(steps)
{
    static const int64_t jumps[] = {1200, -1200, 3600 * (int64_t) SEC, -(int64_t) SEC / 2};
    double hz = 3e9;

    for (size_t i = 0; i < ARRAY_SIZE(jumps); i++) {
        struct shm_clock_fit fit = {0};
        uint64_t t = 1000 * SEC;
        int64_t jump = 0;
        for (unsigned n = 0; n < 10; n++, t += SEC) {
            bool before = fit.good;
            if (n == 5)
                jump = jumps[i];
            ck_assert(shm_clock_fit_add(&fit, ticks_at(t, hz), t + (uint64_t) jump) == (n > 0));
            ck_assert_msg(fit.good == (n != 0 && n != 5), "jump %zu, sample %u", i, n);
            ck_assert(n != 5 || before);
        }
        ck_assert_int_lt(llabs(line_error(&fit, ticks_at(t, hz), t + (uint64_t) jump)), 10);
    }
    /* The counter goes back (another machine), stands still, or is no counter. */
    for (unsigned i = 0; i < 3; i++) {
        struct shm_clock_fit fit = {0};
        (void) shm_clock_fit_add(&fit, 1000000000, SEC);
        (void) shm_clock_fit_add(&fit, 4000000000, 2 * SEC);
        ck_assert(fit.good);
        ck_assert(shm_clock_fit_add(&fit,
                                    i == 0   ? 5000
                                    : i == 1 ? 4000000000
                                             : UINT64_MAX,
                                    3 * SEC));
        ck_assert(!fit.good);
    }
    /* A pause longer than the line is good for. */
    struct shm_clock_fit fit = {0};
    (void) shm_clock_fit_add(&fit, ticks_at(SEC, hz), SEC);
    (void) shm_clock_fit_add(&fit, ticks_at(2 * SEC, hz), 2 * SEC);
    ck_assert(fit.good);
    ck_assert(shm_clock_fit_add(&fit, ticks_at(9 * SEC, hz), 9 * SEC));
    ck_assert(!fit.good);
}
END_TEST

#if defined(__x86_64__)
/* Lines that all show 0 at `base` and of which each is wrong by hours when mixed with another. */
static void flicker_line(struct shm_clock_fit *fit, uint64_t n, uint64_t base)
{
    fit->good = true;
    fit->mult = (uint32_t) (1000000 + n % 7 * 100000000);
    fit->shift = (uint32_t) (20 + n % 7);
    fit->tsc0 = base - n % 7 * 1000000000000ull;
    fit->span = UINT64_MAX / 4;
    fit->ns0 = 0 - (uint64_t) (((__int128) (int64_t) (base - fit->tsc0) * fit->mult) >> fit->shift);
}

static struct shm_clock flicker;
static uint64_t flicker_base;
static volatile sig_atomic_t flickers;

/* The line changes between any two instructions of the reader. */
static void flicker_signal(int signal)
{
    struct shm_clock_fit fit;

    flicker_line(&fit, (uint64_t) ++flickers, flicker_base);
    shm_clock_publish(&flicker, &fit);
}

START_TEST(never_mixed)
{
    struct sigaction action = {.sa_handler = flicker_signal};
    struct itimerval timer = {.it_interval = {0, 40}, .it_value = {0, 40}};
    uint64_t good = 0;
    uint64_t refused = 0;

    flicker_base = shm_ticks();
    flicker_signal(SIGALRM);
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &timer, NULL), 0);
    while (flickers < test_scale(20000)) {
        uint64_t ns = 0;
        if (shm_clock_read(&flicker, false, &ns)) {
            good++;
            /* None rises faster than 50 ns a tick. */
            ck_assert_uint_le(ns, (shm_ticks() - flicker_base) * 50 + 1000);
        } else {
            refused++;
        }
    }
    ck_assert_int_eq(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
    fprintf(stderr, "%ju reads good, %ju met a change\n", (uintmax_t) good, (uintmax_t) refused);
    ck_assert_uint_gt(good, 1000);
    ck_assert_uint_gt(refused, 0);
}
END_TEST

START_TEST(reading)
{
    struct shm_clock line = {0};
    struct shm_clock_fit fit = {.good = true, .mult = 1u << 31, .shift = 31, .span = 1ull << 40};
    uint64_t ns = 7;

    /* Never written. */
    ck_assert(!shm_clock_read(&line, false, &ns));
    fit.tsc0 = shm_ticks();
    fit.ns0 = 5 * SEC;
    shm_clock_publish(&line, &fit);
    ck_assert(shm_clock_read(&line, true, &ns));
    ck_assert_uint_ge(ns, 5 * SEC);
    ck_assert_uint_lt(ns, 5 * SEC + (1ull << 40));
    /* A counter slightly behind the line's beginning goes down, not up for ever. */
    fit.tsc0 = shm_ticks() + (1ull << 32);
    shm_clock_publish(&line, &fit);
    ck_assert(shm_clock_read(&line, false, &ns));
    ck_assert_uint_lt(ns, 5 * SEC);
    /* Used up: nobody refits. */
    fit.tsc0 = shm_ticks() - 1000;
    fit.span = 1;
    shm_clock_publish(&line, &fit);
    ns = 7;
    ck_assert(!shm_clock_read(&line, false, &ns));
    /* Being written, perhaps by an etwd that died: not read, and mended by the next. */
    fit.span = 1ull << 40;
    shm_clock_publish(&line, &fit);
    atomic_fetch_add(&line.sequence, 1);
    ck_assert(!shm_clock_read(&line, false, &ns));
    shm_clock_publish(&line, &fit);
    ck_assert(shm_clock_read(&line, false, &ns));
    shm_clock_publish(&line, NULL);
    ns = 7;
    ck_assert(!shm_clock_read(&line, false, &ns));
    fit.good = false;
    shm_clock_publish(&line, &fit);
    ck_assert(!shm_clock_read(&line, false, &ns));
    ck_assert_uint_eq(ns, 7);
}
END_TEST

/* The real counter against the real clock. Preemption between two readings widens what is seen, so
 * the narrowest pairs count. */
START_TEST(real_counter)
{
    struct shm_fixture f;
    struct shm_writer w;
    struct shm_clock_fit fit = {0};
    uint64_t best = UINT64_MAX;
    uint64_t last = 0;
    int64_t error = 0;
    uint8_t flags = 9;

    if (!shm_clock_usable())
        test_skip("the time stamp counter cannot be used here");
    shm_fixture_open(&f, SHM_RING_SIZE_MIN);
    ck_assert_int_eq(shm_writer_claim(&w, f.arena, f.control, 0, 0, SHM_RING_SIZE_MIN, false, 1),
                     0);
    uint64_t ns = shm_writer_now(&w, &flags);
    ck_assert_uint_eq(flags, 0);
    ck_assert_uint_le(ns, etw_clock_boottime());
    ck_assert_uint_eq(atomic_load(&f.read->rings[0].stamp), ns);
    for (unsigned n = 0; n < 6; n++) {
        uint64_t tsc;
        shm_clock_sample(&tsc, &ns);
        (void) shm_clock_fit_add(&fit, tsc, ns);
        shm_clock_publish(shm_control_clock(f.base), &fit);
        for (int i = 0; i < 2000 && fit.good; i++) {
            uint64_t before = etw_clock_boottime();
            uint64_t stamp = shm_writer_now(&w, &flags);
            uint64_t after = etw_clock_boottime();
            ck_assert_uint_ge(stamp, last);
            last = stamp;
            if (flags != SHM_RECORD_TSC || after - before >= best)
                continue;
            best = after - before;
            error = (int64_t) (stamp - (before + best / 2));
        }
        nanosleep(&(struct timespec){.tv_nsec = 250000000}, NULL);
    }
    if (best == UINT64_MAX)
        test_skip("the clock was stepped at each sample");
    fprintf(stderr, "off by %jd ns in a window of %ju ns\n", (intmax_t) error, (uintmax_t) best);
    ck_assert_int_lt(llabs(error), SHM_CLOCK_ERROR_NS + (int64_t) best);
    shm_fixture_close(&f);
}
END_TEST
#endif

static Suite *suite(void)
{
    Suite *s = suite_create("clock-line");
    TCase *t = tcase_create("clock-line");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, any_rate);
    tcase_add_test(t, bends);
    tcase_add_test(t, steps);
#if defined(__x86_64__)
    tcase_add_test(t, never_mixed);
    tcase_add_test(t, reading);
    tcase_add_test(t, real_counter);
#endif
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
