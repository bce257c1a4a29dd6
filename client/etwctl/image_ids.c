/* SPDX-License-Identifier: Apache-2.0
 *
 * Build-ids of images; see image_ids.h. One thread.
 */
#include "image_ids.h"

#include <errno.h>
#include <stdlib.h>

/* An identity precedes its image directly; those of other images of the same moment may lie
 * between. */
#define TOLD_MAX 256u
/* Images mapped at one time: 10 000 processes with 25 each. More are shown without identity when
 * they go. */
#define LIVE_MAX 262144u

struct image_ids {
    struct build_id told[TOLD_MAX];
    uint32_t next;
    struct build_id *live; /* open addressing; size 0 is an empty place */
    uint32_t room;         /* a power of two */
    uint32_t n;
    struct build_id gone; /* what image_ids_goes() returned */
};

struct image_ids *image_ids_new(void)
{
    return calloc(1, sizeof(struct image_ids));
}

struct image_ids *image_ids_free(struct image_ids *ids)
{
    if (ids)
        free(ids->live);
    free(ids);
    return NULL;
}

void image_ids_told(struct image_ids *ids, const struct build_id *id)
{
    ids->told[ids->next++ % TOLD_MAX] = *id;
}

static const struct build_id *find_told(const struct image_ids *ids, uint64_t stamp, uint32_t pid,
                                        uint64_t base)
{
    for (uint32_t i = 1; i <= TOLD_MAX; i++) {
        const struct build_id *b = &ids->told[(ids->next - i) % TOLD_MAX];
        if (b->size == 0 || b->stamp < stamp)
            return NULL;
        if (b->stamp == stamp && b->base == base && b->pid == pid)
            return b;
    }
    return NULL;
}

static uint32_t place_of(uint32_t room, uint32_t pid, uint64_t base)
{
    uint64_t h = (base >> 12 ^ (uint64_t) pid << 32) * 0x9E3779B97F4A7C15ull;

    return (uint32_t) (h >> 40) & (room - 1);
}

/* Where the image is, or the empty place where it would go. */
static struct build_id *find_live(const struct image_ids *ids, uint32_t pid, uint64_t base)
{
    uint32_t at = place_of(ids->room, pid, base);

    while (ids->live[at].size && (ids->live[at].pid != pid || ids->live[at].base != base))
        at = (at + 1) & (ids->room - 1);
    return &ids->live[at];
}

static int grow(struct image_ids *ids)
{
    struct image_ids bigger = {.room = ids->room ? ids->room * 2 : 1024};

    bigger.live = calloc(bigger.room, sizeof(*bigger.live));
    if (!bigger.live)
        return -ENOMEM;
    for (uint32_t i = 0; i < ids->room; i++)
        if (ids->live[i].size)
            *find_live(&bigger, ids->live[i].pid, ids->live[i].base) = ids->live[i];
    free(ids->live);
    ids->live = bigger.live;
    ids->room = bigger.room;
    return 0;
}

/* Empties a place and moves what came to lie behind it because of it. */
static void forget(struct image_ids *ids, struct build_id *entry)
{
    uint32_t hole = (uint32_t) (entry - ids->live), at = hole;

    for (;;) {
        at = (at + 1) & (ids->room - 1);
        if (!ids->live[at].size)
            break;
        uint32_t wants = place_of(ids->room, ids->live[at].pid, ids->live[at].base);
        if (((at - wants) & (ids->room - 1)) >= ((at - hole) & (ids->room - 1))) {
            ids->live[hole] = ids->live[at];
            hole = at;
        }
    }
    ids->live[hole].size = 0;
    ids->n--;
}

const struct build_id *image_ids_comes(struct image_ids *ids, uint64_t stamp, uint32_t pid,
                                       uint64_t base)
{
    const struct build_id *told = find_told(ids, stamp, pid, base);
    struct build_id *entry;

    if (!told) {
        /* another file at this place */
        if (ids->room) {
            entry = find_live(ids, pid, base);
            if (entry->size)
                forget(ids, entry);
        }
        return NULL;
    }
    if (ids->n * 2 >= ids->room && (ids->n >= LIVE_MAX || grow(ids) < 0))
        return told;
    entry = find_live(ids, pid, base);
    if (!entry->size)
        ids->n++;
    *entry = *told;
    return entry;
}

const struct build_id *image_ids_goes(struct image_ids *ids, uint64_t stamp, uint32_t pid,
                                      uint64_t base)
{
    const struct build_id *told = find_told(ids, stamp, pid, base);
    struct build_id *entry;

    if (told)
        return told;
    if (!ids->room)
        return NULL;
    entry = find_live(ids, pid, base);
    if (!entry->size)
        return NULL;
    ids->gone = *entry;
    forget(ids, entry);
    return &ids->gone;
}
