/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a provider's record in the sessions that it names: the fields that etwd writes,
 * items left out and added, sizes, and records that lie. Order and rings are test-rings.c.
 */
#include "rings-fixture.h"

#define SID 0x001u
#define TS_ID 0x002u
#define START_KEY 0x080u
#define EVENT_KEY 0x100u

static struct fixture f, g;
static struct router *router;
static struct rings *rings;
static struct rings_fixture p;

/* Two sessions, g with small buffers; one ring. */
static void begin(uint32_t properties)
{
    etw_conf_init(&fixture_conf);
    fixture_session(&f, &(struct fixture_params){.cpus = 4, .buffer_kb = 128});
    fixture_open(&f);
    char *second = test_path("second.etl");
    fixture_session(&g, &(struct fixture_params){.cpus = 4, .buffer_kb = 4, .path = second});
    free(second);
    fixture_open(&g);
    ck_assert_int_eq(router_new(f.loop, 3000000, &router), 0);
    rings = rings_fixture_rings(f.loop, router, NULL);
    rings_fixture_open(&p, rings, f.session, 256u << 10, 1, 1);
    p.process.table.used = 0xB;
    p.process.table.slots[1] = (struct table_slot){.session = g.session, .properties = properties};
    p.process.table.slots[3].session = NULL; /* its session ended */
}

static void end(void)
{
    rings_fixture_close(&p);
    rings = rings_free(rings);
    router = router_free(router);
    fixture_close(&f);
    fixture_close(&g);
    fixture_identity(&f);
    fixture_identity(&g);
    fixture_free(&f);
    fixture_free(&g);
}

static void own_fields(struct etl_record *prefix, struct etl_event_header *h)
{
    h->header_type = 0x55;
    h->marker = 0x66;
    h->flags = 0xFFFE; /* all but the one for items */
    h->event_property = 8;
    h->descriptor = (struct etl_event_descriptor){
        .id = 1, .version = 2, .channel = 3, .level = 4, .opcode = 5, .task = 6, .keyword = 7};
    memset(&h->provider_id, 0x11, 16);
    memset(&h->activity_id, 0x22, 16);
}

START_TEST(fields)
{
    begin(0);
    p.process.tid_offset = 500; /* of another pid namespace */
    memset(&p.process.table.guid, 0x33, 16);
    shm_writer_release(&p.writers[0]);
    router_pass(router);
    ck_assert_int_eq(
        shm_writer_claim(&p.writers[0], p.shm.arena, p.shm.control, 0, 0, 256u << 10, true, 1000),
        0);
    ck_assert_int_eq(
        ring_write(&p.writers[0],
                   &(struct written){
                       .cpu = 2, .payload = 13, .fill = 0x77, .slots = 3, .forge = own_fields}),
        0);
    router_pass(router);
    for (int i = 0; i < 2; i++) {
        const struct etl_event_header *h = event_at(i ? g.session : f.session, 2, 0);
        ck_assert_uint_eq(h->size, 93);
        ck_assert_uint_eq(h->header_type, ETL_EVENT64);
        ck_assert_uint_eq(h->marker, ETL_MARKER_TRACE);
        ck_assert_uint_eq(h->flags, 4); /* STRING_ONLY is the writer's to say */
        ck_assert_uint_eq(h->event_property, 8);
        ck_assert_uint_eq(h->thread_id, 1500);
        ck_assert_uint_eq(h->process_id, 77);
        ck_assert_uint_eq(h->time_stamp, p.writers[0].stamp);
        ck_assert_uint_eq(h->descriptor.keyword, 7);
        ck_assert_uint_eq(h->descriptor.task, 6);
        for (int k = 0; k < 16; k++) {
            ck_assert_uint_eq(((const uint8_t *) &h->provider_id)[k], 0x33);
            ck_assert_uint_eq(((const uint8_t *) &h->activity_id)[k], 0x22);
        }
        for (int k = 0; k < 13; k++)
            ck_assert_uint_eq(((const uint8_t *) (h + 1))[k], 0x77);
        for (int k = 13; k < 16; k++)
            ck_assert_uint_eq(((const uint8_t *) (h + 1))[k], 0);
    }
    ck_assert_uint_eq(p.process.misbehaved, 0);
    end();
}
END_TEST

START_TEST(routing)
{
    begin(0);
    (void) ring_write(&p.writers[0], &(struct written){.slots = 1});
    (void) ring_write(&p.writers[0], &(struct written){.slots = 2});
    (void) ring_write(&p.writers[0], &(struct written){.slots = 3});
    (void) ring_write(&p.writers[0], &(struct written){.slots = 8});
    (void) ring_write(&p.writers[0], &(struct written){.slots = 9});
    router_pass(router);
    ck_assert_uint_eq(f.session->counters.written, 3);
    ck_assert_uint_eq(f.session->counters.recorded, 3);
    ck_assert_uint_eq(g.session->counters.written, 2);
    ck_assert_uint_eq(g.session->counters.recorded, 2);
    ck_assert_uint_eq(p.process.misbehaved, 0);
    end();
}
END_TEST

static uint32_t add_item(uint8_t *to, uint32_t at, uint16_t type, uint16_t data, bool more)
{
    uint16_t size = (uint16_t) ((8 + data + 7) & ~7);
    struct etl_item_header h = {.size = size, .type = type, .linkage = more, .data_size = data};
    memcpy(to + at, &h, sizeof(h));
    memset(to + at + 8, type, size - 8u);
    return at + size;
}

struct expected {
    uint16_t type;
    const void *data; /* NULL: as add_item() made it */
    uint16_t size;
};

/* The items of an event, in order, and the payload behind them. */
static void check_items(const struct etl_event_header *h, const struct expected *e, unsigned n,
                        uint32_t payload)
{
    const uint8_t *at = (const uint8_t *) (h + 1);
    ck_assert_uint_eq(h->flags, n > 0);
    for (unsigned i = 0; i < n; i++) {
        struct etl_item_header item;
        memcpy(&item, at, sizeof(item));
        ck_assert_uint_eq(item.type, e[i].type);
        ck_assert_uint_eq(item.data_size, e[i].size);
        ck_assert_uint_eq(item.size, (8u + e[i].size + 7u) & ~7u);
        ck_assert_uint_eq(item.linkage, i + 1 < n);
        for (unsigned k = 0; k < e[i].size; k++)
            ck_assert_uint_eq(at[8 + k], e[i].data ? ((const uint8_t *) e[i].data)[k] : e[i].type);
        if (e[i].data)
            for (unsigned k = e[i].size; k < item.size - 8u; k++)
                ck_assert_uint_eq(at[8 + k], 0);
        at += item.size;
    }
    ck_assert_uint_eq(at - (const uint8_t *) h + payload, h->size);
    for (unsigned k = 0; k < payload; k++)
        ck_assert_uint_eq(at[k], 0x99);
}

/* Session f wants nothing more; g as told. Also with events whose payload is copied by itself. */
START_TEST(extended_items)
{
    static const uint8_t sid[] = {1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0, 0xD2, 4, 0, 0};
    static const uint64_t key = 0xABCDEF;
    static const uint32_t session = 42;
    const struct expected trait = {12, NULL, 30}, schema = {11, NULL, 21},
                          event_key = {10, NULL, 8}, related = {1, NULL, 16},
                          sid_item = {2, sid, 16}, ts = {3, &session, 4}, start = {13, &key, 8};
    uint32_t payload = _i == 0 ? 37 : 2000;
    uint8_t items[256];
    uint32_t n;

    begin(SID | TS_ID | START_KEY | EVENT_KEY);
    n = add_item(items, 0, 12, 30, true);
    n = add_item(items, n, 11, 21, true);
    n = add_item(items, n, 10, 8, false);
    (void) ring_write(
        &p.writers[0],
        &(struct written){
            .slots = 3, .items = items, .items_size = n, .payload = payload, .fill = 0x99});
    router_pass(router);
    check_items(event_at(f.session, 0, 0), (struct expected[]){trait, schema}, 2, payload);
    check_items(event_at(g.session, 0, 0),
                (struct expected[]){trait, schema, event_key, sid_item, ts, start}, 6, payload);

    /* Nothing in it: f has none, g what is added. */
    p.process.table.slots[1].properties = TS_ID;
    (void) ring_write(&p.writers[0],
                      &(struct written){.slots = 3, .payload = payload, .fill = 0x99});
    /* The only one is left out. */
    n = add_item(items, 0, 10, 8, false);
    (void) ring_write(
        &p.writers[0],
        &(struct written){
            .slots = 1, .items = items, .items_size = n, .payload = payload, .fill = 0x99});
    /* The last one is left out, the first, one between. */
    n = add_item(items, 0, 10, 8, true);
    n = add_item(items, n, 1, 16, false);
    (void) ring_write(
        &p.writers[0],
        &(struct written){
            .slots = 1, .items = items, .items_size = n, .payload = payload, .fill = 0x99});
    n = add_item(items, 0, 1, 16, true);
    n = add_item(items, n, 10, 8, true);
    n = add_item(items, n, 12, 30, false);
    (void) ring_write(
        &p.writers[0],
        &(struct written){
            .slots = 1, .items = items, .items_size = n, .payload = payload, .fill = 0x99});
    router_pass(router);
    check_items(event_at(f.session, 0, 1), NULL, 0, payload);
    check_items(event_at(f.session, 0, 2), NULL, 0, payload);
    check_items(event_at(f.session, 0, 3), (struct expected[]){related}, 1, payload);
    check_items(event_at(f.session, 0, 4), (struct expected[]){related, trait}, 2, payload);
    /* g's small buffer holds one or two events; the identity below covers the rest. */
    if (_i == 0)
        check_items(event_at(g.session, 0, 1), (struct expected[]){ts}, 1, payload);
    ck_assert_uint_eq(p.process.misbehaved, 0);
    ck_assert_uint_eq(g.session->counters.recorded, 2);
    end();
}
END_TEST

START_TEST(sizes)
{
    begin(SID);
    /* Each size up to where the whole record is copied and beyond. */
    for (uint32_t i = 0; i < 600; i++) {
        ck_assert_int_eq(ring_write(&p.writers[0], &(struct written){.payload = i, .fill = 0x99}),
                         0);
        if (i % 100 == 0)
            router_pass(router);
    }
    /* The largest event; g's buffer is too small for it, and for one of its own size when something
     * is added. */
    (void) ring_write(&p.writers[0],
                      &(struct written){.slots = 3, .payload = 65535 - 80, .fill = 0x99});
    (void) ring_write(&p.writers[0],
                      &(struct written){.slots = 3, .payload = 4096 - 72 - 80, .fill = 0x99});
    (void) ring_write(&p.writers[0],
                      &(struct written){.slots = 3, .payload = 4096 - 72 - 80 - 24, .fill = 0x99});
    router_pass(router);
    ck_assert_uint_eq(f.session->counters.recorded, 603);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_TOO_BIG], 0);
    ck_assert_uint_eq(g.session->counters.lost[LOSS_TOO_BIG], 2);
    ck_assert_uint_eq(g.session->counters.recorded, 1);
    const struct etl_event_header *h = event_at(g.session, 0, 0);
    ck_assert_uint_eq(h->size, 4096 - 72);
    end();
}
END_TEST

/* ---- lies ---- */

static uint8_t bad_items[512];

#define FORGE(name, statement)                                                                     \
    static void name(struct etl_record *prefix, struct etl_event_header *h)                        \
    {                                                                                              \
        struct etl_item_header *item = (struct etl_item_header *) (h + 1);                         \
        (void) prefix;                                                                             \
        (void) item;                                                                               \
        statement;                                                                                 \
    }

FORGE(cpu_high, prefix->cpu = 4)
FORGE(cpu_highest, prefix->cpu = 0xFFFF)
FORGE(slot_unknown, prefix->slots = 5)
FORGE(slot_all, prefix->slots = 0xFFFFFFFF)
FORGE(event_small, h->size = 79)
FORGE(event_none, h->size = 0)
FORGE(event_larger, h->size = (uint16_t) (h->size + 16))
FORGE(event_smaller, h->size = (uint16_t) (h->size - 16))
FORGE(item_zero, item->size = 0)
FORGE(item_odd, item->size = 20)
FORGE(item_long, item->size = 4096; item->data_size = 4088)
FORGE(item_short, item->data_size = 17)
FORGE(item_never_ends, ((struct etl_item_header *) ((uint8_t *) item + 24))->linkage = 1)
FORGE(item_linkage, item->linkage = 3)
FORGE(item_sid, item->type = 2)
FORGE(item_start_key, item->type = 13)
FORGE(item_unknown, item->type = 99)

static const struct {
    void (*forge)(struct etl_record *, struct etl_event_header *);
    bool items;
} lies[] = {
    {cpu_high, false},    {cpu_highest, false},    {slot_unknown, false}, {slot_all, false},
    {event_small, false}, {event_none, false},     {event_larger, true},  {event_smaller, true},
    {item_zero, true},    {item_odd, true},        {item_long, true},     {item_short, true},
    {item_linkage, true}, {item_never_ends, true}, {item_sid, true},      {item_start_key, true},
    {item_unknown, true},
};

/* Dropped, counted for those whose it says it is, and the next record is taken as ever. */
START_TEST(lying_records)
{
    uint32_t n = 0;

    begin(0);
    n = add_item(bad_items, n, 1, 16, true);
    n = add_item(bad_items, n, 10, 8, false);
    (void) ring_write(&p.writers[0], &(struct written){.items = lies[_i].items ? bad_items : NULL,
                                                       .items_size = lies[_i].items ? n : 0,
                                                       .payload = 4,
                                                       .forge = lies[_i].forge});
    (void) ring_write(&p.writers[0], &(struct written){.payload = 4});
    router_pass(router);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_INVALID], 1);
    ck_assert_uint_eq(f.session->counters.recorded, 1);
    ck_assert_uint_eq(f.session->counters.written, 2);
    ck_assert_uint_eq(p.process.misbehaved, 0);
    end();
}
END_TEST

/* The items end where the event does; more items than there can be. */
START_TEST(many_items)
{
    uint8_t many[17 * 24];
    uint32_t n = 0;

    begin(0);
    for (int i = 0; i < 17; i++)
        n = add_item(many, n, 1, 16, i < 16);
    (void) ring_write(&p.writers[0], &(struct written){.items = many, .items_size = n});
    n = add_item(many, 0, 1, 16, false);
    (void) ring_write(&p.writers[0],
                      &(struct written){.items = many, .items_size = n, .forge = NULL});
    router_pass(router);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_INVALID], 1);
    ck_assert_uint_eq(f.session->counters.recorded, 1);
    end();
}
END_TEST

FORGE(generation_old, prefix->generation = 6)
FORGE(registration_other, prefix->registration = 2)
FORGE(registration_high, prefix->registration = 0xFFFF)
FORGE(slots_none, prefix->slots = 0)
FORGE(type_unknown, prefix->type = 2)

/* Nobody can say whose it was: the process's matter. */
START_TEST(unknown_table)
{
    static void (*const forge[])(struct etl_record *, struct etl_event_header *) = {
        generation_old, registration_other, registration_high, slots_none, type_unknown};
    begin(0);
    (void) ring_write(&p.writers[0], &(struct written){.payload = 4, .forge = forge[_i]});
    (void) ring_write(&p.writers[0], &(struct written){.payload = 4});
    router_pass(router);
    ck_assert_uint_eq(p.process.misbehaved, 1);
    ck_assert_uint_eq(f.session->counters.recorded, 1);
    ck_assert_uint_eq(f.session->counters.written, 1);
    end();
}
END_TEST

/* Random bytes over whole records whose sizes are right: what is delivered is well formed. */
START_TEST(random_records)
{
    uint64_t seed = 99 + (uint64_t) _i;
    struct fixture_file *file = calloc(1, sizeof(*file));

    begin(SID | EVENT_KEY);
    uint32_t n = add_item(bad_items, 0, 1, 16, true);
    n = add_item(bad_items, n, 12, 30, true);
    n = add_item(bad_items, n, 10, 8, false);
    for (unsigned i = 0; i < 3000; i++) {
        struct shm_writer *w = &p.writers[0];
        uint64_t at = w->head;
        (void) ring_write(w, &(struct written){.slots = 3,
                                               .cpu = (uint16_t) (i % 4),
                                               .items = bad_items,
                                               .items_size = n,
                                               .payload = 8});
        uint64_t size = w->head - at;
        for (unsigned k = 0; k < 1 + i % 6; k++) {
            uint64_t byte = 4 + shm_random(&seed) % (size - 4);
            /* No pad before it, nor made of it. */
            if (size == 192 && byte != offsetof(struct etl_record, type))
                w->data[(at + byte) & (w->size - 1)] ^= (uint8_t) (1u << shm_random(&seed) % 8);
        }
        router_pass(router);
        /* Buffers as a reader takes them. */
        if (i % 20 == 19) {
            session_flush(f.session, false);
            session_flush(g.session, false);
            fixture_sync(&f);
            fixture_sync(&g);
        }
    }
    ck_assert(!p.set->arenas[0]->rings[0].given_up);
    ck_assert_uint_gt(f.session->counters.lost[LOSS_INVALID], 0);
    ck_assert_uint_gt(f.session->counters.recorded, 0);
    free(file);
    end();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("deliver");
    TCase *t = tcase_create("deliver");
    tcase_add_test(t, fields);
    tcase_add_test(t, routing);
    tcase_add_loop_test(t, extended_items, 0, 2);
    tcase_add_test(t, sizes);
    suite_add_tcase(s, t);
    t = tcase_create("lies");
    tcase_add_loop_test(t, lying_records, 0, ARRAY_SIZE(lies));
    tcase_add_test(t, many_items);
    tcase_add_loop_test(t, unknown_table, 0, 5);
    tcase_add_loop_test(t, random_records, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
