/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts etwd-image. Called once by etwd's main() before it gives up root and before it has
 * threads.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Whether a program that is executed now has some of the rights that etwd-image is about, without
 * being root: they are ambient (a service manager's AmbientCapabilities=). */
bool image_helper_inherits(void);

/* Starts the program at `path` with uid and gid ((uid_t) -1: as it is) and one end of a socketpair.
 * *ret_fd is the other: closing it ends the helper. *ret_pid is its process, to be waited for.
 * -errno when it cannot be executed. */
int image_helper_spawn(const char *path, uid_t uid, gid_t gid, int *ret_fd, pid_t *ret_pid);
