/* SPDX-License-Identifier: Apache-2.0
 *
 * proto/etl/tracelogging.c: every type, arrays, structs in structs, and input that lies.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "etl/tracelogging.h"
#include "lib/test.h"

#define CHAIN 0x80
#define FIXED_COUNT 0x20
#define VARIABLE_COUNT 0x40
#define CUSTOM 0x60

/* Metadata and data under construction. */
struct made {
    uint8_t meta[4096];
    size_t meta_len;
    uint8_t data[4096];
    size_t data_len;
};

static void put(uint8_t *to, size_t *len, const void *bytes, size_t n)
{
    memcpy(to + *len, bytes, n);
    *len += n;
}

static void meta_bytes(struct made *m, const void *bytes, size_t n)
{
    put(m->meta, &m->meta_len, bytes, n);
}

static void data_bytes(struct made *m, const void *bytes, size_t n)
{
    put(m->data, &m->data_len, bytes, n);
}

static void begin(struct made *m, const char *event)
{
    memset(m, 0, sizeof(*m));
    meta_bytes(m, "\0\0\0", 3); /* size, one tag byte */
    meta_bytes(m, event, strlen(event) + 1);
}

static void field(struct made *m, const char *name, uint8_t in, int out)
{
    uint8_t types[2] = {in, (uint8_t) out};

    if (out >= 0)
        types[0] |= CHAIN;
    meta_bytes(m, name, strlen(name) + 1);
    meta_bytes(m, types, out >= 0 ? 2 : 1);
}

static void u16(struct made *m, bool in_meta, uint16_t v)
{
    if (in_meta)
        meta_bytes(m, &v, sizeof(v));
    else
        data_bytes(m, &v, sizeof(v));
}

static void open_made(struct made *m, struct etl_tl *tl)
{
    uint16_t total = (uint16_t) m->meta_len;

    memcpy(m->meta, &total, sizeof(total));
    ck_assert_int_eq(etl_tl_init(tl, m->meta, m->meta_len, m->data, m->data_len, 8), 0);
}

static void expect(struct etl_tl *tl, int token, const char *name, struct etl_tl_value *v)
{
    int r = etl_tl_next(tl, v);

    ck_assert_msg(r == token, "token %d, expected %d (%s)", r, token, name ? name : "");
    if (name) {
        ck_assert_uint_eq(v->name_len, strlen(name));
        ck_assert_mem_eq(v->name, name, v->name_len);
    } else {
        ck_assert_ptr_null(v->name);
    }
}

START_TEST(every_type_of_fixed_size)
{
    static const struct {
        uint8_t in;
        int out;
        uint8_t size;
        enum etl_tl_kind kind;
        bool is_signed;
        uint64_t bytes;
        uint64_t integer;
    } types[] = {
        {ETL_TL_INT8, -1, 1, ETL_TL_IS_INTEGER, true, 0xFE, (uint64_t) -2},
        {ETL_TL_UINT8, -1, 1, ETL_TL_IS_INTEGER, false, 0xFE, 0xFE},
        {ETL_TL_UINT8, ETL_TL_OUT_BOOLEAN, 1, ETL_TL_IS_BOOLEAN, false, 1, 1},
        {ETL_TL_UINT8, ETL_TL_OUT_STRING, 1, ETL_TL_IS_UTF8, false, 'x', 'x'},
        {ETL_TL_INT16, -1, 2, ETL_TL_IS_INTEGER, true, 0x8000, (uint64_t) -32768},
        {ETL_TL_UINT16, -1, 2, ETL_TL_IS_INTEGER, false, 0x8000, 0x8000},
        {ETL_TL_UINT16, ETL_TL_OUT_STRING, 2, ETL_TL_IS_UTF16, false, 'x', 'x'},
        {ETL_TL_INT32, -1, 4, ETL_TL_IS_INTEGER, true, 0xFFFFFFFF, UINT64_MAX},
        {ETL_TL_UINT32, -1, 4, ETL_TL_IS_INTEGER, false, 0xFFFFFFFF, 0xFFFFFFFF},
        {ETL_TL_INT64, -1, 8, ETL_TL_IS_INTEGER, true, UINT64_MAX, UINT64_MAX},
        {ETL_TL_UINT64, -1, 8, ETL_TL_IS_INTEGER, false, UINT64_MAX, UINT64_MAX},
        {ETL_TL_HEXINT32, -1, 4, ETL_TL_IS_INTEGER, false, 0xABCD, 0xABCD},
        {ETL_TL_HEXINT64, -1, 8, ETL_TL_IS_INTEGER, false, 0xABCD, 0xABCD},
        {ETL_TL_POINTER, -1, 8, ETL_TL_IS_INTEGER, false, 0xABCD, 0xABCD},
        {ETL_TL_BOOL32, -1, 4, ETL_TL_IS_BOOLEAN, false, 2, 2},
        {ETL_TL_FLOAT, -1, 4, ETL_TL_IS_FLOAT, false, 0x3F800000, 0x3F800000},
        {ETL_TL_DOUBLE, -1, 8, ETL_TL_IS_FLOAT, false, 1, 1},
        {ETL_TL_FILETIME, -1, 8, ETL_TL_IS_FILETIME, false, 77, 77},
    };
    struct etl_tl_value v;
    struct etl_tl tl;
    struct made m;

    begin(&m, "Types");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        field(&m, "f", types[i].in, types[i].out);
        data_bytes(&m, &types[i].bytes, types[i].size);
    }
    open_made(&m, &tl);
    ck_assert_uint_eq(tl.event_name_len, 5);
    ck_assert_mem_eq(tl.event_name, "Types", 5);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        expect(&tl, ETL_TL_VALUE, "f", &v);
        ck_assert_int_eq(v.kind, types[i].kind);
        ck_assert_int_eq(v.is_signed, types[i].is_signed);
        ck_assert_uint_eq(v.size, types[i].size);
        ck_assert_msg(v.integer == types[i].integer, "type %u: 0x%llx", types[i].in,
                      (unsigned long long) v.integer);
    }
    ck_assert_int_eq(etl_tl_next(&tl, &v), ETL_TL_END);
    ck_assert_uint_eq(tl.data_pos, m.data_len);
}
END_TEST

START_TEST(texts_and_blobs)
{
    static const uint8_t sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    struct etl_tl_value v;
    struct etl_tl tl;
    struct made m;

    begin(&m, "Texts");
    field(&m, "null", ETL_TL_NULL, -1);
    field(&m, "w", ETL_TL_UNICODESTRING, -1);
    data_bytes(&m, "h\0i\0\0\0", 6);
    field(&m, "a", ETL_TL_ANSISTRING, -1);
    data_bytes(&m, "hi", 3);
    field(&m, "cw", ETL_TL_COUNTEDSTRING, -1);
    u16(&m, false, 4);
    data_bytes(&m, "h\0i\0", 4);
    field(&m, "ca", ETL_TL_COUNTEDANSISTRING, ETL_TL_OUT_UTF8);
    u16(&m, false, 2);
    data_bytes(&m, "hi", 2);
    field(&m, "b", ETL_TL_BINARY, -1);
    u16(&m, false, 3);
    data_bytes(&m, "\1\2\3", 3);
    field(&m, "cb", ETL_TL_COUNTEDBINARY, -1);
    u16(&m, false, 0);
    field(&m, "sid", ETL_TL_SID, -1);
    data_bytes(&m, sid, sizeof(sid));
    field(&m, "guid", ETL_TL_GUID, -1);
    data_bytes(&m, "0123456789abcdef", 16);
    field(&m, "when", ETL_TL_SYSTEMTIME, -1);
    data_bytes(&m, "0123456789abcdef", 16);
    field(&m, "end", ETL_TL_UNICODESTRING, -1);
    data_bytes(&m, "x\0y", 3); /* no terminator and half a character */
    open_made(&m, &tl);

    expect(&tl, ETL_TL_VALUE, "null", &v);
    ck_assert_int_eq(v.kind, ETL_TL_IS_NULL);
    expect(&tl, ETL_TL_VALUE, "w", &v);
    ck_assert_int_eq(v.kind, ETL_TL_IS_UTF16);
    ck_assert_uint_eq(v.size, 4);
    expect(&tl, ETL_TL_VALUE, "a", &v);
    ck_assert_int_eq(v.kind, ETL_TL_IS_UTF8);
    ck_assert_uint_eq(v.size, 2);
    expect(&tl, ETL_TL_VALUE, "cw", &v);
    ck_assert_int_eq(v.kind, ETL_TL_IS_UTF16);
    ck_assert_uint_eq(v.size, 4);
    expect(&tl, ETL_TL_VALUE, "ca", &v);
    ck_assert_int_eq(v.kind, ETL_TL_IS_UTF8);
    ck_assert_mem_eq(v.data, "hi", 2);
    expect(&tl, ETL_TL_VALUE, "b", &v);
    ck_assert_int_eq(v.kind, ETL_TL_IS_BINARY);
    ck_assert_uint_eq(v.size, 3);
    expect(&tl, ETL_TL_VALUE, "cb", &v);
    ck_assert_uint_eq(v.size, 0);
    expect(&tl, ETL_TL_VALUE, "sid", &v);
    ck_assert_int_eq(v.kind, ETL_TL_IS_SID);
    ck_assert_uint_eq(v.size, sizeof(sid));
    expect(&tl, ETL_TL_VALUE, "guid", &v);
    ck_assert_int_eq(v.kind, ETL_TL_IS_GUID);
    expect(&tl, ETL_TL_VALUE, "when", &v);
    ck_assert_int_eq(v.kind, ETL_TL_IS_SYSTEMTIME);
    expect(&tl, ETL_TL_VALUE, "end", &v);
    ck_assert_uint_eq(v.size, 2);
    ck_assert_int_eq(etl_tl_next(&tl, &v), ETL_TL_END);
    ck_assert_uint_eq(tl.data_pos, m.data_len);
}
END_TEST

START_TEST(arrays)
{
    struct etl_tl_value v;
    struct etl_tl tl;
    struct made m;

    begin(&m, "Arrays");
    field(&m, "fixed", ETL_TL_UINT16 | FIXED_COUNT, ETL_TL_OUT_HEX);
    u16(&m, true, 2);
    u16(&m, false, 7);
    u16(&m, false, 8);
    field(&m, "variable", ETL_TL_ANSISTRING | VARIABLE_COUNT, -1);
    u16(&m, false, 2);
    data_bytes(&m, "a\0bc\0", 5);
    field(&m, "none", ETL_TL_UINT32 | VARIABLE_COUNT, -1);
    u16(&m, false, 0);
    field(&m, "chars", ETL_TL_UINT16 | VARIABLE_COUNT, ETL_TL_OUT_STRING);
    u16(&m, false, 3);
    data_bytes(&m, "x\0y\0z\0", 6);
    field(&m, "custom", ETL_TL_BINARY | CUSTOM, -1);
    u16(&m, true, 2);
    meta_bytes(&m, "!!", 2);
    u16(&m, false, 1);
    data_bytes(&m, "?", 1);
    open_made(&m, &tl);

    expect(&tl, ETL_TL_ARRAY_BEGIN, "fixed", &v);
    ck_assert_uint_eq(v.count, 2);
    expect(&tl, ETL_TL_VALUE, NULL, &v);
    ck_assert_uint_eq(v.integer, 7);
    ck_assert_uint_eq(v.out_type, ETL_TL_OUT_HEX);
    expect(&tl, ETL_TL_VALUE, NULL, &v);
    ck_assert_uint_eq(v.integer, 8);
    expect(&tl, ETL_TL_ARRAY_END, NULL, &v);
    expect(&tl, ETL_TL_ARRAY_BEGIN, "variable", &v);
    expect(&tl, ETL_TL_VALUE, NULL, &v);
    expect(&tl, ETL_TL_VALUE, NULL, &v);
    ck_assert_uint_eq(v.size, 2);
    expect(&tl, ETL_TL_ARRAY_END, NULL, &v);
    expect(&tl, ETL_TL_ARRAY_BEGIN, "none", &v);
    expect(&tl, ETL_TL_ARRAY_END, NULL, &v);
    expect(&tl, ETL_TL_VALUE, "chars", &v);
    ck_assert_int_eq(v.kind, ETL_TL_IS_UTF16);
    ck_assert_uint_eq(v.size, 6);
    expect(&tl, ETL_TL_VALUE, "custom", &v);
    ck_assert_int_eq(v.kind, ETL_TL_IS_BINARY);
    ck_assert_uint_eq(v.size, 1);
    ck_assert_int_eq(etl_tl_next(&tl, &v), ETL_TL_END);
    ck_assert_uint_eq(tl.data_pos, m.data_len);
}
END_TEST

START_TEST(structs)
{
    struct etl_tl_value v;
    struct etl_tl tl;
    struct made m;

    begin(&m, "Structs");
    field(&m, "one", ETL_TL_STRUCT, 2);
    field(&m, "a", ETL_TL_UINT8, -1);
    field(&m, "in", ETL_TL_STRUCT, 1);
    field(&m, "b", ETL_TL_UINT8, -1);
    field(&m, "many", ETL_TL_STRUCT | VARIABLE_COUNT, 1);
    field(&m, "c", ETL_TL_UINT8, -1);
    field(&m, "no", ETL_TL_STRUCT | VARIABLE_COUNT, 2);
    field(&m, "d", ETL_TL_STRUCT, 1);
    field(&m, "e", ETL_TL_UINT8, -1);
    field(&m, "f", ETL_TL_UINT8, -1);
    field(&m, "last", ETL_TL_UINT8, -1);
    data_bytes(&m, "\1\2", 2);
    u16(&m, false, 2);
    data_bytes(&m, "\3\4", 2);
    u16(&m, false, 0);
    data_bytes(&m, "\5", 1);
    open_made(&m, &tl);

    expect(&tl, ETL_TL_STRUCT_BEGIN, "one", &v);
    expect(&tl, ETL_TL_VALUE, "a", &v);
    expect(&tl, ETL_TL_STRUCT_BEGIN, "in", &v);
    expect(&tl, ETL_TL_VALUE, "b", &v);
    ck_assert_uint_eq(v.integer, 2);
    expect(&tl, ETL_TL_STRUCT_END, NULL, &v);
    expect(&tl, ETL_TL_STRUCT_END, NULL, &v);
    expect(&tl, ETL_TL_ARRAY_BEGIN, "many", &v);
    for (unsigned i = 3; i <= 4; i++) {
        expect(&tl, ETL_TL_STRUCT_BEGIN, NULL, &v);
        expect(&tl, ETL_TL_VALUE, "c", &v);
        ck_assert_uint_eq(v.integer, i);
        expect(&tl, ETL_TL_STRUCT_END, NULL, &v);
    }
    expect(&tl, ETL_TL_ARRAY_END, NULL, &v);
    expect(&tl, ETL_TL_ARRAY_BEGIN, "no", &v);
    expect(&tl, ETL_TL_ARRAY_END, NULL, &v);
    expect(&tl, ETL_TL_VALUE, "last", &v);
    ck_assert_uint_eq(v.integer, 5);
    ck_assert_int_eq(etl_tl_next(&tl, &v), ETL_TL_END);
}
END_TEST

START_TEST(tags_and_traits)
{
    /* tag 0x0FFFFFFF in four bytes and a fifth that counts no more */
    static const uint8_t meta[] = {10, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 'E', 0, 0xAA};
    static const uint8_t traits[] = {9, 0, 'N', 'a', 'm', 'e', 0, 1, 2, 3};
    const char *name;
    uint32_t len;
    struct etl_tl tl;

    ck_assert_int_eq(etl_tl_init(&tl, meta, sizeof(meta), NULL, 0, 8), 0);
    ck_assert_uint_eq(tl.tag, 0x0FFFFFFF);
    ck_assert_uint_eq(tl.event_name_len, 1);
    ck_assert_int_eq(etl_tl_provider_name(traits, sizeof(traits), &name, &len), 0);
    ck_assert_uint_eq(len, 4);
    ck_assert_mem_eq(name, "Name", 4);
    for (size_t n = 0; n < 9; n++)
        ck_assert_int_eq(etl_tl_provider_name(traits, n, &name, &len), -EBADMSG);
}
END_TEST

/* An event with a bit of everything, whose metadata and data are cut at every length: never a read
 * past the end (checked by the sanitizers), and everything opened can be closed. */
START_TEST(cut_anywhere)
{
    struct etl_tl_value v;
    struct made m;

    begin(&m, "Cut");
    field(&m, "s", ETL_TL_STRUCT | VARIABLE_COUNT, 2);
    field(&m, "w", ETL_TL_UNICODESTRING, ETL_TL_OUT_JSON);
    field(&m, "n", ETL_TL_UINT64 | FIXED_COUNT, -1);
    u16(&m, true, 2);
    field(&m, "b", ETL_TL_BINARY, -1);
    u16(&m, false, 2);
    for (int i = 0; i < 2; i++) {
        data_bytes(&m, "w\0\0\0", 4);
        data_bytes(&m, "0123456789abcdef", 16);
    }
    u16(&m, false, 2);
    data_bytes(&m, "zz", 2);

    for (size_t meta_len = 0; meta_len <= m.meta_len; meta_len++)
        for (size_t data_len = 0; data_len <= m.data_len; data_len++) {
            uint8_t *meta = malloc(meta_len ? meta_len : 1);
            uint8_t *data = malloc(data_len ? data_len : 1);
            uint16_t total = (uint16_t) meta_len;
            struct etl_tl tl;
            int depth = 0, r;

            memcpy(meta, m.meta, meta_len);
            if (meta_len >= 2)
                memcpy(meta, &total, sizeof(total));
            memcpy(data, m.data, data_len);
            r = etl_tl_init(&tl, meta, meta_len, data, data_len, 8);
            if (r == 0) {
                while ((r = etl_tl_next(&tl, &v)) > 0) {
                    depth += r == ETL_TL_STRUCT_BEGIN || r == ETL_TL_ARRAY_BEGIN;
                    depth -= r == ETL_TL_STRUCT_END || r == ETL_TL_ARRAY_END;
                }
                while (etl_tl_unwind(&tl) > 0)
                    depth--;
                ck_assert_int_eq(depth, 0);
            } else {
                ck_assert_int_eq(r, -EBADMSG);
            }
            if (meta_len == m.meta_len && data_len == m.data_len)
                ck_assert_int_eq(r, 0);
            if (meta_len == m.meta_len && data_len < m.data_len)
                ck_assert_int_eq(r, -EBADMSG);
            free(meta);
            free(data);
        }
}
END_TEST

START_TEST(random_bytes)
{
    unsigned seed = 1;

    for (int round = 0; round < test_scale(20000); round++) {
        uint8_t meta[64], data[64];
        struct etl_tl_value v;
        struct etl_tl tl;
        uint16_t total = sizeof(meta);

        for (size_t i = 0; i < sizeof(meta); i++) {
            /* mostly names of one letter, types and counts */
            unsigned r = (unsigned) rand_r(&seed);
            meta[i] = r & 0x100 ? (uint8_t) (r & 0xFF) : r & 0x200 ? 0 : (uint8_t) (r & 0x1F);
            data[i] = (uint8_t) rand_r(&seed);
        }
        memcpy(meta, &total, sizeof(total));
        meta[2] = 0;
        if (etl_tl_init(&tl, meta, sizeof(meta), data, sizeof(data), 8) < 0)
            continue;
        while (etl_tl_next(&tl, &v) > 0)
            if (v.size > 0)
                ck_assert(v.data >= data && v.data + v.size <= data + sizeof(data));
        while (etl_tl_unwind(&tl) > 0)
            ;
    }
}
END_TEST

START_TEST(nested_too_deep)
{
    struct etl_tl_value v;
    struct etl_tl tl;
    struct made m;
    int begun = 0, ended = 0, r;

    begin(&m, "Deep");
    for (int i = 0; i < ETL_TL_DEPTH_MAX + 1; i++)
        field(&m, "s", ETL_TL_STRUCT, 1);
    open_made(&m, &tl);
    while ((r = etl_tl_next(&tl, &v)) == ETL_TL_STRUCT_BEGIN)
        begun++;
    ck_assert_int_eq(r, -EBADMSG);
    ck_assert_int_eq(begun, ETL_TL_DEPTH_MAX);
    while (etl_tl_unwind(&tl) == ETL_TL_STRUCT_END)
        ended++;
    ck_assert_int_eq(ended, begun);
}
END_TEST

/* Arrays in arrays whose innermost element takes no bytes would be walked for ages. */
START_TEST(multiplying_arrays)
{
    struct etl_tl_value v;
    struct etl_tl tl;
    struct made m;
    uint64_t tokens = 0;
    int r;

    begin(&m, "Bomb");
    for (int i = 0; i < 4; i++) {
        field(&m, "s", ETL_TL_STRUCT | FIXED_COUNT, 1);
        u16(&m, true, UINT16_MAX);
    }
    field(&m, "n", ETL_TL_NULL, -1);
    open_made(&m, &tl);
    while ((r = etl_tl_next(&tl, &v)) > 0)
        tokens++;
    ck_assert_int_eq(r, -EBADMSG);
    ck_assert_uint_le(tokens, ETL_TL_TOKENS_MAX);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tracelogging");
    TCase *tc = tcase_create("tracelogging");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_type_of_fixed_size);
    tcase_add_test(tc, texts_and_blobs);
    tcase_add_test(tc, arrays);
    tcase_add_test(tc, structs);
    tcase_add_test(tc, tags_and_traits);
    tcase_add_test(tc, cut_anywhere);
    tcase_add_test(tc, random_bytes);
    tcase_add_test(tc, nested_too_deep);
    tcase_add_test(tc, multiplying_arrays);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
