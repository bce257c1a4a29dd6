/* SPDX-License-Identifier: Apache-2.0
 *
 * How many bytes a value of each in-type takes in an event's data. Never reads beyond what is
 * there. Pure functions, any thread.
 */
#include <errno.h>
#include <string.h>

#include "etl/iterate.h"
#include "schema.h"

static uint32_t fixed_size(uint16_t in, uint8_t pointer_size)
{
    switch (in) {
    case TDH_INTYPE_INT8:
    case TDH_INTYPE_UINT8:
    case TDH_INTYPE_ANSICHAR:
        return 1;
    case TDH_INTYPE_INT16:
    case TDH_INTYPE_UINT16:
    case TDH_INTYPE_UNICODECHAR:
        return 2;
    case TDH_INTYPE_INT32:
    case TDH_INTYPE_UINT32:
    case TDH_INTYPE_FLOAT:
    case TDH_INTYPE_BOOLEAN:
    case TDH_INTYPE_HEXINT32:
        return 4;
    case TDH_INTYPE_INT64:
    case TDH_INTYPE_UINT64:
    case TDH_INTYPE_DOUBLE:
    case TDH_INTYPE_FILETIME:
    case TDH_INTYPE_HEXINT64:
        return 8;
    case TDH_INTYPE_GUID:
    case TDH_INTYPE_SYSTEMTIME:
        return 16;
    case TDH_INTYPE_POINTER:
    case TDH_INTYPE_SIZET:
        return pointer_size;
    default:
        return 0;
    }
}

/* A NUL-terminated text; the last one of an event may end with the data. */
static uint32_t wide_size(const uint8_t *p, uint32_t left)
{
    for (uint32_t i = 0; i + 1 < left; i += 2)
        if (p[i] == 0 && p[i + 1] == 0)
            return i + 2;
    return left;
}

static uint32_t narrow_size(const uint8_t *p, uint32_t left)
{
    const uint8_t *nul = left ? memchr(p, 0, left) : NULL;
    return nul ? (uint32_t) (nul - p) + 1 : left;
}

/* A count of `width` bytes, then so many bytes. */
static int counted_size(const uint8_t *p, uint32_t left, uint32_t width, bool big_endian,
                        uint32_t *ret)
{
    uint32_t count = 0;

    if (left < width)
        return -EBADMSG;
    memcpy(&count, p, width);
    if (big_endian)
        count = __builtin_bswap16((uint16_t) count);
    if (count > left - width)
        return -EBADMSG;
    *ret = width + count;
    return 0;
}

static int sid_size(const uint8_t *p, uint32_t left, uint32_t *ret)
{
    *ret = (uint32_t) etl_sid_size(p, left);
    return *ret ? 0 : -EBADMSG;
}

/* As classes have it: the SID after a TOKEN_USER, or a zero. */
static int wbem_sid_size(const uint8_t *p, uint32_t left, uint8_t pointer_size, uint32_t *ret)
{
    const uint8_t *sid;
    uint32_t size;
    int r = etl_token_user(p, left, pointer_size, &sid, &size);

    if (r < 0)
        return r;
    *ret = (uint32_t) r;
    return 0;
}

static int told_size(uint64_t size, uint32_t left, uint32_t *ret)
{
    if (size > left)
        return -EBADMSG;
    *ret = (uint32_t) size;
    return 0;
}

int value_size(uint16_t in, uint16_t out, uint32_t length, uint8_t pointer_size, const uint8_t *p,
               uint32_t left, uint32_t *ret)
{
    uint32_t size = fixed_size(in, pointer_size);

    if (size)
        return told_size(size, left, ret);
    switch (in) {
    case TDH_INTYPE_NULL:
        return told_size(0, left, ret);
    case TDH_INTYPE_UNICODESTRING:
        if (length)
            return told_size(2ull * length, left, ret);
        *ret = wide_size(p, left);
        return 0;
    case TDH_INTYPE_ANSISTRING:
        if (length)
            return told_size(length, left, ret);
        *ret = narrow_size(p, left);
        return 0;
    case TDH_INTYPE_NONNULLTERMINATEDSTRING:
    case TDH_INTYPE_NONNULLTERMINATEDANSISTRING:
        return told_size(length ? length : left, left, ret);
    case TDH_INTYPE_BINARY:
        return told_size(length == 0 && out == TDH_OUTTYPE_IPV6 ? 16 : length, left, ret);
    case TDH_INTYPE_SID:
        return sid_size(p, left, ret);
    case TDH_INTYPE_WBEMSID:
        return wbem_sid_size(p, left, pointer_size, ret);
    case TDH_INTYPE_MANIFEST_COUNTEDSTRING:
    case TDH_INTYPE_MANIFEST_COUNTEDANSISTRING:
    case TDH_INTYPE_MANIFEST_COUNTEDBINARY:
    case TDH_INTYPE_COUNTEDSTRING:
    case TDH_INTYPE_COUNTEDANSISTRING:
        return counted_size(p, left, 2, false, ret);
    case TDH_INTYPE_REVERSEDCOUNTEDSTRING:
    case TDH_INTYPE_REVERSEDCOUNTEDANSISTRING:
        return counted_size(p, left, 2, true, ret);
    case TDH_INTYPE_HEXDUMP:
        return counted_size(p, left, 4, false, ret);
    default:
        return -EINVAL;
    }
}

bool value_integer(uint16_t in, const uint8_t *p, uint32_t size, uint64_t *ret)
{
    uint64_t v = 0;

    switch (in) {
    case TDH_INTYPE_INT8:
    case TDH_INTYPE_UINT8:
    case TDH_INTYPE_INT16:
    case TDH_INTYPE_UINT16:
    case TDH_INTYPE_INT32:
    case TDH_INTYPE_UINT32:
    case TDH_INTYPE_INT64:
    case TDH_INTYPE_UINT64:
    case TDH_INTYPE_BOOLEAN:
    case TDH_INTYPE_POINTER:
    case TDH_INTYPE_SIZET:
    case TDH_INTYPE_HEXINT32:
    case TDH_INTYPE_HEXINT64:
        if (size > sizeof(v))
            return false;
        memcpy(&v, p, size);
        *ret = v;
        return true;
    default:
        return false;
    }
}
