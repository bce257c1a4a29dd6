/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 <-> UTF-16LE, for hostile text. One decoder for each direction; the functions differ only
 * in where the output goes. Any thread.
 */
#include "utf16.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

#define ELLIPSIS 0x2026u

static uint32_t load16(const uint8_t *p)
{
    return (uint32_t) p[0] | (uint32_t) p[1] << 8;
}

size_t etw_utf16_len(const uint16_t *s, size_t max)
{
    size_t n = 0;

    while (n < max && s[n])
        n++;
    return n;
}

size_t etw_utf8_decode(const char *s, size_t len, uint32_t *ret)
{
    const uint8_t *p = (const uint8_t *) s;
    uint32_t c = p[0], min;
    size_t n;

    if (c < 0x80) {
        *ret = c;
        return 1;
    }
    if (c >= 0xC2 && c <= 0xDF) {
        n = 2;
        c &= 0x1F;
        min = 0x80;
    } else if (c >= 0xE0 && c <= 0xEF) {
        n = 3;
        c &= 0x0F;
        min = 0x800;
    } else if (c >= 0xF0 && c <= 0xF4) {
        n = 4;
        c &= 0x07;
        min = 0x10000;
    } else {
        *ret = ETW_UTF8_INVALID;
        return 1;
    }
    for (size_t i = 1; i < n; i++) {
        if (i >= len || (p[i] & 0xC0) != 0x80) {
            /* The bytes so far are one broken character; the next one may be good. */
            *ret = ETW_UTF8_INVALID;
            return i;
        }
        c = c << 6 | (p[i] & 0x3Fu);
    }
    if (c < min || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
        *ret = ETW_UTF8_INVALID;
        return 1;
    }
    *ret = c;
    return n;
}

static uint32_t printable(uint32_t c)
{
    return c == ETW_UTF8_INVALID ? ETW_UTF8_REPLACEMENT : c;
}

size_t etw_utf8_to_utf16_size(const char *s, size_t len)
{
    size_t units = 0;
    uint32_t c;

    if (len == SIZE_MAX)
        len = strlen(s);
    while (len > 0 && *s) {
        size_t n = etw_utf8_decode(s, len, &c);
        units += c != ETW_UTF8_INVALID && c >= 0x10000 ? 2 : 1;
        s += n;
        len -= n;
    }
    return units;
}

static uint8_t *store16(uint8_t *p, uint32_t unit)
{
    p[0] = (uint8_t) unit;
    p[1] = (uint8_t) (unit >> 8);
    return p + 2;
}

size_t etw_utf8_to_utf16(const char *s, size_t len, void *out, size_t cap)
{
    uint8_t *p = out;
    size_t used = 0, before_last = 0;

    if (len == SIZE_MAX)
        len = strlen(s);
    /* Units that fit, the NUL set aside. before_last: where the ellipsis can go. */
    while (len > 0 && *s) {
        uint32_t c;
        size_t n = etw_utf8_decode(s, len, &c);
        c = printable(c);
        size_t units = c >= 0x10000 ? 2 : 1;
        if (units > cap - 1 - used) {
            /* Cut. The last character gives its place to the ellipsis when none is left. */
            if (used == cap - 1)
                used = before_last;
            if (used < cap - 1) {
                (void) store16(p + 2 * used, ELLIPSIS);
                used++;
            }
            break;
        }
        before_last = used;
        if (units == 2) {
            (void) store16(p + 2 * used, 0xD800 + ((c - 0x10000) >> 10));
            (void) store16(p + 2 * used + 2, 0xDC00 + ((c - 0x10000) & 0x3FF));
        } else {
            (void) store16(p + 2 * used, c);
        }
        used += units;
        s += n;
        len -= n;
    }
    (void) store16(p + 2 * used, 0);
    return used;
}

/* One character from n > 0 units. Returns the units taken; a lone surrogate is U+FFFD. */
static size_t utf16_decode(const uint8_t *p, size_t n, uint32_t *ret)
{
    uint32_t c = load16(p);

    if (c >= 0xD800 && c <= 0xDFFF) {
        if (c <= 0xDBFF && n >= 2) {
            uint32_t low = load16(p + 2);
            if (low >= 0xDC00 && low <= 0xDFFF) {
                *ret = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
                return 2;
            }
        }
        c = ETW_UTF8_REPLACEMENT;
    }
    *ret = c;
    return 1;
}

static size_t utf8_bytes(uint32_t c)
{
    return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

static void utf8_store(char *out, uint32_t c)
{
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t n = utf8_bytes(c);

    for (size_t i = n; i > 1; i--) {
        out[i - 1] = (char) (0x80 | (c & 0x3F));
        c >>= 6;
    }
    out[0] = (char) (lead[n] | c);
}

size_t etw_utf16_to_utf8(const void *s, size_t len, char *out, size_t cap)
{
    const uint8_t *p = s;
    size_t used = 0;

    while (len > 0 && load16(p)) {
        uint32_t c;
        size_t n = utf16_decode(p, len, &c);
        if (utf8_bytes(c) > cap - 1 - used)
            break;
        utf8_store(out + used, c);
        used += utf8_bytes(c);
        p += 2 * n;
        if (len != SIZE_MAX)
            len -= n;
    }
    out[used] = 0;
    return used;
}

char *etw_utf16_dup_utf8(const void *s, size_t len)
{
    const uint8_t *p = s;
    size_t bytes = 1, left = len;
    char *out;

    while (left > 0 && load16(p)) {
        uint32_t c;
        size_t n = utf16_decode(p, left, &c);
        bytes += utf8_bytes(c);
        p += 2 * n;
        if (left != SIZE_MAX)
            left -= n;
    }
    out = malloc(bytes);
    if (out)
        (void) etw_utf16_to_utf8(s, len, out, bytes);
    return out;
}

uint16_t *etw_utf8_dup_utf16(const char *s, size_t len)
{
    size_t units = etw_utf8_to_utf16_size(s, len) + 1;
    uint16_t *out = calloc(units, sizeof(*out));

    if (out)
        (void) etw_utf8_to_utf16(s, len, out, units);
    return out;
}
