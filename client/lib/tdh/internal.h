/* SPDX-License-Identifier: Apache-2.0
 *
 * What the public functions of libtdh share. It is a library of its own, as tdh.dll is on Windows:
 * programs that only write events need no reader of XML.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include <tdh.h>

/* Leaves a failing code for GetLastError(); returns the code. */
static inline ULONG finish(uint32_t code)
{
    if (code != ERROR_SUCCESS)
        SetLastError(code);
    return code;
}

/* A thread is never cancelled half-way through a call: descriptors and memory would leak. */
static inline int cancel_disable(void)
{
    int state;
    (void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}
static inline void cancel_restorep(int *state)
{
    (void) pthread_setcancelstate(*state, NULL);
}
#define no_cancel()                                                                                \
    int no_cancel_state __attribute__((cleanup(cancel_restorep), unused)) = cancel_disable()
