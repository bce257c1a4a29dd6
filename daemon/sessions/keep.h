/* SPDX-License-Identifier: Apache-2.0
 *
 * What of sessions a successor gets: each has blocks of the state (itself, its buffers'
 * books, its sink, the places of a circular file) and two stored descriptors (buffers, log file).
 * Sessions are changed freely; what changed is brought into the blocks at the end of each
 * transaction, once a session, not an event. Not how sessions come and go (start.c, stop.c,
 * takeover.c). Loop thread only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct loop;
struct session;
struct session_keeper;
struct state;

int keeper_new(struct loop *l, struct state *st, struct session_keeper **ret);
struct session_keeper *keeper_free(struct session_keeper *k);

/* Before the log file is touched: its descriptor and the buffers' into the store. -EDQUOT. */
int keep_files(struct session_keeper *k, struct session *s);
/* The session runs: from now on a successor goes on with it. */
int keep_session(struct session_keeper *k, struct session *s);
/* The number of buffers grew. */
void keep_resize(struct session *s);
/* Its sink has another file, and it another name of it; inside a transaction. */
void keep_file(struct session *s);
/* The events in a place of its circular file changed; inside a transaction. */
void keep_slot(struct session *s, uint64_t place, uint32_t events);
/* Its end, or that of its start: nothing is left for a successor. */
void keep_end(struct session_keeper *k, struct session *s);

/* The session of a predecessor that these blocks describe, with its buffers. No workers, no sink,
 * not in a table yet. What cannot be had: -EBADMSG, -ENOENT, -ENOMEM. *ret_name: the caller's, NULL
 * when it is not known. */
int keep_load(struct session_keeper *k, uint64_t handle, const void *image, size_t size,
              unsigned cpus, struct session **ret, char **ret_name);
/* Its sink, once it has workers: it goes on. */
int keep_load_sink(struct session_keeper *k, struct session *s);
/* Nothing of it is left, whatever there was. */
void keep_drop(struct session_keeper *k, uint64_t handle);
