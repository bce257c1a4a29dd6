/* SPDX-License-Identifier: Apache-2.0
 *
 * enable, disable, providers, mark; and what start, record and show share with them. One thread.
 */
#include "providers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <evntcons.h>
#include <evntprov.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "etwctl.h"
#include "options.h"
#include "sessions.h"

/* ---- asking the daemon ---- */

int providers_each(struct conn *c, uint32_t pid, uint64_t session,
                   int (*each)(const Etwd__Provider *p, void *userdata), void *userdata)
{
    struct etw_guid after;
    bool more = true, first = true;
    int r;

    while (more) {
        Etwd__ListProviders request = ETWD__LIST_PROVIDERS__INIT;
        Etwd__Message m = ETWD__MESSAGE__INIT;
        _cleanup_message_ Etwd__Message *reply = NULL;

        if (!first) {
            request.after_guid.data = (uint8_t *) &after;
            request.after_guid.len = sizeof(after);
        }
        request.pid = pid;
        request.session = session;
        m.body_case = ETWD__MESSAGE__BODY_LIST_PROVIDERS;
        m.list_providers = &request;
        r = conn_call_or_say(c, "list of providers", &m, NULL, 0, ETWD__MESSAGE__BODY_PROVIDER_LIST,
                             &reply);
        if (r != EXIT_OK)
            return r;
        const Etwd__ProviderList *l = reply->provider_list;
        for (size_t i = 0; i < l->n_providers; i++) {
            r = each(l->providers[i], userdata);
            if (r != 0)
                return r;
        }
        /* A page that brings nothing would keep us for ever. */
        more = l->more && l->n_providers > 0 &&
               l->providers[l->n_providers - 1]->guid.len == sizeof(after);
        if (more)
            memcpy(&after, l->providers[l->n_providers - 1]->guid.data, sizeof(after));
        first = false;
    }
    return EXIT_OK;
}

static int send_wish(struct conn *c, const char *session, const struct provider_arg *a,
                     Etwd__EnableProvider *body, const int *fds, size_t n_fds)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_free_ char *subject = NULL;
    int r;

    if (asprintf(&subject, "session '%s', provider '%s'", session, a->text) < 0) {
        subject = NULL;
        return conn_explain(c, -ENOMEM);
    }
    body->name = (char *) session;
    body->guid.data = (uint8_t *) &a->guid;
    body->guid.len = sizeof(a->guid);
    m.body_case = ETWD__MESSAGE__BODY_ENABLE_PROVIDER;
    m.enable_provider = body;
    r = conn_call(c, &m, fds, n_fds, &reply);
    if (r < 0)
        return conn_explain(c, r);
    return reply->status ? reply_explain(subject, reply) : EXIT_OK;
}

int providers_disable(struct conn *c, const char *session, const struct provider_args *l)
{
    int r = EXIT_OK;

    for (size_t i = 0; i < l->n && r == EXIT_OK; i++) {
        Etwd__EnableProvider body = ETWD__ENABLE_PROVIDER__INIT;
        body.control_code = EVENT_CONTROL_CODE_DISABLE_PROVIDER;
        r = send_wish(c, session, &l->items[i], &body, NULL, 0);
    }
    return r;
}

/* Filters as the API has them. */
struct packed {
    Etwd__Filter items[2];
    Etwd__Filter *list[2];
    size_t n;
    uint8_t *data[2];
};

static void packed_done(struct packed *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->data[i]);
}
#define _cleanup_packed_ __attribute__((cleanup(packed_done)))

static int pack(struct packed *p, uint32_t type, size_t size, const void *head, size_t head_size,
                const void *rest)
{
    uint8_t *data = malloc(size ? size : 1);

    if (!data)
        return -ENOMEM;
    memcpy(data, head, head_size);
    memcpy(data + head_size, rest, size - head_size);
    p->data[p->n] = data;
    p->items[p->n] = (Etwd__Filter) ETWD__FILTER__INIT;
    p->items[p->n].type = type;
    p->items[p->n].data.data = data;
    p->items[p->n].data.len = size;
    p->list[p->n] = &p->items[p->n];
    p->n++;
    return 0;
}

static int pack_filters(struct packed *p, const struct provider_filters *f)
{
    int r = 0;

    if (f->executables) {
        _cleanup_free_ uint16_t *wide = etw_utf8_dup_utf16(f->executables, SIZE_MAX);
        if (!wide)
            return -ENOMEM;
        size_t units = etw_utf16_len(wide, SIZE_MAX);
        r = pack(p, EVENT_FILTER_TYPE_EXECUTABLE_NAME, (units + 1) * 2, wide, 0, wide);
    }
    if (r == 0 && f->by_event_id) {
        uint16_t head[2] = {f->event_ids_in ? 1 : 0, (uint16_t) f->n_event_ids};
        r = pack(p, EVENT_FILTER_TYPE_EVENT_ID, sizeof(head) + 2 * f->n_event_ids, head,
                 sizeof(head), f->event_ids);
    }
    return r;
}

int providers_enable(struct conn *c, const char *session, const struct provider_args *l,
                     const struct provider_filters *filters)
{
    _cleanup_packed_ struct packed p = {0};
    int r = EXIT_OK;

    if (filters && pack_filters(&p, filters) < 0)
        return conn_explain(c, -ENOMEM);
    for (size_t i = 0; i < l->n && r == EXIT_OK; i++) {
        Etwd__EnableProvider body = ETWD__ENABLE_PROVIDER__INIT;
        body.control_code = EVENT_CONTROL_CODE_ENABLE_PROVIDER;
        body.level = l->items[i].level;
        body.any = l->items[i].any;
        body.all = l->items[i].all;
        body.filters = p.list;
        body.n_filters = p.n;
        body.pid_filter = filters && filters->by_pid;
        r = send_wish(c, session, &l->items[i], &body, filters ? filters->pidfds : NULL,
                      filters ? filters->n_pidfds : 0);
    }
    return r;
}

/* ---- enable, disable ---- */

enum { OPT_PID = OPT_VERB, OPT_EXE, OPT_EVENT_ID, OPT_NOT_EVENT_ID };

struct enable_options {
    struct number_list pids, ids;
    struct provider_filters filters;
    int *pidfds;
    uint16_t *event_ids;
};

static void enable_options_done(struct enable_options *o)
{
    for (size_t i = 0; i < o->filters.n_pidfds; i++)
        (void) close(o->pidfds[i]);
    free(o->pidfds);
    free(o->event_ids);
    number_list_clear(&o->pids);
    number_list_clear(&o->ids);
}
#define _cleanup_enable_options_ __attribute__((cleanup(enable_options_done)))

static int open_pids(const char *verb, struct enable_options *o)
{
    if (o->pids.n > MAX_EVENT_FILTER_PID_COUNT) {
        say("%s: --pid: at most %d processes", verb, MAX_EVENT_FILTER_PID_COUNT);
        return usage_error(verb);
    }
    o->pidfds = calloc(o->pids.n + 1, sizeof(*o->pidfds));
    if (!o->pidfds) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    for (size_t i = 0; i < o->pids.n; i++) {
        uint64_t pid = o->pids.numbers[i];
        int fd = pid > 0 && pid <= INT32_MAX ? (int) syscall(SYS_pidfd_open, (pid_t) pid, 0) : -1;
        if (fd < 0) {
            say("%s: --pid %llu: there is no such process", verb, (unsigned long long) pid);
            return EXIT_ERROR;
        }
        o->pidfds[o->filters.n_pidfds++] = fd;
    }
    o->filters.pidfds = o->pidfds;
    o->filters.by_pid = o->pids.n > 0;
    return EXIT_OK;
}

static int take_ids(const char *verb, struct enable_options *o)
{
    if (o->ids.n > MAX_EVENT_FILTER_EVENT_ID_COUNT) {
        say("%s: at most %d event ids", verb, MAX_EVENT_FILTER_EVENT_ID_COUNT);
        return usage_error(verb);
    }
    o->event_ids = calloc(o->ids.n + 1, sizeof(*o->event_ids));
    if (!o->event_ids) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    for (size_t i = 0; i < o->ids.n; i++) {
        if (o->ids.numbers[i] > UINT16_MAX) {
            say("%s: event id %llu: at most 65535", verb, (unsigned long long) o->ids.numbers[i]);
            return usage_error(verb);
        }
        o->event_ids[i] = (uint16_t) o->ids.numbers[i];
    }
    o->filters.event_ids = o->event_ids;
    o->filters.n_event_ids = o->ids.n;
    o->filters.by_event_id = o->ids.n > 0;
    return EXIT_OK;
}

static void enable_help(const char *verb)
{
    printf(
        "etwctl %s [OPTION]... NAME PROVIDER...\n"
        "NAME is a session. PROVIDER is a GUID, the name of a provider that is registered or has\n"
        "an installed manifest, or *NAME, whose GUID is made from the name",
        verb);
    if (strcmp(verb, "disable") == 0) {
        printf(".\n");
        return;
    }
    printf(
        "; then\n"
        "[:LEVEL[:ANY[:ALL]]]: events up to LEVEL (critical, error, warning, information,\n"
        "verbose, or 0 to 255; all when left out) that have a keyword bit of ANY and all of ALL.\n"
        "      --pid N,...           only of these processes\n"
        "      --exe NAME[;NAME]...  only of programs with these names\n"
        "      --event-id N,...      only these events\n"
        "      --not-event-id N,...  all but these events\n");
}

/* What became of it. */
static int print_session(struct conn *c, const char *name)
{
    _cleanup_message_ Etwd__Message *reply = NULL;
    int r = session_control(c, name, ETWD__CONTROL_SESSION__CODE__QUERY, &reply);

    return r == EXIT_OK ? session_print_json(c, reply->session_reply->session) : r;
}

static int enable_verb(int argc, char **argv, bool on)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"pid", required_argument, NULL, OPT_PID},
        {"exe", required_argument, NULL, OPT_EXE},
        {"event-id", required_argument, NULL, OPT_EVENT_ID},
        {"not-event-id", required_argument, NULL, OPT_NOT_EVENT_ID},
        {0},
    };
    _cleanup_enable_options_ struct enable_options o = {0};
    _cleanup_conn_ struct conn c = CONN_INIT;
    struct provider_args list = {0};
    bool in = false, out = false, json = false;
    int opt, r = 0;

    while ((opt = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (!on && opt >= OPT_VERB) {
            say("disable: --pid, --exe and --event-id belong to `enable`");
            return usage_error(argv[0]);
        }
        switch (opt) {
        case OPT_JSON:
            json = true;
            break;
        case OPT_NO_LEGEND: /* there is none */
            break;
        case OPT_PID:
            r = number_list_add(&o.pids, optarg);
            break;
        case OPT_EXE:
            o.filters.executables = optarg;
            break;
        case OPT_EVENT_ID:
            in = true;
            r = number_list_add(&o.ids, optarg);
            break;
        case OPT_NOT_EVENT_ID:
            out = true;
            r = number_list_add(&o.ids, optarg);
            break;
        case OPT_HELP:
        case 'h':
            enable_help(argv[0]);
            return EXIT_OK;
        default:
            return usage_error(argv[0]);
        }
        if (r < 0)
            return bad_option(argv[0], opt == OPT_PID ? "--pid" : "--event-id", optarg, r);
    }
    if (in && out) {
        say("%s: either --event-id or --not-event-id", argv[0]);
        return usage_error(argv[0]);
    }
    o.filters.event_ids_in = in;
    if (argc - optind < 2) {
        say("%s: a session's NAME and at least one PROVIDER are wanted", argv[0]);
        return usage_error(argv[0]);
    }
    for (int i = optind + 1; i < argc && r == EXIT_OK; i++)
        r = provider_args_add(&list, argv[0], argv[i]);
    if (r == EXIT_OK)
        r = open_pids(argv[0], &o);
    if (r == EXIT_OK)
        r = take_ids(argv[0], &o);
    if (r == EXIT_OK)
        r = conn_open_or_say(&c);
    if (r == EXIT_OK)
        r = provider_args_resolve(&list, argv[0], &c);
    if (r == EXIT_OK)
        r = on ? providers_enable(&c, argv[optind], &list, &o.filters)
               : providers_disable(&c, argv[optind], &list);
    provider_args_clear(&list);
    return r == EXIT_OK && json ? print_session(&c, argv[optind]) : r;
}

int verb_enable(int argc, char **argv)
{
    return enable_verb(argc, argv, true);
}

int verb_disable(int argc, char **argv)
{
    return enable_verb(argc, argv, false);
}

/* ---- mark ---- */

static struct json_object *mark_json(const char *text)
{
    struct json_object *o = json_object_new_object();

    if (o)
        json_object_object_add(o, "text", json_text(text));
    return o;
}

int verb_mark(int argc, char **argv)
{
    static const struct option options[] = {COMMON_OPTIONS, {0}};
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_conn_ struct conn c = CONN_INIT;
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Mark mark = ETWD__MARK__INIT;
    bool json = false;
    int opt, r;

    while ((opt = getopt_long(argc, argv, "h", options, NULL)) >= 0)
        switch (opt) {
        case OPT_JSON:
            json = true;
            break;
        case OPT_NO_LEGEND: /* there is none */
            break;
        case OPT_HELP:
        case 'h':
            printf("etwctl mark TEXT\n"
                   "Writes an event with TEXT into every running session that you may control.\n");
            return EXIT_OK;
        default:
            return usage_error(argv[0]);
        }
    if (argc - optind != 1) {
        say("mark: one TEXT is wanted; quote it when it has spaces");
        return usage_error(argv[0]);
    }
    r = conn_open_or_say(&c);
    if (r != EXIT_OK)
        return r;
    mark.text = argv[optind];
    m.body_case = ETWD__MESSAGE__BODY_MARK;
    m.mark = &mark;
    r = conn_call(&c, &m, NULL, 0, &reply);
    if (r < 0)
        return conn_explain(&c, r);
    if (reply->status)
        return reply_explain("mark", reply);
    return json ? print_json(mark_json(argv[optind])) : EXIT_OK;
}
