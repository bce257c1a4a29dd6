/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd's start and end: what the service manager kept for it, what needs root (etwd-image, socket,
 * limits), then the rights it keeps, then the loop with everything on it and what a predecessor
 * left; SIGTERM or SIGINT ends all sessions in good order, SIGUSR1 leaves them to a successor. Main
 * thread, which becomes the loop's.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/listen.h"
#include "control/server.h"
#include "image/spawn.h"
#include "io/loop.h"
#include "io/uid_workers.h"
#include "kernel/logger.h"
#include "kernel/sysconfig.h"
#include "options.h"
#include "privilege.h"
#include "reload.h"
#include "providers/providers.h"
#include "router/router.h"
#include "sessions/sessions.h"
#include "state/takeover.h"
#include "watchdog.h"

#define RUNTIME_DIR_DEFAULT "/run/etwd"

struct daemon {
    struct options options;
    char *user; /* name or number */
    gid_t etw_gid;
    unsigned cpus, online;
    struct state *state;
    bool successor; /* a predecessor's state is there: a failed start must not take it away */
    struct control_socket socket;
    int image_fd;
    struct loop *loop;
    struct worker *kernel_worker;
    struct uid_workers *workers;
    struct router *router;
    struct kernel_logger *kernel;
    struct providers *providers;
    struct sessions *sessions;
    struct server *server;
    int signal_fd;
    struct loop_watch *signal_watch;
    struct loop_timer *shutdown_timer;
    struct watchdog *watchdog;
    struct reload *reload;
    bool stopping;
};

/* A line of /etc/passwd, without NSS: nothing that the daemon does may hang on a directory
 * service. A number is itself. */
static int user_find(const char *name, uid_t *ret_uid, gid_t *ret_gid)
{
    _cleanup_fclose_ FILE *f = fopen("/etc/passwd", "re");
    if (!f)
        return -errno;
    for (struct passwd *p; (p = fgetpwent(f));)
        if (strcmp(p->pw_name, name) == 0) {
            *ret_uid = p->pw_uid;
            *ret_gid = p->pw_gid;
            return 0;
        }
    return -ESRCH;
}

static gid_t group_find(const char *name)
{
    _cleanup_fclose_ FILE *f = fopen("/etc/group", "re");
    if (!f)
        return (gid_t) -1;
    for (struct group *g; (g = fgetgrent(f));)
        if (strcmp(g->gr_name, name) == 0)
            return g->gr_gid;
    return (gid_t) -1;
}

/* The highest processor of a list of the kernel, plus one: "0-3,8". */
static unsigned cpus_listed(const char *path, int name)
{
    char text[4096];
    unsigned last = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    (void) safe_close(fd);
    if (n <= 0) {
        long count = sysconf(name);
        return count > 0 ? (unsigned) count : 1;
    }
    text[n] = '\0';
    for (const char *p = text; *p;) {
        char *end;
        unsigned long v = strtoul(p, &end, 10);
        if (end == p)
            break;
        if (v > last)
            last = (unsigned) v;
        p = *end ? end + 1 : end;
    }
    return last + 1;
}

static int cpus_count(struct daemon *d)
{
    d->cpus = cpus_listed("/sys/devices/system/cpu/possible", _SC_NPROCESSORS_CONF);
    d->online = cpus_listed("/sys/devices/system/cpu/online", _SC_NPROCESSORS_ONLN);
    if (d->options.cpus == 0)
        return 0;
    if (d->options.cpus < d->cpus) {
        log_error("--cpus %u: this machine has %u, whose events could not be told apart",
                  d->options.cpus, d->cpus);
        return -EINVAL;
    }
    d->cpus = d->online = d->options.cpus;
    return 0;
}

/* Who to become: (uid_t) -1 stays. */
static int user_choose(struct daemon *d, uid_t *ret_uid, gid_t *ret_gid)
{
    const char *name = d->options.user ? d->options.user : "etwd";
    uid_t uid = (uid_t) -1;
    gid_t gid = (gid_t) -1;
    int r = 0;

    if (geteuid() == 0)
        r = user_find(name, &uid, &gid);
    else if (d->options.user)
        r = -EPERM;
    if (r < 0 && d->options.user) {
        log_error("--user '%s': %s", name,
                  r == -ESRCH   ? "no such user in /etc/passwd"
                  : r == -EPERM ? "only root can become somebody else"
                                : strerror(-r));
        return r;
    }
    if (r < 0 || geteuid() != 0) {
        uid = (uid_t) -1;
        gid = (gid_t) -1;
    }
    bool become = uid != (uid_t) -1 && uid != 0;
    if (asprintf(&d->user, become ? "%s" : "uid %s%u", become ? name : "", (unsigned) geteuid()) <
        0)
        return -ENOMEM;
    *ret_uid = become ? uid : (uid_t) -1;
    *ret_gid = become ? gid : (gid_t) -1;
    return 0;
}

/* etwd-image, while there are still rights to give to it. Without it images have no identity, and
 * the log and etwctl say so. */
static void helper_start(struct daemon *d, uid_t uid, gid_t gid)
{
    d->image_fd = -1;
    if (geteuid() != 0 && !image_helper_inherits())
        return;
    const char *dir = getauxval(AT_SECURE) ? NULL : getenv("ETWD_LIBEXEC");
    _cleanup_free_ char *path = NULL;
    if (asprintf(&path, "%s/etwd-image", dir && *dir ? dir : ETWD_LIBEXECDIR) < 0)
        return;
    pid_t pid;
    int r = image_helper_spawn(path, uid, gid, &d->image_fd, &pid);
    if (r < 0) {
        d->image_fd = -1;
        log_warning("'%s': failed to start it: %s; images come without build-id", path,
                    strerror(-r));
    }
}

static void stopped(void *userdata)
{
    struct daemon *d = userdata;
    loop_exit(d->loop, 0);
}

/* Somebody holds a log file, and nothing that we could do ends that. */
static void shutdown_late(void *userdata)
{
    struct daemon *d = userdata;
    sessions_tell_left(d->sessions);
    /* A successor, if the service manager starts one, goes on with them; else another etwd may
     * begin, also while a thread of this one still hangs in the kernel. */
    if (!state_kept(d->state))
        control_socket_close(&d->socket);
    _exit(EXIT_FAILURE);
}

static void signal_ready(int fd, uint32_t revents, void *userdata)
{
    struct daemon *d = userdata;
    struct signalfd_siginfo si;

    while (read(fd, &si, sizeof(si)) == (ssize_t) sizeof(si)) {
        if (si.ssi_signo == SIGCHLD) {
            while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
            continue;
        }
        if (si.ssi_signo == SIGHUP) {
            if (!d->stopping)
                reload_begin(d->reload);
            continue;
        }
        if (d->stopping)
            continue; /* no second signal shortens it */
        if (si.ssi_signo == SIGUSR1 && state_kept(d->state)) {
            /* As if killed, but between two transactions: all is in the store, and what is left to
             * do the successor does. */
            log_info("SIGUSR1: sessions are left to the next etwd");
            _exit(EXIT_SUCCESS);
        }
        d->stopping = true;
        (void) sd_notify(0, "STOPPING=1\nSTATUS=Finalising sessions");
        server_stop_listening(d->server);
        (void) loop_timer_arm(d->shutdown_timer,
                              etw_clock_boottime() +
                                  d->options.conf.shutdown_timeout * ETW_NSEC_PER_SEC);
        sessions_shutdown(d->sessions, stopped, d);
    }
}

static int signals_setup(struct daemon *d)
{
    sigset_t set;
    (void) signal(SIGPIPE, SIG_IGN);
    (void) signal(SIGXFSZ, SIG_IGN); /* a write beyond a limit is an error code */
    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGTERM);
    (void) sigaddset(&set, SIGINT);
    (void) sigaddset(&set, SIGUSR1);
    (void) sigaddset(&set, SIGCHLD);
    (void) sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    d->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return d->signal_fd < 0 ? -errno : 0;
}

/* A descriptor a client, a file a session, one a probe: as many as the system grants. */
static void limits_raise(void)
{
    struct rlimit rl;
    if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < rl.rlim_max) {
        rl.rlim_cur = rl.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &rl);
    }
}

/* While we wait for a processor, those who have it fill their rings. */
static void priority_raise(void)
{
    if (geteuid() == 0 && setpriority(PRIO_PROCESS, 0, ETWD_NICE) < 0)
        log_info("priority: %s: under load events are lost sooner", strerror(errno));
}

/* The socket, and the state of a predecessor or a fresh one. */
static int socket_open(struct daemon *d, uid_t uid, gid_t gid)
{
    const char *env = getauxval(AT_SECURE) ? NULL : getenv("ETWD_SOCKET");
    _cleanup_free_ char *path = NULL;
    const char *why = "out of memory";
    struct state_start start;
    int r;

    r = state_start(d->options.conf.fd_store_max, &start);
    if (r < 0) {
        log_error("state: %s", strerror(-r));
        return r;
    }
    d->state = start.state;
    d->successor = start.successor;
    /* A folder named on the command line is meant more than the environment. */
    if (d->options.runtime_dir || !env || !*env)
        r = asprintf(&path, "%s/control.sock",
                     d->options.runtime_dir ? d->options.runtime_dir : RUNTIME_DIR_DEFAULT);
    else
        r = asprintf(&path, "%s", env);
    if (r < 0) {
        (void) safe_close(start.listen_fd);
        return -ENOMEM;
    }
    r = control_socket_open(path, start.listen_fd, start.listen_ours, uid, gid, &d->socket, &why);
    if (r < 0) {
        log_error("socket '%s': %s: %s", path, why, strerror(-r));
        return r;
    }
    /* That of a socket unit comes with each start. */
    r = d->socket.path ? state_fd_store(d->state, STATE_FD_LISTEN, 0, d->socket.fd) : 0;
    if (r < 0 && r != -EEXIST) {
        log_error("socket '%s': descriptor store: %s", path, strerror(-r));
        return r;
    }
    return 0;
}

static void session_ending(void *userdata, struct session *s)
{
    struct daemon *d = userdata;
    providers_session_gone(d->providers, s);
}

static void losses_sync(void *userdata)
{
    struct daemon *d = userdata;
    providers_sync_losses(d->providers);
}

static struct session *session_find(void *userdata, uint64_t handle)
{
    struct daemon *d = userdata;
    return sessions_find_handle(d->sessions, handle);
}

static bool connected(void *userdata, uint64_t connection)
{
    struct daemon *d = userdata;
    return server_connected(d->server, connection);
}

/* What a predecessor left: sessions first, then who writes into them, then who waits for it. */
static int takeover(struct daemon *d)
{
    int r;

    if (!d->successor)
        return 0;
    r = sessions_takeover(d->sessions);
    if (r < 0) {
        log_error("sessions of the etwd before: %s", strerror(-r));
        return r;
    }
    kernel_logger_takeover(d->kernel, session_find, d);
    r = providers_takeover(d->providers, session_find, d);
    if (r < 0) {
        log_error("providers of the etwd before: %s", strerror(-r));
        return r;
    }
    server_takeover(d->server);
    providers_takeover_done(d->providers);
    sessions_takeover_done(d->sessions, connected, d);
    state_start_done(d->state);
    return 0;
}

static int loop_setup(struct daemon *d)
{
    int r;

    r = loop_new_backend(d->options.conf.io_uring ? LOOP_AUTO : LOOP_EPOLL, &d->loop);
    if (r < 0) {
        log_error("event loop: %s", strerror(-r));
        return r;
    }
    log_info("event loop on %s", loop_backend_name(d->loop));
    if ((r = worker_new(d->loop, "etwd-kernel", &d->kernel_worker)) < 0 ||
        (r = uid_workers_new(d->loop, &d->workers)) < 0 ||
        (r = router_new(d->loop, d->options.conf.pass_interval_us * 1000, &d->router)) < 0) {
        log_error("workers: %s", strerror(-r));
        return r;
    }
    router_set_state(d->router, d->state);
    r = kernel_logger_new(d->loop, d->kernel_worker, d->router, d->state, &d->options.conf, d->cpus,
                          d->image_fd, &d->kernel);
    if (r < 0) {
        log_error("kernel logger: %s", strerror(-r));
        return r;
    }
    bool image_helper = d->image_fd >= 0;
    d->image_fd = -1;

    struct providers_env pe = {
        .loop = d->loop,
        .router = d->router,
        .state = d->state,
        .conf = &d->options.conf,
        .cpus = d->cpus,
    };
    r = providers_new(&pe, &d->providers);
    if (r < 0) {
        log_error("providers: %s", strerror(-r));
        return r;
    }
    struct sessions_env se = {
        .loop = d->loop,
        .state = d->state,
        .workers = d->workers,
        .router = d->router,
        .kernel = d->kernel,
        .conf = &d->options.conf,
        .cpus = d->cpus,
        .online = d->online,
        .cpu_mhz = sysconfig_cpu_mhz(),
        .ending = session_ending,
        .losses = losses_sync,
        .userdata = d,
    };
    r = sessions_new(&se, &d->sessions);
    if (r < 0) {
        log_error("sessions: %s", strerror(-r));
        return r;
    }
    struct server_env ve = {
        .loop = d->loop,
        .state = d->state,
        .workers = d->workers,
        .providers = d->providers,
        .sessions = d->sessions,
        .kernel = d->kernel,
        .conf = &d->options.conf,
        .etw_gid = d->etw_gid,
        .cpus = d->online,
        .image_helper = image_helper,
        .user = d->user,
    };
    r = server_new(&ve, d->socket.fd, &d->server);
    if (r < 0) {
        log_error("server: %s", strerror(-r));
        return r;
    }
    d->socket.fd = -1;
    if ((r = reload_new(&d->options, d->workers, &d->reload)) < 0 ||
        (r = loop_timer_new(d->loop, shutdown_late, d, &d->shutdown_timer)) < 0 ||
        (r = loop_watch_new(d->loop, d->signal_fd, POLLIN, signal_ready, d, &d->signal_watch)) < 0)
        log_error("signals: %s", strerror(-r));
    return r;
}

static int watchdog_setup(struct daemon *d)
{
    uint64_t usec;
    int r;

    r = sd_watchdog_enabled(0, &usec);
    if (r > 0)
        r = watchdog_new(d->loop, d->router, usec, &d->watchdog);
    if (r < 0)
        log_error("watchdog: %s", strerror(-r));
    return r;
}

static void daemon_done(struct daemon *d)
{
    watchdog_free(d->watchdog);
    loop_watch_free(d->signal_watch);
    loop_timer_free(d->shutdown_timer);
    server_free(d->server);
    sessions_free(d->sessions);
    providers_free(d->providers);
    /* A job under way uses what the logger holds. */
    worker_free(d->kernel_worker);
    kernel_logger_free(d->kernel);
    router_free(d->router);
    uid_workers_free(d->workers);
    reload_free(d->reload);
    loop_free(d->loop);
    (void) safe_close(d->signal_fd);
    (void) safe_close(d->image_fd);
    state_end(d->state);
    state_free(d->state);
    control_socket_close(&d->socket);
    free(d->user);
}

static void complain(void *userdata, const char *file, unsigned line, const char *reason)
{
    if (line)
        log_warning("%s:%u: %s; the line is passed over", file, line, reason);
    else
        log_warning("%s: %s; it is passed over", file, reason);
}

static int run(struct daemon *d)
{
    uid_t uid;
    gid_t gid;
    int r;

    r = options_conf_load(&d->options, &d->options.conf, complain, NULL);
    if (r < 0) {
        log_error("configuration: %s", strerror(-r));
        return r;
    }
    r = cpus_count(d);
    if (r < 0)
        return r;
    r = user_choose(d, &uid, &gid);
    if (r < 0)
        return r;
    d->etw_gid = group_find("etw");
    /* Before anybody can see us: from the first connection on SIGTERM means a good end. */
    r = signals_setup(d);
    if (r < 0) {
        log_error("signals: %s", strerror(-r));
        return r;
    }
    r = socket_open(d, uid, gid);
    if (r < 0)
        return r;
    limits_raise();
    helper_start(d, uid, gid);
    priority_raise();
    r = privilege_drop(uid, gid);
    if (r < 0) {
        log_error("privileges: failed to become %s: %s", d->user, strerror(-r));
        return r;
    }
    r = loop_setup(d);
    if (r == 0)
        r = takeover(d);
    if (r == 0)
        r = watchdog_setup(d);
    if (r < 0)
        return r;
    d->successor = false;
    (void) sd_notify(0, "READY=1\nSTATUS=Serving");
    r = loop_run(d->loop);
    if (r < 0) {
        /* Nothing can be finalised without a loop; the files are as if we had been killed. */
        log_error("event loop: %s", strerror(-r));
        _exit(EXIT_FAILURE);
    }
    return r;
}

int main(int argc, char **argv)
{
    struct daemon d = {.image_fd = -1, .signal_fd = -1, .socket = {.fd = -1, .lock_fd = -1}};
    int r;

    etw_log_init("etwd", ETW_LOG_NOTICE);
    r = options_parse(argc, argv, &d.options);
    if (r != 0)
        return r > 0 ? EXIT_SUCCESS : 2;
    if (d.options.verbose)
        etw_log_init("etwd", ETW_LOG_DEBUG);
    r = run(&d);
    /* A manager that keeps what we hold starts us again at once; that shall not take a processor
     * for as long as it fails. */
    if (r < 0 && state_kept(d.state))
        (void) sleep(ETWD_FAILED_START_S);
    if (r < 0 && d.successor)
        _exit(EXIT_FAILURE); /* the next start tries again: all is still in the store */
    daemon_done(&d);
    return r < 0 ? EXIT_FAILURE : r;
}
