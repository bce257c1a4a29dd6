/* SPDX-License-Identifier: Apache-2.0
 *
 * Provider processes that take more than their share: floods of messages, answers that nobody
 * reads, registrations without number. etwd goes on, and others lose nothing and wait for nothing.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "provider-fixture.h"

/* Of the fixture's etwd. */
#define REGISTRATIONS_OF_A_USER 3000u

static void setup(void)
{
    fixture_begin((const char *const[]){"-o", "MaxRegistrationsPerUser=3000", NULL});
}

static void teardown(void)
{
    fixture_end();
}

/* ---- floods ---- */

static void flood_wakes(const void *arg)
{
    struct raw_provider p;

    open_raw(&p);
    for (int i = 0; i < *(const int *) arg && raw_wake(&p) == 0; i++)
        ;
    raw_done(&p);
}

static void flood_callbacks(const void *arg)
{
    struct raw_provider p;
    uint64_t seed = 9;

    open_raw(&p);
    for (int i = 0; i < *(const int *) arg; i++)
        if (raw_callback_done(&p, i % 2 ? (uint64_t) i : raw_random(&seed)) < 0)
            break;
    raw_done(&p);
}

static void flood_rings(const void *arg)
{
    struct raw_provider p;
    uint32_t status;

    open_raw(&p);
    for (int i = 0; i < *(const int *) arg / 20 && raw_more_rings(&p, &status) == 0; i++)
        if (p.offer.there && p.offer.arena != p.arena_number && i % 3 == 0) {
            /* Maps an arena only to ask for the next. */
            if (raw_map(&p) == 0)
                (void) raw_mapped(&p, p.arena_number, 0, &status);
        }
    raw_done(&p);
}

static void flood_registrations(const void *arg)
{
    struct raw_provider p;
    uint32_t status;

    open_raw(&p);
    for (int i = 0; i < *(const int *) arg / 20; i++) {
        struct etw_guid g = {.data1 = (uint32_t) i};

        if (raw_register(&p, 1, i % 2 ? &attacked_guid : &g, 16, NULL, 0, &status) < 0 ||
            raw_unregister(&p, 1, &status) < 0)
            break;
    }
    raw_done(&p);
}

/* Requests whose answers it never reads. */
static void flood_unread(const void *arg)
{
    struct raw_provider p;
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__MoreRings more = ETWD__MORE_RINGS__INIT;

    open_raw(&p);
    ck_assert_int_eq(fcntl(p.sock, F_SETFL, O_NONBLOCK), 0);
    m.body_case = ETWD__MESSAGE__BODY_MORE_RINGS;
    m.more_rings = &more;
    for (int i = 0; i < *(const int *) arg; i++)
        if (raw_send(&p, &m, NULL, 0, true) < 0)
            usleep(1000);
    raw_done(&p);
}

START_TEST(floods)
{
    int n = test_scale(40000);

    attack("wakes", flood_wakes, &n);
    attack("callbacks that nobody waits for", flood_callbacks, &n);
    attack("requests for rings", flood_rings, &n);
    attack("registrations", flood_registrations, &n);
    n = 2000;
    attack("answers that nobody reads", flood_unread, &n);
}
END_TEST

/* The honest provider lives beside a flood that does not end. */
START_TEST(flood_beside)
{
    int n = INT32_MAX;
    pid_t pid[2];

    for (size_t i = 0; i < ARRAY_SIZE(pid); i++)
        pid[i] = attack_begin(attacker_uid(), i == 0 ? flood_wakes : flood_rings, &n);
    for (int i = 0; i < test_scale(20); i++)
        check_well("beside floods");
    for (size_t i = 0; i < ARRAY_SIZE(pid); i++) {
        kill(pid[i], SIGKILL);
        attack_end("floods", pid[i]);
    }
}
END_TEST

/* ---- more than its share ---- */

/* Registers as many as it may, says how many there were, waits to be killed. */
static void registers_all(const void *arg)
{
    int out = *(const int *) arg;
    struct raw_provider p;
    uint32_t status = 0, n = 0, extra = 0;

    attach_raw(&p);
    while (n < 1024) {
        struct etw_guid g = {.data1 = n, .data2 = 1};

        ck_assert_int_eq(raw_register(&p, n, &g, 16, NULL, 0, &status), 0);
        if (status != 0)
            break;
        n++;
    }
    if (status == 0)
        (void) raw_register(&p, 1024, &attacked_guid, 16, NULL, 0, &extra);
    if (status == 0 && extra == 0)
        n = UINT32_MAX;
    ck_assert_int_eq(write(out, &n, sizeof(n)), sizeof(n));
    for (;;)
        (void) pause();
}

START_TEST(more_than_its_share)
{
    pid_t pid[4];
    int pipes[2];
    uint32_t total = 0;

    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    for (size_t i = 0; i < ARRAY_SIZE(pid); i++) {
        uint32_t n = 0;

        pid[i] = attack_begin(attacker_uid(), registers_all, &pipes[1]);
        ck_assert_int_eq(read(pipes[0], &n, sizeof(n)), sizeof(n));
        ck_assert_msg(n <= 1024, "the 1025th registration was accepted");
        total += n;
        check_well("a registration quota");
    }
    if (attacker_uid() == geteuid())
        total += 1; /* the honest one's */
    ck_assert_uint_eq(total, REGISTRATIONS_OF_A_USER);
    for (size_t i = 0; i < ARRAY_SIZE(pid); i++) {
        kill(pid[i], SIGKILL);
        attack_end("a registration quota", pid[i]);
    }
    /* They are free again. */
    for (int i = 0;; i++) {
        uint32_t n = 0;

        pid[0] = attack_begin(attacker_uid(), registers_all, &pipes[1]);
        ck_assert_int_eq(read(pipes[0], &n, sizeof(n)), sizeof(n));
        kill(pid[0], SIGKILL);
        attack_end("the quota again", pid[0]);
        if (n == 1024)
            break;
        ck_assert_int_lt(i, TEST_HANG_LIMIT_S);
        usleep(100000);
    }
    safe_close(pipes[0]);
    safe_close(pipes[1]);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-floods");
    TCase *t = tcase_create("attacks");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, floods);
    tcase_add_test(t, flood_beside);
    tcase_add_test(t, more_than_its_share);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
