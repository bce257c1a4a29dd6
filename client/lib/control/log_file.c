/* SPDX-License-Identifier: Apache-2.0
 *
 * The log file, opened here because here are the caller's rights: etwd gets the descriptor and
 * never the power to open a path. Nothing is truncated; that is etwd's, once the session can start.
 * Any thread; a working directory that another thread changes meanwhile is looked at once.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

int log_file_path(const char *name, char **ret)
{
    _cleanup_free_ char *cwd = NULL;
    char *path;
    size_t nc, nn = strlen(name);

    if (name[0] == '/') {
        if (nn >= ETW_PATH_MAX)
            return -ENAMETOOLONG;
        path = strdup(name);
        if (!path)
            return -ENOMEM;
        *ret = path;
        return 0;
    }
    cwd = getcwd(NULL, 0);
    if (!cwd)
        return -errno;
    nc = strlen(cwd);
    if (nc > 0 && cwd[nc - 1] == '/')
        nc--;
    if (nc + 1 + nn >= ETW_PATH_MAX)
        return -ENAMETOOLONG;
    path = malloc(nc + 1 + nn + 1);
    if (!path)
        return -ENOMEM;
    memcpy(path, cwd, nc);
    path[nc] = '/';
    memcpy(path + nc + 1, name, nn + 1);
    *ret = path;
    return 0;
}

/* O_NONBLOCK: a FIFO or a device must not make us wait before we know what it is. */
#define OPEN_FLAGS (O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* Makes the file or opens the one that is there, and says which. */
static int open_or_create(const char *path, bool *ret_created)
{
    /* Between the two calls others may make or remove it; a symbolic link to nothing never ends. */
    for (int i = 0; i < 8; i++) {
        int fd = open(path, OPEN_FLAGS | O_CREAT | O_EXCL, 0666);
        if (fd >= 0) {
            *ret_created = true;
            return fd;
        }
        if (errno != EEXIST)
            return -errno;
        fd = open(path, OPEN_FLAGS);
        if (fd >= 0) {
            *ret_created = false;
            return fd;
        }
        if (errno != ENOENT)
            return -errno;
    }
    return -ELOOP;
}

int log_file_open(const char *name, struct log_file *ret)
{
    _cleanup_log_file_ struct log_file f = LOG_FILE_NONE;
    struct stat st;
    int r;

    r = log_file_path(name, &f.path);
    if (r < 0)
        return r;
    r = open_or_create(f.path, &f.created);
    if (r < 0)
        return r;
    f.fd = fd_move_up(r);
    if (fstat(f.fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ENODEV;
    f.dev = st.st_dev;
    f.ino = st.st_ino;
    r = fcntl(f.fd, F_GETFL);
    if (r < 0 || fcntl(f.fd, F_SETFL, r & ~O_NONBLOCK) < 0)
        return -errno;
    *ret = f;
    f = LOG_FILE_NONE;
    return 0;
}

void log_file_done(struct log_file *f, bool keep)
{
    struct stat st;

    if (!keep && f->created && f->path && lstat(f->path, &st) == 0 && st.st_dev == f->dev &&
        st.st_ino == f->ino)
        (void) unlink(f->path);
    (void) safe_close(f->fd);
    free(f->path);
    *f = LOG_FILE_NONE;
}

uint32_t log_file_code(int r)
{
    switch (r) {
    case -ENOENT:
    case -ENOTDIR:
        return ERROR_PATH_NOT_FOUND;
    case -EACCES:
    case -EPERM:
    case -EROFS:
        return ERROR_ACCESS_DENIED;
    case -ENODEV:
    case -ENXIO:
    case -EISDIR:
    case -ELOOP:
    case -EEXIST:
    case -EINVAL:
    case -ENAMETOOLONG:
        return ERROR_BAD_PATHNAME;
    default:
        return code_from_errno(r);
    }
}
