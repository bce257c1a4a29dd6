/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of sysconfig share: sysconfig.c (CPU, platform, network, the list of records),
 * sysdisks.c, sysnics.c. Nobody else includes it, but tests that read a made-up machine. One thread
 * at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "etl/build.h"

struct sysconfig_event {
    enum etl_row row;
    uint32_t size;
    uint8_t *data; /* a whole event, its stamp not set */
};

struct sysconfig {
    struct sysconfig_event *events;
    size_t n_events;
};

/* Where the machine is read from: descriptors of /sys and /proc. */
struct sysconfig_roots {
    int sys;
    int proc;
};

int sysconfig_read_from(const struct sysconfig_roots *roots, struct sysconfig **ret);
uint32_t sysconfig_cpu_mhz_from(const struct sysconfig_roots *roots);

/* An event under construction: sysconfig_begin(), etl_put...(&w, ...), sysconfig_end(). */
int sysconfig_begin(struct etl_writer *w, enum etl_row row);
int sysconfig_end(struct sysconfig *c, struct etl_writer *w, enum etl_row row);

/* First line of a small file, without blanks at its ends. */
int sysconfig_text(int dirfd, const char *path, char *buf, size_t size);
/* Its number; `fallback` when there is none. */
uint64_t sysconfig_number(int dirfd, const char *path, uint64_t fallback);
/* UTF-8 into a field of `count` characters, NUL-padded and NUL-terminated. */
void sysconfig_wide(void *field, size_t count, const char *text);

int sysconfig_add_disks(struct sysconfig *c, const struct sysconfig_roots *roots);
int sysconfig_add_logical_disks(struct sysconfig *c, const struct sysconfig_roots *roots);
int sysconfig_add_nics(struct sysconfig *c, const struct sysconfig_roots *roots);
