/* SPDX-License-Identifier: Apache-2.0
 *
 * The file sink while writes fail, as disks do: any of those under way, also after half of the
 * buffer has been written, once or for a long time. Whatever fails, the file is a valid one with
 * every event that the counters call recorded, and nothing else. loop_write() is wrapped.
 */
#include "base/log.h"
#include "daemon-fixture.h"

int __real_loop_write(struct loop *l, int fd, const void *data, size_t len, uint64_t offset,
                      int index, loop_write_fn fn, void *userdata);
int __wrap_loop_write(struct loop *l, int fd, const void *data, size_t len, uint64_t offset,
                      int index, loop_write_fn fn, void *userdata);

static struct fixture f;
static struct fixture_file file;
static uint32_t seed;
static unsigned fail_percent;   /* of data writes */
static unsigned refuse_percent; /* that loop_write() itself refuses */
static unsigned failures;

static unsigned dice(void)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % 100;
}

struct failed {
    loop_write_fn fn;
    void *userdata;
};

static void failed_done(void *userdata)
{
    struct failed *x = userdata;
    x->fn(-EIO, x->userdata);
    free(x);
}

int __wrap_loop_write(struct loop *l, int fd, const void *data, size_t len, uint64_t offset,
                      int index, loop_write_fn fn, void *userdata)
{
    if (offset > 0 && dice() < refuse_percent) {
        failures++;
        return -EBUSY;
    }
    if (offset == 0 || dice() >= fail_percent)
        return __real_loop_write(l, fd, data, len, offset, index, fn, userdata);
    failures++;
    if (dice() < 50) /* some of it is there, and would be found by who reads to the end */
        ck_assert_int_eq(pwrite(fd, data, len / 2, (off_t) offset), (int) (len / 2));
    struct failed *x = malloc(sizeof(*x));
    *x = (struct failed){.fn = fn, .userdata = userdata};
    return loop_defer(l, failed_done, x);
}

static void check_file(uint32_t events)
{
    struct session_counters k;
    fixture_identity(&f);
    session_counters(f.session, &k);
    ck_assert_uint_eq(k.written, events);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.events, k.recorded);
    ck_assert_uint_eq(file.header.buffers_written, file.buffers);
    ck_assert_uint_eq(file.header.buffers_written, k.buffers_written);
    ck_assert_uint_eq(file.header.events_lost, k.lost[LOSS_DISK] + k.lost[LOSS_NO_BUFFER]);
    ck_assert_uint_eq(file.header.buffers_lost, k.log_buffers_lost);
    /* Each event at most once, in the order of its CPU. */
    static bool seen[4096];
    int64_t last[2] = {-1, -1};
    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < file.events; i++) {
        uint32_t mark = file.marks[i];
        ck_assert_uint_lt(mark, events);
        ck_assert(!seen[mark]);
        seen[mark] = true;
        ck_assert_uint_eq(file.cpus[i], mark & 1);
        ck_assert_int_gt((int64_t) mark, last[mark & 1]);
        last[mark & 1] = mark;
    }
}

static void session_with_faults(uint32_t events, unsigned sync_every)
{
    fixture_session(&f, &(struct fixture_params){.maximum = 200});
    fixture_open(&f);
    for (uint32_t i = 0; i < events; i++) {
        ck_assert(fixture_event(&f, i & 1, 1000 + i, 40, i));
        if (sync_every && i % sync_every == 0) {
            session_flush(f.session, false);
            fixture_sync(&f);
            ck_assert_int_eq(f.result, 0);
            check_file(i + 1);
        }
    }
    fixture_close(&f);
    ck_assert_int_eq(f.result, 0);
    check_file(events);
}

START_TEST(random_failures)
{
    seed = (uint32_t) _i + 1;
    fail_percent = (unsigned) (_i * 7 % 100);
    refuse_percent = _i % 3 == 0 ? 10 : 0;
    session_with_faults(3000, _i % 2 ? 331 : 0);
    ck_assert_uint_ge(failures, f.session->counters.log_buffers_lost);
    if (fail_percent > 20)
        ck_assert_uint_gt(f.session->counters.log_buffers_lost, 0);
    fixture_free(&f);
}
END_TEST

/* A circular file: what the counters call recorded and not overwritten is in it, and nothing else.
 * Nothing of a buffer that was overwritten in part. */
START_TEST(circular_failures)
{
    struct session_counters k;
    static bool seen[4096];
    int64_t sequence = -1, last[2] = {-1, -1};

    seed = (uint32_t) _i + 1;
    fail_percent = (unsigned) (_i * 11 % 100);
    refuse_percent = _i % 3 == 0 ? 10 : 0;
    fixture_session(&f, &(struct fixture_params){.maximum = 200,
                                                 .mode = ETL_MODE_CIRCULAR,
                                                 .file_bytes = (uint64_t) (2 + _i % 12) * 4096});
    fixture_open(&f);
    for (uint32_t i = 0; i < 4000; i++) {
        ck_assert(fixture_event(&f, i & 1, 1000 + i, 40, i));
        if (i % 331 == 0) {
            session_flush(f.session, false);
            fixture_sync(&f);
        }
    }
    fixture_close(&f);
    ck_assert_int_eq(f.result, 0);
    fixture_identity(&f);
    session_counters(f.session, &k);
    ck_assert_uint_eq(k.written, 4000);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.events, k.recorded - k.overwritten);
    ck_assert_uint_eq(file.header.buffers_written, file.buffers);
    ck_assert_uint_le(file.buffers, 2 + (size_t) _i % 12);
    /* By sequence number they are in the order of their CPU, each once. */
    for (;;) {
        size_t next = 0, at = 0;
        for (size_t i = 1; i < file.buffers; i++)
            if (file.sequences[i] > sequence && file.buffer_events[i] > 0 &&
                (next == 0 || file.sequences[i] < file.sequences[next]))
                next = i;
        if (next == 0)
            break;
        sequence = file.sequences[next];
        for (size_t i = 1; i < next; i++)
            at += file.buffer_events[i];
        for (size_t i = at; i < at + file.buffer_events[next]; i++) {
            uint32_t mark = file.marks[i];
            ck_assert_uint_lt(mark, 4000);
            ck_assert(!seen[mark]);
            seen[mark] = true;
            ck_assert_int_gt((int64_t) mark, last[mark & 1]);
            last[mark & 1] = mark;
        }
    }
    fixture_free(&f);
}
END_TEST

START_TEST(nothing_can_be_written)
{
    fail_percent = 100;
    session_with_faults(2000, 0);
    ck_assert_uint_eq(file.events, 0);
    ck_assert_uint_eq(file.buffers, 1);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_DISK], 2000);
    fixture_free(&f);
}
END_TEST

/* The disk is bad, then good again: what comes then is there, and says what is missing before it.
 */
START_TEST(resumes)
{
    fixture_session(&f, &(struct fixture_params){0});
    fixture_open(&f);
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert(fixture_event(&f, 0, i, 40, 2 * i));
    session_flush(f.session, false);
    fixture_sync(&f);
    fail_percent = 100;
    for (uint32_t i = 1000; i < 1500; i++)
        ck_assert(fixture_event(&f, 0, i, 40, 2 * i));
    session_flush(f.session, false);
    fixture_sync(&f);
    ck_assert_int_eq(f.result, 0); /* FLUSH has done what can be done */
    ck_assert_int_eq(file_sink_trouble(f.session->sink), -EIO);
    ck_assert_uint_eq(f.session->counters.lost[LOSS_DISK], 500);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.events, 1000);
    ck_assert_uint_eq(file.header.events_lost, 500);
    fail_percent = 0;
    for (uint32_t i = 1500; i < 2000; i++)
        ck_assert(fixture_event(&f, 0, i, 40, 2 * i));
    fixture_close(&f);
    ck_assert_int_eq(file_sink_trouble(f.session->sink), 0);
    fixture_read(f.path, &file);
    ck_assert_uint_eq(file.events, 1500);
    ck_assert_uint_eq(file.buffers, 16);
    for (size_t i = 1; i < 16; i++)
        ck_assert_int_eq(
            (file.buffer_flags[i] & (ETL_BUFFER_EVENTS_LOST | ETL_BUFFER_BUFFER_LOST)) != 0,
            i == 11);
    fixture_free(&f);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sink-faults");
    TCase *t = tcase_create("sink-faults");
    tcase_add_loop_test(t, random_failures, 0, test_scale(40));
    tcase_add_loop_test(t, circular_failures, 0, test_scale(40));
    tcase_add_test(t, nothing_can_be_written);
    tcase_add_test(t, resumes);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    etw_log_init("test-sink-faults", ETW_LOG_ERR); /* each failure would be told */
    return test_main(suite());
}
