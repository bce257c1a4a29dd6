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

enum rundown_kind {
    RUNDOWN_START,  /* old masks (none), configuration, new masks, what is there */
    RUNDOWN_UPDATE, /* old masks, new masks, what only the new ones want */
    RUNDOWN_END,    /* configuration, masks, what is still there; rundown_finish() is to follow */
};

struct rundown_params {
    enum rundown_kind kind;
    struct events *events;
    struct process_table *table; /* must not change until the rundown is freed: the merge is held */
    const struct kernel_image *kernel;
    const struct sysconfig *sysconfig; /* NULL: not wanted */
    unsigned cpus;                     /* online */
    struct kernel_target *target;      /* its masks are the new ones */
    uint32_t old_masks[8];             /* RUNDOWN_UPDATE */
    uint64_t stamp;
};

/* How far it is; of another one's only whoever goes on with it reads more than whether it is done.
 * Part of the state's format. */
struct rundown_progress {
    uint32_t phase;
    uint32_t tgid;    /* of the process that is being described */
    uint32_t threads; /* and images of it that have been */
    uint32_t image;
};
bool rundown_progress_done(const struct rundown_progress *p);

/* A rundown under way; from: what a predecessor wrote is left out; NULL: from its beginning. */
struct rundown;
int rundown_new(const struct rundown_params *p, const struct rundown_progress *from,
                struct rundown **ret);
void rundown_progress(const struct rundown *r, struct rundown_progress *ret);
struct rundown *rundown_free(struct rundown *r);
/* Writes until all is written (true) or the session has few free buffers (false: go on when the
 * loop has written some). `pace` false: go on whatever is lost. */
bool rundown_step(struct rundown *r, bool pace);

/* The last two events of a session, when no image of it waits any more. */
void rundown_finish(struct events *e, struct kernel_target *t, uint64_t stamp);
