/* SPDX-License-Identifier: Apache-2.0
 *
 * What the other rooms of the library may know of providers. Any thread.
 */
#pragma once

#include <stdbool.h>

/* Whether this thread is inside an enable callback: a call that would wait until callbacks ran must
 * not wait then. */
bool provider_in_callback(void);
