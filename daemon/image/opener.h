/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and opens the file that a process has mapped: the part of etwd-image that needs rights. It
 * reads nothing of the file and never waits for a network or FUSE server: what is not on a local
 * file system is refused before it is opened. The broker's thread only.
 */
#pragma once

#include <stdint.h>

#include "image/protocol.h"

struct opener;

struct opened_image {
    uint64_t size;
    uint64_t change_time_ns;
};

int opener_new(struct opener **ret);
struct opener *opener_free(struct opener *o);

/* Opens what `req` names; path: NUL-terminated, NULL for none; pidfd: -1 for none. A descriptor
 * open for reading; -ENOENT: neither way leads to that file (the process is gone or maps something
 * else); -EOPNOTSUPP: not a regular file of a local file system; other -errno. */
int opener_open(struct opener *o, const struct image_request *req, const char *path, int pidfd,
                int *ret_fd, struct opened_image *ret_image);
