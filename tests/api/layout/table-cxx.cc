/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of our headers as C++ sees them.
 */
#include "table.c"
