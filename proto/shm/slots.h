/* SPDX-License-Identifier: Apache-2.0
 *
 * Enable slots, the process's side: which sessions want an event. abi.h states the protocol (S1 to
 * S5). Any thread of a provider process, also in signal handlers: no locks, no allocation. etwd's
 * side is control.h.
 */
#pragma once

#include <stdbool.h>

#include "abi.h"

struct shm_match {
    uint32_t slots;       /* open slots that want the event */
    uint32_t full;        /* SHM_SLOT_FULL slots that would: lost, SHM_LOST_SESSION_FULL */
    uint32_t independent; /* of both: SHM_SLOT_INDEPENDENT */
    uint32_t generation;  /* of the table; its low 16 bits go into the record */
    uint16_t items;       /* enum shm_slot_items, the union over `slots` */
    uint32_t largest;     /* bytes of the largest event that each of `slots` takes */
};

/* One slot's rule. Level: 0 in the event or in the slot passes; else the event's must not be above
 * the slot's. Keyword: 0 passes unless the slot has IGNORE_KEYWORD_0 (which wins over
 * ENABLE_KEYWORD_0, the default); else a bit of `any` (0: all bits) and each bit of `all` must be
 * in it. Filters on the id come after that. */
static inline bool shm_slot_wants(uint8_t slot_level, uint64_t any, uint64_t all,
                                  uint32_t properties, uint8_t level, uint64_t keyword)
{
    if (level > slot_level && slot_level != 0)
        return false;
    if (keyword == 0)
        return !(properties & SHM_PROPERTY_IGNORE_KEYWORD_0);
    return (any == 0 || (keyword & any) != 0) && (keyword & all) == all;
}

/* The slots of a registration that want this event (ret->slots | ret->full), from one table.
 * Between begin and publish, where a ring is written (S3). ret is set in any case. */
uint32_t shm_slots_match(const void *control, uint32_t registration, uint8_t level,
                         uint64_t keyword, uint16_t id, struct shm_match *ret);

/* For an event larger than m->largest: those of m->slots that take `size` bytes; the rest are
 * SHM_LOST_TOO_BIG. False: the table changed since the match; match again. */
bool shm_slots_fit(const void *control, uint32_t registration, const struct shm_match *m,
                   uint32_t size, uint32_t *ret_slots);

/* Is anybody interested in this level and keyword at all: EventProviderEnabled. */
static inline bool shm_enable_word_wants(const struct shm_enable_word *word, uint8_t level,
                                         uint64_t keyword)
{
    return atomic_load_explicit(&word->on, memory_order_relaxed) &&
           level <= atomic_load_explicit(&word->level, memory_order_relaxed) &&
           (keyword == 0 ||
            (keyword & atomic_load_explicit(&word->any, memory_order_relaxed)) != 0);
}

/* The loss counters of the slots in the mask, for ring.h: how many were written to counters. */
unsigned shm_slots_counters(const void *control, uint32_t registration, uint32_t slots,
                            uint16_t counters[SHM_SLOTS_MAX]);
