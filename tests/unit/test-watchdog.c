/* SPDX-License-Identifier: Apache-2.0
 *
 * The watchdog hears from us while the router makes way, and not while it does not, however well
 * the loop's timers run.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "io/loop.h"
#include "lib/test.h"
#include "router/router.h"
#include "watchdog.h"

#define PERIOD_US 40000u

static struct loop *l;
static struct router *router;
static struct watchdog *watchdog;
static struct loop_timer *end_timer;
static int notify_fd;

/* A source without records that vouches for what it is told. */
static uint64_t vouched; /* 0: the present */

static uint64_t source_begin(struct router_source *s, uint64_t now)
{
    return vouched ? vouched : now;
}

static const struct etl_record *source_peek(struct router_source *s, uint64_t *ret_stamp)
{
    return NULL;
}

static void source_nothing(struct router_source *s)
{
}

static const struct router_source_ops ops = {
    .name = "fake",
    .begin = source_begin,
    .peek = source_peek,
    .pop = source_nothing,
    .commit = source_nothing,
};
static struct router_source source = {.ops = &ops};

static void time_is_up(void *userdata)
{
    loop_exit(l, 0);
}

static unsigned words(void)
{
    char text[256];
    unsigned n = 0;
    for (ssize_t size; (size = recv(notify_fd, text, sizeof(text) - 1, MSG_DONTWAIT)) > 0;) {
        text[size] = '\0';
        n += strstr(text, "WATCHDOG=1") != NULL;
    }
    return n;
}

/* What was said while the loop ran for so long. */
static unsigned run_for(unsigned periods)
{
    (void) words();
    ck_assert_int_eq(
        loop_timer_arm(end_timer, etw_clock_boottime() + periods * PERIOD_US * 1000ULL), 0);
    ck_assert_int_eq(loop_run(l), 0);
    return words();
}

static void begin(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char *path = test_path("notify");
    ck_assert_uint_lt(strlen(path), sizeof(a.sun_path));
    strcpy(a.sun_path, path);
    (void) unlink(path);
    notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(notify_fd, 0);
    ck_assert_int_eq(bind(notify_fd, (struct sockaddr *) &a, sizeof(a)), 0);
    setenv("NOTIFY_SOCKET", path, 1);
    free(path);
    vouched = 0;
    ck_assert_int_eq(loop_new(&l), 0);
    ck_assert_int_eq(router_new(l, 3000000, &router), 0);
    ck_assert_int_eq(loop_timer_new(l, time_is_up, NULL, &end_timer), 0);
    ck_assert_int_eq(watchdog_new(l, router, PERIOD_US, &watchdog), 0);
}

static void end(void)
{
    watchdog = watchdog_free(watchdog);
    end_timer = loop_timer_free(end_timer);
    router = router_free(router);
    l = loop_free(l);
    safe_close(notify_fd);
    unsetenv("NOTIFY_SOCKET");
}

static unsigned run_until_heard(void)
{
    unsigned n = 0;
    for (int i = 0; n == 0 && i < 1000; i++)
        n = run_for(1);
    return n;
}

START_TEST(idle_router_is_well)
{
    begin();
    ck_assert_uint_gt(run_until_heard(), 0);
    ck_assert_uint_gt(run_until_heard(), 0);
    end();
}
END_TEST

START_TEST(router_that_hangs)
{
    begin();
    ck_assert_int_eq(router_add_source(router, &source), 0);
    ck_assert_uint_gt(run_until_heard(), 0);
    vouched = router_emitted(router);
    ck_assert_uint_gt(vouched, 0);
    (void) run_for(1); /* one that was asked before */
    /* A drain gives up after half a second. */
    ck_assert_uint_eq(run_for(1500000 / PERIOD_US), 0);
    vouched = 0;
    ck_assert_uint_gt(run_until_heard(), 0);
    router_remove_source(router, &source);
    end();
}
END_TEST

/* Beyond its strength, but it moves. */
START_TEST(router_that_is_late)
{
    begin();
    ck_assert_int_eq(router_add_source(router, &source), 0);
    ck_assert_uint_gt(run_until_heard(), 0);
    unsigned n = 0;
    for (int i = 0; n < 3 && i < 1000; i++) {
        vouched = router_emitted(router) + 1000;
        n += run_for(1);
    }
    ck_assert_uint_eq(n, 3);
    router_remove_source(router, &source);
    end();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("watchdog");
    TCase *c = tcase_create("watchdog");
    tcase_add_test(c, idle_router_is_well);
    tcase_add_test(c, router_that_hangs);
    tcase_add_test(c, router_that_is_late);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_main(suite());
}
