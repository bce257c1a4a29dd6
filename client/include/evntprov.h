/* SPDX-License-Identifier: Apache-2.0
 *
 * What a provider describes its events with: descriptors, data descriptors, filters, limits, and
 * the inline helpers that fill them. The functions that register and write are not in this version
 * of the library. Windows: evntprov.h.
 */
#ifndef ETW_EVNTPROV_H
#define ETW_EVNTPROV_H

#include "etw_types.h"

#ifndef EVNTAPI
#define EVNTAPI
#endif

ETW_BEGIN_DECLS

#define EVENT_MIN_LEVEL (0)
#define EVENT_MAX_LEVEL (0xff)

/* EventActivityIdControl. */
#define EVENT_ACTIVITY_CTRL_GET_ID (1)
#define EVENT_ACTIVITY_CTRL_SET_ID (2)
#define EVENT_ACTIVITY_CTRL_CREATE_ID (3)
#define EVENT_ACTIVITY_CTRL_GET_SET_ID (4)
#define EVENT_ACTIVITY_CTRL_CREATE_SET_ID (5)

/* EVENT_FILTER_DESCRIPTOR.Type. */
#define EVENT_FILTER_TYPE_NONE (0x00000000u)
#define EVENT_FILTER_TYPE_SCHEMATIZED (0x80000000u)
#define EVENT_FILTER_TYPE_SYSTEM_FLAGS (0x80000001u)
#define EVENT_FILTER_TYPE_TRACEHANDLE (0x80000002u)
#define EVENT_FILTER_TYPE_PID (0x80000004u)
#define EVENT_FILTER_TYPE_EXECUTABLE_NAME (0x80000008u)
#define EVENT_FILTER_TYPE_PACKAGE_ID (0x80000010u)
#define EVENT_FILTER_TYPE_PACKAGE_APP_ID (0x80000020u)
#define EVENT_FILTER_TYPE_PAYLOAD (0x80000100u)
#define EVENT_FILTER_TYPE_EVENT_ID (0x80000200u)
#define EVENT_FILTER_TYPE_EVENT_NAME (0x80000400u)
#define EVENT_FILTER_TYPE_STACKWALK (0x80001000u)
#define EVENT_FILTER_TYPE_STACKWALK_NAME (0x80002000u)
#define EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW (0x80004000u)
#define EVENT_FILTER_TYPE_CONTAINER (0x80008000u)

#define MAX_EVENT_DATA_DESCRIPTORS (128)
#define MAX_EVENT_FILTER_DATA_SIZE (1024)
#define MAX_EVENT_FILTER_PAYLOAD_SIZE (4096)
#define MAX_EVENT_FILTER_EVENT_ID_COUNT (64)
#define MAX_EVENT_FILTER_PID_COUNT (8)

#define EVENT_DATA_DESCRIPTOR_TYPE_NONE (0)
#define EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA (1)
#define EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA (2)
#define EVENT_DATA_DESCRIPTOR_TYPE_TIMESTAMP_OVERRIDE (3)

typedef ULONGLONG REGHANDLE, *PREGHANDLE;

/* 16 bytes: one piece of an event's data. */
typedef struct _EVENT_DATA_DESCRIPTOR {
    ULONGLONG Ptr;
    ULONG Size;
    __extension__ union {
        ULONG Reserved;
        __extension__ struct {
            UCHAR Type;
            UCHAR Reserved1;
            USHORT Reserved2;
        };
    };
} EVENT_DATA_DESCRIPTOR, *PEVENT_DATA_DESCRIPTOR;

/* 16 bytes: which event it is. */
typedef struct _EVENT_DESCRIPTOR {
    USHORT Id;
    UCHAR Version;
    UCHAR Channel;
    UCHAR Level;
    UCHAR Opcode;
    USHORT Task;
    ULONGLONG Keyword;
} EVENT_DESCRIPTOR, *PEVENT_DESCRIPTOR;
typedef const EVENT_DESCRIPTOR *PCEVENT_DESCRIPTOR;

/* 16 bytes: Ptr points to Size bytes of what Type says. */
typedef struct _EVENT_FILTER_DESCRIPTOR {
    ULONGLONG Ptr;
    ULONG Size;
    ULONG Type;
} EVENT_FILTER_DESCRIPTOR, *PEVENT_FILTER_DESCRIPTOR;

/* Begins the data of EVENT_FILTER_TYPE_SCHEMATIZED. */
typedef struct _EVENT_FILTER_HEADER {
    USHORT Id;
    UCHAR Version;
    UCHAR Reserved[5];
    ULONGLONG InstanceId;
    ULONG Size;
    ULONG NextOffset;
} EVENT_FILTER_HEADER, *PEVENT_FILTER_HEADER;

/* EVENT_FILTER_TYPE_EVENT_ID and _STACKWALK. */
typedef struct _EVENT_FILTER_EVENT_ID {
    BOOLEAN FilterIn;
    UCHAR Reserved;
    USHORT Count;
    USHORT Events[ANYSIZE_ARRAY];
} EVENT_FILTER_EVENT_ID, *PEVENT_FILTER_EVENT_ID;

typedef enum _EVENT_INFO_CLASS {
    EventProviderBinaryTrackInfo = 0,
    EventProviderSetReserved1 = 1,
    EventProviderSetTraits = 2,
    EventProviderUseDescriptorType = 3,
    MaxEventInfo
} EVENT_INFO_CLASS;

/* Called when sessions change what they want of the provider. IsEnabled: an
 * EVENT_CONTROL_CODE_ value. */
typedef void(NTAPI *PENABLECALLBACK)(LPCGUID SourceId, ULONG IsEnabled, UCHAR Level,
                                     ULONGLONG MatchAnyKeyword, ULONGLONG MatchAllKeyword,
                                     PEVENT_FILTER_DESCRIPTOR FilterData, PVOID CallbackContext);

/* Points evp to sz bytes at d. */
FORCEINLINE void EventDataDescCreate(PEVENT_DATA_DESCRIPTOR evp, const void *d, ULONG sz)
{
    evp->Ptr = (ULONGLONG) (ULONG_PTR) d;
    evp->Size = sz;
    evp->Reserved = 0;
}

FORCEINLINE void EventDescCreate(PEVENT_DESCRIPTOR ev, USHORT Id, UCHAR ver, UCHAR ch, UCHAR lvl,
                                 USHORT t, UCHAR opc, ULONGLONG keyw)
{
    ev->Id = Id;
    ev->Version = ver;
    ev->Channel = ch;
    ev->Level = lvl;
    ev->Task = t;
    ev->Opcode = opc;
    ev->Keyword = keyw;
}

FORCEINLINE void EventDescZero(PEVENT_DESCRIPTOR ev)
{
    memset(ev, 0, sizeof(EVENT_DESCRIPTOR));
}

FORCEINLINE USHORT EventDescGetId(PCEVENT_DESCRIPTOR ev)
{
    return ev->Id;
}

FORCEINLINE UCHAR EventDescGetVersion(PCEVENT_DESCRIPTOR ev)
{
    return ev->Version;
}

FORCEINLINE UCHAR EventDescGetChannel(PCEVENT_DESCRIPTOR ev)
{
    return ev->Channel;
}

FORCEINLINE UCHAR EventDescGetLevel(PCEVENT_DESCRIPTOR ev)
{
    return ev->Level;
}

FORCEINLINE UCHAR EventDescGetOpcode(PCEVENT_DESCRIPTOR ev)
{
    return ev->Opcode;
}

FORCEINLINE USHORT EventDescGetTask(PCEVENT_DESCRIPTOR ev)
{
    return ev->Task;
}

FORCEINLINE ULONGLONG EventDescGetKeyword(PCEVENT_DESCRIPTOR ev)
{
    return ev->Keyword;
}

FORCEINLINE PEVENT_DESCRIPTOR EventDescSetId(PEVENT_DESCRIPTOR ev, USHORT Id)
{
    ev->Id = Id;
    return ev;
}

FORCEINLINE PEVENT_DESCRIPTOR EventDescSetVersion(PEVENT_DESCRIPTOR ev, UCHAR ver)
{
    ev->Version = ver;
    return ev;
}

FORCEINLINE PEVENT_DESCRIPTOR EventDescSetChannel(PEVENT_DESCRIPTOR ev, UCHAR ch)
{
    ev->Channel = ch;
    return ev;
}

FORCEINLINE PEVENT_DESCRIPTOR EventDescSetLevel(PEVENT_DESCRIPTOR ev, UCHAR lvl)
{
    ev->Level = lvl;
    return ev;
}

FORCEINLINE PEVENT_DESCRIPTOR EventDescSetOpcode(PEVENT_DESCRIPTOR ev, UCHAR opc)
{
    ev->Opcode = opc;
    return ev;
}

FORCEINLINE PEVENT_DESCRIPTOR EventDescSetTask(PEVENT_DESCRIPTOR ev, USHORT t)
{
    ev->Task = t;
    return ev;
}

FORCEINLINE PEVENT_DESCRIPTOR EventDescSetKeyword(PEVENT_DESCRIPTOR ev, ULONGLONG keyw)
{
    ev->Keyword = keyw;
    return ev;
}

FORCEINLINE PEVENT_DESCRIPTOR EventDescOrKeyword(PEVENT_DESCRIPTOR ev, ULONGLONG keyw)
{
    ev->Keyword |= keyw;
    return ev;
}

ETW_END_DECLS

#endif
