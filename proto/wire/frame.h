/* SPDX-License-Identifier: Apache-2.0
 *
 * One control message: pack, unpack, send and receive with its descriptors. Hostile-safe: a packet
 * is bounded, parsed from a private copy; descriptors beyond what the caller asked for are closed.
 * Any thread; one socket is read by one thread at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../base/limits.h"
#include "etwd.pb-c.h"

#define ETWD_PROTOCOL 1
#define ETWD_SOCKET_DEFAULT "/run/etwd/control.sock"

/* Parses a packet. 0 and a message for wire_message_free(); -EBADMSG. */
int wire_unpack(const void *data, size_t len, Etwd__Message **ret);
Etwd__Message *wire_message_free(Etwd__Message *m);
/* Packs into memory of malloc(3). -EMSGSIZE above ETW_MESSAGE_MAX; -ENOMEM. */
int wire_pack(const Etwd__Message *m, void **ret_data, size_t *ret_len);

/* Sends one message and descriptors (they stay the caller's) on a SOCK_SEQPACKET socket, never
 * SIGPIPE. flags: MSG_DONTWAIT or 0. -errno; -EAGAIN. */
int wire_send(int sock, const Etwd__Message *m, const int *fds, size_t n_fds, int flags);

/* The same of a packed message. */
int wire_send_packed(int sock, const void *data, size_t size, const int *fds, size_t n_fds,
                     int flags);

/* Whether the next packet brings descriptors; it stays in the socket, and so do they. 1, 0, -errno.
 * Taking such a packet out may take as long as its sender likes, whatever is done with them: the
 * last close of a descriptor may wait (SO_LINGER, FUSE), and may be ours. */
int wire_brings_fds(int sock);

/* Receives one message. Descriptors come O_CLOEXEC in fds[0 .. *ret_n_fds), at most max_fds; more
 * are closed and make it -EBADMSG. 0; -ECONNRESET at the end of the connection; -EAGAIN; -EBADMSG:
 * the packet was consumed, its descriptors are closed. */
int wire_receive(int sock, int flags, Etwd__Message **ret, int *fds, size_t max_fds,
                 size_t *ret_n_fds);
