/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: control messages. Parses the input, packs what came out and parses that again; and
 * sends the input as a packet, with as many descriptors as its last byte says.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/frame.h"

#define CHECK(c)                                                                                   \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

static void unpack_and_pack(const uint8_t *data, size_t size)
{
    Etwd__Message *m, *again;
    void *packed;
    size_t len;

    if (wire_unpack(data, size, &m) < 0)
        return;
    /* What protobuf-c keeps of unknown fields may not be parsed a second time (field number 0), and
     * nobody sends on what he received; what we know must survive. */
    if (wire_pack(m, &packed, &len) == 0) {
        if (wire_unpack(packed, len, &again) == 0) {
            CHECK(again->id == m->id && again->status == m->status);
            CHECK(again->body_case == m->body_case);
            wire_message_free(again);
        }
        free(packed);
    }
    wire_message_free(m);
}

static void send_and_receive(const uint8_t *data, size_t size, unsigned n_fds)
{
    static int s[2] = {-1, -1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 8)];
    } control = {0};
    struct iovec iov = {.iov_base = (void *) (uintptr_t) data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    Etwd__Message *m;
    size_t received;
    int fds[4], r;

    if (s[0] < 0)
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) == 0);
    if (n_fds > 0) {
        struct cmsghdr *c;
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        for (unsigned i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &s[0], sizeof(int));
    }
    if (sendmsg(s[0], &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return; /* longer than the socket takes */
    r = wire_receive(s[1], MSG_DONTWAIT, &m, fds, 4, &received);
    if (r == 0) {
        CHECK(received == n_fds);
        for (size_t i = 0; i < received; i++)
            CHECK(close(fds[i]) == 0);
        wire_message_free(m);
    }
    /* A leak of descriptors shows here soon. */
    r = dup(0);
    CHECK(r >= 0 && r < 64);
    (void) close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unpack_and_pack(data, size);
    if (size > 0)
        send_and_receive(data, size, data[size - 1] % 8);
    return 0;
}
