/* SPDX-License-Identifier: Apache-2.0
 *
 * The control socket's server: connections of peers the kernel names, one message a packet,
 * answers in any order. It never waits for a client. Loop thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"

struct kernel_logger;
struct loop;
struct providers;
struct server;
struct sessions;
struct state;
struct uid_workers;

struct server_env {
    struct loop *loop;
    struct state *state;         /* NULL: nobody takes over */
    struct uid_workers *workers; /* for what clients send and leave behind */
    struct providers *providers;
    struct sessions *sessions;
    struct kernel_logger *kernel;
    const struct etw_conf *conf;
    gid_t etw_gid; /* (gid_t) -1: no such group */
    unsigned cpus;
    bool image_helper;
    const char *user; /* what the daemon runs as; the caller's memory */
};

/* Serves a listening SOCK_SEQPACKET socket, taken over on success. */
int server_new(const struct server_env *env, int listen_fd, struct server **ret);
/* The connections that a predecessor had kept, with their numbers; each is told of the restart. */
void server_takeover(struct server *s);
/* Whether there is a connection of this number. */
bool server_connected(struct server *s, uint64_t number);
/* Closes every connection; what is under way answers nobody. */
struct server *server_free(struct server *s);
/* New connections are refused from now on; those there are served. */
void server_stop_listening(struct server *s);
