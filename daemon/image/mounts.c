/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading mountinfo (mounts.h). Not a mount library: lines are split, nothing is looked up. Any
 * thread.
 */
#include "image/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

/* File systems that answer from this machine's memory and disks. What is not here (NFS, SMB, Ceph,
 * FUSE, autofs and whatever comes) may wait for somebody else, for ever. virtiofs is FUSE by
 * protocol, but its server is the machine's own host. */
static const char *const local_types[] = {
    "bcachefs", "btrfs", "cramfs",  "devtmpfs", "erofs",    "exfat",  "ext2",
    "ext3",     "ext4",  "f2fs",    "hfsplus",  "iso9660",  "jfs",    "msdos",
    "nilfs2",   "ntfs3", "overlay", "ramfs",    "reiserfs", "rootfs", "squashfs",
    "tmpfs",    "ubifs", "udf",     "vfat",     "virtiofs", "xfs",    "zfs",
};

bool mount_type_local(const char *type, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(local_types); i++)
        if (strlen(local_types[i]) == size && memcmp(local_types[i], type, size) == 0)
            return true;
    return false;
}

int mount_table_read(struct mount_table *t, int dirfd, const char *name)
{
    _cleanup_close_ int fd = -1;
    _cleanup_free_ char *text = NULL;
    size_t size = 0, cap = 0;

    fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    for (;;) {
        ssize_t n;

        if (cap - size < 4096) {
            char *more;

            if (cap >= ETW_MOUNTINFO_MAX)
                return -E2BIG;
            cap = cap == 0 ? 16384 : cap * 2;
            more = realloc(text, cap);
            if (!more)
                return -ENOMEM;
            text = more;
        }
        n = read(fd, text + size, cap - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        size += (size_t) n;
    }
    free(t->text);
    t->text = TAKE_PTR(text);
    t->size = size;
    return 0;
}

void mount_table_clear(struct mount_table *t)
{
    free(t->text);
    *t = (struct mount_table){0};
}

/* The next word of [*p, end), which blanks separate. */
static bool next_word(const char **p, const char *end, const char **ret, size_t *ret_size)
{
    const char *begin = *p;
    const char *stop;

    if (begin >= end)
        return false;
    stop = memchr(begin, ' ', (size_t) (end - begin));
    if (!stop)
        stop = end;
    *ret = begin;
    *ret_size = (size_t) (stop - begin);
    *p = stop < end ? stop + 1 : end;
    return *ret_size > 0;
}

static bool parse_number(const char *s, size_t size, uint64_t *ret)
{
    uint64_t v = 0;

    if (size == 0 || size > 19)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        v = v * 10 + (uint64_t) (s[i] - '0');
    }
    *ret = v;
    return true;
}

static bool parse_line(const char *p, const char *end, struct mount_entry *ret)
{
    struct mount_entry e = {0};
    const char *word, *colon;
    size_t size;
    uint64_t major, minor;

    if (!next_word(&p, end, &word, &size) || !parse_number(word, size, &e.id))
        return false;
    if (!next_word(&p, end, &word, &size)) /* parent */
        return false;
    if (!next_word(&p, end, &word, &size))
        return false;
    colon = memchr(word, ':', size);
    if (!colon || !parse_number(word, (size_t) (colon - word), &major) ||
        !parse_number(colon + 1, size - (size_t) (colon - word) - 1, &minor) ||
        major > UINT32_MAX || minor > UINT32_MAX)
        return false;
    e.dev_major = (unsigned) major;
    e.dev_minor = (unsigned) minor;
    if (!next_word(&p, end, &word, &size)) /* root within the file system */
        return false;
    if (!next_word(&p, end, &e.point, &e.point_size))
        return false;
    if (!next_word(&p, end, &word, &size)) /* options */
        return false;
    do { /* optional fields up to "-" */
        if (!next_word(&p, end, &word, &size))
            return false;
    } while (size != 1 || word[0] != '-');
    if (!next_word(&p, end, &e.type, &e.type_size))
        return false;
    if (!next_word(&p, end, &e.source, &e.source_size)) {
        /* A source may be empty. */
        e.source = e.type + e.type_size;
        e.source_size = 0;
    }
    e.local = mount_type_local(e.type, e.type_size);
    *ret = e;
    return true;
}

bool mount_table_next(const struct mount_table *t, size_t *pos, struct mount_entry *ret)
{
    while (*pos < t->size) {
        const char *line = t->text + *pos;
        const char *end = memchr(line, '\n', t->size - *pos);

        if (!end)
            end = t->text + t->size;
        *pos = (size_t) (end - t->text) + 1;
        if (parse_line(line, end, ret))
            return true;
    }
    return false;
}

bool mount_table_find_id(const struct mount_table *t, uint64_t id, struct mount_entry *ret)
{
    struct mount_entry e;
    size_t pos = 0;

    while (mount_table_next(t, &pos, &e))
        if (e.id == id) {
            *ret = e;
            return true;
        }
    return false;
}

int mount_unescape(const char *text, size_t size, char *out, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < size; i++) {
        char c = text[i];

        if (c == '\\' && size - i >= 4 && text[i + 1] >= '0' && text[i + 1] <= '3' &&
            text[i + 2] >= '0' && text[i + 2] <= '7' && text[i + 3] >= '0' && text[i + 3] <= '7') {
            c = (char) ((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        }
        if (n + 1 >= cap)
            return -ENAMETOOLONG;
        out[n++] = c;
    }
    if (cap == 0)
        return -ENAMETOOLONG;
    out[n] = '\0';
    return 0;
}
