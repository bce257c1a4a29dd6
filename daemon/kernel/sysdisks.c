/* SPDX-License-Identifier: Apache-2.0
 *
 * SystemConfig PhyDisk and LogDisk records: the disks with hardware behind them, their partitions,
 * and the volumes made of those (device mapper, MD). Only /sys, the mount table and statfs(2) of
 * local file systems are asked, never a disk itself. Worker thread.
 *
 * A disk's number is its place in the order of the device numbers. Linux has no drive letters: the
 * letter of a logical disk is its mount point where that fits three characters ("/"), else empty.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "image/mounts.h"
#include "kernel/sysconfig_internal.h"

/* /sys counts blocks of this size whatever the disk's own is. */
#define SYS_BLOCK 512
/* The translation that disks have reported since they outgrew real geometry: also what Linux makes
 * up for a disk that has none. */
#define SECTORS_PER_TRACK 63
#define TRACKS_PER_CYLINDER 255
/* Layers of volumes on volumes (LUKS on LVM on MD): deeper is a loop or a joke. */
#define VOLUME_DEPTH_MAX 8
#define NAME_SIZE 64

enum drive_type { DRIVE_PARTITION = 1, DRIVE_VOLUME = 2, DRIVE_SEVERAL_DISKS = 3 };

struct disk {
    char name[NAME_SIZE];
    dev_t dev;
    uint32_t number;
    uint32_t sector_size;
    uint64_t bytes;
};

/* A partition, a whole disk with a file system, or a volume. */
struct logical {
    char name[NAME_SIZE];
    dev_t dev;
    enum drive_type type;
    uint32_t disk;      /* index in the list */
    uint32_t partition; /* 0: none */
    uint64_t start;
    uint64_t bytes;
};

struct disks {
    struct disk *items;
    size_t n;
    struct logical *logical;
    size_t n_logical;
};

static void disks_done(struct disks *d)
{
    free(d->items);
    free(d->logical);
}

static int open_dir(int dirfd, const char *path, DIR **ret)
{
    DIR *dir;
    int fd;

    fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    dir = fdopendir(fd);
    if (!dir) {
        int r = -errno;

        safe_close(fd);
        return r;
    }
    *ret = dir;
    return 0;
}

static void closedirp(DIR **d)
{
    if (*d)
        (void) closedir(*d);
}
#define _cleanup_closedir_ _cleanup_(closedirp)

static bool exists(int dirfd, const char *dir, const char *name)
{
    char path[2 * NAME_SIZE + 64];

    return (size_t) snprintf(path, sizeof(path), "%s/%s", dir, name) < sizeof(path) &&
           faccessat(dirfd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static uint64_t number_of(int dirfd, const char *dir, const char *name, uint64_t fallback)
{
    char path[2 * NAME_SIZE + 64];

    if ((size_t) snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
        return fallback;
    return sysconfig_number(dirfd, path, fallback);
}

static void text_of(int dirfd, const char *dir, const char *name, char *buf, size_t size)
{
    char path[2 * NAME_SIZE + 64];

    if ((size_t) snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path) ||
        sysconfig_text(dirfd, path, buf, size) < 0)
        buf[0] = '\0';
}

static bool device_of(int dirfd, const char *dir, dev_t *ret)
{
    unsigned major_number, minor_number;
    char text[32];

    text_of(dirfd, dir, "dev", text, sizeof(text));
    if (sscanf(text, "%u:%u", &major_number, &minor_number) != 2)
        return false;
    *ret = makedev(major_number, minor_number);
    return true;
}

static int by_device(const void *a, const void *b)
{
    const struct disk *x = a, *y = b;

    return x->dev < y->dev ? -1 : x->dev > y->dev;
}

static uint64_t bytes_of(int dirfd, const char *dir, const char *name)
{
    uint64_t blocks = number_of(dirfd, dir, name, 0);

    return blocks <= UINT64_MAX / SYS_BLOCK ? blocks * SYS_BLOCK : 0;
}

static int find_disks(const struct sysconfig_roots *roots, struct disks *d)
{
    _cleanup_closedir_ DIR *dir = NULL;
    struct dirent *de;
    int r;

    r = open_dir(roots->sys, "block", &dir);
    if (r < 0)
        return r == -ENOMEM ? r : 0; /* no /sys: no disks are described */
    while (d->n < ETW_SYSCONFIG_ITEMS_MAX && (de = readdir(dir))) {
        char path[NAME_SIZE + 16];
        struct disk disk = {0}, *items;

        /* Loop, RAM and volume devices have no hardware; optical drives are a class of their own;
         * hidden ones are the paths of a multipath disk. */
        if (de->d_name[0] == '.' || strlen(de->d_name) >= NAME_SIZE ||
            strncmp(de->d_name, "sr", 2) == 0 || strncmp(de->d_name, "fd", 2) == 0)
            continue;
        memcpy(disk.name, de->d_name, strlen(de->d_name) + 1);
        (void) snprintf(path, sizeof(path), "block/%s", disk.name);
        if (!exists(roots->sys, path, "device") || number_of(roots->sys, path, "hidden", 0) != 0 ||
            !device_of(roots->sys, path, &disk.dev))
            continue;
        disk.sector_size =
            (uint32_t) number_of(roots->sys, path, "queue/logical_block_size", SYS_BLOCK);
        disk.bytes = bytes_of(roots->sys, path, "size");
        items = realloc(d->items, (d->n + 1) * sizeof(*items));
        if (!items)
            return -ENOMEM;
        d->items = items;
        items[d->n++] = disk;
    }
    if (d->n > 0)
        qsort(d->items, d->n, sizeof(*d->items), by_device);
    for (size_t i = 0; i < d->n; i++)
        d->items[i].number = (uint32_t) i;
    return 0;
}

static int add_logical(struct disks *d, const struct logical *l)
{
    struct logical *more;

    if (d->n_logical >= ETW_SYSCONFIG_ITEMS_MAX)
        return 0;
    more = realloc(d->logical, (d->n_logical + 1) * sizeof(*more));
    if (!more)
        return -ENOMEM;
    d->logical = more;
    more[d->n_logical++] = *l;
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct logical *x = a, *y = b;

    if (x->disk != y->disk)
        return x->disk < y->disk ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->dev < y->dev ? -1 : x->dev > y->dev;
}

static int find_partitions(const struct sysconfig_roots *roots, struct disks *d,
                           const struct disk *disk)
{
    struct logical whole = {
        .dev = disk->dev, .type = DRIVE_VOLUME, .disk = disk->number, .bytes = disk->bytes};
    _cleanup_closedir_ DIR *dir = NULL;
    char path[NAME_SIZE + 16];
    struct dirent *de;
    int r;

    memcpy(whole.name, disk->name, sizeof(whole.name));
    r = add_logical(d, &whole);
    if (r < 0)
        return r;
    (void) snprintf(path, sizeof(path), "block/%s", disk->name);
    r = open_dir(roots->sys, path, &dir);
    if (r < 0)
        return r == -ENOMEM ? r : 0; /* unplugged meanwhile */
    while ((de = readdir(dir))) {
        struct logical l = {.type = DRIVE_PARTITION, .disk = disk->number};
        char sub[2 * NAME_SIZE + 16];
        uint64_t partition;

        if (de->d_name[0] == '.' || strlen(de->d_name) >= NAME_SIZE)
            continue;
        memcpy(l.name, de->d_name, strlen(de->d_name) + 1);
        (void) snprintf(sub, sizeof(sub), "%s/%s", path, l.name);
        partition = number_of(roots->sys, sub, "partition", 0);
        if (partition == 0 || partition > UINT32_MAX || !device_of(roots->sys, sub, &l.dev))
            continue;
        l.partition = (uint32_t) partition;
        l.start = bytes_of(roots->sys, sub, "start");
        l.bytes = bytes_of(roots->sys, sub, "size");
        r = add_logical(d, &l);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The disks below a volume: the first one, and whether there are several. */
static void find_leaves(const struct sysconfig_roots *roots, const struct disks *d,
                        const char *name, unsigned depth, uint32_t *first, unsigned *n_disks)
{
    _cleanup_closedir_ DIR *dir = NULL;
    char path[NAME_SIZE + 32];
    struct dirent *de;

    for (size_t i = 0; i < d->n_logical; i++) {
        const struct logical *l = &d->logical[i];

        if (strcmp(l->name, name) != 0)
            continue;
        if (*n_disks == 0) {
            *first = l->disk;
            *n_disks = 1;
        } else if (l->disk != *first) {
            *n_disks = 2;
            if (l->disk < *first)
                *first = l->disk;
        }
        return;
    }
    if (depth >= VOLUME_DEPTH_MAX || strlen(name) >= NAME_SIZE)
        return;
    (void) snprintf(path, sizeof(path), "block/%s/slaves", name);
    if (open_dir(roots->sys, path, &dir) < 0)
        return;
    while ((de = readdir(dir)))
        if (de->d_name[0] != '.')
            find_leaves(roots, d, de->d_name, depth + 1, first, n_disks);
}

/* Device-mapper and MD volumes that stand on the disks found. */
static int find_volumes(const struct sysconfig_roots *roots, struct disks *d)
{
    _cleanup_closedir_ DIR *dir = NULL;
    /* Apart at first: a volume is not to be taken for what another one stands on. */
    _cleanup_(disks_done) struct disks found = {0};
    struct dirent *de;
    int r;

    r = open_dir(roots->sys, "block", &dir);
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    while ((de = readdir(dir))) {
        struct logical l = {0};
        char path[NAME_SIZE + 16];
        unsigned n_disks = 0;

        if (de->d_name[0] == '.' || strlen(de->d_name) >= NAME_SIZE)
            continue;
        memcpy(l.name, de->d_name, strlen(de->d_name) + 1);
        (void) snprintf(path, sizeof(path), "block/%s", l.name);
        if (exists(roots->sys, path, "device") || !device_of(roots->sys, path, &l.dev))
            continue;
        find_leaves(roots, d, l.name, 0, &l.disk, &n_disks);
        if (n_disks == 0)
            continue;
        l.type = n_disks > 1 ? DRIVE_SEVERAL_DISKS : DRIVE_VOLUME;
        l.bytes = bytes_of(roots->sys, path, "size");
        r = add_logical(&found, &l);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < found.n_logical; i++) {
        r = add_logical(d, &found.logical[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int find_all(const struct sysconfig_roots *roots, struct disks *d)
{
    int r;

    r = find_disks(roots, d);
    if (r < 0)
        return r;
    for (size_t i = 0; i < d->n; i++) {
        r = find_partitions(roots, d, &d->items[i]);
        if (r < 0)
            return r;
    }
    return find_volumes(roots, d);
}

/* "vendor model (sda)": where the device says neither, the kernel's name alone. A vendor number of
 * PCI or virtio is no name. */
static void manufacturer(const struct sysconfig_roots *roots, const struct disk *disk, char *buf,
                         size_t size)
{
    char path[NAME_SIZE + 16], vendor[64], model[128];

    (void) snprintf(path, sizeof(path), "block/%s/device", disk->name);
    text_of(roots->sys, path, "vendor", vendor, sizeof(vendor));
    text_of(roots->sys, path, "model", model, sizeof(model));
    if (strncmp(vendor, "0x", 2) == 0)
        vendor[0] = '\0';
    if (vendor[0] == '\0' && model[0] == '\0')
        (void) snprintf(buf, size, "%s", disk->name);
    else
        (void) snprintf(buf, size, "%s%s%s (%s)", vendor, vendor[0] && model[0] ? " " : "", model,
                        disk->name);
}

static int add_disk(struct sysconfig *c, const struct sysconfig_roots *roots,
                    const struct disks *all, const struct disk *disk)
{
    struct etl_SystemConfig_PhyDisk rec = {0};
    unsigned host, channel, target, lun;
    char path[NAME_SIZE + 32], text[512];
    struct etl_writer w;
    ssize_t n;
    int r;

    rec.DiskNumber = disk->number;
    rec.BytesPerSector = disk->sector_size;
    rec.SectorsPerTrack = SECTORS_PER_TRACK;
    rec.TracksPerCylinder = TRACKS_PER_CYLINDER;
    if (disk->sector_size > 0)
        rec.Cylinders = disk->bytes / disk->sector_size / SECTORS_PER_TRACK / TRACKS_PER_CYLINDER;

    /* A SCSI disk's device is called "host:channel:target:lun". */
    (void) snprintf(path, sizeof(path), "block/%s/device", disk->name);
    n = readlinkat(roots->sys, path, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    if (sscanf(strrchr(text, '/') ? strrchr(text, '/') + 1 : text, "%u:%u:%u:%u", &host, &channel,
               &target, &lun) == 4) {
        rec.SCSIPort = host;
        rec.SCSIPath = channel;
        rec.SCSITarget = target;
        rec.SCSILun = lun;
    }
    manufacturer(roots, disk, text, sizeof(text));
    sysconfig_wide(rec.Manufacturer, ARRAY_SIZE(rec.Manufacturer), text);
    for (size_t i = 0; i < all->n_logical; i++)
        if (all->logical[i].disk == disk->number && all->logical[i].partition != 0)
            rec.PartitionCount++;
    (void) snprintf(path, sizeof(path), "block/%s/queue", disk->name);
    text_of(roots->sys, path, "write_cache", text, sizeof(text));
    rec.WriteCacheEnabled = strcmp(text, "write back") == 0;

    r = sysconfig_begin(&w, ETL_ROW_SystemConfig_PhyDisk);
    if (r < 0)
        return r;
    etl_put(&w, &rec, sizeof(rec));
    return sysconfig_end(c, &w, ETL_ROW_SystemConfig_PhyDisk);
}

int sysconfig_add_disks(struct sysconfig *c, const struct sysconfig_roots *roots)
{
    _cleanup_(disks_done) struct disks d = {0};
    int r;

    r = find_all(roots, &d);
    for (size_t i = 0; i < d.n && r >= 0; i++)
        r = add_disk(c, roots, &d, &d.items[i]);
    return r < 0 ? r : 0;
}

/* A path without waiting for anybody: what the kernel does not have at hand is not found. */
static int open_cached(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_CACHED};
    int fd = (int) syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

    return fd < 0 ? -errno : fd;
}

/* The block device that a mount stands on. btrfs has a device number of its own in the table; there
 * the source names the device. */
static bool mount_device(const struct mount_entry *e, dev_t *ret)
{
    _cleanup_close_ int fd = -1;
    char source[ETW_PATH_MAX];
    struct statx sx;

    if (e->dev_major != 0) {
        *ret = makedev(e->dev_major, e->dev_minor);
        return true;
    }
    if (mount_unescape(e->source, e->source_size, source, sizeof(source)) < 0 ||
        strncmp(source, "/dev/", 5) != 0)
        return false;
    fd = open_cached(source);
    if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &sx) < 0 ||
        !S_ISBLK(sx.stx_mode))
        return false;
    *ret = makedev(sx.stx_rdev_major, sx.stx_rdev_minor);
    return true;
}

/* The mount of a logical disk, on a local file system: the first in the table. */
static bool find_mount(const struct mount_table *mounts, const struct logical *l,
                       struct mount_entry *ret)
{
    struct mount_entry e;
    size_t pos = 0;
    dev_t dev;

    while (mount_table_next(mounts, &pos, &e))
        if (e.local && mount_device(&e, &dev) && dev == l->dev) {
            *ret = e;
            return true;
        }
    return false;
}

/* statfs(2) of that very mount: its mount point may be covered by another one, whose server may be
 * dead. */
static bool mount_numbers(const struct mount_entry *e, const char *point, struct statfs *ret)
{
    _cleanup_close_ int fd = -1;
    struct statx sx;

    fd = open_cached(point);
    if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &sx) < 0 ||
        !(sx.stx_mask & STATX_MNT_ID) || sx.stx_mnt_id != e->id)
        return false;
    return fstatfs(fd, ret) == 0;
}

static int add_logical_disk(struct sysconfig *c, const struct disks *d,
                            const struct mount_table *mounts, const struct logical *l)
{
    struct etl_SystemConfig_LogDisk rec = {0};
    struct mount_entry e;
    struct etl_writer w;
    bool mounted;
    int r;

    mounted = find_mount(mounts, l, &e);
    /* A whole disk counts when somebody put a file system on it. */
    if (!mounted && l->type == DRIVE_VOLUME && l->dev == d->items[l->disk].dev)
        return 0;
    rec.StartOffset = l->start;
    rec.PartitionSize = l->bytes;
    rec.DiskNumber = d->items[l->disk].number;
    rec.DriveType = l->type;
    rec.PartitionNumber = l->partition;
    rec.BytesPerSector = d->items[l->disk].sector_size;
    if (mounted) {
        char point[ETW_PATH_MAX], type[16];
        struct statfs fs;

        (void) snprintf(type, sizeof(type), "%.*s", (int) e.type_size, e.type);
        sysconfig_wide(rec.FileSystem, ARRAY_SIZE(rec.FileSystem), type);
        if (mount_unescape(e.point, e.point_size, point, sizeof(point)) == 0) {
            if (strlen(point) < ARRAY_SIZE(rec.DriveLetterString))
                sysconfig_wide(rec.DriveLetterString, ARRAY_SIZE(rec.DriveLetterString), point);
            if (mount_numbers(&e, point, &fs)) {
                uint64_t block = (uint64_t) (fs.f_frsize > 0 ? fs.f_frsize : fs.f_bsize);

                if (rec.BytesPerSector > 0)
                    rec.SectorsPerCluster = (uint32_t) (block / rec.BytesPerSector);
                rec.NumberOfFreeClusters = (int64_t) fs.f_bfree;
                rec.TotalNumberOfClusters = (int64_t) fs.f_blocks;
            }
        }
    }

    r = sysconfig_begin(&w, ETL_ROW_SystemConfig_LogDisk);
    if (r < 0)
        return r;
    etl_put(&w, &rec, sizeof(rec));
    return sysconfig_end(c, &w, ETL_ROW_SystemConfig_LogDisk);
}

int sysconfig_add_logical_disks(struct sysconfig *c, const struct sysconfig_roots *roots)
{
    _cleanup_(mount_table_clear) struct mount_table mounts = {0};
    _cleanup_(disks_done) struct disks d = {0};
    int r;

    r = find_all(roots, &d);
    if (r < 0)
        return r;
    if (d.n_logical > 0)
        qsort(d.logical, d.n_logical, sizeof(*d.logical), by_place);
    /* Without a mount table the disks are described without their file systems. */
    r = mount_table_read(&mounts, roots->proc, "self/mountinfo");
    if (r == -ENOMEM)
        return r;
    for (size_t i = 0; i < d.n_logical; i++) {
        r = add_logical_disk(c, &d, &mounts, &d.logical[i]);
        if (r < 0)
            return r;
    }
    return 0;
}
