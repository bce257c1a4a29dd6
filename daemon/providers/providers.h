/* SPDX-License-Identifier: Apache-2.0
 *
 * Provider processes as etwd knows them: their registrations, their shared memory, and which
 * sessions enabled what. One router source for all their rings. Loop thread only.
 *
 * Words: a *process* is one attached connection; a *registration* is a GUID in it; an *enable* is
 * one session's wish for one GUID, kept also while nobody registered it; a *slot* is an enable's
 * number in one registration.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/guid.h"
#include "base/limits.h"

struct loop;
struct provider_process;
struct providers;
struct router;
struct session;
struct state;

struct providers_env {
    struct loop *loop;
    struct router *router;
    struct state *state;
    const struct etw_conf *conf;
    unsigned cpus; /* possible: indexes below it */
};

int providers_new(const struct providers_env *env, struct providers **ret);
struct providers *providers_free(struct providers *p);

/* ---- processes ---- */

/* How a process is told something; the connection implements it. Descriptors stay the caller's. */
struct provider_peer_ops {
    /* control_fd -1: it has the control area already. */
    void (*offer_arena)(void *peer, uint32_t arena, uint32_t ring_size, int arena_fd,
                        int control_fd);
    /* False: the process does not read, nothing was taken; provider_writable() follows when it
     * does. */
    bool (*change)(void *peer, uint32_t index, uint32_t code, uint8_t level, uint64_t any,
                   uint64_t all, const struct etw_guid *source, uint32_t filter_type,
                   const void *filter, size_t filter_size, uint64_t cookie);
    /* The process has a newer connection: this one is to end. */
    void (*replaced)(void *peer);
};

struct provider_peer {
    uint64_t number; /* the connection's, which a successor will know it by */
    pid_t pid;
    uid_t uid;
    gid_t gid;
    bool fences;
    bool threadless; /* gets no changes; its first registration gets an arena at once */
};

/* pidfd: the peer's, taken over on success; -1 where there is none. -ESRCH: it is gone. */
int provider_attach(struct providers *p, const struct provider_peer_ops *ops, void *peer,
                    const struct provider_peer *who, int pidfd, struct provider_process **ret);
/* The connection is gone: its rings are drained, then everything goes. */
void provider_detach(struct provider_process *pp);
/* What it could not be told is to be told now. */
void provider_writable(struct provider_process *pp);

struct provider_enabled {
    bool enabled;
    uint8_t level;
    uint64_t any, all;
};
/* -EEXIST: index taken; -ERANGE; -EDQUOT: MaxRegistrationsPerUser. *ret tells what its first
 * callback gets; an arena is offered by the ops before the word is set. Doing it again with the
 * same GUID gives the same answer. */
int provider_register(struct provider_process *pp, uint32_t index, const struct etw_guid *guid,
                      const void *traits, size_t traits_size, struct provider_enabled *ret);
int provider_unregister(struct provider_process *pp, uint32_t index);
int provider_set_traits(struct provider_process *pp, uint32_t index, const void *traits,
                        size_t size);
/* The process mapped an arena (status 0) or could not: seal, give memory, open slots. -EINVAL: it
 * was offered no such arena; -EPROTO: it tampered with it. */
int provider_arena_mapped(struct provider_process *pp, uint32_t arena, uint32_t status);
/* -EINPROGRESS: once the next arena is mapped; -EDQUOT: ArenaMemoryMB. */
int provider_more_rings(struct provider_process *pp);
void provider_wake(struct provider_process *pp);
void provider_callback_done(struct provider_process *pp, uint64_t cookie);

/* ---- enables ---- */

struct enable_filter {
    uint32_t type;
    const void *data;
    size_t size;
};

struct enable_request {
    struct etw_guid guid;
    uint32_t code; /* EVENT_CONTROL_CODE_* */
    uint8_t level;
    uint64_t any, all;
    uint32_t properties;
    uint32_t timeout_ms;
    struct etw_guid source;
    const struct enable_filter *filters;
    size_t n_filters;
    bool pid_filter;
    const int *pidfds; /* looked at, not kept */
    size_t n_pidfds;
    uint64_t waiter; /* whoever waits for the callbacks: providers_waiter_gone() */
};
/* done gets a Win32 code and, for refusals, what is wrong; at once or after the callbacks ran. The
 * session sees processes of its owner's uid alone unless `all_uids`. */
typedef void (*enable_done_fn)(uint32_t status, const char *reason, void *userdata);
void providers_enable(struct providers *p, struct session *s, bool all_uids, uid_t owner,
                      const struct enable_request *req, enable_done_fn done, void *userdata);
/* Nobody waits any more: done gets ERROR_CANCELLED. */
void providers_waiter_gone(struct providers *p, uint64_t waiter);
/* The session ends: its enables go, callbacks are told, slots wait until drained. */
void providers_session_gone(struct providers *p, struct session *s);

/* Reads the writers' loss counters into the sessions'. */
void providers_sync_losses(struct providers *p);

/* The processes, registrations and enables of a predecessor; sessions are there already, find()
 * tells them by their handles. Each process waits for its connection: provider_reattach() gives it
 * one, and those without are detached at last. */
int providers_takeover(struct providers *p,
                       struct session *(*find)(void *userdata, uint64_t handle), void *userdata);
/* -ENOENT: no process had this connection. pidfd as for provider_attach(). */
int provider_reattach(struct providers *p, const struct provider_peer_ops *ops, void *peer,
                      uint64_t number, int pidfd, struct provider_process **ret);
/* The connection was told that there is a successor: what the predecessor may not have sent. */
void provider_resume(struct provider_process *pp);
void providers_takeover_done(struct providers *p);

/* ---- listing ---- */

struct provider_visit {
    void (*provider)(void *userdata, const struct etw_guid *guid, const char *name);
    /* image: path or name of its program, or "". */
    void (*instance)(void *userdata, pid_t pid, uid_t uid, const char *image,
                     uint32_t registrations, const struct session *const *enabled_by,
                     size_t n_enabled_by);
    void (*enable)(void *userdata, const struct session *s, uint8_t level, uint64_t any,
                   uint64_t all, uint32_t properties, const char *const *filters, size_t n_filters);
};
/* GUIDs above `after` (NULL: all) in order, at most max; those of `pid` alone unless 0, those that
 * `only` enabled unless NULL. Returns whether more follow behind *ret_last. */
bool providers_visit(struct providers *p, const struct etw_guid *after, pid_t pid,
                     const struct session *only, size_t max, const struct provider_visit *v,
                     void *userdata, struct etw_guid *ret_last);
/* That GUID alone, its processes above after_pid. False: nobody registered or enabled it. */
bool providers_visit_one(struct providers *p, const struct etw_guid *guid, pid_t after_pid,
                         const struct provider_visit *v, void *userdata);
