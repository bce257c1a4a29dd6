/* SPDX-License-Identifier: Apache-2.0
 *
 * GUIDs in tables that are made of .def files: as enumerators, since a const object is no constant
 * expression in C. For classes.c and windows_classes.c.
 */
#pragma once

#include "classes.h"

#define GUID_PARTS(class, a, b, c, d0, d1, d2, d3, d4, d5, d6, d7)                                 \
    enum {                                                                                         \
        GUID_0_##class = a,                                                                        \
        GUID_1_##class = b,                                                                        \
        GUID_2_##class = c,                                                                        \
        GUID_3_##class = d0,                                                                       \
        GUID_4_##class = d1,                                                                       \
        GUID_5_##class = d2,                                                                       \
        GUID_6_##class = d3,                                                                       \
        GUID_7_##class = d4,                                                                       \
        GUID_8_##class = d5,                                                                       \
        GUID_9_##class = d6,                                                                       \
        GUID_10_##class = d7,                                                                      \
    };
#define GUID_OF(class)                                                                             \
    ETW_GUID(GUID_0_##class, GUID_1_##class, GUID_2_##class, GUID_3_##class, GUID_4_##class,       \
             GUID_5_##class, GUID_6_##class, GUID_7_##class, GUID_8_##class, GUID_9_##class,       \
             GUID_10_##class)
