/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop on io_uring: one-shot polls, writes from fixed buffers, one io_uring_enter() per
 * turn. Not an interface: loop.c calls it. Loop thread only (the ring has a single issuer).
 *
 * A completion's user_data is the object's address with its kind in the low bits; 0 is a
 * cancellation's own completion, which nobody waits for.
 */
#include "loop_internal.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/log.h"

#define TAG_WATCH 1u
#define TAG_WRITE 2u
#define TAG_MASK 7u

struct uring {
    struct io_uring ring;
    bool fixed; /* the table of fixed buffers is there */
};

static inline struct uring *uring_of(struct loop *l)
{
    return l->backend_data;
}

static int uring_open(struct loop *l)
{
    int r;

    struct uring *u = calloc(1, sizeof(*u));
    if (!u)
        return -ENOMEM;
    /* Newest first: a kernel that does not know a flag answers EINVAL. */
    static const unsigned flags[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN,
        IORING_SETUP_COOP_TASKRUN,
        0,
    };
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        struct io_uring_params p = {
            .flags = flags[i] | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
            .cq_entries = ETWD_URING_ENTRIES * 8,
        };
        r = io_uring_queue_init_params(ETWD_URING_ENTRIES, &u->ring, &p);
        if (r >= 0 && !(p.features & IORING_FEAT_EXT_ARG)) {
            io_uring_queue_exit(&u->ring);
            r = -EOPNOTSUPP; /* timers are time-outs of the wait */
        }
        if (r != -EINVAL)
            break;
    }
    if (r < 0) {
        free(u);
        return r;
    }
    (void) io_uring_ring_dontfork(&u->ring);

    /* Writes to a file whose file system blocks must not breed threads without end. */
    unsigned workers[2] = {ETWD_URING_WORKERS, ETWD_URING_WORKERS};
    (void) io_uring_register_iowq_max_workers(&u->ring, workers);
    u->fixed = io_uring_register_buffers_sparse(&u->ring, LOOP_RANGES_MAX) == 0;
    l->backend_data = u;
    return 0;
}

static void uring_close(struct loop *l)
{
    struct uring *u = uring_of(l);
    io_uring_queue_exit(&u->ring);
    free(u);
    l->backend_data = NULL;
}

/* Room for one request; submits when the queue is full. */
static struct io_uring_sqe *uring_sqe(struct uring *u)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    for (int i = 0; !sqe && i < 16; i++) {
        (void) io_uring_submit(&u->ring);
        sqe = io_uring_get_sqe(&u->ring);
    }
    return sqe;
}

static int uring_watch_arm(struct loop_watch *w)
{
    struct io_uring_sqe *sqe = uring_sqe(uring_of(w->loop));
    if (!sqe)
        return -EBUSY;
    io_uring_prep_poll_add(sqe, w->fd, w->events);
    io_uring_sqe_set_data64(sqe, (uintptr_t) w | TAG_WATCH);
    return 0;
}

static bool uring_watch_cancel(struct loop_watch *w)
{
    struct io_uring_sqe *sqe = uring_sqe(uring_of(w->loop));
    if (sqe) {
        io_uring_prep_poll_remove(sqe, (uintptr_t) w | TAG_WATCH);
        io_uring_sqe_set_data64(sqe, 0);
    }
    /* Without room the poll stays until the descriptor is ready or the ring closes. */
    return false;
}

static int uring_write_start(struct loop_write_op *op)
{
    struct uring *u = uring_of(op->loop);
    struct io_uring_sqe *sqe = uring_sqe(u);
    if (!sqe)
        return -EBUSY;
    unsigned len = op->len > 1u << 30 ? 1u << 30 : (unsigned) op->len;
    if (op->index >= 0)
        io_uring_prep_write_fixed(sqe, op->fd, op->data, len, op->offset, op->index);
    else
        io_uring_prep_write(sqe, op->fd, op->data, len, op->offset);
    io_uring_sqe_set_data64(sqe, (uintptr_t) op | TAG_WRITE);
    return 0;
}

static int uring_update_buffer(struct uring *u, int index, void *data, size_t size)
{
    struct iovec iov = {.iov_base = data, .iov_len = size};
    __u64 tag = 0;
    int r = io_uring_register_buffers_update_tag(&u->ring, (unsigned) index, &iov, &tag, 1);
    return r < 0 ? r : 0;
}

static int uring_range_register(struct loop *l, void *data, size_t size, int index)
{
    struct uring *u = uring_of(l);
    return u->fixed ? uring_update_buffer(u, index, data, size) : -EOPNOTSUPP;
}

static void uring_range_unregister(struct loop *l, int index)
{
    (void) uring_update_buffer(uring_of(l), index, NULL, 0);
}

static void uring_dispatch(struct loop *l, uint64_t data, int res)
{
    void *p = (void *) (uintptr_t) (data & ~(uint64_t) TAG_MASK);
    switch (data & TAG_MASK) {
    case TAG_WATCH: {
        struct loop_watch *w = p;
        if (w->dead) {
            loop_watch_gone(w);
            return;
        }
        /* A poll that could not be set up is told as an error of the descriptor. */
        loop_watch_ready(w, res < 0 ? POLLERR : (uint32_t) res);
        return;
    }
    case TAG_WRITE:
        loop_write_progress(p, res);
        return;
    default:
        return;
    }
}

static int uring_wait(struct loop *l, uint64_t timeout_ns)
{
    struct uring *u = uring_of(l);
    struct io_uring_cqe *cqe = NULL;
    int r;

    if (timeout_ns == UINT64_MAX)
        r = io_uring_submit_and_wait(&u->ring, 1);
    else if (timeout_ns == 0) /* not even a look at the scheduler */
        r = io_uring_submit_and_get_events(&u->ring);
    else {
        struct __kernel_timespec ts = {
            .tv_sec = (long long) (timeout_ns / 1000000000u),
            .tv_nsec = (long long) (timeout_ns % 1000000000u),
        };
        r = io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, &ts, NULL);
    }
    if (r < 0 && r != -EINTR && r != -ETIME && r != -EBUSY && r != -EAGAIN)
        return r;

    /* What a callback brings into the queue waits for the next turn: timers get theirs. */
    unsigned n = io_uring_cq_ready(&u->ring);
    while (n-- > 0 && io_uring_peek_cqe(&u->ring, &cqe) == 0) {
        uint64_t data = io_uring_cqe_get_data64(cqe);
        int res = cqe->res;
        io_uring_cqe_seen(&u->ring, cqe);
        uring_dispatch(l, data, res);
    }
    return 0;
}

const struct loop_backend loop_backend_uring = {
    .name = "io_uring",
    .open = uring_open,
    .close = uring_close,
    .wait = uring_wait,
    .watch_arm = uring_watch_arm,
    .watch_cancel = uring_watch_cancel,
    .write_start = uring_write_start,
    .range_register = uring_range_register,
    .range_unregister = uring_range_unregister,
};
