/* SPDX-License-Identifier: Apache-2.0
 *
 * The tracepoint of LTTng's writer, as lttng/tracepoint.h wants it.
 */
#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER etw_bench

#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "provider-writer-lttng.h"

#if !defined(ETW_BENCH_LTTNG_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define ETW_BENCH_LTTNG_H

#include <stdint.h>

#include <lttng/tracepoint.h>

/* clang-format off: macros that are read several times */
TRACEPOINT_EVENT(etw_bench, event, TP_ARGS(uint32_t, a, uint64_t, b, const char *, text),
                 TP_FIELDS(ctf_integer(uint32_t, a, a) ctf_integer(uint64_t, b, b)
                               ctf_string(text, text)))
TRACEPOINT_EVENT(etw_bench, idle, TP_ARGS(uint32_t, a, uint64_t, b, const char *, text),
                 TP_FIELDS(ctf_integer(uint32_t, a, a) ctf_integer(uint64_t, b, b)
                               ctf_string(text, text)))
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
