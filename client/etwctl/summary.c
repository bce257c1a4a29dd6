/* SPDX-License-Identifier: Apache-2.0
 *
 * summary: header, counts and losses of files. Reads them directly: every record of every header
 * kind counts, in whatever order. Needs no daemon. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf16.h"
#include "decode.h"
#include "etl/file.h"
#include "etl/tracelogging.h"
#include "etwctl.h"
#include "options.h"

/* One line of `counts`. */
struct group {
    enum kind kind;
    bool has_guid;
    struct etw_guid guid;
    uint16_t id;
    uint8_t version;
    uint8_t opcode;
    uint16_t hook;
    uint16_t message;
    char *name;  /* provider's, NULL: unknown */
    char *event; /* NULL: unknown */
    uint64_t count;
};

struct summary {
    const char *path;
    struct etl_file *file;
    const struct etl_logfile *lf;
    struct etw_timebase timebase;
    char *logger_name;
    char *log_file_name;
    char *machine;
    bool truncated;
    uint64_t damaged; /* buffers that are not all there, or end in garbage */
    uint64_t buffers;
    uint64_t compressed;
    uint64_t events;
    bool has_time;
    uint64_t first_raw;
    uint64_t last_raw;
    struct group *groups; /* open addressing over `slots` */
    size_t n_groups;
    size_t groups_room;
    uint32_t *slots; /* index + 1 */
    size_t slots_room;
};

static void summary_clear(struct summary *s)
{
    for (size_t i = 0; i < s->n_groups; i++) {
        free(s->groups[i].name);
        free(s->groups[i].event);
    }
    free(s->groups);
    free(s->slots);
    free(s->logger_name);
    free(s->log_file_name);
    free(s->machine);
    etl_file_free(s->file);
    *s = (struct summary){0};
}

/* A group's key while an event is looked at: names are not terminated and belong to the event. */
struct key {
    struct group g;
    const char *name;
    uint32_t name_len;
    const char *event;
    uint32_t event_len;
};

static uint32_t hash_bytes(uint32_t h, const void *data, size_t len)
{
    const uint8_t *p = data;

    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 16777619u;
    return h;
}

static uint32_t key_hash(const struct key *k)
{
    uint32_t numbers[] = {k->g.kind, k->g.id, k->g.version, k->g.opcode, k->g.hook, k->g.message};
    uint32_t h = hash_bytes(2166136261u, &k->g.guid, sizeof(k->g.guid));

    h = hash_bytes(h, numbers, sizeof(numbers));
    return k->g.kind == KIND_TRACELOGGING ? hash_bytes(h, k->event, k->event_len) : h;
}

static bool text_is(const char *s, const char *other, uint32_t len)
{
    if (!s || !other)
        return !s && !other;
    return strlen(s) == len && !memcmp(s, other, len);
}

static bool key_is(const struct key *k, const struct group *g)
{
    return g->kind == k->g.kind && g->id == k->g.id && g->version == k->g.version &&
           g->opcode == k->g.opcode && g->hook == k->g.hook && g->message == k->g.message &&
           g->has_guid == k->g.has_guid && etw_guid_equal(&g->guid, &k->g.guid) &&
           text_is(g->name, k->name, k->name_len) && text_is(g->event, k->event, k->event_len);
}

static int slots_grow(struct summary *s)
{
    size_t room = s->slots_room ? s->slots_room * 2 : 256;
    uint32_t *slots = calloc(room, sizeof(*slots));

    if (!slots)
        return -ENOMEM;
    free(s->slots);
    s->slots = slots;
    s->slots_room = room;
    for (size_t i = 0; i < s->n_groups; i++) {
        const struct group *g = &s->groups[i];
        struct key k = {.g = *g, .event = g->event};
        k.event_len = g->event ? (uint32_t) strlen(g->event) : 0;
        size_t at = key_hash(&k) & (room - 1);
        while (slots[at])
            at = (at + 1) & (room - 1);
        slots[at] = (uint32_t) i + 1;
    }
    return 0;
}

static int group_count(struct summary *s, const struct key *k)
{
    if (s->n_groups * 2 >= s->slots_room && slots_grow(s) < 0)
        return -ENOMEM;
    size_t at = key_hash(k) & (s->slots_room - 1);
    for (; s->slots[at]; at = (at + 1) & (s->slots_room - 1)) {
        struct group *g = &s->groups[s->slots[at] - 1];
        if (key_is(k, g)) {
            g->count++;
            return 0;
        }
    }
    if (s->n_groups == s->groups_room) {
        size_t room = s->groups_room ? s->groups_room * 2 : 64;
        struct group *more = reallocarray(s->groups, room, sizeof(*more));
        if (!more)
            return -ENOMEM;
        s->groups = more;
        s->groups_room = room;
    }
    struct group g = k->g;
    g.count = 1;
    g.name = k->name ? strndup(k->name, k->name_len) : NULL;
    g.event = k->event ? strndup(k->event, k->event_len) : NULL;
    if ((k->name && !g.name) || (k->event && !g.event)) {
        free(g.name);
        free(g.event);
        return -ENOMEM;
    }
    s->groups[s->n_groups++] = g;
    s->slots[at] = (uint32_t) s->n_groups;
    return 0;
}

static void key_names_of_class(struct key *k, const struct etl_event *e)
{
    const struct etl_class_row *row;
    const char *name;

    if (!k->g.has_guid)
        return;
    name = provider_name(&k->g.guid);
    if (name) {
        k->name = name;
        k->name_len = (uint32_t) strlen(name);
    }
    row = etl_find_any_row(&k->g.guid, e->opcode, e->version);
    if (row) {
        k->event = row->event_name;
        k->event_len = (uint32_t) strlen(row->event_name);
    }
}

/* Names of a self-describing event, from its extended items. */
static void key_names_of_items(struct key *k, const struct etl_event *e, struct etl_tl *tl)
{
    struct etl_item item;
    uint32_t pos = 0, len;
    const char *name;

    while (etl_item_next(e, &pos, &item) > 0) {
        if (item.type == ETL_ITEM_PROV_TRAITS &&
            etl_tl_provider_name(item.data, item.size, &name, &len) == 0 && len > 0) {
            k->name = name;
            k->name_len = len;
        } else if (item.type == ETL_ITEM_EVENT_SCHEMA_TL &&
                   etl_tl_init(tl, item.data, item.size, e->data, e->data_size, e->pointer_size) ==
                       0) {
            k->event = tl->event_name;
            k->event_len = tl->event_name_len;
        }
    }
    if (!k->name) {
        name = provider_name(&k->g.guid);
        if (name) {
            k->name = name;
            k->name_len = (uint32_t) strlen(name);
        }
    }
}

static char *tl_text(const struct etl_tl_value *v)
{
    return v->kind == ETL_TL_IS_UTF8 ? strndup((const char *) v->data, v->size) : NULL;
}

/* "Debian GNU/Linux 12 (bookworm), Linux 6.1.0 x86_64" of our own MachineInfo event. */
static void take_machine(struct summary *s, struct etl_tl tl)
{
    _cleanup_free_ char *sys = NULL, *release = NULL, *machine = NULL, *os = NULL;
    struct etl_tl_value v;

    while (etl_tl_next(&tl, &v) == ETL_TL_VALUE) {
        if (v.name_len == 7 && !memcmp(v.name, "SysName", 7) && !sys)
            sys = tl_text(&v);
        else if (v.name_len == 7 && !memcmp(v.name, "Release", 7) && !release)
            release = tl_text(&v);
        else if (v.name_len == 7 && !memcmp(v.name, "Machine", 7) && !machine)
            machine = tl_text(&v);
        else if (v.name_len == 6 && !memcmp(v.name, "OsName", 6) && !os)
            os = tl_text(&v);
    }
    if (asprintf(&s->machine, "%s%s%s %s %s", os ? os : "", os ? ", " : "", sys ? sys : "",
                 release ? release : "", machine ? machine : "") < 0)
        s->machine = NULL;
}

static int count_event(struct summary *s, const struct etl_event *e)
{
    struct key k = {0};
    struct etl_tl tl = {0};

    k.g.kind = kind_of_event(e);
    k.g.has_guid = e->has_guid;
    if (e->has_guid)
        k.g.guid = e->guid;
    switch (k.g.kind) {
    case KIND_SYSTEM: {
        const struct etw_guid *class_guid = etl_hook_guid(e->group, e->opcode);
        k.g.hook = etl_event_hook(e);
        k.g.has_guid = class_guid && !etw_guid_is_null(class_guid);
        k.g.guid = k.g.has_guid ? *class_guid : (struct etw_guid){0};
        k.g.opcode = e->opcode;
        k.g.version = e->version;
        key_names_of_class(&k, e);
        break;
    }
    case KIND_CLASSIC:
        k.g.opcode = e->opcode;
        k.g.version = e->version;
        key_names_of_class(&k, e);
        break;
    case KIND_MESSAGE:
        k.g.message = e->message_number;
        break;
    default:
        k.g.id = e->descriptor.id;
        k.g.version = e->descriptor.version;
        k.g.opcode = e->descriptor.opcode;
        key_names_of_items(&k, e, &tl);
        if (!s->machine && k.event && k.event_len == 11 && !memcmp(k.event, "MachineInfo", 11) &&
            etw_guid_equal(&k.g.guid, &etl_rows[ETL_ROW_LinuxEtwd_MachineInfo].guid))
            take_machine(s, tl);
        break;
    }
    s->events++;
    if (e->has_time) {
        if (!s->has_time || e->time_stamp < s->first_raw)
            s->first_raw = e->time_stamp;
        if (!s->has_time || e->time_stamp > s->last_raw)
            s->last_raw = e->time_stamp;
        s->has_time = true;
    }
    return group_count(s, &k);
}

/* Counts everything. 0, -ENOMEM, -errno of read. */
static int count_file(struct summary *s)
{
    const struct etl_buffer_ref *refs;
    _cleanup_free_ void *buf = NULL;
    size_t n;
    int r;

    r = etl_file_index(s->file, &refs, &n, &s->truncated);
    if (r < 0)
        return r;
    size_t size = etl_file_buffer_bytes(s->file);
    buf = malloc(size);
    if (!buf)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct etl_buffer_info info;
        struct etl_iter it;
        struct etl_event e;
        size_t len;

        s->buffers++;
        if (refs[i].flags & ETL_BUFFER_COMPRESSED)
            s->compressed++;
        r = etl_file_read_buffer(s->file, &refs[i], buf, size, &info, &len);
        if (r == -EBADMSG || r == -ENOBUFS) {
            s->damaged++;
            continue;
        }
        if (r < 0)
            return r;
        etl_iter_init(&it, buf, len, info.end);
        while (etl_iter_next(&it, &e) > 0) {
            r = count_event(s, &e);
            if (r < 0)
                return r;
        }
        if (it.error || len < info.end)
            s->damaged++;
    }
    return 0;
}

static int by_count(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    int r = memcmp(&x->guid, &y->guid, sizeof(x->guid));
    if (r != 0)
        return r;
    if (x->hook != y->hook)
        return x->hook < y->hook ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->message != y->message)
        return x->message < y->message ? -1 : 1;
    return x->opcode != y->opcode ? (x->opcode < y->opcode ? -1 : 1)
                                  : (int) x->version - (int) y->version;
}

/* Reads path. EXIT_OK or an exit code after a message. */
static int summary_read(const char *path, struct summary *s)
{
    _cleanup_close_ int fd = -1;
    int r;

    s->path = path;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    r = fd < 0 ? -errno : etl_file_open_fd(fd, &s->file);
    if (r == -EBADMSG || r == -ENODATA) {
        say("%s: this is not an .etl file", path);
        return EXIT_ERROR;
    }
    if (r == 0) {
        s->lf = etl_file_header(s->file);
        etl_logfile_timebase(s->lf, &s->timebase);
        s->logger_name = etw_utf16_dup_utf8(s->lf->logger_name, s->lf->logger_name_len);
        s->log_file_name = etw_utf16_dup_utf8(s->lf->log_file_name, s->lf->log_file_name_len);
        r = s->logger_name && s->log_file_name ? count_file(s) : -ENOMEM;
    }
    if (r < 0) {
        say("%s: the file cannot be read: %s", path, strerror(-r));
        return r == -EACCES ? EXIT_DENIED : EXIT_ERROR;
    }
    if (s->n_groups > 0)
        qsort(s->groups, s->n_groups, sizeof(*s->groups), by_count);
    return EXIT_OK;
}

const char *trace_incomplete_why(const struct etl_logfile *lf, bool truncated, uint64_t buffers)
{
    if (truncated)
        return "the file is cut short";
    if (lf->end_time == 0)
        return "the session was not closed";
    if (lf->buffers_written > buffers)
        return "the header tells of more buffers than there are";
    return NULL;
}

/* Why the file is not all there; NULL: it is. */
static const char *incomplete_why(const struct summary *s)
{
    const char *why = trace_incomplete_why(s->lf, s->truncated, s->buffers);

    return why ? why : s->damaged ? "buffers are damaged" : NULL;
}

static const char *clock_word(uint32_t type)
{
    return type == ETW_CLOCK_SYSTEM ? "system" : type == ETW_CLOCK_CYCLE ? "cycle" : "qpc";
}

static struct json_object *group_json(const struct group *g)
{
    struct json_object *o = json_object_new_object();
    bool message = g->kind == KIND_MESSAGE;
    bool modern = g->kind == KIND_EVENT || g->kind == KIND_TRACELOGGING;

    if (!o)
        return NULL;
    json_object_object_add(o, "kind", json_object_new_string(kind_name(g->kind)));
    json_object_object_add(o, "provider", g->has_guid ? json_guid(&g->guid) : NULL);
    json_object_object_add(o, "name", json_text(g->name));
    json_object_object_add(o, "event", json_text(g->event));
    json_object_object_add(o, "id", modern ? json_u64(g->id) : NULL);
    json_object_object_add(o, "version", message ? NULL : json_u64(g->version));
    json_object_object_add(o, "opcode", message ? NULL : json_u64(g->opcode));
    json_object_object_add(o, "hook", g->kind == KIND_SYSTEM ? json_u64(g->hook) : NULL);
    json_object_object_add(o, "message", message ? json_u64(g->message) : NULL);
    json_object_object_add(o, "count", json_u64(g->count));
    return o;
}

static struct json_object *summary_json(const struct summary *s)
{
    struct json_object *o = json_object_new_object(), *counts = json_object_new_array();
    char version[32];

    if (!o || !counts) {
        json_object_put(o);
        json_object_put(counts);
        return NULL;
    }
    for (size_t i = 0; i < s->n_groups; i++)
        json_object_array_add(counts, group_json(&s->groups[i]));
    (void) snprintf(version, sizeof(version), "%u.%u.%u", s->lf->version[0], s->lf->version[1],
                    s->lf->provider_version);
    uint64_t first = etw_timebase_filetime(&s->timebase, s->first_raw);
    uint64_t last = etw_timebase_filetime(&s->timebase, s->last_raw);
    char first_text[ETW_RFC3339_MAX], last_text[ETW_RFC3339_MAX];
    etw_rfc3339(etw_timebase_unix_ns(&s->timebase, s->first_raw), first_text);
    etw_rfc3339(etw_timebase_unix_ns(&s->timebase, s->last_raw), last_text);

    json_object_object_add(o, "file", json_text(s->path));
    json_object_object_add(o, "complete", json_object_new_boolean(!incomplete_why(s)));
    json_object_object_add(o, "incomplete_why", json_text(incomplete_why(s)));
    json_object_object_add(o, "buffers", json_u64(s->buffers));
    json_object_object_add(o, "buffer_size", json_u64(s->lf->buffer_size));
    json_object_object_add(o, "compressed_buffers", json_u64(s->compressed));
    json_object_object_add(o, "events", json_u64(s->events));
    json_object_object_add(o, "events_lost", json_u64(s->lf->events_lost));
    json_object_object_add(o, "buffers_lost", json_u64(s->lf->buffers_lost));
    json_object_object_add(o, "logger_name", json_text(s->logger_name));
    json_object_object_add(o, "log_file_name", json_text(s->log_file_name));
    json_object_object_add(o, "os_version", json_object_new_string(version));
    json_object_object_add(o, "machine", json_text(s->machine));
    json_object_object_add(o, "processors", json_u64(s->lf->processors));
    json_object_object_add(o, "pointer_size", json_u64(s->lf->pointer_size));
    json_object_object_add(o, "clock", json_object_new_string(clock_word(s->lf->clock_type)));
    json_object_object_add(o, "perf_frequency", json_u64(s->lf->perf_frequency));
    json_object_object_add(o, "start_time", json_filetime(s->lf->start_time));
    json_object_object_add(o, "end_time", json_filetime(s->lf->end_time));
    json_object_object_add(o, "first_event",
                           s->has_time ? json_object_new_string(first_text) : NULL);
    json_object_object_add(o, "last_event", s->has_time ? json_object_new_string(last_text) : NULL);
    json_object_object_add(o, "first_filetime", s->has_time ? json_u64(first) : NULL);
    json_object_object_add(o, "last_filetime", s->has_time ? json_u64(last) : NULL);
    json_object_object_add(o, "counts", counts);
    return o;
}

static void line(struct out *o, const char *label, const char *value)
{
    out_printf(o, "%12s: ", label);
    out_escaped(o, value, strlen(value), 0);
    out_char(o, '\n');
}

static int counts_text(const struct summary *s, struct out *o, bool legend)
{
    static const char *const columns[] = {"COUNT", "KIND", "PROVIDER", "EVENT", "VERSION"};
    struct table *t = table_new(columns, ARRAY_SIZE(columns));
    char guid[ETW_GUID_STRING_MAX];
    int r = t ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < s->n_groups; i++) {
        const struct group *g = &s->groups[i];
        r = table_cell(t, "%" PRIu64, g->count);
        if (r == 0)
            r = table_cell(t, "%s", kind_name(g->kind));
        if (r == 0)
            r = table_cell(t, "%s",
                           g->name       ? g->name
                           : g->has_guid ? etw_guid_format(&g->guid, guid)
                                         : "-");
        if (r == 0 && g->event)
            r = table_cell(t, "%s", g->event);
        else if (r == 0 && g->kind == KIND_MESSAGE)
            r = table_cell(t, "message %u", g->message);
        else if (r == 0 && (g->kind == KIND_EVENT || g->kind == KIND_TRACELOGGING))
            r = table_cell(t, "id %u opcode %u", g->id, g->opcode);
        else if (r == 0 && g->kind == KIND_SYSTEM)
            r = table_cell(t, "hook 0x%04x", g->hook);
        else if (r == 0)
            r = table_cell(t, "opcode %u", g->opcode);
        if (r == 0)
            r = g->kind == KIND_MESSAGE ? table_cell(t, "-") : table_cell(t, "%u", g->version);
    }
    if (r == 0) {
        table_align_right(t, 0);
        table_align_right(t, 4);
        table_print(t, o, legend);
    }
    table_free(t);
    return r;
}

static int summary_text(const struct summary *s, struct out *o, bool legend)
{
    const struct etl_logfile *lf = s->lf;
    const char *why = incomplete_why(s);
    char time[ETW_RFC3339_MAX];

    line(o, "file", s->path);
    line(o, "complete", why ? why : "yes");
    line(o, "session", s->logger_name);
    line(o, "written as", s->log_file_name);
    if (s->machine)
        line(o, "machine", s->machine);
    out_printf(o, "%12s: version %u.%u.%u, %u processors, %u-byte pointers\n", "system",
               lf->version[0], lf->version[1], lf->provider_version, lf->processors,
               lf->pointer_size);
    out_printf(o, "%12s: %s, %" PRIu64 " ticks a second\n", "clock", clock_word(lf->clock_type),
               lf->perf_frequency);
    line(o, "started", etw_rfc3339_filetime(lf->start_time, time));
    line(o, "ended", lf->end_time ? etw_rfc3339_filetime(lf->end_time, time) : "not closed");
    if (s->has_time) {
        line(o, "first event", etw_rfc3339(etw_timebase_unix_ns(&s->timebase, s->first_raw), time));
        line(o, "last event", etw_rfc3339(etw_timebase_unix_ns(&s->timebase, s->last_raw), time));
    }
    out_printf(o, "%12s: %" PRIu64 " of %u bytes", "buffers", s->buffers, lf->buffer_size);
    if (s->compressed)
        out_printf(o, ", %" PRIu64 " compressed", s->compressed);
    if (s->damaged)
        out_printf(o, ", %" PRIu64 " damaged", s->damaged);
    out_printf(o, ", %u lost\n", lf->buffers_lost);
    out_printf(o, "%12s: %" PRIu64 ", %u lost\n", "events", s->events, lf->events_lost);
    out_char(o, '\n');
    return counts_text(s, o, legend);
}

int verb_summary(int argc, char **argv)
{
    static const struct option options[] = {COMMON_OPTIONS, {0}};
    bool json = false, legend = is_terminal(STDOUT_FILENO);
    int opt, code = EXIT_OK;
    struct out o;

    while ((opt = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (opt == OPT_JSON)
            json = true;
        else if (opt == OPT_NO_LEGEND)
            legend = false;
        else if (opt == OPT_HELP || opt == 'h') {
            printf("etwctl summary [--json] [--no-legend] [--help] FILE...\n"
                   "Header, counts and losses of trace files; with --json one object a file.\n"
                   "Exit code 4: events were lost, or a file is incomplete.\n");
            return EXIT_OK;
        } else
            return usage_error(argv[0]);
    }
    if (optind >= argc) {
        say("summary: a FILE is missing");
        return usage_error(argv[0]);
    }
    if (out_init(&o, STDOUT_FILENO) < 0) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    /* An error of one file does not hide the others; the worst code wins, errors before loss. */
    for (int i = optind; i < argc && !o.error; i++) {
        struct summary s = {0};
        int r = summary_read(argv[i], &s);
        if (r == EXIT_OK) {
            if (json) {
                struct json_object *doc = summary_json(&s);
                if (doc)
                    out_json(&o, doc);
                else
                    r = EXIT_ERROR;
                json_object_put(doc);
            } else {
                if (i > optind)
                    out_char(&o, '\n');
                if (summary_text(&s, &o, legend) < 0)
                    r = EXIT_ERROR;
            }
            if (r != EXIT_OK)
                say("not enough memory");
            else if (incomplete_why(&s) || s.lf->events_lost || s.lf->buffers_lost)
                r = EXIT_LOSS;
        }
        if (r != EXIT_OK && (code == EXIT_OK || code == EXIT_LOSS))
            code = r;
        summary_clear(&s);
    }
    int written = out_done(&o);
    return code == EXIT_OK ? written : code;
}
