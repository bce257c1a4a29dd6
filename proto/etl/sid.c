/* SPDX-License-Identifier: Apache-2.0
 *
 * SIDs: size, text, and those of Linux users. Pure functions, any thread.
 */
#include <stdio.h>
#include <string.h>

#include "build.h"
#include "iterate.h"

/* u8 revision, u8 count, 6 bytes authority (big-endian), count * u32. */
#define SID_FIXED 8u
#define SID_REVISION 1u
#define SID_MAX_SUB_AUTHORITIES 15u

size_t etl_sid_size(const void *data, size_t len)
{
    const uint8_t *p = data;
    size_t size;

    if (len < SID_FIXED || p[0] != SID_REVISION || p[1] > SID_MAX_SUB_AUTHORITIES)
        return 0;
    size = SID_FIXED + 4u * p[1];
    return size <= len ? size : 0;
}

char *etl_sid_format(const void *sid, size_t len, char buf[ETL_SID_STRING_MAX])
{
    const uint8_t *p = sid;
    size_t size = etl_sid_size(sid, len);
    uint64_t authority = 0;
    int used;

    if (size == 0) {
        buf[0] = 0;
        return buf;
    }
    for (int i = 2; i < 8; i++)
        authority = authority << 8 | p[i];
    /* Large authorities are written in hexadecimal, as Windows does. */
    used = snprintf(buf, ETL_SID_STRING_MAX, authority >> 32 ? "S-1-0x%llx" : "S-1-%llu",
                    (unsigned long long) authority);
    for (size_t at = SID_FIXED; at < size; at += 4) {
        uint32_t sub;
        memcpy(&sub, p + at, sizeof(sub));
        used += snprintf(buf + used, ETL_SID_STRING_MAX - (size_t) used, "-%u", sub);
    }
    return buf;
}

uint32_t etl_sid_from_uid(uint32_t uid, uint8_t out[ETL_SID_MAX])
{
    static const uint8_t system[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    /* S-1-22-1-uid: the convention of Samba for Unix users. */
    static const uint8_t unix_user[] = {1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0};

    if (uid == 0) {
        memcpy(out, system, sizeof(system));
        return sizeof(system);
    }
    memcpy(out, unix_user, sizeof(unix_user));
    memcpy(out + sizeof(unix_user), &uid, sizeof(uid));
    return sizeof(unix_user) + sizeof(uid);
}
