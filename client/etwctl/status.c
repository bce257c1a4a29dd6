/* SPDX-License-Identifier: Apache-2.0
 *
 * status: is the daemon there, what does it hold. One thread.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "connect.h"
#include "etwctl.h"
#include "options.h"

static struct json_object *status_json(const struct conn *c, const Etwd__DaemonReply *d)
{
    struct json_object *o = json_object_new_object(), *k = json_object_new_object();

    if (!o || !k) {
        json_object_put(o);
        json_object_put(k);
        return NULL;
    }
    json_object_object_add(k, "available", json_object_new_boolean(d->kernel_available));
    json_object_object_add(k, "why_not",
                           d->kernel_available ? NULL : json_text(d->kernel_unavailable_why));
    json_object_object_add(k, "programs", json_u64(d->kernel_programs));
    json_object_object_add(o, "reachable", json_object_new_boolean(true));
    json_object_object_add(o, "socket", json_text(c->path));
    json_object_object_add(o, "version", json_text(d->version));
    json_object_object_add(o, "pid", json_u64(d->pid));
    json_object_object_add(o, "user", json_text(d->user));
    json_object_object_add(o, "processors", json_u64(d->processors));
    json_object_object_add(o, "start_time", json_filetime(d->start_time));
    json_object_object_add(o, "sessions", json_u64(d->sessions));
    json_object_object_add(o, "max_sessions", json_u64(d->max_sessions));
    json_object_object_add(o, "connections", json_u64(d->connections));
    json_object_object_add(o, "image_helper", json_object_new_boolean(d->image_helper));
    json_object_object_add(o, "kernel", k);
    return o;
}

static void line(struct out *o, const char *label, const char *value)
{
    out_printf(o, "%14s: ", label);
    out_escaped(o, value, strlen(value), 0);
    out_char(o, '\n');
}

static void status_text(struct out *o, const struct conn *c, const Etwd__DaemonReply *d)
{
    char time[ETW_RFC3339_MAX];

    out_printf(o, "%14s: version ", "etwd");
    out_escaped(o, d->version, strlen(d->version), 0);
    out_printf(o, ", process %u, user ", d->pid);
    out_escaped(o, d->user, strlen(d->user), 0);
    out_char(o, '\n');
    line(o, "socket", c->path);
    if (d->start_time)
        line(o, "started", etw_rfc3339_filetime(d->start_time, time));
    out_printf(o, "%14s: %u\n", "processors", d->processors);
    out_printf(o, "%14s: %u of at most %u\n", "sessions", d->sessions, d->max_sessions);
    out_printf(o, "%14s: %u\n", "connections", d->connections);
    if (d->kernel_available)
        out_printf(o, "%14s: available, %u programs loaded\n", "kernel events", d->kernel_programs);
    else
        line(o, "kernel events", d->kernel_unavailable_why);
    line(o, "image helper",
         d->image_helper ? "running" : "not there: images come without identity");
}

int verb_status(int argc, char **argv)
{
    static const struct option options[] = {COMMON_OPTIONS, {0}};
    _cleanup_conn_ struct conn c = CONN_INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    bool json = false;
    struct out o;
    int opt, r;

    while ((opt = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (opt == OPT_JSON)
            json = true;
        else if (opt == OPT_HELP || opt == 'h') {
            printf("etwctl status [--json] [--no-legend] [--help]\n");
            return EXIT_OK;
        } else if (opt != OPT_NO_LEGEND)
            return usage_error(argv[0]);
    }
    if (optind < argc) {
        say("status: takes no argument");
        return usage_error(argv[0]);
    }

    int code = conn_open_or_say(&c);
    if (code == EXIT_OK) {
        Etwd__QueryDaemon query = ETWD__QUERY_DAEMON__INIT;
        Etwd__Message m = ETWD__MESSAGE__INIT;
        m.body_case = ETWD__MESSAGE__BODY_QUERY_DAEMON;
        m.query_daemon = &query;
        code = conn_call_or_say(&c, "etwd", &m, NULL, 0, ETWD__MESSAGE__BODY_DAEMON_REPLY, &reply);
    }
    if (code != EXIT_OK && !json)
        return code;

    if (out_init(&o, STDOUT_FILENO) < 0) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    if (json) {
        struct json_object *doc;
        if (code == EXIT_OK) {
            doc = status_json(&c, reply->daemon_reply);
        } else {
            doc = json_object_new_object();
            if (doc) {
                json_object_object_add(doc, "reachable", json_object_new_boolean(false));
                json_object_object_add(doc, "socket", json_text(conn_socket_path()));
            }
        }
        if (!doc) {
            (void) out_done(&o);
            say("not enough memory");
            return EXIT_ERROR;
        }
        out_json(&o, doc);
        json_object_put(doc);
    } else {
        status_text(&o, &c, reply->daemon_reply);
    }
    r = out_done(&o);
    return code != EXIT_OK ? code : r;
}
