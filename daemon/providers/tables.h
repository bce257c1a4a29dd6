/* SPDX-License-Identifier: Apache-2.0
 *
 * What the slots of a registration's table mean, for each generation that a record may still come
 * from. Made by enables, read by rings.c and deliver.c for each record: no look-up by GUID, no
 * allocation. Loop thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/guid.h"
#include "shm/abi.h"

struct provider_process;
struct session;

struct table_slot {
    struct session *session; /* NULL: free, or its session ended */
    uint32_t properties;     /* EVENT_ENABLE_PROPERTY_* */
};

struct table {
    struct etw_guid guid; /* of the registration: its events carry no other */
    uint32_t generation;
    uint32_t used; /* bit n: slot n means something */
    struct table_slot slots[SHM_SLOTS_MAX];
};

/* The table of a record; NULL: etwd does not hold such a generation (the record is invalid). */
const struct table *tables_find(const struct provider_process *pp, uint16_t registration,
                                uint16_t generation);
/* Whose events the process-wide loss counter counts; NULL: nobody's (any more). */
struct session *tables_counter(const struct provider_process *pp, uint16_t counter);
/* From there on none was ever somebody's. */
uint32_t tables_counters(const struct provider_process *pp);

/* What deliver.c adds to events of this process. */
struct process_facts {
    uint32_t pid; /* in etwd's pid namespace */
    uint32_t uid;
    uint64_t start_key;  /* PROCESS_START_KEY */
    uint32_t session_id; /* TS_ID: the kernel's session of the process */
};
const struct process_facts *process_facts(const struct provider_process *pp);
/* Provider traits of a registration as PROV_TRAITS items have them are in the record already. */

/* Records that break the rules: told in the log once, counted in each session that has this
 * process's provider enabled, or in the slots' sessions when they are known. */
void process_misbehaved(struct provider_process *pp, const char *what);
