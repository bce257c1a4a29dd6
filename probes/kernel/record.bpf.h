/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The way of a record into its ring: one BPF ring a CPU inside an array of maps, made by the daemon
 * and shared by all programs. Reserve first, then stamp into the reserved record: so a reader who
 * sees the ring up to here knows that whatever comes later is younger. Nobody is woken; the daemon
 * comes by itself.
 */
#pragma once

#include "vmlinux_min.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "raw.h"

/* Both maps get their real sizes from the daemon, which makes them and hands them in. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __array(
        values, struct {
            __uint(type, BPF_MAP_TYPE_RINGBUF);
            __uint(max_entries, 4096);
        });
} rings __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, struct lost_counters);
} lost __weak SEC(".maps");

static __attribute__((noinline)) int count_lost(uint32_t cpu, uint32_t index)
{
    struct lost_counters *c = bpf_map_lookup_elem(&lost, &cpu);
    if (c && index < LOST_COUNT)
        __sync_fetch_and_add(&c->n[index], 1);
    return 0;
}

/* Room for prefix and `size` bytes in this CPU's ring; NULL: full, and counted under `index`. */
static __always_inline void *record_reserve(uint32_t size, uint8_t type, uint16_t registration,
                                            uint32_t index)
{
    uint32_t cpu = bpf_get_smp_processor_id();
    void *ring = bpf_map_lookup_elem(&rings, &cpu);
    if (!ring)
        return NULL;
    struct etl_record *r = bpf_ringbuf_reserve(ring, sizeof(*r) + size, 0);
    if (!r) {
        count_lost(cpu, index);
        return NULL;
    }
    r->size = sizeof(*r) + size;
    r->cpu = (uint16_t) cpu;
    r->type = type;
    r->flags = 0;
    r->registration = registration;
    r->generation = 0;
    r->slots = 0;
    return r;
}

#define raw_reserve(size, kind) record_reserve(size, ETL_RECORD_RAW, kind, LOST_RAW(kind))

static __always_inline void record_submit(void *r)
{
    bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static __always_inline void record_discard(void *r)
{
    bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
}
