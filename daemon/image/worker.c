/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd-image's worker (worker.h). Single-threaded; once locked in it allocates nothing and logs
 * nothing: an error ends the process, and the broker tells.
 */
#include "image/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "image/elf_identity.h"
#include "image/protocol.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer) ||             \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#if defined(__x86_64__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#else
#error "the worker's system call filter does not know this processor"
#endif

#define ALLOW(nr)                                                                                  \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* x32 calls of x86-64 have a bit of their own in the number, so that no line below lets them in. */
static struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCH, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(__NR_recvmsg),
    ALLOW(__NR_sendto),
    ALLOW(__NR_pread64),
    ALLOW(__NR_close),
    ALLOW(__NR_exit_group),
    ALLOW(__NR_exit),
    ALLOW(__NR_rt_sigreturn),
    ALLOW(__NR_restart_syscall),
#if SANITIZED
    /* What the run-time of a sanitizer needs, to report above all. */
    ALLOW(__NR_write),
    ALLOW(__NR_mmap),
    ALLOW(__NR_munmap),
    ALLOW(__NR_mprotect),
    ALLOW(__NR_madvise),
    ALLOW(__NR_futex),
    ALLOW(__NR_sigaltstack),
    ALLOW(__NR_rt_sigprocmask),
    ALLOW(__NR_rt_sigaction),
    ALLOW(__NR_getpid),
    ALLOW(__NR_gettid),
    ALLOW(__NR_sched_yield),
#endif
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static int drop_capabilities(void)
{
    struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};

    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    if (syscall(SYS_capset, &hdr, none) < 0)
        return -errno;
    return 0;
}

static int set_limit(int resource, rlim_t value)
{
    struct rlimit rl = {.rlim_cur = value, .rlim_max = value};

    return setrlimit((__rlimit_resource_t) resource, &rl) < 0 ? -errno : 0;
}

/* Only the socket stays: as descriptor 0, so that nothing else can be meant by a number. */
static int keep_only(int sock)
{
    if (sock != 0 && dup3(sock, 0, O_CLOEXEC) < 0)
        return -errno;
    /* A sanitizer's report goes to standard error. */
    if (close_range(SANITIZED ? 3 : 1, ~0U, 0) < 0)
        return -errno;
    return 0;
}

static int lock_in(int sock)
{
    struct sock_fprog prog = {.len = ARRAY_SIZE(filter), .filter = filter};
    int r;

    r = drop_capabilities();
    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    /* Descriptors: the socket, one file, one to spare (sanitized: three more). */
    r = set_limit(RLIMIT_NOFILE, 8);
    if (r < 0)
        return r;
    r = set_limit(RLIMIT_FSIZE, 0);
    if (r < 0)
        return r;
    r = set_limit(RLIMIT_CORE, 0);
    if (r < 0)
        return r;
    r = set_limit(RLIMIT_NPROC, 0);
    if (r < 0)
        return r;
    r = set_limit(RLIMIT_MEMLOCK, 0);
    if (r < 0)
        return r;
    /* A sanitizer reserves terabytes of addresses. */
    if (!SANITIZED) {
        r = set_limit(RLIMIT_AS, 64 * 1024 * 1024);
        if (r < 0)
            return r;
    }
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
        return -errno;
    /* Last, with standard error: what failed above can still be told. */
    r = keep_only(sock);
    if (r < 0)
        return r;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0)
        return -errno;
    return 0;
}

static int file_read(void *userdata, uint64_t offset, void *buf, size_t size)
{
    int fd = *(const int *) userdata;
    uint8_t *p = buf;

    while (size > 0) {
        ssize_t n;

        if (offset > INT64_MAX)
            return -ENOEXEC;
        n = pread(fd, p, size, (off_t) offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0) /* shorter than it was when it was opened */
            return -ENOEXEC;
        p += n;
        offset += (uint64_t) n;
        size -= (size_t) n;
    }
    return 0;
}

/* One task; -errno ends the worker. */
static int serve(int sock, uint64_t page_size)
{
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct image_task task;
    struct iovec iov = {.iov_base = &task, .iov_len = sizeof(task)};
    struct msghdr mh = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    struct image_reply reply;
    struct elf_identity id;
    struct cmsghdr *c;
    int fd = -1;
    ssize_t n;
    int r;

    n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (n == 0)
        return -ECONNRESET;
    c = CMSG_FIRSTHDR(&mh);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    if (n != sizeof(task) || (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
        task.protocol != IMAGE_PROTOCOL || fd < 0)
        return -EBADMSG;

    memset(&reply, 0, sizeof(reply));
    reply.protocol = IMAGE_PROTOCOL;
    reply.id = task.id;
    r = elf_read_identity(
        &(struct elf_source){.read = file_read, .userdata = &fd, .size = task.size}, page_size,
        &id);
    (void) close(fd);
    if (r < 0)
        reply.status = r;
    else {
        reply.first_vaddr = id.first_vaddr;
        reply.span = id.span;
        reply.exec_vaddr = id.exec_vaddr;
        reply.exec_offset = id.exec_offset;
        reply.build_id_size = id.build_id_size;
        memcpy(reply.build_id, id.build_id, sizeof(reply.build_id));
    }
    do
        n = send(sock, &reply, sizeof(reply), MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

void image_worker_run(int sock)
{
    long page_size = sysconf(_SC_PAGESIZE);
    int r;

    r = lock_in(sock);
    if (r < 0) {
        log_error("image worker: failed to give up its rights: %s", strerror(-r));
        _exit(IMAGE_WORKER_EXIT_UNSAFE);
    }
    do
        r = serve(0, (uint64_t) page_size);
    while (r == 0);
    _exit(r == -ECONNRESET ? EXIT_SUCCESS : EXIT_FAILURE);
}
