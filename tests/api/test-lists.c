/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of sessions and providers, and what sessions tell and take as information, with a real,
 * private etwd. Codes of wrong calls are in cases.tsv.
 */
#include "lib/test.h"

#include <evntcons.h>
#include <grp.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "properties.h"

#define NOBODY 65534
#define MANY 1000

static struct test_daemon *d;

static void setup_with(const char *option)
{
    d = test_daemon_start("-o", option);
    ck_assert_int_eq(chdir(test_tempdir()), 0);
}

static void setup(void)
{
    setup_with("MaxSessions=64");
}

static void setup_many(void)
{
    setup_with("MaxSessions=1000");
}

static void teardown(void)
{
    test_daemon_alive(d);
    test_daemon_stop(d);
    d = test_daemon_free(d);
}

static ULONG start_session(unsigned i, TRACEHANDLE *h)
{
    static struct test_properties t;
    char name[64], file[64];

    (void) snprintf(name, sizeof(name), "session %u", i);
    (void) snprintf(file, sizeof(file), "s%u.etl", i);
    properties_init(&t, file);
    t.p.BufferSize = 4;
    return StartTraceA(h, name, &t.p);
}

static ULONG stop(TRACEHANDLE h)
{
    static struct test_properties t;
    properties_init(&t, NULL);
    return StopTraceA(h, NULL, &t.p);
}

/* As many as there may be: all are listed, each once, by both forms; one more is refused. */
static void sessions_to_the_limit(unsigned n)
{
    struct test_properties *all = calloc(n, sizeof(*all));
    EVENT_TRACE_PROPERTIES **list = calloc(n + 1, sizeof(*list));
    TRACEHANDLE *handles = calloc(n, sizeof(*handles)), h;
    struct test_output out;
    ULONG count, max = 0, length = 0;

    ck_assert(all && list && handles);
    for (unsigned i = 0; i < n; i++) {
        properties_init(&all[i], NULL);
        list[i] = &all[i].p;
    }
    ck_assert_uint_eq(QueryAllTracesA(list, n, &count), ERROR_SUCCESS);
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(TraceQueryInformation(0, TraceMaxLoggersQuery, &max, sizeof(max), &length),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(max, n);
    ck_assert_uint_eq(length, sizeof(max));
    for (unsigned i = 0; i < n; i++) {
        ck_assert_uint_eq(start_session(i, &handles[i]), ERROR_SUCCESS);
        ck_assert_uint_eq(handles[i] & 0xFFFF, i + 2);
    }
    ck_assert_uint_eq(start_session(n, &h), ERROR_NO_SYSTEM_RESOURCES);
    test_etwctl(&out, "start", "one more", "-o", "more.etl");
    ck_assert_int_ne(out.status, 0);
    ck_assert(strstr(out.err, "MaxSessions=") != NULL);
    ck_assert(strstr(out.err, "uid 0 has") != NULL);
    test_output_done(&out);

    ck_assert_uint_eq(QueryAllTracesA(list, n + 1, &count), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(QueryAllTracesA(list, n, &count), ERROR_SUCCESS);
    ck_assert_uint_eq(count, n);
    for (unsigned i = 0; i < n; i++) {
        char name[64];
        (void) snprintf(name, sizeof(name), "session %u", i);
        ck_assert_str_eq(all[i].names, name);
        ck_assert_uint_eq(all[i].p.Wnode.HistoricalContext, handles[i]);
    }
    /* The first ones, and how many there are. */
    properties_init(&all[2], NULL);
    ck_assert_uint_eq(QueryAllTracesW(list, 2, &count), ERROR_MORE_DATA);
    ck_assert_uint_eq(count, n);
    ck_assert_mem_eq(all[1].names, u"session 1", sizeof(u"session 1"));
    ck_assert_uint_eq(all[2].p.Wnode.HistoricalContext, 0);
    for (unsigned i = 0; i < n; i++)
        ck_assert_uint_eq(stop(handles[i]), ERROR_SUCCESS);
    ck_assert_uint_eq(QueryAllTracesA(list, 1, &count), ERROR_SUCCESS);
    ck_assert_uint_eq(count, 0);
    free(all);
    free(list);
    free(handles);
}

START_TEST(sixty_four_sessions)
{
    test_need_root();
    sessions_to_the_limit(64);
}
END_TEST

START_TEST(a_thousand_sessions)
{
    test_need_root();
    sessions_to_the_limit(MANY);
}
END_TEST

START_TEST(elements_of_every_kind)
{
    static struct test_properties a, b;
    static struct {
        EVENT_TRACE_PROPERTIES_V2 p;
        char names[64];
    } v2;
    EVENT_TRACE_PROPERTIES *list[] = {&a.p, (EVENT_TRACE_PROPERTIES *) &v2};
    TRACEHANDLE first, second;
    ULONG count = 77;

    ck_assert_uint_eq(start_session(1, &first), ERROR_SUCCESS);
    ck_assert_uint_eq(start_session(2, &second), ERROR_SUCCESS);
    properties_init(&a, NULL);
    a.p.Wnode.BufferSize = sizeof(a.p) + 5; /* the name is cut */
    a.p.LogFileNameOffset = 0;
    memset(&v2, 0, sizeof(v2));
    v2.p.Wnode.BufferSize = sizeof(v2);
    v2.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID | WNODE_FLAG_VERSIONED_PROPERTIES;
    v2.p.VersionNumber = 2;
    v2.p.LoggerNameOffset = sizeof(v2.p);
    ck_assert_uint_eq(QueryAllTracesA(list, 2, &count), ERROR_SUCCESS);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(a.names, "sess");
    ck_assert_str_eq(v2.names, "session 2");
    ck_assert_uint_eq(v2.p.Wnode.HistoricalContext, second);

    /* One wrong element, and none is written. */
    properties_init(&a, NULL);
    properties_init(&b, NULL);
    b.p.Wnode.BufferSize = 10;
    list[1] = &b.p;
    count = 77;
    ck_assert_uint_eq(QueryAllTracesA(list, 2, &count), ERROR_BAD_LENGTH);
    ck_assert_uint_eq(a.p.Wnode.HistoricalContext, 0);
    ck_assert_uint_eq(count, 77);
    ck_assert_uint_eq(stop(first), ERROR_SUCCESS);
    ck_assert_uint_eq(stop(second), ERROR_SUCCESS);
}
END_TEST

START_TEST(others_see_only_their_own)
{
    static struct test_properties t;
    EVENT_TRACE_PROPERTIES *list[] = {&t.p};
    TRACEHANDLE h;
    ULONG count;
    int status;

    test_need_root();
    ck_assert_uint_eq(start_session(1, &h), ERROR_SUCCESS);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        ULONG streams;
        properties_init(&t, NULL);
        if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
            _exit(2);
        _exit(QueryAllTracesA(list, 1, &count) == ERROR_SUCCESS && count == 0 &&
                      TraceQueryInformation(h, TraceStreamCount, &streams, sizeof(streams), NULL) ==
                          ERROR_ACCESS_DENIED
                  ? 0
                  : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(stop(h), ERROR_SUCCESS);
}
END_TEST

static const GUID provider_a = {0xA0000001, 1, 2, {3, 4, 5, 6, 7, 8, 9, 10}};
static const GUID provider_b = {0xB0000001, 1, 2, {3, 4, 5, 6, 7, 8, 9, 10}};
static const GUID provider_c = {0xC0000001, 1, 2, {3, 4, 5, 6, 7, 8, 9, 10}};

START_TEST(providers)
{
    TRACE_GUID_PROPERTIES props[8], *list[8];
    struct {
        TRACE_GUID_INFO head;
        TRACE_PROVIDER_INSTANCE_INFO first;
        TRACE_ENABLE_INFO enable;
        TRACE_PROVIDER_INSTANCE_INFO second;
        TRACE_ENABLE_INFO second_enable;
    } info;
    REGHANDLE r[3];
    TRACEHANDLE h;
    GUID guids[8];
    ULONG count, length, pid = (ULONG) getpid();

    for (int i = 0; i < 8; i++)
        list[i] = &props[i];
    ck_assert_uint_eq(EnumerateTraceGuids(NULL, 0, &count), ERROR_SUCCESS);
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(start_session(1, &h), ERROR_SUCCESS);
    ck_assert_uint_eq(EventRegister(&provider_b, NULL, NULL, &r[0]), ERROR_SUCCESS);
    ck_assert_uint_eq(EventRegister(&provider_b, NULL, NULL, &r[1]), ERROR_SUCCESS);
    ck_assert_uint_eq(EventRegister(&provider_a, NULL, NULL, &r[2]), ERROR_SUCCESS);
    ENABLE_TRACE_PARAMETERS p = {.Version = 2, .EnableProperty = EVENT_ENABLE_PROPERTY_SID};
    ck_assert_uint_eq(EnableTraceEx2(h, &provider_b, 1, 4, 0x1200000034, 0x4, INFINITE, &p),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(EnableTraceEx2(h, &provider_c, 1, 2, 1, 0, 0, NULL), ERROR_SUCCESS);

    ck_assert_uint_eq(EnumerateTraceGuids(NULL, 0, &count), ERROR_MORE_DATA);
    ck_assert_uint_eq(count, 3);
    ck_assert_uint_eq(EnumerateTraceGuids(list, 2, &count), ERROR_MORE_DATA);
    ck_assert_uint_eq(EnumerateTraceGuids(list, 8, &count), ERROR_SUCCESS);
    ck_assert_uint_eq(count, 3);
    ck_assert(IsEqualGUID(&props[0].Guid, &provider_a));
    ck_assert_uint_eq(props[0].IsEnable, 0);
    ck_assert(IsEqualGUID(&props[1].Guid, &provider_b));
    ck_assert_uint_eq(props[1].IsEnable, 1);
    ck_assert_uint_eq(props[1].LoggerId, h & 0xFFFF);
    ck_assert_uint_eq(props[1].EnableLevel, 4);
    ck_assert_uint_eq(props[1].EnableFlags, 0x34);
    ck_assert(IsEqualGUID(&props[2].Guid, &provider_c));

    length = 0;
    ck_assert_uint_eq(EnumerateTraceGuidsEx(TraceGuidQueryList, NULL, 0, NULL, 0, &length),
                      ERROR_INSUFFICIENT_BUFFER);
    ck_assert_uint_eq(length, 3 * sizeof(GUID));
    ck_assert_uint_eq(
        EnumerateTraceGuidsEx(TraceGuidQueryList, NULL, 0, guids, sizeof(guids), &length),
        ERROR_SUCCESS);
    ck_assert_uint_eq(length, 3 * sizeof(GUID));
    ck_assert(IsEqualGUID(&guids[2], &provider_c));
    ck_assert_uint_eq(EnumerateTraceGuidsEx(TraceGuidQueryProcess, &pid, sizeof(pid), guids,
                                            sizeof(guids), &length),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(length, 2 * sizeof(GUID));
    ck_assert(IsEqualGUID(&guids[1], &provider_b));

    ck_assert_uint_eq(EnumerateTraceGuidsEx(TraceGuidQueryInfo, (PVOID) (uintptr_t) &provider_b,
                                            sizeof(GUID), &info, sizeof(info), &length),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(length, sizeof(info));
    ck_assert_uint_eq(info.head.InstanceCount, 2);
    ck_assert_uint_eq(info.first.Pid, pid);
    ck_assert_uint_eq(info.first.EnableCount, 1);
    ck_assert_uint_eq(info.first.NextOffset, sizeof(info.first) + sizeof(info.enable));
    ck_assert_uint_eq(info.first.Flags, 0);
    ck_assert_uint_eq(info.enable.LoggerId, h & 0xFFFF);
    ck_assert_uint_eq(info.enable.Level, 4);
    ck_assert_uint_eq(info.enable.MatchAnyKeyword, 0x1200000034);
    ck_assert_uint_eq(info.enable.MatchAllKeyword, 4);
    ck_assert_uint_eq(info.enable.EnableProperty, EVENT_ENABLE_PROPERTY_SID);
    ck_assert_uint_eq(info.second.NextOffset, 0);
    ck_assert_uint_eq(info.second_enable.LoggerId, h & 0xFFFF);

    /* Nobody has registered it: the session waits for it. */
    ck_assert_uint_eq(EnumerateTraceGuidsEx(TraceGuidQueryInfo, (PVOID) (uintptr_t) &provider_c,
                                            sizeof(GUID), &info, sizeof(info), &length),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(info.head.InstanceCount, 1);
    ck_assert_uint_eq(info.first.Pid, 0);
    ck_assert_uint_eq(info.first.Flags, 2);
    ck_assert_uint_eq(info.first.EnableCount, 1);

    /* An enable that does not see this process is not told of it. */
    ULONG init = 1;
    EVENT_FILTER_DESCRIPTOR f = {
        .Ptr = (ULONGLONG) (uintptr_t) &init, .Size = 4, .Type = EVENT_FILTER_TYPE_PID};
    p.EnableFilterDesc = &f;
    p.FilterDescCount = 1;
    ck_assert_uint_eq(EnableTraceEx2(h, &provider_a, 1, 4, 0, 0, 0, &p), ERROR_SUCCESS);
    ck_assert_uint_eq(EnumerateTraceGuidsEx(TraceGuidQueryInfo, (PVOID) (uintptr_t) &provider_a,
                                            sizeof(GUID), &info, sizeof(info), &length),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(info.first.Pid, pid);
    ck_assert_uint_eq(info.first.EnableCount, 0);
    ck_assert_uint_eq(stop(h), ERROR_SUCCESS);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(EventUnregister(r[i]), ERROR_SUCCESS);
}
END_TEST

START_TEST(a_provider_of_many_processes)
{
    enum { PROCESSES = 60, PER_PROCESS = 20 };
    static unsigned char info[1 << 20];
    pid_t pids[PROCESSES];
    int up[2], down[2];
    TRACEHANDLE h;
    ULONG length, at = sizeof(TRACE_GUID_INFO), seen = 0;
    char c;

    ck_assert_uint_eq(start_session(1, &h), ERROR_SUCCESS);
    ck_assert_uint_eq(EnableTraceEx2(h, &provider_a, 1, 4, 0, 0, 0, NULL), ERROR_SUCCESS);
    ck_assert_int_eq(pipe(up), 0);
    ck_assert_int_eq(pipe(down), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (pids[i] > 0)
            continue;
        REGHANDLE r;
        close(down[1]);
        for (int k = 0; k < PER_PROCESS; k++)
            if (EventRegister(&provider_a, NULL, NULL, &r) != ERROR_SUCCESS)
                _exit(1);
        (void) !write(up[1], "r", 1);
        (void) !read(down[0], &c, 1);
        _exit(0);
    }
    close(down[0]);
    for (int i = 0; i < PROCESSES; i++)
        ck_assert_int_eq(read(up[0], &c, 1), 1);
    ck_assert_uint_eq(EnumerateTraceGuidsEx(TraceGuidQueryInfo, (PVOID) (uintptr_t) &provider_a,
                                            sizeof(GUID), info, sizeof(info), &length),
                      ERROR_SUCCESS);
    for (ULONG next = 1; next; at += next, seen++) {
        TRACE_PROVIDER_INSTANCE_INFO one;
        ck_assert_uint_le(at + sizeof(one), length);
        memcpy(&one, info + at, sizeof(one));
        ck_assert_uint_eq(one.EnableCount, 1);
        next = one.NextOffset;
    }
    ck_assert_uint_eq(seen, PROCESSES * PER_PROCESS);
    close(down[1]);
    for (int i = 0; i < PROCESSES; i++)
        ck_assert_int_eq(waitpid(pids[i], NULL, 0), pids[i]);
    ck_assert_uint_eq(stop(h), ERROR_SUCCESS);
}
END_TEST

START_TEST(group_mask)
{
    static struct test_properties t;
    ULONG mask[8], length = 0, streams = 0;
    TRACEHANDLE h, plain;

    test_need_root();
    properties_init_kernel(&t, "kernel.etl");
    ck_assert_uint_eq(StartKernelTrace(&h, &t.p, NULL, 0), ERROR_SUCCESS);
    ck_assert_uint_eq(start_session(1, &plain), ERROR_SUCCESS);
    ck_assert_uint_eq(
        TraceQueryInformation(h, TraceSystemTraceEnableFlagsInfo, mask, sizeof(mask), &length),
        ERROR_SUCCESS);
    ck_assert_uint_eq(length, sizeof(mask));
    ck_assert_uint_eq(mask[0], EVENT_TRACE_FLAG_PROCESS);
    mask[0] |= EVENT_TRACE_FLAG_THREAD;
    ck_assert_uint_eq(TraceSetInformation(h, TraceSystemTraceEnableFlagsInfo, mask, sizeof(mask)),
                      ERROR_SUCCESS);
    properties_init(&t, NULL);
    ck_assert_uint_eq(QueryTraceA(h, NULL, &t.p), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.EnableFlags, EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_THREAD);
    memset(mask, 0xFF, sizeof(mask));
    ck_assert_uint_eq(
        TraceQueryInformation(plain, TraceSystemTraceEnableFlagsInfo, mask, sizeof(mask), &length),
        ERROR_SUCCESS);
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(mask[i], 0);
    ck_assert_uint_eq(TraceQueryInformation(plain, TraceStreamCount, &streams, 4, NULL),
                      ERROR_SUCCESS);
    ck_assert_uint_ge(streams, 1);
    ck_assert_uint_eq(TraceQueryInformation(h, TraceStackTracingInfo, NULL, 0, &length),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(length, 0);
    ck_assert_uint_eq(stop(h), ERROR_SUCCESS);
    ck_assert_uint_eq(stop(plain), ERROR_SUCCESS);
}
END_TEST

START_TEST(handle_of_the_global_logger)
{
    static struct test_properties t;
    TRACEHANDLE h, other, third;

    ck_assert_uint_eq(start_session(1, &other), ERROR_SUCCESS);
    properties_init(&t, NULL);
    ck_assert_uint_eq(QueryTraceA(1, NULL, &t.p), ERROR_WMI_INSTANCE_NOT_FOUND);
    properties_init(&t, "global.etl");
    ck_assert_uint_eq(StartTraceA(&h, "GLOBALLogger", &t.p), ERROR_SUCCESS);
    ck_assert_uint_eq(h & 0xFFFF, 1);
    ck_assert_uint_eq(start_session(2, &third), ERROR_SUCCESS);
    ck_assert_uint_eq(third & 0xFFFF, (other & 0xFFFF) + 1);
    properties_init(&t, NULL);
    ck_assert_uint_eq(QueryTraceA(1, NULL, &t.p), ERROR_SUCCESS);
    ck_assert_str_eq(t.names, "GLOBALLogger");
    ck_assert_uint_eq(stop(1), ERROR_SUCCESS);
    ck_assert_uint_eq(stop(other), ERROR_SUCCESS);
    ck_assert_uint_eq(stop(third), ERROR_SUCCESS);
}
END_TEST

/* With an argument: the long part alone. */
int main(int argc, char **argv)
{
    Suite *s = suite_create("api-lists");
    TCase *tc = tcase_create("lists");

    (void) argv;
    if (argc > 1) {
        tcase_set_timeout(tc, TEST_HANG_LIMIT_S);
        tcase_add_checked_fixture(tc, setup_many, teardown);
        tcase_add_test(tc, a_thousand_sessions);
        suite_add_tcase(s, tc);
        return test_main(s);
    }
    tcase_set_timeout(tc, TEST_HANG_LIMIT_S);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, sixty_four_sessions);
    tcase_add_test(tc, elements_of_every_kind);
    tcase_add_test(tc, others_see_only_their_own);
    tcase_add_test(tc, providers);
    tcase_add_test(tc, a_provider_of_many_processes);
    tcase_add_test(tc, group_mask);
    tcase_add_test(tc, handle_of_the_global_logger);
    suite_add_tcase(s, tc);
    return test_main(s);
}
