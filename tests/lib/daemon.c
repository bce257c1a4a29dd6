/* SPDX-License-Identifier: Apache-2.0
 *
 * A private etwd for tests. It stays in the process group of the test, which Check kills when the
 * test's process ends, whatever way it ends. See test.h.
 */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_US 5000
#define HANG_TICKS (TEST_HANG_LIMIT_S * (1000000 / TICK_US))

char *test_daemon_log(const struct test_daemon *d)
{
    return test_read_file(d->log, NULL);
}

static void exec_daemon(const struct test_daemon *d, const char *const args[])
{
    /* Not by the machine's configuration. */
    const char *argv[64] = {getenv("ETWD"), "--runtime-dir", d->dir, "--config", "/dev/null"};
    size_t n = 5;
    int in, err;

    for (size_t i = 0; args && args[i]; i++) {
        if (n + 1 >= sizeof(argv) / sizeof(argv[0]))
            _exit(126);
        argv[n++] = args[i];
    }
    in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    err = open(d->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (in < 0 || err < 0 || dup2(in, 0) < 0 || dup2(err, 1) < 0 || dup2(err, 2) < 0)
        _exit(126);
    /* The socket of an outer test must not be taken for an order to listen there. */
    unsetenv("ETWD_SOCKET");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("NOTIFY_SOCKET");
    (void) execv(argv[0], (char *const *) argv);
    fprintf(stderr, "cannot run %s: %m\n", argv[0]);
    _exit(127);
}

static bool accepts(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd, r;

    if (strlen(path) >= sizeof(a.sun_path))
        ck_abort_msg("the socket's path is too long: %s", path);
    memcpy(a.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        ck_abort_msg("socket: %m");
    r = connect(fd, (struct sockaddr *) &a, sizeof(a));
    close(fd);
    return r == 0;
}

/* Waits for its end; false after the hang limit. */
static bool reap(struct test_daemon *d, int *ret_status)
{
    for (int i = 0; i < HANG_TICKS; i++) {
        pid_t pid = waitpid(d->pid, ret_status, WNOHANG);

        if (pid == d->pid) {
            d->pid = 0;
            return true;
        }
        if (pid < 0)
            ck_abort_msg("waitpid of etwd: %m");
        usleep(TICK_US);
    }
    return false;
}

void test_daemon_again(struct test_daemon *d, const char *const args[])
{
    int status;

    (void) test_env("ETWD");
    d->pid = fork();
    if (d->pid < 0)
        ck_abort_msg("fork: %m");
    if (d->pid == 0)
        exec_daemon(d, args);
    setenv("ETWD_SOCKET", d->socket, 1);
    for (int i = 0; i < HANG_TICKS; i++) {
        if (accepts(d->socket))
            return;
        if (waitpid(d->pid, &status, WNOHANG) == d->pid) {
            d->pid = 0;
            ck_abort_msg("etwd ended at its start with status 0x%x; it wrote:\n%s", status,
                         test_daemon_log(d));
        }
        usleep(TICK_US);
    }
    kill(d->pid, SIGKILL);
    ck_abort_msg("etwd does not answer on %s; it wrote:\n%s", d->socket, test_daemon_log(d));
}

struct test_daemon *test_daemon_start_args(const char *const args[])
{
    static int count;
    struct test_daemon *d = calloc(1, sizeof(*d));

    if (!d || asprintf(&d->dir, "%s/run%d", test_tempdir(), count) < 0 ||
        asprintf(&d->socket, "%s/control.sock", d->dir) < 0 ||
        asprintf(&d->log, "%s/etwd%d.log", test_tempdir(), count) < 0)
        ck_abort_msg("out of memory");
    count++;
    if (mkdir(d->dir, 0755) < 0)
        ck_abort_msg("mkdir %s: %m", d->dir);
    test_daemon_again(d, args);
    return d;
}

void test_daemon_alive(const struct test_daemon *d)
{
    siginfo_t info = {0};

    if (d->pid == 0 || waitid(P_PID, (id_t) d->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        info.si_pid != 0)
        ck_abort_msg("etwd has died (status %d); it wrote:\n%s", info.si_status,
                     test_daemon_log(d));
}

void test_daemon_stop(struct test_daemon *d)
{
    int status;

    test_daemon_alive(d);
    if (kill(d->pid, SIGTERM) < 0)
        ck_abort_msg("kill: %m");
    if (!reap(d, &status)) {
        kill(d->pid, SIGKILL);
        ck_abort_msg("etwd does not end on SIGTERM; it wrote:\n%s", test_daemon_log(d));
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        ck_abort_msg("etwd ended on SIGTERM with status 0x%x; it wrote:\n%s", status,
                     test_daemon_log(d));
}

void test_daemon_kill(struct test_daemon *d)
{
    int status;

    if (d->pid == 0)
        return;
    if (kill(d->pid, SIGKILL) < 0)
        ck_abort_msg("kill -9: %m");
    if (!reap(d, &status))
        ck_abort_msg("etwd does not end on SIGKILL");
    /* Its io_uring holds the listening socket a moment longer than the process lives. */
    for (int i = 0; i < HANG_TICKS && accepts(d->socket); i++)
        usleep(TICK_US);
}

struct test_daemon *test_daemon_free(struct test_daemon *d)
{
    if (!d)
        return NULL;
    test_daemon_kill(d);
    test_remove_tree(d->dir);
    free(d->dir);
    free(d->socket);
    free(d->log);
    free(d);
    return NULL;
}

size_t test_count_fds(pid_t pid)
{
    char path[64];
    struct dirent *e;
    size_t n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
    dir = opendir(path);
    if (!dir)
        ck_abort_msg("cannot open %s: %m", path);
    while ((e = readdir(dir)))
        if (e->d_name[0] != '.')
            n++;
    closedir(dir);
    return n;
}

size_t test_resident_kb(pid_t pid)
{
    char path[64];
    char *text, *line;
    size_t kb = 0;

    snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
    text = test_read_file(path, NULL);
    line = strstr(text, "\nVmRSS:");
    if (!line || sscanf(line, "\nVmRSS: %zu", &kb) != 1)
        ck_abort_msg("no VmRSS in %s", path);
    free(text);
    return kb;
}
