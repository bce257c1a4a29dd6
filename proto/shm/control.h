/* SPDX-License-Identifier: Apache-2.0
 *
 * A process's control area, etwd's side: gives memory to its parts, builds enable tables, publishes
 * them, and the other words. The free lists live in etwd's private memory. Loop thread only. The
 * process's side is slots.h and clock.h.
 */
#pragma once

#include <stdbool.h>

#include "abi.h"

struct shm_control;

/* Of a fresh area: fd and base (mapped read-write, SHM_CONTROL_SIZE) stay the caller's and outlive
 * the object. Writes the process words. */
int shm_control_new(int fd, void *base, uint32_t ring_size, struct shm_control **ret);
/* Of an area that an earlier etwd wrote: keeps the tables in force, the words and the tails.
 * -EBADMSG: it does not hold together (or is of another version: -EPROTONOSUPPORT). */
int shm_control_load(int fd, void *base, struct shm_control **ret);
struct shm_control *shm_control_free(struct shm_control *c);

/* Memory for a registration's line, before the process may read it (a hole would be filled at the
 * process's expense, or be its end): at its Register, or when the area is handed over. */
int shm_control_add_registration(struct shm_control *c, uint32_t registration);
/* Memory for the tail of a ring (numbered over all arenas), before the ring is offered. */
int shm_control_add_ring(struct shm_control *c, uint32_t ring);
/* Rings below n have memory and may be claimed. */
void shm_control_set_rings(struct shm_control *c, uint32_t n);

struct shm_slot_config {
    enum shm_slot_state state;
    uint8_t level;
    uint16_t items; /* enum shm_slot_items */
    uint16_t counter;
    uint32_t properties;
    uint64_t any, all;
    uint32_t largest_event;
    bool independent; /* SHM_SLOT_INDEPENDENT */
    /* The id filter. Any order; at most SHM_FILTER_IDS_MAX. */
    bool filtered;
    bool filter_in;
    uint16_t n_ids;
    const uint16_t *ids;
};

/* Writes a registration's table anew and publishes it: slots[n] is slot n, a free one still with
 * its counter until its number is given out again (S5). Then the enable word follows. -ENOSPC: the
 * pool is full, -ENOMEM: no memory; the table in force stays. */
int shm_control_publish(struct shm_control *c, uint32_t registration,
                        const struct shm_slot_config *slots, unsigned n, uint32_t *ret_generation);
/* The generation in force; 0: never enabled. */
uint32_t shm_control_generation(const struct shm_control *c, uint32_t registration);

/* A number that differs from the last one: whose ring is half full wakes etwd, once. 0: nobody. */
void shm_control_set_sleep(struct shm_control *c, uint32_t sleep);
