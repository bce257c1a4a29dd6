/* SPDX-License-Identifier: Apache-2.0
 *
 * EnableTrace, EnableTraceEx, EnableTraceEx2: what they say before any daemon is asked, and what
 * they send to one.
 */
#include "lib/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <evntcons.h>
#include <evntrace.h>

#include "fake-daemon.h"

#define PASSED ERROR_WMI_SERVER_UNAVAILABLE
#define SOME_HANDLE 0x10002ull

static const GUID provider = {
    0x11223344, 0x5566, 0x7788, {0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00}};
static const GUID source = {1, 2, 3, {4, 5, 6, 7, 8, 9, 10, 11}};

static void no_daemon(void)
{
    ck_assert_int_eq(setenv("ETWD_SOCKET", "/nonexistent/etwd.sock", 1), 0);
}

static ULONG enable2(TRACEHANDLE h, LPCGUID g, ULONG code, ENABLE_TRACE_PARAMETERS *p)
{
    SetLastError(0);
    ULONG r = EnableTraceEx2(h, g, code, 5, 1, 2, 0, p);
    ck_assert_uint_eq(GetLastError(), r);
    return r;
}

START_TEST(handles_guids_codes)
{
    static const GUID none;

    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, NULL), PASSED);
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 0, NULL), PASSED);
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 2, NULL), PASSED);
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 3, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(enable2(0, &provider, 1, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(enable2(INVALID_PROCESSTRACE_HANDLE, &provider, 1, NULL),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(enable2(SOME_HANDLE, NULL, 1, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(enable2(SOME_HANDLE, &none, 1, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EnableTraceEx(&provider, &source, SOME_HANDLE, 1, 5, 0, 0, 0, NULL), PASSED);
    ck_assert_uint_eq(EnableTraceEx(&provider, NULL, SOME_HANDLE, 0, 5, 0, 0, 0, NULL), PASSED);
    ck_assert_uint_eq(EnableTraceEx(NULL, NULL, SOME_HANDLE, 1, 5, 0, 0, 0, NULL),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EnableTraceEx(&provider, NULL, 0, 1, 5, 0, 0, 0, NULL),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EnableTraceEx(&provider, NULL, SOME_HANDLE, 7, 5, 0, 0, 0, NULL),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EnableTrace(TRUE, 1, 5, &provider, SOME_HANDLE), PASSED);
    ck_assert_uint_eq(EnableTrace(FALSE, 0, 0, &provider, SOME_HANDLE), PASSED);
    ck_assert_uint_eq(EnableTrace(TRUE, 1, 256, &provider, SOME_HANDLE), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EnableTrace(TRUE, 1, 5, NULL, SOME_HANDLE), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EnableTrace(TRUE, 1, 5, &provider, 0), ERROR_INVALID_PARAMETER);
}
END_TEST

START_TEST(parameters)
{
    ENABLE_TRACE_PARAMETERS p = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2};
    EVENT_FILTER_DESCRIPTOR none = {0};

    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), PASSED);
    p.Version = 0;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), ERROR_INVALID_PARAMETER);
    p.Version = 3;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), ERROR_INVALID_PARAMETER);
    /* Version 1 ends before FilterDescCount. */
    p.Version = ENABLE_TRACE_PARAMETERS_VERSION;
    p.FilterDescCount = 77;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), PASSED);
    p.EnableFilterDesc = &none;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), PASSED);
    p.Version = ENABLE_TRACE_PARAMETERS_VERSION_2;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), ERROR_INVALID_PARAMETER);
    p.FilterDescCount = 1;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), PASSED);
    p.EnableFilterDesc = NULL;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), ERROR_INVALID_PARAMETER);
    p.FilterDescCount = 0;
    p.EnableProperty = 0xFFF;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), PASSED); /* etwd knows which it has */
    p.EnableProperty = 0x1000;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), ERROR_INVALID_PARAMETER);
}
END_TEST

struct filter_case {
    const char *what;
    ULONG type, size, code;
};

static uint8_t filter_data[8192];

static const struct filter_case filter_cases[] = {
    {"none", EVENT_FILTER_TYPE_NONE, 0, PASSED},
    {"schematized, smallest", EVENT_FILTER_TYPE_SCHEMATIZED, 24, PASSED},
    {"schematized, largest", EVENT_FILTER_TYPE_SCHEMATIZED, 1024, PASSED},
    {"schematized, too small", EVENT_FILTER_TYPE_SCHEMATIZED, 23, ERROR_INVALID_PARAMETER},
    {"schematized, too large", EVENT_FILTER_TYPE_SCHEMATIZED, 1025, ERROR_INVALID_PARAMETER},
    {"no pid", EVENT_FILTER_TYPE_PID, 0, PASSED},
    {"pids of nobody", EVENT_FILTER_TYPE_PID, 32, PASSED},
    {"nine pids", EVENT_FILTER_TYPE_PID, 36, ERROR_INVALID_PARAMETER},
    {"half a pid", EVENT_FILTER_TYPE_PID, 6, ERROR_INVALID_PARAMETER},
    {"a program", EVENT_FILTER_TYPE_EXECUTABLE_NAME, 8, PASSED},
    {"half a character", EVENT_FILTER_TYPE_EXECUTABLE_NAME, 7, ERROR_INVALID_PARAMETER},
    {"no program", EVENT_FILTER_TYPE_EXECUTABLE_NAME, 0, ERROR_INVALID_PARAMETER},
    {"long programs", EVENT_FILTER_TYPE_EXECUTABLE_NAME, 1026, ERROR_INVALID_PARAMETER},
    {"event ids", EVENT_FILTER_TYPE_EVENT_ID, 6, PASSED}, /* Count 0 */
    {"event ids, cut", EVENT_FILTER_TYPE_EVENT_ID, 3, ERROR_INVALID_PARAMETER},
    {"payload", EVENT_FILTER_TYPE_PAYLOAD, 4096, ERROR_NOT_SUPPORTED},
    {"large payload", EVENT_FILTER_TYPE_PAYLOAD, 4097, ERROR_INVALID_PARAMETER},
    {"event name", EVENT_FILTER_TYPE_EVENT_NAME, 32, ERROR_NOT_SUPPORTED},
    {"stack walk", EVENT_FILTER_TYPE_STACKWALK, 6, ERROR_NOT_SUPPORTED},
    {"package", EVENT_FILTER_TYPE_PACKAGE_ID, 8, ERROR_NOT_SUPPORTED},
    {"container", EVENT_FILTER_TYPE_CONTAINER, 8, ERROR_NOT_SUPPORTED},
    {"trace handle", EVENT_FILTER_TYPE_TRACEHANDLE, 8, ERROR_NOT_SUPPORTED},
    {"unknown", 0x80010000, 8, ERROR_INVALID_PARAMETER},
    {"unknown", 5, 8, ERROR_INVALID_PARAMETER},
};

START_TEST(filter_sizes)
{
    const struct filter_case *c = &filter_cases[_i];
    EVENT_FILTER_DESCRIPTOR d = {
        .Ptr = (ULONGLONG) (uintptr_t) filter_data, .Size = c->size, .Type = c->type};
    ENABLE_TRACE_PARAMETERS p = {
        .Version = ENABLE_TRACE_PARAMETERS_VERSION_2, .EnableFilterDesc = &d, .FilterDescCount = 1};

    memset(filter_data, 0, sizeof(filter_data));
    ck_assert_msg(enable2(SOME_HANDLE, &provider, 1, &p) == c->code, "%s", c->what);
    ck_assert_uint_eq(EnableTraceEx(&provider, NULL, SOME_HANDLE, 1, 5, 0, 0, 0, &d), c->code);
    if (c->size > 0 && c->code == PASSED) {
        d.Ptr = 0;
        ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), ERROR_INVALID_PARAMETER);
    }
}
END_TEST

START_TEST(filter_lists)
{
    EVENT_FILTER_EVENT_ID *ids = (EVENT_FILTER_EVENT_ID *) filter_data;
    EVENT_FILTER_DESCRIPTOR d[14] = {
        {.Ptr = (ULONGLONG) (uintptr_t) filter_data,
         .Size = 4 + 2 * 64,
         .Type = EVENT_FILTER_TYPE_EVENT_ID},
    };
    ENABLE_TRACE_PARAMETERS p = {
        .Version = ENABLE_TRACE_PARAMETERS_VERSION_2, .EnableFilterDesc = d, .FilterDescCount = 1};

    memset(filter_data, 0, sizeof(filter_data));
    ids->Count = 64;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), PASSED);
    ids->Count = 65; /* more than fit, and more than there may be */
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), ERROR_INVALID_PARAMETER);
    d[0].Size = 4 + 2 * 65;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), ERROR_INVALID_PARAMETER);
    ids->Count = 1;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), PASSED);
    /* 13 of them, the others of type NONE; 14; one type twice */
    p.FilterDescCount = 13;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), PASSED);
    p.FilterDescCount = 14;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), ERROR_INVALID_PARAMETER);
    p.FilterDescCount = 2;
    d[1] = d[0];
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), ERROR_INVALID_PARAMETER);
    d[0].Type = d[1].Type = EVENT_FILTER_TYPE_PID;
    d[0].Size = d[1].Size = 4;
    ck_assert_uint_eq(enable2(SOME_HANDLE, &provider, 1, &p), ERROR_INVALID_PARAMETER);
}
END_TEST

/* ---- what is sent ---- */

static struct fake_daemon *d;

static void setup_fake(void)
{
    d = fake_daemon_start();
    d->behaviour = FAKE_ANSWER;
    d->session = fake_session("s", NULL);
}

static void teardown_fake(void)
{
    d = fake_daemon_stop(d);
}

static const Etwd__EnableProvider *sent(void)
{
    ck_assert_ptr_nonnull(d->request);
    ck_assert_int_eq((int) d->request->body_case, (int) ETWD__MESSAGE__BODY_ENABLE_PROVIDER);
    return d->request->enable_provider;
}

START_TEST(message)
{
    uint8_t schema[24] = {7};
    ULONG pids[] = {(ULONG) getpid(), 0, 0x7FFFFFFF};
    EVENT_FILTER_DESCRIPTOR f[] = {
        {.Ptr = (ULONGLONG) (uintptr_t) schema,
         .Size = sizeof(schema),
         .Type = EVENT_FILTER_TYPE_SCHEMATIZED},
        {.Ptr = (ULONGLONG) (uintptr_t) pids, .Size = sizeof(pids), .Type = EVENT_FILTER_TYPE_PID},
    };
    ENABLE_TRACE_PARAMETERS p = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2,
                                 .EnableProperty = EVENT_ENABLE_PROPERTY_SID,
                                 .SourceId = source,
                                 .EnableFilterDesc = f,
                                 .FilterDescCount = 2};

    d->reply_status = ERROR_TIMEOUT;
    ck_assert_uint_eq(EnableTraceEx2(SOME_HANDLE, &provider, 1, 4, 0x8000000000000001, 3, 2500, &p),
                      ERROR_TIMEOUT);
    const Etwd__EnableProvider *m = sent();
    ck_assert_uint_eq(m->handle, SOME_HANDLE);
    ck_assert_uint_eq(m->guid.len, 16);
    ck_assert_mem_eq(m->guid.data, &provider, 16);
    ck_assert_uint_eq(m->control_code, 1);
    ck_assert_uint_eq(m->level, 4);
    ck_assert_uint_eq(m->any, 0x8000000000000001);
    ck_assert_uint_eq(m->all, 3);
    ck_assert_uint_eq(m->timeout_ms, 2500);
    ck_assert_uint_eq(m->properties, EVENT_ENABLE_PROPERTY_SID);
    ck_assert_mem_eq(m->source_id.data, &source, 16);
    ck_assert_uint_eq(m->n_filters, 1);
    ck_assert_uint_eq(m->filters[0]->type, EVENT_FILTER_TYPE_SCHEMATIZED);
    ck_assert_mem_eq(m->filters[0]->data.data, schema, sizeof(schema));
    ck_assert(m->pid_filter);
    ck_assert(d->had_file); /* one pidfd: the others name nobody */

    d->reply_status = ERROR_SUCCESS;
    ck_assert_uint_eq(EnableTraceEx(&provider, &source, SOME_HANDLE, 0, 3, 5, 6, 0x10, NULL),
                      ERROR_SUCCESS);
    m = sent();
    ck_assert_uint_eq(m->control_code, 0);
    ck_assert_uint_eq(m->level, 3);
    ck_assert_uint_eq(m->any, 5);
    ck_assert_uint_eq(m->all, 6);
    ck_assert_uint_eq(m->properties, 0x10);
    ck_assert_uint_eq(m->timeout_ms, 0);
    ck_assert(!m->pid_filter);

    ck_assert_uint_eq(EnableTrace(7, 0xF0, 2, &provider, SOME_HANDLE), ERROR_SUCCESS);
    m = sent();
    ck_assert_uint_eq(m->control_code, 1);
    ck_assert_uint_eq(m->any, 0xF0);
    ck_assert_uint_eq(m->all, 0);
    ck_assert_uint_eq(m->level, 2);
}
END_TEST

/* A filter of processes none of which is there still is one. */
START_TEST(nobody)
{
    ULONG pids[] = {0x7FFFFFFE};
    EVENT_FILTER_DESCRIPTOR f = {
        .Ptr = (ULONGLONG) (uintptr_t) pids, .Size = sizeof(pids), .Type = EVENT_FILTER_TYPE_PID};

    ck_assert_uint_eq(EnableTraceEx(&provider, NULL, SOME_HANDLE, 1, 3, 0, 0, 0, &f),
                      ERROR_SUCCESS);
    ck_assert(sent()->pid_filter);
    ck_assert(!d->had_file);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("enable");
    TCase *c = tcase_create("codes"), *m = tcase_create("messages");

    tcase_add_checked_fixture(c, no_daemon, NULL);
    tcase_add_test(c, handles_guids_codes);
    tcase_add_test(c, parameters);
    tcase_add_loop_test(c, filter_sizes, 0, (int) (sizeof(filter_cases) / sizeof(filter_cases[0])));
    tcase_add_test(c, filter_lists);
    suite_add_tcase(s, c);
    tcase_add_checked_fixture(m, setup_fake, teardown_fake);
    tcase_add_test(m, message);
    tcase_add_test(m, nobody);
    suite_add_tcase(s, m);
    return s;
}

int main(void)
{
    return test_main(suite());
}
