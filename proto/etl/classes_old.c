/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts that earlier systems wrote, for reading alone: Process, Thread and Image before the
 * versions in classes.def. Constant data and a pure function, any thread.
 */
#include "classes_old.h"

#include "../base/cleanup.h"

#define GUID_PROCESS()                                                                             \
    ETW_GUID(0x3d6fa8d0, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c)
#define GUID_THREAD()                                                                              \
    ETW_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c)
#define GUID_IMAGE()                                                                               \
    ETW_GUID(0x2cb15d1d, 0x5fc1, 0x11d2, 0xab, 0xe1, 0x00, 0xa0, 0xc9, 0x11, 0xf5, 0x18)

static const struct etl_field process_0[] = {
    {"ProcessId", ETL_T_ptr, 0},
    {"ParentId", ETL_T_ptr, 0},
    {"UserSID", ETL_T_sid, 0},
    {"ImageFileName", ETL_T_asz, 0},
    {.name = NULL},
};

static const struct etl_field process_1[] = {
    {"PageDirectoryBase", ETL_T_ptr, 0}, {"ProcessId", ETL_T_u32, 0},
    {"ParentId", ETL_T_u32, 0},          {"SessionId", ETL_T_u32, 0},
    {"ExitStatus", ETL_T_i32, 0},        {"UserSID", ETL_T_sid, 0},
    {"ImageFileName", ETL_T_asz, 0},     {.name = NULL},
};

static const struct etl_field process_2[] = {
    {"UniqueProcessKey", ETL_T_ptr, 0}, {"ProcessId", ETL_T_u32, 0},   {"ParentId", ETL_T_u32, 0},
    {"SessionId", ETL_T_u32, 0},        {"ExitStatus", ETL_T_i32, 0},  {"UserSID", ETL_T_sid, 0},
    {"ImageFileName", ETL_T_asz, 0},    {"CommandLine", ETL_T_wsz, 0}, {.name = NULL},
};

static const struct etl_field process_3[] = {
    {"UniqueProcessKey", ETL_T_ptr, 0}, {"ProcessId", ETL_T_u32, 0},
    {"ParentId", ETL_T_u32, 0},         {"SessionId", ETL_T_u32, 0},
    {"ExitStatus", ETL_T_i32, 0},       {"DirectoryTableBase", ETL_T_ptr, 0},
    {"UserSID", ETL_T_sid, 0},          {"ImageFileName", ETL_T_asz, 0},
    {"CommandLine", ETL_T_wsz, 0},      {.name = NULL},
};

static const struct etl_field thread_0[] = {
    {"ThreadId", ETL_T_u32, 0},
    {"ProcessId", ETL_T_u32, 0},
    {.name = NULL},
};

static const struct etl_field thread_1[] = {
    {"ProcessId", ETL_T_u32, 0},     {"ThreadId", ETL_T_u32, 0},
    {"StackBase", ETL_T_ptr, 0},     {"StackLimit", ETL_T_ptr, 0},
    {"UserStackBase", ETL_T_ptr, 0}, {"UserStackLimit", ETL_T_ptr, 0},
    {"StartAddr", ETL_T_ptr, 0},     {"Win32StartAddr", ETL_T_ptr, 0},
    {"WaitMode", ETL_T_i8, 0},       {.name = NULL},
};

static const struct etl_field thread_2[] = {
    {"ProcessId", ETL_T_u32, 0},
    {"ThreadId", ETL_T_u32, 0},
    {"StackBase", ETL_T_ptr, 0},
    {"StackLimit", ETL_T_ptr, 0},
    {"UserStackBase", ETL_T_ptr, 0},
    {"UserStackLimit", ETL_T_ptr, 0},
    {"StartAddr", ETL_T_ptr, 0},
    {"Win32StartAddr", ETL_T_ptr, 0},
    {"TebBase", ETL_T_ptr, 0},
    {"SubProcessTag", ETL_T_u32, 0},
    {.name = NULL},
};

static const struct etl_field image_0[] = {
    {"ImageBase", ETL_T_ptr, 0},
    {"ImageSize", ETL_T_u32, 0},
    {"FileName", ETL_T_wsz, 0},
    {.name = NULL},
};

static const struct etl_field image_1[] = {
    {"ImageBase", ETL_T_ptr, 0},
    {"ImageSize", ETL_T_u32, 0},
    {"ProcessId", ETL_T_u32, 0},
    {"FileName", ETL_T_wsz, 0},
    {.name = NULL},
};

static const struct etl_field image_2[] = {
    {"ImageBase", ETL_T_ptr, 0},
    {"ImageSize", ETL_T_ptr, 0},
    {"ProcessId", ETL_T_u32, 0},
    {"ImageChecksum", ETL_T_u32, 0},
    {"TimeDateStamp", ETL_T_u32, 0},
    {"Reserved0", ETL_T_u32, 0},
    {"DefaultBase", ETL_T_ptr, 0},
    {"Reserved1", ETL_T_u32, 0},
    {"Reserved2", ETL_T_u32, 0},
    {"Reserved3", ETL_T_u32, 0},
    {"Reserved4", ETL_T_u32, 0},
    {"FileName", ETL_T_wsz, 0},
    {.name = NULL},
};

#define ROW(class, what, group_, opcode_, name, version_, fields_)                                 \
    {                                                                                              \
        .class_name = class, .event_name = name, .guid = GUID_##what(), .version = version_,       \
        .header = ETL_SYSTEM64, .group = group_, .opcode = opcode_, .fields = fields_,             \
    }
#define FOUR(class, what, group, version, fields)                                                  \
    ROW(class, what, group, 1, "Start", version, fields),                                          \
        ROW(class, what, group, 2, "End", version, fields),                                        \
        ROW(class, what, group, 3, "DCStart", version, fields),                                    \
        ROW(class, what, group, 4, "DCEnd", version, fields)
#define IMAGES(version, fields)                                                                    \
    ROW("Image", IMAGE, 0x03, 10, "Load", version, fields),                                        \
        ROW("Image", IMAGE, 0x14, 2, "UnLoad", version, fields),                                   \
        ROW("Image", IMAGE, 0x14, 3, "DCStart", version, fields),                                  \
        ROW("Image", IMAGE, 0x14, 4, "DCEnd", version, fields)

static const struct etl_class_row rows[] = {
    FOUR("Process", PROCESS, 0x03, 0, process_0),
    FOUR("Process", PROCESS, 0x03, 1, process_1),
    FOUR("Process", PROCESS, 0x03, 2, process_2),
    FOUR("Process", PROCESS, 0x03, 3, process_3),
    FOUR("Thread", THREAD, 0x05, 0, thread_0),
    FOUR("Thread", THREAD, 0x05, 1, thread_1),
    FOUR("Thread", THREAD, 0x05, 2, thread_2),
    IMAGES(0, image_0),
    IMAGES(1, image_1),
    IMAGES(2, image_2),
};

const struct etl_class_row *etl_find_old_row(const struct etw_guid *class_guid, uint8_t opcode,
                                             uint8_t version)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].opcode == opcode && rows[i].version == version &&
            etw_guid_equal(&rows[i].guid, class_guid))
            return &rows[i];
    return NULL;
}
