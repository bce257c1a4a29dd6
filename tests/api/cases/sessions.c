/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions of the functions that start, control and list sessions. See cases.h.
 */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES ((ULONG) offsetof(struct test_properties, names))

static ULONG handle_null(struct call *c, const char *a)
{
    (void) a;
    c->out = NULL;
    return call_now(c);
}

static ULONG properties_null(struct call *c, const char *a)
{
    (void) a;
    c->p = NULL;
    return call_now(c);
}

static ULONG name_null(struct call *c, const char *a)
{
    (void) a;
    c->name = NULL;
    return call_now(c);
}

static ULONG name_is(struct call *c, const char *a)
{
    c->name = a;
    return call_now(c);
}

static ULONG name_long(struct call *c, const char *a)
{
    static char name[2048];
    memset(name, 'n', number(a));
    c->name = name;
    return call_now(c);
}

static ULONG size_is(struct call *c, const char *a)
{
    c->t.p.Wnode.BufferSize = number(a);
    return call_now(c);
}

static void make_v2(struct call *c, ULONG version)
{
    EVENT_TRACE_PROPERTIES_V2 *p2 = (EVENT_TRACE_PROPERTIES_V2 *) &c->t.p;
    c->t.p.Wnode.Flags |= WNODE_FLAG_VERSIONED_PROPERTIES;
    c->t.p.LoggerNameOffset = NAMES + 64;
    p2->V2Control = version;
}

static ULONG v2_size(struct call *c, const char *a)
{
    make_v2(c, 2);
    return size_is(c, a);
}

static ULONG v2_version(struct call *c, const char *a)
{
    make_v2(c, number(a));
    return call_now(c);
}

static ULONG v2_filters(struct call *c, const char *a)
{
    make_v2(c, 2);
    ((EVENT_TRACE_PROPERTIES_V2 *) &c->t.p)->FilterDescCount = number(a);
    return call_now(c);
}

static ULONG name_offset(struct call *c, const char *a)
{
    c->t.p.LoggerNameOffset = number(a);
    return call_now(c);
}

static ULONG file_offset(struct call *c, const char *a)
{
    c->t.p.LogFileNameOffset = number(a);
    return call_now(c);
}

static ULONG same_offsets(struct call *c, const char *a)
{
    (void) a;
    c->t.p.LogFileNameOffset = c->t.p.LoggerNameOffset;
    return call_now(c);
}

/* No byte is left for the NUL of "New" in either width. */
static ULONG no_room_for_name(struct call *c, const char *a)
{
    (void) a;
    c->t.p.LogFileNameOffset = NAMES;
    file_name_set(c, "");
    if (c->f->wide)
        wide((WCHAR *) (void *) c->t.names, "n.etl");
    else
        strcpy(c->t.names, "n.etl");
    c->t.p.LoggerNameOffset = NAMES + 100;
    c->t.p.Wnode.BufferSize = NAMES + 100 + (c->f->wide ? 7 : 3);
    return call_now(c);
}

static ULONG file_name_without_end(struct call *c, const char *a)
{
    (void) a;
    memset(c->t.names + ROOM, 'f', ROOM);
    return call_now(c);
}

static ULONG flag_missing(struct call *c, const char *a)
{
    (void) a;
    c->t.p.Wnode.Flags = 0;
    return call_now(c);
}

static ULONG clock_is(struct call *c, const char *a)
{
    c->t.p.Wnode.ClientContext = number(a);
    return call_now(c);
}

static const struct {
    const char *name;
    ULONG bit;
} modes[] = {
    {"SEQUENTIAL", EVENT_TRACE_FILE_MODE_SEQUENTIAL},
    {"CIRCULAR", EVENT_TRACE_FILE_MODE_CIRCULAR},
    {"APPEND", EVENT_TRACE_FILE_MODE_APPEND},
    {"NEWFILE", EVENT_TRACE_FILE_MODE_NEWFILE},
    {"PREALLOCATE", EVENT_TRACE_FILE_MODE_PREALLOCATE},
    {"NONSTOPPABLE", EVENT_TRACE_NONSTOPPABLE_MODE},
    {"REAL_TIME", EVENT_TRACE_REAL_TIME_MODE},
    {"BUFFERING", EVENT_TRACE_BUFFERING_MODE},
    {"PRIVATE", EVENT_TRACE_PRIVATE_LOGGER_MODE},
    {"PRIVATE_IN_PROC", EVENT_TRACE_PRIVATE_IN_PROC},
    {"INDEPENDENT", EVENT_TRACE_INDEPENDENT_SESSION_MODE},
    {"GLOBAL_SEQUENCE", EVENT_TRACE_USE_GLOBAL_SEQUENCE},
    {"LOCAL_SEQUENCE", EVENT_TRACE_USE_LOCAL_SEQUENCE},
    {"SYSTEM_LOGGER", EVENT_TRACE_SYSTEM_LOGGER_MODE},
    {"PAGED", EVENT_TRACE_USE_PAGED_MEMORY},
    {"STOP_HYBRID", EVENT_TRACE_STOP_ON_HYBRID_SHUTDOWN},
    {"PERSIST_HYBRID", EVENT_TRACE_PERSIST_ON_HYBRID_SHUTDOWN},
};

static ULONG mode_of(const char *a)
{
    ULONG mode = 0;
    while (*a) {
        size_t n = strcspn(a, "+");
        ULONG bit = 0;
        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
            if (strlen(modes[i].name) == n && memcmp(modes[i].name, a, n) == 0)
                bit = modes[i].bit;
        if (!bit)
            ck_abort_msg("no mode '%.*s'", (int) n, a);
        mode |= bit;
        a += n + (a[n] == '+');
    }
    return mode;
}

/* With a maximum size and a pattern, so that only the combination can be wrong. */
static ULONG mode_is(struct call *c, const char *a)
{
    c->t.p.LogFileMode = mode_of(a);
    c->t.p.MaximumFileSize = 10;
    if (c->t.p.LogFileMode & EVENT_TRACE_FILE_MODE_NEWFILE)
        file_name_set(c, "new%d.etl");
    return call_now(c);
}

static ULONG mode_without_size(struct call *c, const char *a)
{
    c->t.p.LogFileMode = mode_of(a);
    file_name_set(c, "new%d.etl");
    return call_now(c);
}

static ULONG newfile_pattern(struct call *c, const char *a)
{
    c->t.p.LogFileMode = EVENT_TRACE_FILE_MODE_NEWFILE;
    c->t.p.MaximumFileSize = 10;
    file_name_set(c, a);
    return call_now(c);
}

static ULONG system_guid(struct call *c, const char *a)
{
    c->t.p.Wnode.Guid = SystemTraceControlGuid;
    c->name = *a ? a : c->name;
    return call_now(c);
}

static ULONG no_destination(struct call *c, const char *a)
{
    (void) a;
    c->t.p.LogFileNameOffset = 0;
    return call_now(c);
}

static ULONG file_is(struct call *c, const char *a)
{
    file_name_set(c, a);
    return call_now(c);
}

static ULONG file_in_use(struct call *c, const char *a)
{
    (void) a;
    (void) session_start("Owner of the file", "used.etl");
    return file_is(c, "used.etl");
}

static ULONG file_fifo(struct call *c, const char *a)
{
    (void) a;
    (void) unlink("fifo.etl");
    ck_assert_int_eq(mkfifo("fifo.etl", 0666) | chmod("fifo.etl", 0666), 0);
    return file_is(c, "fifo.etl");
}

static ULONG file_of_root(struct call *c, const char *a)
{
    (void) a;
    (void) mkdir("of-root", 0755);
    return file_is(c, "of-root/x.etl");
}

static ULONG name_exists(struct call *c, const char *a)
{
    (void) session_start("NEW", "first.etl");
    if (*a)
        c->name = a;
    return call_now(c);
}

static ULONG guid_exists(struct call *c, const char *a)
{
    static const GUID guid = {0xCA5E0002, 1, 2, {3, 4, 5, 6, 7, 8, 9, 10}};
    static struct test_properties t;
    TRACEHANDLE h;

    (void) a;
    properties_init(&t, "first.etl");
    t.p.Wnode.Guid = guid;
    ck_assert_uint_eq(StartTraceA(&h, "First", &t.p), ERROR_SUCCESS);
    c->t.p.Wnode.Guid = guid;
    return call_now(c);
}

static ULONG disk_full(struct call *c, const char *a)
{
    (void) a;
    c->t.p.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
    c->t.p.MaximumFileSize = 0xFFFFFFFFu;
    return call_now(c);
}

static ULONG session_limit(struct call *c, const char *a)
{
    char name[32], file[32];
    for (ULONG i = 0; i < number(a); i++) {
        (void) snprintf(name, sizeof(name), "Limit %u", i);
        (void) snprintf(file, sizeof(file), "limit%u.etl", i);
        (void) session_start(name, file);
    }
    return call_now(c);
}

/* The call is the user's fourth. */
static ULONG user_limit(struct call *c, const char *a)
{
    (void) a;
    for (int i = 0; i < 3; i++) {
        char name[32], file[32];
        (void) snprintf(name, sizeof(name), "Own %d", i);
        (void) snprintf(file, sizeof(file), "own%d.etl", i);
        c->name = name;
        (void) unlink(file);
        file_name_set(c, file);
        ck_assert_uint_eq(call_now(c), ERROR_SUCCESS);
        c->as_user = false; /* it is already */
        properties_init(&c->t, NULL);
    }
    c->name = "New";
    file_name_set(c, "fourth.etl");
    return call_now(c);
}

/* ---- StartKernelTrace ---- */

static ULONG kernel_as_plain_start(struct call *c, const char *a)
{
    (void) a;
    c->name = KERNEL_LOGGER_NAMEA;
    c->t.p.EnableFlags = EVENT_TRACE_FLAG_PROCESS;
    ULONG code = call_now(c);
    if (code == ERROR_SUCCESS)
        ck_assert(IsEqualGUID(&c->t.p.Wnode.Guid, &SystemTraceControlGuid));
    return code;
}

static ULONG guid_zero(struct call *c, const char *a)
{
    (void) a;
    memset(&c->t.p.Wnode.Guid, 0, sizeof(GUID));
    return call_now(c);
}

static ULONG flags_are(struct call *c, const char *a)
{
    c->t.p.EnableFlags = number(a);
    return call_now(c);
}

static ULONG kernel_twice(struct call *c, const char *a)
{
    static struct test_properties t;
    TRACEHANDLE h;
    (void) a;
    properties_init_kernel(&t, "kernel.etl");
    ck_assert_uint_eq(StartKernelTrace(&h, &t.p, NULL, 0), ERROR_SUCCESS);
    return call_now(c);
}

static ULONG file_before_name(struct call *c, const char *a)
{
    (void) a;
    c->t.p.LogFileNameOffset = NAMES;
    c->t.p.LoggerNameOffset = NAMES + ROOM;
    if (c->f->wide)
        wide((WCHAR *) (void *) c->t.names, "new.etl");
    else
        strcpy(c->t.names, "new.etl");
    return call_now(c);
}

static STACK_TRACING_EVENT_ID stack_ids[257];

static ULONG stacks_null(struct call *c, const char *a)
{
    c->n_stacks = number(a);
    return call_now(c);
}

static ULONG stacks_undecodable(struct call *c, const char *a)
{
    c->stacks = stack_ids;
    c->n_stacks = number(a);
    return call_now(c);
}

/* Process starts: enabled by EVENT_TRACE_FLAG_PROCESS. */
static ULONG stack_enabled(struct call *c, const char *a)
{
    (void) a;
    stack_ids[0].EventGuid = ProcessGuid;
    stack_ids[0].Type = 1;
    return stacks_undecodable(c, "1");
}

static ULONG stack_not_enabled(struct call *c, const char *a)
{
    (void) a;
    stack_ids[0].EventGuid = ThreadGuid;
    stack_ids[0].Type = 36;
    return stacks_undecodable(c, "1");
}

/* ---- ControlTrace ---- */

static ULONG by_name(struct call *c, const char *a)
{
    c->handle = 0;
    c->name = a;
    return call_now(c);
}

static ULONG by_id(struct call *c, const char *a)
{
    (void) a;
    c->handle &= 0xFFFF;
    return call_now(c);
}

static ULONG name_wins(struct call *c, const char *a)
{
    (void) a;
    c->handle = 0x7FFF;
    c->name = "Target";
    return call_now(c);
}

static ULONG stopped_before(struct call *c, const char *a)
{
    static struct test_properties t;
    (void) a;
    properties_init(&t, NULL);
    ck_assert_uint_eq(StopTraceA(c->handle, NULL, &t.p), ERROR_SUCCESS);
    return call_now(c);
}

/* Done all the same: a stopped session is gone. */
static ULONG no_room_for_result(struct call *c, const char *a)
{
    ULONG code;
    (void) a;
    c->t.p.Wnode.BufferSize = NAMES + 4;
    c->t.p.LogFileNameOffset = 0;
    code = call_now(c);
    if (c->f->control == EVENT_TRACE_CONTROL_STOP)
        ck_assert_uint_eq(session_query("Target"), ERROR_WMI_INSTANCE_NOT_FOUND);
    return code;
}

static ULONG kernel_session(struct call *c, const char *a)
{
    c->name = KERNEL_LOGGER_NAMEA;
    c->t.p.EnableFlags = EVENT_TRACE_FLAG_PROCESS;
    return kernel_twice(c, a);
}

static ULONG v2_plain(struct call *c, const char *a)
{
    (void) a;
    make_v2(c, 2);
    return call_now(c);
}

/* ---- QueryAllTraces ---- */

static ULONG all_as(struct call *c, const char *a)
{
    static struct test_properties t;
    static EVENT_TRACE_PROPERTIES *list[65] = {&t.p};

    properties_init(&t, NULL);
    (void) session_start("One", "one.etl");
    (void) session_start("Two", "two.etl");
    c->array = strchr(a, 'a') ? NULL : list;
    c->length = strchr(a, 'c') ? NULL : c->length;
    if (strchr(a, 's'))
        t.p.Wnode.BufferSize = 1;
    if (strchr(a, 'o'))
        t.p.LoggerNameOffset = 1;
    if (strchr(a, 'e'))
        list[0] = NULL;
    c->n = number(a + strcspn(a, "0123456789"));
    return call_now(c);
}

const struct condition session_conditions[] = {
    {START | KERNEL | CONTROL, "valid", plain},
    {START | KERNEL | CONTROL, "no daemon", no_daemon},
    {START | KERNEL, "handle NULL", handle_null},
    {START | KERNEL | CONTROL, "properties NULL", properties_null},
    {START, "name NULL", name_null},
    {START, "name", name_is},
    {START, "name of length", name_long},
    {START | KERNEL | CONTROL, "size", size_is},
    {START | KERNEL | CONTROL, "V2 size", v2_size},
    {START | KERNEL, "V2 version", v2_version},
    {START, "V2 filters", v2_filters},
    {START | KERNEL | CONTROL, "V2", v2_plain},
    {START | KERNEL | CONTROL, "name offset", name_offset},
    {START | KERNEL | CONTROL, "file offset", file_offset},
    {START | KERNEL | CONTROL, "same offsets", same_offsets},
    {START, "no room for the name", no_room_for_name},
    {START | KERNEL, "file name without end", file_name_without_end},
    {START | KERNEL, "TRACED_GUID missing", flag_missing},
    {START | KERNEL, "clock", clock_is},
    {START | KERNEL | CONTROL, "mode", mode_is},
    {START, "mode without size", mode_without_size},
    {START, "pattern", newfile_pattern},
    {START | CONTROL, "SystemTraceControlGuid, name", system_guid},
    {START | KERNEL, "no destination", no_destination},
    {START | KERNEL | CONTROL, "file", file_is},
    {START | KERNEL, "file of a session", file_in_use},
    {START | KERNEL, "file is a FIFO", file_fifo},
    {START, "file in root's folder", file_of_root},
    {START, "name exists", name_exists},
    {START, "GUID exists", guid_exists},
    {START, "no such space", disk_full},
    {START, "sessions", session_limit},
    {START, "user's sessions", user_limit},
    {START, "kernel logger", kernel_as_plain_start},
    {START | KERNEL, "GUID 0", guid_zero},
    {KERNEL, "flags", flags_are},
    {KERNEL, "runs already", kernel_twice},
    {KERNEL, "file name before session name", file_before_name},
    {KERNEL, "stacks NULL", stacks_null},
    {KERNEL, "undecodable stacks", stacks_undecodable},
    {KERNEL, "stack of an enabled event", stack_enabled},
    {KERNEL, "stack of another event", stack_not_enabled},
    {CONTROL, "name", by_name},
    {CONTROL, "handle", handle_is},
    {CONTROL, "id", by_id},
    {CONTROL, "name and another handle", name_wins},
    {CONTROL, "stopped before", stopped_before},
    {CONTROL, "no room for the result", no_room_for_result},
    {CONTROL, "kernel logger", kernel_session},
    {ALL, "array", all_as},
    {ALL, "no daemon", no_daemon},
    {0},
};
