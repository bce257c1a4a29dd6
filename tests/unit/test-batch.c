/* SPDX-License-Identifier: Apache-2.0
 *
 * Batched reads, and that an index made with them is the one made without.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/batch.h"
#include "etl/file.h"
#include "lib/synthetic.h"
#include "lib/test.h"

START_TEST(reads_what_is_there)
{
    char *path = test_path("bytes");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct etw_batch *b = NULL;
    uint8_t data[10000];
    const uint8_t *got;
    ssize_t n;
    int r;

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t) (i * 7 + i / 256);
    ck_assert_int_eq(write(fd, data, sizeof(data)), sizeof(data));
    r = etw_batch_new(&b);
    if (r < 0)
        test_skip("no io_uring here: %s", strerror(-r));
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(etw_batch_read(b, fd, 8, 100, 120, 64), 0);
        for (unsigned i = 0; i < 120; i++) {
            size_t at = 8 + 100 * i;
            ssize_t there = at >= sizeof(data) ? 0 : (ssize_t) (sizeof(data) - at);

            got = etw_batch_get(b, i, &n);
            ck_assert_int_eq(n, there < 64 ? there : 64);
            ck_assert_int_eq(memcmp(got, data + at, (size_t) n), 0);
        }
    }
    ck_assert_int_eq(etw_batch_read(b, fd, 0, 1, ETW_BATCH_READS, ETW_BATCH_BYTES), 0);
    got = etw_batch_get(b, ETW_BATCH_READS - 1, &n);
    ck_assert_int_eq(n, ETW_BATCH_BYTES);
    ck_assert_int_eq(memcmp(got, data + ETW_BATCH_READS - 1, ETW_BATCH_BYTES), 0);
    ck_assert_int_eq(etw_batch_read(b, fd, 0, 1, ETW_BATCH_READS + 1, 1), -EINVAL);
    ck_assert_int_eq(etw_batch_read(b, fd, 0, 1, 1, ETW_BATCH_BYTES + 1), -EINVAL);
    ck_assert_int_eq(etw_batch_read(b, -1, 0, 1, 3, 1), 0); /* each read fails by itself */
    (void) etw_batch_get(b, 2, &n);
    ck_assert_int_eq(n, -EBADF);
    ck_assert_ptr_null(etw_batch_free(b));
    close(fd);
    free(path);
}
END_TEST

/* Regular buffers, then one of another size, then regular ones at other places, one damaged, and a
 * last one that is cut short. */
static char *irregular_file(void)
{
    static const struct synthetic_params params = {.buffer_size = 1024};
    char *path = test_path("irregular.etl");
    struct synthetic *s = synthetic_new(path, &params);
    static const uint8_t zeros[68];
    uint8_t odd[1624];
    uint32_t used;
    int fd;

    for (unsigned i = 0; i < 3000; i++) {
        synthetic_begin(s, (uint16_t) (i % 4), 0);
        synthetic_event(s, 2000 + 10 * (i ^ 5), i);
        synthetic_flush(s, 50000, ETL_BUFFER_PROC_INDEX);
        if (i == 1000) {
            etl_buffer_begin(odd, sizeof(odd), 0, 0, 5000, ETL_BUFFER_GENERIC);
            etl_buffer_close(odd, ETL_BUFFER_HEADER_SIZE, 1, ETL_BUFFER_PROC_INDEX);
            synthetic_append(s, odd, sizeof(odd));
        }
    }
    synthetic_append(s, synthetic_buffer(s, &used), 500);
    synthetic_finish(s, 0);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    /* All of a header but its size. */
    ck_assert_int_eq(pwrite(fd, zeros, sizeof(zeros), (1 + 700) * 1024 + 4), sizeof(zeros));
    close(fd);
    return path;
}

static struct etl_file *index_of(const char *path, bool batch, const struct etl_buffer_ref **ret,
                                 size_t *ret_count, bool *ret_truncated)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct etl_file *f = NULL;
    struct rlimit before;
    struct rlimit none;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(etl_file_open_fd(fd, &f), 0);
    close(fd);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0; /* no descriptor for a ring */
    if (!batch)
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_eq(etl_file_index(f, ret, ret_count, ret_truncated), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    return f;
}

START_TEST(same_index_with_and_without)
{
    const struct etl_buffer_ref *with;
    const struct etl_buffer_ref *without;
    struct etl_file *a;
    struct etl_file *b;
    char *path = irregular_file();
    size_t n;
    size_t m;
    bool cut;

    a = index_of(path, true, &with, &n, &cut);
    ck_assert(cut);
    b = index_of(path, false, &without, &m, &cut);
    ck_assert(cut);
    ck_assert_uint_eq(n, 1 + 3000 - 1 + 1 + 1); /* first, data less the damaged, odd, cut */
    ck_assert_uint_eq(m, n);
    ck_assert_int_eq(memcmp(with, without, n * sizeof(*with)), 0);
    for (size_t i = 2; i < n; i++)
        ck_assert_uint_gt(with[i].offset, with[i - 1].offset);
    ck_assert_uint_eq(with[5].first_time, 2000 + 10 * (4 ^ 5));
    etl_file_free(a);
    etl_file_free(b);
    free(path);
}
END_TEST

START_TEST(index_by_time)
{
    const struct etl_buffer_ref *refs;
    struct etl_file *f;
    char *path = irregular_file();
    size_t n;
    bool cut;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    ck_assert_int_eq(etl_file_open_fd(fd, &f), 0);
    close(fd);
    ck_assert_int_eq(etl_file_index_by_time(f, &refs, &n, &cut), 0);
    for (size_t i = 1; i < n; i++)
        ck_assert(refs[i - 1].first_time < refs[i].first_time ||
                  (refs[i - 1].first_time == refs[i].first_time &&
                   refs[i - 1].sequence_number <= refs[i].sequence_number));
    etl_file_free(f);
    free(path);
}
END_TEST

/* The far ends of a file meet: no insertion sort would finish in time. */
START_TEST(index_by_time_reversed)
{
    static const struct synthetic_params params = {.buffer_size = 1024};
    const struct etl_buffer_ref *refs;
    char *path = test_path("reversed.etl");
    struct synthetic *s = synthetic_new(path, &params);
    struct etl_file *f;
    size_t n;
    bool cut;
    int fd;

    for (unsigned i = 0; i < 20000; i++) {
        synthetic_begin(s, 0, 0);
        synthetic_event(s, 1000000 - 10 * i, i);
        synthetic_flush(s, 2000000, ETL_BUFFER_PROC_INDEX);
    }
    synthetic_finish(s, 0);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(etl_file_open_fd(fd, &f), 0);
    close(fd);
    ck_assert_int_eq(etl_file_index_by_time(f, &refs, &n, &cut), 0);
    ck_assert_uint_eq(n, 20001);
    ck_assert(!cut);
    for (size_t i = 1; i < n; i++)
        ck_assert_uint_lt(refs[i - 1].first_time, refs[i].first_time);
    etl_file_free(f);
    free(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("batch");
    TCase *t = tcase_create("batch");

    tcase_add_test(t, reads_what_is_there);
    tcase_add_test(t, same_index_with_and_without);
    tcase_add_test(t, index_by_time);
    tcase_add_test(t, index_by_time_reversed);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
