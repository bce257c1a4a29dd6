/* SPDX-License-Identifier: Apache-2.0
 *
 * The context switches of `perf bench sched pipe` in a trace, against the kernel's own counters of
 * its two processes, with nothing lost at the defaults.
 */
#include "lib/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etl/file.h"

#define LOOPS 100000

/* Voluntary and nonvoluntary switches of the children that were waited for, and of theirs. */
static uint64_t children_switches(void)
{
    struct rusage u;

    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &u), 0);
    return (uint64_t) u.ru_nvcsw + (uint64_t) u.ru_nivcsw;
}

static pid_t run_bench(const char *loops)
{
    pid_t pid = fork();
    int status;

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
            _exit(126);
        execlp("perf", "perf", "bench", "sched", "pipe", "-l", loops, (char *) NULL);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "perf bench: status 0x%x", status);
    return pid;
}

/* Everything in a file, by the process that perf was and its children. */
struct counts {
    uint32_t pids[64];
    size_t n_pids;
    uint64_t switches;
    uint64_t all_switches;
};

static bool of_bench(const struct counts *c, uint32_t pid)
{
    for (size_t i = 0; i < c->n_pids; i++)
        if (c->pids[i] == pid)
            return true;
    return false;
}

static void look(struct counts *c, const struct etl_event *e, bool starts)
{
    if (starts && e->header_type == ETL_SYSTEM64 && etl_event_hook(e) == 0x0301) {
        struct etl_Process_TypeGroup1 p;

        ck_assert_uint_ge(e->data_size, sizeof(p));
        memcpy(&p, e->data, sizeof(p));
        if (of_bench(c, p.ParentId) && !of_bench(c, p.ProcessId)) {
            ck_assert_uint_lt(c->n_pids, 64);
            c->pids[c->n_pids++] = p.ProcessId;
        }
    } else if (!starts && e->header_type == ETL_PERFINFO64 && etl_event_hook(e) == 0x0524) {
        struct etl_Thread_CSwitch s;

        ck_assert_uint_eq(e->data_size, sizeof(s));
        memcpy(&s, e->data, sizeof(s));
        c->all_switches++;
        /* Both processes have one thread: its id is theirs. */
        c->switches += of_bench(c, s.OldThreadId);
    }
}

static void read_file(const char *path, struct counts *c)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const struct etl_buffer_ref *refs;
    struct etl_file *f;
    bool truncated;
    size_t n, size;
    char *buf;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(etl_file_open_fd(fd, &f), 0);
    ck_assert_int_eq(etl_file_index(f, &refs, &n, &truncated), 0);
    ck_assert(!truncated);
    size = etl_file_buffer_bytes(f);
    buf = malloc(size);
    /* First the processes, whose events may lie anywhere. */
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n; i++) {
            struct etl_buffer_info info;
            struct etl_event e;
            struct etl_iter it;
            size_t len;

            ck_assert_int_eq(etl_file_read_buffer(f, &refs[i], buf, size, &info, &len), 0);
            etl_iter_init(&it, buf, len, info.end);
            while (etl_iter_next(&it, &e) == 1)
                look(c, &e, pass == 0);
            ck_assert_int_eq(it.error, 0);
        }
    free(buf);
    etl_file_free(f);
    close(fd);
}

START_TEST(two_threads)
{
    struct test_daemon *d;
    struct test_output o;
    struct json_object *s;
    struct counts c = {0};
    uint64_t kernel;
    char *file = test_path("pipe.etl");
    char loops[16];

    test_need_root();
    d = test_daemon_start();
    test_etwctl_ok(&o, "start", "--kernel", "--flags", "process,cswitch", "-o", file);
    test_output_done(&o);
    snprintf(loops, sizeof(loops), "%d", test_scale(LOOPS));
    kernel = children_switches();
    c.pids[c.n_pids++] = (uint32_t) run_bench(loops);
    kernel = children_switches() - kernel;
    test_etwctl_ok(&o, "show", "--kernel", "--json");
    s = test_json(o.out);
    test_loss_identity_object(s);
    ck_assert_msg(test_json_u64(s, "events_lost") == 0, "events were lost: %s", o.out);
    ck_assert_uint_ge(test_json_u64(s, "recorded"), kernel);
    json_object_put(s);
    test_output_done(&o);
    test_etwctl_ok(&o, "stop", "--kernel");
    test_output_done(&o);

    read_file(file, &c);
    fprintf(stderr, "%zu processes: %llu switches by the kernel's counters, %llu in the trace\n",
            c.n_pids, (unsigned long long) kernel, (unsigned long long) c.switches);
    ck_assert_uint_ge(c.n_pids, 2);
    ck_assert_uint_ge(kernel, (uint64_t) test_scale(LOOPS));
    ck_assert_uint_ge(c.switches, kernel - kernel / 100);
    ck_assert_uint_le(c.switches, kernel + kernel / 100);
    free(file);
    test_daemon_stop(d);
    test_daemon_free(d);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("context-switches");
    TCase *tc = tcase_create("context-switches");

    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, two_threads);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
