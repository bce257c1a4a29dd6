/* SPDX-License-Identifier: Apache-2.0
 *
 * The handles and structures of evntrace.h: sessions' properties, what consumers open and receive,
 * and those of functions that are not in this version of the library. Part of evntrace.h, which
 * includes it; not for inclusion by itself. Types only.
 */
#ifndef ETW_EVNTRACE_STRUCTURES_H
#define ETW_EVNTRACE_STRUCTURES_H

#include "wmistr.h"
#include "evntprov.h"

ETW_BEGIN_DECLS

/* A session's handle, or an opened trace's. Handles of sessions are valid in every process. */
typedef ULONG64 TRACEHANDLE, *PTRACEHANDLE;
typedef ULONG64 CONTROLTRACE_ID, *PCONTROLTRACE_ID;
typedef ULONG64 PROCESSTRACE_HANDLE, *PPROCESSTRACE_HANDLE;

/* What OpenTrace returns when it fails. A failed StartTrace gives 0 instead. */
#define INVALID_PROCESSTRACE_HANDLE ((TRACEHANDLE) (ULONG_PTR) INVALID_HANDLE_VALUE)

/* 120 bytes, followed by the names in the same allocation.
 *
 * Wnode.BufferSize is the size of the whole allocation in bytes. LoggerNameOffset and
 * LogFileNameOffset are where the names are or go, in bytes from the start of the structure; 0: not
 * there. Room for a name ends where the other name begins, or at the end of the allocation. A name
 * has at most 1024 characters and a NUL. The caller writes the log file's name; the library writes
 * the session's. A log file's name that is an empty string counts as none. */
typedef struct _EVENT_TRACE_PROPERTIES {
    WNODE_HEADER Wnode;
    ULONG BufferSize;          /* KB a buffer; 0: the default, 64. 4 to 16384 */
    ULONG MinimumBuffers;      /* 0: the default; raised to two a processor */
    ULONG MaximumBuffers;      /* 0: the default; raised to MinimumBuffers */
    ULONG MaximumFileSize;     /* MB (KB with EVENT_TRACE_USE_KBYTES_FOR_SIZE); 0: no limit */
    ULONG LogFileMode;         /* EVENT_TRACE_..._MODE */
    ULONG FlushTimer;          /* seconds; 0: buffers are written when they are full */
    ULONG EnableFlags;         /* EVENT_TRACE_FLAG_: the kernel logger only */
    LONG AgeLimit;             /* not used */
    ULONG NumberOfBuffers;     /* out: buffers allocated now */
    ULONG FreeBuffers;         /* out: of these, unused */
    ULONG EventsLost;          /* out: events that were not recorded, for whatever reason */
    ULONG BuffersWritten;      /* out: the one with the header included */
    ULONG LogBuffersLost;      /* out: buffers that could not be written to the file */
    ULONG RealTimeBuffersLost; /* out: buffers that could not be delivered live */
    HANDLE LoggerThreadId;     /* out */
    ULONG LogFileNameOffset;
    ULONG LoggerNameOffset;
} EVENT_TRACE_PROPERTIES, *PEVENT_TRACE_PROPERTIES;

/* 144 bytes: the same and more, taken when Wnode.Flags has WNODE_FLAG_VERSIONED_PROPERTIES; then
 * VersionNumber must be 2. Cast to PEVENT_TRACE_PROPERTIES. */
typedef struct _EVENT_TRACE_PROPERTIES_V2 {
    WNODE_HEADER Wnode;
    ULONG BufferSize;
    ULONG MinimumBuffers;
    ULONG MaximumBuffers;
    ULONG MaximumFileSize;
    ULONG LogFileMode;
    ULONG FlushTimer;
    ULONG EnableFlags;
    __extension__ union {
        LONG AgeLimit;
        LONG FlushThreshold; /* buffers to collect before delivery */
    };
    ULONG NumberOfBuffers;
    ULONG FreeBuffers;
    ULONG EventsLost;
    ULONG BuffersWritten;
    ULONG LogBuffersLost;
    ULONG RealTimeBuffersLost;
    HANDLE LoggerThreadId;
    ULONG LogFileNameOffset;
    ULONG LoggerNameOffset;
    __extension__ union {
        __extension__ struct {
            ULONG VersionNumber : 8;
        };
        ULONG V2Control;
    };
    ULONG FilterDescCount; /* filters are not supported yet: ERROR_NOT_SUPPORTED */
    PEVENT_FILTER_DESCRIPTOR FilterDesc;
    __extension__ union {
        __extension__ struct {
            ULONG Wow : 1;
            ULONG QpcDeltaTracking : 1;
            ULONG LargeMdlPages : 1;
            ULONG ExcludeKernelStack : 1;
        };
        ULONG64 V2Options;
    };
} EVENT_TRACE_PROPERTIES_V2, *PEVENT_TRACE_PROPERTIES_V2;

/* An event type of a class, for stack tracing. 24 bytes. */
typedef struct _CLASSIC_EVENT_ID {
    GUID EventGuid;
    UCHAR Type;
    UCHAR Reserved[7];
} CLASSIC_EVENT_ID, *PCLASSIC_EVENT_ID;

typedef struct _ETW_BUFFER_CONTEXT {
    __extension__ union {
        __extension__ struct {
            UCHAR ProcessorNumber;
            UCHAR Alignment;
        };
        USHORT ProcessorIndex;
    };
    USHORT LoggerId;
} ETW_BUFFER_CONTEXT, *PETW_BUFFER_CONTEXT;

struct etw_event_class {
    UCHAR Type;
    UCHAR Level;
    USHORT Version;
};

/* 48 bytes: the header of a classic event. */
typedef struct _EVENT_TRACE_HEADER {
    USHORT Size;
    __extension__ union {
        USHORT FieldTypeFlags;
        __extension__ struct {
            UCHAR HeaderType;
            UCHAR MarkerFlags;
        };
    };
    __extension__ union {
        ULONG Version;
        struct etw_event_class Class;
    };
    ULONG ThreadId;
    ULONG ProcessId;
    LARGE_INTEGER TimeStamp;
    __extension__ union {
        GUID Guid;
        ULONGLONG GuidPtr;
    };
    __extension__ union {
        __extension__ struct {
            ULONG KernelTime;
            ULONG UserTime;
        };
        ULONG64 ProcessorTime;
        __extension__ struct {
            ULONG ClientContext;
            ULONG Flags;
        };
    };
} EVENT_TRACE_HEADER, *PEVENT_TRACE_HEADER;

/* 56 bytes. */
typedef struct _EVENT_INSTANCE_HEADER {
    USHORT Size;
    __extension__ union {
        USHORT FieldTypeFlags;
        __extension__ struct {
            UCHAR HeaderType;
            UCHAR MarkerFlags;
        };
    };
    __extension__ union {
        ULONG Version;
        struct etw_event_class Class;
    };
    ULONG ThreadId;
    ULONG ProcessId;
    LARGE_INTEGER TimeStamp;
    ULONGLONG RegHandle;
    ULONG InstanceId;
    ULONG ParentInstanceId;
    __extension__ union {
        __extension__ struct {
            ULONG KernelTime;
            ULONG UserTime;
        };
        ULONG64 ProcessorTime;
        __extension__ struct {
            ULONG EventId;
            ULONG Flags;
        };
    };
    ULONGLONG ParentRegHandle;
} EVENT_INSTANCE_HEADER, *PEVENT_INSTANCE_HEADER;

typedef struct EVENT_INSTANCE_INFO {
    HANDLE RegHandle;
    ULONG InstanceId;
} EVENT_INSTANCE_INFO, *PEVENT_INSTANCE_INFO;

typedef struct _MOF_FIELD {
    ULONG64 DataPtr;
    ULONG Length;
    ULONG DataType;
} MOF_FIELD, *PMOF_FIELD;

#define DEFINE_TRACE_MOF_FIELD(M, P, LEN, TYP)                                                     \
    (M)->DataPtr = (ULONG64) (ULONG_PTR) (P);                                                      \
    (M)->Length = (ULONG) (LEN);                                                                   \
    (M)->DataType = (ULONG) (TYP);

struct etw_version_detail {
    UCHAR MajorVersion;
    UCHAR MinorVersion;
    UCHAR SubVersion;
    UCHAR SubMinorVersion;
};

/* The members of the log-file header; files of 32-bit and of 64-bit machines differ in the two name
 * pointers, which mean nothing in a file. */
#define ETW_TRACE_LOGFILE_HEADER_MEMBERS(name_type)                                                \
    ULONG BufferSize; /* bytes */                                                                  \
    __extension__ union {                                                                          \
        ULONG Version;                                                                             \
        struct etw_version_detail VersionDetail;                                                   \
    };                                                                                             \
    ULONG ProviderVersion; /* build number of the system */                                        \
    ULONG NumberOfProcessors;                                                                      \
    LARGE_INTEGER EndTime; /* FILETIME; 0: the trace was not closed */                             \
    ULONG TimerResolution; /* 100 ns */                                                            \
    ULONG MaximumFileSize; /* MB */                                                                \
    ULONG LogFileMode;                                                                             \
    ULONG BuffersWritten;                                                                          \
    __extension__ union {                                                                          \
        GUID LogInstanceGuid;                                                                      \
        __extension__ struct {                                                                     \
            ULONG StartBuffers;                                                                    \
            ULONG PointerSize; /* of the traced machine, bytes */                                  \
            ULONG EventsLost;                                                                      \
            ULONG CpuSpeedInMHz;                                                                   \
        };                                                                                         \
    };                                                                                             \
    name_type LoggerName;                                                                          \
    name_type LogFileName;                                                                         \
    TIME_ZONE_INFORMATION TimeZone;                                                                \
    LARGE_INTEGER BootTime;  /* FILETIME */                                                        \
    LARGE_INTEGER PerfFreq;  /* ticks a second of clock 1 */                                       \
    LARGE_INTEGER StartTime; /* FILETIME */                                                        \
    ULONG ReservedFlags;     /* the clock: 1 QPC, 2 system time, 3 CPU cycles */                   \
    ULONG BuffersLost;

/* 280 bytes. */
typedef struct _TRACE_LOGFILE_HEADER {
    ETW_TRACE_LOGFILE_HEADER_MEMBERS(LPWSTR)
} TRACE_LOGFILE_HEADER, *PTRACE_LOGFILE_HEADER;

typedef struct _TRACE_LOGFILE_HEADER32 {
    ETW_TRACE_LOGFILE_HEADER_MEMBERS(ULONG32)
} TRACE_LOGFILE_HEADER32, *PTRACE_LOGFILE_HEADER32;

typedef struct _TRACE_LOGFILE_HEADER64 {
    ETW_TRACE_LOGFILE_HEADER_MEMBERS(ULONG64)
} TRACE_LOGFILE_HEADER64, *PTRACE_LOGFILE_HEADER64;

/* 88 bytes: what an EventCallback receives. */
typedef struct _EVENT_TRACE {
    EVENT_TRACE_HEADER Header;
    ULONG InstanceId;
    ULONG ParentInstanceId;
    GUID ParentGuid;
    PVOID MofData;
    ULONG MofLength;
    __extension__ union {
        ULONG ClientContext;
        ETW_BUFFER_CONTEXT BufferContext;
    };
} EVENT_TRACE, *PEVENT_TRACE;

typedef struct _EVENT_RECORD EVENT_RECORD, *PEVENT_RECORD; /* evntcons.h */
typedef struct _EVENT_TRACE_LOGFILEW EVENT_TRACE_LOGFILEW, *PEVENT_TRACE_LOGFILEW;
typedef struct _EVENT_TRACE_LOGFILEA EVENT_TRACE_LOGFILEA, *PEVENT_TRACE_LOGFILEA;

/* After each buffer. Returning 0 (FALSE) ends ProcessTrace. */
typedef ULONG(WINAPI *PEVENT_TRACE_BUFFER_CALLBACKW)(PEVENT_TRACE_LOGFILEW Logfile);
typedef ULONG(WINAPI *PEVENT_TRACE_BUFFER_CALLBACKA)(PEVENT_TRACE_LOGFILEA Logfile);
/* For each event. */
typedef void(WINAPI *PEVENT_CALLBACK)(PEVENT_TRACE pEvent);
typedef void(WINAPI *PEVENT_RECORD_CALLBACK)(PEVENT_RECORD EventRecord);
/* The control callback of a classic provider. */
typedef ULONG(WINAPI *WMIDPREQUEST)(WMIDPREQUESTCODE RequestCode, PVOID RequestContext,
                                    ULONG *BufferSize, PVOID Buffer);

/* <X11/X.h> has a macro of this name. */
#pragma push_macro("CurrentTime")
#undef CurrentTime

/* 448 bytes. In: LogFileName or LoggerName, ProcessTraceMode, the callbacks, Context. */
#define ETW_EVENT_TRACE_LOGFILE_MEMBERS(name_type, buffer_callback_type)                           \
    name_type LogFileName; /* an .etl file; NULL for a live session */                             \
    name_type LoggerName;  /* in: a live session; out: of a file, its session */                   \
    LONGLONG CurrentTime;  /* out: FILETIME of the last event */                                   \
    ULONG BuffersRead;     /* out */                                                               \
    __extension__ union {                                                                          \
        ULONG LogFileMode;                                                                         \
        ULONG ProcessTraceMode; /* in: PROCESS_TRACE_MODE_, evntcons.h */                          \
    };                                                                                             \
    EVENT_TRACE CurrentEvent;           /* out: the last event */                                  \
    TRACE_LOGFILE_HEADER LogfileHeader; /* out, by OpenTrace */                                    \
    buffer_callback_type BufferCallback;                                                           \
    ULONG BufferSize; /* out: bytes */                                                             \
    ULONG Filled;     /* out: bytes used of the buffer just processed */                           \
    ULONG EventsLost; /* out */                                                                    \
    __extension__ union {                                                                          \
        PEVENT_CALLBACK EventCallback;                                                             \
        PEVENT_RECORD_CALLBACK EventRecordCallback; /* with PROCESS_TRACE_MODE_EVENT_RECORD */     \
    };                                                                                             \
    ULONG IsKernelTrace; /* out */                                                                 \
    PVOID Context;       /* becomes EVENT_RECORD.UserContext */

struct _EVENT_TRACE_LOGFILEW {
    ETW_EVENT_TRACE_LOGFILE_MEMBERS(LPWSTR, PEVENT_TRACE_BUFFER_CALLBACKW)
};

struct _EVENT_TRACE_LOGFILEA {
    ETW_EVENT_TRACE_LOGFILE_MEMBERS(LPSTR, PEVENT_TRACE_BUFFER_CALLBACKA)
};

#pragma pop_macro("CurrentTime")

/* Structures of functions that this version of the library does not have yet. */

typedef enum {
    EtwCompressionModeRestart = 0,
    EtwCompressionModeNoDisable = 1,
    EtwCompressionModeNoRestart = 2
} ETW_COMPRESSION_RESUMPTION_MODE;

typedef struct _TRACE_GUID_REGISTRATION {
    LPCGUID Guid;
    HANDLE RegHandle;
} TRACE_GUID_REGISTRATION, *PTRACE_GUID_REGISTRATION;

typedef struct _TRACE_GUID_PROPERTIES {
    GUID Guid;
    ULONG GuidType;
    ULONG LoggerId;
    ULONG EnableLevel;
    ULONG EnableFlags;
    BOOLEAN IsEnable;
} TRACE_GUID_PROPERTIES, *PTRACE_GUID_PROPERTIES;

typedef struct _TRACE_ENABLE_INFO {
    ULONG IsEnabled;
    UCHAR Level;
    UCHAR Reserved1;
    USHORT LoggerId;
    ULONG EnableProperty;
    ULONG Reserved2;
    ULONGLONG MatchAnyKeyword;
    ULONGLONG MatchAllKeyword;
} TRACE_ENABLE_INFO, *PTRACE_ENABLE_INFO;

typedef struct _TRACE_PROVIDER_INSTANCE_INFO {
    ULONG NextOffset;
    ULONG EnableCount;
    ULONG Pid;
    ULONG Flags;
} TRACE_PROVIDER_INSTANCE_INFO, *PTRACE_PROVIDER_INSTANCE_INFO;

typedef struct _TRACE_GUID_INFO {
    ULONG InstanceCount;
    ULONG Reserved;
} TRACE_GUID_INFO, *PTRACE_GUID_INFO;

typedef struct _PROFILE_SOURCE_INFO {
    ULONG NextEntryOffset;
    ULONG Source;
    ULONG MinInterval;
    ULONG MaxInterval;
    ULONG64 Reserved;
    WCHAR Description[ANYSIZE_ARRAY];
} PROFILE_SOURCE_INFO, *PPROFILE_SOURCE_INFO;

typedef struct _ENABLE_TRACE_PARAMETERS_V1 {
    ULONG Version;
    ULONG EnableProperty;
    ULONG ControlFlags;
    GUID SourceId;
    PEVENT_FILTER_DESCRIPTOR EnableFilterDesc;
} ENABLE_TRACE_PARAMETERS_V1, *PENABLE_TRACE_PARAMETERS_V1;

typedef struct _ENABLE_TRACE_PARAMETERS {
    ULONG Version;
    ULONG EnableProperty;
    ULONG ControlFlags;
    GUID SourceId;
    PEVENT_FILTER_DESCRIPTOR EnableFilterDesc;
    ULONG FilterDescCount;
} ENABLE_TRACE_PARAMETERS, *PENABLE_TRACE_PARAMETERS;

typedef enum _TRACE_QUERY_INFO_CLASS {
    TraceGuidQueryList = 0,
    TraceGuidQueryInfo = 1,
    TraceGuidQueryProcess = 2,
    TraceStackTracingInfo = 3,
    TraceSystemTraceEnableFlagsInfo = 4,
    TraceSampledProfileIntervalInfo = 5,
    TraceProfileSourceConfigInfo = 6,
    TraceProfileSourceListInfo = 7,
    TracePmcEventListInfo = 8,
    TracePmcCounterListInfo = 9,
    TraceSetDisallowList = 10,
    TraceVersionInfo = 11,
    TraceGroupQueryList = 12,
    TraceGroupQueryInfo = 13,
    TraceDisallowListQuery = 14,
    TraceCompressionInfo = 15,
    TracePeriodicCaptureStateListInfo = 16,
    TracePeriodicCaptureStateInfo = 17,
    TraceProviderBinaryTracking = 18,
    TraceMaxLoggersQuery = 19,
    TraceLbrConfigurationInfo = 20,
    TraceLbrEventListInfo = 21,
    TraceMaxPmcCounterQuery = 22,
    TraceStreamCount = 23,
    TraceStackCachingInfo = 24,
    TracePmcCounterOwners = 25,
    TraceUnifiedStackCachingInfo = 26,
    TracePmcSessionInformation = 27,
    TraceContextRegisterInfo = 28,
    MaxTraceSetInfoClass
} TRACE_QUERY_INFO_CLASS,
    TRACE_INFO_CLASS;

typedef struct _TRACE_PROFILE_INTERVAL {
    ULONG Source;
    ULONG Interval; /* 100 ns */
} TRACE_PROFILE_INTERVAL, *PTRACE_PROFILE_INTERVAL;

typedef struct _TRACE_VERSION_INFO {
    UINT EtwTraceProcessingVersion;
    UINT Reserved;
} TRACE_VERSION_INFO, *PTRACE_VERSION_INFO;

typedef struct _TRACE_PERIODIC_CAPTURE_STATE_INFO {
    ULONG CaptureStateFrequencyInSeconds;
    USHORT ProviderCount;
    USHORT Reserved;
} TRACE_PERIODIC_CAPTURE_STATE_INFO, *PTRACE_PERIODIC_CAPTURE_STATE_INFO;

typedef enum _ETW_PROCESS_HANDLE_INFO_TYPE {
    EtwQueryPartitionInformation = 1,
    EtwQueryPartitionInformationV2 = 2,
    EtwQueryLastDroppedTimes = 3,
    EtwQueryLogFileHeader = 4,
    EtwQueryProcessHandleInfoMax
} ETW_PROCESS_HANDLE_INFO_TYPE;

typedef struct _ETW_TRACE_PARTITION_INFORMATION {
    GUID PartitionId;
    GUID ParentId;
    LONG64 QpcOffsetFromRoot;
    ULONG PartitionType;
} ETW_TRACE_PARTITION_INFORMATION, *PETW_TRACE_PARTITION_INFORMATION;

ETW_END_DECLS

#endif
