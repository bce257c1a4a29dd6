/* SPDX-License-Identifier: Apache-2.0
 *
 * See names.h. Names are hostile; whatever control characters they hold is escaped by who prints
 * them.
 */
#include "names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf16.h"
#include "base/utf8.h"

const char *session_name_fault(const char *name)
{
    size_t len = strlen(name);
    if (len == 0)
        return "the session has no name";
    for (size_t i = 0; i < len;) {
        uint32_t c;
        i += etw_utf8_decode(name + i, len - i, &c);
        if (c == ETW_UTF8_INVALID)
            return "the session's name is not UTF-8";
    }
    if (etw_utf8_to_utf16_size(name, len) > ETW_NAME_MAX)
        return "the session's name is longer than 1024 characters";
    return NULL;
}

static uint32_t fold(uint32_t c)
{
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    if ((c >= 0xC0 && c <= 0xDE && c != 0xD7) || (c >= 0x0391 && c <= 0x03A9) ||
        (c >= 0x0410 && c <= 0x042F))
        return c + 32;
    if (c >= 0x0400 && c <= 0x040F)
        return c + 80;
    /* Capital and small letter in pairs, the capital even or odd. */
    if ((c >= 0x0100 && c <= 0x0137 && c != 0x0130 && c != 0x0131) ||
        (c >= 0x014A && c <= 0x0177) || (c >= 0x0460 && c <= 0x0481) ||
        (c >= 0x048A && c <= 0x04BF) || (c >= 0x04D0 && c <= 0x052F) ||
        (c >= 0x1E00 && c <= 0x1E95) || (c >= 0x1EA0 && c <= 0x1EFF))
        return c | 1;
    if ((c >= 0x0139 && c <= 0x0148) || (c >= 0x0179 && c <= 0x017E))
        return c & 1 ? c + 1 : c;
    return c;
}

/* Folding never leaves the length class of a character, so the text keeps its size. */
static size_t encode(uint32_t c, size_t len, char *out)
{
    switch (len) {
    case 1:
        out[0] = (char) c;
        return 1;
    case 2:
        out[0] = (char) (0xC0 | c >> 6);
        out[1] = (char) (0x80 | (c & 0x3F));
        return 2;
    case 3:
        out[0] = (char) (0xE0 | c >> 12);
        out[1] = (char) (0x80 | (c >> 6 & 0x3F));
        out[2] = (char) (0x80 | (c & 0x3F));
        return 3;
    default:
        return 0;
    }
}

char *session_name_fold(const char *name)
{
    char *out = strdup(name);
    if (!out)
        return NULL;
    size_t len = strlen(out);
    for (size_t i = 0; i < len;) {
        uint32_t c;
        size_t n = etw_utf8_decode(name + i, len - i, &c);
        if (c != ETW_UTF8_INVALID && n <= 3)
            (void) encode(fold(c), n, out + i);
        i += n;
    }
    return out;
}
