/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the daemon: the socket's address, connecting, and the helper thread, which reads the
 * connection and, while there is none, watches the socket's folder for a daemon that comes. It
 * sleeps in one system call at a time, recvmsg(2) or a read of inotify(7), so that nothing has to
 * wake it, and so that the files it waits for stay open when the program closes their descriptors.
 * It never runs the program's code.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../control/internal.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"

static struct sockaddr_un address;
static int address_error;

int connect_init(void)
{
    /* A path that is too long is like a daemon that does not run. */
    address_error = connection_address(&address);
    return 0;
}

int connect_socket(bool wait, int *ret_fd)
{
    int up;
    int fd;
    int r;

    if (address_error < 0)
        return address_error;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* By system calls, and no close(2), which is a cancellation point. */
    up = fcntl(fd, F_DUPFD_CLOEXEC, ETW_CLIENT_FD_MIN);
    if (up < 0 && fd <= STDERR_FILENO)
        up = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (up >= 0) {
        (void) syscall(SYS_close, fd);
        fd = up;
    }
    if (!wait && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        r = -errno;
    else
        r = 0;
    while (r == 0 &&
           syscall(SYS_connect, fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
        if (errno != EINTR)
            r = -errno;
    if (r == 0 && !wait && fcntl(fd, F_SETFL, 0) < 0)
        r = -errno;
    if (r < 0) {
        (void) syscall(SYS_close, fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

int connect_now(struct process *p)
{
    int fd;
    int r;

    r = connect_socket(false, &fd);
    if (r < 0)
        return r;
    connection_begin(p, fd);
    return 0;
}

/* ---- helper ---- */

struct watch {
    int fd;
    struct shm_identity identity;
    char next[sizeof(((struct sockaddr_un *) 0)->sun_path)]; /* the name that has to appear */
};

static bool in_charge(struct process *p, uint32_t number)
{
    return p->helper == number;
}

static void watch_close(struct watch *w)
{
    if (w->fd >= 0 && shm_identity_is(w->fd, &w->identity))
        (void) close(w->fd);
    w->fd = -1;
}

#define WATCH_EVENTS                                                                               \
    (IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

/* Watches the deepest folder on the socket's path that exists. -errno. */
static int watch_open(struct watch *w)
{
    char path[sizeof(address.sun_path)];
    size_t end = strlen(address.sun_path);

    watch_close(w);
    w->fd = inotify_init1(IN_CLOEXEC);
    if (w->fd < 0)
        return -errno;
    w->fd = fd_move_up(w->fd);
    if (shm_identity_get(w->fd, &w->identity) < 0)
        return -errno;
    for (;;) {
        size_t name;

        memcpy(path, address.sun_path, end);
        path[end] = '\0';
        while (end > 0 && path[end - 1] == '/')
            path[--end] = '\0';
        for (name = end; name > 0 && path[name - 1] != '/'; name--)
            ;
        strcpy(w->next, path + name);
        end = name;
        /* The folder that holds the name: "", "/" or what is before the slash. */
        if (end == 0)
            strcpy(path, ".");
        else if (end == 1)
            strcpy(path, "/");
        else
            path[end - 1] = '\0';
        if (inotify_add_watch(w->fd, path, WATCH_EVENTS) >= 0)
            return 0;
        if (end <= 1 || (errno != ENOENT && errno != ENOTDIR && errno != EACCES))
            return -errno;
    }
}

/* Whether the folder below the watched one came while the watch was made: then watch that. */
static bool watch_outdated(const struct watch *w)
{
    const char *base = strrchr(address.sun_path, '/');
    char path[sizeof(address.sun_path)];
    const char *at;
    size_t n = strlen(w->next);

    base = base ? base + 1 : address.sun_path;
    if (strcmp(base, w->next) == 0)
        return false;
    /* The first component of that name behind which the path goes on. */
    at = address.sun_path;
    while ((at = strstr(at, w->next))) {
        if ((at == address.sun_path || at[-1] == '/') && at[n] == '/')
            break;
        at++;
    }
    if (!at)
        return false;
    memcpy(path, address.sun_path, (size_t) (at - address.sun_path) + n);
    path[(size_t) (at - address.sun_path) + n] = '\0';
    return access(path, X_OK) == 0;
}

/* Waits for the next name, or for a change of the folder itself. limit_ms < 0: for ever. False: the
 * descriptor is not ours any more. */
static bool watch_wait(struct watch *w, int limit_ms)
{
    _Alignas(struct inotify_event) char buffer[4096];
    uint64_t deadline = etw_clock_boottime() + (uint64_t) (limit_ms < 0 ? 0 : limit_ms) * 1000000;

    for (;;) {
        ssize_t n;

        if (!shm_identity_is(w->fd, &w->identity))
            return false;
        if (limit_ms >= 0) {
            struct pollfd poll_fd = {.fd = w->fd, .events = POLLIN};
            uint64_t now = etw_clock_boottime();
            if (now >= deadline || poll(&poll_fd, 1, (int) ((deadline - now) / 1000000) + 1) == 0)
                return true;
        }
        n = read(w->fd, buffer, sizeof(buffer));
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        for (ssize_t at = 0; at + (ssize_t) sizeof(struct inotify_event) <= n;) {
            const struct inotify_event *e = (const void *) (buffer + at);
            if ((e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_Q_OVERFLOW)) ||
                (e->len > 0 && strcmp(e->name, w->next) == 0) ||
                (e->len == 0 && (e->mask & IN_ATTRIB)))
                return true;
            at += (ssize_t) (sizeof(*e) + e->len);
        }
    }
}

/* A daemon binds its socket, then listens, then lets others in: what refuses now may not in a
 * moment. After a change it is tried this often, over 5 s. */
#define TRIES 9

/* Until there is a connection (true), or another helper is in charge, or nothing can be watched. */
static bool find_daemon(struct process *p, uint32_t number, unsigned *refusals)
{
    struct watch w = {.fd = -1};
    unsigned tries = 0;

    for (;;) {
        bool mine;
        int fd;
        int r;

        r = watch_open(&w);
        if (r < 0)
            break;
        if (watch_outdated(&w))
            continue;
        process_lock(p);
        mine = in_charge(p, number);
        p->connecting = mine;
        process_unlock(p);
        if (!mine)
            break;
        r = connect_socket(true, &fd);
        process_lock(p);
        mine = in_charge(p, number);
        if (mine)
            p->connecting = false;
        if (mine && r >= 0)
            connection_begin(p, fd);
        else
            process_changed(p);
        process_unlock(p);
        if (!mine && r >= 0)
            (void) close(fd);
        if (!mine || r >= 0) {
            watch_close(&w);
            return mine;
        }
        *refusals = 0;
        if (r == -ECONNREFUSED && tries < TRIES) {
            if (!watch_wait(&w, 10 << tries++))
                tries = 0;
            continue;
        }
        tries = 0;
        (void) watch_wait(&w, -1);
    }
    watch_close(&w);
    return false;
}

/* A connection that ended before the daemon took us: it does not want us now. */
static void refused(unsigned *refusals)
{
    struct watch w = {.fd = -1};
    uint64_t ms = ETW_CLIENT_RETRY_MS;

    for (unsigned i = 0; i < *refusals && ms < ETW_CLIENT_RETRY_MAX_MS; i++)
        ms *= 2;
    if (ms > ETW_CLIENT_RETRY_MAX_MS)
        ms = ETW_CLIENT_RETRY_MAX_MS;
    (*refusals)++;
    if (watch_open(&w) < 0 || !watch_wait(&w, (int) ms))
        (void) usleep((useconds_t) (ms * 1000));
    watch_close(&w);
}

/* Reads one message and has it dispatched. False: not in charge. */
static bool hear(struct process *p, uint32_t number, struct receiver *rx, unsigned *refusals)
{
    bool attached = true;
    bool mine;
    int fd;
    int r;

    process_lock(p);
    mine = in_charge(p, number);
    fd = atomic_load(&p->fd) - 1;
    if (mine && fd >= 0 && !connection_ours(p)) {
        connection_end(p);
        fd = -1;
    }
    process_unlock(p);
    if (!mine)
        return false;
    if (fd < 0)
        return find_daemon(p, number, refusals);
    r = connection_receive(rx, fd, 0);
    process_lock(p);
    mine = in_charge(p, number);
    if (mine && r >= 0)
        r = connection_dispatch(p, rx);
    if (mine && r < 0) {
        attached = p->attached;
        connection_end(p);
    } else if (mine && p->attached) {
        *refusals = 0;
    }
    process_unlock(p);
    receiver_drop(rx);
    if (mine && !attached)
        refused(refusals);
    return mine;
}

static void *helper_main(void *arg)
{
    struct process *p = provider_process;
    uint32_t number = (uint32_t) (uintptr_t) arg;
    struct receiver *rx = NULL;
    unsigned refusals = 0;

    (void) prctl(PR_SET_NAME, "etw-helper");
    if (receiver_new(&rx) >= 0)
        while (hear(p, number, rx, &refusals))
            ;
    (void) receiver_free(rx);
    process_lock(p);
    if (in_charge(p, number)) {
        /* Nothing can be watched: the next EventRegister tries again. */
        p->helper = 0;
        p->connecting = false;
        connection_end(p);
    }
    process_changed(p);
    process_unlock(p);
    return NULL;
}

/* Not wiped: a number is never used twice. */
static uint32_t last_helper;

void helper_start(struct process *p)
{
    if (p->threadless || p->helper != 0)
        return;
    p->helper = ++last_helper;
    p->connecting = false;
    if (thread_start(helper_main, (void *) (uintptr_t) p->helper) < 0)
        p->helper = 0;
}
