/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills one layout table; compiled once a set of headers (LAYOUT_MINGW, or ours as C or C++). No
 * libc header: those of mingw-w64 are in the way of the system's.
 */
#ifdef LAYOUT_MINGW
#define LAYOUT_FUNCTION layout_mingw
/* These are defined here from mingw's text and in libetw from ours. */
#define EventTraceGuid mingw_EventTraceGuid
#define SystemTraceControlGuid mingw_SystemTraceControlGuid
#define EventTraceConfigGuid mingw_EventTraceConfigGuid
#define DefaultTraceSecurityGuid mingw_DefaultTraceSecurityGuid
#include <windef.h>
#include <winbase.h>
#include <winerror.h>
#include <wmistr.h>
#define INITGUID
#include <evntrace.h>
#undef EventTraceGuid
#undef SystemTraceControlGuid
#undef EventTraceConfigGuid
#undef DefaultTraceSecurityGuid
#include <evntprov.h>
#include <evntcons.h>
#include <tdh.h>
#define LAYOUT_GUID(name) mingw_##name
#else
#ifdef __cplusplus
#define LAYOUT_FUNCTION layout_ours_cxx
#else
#define LAYOUT_FUNCTION layout_ours_c
#endif
#include <KernelTraceControl.h>
#include <evntcons.h>
#include <evntprov.h>
#include <tdh.h>
#include <evntrace.h>
#include <winerror.h>
#include <wmistr.h>
#define LAYOUT_GUID(name) name
#endif

#include "table.h"

#ifdef __cplusplus
#define ALIGNMENT(type) alignof(type)
#define BITS_TYPE(type, member) decltype(((type *) 0)->member)
#else
#define ALIGNMENT(type) _Alignof(type)
#endif

static void put_bytes(struct layout_row *r, const void *data, unsigned long long size)
{
    if (size > sizeof(r->bytes))
        size = sizeof(r->bytes);
    __builtin_memcpy(r->bytes, data, size);
}

/* Narrowed so that a table in C++ need not repeat the sign of the other's type. */
#define STRUCT(type)                                                                               \
    rows[n].name = #type;                                                                          \
    rows[n].member = "";                                                                           \
    rows[n].value = ALIGNMENT(type);                                                               \
    rows[n++].size = sizeof(type);
#define MEMBER(type, field)                                                                        \
    rows[n].name = #type;                                                                          \
    rows[n].member = #field;                                                                       \
    rows[n].value = __builtin_offsetof(type, field);                                               \
    rows[n++].size = sizeof(((type *) 0)->field);
#define BITS(type, field)                                                                          \
    {                                                                                              \
        type t;                                                                                    \
        __builtin_memset(&t, 0, sizeof(t));                                                        \
        t.field--;                                                                                 \
        rows[n].name = #type;                                                                      \
        rows[n].member = #field;                                                                   \
        rows[n].size = sizeof(t);                                                                  \
        put_bytes(&rows[n++], &t, sizeof(t));                                                      \
    }
#define CONSTANT(constant)                                                                         \
    rows[n].name = #constant;                                                                      \
    rows[n].member = "";                                                                           \
    rows[n++].value = (unsigned long long) (constant);
#define TEXT_A(text)                                                                               \
    rows[n].name = #text;                                                                          \
    rows[n].member = "";                                                                           \
    put_bytes(&rows[n++], text, sizeof(text));
#define TEXT_W(text)                                                                               \
    rows[n].name = #text;                                                                          \
    rows[n].member = "";                                                                           \
    put_bytes(&rows[n++], text, sizeof(text));
#define GUID_VALUE(guid)                                                                           \
    rows[n].name = #guid;                                                                          \
    rows[n].member = "";                                                                           \
    put_bytes(&rows[n++], &LAYOUT_GUID(guid), sizeof(GUID));

#ifndef LAYOUT_PART
#define LAYOUT_PART "layout.inc"
#endif

unsigned LAYOUT_FUNCTION(struct layout_row *rows)
{
    unsigned n = 0;
#include LAYOUT_PART
    return n;
}
