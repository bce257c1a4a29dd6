/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether buffers may be added to an .etl file that is there, and where. Hostile-safe: all is read
 * once into memory of ours and judged there. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ETL_APPEND_HEADER 4096u

struct etl_append {
    uint32_t buffer_size;
    uint64_t end;                      /* where the next buffer goes: a multiple of buffer_size */
    int64_t next_sequence;             /* above those that are there */
    uint8_t header[ETL_APPEND_HEADER]; /* the file's first bytes, as they were checked */
};

enum etl_append_fault {
    ETL_APPEND_OK,
    ETL_APPEND_DAMAGED,  /* no .etl file, or a damaged one */
    ETL_APPEND_MISMATCH, /* one of another kind than is to be added */
    ETL_APPEND_ERROR,    /* it cannot be read */
};

/* The first `len` bytes of a file (the whole first buffer, or what it has of 64 KiB): whether the
 * file is one of 64-bit layout, of system time, of this many processors, not circular, not
 * compressed. Fills all but end and next_sequence; *ret_why on faults. Pure. */
enum etl_append_fault etl_append_check(const void *data, size_t len, uint32_t processors,
                                       struct etl_append *ret, const char **ret_why);
/* The same of a file of `size` bytes, read through fd. */
enum etl_append_fault etl_append_look(int fd, uint64_t size, uint32_t processors,
                                      struct etl_append *ret, const char **ret_why);
