/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sessions from inside: shared by sessions.c, start.c, stop.c. Loop thread only.
 */
#pragma once

#include "clock.h"
#include "internal.h"
#include "sessions.h"

struct etwd_events;
struct file_facts;
struct session_keeper;

struct stop_op {
    struct sessions *sessions;
    struct session *session;
    sessions_fn fn;
    void *userdata;
};

struct sessions {
    struct sessions_env env;
    struct session *first;         /* by id */
    unsigned count;                /* those starting and stopping included */
    uint64_t *next_generation;     /* in a block of the state */
    struct session_keeper *keeper; /* NULL: a successor gets nothing */
    struct etwd_events *events;
    struct session_clocks clocks;
    bool shutting_down;
    void (*shutdown_done)(void *userdata);
    void *shutdown_userdata;
};

/* Into the table with a free id; -ENOSPC. */
int table_insert(struct sessions *ss, struct session *s);
/* Into it with the id it has; -EEXIST. */
int table_restore(struct sessions *ss, struct session *s);
/* What a session calls when it is in the table. */
void session_wire(struct sessions *ss, struct session *s);
/* The header of a file that begins at this CLOCK_BOOTTIME. The names stay the caller's. */
void session_logfile(const struct session *s, uint64_t begin, const uint16_t *name16,
                     const uint16_t *file16, struct etl_logfile_params *ret);
/* Goes on in another file: fd (taken over), called log_file. The session is `updating` meanwhile;
 * fn gets NULL or the refusal. */
void session_turn(struct session *s, int fd, const char *log_file,
                  void (*fn)(const struct refusal *refusal, void *userdata), void *userdata);
/* Out of it and freed; ends a shutdown when it was the last. */
void table_remove(struct sessions *ss, struct session *s);
/* A client's file may be written, as its check on the worker says: nobody else does, and it has
 * room for `bytes` (0: no matter). what: "log file", for the refusal. */
int table_file_check(const struct sessions *ss, int check_result, const char *check_why,
                     const struct file_facts *facts, const char *what, const char *path,
                     uint64_t bytes, struct refusal *refusal);
/* The user's sessions but `except`, and one with these buffers besides, are within its quota. */
int table_memory_check(const struct sessions *ss, uint32_t uid, const struct session *except,
                       const struct session_properties *p, uint32_t buffer_bytes,
                       struct refusal *refusal);
/* Begins the end of a session that runs and is not being changed. */
void stop_begin(struct sessions *ss, struct session *s, struct stop_op *op);
/* What the start of a session does when it runs: a stop that was wanted meanwhile. */
void session_now_running(struct sessions *ss, struct session *s);

/* A refusal made of a negative errno. */
void refuse_errno(struct refusal *f, int r, const char *what);
