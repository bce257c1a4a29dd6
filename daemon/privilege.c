/* SPDX-License-Identifier: Apache-2.0
 *
 * See privilege.h. Raw capset(2): it acts on one thread and needs no library.
 */
#include "privilege.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif

#define KEEP                                                                                       \
    (PRIVILEGE_BIT(CAP_BPF) | PRIVILEGE_BIT(CAP_PERFMON) | PRIVILEGE_BIT(CAP_IPC_LOCK) |           \
     PRIVILEGE_BIT(CAP_SETUID) | PRIVILEGE_BIT(CAP_SETGID))
/* Registered buffers are not charged to RLIMIT_MEMLOCK with it, whenever that happens. */
#define ALWAYS PRIVILEGE_BIT(CAP_IPC_LOCK)

#if defined(__SANITIZE_ADDRESS__)
#define UNDUMPABLE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDUMPABLE 1
#endif
#endif
#ifndef UNDUMPABLE
#define UNDUMPABLE 0
#endif

struct caps {
    uint64_t effective, permitted;
};

static int caps_get(struct caps *ret)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2];
    if (syscall(SYS_capget, &h, d) < 0)
        return -errno;
    ret->effective = d[0].effective | (uint64_t) d[1].effective << 32;
    ret->permitted = d[0].permitted | (uint64_t) d[1].permitted << 32;
    return 0;
}

static int caps_set(const struct caps *c)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2] = {
        {.effective = (uint32_t) c->effective, .permitted = (uint32_t) c->permitted},
        {.effective = (uint32_t) (c->effective >> 32),
         .permitted = (uint32_t) (c->permitted >> 32)},
    };
    return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

int privilege_drop(uid_t uid, gid_t gid)
{
    struct caps c;
    int r;

    r = caps_get(&c);
    if (r < 0)
        return r;
    if (c.permitted & PRIVILEGE_BIT(CAP_SETPCAP))
        for (int cap = 0; cap < 64; cap++) {
            if (KEEP & PRIVILEGE_BIT(cap))
                continue;
            if (prctl(PR_CAPBSET_DROP, cap) < 0)
                break; /* EINVAL: the last capability this kernel knows is behind us */
        }
    (void) prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;

    if (uid != (uid_t) -1) {
        if (prctl(PR_SET_KEEPCAPS, 1) < 0 || setgroups(0, NULL) < 0 ||
            setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
            return -errno;
        (void) prctl(PR_SET_KEEPCAPS, 0);
    }
    c.permitted &= KEEP;
    c.effective = c.permitted & ALWAYS;
    /* No core file, no debugger of another process of this uid, in which other users' events are.
     * The kernel did it for a change of uid, unless it is told not to; a service manager's exec
     * does not. Our own /proc/self stays open to us. Sanitizers look for leaks with ptrace(2). */
    if (geteuid() != 0 && c.permitted && prctl(PR_SET_DUMPABLE, UNDUMPABLE) < 0)
        return -errno;
    return caps_set(&c);
}

int privilege_raise(uint64_t capabilities)
{
    struct caps c;
    int r;

    r = caps_get(&c);
    if (r < 0)
        return r;
    uint64_t missing = capabilities & ~c.permitted;
    c.effective |= capabilities & c.permitted;
    r = caps_set(&c);
    return r < 0 ? r : missing ? -EPERM : 0;
}

void privilege_restore(void)
{
    struct caps c;
    if (caps_get(&c) < 0)
        return;
    /* Giving up cannot be refused. */
    c.effective = c.permitted & ALWAYS;
    (void) caps_set(&c);
}

bool privilege_permitted(uint64_t capabilities)
{
    struct caps c;
    return caps_get(&c) == 0 && (capabilities & ~c.permitted) == 0;
}
