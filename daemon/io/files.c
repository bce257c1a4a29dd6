/* SPDX-License-Identifier: Apache-2.0
 *
 * See files.h. A file on FUSE or a network may make any call on it wait for ever, so its mount is
 * looked up by number, in tables that belong to the kernel, before the first such call.
 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

/* Local, on block devices or in memory: a write ends without anybody's help. */
static const char *const listed[] = {
    "ext2", "ext3",     "ext4",   "xfs",  "btrfs", "f2fs",  "tmpfs",   "ramfs",    "zfs",
    "jfs",  "reiserfs", "nilfs2", "vfat", "exfat", "ntfs3", "overlay", "bcachefs",
};

bool file_system_listed(const char *type)
{
    for (size_t i = 0; i < ARRAY_SIZE(listed); i++)
        if (strcmp(type, listed[i]) == 0)
            return true;
    return false;
}

bool file_system_extra(const char *type, const char *extra)
{
    size_t n = strlen(type);

    while (n > 0 && *extra) {
        size_t word = strcspn(extra, " ");
        if (word == n && memcmp(extra, type, n) == 0)
            return true;
        extra += word;
        extra += strspn(extra, " ");
    }
    return false;
}

int file_mount_type(const char *mountinfo, int id, char *type, unsigned size)
{
    /* "36 35 98:0 /root /mount options tag... - type source options": spaces in paths are escaped,
     * so " - " ends the optional fields. */
    const char *line = mountinfo;
    while (line && *line) {
        const char *end = strchr(line, '\n');
        size_t len = end ? (size_t) (end - line) : strlen(line);
        char *after;
        long v = strtol(line, &after, 10);
        if (after > line && *after == ' ' && v == id) {
            const char *dash = memmem(line, len, " - ", 3);
            if (!dash)
                return -ENOENT;
            const char *t = dash + 3;
            size_t n = 0;
            while (t + n < line + len && t[n] != ' ')
                n++;
            if (n == 0 || n >= size)
                return -ENOENT;
            memcpy(type, t, n);
            type[n] = '\0';
            return 0;
        }
        line = end ? end + 1 : NULL;
    }
    return -ENOENT;
}

static int read_text(const char *path, size_t max, char **ret)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    _cleanup_free_ char *text = NULL;
    size_t size = 0, cap = 0;
    for (;;) {
        if (size + 1 >= cap) {
            cap = cap ? cap * 2 : 8192;
            if (cap > max + 1)
                return -EFBIG;
            char *more = realloc(text, cap);
            if (!more)
                return -ENOMEM;
            text = more;
        }
        ssize_t n = read(fd, text + size, cap - size - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        size += (size_t) n;
    }
    text[size] = '\0';
    *ret = TAKE_PTR(text);
    return 0;
}

static int mount_id(int fd, int *ret)
{
    char path[64];
    _cleanup_free_ char *text = NULL;
    int r;

    (void) snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    r = read_text(path, 1 << 20, &text);
    if (r < 0)
        return r;
    const char *p = strstr(text, "mnt_id:");
    if (!p)
        return -ENODATA;
    char *end;
    long v = strtol(p + strlen("mnt_id:"), &end, 10);
    if (end == p + strlen("mnt_id:") || v < 0 || v > INT_MAX)
        return -EBADMSG;
    *ret = (int) v;
    return 0;
}

int file_check(int fd, const char *extra, bool patient, struct file_facts *ret,
               const char **ret_why)
{
    int r, id = -1;

    /* Asks only the descriptor. */
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) {
        *ret_why = "the log file's descriptor is not valid";
        return -EBADF;
    }
    if (flags & O_PATH) {
        *ret_why = "the log file's descriptor was opened with O_PATH";
        return -EBADF;
    }
    if ((flags & O_ACCMODE) == O_RDONLY) {
        *ret_why = "the log file's descriptor is not open for writing";
        return -EACCES;
    }
    if (flags & O_APPEND) {
        *ret_why = "the log file's descriptor was opened with O_APPEND";
        return -EINVAL;
    }

    r = mount_id(fd, &id);
    if (r < 0) {
        *ret_why = "the log file's mount could not be found out";
        return r;
    }
    _cleanup_free_ char *mounts = NULL;
    r = read_text("/proc/self/mountinfo", ETW_MOUNTINFO_MAX, &mounts);
    if (r < 0) {
        *ret_why = "the table of mounts could not be read";
        return r;
    }
    char type[64];
    r = file_mount_type(mounts, id, type, sizeof(type));
    if (r < 0) {
        *ret_why = "the log file is not on a file system mounted where etwd runs (a pipe, a "
                   "socket, a memfd, or another mount namespace)";
        return -EXDEV;
    }
    bool slow = !file_system_listed(type);
    if (slow && !file_system_extra(type, extra)) {
        *ret_why = "the log file is on a type of file system that etwd does not write to (network "
                   "and FUSE file systems only as ExtraFileSystems= in etwd.conf says)";
        return -EXDEV;
    }
    if (slow && !patient)
        return -EINPROGRESS;

    struct stat st;
    if (fstat(fd, &st) < 0) {
        r = -errno;
        *ret_why = "the log file could not be looked at";
        return r;
    }
    if (!S_ISREG(st.st_mode)) {
        *ret_why = "the log file is not a regular file";
        return -EINVAL;
    }
    struct statvfs vfs;
    if (fstatvfs(fd, &vfs) < 0) {
        r = -errno;
        *ret_why = "the log file's file system could not be looked at";
        return r;
    }
    uint64_t free_bytes;
    if (__builtin_mul_overflow((uint64_t) vfs.f_bavail, (uint64_t) vfs.f_frsize, &free_bytes))
        free_bytes = UINT64_MAX;
    *ret = (struct file_facts){
        .dev = st.st_dev,
        .ino = st.st_ino,
        .size = (uint64_t) st.st_size,
        .free_bytes = free_bytes,
        .slow = slow,
    };
    return 0;
}
