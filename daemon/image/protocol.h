/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between etwd and etwd-image's broker, and between broker and worker: fixed structs on
 * SOCK_SEQPACKET socketpairs, one a packet. etwd and the worker trust each other's bytes no more
 * than a client's: sizes and ranges are checked on a private copy.
 */
#pragma once

#include <stdint.h>

#define IMAGE_PROTOCOL 1
#define IMAGE_BUILD_ID_MAX 64
#define IMAGE_PATH_MAX 4096

/* etwd -> broker, with a pidfd when one could be had. The broker opens the file mapped at
 * [start, end) of that process, else its exe, else (process gone) `path` without following
 * symlinks; it compares dev and inode and hands the descriptor on; it parses nothing. */
struct image_request {
    uint32_t protocol;
    uint32_t path_size; /* bytes of path that follow, without NUL; 0: none */
    uint64_t id;
    uint64_t start;
    uint64_t end;
    uint64_t dev_major;
    uint64_t dev_minor;
    uint64_t inode;
    int32_t pid; /* in etwd's pid namespace */
    uint32_t has_pidfd;
    char path[];
};

/* worker -> etwd (the broker passes it on). status 0 or -errno; -errno: no data for this image. */
struct image_reply {
    uint32_t protocol;
    int32_t status;
    uint64_t id;
    uint64_t first_vaddr; /* address of the lowest PT_LOAD, page aligned down */
    uint64_t span;        /* page-aligned span of all PT_LOAD */
    uint64_t exec_vaddr;  /* p_vaddr and p_offset of the executable PT_LOAD, to turn a mapping's */
    uint64_t exec_offset; /* start and offset into the image base */
    uint64_t change_time_ns; /* st_ctim of the file */
    uint32_t build_id_size;
    uint8_t build_id[IMAGE_BUILD_ID_MAX];
    uint32_t reserved;
};
_Static_assert(sizeof(struct image_reply) == 128, "image_reply");

/* broker -> worker, with the file's descriptor. The broker puts the id and the change time of the
 * request into the reply itself: the worker, which meets hostile bytes, is not asked for them. */
struct image_task {
    uint32_t protocol;
    uint32_t reserved;
    uint64_t id;
    uint64_t size; /* of the file, in bytes */
};
_Static_assert(sizeof(struct image_task) == 24, "image_task");
