/* SPDX-License-Identifier: Apache-2.0
 *
 * A client that speaks the control protocol by hand, for tests that send what libetw never would.
 * Fails the running test where it says "must". Single-threaded.
 */
#pragma once

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/winerror.h"
#include "lib/test.h"
#include "wire/frame.h"

/* A connection that must come about. */
static inline int client_connect(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    strncpy(a.sun_path, test_env("ETWD_SOCKET"), sizeof(a.sun_path) - 1);
    ck_assert_msg(connect(fd, (struct sockaddr *) &a, sizeof(a)) == 0, "connect: %m");
    return fd;
}

/* Bytes as they are, with descriptors. -errno: etwd may have closed. */
static inline int client_send_raw(int sock, const void *data, size_t size, const int *fds,
                                  size_t n_fds)
{
    union {
        char buf[CMSG_SPACE(ETW_MESSAGE_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = (void *) data, .iov_len = size};
    struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n_fds > 0) {
        struct cmsghdr *c;

        memset(&control, 0, sizeof(control));
        mh.msg_control = &control;
        mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        c = CMSG_FIRSTHDR(&mh);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    return sendmsg(sock, &mh, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The next message; NULL: etwd has closed the connection. It must come before the hang limit. */
static inline Etwd__Message *client_receive(int sock)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};
    Etwd__Message *m = NULL;
    size_t n_fds;
    int r;

    ck_assert_msg(poll(&p, 1, TEST_HANG_LIMIT_S * 1000) == 1, "etwd does not answer");
    r = wire_receive(sock, 0, &m, NULL, 0, &n_fds);
    ck_assert_msg(r == 0 || r == -ECONNRESET || r == -EPIPE, "receive: %s", strerror(-r));
    return r == 0 ? m : NULL;
}

/* A request and its answer, which must come. */
static inline Etwd__Message *client_call(int sock, Etwd__Message *m, const int *fds, size_t n_fds)
{
    static uint64_t id;
    Etwd__Message *reply;

    m->id = ++id;
    ck_assert_int_eq(wire_send(sock, m, fds, n_fds, 0), 0);
    reply = client_receive(sock);
    ck_assert_msg(reply != NULL, "etwd has closed the connection");
    ck_assert_uint_eq(reply->id, m->id);
    return reply;
}

static inline void client_hello(int sock)
{
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__Hello hello = ETWD__HELLO__INIT;

    hello.protocol = ETWD_PROTOCOL;
    hello.library = (char *) "hostile";
    m.body_case = ETWD__MESSAGE__BODY_HELLO;
    m.hello = &hello;
    reply = client_call(sock, &m, NULL, 0);
    ck_assert_uint_eq(reply->status, 0);
    wire_message_free(reply);
}

static inline int client_new(void)
{
    int sock = client_connect();

    client_hello(sock);
    return sock;
}

static inline Etwd__Message *client_query_daemon(int sock)
{
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__QueryDaemon query = ETWD__QUERY_DAEMON__INIT;

    m.body_case = ETWD__MESSAGE__BODY_QUERY_DAEMON;
    m.query_daemon = &query;
    reply = client_call(sock, &m, NULL, 0);
    ck_assert_uint_eq(reply->status, 0);
    ck_assert_int_eq(reply->body_case, ETWD__MESSAGE__BODY_DAEMON_REPLY);
    return reply;
}

/* The number of sessions, by an honest question: that etwd answers is the test. */
static inline unsigned client_count_sessions(int sock)
{
    Etwd__Message *reply = client_query_daemon(sock);
    unsigned n = reply->daemon_reply->sessions;

    wire_message_free(reply);
    return n;
}

/* Waits until this is the only connection: those that a test has closed end in their own time. */
static inline void client_wait_alone(int sock)
{
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100; i++) {
        Etwd__Message *reply = client_query_daemon(sock);
        unsigned n = reply->daemon_reply->connections;

        wire_message_free(reply);
        if (n == 1)
            return;
        usleep(10000);
    }
    ck_abort_msg("etwd keeps connections that are closed");
}

/* Starts a session; its status. handle may be NULL. */
static inline uint32_t client_start(int sock, Etwd__SessionProperties *p, bool kernel, bool bound,
                                    const int *fds, size_t n_fds, uint64_t *ret_handle)
{
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__StartSession start = ETWD__START_SESSION__INIT;
    uint32_t status;

    start.properties = p;
    start.kernel = kernel;
    start.bound = bound;
    m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    m.start_session = &start;
    reply = client_call(sock, &m, fds, n_fds);
    status = reply->status;
    if (status == 0) {
        ck_assert_int_eq(reply->body_case, ETWD__MESSAGE__BODY_SESSION_REPLY);
        if (ret_handle)
            *ret_handle = reply->session_reply->session->handle;
    } else
        ck_assert_msg(reply->reason[0] != '\0', "status %u has no reason", status);
    wire_message_free(reply);
    return status;
}

static inline uint32_t client_control(int sock, const char *name, uint64_t handle,
                                      Etwd__ControlSession__Code code)
{
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__ControlSession control = ETWD__CONTROL_SESSION__INIT;
    uint32_t status;

    control.name = (char *) (name ? name : "");
    control.handle = handle;
    control.code = code;
    m.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
    m.control_session = &control;
    reply = client_call(sock, &m, NULL, 0);
    status = reply->status;
    wire_message_free(reply);
    return status;
}

static inline uint32_t client_stop(int sock, const char *name)
{
    return client_control(sock, name, 0, ETWD__CONTROL_SESSION__CODE__STOP);
}

/* Growth of etwd that attacks of a few seconds may leave: an allocator's habits, not what they
 * sent. A sanitizer keeps freed memory. */
static inline size_t client_memory_slack_kb(void)
{
    return getenv("ETW_SANITIZED") ? 1024 * 1024 : 64 * 1024;
}

/* Waits until etwd holds no more than this many descriptors: connections end in their own time, and
 * one of before the count may still have been on its way. */
static inline void client_wait_fds(const struct test_daemon *d, size_t wanted)
{
    size_t n = 0;

    for (int i = 0; i < TEST_HANG_LIMIT_S * 100; i++) {
        test_daemon_alive(d);
        n = test_count_fds(d->pid);
        if (n <= wanted)
            return;
        usleep(10000);
    }
    ck_abort_msg("etwd holds %zu descriptors, at most %zu are expected", n, wanted);
}
