/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor: what this user may do, what is missing, and the command that mends it. It changes
 * nothing. One thread.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "connect.h"
#include "etwctl.h"
#include "options.h"

#define GROUP "etw"

/* One finding. */
struct check {
    const char *name;
    bool ok;
    char *detail;
    char *mend; /* NULL: nothing to do, or nothing that a command does */
};

struct report {
    struct check checks[16];
    size_t n;
    bool failed; /* no memory */
};

static void add(struct report *r, const char *name, bool ok, const char *detail, const char *mend)
{
    struct check *c = &r->checks[r->n];

    if (r->n == ARRAY_SIZE(r->checks))
        return;
    *c = (struct check){.name = name, .ok = ok, .detail = strdup(detail)};
    if (mend)
        c->mend = strdup(mend);
    if (!c->detail || (mend && !c->mend))
        r->failed = true;
    r->n++;
}

static void report_clear(struct report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->checks[i].detail);
        free(r->checks[i].mend);
    }
    r->n = 0;
}

/* A small number in a file of /proc; -1: cannot be read. */
static long read_number(const char *path)
{
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    long v;

    return f && fscanf(f, "%ld", &v) == 1 ? v : -1;
}

static bool in_group(gid_t gid)
{
    gid_t groups[1024];
    int n = getgroups(ARRAY_SIZE(groups), groups);

    for (int i = 0; i < n; i++)
        if (groups[i] == gid)
            return true;
    return getegid() == gid;
}

static bool listed_in_group(const struct group *g, const char *user)
{
    for (char **member = g->gr_mem; member && *member; member++)
        if (!strcmp(*member, user))
            return true;
    return false;
}

static void check_daemon(struct report *r, struct conn *c, int error)
{
    char text[512];
    long disabled;

    if (error == 0) {
        (void) snprintf(text, sizeof(text), "version %s answers on %s", c->version, c->path);
        add(r, "daemon", true, text, NULL);
        if (strcmp(c->version, ETWD_VERSION) != 0) {
            (void) snprintf(text, sizeof(text), "etwd is %s, etwctl is %s", c->version,
                            ETWD_VERSION);
            add(r, "versions", false, text, "systemctl restart etwd");
        }
        return;
    }
    if (error == -EACCES || error == -EPERM) {
        (void) snprintf(text, sizeof(text), "access to %s is denied", conn_socket_path());
        add(r, "daemon", false, text, NULL);
        return;
    }
    (void) snprintf(text, sizeof(text), "nobody answers on %s: %s", conn_socket_path(),
                    strerror(-error));
    add(r, "daemon", false, text,
        secure_getenv("ETWD_SOCKET") ? "unset ETWD_SOCKET; systemctl start etwd"
                                     : "systemctl start etwd");
    disabled = read_number("/proc/sys/kernel/io_uring_disabled");
    if (disabled == 2)
        add(r, "io_uring", false,
            "kernel.io_uring_disabled=2 refuses io_uring to everybody, etwd included",
            "sysctl kernel.io_uring_disabled=1");
}

static void check_user(struct report *r)
{
    const struct passwd *pw = getpwuid(geteuid());
    _cleanup_free_ char *user = strdup(pw ? pw->pw_name : "USER");
    const struct group *g;
    char text[512], mend[512];

    if (!user) {
        r->failed = true;
        return;
    }
    if (geteuid() == 0) {
        add(r, "kernel logger", true, "root may trace the kernel and see all sessions", NULL);
        return;
    }
    g = getgrnam(GROUP);
    if (!g) {
        (void) snprintf(
            mend, sizeof(mend),
            "groupadd --system " GROUP " && usermod -aG " GROUP " %s, then log in again", user);
        add(r, "kernel logger", false,
            "there is no group '" GROUP "', only root may trace the "
            "kernel",
            mend);
        return;
    }
    if (in_group(g->gr_gid)) {
        (void) snprintf(text, sizeof(text),
                        "%s is in group '" GROUP "': may trace the kernel and "
                        "see all sessions",
                        user);
        add(r, "kernel logger", true, text, NULL);
        return;
    }
    if (listed_in_group(g, user)) {
        (void) snprintf(text, sizeof(text),
                        "%s is in group '" GROUP "', but this login does not "
                        "know it yet",
                        user);
        add(r, "kernel logger", false, text, "newgrp " GROUP ", or log in again");
        return;
    }
    (void) snprintf(text, sizeof(text),
                    "%s is not in group '" GROUP "': own sessions only, not "
                    "the kernel's events",
                    user);
    (void) snprintf(mend, sizeof(mend), "usermod -aG " GROUP " %s, then log in again", user);
    add(r, "kernel logger", false, text, mend);
}

static int check_holdings(struct report *r, struct conn *c)
{
    Etwd__QueryDaemon query = ETWD__QUERY_DAEMON__INIT;
    Etwd__Message m = ETWD__MESSAGE__INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    int code;

    m.body_case = ETWD__MESSAGE__BODY_QUERY_DAEMON;
    m.query_daemon = &query;
    code = conn_call_or_say(c, "etwd", &m, NULL, 0, ETWD__MESSAGE__BODY_DAEMON_REPLY, &reply);
    if (code != EXIT_OK)
        return code;
    const Etwd__DaemonReply *d = reply->daemon_reply;
    if (d->kernel_available)
        add(r, "kernel events", true, "this kernel lets etwd load its probes", NULL);
    else
        add(r, "kernel events", false,
            d->kernel_unavailable_why[0] ? d->kernel_unavailable_why : "not available",
            access("/sys/kernel/btf/vmlinux", R_OK) < 0
                ? "use a kernel with CONFIG_DEBUG_INFO_BTF=y (Debian's has it)"
                : "run etwd as root or with its systemd unit (systemctl start etwd)");
    if (d->image_helper)
        add(r, "image identity", true, "etwd-image runs: images get their build-id", NULL);
    else
        add(r, "image identity", false,
            "etwd-image does not run: images come without build-id and true base",
            "install etwd-image beside etwd and restart it (systemctl restart etwd)");
    if (d->sessions >= d->max_sessions)
        add(r, "sessions", false, "all sessions that etwd allows are running",
            "etwctl list, then etwctl stop NAME; or raise MaxSessions= in /etc/etwd/etwd.conf");
    return EXIT_OK;
}

static struct json_object *report_json(const struct report *r)
{
    struct json_object *a = json_object_new_array();

    for (size_t i = 0; a && i < r->n; i++) {
        const struct check *c = &r->checks[i];
        struct json_object *o = json_object_new_object();
        json_object_object_add(o, "check", json_object_new_string(c->name));
        json_object_object_add(o, "ok", json_object_new_boolean(c->ok));
        json_object_object_add(o, "detail", json_text(c->detail));
        json_object_object_add(o, "mend", json_text(c->mend));
        json_object_array_add(a, o);
    }
    return a;
}

static void report_text(const struct report *r, struct out *o)
{
    bool colour = want_colour(STDOUT_FILENO);

    for (size_t i = 0; i < r->n; i++) {
        const struct check *c = &r->checks[i];
        if (colour)
            out_str(o, c->ok ? "\033[32m" : "\033[31m");
        out_str(o, c->ok ? "ok       " : "missing  ");
        if (colour)
            out_str(o, "\033[0m");
        out_printf(o, "%s: ", c->name);
        out_escaped(o, c->detail, strlen(c->detail), 0);
        out_char(o, '\n');
        if (c->mend) {
            out_str(o, "         mend: ");
            out_escaped(o, c->mend, strlen(c->mend), 0);
            out_char(o, '\n');
        }
    }
}

int verb_doctor(int argc, char **argv)
{
    static const struct option options[] = {COMMON_OPTIONS, {0}};
    _cleanup_conn_ struct conn c = CONN_INIT;
    struct report r = {0};
    bool json = false;
    struct out o;
    int opt, error, code = EXIT_OK;

    while ((opt = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (opt == OPT_JSON)
            json = true;
        else if (opt == OPT_HELP || opt == 'h') {
            printf("etwctl doctor [--json] [--no-legend] [--help]\n"
                   "What this user may do, what is missing, and the command that mends it.\n");
            return EXIT_OK;
        } else if (opt != OPT_NO_LEGEND)
            return usage_error(argv[0]);
    }
    if (optind < argc) {
        say("doctor: takes no argument");
        return usage_error(argv[0]);
    }

    error = conn_open(&c);
    check_daemon(&r, &c, error);
    check_user(&r);
    if (error == 0)
        code = check_holdings(&r, &c);
    if (r.failed || out_init(&o, STDOUT_FILENO) < 0) {
        say("not enough memory");
        report_clear(&r);
        return EXIT_ERROR;
    }
    if (json) {
        struct json_object *doc = report_json(&r);
        if (doc)
            out_json(&o, doc);
        json_object_put(doc);
    } else {
        report_text(&r, &o);
    }
    for (size_t i = 0; code == EXIT_OK && i < r.n; i++)
        if (!r.checks[i].ok)
            code = EXIT_ERROR;
    if (error == -EACCES || error == -EPERM)
        code = EXIT_DENIED;
    else if (error != 0)
        code = EXIT_UNREACHABLE;
    report_clear(&r);
    int written = out_done(&o);
    return code != EXIT_OK ? code : written;
}
