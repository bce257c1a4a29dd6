/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting a session: checks and the table; the descriptor's checks on the worker; buffers; the
 * kernel's probes; the file's first buffer on the worker. The file is touched last, so that a start
 * that fails leaves it as it was; whatever fails takes back all that came before. Loop thread only.
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
#include "clock.h"
#include "etl/append.h"
#include "etwd_events.h"
#include "file_sink.h"
#include "io/files.h"
#include "io/uid_workers.h"
#include "keep.h"
#include "kernel/logger.h"
#include "memory_sink.h"
#include "names.h"
#include "router/router.h"
#include "state/state.h"
#include "table.h"

/* EVENT_TRACE_FLAG_NO_SYSCONFIG */
#define FLAG_NO_SYSCONFIG 0x10000000u

struct start_op {
    struct sessions *sessions;
    struct session *session;
    struct session_plan plan;
    struct uid_worker *workers;
    bool trusted;
    int fd;
    sessions_fn fn;
    void *userdata;
    uint16_t *name16, *file16;
    /* Of the worker's check; which file systems, as it was configured when it began. */
    char extra[ETW_CONF_TEXT_MAX];
    bool patient;
    int check_result;
    const char *check_why;
    struct file_facts facts;
    struct etl_append *append; /* NULL: the file begins anew */
    enum etl_append_fault append_fault;
    const char *append_why;
    /* Why it ends, while the kernel's probes are taken back. */
    struct refusal refusal;
};

static struct start_op *start_op_free(struct start_op *op)
{
    if (!op)
        return NULL;
    uid_worker_close(op->workers, op->fd);
    uid_worker_put(op->workers);
    free(op->name16);
    free(op->file16);
    free(op->append);
    free(op);
    return NULL;
}

static void start_fail(struct start_op *op)
{
    op->fn(&op->refusal, NULL, op->userdata);
    if (op->session)
        table_remove(op->sessions, op->session);
    start_op_free(op);
}

static void start_fail_errno(struct start_op *op, int r, const char *what)
{
    refuse_errno(&op->refusal, r, what);
    start_fail(op);
}

/* Who has the sessions: "uid 0 has 60, uid 1000 has 4". */
static const char *holders(const struct sessions *ss, char *text, size_t size)
{
    struct {
        uint32_t uid;
        unsigned n;
    } users[8];
    unsigned n_users = 0, others = 0;
    size_t used = 0;

    for (const struct session *s = ss->first; s; s = s->next) {
        unsigned i = 0;
        while (i < n_users && users[i].uid != s->owner_uid)
            i++;
        if (i == ARRAY_SIZE(users)) {
            others++;
            continue;
        }
        if (i == n_users) {
            users[n_users].uid = s->owner_uid;
            users[n_users++].n = 0;
        }
        users[i].n++;
    }
    for (unsigned i = 0; i < n_users && used < size; i++)
        used += (size_t) snprintf(text + used, size - used, "%suid %u has %u", i ? ", " : "",
                                  users[i].uid, users[i].n);
    if (others > 0 && used < size)
        (void) snprintf(text + used, size - used, ", others have %u", others);
    return text;
}

static void store_full(struct start_op *op)
{
    (void) refuse(&op->refusal, ETW_ERROR_NO_SYSTEM_RESOURCES,
                  "etwd has no room left in its descriptor store (FdStoreMax=%lu)",
                  op->sessions->env.conf->fd_store_max);
    start_fail(op);
}

/* The names, numbers and memory that it wants are free. */
static int room_check(struct sessions *ss, const struct session_request *req,
                      const struct session_plan *plan, const char *folded, struct refusal *refusal)
{
    const struct etw_conf *conf = ss->env.conf;
    const struct session_properties *p = &req->properties;
    unsigned own = 0;
    char held[256] = "";

    if (ss->shutting_down)
        return refuse(refusal, ETW_ERROR_NO_SYSTEM_RESOURCES, "etwd is shutting down");
    for (const struct session *s = ss->first; s; s = s->next) {
        if (strcmp(s->folded_name, folded) == 0 || etw_guid_equal(&s->properties.guid, &p->guid))
            return refuse(refusal, ETW_ERROR_ALREADY_EXISTS,
                          "session '%.200s' exists already, started by uid %u, pid %u",
                          s->properties.name, s->owner_uid, s->owner_pid);
        own += s->owner_uid == req->uid;
    }
    if (ss->count >= conf->max_sessions)
        return refuse(refusal, ETW_ERROR_NO_SYSTEM_RESOURCES,
                      "%u sessions run, which is the limit (MaxSessions=%lu): %s", ss->count,
                      conf->max_sessions, holders(ss, held, sizeof(held)));
    if (!req->privileged && own >= conf->max_sessions_per_user)
        return refuse(refusal, ETW_ERROR_NO_SYSTEM_RESOURCES,
                      "quota of sessions of uid %u (MaxSessionsPerUser=%lu)", req->uid,
                      conf->max_sessions_per_user);
    int r = table_memory_check(ss, req->uid, NULL, p, p->buffer_size_kb * 1024, refusal);
    if (r < 0)
        return r;
    /* Its handle is known before it is there: nobody shall take it in advance. */
    if (!req->privileged && strcasecmp(p->name, GLOBAL_LOGGER_NAME) == 0)
        return refuse(refusal, ETW_ERROR_ACCESS_DENIED,
                      "access denied: '%s' needs root or group 'etw' (usermod -aG etw USER)",
                      GLOBAL_LOGGER_NAME);
    if (plan->kernel) {
        const char *why;
        if (!ss->env.kernel || !kernel_logger_available(ss->env.kernel, &why))
            return refuse(refusal, ETW_ERROR_NOT_SUPPORTED, "the kernel's events cannot be had: %s",
                          ss->env.kernel ? why : "the kernel logger could not be set up");
    }
    return 0;
}

static void start_unwound(int result, void *userdata)
{
    struct start_op *op = userdata;
    op->session->kernel_tracing = false;
    start_fail(op);
}

/* Fails when the probes may be attached: they go first. */
static void start_unwind(struct start_op *op, int r, const char *what)
{
    struct session *s = op->session;
    refuse_errno(&op->refusal, r, what);
    if (!s->kernel_tracing) {
        start_fail(op);
        return;
    }
    r = kernel_logger_stop(op->sessions->env.kernel, s, start_unwound, op);
    if (r < 0)
        start_unwound(r, op);
}

static void start_opened(int result, void *userdata)
{
    struct start_op *op = userdata;
    struct session *s = op->session;
    struct sessions *ss = op->sessions;

    if (result < 0) {
        start_unwind(op, result, "the log file could not be written");
        return;
    }
    s->state = SESSION_RUNNING;
    int r = keep_session(ss->keeper, s);
    if (r < 0) {
        s->state = SESSION_STARTING;
        start_unwind(op, r, "no memory to hand the session on");
        return;
    }
    etwd_events_watch(ss->events, 1);
    if (s->properties.log_file_mode & ETL_MODE_CIRCULAR) {
        /* What describes the session and what was there when it began is not overwritten. */
        state_begin(s->kept);
        session_flush(s, false);
        file_sink_keep_start(s->sink);
        state_commit(s->kept);
    }
    op->fn(NULL, s, op->userdata);
    start_op_free(op);
    session_now_running(ss, s);
}

void session_logfile(const struct session *s, uint64_t begin, const uint16_t *name16,
                     const uint16_t *file16, struct etl_logfile_params *ret)
{
    *ret = (struct etl_logfile_params){
        .buffer_size = s->buffer_bytes,
        .processors = s->table->env.online,
        .maximum_file_size = s->properties.maximum_file_size,
        .log_file_mode = s->properties.log_file_mode,
        .boot_time = s->start_filetime - s->line.start_boottime / 100,
        .start_time = s->start_filetime + (begin - s->line.start_boottime) / 100,
        .start_raw = etw_clock_line_raw(&s->line, begin),
        .frequency = session_clock_frequency(s),
        .clock_type = s->properties.clock,
        .cpu_mhz = s->line.cpu_mhz,
        .tid = s->owner_pid,
        .pid = s->owner_pid,
        .logger_id = s->id,
        .bias_minutes = s->properties.bias_minutes,
        .kernel = s->kernel,
        .logger_name = name16,
        .log_file_name = file16,
    };
}

static void start_attached(int result, void *userdata)
{
    struct start_op *op = userdata;
    struct session *s = op->session;
    struct sessions *ss = op->sessions;
    int r;

    if (result == -EDQUOT) {
        s->kernel_tracing = false;
        store_full(op);
        return;
    }
    if (result < 0) {
        s->kernel_tracing = false;
        start_fail_errno(op, result, "the kernel's probes could not be attached");
        return;
    }
    if (s->memory) {
        start_opened(0, op);
        return;
    }
    struct etl_logfile_params lf;
    session_logfile(s, s->line.start_boottime, op->name16, op->file16, &lf);
    if (op->append)
        r = file_sink_open_append(s->sink, op->append, ss->env.conf->direct_io, start_opened, op);
    else
        r = file_sink_open(s->sink, &lf, ss->env.conf->direct_io, start_opened, op);
    if (r < 0)
        start_unwind(op, r, "the log file could not be begun");
}

static void start_begin(struct start_op *op);

static void check_run(void *userdata)
{
    struct start_op *op = userdata;
    op->check_result = file_check(op->fd, op->extra, op->patient, &op->facts, &op->check_why);
    if (op->check_result == 0 && op->append && op->facts.size > 0)
        op->append_fault = etl_append_look(op->fd, op->facts.size, op->sessions->env.online,
                                           op->append, &op->append_why);
}

/* The buffer size of the file holds, whatever was asked for; so the quota is looked at anew. */
static int append_apply(struct start_op *op)
{
    struct session *s = op->session;
    const struct etl_append *a = op->append;

    if (op->append_fault != ETL_APPEND_OK)
        return refuse(&op->refusal,
                      op->append_fault == ETL_APPEND_MISMATCH  ? ETW_ERROR_INVALID_PARAMETER
                      : op->append_fault == ETL_APPEND_DAMAGED ? ETW_ERROR_FILE_CORRUPT
                                                               : ETW_ERROR_BAD_PATHNAME,
                      "log file '%.200s' cannot be appended to: %s", s->properties.log_file,
                      op->append_why);
    int r = table_memory_check(op->sessions, s->owner_uid, s, &s->properties, a->buffer_size,
                               &op->refusal);
    if (r < 0)
        return r;
    session_set_buffer_size(s, a->buffer_size);
    s->next_sequence = a->next_sequence;
    if (op->plan.file_bytes_max == 0)
        return 0;
    uint64_t places = op->plan.file_bytes_max / a->buffer_size, there = a->end / a->buffer_size;
    if (places <= there)
        return refuse(&op->refusal, ETW_ERROR_DISK_FULL,
                      "log file '%.200s' has its MaximumFileSize already", s->properties.log_file);
    s->data_buffers_max = (uint64_t) a->next_sequence - 1 + places - there;
    return 0;
}

static void check_done(void *userdata)
{
    struct start_op *op = userdata;
    struct session *s = op->session;
    struct sessions *ss = op->sessions;
    int r;

    if (op->check_result == -EINPROGRESS) {
        /* Such a file holds up its owner's threads only, whoever that is. */
        uid_worker_put(op->workers);
        op->workers = uid_workers_get(ss->env.workers, s->owner_uid, false);
        op->trusted = s->trusted = false;
        op->patient = true;
        r = worker_submit(op->workers->files, check_run, check_done, op);
        if (r < 0)
            start_fail_errno(op, r, "the session could not be started");
        return;
    }
    if (table_file_check(ss, op->check_result, op->check_why, &op->facts, "log file",
                         s->properties.log_file, op->plan.file_bytes_max, &op->refusal) < 0) {
        start_fail(op);
        return;
    }
    s->file_dev = op->facts.dev;
    s->file_ino = op->facts.ino;
    s->has_file = true;
    if (op->append && op->facts.size == 0) {
        free(op->append);
        op->append = NULL;
    }
    if (op->append) {
        if (append_apply(op) < 0) {
            start_fail(op);
            return;
        }
    } else if (op->plan.file_bytes_max && !(s->properties.log_file_mode & ETL_MODE_CIRCULAR))
        s->data_buffers_max = op->plan.file_bytes_max / s->buffer_bytes - 1;

    r = buffers_new(ss->env.loop, s->buffer_bytes, s->properties.minimum_buffers,
                    s->properties.maximum_buffers, &s->buffers);
    if (r < 0) {
        start_fail_errno(op, r, "no memory for the session's buffers");
        return;
    }
    s->workers = op->workers;
    op->workers = NULL;
    r = file_sink_new(ss->env.loop, s->workers->files, s->workers->syncer, s, take_fd(&op->fd),
                      &s->sink);
    if (r < 0) {
        start_fail_errno(op, r, "no memory for the session's log file");
        return;
    }
    r = file_sink_shape(s->sink, op->plan.file_bytes_max);
    if (r == 0)
        r = file_sink_write_behind(s->sink, ss->env.conf);
    if (r < 0) {
        start_fail_errno(op, r, "no memory for the session's log file");
        return;
    }
    if (!op->trusted)
        file_sink_write_by(s->sink, s->workers->files);
    start_begin(op);
}

/* A session without a file: what it has stays in memory. */
static void start_in_memory(struct start_op *op)
{
    struct session *s = op->session;
    int r;

    r = buffers_new(op->sessions->env.loop, s->buffer_bytes, s->properties.minimum_buffers,
                    memory_sink_buffers(s->properties.minimum_buffers, s->buffer_bytes),
                    &s->buffers);
    if (r == 0)
        r = memory_sink_new(s, &s->memory);
    if (r < 0) {
        start_fail_errno(op, r, "no memory for the session's buffers");
        return;
    }
    /* It needs no descriptor; who sends one all the same must not keep it here. */
    uid_worker_close(op->workers, take_fd(&op->fd));
    s->workers = op->workers;
    op->workers = NULL;
    start_begin(op);
}

/* It has buffers and a sink. */
static void start_begin(struct start_op *op)
{
    struct session *s = op->session;
    struct sessions *ss = op->sessions;
    int r;

    r = keep_files(ss->keeper, s);
    if (r == -EDQUOT) {
        store_full(op);
        return;
    }
    if (r < 0) {
        start_fail_errno(op, r, "the session could not be handed to the service manager");
        return;
    }
    session_clock_start(&ss->clocks, s);
    etwd_events_begin(ss->events, s);
    if (!s->kernel) {
        start_attached(0, op);
        return;
    }
    s->kernel_tracing = true;
    r = kernel_logger_start(ss->env.kernel, s, s->masks,
                            !(s->properties.enable_flags & FLAG_NO_SYSCONFIG), start_attached, op);
    if (r < 0)
        start_attached(r, op);
}

void sessions_start(struct sessions *ss, struct session_request *req, sessions_fn fn,
                    void *userdata)
{
    struct start_op *op = calloc(1, sizeof(*op));
    struct refusal none;
    int r;

    if (!op) {
        refuse_errno(&none, -ENOMEM, "the session could not be started");
        fn(&none, NULL, userdata);
        struct uid_worker *w = uid_workers_get(ss->env.workers, req->uid, req->privileged);
        uid_worker_close(w, req->fd);
        uid_worker_put(w);
        session_properties_clear(&req->properties);
        return;
    }
    *op = (struct start_op){
        .sessions = ss,
        .workers = uid_workers_get(ss->env.workers, req->uid, req->privileged),
        .trusted = req->privileged,
        .fd = req->fd,
        .fn = fn,
        .userdata = userdata,
    };
    req->fd = -1;

    _cleanup_free_ char *folded = NULL;
    r = session_properties_adjust(&req->properties, req->kernel_call, ss->env.online, ss->env.conf,
                                  &op->plan, &op->refusal);
    if (r == 0)
        req->properties.clock = session_clock_choose(&ss->clocks, req->properties.clock);
    if (r == 0 && op->plan.kernel)
        for (size_t i = 0; i < req->n_stacks && r == 0; i++)
            r = session_stack_check(&req->stacks[i].guid, req->stacks[i].type, op->plan.masks,
                                    &op->refusal);
    bool in_memory = (req->properties.log_file_mode & ETL_MODE_BUFFERING) != 0;
    if (r == 0 && op->fd < 0 && !in_memory)
        r = refuse(&op->refusal, ETW_ERROR_INVALID_PARAMETER,
                   "the request names a log file, but brings no descriptor of it");
    if (r == 0 && op->plan.kernel && !req->may_kernel)
        r = refuse(&op->refusal, ETW_ERROR_ACCESS_DENIED,
                   "access denied: the kernel logger needs root or group 'etw' (usermod -aG etw "
                   "USER)");
    if (r == 0) {
        folded = session_name_fold(req->properties.name);
        r = folded ? room_check(ss, req, &op->plan, folded, &op->refusal)
                   : refuse(&op->refusal, ETW_ERROR_NOT_ENOUGH_MEMORY, "etwd is out of memory");
    }
    if (r < 0) {
        session_properties_clear(&req->properties);
        start_fail(op);
        return;
    }

    bool append = req->properties.log_file_mode & ETL_MODE_APPEND;
    if (append)
        op->append = calloc(1, sizeof(*op->append));
    op->name16 = etw_utf8_dup_utf16(req->properties.name, SIZE_MAX);
    op->file16 =
        etw_utf8_dup_utf16(req->properties.log_file ? req->properties.log_file : "", SIZE_MAX);
    r = op->name16 && op->file16 && (!append || op->append)
            ? session_new(ss->env.loop, &req->properties, ss->env.cpus, &op->session)
            : -ENOMEM;
    if (r < 0) {
        session_properties_clear(&req->properties);
        start_fail_errno(op, r, "the session could not be started");
        return;
    }
    struct session *s = op->session;
    s->folded_name = TAKE_PTR(folded);
    s->kernel = op->plan.kernel;
    s->inert_flags = op->plan.inert_flags;
    memcpy(s->masks, op->plan.masks, sizeof(s->masks));
    s->bound = req->bound;
    s->connection = req->connection;
    s->owner_uid = req->uid;
    s->owner_pid = req->pid;
    s->trusted = op->trusted;
    session_wire(ss, s);
    r = table_insert(ss, s);
    if (r < 0) {
        session_free(s);
        op->session = NULL;
        start_fail_errno(op, r, "there is no free session number");
        return;
    }
    memcpy(op->extra, ss->env.conf->extra_file_systems, sizeof(op->extra));
    op->patient = !op->trusted;
    if (in_memory) {
        start_in_memory(op);
        return;
    }
    r = worker_submit(op->workers->files, check_run, check_done, op);
    if (r < 0)
        start_fail_errno(op, r, "the session could not be started");
}

/* The file has its maximum size: the session ends as if somebody had stopped it. */
static void full(struct session *s)
{
    log_info("session '%s': its log file has the maximum size, the session ends",
             s->properties.name);
    if (s->state == SESSION_RUNNING)
        sessions_stop(s->table, s, NULL, NULL);
    else
        s->stop_wanted = true;
}

static void refresh(struct session *s)
{
    const struct sessions_env *env = &s->table->env;
    if (s->kernel_tracing)
        kernel_logger_sync_losses(env->kernel);
    if (env->losses)
        env->losses(env->userdata);
}

static void gather(struct session *s)
{
    router_pass(s->table->env.router);
}

void session_wire(struct sessions *ss, struct session *s)
{
    s->full = full;
    s->gather = gather;
    s->refresh = refresh;
    s->table = ss;
}
