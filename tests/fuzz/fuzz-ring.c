/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: the reader of a ring over an arena that the process filled as it likes. The input is
 * pieces: the ring line's words as they are at one look, then bytes that are laid over the ring
 * from any place on. Reads outside (there is nothing around the arena), work without end and
 * records that break the rules are findings. What is left of a given-up ring is not read further.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shm/ring.h"

#define RING SHM_RING_SIZE_MIN
#define PAGE 4096u

#define CHECK(c)                                                                                   \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

/* One look of the input. */
struct piece {
    uint8_t busy, flags; /* bit 0: dead, 1: commit, 2: small copies */
    uint16_t head;       /* in units of SHM_RECORD_ALIGN above tail, signed; odd flags: bytes */
    uint16_t at, size;   /* of the bytes that follow */
    uint64_t stamp;
};

static void *guarded(size_t size)
{
    uint8_t *p =
        mmap(NULL, size + 2 * (size_t) PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(p != MAP_FAILED);
    CHECK(mprotect(p + PAGE, size, PROT_READ | PROT_WRITE) == 0);
    return p + PAGE;
}

static void look(struct shm_reader *r, struct shm_arena *arena, const struct piece *p, uint64_t now)
{
    static uint8_t out[RING];
    uint32_t cap = p->flags & 4 ? 96 : sizeof(out);
    uint64_t total = 0;
    uint64_t vouch = UINT64_MAX;
    uint64_t head = r->tail + (uint64_t) ((int16_t) p->head * (p->flags & 8 ? 1 : 16));
    int size;

    atomic_store(&arena->rings[3].busy, p->busy);
    atomic_store(&arena->rings[3].stamp, p->stamp);
    atomic_store(&arena->rings[3].head, head);
    if (shm_reader_look(r, now, p->flags & 1, &vouch) < 0) {
        CHECK(vouch == UINT64_MAX);
        return;
    }
    CHECK(vouch <= now && vouch > 0);
    CHECK(r->end == head && head - r->tail <= RING && head % 16 == 0);
    for (;;) {
        const void *record = NULL;
        uint64_t position = r->position;
        size = shm_reader_peek(r, out, cap, &record);
        if (size <= 0)
            break;
        CHECK(size % 16 == 0 && size <= (int) RING / 2);
        CHECK((const uint8_t *) record >= r->data &&
              (const uint8_t *) record + size <= r->data + RING);
        CHECK(memcmp(out, record, (uint32_t) size < cap ? (uint32_t) size : cap) == 0);
        shm_reader_pop(r, (uint32_t) size);
        CHECK(r->position > position && r->position <= r->end);
        total += (uint64_t) size;
    }
    CHECK(total <= RING);
    CHECK(size == -EPROTO || (size == 0 && shm_reader_drained(r)));
    if (size == 0 && p->flags & 2) {
        shm_reader_commit(r);
        CHECK(atomic_load(&r->tail_line->tail) == r->position);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct shm_arena *arena;
    static void *control;
    struct shm_reader r;
    uint8_t *ring;
    uint64_t now = 1000;

    if (!arena) {
        arena = guarded(shm_arena_size(RING));
        control = guarded(SHM_CONTROL_POOL);
    }
    memset(arena->rings, 0, sizeof(arena->rings));
    ring = (uint8_t *) arena + SHM_ARENA_HEADER + 3 * RING;
    memset(ring, 0, RING);
    atomic_store(&shm_control_tail(control, 3)->tail, size > 0 ? data[0] * 16ull : 0);
    CHECK(shm_reader_init(&r, arena, control, 0, 3, RING, 1) == 0);
    while (size >= sizeof(struct piece)) {
        struct piece p;
        uint32_t n;
        memcpy(&p, data, sizeof(p));
        data += sizeof(p);
        size -= sizeof(p);
        n = p.size < size ? p.size : (uint32_t) size;
        for (uint32_t i = 0; i < n; i++)
            ring[(p.at + i) % RING] = data[i];
        data += n;
        size -= n;
        look(&r, arena, &p, now);
        now += 60000000;
    }
    return 0;
}
