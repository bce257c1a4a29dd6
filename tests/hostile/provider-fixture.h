/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of hostile providers stand on: a private etwd with two sessions, an honest
 * provider (a process of libetw) whose events both get, and attackers, each a process of its own
 * that only the session "shared" enabled. Whatever an attacker does, the honest provider's events
 * must come out on time and complete; the fixture checks it after each attack, and in the file at
 * the end. Fails the running test. Single-threaded.
 */
#pragma once

#include <sys/types.h>

#include "client.h"
#include "raw-provider.h"

#define NOBODY 65534u
#define SOMEBODY 65533u

/* The attackers' provider, and the honest one. */
extern const struct etw_guid attacked_guid, honest_guid;
extern struct test_daemon *etwd;
extern int honest; /* a controller's connection */
extern uint64_t shared_session, quiet_session;

/* args: of etwd, NULL-terminated or NULL. */
void fixture_begin(const char *const args[]);
/* Stops the sessions, reads the file, waits until etwd holds no more than at the beginning. */
void fixture_end(void);

/* Expects `count` events of process pid in the file (UINT64_MAX: any number). Each event of the
 * attacked provider must come from a process that was named here or by attack(). */
void fixture_expect(pid_t pid, uint64_t count);

/* Runs fn in a process of its own, as NOBODY when the test runs as root; it must end well. Then the
 * honest provider must be well. */
void attack(const char *name, void (*fn)(const void *arg), const void *arg);
/* The two halves. */
pid_t attack_begin(uid_t uid, void (*fn)(const void *arg), const void *arg);
void attack_end(const char *name, pid_t pid);
/* An attacker's honest beginnings: attached; attached and registered. */
void attach_raw(struct raw_provider *p);
void open_raw(struct raw_provider *p);
/* The attackers' uid. */
uid_t attacker_uid(void);

/* The daemon lives, and what the honest provider wrote by now is out. */
void check_well(const char *what);

struct session_counts {
    uint64_t written, recorded;
    uint64_t lost, invalid;
};
void query_counts(uint64_t session, struct session_counts *ret);

struct enable_args {
    uint64_t session;
    const struct etw_guid *guid;
    uint32_t code, level;
    uint64_t any, all;
    uint32_t properties, timeout_ms;
    Etwd__Filter **filters;
    size_t n_filters;
    bool pid_filter;
    const int *fds;
    size_t n_fds;
};
/* The status. */
uint32_t enable_with(int sock, const struct enable_args *a);
uint32_t enable(int sock, uint64_t session, const struct etw_guid *guid);
