/* SPDX-License-Identifier: Apache-2.0
 *
 * See connection.h. While a reply waits for the client to read, and while too many of its requests
 * are under way, nothing more is read from it: so a client only ever fills its own socket. One that
 * reads nothing for ETWD_CONNECTION_STALL_S is cut off.
 *
 * The loop takes no descriptor of a client out of a socket and closes none: the last close may wait
 * for as long as the client likes. A worker of the client's user does both, and closes the
 * connection, in which descriptors may be left.
 */
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "io/loop.h"
#include "io/uid_workers.h"
#include "sessions/sessions.h"
#include "state/state.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

struct outgoing {
    struct outgoing *next;
    size_t size;
    size_t n_fds;
    int fds[2]; /* copies */
    uint8_t data[];
};

struct connection {
    struct server *server;
    struct connection *next;
    uint64_t number;
    int fd;
    struct peer peer;
    bool greeted;
    bool hung_up; /* ends at the next turn */
    struct loop_watch *watch;
    uint32_t watched;
    struct loop_timer *timer; /* ends it: stalled, or hung up */
    unsigned requests;
    struct outgoing *out_first, *out_last;
    unsigned n_out;
    bool updating; /* inside its own watch's callback */
    struct uid_worker *workers;
    bool receiving;                       /* a worker takes a message with descriptors out */
    struct provider_peer_state *provider; /* of a provider process; dispatch_providers.c's */
};

/* What a worker takes out; the connection may end meanwhile. */
struct incoming {
    struct server *server;
    struct uid_worker *workers;
    uint64_t connection;
    int sock;
    int result;
    Etwd__Message *message;
    int fds[ETW_MESSAGE_FDS_MAX];
    size_t n_fds;
};

static void ready(int fd, uint32_t revents, void *userdata);
static void timer_fired(void *userdata);
static void watch_update(struct connection *c);

int connection_new(struct server *s, int fd, uint64_t number, const struct peer *peer,
                   struct uid_worker *workers, struct connection **ret)
{
    int r;

    struct connection *c = calloc(1, sizeof(*c));
    if (!c) {
        uid_worker_close(workers, fd);
        uid_worker_put(workers);
        return -ENOMEM;
    }
    *c = (struct connection){
        .server = s, .number = number, .fd = fd, .peer = *peer, .workers = workers};
    r = loop_timer_new(s->env.loop, timer_fired, c, &c->timer);
    if (r == 0) {
        c->watched = POLLIN;
        r = loop_watch_new(s->env.loop, fd, POLLIN, ready, c, &c->watch);
    }
    if (r < 0) {
        loop_timer_free(c->timer);
        uid_worker_close(workers, fd);
        uid_worker_put(workers);
        free(c);
        return r;
    }
    c->next = s->first;
    s->first = c;
    s->count++;
    *ret = c;
    return 0;
}

static void outgoing_free(struct outgoing *o)
{
    /* Memory of ours: closing it waits for nobody. */
    for (size_t i = 0; i < o->n_fds; i++)
        (void) safe_close(o->fds[i]);
    free(o);
}

struct connection *connection_free(struct connection *c)
{
    if (!c)
        return NULL;
    for (struct connection **p = &c->server->first; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            c->server->count--;
            break;
        }
    state_fd_drop(c->server->env.state, STATE_FD_CONNECTION, c->number);
    dispatch_gone(c);
    loop_watch_free(c->watch);
    loop_timer_free(c->timer);
    (void) shutdown(c->fd, SHUT_RDWR); /* the peer sees its end now, whenever it is closed */
    uid_worker_close(c->workers, c->fd);
    uid_worker_put(c->workers);
    while (c->out_first) {
        struct outgoing *o = c->out_first;
        c->out_first = o->next;
        outgoing_free(o);
    }
    sessions_connection_gone(c->server->env.sessions, c->number);
    free(c);
    return NULL;
}

int connection_keep(struct connection *c)
{
    struct state *st = c->server->env.state;
    uint64_t *next;
    size_t size;
    int r = 0;

    if (!state_kept(st))
        return 0;
    /* A successor gives none of the numbers again that it finds in use. */
    state_begin(st);
    next = state_block_find(st, STATE_DAEMON, STATE_DAEMON_CONNECTIONS, &size);
    if (!next)
        r = state_block_new(st, STATE_DAEMON, STATE_DAEMON_CONNECTIONS, sizeof(*next),
                            (void **) &next);
    if (r == 0 && *next <= c->number) {
        state_save(st, next, sizeof(*next));
        *next = c->number + 1;
    }
    if (r == 0)
        r = state_fd_store(st, STATE_FD_CONNECTION, c->number, c->fd);
    state_commit(st);
    return r == -EEXIST ? 0 : r;
}

struct connection *connection_next(const struct connection *c)
{
    return c->next;
}

struct server *connection_server(const struct connection *c)
{
    return c->server;
}

const struct peer *connection_peer(const struct connection *c)
{
    return &c->peer;
}

uint64_t connection_number(const struct connection *c)
{
    return c->number;
}

bool connection_greeted(const struct connection *c)
{
    return c->greeted;
}

void connection_set_greeted(struct connection *c)
{
    c->greeted = true;
}

static void timer_fired(void *userdata)
{
    struct connection *c = userdata;
    if (!c->hung_up)
        log_notice("connection of uid %u, pid %d: it reads no replies; closed",
                   (unsigned) c->peer.uid, (int) c->peer.pid);
    connection_free(c);
}

void connection_hang_up(struct connection *c)
{
    if (c->hung_up)
        return;
    c->hung_up = true;
    if (loop_timer_arm(c->timer, 0) < 0)
        (void) shutdown(c->fd, SHUT_RDWR); /* then the watch sees its end */
}

/* A provider process that is slow to read what it is told goes on to be heard: its wakes ask for no
 * answer. */
static bool may_read(const struct connection *c)
{
    unsigned waiting = c->provider ? ETWD_CONNECTION_REPLIES / 2 : 1;
    return !c->hung_up && !c->receiving && c->n_out < waiting &&
           c->requests < ETWD_CONNECTION_REQUESTS;
}

/* What is wanted from the descriptor now. */
static void watch_update(struct connection *c)
{
    uint32_t want = 0;
    if (c->hung_up)
        want = 0;
    else {
        if (c->out_first)
            want |= POLLOUT;
        if (may_read(c))
            want |= POLLIN;
    }
    if (want == c->watched)
        return;
    c->watch = loop_watch_free(c->watch);
    c->watched = 0;
    /* Without wish a poll still tells of a peer that is gone. */
    if (loop_watch_new(c->server->env.loop, c->fd, want, ready, c, &c->watch) < 0) {
        connection_hang_up(c);
        return;
    }
    c->watched = want;
}

/* Its time to read something: a provider process may be stopped for as long as anybody likes. */
static void stall_arm(struct connection *c)
{
    if (!c->provider)
        (void) loop_timer_arm(c->timer,
                              etw_clock_boottime() + ETWD_CONNECTION_STALL_S * ETW_NSEC_PER_SEC);
}

static void out_queue(struct connection *c, const void *data, size_t size, const int *fds,
                      size_t n_fds)
{
    struct outgoing *o = NULL;
    if (c->n_out < ETWD_CONNECTION_REPLIES)
        o = malloc(sizeof(*o) + size);
    if (!o) {
        connection_hang_up(c);
        return;
    }
    o->next = NULL;
    o->size = size;
    o->n_fds = n_fds;
    for (size_t i = 0; i < n_fds; i++) {
        o->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (o->fds[i] >= 0)
            continue;
        o->n_fds = i;
        outgoing_free(o);
        connection_hang_up(c);
        return;
    }
    __builtin_memcpy(o->data, data, size);
    if (c->out_last)
        c->out_last->next = o;
    else
        c->out_first = o;
    c->out_last = o;
    if (c->n_out++ == 0)
        stall_arm(c);
}

/* 0, -EAGAIN, or the connection is hung up. */
static int out_send(struct connection *c, const void *data, size_t size, const int *fds,
                    size_t n_fds)
{
    int r = wire_send_packed(c->fd, data, size, fds, n_fds, MSG_DONTWAIT);
    if (r == 0)
        return 0;
    if (r == -EAGAIN || r == -ENOBUFS)
        return -EAGAIN;
    connection_hang_up(c);
    return -ECONNRESET;
}

void connection_send(struct connection *c, const Etwd__Message *m)
{
    connection_send_fds(c, m, NULL, 0);
}

bool connection_reads(const struct connection *c)
{
    return !c->out_first;
}

void connection_send_fds(struct connection *c, const Etwd__Message *m, const int *fds, size_t n_fds)
{
    _cleanup_free_ void *data = NULL;
    size_t size;

    if (c->hung_up)
        return;
    if (wire_pack(m, &data, &size) < 0) {
        log_error("connection of uid %u, pid %d: a reply could not be packed",
                  (unsigned) c->peer.uid, (int) c->peer.pid);
        connection_hang_up(c);
        return;
    }
    if (!c->out_first && out_send(c, data, size, fds, n_fds) != -EAGAIN)
        return;
    out_queue(c, data, size, fds, n_fds);
    if (!c->updating)
        watch_update(c);
}

void connection_request_begin(struct connection *c)
{
    c->requests++;
}

void connection_request_end(struct connection *c)
{
    c->requests--;
    if (!c->updating)
        watch_update(c);
}

static void out_flush(struct connection *c)
{
    while (c->out_first) {
        struct outgoing *o = c->out_first;
        if (out_send(c, o->data, o->size, o->fds, o->n_fds) < 0)
            return;
        c->out_first = o->next;
        if (!c->out_first)
            c->out_last = NULL;
        c->n_out--;
        outgoing_free(o);
        /* It reads: its time begins anew. */
        if (c->out_first)
            stall_arm(c);
        else
            loop_timer_disarm(c->timer);
    }
    dispatch_writable(c);
}

struct provider_peer_state *connection_provider(const struct connection *c)
{
    return c->provider;
}

void connection_set_provider(struct connection *c, struct provider_peer_state *provider)
{
    c->provider = provider;
    if (!c->hung_up)
        loop_timer_disarm(c->timer);
}

int connection_pidfd(const struct connection *c)
{
    int value = -1;
    socklen_t len = sizeof(value);
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERPIDFD, &value, &len) < 0) {
        if (errno != ENOPROTOOPT && errno != EINVAL)
            return -errno;
        value = (int) syscall(SYS_pidfd_open, c->peer.pid, 0);
        if (value < 0)
            return -errno;
    }
    return value;
}

void connection_close_fd(struct connection *c, int fd)
{
    uid_worker_close(c->workers, fd);
}

/* A message, or why there is none. */
static void in_take(struct connection *c, int r, Etwd__Message *m, int *fds, size_t n_fds)
{
    if (r < 0) {
        if (r == -EBADMSG)
            log_info("connection of uid %u, pid %d: not a message; closed", (unsigned) c->peer.uid,
                     (int) c->peer.pid);
        connection_hang_up(c);
        return;
    }
    if (n_fds > 1 && m->body_case != ETWD__MESSAGE__BODY_ENABLE_PROVIDER) {
        log_info("connection of uid %u, pid %d: descriptors that no request has; closed",
                 (unsigned) c->peer.uid, (int) c->peer.pid);
        for (size_t i = 0; i < n_fds; i++)
            connection_close_fd(c, fds[i]);
        connection_hang_up(c);
    } else
        dispatch(c, m, fds, n_fds);
    wire_message_free(m);
}

static void receive_run(void *userdata)
{
    struct incoming *in = userdata;
    in->result = wire_receive(in->sock, MSG_DONTWAIT, &in->message, in->fds, ARRAY_SIZE(in->fds),
                              &in->n_fds);
    in->sock = safe_close(in->sock);
}

static void receive_done(void *userdata)
{
    struct incoming *in = userdata;
    struct connection *c = server_find(in->server, in->connection);
    if (c) {
        c->receiving = false;
        in_take(c, in->result, in->message, in->fds, in->n_fds);
        watch_update(c);
    } else if (in->result == 0) {
        for (size_t i = 0; i < in->n_fds; i++)
            uid_worker_close(in->workers, in->fds[i]);
        wire_message_free(in->message);
    }
    uid_worker_put(in->workers);
    free(in);
}

static int receive_begin(struct connection *c)
{
    int r;

    struct incoming *in = malloc(sizeof(*in));
    if (!in)
        return -ENOMEM;
    *in = (struct incoming){.server = c->server, .connection = c->number};
    in->sock = fcntl(c->fd, F_DUPFD_CLOEXEC, 3);
    r = in->sock < 0 ? -errno : worker_submit(c->workers->files, receive_run, receive_done, in);
    if (r < 0) {
        (void) safe_close(in->sock); /* not the last of the connection */
        free(in);
        return r;
    }
    in->workers = uid_workers_get(c->server->env.workers, c->peer.uid, c->peer.privileged);
    c->receiving = true;
    return 0;
}

/* Reads what is there, in its turn. */
static void in_read(struct connection *c)
{
    for (int i = 0; i < ETWD_CONNECTION_BATCH; i++) {
        if (!may_read(c))
            return;
        Etwd__Message *m = NULL;
        size_t n_fds = 0;
        int r = wire_brings_fds(c->fd);
        if (r > 0) {
            if (receive_begin(c) < 0)
                connection_hang_up(c);
            return;
        }
        if (r == 0)
            r = wire_receive(c->fd, MSG_DONTWAIT, &m, NULL, 0, &n_fds);
        if (r == -EAGAIN || r == -EINTR)
            return;
        in_take(c, r, m, NULL, 0);
    }
}

static void ready(int fd, uint32_t revents, void *userdata)
{
    struct connection *c = userdata;
    c->updating = true;
    if (revents & POLLOUT)
        out_flush(c);
    if (c->watched & POLLIN)
        in_read(c);
    else if (revents & (POLLHUP | POLLERR))
        connection_hang_up(c);
    c->updating = false;
    watch_update(c);
}
