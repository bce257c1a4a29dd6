/* SPDX-License-Identifier: Apache-2.0
 *
 * The rings of all provider processes: one source of the router, whatever their number. A pass
 * looks at every ring after one membarrier, merges what lies below the watermark, and checks each
 * record on a private copy; deliver.h puts it into sessions. It puts the daemon to sleep and takes
 * wakes. Not who may have rings (process.h), not what slots mean (tables.h). Loop thread only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"
#include "shm/abi.h"

struct loop;
struct provider_process;
struct router;
struct ring_set;
struct rings;
struct shm_control;
struct state;

struct rings_env {
    struct loop *loop;
    struct router *router;
    struct state *state;
    const struct etw_conf *conf;
    unsigned cpus; /* possible: a record's cpu is below it */
    /* Asked before the router goes to sleep: does some session want to hear of the first record
     * (session_waits_for_first()), or would a ring that is half full be soon enough? NULL: never.
     */
    bool (*first_record)(void *userdata);
    void *userdata;
};
/* -ENOSYS: this kernel has no membarrier. */
int rings_new(const struct rings_env *env, struct rings **ret);
struct rings *rings_free(struct rings *r);

/* The rings of one process. The control area and its mapping outlive the set. */
struct ring_set_config {
    struct provider_process *process; /* handed to deliver and to tables_find() */
    uint64_t number;                  /* of the process, for state keys */
    struct shm_control *control;
    void *control_base;
    uint32_t ring_size;
    int64_t clock_offset; /* of its time namespace: its stamps minus ours */
    bool fast_clock;      /* it may stamp by the line in its control area, once that is good */
    /* The thread's id as we see it, from what it says of itself (another pid namespace). 0: there
     * is no such thread any more. */
    uint32_t (*thread_id)(struct provider_process *pp, uint32_t tid);
};
int ring_set_new(struct rings *r, const struct ring_set_config *c, struct ring_set **ret);
/* The next sealed, mapped arena. The mapping is the set's on success. */
int ring_set_add_arena(struct ring_set *s, uint32_t arena, const struct shm_arena *mapping);
/* Rings below n have memory; to be called before the process may claim them. Gives memory to their
 * tails too. */
int ring_set_add_rings(struct ring_set *s, uint32_t n);
/* How many are claimed now (hostile, at most all). */
uint32_t ring_set_claimed(const struct ring_set *s);
/* The process is gone: what it published is still taken, then gone() is called, once, from the
 * loop; then ring_set_free() is due (not from inside a pass or a transaction's hooks). */
void ring_set_dead(struct ring_set *s, void (*gone)(struct provider_process *pp));
struct ring_set *ring_set_free(struct ring_set *s);
/* The process says that a ring is half full, or that its first record is there. */
void ring_set_wake(struct ring_set *s);

/* S3: calls past() from the loop once each ring of the set is past this moment and all below has
 * been delivered. In the order of the calls. -ENOMEM. */
int ring_set_when_past(struct ring_set *s,
                       void (*past)(struct provider_process *pp, uint64_t cookie), uint64_t cookie);

/* A session that wants its events at once (low latency) is there. */
void rings_set_low_latency(struct rings *r, bool on);
/* Brings the writers' losses up to date in the sessions' counters (tables_counter()). To be called
 * for a set before a counter gets another session, or none. */
void rings_sync_losses(struct rings *r);
void ring_set_sync_losses(struct ring_set *s);

/* The rings that a predecessor left for this set; after its arenas were added. */
int ring_set_takeover(struct ring_set *s);
