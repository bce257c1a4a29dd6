/* SPDX-License-Identifier: Apache-2.0
 *
 * The layouts of windows.def and classes.def against the sizes that are known of them: bytes of the
 * fixed part with pointers of 64 bits, by class, opcode and version.
 */
#include <string.h>

#include "etl/iterate.h"
#include "lib/test.h"

static const struct {
    const char *class_name;
    uint8_t opcode, version;
    uint16_t size;
} known[] = {
    {"EventTrace", 0, 2, 280},
    {"EventTrace", 5, 2, 36},
    {"EventTrace", 32, 2, 36},
    {"EventTrace", 8, 2, 0},
    {"EventTrace", 64, 2, 20},
    {"EventTrace", 66, 2, 0},
    {"EventTrace", 80, 2, 48},
    {"Process", 1, 4, 36},
    {"Process", 2, 4, 36},
    {"Process", 3, 4, 36},
    {"Process", 4, 4, 36},
    {"Process", 11, 2, 4},
    {"Process", 32, 2, 104},
    {"Process", 33, 2, 104},
    {"Process", 35, 2, 12},
    {"Process", 48, 2, 24},
    {"Process", 49, 2, 24},
    {"Process", 50, 2, 24},
    {"Process", 51, 2, 24},
    {"Process", 52, 2, 24},
    {"Process", 64, 2, 24},
    {"Process", 65, 2, 24},
    {"Process", 66, 2, 24},
    {"Process", 67, 2, 24},
    {"Process", 68, 2, 24},
    {"Process", 80, 2, 24},
    {"Process", 81, 2, 24},
    {"Process", 82, 2, 24},
    {"Process", 83, 2, 24},
    {"Process", 84, 2, 24},
    {"Process", 96, 2, 8},
    {"Process", 97, 2, 8},
    {"Process", 98, 2, 8},
    {"Process", 99, 2, 8},
    {"Thread", 1, 3, 72},
    {"Thread", 2, 3, 72},
    {"Thread", 3, 3, 72},
    {"Thread", 4, 3, 72},
    {"Thread", 36, 4, 24},
    {"Thread", 37, 2, 0},
    {"Thread", 41, 2, 56},
    {"Thread", 48, 3, 8},
    {"Thread", 49, 3, 8},
    {"Thread", 51, 3, 8},
    {"Thread", 52, 3, 8},
    {"Thread", 50, 2, 8},
    {"Thread", 53, 2, 16},
    {"Thread", 57, 2, 20},
    {"Thread", 60, 2, 8},
    {"Thread", 61, 2, 12},
    {"Thread", 62, 2, 12},
    {"Thread", 63, 2, 8},
    {"Thread", 64, 2, 8},
    {"Thread", 65, 2, 8},
    {"Thread", 66, 2, 16},
    {"Thread", 67, 2, 16},
    {"Thread", 68, 2, 12},
    {"Thread", 69, 2, 8},
    {"Thread", 72, 2, 8},
    {"Image", 2, 3, 56},
    {"Image", 3, 3, 56},
    {"Image", 4, 3, 56},
    {"Image", 10, 3, 56},
    {"Image", 33, 2, 8},
    {"Image", 34, 2, 8},
    {"Image", 128, 2, 0},
    {"Image", 129, 2, 0},
    {"Image", 130, 2, 0},
    {"Image", 131, 2, 0},
    {"Image", 132, 2, 0},
    {"Image", 133, 2, 0},
    {"Image", 134, 2, 0},
    {"Image", 135, 2, 0},
    {"Image", 144, 2, 8},
    {"Image", 145, 2, 8},
    {"Image", 146, 2, 8},
    {"Image", 147, 2, 8},
    {"Image", 148, 2, 8},
    {"Image", 149, 2, 8},
    {"Image", 150, 2, 8},
    {"Image", 160, 2, 10},
    {"Image", 161, 2, 10},
    {"Image", 162, 2, 10},
    {"Image", 163, 2, 10},
    {"Image", 164, 2, 10},
    {"Image", 165, 3, 10},
    {"Image", 166, 3, 10},
    {"Image", 167, 3, 10},
    {"Image", 168, 3, 10},
    {"Image", 169, 3, 10},
    {"Image", 170, 3, 10},
    {"Image", 171, 3, 10},
    {"Image", 172, 3, 10},
    {"Image", 173, 3, 10},
    {"Image", 174, 3, 10},
    {"Image", 208, 3, 10},
    {"Image", 209, 3, 10},
    {"Image", 210, 3, 10},
    {"Image", 211, 3, 10},
    {"Image", 176, 3, 20},
    {"Image", 177, 3, 20},
    {"Image", 192, 3, 10},
    {"Image", 193, 3, 10},
    {"Image", 212, 3, 16},
    {"Image", 213, 3, 4},
    {"DiskIo", 10, 3, 52},
    {"DiskIo", 11, 3, 52},
    {"DiskIo", 12, 3, 12},
    {"DiskIo", 13, 3, 12},
    {"DiskIo", 15, 3, 12},
    {"DiskIo", 14, 3, 28},
    {"DiskIo", 34, 2, 36},
    {"DiskIo", 35, 2, 12},
    {"DiskIo", 53, 2, 12},
    {"DiskIo", 37, 2, 20},
    {"DiskIo", 52, 2, 20},
    {"DiskIo", 55, 3, 52},
    {"DiskIo", 56, 3, 52},
    {"DiskIo", 57, 3, 28},
    {"DiskIo", 58, 3, 12},
    {"DiskIo", 59, 3, 12},
    {"DiskIo", 60, 3, 12},
    {"FileIo", 0, 3, 8},
    {"FileIo", 32, 3, 8},
    {"FileIo", 35, 3, 8},
    {"FileIo", 36, 3, 8},
    {"FileIo", 37, 2, 36},
    {"FileIo", 38, 2, 36},
    {"FileIo", 39, 2, 36},
    {"FileIo", 40, 2, 36},
    {"FileIo", 64, 3, 32},
    {"FileIo", 65, 3, 28},
    {"FileIo", 66, 3, 28},
    {"FileIo", 73, 3, 28},
    {"FileIo", 67, 3, 44},
    {"FileIo", 68, 3, 44},
    {"FileIo", 69, 3, 40},
    {"FileIo", 70, 3, 40},
    {"FileIo", 71, 3, 40},
    {"FileIo", 74, 3, 40},
    {"FileIo", 75, 3, 40},
    {"FileIo", 72, 3, 40},
    {"FileIo", 77, 3, 40},
    {"FileIo", 76, 3, 20},
    {"FileIo", 79, 3, 40},
    {"FileIo", 80, 3, 40},
    {"FileIo", 81, 3, 40},
    {"FileIo", 96, 3, 44},
    {"FileIo", 97, 3, 44},
    {"FileIo", 98, 3, 52},
    {"FileIo", 99, 3, 52},
    {"FileIo", 100, 3, 48},
    {"FileIo", 101, 3, 48},
    {"PageFault", 10, 2, 16},
    {"PageFault", 11, 2, 16},
    {"PageFault", 12, 2, 16},
    {"PageFault", 13, 2, 16},
    {"PageFault", 14, 2, 16},
    {"PageFault", 15, 2, 16},
    {"PageFault", 32, 2, 40},
    {"PageFault", 98, 2, 24},
    {"PageFault", 99, 2, 24},
    {"PageFault", 100, 3, 24},
    {"PageFault", 101, 2, 20},
    {"PageFault", 102, 2, 24},
    {"PageFault", 103, 2, 24},
    {"PageFault", 104, 2, 8},
    {"PageFault", 105, 2, 16},
    {"PageFault", 127, 2, 20},
    {"PageFault", 134, 2, 20},
    {"PageFault", 128, 2, 32},
    {"PageFault", 129, 2, 32},
    {"TcpIp", 10, 2, 40},
    {"TcpIp", 11, 2, 32},
    {"TcpIp", 13, 2, 32},
    {"TcpIp", 14, 2, 32},
    {"TcpIp", 12, 2, 48},
    {"TcpIp", 15, 2, 48},
    {"TcpIp", 16, 2, 32},
    {"TcpIp", 18, 2, 32},
    {"TcpIp", 17, 2, 4},
    {"TcpIp", 19, 1, 32},
    {"TcpIp", 20, 1, 32},
    {"TcpIp", 21, 1, 32},
    {"TcpIp", 22, 1, 32},
    {"TcpIp", 26, 2, 64},
    {"TcpIp", 27, 2, 56},
    {"TcpIp", 29, 2, 56},
    {"TcpIp", 30, 2, 56},
    {"TcpIp", 32, 2, 56},
    {"TcpIp", 34, 2, 56},
    {"TcpIp", 28, 2, 72},
    {"TcpIp", 31, 2, 72},
    {"UdpIp", 10, 2, 32},
    {"UdpIp", 11, 2, 32},
    {"UdpIp", 17, 2, 4},
    {"UdpIp", 26, 2, 56},
    {"UdpIp", 27, 2, 56},
    {"PerfInfo", 46, 2, 16},
    {"PerfInfo", 47, 2, 16},
    {"PerfInfo", 48, 2, 4},
    {"PerfInfo", 50, 2, 24},
    {"PerfInfo", 51, 2, 8},
    {"PerfInfo", 52, 2, 4},
    {"PerfInfo", 58, 2, 0},
    {"PerfInfo", 66, 2, 16},
    {"PerfInfo", 70, 2, 16},
    {"PerfInfo", 67, 2, 20},
    {"PerfInfo", 95, 2, 20},
    {"PerfInfo", 68, 2, 16},
    {"PerfInfo", 69, 2, 16},
    {"PerfInfo", 72, 2, 12},
    {"PerfInfo", 73, 3, 12},
    {"PerfInfo", 74, 3, 12},
    {"PerfInfo", 75, 3, 16},
    {"PerfInfo", 76, 3, 16},
    {"PerfInfo", 92, 2, 2},
    {"PerfInfo", 93, 2, 16},
    {"PerfInfo", 94, 2, 16},
    {"PerfInfo", 96, 2, 8},
    {"PerfInfo", 97, 2, 8},
    {"PerfInfo", 98, 2, 8},
    {"PerfInfo", 103, 2, 8},
    {"PerfInfo", 104, 2, 49},
    {"PerfInfo", 105, 2, 49},
    {"PerfInfo", 106, 2, 8},
    {"PerfInfo", 107, 2, 25},
    {"PerfInfo", 108, 2, 24},
    {"StackWalk", 32, 2, 16},
    {"StackWalk", 34, 2, 8},
    {"StackWalk", 35, 2, 8},
    {"StackWalk", 36, 2, 8},
    {"StackWalk", 37, 2, 24},
    {"StackWalk", 38, 2, 24},
    {"SystemConfig", 10, 3, 828},
    {"SystemConfig", 11, 2, 568},
    {"SystemConfig", 12, 2, 112},
    {"SystemConfig", 13, 2, 20},
    {"SystemConfig", 14, 2, 2584},
    {"SystemConfig", 15, 3, 12},
    {"SystemConfig", 16, 2, 8},
    {"SystemConfig", 17, 2, 16},
    {"SystemConfig", 18, 2, 64},
    {"SystemConfig", 21, 3, 20},
    {"SystemConfig", 22, 5, 32},
    {"SystemConfig", 23, 2, 16},
    {"SystemConfig", 24, 2, 12},
    {"SystemConfig", 25, 2, 0},
    {"SystemConfig", 26, 2, 12},
    {"SystemConfig", 27, 2, 8},
    {"SystemConfig", 28, 2, 8},
    {"SystemConfig", 29, 2, 4},
    {"SystemConfig", 30, 2, 16},
    {"SystemConfig", 32, 2, 0},
    {"SystemConfig", 33, 2, 16},
    {"SystemConfig", 34, 2, 0},
    {"SystemConfig", 35, 2, 428},
    {"Registry", 10, 2, 24},
    {"Registry", 11, 2, 24},
    {"Registry", 12, 2, 24},
    {"Registry", 13, 2, 24},
    {"Registry", 14, 2, 24},
    {"Registry", 15, 2, 24},
    {"Registry", 16, 2, 24},
    {"Registry", 17, 2, 24},
    {"Registry", 18, 2, 24},
    {"Registry", 19, 2, 24},
    {"Registry", 20, 2, 24},
    {"Registry", 21, 2, 24},
    {"Registry", 22, 2, 24},
    {"Registry", 23, 2, 24},
    {"Registry", 24, 2, 24},
    {"Registry", 25, 2, 24},
    {"Registry", 26, 2, 24},
    {"Registry", 27, 2, 24},
    {"Registry", 28, 2, 24},
    {"Registry", 29, 2, 24},
    {"Registry", 30, 2, 32},
    {"Registry", 31, 2, 32},
    {"Registry", 32, 2, 32},
    {"Registry", 34, 2, 88},
    {"Registry", 35, 2, 4},
    {"Registry", 36, 2, 20},
    {"Registry", 37, 2, 8},
    {"Registry", 38, 2, 8},
    {"Registry", 39, 2, 20},
    {"Registry", 48, 2, 19},
    {"ALPC", 33, 2, 4},
    {"ALPC", 34, 2, 4},
    {"ALPC", 35, 2, 4},
    {"ALPC", 36, 2, 4},
    {"ALPC", 37, 2, 4},
    {"HeapTrace", 32, 3, 36},
    {"HeapTrace", 33, 2, 28},
    {"HeapTrace", 34, 2, 44},
    {"HeapTrace", 35, 2, 8},
    {"HeapTrace", 43, 2, 8},
    {"HeapTrace", 44, 2, 8},
    {"HeapTrace", 45, 2, 8},
    {"HeapTrace", 46, 2, 8},
    {"HeapTrace", 36, 2, 20},
    {"HeapTrace", 37, 3, 60},
    {"HeapTrace", 38, 3, 64},
    {"HeapTrace", 42, 3, 60},
    {"HeapTrace", 47, 2, 32},
    {"HeapTrace", 48, 2, 32},
    {"HeapTrace", 49, 2, 32},
    {"HeapTrace", 50, 2, 32},
    {"HeapTrace", 51, 2, 28},
    {"HeapTrace", 52, 2, 28},
    {"HeapTrace", 53, 2, 36},
    {"HeapTrace", 54, 2, 12},
    {"HeapTrace", 55, 2, 4},
    {"HeapTrace", 56, 2, 16},
    {"HeapTrace", 57, 2, 20},
    {"HeapTrace", 58, 2, 20},
    {"Pool", 32, 2, 24},
    {"Pool", 34, 2, 24},
    {"Pool", 33, 2, 28},
    {"Pool", 35, 2, 28},
    {"Pool", 40, 2, 0},
    {"Pool", 41, 2, 0},
    {"Pool", 42, 2, 0},
    {"Pool", 43, 2, 0},
    {"Pool", 44, 2, 0},
    {"Pool", 45, 2, 0},
    {"Pool", 46, 2, 0},
    {"Pool", 47, 2, 0},
    {"Object", 32, 2, 14},
    {"Object", 33, 2, 14},
    {"Object", 34, 2, 22},
    {"Object", 36, 2, 4},
    {"Object", 37, 2, 4},
    {"Object", 38, 2, 18},
    {"Object", 39, 2, 18},
    {"Object", 48, 2, 10},
    {"Object", 49, 2, 10},
    {"Object", 50, 2, 16},
    {"Object", 51, 2, 16},
    {"SplitIo", 32, 2, 16},
    {"Lost_Event", 32, 0, 0},
    {"Lost_Event", 33, 0, 0},
    {"Lost_Event", 34, 0, 0},
    {"DbgPrint", 32, 2, 8},
};

static const struct etl_class_row *find(const char *class_name, uint8_t opcode, uint8_t version)
{
    const struct etl_class_row *rows;
    size_t n = etl_windows_rows(&rows);

    for (size_t i = 0; i < n; i++)
        if (!strcmp(rows[i].class_name, class_name))
            return etl_find_any_row(&rows[i].guid, opcode, version);
    for (size_t i = 0; i < ETL_ROW_COUNT; i++)
        if (!strcmp(etl_rows[i].class_name, class_name))
            return etl_find_any_row(&etl_rows[i].guid, opcode, version);
    return NULL;
}

/* Bytes up to the first field of no fixed size: fields of zeros are taken until one does not fit.
 */
static uint32_t fixed_size(const struct etl_class_row *row)
{
    static const uint8_t zeros[4096];
    struct etl_event e = {.data = zeros, .data_size = sizeof(zeros), .pointer_size = 8};
    struct etl_fields f;
    struct etl_value v;
    uint32_t at;

    etl_fields_init(&f, row, &e);
    do {
        at = f.pos;
        if (!f.next->name || f.next->count == ETL_COUNT_REST || f.next->type == ETL_T_sid ||
            f.next->type == ETL_T_asz || f.next->type == ETL_T_wsz || f.next->type == ETL_T_bin)
            break;
    } while (etl_fields_next(&f, &v) > 0);
    return at;
}

START_TEST(sizes)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const struct etl_class_row *row =
            find(known[i].class_name, known[i].opcode, known[i].version);
        ck_assert_msg(row != NULL, "%s %u is not there", known[i].class_name, known[i].opcode);
        ck_assert_msg(row->version == known[i].version, "%s %u: version %u, not %u",
                      known[i].class_name, known[i].opcode, row->version, known[i].version);
        ck_assert_msg(fixed_size(row) == known[i].size, "%s %u v%u: %u bytes, not %u",
                      known[i].class_name, known[i].opcode, row->version, fixed_size(row),
                      known[i].size);
    }
}
END_TEST

/* One row an event and version, in one of the two tables. */
START_TEST(rows_once)
{
    const struct etl_class_row *rows;
    size_t n = etl_windows_rows(&rows);

    for (size_t i = 0; i < n; i++) {
        ck_assert_ptr_eq(etl_find_any_row(&rows[i].guid, rows[i].opcode, rows[i].version),
                         &rows[i]);
        for (size_t k = 0; k < i; k++)
            ck_assert(rows[k].opcode != rows[i].opcode || rows[k].version != rows[i].version ||
                      !etw_guid_equal(&rows[k].guid, &rows[i].guid));
    }
}
END_TEST

/* The highest version that is not above the event's, whichever table has it. */
START_TEST(versions)
{
    static const struct {
        const char *class_name;
        uint8_t opcode, asked, found;
    } cases[] = {
        {"Process", 1, 0, 0}, {"Process", 1, 1, 1}, {"Process", 3, 2, 2}, {"Process", 4, 3, 3},
        {"Process", 1, 9, 4}, {"Image", 10, 2, 2},  {"Image", 10, 3, 3},  {"Thread", 36, 3, 2},
        {"Thread", 36, 4, 4}, {"FileIo", 67, 2, 2}, {"FileIo", 67, 4, 3}, {"DiskIo", 10, 2, 2},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct etl_class_row *row =
            find(cases[i].class_name, cases[i].opcode, cases[i].asked);
        ck_assert_ptr_nonnull(row);
        ck_assert_uint_eq(row->version, cases[i].found);
    }
    ck_assert_ptr_null(find("FileIo", 67, 1));
    ck_assert_ptr_null(find("FileIo", 200, 9));
}
END_TEST

/* Addresses and ports in network order, arrays to the end, pointers of both widths. */
START_TEST(values)
{
    static const uint8_t recv[] = {1, 0, 0, 0,  2,    0,    0, 0, 127, 0, 0, 1, 10, 0,
                                   0, 2, 0, 80, 0x1F, 0x90, 7, 0, 0,   0, 9, 0, 0,  0};
    static const uint8_t stack[] = {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0,
                                    0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0};
    const struct etl_class_row *row = find("TcpIp", 11, 2);
    struct etl_event e = {.data = recv, .data_size = sizeof(recv), .pointer_size = 4};
    struct etl_fields f;
    struct etl_value v;

    etl_fields_init(&f, row, &e);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert_str_eq(v.field->name, "saddr");
    ck_assert_mem_eq(v.data, recv + 12, 4);
    ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert_uint_eq(v.integer, 80);
    ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert_uint_eq(v.integer, 8080);
    ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert_uint_eq(v.integer, 9);
    ck_assert_int_eq(etl_fields_next(&f, &v), 0);

    e = (struct etl_event){.data = stack, .data_size = sizeof(stack), .pointer_size = 4};
    etl_fields_init(&f, find("StackWalk", 32, 2), &e);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(etl_fields_next(&f, &v), 1);
    ck_assert_str_eq(v.field->name, "Frames");
    ck_assert_uint_eq(v.size, 12);
    ck_assert_int_eq(etl_fields_next(&f, &v), 0);
}
END_TEST

/* A program of 32 bits that wrote what a system of 64 bits would. */
START_TEST(pointers_of_others)
{
    static const uint8_t image[16 + 2] = {0, 0, 0x16, 1, 0, 0, 0, 0, 0, 0xE0, 0x19, 0, 7};
    const struct etl_class_row *row = find("Image", 10, 1);
    struct etl_event e = {.data = image, .data_size = sizeof(image), .pointer_size = 4};

    ck_assert_uint_eq(etl_row_pointer_size(row, &e), 8);
    e.data_size = 14;
    ck_assert_uint_eq(etl_row_pointer_size(row, &e), 4);
    e.data_size = 3; /* neither: as the header says */
    ck_assert_uint_eq(etl_row_pointer_size(row, &e), 4);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("windows-rows");
    TCase *t = tcase_create("windows-rows");

    tcase_add_test(t, sizes);
    tcase_add_test(t, rows_once);
    tcase_add_test(t, versions);
    tcase_add_test(t, values);
    tcase_add_test(t, pointers_of_others);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
