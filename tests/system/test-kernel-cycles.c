/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting and stopping the kernel logger again and again: nothing may grow in the daemon or stay
 * behind in the kernel. The number of cycles is the argument times ETW_TEST_SCALE.
 */
#include "lib/test.h"

#include <dirent.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <KernelTraceControl.h>
#include <evntrace.h>

#define FLAGS                                                                                      \
    (EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_THREAD | EVENT_TRACE_FLAG_IMAGE_LOAD |            \
     EVENT_TRACE_FLAG_CSWITCH | EVENT_TRACE_FLAG_DISPATCHER)

static int cycles = 20;

struct properties {
    EVENT_TRACE_PROPERTIES p;
    char session[128];
    char file[512];
};

static void init_properties(struct properties *p, const char *file)
{
    memset(p, 0, sizeof(*p));
    p->p.Wnode.BufferSize = sizeof(*p);
    p->p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    p->p.Wnode.Guid = SystemTraceControlGuid;
    p->p.Wnode.ClientContext = 1;
    p->p.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
    p->p.EnableFlags = FLAGS;
    p->p.LoggerNameOffset = offsetof(struct properties, session);
    p->p.LogFileNameOffset = offsetof(struct properties, file);
    snprintf(p->file, sizeof(p->file), "%s", file);
}

/* Ids of the BPF objects that the daemon holds, by the fields of its descriptors. */
struct ids {
    uint32_t progs[256], maps[256], links[256];
    size_t n_progs, n_maps, n_links;
};

static void add(uint32_t *ids, size_t *n, uint32_t id)
{
    for (size_t i = 0; i < *n; i++)
        if (ids[i] == id)
            return;
    ck_assert_uint_lt(*n, 256);
    ids[(*n)++] = id;
}

static void collect(pid_t pid, struct ids *ret)
{
    char dir_path[64];
    struct dirent *e;
    DIR *dir;

    snprintf(dir_path, sizeof(dir_path), "/proc/%d/fdinfo", (int) pid);
    dir = opendir(dir_path);
    if (!dir)
        ck_abort_msg("cannot open %s: %m", dir_path);
    while ((e = readdir(dir))) {
        char path[512], line[256];
        unsigned int id;
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", dir_path, e->d_name);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f)) {
            if (sscanf(line, "prog_id: %u", &id) == 1)
                add(ret->progs, &ret->n_progs, id);
            else if (sscanf(line, "map_id: %u", &id) == 1)
                add(ret->maps, &ret->n_maps, id);
            else if (sscanf(line, "link_id: %u", &id) == 1)
                add(ret->links, &ret->n_links, id);
        }
        if (f)
            fclose(f);
    }
    closedir(dir);
}

static bool gone(int command, uint32_t id)
{
    union bpf_attr attr;
    int fd;

    memset(&attr, 0, sizeof(attr));
    attr.prog_id = id;
    fd = (int) syscall(SYS_bpf, command, &attr, sizeof(attr));
    if (fd >= 0)
        close(fd);
    else if (errno != ENOENT)
        ck_abort_msg("bpf(%d) of id %u: %m", command, id);
    return fd < 0;
}

/* The kernel frees them after a grace period. */
static void wait_gone(int command, const char *what, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int tick = 0; !gone(command, ids[i]); tick++) {
            if (tick == TEST_HANG_LIMIT_S * 100)
                ck_abort_msg("BPF %s %u is still there after the session has ended", what, ids[i]);
            usleep(10000);
        }
}

/* Connections and files are closed soon after the reply: the count once it has been the same for a
 * second. */
static size_t settled_fds(pid_t pid)
{
    size_t n = test_count_fds(pid);

    for (int same = 0, tick = 0; same < 100; tick++) {
        size_t now;

        if (tick == TEST_HANG_LIMIT_S * 100)
            ck_abort_msg("the number of descriptors does not settle: %zu", n);
        usleep(10000);
        now = test_count_fds(pid);
        same = now == n ? same + 1 : 0;
        n = now;
    }
    return n;
}

static void cycle(const char *file, pid_t daemon, bool look)
{
    struct properties p;
    TRACEHANDLE handle = 0;
    struct ids ids = {0};
    ULONG e;

    init_properties(&p, file);
    e = StartKernelTrace(&handle, &p.p, NULL, 0);
    ck_assert_msg(e == ERROR_SUCCESS, "StartKernelTrace: %lu", (unsigned long) e);
    if (look) {
        collect(daemon, &ids);
        ck_assert_msg(ids.n_progs + ids.n_links > 0, "no BPF program in etwd's descriptors");
        ck_assert_uint_gt(ids.n_maps, 0);
    }
    init_properties(&p, file);
    p.p.LogFileNameOffset = offsetof(struct properties, file);
    e = StopTrace(handle, NULL, &p.p);
    ck_assert_msg(e == ERROR_SUCCESS, "StopTrace: %lu", (unsigned long) e);
    ck_assert_uint_gt(p.p.BuffersWritten, 0);
    if (look) {
        wait_gone(BPF_LINK_GET_FD_BY_ID, "link", ids.links, ids.n_links);
        wait_gone(BPF_PROG_GET_FD_BY_ID, "program", ids.progs, ids.n_progs);
        wait_gone(BPF_MAP_GET_FD_BY_ID, "map", ids.maps, ids.n_maps);
    }
}

START_TEST(start_and_stop)
{
    struct test_daemon *d;
    char *file = test_path("cycle.etl");
    int n = test_scale(cycles), warm = n / 10 + 5;
    size_t fds, kb, now;

    test_need_root();
    d = test_daemon_start();
    for (int i = 0; i < warm; i++)
        cycle(file, d->pid, true);
    fds = settled_fds(d->pid);
    kb = test_resident_kb(d->pid);
    for (int i = 0; i < n; i++)
        cycle(file, d->pid, i % 10 == 0);
    ck_assert_uint_eq(settled_fds(d->pid), fds);
    now = test_resident_kb(d->pid);
    fprintf(stderr, "%d cycles: %zu descriptors, resident %zu KiB, then %zu KiB\n", n, fds, kb,
            now);
    /* Sanitizers keep freed memory. */
    if (!getenv("ETW_SANITIZED"))
        ck_assert_msg(now <= kb + 2048, "resident memory grew from %zu to %zu KiB", kb, now);
    test_daemon_stop(d);
    test_daemon_free(d);
    free(file);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("kernel-cycles");
    TCase *tc = tcase_create("kernel-cycles");

    tcase_set_timeout(tc, 3600);
    tcase_add_test(tc, start_and_stop);
    suite_add_tcase(s, tc);
    return s;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cycles = atoi(argv[1]);
    return test_main(suite());
}
