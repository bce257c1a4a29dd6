/* SPDX-License-Identifier: Apache-2.0
 *
 * The fitter of the clock line, etwd's loop thread.
 */
#include "clock.h"

#include <stdio.h>
#include <string.h>

#include "../base/cleanup.h"

#if defined(__x86_64__)
#include <cpuid.h>

static bool counter_is_constant(void)
{
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;

    /* Advanced power management: invariant TSC. */
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
}

bool shm_clock_usable(void)
{
    char name[64] = "";
    _cleanup_fclose_ FILE *f =
        fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");

    if (!f || !fgets(name, sizeof(name), f))
        return false;
    name[strcspn(name, "\n")] = '\0';
    return counter_is_constant() && (strcmp(name, "tsc") == 0 || strcmp(name, "kvm-clock") == 0);
}

void shm_clock_sample(uint64_t *ret_tsc, uint64_t *ret_ns)
{
    uint64_t best = UINT64_MAX;

    /* An interrupt or a lost CPU widens a pair; the narrowest of a few is good to some 10 ns. */
    for (int i = 0; i < 8; i++) {
        uint64_t before = shm_ticks();
        uint64_t ns = etw_clock_boottime();
        uint64_t after = shm_ticks();
        if (after - before < best) {
            best = after - before;
            *ret_tsc = before + best / 2;
            *ret_ns = ns;
        }
    }
}
#else
bool shm_clock_usable(void)
{
    return false;
}

void shm_clock_sample(uint64_t *ret_tsc, uint64_t *ret_ns)
{
    *ret_tsc = 0;
    *ret_ns = etw_clock_boottime();
}
#endif

static uint64_t line_at(const struct shm_clock_fit *f, uint64_t tsc)
{
    int64_t ticks = (int64_t) (tsc - f->tsc0);

    return f->ns0 + (uint64_t) (((__int128) ticks * f->mult) >> f->shift);
}

/* The line through (tsc, ns) that rises by `rise` ns in `run` ticks. False: no counter is like
 * that (10 MHz to 100 GHz). */
static bool line_set(struct shm_clock_fit *f, uint64_t tsc, uint64_t ns, uint64_t rise,
                     uint64_t run)
{
    unsigned __int128 mult;
    uint32_t shift = 63; /* as many bits of the slope as mult holds */

    if (run == 0 || rise / 100 > run || run / 100 > rise)
        return false;
    for (;; shift--) {
        mult = (((unsigned __int128) rise << shift) + run / 2) / run;
        if (mult <= UINT32_MAX)
            break;
    }
    f->tsc0 = tsc;
    f->ns0 = ns;
    f->mult = (uint32_t) mult;
    f->shift = shift;
    f->span = (uint64_t) (((unsigned __int128) SHM_CLOCK_SPAN_NS << shift) / mult);
    return true;
}

bool shm_clock_fit_add(struct shm_clock_fit *f, uint64_t tsc, uint64_t ns)
{
    uint64_t rise = ns - f->last_ns;
    uint64_t run = tsc - f->last_tsc;
    bool was_good = f->good;
    int64_t error = 0;
    uint64_t at = ns;

    if (f->started && ns >= f->last_ns && rise < SHM_CLOCK_FIT_NS / 5)
        return false;
    f->last_tsc = tsc;
    f->last_ns = ns;
    if (f->started && tsc > f->tsc0 && f->good) {
        at = line_at(f, tsc);
        error = (int64_t) (ns - at);
    }
    /* Older than the line may be: writers have left it. */
    if (!f->started || ns < rise || (int64_t) run <= 0 || (int64_t) rise <= 0 ||
        rise > SHM_CLOCK_SPAN_NS || error > SHM_CLOCK_ERROR_NS / 2 ||
        error < -SHM_CLOCK_ERROR_NS / 2) {
        f->started = true;
        f->good = false;
        return was_good;
    }
    f->good = line_set(f, tsc, at, rise + (uint64_t) error, run);
    return true;
}

void shm_clock_publish(struct shm_clock *line, const struct shm_clock_fit *f)
{
    uint32_t sequence = atomic_load_explicit(&line->sequence, memory_order_relaxed);
    bool good = f && f->good;

    /* An etwd that died in here left it odd. */
    sequence |= 1;
    atomic_store_explicit(&line->sequence, sequence, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&line->good, good, memory_order_relaxed);
    if (good) {
        atomic_store_explicit(&line->mult, f->mult, memory_order_relaxed);
        atomic_store_explicit(&line->shift, f->shift, memory_order_relaxed);
        atomic_store_explicit(&line->tsc0, f->tsc0, memory_order_relaxed);
        atomic_store_explicit(&line->ns0, f->ns0, memory_order_relaxed);
        atomic_store_explicit(&line->span, f->span, memory_order_relaxed);
    }
    atomic_store_explicit(&line->sequence, sequence + 1, memory_order_release);
}
