/* SPDX-License-Identifier: Apache-2.0
 *
 * What the public functions of libtdh share. It is a library of its own, as tdh.dll is on Windows:
 * programs that only write events need no reader of XML.
 */
#pragma once

#include <stdint.h>

#include <tdh.h>

#include "../cancel.h"

/* Leaves a failing code for GetLastError(); returns the code. */
static inline ULONG finish(uint32_t code)
{
    if (code != ERROR_SUCCESS)
        SetLastError(code);
    return code;
}
