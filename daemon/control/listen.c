/* SPDX-License-Identifier: Apache-2.0
 *
 * See listen.h. One daemon a socket: who holds the lock file beside it may replace a socket that
 * nobody listens to any more.
 */
#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Connections that wait to be accepted; the kernel cuts it to net.core.somaxconn. */
#define BACKLOG 1024

static int folder_make(const char *path, unsigned uid, unsigned gid)
{
    _cleanup_free_ char *folder = strdup(path);
    if (!folder)
        return -ENOMEM;
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder)
        return 0;
    *slash = '\0';
    if (mkdir(folder, 0755) < 0)
        return errno == EEXIST ? 0 : -errno;
    /* Not the umask's: whoever may connect is decided by the daemon. */
    if (chmod(folder, 0755) < 0)
        return -errno;
    if (uid != (uid_t) -1 && chown(folder, uid, gid) < 0)
        return -errno;
    return 0;
}

/* Whether somebody listens; -ENOENT or -ECONNREFUSED when nobody does. */
static int probe(const struct sockaddr_un *sa)
{
    struct stat st;
    if (lstat(sa->sun_path, &st) < 0)
        return -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *) sa, sizeof(*sa)) == 0 || errno == EAGAIN)
        return 0;
    return -errno;
}

/* One daemon at a time: the lock falls with its holder. */
static int lock_take(const char *path, unsigned owner_uid, unsigned owner_gid, int *ret,
                     const char **ret_why)
{
    int r;

    _cleanup_free_ char *lock_path = NULL;
    if (asprintf(&lock_path, "%s.lock", path) < 0)
        return -ENOMEM;
    _cleanup_close_ int fd =
        open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    if (fd < 0) {
        r = -errno;
        *ret_why = "its lock file could not be opened";
        return r;
    }
    if (owner_uid != (uid_t) -1 && fchown(fd, owner_uid, owner_gid) < 0) {
        r = -errno;
        *ret_why = "its lock file could not be given to the user that etwd runs as";
        return r;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        r = errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
        *ret_why = "another etwd serves it";
        return r;
    }
    *ret = take_fd(&fd);
    return 0;
}

static int socket_handed(const char *path, int handed_fd, bool ours, unsigned owner_uid,
                         unsigned owner_gid, struct control_socket *ret, const char **ret_why)
{
    _cleanup_close_ int fd = handed_fd, lock_fd = -1;
    _cleanup_free_ char *own_path = NULL;
    int r;

    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
        r = -errno;
        *ret_why = "the socket that was handed over could not be set up";
        return r;
    }
    if (ours) {
        r = lock_take(path, owner_uid, owner_gid, &lock_fd, ret_why);
        if (r < 0)
            return r;
        own_path = strdup(path);
        if (!own_path)
            return -ENOMEM;
    }
    *ret = (struct control_socket){
        .fd = take_fd(&fd), .lock_fd = take_fd(&lock_fd), .path = TAKE_PTR(own_path)};
    return 0;
}

int control_socket_open(const char *path, int handed_fd, bool ours, unsigned owner_uid,
                        unsigned owner_gid, struct control_socket *ret, const char **ret_why)
{
    struct control_socket s = {.fd = -1, .lock_fd = -1};
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int r;

    if (handed_fd >= 0)
        return socket_handed(path, handed_fd, ours, owner_uid, owner_gid, ret, ret_why);
    if (strlen(path) >= sizeof(sa.sun_path)) {
        *ret_why = "the path is longer than a socket's may be";
        return -ENAMETOOLONG;
    }
    strcpy(sa.sun_path, path);
    r = folder_make(path, owner_uid, owner_gid);
    if (r < 0) {
        *ret_why = "its folder could not be made";
        return r;
    }

    _cleanup_close_ int lock_fd = -1;
    r = lock_take(path, owner_uid, owner_gid, &lock_fd, ret_why);
    if (r < 0)
        return r;

    /* We hold the lock, so an etwd that listens is not there any more; its io_uring may hold the
     * socket a moment longer than the process lived. */
    r = probe(&sa);
    for (int i = 0; r == 0 && i < 100; i++) {
        (void) usleep(10000);
        r = probe(&sa);
    }
    if (r == 0) {
        *ret_why = "somebody listens to it";
        return -EADDRINUSE;
    }
    if (r == -ECONNREFUSED && unlink(path) < 0) {
        r = -errno;
        *ret_why = "the socket left there could not be removed";
        return r;
    }
    if (r != -ENOENT && r != -ECONNREFUSED) {
        *ret_why = "what is there is not a socket, or cannot be looked at";
        return r;
    }

    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    /* Everybody may connect; what a peer may do is decided for each call. */
    mode_t mask = umask(0111);
    r = bind(fd, (const struct sockaddr *) &sa, sizeof(sa)) < 0 ? -errno : 0;
    (void) umask(mask);
    if (r < 0) {
        *ret_why = "the socket could not be made";
        return r;
    }
    if (listen(fd, BACKLOG) < 0) {
        r = -errno;
        *ret_why = "the socket could not be made to listen";
        return r;
    }
    if (owner_uid != (uid_t) -1 && lchown(path, owner_uid, owner_gid) < 0) {
        r = -errno;
        *ret_why = "the socket could not be given to the user that etwd runs as";
        return r;
    }
    s.path = strdup(path);
    if (!s.path)
        return -ENOMEM;
    s.fd = take_fd(&fd);
    s.lock_fd = take_fd(&lock_fd);
    *ret = s;
    return 0;
}

void control_socket_close(struct control_socket *s)
{
    s->fd = safe_close(s->fd);
    /* In a folder of somebody else it stays, and the next daemon replaces it. */
    if (s->path)
        (void) unlink(s->path);
    free(s->path);
    s->path = NULL;
    s->lock_fd = safe_close(s->lock_fd);
}
