/* SPDX-License-Identifier: Apache-2.0
 *
 * Events into buffers and buffers into a file: order, late records, sequence numbers, losses of
 * every kind the session itself makes, the flush timer, the end at the maximum size.
 */
#include "daemon-fixture.h"

static struct fixture f;
static struct fixture_file file;

static void event(uint16_t cpu, uint64_t stamp, uint32_t mark)
{
    ck_assert(fixture_event(&f, cpu, stamp, 40, mark));
}

START_TEST(order_and_header)
{
    fixture_session(&f, &(struct fixture_params){.epoll = _i});
    fixture_open(&f);
    for (uint32_t i = 0; i < 500; i++)
        event(i & 1, 100 + i, i);
    fixture_close(&f);
    ck_assert_int_eq(f.result, 0);
    fixture_identity(&f);
    ck_assert_uint_eq(f.session->counters.recorded, 500);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.events, 500);
    /* 40-byte events: 100 a buffer of 4096 - 72 bytes. Two CPUs with 250 each: 3 buffers each. */
    ck_assert_uint_eq(file.buffers, 7);
    ck_assert_uint_eq(file.header.buffers_written, 7);
    ck_assert_uint_eq(file.header.events_lost, 0);
    ck_assert_uint_ge(file.header.end_time, file.header.start_time);
    for (size_t i = 1; i < 7; i++) {
        ck_assert_int_ge(file.sequences[i], 1);
        ck_assert_int_le(file.sequences[i], 6);
        ck_assert_uint_eq(file.buffer_flags[i], i == 6 ? 0x21 : 0x20);
    }
    /* Each event once, on its CPU. */
    bool seen[500] = {0};
    for (size_t i = 0; i < 500; i++) {
        ck_assert(!seen[file.marks[i]]);
        seen[file.marks[i]] = true;
        ck_assert_uint_eq(file.cpus[i], file.marks[i] & 1);
    }
    fixture_free(&f);
}
END_TEST

START_TEST(sizes)
{
    fixture_session(&f, &(struct fixture_params){0});
    fixture_open(&f);
    uint32_t room = 4096 - ETL_BUFFER_HEADER_SIZE;
    ck_assert(fixture_event(&f, 0, 1, room, 1));
    ck_assert(fixture_event(&f, 0, 2, room - 3, 2)); /* padded, it fills one, too */
    ck_assert(!fixture_event(&f, 0, 3, room + 1, 3));
    ck_assert_ptr_null(session_reserve(f.session, 0, 3, 0));
    ck_assert_ptr_null(session_reserve(f.session, 2, 3, 40)); /* no such CPU */
    ck_assert_ptr_null(session_reserve(f.session, 65535, 3, 40));
    ck_assert_ptr_null(session_reserve(f.session, 0, 3, UINT32_MAX));
    ck_assert_uint_eq(f.session->counters.lost[LOSS_TOO_BIG], 3);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_INVALID], 2);
    ck_assert_uint_eq(f.session->counters.written, 7);
    fixture_close(&f);
    fixture_identity(&f);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.events, 2);
    ck_assert_uint_eq(file.header.events_lost, 5);
    fixture_free(&f);
}
END_TEST

START_TEST(late_records)
{
    fixture_session(&f, &(struct fixture_params){0});
    fixture_open(&f);
    event(0, 1000, 1);
    event(1, 1001, 2);
    event(0, 500, 3);  /* late on CPU 0 */
    event(0, 600, 4);  /* fits behind it */
    event(1, 550, 5);  /* late on CPU 1: its own buffer */
    event(0, 550, 6);  /* older than the late one's last: another */
    event(0, 1000, 7); /* equal is not late */
    event(0, 700, 8);  /* the late buffer whose last is nearest below: that of 600 */
    fixture_close(&f);
    fixture_identity(&f);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.events, 8);
    ck_assert_uint_eq(file.buffers, 1 + 5);
    /* fixture_read has checked the order inside buffers; look where each went. */
    for (size_t i = 0; i < 8; i++)
        ck_assert_uint_eq(file.cpus[i], file.marks[i] == 2 || file.marks[i] == 5);
    size_t at8 = 0;
    while (file.marks[at8] != 8)
        at8++;
    ck_assert_uint_gt(at8, 0);
    ck_assert_uint_eq(file.marks[at8 - 1], 4);
    fixture_free(&f);
}
END_TEST

/* More late streams than there are late buffers: the oldest makes room, nothing is lost. */
START_TEST(late_buffers_bound)
{
    fixture_session(&f, &(struct fixture_params){0});
    fixture_open(&f);
    event(0, 100000, 1);
    for (uint32_t i = 0; i < 3 * ETWD_LATE_BUFFERS; i++)
        event(0, 1000 - i, 10 + i); /* each older than the one before */
    fixture_close(&f);
    fixture_identity(&f);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.events, 1 + 3 * ETWD_LATE_BUFFERS);
    ck_assert_uint_eq(file.buffers, 2 + 3 * ETWD_LATE_BUFFERS);
    fixture_free(&f);
}
END_TEST

START_TEST(one_stream)
{
    fixture_session(&f, &(struct fixture_params){.mode = ETL_MODE_NO_PER_PROCESSOR_BUFFERING});
    fixture_open(&f);
    for (uint32_t i = 0; i < 90; i++)
        event(i % 3, i, i); /* CPU 2 does not exist, and does not matter */
    fixture_close(&f);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.buffers, 2);
    for (size_t i = 0; i < 90; i++) {
        ck_assert_uint_eq(file.marks[i], i);
        ck_assert_uint_eq(file.cpus[i], 0);
    }
    fixture_free(&f);
}
END_TEST

/* The sink is not open yet: buffers wait, and when none is free events are lost. */
START_TEST(no_buffer)
{
    uint32_t taken = 0;
    fixture_session(&f, &(struct fixture_params){.maximum = 4});
    for (uint32_t i = 0; i < 1000; i++)
        taken += fixture_event(&f, 0, i, 40, i);
    ck_assert_uint_eq(taken, 400);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_NO_BUFFER], 600);
    ck_assert_uint_eq(buffers_unused(f.session->buffers), 0);
    fixture_identity(&f);
    fixture_open(&f);
    fixture_sync(&f);
    event(0, 2000, 5000); /* the next buffer tells of the loss */
    fixture_close(&f);
    fixture_identity(&f);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.events, 401);
    ck_assert_uint_eq(file.header.events_lost, 600);
    unsigned told = 0;
    for (size_t i = 1; i < file.buffers; i++)
        told += (file.buffer_flags[i] & ETL_BUFFER_EVENTS_LOST) != 0;
    ck_assert_uint_eq(told, 1);
    fixture_free(&f);
}
END_TEST

START_TEST(losses_before_the_session)
{
    fixture_session(&f, &(struct fixture_params){0});
    fixture_open(&f);
    session_count_lost(f.session, LOSS_PROBE_RING_FULL, 7);
    session_count_lost(f.session, LOSS_PROBE_RING_FULL, 0);
    event(0, 1, 1);
    ck_assert_uint_eq(f.session->counters.written, 8);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_PROBE_RING_FULL], 7);
    fixture_close(&f);
    fixture_identity(&f);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.header.events_lost, 7);
    ck_assert_uint_eq(file.buffer_flags[1], 0x23);
    fixture_free(&f);
}
END_TEST

static void full(struct session *s)
{
    loop_exit(f.loop, 7);
}

START_TEST(maximum_size)
{
    fixture_session(&f, &(struct fixture_params){0});
    f.session->data_buffers_max = 3;
    f.session->full = full;
    fixture_open(&f);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < 1000; i++)
        taken += fixture_event(&f, 0, i, 40, i);
    ck_assert_uint_eq(taken, 300);
    ck_assert_int_eq(loop_run(f.loop), 7);
    /* What came after the end is not of this session. */
    ck_assert_uint_eq(f.session->counters.written, 300);
    ck_assert_uint_eq(session_events_lost(f.session), 0);
    fixture_close(&f);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.buffers, 4);
    ck_assert_uint_eq(file.events, 300);
    fixture_free(&f);
}
END_TEST

static void watch_file(void *userdata)
{
    struct loop_timer **t = userdata;
    struct fixture_file now;
    fixture_read(f.path, &now);
    if (now.header.buffers_written == 2)
        loop_exit(f.loop, 0);
    else
        (void) loop_timer_arm(*t, etw_clock_boottime() + 50000000);
}

/* Without any call the flush timer brings a partial buffer into the file, and the header follows.
 */
START_TEST(flush_timer)
{
    struct loop_timer *t;
    fixture_session(&f, &(struct fixture_params){0});
    f.session->properties.flush_timer_s = 1;
    session_set_flush_timer(f.session);
    fixture_open(&f);
    event(0, 1, 1);
    ck_assert_int_eq(loop_timer_new(f.loop, watch_file, &t, &t), 0);
    ck_assert_int_eq(loop_timer_arm(t, 0), 0);
    ck_assert_int_eq(loop_run(f.loop), 0); /* until the header says 2 buffers */
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.events, 1);
    ck_assert_uint_eq(file.header.end_time, 0); /* it runs */
    loop_timer_free(t);
    fixture_close(&f);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.buffers, 2); /* an idle session's flush writes nothing */
    fixture_free(&f);
}
END_TEST

START_TEST(sync_tells_the_truth)
{
    fixture_session(&f, &(struct fixture_params){0});
    fixture_open(&f);
    for (int round = 1; round <= 5; round++) {
        for (uint32_t i = 0; i < 250; i++)
            event(0, (uint64_t) round * 1000 + i, i);
        session_flush(f.session, false);
        fixture_sync(&f);
        ck_assert_int_eq(f.result, 0);
        fixture_read(f.path, &file);
        ck_assert_uint_eq(file.events, 250u * (unsigned) round);
        ck_assert_uint_eq(file.header.buffers_written, 1u + 3u * (unsigned) round);
        ck_assert_uint_eq(file.header.buffers_written, f.session->counters.buffers_written);
    }
    fixture_close(&f);
    fixture_free(&f);
}
END_TEST

/* Ranges: all buffers out and back, addresses apart, growth. */
START_TEST(buffers_take_and_give)
{
    struct loop *l;
    struct buffers *b;
    uint32_t index[3000];

    ck_assert_int_eq(loop_new(&l), 0);
    ck_assert_int_eq(buffers_new(l, 4096, 4, 1000, &b), 0);
    ck_assert_uint_eq(buffers_resident(b), 0);
    ck_assert_uint_eq(buffers_allocated(b), 4);
    ck_assert_uint_eq(buffers_unused(b), 4);
    ck_assert_int_eq(buffers_take(b, &index[0]), 0);
    ck_assert_uint_eq(buffers_resident(b), ETWD_FIRST_RANGE_BYTES);
    ck_assert_uint_eq(buffers_unused(b), 3);
    for (uint32_t i = 1; i < 1000; i++)
        ck_assert_int_eq(buffers_take(b, &index[i]), 0);
    ck_assert_int_eq(buffers_take(b, &index[1000]), -ENOBUFS);
    ck_assert_uint_eq(buffers_allocated(b), 1000);
    for (uint32_t i = 0; i < 1000; i++)
        memset(buffers_get(b, index[i])->data, (int) i, 4096);
    for (uint32_t i = 0; i < 1000; i++)
        for (uint32_t k = 0; k < 4096; k += 4095)
            ck_assert_uint_eq(buffers_get(b, index[i])->data[k], (uint8_t) i);
    ck_assert_int_eq(buffers_set_maximum(b, 3000), 0);
    for (uint32_t i = 1000; i < 3000; i++) {
        ck_assert_int_eq(buffers_take(b, &index[i]), 0);
        memset(buffers_get(b, index[i])->data, (int) i, 4096);
    }
    ck_assert_int_eq(buffers_take(b, &index[0]), -ENOBUFS);
    ck_assert_uint_eq(buffers_get(b, index[1])->data[0],
                      1); /* the old ones stand where they stood */
    buffers_give(b, index[77]);
    buffers_give(b, index[77]); /* once is enough */
    uint32_t again;
    ck_assert_int_eq(buffers_take(b, &again), 0);
    ck_assert_uint_eq(again, index[77]);
    ck_assert_int_eq(buffers_take(b, &again), -ENOBUFS);
    buffers_free(b);
    loop_free(l);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("session");
    TCase *t = tcase_create("session");
    tcase_add_loop_test(t, order_and_header, 0, 2); /* io_uring, epoll */
    tcase_add_test(t, sizes);
    tcase_add_test(t, late_records);
    tcase_add_test(t, late_buffers_bound);
    tcase_add_test(t, one_stream);
    tcase_add_test(t, no_buffer);
    tcase_add_test(t, losses_before_the_session);
    tcase_add_test(t, maximum_size);
    tcase_add_test(t, flush_timer);
    tcase_add_test(t, sync_tells_the_truth);
    tcase_add_test(t, buffers_take_and_give);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
