/* SPDX-License-Identifier: Apache-2.0
 *
 * What a consumer receives: EVENT_RECORD, its header, flags and extended data items; and the
 * constants of enabling and access control. Types, constants and one inline helper. Windows:
 * evntcons.h.
 */
#ifndef ETW_EVNTCONS_H
#define ETW_EVNTCONS_H

#include "wmistr.h"
#include "evntrace.h"
#include "evntprov.h"

ETW_BEGIN_DECLS

/* EVENT_HEADER_EXTENDED_DATA_ITEM.ExtType, and what DataPtr points to. */
#define EVENT_HEADER_EXT_TYPE_RELATED_ACTIVITYID 0x0001 /* GUID */
#define EVENT_HEADER_EXT_TYPE_SID 0x0002                /* SID */
#define EVENT_HEADER_EXT_TYPE_TS_ID 0x0003              /* ULONG */
#define EVENT_HEADER_EXT_TYPE_INSTANCE_INFO 0x0004      /* EVENT_EXTENDED_ITEM_INSTANCE */
#define EVENT_HEADER_EXT_TYPE_STACK_TRACE32 0x0005      /* EVENT_EXTENDED_ITEM_STACK_TRACE32 */
#define EVENT_HEADER_EXT_TYPE_STACK_TRACE64 0x0006      /* EVENT_EXTENDED_ITEM_STACK_TRACE64 */
#define EVENT_HEADER_EXT_TYPE_PEBS_INDEX 0x0007         /* ULONG64 */
#define EVENT_HEADER_EXT_TYPE_PMC_COUNTERS 0x0008       /* ULONG64 each */
#define EVENT_HEADER_EXT_TYPE_PSM_KEY 0x0009
#define EVENT_HEADER_EXT_TYPE_EVENT_KEY 0x000A       /* ULONG64 */
#define EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL 0x000B /* TraceLogging event metadata */
#define EVENT_HEADER_EXT_TYPE_PROV_TRAITS 0x000C     /* TraceLogging provider traits */
#define EVENT_HEADER_EXT_TYPE_PROCESS_START_KEY 0x000D
#define EVENT_HEADER_EXT_TYPE_CONTROL_GUID 0x000E /* GUID */
#define EVENT_HEADER_EXT_TYPE_QPC_DELTA 0x000F
#define EVENT_HEADER_EXT_TYPE_CONTAINER_ID 0x0010
#define EVENT_HEADER_EXT_TYPE_STACK_KEY32 0x0011 /* EVENT_EXTENDED_ITEM_STACK_KEY32 */
#define EVENT_HEADER_EXT_TYPE_STACK_KEY64 0x0012 /* EVENT_EXTENDED_ITEM_STACK_KEY64 */
#define EVENT_HEADER_EXT_TYPE_MAX 0x0013

/* EVENT_HEADER.EventProperty: where the event's description can be found. */
#define EVENT_HEADER_PROPERTY_XML 0x0001
#define EVENT_HEADER_PROPERTY_FORWARDED_XML 0x0002
#define EVENT_HEADER_PROPERTY_LEGACY_EVENTLOG 0x0004
#define EVENT_HEADER_PROPERTY_RELOGGABLE 0x0008

/* EVENT_HEADER.Flags. */
#define EVENT_HEADER_FLAG_EXTENDED_INFO 0x0001
#define EVENT_HEADER_FLAG_PRIVATE_SESSION 0x0002
#define EVENT_HEADER_FLAG_STRING_ONLY 0x0004
#define EVENT_HEADER_FLAG_TRACE_MESSAGE 0x0008
#define EVENT_HEADER_FLAG_NO_CPUTIME 0x0010
#define EVENT_HEADER_FLAG_32_BIT_HEADER 0x0020
#define EVENT_HEADER_FLAG_64_BIT_HEADER 0x0040
#define EVENT_HEADER_FLAG_DECODE_GUID 0x0080
#define EVENT_HEADER_FLAG_CLASSIC_HEADER 0x0100
#define EVENT_HEADER_FLAG_PROCESSOR_INDEX 0x0200

/* What an enable asks to be added to events. */
#define EVENT_ENABLE_PROPERTY_SID 0x00000001u
#define EVENT_ENABLE_PROPERTY_TS_ID 0x00000002u
#define EVENT_ENABLE_PROPERTY_STACK_TRACE 0x00000004u
#define EVENT_ENABLE_PROPERTY_PSM_KEY 0x00000008u
#define EVENT_ENABLE_PROPERTY_IGNORE_KEYWORD_0 0x00000010u
#define EVENT_ENABLE_PROPERTY_PROVIDER_GROUP 0x00000020u
#define EVENT_ENABLE_PROPERTY_ENABLE_KEYWORD_0 0x00000040u
#define EVENT_ENABLE_PROPERTY_PROCESS_START_KEY 0x00000080u
#define EVENT_ENABLE_PROPERTY_EVENT_KEY 0x00000100u
#define EVENT_ENABLE_PROPERTY_EXCLUDE_INPRIVATE 0x00000200u
#define EVENT_ENABLE_PROPERTY_ENABLE_SILOS 0x00000400u
#define EVENT_ENABLE_PROPERTY_SOURCE_CONTAINER_TRACKING 0x00000800u

/* EVENT_TRACE_LOGFILE.ProcessTraceMode. */
#define PROCESS_TRACE_MODE_REAL_TIME 0x00000100u
#define PROCESS_TRACE_MODE_RAW_TIMESTAMP 0x00001000u
#define PROCESS_TRACE_MODE_EVENT_RECORD 0x10000000u

typedef enum {
    EventSecuritySetDACL,
    EventSecuritySetSACL,
    EventSecurityAddDACL,
    EventSecurityAddSACL,
    EventSecurityMax
} EVENTSECURITYOPERATION;

/* 16 bytes. */
typedef struct _EVENT_HEADER_EXTENDED_DATA_ITEM {
    USHORT Reserved1;
    USHORT ExtType;
    __extension__ struct {
        __extension__ USHORT Linkage : 1; /* another item of the series follows */
        __extension__ USHORT Reserved2 : 15;
    };
    USHORT DataSize;
    ULONGLONG DataPtr;
} EVENT_HEADER_EXTENDED_DATA_ITEM, *PEVENT_HEADER_EXTENDED_DATA_ITEM;

typedef struct _EVENT_EXTENDED_ITEM_INSTANCE {
    ULONG InstanceId;
    ULONG ParentInstanceId;
    GUID ParentGuid;
} EVENT_EXTENDED_ITEM_INSTANCE, *PEVENT_EXTENDED_ITEM_INSTANCE;

typedef struct _EVENT_EXTENDED_ITEM_RELATED_ACTIVITYID {
    GUID RelatedActivityId;
} EVENT_EXTENDED_ITEM_RELATED_ACTIVITYID, *PEVENT_EXTENDED_ITEM_RELATED_ACTIVITYID;

typedef struct _EVENT_EXTENDED_ITEM_TS_ID {
    ULONG SessionId;
} EVENT_EXTENDED_ITEM_TS_ID, *PEVENT_EXTENDED_ITEM_TS_ID;

/* (DataSize - 8) / 4 addresses. */
typedef struct _EVENT_EXTENDED_ITEM_STACK_TRACE32 {
    ULONG64 MatchId;
    ULONG Address[ANYSIZE_ARRAY];
} EVENT_EXTENDED_ITEM_STACK_TRACE32, *PEVENT_EXTENDED_ITEM_STACK_TRACE32;

/* (DataSize - 8) / 8 addresses. */
typedef struct _EVENT_EXTENDED_ITEM_STACK_TRACE64 {
    ULONG64 MatchId;
    ULONG64 Address[ANYSIZE_ARRAY];
} EVENT_EXTENDED_ITEM_STACK_TRACE64, *PEVENT_EXTENDED_ITEM_STACK_TRACE64;

typedef struct _EVENT_EXTENDED_ITEM_PEBS_INDEX {
    ULONG64 PebsIndex;
} EVENT_EXTENDED_ITEM_PEBS_INDEX, *PEVENT_EXTENDED_ITEM_PEBS_INDEX;

typedef struct _EVENT_EXTENDED_ITEM_PMC_COUNTERS {
    ULONG64 Counter[ANYSIZE_ARRAY];
} EVENT_EXTENDED_ITEM_PMC_COUNTERS, *PEVENT_EXTENDED_ITEM_PMC_COUNTERS;

typedef struct _EVENT_EXTENDED_ITEM_PROCESS_START_KEY {
    ULONG64 ProcessStartKey;
} EVENT_EXTENDED_ITEM_PROCESS_START_KEY, *PEVENT_EXTENDED_ITEM_PROCESS_START_KEY;

typedef struct _EVENT_EXTENDED_ITEM_EVENT_KEY {
    ULONG64 Key;
} EVENT_EXTENDED_ITEM_EVENT_KEY, *PEVENT_EXTENDED_ITEM_EVENT_KEY;

typedef struct _EVENT_EXTENDED_ITEM_STACK_KEY32 {
    ULONG64 MatchId;
    ULONG StackKey;
    ULONG Padding;
} EVENT_EXTENDED_ITEM_STACK_KEY32, *PEVENT_EXTENDED_ITEM_STACK_KEY32;

typedef struct _EVENT_EXTENDED_ITEM_STACK_KEY64 {
    ULONG64 MatchId;
    ULONG64 StackKey;
} EVENT_EXTENDED_ITEM_STACK_KEY64, *PEVENT_EXTENDED_ITEM_STACK_KEY64;

/* 80 bytes. ThreadId and ProcessId are 0xFFFFFFFF where the event's header in the file has none.
 * TimeStamp: FILETIME, or clock ticks with PROCESS_TRACE_MODE_RAW_TIMESTAMP. */
typedef struct _EVENT_HEADER {
    USHORT Size;
    USHORT HeaderType;    /* reserved; here the kind of header in the file, see etl(5) */
    USHORT Flags;         /* EVENT_HEADER_FLAG_ */
    USHORT EventProperty; /* EVENT_HEADER_PROPERTY_ */
    ULONG ThreadId;
    ULONG ProcessId;
    LARGE_INTEGER TimeStamp;
    GUID ProviderId; /* of classic and kernel events: the event class */
    EVENT_DESCRIPTOR EventDescriptor;
    __extension__ union {
        __extension__ struct {
            ULONG KernelTime;
            ULONG UserTime;
        };
        ULONG64 ProcessorTime;
    };
    GUID ActivityId;
} EVENT_HEADER, *PEVENT_HEADER;

/* 112 bytes. Everything it points to is valid until the callback returns. */
struct _EVENT_RECORD {
    EVENT_HEADER EventHeader;
    ETW_BUFFER_CONTEXT BufferContext;
    USHORT ExtendedDataCount;
    USHORT UserDataLength; /* bytes */
    PEVENT_HEADER_EXTENDED_DATA_ITEM ExtendedData;
    PVOID UserData;
    PVOID UserContext; /* EVENT_TRACE_LOGFILE.Context */
};
typedef const EVENT_RECORD *PCEVENT_RECORD;

/* The processor that an event was written on. */
FORCEINLINE ULONG GetEventProcessorIndex(PCEVENT_RECORD EventRecord)
{
    return (EventRecord->EventHeader.Flags & EVENT_HEADER_FLAG_PROCESSOR_INDEX) != 0
               ? EventRecord->BufferContext.ProcessorIndex
               : EventRecord->BufferContext.ProcessorNumber;
}

ETW_END_DECLS

#endif
