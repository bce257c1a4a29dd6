/* SPDX-License-Identifier: Apache-2.0
 *
 * Making the control socket at start, before privileges are dropped. Main thread.
 */
#pragma once

#include <stdbool.h>

struct control_socket {
    int fd;      /* listening */
    int lock_fd; /* held as long as this daemon lives; -1: the socket was handed over */
    char *path;  /* NULL: handed over */
};

/* A socket that was handed over (-1: none; taken over), else one at `path`, in a folder that is
 * made when it is missing. ours: the one handed over was made by a predecessor at `path`. owner:
 * whoever etwd will run as, so that it can remove the socket ((uid_t) -1: no change). -EADDRINUSE:
 * another etwd serves it. On an error *ret_why says what failed. */
int control_socket_open(const char *path, int handed_fd, bool ours, unsigned owner_uid,
                        unsigned owner_gid, struct control_socket *ret, const char **ret_why);
/* Closes and removes it. */
void control_socket_close(struct control_socket *s);
