/* SPDX-License-Identifier: Apache-2.0
 *
 * One message to or from the daemon with system calls only: no malloc(3), no lock of libc, no
 * cancellation point, since a child of a raw clone(2) and a signal handler come here too. Not what
 * a message means (attach.c). The connection's descriptor is looked at before each use: programs
 * close what they do not know.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "message.h"

/* What unpacking a packet of ETW_MESSAGE_MAX bytes takes: its bytes once more, and the structs. */
#define POOL_SIZE (ETW_MESSAGE_MAX + 32768)

struct receiver {
    struct received got;
    size_t pool_used;
    uint8_t packet[ETW_MESSAGE_MAX];
    _Alignas(16) uint8_t pool[POOL_SIZE];
};

int receiver_new(struct receiver **ret)
{
    void *m = mmap(NULL, sizeof(struct receiver), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (m == MAP_FAILED)
        return -ENOMEM;
    *ret = m;
    return 0;
}

struct receiver *receiver_free(struct receiver *rx)
{
    if (rx) {
        receiver_drop(rx);
        (void) munmap(rx, sizeof(*rx));
    }
    return NULL;
}

static void raw_close(int fd)
{
    (void) syscall(SYS_close, fd);
}

void receiver_drop(struct receiver *rx)
{
    for (size_t i = 0; i < rx->got.n_fds; i++)
        if (rx->got.fds[i] >= 0)
            raw_close(rx->got.fds[i]);
    rx->got.n_fds = 0;
}

struct received *receiver_got(struct receiver *rx)
{
    return &rx->got;
}

/* The pool is used up front to back and begun anew with each packet. */
static void *pool_alloc(void *data, size_t size)
{
    struct receiver *rx = data;
    size_t need = (size + 15) & ~(size_t) 15;
    void *p;

    if (need < size || need > POOL_SIZE - rx->pool_used)
        return NULL;
    p = rx->pool + rx->pool_used;
    rx->pool_used += need;
    return p;
}

static void pool_free(void *data, void *pointer)
{
}

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * RECEIVED_FDS_MAX)];
};

static void take_fds(struct receiver *rx, struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t n;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0))
            continue;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (rx->got.n_fds < RECEIVED_FDS_MAX)
                rx->got.fds[rx->got.n_fds++] = fd;
            else
                raw_close(fd);
        }
    }
}

int connection_receive(struct receiver *rx, int fd, int flags)
{
    ProtobufCAllocator allocator = {.alloc = pool_alloc, .free = pool_free, .allocator_data = rx};
    struct iovec iov = {.iov_base = rx->packet, .iov_len = sizeof(rx->packet)};
    union control control;
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    ssize_t n;

    receiver_drop(rx);
    rx->got.message = NULL;
    do
        n = syscall(SYS_recvmsg, fd, &msg, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    take_fds(rx, &msg);
    if (n == 0)
        return -ECONNRESET;
    rx->pool_used = 0;
    if (!(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        rx->got.message = etwd__message__unpack(&allocator, (size_t) n, rx->packet);
    if (!rx->got.message) {
        receiver_drop(rx);
        return -EBADMSG;
    }
    return 0;
}

bool connection_ours(struct process *p)
{
    int fd = atomic_load(&p->fd) - 1;

    if (!shm_identity_is(fd, &p->identity))
        return false;
    atomic_store_explicit(&p->verified, etw_clock_boottime(), memory_order_relaxed);
    return true;
}

static int raw_send(int fd, const void *data, size_t size)
{
    long n;

    do
        n = syscall(SYS_sendto, fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* Traits are the longest that is sent. */
#define SEND_MAX (ETW_TRAITS_MAX + 128)

static int send_to(int fd, const Etwd__Message *m)
{
    uint8_t packet[SEND_MAX];
    size_t size = etwd__message__get_packed_size(m);

    if (size > sizeof(packet))
        return -EMSGSIZE;
    size = etwd__message__pack(m, packet);
    return raw_send(fd, packet, size);
}

int message_send(struct process *p, const Etwd__Message *m)
{
    if (!connection_ours(p))
        return -ENOTCONN;
    return send_to(atomic_load(&p->fd) - 1, m);
}

int message_send_hello(int fd)
{
    static const char library[] = "libetw " ETWD_VERSION;
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Hello hello = ETWD__HELLO__INIT;

    hello.protocol = ETWD_PROTOCOL;
    hello.library = (char *) (uintptr_t) library;
    m.id = REQUEST_HELLO;
    m.body_case = ETWD__MESSAGE__BODY_HELLO;
    m.hello = &hello;
    return send_to(fd, &m);
}

int message_send_attach(int fd, bool fences, bool threadless)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Attach attach = ETWD__ATTACH__INIT;

    attach.shm_version = SHM_VERSION;
    attach.fences = fences;
    attach.threadless = threadless;
    m.id = REQUEST_ATTACH;
    m.body_case = ETWD__MESSAGE__BODY_ATTACH;
    m.attach = &attach;
    return send_to(fd, &m);
}

void connection_wake(struct process *p, uint64_t now)
{
    static const uint8_t wake[] = {0xB2, 0x01, 0x00}; /* field 22, empty */
    _Static_assert(ETWD__MESSAGE__BODY_WAKE == 22, "the packed message");
    int fd = atomic_load_explicit(&p->fd, memory_order_relaxed) - 1;

    if (fd < 0)
        return;
    if (now - atomic_load_explicit(&p->verified, memory_order_relaxed) >
            ETW_CLIENT_VERIFY_MS * 1000000ull &&
        !connection_ours(p)) {
        connection_kick(p, now);
        return;
    }
    (void) raw_send(fd, wake, sizeof(wake));
}

void connection_kick(struct process *p, uint64_t now)
{
    uint64_t before = atomic_load(&p->kicked);
    int fd;

    /* The daemon keeps one connection a process: this ends the other one, whose reader waits in a
     * system call that still holds the socket. */
    if (atomic_load(&p->fd) == 0 || p->helper == 0 ||
        now - before < ETW_CLIENT_KICK_MS * 1000000ull ||
        !atomic_compare_exchange_strong(&p->kicked, &before, now))
        return;
    if (connect_socket(false, &fd) < 0)
        return;
    if (message_send_hello(fd) >= 0)
        (void) message_send_attach(fd, p->fences, false);
    raw_close(fd);
}
