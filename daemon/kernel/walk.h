/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over the machine's tasks and executable mappings by BPF iterators, with the command lines
 * from /proc. Made on the worker thread, read on the loop thread, immutable in between.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernel/raw.h"

struct walk {
    uint8_t *records; /* etl_record + raw struct, one after the other, as checked by walk_next() */
    size_t size, cap;
    /* Command lines of processes, by tgid as they came: NUL-separated arguments. */
    struct walk_command *commands;
    size_t n_commands, commands_cap;
};

struct walk_command {
    uint32_t tgid;
    uint32_t size;
    char *args;
};

/* Reads the iterators behind the links (-1: not that one), then /proc/PID/cmdline of every user
 * process. A process that is gone by then has no command line. */
int walk_new(int task_link, int vma_link, struct walk **ret);
struct walk *walk_free(struct walk *w);

/* The next record at *offset whose size is right, or NULL at the end. */
const struct etl_record *walk_next(const struct walk *w, size_t *offset);
/* NULL: none. Binary search: commands are sorted. */
const struct walk_command *walk_command_find(const struct walk *w, uint32_t tgid);
