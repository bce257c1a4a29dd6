/* SPDX-License-Identifier: Apache-2.0
 *
 * Damaged and forged .etl input: the readers end, stay inside what they were given, and deliver
 * what is whole. Meant to run under the sanitizers, too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "etl-sample.h"
#include "etl-walk.h"
#include "lib/test.h"

#define BUFFER 8192u

static uint8_t file[2 * BUFFER];
static size_t file_size;
static uint32_t file_events;

static void setup(void)
{
    file_size = sample_file(file, sizeof(file), BUFFER, 1, &file_events);
    ck_assert_uint_eq(file_size, sizeof(file));
}

static int memory_file(const void *data, size_t size)
{
    int fd = memfd_create("sample", MFD_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, data, size, 0), (ssize_t) size);
    return fd;
}

START_TEST(whole)
{
    _cleanup_close_ int fd = memory_file(file, file_size);
    struct walk w = {0};

    ck_assert_int_eq(walk_file(&w, fd), 0);
    ck_assert_uint_eq(w.buffers, 2);
    ck_assert_uint_eq(w.events, file_events);
    ck_assert_uint_eq(w.broken, 0);
    ck_assert_uint_eq(w.lost_data, 0);
    ck_assert_uint_gt(w.fields, 200);
    ck_assert_uint_gt(w.items, 10);
    ck_assert_uint_gt(w.tokens, 10);
}
END_TEST

START_TEST(cut_at_every_byte)
{
    _cleanup_close_ int fd = memory_file(file, file_size);
    uint64_t last = 0;

    for (size_t n = 0; n <= file_size; n++) {
        struct walk w = {0};
        int r;

        ck_assert_int_eq(ftruncate(fd, 0), 0);
        ck_assert_int_eq(pwrite(fd, file, n, 0), (ssize_t) n);
        r = walk_file(&w, fd);
        /* The header event is 0x188 + bytes long; before its end it is no log file. */
        if (n < ETL_BUFFER_HEADER_SIZE + 0x20 + 0x118) {
            ck_assert_int_eq(r, -ENODATA);
            continue;
        }
        if (r < 0) {
            ck_assert_int_eq(r, -ENODATA);
            continue;
        }
        ck_assert_uint_ge(w.events, last);
        last = w.events;
        /* Missing bytes never go unnoticed. (One 0 byte may be the end of a preallocated file.) */
        if (n < BUFFER || (n > BUFFER + 1 && n < 2 * BUFFER))
            ck_assert_uint_gt(w.broken, 0);
    }
    ck_assert_uint_eq(last, file_events);
}
END_TEST

/* Every byte, changed in several ways. */
START_TEST(every_byte_mutated)
{
    static const uint8_t to[] = {0x00, 0x7F, 0x80, 0xFF};
    _cleanup_close_ int fd = memory_file(file, file_size);
    size_t opened = 0;

    for (size_t i = 0; i < file_size; i++)
        for (size_t k = 0; k < sizeof(to); k++) {
            struct walk w = {0};
            int r;
            if (file[i] == to[k])
                continue;
            ck_assert_int_eq(pwrite(fd, &to[k], 1, (off_t) i), 1);
            r = walk_file(&w, fd);
            ck_assert_msg(r == 0 || r == -EBADMSG || r == -ENODATA, "byte %zu: %d", i, r);
            opened += r == 0;
            ck_assert_uint_le(w.events, 2 * file_events);
            ck_assert_int_eq(pwrite(fd, &file[i], 1, (off_t) i), 1);
        }
    /* Most bytes are payload: the rest of the file must not suffer. */
    ck_assert_uint_gt(opened, 3 * file_size);
}
END_TEST

/* The same for one buffer in memory of exactly its length, so that a read behind it shows. */
START_TEST(every_byte_mutated_in_memory)
{
    uint32_t end;
    uint8_t *buf;

    memcpy(&end, file + BUFFER + 0x30, 4);
    buf = malloc(end);
    ck_assert_ptr_nonnull(buf);
    for (uint32_t i = ETL_BUFFER_HEADER_SIZE; i < end; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct walk w = {0};
            memcpy(buf, file + BUFFER, end);
            buf[i] = (uint8_t) (buf[i] ^ 1u << bit);
            walk_buffer(&w, buf, end, BUFFER);
        }
    /* And every length. */
    for (uint32_t n = 0; n < end; n++) {
        struct walk w = {0};
        uint8_t *cut = malloc(n ? n : 1);
        ck_assert_ptr_nonnull(cut);
        memcpy(cut, file + BUFFER, n);
        walk_buffer(&w, cut, n, end);
        free(cut);
    }
    free(buf);
}
END_TEST

START_TEST(sizes_that_lie)
{
    static uint8_t buf[256];
    struct etl_iter it;
    struct etl_event e;
    static const uint8_t kinds[] = {ETL_SYSTEM64,   ETL_COMPACT64, ETL_PERFINFO64, ETL_FULL64,
                                    ETL_INSTANCE64, ETL_EVENT64,   ETL_ERROR,      ETL_TIMED};

    for (size_t i = 0; i < sizeof(kinds); i++)
        for (uint32_t size = 0; size <= 65535; size += size < 300 ? 1 : 997) {
            uint32_t pos;
            memset(buf, 0, sizeof(buf));
            /* Both places of the size: u16 at 0 and at 4. */
            memcpy(buf + ETL_BUFFER_HEADER_SIZE, &size, 2);
            memcpy(buf + ETL_BUFFER_HEADER_SIZE + 4, &size, 2);
            buf[ETL_BUFFER_HEADER_SIZE + 2] = kinds[i];
            buf[ETL_BUFFER_HEADER_SIZE + 3] = 0xC0;
            etl_iter_init(&it, buf, sizeof(buf), sizeof(buf));
            pos = it.pos;
            while (etl_iter_next(&it, &e) == 1) {
                ck_assert_uint_gt(it.pos, pos);
                ck_assert(e.raw + e.size <= buf + sizeof(buf));
                pos = it.pos;
            }
            /* Zeros behind the event are garbage, so is the event itself when its size is. */
            ck_assert(it.error == -EBADMSG || it.pos == it.end);
        }
}
END_TEST

START_TEST(garbage)
{
    static uint8_t buf[4096];
    struct walk w = {0};
    uint32_t x = 12345;

    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < 200; i++) {
            x = x * 1664525 + 1013904223;
            buf[ETL_BUFFER_HEADER_SIZE + i] = (uint8_t) (x >> 24);
        }
        /* Every second one begins like an event. */
        if (round % 2) {
            buf[ETL_BUFFER_HEADER_SIZE + 1] = 0;
            buf[ETL_BUFFER_HEADER_SIZE + 3] = round % 4 == 1 ? 0xC0 : 0x90;
            buf[ETL_BUFFER_HEADER_SIZE + 2] %= 0x18;
        }
        walk_buffer(&w, buf, ETL_BUFFER_HEADER_SIZE + 200, sizeof(buf));
    }
    ck_assert_uint_gt(w.events, 100);
    ck_assert_uint_gt(w.broken, 10000);
}
END_TEST

START_TEST(not_a_log_file)
{
    static const char text[] = "This is a text file, long enough to hold a buffer header, "
                               "and then some more so that an event could follow it.\n";
    struct walk w = {0};
    int fds[2];

    _cleanup_close_ int empty = memory_file("", 0);
    ck_assert_int_eq(walk_file(&w, empty), -ENODATA);
    _cleanup_close_ int plain = memory_file(text, sizeof(text));
    ck_assert_int_eq(walk_file(&w, plain), -EBADMSG);
    /* A data buffer is not the beginning of a file. */
    file[BUFFER + ETL_BUFFER_HEADER_SIZE + 6] = 1; /* the sample's first row is a header, too */
    _cleanup_close_ int data = memory_file(file + BUFFER, BUFFER);
    ck_assert_int_eq(walk_file(&w, data), -EBADMSG);
    ck_assert_int_eq(walk_file(&w, -1), -EBADF);
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(walk_file(&w, fds[0]), -EBADMSG);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("hostile-etl");
    TCase *t = tcase_create("hostile-etl");

    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, whole);
    tcase_add_test(t, cut_at_every_byte);
    tcase_add_test(t, every_byte_mutated);
    tcase_add_test(t, every_byte_mutated_in_memory);
    tcase_add_test(t, sizes_that_lie);
    tcase_add_test(t, garbage);
    tcase_add_test(t, not_a_log_file);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
