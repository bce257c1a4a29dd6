/* SPDX-License-Identifier: Apache-2.0
 *
 * providers: who has registered, and who enabled them; and the providers of one session, for show
 * and list. One thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <evntcons.h>

#include "base/cleanup.h"
#include "etwctl.h"
#include "options.h"
#include "output.h"
#include "providers.h"

static struct json_object *filters_json(const Etwd__ProviderEnable *e)
{
    struct json_object *a = json_object_new_array();

    for (size_t i = 0; a && i < e->n_filters; i++)
        json_object_array_add(a, json_text(e->filters[i]));
    return a;
}

static struct json_object *guid_json(const Etwd__Provider *p)
{
    return p->guid.len == 16 ? json_guid(p->guid.data) : NULL;
}

static struct json_object *name_json(const Etwd__Provider *p)
{
    return p->name[0] ? json_text(p->name) : NULL;
}

static void add_wish(struct json_object *o, const Etwd__ProviderEnable *e)
{
    json_object_object_add(o, "level", json_u64(e->level));
    json_object_object_add(o, "any", json_hex(e->any));
    json_object_object_add(o, "all", json_hex(e->all));
    json_object_object_add(
        o, "stack",
        json_object_new_boolean((e->properties & EVENT_ENABLE_PROPERTY_STACK_TRACE) != 0));
    json_object_object_add(o, "filters", filters_json(e));
}

/* "level 4, any 0x10, all 0x10, pid 12" */
static void wish_text(struct out *o, const Etwd__ProviderEnable *e)
{
    if (e->level < 255)
        out_printf(o, "level %u", e->level);
    else
        out_str(o, "all levels");
    if (e->any)
        out_printf(o, ", any 0x%" PRIx64, e->any);
    if (e->all)
        out_printf(o, ", all 0x%" PRIx64, e->all);
    for (size_t i = 0; i < e->n_filters; i++) {
        out_str(o, ", ");
        out_escaped(o, e->filters[i], strlen(e->filters[i]), 0);
    }
}

/* ---- of a session ---- */

static int session_json_one(const Etwd__Provider *p, void *userdata)
{
    for (size_t i = 0; i < p->n_enables; i++) {
        struct json_object *o = json_object_new_object();
        if (!o)
            return EXIT_ERROR;
        json_object_object_add(o, "guid", guid_json(p));
        json_object_object_add(o, "name", name_json(p));
        add_wish(o, p->enables[i]);
        json_object_array_add(userdata, o);
    }
    return 0;
}

int session_providers_json(struct conn *c, uint64_t handle, struct json_object **ret)
{
    struct json_object *a = json_object_new_array();
    int r;

    if (!a) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    r = providers_each(c, 0, handle, session_json_one, a);
    if (r != EXIT_OK) {
        json_object_put(a);
        return r;
    }
    *ret = a;
    return EXIT_OK;
}

static int session_text_one(const Etwd__Provider *p, void *userdata)
{
    struct out *o = userdata;
    char guid[ETW_GUID_STRING_MAX];
    struct etw_guid g;

    if (p->guid.len != sizeof(g))
        return 0;
    memcpy(&g, p->guid.data, sizeof(g));
    for (size_t i = 0; i < p->n_enables; i++) {
        out_printf(o, "%22s: %s ", "provider", etw_guid_format(&g, guid));
        out_escaped(o, p->name, strlen(p->name), 0);
        out_str(o, p->name[0] ? " (" : "(");
        wish_text(o, p->enables[i]);
        out_str(o, ")\n");
    }
    return 0;
}

int session_providers_text(struct conn *c, uint64_t handle, struct out *o)
{
    return providers_each(c, 0, handle, session_text_one, o);
}

/* ---- all ---- */

struct listing {
    struct json_object *array;
    struct table *table;
    bool by_pid; /* those of one process: registered ones only */
};

static struct json_object *instances_json(const Etwd__Provider *p)
{
    struct json_object *a = json_object_new_array();

    for (size_t i = 0; a && i < p->n_instances; i++) {
        const Etwd__ProviderInstance *in = p->instances[i];
        struct json_object *o = json_object_new_object();
        if (!o)
            break;
        json_object_object_add(o, "pid", json_u64(in->pid));
        json_object_object_add(o, "uid", json_u64(in->uid));
        json_object_object_add(o, "image", in->image[0] ? json_text(in->image) : NULL);
        json_object_object_add(o, "registrations", json_u64(in->registrations));
        json_object_array_add(a, o);
    }
    return a;
}

static struct json_object *enables_json(const Etwd__Provider *p)
{
    struct json_object *a = json_object_new_array();

    for (size_t i = 0; a && i < p->n_enables; i++) {
        struct json_object *o = json_object_new_object();
        if (!o)
            break;
        json_object_object_add(o, "session", json_text(p->enables[i]->session));
        json_object_object_add(o, "handle", json_u64(p->enables[i]->handle));
        add_wish(o, p->enables[i]);
        json_object_array_add(a, o);
    }
    return a;
}

/* A list for people, cut after a few: "12 sshd, 13 nginx, +4". */
#define SHOWN 4u

static char *instances_text(const Etwd__Provider *p)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    for (size_t i = 0; i < p->n_instances && i < SHOWN; i++) {
        const char *slash = strrchr(p->instances[i]->image, '/');
        fprintf(f, "%s%u %s", i ? ", " : "", p->instances[i]->pid,
                slash ? slash + 1 : p->instances[i]->image);
    }
    if (p->n_instances > SHOWN)
        fprintf(f, ", +%zu", p->n_instances - SHOWN);
    if (p->n_instances == 0)
        fputs("-", f);
    return fclose(f) == 0 ? text : NULL;
}

static char *enables_text(const Etwd__Provider *p)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    for (size_t i = 0; i < p->n_enables; i++)
        fprintf(f, "%s%s", i ? ", " : "", p->enables[i]->session);
    if (p->n_enables == 0)
        fputs("-", f);
    return fclose(f) == 0 ? text : NULL;
}

static int list_one(const Etwd__Provider *p, void *userdata)
{
    struct listing *l = userdata;
    char guid[ETW_GUID_STRING_MAX];
    struct etw_guid g;

    if (p->guid.len != sizeof(g))
        return 0;
    if (l->array) {
        struct json_object *o = json_object_new_object();
        if (!o)
            return EXIT_ERROR;
        json_object_object_add(o, "guid", guid_json(p));
        json_object_object_add(o, "name", name_json(p));
        json_object_object_add(o, "instances", instances_json(p));
        json_object_object_add(o, "enables", enables_json(p));
        return json_object_array_add(l->array, o) < 0 ? EXIT_ERROR : 0;
    }
    _cleanup_free_ char *instances = instances_text(p), *enables = enables_text(p);
    memcpy(&g, p->guid.data, sizeof(g));
    if (!instances || !enables || table_cell(l->table, "%s", etw_guid_format(&g, guid)) < 0 ||
        table_cell(l->table, "%s", p->name[0] ? p->name : "-") < 0 ||
        table_cell(l->table, "%s", instances) < 0 || table_cell(l->table, "%s", enables) < 0)
        return EXIT_ERROR;
    return 0;
}

static int print(struct listing *l, struct conn *c, uint32_t pid, bool legend)
{
    struct out o;
    int r;

    if ((!l->array && !l->table) || out_init(&o, STDOUT_FILENO) < 0) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    r = providers_each(c, pid, 0, list_one, l);
    if (r == EXIT_OK && l->array)
        out_json(&o, l->array);
    else if (r == EXIT_OK)
        table_print(l->table, &o, legend);
    int written = out_done(&o);
    return r != EXIT_OK ? r : written;
}

enum { OPT_PID = OPT_VERB };

int verb_providers(int argc, char **argv)
{
    static const char *const columns[] = {"GUID", "NAME", "PROCESSES", "ENABLED BY"};
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"pid", required_argument, NULL, OPT_PID},
        {0},
    };
    _cleanup_conn_ struct conn c = CONN_INIT;
    struct listing l = {0};
    bool json = false, legend = true;
    uint32_t pid = 0;
    int opt, r;

    while ((opt = getopt_long(argc, argv, "h", options, NULL)) >= 0)
        switch (opt) {
        case OPT_JSON:
            json = true;
            break;
        case OPT_NO_LEGEND:
            legend = false;
            break;
        case OPT_PID:
            r = parse_u32(optarg, &pid);
            if (r == 0 && (pid == 0 || pid > INT32_MAX))
                r = -ERANGE;
            if (r < 0)
                return bad_option(argv[0], "--pid", optarg, r);
            break;
        case OPT_HELP:
        case 'h':
            printf("etwctl providers [--pid N] [--json] [--no-legend]\n"
                   "Providers that programs have registered, and the sessions that enabled them.\n"
                   "      --pid N  only those of this process\n");
            return EXIT_OK;
        default:
            return usage_error(argv[0]);
        }
    if (optind < argc) {
        say("providers: takes no arguments");
        return usage_error(argv[0]);
    }
    r = conn_open_or_say(&c);
    if (r != EXIT_OK)
        return r;
    if (json)
        l.array = json_object_new_array();
    else
        l.table = table_new(columns, ARRAY_SIZE(columns));
    r = print(&l, &c, pid, legend && is_terminal(STDOUT_FILENO));
    json_object_put(l.array);
    table_free(l.table);
    return r;
}
