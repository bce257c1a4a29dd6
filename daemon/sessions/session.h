/* SPDX-License-Identifier: Apache-2.0
 *
 * A session: properties, buffers, sinks, counters. Loop thread only.
 *
 * The loss identity holds at every moment: written = recorded + sum of lost[cause].
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/guid.h"
#include "base/limits.h"
#include "etl/classes.h"

struct session;
struct sessions;

/* What those who put events into a session look at first: a session begins with it. */
struct session_head {
    bool converts; /* its stamps are not CLOCK_BOOTTIME: session_convert() each event */
};

enum loss_cause {
    LOSS_RING_FULL,
    LOSS_NESTED,
    LOSS_TOO_BIG,
    LOSS_NO_BUFFER,
    LOSS_PROBE_RING_FULL,
    LOSS_SLOW_CONSUMER,
    LOSS_DISK,
    LOSS_QUOTA,
    LOSS_INVALID,
    LOSS_CAUSES
};
/* "ring_full" ...: the words of the design. */
const char *loss_cause_name(enum loss_cause c);

struct session_properties {
    char *name;     /* UTF-8 */
    char *log_file; /* absolute, or NULL */
    struct etw_guid guid;
    uint32_t clock;
    uint32_t buffer_size_kb;
    uint32_t minimum_buffers;
    uint32_t maximum_buffers;
    uint32_t maximum_file_size;
    uint32_t log_file_mode;
    uint32_t flush_timer_s;
    uint32_t enable_flags;
    uint32_t flush_threshold;
    uint64_t v2_options;
    int32_t bias_minutes;
};

/* Frees the strings. */
void session_properties_clear(struct session_properties *p);

struct session_counters {
    uint64_t written;
    uint64_t recorded;
    uint64_t overwritten;
    uint64_t lost[LOSS_CAUSES];
    uint32_t buffers_written; /* the first one included */
    uint32_t log_buffers_lost;
    uint32_t real_time_buffers_lost;
};

const struct session_properties *session_properties(const struct session *s);
void session_counters(const struct session *s, struct session_counters *ret);
uint16_t session_id(const struct session *s);
uint64_t session_handle(const struct session *s);

/* The flags of EnableFlags that mean nothing on Linux and were accepted. */
uint32_t session_inert_flags(const struct session *s);

/* Room for one event of `size` bytes (unpadded) with `stamp` (CLOCK_BOOTTIME ns) from `cpu`: the
 * place to copy it to, or NULL when it is lost, which is then counted with its cause. Counts
 * written, and recorded on success. Goes to the late buffer when stamp is older than the CPU's
 * last. The event must be complete before the next call. NULL uncounted: the session is at its
 * end (its file has the maximum size, or it has been flushed for the last time). */
void *session_reserve(struct session *s, uint16_t cpu, uint64_t stamp, uint32_t size);

/* Whether what has been put where session_reserve() said needs session_convert(). */
static inline bool session_converts(const struct session *s)
{
    return ((const struct session_head *) s)->converts;
}
/* Brings an event that was just put there, with its header and `stamp`, to the session's clock: the
 * header's stamp and the payload fields of its row that hold times. */
void session_convert(const struct session *s, enum etl_row row, void *event, uint32_t size,
                     uint64_t stamp);
/* The same for an event of a program: its payload is its own. */
void session_convert_stamp(const struct session *s, void *event, uint64_t stamp);

/* Buffers that can still be opened before events are lost: who writes much at once (rundown) stops
 * when few are left, and goes on when the loop has written some. */
uint32_t session_buffers_left(const struct session *s);

/* Its flush timer starts with the first event: until then, that one must not wait elsewhere. */
bool session_waits_for_first(const struct session *s);

/* Losses that happened before the router: counts written and lost, marks the present buffer. */
void session_count_lost(struct session *s, enum loss_cause cause, uint64_t events);
