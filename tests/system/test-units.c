/* SPDX-License-Identifier: Apache-2.0
 *
 * The installed units under a real systemd: a container is booted on an overlay of this machine's
 * root with the built tree installed, and the tests run inside. Nothing of the machine changes: the
 * overlay lies in memory, its mounts belong to this process.
 *
 *     test-units PROVIDER-PROGRAM ROUNDS
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "provider-tests.h"
#include "named-session.h"

#define INSIDE "ETW_UNITS_INSIDE"
/* CAP_SETGID 6, SETUID 7, IPC_LOCK 14, PERFMON 38, BPF 39 */
#define CAPS "000000c0000040c0"
#define DROP_IN "/run/systemd/system/etwd.service.d"

static int rounds;

/* ---- outside ---- */

static pid_t nspawn;

static void outside_end(void)
{
    if (nspawn <= 0)
        return;
    (void) kill(nspawn, SIGKILL); /* its container dies with it: PR_SET_PDEATHSIG */
    (void) waitpid(nspawn, NULL, 0);
}

static int shell(const char *command)
{
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* A child of nspawn that has become systemd; 0: not yet. */
static pid_t leader_find(void)
{
    char path[64], comm[32] = "", line[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) nspawn, (int) nspawn);
    FILE *f = fopen(path, "re");
    if (f && !fgets(line, sizeof(line), f))
        line[0] = '\0';
    if (f)
        fclose(f);
    pid_t pid = (pid_t) strtol(line, NULL, 10);
    if (pid <= 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/comm", (int) pid);
    f = fopen(path, "re");
    if (f && !fgets(comm, sizeof(comm), f))
        comm[0] = '\0';
    if (f)
        fclose(f);
    return strcmp(comm, "systemd\n") == 0 ? pid : 0;
}

static void root_make(const char *dir)
{
    char *command;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "mode=755") < 0)
        test_skip_all("needs mounts of its own");
    if (asprintf(&command,
                 "cd '%s' && mkdir -p up/etc/systemd/system work root && "
                 "mount -t overlay overlay -o lowerdir=/,upperdir=up,workdir=work root",
                 dir) < 0 ||
        shell(command) != 0)
        test_skip_all("needs an overlay of /");
    free(command);
    /* Only what belongs to the test, and no timers that do something. */
    if (asprintf(&command,
                 "cd '%s' && meson install -C '%s' --no-rebuild --quiet --destdir '%s/root' >&2 && "
                 "cd root/etc/systemd/system && "
                 "for u in apt-daily apt-daily-upgrade man-db e2scrub_all dpkg-db-backup; do "
                 "ln -sf /dev/null $u.timer; done; ln -sf /dev/null systemd-timesyncd.service; "
                 "printf '[Unit]\\nRequires=basic.target\\nAfter=basic.target\\n' "
                 ">etwd-test.target && "
                 "chroot '%s/root' sh -c 'systemd-sysusers && ldconfig && "
                 "systemctl enable etwd.socket && useradd -m ordinary' >&2",
                 dir, test_env("ETW_BUILD_ROOT"), dir, dir) < 0 ||
        shell(command) != 0)
        test_skip_all("the built tree could not be installed into the overlay");
    free(command);
}

static void boot(const char *dir)
{
    char root[4096], machine[64], source[4096], build[4096];
    snprintf(root, sizeof(root), "%s/root", dir);
    snprintf(machine, sizeof(machine), "etwd-test-%d", (int) getpid());
    /* Their paths may be in /tmp, which is another there. */
    snprintf(source, sizeof(source), "--bind-ro=%s", test_env("ETW_SOURCE_ROOT"));
    snprintf(build, sizeof(build), "--bind-ro=%s", test_env("ETW_BUILD_ROOT"));
    nspawn = fork();
    if (nspawn == 0) {
        char log[4096];
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        snprintf(log, sizeof(log), "%s/boot.log", dir);
        int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
        int out = open(log, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
            _exit(126);
        (void) execlp("systemd-nspawn", "systemd-nspawn", "-q", "-D", root, "-M", machine,
                      "--register=no", "--keep-unit", "--private-network", "--capability=all",
                      "--system-call-filter=bpf perf_event_open io_uring_setup io_uring_enter "
                      "io_uring_register",
                      source, build, "-b", "systemd.unit=etwd-test.target", (char *) NULL);
        _exit(127);
    }
    atexit(outside_end);
}

static int outside(char **argv)
{
    char *dir = test_path("container"), pid_text[16], *wait;

    if (geteuid() != 0)
        test_skip_all("needs root");
    if (getenv("ETW_SANITIZED"))
        test_skip_all("a sanitized etwd does not run with the unit's limits");
    if (shell("command -v systemd-nspawn meson >/dev/null") != 0)
        test_skip_all("needs systemd-nspawn and meson");
    if (mkdir(dir, 0755) < 0)
        return 1;
    root_make(dir);
    boot(dir);
    pid_t leader = 0;
    bool up = false;
    for (int i = 0; i < 2 * TEST_HANG_LIMIT_S && !up; i++) {
        sleep(1);
        leader = leader_find();
        if (waitpid(nspawn, NULL, WNOHANG) != 0) {
            nspawn = 0;
            break;
        }
        if (!leader)
            continue;
        if (asprintf(&wait, "nsenter -t %d -a systemctl is-active -q etwd-test.target 2>/dev/null",
                     (int) leader) < 0)
            return 1;
        up = shell(wait) == 0;
        free(wait);
    }
    if (!up) {
        char *log;
        if (asprintf(&log, "tail -c 2000 '%s/boot.log' >&2", dir) > 0)
            (void) shell(log);
        test_skip_all("no container boots here");
    }
    snprintf(pid_text, sizeof(pid_text), "%d", (int) leader);
    setenv(INSIDE, "1", 1);
    pid_t pid = fork();
    if (pid == 0) {
        /* Relative paths mean something else there. */
        char *self = realpath("/proc/self/exe", NULL), *provider = realpath(argv[1], NULL);
        if (!self || !provider)
            _exit(126);
        (void) execlp("nsenter", "nsenter", "-t", pid_text, "-a", self, provider, argv[2],
                      (char *) NULL);
        _exit(127);
    }
    int status;
    (void) waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* ---- inside ---- */

#define sh_ok(command)                                                                             \
    do {                                                                                           \
        struct test_output o_;                                                                     \
        test_run_ok(&o_, "sh", "-c", command);                                                     \
        test_output_done(&o_);                                                                     \
    } while (0)

static pid_t main_pid(void)
{
    struct test_output o;
    test_run_ok(&o, "systemctl", "show", "-P", "MainPID", "etwd.service");
    pid_t pid = (pid_t) atoi(o.out);
    test_output_done(&o);
    return pid;
}

static void wait_other_pid(pid_t before)
{
    for (int i = 0; i < TEST_HANG_LIMIT_S * 20; i++) {
        pid_t pid = main_pid();
        if (pid > 0 && pid != before)
            return;
        usleep(50000);
    }
    ck_abort_msg("etwd is not started again");
}

static void check_file(const char *name)
{
    struct test_output o;
    char *path = test_path(name);
    test_etwctl_ok(&o, "summary", path, "--json");
    struct json_object *j = test_json(o.out);
    ck_assert(test_json_bool(j, "complete"));
    json_object_put(j);
    test_output_done(&o);
    free(path);
}

static void has_line(const char *text, const char *line)
{
    ck_assert_msg(strstr(text, line) != NULL, "no '%s' in:\n%s", line, text);
}

START_TEST(activation_and_rights)
{
    struct test_output o;
    char path[64];
    test_run(&o, "systemctl", "is-active", "etwd.service");
    ck_assert_str_eq(o.out, "inactive\n");
    test_output_done(&o);
    test_etwctl_ok(&o, "status");
    has_line(o.out, "image helper: running");
    test_output_done(&o);
    test_run_ok(&o, "systemctl", "is-active", "etwd.service");
    test_output_done(&o);

    test_run_ok(&o, "id", "-u", "etwd");
    unsigned uid = (unsigned) atoi(o.out);
    test_output_done(&o);
    snprintf(path, sizeof(path), "/proc/%d/status", (int) main_pid());
    char *status = test_read_file(path, NULL), line[64];
    snprintf(line, sizeof(line), "\nUid:\t%u\t%u\t%u\t%u\n", uid, uid, uid, uid);
    has_line(status, line);
    has_line(status, "\nCapInh:\t0000000000000000\n");
    has_line(status, "\nCapPrm:\t" CAPS "\n");
    has_line(status, "\nCapEff:\t0000000000004000\n");
    has_line(status, "\nCapBnd:\t" CAPS "\n");
    has_line(status, "\nCapAmb:\t0000000000000000\n");
    has_line(status, "\nNoNewPrivs:\t1\n");
    free(status);
    /* Nobody complains of the units. */
    test_run(&o, "sh", "-c", "journalctl -b -q -p warning | grep -i etw");
    ck_assert_str_eq(o.out, "");
    test_output_done(&o);
}
END_TEST

START_TEST(sessions_of_all)
{
    struct test_output o;
    start("roots");
    stop("roots");
    check_file("roots");
    char *path = test_path("kernel");
    test_etwctl_ok(&o, "record", "--kernel", "--flags", "process,thread,image,cswitch", "-o", path,
                   "--", "/bin/true");
    test_output_done(&o);
    free(path);
    check_file("kernel");
    sh_ok("runuser -u ordinary -- sh -c 'cd && \"$ETWCTL\" start mine -o mine.etl && "
          "\"$ETWCTL\" stop mine && \"$ETWCTL\" summary mine.etl'");
    test_run(&o, "runuser", "-u", "ordinary", "--", test_env("ETWCTL"), "start", "--kernel", "-o",
             "/home/ordinary/k.etl");
    ck_assert_int_eq(o.status, 5);
    test_output_done(&o);
}
END_TEST

START_TEST(watchdog)
{
    sh_ok("mkdir -p " DROP_IN " && printf '[Service]\\nWatchdogSec=2\\n' >" DROP_IN
          "/watchdog.conf && systemctl daemon-reload && systemctl restart etwd.service");
    start("watched");
    sleep(4); /* fed */
    pid_t pid = main_pid();
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    wait_other_pid(pid);
    test_loss_identity("watched");
    stop("watched");
    check_file("watched");
    sh_ok("rm " DROP_IN "/watchdog.conf && systemctl daemon-reload && "
          "systemctl restart etwd.service && "
          "journalctl -b -u etwd.service | grep -q 'Watchdog timeout'");
}
END_TEST

/* Numbered events from two programs, each once and in order, whatever becomes of etwd. */
START_TEST(each_event_once)
{
    static struct tally t;
    struct provider p[2];
    unsigned seed = 4711;
    char *file = test_path("once.etl");
    TRACEHANDLE h = session_start("once", file, 64, 0, 2048, 0);
    session_enable(h, 1);
    provider_start(&p[0], "guid=1", "source=0", "count=0", "rate=20000", "retry=1");
    provider_start(&p[1], "guid=1", "source=1", "count=0", "rate=20000", "retry=1");
    provider_wait_ready(&p[0], 1);
    provider_wait_ready(&p[1], 1);
    for (int i = 0; i < rounds; i++) {
        usleep((useconds_t) (rand_r(&seed) % 250000) + 1000);
        pid_t pid = main_pid();
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        wait_other_pid(pid);
        usleep((useconds_t) (rand_r(&seed) % 250000) + 1000);
        pid = main_pid();
        sh_ok("systemctl restart etwd.service");
        ck_assert_int_ne(main_pid(), pid);
        test_loss_identity("once");
    }
    uint64_t taken = 0;
    for (int i = 0; i < 2; i++) {
        p[i].page->stop = 1;
        provider_end(&p[i]);
        taken += provider_returned(&p[i]);
    }
    for (int i = 0; i < TEST_HANG_LIMIT_S * 10 && session_show("once").recorded < taken; i++)
        usleep(100000);
    (void) session_stop("once");
    tally_file(&t, file);
    for (unsigned i = 0; i < 2; i++) {
        tally_complete(&t, i, p[i].page->threads[0].returned);
        provider_free(&p[i]);
    }
    ck_assert_uint_eq(t.ours, taken);
    ck_assert_uint_gt(taken, (uint64_t) rounds * 100);
    free(file);
}
END_TEST

START_TEST(stop_completes_files)
{
    struct test_output o;
    start("one");
    sh_ok("systemctl stop etwd.service");
    test_run(&o, "systemctl", "is-active", "etwd.service");
    ck_assert_str_eq(o.out, "inactive\n");
    test_output_done(&o);
    check_file("one");                    /* needs no daemon */
    test_etwctl_ok(&o, "list", "--json"); /* which comes again for the next client */
    ck_assert_ptr_null(strstr(o.out, "\"one\""));
    test_output_done(&o);
}
END_TEST

START_TEST(store_at_its_limit)
{
    struct test_output o;
    char name[16], *path;
    int n = 0;
    sh_ok("mkdir -p " DROP_IN " && exec=$(systemctl show -P ExecStart etwd.service | "
          "sed -n 's/.*path=\\([^ ]*\\) .*/\\1/p') && printf '[Service]\\n"
          "FileDescriptorStoreMax=16\\nExecStart=\\nExecStart=%s -o FdStoreMax=16\\n' \"$exec\" "
          ">" DROP_IN "/store.conf && systemctl daemon-reload && systemctl restart etwd.service");
    for (;; n++) {
        snprintf(name, sizeof(name), "s%d", n);
        path = test_path(name);
        test_etwctl(&o, "start", name, "-o", path);
        free(path);
        if (o.status != 0)
            break;
        test_output_done(&o);
        ck_assert_int_lt(n, 16);
    }
    has_line(o.err, "FdStoreMax=16");
    test_output_done(&o);
    ck_assert_int_ge(n, 5);
    sh_ok("systemctl restart etwd.service");
    pid_t pid = main_pid();
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    wait_other_pid(pid);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        stop(name);
        check_file(name);
    }
    sh_ok("rm " DROP_IN "/store.conf && systemctl daemon-reload && "
          "systemctl restart etwd.service");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("units");
    TCase *c = tcase_create("units");
    tcase_set_timeout(c, 3000);
    tcase_add_test(c, activation_and_rights);
    tcase_add_test(c, sessions_of_all);
    tcase_add_test(c, watchdog);
    tcase_add_test(c, each_event_once);
    tcase_add_test(c, stop_completes_files);
    tcase_add_test(c, store_at_its_limit);
    suite_add_tcase(s, c);
    return s;
}

int main(int argc, char **argv)
{
    if (argc < 3 || (rounds = atoi(argv[2])) < 1) {
        fprintf(stderr, "usage: %s PROVIDER-PROGRAM ROUNDS\n", argv[0]);
        return 2;
    }
    if (!getenv(INSIDE))
        return outside(argv);
    unsetenv("ETWD_SOCKET");
    provider_tests_init(argc, argv);
    return test_main(suite());
}
