/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fuzz target defines. libFuzzer calls it; replay.c does so where there is no libFuzzer.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* 0. Aborts, or is stopped by a sanitizer, when the code under test breaks a promise. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
