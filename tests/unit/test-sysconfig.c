/* SPDX-License-Identifier: Apache-2.0
 *
 * SystemConfig records: of this machine against what its tools say, and of a made-up machine with
 * disks that this one does not have. The router is stood in for by a list.
 */
#include <check.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/utf16.h"
#include "image/mounts.h"
#include "kernel/sysconfig.h"
#include "kernel/sysconfig_internal.h"
#include "lib/test.h"
#include "router/router.h"

static struct {
    enum etl_row row;
    uint64_t stamp;
    uint32_t size;
    uint8_t data[4096];
} seen[64];
static size_t n_seen;

/* Stands in for the router. */
void router_emit(struct router *r, enum etl_row row, uint16_t cpu, uint64_t stamp,
                 const void *event, uint32_t size, struct session *only)
{
    ck_assert_uint_lt(n_seen, ARRAY_SIZE(seen));
    ck_assert_uint_le(size, sizeof(seen[0].data));
    ck_assert_ptr_eq(only, (void *) 0x5e55);
    seen[n_seen].row = row;
    seen[n_seen].stamp = stamp;
    seen[n_seen].size = size;
    memcpy(seen[n_seen++].data, event, size);
}

#define SESSION ((struct session *) 0x5e55)

static const void *payload(size_t i)
{
    return seen[i].data + etl_header_size(seen[i].row);
}

static size_t payload_size(size_t i)
{
    return seen[i].size - etl_header_size(seen[i].row);
}

static size_t find(enum etl_row row, size_t nth)
{
    for (size_t i = 0; i < n_seen; i++)
        if (seen[i].row == row && nth-- == 0)
            return i;
    ck_abort_msg("no such record: row %d", row);
}

static size_t count(enum etl_row row)
{
    size_t n = 0;

    for (size_t i = 0; i < n_seen; i++)
        n += seen[i].row == row;
    return n;
}

static const char *text(const void *field, size_t units)
{
    static char buf[4][1024];
    static unsigned next;
    char *out = buf[next++ % 4];
    uint16_t copy[1024] = {0};

    memcpy(copy, field, units * 2);
    etw_utf16_to_utf8(copy, etw_utf16_len(copy, units), out, sizeof(buf[0]));
    return out;
}

/* The nth zero-terminated string behind the fixed part; the record must hold it whole. */
static const char *string(size_t i, size_t fixed, size_t nth)
{
    const uint8_t *p = (const uint8_t *) payload(i) + fixed;
    const uint8_t *end = (const uint8_t *) payload(i) + payload_size(i);

    for (;;) {
        const uint8_t *begin = p;

        for (;; p += 2) {
            ck_assert_msg(end - p >= 2, "string %zu of record %zu has no end", nth, i);
            if (p[0] == 0 && p[1] == 0)
                break;
        }
        if (nth-- == 0)
            return text(begin, (size_t) (p - begin) / 2);
        p += 2;
    }
}

static void emit(struct sysconfig *c)
{
    n_seen = 0;
    sysconfig_emit(c, NULL, SESSION, 1234567);
    for (size_t i = 0; i < n_seen; i++)
        ck_assert_uint_eq(seen[i].stamp, 1234567);
}

START_TEST(order_and_network)
{
    struct sysconfig *c;
    struct etl_SystemConfig_Network network;
    char *range;
    unsigned low, high;
    int last = -1;

    ck_assert_int_eq(sysconfig_read(&c), 0);
    sysconfig_emit_network(c, NULL, SESSION, 99);
    ck_assert_uint_eq(n_seen, 1);
    ck_assert_int_eq(seen[0].row, ETL_ROW_SystemConfig_Network);
    ck_assert_uint_eq(seen[0].stamp, 99);
    memcpy(&network, payload(0), sizeof(network));
    range = test_read_file("/proc/sys/net/ipv4/ip_local_port_range", NULL);
    ck_assert_int_eq(sscanf(range, "%u %u", &low, &high), 2);
    free(range);
    ck_assert_uint_eq(network.MaxUserPort, high);
    ck_assert_uint_eq(network.TcpTimedWaitDelay, 60);

    /* CPU, NIC, PhyDisk, Platform, LogDisk, in this order. */
    emit(c);
    for (size_t i = 0; i < n_seen; i++) {
        static const enum etl_row order[] = {
            ETL_ROW_SystemConfig_CPU, ETL_ROW_SystemConfig_NIC, ETL_ROW_SystemConfig_PhyDisk,
            ETL_ROW_SystemConfig_Platform, ETL_ROW_SystemConfig_LogDisk};
        int at = -1;

        for (size_t k = 0; k < ARRAY_SIZE(order); k++)
            if (order[k] == seen[i].row)
                at = (int) k;
        ck_assert_int_ge(at, last);
        last = at;
    }
    ck_assert_uint_eq(count(ETL_ROW_SystemConfig_CPU), 1);
    ck_assert_uint_eq(count(ETL_ROW_SystemConfig_Platform), 1);
    ck_assert_uint_eq(count(ETL_ROW_SystemConfig_Network), 0);
    sysconfig_free(c);
    ck_assert_ptr_null(sysconfig_free(NULL));
}
END_TEST

START_TEST(this_cpu)
{
    struct etl_SystemConfig_CPU cpu;
    struct sysconfig *c;
    struct utsname uts;
    uint64_t pages_mb;

    ck_assert_int_eq(sysconfig_read(&c), 0);
    emit(c);
    ck_assert_uint_eq(payload_size(find(ETL_ROW_SystemConfig_CPU, 0)), sizeof(cpu));
    memcpy(&cpu, payload(find(ETL_ROW_SystemConfig_CPU, 0)), sizeof(cpu));
    ck_assert_int_eq(uname(&uts), 0);
    ck_assert_str_eq(text(cpu.ComputerName, 256), uts.nodename);
    ck_assert_uint_eq(cpu.NumberOfProcessors, (uint32_t) sysconf(_SC_NPROCESSORS_ONLN));
    ck_assert_uint_eq(cpu.PageSize, (uint32_t) sysconf(_SC_PAGESIZE));
    ck_assert_uint_eq(cpu.AllocationGranularity, cpu.PageSize);
    pages_mb = (uint64_t) sysconf(_SC_PHYS_PAGES) * cpu.PageSize / 1024 / 1024;
    ck_assert_uint_ge(cpu.MemSize, pages_mb - 1);
    ck_assert_uint_le(cpu.MemSize, pages_mb + 1);
    ck_assert_uint_eq(cpu.MHz, sysconfig_cpu_mhz());
#if defined(__x86_64__)
    ck_assert_uint_eq(cpu.ProcessorArchitecture, 9);
    ck_assert_uint_ge(cpu.MHz, 100);
    ck_assert_uint_eq(cpu.NxEnabled, 1);
    ck_assert_uint_eq(cpu.PaeEnabled, 1);
    ck_assert_uint_ge(cpu.ProcessorLevel, 6);
    /* Our own stack lies below the highest address. */
    ck_assert_uint_lt((uintptr_t) &cpu, cpu.HighestUserAddress);
#elif defined(__aarch64__)
    ck_assert_uint_eq(cpu.ProcessorArchitecture, 12);
#endif
    sysconfig_free(c);
}
END_TEST

START_TEST(boot_time)
{
    uint64_t boot = sysconfig_boot_filetime();
    char *stat = test_read_file("/proc/stat", NULL);
    const char *line = strstr(stat, "\nbtime ");
    uint64_t seconds;

    ck_assert_ptr_nonnull(line);
    seconds = strtoull(line + 7, NULL, 10);
    free(stat);
    boot = (boot - ETW_FILETIME_UNIX_EPOCH) / ETW_FILETIME_PER_SEC;
    ck_assert_uint_ge(boot + 2, seconds);
    ck_assert_uint_le(boot, seconds + 2);
}
END_TEST

START_TEST(these_interfaces)
{
    struct if_nameindex *list = if_nameindex();
    size_t expected = 0, described;
    struct sysconfig *c;

    ck_assert_ptr_nonnull(list);
    ck_assert_int_eq(sysconfig_read(&c), 0);
    emit(c);
    described = count(ETL_ROW_SystemConfig_NIC);
    for (struct if_nameindex *i = list; i->if_index != 0; i++) {
        bool found = false;
        char path[64], *type, *address = NULL;

        snprintf(path, sizeof(path), "/sys/class/net/%s/type", i->if_name);
        type = test_read_file(path, NULL);
        if (atoi(type) == 772) { /* loopback */
            free(type);
            continue;
        }
        free(type);
        expected++;
        snprintf(path, sizeof(path), "/sys/class/net/%s/address", i->if_name);
        address = test_read_file(path, NULL);
        for (size_t n = 0; n < described && !found; n++) {
            size_t at = find(ETL_ROW_SystemConfig_NIC, n);
            const char *name = string(at, sizeof(struct etl_SystemConfig_NIC), 0);
            size_t len = strlen(i->if_name);
            struct etl_SystemConfig_NIC nic;
            unsigned b[6];
            uint64_t mac;

            if (strncmp(name, i->if_name, len) != 0 || (name[len] != '\0' && name[len] != ' '))
                continue;
            found = true;
            memcpy(&nic, payload(at), sizeof(nic));
            mac = nic.PhysicalAddr;
            if (sscanf(address, "%x:%x:%x:%x:%x:%x", b, b + 1, b + 2, b + 3, b + 4, b + 5) == 6) {
                ck_assert_uint_eq(nic.PhysicalAddrLen, 6);
                for (int k = 0; k < 6; k++)
                    ck_assert_uint_eq((mac >> (8 * k)) & 0xFF, b[k]);
            }
            if (string(at, sizeof(nic), 1)[0] != '\0')
                ck_assert(nic.Ipv4Index == i->if_index || nic.Ipv6Index == i->if_index);
            ck_assert_str_eq(string(at, sizeof(nic), 2), "");
        }
        free(address);
        ck_assert_msg(found, "%s is not described", i->if_name);
    }
    if_freenameindex(list);
    ck_assert_uint_eq(described, expected);
    sysconfig_free(c);
}
END_TEST

START_TEST(root_file_system)
{
    struct etl_SystemConfig_LogDisk disk;
    struct sysconfig *c;
    struct statfs fs;
    struct stat st;
    bool found = false;

    ck_assert_int_eq(stat("/", &st), 0);
    if (major(st.st_dev) == 0)
        test_skip("the root file system has no disk of its own");
    ck_assert_int_eq(sysconfig_read(&c), 0);
    emit(c);
    ck_assert_int_eq(statfs("/", &fs), 0);
    for (size_t n = 0; n < count(ETL_ROW_SystemConfig_LogDisk); n++) {
        memcpy(&disk, payload(find(ETL_ROW_SystemConfig_LogDisk, n)), sizeof(disk));
        if (strcmp(text(disk.DriveLetterString, 4), "/") != 0)
            continue;
        found = true;
        ck_assert_int_eq(disk.TotalNumberOfClusters, (int64_t) fs.f_blocks);
        ck_assert_uint_eq((uint64_t) disk.SectorsPerCluster * disk.BytesPerSector,
                          (uint64_t) fs.f_frsize);
        ck_assert_uint_ge(disk.PartitionSize, (uint64_t) fs.f_blocks * (uint64_t) fs.f_frsize);
        ck_assert_uint_gt(strlen(text(disk.FileSystem, 16)), 0);
    }
    ck_assert(found);
    sysconfig_free(c);
}
END_TEST

/* A made-up machine. */

static char *root;

static void put(const char *path, const char *content)
{
    char full[512], *slash;
    FILE *f;

    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void) mkdir(full, 0755);
        *slash = '/';
    }
    f = fopen(full, "w");
    ck_assert_msg(f != NULL, "%s: %m", full);
    fputs(content, f);
    ck_assert_int_eq(fclose(f), 0);
}

static void put_link(const char *path, const char *target)
{
    char full[512];

    snprintf(full, sizeof(full), "%s/%s", root, path);
    ck_assert_msg(symlink(target, full) == 0, "%s: %m", full);
}

static struct sysconfig *read_made_up(void)
{
    struct sysconfig_roots roots;
    struct sysconfig *c;
    char *path;

    path = test_path("machine/sys");
    roots.sys = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(path);
    path = test_path("machine/proc");
    roots.proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(path);
    ck_assert_int_eq(sysconfig_read_from(&roots, &c), 0);
    emit(c);
    close(roots.sys);
    close(roots.proc);
    return c;
}

START_TEST(made_up_machine)
{
    struct etl_SystemConfig_PhyDisk disk;
    struct etl_SystemConfig_LogDisk logical;
    struct etl_SystemConfig_CPU cpu;
    struct sysconfig *c;
    size_t i;

    root = test_path("machine");
    mkdir(root, 0755);
    put("proc/cpuinfo", "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 158\nmodel name\t: X\n"
                        "stepping\t: 10\ncpu MHz\t\t: 800.1\nflags\t\t: fpu pae la57 nxx\n\n"
                        "processor\t: 1\ncpu MHz\t\t: 3599.7\nflags\t\t: fpu pae la57 nxx\n");
    put("proc/meminfo", "MemTotal:       16303428 kB\nMemFree: 1 kB\n");
    put("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
    put("proc/self/mountinfo", "30 1 8:2 / /home\\040of rw shared:1 - ext4 /dev/sda2 rw\n"
                               "nonsense\n"
                               "31 1 253:0 / /var rw - xfs /dev/mapper/vg-var rw\n"
                               "32 1 8:1 / /nfs rw - nfs server:/export rw\n");
    put("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1\n");
    put("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0\n");
    put("sys/class/dmi/id/sys_vendor", "  ACME  \n");
    put("sys/class/dmi/id/product_name", "Anvil \xff 3000\n");
    put("sys/class/dmi/id/bios_date", "01/02/2023\n");
    put("sys/class/dmi/id/bios_version", "F.7\nsecond line");

    /* A SATA disk with two partitions, found after an NVMe disk by name, before it by number. */
    put("sys/block/nvme0n1/dev", "259:0\n");
    put("sys/block/nvme0n1/size", "2000409264\n");
    put("sys/block/nvme0n1/device/model", "WD Black   \n");
    put("sys/block/nvme0n1/queue/logical_block_size", "4096\n");
    put("sys/block/sda/dev", "8:0\n");
    put("sys/block/sda/size", "16065000\n"); /* 1000 cylinders */
    put("sys/block/sda/queue/logical_block_size", "512\n");
    put("sys/block/sda/queue/write_cache", "write back\n");
    put("sys/devices/ata/2:0:1:3/vendor", "ATA     \n");
    put("sys/devices/ata/2:0:1:3/model", "Samsung SSD 860 \n");
    put_link("sys/block/sda/device", "../../devices/ata/2:0:1:3");
    put("sys/block/sda/sda2/partition", "2\n");
    put("sys/block/sda/sda2/dev", "8:2\n");
    put("sys/block/sda/sda2/start", "1050624\n");
    put("sys/block/sda/sda2/size", "1000000\n");
    put("sys/block/sda/sda1/partition", "1\n");
    put("sys/block/sda/sda1/dev", "8:1\n");
    put("sys/block/sda/sda1/start", "2048\n");
    put("sys/block/sda/sda1/size", "1048576\n");
    /* LVM over both disks, and something on top of that. */
    put("sys/block/dm-0/dev", "253:0\n");
    put("sys/block/dm-0/size", "5000\n");
    put("sys/block/dm-0/slaves/sda1/x", "");
    put("sys/block/dm-0/slaves/nvme0n1/x", "");
    put("sys/block/dm-1/dev", "253:1\n");
    put("sys/block/dm-1/size", "4000\n");
    put("sys/block/dm-1/slaves/dm-0/x", "");
    /* Not disks. */
    put("sys/block/loop0/dev", "7:0\n");
    put("sys/block/loop0/size", "8\n");
    put("sys/block/sr0/dev", "11:0\n");
    put("sys/block/sr0/device/model", "DVD\n");
    put("sys/block/nvme0c0n1/dev", "259:1\n");
    put("sys/block/nvme0c0n1/hidden", "1\n");
    put("sys/block/nvme0c0n1/device/model", "path\n");

    c = read_made_up();
    memcpy(&cpu, payload(find(ETL_ROW_SystemConfig_CPU, 0)), sizeof(cpu));
    ck_assert_uint_eq(cpu.MemSize, 15921);
    ck_assert_uint_eq(cpu.HyperThreadingFlag, 2);
    ck_assert_uint_eq(cpu.MemorySpeed, 0);
#if defined(__x86_64__)
    ck_assert_uint_eq(cpu.MHz, 3600);
    ck_assert_uint_eq(cpu.ProcessorLevel, 6);
    ck_assert_uint_eq(cpu.ProcessorRevision, 158 << 8 | 10);
    ck_assert_uint_eq(cpu.PaeEnabled, 1);
    ck_assert_uint_eq(cpu.NxEnabled, 0);
    ck_assert_uint_eq(cpu.HighestUserAddress, 0xFFFFFFFFFFEFFF);
#endif

    i = find(ETL_ROW_SystemConfig_Platform, 0);
    ck_assert_str_eq(string(i, 0, 0), "ACME");
    ck_assert_str_eq(string(i, 0, 1), "Anvil \xef\xbf\xbd 3000");
    ck_assert_str_eq(string(i, 0, 2), "01/02/2023");
    ck_assert_str_eq(string(i, 0, 3), "F.7");

    ck_assert_uint_eq(count(ETL_ROW_SystemConfig_PhyDisk), 2);
    memcpy(&disk, payload(find(ETL_ROW_SystemConfig_PhyDisk, 0)), sizeof(disk));
    ck_assert_uint_eq(disk.DiskNumber, 0);
    ck_assert_str_eq(text(disk.Manufacturer, 256), "ATA Samsung SSD 860 (sda)");
    ck_assert_uint_eq(disk.BytesPerSector, 512);
    ck_assert_uint_eq(disk.Cylinders, 1000);
    ck_assert_uint_eq(disk.PartitionCount, 2);
    ck_assert_uint_eq(disk.WriteCacheEnabled, 1);
    ck_assert_uint_eq(disk.SCSIPort, 2);
    ck_assert_uint_eq(disk.SCSIPath, 0);
    ck_assert_uint_eq(disk.SCSITarget, 1);
    ck_assert_uint_eq(disk.SCSILun, 3);
    memcpy(&disk, payload(find(ETL_ROW_SystemConfig_PhyDisk, 1)), sizeof(disk));
    ck_assert_uint_eq(disk.DiskNumber, 1);
    ck_assert_str_eq(text(disk.Manufacturer, 256), "WD Black (nvme0n1)");
    ck_assert_uint_eq(disk.BytesPerSector, 4096);
    ck_assert_uint_eq(disk.PartitionCount, 0);
    ck_assert_uint_eq(disk.WriteCacheEnabled, 0);

    /* In order of place: the volumes, which begin nowhere, first; the unmounted disk not at all. */
    ck_assert_uint_eq(count(ETL_ROW_SystemConfig_LogDisk), 4);
    memcpy(&logical, payload(find(ETL_ROW_SystemConfig_LogDisk, 0)), sizeof(logical));
    ck_assert_uint_eq(logical.DriveType, 3);
    ck_assert_uint_eq(logical.PartitionSize, 5000 * 512);
    ck_assert_uint_eq(logical.PartitionNumber, 0);
    ck_assert_str_eq(text(logical.FileSystem, 16), "xfs");
    /* The mount table's id is not that of what is really at /var here: no figures. */
    ck_assert_int_eq(logical.TotalNumberOfClusters, 0);
    memcpy(&logical, payload(find(ETL_ROW_SystemConfig_LogDisk, 1)), sizeof(logical));
    ck_assert_uint_eq(logical.DriveType, 3);
    ck_assert_uint_eq(logical.PartitionSize, 4000 * 512);
    memcpy(&logical, payload(find(ETL_ROW_SystemConfig_LogDisk, 2)), sizeof(logical));
    ck_assert_uint_eq(logical.DriveType, 1);
    ck_assert_uint_eq(logical.DiskNumber, 0);
    ck_assert_uint_eq(logical.PartitionNumber, 1);
    ck_assert_uint_eq(logical.StartOffset, 2048 * 512);
    ck_assert_uint_eq(logical.PartitionSize, 1048576ULL * 512);
    ck_assert_str_eq(text(logical.FileSystem, 16), ""); /* the NFS mount is not asked about */
    memcpy(&logical, payload(find(ETL_ROW_SystemConfig_LogDisk, 3)), sizeof(logical));
    ck_assert_uint_eq(logical.PartitionNumber, 2);
    ck_assert_str_eq(text(logical.FileSystem, 16), "ext4");
    ck_assert_str_eq(text(logical.DriveLetterString, 4), ""); /* "/home of" is too long */
    sysconfig_free(c);
    free(root);
}
END_TEST

/* A machine that tells nothing still gives the records that are always there. */
START_TEST(silent_machine)
{
    struct etl_SystemConfig_CPU cpu;
    struct sysconfig *c;

    root = test_path("machine");
    test_remove_tree(root);
    mkdir(root, 0755);
    put("sys/x", "");
    put("proc/x", "");
    c = read_made_up();
    memcpy(&cpu, payload(find(ETL_ROW_SystemConfig_CPU, 0)), sizeof(cpu));
    ck_assert_uint_eq(cpu.MHz, 0);
    ck_assert_uint_eq(cpu.MemSize, 0);
    ck_assert_uint_gt(cpu.NumberOfProcessors, 0);
    ck_assert_uint_eq(count(ETL_ROW_SystemConfig_Platform), 1);
    ck_assert_uint_eq(count(ETL_ROW_SystemConfig_PhyDisk), 0);
    ck_assert_uint_eq(count(ETL_ROW_SystemConfig_LogDisk), 0);
    sysconfig_free(c);
    free(root);
}
END_TEST

START_TEST(mount_tables)
{
    char table[] = "\n"
                   "1 0 0:1 / / rw - rootfs rootfs rw\n"
                   "x 0 0:1 / / rw - ext4 a rw\n"
                   "2 1 8:1 / /a\\040b\\134 rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw\n"
                   "3 1 0:50 / /n rw - nfs4 h:/x rw\n"
                   "4 1 99999999999999999999:1 / / rw - ext4 a rw\n"
                   "5 1 8 / / rw - ext4 a rw\n"
                   "6 1 8:3 / /s rw - tmpfs  rw\n"
                   "7 1 8:3 / /f rw shared:1\n"
                   "8 1 0:51 / /f rw - fuse.sshfs x rw";
    struct mount_table t = {.text = table, .size = sizeof(table) - 1};
    struct mount_entry e;
    char out[16];
    size_t pos = 0, n = 0;

    while (mount_table_next(&t, &pos, &e))
        n++;
    ck_assert_uint_eq(n, 5);
    ck_assert(mount_table_find_id(&t, 2, &e));
    ck_assert_uint_eq(e.dev_major, 8);
    ck_assert_uint_eq(e.dev_minor, 1);
    ck_assert(e.local);
    ck_assert_int_eq(mount_unescape(e.point, e.point_size, out, sizeof(out)), 0);
    ck_assert_str_eq(out, "/a b\\");
    ck_assert_int_eq(mount_unescape(e.point, e.point_size, out, 5), -ENAMETOOLONG);
    ck_assert_int_eq(mount_unescape(e.point, e.point_size, out, 6), 0);
    ck_assert_int_eq(mount_unescape("a\\04", 4, out, sizeof(out)), 0);
    ck_assert_str_eq(out, "a\\04");
    ck_assert(mount_table_find_id(&t, 3, &e));
    ck_assert(!e.local);
    ck_assert(mount_table_find_id(&t, 6, &e));
    ck_assert(e.local);
    ck_assert_uint_eq(e.source_size, 0);
    ck_assert(mount_table_find_id(&t, 8, &e));
    ck_assert(!e.local);
    ck_assert(!mount_table_find_id(&t, 7, &e));
    ck_assert(mount_type_local("ext4", 4));
    ck_assert(!mount_type_local("ext", 3));
    ck_assert(!mount_type_local("ext44", 5));
    ck_assert(!mount_type_local("fuse", 4));
    ck_assert(!mount_type_local("fuseblk", 7));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sysconfig");
    TCase *t = tcase_create("records");

    tcase_add_test(t, order_and_network);
    tcase_add_test(t, this_cpu);
    tcase_add_test(t, boot_time);
    tcase_add_test(t, these_interfaces);
    tcase_add_test(t, root_file_system);
    tcase_add_test(t, made_up_machine);
    tcase_add_test(t, silent_machine);
    tcase_add_test(t, mount_tables);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
