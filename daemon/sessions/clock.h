/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks that sessions stamp in. Sources stamp CLOCK_BOOTTIME; what goes into a session of
 * another clock is converted when it is put there, by one line from the session's start (its
 * `line`). Loop thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct session;

/* What of the machine's clocks sessions need. */
struct session_clocks {
    bool cycles; /* there is a counter that ticks at one rate on all processors */
    uint64_t first_ticks, first_ns;
    uint32_t cpu_mhz; /* of the processors, for headers */
};

/* Reads /sys. */
void session_clocks_init(struct session_clocks *c, uint32_t cpu_mhz);

/* The clock that a session gets for the one that it wants: 0 is QPC; the system time in place of a
 * cycle counter that is not there. */
uint32_t session_clock_choose(const struct session_clocks *c, uint32_t wanted);

/* Now is the session's start: sets its line and start_filetime. */
void session_clock_start(const struct session_clocks *c, struct session *s);

/* Ticks a second of a session's clock, what headers call PerfFreq. */
uint64_t session_clock_frequency(const struct session *s);
/* Now, as the session's stamps have it: not the wall clock's time when somebody has set that. */
uint64_t session_clock_filetime(const struct session *s);
