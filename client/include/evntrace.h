/* SPDX-License-Identifier: Apache-2.0
 *
 * Controllers and consumers: start, query, update, flush and stop sessions; open and process
 * traces. Windows: evntrace.h. Link with libetw (pkg-config --cflags --libs libetw).
 *
 * For all functions here:
 *   Any thread may call them, several at once. A controller function speaks to the daemon, etwd,
 * and waits for its answer. Nothing stays open between calls, so fork(2), setuid(2) and a restarted
 *   daemon need no care. None of them may be called from a signal handler, nor is a thread inside
 *   one cancelled. The library writes no messages and never ends the process.
 *   Functions that return a ULONG return a code of winerror.h and leave a failing one for
 *   GetLastError() as well.
 *   The A functions take and give UTF-8, the W functions UTF-16. The plain names are the A
 *   functions, with UNICODE defined the W ones. Offsets into EVENT_TRACE_PROPERTIES are bytes for
 *   both.
 *   The daemon's socket is /run/etwd/control.sock, or what ETWD_SOCKET names (ignored in programs
 *   that run with more rights than their caller, see secure_getenv(3)).
 */
#ifndef ETW_EVNTRACE_H
#define ETW_EVNTRACE_H

#include "wmistr.h"
#include "evntprov.h"
#include "etw_evntrace_constants.h"
#include "etw_evntrace_structures.h"
#include "winerror.h"

#ifndef WMIAPI
#define WMIAPI
#endif

ETW_BEGIN_DECLS

/* Sessions, the log-file header and event classes. Defined in libetw. */
ETW_API extern const GUID EventTraceGuid;           /* log-file header events */
ETW_API extern const GUID SystemTraceControlGuid;   /* the kernel logger */
ETW_API extern const GUID EventTraceConfigGuid;     /* SystemConfig events */
ETW_API extern const GUID DefaultTraceSecurityGuid; /* rights that hold where none are set */
ETW_API extern const GUID AlpcGuid;
ETW_API extern const GUID DiskIoGuid;
ETW_API extern const GUID FileIoGuid;
ETW_API extern const GUID ImageLoadGuid;
ETW_API extern const GUID PageFaultGuid;
ETW_API extern const GUID PerfInfoGuid;
ETW_API extern const GUID ProcessGuid;
ETW_API extern const GUID RegistryGuid;
ETW_API extern const GUID SplitIoGuid;
ETW_API extern const GUID TcpIpGuid;
ETW_API extern const GUID ThreadGuid;
ETW_API extern const GUID UdpIpGuid;

/* Controllers.
 *
 * Codes that every controller function may return:
 *   ERROR_WMI_SERVER_UNAVAILABLE  etwd does not run, or went away before it answered
 *   ERROR_REVISION_MISMATCH       etwd is older than this library and does not speak its protocol
 *   ERROR_ACCESS_DENIED           the caller may not do that: the kernel logger and other users'
 *                                 sessions are for root and group etw
 *   ERROR_NOT_ENOUGH_MEMORY, ERROR_TOO_MANY_OPEN_FILES
 *                                 in this process
 *   ERROR_NO_SYSTEM_RESOURCES     a limit of etwd is reached
 *   ERROR_NOT_SUPPORTED           a mode or kernel flag that is documented but that this
 *                                 version does not have
 */

/* Windows: evntrace.h StartTraceA, StartTraceW.
 *
 * Starts a session. It outlives the process; StopTrace ends it.
 *
 * TraceHandle   out: the session's handle; 0 on failure.
 * InstanceName  the session's name, 1 to 1024 characters. Names are compared without regard to
 * case. KERNEL_LOGGER_NAME makes it the kernel logger, whatever Wnode.Guid says. Properties    in:
 * see the structure. Wnode.Flags must have WNODE_FLAG_TRACED_GUID; a zero Wnode.Guid is replaced by
 * a new one; Wnode.ClientContext is the clock (0: 1, QPC; 3, CPU cycles, becomes 2, the system
 * time, where there is no counter of one rate). LogFileMode 0 with a file name is
 * EVENT_TRACE_FILE_MODE_SEQUENTIAL. out, on success: Wnode.HistoricalContext (the handle),
 * Wnode.Guid and all members as the daemon adjusted them; the name at LoggerNameOffset. Untouched
 * on failure.
 *
 * The log file is opened with the caller's rights. Its name is taken as it is: nothing is expanded,
 * no extension is added, directories must exist, a relative name is relative to the caller's
 * working directory. An existing file is overwritten once the session has started; on failure it is
 * as it was, and a file that this call made is removed.
 *
 * Returns ERROR_SUCCESS or, in the order of the checks, besides the codes above:
 *   ERROR_INVALID_PARAMETER  TraceHandle, InstanceName or Properties is NULL; the name is empty
 *   ERROR_BAD_LENGTH         Wnode.BufferSize does not hold the structure; no room for the name at
 *                            LoggerNameOffset; a name is longer than 1024 characters or has no end
 *   ERROR_INVALID_PARAMETER  WNODE_FLAG_TRACED_GUID is missing; VersionNumber is not 2; an offset
 *                            points into the structure, or both to the same place; ClientContext is
 *                            above 3; LogFileMode has an invalid combination, or a mode that needs
 *                            MaximumFileSize while that is 0, or EVENT_TRACE_NONSTOPPABLE_MODE;
 *                            Wnode.Guid is SystemTraceControlGuid and the name is not
 *                            KERNEL_LOGGER_NAME; the name is not UTF-8; MaximumFileSize does not
 *                            hold two buffers
 *   ERROR_INVALID_NAME       EVENT_TRACE_FILE_MODE_NEWFILE without one %d in the file name
 *   ERROR_BAD_PATHNAME       no file name, and no mode that does without; the name is not that of a
 *                            regular file; the file belongs to another running session
 *   ERROR_PATH_NOT_FOUND     a directory of the file name does not exist
 *   ERROR_ACCESS_DENIED      the file or its directory cannot be written
 *   ERROR_DISK_FULL          the file cannot be made, or there is less room than MaximumFileSize
 *   ERROR_ALREADY_EXISTS     a session of that name or GUID runs */
ETW_API ULONG WMIAPI StartTraceA(PTRACEHANDLE TraceHandle, LPCSTR InstanceName,
                                 PEVENT_TRACE_PROPERTIES Properties);
ETW_API ULONG WMIAPI StartTraceW(PTRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                                 PEVENT_TRACE_PROPERTIES Properties);

/* Windows: evntrace.h ControlTraceA, ControlTraceW.
 *
 * Queries, stops, updates or flushes a session.
 *
 * TraceHandle   from StartTrace or Wnode.HistoricalContext; not used when InstanceName is given.
 * InstanceName  the session's name; NULL or empty: TraceHandle counts.
 * Properties    in: Wnode.BufferSize and both offsets; Wnode.Guid only matters when it is
 *               SystemTraceControlGuid. For EVENT_TRACE_CONTROL_UPDATE also: EnableFlags (kernel
 *               logger; 0 turns all off), FlushTimer and MaximumBuffers (0: as it is), LogFileMode
 *               (only EVENT_TRACE_REAL_TIME_MODE counts; not set: live delivery ends), the file
 * name (offset 0: as it is; else another file). For EVENT_TRACE_CONTROL_FLUSH of a session in
 * EVENT_TRACE_BUFFERING_MODE: the file name, where what it has in memory is written, with the
 * caller's rights; the name stays as it is. Other sessions take none. out: all members and both
 * names. After
 * EVENT_TRACE_CONTROL_STOP the counts are final: all buffers are in the file. ControlCode
 * EVENT_TRACE_CONTROL_QUERY, _STOP, _UPDATE, _FLUSH; _INCREMENT_FILE and _CONVERT_TO_REALTIME are
 * ERROR_NOT_SUPPORTED yet.
 *
 * Returns ERROR_SUCCESS or, besides the codes above:
 *   ERROR_INVALID_PARAMETER       Properties is NULL; neither a name nor a possible handle;
 *                                 ControlCode is none of these; an offset points into the
 * structure, or both to the same place; Wnode.Guid is SystemTraceControlGuid and the name is not
 * KERNEL_LOGGER_NAME; UPDATE: LogFileMode has an invalid combination ERROR_BAD_LENGTH
 * Wnode.BufferSize does not hold the structure, or an offset is beyond it; UPDATE: the file name is
 * too long or has no end ERROR_BAD_PATHNAME, ERROR_PATH_NOT_FOUND, ERROR_ACCESS_DENIED,
 * ERROR_DISK_FULL UPDATE, FLUSH with a file name: as StartTrace
 *   ERROR_BUSY                    FLUSH: another snapshot of the session is being written
 * ERROR_WMI_INSTANCE_NOT_FOUND  no such
 * session runs ERROR_ACTIVE_CONNECTIONS      STOP: the session is being stopped already
 *   ERROR_MORE_DATA               done (a STOP, too: the session has ended), but a name did not
 * fit: it is cut; all other members are filled */
ETW_API ULONG WMIAPI ControlTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName,
                                   PEVENT_TRACE_PROPERTIES Properties, ULONG ControlCode);
ETW_API ULONG WMIAPI ControlTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                                   PEVENT_TRACE_PROPERTIES Properties, ULONG ControlCode);

/* Windows: evntrace.h StopTrace, QueryTrace, UpdateTrace, FlushTrace (A and W).
 *
 * ControlTrace with the code of the name; parameters and results as there. */
ETW_API ULONG WMIAPI StopTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName,
                                PEVENT_TRACE_PROPERTIES Properties);
ETW_API ULONG WMIAPI StopTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                                PEVENT_TRACE_PROPERTIES Properties);
ETW_API ULONG WMIAPI QueryTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName,
                                 PEVENT_TRACE_PROPERTIES Properties);
ETW_API ULONG WMIAPI QueryTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                                 PEVENT_TRACE_PROPERTIES Properties);
ETW_API ULONG WMIAPI UpdateTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName,
                                  PEVENT_TRACE_PROPERTIES Properties);
ETW_API ULONG WMIAPI UpdateTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                                  PEVENT_TRACE_PROPERTIES Properties);
ETW_API ULONG WMIAPI FlushTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName,
                                 PEVENT_TRACE_PROPERTIES Properties);
ETW_API ULONG WMIAPI FlushTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                                 PEVENT_TRACE_PROPERTIES Properties);

/* Windows: evntrace.h QueryAllTracesA, QueryAllTracesW.
 *
 * The properties of all sessions that the caller may query, in the order of their ids.
 *
 * PropertyArray       pointers to structures, each with Wnode.BufferSize and both offsets set; with
 *                     WNODE_FLAG_VERSIONED_PROPERTIES an EVENT_TRACE_PROPERTIES_V2. A name that
 *                     does not fit is cut.
 * PropertyArrayCount  1 to the number of sessions there can be (TraceMaxLoggersQuery), or 64
 * LoggerCount         out, on ERROR_SUCCESS and ERROR_MORE_DATA: how many sessions there are
 *
 * Returns ERROR_SUCCESS or, besides the codes above:
 *   ERROR_INVALID_PARAMETER  PropertyArray or LoggerCount is NULL, PropertyArrayCount is 0 or too
 *                            large, an element is NULL or has an offset into the structure
 *   ERROR_BAD_LENGTH         an element's Wnode.BufferSize does not hold the structure
 *   ERROR_MORE_DATA          there are more sessions than elements; all elements are filled
 * Nothing is written otherwise. */
ETW_API ULONG WMIAPI QueryAllTracesA(PEVENT_TRACE_PROPERTIES *PropertyArray,
                                     ULONG PropertyArrayCount, PULONG LoggerCount);
ETW_API ULONG WMIAPI QueryAllTracesW(PEVENT_TRACE_PROPERTIES *PropertyArray,
                                     ULONG PropertyArrayCount, PULONG LoggerCount);

/* Windows: evntrace.h EnumerateTraceGuids.
 *
 * The providers that are registered or enabled, as far as the caller may see them, in the order of
 * their GUIDs. Of several sessions that enabled one, the first is told.
 *
 * GuidPropertiesArray  pointers to structures that are filled; may be NULL when PropertyArrayCount
 *                      is 0
 * GuidCount            out, on ERROR_SUCCESS and ERROR_MORE_DATA: how many providers there are
 *
 * TRACE_GUID_PROPERTIES.LoggerId can be used as a TRACEHANDLE; EnableFlags is the low half of
 * MatchAnyKeyword.
 *
 * Returns ERROR_SUCCESS or, besides the codes above:
 *   ERROR_INVALID_PARAMETER  GuidPropertiesArray with a PropertyArrayCount, one of its elements, or
 *                            GuidCount is NULL
 *   ERROR_MORE_DATA          there are more providers than elements */
ETW_API ULONG WMIAPI EnumerateTraceGuids(PTRACE_GUID_PROPERTIES *GuidPropertiesArray,
                                         ULONG PropertyArrayCount, PULONG GuidCount);

/* Windows: evntrace.h EnumerateTraceGuidsEx.
 *
 * TraceQueryInfoClass  and what goes in and comes out:
 *   TraceGuidQueryList     nothing; a GUID for each provider that is registered or enabled
 *   TraceGuidQueryInfo     a provider's GUID; TRACE_GUID_INFO, then for each registration a
 *                          TRACE_PROVIDER_INSTANCE_INFO with its TRACE_ENABLE_INFOs. NextOffset
 *                          leads from one registration to the next and is 0 at the last. Enabled
 *                          and not registered: one with Pid 0 and Flags 2.
 *   TraceGuidQueryProcess  a process id (ULONG); a GUID for each provider that it registered
 *   TraceMaxLoggersQuery   nothing; ULONG, the number of sessions there can be
 *   TraceGroupQueryList, TraceGroupQueryInfo, TraceDisallowListQuery: ERROR_NOT_SUPPORTED
 * InBufferSize, OutBufferSize  bytes
 * ReturnLength         out, on ERROR_SUCCESS and ERROR_INSUFFICIENT_BUFFER: bytes of the answer
 *
 * Returns ERROR_SUCCESS or, besides the codes above:
 *   ERROR_INVALID_PARAMETER    ReturnLength is NULL, OutBuffer is NULL with a size, InBuffer is not
 *                              what the class takes, or the class is none of these
 *   ERROR_INSUFFICIENT_BUFFER  OutBufferSize is too small
 *   ERROR_WMI_GUID_NOT_FOUND   nobody registered or enabled this provider, or the caller may not
 *                              see it */
ETW_API ULONG WMIAPI EnumerateTraceGuidsEx(TRACE_QUERY_INFO_CLASS TraceQueryInfoClass,
                                           PVOID InBuffer, ULONG InBufferSize, PVOID OutBuffer,
                                           ULONG OutBufferSize, PULONG ReturnLength);

/* Windows: evntrace.h TraceSetInformation.
 *
 * Classes, with what they take; the others of TRACE_INFO_CLASS that can be set are
 * ERROR_NOT_SUPPORTED, those that can only be asked for ERROR_INVALID_PARAMETER:
 *   TraceStackTracingInfo            CLASSIC_EVENT_IDs, at most 256, which replace those before;
 *                                    InformationLength 0: none. Ids that mean nothing here are
 *                                    ignored; one that the session logs is ERROR_NOT_SUPPORTED yet.
 *   TraceSystemTraceEnableFlagsInfo  ULONG[8], the group mask; the kernel logger's only, but for
 *                                    one that is all 0
 * InformationLength  bytes
 *
 * Returns ERROR_SUCCESS or, besides the codes above:
 *   ERROR_INVALID_PARAMETER       no session can have such a handle; TraceInformation is NULL with
 *                                 a length; the class is unknown or cannot be set; more than 256
 *                                 ids; more than a group mask, or one for a session that has no
 *                                 kernel events
 *   ERROR_BAD_LENGTH              InformationLength is too small, or no multiple of the class's
 *                                 structure
 *   ERROR_WMI_INSTANCE_NOT_FOUND  no such session runs
 *   ERROR_ACTIVE_CONNECTIONS, ERROR_BUSY
 *                                 it is being stopped, or changed */
ETW_API ULONG WMIAPI TraceSetInformation(TRACEHANDLE SessionHandle,
                                         TRACE_INFO_CLASS InformationClass, PVOID TraceInformation,
                                         ULONG InformationLength);

/* Windows: evntrace.h TraceQueryInformation.
 *
 * Classes, with what they give; the others of TRACE_INFO_CLASS that can be asked for are
 * ERROR_NOT_SUPPORTED, those that can only be set and those of EnumerateTraceGuidsEx
 * ERROR_INVALID_PARAMETER:
 *   TraceStackTracingInfo            CLASSIC_EVENT_IDs that are in force: none yet
 *   TraceSystemTraceEnableFlagsInfo  ULONG[8], the group mask; all 0 without kernel events
 *   TraceVersionInfo                 TRACE_VERSION_INFO. SessionHandle may be 0.
 *   TraceMaxLoggersQuery             ULONG, sessions there can be. SessionHandle may be 0.
 *   TraceMaxPmcCounterQuery          ULONG, hardware counters that can be asked for: 0.
 * SessionHandle may be 0. TraceStreamCount                 ULONG, streams of buffers that the
 * session has InformationLength  bytes ReturnLength       out, may be NULL: bytes of the answer,
 * also with ERROR_BAD_LENGTH
 *
 * Returns ERROR_SUCCESS or, besides the codes above:
 *   ERROR_INVALID_PARAMETER       no session can have such a handle; TraceInformation is NULL with
 *                                 a length; the class is unknown or cannot be asked for
 *   ERROR_BAD_LENGTH              InformationLength is too small
 *   ERROR_WMI_INSTANCE_NOT_FOUND  no such session runs */
ETW_API ULONG WMIAPI TraceQueryInformation(TRACEHANDLE SessionHandle,
                                           TRACE_INFO_CLASS InformationClass,
                                           PVOID TraceInformation, ULONG InformationLength,
                                           PULONG ReturnLength);

/* Consumers. */

/* Windows: evntrace.h OpenTraceA, OpenTraceW.
 *
 * Opens a trace file, or a live session, for ProcessTrace.
 *
 * Logfile  in: LogFileName (a path of at most 4 095 bytes, the caller's rights decide) or
 *          LoggerName, ProcessTraceMode, BufferCallback, EventCallback or EventRecordCallback,
 *          Context. Callbacks may be NULL. With PROCESS_TRACE_MODE_REAL_TIME LoggerName counts,
 *          else LogFileName where it is not NULL.
 *          out, of a file: LogfileHeader, BufferSize, EventsLost, IsKernelTrace (not 0: a kernel
 *          session wrote it), LoggerName (the session's name in the file). This name and those in
 *          LogfileHeader (always UTF-16) belong to the handle and are valid until it is closed. The
 *          structure is copied; it may go away, or be used again as it is.
 *
 * Returns a handle for ProcessTrace and CloseTrace, valid in all threads of this process, or
 * INVALID_PROCESSTRACE_HANDLE, and then GetLastError() is
 *   ERROR_INVALID_PARAMETER  Logfile is NULL; LoggerName is empty or longer than 1 024 characters;
 *                            PROCESS_TRACE_MODE_REAL_TIME with a LogFileName and no LoggerName
 *   ERROR_BAD_PATHNAME       LoggerName is not given and LogFileName is NULL, empty, too long or
 *                            not a regular file
 *   ERROR_FILE_NOT_FOUND     there is no such file
 *   ERROR_PATH_NOT_FOUND     a directory of the path does not exist
 *   ERROR_ACCESS_DENIED      the file cannot be read
 *   ERROR_FILE_CORRUPT       not a trace file
 *   ERROR_READ_FAULT, ERROR_TOO_MANY_OPEN_FILES, ERROR_NOT_ENOUGH_MEMORY
 * A session that does not run is told by ProcessTrace, not here. An open file takes one descriptor,
 * until ProcessTrace returns or the handle is closed. Any thread. */
ETW_API TRACEHANDLE WMIAPI OpenTraceA(PEVENT_TRACE_LOGFILEA Logfile);
ETW_API TRACEHANDLE WMIAPI OpenTraceW(PEVENT_TRACE_LOGFILEW Logfile);

/* Windows: evntrace.h ProcessTrace.
 *
 * Delivers the events of the opened traces, oldest first across all of them, to their callbacks, on
 * this thread. Returns when all is delivered. The first event of a file describes it: ProviderId
 * EventTraceGuid, opcode EVENT_TRACE_TYPE_INFO, TRACE_LOGFILE_HEADER as data.
 *
 * HandleArray, HandleCount  1 to 64 files, or one live session. A handle can be processed once.
 * StartTime, EndTime        FILETIME (UTC): only events in between, the ends included; NULL: open.
 *
 * Order: by time; equal stamps by file (as in HandleArray), then sequence number of the buffer,
 * then place in the buffer. An event whose stamp is before that of the event ahead of it in its
 * buffer keeps its place. Buffers that overlap in time are held in memory together, at most 16 384
 * of them and 1 GiB; what overlaps more is still delivered, but not sorted all through.
 * Damage: of a damaged or cut buffer the events before the damage are delivered, then all other
 * buffers; it is no error. A file that is still being written is delivered up to what was in it
 * when it was opened.
 *
 * Callbacks run on this thread, with no lock held. An event and all it points to is valid until its
 * callback returns. BufferCallback comes after the events of a buffer, with LogfileHeader,
 * BuffersRead, Filled, CurrentTime and CurrentEvent brought up to date; its structure is the
 * library's, with LogFileName and LoggerName in the encoding that OpenTrace was called with.
 * A callback may do anything, CloseTrace of its own handle and ProcessTrace of another included; it
 * must not leave by longjmp. A C++ exception that it throws passes through, and the handles are
 * closed. When a callback dies of a SIGSEGV, SIGBUS, SIGFPE or SIGILL by one of its instructions
 * (stack overflow included), where the program left that signal's action at the default, the call
 * ends with ERROR_NOACCESS; the handles stay to be closed, the library can be used on. A signal for
 * which the program has a handler is not touched, nor are faults of other threads and signals that
 * somebody sends. For that, while a thread is in this function, the four signals have a handler of
 * the library where their action was the default, they are unblocked on this thread, and it has an
 * alternate signal stack if it had none; all is put back.
 *
 * Returns ERROR_SUCCESS or
 *   ERROR_INVALID_PARAMETER       HandleArray is NULL; files and live sessions are mixed; more than
 *                                 one live session
 *   ERROR_BAD_LENGTH              HandleCount is 0 or above 64
 *   ERROR_INVALID_HANDLE          a handle is not open, is being processed or was processed before
 *   ERROR_INVALID_TIME            EndTime is before StartTime
 *   ERROR_CANCELLED               a BufferCallback returned FALSE
 *   ERROR_NOACCESS                see above
 *   ERROR_NOT_SUPPORTED           a live session: not in this version
 *   ERROR_READ_FAULT, ERROR_NOT_ENOUGH_MEMORY
 * The checks are made in this order, and a call that fails by one of them (the first four) has not
 * used the handles up. CloseTrace from a callback or another thread ends it with ERROR_SUCCESS.
 * Several threads may be in this function, each with handles of its own. */
ETW_API ULONG WMIAPI ProcessTrace(PTRACEHANDLE HandleArray, ULONG HandleCount, LPFILETIME StartTime,
                                  LPFILETIME EndTime);

/* Windows: evntrace.h CloseTrace.
 *
 * Closes a handle of OpenTrace.
 *
 * Returns ERROR_SUCCESS or
 *   ERROR_INVALID_HANDLE     not an open handle, or closed before
 *   ERROR_CTX_CLOSE_PENDING  ProcessTrace is at work on it: the close is accepted and the handle is
 *                            not valid any more; the buffers already begun are delivered, no
 *                            further one is, then ProcessTrace returns or goes on with its other
 *                            files
 * Any thread, callbacks included. */
ETW_API ULONG WMIAPI CloseTrace(TRACEHANDLE TraceHandle);

/* Windows: evntrace.h EnableTraceEx2.
 *
 * Says which events of a provider a session wants, or that it wants none any more. The provider
 * need not be there: it is enabled when a process registers it, before its EventRegister returns. A
 * second call replaces what the first one said. The wish lasts until it is taken back or the
 * session ends.
 *
 * TraceHandle      a running session's, not the kernel logger's
 * ProviderId       the provider
 * ControlCode      EVENT_CONTROL_CODE_ENABLE_PROVIDER; EVENT_CONTROL_CODE_DISABLE_PROVIDER, also
 *                  when it was not enabled; EVENT_CONTROL_CODE_CAPTURE_STATE: providers are asked
 * to write their state Level            events above this are not wanted; 0: all are
 * MatchAnyKeyword  events that have one of these bits; 0: all
 * MatchAllKeyword  of these, only events that have all these bits
 *                  An event without keywords is wanted whatever these say, but for the property
 *                  EVENT_ENABLE_PROPERTY_IGNORE_KEYWORD_0.
 * Timeout          milliseconds to wait until the enable callbacks of all processes have returned;
 * 0: does not wait; INFINITE. From inside an enable callback it never waits. EnableParameters NULL,
 * or Version 1 (EnableFilterDesc: one filter or NULL) or 2 (FilterDescCount of them, at most 13,
 * each type once), with EnableProperty and SourceId, which the callbacks get
 *
 * Properties: EVENT_ENABLE_PROPERTY_SID, _TS_ID, _PROCESS_START_KEY and _EVENT_KEY add extended
 * data to the events; _IGNORE_KEYWORD_0 and _ENABLE_KEYWORD_0 as above. Filters: _SCHEMATIZED (24
 * to 1024 bytes, which the callbacks get), _PID (up to 8 ULONG, of this process's namespace; ids
 * that name no process are left out, and an empty list matches nobody), _EXECUTABLE_NAME (UTF-16,
 * up to 1024 bytes, names separated by ';'), _EVENT_ID (up to 64 ids, in or out).
 *
 * Returns ERROR_SUCCESS or
 *   ERROR_INVALID_PARAMETER        ProviderId is NULL or the null GUID; no session has such a
 * handle; ControlCode, Version, a property, a filter's type or size are not known or not valid; a
 * filter type twice ERROR_WMI_INSTANCE_NOT_FOUND   no such session is running ERROR_ACCESS_DENIED
 * it is another user's session ERROR_NO_SYSTEM_RESOURCES      the provider is enabled by as many
 * sessions as it may be (8) ERROR_TIMEOUT                  not all callbacks have returned in time;
 * the wish stays ERROR_NOT_SUPPORTED            the kernel logger; stacks, provider groups and the
 * other properties and filters that Windows has ERROR_WMI_SERVER_UNAVAILABLE   there is no daemon
 *   ERROR_NOT_ENOUGH_MEMORY
 * Any thread, enable callbacks included. */
ETW_API ULONG WMIAPI EnableTraceEx2(TRACEHANDLE TraceHandle, LPCGUID ProviderId, ULONG ControlCode,
                                    UCHAR Level, ULONGLONG MatchAnyKeyword,
                                    ULONGLONG MatchAllKeyword, ULONG Timeout,
                                    PENABLE_TRACE_PARAMETERS EnableParameters);

/* Windows: evntrace.h EnableTraceEx. EnableTraceEx2 with Timeout 0 and at most one filter;
 * IsEnabled is a ControlCode; SourceId may be NULL. Returns what it returns. Any thread. */
ETW_API ULONG WMIAPI EnableTraceEx(LPCGUID ProviderId, LPCGUID SourceId, TRACEHANDLE TraceHandle,
                                   ULONG IsEnabled, UCHAR Level, ULONGLONG MatchAnyKeyword,
                                   ULONGLONG MatchAllKeyword, ULONG EnableProperty,
                                   PEVENT_FILTER_DESCRIPTOR EnableFilterDesc);

/* Windows: evntrace.h EnableTrace. EnableTraceEx2 with Timeout 0: Enable FALSE disables, EnableFlag
 * is MatchAnyKeyword, EnableLevel (0 to 255) the level. Returns what it returns. Any thread. */
ETW_API ULONG WMIAPI EnableTrace(ULONG Enable, ULONG EnableFlag, ULONG EnableLevel,
                                 LPCGUID ControlGuid, TRACEHANDLE TraceHandle);

#ifdef UNICODE
#define PEVENT_TRACE_BUFFER_CALLBACK PEVENT_TRACE_BUFFER_CALLBACKW
#define EVENT_TRACE_LOGFILE EVENT_TRACE_LOGFILEW
#define PEVENT_TRACE_LOGFILE PEVENT_TRACE_LOGFILEW
#define StartTrace StartTraceW
#define ControlTrace ControlTraceW
#define StopTrace StopTraceW
#define QueryTrace QueryTraceW
#define UpdateTrace UpdateTraceW
#define FlushTrace FlushTraceW
#define QueryAllTraces QueryAllTracesW
#define OpenTrace OpenTraceW
#else
#define PEVENT_TRACE_BUFFER_CALLBACK PEVENT_TRACE_BUFFER_CALLBACKA
#define EVENT_TRACE_LOGFILE EVENT_TRACE_LOGFILEA
#define PEVENT_TRACE_LOGFILE PEVENT_TRACE_LOGFILEA
#define StartTrace StartTraceA
#define ControlTrace ControlTraceA
#define StopTrace StopTraceA
#define QueryTrace QueryTraceA
#define UpdateTrace UpdateTraceA
#define FlushTrace FlushTraceA
#define QueryAllTraces QueryAllTracesA
#define OpenTrace OpenTraceA
#endif

ETW_END_DECLS

#endif
