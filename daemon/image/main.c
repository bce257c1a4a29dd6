/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd-image: tells etwd the build-id and load addresses of executable files. Started by etwd with
 * one end of a socketpair while etwd is still root; gives up everything but the three rights that
 * opening other processes' mapped files takes, then is the broker (broker.h), which has the files
 * read by a worker without any (worker.h). Not for use by hand.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "image/broker.h"

#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

/* What the broker keeps: /proc/PID of every process; reading programs that are executable only, in
 * directories closed to others; /proc/PID/map_files. */
static const struct {
    unsigned cap;
    const char *name;
} kept[] = {
    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"},
    {CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE"},
};

static int usage(FILE *to, int status)
{
    (void) fputs("Usage: etwd-image --fd N [--uid UID --gid GID]\n"
                 "\n"
                 "Reads the identity of executable files for etwd, which starts it. N is its end\n"
                 "of a SOCK_SEQPACKET socketpair.\n",
                 to);
    return status;
}

static bool parse_id(const char *s, unsigned long max, unsigned long *ret)
{
    char *end;
    unsigned long v;

    if (*s < '0' || *s > '9')
        return false;
    errno = 0;
    v = strtoul(s, &end, 10);
    if (errno != 0 || *end != '\0' || v > max)
        return false;
    *ret = v;
    return true;
}

static int check_socket(int fd)
{
    int type, domain;
    socklen_t len = sizeof(type);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
        return -errno;
    len = sizeof(domain);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0)
        return -errno;
    return type == SOCK_SEQPACKET && domain == AF_UNIX ? 0 : -EPROTOTYPE;
}

/* Changes to uid and gid when given and leaves the kept capabilities, as far as they were there, in
 * the permitted and effective sets and nothing in any other. */
static int drop_rights(bool change, uid_t uid, gid_t gid)
{
    struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2], want[2] = {{0}, {0}};

    /* Neither a file nor root's uid shall bring anything back. EPERM: no CAP_SETPCAP, so there is
     * an ordinary user; no_new_privs below keeps it so. */
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EPERM)
            return -errno;
    if (change) {
        if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
            return -errno;
        /* An ordinary user that starts it as itself has no groups to give up. */
        if (setgroups(0, NULL) < 0 && (geteuid() == 0 || errno != EPERM))
            return -errno;
        if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
            return -errno;
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;

    if (syscall(SYS_capget, &hdr, have) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
        unsigned word = kept[i].cap / 32;
        uint32_t bit = 1u << (kept[i].cap % 32);

        if (have[word].permitted & bit) {
            want[word].permitted |= bit;
            want[word].effective |= bit;
        } else
            log_notice("without %s: some images will come without identity", kept[i].name);
    }
    if (syscall(SYS_capset, &hdr, want) < 0 || prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0)
        return -errno;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    /* No other process of this uid may look into it or take over its rights. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    return 0;
}

int main(int argc, char *argv[])
{
    static const struct option options[] = {
        {"fd", required_argument, NULL, 'f'},  {"uid", required_argument, NULL, 'u'},
        {"gid", required_argument, NULL, 'g'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},   {0},
    };
    static const struct rlimit no_core = {0, 0};
    unsigned long fd = 0, uid = 0, gid = 0;
    bool have_fd = false, have_uid = false, have_gid = false;
    int c, r;

    etw_log_init("etwd-image", ETW_LOG_NOTICE);
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'f':
            have_fd = parse_id(optarg, INT32_MAX, &fd);
            if (!have_fd)
                return usage(stderr, 2);
            break;
        case 'u':
            have_uid = parse_id(optarg, UINT32_MAX - 1, &uid);
            if (!have_uid)
                return usage(stderr, 2);
            break;
        case 'g':
            have_gid = parse_id(optarg, UINT32_MAX - 1, &gid);
            if (!have_gid)
                return usage(stderr, 2);
            break;
        case 'h':
            return usage(stdout, 0);
        case 'V':
            (void) puts("etwd-image " ETWD_VERSION);
            return 0;
        default:
            return usage(stderr, 2);
        }
    if (optind != argc || !have_fd || have_uid != have_gid)
        return usage(stderr, 2);

    r = check_socket((int) fd);
    if (r < 0) {
        log_error(
            "descriptor %lu is not a SOCK_SEQPACKET socket (%s): etwd-image is started by etwd, "
            "not by hand",
            fd, strerror(-r));
        return 2;
    }
    if (fcntl((int) fd, F_SETFD, FD_CLOEXEC) < 0 || chdir("/") < 0 ||
        setrlimit(RLIMIT_CORE, &no_core) < 0) {
        log_error("failed to prepare the process: %s", strerror(errno));
        return 1;
    }
    (void) umask(077);
    r = drop_rights(have_uid, (uid_t) uid, (gid_t) gid);
    if (r < 0) {
        log_error("failed to give up rights: %s", strerror(-r));
        return 1;
    }
    r = image_broker_run((int) fd);
    if (r < 0) {
        log_error("cannot go on: %s; images come without identity until etwd is started again",
                  strerror(-r));
        return 1;
    }
    return 0;
}
