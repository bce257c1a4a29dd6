/* SPDX-License-Identifier: Apache-2.0
 *
 * The state at etwd's start: what the service manager hands over, and from then on its descriptor
 * store. For main.c. Loop thread only, before the loop runs.
 */
#pragma once

#include <stdbool.h>

#include "state.h"

struct state_start {
    struct state *state;
    int listen_fd;    /* a listening socket that was handed over, or -1 */
    bool listen_ours; /* a predecessor made and stored it */
    bool successor;   /* there is a predecessor's state */
};

/* Takes LISTEN_FDS and the store of NOTIFY_SOCKET, at most `max` descriptors. A state that cannot
 * be read is set aside in the store and told of, with all that belonged to it; the start goes on
 * with a fresh one. */
int state_start(unsigned long max, struct state_start *ret);
/* All that could be taken over is: what else was stored goes. */
void state_start_done(struct state *st);
/* An orderly end: nothing stays in the store. */
void state_end(struct state *st);
