/* SPDX-License-Identifier: Apache-2.0
 *
 * list, show, stop, flush: sessions that run already. One thread.
 */
#include "sessions.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "etl/classes.h"
#include "etwctl.h"
#include "options.h"

int session_control(struct conn *c, const char *name, Etwd__ControlSession__Code code,
                    Etwd__Message **ret_reply)
{
    Etwd__ControlSession control = ETWD__CONTROL_SESSION__INIT;
    Etwd__Message m = ETWD__MESSAGE__INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_free_ char *subject = NULL;
    int r;

    if (asprintf(&subject, "session '%s'", name) < 0) {
        subject = NULL;
        return conn_explain(c, -ENOMEM);
    }
    control.name = (char *) name;
    control.code = code;
    m.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
    m.control_session = &control;
    r = conn_call_or_say(c, subject, &m, NULL, 0, ETWD__MESSAGE__BODY_SESSION_REPLY, &reply);
    if (r != EXIT_OK)
        return r;
    if (!reply->session_reply->session) {
        say("%s: etwd's reply is not what was asked for", subject);
        return EXIT_ERROR;
    }
    *ret_reply = TAKE_PTR(reply);
    return EXIT_OK;
}

int session_each(struct conn *c, int (*each)(const Etwd__Session *s, void *userdata),
                 void *userdata)
{
    uint32_t after = 0;
    bool more = true;
    int r;

    while (more) {
        Etwd__ListSessions request = ETWD__LIST_SESSIONS__INIT;
        Etwd__Message m = ETWD__MESSAGE__INIT;
        _cleanup_message_ Etwd__Message *reply = NULL;

        request.after_id = after;
        m.body_case = ETWD__MESSAGE__BODY_LIST_SESSIONS;
        m.list_sessions = &request;
        r = conn_call_or_say(c, "list of sessions", &m, NULL, 0, ETWD__MESSAGE__BODY_SESSION_LIST,
                             &reply);
        if (r != EXIT_OK)
            return r;
        const Etwd__SessionList *l = reply->session_list;
        for (size_t i = 0; i < l->n_sessions; i++) {
            uint32_t id = (uint32_t) (l->sessions[i]->handle & 0xFFFF);
            r = each(l->sessions[i], userdata);
            if (r != 0)
                return r;
            if (id > after)
                after = id;
        }
        /* ids must grow, or a daemon gone wrong would keep us for ever */
        more = l->more && after > request.after_id;
    }
    return EXIT_OK;
}

struct common {
    bool json;
    bool no_legend;
    bool kernel;
    const char *name;
};

enum { OPT_KERNEL = OPT_VERB };

/* Options of the verbs here; with_name: NAME or --kernel is wanted. */
static bool take_options(int argc, char **argv, bool with_name, struct common *ret, int *ret_code)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"kernel", no_argument, NULL, OPT_KERNEL},
        {0},
    };
    struct common c = {0};
    int opt;

    while ((opt = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        switch (opt) {
        case OPT_JSON:
            c.json = true;
            break;
        case OPT_NO_LEGEND:
            c.no_legend = true;
            break;
        case OPT_KERNEL:
            c.kernel = true;
            break;
        case OPT_HELP:
        case 'h':
            if (with_name)
                printf("etwctl %s [--json] [--no-legend] [--help] NAME | --kernel\n"
                       "--kernel means the session '%s'.\n",
                       argv[0], KERNEL_SESSION);
            else
                printf("etwctl %s [--json] [--no-legend] [--help]\n", argv[0]);
            *ret_code = EXIT_OK;
            return false;
        default:
            *ret_code = usage_error(argv[0]);
            return false;
        }
    }
    if (!with_name && (c.kernel || optind < argc)) {
        say("%s: takes no session name", argv[0]);
        *ret_code = usage_error(argv[0]);
        return false;
    }
    if (with_name) {
        int names = argc - optind + (c.kernel ? 1 : 0);
        if (names != 1) {
            say("%s: exactly one session is wanted, by name or as --kernel", argv[0]);
            *ret_code = usage_error(argv[0]);
            return false;
        }
        c.name = c.kernel ? KERNEL_SESSION : argv[optind];
    }
    *ret = c;
    return true;
}

struct listing {
    struct conn *conn;
    struct json_object *array;
    struct table *table;
};

static int list_one(const Etwd__Session *s, void *userdata)
{
    struct listing *l = userdata;
    char owner[SESSION_OWNER_MAX];

    if (!s->properties)
        return 0;
    if (l->array) {
        struct json_object *o = session_json(s);
        if (!o || json_object_array_add(l->array, o) < 0) {
            json_object_put(o);
            say("not enough memory");
            return EXIT_ERROR;
        }
        return 0; /* its providers: after the pages, see list_providers() */
    }
    if (table_cell(l->table, "%s", s->properties->name) < 0 ||
        table_cell(l->table, "0x%llx", (unsigned long long) s->handle) < 0 ||
        table_cell(l->table, "%s", session_owner(s->owner_uid, owner)) < 0 ||
        table_cell(l->table, "%llu", (unsigned long long) s->recorded) < 0 ||
        table_cell(l->table, "%llu", (unsigned long long) session_events_lost(s)) < 0 ||
        table_cell(l->table, "%u", s->buffers_written) < 0 ||
        table_cell(l->table, "%s", s->properties->log_file[0] ? s->properties->log_file : "-") <
            0) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    return 0;
}

/* A session that ended meanwhile has none. */
static int list_providers(struct listing *l)
{
    for (size_t i = 0; l->array && i < json_object_array_length(l->array); i++) {
        struct json_object *o = json_object_array_get_idx(l->array, i), *handle, *providers = NULL;
        if (!json_object_object_get_ex(o, "handle", &handle))
            continue;
        int r = session_providers_json(l->conn, json_object_get_uint64(handle), &providers);
        if (r != EXIT_OK)
            return r;
        json_object_object_add(o, "providers", providers);
    }
    return EXIT_OK;
}

int verb_list(int argc, char **argv)
{
    static const char *const columns[] = {"NAME", "HANDLE",  "OWNER", "EVENTS",
                                          "LOST", "BUFFERS", "FILE"};
    _cleanup_conn_ struct conn c = CONN_INIT;
    struct listing l = {0};
    struct common opts;
    struct out o;
    int r;

    if (!take_options(argc, argv, false, &opts, &r))
        return r;
    r = conn_open_or_say(&c);
    if (r != EXIT_OK)
        return r;
    if (opts.json)
        l.array = json_object_new_array();
    else
        l.table = table_new(columns, ARRAY_SIZE(columns));
    if (!l.array && !l.table) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    l.conn = &c;
    r = session_each(&c, list_one, &l);
    if (r == EXIT_OK)
        r = list_providers(&l);
    if (r == EXIT_OK && !opts.json && out_init(&o, STDOUT_FILENO) < 0) {
        say("not enough memory");
        r = EXIT_ERROR;
    }
    if (r != EXIT_OK) {
        json_object_put(l.array);
        table_free(l.table);
        return r;
    }
    if (opts.json)
        return print_json(l.array);
    for (size_t i = 3; i <= 5; i++)
        table_align_right(l.table, i);
    table_print(l.table, &o, !opts.no_legend && is_terminal(STDOUT_FILENO));
    table_free(l.table);
    return out_done(&o);
}

static void line(struct out *o, const char *label, const char *value)
{
    out_printf(o, "%22s: ", label);
    out_escaped(o, value, strlen(value), 0);
    out_char(o, '\n');
}

static void line_u64(struct out *o, const char *label, uint64_t value)
{
    out_printf(o, "%22s: %llu\n", label, (unsigned long long) value);
}

static void flag_line(struct out *o, const char *label, uint32_t flags)
{
    bool first = true;

    if (!flags)
        return;
    out_printf(o, "%22s: ", label);
    for (const struct etl_enable_flag *f = etl_enable_flags; f->name; f++)
        if (flags & f->bit) {
            out_printf(o, "%s%s", first ? "" : ",", f->name);
            flags &= ~f->bit;
            first = false;
        }
    if (flags)
        out_printf(o, "%s0x%x", first ? "" : ",", flags);
    out_char(o, '\n');
}

static void session_text(struct out *o, const Etwd__Session *s)
{
    const Etwd__SessionProperties *p = s->properties;
    char owner[SESSION_OWNER_MAX], modes[SESSION_MODES_MAX], time[ETW_RFC3339_MAX];
    char guid[ETW_GUID_STRING_MAX];
    struct etw_guid g;

    line(o, "session", p->name);
    out_printf(o, "%22s: 0x%llx\n", "handle", (unsigned long long) s->handle);
    if (p->guid.len == sizeof(g)) {
        memcpy(&g, p->guid.data, sizeof(g));
        line(o, "guid", etw_guid_format(&g, guid));
    }
    out_printf(o, "%22s: %s, process %u%s\n", "owner", session_owner(s->owner_uid, owner),
               s->owner_pid, s->bound ? ", ends with it" : "");
    if (s->start_time)
        line(o, "started", etw_rfc3339_filetime(s->start_time, time));
    line(o, "log file", p->log_file[0] ? p->log_file : "-");
    line(o, "modes", session_modes(p->log_file_mode, modes));
    line(o, "clock", session_clock(p->clock));
    flag_line(o, "kernel flags", p->enable_flags);
    flag_line(o, "inert flags", s->inert_flags);
    out_printf(o, "%22s: %u of %u KiB, %u in use (%u to %u)\n", "buffers", s->buffers,
               p->buffer_size_kb, s->buffers > s->buffers_free ? s->buffers - s->buffers_free : 0,
               p->minimum_buffers, p->maximum_buffers);
    line_u64(o, "buffers written", s->buffers_written);
    if (p->flush_timer_s)
        out_printf(o, "%22s: %u s\n", "flush timer", p->flush_timer_s);
    line_u64(o, "live consumers", s->real_time_consumers);
    line_u64(o, "events written", s->written);
    line_u64(o, "events recorded", s->recorded);
    if (s->overwritten)
        line_u64(o, "events overwritten", s->overwritten);
    line_u64(o, "events lost", session_events_lost(s));
    for (size_t i = 0; i < s->n_lost; i++)
        if (s->lost[i]->events)
            line_u64(o, s->lost[i]->cause, s->lost[i]->events);
    if (s->log_buffers_lost)
        line_u64(o, "log buffers lost", s->log_buffers_lost);
    if (s->real_time_buffers_lost)
        line_u64(o, "live buffers lost", s->real_time_buffers_lost);
}

static int show_text(struct conn *c, const Etwd__Session *s)
{
    struct out o;
    int r, written;

    if (!s->properties)
        return EXIT_OK;
    if (out_init(&o, STDOUT_FILENO) < 0) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    session_text(&o, s);
    r = session_providers_text(c, s->handle, &o);
    written = out_done(&o);
    return r != EXIT_OK ? r : written;
}

/* show, stop, flush: one control call, then the session as it is (or was). */
static int control_verb(int argc, char **argv, Etwd__ControlSession__Code code)
{
    _cleanup_conn_ struct conn c = CONN_INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    struct common opts;
    int r;

    if (!take_options(argc, argv, true, &opts, &r))
        return r;
    r = conn_open_or_say(&c);
    if (r != EXIT_OK)
        return r;
    r = session_control(&c, opts.name, code, &reply);
    if (r != EXIT_OK)
        return r;
    const Etwd__Session *s = reply->session_reply->session;
    bool ended = code == ETWD__CONTROL_SESSION__CODE__STOP;

    if (opts.json)
        r = ended ? print_json(session_json(s)) : session_print_json(&c, s);
    else if (code == ETWD__CONTROL_SESSION__CODE__QUERY)
        r = show_text(&c, s);
    else if (ended)
        session_say_result(s);
    if (r != EXIT_OK)
        return r;
    return ended && (session_events_lost(s) || s->log_buffers_lost) ? EXIT_LOSS : EXIT_OK;
}

int verb_show(int argc, char **argv)
{
    return control_verb(argc, argv, ETWD__CONTROL_SESSION__CODE__QUERY);
}

int verb_stop(int argc, char **argv)
{
    return control_verb(argc, argv, ETWD__CONTROL_SESSION__CODE__STOP);
}

int verb_flush(int argc, char **argv)
{
    return control_verb(argc, argv, ETWD__CONTROL_SESSION__CODE__FLUSH);
}
