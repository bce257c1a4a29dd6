/* SPDX-License-Identifier: Apache-2.0
 *
 * proto/etl/file.c: the pass over buffer headers, damaged, preallocated and compressed files.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "etl-sample.h"
#include "etl-walk.h"
#include "lib/test.h"

#define BUFFER 8192u
#define DATA_BUFFERS 3u

static uint8_t file[(DATA_BUFFERS + 1) * BUFFER];
static uint32_t file_events;

static void setup(void)
{
    ck_assert_uint_eq(sample_file(file, sizeof(file), BUFFER, DATA_BUFFERS, &file_events),
                      sizeof(file));
}

static int memory_file(const void *data, size_t size)
{
    int fd = memfd_create("sample", MFD_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, data, size, 0), (ssize_t) size);
    return fd;
}

struct indexed {
    struct etl_file *f;
    const struct etl_buffer_ref *refs;
    size_t n;
    bool truncated;
};

static struct indexed open_index(const void *data, size_t size)
{
    _cleanup_close_ int fd = memory_file(data, size);
    struct indexed x;

    ck_assert_int_eq(etl_file_open_fd(fd, &x.f), 0);
    ck_assert_uint_eq(etl_file_size(x.f), size);
    ck_assert_int_eq(etl_file_index(x.f, &x.refs, &x.n, &x.truncated), 0);
    return x;
}

START_TEST(index_of_a_whole_file)
{
    struct indexed x = open_index(file, sizeof(file));
    const struct etl_buffer_ref *again;
    uint64_t stamp = SAMPLE_T0;
    bool truncated;
    size_t n;

    ck_assert_uint_eq(x.n, DATA_BUFFERS + 1);
    ck_assert(!x.truncated);
    ck_assert_uint_eq(etl_file_buffer_bytes(x.f), BUFFER);
    ck_assert_uint_eq(etl_file_header(x.f)->buffers_written, DATA_BUFFERS + 1);
    for (size_t i = 0; i < x.n; i++) {
        ck_assert_uint_eq(x.refs[i].offset, i * BUFFER);
        ck_assert_uint_eq(x.refs[i].size, BUFFER);
        ck_assert_int_eq(x.refs[i].sequence_number, (int64_t) i);
        ck_assert_uint_eq(x.refs[i].processor, i == 0 ? 0 : (i - 1) % 2);
        ck_assert_uint_eq(x.refs[i].flags, i == 0 || i == DATA_BUFFERS ? 0x21 : 0x20);
        ck_assert_uint_ge(x.refs[i].first_time, stamp);
        stamp = x.refs[i].first_time;
    }
    ck_assert_uint_eq(x.refs[0].first_time, SAMPLE_T0);
    ck_assert_uint_eq(x.refs[1].first_time, SAMPLE_T0 + 1);
    ck_assert_int_eq(etl_file_index(x.f, &again, &n, &truncated), 0);
    ck_assert_ptr_eq(again, x.refs);
    ck_assert_uint_eq(n, x.n);
    ck_assert_ptr_null(etl_file_free(x.f));
    ck_assert_ptr_null(etl_file_free(NULL));
}
END_TEST

START_TEST(first_event_without_a_stamp)
{
    /* The pass must look further: step over 0xB0, a message without a stamp, an ERROR record. */
    static const uint8_t skipped[24] = {24, 0, 0, 0xB0}, error[8] = {8, 0, ETL_ERROR, 0xC0};
    uint8_t *b = file + BUFFER;
    struct etl_writer w = {.data = b, .cap = BUFFER, .size = ETL_BUFFER_HEADER_SIZE};
    struct indexed x;

    etl_put(&w, skipped, sizeof(skipped));
    sample_message(&w, ETL_MESSAGE_GUID, 0, 80);
    sample_pad(&w);
    etl_put(&w, error, sizeof(error));
    sample_message(&w, ETL_MESSAGE_TIMESTAMP, 4711, 2);
    sample_pad(&w);
    etl_buffer_close(b, w.size, 1, 0);
    x = open_index(file, sizeof(file));
    ck_assert_uint_eq(x.refs[1].first_time, 4711);
    etl_file_free(x.f);

    /* None has one. */
    w.size = ETL_BUFFER_HEADER_SIZE;
    sample_message(&w, ETL_MESSAGE_GUID, 0, 80);
    sample_pad(&w);
    etl_buffer_close(b, w.size, 1, 0);
    x = open_index(file, sizeof(file));
    ck_assert_uint_eq(x.n, DATA_BUFFERS + 1);
    ck_assert_uint_eq(x.refs[1].first_time, UINT64_MAX);
    etl_file_free(x.f);

    /* Messages with every set of options. */
    for (uint16_t flags = 0; flags < 256; flags++) {
        w.size = ETL_BUFFER_HEADER_SIZE;
        sample_message(&w, flags, 4712, 2);
        sample_pad(&w);
        etl_buffer_close(b, w.size, 1, 0);
        x = open_index(file, sizeof(file));
        ck_assert_uint_eq(x.refs[1].first_time, flags & ETL_MESSAGE_TIMESTAMP ? 4712 : UINT64_MAX);
        etl_file_free(x.f);
    }
}
END_TEST

START_TEST(empty_buffer)
{
    struct indexed x;

    etl_buffer_begin(file + BUFFER, BUFFER, 1, 3, 1, ETL_BUFFER_GENERIC);
    etl_buffer_close(file + BUFFER, ETL_BUFFER_HEADER_SIZE, 1, 0);
    x = open_index(file, sizeof(file));
    ck_assert_uint_eq(x.n, DATA_BUFFERS + 1);
    ck_assert_uint_eq(x.refs[1].first_time, UINT64_MAX);
    etl_file_free(x.f);
}
END_TEST

START_TEST(preallocated_end)
{
    static uint8_t longer[sizeof(file) + 3 * BUFFER];
    struct indexed x;

    memcpy(longer, file, sizeof(file));
    x = open_index(longer, sizeof(longer));
    ck_assert_uint_eq(x.n, DATA_BUFFERS + 1);
    ck_assert(!x.truncated);
    etl_file_free(x.f);
    /* One byte there that is not 0 is told. */
    longer[sizeof(file) + 50] = 1;
    x = open_index(longer, sizeof(longer));
    ck_assert_uint_eq(x.n, DATA_BUFFERS + 1);
    ck_assert(x.truncated);
    etl_file_free(x.f);
}
END_TEST

START_TEST(cut_file)
{
    struct indexed x = open_index(file, sizeof(file) - 100);
    struct etl_buffer_info info;
    static uint8_t buf[BUFFER];
    size_t len;

    ck_assert_uint_eq(x.n, DATA_BUFFERS + 1);
    ck_assert(x.truncated);
    ck_assert_int_eq(
        etl_file_read_buffer(x.f, &x.refs[DATA_BUFFERS], buf, sizeof(buf), &info, &len), 0);
    ck_assert_uint_eq(len, BUFFER - 100);
    etl_file_free(x.f);
}
END_TEST

START_TEST(damaged_buffer_header)
{
    struct walk w = {0};
    struct indexed x;

    /* Only the size is right: this buffer is lost, the others are not. */
    memset(file + BUFFER + 4, 0, 68);
    x = open_index(file, sizeof(file));
    ck_assert_uint_eq(x.n, DATA_BUFFERS);
    ck_assert(x.truncated);
    ck_assert_uint_eq(x.refs[1].offset, 2 * BUFFER);
    etl_file_free(x.f);
    _cleanup_close_ int fd = memory_file(file, sizeof(file));
    ck_assert_int_eq(walk_file(&w, fd), 0);
    ck_assert_uint_eq(w.events, 2 + (file_events - 2) / DATA_BUFFERS * (DATA_BUFFERS - 1));

    /* The size is not: nobody can say where the next one begins. */
    file[BUFFER] = 1;
    x = open_index(file, sizeof(file));
    ck_assert_uint_eq(x.n, 1);
    ck_assert(x.truncated);
    etl_file_free(x.f);
}
END_TEST

START_TEST(buffer_types)
{
    /* Those that hold no events are left out, and are no damage. */
    for (uint16_t type = 0; type < 12; type++) {
        bool events = type == 0 || type == 1 || type == 2 || type == 4 || type == 5;
        struct indexed x;

        memcpy(file + BUFFER + 0x36, &type, 2);
        x = open_index(file, sizeof(file));
        ck_assert_uint_eq(x.n, DATA_BUFFERS + (events ? 1 : 0));
        ck_assert(!x.truncated);
        etl_file_free(x.f);
    }
}
END_TEST

START_TEST(reading_checks_again)
{
    _cleanup_close_ int fd = memory_file(file, sizeof(file));
    const struct etl_buffer_ref *refs;
    struct etl_buffer_info info;
    static uint8_t buf[BUFFER];
    struct etl_file *f;
    static const uint32_t bad = 5;
    bool truncated;
    size_t n, len;

    ck_assert_int_eq(etl_file_open_fd(fd, &f), 0);
    ck_assert_int_eq(etl_file_index(f, &refs, &n, &truncated), 0);
    ck_assert_int_eq(etl_file_read_buffer(f, &refs[1], buf, BUFFER - 1, &info, &len), -ENOBUFS);
    ck_assert_int_eq(etl_file_read_buffer(f, &refs[1], buf, BUFFER, &info, &len), 0);
    ck_assert_uint_eq(len, BUFFER);
    ck_assert_uint_eq(info.sequence_number, 1);
    ck_assert_mem_eq(buf, file + BUFFER, BUFFER);
    /* The file changes under us. */
    ck_assert_int_eq(pwrite(fd, &bad, 4, BUFFER), 4);
    ck_assert_int_eq(etl_file_read_buffer(f, &refs[1], buf, BUFFER, &info, &len), -EBADMSG);
    ck_assert_int_eq(ftruncate(fd, 2 * BUFFER + 80), 0);
    ck_assert_int_eq(etl_file_read_buffer(f, &refs[2], buf, BUFFER, &info, &len), 0);
    ck_assert_uint_eq(len, 80);
    ck_assert_int_eq(etl_file_read_buffer(f, &refs[3], buf, BUFFER, &info, &len), -EBADMSG);
    etl_file_free(f);
}
END_TEST

/* Plain LZ77 without matches: 32 literals a flag word; the last word says: end. */
static size_t compress_buffer(const uint8_t *in, uint8_t *out)
{
    uint32_t end, size, flags = 0;
    size_t used = ETL_BUFFER_HEADER_SIZE;
    uint16_t buffer_flags;

    memcpy(out, in, ETL_BUFFER_HEADER_SIZE);
    memcpy(&end, in + 0x30, 4);
    for (uint32_t at = ETL_BUFFER_HEADER_SIZE; at <= end; at += 32) {
        uint32_t n = end - at < 32 ? end - at : 32;
        flags = n < 32 ? UINT32_MAX >> n : 0;
        memcpy(out + used, &flags, 4);
        memcpy(out + used + 4, in + at, n);
        used += 4 + n;
    }
    size = (uint32_t) used;
    memcpy(out, &size, 4);
    memcpy(&buffer_flags, in + 0x34, 2);
    buffer_flags |= ETL_BUFFER_COMPRESSED;
    memcpy(out + 0x34, &buffer_flags, 2);
    return used;
}

START_TEST(compressed)
{
    static uint8_t packed[2 * sizeof(file)], buf[2 * BUFFER];
    size_t used = BUFFER, last = 0;
    struct etl_buffer_info info;
    struct walk w = {0};
    struct indexed x;
    uint32_t end;
    size_t len;

    memcpy(packed, file, BUFFER);
    for (uint32_t i = 1; i <= DATA_BUFFERS; i++) {
        last = used;
        used += compress_buffer(file + i * BUFFER, packed + used);
    }
    _cleanup_close_ int fd = memory_file(packed, used);
    ck_assert_int_eq(walk_file(&w, fd), 0);
    ck_assert_uint_eq(w.events, file_events);
    ck_assert_uint_eq(w.broken, 0);

    x = open_index(packed, used);
    ck_assert_uint_eq(x.n, DATA_BUFFERS + 1);
    ck_assert(!x.truncated);
    ck_assert_uint_eq(x.refs[1].first_time, SAMPLE_T0 + 1);
    for (size_t i = 1; i < x.n; i++) {
        memset(buf, 0xEE, sizeof(buf));
        ck_assert_int_eq(etl_file_read_buffer(x.f, &x.refs[i], buf, sizeof(buf), &info, &len), 0);
        memcpy(&end, file + i * BUFFER + 0x30, 4);
        ck_assert_uint_eq(info.end, end);
        ck_assert_uint_eq(len, end);
        ck_assert_mem_eq(buf + 0x48, file + i * BUFFER + 0x48, end - 0x48);
        ck_assert_uint_eq(buf[end], 0xEE);
    }
    ck_assert_int_eq(etl_file_read_buffer(x.f, &x.refs[1], buf, 100, &info, &len), -ENOBUFS);
    etl_file_free(x.f);

    /* Cut anywhere in the last buffer: what was unpacked is delivered. */
    uint64_t events = 0;
    for (size_t n = last + ETL_BUFFER_HEADER_SIZE; n < used; n++) {
        w = (struct walk){0};
        ck_assert_int_eq(ftruncate(fd, 0), 0);
        ck_assert_int_eq(pwrite(fd, packed, n, 0), (ssize_t) n);
        ck_assert_int_eq(walk_file(&w, fd), 0);
        ck_assert_uint_ge(w.events, events);
        ck_assert_uint_ge(w.broken, 1);
        events = w.events;
    }
    /* Each byte of it wrong: no crash, and the buffers before it are whole. */
    for (size_t i = last; i < used; i++) {
        uint8_t wrong = (uint8_t) ~packed[i];
        w = (struct walk){0};
        ck_assert_int_eq(pwrite(fd, packed, used, 0), (ssize_t) used);
        ck_assert_int_eq(pwrite(fd, &wrong, 1, (off_t) i), 1);
        ck_assert_int_eq(walk_file(&w, fd), 0);
        ck_assert_uint_ge(w.events, 2 + (file_events - 2) / DATA_BUFFERS * (DATA_BUFFERS - 1));
    }
}
END_TEST

START_TEST(first_buffer_compressed)
{
    static uint8_t packed[2 * BUFFER];
    size_t used = compress_buffer(file, packed);
    _cleanup_close_ int fd = memory_file(packed, used);
    struct walk w = {0};

    ck_assert_int_eq(walk_file(&w, fd), -EBADMSG);
}
END_TEST

START_TEST(small_buffers_far_apart)
{
    /* A header that claims the largest size costs what the file has, not what it says. */
    static const uint32_t huge = 64u << 20;
    struct indexed x;

    memcpy(file + DATA_BUFFERS * BUFFER, &huge, 4);
    x = open_index(file, sizeof(file));
    ck_assert(x.truncated);
    ck_assert_uint_eq(x.n, DATA_BUFFERS + 1);
    ck_assert_uint_eq(etl_file_buffer_bytes(x.f), BUFFER);
    etl_file_free(x.f);
}
END_TEST

START_TEST(many_buffers)
{
    /* 1 GiB of 64 KiB buffers, sparse: the pass is one small read each. */
    enum { N = 16384, SIZE = 65536 };
    _cleanup_close_ int fd = memfd_create("sample", MFD_CLOEXEC);
    struct etl_logfile_params p = sample_params(SIZE, false);
    struct etl_logfile_totals totals = {0};
    _cleanup_free_ uint8_t *b = malloc(SIZE);
    const struct etl_buffer_ref *refs;
    struct etl_file *f;
    uint64_t before;
    bool truncated;
    size_t n;

    ck_assert_int_eq(etl_logfile_buffer_put(b, &p, &totals), 0);
    ck_assert_int_eq(pwrite(fd, b, 4096, 0), 4096);
    for (uint32_t i = 1; i < N; i++) {
        struct etl_writer w = {.data = b, .cap = SIZE, .size = ETL_BUFFER_HEADER_SIZE};
        etl_buffer_begin(b, SIZE, 0, 3, i, ETL_BUFFER_GENERIC);
        ck_assert_int_gt(sample_event(&w, ETL_ROW_Thread_CSwitch, i, SAMPLE_T0 + i), 0);
        etl_buffer_close(b, w.size, i, 0);
        ck_assert_int_eq(pwrite(fd, b, 128, (off_t) i * SIZE), 128);
    }
    ck_assert_int_eq(ftruncate(fd, (off_t) N * SIZE), 0);
    ck_assert_int_eq(etl_file_open_fd(fd, &f), 0);
    before = etw_clock_boottime();
    ck_assert_int_eq(etl_file_index(f, &refs, &n, &truncated), 0);
    fprintf(stderr, "pass over %d buffers: %.1f ms\n", N,
            (double) (etw_clock_boottime() - before) / 1e6);
    ck_assert_uint_eq(n, N);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(refs[i].first_time, SAMPLE_T0 + i);
    etl_file_free(f);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("file");
    TCase *t = tcase_create("file");

    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, index_of_a_whole_file);
    tcase_add_test(t, first_event_without_a_stamp);
    tcase_add_test(t, empty_buffer);
    tcase_add_test(t, preallocated_end);
    tcase_add_test(t, cut_file);
    tcase_add_test(t, damaged_buffer_header);
    tcase_add_test(t, buffer_types);
    tcase_add_test(t, reading_checks_again);
    tcase_add_test(t, compressed);
    tcase_add_test(t, first_buffer_compressed);
    tcase_add_test(t, small_buffers_far_apart);
    tcase_add_test(t, many_buffers);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
