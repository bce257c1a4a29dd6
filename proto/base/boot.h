/* SPDX-License-Identifier: Apache-2.0
 *
 * What tells one run of the machine from another. Any thread.
 */
#pragma once

#include <stdint.h>

/* The boot id: the same until the machine is started again. Zeros where /proc does not tell it. */
void etw_boot_key(uint8_t ret[16]);
