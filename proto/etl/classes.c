/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables that classes.def makes, the class GUIDs of hook ids, and EnableFlags <-> group masks.
 * Constant data and pure functions, any thread.
 */
#include "class_guids.h"

#include <string.h>

#include "../base/cleanup.h"
#include "../base/clock.h"

/* Pass 1: the fields of each layout. */
#define LAYOUT(class, layout, version, header)                                                     \
    static const struct etl_field fields_##class##_##layout[] = {
#define LAYOUT_END(class, layout)                                                                  \
    {                                                                                              \
        NULL                                                                                       \
    }                                                                                              \
    }                                                                                              \
    ;
#define FIXED(type, name) {#name, ETL_T_##type, 0},
#define ARRAY(type, name, count) {#name, ETL_T_##type, count},
#define VAR(type, name) {#name, ETL_T_##type, 0},
#define TL_EVENT(provider, event, level, keyword)                                                  \
    static const struct etl_field fields_##provider##_##event[] = {
#define TL_EVENT_END(provider, event)                                                              \
    {                                                                                              \
        NULL                                                                                       \
    }                                                                                              \
    }                                                                                              \
    ;
#include "classes.def"

/* Pass 2: constants that the rows' initializers need. Enumerators, since a const object is no
 * constant expression in C. */
#define CLASS(class, group, ...) GUID_PARTS(class, __VA_ARGS__)
#define TL_PROVIDER(provider, name, ...)                                                           \
    GUID_PARTS(provider, __VA_ARGS__)                                                              \
    static const char name_##provider[] = name;
#define LAYOUT(class, layout, version, header) enum { HEADER_##class##_##layout = ETL_##header };
#include "classes.def"

/* Pass 2b: how many fields of a layout hold times of the session's clock. Types that do not: 0. */
enum { TIME_stamp = 1, TIME_ticks = 1 };
enum {
    TIME_u8,
    TIME_i8 = 0,
    TIME_u16 = 0,
    TIME_i16 = 0,
    TIME_u32 = 0,
    TIME_i32 = 0,
    TIME_u64 = 0,
    TIME_i64 = 0,
    TIME_hex64 = 0,
    TIME_ptr = 0,
    TIME_ft = 0,
};
#define LAYOUT(class, layout, version, header) enum { TIMES_##class##_##layout = 0
#define LAYOUT_END(class, layout)                                                                  \
    }                                                                                              \
    ;
#define FIXED(type, name) +TIME_##type
#define TL_EVENT(provider, event, level, keyword)                                                  \
    _Static_assert(0
#define TL_EVENT_END(provider, event) == 0, "TraceLogging events have no times to convert");
#include "classes.def"

/* Pass 3: the rows. */
const struct etl_class_row etl_rows[ETL_ROW_COUNT] = {
#define OPCODE(class, layout, name, group_, opcode_, mask_, bit)                                   \
    [ETL_ROW_##class##_##name] = {                                                                 \
        .class_name = #class,                                                                      \
        .event_name = #name,                                                                       \
        .guid = GUID_OF(class),                                                                    \
        .version = ETL_VERSION_##class##_##layout,                                                 \
        .header = HEADER_##class##_##layout,                                                       \
        .group = group_,                                                                           \
        .opcode = opcode_,                                                                         \
        .mask = mask_,                                                                             \
        .mask_bit = bit,                                                                           \
        .fields = fields_##class##_##layout,                                                       \
        .fixed_size = sizeof(struct etl_##class##_##layout),                                       \
        .n_times = TIMES_##class##_##layout,                                                       \
    },
#define TL_EVENT(provider, event, level_, keyword_)                                                \
    [ETL_ROW_##provider##_##event] = {                                                             \
        .class_name = name_##provider,                                                             \
        .event_name = #event,                                                                      \
        .guid = GUID_OF(provider),                                                                 \
        .header = ETL_EVENT64,                                                                     \
        .level = level_,                                                                           \
        .keyword = keyword_,                                                                       \
        .fields = fields_##provider##_##event,                                                     \
        .fixed_size = sizeof(struct etl_##provider##_##event),                                     \
    },
#include "classes.def"
};

struct named_guid {
    struct etw_guid guid;
    const char *name;
};

/* By group of the hook id. */
static const struct named_guid hook_classes[] = {
    {ETW_GUID(0x68fdd900, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3),
     "EventTrace"},
    {ETW_GUID(0x3d6fa8d4, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c),
     "DiskIo"},
    {ETW_GUID(0x3d6fa8d3, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c),
     "PageFault"},
    {ETW_GUID(0x3d6fa8d0, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c),
     "Process"},
    {ETW_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3),
     "FileIo"},
    {ETW_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c),
     "Thread"},
    {ETW_GUID(0x9a280ac0, 0xc8e0, 0x11d1, 0x84, 0xe2, 0x00, 0xc0, 0x4f, 0xb9, 0x98, 0xa2), "TcpIp"},
    {ETW_GUID(0x3282fc76, 0xfeed, 0x498e, 0x8a, 0xa7, 0xe7, 0x0f, 0x45, 0x9d, 0x43, 0x0e), "Job"},
    {ETW_GUID(0xbf3a50c5, 0xa9c9, 0x4988, 0xa0, 0x05, 0x2d, 0xf0, 0xb7, 0xc8, 0x0f, 0x80), "UdpIp"},
    {ETW_GUID(0xae53722e, 0xc863, 0x11d2, 0x86, 0x59, 0x00, 0xc0, 0x4f, 0xa3, 0x21, 0xa1),
     "Registry"},
    {ETW_GUID(0x13976d09, 0xa327, 0x438c, 0x95, 0x0b, 0x7f, 0x03, 0x19, 0x28, 0x15, 0xc7),
     "DbgPrint"},
    {ETW_GUID(0x01853a65, 0x418f, 0x4f36, 0xae, 0xfc, 0xdc, 0x0f, 0x1d, 0x2f, 0xd2, 0x35),
     "SystemConfig"},
    {ETW_GUID(0x99134383, 0x5248, 0x43fc, 0x83, 0x4b, 0x52, 0x94, 0x54, 0xe7, 0x5d, 0xf3), "Lbr"},
    {ETW_GUID(0x42695762, 0xea50, 0x497a, 0x90, 0x68, 0x5c, 0xbb, 0xb3, 0x5e, 0x0b, 0x95), "Wnf"},
    {ETW_GUID(0x0268a8b6, 0x74fd, 0x4302, 0x9d, 0xd0, 0x6e, 0x8f, 0x17, 0x95, 0xc0, 0xcf), "Pool"},
    {ETW_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc),
     "PerfInfo"},
    {ETW_GUID(0x222962ab, 0x6180, 0x4b88, 0xa8, 0x25, 0x34, 0x6b, 0x75, 0xf2, 0xa2, 0x4a),
     "HeapTrace"},
    {ETW_GUID(0x89497f50, 0xeffe, 0x4440, 0x8c, 0xf2, 0xce, 0x6b, 0x1c, 0xdc, 0xac, 0xa7),
     "Object"},
    {ETW_GUID(0xe43445e0, 0x0903, 0x48c3, 0xb8, 0x78, 0xff, 0x0f, 0xcc, 0xeb, 0xdd, 0x04), "Power"},
    {ETW_GUID(0xa9152f00, 0x3f58, 0x4bee, 0x92, 0xa1, 0x70, 0xc7, 0xd0, 0x79, 0xd5, 0xdd),
     "ModBound"},
    {ETW_GUID(0x2cb15d1d, 0x5fc1, 0x11d2, 0xab, 0xe1, 0x00, 0xa0, 0xc9, 0x11, 0xf5, 0x18), "Image"},
    {ETW_GUID(0xb2d14872, 0x7c5b, 0x463d, 0x84, 0x19, 0xee, 0x9b, 0xf7, 0xd2, 0x3e, 0x04), "Dpc"},
    {ETW_GUID(0x7687a439, 0xf752, 0x45b8, 0xb7, 0x41, 0x32, 0x1a, 0xec, 0x0f, 0x8d, 0xf9), "Cc"},
    {ETW_GUID(0x3ac66736, 0xcc59, 0x4cff, 0x81, 0x15, 0x8d, 0xf5, 0x0e, 0x39, 0x81, 0x6b),
     "CritSec"},
    {ETW_GUID(0xdef2fe46, 0x7bd6, 0x4b80, 0xbd, 0x94, 0xf5, 0x7f, 0xe2, 0x0d, 0x0c, 0xe3),
     "StackWalk"},
    {ETW_GUID(0x9aec974b, 0x5b8e, 0x4118, 0x9b, 0x92, 0x31, 0x86, 0xd8, 0x00, 0x2c, 0xe5), "Ums"},
    {ETW_GUID(0x45d8cccd, 0x539f, 0x4b72, 0xa8, 0xb7, 0x5c, 0x68, 0x31, 0x42, 0x60, 0x9a), "ALPC"},
    {ETW_GUID(0xd837ca92, 0x12b9, 0x44a5, 0xad, 0x6a, 0x3a, 0x65, 0xb3, 0x57, 0x8a, 0xa8),
     "SplitIo"},
    {ETW_GUID(0xc861d0e2, 0xa2c1, 0x4d36, 0x9f, 0x9c, 0x97, 0x0b, 0xab, 0x94, 0x3a, 0x12),
     "ThreadPool"},
    {ETW_GUID(0x7f2a405c, 0x69b5, 0x4bf9, 0xa1, 0xf5, 0x30, 0xe8, 0xf1, 0xaf, 0xab, 0x5e),
     "Hypervisor"},
    {ETW_GUID(0x2ce9a149, 0xeffe, 0x42f0, 0xa6, 0x35, 0xa1, 0xd3, 0x9e, 0x26, 0xc8, 0xf2),
     "HypervisorX"},
};
_Static_assert(ARRAY_SIZE(hook_classes) == 0x1F, "groups 0 to 0x1E have a class");

/* Classes that come with their GUID in the event, and control GUIDs. */
static const struct named_guid other_classes[] = {
    {ETW_GUID(0xb3e675d7, 0x2554, 0x4f18, 0x83, 0x0b, 0x27, 0x62, 0x73, 0x25, 0x60, 0xde),
     "ImageId"},
    {ETW_GUID(0x6a399ae0, 0x4bc6, 0x4de9, 0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e),
     "Lost_Event"},
    {ETW_GUID(0xd781ca11, 0x61c0, 0x4387, 0xb8, 0x3d, 0xaf, 0x52, 0xd3, 0xd2, 0xdd, 0x6a),
     "HeapRange"},
    {ETW_GUID(0x05867806, 0xc246, 0x43ef, 0xa1, 0x47, 0xe1, 0x7d, 0x2b, 0xdb, 0x14, 0x96),
     "HeapSummary"},
    {ETW_GUID(0x3beef58a, 0x6e0f, 0x445d, 0xb2, 0xa4, 0x37, 0xab, 0x73, 0x7b, 0xd4, 0x7e),
     "UmglThread"},
    {ETW_GUID(0x9b79ee91, 0xb5fd, 0x41c0, 0xa2, 0x43, 0x42, 0x48, 0xe2, 0x66, 0xe9, 0xd0),
     "SystemPaths"},
    {ETW_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71),
     "EventMetadata"},
    {ETW_GUID(0xed54dff8, 0xc409, 0x4cf6, 0xbf, 0x83, 0x05, 0xe1, 0xe6, 0x1a, 0x09, 0xc4),
     "WinSAT"},
    {ETW_GUID(0x8d40301f, 0xab4a, 0x11d2, 0x9a, 0x93, 0x00, 0x80, 0x5f, 0x85, 0xd7, 0xc6),
     "GenericMessage"},
    {ETW_GUID(0x398191dc, 0x2da7, 0x11d3, 0x8b, 0x98, 0x00, 0x80, 0x5f, 0x85, 0xd7, 0xc6),
     "TraceError"},
    {ETW_GUID(0x9e814aad, 0x3204, 0x11d2, 0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39),
     "SystemTrace"},
    {ETW_GUID(0x3b9c9951, 0x3480, 0x4220, 0x93, 0x77, 0x9c, 0x8e, 0x51, 0x84, 0xf5, 0xcd),
     "KernelRundown"},
};

#define GROUP_PROCESS 0x03
#define GROUP_IMAGE 0x14
#define OPCODE_IMAGE_LOAD 10

const struct etw_guid *etl_hook_guid(uint8_t group, uint8_t opcode)
{
    if (group == GROUP_PROCESS && opcode == OPCODE_IMAGE_LOAD)
        group = GROUP_IMAGE;
    return group < ARRAY_SIZE(hook_classes) ? &hook_classes[group].guid : NULL;
}

const char *etl_class_name(const struct etw_guid *class_guid)
{
    for (size_t i = 0; i < ARRAY_SIZE(hook_classes); i++)
        if (etw_guid_equal(&hook_classes[i].guid, class_guid))
            return hook_classes[i].name;
    for (size_t i = 0; i < ARRAY_SIZE(other_classes); i++)
        if (etw_guid_equal(&other_classes[i].guid, class_guid))
            return other_classes[i].name;
    for (size_t i = 0; i < ARRAY_SIZE(etl_rows); i++)
        if (etw_guid_equal(&etl_rows[i].guid, class_guid))
            return etl_rows[i].class_name;
    return NULL;
}

const struct etl_class_row *etl_find_row(const struct etw_guid *class_guid, uint8_t opcode,
                                         uint8_t version)
{
    const struct etl_class_row *best = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(etl_rows); i++) {
        const struct etl_class_row *row = &etl_rows[i];
        /* The opcode first: it tells most rows apart. TraceLogging events describe themselves. */
        if (row->opcode != opcode || row->version > version || row->header == ETL_EVENT64 ||
            !etw_guid_equal(&row->guid, class_guid))
            continue;
        if (!best || row->version > best->version)
            best = row;
    }
    return best;
}

/* Flags that the masks hold elsewhere than in word 0. */
static const struct {
    uint32_t flag;
    uint8_t word;
    uint32_t bit;
} moved_flags[] = {
    {0x01000000, 1, 0x00000002}, /* PROFILE */
    {0x00000010, 1, 0x00000004}, /* CSWITCH */
    {0x00800000, 1, 0x00000010}, /* DRIVER */
    {0x00000020, 1, 0x00000080}, /* DPC */
    {0x00000800, 1, 0x00000200}, /* DISPATCHER */
    {0x00000040, 1, 0x00004000}, /* INTERRUPT */
    {0x00004000, 1, 0x00008000}, /* VIRTUAL_ALLOC */
    {0x00000080, 2, 0x00000040}, /* SYSTEMCALL */
};

void etl_masks_from_flags(uint32_t flags, uint32_t masks[8])
{
    for (size_t i = 0; i < 8; i++)
        masks[i] = 0;
    for (size_t i = 0; i < ARRAY_SIZE(moved_flags); i++) {
        if (!(flags & moved_flags[i].flag))
            continue;
        flags &= ~moved_flags[i].flag;
        masks[moved_flags[i].word] |= moved_flags[i].bit;
    }
    masks[0] = flags;
}

uint32_t etl_flags_from_masks(const uint32_t masks[8])
{
    uint32_t flags = masks[0];

    for (size_t i = 0; i < ARRAY_SIZE(moved_flags); i++)
        if (masks[moved_flags[i].word] & moved_flags[i].bit)
            flags |= moved_flags[i].flag;
    return flags;
}

const struct etl_enable_flag etl_enable_flags[] = {
    {0x00000001, "process", ETL_FLAG_PROBED},
    {0x00000002, "thread", ETL_FLAG_PROBED},
    {0x00000004, "image", ETL_FLAG_PROBED},
    {0x00000008, "process_counters", ETL_FLAG_LATER},
    {0x00000010, "cswitch", ETL_FLAG_PROBED},
    {0x00000020, "dpc", ETL_FLAG_LATER},
    {0x00000040, "interrupt", ETL_FLAG_LATER},
    {0x00000080, "syscall", ETL_FLAG_LATER},
    {0x00000100, "disk_io", ETL_FLAG_LATER},
    {0x00000200, "disk_file_io", ETL_FLAG_LATER},
    {0x00000400, "disk_io_init", ETL_FLAG_LATER},
    {0x00000800, "dispatcher", ETL_FLAG_PROBED},
    {0x00001000, "page_faults", ETL_FLAG_LATER},
    {0x00002000, "hard_faults", ETL_FLAG_LATER},
    {0x00004000, "virtual_alloc", ETL_FLAG_LATER},
    {0x00008000, "vamap", ETL_FLAG_LATER},
    {0x00010000, "network", ETL_FLAG_LATER},
    {0x00020000, "registry", ETL_FLAG_INERT},
    {0x00040000, "dbgprint", ETL_FLAG_LATER},
    {0x00080000, "job", ETL_FLAG_LATER},
    {0x00100000, "alpc", ETL_FLAG_INERT},
    {0x00200000, "split_io", ETL_FLAG_LATER},
    {0x00400000, "debug_events", ETL_FLAG_LATER},
    {0x00800000, "driver", ETL_FLAG_INERT},
    {0x01000000, "profile", ETL_FLAG_LATER},
    {0x02000000, "file_io", ETL_FLAG_LATER},
    {0x04000000, "file_io_init", ETL_FLAG_LATER},
    {0x10000000, "no_sysconfig", ETL_FLAG_CONTROL},
    {0x20000000, "enable_reserve", ETL_FLAG_INERT},
    {0x40000000, "forward_wmi", ETL_FLAG_INERT},
    {0x80000000, "extension", ETL_FLAG_LATER},
    {0, NULL, ETL_FLAG_LATER},
};
