/* SPDX-License-Identifier: Apache-2.0
 *
 * See watchdog.h. Twice in the manager's time the router is asked for all that is older than now.
 * It has way when it gets there, or, under a load beyond it, when its watermark has moved since the
 * last word. Else nothing is said, and it is asked again soon, so that one slow rundown is no
 * reason to be killed.
 */
#include "watchdog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/loop.h"
#include "router/router.h"

struct watchdog {
    struct router *router;
    struct loop_timer *timer;
    uint64_t period_ns;
    uint64_t emitted; /* the router's watermark at the last word */
};

static void later(struct watchdog *w, uint64_t ns)
{
    (void) loop_timer_arm(w->timer, etw_clock_boottime() + ns); /* its place in the heap is there */
}

static void asked(bool complete, void *userdata)
{
    struct watchdog *w = userdata;
    uint64_t emitted = router_emitted(w->router);

    if (!complete && emitted == w->emitted) {
        log_warning("watchdog: no event older than this moment comes out of the router");
        later(w, w->period_ns / 8);
        return;
    }
    w->emitted = emitted;
    (void) sd_notify(0, "WATCHDOG=1");
    later(w, w->period_ns / 2);
}

static void ask(void *userdata)
{
    struct watchdog *w = userdata;
    int r = router_drain(w->router, etw_clock_boottime(), asked, w);
    if (r < 0) {
        log_warning("watchdog: failed to ask the router: %s", strerror(-r));
        later(w, w->period_ns / 8);
    }
}

int watchdog_new(struct loop *l, struct router *r, uint64_t usec, struct watchdog **ret)
{
    int ret_code;

    struct watchdog *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct watchdog){.router = r, .period_ns = usec * 1000};
    ret_code = loop_timer_new(l, ask, w, &w->timer);
    if (ret_code == 0)
        ret_code = loop_timer_arm(w->timer, etw_clock_boottime());
    if (ret_code < 0) {
        watchdog_free(w);
        return ret_code;
    }
    *ret = w;
    return 0;
}

struct watchdog *watchdog_free(struct watchdog *w)
{
    if (!w)
        return NULL;
    loop_timer_free(w->timer);
    free(w);
    return NULL;
}
