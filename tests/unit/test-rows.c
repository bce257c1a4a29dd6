/* SPDX-License-Identifier: Apache-2.0
 *
 * What build.c writes of each row of classes.def, iterate.c and fields.c read back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
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

/* Checks one field of a sample against what sample_data() put. */
static void check_value(const struct etl_value *v, uint32_t seed, uint32_t k)
{
    uint8_t sid[ETL_SID_MAX], bytes[1024];
    char text[16], utf8[64];
    uint32_t size = sample_fixed_size(v->field->type) * (v->field->count ? v->field->count : 1u);

    switch (v->field->type) {
    case ETL_T_sid:
        ck_assert_uint_eq(v->size, etl_sid_from_uid(seed, sid));
        ck_assert_mem_eq(v->data, sid, v->size);
        break;
    case ETL_T_asz:
    case ETL_T_bin:
        ck_assert_uint_eq(v->size, sample_text(seed + k, text));
        ck_assert_mem_eq(v->data, text, v->size);
        break;
    case ETL_T_wsz:
        ck_assert_uint_eq(v->size, 2 * sample_text(seed + k, text));
        etw_utf16_to_utf8(v->data, v->size / 2, utf8, sizeof(utf8));
        ck_assert_str_eq(utf8, text);
        break;
    default:
        ck_assert_uint_eq(v->size, size);
        ck_assert_uint_le(size, sizeof(bytes));
        for (uint32_t i = 0; i < size; i++)
            bytes[i] = sample_byte(seed + k, i);
        ck_assert_mem_eq(v->data, bytes, size);
        ck_assert_int_eq(v->is_integer, !v->field->count && v->field->type != ETL_T_guid);
        if (v->is_integer) {
            uint64_t integer = 0;
            memcpy(&integer, bytes, size);
            ck_assert_uint_eq(v->integer, integer);
        }
    }
}

START_TEST(every_row_comes_back)
{
    const struct etl_class_row *row = &etl_rows[_i];

    for (uint32_t seed = 1; seed < 40; seed++) {
        struct etl_writer w = writer();
        struct etl_fields f;
        struct etl_event e;
        struct etl_value v;
        uint32_t k = 0;
        int size = sample_event(&w, (enum etl_row) _i, seed, STAMP);

        ck_assert_int_gt(size, 0);
        ck_assert_uint_eq(w.size, (uint32_t) size);
        ck_assert_uint_eq(memory[size], 0xEE);
        ck_assert_int_eq(etl_event_parse(memory, (size_t) size, &e), 0);
        ck_assert_uint_eq(e.size, (uint32_t) size);
        ck_assert_uint_eq(e.header_type, row->header);
        ck_assert_uint_eq(e.pointer_size, 8);
        ck_assert_uint_eq(e.opcode, row->opcode);
        ck_assert_uint_eq(e.version, row->version);
        ck_assert_uint_eq(e.level, row->level);
        ck_assert(e.has_time && e.has_guid);
        ck_assert_uint_eq(e.time_stamp, STAMP);
        ck_assert(etw_guid_equal(&e.guid, &row->guid));
        if (row->header == ETL_PERFINFO64) {
            ck_assert_uint_eq(e.thread_id, UINT32_MAX);
            ck_assert_uint_eq(e.process_id, UINT32_MAX);
        } else {
            ck_assert_uint_eq(e.thread_id, seed + 1);
            ck_assert_uint_eq(e.process_id, seed + 2);
        }
        if (etl_header_is_system(row->header))
            ck_assert_uint_eq(etl_event_hook(&e), row->group << 8 | row->opcode);
        if (row->header == ETL_EVENT64) {
            ck_assert_uint_eq(e.descriptor.channel, 11);
            ck_assert_uint_eq(e.descriptor.keyword, row->keyword);
        } else {
            ck_assert_ptr_eq(etl_find_row(&e.guid, e.opcode, e.version), row);
            ck_assert_uint_eq(e.data_size, (uint32_t) size - etl_header_size((enum etl_row) _i));
        }
        etl_fields_init(&f, row, &e);
        while (etl_fields_next(&f, &v) == 1) {
            ck_assert_ptr_eq(v.field, &row->fields[k]);
            check_value(&v, seed, k++);
        }
        ck_assert_ptr_null(row->fields[k].name);
        ck_assert_uint_eq(f.pos, e.data_size);
        /* The stamp can be set later. */
        etl_event_set_stamp(memory, 5);
        ck_assert_int_eq(etl_event_parse(memory, (size_t) size, &e), 0);
        ck_assert_uint_eq(e.time_stamp, 5);
    }
}
END_TEST

START_TEST(cut_data_end_in_an_error_or_at_a_border)
{
    const struct etl_class_row *row = &etl_rows[_i];
    struct etl_writer w = writer();
    struct etl_event whole;
    int size = sample_event(&w, (enum etl_row) _i, 5, STAMP);

    ck_assert_int_eq(etl_event_parse(memory, (size_t) size, &whole), 0);
    for (uint32_t n = 0; n < whole.data_size; n++) {
        _cleanup_free_ uint8_t *copy = malloc(n ? n : 1); /* the sanitizer sees its end */
        struct etl_event e = whole;
        struct etl_fields f;
        struct etl_value v;
        uint32_t k = 0;
        int r;

        if (n > 0)
            memcpy(copy, whole.data, n);
        e.data = copy;
        e.data_size = n;
        etl_fields_init(&f, row, &e);
        while ((r = etl_fields_next(&f, &v)) == 1) {
            ck_assert(v.data >= copy);
            ck_assert(v.data + v.size <= copy + n);
            k++;
        }
        ck_assert(r == 0 || r == -EBADMSG);
        /* It never claims to be whole, but for a text that ends with the data. */
        if (r == 0 && !row->fields[k].name)
            ck_assert(row->fields[k - 1].type == ETL_T_asz || row->fields[k - 1].type == ETL_T_wsz);
        ck_assert_int_le(etl_fields_next(&f, &v), 0);
    }
}
END_TEST

START_TEST(tracelogging_items)
{
    /* Traits and metadata of ImageBuildId as etl(5) has them. */
    static const char traits[] = "\x0f\0Linux-Kernel";
    static const char metadata[] = "\x40\0\0ImageBuildId\0ProcessId\0\x08ImageBase\0\x15"
                                   "BuildId\0\x0e"
                                   "FileName\0\x82\x23";
    struct etl_writer w = writer();
    struct etl_event e;
    struct etl_item item;
    uint32_t pos = 0;
    int size = sample_event(&w, ETL_ROW_LinuxKernel_ImageBuildId, 3, STAMP);

    ck_assert_int_eq(etl_event_parse(memory, (size_t) size, &e), 0);
    ck_assert_uint_eq(e.flags, 1);
    ck_assert_int_eq(etl_item_next(&e, &pos, &item), 1);
    ck_assert_uint_eq(item.type, ETL_ITEM_PROV_TRAITS);
    ck_assert_uint_eq(item.size, sizeof(traits));
    ck_assert_mem_eq(item.data, traits, sizeof(traits));
    ck_assert_uint_eq(pos % 8, 0);
    ck_assert_int_eq(etl_item_next(&e, &pos, &item), 1);
    ck_assert_uint_eq(item.type, ETL_ITEM_EVENT_SCHEMA_TL);
    ck_assert_uint_eq(item.size, sizeof(metadata) - 1);
    ck_assert_mem_eq(item.data + 2, metadata + 2, item.size - 2u);
    ck_assert_uint_eq(item.data[0] | item.data[1] << 8, item.size);
    ck_assert_int_eq(etl_item_next(&e, &pos, &item), 0);
    ck_assert_ptr_eq(e.data, memory + 80 + e.items_size);
}
END_TEST

START_TEST(writer_overflow)
{
    /* Every capacity too small: nothing is written behind it, and the writer is as before. */
    for (int row = 0; row < ETL_ROW_COUNT; row++) {
        struct etl_writer w = writer();
        int size = sample_event(&w, (enum etl_row) row, 7, STAMP);

        for (uint32_t cap = 0; cap < (uint32_t) size; cap++) {
            _cleanup_free_ uint8_t *exact = malloc(cap ? cap : 1);
            struct etl_writer small = {.data = exact, .cap = cap};
            ck_assert_int_eq(sample_event(&small, (enum etl_row) row, 7, STAMP), -ENOSPC);
            ck_assert_uint_eq(small.size, 0);
            ck_assert(!small.overflow);
        }
        w = writer();
        w.cap = (uint32_t) size;
        ck_assert_int_eq(sample_event(&w, (enum etl_row) row, 7, STAMP), size);
    }
}
END_TEST

START_TEST(event_size_limit)
{
    static uint8_t big[70000];
    static char text[70000];
    struct etl_writer w = {.data = big, .cap = sizeof(big)};

    memset(text, 'x', sizeof(text) - 1);
    etl_event_begin(&w, ETL_ROW_EventTrace_BuildInfo);
    etl_put_asz(&w, text, 65535 - 16 - 1);
    ck_assert_int_eq(etl_event_end(&w, ETL_ROW_EventTrace_BuildInfo, 0, 1, 1, 1), 65535);
    w.size = 0;
    etl_event_begin(&w, ETL_ROW_EventTrace_BuildInfo);
    etl_put_asz(&w, text, 65535 - 16);
    ck_assert_int_eq(etl_event_end(&w, ETL_ROW_EventTrace_BuildInfo, 0, 1, 1, 1), -ENOSPC);
    ck_assert_uint_eq(w.size, 0);
    ck_assert_uint_eq(etl_header_put(big, ETL_ROW_Thread_CSwitch, UINT32_MAX, 0, 0, 0), 0);
    ck_assert_uint_eq(etl_header_put(big, ETL_ROW_Thread_CSwitch, 24, 0, 0, 0), 16);
}
END_TEST

START_TEST(texts)
{
    static const uint8_t null_sid[4];
    struct etl_writer w = writer();

    etl_put_wsz(&w, "abcdef", SIZE_MAX, 4);
    ck_assert_uint_eq(w.size, 10);
    ck_assert_mem_eq(memory, u"abc\u2026", 10);
    w.size = 1; /* unaligned */
    etl_put_wsz(&w, "a\xf0\x9f\x98\x80z", SIZE_MAX, 2);
    ck_assert_uint_eq(w.size, 1 + 6);
    ck_assert_mem_eq(memory + 1, u"a\u2026", 6);
    w.size = 0;
    /* A pair that makes way leaves a unit: it is given back. */
    etl_put_wsz(&w, "\xf0\x9f\x98\x80\xf0\x9f\x98\x80", SIZE_MAX, 2);
    ck_assert_uint_eq(w.size, 4);
    ck_assert_mem_eq(memory, u"\u2026", 4);
    w.size = 0;
    etl_put_wsz(&w, NULL, SIZE_MAX, 10);
    etl_put_asz(&w, NULL, SIZE_MAX);
    etl_put_asz(&w, "ab", 1);
    etl_put_asz(&w, "a\0b", 3);
    ck_assert_uint_eq(w.size, 2 + 1 + 2 + 2);
    ck_assert_mem_eq(memory, "\0\0\0a\0a\0", 7);
    w.size = 0;
    etl_put_user_sid(&w, NULL, 0);
    ck_assert_uint_eq(w.size, 4);
    ck_assert_mem_eq(memory, null_sid, 4);
    ck_assert(!w.overflow);
}
END_TEST

START_TEST(null_sid_is_read)
{
    struct etl_writer w = writer();
    struct etl_Process_TypeGroup1 fixed = {.ProcessId = 9};
    struct etl_fields f;
    struct etl_event e;
    struct etl_value v;
    bool seen = false;
    int size;

    etl_event_begin(&w, ETL_ROW_Process_Start);
    etl_put(&w, &fixed, sizeof(fixed));
    etl_put_user_sid(&w, NULL, 0);
    etl_put_asz(&w, "name", SIZE_MAX);
    etl_put_wsz(&w, "line", SIZE_MAX, 10);
    etl_put_wsz(&w, "", SIZE_MAX, 10);
    etl_put_wsz(&w, "", SIZE_MAX, 10);
    size = etl_event_end(&w, ETL_ROW_Process_Start, 0, 1, 2, 3);
    ck_assert_int_eq(etl_event_parse(memory, (size_t) size, &e), 0);
    etl_fields_init(&f, &etl_rows[ETL_ROW_Process_Start], &e);
    while (etl_fields_next(&f, &v) == 1) {
        if (v.field->type == ETL_T_sid)
            ck_assert_uint_eq(v.size, 0);
        if (strcmp(v.field->name, "ImageFileName") == 0) {
            ck_assert_mem_eq(v.data, "name", 4);
            seen = true;
        }
    }
    ck_assert(seen);
}
END_TEST

START_TEST(signed_fields)
{
    struct etl_Thread_CSwitch c = {.NewThreadId = UINT32_MAX, .NewThreadPriority = -3};
    struct etl_writer w = writer();
    struct etl_fields f;
    struct etl_event e;
    struct etl_value v;
    int size;

    etl_event_begin(&w, ETL_ROW_Thread_CSwitch);
    etl_put(&w, &c, sizeof(c));
    size = etl_event_end(&w, ETL_ROW_Thread_CSwitch, 0, 1, 2, 3);
    ck_assert_int_eq(etl_event_parse(memory, (size_t) size, &e), 0);
    etl_fields_init(&f, &etl_rows[ETL_ROW_Thread_CSwitch], &e);
    ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert(!v.is_signed);
    ck_assert_uint_eq(v.integer, UINT32_MAX);
    ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert(v.is_signed);
    ck_assert_int_eq((int64_t) v.integer, -3);
}
END_TEST

START_TEST(fields_of_32_bits)
{
    /* Image load of a 32-bit kernel: the pointers are 4 bytes. */
    const struct etl_class_row *row = &etl_rows[ETL_ROW_Image_Load];
    struct etl_writer w = writer();
    struct etl_fields f;
    struct etl_event e;
    struct etl_value v;
    uint32_t sizes[16], n = 0;

    sample_system(&w, ETL_SYSTEM32, 3, 0x030A, STAMP, 44);
    etl_put(&w, u"a.dll", 12);
    memory[4] = (uint8_t) w.size;
    ck_assert_int_eq(etl_event_parse(memory, w.size, &e), 0);
    ck_assert_uint_eq(e.pointer_size, 4);
    etl_fields_init(&f, row, &e);
    while (etl_fields_next(&f, &v) == 1)
        sizes[n++] = v.size;
    ck_assert_uint_eq(n, 14);
    ck_assert_uint_eq(sizes[0], 4);
    ck_assert_uint_eq(sizes[8], 4);
    ck_assert_uint_eq(sizes[13], 10);
    ck_assert_uint_eq(f.pos, e.data_size);
}
END_TEST

START_TEST(thread_name_may_be_missing)
{
    const struct etl_class_row *row = &etl_rows[ETL_ROW_Thread_Start];
    struct etl_Thread_TypeGroup1 t = {.ThreadId = 4};
    struct etl_writer w = writer();
    struct etl_fields f;
    struct etl_event e;
    struct etl_value v;
    int size, n = 0;

    etl_event_begin(&w, ETL_ROW_Thread_Start);
    etl_put(&w, &t, sizeof(t));
    size = etl_event_end(&w, ETL_ROW_Thread_Start, 0, 1, 2, 3);
    ck_assert_int_eq(etl_event_parse(memory, (size_t) size, &e), 0);
    etl_fields_init(&f, row, &e);
    while (etl_fields_next(&f, &v) == 1)
        n++;
    ck_assert_int_eq(n, 14);
    ck_assert_int_eq(etl_fields_next(&f, &v), 0);
}
END_TEST

START_TEST(wide_arrays_are_texts)
{
    struct etl_SystemConfig_CPU c = {.MHz = 5};
    struct etl_writer w = writer();
    struct etl_fields f;
    struct etl_event e;
    struct etl_value v;
    int size;

    memcpy(c.ComputerName, u"box", 6);
    for (size_t i = 0; i < ARRAY_SIZE(c.DomainName); i++)
        c.DomainName[i] = 'd'; /* full: no NUL */
    etl_event_begin(&w, ETL_ROW_SystemConfig_CPU);
    etl_put(&w, &c, sizeof(c));
    size = etl_event_end(&w, ETL_ROW_SystemConfig_CPU, 0, 1, 2, 3);
    ck_assert_int_eq(etl_event_parse(memory, (size_t) size, &e), 0);
    etl_fields_init(&f, &etl_rows[ETL_ROW_SystemConfig_CPU], &e);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert_uint_eq(v.size, 6);
    ck_assert_mem_eq(v.data, u"box", 6);
    ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert_uint_eq(v.size, sizeof(c.DomainName));
    ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert_str_eq(v.field->name, "HyperThreadingFlag");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("rows");
    TCase *t = tcase_create("rows");

    tcase_add_loop_test(t, every_row_comes_back, 0, ETL_ROW_COUNT);
    tcase_add_loop_test(t, cut_data_end_in_an_error_or_at_a_border, 0, ETL_ROW_COUNT);
    tcase_add_test(t, tracelogging_items);
    tcase_add_test(t, writer_overflow);
    tcase_add_test(t, event_size_limit);
    tcase_add_test(t, texts);
    tcase_add_test(t, null_sid_is_read);
    tcase_add_test(t, signed_fields);
    tcase_add_test(t, fields_of_32_bits);
    tcase_add_test(t, thread_name_may_be_missing);
    tcase_add_test(t, wide_arrays_are_texts);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
