/* SPDX-License-Identifier: Apache-2.0
 *
 * See trace.h.
 */
#include "trace.h"

struct notes notes;

/* What happens to faults is under test: sanitizers must leave these signals alone. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:use_sigaltstack=0";
}
__attribute__((visibility("default"))) const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void)
{
    return "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:use_sigaltstack=0";
}

void note_event(PEVENT_RECORD e)
{
    struct noted *n;

    if (notes.count == notes.capacity) {
        notes.capacity = notes.capacity ? 2 * notes.capacity : 256;
        notes.events = reallocarray(notes.events, notes.capacity, sizeof(*notes.events));
        ck_assert_ptr_nonnull(notes.events);
    }
    n = &notes.events[notes.count++];
    *n = (struct noted){
        .time = e->EventHeader.TimeStamp.QuadPart,
        .file = (unsigned) (uintptr_t) e->UserContext,
        .cpu = e->BufferContext.ProcessorIndex,
        .header = IsEqualGUID(&e->EventHeader.ProviderId, &EventTraceGuid),
    };
    if (n->header)
        return;
    notes.data++;
    if (e->UserDataLength >= sizeof(n->id))
        memcpy(&n->id, e->UserData, sizeof(n->id));
}

ULONG note_buffer(PEVENT_TRACE_LOGFILEA lf)
{
    notes.last_buffer = *lf;
    notes.buffers++;
    return notes.cancel_after == 0 || notes.buffers < notes.cancel_after;
}

TRACEHANDLE open_noted(const char *path, unsigned file, ULONG extra)
{
    EVENT_TRACE_LOGFILEA lf = {
        .LogFileName = (LPSTR) (uintptr_t) path,
        .BufferCallback = note_buffer,
        .EventRecordCallback = note_event,
        .Context = (PVOID) (uintptr_t) file,
    };
    TRACEHANDLE h;

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD | extra;
    h = OpenTraceA(&lf);
    if (h == INVALID_PROCESSTRACE_HANDLE)
        ck_abort_msg("OpenTrace of %s: code %u", path, GetLastError());
    return h;
}

void process_noted(const char *path, FILETIME *start, FILETIME *end)
{
    TRACEHANDLE h = open_noted(path, 0, 0);

    ck_assert_uint_eq(ProcessTrace(&h, 1, start, end), ERROR_SUCCESS);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
}

char *simple_file(const char *name, unsigned count)
{
    char *path = test_path(name);
    struct synthetic *s = synthetic_new(path, NULL);

    synthetic_begin(s, 0, 0);
    for (unsigned i = 1; i <= count; i++)
        ck_assert(synthetic_event(s, 1000 + 1000 * i, i));
    synthetic_flush(s, 2000 + 1000 * count, ETL_BUFFER_PROC_INDEX);
    synthetic_finish(s, (uint64_t) time_of(2000 + 1000 * count));
    return path;
}

char *long_file(const char *name, unsigned buffers, unsigned each)
{
    char *path = test_path(name);
    struct synthetic *s = synthetic_new(path, NULL);
    uint64_t stamp = 1000;
    uint64_t id = 0;

    for (unsigned b = 0; b < buffers; b++) {
        synthetic_begin(s, 0, 0);
        for (unsigned i = 0; i < each; i++)
            ck_assert(synthetic_event(s, stamp += 100, ++id));
        synthetic_flush(s, stamp, ETL_BUFFER_PROC_INDEX);
    }
    synthetic_finish(s, (uint64_t) time_of(stamp));
    return path;
}
