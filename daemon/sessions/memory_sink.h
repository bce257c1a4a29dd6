/* SPDX-License-Identifier: Apache-2.0
 *
 * Full buffers of a session in buffering mode: they stay in memory, the newest of them, and a
 * snapshot writes all that is there into a file. Loop thread only; files on workers.
 *
 * Invariants:
 *  - what is here and what is being filled are together at most the session's MinimumBuffers,
 *    settled at each commit; the oldest go, counted as overwritten;
 *  - a buffer that goes is taken again only after that commit, so that a successor which undoes a
 *    pass finds the bytes that it goes back to; meanwhile there are spare ones;
 *  - buffers of a snapshot under way are lent to it: they neither go nor count. Of those that are
 *    being filled it writes the bytes that were there when it began, which nobody changes.
 */
#pragma once

#include <stdint.h>

#include "etl/build.h"

struct memory_sink;
struct session;
struct uid_worker;

/* So many buffers have to exist for `minimum` that count. */
uint32_t memory_sink_buffers(uint32_t minimum, uint32_t buffer_bytes);

int memory_sink_new(struct session *s, struct memory_sink **ret);
/* No snapshot may be under way. */
struct memory_sink *memory_sink_free(struct memory_sink *m);

/* A closed buffer of the session. */
void memory_sink_put(struct memory_sink *m, uint32_t index);
/* Lets the oldest go: when the transaction is about to be committed; of a session that nobody takes
 * over also when a buffer was taken, since nobody goes back to what was in it. */
void memory_sink_trim(struct memory_sink *m);
/* Calls fn when no snapshot is under way any more; not before it returns. */
void memory_sink_idle(struct memory_sink *m, void (*fn)(int result, void *userdata),
                      void *userdata);

/* ---- snapshots ---- */

/* fn once it is in the file, and the file closed: 0 or -errno. */
typedef void (*memory_sink_fn)(int result, void *userdata);

/* Writes a file of all that is there: p describes it, but for what the session knows. Takes fd
 * over; a file that could not be written is empty. Not while memory_sink_busy(). */
int memory_sink_snapshot(struct memory_sink *m, struct uid_worker *w, int fd,
                         const struct etl_logfile_params *p, memory_sink_fn fn, void *userdata);
bool memory_sink_busy(const struct memory_sink *m);

/* ---- handing on ---- */

/* The last ticket given. */
uint64_t memory_sink_ticket(const struct memory_sink *m);
/* Goes on with the session's buffers that have tickets. -EBADMSG. */
int memory_sink_resume(struct memory_sink *m, uint64_t ticket);
