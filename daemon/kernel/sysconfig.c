/* SPDX-License-Identifier: Apache-2.0
 *
 * SystemConfig records: the processor, the platform, the network's settings, and the list that the
 * others (sysdisks.c, sysnics.c) add to. Reading happens on the worker thread, emitting on the loop
 * thread.
 */
#include "kernel/sysconfig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/utf16.h"
#include "kernel/sysconfig_internal.h"
#include "router/router.h"

/* PROCESSOR_ARCHITECTURE_* of Windows. */
#define ARCHITECTURE_AMD64 9
#define ARCHITECTURE_ARM64 12

int sysconfig_text(int dirfd, const char *path, char *buf, size_t size)
{
    _cleanup_close_ int fd = -1;
    size_t begin = 0, end;
    ssize_t n;

    fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    n = read(fd, buf, size - 1);
    if (n < 0)
        return -errno;
    buf[n] = '\0';
    end = strcspn(buf, "\n");
    while (buf[begin] == ' ' || buf[begin] == '\t')
        begin++;
    while (end > begin && (buf[end - 1] == ' ' || buf[end - 1] == '\t'))
        end--;
    if (begin > end)
        begin = end;
    memmove(buf, buf + begin, end - begin);
    buf[end - begin] = '\0';
    return 0;
}

uint64_t sysconfig_number(int dirfd, const char *path, uint64_t fallback)
{
    unsigned long long v;
    char buf[64], *end;

    if (sysconfig_text(dirfd, path, buf, sizeof(buf)) < 0 || buf[0] < '0' || buf[0] > '9')
        return fallback;
    errno = 0;
    v = strtoull(buf, &end, 10);
    return errno == 0 && *end == '\0' ? v : fallback;
}

void sysconfig_wide(void *field, size_t count, const char *text)
{
    uint16_t wide[256];

    if (count > ARRAY_SIZE(wide))
        count = ARRAY_SIZE(wide);
    memset(wide, 0, sizeof(wide));
    (void) etw_utf8_to_utf16(text, SIZE_MAX, wide, count);
    memcpy(field, wide, count * sizeof(uint16_t));
}

int sysconfig_begin(struct etl_writer *w, enum etl_row row)
{
    *w = (struct etl_writer){.cap = ETW_EVENT_MAX};
    w->data = malloc(w->cap);
    if (!w->data)
        return -ENOMEM;
    etl_event_begin(w, row);
    return 0;
}

int sysconfig_end(struct sysconfig *c, struct etl_writer *w, enum etl_row row)
{
    _cleanup_free_ uint8_t *data = w->data;
    struct sysconfig_event *events;
    uint8_t *kept;
    int size;

    w->data = NULL;
    size = etl_event_end(&(struct etl_writer){data, w->size, w->cap, w->overflow}, row, 0,
                         (uint32_t) gettid(), (uint32_t) getpid(), 0);
    if (size < 0)
        return size;
    events = realloc(c->events, (c->n_events + 1) * sizeof(*events));
    if (!events)
        return -ENOMEM;
    c->events = events;
    kept = realloc(data, (size_t) size);
    if (!kept)
        return -ENOMEM;
    data = NULL;
    events[c->n_events++] =
        (struct sysconfig_event){.row = row, .size = (uint32_t) size, .data = kept};
    return 0;
}

/* What /proc/cpuinfo says of the first processor, and the highest speed of all. */
struct cpuinfo {
    uint32_t mhz;
    uint16_t level;
    uint16_t revision;
    bool pae;
    bool nx;
    bool la57;
};

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list; (p = strstr(p, word)); p += len)
        if ((p == list || p[-1] == ' ' || p[-1] == '\t') &&
            (p[len] == '\0' || p[len] == ' ' || p[len] == '\n'))
            return true;
    return false;
}

static void read_cpuinfo(const struct sysconfig_roots *roots, struct cpuinfo *ret)
{
    unsigned family = 0, model = 0, stepping = 0;
    unsigned part = 0, variant = 0, revision = 0;
    _cleanup_fclose_ FILE *f = NULL;
    _cleanup_free_ char *line = NULL;
    struct cpuinfo info = {0};
    size_t cap = 0;
    int fd;

    *ret = info;
    fd = openat(roots->proc, "cpuinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    f = fdopen(fd, "r");
    if (!f) {
        safe_close(fd);
        return;
    }
    while (getline(&line, &cap, f) >= 0) {
        const char *value = strchr(line, ':');
        double mhz;

        if (!value)
            continue;
        value++;
        if (strncmp(line, "cpu MHz", 7) == 0) {
            mhz = strtod(value, NULL);
            if (mhz > info.mhz && mhz < 1e6)
                info.mhz = (uint32_t) (mhz + 0.5);
        } else if (strncmp(line, "cpu family", 10) == 0)
            family = (unsigned) strtoul(value, NULL, 10);
        else if (strncmp(line, "model\t", 6) == 0)
            model = (unsigned) strtoul(value, NULL, 10);
        else if (strncmp(line, "stepping", 8) == 0)
            stepping = (unsigned) strtoul(value, NULL, 10);
        else if (strncmp(line, "CPU part", 8) == 0)
            part = (unsigned) strtoul(value, NULL, 16);
        else if (strncmp(line, "CPU variant", 11) == 0)
            variant = (unsigned) strtoul(value, NULL, 16);
        else if (strncmp(line, "CPU revision", 12) == 0)
            revision = (unsigned) strtoul(value, NULL, 10);
        else if (strncmp(line, "flags", 5) == 0) {
            info.pae = has_word(value, "pae");
            info.nx = has_word(value, "nx");
            info.la57 = has_word(value, "la57");
        }
    }
#if defined(__aarch64__)
    info.level = (uint16_t) part;
    info.revision = (uint16_t) (variant << 8 | (revision & 0xFF));
    info.nx = true; /* part of the architecture */
    (void) family;
    (void) model;
    (void) stepping;
#else
    info.level = (uint16_t) family;
    info.revision = (uint16_t) (model << 8 | (stepping & 0xFF));
    (void) part;
    (void) variant;
    (void) revision;
#endif
    *ret = info;
}

uint32_t sysconfig_cpu_mhz_from(const struct sysconfig_roots *roots)
{
    uint64_t khz;
    struct cpuinfo info;

    khz = sysconfig_number(roots->sys, "devices/system/cpu/cpu0/cpufreq/base_frequency", 0);
    if (khz == 0)
        khz = sysconfig_number(roots->sys, "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", 0);
    if (khz >= 1000 && khz / 1000 <= UINT32_MAX)
        return (uint32_t) (khz / 1000);
    read_cpuinfo(roots, &info);
    return info.mhz;
}

/* A bit for each of the first 64 processors that shares its core. */
static uint64_t hyper_threads(const struct sysconfig_roots *roots)
{
    uint64_t flags = 0;

    for (unsigned cpu = 0; cpu < 64; cpu++) {
        char path[96], list[256];

        (void) snprintf(path, sizeof(path),
                        "devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
        if (sysconfig_text(roots->sys, path, list, sizeof(list)) == 0 && strpbrk(list, ",-"))
            flags |= 1ULL << cpu;
    }
    return flags;
}

static uint64_t memory_megabytes(const struct sysconfig_roots *roots)
{
    char line[128];
    unsigned long long kilobytes;

    /* MemTotal is its first line. */
    if (sysconfig_text(roots->proc, "meminfo", line, sizeof(line)) < 0 ||
        sscanf(line, "MemTotal: %llu kB", &kilobytes) != 1)
        return 0;
    return kilobytes / 1024;
}

static int add_cpu(struct sysconfig *c, const struct sysconfig_roots *roots)
{
    struct etl_SystemConfig_CPU rec = {0};
    long page_size = sysconf(_SC_PAGESIZE);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct cpuinfo info;
    struct utsname uts;
    struct etl_writer w;
    uint64_t megabytes;
    int r;

    read_cpuinfo(roots, &info);
    megabytes = memory_megabytes(roots);
    rec.MHz = sysconfig_cpu_mhz_from(roots);
    rec.NumberOfProcessors = processors > 0 ? (uint32_t) processors : 0;
    rec.MemSize = megabytes < UINT32_MAX ? (uint32_t) megabytes : UINT32_MAX;
    rec.PageSize = page_size > 0 ? (uint32_t) page_size : 0;
    rec.AllocationGranularity = rec.PageSize; /* mmap(2) places by pages */
    if (uname(&uts) == 0) {
        sysconfig_wide(rec.ComputerName, ARRAY_SIZE(rec.ComputerName), uts.nodename);
        if (strcmp(uts.domainname, "(none)") != 0)
            sysconfig_wide(rec.DomainName, ARRAY_SIZE(rec.DomainName), uts.domainname);
    }
    rec.HyperThreadingFlag = hyper_threads(roots);
#if defined(__x86_64__)
    /* The top page of the lower half stays unmapped. */
    rec.HighestUserAddress = (1ULL << (info.la57 ? 56 : 47)) - 4096 - 1;
    rec.ProcessorArchitecture = ARCHITECTURE_AMD64;
#elif defined(__aarch64__)
    rec.HighestUserAddress = (1ULL << 48) - 1;
    rec.ProcessorArchitecture = ARCHITECTURE_ARM64;
#endif
    rec.ProcessorLevel = info.level;
    rec.ProcessorRevision = info.revision;
    rec.PaeEnabled = info.pae;
    rec.NxEnabled = info.nx;
    /* MemorySpeed: only root can read it from the firmware's tables. */

    r = sysconfig_begin(&w, ETL_ROW_SystemConfig_CPU);
    if (r < 0)
        return r;
    etl_put(&w, &rec, sizeof(rec));
    return sysconfig_end(c, &w, ETL_ROW_SystemConfig_CPU);
}

/* A firmware string (x86: DMI; else the device tree's model as the product's name). */
static void firmware_text(const struct sysconfig_roots *roots, const char *name, char *buf,
                          size_t size)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "class/dmi/id/%s", name);
    if (sysconfig_text(roots->sys, path, buf, size) < 0)
        buf[0] = '\0';
}

static int add_platform(struct sysconfig *c, const struct sysconfig_roots *roots)
{
    char vendor[256], product[256], date[256], version[256];
    struct etl_writer w;
    int r;

    firmware_text(roots, "sys_vendor", vendor, sizeof(vendor));
    firmware_text(roots, "product_name", product, sizeof(product));
    firmware_text(roots, "bios_date", date, sizeof(date));
    firmware_text(roots, "bios_version", version, sizeof(version));
    if (product[0] == '\0' &&
        sysconfig_text(roots->sys, "firmware/devicetree/base/model", product, sizeof(product)) < 0)
        product[0] = '\0';

    r = sysconfig_begin(&w, ETL_ROW_SystemConfig_Platform);
    if (r < 0)
        return r;
    etl_put_wsz(&w, vendor, SIZE_MAX, 255);
    etl_put_wsz(&w, product, SIZE_MAX, 255);
    etl_put_wsz(&w, date, SIZE_MAX, 255);
    etl_put_wsz(&w, version, SIZE_MAX, 255);
    return sysconfig_end(c, &w, ETL_ROW_SystemConfig_Platform);
}

static int add_network(struct sysconfig *c, const struct sysconfig_roots *roots)
{
    struct etl_SystemConfig_Network rec = {0};
    unsigned low, high;
    struct etl_writer w;
    char range[64];
    int r;

    if (sysconfig_text(roots->proc, "sys/net/ipv4/ip_local_port_range", range, sizeof(range)) ==
            0 &&
        sscanf(range, "%u %u", &low, &high) == 2)
        rec.MaxUserPort = high;
    rec.TcpTimedWaitDelay = 60; /* TCP_TIMEWAIT_LEN, fixed in the kernel; seconds */

    r = sysconfig_begin(&w, ETL_ROW_SystemConfig_Network);
    if (r < 0)
        return r;
    etl_put(&w, &rec, sizeof(rec));
    return sysconfig_end(c, &w, ETL_ROW_SystemConfig_Network);
}

struct sysconfig *sysconfig_free(struct sysconfig *c)
{
    if (!c)
        return NULL;
    for (size_t i = 0; i < c->n_events; i++)
        free(c->events[i].data);
    free(c->events);
    free(c);
    return NULL;
}

int sysconfig_read_from(const struct sysconfig_roots *roots, struct sysconfig **ret)
{
    /* In the order in which Windows writes them. */
    static int (*const parts[])(struct sysconfig *, const struct sysconfig_roots *) = {
        add_network,         add_cpu,      sysconfig_add_nics,
        sysconfig_add_disks, add_platform, sysconfig_add_logical_disks,
    };
    struct sysconfig *c;

    c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        int r = parts[i](c, roots);

        if (r < 0) {
            sysconfig_free(c);
            return r;
        }
    }
    *ret = c;
    return 0;
}

static int open_roots(struct sysconfig_roots *ret)
{
    struct sysconfig_roots roots;

    roots.sys = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (roots.sys < 0)
        return -errno;
    roots.proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (roots.proc < 0) {
        int r = -errno;

        safe_close(roots.sys);
        return r;
    }
    *ret = roots;
    return 0;
}

static void close_roots(const struct sysconfig_roots *roots)
{
    safe_close(roots->sys);
    safe_close(roots->proc);
}

int sysconfig_read(struct sysconfig **ret)
{
    struct sysconfig_roots roots;
    int r;

    r = open_roots(&roots);
    if (r < 0)
        return r;
    r = sysconfig_read_from(&roots, ret);
    close_roots(&roots);
    return r;
}

uint32_t sysconfig_cpu_mhz(void)
{
    struct sysconfig_roots roots;
    uint32_t mhz;

    if (open_roots(&roots) < 0)
        return 0;
    mhz = sysconfig_cpu_mhz_from(&roots);
    close_roots(&roots);
    return mhz;
}

uint64_t sysconfig_boot_filetime(void)
{
    uint64_t since_boot = etw_clock_boottime();
    uint64_t now = etw_clock_ns(CLOCK_REALTIME);

    return etw_filetime_from_unix_ns(now > since_boot ? now - since_boot : 0);
}

static void emit(const struct sysconfig *c, bool network, struct router *r, struct session *s,
                 uint64_t stamp)
{
    for (size_t i = 0; i < c->n_events; i++) {
        const struct sysconfig_event *e = &c->events[i];

        if ((e->row == ETL_ROW_SystemConfig_Network) != network)
            continue;
        etl_event_set_stamp(e->data, stamp);
        router_emit(r, e->row, 0, stamp, e->data, e->size, s);
    }
}

void sysconfig_emit(const struct sysconfig *c, struct router *r, struct session *s, uint64_t stamp)
{
    emit(c, false, r, s, stamp);
}

void sysconfig_emit_network(const struct sysconfig *c, struct router *r, struct session *s,
                            uint64_t stamp)
{
    emit(c, true, r, s, stamp);
}
