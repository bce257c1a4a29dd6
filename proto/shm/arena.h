/* SPDX-License-Identifier: Apache-2.0
 *
 * The memfds behind abi.h and stream.h: etwd makes, seals and fills them; a process maps what it is
 * given. No words of the protocol are read or written here.
 *
 * Order for an arena: etwd creates it and sends the descriptor; the process maps it and says so;
 * etwd seals it (from then on nobody can map it writable, cut it, or punch holes), maps it
 * read-only, and gives memory to ring after ring.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "abi.h"
#include "stream.h"

/* ---- etwd ---- */

/* Mode 0600; size sealed. */
int shm_arena_create(uint32_t ring_size, int *ret_fd);
/* The process has mapped it. Adds the last seals, gives memory to the words and counters. -EPROTO:
 * the process tampered with it (seals, size) before; the arena is not to be used. -ENOMEM. */
int shm_arena_seal(int fd, uint32_t ring_size);
/* A sealed arena, also one that an earlier etwd sealed (-EPROTO: it is none). */
int shm_arena_map_read(int fd, uint32_t ring_size, const struct shm_arena **ret);
/* Memory for ring `index`; also fills holes that were punched before the seal. -ENOMEM. */
int shm_arena_give_ring(int fd, uint32_t ring_size, uint32_t index);

/* Mode 0600, owner etwd, sealed in size. ret_client_fd is a read-only re-open for the process: who
 * is not etwd's uid (or root) cannot open it for writing. A later etwd maps ret_fd again. */
int shm_control_create(int *ret_fd, int *ret_client_fd);
/* The read-only re-open alone (of an area made earlier). */
int shm_control_reopen(int fd, int *ret_client_fd);
int shm_control_map_write(int fd, void **ret);

/* The areas of stream.h, for one consumer. ret_client_fd of the stream is a read-only re-open, as
 * for a control area (shm_control_reopen() makes another one, also of the buffers' memfd). */
int shm_stream_create(int *ret_fd, int *ret_client_fd);
int shm_stream_map_write(int fd, struct shm_stream **ret);
/* The consumer maps the returns writable and says so; then etwd seals them as an arena: -EPROTO
 * when they were tampered with, -ENOMEM. Also of returns that an earlier etwd sealed. */
int shm_returns_create(int *ret_fd);
int shm_returns_seal(int fd, const struct shm_returns **ret);

/* ---- process ---- */

/* Of a consumer; not inherited by children. -EPROTO: it is not what etwd makes. */
int shm_stream_map(int fd, const struct shm_stream **ret);
int shm_returns_map(int fd, struct shm_returns **ret);

/* Read-write, not inherited by children. The descriptor may be closed afterwards. -EPROTO: it is
 * not what etwd makes. */
int shm_arena_map(int fd, uint32_t ring_size, struct shm_arena **ret);
/* Read-only. Inherited by children: enable words are read without asking who one is. */
int shm_control_map(int fd, const void **ret);

/* What a descriptor refers to, to tell whether the program closed it and its number names something
 * else now. */
struct shm_identity {
    dev_t dev;
    ino_t ino;
};
int shm_identity_get(int fd, struct shm_identity *ret);
bool shm_identity_is(int fd, const struct shm_identity *id);

/* ---- both ---- */

/* NULL is fine. */
void shm_arena_unmap(const struct shm_arena *arena, uint32_t ring_size);
void shm_control_unmap(const void *control);
void shm_stream_unmap(const struct shm_stream *stream);
void shm_returns_unmap(const struct shm_returns *returns);
