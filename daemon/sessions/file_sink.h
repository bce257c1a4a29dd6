/* SPDX-License-Identifier: Apache-2.0
 *
 * Full buffers into the log file. Loop thread only; truncation and fsync run on the worker.
 *
 * Invariants:
 *  - the file is the first buffer, then whole buffers without a gap up to `committed`; behind that
 *    at most what a write under way has put there;
 *  - a buffer that could not be written is lost alone: those after it move down to its place;
 *  - the header in the file never names more buffers than are there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "etl/build.h"

struct file_sink;
struct loop;
struct session;
struct worker;

typedef void (*file_sink_fn)(int result, void *userdata);

/* Takes fd over, also when it fails. Writes nothing before file_sink_open(). syncer: the worker for
 * the fsync at the end, which may take as long as the disk likes. */
int file_sink_new(struct loop *l, struct worker *w, struct worker *syncer, struct session *s,
                  int fd, struct file_sink **ret);
/* This worker writes, instead of the loop's ring. */
void file_sink_write_by(struct file_sink *f, struct worker *w);
/* No write and no job may be under way: after file_sink_close(), or before file_sink_open(). */
struct file_sink *file_sink_free(struct file_sink *f);

/* Empties the file and writes the first buffer; with direct, past the page cache where file system
 * and alignment allow. Then buffers that were put meanwhile go out. */
int file_sink_open(struct file_sink *f, const struct etl_logfile_params *p, bool direct,
                   file_sink_fn fn, void *userdata);

/* A closed buffer of the session, to be written after those put before. */
void file_sink_put(struct file_sink *f, uint32_t index);

/* Calls fn once all that has been put is in the file or lost, and the header says so. */
int file_sink_sync(struct file_sink *f, file_sink_fn fn, void *userdata);

/* The last: waits for all writes, writes the final header, brings it to the disk, closes. */
int file_sink_close(struct file_sink *f, file_sink_fn fn, void *userdata);

/* Whether the last write failed: the disk is full or broken. 0 or -errno. */
int file_sink_trouble(const struct file_sink *f);
