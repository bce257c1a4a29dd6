/* SPDX-License-Identifier: Apache-2.0
 *
 * A running session goes on in another file, which the client has opened: the descriptor's checks
 * on the worker; what was written before this moment into the old file; then the new one. Whatever
 * fails leaves the session with its old file. Loop thread only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf16.h"
#include "base/winerror.h"
#include "etwd_events.h"
#include "file_sink.h"
#include "io/files.h"
#include "io/loop.h"
#include "io/uid_workers.h"
#include "keep.h"
#include "router/router.h"
#include "state/state.h"
#include "table.h"

struct turn_op {
    struct session *session;
    int fd;
    char *log_file;
    uint16_t *name16, *file16;
    int check_result;
    const char *check_why;
    struct file_facts facts;
    bool refused;
    struct refusal refusal;
    void (*fn)(const struct refusal *refusal, void *userdata);
    void *userdata;
};

static void turn_finish(void *userdata)
{
    struct turn_op *op = userdata;
    op->session->updating = false;
    uid_worker_close(op->session->workers, op->fd);
    op->fn(op->refused ? &op->refusal : NULL, op->userdata);
    free(op->log_file);
    free(op->name16);
    free(op->file16);
    free(op);
}

static void turn_fail(struct turn_op *op, int r, const char *what)
{
    op->refused = true;
    if (what)
        refuse_errno(&op->refusal, r, what);
    turn_finish(op);
}

/* Inside the sink's transaction. */
static void turned(int result, void *userdata)
{
    struct turn_op *op = userdata;
    struct session *s = op->session;
    struct sessions *ss = s->table;

    if (result < 0) {
        op->refused = true;
        refuse_errno(&op->refusal, result, "the new log file could not be begun");
    } else {
        char *old = s->properties.log_file;
        s->properties.log_file = op->log_file;
        op->log_file = old;
        s->file_dev = op->facts.dev;
        s->file_ino = op->facts.ino;
        uint64_t bytes = session_file_bytes(&s->properties);
        if (s->data_buffers_max != UINT64_MAX) /* those that are out go to this file */
            s->data_buffers_max = (uint64_t) s->next_sequence - 1 - buffers_out(s->buffers) +
                                  bytes / s->buffer_bytes - 1;
        keep_file(s);
        etwd_events_file(ss->events, s, router_time(ss->env.router));
    }
    if (loop_defer(s->loop, turn_finish, op) < 0)
        turn_finish(op);
}

static void turn_drained(bool complete, void *userdata)
{
    struct turn_op *op = userdata;
    struct session *s = op->session;
    struct etl_logfile_params lf;

    state_begin(s->kept);
    sessions_refresh(s->table);
    session_flush(s, false);
    state_commit(s->kept);
    /* No event that comes is older, but for late ones. */
    uint64_t begin = router_time(s->table->env.router);
    if (begin < s->line.start_boottime)
        begin = s->line.start_boottime;
    session_logfile(s, begin, op->name16, op->file16, &lf);
    int r = file_sink_turn(s->sink, op->fd, &lf, turned, op);
    if (r < 0)
        turn_fail(op, r, "the new log file could not be begun");
    else
        op->fd = -1;
}

static void turn_check_run(void *userdata)
{
    struct turn_op *op = userdata;
    op->check_result = file_check(op->fd, "", false, &op->facts, &op->check_why);
}

static int turn_check(struct turn_op *op)
{
    const struct session *s = op->session;
    struct etl_logfile_params lf;

    int r = table_file_check(s->table, op->check_result, op->check_why, &op->facts, "log file",
                             op->log_file, session_file_bytes(&s->properties), &op->refusal);
    if (r < 0)
        return r;
    session_logfile(s, s->line.start_boottime, op->name16, op->file16, &lf);
    if (etl_logfile_buffer_need(&lf) > s->buffer_bytes)
        return refuse(&op->refusal, ETW_ERROR_BAD_PATHNAME,
                      "log file '%.200s': the path does not fit the session's buffers",
                      op->log_file);
    return 0;
}

static void turn_check_done(void *userdata)
{
    struct turn_op *op = userdata;
    if (turn_check(op) < 0) {
        turn_fail(op, 0, NULL);
        return;
    }
    if (router_drain(op->session->table->env.router, etw_clock_boottime(), turn_drained, op) < 0)
        turn_drained(false, op);
}

void session_turn(struct session *s, int fd, const char *log_file,
                  void (*fn)(const struct refusal *refusal, void *userdata), void *userdata)
{
    struct turn_op *op = calloc(1, sizeof(*op));
    struct refusal refusal;

    if (!op) {
        uid_worker_close(s->workers, fd);
        refuse_errno(&refusal, -ENOMEM, "the session could not be changed");
        fn(&refusal, userdata);
        return;
    }
    *op = (struct turn_op){
        .session = s,
        .fd = fd,
        .log_file = strdup(log_file),
        .name16 = etw_utf8_dup_utf16(s->properties.name, SIZE_MAX),
        .file16 = etw_utf8_dup_utf16(log_file, SIZE_MAX),
        .fn = fn,
        .userdata = userdata,
    };
    s->updating = true;
    if (!op->log_file || !op->name16 || !op->file16 ||
        worker_submit(s->workers->files, turn_check_run, turn_check_done, op) < 0)
        turn_fail(op, -ENOMEM, "the session could not be changed");
}
