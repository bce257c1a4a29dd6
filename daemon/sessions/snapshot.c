/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots of sessions in buffering mode: the checks of the file on its user's worker, then what
 * happened until now into the buffers, then all of them into the file. The session may end
 * meanwhile, so it is found anew by its handle; once buffers are lent it waits. Loop thread only.
 */
#include "sessions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf16.h"
#include "base/winerror.h"
#include "etwd_events.h"
#include "io/files.h"
#include "io/uid_workers.h"
#include "memory_sink.h"
#include "router/router.h"
#include "state/state.h"
#include "table.h"

struct snapshot_op {
    struct sessions *sessions;
    uint64_t handle;
    struct uid_worker *workers;
    int fd;
    char *path;
    uint16_t *name16, *path16;
    int check_result;
    const char *check_why;
    struct file_facts facts;
    struct refusal refusal;
    sessions_fn fn;
    void *userdata;
};

bool session_in_memory(const struct session *s)
{
    return s->memory != NULL;
}

static struct snapshot_op *op_free(struct snapshot_op *op)
{
    uid_worker_close(op->workers, op->fd);
    uid_worker_put(op->workers);
    free(op->path);
    free(op->name16);
    free(op->path16);
    free(op);
    return NULL;
}

static struct session *find(const struct snapshot_op *op)
{
    return sessions_find_handle(op->sessions, op->handle);
}

static void end(struct snapshot_op *op, bool failed)
{
    op->fn(failed ? &op->refusal : NULL, find(op), op->userdata);
    op_free(op);
}

static void end_errno(struct snapshot_op *op, int r, const char *what)
{
    refuse_errno(&op->refusal, r, what);
    end(op, true);
}

static void written(int result, void *userdata)
{
    struct snapshot_op *op = userdata;
    struct session *s = find(op); /* it is there: its end waits */

    if (s)
        s->has_file = false;
    if (result < 0)
        end_errno(op, result, "the snapshot could not be written");
    else
        end(op, false);
}

/* The session runs still, and no other snapshot of it is under way. */
static struct session *ready(struct snapshot_op *op)
{
    struct session *s = find(op);

    if (!s || s->state != SESSION_RUNNING || s->stop_wanted) {
        (void) refuse(&op->refusal, ETW_ERROR_WMI_INSTANCE_NOT_FOUND, "the session is not running");
        return NULL;
    }
    if (memory_sink_busy(s->memory)) {
        (void) refuse(&op->refusal, ETW_ERROR_BUSY,
                      "session '%.200s': another snapshot is being written", s->properties.name);
        return NULL;
    }
    return s;
}

/* The path in the header is cut where it does not fit the buffer. */
static void params(struct snapshot_op *op, const struct session *s, struct etl_logfile_params *ret)
{
    session_logfile(s, s->line.start_boottime, op->name16, op->path16, ret);
    uint32_t need = etl_logfile_buffer_need(ret);
    size_t len = etw_utf16_len(op->path16, SIZE_MAX);
    if (need <= s->buffer_bytes)
        return;
    size_t over = (need - s->buffer_bytes + 1) / 2;
    op->path16[over < len ? len - over : 0] = 0;
}

static void drained(bool complete, void *userdata)
{
    struct snapshot_op *op = userdata;
    struct session *s = ready(op);
    struct etl_logfile_params p;
    int r;

    if (!s) {
        end(op, true);
        return;
    }
    if (table_file_check(op->sessions, op->check_result, op->check_why, &op->facts, "file",
                         op->path, 0, &op->refusal) < 0) {
        end(op, true);
        return;
    }
    state_begin(s->kept);
    if (s->refresh)
        s->refresh(s);
    etwd_events_file(op->sessions->events, s, router_time(op->sessions->env.router));
    state_commit(s->kept); /* the oldest, if these needed room, are gone now */
    params(op, s, &p);
    s->file_dev = op->facts.dev;
    s->file_ino = op->facts.ino;
    s->has_file = true;
    r = memory_sink_snapshot(s->memory, op->workers, take_fd(&op->fd), &p, written, op);
    if (r < 0)
        written(r, op);
}

static void check_run(void *userdata)
{
    struct snapshot_op *op = userdata;
    /* Only file systems that answer: the worker may be shared. */
    op->check_result = file_check(op->fd, "", false, &op->facts, &op->check_why);
}

static void check_done(void *userdata)
{
    struct snapshot_op *op = userdata;

    /* Again when it is written: another session may take the file meanwhile. */
    if (table_file_check(op->sessions, op->check_result, op->check_why, &op->facts, "file",
                         op->path, 0, &op->refusal) < 0) {
        end(op, true);
        return;
    }
    if (router_drain(op->sessions->env.router, etw_clock_boottime(), drained, op) < 0)
        drained(false, op);
}

void sessions_snapshot(struct sessions *ss, struct session *s, int fd, const char *path,
                       uint32_t uid, bool trusted, sessions_fn fn, void *userdata)
{
    struct uid_worker *workers = uid_workers_get(ss->env.workers, uid, trusted);
    struct snapshot_op *op = calloc(1, sizeof(*op));
    struct refusal refusal;

    if (!op) {
        refuse_errno(&refusal, -ENOMEM, "the snapshot could not be begun");
        fn(&refusal, s, userdata);
        uid_worker_close(workers, fd);
        uid_worker_put(workers);
        return;
    }
    *op = (struct snapshot_op){
        .sessions = ss,
        .handle = session_handle(s),
        .workers = workers,
        .fd = fd,
        .path = strdup(path),
        .name16 = etw_utf8_dup_utf16(s->properties.name, SIZE_MAX),
        .path16 = etw_utf8_dup_utf16(path, SIZE_MAX),
        .fn = fn,
        .userdata = userdata,
    };
    if (!op->path || !op->name16 || !op->path16) {
        end_errno(op, -ENOMEM, "the snapshot could not be begun");
        return;
    }
    if (fd < 0) {
        (void) refuse(&op->refusal, ETW_ERROR_INVALID_PARAMETER,
                      "the request names a file, but brings no descriptor of it");
        end(op, true);
        return;
    }
    if (path[0] != '/' || etw_utf8_to_utf16_size(path, strlen(path)) > ETW_NAME_MAX) {
        (void) refuse(&op->refusal, ETW_ERROR_BAD_PATHNAME,
                      "the file's path is not absolute, or longer than %d characters",
                      ETW_NAME_MAX);
        end(op, true);
        return;
    }
    if (!ready(op)) {
        end(op, true);
        return;
    }
    if (worker_submit(op->workers->files, check_run, check_done, op) < 0)
        end_errno(op, -ENOMEM, "the snapshot could not be begun");
}
