/* SPDX-License-Identifier: Apache-2.0
 *
 * ProcessTrace: checks the call, then lets merge.c deliver on the calling thread. How it can end
 * besides returning from the merge: a fault of a callback (signals.c jumps back here), or an
 * exception or cancellation that unwinds through here. Each way gives back the handles, the memory
 * and the signal state.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/winerror.h"

/* One call. In a mapping of its own: nothing in it is in registers when a fault jumps back. */
struct process {
    unsigned count;
    bool entered;
    enum trace_outcome outcome;
    struct merge *merge;
    struct fault_frame frame;
    struct delivery delivery;
    struct trace *traces[ETW_PROCESS_TRACE_HANDLES_MAX];
};

static struct process *process_new(void)
{
    struct process *p =
        mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* Also run by the unwinder. */
static void process_freep(struct process **pp)
{
    struct process *p = *pp;

    if (!p)
        return;
    if (p->entered)
        faults_leave(&p->frame);
    merge_free(p->merge);
    traces_release(p->traces, p->count, p->outcome);
    (void) munmap(p, sizeof(*p));
    *pp = NULL;
}

static ULONG code_of(int r)
{
    switch (r) {
    case 0:
        return ERROR_SUCCESS;
    case -ECANCELED:
        return ERROR_CANCELLED;
    case -EIO:
        return ERROR_READ_FAULT;
    case -EBADMSG:
    case -ENODATA:
    case -EOVERFLOW:
        return ERROR_FILE_CORRUPT;
    default:
        return etw_winerror_from_errno(r);
    }
}

static uint64_t filetime_value(const FILETIME *ft)
{
    return (uint64_t) ft->dwHighDateTime << 32 | ft->dwLowDateTime;
}

/* Files and real-time sessions are not mixed, and there is one of the latter. */
static ULONG check_kinds(const struct process *p)
{
    unsigned real_time = 0;

    for (unsigned i = 0; i < p->count; i++)
        real_time += p->traces[i]->real_time;
    if (real_time == 0)
        return ERROR_SUCCESS;
    return p->count > 1 ? ERROR_INVALID_PARAMETER : ERROR_NOT_SUPPORTED;
}

static ULONG set_bounds(struct delivery *d, const FILETIME *start, const FILETIME *end)
{
    d->start = start ? filetime_value(start) : 0;
    d->end = end ? filetime_value(end) : UINT64_MAX;
    d->bounded = start || end;
    return d->end < d->start ? ERROR_INVALID_TIME : ERROR_SUCCESS;
}

/* Apart from ProcessTrace so that no variable of it is alive over the jump. */
static ULONG run(struct process *p)
{
    faults_enter(&p->frame);
    p->entered = true;
    if (sigsetjmp(p->frame.env, 1) != 0) {
        p->outcome = TRACE_FAULTED;
        return ERROR_NOACCESS;
    }
    /* Until it returns, only an exception can bring us to process_freep(). */
    p->outcome = TRACE_THROWN;
    {
        ULONG code = code_of(merge_run(p->merge));

        p->outcome = TRACE_PROCESSED;
        return code;
    }
}

static ULONG process_trace(PTRACEHANDLE HandleArray, ULONG HandleCount, LPFILETIME StartTime,
                           LPFILETIME EndTime)
{
    __attribute__((cleanup(process_freep))) struct process *p = NULL;
    TRACEHANDLE handles[ETW_PROCESS_TRACE_HANDLES_MAX];
    ULONG kinds;
    ULONG times;
    int r;

    if (!HandleArray)
        return ERROR_INVALID_PARAMETER;
    if (HandleCount == 0 || HandleCount > ETW_PROCESS_TRACE_HANDLES_MAX)
        return ERROR_BAD_LENGTH;
    /* A bad pointer faults here, where nothing is held: we may be inside another callback. */
    memcpy(handles, HandleArray, HandleCount * sizeof(*handles));
    p = process_new();
    if (!p)
        return ERROR_NOT_ENOUGH_MEMORY;
    p->outcome = TRACE_UNTOUCHED;
    if (!traces_claim(handles, HandleCount, p->traces))
        return ERROR_INVALID_HANDLE;
    p->count = HandleCount;
    kinds = check_kinds(p);
    if (kinds == ERROR_INVALID_PARAMETER)
        return kinds;
    times = set_bounds(&p->delivery, StartTime, EndTime);
    if (times != ERROR_SUCCESS)
        return times;
    if (kinds != ERROR_SUCCESS)
        return kinds;
    p->delivery.frame = &p->frame;
    r = merge_new(p->traces, p->count, &p->delivery, &p->merge);
    if (r < 0)
        return code_of(r);
    return run(p);
}

ULONG WMIAPI ProcessTrace(PTRACEHANDLE HandleArray, ULONG HandleCount, LPFILETIME StartTime,
                          LPFILETIME EndTime)
{
    ULONG code = process_trace(HandleArray, HandleCount, StartTime, EndTime);

    if (code != ERROR_SUCCESS)
        SetLastError(code);
    return code;
}
