/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel logger with its own call. Windows: KernelTraceControl.h. What evntrace.h says of all
 * controller functions holds here too.
 */
#ifndef ETW_KERNELTRACECONTROL_H
#define ETW_KERNELTRACECONTROL_H

#include "evntrace.h"

ETW_BEGIN_DECLS

/* Asks for a rundown of the kernel's objects instead of a trace; not in this version. Defined in
 * libetw. */
ETW_API extern const GUID KernelRundownGuid;

/* An event whose stack is wanted: class and type. 24 bytes, the same as CLASSIC_EVENT_ID. */
typedef struct _STACK_TRACING_EVENT_ID {
    GUID EventGuid;
    UCHAR Type;
    UCHAR Reserved[7];
} STACK_TRACING_EVENT_ID, *PSTACK_TRACING_EVENT_ID;

/* Windows: KernelTraceControl.h StartKernelTrace.
 *
 * Starts the kernel logger, of which there is one on a machine. Its name is always
 * KERNEL_LOGGER_NAME and is written to LoggerNameOffset. Stop it with StopTrace.
 *
 * On Windows the names behind Properties are UTF-16. Here they follow the rule of the other
 * functions: StartKernelTrace and StartKernelTraceA take UTF-8, StartKernelTraceW takes UTF-16, and
 * with UNICODE defined the plain name means the latter.
 *
 * TraceHandle               out: the session's handle; 0 on failure.
 * Properties                as StartTrace. Wnode.Guid must be SystemTraceControlGuid. The session
 *                           name's place comes before the file name's. EnableFlags: which events
 *                           (EVENT_TRACE_FLAG_). EVENT_TRACE_REAL_TIME_MODE with a file name writes
 *                           the file as well.
 * StackTracingEventIds      events whose call stack is recorded with them, or NULL. An id whose
 *                           class is not known or not enabled by EnableFlags is ignored. Stacks are
 *                           not in this version: any other id is ERROR_NOT_SUPPORTED.
 * cStackTracingEventIds     how many, at most 256.
 *
 * Returns ERROR_SUCCESS or what StartTrace returns, and
 *   ERROR_INVALID_PARAMETER  a NULL pointer; more than 256 ids; Wnode.Guid is another; the session
 *                            name's place is behind the file name's; a mode that the kernel logger
 *                            cannot have (private, new-file, paged memory)
 *   ERROR_INVALID_FLAGS      EnableFlags has a bit that is not defined
 *   ERROR_NOT_SUPPORTED      EnableFlags has a flag that this version does not trace
 *   ERROR_ALREADY_EXISTS     the kernel logger runs
 *   ERROR_ACCESS_DENIED      neither root nor in group etw; or the system keeps etwd from tracing
 * On any failure nothing is left behind. */
ETW_API ULONG WMIAPI StartKernelTrace(PTRACEHANDLE TraceHandle, PEVENT_TRACE_PROPERTIES Properties,
                                      const STACK_TRACING_EVENT_ID StackTracingEventIds[],
                                      ULONG cStackTracingEventIds);
ETW_API ULONG WMIAPI StartKernelTraceA(PTRACEHANDLE TraceHandle, PEVENT_TRACE_PROPERTIES Properties,
                                       const STACK_TRACING_EVENT_ID StackTracingEventIds[],
                                       ULONG cStackTracingEventIds);
ETW_API ULONG WMIAPI StartKernelTraceW(PTRACEHANDLE TraceHandle, PEVENT_TRACE_PROPERTIES Properties,
                                       const STACK_TRACING_EVENT_ID StackTracingEventIds[],
                                       ULONG cStackTracingEventIds);

#ifdef UNICODE
#define StartKernelTrace StartKernelTraceW
#endif

ETW_END_DECLS

#endif
