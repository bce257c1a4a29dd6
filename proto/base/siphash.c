/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-2-4 as its authors define it (Aumasson, Bernstein 2012). Any thread.
 */
#include "siphash.h"

#include <endian.h>
#include <string.h>

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotl(uint64_t x, unsigned b)
{
    return x << b | x >> (64 - b);
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v2 = rotl(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t m)
{
    s->v3 ^= m;
    sip_round(s);
    sip_round(s);
    s->v0 ^= m;
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

uint64_t etw_siphash24(const void *data, size_t len, const uint8_t key[16])
{
    const uint8_t *p = data;
    uint64_t k0 = load64(key), k1 = load64(key + 8);
    uint64_t last = (uint64_t) len << 56;
    struct sip s = {
        .v0 = k0 ^ 0x736f6d6570736575ULL,
        .v1 = k1 ^ 0x646f72616e646f6dULL,
        .v2 = k0 ^ 0x6c7967656e657261ULL,
        .v3 = k1 ^ 0x7465646279746573ULL,
    };

    for (; len >= 8; len -= 8, p += 8)
        sip_word(&s, load64(p));
    for (size_t i = 0; i < len; i++)
        last |= (uint64_t) p[i] << (8 * i);
    sip_word(&s, last);
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
