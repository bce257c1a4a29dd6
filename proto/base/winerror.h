/* SPDX-License-Identifier: Apache-2.0
 *
 * Win32 codes by name inside proto/ and the daemon. The one table is winerror.def; the public
 * winerror.h is generated from it. Pure functions, any thread.
 */
#pragma once

#include <stdint.h>

enum etw_winerror {
#define WINERROR(name, value, text) ETW_##name = value,
#include "winerror.def"
#undef WINERROR
};

/* "ERROR_ACCESS_DENIED", or NULL for a code that the table does not hold. */
const char *etw_winerror_name(uint32_t code);
/* "Access is denied.", or NULL. */
const char *etw_winerror_text(uint32_t code);
/* The nearest Win32 code of a negative errno; 0 for 0. */
uint32_t etw_winerror_from_errno(int r);
