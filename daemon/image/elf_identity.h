/* SPDX-License-Identifier: Apache-2.0
 *
 * What an executable file says of itself: where its segments lie in memory and its build-id. Not an
 * ELF library: 64-bit little-endian files only, no sections, no symbols. Every byte of the file is
 * hostile: it is read once into a private copy, checked, then used; the work is bounded. No memory
 * is allocated. Any thread; in etwd-image it runs in the worker alone.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "image/protocol.h"

/* The file: read() gives exactly `size` bytes at `offset` or -errno. It is never asked for bytes
 * beyond `size` of the file. */
struct elf_source {
    int (*read)(void *userdata, uint64_t offset, void *buf, size_t size);
    void *userdata;
    uint64_t size;
};

struct elf_identity {
    uint64_t first_vaddr; /* lowest PT_LOAD, page-aligned down */
    uint64_t span;        /* from there to the page-aligned end of the highest */
    uint64_t exec_vaddr;  /* the first executable PT_LOAD; the first PT_LOAD if none is */
    uint64_t exec_offset;
    uint32_t build_id_size; /* 0: the file has none */
    uint8_t build_id[IMAGE_BUILD_ID_MAX];
};

/* 0; -ENOEXEC: not a 64-bit little-endian ELF program or library, or a malformed one; or what
 * read() returned. page_size: a power of two. */
int elf_read_identity(const struct elf_source *src, uint64_t page_size, struct elf_identity *ret);
