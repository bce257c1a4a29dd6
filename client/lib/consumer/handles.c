/* SPDX-License-Identifier: Apache-2.0
 *
 * The process-wide table of traces opened by OpenTrace, and CloseTrace. A handle is
 * generation << 32 | index; a slot's generation changes at every use, so a closed or forged handle
 * is told from an open one. Any thread; one lock, never held while the program's code runs.
 *
 * Who frees a trace: CloseTrace, or, when a thread is in ProcessTrace with it, that thread at the
 * end.
 */
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"

struct slot {
    struct trace *trace; /* NULL: free */
    uint32_t generation; /* of the trace in it, or of the last one */
};

static struct {
    pthread_mutex_t lock;
    struct slot *slots;
    uint32_t count;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t atfork_once = PTHREAD_ONCE_INIT;

static void fork_prepare(void)
{
    (void) pthread_mutex_lock(&table.lock);
    faults_fork_prepare();
}

static void fork_parent(void)
{
    faults_fork_parent();
    (void) pthread_mutex_unlock(&table.lock);
}

static void fork_child(void)
{
    faults_fork_child();
    (void) pthread_mutex_unlock(&table.lock);
}

static void register_atfork(void)
{
    (void) pthread_atfork(fork_prepare, fork_parent, fork_child);
}

struct trace *trace_new(void)
{
    return calloc(1, sizeof(struct trace));
}

struct trace *trace_free(struct trace *t)
{
    if (!t)
        return NULL;
    t->file = etl_file_free(t->file);
    free(t->log_file_name);
    free(t->logger_name);
    free(t->header_logger_name);
    free(t->header_log_file_name);
    free(t);
    return NULL;
}

/* The slot of an open handle, NULL for anything else. */
static struct slot *slot_of(TRACEHANDLE handle)
{
    uint32_t index = (uint32_t) handle;
    struct slot *s;

    if (index >= table.count)
        return NULL;
    s = &table.slots[index];
    return s->trace && s->generation == (uint32_t) (handle >> 32) ? s : NULL;
}

static int slot_reserve(struct slot **ret)
{
    struct slot *slots;
    uint32_t count;

    for (uint32_t i = 0; i < table.count; i++)
        if (!table.slots[i].trace) {
            *ret = &table.slots[i];
            return 0;
        }
    if (table.count >= ETW_TRACE_HANDLES_MAX)
        return -EMFILE;
    count = table.count ? table.count * 2 : 8;
    slots = reallocarray(table.slots, count, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    for (uint32_t i = table.count; i < count; i++)
        slots[i] = (struct slot){0};
    *ret = &slots[table.count];
    table.slots = slots;
    table.count = count;
    return 0;
}

int trace_publish(struct trace *t, TRACEHANDLE *ret_handle)
{
    struct slot *s;
    int r;

    (void) pthread_once(&atfork_once, register_atfork);
    (void) pthread_mutex_lock(&table.lock);
    r = slot_reserve(&s);
    if (r >= 0) {
        /* 0 would make handle 0 possible, all ones INVALID_PROCESSTRACE_HANDLE. */
        s->generation = s->generation >= UINT32_MAX - 1 ? 1 : s->generation + 1;
        s->trace = t;
        t->handle = (uint64_t) s->generation << 32 | (uint64_t) (s - table.slots);
        *ret_handle = t->handle;
    }
    (void) pthread_mutex_unlock(&table.lock);
    return r < 0 ? r : 0;
}

bool traces_claim(const TRACEHANDLE *handles, unsigned count, struct trace **ret_traces)
{
    unsigned taken;

    (void) pthread_mutex_lock(&table.lock);
    for (taken = 0; taken < count; taken++) {
        struct slot *s = slot_of(handles[taken]);

        if (!s || s->trace->state != TRACE_OPEN)
            break;
        s->trace->state = TRACE_PROCESSING;
        ret_traces[taken] = s->trace;
    }
    if (taken < count)
        for (unsigned i = 0; i < taken; i++)
            ret_traces[i]->state = TRACE_OPEN;
    (void) pthread_mutex_unlock(&table.lock);
    return taken == count;
}

void traces_release(struct trace *const *traces, unsigned count, enum trace_outcome outcome)
{
    for (unsigned i = 0; i < count; i++) {
        struct trace *t = traces[i];
        struct trace *dead = NULL;
        struct etl_file *file = NULL;

        (void) pthread_mutex_lock(&table.lock);
        if (atomic_load(&t->closed)) {
            dead = t;
        } else if (outcome == TRACE_THROWN) {
            slot_of(t->handle)->trace = NULL;
            dead = t;
        } else if (outcome == TRACE_UNTOUCHED) {
            t->state = TRACE_OPEN;
        } else {
            t->state = TRACE_DONE;
            if (outcome == TRACE_PROCESSED) {
                file = t->file;
                t->file = NULL;
            }
        }
        (void) pthread_mutex_unlock(&table.lock);
        etl_file_free(file);
        trace_free(dead);
    }
}

ULONG WMIAPI CloseTrace(TRACEHANDLE TraceHandle)
{
    struct trace *t = NULL;
    struct slot *s;
    ULONG code;

    (void) pthread_mutex_lock(&table.lock);
    s = slot_of(TraceHandle);
    if (!s) {
        code = ERROR_INVALID_HANDLE;
    } else if (s->trace->state == TRACE_PROCESSING) {
        atomic_store(&s->trace->closed, true);
        s->trace = NULL;
        code = ERROR_CTX_CLOSE_PENDING;
    } else {
        t = s->trace;
        s->trace = NULL;
        code = ERROR_SUCCESS;
    }
    (void) pthread_mutex_unlock(&table.lock);
    trace_free(t);
    if (code != ERROR_SUCCESS)
        SetLastError(code);
    return code;
}
