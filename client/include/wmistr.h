/* SPDX-License-Identifier: Apache-2.0
 *
 * The WMI header that every EVENT_TRACE_PROPERTIES begins with, its flags, request codes of classic
 * providers and the rights on sessions and providers. WMI's data blocks themselves are not part of
 * ETW and are not here. Types and constants only. Windows: wmistr.h.
 */
#ifndef ETW_WMISTR_H
#define ETW_WMISTR_H

#include "etw_types.h"

ETW_BEGIN_DECLS

/* 48 bytes. The members that count: BufferSize, HistoricalContext (out: the session's handle),
 * Guid, ClientContext (the clock: 1 QPC, 2 system time, 3 CPU cycles, 0 the default), Flags. */
typedef struct _WNODE_HEADER {
    ULONG BufferSize; /* bytes of the caller's whole allocation, strings included */
    ULONG ProviderId;
    __extension__ union {
        ULONG64 HistoricalContext;
        __extension__ struct {
            ULONG Version;
            ULONG Linkage;
        };
    };
    __extension__ union {
        ULONG CountLost;
        HANDLE KernelHandle;
        LARGE_INTEGER TimeStamp;
    };
    GUID Guid;
    ULONG ClientContext;
    ULONG Flags; /* WNODE_FLAG_TRACED_GUID, and _VERSIONED_PROPERTIES with version 2 */
} WNODE_HEADER, *PWNODE_HEADER;

#define WNODE_FLAG_ALL_DATA 0x00000001u
#define WNODE_FLAG_SINGLE_INSTANCE 0x00000002u
#define WNODE_FLAG_SINGLE_ITEM 0x00000004u
#define WNODE_FLAG_EVENT_ITEM 0x00000008u
#define WNODE_FLAG_FIXED_INSTANCE_SIZE 0x00000010u
#define WNODE_FLAG_TOO_SMALL 0x00000020u
#define WNODE_FLAG_INSTANCES_SAME 0x00000040u
#define WNODE_FLAG_STATIC_INSTANCE_NAMES 0x00000080u
#define WNODE_FLAG_INTERNAL 0x00000100u
#define WNODE_FLAG_USE_TIMESTAMP 0x00000200u
#define WNODE_FLAG_PERSIST_EVENT 0x00000400u
#define WNODE_FLAG_EVENT_REFERENCE 0x00002000u
#define WNODE_FLAG_ANSI_INSTANCENAMES 0x00004000u
#define WNODE_FLAG_METHOD_ITEM 0x00008000u
#define WNODE_FLAG_PDO_INSTANCE_NAMES 0x00010000u
#define WNODE_FLAG_TRACED_GUID 0x00020000u
#define WNODE_FLAG_LOG_WNODE 0x00040000u
#define WNODE_FLAG_USE_GUID_PTR 0x00080000u
#define WNODE_FLAG_USE_MOF_PTR 0x00100000u
#define WNODE_FLAG_NO_HEADER 0x00200000u
#define WNODE_FLAG_SEND_DATA_BLOCK 0x00400000u
#define WNODE_FLAG_VERSIONED_PROPERTIES 0x00800000u
#define WNODE_FLAG_SEVERITY_MASK 0xFF000000u

/* What the control callback of a classic provider is asked to do. */
typedef enum {
    WMI_GET_ALL_DATA = 0,
    WMI_GET_SINGLE_INSTANCE = 1,
    WMI_SET_SINGLE_INSTANCE = 2,
    WMI_SET_SINGLE_ITEM = 3,
    WMI_ENABLE_EVENTS = 4,
    WMI_DISABLE_EVENTS = 5,
    WMI_ENABLE_COLLECTION = 6,
    WMI_DISABLE_COLLECTION = 7,
    WMI_REGINFO = 8,
    WMI_EXECUTE_METHOD = 9,
    WMI_CAPTURE_STATE = 10
} WMIDPREQUESTCODE;

/* TRACE_GUID_PROPERTIES.GuidType. */
#define WMI_GUIDTYPE_TRACECONTROL 0
#define WMI_GUIDTYPE_TRACE 1
#define WMI_GUIDTYPE_DATA 2
#define WMI_GUIDTYPE_EVENT 3

/* Rights on a session or provider. */
#define WMIGUID_QUERY 0x0001u
#define WMIGUID_SET 0x0002u
#define WMIGUID_NOTIFICATION 0x0004u
#define WMIGUID_READ_DESCRIPTION 0x0008u
#define WMIGUID_EXECUTE 0x0010u
#define TRACELOG_CREATE_REALTIME 0x0020u
#define TRACELOG_CREATE_ONDISK 0x0040u
#define TRACELOG_GUID_ENABLE 0x0080u
#define TRACELOG_ACCESS_KERNEL_LOGGER 0x0100u
#define TRACELOG_CREATE_INPROC 0x0200u
#define TRACELOG_LOG_EVENT 0x0200u
#define TRACELOG_ACCESS_REALTIME 0x0400u
#define TRACELOG_REGISTER_GUIDS 0x0800u
#define TRACELOG_JOIN_GROUP 0x1000u

#define WMIGUID_ALL_ACCESS_WIN2K                                                                   \
    (STANDARD_RIGHTS_READ | WMIGUID_QUERY | WMIGUID_SET | WMIGUID_NOTIFICATION |                   \
     WMIGUID_READ_DESCRIPTION | WMIGUID_EXECUTE | TRACELOG_CREATE_REALTIME |                       \
     TRACELOG_CREATE_ONDISK | TRACELOG_GUID_ENABLE | TRACELOG_ACCESS_KERNEL_LOGGER |               \
     TRACELOG_CREATE_INPROC | TRACELOG_ACCESS_REALTIME)
#define WMIGUID_ALL_ACCESS_WINXP (WMIGUID_ALL_ACCESS_WIN2K | SYNCHRONIZE | TRACELOG_REGISTER_GUIDS)
#define WMIGUID_ALL_ACCESS_RS1 (WMIGUID_ALL_ACCESS_WINXP | TRACELOG_JOIN_GROUP)
#define WMIGUID_ALL_ACCESS WMIGUID_ALL_ACCESS_RS1

#define WMI_GLOBAL_LOGGER_ID 0x0001

ETW_END_DECLS

#endif
