/* SPDX-License-Identifier: Apache-2.0
 *
 * See policy.h. A kernel session's owner may lose the right to it (leave group etw): the right is
 * looked at anew for each call.
 */
#include "policy.h"

bool policy_privileged(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups, gid_t etw_gid)
{
    if (uid == 0)
        return true;
    if (etw_gid == (gid_t) -1)
        return false;
    if (gid == etw_gid)
        return true;
    for (size_t i = 0; i < n_groups; i++)
        if (groups[i] == etw_gid)
            return true;
    return false;
}

bool policy_may_start(const struct peer *p, bool kernel)
{
    return p->privileged || !kernel;
}

bool policy_may_see(const struct peer *p, uid_t owner, bool kernel)
{
    return p->privileged || (!kernel && p->uid == owner);
}

bool policy_may_control(const struct peer *p, uid_t owner, bool kernel)
{
    return policy_may_see(p, owner, kernel);
}
