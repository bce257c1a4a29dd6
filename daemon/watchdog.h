/* SPDX-License-Identifier: Apache-2.0
 *
 * The service manager's watchdog (WATCHDOG_USEC, sd_watchdog_enabled(3)): it hears from us only
 * while the loop runs and the router makes way. A timer alone would tell of a daemon that records
 * nothing any more. Loop thread only.
 */
#pragma once

#include <stdint.h>

struct loop;
struct router;
struct watchdog;

/* usec: within this time the manager wants to hear something. The first word comes at once. */
int watchdog_new(struct loop *l, struct router *r, uint64_t usec, struct watchdog **ret);
/* Once the loop does not run any more, and before it and the router are freed. */
struct watchdog *watchdog_free(struct watchdog *w);
