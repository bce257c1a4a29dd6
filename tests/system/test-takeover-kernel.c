/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's session and a killed etwd: the probes go on, and the file has every fork, exec and
 * exit exactly once and in order, and every context switch.
 *
 * test-takeover-kernel KILLS
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/manager.h"
#include "lib/test.h"

#define NAME "NT Kernel Logger"
#define NOTES_MAX 1000000
#define CPUS_MAX 1024
#define HISTORY_MAX 400
#define KTHREADD 2

static const char *const roomy[] = {"-o", "KernelRingKB=32768", NULL};
static struct test_manager *manager;
static unsigned kills = 5;

static void begin(const struct test_manager_options *o)
{
    static const struct test_manager_options with_room = {.args = roomy};
    test_need_root();
    manager = test_manager_start(o ? o : &with_room);
}

static void end(void)
{
    char *log;
    test_manager_stop(manager);
    log = test_manager_log(manager);
    ck_assert_msg(!strstr(log, "Sanitizer"), "%s", log);
    free(log);
    manager = test_manager_free(manager);
}

static bool log_says(const char *text)
{
    char *log = test_manager_log(manager);
    bool found = strstr(log, text) != NULL;
    free(log);
    return found;
}

static void start_kernel(const char *path, const char *flags)
{
    struct test_output o;
    test_etwctl(&o, "start", "--kernel", "--flags", flags, "-o", path);
    if (o.status != 0) {
        bool refused = strstr(o.err, "cannot be had") != NULL;
        ck_assert_msg(refused, "%s", o.err);
        test_output_done(&o);
        end();
        test_skip("the kernel's events cannot be had here");
    }
    test_output_done(&o);
}

static void stop_kernel(void)
{
    struct test_output o;
    test_etwctl_ok(&o, "stop", NAME);
    test_output_done(&o);
}

static bool runs(void)
{
    struct test_output o;
    test_etwctl(&o, "show", NAME, "--json");
    bool there = o.status == 0;
    test_output_done(&o);
    return there;
}

/* The manager reads what etwd sends in its own time. */
static void wait_stored(size_t n)
{
    for (int i = 0; test_manager_stored(manager) != n; i++) {
        ck_assert_msg(i < TEST_HANG_LIMIT_S * 500, "%zu descriptors are stored, not %zu",
                      test_manager_stored(manager), n);
        usleep(2000);
    }
}

/* ---- a loop of fork, exec and exit ---- */

struct notes {
    _Atomic bool stop;
    _Atomic unsigned n;
    struct note {
        pid_t pid;
        bool exec;
    } note[NOTES_MAX];
};

static struct notes *notes_new(void)
{
    struct notes *n =
        mmap(NULL, sizeof(*n), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(n, MAP_FAILED);
    return n;
}

static pid_t forks_begin(struct notes *notes)
{
    pid_t loop = fork();
    ck_assert_int_ge(loop, 0);
    if (loop > 0)
        return loop;
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 0; !notes->stop && i < NOTES_MAX; i++) {
        bool exec = i % 2 == 1;
        pid_t pid = fork();
        if (pid == 0) {
            if (exec)
                (void) execl("/bin/true", "true", (char *) NULL);
            _exit(0);
        }
        if (pid < 0 || waitpid(pid, NULL, 0) != pid)
            _exit(1);
        notes->note[i].pid = pid;
        notes->note[i].exec = exec;
        notes->n = i + 1;
    }
    _exit(0);
}

static void forks_end(struct notes *notes, pid_t loop)
{
    int status;
    notes->stop = true;
    ck_assert_int_eq(waitpid(loop, &status, 0), loop);
    ck_assert_int_eq(status, 0);
}

/* ---- what the file says ---- */

/* One letter an event: Process Start P, End p, Thread Start T, End t. */
struct history {
    char letters[HISTORY_MAX];
    unsigned n, loads, unloads;
    bool described; /* as a thread */
};

struct told {
    pid_t max;
    struct history *of;                  /* by pid */
    unsigned first_started, first_ended; /* rundown of one that is always there */
    unsigned complete, switches, breaks;
    long long running[CPUS_MAX]; /* -1: not known */
};

static long long number(const char *line, const char *key)
{
    const char *p = strstr(line, key);
    ck_assert_msg(p != NULL, "no %s in: %s", key, line);
    return strtoll(p + strlen(key), NULL, 10);
}

static void add(struct told *t, long long pid, char letter)
{
    if (pid < 0 || pid > t->max)
        return;
    struct history *h = &t->of[pid];
    if (h->n + 1 < HISTORY_MAX)
        h->letters[h->n++] = letter;
}

static void describe(struct told *t, long long tid)
{
    if (tid >= 0 && tid <= t->max)
        t->of[tid].described = true;
}

static void take(struct told *t, const char *line)
{
    bool process = strstr(line, "\"name\":\"Process\"},") != NULL;
    bool thread = strstr(line, "\"name\":\"Thread\"},") != NULL;
    bool starts = strstr(line, "\"event\":\"Start\",") != NULL;
    bool ends = strstr(line, "\"event\":\"End\",") != NULL;

    if (thread && (starts || strstr(line, "\"event\":\"DCStart\",")))
        describe(t, number(line, "\"ThreadId\":"));
    if (process && (starts || ends))
        add(t, number(line, "\"ProcessId\":"), starts ? 'P' : 'p');
    else if (thread && (starts || ends)) {
        long long tid = number(line, "\"ThreadId\":");
        if (tid == number(line, "\"ProcessId\":"))
            add(t, tid, starts ? 'T' : 't');
    } else if (process && number(line, "\"ProcessId\":") == KTHREADD) {
        t->first_started += strstr(line, "\"event\":\"DCStart\",") != NULL;
        t->first_ended += strstr(line, "\"event\":\"DCEnd\",") != NULL;
    } else if (strstr(line, "\"name\":\"Image\"},")) {
        long long pid = number(line, "\"ProcessId\":");
        if (pid >= 0 && pid <= t->max) {
            t->of[pid].loads += strstr(line, "\"event\":\"Load\",") != NULL;
            t->of[pid].unloads += strstr(line, "\"event\":\"UnLoad\",") != NULL;
        }
    } else if (thread && strstr(line, "\"event\":\"CSwitch\",")) {
        long long cpu = number(line, "\"cpu\":");
        ck_assert(cpu >= 0 && cpu < CPUS_MAX && t->running[cpu] <= t->max);
        t->switches++;
        /* Some machines hide a process from all programs of this kind: whoever runs it. */
        if (t->running[cpu] >= 0 && t->running[cpu] != number(line, "\"OldThreadId\":"))
            t->breaks += t->running[cpu] == 0 || t->of[t->running[cpu]].described;
        t->running[cpu] = number(line, "\"NewThreadId\":");
    } else if (strstr(line, "\"event\":\"RDComplete\","))
        t->complete++;
}

static struct told *told_new(const char *path)
{
    char command[4096], *line = NULL;
    size_t size = 0;

    struct told *t = calloc(1, sizeof(*t));
    ck_assert_ptr_nonnull(t);
    FILE *f = fopen("/proc/sys/kernel/pid_max", "re");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%d", &t->max), 1);
    (void) fclose(f);
    t->of = calloc((size_t) t->max + 1, sizeof(*t->of));
    ck_assert_ptr_nonnull(t->of);
    for (int i = 0; i < CPUS_MAX; i++)
        t->running[i] = -1;
    (void) snprintf(command, sizeof(command), "'%s' dump --json '%s'", test_env("ETWCTL"), path);
    f = popen(command, "re");
    ck_assert_ptr_nonnull(f);
    while (getline(&line, &size, f) > 0)
        take(t, line);
    free(line);
    ck_assert_int_eq(pclose(f), 0);
    return t;
}

static void told_free(struct told *t)
{
    free(t->of);
    free(t);
}

static void check_complete(const char *path)
{
    struct test_output o;
    test_etwctl(&o, "summary", path, "--json");
    ck_assert_msg(o.status == 0, "%s: exit status %d, %s", path, o.status, o.out);
    struct json_object *j = test_json(o.out);
    ck_assert(test_json_bool(j, "complete"));
    ck_assert_uint_eq(test_json_u64(j, "events_lost"), 0);
    json_object_put(j);
    test_output_done(&o);
}

static void check_rundown(const struct told *t)
{
    ck_assert_uint_eq(t->first_started, 1);
    ck_assert_uint_eq(t->first_ended, 1);
    ck_assert_uint_eq(t->complete, 2);
}

static void check_notes(struct told *t, const struct notes *notes)
{
    unsigned wrong = 0;

    /* A number may have been given more than once. */
    for (unsigned i = 0; i < notes->n; i++) {
        const struct note *n = &notes->note[i];
        struct history *h = &t->of[n->pid];
        const char *want = n->exec ? "PTtpPTtp" : "PTtp";
        size_t len = strlen(want);
        if (strncmp(h->letters, want, len) != 0) {
            if (wrong++ < 10)
                fprintf(stderr, "pid %d (%s, %u of %u): '%s'\n", n->pid, n->exec ? "exec" : "fork",
                        i, notes->n, h->letters);
            continue;
        }
        memmove(h->letters, h->letters + len, sizeof(h->letters) - len);
    }
    for (unsigned i = 0; i < notes->n; i++) {
        const struct history *h = &t->of[notes->note[i].pid];
        if (h->letters[0] && wrong++ < 10)
            fprintf(stderr, "pid %d: '%s' is left\n", notes->note[i].pid, h->letters);
        if ((h->loads != h->unloads || (notes->note[i].exec && h->loads == 0)) && wrong++ < 10)
            fprintf(stderr, "pid %d: %u images loaded, %u unloaded\n", notes->note[i].pid, h->loads,
                    h->unloads);
    }
    ck_assert_msg(wrong == 0, "%u of %u processes are not as they were", wrong, notes->n);
}

START_TEST(nothing_is_missing)
{
    struct notes *notes = notes_new();
    char *path = test_path("kernel.etl");
    unsigned seed = 7;

    begin(NULL);
    start_kernel(path, "process,thread,image,cswitch");
    size_t stored = test_manager_stored(manager);
    pid_t loop = forks_begin(notes);
    for (unsigned i = 0; i < kills; i++) {
        unsigned seen = notes->n;
        while (notes->n < seen + 10)
            usleep(1000);
        usleep((useconds_t) (rand_r(&seed) % 50000));
        test_manager_kill(manager);
        if (i % 5 == 0) /* and once more, perhaps before it has done anything */
            test_manager_kill(manager);
        ck_assert_msg(runs(), "%s", test_manager_log(manager));
        wait_stored(stored);
    }
    test_loss_identity(NAME);
    forks_end(notes, loop);
    stop_kernel();
    check_complete(path);
    struct told *t = told_new(path);
    check_rundown(t);
    check_notes(t, notes);
    ck_assert_uint_gt(t->switches, notes->n);
    ck_assert_uint_eq(t->breaks, 0);
    told_free(t);
    (void) munmap(notes, sizeof(*notes));
    free(path);
    end();
}
END_TEST

/* Rings that are too small while nobody reads them: what they could not hold is counted. */
START_TEST(losses_are_counted)
{
    static const char *const small[] = {"-o", "KernelRingKB=64", NULL};
    struct notes *notes = notes_new();
    char *path = test_path("small.etl");

    begin(&(struct test_manager_options){.args = small});
    start_kernel(path, "process,thread,cswitch");
    pid_t loop = forks_begin(notes);
    for (int i = 0; i < 3; i++) {
        test_manager_kill_and_hold(manager);
        unsigned seen = notes->n;
        while (notes->n < seen + 300)
            usleep(1000);
        test_manager_wait_ready(manager);
        test_loss_identity(NAME);
    }
    forks_end(notes, loop);
    struct test_output o;
    test_etwctl_ok(&o, "show", NAME, "--json");
    struct json_object *j = test_json(o.out);
    ck_assert_uint_gt(test_json_u64(j, "events_lost"), 0);
    json_object_put(j);
    test_output_done(&o);
    test_loss_identity(NAME);
    test_etwctl(&o, "stop", NAME);
    ck_assert_int_eq(o.status, 4); /* something was lost */
    test_output_done(&o);
    (void) munmap(notes, sizeof(*notes));
    free(path);
    end();
}
END_TEST

/* A command in the background. */
static pid_t call(const char *arg0, ...)
{
    const char *argv[16] = {test_env("ETWCTL"), arg0};
    unsigned n = 2;
    va_list args;

    va_start(args, arg0);
    while (n < 15 && (argv[n] = va_arg(args, const char *)))
        n++;
    va_end(args);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(126);
        (void) execv(argv[0], (char *const *) argv);
        _exit(127);
    }
    return pid;
}

static void kill_twice(unsigned *seed, unsigned within_us)
{
    usleep((useconds_t) ((unsigned) rand_r(seed) % within_us));
    test_manager_kill(manager);
    usleep((useconds_t) (rand_r(seed) % 20000));
    test_manager_kill(manager);
}

/* Killed at any moment of start and stop: a session that is there after its start was under way is
 * whole, and so is the file when it is gone. */
START_TEST(killed_during_start_and_stop)
{
    char *path = test_path("busy.etl");
    unsigned seed = 3, whole = 0;

    begin(NULL);
    start_kernel(path, "process");
    stop_kernel();
    for (unsigned i = 0; i < kills; i++) {
        if (i % 2 == 0) {
            pid_t pid =
                call("start", "--kernel", "--flags", "process,thread,image", "-o", path, NULL);
            kill_twice(&seed, 800000);
            ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        } else
            start_kernel(path, "process,thread,image");
        bool there = runs();
        ck_assert(there || i % 2 == 0);
        if (there) {
            pid_t pid = call("stop", NAME, NULL);
            kill_twice(&seed, 300000);
            ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        }
        while (runs()) {
            struct test_output o;
            test_etwctl(&o, "stop", NAME);
            test_output_done(&o);
            usleep(10000);
        }
        if (there) {
            check_complete(path);
            struct told *t = told_new(path);
            check_rundown(t);
            told_free(t);
            whole++;
        }
        wait_stored(2);
        (void) unlink(path);
    }
    ck_assert_uint_ge(whole, kills / 2);
    free(path);
    end();
}
END_TEST

/* What the manager did not keep cannot go on: the session ends in good order, and says so. */
START_TEST(descriptors_missing)
{
    char *path = test_path("dropped.etl");

    begin(&(struct test_manager_options){.store_max = 7});
    start_kernel(path, "process,thread");
    for (int i = 0; test_manager_dropped(manager) == 0; i++) {
        ck_assert_msg(i < TEST_HANG_LIMIT_S * 500, "the manager drops nothing");
        usleep(2000);
    }
    test_manager_kill(manager);
    while (runs())
        usleep(5000);
    ck_assert(log_says("could not be taken over"));
    check_complete(path);
    /* And the next one can begin. */
    start_kernel(path, "process,thread");
    stop_kernel();
    check_complete(path);
    free(path);
    end();
}
END_TEST

START_TEST(store_is_full)
{
    static const char *const args[] = {"-o", "FdStoreMax=16", NULL};
    char *path = test_path("full.etl");
    struct test_output o;

    begin(&(struct test_manager_options){.args = args, .store_max = 16});
    test_etwctl(&o, "start", "--kernel", "--flags", "process,image,cswitch,dispatcher", "-o", path);
    ck_assert_int_ne(o.status, 0);
    ck_assert_msg(strstr(o.err, "FdStoreMax=16") || strstr(o.err, "cannot be had"), "%s", o.err);
    test_output_done(&o);
    ck_assert_uint_eq(test_manager_dropped(manager), 0);
    wait_stored(2);
    free(path);
    end();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("takeover-kernel");
    TCase *c = tcase_create("takeover-kernel");
    tcase_set_timeout(c, 1800);
    tcase_add_test(c, nothing_is_missing);
    tcase_add_test(c, losses_are_counted);
    tcase_add_test(c, killed_during_start_and_stop);
    tcase_add_test(c, descriptors_missing);
    tcase_add_test(c, store_is_full);
    suite_add_tcase(s, c);
    return s;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        kills = (unsigned) strtoul(argv[1], NULL, 10);
    return test_main(suite());
}
