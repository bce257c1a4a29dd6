/* SPDX-License-Identifier: Apache-2.0
 *
 * An .etl file as a sequence of buffers, read with pread(2): never mapped, since a file cut short
 * under a mapping kills its reader. Hostile-safe. One thread at a time.
 */
#pragma once

#include "iterate.h"

struct etl_file;

/* What one pass over the buffer headers leaves: 32 bytes a buffer, in file order. */
struct etl_buffer_ref {
    uint64_t offset;     /* in the file */
    uint64_t first_time; /* raw stamp of the first event that has one; UINT64_MAX: none */
    int64_t sequence_number;
    uint32_t size; /* bytes in the file */
    uint16_t processor;
    uint16_t flags; /* enum etl_buffer_flags */
};
_Static_assert(sizeof(struct etl_buffer_ref) == 32, "32 bytes of memory a buffer");

/* Opens by descriptor (dup'ed, O_RDONLY suffices) and reads the first buffer and its header event.
 * 0; -EBADMSG: not an .etl file; -ENODATA: shorter than a header; -errno of read.
 * The object owns everything ret functions point to. */
int etl_file_open_fd(int fd, struct etl_file **ret);
struct etl_file *etl_file_free(struct etl_file *f);

const struct etl_logfile *etl_file_header(const struct etl_file *f);
uint64_t etl_file_size(const struct etl_file *f);

/* The pass over buffer headers; at most once, later calls return the same. Stops at what is not a
 * buffer; one that has only its size right is stepped over; buffers of types that hold no events
 * are left out. *ret_truncated: something was damaged or missing: the last buffer reaches past the
 * end of the file, a buffer header or the rest of the file is garbage. */
int etl_file_index(struct etl_file *f, const struct etl_buffer_ref **ret_refs, size_t *ret_count,
                   bool *ret_truncated);

/* The same, put in the order of first_time (equal ones: sequence number, then offset), in place:
 * the order stays for later calls of either. For readers that merge by time. */
int etl_file_index_by_time(struct etl_file *f, const struct etl_buffer_ref **ret_refs,
                           size_t *ret_count, bool *ret_truncated);

/* Reads one buffer into memory of at least etl_file_buffer_bytes() (after the index): uncompressed,
 * ready for etl_iter_init(buf, *ret_len, info.end). *ret_len below info.end: the buffer is cut
 * short, or its compressed form is damaged; what is there is good. 0; -EBADMSG: the header is not
 * good (any more); -ENOBUFS; -errno. */
size_t etl_file_buffer_bytes(const struct etl_file *f);
int etl_file_read_buffer(struct etl_file *f, const struct etl_buffer_ref *ref, void *buf,
                         size_t size, struct etl_buffer_info *ret_info, size_t *ret_len);
