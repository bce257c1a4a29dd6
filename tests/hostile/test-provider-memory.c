/* SPDX-License-Identifier: Apache-2.0
 *
 * Provider processes that do to their shared memory what they like: the words of their rings, the
 * records, the memory itself. etwd goes on, others lose nothing and wait for nothing, and what is
 * forged is dropped and counted.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "provider-fixture.h"
#include "shm/arena.h"
#include "shm/clock.h"

static void setup(void)
{
    fixture_begin(NULL);
}

static void teardown(void)
{
    fixture_end();
}

/* Any attack: a process that is let in like any other. */
/* etwd looks at the rings again and again while an attacker naps. */
static void nap(struct raw_provider *p)
{
    (void) raw_wake(p);
    usleep(20000);
}

/* ---- the words of a ring ---- */

static void random_arena(const void *arg)
{
    uint64_t seed = *(const uint64_t *) arg;
    struct raw_provider p;
    uint8_t *bytes;
    size_t size;

    open_raw(&p);
    bytes = (uint8_t *) p.arena;
    size = shm_arena_size(p.ring_size);
    for (int i = 0; i < 40; i++) {
        switch (raw_random(&seed) % 4) {
        case 0: /* the words */
            raw_random_bytes(&seed, p.arena->rings, sizeof(p.arena->rings));
            break;
        case 1: /* the counters */
            raw_random_bytes(&seed, p.arena->lost, sizeof(p.arena->lost));
            break;
        case 2: /* the ring that is in use, and a head that is possible */
            raw_random_bytes(&seed, bytes + SHM_ARENA_HEADER, p.ring_size);
            atomic_fetch_add(&p.arena->rings[0].head, raw_random(&seed) % p.ring_size & ~15ull);
            break;
        default: /* a few bytes anywhere that memory was given to */
            for (int k = 0; k < 1000; k++)
                bytes[raw_random(&seed) % (size < SHM_ARENA_HEADER + p.ring_size
                                               ? size
                                               : SHM_ARENA_HEADER + p.ring_size)] =
                    (uint8_t) raw_random(&seed);
        }
        (void) raw_wake(&p);
        usleep(2000);
    }
    raw_done(&p);
}

START_TEST(random_bytes_over_everything)
{
    for (int i = 0; i < test_scale(20); i++) {
        uint64_t seed = 0xE7D0000u + (uint64_t) i;

        attack("random bytes", random_arena, &seed);
    }
}
END_TEST

static void head_that_lies(const void *arg)
{
    int64_t by = *(const int64_t *) arg;
    struct raw_provider p;

    open_raw(&p);
    ck_assert_uint_eq(raw_write(&p, &attacked_guid, 0, 10), 10);
    nap(&p);
    atomic_fetch_add(&p.arena->rings[p.writer.line - p.arena->rings].head, (uint64_t) by);
    nap(&p);
    /* It goes on as if nothing was. */
    (void) raw_write(&p, &attacked_guid, 100, 10);
    nap(&p);
    raw_done(&p);
}

START_TEST(heads)
{
    static const int64_t by[] = {-16,       -1,        1,         8,          16,
                                 4096,      262144,    262160,    -262144,    1ll << 31,
                                 1ll << 32, INT64_MAX, INT64_MIN, 0x7FFFFFF0, -0x7FFFFFF0,
                                 524288,    15};

    for (size_t i = 0; i < ARRAY_SIZE(by); i++)
        attack("a head that lies", head_that_lies, &by[i]);
}
END_TEST

/* Busy for ever, with a stamp of its choice: the others are held up no longer than etwd allows, and
 * stop and flush return. */
static void busy_for_ever(const void *arg)
{
    uint64_t stamp = *(const uint64_t *) arg;
    struct raw_provider p;

    open_raw(&p);
    for (int i = 0; i < 30; i++) {
        atomic_store(&p.writer.line->busy, 1);
        if (stamp != 1)
            atomic_store(&p.writer.line->stamp, stamp);
        nap(&p);
    }
    raw_done(&p);
}

START_TEST(busy_and_stamps)
{
    static const uint64_t stamps[] = {1 /* leave it */, 0, 2, UINT64_MAX, INT64_MAX, 1ull << 40};

    for (size_t i = 0; i < ARRAY_SIZE(stamps); i++) {
        pid_t pid = attack_begin(attacker_uid(), busy_for_ever, &stamps[i]);

        for (int k = 0; k < 3; k++)
            check_well("beside a ring that is busy for ever");
        attack_end("busy for ever", pid);
    }
}
END_TEST

static void claims_and_losses(const void *arg)
{
    struct raw_provider p;

    (void) arg;
    open_raw(&p);
    for (uint32_t i = 0; i < 200; i++) {
        for (uint32_t ring = 0; ring < SHM_RINGS_PER_ARENA; ring++)
            atomic_store(&p.arena->rings[ring].claims, i * 0x01010101u + ring);
        for (uint32_t k = 0; k < SHM_LOST_COUNTERS; k++)
            for (uint32_t c = 0; c < SHM_LOST_CAUSES; c++)
                atomic_store(&p.arena->lost[k].events[c], i % 2 ? 0 : UINT64_MAX - i);
        if (i % 10 == 0) {
            uint32_t status;

            nap(&p);
            (void) raw_more_rings(&p, &status);
        }
    }
    raw_done(&p);
}

START_TEST(claims_and_loss_counters)
{
    attack("claims and losses", claims_and_losses, NULL);
}
END_TEST

/* ---- records ---- */

struct forgery {
    const char *name;
    void (*spoil)(struct raw_provider *p, struct raw_record *r, unsigned i);
    /* What becomes of its records: all are in the file, none is and each is counted, or etwd may
     * do as it likes (give the ring up). */
    enum { TAKEN, DROPPED, ANY } fate;
    bool counted;
};
#define FORGED 20u
#define GOOD 10u

static void spoil_ids(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    r->event.process_id = i % 2 ? 1 : (uint32_t) i * 7919;
    r->event.thread_id = UINT32_MAX - i;
}

static void spoil_past(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    r->event.time_stamp = i;
}

static void spoil_future(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    r->event.time_stamp = UINT64_MAX - i;
}

static void spoil_slots(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    r->prefix.slots = 1u << 31 | 1u << (1 + i % 30);
}

static void spoil_no_slots(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    r->prefix.slots = 0;
}

static void spoil_generation(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    r->prefix.generation = (uint16_t) (r->prefix.generation + 1 + i * 997);
}

static void spoil_registration(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    static const uint16_t indexes[] = {1, 2, 1023, 1024, 32767, 65535};

    r->prefix.registration = indexes[i % ARRAY_SIZE(indexes)];
}

static void spoil_cpu(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    r->prefix.cpu = (uint16_t) (65535 - i);
}

static void spoil_type(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    static const uint8_t types[] = {0, 2, 3, 0x0F, 0x12, 0xFF};

    r->prefix.type = types[i % ARRAY_SIZE(types)];
}

static void spoil_event_size(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    static const uint16_t sizes[] = {0, 1, 8, 79, 129, 1000, 32768, 65535};

    r->event.size = sizes[i % ARRAY_SIZE(sizes)];
}

static void spoil_header(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    r->event.header_type = (uint8_t) (i * 13);
    r->event.marker = (uint8_t) (i * 31);
    r->event.flags = (uint16_t) ~ETL_EVENT_FLAG_EXTENDED_INFO;
    r->event.event_property = (uint16_t) (i * 4099);
    r->event.kernel_time = r->event.user_time = UINT32_MAX;
}

/* Another provider's GUID: etwd knows whose registration it is. */
static void spoil_guid(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    r->event.provider_id = honest_guid;
}

static void spoil_items(struct raw_provider *p, struct raw_record *r, unsigned i)
{
    static const struct etl_item_header items[] = {
        {.size = 0, .type = 1, .linkage = 1},
        {.size = 8, .type = 1, .linkage = 1},
        {.size = 16, .type = 1, .linkage = 1, .data_size = 16},
        {.size = 65528, .type = 11, .linkage = 0, .data_size = 65000},
        {.size = 24, .type = 1, .linkage = 0, .data_size = 0xFFFF},
        {.size = 24, .type = 1, .linkage = 1, .data_size = 16},
        {.size = 7, .type = 12, .linkage = 0, .data_size = 1},
        {.size = 4, .type = 12, .linkage = 0, .data_size = 0},
    };

    r->event.flags |= ETL_EVENT_FLAG_EXTENDED_INFO;
    memcpy(&r->number, &items[i % ARRAY_SIZE(items)], sizeof(items[0]));
}

static const struct forgery forgeries[] = {
    {"pids and tids", spoil_ids, TAKEN, false},
    {"a time long gone", spoil_past, TAKEN, true},
    {"a time to come", spoil_future, TAKEN, true},
    {"slots that the table has not", spoil_slots, DROPPED, true},
    {"no slots", spoil_no_slots, DROPPED, false},
    {"generations that never were", spoil_generation, DROPPED, true},
    {"registrations of nobody", spoil_registration, DROPPED, true},
    {"processors that are not there", spoil_cpu, DROPPED, true},
    {"types of nothing", spoil_type, DROPPED, true},
    {"sizes of the event", spoil_event_size, DROPPED, true},
    {"header words", spoil_header, TAKEN, false},
    {"another's GUID", spoil_guid, TAKEN, false},
    {"items", spoil_items, ANY, false},
};

static void forge(const void *arg)
{
    const struct forgery *f = arg;
    struct raw_provider p;
    struct raw_record r;

    open_raw(&p);
    for (unsigned i = 0; i < FORGED; i++) {
        ck_assert(raw_record(&p, &attacked_guid, i, &r));
        f->spoil(&p, &r, i);
        ck_assert_int_eq(raw_push(&p, &r, r.prefix.size), 0);
    }
    /* What follows is good, and taken. */
    ck_assert_uint_eq(raw_write(&p, &attacked_guid, 1000, GOOD), GOOD);
    raw_done(&p);
}

START_TEST(forged_records)
{
    const struct forgery *f = &forgeries[_i];
    struct session_counts before, after;
    pid_t pid;

    query_counts(shared_session, &before);
    pid = attack_begin(attacker_uid(), forge, f);
    attack_end(f->name, pid);
    if (f->fate == ANY)
        return;
    fixture_expect(pid, f->fate == TAKEN ? FORGED + GOOD : GOOD);
    /* The process is gone; its rings are read to the end. */
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100; i++) {
        ck_assert_uint_eq(
            client_control(honest, NULL, shared_session, ETWD__CONTROL_SESSION__CODE__FLUSH), 0);
        query_counts(shared_session, &after);
        if (!f->counted || after.invalid >= before.invalid + FORGED)
            break;
        usleep(10000);
    }
    if (f->counted)
        ck_assert_msg(after.invalid >= before.invalid + FORGED,
                      "%s: %ju are counted invalid, %u were forged", f->name,
                      (uintmax_t) (after.invalid - before.invalid), FORGED);
}
END_TEST

/* Prefixes that break the ring's rules: etwd gives the ring up, and the process's other rings and
 * everybody else go on. */
static void prefix_that_lies(const void *arg)
{
    uint32_t size = *(const uint32_t *) arg;
    struct raw_provider p;
    struct raw_record r;

    open_raw(&p);
    ck_assert_uint_eq(raw_write(&p, &attacked_guid, 0, GOOD), GOOD);
    ck_assert(raw_record(&p, &attacked_guid, 99, &r));
    r.prefix.size = size;
    ck_assert_int_eq(raw_push(&p, &r, 128), 0);
    nap(&p);
    raw_done(&p);
}

static void pad_that_lies(const void *arg)
{
    struct raw_provider p;
    struct raw_record r;

    open_raw(&p);
    ck_assert(raw_record(&p, &attacked_guid, 99, &r));
    r.prefix = (struct etl_record){.size = *(const uint32_t *) arg, .type = SHM_RECORD_PAD};
    ck_assert_int_eq(raw_push(&p, &r, 128), 0);
    nap(&p);
    raw_done(&p);
}

START_TEST(sizes_of_records)
{
    static const uint32_t sizes[] = {0,          1,      8,      15,        17,     24,
                                     144,        131072, 131088, 262144,    262160, UINT32_MAX,
                                     0x80000000, 16,     112,    0xFFFFFFF0};

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        attack("sizes of records", prefix_that_lies, &sizes[i]);
        attack("pads", pad_that_lies, &sizes[i]);
    }
}
END_TEST

/* A record that changes while etwd looks at it, and a head that runs. */
static void racing(const void *arg)
{
    uint64_t seed = *(const uint64_t *) arg;
    struct raw_provider p;
    struct raw_record r;
    uint8_t *data;

    open_raw(&p);
    p.patience_ms = 100; /* the ring may be given up at any moment */
    data = (uint8_t *) p.arena + SHM_ARENA_HEADER;
    for (int i = 0; i < 20000; i++) {
        if (!raw_record(&p, &attacked_guid, (uint64_t) i, &r))
            break;
        if (raw_push(&p, &r, r.prefix.size) < 0)
            break;
        /* What was published changes behind its back. */
        for (int k = 0; k < 8; k++) {
            uint32_t at = ((uint32_t) p.writer.head - (uint32_t) raw_random(&seed) % 4096) &
                          (p.ring_size - 1) & ~15u;
            struct etl_record *victim = (struct etl_record *) (data + at);

            switch (raw_random(&seed) % 3) {
            case 0:
                victim->slots = (uint32_t) raw_random(&seed);
                break;
            case 1:
                ((struct etl_event_header *) (victim + 1))->size = (uint16_t) raw_random(&seed);
                break;
            default:
                victim->generation = (uint16_t) raw_random(&seed);
            }
        }
    }
    raw_done(&p);
}

START_TEST(records_that_change)
{
    for (int i = 0; i < test_scale(3); i++) {
        uint64_t seed = 77 + (uint64_t) i;

        attack("records that change", racing, &seed);
    }
}
END_TEST

/* ---- the memory ---- */

/* Before it answers ArenaMapped. */
enum tamper { CUT, GROW, PUNCH, SEAL_WRITE, SEAL_FUTURE_WRITE, SEAL_SEAL, ALLOCATE, TAMPERS };

static void tampers_first(const void *arg)
{
    enum tamper how = *(const enum tamper *) arg;
    struct raw_provider p;
    uint32_t status = 0;
    int fd;

    ck_assert_int_eq(raw_connect(&p), 0);
    ck_assert_int_eq(raw_attach(&p, SHM_VERSION, true, &status), 0);
    ck_assert_uint_eq(status, 0);
    ck_assert_int_eq(raw_register(&p, 0, &attacked_guid, sizeof(attacked_guid), NULL, 0, &status),
                     0);
    ck_assert_uint_eq(status, 0);
    ck_assert_int_eq(raw_wait_offer(&p), 0);
    fd = p.offer.arena_fd;
    if (how != SEAL_WRITE && how != SEAL_FUTURE_WRITE)
        ck_assert_int_eq(raw_map(&p), 0);
    switch (how) {
    case CUT:
        ck_assert_int_lt(ftruncate(fd, 4096), 0);
        break;
    case GROW:
        ck_assert_int_lt(ftruncate(fd, 64 << 20), 0);
        ck_assert_int_lt(fallocate(fd, 0, 0, 64 << 20), 0);
        break;
    case PUNCH:
        (void) fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                         (off_t) shm_arena_size(p.ring_size));
        break;
    case SEAL_WRITE:
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
        break;
    case SEAL_FUTURE_WRITE:
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
        break;
    case SEAL_SEAL:
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
        break;
    default:
        ck_assert_int_eq(fallocate(fd, 0, 0, (off_t) shm_arena_size(p.ring_size)), 0);
    }
    if (raw_mapped(&p, p.offer.arena, 0, &status) == 0 && status == 0 && p.arena) {
        (void) raw_claim(&p);
        (void) fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20);
    }
    raw_done(&p);
}

START_TEST(tampering_before_the_seal)
{
    for (int i = 0; i < TAMPERS; i++) {
        enum tamper how = (enum tamper) i;

        attack("tampering before the seal", tampers_first, &how);
    }
}
END_TEST

static void tampers_later(const void *arg)
{
    struct raw_provider p;
    struct raw_record r = {{0}};
    char path[64];
    void *again;
    size_t size;
    int fd;

    (void) arg;
    open_raw(&p);
    size = shm_arena_size(p.ring_size);
    for (int i = 0; i < 50; i++) {
        fd = p.offer.arena_fd;
        ck_assert_int_lt(ftruncate(fd, 0), 0);
        ck_assert_int_lt(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t) size),
                         0);
        ck_assert_int_lt(madvise(p.arena, size, MADV_REMOVE), 0);
        ck_assert_int_lt(pwrite(fd, &r, sizeof(r), 0), 0);
        ck_assert_int_lt(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
        again = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ck_assert_ptr_eq(again, MAP_FAILED);
        again = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        ck_assert_ptr_ne(again, MAP_FAILED);
        munmap(again, size);
        /* The control area: to read, never to write. */
        ck_assert_int_lt(ftruncate(p.offer.control_fd, 0), 0);
        again =
            mmap(NULL, SHM_CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, p.offer.control_fd, 0);
        ck_assert_ptr_eq(again, MAP_FAILED);
        ck_assert_int_lt(mprotect((void *) (uintptr_t) p.control, 4096, PROT_READ | PROT_WRITE), 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", p.offer.control_fd);
        if (geteuid() == NOBODY) {
            /* Those are of etwd's uid, and nobody else's. */
            fd = open(path, O_RDWR | O_CLOEXEC);
            ck_assert_int_lt(fd, 0);
            ck_assert_int_lt(fchmod(p.offer.control_fd, 0666), 0);
            snprintf(path, sizeof(path), "/proc/self/fd/%d", p.offer.arena_fd);
            fd = open(path, O_RDWR | O_CLOEXEC);
            ck_assert_int_lt(fd, 0);
        }
        ck_assert_uint_eq(raw_write(&p, &attacked_guid, (uint64_t) i, 1), 1);
    }
    raw_done(&p);
}

START_TEST(tampering_after_the_seal)
{
    pid_t pid = attack_begin(attacker_uid(), tampers_later, NULL);

    attack_end("tampering after the seal", pid);
    fixture_expect(pid, 50);
}
END_TEST

/* Its memory goes away under it, and it dies of that. */
static void unmaps_and_dies(const void *arg)
{
    struct raw_provider p;

    (void) arg;
    open_raw(&p);
    (void) raw_write(&p, &attacked_guid, 0, 100);
    munmap(p.arena, shm_arena_size(p.ring_size));
    kill(getpid(), SIGKILL);
}

START_TEST(unmapping)
{
    attack("unmapping", unmaps_and_dies, NULL);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-memory");
    TCase *t = tcase_create("attacks");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, random_bytes_over_everything);
    tcase_add_test(t, heads);
    tcase_add_test(t, busy_and_stamps);
    tcase_add_test(t, claims_and_loss_counters);
    tcase_add_loop_test(t, forged_records, 0, (int) ARRAY_SIZE(forgeries));
    tcase_add_test(t, sizes_of_records);
    tcase_add_test(t, records_that_change);
    tcase_add_test(t, tampering_before_the_seal);
    tcase_add_test(t, tampering_after_the_seal);
    tcase_add_test(t, unmapping);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
