/* SPDX-License-Identifier: Apache-2.0
 *
 * The probes' rings: one BPF ring buffer a possible CPU inside an array of maps, the loss counters,
 * and each ring as a source of the router. Made and unmade on the worker or the loop thread, while
 * no source is with the router; the sources are the loop thread's.
 */
#pragma once

#include <stdint.h>

#include "router/router.h"

struct probe_rings;

/* bytes: a power of two of pages. The caller has raised CAP_BPF. */
int probe_rings_new(unsigned cpus, uint64_t bytes, struct probe_rings **ret);
struct probe_rings *probe_rings_free(struct probe_rings *r);

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
