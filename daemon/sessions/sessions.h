/* SPDX-License-Identifier: Apache-2.0
 *
 * All sessions: how they come, are found, changed and go. Rights are the caller's business
 * (control/policy.h), but for those that depend on what a start asks for. Loop thread only.
 *
 * Answers come once, possibly before the call returns. A session is visible to look-ups from the
 * moment it runs until its file is closed; its name, GUID and file are taken from the moment its
 * start began.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "properties.h"
#include "session.h"

struct kernel_logger;
struct loop;
struct router;
struct sessions;
struct state;
struct uid_workers;

struct sessions_env {
    struct loop *loop;
    struct state *state;         /* NULL: nobody takes over */
    struct uid_workers *workers; /* for calls on log files */
    struct router *router;
    struct kernel_logger *kernel;
    const struct etw_conf *conf;
    unsigned cpus;    /* possible: indexes are below it */
    unsigned online;  /* what headers say and the least number of buffers follows */
    uint32_t cpu_mhz; /* for the log-file header */
    /* Who else has to do with sessions; either may be NULL. ending: its last events are in its
     * buffers, none may come any more. losses: brings the counters of writers up to date. */
    void (*ending)(void *userdata, struct session *s);
    void (*losses)(void *userdata);
    void *userdata;
};

int sessions_new(const struct sessions_env *env, struct sessions **ret);
struct sessions *sessions_free(struct sessions *ss);

/* The sessions of a predecessor; before any other call. What cannot be taken over is told in the
 * log, its file stays as it is. */
int sessions_takeover(struct sessions *ss);
/* Who else has to do with them is there too, and connections: what was under way goes on. Sessions
 * bound to a connection that is gone end, and those of the kernel, whose probes are gone. */
void sessions_takeover_done(struct sessions *ss,
                            bool (*connected)(void *userdata, uint64_t connection), void *userdata);

/* NULL refusal: done. The session is valid during the call; NULL where there is none (refused). */
typedef void (*sessions_fn)(const struct refusal *refusal, const struct session *s, void *userdata);

struct stack_id {
    struct etw_guid guid;
    uint32_t type;
};

struct session_request {
    struct session_properties properties; /* its strings: taken over */
    bool kernel_call;                     /* by StartKernelTrace's rules */
    bool may_kernel;                      /* the caller may see kernel events */
    bool privileged;                      /* no quota of sessions; trusted with its files */
    bool bound;
    uint64_t connection;
    uint32_t uid, pid;
    int fd; /* the log file, or -1: taken over */
    const struct stack_id *stacks;
    size_t n_stacks;
};
void sessions_start(struct sessions *ss, struct session_request *req, sessions_fn fn,
                    void *userdata);

/* fn may be NULL. Refused: not running any more. */
void sessions_stop(struct sessions *ss, struct session *s, sessions_fn fn, void *userdata);
/* Puts what happened until now into the file. */
void sessions_flush(struct sessions *ss, struct session *s, sessions_fn fn, void *userdata);
/* Writes a session in buffering mode, as it is now, into a file. fd: the file, or -1: taken over;
 * path: as the caller names it. uid, trusted: the caller's, who may wait for its disk. */
bool session_in_memory(const struct session *s);
void sessions_snapshot(struct sessions *ss, struct session *s, int fd, const char *path,
                       uint32_t uid, bool trusted, sessions_fn fn, void *userdata);
/* What ControlTrace UPDATE may change; p is only read. fd: the log file that p names, or -1: taken
 * over. */
void sessions_update(struct sessions *ss, struct session *s, const struct session_properties *p,
                     int fd, sessions_fn fn, void *userdata);
/* The kernel events of a system logger, as UPDATE's EnableFlags. */
void sessions_set_flags(struct sessions *ss, struct session *s, uint32_t flags, sessions_fn fn,
                        void *userdata);
/* Reads the kernel's loss counters into the sessions'; before their state is told. */
void sessions_refresh(struct sessions *ss);

/* Running or being stopped. NULL: none. */
struct session *sessions_find_name(struct sessions *ss, const char *name);
struct session *sessions_find_handle(struct sessions *ss, uint64_t handle);
/* The one with the next higher id. */
struct session *sessions_next(struct sessions *ss, uint32_t after_id);
unsigned sessions_count(const struct sessions *ss);

/* Sessions bound to it end. */
void sessions_connection_gone(struct sessions *ss, uint64_t connection);
/* No more starts; all end; done once none is left. */
void sessions_shutdown(struct sessions *ss, void (*done)(void *userdata), void *userdata);

/* A Mark event with one stamp into every running session that may() allows, once all that was
 * written before the call is there; done gets how many. context: copied for may(), at most 64
 * bytes. */
void sessions_mark(struct sessions *ss, const char *text,
                   bool (*may)(const void *context, const struct session *s), const void *context,
                   size_t context_size, void (*done)(unsigned marked, void *userdata),
                   void *userdata);

/* Tells the log which sessions an end of etwd now would leave, and with which files. */
void sessions_tell_left(const struct sessions *ss);

/* For messages about a session. */
/* Its owner was root or in group etw when it was started. */
bool session_is_trusted(const struct session *s);
/* It takes nothing new. */
bool session_is_stopping(const struct session *s);
bool session_is_kernel(const struct session *s);
bool session_is_bound(const struct session *s);
uint32_t session_owner_uid(const struct session *s);
uint32_t session_owner_pid(const struct session *s);
uint64_t session_start_filetime(const struct session *s);
uint32_t session_buffers(const struct session *s);
uint32_t session_buffers_free(const struct session *s);
/* Streams of buffers: one for each processor, or one. */
uint32_t session_streams(const struct session *s);
