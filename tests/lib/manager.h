/* SPDX-License-Identifier: Apache-2.0
 *
 * A small service manager for tests: a process that runs a private etwd, keeps descriptors for it
 * by sd_notify(3)'s store protocol as systemd 252 does, and starts it again with them when it has
 * died. Helpers fail the running Check test themselves. Single-threaded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct test_manager;

struct test_manager_options {
    const char *const *args; /* of etwd, NULL at the end; or NULL */
    size_t store_max;        /* beyond it descriptors are dropped silently; 0: 10000 */
    bool socket_unit;        /* the listening socket is the manager's */
    unsigned watchdog_us;    /* WATCHDOG_USEC: one that is silent for longer is aborted; 0: none */
};

/* Runs etwd in a new folder and waits until it is ready; sets ETWD_SOCKET. */
struct test_manager *test_manager_start(const struct test_manager_options *o);
/* SIGTERM; it must exit with 0 and leave nothing in the store. */
void test_manager_stop(struct test_manager *m);
/* SIGUSR1, a restart: it must exit with 0; back when the next one is ready. */
void test_manager_restart(struct test_manager *m);
/* Until it has said WATCHDOG=1 this many times more. */
void test_manager_wait_watchdogs(struct test_manager *m, unsigned more);
/* Until as many have died in all, for whatever reason, and the next one is ready. */
void test_manager_wait_death(struct test_manager *m, unsigned deaths);
unsigned test_manager_deaths(const struct test_manager *m);
/* kill -9 of etwd, and back when the next one is ready. */
void test_manager_kill(struct test_manager *m);
/* kill -9 alone, and the wait alone. */
void test_manager_kill_only(struct test_manager *m);
void test_manager_wait_ready(struct test_manager *m);
/* kill -9, and no new one before the wait. */
void test_manager_kill_and_hold(struct test_manager *m);
/* The same while etwd is dead: `bytes` over the stored state at this offset. */
void test_manager_kill_and_write(struct test_manager *m, long offset, const void *bytes,
                                 size_t size);
/* What the present etwd is. */
pid_t test_manager_pid(const struct test_manager *m);
const char *test_manager_dir(const struct test_manager *m);
/* What all of them wrote to stderr, in memory of malloc(3). */
char *test_manager_log(const struct test_manager *m);
/* Descriptors in the store; those it had to drop. */
size_t test_manager_stored(const struct test_manager *m);
size_t test_manager_dropped(const struct test_manager *m);
bool test_manager_has(const struct test_manager *m, const char *name);
/* Nanoseconds from the last death to READY=1. */
unsigned long long test_manager_pause_ns(const struct test_manager *m);
/* Kills it, whatever state it is in. */
struct test_manager *test_manager_free(struct test_manager *m);
