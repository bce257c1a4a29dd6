/* SPDX-License-Identifier: Apache-2.0
 *
 * What StartTrace and StartKernelTrace say before any daemon is asked: there is none, so a call
 * whose parameters are right ends with ERROR_WMI_SERVER_UNAVAILABLE.
 */
#include "lib/test.h"

#include <stdio.h>
#include <unistd.h>

#include "properties.h"

#define PASSED ERROR_WMI_SERVER_UNAVAILABLE

static struct test_properties t;
static TRACEHANDLE handle;

static void setup(void)
{
    ck_assert_int_eq(setenv("ETWD_SOCKET", "/nonexistent/etwd.sock", 1), 0);
    properties_init(&t, "trace.etl");
    handle = 0xAAAA;
}

/* The call must fail with this code, tell GetLastError() too, and clear the handle. */
static void expect_a(ULONG code)
{
    handle = 0xAAAA;
    SetLastError(0);
    ck_assert_uint_eq(StartTraceA(&handle, "name", &t.p), code);
    ck_assert_uint_eq(handle, 0);
    ck_assert_uint_eq(GetLastError(), code);
}

static void expect_kernel(const STACK_TRACING_EVENT_ID *stacks, ULONG n, ULONG code)
{
    handle = 0xAAAA;
    ck_assert_uint_eq(StartKernelTrace(&handle, &t.p, stacks, n), code);
    ck_assert_uint_eq(handle, 0);
    ck_assert_uint_eq(StartKernelTraceA(&handle, &t.p, stacks, n), code);
    ck_assert_uint_eq(handle, 0);
}

START_TEST(right_parameters_reach_for_the_daemon)
{
    struct test_properties before = t;

    expect_a(PASSED);
    ck_assert_mem_eq(&t, &before, sizeof(t)); /* untouched on failure */
    ck_assert_int_ne(access("trace.etl", F_OK), 0);
}
END_TEST

START_TEST(null_pointers)
{
    ck_assert_uint_eq(StartTraceA(NULL, "name", &t.p), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(StartTraceA(&handle, NULL, &t.p), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(handle, 0);
    handle = 7;
    ck_assert_uint_eq(StartTraceA(&handle, "name", NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(handle, 0);
    ck_assert_uint_eq(StartTraceW(NULL, ETW_W("name"), &t.p), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(StartTraceW(&handle, NULL, &t.p), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(StartTraceW(&handle, ETW_W("name"), NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(StartTraceA(&handle, "", &t.p), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(StartTraceW(&handle, ETW_W(""), &t.p), ERROR_INVALID_PARAMETER);
}
END_TEST

START_TEST(buffer_size)
{
    t.p.Wnode.BufferSize = 0;
    expect_a(ERROR_BAD_LENGTH);
    t.p.Wnode.BufferSize = sizeof(EVENT_TRACE_PROPERTIES) - 1;
    expect_a(ERROR_BAD_LENGTH);
    /* The structure alone: no names, so nowhere to log, or live. */
    t.p.Wnode.BufferSize = sizeof(EVENT_TRACE_PROPERTIES);
    t.p.LoggerNameOffset = t.p.LogFileNameOffset = 0;
    expect_a(ERROR_BAD_PATHNAME);
    t.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
    expect_a(PASSED);
}
END_TEST

START_TEST(room_for_the_name)
{
    WCHAR name[] = ETW_W("name");

    t.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
    t.p.LogFileNameOffset = 0;
    t.p.LoggerNameOffset = sizeof(EVENT_TRACE_PROPERTIES);
    t.p.Wnode.BufferSize = sizeof(EVENT_TRACE_PROPERTIES) + 4;
    expect_a(ERROR_BAD_LENGTH);
    t.p.Wnode.BufferSize = sizeof(EVENT_TRACE_PROPERTIES) + 5;
    expect_a(PASSED);
    ck_assert_uint_eq(StartTraceW(&handle, name, &t.p), ERROR_BAD_LENGTH);
    t.p.Wnode.BufferSize = sizeof(EVENT_TRACE_PROPERTIES) + 9;
    ck_assert_uint_eq(StartTraceW(&handle, name, &t.p), ERROR_BAD_LENGTH);
    t.p.Wnode.BufferSize = sizeof(EVENT_TRACE_PROPERTIES) + 10;
    ck_assert_uint_eq(StartTraceW(&handle, name, &t.p), PASSED);
    /* Up to the file's name only, or the one would overwrite the other. */
    properties_init(&t, NULL);
    t.p.LogFileNameOffset = t.p.LoggerNameOffset + 4;
    strcpy((char *) &t + t.p.LogFileNameOffset, "x.etl");
    expect_a(ERROR_BAD_LENGTH);
    /* An offset behind the end. */
    properties_init(&t, "x.etl");
    t.p.LoggerNameOffset = sizeof(t);
    expect_a(ERROR_BAD_LENGTH);
    t.p.LoggerNameOffset = UINT32_MAX;
    expect_a(ERROR_BAD_LENGTH);
    /* No place for it is no error. */
    t.p.LoggerNameOffset = 0;
    expect_a(PASSED);
}
END_TEST

START_TEST(long_names)
{
    char name[1100];

    memset(name, 'n', sizeof(name));
    name[1025] = '\0';
    ck_assert_uint_eq(StartTraceA(&handle, name, &t.p), ERROR_BAD_LENGTH);
    name[1024] = '\0';
    ck_assert_uint_eq(StartTraceA(&handle, name, &t.p), PASSED);

    memset(t.names + ROOM, 'f', 1025);
    expect_a(ERROR_BAD_LENGTH);
    t.names[ROOM + 1024] = '\0';
    expect_a(PASSED);
    /* A file name without an end inside the buffer. */
    memset(t.names + ROOM, 'f', ROOM);
    t.p.Wnode.BufferSize = t.p.LogFileNameOffset + 100;
    expect_a(ERROR_BAD_LENGTH);
    t.p.LogFileNameOffset = sizeof(t) + 1;
    expect_a(ERROR_BAD_LENGTH);
}
END_TEST

START_TEST(offsets_into_the_structure)
{
    t.p.LoggerNameOffset = 1;
    expect_a(ERROR_INVALID_PARAMETER);
    t.p.LoggerNameOffset = sizeof(EVENT_TRACE_PROPERTIES) - 1;
    expect_a(ERROR_INVALID_PARAMETER);
    properties_init(&t, "trace.etl");
    t.p.LogFileNameOffset = 1;
    expect_a(ERROR_INVALID_PARAMETER);
    t.p.LogFileNameOffset = sizeof(EVENT_TRACE_PROPERTIES) - 1;
    expect_a(ERROR_INVALID_PARAMETER);
    properties_init(&t, "trace.etl");
    t.p.LogFileNameOffset = t.p.LoggerNameOffset;
    expect_a(ERROR_INVALID_PARAMETER);
}
END_TEST

START_TEST(wnode)
{
    t.p.Wnode.Flags = 0;
    expect_a(ERROR_INVALID_PARAMETER);
    t.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    for (ULONG clock = 0; clock <= 3; clock++) {
        t.p.Wnode.ClientContext = clock;
        expect_a(PASSED);
    }
    t.p.Wnode.ClientContext = 4;
    expect_a(ERROR_INVALID_PARAMETER);
}
END_TEST

START_TEST(version_2)
{
    struct {
        EVENT_TRACE_PROPERTIES_V2 p;
        char names[64];
    } v;

    memset(&v, 0, sizeof(v));
    v.p.Wnode.BufferSize = sizeof(v);
    v.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID | WNODE_FLAG_VERSIONED_PROPERTIES;
    v.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
    v.p.LoggerNameOffset = sizeof(v.p);
    v.p.VersionNumber = 2;
    ck_assert_uint_eq(StartTraceA(&handle, "name", (PEVENT_TRACE_PROPERTIES) &v), PASSED);
    v.p.VersionNumber = 1;
    ck_assert_uint_eq(StartTraceA(&handle, "name", (PEVENT_TRACE_PROPERTIES) &v),
                      ERROR_INVALID_PARAMETER);
    v.p.VersionNumber = 2;
    v.p.LoggerNameOffset = sizeof(EVENT_TRACE_PROPERTIES); /* inside the longer structure */
    ck_assert_uint_eq(StartTraceA(&handle, "name", (PEVENT_TRACE_PROPERTIES) &v),
                      ERROR_INVALID_PARAMETER);
    v.p.LoggerNameOffset = 0;
    v.p.Wnode.BufferSize = sizeof(EVENT_TRACE_PROPERTIES);
    ck_assert_uint_eq(StartTraceA(&handle, "name", (PEVENT_TRACE_PROPERTIES) &v), ERROR_BAD_LENGTH);
    v.p.Wnode.BufferSize = sizeof(v);
    v.p.FilterDescCount = 1;
    ck_assert_uint_eq(StartTraceA(&handle, "name", (PEVENT_TRACE_PROPERTIES) &v),
                      ERROR_NOT_SUPPORTED);
}
END_TEST

#define SEQ EVENT_TRACE_FILE_MODE_SEQUENTIAL
#define CIRC EVENT_TRACE_FILE_MODE_CIRCULAR
#define APP EVENT_TRACE_FILE_MODE_APPEND
#define NEW EVENT_TRACE_FILE_MODE_NEWFILE
#define PRE EVENT_TRACE_FILE_MODE_PREALLOCATE
#define RT EVENT_TRACE_REAL_TIME_MODE
#define BUF EVENT_TRACE_BUFFERING_MODE
#define PRIV EVENT_TRACE_PRIVATE_LOGGER_MODE
#define INDEP EVENT_TRACE_INDEPENDENT_SESSION_MODE

/* The exclusion matrix, row by row: x excluded, . allowed. */
static const ULONG matrix_modes[] = {SEQ, CIRC, APP, NEW, PRE, RT, BUF, PRIV, INDEP};
static const char *const matrix[] = {
    /* SEQ */ ".x.x..x..",
    /* CIRC */ "x.xx..x..",
    /* APP */ ".x.x.xxx.",
    /* NEW */ "xxx...x..",
    /* PRE */ "......xx.",
    /* RT */ "..x...xx.",
    /* BUF */ "xxxxxx...",
    /* PRIV */ "..x.xx..x",
    /* INDEP */ ".......x.",
};

START_TEST(mode_matrix)
{
    for (unsigned i = 0; i < 9; i++) {
        for (unsigned j = 0; j < 9; j++) {
            /* The matrix is its own mirror image, or the table above is wrong. */
            ck_assert_msg(matrix[i][j] == matrix[j][i], "%u %u", i, j);
            properties_init(&t, "trace%d.etl");
            t.p.MaximumFileSize = 10;
            t.p.LogFileMode = matrix_modes[i] | matrix_modes[j];
            t.p.Wnode.ClientContext = 2; /* which APP needs */
            handle = 9;
            ck_assert_msg(StartTraceA(&handle, "name", &t.p) ==
                              (matrix[i][j] == 'x' ? ERROR_INVALID_PARAMETER : PASSED),
                          "modes 0x%x and 0x%x", matrix_modes[i], matrix_modes[j]);
            ck_assert_uint_eq(handle, 0);
        }
    }
}
END_TEST

static const struct {
    ULONG mode;
    ULONG size;
    const char *file;
    ULONG code;
} mode_rows[] = {
    {0, 0, "x.etl", PASSED}, /* sequential without limit */
    {0, 5, "x.etl", PASSED},
    {0, 0, NULL, ERROR_BAD_PATHNAME}, /* nowhere to log */
    {0, 0, "", ERROR_BAD_PATHNAME},
    {SEQ, 0, NULL, ERROR_BAD_PATHNAME},
    {EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING, 0, NULL, ERROR_BAD_PATHNAME},
    {RT, 0, NULL, PASSED},
    {RT, 0, "x.etl", PASSED},
    {BUF, 0, NULL, PASSED},
    {CIRC, 0, "x.etl", ERROR_INVALID_PARAMETER}, /* needs a size */
    {CIRC, 1, "x.etl", PASSED},
    {APP, 0, "x.etl", ERROR_INVALID_PARAMETER}, /* needs clock 2 */
    {NEW, 0, "x%d.etl", ERROR_INVALID_PARAMETER},
    {NEW, 1, "x%d.etl", PASSED},
    {NEW, 1, "x.etl", ERROR_INVALID_NAME},
    {NEW, 1, "x%s.etl", ERROR_INVALID_NAME},
    {NEW, 1, "x%d%d.etl", ERROR_INVALID_NAME},
    {NEW, 1, "x%%d.etl", ERROR_INVALID_NAME},
    {PRE | SEQ, 0, "x.etl", ERROR_INVALID_PARAMETER},
    {PRE | SEQ, 1, "x.etl", PASSED},
    {EVENT_TRACE_USE_GLOBAL_SEQUENCE | EVENT_TRACE_USE_LOCAL_SEQUENCE, 0, "x.etl",
     ERROR_INVALID_PARAMETER},
    {EVENT_TRACE_USE_GLOBAL_SEQUENCE, 0, "x.etl", PASSED},
    {EVENT_TRACE_PRIVATE_IN_PROC, 0, "x.etl", ERROR_INVALID_PARAMETER},
    {EVENT_TRACE_PRIVATE_IN_PROC | PRIV, 0, "x.etl", PASSED},
    {EVENT_TRACE_SYSTEM_LOGGER_MODE | EVENT_TRACE_USE_PAGED_MEMORY, 0, "x.etl",
     ERROR_INVALID_PARAMETER},
    {EVENT_TRACE_USE_PAGED_MEMORY, 0, "x.etl", PASSED},
    {EVENT_TRACE_STOP_ON_HYBRID_SHUTDOWN | EVENT_TRACE_PERSIST_ON_HYBRID_SHUTDOWN, 0, "x.etl",
     ERROR_INVALID_PARAMETER},
    {SEQ | CIRC, 1, "x.etl", ERROR_INVALID_PARAMETER},
    {SEQ | CIRC, 1, NULL, ERROR_INVALID_PARAMETER}, /* before the place to log */
    {EVENT_TRACE_NONSTOPPABLE_MODE, 0, "x.etl", ERROR_INVALID_PARAMETER},
    {EVENT_TRACE_DELAY_OPEN_FILE_MODE | EVENT_TRACE_ADD_HEADER_MODE, 0, "x.etl", PASSED},
};

START_TEST(mode_row)
{
    properties_init(&t, mode_rows[_i].file);
    if (!mode_rows[_i].file)
        t.p.LogFileNameOffset = 0;
    t.p.LogFileMode = mode_rows[_i].mode;
    t.p.MaximumFileSize = mode_rows[_i].size;
    expect_a(mode_rows[_i].code);
}
END_TEST

START_TEST(kernel_name_and_guid)
{
    /* The GUID without the name. */
    t.p.Wnode.Guid = SystemTraceControlGuid;
    expect_a(ERROR_INVALID_PARAMETER);
    /* The name, in any case, with any GUID. */
    ck_assert_uint_eq(StartTraceA(&handle, KERNEL_LOGGER_NAMEA, &t.p), PASSED);
    ck_assert_uint_eq(StartTraceA(&handle, "nt KERNEL logger", &t.p), PASSED);
    t.p.Wnode.Guid = ThreadGuid;
    ck_assert_uint_eq(StartTraceA(&handle, KERNEL_LOGGER_NAMEA, &t.p), PASSED);
    /* What the kernel logger cannot be. */
    t.p.LogFileMode = EVENT_TRACE_USE_PAGED_MEMORY;
    ck_assert_uint_eq(StartTraceA(&handle, KERNEL_LOGGER_NAMEA, &t.p), ERROR_INVALID_PARAMETER);
    t.p.LogFileMode = PRIV;
    ck_assert_uint_eq(StartTraceA(&handle, KERNEL_LOGGER_NAMEA, &t.p), ERROR_INVALID_PARAMETER);
}
END_TEST

START_TEST(kernel_pointers_and_stacks)
{
    STACK_TRACING_EVENT_ID stacks[257];

    memset(stacks, 0, sizeof(stacks));
    properties_init_kernel(&t, "trace.etl");
    expect_kernel(NULL, 0, PASSED);
    expect_kernel(stacks, 0, PASSED);
    expect_kernel(stacks, 256, PASSED);
    expect_kernel(stacks, 257, ERROR_INVALID_PARAMETER);
    expect_kernel(NULL, 1, ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(StartKernelTrace(NULL, &t.p, NULL, 0), ERROR_INVALID_PARAMETER);
    handle = 5;
    ck_assert_uint_eq(StartKernelTrace(&handle, NULL, NULL, 0), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(handle, 0);
}
END_TEST

START_TEST(kernel_guid_and_flags)
{
    properties_init_kernel(&t, "trace.etl");
    t.p.Wnode.Guid = KernelRundownGuid; /* a later version's */
    expect_kernel(NULL, 0, ERROR_INVALID_PARAMETER);
    memset(&t.p.Wnode.Guid, 0, sizeof(GUID));
    expect_kernel(NULL, 0, ERROR_INVALID_PARAMETER);
    properties_init_kernel(&t, "trace.etl");
    t.p.Wnode.Flags = 0;
    expect_kernel(NULL, 0, ERROR_INVALID_PARAMETER);
    properties_init_kernel(&t, "trace.etl");
    t.p.EnableFlags = 0x08000000;
    expect_kernel(NULL, 0, ERROR_INVALID_FLAGS);
    t.p.EnableFlags = 0x08000000 | EVENT_TRACE_FLAG_PROCESS;
    expect_kernel(NULL, 0, ERROR_INVALID_FLAGS);
    t.p.EnableFlags = 0x77FFFFFF; /* all defined ones: etwd's answer */
    expect_kernel(NULL, 0, PASSED);
    t.p.EnableFlags = EVENT_TRACE_FLAG_EXTENSION | 0x08000000; /* no flags, an offset */
    expect_kernel(NULL, 0, PASSED);
    t.p.EnableFlags = 0;
    expect_kernel(NULL, 0, PASSED);
}
END_TEST

START_TEST(kernel_places)
{
    properties_init_kernel(&t, NULL);
    t.p.LogFileNameOffset = offsetof(struct test_properties, names);
    t.p.LoggerNameOffset = offsetof(struct test_properties, names) + ROOM;
    strcpy(t.names, "trace.etl");
    expect_kernel(NULL, 0, ERROR_INVALID_PARAMETER); /* the session's name comes first */
    properties_init_kernel(&t, "trace.etl");
    t.p.LogFileNameOffset = t.p.LoggerNameOffset + sizeof(KERNEL_LOGGER_NAMEA) - 1;
    expect_kernel(NULL, 0, ERROR_BAD_LENGTH);
    t.p.LogFileNameOffset++;
    strcpy((char *) &t + t.p.LogFileNameOffset, "trace.etl");
    expect_kernel(NULL, 0, PASSED);
    ck_assert_uint_eq(StartKernelTraceW(&handle, &t.p, NULL, 0), ERROR_BAD_LENGTH);
    t.p.Wnode.BufferSize = sizeof(EVENT_TRACE_PROPERTIES) - 1;
    expect_kernel(NULL, 0, ERROR_BAD_LENGTH);
}
END_TEST

static const struct {
    ULONG mode;
    ULONG code;
} kernel_modes[] = {
    {0, PASSED},
    {RT, PASSED},
    {SEQ | RT, PASSED},
    {PRIV, ERROR_INVALID_PARAMETER},
    {NEW, ERROR_INVALID_PARAMETER},
    {EVENT_TRACE_USE_PAGED_MEMORY, ERROR_INVALID_PARAMETER},
    {SEQ | CIRC, ERROR_INVALID_PARAMETER},
};

START_TEST(kernel_mode)
{
    properties_init_kernel(&t, "x%d.etl");
    t.p.MaximumFileSize = 1;
    t.p.LogFileMode = kernel_modes[_i].mode;
    expect_kernel(NULL, 0, kernel_modes[_i].code);
}
END_TEST

START_TEST(kernel_nowhere_to_log)
{
    properties_init_kernel(&t, "");
    expect_kernel(NULL, 0, ERROR_BAD_PATHNAME);
    t.p.LogFileNameOffset = 0;
    expect_kernel(NULL, 0, ERROR_BAD_PATHNAME);
}
END_TEST

START_TEST(order_of_checks)
{
    /* Each mistake is told before those that are checked later. */
    properties_init_kernel(&t, "");
    t.p.LogFileMode = SEQ | CIRC;
    t.p.EnableFlags = 0x08000000;
    t.p.Wnode.Guid = ThreadGuid;
    t.p.LogFileNameOffset = 1;
    t.p.Wnode.BufferSize = 8;
    expect_kernel(NULL, 0, ERROR_BAD_LENGTH);
    t.p.Wnode.BufferSize = sizeof(t);
    expect_kernel(NULL, 0, ERROR_INVALID_PARAMETER); /* the offset */
    t.p.LogFileNameOffset = 0;
    expect_kernel(NULL, 0, ERROR_INVALID_PARAMETER); /* the GUID */
    t.p.Wnode.Guid = SystemTraceControlGuid;
    expect_kernel(NULL, 0, ERROR_INVALID_FLAGS);
    t.p.EnableFlags = 0;
    expect_kernel(NULL, 0, ERROR_INVALID_PARAMETER); /* the modes */
    t.p.LogFileMode = SEQ;
    expect_kernel(NULL, 0, ERROR_BAD_PATHNAME);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("start-codes");
    TCase *c = tcase_create("codes");

    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, right_parameters_reach_for_the_daemon);
    tcase_add_test(c, null_pointers);
    tcase_add_test(c, buffer_size);
    tcase_add_test(c, room_for_the_name);
    tcase_add_test(c, long_names);
    tcase_add_test(c, offsets_into_the_structure);
    tcase_add_test(c, wnode);
    tcase_add_test(c, version_2);
    tcase_add_test(c, mode_matrix);
    tcase_add_loop_test(c, mode_row, 0, sizeof(mode_rows) / sizeof(mode_rows[0]));
    tcase_add_test(c, kernel_name_and_guid);
    tcase_add_test(c, kernel_pointers_and_stacks);
    tcase_add_test(c, kernel_guid_and_flags);
    tcase_add_test(c, kernel_places);
    tcase_add_loop_test(c, kernel_mode, 0, sizeof(kernel_modes) / sizeof(kernel_modes[0]));
    tcase_add_test(c, kernel_nowhere_to_log);
    tcase_add_test(c, order_of_checks);
    suite_add_tcase(s, c);
    return test_main(s);
}
