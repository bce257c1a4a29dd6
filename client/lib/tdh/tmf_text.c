/* SPDX-License-Identifier: Apache-2.0
 *
 * See tmf.h: the text of a message. First the place of each argument in the data is found, then the
 * format is walked. Any thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf16.h"
#include "base/winerror.h"
#include "etl/iterate.h"
#include "tmf.h"

/* A format may name an argument many times. */
#define TEXT_MAX (1u << 20)
#define WIDTH_MAX 256u

struct value {
    const uint8_t *p;
    uint32_t size;
};

struct builder {
    char *text;
    size_t n, cap;
    int error;
};

static void put(struct builder *b, const char *s, size_t n)
{
    if (b->error)
        return;
    if (n > TEXT_MAX - b->n) {
        b->error = -EBADMSG;
        return;
    }
    if (b->n + n + 1 > b->cap) {
        size_t cap = (b->n + n + 1) * 2;
        char *more = realloc(b->text, cap);
        if (!more) {
            b->error = -ENOMEM;
            return;
        }
        b->text = more;
        b->cap = cap;
    }
    memcpy(b->text + b->n, s, n);
    b->n += n;
    b->text[b->n] = '\0';
}

static void put_str(struct builder *b, const char *s)
{
    put(b, s, strlen(s));
}

static const struct {
    uint32_t code;
    const char *name;
} statuses[] = {
    {0x00000000, "STATUS_SUCCESS"},
    {0x00000102, "STATUS_TIMEOUT"},
    {0x00000103, "STATUS_PENDING"},
    {0x80000005, "STATUS_BUFFER_OVERFLOW"},
    {0x80000006, "STATUS_NO_MORE_FILES"},
    {0x8000001A, "STATUS_NO_MORE_ENTRIES"},
    {0xC0000001, "STATUS_UNSUCCESSFUL"},
    {0xC0000002, "STATUS_NOT_IMPLEMENTED"},
    {0xC0000004, "STATUS_INFO_LENGTH_MISMATCH"},
    {0xC0000005, "STATUS_ACCESS_VIOLATION"},
    {0xC0000008, "STATUS_INVALID_HANDLE"},
    {0xC000000D, "STATUS_INVALID_PARAMETER"},
    {0xC000000E, "STATUS_NO_SUCH_DEVICE"},
    {0xC000000F, "STATUS_NO_SUCH_FILE"},
    {0xC0000010, "STATUS_INVALID_DEVICE_REQUEST"},
    {0xC0000011, "STATUS_END_OF_FILE"},
    {0xC0000016, "STATUS_MORE_PROCESSING_REQUIRED"},
    {0xC0000017, "STATUS_NO_MEMORY"},
    {0xC0000022, "STATUS_ACCESS_DENIED"},
    {0xC0000023, "STATUS_BUFFER_TOO_SMALL"},
    {0xC0000033, "STATUS_OBJECT_NAME_INVALID"},
    {0xC0000034, "STATUS_OBJECT_NAME_NOT_FOUND"},
    {0xC0000035, "STATUS_OBJECT_NAME_COLLISION"},
    {0xC000003A, "STATUS_OBJECT_PATH_NOT_FOUND"},
    {0xC0000043, "STATUS_SHARING_VIOLATION"},
    {0xC000009A, "STATUS_INSUFFICIENT_RESOURCES"},
    {0xC00000B5, "STATUS_IO_TIMEOUT"},
    {0xC00000BB, "STATUS_NOT_SUPPORTED"},
    {0xC0000120, "STATUS_CANCELLED"},
    {0xC0000225, "STATUS_NOT_FOUND"},
};

static const struct {
    uint32_t code;
    const char *name;
} results[] = {
    {0x00000000, "S_OK"},          {0x00000001, "S_FALSE"},      {0x80004001, "E_NOTIMPL"},
    {0x80004002, "E_NOINTERFACE"}, {0x80004003, "E_POINTER"},    {0x80004004, "E_ABORT"},
    {0x80004005, "E_FAIL"},        {0x8000FFFF, "E_UNEXPECTED"},
};

static const char *code_name(enum tmf_kind kind, uint32_t code)
{
    switch (kind) {
    case TMF_NTSTATUS:
        for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
            if (statuses[i].code == code)
                return statuses[i].name;
        return NULL;
    case TMF_HRESULT:
        for (size_t i = 0; i < ARRAY_SIZE(results); i++)
            if (results[i].code == code)
                return results[i].name;
        /* A Win32 code in an HRESULT. */
        return code >> 16 == 0x8007 ? etw_winerror_name(code & 0xFFFF) : NULL;
    default:
        return etw_winerror_name(code);
    }
}

/* Where an argument lies. */
static int locate(const struct tmf_item *item, const uint8_t *p, uint32_t left,
                  uint8_t pointer_size, struct value *ret, uint32_t *ret_used)
{
    const uint8_t *nul;
    uint16_t count;
    uint32_t n;

    *ret = (struct value){.p = p};
    switch ((enum tmf_kind) item->kind) {
    case TMF_POINTER:
        ret->size = *ret_used = pointer_size;
        break;
    case TMF_TEXT8:
        nul = memchr(p, 0, left);
        ret->size = nul ? (uint32_t) (nul - p) : left;
        *ret_used = nul ? ret->size + 1 : left;
        break;
    case TMF_TEXT16:
        for (n = 0; 2 * n + 1 < left && (p[2 * n] || p[2 * n + 1]);)
            n++;
        ret->size = 2 * n;
        *ret_used = 2 * n + 1 < left ? ret->size + 2 : left;
        break;
    case TMF_COUNTED8:
    case TMF_COUNTED16:
    case TMF_HEXDUMP:
        if (left < sizeof(count))
            return -EBADMSG;
        memcpy(&count, p, sizeof(count));
        ret->p = p + sizeof(count);
        ret->size = count;
        *ret_used = count + (uint32_t) sizeof(count);
        break;
    case TMF_SID:
        ret->size = *ret_used = (uint32_t) etl_sid_size(p, left);
        if (ret->size == 0)
            return -EBADMSG;
        break;
    default:
        ret->size = *ret_used = item->size;
        break;
    }
    return *ret_used > left ? -EBADMSG : 0;
}

static uint64_t number_of(const struct tmf_item *item, const struct value *v)
{
    uint64_t n = 0;

    memcpy(&n, v->p, v->size > sizeof(n) ? sizeof(n) : v->size);
    if (item->is_signed && v->size < sizeof(n) && v->size > 0 && n >> (8 * v->size - 1))
        n |= UINT64_MAX << (8 * v->size);
    return n;
}

static const char *word_at(const struct tmf_item *item, uint64_t index)
{
    const char *w = item->words;

    if (index >= item->n_words)
        return NULL;
    for (; index > 0; index--)
        w += strlen(w) + 1;
    return w;
}

static void put_set(struct builder *b, const struct tmf_item *item, uint64_t n)
{
    const char *w = item->words, *separator = "";

    put_str(b, "[");
    for (uint32_t i = 0; i < item->n_words && i < 64; i++, w += strlen(w) + 1) {
        if (!(n >> i & 1))
            continue;
        put_str(b, separator);
        put_str(b, w);
        separator = ",";
    }
    put_str(b, "]");
}

static void put_delta(struct builder *b, int64_t ticks)
{
    uint64_t ms = (ticks < 0 ? 0 - (uint64_t) ticks : (uint64_t) ticks) / 10000;
    uint64_t days = ms / 86400000, hours = ms / 3600000 % 24, minutes = ms / 60000 % 60;
    char text[80], *p = text;

    if (ticks < 0)
        p += sprintf(p, "-");
    if (days)
        p += sprintf(p, "%llu~", (unsigned long long) days);
    if (days || hours)
        p += sprintf(p, "%lluh", (unsigned long long) hours);
    if (days || hours || minutes)
        p += sprintf(p, "%llum", (unsigned long long) minutes);
    (void) sprintf(p, "%llu.%03llus", (unsigned long long) (ms / 1000 % 60),
                   (unsigned long long) (ms % 1000));
    put_str(b, text);
}

static void put_bytes(struct builder *b, const struct value *v)
{
    char text[4];

    for (uint32_t i = 0; i < v->size; i++)
        put(b, text, (size_t) snprintf(text, sizeof(text), i ? " %02x" : "%02x", v->p[i]));
}

static void put_utf16(struct builder *b, const struct value *v)
{
    char *s = etw_utf16_dup_utf8(v->p, v->size / 2);

    if (s)
        put_str(b, s);
    else
        b->error = -ENOMEM;
    free(s);
}

/* What stands for an argument that is printed as a text. */
static void put_as_text(struct builder *b, const struct tmf_item *item, const struct value *v)
{
    uint64_t n = number_of(item, v);
    char text[256] = "";
    const char *word;
    double d;

    switch ((enum tmf_kind) item->kind) {
    case TMF_TEXT8:
    case TMF_COUNTED8:
        put(b, (const char *) v->p, strnlen((const char *) v->p, v->size));
        return;
    case TMF_TEXT16:
    case TMF_COUNTED16:
        put_utf16(b, v);
        return;
    case TMF_HEXDUMP:
        put_bytes(b, v);
        return;
    case TMF_SET:
        put_set(b, item, n);
        return;
    case TMF_DELTA:
        put_delta(b, (int64_t) n);
        return;
    case TMF_LIST:
        word = word_at(item, n);
        (void) snprintf(text, sizeof(text), "0x%08llx(%.200s)", (unsigned long long) n,
                        word ? word : "");
        break;
    case TMF_HRESULT:
    case TMF_NTSTATUS:
    case TMF_WIN32:
        word = code_name(item->kind, (uint32_t) n);
        (void) snprintf(text, sizeof(text), word ? "0x%08x(%s)" : "0x%08x", (uint32_t) n, word);
        break;
    case TMF_SID: {
        char sid[ETL_SID_STRING_MAX];
        put_str(b, etl_sid_format(v->p, v->size, sid));
        return;
    }
    case TMF_GUID: {
        struct etw_guid g;
        memcpy(&g, v->p, sizeof(g));
        (void) etw_guid_format(&g, text);
        break;
    }
    case TMF_IPV4:
        (void) inet_ntop(AF_INET, v->p, text, sizeof(text));
        break;
    case TMF_IPV6:
        (void) inet_ntop(AF_INET6, v->p, text, sizeof(text));
        break;
    case TMF_PORT:
        (void) snprintf(text, sizeof(text), "%u", (unsigned) v->p[0] << 8 | v->p[1]);
        break;
    case TMF_MAC:
        (void) snprintf(text, sizeof(text), "%02x-%02x-%02x-%02x-%02x-%02x", v->p[0], v->p[1],
                        v->p[2], v->p[3], v->p[4], v->p[5]);
        break;
    case TMF_TIME:
        (void) etw_rfc3339_filetime(n, text);
        break;
    case TMF_DOUBLE:
        memcpy(&d, v->p, sizeof(d));
        (void) snprintf(text, sizeof(text), "%g", d);
        break;
    case TMF_POINTER:
        (void) snprintf(text, sizeof(text), "%0*llX", (int) v->size * 2, (unsigned long long) n);
        break;
    case TMF_INTEGER:
        (void) snprintf(text, sizeof(text), item->is_signed ? "%lld" : "%llu",
                        (unsigned long long) n);
        break;
    }
    put_str(b, text);
}

/* printf's words between the exclamation marks: flags, width, precision, conversion. */
struct spec {
    char flags[8];
    int width, precision; /* -1: none */
    char conversion;
};

static int small_number(const char **p)
{
    unsigned n = 0;

    for (; **p >= '0' && **p <= '9'; ++*p)
        if (n <= WIDTH_MAX)
            n = n * 10 + (unsigned) (**p - '0');
    return (int) (n > WIDTH_MAX ? WIDTH_MAX : n);
}

static void spec_read(const char *p, size_t n, struct spec *ret)
{
    struct spec s = {.width = -1, .precision = -1};
    const char *end = p + n;
    size_t flags = 0;

    for (; p < end && *p && strchr("-+ #0", *p); p++)
        if (flags + 1 < sizeof(s.flags) && !strchr(s.flags, *p))
            s.flags[flags++] = *p;
    if (p < end && *p >= '1' && *p <= '9')
        s.width = small_number(&p);
    if (p < end && *p == '.') {
        p++;
        s.precision = small_number(&p);
    }
    s.conversion = p < end ? end[-1] : 's';
    *ret = s;
}

static void put_number(struct builder *b, const struct spec *s, const struct tmf_item *item,
                       const struct value *v)
{
    uint64_t n = number_of(item, v);
    char format[32], text[WIDTH_MAX * 2 + 512];
    double d = 0;

    (void) snprintf(format, sizeof(format), s->precision >= 0 ? "%%%s*.*%s%c" : "%%%s*%s%c",
                    s->flags, strchr("eEfgGc", s->conversion) ? "" : "ll", s->conversion);
    /* Unsigned conversions show as many bits as the argument has. */
    if (!strchr("di", s->conversion) && v->size < sizeof(n))
        n &= (UINT64_MAX >> (64 - 8 * (v->size ? v->size : 1)));
    if (item->kind == TMF_DOUBLE)
        memcpy(&d, v->p, sizeof(d));
    int width = s->width < 0 ? 0 : s->width;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (strchr("eEfgG", s->conversion))
        (void) (s->precision >= 0 ? snprintf(text, sizeof(text), format, width, s->precision, d)
                                  : snprintf(text, sizeof(text), format, width, d));
    else if (s->conversion == 'c')
        (void) snprintf(text, sizeof(text), "%*c", width, (int) (n & 0xFF ? n & 0xFF : ' '));
    else
        (void) (s->precision >= 0 ? snprintf(text, sizeof(text), format, width, s->precision, n)
                                  : snprintf(text, sizeof(text), format, width, n));
#pragma GCC diagnostic pop
    put_str(b, text);
}

static void put_padded(struct builder *b, const struct spec *s, const struct tmf_item *item,
                       const struct value *v)
{
    struct builder own = {0};
    size_t n, width = s->width > 0 ? (size_t) s->width : 0;

    put_as_text(&own, item, v);
    if (own.error) {
        b->error = own.error;
        free(own.text);
        return;
    }
    n = own.n;
    while (item->trimmed && n > 0 && (own.text[n - 1] == '\n' || own.text[n - 1] == '\r'))
        n--;
    if (s->precision >= 0 && n > (size_t) s->precision)
        n = (size_t) s->precision;
    for (size_t i = n; !strchr(s->flags, '-') && i < width; i++)
        put(b, " ", 1);
    if (n > 0)
        put(b, own.text, n);
    for (size_t i = n; strchr(s->flags, '-') && i < width; i++)
        put(b, " ", 1);
    free(own.text);
}

static void put_argument(struct builder *b, const struct spec *s, const struct tmf_item *item,
                         const struct value *v)
{
    bool number = item->kind == TMF_INTEGER || item->kind == TMF_DOUBLE ||
                  item->kind == TMF_POINTER || item->kind == TMF_LIST || item->kind == TMF_SET ||
                  item->kind == TMF_HRESULT || item->kind == TMF_NTSTATUS ||
                  item->kind == TMF_WIN32;
    bool floating = s->conversion && strchr("eEfgG", s->conversion);

    if (number && s->conversion && strchr("diuoxXceEfgG", s->conversion) &&
        floating == (item->kind == TMF_DOUBLE))
        put_number(b, s, item, v);
    else
        put_padded(b, s, item, v);
}

/* %1 to %9: what the event's header and the file tell. */
static void put_prefix(struct builder *b, const struct tmf_message *m, const struct tmf_header *h,
                       unsigned index)
{
    char text[64] = "";

    switch (index) {
    case 1:
        put_str(b, m->provider);
        return;
    case 2:
        put_str(b, m->name);
        return;
    case 3:
        (void) snprintf(text, sizeof(text), "%u", h->thread_id);
        break;
    case 4:
        (void) etw_rfc3339_filetime(h->filetime, text);
        break;
    case 7:
        (void) snprintf(text, sizeof(text), "%u", h->sequence);
        break;
    case 8:
        (void) snprintf(text, sizeof(text), "%u", h->process_id);
        break;
    case 9:
        (void) snprintf(text, sizeof(text), "%u", h->cpu);
        break;
    default: /* the beginning of a line; times of the thread, which messages do not have */
        return;
    }
    put_str(b, text);
}

static void put_named(struct builder *b, const struct tmf_message *m, const char *name, size_t n)
{
    if (n == 4 && !memcmp(name, "FUNC", 4))
        put_str(b, m->function);
    else if (n == 5 && !memcmp(name, "LEVEL", 5))
        put_str(b, m->level);
    else if (n == 5 && !memcmp(name, "FLAGS", 5))
        put_str(b, m->flags);
    else if (n == 4 && !memcmp(name, "FILE", 4))
        put_str(b, m->source);
}

/* One % and what belongs to it; returns what comes next. */
static const char *put_percent(struct builder *b, const struct tmf_message *m,
                               const struct tmf_header *h, const struct value *values,
                               const char *p)
{
    struct spec s = {.width = -1, .precision = -1, .conversion = 's'};
    const char *end;

    if (*p == '!') {
        end = strchr(p + 1, '!');
        if (!end)
            return p;
        put_named(b, m, p + 1, (size_t) (end - p - 1));
        return end + 1;
    }
    if (*p < '0' || *p > '9') {
        if (*p == 'n')
            put_str(b, "\n");
        else if (*p == 't')
            put_str(b, "\t");
        else if (*p == 'b')
            put_str(b, " ");
        else if (*p)
            put(b, p, 1);
        return *p ? p + 1 : p;
    }
    /* %0 stands alone, without a width */
    unsigned index = 0;
    if (*p == '0') {
        p++;
    } else {
        index = (unsigned) small_number(&p);
    }
    if (index > 0 && *p == '!' && (end = strchr(p + 1, '!'))) {
        spec_read(p + 1, (size_t) (end - p - 1), &s);
        p = end + 1;
    }
    for (uint32_t i = 0; i < m->n_items; i++)
        if (m->items[i].index == index) {
            put_argument(b, &s, &m->items[i], &values[i]);
            return p;
        }
    put_prefix(b, m, h, index);
    return p;
}

int tmf_text(const struct tmf_message *m, const struct tmf_header *h, const uint8_t *data,
             uint32_t size, uint8_t pointer_size, char **ret)
{
    _cleanup_free_ struct value *values = calloc(m->n_items ? m->n_items : 1, sizeof(*values));
    struct builder b = {0};
    uint32_t at = 0, used;

    if (!values)
        return -ENOMEM;
    for (uint32_t i = 0; i < m->n_items; i++) {
        int r = locate(&m->items[i], data + at, size - at, pointer_size, &values[i], &used);
        if (r < 0)
            return r;
        at += used;
    }
    put(&b, "", 0);
    for (const char *p = m->format; *p && !b.error;) {
        size_t n = strcspn(p, "%");
        put(&b, p, n);
        p += n;
        if (*p == '%')
            p = put_percent(&b, m, h, values, p + 1);
    }
    if (b.error) {
        free(b.text);
        return b.error;
    }
    *ret = b.text;
    return 0;
}
