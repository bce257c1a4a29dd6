/* SPDX-License-Identifier: Apache-2.0
 *
 * The probes' rings: one BPF ring buffer a possible CPU inside an array of maps, the loss counters,
 * and each ring as a source of the router. Made and unmade on the worker or the loop thread, while
 * no source is with the router; the sources are the loop thread's.
 */
#pragma once

#include <stdint.h>

#include "router/router.h"

struct rings;

/* bytes: a power of two of pages. The caller has raised CAP_BPF. */
int rings_new(unsigned cpus, uint64_t bytes, struct rings **ret);
struct rings *rings_free(struct rings *r);

/* Map descriptors for the programs: array of rings, loss counters. */
int rings_array_fd(const struct rings *r);
int rings_lost_fd(const struct rings *r);

/* lost() is told of each kind of record (struct lost_counters) that found its ring full since it
 * was last asked; from inside passes and from rings_sync(). Attaching twice is nothing. */
typedef void (*rings_lost_fn)(void *userdata, unsigned index, uint64_t n);
int rings_attach(struct rings *r, struct router *router, rings_lost_fn lost, void *userdata);
void rings_detach(struct rings *r);
void rings_sync(struct rings *r);
