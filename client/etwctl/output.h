/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that etwctl prints: messages on stderr, a buffered writer for stdout, tables for
 * people, JSON for programs. Names are hostile: control characters never reach a terminal, whatever
 * the form. One thread.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/guid.h"

/* The exit codes of etwctl(1). */
enum {
    EXIT_OK = 0,
    EXIT_ERROR = 1,
    EXIT_USAGE = 2,
    EXIT_UNREACHABLE = 3, /* the daemon is not there */
    EXIT_LOSS = 4,        /* done, but events were lost or a file is incomplete */
    EXIT_DENIED = 5,
};

/* "etwctl: MESSAGE" on stderr, arguments escaped. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A buffered writer. An error sticks, later output is dropped; EPIPE (the reader has seen enough)
 * is an error that nobody needs to hear of. */
struct out {
    int fd;
    int error; /* negative errno */
    size_t len;
    char *data;
};
#define OUT_SIZE 65536u

int out_init(struct out *o, int fd);
void out_flush(struct out *o);
/* Flushes and frees; returns an exit code: EXIT_OK, or EXIT_ERROR after a message. */
int out_done(struct out *o);

void out_bytes(struct out *o, const void *data, size_t len);
void out_str(struct out *o, const char *s);
void out_char(struct out *o, char c);
void out_printf(struct out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
void out_spaces(struct out *o, size_t n);
void out_u64(struct out *o, uint64_t v);
void out_i64(struct out *o, int64_t v);
/* Lower-case hex digits of v without leading zeros; of bytes in order. */
void out_hex(struct out *o, uint64_t v);
void out_hex_bytes(struct out *o, const void *data, size_t len);
void out_guid(struct out *o, const struct etw_guid *g);

/* Text with what could harm escaped: \n \t \r \xNN \uNNNN; `quote` also escapes that character (0:
 * none) and the backslash. Invalid UTF-8 becomes U+FFFD. */
void out_escaped(struct out *o, const char *s, size_t len, char quote);
/* The same as a JSON string with its quotes. */
void out_json_string(struct out *o, const char *s, size_t len);
void out_json_utf16(struct out *o, const void *s, size_t bytes);
void out_escaped_utf16(struct out *o, const void *s, size_t bytes, char quote);

/* A whole JSON document of json-c, as one line; control characters that JSON lets pass (DEL, C1,
 * direction overrides) are escaped too. */
void out_json(struct out *o, struct json_object *doc);
/* The same as all that a verb prints. Takes doc; NULL: there was no memory for it. EXIT_OK, or an
 * exit code after a message. */
int print_json(struct json_object *doc);

/* A JSON string of text that may not be UTF-8: invalid bytes become U+FFFD. NULL gives null. */
struct json_object *json_text(const char *s);
struct json_object *json_guid(const void *sixteen_bytes);
/* FILETIME as RFC 3339; 0 gives null. */
struct json_object *json_filetime(uint64_t filetime);
struct json_object *json_hex(uint64_t v);
/* Any 64-bit number, exact. */
struct json_object *json_u64(uint64_t v);

/* Whether colour and headers are wanted on this stream. */
bool is_terminal(int fd);
bool want_colour(int fd);

/* A table for people: cells are escaped, columns as wide as their widest cell. */
struct table;
struct table *table_new(const char *const *columns, size_t n_columns);
struct table *table_free(struct table *t);
/* Columns that are numbers are put to the right. */
void table_align_right(struct table *t, size_t column);
int table_cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Header only when `legend` is set. */
void table_print(const struct table *t, struct out *o, bool legend);
