/* SPDX-License-Identifier: Apache-2.0
 *
 * Many small reads of one file at the price of one system call, by io_uring. Where that is refused
 * (containers, kernel.io_uring_disabled) there is no batch, and the caller reads one by one. Not a
 * loop, not for writing. One thread at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads of one round: enough that the system call does not count, few enough to stay in the cache.
 */
#define ETW_BATCH_READS 256u
/* The most bytes of one read. */
#define ETW_BATCH_BYTES 128u

struct etw_batch;

/* 0, or -errno where there is no io_uring for us. */
int etw_batch_new(struct etw_batch **ret);
struct etw_batch *etw_batch_free(struct etw_batch *b);

/* Reads `size` (at most ETW_BATCH_BYTES) bytes at offset, offset + stride, ... : n of them, at most
 * ETW_BATCH_READS. 0, also when single reads failed; -errno: nothing is known of any. */
int etw_batch_read(struct etw_batch *b, int fd, uint64_t offset, uint64_t stride, unsigned n,
                   unsigned size);
/* The i-th read of the last round: its bytes, and how many they are or -errno. */
const uint8_t *etw_batch_get(const struct etw_batch *b, unsigned i, ssize_t *ret_size);
