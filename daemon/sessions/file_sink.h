/* SPDX-License-Identifier: Apache-2.0
 *
 * Full buffers into the log file. Loop thread only; truncation and fsync run on the worker.
 *
 * Invariants:
 *  - the file is the first buffer, then whole buffers without a gap up to its end; behind that at
 *    most what a write under way has put there. In a circular file that has its size, writes go to
 *    the places of the oldest buffers, see slots.h;
 *  - a buffer that could not be written is lost alone: those after it move down to its place;
 *  - the header in the file never names more buffers than are there;
 *  - of a session that is handed on nothing is written that a successor would not write again, in
 *    the same place: what was put waits for the commit, and is settled in a transaction after the
 *    write.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "etl/build.h"

struct etw_conf;
struct file_sink;
struct loop;
struct session;
struct worker;

typedef void (*file_sink_fn)(int result, void *userdata);

/* Takes fd over, also when it fails. Writes nothing before file_sink_open(). syncer: the worker for
 * the fsync at the end, which may take as long as the disk likes. */
int file_sink_new(struct loop *l, struct worker *w, struct worker *syncer, struct session *s,
                  int fd, struct file_sink **ret);
/* Before the first buffer: `bytes` is the most that the file takes, for circular and preallocated
 * ones. -ENOMEM; -EBADMSG: no circular file can have it. */
int file_sink_shape(struct file_sink *f, uint64_t bytes);
/* What has been put until now is not overwritten, unless it is too much. */
void file_sink_keep_start(struct file_sink *f);
/* This worker writes, instead of the loop's ring. */
void file_sink_write_by(struct file_sink *f, struct worker *w);
/* Before the first buffer: how long what is written stays in the page cache, and when it is on the
 * disk at the latest; see behind.h. */
int file_sink_write_behind(struct file_sink *f, const struct etw_conf *conf);
/* No write and no job may be under way: after file_sink_close(), or before file_sink_open(). */
struct file_sink *file_sink_free(struct file_sink *f);

/* Empties the file and writes the first buffer; with direct, past the page cache where file system
 * and alignment allow. Then buffers that were put meanwhile go out. */
int file_sink_open(struct file_sink *f, const struct etl_logfile_params *p, bool direct,
                   file_sink_fn fn, void *userdata);

/* In place of it: goes on behind what is in the file, whose totals the header keeps counting from.
 * The session's buffers are of the file's size. */
struct etl_append;
int file_sink_open_append(struct file_sink *f, const struct etl_append *a, bool direct,
                          file_sink_fn fn, void *userdata);

/* Goes on in another file, which begins anew: what has been put until now is the last of the
 * present one, which gets its final header and is closed. fd is taken over on success. fn: 0 and
 * the sink writes to the new file; -errno and it goes on in the old one, fd is closed. -EBUSY: one
 * is under way. Inside fn file_sink_fd() is the new one. */
int file_sink_turn(struct file_sink *f, int fd, const struct etl_logfile_params *p, file_sink_fn fn,
                   void *userdata);

/* A closed buffer of the session, to be written after those put before. */
void file_sink_put(struct file_sink *f, uint32_t index);

/* Calls fn once all that has been put is in the file or lost, and the header says so. */
int file_sink_sync(struct file_sink *f, file_sink_fn fn, void *userdata);

/* The last: waits for all writes, writes the final header, brings it to the disk, closes. */
int file_sink_close(struct file_sink *f, file_sink_fn fn, void *userdata);

/* Whether the last write failed: the disk is full or broken. 0 or -errno. */
int file_sink_trouble(const struct file_sink *f);

/* ---- handing on ---- */

/* Goes on with what a commit has released. */
void file_sink_released(struct file_sink *f);
int file_sink_fd(const struct file_sink *f);
struct file_sink_position {
    uint64_t committed; /* bytes that have been written for good */
    uint64_t ticket;    /* the last one given */
    uint64_t kept;      /* buffers of a circular file that stay */
};
void file_sink_position(const struct file_sink *f, struct file_sink_position *ret);
/* The events in each place of a circular file; NULL and 0: it is not one. */
const uint32_t *file_sink_slots(const struct file_sink *f, uint64_t *ret_n);
/* The first FILE_SINK_HEADER bytes of the file, once it is open. */
#define FILE_SINK_HEADER 4096u
const void *file_sink_header(const struct file_sink *f);
/* In place of file_sink_open(): goes on where a predecessor was, with the session's buffers that
 * have tickets, once released. slots: as many as file_sink_slots() says. -EBADMSG: it does not hold
 * together. */
int file_sink_resume(struct file_sink *f, const struct file_sink_position *p, const uint32_t *slots,
                     const void *header);
