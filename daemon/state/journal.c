/* SPDX-License-Identifier: Apache-2.0
 *
 * See state.h and internal.h: transactions and their undo list. Loop thread only.
 *
 * Without memory for the list the transaction goes on, marked so that a successor refuses the state
 * rather than take half of it; with its end all is well again.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

#define JOURNAL_FIRST (64u << 10)

void state_begin(struct state *st)
{
    if (!st || st->depth++ > 0)
        return;
    st->header->epoch++;
}

bool state_active(const struct state *st)
{
    return st && st->depth > 0;
}

uint64_t state_epoch(const struct state *st)
{
    return st ? st->header->epoch : 0;
}

static __attribute__((noinline)) int journal_grow(struct state *st, uint64_t need)
{
    uint64_t room = st->journal_room ? st->journal_room : JOURNAL_FIRST;
    while (room < need)
        room *= 2;
    if (room > STATE_JOURNAL_MAX)
        room = STATE_JOURNAL_MAX;
    if (need > room)
        return -ENOSPC;
    if (memory_get(st, STATE_JOURNAL_OFFSET, room) < 0)
        return -ENOMEM;
    st->journal_room = room;
    return 0;
}

static __attribute__((noinline)) void journal_break(struct state *st)
{
    st->header->journal_used = STATE_BROKEN;
    order_stores();
    log_warning("state: no memory for its journal: a crash in this moment would lose it");
}

void state_save(struct state *st, const void *p, size_t size)
{
    if (!st || size == 0)
        return;
    struct state_header *h = st->header;
    uint64_t used = h->journal_used;
    if (used == STATE_BROKEN)
        return;
    uint64_t padded = ALIGN_UP((uint64_t) size, (uint64_t) 8);
    uint64_t end = used + padded + sizeof(struct journal_entry);
    if (end > st->journal_room && (size > UINT32_MAX || journal_grow(st, end) < 0)) {
        journal_break(st);
        return;
    }
    uint8_t *at = st->base + STATE_JOURNAL_OFFSET + used;
    memcpy(at, p, size);
    *(struct journal_entry *) (at + padded) =
        (struct journal_entry){.offset = offset_of(st, p), .size = (uint32_t) size};
    order_stores();
    h->journal_used = end;
    order_stores();
}

void state_commit(struct state *st)
{
    if (!st)
        return;
    if (st->depth > 1) {
        st->depth--;
        return;
    }
    for (struct state_hook *k = st->hooks; k; k = k->next)
        if (k->before_commit)
            k->before_commit(k->userdata);
    order_stores();
    st->header->journal_used = 0;
    order_stores();
    st->depth = 0;
    store_commit(st);
    blocks_commit(st);
    if (st->in_hooks) {
        st->again = true;
        return;
    }
    st->in_hooks = true;
    do {
        st->again = false;
        for (struct state_hook *k = st->hooks; k; k = k->next)
            if (k->after_commit)
                k->after_commit(k->userdata);
    } while (st->again);
    st->in_hooks = false;
}

void state_add_hook(struct state *st, struct state_hook *hook)
{
    if (!st)
        return;
    struct state_hook **p = &st->hooks;
    while (*p)
        p = &(*p)->next;
    hook->next = NULL;
    *p = hook;
}

void state_remove_hook(struct state *st, struct state_hook *hook)
{
    if (!st)
        return;
    for (struct state_hook **p = &st->hooks; *p; p = &(*p)->next)
        if (*p == hook) {
            *p = hook->next;
            return;
        }
}

/* Where an entry may put something back: blocks and their headers, and heap_end. */
static bool place_ok(const struct state *st, uint64_t offset, uint64_t size)
{
    uint64_t end;
    if (offset == offsetof(struct state_header, heap_end))
        return size == sizeof(st->header->heap_end);
    return !__builtin_add_overflow(offset, size, &end) && offset >= STATE_HEAP_OFFSET &&
           end <= st->heap_room;
}

/* The bytes of the entry that ends at `end`; NULL: it does not hold together. */
static const uint8_t *entry_before(const struct state *st, uint64_t end, struct journal_entry *ret,
                                   uint64_t *ret_begin)
{
    const uint8_t *journal = st->base + STATE_JOURNAL_OFFSET;
    if (end < sizeof(*ret))
        return NULL;
    memcpy(ret, journal + end - sizeof(*ret), sizeof(*ret));
    uint64_t room = end - sizeof(*ret), padded = ALIGN_UP((uint64_t) ret->size, (uint64_t) 8);
    if (ret->size == 0 || padded > room || !place_ok(st, ret->offset, ret->size))
        return NULL;
    *ret_begin = room - padded;
    return journal + *ret_begin;
}

int journal_undo(struct state *st)
{
    struct state_header *h = st->header;
    struct journal_entry e;
    uint64_t used = h->journal_used;

    if (used > STATE_JOURNAL_MAX || used % 8 != 0)
        return -EBADMSG;
    /* First look, then change. */
    for (uint64_t at = used; at > 0;)
        if (!entry_before(st, at, &e, &at))
            return -EBADMSG;
    for (uint64_t at = used; at > 0;) {
        const uint8_t *bytes = entry_before(st, at, &e, &at);
        if (!bytes)
            return -EBADMSG;
        memcpy(st->base + e.offset, bytes, e.size);
    }
    order_stores();
    h->journal_used = 0;
    h->epoch++;
    return 0;
}
