/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 <-> UTF-16LE. Input may be hostile: what is not valid becomes U+FFFD, nothing is read past
 * the given length, and output is cut only between characters. Pure functions, any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Number of UTF-16 units before the NUL, at most max. */
size_t etw_utf16_len(const uint16_t *s, size_t max);

/* Converts len bytes (SIZE_MAX: up to the NUL) of UTF-8 into at most cap units, the NUL included
 * (cap >= 1; the output always ends in NUL; `out` need not be aligned). A NUL ends the text.
 * Returns the number of units written without the NUL. When the text does not fit it is cut between
 * characters and, with room for it, ends in U+2026. */
size_t etw_utf8_to_utf16(const char *s, size_t len, void *out, size_t cap);

/* Units that the whole text takes, without the NUL. */
size_t etw_utf8_to_utf16_size(const char *s, size_t len);

/* Converts len units (SIZE_MAX: up to the NUL) into at most cap bytes, the NUL included (cap >= 1).
 * `s` need not be aligned. Returns the bytes written without the NUL; cut between characters. */
size_t etw_utf16_to_utf8(const void *s, size_t len, char *out, size_t cap);

/* The same into memory of malloc(3); NULL when there is none. */
char *etw_utf16_dup_utf8(const void *s, size_t len);
uint16_t *etw_utf8_dup_utf16(const char *s, size_t len);
