/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer of LTTng-UST: a tracepoint with the fields of provider-writer-etw.c's event. LTTng
 * counts what it loses itself.
 */
#define TRACEPOINT_CREATE_PROBES
#define TRACEPOINT_DEFINE
#include "provider-writer-lttng.h"

#include "provider-writer.h"

static __attribute__((noinline)) int writer_event(uint32_t a, uint64_t b, const char *text)
{
    tracepoint(etw_bench, event, a, b, text);
    return 0;
}

static int writer_idle(uint32_t a, uint64_t b, const char *text)
{
    tracepoint(etw_bench, idle, a, b, text);
    return 0;
}

static void writer_idle_test(uint32_t a, uint64_t b, const char *text)
{
    tracepoint(etw_bench, idle, a, b, text);
}

int main(void)
{
    return writer_main();
}
