/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoder of the plain LZ77 stream of MS-XCA 2.4. The stream is flag words of 32 bits, highest bit
 * first: 0 is a literal byte, 1 a match of u16 {distance - 1 : 13, length : 3}. Length 7 goes on in
 * half a byte, whose other half serves the next such match; 15 there goes on in a byte, 255 there
 * in a u16, 0 there in a u32.
 */
#include "lz77.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct input {
    const uint8_t *data;
    size_t pos;
    size_t size;
};

static bool take(struct input *in, void *ret, size_t n)
{
    if (in->size - in->pos < n)
        return false;
    memcpy(ret, in->data + in->pos, n);
    in->pos += n;
    return true;
}

/* The length of a match beyond 7. *half is the position of a byte whose high half is unused, or
 * SIZE_MAX. False: the input ended, or the length is one that no encoder writes. */
static bool take_long_length(struct input *in, size_t *half, uint32_t *ret)
{
    uint8_t byte;
    uint16_t word;
    uint32_t length;

    if (*half == SIZE_MAX) {
        *half = in->pos;
        if (!take(in, &byte, 1))
            return false;
        length = byte & 15u;
    } else {
        length = in->data[*half] >> 4;
        *half = SIZE_MAX;
    }
    if (length < 15) {
        *ret = length + 7;
        return true;
    }

    if (!take(in, &byte, 1))
        return false;
    if (byte < 255) {
        *ret = byte + 15u + 7u;
        return true;
    }

    if (!take(in, &word, 2))
        return false;
    length = word;
    if (word == 0 && !take(in, &length, 4))
        return false;
    /* The wide forms state the length minus 3 whole; a shorter one would have had a shorter form.
     */
    if (length < 15 + 7)
        return false;
    *ret = length;
    return true;
}

static void copy_match(uint8_t *out, size_t pos, size_t distance, size_t length)
{
    /* Overlap repeats the last `distance` bytes: memcpy may not see it. */
    if (distance >= length)
        memcpy(out + pos, out + pos - distance, length);
    else
        for (size_t i = 0; i < length; i++)
            out[pos + i] = out[pos + i - distance];
}

ssize_t etl_lz77_decompress(const void *data, size_t in_size, void *out_data, size_t out_size,
                            size_t *ret_good)
{
    struct input in = {.data = data, .size = in_size};
    uint8_t *out = out_data;
    size_t pos = 0, half = SIZE_MAX;
    uint32_t flags = 0;
    unsigned n_flags = 0;
    int r = 0;

    for (;;) {
        uint16_t match;
        uint32_t length;
        size_t distance;

        if (n_flags == 0) {
            if (!take(&in, &flags, 4))
                break;
            n_flags = 32;
        }
        n_flags--;
        /* The regular end is a match bit, or literals, with no input left. */
        if (in.pos == in.size)
            break;

        if (!(flags >> n_flags & 1)) {
            if (pos == out_size) {
                r = -EBADMSG;
                break;
            }
            out[pos++] = in.data[in.pos++];
            continue;
        }

        r = -EBADMSG;
        if (!take(&in, &match, 2))
            break;
        length = match & 7u;
        distance = (size_t) (match >> 3) + 1;
        if (length == 7 && !take_long_length(&in, &half, &length))
            break;
        if (distance > pos || length > UINT32_MAX - 3 || length + 3 > out_size - pos)
            break;
        copy_match(out, pos, distance, length + 3);
        pos += length + 3;
        r = 0;
    }

    if (ret_good)
        *ret_good = pos;
    return r < 0 ? r : (ssize_t) pos;
}
