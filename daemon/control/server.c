/* SPDX-License-Identifier: Apache-2.0
 *
 * See server.h. Who a peer is comes from the kernel, at the moment it connects: SO_PEERPIDFD (or a
 * pidfd of SO_PEERCRED's process, while it provably lives), SO_PEERCRED, SO_PEERGROUPS. No NSS.
 */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/winerror.h"
#include "connection.h"
#include "io/loop.h"
#include "io/uid_workers.h"
#include "state/state.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

static void listen_ready(int fd, uint32_t revents, void *userdata);

int server_new(const struct server_env *env, int listen_fd, struct server **ret)
{
    int r;

    struct server *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    *s = (struct server){
        .env = *env,
        .listen_fd = -1,
        .spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
        .start_filetime = etw_filetime_now(),
        .next_number = 1,
    };
    r = loop_watch_new(env->loop, listen_fd, POLLIN, listen_ready, s, &s->listen_watch);
    if (r < 0) {
        server_free(s);
        return r;
    }
    /* Nobody can send descriptors before we know who it is (Linux 6.16). */
    (void) setsockopt(listen_fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
    s->listen_fd = listen_fd;
    *ret = s;
    return 0;
}

void server_stop_listening(struct server *s)
{
    s->listen_watch = loop_watch_free(s->listen_watch);
    s->listen_fd = safe_close(s->listen_fd);
}

struct server *server_free(struct server *s)
{
    if (!s)
        return NULL;
    while (s->first)
        connection_free(s->first);
    server_stop_listening(s);
    uid_workers_settle(s->env.workers);
    (void) safe_close(s->spare_fd);
    free(s);
    return NULL;
}

struct connection *server_find(struct server *s, uint64_t number)
{
    for (struct connection *c = s->first; c; c = connection_next(c))
        if (connection_number(c) == number)
            return c;
    return NULL;
}

/* That the process SO_PEERCRED names still is the one that connected: with its pidfd from the
 * socket, or one that we open and see alive afterwards. The pidfd itself is not kept: nothing asks
 * the process later. */
static int peer_alive(int fd, pid_t pid)
{
    int value = -1;
    socklen_t len = sizeof(value);
    _cleanup_close_ int pidfd = -1;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &value, &len) == 0)
        pidfd = value;
    else if (errno == ENOPROTOOPT || errno == EINVAL)
        pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0)
        return -ESRCH;
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, 0) == 0 ? 0 : -ESRCH;
}

static int peer_identify(const struct server *s, int fd, struct peer *ret)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int r;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -errno;
    r = peer_alive(fd, cred.pid);
    if (r < 0)
        return r;

    _cleanup_free_ gid_t *groups = NULL;
    len = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) < 0 && errno == ERANGE) {
        if (len > ETWD_GROUPS_MAX * sizeof(gid_t))
            return -E2BIG;
        groups = malloc(len);
        if (!groups)
            return -ENOMEM;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0)
            return -errno;
    } else
        len = 0;
    *ret = (struct peer){
        .uid = cred.uid,
        .gid = cred.gid,
        .pid = cred.pid,
        .privileged =
            policy_privileged(cred.uid, cred.gid, groups, len / sizeof(gid_t), s->env.etw_gid),
    };
    return 0;
}

static unsigned connections_of(const struct server *s, uid_t uid)
{
    unsigned n = 0;
    for (const struct connection *c = s->first; c; c = connection_next(c))
        n += connection_peer(c)->uid == uid;
    return n;
}

/* A reply to whatever it sends. Its messages are taken out of the socket, and no more can come in:
 * else closing would make the kernel report a reset in place of our reply. */
static void refuse_connection(int fd, char *reason)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    char byte;

    (void) shutdown(fd, SHUT_RD);
    while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) > 0)
        ;
    m.status = ETW_ERROR_NO_SYSTEM_RESOURCES;
    m.reason = reason;
    (void) wire_send(fd, &m, NULL, 0, MSG_DONTWAIT);
}

struct refused {
    struct uid_worker *workers;
    int fd;
    char reason[128];
};

static void refuse_run(void *userdata)
{
    struct refused *f = userdata;
    refuse_connection(f->fd, f->reason);
    (void) safe_close(f->fd);
}

static void refuse_done(void *userdata)
{
    struct refused *f = userdata;
    uid_worker_put(f->workers);
    free(f);
}

static void refuse_quota(struct server *s, const struct peer *peer, struct uid_worker *workers,
                         int fd)
{
    struct refused *f = malloc(sizeof(*f));
    if (f) {
        *f = (struct refused){.workers = workers, .fd = fd};
        (void) snprintf(f->reason, sizeof(f->reason),
                        "quota of connections of uid %u (MaxConnections=%lu)", (unsigned) peer->uid,
                        s->env.conf->max_connections);
        if (worker_submit(workers->files, refuse_run, refuse_done, f) == 0)
            return;
        free(f);
    }
    uid_worker_close(workers, fd);
    uid_worker_put(workers);
}

static void accept_one(struct server *s, int fd)
{
    struct uid_worker *workers;
    struct peer peer;
    struct connection *c;
    int r;

    r = peer_identify(s, fd, &peer);
    if (r < 0) {
        log_info("connection: failed to identify the peer: %s", strerror(-r));
        workers = uid_workers_get(s->env.workers, (uid_t) -1, false);
        uid_worker_close(workers, fd);
        uid_worker_put(workers);
        return;
    }
    workers = uid_workers_get(s->env.workers, peer.uid, peer.privileged);
    unsigned held = connections_of(s, peer.uid);
    if (!peer.privileged)
        held += uid_worker_closing(workers); /* descriptors that it holds us up with */
    if (held >= s->env.conf->max_connections) {
        refuse_quota(s, &peer, workers, fd);
        return;
    }
    (void) setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){1}, sizeof(int));
    r = connection_new(s, fd, s->next_number++, &peer, workers, &c);
    if (r < 0)
        log_error("connection of uid %u, pid %d: %s", (unsigned) peer.uid, (int) peer.pid,
                  strerror(-r));
}

/* A connection of a predecessor; the peer is asked for anew, and may be gone. */
static int adopt(struct server *s, uint64_t number, struct connection **ret)
{
    struct peer peer;
    int r;

    int fd = state_fd_take(s->env.state, STATE_FD_CONNECTION, number);
    if (fd < 0)
        return fd;
    r = peer_identify(s, fd, &peer);
    if (r < 0) {
        struct uid_worker *w = uid_workers_get(s->env.workers, (uid_t) -1, false);
        uid_worker_close(w, fd);
        uid_worker_put(w);
        return r;
    }
    r = connection_new(s, fd, number, &peer,
                       uid_workers_get(s->env.workers, peer.uid, peer.privileged), ret);
    if (r < 0)
        return r;
    connection_set_greeted(*ret); /* only such are kept */
    return 0;
}

void server_takeover(struct server *s)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Restarted body = ETWD__RESTARTED__INIT;
    uint64_t position = 0, number;
    size_t size;

    const uint64_t *next =
        state_block_find(s->env.state, STATE_DAEMON, STATE_DAEMON_CONNECTIONS, &size);
    if (next && size == sizeof(*next) && *next > s->next_number)
        s->next_number = *next;
    m.body_case = ETWD__MESSAGE__BODY_RESTARTED;
    m.restarted = &body;
    while (state_fd_next(s->env.state, STATE_FD_CONNECTION, &position, &number)) {
        struct connection *c;
        int r = adopt(s, number, &c);
        if (r < 0) {
            log_info("connection %llu of the etwd before: %s", (unsigned long long) number,
                     r == -ESRCH ? "its process is gone" : strerror(-r));
            state_fd_drop(s->env.state, STATE_FD_CONNECTION, number);
            continue;
        }
        dispatch_adopted(c);
        connection_send(c, &m);
        dispatch_resumed(c);
    }
}

bool server_connected(struct server *s, uint64_t number)
{
    return server_find(s, number) != NULL;
}

/* No descriptor is left: the client is told instead of waiting in the queue, which would keep the
 * loop awake. */
static void accept_refuse(struct server *s, int listen_fd)
{
    if (s->spare_fd < 0)
        return;
    (void) close(s->spare_fd);
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        char reason[] = "etwd has no descriptor left (LimitNOFILE)";
        refuse_connection(fd, reason);
        (void) close(fd);
    }
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void listen_ready(int listen_fd, uint32_t revents, void *userdata)
{
    struct server *s = userdata;
    for (int i = 0; i < ETWD_CONNECTION_BATCH; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            accept_one(s, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE)
            accept_refuse(s, listen_fd);
        return;
    }
}
