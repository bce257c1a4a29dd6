/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for people, and the pieces of JSON documents; see output.h. One thread.
 */
#include "output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"

bool is_terminal(int fd)
{
    return isatty(fd) == 1;
}

bool want_colour(int fd)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    if (no && *no)
        return false;
    return is_terminal(fd) && term && strcmp(term, "dumb") != 0;
}

struct table {
    size_t n_columns;
    const char *const *columns;
    bool *right;
    char **cells; /* row after row */
    size_t n_cells;
    size_t room;
};

struct table *table_new(const char *const *columns, size_t n_columns)
{
    struct table *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->columns = columns;
    t->n_columns = n_columns;
    t->right = calloc(n_columns, sizeof(*t->right));
    if (!t->right)
        return table_free(t);
    return t;
}

struct table *table_free(struct table *t)
{
    if (!t)
        return NULL;
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t->right);
    free(t);
    return NULL;
}

void table_align_right(struct table *t, size_t column)
{
    t->right[column] = true;
}

int table_cell(struct table *t, const char *format, ...)
{
    _cleanup_free_ char *text = NULL;
    _cleanup_free_ char *safe = NULL;
    va_list ap;
    int n;

    va_start(ap, format);
    n = vasprintf(&text, format, ap);
    va_end(ap);
    if (n < 0) {
        text = NULL;
        return -ENOMEM;
    }
    size_t cap = (size_t) n * 4 + 1;
    safe = malloc(cap);
    if (!safe)
        return -ENOMEM;
    etw_escape(text, (size_t) n, safe, cap);

    if (t->n_cells == t->room) {
        size_t want = t->room ? t->room * 2 : 64;
        char **more = reallocarray(t->cells, want, sizeof(*more));
        if (!more)
            return -ENOMEM;
        t->cells = more;
        t->room = want;
    }
    t->cells[t->n_cells++] = TAKE_PTR(safe);
    return 0;
}

/* Characters, as good as columns for what names are made of. */
static size_t width_of(const char *s)
{
    size_t n = 0;

    for (; *s; s++)
        n += ((unsigned char) *s & 0xC0) != 0x80;
    return n;
}

static void print_row(const struct table *t, struct out *o, const char *const *cells, size_t n,
                      const size_t *widths)
{
    for (size_t c = 0; c < n; c++) {
        size_t pad = widths[c] - width_of(cells[c]);
        if (t->right[c])
            out_spaces(o, pad);
        out_str(o, cells[c]);
        if (c + 1 < n) {
            if (!t->right[c])
                out_spaces(o, pad);
            out_spaces(o, 2);
        }
    }
    out_char(o, '\n');
}

void table_print(const struct table *t, struct out *o, bool legend)
{
    _cleanup_free_ size_t *widths = calloc(t->n_columns, sizeof(*widths));
    bool colour = want_colour(o->fd);

    if (!widths) {
        o->error = -ENOMEM;
        return;
    }
    for (size_t c = 0; legend && c < t->n_columns; c++)
        widths[c] = width_of(t->columns[c]);
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t w = width_of(t->cells[i]);
        if (w > widths[i % t->n_columns])
            widths[i % t->n_columns] = w;
    }
    if (legend) {
        if (colour)
            out_str(o, "\033[1m");
        print_row(t, o, t->columns, t->n_columns, widths);
        if (colour)
            out_str(o, "\033[0m");
    }
    for (size_t i = 0; i < t->n_cells; i += t->n_columns) {
        size_t n = t->n_cells - i < t->n_columns ? t->n_cells - i : t->n_columns;
        print_row(t, o, (const char *const *) t->cells + i, n, widths);
    }
}

struct json_object *json_text(const char *s)
{
    if (!s)
        return NULL;

    size_t len = strlen(s), at = 0;
    /* an invalid byte becomes the three of U+FFFD */
    _cleanup_free_ char *copy = malloc(len * 3 + 1);
    if (!copy)
        return NULL;
    for (size_t i = 0; i < len;) {
        uint32_t c;
        size_t n = etw_utf8_decode(s + i, len - i, &c);
        if (c == ETW_UTF8_INVALID) {
            memcpy(copy + at, "\xEF\xBF\xBD", 3);
            at += 3;
        } else {
            memcpy(copy + at, s + i, n);
            at += n;
        }
        i += n;
    }
    return json_object_new_string_len(copy, (int) at);
}

struct json_object *json_guid(const void *sixteen_bytes)
{
    struct etw_guid g;
    char buf[ETW_GUID_STRING_MAX];

    memcpy(&g, sixteen_bytes, sizeof(g));
    return json_object_new_string(etw_guid_format(&g, buf));
}

struct json_object *json_filetime(uint64_t filetime)
{
    char buf[ETW_RFC3339_MAX];

    if (filetime == 0)
        return NULL;
    return json_object_new_string(etw_rfc3339_filetime(filetime, buf));
}

struct json_object *json_hex(uint64_t v)
{
    char buf[20];

    (void) snprintf(buf, sizeof(buf), "0x%llx", (unsigned long long) v);
    return json_object_new_string(buf);
}

struct json_object *json_u64(uint64_t v)
{
    return json_object_new_uint64(v);
}
