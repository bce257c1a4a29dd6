/* SPDX-License-Identifier: Apache-2.0
 *
 * The words that manifests use without defining them. Pure functions, any thread.
 */
#pragma once

#include "schema.h"

enum word_kind {
    WORD_IN,
    WORD_OUT,
    WORD_LEVEL,
    WORD_OPCODE,
    WORD_TASK,
    WORD_CHANNEL,
    WORD_KEYWORD,
};

bool manifest_word(enum word_kind kind, const char *name, uint64_t *ret);
/* For people; NULL: it has none. */
const char *manifest_word_text(enum word_kind kind, uint64_t value);
/* The out-type of an in-type where the manifest names none. */
uint16_t manifest_default_out(uint16_t in);
