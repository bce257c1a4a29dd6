/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of executable files: load span and build-id, from etwd-image, cached by (dev,
 * inode, change time). Loop thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "image/protocol.h"

struct loop;
struct images;

struct image_key {
    uint32_t dev_major;
    uint32_t dev_minor;
    uint64_t inode;
    uint64_t change_time_ns; /* of the inode, as the probe saw it */
};

struct image_identity {
    bool known; /* false: no data, timed out, or no helper */
    uint64_t first_vaddr;
    uint64_t span;
    uint64_t exec_vaddr;
    uint64_t exec_offset;
    uint32_t build_id_size;
    uint8_t build_id[IMAGE_BUILD_ID_MAX];
};

/* image_fd: etwd's end of the socket to etwd-image, taken over on success; -1: there is none. */
int images_new(struct loop *l, const struct etw_conf *conf, int image_fd, struct images **ret);
struct images *images_free(struct images *i); /* waiting look-ups are answered with known = false */

/* Whether the helper is there. */
bool images_available(const struct images *i);

/* Called once for a look-up that was not answered at once; known is false after ImageTimeoutMs. May
 * look up more, may not free `i`. */
typedef void (*images_done_fn)(const struct image_identity *id, void *userdata);

/* 1 and *ret when the cache holds it (or no helper is there, or too much waits for it: known
 * false); 0 when asked: done comes later, never from inside this call; -ENOMEM. Many waiters for
 * one key ask the helper once. start, end: the executable mapping; path as the probe saw it, may be
 * NULL. pid: in etwd's pid namespace; 0 when the process is not to be asked. */
int images_lookup(struct images *i, const struct image_key *key, int pid, uint64_t start,
                  uint64_t end, const char *path, images_done_fn done, void *userdata,
                  struct image_identity *ret);

/* Base and size of the image whose executable mapping starts at `start` with file offset `offset`.
 * An unknown identity, or one that does not fit the mapping (the file is hostile), gives base start
 * - offset and size up to `end`. */
void image_place(const struct image_identity *id, uint64_t start, uint64_t end, uint64_t offset,
                 uint64_t *ret_base, uint64_t *ret_size);
