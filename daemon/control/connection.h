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
struct provider_peer_state;
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

/* connection.c: takes fd and the peer's workers over, also when it fails. number: the server's
 * next, or that which a predecessor gave. */
int connection_new(struct server *s, int fd, uint64_t number, const struct peer *peer,
                   struct uid_worker *workers, struct connection **ret);
/* It outlives this etwd: into the service manager's store. Again: nothing happens. -EDQUOT: the
 * store is full (FdStoreMax). */
int connection_keep(struct connection *c);
struct connection *connection_free(struct connection *c);
struct connection *connection_next(const struct connection *c);
const struct peer *connection_peer(const struct connection *c);
uint64_t connection_number(const struct connection *c);
bool connection_greeted(const struct connection *c);
void connection_set_greeted(struct connection *c);
/* Sends now, or as soon as the client reads. What cannot be sent ends the connection; it is freed
 * from the loop, not inside this call. */
void connection_send(struct connection *c, const Etwd__Message *m);
/* With descriptors of ours, at most two; they stay the caller's. */
void connection_send_fds(struct connection *c, const Etwd__Message *m, const int *fds,
                         size_t n_fds);
/* Nothing waits to be read by the client. */
bool connection_reads(const struct connection *c);
/* What dispatch_providers.c knows of it; a connection with one is never cut off because it does not
 * read. */
struct provider_peer_state *connection_provider(const struct connection *c);
void connection_set_provider(struct connection *c, struct provider_peer_state *provider);
/* A pidfd of the peer, for the caller. -ESRCH: it is gone. */
int connection_pidfd(const struct connection *c);
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
/* The connection ends; all that waited to be sent was. */
void dispatch_gone(struct connection *c);
void dispatch_writable(struct connection *c);
/* A connection that a predecessor kept: whose it is; what it may have missed, once it was told. */
void dispatch_adopted(struct connection *c);
void dispatch_resumed(struct connection *c);
