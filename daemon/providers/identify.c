/* SPDX-License-Identifier: Apache-2.0
 *
 * See identify.h. Texts of /proc are the kernel's, but for names, which are the process's: they are
 * looked for from the right, and only compared.
 */
#include "identify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"

/* A file of /proc, NUL-terminated; what is longer is cut. Returns the bytes. */
static ssize_t proc_read(const char *path, char *text, size_t size)
{
    size_t at = 0;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    while (at < size - 1) {
        ssize_t n = read(fd, text + at, size - 1 - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        at += (size_t) n;
    }
    text[at] = '\0';
    return (ssize_t) at;
}

/* Fields of stat: session is the 6th, the start the 22nd; the name before may hold anything. */
static int stat_read(pid_t pid, uint32_t *ret_session, uint64_t *ret_start)
{
    char path[64], text[2048];
    (void) snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    ssize_t n = proc_read(path, text, sizeof(text));
    if (n < 0)
        return (int) n;
    char *p = strrchr(text, ')');
    char *save = NULL;
    unsigned field = 2;
    if (!p)
        return -ESRCH;
    for (char *word = strtok_r(p + 1, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
        field++;
        if (field == 6)
            *ret_session = (uint32_t) strtoul(word, NULL, 10);
        else if (field == 22) {
            *ret_start = strtoull(word, NULL, 10);
            return 0;
        }
    }
    return -ESRCH;
}

/* The numbers behind "NSpid:", the last one is the innermost. Returns how many. */
static unsigned nspid_read(const char *path, uint32_t *ret_first, uint32_t *ret_last)
{
    char text[4096];
    unsigned n = 0;
    if (proc_read(path, text, sizeof(text)) < 0)
        return 0;
    /* A name in the file has its newlines escaped. */
    const char *p = strstr(text, "\nNSpid:");
    if (!p)
        return 0;
    for (p += strlen("\nNSpid:");;) {
        char *end;
        while (*p == '\t' || *p == ' ')
            p++;
        unsigned long v = strtoul(p, &end, 10);
        if (end == p)
            return n;
        if (n++ == 0)
            *ret_first = (uint32_t) v;
        *ret_last = (uint32_t) v;
        p = end;
    }
}

static int boottime_offset(const char *path, int64_t *ret)
{
    char text[256];
    long long seconds, ns;
    ssize_t n = proc_read(path, text, sizeof(text));
    if (n < 0)
        return (int) n;
    const char *p = strstr(text, "boottime");
    if (!p || sscanf(p, "boottime %lld %lld", &seconds, &ns) != 2)
        return -ENOENT;
    *ret = (int64_t) seconds * (int64_t) ETW_NSEC_PER_SEC + ns;
    return 0;
}

static bool same_link(pid_t pid, const char *name, pid_t other, const char *other_name,
                      bool *ret_same)
{
    char path[64], a[128], b[128];
    (void) snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int) pid, name);
    ssize_t n = readlink(path, a, sizeof(a));
    (void) snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int) other, other_name);
    ssize_t m = readlink(path, b, sizeof(b));
    if (n <= 0 || m <= 0)
        return false;
    *ret_same = n == m && memcmp(a, b, (size_t) n) == 0;
    return true;
}

/* The kernel shows everybody the offsets of the namespace that the process's children get. That is
 * its own, but in a process that called unshare(CLONE_NEWTIME) and has no child yet; where we may
 * look closer we do. */
static void clock_identify(pid_t pid, struct process_identity *id)
{
    char path[64];
    int64_t theirs = 0, ours = 0;
    bool same;

    id->same_time = true;
    if (same_link(pid, "time", getpid(), "time", &same) && same)
        return;
    (void) snprintf(path, sizeof(path), "/proc/%d/timens_offsets", (int) pid);
    if (boottime_offset(path, &theirs) < 0 ||
        boottime_offset("/proc/self/timens_offsets", &ours) < 0)
        return; /* a kernel without time namespaces */
    id->clock_offset = theirs - ours;
    id->same_time = id->clock_offset == 0;
}

int process_identify(pid_t pid, int pidfd, struct process_identity *ret)
{
    struct process_identity id = {.same_time = true};
    char path[64];
    uint32_t first, last;

    if (pid > 0) {
        int r = stat_read(pid, &id.session, &id.start_ticks);
        if (r < 0 && r != -ESRCH && r != -EACCES && r != -EPERM)
            return r;
        (void) snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
        id.foreign_pids = nspid_read(path, &first, &last) > 1;
        clock_identify(pid, &id);
    }
    /* All that was read was its own only if it still lives. */
    if (pidfd >= 0 && !pidfd_alive(pidfd))
        return -ESRCH;
    *ret = id;
    return 0;
}

bool pidfd_alive(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

int pidfd_identify(int pidfd, struct process_ref *ret)
{
    char path[64], text[1024];
    struct process_ref ref = {0};
    uint32_t session;
    long pid;
    int r;

    (void) snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    ssize_t n = proc_read(path, text, sizeof(text));
    if (n < 0)
        return -EBADF;
    const char *p = strstr(text, "\nPid:");
    if (!p)
        return -EBADF;
    pid = strtol(p + strlen("\nPid:"), NULL, 10);
    if (pid <= 0 || pid > INT32_MAX)
        return -ESRCH;
    ref.pid = (int32_t) pid;
    r = stat_read((pid_t) pid, &session, &ref.start_ticks);
    if (r < 0)
        return -ESRCH;
    if (!pidfd_alive(pidfd))
        return -ESRCH;
    *ret = ref;
    return 0;
}

int process_executable(pid_t pid, char **ret)
{
    char path[64], text[ETW_PATH_MAX + 1], comm[64];

    if (pid <= 0)
        return -ESRCH;
    (void) snprintf(path, sizeof(path), "/proc/%d/exe", (int) pid);
    ssize_t n = readlink(path, text, sizeof(text) - 1);
    if (n > 0) {
        static const char deleted[] = " (deleted)";
        text[n] = '\0';
        if ((size_t) n > strlen(deleted) && strcmp(text + n - strlen(deleted), deleted) == 0)
            text[(size_t) n - strlen(deleted)] = '\0';
        *ret = strdup(text);
        return *ret ? 0 : -ENOMEM;
    }
    /* Only its owner and who may trace it see the link. The kernel's name of a program is the first
     * 15 bytes of its file's; the first argument, when it begins with them, tells the rest. */
    (void) snprintf(path, sizeof(path), "/proc/%d/comm", (int) pid);
    n = proc_read(path, comm, sizeof(comm));
    if (n <= 0)
        return n < 0 ? (int) n : -ESRCH;
    comm[strcspn(comm, "\n")] = '\0';
    const char *name = comm;
    (void) snprintf(path, sizeof(path), "/proc/%d/cmdline", (int) pid);
    if (strlen(comm) == 15 && proc_read(path, text, sizeof(text)) > 0) {
        const char *slash = strrchr(text, '/');
        const char *base = slash ? slash + 1 : text;
        if (strncmp(base, comm, strlen(comm)) == 0)
            name = base;
    }
    *ret = strdup(name);
    return *ret ? 0 : -ENOMEM;
}

/* ---- threads ---- */

struct pair {
    uint32_t theirs, ours;
};

struct thread_ids {
    pid_t pid;
    uint32_t leader; /* what the process calls its first thread; 0: not known */
    struct pair *pairs;
    size_t n;
    uint64_t looked; /* when */
};

int thread_ids_new(pid_t pid, struct thread_ids **ret)
{
    struct thread_ids *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->pid = pid;
    /* Known while it lives: the events of a program that is gone in a moment are its first thread's
     * mostly. */
    char path[64];
    uint32_t ours, theirs;
    (void) snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
    if (nspid_read(path, &ours, &theirs) > 0)
        t->leader = theirs;
    *ret = t;
    return 0;
}

struct thread_ids *thread_ids_free(struct thread_ids *t)
{
    if (t)
        free(t->pairs);
    free(t);
    return NULL;
}

static void threads_look(struct thread_ids *t)
{
    char path[64 + 256];
    size_t cap = 0;

    t->n = 0;
    (void) snprintf(path, sizeof(path), "/proc/%d/task", (int) t->pid);
    DIR *d = opendir(path);
    if (!d)
        return;
    for (struct dirent *e; t->n < ETWD_THREADS_LOOKED_AT_MAX && (e = readdir(d));) {
        struct pair p = {0};
        if (e->d_name[0] < '0' || e->d_name[0] > '9')
            continue;
        (void) snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int) t->pid, e->d_name);
        if (nspid_read(path, &p.ours, &p.theirs) == 0)
            continue;
        if (t->n == cap) {
            size_t more = cap ? 2 * cap : 16;
            struct pair *pairs = realloc(t->pairs, more * sizeof(*pairs));
            if (!pairs)
                break;
            t->pairs = pairs;
            cap = more;
        }
        t->pairs[t->n++] = p;
    }
    (void) closedir(d);
}

static uint32_t pairs_find(const struct thread_ids *t, uint32_t theirs)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->pairs[i].theirs == theirs)
            return t->pairs[i].ours;
    return 0;
}

uint32_t thread_ids_find(struct thread_ids *t, uint32_t theirs)
{
    if (theirs != 0 && theirs == t->leader)
        return (uint32_t) t->pid;
    /* A number may have been given to another thread since; one that we find is confirmed. */
    uint32_t ours = pairs_find(t, theirs);
    if (ours != 0) {
        char path[64];
        uint32_t first, last = 0;
        (void) snprintf(path, sizeof(path), "/proc/%d/task/%u/status", (int) t->pid, ours);
        if (nspid_read(path, &first, &last) > 0 && last == theirs)
            return ours;
    }
    uint64_t now = etw_clock_boottime();
    if (t->looked != 0 && now - t->looked < ETWD_THREADS_LOOK_MS * 1000000ULL)
        return 0;
    t->looked = now;
    threads_look(t);
    return pairs_find(t, theirs);
}
