/* SPDX-License-Identifier: Apache-2.0
 *
 * What loop.c and its two back-ends share. Nobody else includes it. Loop thread only.
 *
 * A back-end waits for readiness and finished writes and hands both to loop.c; timers and deferred
 * calls are loop.c's own. Watches are one-shot in the back-end and armed again after each callback:
 * so they are level-triggered, and a descriptor that stays ready starves nobody.
 */
#pragma once

#include "loop.h"

struct loop_watch {
    struct loop *loop;
    int fd;
    uint32_t events;
    loop_ready_fn fn;
    void *userdata;
    bool armed; /* the back-end holds it */
    bool dead;  /* freed by its owner; goes away when the back-end has let go */
    struct loop_watch *next_dead;
    struct loop_watch *prev, *next; /* of all watches, for loop_free() */
};

struct loop_write_op {
    struct loop *loop;
    int fd;
    int index;
    const uint8_t *data;
    size_t len;
    uint64_t offset;
    loop_write_fn fn;
    void *userdata;
    unsigned retries;      /* since the last byte was written */
    struct worker *worker; /* that writes it; NULL: the back-end */
    int result;            /* from there */
};

struct loop_backend {
    const char *name;
    int (*open)(struct loop *l);
    void (*close)(struct loop *l);
    /* Waits for at least one completion, at most timeout_ns (UINT64_MAX: for ever), and dispatches
     * what there is. 0 or -errno. */
    int (*wait)(struct loop *l, uint64_t timeout_ns);
    int (*watch_arm)(struct loop_watch *w);
    /* The watch is dead. True: forgotten at once; false: loop_watch_gone() follows. */
    bool (*watch_cancel)(struct loop_watch *w);
    int (*write_start)(struct loop_write_op *op);
    int (*range_register)(struct loop *l, void *data, size_t size, int index);
    void (*range_unregister)(struct loop *l, int index);
};

extern const struct loop_backend loop_backend_uring;
extern const struct loop_backend loop_backend_epoll;

struct loop {
    const struct loop_backend *backend;
    void *backend_data;
    bool exiting;
    int exit_code;
    struct loop_timer **heap;
    size_t n_timers, heap_cap;
    struct loop_deferred *deferred_first, *deferred_last;
    struct loop_watch *watches;
    uint64_t *ranges; /* bitmap of fixed-buffer slots in use */
    unsigned writes;  /* not yet finished */
};

/* Slots of the table of fixed buffers: 16384 is the kernel's limit; 64 sessions of 16 MiB need
 * about 1100. Beyond, writes are plain. */
#define LOOP_RANGES_MAX 4096u

/* A write that the kernel puts off without having written anything is begun again this often. It
 * ends: somebody who shares the file description can make every write of ours "would block". */
#define LOOP_WRITE_RETRIES 8u

/* From the back-ends. */
void loop_watch_ready(struct loop_watch *w, uint32_t revents);
void loop_watch_gone(struct loop_watch *w);
int loop_write_submit(struct worker *w, struct loop_write_op *op);
/* result: bytes written or -errno. */
void loop_write_progress(struct loop_write_op *op, int result);
