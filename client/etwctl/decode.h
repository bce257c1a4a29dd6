/* SPDX-License-Identifier: Apache-2.0
 *
 * An EVENT_RECORD made readable: what kind it is, who wrote it, by which layout its data can be
 * read; and the state of a trace that this needs (processes, threads, build-ids). decode.c fills
 * it, fields.c and emit.c print it. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <evntcons.h>
#include <evntrace.h>

#include "base/clock.h"
#include "etl/iterate.h"
#include "etl/tracelogging.h"
#include "image_ids.h"
#include "names.h"
#include "output.h"
#include "schemas.h"

enum kind { KIND_EVENT, KIND_TRACELOGGING, KIND_CLASSIC, KIND_MESSAGE, KIND_SYSTEM };
const char *kind_name(enum kind k);
/* Of a record as it stands in a file. */
enum kind kind_of_event(const struct etl_event *e);

/* Name of a provider or class by its GUID, NULL: unknown. Cached. */
const char *provider_name(const struct etw_guid *guid);

/* Why a file is not all there, as its header and the pass over its buffers tell; NULL: it is. */
const char *trace_incomplete_why(const struct etl_logfile *lf, bool truncated, uint64_t buffers);

/* One trace file being dumped. */
struct trace_state {
    const char *path;
    struct etw_timebase timebase;
    struct names *names;
    struct image_ids *image_ids;
};

struct decoded {
    const EVENT_RECORD *record;
    enum kind kind;
    struct etw_guid guid;
    const char *provider; /* NULL: unknown; not terminated */
    uint32_t provider_len;
    const char *event; /* NULL: unknown; not terminated */
    uint32_t event_len;
    const struct etl_class_row *row; /* how to read the data, or NULL */
    bool is_text;                    /* EventWriteString: the data are UTF-16 */
    const void *message;             /* of a WPP message: its text, UTF-16, or NULL */
    size_t message_size;
    const struct schema *schema; /* of an event that does not describe itself, or NULL */
    bool has_tl;
    struct etl_tl tl;
    struct etl_event e; /* guid, opcode, version, data, pointer_size are set */
    uint64_t raw;
    uint64_t unix_ns;
    uint64_t filetime;
    uint32_t cpu;
    bool has_pid;
    bool has_tid;
    uint32_t pid; /* of a context switch: the new thread's */
    uint32_t tid;
    /* whom the data name, for filters: a process that starts, a thread switched out */
    bool has_subject_pid;
    bool has_subject_tid;
    uint32_t subject_pid;
    uint32_t subject_tid;
    const char *process;             /* its name, or NULL */
    const uint8_t *related_activity; /* 16 bytes, or NULL */
    const uint8_t *stack;            /* addresses, or NULL */
    uint32_t stack_size;
    uint8_t stack_width; /* 4 or 8 */
    const struct build_id *build_id;
};

/* Fills ret and brings t up to date with what the event tells. */
void decode_event(struct trace_state *t, const EVENT_RECORD *record, struct decoded *ret);

/* Writes fields: as members of a JSON object or as NAME=VALUE for people. */
struct emitter {
    struct out *o;
    bool json;
    bool separate; /* something stands before */
};
void emit_key(struct emitter *em, const char *name, size_t len);
void emit_begin(struct emitter *em, char bracket);
void emit_end(struct emitter *em, char bracket);
/* Values, after a key or emit_field_element(). */
void emit_field_element(struct emitter *em);
void emit_field_value(struct emitter *em, const struct etl_tl_value *v);
void emit_field_utf16(struct emitter *em, const void *data, size_t size);
void emit_field_null(struct emitter *em);

/* Whether the data can be read at all. */
bool decode_has_fields(const struct decoded *d);
/* All fields. 0, or -EBADMSG: the data do not hold what the layout says (what was there is
 * written). */
int emit_fields(struct emitter *em, struct decoded *d);

/* Lines of `dump`. */
struct line_options {
    bool raw;
    bool legend;
};
void emit_text_header(struct out *o);
void emit_text(struct out *o, struct decoded *d, const struct line_options *opts);
void emit_json(struct out *o, struct decoded *d, const struct line_options *opts);
