/* SPDX-License-Identifier: Apache-2.0
 *
 * SIDs: size, text, and those of Linux users. Pure functions, any thread.
 */
#include <errno.h>
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

/* The null form is a zero of 4 bytes; but programs that write such events for themselves may leave
 * zeros for the pointers, with a SID after them. */
static bool pointers_are_null(const uint8_t *p, size_t len, size_t token)
{
    static const uint8_t zeros[16 + 2];

    return len > token && memcmp(p, zeros, token) == 0 &&
           etl_sid_size(p + token, len - token) > 8 && memcmp(p + token + 2, zeros, 4) == 0;
}

int etl_token_user(const void *data, size_t len, uint8_t pointer_size, const uint8_t **ret_sid,
                   uint32_t *ret_size)
{
    const uint8_t *p = data;
    size_t token = 2u * (pointer_size == 4 ? 4u : 8u);
    uint32_t first;

    if (len < sizeof(first))
        return -EBADMSG;
    memcpy(&first, p, sizeof(first));
    if (first == 0 && !pointers_are_null(p, len, token)) {
        *ret_sid = p;
        *ret_size = 0;
        return sizeof(first);
    }
    if (len < token)
        return -EBADMSG;
    size_t size = etl_sid_size(p + token, len - token);
    if (size == 0)
        return -EBADMSG;
    *ret_sid = p + token;
    *ret_size = (uint32_t) size;
    return (int) (token + size);
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
