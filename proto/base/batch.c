/* SPDX-License-Identifier: Apache-2.0
 *
 * The three system calls of io_uring, without a library: a round fills the submission ring, enters
 * the kernel once and reaps all completions, so nothing is ever under way between two calls. One
 * thread at a time.
 *
 * Should the kernel not give all completions back (nobody knows a reason), the memory that they may
 * still write to is never freed.
 */
#include "batch.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"

struct etw_batch {
    int fd;
    void *rings; /* both, in one mapping */
    size_t rings_size;
    struct io_uring_sqe *sqes;
    size_t sqes_size;
    uint32_t *sq_tail;
    uint32_t sq_mask;
    uint32_t *sq_array;
    uint32_t *cq_head;
    uint32_t *cq_tail;
    uint32_t cq_mask;
    const struct io_uring_cqe *cqes;
    bool lost; /* completions are missing */
    int32_t results[ETW_BATCH_READS];
    uint8_t bytes[ETW_BATCH_READS][ETW_BATCH_BYTES];
};

static int map_rings(struct etw_batch *b, const struct io_uring_params *p)
{
    size_t sq = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
    size_t cq = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    uint8_t *ring;

    b->rings_size = sq > cq ? sq : cq;
    b->rings = mmap(NULL, b->rings_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, b->fd,
                    IORING_OFF_SQ_RING);
    if (b->rings == MAP_FAILED) {
        b->rings = NULL;
        return -errno;
    }
    b->sqes_size = p->sq_entries * sizeof(struct io_uring_sqe);
    b->sqes = mmap(NULL, b->sqes_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, b->fd,
                   IORING_OFF_SQES);
    if (b->sqes == MAP_FAILED) {
        b->sqes = NULL;
        return -errno;
    }
    ring = b->rings;
    b->sq_tail = (uint32_t *) (ring + p->sq_off.tail);
    b->sq_mask = *(uint32_t *) (ring + p->sq_off.ring_mask);
    b->sq_array = (uint32_t *) (ring + p->sq_off.array);
    b->cq_head = (uint32_t *) (ring + p->cq_off.head);
    b->cq_tail = (uint32_t *) (ring + p->cq_off.tail);
    b->cq_mask = *(uint32_t *) (ring + p->cq_off.ring_mask);
    b->cqes = (const struct io_uring_cqe *) (ring + p->cq_off.cqes);
    return 0;
}

int etw_batch_new(struct etw_batch **ret)
{
    struct io_uring_params p = {0};
    struct etw_batch *b;
    int r;

    b = calloc(1, sizeof(*b));
    if (!b)
        return -ENOMEM;
    b->fd = (int) syscall(SYS_io_uring_setup, ETW_BATCH_READS, &p);
    r = b->fd < 0 ? -errno : 0;
    if (r == 0 && !(p.features & IORING_FEAT_SINGLE_MMAP))
        r = -EOPNOTSUPP;
    if (r == 0)
        r = map_rings(b, &p);
    if (r < 0) {
        (void) etw_batch_free(b);
        return r;
    }
    *ret = b;
    return 0;
}

struct etw_batch *etw_batch_free(struct etw_batch *b)
{
    if (!b)
        return NULL;
    if (b->rings)
        (void) munmap(b->rings, b->rings_size);
    if (b->sqes)
        (void) munmap(b->sqes, b->sqes_size);
    (void) safe_close(b->fd);
    if (!b->lost)
        free(b);
    return NULL;
}

static unsigned reap(struct etw_batch *b, unsigned n)
{
    uint32_t head = *b->cq_head;
    uint32_t tail = __atomic_load_n(b->cq_tail, __ATOMIC_ACQUIRE);
    unsigned count = 0;

    for (; head != tail; head++, count++) {
        const struct io_uring_cqe *cqe = &b->cqes[head & b->cq_mask];

        if (cqe->user_data < n)
            b->results[cqe->user_data] = cqe->res;
    }
    __atomic_store_n(b->cq_head, head, __ATOMIC_RELEASE);
    return count;
}

int etw_batch_read(struct etw_batch *b, int fd, uint64_t offset, uint64_t stride, unsigned n,
                   unsigned size)
{
    uint32_t tail = *b->sq_tail;
    unsigned submitted = 0;
    unsigned completed = 0;

    if (n > ETW_BATCH_READS || size > ETW_BATCH_BYTES)
        return -EINVAL;
    if (b->lost)
        return -EIO;
    for (unsigned i = 0; i < n; i++) {
        uint32_t at = (tail + i) & b->sq_mask;

        b->sqes[at] = (struct io_uring_sqe){
            .opcode = IORING_OP_READ,
            .fd = fd,
            .off = offset + i * stride,
            .addr = (uintptr_t) b->bytes[i],
            .len = size,
            .user_data = i,
        };
        b->sq_array[at] = at;
        b->results[i] = -EIO;
    }
    __atomic_store_n(b->sq_tail, tail + n, __ATOMIC_RELEASE);
    while (completed < n) {
        long r = syscall(SYS_io_uring_enter, b->fd, n - submitted, n - completed,
                         IORING_ENTER_GETEVENTS, NULL, 0);

        if (r < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY) {
            b->lost = true;
            return -errno;
        }
        if (r > 0)
            submitted += (unsigned) r;
        completed += reap(b, n);
    }
    return 0;
}

const uint8_t *etw_batch_get(const struct etw_batch *b, unsigned i, ssize_t *ret_size)
{
    *ret_size = b->results[i];
    return b->bytes[i];
}
