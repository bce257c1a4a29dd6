/* SPDX-License-Identifier: Apache-2.0
 *
 * Enable slots: the rule, tables of any length, filters, the pool, what a later etwd finds, and the
 * double look under a writer that never stops changing the table.
 */
#include <sched.h>
#include <stdio.h>

#include "shm-fixture.h"

#define RING 4096u

static struct shm_fixture f;
static struct shm_match m;

static uint32_t match(uint32_t registration, uint8_t level, uint64_t keyword, uint16_t id)
{
    return shm_slots_match(f.control, registration, level, keyword, id, &m);
}

static uint32_t publish(uint32_t registration, const struct shm_slot_config *slots, unsigned n)
{
    uint32_t generation;

    ck_assert_int_eq(shm_control_publish(f.area, registration, slots, n, &generation), 0);
    ck_assert_uint_eq(shm_control_generation(f.area, registration), generation);
    return generation;
}

/* The enable rule, each line a slot and an event. */
START_TEST(rule)
{
    enum { IGNORE_0 = 0x10, ENABLE_0 = 0x40 };
    static const struct {
        uint8_t slot_level;
        uint64_t any, all;
        uint32_t properties;
        uint8_t level;
        uint64_t keyword;
        bool wants;
    } cases[] = {
        /* level: 0 on either side passes, else not above the slot's */
        {0, 0, 0, 0, 0, 1, true},
        {0, 0, 0, 0, 255, 1, true},
        {4, 0, 0, 0, 0, 1, true},
        {4, 0, 0, 0, 4, 1, true},
        {4, 0, 0, 0, 5, 1, false},
        {1, 0, 0, 0, 1, 1, true},
        {1, 0, 0, 0, 2, 1, false},
        {255, 0, 0, 0, 255, 1, true},
        /* any: 0 is all bits */
        {5, 0, 0, 0, 5, 1ull << 63, true},
        {5, 6, 0, 0, 5, 1, false},
        {5, 6, 0, 0, 5, 3, true},
        {5, 6, 0, 0, 5, 4, true},
        /* all: each bit */
        {5, 0, 3, 0, 5, 1, false},
        {5, 0, 3, 0, 5, 3, true},
        {5, 0, 3, 0, 5, 7, true},
        {5, 8, 3, 0, 5, 7, false},
        {5, 8, 3, 0, 5, 11, true},
        /* keyword 0 passes, whatever the masks */
        {5, 8, 3, 0, 5, 0, true},
        {5, 8, 0, 0, 5, 0, true},
        {5, 8, 3, ENABLE_0, 5, 0, true},
        {4, 8, 3, ENABLE_0, 5, 0, false},
        {5, 8, 3, IGNORE_0, 5, 0, false},
        {5, 0, 0, IGNORE_0, 0, 0, false},
        {5, 0, 0, IGNORE_0 | ENABLE_0, 5, 0, false},
        {5, 0, 0, IGNORE_0, 5, 1, true},
    };

    shm_fixture_open(&f, RING);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct shm_slot_config slot = {.state = SHM_SLOT_OPEN,
                                       .level = cases[i].slot_level,
                                       .any = cases[i].any,
                                       .all = cases[i].all,
                                       .properties = cases[i].properties,
                                       .largest_event = 1000};
        const struct shm_enable_word *word = &shm_control_registration(f.control, 3)->word;
        uint32_t generation = publish(3, &slot, 1);
        ck_assert_msg(match(3, cases[i].level, cases[i].keyword, 9) == cases[i].wants, "case %zu",
                      i);
        ck_assert_uint_eq(m.slots, cases[i].wants);
        ck_assert_uint_eq(m.full, 0);
        ck_assert_uint_eq(m.generation, generation);
        ck_assert_uint_eq(m.largest, cases[i].wants ? 1000 : UINT32_MAX);
        /* The word never says no where a slot says yes. */
        if (cases[i].wants)
            ck_assert(shm_enable_word_wants(word, cases[i].level, cases[i].keyword));
        ck_assert_uint_eq(match(2, cases[i].level, cases[i].keyword, 9), 0);
    }
    ck_assert_uint_eq(match(SHM_REGISTRATIONS_MAX, 0, 0, 0), 0);
    ck_assert_uint_eq(match(UINT32_MAX, 0, 0, 0), 0);
    shm_fixture_close(&f);
}
END_TEST

START_TEST(words)
{
    static const struct {
        unsigned n;
        struct shm_slot_config slots[3];
        uint8_t level, on;
        uint64_t any;
    } cases[] = {
        {1, {{SHM_SLOT_OPEN, 4, .any = 6}}, 4, 1, 6},
        {2, {{SHM_SLOT_OPEN, 4, .any = 6}, {SHM_SLOT_OPEN, 2, .any = 1}}, 4, 1, 7},
        {2, {{SHM_SLOT_OPEN, 0, .any = 6}, {SHM_SLOT_OPEN, 2, .any = 1}}, 255, 1, 7},
        {2, {{SHM_SLOT_OPEN, 4, .any = 6}, {SHM_SLOT_OPEN, 2}}, 4, 1, UINT64_MAX},
        /* A full session is still told of its loss. */
        {2, {{SHM_SLOT_FULL, 5, .any = 8}, {SHM_SLOT_OPEN, 2, .any = 1}}, 5, 1, 9},
        {3, {{SHM_SLOT_FREE, 5, .any = 8}, {SHM_SLOT_OPEN, 2, .any = 1}}, 2, 1, 1},
        {1, {{SHM_SLOT_FREE, 5, .any = 8}}, 0, 0, 0},
        {0, {{0}}, 0, 0, 0},
    };

    shm_fixture_open(&f, RING);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct shm_enable_word *word = &shm_control_registration(f.control, 1023)->word;
        publish(1023, cases[i].slots, cases[i].n);
        ck_assert_uint_eq(word->level, cases[i].level);
        ck_assert_uint_eq(word->on, cases[i].on);
        ck_assert_uint_eq(word->any, cases[i].any);
    }
    ck_assert(!shm_enable_word_wants(&shm_control_registration(f.control, 1023)->word, 0, 0));
    shm_fixture_close(&f);
}
END_TEST

START_TEST(many_slots)
{
    struct shm_slot_config slots[SHM_SLOTS_MAX];

    shm_fixture_open(&f, RING);
    for (unsigned n = 0; n <= SHM_SLOTS_MAX; n++) {
        uint32_t want = 0;
        uint32_t full = 0;
        uint32_t fit = 0;

        for (unsigned i = 0; i < n; i++) {
            slots[i] = (struct shm_slot_config){.state = i % 5 == 3   ? SHM_SLOT_FREE
                                                         : i % 7 == 6 ? SHM_SLOT_FULL
                                                                      : SHM_SLOT_OPEN,
                                                .level = (uint8_t) (1 + i % 5),
                                                .items = i == 11   ? SHM_ITEM_STACK
                                                         : i == 12 ? SHM_ITEM_EVENT_KEY
                                                                   : 0,
                                                .largest_event = 5000 - 100 * i};
            if (slots[i].state == SHM_SLOT_FREE || slots[i].level < 3)
                continue;
            if (slots[i].state == SHM_SLOT_FULL)
                full |= 1u << i;
            else
                want |= 1u << i;
            if (slots[i].state == SHM_SLOT_OPEN && slots[i].largest_event >= 4000)
                fit |= 1u << i;
        }
        publish(0, slots, n);
        ck_assert_uint_eq(match(0, 3, 0, 0), want | full);
        ck_assert_uint_eq(m.slots, want);
        ck_assert_uint_eq(m.full, full);
        ck_assert_uint_eq(m.items, (want >> 11 & 1 ? SHM_ITEM_STACK : 0) |
                                       (want >> 12 & 1 ? SHM_ITEM_EVENT_KEY : 0));
        if (want)
            ck_assert_uint_eq(m.largest, 5000 - 100 * (31 - (unsigned) __builtin_clz(want)));
        uint32_t got = 77;
        ck_assert(shm_slots_fit(f.control, 0, &m, 4000, &got));
        ck_assert_uint_eq(got, fit);
        /* Another table: match again. */
        publish(0, slots, n);
        got = 77;
        ck_assert(!shm_slots_fit(f.control, 0, &m, 4000, &got));
        ck_assert_uint_eq(got, 77);
    }
    uint32_t generation;
    ck_assert_int_eq(shm_control_publish(f.area, 0, slots, SHM_SLOTS_MAX + 1, &generation),
                     -EINVAL);
    ck_assert_int_eq(shm_control_publish(f.area, SHM_REGISTRATIONS_MAX, slots, 1, &generation),
                     -EINVAL);
    shm_fixture_close(&f);
}
END_TEST

START_TEST(filters)
{
    uint16_t ids[SHM_FILTER_IDS_MAX + 1];
    struct shm_slot_config slots[4] = {
        {.state = SHM_SLOT_OPEN, .filtered = true, .filter_in = true, .ids = ids},
        {.state = SHM_SLOT_OPEN, .filtered = true, .filter_in = false, .ids = ids},
        {.state = SHM_SLOT_OPEN},
        {.state = SHM_SLOT_OPEN, .filtered = true, .filter_in = true},
    };

    shm_fixture_open(&f, RING);
    for (unsigned n = 0; n <= SHM_FILTER_IDS_MAX; n++) {
        uint8_t in[65536 / 8] = {0};

        for (unsigned i = 0; i < n; i++) {
            ids[i] = i == 5 ? 65535 : i == 9 ? 0 : (uint16_t) ((n - i) * 977 % 1009);
            in[ids[i] / 8] |= (uint8_t) (1 << ids[i] % 8);
        }
        slots[0].n_ids = slots[1].n_ids = (uint16_t) n;
        publish(0, slots, ARRAY_SIZE(slots));
        for (uint32_t id = 0; id < 65536; id += id < 1100 || id > 65500 ? 1 : 61) {
            bool there = in[id / 8] >> id % 8 & 1;
            ck_assert_uint_eq(match(0, 1, 1, (uint16_t) id), 4u | (there ? 1u : 2u));
        }
    }
    slots[1].n_ids = SHM_FILTER_IDS_MAX + 1;
    uint32_t generation = 7;
    uint32_t before = shm_control_generation(f.area, 0);
    ck_assert_int_eq(shm_control_publish(f.area, 0, slots, 2, &generation), -EINVAL);
    ck_assert_uint_eq(generation, 7);
    ck_assert_uint_eq(shm_control_generation(f.area, 0), before);
    ck_assert_uint_eq(match(0, 1, 1, 3), m.slots);
    shm_fixture_close(&f);
}
END_TEST

/* The pool gets full, says so, leaves what is in force alone, and has all its room again later. */
START_TEST(pool)
{
    uint16_t ids[SHM_FILTER_IDS_MAX] = {1, 2, 3};
    struct shm_slot_config slots[SHM_SLOTS_MAX];
    unsigned rounds[2];
    uint32_t generation;

    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++)
        slots[i] = (struct shm_slot_config){.state = SHM_SLOT_OPEN,
                                            .filtered = true,
                                            .filter_in = true,
                                            .n_ids = SHM_FILTER_IDS_MAX,
                                            .ids = ids};
    shm_fixture_open(&f, RING);
    for (unsigned round = 0; round < 2; round++) {
        unsigned n = 0;
        int r;
        while ((r = shm_control_publish(f.area, n, slots, SHM_SLOTS_MAX, &generation)) == 0)
            n++;
        ck_assert_int_eq(r, -ENOSPC);
        ck_assert_uint_gt(n, 400);
        rounds[round] = n;
        ck_assert_uint_eq(match(n, 1, 1, 1), 0);
        for (unsigned i = 0; i < n; i++)
            ck_assert_uint_eq(match(i, 1, 1, 1), UINT32_MAX);
        /* A small table still finds room, and a change of a full registration does not. */
        ck_assert_int_eq(shm_control_publish(f.area, 5, slots, SHM_SLOTS_MAX, &generation),
                         -ENOSPC);
        ck_assert_uint_eq(match(5, 1, 1, 1), UINT32_MAX);
        /* Both tables of each. */
        for (unsigned i = 0; i < n; i++) {
            publish(i, NULL, 0);
            publish(i, NULL, 0);
            ck_assert_uint_eq(match(i, 1, 1, 1), 0);
        }
    }
    ck_assert_uint_eq(rounds[0], rounds[1]);
    shm_fixture_close(&f);
}
END_TEST

/* A later etwd: tables in force, words and tails are kept; what an earlier one died in is not. */
START_TEST(load)
{
    uint16_t ids[] = {7, 5};
    struct shm_slot_config slots[12] = {0};
    struct shm_registration *reg;
    uint32_t generation;
    uint32_t offset;
    void *again;

    shm_fixture_open(&f, RING);
    for (unsigned i = 0; i < ARRAY_SIZE(slots); i++)
        slots[i] = (struct shm_slot_config){.state = SHM_SLOT_OPEN,
                                            .level = 3,
                                            .counter = (uint16_t) i,
                                            .filtered = i % 2,
                                            .filter_in = true,
                                            .n_ids = 2,
                                            .ids = ids};
    for (unsigned i = 0; i < 9; i++)
        publish(40, slots, i);
    generation = publish(40, slots, ARRAY_SIZE(slots));
    publish(41, slots, 3);
    reg = shm_control_registration(f.base, 40);
    /* Died while it wrote the next table, and before it wrote the word. */
    reg->table[!(generation & 1)] = 12345;
    atomic_store(&reg->word.on, 0);
    atomic_store(&shm_control_tail(f.base, 0)->tail, 4096);
    shm_control_free(f.area);
    ck_assert_int_eq(shm_control_map_write(f.control_fd, &again), 0);
    shm_control_unmap(f.base);
    f.base = again;
    ck_assert_int_eq(shm_control_load(f.control_fd, f.base, &f.area), 0);
    reg = shm_control_registration(f.base, 40);
    ck_assert_uint_eq(shm_control_generation(f.area, 40), generation);
    ck_assert_uint_eq(match(40, 3, 1, 5), 0xFFF);
    ck_assert_uint_eq(match(40, 3, 1, 6), 0x555);
    ck_assert_uint_eq(reg->word.on, 1);
    ck_assert_uint_eq(reg->word.level, 3);
    ck_assert_uint_eq(atomic_load(&shm_control_tail(f.control, 0)->tail), 4096);
    /* New tables take no memory of those in force. */
    for (unsigned i = 100; i < 200; i++)
        publish(i, slots, ARRAY_SIZE(slots));
    ck_assert_uint_eq(match(40, 3, 1, 6), 0x555);
    ck_assert_uint_eq(match(41, 3, 1, 5), 7);
    ck_assert_uint_eq(publish(40, slots, 1), generation + 1);
    ck_assert_uint_eq(match(40, 3, 1, 5), 1);

    /* Memory that does not hold together is refused: each kind of damage. */
    generation = shm_control_generation(f.area, 41);
    reg = shm_control_registration(f.base, 41);
    offset = reg->table[generation & 1];
    struct shm_block *b = (struct shm_block *) ((uint8_t *) f.base + offset);
    struct shm_block whole = *b;
    static const uint32_t bad_offsets[] = {
        1, 64, SHM_CONTROL_POOL + 8, SHM_CONTROL_SIZE, SHM_CONTROL_SIZE - 64, UINT32_MAX - 63};
    for (unsigned i = 0; i < ARRAY_SIZE(bad_offsets) + 6; i++) {
        struct shm_control *c = NULL;
        *b = whole;
        reg->table[generation & 1] = offset;
        if (i < ARRAY_SIZE(bad_offsets))
            reg->table[generation & 1] = bad_offsets[i];
        else if (i == ARRAY_SIZE(bad_offsets))
            b->next = offset;
        else if (i == ARRAY_SIZE(bad_offsets) + 1)
            b->n_slots = 9;
        else if (i == ARRAY_SIZE(bad_offsets) + 2)
            b->slots[0].state = 9;
        else if (i == ARRAY_SIZE(bad_offsets) + 3)
            b->slots[1].filter = SHM_CONTROL_SIZE - 4;
        else if (i == ARRAY_SIZE(bad_offsets) + 4)
            b->slots[1].filter = offset;
        else
            b->n_slots = 0;
        ck_assert_msg(shm_control_load(f.control_fd, f.base, &c) == -EBADMSG, "damage %u", i);
        ck_assert_ptr_null(c);
    }
    *b = whole;
    reg->table[generation & 1] = offset;
    shm_control_process(f.base)->version = SHM_VERSION + 1;
    struct shm_control *c = NULL;
    ck_assert_int_eq(shm_control_load(f.control_fd, f.base, &c), -EPROTONOSUPPORT);
    shm_fixture_close(&f);
}
END_TEST

START_TEST(generation_wraps)
{
    struct shm_slot_config slot = {.state = SHM_SLOT_OPEN};
    uint32_t last = UINT32_MAX - 3;

    shm_fixture_open(&f, RING);
    publish(0, &slot, 1);
    publish(0, &slot, 1);
    atomic_store(&shm_control_registration(f.base, 0)->generation, last);
    for (unsigned i = 0; i < 8; i++) {
        uint32_t generation = publish(0, &slot, 1);
        /* 0 would say: never enabled; 1 would be the table in force. */
        ck_assert_uint_eq(generation, last == UINT32_MAX ? 2 : last + 1);
        ck_assert_uint_eq(match(0, 0, 0, 0), 1);
        last = generation;
    }
    ck_assert_uint_lt(last, 10);
    shm_fixture_close(&f);
}
END_TEST

/* ---- torture ---- */

/* Table number g is made so that each answer tells its number: which slots want an event of id 1,
 * how large, and which counters. Filters come and go, so that blocks and filters change places. */
static uint32_t torture_slots(uint32_t g, struct shm_slot_config slots[SHM_SLOTS_MAX],
                              unsigned *ret_n)
{
    static const uint16_t yes[] = {1, 2, 3};
    static const uint16_t no[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    uint32_t want = 0;
    unsigned n = 1 + g % SHM_SLOTS_MAX;

    for (unsigned i = 0; i < n; i++) {
        bool wants = (g * 2654435761u >> i % 32) & 1 || i == 0;
        bool by_filter = (g + i) % 3 == 0;
        slots[i] = (struct shm_slot_config){.state = SHM_SLOT_OPEN,
                                            .level = wants || by_filter ? 5 : 1,
                                            .largest_event = 100000 + g,
                                            .counter = (uint16_t) (g % SHM_LOST_COUNTERS),
                                            .filtered = by_filter,
                                            .filter_in = true,
                                            .ids = wants ? yes : no,
                                            .n_ids = wants ? ARRAY_SIZE(yes) : ARRAY_SIZE(no)};
        if (wants)
            want |= 1u << i;
    }
    *ret_n = n;
    return want;
}

struct torture {
    _Atomic bool stop;
    _Atomic uint64_t looks, changes_seen, bad;
};

#define TORTURE_REGISTRATIONS 3u

static void *torture_reader(void *arg)
{
    struct torture *t = arg;
    uint64_t seed = 3;
    uint32_t last[TORTURE_REGISTRATIONS] = {0};

    while (!atomic_load(&t->stop)) {
        struct shm_slot_config slots[SHM_SLOTS_MAX];
        struct shm_match got;
        unsigned n;
        uint32_t reg = (uint32_t) (shm_random(&seed) % TORTURE_REGISTRATIONS);
        uint32_t want;
        uint32_t fit;
        uint16_t counters[SHM_SLOTS_MAX];

        (void) shm_slots_match(f.control, reg, 4, 1, 1, &got);
        want = torture_slots(got.generation, slots, &n);
        if (got.slots != want || got.largest != 100000 + got.generation ||
            got.generation < last[reg])
            atomic_fetch_add(&t->bad, 1);
        if (shm_slots_fit(f.control, reg, &got, 100000 + got.generation, &fit) && fit != want)
            atomic_fetch_add(&t->bad, 1);
        /* All of one table. */
        n = shm_slots_counters(f.control, reg, UINT32_MAX, counters);
        for (unsigned i = 1; i < n; i++)
            if (counters[i] != counters[0])
                atomic_fetch_add(&t->bad, 1);
        atomic_fetch_add(&t->looks, 1);
        if (got.generation != last[reg])
            atomic_fetch_add(&t->changes_seen, 1);
        last[reg] = got.generation;
    }
    return NULL;
}

START_TEST(torture)
{
    struct torture t = {0};
    pthread_t threads[2];
    uint32_t rounds = (uint32_t) test_scale(100000);

    shm_fixture_open(&f, RING);
    for (uint32_t g = 1; g <= rounds; g++) {
        struct shm_slot_config slots[SHM_SLOTS_MAX];
        unsigned n;
        (void) torture_slots(g, slots, &n);
        for (uint32_t reg = 0; reg < TORTURE_REGISTRATIONS; reg++)
            ck_assert_uint_eq(publish(reg, slots, n), g);
        if (g == 1)
            for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, torture_reader, &t), 0);
        /* The readers have their turn, also on one processor. */
        while (atomic_load(&t.looks) < g / 8)
            (void) sched_yield();
    }
    atomic_store(&t.stop, true);
    for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    fprintf(stderr, "%ju looks, %ju changes seen\n", (uintmax_t) t.looks,
            (uintmax_t) t.changes_seen);
    ck_assert_uint_eq(t.bad, 0);
    ck_assert_uint_gt(t.changes_seen, 100);
    shm_fixture_close(&f);
}
END_TEST

/* Any bytes where a table lies: an answer, inside the area. */
START_TEST(any_bytes)
{
    uint64_t seed = 17;
    uint16_t counters[SHM_SLOTS_MAX];
    struct shm_slot_config slots[SHM_SLOTS_MAX];
    uint64_t wanted = 0;
    unsigned n;

    shm_fixture_open(&f, RING);
    (void) torture_slots(31, slots, &n);
    for (unsigned i = 0; i < 40; i++)
        publish(i, slots, n);
    for (int round = 0; round < test_scale(20000); round++) {
        uint32_t reg = (uint32_t) (shm_random(&seed) % 40);
        uint64_t v = shm_random(&seed);
        /* Near the truth: numbers like those that stand there. */
        uint32_t value = v % 4 == 0   ? (uint32_t) (v >> 32)
                         : v % 4 == 1 ? SHM_CONTROL_POOL + (uint32_t) (v >> 32) % 30000 / 8 * 8
                         : v % 4 == 2 ? SHM_CONTROL_SIZE - (uint32_t) (v >> 32) % 1000
                                      : (uint32_t) (v >> 32) % 70;
        uint32_t at = SHM_CONTROL_POOL + (uint32_t) (v >> 8) % 30000 / 4 * 4;
        memcpy((uint8_t *) f.base + at, &value, 4);
        if (v >> 40 & 1)
            shm_control_registration(f.base, reg)->table[v >> 41 & 1] = value;
        wanted += match(reg, 4, 1, 1) != 0;
        ck_assert_uint_le(shm_slots_counters(f.control, reg, UINT32_MAX, counters), SHM_SLOTS_MAX);
        (void) shm_slots_fit(f.control, reg, &m, 4, &n);
    }
    ck_assert_uint_gt(wanted, 100);
    shm_fixture_close(&f);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("slots");
    TCase *t = tcase_create("slots");

    tcase_set_timeout(t, 240);
    tcase_add_test(t, rule);
    tcase_add_test(t, words);
    tcase_add_test(t, many_slots);
    tcase_add_test(t, filters);
    tcase_add_test(t, pool);
    tcase_add_test(t, load);
    tcase_add_test(t, generation_wraps);
    tcase_add_test(t, torture);
    tcase_add_test(t, any_bytes);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
