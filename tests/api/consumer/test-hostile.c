/* SPDX-License-Identifier: Apache-2.0
 *
 * Files made to hurt: every byte of a small file changed in turn, and many changed at random. The
 * file may be refused, never crash, hang or make ProcessTrace fail in another way than is
 * documented. Counts scale with ETW_TEST_SCALE.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "trace.h"

static uint8_t *original;
static size_t size;
static char *target;
static int target_fd;
static size_t refused;
static size_t processed;
static size_t touched; /* events whose bytes were all read */

static void read_all(PEVENT_RECORD e)
{
    const uint8_t *p = e->UserData;
    uint8_t sum = 0;

    for (unsigned i = 0; i < e->UserDataLength; i++)
        sum ^= p[i];
    for (unsigned i = 0; i < e->ExtendedDataCount; i++) {
        p = (const uint8_t *) (uintptr_t) e->ExtendedData[i].DataPtr;
        for (unsigned k = 0; k < e->ExtendedData[i].DataSize; k++)
            sum ^= p[k];
    }
    *(volatile uint8_t *) &sum = sum;
    touched++;
}

static ULONG go_on(PEVENT_TRACE_LOGFILEA lf)
{
    (void) lf;
    return TRUE;
}

/* A file with all header kinds that have items or counters, and several buffers. */
static void make_file(void)
{
    static const struct synthetic_params params = {.buffer_size = 1024, .processors = 2};
    char *path = test_path("original.etl");
    struct synthetic *s = synthetic_new(path, &params);

    for (unsigned b = 0; b < 3; b++) {
        struct etl_event_header h = {
            .size = sizeof(h) + 24 + 16 + 8,
            .header_type = ETL_EVENT64,
            .marker = ETL_MARKER_TRACE,
            .flags = ETL_EVENT_FLAG_EXTENDED_INFO,
            .time_stamp = 2100 + b,
        };
        struct etl_item_header first = {
            .size = 24, .type = ETL_ITEM_RELATED_ACTIVITYID, .linkage = 1, .data_size = 16};
        struct etl_item_header second = {.size = 16, .type = ETL_ITEM_EVENT_KEY, .data_size = 8};
        struct etl_system_header counters = {
            .version = 0x8202,
            .header_type = ETL_SYSTEM64,
            .marker = ETL_MARKER_TRACE,
            .size = sizeof(counters) + 24 + 8,
            .type = 36,
            .group = 5,
            .time_stamp = 2200 + b,
        };
        uint8_t *p;

        synthetic_begin(s, (uint16_t) (b % 2), 0);
        synthetic_event(s, 2000 + b, b);
        p = synthetic_reserve(s, h.size);
        memcpy(p, &h, sizeof(h));
        memcpy(p + 80, &first, sizeof(first));
        memcpy(p + 104, &second, sizeof(second));
        p = synthetic_reserve(s, counters.size);
        memcpy(p, &counters, sizeof(counters));
        for (unsigned i = 0; i < 5; i++)
            synthetic_event(s, 2300 + 10 * i + b, 10 * i + b);
        synthetic_flush(s, 9000, ETL_BUFFER_PROC_INDEX);
    }
    synthetic_finish(s, 0);
    original = (uint8_t *) test_read_file(path, &size);
    free(path);
    target = test_path("target.etl");
    target_fd = open(target, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(target_fd, 0);
}

static void try_bytes(const uint8_t *data)
{
    EVENT_TRACE_LOGFILEA lf = {
        .LogFileName = target,
        .BufferCallback = go_on,
        .EventRecordCallback = read_all,
    };
    TRACEHANDLE h;

    ck_assert_int_eq(pwrite(target_fd, data, size, 0), (ssize_t) size);
    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    h = OpenTraceA(&lf);
    if (h == INVALID_PROCESSTRACE_HANDLE) {
        ck_assert_uint_eq(GetLastError(), ERROR_FILE_CORRUPT);
        refused++;
        return;
    }
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    processed++;
}

START_TEST(each_byte)
{
    static const uint8_t values[] = {0x81, 0x00};
    uint8_t *data;

    make_file();
    data = malloc(size);
    for (size_t i = 0; i < size; i++) {
        /* Filler is not looked at: a few changes are enough there. */
        bool filler = original[i] == 0xFF && i + 1 < size && original[i + 1] == 0xFF;

        if (filler && i % 16 != 0)
            continue;
        for (size_t v = 0; v < sizeof(values); v++) {
            memcpy(data, original, size);
            data[i] = data[i] == values[v] ? (uint8_t) (values[v] ^ 0x55) : values[v];
            try_bytes(data);
        }
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_gt(processed, size / 2);
    ck_assert_uint_gt(touched, 20 * processed);
    free(data);
}
END_TEST

START_TEST(many_bytes)
{
    uint64_t state = 0x9E3779B97F4A7C15ull;
    uint8_t *data;

    make_file();
    data = malloc(size);
    for (int run = test_scale(3000); run > 0; run--) {
        memcpy(data, original, size);
        for (unsigned n = 1 + (unsigned) (state >> 60); n > 0; n--) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            /* Past the log-file header, which alone decides whether the file is opened. */
            data[0x1D0 + (state >> 20) % (size - 0x1D0)] = (uint8_t) (state >> 56);
        }
        try_bytes(data);
    }
    ck_assert_uint_gt(processed, 0);
    free(data);
}
END_TEST

/* Many buffers that claim to be as large as buffers get, in a small file. */
START_TEST(sizes_that_are_not_there)
{
    uint32_t huge = 64u << 20;
    uint8_t *data;

    make_file();
    data = malloc(size);
    memcpy(data, original, size);
    memcpy(data + 1024, &huge, sizeof(huge));
    memcpy(data + 1024 + 0x30, &huge, sizeof(huge));
    try_bytes(data);
    ck_assert_uint_eq(processed, 1);
    memcpy(data, original, size);
    memcpy(data + 0x48 + 0x20, &huge, sizeof(huge)); /* BufferSize of the log-file header */
    try_bytes(data);
    ck_assert_uint_eq(processed, 2);
    free(data);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("consumer-hostile");
    TCase *t = tcase_create("hostile");

    tcase_add_test(t, each_byte);
    tcase_add_test(t, many_bytes);
    tcase_add_test(t, sizes_that_are_not_there);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
