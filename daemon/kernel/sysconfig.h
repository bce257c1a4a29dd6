/* SPDX-License-Identifier: Apache-2.0
 *
 * SystemConfig records of this machine (CPU, disks, partitions, NICs, network, platform), from
 * world-readable /proc and /sys files and the rtnetlink address dump.
 */
#pragma once

#include <stdint.h>

struct router;
struct session;
struct sysconfig;

/* Reads the machine: worker thread. Never waits for a network or FUSE file system. What Linux does
 * not tell, or not to everybody, is 0 or empty. */
int sysconfig_read(struct sysconfig **ret);
struct sysconfig *sysconfig_free(struct sysconfig *c);

/* Emits the records into one session, stamped `stamp`: loop thread. `network` alone: the
 * CONFIG_NETINFO record that stands first at the start of a kernel session; sysconfig_emit() does
 * not repeat it. */
void sysconfig_emit(const struct sysconfig *c, struct router *r, struct session *s, uint64_t stamp);
void sysconfig_emit_network(const struct sysconfig *c, struct router *r, struct session *s,
                            uint64_t stamp);

/* Speed of the processors for the log-file header: the nominal one where the kernel tells, else the
 * highest. 0: not known. Any thread. */
uint32_t sysconfig_cpu_mhz(void);
/* When the machine was started (FILETIME), by the present wall clock. Any thread. */
uint64_t sysconfig_boot_filetime(void);
