/* SPDX-License-Identifier: Apache-2.0
 *
 * A process's control area, etwd's side. The area is a memfd that only etwd writes; its pages get
 * memory by fallocate before they are touched, so that a lack of memory is an error here and not a
 * SIGBUS. The pool is handed out in units of a cache line, first fit.
 */
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
#define PAGES (SHM_CONTROL_SIZE / PAGE)
#define UNITS ((SHM_CONTROL_SIZE - SHM_CONTROL_POOL) / SHM_CACHE_LINE)
#define STORE(field, v) __atomic_store_n(&(field), (v), __ATOMIC_RELAXED)

struct shm_control {
    int fd;
    uint8_t *base;
    uint64_t pages[PAGES / 64]; /* those that have memory */
    uint64_t *units;            /* those in use; bits from `unit_words` on are 0 */
    size_t unit_words;
    uint32_t hint; /* units below are in use */
};

static bool bit_get(const uint64_t *map, uint32_t n)
{
    return map[n / 64] >> (n % 64) & 1;
}

static void bit_set(uint64_t *map, uint32_t n)
{
    map[n / 64] |= 1ull << (n % 64);
}

static void bit_clear(uint64_t *map, uint32_t n)
{
    map[n / 64] &= ~(1ull << (n % 64));
}

static int ensure(struct shm_control *c, uint32_t offset, uint32_t size)
{
    for (uint32_t p = offset / PAGE; p <= (offset + size - 1) / PAGE; p++) {
        int r;

        if (bit_get(c->pages, p))
            continue;
        do
            r = fallocate(c->fd, 0, (off_t) p * PAGE, PAGE);
        while (r < 0 && errno == EINTR);
        if (r < 0)
            return errno == ENOSPC ? -ENOMEM : -errno;
        bit_set(c->pages, p);
    }
    return 0;
}

/* ---- pool ---- */

static uint32_t units_for(size_t size)
{
    return (uint32_t) ((size + SHM_CACHE_LINE - 1) / SHM_CACHE_LINE);
}

static uint32_t filter_size(unsigned n_ids)
{
    return (uint32_t) (sizeof(struct shm_filter) + n_ids * sizeof(uint16_t));
}

static bool unit_used(const struct shm_control *c, uint32_t unit)
{
    return unit / 64 < c->unit_words && bit_get(c->units, unit);
}

static int units_grow(struct shm_control *c, uint32_t up_to)
{
    size_t words = (up_to + 63) / 64;
    uint64_t *p;

    if (words <= c->unit_words)
        return 0;
    words = (words + 15) / 16 * 16;
    p = realloc(c->units, words * sizeof(*p));
    if (!p)
        return -ENOMEM;
    memset(p + c->unit_words, 0, (words - c->unit_words) * sizeof(*p));
    c->units = p;
    c->unit_words = words;
    return 0;
}

static int pool_alloc(struct shm_control *c, size_t size, uint32_t *ret_offset)
{
    uint32_t n = units_for(size);
    uint32_t offset;
    uint32_t run = 0;
    uint32_t unit = c->hint;
    int r;

    while (unit < UNITS && run < n)
        run = unit_used(c, unit++) ? 0 : run + 1;
    if (run < n)
        return -ENOSPC;
    unit -= n;
    offset = SHM_CONTROL_POOL + unit * SHM_CACHE_LINE;
    r = units_grow(c, unit + n);
    if (r < 0)
        return r;
    r = ensure(c, offset, n * SHM_CACHE_LINE);
    if (r < 0)
        return r;
    for (uint32_t i = unit; i < unit + n; i++)
        bit_set(c->units, i);
    while (unit_used(c, c->hint))
        c->hint++;
    *ret_offset = offset;
    return 0;
}

static void pool_free(struct shm_control *c, uint32_t offset, size_t size)
{
    uint32_t unit = (offset - SHM_CONTROL_POOL) / SHM_CACHE_LINE;

    for (uint32_t i = unit; i < unit + units_for(size); i++)
        bit_clear(c->units, i);
    if (unit < c->hint)
        c->hint = unit;
}

/* ---- tables ---- */

static struct shm_block *block_at(struct shm_control *c, uint32_t offset)
{
    return (struct shm_block *) (c->base + offset);
}

static struct shm_filter *filter_at(struct shm_control *c, uint32_t offset)
{
    return (struct shm_filter *) (c->base + offset);
}

/* Only etwd writes here: what it reads back is what it wrote. */
static void table_free(struct shm_control *c, uint32_t offset)
{
    while (offset != 0) {
        const struct shm_block *b = block_at(c, offset);
        uint32_t next = b->next;

        for (uint32_t i = 0; i < b->n_slots; i++)
            if (b->slots[i].filter != 0)
                pool_free(c, b->slots[i].filter,
                          filter_size(filter_at(c, b->slots[i].filter)->count));
        pool_free(c, offset, sizeof(*b));
        offset = next;
    }
}

static int compare_ids(const void *a, const void *b)
{
    return (int) *(const uint16_t *) a - (int) *(const uint16_t *) b;
}

static int filter_write(struct shm_control *c, const struct shm_slot_config *config,
                        uint32_t *ret_offset)
{
    uint16_t ids[SHM_FILTER_IDS_MAX];
    struct shm_filter *f;
    int r;

    if (config->n_ids > SHM_FILTER_IDS_MAX)
        return -EINVAL;
    r = pool_alloc(c, filter_size(config->n_ids), ret_offset);
    if (r < 0)
        return r;
    if (config->n_ids > 0) {
        memcpy(ids, config->ids, config->n_ids * sizeof(ids[0]));
        qsort(ids, config->n_ids, sizeof(ids[0]), compare_ids);
    }
    f = filter_at(c, *ret_offset);
    STORE(f->in, config->filter_in);
    STORE(f->count, config->n_ids);
    for (unsigned i = 0; i < config->n_ids; i++)
        STORE(f->ids[i], ids[i]);
    return 0;
}

static int slot_write(struct shm_control *c, struct shm_slot *s,
                      const struct shm_slot_config *config)
{
    uint32_t filter = 0;
    int r;

    if (config->counter >= SHM_LOST_COUNTERS)
        return -EINVAL;
    if (config->filtered && config->state != SHM_SLOT_FREE) {
        r = filter_write(c, config, &filter);
        if (r < 0)
            return r;
    }
    STORE(s->state, (uint8_t) config->state);
    STORE(s->level, config->level);
    STORE(s->items, config->items);
    STORE(s->properties, config->properties);
    STORE(s->any, config->any);
    STORE(s->all, config->all);
    STORE(s->filter, filter);
    STORE(s->largest_event, config->largest_event);
    STORE(s->counter, config->counter);
    STORE(s->flags, config->independent ? SHM_SLOT_INDEPENDENT : 0);
    return 0;
}

/* A chain of blocks, whole at each step so that table_free() can take back a part of it. */
static int table_write(struct shm_control *c, const struct shm_slot_config *slots, unsigned n,
                       uint32_t *ret_offset)
{
    uint32_t first = 0;
    struct shm_block *last = NULL;

    for (unsigned i = 0; i < n; i++) {
        uint32_t offset;
        int r;

        if (i % SHM_BLOCK_SLOTS == 0) {
            r = pool_alloc(c, sizeof(struct shm_block), &offset);
            if (r < 0) {
                table_free(c, first);
                return r;
            }
            STORE(block_at(c, offset)->next, 0);
            STORE(block_at(c, offset)->n_slots, 0);
            if (last)
                STORE(last->next, offset);
            else
                first = offset;
            last = block_at(c, offset);
        }
        r = slot_write(c, &last->slots[i % SHM_BLOCK_SLOTS], &slots[i]);
        if (r < 0) {
            table_free(c, first);
            return r;
        }
        STORE(last->n_slots, i % SHM_BLOCK_SLOTS + 1);
    }
    *ret_offset = first;
    return 0;
}

/* The union over the open slots. Each field alone covers what it covered before and after a change
 * wherever both did, so a reader may see the fields of two changes mixed. */
static void word_write(struct shm_enable_word *word, const struct shm_slot_config *slots,
                       unsigned n)
{
    bool on = false;
    uint8_t level = 0;
    uint64_t any = 0;

    for (unsigned i = 0; i < n; i++) {
        uint8_t slot_level = slots[i].level != 0 ? slots[i].level : UINT8_MAX;
        if (slots[i].state == SHM_SLOT_FREE)
            continue;
        on = true;
        level = slot_level > level ? slot_level : level;
        any |= slots[i].any != 0 ? slots[i].any : UINT64_MAX;
    }
    /* On comes last and goes first: a reader that sees it sees what it stands for. */
    if (!on)
        atomic_store_explicit(&word->on, 0, memory_order_release);
    atomic_store_explicit(&word->level, level, memory_order_release);
    atomic_store_explicit(&word->any, any, memory_order_release);
    if (on)
        atomic_store_explicit(&word->on, 1, memory_order_release);
}

int shm_control_publish(struct shm_control *c, uint32_t registration,
                        const struct shm_slot_config *slots, unsigned n, uint32_t *ret_generation)
{
    struct shm_registration *reg;
    uint32_t generation;
    uint32_t side;
    uint32_t offset;
    int r;

    if (registration >= SHM_REGISTRATIONS_MAX || n > SHM_SLOTS_MAX)
        return -EINVAL;
    r = shm_control_add_registration(c, registration);
    if (r < 0)
        return r;
    reg = shm_control_registration(c->base, registration);
    generation = atomic_load_explicit(&reg->generation, memory_order_relaxed) + 1;
    if (generation == 0)
        generation = 2; /* 0 says: never enabled */
    side = generation & 1;
    /* A writer that still reads the old table of this side must see, once it reads anything of the
     * new one, that the table it believed in is not in force. */
    atomic_thread_fence(memory_order_release);
    offset = reg->table[side];
    STORE(reg->table[side], 0);
    table_free(c, offset);
    r = table_write(c, slots, n, &offset);
    if (r < 0)
        return r;
    STORE(reg->table[side], offset);
    atomic_store_explicit(&reg->generation, generation, memory_order_release);
    word_write(&reg->word, slots, n);
    *ret_generation = generation;
    return 0;
}

uint32_t shm_control_generation(const struct shm_control *c, uint32_t registration)
{
    if (registration >= SHM_REGISTRATIONS_MAX)
        return 0;
    return atomic_load_explicit(&shm_control_registration(c->base, registration)->generation,
                                memory_order_relaxed);
}

/* ---- the rest ---- */

static int control_make(int fd, void *base, struct shm_control **ret)
{
    struct shm_control *c;
    int r;

    c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->fd = fd;
    c->base = base;
    r = ensure(c, SHM_CONTROL_PROCESS, SHM_CONTROL_CLOCK + sizeof(struct shm_clock));
    if (r < 0) {
        shm_control_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

int shm_control_new(int fd, void *base, uint32_t ring_size, struct shm_control **ret)
{
    struct shm_control *c;
    int r;

    r = control_make(fd, base, &c);
    if (r < 0)
        return r;
    shm_control_process(base)->version = SHM_VERSION;
    shm_control_process(base)->ring_size = ring_size;
    *ret = c;
    return 0;
}

/* Marks an object of the pool; false: it overlaps or is outside. */
static bool mark(struct shm_control *c, uint32_t offset, size_t size)
{
    uint32_t unit;

    if (offset < SHM_CONTROL_POOL || offset > SHM_CONTROL_SIZE - size ||
        (offset - SHM_CONTROL_POOL) % SHM_CACHE_LINE != 0)
        return false;
    unit = (offset - SHM_CONTROL_POOL) / SHM_CACHE_LINE;
    for (uint32_t i = unit; i < unit + units_for(size); i++) {
        if (unit_used(c, i) || units_grow(c, i + 1) < 0)
            return false;
        bit_set(c->units, i);
    }
    return true;
}

/* Marks a table's blocks and filters, and tells its slots. */
static int table_load(struct shm_control *c, uint32_t offset, struct shm_slot_config *slots,
                      unsigned *ret_n)
{
    unsigned n = 0;

    while (offset != 0) {
        const struct shm_block *b;

        if (n % SHM_BLOCK_SLOTS != 0 || n >= SHM_SLOTS_MAX || !mark(c, offset, sizeof(*b)))
            return -EBADMSG;
        b = block_at(c, offset);
        if (b->n_slots == 0 || b->n_slots > SHM_BLOCK_SLOTS)
            return -EBADMSG;
        for (uint32_t i = 0; i < b->n_slots; i++) {
            const struct shm_slot *s = &b->slots[i];
            if (s->state > SHM_SLOT_FULL)
                return -EBADMSG;
            if (s->filter != 0) {
                const struct shm_filter *f = filter_at(c, s->filter);
                if (s->filter > SHM_CONTROL_SIZE - filter_size(SHM_FILTER_IDS_MAX) ||
                    f->count > SHM_FILTER_IDS_MAX || !mark(c, s->filter, filter_size(f->count)))
                    return -EBADMSG;
            }
            slots[n++] = (struct shm_slot_config){
                .state = (enum shm_slot_state) s->state, .level = s->level, .any = s->any};
        }
        offset = b->next;
    }
    *ret_n = n;
    return 0;
}

/* Pages that an earlier etwd gave memory: reading the others would give them some. */
static int pages_load(struct shm_control *c)
{
    off_t at = 0;

    while (at < (off_t) SHM_CONTROL_SIZE) {
        off_t data = lseek(c->fd, at, SEEK_DATA);
        if (data < 0)
            return errno == ENXIO ? 0 : -errno;
        at = lseek(c->fd, data, SEEK_HOLE);
        if (at < 0)
            return -errno;
        for (off_t p = data / PAGE; p < (at + PAGE - 1) / PAGE && p < PAGES; p++)
            bit_set(c->pages, (uint32_t) p);
    }
    return 0;
}

int shm_control_load(int fd, void *base, struct shm_control **ret)
{
    const struct shm_process *p = shm_control_process(base);
    struct shm_control *c;
    int r;

    r = control_make(fd, base, &c);
    if (r < 0)
        return r;
    r = pages_load(c);
    if (r == 0 && p->version != SHM_VERSION)
        r = -EPROTONOSUPPORT;
    if (r < 0) {
        shm_control_free(c);
        return r;
    }
    for (uint32_t i = 0; i < SHM_REGISTRATIONS_MAX; i++) {
        struct shm_registration *reg = shm_control_registration(base, i);
        struct shm_slot_config slots[SHM_SLOTS_MAX];
        uint32_t generation;
        unsigned n;

        if (!bit_get(c->pages, (SHM_CONTROL_REGISTRATIONS + i * SHM_CACHE_LINE) / PAGE))
            continue;
        generation = atomic_load_explicit(&reg->generation, memory_order_relaxed);
        if (generation == 0)
            continue;
        r = table_load(c, reg->table[generation & 1], slots, &n);
        if (r < 0) {
            shm_control_free(c);
            return r;
        }
        /* The other side was perhaps being written, and the word not yet. */
        STORE(reg->table[!(generation & 1)], 0);
        word_write(&reg->word, slots, n);
    }
    *ret = c;
    return 0;
}

struct shm_control *shm_control_free(struct shm_control *c)
{
    if (c)
        free(c->units);
    free(c);
    return NULL;
}

int shm_control_add_registration(struct shm_control *c, uint32_t registration)
{
    if (registration >= SHM_REGISTRATIONS_MAX)
        return -EINVAL;
    return ensure(c, SHM_CONTROL_REGISTRATIONS + registration * SHM_CACHE_LINE, SHM_CACHE_LINE);
}

int shm_control_add_ring(struct shm_control *c, uint32_t ring)
{
    if (ring >= SHM_RINGS_MAX)
        return -EINVAL;
    return ensure(c, SHM_CONTROL_TAILS + ring * SHM_CACHE_LINE, SHM_CACHE_LINE);
}

void shm_control_set_rings(struct shm_control *c, uint32_t n)
{
    atomic_store_explicit(&shm_control_process(c->base)->rings, n, memory_order_release);
}

void shm_control_set_sleep(struct shm_control *c, uint32_t sleep)
{
    atomic_store_explicit(&shm_control_process(c->base)->sleep, sleep, memory_order_relaxed);
}
