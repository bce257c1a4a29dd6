/* SPDX-License-Identifier: Apache-2.0
 *
 * What the consumer's tests share: synthetic files with known events, and a callback that notes
 * what it is given. Single-threaded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <evntcons.h>
#include <evntrace.h>

#include "lib/synthetic.h"
#include "lib/test.h"

/* One event as it came. */
struct noted {
    int64_t time;
    uint64_t id;   /* the first eight bytes of the data of events by synthetic_event() */
    unsigned file; /* UserContext */
    uint16_t cpu;
    bool header; /* class EventTrace */
};

struct notes {
    struct noted *events;
    size_t count;
    size_t capacity;
    size_t data;         /* events that are not of class EventTrace */
    size_t buffers;      /* BufferCallbacks */
    size_t cancel_after; /* BufferCallbacks until one returns FALSE; 0: never */
    EVENT_TRACE_LOGFILEA last_buffer;
};
extern struct notes notes;

static inline void notes_reset(void)
{
    free(notes.events);
    memset(&notes, 0, sizeof(notes));
}

void note_event(PEVENT_RECORD e);
ULONG note_buffer(PEVENT_TRACE_LOGFILEA lf);

/* Opens path with these callbacks in EVENT_RECORD mode and `extra` mode bits; fails the test when
 * it cannot. UserContext is `file`. */
TRACEHANDLE open_noted(const char *path, unsigned file, ULONG extra);
/* Open, process all with these bounds, close: the result must be SUCCESS. */
void process_noted(const char *path, FILETIME *start, FILETIME *end);

/* FILETIME of a stamp of a file with default parameters. */
static inline int64_t time_of(uint64_t stamp)
{
    return (int64_t) SYNTHETIC_START + ((int64_t) stamp - 1000) / 100;
}
static inline FILETIME filetime(int64_t t)
{
    return (FILETIME){.dwLowDateTime = (DWORD) t, .dwHighDateTime = (DWORD) ((uint64_t) t >> 32)};
}

/* A file of one data buffer with events 1..count at 2000, 3000, ... */
char *simple_file(const char *name, unsigned count);
/* A file of `buffers` data buffers with `each` events, one processor. */
char *long_file(const char *name, unsigned buffers, unsigned each);
