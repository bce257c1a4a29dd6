/* SPDX-License-Identifier: Apache-2.0
 *
 * etwctl's connection to etwd; see connect.h. One thread.
 */
#include "connect.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/winerror.h"
#include "output.h"

/* Starting the kernel logger loads programs and walks /proc: seconds on a busy machine. Beyond this
 * the daemon hangs. */
#define REPLY_TIMEOUT_MS 60000

const char *conn_socket_path(void)
{
    const char *path = secure_getenv("ETWD_SOCKET");

    return path && *path ? path : ETWD_SOCKET_DEFAULT;
}

void conn_close(struct conn *c)
{
    c->fd = safe_close(c->fd);
    free(c->path);
    free(c->version);
    *c = CONN_INIT;
}

/* The reply to one of the requests first to last; other notifications and late replies to others
 * are passed over. -ERESTART: another etwd serves the connection, which may not know of them. */
static int wait_reply(struct conn *c, uint64_t first, uint64_t last, Etwd__Message **ret)
{
    uint64_t end = etw_clock_ns(CLOCK_MONOTONIC) + REPLY_TIMEOUT_MS * 1000000ull;

    for (;;) {
        _cleanup_message_ Etwd__Message *m = NULL;
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        uint64_t now = etw_clock_ns(CLOCK_MONOTONIC);
        size_t n_fds;
        int r;

        if (now >= end)
            return -ETIMEDOUT;
        r = poll(&p, 1, (int) ((end - now) / 1000000) + 1);
        if (r < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (r == 0)
            continue;
        r = wire_receive(c->fd, MSG_DONTWAIT, &m, NULL, 0, &n_fds);
        if (r == -EAGAIN || r == -EINTR)
            continue;
        if (r < 0)
            return r;
        if (m->id == 0 && m->body_case == ETWD__MESSAGE__BODY_RESTARTED)
            return -ERESTART;
        if (m->id < first || m->id > last)
            continue;
        *ret = TAKE_PTR(m);
        return 0;
    }
}

/* What came since the last call: nothing of it is for the next one. */
static void pass_over(struct conn *c)
{
    for (;;) {
        _cleanup_message_ Etwd__Message *m = NULL;
        size_t n_fds;
        if (wire_receive(c->fd, MSG_DONTWAIT, &m, NULL, 0, &n_fds) < 0)
            return;
    }
}

int conn_call(struct conn *c, Etwd__Message *request, const int *fds, size_t n_fds,
              Etwd__Message **ret_reply)
{
    uint64_t first = c->last_id + 1;
    int r;

    pass_over(c);
    do {
        request->id = ++c->last_id;
        do
            r = wire_send(c->fd, request, fds, n_fds, 0);
        while (r == -EINTR);
        if (r < 0)
            return r;
        r = wait_reply(c, first, request->id, ret_reply);
    } while (r == -ERESTART);
    return r;
}

int conn_open(struct conn *c)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    const char *path = conn_socket_path();
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_close_ int fd = -1;
    int r;

    free(c->path);
    c->path = strdup(path);
    if (!c->path)
        return -ENOMEM;
    if (strlen(path) >= sizeof(sa.sun_path))
        return -ENAMETOOLONG;
    strcpy(sa.sun_path, path);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *) &sa, sizeof(sa)) < 0)
        return -errno;

    c->fd = take_fd(&fd);
    Etwd__Hello hello = ETWD__HELLO__INIT;
    Etwd__Message m = ETWD__MESSAGE__INIT;
    hello.protocol = ETWD_PROTOCOL;
    hello.library = (char *) "etwctl " ETWD_VERSION;
    m.body_case = ETWD__MESSAGE__BODY_HELLO;
    m.hello = &hello;
    r = conn_call(c, &m, NULL, 0, &reply);
    if (r == 0 && reply->status == ETW_ERROR_REVISION_MISMATCH)
        r = -EPROTONOSUPPORT;
    else if (r == 0 && reply->status == ETW_ERROR_ACCESS_DENIED)
        r = -EACCES;
    else if (r == 0 && reply->status == ETW_ERROR_NO_SYSTEM_RESOURCES)
        r = -EUSERS;
    else if (r == 0 && (reply->status || reply->body_case != ETWD__MESSAGE__BODY_HELLO_REPLY))
        r = -EPROTO;
    if (r < 0) {
        c->fd = safe_close(c->fd);
        return r;
    }
    c->processors = reply->hello_reply->processors;
    c->version = strdup(reply->hello_reply->version);
    return c->version ? 0 : -ENOMEM;
}

int conn_explain(const struct conn *c, int error)
{
    const char *path = c->path ? c->path : conn_socket_path();

    switch (-error) {
    case ENOENT:
        say("etwd is not reachable: there is no socket %s: start it (systemctl start etwd), or set "
            "ETWD_SOCKET to the socket of the daemon you mean",
            path);
        return EXIT_UNREACHABLE;
    case ECONNREFUSED:
        say("etwd is not reachable: nobody listens on %s: start it (systemctl start etwd), or set "
            "ETWD_SOCKET to the socket of the daemon you mean",
            path);
        return EXIT_UNREACHABLE;
    case EACCES:
    case EPERM:
        say("access to etwd's socket %s is denied: run as root, or join group 'etw' (usermod -aG "
            "etw USER) and log in again",
            path);
        return EXIT_DENIED;
    case EPROTONOSUPPORT:
        say("etwd on %s speaks another protocol version than this etwctl (%s): install the same "
            "version of both",
            path, ETWD_VERSION);
        return EXIT_UNREACHABLE;
    case EUSERS:
        say("etwd on %s refuses more connections of this user (MaxConnections= in etwd.conf)",
            path);
        return EXIT_UNREACHABLE;
    case ECONNRESET:
    case EPIPE:
        say("etwd closed the connection (%s): see its messages (journalctl -u etwd)", path);
        return EXIT_UNREACHABLE;
    case ETIMEDOUT:
        say("etwd does not answer on %s: see its messages (journalctl -u etwd)", path);
        return EXIT_UNREACHABLE;
    case ENOMEM:
        say("not enough memory");
        return EXIT_ERROR;
    default:
        say("etwd is not reachable through %s: %s", path, strerror(-error));
        return EXIT_UNREACHABLE;
    }
}

int reply_explain(const char *subject, const Etwd__Message *reply)
{
    const char *text = etw_winerror_text(reply->status);
    const char *name = etw_winerror_name(reply->status);
    _cleanup_free_ char *cause = NULL;

    cause = text ? strdup(text) : NULL;
    if (cause) {
        size_t len = strlen(cause);
        if (len > 0 && cause[len - 1] == '.')
            cause[len - 1] = '\0';
        cause[0] = (char) tolower((unsigned char) cause[0]);
    }
    /* the daemon's reason says more than the code's text */
    const char *why = reply->reason[0] ? reply->reason : cause ? cause : "etwd refused";
    if (name)
        say("%s: %s (%s)", subject, why, name);
    else
        say("%s: %s (code %u)", subject, why, reply->status);
    return reply->status == ETW_ERROR_ACCESS_DENIED ? EXIT_DENIED : EXIT_ERROR;
}

int conn_open_or_say(struct conn *c)
{
    int r;

    r = conn_open(c);
    return r < 0 ? conn_explain(c, r) : EXIT_OK;
}

int conn_call_or_say(struct conn *c, const char *subject, Etwd__Message *request, const int *fds,
                     size_t n_fds, Etwd__Message__BodyCase want, Etwd__Message **ret_reply)
{
    _cleanup_message_ Etwd__Message *reply = NULL;
    int r;

    r = conn_call(c, request, fds, n_fds, &reply);
    if (r < 0)
        return conn_explain(c, r);
    if (reply->status != ETW_ERROR_SUCCESS)
        return reply_explain(subject, reply);
    if (reply->body_case != want) {
        say("%s: etwd's reply is not what was asked for", subject);
        return EXIT_ERROR;
    }
    *ret_reply = TAKE_PTR(reply);
    return EXIT_OK;
}
