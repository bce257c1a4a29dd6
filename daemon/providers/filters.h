/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of an enable request; see filters.c. Loop thread only.
 */
#pragma once

#include "process.h"

struct filter_refusal {
    uint32_t status; /* Win32 */
    const char *why; /* static text */
};

int enable_properties_check(uint32_t properties, struct filter_refusal *refusal);
/* The block of an enable, with its filters; session and number are set. In a transaction. owner and
 * all_uids are the caller's to set. Negative, and the refusal. */
int enable_image_make(struct providers *p, const struct enable_request *req, struct enable *e,
                      struct filter_refusal *refusal);
