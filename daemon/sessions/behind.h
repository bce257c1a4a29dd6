/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a log file's pages once they are written: a collector that runs for a month must
 * neither push out of memory what programs need there, nor leave it all to a power failure. The
 * newest bytes stay in the page cache, older ones go to the disk and are dropped; and what is
 * written is on the disk some seconds later. Loop thread; the calls that wait for the disk run on
 * the file's syncer.
 */
#pragma once

#include <stdint.h>

struct behind;
struct loop;
struct worker;

/* cache: bytes that stay, 0: all of them. interval_ns: written bytes are on the disk after at most
 * this (and what the disk takes); 0: when the kernel likes. fd: stays the caller's, which closes it
 * on the same worker. */
int behind_new(struct loop *l, struct worker *syncer, int fd, uint64_t cache, uint64_t interval_ns,
               struct behind **ret);
/* The descriptor must stay open until the syncer has done what was submitted before. */
struct behind *behind_free(struct behind *b);

/* These bytes are in the file now. */
void behind_wrote(struct behind *b, uint64_t offset, uint64_t size);
/* Nothing is to be waited for any more: the file's own fsync comes. */
void behind_end(struct behind *b);

/* For tests: ranges dropped, and fdatasync calls, so far. */
uint64_t behind_dropped(const struct behind *b);
uint64_t behind_synced(const struct behind *b);
