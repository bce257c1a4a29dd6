/* SPDX-License-Identifier: Apache-2.0
 *
 * Control messages on a SOCK_SEQPACKET socket, with descriptors. Knows nothing of what a message
 * means. The sender may be hostile: sizes are bounded, what is cut is refused, no descriptor that
 * arrived is ever leaked. Any thread.
 */
#include "frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../base/cleanup.h"

int wire_unpack(const void *data, size_t len, Etwd__Message **ret)
{
    Etwd__Message *m;

    if (len > ETW_MESSAGE_MAX)
        return -EBADMSG;
    /* NULL for what is no message, and for a lack of memory, which callers treat alike: the
     * connection ends. */
    m = etwd__message__unpack(NULL, len, data);
    if (!m)
        return -EBADMSG;
    *ret = m;
    return 0;
}

Etwd__Message *wire_message_free(Etwd__Message *m)
{
    if (m)
        etwd__message__free_unpacked(m, NULL);
    return NULL;
}

int wire_pack(const Etwd__Message *m, void **ret_data, size_t *ret_len)
{
    size_t len = etwd__message__get_packed_size(m);
    void *data;

    if (len > ETW_MESSAGE_MAX)
        return -EMSGSIZE;
    data = malloc(len ? len : 1);
    if (!data)
        return -ENOMEM;
    *ret_len = etwd__message__pack(m, data);
    *ret_data = data;
    return 0;
}

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * ETW_MESSAGE_FDS_MAX)];
};

int wire_send(int sock, const Etwd__Message *m, const int *fds, size_t n_fds, int flags)
{
    _cleanup_free_ void *data = NULL;
    size_t len;
    int r;

    r = wire_pack(m, &data, &len);
    return r < 0 ? r : wire_send_packed(sock, data, len, fds, n_fds, flags);
}

int wire_send_packed(int sock, const void *data, size_t size, const int *fds, size_t n_fds,
                     int flags)
{
    union control control;
    struct iovec iov = {.iov_base = (void *) (uintptr_t) data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (n_fds > ETW_MESSAGE_FDS_MAX)
        return -EINVAL;
    if (n_fds > 0) {
        struct cmsghdr *c;
        memset(&control, 0, sizeof(control));
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    do
        n = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* All descriptors of a received message: the first max into fds, the rest closed. Returns how many
 * came. */
static size_t take_descriptors(struct msghdr *msg, int *fds, size_t max)
{
    size_t came = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t n;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0))
            continue;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (came < max)
                fds[came] = fd;
            else
                (void) safe_close(fd);
            came++;
        }
    }
    return came;
}

int wire_brings_fds(int sock)
{
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = sizeof(byte)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    /* Without room for them they are not installed, and the packet keeps its references. */
    do
        n = recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (msg.msg_flags & MSG_CTRUNC) != 0;
}

int wire_receive(int sock, int flags, Etwd__Message **ret, int *fds, size_t max_fds,
                 size_t *ret_n_fds)
{
    _cleanup_free_ void *data = malloc(ETW_MESSAGE_MAX);
    struct iovec iov = {.iov_base = data, .iov_len = ETW_MESSAGE_MAX};
    union control control;
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    size_t came, kept;
    ssize_t n;
    int r;

    if (!data)
        return -ENOMEM;
    do
        n = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    came = take_descriptors(&msg, fds, max_fds);
    kept = came < max_fds ? came : max_fds;
    /* An empty packet is no message; it looks like the end and is treated so. */
    if (n == 0)
        r = -ECONNRESET;
    else if (came > max_fds || msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        r = -EBADMSG;
    else
        r = wire_unpack(data, (size_t) n, ret);
    if (r < 0) {
        for (size_t i = 0; i < kept; i++)
            fds[i] = safe_close(fds[i]);
        return r;
    }
    *ret_n_fds = kept;
    return 0;
}
