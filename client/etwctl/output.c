/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffered writer and its escapes; see output.h. Tables and whole JSON documents are in
 * table.c. One thread.
 */
#include "output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"

void say(const char *format, ...)
{
    _cleanup_free_ char *text = NULL;
    _cleanup_free_ char *safe = NULL;
    va_list ap;
    int r;

    va_start(ap, format);
    r = vasprintf(&text, format, ap);
    va_end(ap);
    if (r < 0) {
        text = NULL;
        return;
    }
    /* every byte may become \xNN */
    size_t cap = (size_t) r * 4 + 1;
    safe = malloc(cap);
    if (!safe)
        return;
    etw_escape(text, (size_t) r, safe, cap);
    fprintf(stderr, "etwctl: %s\n", safe);
}

int out_init(struct out *o, int fd)
{
    char *data = malloc(OUT_SIZE);

    if (!data)
        return -ENOMEM;
    *o = (struct out){.fd = fd, .data = data};
    return 0;
}

static void write_all(struct out *o, const char *p, size_t len)
{
    while (len > 0 && !o->error) {
        ssize_t n = write(o->fd, p, len);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            o->error = -errno;
            return;
        }
        p += n;
        len -= (size_t) n;
    }
}

void out_flush(struct out *o)
{
    write_all(o, o->data, o->len);
    o->len = 0;
}

int out_done(struct out *o)
{
    if (!o->data)
        return EXIT_OK;
    out_flush(o);
    free(o->data);
    o->data = NULL;
    if (o->error && o->error != -EPIPE) {
        say("standard output could not be written: %s", strerror(-o->error));
        return EXIT_ERROR;
    }
    return EXIT_OK;
}

/* Room for n bytes (n well below OUT_SIZE), to be followed by o->len += written. */
static char *room(struct out *o, size_t n)
{
    if (OUT_SIZE - o->len < n)
        out_flush(o);
    return o->data + o->len;
}

void out_bytes(struct out *o, const void *data, size_t len)
{
    if (len > OUT_SIZE) {
        out_flush(o);
        write_all(o, data, len);
        return;
    }
    memcpy(room(o, len), data, len);
    o->len += len;
}

void out_str(struct out *o, const char *s)
{
    out_bytes(o, s, strlen(s));
}

void out_char(struct out *o, char c)
{
    *room(o, 1) = c;
    o->len++;
}

void out_printf(struct out *o, const char *format, ...)
{
    va_list ap;
    char buf[512];
    int n;

    va_start(ap, format);
    n = vsnprintf(buf, sizeof(buf), format, ap);
    va_end(ap);
    if (n < 0)
        return;
    if ((size_t) n < sizeof(buf)) {
        out_bytes(o, buf, (size_t) n);
        return;
    }
    _cleanup_free_ char *big = NULL;
    va_start(ap, format);
    n = vasprintf(&big, format, ap);
    va_end(ap);
    if (n < 0) {
        big = NULL;
        o->error = -ENOMEM;
        return;
    }
    out_bytes(o, big, (size_t) n);
}

void out_spaces(struct out *o, size_t n)
{
    while (n > 0) {
        size_t k = n < 64 ? n : 64;
        memset(room(o, k), ' ', k);
        o->len += k;
        n -= k;
    }
}

void out_u64(struct out *o, uint64_t v)
{
    char buf[20];
    size_t i = sizeof(buf);

    do {
        buf[--i] = (char) ('0' + v % 10);
        v /= 10;
    } while (v > 0);
    out_bytes(o, buf + i, sizeof(buf) - i);
}

void out_i64(struct out *o, int64_t v)
{
    if (v < 0) {
        out_char(o, '-');
        out_u64(o, -(uint64_t) v);
        return;
    }
    out_u64(o, (uint64_t) v);
}

static const char hex_digits[16] = "0123456789abcdef";

void out_hex(struct out *o, uint64_t v)
{
    char buf[16];
    size_t i = sizeof(buf);

    do {
        buf[--i] = hex_digits[v & 15];
        v >>= 4;
    } while (v > 0);
    out_bytes(o, buf + i, sizeof(buf) - i);
}

void out_hex_bytes(struct out *o, const void *data, size_t len)
{
    const uint8_t *p = data;

    while (len > 0) {
        size_t k = len < 1024 ? len : 1024;
        char *to = room(o, k * 2);
        for (size_t i = 0; i < k; i++) {
            to[2 * i] = hex_digits[p[i] >> 4];
            to[2 * i + 1] = hex_digits[p[i] & 15];
        }
        o->len += k * 2;
        p += k;
        len -= k;
    }
}

void out_guid(struct out *o, const struct etw_guid *g)
{
    char buf[ETW_GUID_STRING_MAX];

    out_bytes(o, etw_guid_format(g, buf), ETW_GUID_STRING_MAX - 1);
}

/* Characters that act on a terminal or on the order of what is shown, besides C0. */
static bool is_harmful(uint32_t c)
{
    return (c >= 0x7F && c <= 0x9F) || c == 0x61C || c == 0x200E || c == 0x200F || c == 0x2028 ||
           c == 0x2029 || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

static void put_utf8(struct out *o, uint32_t c)
{
    char *p = room(o, 4);

    if (c < 0x80) {
        p[0] = (char) c;
        o->len += 1;
    } else if (c < 0x800) {
        p[0] = (char) (0xC0 | c >> 6);
        p[1] = (char) (0x80 | (c & 0x3F));
        o->len += 2;
    } else if (c < 0x10000) {
        p[0] = (char) (0xE0 | c >> 12);
        p[1] = (char) (0x80 | (c >> 6 & 0x3F));
        p[2] = (char) (0x80 | (c & 0x3F));
        o->len += 3;
    } else {
        p[0] = (char) (0xF0 | c >> 18);
        p[1] = (char) (0x80 | (c >> 12 & 0x3F));
        p[2] = (char) (0x80 | (c >> 6 & 0x3F));
        p[3] = (char) (0x80 | (c & 0x3F));
        o->len += 4;
    }
}

static void put_u(struct out *o, uint32_t c)
{
    char *p = room(o, 6);

    p[0] = '\\';
    p[1] = 'u';
    p[2] = hex_digits[c >> 12 & 15];
    p[3] = hex_digits[c >> 8 & 15];
    p[4] = hex_digits[c >> 4 & 15];
    p[5] = hex_digits[c & 15];
    o->len += 6;
}

/* One character. json: the escapes of JSON; else those of out_escaped(). All harmful characters lie
 * in the BMP. */
static void put_escaped(struct out *o, uint32_t c, char quote, bool json)
{
    char e = 0;

    if (c == '\n')
        e = 'n';
    else if (c == '\t')
        e = 't';
    else if (c == '\r')
        e = 'r';
    else if (quote && (c == (unsigned char) quote || c == '\\'))
        e = (char) c;
    if (e) {
        char *p = room(o, 2);
        p[0] = '\\';
        p[1] = e;
        o->len += 2;
        return;
    }
    if (c < 0x20 && !json) {
        char *p = room(o, 4);
        p[0] = '\\';
        p[1] = 'x';
        p[2] = hex_digits[c >> 4];
        p[3] = hex_digits[c & 15];
        o->len += 4;
        return;
    }
    if (c < 0x20 || is_harmful(c)) {
        put_u(o, c);
        return;
    }
    put_utf8(o, c);
}

static void put_text(struct out *o, const char *s, size_t len, char quote, bool json)
{
    size_t i = 0;

    while (i < len) {
        /* the usual case: a run of plain characters */
        size_t run = i;
        while (run < len) {
            unsigned char c = (unsigned char) s[run];
            if (c < 0x20 || c >= 0x7F || c == '"' || c == '\\' || c == (unsigned char) quote)
                break;
            run++;
        }
        if (run > i) {
            out_bytes(o, s + i, run - i);
            i = run;
            continue;
        }
        uint32_t c;
        i += etw_utf8_decode(s + i, len - i, &c);
        put_escaped(o, c == ETW_UTF8_INVALID ? ETW_UTF8_REPLACEMENT : c, quote, json);
    }
}

static void put_text16(struct out *o, const void *s, size_t bytes, char quote, bool json)
{
    const uint8_t *p = s;

    for (size_t i = 0; i + 1 < bytes; i += 2) {
        uint32_t c = (uint32_t) p[i] | (uint32_t) p[i + 1] << 8;
        if (c >= 0xD800 && c <= 0xDFFF) {
            uint32_t low = 0;
            if (i + 3 < bytes)
                low = (uint32_t) p[i + 2] | (uint32_t) p[i + 3] << 8;
            if (c < 0xDC00 && low >= 0xDC00 && low <= 0xDFFF) {
                c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
                i += 2;
            } else {
                c = ETW_UTF8_REPLACEMENT;
            }
        }
        put_escaped(o, c, quote, json);
    }
}

void out_escaped(struct out *o, const char *s, size_t len, char quote)
{
    put_text(o, s, len, quote, false);
}

void out_escaped_utf16(struct out *o, const void *s, size_t bytes, char quote)
{
    put_text16(o, s, bytes, quote, false);
}

void out_json_string(struct out *o, const char *s, size_t len)
{
    out_char(o, '"');
    put_text(o, s, len, '"', true);
    out_char(o, '"');
}

void out_json_utf16(struct out *o, const void *s, size_t bytes)
{
    out_char(o, '"');
    put_text16(o, s, bytes, '"', true);
    out_char(o, '"');
}

void out_json(struct out *o, struct json_object *doc)
{
    const char *s = json_object_to_json_string_ext(doc, JSON_C_TO_STRING_PLAIN |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE);

    if (!s) {
        o->error = -ENOMEM;
        return;
    }
    /* Outside strings JSON is ASCII without control characters, so what is harmful here lies in
     * strings, where \uNNNN says the same. */
    size_t len = strlen(s), i = 0;
    while (i < len) {
        size_t run = i;
        while (run < len && (unsigned char) s[run] < 0x7F)
            run++;
        if (run > i) {
            out_bytes(o, s + i, run - i);
            i = run;
            continue;
        }
        uint32_t c;
        i += etw_utf8_decode(s + i, len - i, &c);
        if (c == ETW_UTF8_INVALID)
            c = ETW_UTF8_REPLACEMENT;
        if (is_harmful(c))
            put_u(o, c);
        else
            put_utf8(o, c);
    }
    out_char(o, '\n');
}

int print_json(struct json_object *doc)
{
    struct out o;

    if (!doc || out_init(&o, STDOUT_FILENO) < 0) {
        json_object_put(doc);
        say("not enough memory");
        return EXIT_ERROR;
    }
    out_json(&o, doc);
    json_object_put(doc);
    return out_done(&o);
}
