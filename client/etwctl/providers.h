/* SPDX-License-Identifier: Apache-2.0
 *
 * Providers on the command line: "PROVIDER[:LEVEL[:ANY[:ALL]]]", which provider that is, enabling
 * it in a session, and what a session has enabled. Functions that return an exit code have printed
 * a message. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/guid.h"
#include "connect.h"

struct json_object;
struct out;

struct provider_arg {
    const char *text; /* as given */
    char *name;       /* NULL: guid is known */
    struct etw_guid guid;
    uint8_t level;
    uint64_t any, all;
};

struct provider_args {
    struct provider_arg *items;
    size_t n;
};

/* Takes one more. EXIT_OK or EXIT_USAGE. */
int provider_args_add(struct provider_args *l, const char *verb, const char *text);
void provider_args_clear(struct provider_args *l);
/* Finds the GUIDs of those given by name: providers that the daemon knows, or whose manifest is
 * installed. */
int provider_args_resolve(struct provider_args *l, const char *verb, struct conn *c);

/* What besides level and keywords; all zero: nothing. */
struct provider_filters {
    const int *pidfds;
    size_t n_pidfds;
    bool by_pid;
    const char *executables;
    const uint16_t *event_ids;
    size_t n_event_ids;
    bool by_event_id;
    bool event_ids_in;
};

/* Enables all of l (resolved) in a session, or disables them. */
int providers_enable(struct conn *c, const char *session, const struct provider_args *l,
                     const struct provider_filters *filters);
int providers_disable(struct conn *c, const char *session, const struct provider_args *l);

/* Of `show` and `list`: an array for JSON, lines for people. */
int session_providers_json(struct conn *c, uint64_t handle, struct json_object **ret);
int session_providers_text(struct conn *c, uint64_t handle, struct out *o);

/* Pages through providers (pid, session: 0 is all): calls `each` until it returns nonzero, which is
 * returned. */
int providers_each(struct conn *c, uint32_t pid, uint64_t session,
                   int (*each)(const Etwd__Provider *p, void *userdata), void *userdata);
