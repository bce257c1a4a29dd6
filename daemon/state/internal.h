/* SPDX-License-Identifier: Apache-2.0
 *
 * The state from inside: the layout of its memfd, and what memory.c, blocks.c, journal.c and
 * store.c share. Loop thread only.
 *
 *   0          struct state_header
 *   4096       journal: entries of an undo list, each {bytes, padded to 8; struct journal_entry}
 *   64 MiB     blocks, one behind the other up to heap_end: struct block_header, memory
 *
 * The file is sparse. Invariants, at every instruction:
 *  - journal_used is 0, and everything before heap_end is as its owners last committed it; or it
 *    names the end of a list of old contents which, put back from the last to the first, make it
 *    so; or it is STATE_BROKEN, and nobody knows (there was no memory for the list);
 *  - an entry is whole before journal_used counts it, and counted before what it saves changes;
 *  - memory of a block is given to another only after the transaction that freed it.
 * A process that is killed has made all stores up to one instruction and none after it, so that
 * only the compiler could change the order: order_stores().
 *
 * Free lists and the index are not part of the format: the links in block headers are made anew by
 * who loads it.
 */
#pragma once

#include <stdatomic.h>

#include "base/limits.h"
#include "state.h"

#define STATE_MAGIC 0x4554415453444557ULL /* "WEDSTATE" */
#define STATE_JOURNAL_OFFSET 4096ULL
#define STATE_HEAP_OFFSET (64ULL << 20)
#define STATE_JOURNAL_MAX (STATE_HEAP_OFFSET - STATE_JOURNAL_OFFSET)
/* Address space; memory is taken as it is needed. */
#define STATE_RESERVE (16ULL << 30)
#define STATE_BROKEN UINT64_MAX

struct state_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_size;
    uint64_t epoch;
    uint64_t journal_used;
    uint64_t heap_end;
};
_Static_assert(sizeof(struct state_header) == 40, "part of the format");

struct journal_entry {
    uint64_t offset; /* in the memfd */
    uint32_t size;   /* of the bytes before this, without padding */
    uint32_t reserved;
};
_Static_assert(sizeof(struct journal_entry) == 16, "part of the format");

#define BLOCK_MAGIC 0x6B636C62u /* "blck" */

struct block_header {
    uint32_t magic;
    uint32_t kind; /* 0: free */
    uint64_t key;
    uint64_t size;
    uint64_t capacity;
    /* Not part of the format. */
    uint64_t next_free;
    uint64_t next_hash;
    uint64_t unused[2];
};
_Static_assert(sizeof(struct block_header) == 64, "part of the format");

/* Sizes of blocks: four to each power of two from 256 on. */
#define BLOCK_CLASSES 128

/* Kind of the blocks of stored descriptors: this + enum state_fd_kind. */
#define STATE_KIND_FD 0x100u
#define STATE_KIND_FD_LAST (STATE_KIND_FD + 0xFF)

struct state {
    int fd;
    uint8_t *base;
    struct state_header *header;
    uint64_t journal_room; /* that has memory */
    uint64_t heap_room;    /* offset up to which there is memory */
    unsigned depth;
    bool in_hooks;
    bool again;
    struct state_hook *hooks;
    /* Offsets of block headers; 0: none. */
    uint64_t free_lists[BLOCK_CLASSES];
    uint64_t freed; /* in this transaction */
    uint64_t *buckets;
    size_t n_buckets; /* a power of two */
    size_t n_blocks;
    struct store *store; /* NULL: nobody keeps descriptors */
};

static inline void order_stores(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

static inline struct block_header *block_at(const struct state *st, uint64_t offset)
{
    return (struct block_header *) (st->base + offset);
}

static inline uint64_t offset_of(const struct state *st, const void *p)
{
    return (uint64_t) ((const uint8_t *) p - st->base);
}

/* memory.c: memory behind part of the file. -ENOMEM. */
int memory_get(struct state *st, uint64_t offset, uint64_t size);

/* blocks.c: checks the blocks, makes the free lists and the index. -EBADMSG, -ENOMEM. */
int blocks_load(struct state *st);
/* As state_block_next(), for kinds first to last. */
void *blocks_next(const struct state *st, uint32_t first, uint32_t last, uint64_t *position,
                  uint32_t *ret_kind, uint64_t *ret_key, size_t *ret_size);
/* What the transaction freed may be used again. */
void blocks_commit(struct state *st);

/* journal.c: checks and undoes. -EBADMSG. */
int journal_undo(struct state *st);

/* store.c */
struct store *store_free(struct store *s);
/* Tells the manager to remove what the transaction dropped; before blocks_commit(). */
void store_commit(struct state *st);
