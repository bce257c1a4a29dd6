/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sessions: finding, counting, flushing, changing. Starting and stopping have their
 * own files. Loop thread only.
 */
#include "sessions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utf16.h"
#include "base/winerror.h"
#include "etwd_events.h"
#include "file_sink.h"
#include "io/files.h"
#include "io/loop.h"
#include "io/uid_workers.h"
#include "keep.h"
#include "kernel/logger.h"
#include "memory_sink.h"
#include "names.h"
#include "state/state.h"
#include "table.h"

/* That which the next session gets. */
static int generation_find(struct sessions *ss)
{
    struct state *st = ss->env.state;
    size_t size;
    int r = 0;

    ss->next_generation = state_block_find(st, STATE_DAEMON, STATE_DAEMON_SESSIONS, &size);
    if (ss->next_generation)
        return size == sizeof(uint64_t) ? 0 : -EBADMSG;
    state_begin(st);
    r = state_block_new(st, STATE_DAEMON, STATE_DAEMON_SESSIONS, sizeof(uint64_t),
                        (void **) &ss->next_generation);
    if (r == 0)
        *ss->next_generation = 1;
    state_commit(st);
    return r;
}

int sessions_new(const struct sessions_env *env, struct sessions **ret)
{
    int r;

    struct sessions *ss = calloc(1, sizeof(*ss));
    if (!ss)
        return -ENOMEM;
    ss->env = *env;
    session_clocks_init(&ss->clocks, env->cpu_mhz);
    r = generation_find(ss);
    if (r == 0 && state_kept(env->state))
        r = keeper_new(env->loop, env->state, &ss->keeper);
    if (r == 0)
        r = etwd_events_new(ss, &ss->events);
    if (r < 0) {
        sessions_free(ss);
        return r;
    }
    *ret = ss;
    return 0;
}

struct sessions *sessions_free(struct sessions *ss)
{
    if (!ss)
        return NULL;
    etwd_events_free(ss->events);
    while (ss->first) {
        struct session *s = ss->first;
        ss->first = s->next;
        session_free(s);
    }
    keeper_free(ss->keeper);
    if (!ss->env.state) /* else it stays for a successor */
        state_block_free(NULL, ss->next_generation);
    free(ss);
    return NULL;
}

void refuse_errno(struct refusal *f, int r, const char *what)
{
    (void) refuse(f, etw_winerror_from_errno(r), "%s: %s", what, strerror(-r));
}

/* The table, in the order of ids. */

int table_insert(struct sessions *ss, struct session *s)
{
    struct session **p = &ss->first;
    if (s->kernel) {
        s->id = ETW_KERNEL_LOGGER_ID;
        while (*p)
            p = &(*p)->next;
    } else if (strcasecmp(s->properties.name, GLOBAL_LOGGER_NAME) == 0)
        s->id = ETW_GLOBAL_LOGGER_ID; /* names are unique: it is free */
    else {
        uint32_t id = ETW_FIRST_LOGGER_ID;
        if (*p && (*p)->id == ETW_GLOBAL_LOGGER_ID)
            p = &(*p)->next;
        for (; *p && (*p)->id == id; p = &(*p)->next)
            id++;
        if (id >= ETW_KERNEL_LOGGER_ID)
            return -ENOSPC;
        s->id = (uint16_t) id;
    }
    s->next = *p;
    *p = s;
    state_begin(ss->env.state);
    state_save(ss->env.state, ss->next_generation, sizeof(*ss->next_generation));
    s->generation = (*ss->next_generation)++;
    state_commit(ss->env.state);
    ss->count++;
    return 0;
}

int table_restore(struct sessions *ss, struct session *s)
{
    struct session **p = &ss->first;
    while (*p && (*p)->id < s->id)
        p = &(*p)->next;
    if (*p && (*p)->id == s->id)
        return -EEXIST;
    s->next = *p;
    *p = s;
    ss->count++;
    return 0;
}

void table_remove(struct sessions *ss, struct session *s)
{
    for (struct session **p = &ss->first; *p; p = &(*p)->next) {
        if (*p != s)
            continue;
        *p = s->next;
        ss->count--;
        break;
    }
    keep_end(ss->keeper, s);
    session_free(s);
    if (ss->count > 0)
        return;
    etwd_events_watch(ss->events, 0);
    if (ss->shutting_down && ss->shutdown_done) {
        void (*done)(void *) = ss->shutdown_done;
        ss->shutdown_done = NULL;
        done(ss->shutdown_userdata);
    }
}

int table_file_check(const struct sessions *ss, int check_result, const char *check_why,
                     const struct file_facts *facts, const char *what, const char *path,
                     uint64_t bytes, struct refusal *refusal)
{
    uint64_t room;

    if (check_result < 0)
        return refuse(refusal, ETW_ERROR_BAD_PATHNAME, "%s '%.200s': %s", what, path, check_why);
    for (const struct session *s = ss->first; s; s = s->next)
        if (s->has_file && s->file_dev == facts->dev && s->file_ino == facts->ino)
            return refuse(refusal, ETW_ERROR_BAD_PATHNAME,
                          "%s '%.200s' is in use by session '%.200s'", what, path,
                          s->properties.name);
    /* What is in the file now is about to be free. */
    if (__builtin_add_overflow(facts->free_bytes, facts->size, &room))
        room = UINT64_MAX;
    if (bytes > room)
        return refuse(refusal, ETW_ERROR_DISK_FULL,
                      "%s '%.200s': MaximumFileSize is %llu bytes, and %llu are free", what, path,
                      (unsigned long long) bytes, (unsigned long long) room);
    return 0;
}

/* Bytes that its buffers may come to. */
static uint64_t memory_of(const struct session_properties *p, uint32_t buffer_bytes)
{
    uint32_t n = p->log_file_mode & ETL_MODE_BUFFERING
                     ? memory_sink_buffers(p->minimum_buffers, buffer_bytes)
                     : p->maximum_buffers;
    return (uint64_t) n * buffer_bytes;
}

int table_memory_check(const struct sessions *ss, uint32_t uid, const struct session *except,
                       const struct session_properties *p, uint32_t buffer_bytes,
                       struct refusal *refusal)
{
    const struct etw_conf *conf = ss->env.conf;
    uint64_t sum = memory_of(p, buffer_bytes);

    for (const struct session *s = ss->first; s; s = s->next)
        if (s != except && s->owner_uid == uid &&
            __builtin_add_overflow(sum, memory_of(&s->properties, s->buffer_bytes), &sum))
            sum = UINT64_MAX;
    if (sum <= (uint64_t) conf->max_buffer_memory_mb << 20)
        return 0;
    return refuse(refusal, ETW_ERROR_NO_SYSTEM_RESOURCES,
                  "%u buffers of %u KiB: quota of buffer memory of uid %u (MaxBufferMemoryMB=%lu)",
                  p->maximum_buffers, buffer_bytes / 1024, uid, conf->max_buffer_memory_mb);
}

unsigned sessions_count(const struct sessions *ss)
{
    return ss->count;
}

struct session *sessions_find_name(struct sessions *ss, const char *name)
{
    _cleanup_free_ char *folded = session_name_fold(name);
    if (!folded)
        return NULL;
    for (struct session *s = ss->first; s; s = s->next)
        if (s->state != SESSION_STARTING && strcmp(s->folded_name, folded) == 0)
            return s;
    return NULL;
}

struct session *sessions_find_handle(struct sessions *ss, uint64_t handle)
{
    uint16_t id = (uint16_t) handle;
    uint64_t generation = handle >> 16;
    for (struct session *s = ss->first; s; s = s->next)
        if (s->state != SESSION_STARTING && s->id == id)
            return generation == 0 || generation == s->generation ? s : NULL;
    return NULL;
}

struct session *sessions_next(struct sessions *ss, uint32_t after_id)
{
    for (struct session *s = ss->first; s; s = s->next)
        if (s->state != SESSION_STARTING && s->id > after_id)
            return s;
    return NULL;
}

void sessions_refresh(struct sessions *ss)
{
    if (ss->env.losses)
        ss->env.losses(ss->env.userdata);
    for (struct session *s = ss->first; s; s = s->next)
        if (s->kernel_tracing) {
            kernel_logger_sync_losses(ss->env.kernel);
            return;
        }
}

bool session_is_kernel(const struct session *s)
{
    return s->kernel;
}

bool session_is_trusted(const struct session *s)
{
    return s->trusted;
}

bool session_is_stopping(const struct session *s)
{
    return s->state != SESSION_RUNNING || s->stop || s->stop_wanted;
}

bool session_is_bound(const struct session *s)
{
    return s->bound;
}

uint32_t session_owner_uid(const struct session *s)
{
    return s->owner_uid;
}

uint32_t session_owner_pid(const struct session *s)
{
    return s->owner_pid;
}

uint64_t session_start_filetime(const struct session *s)
{
    return s->start_filetime;
}

uint32_t session_buffers(const struct session *s)
{
    return s->buffers ? buffers_allocated(s->buffers) : 0;
}

uint32_t session_buffers_free(const struct session *s)
{
    return s->buffers ? buffers_unused(s->buffers) : 0;
}

uint32_t session_streams(const struct session *s)
{
    return s->single ? 1 : s->n_streams;
}

/* FLUSH: what was stamped before this moment, then the partial buffers, then the header. The
 * session may end meanwhile, so it is found anew by its handle. */

struct flush_op {
    struct sessions *sessions;
    uint64_t handle;
    sessions_fn fn;
    void *userdata;
};

static void not_running(sessions_fn fn, void *userdata)
{
    struct refusal refusal;
    (void) refuse(&refusal, ETW_ERROR_WMI_INSTANCE_NOT_FOUND, "the session is not running");
    fn(&refusal, NULL, userdata);
}

static void flush_done(struct flush_op *op, int result)
{
    struct refusal refusal;
    struct session *s = sessions_find_handle(op->sessions, op->handle);
    if (!s)
        not_running(op->fn, op->userdata);
    else if (result < 0) {
        refuse_errno(&refusal, result, "the log file could not be written");
        op->fn(&refusal, s, op->userdata);
    } else
        op->fn(NULL, s, op->userdata);
    free(op);
}

static void flush_written(int result, void *userdata)
{
    flush_done(userdata, result);
}

static void flush_drained(bool complete, void *userdata)
{
    struct flush_op *op = userdata;
    int r;

    struct session *s = sessions_find_handle(op->sessions, op->handle);
    if (!s || s->state != SESSION_RUNNING) {
        /* Its end flushes it. */
        flush_done(op, 0);
        return;
    }
    state_begin(s->kept);
    sessions_refresh(op->sessions);
    if (!s->memory)
        session_flush(s, false);
    state_commit(s->kept);
    if (s->memory) { /* only a snapshot writes */
        flush_done(op, 0);
        return;
    }
    r = file_sink_sync(s->sink, flush_written, op);
    if (r < 0)
        flush_done(op, r);
}

void sessions_flush(struct sessions *ss, struct session *s, sessions_fn fn, void *userdata)
{
    struct refusal refusal;
    int r;

    if (s->state != SESSION_RUNNING) {
        (void) refuse(&refusal, ETW_ERROR_ACTIVE_CONNECTIONS, "the session is being stopped");
        fn(&refusal, NULL, userdata);
        return;
    }
    struct flush_op *op = malloc(sizeof(*op));
    if (!op) {
        refuse_errno(&refusal, -ENOMEM, "the session could not be flushed");
        fn(&refusal, NULL, userdata);
        return;
    }
    *op = (struct flush_op){
        .sessions = ss, .handle = session_handle(s), .fn = fn, .userdata = userdata};
    r = router_drain(ss->env.router, etw_clock_boottime(), flush_drained, op);
    if (r < 0)
        flush_drained(false, op);
}

/* MARK. */

#define MARK_CONTEXT 64

struct mark_op {
    struct sessions *sessions;
    char *text;
    bool (*may)(const void *context, const struct session *s);
    _Alignas(16) uint8_t context[MARK_CONTEXT];
    void (*done)(unsigned marked, void *userdata);
    void *userdata;
};

static void mark_drained(bool complete, void *userdata)
{
    struct mark_op *op = userdata;
    struct sessions *ss = op->sessions;
    unsigned marked = 0;

    state_begin(ss->env.state);
    uint64_t stamp = router_time(ss->env.router);
    for (struct session *s = ss->first; s; s = s->next) {
        if (s->state != SESSION_RUNNING || !op->may(op->context, s))
            continue;
        etwd_events_mark(s, stamp, op->text);
        marked++;
    }
    state_commit(ss->env.state);
    op->done(marked, op->userdata);
    free(op->text);
    free(op);
}

void sessions_mark(struct sessions *ss, const char *text,
                   bool (*may)(const void *context, const struct session *s), const void *context,
                   size_t context_size, void (*done)(unsigned marked, void *userdata),
                   void *userdata)
{
    struct mark_op *op = calloc(1, sizeof(*op));
    if (op)
        op->text = strdup(text);
    if (!op || !op->text || context_size > sizeof(op->context)) {
        free(op);
        done(0, userdata);
        return;
    }
    op->sessions = ss;
    op->may = may;
    memcpy(op->context, context, context_size);
    op->done = done;
    op->userdata = userdata;
    if (router_drain(ss->env.router, etw_clock_boottime(), mark_drained, op) < 0)
        mark_drained(false, op);
}

/* UPDATE. */

struct update_op {
    struct sessions *sessions;
    struct session *session;
    uint32_t flags, inert_flags;
    uint32_t masks[8];
    sessions_fn fn;
    void *userdata;
};

static int update_check(struct sessions *ss, const struct session *s,
                        const struct session_properties *p, struct session_plan *plan,
                        struct refusal *refusal)
{
    if (s->memory && ((p->log_file && p->log_file[0]) || (p->log_file_mode & ETL_MODE_REAL_TIME)))
        return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                      "a session in buffering mode has neither a log file nor live delivery");
    if (p->log_file && p->log_file[0]) {
        if (s->properties.log_file && strcmp(p->log_file, s->properties.log_file) == 0)
            return refuse(refusal, ETW_ERROR_BAD_PATHNAME,
                          "the session writes to this log file already");
        if (s->properties.log_file_mode & ETL_MODE_APPEND)
            return refuse(
                refusal, ETW_ERROR_NOT_SUPPORTED,
                "this etwd does not have changing the log file of a session that appends");
        if (p->log_file[0] != '/' || etw_utf8_to_utf16_size(p->log_file, SIZE_MAX) > ETW_NAME_MAX)
            return refuse(refusal, ETW_ERROR_BAD_PATHNAME,
                          "the log file's path is not absolute, or longer than %d characters",
                          ETW_NAME_MAX);
    }
    if ((p->log_file_mode & ETL_MODE_REAL_TIME) &&
        !(s->properties.log_file_mode & ETL_MODE_REAL_TIME))
        return refuse(refusal, ETW_ERROR_NOT_SUPPORTED,
                      "this etwd does not have real-time delivery yet");
    if (!s->memory && p->maximum_buffers > s->properties.maximum_buffers) {
        struct session_properties wanted = s->properties;
        wanted.maximum_buffers = p->maximum_buffers;
        int r = table_memory_check(ss, s->owner_uid, s, &wanted, s->buffer_bytes, refusal);
        if (r < 0)
            return r;
    }
    return s->kernel ? session_flags_check(p->enable_flags, true, plan, refusal) : 0;
}

static void update_done(int result, void *userdata)
{
    struct update_op *op = userdata;
    struct session *s = op->session;
    struct refusal refusal;

    s->updating = false;
    if (result == 0) {
        session_touch(s);
        memcpy(s->masks, op->masks, sizeof(s->masks));
        s->properties.enable_flags = op->flags;
        s->inert_flags = op->inert_flags;
        op->fn(NULL, s, op->userdata);
    } else {
        refuse_errno(&refusal, result, "the kernel's events could not be changed");
        op->fn(&refusal, s, op->userdata);
    }
    struct sessions *ss = op->sessions;
    free(op);
    session_now_running(ss, s);
}

/* What holds at once; the buffers have their new number. */
static void update_apply(struct session *s, const struct session_properties *p)
{
    struct state *st = s->kept;

    state_begin(st);
    session_touch(s);
    if (!s->memory) {
        if (buffers_maximum(s->buffers) > s->properties.maximum_buffers)
            keep_resize(s);
        s->properties.maximum_buffers = buffers_maximum(s->buffers);
    }
    if (p->flush_timer_s != 0 && !s->memory) {
        bool ms = s->properties.log_file_mode & ETL_MODE_USE_MS_FLUSH_TIMER;
        s->properties.flush_timer_s =
            ms && p->flush_timer_s < ETWD_FLUSH_MS_MIN ? ETWD_FLUSH_MS_MIN : p->flush_timer_s;
        session_set_flush_timer(s);
    }
    /* Given: kept; LogFileMode without it ends live delivery. */
    if (!(p->log_file_mode & ETL_MODE_REAL_TIME))
        s->properties.log_file_mode &= ~(uint32_t) ETL_MODE_REAL_TIME;
    state_commit(st);
    /* A router that sleeps until rings are half full does so no more under a flush timer. */
    router_kick(s->table->env.router);
}

static int update_possible(const struct session *s, struct refusal *refusal)
{
    if (s->state != SESSION_RUNNING || s->stop_wanted)
        return refuse(refusal, ETW_ERROR_ACTIVE_CONNECTIONS, "the session is being stopped");
    if (s->updating)
        return refuse(refusal, ETW_ERROR_BUSY, "another change of the session is under way");
    return 0;
}

/* The kernel's part, whose answer comes later. */
static void flags_change(struct update_op *op, struct sessions *ss, struct session *s,
                         uint32_t flags, const struct session_plan *plan, sessions_fn fn,
                         void *userdata)
{
    int r;

    *op = (struct update_op){
        .sessions = ss,
        .session = s,
        .flags = flags,
        .inert_flags = plan->inert_flags,
        .fn = fn,
        .userdata = userdata,
    };
    memcpy(op->masks, plan->masks, sizeof(op->masks));
    s->updating = true;
    r = kernel_logger_update(ss->env.kernel, s, op->masks, update_done, op);
    if (r < 0)
        update_done(r, op);
}

/* UPDATE without, or after, another log file. */
static void update_rest(struct sessions *ss, struct session *s, const struct session_properties *p,
                        sessions_fn fn, void *userdata)
{
    struct session_plan plan = {0};
    struct refusal refusal;
    int r;

    r = update_possible(s, &refusal);
    if (r == 0)
        r = update_check(ss, s, p, &plan, &refusal);
    if (r < 0) {
        fn(&refusal, NULL, userdata);
        return;
    }
    struct update_op *op = malloc(sizeof(*op));
    r = op ? 0 : -ENOMEM;
    if (r == 0 && !s->memory && p->maximum_buffers > s->properties.maximum_buffers)
        r = buffers_set_maximum(s->buffers, p->maximum_buffers);
    if (r < 0) {
        free(op);
        refuse_errno(&refusal, r, "the session could not be changed");
        fn(&refusal, NULL, userdata);
        return;
    }
    update_apply(s, p);
    if (!s->kernel || p->enable_flags == s->properties.enable_flags) {
        free(op);
        fn(NULL, s, userdata);
        return;
    }
    flags_change(op, ss, s, p->enable_flags, &plan, fn, userdata);
}

void sessions_set_flags(struct sessions *ss, struct session *s, uint32_t flags, sessions_fn fn,
                        void *userdata)
{
    struct session_plan plan = {0};
    struct refusal refusal;
    struct update_op *op = NULL;
    int r;

    r = update_possible(s, &refusal);
    if (r == 0 && !s->kernel && flags != 0)
        r = refuse(&refusal, ETW_ERROR_INVALID_PARAMETER,
                   "session '%.200s' is no system logger: it has no kernel events",
                   s->properties.name);
    if (r == 0 && s->kernel)
        r = session_flags_check(flags, true, &plan, &refusal);
    if (r == 0 && s->kernel && flags != s->properties.enable_flags) {
        op = malloc(sizeof(*op));
        if (!op) {
            refuse_errno(&refusal, -ENOMEM, "the session could not be changed");
            r = -ENOMEM;
        }
    }
    if (op)
        flags_change(op, ss, s, flags, &plan, fn, userdata);
    else
        fn(r < 0 ? &refusal : NULL, r < 0 ? NULL : s, userdata);
}

struct update_turn {
    struct sessions *sessions;
    struct session *session;
    struct session_properties properties; /* without strings */
    sessions_fn fn;
    void *userdata;
};

static void update_turned(const struct refusal *refusal, void *userdata)
{
    struct update_turn *op = userdata;
    struct session *s = op->session;

    if (refusal)
        op->fn(refusal, s, op->userdata);
    else
        update_rest(op->sessions, s, &op->properties, op->fn, op->userdata);
    if (!s->updating)
        session_now_running(op->sessions, s);
    free(op);
}

void sessions_update(struct sessions *ss, struct session *s, const struct session_properties *p,
                     int fd, sessions_fn fn, void *userdata)
{
    struct session_plan plan = {0};
    struct refusal refusal;
    bool file = p->log_file && p->log_file[0];

    if (!file || s->state != SESSION_RUNNING || s->stop_wanted || s->updating) {
        uid_worker_close(s->workers, fd);
        update_rest(ss, s, p, fn, userdata);
        return;
    }
    int r = update_check(ss, s, p, &plan, &refusal);
    if (r == 0 && fd < 0)
        r = refuse(&refusal, ETW_ERROR_INVALID_PARAMETER,
                   "the request names a log file, but brings no descriptor of it");
    struct update_turn *op = r == 0 ? malloc(sizeof(*op)) : NULL;
    if (r == 0 && !op) {
        r = -ENOMEM;
        refuse_errno(&refusal, r, "the session could not be changed");
    }
    if (r < 0) {
        uid_worker_close(s->workers, fd);
        fn(&refusal, NULL, userdata);
        return;
    }
    *op = (struct update_turn){
        .sessions = ss, .session = s, .properties = *p, .fn = fn, .userdata = userdata};
    op->properties.name = op->properties.log_file = NULL;
    session_turn(s, fd, p->log_file, update_turned, op);
}

void sessions_connection_gone(struct sessions *ss, uint64_t connection)
{
    for (struct session *s = ss->first, *next; s; s = next) {
        next = s->next;
        if (!s->bound || s->connection != connection)
            continue;
        if (s->state == SESSION_RUNNING)
            sessions_stop(ss, s, NULL, NULL);
        else
            s->stop_wanted = true;
    }
}

void sessions_shutdown(struct sessions *ss, void (*done)(void *userdata), void *userdata)
{
    ss->shutting_down = true;
    if (ss->count == 0) {
        done(userdata);
        return;
    }
    ss->shutdown_done = done;
    ss->shutdown_userdata = userdata;
    for (struct session *s = ss->first, *next; s; s = next) {
        next = s->next;
        if (s->state == SESSION_RUNNING)
            sessions_stop(ss, s, NULL, NULL);
        else
            s->stop_wanted = true;
    }
}

void sessions_tell_left(const struct sessions *ss)
{
    for (const struct session *s = ss->first; s; s = s->next)
        log_error("session '%s': file '%s' could not be finished within %lu s (ShutdownTimeout): "
                  "somebody holds it, and it is left as it is",
                  s->properties.name, s->properties.log_file ? s->properties.log_file : "snapshot",
                  ss->env.conf->shutdown_timeout);
}
