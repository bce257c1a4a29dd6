/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that has a descriptor. Any thread.
 */
#pragma once

#include <stddef.h>

/* A memfd of `size` bytes with these seals (F_SEAL_*): closed at exec, never to be executed, and
 * 0600, since a memfd is born 0777 and whoever sees a descriptor could open it again for writing.
 * The name is seen in /proc. Returns the descriptor, or -errno. */
int etw_memfd(const char *name, size_t size, int seals);
