/* SPDX-License-Identifier: Apache-2.0
 *
 * For file.c alone: an event's stamp from its first bytes, without the whole event.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False when the bytes do not hold a stamp, or none can be told without the rest. 36 bytes always
 * suffice for the kinds that have one. */
bool etl_peek_stamp(const void *data, size_t len, uint64_t *ret);
