/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd-image under attack: the real program, with files, processes and requests made to make it
 * hang, crash, tell what it should not, or keep rights it should not have.
 */
#include <check.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "fuse-server.h"
#include "image/protocol.h"
#include "image/spawn.h"
#include "lib/test.h"

#define HELPER_UID 54321u

static int sock = -1;
static pid_t helper = -1;
static uint64_t next_id;

static void start_helper(uid_t uid)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/etwd-image", test_env("ETWD_LIBEXEC"));
    ck_assert_int_eq(image_helper_spawn(path, uid, uid, &sock, &helper), 0);
}

/* Closing the socket must end it, whatever happened before. */
static void stop_helper(void)
{
    int status;

    sock = safe_close(sock);
    ck_assert_int_eq(waitpid(helper, &status, 0), helper);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "etwd-image: status %x", status);
    helper = -1;
}

static void send_packet(const void *data, size_t size, const int *fds, size_t n_fds)
{
    union {
        char buf[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {.iov_base = (void *) data, .iov_len = size};
    struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};

    ck_assert_uint_le(n_fds, 4);
    if (n_fds > 0) {
        struct cmsghdr *c;

        mh.msg_control = &control;
        mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        c = CMSG_FIRSTHDR(&mh);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    ck_assert_int_eq(sendmsg(sock, &mh, MSG_NOSIGNAL), (ssize_t) size);
}

static struct image_reply receive_reply(void)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};
    struct image_reply rep;

    ck_assert_msg(poll(&p, 1, TEST_HANG_LIMIT_S * 1000) == 1, "etwd-image does not answer");
    ck_assert_int_eq(recv(sock, &rep, sizeof(rep), 0), sizeof(rep));
    ck_assert_uint_eq(rep.protocol, IMAGE_PROTOCOL);
    return rep;
}

/* The file as a process has it mapped. */
struct target {
    pid_t pid;
    uint64_t start;
    uint64_t end;
    struct stat st;
    const char *path; /* to be asked for by path as well */
};

static void send_request(const struct target *t, bool with_pidfd)
{
    union {
        struct image_request req;
        char buf[sizeof(struct image_request) + IMAGE_PATH_MAX];
    } packet = {.req = {
                    .protocol = IMAGE_PROTOCOL,
                    .id = ++next_id,
                    .start = t->start,
                    .end = t->end,
                    .dev_major = major(t->st.st_dev),
                    .dev_minor = minor(t->st.st_dev),
                    .inode = t->st.st_ino,
                    .pid = t->pid,
                }};
    size_t path_size = t->path ? strlen(t->path) : 0;
    int pidfd = -1;

    packet.req.path_size = (uint32_t) path_size;
    if (path_size > 0)
        memcpy(packet.req.path, t->path, path_size);
    if (with_pidfd) {
        pidfd = (int) syscall(SYS_pidfd_open, t->pid, 0);
        ck_assert_int_ge(pidfd, 0);
        packet.req.has_pidfd = 1;
    }
    send_packet(&packet, sizeof(packet.req) + path_size, &pidfd, with_pidfd ? 1 : 0);
    safe_close(pidfd);
}

static struct image_reply ask(const struct target *t, bool with_pidfd)
{
    struct image_reply rep;

    send_request(t, with_pidfd);
    rep = receive_reply();
    ck_assert_uint_eq(rep.id, next_id);
    if (rep.status != 0) {
        static const uint8_t none[IMAGE_BUILD_ID_MAX];

        ck_assert_int_lt(rep.status, 0);
        ck_assert_uint_eq(rep.span, 0);
        ck_assert_uint_eq(rep.build_id_size, 0);
        ck_assert_mem_eq(rep.build_id, none, sizeof(none));
    }
    return rep;
}

/* The executable mapping of `path` (as the maps file calls it) in a process. */
static struct target find_mapping(pid_t pid, const char *path)
{
    struct target t = {.pid = pid, .path = NULL};
    char name[64], *maps, *save = NULL;
    bool found = false;

    snprintf(name, sizeof(name), "/proc/%d/maps", pid);
    maps = test_read_file(name, NULL);
    for (char *line = strtok_r(maps, "\n", &save); line && !found;
         line = strtok_r(NULL, "\n", &save)) {
        unsigned long start, end, inode;
        unsigned dev_major, dev_minor;
        char perms[5];
        int at = 0;

        if (sscanf(line, "%lx-%lx %4s %*x %x:%x %lu %n", &start, &end, perms, &dev_major,
                   &dev_minor, &inode, &at) != 6 ||
            at == 0 || perms[2] != 'x' || strncmp(line + at, path, strlen(path)) != 0)
            continue;
        t.start = start;
        t.end = end;
        t.st.st_dev = makedev(dev_major, dev_minor);
        t.st.st_ino = inode;
        found = true;
    }
    free(maps);
    ck_assert_msg(found, "process %d has no mapping of %s", pid, path);
    return t;
}

/* /bin/true kept alive: our own test program is what is mapped for sure. */
static char *own_path(void)
{
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    ck_assert_int_gt(n, 0);
    path[n] = '\0';
    return path;
}

static struct target own_mapping(void)
{
    return find_mapping(getpid(), own_path());
}

static void check_answers(void)
{
    struct target t = own_mapping();
    struct image_reply rep = ask(&t, true);

    ck_assert_int_eq(rep.status, 0);
    ck_assert_uint_gt(rep.span, 0);
}

/* An answer comes before the descriptor it was about is closed, also that of before the count. */
static void wait_fds(pid_t pid, size_t wanted)
{
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100 && test_count_fds(pid) > wanted; i++)
        usleep(10000);
    ck_assert_uint_le(test_count_fds(pid), wanted);
}

static pid_t only_child(pid_t pid)
{
    char name[64], *text;
    int child = -1;

    snprintf(name, sizeof(name), "/proc/%d/task/%d/children", pid, pid);
    text = test_read_file(name, NULL);
    ck_assert_msg(sscanf(text, "%d", &child) == 1, "process %d has no child", pid);
    free(text);
    return child;
}

static char *status_line(pid_t pid, const char *key)
{
    static char value[256];
    char name[64], pattern[64], *text, *line;

    snprintf(name, sizeof(name), "/proc/%d/status", pid);
    text = test_read_file(name, NULL);
    snprintf(pattern, sizeof(pattern), "\n%s:\t", key);
    line = strstr(text, pattern);
    ck_assert_msg(line != NULL, "no %s", key);
    line += strlen(pattern);
    snprintf(value, sizeof(value), "%.*s", (int) strcspn(line, "\n"), line);
    free(text);
    return value;
}

static uint64_t status_hex(pid_t pid, const char *key)
{
    return strtoull(status_line(pid, key), NULL, 16);
}

/* Waits until the process has ended; a zombie that its new parent has not reaped yet has. */
static void wait_gone(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100; i++) {
        FILE *f = fopen(path, "re");
        char state = 'Z';

        if (!f)
            return;
        if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
            state = 'X';
        fclose(f);
        if (state == 'Z' || state == 'X')
            return;
        usleep(10000);
    }
    ck_abort_msg("process %d does not end", pid);
}

START_TEST(identifies)
{
    struct test_output out;
    struct target t;
    struct image_reply rep;
    char hex[2 * IMAGE_BUILD_ID_MAX + 1] = "";
    struct stat st;

    test_need_root();
    start_helper(HELPER_UID);
    t = own_mapping();
    rep = ask(&t, true);
    ck_assert_int_eq(rep.status, 0);
    for (uint32_t i = 0; i < rep.build_id_size; i++)
        snprintf(hex + 2 * i, 3, "%02x", rep.build_id[i]);
    test_run_ok(&out, "readelf", "-nW", own_path());
    ck_assert_msg(rep.build_id_size > 0 && strstr(out.out, hex), "'%s' not in %s", hex, out.out);
    test_output_done(&out);
    ck_assert_int_eq(stat(own_path(), &st), 0);
    ck_assert_uint_eq(rep.change_time_ns, (uint64_t) st.st_ctim.tv_sec * ETW_NSEC_PER_SEC +
                                              (uint64_t) st.st_ctim.tv_nsec);
    stop_helper();
}
END_TEST

START_TEST(rights)
{
    const uint64_t kept = 1ULL << 2 | 1ULL << 19 | 1ULL << 40;
    char fd_dir[64];
    pid_t worker;

    test_need_root();
    start_helper(HELPER_UID);
    check_answers(); /* the worker is there now */
    worker = only_child(helper);

    ck_assert_uint_eq(status_hex(helper, "CapPrm") & ~kept, 0);
    ck_assert_uint_eq(status_hex(helper, "CapEff"), status_hex(helper, "CapPrm"));
    ck_assert_uint_eq(status_hex(worker, "CapPrm"), 0);
    ck_assert_uint_eq(status_hex(worker, "CapEff"), 0);
    ck_assert_str_eq(status_line(worker, "Seccomp"), "2");
    for (int i = 0; i < 2; i++) {
        pid_t pid = i ? worker : helper;
        unsigned long uid;

        ck_assert_uint_eq(status_hex(pid, "CapInh"), 0);
        ck_assert_uint_eq(status_hex(pid, "CapBnd"), 0);
        ck_assert_uint_eq(status_hex(pid, "CapAmb"), 0);
        ck_assert_str_eq(status_line(pid, "NoNewPrivs"), "1");
        ck_assert_int_eq(sscanf(status_line(pid, "Uid"), "%lu", &uid), 1);
        ck_assert_uint_eq(uid, HELPER_UID);
        ck_assert_int_eq(sscanf(status_line(pid, "Gid"), "%lu", &uid), 1);
        ck_assert_uint_eq(uid, HELPER_UID);
        ck_assert_uint_eq(strspn(status_line(pid, "Groups"), " "),
                          strlen(status_line(pid, "Groups")));
    }
    if (!getenv("ETW_SANITIZED"))
        ck_assert_uint_eq(test_count_fds(worker), 1);

    /* Nobody else of that uid can look into either. */
    snprintf(fd_dir, sizeof(fd_dir), "/proc/%d/fd", helper);
    {
        pid_t other = fork();
        int status;

        if (other == 0) {
            if (setresgid(HELPER_UID, HELPER_UID, HELPER_UID) < 0 ||
                setresuid(HELPER_UID, HELPER_UID, HELPER_UID) < 0)
                _exit(2);
            _exit(open(fd_dir, O_RDONLY | O_DIRECTORY) >= 0 ||
                  ptrace(PTRACE_SEIZE, worker, NULL, NULL) == 0);
        }
        ck_assert_int_eq(waitpid(other, &status, 0), other);
        ck_assert_int_eq(status, 0);
    }
    stop_helper();
}
END_TEST

#if defined(__x86_64__)
/* The worker waits in recvmsg(2). Interrupted there, it is made to restart another call instead. */
START_TEST(worker_is_locked_in)
{
    static const unsigned long forbidden[] = {
        __NR_openat,         __NR_execve,
        __NR_socket,         __NR_connect,
        __NR_clone,          __NR_fork,
        __NR_kill,           __NR_ptrace,
        __NR_unlink,         __NR_ioctl,
        __NR_setuid,         __NR_prctl,
        __NR_memfd_create,   __NR_process_vm_readv,
        __NR_io_uring_setup, 0x40000000ul | __NR_recvmsg, /* x32 */
    };

    test_need_root();
    start_helper(HELPER_UID);
    for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
        struct user_regs_struct regs;
        pid_t worker;
        int status;

        check_answers();
        worker = only_child(helper);
        ck_assert_int_eq(ptrace(PTRACE_SEIZE, worker, NULL, NULL), 0);
        for (;;) { /* until it has come back from its answer */
            ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, worker, NULL, NULL), 0);
            ck_assert_int_eq(waitpid(worker, &status, 0), worker);
            ck_assert(WIFSTOPPED(status));
            ck_assert_int_eq(ptrace(PTRACE_GETREGS, worker, NULL, &regs), 0);
            if (regs.orig_rax == __NR_recvmsg && (long) regs.rax < 0)
                break;
            ck_assert_int_eq(ptrace(PTRACE_CONT, worker, NULL, NULL), 0);
            usleep(1000);
        }
        regs.orig_rax = forbidden[i];
        ck_assert_int_eq(ptrace(PTRACE_SETREGS, worker, NULL, &regs), 0);
        ck_assert_int_eq(ptrace(PTRACE_CONT, worker, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(worker, &status, 0), worker);
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS,
                      "system call %#lx: status %x", forbidden[i], status);
    }
    check_answers();
    stop_helper();
}
END_TEST
#endif

START_TEST(worker_crashes)
{
    struct target t;
    pid_t worker;
    struct image_reply rep;

    test_need_root();
    start_helper(HELPER_UID);
    t = own_mapping();
    check_answers();

    /* With nothing to do: nobody notices. */
    for (int i = 0; i < 20; i++) {
        worker = only_child(helper);
        ck_assert_int_eq(kill(worker, SIGSEGV), 0);
        wait_gone(worker);
        check_answers();
    }
    /* With a file in hand: that one is lost. The others in the queue are not. */
    for (int i = 0; i < 5; i++) {
        worker = only_child(helper);
        ck_assert_int_eq(kill(worker, SIGSTOP), 0);
        send_request(&t, true);
        send_request(&t, true);
        usleep(20000); /* let it arrive; it also works when it has not */
        ck_assert_int_eq(kill(worker, SIGSEGV), 0);
        ck_assert_int_eq(kill(worker, SIGCONT), 0);
        rep = receive_reply();
        ck_assert_uint_eq(rep.id, next_id - 1);
        ck_assert_msg(rep.status == -EIO || rep.status == 0, "%d", rep.status);
        rep = receive_reply();
        ck_assert_uint_eq(rep.id, next_id);
        ck_assert_int_eq(rep.status, 0);
    }
    stop_helper();
}
END_TEST

START_TEST(worker_hangs)
{
    struct target t;
    struct image_reply rep;
    uint64_t before;
    pid_t worker;

    test_need_root();
    start_helper(HELPER_UID);
    t = own_mapping();
    check_answers();
    worker = only_child(helper);
    ck_assert_int_eq(kill(worker, SIGSTOP), 0);
    before = etw_clock_boottime();
    send_request(&t, true);
    send_request(&t, true);
    rep = receive_reply();
    ck_assert_int_eq(rep.status, -ETIMEDOUT);
    ck_assert_uint_ge(etw_clock_boottime() - before, (ETW_IMAGE_WORKER_MS - 10) * 1000000ULL);
    rep = receive_reply();
    ck_assert_int_eq(rep.status, 0);
    ck_assert_uint_eq(rep.id, next_id);
    /* Gone and reaped: the child that is left is another one. */
    wait_gone(worker);
    for (int i = 0; only_child(helper) == worker; i++) {
        ck_assert_msg(i < TEST_HANG_LIMIT_S * 100, "the worker that was killed is not reaped");
        usleep(10000);
    }
    stop_helper();
}
END_TEST

/* etwd ends while the worker hangs: both go. */
START_TEST(etwd_ends)
{
    struct target t;
    pid_t worker;

    test_need_root();
    start_helper(HELPER_UID);
    t = own_mapping();
    check_answers();
    worker = only_child(helper);
    ck_assert_int_eq(kill(worker, SIGSTOP), 0);
    send_request(&t, true);
    stop_helper();
    wait_gone(worker);

    /* And when the broker is killed. */
    start_helper(HELPER_UID);
    check_answers();
    worker = only_child(helper);
    ck_assert_int_eq(kill(helper, SIGKILL), 0);
    ck_assert_int_eq(waitpid(helper, NULL, 0), helper);
    wait_gone(worker);
    sock = safe_close(sock);
}
END_TEST

START_TEST(hostile_packets)
{
    union {
        struct image_request req;
        char buf[sizeof(struct image_request) + 2 * IMAGE_PATH_MAX];
    } p;
    struct target t;
    struct image_request valid;
    int pidfd, pipe_fds[2], fds[3];
    size_t before;

    test_need_root();
    start_helper(HELPER_UID);
    t = own_mapping();
    check_answers();
    before = test_count_fds(helper);
    pidfd = (int) syscall(SYS_pidfd_open, getpid(), 0);
    ck_assert_int_ge(pidfd, 0);
    ck_assert_int_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    valid = (struct image_request){.protocol = IMAGE_PROTOCOL,
                                   .id = 77,
                                   .start = t.start,
                                   .end = t.end,
                                   .dev_major = major(t.st.st_dev),
                                   .dev_minor = minor(t.st.st_dev),
                                   .inode = t.st.st_ino,
                                   .pid = getpid(),
                                   .has_pidfd = 1};

#define EXPECT(status_wanted, size, n_fds, first_fd)                                               \
    do {                                                                                           \
        struct image_reply rep_;                                                                   \
        fds[0] = (first_fd);                                                                       \
        fds[1] = fds[2] = pipe_fds[0];                                                             \
        send_packet(&p, (size), fds, (n_fds));                                                     \
        rep_ = receive_reply();                                                                    \
        ck_assert_int_eq(rep_.status, (status_wanted));                                            \
        memset(&p, 'A', sizeof(p));                                                                \
        p.req = valid;                                                                             \
    } while (0)

    memset(&p, 'A', sizeof(p));
    p.req = valid;
    EXPECT(0, sizeof(p.req), 1, pidfd);
    EXPECT(-EBADMSG, 1, 0, -1);
    EXPECT(-EBADMSG, 1, 1, pidfd);
    EXPECT(-EBADMSG, sizeof(p.req) - 1, 1, pidfd);
    p.req.protocol = IMAGE_PROTOCOL + 1;
    EXPECT(-EPROTO, sizeof(p.req), 1, pidfd);
    p.req.path_size = 1; /* but nothing follows */
    EXPECT(-EBADMSG, sizeof(p.req), 1, pidfd);
    EXPECT(-EBADMSG, sizeof(p.req) + 1, 1, pidfd); /* something follows */
    p.req.path_size = UINT32_MAX;
    EXPECT(-EBADMSG, sizeof(p.req) + 5, 1, pidfd);
    p.req.path_size = IMAGE_PATH_MAX + 1;
    EXPECT(-EBADMSG, sizeof(p.req) + IMAGE_PATH_MAX + 1, 1, pidfd);
    p.req.path_size = 2 * IMAGE_PATH_MAX;
    EXPECT(-EBADMSG, sizeof(p), 1, pidfd);
    p.req.path_size = 5;
    memcpy(p.req.path, "/a\0bc", 5);
    EXPECT(-EBADMSG, sizeof(p.req) + 5, 1, pidfd);
    p.req.has_pidfd = 0;
    EXPECT(-EBADMSG, sizeof(p.req), 1, pidfd);
    EXPECT(-EBADMSG, sizeof(p.req), 0, -1); /* says it has one */
    EXPECT(-EBADMSG, sizeof(p.req), 2, pidfd);
    EXPECT(-EBADMSG, sizeof(p.req), 3, pidfd);
    p.req.end = p.req.start;
    EXPECT(-EBADMSG, sizeof(p.req), 1, pidfd);
    p.req.pid = 0;
    EXPECT(-EBADMSG, sizeof(p.req), 1, pidfd);
    p.req.pid = -5;
    EXPECT(-EBADMSG, sizeof(p.req), 1, pidfd);

    /* Descriptors that are no pidfd of that process: as if the process were gone. */
    EXPECT(-ENOENT, sizeof(p.req), 1, pipe_fds[0]);
    p.req.pid = getppid();
    EXPECT(-ENOENT, sizeof(p.req), 1, pidfd);
    p.req.dev_major = UINT64_MAX;
    EXPECT(-ENOENT, sizeof(p.req), 1, pidfd);
    p.req.start = 0;
    p.req.end = UINT64_MAX;
    p.req.inode = UINT64_MAX;
    EXPECT(-ENOENT, sizeof(p.req), 1, pidfd);
    p.req.path_size = IMAGE_PATH_MAX; /* the longest, which is no absolute path */
    p.req.inode++;
    EXPECT(-ENOENT, sizeof(p.req) + IMAGE_PATH_MAX, 1, pidfd);
    EXPECT(0, sizeof(p.req), 1, pidfd);

    wait_fds(helper, before);
    safe_close(pidfd);
    safe_close(pipe_fds[0]);
    safe_close(pipe_fds[1]);
    stop_helper();
}
END_TEST

/* Asked by path, without a process. */
static int ask_path(const char *path)
{
    struct target t = {.start = 0x1000, .end = 0x2000, .path = path};

    ck_assert_int_eq(stat(path, &t.st), 0);
    return ask(&t, false).status;
}

static void copy_file(const char *from, const char *to)
{
    struct test_output out;

    test_run_ok(&out, "cp", from, to);
    test_output_done(&out);
}

START_TEST(hostile_paths)
{
    char *file = test_path("program"), *link = test_path("link"), *dir = test_path("dir"),
         *fifo = test_path("fifo"), *inside = test_path("dir/program"),
         *through = test_path("linked-dir/program"), *linked_dir = test_path("linked-dir"),
         *empty = test_path("empty"), *big = test_path("big"), *script = test_path("script"),
         *elf32 = test_path("elf32");
    char own_fd[64], *bytes;
    struct target t = {.start = 0x1000, .end = 0x2000};
    int fd;

    test_need_root();
    start_helper(HELPER_UID);
    copy_file("/bin/true", file);
    ck_assert_int_eq(ask_path(file), 0);

    /* Another file than the one asked for. */
    ck_assert_int_eq(stat(file, &t.st), 0);
    t.path = "/bin/true";
    ck_assert_int_eq(ask(&t, false).status, -ENOENT);
    t.path = file;
    t.st.st_dev = makedev(0, 3);
    ck_assert_int_eq(ask(&t, false).status, -ENOENT);

    /* A link in the last place and before it; stat() follows, the broker does not. */
    ck_assert_int_eq(symlink(file, link), 0);
    ck_assert_int_eq(ask_path(link), -ENOENT);
    ck_assert_int_eq(mkdir(dir, 0755), 0);
    copy_file("/bin/true", inside);
    ck_assert_int_eq(ask_path(inside), 0);
    ck_assert_int_eq(symlink(dir, linked_dir), 0);
    ck_assert_int_eq(ask_path(through), -ENOENT);
    fd = open(file, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    snprintf(own_fd, sizeof(own_fd), "/proc/%d/fd/%d", getpid(), fd);
    ck_assert_int_eq(ask_path(own_fd), -ENOENT);
    safe_close(fd);

    /* What is no regular file, and would wait or act when opened. */
    ck_assert_int_eq(mkfifo(fifo, 0666), 0);
    ck_assert_int_eq(ask_path(fifo), -EOPNOTSUPP);
    ck_assert_int_eq(ask_path(dir), -EOPNOTSUPP);
    ck_assert_int_eq(ask_path("/dev/null"), -EOPNOTSUPP);
    ck_assert_int_eq(ask_path("/proc/self/status"), -EOPNOTSUPP);

    /* A lease makes open(2) wait for its holder. */
    fd = open(file, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    (void) signal(SIGIO, SIG_IGN);
    ck_assert_int_eq(fcntl(fd, F_SETLEASE, F_WRLCK), 0);
    ck_assert_int_eq(ask_path(file), -ENOENT);
    ck_assert_int_eq(fcntl(fd, F_SETLEASE, F_UNLCK), 0);
    ck_assert_int_eq(ask_path(file), 0);
    safe_close(fd);

    /* Files that are no programs. */
    fd = open(empty, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    safe_close(fd);
    ck_assert_int_eq(ask_path(empty), -ENOEXEC);
    fd = open(script, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "#!/bin/sh\n", 10), 10);
    safe_close(fd);
    ck_assert_int_eq(ask_path(script), -ENOEXEC);
    bytes = test_read_file("/bin/true", NULL);
    bytes[EI_CLASS] = ELFCLASS32;
    fd = open(elf32, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, 4096), 4096);
    safe_close(fd);
    ck_assert_int_eq(ask_path(elf32), -ENOEXEC);
    free(bytes);
    /* A terabyte of nothing. */
    fd = open(big, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    if (ftruncate(fd, 1LL << 40) == 0)
        ck_assert_int_eq(ask_path(big), -ENOEXEC);
    safe_close(fd);

    check_answers();
    stop_helper();
    free(file);
    free(link);
    free(dir);
    free(fifo);
    free(inside);
    free(through);
    free(linked_dir);
    free(empty);
    free(big);
    free(script);
    free(elf32);
}
END_TEST

/* A child that maps the file at `path` executable, says so, and stays until it is killed. prepare,
 * if any, runs in it first. */
static pid_t map_in_child(const char *path, void (*prepare)(void))
{
    int ready[2];
    char c;
    pid_t pid;

    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int fd;

        if (prepare)
            prepare();
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    safe_close(ready[1]);
    ck_assert_msg(read(ready[0], &c, 1) == 1, "the child could not map %s", path);
    safe_close(ready[0]);
    return pid;
}

static void end_child(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(mapped_files)
{
    char *closed_dir = test_path("closed"), *file = test_path("closed/program");
    struct target t;
    pid_t pid;
    int fd;

    test_need_root();
    start_helper(HELPER_UID);
    if (!(status_hex(helper, "CapPrm") & 1ULL << 40))
        test_skip("no CAP_CHECKPOINT_RESTORE here");

    /* Nobody but its owner may read it or reach it. */
    ck_assert_int_eq(mkdir(closed_dir, 0700), 0);
    copy_file("/bin/true", file);
    ck_assert_int_eq(chmod(file, 0700), 0);
    pid = map_in_child(file, NULL);
    t = find_mapping(pid, file);
    ck_assert_int_eq(ask(&t, true).status, 0);
    t.st.st_ino++;
    ck_assert_int_eq(ask(&t, true).status, -ENOENT);
    t.st.st_ino--;
    /* Deleted, and another file in its place. */
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_int_eq(ask(&t, true).status, 0);
    t.path = file;
    copy_file("/bin/sh", file);
    ck_assert_int_eq(ask(&t, true).status, 0);
    /* The process is gone, but its number and the path are in use. */
    end_child(pid);
    ck_assert_int_eq(ask(&t, false).status, -ENOENT);
    t.pid = getpid();
    ck_assert_int_eq(ask(&t, true).status, -ENOENT);

    /* A file without a name. */
    fd = memfd_create("made \033[31m up", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    {
        size_t size;
        char *bytes = test_read_file("/bin/true", &size);

        ck_assert_int_eq(write(fd, bytes, size), (ssize_t) size);
        free(bytes);
    }
    ck_assert(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED);
    t = find_mapping(getpid(), "/memfd:made");
    ck_assert_int_eq(ask(&t, true).status, 0);
    safe_close(fd);
    stop_helper();
    free(closed_dir);
    free(file);
}
END_TEST

static const char *private_mount; /* where prepare mounts */
static char overlay_options[4096];

static void mount_tmpfs(void)
{
    int from = open("/bin/true", O_RDONLY | O_CLOEXEC), to;
    char name[4096], buf[65536];
    ssize_t n;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("hidden", private_mount, "tmpfs", 0, NULL) < 0)
        _exit(1);
    snprintf(name, sizeof(name), "%s/program", private_mount);
    to = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    while ((n = read(from, buf, sizeof(buf))) > 0)
        if (write(to, buf, (size_t) n) != n)
            _exit(1);
}

static void mount_overlay(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("overlay", private_mount, "overlay", 0, overlay_options) < 0)
        _exit(1);
}

/* Files in mount namespaces that etwd-image is not in. */
START_TEST(other_mount_namespaces)
{
    char *point = test_path("point"), *file = test_path("point/program"),
         *lower = test_path("layers/lower"), *layers = test_path("layers"),
         *lower_file = test_path("layers/lower/program");
    char command[4096];
    struct image_reply rep;
    struct test_output out;
    struct target t;
    pid_t pid;

    test_need_root();
    ck_assert_int_eq(mkdir(point, 0755), 0);
    private_mount = point;
    start_helper(HELPER_UID);
    if (!(status_hex(helper, "CapPrm") & 1ULL << 40))
        test_skip("no CAP_CHECKPOINT_RESTORE here");

    pid = map_in_child(file, mount_tmpfs);
    t = find_mapping(pid, file);
    ck_assert_int_eq(ask(&t, true).status, 0);
    end_child(pid);
    ck_assert_int_eq(ask(&t, false).status, -ENOENT);
    stop_helper();

    /* An overlay of layers that nobody knows may lead to a FUSE server: only those that are mounted
     * where etwd-image is, too, are believed. Layers on a tmpfs, which works on any machine. */
    ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    ck_assert_int_eq(mkdir(layers, 0755), 0);
    ck_assert_int_eq(mount("layers", layers, "tmpfs", 0, NULL), 0);
    snprintf(command, sizeof(command), "cd %s && mkdir lower upper work", layers);
    test_run_ok(&out, "sh", "-c", command);
    test_output_done(&out);
    copy_file("/bin/true", lower_file);
    snprintf(overlay_options, sizeof(overlay_options),
             "lowerdir=%s,upperdir=%s/upper,workdir=%s/work", lower, layers, layers);
    start_helper(HELPER_UID);
    pid = map_in_child(file, mount_overlay);
    t = find_mapping(pid, file);
    rep = ask(&t, true);
    ck_assert_int_eq(rep.status, -EOPNOTSUPP);
    end_child(pid);
    stop_helper();

    if (mount("overlay", point, "overlay", 0, overlay_options) < 0)
        test_skip("no overlayfs here: %s", strerror(errno));
    start_helper(HELPER_UID);
    pid = map_in_child(file, NULL);
    t = find_mapping(pid, file);
    ck_assert_int_eq(ask(&t, true).status, 0);
    /* The probe sees the inode of the layer below, on another device. */
    t.st.st_dev = makedev(0, 0xFFFF);
    ck_assert_int_eq(ask(&t, true).status, 0);
    t.st.st_ino++;
    ck_assert_int_eq(ask(&t, true).status, -ENOENT);
    end_child(pid);
    stop_helper();
    ck_assert_int_eq(umount(point), 0);
    ck_assert_int_eq(umount(layers), 0);
    free(point);
    free(file);
    free(lower);
    free(layers);
    free(lower_file);
}
END_TEST

static int fuse_fd = -1;

static void private_namespace(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        _exit(1);
}

/* What maps a file must not hold its server's descriptor: at its end it would wait for itself. */
static void close_fuse(void)
{
    fuse_fd = safe_close(fuse_fd);
}

static void mount_fuse(void)
{
    private_namespace();
    if (fuse_mount_at(fuse_fd, private_mount) < 0)
        _exit(1);
    close_fuse();
}

/* Maps the file in the child first; the mount is out of its sight when it is asked about. */
static void mount_fuse_map_detach(void)
{
    char name[4096];
    int fd;

    mount_fuse();
    (void) snprintf(name, sizeof(name), "%s/program", private_mount);
    fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ||
        umount2(private_mount, MNT_DETACH) < 0)
        _exit(1);
}

/* A file on FUSE whose server does not answer any more: refused, not waited for. */
START_TEST(server_that_hangs)
{
    char *point = test_path("fuse"), *file = test_path("fuse/program"), *content;
    size_t size;

    test_need_root();
    ck_assert_int_eq(mkdir(point, 0755), 0);
    private_mount = point;
    content = test_read_file("/bin/true", &size);
    ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);

    /* Where etwd-image sees the mount; where only the process does; where nobody does. */
    for (int where = 0; where < 3; where++) {
        struct target t;
        pid_t server, pid;
        int r = 0;

        fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (fuse_fd < 0)
            test_skip("no FUSE here: %s", strerror(errno));
        server = fuse_server_start(fuse_fd, content, size);
        ck_assert_int_gt(server, 0);
        if (where == 0) {
            r = fuse_mount_at(fuse_fd, point);
            if (r < 0) {
                end_child(server);
                test_skip("no FUSE mounts here: %s", strerror(-r));
            }
        }
        start_helper(HELPER_UID);
        if (where == 2) {
            /* Under the detached mount another file of that name is what the child maps last. */
            copy_file("/bin/true", file);
            pid = map_in_child(file, mount_fuse_map_detach);
            t = find_mapping(pid, "/program");
        } else {
            pid = map_in_child(file, where == 0 ? close_fuse : mount_fuse);
            t = find_mapping(pid, file);
        }
        ck_assert_int_eq(kill(server, SIGSTOP), 0);

        ck_assert_int_eq(ask(&t, true).status, -EOPNOTSUPP);
        t.path = file;
        ck_assert_int_eq(ask(&t, true).status, -EOPNOTSUPP);
        ck_assert_int_lt(ask(&t, false).status, 0);
        /* The device may be a lie, or that of a file that was mapped there before. */
        t.st.st_dev = makedev(0, 0xFFFE);
        ck_assert_int_lt(ask(&t, true).status, 0);
        check_answers();

        ck_assert_int_eq(kill(server, SIGKILL), 0);
        ck_assert_int_eq(waitpid(server, NULL, 0), server);
        fuse_fd = safe_close(fuse_fd);
        end_child(pid);
        if (where == 0)
            ck_assert_int_eq(umount2(point, MNT_DETACH), 0);
        stop_helper();
    }
    free(content);
    free(point);
    free(file);
}
END_TEST

START_TEST(many_in_order)
{
    struct target good, bad;
    size_t before;
    int n = test_scale(2000);

    test_need_root();
    start_helper(HELPER_UID);
    good = own_mapping();
    bad = good;
    bad.st.st_ino++;
    check_answers();
    before = test_count_fds(helper);
    for (int i = 0; i < n; i += 8) {
        uint64_t first = next_id + 1;

        for (int k = 0; k < 8; k++)
            send_request(k % 2 ? &bad : &good, true);
        for (uint64_t k = 0; k < 8; k++) {
            struct image_reply rep = receive_reply();

            ck_assert_uint_eq(rep.id, first + k);
            ck_assert_int_eq(rep.status, k % 2 ? -ENOENT : 0);
        }
    }
    wait_fds(helper, before);
    stop_helper();
}
END_TEST

START_TEST(started_wrongly)
{
    struct test_output out;
    char path[4096];
    pid_t pid = 0;
    int fd = -5;

    snprintf(path, sizeof(path), "%s/etwd-image", test_env("ETWD_LIBEXEC"));
    test_run(&out, path);
    ck_assert_int_eq(out.status, 2);
    test_output_done(&out);
    test_run(&out, path, "--fd", "0");
    ck_assert_int_eq(out.status, 2);
    ck_assert_ptr_nonnull(strstr(out.err, "not by hand"));
    test_output_done(&out);
    test_run(&out, path, "--fd", "-1");
    ck_assert_int_eq(out.status, 2);
    test_output_done(&out);
    test_run(&out, path, "--fd", "0", "--uid", "5");
    ck_assert_int_eq(out.status, 2);
    test_output_done(&out);
    test_run(&out, path, "--fd", "0", "--uid", "4294967295", "--gid", "1");
    ck_assert_int_eq(out.status, 2);
    test_output_done(&out);
    test_run_ok(&out, path, "--version");
    test_output_done(&out);
    test_run_ok(&out, path, "--help");
    test_output_done(&out);

    ck_assert_int_eq(image_helper_spawn("/nonexistent/etwd-image", 1, 1, &fd, &pid), -ENOENT);
    ck_assert_int_eq(image_helper_spawn("/etc/passwd", 1, 1, &fd, &pid), -EACCES);
    ck_assert_int_eq(fd, -5);
    ck_assert_int_eq(pid, 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("image-helper");
    TCase *t = tcase_create("attacks");

    tcase_add_test(t, identifies);
    tcase_add_test(t, rights);
#if defined(__x86_64__)
    tcase_add_test(t, worker_is_locked_in);
#endif
    tcase_add_test(t, worker_crashes);
    tcase_add_test(t, worker_hangs);
    tcase_add_test(t, etwd_ends);
    tcase_add_test(t, hostile_packets);
    tcase_add_test(t, hostile_paths);
    tcase_add_test(t, mapped_files);
    tcase_add_test(t, other_mount_namespaces);
    tcase_add_test(t, server_that_hangs);
    tcase_add_test(t, many_in_order);
    tcase_add_test(t, started_wrongly);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
