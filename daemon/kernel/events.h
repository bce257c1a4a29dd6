/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of the process, thread and image classes, built from the process table and given to the
 * kernel sessions that want them; images whose file is not known yet wait here. What the events
 * mean, and when there is one, finish.c and rundown.c decide. Loop thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "etl/build.h"
#include "etl/classes.h"
#include "kernel/process_table.h"
#include "router/router.h"
#include "sessions/session.h"

/* A traced session. */
struct kernel_target {
    struct session *session;
    uint32_t masks[8];
    uint64_t begin;     /* events with an earlier stamp are not its */
    uint64_t end;       /* nor those with a later one; UINT64_MAX while it runs */
    uint32_t max_event; /* what its buffers hold */
    void *block;        /* keep.c's */
    struct kernel_target *next;
};

/* Who an event happened to, when and where. */
struct event_context {
    uint64_t stamp;
    uint16_t cpu;
    uint32_t tid; /* of the header */
    uint32_t pid;
    struct kernel_target *only; /* rundown; NULL: everybody who wants it */
};

/* An image event that waits for what is known of its file. */
struct pending_image {
    struct image_file *file; /* counted */
    struct image image;      /* its file is the same */
    enum etl_row row;
    struct event_context context;
    uint32_t pid;
    uint64_t number;
    void *block; /* keep.c's */
    struct pending_image *next_of_file;
    struct pending_image *next, **at; /* of all */
};

struct events {
    struct process_table *table;
    struct router *router;
    struct images *images; /* set by the owner, like the two at the end */
    struct kernel_target *targets;
    /* All waiting image events, oldest first. */
    struct pending_image *waiting_first, **waiting_last;
    struct pending_image *waiting_unkept; /* the first of those that nobody hands on yet */
    uint64_t waiting_next;                /* number of the next one */
    size_t n_waiting;
    void (*answered)(void *userdata); /* after waiting events went out */
    void *userdata;
    /* Of whoever hands them on; NULL: nobody does. gone(): the block of one that goes. */
    struct state *state;
    void (*gone)(void *userdata, void *block);
    void *gone_userdata;
    uint8_t scratch[ETW_EVENT_MAX + 1];
};

int events_new(struct process_table *table, struct router *r, struct events **ret);
/* Answers to come find nothing any more. The images object must be gone already. */
struct events *events_free(struct events *e);

bool target_wants(const struct kernel_target *t, enum etl_row row);
/* Whether one of the targets does. */
bool events_wanted(const struct events *e, enum etl_row row);

/* An event that cannot be had. */
void events_lost(struct events *e, enum etl_row row, const struct event_context *c,
                 enum loss_cause cause);

/* Bytes of user data whose layout has no variable part. */
void events_fixed(struct events *e, enum etl_row row, const struct event_context *c,
                  const void *data, uint32_t size);
void events_process(struct events *e, enum etl_row row, const struct event_context *c,
                    const struct process *p, int32_t exit_status);
void events_thread(struct events *e, enum etl_row row, const struct event_context *c,
                   const struct thread *th);
void events_exec(struct events *e, const struct event_context *c, uint32_t tgid, uint32_t old_tid,
                 uint64_t old_key, uint64_t new_key, const char *path, size_t path_size);
/* Asks for what is not known of the image's file; appears: a Load or DCStart. Afterwards the file
 * is answered or waiting. */
void events_image_ask(struct events *e, const struct image *image, uint32_t pid, bool appears);
/* The image event, and before it what identifies the file. Waits when that is being asked,
 * and then has a stamp that is one nanosecond later (Load) or earlier (UnLoad). */
void events_image(struct events *e, enum etl_row row, const struct event_context *c, uint32_t pid,
                  const struct image *image);
/* The same for something that is no mapping of a process: the kernel. */
void events_image_known(struct events *e, enum etl_row row, const struct event_context *c,
                        uint32_t pid, uint64_t base, uint64_t size, const char *path,
                        const struct image_identity *id);
/* One that waited when a predecessor ended, in the order of their numbers; takes the reference to
 * the file. -ENOMEM. Its file has been asked for afterwards, or the event is out. */
int events_image_restore(struct events *e, const struct pending_image *p);
void events_image_ask_again(struct events *e);
/* Nobody waits any more. */
void events_forget(struct events *e);
/* Number of the oldest waiting image event; events numbered below it are out. */
uint64_t events_waiting(const struct events *e);
