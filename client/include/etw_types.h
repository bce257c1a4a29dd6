/* SPDX-License-Identifier: Apache-2.0
 *
 * The Windows base types that the ETW headers stand on, and the few functions of the Windows system
 * library that a tracing program needs: GetLastError, SetLastError, FormatMessage, LocalFree. Not a
 * windows.h: no other part of that API is here. For every program; C11, C++11 and later. The other
 * headers of this folder include it.
 *
 * What differs from Windows, because Linux does:
 *   ULONG, DWORD and LONG have 32 bits here too (not those of `unsigned long`).
 *   WCHAR has 16 bits always, as in trace files: char16_t where wchar_t has 32 bits, so literals
 * are u"text"; with -fshort-wchar it is wchar_t and literals are L"text". ETW_W("text") fits both.
 *   The A functions take and give UTF-8.
 *
 * Other headers that define types of these names: <X11/Xlib.h> and <uuid/uuid.h> do not collide.
 * unixODBC's <sql.h> may come before or after: ULONG stays 32 bits wide in your program.
 */
#ifndef ETW_TYPES_H
#define ETW_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifndef __cplusplus
#include <uchar.h>
#endif

#ifdef __cplusplus
#define ETW_BEGIN_DECLS extern "C" {
#define ETW_END_DECLS }
#else
#define ETW_BEGIN_DECLS
#define ETW_END_DECLS
#endif

#define ETW_API __attribute__((visibility("default")))

/* Calling conventions and other words that Windows sources carry and that mean nothing here. */
#ifndef WINAPI
#define WINAPI
#endif
#ifndef NTAPI
#define NTAPI
#endif
#ifndef CALLBACK
#define CALLBACK
#endif
#ifndef FAR
#define FAR
#endif
#ifndef VOID
#define VOID void
#endif
#ifndef CONST
#define CONST const
#endif
#ifndef EXTERN_C
#ifdef __cplusplus
#define EXTERN_C extern "C"
#else
#define EXTERN_C extern
#endif
#endif
#ifndef FORCEINLINE
#define FORCEINLINE static inline
#endif
#ifndef ANYSIZE_ARRAY
#define ANYSIZE_ARRAY 1
#endif
#ifndef FALSE
#define FALSE 0
#endif
#ifndef TRUE
#define TRUE 1
#endif
#ifndef MAX_PATH
#define MAX_PATH 260
#endif
#ifndef STANDARD_RIGHTS_READ
#define STANDARD_RIGHTS_READ 0x00020000u
#endif
#ifndef SYNCHRONIZE
#define SYNCHRONIZE 0x00100000u
#endif
#ifndef INFINITE
#define INFINITE 0xFFFFFFFFu
#endif

#ifndef S_OK
#define S_OK ((HRESULT) 0)
#endif
/* A Win32 code as HRESULT. */
#ifndef HRESULT_FROM_WIN32
#define HRESULT_FROM_WIN32(code)                                                                   \
    ((HRESULT) (code) <= 0 ? (HRESULT) (code)                                                      \
                           : (HRESULT) (((unsigned int) (code) &0xFFFFu) | 0x80070000u))
#endif

ETW_BEGIN_DECLS

#if defined(__SIZEOF_WCHAR_T__) && __SIZEOF_WCHAR_T__ == 2
typedef wchar_t etw_wchar;
#define ETW_W(text) L##text
#else
typedef char16_t etw_wchar;
#define ETW_W(text) u##text
#endif
typedef unsigned int etw_ulong;
typedef etw_wchar *etw_lpwstr;
typedef const etw_wchar *etw_lpcwstr;

#if defined(__SQLTYPES_H) && !defined(ALREADY_HAVE_WINDOWS_TYPE)
/* unixODBC came first. Its ULONG has 64 bits and its WCHAR is no character type in C++; its own
 * declarations are behind us, so the names can get their Windows meaning from here on. */
#define ULONG etw_ulong
#define WCHAR etw_wchar
#define LPWSTR etw_lpwstr
#define LPCWSTR etw_lpcwstr
#ifdef UNICODE
#define TCHAR etw_wchar
#define LPTSTR etw_lpwstr
#endif
#else
typedef etw_ulong ULONG;
typedef etw_wchar WCHAR;
typedef etw_lpwstr LPWSTR;
typedef etw_lpcwstr LPCWSTR;
typedef char CHAR;
typedef unsigned char BYTE;
typedef unsigned short WORD;
typedef unsigned int DWORD;
typedef DWORD *LPDWORD;
typedef char *LPSTR;
typedef const char *LPCSTR;
typedef unsigned char UCHAR;
typedef unsigned short USHORT;
typedef unsigned int UINT;
#ifdef UNICODE
typedef WCHAR TCHAR;
typedef LPWSTR LPTSTR;
#else
typedef char TCHAR;
typedef char *LPTSTR;
#endif
#ifndef XMD_H /* <X11/Xmd.h> has its own BOOL */
typedef int BOOL;
#endif
/* For unixODBC, should it come after us: it then leaves these types alone, and needs a few more
 * that it would have made with them. */
#define ALREADY_HAVE_WINDOWS_TYPE 1
#ifndef SQL_API
#define SQL_API
#endif
typedef signed char SQLSCHAR;
typedef void *SQLHWND;
typedef short RETCODE;
#endif

typedef void *PVOID;
typedef void *LPVOID;
typedef const void *LPCVOID;
typedef short SHORT;
typedef int INT;
typedef int LONG;
typedef LONG HRESULT; /* negative: failed */
typedef LONG NTSTATUS;
typedef long long LONGLONG;
typedef unsigned long long ULONGLONG;
typedef long long LONG64;
typedef unsigned long long ULONG64;
typedef unsigned long long DWORD64;
typedef unsigned long long UINT64;
typedef unsigned int ULONG32;
typedef unsigned int UINT32;
typedef unsigned short UINT16;
typedef unsigned char UINT8;
#ifndef XMD_H
typedef signed char INT8;
typedef short INT16;
typedef int INT32;
#ifdef __LP64__
typedef long INT64;
#else
typedef long long INT64;
#endif
#endif
typedef intptr_t LONG_PTR;
typedef uintptr_t ULONG_PTR;
typedef uintptr_t DWORD_PTR;
typedef size_t SIZE_T;
typedef unsigned char BOOLEAN;
typedef CHAR *PCHAR;
typedef CHAR *PSTR;
typedef const CHAR *PCSTR;
typedef WCHAR *PWCHAR;
typedef WCHAR *PWSTR;
typedef const WCHAR *PCWSTR;
#ifdef UNICODE
typedef LPCWSTR LPCTSTR;
#else
typedef LPCSTR LPCTSTR;
#endif
typedef BYTE *PBYTE;
typedef UCHAR *PUCHAR;
typedef USHORT *PUSHORT;
typedef LONG *PLONG;
typedef ULONG *PULONG;
typedef DWORD *PDWORD;
typedef LONGLONG *PLONGLONG;
typedef ULONGLONG *PULONGLONG;
typedef ULONG64 *PULONG64;
typedef BOOLEAN *PBOOLEAN;
typedef PVOID HANDLE;
typedef HANDLE *PHANDLE;
typedef HANDLE HLOCAL;
typedef PVOID PSID;
typedef PVOID PSECURITY_DESCRIPTOR;

#define INVALID_HANDLE_VALUE ((HANDLE) (LONG_PTR) -1)

#ifndef TEXT
#ifdef UNICODE
#define TEXT(text) ETW_W(text)
#else
#define TEXT(text) text
#endif
#endif

typedef union _LARGE_INTEGER {
    __extension__ struct {
        DWORD LowPart;
        LONG HighPart;
    };
    struct {
        DWORD LowPart;
        LONG HighPart;
    } u;
    LONGLONG QuadPart;
} LARGE_INTEGER, *PLARGE_INTEGER;

typedef union _ULARGE_INTEGER {
    __extension__ struct {
        DWORD LowPart;
        DWORD HighPart;
    };
    struct {
        DWORD LowPart;
        DWORD HighPart;
    } u;
    ULONGLONG QuadPart;
} ULARGE_INTEGER, *PULARGE_INTEGER;

/* 100 ns since 1601-01-01 UTC, in two halves. */
typedef struct _FILETIME {
    DWORD dwLowDateTime;
    DWORD dwHighDateTime;
} FILETIME, *PFILETIME, *LPFILETIME;

typedef struct _SYSTEMTIME {
    WORD wYear;
    WORD wMonth;
    WORD wDayOfWeek;
    WORD wDay;
    WORD wHour;
    WORD wMinute;
    WORD wSecond;
    WORD wMilliseconds;
} SYSTEMTIME, *PSYSTEMTIME, *LPSYSTEMTIME;

/* UTC = local time + Bias (minutes). */
typedef struct _TIME_ZONE_INFORMATION {
    LONG Bias;
    WCHAR StandardName[32];
    SYSTEMTIME StandardDate;
    LONG StandardBias;
    WCHAR DaylightName[32];
    SYSTEMTIME DaylightDate;
    LONG DaylightBias;
} TIME_ZONE_INFORMATION, *PTIME_ZONE_INFORMATION, *LPTIME_ZONE_INFORMATION;

#ifndef GUID_DEFINED
#define GUID_DEFINED
typedef struct _GUID {
    UINT32 Data1;
    UINT16 Data2;
    UINT16 Data3;
    UINT8 Data4[8];
} GUID;
#endif
typedef GUID *LPGUID;
typedef const GUID *LPCGUID;
#ifdef __cplusplus
typedef const GUID &REFGUID;
#else
typedef const GUID *REFGUID;
#endif

/* DEFINE_GUID(name, ...) declares a GUID; in the one source file that defines INITGUID before it
 * includes the first of these headers it also defines it (several definitions are one). The GUIDs
 * that these headers declare live in libetw. */
#ifndef DEFINE_GUID
#ifdef INITGUID
#define DEFINE_GUID(name, l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8)                               \
    EXTERN_C const GUID name __attribute__((weak));                                                \
    const GUID name = {l, w1, w2, {b1, b2, b3, b4, b5, b6, b7, b8}}
#else
#define DEFINE_GUID(name, l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8) EXTERN_C const GUID name
#endif
#endif

#ifdef __cplusplus
FORCEINLINE int IsEqualGUID(REFGUID a, REFGUID b)
{
    return memcmp(&a, &b, sizeof(GUID)) == 0;
}
#else
#define IsEqualGUID(a, b) (memcmp((a), (b), sizeof(GUID)) == 0)
#endif
#define InlineIsEqualGUID(a, b) IsEqualGUID(a, b)

/* FormatMessage: dwFlags. */
#define FORMAT_MESSAGE_ALLOCATE_BUFFER 0x00000100u
#define FORMAT_MESSAGE_IGNORE_INSERTS 0x00000200u
#define FORMAT_MESSAGE_FROM_STRING 0x00000400u
#define FORMAT_MESSAGE_FROM_HMODULE 0x00000800u
#define FORMAT_MESSAGE_FROM_SYSTEM 0x00001000u
#define FORMAT_MESSAGE_ARGUMENT_ARRAY 0x00002000u
#define FORMAT_MESSAGE_MAX_WIDTH_MASK 0x000000FFu

/* Windows: errhandlingapi.h GetLastError.
 *
 * The code that the last failing call of this library left on this thread; 0 when none did. A call
 * that succeeds does not change it. Functions that return a ULONG code leave the same code here;
 * OpenTrace and FormatMessage tell their reason only here. Thread-local; never fails. */
ETW_API DWORD WINAPI GetLastError(void);

/* Windows: errhandlingapi.h SetLastError.
 *
 * dwErrCode: what GetLastError() returns next on this thread. Never fails. */
ETW_API void WINAPI SetLastError(DWORD dwErrCode);

/* Windows: winbase.h FormatMessageA, FormatMessageW.
 *
 * The text of a code, for people: "Access is denied." and CR LF after it, as on Windows.
 *
 * dwFlags      FORMAT_MESSAGE_FROM_SYSTEM is needed: texts come from this library's table only.
 *              _ALLOCATE_BUFFER: *(LPSTR *) lpBuffer (W: *(LPWSTR *) lpBuffer) receives memory that
 *              the caller gives back with LocalFree(); nSize is then the least size.
 *              _IGNORE_INSERTS, _ARGUMENT_ARRAY: no text has inserts, both change nothing.
 *              Low byte FORMAT_MESSAGE_MAX_WIDTH_MASK: a blank instead of CR LF. Any other value of
 *              the low byte is taken as 0.
 * lpSource     not used.
 * dwMessageId  the code, one of winerror.h.
 * dwLanguageId not used; the texts are English.
 * lpBuffer     where the text goes, nSize units (A: bytes, W: WCHARs) with the NUL.
 * Arguments    not used; NULL.
 *
 * Returns the number of units written without the NUL; 0 on failure, and then GetLastError() is
 *   ERROR_INVALID_PARAMETER     lpBuffer is NULL, or _FROM_SYSTEM is not set
 *   ERROR_MR_MID_NOT_FOUND      the table does not hold the code
 *   ERROR_INSUFFICIENT_BUFFER   the text does not fit; nothing was written
 *   ERROR_NOT_ENOUGH_MEMORY     with _ALLOCATE_BUFFER
 * Any thread. The last parameter is a va_list * on Windows. */
ETW_API DWORD WINAPI FormatMessageA(DWORD dwFlags, LPCVOID lpSource, DWORD dwMessageId,
                                    DWORD dwLanguageId, LPSTR lpBuffer, DWORD nSize,
                                    void *Arguments);
ETW_API DWORD WINAPI FormatMessageW(DWORD dwFlags, LPCVOID lpSource, DWORD dwMessageId,
                                    DWORD dwLanguageId, LPWSTR lpBuffer, DWORD nSize,
                                    void *Arguments);

/* Windows: winbase.h LocalFree.
 *
 * Frees what FormatMessage allocated; NULL is allowed. Returns NULL. Any thread. */
ETW_API HLOCAL WINAPI LocalFree(HLOCAL hMem);

#ifdef UNICODE
#define FormatMessage FormatMessageW
#else
#define FormatMessage FormatMessageA
#endif

ETW_END_DECLS

#if defined(__cplusplus) && !defined(_SYS_GUID_OPERATOR_EQ_)
#define _SYS_GUID_OPERATOR_EQ_
static inline bool operator==(REFGUID a, REFGUID b)
{
    return IsEqualGUID(a, b) != 0;
}
static inline bool operator!=(REFGUID a, REFGUID b)
{
    return !(a == b);
}
#endif

#endif
