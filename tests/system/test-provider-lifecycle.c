/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a provider when its process forks, executes another program, turns into a daemon,
 * closes everything, changes its root or its namespaces, loads and unloads plug-ins, or is there
 * before etwd: what it wrote is in the file, under the ids and times that etwd's own view has. Each
 * case runs in a child, since the library remembers.
 *
 *     test-provider-lifecycle PROVIDER-PROGRAM PLUGIN
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "captured.h"
#include "provider-tests.h"

#define SESSION "life"
#define SKIP 77
/* Events that must come after everything was closed, one each 10 ms. */
#define AFTER_CLOSE 100

static const GUID guid = NUMBERED_GUID(0x31);
static const char *plugin;
static struct test_daemon *d;
static char *file, *dir;
/* What a case tells the test. */
static struct shared {
    pid_t pid;
    uint64_t before, after; /* FILETIME */
    volatile int ready, enough;
} * shared;

static void setup(void)
{
    d = test_daemon_start();
    file = test_path("life.etl");
    dir = test_path("root");
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
}

static void teardown(void)
{
    test_daemon_alive(d);
    test_daemon_stop(d);
    d = test_daemon_free(d);
    free(file);
    free(dir);
}

/* ---- in the child: no Check; the exit status says which step failed ---- */

static REGHANDLE handle;

static void must(int step, int ok)
{
    if (!ok)
        _exit(step);
}

static void reg(void)
{
    must(10, EventRegister(&guid, NULL, NULL, &handle) == ERROR_SUCCESS);
}

static ULONG try_write(USHORT id)
{
    EVENT_DESCRIPTOR event = {.Id = id, .Level = 4};

    return EventWrite(handle, &event, 0, NULL);
}

static void write_id(USHORT id)
{
    must(11, try_write(id) == ERROR_SUCCESS);
}

static void wait_for(pid_t pid)
{
    int status;

    must(12, waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 13);
}

static void forks(void)
{
    reg();
    write_id(1);
    pid_t pid = fork();
    must(1, pid >= 0);
    if (pid == 0) {
        shared->pid = getpid();
        write_id(2);
        _exit(0);
    }
    wait_for(pid);
    write_id(3);
}

static void becomes_a_daemon(void)
{
    reg();
    write_id(1);
    must(1, daemon(0, 0) == 0);
    write_id(2);
    shared->ready = 1;
}

/* The child of a plain clone: libc does not know of it. */
static void forks_unknown_to_libc(void)
{
    reg();
    write_id(1);
    pid_t pid = _Fork();
    must(1, pid >= 0);
    if (pid == 0) {
        shared->pid = getpid();
        write_id(2);
        _exit(0);
    }
    wait_for(pid);
    write_id(3);
}

/* `--write ID` of this program; see main(). */
static void exec_writer(const char *id)
{
    execl("/proc/self/exe", "writer", "--write", id, (char *) NULL);
    _exit(14);
}

static void executes(void)
{
    reg();
    write_id(1);
    shared->pid = getpid();
    exec_writer("2");
}

static void executes_in_a_child(void)
{
    reg();
    write_id(1);
    pid_t pid = vfork();
    must(1, pid >= 0);
    if (pid == 0)
        exec_writer("2");
    shared->pid = pid;
    wait_for(pid);
    write_id(3);
}

static void closes_everything(void)
{
    reg();
    write_id(1);
    closefrom(3);
    while (!shared->enough) {
        (void) try_write(2);
        usleep(10000);
    }
    write_id(3);
}

static void changes_its_root(void)
{
    reg();
    write_id(1);
    must(1, mkdir(dir, 0755) == 0 && chroot(dir) == 0 && chdir("/") == 0);
    write_id(2);
    must(2, EventUnregister(handle) == ERROR_SUCCESS);
    reg();
    write_id(3);
}

static void in_a_pid_namespace(void)
{
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
        _exit(SKIP);
    pid_t pid = fork();
    must(1, pid >= 0);
    if (pid == 0) {
        reg();
        write_id(1);
        _exit(0);
    }
    shared->pid = pid;
    wait_for(pid);
}

static void in_a_time_namespace(void)
{
    static const char offset[] = "boottime 86400 0\n";

    if (unshare(CLONE_NEWTIME) < 0)
        _exit(SKIP);
    int fd = open("/proc/self/timens_offsets", O_WRONLY);
    if (fd < 0 || write(fd, offset, sizeof(offset) - 1) != sizeof(offset) - 1)
        _exit(SKIP);
    (void) close(fd);
    pid_t pid = fork();
    must(1, pid >= 0);
    if (pid == 0) {
        reg();
        shared->before = etw_filetime_now();
        write_id(1);
        shared->after = etw_filetime_now();
        _exit(0);
    }
    wait_for(pid);
}

static void loads_plugins(void)
{
    reg();
    write_id(1);
    for (USHORT i = 0; i < 3; i++) {
        void *so = dlopen(plugin, RTLD_NOW);
        must(1, so != NULL);
        int (*plugin_write)(const GUID *, USHORT) =
            (int (*)(const GUID *, USHORT))(uintptr_t) dlsym(so, "plugin_write");
        must(2, plugin_write != NULL);
        must(3, plugin_write(&guid, (USHORT) (2 + i)) == 0);
        must(4, dlclose(so) == 0);
    }
    write_id(5);
}

/* A thread that finds no ring drained yet loses its event; it comes again. */
static void *one_event(void *userdata)
{
    while (try_write(*(const USHORT *) userdata) != ERROR_SUCCESS)
        usleep(1000);
    return NULL;
}

/* Of this process. */
static int arenas_mapped(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int n = 0;

    must(3, maps != NULL);
    while (fgets(line, sizeof(line), maps))
        n += strstr(line, "memfd:etw-arena") != NULL;
    (void) fclose(maps);
    return n;
}

#define THREADS 200
static void has_short_threads(void)
{
    reg();
    for (USHORT i = 0; i < THREADS; i++) {
        USHORT id = (USHORT) (i + 1);
        pthread_t t;
        must(1, pthread_create(&t, NULL, one_event, &id) == 0);
        must(2, pthread_join(t, NULL) == 0);
    }
    shared->ready = arenas_mapped();
}

static void is_there_first(void)
{
    reg();
    write_id(99); /* nobody hears it */
    shared->ready = 1;
    while (!EventProviderEnabled(handle, 4, 0))
        usleep(10000);
    write_id(1);
}

/* ---- the test ---- */

static void begin(void)
{
    session_enable_guid(session_start(SESSION, file, 0, 0, 0, 0), &guid, 0xff, 0, 0);
}

static pid_t act_begin(void (*act)(void))
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        act();
        _exit(0);
    }
    return pid;
}

static void act_end(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIP)
        test_skip("the namespace cannot be made here");
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

static void run(void (*act)(void), struct captured *ret)
{
    begin();
    act_end(act_begin(act));
    ck_assert_uint_eq(session_stop(SESSION).lost, 0);
    capture(ret, file, &guid);
}

/* The second event is the child's, the others are its parent's. */
static void check_forks(void (*act)(void), const char *what)
{
    struct captured got;

    run(act, &got);
    captured_ids(&got, what, (const USHORT[]){1, 2, 3}, 3);
    ck_assert_uint_eq(got.events[1].h.ProcessId, (ULONG) shared->pid);
    ck_assert_uint_eq(got.events[1].h.ThreadId, (ULONG) shared->pid);
    ck_assert_uint_eq(got.events[0].h.ProcessId, got.events[2].h.ProcessId);
    captured_done(&got);
}

START_TEST(fork_in_a_provider)
{
    check_forks(forks, "fork");
}
END_TEST

START_TEST(daemon_of_libc)
{
    struct captured got;

    begin();
    act_end(act_begin(becomes_a_daemon));
    for (int i = 0; !shared->ready; i++) {
        ck_assert_int_lt(i, TEST_HANG_LIMIT_S * 100);
        usleep(10000);
    }
    ck_assert_uint_eq(session_stop(SESSION).lost, 0);
    capture(&got, file, &guid);
    captured_ids(&got, "daemon", (const USHORT[]){1, 2}, 2);
    ck_assert_uint_ne(got.events[0].h.ProcessId, got.events[1].h.ProcessId);
    captured_done(&got);
}
END_TEST

START_TEST(fork_that_libc_does_not_know)
{
    check_forks(forks_unknown_to_libc, "_Fork");
}
END_TEST

/* The same process, another program. */
START_TEST(exec_in_a_provider)
{
    struct captured got;

    run(executes, &got);
    captured_ids(&got, "exec", (const USHORT[]){1, 2}, 2);
    ck_assert_uint_eq(got.events[0].h.ProcessId, (ULONG) shared->pid);
    ck_assert_uint_eq(got.events[1].h.ProcessId, (ULONG) shared->pid);
    captured_done(&got);
}
END_TEST

START_TEST(vfork_and_exec)
{
    struct captured got;

    run(executes_in_a_child, &got);
    captured_ids(&got, "vfork", (const USHORT[]){1, 2, 3}, 3);
    ck_assert_uint_eq(got.events[1].h.ProcessId, (ULONG) shared->pid);
    ck_assert_uint_eq(got.events[0].h.ProcessId, got.events[2].h.ProcessId);
    captured_done(&got);
}
END_TEST

START_TEST(closefrom_in_a_provider)
{
    struct captured got;

    begin();
    pid_t pid = act_begin(closes_everything);
    for (int i = 0; session_show(SESSION).recorded < AFTER_CLOSE; i++) {
        ck_assert_int_lt(i, TEST_HANG_LIMIT_S * 100);
        usleep(10000);
    }
    shared->enough = 1;
    act_end(pid);
    (void) session_stop(SESSION);
    capture(&got, file, &guid);
    ck_assert_uint_ge(got.n, 2);
    ck_assert_uint_eq(got.events[0].h.EventDescriptor.Id, 1);
    ck_assert_uint_eq(got.events[got.n - 1].h.EventDescriptor.Id, 3);
    captured_done(&got);
}
END_TEST

START_TEST(chroot_of_a_provider)
{
    struct captured got;

    test_need_root();
    run(changes_its_root, &got);
    captured_ids(&got, "chroot", (const USHORT[]){1, 2, 3}, 3);
    captured_done(&got);
}
END_TEST

START_TEST(pid_namespace)
{
    struct captured got;

    test_need_root();
    run(in_a_pid_namespace, &got);
    captured_ids(&got, "pid namespace", (const USHORT[]){1}, 1);
    ck_assert_uint_eq(got.events[0].h.ProcessId, (ULONG) shared->pid);
    ck_assert_uint_eq(got.events[0].h.ThreadId, (ULONG) shared->pid);
    captured_done(&got);
}
END_TEST

/* Its clock shows a day more; the file shows the time of the others. */
START_TEST(time_namespace)
{
    struct captured got;

    test_need_root();
    run(in_a_time_namespace, &got);
    captured_ids(&got, "time namespace", (const USHORT[]){1}, 1);
    /* one second: clocks may be slewed meanwhile */
    ck_assert_uint_ge((uint64_t) got.events[0].h.TimeStamp.QuadPart + 10000000u, shared->before);
    ck_assert_uint_le((uint64_t) got.events[0].h.TimeStamp.QuadPart, shared->after + 10000000u);
    captured_done(&got);
}
END_TEST

START_TEST(plugins)
{
    struct captured got;

    run(loads_plugins, &got);
    captured_ids(&got, "plug-ins", (const USHORT[]){1, 2, 3, 4, 5}, 5);
    captured_done(&got);
}
END_TEST

START_TEST(threads_that_end)
{
    struct captured got;
    USHORT ids[THREADS];

    for (USHORT i = 0; i < THREADS; i++)
        ids[i] = (USHORT) (i + 1);
    begin();
    act_end(act_begin(has_short_threads));
    /* Rings are used again: so many threads at once would have 13 arenas. */
    ck_assert_int_ge(shared->ready, 1);
    ck_assert_int_le(shared->ready, 2);
    (void) session_stop(SESSION);
    capture(&got, file, &guid);
    captured_ids(&got, "threads", ids, THREADS);
    captured_done(&got);
}
END_TEST

START_TEST(provider_before_the_daemon)
{
    struct captured got;

    test_daemon_stop(d);
    pid_t pid = act_begin(is_there_first);
    for (int i = 0; !shared->ready; i++) {
        ck_assert_int_lt(i, TEST_HANG_LIMIT_S * 100);
        usleep(10000);
    }
    test_daemon_again(d, NULL);
    begin();
    act_end(pid);
    ck_assert_uint_eq(session_stop(SESSION).lost, 0);
    capture(&got, file, &guid);
    captured_ids(&got, "before the daemon", (const USHORT[]){1}, 1);
    captured_done(&got);
}
END_TEST

static unsigned entries(const char *path)
{
    DIR *folder = opendir(path);
    unsigned n = 0;

    if (!folder)
        return 99;
    for (struct dirent *e; (e = readdir(folder));)
        n += e->d_name[0] != '.';
    (void) closedir(folder);
    return n;
}

/* The first copy of this program lets nothing be inherited, the second does nothing. */
static int only_links(bool first)
{
    if (first) {
        closefrom(3);
        execl("/proc/self/exe", "links", "--only-links-again", (char *) NULL);
        return 2;
    }
    /* One thread; the three that every program has, and the folder. */
    return entries("/proc/self/task") == 1 && entries("/proc/self/fd") == 4 ? 0 : 1;
}

static int writes(const char *id)
{
    reg();
    write_id((USHORT) atoi(id));
    return 0;
}

START_TEST(program_that_only_links)
{
    struct test_output o;

    test_run_ok(&o, "/proc/self/exe", "--only-links");
    test_output_done(&o);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s = suite_create("provider-lifecycle");
    TCase *t = tcase_create("lifecycle"), *alone = tcase_create("alone");

    if (argc == 2 && strncmp(argv[1], "--only-links", 12) == 0)
        return only_links(strcmp(argv[1], "--only-links") == 0);
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return writes(argv[2]);
    if (argc < 3)
        return 2;
    plugin = argv[2];
    provider_tests_init(argc, argv);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, fork_in_a_provider);
    tcase_add_test(t, fork_that_libc_does_not_know);
    tcase_add_test(t, exec_in_a_provider);
    tcase_add_test(t, vfork_and_exec);
    tcase_add_test(t, daemon_of_libc);
    tcase_add_test(t, closefrom_in_a_provider);
    tcase_add_test(t, chroot_of_a_provider);
    tcase_add_test(t, pid_namespace);
    tcase_add_test(t, time_namespace);
    tcase_add_test(t, plugins);
    tcase_add_test(t, threads_that_end);
    tcase_add_test(t, provider_before_the_daemon);
    suite_add_tcase(s, t);
    tcase_add_test(alone, program_that_only_links);
    suite_add_tcase(s, alone);
    return test_main(s);
}
