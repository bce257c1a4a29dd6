/* SPDX-License-Identifier: Apache-2.0
 *
 * The sessions of a predecessor: made anew from their blocks and stored descriptors at the start of
 * etwd, and what was under way goes on. Not what the blocks hold (keep.c). Loop thread only.
 */
#include "sessions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "etwd_events.h"
#include "file_sink.h"
#include "io/loop.h"
#include "io/uid_workers.h"
#include "keep.h"
#include "kernel/logger.h"
#include "state/state.h"
#include "table.h"

static int take_over(struct sessions *ss, uint64_t handle, const void *image, size_t size,
                     char **ret_name)
{
    struct session *s;
    int r;

    r = keep_load(ss->keeper, handle, image, size, ss->env.cpus, &s, ret_name);
    if (r < 0)
        return r;
    s->workers = uid_workers_get(ss->env.workers, s->owner_uid, s->trusted);
    session_wire(ss, s);
    r = table_restore(ss, s);
    if (r < 0) {
        session_free(s);
        return r;
    }
    r = keep_load_sink(ss->keeper, s);
    if (r == 0 && s->sink)
        r = file_sink_write_behind(s->sink, ss->env.conf);
    if (r < 0) {
        table_remove(ss, s);
        return r;
    }
    if (s->generation >= *ss->next_generation) {
        state_begin(ss->env.state);
        state_save(ss->env.state, ss->next_generation, sizeof(*ss->next_generation));
        *ss->next_generation = s->generation + 1;
        state_commit(ss->env.state);
    }
    return 0;
}

int sessions_takeover(struct sessions *ss)
{
    struct state *st = ss->env.state;
    uint64_t position = 0, handle;
    const void *image;
    size_t size;

    if (!ss->keeper)
        return 0;
    while ((image = state_block_next(st, STATE_SESSION, &position, &handle, &size))) {
        _cleanup_free_ char *name = NULL;
        int r = take_over(ss, handle, image, size, &name);
        if (r == 0)
            continue;
        if (r == -ENOMEM)
            return r;
        log_error("session '%s': it could not be taken over from the etwd before: %s; its file is "
                  "as it is (not closed)",
                  name ? name : "(not known)",
                  r == -EBADMSG  ? "its state does not hold together"
                  : r == -ENOENT ? "its buffers or its log file are not in the descriptor store"
                                 : strerror(-r));
        keep_drop(ss->keeper, handle);
    }
    if (ss->count > 0)
        log_notice("%u sessions taken over from the etwd before", ss->count);
    return 0;
}

static void stop_again(struct sessions *ss, struct session *s)
{
    struct stop_op *op = malloc(sizeof(*op));
    if (!op) {
        log_error("session '%s': no memory to stop it", s->properties.name);
        return;
    }
    *op = (struct stop_op){.sessions = ss, .session = s};
    stop_begin(ss, s, op);
}

void sessions_takeover_done(struct sessions *ss,
                            bool (*connected)(void *userdata, uint64_t connection), void *userdata)
{
    for (struct session *s = ss->first, *next; s; s = next) {
        next = s->next;
        if (s->kernel)
            s->kernel_tracing = ss->env.kernel && kernel_logger_traces(ss->env.kernel, s);
        if (s->state == SESSION_STOPPING)
            stop_again(ss, s);
        else if (s->kernel && !s->kernel_tracing) {
            log_warning("session '%s': etwd was restarted, and the kernel's probes could not be "
                        "taken over: the session ends here, with what it had recorded",
                        s->properties.name);
            stop_again(ss, s);
        } else if (s->sealed)
            s->full(s);
        else if (s->bound && !connected(userdata, s->connection))
            stop_again(ss, s);
        else
            session_resume(s);
    }
    etwd_events_watch(ss->events, ss->count > 0);
}
