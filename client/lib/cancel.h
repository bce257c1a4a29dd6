/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread is never cancelled half-way through a call: descriptors and memory would leak, and the
 * daemon waits for no signal handler of ours. Scoped: no_cancel() at the start of a public function
 * of either library. Any thread.
 */
#pragma once

#include <pthread.h>

static inline int cancel_disable(void)
{
    int state = PTHREAD_CANCEL_ENABLE;
    (void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

static inline void cancel_restorep(int *state)
{
    (void) pthread_setcancelstate(*state, NULL);
}

#define no_cancel()                                                                                \
    int no_cancel_state __attribute__((cleanup(cancel_restorep), unused)) = cancel_disable()
