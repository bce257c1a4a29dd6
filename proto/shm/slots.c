/* SPDX-License-Identifier: Apache-2.0
 *
 * Enable slots, the process's side. A table may be rewritten while it is read here: nothing read
 * counts until the second look at the generation, and until then each offset and count may be any
 * number.
 */
#include "slots.h"

#include <string.h>

#define LOAD(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/* What stands at an offset of the control area's pool; NULL when it is not inside. */
static const void *pool_at(const void *control, uint32_t offset, size_t size)
{
    if (offset < SHM_CONTROL_POOL || offset > SHM_CONTROL_SIZE - size || offset % 8 != 0)
        return NULL;
    return (const uint8_t *) control + offset;
}

static bool filter_passes(const void *control, uint32_t offset, uint16_t id)
{
    const struct shm_filter *f;
    uint32_t low = 0;
    uint32_t high;

    f = pool_at(control, offset, sizeof(*f) + SHM_FILTER_IDS_MAX * sizeof(f->ids[0]));
    if (!f)
        return false;
    high = LOAD(f->count);
    if (high > SHM_FILTER_IDS_MAX)
        high = SHM_FILTER_IDS_MAX;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        uint16_t v = LOAD(f->ids[middle]);
        if (v == id)
            return LOAD(f->in) != 0;
        if (v < id)
            low = middle + 1;
        else
            high = middle;
    }
    return LOAD(f->in) == 0;
}

static const struct shm_block *first_block(const void *control, uint32_t registration,
                                           uint32_t generation)
{
    const struct shm_registration *r = shm_control_registration(control, registration);

    return pool_at(control, LOAD(r->table[generation & 1]), sizeof(struct shm_block));
}

static const struct shm_block *next_block(const void *control, const struct shm_block *b)
{
    return pool_at(control, LOAD(b->next), sizeof(*b));
}

static unsigned block_slots(const struct shm_block *b)
{
    uint32_t n = LOAD(b->n_slots);

    return n < SHM_BLOCK_SLOTS ? n : SHM_BLOCK_SLOTS;
}

static uint32_t generation_begin(const void *control, uint32_t registration)
{
    return atomic_load_explicit(&shm_control_registration(control, registration)->generation,
                                memory_order_acquire);
}

/* All that was read before is of `generation`'s table. */
static bool generation_holds(const void *control, uint32_t registration, uint32_t generation)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&shm_control_registration(control, registration)->generation,
                                memory_order_relaxed) == generation;
}

uint32_t shm_slots_match(const void *control, uint32_t registration, uint8_t level,
                         uint64_t keyword, uint16_t id, struct shm_match *ret)
{
    struct shm_match m;

    if (registration >= SHM_REGISTRATIONS_MAX) {
        *ret = (struct shm_match){0};
        return 0;
    }
    do {
        const struct shm_block *b;
        uint32_t bit = 1;

        m = (struct shm_match){.largest = UINT32_MAX};
        m.generation = generation_begin(control, registration);
        if (m.generation == 0)
            break;
        b = first_block(control, registration, m.generation);
        for (; b && bit != 0; b = next_block(control, b), bit <<= SHM_BLOCK_SLOTS) {
            unsigned n = block_slots(b);
            for (unsigned i = 0; i < n; i++) {
                const struct shm_slot *s = &b->slots[i];
                uint8_t state = LOAD(s->state);
                uint32_t filter;
                uint32_t largest;
                if (state == SHM_SLOT_FREE ||
                    !shm_slot_wants(LOAD(s->level), LOAD(s->any), LOAD(s->all), LOAD(s->properties),
                                    level, keyword))
                    continue;
                filter = LOAD(s->filter);
                if (filter != 0 && !filter_passes(control, filter, id))
                    continue;
                if (LOAD(s->flags) & SHM_SLOT_INDEPENDENT)
                    m.independent |= bit << i;
                if (state != SHM_SLOT_OPEN) {
                    m.full |= bit << i;
                    continue;
                }
                m.slots |= bit << i;
                m.items |= LOAD(s->items);
                largest = LOAD(s->largest_event);
                if (largest < m.largest)
                    m.largest = largest;
            }
        }
    } while (!generation_holds(control, registration, m.generation));
    *ret = m;
    return m.slots | m.full;
}

/* Slot `slot` of a table, or NULL. */
static const struct shm_slot *slot_at(const void *control, uint32_t registration,
                                      uint32_t generation, unsigned slot)
{
    const struct shm_block *b = first_block(control, registration, generation);

    for (; b && slot >= SHM_BLOCK_SLOTS; slot -= SHM_BLOCK_SLOTS)
        b = next_block(control, b);
    return b && slot < block_slots(b) ? &b->slots[slot] : NULL;
}

bool shm_slots_fit(const void *control, uint32_t registration, const struct shm_match *m,
                   uint32_t size, uint32_t *ret_slots)
{
    uint32_t fit = 0;

    if (registration >= SHM_REGISTRATIONS_MAX ||
        generation_begin(control, registration) != m->generation)
        return false;
    for (uint32_t left = m->slots; left != 0; left &= left - 1) {
        unsigned slot = (unsigned) __builtin_ctz(left);
        const struct shm_slot *s = slot_at(control, registration, m->generation, slot);
        if (s && size <= LOAD(s->largest_event))
            fit |= 1u << slot;
    }
    if (!generation_holds(control, registration, m->generation))
        return false;
    *ret_slots = fit;
    return true;
}

unsigned shm_slots_counters(const void *control, uint32_t registration, uint32_t slots,
                            uint16_t counters[SHM_SLOTS_MAX])
{
    uint32_t generation;
    unsigned n;

    if (registration >= SHM_REGISTRATIONS_MAX)
        return 0;
    do {
        n = 0;
        generation = generation_begin(control, registration);
        for (uint32_t left = slots; left != 0; left &= left - 1) {
            const struct shm_slot *s =
                slot_at(control, registration, generation, (unsigned) __builtin_ctz(left));
            uint16_t counter = s ? LOAD(s->counter) : UINT16_MAX;
            if (counter < SHM_LOST_COUNTERS)
                counters[n++] = counter;
        }
    } while (!generation_holds(control, registration, generation));
    return n;
}
