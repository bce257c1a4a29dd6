/* SPDX-License-Identifier: Apache-2.0
 *
 * The probes' rings: one BPF ring buffer a possible CPU inside an array of maps, the loss counters,
 * and each ring as a source of the router. Made and unmade on the worker or the loop thread, while
 * no source is with the router; the sources are the loop thread's.
 */
#pragma once

#include <stdint.h>

#include "kernel/raw.h"
#include "router/router.h"

struct probe_rings;
struct state;

/* Records behind the stored position that have been popped all the same: interrupts that nest
 * change places of a few. */
#define RING_AHEAD_MAX 32

/* What a successor has to know of a ring; part of the state's format. */
struct ring_image {
    uint64_t consumed; /* position: what is before it is in sessions */
    uint64_t scanned;  /* what is between is, too, if it is ahead[] or (by_order, when there were
                          more) not after the newest record that is */
    uint64_t newest_stamp, newest_position;
    uint32_t by_order;
    uint32_t n_ahead;
    uint64_t ahead[RING_AHEAD_MAX];
    uint64_t lost_seen[LOST_COUNT];
};

/* bytes: a power of two of pages. The caller has raised CAP_BPF. */
int probe_rings_new(unsigned cpus, uint64_t bytes, struct probe_rings **ret);
/* Those of a predecessor: fds are cpus rings, the array, the counters; taken over on success.
 * -EBADMSG: they are not what they should be, or an image does not fit. */
int probe_rings_adopt(unsigned cpus, uint64_t bytes, const int *fds,
                      const struct ring_image *const *images, struct probe_rings **ret);
struct probe_rings *probe_rings_free(struct probe_rings *r);
/* A CPU's ring. */
int probe_rings_fd(const struct probe_rings *r, unsigned cpu);
/* In the transaction that makes what was popped the sessions' for good. False: as last time. */
bool probe_rings_image(struct probe_rings *r, unsigned cpu, struct ring_image *ret);

/* Map descriptors for the programs: array of rings, loss counters. */
int probe_rings_array_fd(const struct probe_rings *r);
int probe_rings_lost_fd(const struct probe_rings *r);

/* lost() is told of each kind of record (struct lost_counters) that found its ring full since it
 * was last asked; from inside passes and from probe_rings_sync(). Attaching twice is nothing. */
typedef void (*probe_rings_lost_fn)(void *userdata, unsigned index, uint64_t n);
int probe_rings_attach(struct probe_rings *r, struct router *router, probe_rings_lost_fn lost,
                       void *userdata);
void probe_rings_detach(struct probe_rings *r);
void probe_rings_sync(struct probe_rings *r);
