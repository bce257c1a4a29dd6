/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker of etwd-image: the process that reads hostile files. It has no capability, may make a
 * handful of system calls (none that opens, maps or creates anything), gets one descriptor a task
 * over its socket and gives one reply. Called by the broker in the child it has just forked.
 */
#pragma once

/* Exit status of a worker that could not give up its rights: another one cannot either. */
#define IMAGE_WORKER_EXIT_UNSAFE 3

/* Locks itself in and serves tasks from `sock` until it closes. Never returns. */
__attribute__((noreturn)) void image_worker_run(int sock);
