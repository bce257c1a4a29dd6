/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel's events mean, on real processes: threads, exec by another thread than the first,
 * deaths, mappings, long texts, what was there before and is there after, context switches and
 * ready threads of a sleeper; programs loaded only for what is wanted; loss with rings too small.
 *
 * This program is its own load: with a first argument "load:..." it does that and ends.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <evntrace.h>

#include "lib/test.h"

extern char **environ;
static const char *self;

/* Loads. */

static void *thread_names_itself(void *arg)
{
    pthread_setname_np(pthread_self(), "second thread");
    return NULL;
}

static int load_threads(void)
{
    pthread_t t;

    for (int i = 0; i < 3; i++)
        if (pthread_create(&t, NULL, thread_names_itself, NULL) != 0 || pthread_join(t, NULL) != 0)
            return 1;
    return 0;
}

static void *thread_execs(void *arg)
{
    execl("/bin/true", "true", "by-thread", NULL);
    _exit(99);
}

static int load_exec_by_thread(void)
{
    pthread_t t;

    if (pthread_create(&t, NULL, thread_execs, NULL) != 0)
        return 1;
    for (;;)
        pause();
}

static void *thread_exits_process(void *arg)
{
    _exit(42);
}

/* The first thread goes before the last one ends the process. */
static int load_first_thread_first(void)
{
    pthread_t t;

    if (pthread_create(&t, NULL, thread_exits_process, NULL) != 0)
        return 1;
    pthread_exit(NULL);
}

static int load_library(void)
{
    void *l = dlopen("libz.so.1", RTLD_NOW);
    if (!l || dlclose(l) != 0)
        return 1;
    return 0;
}

static int load_deleted(void)
{
    char path[] = "/tmp/etw-deleted-XXXXXX";
    char page[4096] = "";
    int fd = mkstemp(path);

    if (fd < 0 || write(fd, page, sizeof(page)) != sizeof(page) || unlink(path) < 0)
        return 1;
    void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    return p == MAP_FAILED || munmap(p, 4096) < 0;
}

/* Sleeps of 40 ms, then one that a signal ends. */
static int load_sleeps(void)
{
    struct timespec t = {.tv_nsec = 40000000};

    for (int i = 0; i < 5; i++)
        nanosleep(&t, NULL);
    return 0;
}

/* Two processes that hand each other a byte: context switches as fast as they come. */
static int load_pipes(void)
{
    int there[2], back[2];
    char byte = 0;

    if (pipe2(there, O_CLOEXEC) < 0 || pipe2(back, O_CLOEXEC) < 0)
        return 1;
    pid_t child = fork();
    if (child < 0)
        return 1;
    for (int i = 0; i < 20000; i++)
        if (child ? write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1
                  : read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
            _exit(1);
    if (!child)
        _exit(0);
    return waitpid(child, NULL, 0) != child;
}

static int load_waits(void)
{
    prctl(PR_SET_NAME, "renamed");
    pause();
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} loads[] = {
    {"load:threads", load_threads},
    {"load:exec-by-thread", load_exec_by_thread},
    {"load:first-thread-first", load_first_thread_first},
    {"load:library", load_library},
    {"load:deleted", load_deleted},
    {"load:sleeps", load_sleeps},
    {"load:pipes", load_pipes},
    {"load:waits", load_waits},
};

static pid_t start(const char *const argv[])
{
    pid_t pid;

    int r = posix_spawn(&pid, argv[0], NULL, NULL, (char *const *) argv, environ);
    ck_assert_msg(r == 0, "%s: %s", argv[0], strerror(r));
    return pid;
}

/* The last thing that load:waits does before it waits: it is loaded, and has its name. */
static void wait_renamed(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/comm", (int) pid);
    for (int i = 0;; i++) {
        char *name = test_read_file(path, NULL);
        bool renamed = strcmp(name, "renamed\n") == 0;
        free(name);
        if (renamed)
            return;
        ck_assert_msg(i < TEST_HANG_LIMIT_S * 100, "process %d does not come to wait", (int) pid);
        usleep(10000);
    }
}

static int ended(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

/* Runs a program to its end; its pid. */
static pid_t run(int expected, const char *argv0, const char *argv1, const char *argv2)
{
    const char *argv[] = {argv0, argv1, argv2, NULL};
    pid_t pid = start(argv);
    int status = ended(pid);

    ck_assert_msg(status == expected, "%s %s: status %d", argv0, argv1 ? argv1 : "", status);
    return pid;
}

/* Traces. */

static struct test_daemon *d;
static char *file;

static void setup(void)
{
    if (geteuid() != 0)
        return;
    /* An identity that comes late on a busy machine would be missing, not wrong. */
    d = test_daemon_start("-o", "ImageTimeoutMs=60000");
    file = test_path("kernel.etl");
}

static void teardown(void)
{
    if (!d)
        return;
    test_daemon_stop(d);
    d = test_daemon_free(d);
    free(file);
}

static void trace_start(const char *flags)
{
    struct test_output o;

    test_etwctl_ok(&o, "start", "--kernel", "--flags", flags, "-o", file);
    test_output_done(&o);
}

static struct json_object *trace; /* the events, an array */

static void trace_stop(bool identity)
{
    struct test_output o;

    if (identity)
        test_loss_identity("NT Kernel Logger");
    test_etwctl_ok(&o, "stop", "--kernel");
    test_output_done(&o);
    test_run_limit(&o, 600,
                   (const char *const[]){test_env("ETWCTL"), "dump", "--json", file, NULL});
    ck_assert_msg(o.status == 0, "dump: %d %s", o.status, o.err);
    if (trace)
        json_object_put(trace);
    trace = test_json_lines(o.out);
    test_output_done(&o);
}

static bool is(struct json_object *e, const char *provider, const char *event)
{
    return strcmp(test_json_str(e, "provider.name"), provider) == 0 &&
           strcmp(test_json_str(e, "event"), event) == 0;
}

static uint64_t number(struct json_object *e, const char *field)
{
    char path[64];

    snprintf(path, sizeof(path), "payload.%s", field);
    return (uint64_t) json_object_get_int64(test_json_get(e, path));
}

static const char *string(struct json_object *e, const char *field)
{
    char path[64];

    snprintf(path, sizeof(path), "payload.%s", field);
    return test_json_str(e, path);
}

/* The n-th event of this kind of process `pid` (payload), or NULL. */
static struct json_object *find(const char *provider, const char *event, pid_t pid, int n)
{
    for (size_t i = 0; i < json_object_array_length(trace); i++) {
        struct json_object *e = json_object_array_get_idx(trace, i);
        if (is(e, provider, event) && test_json_has(e, "payload.ProcessId") &&
            number(e, "ProcessId") == (uint64_t) pid && n-- == 0)
            return e;
    }
    return NULL;
}

static int count(const char *provider, const char *event, pid_t pid)
{
    int n = 0;
    while (find(provider, event, pid, n))
        n++;
    return n;
}

static struct json_object *need(const char *provider, const char *event, pid_t pid, int n)
{
    struct json_object *e = find(provider, event, pid, n);
    ck_assert_msg(e, "no %s %s number %d of process %d", provider, event, n, (int) pid);
    return e;
}

static size_t place(struct json_object *e)
{
    for (size_t i = 0; i < json_object_array_length(trace); i++)
        if (json_object_array_get_idx(trace, i) == e)
            return i;
    ck_abort_msg("not in the trace");
}

static struct json_object *image(const char *event, pid_t pid, const char *name)
{
    struct json_object *e;

    for (int n = 0; (e = find("Image", event, pid, n)); n++) {
        const char *path = string(e, "FileName");
        const char *slash = strrchr(path, '/');
        if (strncmp(slash ? slash + 1 : path, name, strlen(name)) == 0)
            return e;
    }
    return NULL;
}

/* Tests. */

START_TEST(threads)
{
    test_need_root();
    trace_start("process,thread");
    pid_t pid = run(0, self, "load:threads", NULL);
    trace_stop(true);
    /* One with the fork, one with the exec, three of its own. */
    ck_assert_int_eq(count("Thread", "Start", pid), 5);
    ck_assert_int_eq(count("Thread", "End", pid), 5);
    ck_assert_int_eq(count("Process", "Start", pid), 2);
    for (int i = 2; i < 5; i++) {
        struct json_object *s = need("Thread", "Start", pid, i);
        uint64_t tid = number(s, "ThreadId");
        ck_assert_uint_ne(tid, (uint64_t) pid);
        ck_assert_uint_eq(test_json_u64(s, "pid"), (uint64_t) pid); /* the creator's */
        ck_assert_uint_eq(test_json_u64(s, "tid"), (uint64_t) pid);
        ck_assert_str_ne(string(s, "UserStackBase"), "0x0");
        ck_assert_str_ne(string(s, "Win32StartAddr"), "0x0");
        ck_assert_str_ne(string(s, "TebBase"), "0x0");
        struct json_object *e = need("Thread", "End", pid, i - 1);
        ck_assert_uint_eq(number(e, "ThreadId"), tid);
        ck_assert_uint_eq(test_json_u64(e, "tid"), tid);
        ck_assert_str_eq(string(e, "ThreadName"), "second thread");
        ck_assert_str_eq(string(e, "UserStackBase"), string(s, "UserStackBase"));
    }
    struct json_object *end = need("Process", "End", pid, 1);
    ck_assert_uint_gt(place(end), place(need("Thread", "End", pid, 4)));
}
END_TEST

START_TEST(exec_by_thread)
{
    test_need_root();
    trace_start("process,thread,image");
    pid_t pid = run(0, self, "load:exec-by-thread", NULL);
    trace_stop(true);
    /* fork, exec of this program, exec of true. */
    ck_assert_int_eq(count("Process", "Start", pid), 3);
    ck_assert_int_eq(count("Process", "End", pid), 3);
    struct json_object *s = need("Process", "Start", pid, 2), *e = need("Process", "End", pid, 1);
    ck_assert_str_eq(string(s, "ImageFileName"), "true");
    ck_assert_str_eq(string(s, "CommandLine"), "true by-thread");
    ck_assert_uint_eq(test_json_u64(s, "timestamp"), test_json_u64(e, "timestamp"));
    ck_assert_uint_lt(place(e), place(s));
    ck_assert_uint_eq(number(e, "ExitStatus"), 0);
    /* Four threads began: two by fork and exec, the second one, and again the first by its exec. */
    ck_assert_int_eq(count("Thread", "Start", pid), 4);
    ck_assert_int_eq(count("Thread", "End", pid), 4);
    struct json_object *x = need("Linux-Kernel", "Exec", pid, 1);
    ck_assert_uint_ne(number(x, "OldThreadId"), (uint64_t) pid);
    ck_assert_str_eq(string(x, "OldUniqueProcessKey"), string(e, "UniqueProcessKey"));
    ck_assert_str_eq(string(x, "NewUniqueProcessKey"), string(s, "UniqueProcessKey"));
    ck_assert_str_eq(string(x, "FileName"), "/bin/true");
    /* Every image that came has gone. */
    ck_assert_int_eq(count("Image", "Load", pid), count("Image", "UnLoad", pid));
}
END_TEST

START_TEST(deaths)
{
    test_need_root();
    trace_start("process,thread");
    pid_t first = run(42 << 8, self, "load:first-thread-first", NULL);
    pid_t killed = start((const char *const[]){self, "load:waits", NULL});
    wait_renamed(killed);
    ck_assert_int_eq(kill(killed, SIGUSR1), 0);
    ck_assert(WIFSIGNALED(ended(killed)));
    trace_stop(true);
    struct json_object *e = need("Process", "End", first, 1);
    ck_assert_uint_eq(number(e, "ExitStatus"), 42);
    ck_assert_int_eq(count("Thread", "End", first), 3);
    ck_assert_uint_gt(place(e), place(need("Thread", "End", first, 2)));
    ck_assert_uint_eq(number(need("Process", "End", killed, 1), "ExitStatus"), 128 + SIGUSR1);
}
END_TEST

START_TEST(libraries)
{
    test_need_root();
    trace_start("process,image");
    pid_t pid = run(0, self, "load:library", NULL);
    pid_t deleted = run(0, self, "load:deleted", NULL);
    trace_stop(true);
    struct json_object *l = image("Load", pid, "libz.so"), *u = image("UnLoad", pid, "libz.so");
    ck_assert_ptr_nonnull(l);
    ck_assert_ptr_nonnull(u);
    ck_assert_str_eq(string(l, "ImageBase"), string(u, "ImageBase"));
    ck_assert_str_eq(string(l, "ImageSize"), string(u, "ImageSize"));
    ck_assert_uint_lt(place(l), place(u));
    /* Before the end of the process. */
    ck_assert_uint_lt(place(u), place(need("Process", "End", pid, 1)));
    ck_assert_ptr_nonnull(image("Load", deleted, "etw-deleted-"));
    ck_assert_ptr_nonnull(image("UnLoad", deleted, "etw-deleted-"));
}
END_TEST

/* The base is where the file's first byte would lie, and identity stands before the Load. */
START_TEST(identities)
{
    test_need_root();
    trace_start("process,image");
    pid_t pid = run(0, "/bin/true", NULL, NULL);
    trace_stop(true);
    if (access(test_env("ETWD_LIBEXEC"), X_OK) < 0)
        test_skip("no etwd-image");
    int identified = 0;
    struct json_object *i, *l;
    for (int n = 0; (i = find("ImageId", "DbgIdRSDS", pid, n)); n++) {
        struct json_object *b = need("Linux-Kernel", "ImageBuildId", pid, n);
        bool found = false;
        ck_assert_str_eq(string(i, "ImageBase"), string(b, "ImageBase"));
        for (int k = 0; !found && (l = find("Image", "Load", pid, k)); k++)
            found = test_json_u64(l, "timestamp") == test_json_u64(i, "timestamp") &&
                    strcmp(string(l, "ImageBase"), string(i, "ImageBase")) == 0 &&
                    place(l) > place(i);
        ck_assert_msg(found, "an identity without its image");
        identified++;
    }
    /* true, the loader and libc; Debian's binaries have build-ids. */
    ck_assert_int_ge(identified, 3);
}
END_TEST

static void check_cut(const char *text, size_t units)
{
    size_t length = strlen(text);

    ck_assert_msg(length > 3 && memcmp(text + length - 3, "\xE2\x80\xA6", 3) == 0,
                  "not cut: %zu bytes", length);
    if (units)
        ck_assert_uint_eq(length - 2, units);
}

START_TEST(long_texts)
{
    char path[600], *argument = malloc(20001);
    struct test_output o;

    test_need_root();
    /* A path that the short form of the record does not hold. */
    snprintf(path, sizeof(path), "%s/", test_tempdir());
    while (strlen(path) < 500)
        strcat(path, "./");
    strcat(path, "a-program-with-a-long-name");
    test_run_ok(&o, "cp", "/bin/true", path);
    test_output_done(&o);
    memset(argument, 'x', 20000);
    argument[20000] = '\0';

    trace_start("process,image");
    pid_t pid = run(0, path, "two words", "");
    argument[5000] = '\0';
    pid_t medium = run(0, "/bin/true", argument, "end");
    argument[5000] = 'x';
    pid_t big = run(0, "/bin/true", argument, NULL);
    trace_stop(true);
    struct json_object *s = need("Process", "Start", pid, 1);
    ck_assert_str_eq(string(s, "ImageFileName"), "a-program-with-a-long-name");
    ck_assert_int_eq(strncmp(string(s, "CommandLine"), path, strlen(path)), 0);
    ck_assert_str_eq(string(s, "CommandLine") + strlen(path), " two words");
    ck_assert_str_eq(string(need("Linux-Kernel", "Exec", pid, 0), "FileName"), path);
    ck_assert_uint_eq(strlen(string(need("Process", "Start", medium, 1), "CommandLine")),
                      10 + 5000 + 4);
    check_cut(string(need("Process", "Start", big, 1), "CommandLine"), 8191);

    /* Buffers of 4 KiB: less, but no event is lost. */
    test_etwctl_ok(&o, "start", "--kernel", "--flags", "process", "--buffer-size", "4", "--buffers",
                   "64:256", "-o", file);
    test_output_done(&o);
    big = run(0, "/bin/true", argument, NULL);
    trace_stop(true);
    check_cut(string(need("Process", "Start", big, 1), "CommandLine"), 0);
    check_cut(string(need("Process", "End", big, 1), "CommandLine"), 0);
    free(argument);
}
END_TEST

/* What was there before, and is there after. */
START_TEST(rundown)
{
    test_need_root();
    pid_t before = start((const char *const[]){self, "load:waits", "an argument", NULL});
    wait_renamed(before);
    trace_start("process,thread,image");
    pid_t within = start((const char *const[]){self, "load:waits", NULL});
    wait_renamed(within);
    trace_stop(true);

    /* The order of the first events. */
    static const char *const first[] = {"Header",  "Extension", "EndExtension",
                                        "Network", "Extension", NULL};
    size_t at = 0, length = json_object_array_length(trace);
    for (size_t i = 0; i < length && first[at]; i++) {
        struct json_object *e = json_object_array_get_idx(trace, i);
        if (strcmp(test_json_str(e, "event"), first[at]) == 0)
            at++;
    }
    ck_assert_msg(!first[at], "%s is missing at the start", first[at]);

    struct json_object *s = need("Process", "DCStart", before, 0);
    ck_assert_int_eq(count("Process", "Start", before), 0);
    ck_assert_uint_eq(number(s, "ExitStatus"), 259);
    ck_assert_uint_eq(number(s, "ParentId"), (uint64_t) getpid());
    ck_assert_ptr_nonnull(strstr(string(s, "CommandLine"), "load:waits an argument"));
    struct json_object *e = need("Process", "DCEnd", before, 0);
    ck_assert_str_eq(string(s, "UniqueProcessKey"), string(e, "UniqueProcessKey"));
    ck_assert_str_eq(string(need("Thread", "DCStart", before, 0), "ThreadName"), "renamed");
    ck_assert_ptr_nonnull(image("DCStart", before, "libc.so"));
    ck_assert_ptr_nonnull(image("DCEnd", before, "libc.so"));
    ck_assert_str_eq(string(image("DCStart", before, "libc.so"), "ImageBase"),
                     string(image("DCEnd", before, "libc.so"), "ImageBase"));

    /* Born while traced: named by what it was started as, described at the end. */
    ck_assert_int_eq(count("Process", "DCStart", within), 0);
    s = need("Process", "Start", within, 1);
    e = need("Process", "DCEnd", within, 0);
    ck_assert_str_eq(string(s, "UniqueProcessKey"), string(e, "UniqueProcessKey"));
    ck_assert_str_eq(string(s, "ImageFileName"), string(e, "ImageFileName"));
    ck_assert_str_eq(string(need("Thread", "DCEnd", within, 0), "ThreadName"), "renamed");
    ck_assert_ptr_nonnull(image("DCEnd", within, "libc.so"));

    /* Everybody, once: also this process, its threads, the idle process and the kernel. */
    ck_assert_int_eq(count("Process", "DCStart", getpid()), 1);
    ck_assert_int_eq(count("Process", "DCStart", 0), 1);
    ck_assert_str_eq(string(need("Process", "DCStart", 0, 0), "ImageFileName"), "Idle");
    ck_assert_int_eq(count("Thread", "DCStart", 0), (int) sysconf(_SC_NPROCESSORS_ONLN));
    ck_assert_ptr_nonnull(image("DCStart", 0, "vmlinux"));
    ck_assert_ptr_nonnull(find("Process", "DCStart", 2, 0)); /* kthreadd */

    struct json_object *last = json_object_array_get_idx(trace, length - 1);
    ck_assert_str_eq(test_json_str(last, "event"), "RDComplete");
    kill(before, SIGKILL);
    kill(within, SIGKILL);
    ended(before);
    ended(within);
}
END_TEST

/* What is there is many times what the buffers hold: it is written as fast as they are, and nothing
 * is lost. */
START_TEST(rundown_in_few_buffers)
{
    enum { N = 200 };
    pid_t pids[N];
    struct test_output o;

    test_need_root();
    for (int i = 0; i < N; i++)
        pids[i] = start((const char *const[]){self, "load:waits", NULL});
    for (int i = 0; i < N; i++)
        wait_renamed(pids[i]);
    /* A daemon under sanitizers writes slower than this machine's other programs come and go. */
    test_etwctl_ok(&o, "start", "--kernel", "--flags", "process,thread,image", "--buffer-size", "4",
                   "--buffers", getenv("ETW_SANITIZED") ? "8:4096" : "8:96", "-o", file);
    test_output_done(&o);
    trace_stop(true);
    for (int i = 0; i < N; i++) {
        kill(pids[i], SIGKILL);
        ended(pids[i]);
    }
    size_t n[3] = {0};
    for (size_t i = 0; i < json_object_array_length(trace); i++) {
        struct json_object *e = json_object_array_get_idx(trace, i);
        n[0] += is(e, "Process", "DCStart");
        n[1] += is(e, "Process", "DCEnd");
        n[2] += is(e, "Image", "DCStart");
    }
    ck_assert_uint_ge(n[0], N);
    ck_assert_uint_ge(n[1], N);
    ck_assert_uint_ge(n[2], 3 * N);
    for (int i = 0; i < N; i += 50) {
        ck_assert_int_eq(count("Process", "DCStart", pids[i]), 1);
        ck_assert_int_eq(count("Process", "DCEnd", pids[i]), 1);
        ck_assert_ptr_nonnull(image("DCStart", pids[i], "libc.so"));
        ck_assert_ptr_nonnull(image("DCEnd", pids[i], "libc.so"));
    }
    test_etwctl_ok(&o, "summary", "--json", file);
    struct json_object *s = test_json(o.out);
    ck_assert_uint_eq(test_json_u64(s, "events_lost"), 0);
    json_object_put(s);
    test_output_done(&o);
}
END_TEST

/* A sleeper: out as waiting for a user request, woken, in again after two or three ticks. */
START_TEST(sleeper)
{
    test_need_root();
    trace_start("process,thread,cswitch,dispatcher");
    pid_t pid = run(0, self, "load:sleeps", NULL);
    trace_stop(true);
    unsigned sleeps = 0, returns = 0, readied = 0, ends = 0;
    for (size_t i = 0; i < json_object_array_length(trace); i++) {
        struct json_object *e = json_object_array_get_idx(trace, i);
        if (is(e, "Thread", "ReadyThread") && number(e, "TThreadId") == (uint64_t) pid)
            readied++;
        if (!is(e, "Thread", "CSwitch"))
            continue;
        if (number(e, "OldThreadId") == (uint64_t) pid) {
            uint64_t state = number(e, "OldThreadState"), why = number(e, "OldThreadWaitReason");
            ck_assert_uint_eq(number(e, "OldThreadPriority"), 5); /* nice 0: prio 120 */
            sleeps += state == 5 && why == 6;
            ends += state == 4 && why == 22;
        }
        if (number(e, "NewThreadId") == (uint64_t) pid) {
            uint64_t ticks = number(e, "NewThreadWaitTime");
            returns += ticks >= 2 && ticks < 64;
        }
    }
    ck_assert_uint_ge(sleeps, 5);
    ck_assert_uint_ge(returns, 5);
    ck_assert_uint_ge(readied, 5);
    ck_assert_uint_eq(ends, 1);
}
END_TEST

static uint64_t programs(void)
{
    struct test_output o;

    test_etwctl_ok(&o, "status", "--json");
    struct json_object *s = test_json(o.out);
    uint64_t n = test_json_u64(s, "kernel.programs");
    json_object_put(s);
    test_output_done(&o);
    return n;
}

START_TEST(only_needed_programs)
{
    uint64_t n[4];

    test_need_root();
    ck_assert_uint_eq(programs(), 0);
    trace_start("cswitch");
    n[0] = programs();
    trace_stop(false);
    trace_start("cswitch,dispatcher");
    n[1] = programs();
    trace_stop(false);
    trace_start("process");
    n[2] = programs();
    trace_stop(false);
    trace_start("process,image");
    n[3] = programs();
    trace_stop(false);
    ck_assert_uint_eq(n[0], 1);
    ck_assert_uint_eq(n[1], 3);
    ck_assert_uint_ge(n[2], 3);
    ck_assert_uint_eq(n[3], n[2] + 2);
    ck_assert_uint_eq(programs(), 0);
    /* Only what was asked for is in a file. */
    trace_start("thread");
    run(0, "/bin/true", NULL, NULL);
    trace_stop(true);
    for (size_t i = 0; i < json_object_array_length(trace); i++) {
        struct json_object *e = json_object_array_get_idx(trace, i);
        const char *provider = test_json_str(e, "provider.name");
        ck_assert_str_ne(provider, "Process");
        ck_assert_str_ne(provider, "Image");
    }
}
END_TEST

static void update_flags(ULONG flags)
{
    struct {
        EVENT_TRACE_PROPERTIES p;
        char text[1024];
    } u;

    memset(&u, 0, sizeof(u));
    u.p.Wnode.BufferSize = sizeof(u);
    u.p.LoggerNameOffset = sizeof(u.p);
    u.p.LogFileNameOffset = sizeof(u.p) + 512;
    ck_assert_uint_eq(ControlTraceA(0, KERNEL_LOGGER_NAMEA, &u.p, EVENT_TRACE_CONTROL_QUERY), 0);
    u.p.EnableFlags = flags;
    u.p.LogFileNameOffset = 0;
    u.p.FlushTimer = 0;
    ck_assert_uint_eq(ControlTraceA(0, KERNEL_LOGGER_NAMEA, &u.p, EVENT_TRACE_CONTROL_UPDATE), 0);
}

/* Flags that are added are described and traced from then on; those that go take their programs
 * with them. */
START_TEST(changed_flags)
{
    test_need_root();
    trace_start("cswitch");
    pid_t early = run(0, "/bin/true", NULL, NULL);
    update_flags(EVENT_TRACE_FLAG_CSWITCH | EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_IMAGE_LOAD);
    pid_t within = run(0, "/bin/true", NULL, NULL);
    ck_assert_uint_gt(programs(), 5);
    update_flags(EVENT_TRACE_FLAG_PROCESS);
    pid_t late = run(0, "/bin/true", NULL, NULL);
    uint64_t few = programs();
    update_flags(EVENT_TRACE_FLAG_CSWITCH);
    pid_t after = run(0, "/bin/true", NULL, NULL);
    ck_assert_uint_eq(programs(), 1);
    ck_assert_uint_gt(few, 1);
    trace_stop(true);
    ck_assert_int_eq(count("Process", "Start", early), 0);
    ck_assert_int_eq(count("Process", "DCStart", getpid()), 1);
    ck_assert_ptr_nonnull(image("DCStart", getpid(), "libc.so"));
    ck_assert_int_eq(count("Process", "Start", within), 2);
    ck_assert_ptr_nonnull(image("Load", within, "true"));
    ck_assert_int_eq(count("Process", "Start", late), 2);
    ck_assert_int_eq(count("Image", "Load", late), 0);
    ck_assert_int_eq(count("Process", "Start", after), 0);
    ck_assert_int_eq(count("Thread", "Start", within), 0);
    ck_assert_int_eq(count("Process", "DCEnd", getpid()), 0); /* not wanted at the end */
}
END_TEST

/* Rings of one page, and more than they hold: the loss is told, and nothing else is wrong. */
START_TEST(small_rings)
{
    struct test_output o;
    struct json_object *s;
    uint64_t lost = 0;

    test_need_root();
    test_daemon_stop(d);
    d = test_daemon_free(d);
    d = test_daemon_start("-o", "KernelRingKB=64", "-o", "PassIntervalUs=100000");
    trace_start("process,thread,image,cswitch,dispatcher");
    for (int i = 0; i < 50 && lost == 0; i++) {
        run(0, self, "load:pipes", NULL);
        test_etwctl_ok(&o, "show", "--kernel", "--json");
        s = test_json(o.out);
        lost = test_json_u64(s, "lost.probe_ring_full");
        json_object_put(s);
        test_output_done(&o);
    }
    ck_assert_msg(lost > 0, "nothing was lost: the rings hold too much for this test");
    pid_t pid = run(0, "/bin/true", NULL, NULL);
    test_loss_identity("NT Kernel Logger");
    test_etwctl(&o, "stop", "--kernel");
    test_output_done(&o);
    test_run_limit(&o, 600,
                   (const char *const[]){test_env("ETWCTL"), "summary", "--json", file, NULL});
    s = test_json(o.out);
    ck_assert_uint_ge(test_json_u64(s, "events_lost"), lost);
    ck_assert(test_json_bool(s, "complete"));
    json_object_put(s);
    test_output_done(&o);
    (void) pid;
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("kernel-events");
    TCase *c = tcase_create("kernel-events");

    tcase_set_timeout(c, 600);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, threads);
    tcase_add_test(c, exec_by_thread);
    tcase_add_test(c, deaths);
    tcase_add_test(c, libraries);
    tcase_add_test(c, identities);
    tcase_add_test(c, long_texts);
    tcase_add_test(c, rundown);
    tcase_add_test(c, rundown_in_few_buffers);
    tcase_add_test(c, sleeper);
    tcase_add_test(c, only_needed_programs);
    tcase_add_test(c, changed_flags);
    tcase_add_test(c, small_rings);
    suite_add_tcase(s, c);
    return s;
}

int main(int argc, char **argv)
{
    self = realpath("/proc/self/exe", NULL);
    for (size_t i = 0; argc > 1 && i < sizeof(loads) / sizeof(loads[0]); i++)
        if (strcmp(argv[1], loads[i].name) == 0)
            return loads[i].run();
    /* Priorities are compared: whatever started this, the loads begin at nice 0. */
    (void) setpriority(PRIO_PROCESS, 0, 0);
    return test_main(suite());
}
