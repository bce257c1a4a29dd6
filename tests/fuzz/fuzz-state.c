/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: a predecessor's state. The input is the header (40 bytes), the length of the journal
 * (2 bytes), the journal, the blocks. Whatever it is: refused, or a state that can be walked,
 * changed, and loaded once more with what was changed.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "state/internal.h"

#define CHECK(c)                                                                                   \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

/* No descriptor store here. */
struct store *store_free(struct store *s)
{
    return NULL;
}

void store_commit(struct state *st)
{
}

static uint64_t walk(struct state *st)
{
    uint64_t sum = 0, n = 0;
    for (unsigned kind = 1; kind < 64; kind++) {
        uint64_t position = 0, key;
        size_t size;
        const uint8_t *p;
        while ((p = state_block_next(st, (enum state_kind) kind, &position, &key, &size))) {
            for (size_t i = 0; i < size; i++)
                sum += p[i];
            CHECK(state_block_find(st, (enum state_kind) kind, key, NULL) == p);
            CHECK(n++ < 1 << 20); /* it ends */
        }
    }
    return sum;
}

static void put(int fd, const void *data, size_t size, off_t at)
{
    CHECK(size == 0 || pwrite(fd, data, size, at) == (ssize_t) size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct state_header h;
    struct state *st;
    uint16_t journal;
    void *p;

    if (size < sizeof(h) + sizeof(journal))
        return 0;
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0);
    memcpy(&h, data, sizeof(h));
    memcpy(&journal, data + sizeof(h), sizeof(journal));
    data += sizeof(h) + sizeof(journal);
    size -= sizeof(h) + sizeof(journal);
    if (journal > size)
        journal = (uint16_t) size;
    CHECK(ftruncate(fd, STATE_HEAP_OFFSET + (1 << 16)) == 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    put(fd, &h, sizeof(h), 0);
    put(fd, data, journal, STATE_JOURNAL_OFFSET);
    size -= journal;
    put(fd, data + journal, size < 1 << 16 ? size : 1 << 16, STATE_HEAP_OFFSET);

    int again = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    CHECK(again >= 0);
    if (state_load(fd, &st) < 0) {
        (void) close(fd);
        (void) close(again);
        return 0;
    }
    uint64_t sum = walk(st);
    state_begin(st);
    void *mine = state_block_find(st, STATE_RING, 0x1234567, NULL);
    if (mine)
        state_block_free(st, mine);
    CHECK(state_block_new(st, STATE_RING, 0x1234567, 100, &p) == 0);
    state_save(st, p, 100);
    memset(p, 0, 100);
    state_commit(st);
    if (!mine)
        CHECK(walk(st) == sum);
    state_begin(st);
    state_save(st, p, 1);
    *(uint8_t *) p = 1;
    state_free(st);
    CHECK(state_load(again, &st) == 0);
    const uint8_t *found = state_block_find(st, STATE_RING, 0x1234567, NULL);
    CHECK(found && *found == 0);
    state_free(st);
    return 0;
}
