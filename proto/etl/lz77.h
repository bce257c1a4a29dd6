/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain LZ77 of MS-XCA (XPRESS without Huffman), in which relogged files compress their buffers.
 * Hostile-safe: no read or write outside the two areas. No allocation, any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Decompresses in[0 .. in_size) into out, at most out_size bytes. The number of bytes written;
 * -EBADMSG when the stream is damaged or would write more: what came before is in out, its length
 * in *ret_good (may be NULL). */
ssize_t etl_lz77_decompress(const void *in, size_t in_size, void *out, size_t out_size,
                            size_t *ret_good);
