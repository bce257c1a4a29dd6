/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting etwd-image (spawn.h). Runs in etwd, main thread.
 */
#include "image/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

/* The child: the socket as descriptor 3, an error pipe as 4 that closes on exec. */
__attribute__((noreturn)) static void run_helper(const char *path, uid_t uid, gid_t gid, int sock,
                                                 int error_fd)
{
    char uid_text[16], gid_text[16];
    const char *argv[] = {"etwd-image", "--fd", "3", NULL, NULL, NULL, NULL, NULL};
    char stream[96];
    char *envp[] = {NULL, NULL};
    const char *journal;
    sigset_t none;
    int null_fd, e;

    if (uid != (uid_t) -1) {
        (void) snprintf(uid_text, sizeof(uid_text), "%u", (unsigned) uid);
        (void) snprintf(gid_text, sizeof(gid_text), "%u", (unsigned) gid);
        argv[3] = "--uid";
        argv[4] = uid_text;
        argv[5] = "--gid";
        argv[6] = gid_text;
    }
    /* The only variable that is of use to it: whether standard error is the journal. */
    journal = getenv("JOURNAL_STREAM");
    if (journal &&
        (size_t) snprintf(stream, sizeof(stream), "JOURNAL_STREAM=%s", journal) < sizeof(stream))
        envp[0] = stream;
    for (int sig = 1; sig < NSIG; sig++)
        (void) signal(sig, SIG_DFL);
    (void) sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL);
    /* A terminal's Ctrl-C is for etwd, which finishes its sessions first. */
    (void) setsid();

    /* Out of the way of 0, 3 and 4, whatever they were. */
    sock = fcntl(sock, F_DUPFD_CLOEXEC, 10);
    error_fd = fcntl(error_fd, F_DUPFD_CLOEXEC, 10);
    null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (sock < 0 || error_fd < 0 || null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(2, 1) < 0 ||
        dup2(sock, 3) < 0 || dup3(error_fd, 4, O_CLOEXEC) < 0 || close_range(5, ~0U, 0) < 0) {
        e = errno;
        if (error_fd >= 0)
            (void) !write(error_fd, &e, sizeof(e));
        _exit(127);
    }
    (void) execve(path, (char *const *) argv, envp);
    e = errno;
    (void) !write(4, &e, sizeof(e));
    _exit(127);
}

bool image_helper_inherits(void)
{
    static const int caps[] = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE};
    for (size_t i = 0; i < ARRAY_SIZE(caps); i++)
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, caps[i], 0, 0) > 0)
            return true;
    return false;
}

int image_helper_spawn(const char *path, uid_t uid, gid_t gid, int *ret_fd, pid_t *ret_pid)
{
    _cleanup_close_ int ours = -1, theirs = -1, error_read = -1, error_write = -1;
    int pair[2], error = 0;
    ssize_t n;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ours = pair[0];
    theirs = pair[1];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    error_read = pair[0];
    error_write = pair[1];

    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        run_helper(path, uid, gid, theirs, error_write);

    safe_close(take_fd(&error_write));
    do
        n = read(error_read, &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    if (n != 0) {
        int r = n == sizeof(error) && error > 0 ? -error : -EIO;

        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return r;
    }
    *ret_fd = take_fd(&ours);
    *ret_pid = pid;
    return 0;
}
