/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring's writer and reader: what goes in comes out, in order, whole, or is refused; what a
 * hostile process puts there is refused and never leads outside.
 */
#include <sched.h>
#include <sys/mman.h>

#include "base/limits.h"
#include "shm-fixture.h"

#define RING 4096u
#define MS 1000000ull

static struct shm_fixture f;
static struct shm_writer w;
static struct shm_reader r;

static void ring_open(uint32_t ring_size)
{
    shm_fixture_open(&f, ring_size);
    ck_assert_int_eq(shm_reader_init(&r, f.read, f.base, 0, 0, ring_size, 1), 0);
    ck_assert_int_eq(shm_writer_claim(&w, f.arena, f.control, 0, 0, ring_size, false, 4711), 0);
}

static void look(uint64_t now)
{
    uint64_t vouch;

    ck_assert_int_eq(shm_reader_look(&r, now, false, &vouch), 0);
}

/* A record whose every byte follows from its number and size. */
static void fill(void *at, uint64_t number, uint32_t size)
{
    struct etl_record p = {.size = size,
                           .cpu = (uint16_t) number,
                           .type = SHM_RECORD_EVENT,
                           .slots = (uint32_t) number};

    memcpy(at, &p, sizeof(p));
    for (uint32_t i = sizeof(p); i < size; i++)
        ((uint8_t *) at)[i] = (uint8_t) (number * 31 + i * 7);
}

static bool filled(const void *at, uint64_t number, uint32_t size)
{
    const struct etl_record *p = at;

    if (p->size != size || p->cpu != (uint16_t) number || p->slots != (uint32_t) number ||
        p->type != SHM_RECORD_EVENT)
        return false;
    for (uint32_t i = sizeof(*p); i < size; i++)
        if (((const uint8_t *) at)[i] != (uint8_t) (number * 31 + i * 7))
            return false;
    return true;
}

static bool put(uint64_t number, uint32_t size)
{
    void *at;

    shm_writer_begin(&w);
    (void) shm_writer_stamp(&w, number);
    at = shm_writer_reserve(&w, size);
    if (!at) {
        shm_writer_abandon(&w);
        return false;
    }
    ck_assert_uint_eq((uintptr_t) at % SHM_RECORD_ALIGN, 0);
    fill(at, number, size);
    (void) shm_writer_publish(&w, size);
    return true;
}

static void take_claim(uint32_t tid)
{
    uint8_t out[RING];
    uint32_t v;
    int n;

    look(2);
    n = shm_reader_next(&r, out, sizeof(out));
    ck_assert_int_eq(n, 32);
    ck_assert_uint_eq(((struct etl_record *) out)->type, SHM_RECORD_CLAIM);
    memcpy(&v, out + sizeof(struct etl_record), sizeof(v));
    ck_assert_uint_eq(v, tid);
}

START_TEST(record_sizes)
{
    ck_assert_uint_eq(shm_record_size(0), 16);
    ck_assert_uint_eq(shm_record_size(1), 32);
    ck_assert_uint_eq(shm_record_size(80), 96);
    ck_assert_uint_eq(shm_event_max(SHM_RING_SIZE_MIN), SHM_RING_SIZE_MIN / 2 - 16);
    ck_assert_uint_eq(shm_record_size(shm_event_max(RING)), RING / 2);
    ck_assert_uint_ge(shm_event_max(SHM_RING_SIZE_DEFAULT), 65536);
}
END_TEST

START_TEST(claim_rules)
{
    struct shm_writer other;

    ring_open(RING);
    take_claim(4711);
    ck_assert_uint_eq(atomic_load(&f.arena->rings[0].claims), 1);
    ck_assert_int_eq(shm_writer_claim(&other, f.arena, f.control, 0, 0, RING, false, 1), -EBUSY);
    ck_assert(put(5, 96));
    shm_writer_release(&w);
    ck_assert_uint_eq(atomic_load(&f.arena->rings[0].claims), 2);
    /* Not drained: not given back, then the record not read. */
    ck_assert_int_eq(shm_writer_claim(&other, f.arena, f.control, 0, 0, RING, false, 1), -EAGAIN);
    shm_reader_commit(&r);
    ck_assert_int_eq(shm_writer_claim(&other, f.arena, f.control, 0, 0, RING, false, 1), -EAGAIN);
    look(6);
    ck_assert_int_eq(shm_reader_next(&r, (uint8_t[RING]){0}, RING), 96);
    ck_assert_int_eq(shm_reader_next(&r, (uint8_t[RING]){0}, RING), 0);
    shm_reader_commit(&r);
    ck_assert_int_eq(shm_writer_claim(&w, f.arena, f.control, 0, 0, RING, false, 12), 0);
    take_claim(12);
    /* Stamps go on over claims. */
    ck_assert_uint_eq(shm_writer_stamp(&w, 3), 5);
    ck_assert_uint_eq(shm_writer_stamp(&w, 8), 8);
    ck_assert_int_eq(shm_writer_claim(&other, f.arena, f.control, 0, 16, RING, false, 1), -EINVAL);
    ck_assert_int_eq(shm_writer_claim(&other, f.arena, f.control, 64, 0, RING, false, 1), -EINVAL);
    ck_assert_int_eq(shm_writer_claim(&other, f.arena, f.control, 0, 0, 5000, false, 1), -EINVAL);
    ck_assert_int_eq(shm_reader_init(&r, f.read, f.base, 0, 16, RING, 1), -EINVAL);
    ck_assert_int_eq(shm_reader_init(&r, f.read, f.base, 64, 0, RING, 1), -EINVAL);
    ck_assert_int_eq(shm_reader_init(&r, f.read, f.base, 0, 0, 2048, 1), -EINVAL);
    shm_fixture_close(&f);
}
END_TEST

/* A claim where the ring has no room left before its end but for a prefix (R2). */
START_TEST(claim_at_the_end)
{
    uint8_t out[RING];
    uint32_t at;

    ring_open(RING);
    take_claim(4711);
    for (uint64_t n = 5; (at = (uint32_t) w.head & (RING - 1)) != RING - 16; n++) {
        uint32_t size = RING - 16 - at < 512 ? RING - 16 - at : 256;
        ck_assert(put(n, size));
        look(n + 1);
        ck_assert_int_eq(shm_reader_next(&r, out, sizeof(out)), (int) size);
        shm_reader_commit(&r);
    }
    shm_writer_release(&w);
    ck_assert_int_eq(shm_writer_claim(&w, f.arena, f.control, 0, 0, RING, false, 12), 0);
    ck_assert_uint_eq(w.head & (RING - 1), 32);
    take_claim(12);
    ck_assert(put(1000, 96));
    look(1001);
    ck_assert_int_eq(shm_reader_next(&r, out, sizeof(out)), 96);
    ck_assert(filled(out, 1000, 96));
    shm_fixture_close(&f);
}
END_TEST

/* Any mixture of sizes and of reading: the model is a counter of what was put and what came. */
START_TEST(random_mixture)
{
    uint64_t seed = (uint64_t) _i + 1;
    uint32_t ring_size = _i % 2 ? 4096 : 16384;
    uint64_t put_numbers = 0;
    uint64_t got = 0;
    uint64_t refused = 0;
    uint64_t pads = 0;
    uint32_t *sizes;
    uint8_t *out = malloc(ring_size);
    int rounds = test_scale(40000);

    sizes = malloc(sizeof(*sizes) * (size_t) rounds);
    ring_open(ring_size);
    take_claim(4711);
    for (int round = 0; round < rounds; round++) {
        uint64_t v = shm_random(&seed);
        uint32_t limit = _i == 3 ? ring_size / 2 : 600;
        uint32_t size = shm_record_size((uint32_t) (v % (limit - 15)));
        /* Now the writer is the faster one, now the reader. */
        if ((v >> 32) % 16 < (round / 500 % 2 ? 15 : 4)) {
            uint64_t head = w.head;
            sizes[put_numbers] = size;
            if (put(put_numbers, size)) {
                pads += w.head - head != size;
                put_numbers++;
            } else {
                /* Refused only where it truly does not fit. */
                uint32_t rest = ring_size - (uint32_t) (head % ring_size);
                uint64_t need = size > rest ? (uint64_t) rest + size : size;
                ck_assert_uint_gt(head + need - r.tail, ring_size);
                ck_assert_uint_eq(w.head, head);
                refused++;
            }
        } else {
            look(put_numbers + 3);
            for (int n = (int) (v >> 40 & 7); n > 0; n--) {
                const void *record = NULL;
                uint32_t cap = v >> 50 & 1 ? ring_size : 16 + (v >> 51 & 0x3F);
                int size_got = shm_reader_peek(&r, out, cap, &record);
                if (size_got == 0) {
                    ck_assert_uint_eq(got, put_numbers);
                    ck_assert(shm_reader_drained(&r));
                    break;
                }
                ck_assert_int_eq(size_got, (int) sizes[got]);
                ck_assert_int_eq(memcmp(out, record, cap < sizes[got] ? cap : sizes[got]), 0);
                ck_assert(filled(record, got, sizes[got]));
                shm_reader_pop(&r, (uint32_t) size_got);
                got++;
            }
            if (v >> 58 & 1)
                shm_reader_commit(&r);
        }
    }
    look(put_numbers + 3);
    while (shm_reader_next(&r, out, ring_size) > 0) {
        ck_assert(filled(out, got, sizes[got]));
        got++;
    }
    ck_assert_uint_eq(got, put_numbers);
    /* The mixture meets what it is for. */
    ck_assert_uint_gt(refused, 10);
    ck_assert_uint_gt(pads, 10);
    free(out);
    free(sizes);
    shm_fixture_close(&f);
}
END_TEST

/* The largest record fits an empty ring at each position, and a larger one never. */
START_TEST(largest_record)
{
    uint8_t out[RING];

    ring_open(RING);
    take_claim(4711);
    shm_reader_commit(&r);
    for (uint32_t i = 0; i < 2 * RING / SHM_RECORD_ALIGN; i++) {
        ck_assert(put(2 * i, RING / 2));
        look(1000000);
        ck_assert_int_eq(shm_reader_next(&r, out, sizeof(out)), RING / 2);
        ck_assert(filled(out, 2 * i, RING / 2));
        shm_reader_commit(&r);
        ck_assert_ptr_null(shm_writer_reserve(&w, RING / 2 + 16));
        ck_assert_ptr_null(shm_writer_reserve(&w, RING));
        ck_assert_ptr_null(shm_writer_reserve(&w, UINT32_MAX - 15));
        ck_assert(put(2 * i + 1, 16));
        look(1000000);
        ck_assert_int_eq(shm_reader_next(&r, out, 16), 16);
        shm_reader_commit(&r);
        /* One record too large for what is copied is refused, not cut. */
        ck_assert(put(7, 48));
        look(1000000);
        ck_assert_int_eq(shm_reader_next(&r, out, 32), -EPROTO);
        ck_assert_int_eq(shm_reader_next(&r, out, 48), 48);
        shm_reader_commit(&r);
    }
    shm_fixture_close(&f);
}
END_TEST

static uint64_t vouch_at(uint64_t now, bool dead)
{
    uint64_t vouch = 0;

    ck_assert_int_eq(shm_reader_look(&r, now, dead, &vouch), 0);
    return vouch;
}

START_TEST(vouching)
{
    uint64_t limit = ETWD_BUSY_MAX_MS * MS;

    ring_open(RING);
    ck_assert_uint_eq(vouch_at(100 * MS, false), 100 * MS);
    ck_assert(!r.busy);
    /* Busy, no stamp yet: what the idle ring vouched for. */
    shm_writer_begin(&w);
    ck_assert_uint_eq(vouch_at(110 * MS, false), 100 * MS);
    ck_assert(r.busy);
    /* The stamp under way. */
    ck_assert_uint_eq(shm_writer_stamp(&w, 115 * MS), 115 * MS);
    ck_assert_uint_eq(vouch_at(120 * MS, false), 115 * MS);
    ck_assert_uint_eq(r.stamp, 115 * MS);
    /* A dead writer is idle; a stopped one is waited for, then passed over, and then not. */
    ck_assert_uint_eq(vouch_at(115 * MS + limit, false), 115 * MS);
    ck_assert_uint_eq(vouch_at(116 * MS + limit, false), 116 * MS + limit);
    (void) shm_writer_stamp(&w, 117 * MS + limit);
    ck_assert_uint_eq(vouch_at(120 * MS + limit, false), 117 * MS + limit);
    ck_assert_uint_eq(vouch_at(121 * MS + limit, true), 121 * MS + limit);
    ck_assert(!r.busy);
    shm_writer_abandon(&w);
    ck_assert_uint_eq(vouch_at(1000 * MS, false), 1000 * MS);
    /* A forged time is good for no more than now, and for no less than before. */
    shm_writer_begin(&w);
    atomic_store(&f.arena->rings[0].stamp, UINT64_MAX);
    ck_assert_uint_eq(vouch_at(1010 * MS, false), 1010 * MS);
    atomic_store(&f.arena->rings[0].stamp, 1);
    ck_assert_uint_eq(vouch_at(1020 * MS, false), 1010 * MS);
    /* In a time namespace where the clock shows 5 s more. */
    r.clock_offset = (int64_t) (5000 * MS);
    atomic_store(&f.arena->rings[0].stamp, 6015 * MS);
    ck_assert_uint_eq(vouch_at(1021 * MS, false), 1015 * MS);
    r.clock_offset = -(int64_t) (500 * MS);
    atomic_store(&f.arena->rings[0].stamp, 516 * MS);
    ck_assert_uint_eq(vouch_at(1022 * MS, false), 1016 * MS);
    shm_fixture_close(&f);
}
END_TEST

START_TEST(waking)
{
    void *at;
    unsigned wakes = 0;

    ring_open(RING);
    take_claim(4711);
    shm_reader_commit(&r);
    /* Awake: never. */
    while ((at = shm_writer_reserve(&w, 256))) {
        fill(at, 1, 256);
        ck_assert(!shm_writer_publish(&w, 256));
    }
    look(3);
    while (shm_reader_next(&r, (uint8_t[RING]){0}, RING) > 0)
        ;
    shm_reader_commit(&r);
    /* Asleep: once, when half full (the writer still thinks that it is full). */
    shm_control_set_sleep(f.area, 1u << 1);
    while ((at = shm_writer_reserve(&w, 256))) {
        fill(at, 1, 256);
        if (shm_writer_publish(&w, 256)) {
            wakes++;
            ck_assert_uint_ge(w.head - r.tail, RING / 2);
            ck_assert_uint_lt(w.head - r.tail, RING / 2 + 256);
        }
    }
    ck_assert_uint_eq(wakes, 1);
    look(4);
    while (shm_reader_next(&r, (uint8_t[RING]){0}, RING) > 0)
        ;
    shm_reader_commit(&r);
    /* Another number, low latency: at the first record. */
    shm_control_set_sleep(f.area, 2u << 1 | SHM_SLEEP_LOW_LATENCY);
    at = shm_writer_reserve(&w, 16);
    fill(at, 1, 16);
    ck_assert(shm_writer_publish(&w, 16));
    at = shm_writer_reserve(&w, 16);
    fill(at, 2, 16);
    ck_assert(!shm_writer_publish(&w, 16));
    /* A claim wakes nobody, and does not use the number up. */
    look(5);
    while (shm_reader_next(&r, (uint8_t[RING]){0}, RING) > 0)
        ;
    shm_reader_commit(&r);
    shm_writer_release(&w);
    shm_control_set_sleep(f.area, 3u << 1 | SHM_SLEEP_LOW_LATENCY);
    ck_assert_int_eq(shm_writer_claim(&w, f.arena, f.control, 0, 0, RING, false, 1), 0);
    at = shm_writer_reserve(&w, 16);
    fill(at, 1, 16);
    ck_assert(shm_writer_publish(&w, 16));
    shm_fixture_close(&f);
}
END_TEST

START_TEST(hostile_heads)
{
    struct shm_ring_line *line;
    uint64_t vouch = 77;
    uint64_t head;

    ring_open(RING);
    take_claim(4711);
    line = &f.arena->rings[0];
    head = w.head;
    for (uint64_t i = 0; i < 40; i++) {
        const uint64_t bad[] = {head + 1,         head + 8, head - 16,       head + RING,
                                head + RING + 16, 0,        UINT64_MAX - 15, 1ull << (i % 60 + 4)};
        uint64_t v = bad[i % ARRAY_SIZE(bad)];
        if (v == head || (v > head && v <= RING && v % 16 == 0))
            continue;
        atomic_store(&line->head, v);
        ck_assert_int_eq(shm_reader_look(&r, 5, false, &vouch), -EPROTO);
        ck_assert_uint_eq(vouch, 77);
        ck_assert_uint_eq(r.end, head);
    }
    /* Not yet given back: 32 bytes of the claim. */
    atomic_store(&line->head, RING);
    ck_assert_int_eq(shm_reader_look(&r, 5, false, &vouch), 0);
    shm_fixture_close(&f);
}
END_TEST

START_TEST(hostile_sizes)
{
    static const struct {
        uint32_t at, size;
        uint8_t type;
        int result;
    } cases[] = {
        {32, 0, SHM_RECORD_EVENT, -EPROTO},
        {32, 8, SHM_RECORD_EVENT, -EPROTO},
        {32, 15, SHM_RECORD_EVENT, -EPROTO},
        {32, 24, SHM_RECORD_EVENT, -EPROTO},
        {32, 16, SHM_RECORD_EVENT, 16},
        {32, 2048, SHM_RECORD_EVENT, 2048},
        {32, 2064, SHM_RECORD_EVENT, -EPROTO},
        {32, 4064, SHM_RECORD_EVENT, -EPROTO},
        {32, UINT32_MAX - 15, SHM_RECORD_EVENT, -EPROTO},
        {32, 16, SHM_RECORD_PAD, -EPROTO},
        {32, 4064, SHM_RECORD_PAD, -EPROTO},
        {3072, 1024, SHM_RECORD_EVENT, 1024},
        {3072, 1040, SHM_RECORD_EVENT, -EPROTO},
        {3072, 1008, SHM_RECORD_PAD, -EPROTO},
        {3072, 1024, SHM_RECORD_PAD, 0},
        {3072, 48, 0xEE, 48}, /* types are for the caller */
    };
    uint8_t out[RING];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct etl_record p = {.size = cases[i].size, .type = cases[i].type};
        ring_open(RING);
        take_claim(4711);
        shm_reader_commit(&r);
        r.position = r.tail = r.end = cases[i].at;
        memcpy(f.arena->rings, &(struct shm_ring_line){.head = RING}, sizeof(f.arena->rings[0]));
        memcpy((uint8_t *) f.arena + SHM_ARENA_HEADER + cases[i].at, &p, sizeof(p));
        look(9);
        ck_assert_msg(shm_reader_next(&r, out, sizeof(out)) == cases[i].result, "case %zu", i);
        ck_assert_uint_eq(r.position, cases[i].result > 0 ? cases[i].at + (uint32_t) cases[i].result
                                      : cases[i].result == 0 ? RING
                                                             : cases[i].at);
        shm_fixture_close(&f);
    }
}
END_TEST

/* Random bytes over everything the process can write: the reader stays inside, and ends. The arena
 * that it reads has no accessible neighbour. */
START_TEST(hostile_arena)
{
    uint64_t seed = 99;
    uint8_t out[RING];
    size_t size = shm_arena_size(RING);
    uint8_t *around;
    uint64_t records = 0;
    uint64_t errors = 0;

    shm_fixture_open(&f, RING);
    around = mmap(NULL, size + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(around, MAP_FAILED);
    ck_assert_ptr_eq(mmap(around + 4096, size, PROT_READ, MAP_SHARED | MAP_FIXED, f.arena_fd, 0),
                     around + 4096);
    for (uint32_t i = 0; i < SHM_RINGS_PER_ARENA; i++) {
        ck_assert_int_eq(shm_arena_give_ring(f.arena_fd, RING, i), 0);
        ck_assert_int_eq(shm_control_add_ring(f.area, i), 0);
    }
    for (int round = 0; round < test_scale(3000); round++) {
        uint32_t ring = (uint32_t) (shm_random(&seed) % SHM_RINGS_PER_ARENA);
        uint8_t *data = (uint8_t *) f.arena + SHM_ARENA_HEADER + ring * RING;
        uint64_t vouch;
        int n = 0;

        ck_assert_int_eq(shm_reader_init(&r, (void *) (around + 4096), f.base, 0, ring, RING, 1),
                         0);
        r.tail = r.position = r.end = shm_random(&seed) % 1000000 * 16;
        for (size_t i = 0; i < RING; i += 8) {
            uint64_t v = shm_random(&seed);
            /* Sizes that may be right, so that it gets somewhere. */
            if (v % 3 != 0)
                v = (v >> 8) % (RING / 16 / 8) * 16 | (v >> 40 & 0x1F) << 48;
            memcpy(data + i, &v, 8);
        }
        for (int looks = 0; looks < 4; looks++) {
            atomic_store(&f.arena->rings[ring].head, r.tail + shm_random(&seed) % (RING / 8) * 16);
            atomic_store(&f.arena->rings[ring].stamp, shm_random(&seed));
            atomic_store(&f.arena->rings[ring].busy, (uint8_t) shm_random(&seed));
            if (shm_reader_look(&r, 1000 + (uint64_t) looks, false, &vouch) < 0)
                continue;
            ck_assert_uint_le(vouch, 1000 + (uint64_t) looks);
            ck_assert_uint_ge(vouch, 1);
            while ((n = shm_reader_next(&r, out, sizeof(out))) > 0) {
                ck_assert_int_eq(n % 16, 0);
                ck_assert_int_le(n, RING / 2);
                ck_assert_uint_le(r.position, r.end);
                records++;
            }
            errors += n < 0;
            if (n < 0)
                break;
            shm_reader_commit(&r);
        }
    }
    ck_assert_uint_gt(records, 100);
    ck_assert_uint_gt(errors, 10);
    munmap(around, size + 2 * 4096);
    shm_fixture_close(&f);
}
END_TEST

START_TEST(lost_counters)
{
    struct shm_slot_config slots[10] = {0};
    uint32_t generation;

    ring_open(RING);
    for (unsigned i = 0; i < ARRAY_SIZE(slots); i++)
        slots[i] = (struct shm_slot_config){.state = i % 3 ? SHM_SLOT_OPEN : SHM_SLOT_FREE,
                                            .counter = (uint16_t) (500 + i),
                                            .largest_event = 1000};
    ck_assert_int_eq(shm_control_publish(f.area, 7, slots, ARRAY_SIZE(slots), &generation), 0);
    shm_writer_lost(&w, SHM_LOST_RING_FULL, 7, 1u << 0 | 1u << 1 | 1u << 9 | 1u << 31);
    shm_writer_lost(&w, SHM_LOST_TOO_BIG, 7, 1u << 9);
    shm_lost_add(f.arena, f.control, SHM_LOST_RING_FULL, 7, 1u << 9);
    /* No such table: nothing to count for. */
    shm_writer_lost(&w, SHM_LOST_NESTED, 8, UINT32_MAX);
    shm_writer_lost(&w, SHM_LOST_NESTED, SHM_REGISTRATIONS_MAX, UINT32_MAX);
    for (unsigned i = 0; i < SHM_LOST_COUNTERS; i++) {
        const struct shm_lost *l = &f.read->lost[i];
        uint64_t full = atomic_load(&l->events[SHM_LOST_RING_FULL]);
        ck_assert_uint_eq(full, i == 500 || i == 501 ? 1 : i == 509 ? 2 : 0);
        ck_assert_uint_eq(atomic_load(&l->events[SHM_LOST_TOO_BIG]), i == 509);
        ck_assert_uint_eq(atomic_load(&l->events[SHM_LOST_NESTED]), 0);
        ck_assert_uint_eq(atomic_load(&l->events[SHM_LOST_SESSION_FULL]), 0);
    }
    shm_fixture_close(&f);
}
END_TEST

/* ---- two threads ---- */

struct stress {
    uint64_t events;
    uint64_t written, refused;
    uint64_t longest; /* attempts in a row that found the ring full */
    bool fences;
    _Atomic bool done;
};

static void *stress_writer(void *arg)
{
    struct stress *s = arg;
    uint64_t seed = 5;

    for (uint64_t i = 0; i < s->events; i++) {
        uint32_t size = shm_record_size(16 + (uint32_t) (shm_random(&seed) % 300));
        uint64_t stamp;
        uint8_t flags;
        uint8_t *at;

        shm_writer_begin(&w);
        stamp = shm_writer_now(&w, &flags);
        at = shm_writer_reserve(&w, size);
        if (!at) {
            s->refused++;
            shm_writer_abandon(&w);
            (void) sched_yield();
            continue;
        }
        fill(at, s->written, size);
        memcpy(at + 16, &stamp, 8);
        memcpy(at + 24, &s->written, 8);
        s->written++;
        (void) shm_writer_publish(&w, size);
    }
    atomic_store(&s->done, true);
    return NULL;
}

/* Every event once, in order, whole, and never one that is older than what the ring vouched for. */
START_TEST(two_threads)
{
    struct stress s = {.events = (uint64_t) test_scale(300000), .fences = _i % 2};
    uint8_t out[RING];
    uint8_t want[RING];
    uint64_t got = 0;
    uint64_t vouched = 0;
    uint64_t busy_looks = 0;
    pthread_t thread;
    bool done;

    if (!s.fences && shm_membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) < 0)
        test_skip("membarrier is refused");
    ring_open(_i < 2 ? RING : 64 * RING);
    w.fences = s.fences;
    take_claim(4711);
    ck_assert_int_eq(pthread_create(&thread, NULL, stress_writer, &s), 0);
    do {
        uint64_t now;
        uint64_t vouch;
        uint64_t end = r.end;
        int n;

        done = atomic_load(&s.done);
        now = etw_clock_boottime();
        if (!s.fences)
            ck_assert_int_eq(shm_membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED), 0);
        ck_assert_int_eq(shm_reader_look(&r, now, false, &vouch), 0);
        busy_looks += r.busy;
        while ((n = shm_reader_next(&r, out, sizeof(out))) > 0) {
            uint64_t stamp;
            memcpy(&stamp, out + 16, 8);
            /* Above the head of the last look: not older than it vouched for. */
            if (r.position > end && vouched != 0)
                ck_assert_uint_ge(stamp, vouched);
            fill(want, got, (uint32_t) n);
            memcpy(want + 16, &stamp, 8);
            memcpy(want + 24, &got, 8);
            ck_assert_int_eq(memcmp(out, want, (size_t) n), 0);
            got++;
        }
        ck_assert_int_eq(n, 0);
        shm_reader_commit(&r);
        /* A passed-over writer's records may be older. */
        vouched = r.vouched;
    } while (!done);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(got, s.written);
    ck_assert_uint_eq(s.written + s.refused, s.events);
    ck_assert_uint_gt(got, 1000);
    fprintf(stderr, "%ju events, %ju refused, %ju looks at a busy writer\n", (uintmax_t) got,
            (uintmax_t) s.refused, (uintmax_t) busy_looks);
    shm_fixture_close(&f);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ring");
    TCase *t = tcase_create("ring");

    tcase_set_timeout(t, 240);
    tcase_add_test(t, record_sizes);
    tcase_add_test(t, claim_rules);
    tcase_add_test(t, claim_at_the_end);
    tcase_add_loop_test(t, random_mixture, 0, 4);
    tcase_add_test(t, largest_record);
    tcase_add_test(t, vouching);
    tcase_add_test(t, waking);
    tcase_add_test(t, hostile_heads);
    tcase_add_test(t, hostile_sizes);
    tcase_add_test(t, hostile_arena);
    tcase_add_test(t, lost_counters);
    tcase_add_loop_test(t, two_threads, 0, 4);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
