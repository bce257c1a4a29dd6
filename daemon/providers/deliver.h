/* SPDX-License-Identifier: Apache-2.0
 *
 * One record of a provider process into the sessions that its slots name: the checks on what only
 * the writer knows, the fields and items that only etwd knows. Not order and stamps (rings.c), not
 * what slots mean (tables.h). Called by rings.c, inside a pass. Loop thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "etl/record.h"

struct provider_process;
struct deliver;

/* cpus: possible ones. */
int deliver_new(unsigned cpus, struct deliver **ret);
struct deliver *deliver_free(struct deliver *d);

struct deliver_record {
    struct provider_process *process;
    const struct etl_record *prefix; /* a private copy; its size was checked against the ring */
    const void *record;              /* prefix and all, in the ring: may change at any time */
    uint64_t stamp;                  /* the one to be written */
    uint32_t thread_id;
    bool forged_stamp; /* it was not the record's: counted invalid */
};
/* The record is delivered, or dropped and counted. */
void deliver_event(struct deliver *d, const struct deliver_record *r);
