/* SPDX-License-Identifier: Apache-2.0
 *
 * What message.c gives to attach.c: sending and what was received. See there.
 */
#pragma once

#include "internal.h"

/* An arena and a control area. */
#define RECEIVED_FDS_MAX 2u

struct received {
    Etwd__Message *message;
    int fds[RECEIVED_FDS_MAX]; /* -1: taken over */
    size_t n_fds;
};
struct received *receiver_got(struct receiver *rx);

/* Ids of requests: what it is, and for which registration or arena. One of each is on its way at
 * most. */
enum request {
    REQUEST_HELLO = 1,
    REQUEST_ATTACH = 2,
    REQUEST_MORE_RINGS = 3,
    REQUEST_REGISTER = 4,
    REQUEST_UNREGISTER = 5,
    REQUEST_TRAITS = 6,
    REQUEST_ARENA = 7,
};
#define REQUEST_ID(request, index) ((uint64_t) (index) << 8 | (request))
static inline enum request request_of(uint64_t id)
{
    return (enum request)(id & 0xff);
}
static inline uint32_t request_index(uint64_t id)
{
    return (uint32_t) (id >> 8);
}

/* Never waits. -EAGAIN: the daemon does not read; -ENOTCONN: the descriptor is not ours. */
int message_send(struct process *p, const Etwd__Message *m);
/* On a connection that is not the process's yet. */
int message_send_hello(int fd);
int message_send_attach(int fd, bool fences, bool threadless);
