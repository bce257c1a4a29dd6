/* SPDX-License-Identifier: Apache-2.0
 *
 * GUIDs in the Windows memory layout. Pure functions, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct etw_guid {
    uint32_t data1;
    uint16_t data2;
    uint16_t data3;
    uint8_t data4[8];
};

_Static_assert(sizeof(struct etw_guid) == 16, "a GUID is 16 bytes");

/* The eleven numbers that DEFINE_GUID takes, as an initializer. */
#define ETW_GUID(a, b, c, d0, d1, d2, d3, d4, d5, d6, d7)                                          \
    {                                                                                              \
        a, b, c,                                                                                   \
        {                                                                                          \
            d0, d1, d2, d3, d4, d5, d6, d7                                                         \
        }                                                                                          \
    }

/* 36 characters and the NUL. */
#define ETW_GUID_STRING_MAX 37

static inline bool etw_guid_equal(const struct etw_guid *a, const struct etw_guid *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static inline bool etw_guid_is_null(const struct etw_guid *g)
{
    return etw_guid_equal(g, &(const struct etw_guid){0});
}

/* Writes "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" (lower case, no braces); returns buf. */
char *etw_guid_format(const struct etw_guid *g, char buf[ETW_GUID_STRING_MAX]);

/* Reads that form, in either case, with or without braces. -EINVAL for anything else. */
int etw_guid_parse(const char *s, struct etw_guid *ret);

/* A random (version 4) GUID from getrandom(2). -errno on failure. */
int etw_guid_random(struct etw_guid *ret);

/* The GUID that ETW derives from a provider's name (etl-format: SHA-1 over the upper-cased name in
 * UTF-16BE); *Name on command lines means this. -EINVAL when name is not UTF-8. */
int etw_guid_from_name(const char *name, struct etw_guid *ret);
