/* SPDX-License-Identifier: Apache-2.0
 *
 * Providers under load, and what is lost then: a million events a second, rings far too small, a
 * loud neighbour, many threads on one processor that are stopped anywhere, providers that die
 * anywhere, providers that live for a moment, and the system calls of a writer. Every test checks
 * what is in the file against what the writers' calls returned, to the event.
 *
 *     test-provider-load PROVIDER-PROGRAM quick|long
 *
 * quick: a share of the counts. Rates are what is asked of the writers: on a machine that is too
 * busy they are slower, and the test is as good.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "provider-tests.h"
#include "shm/abi.h"

#define SESSION "load"

extern char **environ;

static bool long_run;
static struct test_daemon *d;
static char *file;
static struct tally tally;

static void setup(void)
{
    d = test_daemon_start();
    file = test_path("load.etl");
}

static void setup_small_rings(void)
{
    d = test_daemon_start("-o", "RingSizeKB=4");
    file = test_path("load.etl");
}

static void teardown(void)
{
    test_daemon_alive(d);
    test_daemon_stop(d);
    d = test_daemon_free(d);
    (void) unlink(file);
    free(file);
}

/* `quick` scaled, or `full` of the long suite. */
static int amount(int quick, int full)
{
    return long_run ? full : test_scale(quick);
}

static const char *arg(const char *key, long value)
{
    static char text[16][48];
    static unsigned at;
    char *s = text[at++ % 16];

    snprintf(s, sizeof(text[0]), "%s=%ld", key, value);
    return s;
}

static uint64_t random_below(uint64_t n)
{
    static uint64_t x = 88172645463325252ull;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x % n;
}

/* Ends the session and compares three accounts: the writers' return codes, the session's counters,
 * the file. */
static struct session_counts settle(const struct provider *const providers[], size_t n)
{
    uint64_t attempts = 0, ring_full = 0, own;
    struct session_counts c = session_stop(SESSION);
    struct walk w;

    tally_file(&tally, file);
    tally_sound(&tally);
    walk_file(&w, file);
    for (size_t i = 0; i < n; i++) {
        attempts += provider_attempts(providers[i]);
        ring_full += provider_ring_full(providers[i]);
    }
    ck_assert_uint_eq(w.events, c.recorded);
    ck_assert_uint_eq(w.events_lost, c.lost);
    ck_assert_uint_eq(c.ring_full, ring_full);
    ck_assert_uint_eq(c.nested + c.too_big + c.invalid + c.slow_consumer + c.disk, 0);
    ck_assert_uint_eq(c.lost, c.ring_full + c.no_buffer);
    /* etwd's own events are few and early enough not to be lost. */
    own = w.events - w.ours;
    ck_assert_uint_eq(c.written, attempts + own);
    ck_assert_uint_eq(w.ours, attempts - c.lost);
    return c;
}

/* A million events a second from four threads: nothing is lost. A machine that gives etwd no time
 * for 8 ms loses some, so further tries are allowed; each must be exact. The quick suite, which
 * others may disturb, asks for a fifth of it: 40 ms. */
START_TEST(million_a_second)
{
    long rate = slow_build() ? 10000 : long_run ? 250000 : 50000;
    long count = amount((int) rate, (int) (30 * rate));
    int tries = 5;

    for (int i = 0; i < tries; i++) {
        struct session_counts c;
        struct provider p;
        uint64_t elapsed;

        session_enable(session_start(SESSION, file, 0, 0, 0, 0), 1);
        provider_start(&p, "guid=1", "threads=4", "go=1", arg("rate", rate), arg("count", count));
        provider_wait_ready(&p, 4);
        p.page->go = 1;
        provider_end(&p);
        elapsed = p.page->elapsed_ns;
        c = settle((const struct provider *[]){&p}, 1);
        fprintf(stderr, "%lld events in %.2f s: %.0f a second, %llu lost\n", 4LL * count,
                (double) elapsed / 1e9, (double) (4 * count) * 1e9 / (double) elapsed,
                (unsigned long long) c.lost);
        ck_assert_uint_eq(provider_attempts(&p), 4 * (uint64_t) count);
        provider_free(&p);
        if (c.lost == 0) {
            for (uint32_t s = 0; s < 4; s++)
                tally_complete(&tally, s, (uint64_t) count);
            return;
        }
    }
    ck_abort_msg("events were lost in each of %d runs", tries);
}
END_TEST

/* Rings of 4 KiB beside programs that use the processors up: events are lost in heaps, and the
 * accounts agree to the event. */
START_TEST(small_rings_beside_a_noisy_load)
{
    static const struct {
        const char *threads, *rate;
        ULONG buffer_kb, buffers;
    } runs[] = {{"threads=4", "rate=0", 0, 0},
                {"threads=16", "rate=0", 4, 4},
                {"threads=4", "rate=100000", 64, 2},
                {"threads=1", "rate=0", 1024, 0}};
    long count = amount(20000, 1000000);
    uint64_t lost = 0;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    pid_t hogs[4];

    for (long i = 0; i < 4; i++)
        hogs[i] = hog_start((int) (i % cpus));
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        struct provider p, noise;
        struct session_counts c;

        session_enable(
            session_start(SESSION, file, runs[i].buffer_kb, runs[i].buffers, runs[i].buffers, 0),
            2);
        provider_start(&noise, "guid=2", "source=100", "threads=2", "count=0", "rate=50000");
        provider_start(&p, "guid=2", "go=1", runs[i].threads, runs[i].rate, arg("count", count));
        provider_wait_ready(&noise, 2);
        provider_wait_ready(&p, 1);
        p.page->go = 1;
        provider_end(&p);
        noise.page->stop = 1;
        provider_end(&noise);
        c = settle((const struct provider *[]){&p, &noise}, 2);
        fprintf(stderr, "run %zu: %llu written, %llu lost for lack of room, %llu of buffers\n", i,
                (unsigned long long) c.written, (unsigned long long) c.ring_full,
                (unsigned long long) c.no_buffer);
        ck_assert_uint_gt(tally.ours, 0);
        lost += c.lost;
        provider_free(&p);
        provider_free(&noise);
    }
    for (int i = 0; i < 4; i++)
        hog_end(hogs[i]);
    ck_assert_msg(lost > 0, "nothing was ever lost: this test shows nothing");
}
END_TEST

/* Two million events a second beside a hundred a second: the quiet provider loses nothing. */
START_TEST(quiet_provider_beside_a_loud_one)
{
    long count = amount(150, 1000);
    struct provider loud, quiet;
    struct session_counts c;
    TRACEHANDLE h;

    /* Room for what the loud one writes while the disk is busy. */
    h = session_start(SESSION, file, 0, 0, 1024, 0);
    session_enable(h, 3);
    session_enable(h, 4);
    provider_start(&loud, "guid=3", "threads=2", "count=0",
                   slow_build() ? "rate=20000" : "rate=1000000");
    provider_start(&quiet, "guid=4", "source=10", "rate=100", arg("count", count));
    provider_wait_ready(&loud, 2);
    provider_end(&quiet);
    loud.page->stop = 1;
    provider_end(&loud);
    c = settle((const struct provider *[]){&loud, &quiet}, 2);
    fprintf(stderr, "loud: %llu written, %llu lost\n",
            (unsigned long long) provider_attempts(&loud), (unsigned long long) c.lost);
    ck_assert_uint_gt(provider_returned(&loud), (uint64_t) count);
    ck_assert_uint_eq(provider_ring_full(&quiet), 0);
    tally_complete(&tally, 10, (uint64_t) count);
    provider_free(&loud);
    provider_free(&quiet);
}
END_TEST

/* 64 threads on one processor, which is never idle, stopped at any instruction, often for longer
 * than etwd waits: in no buffer does time go backwards, and ProcessTrace delivers sorted. */
START_TEST(stopped_writers_on_one_processor)
{
    int stops = amount(20, 500);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct provider p;
    struct walk w;
    pid_t hogs[4];

    for (long i = 0; i < 4; i++)
        hogs[i] = hog_start((int) (i % cpus));
    session_enable(session_start(SESSION, file, 0, 0, 0, 0), 5);
    provider_start(&p, "guid=5", "threads=64", "count=0", "cpu=0");
    provider_wait_ready(&p, 64);
    for (int i = 0; i < stops; i++) {
        usleep((useconds_t) random_below(8000));
        ck_assert_int_eq(kill(p.pid, SIGSTOP), 0);
        usleep((useconds_t) random_below(i % 2 ? 300000 : 20000));
        ck_assert_int_eq(kill(p.pid, SIGCONT), 0);
    }
    p.page->stop = 1;
    provider_end(&p);
    for (int i = 0; i < 4; i++)
        hog_end(hogs[i]);
    (void) settle((const struct provider *[]){&p}, 1);
    walk_file(&w, file);
    ck_assert_uint_eq(w.backwards, 0);
    fprintf(stderr, "%llu events in %llu buffers, %llu of them late\n",
            (unsigned long long) w.events, (unsigned long long) w.buffers,
            (unsigned long long) w.late);
    if (long_run)
        ck_assert_msg(w.late > 0, "no writer was ever late: this test shows nothing");
    provider_free(&p);
}
END_TEST

/* Spins: sleeping would end at a scheduler's tick. */
static void spin_ns(uint64_t ns)
{
    struct timespec a, b;

    clock_gettime(CLOCK_MONOTONIC, &a);
    do
        clock_gettime(CLOCK_MONOTONIC, &b);
    while ((uint64_t) (b.tv_sec - a.tv_sec) * 1000000000u + (uint64_t) b.tv_nsec -
               (uint64_t) a.tv_nsec <
           ns);
}

#define KILLS_A_SESSION 50

/* Providers killed at any point of writing (or before): `stop` returns, each event whose call
 * returned is in the file, at most one more of each thread, and nothing else. */
START_TEST(killed_writers)
{
    static struct provider p[KILLS_A_SESSION];
    int kills = amount(100, 10000);
    uint64_t total = 0, unfinished = 0;

    for (int done = 0; done < kills; done += KILLS_A_SESSION) {
        int n = kills - done < KILLS_A_SESSION ? kills - done : KILLS_A_SESSION;
        uint64_t ring_full = 0, sum = 0;
        struct session_counts c;
        struct walk w;

        session_enable(session_start(SESSION, file, 0, 0, 256, 0), 6);
        for (int i = 0; i < n; i++) {
            provider_start(&p[i], "guid=6", "threads=2", "count=0", "retry=1",
                           arg("source", 2 * i));
            if (i % 4 != 0)
                provider_wait_ready(&p[i], 1 + (unsigned) random_below(2));
            spin_ns(random_below(i % 4 ? 200000 : 4000000));
            provider_kill(&p[i]);
        }
        c = session_stop(SESSION);
        tally_file(&tally, file);
        tally_sound(&tally);
        walk_file(&w, file);
        ck_assert_uint_eq(w.events, c.recorded);
        ck_assert_uint_eq(c.lost, c.ring_full);
        for (int i = 0; i < n; i++) {
            for (uint32_t t = 0; t < 2; t++) {
                uint32_t source = 2 * (uint32_t) i + t;
                uint64_t returned = p[i].page->threads[t].returned;
                uint64_t there = tally.sources[source].count;
                ck_assert_msg(there == returned || there == returned + 1,
                              "thread %u of kill %d: %llu calls returned, %llu events", t, done + i,
                              (unsigned long long) returned, (unsigned long long) there);
                tally_complete(&tally, source, there);
                unfinished += there - returned;
                sum += there;
            }
            ring_full += provider_ring_full(&p[i]);
            provider_free(&p[i]);
        }
        ck_assert_uint_eq(sum, tally.ours);
        ck_assert_msg(c.ring_full >= ring_full && c.ring_full <= ring_full + 2 * (uint64_t) n,
                      "%llu calls found no room, %llu are counted", (unsigned long long) ring_full,
                      (unsigned long long) c.ring_full);
        total += sum;
    }
    fprintf(stderr, "%d kills, %llu events, %llu of them died before they returned\n", kills,
            (unsigned long long) total, (unsigned long long) unfinished);
    ck_assert_uint_gt(total, 0);
}
END_TEST

/* ---- system calls ---- */

struct calls {
    uint64_t pauses; /* clock_nanosleep */
    uint64_t looks;  /* whether a descriptor is still ours, ten times a second at most */
    uint64_t others;
    char last[80];
};

/* What all threads did between the marks, by the log of strace -f. */
static void read_calls(const char *path, struct calls *ret)
{
    char *text = test_read_file(path, NULL);
    unsigned marks = 0;

    *ret = (struct calls){0};
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (strstr(line, "\"MARK\"")) {
            marks++;
            continue;
        }
        if (marks != 1 || strstr(line, " resumed>") || strstr(line, "exited with"))
            continue;
        if (strstr(line, "clock_nanosleep(")) {
            ret->pauses++;
            continue;
        }
        if (strstr(line, "fstat")) {
            ret->looks++;
            continue;
        }
        ret->others++;
        snprintf(ret->last, sizeof(ret->last), "%s", line);
    }
    free(text);
    ck_assert_uint_eq(marks, 2);
}

static void count_calls(const char *rate, long warm, long count)
{
    char *log = test_path("strace");
    const char *argv[] = {"strace",
                          "-f",
                          "-qq",
                          "-o",
                          log,
                          provider_program(),
                          "-",
                          "guid=7",
                          "marks=1",
                          rate,
                          arg("warm", warm),
                          arg("count", count),
                          NULL};
    uint64_t bytes = 0, halves;
    struct test_output o;
    struct calls calls;

    session_enable(session_start(SESSION, file, 0, 0, 0, 0), 7);
    test_run_ok_limit(&o, 300, argv);
    test_output_done(&o);
    (void) session_stop(SESSION);
    tally_file(&tally, file);
    tally_sound(&tally);
    ck_assert_uint_gt(tally.sources[0].count, (uint64_t) count / 100);
    for (long i = warm; i < warm + count; i++)
        bytes += shm_record_size(80 + numbered_size(0, (uint64_t) i));
    halves = bytes / (SHM_RING_SIZE_DEFAULT / 2) + 1;
    read_calls(log, &calls);
    fprintf(stderr,
            "%s: %ld events fill %llu half rings: %llu system calls, %llu looks, "
            "%llu pauses\n",
            rate, count, (unsigned long long) halves, (unsigned long long) calls.others,
            (unsigned long long) calls.looks, (unsigned long long) calls.pauses);
    /* Where the writer is so slow that a tenth of a second passes meanwhile, each has its look. */
    ck_assert_uint_le(calls.looks, calls.others);
    ck_assert_msg(calls.others <= halves, "%llu system calls for %llu half rings; the last one: %s",
                  (unsigned long long) calls.others, (unsigned long long) halves, calls.last);
    free(log);
}

static bool can_strace(void)
{
    struct test_output o;
    bool ok;

    if (system("command -v strace >/dev/null") != 0)
        return false;
    test_run(&o, "strace", "-f", "-qq", "-o", "/dev/null", "true");
    ok = o.status == 0;
    test_output_done(&o);
    return ok;
}

/* A writer makes at most one system call for each half of its ring. */
START_TEST(one_call_a_half_ring)
{
    if (!can_strace())
        test_skip("needs strace, and to be allowed to trace");
    /* The leak checker does not work in a traced program. */
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    count_calls("rate=0", 2000, amount(200000, 5000000));
    count_calls("rate=100000", 2000, amount(100000, 2000000));
    count_calls("rate=5000", 2000, amount(5000, 50000));
}
END_TEST

/* ---- the first events ---- */

static ULONG write_numbered(REGHANDLE h, uint32_t source, uint64_t number)
{
    EVENT_DESCRIPTOR descriptor;
    EVENT_DATA_DESCRIPTOR data;
    uint8_t buf[NUMBERED_MAX];

    EventDescCreate(&descriptor, numbered_id(number), 0, 0, NUMBERED_LEVEL, 0, 0, NUMBERED_KEYWORD);
    EventDataDescCreate(&data, buf, numbered_make(buf, source, number));
    return EventWrite(h, &descriptor, 1, &data);
}

/* The first event after EventRegister, of a provider that was enabled before. */
START_TEST(first_event_of_an_enabled_provider)
{
    const GUID guid = NUMBERED_GUID(8);
    int count = 1000;

    session_enable(session_start(SESSION, file, 0, 0, 0, 0), 8);
    for (int i = 0; i < count; i++) {
        REGHANDLE h;
        ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
        ck_assert_uint_eq(write_numbered(h, 0, (uint64_t) i), ERROR_SUCCESS);
        ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
    }
    ck_assert_uint_eq(session_stop(SESSION).lost, 0);
    tally_file(&tally, file);
    tally_sound(&tally);
    tally_complete(&tally, 0, (uint64_t) count);
    ck_assert_uint_eq(tally.sources[0].pid, (uint32_t) getpid());
}
END_TEST

#define AT_ONCE 8

/* Processes that register, write ten events at once and end. */
START_TEST(short_lived_processes)
{
    int count = amount(150, 1000), running = 0, started = 0;

    ck_assert_int_le(count, TALLY_SOURCES);
    session_enable(session_start(SESSION, file, 0, 0, 0, 0), 9);
    while (started < count || running > 0) {
        if (started < count && running < AT_ONCE) {
            const char *argv[] = {provider_program(),     "-",        "guid=9", "wait=0",
                                  arg("source", started), "count=10", NULL};
            pid_t pid;
            int r = posix_spawn(&pid, argv[0], NULL, NULL, (char *const *) argv, environ);
            ck_assert_int_eq(r, 0);
            started++;
            running++;
            continue;
        }
        int status;
        ck_assert_int_gt(waitpid(-1, &status, 0), 0);
        /* etwd is a child, too. */
        ck_assert_int_eq(status, 0);
        running--;
    }
    ck_assert_uint_eq(session_stop(SESSION).lost, 0);
    tally_file(&tally, file);
    tally_sound(&tally);
    for (int i = 0; i < count; i++)
        tally_complete(&tally, (uint32_t) i, 10);
    ck_assert_uint_eq(tally.ours, 10 * (uint64_t) count);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-load");
    TCase *c = tcase_create("load"), *small = tcase_create("small-rings");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, long_run ? 7200 : 600);
    tcase_add_test(c, first_event_of_an_enabled_provider);
    tcase_add_test(c, short_lived_processes);
    tcase_add_test(c, million_a_second);
    tcase_add_test(c, quiet_provider_beside_a_loud_one);
    tcase_add_test(c, stopped_writers_on_one_processor);
    tcase_add_test(c, killed_writers);
    tcase_add_test(c, one_call_a_half_ring);
    suite_add_tcase(s, c);
    tcase_add_checked_fixture(small, setup_small_rings, teardown);
    tcase_set_timeout(small, long_run ? 7200 : 600);
    tcase_add_test(small, small_rings_beside_a_noisy_load);
    suite_add_tcase(s, small);
    return s;
}

int main(int argc, char **argv)
{
    provider_tests_init(argc, argv);
    if (argc < 3) {
        fprintf(stderr, "usage: %s PROVIDER-PROGRAM quick|long\n", argv[0]);
        return 2;
    }
    long_run = strcmp(argv[2], "long") == 0;
    return test_main(suite());
}
