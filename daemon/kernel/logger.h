/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel logger: BPF programs for the union of the sessions' group masks, one BPF ring a CPU as
 * router sources, rundown, images, and the finishing of raw records. Loop thread only; loading BPF
 * and walking /proc happen on the worker.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "router/router.h"

struct worker;
struct kernel_logger;
struct session;
struct state;

/* Probes what this kernel allows; never loads a program yet. image_fd: socketpair to the
 * etwd-image broker, -1 for none (taken over). cpus: possible CPUs. */
int kernel_logger_new(struct loop *l, struct worker *w, struct router *r, struct state *st,
                      const struct etw_conf *conf, unsigned cpus, int image_fd,
                      struct kernel_logger **ret);
/* The worker must have ended (worker_free), or have no job of ours: no operation under way. */
struct kernel_logger *kernel_logger_free(struct kernel_logger *k);

/* Goes on with what a predecessor traced; find() knows its sessions. What cannot be had is told of,
 * and is not traced any more. Before the loop runs. */
void kernel_logger_takeover(struct kernel_logger *k,
                            struct session *(*find)(void *userdata, uint64_t handle),
                            void *userdata);
/* Whether it has s. */
bool kernel_logger_traces(struct kernel_logger *k, struct session *s);

/* Whether kernel events can be had, or why not (static text). */
bool kernel_logger_available(const struct kernel_logger *k, const char **ret_why);
unsigned kernel_logger_programs(const struct kernel_logger *k);

/* Begins tracing into s: router_add_session, programs for flags, start rundown. done gets 0 or
 * -errno once every probe is attached: what happens after that moment is in the trace. The rundown
 * is written from then on, as fast as the session has free buffers: its file should begin now.
 * Several sessions may be traced at once. */
typedef void (*kernel_done_fn)(int result, void *userdata);
int kernel_logger_start(struct kernel_logger *k, struct session *s, const uint32_t masks[8],
                        bool sysconfig, kernel_done_fn done, void *userdata);
/* Changes the masks of a traced session (UPDATE: EnableFlags). */
int kernel_logger_update(struct kernel_logger *k, struct session *s, const uint32_t masks[8],
                         kernel_done_fn done, void *userdata);
/* Ends it: detaches what nobody else wants, drains to this moment, writes the end rundown,
 * router_remove_session. After done the session holds its last event. */
int kernel_logger_stop(struct kernel_logger *k, struct session *s, kernel_done_fn done,
                       void *userdata);
/* Reads the probes' loss counters into the sessions' (before statistics are shown). */
void kernel_logger_sync_losses(struct kernel_logger *k);
