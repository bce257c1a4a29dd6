/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions of each clock: numbered events come back complete, in order, once, at the moments at
 * which they were written; what the header says; over the death of etwd, too. This program is the
 * provider.
 *
 *     test-clocks PROVIDER-PROGRAM
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/properties.h"
#include "base/clock.h"
#include "captured.h"
#include "lib/manager.h"
#include "provider-tests.h"

#define EVENTS 10000u
/* 1 ms in FILETIME. */
#define NEAR 10000

static const GUID guid = {
    0x6f1d2c30, 0x77aa, 0x4e0b, {0xa1, 0x02, 0xc1, 0x0c, 0x51, 0x0c, 0xc0, 0x00}};

struct timed {
    uint64_t number;
    uint64_t before; /* FILETIME just before the call */
};

static REGHANDLE provider;
static uint64_t next, last_after[EVENTS];

/* Goes on counting. */
static void write_events(unsigned n)
{
    static const EVENT_DESCRIPTOR d = {.Id = 1, .Level = 4, .Keyword = 1};
    for (unsigned i = 0; i < n; i++) {
        struct timed t = {next, etw_filetime_now()};
        EVENT_DATA_DESCRIPTOR data;
        EventDataDescCreate(&data, &t, sizeof(t));
        ULONG code = EventWrite(provider, &d, 1, &data);
        if (code == ERROR_NOT_ENOUGH_MEMORY) { /* the ring is full: once more */
            usleep(1000);
            i--;
            continue;
        }
        ck_assert_uint_eq(code, ERROR_SUCCESS);
        last_after[next++] = etw_filetime_now();
    }
}

static TRACEHANDLE start(const char *name, const char *file, ULONG clock, ULONG *ret_clock)
{
    struct test_properties t;
    TRACEHANDLE h = 0;

    properties_init(&t, file);
    t.p.Wnode.ClientContext = clock;
    ck_assert_uint_eq(StartTraceA(&h, name, &t.p), ERROR_SUCCESS);
    *ret_clock = t.p.Wnode.ClientContext;
    session_enable_guid(h, &guid, 0xff, 0, 0);
    return h;
}

/* All of them, in order, each between the two readings of its writer. */
static void check_events(const char *file)
{
    struct captured got;

    capture(&got, file, &guid);
    ck_assert_uint_eq(got.n, EVENTS);
    for (size_t i = 0; i < got.n; i++) {
        struct timed t;
        ck_assert_uint_eq(got.events[i].size, sizeof(t));
        memcpy(&t, got.events[i].data, sizeof(t));
        ck_assert_uint_eq(t.number, i);
        int64_t at = got.events[i].h.TimeStamp.QuadPart;
        ck_assert_msg(at >= (int64_t) t.before - NEAR && at <= (int64_t) last_after[i] + NEAR,
                      "event %zu: stamp %lld, written between %llu and %llu", i, (long long) at,
                      (unsigned long long) t.before, (unsigned long long) last_after[i]);
    }
    captured_done(&got);
}

static TRACE_LOGFILE_HEADER header_of(const char *file)
{
    EVENT_TRACE_LOGFILEA l;
    memset(&l, 0, sizeof(l));
    l.LogFileName = (LPSTR) (uintptr_t) file;
    l.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    TRACEHANDLE h = OpenTraceA(&l);
    ck_assert(h != INVALID_PROCESSTRACE_HANDLE);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    return l.LogfileHeader;
}

static bool cycles(void)
{
    char *text = test_read_file("/proc/cpuinfo", NULL);
    bool there = strstr(text, "constant_tsc") && strstr(text, "nonstop_tsc");
    free(text);
    return there;
}

static void check_header(const char *file, ULONG clock, int64_t before, int64_t after)
{
    static const char *const names[] = {"", "qpc", "system", "cycle"};
    TRACE_LOGFILE_HEADER h = header_of(file);
    struct test_output o;

    ck_assert_uint_eq(h.ReservedFlags, clock);
    ck_assert_int_ge(h.StartTime.QuadPart, before - NEAR);
    ck_assert_int_le(h.StartTime.QuadPart, after + NEAR);
    ck_assert_int_ge(h.EndTime.QuadPart, h.StartTime.QuadPart);
    ck_assert_int_le(h.EndTime.QuadPart, (int64_t) etw_filetime_now() + NEAR);
    int64_t boot = (int64_t) etw_filetime_now() - (int64_t) (etw_clock_boottime() / 100);
    ck_assert_int_ge(h.BootTime.QuadPart, boot - NEAR);
    ck_assert_int_le(h.BootTime.QuadPart, boot + NEAR);
    if (clock == 3)
        ck_assert_int_eq(h.PerfFreq.QuadPart, h.CpuSpeedInMHz * 1000000ll);
    else
        ck_assert_int_eq(h.PerfFreq.QuadPart, clock == 2 ? 10000000 : 1000000000);
    test_etwctl_ok(&o, "summary", "--json", file);
    struct json_object *j = test_json(o.out);
    ck_assert_str_eq(test_json_str(j, "clock"), names[clock]);
    json_object_put(j);
    test_output_done(&o);
}

/* The session ends; its file has all events, and the header of the clock. */
static void check_all(const char *file, ULONG clock, int64_t before, int64_t after)
{
    struct session_counts c = session_stop("Clock");
    ck_assert_uint_eq(c.lost, c.ring_full); /* each of these was written once more */
    check_events(file);
    check_header(file, clock, before, after);
    ck_assert_uint_eq(EventUnregister(provider), ERROR_SUCCESS);
}

/* 0: the default. */
START_TEST(each_clock)
{
    struct test_daemon *d = test_daemon_start();
    char *file = test_path("clock.etl");
    int64_t before = (int64_t) etw_filetime_now();
    ULONG clock;

    next = 0;
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &provider), ERROR_SUCCESS);
    (void) start("Clock", file, (ULONG) _i, &clock);
    int64_t after = (int64_t) etw_filetime_now();
    ck_assert_uint_eq(clock, _i == 0 ? 1u : (ULONG) _i == 3 && clock == 2 ? 2u : (ULONG) _i);
    if (_i == 3 && clock == 2 && cycles())
        fprintf(stderr, "# the kernel does not trust the cycle counter here\n");
    write_events(EVENTS);
    check_all(file, clock, before, after);
    test_daemon_stop(d);
    test_daemon_free(d);
    free(file);
}
END_TEST

/* The successor goes on along the same line. */
START_TEST(over_a_death)
{
    static const struct test_manager_options none;
    struct test_manager *m = test_manager_start(&none);
    char *file = test_path("death.etl");
    int64_t before = (int64_t) etw_filetime_now();
    ULONG clock;

    next = 0;
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &provider), ERROR_SUCCESS);
    (void) start("Clock", file, (ULONG) _i, &clock);
    int64_t after = (int64_t) etw_filetime_now();
    for (int i = 0; i < 4; i++) {
        write_events(EVENTS / 4);
        if (i < 3)
            test_manager_kill(m);
    }
    /* A stop waits for half a second only; and rings that are not full wait for a flush. */
    for (int i = 0; i < TEST_HANG_LIMIT_S * 10 && session_show("Clock").recorded < EVENTS + 2;
         i++) {
        struct test_output o;
        test_etwctl_ok(&o, "flush", "Clock");
        test_output_done(&o);
    }
    check_all(file, clock, before, after);
    test_manager_stop(m);
    test_manager_free(m);
    free(file);
}
END_TEST

/* The words of the command line. */
START_TEST(by_etwctl)
{
    static const char *const words[] = {"", "qpc", "system", "cycle"};
    struct test_daemon *d = test_daemon_start();
    struct test_output o;
    char *file = test_path("etwctl.etl");

    for (ULONG clock = 1; clock <= 3; clock++) {
        int64_t before = (int64_t) etw_filetime_now();
        test_etwctl_ok(&o, "start", "Words", "-o", file, "--clock", words[clock]);
        test_output_done(&o);
        int64_t after = (int64_t) etw_filetime_now();
        test_etwctl_ok(&o, "show", "--json", "Words");
        struct json_object *j = test_json(o.out);
        const char *got = test_json_str(j, "clock");
        ULONG is = !strcmp(got, "qpc") ? 1 : !strcmp(got, "system") ? 2 : 3;
        if (is != clock)
            ck_assert(clock == 3 && is == 2);
        json_object_put(j);
        test_output_done(&o);
        (void) session_stop("Words");
        check_header(file, is, before, after);
    }
    test_daemon_stop(d);
    test_daemon_free(d);
    free(file);
}
END_TEST

/* The kernel's events, by any clock: a process that runs between two readings of the clock. */
START_TEST(kernel_events)
{
    static const char *const words[] = {"", "qpc", "system", "cycle"};
    struct test_daemon *d;
    struct test_output o;

    test_need_root();
    d = test_daemon_start();
    char *file = test_path("kernel.etl");
    test_etwctl_ok(&o, "start", "--kernel", "--flags", "process", "-o", file, "--clock", words[_i]);
    test_output_done(&o);
    uint64_t before = etw_filetime_now() - NEAR;
    test_run_ok(&o, "/bin/true");
    test_output_done(&o);
    uint64_t after = etw_filetime_now() + NEAR;
    test_etwctl_ok(&o, "stop", "--kernel");
    test_output_done(&o);
    test_etwctl_ok(&o, "dump", "--json", file);
    struct json_object *lines = test_json_lines(o.out);
    unsigned found = 0;
    for (size_t i = 0; i < json_object_array_length(lines); i++) {
        struct json_object *e = json_object_array_get_idx(lines, i);
        struct json_object *name;
        if (strcmp(test_json_str(e, "provider.name"), "Process") != 0 ||
            strcmp(test_json_str(e, "event"), "Start") != 0 ||
            !json_object_object_get_ex(test_json_get(e, "payload"), "ImageFileName", &name) ||
            strcmp(json_object_get_string(name), "true") != 0 ||
            test_json_u64(test_json_get(e, "payload"), "ParentId") != (uint64_t) getpid())
            continue;
        uint64_t at = test_json_u64(e, "filetime");
        ck_assert_uint_ge(at, before);
        ck_assert_uint_le(at, after);
        found++;
    }
    ck_assert_uint_ge(found, 1);
    json_object_put(lines);
    test_output_done(&o);
    test_daemon_stop(d);
    test_daemon_free(d);
    free(file);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("clocks");
    TCase *t = tcase_create("clocks");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, each_clock, 0, 4);
    tcase_add_loop_test(t, over_a_death, 1, 4);
    tcase_add_test(t, by_etwctl);
    tcase_add_loop_test(t, kernel_events, 1, 4);
    suite_add_tcase(s, t);
    return s;
}

int main(int argc, char **argv)
{
    provider_tests_init(argc, argv);
    return test_main(suite());
}
