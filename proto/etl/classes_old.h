/* SPDX-License-Identifier: Apache-2.0
 *
 * The row of a layout that only earlier systems wrote; NULL: none. For classes.c alone, others call
 * etl_find_row(). Any thread.
 */
#pragma once

#include "classes.h"

const struct etl_class_row *etl_find_old_row(const struct etw_guid *class_guid, uint8_t opcode,
                                             uint8_t version);
