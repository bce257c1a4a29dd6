/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions of all kinds, started and stopped again and again beside one that stays: etwd's memory
 * and descriptors stay what they were, and nothing is lost uncounted. The number of cycles is the
 * second argument.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <evntprov.h>

#include "provider-tests.h"

static int cycles = 100;

static uint64_t events; /* written so far */

static void write_some(REGHANDLE h, int n)
{
    for (int i = 0; i < n; i++) {
        EVENT_DESCRIPTOR descriptor;
        EVENT_DATA_DESCRIPTOR data;
        uint8_t buf[NUMBERED_MAX];
        EventDescCreate(&descriptor, numbered_id(events), 0, 0, NUMBERED_LEVEL, 0, 0,
                        NUMBERED_KEYWORD);
        EventDataDescCreate(&data, buf, numbered_make(buf, 0, events));
        ck_assert_uint_eq(EventWrite(h, &descriptor, 1, &data), ERROR_SUCCESS);
        events++;
    }
}

/* One of each kind in turn. */
static void cycle(int i, const char *const files[2], REGHANDLE h)
{
    static const ULONG modes[] = {0, EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING,
                                  EVENT_TRACE_USE_LOCAL_SEQUENCE, EVENT_TRACE_USE_GLOBAL_SEQUENCE};
    TRACEHANDLE a = session_start("a", files[0], i % 3 ? 0 : 4, 0, i % 5 ? 0 : 64, modes[i % 4]);
    uint64_t written;

    if (i % 2)
        session_enable(a, 1);
    if (i % 7 == 0) { /* two at once */
        session_enable(session_start("b", files[1], 0, 0, 0, 0), 1);
        write_some(h, 10);
        ck_assert_uint_eq(session_stop("b").lost, 0);
    }
    write_some(h, 5);
    struct session_counts c = session_stop("a");
    ck_assert_uint_eq(c.lost, 0);
    written = c.written;
    if (i % 2)
        ck_assert_uint_ge(written, 5);
}

static size_t settled_fds(pid_t pid, size_t wanted)
{
    size_t n = 0;
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100; i++) {
        n = test_count_fds(pid);
        if (n <= wanted)
            break;
        usleep(10000); /* what is closed is closed after the answer */
    }
    return n;
}

START_TEST(start_and_stop)
{
    const GUID g = NUMBERED_GUID(1);
    static struct tally t;
    char *const files[2] = {test_path("a.etl"), test_path("b.etl")}, *stays = test_path("s.etl");
    int n = test_scale(cycles), warm = n / 10 + 5;
    struct test_daemon *d = test_daemon_start();
    REGHANDLE h;

    session_enable(session_start("stays", stays, 0, 0, 512, 0), 1);
    ck_assert_uint_eq(EventRegister(&g, NULL, NULL, &h), ERROR_SUCCESS);
    for (int i = 0; i < warm; i++)
        cycle(i, (const char *const *) files, h);
    size_t fds = test_count_fds(d->pid), kb = test_resident_kb(d->pid);
    for (int i = 0; i < n; i++)
        cycle(i, (const char *const *) files, h);
    ck_assert_uint_le(settled_fds(d->pid, fds), fds);
    size_t now = test_resident_kb(d->pid);
    fprintf(stderr, "%d cycles: %zu descriptors, resident %zu KiB, then %zu KiB\n", n, fds, kb,
            now);
    /* A leak of the smallest part of a session would be a KiB a cycle. A sanitizer keeps what was
     * freed; the session that stays may have got further buffers. */
    if (!getenv("ETW_SANITIZED"))
        ck_assert_msg(now <= kb + 2048 + (size_t) n / 8, "resident memory grew from %zu to %zu KiB",
                      kb, now);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
    ck_assert_uint_eq(session_stop("stays").lost, 0);
    tally_file(&t, stays);
    tally_sound(&t);
    tally_complete(&t, 0, events);
    test_daemon_stop(d);
    test_daemon_free(d);
    free(files[0]);
    free(files[1]);
    free(stays);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("session-cycles");
    TCase *t = tcase_create("session-cycles");
    tcase_set_timeout(t, 7200);
    tcase_add_test(t, start_and_stop);
    suite_add_tcase(s, t);
    return s;
}

int main(int argc, char **argv)
{
    provider_tests_init(argc, argv);
    if (argc > 2)
        cycles = atoi(argv[2]);
    return test_main(suite());
}
