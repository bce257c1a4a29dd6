/* SPDX-License-Identifier: Apache-2.0
 *
 * What test-exception.c calls in exception.cc.
 */
#pragma once

#include <evntrace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Processes path with a callback that throws at the given event (or buffer). 1: the exception came
 * out as it was thrown and the callback's frame was unwound. */
int throw_through(const char *path, unsigned at, int buffer, TRACEHANDLE *ret_handle);
/* A callback that throws and catches by itself. The number of events, -1 when a call failed. */
int catch_inside(const char *path);

#ifdef __cplusplus
}
#endif
