/* SPDX-License-Identifier: Apache-2.0
 *
 * See clock.h.
 */
#include "clock.h"

#include "base/clock.h"
#include "etl/build.h"
#include "internal.h"
#include "shm/clock.h"

/* Two samples of the cycle counter this far apart tell its rate to a few ppm. */
#define RATE_NS_MIN 1000000u

void session_clocks_init(struct session_clocks *c, uint32_t cpu_mhz)
{
    *c = (struct session_clocks){.cpu_mhz = cpu_mhz, .cycles = shm_clock_usable()};
    if (c->cycles)
        shm_clock_sample(&c->first_ticks, &c->first_ns);
}

uint32_t session_clock_choose(const struct session_clocks *c, uint32_t wanted)
{
    if (wanted == 0)
        return ETW_CLOCK_QPC;
    if (wanted == ETW_CLOCK_CYCLE && !c->cycles)
        return ETW_CLOCK_SYSTEM;
    return wanted;
}

/* The counter's rate, which need not be that of the processors: turbo, virtual machines. */
static uint32_t counter_mhz(const struct session_clocks *c, uint64_t ticks, uint64_t ns)
{
    if (ns <= c->first_ns + RATE_NS_MIN || ticks <= c->first_ticks)
        return c->cpu_mhz ? c->cpu_mhz : 1000;
    uint64_t span = ns - c->first_ns;
    uint64_t mhz =
        (uint64_t) (((unsigned __int128) (ticks - c->first_ticks) * 1000 + span / 2) / span);
    return mhz > 0 && mhz <= UINT32_MAX ? (uint32_t) mhz : 1;
}

void session_clock_start(const struct session_clocks *c, struct session *s)
{
    uint64_t boottime, realtime, ticks;

    etw_clock_read_both(&boottime, &realtime);
    s->start_filetime = etw_filetime_from_unix_ns(realtime);
    s->line = (struct etw_clock_line){
        .type = s->properties.clock,
        .cpu_mhz = c->cpu_mhz,
        .start_boottime = boottime,
        .start_raw = boottime,
    };
    if (s->line.type == ETW_CLOCK_SYSTEM) {
        /* The line goes through the instants that are whole FILETIMEs. */
        s->line.start_boottime -= realtime % 100;
        s->line.start_raw = s->start_filetime;
    } else if (s->line.type == ETW_CLOCK_CYCLE) {
        uint64_t ns;
        shm_clock_sample(&ticks, &ns);
        s->line.cpu_mhz = counter_mhz(c, ticks, ns);
        /* The counter at the moment that was read above. */
        s->line.start_raw =
            ticks - (etw_clock_line_ticks(&s->line, ns > boottime ? ns - boottime : 0));
    }
    s->head.converts = s->line.type == ETW_CLOCK_SYSTEM || s->line.type == ETW_CLOCK_CYCLE;
}

uint64_t session_clock_frequency(const struct session *s)
{
    switch (s->line.type) {
    case ETW_CLOCK_SYSTEM:
        return ETW_FILETIME_PER_SEC;
    case ETW_CLOCK_CYCLE:
        return s->line.cpu_mhz * 1000000ull;
    default:
        return ETW_NSEC_PER_SEC;
    }
}

uint64_t session_clock_filetime(const struct session *s)
{
    uint64_t now = etw_clock_boottime();

    return now > s->line.start_boottime ? s->start_filetime + (now - s->line.start_boottime) / 100
                                        : s->start_filetime;
}

void session_convert_stamp(const struct session *s, void *event, uint64_t stamp)
{
    etl_event_set_stamp(event, etw_clock_line_raw(&s->line, stamp));
}

void session_convert(const struct session *s, enum etl_row row, void *event, uint32_t size,
                     uint64_t stamp)
{
    const struct etl_class_row *r = &etl_rows[row];
    uint32_t header = etl_header_size(row);

    session_convert_stamp(s, event, stamp);
    if (r->n_times > 0 && size > header)
        etl_times_convert(r, (uint8_t *) event + header, size - header, &s->line);
}
