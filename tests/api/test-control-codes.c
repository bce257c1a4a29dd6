/* SPDX-License-Identifier: Apache-2.0
 *
 * What ControlTrace and its older forms say before any daemon is asked; and that without one they
 * say so.
 */
#include "lib/test.h"

#include <stdlib.h>

#include "properties.h"

#define PASSED ERROR_WMI_SERVER_UNAVAILABLE
#define SOME_HANDLE 0x10002ull

static struct test_properties t;

static void setup(void)
{
    ck_assert_int_eq(setenv("ETWD_SOCKET", "/nonexistent/etwd.sock", 1), 0);
    properties_init(&t, NULL);
}

/* Every function with every control code that it stands for. */
static void expect_all(TRACEHANDLE h, const char *name, EVENT_TRACE_PROPERTIES *p, ULONG code)
{
    WCHAR w[2048];
    LPCWSTR wname = NULL;

    if (name) {
        wide(w, name);
        wname = w;
    }
    for (ULONG control = 0; control <= EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME; control++) {
        SetLastError(0);
        ck_assert_uint_eq(ControlTraceA(h, name, p, control), code);
        ck_assert_uint_eq(GetLastError(), code);
        ck_assert_uint_eq(ControlTraceW(h, wname, p, control), code);
    }
    ck_assert_uint_eq(StopTraceA(h, name, p), code);
    ck_assert_uint_eq(StopTraceW(h, wname, p), code);
    ck_assert_uint_eq(QueryTraceA(h, name, p), code);
    ck_assert_uint_eq(QueryTraceW(h, wname, p), code);
    ck_assert_uint_eq(UpdateTraceA(h, name, p), code);
    ck_assert_uint_eq(UpdateTraceW(h, wname, p), code);
    ck_assert_uint_eq(FlushTraceA(h, name, p), code);
    ck_assert_uint_eq(FlushTraceW(h, wname, p), code);
}

START_TEST(right_parameters_reach_for_the_daemon)
{
    struct test_properties before = t;

    /* UPDATE with an offset means another file; an empty name is none, as everywhere. */
    expect_all(SOME_HANDLE, NULL, &t.p, PASSED);
    expect_all(0, "name", &t.p, PASSED);
    expect_all(SOME_HANDLE, "name", &t.p, PASSED);
    expect_all(SOME_HANDLE, "", &t.p, PASSED);
    ck_assert_mem_eq(&t, &before, sizeof(t));
}
END_TEST

START_TEST(pointers_handles_names)
{
    expect_all(SOME_HANDLE, "name", NULL, ERROR_INVALID_PARAMETER);
    expect_all(0, NULL, &t.p, ERROR_INVALID_PARAMETER);
    expect_all(0, "", &t.p, ERROR_INVALID_PARAMETER);
    expect_all(INVALID_PROCESSTRACE_HANDLE, NULL, &t.p, ERROR_INVALID_PARAMETER);
    expect_all(0x10000, NULL, &t.p, ERROR_INVALID_PARAMETER); /* id 0 */
    expect_all(1ull << 48 | 2, NULL, &t.p, ERROR_INVALID_PARAMETER);
    expect_all(2, NULL, &t.p, PASSED); /* generation 0 is any */
    expect_all(0xFFFF, NULL, &t.p, PASSED);
}
END_TEST

START_TEST(control_code)
{
    ck_assert_uint_eq(ControlTraceA(SOME_HANDLE, NULL, &t.p, 6), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(ControlTraceW(SOME_HANDLE, NULL, &t.p, UINT32_MAX), ERROR_INVALID_PARAMETER);
}
END_TEST

START_TEST(sizes_and_places)
{
    t.p.Wnode.BufferSize = 0;
    expect_all(SOME_HANDLE, NULL, &t.p, ERROR_BAD_LENGTH);
    t.p.Wnode.BufferSize = sizeof(EVENT_TRACE_PROPERTIES) - 1;
    expect_all(SOME_HANDLE, NULL, &t.p, ERROR_BAD_LENGTH);
    /* The declared places lie outside. */
    t.p.Wnode.BufferSize = sizeof(EVENT_TRACE_PROPERTIES);
    expect_all(SOME_HANDLE, NULL, &t.p, ERROR_BAD_LENGTH);
    t.p.LoggerNameOffset = 0;
    expect_all(SOME_HANDLE, NULL, &t.p, ERROR_BAD_LENGTH);
    t.p.LogFileNameOffset = 0;
    expect_all(SOME_HANDLE, NULL, &t.p, PASSED);
    properties_init(&t, NULL);
    t.p.LoggerNameOffset = 1;
    expect_all(SOME_HANDLE, NULL, &t.p, ERROR_INVALID_PARAMETER);
    properties_init(&t, NULL);
    t.p.LogFileNameOffset = 119;
    expect_all(SOME_HANDLE, NULL, &t.p, ERROR_INVALID_PARAMETER);
    properties_init(&t, NULL);
    t.p.LogFileNameOffset = t.p.LoggerNameOffset;
    expect_all(SOME_HANDLE, NULL, &t.p, ERROR_INVALID_PARAMETER);
}
END_TEST

START_TEST(members_that_do_not_matter)
{
    /* STOP, QUERY and FLUSH only need sizes and offsets: the rest may be rubbish. */
    memset(&t, 0xA5, sizeof(t));
    t.p.Wnode.BufferSize = sizeof(t);
    t.p.Wnode.Flags = 0;
    t.p.LoggerNameOffset = offsetof(struct test_properties, names);
    t.p.LogFileNameOffset = offsetof(struct test_properties, names) + ROOM;
    ck_assert_uint_eq(StopTraceA(SOME_HANDLE, NULL, &t.p), PASSED);
    ck_assert_uint_eq(QueryTraceA(SOME_HANDLE, NULL, &t.p), PASSED);
    ck_assert_uint_eq(FlushTraceA(SOME_HANDLE, NULL, &t.p), PASSED);
    /* UPDATE reads the modes and the file name. */
    ck_assert_uint_eq(UpdateTraceA(SOME_HANDLE, NULL, &t.p), ERROR_BAD_LENGTH);
}
END_TEST

START_TEST(update_modes)
{
    t.p.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL | EVENT_TRACE_FILE_MODE_CIRCULAR;
    ck_assert_uint_eq(UpdateTraceA(SOME_HANDLE, NULL, &t.p), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(QueryTraceA(SOME_HANDLE, NULL, &t.p), PASSED);
    t.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
    ck_assert_uint_eq(UpdateTraceA(SOME_HANDLE, NULL, &t.p), PASSED);
}
END_TEST

START_TEST(kernel_guid)
{
    t.p.Wnode.Guid = SystemTraceControlGuid;
    expect_all(0, "name", &t.p, ERROR_INVALID_PARAMETER);
    expect_all(0, KERNEL_LOGGER_NAMEA, &t.p, PASSED);
    expect_all(SOME_HANDLE, NULL, &t.p, PASSED);
}
END_TEST

START_TEST(impossible_name)
{
    char name[1026];

    memset(name, 'x', 1025);
    name[1025] = '\0';
    expect_all(0, name, &t.p, ERROR_WMI_INSTANCE_NOT_FOUND);
    name[1024] = '\0';
    expect_all(0, name, &t.p, PASSED);
}
END_TEST

START_TEST(socket_names)
{
    char longer[300];

    memset(longer, 'x', sizeof(longer) - 1);
    longer[0] = '/';
    longer[299] = '\0';
    ck_assert_int_eq(setenv("ETWD_SOCKET", longer, 1), 0);
    ck_assert_uint_eq(QueryTraceA(SOME_HANDLE, NULL, &t.p), ERROR_WMI_SERVER_UNAVAILABLE);
    ck_assert_int_eq(setenv("ETWD_SOCKET", "/dev/null", 1), 0); /* there, and no socket */
    ck_assert_uint_eq(QueryTraceA(SOME_HANDLE, NULL, &t.p), ERROR_WMI_SERVER_UNAVAILABLE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("control-codes");
    TCase *c = tcase_create("codes");

    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, right_parameters_reach_for_the_daemon);
    tcase_add_test(c, pointers_handles_names);
    tcase_add_test(c, control_code);
    tcase_add_test(c, sizes_and_places);
    tcase_add_test(c, members_that_do_not_matter);
    tcase_add_test(c, update_modes);
    tcase_add_test(c, kernel_guid);
    tcase_add_test(c, impossible_name);
    tcase_add_test(c, socket_names);
    suite_add_tcase(s, c);
    return test_main(s);
}
