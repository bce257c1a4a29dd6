/* SPDX-License-Identifier: Apache-2.0
 *
 * See manager.h. The manager is a child of the test in its process group, which Check kills with
 * the test; it shares one page with the test, in which each word has one writer.
 */
#include "manager.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

#define TICK_US 2000
#define HANG_TICKS (TEST_HANG_LIMIT_S * (1000000 / TICK_US))
#define STORE_ROOM 20000
#define NAMES_SHOWN 64
#define FDS_A_MESSAGE 253

struct stored {
    char name[256];
    int fd;
};

/* The test writes what the manager is to do, the manager the rest. */
struct shared {
    _Atomic bool stopping; /* no new start */
    _Atomic bool hold;     /* the next start waits */
    _Atomic int pid;
    _Atomic unsigned deaths, ready, watchdogs;
    _Atomic int status; /* of the last death */
    _Atomic size_t stored, dropped;
    _Atomic unsigned long long died_ns, pause_ns;
    unsigned long long heard_ns; /* the manager's: READY=1, WATCHDOG=1 */
    _Atomic bool broken;         /* etwd did not keep to the protocol */
    char why[256];
    char names[NAMES_SHOWN][16];
    long write_offset;
    size_t write_size;
    unsigned char write_bytes[256];
};

struct test_manager {
    pid_t pid;
    struct shared *shared;
    char *dir, *socket, *log;
    size_t store_max;
    unsigned watchdog_us;
    const char *argv[64];
    /* Of the manager itself. */
    char *notify_path;
    int notify_fd, listen_fd;
    struct stored *store; /* oldest first */
    size_t n_store;
};

static unsigned long long now_ns(void)
{
    struct timespec ts;
    (void) clock_gettime(CLOCK_BOOTTIME, &ts);
    return (unsigned long long) ts.tv_sec * 1000000000u + (unsigned long long) ts.tv_nsec;
}

/* ---- the manager's process ---- */

static void broken(struct test_manager *m, const char *why, const char *what)
{
    if (m->shared->broken)
        return;
    (void) snprintf(m->shared->why, sizeof(m->shared->why), "%s: %.150s", why, what);
    m->shared->broken = true;
}

static void names_show(struct test_manager *m)
{
    for (size_t i = 0; i < NAMES_SHOWN; i++)
        (void) snprintf(m->shared->names[i], sizeof(m->shared->names[i]), "%.15s",
                        i < m->n_store ? m->store[i].name : "");
    m->shared->stored = m->n_store;
}

static bool same_file(int a, int b)
{
    pid_t self = getpid();
    return syscall(SYS_kcmp, self, self, 0 /* KCMP_FILE */, a, b) == 0;
}

static void store_put(struct test_manager *m, const char *name, int fd)
{
    for (size_t i = 0; i < m->n_store; i++)
        if (same_file(m->store[i].fd, fd)) {
            close(fd);
            return;
        }
    if (m->n_store >= m->store_max) {
        m->shared->dropped++;
        close(fd);
        return;
    }
    struct stored *s = &m->store[m->n_store++];
    (void) snprintf(s->name, sizeof(s->name), "%s", name);
    s->fd = fd;
}

static void store_remove(struct test_manager *m, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_store; i++) {
        if (strcmp(m->store[i].name, name) == 0)
            close(m->store[i].fd);
        else
            m->store[n++] = m->store[i];
    }
    m->n_store = n;
}

static bool has_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *p = text; (p = strstr(p, line)); p += len)
        if ((p == text || p[-1] == '\n') && (p[len] == '\n' || p[len] == '\0'))
            return true;
    return false;
}

/* The value of KEY=, or "". */
static void value_of(const char *text, const char *key, char ret[256])
{
    const char *p = strstr(text, key);
    ret[0] = '\0';
    if (p)
        (void) snprintf(ret, 256, "%.*s", (int) strcspn(p + strlen(key), "\n"), p + strlen(key));
}

static void take_message(struct test_manager *m, const char *text, int *fds, size_t n_fds)
{
    char name[256];

    value_of(text, "FDNAME=", name);
    if (has_line(text, "FDSTORE=1")) {
        if (n_fds == 0 || name[0] == '\0' || strlen(name) > 6)
            broken(m, "FDSTORE without descriptor or with a bad name", text);
        /* Without it systemd drops sockets whose peer closed. */
        if (!has_line(text, "FDPOLL=0"))
            broken(m, "FDSTORE without FDPOLL=0", text);
        for (size_t i = 0; i < n_fds; i++)
            store_put(m, name, fds[i]);
    } else {
        for (size_t i = 0; i < n_fds; i++)
            close(fds[i]); /* BARRIER=1 waits for this */
        if (has_line(text, "FDSTOREREMOVE=1"))
            store_remove(m, name);
    }
    names_show(m);
    if (has_line(text, "READY=1")) {
        m->shared->pause_ns = now_ns() - m->shared->died_ns;
        m->shared->heard_ns = now_ns();
        m->shared->ready++;
    }
    if (has_line(text, "WATCHDOG=1")) {
        m->shared->heard_ns = now_ns();
        m->shared->watchdogs++;
    }
}

static bool take_one(struct test_manager *m)
{
    static char text[65536];
    union {
        struct cmsghdr align;
        char data[CMSG_SPACE(FDS_A_MESSAGE * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    int fds[FDS_A_MESSAGE];
    size_t n_fds = 0;

    ssize_t n = recvmsg(m->notify_fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return false;
    text[n] = '\0';
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(c), n_fds * sizeof(int));
        }
    take_message(m, text, fds, n_fds);
    return true;
}

static void exec_etwd(struct test_manager *m)
{
    size_t n = m->n_store + (m->listen_fd >= 0 ? 1 : 0);
    int *fds = calloc(n + 1, sizeof(*fds));
    char *names = calloc(n + 1, 257), text[32];
    size_t at = 0, k = 0;

    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int err = open(m->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (!fds || !names || in < 0 || err < 0 || dup2(in, 0) < 0 || dup2(err, 1) < 0 ||
        dup2(err, 2) < 0)
        _exit(126);
    if (m->listen_fd >= 0) {
        fds[k++] = m->listen_fd;
        at += (size_t) sprintf(names + at, "etwd.socket");
    }
    for (size_t i = m->n_store; i-- > 0;) { /* the newest first */
        at += (size_t) sprintf(names + at, "%s%s", k ? ":" : "", m->store[i].name);
        fds[k++] = m->store[i].fd;
    }
    /* First out of the way of each other. */
    for (size_t i = 0; i < n; i++)
        if ((fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, (int) n + 3)) < 0)
            _exit(126);
    for (size_t i = 0; i < n; i++)
        if (dup2(fds[i], (int) i + 3) < 0)
            _exit(126);
    unsetenv("ETWD_SOCKET");
    unsetenv("FDSTORE");
    setenv("NOTIFY_SOCKET", m->notify_path, 1);
    unsetenv("WATCHDOG_PID");
    (void) snprintf(text, sizeof(text), "%u", m->watchdog_us);
    if (m->watchdog_us)
        setenv("WATCHDOG_USEC", text, 1);
    else
        unsetenv("WATCHDOG_USEC");
    if (n > 0) {
        (void) snprintf(text, sizeof(text), "%zu", n);
        setenv("LISTEN_FDS", text, 1);
        setenv("LISTEN_FDNAMES", names, 1);
        (void) snprintf(text, sizeof(text), "%d", (int) getpid());
        setenv("LISTEN_PID", text, 1);
    } else {
        unsetenv("LISTEN_FDS");
        unsetenv("LISTEN_PID");
        unsetenv("LISTEN_FDNAMES");
    }
    sigset_t none;
    (void) sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL);
    (void) execv(m->argv[0], (char *const *) m->argv);
    fprintf(stderr, "cannot run %s: %m\n", m->argv[0]);
    _exit(127);
}

static void start_etwd(struct test_manager *m)
{
    struct shared *s = m->shared;
    if (s->write_size > 0) {
        for (size_t i = 0; i < m->n_store; i++)
            if (strcmp(m->store[i].name, "state") == 0 &&
                pwrite(m->store[i].fd, s->write_bytes, s->write_size, s->write_offset) !=
                    (ssize_t) s->write_size)
                broken(m, "the state could not be written", strerror(errno));
        s->write_size = 0;
    }
    pid_t pid = fork();
    if (pid == 0)
        exec_etwd(m);
    if (pid < 0)
        broken(m, "fork", strerror(errno));
    s->pid = pid;
}

/* As systemd: an abort that a stopped process meets when it goes on. */
static void watchdog_look(struct test_manager *m)
{
    struct shared *s = m->shared;
    if (!s->pid || s->ready <= s->deaths || now_ns() - s->heard_ns < m->watchdog_us * 1000ULL)
        return;
    (void) kill(s->pid, SIGABRT);
    (void) kill(s->pid, SIGCONT);
    s->heard_ns = now_ns();
}

static void manager_run(struct test_manager *m)
{
    struct shared *s = m->shared;
    sigset_t set;

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGCHLD);
    (void) sigprocmask(SIG_BLOCK, &set, NULL);
    int child_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    start_etwd(m);
    for (;;) {
        struct pollfd p[2] = {{.fd = m->notify_fd, .events = POLLIN},
                              {.fd = child_fd, .events = POLLIN}};
        struct signalfd_siginfo si;
        int status;

        /* `hold` is looked at again in time. */
        (void) poll(p, 2, !s->pid ? 5 : m->watchdog_us ? 50 : -1);
        while (read(child_fd, &si, sizeof(si)) > 0)
            ;
        while (s->pid && waitpid(s->pid, &status, WNOHANG) == s->pid) {
            s->died_ns = now_ns();
            /* What it sent before its death counts, as with systemd. */
            while (take_one(m))
                ;
            s->status = status;
            s->pid = 0;
            s->deaths++;
        }
        while (take_one(m))
            ;
        if (m->watchdog_us)
            watchdog_look(m);
        if (!s->pid && !s->hold && !s->stopping)
            start_etwd(m);
    }
}

/* ---- the test's side ---- */

static void check(const struct test_manager *m)
{
    if (m->shared->broken)
        ck_abort_msg("the service manager: %s", m->shared->why);
}

#define wait_for(m, condition, what)                                                               \
    do {                                                                                           \
        int ticks_ = 0;                                                                            \
        while (!(condition)) {                                                                     \
            check(m);                                                                              \
            if (ticks_++ >= HANG_TICKS)                                                            \
                ck_abort_msg("etwd does not %s; it wrote:\n%s", what, test_manager_log(m));        \
            usleep(TICK_US);                                                                       \
        }                                                                                          \
        check(m);                                                                                  \
    } while (0)

static int bound_socket(const char *path, int type)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(a.sun_path))
        ck_abort_msg("the socket's path is too long: %s", path);
    strcpy(a.sun_path, path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *) &a, sizeof(a)) < 0 || chmod(path, 0666) < 0 ||
        (type == SOCK_SEQPACKET && listen(fd, 128) < 0))
        ck_abort_msg("socket %s: %m", path);
    return fd;
}

struct test_manager *test_manager_start(const struct test_manager_options *o)
{
    static int count;
    struct test_manager *m = calloc(1, sizeof(*m));
    size_t n = 0;

    if (!m || asprintf(&m->dir, "%s/managed%d", test_tempdir(), count) < 0 ||
        asprintf(&m->socket, "%s/control.sock", m->dir) < 0 ||
        asprintf(&m->notify_path, "%s/notify%d", test_tempdir(), count) < 0 ||
        asprintf(&m->log, "%s/managed%d.log", test_tempdir(), count) < 0 ||
        !(m->store = calloc(STORE_ROOM, sizeof(*m->store))))
        ck_abort_msg("out of memory");
    count++;
    m->shared =
        mmap(NULL, sizeof(*m->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m->shared == MAP_FAILED || mkdir(m->dir, 0755) < 0)
        ck_abort_msg("%s: %m", m->dir);
    m->watchdog_us = o->watchdog_us;
    m->store_max = o->store_max && o->store_max < STORE_ROOM ? o->store_max : 10000;
    m->argv[n++] = test_env("ETWD");
    m->argv[n++] = "--runtime-dir";
    m->argv[n++] = m->dir;
    m->argv[n++] = "--config";
    m->argv[n++] = "/dev/null";
    for (size_t i = 0; o->args && o->args[i]; i++) {
        if (n + 1 >= sizeof(m->argv) / sizeof(m->argv[0]))
            ck_abort_msg("too many arguments");
        m->argv[n++] = o->args[i];
    }
    m->notify_fd = bound_socket(m->notify_path, SOCK_DGRAM);
    m->listen_fd = o->socket_unit ? bound_socket(m->socket, SOCK_SEQPACKET) : -1;
    m->pid = fork();
    if (m->pid < 0)
        ck_abort_msg("fork: %m");
    if (m->pid == 0) {
        manager_run(m);
        _exit(1);
    }
    close(m->notify_fd);
    if (m->listen_fd >= 0)
        close(m->listen_fd);
    setenv("ETWD_SOCKET", m->socket, 1);
    test_manager_wait_ready(m);
    return m;
}

void test_manager_wait_ready(struct test_manager *m)
{
    m->shared->hold = false;
    for (int i = 0; m->shared->ready <= m->shared->deaths; i++) {
        check(m);
        /* One that dies at its start is started again, for ever. */
        if (i >= HANG_TICKS || m->shared->deaths > m->shared->ready + 3)
            ck_abort_msg("etwd does not get ready (%u deaths, last status 0x%x); it wrote:\n%s",
                         m->shared->deaths, (unsigned) m->shared->status, test_manager_log(m));
        usleep(TICK_US);
    }
    check(m);
}

void test_manager_kill_only(struct test_manager *m)
{
    unsigned deaths = m->shared->deaths;
    pid_t pid = m->shared->pid;
    if (pid <= 0 || kill(pid, SIGKILL) < 0)
        ck_abort_msg("etwd has died by itself (status 0x%x); it wrote:\n%s",
                     (unsigned) m->shared->status, test_manager_log(m));
    wait_for(m, m->shared->deaths > deaths, "die of SIGKILL");
    int status = m->shared->status;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        ck_abort_msg("etwd has died by itself (status 0x%x); it wrote:\n%s", (unsigned) status,
                     test_manager_log(m));
}

void test_manager_restart(struct test_manager *m)
{
    unsigned deaths = m->shared->deaths;
    pid_t pid = m->shared->pid;
    if (pid <= 0 || kill(pid, SIGUSR1) < 0)
        ck_abort_msg("etwd has died by itself; it wrote:\n%s", test_manager_log(m));
    wait_for(m, m->shared->deaths > deaths, "end on SIGUSR1");
    int status = m->shared->status;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        ck_abort_msg("etwd ended on SIGUSR1 with status 0x%x; it wrote:\n%s", (unsigned) status,
                     test_manager_log(m));
    test_manager_wait_ready(m);
}

void test_manager_wait_watchdogs(struct test_manager *m, unsigned more)
{
    unsigned until = m->shared->watchdogs + more;
    wait_for(m, m->shared->watchdogs >= until, "feed the watchdog");
}

void test_manager_wait_death(struct test_manager *m, unsigned deaths)
{
    wait_for(m, m->shared->deaths >= deaths, "die");
    test_manager_wait_ready(m);
}

unsigned test_manager_deaths(const struct test_manager *m)
{
    return m->shared->deaths;
}

void test_manager_kill_and_hold(struct test_manager *m)
{
    m->shared->hold = true;
    test_manager_kill_only(m);
}

void test_manager_kill(struct test_manager *m)
{
    test_manager_kill_only(m);
    test_manager_wait_ready(m);
}

void test_manager_kill_and_write(struct test_manager *m, long offset, const void *bytes,
                                 size_t size)
{
    struct shared *s = m->shared;
    if (size > sizeof(s->write_bytes))
        ck_abort_msg("too many bytes");
    test_manager_kill_and_hold(m);
    memcpy(s->write_bytes, bytes, size);
    s->write_offset = offset;
    s->write_size = size;
    test_manager_wait_ready(m);
}

void test_manager_stop(struct test_manager *m)
{
    struct shared *s = m->shared;
    unsigned deaths = s->deaths;
    s->stopping = true;
    if (s->pid <= 0 || kill(s->pid, SIGTERM) < 0)
        ck_abort_msg("etwd has died by itself; it wrote:\n%s", test_manager_log(m));
    wait_for(m, s->deaths > deaths, "end on SIGTERM");
    if (!WIFEXITED(s->status) || WEXITSTATUS(s->status) != 0)
        ck_abort_msg("etwd ended on SIGTERM with status 0x%x; it wrote:\n%s", (unsigned) s->status,
                     test_manager_log(m));
    ck_assert_msg(s->stored == 0, "etwd left %zu descriptors in the store: %s ...",
                  (size_t) s->stored, s->names[0]);
}

pid_t test_manager_pid(const struct test_manager *m)
{
    return m->shared->pid;
}

const char *test_manager_dir(const struct test_manager *m)
{
    return m->dir;
}

char *test_manager_log(const struct test_manager *m)
{
    return test_read_file(m->log, NULL);
}

size_t test_manager_stored(const struct test_manager *m)
{
    return m->shared->stored;
}

size_t test_manager_dropped(const struct test_manager *m)
{
    return m->shared->dropped;
}

bool test_manager_has(const struct test_manager *m, const char *name)
{
    for (size_t i = 0; i < NAMES_SHOWN; i++)
        if (strcmp(m->shared->names[i], name) == 0)
            return true;
    return false;
}

unsigned long long test_manager_pause_ns(const struct test_manager *m)
{
    return m->shared->pause_ns;
}

struct test_manager *test_manager_free(struct test_manager *m)
{
    if (!m)
        return NULL;
    m->shared->stopping = true;
    pid_t etwd = m->shared->pid;
    if (etwd > 0)
        (void) kill(etwd, SIGKILL);
    (void) kill(m->pid, SIGKILL);
    (void) waitpid(m->pid, NULL, 0);
    (void) unlink(m->notify_path);
    test_remove_tree(m->dir);
    (void) munmap(m->shared, sizeof(*m->shared));
    free(m->store);
    free(m->notify_path);
    free(m->socket);
    free(m->log);
    free(m->dir);
    free(m);
    return NULL;
}
