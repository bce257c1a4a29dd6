/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers for calls that a client can make wait for as long as it likes: opening, truncating,
 * writing and closing its files, receiving and closing what it sends. Each user has its own, so
 * that it only ever waits for itself. Not for the daemon's own jobs. Loop thread only.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "worker.h"

struct uid_workers;

struct uid_worker {
    struct worker *files;  /* calls that take a moment */
    struct worker *syncer; /* those that take as long as the disk likes */
};

int uid_workers_new(struct loop *l, struct uid_workers **ret);
/* The loop has ended: waits a moment until all have nothing to do, and runs their jobs' done. */
void uid_workers_settle(struct uid_workers *u);
/* Threads that hang in a call are left to the end of the process. */
struct uid_workers *uid_workers_free(struct uid_workers *u);

/* The user's workers, to be given back; jobs submitted before run in any case. trusted: those of
 * root and group etw together. (uid_t) -1: nobody knows who. Never NULL: with too many users, or
 * without memory, the rest share one thread. */
struct uid_worker *uid_workers_get(struct uid_workers *u, uid_t uid, bool trusted);
void uid_worker_put(struct uid_worker *w);

/* Closes a descriptor of the user there. */
void uid_worker_close(struct uid_worker *w, int fd);
/* Closes that wait or are under way: the user's, everybody's. */
unsigned uid_worker_closing(const struct uid_worker *w);
unsigned uid_workers_closing(const struct uid_workers *u);
