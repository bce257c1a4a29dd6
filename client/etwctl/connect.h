/* SPDX-License-Identifier: Apache-2.0
 *
 * etwctl's own connection to etwd. The verbs that ask the daemon speak proto/wire themselves: the
 * public functions hand back a Win32 code only, and these verbs show the daemon's reason, losses by
 * cause, and start bound sessions. One thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"

struct conn {
    int fd;
    uint64_t last_id;
    char *path;    /* of the socket */
    char *version; /* of the daemon */
    uint32_t processors;
};
#define CONN_INIT                                                                                  \
    (struct conn)                                                                                  \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* $ETWD_SOCKET or the system's. */
const char *conn_socket_path(void);

/* Connects and says hello. Negative errno: -ENOENT, -ECONNREFUSED, -EACCES, -ENAMETOOLONG,
 * -EPROTONOSUPPORT (another protocol version), -ETIMEDOUT, -EPROTO ... */
int conn_open(struct conn *c);
void conn_close(struct conn *c);
#define _cleanup_conn_ __attribute__((cleanup(conn_close)))

/* Sends a request (its id is set here) and waits for its reply, whatever its status. Negative
 * errno: the connection is of no use any more. */
int conn_call(struct conn *c, Etwd__Message *request, const int *fds, size_t n_fds,
              Etwd__Message **ret_reply);

/* Says why conn_open or conn_call failed and what to do; returns an exit code. */
int conn_explain(const struct conn *c, int error);
/* Says why the daemon refused something about `subject` ("session 'x'"); returns an exit code. */
int reply_explain(const char *subject, const Etwd__Message *reply);

static inline void message_freep(Etwd__Message **m)
{
    *m = wire_message_free(*m);
}
#define _cleanup_message_ __attribute__((cleanup(message_freep)))

/* Opens a connection or explains; EXIT_OK or an exit code. */
int conn_open_or_say(struct conn *c);
/* A call of which only success is wanted: EXIT_OK, or an exit code after a message. *ret_reply has
 * the body kind `want`. */
int conn_call_or_say(struct conn *c, const char *subject, Etwd__Message *request, const int *fds,
                     size_t n_fds, Etwd__Message__BodyCase want, Etwd__Message **ret_reply);
