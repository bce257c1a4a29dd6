/* SPDX-License-Identifier: Apache-2.0
 *
 * Ending a session: what providers and the kernel's probes still had, the partial buffers, the
 * final header, the disk; then the answer with final numbers. Loop thread only.
 */
#include "sessions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/winerror.h"
#include "file_sink.h"
#include "keep.h"
#include "kernel/logger.h"
#include "memory_sink.h"
#include "router/router.h"
#include "state/state.h"
#include "table.h"

static void stop_closed(int result, void *userdata)
{
    struct stop_op *op = userdata;
    struct session *s = op->session;
    if (result < 0)
        log_warning("session '%s': file '%s': failed to bring it to the disk: %s",
                    s->properties.name, s->properties.log_file, strerror(-result));
    keep_end(op->sessions->keeper, s); /* whoever hears of its end may rely on it */
    if (op->fn)
        op->fn(NULL, s, op->userdata);
    struct sessions *ss = op->sessions;
    free(op);
    table_remove(ss, s);
}

static void stop_detached(int result, void *userdata)
{
    struct stop_op *op = userdata;
    struct session *s = op->session;
    int r;

    if (s->kernel_tracing) {
        if (result < 0)
            log_warning("session '%s': the end of the kernel's events is not complete: %s",
                        s->properties.name, strerror(-result));
        s->kernel_tracing = false;
    }
    const struct sessions_env *env = &op->sessions->env;
    if (env->ending)
        env->ending(env->userdata, s);
    state_begin(s->kept);
    if (s->refresh)
        s->refresh(s);
    session_flush(s, true);
    state_commit(s->kept);
    if (s->memory) {
        memory_sink_idle(s->memory, stop_closed, op);
        return;
    }
    r = file_sink_close(s->sink, stop_closed, op);
    if (r < 0)
        stop_closed(r, op);
}

/* What was written until now is in its buffers, or its writers are too slow. */
static void stop_drained(bool complete, void *userdata)
{
    stop_detached(0, userdata);
}

void stop_begin(struct sessions *ss, struct session *s, struct stop_op *op)
{
    int r;

    state_begin(s->kept);
    session_touch(s);
    s->state = SESSION_STOPPING;
    state_commit(s->kept);
    s->stop = NULL;
    if (!s->kernel_tracing) {
        r = router_drain(ss->env.router, etw_clock_boottime(), stop_drained, op);
        if (r < 0)
            stop_detached(0, op);
        return;
    }
    r = kernel_logger_stop(ss->env.kernel, s, stop_detached, op);
    if (r < 0) {
        router_remove_session(ss->env.router, s);
        stop_detached(r, op);
    }
}

void session_now_running(struct sessions *ss, struct session *s)
{
    if (s->stop) {
        stop_begin(ss, s, s->stop);
        return;
    }
    if (s->stop_wanted || ss->shutting_down) {
        s->stop_wanted = false;
        sessions_stop(ss, s, NULL, NULL);
    }
}

void sessions_stop(struct sessions *ss, struct session *s, sessions_fn fn, void *userdata)
{
    struct refusal refusal;

    if (s->state != SESSION_RUNNING || s->stop) {
        (void) refuse(&refusal, ETW_ERROR_ACTIVE_CONNECTIONS,
                      "the session is being stopped already");
        if (fn)
            fn(&refusal, NULL, userdata);
        return;
    }
    struct stop_op *op = malloc(sizeof(*op));
    if (!op) {
        refuse_errno(&refusal, -ENOMEM, "the session could not be stopped");
        if (fn)
            fn(&refusal, NULL, userdata);
        else
            log_error("session '%s': no memory to stop it", s->properties.name);
        return;
    }
    *op = (struct stop_op){.sessions = ss, .session = s, .fn = fn, .userdata = userdata};
    if (s->updating) {
        s->stop = op; /* when the change is through */
        return;
    }
    stop_begin(ss, s, op);
}
