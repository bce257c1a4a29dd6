/* SPDX-License-Identifier: Apache-2.0
 *
 * StartTrace and StartKernelTrace with a daemon that answers as it is told: what is asked, what is
 * written back, what a failure leaves.
 */
#include "lib/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake-daemon.h"
#include "properties.h"

static struct fake_daemon *d;
static struct test_properties t;
static TRACEHANDLE handle;
static char *file;

static void setup(void)
{
    d = fake_daemon_start();
    file = test_path("trace.etl");
    properties_init(&t, file);
    handle = 0;
}

static void teardown(void)
{
    d = fake_daemon_stop(d);
    (void) unlink(file);
    free(file);
}

START_TEST(request_has_what_the_caller_said)
{
    const Etwd__StartSession *s;

    t.p.Wnode.Guid = ThreadGuid;
    t.p.Wnode.ClientContext = 2;
    t.p.BufferSize = 128;
    t.p.MinimumBuffers = 7;
    t.p.MaximumBuffers = 70;
    t.p.MaximumFileSize = 700;
    t.p.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL | EVENT_TRACE_USE_LOCAL_SEQUENCE;
    t.p.FlushTimer = 5;
    t.p.EnableFlags = 0x10;
    ck_assert_uint_eq(StartTraceA(&handle, "näme", &t.p), ERROR_SUCCESS);
    s = fake_start_request(d);
    ck_assert_str_eq(s->properties->name, "näme");
    ck_assert_str_eq(s->properties->log_file, file);
    ck_assert_uint_eq(s->properties->guid.len, 16);
    ck_assert_mem_eq(s->properties->guid.data, &ThreadGuid, 16);
    ck_assert_uint_eq(s->properties->clock, 2);
    ck_assert_uint_eq(s->properties->buffer_size_kb, 128);
    ck_assert_uint_eq(s->properties->minimum_buffers, 7);
    ck_assert_uint_eq(s->properties->maximum_buffers, 70);
    ck_assert_uint_eq(s->properties->maximum_file_size, 700);
    ck_assert_uint_eq(s->properties->log_file_mode,
                      EVENT_TRACE_FILE_MODE_SEQUENTIAL | EVENT_TRACE_USE_LOCAL_SEQUENCE);
    ck_assert_uint_eq(s->properties->flush_timer_s, 5);
    ck_assert_uint_eq(s->properties->enable_flags, 0x10);
    ck_assert_uint_eq(s->properties->flush_threshold, 0);
    ck_assert_uint_eq(s->properties->v2_options, 0);
    ck_assert(!s->kernel && !s->bound && s->created_file);
    ck_assert_uint_eq(s->n_stacks, 0);
    ck_assert(d->had_file);
}
END_TEST

START_TEST(version_2_members_are_sent)
{
    struct {
        EVENT_TRACE_PROPERTIES_V2 p;
        char names[2 * ROOM];
    } v;
    const Etwd__StartSession *s;

    memset(&v, 0, sizeof(v));
    v.p.Wnode.BufferSize = sizeof(v);
    v.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID | WNODE_FLAG_VERSIONED_PROPERTIES;
    v.p.VersionNumber = 2;
    v.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
    v.p.LoggerNameOffset = sizeof(v.p);
    v.p.FlushThreshold = 12;
    v.p.QpcDeltaTracking = 1;
    ck_assert_uint_eq(StartTraceA(&handle, "v2", (PEVENT_TRACE_PROPERTIES) &v), ERROR_SUCCESS);
    s = fake_start_request(d);
    ck_assert_uint_eq(s->properties->flush_threshold, 12);
    ck_assert_uint_eq(s->properties->v2_options, 2);
    ck_assert(!d->had_file);
    ck_assert_int_eq(v.p.FlushThreshold, 5); /* as the daemon adjusted it */
    ck_assert_uint_eq(v.p.V2Options, 6);
}
END_TEST

static void check_written_back(const EVENT_TRACE_PROPERTIES *p)
{
    ck_assert_uint_eq(p->Wnode.HistoricalContext, 0x0000000300020011);
    ck_assert_mem_eq(&p->Wnode.Guid, "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20", 16);
    ck_assert_uint_eq(p->Wnode.ClientContext, 1);
    ck_assert_uint_eq(p->BufferSize, 64);
    ck_assert_uint_eq(p->MinimumBuffers, 4);
    ck_assert_uint_eq(p->MaximumBuffers, 24);
    ck_assert_uint_eq(p->MaximumFileSize, 77);
    ck_assert_uint_eq(p->LogFileMode, 1);
    ck_assert_uint_eq(p->FlushTimer, 9);
    ck_assert_uint_eq(p->EnableFlags, 3);
    ck_assert_uint_eq(p->NumberOfBuffers, 6);
    ck_assert_uint_eq(p->FreeBuffers, 2);
    ck_assert_uint_eq(p->EventsLost, 20 + 21);
    ck_assert_uint_eq(p->BuffersWritten, 11);
    ck_assert_uint_eq(p->LogBuffersLost, 12);
    ck_assert_uint_eq(p->RealTimeBuffersLost, 13);
    ck_assert_uint_eq((uintptr_t) p->LoggerThreadId, 4321);
}

START_TEST(results_are_written_back)
{
    t.p.AgeLimit = 99;
    memset(t.names, '#', ROOM);
    ck_assert_uint_eq(StartTraceA(&handle, "Name", &t.p), ERROR_SUCCESS);
    ck_assert_uint_eq(handle, 0x0000000300020011);
    check_written_back(&t.p);
    ck_assert_int_eq(t.p.AgeLimit, 99);
    ck_assert_uint_eq(t.p.Wnode.BufferSize, sizeof(t));
    ck_assert_str_eq(t.names, "Name");
    ck_assert_int_eq(t.names[5], '#'); /* no byte more than the name */
    ck_assert_str_eq(t.names + ROOM, file);
}
END_TEST

START_TEST(results_are_written_back_wide)
{
    /* An odd place: names need no alignment. */
    static const WCHAR name[] = ETW_W("N\u00e4me\u20ac");
    WCHAR path[300], back[8];

    wide(path, file);
    t.p.LoggerNameOffset++;
    t.p.LogFileNameOffset++;
    memcpy((char *) &t + t.p.LogFileNameOffset, path, (strlen(file) + 1) * 2);
    ck_assert_uint_eq(StartTraceW(&handle, name, &t.p), ERROR_SUCCESS);
    check_written_back(&t.p);
    memcpy(back, (char *) &t + t.p.LoggerNameOffset, sizeof(name));
    ck_assert_mem_eq(back, name, sizeof(name));
    ck_assert_str_eq(fake_start_request(d)->properties->name, "Näme€");
    ck_assert_str_eq(fake_start_request(d)->properties->log_file, file);
}
END_TEST

START_TEST(kernel_request)
{
    STACK_TRACING_EVENT_ID stacks[3];
    const Etwd__StartSession *s;

    memset(stacks, 0, sizeof(stacks));
    for (unsigned i = 0; i < 3; i++) {
        stacks[i].EventGuid = ThreadGuid;
        stacks[i].Type = (UCHAR) (36 + i);
    }
    properties_init_kernel(&t, file);
    ck_assert_uint_eq(StartKernelTrace(&handle, &t.p, stacks, 3), ERROR_SUCCESS);
    ck_assert_uint_eq(handle, 0x0000000300020011);
    ck_assert_str_eq(t.names, KERNEL_LOGGER_NAMEA);
    s = fake_start_request(d);
    ck_assert(s->kernel);
    ck_assert_str_eq(s->properties->name, KERNEL_LOGGER_NAMEA);
    ck_assert_mem_eq(s->properties->guid.data, &SystemTraceControlGuid, 16);
    ck_assert_uint_eq(s->n_stacks, 3);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(s->stacks[i]->guid.len, 16);
        ck_assert_mem_eq(s->stacks[i]->guid.data, &ThreadGuid, 16);
        ck_assert_uint_eq(s->stacks[i]->type, 36 + i);
    }
}
END_TEST

START_TEST(kernel_request_wide_and_full)
{
    static const WCHAR expected[] = KERNEL_LOGGER_NAMEW;
    STACK_TRACING_EVENT_ID stacks[256];
    WCHAR path[300];

    memset(stacks, 0xFF, sizeof(stacks));
    properties_init_kernel(&t, NULL);
    wide(path, file);
    memcpy(t.names + ROOM, path, (strlen(file) + 1) * 2);
    ck_assert_uint_eq(StartKernelTraceW(&handle, &t.p, stacks, 256), ERROR_SUCCESS);
    ck_assert_mem_eq(t.names, expected, sizeof(expected));
    ck_assert_uint_eq(fake_start_request(d)->n_stacks, 256);
    ck_assert_str_eq(fake_start_request(d)->properties->log_file, file);
}
END_TEST

START_TEST(kernel_by_name_gets_the_guid)
{
    t.p.Wnode.Guid = ThreadGuid;
    ck_assert_uint_eq(StartTraceA(&handle, "NT kernel LOGGER", &t.p), ERROR_SUCCESS);
    ck_assert_mem_eq(fake_start_request(d)->properties->guid.data, &SystemTraceControlGuid, 16);
    ck_assert(!fake_start_request(d)->kernel);
}
END_TEST

static const ULONG refusals[] = {ERROR_ALREADY_EXISTS,      ERROR_ACCESS_DENIED,
                                 ERROR_NO_SYSTEM_RESOURCES, ERROR_BAD_PATHNAME,
                                 ERROR_NOT_SUPPORTED,       ERROR_DISK_FULL};

START_TEST(refusal_leaves_nothing)
{
    struct test_properties before;

    properties_init_kernel(&t, file);
    before = t;
    d->reply_status = refusals[_i];
    handle = 77;
    ck_assert_uint_eq(StartKernelTrace(&handle, &t.p, NULL, 0), refusals[_i]);
    ck_assert_uint_eq(handle, 0);
    ck_assert_uint_eq(GetLastError(), refusals[_i]);
    ck_assert_mem_eq(&t, &before, sizeof(t));
    ck_assert(d->had_file);
    ck_assert_int_ne(access(file, F_OK), 0);
}
END_TEST

START_TEST(refusal_leaves_an_old_file)
{
    struct stat st;
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    char *content;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "precious", 8), 8);
    ck_assert_int_eq(close(fd), 0);
    d->reply_status = ERROR_ALREADY_EXISTS;
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_ALREADY_EXISTS);
    ck_assert(!fake_start_request(d)->created_file);
    content = test_read_file(file, NULL);
    ck_assert_str_eq(content, "precious");
    free(content);
    /* Nor is it truncated here on success: that is the daemon's. */
    d->reply_status = 0;
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_SUCCESS);
    ck_assert_int_eq(stat(file, &st), 0);
    ck_assert_int_eq(st.st_size, 8);
}
END_TEST

START_TEST(refused_hello)
{
    d->behaviour = FAKE_REFUSE_HELLO;
    d->reply_status = ERROR_REVISION_MISMATCH;
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_REVISION_MISMATCH);
    ck_assert_int_ne(access(file, F_OK), 0);
}
END_TEST

START_TEST(daemon_that_goes_away)
{
    d->behaviour = FAKE_CLOSE_HELLO;
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_WMI_SERVER_UNAVAILABLE);
    ck_assert_int_ne(access(file, F_OK), 0);
    d->behaviour = FAKE_CLOSE_REQUEST;
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_WMI_SERVER_UNAVAILABLE);
    ck_assert_uint_eq(handle, 0);
    ck_assert_int_ne(access(file, F_OK), 0);
    /* What it wrote is kept: the session may have begun. */
    d->behaviour = FAKE_WRITE_CLOSE;
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_WMI_SERVER_UNAVAILABLE);
    ck_assert_int_eq(access(file, F_OK), 0);
}
END_TEST

START_TEST(answers_that_are_none)
{
    d->behaviour = FAKE_GARBAGE;
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_WMI_SERVER_UNAVAILABLE);
    ck_assert_uint_eq(handle, 0);
    d->behaviour = FAKE_NO_BODY;
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_GEN_FAILURE);
    ck_assert_uint_eq(handle, 0);
    /* Notifications and other replies are skipped. */
    d->behaviour = FAKE_OTHER_FIRST;
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_SUCCESS);
    ck_assert_uint_ne(handle, 0);
}
END_TEST

START_TEST(counters_saturate)
{
    d->session->lost[0]->events = UINT64_MAX;
    d->session->lost[1]->events = 5;
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.EventsLost, UINT32_MAX);
    d->session->lost[0]->events = 1ull << 32;
    ck_assert_uint_eq(StartTraceA(&handle, "y", &t.p), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.EventsLost, UINT32_MAX);
}
END_TEST

START_TEST(hostile_session_in_the_answer)
{
    /* A GUID of another size, and no properties at all. */
    d->session->properties->guid.len = 3;
    memset(&t.p.Wnode.Guid, 0x7E, 16);
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_SUCCESS);
    ck_assert_mem_eq(&t.p.Wnode.Guid, "~~~~~~~~~~~~~~~~", 16);
    d->session->properties = NULL;
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_SUCCESS);
    ck_assert_uint_eq(handle, 0x0000000300020011);
}
END_TEST

START_TEST(time_zone_is_told)
{
    ck_assert_int_eq(setenv("TZ", "XYZ-05:30", 1), 0); /* east of Greenwich */
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_SUCCESS);
    ck_assert_int_eq(fake_start_request(d)->properties->bias_minutes, -330);
    ck_assert_int_eq(setenv("TZ", "XYZ8", 1), 0);
    ck_assert_uint_eq(StartTraceA(&handle, "x", &t.p), ERROR_SUCCESS);
    ck_assert_int_eq(fake_start_request(d)->properties->bias_minutes, 480);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("start");
    TCase *c = tcase_create("start");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, request_has_what_the_caller_said);
    tcase_add_test(c, version_2_members_are_sent);
    tcase_add_test(c, results_are_written_back);
    tcase_add_test(c, results_are_written_back_wide);
    tcase_add_test(c, kernel_request);
    tcase_add_test(c, kernel_request_wide_and_full);
    tcase_add_test(c, kernel_by_name_gets_the_guid);
    tcase_add_loop_test(c, refusal_leaves_nothing, 0, sizeof(refusals) / sizeof(refusals[0]));
    tcase_add_test(c, refusal_leaves_an_old_file);
    tcase_add_test(c, refused_hello);
    tcase_add_test(c, daemon_that_goes_away);
    tcase_add_test(c, answers_that_are_none);
    tcase_add_test(c, counters_saturate);
    tcase_add_test(c, hostile_session_in_the_answer);
    tcase_add_test(c, time_zone_is_told);
    suite_add_tcase(s, c);
    return test_main(s);
}
