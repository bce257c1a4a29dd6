/* SPDX-License-Identifier: Apache-2.0
 *
 * EVENT_TRACE_PROPERTIES as tests begin with: valid for a plain session, room for both names.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include <KernelTraceControl.h>
#include <evntrace.h>

#include "lib/test.h"

#define ROOM 2100 /* bytes for a name of 1024 WCHARs and more */

struct test_properties {
    EVENT_TRACE_PROPERTIES p;
    char names[2 * ROOM];
};

/* A plain session that logs to `file` (A functions; NULL: no name). */
static inline void properties_init(struct test_properties *t, const char *file)
{
    memset(t, 0, sizeof(*t));
    t->p.Wnode.BufferSize = sizeof(*t);
    t->p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    t->p.Wnode.ClientContext = 1;
    t->p.LoggerNameOffset = offsetof(struct test_properties, names);
    t->p.LogFileNameOffset = offsetof(struct test_properties, names) + ROOM;
    if (file)
        strcpy(t->names + ROOM, file);
}

static inline void properties_init_kernel(struct test_properties *t, const char *file)
{
    properties_init(t, file);
    t->p.Wnode.Guid = SystemTraceControlGuid;
    t->p.EnableFlags = EVENT_TRACE_FLAG_PROCESS;
}

/* ASCII as WCHARs. */
static inline void wide(WCHAR *to, const char *from)
{
    size_t i = 0;
    do
        to[i] = (WCHAR) (unsigned char) from[i];
    while (from[i++]);
}
