/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions between raw stamps, FILETIME and nanoseconds since 1970. Products are 128 bits wide:
 * a distance of ten days in 100 ns overflows 64. Reads no file, keeps no state; any thread.
 */
#include "clock.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#define FILETIME_NS 100u

typedef __int128 i128;

static uint64_t saturate(i128 v)
{
    if (v < 0)
        return 0;
    if (v > (i128) UINT64_MAX)
        return UINT64_MAX;
    return (uint64_t) v;
}

static i128 floor_div(i128 n, i128 d)
{
    i128 q = n / d;
    return n % d < 0 ? q - 1 : q;
}

static i128 ceil_div(i128 n, i128 d)
{
    i128 q = n / d;
    return n % d > 0 ? q + 1 : q;
}

uint64_t etw_filetime_from_unix_ns(uint64_t ns)
{
    return ns / FILETIME_NS + ETW_FILETIME_UNIX_EPOCH;
}

uint64_t etw_filetime_now(void)
{
    return etw_filetime_from_unix_ns(etw_clock_ns(CLOCK_REALTIME));
}

/* start + (raw - start_raw) * units / ticks without a 128-bit division, which costs more than all
 * else that a reader does for an event. False: not by 64 bits; nothing is said then. */
static bool scale_fast(const struct etw_timebase *tb, uint64_t ticks, uint64_t raw, uint64_t start,
                       uint64_t units, uint64_t *ret)
{
    uint64_t distance = raw - tb->start_raw;
    uint64_t whole;

    if (raw < tb->start_raw || ticks > UINT64_MAX / ETW_NSEC_PER_SEC ||
        __builtin_mul_overflow(distance / ticks, units, &whole) ||
        __builtin_add_overflow(whole, start, &whole))
        return false;
    return !__builtin_add_overflow(whole, distance % ticks * units / ticks, ret);
}

/* Ticks per second; 0 when the header names no rate: then all times are the start's. */
static i128 ticks_per_second(const struct etw_timebase *tb)
{
    if (tb->type == ETW_CLOCK_CYCLE)
        return (i128) tb->cpu_mhz * 1000000;
    /* QPC, and what readers take as QPC: some relogged files say 0. */
    return tb->frequency;
}

uint64_t etw_timebase_filetime(const struct etw_timebase *tb, uint64_t raw)
{
    i128 ticks = ticks_per_second(tb);
    uint64_t fast;

    if (tb->type == ETW_CLOCK_SYSTEM)
        return raw;
    if (ticks == 0)
        return tb->start_filetime;
    if (scale_fast(tb, (uint64_t) ticks, raw, tb->start_filetime, ETW_FILETIME_PER_SEC, &fast))
        return fast;
    i128 distance = (i128) raw - tb->start_raw;
    return saturate(tb->start_filetime + floor_div(distance * ETW_FILETIME_PER_SEC, ticks));
}

uint64_t etw_timebase_unix_ns(const struct etw_timebase *tb, uint64_t raw)
{
    i128 ticks = ticks_per_second(tb);
    uint64_t fast;
    i128 ns;

    if (tb->type == ETW_CLOCK_SYSTEM)
        return saturate(((i128) raw - ETW_FILETIME_UNIX_EPOCH) * FILETIME_NS);
    ns = ((i128) tb->start_filetime - ETW_FILETIME_UNIX_EPOCH) * FILETIME_NS;
    if (ticks != 0 && ns >= 0 && ns <= (i128) UINT64_MAX &&
        scale_fast(tb, (uint64_t) ticks, raw, (uint64_t) ns, ETW_NSEC_PER_SEC, &fast))
        return fast;
    if (ticks != 0)
        ns += floor_div(((i128) raw - tb->start_raw) * ETW_NSEC_PER_SEC, ticks);
    return saturate(ns);
}

uint64_t etw_timebase_raw(const struct etw_timebase *tb, uint64_t filetime)
{
    i128 ticks = ticks_per_second(tb);

    if (tb->type == ETW_CLOCK_SYSTEM)
        return filetime;
    if (ticks == 0)
        return filetime <= tb->start_filetime ? 0 : UINT64_MAX;
    i128 distance = (i128) filetime - tb->start_filetime;
    i128 product;
    /* The frequency comes from a file and may be anything. */
    if (__builtin_mul_overflow(distance, ticks, &product))
        return distance < 0 ? 0 : UINT64_MAX;
    return saturate(tb->start_raw + ceil_div(product, ETW_FILETIME_PER_SEC));
}

uint64_t etw_clock_line_ticks(const struct etw_clock_line *line, uint64_t ns)
{
    switch (line->type) {
    case ETW_CLOCK_SYSTEM:
        return ns / FILETIME_NS;
    case ETW_CLOCK_CYCLE:
        return ns / 1000 * line->cpu_mhz + ns % 1000 * line->cpu_mhz / 1000;
    default:
        return ns;
    }
}

uint64_t etw_clock_line_raw(const struct etw_clock_line *line, uint64_t boottime)
{
    uint64_t ticks;

    if (line->type != ETW_CLOCK_SYSTEM && line->type != ETW_CLOCK_CYCLE)
        return boottime;
    if (boottime >= line->start_boottime)
        return line->start_raw + etw_clock_line_ticks(line, boottime - line->start_boottime);
    /* Before the start: what describes the past. Down, as above: one tick more when it is not
     * whole. */
    uint64_t before = line->start_boottime - boottime;
    ticks = etw_clock_line_ticks(line, before);
    if (line->type == ETW_CLOCK_SYSTEM ? before % FILETIME_NS != 0
                                       : before % 1000 * line->cpu_mhz % 1000 != 0)
        ticks++;
    return ticks < line->start_raw ? line->start_raw - ticks : 0;
}

void etw_clock_read_both(uint64_t *ret_boottime, uint64_t *ret_realtime)
{
    uint64_t best = UINT64_MAX;

    /* Being put off between two readings shows as a distance between the outer ones. */
    for (int i = 0; i < 10 && best > 2000; i++) {
        uint64_t before = etw_clock_boottime();
        uint64_t realtime = etw_clock_ns(CLOCK_REALTIME);
        uint64_t after = etw_clock_boottime();
        if (after - before < best) {
            best = after - before;
            *ret_boottime = before + best / 2;
            *ret_realtime = realtime;
        }
    }
}

static char *format_time(time_t seconds, uint32_t nanoseconds, char buf[ETW_RFC3339_MAX])
{
    struct tm tm;
    size_t n = 0;

    if (gmtime_r(&seconds, &tm))
        n = strftime(buf, ETW_RFC3339_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    (void) snprintf(buf + n, ETW_RFC3339_MAX - n, ".%09" PRIu32 "Z", nanoseconds);
    return buf;
}

char *etw_rfc3339(uint64_t unix_ns, char buf[ETW_RFC3339_MAX])
{
    return format_time((time_t) (unix_ns / ETW_NSEC_PER_SEC),
                       (uint32_t) (unix_ns % ETW_NSEC_PER_SEC), buf);
}

char *etw_rfc3339_filetime(uint64_t filetime, char buf[ETW_RFC3339_MAX])
{
    i128 since = (i128) filetime - ETW_FILETIME_UNIX_EPOCH;
    i128 seconds = floor_div(since, ETW_FILETIME_PER_SEC);
    i128 rest = since - seconds * (i128) ETW_FILETIME_PER_SEC;

    return format_time((time_t) seconds, (uint32_t) rest * FILETIME_NS, buf);
}
