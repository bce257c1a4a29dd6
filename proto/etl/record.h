/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * The 16 bytes before every record in a ring: probes' BPF rings now, providers' rings alike. Shared
 * by BPF programs, writers and the router; a contract (etwd refuses other versions).
 *
 * Invariants:
 *  - `size` counts the prefix and is a multiple of 8; the record follows directly.
 *  - the record starts with the event header of its kind (final), or with a u64 stamp (raw);
 *    stamps are CLOCK_BOOTTIME nanoseconds.
 *  - `registration` of a probe's record is its row in classes.def (final) or its enum raw_kind.
 */
#pragma once

#ifdef __bpf__
#include "vmlinux_min.h"
#define ETL_ASSERT(c, m) _Static_assert(c, m)
#else
#include <stddef.h>
#include <stdint.h>
#define ETL_ASSERT(c, m) _Static_assert(c, m)
#endif

#define ETL_RECORD_VERSION 1

enum etl_record_type {
    ETL_RECORD_FINAL = 1, /* a whole event in file layout, stamp included */
    ETL_RECORD_RAW = 2,   /* a probe's raw struct; the daemon makes the events of it */
};

struct etl_record {
    uint32_t size;
    uint16_t cpu;
    uint8_t type;
    uint8_t flags;
    uint16_t registration;
    uint16_t generation;
    uint32_t slots;
};

ETL_ASSERT(sizeof(struct etl_record) == 16, "the prefix is 16 bytes");
