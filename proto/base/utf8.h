/* SPDX-License-Identifier: Apache-2.0
 *
 * One character of UTF-8 from hostile bytes, and text made safe for a terminal. Pure functions, any
 * thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ETW_UTF8_REPLACEMENT 0xFFFDu
/* What etw_utf8_decode() says of bytes that are no character. */
#define ETW_UTF8_INVALID UINT32_MAX

/* Decodes the character at s (len > 0 bytes are there). Returns the bytes it takes, at least 1;
 * *ret is the code point, or ETW_UTF8_INVALID: overlong, surrogate, above U+10FFFF, cut short. */
size_t etw_utf8_decode(const char *s, size_t len, uint32_t *ret);

/* Copies text (len SIZE_MAX: to the NUL) into at most cap bytes, the NUL included (cap >= 1), so
 * that printing it is harmless: control characters, invalid bytes, line and paragraph separators
 * and direction overrides become \xNN (of each byte), a backslash stays. Cut between characters.
 * Returns the bytes written without the NUL. An embedded NUL is escaped, too. */
size_t etw_escape(const char *s, size_t len, char *out, size_t cap);
