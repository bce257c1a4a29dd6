/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop's own half: timers (a heap; the nearest one is the time-out of the back-end's
 * wait, so an idle loop makes no system call), deferred calls, watches and writes on top of a
 * back-end. Not the back-ends themselves (loop_uring.c, loop_epoll.c). Loop thread only.
 */
#include "loop_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "worker.h"

struct loop_timer {
    struct loop *loop;
    loop_timer_fn fn;
    void *userdata;
    uint64_t when;
    size_t index; /* in the heap; SIZE_MAX: not armed */
};

struct loop_deferred {
    void (*fn)(void *userdata);
    void *userdata;
    struct loop_deferred *next;
};

int loop_new_backend(enum loop_backend_kind kind, struct loop **ret)
{
    int r;

    struct loop *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->ranges = calloc(LOOP_RANGES_MAX / 64, sizeof(uint64_t));
    if (!l->ranges) {
        loop_free(l);
        return -ENOMEM;
    }

    l->backend = kind == LOOP_EPOLL ? &loop_backend_epoll : &loop_backend_uring;
    r = l->backend->open(l);
    if (r < 0 && kind == LOOP_AUTO) {
        l->backend = &loop_backend_epoll;
        r = l->backend->open(l);
    }
    if (r < 0) {
        l->backend = NULL;
        loop_free(l);
        return r;
    }
    *ret = l;
    return 0;
}

int loop_new(struct loop **ret)
{
    return loop_new_backend(LOOP_AUTO, ret);
}

struct loop *loop_free(struct loop *l)
{
    if (!l)
        return NULL;
    /* The kernel may still read the memory of writes: they end first. */
    while (l->backend && l->writes > 0)
        if (l->backend->wait(l, UINT64_MAX) < 0)
            break;
    if (l->backend)
        l->backend->close(l);
    while (l->deferred_first) {
        struct loop_deferred *d = l->deferred_first;
        l->deferred_first = d->next;
        free(d);
    }
    /* Freed by their owners, but the back-end had not let go. */
    for (struct loop_watch *w = l->watches, *next; w; w = next) {
        next = w->next;
        if (w->dead)
            free(w);
    }
    free(l->heap);
    free(l->ranges);
    free(l);
    return NULL;
}

const char *loop_backend_name(const struct loop *l)
{
    return l->backend->name;
}

void loop_exit(struct loop *l, int code)
{
    l->exiting = true;
    l->exit_code = code;
}

/* Timers: a binary heap by time. */

static void heap_set(struct loop *l, size_t i, struct loop_timer *t)
{
    l->heap[i] = t;
    t->index = i;
}

static void heap_up(struct loop *l, size_t i)
{
    struct loop_timer *t = l->heap[i];
    while (i > 0 && l->heap[(i - 1) / 2]->when > t->when) {
        heap_set(l, i, l->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    heap_set(l, i, t);
}

static void heap_down(struct loop *l, size_t i)
{
    struct loop_timer *t = l->heap[i];
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= l->n_timers)
            break;
        if (c + 1 < l->n_timers && l->heap[c + 1]->when < l->heap[c]->when)
            c++;
        if (l->heap[c]->when >= t->when)
            break;
        heap_set(l, i, l->heap[c]);
        i = c;
    }
    heap_set(l, i, t);
}

static void heap_remove(struct loop *l, struct loop_timer *t)
{
    size_t i = t->index;
    struct loop_timer *last = l->heap[--l->n_timers];
    t->index = SIZE_MAX;
    if (last == t)
        return;
    heap_set(l, i, last);
    heap_up(l, i);
    heap_down(l, last->index);
}

int loop_timer_new(struct loop *l, loop_timer_fn fn, void *userdata, struct loop_timer **ret)
{
    struct loop_timer *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    *t = (struct loop_timer){.loop = l, .fn = fn, .userdata = userdata, .index = SIZE_MAX};
    *ret = t;
    return 0;
}

int loop_timer_arm(struct loop_timer *t, uint64_t boottime_ns)
{
    struct loop *l = t->loop;
    if (t->index != SIZE_MAX) {
        t->when = boottime_ns;
        heap_up(l, t->index);
        heap_down(l, t->index);
        return 0;
    }
    if (l->n_timers == l->heap_cap) {
        size_t cap = l->heap_cap ? l->heap_cap * 2 : 32;
        struct loop_timer **heap = realloc(l->heap, cap * sizeof(*heap));
        if (!heap)
            return -ENOMEM;
        l->heap = heap;
        l->heap_cap = cap;
    }
    t->when = boottime_ns;
    heap_set(l, l->n_timers++, t);
    heap_up(l, t->index);
    return 0;
}

void loop_timer_disarm(struct loop_timer *t)
{
    if (t && t->index != SIZE_MAX)
        heap_remove(t->loop, t);
}

struct loop_timer *loop_timer_free(struct loop_timer *t)
{
    loop_timer_disarm(t);
    free(t);
    return NULL;
}

static void timers_run(struct loop *l)
{
    if (l->n_timers == 0)
        return;
    uint64_t now = etw_clock_boottime();
    while (l->n_timers > 0 && l->heap[0]->when <= now && !l->exiting) {
        struct loop_timer *t = l->heap[0];
        heap_remove(l, t);
        t->fn(t->userdata); /* may free or arm t */
    }
}

int loop_defer(struct loop *l, void (*fn)(void *userdata), void *userdata)
{
    struct loop_deferred *d = malloc(sizeof(*d));
    if (!d)
        return -ENOMEM;
    *d = (struct loop_deferred){.fn = fn, .userdata = userdata};
    if (l->deferred_last)
        l->deferred_last->next = d;
    else
        l->deferred_first = d;
    l->deferred_last = d;
    return 0;
}

/* Those that were there at the start; what they defer comes after the next look at the kernel. */
static void deferred_run(struct loop *l)
{
    struct loop_deferred *d = l->deferred_first;
    l->deferred_first = l->deferred_last = NULL;
    while (d) {
        struct loop_deferred *next = d->next;
        d->fn(d->userdata);
        free(d);
        d = next;
    }
}

int loop_run(struct loop *l)
{
    int r;

    l->exiting = false;
    while (!l->exiting) {
        deferred_run(l);
        timers_run(l);
        if (l->exiting)
            break;
        uint64_t timeout = UINT64_MAX;
        if (l->deferred_first)
            timeout = 0;
        else if (l->n_timers > 0) {
            uint64_t now = etw_clock_boottime();
            timeout = l->heap[0]->when > now ? l->heap[0]->when - now : 0;
        }
        r = l->backend->wait(l, timeout);
        if (r < 0)
            return r;
    }
    return l->exit_code;
}

/* Watches. */

int loop_watch_new(struct loop *l, int fd, uint32_t events, loop_ready_fn fn, void *userdata,
                   struct loop_watch **ret)
{
    int r;

    struct loop_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct loop_watch){.loop = l, .fd = fd, .events = events, .fn = fn, .userdata = userdata};
    r = l->backend->watch_arm(w);
    if (r < 0) {
        free(w);
        return r;
    }
    w->armed = true;
    w->next = l->watches;
    if (w->next)
        w->next->prev = w;
    l->watches = w;
    *ret = w;
    return 0;
}

static void watch_unlink_free(struct loop_watch *w)
{
    if (w->next)
        w->next->prev = w->prev;
    if (w->prev)
        w->prev->next = w->next;
    else
        w->loop->watches = w->next;
    free(w);
}

struct loop_watch *loop_watch_free(struct loop_watch *w)
{
    if (!w || w->dead)
        return NULL;
    w->dead = true;
    /* Not armed: inside its own callback, which ends with the look at `dead`. */
    if (w->armed && w->loop->backend->watch_cancel(w))
        watch_unlink_free(w);
    return NULL;
}

void loop_watch_gone(struct loop_watch *w)
{
    watch_unlink_free(w);
}

void loop_watch_ready(struct loop_watch *w, uint32_t revents)
{
    int r;

    w->armed = false;
    if (!w->dead)
        w->fn(w->fd, revents, w->userdata);
    if (w->dead) {
        watch_unlink_free(w);
        return;
    }
    r = w->loop->backend->watch_arm(w);
    if (r < 0)
        /* Nobody to return it to, and the owner would never hear of its descriptor again. */
        log_error("event loop: descriptor %d: failed to watch it again: %s", w->fd, strerror(-r));
    else
        w->armed = true;
}

/* Writes. */

int loop_range_register(struct loop *l, void *data, size_t size, int *ret_index)
{
    int r;

    for (unsigned i = 0; i < LOOP_RANGES_MAX / 64; i++) {
        if (l->ranges[i] == UINT64_MAX)
            continue;
        unsigned bit = (unsigned) __builtin_ctzll(~l->ranges[i]);
        int index = (int) (i * 64 + bit);
        r = l->backend->range_register(l, data, size, index);
        if (r < 0)
            return r;
        l->ranges[i] |= 1ULL << bit;
        *ret_index = index;
        return 0;
    }
    return -ENOSPC;
}

void loop_range_unregister(struct loop *l, int index)
{
    if (index < 0)
        return;
    l->backend->range_unregister(l, index);
    l->ranges[index / 64] &= ~(1ULL << (index % 64));
}

static void write_run(void *userdata)
{
    struct loop_write_op *op = userdata;
    size_t len = op->len > 1u << 30 ? 1u << 30 : op->len;
    ssize_t n = pwrite(op->fd, op->data, len, (off_t) op->offset);
    op->result = n < 0 ? -errno : (int) n;
}

static void write_done(void *userdata)
{
    struct loop_write_op *op = userdata;
    loop_write_progress(op, op->result);
}

int loop_write_submit(struct worker *w, struct loop_write_op *op)
{
    return worker_submit(w, write_run, write_done, op);
}

static int write_start(struct loop_write_op *op)
{
    return op->worker ? loop_write_submit(op->worker, op) : op->loop->backend->write_start(op);
}

static int write_new(struct loop *l, struct worker *w, int fd, const void *data, size_t len,
                     uint64_t offset, int index, loop_write_fn fn, void *userdata)
{
    int r;

    struct loop_write_op *op = malloc(sizeof(*op));
    if (!op)
        return -ENOMEM;
    *op = (struct loop_write_op){.loop = l,
                                 .worker = w,
                                 .fd = fd,
                                 .index = index,
                                 .data = data,
                                 .len = len,
                                 .offset = offset,
                                 .fn = fn,
                                 .userdata = userdata};
    r = write_start(op);
    if (r < 0) {
        free(op);
        return r;
    }
    l->writes++;
    return 0;
}

int loop_write(struct loop *l, int fd, const void *data, size_t len, uint64_t offset, int index,
               loop_write_fn fn, void *userdata)
{
    return write_new(l, NULL, fd, data, len, offset, index, fn, userdata);
}

int loop_write_by(struct loop *l, struct worker *w, int fd, const void *data, size_t len,
                  uint64_t offset, loop_write_fn fn, void *userdata)
{
    return write_new(l, w, fd, data, len, offset, -1, fn, userdata);
}

void loop_write_progress(struct loop_write_op *op, int result)
{
    if ((result == -EINTR || result == -EAGAIN) && op->retries++ < LOOP_WRITE_RETRIES)
        result = 0;
    else if (result == 0 && op->len > 0)
        result = -EIO;
    else if (result > 0)
        op->retries = 0;
    if (result >= 0) {
        size_t n = (size_t) result < op->len ? (size_t) result : op->len;
        op->data += n;
        op->len -= n;
        op->offset += n;
        result = 0;
        if (op->len > 0) {
            result = write_start(op);
            if (result == 0)
                return;
        }
    }
    op->loop->writes--;
    op->fn(result, op->userdata);
    free(op);
}
