/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers, the first buffer byte by byte, SIDs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/utf16.h"
#include "etl-sample.h"
#include "etl/build.h"
#include "etl/iterate.h"
#include "lib/test.h"

#define STAMP 0x1122334455667788ull

static uint8_t memory[65536];

static struct etl_writer writer(void)
{
    memset(memory, 0xEE, sizeof(memory));
    return (struct etl_writer){.data = memory, .cap = sizeof(memory)};
}

START_TEST(buffer_round_trip)
{
    struct etl_writer w = writer();
    struct etl_buffer_info info;
    struct etl_event e;
    struct etl_iter it;
    uint64_t n = 0;

    w.cap = 4096;
    w.size = ETL_BUFFER_HEADER_SIZE;
    etl_buffer_begin(memory, 4096, 1, 7, 42, ETL_BUFFER_GENERIC);
    ck_assert_int_eq(etl_buffer_parse(memory, 4096, &info), 0);
    ck_assert_uint_eq(info.end, ETL_BUFFER_HEADER_SIZE);
    while (sample_event(&w, ETL_ROW_Thread_CSwitch, 1, 100 + n) > 0 && w.size <= 4096 - 8) {
        sample_pad(&w);
        n++;
    }
    w.size = etl_padded(w.size);
    etl_buffer_close(memory, w.size, 999, ETL_BUFFER_FLUSH_MARKER);
    ck_assert_int_eq(etl_buffer_parse(memory, 4096, &info), 0);
    ck_assert_uint_eq(info.size, 4096);
    ck_assert_uint_eq(info.end, w.size);
    ck_assert_uint_eq(info.time_stamp, 999);
    ck_assert_int_eq(info.sequence_number, 42);
    ck_assert_uint_eq(info.processor, 1);
    ck_assert_uint_eq(info.logger_id, 7);
    ck_assert_uint_eq(info.flags, 0x21);
    ck_assert_uint_eq(info.type, ETL_BUFFER_GENERIC);
    for (uint32_t i = w.size; i < 4096; i++)
        ck_assert_uint_eq(memory[i], 0xFF);
    etl_iter_init(&it, memory, 4096, info.end);
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_int_eq(etl_iter_next(&it, &e), 1);
        ck_assert_uint_eq(e.time_stamp, 100 + i);
    }
    ck_assert_int_eq(etl_iter_next(&it, &e), 0);
    ck_assert_int_eq(it.error, 0);
    /* The filler also ends a buffer whose end is stated too far. */
    etl_iter_init(&it, memory, 4096, 4096);
    while (etl_iter_next(&it, &e) == 1)
        n--;
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(it.error, 0);
}
END_TEST

START_TEST(buffer_headers)
{
    struct etl_buffer_info info = {.size = 1};
    struct etl_buffer_header h = {.buffer_size = 4096, .offset = 100, .saved_offset = 80};

    for (size_t n = 0; n < sizeof(h); n++)
        ck_assert_int_eq(etl_buffer_parse(&h, n, &info), -ENODATA);
    ck_assert_uint_eq(info.size, 1);
    ck_assert_int_eq(etl_buffer_parse(&h, sizeof(h), &info), 0);
    ck_assert_uint_eq(info.end, 100);
    /* Offset 0: SavedOffset is what there is. */
    h.offset = 0;
    ck_assert_int_eq(etl_buffer_parse(&h, sizeof(h), &info), 0);
    ck_assert_uint_eq(info.end, 80);
    h.saved_offset = 71;
    ck_assert_int_eq(etl_buffer_parse(&h, sizeof(h), &info), -EBADMSG);
    h.offset = UINT32_MAX;
    ck_assert_int_eq(etl_buffer_parse(&h, sizeof(h), &info), 0);
    ck_assert_uint_eq(info.end, 4096);
    /* Compressed: the end is the uncompressed one. */
    h.flags = ETL_BUFFER_COMPRESSED;
    ck_assert_int_eq(etl_buffer_parse(&h, sizeof(h), &info), -EBADMSG);
    h.offset = 65536;
    ck_assert_int_eq(etl_buffer_parse(&h, sizeof(h), &info), 0);
    ck_assert_uint_eq(info.end, 65536);
    h.flags = 0;
    h.buffer_size = 71;
    ck_assert_int_eq(etl_buffer_parse(&h, sizeof(h), &info), -EBADMSG);
    h.buffer_size = (64u << 20) + 1;
    ck_assert_int_eq(etl_buffer_parse(&h, sizeof(h), &info), -EBADMSG);
    h.buffer_size = 72;
    ck_assert_int_eq(etl_buffer_parse(&h, sizeof(h), &info), 0);
    /* Two ways to say which processor. */
    h.processor_index = 0xFE05;
    ck_assert_int_eq(etl_buffer_parse(&h, sizeof(h), &info), 0);
    ck_assert_uint_eq(info.processor, 0x05);
    h.flags = ETL_BUFFER_PROC_INDEX;
    ck_assert_int_eq(etl_buffer_parse(&h, sizeof(h), &info), 0);
    ck_assert_uint_eq(info.processor, 0x605);
}
END_TEST

START_TEST(first_buffer_bytes)
{
    struct etl_logfile_params p = sample_params(4096, true);
    struct etl_logfile_totals totals = {0};
    uint32_t text = 14 + 40, end = 0x48 + 0x20 + 0x118 + text, padded = (end + 7) & ~7u;
    const uint8_t *m = memory;
    uint32_t u32;
    uint64_t u64;
    uint16_t u16;

    (void) writer();
    ck_assert_uint_eq(etl_logfile_buffer_need(&p), padded + 72);
    ck_assert_int_eq(etl_logfile_buffer_put(memory, &p, &totals), 0);
#define AT(type, at) (memcpy(&type, m + (at), sizeof(type)), type)
    ck_assert_uint_eq(AT(u32, 0x00), 4096);
    ck_assert_uint_eq(AT(u32, 0x04), padded + 72); /* SavedOffset */
    ck_assert_uint_eq(AT(u32, 0x08), padded + 72); /* CurrentOffset */
    ck_assert_uint_eq(AT(u32, 0x0C), 0);
    ck_assert_uint_eq(AT(u64, 0x10), 0);
    ck_assert_uint_eq(AT(u64, 0x18), 0);
    ck_assert_uint_eq(AT(u64, 0x20), 0);
    ck_assert_uint_eq(AT(u16, 0x28), 0);
    ck_assert_uint_eq(AT(u16, 0x2A), 3);
    ck_assert_uint_eq(AT(u32, 0x2C), 3);
    ck_assert_uint_eq(AT(u32, 0x30), padded + 72); /* Offset */
    ck_assert_uint_eq(AT(u16, 0x34), 0x21);
    ck_assert_uint_eq(AT(u16, 0x36), 4);
    ck_assert_uint_eq(AT(u64, 0x38), 0);
    ck_assert_uint_eq(AT(u64, 0x40), 0);
    ck_assert_uint_eq(AT(u32, 0x48), 0xC0020002);
    ck_assert_uint_eq(AT(u16, 0x4C), 0x20 + 0x118 + text);
    ck_assert_uint_eq(AT(u16, 0x4E), 0);
    ck_assert_uint_eq(AT(u32, 0x50), 11);
    ck_assert_uint_eq(AT(u32, 0x54), 12);
    ck_assert_uint_eq(AT(u64, 0x58), SAMPLE_T0);
    ck_assert_uint_eq(AT(u32, 0x68), 4096);
    ck_assert_mem_eq(m + 0x6C, "\x0a\0\x01\x05", 4);
    ck_assert_uint_eq(AT(u32, 0x70), 19041);
    ck_assert_uint_eq(AT(u32, 0x74), 2);
    ck_assert_uint_eq(AT(u64, 0x78), 0);
    ck_assert_uint_eq(AT(u32, 0x80), 156250);
    ck_assert_uint_eq(AT(u32, 0x84), 64);
    ck_assert_uint_eq(AT(u32, 0x88), 1);
    ck_assert_uint_eq(AT(u32, 0x8C), 0);
    ck_assert_uint_eq(AT(u32, 0x90), 1);
    ck_assert_uint_eq(AT(u32, 0x94), 8);
    ck_assert_uint_eq(AT(u32, 0x98), 0);
    ck_assert_uint_eq(AT(u32, 0x9C), 2100);
    ck_assert_uint_eq(AT(u64, 0xA0), 0);
    ck_assert_uint_eq(AT(u64, 0xA8), 0);
    ck_assert_int_eq((int32_t) AT(u32, 0xB0), -60);
    for (size_t i = 0xB4; i < 0x160; i++)
        ck_assert_uint_eq(m[i], 0);
    ck_assert_uint_eq(AT(u64, 0x160), SAMPLE_START_FILETIME - 100000);
    ck_assert_uint_eq(AT(u64, 0x168), 1000000000);
    ck_assert_uint_eq(AT(u64, 0x170), SAMPLE_START_FILETIME);
    ck_assert_uint_eq(AT(u32, 0x178), 1);
    ck_assert_uint_eq(AT(u32, 0x17C), 0);
    ck_assert_mem_eq(m + 0x180, u"sample", 14);
    ck_assert_mem_eq(m + 0x18E, u"/var/tmp/sample.etl", 40);
    for (size_t i = end; i < padded; i++)
        ck_assert_uint_eq(m[i], 0);
    ck_assert_uint_eq(AT(u32, padded), 0xC0020002);
    ck_assert_uint_eq(AT(u16, padded + 4), 68);
    ck_assert_uint_eq(AT(u16, padded + 6), 0x0005);
    for (size_t i = 0; i < 32; i++)
        ck_assert_uint_eq(m[padded + 0x20 + i], 0);
    ck_assert_uint_ne(AT(u32, padded + 0x40), 0);
    for (size_t i = padded + 72; i < 4096; i++)
        ck_assert_uint_eq(m[i], 0xFF);
    ck_assert_uint_eq(m[4096], 0xEE);

    /* What changes later, where readers look for it. */
    totals = (struct etl_logfile_totals){SAMPLE_START_FILETIME + 9, 17, 18, 19};
    etl_logfile_buffer_update(memory, &totals);
    ck_assert_uint_eq(AT(u64, 0x78), SAMPLE_START_FILETIME + 9);
    ck_assert_uint_eq(AT(u32, 0x8C), 17);
    ck_assert_uint_eq(AT(u32, 0x98), 18);
    ck_assert_uint_eq(AT(u32, 0x17C), 19);
    ck_assert_uint_eq(AT(u32, 0x94), 8);
#undef AT
}
END_TEST

START_TEST(first_buffer_comes_back)
{
    struct etl_logfile_params p = sample_params(8192, false);
    struct etl_logfile_totals totals = {SAMPLE_START_FILETIME + 5, 3, 1, 2};
    struct etw_timebase tb;
    struct etl_logfile lf;
    struct etl_event e;
    struct etl_iter it;
    char text[64];
    int32_t bias;

    ck_assert_int_eq(etl_logfile_buffer_put(memory, &p, &totals), 0);
    etl_iter_init(&it, memory, 8192, 8192);
    ck_assert_int_eq(etl_iter_next(&it, &e), 1);
    ck_assert_int_eq(etl_logfile_parse(&e, &lf), 0);
    ck_assert_uint_eq(lf.buffer_size, 8192);
    ck_assert_mem_eq(lf.version, "\x0a\0\x01\x05", 4);
    ck_assert_uint_eq(lf.provider_version, 19041);
    ck_assert_uint_eq(lf.processors, 2);
    ck_assert_uint_eq(lf.end_time, SAMPLE_START_FILETIME + 5);
    ck_assert_uint_eq(lf.timer_resolution, 156250);
    ck_assert_uint_eq(lf.maximum_file_size, 64);
    ck_assert_uint_eq(lf.log_file_mode, 1);
    ck_assert_uint_eq(lf.buffers_written, 3);
    ck_assert_uint_eq(lf.start_buffers, 1);
    ck_assert_uint_eq(lf.pointer_size, 8);
    ck_assert_uint_eq(lf.events_lost, 1);
    ck_assert_uint_eq(lf.cpu_mhz, 2100);
    ck_assert_uint_eq(lf.boot_time, SAMPLE_START_FILETIME - 100000);
    ck_assert_uint_eq(lf.perf_frequency, 1000000000);
    ck_assert_uint_eq(lf.start_time, SAMPLE_START_FILETIME);
    ck_assert_uint_eq(lf.clock_type, 1);
    ck_assert_uint_eq(lf.buffers_lost, 2);
    ck_assert_uint_eq(lf.start_raw, SAMPLE_T0);
    memcpy(&bias, lf.time_zone, 4);
    ck_assert_int_eq(bias, -60);
    etw_utf16_to_utf8(lf.logger_name, lf.logger_name_len, text, sizeof(text));
    ck_assert_str_eq(text, "sample");
    etw_utf16_to_utf8(lf.log_file_name, lf.log_file_name_len, text, sizeof(text));
    ck_assert_str_eq(text, "/var/tmp/sample.etl");
    ck_assert_int_eq(etl_iter_next(&it, &e), 0);
    etl_logfile_timebase(&lf, &tb);
    ck_assert_uint_eq(etw_timebase_filetime(&tb, SAMPLE_T0 + 1000), SAMPLE_START_FILETIME + 10);

    /* Cut anywhere in the fixed part it is no header; in the names it is. */
    for (uint32_t n = 0; n <= e.data_size; n++) {
        struct etl_event cut = e;
        etl_iter_init(&it, memory, 8192, 8192);
        ck_assert_int_eq(etl_iter_next(&it, &cut), 1);
        cut.data_size = n;
        ck_assert_int_eq(etl_logfile_parse(&cut, &lf), n < 0x118 ? -EBADMSG : 0);
        if (n >= 0x118) {
            ck_assert(lf.logger_name + 2 * lf.logger_name_len <= cut.data + n);
            ck_assert(lf.log_file_name + 2 * lf.log_file_name_len <= cut.data + n);
        }
    }
}
END_TEST

START_TEST(first_buffer_of_32_bits)
{
    /* Offsets of the 32-bit form, from its table. */
    uint8_t h[0x20 + 0x110 + 8] = {0, 0, ETL_SYSTEM32, 0xC0, (uint8_t) sizeof(h), sizeof(h) >> 8,
                                   0, 0};
    static const uint64_t stamp = 77, boot = 88, frequency = 99, start = 111;
    static const uint32_t size = 65536, processors = 4, pointer = 4, lost = 5, clock = 2,
                          buffers = 6;
    struct etl_logfile lf;
    struct etl_event e;

    memcpy(h + 0x10, &stamp, 8);
    memcpy(h + 0x20 + 0x00, &size, 4);
    memcpy(h + 0x20 + 0x0C, &processors, 4);
    memcpy(h + 0x20 + 0x2C, &pointer, 4);
    memcpy(h + 0x20 + 0x30, &lost, 4);
    memset(h + 0x20 + 0x40, 0x5A, 172);
    memcpy(h + 0x20 + 0xF0, &boot, 8);
    memcpy(h + 0x20 + 0xF8, &frequency, 8);
    memcpy(h + 0x20 + 0x100, &start, 8);
    memcpy(h + 0x20 + 0x108, &clock, 4);
    memcpy(h + 0x20 + 0x10C, &buffers, 4);
    memcpy(h + 0x20 + 0x110, u"a\0b", 8);
    ck_assert_int_eq(etl_event_parse(h, sizeof(h), &e), 0);
    ck_assert_int_eq(etl_logfile_parse(&e, &lf), 0);
    ck_assert_uint_eq(lf.buffer_size, 65536);
    ck_assert_uint_eq(lf.processors, 4);
    ck_assert_uint_eq(lf.pointer_size, 4);
    ck_assert_uint_eq(lf.events_lost, 5);
    ck_assert_uint_eq(lf.time_zone[0], 0x5A);
    ck_assert_uint_eq(lf.time_zone[171], 0x5A);
    ck_assert_uint_eq(lf.boot_time, 88);
    ck_assert_uint_eq(lf.perf_frequency, 99);
    ck_assert_uint_eq(lf.start_time, 111);
    ck_assert_uint_eq(lf.clock_type, 2);
    ck_assert_uint_eq(lf.buffers_lost, 6);
    ck_assert_uint_eq(lf.start_raw, 77);
    ck_assert_uint_eq(lf.logger_name_len, 1);
    ck_assert_uint_eq(lf.log_file_name_len, 1);
    ck_assert_mem_eq(lf.log_file_name, u"b", 2);
    /* Only a system header with hook 0 is one. */
    h[6] = 1;
    ck_assert_int_eq(etl_event_parse(h, sizeof(h), &e), 0);
    ck_assert_int_eq(etl_logfile_parse(&e, &lf), -EBADMSG);
    h[6] = 0;
    h[2] = ETL_COMPACT32;
    ck_assert_int_eq(etl_event_parse(h, sizeof(h), &e), 0);
    ck_assert_int_eq(etl_logfile_parse(&e, &lf), -EBADMSG);
}
END_TEST

START_TEST(first_buffer_sizes)
{
    struct etl_logfile_params p = sample_params(0, true);
    struct etl_logfile_totals totals = {0};
    static uint16_t name[ETW_NAME_MAX + 100];
    uint32_t need;

    p.buffer_size = etl_logfile_buffer_need(&p);
    ck_assert_int_eq(etl_logfile_buffer_put(memory, &p, &totals), 0);
    p.buffer_size--;
    ck_assert_int_eq(etl_logfile_buffer_put(memory, &p, &totals), -ENOSPC);
    /* The longest names fit; longer ones are cut there, and the buffer is right. */
    for (size_t i = 0; i + 1 < ARRAY_SIZE(name); i++)
        name[i] = 'n';
    p.logger_name = name;
    need = etl_logfile_buffer_need(&p);
    p.buffer_size = need;
    ck_assert_int_eq(etl_logfile_buffer_put(memory, &p, &totals), 0);
    /* Buffers above 1 MiB are of format 2.0. */
    _cleanup_free_ uint8_t *big = malloc(2u << 20);
    p = sample_params(2u << 20, false);
    ck_assert_int_eq(etl_logfile_buffer_put(big, &p, &totals), 0);
    ck_assert_mem_eq(big + 0x6C, "\x0a\0\x02\0", 4);
}
END_TEST

START_TEST(sids)
{
    static const uint8_t system[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    uint8_t sid[ETL_SID_MAX], long_sid[8 + 60];
    char text[ETL_SID_STRING_MAX];

    ck_assert_uint_eq(etl_sid_from_uid(0, sid), 12);
    ck_assert_mem_eq(sid, system, 12);
    ck_assert_str_eq(etl_sid_format(sid, 12, text), "S-1-5-18");
    ck_assert_uint_eq(etl_sid_from_uid(1000, sid), 16);
    ck_assert_str_eq(etl_sid_format(sid, 16, text), "S-1-22-1-1000");
    ck_assert_uint_eq(etl_sid_from_uid(UINT32_MAX, sid), 16);
    ck_assert_str_eq(etl_sid_format(sid, 16, text), "S-1-22-1-4294967295");
    for (size_t n = 0; n < 16; n++)
        ck_assert_uint_eq(etl_sid_size(sid, n), 0);
    ck_assert_uint_eq(etl_sid_size(sid, 100), 16);
    ck_assert_str_eq(etl_sid_format(sid, 15, text), "");
    sid[0] = 2;
    ck_assert_uint_eq(etl_sid_size(sid, 16), 0);
    /* The longest text. */
    memset(long_sid, 0xFF, sizeof(long_sid));
    long_sid[0] = 1;
    long_sid[1] = 15;
    ck_assert_uint_eq(etl_sid_size(long_sid, sizeof(long_sid)), sizeof(long_sid));
    etl_sid_format(long_sid, sizeof(long_sid), text);
    ck_assert_uint_lt(strlen(text), ETL_SID_STRING_MAX - 1);
    ck_assert_uint_gt(strlen(text), 15 * 11);
    long_sid[1] = 16;
    ck_assert_uint_eq(etl_sid_size(long_sid, 200), 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("buffers");
    TCase *t = tcase_create("buffers");

    tcase_add_test(t, buffer_round_trip);
    tcase_add_test(t, buffer_headers);
    tcase_add_test(t, first_buffer_bytes);
    tcase_add_test(t, first_buffer_comes_back);
    tcase_add_test(t, first_buffer_of_32_bits);
    tcase_add_test(t, first_buffer_sizes);
    tcase_add_test(t, sids);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
