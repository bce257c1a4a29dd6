/* SPDX-License-Identifier: Apache-2.0
 *
 * See tmf.h: reading. A file is lines:
 *
 *   GUID PROVIDER // SRC=...
 *   #typev NAME NUMBER "FORMAT" // LEVEL=... FLAGS=... FUNC=...
 *   {
 *   EXPRESSION, ItemTYPE(WORD,...) -- INDEX
 *   }
 *
 * Lines are cut in a copy of the file, and strings point into it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tmf.h"

/* WPP itself allows fewer; more are of a file made to hurt. */
#define MESSAGES_MAX (1u << 18)
#define ITEMS_MAX 256u
#define WORDS_MAX 4096u
#define FORMAT_MAX 16384u

static const struct {
    const char *name;
    uint8_t kind, size;
    bool is_signed, trimmed;
} types[] = {
    {"Char", TMF_INTEGER, 1, true, false},
    {"UChar", TMF_INTEGER, 1, false, false},
    {"CharSign", TMF_INTEGER, 1, true, false},
    {"CharShort", TMF_INTEGER, 1, true, false},
    {"CharHidden", TMF_INTEGER, 1, true, false},
    {"Short", TMF_INTEGER, 2, true, false},
    {"UShort", TMF_INTEGER, 2, false, false},
    {"Long", TMF_INTEGER, 4, true, false},
    {"ULong", TMF_INTEGER, 4, false, false},
    {"LongLong", TMF_INTEGER, 8, true, false},
    {"ULongLong", TMF_INTEGER, 8, false, false},
    {"LongLongX", TMF_INTEGER, 8, false, false},
    {"LongLongXX", TMF_INTEGER, 8, false, false},
    {"LongLongO", TMF_INTEGER, 8, false, false},
    {"Double", TMF_DOUBLE, 8, true, false},
    {"Ptr", TMF_POINTER, 0, false, false},
    {"String", TMF_TEXT8, 0, false, false},
    {"RString", TMF_TEXT8, 0, false, true},
    {"WString", TMF_TEXT16, 0, false, false},
    {"RWString", TMF_TEXT16, 0, false, true},
    {"PString", TMF_COUNTED8, 0, false, false},
    {"DSString", TMF_COUNTED8, 0, false, false},
    {"PWString", TMF_COUNTED16, 0, false, false},
    {"UString", TMF_COUNTED16, 0, false, false},
    {"HEXDump", TMF_HEXDUMP, 0, false, false},
    {"HexDump", TMF_HEXDUMP, 0, false, false},
    {"Sid", TMF_SID, 0, false, false},
    {"Guid", TMF_GUID, 16, false, false},
    {"IPAddr", TMF_IPV4, 4, false, false},
    {"IPV6Addr", TMF_IPV6, 16, false, false},
    {"Port", TMF_PORT, 2, false, false},
    {"MACAddr", TMF_MAC, 6, false, false},
    {"HRESULT", TMF_HRESULT, 4, false, false},
    {"NTSTATUS", TMF_NTSTATUS, 4, false, false},
    {"WINERROR", TMF_WIN32, 4, false, false},
    {"NTerror", TMF_NTSTATUS, 4, false, false},
    {"Merror", TMF_WIN32, 4, false, false},
    {"ListByte", TMF_LIST, 1, false, false},
    {"ListShort", TMF_LIST, 2, false, false},
    {"ListLong", TMF_LIST, 4, false, false},
    {"SetByte", TMF_SET, 1, false, false},
    {"SetShort", TMF_SET, 2, false, false},
    {"SetLong", TMF_SET, 4, false, false},
    {"Timestamp", TMF_TIME, 8, false, false},
    {"TimeStamp", TMF_TIME, 8, false, false},
    {"DateTime", TMF_TIME, 8, false, false},
    {"TimeDelta", TMF_DELTA, 8, true, false},
    {"WaitTime", TMF_DELTA, 8, true, false},
};

struct tmf *tmf_free(struct tmf *t)
{
    if (!t)
        return NULL;
    for (uint32_t i = 0; i < t->n; i++)
        free(t->messages[i].items);
    free(t->messages);
    free(t->text);
    free(t);
    return NULL;
}

static char *skip_space(char *s)
{
    return s + strspn(s, " \t");
}

/* Cuts a word off; *rest goes behind it. */
static char *take_word(char **rest)
{
    char *word = skip_space(*rest), *end = word + strcspn(word, " \t");

    *rest = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

/* KEY=WORD in a remark; "" when it is not there. */
static const char *remark(char *s, const char *key)
{
    size_t n = strlen(key);
    char *p = s;

    while ((p = strstr(p, key))) {
        if (p == s || p[-1] == ' ' || p[-1] == '\t' || p[-1] == '\0')
            break;
        p += n;
    }
    return p ? p + n : "";
}

/* Remarks share a line: each ends at white space once all are found. */
static void cut_remarks(char *s)
{
    for (; *s; s++)
        if (*s == ' ' || *s == '\t')
            *s = '\0';
}

static bool take_number(const char *s, uint16_t *ret)
{
    char *end;
    unsigned long v = strtoul(s, &end, 10);

    if (end == s || (*end != '\0' && *end != ' ' && *end != '\t') || v > UINT16_MAX)
        return false;
    *ret = (uint16_t) v;
    return true;
}

/* A text in quotes, its escapes resolved in place; NULL: it does not end. */
static char *take_quoted(char **rest)
{
    char *s = skip_space(*rest), *to, *from;

    if (*s != '"')
        return NULL;
    to = from = s + 1;
    for (; *from && *from != '"'; from++) {
        if (*from == '\\' && from[1]) {
            from++;
            *to++ = (char) (*from == 'n' ? '\n' : *from == 't' ? '\t' : *from);
            continue;
        }
        *to++ = *from;
    }
    if (*from != '"')
        return NULL;
    *rest = from + 1;
    *to = '\0';
    return s + 1;
}

static struct tmf_message *take_message(struct tmf *t, char *line)
{
    struct tmf_message m = {.provider = "", .source = ""};
    char *rest = line;

    m.name = take_word(&rest);
    if (!*m.name || !take_number(take_word(&rest), &m.number))
        return NULL;
    m.format = take_quoted(&rest);
    if (!m.format || strlen(m.format) > FORMAT_MAX)
        return NULL;
    m.level = remark(rest, "LEVEL=");
    m.flags = remark(rest, "FLAGS=");
    m.function = remark(rest, "FUNC=");
    cut_remarks(rest);
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 64;
        struct tmf_message *more =
            t->n < MESSAGES_MAX ? reallocarray(t->messages, cap, sizeof(*more)) : NULL;
        if (!more)
            return NULL;
        t->messages = more;
        t->cap = cap;
    }
    t->messages[t->n] = m;
    return &t->messages[t->n++];
}

/* The last ", Item" of a line: what stands before is the program's expression. */
static char *type_of_line(char *line)
{
    char *found = NULL;

    for (char *p = line; (p = strstr(p, ", Item")); p += 2)
        found = p + 2 + 4;
    return found;
}

static int take_item(struct tmf_message *m, char *line)
{
    struct tmf_item item = {0};
    char *type = type_of_line(line), *dashes, *end, *words = NULL;
    size_t i, len;

    if (!type || m->n_items == ITEMS_MAX)
        return -EBADMSG;
    dashes = strstr(type, "--");
    if (!dashes || !take_number(skip_space(dashes + 2), &item.index))
        return -EBADMSG;
    *dashes = '\0';
    len = strcspn(type, " \t(");
    if (type[len] == '(') {
        words = type + len + 1;
        end = strrchr(words, ')');
        if (!end)
            return -EBADMSG;
        *end = '\0';
    }
    for (i = 0; i < ARRAY_SIZE(types); i++)
        if (strlen(types[i].name) == len && !memcmp(types[i].name, type, len))
            break;
    if (i == ARRAY_SIZE(types))
        return -EBADMSG;
    item.kind = types[i].kind;
    item.size = types[i].size;
    item.is_signed = types[i].is_signed;
    item.trimmed = types[i].trimmed;
    if (item.kind == TMF_LIST || item.kind == TMF_SET) {
        if (!words)
            return -EBADMSG;
        item.words = words;
        item.n_words = 1;
        for (; *words; words++)
            if (*words == ',') {
                *words = '\0';
                item.n_words++;
            }
        if (item.n_words > WORDS_MAX)
            return -EBADMSG;
    }
    /* No file needs an index twice. */
    for (i = 0; i < m->n_items; i++)
        if (m->items[i].index == item.index)
            return -EBADMSG;
    struct tmf_item *more = reallocarray(m->items, m->n_items + 1, sizeof(*more));
    if (!more)
        return -ENOMEM;
    m->items = more;
    m->items[m->n_items++] = item;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct tmf_message *x = a, *y = b;
    int r = memcmp(&x->guid, &y->guid, sizeof(x->guid));

    return r ? r : (x->number > y->number) - (x->number < y->number);
}

/* What the lines so far belong to. */
struct place {
    struct etw_guid guid;
    bool has_guid;
    const char *provider, *source;
    bool open;   /* a message is being read: the last one */
    bool inside; /* its braces */
};

static void message_drop(struct tmf *t)
{
    free(t->messages[--t->n].items);
}

static int take_line(struct tmf *t, struct place *at, char *line)
{
    char guid[37];
    int r;

    line = skip_space(line);
    if (at->inside && *line != '}') {
        r = at->open ? take_item(&t->messages[t->n - 1], line) : 0;
        if (r == -EBADMSG) {
            /* of a type that nobody knows: the message has no text */
            message_drop(t);
            at->open = false;
            r = 0;
        }
        return r;
    }
    if (*line == '{' || *line == '}') {
        at->inside = *line == '{';
        at->open = at->open && at->inside;
        return 0;
    }
    if (!strncmp(line, "#typev", 6) && (line[6] == ' ' || line[6] == '\t')) {
        struct tmf_message *m = at->has_guid ? take_message(t, line + 7) : NULL;
        at->open = m != NULL;
        if (m) {
            m->guid = at->guid;
            m->provider = at->provider;
            m->source = at->source;
        }
        return 0;
    }
    if (strlen(line) >= 36 && line[0] != '/') {
        memcpy(guid, line, 36);
        guid[36] = '\0';
        if (etw_guid_parse(guid, &at->guid) == 0) {
            char *rest = line + 36;
            at->has_guid = true;
            at->provider = take_word(&rest);
            at->source = remark(rest, "SRC=");
            cut_remarks(rest);
        }
    }
    return 0;
}

int tmf_read(const void *data, size_t size, struct tmf **ret)
{
    struct place at = {0};
    struct tmf *t;
    int r = 0;

    if (size == 0 || memchr(data, 0, size))
        return -EBADMSG;
    t = calloc(1, sizeof(*t));
    if (t)
        t->text = malloc(size + 1);
    if (!t || !t->text) {
        free(t);
        return -ENOMEM;
    }
    memcpy(t->text, data, size);
    t->text[size] = '\0';
    for (char *line = t->text, *next; line && r == 0; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        size_t n = strlen(line);
        if (n > 0 && line[n - 1] == '\r')
            line[n - 1] = '\0';
        r = take_line(t, &at, line);
    }
    if (r == 0 && !at.has_guid)
        r = -EBADMSG;
    if (r < 0) {
        (void) tmf_free(t);
        return r;
    }
    if (t->n > 0)
        qsort(t->messages, t->n, sizeof(*t->messages), compare);
    *ret = t;
    return 0;
}

const struct tmf_message *tmf_find(const struct tmf *t, const struct etw_guid *guid,
                                   uint16_t number)
{
    const struct tmf_message key = {.guid = *guid, .number = number};

    return t->n ? bsearch(&key, t->messages, t->n, sizeof(key), compare) : NULL;
}
