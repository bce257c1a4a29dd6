/* SPDX-License-Identifier: Apache-2.0
 *
 * Providers: register, ask whether anybody listens, write events; descriptors, data descriptors,
 * filters, limits, and the inline helpers that fill them. Windows: evntprov.h. Link with libetw
 * (pkg-config --cflags --libs libetw).
 *
 * For all functions here:
 *   Any thread may call them, several at once. The EventWrite functions, EventEnabled,
 * EventProviderEnabled and EventActivityIdControl may also be called in a signal handler; an event
 * whose writing interrupts the writing of another one on the same thread is lost, and counted.
 *   Without the daemon, etwd, registering succeeds and writing does nothing at almost no cost; the
 *   library finds the daemon as soon as it runs, and again when it was restarted.
 *   Writing never waits, but for at most 10 ms when a thread writes its first event and no memory
 *   is ready for it.
 *   Functions that return a ULONG return a code of winerror.h and leave a failing one for
 *   GetLastError() as well. The library writes no messages and never ends the process.
 *   A process made by fork(2) has its parent's registrations and handles. It connects to the daemon
 *   when it first calls one of these functions, and waits for it then as EventRegister does. A
 *   process made by vfork(2) must not call them.
 *   The daemon's socket is /run/etwd/control.sock, or what ETWD_SOCKET names when the first
 *   provider is registered (ignored in programs that run with more rights than their caller, see
 *   secure_getenv(3); such programs get no thread of the library, hence no enable callbacks).
 *   A program that links the library and registers nothing has no connection, thread or descriptor
 *   of it.
 */
#ifndef ETW_EVNTPROV_H
#define ETW_EVNTPROV_H

#include "etw_types.h"
#include "winerror.h"

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

/* Called when sessions change what they want of the provider: at each enable, update and disable of
 * one of them, at a capture state, and when a provider that is enabled already is registered.
 *
 * SourceId         which controller asks; GUID_NULL when it did not say. Valid during the call.
 * IsEnabled        EVENT_CONTROL_CODE_DISABLE_PROVIDER (0): nobody wants events any more;
 *                  EVENT_CONTROL_CODE_ENABLE_PROVIDER (1): what follows is wanted now;
 *                  EVENT_CONTROL_CODE_CAPTURE_STATE (2): write your state's events.
 * Level, MatchAnyKeyword, MatchAllKeyword
 *                  of all sessions together: the highest level, the OR and the AND of the keywords.
 * FilterData       the controller's filter of EVENT_FILTER_TYPE_SCHEMATIZED, or NULL. Valid during
 *                  the call. In the EVENT_FILTER_HEADER that begins it InstanceId is the session's
 *                  bit in EventWriteEx's Filter.
 * CallbackContext  what EventRegister was given.
 *
 * It runs on a thread of the library, with all signals blocked, or, for a provider that is enabled
 * when it registers, on the thread inside EventRegister, before that returns (and so before the
 * handle is there). Callbacks of one registration run one at a time, in order. All functions of the
 * library may be called in it. */
typedef void(NTAPI *PENABLECALLBACK)(LPCGUID SourceId, ULONG IsEnabled, UCHAR Level,
                                     ULONGLONG MatchAnyKeyword, ULONGLONG MatchAllKeyword,
                                     PEVENT_FILTER_DESCRIPTOR FilterData, PVOID CallbackContext);

/* The enablement of one registration, for etw_provider_wants() alone: the sum of what its sessions
 * want. */
struct etw_enable_line {
    UCHAR Level;
    UCHAR On;
    USHORT Reserved16;
    ULONG Reserved32;
    ULONGLONG Any;
    ULONGLONG Reserved[6];
};
#define ETW_ENABLE_CHUNKS 16
#define ETW_ENABLE_CHUNK_LINES 64
/* Never NULL, never to be written. */
ETW_API extern const struct etw_enable_line *etw_enable_table[ETW_ENABLE_CHUNKS];

/* Whether a session may want an event of this level and keyword, in about a nanosecond and without
 * a call: what EventProviderEnabled() says. FALSE for 0 and for what is not a handle. Any thread,
 * also in signal handlers. Not part of Windows' interface: macros that write events use it so that
 * disabled events cost nothing. */
FORCEINLINE BOOLEAN etw_provider_wants(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword)
{
    /* A handle's low half is the registration's number, from 1. */
    const ULONG index = (ULONG) (RegHandle & 0xFFFFFFFFu) - 1u;
    const struct etw_enable_line *line;
    UCHAR level;
    ULONGLONG any;

    if (index >= ETW_ENABLE_CHUNKS * ETW_ENABLE_CHUNK_LINES)
        return FALSE;
    line = __atomic_load_n(&etw_enable_table[index / ETW_ENABLE_CHUNK_LINES], __ATOMIC_RELAXED) +
           index % ETW_ENABLE_CHUNK_LINES;
    if (__builtin_expect(!__atomic_load_n(&line->On, __ATOMIC_RELAXED), 1))
        return FALSE;
    level = __atomic_load_n(&line->Level, __ATOMIC_RELAXED);
    any = __atomic_load_n(&line->Any, __ATOMIC_RELAXED);
    return Level <= level && (Keyword == 0 || (Keyword & any) != 0) ? TRUE : FALSE;
}

/* Windows: evntprov.h EventRegister.
 *
 * Registers a provider. The same GUID may be registered several times.
 *
 * ProviderId       the provider's GUID.
 * EnableCallback   called when sessions enable or disable it (see PENABLECALLBACK); may be NULL.
 * CallbackContext  the callback's last argument; may be NULL.
 * RegHandle        out: the handle for the other functions, to be given back by EventUnregister; 0
 *                  on failure.
 *
 * The first call in a process connects to the daemon and starts a thread. A daemon that does not
 * answer is waited for during one second; the function then succeeds, and the provider is announced
 * when the daemon answers. When the provider is enabled already, the very next event is recorded.
 * The thread stays until the process ends: main() must return or exit(3) be called; a process does
 * not end by itself when its last thread but this one does.
 *
 * Returns ERROR_SUCCESS, or
 *   ERROR_INVALID_PARAMETER    ProviderId or RegHandle is NULL
 *   ERROR_NO_SYSTEM_RESOURCES  the process has 1024 registrations, or a limit of the daemon is
 *                              reached (its log names it)
 *   ERROR_NOT_ENOUGH_MEMORY    in this process
 *   ERROR_ACCESS_DENIED        the daemon refuses this provider
 * May be called in an enable callback, not in a signal handler. */
ETW_API ULONG EVNTAPI EventRegister(LPCGUID ProviderId, PENABLECALLBACK EnableCallback,
                                    PVOID CallbackContext, PREGHANDLE RegHandle);

/* Windows: evntprov.h EventUnregister.
 *
 * Ends a registration. No callback starts afterwards; one that is running on another thread is
 * waited for, so the caller must not hold a lock that the callback takes. In the registration's own
 * callback nothing is waited for; in a callback of another one at most a second. What the handle
 * was used for must have ended before: a library that registers unregisters before it is unloaded.
 *
 * Returns ERROR_SUCCESS, or
 *   ERROR_INVALID_HANDLE  RegHandle is 0, was never given out, or was unregistered before
 * May be called in an enable callback, not in a signal handler. */
ETW_API ULONG EVNTAPI EventUnregister(REGHANDLE RegHandle);

/* Windows: evntprov.h EventEnabled.
 *
 * Whether a session wants this event: TRUE or FALSE; FALSE for a handle that is not valid and for
 * EventDescriptor NULL. Any thread, also in signal handlers. */
ETW_API BOOLEAN EVNTAPI EventEnabled(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor);

/* Windows: evntprov.h EventProviderEnabled.
 *
 * Whether a session may want events of this level and keyword (0: whatever their keyword): TRUE or
 * FALSE; FALSE for a handle that is not valid. It looks at the sum of all sessions, so the answer
 * may be TRUE where no single one wants both. Any thread, also in signal handlers. */
ETW_API BOOLEAN EVNTAPI EventProviderEnabled(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword);

/* Windows: evntprov.h EventWrite.
 *
 * Writes an event to the sessions that enabled it.
 *
 * RegHandle        from EventRegister.
 * EventDescriptor  which event it is.
 * UserDataCount    number of data descriptors, at most MAX_EVENT_DATA_DESCRIPTORS (128).
 * UserData         the event's data, piece by piece, in the order that the event's description
 *                  says; may be NULL when the count is 0. The data are copied.
 *                  A descriptor's Type (EventDataDescCreate sets 0): _EVENT_METADATA and
 *                  _PROVIDER_METADATA, at most one each, describe the data of a TraceLogging event
 *                  and become extended items of it. It is looked at when the other bytes of
 *                  Reserved are 0, or when EventSetInformation said that it is set. A piece of
 *                  Size 0 is nothing, and its Ptr is not looked at.
 *
 * The event carries the thread's activity id (EventActivityIdControl).
 *
 * Returns ERROR_SUCCESS, also when nobody wants the event, or
 *   ERROR_INVALID_HANDLE       RegHandle is not that of a registration, 0 included
 *   ERROR_INVALID_PARAMETER    EventDescriptor is NULL; there are more than 128 pieces, or pieces
 *                              but no UserData; a Type is not known or comes twice
 *   ERROR_NOT_SUPPORTED        a Type is EVENT_DATA_DESCRIPTOR_TYPE_TIMESTAMP_OVERRIDE
 *   ERROR_ARITHMETIC_OVERFLOW  header, items and data are more than 64 KiB
 *   ERROR_MORE_DATA            the event is larger than the buffers of a session that wants it
 *   ERROR_NOT_ENOUGH_MEMORY    no room: the thread's ring is full because events come faster than
 *                              the daemon takes them; or the call interrupted another one in a
 *                              signal handler
 *   STATUS_LOG_FILE_FULL       a session's consumer does not keep up and its playback file is full
 * In the last three cases the event is lost and counted in the sessions that miss it. When several
 * sessions want an event and one of them cannot take it (ERROR_MORE_DATA, STATUS_LOG_FILE_FULL),
 * none gets it, as on Windows, but for those with EVENT_TRACE_INDEPENDENT_SESSION_MODE; when only
 * sessions with that mode cannot take it the others get it and the function succeeds.
 * Any thread, also in signal handlers. */
ETW_API ULONG EVNTAPI EventWrite(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor,
                                 ULONG UserDataCount, PEVENT_DATA_DESCRIPTOR UserData);

/* Windows: evntprov.h EventWriteTransfer.
 *
 * The same with activity ids.
 *
 * ActivityId         the event's activity; NULL: the thread's (EventActivityIdControl).
 * RelatedActivityId  another activity that this one has to do with; NULL: none.
 *
 * The rest, and what it returns, as EventWrite. */
ETW_API ULONG EVNTAPI EventWriteTransfer(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor,
                                         LPCGUID ActivityId, LPCGUID RelatedActivityId,
                                         ULONG UserDataCount, PEVENT_DATA_DESCRIPTOR UserData);

/* EventWriteEx: Flags. */
#define EVENT_WRITE_FLAG_NO_FAULTING (0x00000001u)
#define EVENT_WRITE_FLAG_INPRIVATE (0x00000002u)

/* Windows: evntprov.h EventWriteEx.
 *
 * The same with a choice of sessions.
 *
 * Filter  bits of the sessions that do not get the event, as the InstanceId of filters (see
 *         PENABLECALLBACK) names them; 0: all get it.
 * Flags   0, or EVENT_WRITE_FLAG_ values, which change nothing here.
 *
 * Returns ERROR_INVALID_PARAMETER also for other Flags. The rest as EventWriteTransfer. */
ETW_API ULONG EVNTAPI EventWriteEx(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor,
                                   ULONG64 Filter, ULONG Flags, LPCGUID ActivityId,
                                   LPCGUID RelatedActivityId, ULONG UserDataCount,
                                   PEVENT_DATA_DESCRIPTOR UserData);

/* Windows: evntprov.h EventWriteString.
 *
 * Writes an event whose data are one text, which needs no description to be read.
 *
 * Level, Keyword  of the event.
 * String          UTF-16, ended by a NUL.
 *
 * Returns ERROR_INVALID_PARAMETER also when String is NULL. The rest as EventWrite. */
ETW_API ULONG EVNTAPI EventWriteString(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword,
                                       PCWSTR String);

/* Windows: evntprov.h EventActivityIdControl.
 *
 * The activity id of this thread, which its events carry unless they name another. It is GUID_NULL
 * at first, and not inherited by threads.
 *
 * ControlCode  EVENT_ACTIVITY_CTRL_GET_ID         *ActivityId becomes the thread's id
 *              EVENT_ACTIVITY_CTRL_SET_ID         the thread's id becomes *ActivityId
 *              EVENT_ACTIVITY_CTRL_CREATE_ID      *ActivityId becomes a new id; the thread's stays
 *              EVENT_ACTIVITY_CTRL_GET_SET_ID     both change places
 *              EVENT_ACTIVITY_CTRL_CREATE_SET_ID  *ActivityId becomes the thread's id, which then
 *                                                 becomes a new one
 * ActivityId   in, out: see above. New ids are unique on this machine as long as it runs; they are
 *              not GUIDs of a standard version.
 *
 * Returns ERROR_SUCCESS, or
 *   ERROR_INVALID_PARAMETER  ActivityId is NULL, or there is no such code
 * Any thread, also in signal handlers. */
ETW_API ULONG EVNTAPI EventActivityIdControl(ULONG ControlCode, LPGUID ActivityId);

/* Windows: evntprov.h EventSetInformation.
 *
 * Tells more about a registration.
 *
 * RegHandle          from EventRegister.
 * InformationClass   EventProviderSetTraits        EventInformation: the provider's traits: USHORT
 *                                                  size of it all, the provider's name in UTF-8 and
 *                                                  a NUL, then pieces {USHORT size, UCHAR type,
 *                                                  bytes}. At most 4096 bytes; they must stay where
 *                                                  they are until EventUnregister. Once a
 *                                                  registration.
 *                    EventProviderUseDescriptorType  EventInformation: a BOOLEAN. TRUE: the Type of
 *                                                  all data descriptors is set.
 *                    EventProviderBinaryTrackInfo  EventInformation NULL, length 0: nothing to do
 *                                                  here, images are traced by the kernel logger.
 * InformationLength  bytes at EventInformation.
 *
 * Returns ERROR_SUCCESS, or
 *   ERROR_INVALID_PARAMETER  RegHandle is not that of a registration; a length or the traits are
 *                            wrong; there is no such class
 *   ERROR_ALREADY_EXISTS     the registration has traits
 *   ERROR_NOT_SUPPORTED      EventProviderSetReserved1
 * Not in a signal handler. */
ETW_API ULONG EVNTAPI EventSetInformation(REGHANDLE RegHandle, EVENT_INFO_CLASS InformationClass,
                                          PVOID EventInformation, ULONG InformationLength);

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
