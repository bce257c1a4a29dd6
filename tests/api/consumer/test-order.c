/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which ProcessTrace delivers: across processors, files and clocks, with equal and
 * with impossible stamps, with bounds, and beyond the limit of open buffers.
 */
#include <stdio.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/limits.h"
#include "trace.h"

/* Events must come in the order of `expected` ids, after whatever header events. */
static void check_ids(const uint64_t *expected, size_t count)
{
    size_t at = 0;

    ck_assert_uint_eq(notes.data, count);
    for (size_t i = 0; i < notes.count; i++)
        if (!notes.events[i].header) {
            ck_assert_uint_eq(notes.events[i].id, expected[at]);
            at++;
        }
}

static size_t inversions(void)
{
    size_t n = 0;

    for (size_t i = 1; i < notes.count; i++)
        n += notes.events[i].time < notes.events[i - 1].time;
    return n;
}

START_TEST(header_comes_first)
{
    char *path = simple_file("a.etl", 3);

    process_noted(path, NULL, NULL);
    ck_assert_uint_eq(notes.count, 5); /* header, extension, three */
    ck_assert(notes.events[0].header);
    ck_assert_int_eq(notes.events[0].time, (int64_t) SYNTHETIC_START);
    check_ids((uint64_t[]){1, 2, 3}, 3);
    ck_assert_int_eq(notes.events[2].time, time_of(2000));
    free(path);
}
END_TEST

/* Rundown describes what was there before the session: the header event comes first all the same.
 */
START_TEST(header_before_earlier_stamps)
{
    char *path = test_path("early.etl");
    struct synthetic *s = synthetic_new(path, NULL);

    synthetic_begin(s, 0, 0);
    synthetic_event(s, 10, 1);
    synthetic_event(s, 1500, 2);
    synthetic_flush(s, 1600, ETL_BUFFER_PROC_INDEX);
    synthetic_finish(s, 0);
    process_noted(path, NULL, NULL);
    ck_assert(notes.events[0].header);
    ck_assert_uint_eq(notes.events[1].id, 1);
    ck_assert_int_eq(notes.events[1].time, time_of(1000) - 10); /* 990 ns, rounded down */
    check_ids((uint64_t[]){1, 2}, 2);
    free(path);
}
END_TEST

START_TEST(sorted_across_processors)
{
    char *path = test_path("cpus.etl");
    uint64_t events = synthetic_kernel_file(path, 4u << 20, 8192, 13, 3);
    uint64_t next = 2;

    process_noted(path, NULL, NULL);
    ck_assert_uint_eq(notes.count, events);
    ck_assert_uint_eq(inversions(), 0);
    /* The generator counts in the order of time. */
    for (size_t i = 0; i < notes.count; i++)
        if (!notes.events[i].header)
            ck_assert_uint_eq(notes.events[i].id, next++);
    free(path);
}
END_TEST

/* Buffers lie in the file as they were flushed, not as they were begun. */
START_TEST(buffers_in_any_place)
{
    static const int order[] = {4, 0, 3, 1, 2};
    char *path = test_path("places.etl");
    struct synthetic *s = synthetic_new(path, NULL);
    uint64_t expected[20];

    for (int i = 0; i < 5; i++) {
        synthetic_begin(s, (uint16_t) order[i], order[i] + 1);
        for (unsigned k = 0; k < 4; k++)
            synthetic_event(s, 5000 + 100 * (unsigned) order[i] + 10 * k,
                            4 * (unsigned) order[i] + k);
        synthetic_flush(s, 9000, ETL_BUFFER_PROC_INDEX);
    }
    synthetic_finish(s, 0);
    for (unsigned i = 0; i < 20; i++)
        expected[i] = i;
    process_noted(path, NULL, NULL);
    check_ids(expected, 20);
    free(path);
}
END_TEST

/* Three clocks, times that interleave: sorted by wall time. */
START_TEST(sorted_across_files_and_clocks)
{
    static const struct synthetic_params params[] = {
        {.start_raw = 5000000, .frequency = 1000000000},
        {.start_raw = 77, .frequency = 10000000},
        {.clock_type = ETW_CLOCK_SYSTEM, .start_raw = SYNTHETIC_START},
    };
    static const uint64_t ticks_of_us[] = {1000, 10, 10};
    TRACEHANDLE handles[3];
    char *paths[3];
    size_t per_file[3] = {0};

    for (unsigned f = 0; f < 3; f++) {
        struct synthetic *s;
        char name[16];

        snprintf(name, sizeof(name), "f%u.etl", f);
        paths[f] = test_path(name);
        s = synthetic_new(paths[f], &params[f]);
        for (unsigned b = 0; b < 10; b++) {
            synthetic_begin(s, (uint16_t) (b % 2), 0);
            for (unsigned i = 0; i < 40; i++) /* every third microsecond is this file's */
                synthetic_event(s,
                                params[f].start_raw + ticks_of_us[f] * (1 + f + 3 * (i + 40 * b)),
                                f + 3 * (i + 40 * b));
            synthetic_flush(s, 0, ETL_BUFFER_PROC_INDEX);
        }
        synthetic_finish(s, 0);
        handles[f] = open_noted(paths[f], f, 0);
    }
    ck_assert_uint_eq(ProcessTrace(handles, 3, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(notes.data, 1200);
    ck_assert_uint_eq(inversions(), 0);
    for (size_t i = 0, at = 0; i < notes.count; i++)
        if (!notes.events[i].header) {
            ck_assert_uint_eq(notes.events[i].id, at);
            ck_assert_uint_eq(notes.events[i].file, at % 3);
            ck_assert_int_eq(notes.events[i].time,
                             (int64_t) SYNTHETIC_START + 10 * (int64_t) (at + 1));
            per_file[notes.events[i].file]++;
            at++;
        }
    for (unsigned f = 0; f < 3; f++) {
        ck_assert_uint_eq(per_file[f], 400);
        ck_assert_uint_eq(CloseTrace(handles[f]), ERROR_SUCCESS);
        free(paths[f]);
    }
}
END_TEST

/* File, then sequence number, then position; in every run. */
START_TEST(equal_stamps_keep_their_order)
{
    char *paths[2];
    uint64_t expected[12];

    for (unsigned f = 0; f < 2; f++) {
        struct synthetic *s;
        char name[16];

        snprintf(name, sizeof(name), "e%u.etl", f);
        paths[f] = test_path(name);
        s = synthetic_new(paths[f], NULL);
        for (int64_t sequence = 3; sequence >= 1; sequence--) {
            synthetic_begin(s, (uint16_t) sequence, sequence);
            synthetic_event(s, 3000, 100 * f + 10 * (unsigned) sequence);
            synthetic_event(s, 3000, 100 * f + 10 * (unsigned) sequence + 1);
            synthetic_flush(s, 4000, ETL_BUFFER_PROC_INDEX);
        }
        synthetic_finish(s, 0);
    }
    for (unsigned i = 0; i < 12; i++)
        expected[i] = 100 * (i / 6) + 10 * (i / 2 % 3 + 1) + i % 2;
    for (int run = 0; run < 3; run++) {
        TRACEHANDLE handles[2];

        notes_reset();
        for (unsigned f = 0; f < 2; f++)
            handles[f] = open_noted(paths[f], f, 0);
        ck_assert_uint_eq(ProcessTrace(handles, 2, NULL, NULL), ERROR_SUCCESS);
        check_ids(expected, 12);
        for (unsigned f = 0; f < 2; f++)
            CloseTrace(handles[f]);
    }
    for (unsigned f = 0; f < 2; f++)
        free(paths[f]);
}
END_TEST

/* Stamps that cannot be: before the one ahead, and long after all others. */
START_TEST(impossible_stamps_keep_their_place)
{
    char *path = test_path("impossible.etl");
    struct synthetic *s = synthetic_new(path, NULL);

    synthetic_begin(s, 0, 0);
    synthetic_event(s, 2000, 1);
    synthetic_event(s, 5, 2); /* far too early */
    synthetic_event(s, 4000, 4);
    synthetic_flush(s, 9000, ETL_BUFFER_PROC_INDEX);
    synthetic_begin(s, 1, 0);
    synthetic_event(s, 3000, 3);
    synthetic_event(s, 5000, 5);
    synthetic_flush(s, 9000, ETL_BUFFER_PROC_INDEX);
    synthetic_begin(s, 2, 0);
    synthetic_event(s, 2500, 25);
    synthetic_event(s, UINT64_MAX, 8); /* far too late: it and what follows it wait */
    synthetic_event(s, 2600, 9);
    synthetic_flush(s, 9000, ETL_BUFFER_PROC_INDEX);
    synthetic_finish(s, 0);
    process_noted(path, NULL, NULL);
    check_ids((uint64_t[]){1, 2, 25, 3, 4, 5, 8, 9}, 8);
    ck_assert_int_eq(notes.events[3].time, time_of(1000) - 10); /* its own stamp is shown */
    free(path);
}
END_TEST

/* A record that is no event hides the stamp behind it: that event still waits for its time. */
START_TEST(events_behind_skipped_records)
{
    char *path = test_path("skipped.etl");
    struct synthetic *s = synthetic_new(path, NULL);
    uint8_t *p;

    synthetic_begin(s, 0, 0);
    synthetic_event(s, 2000, 1);
    p = synthetic_reserve(s, 16);
    p[0] = 16;
    p[3] = ETL_MARKER_ULONG32_TIME;
    synthetic_event(s, 9000, 3);
    synthetic_flush(s, 9000, ETL_BUFFER_PROC_INDEX);
    synthetic_begin(s, 1, 0);
    synthetic_event(s, 5000, 2);
    synthetic_event(s, 9500, 4);
    synthetic_flush(s, 9900, ETL_BUFFER_PROC_INDEX);
    synthetic_finish(s, 0);
    process_noted(path, NULL, NULL);
    check_ids((uint64_t[]){1, 2, 3, 4}, 4);
    free(path);
}
END_TEST

/* WPP messages may have no stamp: they stay behind the event ahead of them, with its time. */
START_TEST(messages_without_stamp)
{
    static const struct etl_message_header message = {
        .size = 16,
        .marker = ETL_MARKER_MESSAGE,
        .number = 7,
    };
    char *path = test_path("messages.etl");
    struct synthetic *s = synthetic_new(path, NULL);
    uint64_t id = 2;
    uint8_t *p;

    synthetic_begin(s, 0, 0);
    synthetic_event(s, 2000, 1);
    p = synthetic_reserve(s, 16);
    memcpy(p, &message, sizeof(message));
    memcpy(p + 8, &id, sizeof(id));
    synthetic_event(s, 9000, 4);
    synthetic_flush(s, 9000, ETL_BUFFER_PROC_INDEX);
    synthetic_begin(s, 1, 0);
    synthetic_event(s, 5000, 3);
    synthetic_flush(s, 9900, ETL_BUFFER_PROC_INDEX);
    synthetic_finish(s, 0);
    process_noted(path, NULL, NULL);
    check_ids((uint64_t[]){1, 2, 3, 4}, 4);
    ck_assert_int_eq(notes.events[3].time, time_of(2000));
    free(path);
}
END_TEST

START_TEST(start_and_end_are_inclusive)
{
    char *path = simple_file("bounds.etl", 5); /* 2000 ... 6000 */
    FILETIME third = filetime(time_of(4000));
    FILETIME before_third = filetime(time_of(4000) - 1);
    FILETIME after_third = filetime(time_of(4000) + 1);
    FILETIME header = filetime((int64_t) SYNTHETIC_START);

    process_noted(path, &third, NULL);
    ck_assert_uint_eq(notes.count, 3); /* no header: it lies before */
    check_ids((uint64_t[]){3, 4, 5}, 3);
    notes_reset();
    process_noted(path, NULL, &third);
    check_ids((uint64_t[]){1, 2, 3}, 3);
    ck_assert(notes.events[0].header);
    notes_reset();
    process_noted(path, &third, &third);
    check_ids((uint64_t[]){3}, 1);
    notes_reset();
    process_noted(path, &after_third, NULL);
    check_ids((uint64_t[]){4, 5}, 2);
    notes_reset();
    process_noted(path, NULL, &before_third);
    check_ids((uint64_t[]){1, 2}, 2);
    notes_reset();
    process_noted(path, NULL, &header);
    ck_assert_uint_eq(notes.data, 0);
    ck_assert(notes.count > 0 && notes.events[0].header);
    free(path);
}
END_TEST

/* The bounds are wall time also when stamps are shown raw. */
START_TEST(bounds_with_raw_stamps)
{
    char *path = simple_file("raw.etl", 5);
    FILETIME start = filetime(time_of(3000));
    FILETIME end = filetime(time_of(5000));
    TRACEHANDLE h = open_noted(path, 0, PROCESS_TRACE_MODE_RAW_TIMESTAMP);

    ck_assert_uint_eq(ProcessTrace(&h, 1, &start, &end), ERROR_SUCCESS);
    check_ids((uint64_t[]){2, 3, 4}, 3);
    ck_assert_int_eq(notes.events[0].time, 3000);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    free(path);
}
END_TEST

/* More buffers overlap than may be open: all events come, the ones of buffers that could be opened
 * in their order. */
START_TEST(more_overlap_than_the_limit)
{
    enum { BUFFERS = ETW_MERGE_BUFFERS_MAX + 500 };
    static const struct synthetic_params params = {.buffer_size = 1024};
    char *path = test_path("overlap.etl");
    struct synthetic *s = synthetic_new(path, &params);
    uint8_t *seen = calloc(BUFFERS, 1);

    for (unsigned b = 0; b < BUFFERS; b++) {
        synthetic_begin(s, 0, 0);
        synthetic_event(s, 2000 + 100 * b, 2 * b);
        synthetic_event(s, 100000000 + 100 * b, 2 * b + 1);
        synthetic_flush(s, 200000000, ETL_BUFFER_PROC_INDEX);
    }
    synthetic_finish(s, 0);
    process_noted(path, NULL, NULL);
    ck_assert_uint_eq(notes.data, 2 * BUFFERS);
    for (size_t i = 0; i < notes.count; i++)
        if (!notes.events[i].header)
            seen[notes.events[i].id / 2] |= (uint8_t) (1 + notes.events[i].id % 2);
    for (unsigned b = 0; b < BUFFERS; b++)
        ck_assert_uint_eq(seen[b], 3);
    ck_assert_uint_gt(inversions(), 0); /* else the limit was not reached and this tests nothing */
    ck_assert_uint_le(inversions(), 500 + 1);
    free(seen);
    free(path);
}
END_TEST

/* Memory holds the buffers that overlap, not the file. */
START_TEST(memory_for_overlap_only)
{
    char *path = test_path("big.etl");
    uint64_t events = synthetic_kernel_file(path, 96u << 20, 65536, 8, 1);
    TRACEHANDLE h;
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path};
    struct rusage before;
    struct rusage after;

    ck_assert_uint_gt(events, 2000000);
    h = OpenTraceA(&lf);
    ck_assert(h != INVALID_PROCESSTRACE_HANDLE);
    getrusage(RUSAGE_SELF, &before);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
    getrusage(RUSAGE_SELF, &after);
    ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 8192);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    free(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("consumer-order");
    TCase *t = tcase_create("order");

    tcase_add_test(t, header_comes_first);
    tcase_add_test(t, header_before_earlier_stamps);
    tcase_add_test(t, sorted_across_processors);
    tcase_add_test(t, buffers_in_any_place);
    tcase_add_test(t, sorted_across_files_and_clocks);
    tcase_add_test(t, equal_stamps_keep_their_order);
    tcase_add_test(t, impossible_stamps_keep_their_place);
    tcase_add_test(t, events_behind_skipped_records);
    tcase_add_test(t, messages_without_stamp);
    tcase_add_test(t, start_and_end_are_inclusive);
    tcase_add_test(t, bounds_with_raw_stamps);
    tcase_add_test(t, more_overlap_than_the_limit);
    tcase_add_test(t, memory_for_overlap_only);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
