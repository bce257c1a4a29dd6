/* SPDX-License-Identifier: Apache-2.0
 *
 * What the system tests of providers share: the test provider (provider-program.c) as a child,
 * sessions by libetw's functions, and the checks of what lies in their files. Helpers fail the
 * running test. Single-threaded. Their main calls provider_tests_init() with its arguments; the
 * first one is the path of the test provider.
 */
#pragma once

#include <evntcons.h>
#include <evntrace.h>

#include "etl/iterate.h"
#include "lib/test.h"
#include "numbered.h"

void provider_tests_init(int argc, char **argv);
/* Whether everything runs many times slower than it would. */
bool slow_build(void);
/* /path/to/provider-program */
const char *provider_program(void);

/* ---- the test provider ---- */

struct provider {
    pid_t pid;
    struct numbered_page *page;
    char *path;
};
/* provider_start(&p, "threads=4", "count=100"); */
#define provider_start(ret, ...)                                                                   \
    provider_start_args((ret), (const char *const[]){"", ##__VA_ARGS__, NULL} + 1)
void provider_start_args(struct provider *ret, const char *const args[]);
/* Until this many of its threads are enabled and about to write. */
void provider_wait_ready(const struct provider *p, unsigned threads);
/* Its end; the status must be 0. */
void provider_end(struct provider *p);
/* SIGKILL, and waits. */
void provider_kill(struct provider *p);
void provider_free(struct provider *p);
uint64_t provider_returned(const struct provider *p);
uint64_t provider_ring_full(const struct provider *p);
/* Every call: returned + ring_full + other. */
uint64_t provider_attempts(const struct provider *p);

/* A child of the test that keeps a processor busy at the lowest priority; provider_hog_end(). */
pid_t hog_start(int cpu);
void hog_end(pid_t pid);

/* ---- sessions ---- */

/* A session with a file; 0 for the numbers: the daemon's choice. */
TRACEHANDLE session_start(const char *name, const char *file, ULONG buffer_kb, ULONG minimum,
                          ULONG maximum, ULONG mode);
/* Of NUMBERED_GUID(guid), everything. */
void session_enable(TRACEHANDLE session, unsigned guid);
void session_enable_guid(TRACEHANDLE session, const GUID *guid, UCHAR level, ULONGLONG any,
                         ULONGLONG all);

struct session_counts {
    uint64_t written, recorded, overwritten;
    uint64_t lost; /* the sum */
    uint64_t ring_full, nested, too_big, no_buffer, disk, invalid, slow_consumer;
    uint64_t buffers_written;
};
/* Stops it; what it had counted. The identity is checked. */
struct session_counts session_stop(const char *name);
/* The same while it runs. */
struct session_counts session_show(const char *name);

/* ---- files ---- */

#define TALLY_SOURCES 1024

struct tally_source {
    uint64_t count;
    uint64_t next;      /* the last number + 1 */
    uint64_t left_out;  /* numbers below the last one that did not come */
    uint64_t backwards; /* events with a number that was there or passed */
    uint32_t pid, tid;
    bool mixed; /* events of several threads */
};

/* What ProcessTrace says. */
struct tally {
    uint64_t events;   /* all, without the log-file header's class */
    uint64_t ours;     /* of NUMBERED_GUID providers */
    uint64_t bad;      /* of these, not as they were written */
    uint64_t unsorted; /* stamps before the one ahead */
    uint64_t events_lost;
    struct tally_source sources[TALLY_SOURCES];
};
/* Also walks the buffers: in none may time go backwards; their events are those of ProcessTrace;
 * nothing is damaged. */
void tally_file(struct tally *ret, const char *path);
/* Source s has the numbers 0 .. count-1, each once and in order. */
void tally_complete(const struct tally *t, uint32_t source, uint64_t count);
/* Nothing that nobody wrote, nothing twice, and all in order, whatever was lost. */
void tally_sound(const struct tally *t);

struct walk {
    uint64_t buffers;
    uint64_t events;    /* without those of the first buffer, which describes the file */
    uint64_t ours;      /* of NUMBERED_GUID providers */
    uint64_t backwards; /* stamps before the one ahead in the same buffer */
    uint64_t late; /* buffers that begin before the one ahead of them on their processor ended */
    uint64_t events_lost, buffers_written;
    bool whole; /* complete and undamaged */
};
void walk_file(struct walk *ret, const char *path);
