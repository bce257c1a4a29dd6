/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared memory between a provider process and etwd: two kinds of memfd, both made by etwd.
 *
 *  - An arena: the process writes, etwd only reads (it maps read-only, and seals the memfd with
 *    F_SEAL_FUTURE_WRITE once the process has mapped it). Ring heads, records, losses.
 *  - The control area: etwd writes, the process only reads. Ring tails, enable slots, the sleep
 *    number, the clock line.
 *
 * So neither side can forge the other's indices. A contract: SHM_VERSION changes with every change
 * of a layout or a rule here; etwd refuses other versions by name and serves older ones.
 *
 * The ring. One thread writes, etwd reads. head and tail count bytes since the ring began and never
 * wrap; a byte's place is its number modulo the ring's size, a power of two. Rules:
 *
 *  R1  head has one writer, the thread that claimed the ring; tail has one, etwd's loop thread.
 *  R2  Records lie whole: one that would cross the end is preceded by a SHM_RECORD_PAD record up to
 *      the end. Sizes are multiples of SHM_RECORD_ALIGN, so a prefix always fits before the end.
 *      No record is larger than half the ring: with its pad, it then always fits an empty ring.
 *  R3  The writer fills [head, head + n) only when head + n - tail <= size, with a tail loaded
 *      (acquire) before; etwd gives space back by a release store of tail after it copied.
 *  R4  head is published with a release store; etwd loads it with acquire, so every byte below it
 *      is written. etwd still copies each record's header once and checks the copy: the process may
 *      be hostile.
 *  R5  busy is set before the writer reads the clock and cleared (release) after it published head,
 *      or gave the event up. etwd reads time T, then membarrier(GLOBAL_EXPEDITED), then busy, then
 *      stamp, then head, in this order. If it sees busy clear, each record that appears in this
 *      ring above that head has a stamp >= T: the store of busy stands before the reading of the
 *      clock in the writer's program, and the barrier makes every store visible whose successor
 *      instructions were executed before T. If it sees busy set, the ring vouches for the T of the
 *      last pass that saw it clear, or for what it sees in `stamp` (R6), whichever is later. A
 *      process that could not register for membarrier says so in its Attach and puts full fences
 *      after setting busy and after head. (Passes that follow each other closely may leave the
 *      barrier out and vouch for a little less: an event that such a look could not see yet is
 *      late, no more. Not where S3, a drain or a sleep stands on the look.)
 *  R6  stamp is the writer's time, stored (release) as soon as it read the clock for an event; it
 *      never goes back. Whoever loads stamp s and then head: each record above that head has a
 *      stamp >= s, since the heads of all events before s were stored before s. So a ring whose
 *      writer never rests holds the others up by no more than the event under way.
 *  R7  Death at any instruction leaves head at the end of a whole record: what is above is ignored.
 *
 * Enable slots. A registration's table is a chain of blocks of 8 slots, twice: generation & 1 says
 * which one is in force. etwd writes the other one, then generation + 1 (release). A writer loads
 * generation (acquire), evaluates, loads generation again: another value means evaluate again. It
 * does so while its ring is busy. So
 *  S1  a record's `slots` are those of exactly the table of its `generation` (low 16 bits);
 *  S2  a table is not overwritten while a writer that saw it in force can still be believed: two
 *      changes later the writer's second look fails;
 *  S3  etwd keeps the meaning (slot -> session) of older generations, and gives no slot number out
 *      again, until each ring of the process is past the change: a look (R5) after it saw the ring
 *      idle, or a later look saw another stamp or head than that first one did (the event that was
 *      under way is done; the writer reads the clock before the table), and everything below the
 *      head of that look was read;
 *  S4  generation goes on, never back, also when a registration's index is used again;
 *  S5  a slot's loss counter is told in its entry, also while the slot is free, and does not change
 *      until the slot is given out again: a writer may look it up in any table.
 * Blocks and filters may be used again as soon as their table is not in force (S2 makes a slow
 * writer look again); what it reads meanwhile is any bytes, so every offset and count is checked.
 *
 * Sleep. Before etwd sleeps it raises the sleep number, membarriers and looks once more (R5's
 * barrier serves). A writer that finds its ring half full (with SHM_SLEEP_LOW_LATENCY: not empty)
 * and has not answered this number sends one WAKE on its socket. The number stays while etwd is
 * awake, so that a ring that is half full before the next pass is due asks for one; etwd raises it
 * after a pass that was asked for, unless the next one follows at once.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../etl/record.h"

#define SHM_VERSION 1
#define SHM_CACHE_LINE 64
#define SHM_RECORD_ALIGN 16u

/* A record's prefix is struct etl_record (etl/record.h) with these types:
 *   registration  index of the registration in its process
 *   generation    low 16 bits of the table that `slots` belongs to
 *   slots         bit n: slot n of that table wants the event
 * and after it a whole EVENT_HEADER64 event; see R2 for the size. The event's size field counts the
 * event, the prefix's size is 16 + that, padded to SHM_RECORD_ALIGN. */
enum shm_record_type {
    SHM_RECORD_PAD = 0x10, /* up to the ring's end; only size and type count */
    /* First record of a claim: u32 tid in the writer's pid namespace, u32 0. */
    SHM_RECORD_CLAIM = 0x11,
    SHM_RECORD_EVENT = ETL_RECORD_FINAL,
};

/* flags of an event's prefix. */
enum shm_record_flags {
    SHM_RECORD_TSC = 0x01, /* stamped by the clock line (FastClock) */
};

/* ---- arena ---- */

#define SHM_RINGS_PER_ARENA 16u
#define SHM_RING_SIZE_DEFAULT (512u << 10)
#define SHM_RING_SIZE_MIN (4u << 10)
#define SHM_RING_SIZE_MAX (16u << 20)
#define SHM_SLOTS_MAX 32u

static inline bool shm_ring_size_valid(uint32_t size)
{
    return size >= SHM_RING_SIZE_MIN && size <= SHM_RING_SIZE_MAX && (size & (size - 1)) == 0;
}

/* A record of an event (of this many bytes), and the largest event that a ring takes (R2). */
static inline uint32_t shm_record_size(uint32_t event)
{
    return ((uint32_t) sizeof(struct etl_record) + event + SHM_RECORD_ALIGN - 1) &
           ~(SHM_RECORD_ALIGN - 1);
}

static inline uint32_t shm_event_max(uint32_t ring_size)
{
    return ring_size / 2 - (uint32_t) sizeof(struct etl_record);
}

/* One cache line a ring, all together: a pass over many heads is one walk over packed lines. */
struct shm_ring_line {
    _Atomic uint64_t head;
    _Atomic uint8_t busy;
    uint8_t reserved[3];
    _Atomic uint32_t claims; /* odd: claimed; even: free. Raised at claim and at give-back */
    _Atomic uint64_t stamp;  /* R6 */
    uint8_t pad[40];
};
_Static_assert(sizeof(struct shm_ring_line) == SHM_CACHE_LINE, "one line a ring");

enum shm_lost_cause {
    SHM_LOST_RING_FULL, /* also: no ring to be had */
    SHM_LOST_NESTED,
    SHM_LOST_TOO_BIG,
    SHM_LOST_SESSION_FULL, /* the slot is SHM_SLOT_FULL */
    SHM_LOST_CAUSES
};

/* Events that a slot wanted and did not get, counted for ever; etwd takes differences. Slot numbers
 * mean nothing without their registration, so a slot names one of its process's counters (S5).
 * Added to atomically: the threads of an arena share its counters, those without a ring use arena
 * 0's, and a signal handler may interrupt an addition. */
struct shm_lost {
    _Atomic uint64_t events[SHM_LOST_CAUSES];
};
_Static_assert(sizeof(struct shm_lost) == 32, "loss counter");
#define SHM_LOST_COUNTERS 512u

struct shm_arena {
    struct shm_ring_line rings[SHM_RINGS_PER_ARENA];
    uint8_t pad[0x1000 - SHM_RINGS_PER_ARENA * SHM_CACHE_LINE];
    struct shm_lost lost[SHM_LOST_COUNTERS];
    /* ring n: SHM_ARENA_HEADER + n * ring_size */
};
#define SHM_ARENA_HEADER 0x5000u
_Static_assert(sizeof(struct shm_arena) == SHM_ARENA_HEADER, "rings begin at a page");

static inline size_t shm_arena_size(uint32_t ring_size)
{
    return SHM_ARENA_HEADER + (size_t) SHM_RINGS_PER_ARENA * ring_size;
}

/* ---- control area ---- */

#define SHM_CONTROL_SIZE (4u << 20)
#define SHM_RINGS_MAX 1024u
#define SHM_REGISTRATIONS_MAX 1024u /* ETW's limit a process */
#define SHM_BLOCK_SLOTS 8u

#define SHM_SLEEP_LOW_LATENCY 1u

struct shm_process {
    uint32_t version; /* SHM_VERSION */
    uint32_t ring_size;
    _Atomic uint32_t sleep; /* number << 1 | SHM_SLEEP_LOW_LATENCY; 0: nobody is to be woken */
    _Atomic uint32_t rings; /* rings 0 .. rings-1 have memory and may be claimed */
    uint8_t pad[48];
};
_Static_assert(sizeof(struct shm_process) == SHM_CACHE_LINE, "process words");

/* TSC -> CLOCK_BOOTTIME: ns = ns0 + ((tsc - tsc0) * mult >> shift), signed, while tsc is at most
 * span above tsc0 (an etwd that does not come back refits no more). A seqlock: odd while changed.
 */
struct shm_clock {
    _Atomic uint32_t sequence;
    _Atomic uint32_t good; /* 0: use clock_gettime */
    _Atomic uint32_t mult;
    _Atomic uint32_t shift;
    _Atomic uint64_t tsc0;
    _Atomic uint64_t ns0;
    _Atomic uint64_t span;
    uint8_t pad[24];
};
_Static_assert(sizeof(struct shm_clock) == SHM_CACHE_LINE, "clock line");

struct shm_tail_line {
    _Atomic uint64_t tail;
    uint8_t pad[56];
};
_Static_assert(sizeof(struct shm_tail_line) == SHM_CACHE_LINE, "one line a tail");

/* FROZEN FOR EVER: public headers read it. The union over the registration's open slots: level is
 * the highest (255 when a slot takes all), any the OR (all ones when a slot takes all). */
struct shm_enable_word {
    _Atomic uint8_t level;
    _Atomic uint8_t on;
    uint16_t reserved16;
    uint32_t reserved32;
    _Atomic uint64_t any;
};
_Static_assert(sizeof(struct shm_enable_word) == 16, "frozen");

struct shm_registration {
    struct shm_enable_word word;
    _Atomic uint32_t generation; /* of the table in force; 0: never enabled */
    uint32_t table[2];           /* offset in the control area of the first block of each */
    uint8_t pad[36];
};
_Static_assert(sizeof(struct shm_registration) == SHM_CACHE_LINE, "one line a registration");

enum shm_slot_state { SHM_SLOT_FREE, SHM_SLOT_OPEN, SHM_SLOT_FULL };

/* What to add to an event: bits of the record's construction, not of the API. */
enum shm_slot_items {
    SHM_ITEM_STACK = 0x01,
    SHM_ITEM_EVENT_KEY = 0x02,
};

enum shm_slot_flags {
    /* The session has INDEPENDENT_SESSION_MODE: it gets an event also when another one of the
     * table cannot take it, and the others do when it cannot. Without it a writer gives an event
     * that one session cannot take (too big, full) to none. */
    SHM_SLOT_INDEPENDENT = 0x01,
};

struct shm_slot {
    uint8_t state;
    uint8_t level;
    uint16_t items;      /* enum shm_slot_items */
    uint32_t properties; /* EVENT_ENABLE_PROPERTY_* */
    uint64_t any;
    uint64_t all;
    uint32_t filter;        /* offset of struct shm_filter, 0: none */
    uint32_t largest_event; /* bytes, all items included; at most shm_event_max() */
    uint16_t counter;       /* index into the arenas' `lost` (S5) */
    uint16_t flags;         /* enum shm_slot_flags */
    uint32_t reserved32;
};
_Static_assert(sizeof(struct shm_slot) == 40, "slot");

struct shm_block {
    uint32_t next;    /* offset of the next block of the chain, 0: last */
    uint32_t n_slots; /* slots up to the last one in use in this block */
    struct shm_slot slots[SHM_BLOCK_SLOTS];
};
_Static_assert(sizeof(struct shm_block) == 328, "block");

/* Of struct shm_slot.properties, what the writer heeds (ENABLE_KEYWORD_0 is the default). */
#define SHM_PROPERTY_IGNORE_KEYWORD_0 0x10u

/* EVENT_FILTER_TYPE_EVENT_ID: sorted ids, at most SHM_FILTER_IDS_MAX (ETW's limit). */
#define SHM_FILTER_IDS_MAX 64u
struct shm_filter {
    uint16_t in; /* 1: only these; 0: all but these */
    uint16_t count;
    uint16_t ids[];
};

/* Offsets in the control area. Blocks and filters are handed out from SHM_CONTROL_POOL on. */
#define SHM_CONTROL_PROCESS 0u
#define SHM_CONTROL_CLOCK 64u
#define SHM_CONTROL_TAILS 0x1000u
#define SHM_CONTROL_REGISTRATIONS 0x11000u
#define SHM_CONTROL_POOL 0x21000u
_Static_assert(SHM_CONTROL_TAILS + SHM_RINGS_MAX * SHM_CACHE_LINE == SHM_CONTROL_REGISTRATIONS,
               "tails");
_Static_assert(SHM_CONTROL_REGISTRATIONS + SHM_REGISTRATIONS_MAX * SHM_CACHE_LINE ==
                   SHM_CONTROL_POOL,
               "registrations");

static inline struct shm_process *shm_control_process(const void *control)
{
    return (struct shm_process *) ((uintptr_t) control + SHM_CONTROL_PROCESS);
}

static inline struct shm_clock *shm_control_clock(const void *control)
{
    return (struct shm_clock *) ((uintptr_t) control + SHM_CONTROL_CLOCK);
}

static inline struct shm_tail_line *shm_control_tail(const void *control, uint32_t ring)
{
    return (struct shm_tail_line *) ((uintptr_t) control + SHM_CONTROL_TAILS) + ring;
}

static inline struct shm_registration *shm_control_registration(const void *control, uint32_t index)
{
    return (struct shm_registration *) ((uintptr_t) control + SHM_CONTROL_REGISTRATIONS) + index;
}
