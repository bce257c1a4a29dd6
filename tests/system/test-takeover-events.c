/* SPDX-License-Identifier: Apache-2.0
 *
 * A killed etwd and its successor while programs write events: each event that a call took is in
 * the file once, in the order of its thread; enables go on; a program that dies while nobody reads
 * its rings loses nothing.
 *
 *     test-takeover-events PROVIDER-PROGRAM KILLS
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/properties.h"
#include "lib/manager.h"
#include "provider-tests.h"

static struct test_manager *manager;
static int kills;

static void begin(void)
{
    static const struct test_manager_options none;
    manager = test_manager_start(&none);
}

static void end(void)
{
    test_manager_stop(manager);
    char *log = test_manager_log(manager);
    ck_assert_msg(!strstr(log, "Sanitizer"), "%s", log);
    free(log);
    manager = test_manager_free(manager);
}

/* All that its calls took: each source has the numbers that it says. */
static void check_sources(const struct tally *t, const struct provider *p, unsigned first,
                          unsigned threads)
{
    for (unsigned i = 0; i < threads; i++)
        tally_complete(t, first + i, p->page->threads[i].returned);
}

/* A stop waits for half a second only; a slow machine may need longer for what is in the rings. */
static void wait_recorded(const char *name, uint64_t events)
{
    uint64_t recorded = 0;
    for (int i = 0; i < TEST_HANG_LIMIT_S * 10; i++) {
        recorded = session_show(name).recorded;
        if (recorded >= events)
            return;
        usleep(100000);
    }
    struct test_output o;
    test_etwctl(&o, "show", name, "--json"); /* its losses, by cause */
    ck_abort_msg("%llu events of %llu arrived: %s; etwd wrote:\n%s", (unsigned long long) recorded,
                 (unsigned long long) events, o.out, test_manager_log(manager));
}

static int by_value(const void *a, const void *b)
{
    unsigned long long x = *(const unsigned long long *) a, y = *(const unsigned long long *) b;
    return x < y ? -1 : x > y;
}

static void more_buffers(TRACEHANDLE h, ULONG maximum)
{
    struct test_properties t;
    properties_init(&t, NULL);
    t.p.MaximumBuffers = maximum;
    ULONG code = ControlTraceA(h, NULL, &t.p, EVENT_TRACE_CONTROL_UPDATE);
    ck_assert_msg(code == ERROR_SUCCESS, "UPDATE: %u", code);
    ck_assert_uint_eq(t.p.MaximumBuffers, maximum);
}

/* 200 000 events a second from four threads of three programs, and etwd killed at any moment. */
START_TEST(each_event_once)
{
    static struct tally t;
    struct provider p[3];
    unsigned seed = 4711, threads[3] = {2, 1, 1};
    unsigned long long *pauses = calloc((size_t) kills, sizeof(*pauses));
    char *file = test_path("once.etl");

    begin();
    /* Room for what comes while the successor starts on a loaded machine. */
    TRACEHANDLE h = session_start("once", file, 64, 0, 1024, 0);
    session_enable(h, 1);
    provider_start(&p[0], "guid=1", "threads=2", "source=0", "count=0", "rate=50000", "retry=1");
    provider_start(&p[1], "guid=1", "threads=1", "source=2", "count=0", "rate=50000", "retry=1");
    provider_start(&p[2], "guid=1", "threads=1", "source=3", "count=0", "rate=50000", "retry=1");
    for (int i = 0; i < 3; i++)
        provider_wait_ready(&p[i], threads[i]);
    for (int i = 0; i < kills; i++) {
        usleep((useconds_t) (rand_r(&seed) % 250000) + 1000);
        test_manager_kill(manager);
        pauses[i] = test_manager_pause_ns(manager);
        if (i % 8 == 0)
            test_loss_identity("once");
        if (i % 3 == 0) /* more buffers: its books move */
            more_buffers(h, 1024 + 16 * (ULONG) (i + 1));
    }
    usleep(100000);
    uint64_t taken = 0, full = 0;
    for (int i = 0; i < 3; i++) {
        p[i].page->stop = 1;
        provider_end(&p[i]);
        taken += provider_returned(&p[i]);
        full += provider_ring_full(&p[i]);
        ck_assert_uint_eq(provider_attempts(&p[i]),
                          provider_returned(&p[i]) + provider_ring_full(&p[i]));
    }
    wait_recorded("once", taken);
    struct session_counts k = session_stop("once");
    qsort(pauses, (size_t) kills, sizeof(*pauses), by_value);
    int middle = kills / 2, high = kills * 99 / 100;
    double p50 = (double) pauses[middle], p99 = (double) pauses[high];
    printf("%d kills: %llu events, %llu tried again, pause p50 %.1f ms, p99 %.1f ms\n", kills,
           (unsigned long long) taken, (unsigned long long) full, p50 / 1e6, p99 / 1e6);
    tally_file(&t, file);
    check_sources(&t, &p[0], 0, 2);
    check_sources(&t, &p[1], 2, 1);
    check_sources(&t, &p[2], 3, 1);
    ck_assert_uint_eq(t.ours, taken);
    ck_assert_uint_eq(t.bad, 0);
    ck_assert_uint_gt(taken, (uint64_t) kills * 100);
    ck_assert_uint_eq(k.ring_full, full);
    ck_assert_uint_eq(k.lost, full);
    for (int i = 0; i < 3; i++)
        provider_free(&p[i]);
    free(pauses);
    free(file);
    end();
}
END_TEST

/* etwd's state memfd, opened once more. */
static int state_open(pid_t pid)
{
    char path[64], link[64];
    for (int fd = 3; fd < 4096; fd++) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) pid, fd);
        ssize_t n = readlink(path, link, sizeof(link) - 1);
        if (n < 0)
            continue;
        link[n] = '\0';
        if (strncmp(link, "/memfd:etwd-state", 17) == 0)
            return open(path, O_RDONLY | O_CLOEXEC);
    }
    return -1;
}

static char process_state(pid_t pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    char *text = test_read_file(path, NULL), *end = strrchr(text, ')');
    if (end)
        state = end[2];
    free(text);
    return state;
}

/* Stops it at some instruction between a change of its state and the end of that transaction. */
static bool stop_inside(pid_t pid, int state_fd, unsigned *seed)
{
    for (int i = 0; i < 50000; i++) {
        uint64_t journal_used;
        ck_assert_int_eq(kill(pid, SIGSTOP), 0);
        while (process_state(pid) != 'T')
            sched_yield();
        ck_assert_int_eq(pread(state_fd, &journal_used, 8, 24), 8);
        if (journal_used != 0)
            return true;
        ck_assert_int_eq(kill(pid, SIGCONT), 0);
        usleep((useconds_t) (rand_r(seed) % 300));
    }
    return false;
}

/* Killed in the middle of what it writes down for a successor, which therefore undoes it. */
START_TEST(killed_inside)
{
    static const char *const args[] = {"-o", "PassIntervalUs=200", NULL};
    static struct tally t;
    struct provider p[2];
    unsigned seed = 99;
    int rounds = kills < 20 ? 6 : kills / 2, inside = 0;
    char *file = test_path("inside.etl");

    manager = test_manager_start(&(struct test_manager_options){.args = args});
    int fd = state_open(test_manager_pid(manager));
    if (fd < 0)
        test_skip("the state of etwd cannot be looked at: %m");
    TRACEHANDLE h = session_start("inside", file, 64, 0, 2048, 0);
    session_enable(h, 1);
    /* Many rings: much to write down. */
    provider_start(&p[0], "guid=1", "threads=14", "source=0", "count=0", "rate=3000", "retry=1");
    provider_start(&p[1], "guid=1", "threads=14", "source=14", "count=0", "rate=3000", "retry=1");
    provider_wait_ready(&p[0], 14);
    provider_wait_ready(&p[1], 14);
    for (int i = 0; i < rounds; i++) {
        /* The state is the same memfd in each etwd. */
        inside += stop_inside(test_manager_pid(manager), fd, &seed);
        test_manager_kill(manager);
    }
    ck_assert_msg(inside >= rounds / 2, "only %d of %d kills were inside a transaction", inside,
                  rounds);
    p[0].page->stop = p[1].page->stop = 1;
    provider_end(&p[0]);
    provider_end(&p[1]);
    wait_recorded("inside", provider_returned(&p[0]) + provider_returned(&p[1]));
    (void) session_stop("inside");
    tally_file(&t, file);
    check_sources(&t, &p[0], 0, 14);
    check_sources(&t, &p[1], 14, 14);
    ck_assert_uint_eq(t.ours, provider_returned(&p[0]) + provider_returned(&p[1]));
    provider_free(&p[0]);
    provider_free(&p[1]);
    close(fd);
    free(file);
    end();
}
END_TEST

/* While nobody reads: what a program wrote before it died is there, and what it writes meanwhile.
 */
START_TEST(writers_die_meanwhile)
{
    static struct tally t;
    struct provider dies, lives;
    char *file = test_path("meanwhile.etl");

    begin();
    TRACEHANDLE h = session_start("meanwhile", file, 64, 0, 0, 0);
    session_enable(h, 1);
    provider_start(&dies, "guid=1", "source=0", "count=500", "go=1");
    provider_start(&lives, "guid=1", "source=1", "count=500", "go=1");
    provider_wait_ready(&dies, 1);
    provider_wait_ready(&lives, 1);
    test_manager_kill(manager); /* both are known to a successor */
    kill(test_manager_pid(manager), SIGSTOP);
    dies.page->go = lives.page->go = 1;
    while (!dies.page->ended || !lives.page->ended)
        usleep(1000);
    ck_assert_uint_eq(provider_returned(&dies), 500);
    provider_kill(&dies);
    test_manager_kill(manager);
    provider_end(&lives);
    wait_recorded("meanwhile", 1000);
    struct session_counts k = session_stop("meanwhile");
    tally_file(&t, file);
    tally_complete(&t, 0, 500);
    tally_complete(&t, 1, 500);
    ck_assert_uint_eq(k.lost, 0);
    provider_free(&dies);
    provider_free(&lives);
    free(file);
    end();
}
END_TEST

/* Enables outlive etwd: of programs that are there, of those that come later; and a stop is a stop.
 */
START_TEST(enables_go_on)
{
    static struct tally t;
    struct provider before, after;
    char *one = test_path("one.etl"), *two = test_path("two.etl");

    begin();
    TRACEHANDLE h1 = session_start("one", one, 64, 0, 0, 0);
    TRACEHANDLE h2 = session_start("two", two, 64, 0, 0, 0);
    session_enable(h1, 1);
    session_enable(h2, 1);
    provider_start(&before, "guid=1", "source=0", "count=1000", "go=1");
    provider_wait_ready(&before, 1);
    test_manager_kill(manager);
    provider_start(&after, "guid=1", "source=1", "count=1000");
    provider_end(&after);
    before.page->go = 1;
    provider_end(&before);
    wait_recorded("two", 2000);
    (void) session_stop("two");
    test_manager_kill(manager);
    struct provider last;
    provider_start(&last, "guid=1", "source=2", "count=1000");
    provider_end(&last);
    wait_recorded("one", 3000);
    (void) session_stop("one");
    tally_file(&t, one);
    tally_complete(&t, 0, 1000);
    tally_complete(&t, 1, 1000);
    tally_complete(&t, 2, 1000);
    tally_file(&t, two);
    tally_complete(&t, 0, 1000);
    tally_complete(&t, 1, 1000);
    tally_complete(&t, 2, 0);
    provider_free(&before);
    provider_free(&after);
    provider_free(&last);
    free(one);
    free(two);
    end();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("takeover-events");
    TCase *c = tcase_create("takeover-events");
    tcase_set_timeout(c, 3000);
    tcase_add_test(c, each_event_once);
    tcase_add_test(c, killed_inside);
    tcase_add_test(c, writers_die_meanwhile);
    tcase_add_test(c, enables_go_on);
    suite_add_tcase(s, c);
    return s;
}

int main(int argc, char **argv)
{
    provider_tests_init(argc, argv);
    kills = argc > 2 ? atoi(argv[2]) : 0;
    if (kills < 1) {
        fprintf(stderr, "usage: %s PROVIDER-PROGRAM KILLS\n", argv[0]);
        return 2;
    }
    return test_main(suite());
}
