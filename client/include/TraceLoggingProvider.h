/* SPDX-License-Identifier: Apache-2.0
 *
 * Self-describing events: a provider and its events are written down where they are used, and each
 * event carries its own description. For providers; C11, C++11 and later. Windows:
 * TraceLoggingProvider.h; programs for Windows compile with their include of windows.h left out.
 *
 *     TRACELOGGING_DEFINE_PROVIDER(g_provider, "Example.Shop",
 *         (0x3f2504e0, 0x4f89, 0x11d3, 0x9a, 0x0c, 0x03, 0x05, 0xe8, 0x2c, 0x33, 0x01));
 *
 *     TraceLoggingRegister(g_provider);
 *     TraceLoggingWrite(g_provider, "Sold",
 *                       TraceLoggingLevel(TRACE_LEVEL_INFORMATION), TraceLoggingKeyword(0x2),
 *                       TraceLoggingString(article, "article"), TraceLoggingInt32(pieces));
 *     TraceLoggingUnregister(g_provider);
 *
 * Costs: an event that nobody wants costs a test of about a nanosecond, and the expressions of its
 * fields are not evaluated. One that somebody wants evaluates each of them once, from left to
 * right, and is written by EventWriteTransfer, whose limits and losses apply. Names and types are
 * constant data of the program: nothing is formatted or allocated.
 *
 * Threads: events may be written on any thread, and in signal handlers as far as the expressions of
 * their fields allow. TraceLoggingRegister and TraceLoggingUnregister of one provider must not run
 * at the same time.
 *
 * What differs from Windows:
 *   Wide text has 16 bits a character: u"text" (see WCHAR in etw_types.h). L"text" does not compile
 * unless wchar_t has 16 bits.
 *   char text is UTF-8; TraceLoggingString and TraceLoggingUtf8String differ in the out-type only.
 *   LONG has 32 bits; a `long` of this system is TraceLoggingInt64 (TraceLoggingValue knows).
 *   TraceLoggingValue works in C too.
 *   Registering a provider that is registered already fails; it does not end the process.
 *   Names of events and fields are string literals, so __FUNCTION__, which is no literal here, is
 * none of them.
 */
#ifndef ETW_TRACELOGGINGPROVIDER_H
#define ETW_TRACELOGGINGPROVIDER_H

#include "etw_types.h"
#include "evntprov.h"
#include "winerror.h"
#include "winmeta.h"

/* A program may define these before it includes this header, to be called in place of the library's
 * functions. */
#ifndef TLG_EVENT_REGISTER
#define TLG_EVENT_REGISTER EventRegister
#endif
#ifndef TLG_EVENT_UNREGISTER
#define TLG_EVENT_UNREGISTER EventUnregister
#endif
#ifndef TLG_EVENT_SET_INFORMATION
#define TLG_EVENT_SET_INFORMATION EventSetInformation
#endif
#ifndef TLG_EVENT_WRITE_TRANSFER
#define TLG_EVENT_WRITE_TRANSFER EventWriteTransfer
#endif
#ifndef TLG_EVENT_WRITE_EX
#define TLG_EVENT_WRITE_EX EventWriteEx
#endif
#define TLG_STATUS HRESULT
#define TLG_PENABLECALLBACK PENABLECALLBACK

#include "etw_tracelogging.h"

/* The data of a field: in-types. */
enum TlgIn_t {
    TlgInNULL = 0,
    TlgInUNICODESTRING = 1,
    TlgInANSISTRING = 2,
    TlgInINT8 = 3,
    TlgInUINT8 = 4,
    TlgInINT16 = 5,
    TlgInUINT16 = 6,
    TlgInINT32 = 7,
    TlgInUINT32 = 8,
    TlgInINT64 = 9,
    TlgInUINT64 = 10,
    TlgInFLOAT = 11,
    TlgInDOUBLE = 12,
    TlgInBOOL32 = 13,
    TlgInBINARY = 14,
    TlgInGUID = 15,
    TlgInFILETIME = 17,
    TlgInSYSTEMTIME = 18,
    TlgInSID = 19,
    TlgInHEXINT32 = 20,
    TlgInHEXINT64 = 21,
    TlgInCOUNTEDSTRING = 22,
    TlgInCOUNTEDANSISTRING = 23,
    TlgInCOUNTEDBINARY = 25,
    TlgInCcount = 0x20, /* array, its number of elements in the metadata */
    TlgInVcount = 0x40, /* array, its number of elements (16 bits) before them */
    TlgInLONG = TlgInINT32,
    TlgInULONG = TlgInUINT32,
    TlgInHEXLONG = TlgInHEXINT32,
    TlgInINTPTR = sizeof(void *) == 8 ? TlgInINT64 : TlgInINT32,
    TlgInUINTPTR = sizeof(void *) == 8 ? TlgInUINT64 : TlgInUINT32,
    TlgInPOINTER = sizeof(void *) == 8 ? TlgInHEXINT64 : TlgInHEXINT32
};

/* How it is shown: out-types. */
enum TlgOut_t {
    TlgOutNULL = 0,
    TlgOutNOPRINT = 1,
    TlgOutSTRING = 2,
    TlgOutBOOLEAN = 3,
    TlgOutHEX = 4,
    TlgOutPID = 5,
    TlgOutTID = 6,
    TlgOutPORT = 7,
    TlgOutIPV4 = 8,
    TlgOutIPV6 = 9,
    TlgOutSOCKETADDRESS = 10,
    TlgOutXML = 11,
    TlgOutJSON = 12,
    TlgOutWIN32ERROR = 13,
    TlgOutNTSTATUS = 14,
    TlgOutHRESULT = 15,
    TlgOutFILETIME = 16,
    TlgOutSIGNED = 17,
    TlgOutUNSIGNED = 18,
    TlgOutUTF8 = 35,
    TlgOutPKCS7_WITH_TYPE_INFO = 36,
    TlgOutCODE_POINTER = 37,
    TlgOutDATETIME_UTC = 38
};

/* clang-format off */

/* ---- providers ---- */

/* A provider, for this program or library only: it must not be handed to another one. */
typedef const struct _tlgProvider_t *TraceLoggingHProvider;

/* TRACELOGGING_DECLARE_PROVIDER(handleVariable);
 * In a header: declares a handle that one source file defines. */
#ifdef __cplusplus
#define TRACELOGGING_DECLARE_PROVIDER(handleVariable) \
    extern "C" const TraceLoggingHProvider handleVariable
#else
#define TRACELOGGING_DECLARE_PROVIDER(handleVariable) \
    extern const TraceLoggingHProvider handleVariable
#endif

/* TRACELOGGING_DEFINE_PROVIDER(handleVariable, "Name", (GUID as 11 numbers) [, option...]);
 * Defines a provider, not registered yet, and its handle, a constant with external linkage. The
 * name is a string literal; choose the GUID at random or from the name (`etwctl` knows it as
 * *Name then). Options: TraceLoggingOption... below. */
#define TRACELOGGING_DEFINE_PROVIDER(handleVariable, providerName, ...) \
    ETW_TLG_STORAGE(etw_provider_##handleVariable, providerName, __VA_ARGS__, ETW_TLG_END); \
    TRACELOGGING_DECLARE_PROVIDER(handleVariable); \
    const TraceLoggingHProvider handleVariable = &etw_provider_##handleVariable

/* TRACELOGGING_DEFINE_PROVIDER_STORAGE(storageVariable, "Name", (GUID as 11 numbers) [, option...]);
 * The same without a handle: &storageVariable is one. Static; at file scope or in a function. */
#define TRACELOGGING_DEFINE_PROVIDER_STORAGE(storageVariable, providerName, ...) \
    ETW_TLG_STORAGE(storageVariable, providerName, __VA_ARGS__, ETW_TLG_END)

/* Makes the provider a member of a group, given as the 11 numbers of its GUID. */
#define TraceLoggingOptionGroup(g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11) \
    TraceLoggingOptionTrait(1, GUID, (ETW_TLG_GUID(g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11)))
#define TraceLoggingOptionMicrosoftTelemetry() \
    TraceLoggingOptionGroup(0x4f50731a, 0x89cf, 0x4782, 0xb3, 0xe0, 0xdc, 0xe8, 0xc9, 0x04, 0x76, 0xba)
/* A trait of the provider's own: a number from 128 to 255, a C type, a constant in parentheses. */
#define TraceLoggingOptionTrait(traitType, ctype, value) \
    (EtwTlgTrait, (traitType, ctype, value))

ETW_BEGIN_DECLS

/* TraceLoggingRegister, TraceLoggingRegisterEx: registers the provider by EventRegister and tells
 * its name and options by EventSetInformation. EnableCallback and CallbackContext: see
 * PENABLECALLBACK; events may be written in the callback.
 *
 * Returns S_OK, or HRESULT_FROM_WIN32 of a code of EventRegister, or of
 *   ERROR_ALREADY_EXISTS  the provider is registered; it stays so
 * A program may ignore a failure: events are then not written. */
FORCEINLINE TLG_STATUS TraceLoggingRegisterEx(TraceLoggingHProvider hProvider,
                                              PENABLECALLBACK EnableCallback,
                                              PVOID CallbackContext)
{
    struct _tlgProvider_t *p = etw_tlg_state(hProvider);
    ULONG r;

    if (etw_tlg_handle(p) != 0)
        return HRESULT_FROM_WIN32(ERROR_ALREADY_EXISTS);
    r = TLG_EVENT_REGISTER(&p->Id, EnableCallback, CallbackContext, &p->RegHandle);
    if (r != ERROR_SUCCESS)
        return HRESULT_FROM_WIN32(r);
    /* Each event carries the name too: a library that does not take it here loses nothing. */
    (void) TLG_EVENT_SET_INFORMATION(etw_tlg_handle(p), EventProviderSetTraits,
                                     (PVOID) (ULONG_PTR) p->Traits, etw_tlg_blob_size(p->Traits));
    return S_OK;
}

FORCEINLINE TLG_STATUS TraceLoggingRegister(TraceLoggingHProvider hProvider)
{
    return TraceLoggingRegisterEx(hProvider, NULL, NULL);
}

/* Ends the registration by EventUnregister; nothing happens when there is none. The provider may be
 * registered again. A library that is unloaded must have called it. */
FORCEINLINE void TraceLoggingUnregister(TraceLoggingHProvider hProvider)
{
    struct _tlgProvider_t *p = etw_tlg_state(hProvider);
    REGHANDLE handle = __atomic_exchange_n(&p->RegHandle, 0, __ATOMIC_RELAXED);

    if (handle != 0)
        (void) TLG_EVENT_UNREGISTER(handle);
}

/* Whether a session may want an event of this level (0: of any level) and keyword (0: of any).
 * TraceLoggingWrite tests this itself; this is for work before it. */
FORCEINLINE BOOLEAN TraceLoggingProviderEnabled(TraceLoggingHProvider hProvider, UCHAR eventLevel,
                                                ULONGLONG eventKeyword)
{
    return etw_provider_wants(etw_tlg_handle(hProvider), eventLevel, eventKeyword);
}

/* The provider's name and GUID. */
FORCEINLINE const char *TraceLoggingProviderName(TraceLoggingHProvider hProvider)
{
    return (const char *) hProvider->Traits + sizeof(USHORT);
}

FORCEINLINE GUID TraceLoggingProviderId(TraceLoggingHProvider hProvider)
{
    return hProvider->Id;
}

/* EventSetInformation of the provider: S_OK, or HRESULT_FROM_WIN32 of its code. */
FORCEINLINE TLG_STATUS TraceLoggingSetInformation(TraceLoggingHProvider hProvider,
                                                  EVENT_INFO_CLASS informationClass,
                                                  PVOID pvInformation, ULONG cbInformation)
{
    ULONG r = TLG_EVENT_SET_INFORMATION(etw_tlg_handle(hProvider), informationClass, pvInformation,
                                        cbInformation);
    return HRESULT_FROM_WIN32(r);
}

ETW_END_DECLS

/* ---- writing ----
 * Statements. eventName is a string literal. args: up to 127 of the macros below, options and
 * fields in any order (99 fields at most); the event has as many pieces of data as EventWrite takes
 * (126 beside the description). */

/* TraceLoggingWrite(hProvider, "EventName" [, args...]);
 * The event gets the thread's activity id. */
#define TraceLoggingWrite(hProvider, ...) \
    ETW_TLG_WRITE(etw_tlg_write, (NULL, NULL), hProvider, __VA_ARGS__, ETW_TLG_END)

/* TraceLoggingWriteActivity(hProvider, "EventName", pActivityId, pRelatedActivityId [, args...]);
 * pActivityId: NULL: the thread's. pRelatedActivityId: NULL: none. */
#define TraceLoggingWriteActivity(hProvider, eventName, pActivityId, ...) \
    ETW_TLG_ACTIVITY(hProvider, eventName, pActivityId, __VA_ARGS__, ETW_TLG_END)
#define ETW_TLG_ACTIVITY(provider, name, activity, related, ...) \
    ETW_TLG_WRITE(etw_tlg_write, ((activity), (related)), provider, name, __VA_ARGS__)

/* TraceLoggingWriteEx(hProvider, "EventName", filter, flags, pActivityId, pRelatedActivityId
 *                     [, args...]);
 * filter and flags: see EventWriteEx. */
#define TraceLoggingWriteEx(hProvider, eventName, filter, flags, pActivityId, ...) \
    ETW_TLG_EX(hProvider, eventName, filter, flags, pActivityId, __VA_ARGS__, ETW_TLG_END)
#define ETW_TLG_EX(provider, name, filter, flags, activity, related, ...) \
    ETW_TLG_WRITE(etw_tlg_write_ex, \
                  ((ULONG64) (filter), (ULONG) (flags), (activity), (related)), \
                  provider, name, __VA_ARGS__)

/* ---- options of an event; constants ---- */

/* 0 to 255; TRACE_LEVEL_VERBOSE (5) when there is none, the last one when there are several. */
#define TraceLoggingLevel(eventLevel) ETW_TLG_OPTION(EtwTlgLevel, eventLevel)
/* 64 bits; 0 when there is none, all together when there are several. */
#define TraceLoggingKeyword(eventKeyword) ETW_TLG_OPTION(EtwTlgKeyword, eventKeyword)
/* 0 to 255; 0 when there is none, the last one when there are several. */
#define TraceLoggingOpcode(eventOpcode) ETW_TLG_OPTION(EtwTlgOpcode, eventOpcode)
/* 0 to 255; WINEVENT_CHANNEL_TRACELOGGING (11) when there is none. */
#define TraceLoggingChannel(eventChannel) ETW_TLG_OPTION(EtwTlgChannel, eventChannel)
/* 28 bits for the consumer, all together when there are several; high bits take less room. */
#define TraceLoggingEventTag(eventTag) ETW_TLG_OPTION(EtwTlgTag, eventTag)
/* For readers of the source: not in the event (on Windows they go to the debug symbols). */
#define TraceLoggingDescription(eventDescription) ETW_TLG_END
#define TraceLoggingCustomAttribute(key, value) ETW_TLG_END

/* ---- fields ----
 * Their last arguments may be left out:
 *   name         a string literal; the text of the value when there is none
 *   description  a string literal for readers of the source; not in the event
 *   tag          a constant of 28 bits for the consumer
 * so TraceLoggingInt32(a + b) is TraceLoggingInt32(a + b, "a + b").
 *
 * TraceLoggingValue(value [, name [, description [, tag]]])
 * takes the type from the value: bool, char, the integers, float, double, GUID, FILETIME,
 * SYSTEMTIME, void * (the address), char * and char16_t * (text up to its end; NULL is empty), in
 * C++ also char16_t, char8_t and enumerations. In C, where char16_t is unsigned short, a single
 * one is a number. In C++ before C++20 the value must not contain a lambda. */
#define TraceLoggingValue(...) ETW_TLG_AUTO(#__VA_ARGS__, __VA_ARGS__)

/* TraceLogging...(value [, name [, description [, tag]]]): one value of that type. Boolean has one
 * byte, Bool four; Port and IPv4Address are in network order; FileTime, SystemTime and Guid are the
 * structures. */
#define TraceLoggingInt8(...) ETW_TLG_SCALAR(INT8, 1, TlgInINT8, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingUInt8(...) ETW_TLG_SCALAR(UINT8, 1, TlgInUINT8, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingInt16(...) ETW_TLG_SCALAR(INT16, 1, TlgInINT16, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingUInt16(...) ETW_TLG_SCALAR(UINT16, 1, TlgInUINT16, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingInt32(...) ETW_TLG_SCALAR(INT32, 1, TlgInINT32, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingUInt32(...) ETW_TLG_SCALAR(UINT32, 1, TlgInUINT32, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingInt64(...) ETW_TLG_SCALAR(INT64, 1, TlgInINT64, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingUInt64(...) ETW_TLG_SCALAR(UINT64, 1, TlgInUINT64, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingIntPtr(...) \
    ETW_TLG_SCALAR(LONG_PTR, 1, TlgInINTPTR, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingUIntPtr(...) \
    ETW_TLG_SCALAR(ULONG_PTR, 1, TlgInUINTPTR, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingLong(...) ETW_TLG_SCALAR(LONG, 1, TlgInLONG, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingULong(...) ETW_TLG_SCALAR(ULONG, 1, TlgInULONG, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexInt8(...) \
    ETW_TLG_SCALAR(INT8, 2, TlgInUINT8, TlgOutHEX, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexUInt8(...) \
    ETW_TLG_SCALAR(UINT8, 2, TlgInUINT8, TlgOutHEX, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexInt16(...) \
    ETW_TLG_SCALAR(INT16, 2, TlgInUINT16, TlgOutHEX, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexUInt16(...) \
    ETW_TLG_SCALAR(UINT16, 2, TlgInUINT16, TlgOutHEX, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexInt32(...) \
    ETW_TLG_SCALAR(INT32, 1, TlgInHEXINT32, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexUInt32(...) \
    ETW_TLG_SCALAR(UINT32, 1, TlgInHEXINT32, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexInt64(...) \
    ETW_TLG_SCALAR(INT64, 1, TlgInHEXINT64, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexUInt64(...) \
    ETW_TLG_SCALAR(UINT64, 1, TlgInHEXINT64, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexIntPtr(...) \
    ETW_TLG_SCALAR(LONG_PTR, 1, TlgInPOINTER, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexUIntPtr(...) \
    ETW_TLG_SCALAR(ULONG_PTR, 1, TlgInPOINTER, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexLong(...) ETW_TLG_SCALAR(LONG, 1, TlgInHEXLONG, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHexULong(...) \
    ETW_TLG_SCALAR(ULONG, 1, TlgInHEXLONG, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingFloat32(...) ETW_TLG_SCALAR(float, 1, TlgInFLOAT, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingFloat64(...) \
    ETW_TLG_SCALAR(double, 1, TlgInDOUBLE, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingBoolean(...) \
    ETW_TLG_SCALAR(BOOLEAN, 2, TlgInUINT8, TlgOutBOOLEAN, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingBool(...) ETW_TLG_SCALAR(INT32, 1, TlgInBOOL32, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingChar(...) \
    ETW_TLG_SCALAR(char, 2, TlgInUINT8, TlgOutSTRING, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingChar16(...) \
    ETW_TLG_SCALAR(char16_t, 2, TlgInUINT16, TlgOutSTRING, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingWChar(...) \
    ETW_TLG_SCALAR(etw_wchar, 2, TlgInUINT16, TlgOutSTRING, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingPointer(...) \
    ETW_TLG_SCALAR(LPCVOID, 1, TlgInPOINTER, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingCodePointer(...) \
    ETW_TLG_SCALAR(LPCVOID, 2, TlgInPOINTER, TlgOutCODE_POINTER, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingPid(...) \
    ETW_TLG_SCALAR(UINT32, 2, TlgInUINT32, TlgOutPID, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingTid(...) \
    ETW_TLG_SCALAR(UINT32, 2, TlgInUINT32, TlgOutTID, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingPort(...) \
    ETW_TLG_SCALAR(UINT16, 2, TlgInUINT16, TlgOutPORT, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingWinError(...) \
    ETW_TLG_SCALAR(UINT32, 2, TlgInUINT32, TlgOutWIN32ERROR, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingNTStatus(...) \
    ETW_TLG_SCALAR(NTSTATUS, 2, TlgInUINT32, TlgOutNTSTATUS, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingHResult(...) \
    ETW_TLG_SCALAR(HRESULT, 2, TlgInINT32, TlgOutHRESULT, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingFileTime(...) \
    ETW_TLG_SCALAR(FILETIME, 1, TlgInFILETIME, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingFileTimeUtc(...) \
    ETW_TLG_SCALAR(FILETIME, 2, TlgInFILETIME, TlgOutDATETIME_UTC, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingSystemTime(...) \
    ETW_TLG_SCALAR(SYSTEMTIME, 1, TlgInSYSTEMTIME, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingSystemTimeUtc(...) \
    ETW_TLG_SCALAR(SYSTEMTIME, 2, TlgInSYSTEMTIME, TlgOutDATETIME_UTC, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingGuid(...) ETW_TLG_SCALAR(GUID, 1, TlgInGUID, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingIPv4Address(...) \
    ETW_TLG_SCALAR(UINT32, 2, TlgInUINT32, TlgOutIPV4, #__VA_ARGS__, __VA_ARGS__)

/* Text up to its end; NULL is empty.
 * TraceLoggingString(pszValue [, name [, description [, tag]]]) */
#define TraceLoggingString(...) \
    ETW_TLG_TEXT(char, 1, TlgInANSISTRING, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingUtf8String(...) \
    ETW_TLG_TEXT(char, 2, TlgInANSISTRING, TlgOutUTF8, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingString16(...) \
    ETW_TLG_TEXT(char16_t, 1, TlgInUNICODESTRING, 0, #__VA_ARGS__, __VA_ARGS__)
#define TraceLoggingWideString(...) \
    ETW_TLG_TEXT(etw_wchar, 1, TlgInUNICODESTRING, 0, #__VA_ARGS__, __VA_ARGS__)

/* Text of a length, in characters: at most 65535 bytes. The pointer may be NULL when that is 0.
 * TraceLoggingCountedString(pchValue, cchValue [, name [, description [, tag]]]) */
#define TraceLoggingCountedString(pchValue, ...) \
    ETW_TLG_COUNTED(char, TlgInCOUNTEDANSISTRING, 0, 1, #pchValue, pchValue, __VA_ARGS__)
#define TraceLoggingCountedUtf8String(pchValue, ...) \
    ETW_TLG_COUNTED(char, TlgInCOUNTEDANSISTRING, TlgOutUTF8, 2, #pchValue, pchValue, __VA_ARGS__)
#define TraceLoggingCountedString16(pchValue, ...) \
    ETW_TLG_COUNTED(char16_t, TlgInCOUNTEDSTRING, 0, 1, #pchValue, pchValue, __VA_ARGS__)
#define TraceLoggingCountedWideString(pchValue, ...) \
    ETW_TLG_COUNTED(etw_wchar, TlgInCOUNTEDSTRING, 0, 1, #pchValue, pchValue, __VA_ARGS__)

/* A pointer, not NULL, to a structure with Length (in bytes) and Buffer; the first two: as the
 * STRING and UNICODE_STRING of Windows.
 * TraceLoggingUnicodeString(pValue [, name [, description [, tag]]])
 * TraceLoggingBinaryBuffer(pValue, type [, name [, description [, tag]]]) */
#define TraceLoggingAnsiString(...) \
    ETW_TLG_PLAIN(1, TlgInCOUNTEDANSISTRING, 0, #__VA_ARGS__, \
                  EtwTlgBuffer, (__typeof__(*(ETW_TLG_FIRST(__VA_ARGS__))), \
                                 ETW_TLG_FIRST(__VA_ARGS__)), __VA_ARGS__)
#define TraceLoggingUnicodeString(...) \
    ETW_TLG_PLAIN(1, TlgInCOUNTEDSTRING, 0, #__VA_ARGS__, \
                  EtwTlgBuffer, (__typeof__(*(ETW_TLG_FIRST(__VA_ARGS__))), \
                                 ETW_TLG_FIRST(__VA_ARGS__)), __VA_ARGS__)
#define TraceLoggingBinaryBuffer(pValue, ...) \
    ETW_TLG_PLAIN(1, TlgInBINARY, 0, #pValue, \
                  EtwTlgBuffer, (ETW_TLG_FIRST(__VA_ARGS__), pValue), __VA_ARGS__)
#define TraceLoggingBinaryBufferEx(pValue, StructType, ...) \
    ETW_TLG_PLAIN(2, TlgInBINARY, ETW_TLG_FIRST(__VA_ARGS__), #pValue, \
                  EtwTlgBuffer, (StructType, pValue), __VA_ARGS__)

/* Bytes of a length: at most 65535. The pointer may be NULL when that is 0.
 * TraceLoggingBinary(pValue, cbValue [, name [, description [, tag]]])
 * TraceLoggingBinaryEx(pValue, cbValue, outType [, name [, description [, tag]]]) */
#define TraceLoggingBinary(pValue, ...) \
    ETW_TLG_BINARY(1, TlgInBINARY, 0, #pValue, pValue, __VA_ARGS__)
#define TraceLoggingBinaryEx(pValue, cbValue, ...) \
    ETW_TLG_PLAIN(2, TlgInBINARY, ETW_TLG_FIRST(__VA_ARGS__), #pValue, \
                  EtwTlgBinary, (pValue, cbValue), __VA_ARGS__)
/* A struct sockaddr of any family and its size. */
#define TraceLoggingSocketAddress(pValue, ...) \
    ETW_TLG_BINARY(2, TlgInBINARY, TlgOutSOCKETADDRESS, #pValue, pValue, __VA_ARGS__)
/* A pointer to 16 bytes: a struct in6_addr. */
#define TraceLoggingIPv6Address(...) \
    ETW_TLG_PLAIN(2, TlgInBINARY, TlgOutIPV6, #__VA_ARGS__, \
                  EtwTlgBinary, (ETW_TLG_FIRST(__VA_ARGS__), 16u), __VA_ARGS__)
/* A pointer to a valid SID. */
#define TraceLoggingSid(...) \
    ETW_TLG_PLAIN(1, TlgInSID, 0, #__VA_ARGS__, \
                  EtwTlgSid, (ETW_TLG_FIRST(__VA_ARGS__)), __VA_ARGS__)

/* Arrays whose number of elements is a constant from 1 to 65535.
 * TraceLogging...FixedArray(pValues, cValues [, name [, description [, tag]]]) */
#define TraceLoggingInt8FixedArray(pValues, ...) \
    ETW_TLG_FIXED(INT8, 1, TlgInINT8, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingUInt8FixedArray(pValues, ...) \
    ETW_TLG_FIXED(UINT8, 1, TlgInUINT8, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingInt16FixedArray(pValues, ...) \
    ETW_TLG_FIXED(INT16, 1, TlgInINT16, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingUInt16FixedArray(pValues, ...) \
    ETW_TLG_FIXED(UINT16, 1, TlgInUINT16, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingInt32FixedArray(pValues, ...) \
    ETW_TLG_FIXED(INT32, 1, TlgInINT32, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingUInt32FixedArray(pValues, ...) \
    ETW_TLG_FIXED(UINT32, 1, TlgInUINT32, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingInt64FixedArray(pValues, ...) \
    ETW_TLG_FIXED(INT64, 1, TlgInINT64, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingUInt64FixedArray(pValues, ...) \
    ETW_TLG_FIXED(UINT64, 1, TlgInUINT64, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingIntPtrFixedArray(pValues, ...) \
    ETW_TLG_FIXED(LONG_PTR, 1, TlgInINTPTR, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingUIntPtrFixedArray(pValues, ...) \
    ETW_TLG_FIXED(ULONG_PTR, 1, TlgInUINTPTR, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingLongFixedArray(pValues, ...) \
    ETW_TLG_FIXED(LONG, 1, TlgInLONG, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingULongFixedArray(pValues, ...) \
    ETW_TLG_FIXED(ULONG, 1, TlgInULONG, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexInt8FixedArray(pValues, ...) \
    ETW_TLG_FIXED(INT8, 2, TlgInUINT8, TlgOutHEX, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexUInt8FixedArray(pValues, ...) \
    ETW_TLG_FIXED(UINT8, 2, TlgInUINT8, TlgOutHEX, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexInt16FixedArray(pValues, ...) \
    ETW_TLG_FIXED(INT16, 2, TlgInUINT16, TlgOutHEX, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexUInt16FixedArray(pValues, ...) \
    ETW_TLG_FIXED(UINT16, 2, TlgInUINT16, TlgOutHEX, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexInt32FixedArray(pValues, ...) \
    ETW_TLG_FIXED(INT32, 1, TlgInHEXINT32, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexUInt32FixedArray(pValues, ...) \
    ETW_TLG_FIXED(UINT32, 1, TlgInHEXINT32, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexInt64FixedArray(pValues, ...) \
    ETW_TLG_FIXED(INT64, 1, TlgInHEXINT64, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexUInt64FixedArray(pValues, ...) \
    ETW_TLG_FIXED(UINT64, 1, TlgInHEXINT64, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexIntPtrFixedArray(pValues, ...) \
    ETW_TLG_FIXED(LONG_PTR, 1, TlgInPOINTER, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexUIntPtrFixedArray(pValues, ...) \
    ETW_TLG_FIXED(ULONG_PTR, 1, TlgInPOINTER, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexLongFixedArray(pValues, ...) \
    ETW_TLG_FIXED(LONG, 1, TlgInHEXLONG, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexULongFixedArray(pValues, ...) \
    ETW_TLG_FIXED(ULONG, 1, TlgInHEXLONG, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingFloat32FixedArray(pValues, ...) \
    ETW_TLG_FIXED(float, 1, TlgInFLOAT, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingFloat64FixedArray(pValues, ...) \
    ETW_TLG_FIXED(double, 1, TlgInDOUBLE, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingBooleanFixedArray(pValues, ...) \
    ETW_TLG_FIXED(BOOLEAN, 2, TlgInUINT8, TlgOutBOOLEAN, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingBoolFixedArray(pValues, ...) \
    ETW_TLG_FIXED(INT32, 1, TlgInBOOL32, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingCharFixedArray(pValues, ...) \
    ETW_TLG_FIXED(char, 2, TlgInUINT8, TlgOutSTRING, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingChar16FixedArray(pValues, ...) \
    ETW_TLG_FIXED(char16_t, 2, TlgInUINT16, TlgOutSTRING, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingWCharFixedArray(pValues, ...) \
    ETW_TLG_FIXED(etw_wchar, 2, TlgInUINT16, TlgOutSTRING, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingPointerFixedArray(pValues, ...) \
    ETW_TLG_FIXED(LPVOID, 1, TlgInPOINTER, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingCodePointerFixedArray(pValues, ...) \
    ETW_TLG_FIXED(LPVOID, 2, TlgInPOINTER, TlgOutCODE_POINTER, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingFileTimeFixedArray(pValues, ...) \
    ETW_TLG_FIXED(FILETIME, 1, TlgInFILETIME, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingFileTimeUtcFixedArray(pValues, ...) \
    ETW_TLG_FIXED(FILETIME, 2, TlgInFILETIME, TlgOutDATETIME_UTC, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingSystemTimeFixedArray(pValues, ...) \
    ETW_TLG_FIXED(SYSTEMTIME, 1, TlgInSYSTEMTIME, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingSystemTimeUtcFixedArray(pValues, ...) \
    ETW_TLG_FIXED(SYSTEMTIME, 2, TlgInSYSTEMTIME, TlgOutDATETIME_UTC, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingGuidFixedArray(pValues, ...) \
    ETW_TLG_FIXED(GUID, 1, TlgInGUID, 0, #pValues, pValues, __VA_ARGS__)

/* Arrays of up to 65535 elements. The pointer may be NULL when there are none.
 * TraceLogging...Array(pValues, cValues [, name [, description [, tag]]]) */
#define TraceLoggingInt8Array(pValues, ...) \
    ETW_TLG_ARRAY(INT8, 1, TlgInINT8, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingUInt8Array(pValues, ...) \
    ETW_TLG_ARRAY(UINT8, 1, TlgInUINT8, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingInt16Array(pValues, ...) \
    ETW_TLG_ARRAY(INT16, 1, TlgInINT16, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingUInt16Array(pValues, ...) \
    ETW_TLG_ARRAY(UINT16, 1, TlgInUINT16, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingInt32Array(pValues, ...) \
    ETW_TLG_ARRAY(INT32, 1, TlgInINT32, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingUInt32Array(pValues, ...) \
    ETW_TLG_ARRAY(UINT32, 1, TlgInUINT32, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingInt64Array(pValues, ...) \
    ETW_TLG_ARRAY(INT64, 1, TlgInINT64, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingUInt64Array(pValues, ...) \
    ETW_TLG_ARRAY(UINT64, 1, TlgInUINT64, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingIntPtrArray(pValues, ...) \
    ETW_TLG_ARRAY(LONG_PTR, 1, TlgInINTPTR, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingUIntPtrArray(pValues, ...) \
    ETW_TLG_ARRAY(ULONG_PTR, 1, TlgInUINTPTR, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingLongArray(pValues, ...) \
    ETW_TLG_ARRAY(LONG, 1, TlgInLONG, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingULongArray(pValues, ...) \
    ETW_TLG_ARRAY(ULONG, 1, TlgInULONG, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexInt8Array(pValues, ...) \
    ETW_TLG_ARRAY(INT8, 2, TlgInUINT8, TlgOutHEX, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexUInt8Array(pValues, ...) \
    ETW_TLG_ARRAY(UINT8, 2, TlgInUINT8, TlgOutHEX, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexInt16Array(pValues, ...) \
    ETW_TLG_ARRAY(INT16, 2, TlgInUINT16, TlgOutHEX, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexUInt16Array(pValues, ...) \
    ETW_TLG_ARRAY(UINT16, 2, TlgInUINT16, TlgOutHEX, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexInt32Array(pValues, ...) \
    ETW_TLG_ARRAY(INT32, 1, TlgInHEXINT32, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexUInt32Array(pValues, ...) \
    ETW_TLG_ARRAY(UINT32, 1, TlgInHEXINT32, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexInt64Array(pValues, ...) \
    ETW_TLG_ARRAY(INT64, 1, TlgInHEXINT64, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexUInt64Array(pValues, ...) \
    ETW_TLG_ARRAY(UINT64, 1, TlgInHEXINT64, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexIntPtrArray(pValues, ...) \
    ETW_TLG_ARRAY(LONG_PTR, 1, TlgInPOINTER, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexUIntPtrArray(pValues, ...) \
    ETW_TLG_ARRAY(ULONG_PTR, 1, TlgInPOINTER, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexLongArray(pValues, ...) \
    ETW_TLG_ARRAY(LONG, 1, TlgInHEXLONG, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingHexULongArray(pValues, ...) \
    ETW_TLG_ARRAY(ULONG, 1, TlgInHEXLONG, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingFloat32Array(pValues, ...) \
    ETW_TLG_ARRAY(float, 1, TlgInFLOAT, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingFloat64Array(pValues, ...) \
    ETW_TLG_ARRAY(double, 1, TlgInDOUBLE, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingBooleanArray(pValues, ...) \
    ETW_TLG_ARRAY(BOOLEAN, 2, TlgInUINT8, TlgOutBOOLEAN, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingBoolArray(pValues, ...) \
    ETW_TLG_ARRAY(INT32, 1, TlgInBOOL32, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingCharArray(pValues, ...) \
    ETW_TLG_ARRAY(char, 2, TlgInUINT8, TlgOutSTRING, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingChar16Array(pValues, ...) \
    ETW_TLG_ARRAY(char16_t, 2, TlgInUINT16, TlgOutSTRING, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingWCharArray(pValues, ...) \
    ETW_TLG_ARRAY(etw_wchar, 2, TlgInUINT16, TlgOutSTRING, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingPointerArray(pValues, ...) \
    ETW_TLG_ARRAY(LPVOID, 1, TlgInPOINTER, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingCodePointerArray(pValues, ...) \
    ETW_TLG_ARRAY(LPVOID, 2, TlgInPOINTER, TlgOutCODE_POINTER, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingFileTimeArray(pValues, ...) \
    ETW_TLG_ARRAY(FILETIME, 1, TlgInFILETIME, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingFileTimeUtcArray(pValues, ...) \
    ETW_TLG_ARRAY(FILETIME, 2, TlgInFILETIME, TlgOutDATETIME_UTC, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingSystemTimeArray(pValues, ...) \
    ETW_TLG_ARRAY(SYSTEMTIME, 1, TlgInSYSTEMTIME, 0, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingSystemTimeUtcArray(pValues, ...) \
    ETW_TLG_ARRAY(SYSTEMTIME, 2, TlgInSYSTEMTIME, TlgOutDATETIME_UTC, #pValues, pValues, __VA_ARGS__)
#define TraceLoggingGuidArray(pValues, ...) \
    ETW_TLG_ARRAY(GUID, 1, TlgInGUID, 0, #pValues, pValues, __VA_ARGS__)

/* A field that consists of the next fieldCount fields, 1 to 127; a structure among them counts as
 * one, with all that is in it.
 * TraceLoggingStruct(fieldCount, name [, description [, tag]]) */
#define TraceLoggingStruct(...) ETW_TLG_STRUCT(0, __VA_ARGS__)

/* ---- fields by hand ----
 * Description and data of their own; whoever uses these knows how they are encoded (etw-etl(5)).
 *
 * TraceLoggingPackedField(pValue, cbValue, inType [, name [, description [, tag]]])
 * TraceLoggingPackedFieldEx(pValue, cbValue, inType, outType [, name [, description [, tag]]])
 * TraceLoggingPackedMetadata(inType, name [, description [, tag]])             only the description
 * TraceLoggingPackedMetadataEx(inType, outType, name [, description [, tag]])
 * TraceLoggingPackedStruct(fieldCount, name [, description [, tag]])
 * TraceLoggingPackedStructArray(fieldCount, name [, description [, tag]])      its number of
 *     elements (16 bits) comes in the data, before the elements
 * TraceLoggingPackedData(pValue, cbValue)                                      only the data
 * TraceLoggingPackedDataEx(pValue, cbValue, dataDescType)  dataDescType: EVENT_DATA_DESCRIPTOR.Type
 * TraceLoggingCustom(pValue, cbValue, protocol, (schema bytes), cbSchema [, name...])  a field of a
 *     serializer of the program's own: protocol 0 to 31 */
#define TraceLoggingPackedField(pValue, cbValue, ...) \
    ETW_TLG_PLAIN(1, ETW_TLG_FIRST(__VA_ARGS__), 0, #pValue, \
                  EtwTlgBytes, (pValue, cbValue, 0), __VA_ARGS__)
#define TraceLoggingPackedFieldEx(pValue, cbValue, inType, ...) \
    ETW_TLG_PLAIN(2, inType, ETW_TLG_FIRST(__VA_ARGS__), #pValue, \
                  EtwTlgBytes, (pValue, cbValue, 0), __VA_ARGS__)
#define TraceLoggingPackedMetadata(...) \
    ETW_TLG_PLAIN(1, ETW_TLG_FIRST(__VA_ARGS__), 0, "", EtwTlgNone, EtwTlgNone, __VA_ARGS__)
#define TraceLoggingPackedMetadataEx(inType, ...) \
    ETW_TLG_PLAIN(2, inType, ETW_TLG_FIRST(__VA_ARGS__), "", EtwTlgNone, EtwTlgNone, __VA_ARGS__)
#define TraceLoggingPackedStruct(...) ETW_TLG_STRUCT(0, __VA_ARGS__)
#define TraceLoggingPackedStructArray(...) ETW_TLG_STRUCT(TlgInVcount, __VA_ARGS__)
#define TraceLoggingStructArray(...) ETW_TLG_STRUCT(TlgInVcount, __VA_ARGS__)
#define TraceLoggingPackedData(pValue, cbValue) \
    ETW_TLG_FIELD(EtwTlgNone, EtwTlgNone, EtwTlgBytes, (pValue, cbValue, 0))
#define TraceLoggingPackedDataEx(pValue, cbValue, dataDescType) \
    ETW_TLG_FIELD(EtwTlgNone, EtwTlgNone, EtwTlgBytes, (pValue, cbValue, dataDescType))
#define TraceLoggingCustom(pValue, cbValue, protocol, bSchema, ...) \
    ETW_TLG_FIELD(EtwTlgCustom, (protocol, bSchema, ETW_TLG_FIRST(__VA_ARGS__), \
                                 ETW_TLG_NAMED(#pValue, __VA_ARGS__)), \
                  EtwTlgBinary, (pValue, cbValue))

#define TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED0 0
#define TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED1 1
#define TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED2 2
#define TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED3 3
#define TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED4 4

/* clang-format on */

#endif
