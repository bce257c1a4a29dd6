/* SPDX-License-Identifier: Apache-2.0
 *
 * One event as a line: for people, or as a JSON object with the keys of etwctl(1). Written by hand,
 * not by json-c, since millions of lines are made. One thread.
 */
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "decode.h"

/* Data nobody can read, for people: as much as helps. */
#define TEXT_RAW_MAX 64u
/* Widths of columns; longer contents push the rest to the right. */
#define PROCESS_WIDTH 22
#define EVENT_WIDTH 26

/* "2026-11-30T21:11:00" of a second, made once for each. */
struct second {
    uint64_t unix_s;
    bool valid;
    char text[24];
};

static const char *second_text(uint64_t unix_s)
{
    static struct second cache;

    if (!cache.valid || cache.unix_s != unix_s) {
        char buf[ETW_RFC3339_MAX];
        etw_rfc3339(unix_s * ETW_NSEC_PER_SEC, buf);
        memcpy(cache.text, buf, 19);
        cache.text[19] = '\0';
        cache.unix_s = unix_s;
        cache.valid = true;
    }
    return cache.text;
}

static void out_nanoseconds(struct out *o, uint32_t ns)
{
    char buf[9];

    for (int i = 8; i >= 0; i--) {
        buf[i] = (char) ('0' + ns % 10);
        ns /= 10;
    }
    out_bytes(o, buf, sizeof(buf));
}

static void out_time(struct out *o, uint64_t unix_ns)
{
    out_bytes(o, second_text(unix_ns / ETW_NSEC_PER_SEC), 19);
    out_char(o, '.');
    out_nanoseconds(o, (uint32_t) (unix_ns % ETW_NSEC_PER_SEC));
    out_char(o, 'Z');
}

static size_t digits(uint64_t v)
{
    size_t n = 1;

    while (v >= 10) {
        v /= 10;
        n++;
    }
    return n;
}

static void pad_to(struct out *o, size_t used, size_t width)
{
    if (used < width)
        out_spaces(o, width - used);
}

void emit_text_header(struct out *o)
{
    out_printf(o, "%-30s %-5s %*s %7s  %-*s %s\n", "TIME (UTC)", "CPU", PROCESS_WIDTH, "PROCESS",
               "THREAD", EVENT_WIDTH, "EVENT", "FIELDS");
}

static void text_process(struct out *o, const struct decoded *d)
{
    size_t used = 1;

    if (d->has_pid) {
        used = digits(d->pid);
        if (d->process)
            used += strlen(d->process) + 2;
    }
    pad_to(o, used, PROCESS_WIDTH);
    if (!d->has_pid) {
        out_char(o, '-');
        return;
    }
    out_u64(o, d->pid);
    if (d->process) {
        out_char(o, '(');
        out_escaped(o, d->process, strlen(d->process), 0);
        out_char(o, ')');
    }
}

/* "Thread/CSwitch"; what has no name is shown by number. Returns the width. */
static size_t text_event(struct out *o, const struct decoded *d)
{
    const EVENT_DESCRIPTOR *desc = &d->record->EventHeader.EventDescriptor;
    size_t used;

    if (d->provider) {
        out_escaped(o, d->provider, d->provider_len, 0);
        used = d->provider_len;
    } else {
        out_guid(o, &d->guid);
        used = 36;
    }
    out_char(o, '/');
    used++;
    if (d->event) {
        out_escaped(o, d->event, d->event_len, 0);
        return used + d->event_len;
    }
    uint64_t number = d->e.opcode;
    const char *what = "op";
    if (d->kind == KIND_MESSAGE)
        what = "message", number = desc->Id;
    else if (d->kind == KIND_EVENT || d->kind == KIND_TRACELOGGING)
        what = "id", number = desc->Id;
    out_str(o, what);
    out_u64(o, number);
    return used + strlen(what) + digits(number);
}

void emit_text(struct out *o, struct decoded *d, const struct line_options *opts)
{
    struct emitter em = {.o = o, .separate = true};
    const EVENT_RECORD *r = d->record;

    out_time(o, d->unix_ns);
    out_str(o, " [");
    pad_to(o, digits(d->cpu), 3);
    out_u64(o, d->cpu);
    out_str(o, "] ");
    text_process(o, d);
    out_char(o, ' ');
    if (d->has_tid) {
        pad_to(o, digits(d->tid), 7);
        out_u64(o, d->tid);
    } else {
        out_str(o, "      -");
    }
    out_str(o, "  ");
    size_t width = text_event(o, d);

    bool understood = decode_has_fields(d);
    if (understood || r->UserDataLength > 0)
        pad_to(o, width, EVENT_WIDTH);
    if (understood && emit_fields(&em, d) < 0)
        understood = false;
    if (d->build_id) {
        emit_key(&em, "BuildId", 7);
        out_hex_bytes(o, d->build_id->bytes, d->build_id->size);
    }
    if (d->stack) {
        emit_key(&em, "Stack", 5);
        emit_begin(&em, '[');
        for (uint32_t i = 0; i + d->stack_width <= d->stack_size; i += d->stack_width) {
            uint64_t address = 0;
            memcpy(&address, d->stack + i, d->stack_width);
            out_str(o, i ? ",0x" : "0x");
            out_hex(o, address);
        }
        emit_end(&em, ']');
    }
    if (opts->raw || (!understood && r->UserDataLength > 0)) {
        uint32_t n = r->UserDataLength;
        if (!opts->raw && n > TEXT_RAW_MAX)
            n = TEXT_RAW_MAX;
        emit_key(&em, "raw", 3);
        out_hex_bytes(o, r->UserData, n);
        if (n < r->UserDataLength)
            out_printf(o, "...(%u bytes)", r->UserDataLength);
    }
    out_char(o, '\n');
}

#define KEY(o, literal) out_bytes(o, ",\"" literal "\":", sizeof(",\"" literal "\":") - 1)

static void json_u32_or_null(struct out *o, bool has, uint64_t v)
{
    if (has)
        out_u64(o, v);
    else
        out_str(o, "null");
}

static void json_string_or_null(struct out *o, const char *s, size_t len)
{
    if (s)
        out_json_string(o, s, len);
    else
        out_str(o, "null");
}

static void json_guid_or_null(struct out *o, const void *sixteen)
{
    struct etw_guid g = {0};

    if (sixteen)
        memcpy(&g, sixteen, sizeof(g));
    if (etw_guid_is_null(&g)) {
        out_str(o, "null");
        return;
    }
    out_char(o, '"');
    out_guid(o, &g);
    out_char(o, '"');
}

static void json_stack(struct out *o, const struct decoded *d)
{
    out_char(o, '[');
    for (uint32_t i = 0; d->stack && i + d->stack_width <= d->stack_size; i += d->stack_width) {
        uint64_t address = 0;
        memcpy(&address, d->stack + i, d->stack_width);
        out_str(o, i ? ",{\"address\":\"0x" : "{\"address\":\"0x");
        out_hex(o, address);
        out_str(o, "\"}");
    }
    out_char(o, ']');
}

void emit_json(struct out *o, struct decoded *d, const struct line_options *opts)
{
    const EVENT_RECORD *r = d->record;
    const EVENT_DESCRIPTOR *desc = &r->EventHeader.EventDescriptor;
    bool modern = d->kind == KIND_EVENT || d->kind == KIND_TRACELOGGING;
    struct emitter em = {.o = o, .json = true};
    bool understood = decode_has_fields(d);

    out_str(o, "{\"time\":\"");
    out_time(o, d->unix_ns);
    out_char(o, '"');
    KEY(o, "timestamp");
    out_u64(o, d->unix_ns);
    KEY(o, "filetime");
    out_u64(o, d->filetime);
    KEY(o, "cpu");
    out_u64(o, d->cpu);
    KEY(o, "pid");
    json_u32_or_null(o, d->has_pid, d->pid);
    KEY(o, "tid");
    json_u32_or_null(o, d->has_tid, d->tid);
    KEY(o, "process");
    json_string_or_null(o, d->process, d->process ? strlen(d->process) : 0);
    KEY(o, "kind");
    out_char(o, '"');
    out_str(o, kind_name(d->kind));
    out_char(o, '"');
    KEY(o, "provider");
    out_str(o, "{\"guid\":");
    json_guid_or_null(o, &d->guid);
    KEY(o, "name");
    json_string_or_null(o, d->provider, d->provider_len);
    out_char(o, '}');
    KEY(o, "event");
    json_string_or_null(o, d->event, d->event_len);
    KEY(o, "id");
    json_u32_or_null(o, modern || d->kind == KIND_MESSAGE, desc->Id);
    KEY(o, "version");
    json_u32_or_null(o, d->kind != KIND_MESSAGE, desc->Version);
    KEY(o, "opcode");
    json_u32_or_null(o, d->kind != KIND_MESSAGE, desc->Opcode);
    KEY(o, "task");
    json_u32_or_null(o, modern, desc->Task);
    KEY(o, "level");
    json_u32_or_null(o, modern || d->kind == KIND_CLASSIC, desc->Level);
    KEY(o, "channel");
    json_u32_or_null(o, modern, desc->Channel);
    KEY(o, "keyword");
    if (modern) {
        out_str(o, "\"0x");
        out_hex(o, desc->Keyword);
        out_char(o, '"');
    } else {
        out_str(o, "null");
    }
    KEY(o, "activity_id");
    json_guid_or_null(o, &r->EventHeader.ActivityId);
    KEY(o, "related_activity_id");
    json_guid_or_null(o, d->related_activity);
    KEY(o, "payload");
    if (understood) {
        emit_begin(&em, '{');
        if (emit_fields(&em, d) < 0)
            understood = false;
        emit_end(&em, '}');
    } else {
        out_str(o, "null");
    }
    if (d->build_id) {
        KEY(o, "build_id");
        out_char(o, '"');
        out_hex_bytes(o, d->build_id->bytes, d->build_id->size);
        out_char(o, '"');
    }
    KEY(o, "stack");
    json_stack(o, d);
    if (opts->raw || !understood) {
        KEY(o, "raw");
        out_char(o, '"');
        out_hex_bytes(o, r->UserData, r->UserDataLength);
        out_char(o, '"');
    }
    if (opts->raw) {
        KEY(o, "raw_timestamp");
        out_u64(o, d->raw);
    }
    out_str(o, "}\n");
}
