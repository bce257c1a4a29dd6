/* SPDX-License-Identifier: Apache-2.0
 *
 * What logger.c (sessions come and go, operations queue) and operations.c (the steps of an
 * operation) share. Nobody else includes it. Loop thread; jobs of an operation run on the worker
 * while the loop thread leaves it alone.
 */
#pragma once

#include "kernel/events.h"
#include "kernel/finish.h"
#include "kernel/images.h"
#include "kernel/logger.h"
#include "kernel/programs.h"
#include "kernel/rings.h"
#include "kernel/rundown.h"
#include "kernel/sysconfig.h"
#include "kernel/walk.h"

enum operation_kind { START, UPDATE, STOP };

struct traced {
    struct kernel_target target;
    bool sysconfig;
};

struct operation {
    enum operation_kind kind;
    struct kernel_logger *logger;
    struct traced *traced;
    uint32_t masks[8];
    kernel_done_fn done;
    void *userdata;
    /* Of the steps. */
    int result;     /* of a worker job */
    bool described; /* the rundown has begun, or is through */
    struct rundown_progress progress;
    uint32_t old_masks[8];
    struct probe_rings *rings; /* made by it */
    struct program_needs before, needs;
    bool walk_images;
    struct walk *walk;
    struct image_file **files; /* asked for ahead of the rundown */
    size_t n_files;
    struct sysconfig *config;
    struct rundown *rundown;
    struct loop_timer *timer; /* between its steps */
    struct loop_timer *ask_timer;
    bool asking;             /* START, UPDATE: files are waited for */
    uint32_t buffers_left;   /* as the last step saw it */
    uint64_t patience_until; /* no buffer has become free: then it goes on, and events are lost */
    uint64_t stamp;
    unsigned waiting;      /* steps that go on side by side */
    uint64_t images_until; /* STOP: waiting image events below this number may be ours */
    bool images_wanted;    /* and these are waited for */
    struct operation *next;
};

struct kernel_logger {
    struct loop *loop;
    struct state *state;
    struct kernel_keeper *keeper; /* NULL: a successor gets nothing */
    struct worker *worker;
    struct router *router;
    unsigned cpus;
    uint64_t ring_bytes;
    struct images *images;
    struct process_table *table;
    struct events *events;
    struct finish *finish;
    struct programs *programs;
    struct probe_rings *rings;  /* while a session is traced */
    struct kernel_image kernel; /* read at the first start */
    bool kernel_known;
    struct operation *first, **last; /* the first one runs */
    struct operation *resumed; /* a predecessor's STOP: the session's next one goes on with it */
};

/* What all sessions need, with `t`'s masks replaced by `masks` (NULL: without it). */
struct program_needs logger_needs(struct kernel_logger *k, const struct traced *t,
                                  const uint32_t masks[8]);

/* Adds a session, without masks, to those that are traced. */
int logger_add(struct kernel_logger *k, struct session *s, struct traced **ret);
/* The rings become sources; twice is nothing. */
int logger_rings_attach(struct kernel_logger *k);
/* Nothing is traced: sessions, programs, rings and the table go. No operation is there. */
void logger_forget(struct kernel_logger *k);
/* Takes it out of what events and records go to. */
void traced_unlink(struct kernel_logger *k, struct traced *t);

/* Goes on with what a predecessor had begun to describe. */
int operation_resume(struct kernel_logger *k, struct traced *t, enum operation_kind kind,
                     uint64_t stamp, const uint32_t old_masks[8],
                     const struct rundown_progress *progress);
/* Begins the first operation of the queue, when there is one. */
int operation_begin(struct kernel_logger *k);
/* Ends it, answers, and begins the next. */
void operation_end(struct operation *op, int result);
/* Its memory alone. */
void operation_free(struct operation *op);
/* Waiting image events have gone out. userdata: the logger. */
void operation_images_answered(void *userdata);
