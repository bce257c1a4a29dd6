/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd's event loop: one thread, one io_uring; where io_uring is refused (sysctl, seccomp) epoll
 * and a writer thread do the same. Everything that may sleep in the kernel (open, fsync, truncate,
 * loading BPF) goes to the worker (worker.h). No handler blocks.
 *
 * All functions: loop thread only. Callbacks run on it, never from inside the function that set
 * them up.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;

enum loop_backend_kind { LOOP_AUTO, LOOP_URING, LOOP_EPOLL };

/* loop_new() takes io_uring when the kernel lets us have it. LOOP_URING fails where it does not. */
int loop_new(struct loop **ret);
int loop_new_backend(enum loop_backend_kind kind, struct loop **ret);
/* "io_uring" or "epoll", for messages. */
const char *loop_backend_name(const struct loop *l);
struct loop *loop_free(struct loop *l);
/* Runs until loop_exit(); returns its code, or -errno when the ring fails. */
int loop_run(struct loop *l);
void loop_exit(struct loop *l, int code);

/* Readiness of a descriptor, level-triggered: what a callback leaves unread is told again. The
 * watch ends with loop_watch_free(), which may be called from its own callback. The descriptor
 * stays the caller's; it may be closed right after loop_watch_free(). */
struct loop_watch;
typedef void (*loop_ready_fn)(int fd, uint32_t revents, void *userdata);
int loop_watch_new(struct loop *l, int fd, uint32_t events, loop_ready_fn fn, void *userdata,
                   struct loop_watch **ret);
struct loop_watch *loop_watch_free(struct loop_watch *w);

/* One-shot timers in CLOCK_BOOTTIME nanoseconds; arming again replaces. */
struct loop_timer;
typedef void (*loop_timer_fn)(void *userdata);
int loop_timer_new(struct loop *l, loop_timer_fn fn, void *userdata, struct loop_timer **ret);
int loop_timer_arm(struct loop_timer *t, uint64_t boottime_ns);
void loop_timer_disarm(struct loop_timer *t);
struct loop_timer *loop_timer_free(struct loop_timer *t);

/* Runs fn once, after the present callback. */
int loop_defer(struct loop *l, void (*fn)(void *userdata), void *userdata);

/* Registered memory and writes from it. A range has an index in the ring's table of fixed buffers;
 * where registration is refused writes are plain and `fixed` counts nothing. */
int loop_range_register(struct loop *l, void *data, size_t size, int *ret_index);
void loop_range_unregister(struct loop *l, int index);

/* Writes len bytes at offset; index -1: not registered. Short writes are continued. fn gets 0 or
 * -errno. The memory must stay until then. */
typedef void (*loop_write_fn)(int result, void *userdata);
int loop_write(struct loop *l, int fd, const void *data, size_t len, uint64_t offset, int index,
               loop_write_fn fn, void *userdata);
/* The same as plain writes of a worker: for files of which somebody may lock the inode for as long
 * as he likes. One such file holds up all that the ring's few threads have to write. */
struct worker;
int loop_write_by(struct loop *l, struct worker *w, int fd, const void *data, size_t len,
                  uint64_t offset, loop_write_fn fn, void *userdata);
