/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd-image's broker (broker.h). One thread.
 *
 * One request is in work at a time; the others wait in the socket, in order. The worker is started
 * for the first request and again after it ended. A worker that crashes or misbehaves costs the
 * request it had (-EIO); one that does not answer in time is killed (-ETIMEDOUT).
 */
#include "image/broker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "image/opener.h"
#include "image/protocol.h"
#include "image/worker.h"

/* Messages about workers at most this often: a user can make one crash at will, if there is a way
 * at all. */
#define LOG_INTERVAL_NS (60 * ETW_NSEC_PER_SEC)

struct broker {
    int etwd_fd;
    struct opener *opener;
    sigset_t wait_mask; /* while waiting: SIGCHLD open */

    pid_t worker_pid; /* -1: none */
    int worker_fd;
    unsigned stuck; /* killed, not gone yet */
    bool unsafe;    /* a worker could not lock itself in */
    uint64_t next_log;

    bool busy;
    uint64_t deadline;
    struct image_reply reply; /* of the request in work; id, change_time_ns filled in */
};

static void on_sigchld(int sig)
{
    (void) sig; /* ends ppoll() */
}

static bool may_log(struct broker *b)
{
    uint64_t now = etw_clock_boottime();

    if (now < b->next_log)
        return false;
    b->next_log = now + LOG_INTERVAL_NS;
    return true;
}

/* The worker as far as we are concerned: its socket closed, its process told to go. reap() counts
 * it out. */
static void drop_worker(struct broker *b)
{
    b->worker_fd = safe_close(b->worker_fd);
    if (b->worker_pid < 0)
        return;
    (void) kill(b->worker_pid, SIGKILL);
    b->worker_pid = -1;
    b->stuck++;
}

static void reap(struct broker *b)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);

        if (pid <= 0)
            return;
        if (pid == b->worker_pid)
            b->worker_pid = -1; /* its socket tells the rest */
        else if (b->stuck > 0)
            b->stuck--;
        if (WIFEXITED(status) && WEXITSTATUS(status) == IMAGE_WORKER_EXIT_UNSAFE)
            b->unsafe = true;
        if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && may_log(b))
            log_warning("image worker: ended by signal %d while it read a file; that image comes "
                        "without identity, the next has a new worker",
                        WTERMSIG(status));
    }
}

static int start_worker(struct broker *b)
{
    _cleanup_close_ int ours = -1, theirs = -1;
    pid_t parent = getpid();
    int pair[2];
    pid_t pid;

    if (b->stuck >= ETW_IMAGE_WORKERS_STUCK_MAX)
        return -EBUSY;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ours = pair[0];
    theirs = pair[1];
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != parent)
            _exit(EXIT_FAILURE);
        (void) signal(SIGCHLD, SIG_DFL);
        image_worker_run(theirs);
    }
    b->worker_pid = pid;
    b->worker_fd = take_fd(&ours);
    return 0;
}

static int send_reply(struct broker *b)
{
    ssize_t n;

    do
        n = send(b->etwd_fd, &b->reply, sizeof(b->reply), MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

static int answer(struct broker *b, int status)
{
    b->busy = false;
    b->reply.status = status;
    return send_reply(b);
}

static int send_task(int sock, const struct image_task *task, int fd)
{
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {.iov_base = (void *) task, .iov_len = sizeof(*task)};
    struct msghdr mh = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&mh);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    /* The worker has read all before: the socket is empty. */
    return sendmsg(sock, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Gives the file to the worker. A worker that died while it had nothing to do is replaced. */
static int give_to_worker(struct broker *b, int fd, const struct opened_image *image)
{
    struct image_task task = {
        .protocol = IMAGE_PROTOCOL,
        .id = b->reply.id,
        .size = image->size,
    };
    int r = -EIO;

    for (int attempt = 0; attempt < 2; attempt++) {
        if (b->worker_fd < 0) {
            r = start_worker(b);
            if (r < 0)
                return r;
        }
        r = send_task(b->worker_fd, &task, fd);
        if (r == 0)
            break;
        drop_worker(b);
    }
    if (r < 0)
        return r;
    b->busy = true;
    b->deadline = etw_clock_boottime() + ETW_IMAGE_WORKER_MS * 1000000ULL;
    return 0;
}

/* One packet of etwd with at most one descriptor. Size of the packet; 0: etwd has closed. */
static ssize_t receive_request(int sock, void *buf, size_t size, int *ret_fd)
{
    union {
        /* Room for two: a second one is seen, and closed, not silently dropped. */
        char buf[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = buf, .iov_len = size};
    struct msghdr mh = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    _cleanup_close_ int fd = -1;
    bool bad = false;
    ssize_t n;

    do
        n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&mh); c; c = CMSG_NXTHDR(&mh, c)) {
        size_t n_fds;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n_fds; i++) {
            int received;

            memcpy(&received, CMSG_DATA(c) + i * sizeof(int), sizeof(received));
            if (fd < 0)
                fd = received;
            else {
                safe_close(received);
                bad = true;
            }
        }
    }
    if (bad || (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return -EBADMSG;
    *ret_fd = take_fd(&fd);
    return n;
}

/* Checks a request on the private copy. path becomes NULL or NUL-terminated. */
static int check_request(struct image_request *req, size_t size, int pidfd, const char **ret_path)
{
    char *path = req->path;
    size_t path_size;

    if (req->protocol != IMAGE_PROTOCOL)
        return -EPROTO;
    path_size = size - sizeof(*req);
    if (req->path_size != path_size || path_size > IMAGE_PATH_MAX ||
        memchr(path, '\0', path_size) != NULL)
        return -EBADMSG;
    if ((req->has_pidfd != 0) != (pidfd >= 0) || (pidfd >= 0 && req->pid <= 0))
        return -EBADMSG;
    if (req->start >= req->end)
        return -EBADMSG;
    path[path_size] = '\0';
    *ret_path = path_size > 0 ? path : NULL;
    return 0;
}

/* 0, or -errno when etwd is gone (-ECONNRESET) or the socket fails. */
static int on_request(struct broker *b)
{
    static union {
        char buf[sizeof(struct image_request) + IMAGE_PATH_MAX + 1]; /* NUL */
        struct image_request req;
    } packet;
    _cleanup_close_ int pidfd = -1, fd = -1;
    struct opened_image image;
    const char *path;
    ssize_t n;
    int r;

    n = receive_request(b->etwd_fd, &packet, sizeof(packet) - 1, &pidfd);
    if (n == 0)
        return -ECONNRESET;
    if (n == -EAGAIN)
        return 0;
    if (n < 0 && n != -EBADMSG)
        return (int) n;

    memset(&b->reply, 0, sizeof(b->reply));
    b->reply.protocol = IMAGE_PROTOCOL;
    if (n < (ssize_t) sizeof(struct image_request))
        return answer(b, -EBADMSG);
    b->reply.id = packet.req.id;

    r = check_request(&packet.req, (size_t) n, pidfd, &path);
    if (r < 0)
        return answer(b, r);
    r = opener_open(b->opener, &packet.req, path, pidfd, &fd, &image);
    if (r < 0)
        return answer(b, r);
    b->reply.change_time_ns = image.change_time_ns;
    r = give_to_worker(b, fd, &image);
    if (r < 0)
        return answer(b, -EIO);
    return 0;
}

/* The worker's answer, checked and copied field by field. */
static int on_answer(struct broker *b)
{
    struct image_reply w;
    ssize_t n;

    do
        n = recv(b->worker_fd, &w, sizeof(w), MSG_DONTWAIT | MSG_TRUNC);
    while (n < 0 && errno == EINTR);
    if (n == -1 && errno == EAGAIN)
        return 0;
    if (n != sizeof(w) || !b->busy || w.protocol != IMAGE_PROTOCOL || w.id != b->reply.id ||
        w.status > 0 || w.status < -4095 || w.build_id_size > IMAGE_BUILD_ID_MAX) {
        if (n > 0 && may_log(b))
            log_warning("image worker: gave an answer that makes no sense; that image comes "
                        "without identity, the next has a new worker");
        drop_worker(b);
        return b->busy ? answer(b, -EIO) : 0;
    }
    if (w.status == 0) {
        b->reply.first_vaddr = w.first_vaddr;
        b->reply.span = w.span;
        b->reply.exec_vaddr = w.exec_vaddr;
        b->reply.exec_offset = w.exec_offset;
        b->reply.build_id_size = w.build_id_size;
        memcpy(b->reply.build_id, w.build_id, w.build_id_size);
    }
    return answer(b, w.status);
}

static int on_timeout(struct broker *b)
{
    if (may_log(b))
        log_warning("image worker: no answer in %d ms, killed; that image comes without identity, "
                    "the next has a new worker",
                    ETW_IMAGE_WORKER_MS);
    drop_worker(b);
    return answer(b, -ETIMEDOUT);
}

static int turn(struct broker *b)
{
    struct pollfd p[2] = {
        /* Busy: only whether etwd is still there. */
        {.fd = b->etwd_fd, .events = b->busy ? 0 : POLLIN},
        {.fd = b->worker_fd, .events = POLLIN},
    };
    struct timespec ts, *timeout = NULL;
    int r;

    if (b->busy) {
        uint64_t now = etw_clock_boottime();
        uint64_t left = b->deadline > now ? b->deadline - now : 0;

        ts = (struct timespec){.tv_sec = (time_t) (left / ETW_NSEC_PER_SEC),
                               .tv_nsec = (long) (left % ETW_NSEC_PER_SEC)};
        timeout = &ts;
    }
    r = ppoll(p, 2, timeout, &b->wait_mask);
    if (r < 0 && errno != EINTR)
        return -errno;
    reap(b);
    if (b->unsafe)
        return -EPERM;
    if (r < 0)
        return 0;
    if (b->worker_fd >= 0 && p[1].revents) {
        r = on_answer(b);
        if (r < 0)
            return r;
    } else if (b->busy && etw_clock_boottime() >= b->deadline) {
        r = on_timeout(b);
        if (r < 0)
            return r;
    }
    if (p[0].revents & POLLIN && !b->busy)
        return on_request(b);
    if (p[0].revents & (POLLHUP | POLLERR))
        return -ECONNRESET;
    return 0;
}

int image_broker_run(int etwd_fd)
{
    struct broker b = {.etwd_fd = etwd_fd, .worker_pid = -1, .worker_fd = -1};
    struct sigaction sa = {.sa_handler = on_sigchld};
    sigset_t block;
    int r;

    /* SIGCHLD comes in ppoll() only, so that none is missed between reap() and the wait. */
    (void) sigemptyset(&block);
    (void) sigaddset(&block, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &block, &b.wait_mask) < 0)
        return -errno;
    (void) sigdelset(&b.wait_mask, SIGCHLD);
    if (sigaction(SIGCHLD, &sa, NULL) < 0)
        return -errno;
    r = opener_new(&b.opener);
    if (r < 0)
        return r;

    do
        r = turn(&b);
    while (r == 0);

    drop_worker(&b);
    opener_free(b.opener);
    /* A closed socket is how etwd says that it is over. */
    return r == -ECONNRESET || r == -EPIPE ? 0 : r;
}
