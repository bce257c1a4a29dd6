/* SPDX-License-Identifier: Apache-2.0
 *
 * dump: the events of one or several files in time order, through ProcessTrace. Times are converted
 * here, since FILETIME has no nanoseconds. Needs no daemon. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <evntcons.h>
#include <evntrace.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/winerror.h"
#include "decode.h"
#include "etl/file.h"
#include "etwctl.h"
#include "messages.h"
#include "options.h"

struct dump {
    struct out out;
    struct line_options line;
    bool json;
    /* filters; empty lists let everything pass */
    struct number_list pids;
    struct number_list tids;
    struct number_list cpus;
    const char **providers;
    size_t n_providers;
    const char **events;
    size_t n_events;
    uint64_t since; /* ns since 1970 */
    uint64_t until;
    bool limited;
    uint64_t limit;
    /* files */
    struct trace_state *files;
    PROCESSTRACE_HANDLE *handles;
    size_t n_files;
    size_t n_open;
    bool done; /* nothing more is wanted */
    struct decoded event;
};

/* --since and --until as given. */
struct moments {
    uint64_t since;
    uint64_t until;
    bool since_relative;
    bool until_relative;
};

/* The callbacks have no other way to it than the file's state. */
static struct dump *the_dump;

static bool text_equal(const char *pattern, const char *s, size_t len)
{
    return s && strlen(pattern) == len && !strncasecmp(pattern, s, len);
}

static bool provider_wanted(const struct dump *d, const struct decoded *e)
{
    struct etw_guid g;

    for (size_t i = 0; i < d->n_providers; i++) {
        if (text_equal(d->providers[i], e->provider, e->provider_len))
            return true;
        if (etw_guid_parse(d->providers[i], &g) == 0 && etw_guid_equal(&g, &e->guid))
            return true;
    }
    return d->n_providers == 0;
}

/* NAME, PROVIDER/NAME, or a number: the id, the opcode of classes. */
static bool event_wanted(const struct dump *d, const struct decoded *e)
{
    const EVENT_DESCRIPTOR *desc = &e->record->EventHeader.EventDescriptor;
    bool by_class = e->kind == KIND_SYSTEM || e->kind == KIND_CLASSIC;

    for (size_t i = 0; i < d->n_events; i++) {
        const char *pattern = d->events[i], *slash = strrchr(pattern, '/');
        uint64_t number;
        if (slash) {
            size_t len = (size_t) (slash - pattern);
            if (!e->provider || e->provider_len != len ||
                strncasecmp(pattern, e->provider, len) != 0)
                continue;
            pattern = slash + 1;
        }
        if (text_equal(pattern, e->event, e->event_len))
            return true;
        if (parse_u64(pattern, &number) == 0 && number == (by_class ? desc->Opcode : desc->Id))
            return true;
    }
    return d->n_events == 0;
}

static bool wanted(const struct dump *d, const struct decoded *e)
{
    if (e->unix_ns < d->since || e->unix_ns > d->until)
        return false;
    if (d->cpus.n > 0 && !number_list_has(&d->cpus, e->cpu))
        return false;
    if (d->pids.n > 0 && !(e->has_pid && number_list_has(&d->pids, e->pid)) &&
        !(e->has_subject_pid && number_list_has(&d->pids, e->subject_pid)))
        return false;
    if (d->tids.n > 0 && !(e->has_tid && number_list_has(&d->tids, e->tid)) &&
        !(e->has_subject_tid && number_list_has(&d->tids, e->subject_tid)))
        return false;
    return provider_wanted(d, e) && event_wanted(d, e);
}

static void stop_reading(struct dump *d)
{
    d->done = true;
    for (size_t i = 0; i < d->n_open; i++)
        (void) CloseTrace(d->handles[i]);
    d->n_open = 0;
}

static VOID WINAPI on_event(PEVENT_RECORD record)
{
    struct dump *d = the_dump;
    struct trace_state *t = record->UserContext;
    struct decoded *e = &d->event;

    if (d->done)
        return;
    decode_event(t, record, e);
    if (e->unix_ns > d->until) {
        /* time goes on only: with several clocks too, since the merge is by time */
        stop_reading(d);
        return;
    }
    if (!wanted(d, e))
        return;
    if (d->limited && d->limit-- == 0) {
        stop_reading(d);
        return;
    }
    if (d->json)
        emit_json(&d->out, e, &d->line);
    else
        emit_text(&d->out, e, &d->line);
    if (d->out.error)
        stop_reading(d);
}

/* What a file says of itself: its clock, whether it is all there, its events' descriptions.
 * EXIT_OK, EXIT_LOSS after a remark, or another code after a message. */
static int read_header(const char *path, struct trace_state *t)
{
    _cleanup_close_ int fd = -1;
    const struct etl_buffer_ref *refs;
    struct etl_file *f = NULL;
    const char *why = NULL;
    bool truncated, lost = false;
    size_t n;
    int r;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    r = fd < 0 ? -errno : etl_file_open_fd(fd, &f);
    if (r == 0)
        r = etl_file_index(f, &refs, &n, &truncated);
    if (r == 0) {
        const struct etl_logfile *lf = etl_file_header(f);
        etl_logfile_timebase(lf, &t->timebase);
        why = trace_incomplete_why(lf, truncated, n);
        lost = lf->events_lost || lf->buffers_lost;
        if (why)
            say("%s: incomplete: %s", path, why);
        if (lost)
            say("%s: %u events and %u buffers were lost", path, lf->events_lost, lf->buffers_lost);
        schemas_learn(f);
    }
    etl_file_free(f);
    if (r == -EBADMSG || r == -ENODATA) {
        say("%s: this is not an .etl file", path);
        return EXIT_ERROR;
    }
    if (r < 0) {
        say("%s: the file cannot be read: %s", path, strerror(-r));
        return r == -EACCES ? EXIT_DENIED : EXIT_ERROR;
    }
    t->path = path;
    t->names = names_new();
    t->image_ids = image_ids_new();
    if (!t->names || !t->image_ids) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    return why || lost ? EXIT_LOSS : EXIT_OK;
}

static int explain(const char *subject, ULONG code)
{
    const char *text = etw_winerror_text(code), *name = etw_winerror_name(code);

    if (code == ERROR_NOT_SUPPORTED)
        say("%s: the file uses something that cannot be read yet (%s)", subject, name);
    else
        say("%s: %s (%s)", subject, text ? text : "the file cannot be read",
            name ? name : "an unknown code");
    return code == ERROR_ACCESS_DENIED ? EXIT_DENIED : EXIT_ERROR;
}

static int open_traces(struct dump *d)
{
    for (size_t i = 0; i < d->n_files; i++) {
        EVENT_TRACE_LOGFILEA log = {0};

        log.LogFileName = (char *) d->files[i].path;
        log.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
        log.EventRecordCallback = on_event;
        log.Context = &d->files[i];
        d->handles[i] = OpenTraceA(&log);
        if (d->handles[i] == INVALID_PROCESSTRACE_HANDLE)
            return explain(d->files[i].path, GetLastError());
        d->n_open = i + 1;
    }
    return EXIT_OK;
}

/* Relative moments count from the first file's start. */
static void resolve_moments(struct dump *d, const struct moments *m)
{
    const struct etw_timebase *tb = &d->files[0].timebase;
    uint64_t start = etw_timebase_unix_ns(tb, tb->start_raw);

    d->since = m->since;
    d->until = m->until;
    if (m->since_relative && __builtin_add_overflow(m->since, start, &d->since))
        d->since = UINT64_MAX;
    if (m->until_relative && __builtin_add_overflow(m->until, start, &d->until))
        d->until = UINT64_MAX;
}

static int run(struct dump *d, const struct moments *m, char **paths)
{
    int code, result = EXIT_OK;

    for (size_t i = 0; i < d->n_files; i++) {
        code = read_header(paths[i], &d->files[i]);
        if (code != EXIT_OK && code != EXIT_LOSS)
            return code;
        if (code == EXIT_LOSS)
            result = EXIT_LOSS;
    }
    resolve_moments(d, m);
    code = open_traces(d);
    if (code != EXIT_OK)
        return code;
    if (!d->json && d->line.legend)
        emit_text_header(&d->out);
    the_dump = d;
    ULONG status = ProcessTrace(d->handles, (ULONG) d->n_files, NULL, NULL);
    if (status != ERROR_SUCCESS && !d->done)
        return explain(d->n_files == 1 ? paths[0] : "dump", status);
    return result;
}

static void dump_help(void)
{
    printf(
        "etwctl dump [OPTION]... FILE...\n"
        "The events of FILEs, in time order.\n"
        "      --provider P    only of this provider: a name or a GUID; may be repeated\n"
        "      --event E       only this event: NAME, PROVIDER/NAME or a number; repeated\n"
        "      --pid N,...     only about these processes\n"
        "      --tid N,...     only about these threads\n"
        "      --cpu N,...     only written on these processors\n"
        "      --since T       from then on: 2026-11-30T21:11:00.5Z, or 1.5s after the start\n"
        "      --until T       up to then\n"
        "      --limit N       at most so many\n"
        "      --tmf PATH      texts of WPP messages: a folder of GUID.tmf, or a file; repeated\n"
        "      --raw           with the data in hex and the stamp of the trace's clock\n"
        "      --json          one object a line\n"
        "      --no-legend, --help\n"
        "Exit code 4: events were lost, or a file is incomplete.\n");
}

enum {
    OPT_PROVIDER = OPT_VERB,
    OPT_EVENT,
    OPT_PID,
    OPT_TID,
    OPT_CPU,
    OPT_SINCE,
    OPT_UNTIL,
    OPT_LIMIT,
    OPT_RAW,
    OPT_CSV,
    OPT_XML,
    OPT_SYMBOLS,
    OPT_TMF,
};

static int append(const char ***list, size_t *n, const char *s)
{
    const char **more = reallocarray(*list, *n + 1, sizeof(*more));

    if (!more)
        return -ENOMEM;
    *list = more;
    (*list)[(*n)++] = s;
    return 0;
}

/* False: the verb ends with *ret_code. */
static bool take_option(struct dump *d, struct moments *m, int opt, int *ret_code)
{
    const char *name = NULL;
    int r = 0;

    switch (opt) {
    case OPT_JSON:
        d->json = true;
        break;
    case OPT_NO_LEGEND:
        d->line.legend = false;
        break;
    case OPT_RAW:
        d->line.raw = true;
        break;
    case OPT_PROVIDER:
        name = "--provider";
        r = append(&d->providers, &d->n_providers, optarg);
        break;
    case OPT_EVENT:
        name = "--event";
        r = append(&d->events, &d->n_events, optarg);
        break;
    case OPT_PID:
        name = "--pid";
        r = number_list_add(&d->pids, optarg);
        break;
    case OPT_TID:
        name = "--tid";
        r = number_list_add(&d->tids, optarg);
        break;
    case OPT_CPU:
        name = "--cpu";
        r = number_list_add(&d->cpus, optarg);
        break;
    case OPT_SINCE:
        name = "--since";
        r = parse_moment(optarg, &m->since, &m->since_relative);
        break;
    case OPT_UNTIL:
        name = "--until";
        r = parse_moment(optarg, &m->until, &m->until_relative);
        break;
    case OPT_LIMIT:
        name = "--limit";
        r = parse_u64(optarg, &d->limit);
        d->limited = true;
        break;
    case OPT_CSV:
        *ret_code = not_yet("dump", "--csv");
        return false;
    case OPT_XML:
        *ret_code = not_yet("dump", "--xml");
        return false;
    case OPT_SYMBOLS:
        *ret_code = not_yet("dump", "--symbols");
        return false;
    case OPT_TMF:
        *ret_code = messages_add(optarg);
        if (*ret_code != EXIT_OK)
            return false;
        break;
    case OPT_HELP:
    case 'h':
        dump_help();
        *ret_code = EXIT_OK;
        return false;
    default:
        *ret_code = usage_error("dump");
        return false;
    }
    if (r < 0) {
        *ret_code = bad_option("dump", name, optarg, r);
        return false;
    }
    return true;
}

int verb_dump(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"provider", required_argument, NULL, OPT_PROVIDER},
        {"event", required_argument, NULL, OPT_EVENT},
        {"pid", required_argument, NULL, OPT_PID},
        {"tid", required_argument, NULL, OPT_TID},
        {"cpu", required_argument, NULL, OPT_CPU},
        {"since", required_argument, NULL, OPT_SINCE},
        {"until", required_argument, NULL, OPT_UNTIL},
        {"limit", required_argument, NULL, OPT_LIMIT},
        {"raw", no_argument, NULL, OPT_RAW},
        {"csv", no_argument, NULL, OPT_CSV},
        {"xml", no_argument, NULL, OPT_XML},
        {"symbols", no_argument, NULL, OPT_SYMBOLS},
        {"tmf", required_argument, NULL, OPT_TMF},
        {0},
    };
    struct dump *d = calloc(1, sizeof(*d));
    struct moments m = {.until = UINT64_MAX};
    int opt, code = EXIT_OK;

    if (!d) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    d->line.legend = is_terminal(STDOUT_FILENO);
    while ((opt = getopt_long(argc, argv, "h", options, NULL)) >= 0)
        if (!take_option(d, &m, opt, &code))
            goto end;

    d->n_files = (size_t) (argc - optind);
    if (d->n_files == 0) {
        say("dump: a FILE is missing");
        code = usage_error("dump");
        goto end;
    }
    if (d->n_files > ETW_PROCESS_TRACE_HANDLES_MAX) {
        say("dump: at most %d files at once", ETW_PROCESS_TRACE_HANDLES_MAX);
        code = usage_error("dump");
        goto end;
    }
    d->files = calloc(d->n_files, sizeof(*d->files));
    d->handles = calloc(d->n_files, sizeof(*d->handles));
    if (!d->files || !d->handles || out_init(&d->out, STDOUT_FILENO) < 0) {
        say("not enough memory");
        code = EXIT_ERROR;
        goto end;
    }
    code = run(d, &m, argv + optind);
    int written = out_done(&d->out);
    if (written != EXIT_OK && (code == EXIT_OK || code == EXIT_LOSS))
        code = written;

end:
    if (!d->done)
        stop_reading(d);
    for (size_t i = 0; d->files && i < d->n_files; i++) {
        names_free(d->files[i].names);
        image_ids_free(d->files[i].image_ids);
    }
    schemas_clear();
    messages_clear();
    free(d->files);
    free(d->handles);
    number_list_clear(&d->pids);
    number_list_clear(&d->tids);
    number_list_clear(&d->cpus);
    free(d->providers);
    free(d->events);
    free(d);
    return code;
}
