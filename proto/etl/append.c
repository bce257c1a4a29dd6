/* SPDX-License-Identifier: Apache-2.0
 *
 * See append.h.
 */
#include "append.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/cleanup.h"
#include "../base/clock.h"
#include "../base/fileio.h"
#include "../base/limits.h"
#include "iterate.h"

/* The header event stands first. */
#define FIRST_BYTES (ETL_BUFFER_HEADER_SIZE + ETW_EVENT_MAX)
/* Buffers looked at from the end: those without events of a session that was not closed, and those
 * that may have the highest sequence number, since buffers lie nearly in their order. */
#define TAIL_MAX 4096u

static enum etl_append_fault fault(enum etl_append_fault f, const char *why, const char **ret_why)
{
    *ret_why = why;
    return f;
}

enum etl_append_fault etl_append_check(const void *data, size_t len, uint32_t processors,
                                       struct etl_append *ret, const char **ret_why)
{
    const uint32_t fixed = sizeof(struct etl_system_header) + sizeof(struct etl_EventTrace_Header);
    struct etl_buffer_info info;
    struct etl_system_header sh;
    struct etl_logfile lf;
    struct etl_event e;
    struct etl_iter it;

    if (len < ETL_APPEND_HEADER || etl_buffer_parse(data, len, &info) < 0 ||
        info.type != ETL_BUFFER_HEADER || info.flags & ETL_BUFFER_COMPRESSED)
        return fault(ETL_APPEND_DAMAGED, "it does not begin with an .etl file's first buffer",
                     ret_why);
    etl_iter_init(&it, data, len, info.end);
    if (etl_iter_next(&it, &e) != 1 || etl_logfile_parse(&e, &lf) < 0)
        return fault(ETL_APPEND_DAMAGED, "it has no log-file header", ret_why);
    memcpy(&sh, (const uint8_t *) data + ETL_BUFFER_HEADER_SIZE, sizeof(sh));
    if (sh.header_type != ETL_SYSTEM64 || sh.size < fixed || lf.pointer_size != 8)
        return fault(ETL_APPEND_MISMATCH, "its header is not that of a 64-bit system", ret_why);
    if (info.size != lf.buffer_size || lf.buffer_size % 1024 != 0 ||
        lf.buffer_size < ETW_BUFFER_KB_MIN * 1024 || lf.buffer_size > ETW_BUFFER_KB_MAX * 1024)
        return fault(ETL_APPEND_DAMAGED, "its buffer size is not one that a session has", ret_why);
    if (lf.log_file_mode & (ETL_MODE_CIRCULAR | ETL_MODE_COMPRESSED | ETL_MODE_RELOG))
        return fault(ETL_APPEND_MISMATCH, "it is circular or compressed", ret_why);
    if (lf.clock_type != ETW_CLOCK_SYSTEM)
        return fault(ETL_APPEND_MISMATCH, "its clock is not the system time", ret_why);
    if (lf.processors != processors)
        return fault(ETL_APPEND_MISMATCH, "it is of a machine with another number of processors",
                     ret_why);
    *ret = (struct etl_append){.buffer_size = lf.buffer_size, .next_sequence = 1};
    memcpy(ret->header, data, sizeof(ret->header));
    return ETL_APPEND_OK;
}

/* -EBADMSG: there is no buffer of this size. */
static int head_read(int fd, uint64_t offset, uint32_t size, struct etl_buffer_info *ret)
{
    uint8_t head[ETL_BUFFER_HEADER_SIZE];
    ssize_t n = etw_pread(fd, head, sizeof(head), offset);

    if (n < 0)
        return (int) n;
    return etl_buffer_parse(head, (size_t) n, ret) == 0 && ret->size == size ? 0 : -EBADMSG;
}

enum etl_append_fault etl_append_look(int fd, uint64_t size, uint32_t processors,
                                      struct etl_append *ret, const char **ret_why)
{
    _cleanup_free_ uint8_t *first = malloc(FIRST_BYTES);
    struct etl_buffer_info info;
    struct etl_append a;
    uint64_t buffers;

    if (!first)
        return fault(ETL_APPEND_ERROR, "there is no memory to look at it", ret_why);
    ssize_t n = etw_pread(fd, first, FIRST_BYTES, 0);
    if (n < 0)
        return fault(ETL_APPEND_ERROR, strerror((int) -n), ret_why);
    enum etl_append_fault f = etl_append_check(first, (size_t) n, processors, &a, ret_why);
    if (f != ETL_APPEND_OK)
        return f;
    buffers = size / a.buffer_size;
    if (buffers == 0)
        return fault(ETL_APPEND_DAMAGED, "its first buffer is cut short", ret_why);
    /* What follows the last whole buffer, or is none, is what a session left that was not closed.
     */
    for (uint32_t i = 0; buffers > 1; i++) {
        int r = head_read(fd, (buffers - 1) * a.buffer_size, a.buffer_size, &info);
        if (r == 0)
            break;
        if (r != -EBADMSG)
            return fault(ETL_APPEND_ERROR, strerror(-r), ret_why);
        if (i == TAIL_MAX)
            return fault(ETL_APPEND_DAMAGED, "its end is damaged", ret_why);
        buffers--;
    }
    for (uint64_t i = 1; i < buffers && i <= TAIL_MAX; i++) {
        int r = head_read(fd, (buffers - i) * a.buffer_size, a.buffer_size, &info);
        if (r == 0 && info.sequence_number >= a.next_sequence &&
            info.sequence_number < INT64_MAX / 2)
            a.next_sequence = info.sequence_number + 1;
    }
    if (a.next_sequence < (int64_t) buffers)
        a.next_sequence = (int64_t) buffers;
    a.end = buffers * a.buffer_size;
    *ret = a;
    return ETL_APPEND_OK;
}
