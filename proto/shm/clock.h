/* SPDX-License-Identifier: Apache-2.0
 *
 * FastClock: CLOCK_BOOTTIME from the time stamp counter by a line in the control area, and the
 * fitter that keeps the line. Writers read it (any thread, signal handlers too); etwd fits and
 * publishes it (loop thread). Only x86-64 has such a counter here; elsewhere the line is never good
 * and everybody calls clock_gettime().
 *
 * While the line is good it is within SHM_CLOCK_ERROR_NS of CLOCK_BOOTTIME: who vouches for times
 * of such a process (ring.h) vouches for that much less. The line is that of etwd's time namespace:
 * it must not be made good for a process of another one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../base/clock.h"
#include "ring.h"

#define SHM_CLOCK_ERROR_NS 2000

#if defined(__x86_64__)
static inline uint64_t shm_ticks(void)
{
    return __builtin_ia32_rdtsc();
}

static inline __attribute__((always_inline)) bool shm_clock_read(const struct shm_clock *c,
                                                                 bool fences, uint64_t *ret_ns)
{
    uint32_t sequence = atomic_load_explicit(&c->sequence, memory_order_acquire);
    uint64_t tsc0;
    uint64_t ns0;
    uint64_t span;
    uint32_t mult;
    uint32_t shift;
    int64_t ticks;

    if (!atomic_load_explicit(&c->good, memory_order_relaxed))
        return false;
    tsc0 = atomic_load_explicit(&c->tsc0, memory_order_relaxed);
    ns0 = atomic_load_explicit(&c->ns0, memory_order_relaxed);
    span = atomic_load_explicit(&c->span, memory_order_relaxed);
    mult = atomic_load_explicit(&c->mult, memory_order_relaxed);
    shift = atomic_load_explicit(&c->shift, memory_order_relaxed);
    /* With membarrier the store of busy needs no more than program order: an interrupt throws away
     * what was executed but has not retired. A fence alone does not hold rdtsc back. */
    if (fences)
        __builtin_ia32_lfence();
    ticks = (int64_t) (shm_ticks() - tsc0);
    atomic_thread_fence(memory_order_acquire);
    if ((sequence & 1) || shift > 63 ||
        atomic_load_explicit(&c->sequence, memory_order_relaxed) != sequence ||
        ticks > (int64_t) span)
        return false;
    *ret_ns = ns0 + (uint64_t) (((__int128) ticks * mult) >> shift);
    return true;
}
#else
static inline bool shm_clock_read(const struct shm_clock *c, bool fences, uint64_t *ret_ns)
{
    return false;
}
#endif

/* The time of the event begun, for ring.h: by the line where it is good, else by clock_gettime();
 * *ret_flags are the flags for the record's prefix. */
static inline __attribute__((always_inline)) uint64_t shm_writer_now(struct shm_writer *w,
                                                                     uint8_t *ret_flags)
{
    uint64_t now;

    if (shm_clock_read(shm_control_clock(w->control), w->fences, &now)) {
        *ret_flags = SHM_RECORD_TSC;
    } else {
        now = etw_clock_boottime();
        *ret_flags = 0;
    }
    return shm_writer_stamp(w, now);
}

/* ---- etwd ---- */

/* Refit about this often while somebody uses the line; it ends by itself after SHM_CLOCK_SPAN_NS.
 */
#define SHM_CLOCK_FIT_NS 1000000000ull
#define SHM_CLOCK_SPAN_NS 4000000000ull

struct shm_clock_fit {
    bool started; /* last_* are valid */
    bool good;
    uint64_t last_tsc, last_ns;
    uint64_t tsc0, ns0; /* the line */
    uint32_t mult, shift;
    uint64_t span;
};

/* The counter runs at one rate, on all processors alike, and the kernel trusts it itself. Reads
 * /sys once a call. */
bool shm_clock_usable(void);

/* The counter and CLOCK_BOOTTIME at one moment (the closest of a few pairs). */
void shm_clock_sample(uint64_t *ret_tsc, uint64_t *ret_ns);

/* Takes a sample. The line goes on where it was and only bends, such that it meets the clock at the
 * next sample; when it is off by more than SHM_CLOCK_ERROR_NS / 2 (a step, a suspend, a move to
 * another machine) it is not good until the next two samples. Samples closer than
 * SHM_CLOCK_FIT_NS/5 are left out. Returns whether the line changed. */
bool shm_clock_fit_add(struct shm_clock_fit *f, uint64_t tsc, uint64_t ns);

/* Writes the line into one control area. NULL: not good. */
void shm_clock_publish(struct shm_clock *line, const struct shm_clock_fit *f);
