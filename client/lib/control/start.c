/* SPDX-License-Identifier: Apache-2.0
 *
 * StartTrace and StartKernelTrace: the checks in the documented order, the log file, the request,
 * the results. Any thread.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/limits.h"

_Static_assert(sizeof(STACK_TRACING_EVENT_ID) == 24, "layout of Windows");

/* What StartKernelTrace adds to StartTrace. */
struct kernel_start {
    const STACK_TRACING_EVENT_ID *stacks;
    uint32_t n_stacks;
};

/* EVENT_TRACE_FLAG_: every bit but one is defined; with EXTENSION the others are no flags. */
#define FLAGS_UNDEFINED 0x08000000u

/* UTC = local time + bias, as it is now. */
static int32_t bias_minutes(void)
{
    time_t now = time(NULL);
    struct tm tm;

    tzset();
    if (!localtime_r(&now, &tm))
        return 0;
    return (int32_t) (-tm.tm_gmtoff / 60);
}

/* StartKernelTrace's own rules, before those that both functions have. */
static uint32_t check_kernel(const EVENT_TRACE_PROPERTIES *p, const struct properties *v)
{
    if (!IsEqualGUID(&p->Wnode.Guid, &SystemTraceControlGuid))
        return ERROR_INVALID_PARAMETER;
    if (v->name_offset && v->file_offset && v->name_offset > v->file_offset)
        return ERROR_INVALID_PARAMETER;
    if (!(p->EnableFlags & EVENT_TRACE_FLAG_EXTENSION) && p->EnableFlags & FLAGS_UNDEFINED)
        return ERROR_INVALID_FLAGS;
    return ERROR_SUCCESS;
}

/* The rules for the structure beyond sizes and places. */
static uint32_t check_properties(const EVENT_TRACE_PROPERTIES *p, const struct properties *v,
                                 bool kernel_logger)
{
    uint32_t code;

    if (!(p->Wnode.Flags & WNODE_FLAG_TRACED_GUID))
        return ERROR_INVALID_PARAMETER;
    if (p->Wnode.ClientContext > 3)
        return ERROR_INVALID_PARAMETER;
    if (v->v2) {
        const EVENT_TRACE_PROPERTIES_V2 *p2 = (const EVENT_TRACE_PROPERTIES_V2 *) p;
        if (p2->VersionNumber != 2)
            return ERROR_INVALID_PARAMETER;
    }
    code = mode_check(p->LogFileMode, kernel_logger);
    if (code != ERROR_SUCCESS)
        return code;
    if (!kernel_logger && IsEqualGUID(&p->Wnode.Guid, &SystemTraceControlGuid))
        return ERROR_INVALID_PARAMETER;
    return ERROR_SUCCESS;
}

static void fill(const EVENT_TRACE_PROPERTIES *p, const struct properties *v, GUID *guid,
                 Etwd__SessionProperties *ret)
{
    ret->guid = (ProtobufCBinaryData){.len = sizeof(*guid), .data = (uint8_t *) guid};
    ret->clock = p->Wnode.ClientContext;
    ret->buffer_size_kb = p->BufferSize;
    ret->minimum_buffers = p->MinimumBuffers;
    ret->maximum_buffers = p->MaximumBuffers;
    ret->maximum_file_size = p->MaximumFileSize;
    ret->log_file_mode = p->LogFileMode;
    ret->flush_timer_s = p->FlushTimer;
    ret->enable_flags = p->EnableFlags;
    ret->bias_minutes = bias_minutes();
    if (v->v2) {
        const EVENT_TRACE_PROPERTIES_V2 *p2 = (const EVENT_TRACE_PROPERTIES_V2 *) p;
        ret->flush_threshold = (uint32_t) p2->FlushThreshold;
        ret->v2_options = p2->V2Options;
    }
}

/* Stack ids as the request holds them: one allocation for the pointers and the messages. */
static int fill_stacks(const struct kernel_start *k, Etwd__StartSession *request, void **ret_memory)
{
    Etwd__StackId **pointers, *ids;

    if (k->n_stacks == 0)
        return 0;
    pointers = calloc(k->n_stacks, sizeof(*pointers) + sizeof(*ids));
    if (!pointers)
        return -ENOMEM;
    ids = (Etwd__StackId *) (pointers + k->n_stacks);
    for (uint32_t i = 0; i < k->n_stacks; i++) {
        const STACK_TRACING_EVENT_ID *id = &k->stacks[i];
        etwd__stack_id__init(&ids[i]);
        ids[i].guid = (ProtobufCBinaryData){.len = sizeof(id->EventGuid),
                                            .data = (uint8_t *) (uintptr_t) &id->EventGuid};
        ids[i].type = id->Type;
        pointers[i] = &ids[i];
    }
    request->stacks = pointers;
    request->n_stacks = k->n_stacks;
    *ret_memory = pointers;
    return 0;
}

/* All checks have passed: ask etwd. `file` may be NULL. On success the caller's structure and
 * *ret_handle are written. */
static uint32_t start_session(const struct properties *v, const struct name *name,
                              const void *caller_name, const char *file, bool kernel_logger,
                              const struct kernel_start *k, TRACEHANDLE *ret_handle)
{
    Etwd__SessionProperties properties = ETWD__SESSION_PROPERTIES__INIT;
    Etwd__StartSession start = ETWD__START_SESSION__INIT;
    Etwd__Message request = ETWD__MESSAGE__INIT;
    _cleanup_log_file_ struct log_file log_file = LOG_FILE_NONE;
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_free_ void *stacks = NULL;
    _cleanup_close_ int fd = -1;
    EVENT_TRACE_PROPERTIES *p = v->p;
    GUID guid = kernel_logger ? SystemTraceControlGuid : p->Wnode.Guid;
    const Etwd__Session *session;
    _cleanup_free_ char *path = NULL;
    bool sent = false;
    uint32_t code;
    int r;

    /* First the connection: without a daemon no file comes and goes. */
    r = connection_open(&fd, &code);
    if (r < 0)
        return code;

    fill(p, v, &guid, &properties);
    properties.name = name->utf8;
    if (file && mode_opens_file(p->LogFileMode)) {
        r = log_file_open(file, &log_file);
        if (r < 0)
            return log_file_code(r);
        properties.log_file = log_file.path;
        start.created_file = log_file.created;
    } else if (file) {
        r = log_file_path(file, &path);
        if (r < 0)
            return log_file_code(r);
        properties.log_file = path;
    }
    start.properties = &properties;
    if (k) {
        start.kernel = true;
        r = fill_stacks(k, &start, &stacks);
        if (r < 0)
            return code_from_errno(r);
    }
    request.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    request.start_session = &start;
    r = connection_call(fd, &request, &log_file.fd, log_file.fd >= 0 ? 1 : 0, &reply, &sent, &code);
    if (r < 0) {
        struct stat st;
        /* A daemon that died after it had the request may have begun the file: what is in it is
         * kept. */
        if (sent && log_file.fd >= 0 && fstat(log_file.fd, &st) == 0 && st.st_size > 0)
            log_file_done(&log_file, true);
        return code;
    }
    if (reply->status != ERROR_SUCCESS)
        return reply->status;
    log_file_done(&log_file, true);
    if (reply->body_case != ETWD__MESSAGE__BODY_SESSION_REPLY || !reply->session_reply->session)
        return ERROR_GEN_FAILURE;

    session = reply->session_reply->session;
    properties_write(v, session);
    properties_write_name(v, caller_name, name->bytes);
    *ret_handle = session->handle;
    return ERROR_SUCCESS;
}

static uint32_t start_checked(TRACEHANDLE *handle, const void *caller_name,
                              EVENT_TRACE_PROPERTIES *p, bool wide, const struct kernel_start *k)
{
    _cleanup_name_ struct name name = {0};
    _cleanup_free_ char *file = NULL;
    struct properties v;
    bool kernel_logger;
    uint32_t code;
    int r;

    if (!handle)
        return ERROR_INVALID_PARAMETER;
    *handle = 0;
    if (!caller_name || !p || (k && k->n_stacks > 0 && !k->stacks))
        return ERROR_INVALID_PARAMETER;
    if (k && k->n_stacks > ETW_STACK_IDS_MAX)
        return ERROR_INVALID_PARAMETER;
    r = name_read(caller_name, wide, &name);
    if (r < 0)
        return code_from_errno(r);
    if (name.units == 0)
        return ERROR_INVALID_PARAMETER;
    code = properties_view(p, wide, name.bytes, &v);
    if (code != ERROR_SUCCESS)
        return code;
    if (name.units > ETW_NAME_MAX)
        return ERROR_BAD_LENGTH;
    code = properties_file_name(&v, &file);
    if (code != ERROR_SUCCESS)
        return code;

    kernel_logger = name_is_kernel_logger(name.utf8);
    if (k) {
        code = check_kernel(p, &v);
        if (code != ERROR_SUCCESS)
            return code;
    }
    code = check_properties(p, &v, kernel_logger);
    if (code != ERROR_SUCCESS)
        return code;
    code = mode_check_start(p->LogFileMode, p->Wnode.ClientContext, p->MaximumFileSize, file);
    if (code != ERROR_SUCCESS)
        return code;
    /* What the request cannot carry: filters of private sessions. */
    if (v.v2 && ((const EVENT_TRACE_PROPERTIES_V2 *) p)->FilterDescCount > 0)
        return ERROR_NOT_SUPPORTED;
    return start_session(&v, &name, caller_name, file, kernel_logger, k, handle);
}

static ULONG start_trace(TRACEHANDLE *handle, const void *name, EVENT_TRACE_PROPERTIES *p,
                         bool wide)
{
    no_cancel();

    return finish(start_checked(handle, name, p, wide, NULL));
}

static ULONG start_kernel_trace(TRACEHANDLE *handle, EVENT_TRACE_PROPERTIES *p, bool wide,
                                const STACK_TRACING_EVENT_ID *stacks, ULONG n_stacks)
{
    static const WCHAR name_wide[] = KERNEL_LOGGER_NAMEW;
    const struct kernel_start k = {.stacks = stacks, .n_stacks = n_stacks};
    uint32_t code;
    no_cancel();

    code =
        start_checked(handle, wide ? (const void *) name_wide : KERNEL_LOGGER_NAMEA, p, wide, &k);
    /* The one function whose documentation names this code for a lack of memory. */
    return finish(code == ERROR_NOT_ENOUGH_MEMORY ? ERROR_OUTOFMEMORY : code);
}

ULONG WMIAPI StartTraceA(PTRACEHANDLE TraceHandle, LPCSTR InstanceName,
                         PEVENT_TRACE_PROPERTIES Properties)
{
    return start_trace(TraceHandle, InstanceName, Properties, false);
}

ULONG WMIAPI StartTraceW(PTRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                         PEVENT_TRACE_PROPERTIES Properties)
{
    return start_trace(TraceHandle, InstanceName, Properties, true);
}

ULONG WMIAPI StartKernelTrace(PTRACEHANDLE TraceHandle, PEVENT_TRACE_PROPERTIES Properties,
                              const STACK_TRACING_EVENT_ID StackTracingEventIds[],
                              ULONG cStackTracingEventIds)
{
    return start_kernel_trace(TraceHandle, Properties, false, StackTracingEventIds,
                              cStackTracingEventIds);
}

ULONG WMIAPI StartKernelTraceA(PTRACEHANDLE TraceHandle, PEVENT_TRACE_PROPERTIES Properties,
                               const STACK_TRACING_EVENT_ID StackTracingEventIds[],
                               ULONG cStackTracingEventIds)
{
    return start_kernel_trace(TraceHandle, Properties, false, StackTracingEventIds,
                              cStackTracingEventIds);
}

ULONG WMIAPI StartKernelTraceW(PTRACEHANDLE TraceHandle, PEVENT_TRACE_PROPERTIES Properties,
                               const STACK_TRACING_EVENT_ID StackTracingEventIds[],
                               ULONG cStackTracingEventIds)
{
    return start_kernel_trace(TraceHandle, Properties, true, StackTracingEventIds,
                              cStackTracingEventIds);
}
