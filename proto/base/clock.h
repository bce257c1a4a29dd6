/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks of a trace. Every source stamps CLOCK_BOOTTIME in nanoseconds; that is our QPC with a
 * frequency of 10^9. FILETIME is 100 ns since 1601-01-01 UTC. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ETW_NSEC_PER_SEC 1000000000ULL
#define ETW_FILETIME_PER_SEC 10000000ULL
/* FILETIME of 1970-01-01. */
#define ETW_FILETIME_UNIX_EPOCH 116444736000000000ULL
/* Clock interrupt period that headers state: the unit of KernelTime, UserTime, NewThreadWaitTime.
 */
#define ETW_TIMER_RESOLUTION 156250u

/* ReservedFlags of the log-file header, ClientContext of a session. */
enum etw_clock_type {
    ETW_CLOCK_QPC = 1,
    ETW_CLOCK_SYSTEM = 2,
    ETW_CLOCK_CYCLE = 3,
};

static inline uint64_t etw_clock_ns(clockid_t id)
{
    struct timespec ts;
    (void) clock_gettime(id, &ts);
    return (uint64_t) ts.tv_sec * ETW_NSEC_PER_SEC + (uint64_t) ts.tv_nsec;
}

static inline uint64_t etw_clock_boottime(void)
{
    return etw_clock_ns(CLOCK_BOOTTIME);
}

/* Nanoseconds since 1970 as FILETIME, and the clock's present value. */
uint64_t etw_filetime_from_unix_ns(uint64_t ns);
uint64_t etw_filetime_now(void);

/* What turns an event's raw stamp into wall time. Copied from a log-file header. */
struct etw_timebase {
    uint64_t start_filetime; /* StartTime */
    uint64_t start_raw;      /* stamp of the log-file header event */
    uint64_t frequency;      /* PerfFreq */
    uint32_t type;           /* enum etw_clock_type, or what the file says */
    uint32_t cpu_mhz;        /* for ETW_CLOCK_CYCLE */
};

/* A raw stamp as FILETIME (rounded down; signed distance; saturates at 0 and UINT64_MAX). */
uint64_t etw_timebase_filetime(const struct etw_timebase *tb, uint64_t raw);
/* The same in nanoseconds since 1970, with the clock's own resolution; 0 before 1970. */
uint64_t etw_timebase_unix_ns(const struct etw_timebase *tb, uint64_t raw);
/* The smallest raw stamp whose FILETIME is >= filetime. */
uint64_t etw_timebase_raw(const struct etw_timebase *tb, uint64_t filetime);

/* What turns CLOCK_BOOTTIME into the clock of a file: one straight line from the moment the file
 * began. It does not follow the wall clock when somebody sets that one, since stamps of one buffer
 * must not go backwards; the cycle counter has the rate that the header states, a whole number of
 * MHz, so that readers get the right times. */
struct etw_clock_line {
    uint32_t type;    /* enum etw_clock_type */
    uint32_t cpu_mhz; /* of ETW_CLOCK_CYCLE */
    uint64_t start_boottime;
    uint64_t start_raw; /* the same moment in the clock */
};

/* CLOCK_BOOTTIME in the clock: rounded down, never falling with it; saturates at 0. */
uint64_t etw_clock_line_raw(const struct etw_clock_line *line, uint64_t boottime);
/* A time of `ns` in ticks of the clock, rounded down. */
uint64_t etw_clock_line_ticks(const struct etw_clock_line *line, uint64_t ns);

/* Both clocks at one moment, as near as a few tries get them. */
void etw_clock_read_both(uint64_t *ret_boottime, uint64_t *ret_realtime);

/* "2026-11-30T21:11:00.123456789Z" */
#define ETW_RFC3339_MAX 40
char *etw_rfc3339(uint64_t unix_ns, char buf[ETW_RFC3339_MAX]);
char *etw_rfc3339_filetime(uint64_t filetime, char buf[ETW_RFC3339_MAX]);
