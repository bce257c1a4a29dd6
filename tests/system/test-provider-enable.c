/* SPDX-License-Identifier: Apache-2.0
 *
 * Enabling providers: each of several sessions gets exactly what it asked for by level, keywords,
 * event ids, processes and programs; what callbacks are told, and when; sessions and registrations
 * that come and go; codes. This program is the provider, and starts others.
 *
 *     test-provider-enable PROVIDER-PROGRAM
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/properties.h"
#include "captured.h"
#include "provider-tests.h"

#define SESSIONS 9

extern char **environ;

static const GUID guid = {
    0x7b0c55aa, 0x1d3e, 0x4f5a, {0x90, 0x01, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0x01}};
static const GUID source = {1, 2, 3, {4, 5, 6, 7, 8, 9, 10, 11}};

static struct test_daemon *d;
static char *files[SESSIONS];
static char names[SESSIONS][16];
static TRACEHANDLE sessions[SESSIONS];
static struct captured got;

static void setup(void)
{
    d = test_daemon_start();
    for (unsigned i = 0; i < SESSIONS; i++) {
        char name[32];
        snprintf(names[i], sizeof(names[i]), "Session%u", i);
        snprintf(name, sizeof(name), "enable%u.etl", i);
        files[i] = test_path(name);
    }
}

static void teardown(void)
{
    test_daemon_alive(d);
    test_daemon_stop(d);
    d = test_daemon_free(d);
    for (unsigned i = 0; i < SESSIONS; i++)
        free(files[i]);
}

static void start(unsigned i)
{
    sessions[i] = session_start(names[i], files[i], 0, 2, 4, 0);
}

static ULONG enable_with(unsigned i, const GUID *g, UCHAR level, ULONGLONG any, ULONGLONG all,
                         ULONG properties, EVENT_FILTER_DESCRIPTOR *filters, ULONG n)
{
    ENABLE_TRACE_PARAMETERS p = {
        .Version = ENABLE_TRACE_PARAMETERS_VERSION_2,
        .EnableProperty = properties,
        .SourceId = source,
        .EnableFilterDesc = filters,
        .FilterDescCount = n,
    };

    return EnableTraceEx2(sessions[i], g, EVENT_CONTROL_CODE_ENABLE_PROVIDER, level, any, all,
                          INFINITE, &p);
}

static ULONG control(unsigned i, const GUID *g, ULONG code, ULONG timeout)
{
    return EnableTraceEx2(sessions[i], g, code, 0, 0, 0, timeout, NULL);
}

static ULONG write_id(REGHANDLE h, USHORT id, UCHAR level, ULONGLONG keyword)
{
    const EVENT_DESCRIPTOR e = {.Id = id, .Level = level, .Keyword = keyword};

    return EventWrite(h, &e, 0, NULL);
}

static void stop(unsigned i, const USHORT *ids, size_t n)
{
    ck_assert_uint_eq(session_stop(names[i]).lost, 0);
    capture(&got, files[i], &guid);
    captured_ids(&got, names[i], ids, n);
    captured_done(&got);
}

/* Each session gets what its level, keywords and properties say, whatever the others want. */
START_TEST(levels_and_keywords)
{
    static const struct {
        UCHAR level;
        ULONGLONG any, all;
        ULONG properties;
    } wishes[8] = {
        {0, 0, 0, 0},
        {5, 0, 0, 0},
        {2, 0x1, 0, 0},
        {5, 0x3, 0x3, 0},
        {5, 0, 0x2, 0},
        {3, 0xf0, 0, EVENT_ENABLE_PROPERTY_IGNORE_KEYWORD_0},
        {255, 0x8, 0x8, EVENT_ENABLE_PROPERTY_ENABLE_KEYWORD_0},
        {5, 0x8000000000000000, 0, EVENT_ENABLE_PROPERTY_IGNORE_KEYWORD_0},
    };
    static const UCHAR levels[] = {0, 1, 2, 3, 4, 5, 6, 255};
    static const ULONGLONG keywords[] = {0,   0x1,  0x2,  0x3,  0x4,
                                         0x8, 0x18, 0x30, 0xff, 0x8000000000000001};
    static USHORT expected[8][80];
    size_t n[8] = {0};
    REGHANDLE h;
    USHORT id = 0;

    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    for (unsigned i = 0; i < 8; i++) {
        start(i);
        ck_assert_uint_eq(enable_with(i, &guid, wishes[i].level, wishes[i].any, wishes[i].all,
                                      wishes[i].properties, NULL, 0),
                          ERROR_SUCCESS);
    }
    for (size_t l = 0; l < sizeof(levels); l++)
        for (size_t k = 0; k < sizeof(keywords) / sizeof(keywords[0]); k++) {
            const EVENT_DESCRIPTOR e = {.Id = ++id, .Level = levels[l], .Keyword = keywords[k]};
            bool wanted = false;

            for (unsigned i = 0; i < 8; i++) {
                bool pass = levels[l] == 0 || wishes[i].level == 0 || levels[l] <= wishes[i].level;
                if (keywords[k] == 0)
                    pass = pass && !(wishes[i].properties & EVENT_ENABLE_PROPERTY_IGNORE_KEYWORD_0);
                else
                    pass = pass && (wishes[i].any == 0 || (keywords[k] & wishes[i].any)) &&
                           (keywords[k] & wishes[i].all) == wishes[i].all;
                if (pass)
                    expected[i][n[i]++] = id;
                wanted |= pass;
            }
            ck_assert_int_eq(!EventEnabled(h, &e), !wanted);
            ck_assert_uint_eq(EventWrite(h, &e, 0, NULL), ERROR_SUCCESS);
        }
    for (unsigned i = 0; i < 8; i++)
        stop(i, expected[i], n[i]);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
}
END_TEST

static EVENT_FILTER_DESCRIPTOR id_filter(void *memory, bool in, const USHORT *ids, USHORT n)
{
    EVENT_FILTER_EVENT_ID *f = memory;

    f->FilterIn = in;
    f->Reserved = 0;
    f->Count = n;
    for (USHORT i = 0; i < n; i++)
        f->Events[i] = ids[i];
    return (EVENT_FILTER_DESCRIPTOR){
        .Ptr = (ULONG_PTR) f, .Size = (ULONG) (4 + 2 * n), .Type = EVENT_FILTER_TYPE_EVENT_ID};
}

START_TEST(event_ids)
{
    static const USHORT in[] = {65535, 7, 0}, out[] = {7, 8};
    USHORT memory[4][80], most[64];
    EVENT_FILTER_DESCRIPTOR f;
    REGHANDLE h;

    for (USHORT i = 0; i < 64; i++)
        most[i] = (USHORT) (2 * i);
    for (unsigned i = 0; i < 4; i++)
        start(i);
    f = id_filter(memory[0], true, in, 3);
    ck_assert_uint_eq(enable_with(0, &guid, 5, 0, 0, 0, &f, 1), ERROR_SUCCESS);
    f = id_filter(memory[1], false, out, 2);
    ck_assert_uint_eq(enable_with(1, &guid, 5, 0, 0, 0, &f, 1), ERROR_SUCCESS);
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    f = id_filter(memory[2], true, most, 64);
    ck_assert_uint_eq(enable_with(2, &guid, 3, 0, 0, 0, &f, 1), ERROR_SUCCESS);
    ck_assert_uint_eq(enable_with(3, &guid, 5, 0, 0, 0, NULL, 0), ERROR_SUCCESS);
    static const USHORT ids[] = {0, 7, 8, 9, 126, 128, 65535};
    for (size_t i = 0; i < 7; i++)
        ck_assert_uint_eq(write_id(h, ids[i], 3, 0), ERROR_SUCCESS);
    ck_assert_uint_eq(write_id(h, 8, 4, 0), ERROR_SUCCESS); /* the level counts, too */
    stop(0, (const USHORT[]){0, 7, 65535}, 3);
    stop(1, (const USHORT[]){0, 9, 126, 128, 65535}, 5);
    stop(2, (const USHORT[]){0, 8, 126}, 3);
    stop(3, (const USHORT[]){0, 7, 8, 9, 126, 128, 65535, 8}, 8);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
}
END_TEST

static void spawn_wait(const char *program, unsigned source_number)
{
    char text[32];
    const char *argv[] = {program, "-", "guid=20", "wait=0", "count=5", text, NULL};
    int status;
    pid_t pid;

    snprintf(text, sizeof(text), "source=%u", source_number);
    ck_assert_int_eq(posix_spawn(&pid, program, NULL, NULL, (char *const *) argv, environ), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

/* Sessions that want the events of some programs only. */
START_TEST(programs)
{
    static const WCHAR names16[] = ETW_W("no-such-program;other-provider");
    static struct tally tally;
    const GUID g = NUMBERED_GUID(20);
    EVENT_FILTER_DESCRIPTOR f = {.Ptr = (ULONG_PTR) names16,
                                 .Size = sizeof(names16),
                                 .Type = EVENT_FILTER_TYPE_EXECUTABLE_NAME};
    char *other = test_path("other-provider");
    char libraries[4096];
    struct test_output o;

    /* The copy does not find the library that the build tree has beside it. */
    snprintf(libraries, sizeof(libraries), "%s/client/lib", test_env("ETW_BUILD_ROOT"));
    setenv("LD_LIBRARY_PATH", libraries, 1);
    test_run_ok(&o, "cp", provider_program(), other);
    test_output_done(&o);
    start(0);
    start(1);
    ck_assert_uint_eq(enable_with(0, &g, 5, 0, 0, 0, &f, 1), ERROR_SUCCESS);
    ck_assert_uint_eq(enable_with(1, &g, 5, 0, 0, 0, NULL, 0), ERROR_SUCCESS);
    spawn_wait(provider_program(), 0);
    spawn_wait(other, 1);
    ck_assert_uint_eq(session_stop(names[0]).lost, 0);
    ck_assert_uint_eq(session_stop(names[1]).lost, 0);
    tally_file(&tally, files[0]);
    ck_assert_uint_eq(tally.ours, 5);
    tally_complete(&tally, 1, 5);
    tally_file(&tally, files[1]);
    ck_assert_uint_eq(tally.ours, 10);
    tally_complete(&tally, 0, 5);
    tally_complete(&tally, 1, 5);
    free(other);
}
END_TEST

/* Sessions that want the events of some processes only; a process that is no more matches nobody.
 */
START_TEST(processes)
{
    static struct tally tally;
    const GUID g = NUMBERED_GUID(21);
    struct provider p[3];
    ULONG pids[2], gone;
    EVENT_FILTER_DESCRIPTOR f = {
        .Ptr = (ULONG_PTR) pids, .Size = sizeof(pids), .Type = EVENT_FILTER_TYPE_PID};
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    gone = (ULONG) child;
    for (unsigned i = 0; i < 3; i++) {
        char text[32];
        snprintf(text, sizeof(text), "source=%u", i);
        provider_start(&p[i], "guid=21", "wait=0", "go=1", "count=5", text);
        provider_wait_ready(&p[i], 1);
    }
    for (unsigned i = 0; i < 3; i++)
        start(i);
    pids[0] = (ULONG) p[0].pid;
    pids[1] = (ULONG) p[2].pid;
    ck_assert_uint_eq(enable_with(0, &g, 5, 0, 0, 0, &f, 1), ERROR_SUCCESS);
    pids[0] = gone;
    f.Size = sizeof(pids[0]);
    ck_assert_uint_eq(enable_with(1, &g, 5, 0, 0, 0, &f, 1), ERROR_SUCCESS);
    ck_assert_uint_eq(enable_with(2, &g, 5, 0, 0, 0, NULL, 0), ERROR_SUCCESS);
    for (unsigned i = 0; i < 3; i++) {
        p[i].page->go = 1;
        provider_end(&p[i]);
        provider_free(&p[i]);
    }
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(session_stop(names[i]).lost, 0);
    tally_file(&tally, files[0]);
    ck_assert_uint_eq(tally.ours, 10);
    tally_complete(&tally, 0, 5);
    tally_complete(&tally, 2, 5);
    tally_file(&tally, files[1]);
    ck_assert_uint_eq(tally.ours, 0);
    tally_file(&tally, files[2]);
    ck_assert_uint_eq(tally.ours, 15);
}
END_TEST

/* ---- callbacks ---- */

struct call {
    GUID source;
    ULONG code;
    UCHAR level;
    ULONGLONG any, all;
    bool filtered;
    EVENT_FILTER_HEADER filter;
    ULONG filter_size;
    void *context;
};

static struct call calls[64];
static _Atomic unsigned n_calls;
static _Atomic bool hold; /* the callback waits while it is set */
static REGHANDLE capturing;

static void NTAPI on_change(LPCGUID src, ULONG code, UCHAR level, ULONGLONG any, ULONGLONG all,
                            PEVENT_FILTER_DESCRIPTOR f, PVOID context)
{
    unsigned n = n_calls;

    ck_assert_uint_lt(n, 64);
    calls[n] = (struct call){
        .source = src ? *src : (GUID){0},
        .code = code,
        .level = level,
        .any = any,
        .all = all,
        .filtered = f != NULL,
        .filter_size = f ? f->Size : 0,
        .context = context,
    };
    if (f && f->Size >= sizeof(EVENT_FILTER_HEADER))
        memcpy(&calls[n].filter, (const void *) (uintptr_t) f->Ptr, sizeof(EVENT_FILTER_HEADER));
    n_calls = n + 1;
    while (hold)
        usleep(1000);
    if (code == EVENT_CONTROL_CODE_CAPTURE_STATE && capturing)
        (void) write_id(capturing, 1000, 0, 0);
}

static void expect_call(unsigned i, ULONG code, UCHAR level, ULONGLONG any, ULONGLONG all)
{
    for (int k = 0; n_calls <= i; k++) {
        ck_assert_msg(k < TEST_HANG_LIMIT_S * 100, "callback %u does not come", i + 1);
        usleep(10000);
    }
    ck_assert_msg(calls[i].code == code && calls[i].level == level && calls[i].any == any &&
                      calls[i].all == all && calls[i].context == &n_calls,
                  "callback %u: code %u, level %u, keywords 0x%llx 0x%llx", i + 1, calls[i].code,
                  calls[i].level, (unsigned long long) calls[i].any,
                  (unsigned long long) calls[i].all);
}

/* What callbacks are told: the sum over all sessions; capture state; once each, in order. */
START_TEST(callbacks)
{
    REGHANDLE h;

    start(0);
    start(1);
    ck_assert_uint_eq(EventRegister(&guid, on_change, &n_calls, &h), ERROR_SUCCESS);
    capturing = h;
    ck_assert_uint_eq(n_calls, 0);
    ck_assert_uint_eq(enable_with(0, &guid, 3, 0x10, 0x10, 0, NULL, 0), ERROR_SUCCESS);
    /* The call waited for it. */
    ck_assert_uint_eq(n_calls, 1);
    expect_call(0, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 3, 0x10, 0x10);
    ck_assert(IsEqualGUID(&calls[0].source, &source));
    ck_assert(!calls[0].filtered);
    ck_assert(EventProviderEnabled(h, 3, 0x10) && !EventProviderEnabled(h, 4, 0x10) &&
              !EventProviderEnabled(h, 3, 0x20));
    ck_assert_uint_eq(enable_with(1, &guid, 5, 0x30, 0x30, 0, NULL, 0), ERROR_SUCCESS);
    expect_call(1, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0x30, 0x10);
    /* Again by the same session: its values change. */
    ck_assert_uint_eq(enable_with(1, &guid, 4, 0x40, 0, 0, NULL, 0), ERROR_SUCCESS);
    expect_call(2, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 4, 0x50, 0);
    ck_assert_uint_eq(control(1, &guid, EVENT_CONTROL_CODE_CAPTURE_STATE, INFINITE), ERROR_SUCCESS);
    ck_assert_uint_eq(n_calls, 4);
    ck_assert_uint_eq(calls[3].code, EVENT_CONTROL_CODE_CAPTURE_STATE);
    /* One of two sessions goes: an update, not a disable. */
    ck_assert_uint_eq(control(1, &guid, EVENT_CONTROL_CODE_DISABLE_PROVIDER, INFINITE),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(n_calls, 5);
    expect_call(4, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 3, 0x10, 0x10);
    ck_assert_uint_eq(control(1, &guid, EVENT_CONTROL_CODE_DISABLE_PROVIDER, INFINITE),
                      ERROR_SUCCESS);
    /* The session's end disables. */
    stop(0, (const USHORT[]){1000}, 1);
    for (int k = 0; n_calls < 6 || EventProviderEnabled(h, 0, 0); k++) {
        ck_assert_int_lt(k, TEST_HANG_LIMIT_S * 100);
        usleep(10000);
    }
    expect_call(5, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0, 0);
    stop(1, (const USHORT[]){1000}, 1);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
    ck_assert_uint_eq(n_calls, 6);
}
END_TEST

/* A provider that is enabled before it exists hears so inside EventRegister. */
START_TEST(enabled_before_it_exists)
{
    REGHANDLE h;

    start(0);
    ck_assert_uint_eq(enable_with(0, &guid, 4, 0x6, 0x2, 0, NULL, 0), ERROR_SUCCESS);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(EventRegister(&guid, on_change, &n_calls, &h), ERROR_SUCCESS);
        ck_assert_uint_eq(n_calls, i + 1);
        expect_call(i, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 4, 0x6, 0x2);
        ck_assert_uint_eq(write_id(h, (USHORT) (i + 1), 4, 0x2), ERROR_SUCCESS);
        ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
    }
    ck_assert_uint_eq(control(0, &guid, EVENT_CONTROL_CODE_DISABLE_PROVIDER, INFINITE),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(EventRegister(&guid, on_change, &n_calls, &h), ERROR_SUCCESS);
    ck_assert_uint_eq(n_calls, 3);
    ck_assert_uint_eq(write_id(h, 9, 4, 0x2), ERROR_SUCCESS);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
    stop(0, (const USHORT[]){1, 2, 3}, 3);
}
END_TEST

/* The provider-defined filter reaches the callback, and tells it how to name the session. */
START_TEST(choice_of_sessions)
{
    struct {
        EVENT_FILTER_HEADER h;
        char text[8];
    } data[2] = {{.h = {.Id = 5, .Size = sizeof(data[0])}, .text = "first"},
                 {.h = {.Id = 6, .Size = sizeof(data[0])}, .text = "second"}};
    const EVENT_DESCRIPTOR e1 = {.Id = 1}, e2 = {.Id = 2}, e3 = {.Id = 3}, e4 = {.Id = 4};
    ULONGLONG bits[2];
    REGHANDLE h;

    ck_assert_uint_eq(EventRegister(&guid, on_change, &n_calls, &h), ERROR_SUCCESS);
    for (unsigned i = 0; i < 2; i++) {
        EVENT_FILTER_DESCRIPTOR f = {.Ptr = (ULONG_PTR) &data[i],
                                     .Size = sizeof(data[i]),
                                     .Type = EVENT_FILTER_TYPE_SCHEMATIZED};
        start(i);
        ck_assert_uint_eq(enable_with(i, &guid, 5, 0, 0, 0, &f, 1), ERROR_SUCCESS);
        ck_assert_uint_eq(n_calls, i + 1);
        ck_assert(calls[i].filtered);
        ck_assert_uint_eq(calls[i].filter_size, sizeof(data[i]));
        ck_assert_uint_eq(calls[i].filter.Id, data[i].h.Id);
        bits[i] = calls[i].filter.InstanceId;
        ck_assert_int_eq(__builtin_popcountll(bits[i]), 1);
    }
    ck_assert_uint_ne(bits[0], bits[1]);
    ck_assert_uint_eq(EventWriteEx(h, &e1, 0, 0, NULL, NULL, 0, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWriteEx(h, &e2, bits[0], 0, NULL, NULL, 0, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWriteEx(h, &e3, bits[1], 0, NULL, NULL, 0, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWriteEx(h, &e4, bits[0] | bits[1], 0, NULL, NULL, 0, NULL),
                      ERROR_SUCCESS);
    stop(0, (const USHORT[]){1, 3}, 2);
    stop(1, (const USHORT[]){1, 2}, 2);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
}
END_TEST

/* A callback that does not return: the caller waits as long as it said, the enable holds. */
START_TEST(time_outs)
{
    REGHANDLE h;

    start(0);
    ck_assert_uint_eq(EventRegister(&guid, on_change, &n_calls, &h), ERROR_SUCCESS);
    hold = true;
    ck_assert_uint_eq(
        EnableTraceEx2(sessions[0], &guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 100, NULL),
        ERROR_TIMEOUT);
    ck_assert_uint_eq(write_id(h, 1, 5, 0), ERROR_SUCCESS);
    /* One that does not wait. */
    ck_assert_uint_eq(
        EnableTraceEx2(sessions[0], &guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 4, 0, 0, 0, NULL),
        ERROR_SUCCESS);
    hold = false;
    ck_assert_uint_eq(control(0, &guid, EVENT_CONTROL_CODE_CAPTURE_STATE, INFINITE), ERROR_SUCCESS);
    ck_assert_uint_eq(n_calls, 3);
    stop(0, (const USHORT[]){1}, 1);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
}
END_TEST

/* ---- coming and going ---- */

/* Changes while four threads write: no event is lost to them, none comes twice. */
START_TEST(changes_under_way)
{
    static struct tally tally;
    const GUID g = NUMBERED_GUID(22);
    struct provider p;
    int rounds = test_scale(60);

    start(0);
    session_enable(sessions[0], 22);
    /* Four threads that begin at once find two rings, and may not wait long enough for theirs. */
    provider_start(&p, "guid=22", "threads=4", "count=0", "rate=5000", "retry=1");
    provider_wait_ready(&p, 4);
    for (unsigned s = 0; s < 4; s++)
        while (p.page->threads[s].returned == 0)
            usleep(1000); /* the test's own limit ends a hang */
    for (int i = 0; i < rounds; i++) {
        unsigned other = 1 + (unsigned) i % 3;
        struct session_counts c;

        start(other);
        ck_assert_uint_eq(enable_with(other, &g, (UCHAR) (i % 6), 0, 0, 0, NULL, 0), ERROR_SUCCESS);
        ck_assert_uint_eq(enable_with(0, &g, 0xff, i % 2 ? 0 : NUMBERED_KEYWORD, 0,
                                      i % 3 ? 0 : EVENT_ENABLE_PROPERTY_TS_ID, NULL, 0),
                          ERROR_SUCCESS);
        usleep(5000);
        c = session_stop(names[other]);
        tally_file(&tally, files[other]);
        tally_sound(&tally);
        for (uint32_t s = 0; s < 4; s++)
            /* From the enable to the stop without a gap. */
            if (tally.sources[s].count > 0)
                ck_assert_uint_eq(tally.sources[s].next - tally.sources[s].left_out,
                                  tally.sources[s].count);
        ck_assert_uint_eq(c.lost, 0);
        (void) unlink(files[other]);
    }
    p.page->stop = 1;
    provider_end(&p);
    ck_assert_uint_eq(session_stop(names[0]).lost, provider_ring_full(&p));
    tally_file(&tally, files[0]);
    tally_sound(&tally);
    for (uint32_t s = 0; s < 4; s++)
        tally_complete(&tally, s, p.page->threads[s].returned);
    provider_free(&p);
}
END_TEST

/* Programs outlive the daemon: writing goes on to nobody, and to sessions of the next one. */
START_TEST(another_daemon)
{
    REGHANDLE h;

    start(0);
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    ck_assert_uint_eq(enable_with(0, &guid, 5, 0, 0, 0, NULL, 0), ERROR_SUCCESS);
    ck_assert_uint_eq(write_id(h, 1, 5, 0), ERROR_SUCCESS);
    stop(0, (const USHORT[]){1}, 1);
    for (USHORT round = 2; round < 5; round++) {
        test_daemon_kill(d);
        ck_assert_uint_eq(write_id(h, 100, 5, 0), ERROR_SUCCESS);
        test_daemon_again(d, NULL);
        start(0);
        ck_assert_uint_eq(enable_with(0, &guid, 5, 0, 0, 0, NULL, 0), ERROR_SUCCESS);
        for (int k = 0; !EventProviderEnabled(h, 5, 0); k++) {
            ck_assert_msg(k < TEST_HANG_LIMIT_S * 100, "the library does not find the new etwd");
            usleep(10000);
        }
        ck_assert_uint_eq(write_id(h, round, 5, 0), ERROR_SUCCESS);
        stop(0, &round, 1);
    }
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
}
END_TEST

/* ---- codes ---- */

START_TEST(codes_of_enabling)
{
    ENABLE_TRACE_PARAMETERS p = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2};
    const ULONG on = EVENT_CONTROL_CODE_ENABLE_PROVIDER;
    EVENT_FILTER_DESCRIPTOR f[14];
    USHORT ids[80] = {0};
    uint8_t big[1100] = {0};

    start(0);
    ck_assert_uint_eq(EnableTraceEx2(sessions[0], NULL, on, 0, 0, 0, 0, NULL),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EnableTraceEx2(0, &guid, on, 0, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EnableTraceEx2(sessions[0], &guid, 3, 0, 0, 0, 0, NULL),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_ne(EnableTraceEx2(sessions[0] + 0x10000, &guid, on, 0, 0, 0, 0, NULL),
                      ERROR_SUCCESS);
    p.Version = 3;
    ck_assert_uint_eq(EnableTraceEx2(sessions[0], &guid, on, 0, 0, 0, 0, &p),
                      ERROR_INVALID_PARAMETER);
    p.Version = 0;
    ck_assert_uint_eq(EnableTraceEx2(sessions[0], &guid, on, 0, 0, 0, 0, &p),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(enable_with(0, &guid, 0, 0, 0, EVENT_ENABLE_PROPERTY_STACK_TRACE, NULL, 0),
                      ERROR_NOT_SUPPORTED);
    ck_assert_uint_eq(enable_with(0, &guid, 0, 0, 0, 0, NULL, 1), ERROR_INVALID_PARAMETER);
    f[0] = f[1] = id_filter(ids, true, (const USHORT[]){1}, 1);
    ck_assert_uint_eq(enable_with(0, &guid, 0, 0, 0, 0, f, 2), ERROR_INVALID_PARAMETER);
    f[0].Size = 5; /* says one id, has half of it */
    ck_assert_uint_eq(enable_with(0, &guid, 0, 0, 0, 0, f, 1), ERROR_INVALID_PARAMETER);
    for (unsigned i = 0; i < 14; i++)
        f[i] = (EVENT_FILTER_DESCRIPTOR){.Type = i};
    ck_assert_uint_eq(enable_with(0, &guid, 0, 0, 0, 0, f, 14), ERROR_INVALID_PARAMETER);
    f[0] = (EVENT_FILTER_DESCRIPTOR){
        .Ptr = (ULONG_PTR) big, .Size = 1025, .Type = EVENT_FILTER_TYPE_SCHEMATIZED};
    ck_assert_uint_eq(enable_with(0, &guid, 0, 0, 0, 0, f, 1), ERROR_INVALID_PARAMETER);
    f[0] = (EVENT_FILTER_DESCRIPTOR){
        .Ptr = (ULONG_PTR) ids, .Size = 4 + 2 * 65, .Type = EVENT_FILTER_TYPE_EVENT_ID};
    ids[1] = 65;
    ck_assert_uint_eq(enable_with(0, &guid, 0, 0, 0, 0, f, 1), ERROR_INVALID_PARAMETER);
    /* Nothing of all this is left. */
    struct test_output o;
    test_etwctl_ok(&o, "providers", "--json");
    struct json_object *list = test_json(o.out);
    ck_assert_uint_eq(json_object_array_length(list), 0);
    json_object_put(list);
    test_output_done(&o);

    /* Eight sessions may enable a provider. */
    for (unsigned i = 1; i < 9; i++)
        start(i);
    for (unsigned i = 0; i < 8; i++)
        ck_assert_uint_eq(enable_with(i, &guid, 5, 0, 0, 0, NULL, 0), ERROR_SUCCESS);
    ck_assert_uint_eq(enable_with(8, &guid, 5, 0, 0, 0, NULL, 0), ERROR_NO_SYSTEM_RESOURCES);
    ck_assert_uint_eq(enable_with(7, &guid, 4, 0, 0, 0, NULL, 0), ERROR_SUCCESS);
    ck_assert_uint_eq(control(3, &guid, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0), ERROR_SUCCESS);
    ck_assert_uint_eq(enable_with(8, &guid, 5, 0, 0, 0, NULL, 0), ERROR_SUCCESS);
    for (unsigned i = 0; i < 9; i++)
        ck_assert_uint_eq(session_stop(names[i]).lost, 0);
    ck_assert_uint_ne(control(0, &guid, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0), ERROR_SUCCESS);
}
END_TEST

/* The older functions say the same. */
START_TEST(older_functions)
{
    REGHANDLE h;

    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    for (unsigned i = 0; i < 2; i++)
        start(i);
    ck_assert_uint_eq(EnableTrace(TRUE, 0x2, 3, &guid, sessions[0]), ERROR_SUCCESS);
    ck_assert_uint_eq(EnableTraceEx(&guid, &source, sessions[1], TRUE, 5, 0, 0x2, 0, NULL),
                      ERROR_SUCCESS);
    /* They do not wait for the provider. */
    for (int k = 0; !EventProviderEnabled(h, 5, 0x4); k++) {
        ck_assert_int_lt(k, TEST_HANG_LIMIT_S * 100);
        usleep(10000);
    }
    ck_assert_uint_eq(write_id(h, 1, 3, 0x2), ERROR_SUCCESS);
    ck_assert_uint_eq(write_id(h, 2, 4, 0x3), ERROR_SUCCESS);
    ck_assert_uint_eq(write_id(h, 3, 3, 0x4), ERROR_SUCCESS);
    ck_assert_uint_eq(EnableTrace(FALSE, 0, 0, &guid, sessions[0]), ERROR_SUCCESS);
    ck_assert_uint_eq(EnableTrace(TRUE, 0, 0, NULL, sessions[0]), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EnableTraceEx(NULL, NULL, sessions[0], TRUE, 5, 0, 0, 0, NULL),
                      ERROR_INVALID_PARAMETER);
    stop(0, (const USHORT[]){1}, 1);
    stop(1, (const USHORT[]){1, 2}, 2);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-enable");
    TCase *c = tcase_create("enable");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_test(c, levels_and_keywords);
    tcase_add_test(c, event_ids);
    tcase_add_test(c, programs);
    tcase_add_test(c, processes);
    tcase_add_test(c, callbacks);
    tcase_add_test(c, enabled_before_it_exists);
    tcase_add_test(c, choice_of_sessions);
    tcase_add_test(c, time_outs);
    tcase_add_test(c, changes_under_way);
    tcase_add_test(c, another_daemon);
    tcase_add_test(c, codes_of_enabling);
    tcase_add_test(c, older_functions);
    suite_add_tcase(s, c);
    return s;
}

int main(int argc, char **argv)
{
    provider_tests_init(argc, argv);
    return test_main(suite());
}
