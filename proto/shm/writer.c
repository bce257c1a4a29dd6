/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer's end of a ring, what is not inline in ring.h. Runs in provider processes, on the
 * thread that owns the ring: no system calls, no locks, no allocation.
 */
#include "ring.h"

#include <errno.h>
#include <string.h>

#include "slots.h"

int shm_writer_claim(struct shm_writer *w, struct shm_arena *arena, const void *control,
                     uint32_t arena_number, uint32_t index, uint32_t ring_size, bool fences,
                     uint32_t tid)
{
    struct shm_ring_line *line;
    struct shm_tail_line *tail;
    struct {
        struct etl_record prefix;
        uint32_t tid;
        uint32_t zero[3];
    } claim = {.prefix = {.size = sizeof(claim), .type = SHM_RECORD_CLAIM}, .tid = tid};
    uint32_t claims, rest;
    uint64_t head;

    if (index >= SHM_RINGS_PER_ARENA || arena_number >= SHM_RINGS_MAX / SHM_RINGS_PER_ARENA ||
        !shm_ring_size_valid(ring_size))
        return -EINVAL;
    line = &arena->rings[index];
    tail = shm_control_tail(control, arena_number * SHM_RINGS_PER_ARENA + index);
    claims = atomic_load_explicit(&line->claims, memory_order_acquire);
    if (claims & 1)
        return -EBUSY;
    head = atomic_load_explicit(&line->head, memory_order_acquire);
    if (head != atomic_load_explicit(&tail->tail, memory_order_acquire))
        return -EAGAIN;
    *w = (struct shm_writer){
        .data = (uint8_t *) arena + SHM_ARENA_HEADER + (size_t) index * ring_size,
        .line = line,
        .head = head,
        .tail_seen = head,
        /* The ring's stamps go on, whoever writes. */
        .stamp = atomic_load_explicit(&line->stamp, memory_order_relaxed),
        .size = ring_size,
        .fences = fences,
        .process = shm_control_process(control),
        .tail = tail,
        .lost = arena->lost,
        .control = control,
    };
    atomic_store_explicit(&line->claims, claims + 1, memory_order_relaxed);
    /* R2. The ring is drained: both fit. */
    rest = ring_size - ((uint32_t) head & (ring_size - 1));
    if (rest < sizeof(claim)) {
        struct etl_record pad = {.size = rest, .type = SHM_RECORD_PAD};
        memcpy(w->data + ring_size - rest, &pad, sizeof(pad));
        w->head += rest;
    }
    /* Not published as an event is: it has no stamp, and wakes nobody. */
    memcpy(w->data + (w->head & (ring_size - 1)), &claim, sizeof(claim));
    w->head += sizeof(claim);
    atomic_store_explicit(&line->head, w->head, memory_order_release);
    return 0;
}

void shm_writer_release(struct shm_writer *w)
{
    uint32_t claims = atomic_load_explicit(&w->line->claims, memory_order_relaxed);

    atomic_store_explicit(&w->line->busy, 0, memory_order_release);
    atomic_store_explicit(&w->line->claims, claims + 1, memory_order_release);
}

void *shm_writer_reserve_slow(struct shm_writer *w, uint32_t size)
{
    uint32_t at = (uint32_t) w->head & (w->size - 1);
    uint32_t rest = w->size - at;
    struct etl_record pad = {.type = SHM_RECORD_PAD};

    if (size > w->size / 2)
        return NULL;
    w->pad = size > rest ? rest : 0;
    if (w->head + w->pad + size - w->tail_seen > w->size) {
        w->tail_seen = atomic_load_explicit(&w->tail->tail, memory_order_acquire);
        if (w->head + w->pad + size - w->tail_seen > w->size)
            return NULL;
    }
    if (w->pad == 0)
        return w->data + at;
    pad.size = w->pad;
    memcpy(w->data + at, &pad, sizeof(pad));
    return w->data;
}

void shm_writer_lost(struct shm_writer *w, enum shm_lost_cause cause, uint32_t registration,
                     uint32_t slots)
{
    uint16_t counters[SHM_SLOTS_MAX];
    unsigned n = shm_slots_counters(w->control, registration, slots, counters);

    for (unsigned i = 0; i < n; i++)
        atomic_fetch_add_explicit(&w->lost[counters[i]].events[cause], 1, memory_order_relaxed);
}

void shm_lost_add(struct shm_arena *arena, const void *control, enum shm_lost_cause cause,
                  uint32_t registration, uint32_t slots)
{
    struct shm_writer w = {.control = control, .lost = arena->lost};

    shm_writer_lost(&w, cause, registration, slots);
}
