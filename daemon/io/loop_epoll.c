/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop where io_uring is refused (kernel.io_uring_disabled, seccomp in containers): epoll
 * with one-shot descriptors, and writes by a writer thread. Not an interface: loop.c calls it. Loop
 * thread.
 */
#include "loop_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker.h"

struct poller {
    int fd;
    struct worker *writer; /* made at the first write */
    struct loop_watch *dead;
};

_Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLERR == EPOLLERR &&
                   POLLHUP == EPOLLHUP,
               "poll's bits are epoll's");

static inline struct poller *data_of(struct loop *l)
{
    return l->backend_data;
}

static int epoll_open(struct loop *l)
{
    struct poller *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    e->fd = epoll_create1(EPOLL_CLOEXEC);
    if (e->fd < 0) {
        int r = -errno;
        free(e);
        return r;
    }
    l->backend_data = e;
    return 0;
}

static void dead_free(struct poller *e)
{
    while (e->dead) {
        struct loop_watch *w = e->dead;
        e->dead = w->next_dead;
        loop_watch_gone(w);
    }
}

static void epoll_close(struct loop *l)
{
    struct poller *e = data_of(l);
    e->writer = worker_free(e->writer);
    dead_free(e);
    (void) safe_close(e->fd);
    free(e);
    l->backend_data = NULL;
}

static int epoll_watch_arm(struct loop_watch *w)
{
    struct poller *e = data_of(w->loop);
    struct epoll_event ev = {.events = w->events | EPOLLONESHOT, .data.ptr = w};
    if (epoll_ctl(e->fd, EPOLL_CTL_MOD, w->fd, &ev) == 0)
        return 0;
    if (errno != ENOENT)
        return -errno;
    return epoll_ctl(e->fd, EPOLL_CTL_ADD, w->fd, &ev) < 0 ? -errno : 0;
}

static bool epoll_watch_cancel(struct loop_watch *w)
{
    struct poller *e = data_of(w->loop);
    (void) epoll_ctl(e->fd, EPOLL_CTL_DEL, w->fd, NULL);
    /* An event of the batch in work may name it: it goes after the batch. */
    w->next_dead = e->dead;
    e->dead = w;
    return false;
}

static int epoll_write_start(struct loop_write_op *op)
{
    struct poller *e = data_of(op->loop);
    int r;

    if (!e->writer) {
        r = worker_new(op->loop, "etwd-write", &e->writer);
        if (r < 0)
            return r;
    }
    return loop_write_submit(e->writer, op);
}

static int epoll_range_register(struct loop *l, void *data, size_t size, int index)
{
    return -EOPNOTSUPP; /* plain writes */
}

static void epoll_range_unregister(struct loop *l, int index)
{
}

static int epoll_wait_once(struct loop *l, uint64_t timeout_ns)
{
    struct poller *e = data_of(l);
    struct epoll_event ev[64];
    int ms = -1;
    if (timeout_ns != UINT64_MAX) {
        uint64_t v = (timeout_ns + 999999u) / 1000000u; /* up: not before the timer is due */
        ms = v > INT_MAX ? INT_MAX : (int) v;
    }
    int n = epoll_wait(e->fd, ev, (int) ARRAY_SIZE(ev), ms);
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    for (int i = 0; i < n; i++) {
        struct loop_watch *w = ev[i].data.ptr;
        if (!w->dead)
            loop_watch_ready(w, ev[i].events);
    }
    dead_free(e);
    return 0;
}

const struct loop_backend loop_backend_epoll = {
    .name = "epoll",
    .open = epoll_open,
    .close = epoll_close,
    .wait = epoll_wait_once,
    .watch_arm = epoll_watch_arm,
    .watch_cancel = epoll_watch_cancel,
    .write_start = epoll_write_start,
    .range_register = epoll_range_register,
    .range_unregister = epoll_range_unregister,
};
