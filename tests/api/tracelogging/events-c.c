/* SPDX-License-Identifier: Apache-2.0
 *
 * The events in C.
 */
#define RUN events_c
#include "events.h"
