/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions whose clock is not CLOCK_BOOTTIME: which clock one gets, stamps in its file, order of
 * what comes late, payload fields that hold times.
 */
#include "daemon-fixture.h"
#include "router/router.h"
#include "sessions/clock.h"

static struct fixture f;
static struct fixture_file file;
static struct session_clocks clocks;

static void begin(uint32_t clock)
{
    fixture_session(&f, &(struct fixture_params){0});
    session_clocks_init(&clocks, 2100);
    f.session->properties.clock = session_clock_choose(&clocks, clock);
    session_clock_start(&clocks, f.session);
    fixture_open(&f);
}

START_TEST(choice)
{
    struct session_clocks c = {.cycles = true};
    ck_assert_uint_eq(session_clock_choose(&c, 0), ETW_CLOCK_QPC);
    for (uint32_t clock = 1; clock <= 3; clock++)
        ck_assert_uint_eq(session_clock_choose(&c, clock), clock);
    c.cycles = false;
    ck_assert_uint_eq(session_clock_choose(&c, ETW_CLOCK_CYCLE), ETW_CLOCK_SYSTEM);
    ck_assert_uint_eq(session_clock_choose(&c, ETW_CLOCK_SYSTEM), ETW_CLOCK_SYSTEM);
}
END_TEST

/* The line begins where the clock is. */
START_TEST(begins_now)
{
    uint64_t before = etw_filetime_now();
    begin((uint32_t) _i);
    uint64_t after = etw_filetime_now();
    const struct session *s = f.session;
    uint32_t clock = s->properties.clock;
    ck_assert_uint_eq(s->line.type, clock);
    ck_assert_uint_ge(s->start_filetime, before);
    ck_assert_uint_le(s->start_filetime, after);
    ck_assert_int_eq(session_converts(s), clock != ETW_CLOCK_QPC);
    switch (clock) {
    case ETW_CLOCK_QPC:
        ck_assert_uint_eq(s->line.start_raw, s->line.start_boottime);
        ck_assert_uint_eq(session_clock_frequency(s), ETW_NSEC_PER_SEC);
        break;
    case ETW_CLOCK_SYSTEM:
        ck_assert_uint_eq(s->line.start_raw, s->start_filetime);
        ck_assert_uint_eq(session_clock_frequency(s), ETW_FILETIME_PER_SEC);
        break;
    default:
        ck_assert_uint_ge(s->line.start_raw, clocks.first_ticks);
        ck_assert_uint_eq(session_clock_frequency(s), s->line.cpu_mhz * 1000000ull);
        break;
    }
    ck_assert_uint_ge(session_clock_filetime(s), s->start_filetime);
    fixture_close(&f);
    fixture_read(f.path, &file);
    ck_assert_uint_ge(file.header.end_time, s->start_filetime);
    fixture_free(&f);
}
END_TEST

static struct etl_record *record(void *memory, uint64_t stamp)
{
    struct etl_record *rec = memory;
    uint8_t *event = (uint8_t *) (rec + 1);
    uint32_t header = etl_header_put(event, ETL_ROW_Thread_ReadyThread, 8, 7, 4, stamp);
    memset(event + header, 0, 8);
    *rec = (struct etl_record){
        .size = (uint32_t) sizeof(*rec) + header + 8,
        .type = ETL_RECORD_FINAL,
        .registration = ETL_ROW_Thread_ReadyThread,
    };
    return rec;
}

/* Through the router: each stamp is the line's, and late ones do not make time run backwards. */
START_TEST(stamps)
{
    static const int64_t at[] = {0, 99, 1000, 1000, 1001, 500, 2000, -5000, 3000000, 2500};
    _Alignas(8) uint8_t memory[128];
    uint64_t got[ARRAY_SIZE(at)];
    struct router *r;

    begin((uint32_t) _i);
    struct session *s = f.session;
    ck_assert_int_eq(router_new(f.loop, 1000000, &r), 0);
    for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
        uint64_t stamp = s->line.start_boottime + (uint64_t) at[i];
        struct etl_record *rec = record(memory, stamp);
        router_emit(r, ETL_ROW_Thread_ReadyThread, 0, stamp, rec + 1,
                    rec->size - (uint32_t) sizeof(*rec), s);
        got[i] = etw_clock_line_raw(&s->line, stamp);
    }
    struct etw_clock_line line = s->line;
    fixture_close(&f);
    fixture_read(f.path, &file); /* checks the order in each buffer */
    ck_assert_uint_eq(file.events, ARRAY_SIZE(at));
    for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
        bool found = false;
        for (size_t k = 0; k < file.events && !found; k++)
            if (file.stamps[k] == got[i]) {
                file.stamps[k] = UINT64_MAX;
                found = true;
            }
        ck_assert_msg(found, "event %zu: no stamp %llu", i, (unsigned long long) got[i]);
    }
    struct etw_timebase tb = {s->start_filetime, line.start_raw, session_clock_frequency(s),
                              line.type, line.cpu_mhz};
    for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
        int64_t off = (int64_t) etw_timebase_filetime(&tb, got[i]) -
                      (int64_t) (s->start_filetime + (uint64_t) (at[i] / 100));
        ck_assert_msg(off >= -2 && off <= 0, "event %zu: %lld units of 100 ns off", i,
                      (long long) off);
    }
    router_free(r);
    fixture_free(&f);
}
END_TEST

/* Fields as classes.def describes them: between others, up to the variable part, within the
 * payload. */
START_TEST(payload)
{
    static const struct etl_field fields[] = {
        {"Irp", ETL_T_ptr, 0},  {"InitialTime", ETL_T_stamp, 0},
        {"Two", ETL_T_u16, 2},  {"HighResResponseTime", ETL_T_ticks, 0},
        {"Name", ETL_T_wsz, 0}, {"NotReached", ETL_T_stamp, 0},
        {NULL, ETL_T_u8, 0},
    };
    struct __attribute__((packed)) {
        uint64_t irp, initial;
        uint16_t two[2];
        uint64_t response;
        uint16_t name[4];
    } data = {1, 5000012345, {2, 3}, 12345, {'a', 0, 7, 7}}, was = data;
    const struct etl_class_row row = {.fields = fields, .n_times = 2};
    struct etw_clock_line line = {ETW_CLOCK_SYSTEM, 0, 5000000000, 1000000};

    etl_times_convert(&row, &data, sizeof(data), &line);
    ck_assert_uint_eq(data.initial, 1000123);
    ck_assert_uint_eq(data.response, 123);
    was.initial = data.initial;
    was.response = data.response;
    ck_assert_mem_eq(&data, &was, sizeof(data));
    /* Cut short: what is not whole stays. */
    etl_times_convert(&row, &data, 20 + 7, &line);
    ck_assert_uint_eq(data.response, 123);
    ck_assert_uint_eq(data.initial, etw_clock_line_raw(&line, 1000123));
    etl_times_convert(&row, &data, 0, &line);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("session-clock");
    TCase *t = tcase_create("clock");
    tcase_add_test(t, choice);
    tcase_add_loop_test(t, begins_now, 0, 4);
    tcase_add_loop_test(t, stamps, 1, 4);
    tcase_add_test(t, payload);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
