/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of cases.tsv: one call each. A row names a function, a condition under which it is
 * called ("word" or "word:argument"), and the code that is documented for it. Conditions are C
 * functions: they get a call that would succeed, spoil it, and make it.
 */
#pragma once

#include "lib/test.h"

#include <stdlib.h>

#include <evntcons.h>

#include "../properties.h"

enum family {
    START = 1,
    KERNEL = 2,
    CONTROL = 4,
    ALL = 8,
    ENABLE = 16,
    GUIDS = 32,
    GUIDS_EX = 64,
    SET = 128,
    QUERY = 256,
    OPEN = 512,
    PROCESS = 1024,
    CLOSE = 2048,
    PROVIDER = 4096,
};

struct function {
    const char *name;
    enum family family;
    bool wide;
    ULONG control; /* ControlTrace's code */
};

/* What the next call passes. */
struct call {
    const struct function *f;
    bool as_user; /* uid 65534, from the call on */
    struct test_properties t;
    EVENT_TRACE_PROPERTIES *p;
    const char *name; /* ASCII */
    TRACEHANDLE handle, *out;
    /* kernel */
    const STACK_TRACING_EVENT_ID *stacks;
    ULONG n_stacks;
    /* enables */
    const GUID *provider;
    ULONG code, level, timeout;
    ENABLE_TRACE_PARAMETERS *parameters;
    /* lists and information */
    void *array, *in, *data;
    ULONG n, in_size, size, class, *length;
    /* consumers */
    EVENT_TRACE_LOGFILEA *log_a;
    EVENT_TRACE_LOGFILEW *log_w;
    TRACEHANDLE *handles;
    FILETIME *from, *to;
};

typedef ULONG (*condition_fn)(struct call *c, const char *argument);

struct condition {
    unsigned families;
    const char *name;
    condition_fn fn;
};

/* Ends with a NULL name. */
extern const struct condition session_conditions[];
extern const struct condition other_conditions[];

/* cases.c */
/* Makes the call. */
ULONG call_now(struct call *c);
/* A plain session as root; fails the test when it cannot be had. */
TRACEHANDLE session_start(const char *name, const char *file);
ULONG session_query(const char *name);
void file_name_set(struct call *c, const char *file);
/* Nobody listens where the library looks for etwd. */
void daemon_away(void);

/* ---- what all of them need ---- */

static inline ULONG number(const char *s)
{
    return (ULONG) strtoul(s, NULL, 0);
}

static inline ULONG plain(struct call *c, const char *a)
{
    (void) a;
    return call_now(c);
}

static inline ULONG no_daemon(struct call *c, const char *a)
{
    (void) a;
    daemon_away();
    return call_now(c);
}

static inline ULONG handle_is(struct call *c, const char *a)
{
    c->handle = strtoull(a, NULL, 0);
    return call_now(c);
}
