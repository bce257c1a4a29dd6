/* SPDX-License-Identifier: Apache-2.0
 *
 * Rundown: a walk into the process table, and the events that describe what is there at the start
 * and the end of a session, in the order of etl(5). Loop thread only, but for kernel_image_read().
 */
#pragma once

#include "kernel/events.h"
#include "kernel/finish.h"
#include "kernel/walk.h"

struct sysconfig;

/* The kernel as an image of pid 0. */
struct kernel_image {
    uint64_t base; /* 0: not told to us */
    uint64_t size;
    struct image_identity id;
};
/* From /sys/kernel/notes and /proc/kallsyms: worker thread. */
void kernel_image_read(struct kernel_image *ret);

/* Brings the table, which stands at `stamp`, up to what a walk shortly afterwards saw: adds what is
 * missing, refreshes names and the like. Younger tasks are left to their own records. `images`:
 * the walk saw those, too. */
void rundown_apply(struct process_table *table, const struct walk *w, uint64_t stamp, bool images);

/* At the end: names and the like from a walk shortly before the moment of the table. When records
 * of processes have been lost, forgets what the walk did not see although it began before. */
void rundown_refresh(struct finish *f, struct process_table *table, const struct walk *w);

struct rundown {
    struct events *events;
    struct process_table *table;
    const struct kernel_image *kernel;
    const struct sysconfig *sysconfig; /* NULL: not wanted */
    unsigned cpus;                     /* online */
    struct kernel_target *target;
    uint64_t stamp;
};

/* Beginning of a session: old masks (none), configuration, new masks, what is there. */
void rundown_start(const struct rundown *r);
/* The masks of a running session change from `old`: what is new is described. */
void rundown_update(const struct rundown *r, const uint32_t old[8]);
/* End of a session, without its last two events, since images may still wait; then those. */
void rundown_end(const struct rundown *r);
void rundown_finish(struct events *e, struct kernel_target *t, uint64_t stamp);
