/* SPDX-License-Identifier: Apache-2.0
 *
 * Temporary folders, files and commands of tests. See test.h.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *tempdir;
static pid_t tempdir_owner;

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void) st;
    (void) flag;
    (void) ftw;
    (void) remove(path);
    return 0;
}

void test_remove_tree(const char *path)
{
    (void) nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static void remove_tempdir(void)
{
    if (tempdir && tempdir_owner == getpid())
        test_remove_tree(tempdir);
}

const char *test_tempdir(void)
{
    const char *base = getenv("TMPDIR");

    if (tempdir && tempdir_owner == getpid())
        return tempdir;
    if (asprintf(&tempdir, "%s/etw-test-XXXXXX", base && *base ? base : "/tmp") < 0)
        ck_abort_msg("out of memory");
    if (!mkdtemp(tempdir) || chmod(tempdir, 0755) < 0)
        ck_abort_msg("cannot make %s: %m", tempdir);
    tempdir_owner = getpid();
    atexit(remove_tempdir);
    return tempdir;
}

char *test_path(const char *name)
{
    char *path;

    if (asprintf(&path, "%s/%s", test_tempdir(), name) < 0)
        ck_abort_msg("out of memory");
    return path;
}

struct bytes {
    char *data;
    size_t size;
    size_t cap;
};

/* Reads what is there. 0 at the end of the file. */
static ssize_t bytes_read(struct bytes *b, int fd)
{
    ssize_t n;

    if (b->cap - b->size < 65536) {
        b->cap = b->cap ? b->cap * 2 : 131072;
        b->data = realloc(b->data, b->cap);
        if (!b->data)
            ck_abort_msg("out of memory");
    }
    n = read(fd, b->data + b->size, b->cap - b->size - 1);
    if (n > 0)
        b->size += (size_t) n;
    b->data[b->size] = '\0';
    return n;
}

char *test_read_file(const char *path, size_t *ret_size)
{
    struct bytes b = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        ck_abort_msg("cannot open %s: %m", path);
    while ((n = bytes_read(&b, fd)) > 0)
        ;
    if (n < 0)
        ck_abort_msg("cannot read %s: %m", path);
    close(fd);
    if (ret_size)
        *ret_size = b.size;
    return b.data;
}

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void run_child(const char *const argv[], int out, int err)
{
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(126);
    (void) execvp(argv[0], (char *const *) argv);
    fprintf(stderr, "cannot run %s: %m\n", argv[0]);
    _exit(127);
}

void test_run_limit(struct test_output *ret, int limit_s, const char *const argv[])
{
    struct bytes b[2] = {{0}, {0}};
    int fds[2][2];
    int64_t end = now_ms() + (limit_s ? limit_s : TEST_HANG_LIMIT_S) * 1000LL;
    int status, open_ends = 2;
    pid_t pid;

    for (int i = 0; i < 2; i++)
        if (pipe2(fds[i], O_CLOEXEC) < 0)
            ck_abort_msg("pipe: %m");
    pid = fork();
    if (pid < 0)
        ck_abort_msg("fork: %m");
    if (pid == 0)
        run_child(argv, fds[0][1], fds[1][1]);
    close(fds[0][1]);
    close(fds[1][1]);

    while (open_ends > 0) {
        struct pollfd p[2] = {{.fd = fds[0][0], .events = POLLIN},
                              {.fd = fds[1][0], .events = POLLIN}};
        int64_t left = end - now_ms();

        if (left <= 0) {
            kill(pid, SIGKILL);
            ck_abort_msg("%s hung for %d s; it had written:\n%s%s", argv[0],
                         limit_s ? limit_s : TEST_HANG_LIMIT_S, b[0].data ? b[0].data : "",
                         b[1].data ? b[1].data : "");
        }
        if (poll(p, 2, (int) (left > 1000 ? 1000 : left)) < 0 && errno != EINTR)
            ck_abort_msg("poll: %m");
        for (int i = 0; i < 2; i++)
            if ((p[i].revents & (POLLIN | POLLHUP | POLLERR)) && bytes_read(&b[i], p[i].fd) <= 0) {
                close(fds[i][0]);
                fds[i][0] = -1;
                open_ends--;
            }
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_ms() >= end) {
            kill(pid, SIGKILL);
            ck_abort_msg("%s closed its output and hung", argv[0]);
        }
        usleep(1000);
    }
    ret->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ret->out = b[0].data;
    ret->out_size = b[0].size;
    ret->err = b[1].data;
    ret->err_size = b[1].size;
}

void test_run_ok_limit(struct test_output *ret, int limit_s, const char *const argv[])
{
    test_run_limit(ret, limit_s, argv);
    if (ret->status != 0) {
        char line[1024] = "";

        for (size_t i = 0, n = 0; argv[i] && n < sizeof(line); i++)
            n += (size_t) snprintf(line + n, sizeof(line) - n, " %s", argv[i]);
        ck_abort_msg("exit status %d of%s\n%.4000s%.4000s", ret->status, line, ret->out, ret->err);
    }
}

void test_output_done(struct test_output *o)
{
    free(o->out);
    free(o->err);
    *o = (struct test_output){0};
}
