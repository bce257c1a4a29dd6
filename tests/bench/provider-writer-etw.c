/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer of libetw: provider-writer-etw write|tl N. N: which of the providers
 * {be7c4000-000N-4000-8000-000000000000}; a TraceLogging provider has number 0 alone. The provider
 * that is idle is {be7c4000-ffff-...}, registered and enabled by nobody.
 */
#include <evntprov.h>

#include <TraceLoggingProvider.h>

#include "provider-writer.h"

TRACELOGGING_DEFINE_PROVIDER(tl_provider, "Bench.Provider",
                             (0xbe7c4000, 0x0000, 0x4000, 0x80, 0, 0, 0, 0, 0, 0, 1));
TRACELOGGING_DEFINE_PROVIDER(tl_idle, "Bench.Idle",
                             (0xbe7c4000, 0xfffe, 0x4000, 0x80, 0, 0, 0, 0, 0, 0, 1));

static REGHANDLE handle, idle_handle;
static int tracelogging;

static const EVENT_DESCRIPTOR descriptor = {.Id = 1, .Level = 4, .Keyword = 1};

static inline int write_to(REGHANDLE h, uint32_t a, uint64_t b, const char *text)
{
    EVENT_DATA_DESCRIPTOR data[3];

    EventDataDescCreate(&data[0], &a, sizeof(a));
    EventDataDescCreate(&data[1], &b, sizeof(b));
    EventDataDescCreate(&data[2], text, (ULONG) strlen(text) + 1);
    return EventWrite(h, &descriptor, 3, data) != ERROR_SUCCESS;
}

static __attribute__((noinline)) int writer_event(uint32_t a, uint64_t b, const char *text)
{
    if (!tracelogging)
        return write_to(handle, a, b, text);
    TraceLoggingWrite(tl_provider, "Event", TraceLoggingLevel(4), TraceLoggingKeyword(1),
                      TraceLoggingUInt32(a, "a"), TraceLoggingUInt64(b, "b"),
                      TraceLoggingString(text, "text"));
    return 0;
}

/* A call of a disabled event. */
static int writer_idle(uint32_t a, uint64_t b, const char *text)
{
    if (!tracelogging)
        return write_to(idle_handle, a, b, text);
    TraceLoggingWrite(tl_idle, "Event", TraceLoggingLevel(4), TraceLoggingKeyword(1),
                      TraceLoggingUInt32(a, "a"), TraceLoggingUInt64(b, "b"),
                      TraceLoggingString(text, "text"));
    return 0;
}

/* The test that macros make. */
static void writer_idle_test(uint32_t a, uint64_t b, const char *text)
{
    if (etw_provider_wants(idle_handle, 4, 1))
        (void) write_to(idle_handle, a, b, text);
}

int main(int argc, char **argv)
{
    GUID guid = {0xbe7c4000, 0, 0x4000, {0x80}};

    if (argc != 3)
        errx(2, "usage: %s write|tl N", argv[0]);
    tracelogging = strcmp(argv[1], "tl") == 0;
    guid.Data2 = (USHORT) strtoul(argv[2], NULL, 10);
    if (tracelogging) {
        if (TraceLoggingRegister(tl_provider) != ERROR_SUCCESS ||
            TraceLoggingRegister(tl_idle) != ERROR_SUCCESS)
            errx(1, "cannot register");
    } else if (EventRegister(&guid, NULL, NULL, &handle) != ERROR_SUCCESS) {
        errx(1, "cannot register");
    }
    guid.Data2 = 0xffff;
    if (EventRegister(&guid, NULL, NULL, &idle_handle) != ERROR_SUCCESS)
        errx(1, "cannot register");
    return writer_main();
}
