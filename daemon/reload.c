/* SPDX-License-Identifier: Apache-2.0
 *
 * See reload.h.
 */
#include "reload.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/uid_workers.h"
#include "options.h"

struct reload {
    struct options *options;
    struct uid_workers *workers;
    struct uid_worker *worker; /* while a job is under way */
    bool again;
    /* The job's. */
    struct etw_conf next;
    int complaints;
};

int reload_new(struct options *options, struct uid_workers *workers, struct reload **ret)
{
    struct reload *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    *r = (struct reload){.options = options, .workers = workers};
    *ret = r;
    return 0;
}

struct reload *reload_free(struct reload *r)
{
    free(r);
    return NULL;
}

static void complain(void *userdata, const char *file, unsigned line, const char *reason)
{
    if (line)
        log_error("%s:%u: %s", file, line, reason);
    else
        log_error("%s: %s", file, reason);
}

static void load_run(void *userdata)
{
    struct reload *r = userdata;
    r->complaints = options_conf_load(r->options, &r->next, complain, NULL);
}

static void changed(void *userdata, const char *key, const char *from)
{
    if (from)
        log_notice("configuration: %s is changed, %s", key, from);
    else
        log_warning("configuration: %s is changed: takes effect when etwd is restarted", key);
}

static void load_done(void *userdata)
{
    struct reload *r = userdata;

    uid_worker_put(r->worker);
    r->worker = NULL;
    if (r->complaints == 0) {
        etw_conf_reload(&r->options->conf, &r->next, changed, NULL);
        log_notice("configuration: read again");
    } else if (r->complaints < 0)
        log_error("configuration: %s; nothing is changed", strerror(-r->complaints));
    else
        log_error("configuration: %d errors; nothing is changed", r->complaints);
    if (r->again) {
        r->again = false;
        reload_begin(r);
        return;
    }
    (void) sd_notify(0, "READY=1\nSTATUS=Serving");
}

void reload_begin(struct reload *r)
{
    if (r->worker) {
        r->again = true;
        return;
    }
    (void) sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
                      (unsigned long long) (etw_clock_ns(CLOCK_MONOTONIC) / 1000));
    r->worker = uid_workers_get(r->workers, 0, true);
    if (worker_submit(r->worker->files, load_run, load_done, r) < 0) {
        log_error("configuration: out of memory; nothing is changed");
        uid_worker_put(r->worker);
        r->worker = NULL;
        (void) sd_notify(0, "READY=1");
    }
}
