/* SPDX-License-Identifier: Apache-2.0
 *
 * The events that etwd itself writes into every session: MachineInfo and ClockSync, and BuildInfo
 * into kernel sessions. On processor 0's buffers. Loop thread only.
 */
#pragma once

#include <stdint.h>

struct etwd_events;
struct session;
struct sessions;

/* Reasons of ClockSync, as classes.def lists them. */
enum clock_sync_reason {
    CLOCK_SYNC_START = 1,
    CLOCK_SYNC_FILE = 2,
    CLOCK_SYNC_PERIODIC = 3,
    CLOCK_SYNC_STEP = 4,
};

int etwd_events_new(struct sessions *ss, struct etwd_events **ret);
struct etwd_events *etwd_events_free(struct etwd_events *e);

/* The first events of a session, with the stamp of its header. */
void etwd_events_begin(struct etwd_events *e, struct session *s);
/* Those of a later file of a session. */
void etwd_events_file(struct etwd_events *e, struct session *s, uint64_t stamp);
/* A Mark event into one session; text as it comes, cut to what any buffer holds. */
void etwd_events_mark(struct session *s, uint64_t stamp, const char *text);
/* Sessions run, or none does: clocks are watched only meanwhile. */
void etwd_events_watch(struct etwd_events *e, int sessions_run);
