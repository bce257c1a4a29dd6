/* SPDX-License-Identifier: Apache-2.0
 *
 * ControlTrace and its older forms with a daemon that answers as it is told: what is asked, what is
 * written back, what happens when it does not fit.
 */
#include "lib/test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake-daemon.h"
#include "properties.h"

static struct fake_daemon *d;
static struct test_properties t;

static void setup(void)
{
    d = fake_daemon_start();
    d->session = fake_session("the session", "/tmp/the file.etl");
    properties_init(&t, NULL);
}

static void teardown(void)
{
    d = fake_daemon_stop(d);
}

typedef ULONG (*function_a)(TRACEHANDLE, LPCSTR, PEVENT_TRACE_PROPERTIES);
typedef ULONG (*function_w)(TRACEHANDLE, LPCWSTR, PEVENT_TRACE_PROPERTIES);

static const struct {
    function_a a;
    function_w w;
    ULONG control;
} functions[] = {
    {QueryTraceA, QueryTraceW, EVENT_TRACE_CONTROL_QUERY},
    {StopTraceA, StopTraceW, EVENT_TRACE_CONTROL_STOP},
    {UpdateTraceA, UpdateTraceW, EVENT_TRACE_CONTROL_UPDATE},
    {FlushTraceA, FlushTraceW, EVENT_TRACE_CONTROL_FLUSH},
};

START_TEST(request)
{
    const Etwd__ControlSession *c;

    ck_assert_uint_eq(functions[_i].a(0x10002, NULL, &t.p), ERROR_SUCCESS);
    c = fake_control_request(d);
    ck_assert_uint_eq(c->code, functions[_i].control);
    ck_assert_uint_eq(c->handle, 0x10002);
    ck_assert_str_eq(c->name, "");
    ck_assert(!d->had_file);

    properties_init(&t, NULL);
    ck_assert_uint_eq(functions[_i].w(0x10002, ETW_W("näm€"), &t.p), ERROR_SUCCESS);
    c = fake_control_request(d);
    ck_assert_uint_eq(c->code, functions[_i].control);
    ck_assert_str_eq(c->name, "näm€");
    ck_assert_uint_eq(c->handle, 0); /* the name wins */

    properties_init(&t, NULL);
    ck_assert_uint_eq(ControlTraceA(0, "n", &t.p, functions[_i].control), ERROR_SUCCESS);
    ck_assert_uint_eq(fake_control_request(d)->code, functions[_i].control);
}
END_TEST

START_TEST(later_codes)
{
    ck_assert_uint_eq(ControlTraceA(0, "n", &t.p, EVENT_TRACE_CONTROL_INCREMENT_FILE), 0);
    ck_assert_uint_eq(fake_control_request(d)->code, ETWD__CONTROL_SESSION__CODE__INCREMENT_FILE);
    properties_init(&t, NULL);
    ck_assert_uint_eq(ControlTraceA(0, "n", &t.p, EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME), 0);
    ck_assert_uint_eq(fake_control_request(d)->code,
                      ETWD__CONTROL_SESSION__CODE__CONVERT_TO_REALTIME);
}
END_TEST

START_TEST(results)
{
    memset(t.names, '#', sizeof(t.names));
    if (functions[_i].control == EVENT_TRACE_CONTROL_UPDATE)
        t.names[ROOM] = '\0'; /* no other file */
    ck_assert_uint_eq(functions[_i].a(0, "any", &t.p), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.Wnode.HistoricalContext, 0x0000000300020011);
    ck_assert_uint_eq(t.p.BuffersWritten, 11);
    ck_assert_uint_eq(t.p.EventsLost, 41);
    ck_assert_uint_eq(t.p.LogFileMode, 1);
    ck_assert_str_eq(t.names, "the session");
    ck_assert_str_eq(t.names + ROOM, "/tmp/the file.etl");
}
END_TEST

START_TEST(results_wide)
{
    static const WCHAR name[] = ETW_W("sch\u00f6n \U0001F600");
    static const WCHAR path[] = ETW_W("/a");

    d->session = fake_session("schön \xF0\x9F\x98\x80", "/a");
    ck_assert_uint_eq(QueryTraceW(0, ETW_W("any"), &t.p), ERROR_SUCCESS);
    ck_assert_mem_eq(t.names, name, sizeof(name));
    ck_assert_mem_eq(t.names + ROOM, path, sizeof(path));
}
END_TEST

START_TEST(no_log_file_is_an_empty_name)
{
    d->session = fake_session("s", NULL);
    memset(t.names, '#', sizeof(t.names));
    ck_assert_uint_eq(QueryTraceA(0, "s", &t.p), ERROR_SUCCESS);
    ck_assert_str_eq(t.names + ROOM, "");
}
END_TEST

START_TEST(no_places_no_names)
{
    t.p.Wnode.BufferSize = sizeof(EVENT_TRACE_PROPERTIES);
    t.p.LoggerNameOffset = t.p.LogFileNameOffset = 0;
    memset(t.names, '#', sizeof(t.names));
    ck_assert_uint_eq(StopTraceA(0, "s", &t.p), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.BuffersWritten, 11);
    ck_assert_int_eq(t.names[0], '#');
}
END_TEST

/* "the session" has 11 characters. */
START_TEST(name_that_does_not_fit)
{
    size_t start = offsetof(struct test_properties, names);

    for (uint32_t room = 1; room <= 14; room++) {
        properties_init(&t, NULL);
        memset(t.names, '#', sizeof(t.names));
        t.p.LoggerNameOffset = (ULONG) start;
        t.p.LogFileNameOffset = 0;
        t.p.Wnode.BufferSize = (ULONG) start + room;
        ck_assert_uint_eq(StopTraceA(0, "s", &t.p), room >= 12 ? ERROR_SUCCESS : ERROR_MORE_DATA);
        /* Stopped all the same: the daemon was asked, and the numbers are there. */
        ck_assert_uint_eq(fake_control_request(d)->code, ETWD__CONTROL_SESSION__CODE__STOP);
        ck_assert_uint_eq(t.p.BuffersWritten, 11);
        ck_assert_uint_eq(strlen(t.names), room >= 12 ? 11 : room - 1);
        ck_assert_int_eq(strncmp(t.names, "the session", strlen(t.names)), 0);
        ck_assert_int_eq(t.names[room < 12 ? room : 12], '#'); /* nothing beyond */
    }
    for (uint32_t room = 1; room <= 26; room++) {
        properties_init(&t, NULL);
        memset(t.names, '#', sizeof(t.names));
        t.p.LoggerNameOffset = (ULONG) start;
        t.p.LogFileNameOffset = 0;
        t.p.Wnode.BufferSize = (ULONG) start + room;
        ck_assert_uint_eq(StopTraceW(0, ETW_W("s"), &t.p),
                          room >= 24 ? ERROR_SUCCESS : ERROR_MORE_DATA);
        for (size_t i = room < 24 ? room : 24; i < 30; i++)
            ck_assert_int_eq(t.names[i], '#');
        if (room >= 2) /* ends inside */
            ck_assert_ptr_nonnull(memmem(t.names, room, "\0\0", 2));
    }
}
END_TEST

START_TEST(names_are_cut_between_characters)
{
    size_t start = offsetof(struct test_properties, names);

    d->session = fake_session("\xE2\x82\xAC\xE2\x82\xAC", NULL); /* two euro signs */
    for (uint32_t room = 1; room <= 7; room++) {
        properties_init(&t, NULL);
        t.p.LogFileNameOffset = 0;
        t.p.Wnode.BufferSize = (ULONG) start + room;
        ck_assert_uint_eq(QueryTraceA(0, "s", &t.p), room == 7 ? ERROR_SUCCESS : ERROR_MORE_DATA);
        ck_assert_uint_eq(strlen(t.names), room == 7 ? 6 : room >= 4 ? 3 : 0);
    }
}
END_TEST

START_TEST(file_name_that_does_not_fit)
{
    t.p.LogFileNameOffset = t.p.LoggerNameOffset + 32;
    t.p.Wnode.BufferSize = t.p.LogFileNameOffset + 6;
    ck_assert_uint_eq(FlushTraceA(0, "s", &t.p), ERROR_MORE_DATA);
    ck_assert_str_eq(t.names, "the session");
    ck_assert_str_eq(t.names + 32, "/tmp/");
    /* The file's place before the session's: it ends where the other begins. */
    properties_init(&t, NULL);
    t.p.LogFileNameOffset = offsetof(struct test_properties, names);
    t.p.LoggerNameOffset = t.p.LogFileNameOffset + 10;
    ck_assert_uint_eq(QueryTraceA(0, "s", &t.p), ERROR_MORE_DATA);
    ck_assert_str_eq(t.names, "/tmp/the ");
    ck_assert_str_eq(t.names + 10, "the session");
}
END_TEST

START_TEST(hostile_names_in_the_answer)
{
    char longest[8000];

    memset(longest, 'y', sizeof(longest));
    longest[7999] = '\0';
    d->session = fake_session(longest, longest);
    ck_assert_uint_eq(QueryTraceA(0, "s", &t.p), ERROR_MORE_DATA);
    ck_assert_uint_eq(strlen(t.names), ROOM - 1);
    ck_assert_uint_eq(strlen(t.names + ROOM), ROOM - 1);
    ck_assert_uint_eq(QueryTraceW(0, ETW_W("s"), &t.p), ERROR_MORE_DATA);
    d->session->properties = NULL;
    ck_assert_uint_eq(QueryTraceA(0, "s", &t.p), ERROR_SUCCESS);
    ck_assert_str_eq(t.names, "");
}
END_TEST

static const ULONG refusals[] = {ERROR_WMI_INSTANCE_NOT_FOUND, ERROR_ACCESS_DENIED,
                                 ERROR_ACTIVE_CONNECTIONS, ERROR_NOT_SUPPORTED};

START_TEST(refusal)
{
    struct test_properties before = t;

    d->reply_status = refusals[_i];
    for (unsigned f = 0; f < 4; f++) {
        ck_assert_uint_eq(functions[f].a(0, "s", &t.p), refusals[_i]);
        ck_assert_uint_eq(GetLastError(), refusals[_i]);
        ck_assert_mem_eq(&t, &before, sizeof(t));
    }
}
END_TEST

START_TEST(update_request)
{
    const Etwd__SessionProperties *p;

    t.p.EnableFlags = 0x33;
    t.p.FlushTimer = 4;
    t.p.MaximumBuffers = 90;
    t.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
    ck_assert_uint_eq(UpdateTraceA(0, "s", &t.p), ERROR_SUCCESS);
    p = fake_control_request(d)->properties;
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(p->enable_flags, 0x33);
    ck_assert_uint_eq(p->flush_timer_s, 4);
    ck_assert_uint_eq(p->maximum_buffers, 90);
    ck_assert_uint_eq(p->log_file_mode, EVENT_TRACE_REAL_TIME_MODE);
    ck_assert_str_eq(p->log_file, "");
    /* The others say nothing of the structure. */
    ck_assert_uint_eq(QueryTraceA(0, "s", &t.p), ERROR_SUCCESS);
    ck_assert_ptr_null(fake_control_request(d)->properties);
}
END_TEST

START_TEST(update_with_a_file)
{
    char *file = test_path("next.etl");

    strcpy(t.names + ROOM, file);
    ck_assert_uint_eq(UpdateTraceA(0, "s", &t.p), ERROR_SUCCESS);
    ck_assert_str_eq(fake_control_request(d)->properties->log_file, file);
    ck_assert(d->had_file && d->file_regular);
    ck_assert_int_eq(access(file, F_OK), 0);
    ck_assert_int_eq(unlink(file), 0);

    properties_init(&t, file);
    d->reply_status = ERROR_NOT_SUPPORTED;
    ck_assert_uint_eq(UpdateTraceA(0, "s", &t.p), ERROR_NOT_SUPPORTED);
    ck_assert_int_ne(access(file, F_OK), 0);

    properties_init(&t, "/nonexistent/next.etl");
    ck_assert_uint_eq(UpdateTraceA(0, "s", &t.p), ERROR_PATH_NOT_FOUND);
    free(file);
}
END_TEST

START_TEST(kernel_logger_by_name)
{
    t.p.Wnode.Guid = SystemTraceControlGuid;
    ck_assert_uint_eq(StopTrace(0, KERNEL_LOGGER_NAME, &t.p), ERROR_SUCCESS);
    ck_assert_str_eq(fake_control_request(d)->name, "NT Kernel Logger");
}
END_TEST

START_TEST(daemon_that_goes_away)
{
    d->behaviour = FAKE_CLOSE_REQUEST;
    ck_assert_uint_eq(StopTraceA(0, "s", &t.p), ERROR_WMI_SERVER_UNAVAILABLE);
    d->behaviour = FAKE_GARBAGE;
    ck_assert_uint_eq(StopTraceA(0, "s", &t.p), ERROR_WMI_SERVER_UNAVAILABLE);
    d->behaviour = FAKE_NO_BODY;
    ck_assert_uint_eq(StopTraceA(0, "s", &t.p), ERROR_GEN_FAILURE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("control");
    TCase *c = tcase_create("control");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, request, 0, 4);
    tcase_add_test(c, later_codes);
    tcase_add_loop_test(c, results, 0, 4);
    tcase_add_test(c, results_wide);
    tcase_add_test(c, no_log_file_is_an_empty_name);
    tcase_add_test(c, no_places_no_names);
    tcase_add_test(c, name_that_does_not_fit);
    tcase_add_test(c, names_are_cut_between_characters);
    tcase_add_test(c, file_name_that_does_not_fit);
    tcase_add_test(c, hostile_names_in_the_answer);
    tcase_add_loop_test(c, refusal, 0, 4);
    tcase_add_test(c, update_request);
    tcase_add_test(c, update_with_a_file);
    tcase_add_test(c, kernel_logger_by_name);
    tcase_add_test(c, daemon_that_goes_away);
    suite_add_tcase(s, c);
    return test_main(s);
}
