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
    void (*offer_arena)(void *peer, uint32_t arena, uint32_t ring_size, int arena_fd,
                        int control_fd);
    void (*change)(void *peer, uint32_t index, uint32_t code, uint8_t level, uint64_t any,
                   uint64_t all, const struct etw_guid *source, uint32_t filter_type,
                   const void *filter, size_t filter_size, uint64_t cookie);
};

/* number: the connection's, which a successor will know it by. pidfd: the peer's, taken over.
 * -EDQUOT: a quota, *ret_quota its key. */
int provider_attach(struct providers *p, const struct provider_peer_ops *ops, void *peer,
                    uint64_t number, pid_t pid, uid_t uid, gid_t gid, int pidfd, bool fences,
                    struct provider_process **ret, const char **ret_quota);
/* The connection is gone: its rings are drained, then everything goes. */
void provider_detach(struct provider_process *pp);

struct provider_enabled {
    bool enabled;
    uint8_t level;
    uint64_t any, all;
};
/* -EEXIST: index taken; -ERANGE; -EDQUOT. *ret tells what its first callback gets; an arena is
 * offered by the ops before the word is set. */
int provider_register(struct provider_process *pp, uint32_t index, const struct etw_guid *guid,
                      const void *traits, size_t traits_size, struct provider_enabled *ret);
int provider_unregister(struct provider_process *pp, uint32_t index);
int provider_set_traits(struct provider_process *pp, uint32_t index, const void *traits,
                        size_t size);
/* The process mapped an arena (status 0) or could not: seal, give memory, open slots. */
int provider_arena_mapped(struct provider_process *pp, uint32_t arena, uint32_t status);
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
    const int *pidfds; /* copied */
    size_t n_pidfds;
};
/* done gets a Win32 code and, for refusals, what is wrong; at once or after the callbacks ran. The
 * session sees processes of its owner's uid alone unless `all_uids`. */
typedef void (*enable_done_fn)(uint32_t status, const char *reason, void *userdata);
void providers_enable(struct providers *p, struct session *s, bool all_uids, uid_t owner,
                      const struct enable_request *req, enable_done_fn done, void *userdata);
/* The session ends: its enables go, callbacks are told, slots wait until drained. */
void providers_session_gone(struct providers *p, struct session *s);

/* Reads the writers' loss counters into the sessions'. */
void providers_sync_losses(struct providers *p);

/* The processes, registrations and enables of a predecessor; sessions are there already. Each waits
 * for its connection: provider_reattach() gives it one, and those without are detached at last. */
int providers_takeover(struct providers *p);
int provider_reattach(struct providers *p, const struct provider_peer_ops *ops, void *peer,
                      uint64_t number, int pidfd, struct provider_process **ret);
void providers_takeover_done(struct providers *p);

/* ---- listing ---- */

struct provider_visit {
    void (*provider)(void *userdata, const struct etw_guid *guid, const char *name);
    void (*instance)(void *userdata, pid_t pid, uid_t uid, uint32_t registrations);
    void (*enable)(void *userdata, const struct session *s, uint8_t level, uint64_t any,
                   uint64_t all, uint32_t properties);
};
/* GUIDs above `after` in order, at most max; those of `pid` alone unless 0, those that `only`
 * enabled unless NULL. Returns whether more follow. */
bool providers_visit(struct providers *p, const struct etw_guid *after, pid_t pid,
                     const struct session *only, size_t max, const struct provider_visit *v,
                     void *userdata);
