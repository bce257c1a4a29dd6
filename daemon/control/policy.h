/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may do what: one table, pure functions. It knows peers and owners by number; where those
 * numbers come from is the server's business.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct peer {
    uid_t uid;
    gid_t gid;
    pid_t pid;
    bool privileged; /* root or group etw: policy_privileged() said so when it connected */
};

/* etw_gid: (gid_t) -1 where there is no such group. */
bool policy_privileged(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups, gid_t etw_gid);

/* Starting a session that only sees events of its owner's processes, and one that sees the
 * kernel's. */
bool policy_may_start(const struct peer *p, bool kernel);
/* Seeing a session in lists, asking for its state. */
bool policy_may_see(const struct peer *p, uid_t owner, bool kernel);
/* Stopping, flushing, changing it. */
bool policy_may_control(const struct peer *p, uid_t owner, bool kernel);
