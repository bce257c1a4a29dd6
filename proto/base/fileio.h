/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files and whole ranges of them: the system calls may do less than was asked for, or be
 * interrupted. Any thread; they wait for the disk.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A whole file of at most max bytes, in memory of malloc(3) with a NUL behind it. Never waits for a
 * FIFO's writer. 0; -errno; -EFBIG; -EISDIR; with only_regular -EBADMSG for all but files. */
int etw_read_file(int dir, const char *path, size_t max, bool only_regular, char **ret,
                  size_t *ret_size);
/* Up to n bytes at offset: the number read, short at the end of the file; -errno. */
ssize_t etw_pread(int fd, void *buf, size_t n, uint64_t offset);
/* All of them. 0; -errno; -EIO: the file takes no more. */
int etw_pwrite(int fd, const void *data, size_t n, uint64_t offset);
