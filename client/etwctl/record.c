/* SPDX-License-Identifier: Apache-2.0
 *
 * record: a session that lives as long as a command. The command's process exists before the
 * session and waits on a pipe, so that the trace begins before its first instruction; the session
 * is bound to our connection, so that it ends, finalised, however we end. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "etwctl.h"
#include "options.h"
#include "sessions.h"

/* After the first Ctrl-C the command may end by itself, so that its end is in the trace. */
#define GRACE_MS 1000

struct command {
    pid_t pid;
    int pidfd;
    int go;     /* write end: a byte lets it run, closing it ends it */
    int failed; /* read end: errno of a failed exec, nothing when exec succeeded */
};

static void command_close(struct command *c)
{
    c->go = safe_close(c->go);
    c->failed = safe_close(c->failed);
    c->pidfd = safe_close(c->pidfd);
}

/* The child: waits for the byte, then becomes COMMAND. Never returns. */
static _Noreturn void command_child(char **argv, int go, int failed, const sigset_t *mask)
{
    char byte;
    ssize_t n;

    do
        n = read(go, &byte, 1);
    while (n < 0 && errno == EINTR);
    if (n != 1)
        _exit(0); /* the session could not be started: nothing happened */

    (void) signal(SIGPIPE, SIG_DFL);
    (void) sigprocmask(SIG_SETMASK, mask, NULL);
    (void) execvp(argv[0], argv);
    int error = errno;
    if (write(failed, &error, sizeof(error)) < 0)
        _exit(126);
    _exit(error == ENOENT ? 127 : 126);
}

static int command_fork(char **argv, const sigset_t *mask, struct command *ret)
{
    int go[2] = {-1, -1}, failed[2] = {-1, -1}, pidfd, r;
    pid_t pid;

    if (pipe2(go, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(failed, O_CLOEXEC) < 0) {
        r = -errno;
        goto fail;
    }
    pid = fork();
    if (pid < 0) {
        r = -errno;
        goto fail;
    }
    if (pid == 0) {
        (void) close(go[1]);
        (void) close(failed[0]);
        command_child(argv, go[0], failed[1], mask);
    }
    go[0] = safe_close(go[0]);
    failed[1] = safe_close(failed[1]);
    pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        r = -errno;
        go[1] = safe_close(go[1]);
        (void) waitpid(pid, NULL, 0);
        goto fail;
    }
    *ret = (struct command){.pid = pid, .pidfd = pidfd, .go = go[1], .failed = failed[0]};
    return 0;

fail:
    for (int i = 0; i < 2; i++) {
        go[i] = safe_close(go[i]);
        failed[i] = safe_close(failed[i]);
    }
    return r;
}

/* Lets COMMAND run; 0, or -errno of its exec. */
static int command_run(struct command *c)
{
    int error = 0;
    ssize_t n;

    if (write(c->go, "", 1) != 1)
        return -EPIPE;
    do
        n = read(c->failed, &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    return n == sizeof(error) ? -error : 0;
}

/* Waits for COMMAND to end (its status in *ret_status), a signal to us, or the end of the
 * connection; at most timeout_ms. */
enum waited { WAITED_COMMAND, WAITED_SIGNAL, WAITED_DAEMON, WAITED_TIMEOUT };

static enum waited wait_any(const struct command *c, int sfd, int conn_fd, int timeout_ms,
                            struct signalfd_siginfo *ret_signal)
{
    struct pollfd p[] = {
        {.fd = c->pidfd, .events = POLLIN},
        {.fd = sfd, .events = POLLIN},
        {.fd = conn_fd, .events = POLLRDHUP},
    };
    uint64_t end = etw_clock_ns(CLOCK_MONOTONIC) + (uint64_t) timeout_ms * 1000000u;

    for (;;) {
        int left = -1;
        if (timeout_ms >= 0) {
            uint64_t now = etw_clock_ns(CLOCK_MONOTONIC);
            left = now >= end ? 0 : (int) ((end - now + 999999) / 1000000);
        }
        int r = poll(p, ARRAY_SIZE(p), left);
        if (r < 0)
            continue; /* EINTR: the signals we know are blocked */
        if (r == 0)
            return WAITED_TIMEOUT;
        if (p[0].revents)
            return WAITED_COMMAND;
        if (p[1].revents && read(sfd, ret_signal, sizeof(*ret_signal)) == sizeof(*ret_signal))
            return WAITED_SIGNAL;
        if (p[2].revents)
            return WAITED_DAEMON;
    }
}

/* Reaps COMMAND: its exit status, 128 + N for a signal. */
static int command_status(const struct command *c)
{
    int status;

    while (waitpid(c->pid, &status, 0) < 0)
        if (errno != EINTR)
            return EXIT_ERROR;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A terminal sends its signal to COMMAND as well; one from kill(1) we pass on. */
static void pass_on(const struct command *c, const struct signalfd_siginfo *si)
{
    if (si->ssi_code != SI_KERNEL)
        (void) syscall(SYS_pidfd_send_signal, c->pidfd, (int) si->ssi_signo, NULL, 0);
}

/* Stops the session. EXIT_OK, EXIT_LOSS, or another code after a message. */
static int finish(struct conn *c, const struct start_options *s)
{
    _cleanup_message_ Etwd__Message *reply = NULL;
    int r;

    r = session_control(c, s->name, ETWD__CONTROL_SESSION__CODE__STOP, &reply);
    if (r != EXIT_OK)
        return r;
    const Etwd__Session *session = reply->session_reply->session;
    session_say_result(session);
    if (s->json) {
        r = print_json(session_json(session));
        if (r != EXIT_OK)
            return r;
    }
    return session_events_lost(session) || session->log_buffers_lost ? EXIT_LOSS : EXIT_OK;
}

/* While COMMAND runs; the session runs on entry. */
static int attend(struct conn *conn, const struct start_options *s, struct command *cmd, int sfd)
{
    struct signalfd_siginfo si = {0};
    enum waited w;
    int status, done;

    w = wait_any(cmd, sfd, conn->fd, -1, &si);
    if (w == WAITED_SIGNAL) {
        pass_on(cmd, &si);
        w = wait_any(cmd, sfd, conn->fd, GRACE_MS, &si);
        if (w == WAITED_SIGNAL)
            return 128 + (int) si.ssi_signo; /* the connection's end ends the session */
    }
    if (w == WAITED_DAEMON) {
        done = conn_explain(conn, -ECONNRESET);
        conn->fd = safe_close(conn->fd);
    } else {
        done = finish(conn, s);
    }
    if (w != WAITED_COMMAND) {
        if (w == WAITED_TIMEOUT)
            say("the trace is saved; the command still runs (Ctrl-C again quits)");
        do {
            w = wait_any(cmd, sfd, -1, -1, &si);
            if (w == WAITED_SIGNAL)
                return 128 + (int) si.ssi_signo;
        } while (w != WAITED_COMMAND);
    }
    status = command_status(cmd);
    if (done != EXIT_OK && done != EXIT_LOSS)
        return done;
    return done == EXIT_LOSS && s->strict ? EXIT_LOSS : status;
}

int verb_record(int argc, char **argv)
{
    _cleanup_conn_ struct conn c = CONN_INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_close_ int sfd = -1;
    _cleanup_start_options_ struct start_options s = {.bound = true};
    struct command cmd = {.go = -1, .failed = -1, .pidfd = -1};
    sigset_t ends, before;
    int opt, r;

    while ((opt = getopt_long(argc, argv, "+" START_SHORT_OPTIONS "h", start_long_options, NULL)) >=
           0)
        if (!start_option(&s, argv[0], opt, optarg, &r))
            return r;
    if (optind >= argc) {
        say("record: the COMMAND to trace is missing");
        return usage_error(argv[0]);
    }
    if (!s.kernel && s.providers.n == 0) {
        say("record: nothing to record: --kernel or -p PROVIDER is wanted");
        return usage_error(argv[0]);
    }
    char name[32];
    (void) snprintf(name, sizeof(name), "etwctl-record-%d", (int) getpid());
    if (!s.kernel)
        s.name = name;
    r = start_options_check(&s, argv[0]);
    if (r != EXIT_OK)
        return r;
    r = conn_open_or_say(&c);
    if (r == EXIT_OK)
        r = provider_args_resolve(&s.providers, argv[0], &c);
    if (r != EXIT_OK)
        return r;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    (void) sigprocmask(SIG_BLOCK, &ends, &before);
    sfd = signalfd(-1, &ends, SFD_CLOEXEC);
    if (sfd < 0) {
        say("signals cannot be waited for: %s", strerror(errno));
        return EXIT_ERROR;
    }
    r = command_fork(argv + optind, &before, &cmd);
    if (r < 0) {
        say("no process for '%s': %s", argv[optind], strerror(-r));
        return EXIT_ERROR;
    }
    r = session_start(&c, &s, &reply);
    if (r != EXIT_OK) {
        command_close(&cmd);
        (void) waitpid(cmd.pid, NULL, 0);
        return r;
    }

    r = command_run(&cmd);
    if (r < 0) {
        say("'%s' cannot be run: %s", argv[optind], strerror(-r));
        (void) finish(&c, &s);
        (void) command_status(&cmd);
        r = r == -ENOENT ? 127 : 126;
    } else {
        r = attend(&c, &s, &cmd, sfd);
    }
    command_close(&cmd);
    return r;
}
