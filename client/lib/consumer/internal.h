/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the consumer share: a trace opened for reading (handles.c, open.c), the frame
 * that catches faults of callbacks (signals.c), the merge by time (merge.c), delivery (deliver.c).
 * Nothing here is exported. One thread processes a trace; the table of handles has its own lock.
 *
 * Memory: everything that ProcessTrace needs beyond the handles comes from mmap(2), never from
 * malloc(3). A callback may die while it holds malloc's locks; releasing what it left behind must
 * not wait for them.
 */
#pragma once

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <evntcons.h>
#include <evntrace.h>

#include "base/limits.h"
#include "etl/file.h"

/* ---- handles.c: the table of open traces ---- */

enum trace_state {
    TRACE_OPEN,       /* OpenTrace made it */
    TRACE_PROCESSING, /* a thread is in ProcessTrace with it */
    TRACE_DONE,       /* processed: only CloseTrace is left */
};

/* What a TRACEHANDLE of OpenTrace stands for. Fields without a remark are set before the handle is
 * published and read by anybody, or belong to the thread that processes it. */
struct trace {
    TRACEHANDLE handle;
    enum trace_state state; /* under the table's lock */
    atomic_bool closed; /* CloseTrace took it out of the table; the processing thread frees it */
    bool real_time;
    bool raw_timestamp; /* stamps as in the file */
    struct etl_file *file;
    struct etw_timebase timebase;
    PEVENT_TRACE_BUFFER_CALLBACKW buffer_callback;
    PEVENT_CALLBACK event_callback;
    PEVENT_RECORD_CALLBACK record_callback;
    PVOID context;
    /* What BufferCallback is shown: our copy of the caller's structure, since that may be gone. */
    EVENT_TRACE_LOGFILEW logfile;
    /* Owners of the strings that `logfile` and the caller's structure point to. */
    void *log_file_name;          /* as the caller gave it, in its encoding */
    void *logger_name;            /* in the caller's encoding */
    uint16_t *header_logger_name; /* UTF-16: the header's type is LPWSTR in both variants */
    uint16_t *header_log_file_name;
};

/* NULL when memory is short. */
struct trace *trace_new(void);
/* Frees one that is not in the table. */
struct trace *trace_free(struct trace *t);
static inline void trace_freep(struct trace **t)
{
    *t = trace_free(*t);
}

/* Puts t, owned by the table from then on, into the table. 0, -ENOMEM, -EMFILE: too many. */
int trace_publish(struct trace *t, TRACEHANDLE *ret_handle);

/* Takes every handle for this thread's ProcessTrace. False: one is not open, processed already, or
 * named twice; then none is taken. */
bool traces_claim(const TRACEHANDLE *handles, unsigned count, struct trace **ret_traces);

enum trace_outcome {
    TRACE_UNTOUCHED, /* nothing was delivered: the handle can still be processed */
    TRACE_PROCESSED, /* the file is closed, the handle waits for CloseTrace */
    TRACE_FAULTED,   /* the same, but malloc(3) must not be used: the file stays until CloseTrace */
    TRACE_THROWN,    /* an exception leaves ProcessTrace: the handle is closed */
};
/* Gives claimed traces back. */
void traces_release(struct trace *const *traces, unsigned count, enum trace_outcome outcome);

/* ---- signals.c: faults of callbacks ---- */

/* One thread's stay in ProcessTrace. */
struct fault_frame {
    sigjmp_buf env;                    /* set by the caller after faults_enter() */
    volatile sig_atomic_t in_callback; /* the program's code runs */
    struct fault_frame *previous;      /* a callback may call ProcessTrace again */
    sigset_t reblock;                  /* what we unblocked */
    void *stack;                       /* our alternate stack, or NULL */
    size_t stack_size;
};

void faults_enter(struct fault_frame *f);
void faults_leave(struct fault_frame *f);

/* Around fork(2), called by handles.c: the lock of this file is free in the child too. */
void faults_fork_prepare(void);
void faults_fork_parent(void);
void faults_fork_child(void);

/* ---- deliver.c: events as the callbacks see them ---- */

struct delivery {
    struct fault_frame *frame;
    bool bounded; /* start and end apply */
    uint64_t start;
    uint64_t end;
    EVENT_RECORD record;
    EVENT_TRACE event;
    EVENT_HEADER_EXTENDED_DATA_ITEM items[ETW_EVENT_MAX / 8 + 1];
};

/* Hands one event to the program. `stamp`: its own raw stamp, or that of its place in the buffer
 * where the event has none. */
void deliver_event(struct delivery *d, struct trace *t, const struct etl_buffer_info *info,
                   const struct etl_event *e, uint64_t stamp);
/* Calls BufferCallback after the last event of a buffer (`last` may be NULL: it had none). False:
 * the program wants no more. */
bool deliver_buffer(struct delivery *d, struct trace *t, const struct etl_buffer_info *info,
                    const struct etl_event *last, uint64_t last_stamp);

/* ---- merge.c: all events of all files by time ---- */

struct merge;

/* Indexes the files and prepares to deliver. 0; -ENOMEM; -errno of read.
 * The traces and d stay the caller's. */
int merge_new(struct trace *const *traces, unsigned count, struct delivery *d, struct merge **ret);
struct merge *merge_free(struct merge *m);
/* Delivers everything. 0; -ECANCELED: a BufferCallback said so; -errno of read. Runs callbacks:
 * may be left by longjmp or by an exception at any of them, after which only merge_free(). */
int merge_run(struct merge *m);
