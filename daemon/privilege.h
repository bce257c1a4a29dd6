/* SPDX-License-Identifier: Apache-2.0
 *
 * What etwd may do: permitted BPF, PERFMON, IPC_LOCK, SETUID, SETGID; effective only IPC_LOCK but
 * for the lines between raise and restore. Capabilities belong to threads: both act on the calling
 * one alone, and a thread starts with what its maker had.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Before there are threads. uid, gid: to become them ((uid_t) -1: stay). Afterwards permitted holds
 * no more than the list above, the bounding set neither, and no exec gains anything. */
int privilege_drop(uid_t uid, gid_t gid);

/* Makes capabilities (bits 1 << CAP_X) effective, those of them that are permitted. -EPERM when one
 * is not; what could be raised is raised. */
int privilege_raise(uint64_t capabilities);
void privilege_restore(void);

/* Whether all of them are permitted. */
bool privilege_permitted(uint64_t capabilities);

#define PRIVILEGE_BIT(cap) (1ULL << (cap))
