/* SPDX-License-Identifier: Apache-2.0
 *
 * See state.h and internal.h: the memfd and its mapping, fresh or a predecessor's. Not what lies in
 * it (blocks.c, journal.c). Loop thread only.
 *
 * The memfd may not shrink. The mapping is one large reservation, so that blocks never move; memory
 * is taken with fallocate, so that a lack of it is an error code and not a SIGBUS.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/memfd.h"

int memory_get(struct state *st, uint64_t offset, uint64_t size)
{
    int r;
    do
        r = fallocate(st->fd, 0, (off_t) offset, (off_t) size);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -ENOMEM : 0;
}

static int memory_map(int fd, struct state **ret)
{
    struct state *st = calloc(1, sizeof(*st));
    if (!st)
        return -ENOMEM;
    st->fd = -1; /* the caller's until all is well */
    st->base = mmap(NULL, STATE_RESERVE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (st->base == MAP_FAILED) {
        int r = -errno;
        free(st);
        return r;
    }
    /* A child has no business with it, and a core file would be as large as the reservation. */
    (void) madvise(st->base, STATE_RESERVE, MADV_DONTFORK);
    (void) madvise(st->base, STATE_RESERVE, MADV_DONTDUMP);
    st->header = (struct state_header *) st->base;
    *ret = st;
    return 0;
}

int state_new(struct state **ret)
{
    struct state *st;
    int r;

    _cleanup_close_ int fd = etw_memfd("etwd-state", STATE_HEAP_OFFSET, F_SEAL_SHRINK);
    if (fd < 0)
        return fd;
    r = memory_map(fd, &st);
    if (r < 0)
        return r;
    st->fd = fd;
    r = memory_get(st, 0, STATE_JOURNAL_OFFSET);
    if (r == 0) {
        *st->header = (struct state_header){
            .version = STATE_VERSION,
            .header_size = sizeof(struct state_header),
            .heap_end = STATE_HEAP_OFFSET,
        };
        st->heap_room = STATE_HEAP_OFFSET;
        r = blocks_load(st);
    }
    if (r < 0) {
        st->fd = -1;
        state_free(st);
        return r;
    }
    order_stores();
    st->header->magic = STATE_MAGIC;
    (void) take_fd(&fd);
    *ret = st;
    return 0;
}

int state_load(int fd, struct state **ret)
{
    struct state *st;
    struct stat sb;
    int r;

    if (fstat(fd, &sb) < 0)
        return -errno;
    if (!S_ISREG(sb.st_mode) || sb.st_size < (off_t) STATE_HEAP_OFFSET ||
        (uint64_t) sb.st_size > STATE_RESERVE)
        return -EBADMSG;
    /* It is ours alone; whoever could cut it would kill us. */
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return -EBADMSG;
    r = memory_map(fd, &st);
    if (r < 0)
        return r;
    const struct state_header *h = st->header;
    if (h->magic != STATE_MAGIC)
        r = -EBADMSG;
    else if (h->version != STATE_VERSION || h->header_size != sizeof(*h))
        r = -EPROTONOSUPPORT;
    st->heap_room = (uint64_t) sb.st_size;
    if (r == 0)
        r = journal_undo(st);
    if (r == 0)
        r = blocks_load(st);
    if (r < 0) {
        state_free(st);
        return r;
    }
    st->fd = fd;
    *ret = st;
    return 0;
}

struct state *state_free(struct state *st)
{
    if (!st)
        return NULL;
    store_free(st->store);
    (void) munmap(st->base, STATE_RESERVE);
    (void) safe_close(st->fd);
    free(st->buckets);
    free(st);
    return NULL;
}

int state_fd(const struct state *st)
{
    return st->fd;
}
