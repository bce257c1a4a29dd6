/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening mapped files (opener.h). The broker's thread only.
 *
 * Three ways, the first that leads to the right file wins: /proc/PID/map_files/START-END,
 * /proc/PID/exe, the path. Each opens with O_PATH first, which asks no file system driver, and
 * compares what it got with what the probe saw before the file is opened for reading.
 *
 * The same file. The probe sees the device of the inode's super block (s_dev) and the inode number.
 * stat(2) tells the same device, but for two file systems: btrfs has a device number for each
 * subvolume, overlayfs one of its own while the probe sees the inode of the layer below. So the
 * device is taken from the mount table, by the descriptor's mount id, which gives s_dev. On
 * overlayfs that is still the overlay's: there the inode number has to do, together with the way
 * the file was reached (the very mapping, or the very path). btrfs counts inodes anew in each
 * subvolume, so that two files there can pass for the same only when they have number and path or
 * mapping in common.
 *
 * Never waiting. Unprivileged users can mount FUSE and overlayfs (over FUSE) in namespaces of their
 * own and be a server that never answers. FUSE is refused by its type before anything asks it; an
 * overlay counts as local only when it is mounted in our own namespace too, which takes root.
 */
#include "image/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "image/mounts.h"

struct opener {
    struct mount_table own;
    int own_fd; /* polls with POLLPRI when the own table has changed */
    bool own_read;
    struct mount_table target; /* of the process of the present request */
    bool target_read;
    /* Device of the kernel's own tmpfs, where memfds and System V shared memory lie; it is in no
     * mount table. */
    dev_t memfd_dev;
};

int opener_new(struct opener **ret)
{
    struct opener *o;
    struct stat st;
    int fd;

    o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    o->own_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (o->own_fd < 0) {
        int r = -errno;

        opener_free(o);
        return r;
    }
    fd = memfd_create("probe", MFD_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0)
        o->memfd_dev = st.st_dev;
    safe_close(fd);
    *ret = o;
    return 0;
}

struct opener *opener_free(struct opener *o)
{
    if (!o)
        return NULL;
    mount_table_clear(&o->own);
    mount_table_clear(&o->target);
    safe_close(o->own_fd);
    free(o);
    return NULL;
}

static int refresh_own_mounts(struct opener *o)
{
    struct pollfd p = {.fd = o->own_fd, .events = POLLPRI};
    int r;

    /* poll() takes the event: a change during the read below is seen by the next call. */
    r = poll(&p, 1, 0);
    if (o->own_read && r == 0)
        return 0;
    r = mount_table_read(&o->own, AT_FDCWD, "/proc/self/mountinfo");
    o->own_read = r == 0;
    return r;
}

static int refresh_target_mounts(struct opener *o, int proc_fd)
{
    int r;

    if (o->target_read)
        return 0;
    r = mount_table_read(&o->target, proc_fd, "mountinfo");
    o->target_read = r == 0;
    return r;
}

static bool find_device(const struct mount_table *t, uint64_t dev_major, uint64_t dev_minor,
                        struct mount_entry *ret)
{
    struct mount_entry e;
    size_t pos = 0;

    while (mount_table_next(t, &pos, &e))
        if (e.dev_major == dev_major && e.dev_minor == dev_minor) {
            *ret = e;
            return true;
        }
    return false;
}

/* The mount of a file that is held open with O_PATH. Mount ids are one number space for all mount
 * namespaces. A mount that neither we nor the process see any more (it has changed its namespace
 * since) is known by its file system, if that is mounted elsewhere in sight: the device number
 * cannot have been given to another one as long as the file is held, so the tables are read anew.
 */
static bool find_mount(struct opener *o, int proc_fd, const struct statx *sx,
                       struct mount_entry *ret)
{
    if (mount_table_find_id(&o->own, sx->stx_mnt_id, ret))
        return true;
    if (proc_fd >= 0 && refresh_target_mounts(o, proc_fd) == 0 &&
        mount_table_find_id(&o->target, sx->stx_mnt_id, ret))
        return true;

    if (refresh_own_mounts(o) == 0 &&
        find_device(&o->own, sx->stx_dev_major, sx->stx_dev_minor, ret))
        return true;
    o->target_read = false;
    return proc_fd >= 0 && refresh_target_mounts(o, proc_fd) == 0 &&
           find_device(&o->target, sx->stx_dev_major, sx->stx_dev_minor, ret);
}

static bool is_overlay(const struct mount_entry *e)
{
    static const char name[] = "overlay";

    return e->type_size == strlen(name) && memcmp(e->type, name, e->type_size) == 0;
}

/* Whether path_fd (O_PATH) is the file of the request, on a local file system. 0, -ENOENT: another
 * file, -EOPNOTSUPP, -errno. */
static int check_file(struct opener *o, const struct image_request *req, int proc_fd, int path_fd,
                      struct opened_image *ret)
{
    struct mount_entry mount;
    struct statx sx;
    bool same_device;

    /* Cached attributes do: asking the server could hang. */
    if (statx(path_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_MNT_ID,
              &sx) < 0)
        return -errno;
    if (sx.stx_ino != req->inode)
        return -ENOENT;
    same_device = sx.stx_dev_major == req->dev_major && sx.stx_dev_minor == req->dev_minor;

    if ((sx.stx_mask & STATX_MNT_ID) && find_mount(o, proc_fd, &sx, &mount)) {
        if (!mount.local)
            return -EOPNOTSUPP;
        if (mount.dev_major == req->dev_major && mount.dev_minor == req->dev_minor)
            same_device = true;
        if (is_overlay(&mount)) { /* head comment, twice */
            if (!find_device(&o->own, mount.dev_major, mount.dev_minor, &mount))
                return -EOPNOTSUPP;
            same_device = true;
        }
    } else if (makedev(sx.stx_dev_major, sx.stx_dev_minor) != o->memfd_dev)
        return -EOPNOTSUPP; /* unmounted meanwhile, or out of sight: nobody knows whose it is */
    if (!same_device)
        return -ENOENT;
    if (!S_ISREG(sx.stx_mode))
        return -EOPNOTSUPP;

    ret->size = sx.stx_size;
    ret->change_time_ns = (uint64_t) sx.stx_ctime.tv_sec * ETW_NSEC_PER_SEC + sx.stx_ctime.tv_nsec;
    return 0;
}

/* From the O_PATH descriptor of a checked regular file to one that can be read. O_NONBLOCK: a lease
 * on the file is an error, not a wait. */
static int reopen(int path_fd)
{
    char name[64];
    int fd;

    (void) snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
    fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int try_proc_file(struct opener *o, const struct image_request *req, int proc_fd,
                         const char *name, int *ret_fd, struct opened_image *ret_image)
{
    _cleanup_close_ int path_fd = -1;
    struct opened_image image;
    int r;

    path_fd = openat(proc_fd, name, O_PATH | O_CLOEXEC);
    if (path_fd < 0)
        return -errno;
    r = check_file(o, req, proc_fd, path_fd, &image);
    if (r < 0)
        return r;
    r = reopen(path_fd);
    if (r < 0)
        return r;
    *ret_fd = r;
    *ret_image = image;
    return 0;
}

/* The path as the probe saw it, in our own mount namespace. RESOLVE_CACHED: only directories the
 * kernel has at hand, as those of a file in use are; never a look-up that a server would have to
 * answer. */
static int try_path(struct opener *o, const struct image_request *req, const char *path,
                    int *ret_fd, struct opened_image *ret_image)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED,
    };
    _cleanup_close_ int path_fd = -1;
    struct opened_image image;
    int r;

    if (!path || path[0] != '/')
        return -ENOENT;
    path_fd = (int) syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    if (path_fd < 0)
        return -errno;
    r = check_file(o, req, -1, path_fd, &image);
    if (r < 0)
        return r;
    r = reopen(path_fd);
    if (r < 0)
        return r;
    *ret_fd = r;
    *ret_image = image;
    return 0;
}

/* /proc/PID as a descriptor. When the pidfd still names the process afterwards, the number cannot
 * have been given to another before, and the descriptor keeps to this process from now on. */
static int open_process(int pid, int pidfd)
{
    _cleanup_close_ int proc_fd = -1;
    _cleanup_fclose_ FILE *f = NULL;
    char name[64], line[256];

    (void) snprintf(name, sizeof(name), "/proc/%d", pid);
    proc_fd = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc_fd < 0)
        return -errno;
    (void) snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", pidfd);
    f = fopen(name, "re");
    if (!f)
        return -errno;
    while (fgets(line, sizeof(line), f)) {
        int value;

        if (sscanf(line, "Pid: %d", &value) == 1)
            return value == pid ? take_fd(&proc_fd) : -ESRCH;
    }
    return -EBADF; /* not a pidfd */
}

int opener_open(struct opener *o, const struct image_request *req, const char *path, int pidfd,
                int *ret_fd, struct opened_image *ret_image)
{
    _cleanup_close_ int proc_fd = -1;
    struct mount_entry mount;
    char name[64];
    bool known;
    int r;

    o->target_read = false;
    r = refresh_own_mounts(o);
    if (r < 0)
        return r;
    /* Even O_PATH asks an NFS server now and then: look at the device first. */
    known = find_device(&o->own, req->dev_major, req->dev_minor, &mount);
    if (known && !mount.local)
        return -EOPNOTSUPP;

    if (pidfd >= 0)
        proc_fd = open_process(req->pid, pidfd);
    if (proc_fd >= 0) {
        if (!known && refresh_target_mounts(o, proc_fd) == 0 &&
            find_device(&o->target, req->dev_major, req->dev_minor, &mount) && !mount.local)
            return -EOPNOTSUPP;
        (void) snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, req->start, req->end);
        r = try_proc_file(o, req, proc_fd, name, ret_fd, ret_image);
        if (r == 0 || r == -EOPNOTSUPP)
            return r;
        r = try_proc_file(o, req, proc_fd, "exe", ret_fd, ret_image);
        if (r == 0)
            return 0;
    }
    r = try_path(o, req, path, ret_fd, ret_image);
    if (r == -EAGAIN || r == -ENOTDIR || r == -ELOOP)
        return -ENOENT;
    return r;
}
