/* SPDX-License-Identifier: Apache-2.0
 *
 * See state.h and internal.h: blocks and where they lie. Loop thread only.
 *
 * A block has one of BLOCK_CLASSES sizes and keeps it: nothing is split or joined, so that a
 * transaction changes few words (kind, key, size; heap_end). Free memory stays with the state:
 * its size is bounded by the limits of what is in it.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define BLOCK_ALIGN 64u
#define HEAP_STEP (256u << 10)
#define BUCKETS_FIRST 64u

/* Capacity of a class: 64, 128, 192, 256, 320, 384, 448, 512, 640, ... */
static uint64_t class_capacity(unsigned class)
{
    if (class < 3)
        return (class + 1) * BLOCK_ALIGN;
    unsigned c = class - 3;
    return (uint64_t) (4 + (c & 3)) << (c >> 2) << 6;
}

static unsigned class_for(uint64_t size)
{
    unsigned class = 0;
    while (class_capacity(class) < size)
        class ++;
    return class;
}

/* The index. */

static uint64_t *bucket(const struct state *st, uint32_t kind, uint64_t key)
{
    uint64_t h = (key ^ (uint64_t) kind << 56) * 0x9E3779B97F4A7C15ULL;
    return &st->buckets[(h >> 32) & (st->n_buckets - 1)];
}

static void index_put(struct state *st, struct block_header *b)
{
    uint64_t *head = bucket(st, b->kind, b->key);
    b->next_hash = *head;
    *head = offset_of(st, b);
    st->n_blocks++;
}

static void index_remove(struct state *st, const struct block_header *b)
{
    uint64_t offset = offset_of(st, b);
    for (uint64_t *p = bucket(st, b->kind, b->key); *p; p = &block_at(st, *p)->next_hash)
        if (*p == offset) {
            *p = b->next_hash;
            st->n_blocks--;
            return;
        }
}

static struct block_header *index_find(const struct state *st, uint32_t kind, uint64_t key)
{
    for (uint64_t o = *bucket(st, kind, key); o; o = block_at(st, o)->next_hash) {
        struct block_header *b = block_at(st, o);
        if (b->kind == kind && b->key == key)
            return b;
    }
    return NULL;
}

/* Without memory chains are longer. */
static int index_grow(struct state *st)
{
    if (st->n_buckets > st->n_blocks)
        return 0;
    size_t n = st->n_buckets ? st->n_buckets * 2 : BUCKETS_FIRST;
    uint64_t *buckets = calloc(n, sizeof(*buckets));
    if (!buckets)
        return -ENOMEM;
    uint64_t *old = st->buckets;
    size_t n_old = st->n_buckets;
    st->buckets = buckets;
    st->n_buckets = n;
    st->n_blocks = 0;
    for (size_t i = 0; i < n_old; i++)
        for (uint64_t o = old[i]; o;) {
            struct block_header *b = block_at(st, o);
            o = b->next_hash;
            index_put(st, b);
        }
    free(old);
    return 0;
}

/* Blocks. */

/* A free block of the class: one from before, or a new one at the end. 0: no memory. */
static uint64_t room_take(struct state *st, unsigned class)
{
    uint64_t offset = st->free_lists[class];
    if (offset) {
        st->free_lists[class] = block_at(st, offset)->next_free;
        return offset;
    }
    uint64_t capacity = class_capacity(class), end;
    offset = st->header->heap_end;
    if (__builtin_add_overflow(offset, capacity + sizeof(struct block_header), &end) ||
        end > STATE_RESERVE)
        return 0;
    if (end > st->heap_room) {
        uint64_t room = ALIGN_UP(end, (uint64_t) HEAP_STEP);
        if (memory_get(st, st->heap_room, room - st->heap_room) < 0)
            return 0;
        st->heap_room = room;
    }
    *block_at(st, offset) = (struct block_header){.magic = BLOCK_MAGIC, .capacity = capacity};
    state_save(st, &st->header->heap_end, sizeof(st->header->heap_end));
    st->header->heap_end = end;
    return offset;
}

static int block_new(struct state *st, uint32_t kind, uint64_t key, size_t size, void **ret)
{
    if (index_find(st, kind, key))
        return -EEXIST;
    if (size > STATE_RESERVE)
        return -ENOMEM;
    uint64_t offset = room_take(st, class_for(size));
    if (!offset)
        return -ENOMEM;
    (void) index_grow(st);
    struct block_header *b = block_at(st, offset);
    memset(b + 1, 0, size); /* nobody's yet: nothing to save */
    state_save(st, &b->kind,
               offsetof(struct block_header, capacity) - offsetof(struct block_header, kind));
    b->kind = kind;
    b->key = key;
    b->size = size;
    index_put(st, b);
    *ret = b + 1;
    return 0;
}

int state_block_new(struct state *st, enum state_kind kind, uint64_t key, size_t size, void **ret)
{
    if (st)
        return block_new(st, kind, key, size, ret);
    size_t rounded;
    if (__builtin_add_overflow(size ? size : 1, BLOCK_ALIGN - 1, &rounded))
        return -ENOMEM;
    void *p = aligned_alloc(BLOCK_ALIGN, rounded / BLOCK_ALIGN * BLOCK_ALIGN);
    if (!p)
        return -ENOMEM;
    memset(p, 0, size);
    *ret = p;
    return 0;
}

void state_block_free(struct state *st, void *block)
{
    if (!block)
        return;
    if (!st) {
        free(block);
        return;
    }
    struct block_header *b = (struct block_header *) block - 1;
    index_remove(st, b);
    state_save(st, &b->kind, sizeof(b->kind));
    b->kind = 0;
    b->next_free = st->freed;
    st->freed = offset_of(st, b);
}

void blocks_commit(struct state *st)
{
    while (st->freed) {
        uint64_t offset = st->freed;
        struct block_header *b = block_at(st, offset);
        st->freed = b->next_free;
        unsigned class = class_for(b->capacity);
        b->next_free = st->free_lists[class];
        st->free_lists[class] = offset;
    }
}

void *state_block_find(struct state *st, enum state_kind kind, uint64_t key, size_t *ret_size)
{
    struct block_header *b = st ? index_find(st, kind, key) : NULL;
    if (!b)
        return NULL;
    if (ret_size)
        *ret_size = b->size;
    return b + 1;
}

void *blocks_next(const struct state *st, uint32_t first, uint32_t last, uint64_t *position,
                  uint32_t *ret_kind, uint64_t *ret_key, size_t *ret_size)
{
    uint64_t at = *position ? *position : STATE_HEAP_OFFSET;
    while (at < st->header->heap_end) {
        struct block_header *b = block_at(st, at);
        at += sizeof(*b) + b->capacity;
        if (b->kind < first || b->kind > last)
            continue;
        *position = at;
        *ret_kind = b->kind;
        *ret_key = b->key;
        *ret_size = b->size;
        return b + 1;
    }
    *position = at;
    return NULL;
}

void *state_block_next(struct state *st, enum state_kind kind, uint64_t *position,
                       uint64_t *ret_key, size_t *ret_size)
{
    uint32_t found;
    uint64_t key;
    size_t size;
    void *p = st ? blocks_next(st, kind, kind, position, &found, &key, &size) : NULL;
    if (!p)
        return NULL;
    *ret_key = key;
    if (ret_size)
        *ret_size = size;
    return p;
}

int blocks_load(struct state *st)
{
    uint64_t end = st->header->heap_end;
    int r;

    r = index_grow(st);
    if (r < 0)
        return r;
    if (end < STATE_HEAP_OFFSET || end > st->heap_room || end % BLOCK_ALIGN != 0)
        return -EBADMSG;
    for (uint64_t at = STATE_HEAP_OFFSET; at < end;) {
        struct block_header *b = block_at(st, at);
        uint64_t room = end - at;
        if (room < sizeof(*b) || b->magic != BLOCK_MAGIC || b->capacity > room - sizeof(*b) ||
            b->capacity == 0 || class_capacity(class_for(b->capacity)) != b->capacity ||
            (b->kind != 0 && (b->size > b->capacity || index_find(st, b->kind, b->key))))
            return -EBADMSG;
        if (b->kind == 0) {
            unsigned class = class_for(b->capacity);
            b->next_free = st->free_lists[class];
            st->free_lists[class] = at;
        } else {
            (void) index_grow(st);
            index_put(st, b);
        }
        at += sizeof(*b) + b->capacity;
    }
    return 0;
}
