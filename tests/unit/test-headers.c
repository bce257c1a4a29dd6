/* SPDX-License-Identifier: Apache-2.0
 *
 * Event headers of every kind, items and messages: those that we write and those that we only read.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
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

START_TEST(system_headers)
{
    static const struct {
        uint8_t type, pointer_size;
        bool has_thread, has_cpu_time;
    } kinds[] = {
        {ETL_SYSTEM32, 4, true, true},     {ETL_SYSTEM64, 8, true, true},
        {ETL_COMPACT32, 4, true, false},   {ETL_COMPACT64, 8, true, false},
        {ETL_PERFINFO32, 4, false, false}, {ETL_PERFINFO64, 8, false, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct etl_writer w = writer();
        struct etl_event e;

        sample_system(&w, kinds[i].type, 2, 0x0F2E, STAMP, 12);
        ck_assert_int_eq(etl_event_parse(memory, w.size, &e), 0);
        ck_assert_uint_eq(e.size, w.size);
        ck_assert_uint_eq(e.header_type, kinds[i].type);
        ck_assert_uint_eq(e.pointer_size, kinds[i].pointer_size);
        ck_assert_uint_eq(e.group, 0x0F);
        ck_assert_uint_eq(e.opcode, 0x2E);
        ck_assert_uint_eq(e.version, 2);
        ck_assert_uint_eq(e.time_stamp, STAMP);
        ck_assert_uint_eq(e.thread_id, kinds[i].has_thread ? 0x1111 : UINT32_MAX);
        ck_assert_uint_eq(e.process_id, kinds[i].has_thread ? 0x2222 : UINT32_MAX);
        ck_assert_uint_eq(e.kernel_time, kinds[i].has_cpu_time ? 3 : 0);
        ck_assert_uint_eq(e.user_time, kinds[i].has_cpu_time ? 4 : 0);
        ck_assert_uint_eq(e.data_size, 12);
        ck_assert_ptr_eq(e.data + 12, memory + w.size);
        ck_assert(etl_header_is_system(e.header_type));
        ck_assert(e.has_guid);
        ck_assert_str_eq(etl_class_name(&e.guid), "PerfInfo");

        /* Index and counters behind the header: 0x8000 and bits 8 to 10. */
        for (uint16_t counters = 0; counters < 8; counters++) {
            w = writer();
            sample_system(&w, kinds[i].type, (uint16_t) (0x8002 | counters << 8), 0x0F2E, STAMP,
                          8 + 8u * counters + 5);
            ck_assert_int_eq(etl_event_parse(memory, w.size, &e), 0);
            ck_assert_uint_eq(e.version, 2);
            ck_assert_uint_eq(e.data_size, 5);
        }
        /* They must be there. */
        w = writer();
        sample_system(&w, kinds[i].type, 0x8102, 0x0F2E, STAMP, 15);
        ck_assert_int_eq(etl_event_parse(memory, w.size, &e), -EBADMSG);
        /* Groups without a class. */
        w = writer();
        sample_system(&w, kinds[i].type, 2, 0x7701, STAMP, 0);
        ck_assert_int_eq(etl_event_parse(memory, w.size, &e), 0);
        ck_assert(!e.has_guid);
        ck_assert(etw_guid_is_null(&e.guid));
    }
}
END_TEST

START_TEST(image_load_is_the_image_class)
{
    struct etl_writer w = writer();
    struct etl_event e;

    sample_system(&w, ETL_PERFINFO64, 3, 0x030A, STAMP, 60);
    ck_assert_int_eq(etl_event_parse(memory, w.size, &e), 0);
    ck_assert_str_eq(etl_class_name(&e.guid), "Image");
    ck_assert_uint_eq(e.opcode, 10);
    ck_assert_uint_eq(etl_event_hook(&e), 0x030A);
}
END_TEST

START_TEST(full_headers)
{
    static const uint8_t kinds[] = {ETL_FULL32, ETL_FULL64, ETL_INSTANCE32, ETL_INSTANCE64};

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        bool instance = i >= 2;
        struct etl_writer w = writer();
        struct etl_event e;

        sample_full(&w, kinds[i], STAMP, 3);
        ck_assert_int_eq(etl_event_parse(memory, w.size, &e), 0);
        ck_assert_uint_eq(e.pointer_size, i % 2 ? 8 : 4);
        ck_assert_uint_eq(e.opcode, 5);
        ck_assert_uint_eq(e.level, 4);
        ck_assert_uint_eq(e.version, 3);
        ck_assert_uint_eq(e.thread_id, 0x1111);
        ck_assert_uint_eq(e.process_id, 0x2222);
        ck_assert_uint_eq(e.time_stamp, STAMP);
        ck_assert_uint_eq(e.guid.data1, 0xABCD);
        ck_assert_uint_eq(e.kernel_time, 3);
        ck_assert_uint_eq(e.user_time, 4);
        ck_assert_uint_eq(e.instance.instance_id, instance ? 7 : 0);
        ck_assert_uint_eq(e.instance.parent_instance_id, instance ? 8 : 0);
        ck_assert_uint_eq(e.instance.parent_guid.data1, instance ? 0xEF01 : 0);
        ck_assert_uint_eq(e.data_size, 3);
        ck_assert(!etl_header_is_system(e.header_type));
    }
}
END_TEST

START_TEST(modern_headers)
{
    for (uint32_t items = 0; items < 4; items++) {
        uint8_t type = items % 2 ? ETL_EVENT32 : ETL_EVENT64;
        struct etl_writer w = writer();
        struct etl_event e;
        struct etl_item item;
        uint32_t pos = 0;

        sample_modern(&w, type, STAMP, items, 6);
        ck_assert_int_eq(etl_event_parse(memory, w.size, &e), 0);
        ck_assert_uint_eq(e.pointer_size, items % 2 ? 4 : 8);
        ck_assert_uint_eq(e.flags, items > 0);
        ck_assert_uint_eq(e.event_property, 8);
        ck_assert_uint_eq(e.descriptor.id, 300);
        ck_assert_uint_eq(e.descriptor.version, 2);
        ck_assert_uint_eq(e.descriptor.channel, 9);
        ck_assert_uint_eq(e.descriptor.task, 77);
        ck_assert_uint_eq(e.descriptor.keyword, 0x8000000000000001);
        ck_assert_uint_eq(e.level, 3);
        ck_assert_uint_eq(e.opcode, 12);
        ck_assert_uint_eq(e.version, 2);
        ck_assert_uint_eq(e.activity_id.data1, 0x55);
        ck_assert_uint_eq(e.guid.data1, 0xABCD);
        ck_assert_uint_eq(e.data_size, 6);
        for (uint32_t i = 0; i < items; i++) {
            ck_assert_int_eq(etl_item_next(&e, &pos, &item), 1);
            ck_assert_uint_eq(item.type, i == 0 ? 1 : 6);
            ck_assert_uint_eq(item.size, i == 0 ? 16 : 24);
        }
        ck_assert_int_eq(etl_item_next(&e, &pos, &item), 0);
    }
}
END_TEST

START_TEST(broken_items)
{
    /* Each way in which the second of two items can be wrong. */
    static const struct etl_item_header bad[] = {
        {0, 6, 0, 24},     /* no size: would loop */
        {4, 6, 0, 0},      /* smaller than its header */
        {36, 6, 0, 24},    /* not a multiple of 8 */
        {32, 6, 0, 25},    /* more data than size */
        {0xFFF8, 6, 0, 8}, /* past the end of the event */
        {32, 6, 1, 24},    /* another one follows, but the event's end is no item */
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct etl_writer w = writer();
        struct etl_event e;
        struct etl_item item;
        uint32_t pos = 0;
        int r, n = 0;

        sample_modern(&w, ETL_EVENT64, STAMP, 2, 4);
        memcpy(memory + 80 + 24, &bad[i], sizeof(bad[i]));
        /* The event itself is good and is delivered, without data. */
        ck_assert_int_eq(etl_event_parse(memory, w.size, &e), 0);
        ck_assert_uint_eq(e.size, w.size);
        ck_assert_uint_eq(e.data_size, 0);
        while ((r = etl_item_next(&e, &pos, &item)) == 1)
            n++;
        ck_assert_int_eq(r, -EBADMSG);
        ck_assert_int_eq(n, i == 5 ? 2 : 1);
    }
}
END_TEST

START_TEST(messages)
{
    for (uint16_t flags = 0; flags < 256; flags++) {
        struct etl_writer w = writer();
        struct etl_event e;

        sample_message(&w, flags, STAMP, 5);
        ck_assert_int_eq(etl_event_parse(memory, w.size, &e), 0);
        ck_assert_uint_eq(e.header_type, ETL_MESSAGE);
        ck_assert_uint_eq(e.message_number, 43);
        ck_assert_uint_eq(e.message_flags, flags);
        ck_assert_uint_eq(e.message_sequence, flags & 0x01 ? 99 : 0);
        ck_assert_int_eq(e.has_guid, (flags & 0x02) != 0);
        ck_assert_uint_eq(e.guid.data1, flags & 0x02 ? 0xABCD : 0);
        ck_assert_uint_eq(e.component_id, (flags & 0x06) == 0x04 ? 88 : 0);
        ck_assert_int_eq(e.has_time, (flags & 0x08) != 0);
        ck_assert_uint_eq(e.time_stamp, flags & 0x08 ? STAMP : 0);
        ck_assert_uint_eq(e.thread_id, flags & 0x20 ? 0x1111 : UINT32_MAX);
        ck_assert_uint_eq(e.process_id, flags & 0x20 ? 0x2222 : UINT32_MAX);
        ck_assert_uint_eq(e.pointer_size, flags & 0x80 ? 8 : flags & 0x40 ? 4 : 0);
        ck_assert_uint_eq(e.data_size, 5);
        /* The parts that the flags promise must be there. */
        for (uint16_t size = 0; size < e.size - 5; size++) {
            struct etl_event cut;
            memcpy(memory, &size, 2);
            ck_assert_int_eq(etl_event_parse(memory, w.size, &cut), -EBADMSG);
        }
    }
}
END_TEST

START_TEST(stepped_over)
{
    static const uint8_t ulong32_time[24] = {24, 0, 0x00, 0xB0};
    static const uint8_t unknown[16] = {16, 0, 0x05, 0xC0};
    static const uint8_t timed[16] = {16, 0, ETL_TIMED, 0xC0};
    uint8_t wnode[48] = {48}, error[24] = {21, 0, ETL_ERROR, 0xC0};
    struct etl_writer w = writer();
    struct etl_event e;
    struct etl_iter it;

    wnode[46] = 0x02; /* WNODE_FLAG_TRACED_GUID */
    w.size = ETL_BUFFER_HEADER_SIZE;
    etl_put(&w, ulong32_time, sizeof(ulong32_time));
    etl_put(&w, unknown, sizeof(unknown));
    etl_put(&w, timed, sizeof(timed));
    etl_put(&w, wnode, sizeof(wnode));
    etl_put(&w, error, sizeof(error));
    sample_system(&w, ETL_PERFINFO64, 2, 0x0F2E, STAMP, 0);
    etl_iter_init(&it, memory, w.size, w.size);
    ck_assert_int_eq(etl_iter_next(&it, &e), 1);
    ck_assert_uint_eq(e.header_type, ETL_ERROR);
    ck_assert(!e.has_time && !e.has_guid);
    ck_assert_uint_eq(e.size, 21);
    ck_assert_uint_eq(e.data_size, 17);
    ck_assert_int_eq(etl_iter_next(&it, &e), 1);
    ck_assert_uint_eq(e.header_type, ETL_PERFINFO64);
    ck_assert_int_eq(etl_iter_next(&it, &e), 0);
    ck_assert_int_eq(it.error, 0);
    /* None of them is an event by itself. */
    ck_assert_int_eq(etl_event_parse(ulong32_time, sizeof(ulong32_time), &e), -EBADMSG);
    ck_assert_int_eq(etl_event_parse(unknown, sizeof(unknown), &e), -EBADMSG);
    /* A WNODE without its flag is garbage. */
    wnode[46] = 0;
    memcpy(memory + ETL_BUFFER_HEADER_SIZE, wnode, sizeof(wnode));
    etl_iter_init(&it, memory, ETL_BUFFER_HEADER_SIZE + 48, ETL_BUFFER_HEADER_SIZE + 48);
    ck_assert_int_eq(etl_iter_next(&it, &e), 0);
    ck_assert_int_eq(it.error, -EBADMSG);
    ck_assert_uint_eq(it.pos, ETL_BUFFER_HEADER_SIZE);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("headers");
    TCase *t = tcase_create("headers");

    tcase_add_test(t, system_headers);
    tcase_add_test(t, image_load_is_the_image_class);
    tcase_add_test(t, full_headers);
    tcase_add_test(t, modern_headers);
    tcase_add_test(t, broken_items);
    tcase_add_test(t, messages);
    tcase_add_test(t, stepped_over);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
