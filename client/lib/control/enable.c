/* SPDX-License-Identifier: Apache-2.0
 *
 * EnableTrace, EnableTraceEx, EnableTraceEx2: a session's wish for a provider's events. The filters
 * are checked here as far as they are bytes; process ids become pidfds of this process's own
 * namespace. What they mean, and who may wish what, is the daemon's. Any thread, enable callbacks
 * included.
 */
#include "internal.h"

#include <evntcons.h>

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../provider/provider.h"
#include "base/cleanup.h"
#include "base/limits.h"

#define PROPERTIES_KNOWN                                                                           \
    (EVENT_ENABLE_PROPERTY_SID | EVENT_ENABLE_PROPERTY_TS_ID | EVENT_ENABLE_PROPERTY_STACK_TRACE | \
     EVENT_ENABLE_PROPERTY_PSM_KEY | EVENT_ENABLE_PROPERTY_IGNORE_KEYWORD_0 |                      \
     EVENT_ENABLE_PROPERTY_PROVIDER_GROUP | EVENT_ENABLE_PROPERTY_ENABLE_KEYWORD_0 |               \
     EVENT_ENABLE_PROPERTY_PROCESS_START_KEY | EVENT_ENABLE_PROPERTY_EVENT_KEY |                   \
     EVENT_ENABLE_PROPERTY_EXCLUDE_INPRIVATE | EVENT_ENABLE_PROPERTY_ENABLE_SILOS |                \
     EVENT_ENABLE_PROPERTY_SOURCE_CONTAINER_TRACKING)

/* What the three functions have in common, as EnableTraceEx2 takes it. */
struct wish {
    TRACEHANDLE session;
    LPCGUID provider;
    ULONG code;
    UCHAR level;
    ULONGLONG any, all;
    ULONG timeout_ms;
    ULONG properties;
    LPCGUID source;
    const EVENT_FILTER_DESCRIPTOR *filters;
    ULONG n_filters;
};

/* Filters on their way: their data stay the caller's. */
struct filters {
    Etwd__Filter items[ETW_FILTERS_MAX];
    Etwd__Filter *list[ETW_FILTERS_MAX];
    size_t n;
    bool by_pid;
    int pidfds[MAX_EVENT_FILTER_PID_COUNT];
    size_t n_pidfds;
};

static void filters_done(struct filters *f)
{
    for (size_t i = 0; i < f->n_pidfds; i++)
        (void) close(f->pidfds[i]);
}
#define _cleanup_filters_ __attribute__((cleanup(filters_done)))

/* A process id that names nobody (any more) matches nobody; it is no error. */
static uint32_t take_pids(struct filters *f, const void *data, ULONG size)
{
    ULONG pids[MAX_EVENT_FILTER_PID_COUNT];

    if (size % sizeof(pids[0]) != 0 || size > sizeof(pids))
        return ERROR_INVALID_PARAMETER;
    memcpy(pids, data, size);
    f->by_pid = true;
    for (size_t i = 0; i < size / sizeof(pids[0]); i++) {
        if (pids[i] == 0 || pids[i] > INT32_MAX)
            continue;
        int fd = (int) syscall(SYS_pidfd_open, (pid_t) pids[i], 0);
        if (fd >= 0)
            f->pidfds[f->n_pidfds++] = fd_move_up(fd);
        else if (errno != ESRCH && errno != EINVAL)
            return code_from_errno(-errno);
    }
    return ERROR_SUCCESS;
}

static bool event_ids_valid(const void *data, ULONG size)
{
    EVENT_FILTER_EVENT_ID head;
    size_t fixed = offsetof(EVENT_FILTER_EVENT_ID, Events);

    if (size < fixed)
        return false;
    memcpy(&head, data, fixed);
    return head.Count <= MAX_EVENT_FILTER_EVENT_ID_COUNT &&
           size >= fixed + head.Count * sizeof(head.Events[0]);
}

/* Whether a filter's bytes can be what its type says. */
static uint32_t check_filter(const EVENT_FILTER_DESCRIPTOR *d, const void *data)
{
    switch (d->Type) {
    case EVENT_FILTER_TYPE_SCHEMATIZED:
        return d->Size >= sizeof(EVENT_FILTER_HEADER) && d->Size <= MAX_EVENT_FILTER_DATA_SIZE
                   ? ERROR_SUCCESS
                   : ERROR_INVALID_PARAMETER;
    case EVENT_FILTER_TYPE_EXECUTABLE_NAME:
        return d->Size >= sizeof(WCHAR) && d->Size % sizeof(WCHAR) == 0 &&
                       d->Size <= MAX_EVENT_FILTER_DATA_SIZE
                   ? ERROR_SUCCESS
                   : ERROR_INVALID_PARAMETER;
    case EVENT_FILTER_TYPE_EVENT_ID:
        return event_ids_valid(data, d->Size) ? ERROR_SUCCESS : ERROR_INVALID_PARAMETER;
    case EVENT_FILTER_TYPE_PAYLOAD:
        return d->Size <= MAX_EVENT_FILTER_PAYLOAD_SIZE ? ERROR_NOT_SUPPORTED
                                                        : ERROR_INVALID_PARAMETER;
    case EVENT_FILTER_TYPE_SYSTEM_FLAGS:
    case EVENT_FILTER_TYPE_TRACEHANDLE:
    case EVENT_FILTER_TYPE_PACKAGE_ID:
    case EVENT_FILTER_TYPE_PACKAGE_APP_ID:
    case EVENT_FILTER_TYPE_EVENT_NAME:
    case EVENT_FILTER_TYPE_STACKWALK:
    case EVENT_FILTER_TYPE_STACKWALK_NAME:
    case EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW:
    case EVENT_FILTER_TYPE_CONTAINER:
        return ERROR_NOT_SUPPORTED;
    default:
        return ERROR_INVALID_PARAMETER;
    }
}

static uint32_t take_filter(struct filters *f, const EVENT_FILTER_DESCRIPTOR *d)
{
    const void *data = (const void *) (uintptr_t) d->Ptr;
    uint32_t code;

    if (d->Type == EVENT_FILTER_TYPE_NONE)
        return ERROR_SUCCESS;
    if (!data && d->Size > 0)
        return ERROR_INVALID_PARAMETER;
    if (d->Type == EVENT_FILTER_TYPE_PID)
        return f->by_pid ? ERROR_INVALID_PARAMETER : take_pids(f, data, d->Size);
    for (size_t i = 0; i < f->n; i++)
        if (f->items[i].type == d->Type)
            return ERROR_INVALID_PARAMETER; /* each type once */
    code = check_filter(d, data);
    if (code != ERROR_SUCCESS)
        return code;
    f->items[f->n] = (Etwd__Filter) ETWD__FILTER__INIT;
    f->items[f->n].type = d->Type;
    f->items[f->n].data.data = (uint8_t *) (uintptr_t) data;
    f->items[f->n].data.len = d->Size;
    f->list[f->n] = &f->items[f->n];
    f->n++;
    return ERROR_SUCCESS;
}

static uint32_t take_filters(struct filters *f, const struct wish *w)
{
    uint32_t code = ERROR_SUCCESS;

    if (w->n_filters > ETW_FILTERS_MAX || (w->n_filters > 0 && !w->filters))
        return ERROR_INVALID_PARAMETER;
    for (ULONG i = 0; i < w->n_filters && code == ERROR_SUCCESS; i++)
        code = take_filter(f, &w->filters[i]);
    return code;
}

static uint32_t check(const struct wish *w)
{
    static const GUID none;

    if (!w->provider || IsEqualGUID(w->provider, &none) || !handle_possible(w->session) ||
        w->code > EVENT_CONTROL_CODE_CAPTURE_STATE)
        return ERROR_INVALID_PARAMETER;
    if (w->properties & ~PROPERTIES_KNOWN)
        return ERROR_INVALID_PARAMETER;
    return ERROR_SUCCESS;
}

static uint32_t send_wish(const struct wish *w, struct filters *f)
{
    Etwd__EnableProvider body = ETWD__ENABLE_PROVIDER__INIT;
    Etwd__Message request = ETWD__MESSAGE__INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_close_ int fd = -1;
    uint32_t code;
    bool sent;

    if (connection_open(&fd, &code) < 0)
        return code;
    body.handle = w->session;
    body.guid.data = (uint8_t *) (uintptr_t) w->provider;
    body.guid.len = sizeof(*w->provider);
    body.control_code = w->code;
    body.level = w->level;
    body.any = w->any;
    body.all = w->all;
    body.properties = w->properties;
    /* Inside an enable callback the wait could be for this very callback: it acts, and does not
     * wait. */
    body.timeout_ms = provider_in_callback() ? 0 : w->timeout_ms;
    if (w->source) {
        body.source_id.data = (uint8_t *) (uintptr_t) w->source;
        body.source_id.len = sizeof(*w->source);
    }
    body.filters = f->list;
    body.n_filters = f->n;
    body.pid_filter = f->by_pid;
    request.body_case = ETWD__MESSAGE__BODY_ENABLE_PROVIDER;
    request.enable_provider = &body;
    if (connection_call(fd, &request, f->pidfds, f->n_pidfds, &reply, &sent, &code) < 0)
        return code;
    return reply->status;
}

static ULONG enable(const struct wish *w)
{
    _cleanup_filters_ struct filters f = {0};
    uint32_t code;

    no_cancel();
    code = check(w);
    if (code == ERROR_SUCCESS)
        code = take_filters(&f, w);
    if (code == ERROR_SUCCESS)
        code = send_wish(w, &f);
    return finish(code);
}

ULONG WMIAPI EnableTrace(ULONG Enable, ULONG EnableFlag, ULONG EnableLevel, LPCGUID ControlGuid,
                         TRACEHANDLE TraceHandle)
{
    if (EnableLevel > UINT8_MAX)
        return finish(ERROR_INVALID_PARAMETER);
    const struct wish w = {
        .session = TraceHandle,
        .provider = ControlGuid,
        .code = Enable ? EVENT_CONTROL_CODE_ENABLE_PROVIDER : EVENT_CONTROL_CODE_DISABLE_PROVIDER,
        .level = (UCHAR) EnableLevel,
        .any = EnableFlag,
    };
    return enable(&w);
}

ULONG WMIAPI EnableTraceEx(LPCGUID ProviderId, LPCGUID SourceId, TRACEHANDLE TraceHandle,
                           ULONG IsEnabled, UCHAR Level, ULONGLONG MatchAnyKeyword,
                           ULONGLONG MatchAllKeyword, ULONG EnableProperty,
                           PEVENT_FILTER_DESCRIPTOR EnableFilterDesc)
{
    const struct wish w = {
        .session = TraceHandle,
        .provider = ProviderId,
        .code = IsEnabled,
        .level = Level,
        .any = MatchAnyKeyword,
        .all = MatchAllKeyword,
        .properties = EnableProperty,
        .source = SourceId,
        .filters = EnableFilterDesc,
        .n_filters = EnableFilterDesc ? 1 : 0,
    };
    return enable(&w);
}

ULONG WMIAPI EnableTraceEx2(TRACEHANDLE TraceHandle, LPCGUID ProviderId, ULONG ControlCode,
                            UCHAR Level, ULONGLONG MatchAnyKeyword, ULONGLONG MatchAllKeyword,
                            ULONG Timeout, PENABLE_TRACE_PARAMETERS EnableParameters)
{
    struct wish w = {
        .session = TraceHandle,
        .provider = ProviderId,
        .code = ControlCode,
        .level = Level,
        .any = MatchAnyKeyword,
        .all = MatchAllKeyword,
        .timeout_ms = Timeout,
    };

    if (EnableParameters) {
        w.properties = EnableParameters->EnableProperty;
        w.source = &EnableParameters->SourceId;
        w.filters = EnableParameters->EnableFilterDesc;
        switch (EnableParameters->Version) {
        case ENABLE_TRACE_PARAMETERS_VERSION:
            w.n_filters = w.filters ? 1 : 0;
            break;
        case ENABLE_TRACE_PARAMETERS_VERSION_2:
            w.n_filters = EnableParameters->FilterDescCount;
            break;
        default:
            return finish(ERROR_INVALID_PARAMETER);
        }
    }
    return enable(&w);
}
