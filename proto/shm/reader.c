/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader's end of a ring: etwd's loop thread, over memory that a process of any intent may
 * change at any time. Each value is loaded once, checked, then used; nothing outside the ring is
 * ever touched, and each call ends.
 */
#include "ring.h"

#include <errno.h>
#include <string.h>

#include "../base/limits.h"

int shm_reader_init(struct shm_reader *r, const struct shm_arena *arena, void *control,
                    uint32_t arena_number, uint32_t index, uint32_t ring_size, uint64_t now)
{
    struct shm_tail_line *line;
    uint64_t tail;

    if (index >= SHM_RINGS_PER_ARENA || arena_number >= SHM_RINGS_MAX / SHM_RINGS_PER_ARENA ||
        !shm_ring_size_valid(ring_size))
        return -EINVAL;
    line = shm_control_tail(control, arena_number * SHM_RINGS_PER_ARENA + index);
    tail = atomic_load_explicit(&line->tail, memory_order_relaxed);
    *r = (struct shm_reader){
        .line = &arena->rings[index],
        .data = (const uint8_t *) arena + SHM_ARENA_HEADER + (size_t) index * ring_size,
        .tail_line = line,
        .size = ring_size,
        .tail = tail,
        .position = tail,
        .end = tail,
        .vouched = now,
    };
    return 0;
}

int shm_reader_look(struct shm_reader *r, uint64_t now, bool dead, uint64_t *ret_vouch)
{
    /* The order of R5 and R6. */
    bool busy = atomic_load_explicit(&r->line->busy, memory_order_acquire) != 0;
    uint64_t stamp = atomic_load_explicit(&r->line->stamp, memory_order_acquire);
    uint64_t head = atomic_load_explicit(&r->line->head, memory_order_acquire);

    if (head % SHM_RECORD_ALIGN != 0 || head < r->end || head - r->tail > r->size)
        return -EPROTO;
    r->end = head;
    r->stamp = stamp;
    r->busy = busy && !dead;
    if (!r->busy) {
        r->vouched = now;
        *ret_vouch = now;
        return 0;
    }
    stamp -= (uint64_t) r->clock_offset;
    if (stamp > now)
        stamp = now;
    if (stamp > r->vouched)
        r->vouched = stamp;
    if (r->vouched < now && now - r->vouched > ETWD_BUSY_MAX_MS * 1000000ull)
        *ret_vouch = now; /* passed over */
    else
        *ret_vouch = r->vouched;
    return 0;
}

int shm_reader_peek(struct shm_reader *r, void *out, uint32_t cap, const void **ret_record)
{
    while (r->position != r->end) {
        uint64_t left = r->end - r->position;
        uint32_t at = (uint32_t) r->position & (r->size - 1);
        uint32_t rest = r->size - at;
        const uint8_t *record = r->data + at;
        struct etl_record prefix;
        uint32_t n;

        memcpy(&prefix, record, sizeof(prefix));
        /* The size that is checked is the one that is used. */
        __asm__ volatile("" : "+m"(prefix));
        if (prefix.size < sizeof(prefix) || prefix.size % SHM_RECORD_ALIGN != 0 ||
            prefix.size > left || prefix.size > rest)
            return -EPROTO;
        if (prefix.type == SHM_RECORD_PAD) {
            if (prefix.size != rest || rest >= r->size / 2)
                return -EPROTO;
            r->position += rest;
            continue;
        }
        if (prefix.size > r->size / 2 || cap < sizeof(prefix))
            return -EPROTO;
        n = prefix.size < cap ? prefix.size : cap;
        memcpy(out, &prefix, sizeof(prefix));
        memcpy((uint8_t *) out + sizeof(prefix), record + sizeof(prefix), n - sizeof(prefix));
        *ret_record = record;
        return (int) prefix.size;
    }
    return 0;
}

int shm_reader_next(struct shm_reader *r, void *out, uint32_t cap)
{
    const void *record;
    int size;

    size = shm_reader_peek(r, out, cap, &record);
    if (size <= 0)
        return size;
    if ((uint32_t) size > cap)
        return -EPROTO;
    shm_reader_pop(r, (uint32_t) size);
    return size;
}

void shm_reader_commit(struct shm_reader *r)
{
    if (r->tail == r->position)
        return;
    r->tail = r->position;
    atomic_store_explicit(&r->tail_line->tail, r->tail, memory_order_release);
}
