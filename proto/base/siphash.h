/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-2-4: a keyed hash of a byte string to 64 bits. Whoever does not know the key cannot make
 * collisions. Pure function, any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t etw_siphash24(const void *data, size_t len, const uint8_t key[16]);
