/* SPDX-License-Identifier: Apache-2.0
 *
 * proto/base: GUIDs, UTF-16, clocks, Win32 codes, etwd.conf keys, SipHash, escaping, messages.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fileio.h"
#include "base/guid.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/siphash.h"
#include "base/utf16.h"
#include "base/utf8.h"
#include "base/winerror.h"
#include "lib/test.h"

START_TEST(guid_text)
{
    static const char text[] = "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c";
    static const struct etw_guid thread =
        ETW_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
    char buf[ETW_GUID_STRING_MAX];
    struct etw_guid g = {0};

    ck_assert_str_eq(etw_guid_format(&thread, buf), text);
    ck_assert_int_eq(etw_guid_parse(text, &g), 0);
    ck_assert(etw_guid_equal(&g, &thread));
    ck_assert_int_eq(etw_guid_parse("{3D6FA8D1-FE05-11D0-9DDA-00C04FD7BA7C}", &g), 0);
    ck_assert(etw_guid_equal(&g, &thread));
    /* As it lies in memory and in files. */
    ck_assert_mem_eq(&thread, "\xd1\xa8\x6f\x3d\x05\xfe\xd0\x11\x9d\xda\x00\xc0\x4f\xd7\xba\x7c",
                     16);
    ck_assert(!etw_guid_is_null(&thread));
    ck_assert(etw_guid_is_null(&(struct etw_guid){0}));
}
END_TEST

START_TEST(guid_text_refused)
{
    static const char *const bad[] = {
        "",
        "{",
        "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7",
        "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7cc",
        "{3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c",
        "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c}",
        "3d6fa8d1fe0511d09dda00c04fd7ba7c",
        "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7g",
        " 3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c",
        "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c ",
        "0x6fa8d1-fe05-11d0-9dda-00c04fd7ba7c",
        "3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct etw_guid g = {.data1 = 7};
        ck_assert_msg(etw_guid_parse(bad[i], &g) == -EINVAL, "'%s' was taken", bad[i]);
        ck_assert_uint_eq(g.data1, 7);
    }
    /* Every truncation. */
    for (size_t n = 0; n < 36; n++) {
        char cut[40] = "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c";
        struct etw_guid g;
        cut[n] = 0;
        ck_assert_int_eq(etw_guid_parse(cut, &g), -EINVAL);
    }
}
END_TEST

START_TEST(guid_random)
{
    struct etw_guid a, b;

    ck_assert_int_eq(etw_guid_random(&a), 0);
    ck_assert_int_eq(etw_guid_random(&b), 0);
    ck_assert(!etw_guid_equal(&a, &b));
    ck_assert_uint_eq(a.data3 >> 12, 4);
    ck_assert_uint_eq(a.data4[0] >> 6, 2);
}
END_TEST

START_TEST(guid_of_name)
{
    static const struct {
        const char *name, *guid;
    } known[] = {
        /* Of real providers. */
        {"MySource", "a61ea624-4944-55fc-c2a8-37838829438d"},
        {"mysource", "a61ea624-4944-55fc-c2a8-37838829438d"},
        {"Microsoft.Windows.WaaSMedic.Local", "30d25124-a468-505c-de82-8411646eb8b5"},
        /* Ours: classes.def states them. */
        {"Linux-Kernel", "c7ba43bd-aec8-5c05-1738-71882fab1a0d"},
        {"Linux-Etwd", "d01b35dd-444d-56eb-1ceb-37ce0fcca09c"},
        {"Linux-Heap", "44aecc91-d0b3-500a-1bbc-b39921f8ed01"},
    };
    struct etw_guid a, b;
    char buf[ETW_GUID_STRING_MAX], many[200];

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        ck_assert_int_eq(etw_guid_from_name(known[i].name, &a), 0);
        ck_assert_str_eq(etw_guid_format(&a, buf), known[i].guid);
    }
    /* Case is folded beyond ASCII, too, and in the C locale. */
    ck_assert_int_eq(etw_guid_from_name("\xc3\xa4rger", &a), 0);
    ck_assert_int_eq(etw_guid_from_name("\xc3\x84RGER", &b), 0);
    ck_assert(etw_guid_equal(&a, &b));
    ck_assert_int_eq(etw_guid_from_name("\xc3", &a), -EINVAL);
    ck_assert_int_eq(etw_guid_from_name("a\x80z", &a), -EINVAL);
    /* Across the borders of hash blocks no two are alike. */
    memset(&b, 0, sizeof(b));
    for (size_t n = 1; n < sizeof(many); n++) {
        memset(many, 'x', n);
        many[n] = 0;
        ck_assert_int_eq(etw_guid_from_name(many, &a), 0);
        ck_assert(!etw_guid_equal(&a, &b));
        b = a;
    }
}
END_TEST

static void check_utf16(const char *utf8, const uint16_t *expected)
{
    size_t n = etw_utf16_len(expected, SIZE_MAX);
    uint16_t out[64];

    ck_assert_uint_eq(etw_utf8_to_utf16_size(utf8, SIZE_MAX), n);
    ck_assert_uint_eq(etw_utf8_to_utf16(utf8, SIZE_MAX, out, ARRAY_SIZE(out)), n);
    ck_assert_mem_eq(out, expected, 2 * (n + 1));
}

START_TEST(utf16_from_utf8)
{
    check_utf16("", u"");
    check_utf16("abc", u"abc");
    check_utf16("\xc3\xa9\xe2\x82\xac", u"\u00e9\u20ac");
    check_utf16("\xf0\x9f\x98\x80!", u"\U0001F600!");
    /* Not valid: each broken character is one U+FFFD. */
    check_utf16("a\x80z", u"a\uFFFDz");
    check_utf16("\xc3(", u"\uFFFD(");
    check_utf16("\xc0\xaf", u"\uFFFD\uFFFD");
    check_utf16("\xed\xa0\x80", u"\uFFFD\uFFFD\uFFFD");
    check_utf16("\xe0\x80\x80", u"\uFFFD\uFFFD\uFFFD");
    check_utf16("\xf4\x90\x80\x80", u"\uFFFD\uFFFD\uFFFD\uFFFD");
    check_utf16("\xf0\x9f\x98", u"\uFFFD");
    check_utf16("\xff\xfe", u"\uFFFD\uFFFD");
}
END_TEST

START_TEST(utf16_from_utf8_cut)
{
    uint16_t out[8];

    for (size_t cap = 1; cap < ARRAY_SIZE(out); cap++) {
        memset(out, 0xAA, sizeof(out));
        ck_assert_uint_eq(etw_utf8_to_utf16("abcdefghij", SIZE_MAX, out, cap), cap - 1);
        ck_assert_uint_eq(out[cap - 1], 0);
        ck_assert_uint_eq(out[cap], 0xAAAA);
        if (cap >= 2)
            ck_assert_uint_eq(out[cap - 2], 0x2026);
        if (cap >= 3)
            ck_assert_uint_eq(out[0], 'a');
    }
    /* What fits is not cut. */
    ck_assert_uint_eq(etw_utf8_to_utf16("abc", SIZE_MAX, out, 4), 3);
    ck_assert_mem_eq(out, u"abc", 8);
    /* Never half a pair: one unit is left over for the ellipsis, or the pair makes way. */
    ck_assert_uint_eq(etw_utf8_to_utf16("a\xf0\x9f\x98\x80", SIZE_MAX, out, 3), 2);
    ck_assert_mem_eq(out, u"a\u2026", 6);
    ck_assert_uint_eq(etw_utf8_to_utf16("\xf0\x9f\x98\x80\xf0\x9f\x98\x80", SIZE_MAX, out, 3), 1);
    ck_assert_mem_eq(out, u"\u2026", 4);
    /* The length rules, not the NUL that is not there; and a NUL ends the text before it. */
    ck_assert_uint_eq(etw_utf8_to_utf16("abcdef", 2, out, 8), 2);
    ck_assert_mem_eq(out, u"ab", 6);
    ck_assert_uint_eq(etw_utf8_to_utf16("a\0b", 3, out, 8), 1);
    /* A character that the length cuts is not read on. */
    ck_assert_uint_eq(etw_utf8_to_utf16("a\xe2\x82\xac", 3, out, 8), 2);
    ck_assert_mem_eq(out, u"a\uFFFD", 6);
}
END_TEST

START_TEST(utf8_from_utf16)
{
    static const uint16_t text[] = u"a\u00e9\u20ac\U0001F600";
    static const char expected[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    static const uint16_t lone[] = {0xDC00, 'x', 0xD800, 'y', 0xD83D, 0};
    char out[64], odd[1 + sizeof(text)];
    size_t n = sizeof(expected) - 1;

    ck_assert_uint_eq(etw_utf16_to_utf8(text, SIZE_MAX, out, sizeof(out)), n);
    ck_assert_str_eq(out, expected);
    memcpy(odd + 1, text, sizeof(text));
    ck_assert_uint_eq(etw_utf16_to_utf8(odd + 1, SIZE_MAX, out, sizeof(out)), n);
    ck_assert_str_eq(out, expected);
    etw_utf16_to_utf8(lone, SIZE_MAX, out, sizeof(out));
    ck_assert_str_eq(out, "\xef\xbf\xbdx\xef\xbf\xbdy\xef\xbf\xbd");
    /* A high surrogate at the given end does not look behind it. */
    ck_assert_uint_eq(etw_utf16_to_utf8(text + 3, 1, out, sizeof(out)), 3);
    ck_assert_str_eq(out, "\xef\xbf\xbd");
    /* Every capacity: cut between characters, never past the end. */
    for (size_t cap = 1; cap <= n + 1; cap++) {
        memset(out, 'Z', sizeof(out));
        size_t used = etw_utf16_to_utf8(text, SIZE_MAX, out, cap);
        ck_assert_uint_lt(used, cap);
        ck_assert_uint_eq(out[used], 0);
        ck_assert_int_eq(out[cap], 'Z');
        ck_assert(used == 0 || used == 1 || used == 3 || used == 6 || used == 10);
        ck_assert_mem_eq(out, expected, used);
    }
}
END_TEST

START_TEST(utf16_duplicates)
{
    _cleanup_free_ char *a = etw_utf16_dup_utf8(u"h\u00e9llo", SIZE_MAX);
    _cleanup_free_ char *b = etw_utf16_dup_utf8(u"hello", 2);
    _cleanup_free_ uint16_t *c = etw_utf8_dup_utf16("h\xc3\xa9llo", SIZE_MAX);
    _cleanup_free_ uint16_t *d = etw_utf8_dup_utf16("", SIZE_MAX);

    ck_assert_str_eq(a, "h\xc3\xa9llo");
    ck_assert_str_eq(b, "he");
    ck_assert_mem_eq(c, u"h\u00e9llo", 12);
    ck_assert_uint_eq(d[0], 0);
    ck_assert_uint_eq(etw_utf16_len(u"hello", 3), 3);
    ck_assert_uint_eq(etw_utf16_len(u"hello", 100), 5);
}
END_TEST

/* 2020-07-14 12:04:31.1387363 UTC, of a real file's header. */
#define START_FT 132392018711387363ULL
#define START_RAW 110988826450ULL

START_TEST(clock_qpc)
{
    struct etw_timebase tb = {START_FT, START_RAW, 10000000, ETW_CLOCK_QPC, 0};
    char buf[ETW_RFC3339_MAX];

    ck_assert_uint_eq(etw_timebase_filetime(&tb, START_RAW), START_FT);
    ck_assert_uint_eq(etw_timebase_filetime(&tb, START_RAW + 1), START_FT + 1);
    ck_assert_uint_eq(etw_timebase_filetime(&tb, START_RAW - 5), START_FT - 5);
    ck_assert_str_eq(etw_rfc3339_filetime(START_FT, buf), "2020-07-14T12:04:31.138736300Z");
    ck_assert_str_eq(etw_rfc3339(etw_timebase_unix_ns(&tb, START_RAW), buf),
                     "2020-07-14T12:04:31.138736300Z");

    /* Nanoseconds: FILETIME is rounded down on both sides of the start. */
    tb.frequency = 1000000000;
    ck_assert_uint_eq(etw_timebase_filetime(&tb, START_RAW + 199), START_FT + 1);
    ck_assert_uint_eq(etw_timebase_filetime(&tb, START_RAW - 1), START_FT - 1);
    ck_assert_uint_eq(etw_timebase_filetime(&tb, START_RAW - 100), START_FT - 1);
    ck_assert_uint_eq(etw_timebase_filetime(&tb, START_RAW - 101), START_FT - 2);
    ck_assert_uint_eq(etw_timebase_unix_ns(&tb, START_RAW + 7),
                      (START_FT - ETW_FILETIME_UNIX_EPOCH) * 100 + 7);

    /* A frequency that divides nothing, 30 years later: no overflow. */
    tb.frequency = 3579545;
    ck_assert_uint_eq(etw_timebase_filetime(&tb, START_RAW + 3579545ULL * 946080000),
                      START_FT + 946080000ULL * 10000000);
}
END_TEST

START_TEST(clock_saturates)
{
    struct etw_timebase tb = {100, 1000000, 1, ETW_CLOCK_QPC, 0};

    ck_assert_uint_eq(etw_timebase_filetime(&tb, 0), 0);
    ck_assert_uint_eq(etw_timebase_filetime(&tb, UINT64_MAX), UINT64_MAX);
    ck_assert_uint_eq(etw_timebase_unix_ns(&tb, 0), 0);
    ck_assert_uint_eq(etw_timebase_unix_ns(&tb, UINT64_MAX), UINT64_MAX);
    ck_assert_uint_eq(etw_timebase_raw(&tb, 0), 1000000 - 0);
    tb.frequency = UINT64_MAX;
    ck_assert_uint_eq(etw_timebase_raw(&tb, UINT64_MAX), UINT64_MAX);
    tb.start_filetime = UINT64_MAX;
    tb.start_raw = 0;
    ck_assert_uint_eq(etw_timebase_raw(&tb, 0), 0);
    ck_assert_uint_eq(etw_filetime_from_unix_ns(0), ETW_FILETIME_UNIX_EPOCH);
    ck_assert_uint_gt(etw_filetime_from_unix_ns(UINT64_MAX), ETW_FILETIME_UNIX_EPOCH);
}
END_TEST

/* What a session of another clock gets: never falling, and back to what it was. */
START_TEST(clock_line)
{
    struct etw_clock_line line = {ETW_CLOCK_SYSTEM, 0, 5000000000, START_FT};
    struct etw_timebase tb = {START_FT, START_FT, ETW_FILETIME_PER_SEC, ETW_CLOCK_SYSTEM, 0};

    ck_assert_uint_eq(etw_clock_line_raw(&line, 5000000000), START_FT);
    ck_assert_uint_eq(etw_clock_line_raw(&line, 5000000099), START_FT);
    ck_assert_uint_eq(etw_clock_line_raw(&line, 5000000100), START_FT + 1);
    ck_assert_uint_eq(etw_clock_line_raw(&line, 4999999999), START_FT - 1);
    ck_assert_uint_eq(etw_clock_line_raw(&line, 4999999900), START_FT - 1);
    ck_assert_uint_eq(etw_clock_line_raw(&line, 4999999899), START_FT - 2);
    ck_assert_uint_eq(etw_clock_line_ticks(&line, 1234), 12);
    line.start_raw = 3; /* nothing lies before 1601 */
    ck_assert_uint_eq(etw_clock_line_raw(&line, 0), 0);

    static const uint32_t rates[] = {1, 999, 2096, 5300};
    for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
        line = (struct etw_clock_line){ETW_CLOCK_CYCLE, rates[i], 5000000000, 1ULL << 60};
        tb = (struct etw_timebase){START_FT, 1ULL << 60, 0, ETW_CLOCK_CYCLE, rates[i]};
        uint64_t last = 0;
        for (int64_t d = -3000; d <= 3000; d++) {
            uint64_t raw = etw_clock_line_raw(&line, 5000000000 + (uint64_t) d);
            ck_assert_uint_ge(raw, last);
            last = raw;
            /* Rounded down to a tick, then to 100 ns. */
            int64_t got = (int64_t) (etw_timebase_filetime(&tb, raw) - START_FT) * 100;
            ck_assert_int_le(got, d);
            ck_assert_int_gt(got, d - 100 - 1000 / (int64_t) rates[i] - 1);
        }
        /* A year later it is still exact. */
        uint64_t year = 365ULL * 86400 * ETW_NSEC_PER_SEC;
        ck_assert_uint_eq(etw_timebase_filetime(&tb, etw_clock_line_raw(&line, 5000000000 + year)),
                          START_FT + year / 100);
    }
    line.type = ETW_CLOCK_QPC;
    ck_assert_uint_eq(etw_clock_line_raw(&line, 77), 77);
    ck_assert_uint_eq(etw_clock_line_ticks(&line, 77), 77);

    uint64_t boottime, realtime, before = etw_clock_boottime();
    etw_clock_read_both(&boottime, &realtime);
    ck_assert_uint_ge(boottime, before);
    ck_assert_uint_le(boottime, etw_clock_boottime());
    ck_assert_uint_le(realtime, etw_clock_ns(CLOCK_REALTIME));
}
END_TEST

START_TEST(clock_other_types)
{
    struct etw_timebase tb = {START_FT, START_FT, 10000000, ETW_CLOCK_SYSTEM, 0};
    char buf[ETW_RFC3339_MAX];

    ck_assert_uint_eq(etw_timebase_filetime(&tb, 5), 5);
    ck_assert_uint_eq(etw_timebase_raw(&tb, 5), 5);
    ck_assert_uint_eq(etw_timebase_unix_ns(&tb, ETW_FILETIME_UNIX_EPOCH + 3), 300);
    ck_assert_uint_eq(etw_timebase_unix_ns(&tb, 5), 0);

    tb = (struct etw_timebase){START_FT, 3000, 0, ETW_CLOCK_CYCLE, 3000};
    ck_assert_uint_eq(etw_timebase_filetime(&tb, 3000 + 3000), START_FT + 10);
    ck_assert_uint_eq(etw_timebase_raw(&tb, START_FT + 10), 6000);
    ck_assert_uint_eq(etw_timebase_raw(&tb, START_FT + 1), 3300);

    /* No rate: all times are the start's. */
    tb.cpu_mhz = 0;
    ck_assert_uint_eq(etw_timebase_filetime(&tb, 1), START_FT);
    ck_assert_uint_eq(etw_timebase_raw(&tb, START_FT), 0);
    ck_assert_uint_eq(etw_timebase_raw(&tb, START_FT + 1), UINT64_MAX);
    /* A type that nobody knows is QPC. */
    tb = (struct etw_timebase){START_FT, START_RAW, 10000000, 77, 0};
    ck_assert_uint_eq(etw_timebase_filetime(&tb, START_RAW + 9), START_FT + 9);

    ck_assert_str_eq(etw_rfc3339(0, buf), "1970-01-01T00:00:00.000000000Z");
    ck_assert_str_eq(etw_rfc3339_filetime(0, buf), "1601-01-01T00:00:00.000000000Z");
    ck_assert_str_eq(etw_rfc3339(UINT64_MAX, buf), "2554-07-21T23:34:33.709551615Z");
    ck_assert_uint_lt(strlen(etw_rfc3339_filetime(UINT64_MAX, buf)), ETW_RFC3339_MAX);
}
END_TEST

START_TEST(clock_raw_is_the_inverse)
{
    static const uint64_t frequencies[] = {1,        3,          1818300,   3579545,
                                           10000000, 1000000000, 3000000000};

    for (size_t i = 0; i < ARRAY_SIZE(frequencies); i++) {
        struct etw_timebase tb = {START_FT, START_RAW, frequencies[i], ETW_CLOCK_QPC, 0};
        for (uint64_t ft = START_FT - 50; ft < START_FT + 50; ft++) {
            uint64_t raw = etw_timebase_raw(&tb, ft);
            ck_assert_uint_ge(etw_timebase_filetime(&tb, raw), ft);
            ck_assert_uint_lt(etw_timebase_filetime(&tb, raw - 1), ft);
        }
    }
}
END_TEST

START_TEST(clock_now)
{
    uint64_t a = etw_clock_boottime(), f = etw_filetime_now(), b = etw_clock_boottime();

    ck_assert_uint_le(a, b);
    ck_assert_uint_gt(f, START_FT);
}
END_TEST

/* Whole files up to the size that is taken, also those that tell none, and not what is no file. */
START_TEST(whole_files)
{
    _cleanup_free_ char *path = test_path("whole"), *big = calloc(1, 40000), *data = NULL;
    _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    char back[16];
    size_t size;

    ck_assert_ptr_nonnull(big);
    memset(big, 'x', 40000);
    ck_assert_int_eq(etw_pwrite(fd, big, 40000, 7), 0);
    ck_assert_int_eq(etw_read_file(AT_FDCWD, path, 40007, true, &data, &size), 0);
    ck_assert_uint_eq(size, 40007);
    ck_assert_int_eq(data[6], 0);
    ck_assert_mem_eq(data + 7, big, 40000);
    ck_assert_int_eq(data[size], 0);
    ck_assert_int_eq(etw_read_file(AT_FDCWD, path, 40006, true, &data, &size), -EFBIG);
    ck_assert_int_eq(etw_pread(fd, back, sizeof(back), 40000), 7);
    ck_assert_int_eq(etw_pread(fd, back, sizeof(back), 50000), 0);
    ck_assert_int_eq(etw_pread(-1, back, sizeof(back), 0), -EBADF);
    free(data);
    data = NULL;
    ck_assert_int_eq(etw_read_file(AT_FDCWD, "/proc/self/status", 1 << 20, false, &data, &size), 0);
    ck_assert_uint_gt(size, 100);
    free(data);
    data = NULL;
    ck_assert_int_eq(etw_read_file(AT_FDCWD, "/dev/null", 10, true, &data, &size), -EBADMSG);
    ck_assert_int_eq(etw_read_file(AT_FDCWD, "/dev/null", 10, false, &data, &size), 0);
    ck_assert_uint_eq(size, 0);
    free(data);
    data = NULL;
    ck_assert_int_eq(etw_read_file(AT_FDCWD, "/dev/zero", 100000, false, &data, &size), -EFBIG);
    ck_assert_int_eq(etw_read_file(AT_FDCWD, "/", 10, false, &data, &size), -EISDIR);
    ck_assert_int_eq(etw_read_file(AT_FDCWD, "/no/such/file", 10, true, &data, &size), -ENOENT);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(winerror_table)
{
    ck_assert_str_eq(etw_winerror_name(5), "ERROR_ACCESS_DENIED");
    ck_assert_str_eq(etw_winerror_text(5), "Access is denied.");
    ck_assert_str_eq(etw_winerror_name(0), "ERROR_SUCCESS");
    ck_assert_str_eq(etw_winerror_name(0xC0000188), "STATUS_LOG_FILE_FULL");
    ck_assert_ptr_null(etw_winerror_name(99999));
    ck_assert_ptr_null(etw_winerror_text(99999));
    ck_assert_int_eq(ETW_ERROR_INVALID_FLAGS, 1004);
    ck_assert_int_eq(ETW_ERROR_WMI_INSTANCE_NOT_FOUND, 4201);
}
END_TEST

START_TEST(winerror_of_errno)
{
    ck_assert_uint_eq(etw_winerror_from_errno(0), 0);
    ck_assert_uint_eq(etw_winerror_from_errno(-EACCES), 5);
    ck_assert_uint_eq(etw_winerror_from_errno(-ENOENT), 2);
    ck_assert_uint_eq(etw_winerror_from_errno(-ENOSPC), 112);
    ck_assert_uint_eq(etw_winerror_from_errno(-ECONNREFUSED), 4208);
    /* Every errno, known or not, has a code that the table names. */
    for (int e = 1; e < 200; e++) {
        ck_assert_uint_ne(etw_winerror_from_errno(-e), 0);
        ck_assert_ptr_nonnull(etw_winerror_text(etw_winerror_from_errno(-e)));
    }
}
END_TEST

START_TEST(conf_keys)
{
    struct etw_conf conf;
    const char *reason = NULL;

    etw_conf_init(&conf);
    ck_assert_uint_eq(conf.max_sessions, 64);
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessions=4096", &reason), 0);
    ck_assert_uint_eq(conf.max_sessions, 4096);
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessions=4097", &reason), -ERANGE);
    ck_assert_str_eq(reason, "MaxSessions must be between 1 and 4096");
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessions=0", NULL), -ERANGE);
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessions=99999999999999999999999", NULL), -ERANGE);
    ck_assert_int_eq(etw_conf_set(&conf, "RingSizeKB=8", NULL), 0);
    ck_assert_int_eq(etw_conf_set(&conf, "RingSizeKB=5", NULL), -ERANGE);
    ck_assert_uint_eq(conf.ring_size_kb, 8);
    ck_assert_int_eq(etw_conf_set(&conf, "FastClock=yes", &reason), 0);
    ck_assert_uint_eq(conf.fast_clock, 1);
    ck_assert_int_eq(etw_conf_set(&conf, "FastClock=off", &reason), 0);
    ck_assert_uint_eq(conf.fast_clock, 0);
    ck_assert_int_eq(etw_conf_set(&conf, "FastClock=maybe", NULL), -EINVAL);
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessions=yes", NULL), -EINVAL);
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessions", NULL), -EINVAL);
    {
        struct etw_conf other = conf;
        ck_assert_int_eq(etw_conf_set(&other, "MaxSessions=", NULL), 0); /* the default again */
        ck_assert_uint_eq(other.max_sessions, 64);
        ck_assert_int_eq(etw_conf_set(&other, "ExtraFileSystems= nfs4  fuse.sshfs ", NULL), 0);
        ck_assert_str_eq(other.extra_file_systems, "nfs4 fuse.sshfs");
        ck_assert_int_eq(etw_conf_set(&other, "ExtraFileSystems=a/b", NULL), -EINVAL);
        ck_assert_str_eq(other.extra_file_systems, "nfs4 fuse.sshfs");
    }
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessions= 5", NULL), -EINVAL);
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessions=+5", NULL), -EINVAL);
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessions=-5", NULL), -EINVAL);
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessions=0x5", NULL), -EINVAL);
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessions=5 ", NULL), -EINVAL);
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSession=5", NULL), -ENOENT);
    ck_assert_int_eq(etw_conf_set(&conf, "MaxSessionss=5", NULL), -ENOENT);
    ck_assert_int_eq(etw_conf_set(&conf, "maxsessions=5", NULL), -ENOENT);
    ck_assert_int_eq(etw_conf_set(&conf, "=5", NULL), -ENOENT);
    ck_assert_int_eq(etw_conf_set(&conf, "", NULL), -EINVAL);
    ck_assert_uint_eq(conf.max_sessions, 4096);
}
END_TEST

START_TEST(conf_defaults_are_within_limits)
{
    struct etw_conf conf;
    char assignment[128];

    etw_conf_init(&conf);
#define CONF(key, field, def, min, max, why)                                                       \
    (void) snprintf(assignment, sizeof(assignment), "%s=%lu", #key, (unsigned long) (def));        \
    ck_assert_int_eq(etw_conf_set(&conf, assignment, NULL), 0);                                    \
    ck_assert_uint_eq(conf.field, def);                                                            \
    ck_assert_uint_gt(strlen(why), 10);
    ETW_CONF_KEYS(CONF)
#undef CONF
}
END_TEST

START_TEST(siphash_vectors)
{
    /* From the authors' reference implementation: key 00..0f, input 00..(n-1). */
    static const uint64_t expected[] = {
        0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
        0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
        0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
        0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
    };
    uint8_t key[16], data[16];

    for (uint8_t i = 0; i < 16; i++)
        key[i] = data[i] = i;
    for (size_t n = 0; n < ARRAY_SIZE(expected); n++)
        ck_assert_uint_eq(etw_siphash24(data, n, key), expected[n]);
}
END_TEST

static void check_escape(const char *text, const char *expected)
{
    char out[256];

    ck_assert_uint_eq(etw_escape(text, SIZE_MAX, out, sizeof(out)), strlen(expected));
    ck_assert_str_eq(out, expected);
}

START_TEST(escaping)
{
    char out[16];

    check_escape("plain text \xc3\xa9 \xf0\x9f\x98\x80 \\",
                 "plain text \xc3\xa9 \xf0\x9f\x98\x80 \\");
    check_escape("a\nb\tc\x1b[31m\x7f", "a\\x0ab\\x09c\\x1b[31m\\x7f");
    check_escape("\xc2\x9b", "\\xc2\\x9b");          /* C1: CSI */
    check_escape("\xff\xc3", "\\xff\\xc3");          /* not UTF-8 */
    check_escape("\xe2\x80\xae", "\\xe2\\x80\\xae"); /* right-to-left override */
    check_escape("\xe2\x80\xa8", "\\xe2\\x80\\xa8"); /* line separator */
    ck_assert_uint_eq(etw_escape("a\0b", 3, out, sizeof(out)), 6);
    ck_assert_str_eq(out, "a\\x00b");
    /* Never half an escape. */
    for (size_t cap = 1; cap < sizeof(out); cap++) {
        memset(out, 'Z', sizeof(out));
        size_t n = etw_escape("\n\n\n\n", SIZE_MAX, out, cap);
        ck_assert_uint_lt(n, cap);
        ck_assert_uint_eq(n % 4, 0);
        ck_assert_int_eq(out[n], 0);
        ck_assert_int_eq(out[cap], 'Z');
    }
}
END_TEST

/* What etw_log() wrote to stderr while fn ran. */
static char *logged(void (*fn)(void))
{
    static char buf[16384];
    int fds[2], saved = dup(STDERR_FILENO);
    ssize_t n;

    ck_assert_int_eq(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_ge(dup2(fds[1], STDERR_FILENO), 0);
    fn();
    ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
    n = read(fds[0], buf, sizeof(buf) - 1);
    buf[n > 0 ? n : 0] = 0;
    close(fds[0]);
    close(fds[1]);
    close(saved);
    return buf;
}

static void log_some(void)
{
    errno = 77;
    log_error("session '%s': %d", "a\nb\x1b", 5);
    ck_assert_int_eq(errno, 77);
    log_notice("shown");
    log_info("not shown");
}

static void log_long(void)
{
    char text[8000];

    memset(text, '\n', sizeof(text));
    text[sizeof(text) - 1] = 0;
    log_error("%s", text);
}

START_TEST(log_lines)
{
    const char *s;

    unsetenv("JOURNAL_STREAM");
    etw_log_init("prog", ETW_LOG_NOTICE);
    ck_assert_str_eq(logged(log_some), "prog: session 'a\\x0ab\\x1b': 5\nprog: shown\n");
    /* One line, however long. */
    s = logged(log_long);
    ck_assert_uint_gt(strlen(s), 1000);
    ck_assert_ptr_eq(strchr(s, '\n'), s + strlen(s) - 1);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("base");
    TCase *t = tcase_create("guid");

    tcase_add_test(t, guid_text);
    tcase_add_test(t, guid_text_refused);
    tcase_add_test(t, guid_random);
    tcase_add_test(t, guid_of_name);
    suite_add_tcase(s, t);
    t = tcase_create("utf16");
    tcase_add_test(t, utf16_from_utf8);
    tcase_add_test(t, utf16_from_utf8_cut);
    tcase_add_test(t, utf8_from_utf16);
    tcase_add_test(t, utf16_duplicates);
    suite_add_tcase(s, t);
    t = tcase_create("clock");
    tcase_add_test(t, clock_qpc);
    tcase_add_test(t, clock_saturates);
    tcase_add_test(t, clock_line);
    tcase_add_test(t, clock_other_types);
    tcase_add_test(t, clock_raw_is_the_inverse);
    tcase_add_test(t, clock_now);
    suite_add_tcase(s, t);
    t = tcase_create("codes");
    tcase_add_test(t, whole_files);
    tcase_add_test(t, winerror_table);
    tcase_add_test(t, winerror_of_errno);
    suite_add_tcase(s, t);
    t = tcase_create("conf");
    tcase_add_test(t, conf_keys);
    tcase_add_test(t, conf_defaults_are_within_limits);
    suite_add_tcase(s, t);
    t = tcase_create("siphash");
    tcase_add_test(t, siphash_vectors);
    suite_add_tcase(s, t);
    t = tcase_create("log");
    tcase_add_test(t, escaping);
    tcase_add_test(t, log_lines);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
