/* SPDX-License-Identifier: Apache-2.0
 *
 * classes.def against the published sizes, hook ids, masks and flags.
 */
#include <string.h>

#include "base/cleanup.h"
#include "etl/classes.h"
#include "lib/test.h"

/* Bytes of the fixed part for 64 bits, as published for each class; version; opcode. */
static const struct {
    enum etl_row row;
    uint8_t group;
    uint8_t opcode;
    uint8_t version;
    uint16_t fixed_size;
    bool variable;
} published[] = {
    {ETL_ROW_EventTrace_Header, 0x00, 0, 2, 280, true},
    {ETL_ROW_EventTrace_Extension, 0x00, 5, 2, 36, false},
    {ETL_ROW_EventTrace_EndExtension, 0x00, 32, 2, 36, false},
    {ETL_ROW_EventTrace_RDComplete, 0x00, 8, 2, 0, false},
    {ETL_ROW_EventTrace_BuildInfo, 0x00, 66, 2, 0, true},
    {ETL_ROW_Process_Start, 0x03, 1, 4, 36, true},
    {ETL_ROW_Process_End, 0x03, 2, 4, 36, true},
    {ETL_ROW_Process_DCStart, 0x03, 3, 4, 36, true},
    {ETL_ROW_Process_DCEnd, 0x03, 4, 4, 36, true},
    {ETL_ROW_Thread_Start, 0x05, 1, 3, 72, true},
    {ETL_ROW_Thread_End, 0x05, 2, 3, 72, true},
    {ETL_ROW_Thread_DCStart, 0x05, 3, 3, 72, true},
    {ETL_ROW_Thread_DCEnd, 0x05, 4, 3, 72, true},
    {ETL_ROW_Thread_CSwitch, 0x05, 36, 4, 24, false},
    {ETL_ROW_Thread_ReadyThread, 0x05, 50, 2, 8, false},
    {ETL_ROW_Image_Load, 0x03, 10, 3, 56, true},
    {ETL_ROW_Image_UnLoad, 0x14, 2, 3, 56, true},
    {ETL_ROW_Image_DCStart, 0x14, 3, 3, 56, true},
    {ETL_ROW_Image_DCEnd, 0x14, 4, 3, 56, true},
    /* ptr, u32, guid, u32 and text; no size is published for it. */
    {ETL_ROW_ImageId_DbgIdRSDS, 0xFF, 36, 2, 32, true},
    {ETL_ROW_SystemConfig_CPU, 0x0B, 10, 3, 828, false},
    {ETL_ROW_SystemConfig_PhyDisk, 0x0B, 11, 2, 568, false},
    {ETL_ROW_SystemConfig_LogDisk, 0x0B, 12, 2, 112, false},
    {ETL_ROW_SystemConfig_NIC, 0x0B, 13, 2, 20, true},
    {ETL_ROW_SystemConfig_Network, 0x0B, 17, 2, 16, false},
    {ETL_ROW_SystemConfig_Platform, 0x0B, 25, 2, 0, true},
};

static bool is_variable(enum etl_field_type t)
{
    return t == ETL_T_sid || t == ETL_T_asz || t == ETL_T_wsz || t == ETL_T_bin;
}

START_TEST(published_sizes)
{
    bool covered[ETL_ROW_COUNT] = {false};

    for (size_t i = 0; i < ARRAY_SIZE(published); i++) {
        const struct etl_class_row *row = &etl_rows[published[i].row];
        bool variable = false;

        ck_assert_msg(row->fixed_size == published[i].fixed_size, "%s %s: %u bytes",
                      row->class_name, row->event_name, row->fixed_size);
        ck_assert_msg(row->version == published[i].version, "%s %s", row->class_name,
                      row->event_name);
        ck_assert_uint_eq(row->group, published[i].group);
        ck_assert_uint_eq(row->opcode, published[i].opcode);
        for (const struct etl_field *f = row->fields; f->name; f++)
            variable |= is_variable(f->type);
        ck_assert_int_eq(variable, published[i].variable);
        covered[published[i].row] = true;
    }
    /* A new row needs its line above; TraceLogging has no published layouts. */
    for (size_t i = 0; i < ETL_ROW_COUNT; i++)
        ck_assert_msg(covered[i] || etl_rows[i].header == ETL_EVENT64, "%s %s is not checked",
                      etl_rows[i].class_name, etl_rows[i].event_name);
}
END_TEST

START_TEST(offsets)
{
    /* Offsets that the reference states, as the structs have them. */
    ck_assert_uint_eq(offsetof(struct etl_EventTrace_Header, EndTime), 0x10);
    ck_assert_uint_eq(offsetof(struct etl_EventTrace_Header, BuffersWritten), 0x24);
    ck_assert_uint_eq(offsetof(struct etl_EventTrace_Header, PointerSize), 0x2C);
    ck_assert_uint_eq(offsetof(struct etl_EventTrace_Header, EventsLost), 0x30);
    ck_assert_uint_eq(offsetof(struct etl_EventTrace_Header, TimeZoneInformation), 0x48);
    ck_assert_uint_eq(offsetof(struct etl_EventTrace_Header, BootTime), 0xF8);
    ck_assert_uint_eq(offsetof(struct etl_EventTrace_Header, StartTime), 0x108);
    ck_assert_uint_eq(offsetof(struct etl_EventTrace_Header, BuffersLost), 0x114);
    ck_assert_uint_eq(offsetof(struct etl_Process_TypeGroup1, DirectoryTableBase), 24);
    ck_assert_uint_eq(offsetof(struct etl_Process_TypeGroup1, Flags), 32);
    ck_assert_uint_eq(offsetof(struct etl_Thread_CSwitch, OldThreadWaitReason), 12);
    ck_assert_uint_eq(offsetof(struct etl_Thread_CSwitch, OldThreadState), 14);
    ck_assert_uint_eq(offsetof(struct etl_Thread_CSwitch, NewThreadWaitTime), 16);
    ck_assert_uint_eq(offsetof(struct etl_Image_TypeGroup1, DefaultBase), 32);
    ck_assert_uint_eq(offsetof(struct etl_SystemConfig_CPU, PaeEnabled), 822);
}
END_TEST

START_TEST(fields_make_the_fixed_part)
{
    static const uint8_t size[] = {
        [ETL_T_u8] = 1,    [ETL_T_i8] = 1,    [ETL_T_u16] = 2, [ETL_T_i16] = 2,   [ETL_T_u32] = 4,
        [ETL_T_i32] = 4,   [ETL_T_u64] = 8,   [ETL_T_i64] = 8, [ETL_T_hex64] = 8, [ETL_T_ptr] = 8,
        [ETL_T_stamp] = 8, [ETL_T_ticks] = 8, [ETL_T_ft] = 8,  [ETL_T_wch] = 2,   [ETL_T_guid] = 16,
    };

    for (size_t i = 0; i < ETL_ROW_COUNT; i++) {
        const struct etl_class_row *row = &etl_rows[i];
        bool variable = false;
        uint32_t sum = 0;

        ck_assert_ptr_nonnull(row->event_name);
        for (const struct etl_field *f = row->fields; f->name; f++) {
            if (is_variable(f->type)) {
                variable = true;
                continue;
            }
            ck_assert_msg(!variable, "%s %s: %s stands behind the variable part", row->class_name,
                          row->event_name, f->name);
            sum += size[f->type] * (f->count ? f->count : 1u);
        }
        ck_assert_uint_eq(sum, row->fixed_size);
        ck_assert_uint_lt(row->mask, 8);
    }
}
END_TEST

START_TEST(hooks)
{
    char buf[ETW_GUID_STRING_MAX];
    static const struct {
        uint8_t group;
        const char *name, *guid;
    } some[] = {
        {0x00, "EventTrace", "68fdd900-4a3e-11d1-84f4-0000f80464e3"},
        {0x01, "DiskIo", "3d6fa8d4-fe05-11d0-9dda-00c04fd7ba7c"},
        {0x02, "PageFault", "3d6fa8d3-fe05-11d0-9dda-00c04fd7ba7c"},
        {0x03, "Process", "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c"},
        {0x04, "FileIo", "90cbdc39-4a3e-11d1-84f4-0000f80464e3"},
        {0x05, "Thread", "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c"},
        {0x06, "TcpIp", "9a280ac0-c8e0-11d1-84e2-00c04fb998a2"},
        {0x07, "Job", "3282fc76-feed-498e-8aa7-e70f459d430e"},
        {0x08, "UdpIp", "bf3a50c5-a9c9-4988-a005-2df0b7c80f80"},
        {0x09, "Registry", "ae53722e-c863-11d2-8659-00c04fa321a1"},
        {0x0A, "DbgPrint", "13976d09-a327-438c-950b-7f03192815c7"},
        {0x0B, "SystemConfig", "01853a65-418f-4f36-aefc-dc0f1d2fd235"},
        {0x0C, "Lbr", "99134383-5248-43fc-834b-529454e75df3"},
        {0x0D, "Wnf", "42695762-ea50-497a-9068-5cbbb35e0b95"},
        {0x0E, "Pool", "0268a8b6-74fd-4302-9dd0-6e8f1795c0cf"},
        {0x0F, "PerfInfo", "ce1dbfb4-137e-4da6-87b0-3f59aa102cbc"},
        {0x10, "HeapTrace", "222962ab-6180-4b88-a825-346b75f2a24a"},
        {0x11, "Object", "89497f50-effe-4440-8cf2-ce6b1cdcaca7"},
        {0x12, "Power", "e43445e0-0903-48c3-b878-ff0fccebdd04"},
        {0x13, "ModBound", "a9152f00-3f58-4bee-92a1-70c7d079d5dd"},
        {0x14, "Image", "2cb15d1d-5fc1-11d2-abe1-00a0c911f518"},
        {0x15, "Dpc", "b2d14872-7c5b-463d-8419-ee9bf7d23e04"},
        {0x16, "Cc", "7687a439-f752-45b8-b741-321aec0f8df9"},
        {0x17, "CritSec", "3ac66736-cc59-4cff-8115-8df50e39816b"},
        {0x18, "StackWalk", "def2fe46-7bd6-4b80-bd94-f57fe20d0ce3"},
        {0x19, "Ums", "9aec974b-5b8e-4118-9b92-3186d8002ce5"},
        {0x1A, "ALPC", "45d8cccd-539f-4b72-a8b7-5c683142609a"},
        {0x1B, "SplitIo", "d837ca92-12b9-44a5-ad6a-3a65b3578aa8"},
        {0x1C, "ThreadPool", "c861d0e2-a2c1-4d36-9f9c-970bab943a12"},
        {0x1D, "Hypervisor", "7f2a405c-69b5-4bf9-a1f5-30e8f1afab5e"},
        {0x1E, "HypervisorX", "2ce9a149-effe-42f0-a635-a1d39e26c8f2"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(some); i++) {
        const struct etw_guid *g = etl_hook_guid(some[i].group, 99);
        ck_assert_str_eq(etw_guid_format(g, buf), some[i].guid);
        ck_assert_str_eq(etl_class_name(g), some[i].name);
    }
    for (unsigned group = 0x1F; group < 256; group++)
        ck_assert_ptr_null(etl_hook_guid((uint8_t) group, 0));
    /* Image load is logged under the process group. */
    ck_assert_str_eq(etl_class_name(etl_hook_guid(0x03, 10)), "Image");
    ck_assert_str_eq(etl_class_name(etl_hook_guid(0x03, 11)), "Process");
    ck_assert_ptr_null(etl_class_name(&(struct etw_guid){.data1 = 1}));
    ck_assert_str_eq(etl_class_name(&etl_rows[ETL_ROW_LinuxEtwd_ClockSync].guid), "Linux-Etwd");
}
END_TEST

START_TEST(rows_agree_with_hooks)
{
    for (size_t i = 0; i < ETL_ROW_COUNT; i++) {
        const struct etl_class_row *row = &etl_rows[i];
        const struct etw_guid *g = etl_hook_guid(row->group, row->opcode);

        ck_assert_ptr_nonnull(etl_class_name(&row->guid));
        ck_assert_str_eq(etl_class_name(&row->guid), row->class_name);
        if (row->header == ETL_SYSTEM64 || row->header == ETL_PERFINFO64)
            ck_assert_msg(g && etw_guid_equal(g, &row->guid), "%s %s", row->class_name,
                          row->event_name);
        else
            ck_assert(row->header == ETL_FULL64 || row->header == ETL_EVENT64);
    }
}
END_TEST

START_TEST(find_row)
{
    const struct etw_guid *thread = etl_hook_guid(0x05, 36);

    ck_assert_ptr_eq(etl_find_row(thread, 36, 4), &etl_rows[ETL_ROW_Thread_CSwitch]);
    /* A newer event: the known prefix. An older one: not this layout. */
    ck_assert_ptr_eq(etl_find_row(thread, 36, 9), &etl_rows[ETL_ROW_Thread_CSwitch]);
    ck_assert_ptr_null(etl_find_row(thread, 36, 3));
    ck_assert_ptr_null(etl_find_row(thread, 200, 4));
    ck_assert_ptr_eq(etl_find_row(etl_hook_guid(0x03, 10), 10, 3), &etl_rows[ETL_ROW_Image_Load]);
    ck_assert_ptr_eq(etl_find_row(&etl_rows[ETL_ROW_ImageId_DbgIdRSDS].guid, 36, 2),
                     &etl_rows[ETL_ROW_ImageId_DbgIdRSDS]);
    ck_assert_ptr_null(etl_find_row(&etl_rows[ETL_ROW_LinuxEtwd_ClockSync].guid, 0, 0));
    for (size_t i = 0; i < ETL_ROW_COUNT; i++)
        if (etl_rows[i].header != ETL_EVENT64)
            ck_assert_ptr_eq(
                etl_find_row(&etl_rows[i].guid, etl_rows[i].opcode, etl_rows[i].version),
                &etl_rows[i]);
}
END_TEST

START_TEST(masks)
{
    uint32_t m[8];
    static const struct {
        uint32_t flag, word, bit;
    } moved[] = {
        {0x01000000, 1, 0x2}, {0x10, 1, 0x4},    {0x00800000, 1, 0x10}, {0x20, 1, 0x80},
        {0x800, 1, 0x200},    {0x40, 1, 0x4000}, {0x4000, 1, 0x8000},   {0x80, 2, 0x40},
    };

    for (size_t i = 0; i < ARRAY_SIZE(moved); i++) {
        etl_masks_from_flags(moved[i].flag, m);
        for (uint32_t w = 0; w < 8; w++)
            ck_assert_uint_eq(m[w], w == moved[i].word ? moved[i].bit : 0);
    }
    /* The pair that a real file has. */
    etl_masks_from_flags(0x0101270F & ~0u, m);
    ck_assert_uint_eq(m[0], 0x0001270F);
    ck_assert_uint_eq(m[1], 0x2);
    for (uint32_t bit = 0; bit < 32; bit++) {
        etl_masks_from_flags(1u << bit, m);
        ck_assert_uint_eq(etl_flags_from_masks(m), 1u << bit);
    }
    etl_masks_from_flags(UINT32_MAX, m);
    ck_assert_uint_eq(etl_flags_from_masks(m), UINT32_MAX);
}
END_TEST

START_TEST(flags)
{
    uint32_t seen = 0, inert = 0, probed = 0;
    uint32_t m[8];
    const struct etl_enable_flag *f;

    for (f = etl_enable_flags; f->name; f++) {
        ck_assert_uint_eq(f->bit & (f->bit - 1), 0);
        ck_assert_uint_eq(seen & f->bit, 0);
        seen |= f->bit;
        if (f->support == ETL_FLAG_INERT)
            inert |= f->bit;
        if (f->support == ETL_FLAG_PROBED)
            probed |= f->bit;
        for (const struct etl_enable_flag *o = etl_enable_flags; o != f; o++)
            ck_assert_str_ne(o->name, f->name);
    }
    /* Bit 27 is the only one that ETW leaves undefined. */
    ck_assert_uint_eq(seen, 0xF7FFFFFF);
    ck_assert_uint_eq(inert, 0x00020000 | 0x00100000 | 0x00800000 | 0x20000000 | 0x40000000);
    ck_assert_uint_eq(probed, 0x1 | 0x2 | 0x4 | 0x10 | 0x800);
    /* A probed flag turns on at least one row. */
    for (f = etl_enable_flags; f->name; f++) {
        bool found = false;
        etl_masks_from_flags(f->bit, m);
        for (size_t i = 0; i < ETL_ROW_COUNT; i++)
            found |= (m[etl_rows[i].mask] & etl_rows[i].mask_bit) != 0;
        ck_assert_msg(found == (f->support == ETL_FLAG_PROBED), "%s", f->name);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("classes");
    TCase *t = tcase_create("table");

    tcase_add_test(t, published_sizes);
    tcase_add_test(t, offsets);
    tcase_add_test(t, fields_make_the_fixed_part);
    tcase_add_test(t, hooks);
    tcase_add_test(t, rows_agree_with_hooks);
    tcase_add_test(t, find_row);
    tcase_add_test(t, masks);
    tcase_add_test(t, flags);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
