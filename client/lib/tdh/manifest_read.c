/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads an instrumentation manifest: libxml2 makes the tree, this file takes from it what decoding
 * needs. Elements are told by their local names. Nothing is loaded from elsewhere: no network, no
 * external entities. What a manifest refers to and does not define is its error, but for parts that
 * decoding does not need. Any thread.
 */
#include <errno.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "manifest.h"
#include "manifest_words.h"

#define PIECE_BYTES 65536u

struct piece {
    struct piece *next;
    size_t used, size;
    uint8_t data[] __attribute__((aligned(16)));
};

struct reader {
    struct manifest *m;
    const xmlNode *strings; /* the table of the language taken, or NULL */
    int error;              /* the first one; everything after it is idle */
    const char *why;
};

static void fail(struct reader *r, const char *why)
{
    if (r->error)
        return;
    r->error = -EBADMSG;
    r->why = why;
}

/* Zeroed memory of the manifest's; NULL: no memory, and the error is noted. */
static void *take(struct reader *r, size_t size)
{
    struct piece *p = r->m->pieces;

    size = (size + 15) & ~(size_t) 15;
    if (!p || p->size - p->used < size) {
        size_t room = size > PIECE_BYTES ? size : PIECE_BYTES;
        p = calloc(1, sizeof(*p) + room);
        if (!p) {
            if (!r->error)
                r->error = -ENOMEM;
            return NULL;
        }
        p->size = room;
        p->next = r->m->pieces;
        r->m->pieces = p;
    }
    void *at = p->data + p->used;
    p->used += size;
    return at;
}

static const char *keep(struct reader *r, const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = take(r, n);
    return copy ? memcpy(copy, s, n) : "";
}

struct manifest *manifest_free(struct manifest *m)
{
    if (!m)
        return NULL;
    while (m->pieces) {
        struct piece *p = m->pieces;
        m->pieces = p->next;
        free(p);
    }
    free(m);
    return NULL;
}

/* ---- the tree ---- */

static bool is(const xmlNode *n, const char *name)
{
    return n->type == XML_ELEMENT_NODE && strcmp((const char *) n->name, name) == 0;
}

static const xmlNode *child(const xmlNode *n, const char *name)
{
    for (n = n ? n->children : NULL; n; n = n->next)
        if (is(n, name))
            return n;
    return NULL;
}

/* Elements only; whatever their name with name NULL. */
static const xmlNode *next(const xmlNode *n, const char *name)
{
    for (; n; n = n->next)
        if (n->type == XML_ELEMENT_NODE && (!name || is(n, name)))
            return n;
    return NULL;
}

#define EACH(n, parent, name)                                                                      \
    for (const xmlNode *n = (parent) ? next((parent)->children, (name)) : NULL; n;                 \
         n = next(n->next, (name)))

static uint32_t count(const xmlNode *parent, const char *name)
{
    uint32_t n = 0;
    EACH(e, parent, name)
    n++;
    return n;
}

static void xml_freep(xmlChar **p)
{
    xmlFree(*p);
}
#define _cleanup_xml_ __attribute__((cleanup(xml_freep)))

/* An attribute's text in the manifest's memory; NULL: it is not there. */
static const char *attribute(struct reader *r, const xmlNode *n, const char *name)
{
    _cleanup_xml_ xmlChar *v = xmlGetNoNsProp(n, (const xmlChar *) name);
    return v ? keep(r, (const char *) v) : NULL;
}

/* A number in any base C has; `max` is what its field holds. */
static uint64_t number(struct reader *r, const xmlNode *n, const char *name, uint64_t fallback,
                       uint64_t max)
{
    _cleanup_xml_ xmlChar *v = xmlGetNoNsProp(n, (const xmlChar *) name);
    char *end;

    if (!v)
        return fallback;
    errno = 0;
    uint64_t value = strtoull((const char *) v, &end, 0);
    if (errno || end == (const char *) v || *end || value > max) {
        fail(r, "a number is not one, or too large");
        return fallback;
    }
    return value;
}

/* "$(string.ID)" from the table of strings, other texts as they are. */
static const char *message(struct reader *r, const xmlNode *n)
{
    static const char prefix[] = "$(string.";
    const char *s = attribute(r, n, "message");

    if (!s || strncmp(s, prefix, sizeof(prefix) - 1) != 0)
        return s;
    const char *id = s + sizeof(prefix) - 1;
    size_t len = strcspn(id, ")");
    EACH(e, r->strings, "string")
    {
        _cleanup_xml_ xmlChar *key = xmlGetNoNsProp(e, (const xmlChar *) "id");
        if (key && strlen((const char *) key) == len && memcmp(key, id, len) == 0)
            return attribute(r, e, "value");
    }
    return NULL;
}

/* ---- names with values ---- */

static struct named read_named(struct reader *r, const xmlNode *n, const char *value, uint64_t max)
{
    struct named v = {0};

    v.name = attribute(r, n, "name");
    if (!v.name)
        v.name = "";
    v.text = message(r, n);
    if (!v.text || !*v.text)
        v.text = v.name;
    v.value = number(r, n, value, 0, max);
    return v;
}

static void read_list(struct reader *r, const xmlNode *parent, const char *element,
                      const char *value, uint64_t max, struct named **ret, uint32_t *ret_n)
{
    uint32_t n = count(parent, element), i = 0;
    struct named *items = n ? take(r, n * sizeof(*items)) : NULL;

    if (!items)
        return;
    EACH(e, parent, element)
    items[i++] = read_named(r, e, value, max);
    *ret = items;
    *ret_n = i;
}

/* Numbers that the manifest leaves out begin at 16. */
static void read_channels(struct reader *r, const xmlNode *parent, struct provider *p)
{
    uint32_t n = count(parent, NULL), i = 0;
    struct named *items = n ? take(r, n * sizeof(*items)) : NULL;
    uint64_t own = 16;

    if (!items)
        return;
    EACH(e, parent, NULL)
    {
        struct named v = read_named(r, e, "value", UINT8_MAX);
        const char *id = attribute(r, e, "chid");
        if (is(e, "importChannel"))
            (void) manifest_word(WORD_CHANNEL, v.name, &v.value);
        else if (v.value == 0)
            v.value = own;
        own = v.value >= own ? v.value + 1 : own;
        if (id) /* what events call it by */
            v.name = id;
        items[i++] = v;
    }
    p->channels = items;
    p->n_channels = i;
}

static void read_opcodes(struct reader *r, const xmlNode *provider, struct provider *p)
{
    const xmlNode *all = child(provider, "opcodes"), *tasks = child(provider, "tasks");
    uint32_t n = count(all, "opcode"), i = 0;

    EACH(t, tasks, "task")
    n += count(child(t, "opcodes"), "opcode");
    if (n == 0)
        return;
    p->opcodes = take(r, n * sizeof(*p->opcodes));
    if (!p->opcodes)
        return;
    EACH(e, all, "opcode")
    p->opcodes[i++] = (struct opcode){read_named(r, e, "value", UINT8_MAX), OPCODE_ANY_TASK};
    EACH(t, tasks, "task")
    {
        uint32_t task = (uint32_t) number(r, t, "value", 0, UINT16_MAX);
        EACH(e, child(t, "opcodes"), "opcode")
        p->opcodes[i++] = (struct opcode){read_named(r, e, "value", UINT8_MAX), task};
    }
    p->n_opcodes = i;
}

static void read_map(struct reader *r, const xmlNode *n, struct map *ret)
{
    uint32_t entries = count(n, "map"), i = 0;

    ret->bitmap = is(n, "bitMap");
    ret->name = attribute(r, n, "name");
    if (!ret->name)
        ret->name = "";
    ret->entries = entries ? take(r, entries * sizeof(*ret->entries)) : NULL;
    if (!ret->entries)
        return;
    EACH(e, n, "map")
    {
        const char *text = message(r, e);
        ret->entries[i++] =
            (struct map_entry){(uint32_t) number(r, e, "value", 0, UINT32_MAX), text ? text : ""};
    }
    ret->n = i;
}

static void read_maps(struct reader *r, const xmlNode *parent, struct provider *p)
{
    uint32_t n = count(parent, "valueMap") + count(parent, "bitMap");

    p->maps = n ? take(r, n * sizeof(*p->maps)) : NULL;
    if (!p->maps)
        return;
    EACH(e, parent, NULL)
    if (is(e, "valueMap") || is(e, "bitMap"))
        read_map(r, e, &p->maps[p->n_maps++]);
}

/* ---- templates ---- */

/* "count" and "length": a number, or a property that stands before. */
static uint16_t reference(struct reader *r, const xmlNode *n, const char *name,
                          const struct template *t, uint32_t first, uint16_t fixed_flag,
                          uint16_t param_flag, uint16_t *flags)
{
    const char *v = attribute(r, n, name);
    char *end;

    if (!v)
        return 0;
    unsigned long value = strtoul(v, &end, 0);
    if (end != v && *end == '\0') {
        if (value > UINT16_MAX)
            fail(r, "a count or length is too large");
        *flags |= fixed_flag;
        return (uint16_t) value;
    }
    /* In the same struct first, then among the template's own. */
    for (uint32_t pass = 0; pass < 2; pass++) {
        uint32_t from = pass ? 0 : first, to = pass ? t->n_top : t->n;
        for (uint32_t i = from; i < to; i++)
            if (t->fields[i].name.length == strlen(v) &&
                memcmp(t->fields[i].name.utf8, v, strlen(v)) == 0) {
                *flags |= param_flag;
                return (uint16_t) i;
            }
    }
    fail(r, "a count or length names a field that is not there");
    return 0;
}

static void read_field(struct reader *r, const xmlNode *n, struct template *t, uint32_t first)
{
    struct field f = {.suffix = "", .count = 1};
    uint64_t value;

    const char *name = attribute(r, n, "name");
    f.name = text_of(name ? name : "");
    uint16_t counted =
        reference(r, n, "count", t, first, PropertyParamFixedCount, PropertyParamCount, &f.flags);
    if (f.flags & (PropertyParamFixedCount | PropertyParamCount))
        f.count = counted;
    if (is(n, "struct")) {
        f.flags |= PropertyStruct;
        t->fields[t->n++] = f;
        return;
    }
    f.length = reference(r, n, "length", t, first, PropertyParamFixedLength, PropertyParamLength,
                         &f.flags);
    const char *in = attribute(r, n, "inType");
    if (!in || !manifest_word(WORD_IN, in, &value)) {
        fail(r, "a field has no inType, or one that is not known");
        return;
    }
    f.in = (uint16_t) value;
    const char *out = attribute(r, n, "outType");
    f.out =
        out && manifest_word(WORD_OUT, out, &value) ? (uint16_t) value : manifest_default_out(f.in);
    const char *map = attribute(r, n, "map");
    f.map = text_of(map);
    t->fields[t->n++] = f;
}

static bool is_field(const xmlNode *n)
{
    return is(n, "data") || is(n, "struct");
}

static void read_template(struct reader *r, const xmlNode *n, struct template *t)
{
    uint32_t total = 0, top = 0;

    EACH(e, n, NULL)
    {
        if (!is_field(e))
            continue;
        total += 1 + (is(e, "struct") ? count(e, "data") : 0);
    }
    if (total > UINT16_MAX) {
        fail(r, "a template has more than 65535 fields");
        return;
    }
    t->id = attribute(r, n, "tid");
    t->fields = total ? take(r, total * sizeof(*t->fields)) : NULL;
    if (!t->fields)
        return;
    EACH(e, n, NULL)
    if (is_field(e) && !r->error)
        read_field(r, e, t, 0);
    t->n_top = t->n;
    EACH(e, n, NULL)
    {
        if (!is_field(e) || r->error)
            continue;
        if (is(e, "struct")) {
            uint32_t first = t->n;
            EACH(m, e, "data")
            if (!r->error)
                read_field(r, m, t, first);
            t->fields[top].first = (uint16_t) first;
            t->fields[top].members = (uint16_t) (t->n - first);
        }
        top++;
    }
}

/* ---- events ---- */

static bool find_named(const struct named *items, uint32_t n, const char *name, uint64_t *ret)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(items[i].name, name) == 0) {
            *ret = items[i].value;
            return true;
        }
    return false;
}

static uint64_t defined(struct reader *r, const xmlNode *n, const char *name,
                        const struct named *items, uint32_t count_, enum word_kind kind)
{
    const char *v = attribute(r, n, name);
    uint64_t value;

    if (!v || !*v)
        return 0;
    if (find_named(items, count_, v, &value) || manifest_word(kind, v, &value))
        return value;
    fail(r, "an event refers to a level, task or channel that is not there");
    return 0;
}

static uint8_t opcode_of(struct reader *r, const xmlNode *n, const struct provider *p,
                         uint16_t task)
{
    const char *v = attribute(r, n, "opcode");
    uint64_t value = 0;

    if (!v || !*v)
        return 0;
    /* One of its task is meant before one of all. */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < p->n_opcodes; i++)
            if (p->opcodes[i].task == (pass ? OPCODE_ANY_TASK : task) &&
                strcmp(p->opcodes[i].named.name, v) == 0)
                return (uint8_t) p->opcodes[i].named.value;
    if (!manifest_word(WORD_OPCODE, v, &value))
        fail(r, "an event refers to an opcode that is not there");
    return (uint8_t) value;
}

/* Names with spaces between. */
static uint64_t keywords_of(struct reader *r, const xmlNode *n, const struct provider *p)
{
    const char *v = attribute(r, n, "keywords");
    uint64_t all = 0, value;

    while (v && *v) {
        size_t len = strcspn(v, " \t\r\n");
        char name[256];
        if (len > 0 && len < sizeof(name)) {
            memcpy(name, v, len);
            name[len] = '\0';
            if (find_named(p->keywords, p->n_keywords, name, &value) ||
                manifest_word(WORD_KEYWORD, name, &value))
                all |= value;
            else
                fail(r, "an event refers to a keyword that is not there");
        }
        v += len;
        v += strspn(v, " \t\r\n");
    }
    return all;
}

static void read_event(struct reader *r, const xmlNode *n, const struct provider *p,
                       struct event *ret)
{
    struct event e = {0};

    e.id = (uint16_t) number(r, n, "value", 0, UINT16_MAX);
    e.version = (uint8_t) number(r, n, "version", 0, UINT8_MAX);
    e.task = (uint16_t) defined(r, n, "task", p->tasks, p->n_tasks, WORD_TASK);
    e.level = (uint8_t) defined(r, n, "level", p->levels, p->n_levels, WORD_LEVEL);
    e.channel = (uint8_t) defined(r, n, "channel", p->channels, p->n_channels, WORD_CHANNEL);
    e.opcode = opcode_of(r, n, p, e.task);
    e.keywords = keywords_of(r, n, p);
    e.symbol = attribute(r, n, "symbol");
    e.message = message(r, n);
    const char *template = attribute(r, n, "template");
    for (uint32_t i = 0; template && *template && !e.template; i++) {
        if (i == p->n_templates) {
            fail(r, "an event refers to a template that is not there");
            return;
        }
        if (p->templates[i].id && strcmp(p->templates[i].id, template) == 0)
            e.template = &p->templates[i];
    }
    *ret = e;
}

static int by_id(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    int d = (int) x->id - (int) y->id;
    return d ? d : (int) x->version - (int) y->version;
}

static void read_provider(struct reader *r, const xmlNode *n, struct provider *p)
{
    const char *guid = attribute(r, n, "guid");

    p->name = attribute(r, n, "name");
    if (!p->name || !guid || etw_guid_parse(guid, &p->guid) < 0) {
        fail(r, "a provider has no name, or no GUID");
        return;
    }
    p->message = message(r, n);
    read_list(r, child(n, "levels"), "level", "value", UINT8_MAX, &p->levels, &p->n_levels);
    read_list(r, child(n, "tasks"), "task", "value", UINT16_MAX, &p->tasks, &p->n_tasks);
    read_list(r, child(n, "keywords"), "keyword", "mask", UINT64_MAX, &p->keywords, &p->n_keywords);
    read_channels(r, child(n, "channels"), p);
    read_opcodes(r, n, p);
    read_maps(r, child(n, "maps"), p);

    const xmlNode *templates = child(n, "templates"), *events = child(n, "events");
    uint32_t count_ = count(templates, "template");
    p->templates = count_ ? take(r, count_ * sizeof(*p->templates)) : NULL;
    if (p->templates)
        EACH(e, templates, "template")
    if (!r->error)
        read_template(r, e, &p->templates[p->n_templates++]);
    count_ = count(events, "event");
    p->events = count_ ? take(r, count_ * sizeof(*p->events)) : NULL;
    if (p->events)
        EACH(e, events, "event")
    if (!r->error)
        read_event(r, e, p, &p->events[p->n_events++]);
    if (p->n_events > 1)
        qsort(p->events, p->n_events, sizeof(*p->events), by_id);
}

const struct event *provider_event(const struct provider *p, uint16_t id, uint8_t version)
{
    struct event key = {.id = id, .version = version};
    return p->n_events ? bsearch(&key, p->events, p->n_events, sizeof(key), by_id) : NULL;
}

const struct map *provider_map(const struct provider *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_maps; i++)
        if (strcmp(p->maps[i].name, name) == 0)
            return &p->maps[i];
    return NULL;
}

/* English where there is a choice: texts are compared by programs. */
static const xmlNode *choose_strings(const xmlNode *root)
{
    const xmlNode *first = NULL;

    EACH(e, child(root, "localization"), "resources")
    {
        _cleanup_xml_ xmlChar *culture = xmlGetNoNsProp(e, (const xmlChar *) "culture");
        const xmlNode *table = child(e, "stringTable");
        if (culture && strncmp((const char *) culture, "en", 2) == 0)
            return table;
        if (!first)
            first = table;
    }
    return first;
}

static void read_tree(struct reader *r, const xmlNode *root)
{
    if (!root || !is(root, "instrumentationManifest")) {
        fail(r, "it has no instrumentationManifest");
        return;
    }
    const xmlNode *events = child(child(root, "instrumentation"), "events");
    uint32_t n = count(events, "provider");
    if (n == 0) {
        fail(r, "it has no provider");
        return;
    }
    r->strings = choose_strings(root);
    r->m->providers = take(r, n * sizeof(*r->m->providers));
    if (!r->m->providers)
        return;
    EACH(e, events, "provider")
    if (!r->error)
        read_provider(r, e, &r->m->providers[r->m->n_providers++]);
}

static void xml_begin(void)
{
    xmlInitParser();
}

int manifest_read(const void *xml, size_t size, struct manifest **ret, const char **ret_why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct reader r = {0};

    if (size == 0 || size > ETW_MANIFEST_MAX) {
        *ret_why = "it is empty, or too large";
        return -EBADMSG;
    }
    (void) pthread_once(&once, xml_begin);
    xmlDoc *doc = xmlReadMemory(xml, (int) size, NULL, NULL,
                                XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |
                                    XML_PARSE_NOBLANKS | XML_PARSE_COMPACT);
    if (!doc) {
        *ret_why = "it is not well-formed XML";
        return -EBADMSG;
    }
    r.m = calloc(1, sizeof(*r.m));
    if (r.m)
        read_tree(&r, xmlDocGetRootElement(doc));
    else
        r.error = -ENOMEM;
    xmlFreeDoc(doc);
    if (r.error) {
        manifest_free(r.m);
        *ret_why = r.error == -ENOMEM ? "no memory" : r.why;
        return r.error;
    }
    *ret = r.m;
    return 0;
}
