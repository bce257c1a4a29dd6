/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the buffers of a circular file lie: behind the first one, which stays, `n` places; once all
 * have a buffer the next one takes that of the oldest, but for the `kept` first ones, which hold
 * what describes the session. How many events each place holds is known, so that what is
 * overwritten is counted. A file that is not circular has n 0: each buffer lies behind the one
 * before. Loop thread only.
 */
#pragma once

#include <stdint.h>

struct slots {
    uint64_t n;
    uint64_t kept; /* below n */
    uint32_t *events;
};

/* Places for at most ETWD_CIRCULAR_BUFFERS_MAX buffers. -ENOMEM. */
int slots_init(struct slots *s, uint64_t n);
void slots_done(struct slots *s);
/* Another file, with nothing in it. */
void slots_clear(struct slots *s);

/* The first ones stay, as many as leave enough room to the others. */
void slots_keep(struct slots *s, uint64_t buffers);
/* The place of data buffer `index` (0 is the first behind the header). */
uint64_t slots_place(const struct slots *s, uint64_t index);
/* How many places have a buffer when `index` buffers were written. */
uint64_t slots_used(const struct slots *s, uint64_t index);
/* How many buffers may be on their way at once: each to a place of its own. */
uint32_t slots_depth(const struct slots *s, uint32_t wanted);
/* A buffer with this many events is in its place, or (0) nothing is: how many were overwritten. */
uint32_t slots_put(struct slots *s, uint64_t place, uint32_t events);
