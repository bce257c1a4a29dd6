/* SPDX-License-Identifier: Apache-2.0
 *
 * ControlTrace and its older forms: query, stop, update, flush. The checks in the documented order,
 * the request, the results. Any thread.
 */
#include "internal.h"

#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/limits.h"

_Static_assert(EVENT_TRACE_CONTROL_QUERY == ETWD__CONTROL_SESSION__CODE__QUERY &&
                   EVENT_TRACE_CONTROL_STOP == ETWD__CONTROL_SESSION__CODE__STOP &&
                   EVENT_TRACE_CONTROL_UPDATE == ETWD__CONTROL_SESSION__CODE__UPDATE &&
                   EVENT_TRACE_CONTROL_FLUSH == ETWD__CONTROL_SESSION__CODE__FLUSH &&
                   EVENT_TRACE_CONTROL_INCREMENT_FILE ==
                       ETWD__CONTROL_SESSION__CODE__INCREMENT_FILE &&
                   EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME ==
                       ETWD__CONTROL_SESSION__CODE__CONVERT_TO_REALTIME,
               "the wire uses ETW's codes");

/* A handle is generation << 16 | id with ids from 1 and 32 bits of generation. One that is none is
 * a mistake of the caller; whether one that could be is running, etwd knows. */
bool handle_possible(TRACEHANDLE h)
{
    return (h & 0xFFFF) != 0 && h >> 48 == 0;
}

/* What UPDATE takes from the structure. Borrowed strings are the caller's. */
static uint32_t fill_update(const struct properties *v, const char *file,
                            Etwd__SessionProperties *ret, struct log_file *log_file)
{
    const EVENT_TRACE_PROPERTIES *p = v->p;
    int r;

    ret->enable_flags = p->EnableFlags;
    ret->flush_timer_s = p->FlushTimer;
    ret->maximum_buffers = p->MaximumBuffers;
    ret->log_file_mode = p->LogFileMode;
    if (!file)
        return ERROR_SUCCESS;
    r = log_file_open(file, log_file);
    if (r < 0)
        return log_file_code(r);
    ret->log_file = log_file->path;
    return ERROR_SUCCESS;
}

/* One request and its session. log_file: goes along, and is kept when etwd took it. */
static uint32_t control_call(int fd, Etwd__ControlSession *body, struct log_file *log_file,
                             Etwd__Message **ret_reply)
{
    _cleanup_message_ Etwd__Message *reply = NULL;
    Etwd__Message request = ETWD__MESSAGE__INIT;
    bool sent = false;
    uint32_t code;
    int r;

    request.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
    request.control_session = body;
    r = connection_call(fd, &request, &log_file->fd, log_file->fd >= 0 ? 1 : 0, &reply, &sent,
                        &code);
    if (r < 0) {
        struct stat st;
        /* A daemon that died after it had the request may have begun the file: what is in it is
         * kept. */
        if (sent && log_file->fd >= 0 && fstat(log_file->fd, &st) == 0 && st.st_size > 0)
            log_file_done(log_file, true);
        return code;
    }
    if (reply->status != ERROR_SUCCESS)
        return reply->status;
    log_file_done(log_file, true);
    if (reply->body_case != ETWD__MESSAGE__BODY_SESSION_REPLY || !reply->session_reply->session)
        return ERROR_GEN_FAILURE;
    *ret_reply = TAKE_PTR(reply);
    return ERROR_SUCCESS;
}

/* A session in buffering mode, as it is now, into the caller's file, which keeps its place in the
 * structure. */
static uint32_t snapshot(int fd, Etwd__ControlSession *body, const struct properties *v,
                         const char *file)
{
    Etwd__SessionProperties properties = ETWD__SESSION_PROPERTIES__INIT;
    _cleanup_log_file_ struct log_file log_file = LOG_FILE_NONE;
    _cleanup_message_ Etwd__Message *reply = NULL;
    uint32_t code;
    int r;

    r = log_file_open(file, &log_file);
    if (r < 0)
        return log_file_code(r);
    properties.log_file = log_file.path;
    body->properties = &properties;
    code = control_call(fd, body, &log_file, &reply);
    if (code != ERROR_SUCCESS)
        return code;
    struct properties names = *v;
    names.file_offset = 0;
    properties_write(v, reply->session_reply->session);
    return properties_write_names(&names, reply->session_reply->session->properties)
               ? ERROR_SUCCESS
               : ERROR_MORE_DATA;
}

static uint32_t control_session(const struct properties *v, const char *name, TRACEHANDLE handle,
                                const char *file, ULONG control)
{
    Etwd__SessionProperties properties = ETWD__SESSION_PROPERTIES__INIT;
    Etwd__ControlSession body = ETWD__CONTROL_SESSION__INIT;
    _cleanup_log_file_ struct log_file log_file = LOG_FILE_NONE;
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_close_ int fd = -1;
    const Etwd__Session *session;
    uint32_t code;
    int r;

    r = connection_open(&fd, &code);
    if (r < 0)
        return code;
    if (name)
        body.name = (char *) (uintptr_t) name;
    else
        body.handle = handle;
    body.code = (Etwd__ControlSession__Code) control;
    if (control == EVENT_TRACE_CONTROL_UPDATE) {
        code = fill_update(v, file, &properties, &log_file);
        if (code != ERROR_SUCCESS)
            return code;
        body.properties = &properties;
    }
    code = control_call(fd, &body, &log_file, &reply);
    if (code != ERROR_SUCCESS)
        return code;
    session = reply->session_reply->session;
    /* Only now it is known that the session takes a file here: no other call makes one. */
    if (control == EVENT_TRACE_CONTROL_FLUSH && file && session->properties &&
        session->properties->log_file_mode & EVENT_TRACE_BUFFERING_MODE)
        return snapshot(fd, &body, v, file);
    properties_write(v, session);
    return properties_write_names(v, session->properties) ? ERROR_SUCCESS : ERROR_MORE_DATA;
}

static uint32_t control_checked(TRACEHANDLE handle, const void *caller_name,
                                EVENT_TRACE_PROPERTIES *p, bool wide, ULONG control)
{
    _cleanup_name_ struct name name = {0};
    _cleanup_free_ char *file = NULL;
    struct properties v;
    uint32_t code;
    int r;

    if (!p || control > EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME)
        return ERROR_INVALID_PARAMETER;
    if (caller_name) {
        r = name_read(caller_name, wide, &name);
        if (r < 0)
            return code_from_errno(r);
    }
    if (name.units == 0 && !handle_possible(handle))
        return ERROR_INVALID_PARAMETER;
    code = properties_view(p, wide, 0, &v);
    if (code != ERROR_SUCCESS)
        return code;
    if (control == EVENT_TRACE_CONTROL_UPDATE || control == EVENT_TRACE_CONTROL_FLUSH) {
        code = properties_file_name(&v, &file);
        if (code != ERROR_SUCCESS && control == EVENT_TRACE_CONTROL_UPDATE)
            return code;
        if (code != ERROR_SUCCESS) /* room for the answer only: it need not hold a name */
            file = NULL;
    }
    if (control == EVENT_TRACE_CONTROL_UPDATE) {
        code = mode_check(p->LogFileMode, false);
        if (code != ERROR_SUCCESS)
            return code;
    }
    if (name.units > 0 && IsEqualGUID(&p->Wnode.Guid, &SystemTraceControlGuid) &&
        !name_is_kernel_logger(name.utf8))
        return ERROR_INVALID_PARAMETER;
    if (name.units > ETW_NAME_MAX) /* no session can have it */
        return ERROR_WMI_INSTANCE_NOT_FOUND;
    return control_session(&v, name.units > 0 ? name.utf8 : NULL, handle, file, control);
}

static ULONG control_trace(TRACEHANDLE handle, const void *name, EVENT_TRACE_PROPERTIES *p,
                           bool wide, ULONG control)
{
    no_cancel();

    return finish(control_checked(handle, name, p, wide, control));
}

ULONG WMIAPI ControlTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName,
                           PEVENT_TRACE_PROPERTIES Properties, ULONG ControlCode)
{
    return control_trace(TraceHandle, InstanceName, Properties, false, ControlCode);
}

ULONG WMIAPI ControlTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                           PEVENT_TRACE_PROPERTIES Properties, ULONG ControlCode)
{
    return control_trace(TraceHandle, InstanceName, Properties, true, ControlCode);
}

/* The older forms, each with its code. */
#define OLDER_FORM(function, control)                                                              \
    ULONG WMIAPI function##A(TRACEHANDLE TraceHandle, LPCSTR InstanceName,                         \
                             PEVENT_TRACE_PROPERTIES Properties)                                   \
    {                                                                                              \
        return control_trace(TraceHandle, InstanceName, Properties, false, control);               \
    }                                                                                              \
    ULONG WMIAPI function##W(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,                        \
                             PEVENT_TRACE_PROPERTIES Properties)                                   \
    {                                                                                              \
        return control_trace(TraceHandle, InstanceName, Properties, true, control);                \
    }

OLDER_FORM(QueryTrace, EVENT_TRACE_CONTROL_QUERY)
OLDER_FORM(StopTrace, EVENT_TRACE_CONTROL_STOP)
OLDER_FORM(UpdateTrace, EVENT_TRACE_CONTROL_UPDATE)
OLDER_FORM(FlushTrace, EVENT_TRACE_CONTROL_FLUSH)
