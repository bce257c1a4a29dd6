/* SPDX-License-Identifier: Apache-2.0
 *
 * GUID text, random GUIDs, and the GUID that ETW makes of a provider's name. The SHA-1 here serves
 * that definition and nothing else. Any thread.
 */
#include "guid.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <sys/random.h>
#include <wctype.h>

#include "utf8.h"

static char *hex_put(char *to, uint32_t v, unsigned digits)
{
    for (unsigned i = digits; i > 0; i--, v >>= 4)
        to[i - 1] = "0123456789abcdef"[v & 15];
    return to + digits;
}

/* By hand: a dump prints one for each event, and printf(3) was a fifth of its time. */
char *etw_guid_format(const struct etw_guid *g, char buf[ETW_GUID_STRING_MAX])
{
    char *p = hex_put(buf, g->data1, 8);

    *p++ = '-';
    p = hex_put(p, g->data2, 4);
    *p++ = '-';
    p = hex_put(p, g->data3, 4);
    *p++ = '-';
    for (unsigned i = 0; i < sizeof(g->data4); i++) {
        p = hex_put(p, g->data4[i], 2);
        if (i == 1)
            *p++ = '-';
    }
    *p = '\0';
    return buf;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int etw_guid_parse(const char *s, struct etw_guid *ret)
{
    static const uint8_t groups[] = {8, 4, 4, 4, 12};
    uint8_t bytes[16]; /* in the order of the text */
    size_t n = 0;
    bool brace = *s == '{';

    s += brace;
    for (size_t g = 0; g < sizeof(groups); g++) {
        if (g > 0 && *s++ != '-')
            return -EINVAL;
        for (size_t i = 0; i < groups[g]; i += 2) {
            int high = hex_value(s[0]);
            int low = high < 0 ? -1 : hex_value(s[1]);
            if (low < 0)
                return -EINVAL;
            bytes[n++] = (uint8_t) (high << 4 | low);
            s += 2;
        }
    }
    if (brace && *s++ != '}')
        return -EINVAL;
    if (*s)
        return -EINVAL;
    ret->data1 =
        (uint32_t) bytes[0] << 24 | (uint32_t) bytes[1] << 16 | (uint32_t) bytes[2] << 8 | bytes[3];
    ret->data2 = (uint16_t) (bytes[4] << 8 | bytes[5]);
    ret->data3 = (uint16_t) (bytes[6] << 8 | bytes[7]);
    memcpy(ret->data4, bytes + 8, sizeof(ret->data4));
    return 0;
}

int etw_guid_random(struct etw_guid *ret)
{
    struct etw_guid g;
    ssize_t n;

    do
        n = getrandom(&g, sizeof(g), 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (n != (ssize_t) sizeof(g))
        return -EIO;
    g.data3 = (uint16_t) ((g.data3 & 0x0FFF) | 0x4000);
    g.data4[0] = (uint8_t) ((g.data4[0] & 0x3F) | 0x80);
    *ret = g;
    return 0;
}

/* SHA-1, one byte at a time: names are short. */
struct sha1 {
    uint32_t h[5];
    uint64_t bytes;
    uint8_t block[64];
};

static uint32_t rotl32(uint32_t x, unsigned b)
{
    return x << b | x >> (32 - b);
}

static void sha1_block(struct sha1 *s)
{
    uint32_t w[80], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];

    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t) s->block[4 * i] << 24 | (uint32_t) s->block[4 * i + 1] << 16 |
               (uint32_t) s->block[4 * i + 2] << 8 | s->block[4 * i + 3];
    for (unsigned i = 16; i < 80; i++)
        w[i] = rotl32(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (unsigned i = 0; i < 80; i++) {
        uint32_t f, k;
        if (i < 20) {
            f = (b & c) | (~b & d);
            k = 0x5A827999;
        } else if (i < 40) {
            f = b ^ c ^ d;
            k = 0x6ED9EBA1;
        } else if (i < 60) {
            f = (b & c) | (b & d) | (c & d);
            k = 0x8F1BBCDC;
        } else {
            f = b ^ c ^ d;
            k = 0xCA62C1D6;
        }
        uint32_t t = rotl32(a, 5) + f + e + k + w[i];
        e = d;
        d = c;
        c = rotl32(b, 30);
        b = a;
        a = t;
    }
    s->h[0] += a;
    s->h[1] += b;
    s->h[2] += c;
    s->h[3] += d;
    s->h[4] += e;
}

static void sha1_byte(struct sha1 *s, uint8_t b)
{
    s->block[s->bytes++ % 64] = b;
    if (s->bytes % 64 == 0)
        sha1_block(s);
}

static void sha1_finish(struct sha1 *s, uint8_t digest[20])
{
    uint64_t bits = s->bytes * 8;

    sha1_byte(s, 0x80);
    while (s->bytes % 64 != 56)
        sha1_byte(s, 0);
    for (int shift = 56; shift >= 0; shift -= 8)
        sha1_byte(s, (uint8_t) (bits >> shift));
    for (unsigned i = 0; i < 20; i++)
        digest[i] = (uint8_t) (s->h[i / 4] >> (24 - 8 * (i % 4)));
}

static void sha1_unit(struct sha1 *s, uint32_t unit)
{
    sha1_byte(s, (uint8_t) (unit >> 8));
    sha1_byte(s, (uint8_t) unit);
}

int etw_guid_from_name(const char *name, struct etw_guid *ret)
{
    static const uint8_t name_space[16] = {0x48, 0x2C, 0x2D, 0xB2, 0xC3, 0x90, 0x47, 0xC8,
                                           0x87, 0xF8, 0x1A, 0x15, 0xBF, 0xC1, 0x30, 0xFB};
    struct sha1 s = {.h = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0}};
    uint8_t digest[20];
    locale_t locale = (locale_t) 0;
    size_t len = strlen(name);
    int r = 0;

    for (size_t i = 0; i < sizeof(name_space); i++)
        sha1_byte(&s, name_space[i]);
    while (len > 0) {
        uint32_t c;
        size_t n = etw_utf8_decode(name, len, &c);
        if (c == ETW_UTF8_INVALID) {
            r = -EINVAL;
            break;
        }
        if (c >= 'a' && c <= 'z') {
            c -= 'a' - 'A';
        } else if (c >= 0x80 && c < 0x10000) {
            /* The rules of Unicode, whatever the process's locale is. */
            if (!locale)
                locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t) 0);
            if (!locale) {
                r = -errno;
                break;
            }
            c = (uint32_t) towupper_l((wint_t) c, locale);
        }
        if (c >= 0x10000) {
            sha1_unit(&s, 0xD800 + ((c - 0x10000) >> 10));
            sha1_unit(&s, 0xDC00 + ((c - 0x10000) & 0x3FF));
        } else {
            sha1_unit(&s, c);
        }
        name += n;
        len -= n;
    }
    if (locale)
        freelocale(locale);
    if (r < 0)
        return r;
    sha1_finish(&s, digest);
    digest[7] = (uint8_t) ((digest[7] & 0x0F) | 0x50);
    memcpy(ret, digest, sizeof(*ret));
    return 0;
}
