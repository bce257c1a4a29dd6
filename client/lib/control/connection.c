/* SPDX-License-Identifier: Apache-2.0
 *
 * One exchange with etwd: connect, hello, request, reply, close. Control calls are rare and a
 * connection costs some 100 us, so none is kept between calls: there is nothing that fork(2),
 * setuid(2), closefrom(3) or a restarted daemon could spoil, and threads share nothing. Any thread.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"

/* What the caller gets when the exchange itself fails. */
static uint32_t connection_code(int r)
{
    switch (r) {
    case -EACCES:
    case -EPERM:
        return ERROR_ACCESS_DENIED;
    case -ENOMEM:
        return ERROR_NOT_ENOUGH_MEMORY;
    case -EMFILE:
    case -ENFILE:
        return ERROR_TOO_MANY_OPEN_FILES;
    case -ETOOMANYREFS: /* descriptors in flight of this user, unix(7) */
        return ERROR_NO_SYSTEM_RESOURCES;
    default:
        return ERROR_WMI_SERVER_UNAVAILABLE;
    }
}

int fd_move_up(int fd)
{
    int up;

    if (fd >= ETW_CLIENT_FD_MIN)
        return fd;
    up = fcntl(fd, F_DUPFD_CLOEXEC, ETW_CLIENT_FD_MIN);
    if (up < 0 && fd <= STDERR_FILENO) /* a small RLIMIT_NOFILE: at least out of the way */
        up = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (up < 0)
        return fd;
    (void) safe_close(fd);
    return up;
}

int connection_address(struct sockaddr_un *ret)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    const char *path;
    size_t n;

    path = secure_getenv("ETWD_SOCKET");
    if (!path || !*path)
        path = ETWD_SOCKET_DEFAULT;
    n = strlen(path);
    if (n >= sizeof(sa.sun_path))
        return -ENAMETOOLONG;
    memcpy(sa.sun_path, path, n + 1);
    *ret = sa;
    return 0;
}

static int connection_socket(int *ret_fd)
{
    const struct timeval limit = {.tv_sec = ETW_CLIENT_HELLO_MS / 1000};
    _cleanup_close_ int fd = -1;
    struct sockaddr_un sa;
    int r;

    r = connection_address(&sa);
    if (r < 0)
        return r;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    fd = fd_move_up(fd);
    /* A stopped daemon whose queue is full would keep connect(2) for ever. */
    (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    for (;;) {
        if (connect(fd, (const struct sockaddr *) &sa, sizeof(sa)) == 0)
            break;
        if (errno != EINTR) /* a unix socket's connect may simply be tried again */
            return -errno;
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

/* Waits until there is something to read. limit_ms < 0: for ever. 0; -ETIMEDOUT; -errno. */
static int wait_readable(int fd, int limit_ms)
{
    uint64_t deadline = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (limit_ms >= 0)
        deadline = etw_clock_boottime() + (uint64_t) limit_ms * 1000000;
    for (;;) {
        int n, left = -1;
        if (limit_ms >= 0) {
            uint64_t now = etw_clock_boottime();
            if (now >= deadline)
                return -ETIMEDOUT;
            left = (int) ((deadline - now) / 1000000) + 1;
        }
        n = poll(&p, 1, left);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

/* The reply with this id; what has another is not for us and dropped. */
static int receive_reply(int fd, uint64_t id, int limit_ms, Etwd__Message **ret)
{
    for (;;) {
        _cleanup_message_ Etwd__Message *m = NULL;
        size_t n_fds;
        int r;

        r = wait_readable(fd, limit_ms);
        if (r < 0)
            return r;
        r = wire_receive(fd, 0, &m, NULL, 0, &n_fds);
        if (r < 0)
            return r;
        if (m->id == id) {
            *ret = TAKE_PTR(m);
            return 0;
        }
    }
}

static int exchange(int fd, uint64_t id, Etwd__Message *request, const int *fds, size_t n_fds,
                    int limit_ms, Etwd__Message **ret_reply, bool *ret_sent)
{
    int r;

    request->id = id;
    r = wire_send(fd, request, fds, n_fds, 0);
    if (r < 0)
        return r;
    *ret_sent = true;
    return receive_reply(fd, id, limit_ms, ret_reply);
}

int connection_open(int *ret_fd, uint32_t *ret_code)
{
    static const char library[] = "libetw " ETWD_VERSION;
    Etwd__Hello hello = ETWD__HELLO__INIT;
    Etwd__Message request = ETWD__MESSAGE__INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_close_ int fd = -1;
    bool sent = false;
    int r;

    r = connection_socket(&fd);
    if (r < 0) {
        *ret_code = connection_code(r);
        return r;
    }
    hello.protocol = ETWD_PROTOCOL;
    hello.library = (char *) (uintptr_t) library;
    request.body_case = ETWD__MESSAGE__BODY_HELLO;
    request.hello = &hello;
    r = exchange(fd, 1, &request, NULL, 0, ETW_CLIENT_HELLO_MS, &reply, &sent);
    if (r < 0) {
        *ret_code = connection_code(r);
        return r;
    }
    if (reply->status != ERROR_SUCCESS) {
        *ret_code = reply->status;
        return -EPROTO;
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

int connection_call(int fd, Etwd__Message *request, const int *fds, size_t n_fds,
                    Etwd__Message **ret_reply, bool *ret_sent, uint32_t *ret_code)
{
    int r;

    *ret_sent = false;
    /* No limit: a stop lasts as long as the disk needs. A daemon that dies closes the connection.
     */
    r = exchange(fd, 2, request, fds, n_fds, -1, ret_reply, ret_sent);
    if (r < 0)
        *ret_code = connection_code(r);
    return r;
}
