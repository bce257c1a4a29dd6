/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection of the control socket, from inside: shared by server.c, connection.c, dispatch.c.
 * Loop thread only.
 *
 * A request that is answered later holds no pointer to its connection, but its number: the client
 * may be gone by then.
 */
#pragma once

#include "policy.h"
#include "server.h"
#include "wire/frame.h"

struct connection;
struct uid_worker;

struct server {
    struct server_env env;
    int listen_fd;
    struct loop_watch *listen_watch;
    int spare_fd; /* given up for a moment when descriptors run out */
    uint64_t start_filetime;
    struct connection *first;
    unsigned count;
    uint64_t next_number;
};

/* server.c */
struct connection *server_find(struct server *s, uint64_t number);

/* connection.c: takes fd and the peer's workers over, also when it fails. */
int connection_new(struct server *s, int fd, const struct peer *peer, struct uid_worker *workers,
                   struct connection **ret);
struct connection *connection_free(struct connection *c);
struct connection *connection_next(const struct connection *c);
const struct peer *connection_peer(const struct connection *c);
uint64_t connection_number(const struct connection *c);
bool connection_greeted(const struct connection *c);
void connection_set_greeted(struct connection *c);
/* Sends now, or as soon as the client reads. What cannot be sent ends the connection; it is freed
 * from the loop, not inside this call. */
void connection_send(struct connection *c, const Etwd__Message *m);
/* Closes a descriptor that the client has sent, where nobody waits for it. */
void connection_close_fd(struct connection *c, int fd);
/* A request that is answered later, and its answer. */
void connection_request_begin(struct connection *c);
void connection_request_end(struct connection *c);
/* Ends it from the loop, after what waits to be sent was tried once. */
void connection_hang_up(struct connection *c);

/* dispatch.c: one message from a client; descriptors that it does not take are closed. */
void dispatch(struct connection *c, const Etwd__Message *m, int *fds, size_t n_fds);
struct server *connection_server(const struct connection *c);
