/* SPDX-License-Identifier: Apache-2.0
 *
 * The merge: order over sources, watermarks, holds, routing by masks, late records, drains, raw
 * records and last touches, records that lie about themselves; sources that deliver by themselves,
 * sleep, and the time between passes.
 */
#include "daemon-fixture.h"
#include "router/router.h"

#define DISPATCHER 0x200u /* mask 1 */
#define CSWITCH 0x4u      /* mask 1 */

static struct fixture f;
static struct fixture_file file;
static struct router *router;

/* A source that is told what to offer. */
struct fake {
    struct router_source base;
    uint8_t records[4096 * 64];
    uint32_t offsets[4096];
    uint64_t stamps[4096];
    uint32_t used, n, next, committed;
    uint64_t vouched; /* 0: the present */
};

static uint64_t fake_begin(struct router_source *base, uint64_t now)
{
    struct fake *s = (struct fake *) base;
    return s->vouched ? s->vouched : now;
}

static const struct etl_record *fake_peek(struct router_source *base, uint64_t *ret_stamp)
{
    struct fake *s = (struct fake *) base;
    if (s->next == s->n)
        return NULL;
    *ret_stamp = s->stamps[s->next];
    return (const struct etl_record *) (s->records + s->offsets[s->next]);
}

static void fake_pop(struct router_source *base)
{
    ((struct fake *) base)->next++;
}

static void fake_commit(struct router_source *base)
{
    struct fake *s = (struct fake *) base;
    s->committed = s->next;
}

static const struct router_source_ops fake_ops = {
    .name = "fake",
    .begin = fake_begin,
    .peek = fake_peek,
    .pop = fake_pop,
    .commit = fake_commit,
};

static struct etl_record *fake_add(struct fake *s, uint16_t cpu, uint64_t stamp, enum etl_row row,
                                   uint32_t mark)
{
    uint32_t header = etl_header_size(row);
    uint32_t size = header + etl_rows[row].fixed_size;
    struct etl_record *rec = (struct etl_record *) (s->records + s->used);
    *rec = (struct etl_record){
        .size = (uint32_t) sizeof(*rec) + etl_padded(size),
        .cpu = cpu,
        .type = ETL_RECORD_FINAL,
        .registration = (uint16_t) row,
    };
    memset(rec + 1, 0, size);
    etl_header_put(rec + 1, row, etl_rows[row].fixed_size, mark, 0, stamp);
    s->offsets[s->n] = s->used;
    s->stamps[s->n++] = stamp;
    s->used += rec->size;
    return rec;
}

static struct fake *fake_new(void)
{
    struct fake *s = calloc(1, sizeof(*s));
    s->base.ops = &fake_ops;
    ck_assert_int_eq(router_add_source(router, &s->base), 0);
    return s;
}

static void begin(void)
{
    static const uint32_t masks[8] = {[1] = DISPATCHER};
    fixture_session(&f, &(struct fixture_params){.cpus = 4});
    fixture_open(&f);
    ck_assert_int_eq(router_new(f.loop, 3000000, &router), 0);
    ck_assert_int_eq(router_add_session(router, f.session), 0);
    router_set_masks(router, f.session, masks);
}

static void end(void)
{
    router_remove_session(router, f.session);
    fixture_close(&f);
    fixture_identity(&f);
    fixture_read(f.path, &file);
    router = router_free(router);
    fixture_free(&f);
}

#define READY ETL_ROW_Thread_ReadyThread

/* Three sources of different CPUs; delivery is in stamp order: a single stream shows it. */
START_TEST(merge_in_order)
{
    static const uint32_t masks[8] = {[1] = DISPATCHER};
    fixture_session(&f, &(struct fixture_params){.mode = ETL_MODE_NO_PER_PROCESSOR_BUFFERING});
    fixture_open(&f);
    ck_assert_int_eq(router_new(f.loop, 3000000, &router), 0);
    ck_assert_int_eq(router_add_session(router, f.session), 0);
    router_set_masks(router, f.session, masks);
    struct fake *s[3] = {fake_new(), fake_new(), fake_new()};
    uint32_t seed = 12345;
    for (uint32_t i = 0; i < 900; i++) {
        seed = seed * 1103515245 + 12345;
        /* Runs, ties between sources, gaps. */
        fake_add(s[seed >> 16 & 1 ? 0 : seed >> 17 & 3 ? 1 : 2], 0, 1000 + i / 2, READY, i);
    }
    router_pass(router);
    end();
    ck_assert_uint_eq(file.events, 900);
    for (size_t i = 1; i < 900; i++)
        ck_assert_uint_ge(file.stamps[i], file.stamps[i - 1]);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(s[i]->committed, s[i]->n);
        free(s[i]);
    }
}
END_TEST

START_TEST(watermark_and_hold)
{
    begin();
    struct fake *a = fake_new(), *b = fake_new();
    fake_add(a, 0, 10, READY, 1);
    fake_add(a, 0, 20, READY, 2);
    fake_add(a, 0, 30, READY, 3);
    b->vouched = 20; /* it may still bring 20 and later */
    router_pass(router);
    ck_assert_uint_eq(f.session->counters.written, 1);
    ck_assert_uint_eq(a->committed, 1);
    fake_add(b, 1, 20, READY, 4);
    fake_add(b, 1, 25, READY, 5);
    b->vouched = 26;
    router_hold(router, 25);
    router_pass(router);
    ck_assert_uint_eq(f.session->counters.written, 3); /* 20 and 20 */
    /* Rundown during the hold comes in between. */
    struct etl_Thread_ReadyThread data = {0};
    uint8_t event[64];
    etl_header_put(event, READY, sizeof(data), 77, 0, 25);
    memcpy(event + 32, &data, sizeof(data));
    router_emit(router, READY, 1, 25, event, 40, f.session);
    router_hold(router, UINT64_MAX);
    b->vouched = 0;
    router_pass(router);
    end();
    ck_assert_uint_eq(file.events, 6);
    ck_assert_uint_eq(file.buffers, 3); /* one a CPU: nothing was late */
    free(a);
    free(b);
}
END_TEST

START_TEST(late_source)
{
    begin();
    struct fake *a = fake_new(), *b = fake_new();
    fake_add(a, 0, 100, READY, 1);
    router_pass(router);
    fake_add(b, 1, 50, READY, 2); /* vouched wrongly; its own CPU is in order */
    fake_add(b, 0, 60, READY, 3); /* CPU 0 is past it: late */
    fake_add(a, 0, 110, READY, 4);
    router_pass(router);
    end();
    ck_assert_uint_eq(file.events, 4);
    ck_assert_uint_eq(file.buffers, 4);
    free(a);
    free(b);
}
END_TEST

START_TEST(routing)
{
    static const uint32_t both[8] = {[1] = DISPATCHER | CSWITCH}, none[8] = {0};
    uint32_t masks[8];
    struct fixture g;

    begin();
    char *second = test_path("second.etl");
    fixture_session(&g, &(struct fixture_params){.path = second});
    free(second);
    fixture_open(&g);
    ck_assert_int_eq(router_add_session(router, g.session), 0);
    ck_assert_int_eq(router_add_session(router, g.session), -EEXIST);
    ck_assert(router_wants(router, READY));
    ck_assert(!router_wants(router, ETL_ROW_Thread_CSwitch));
    router_set_masks(router, g.session, both);
    ck_assert(router_wants(router, ETL_ROW_Thread_CSwitch));
    router_union_masks(router, masks);
    ck_assert_uint_eq(masks[1], DISPATCHER | CSWITCH);

    struct fake *a = fake_new();
    fake_add(a, 0, 1, READY, 1);
    fake_add(a, 0, 2, ETL_ROW_Thread_CSwitch, 2);
    fake_add(a, 0, 3, ETL_ROW_EventTrace_RDComplete, 3); /* mask bit 0: everybody */
    router_pass(router);
    ck_assert_uint_eq(f.session->counters.recorded, 2);
    ck_assert_uint_eq(g.session->counters.recorded, 3);
    router_set_masks(router, f.session, none);
    ck_assert_uint_eq(f.session->counters.recorded, 2);
    fake_add(a, 0, 4, READY, 4);
    router_pass(router);
    ck_assert_uint_eq(f.session->counters.recorded, 2);
    ck_assert_uint_eq(g.session->counters.recorded, 4);
    router_remove_session(router, g.session);
    router_union_masks(router, masks);
    ck_assert_uint_eq(masks[1], 0);
    fake_add(a, 0, 5, READY, 5);
    router_pass(router);
    ck_assert_uint_eq(g.session->counters.recorded, 4);
    fixture_close(&g);
    fixture_free(&g);
    end();
    free(a);
}
END_TEST

static unsigned raws, touches;

static void raw(void *userdata, const struct etl_record *rec, uint64_t stamp)
{
    uint8_t event[40];
    raws++;
    /* Two events of one record. */
    for (uint32_t i = 0; i < 2; i++) {
        memset(event, 0, sizeof(event));
        etl_header_put(event, READY, 8, 500 + i, 0, stamp);
        router_emit(router, READY, rec->cpu, stamp, event, sizeof(event), NULL);
    }
}

static void touch(void *userdata, enum etl_row row, void *event, uint64_t stamp, uint16_t cpu)
{
    struct etl_system_header *h = event;
    ck_assert_uint_eq(row, READY);
    touches++;
    h->thread_id += 1000;
}

START_TEST(finisher)
{
    struct router_finisher fin = {.raw = raw, .touch = touch};
    fin.touch_rows[READY] = true;
    begin();
    router_set_finisher(router, &fin);
    struct fake *a = fake_new();
    fake_add(a, 0, 1, READY, 1);
    struct etl_record *rec = fake_add(a, 0, 2, READY, 2);
    rec->type = ETL_RECORD_RAW;
    fake_add(a, 0, 3, READY, 3);
    router_pass(router);
    ck_assert_uint_eq(raws, 1);
    ck_assert_uint_eq(touches, 2);
    /* The source's own memory is not touched. */
    struct etl_system_header h;
    memcpy(&h, a->records + sizeof(struct etl_record), sizeof(h));
    ck_assert_uint_eq(h.thread_id, 1);
    end();
    ck_assert_uint_eq(file.events, 4);
    ck_assert_uint_eq(file.marks[0], 1001);
    ck_assert_uint_eq(file.marks[1], 500);
    ck_assert_uint_eq(file.marks[2], 501);
    ck_assert_uint_eq(file.marks[3], 1003);
    free(a);
}
END_TEST

START_TEST(lying_records)
{
    begin();
    struct fake *a = fake_new();
    uint16_t big = 5000, small = 3;
    struct etl_record *rec = fake_add(a, 0, 1, READY, 1);
    memcpy((uint8_t *) (rec + 1) + 4, &big, 2); /* the event says it is longer than its record */
    rec = fake_add(a, 0, 2, READY, 2);
    memcpy((uint8_t *) (rec + 1) + 4, &small, 2);
    rec = fake_add(a, 0, 3, READY, 3);
    rec->registration = ETL_ROW_COUNT; /* no such row */
    rec = fake_add(a, 0, 4, READY, 4);
    rec->type = 9;
    fake_add(a, 4, 5, READY, 5); /* no such CPU */
    rec = fake_add(a, 0, 6, READY, 6);
    rec->size = sizeof(*rec); /* nothing in it */
    fake_add(a, 0, 7, READY, 7);
    router_pass(router);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_INVALID], 6);
    end();
    ck_assert_uint_eq(file.events, 1);
    ck_assert_uint_eq(file.header.events_lost, 6);
    free(a);
}
END_TEST

static int drained;

static void drain_done(bool complete, void *userdata)
{
    drained = complete ? 1 : 2;
    loop_exit(f.loop, 0);
}

START_TEST(drain)
{
    begin();
    /* Nobody can bring anything: at once, but not from inside the call. */
    drained = 0;
    ck_assert_int_eq(router_drain(router, etw_clock_boottime(), drain_done, NULL), 0);
    ck_assert_int_eq(drained, 0);
    ck_assert_int_eq(loop_run(f.loop), 0);
    ck_assert_int_eq(drained, 1);

    struct fake *a = fake_new();
    uint64_t now = etw_clock_boottime();
    fake_add(a, 0, now - 5, READY, 1);
    ck_assert_int_eq(router_drain(router, now, drain_done, NULL), 0);
    ck_assert_int_eq(loop_run(f.loop), 0);
    ck_assert_int_eq(drained, 1);
    ck_assert_uint_eq(f.session->counters.recorded, 1);

    /* A source that is stuck: it ends all the same, and says so. */
    a->vouched = 1;
    ck_assert_int_eq(router_drain(router, etw_clock_boottime(), drain_done, NULL), 0);
    ck_assert_int_eq(loop_run(f.loop), 0);
    ck_assert_int_eq(drained, 2);
    router_remove_source(router, &a->base);
    end();
    free(a);
}
END_TEST

/* More than one pass's worth: it is taken in parts, in order, with nothing forgotten. */
START_TEST(pass_budget)
{
    fixture_session(&f, &(struct fixture_params){.buffer_kb = 64, .maximum = 300});
    fixture_open(&f);
    ck_assert_int_eq(router_new(f.loop, 3000000, &router), 0);
    ck_assert_int_eq(router_add_session(router, f.session), 0);
    router_set_masks(router, f.session, (uint32_t[8]){[1] = DISPATCHER});
    struct fake *a = fake_new(), *b = fake_new();
    for (uint32_t i = 0; i < 3000; i++) {
        fake_add(a, 0, 2 * i + 1, READY, i);
        fake_add(b, 1, 2 * i + 2, READY, i);
    }
    /* Each record claims to be 4 KiB long for the budget; its event is what counts. */
    for (uint32_t i = 0; i < 3000; i++) {
        ((struct etl_record *) (a->records + a->offsets[i]))->size = 4096;
        ((struct etl_record *) (b->records + b->offsets[i]))->size = 4096;
    }
    router_pass(router);
    ck_assert_uint_lt(f.session->counters.recorded, 1200);
    ck_assert_uint_gt(f.session->counters.recorded, 1000);
    for (int i = 0; i < 10; i++)
        router_pass(router);
    ck_assert_uint_eq(f.session->counters.recorded, 6000);
    ck_assert_uint_eq(a->committed, 3000);
    router_remove_session(router, f.session);
    router = router_free(router);
    fixture_close(&f);
    ck_assert_uint_eq(f.session->late[0].last, 0); /* nothing was late */
    fixture_free(&f);
    free(a);
    free(b);
}
END_TEST

/* A source that takes its records into sessions by itself, may sleep, and says how fast it fills.
 */
static struct {
    unsigned delivered, asked;
    bool sleeps;
    uint64_t fill_ns;
    bool exact;
} own;

static uint64_t own_begin(struct router_source *base, uint64_t now)
{
    own.exact = router_exact(router);
    return fake_begin(base, now);
}

static void own_deliver(struct router_source *base, const struct etl_record *rec, uint64_t stamp)
{
    struct fake *s = (struct fake *) base;
    ck_assert_ptr_eq(rec, s->records + s->offsets[s->next]);
    ck_assert_uint_eq(stamp, s->stamps[s->next]);
    own.delivered++;
}

static bool own_sleep(struct router_source *base)
{
    own.asked++;
    return own.sleeps;
}

static uint64_t own_fill_ns(struct router_source *base)
{
    return own.fill_ns;
}

static const struct router_source_ops own_ops = {
    .name = "own",
    .begin = own_begin,
    .peek = fake_peek,
    .pop = fake_pop,
    .commit = fake_commit,
    .deliver = own_deliver,
    .sleep = own_sleep,
    .fill_ns = own_fill_ns,
};

static struct fake *own_new(void)
{
    struct fake *s = calloc(1, sizeof(*s));
    memset(&own, 0, sizeof(own));
    own.fill_ns = UINT64_MAX;
    s->base.ops = &own_ops;
    ck_assert_int_eq(router_add_source(router, &s->base), 0);
    return s;
}

static void leave(void *userdata)
{
    loop_exit(f.loop, 0);
}

static void run_ms(unsigned ms)
{
    struct loop_timer *t;
    ck_assert_int_eq(loop_timer_new(f.loop, leave, NULL, &t), 0);
    ck_assert_int_eq(loop_timer_arm(t, etw_clock_boottime() + ms * 1000000ull), 0);
    ck_assert_int_eq(loop_run(f.loop), 0);
    loop_timer_free(t);
}

/* No session need be the router's for it. */
START_TEST(own_delivery)
{
    begin();
    router_remove_session(router, f.session);
    struct fake *a = own_new();
    fake_add(a, 0, 10, READY, 1);
    fake_add(a, 0, 20, READY, 2);
    while (a->committed < 2)
        run_ms(2);
    ck_assert_uint_eq(own.delivered, 2);
    ck_assert_uint_eq(f.session->counters.written, 0);
    ck_assert(!own.exact);
    router_pass(router);
    ck_assert(own.exact);
    router_remove_source(router, &a->base);
    end();
    free(a);
}
END_TEST

START_TEST(sleeping)
{
    begin();
    router_remove_session(router, f.session);
    struct fake *a = own_new();
    own.sleeps = true;
    while (own.asked == 0)
        run_ms(2);
    ck_assert_uint_eq(own.asked, 1);
    run_ms(50);
    ck_assert_uint_eq(own.asked, 1); /* no pass since */
    fake_add(a, 0, 10, READY, 1);
    run_ms(20);
    ck_assert_uint_eq(own.delivered, 0);
    router_kick(router);
    ck_assert_uint_eq(own.delivered, 0);
    while (own.delivered == 0)
        run_ms(2);
    while (own.asked == 1)
        run_ms(2);
    /* A drain wakes it, too. */
    fake_add(a, 0, 30, READY, 2);
    drained = 0;
    ck_assert_int_eq(router_drain(router, etw_clock_boottime(), drain_done, NULL), 0);
    ck_assert_int_eq(loop_run(f.loop), 0);
    ck_assert_int_eq(drained, 1);
    ck_assert_uint_eq(own.delivered, 2);
    ck_assert(own.exact);
    /* Time: as of the last pass, which somebody may make. */
    uint64_t before = etw_clock_boottime();
    router_pass(router);
    ck_assert_uint_ge(router_time(router), before);
    ck_assert_uint_le(router_time(router), etw_clock_boottime());
    router_remove_source(router, &a->base);
    end();
    free(a);
}
END_TEST

/* One that has to be looked at keeps it awake; so does one that says no. */
START_TEST(not_sleeping)
{
    begin();
    struct fake *a = own_new(), *b = fake_new();
    own.sleeps = true;
    run_ms(50);
    ck_assert_uint_eq(own.asked, 0);
    router_remove_source(router, &b->base);
    own.sleeps = false;
    while (own.asked < 3)
        run_ms(2);
    fake_add(a, 0, 10, READY, 1);
    while (own.delivered == 0)
        run_ms(2);
    router_remove_source(router, &a->base);
    end();
    free(a);
    free(b);
}
END_TEST

static unsigned passes;

static uint64_t counted_begin(struct router_source *base, uint64_t now)
{
    passes++;
    return now;
}

/* A source that fills up fast gets more passes; the loop lives beside it. */
START_TEST(fast_source)
{
    struct router_source_ops counted = own_ops;
    unsigned calm, flood;

    begin();
    struct fake *a = own_new();
    counted.begin = counted_begin;
    a->base.ops = &counted;
    run_ms(50);
    passes = 0;
    run_ms(200);
    calm = passes;
    own.fill_ns = 1000;
    passes = 0;
    run_ms(200);
    flood = passes;
    ck_assert_uint_gt(flood, 2 * calm);
    router_remove_source(router, &a->base);
    end();
    free(a);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("router");
    TCase *t = tcase_create("router");
    tcase_add_test(t, merge_in_order);
    tcase_add_test(t, watermark_and_hold);
    tcase_add_test(t, late_source);
    tcase_add_test(t, routing);
    tcase_add_test(t, finisher);
    tcase_add_test(t, lying_records);
    tcase_add_test(t, drain);
    tcase_add_test(t, pass_budget);
    tcase_add_test(t, own_delivery);
    tcase_add_test(t, sleeping);
    tcase_add_test(t, not_sleeping);
    tcase_add_test(t, fast_source);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
