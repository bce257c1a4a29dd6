/* SPDX-License-Identifier: Apache-2.0
 *
 * What the messages of a client mean: rights by policy.c, work by sessions, answers as messages.
 * All of a message is hostile; strings are copied, numbers are checked by who uses them. Loop
 * thread only.
 */
#include "dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/winerror.h"
#include "io/loop.h"
#include "io/uid_workers.h"
#include "kernel/logger.h"
#include "sessions/sessions.h"

void reply_status(struct connection *c, uint64_t id, uint32_t status, const char *reason)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    m.id = id;
    m.status = status;
    m.reason = (char *) (reason ? reason : "");
    connection_send(c, &m);
}

/* A session as a message: its strings and bytes stay the session's. */
struct session_message {
    Etwd__Session session;
    Etwd__SessionProperties properties;
    Etwd__Lost lost[LOSS_CAUSES];
    Etwd__Lost *lost_list[LOSS_CAUSES];
};

static void session_fill(struct session_message *m, const struct session *s)
{
    const struct session_properties *p = session_properties(s);
    struct session_counters k;
    session_counters(s, &k);

    m->properties = (Etwd__SessionProperties) ETWD__SESSION_PROPERTIES__INIT;
    m->properties.name = p->name;
    m->properties.guid.data = (uint8_t *) &p->guid;
    m->properties.guid.len = sizeof(p->guid);
    m->properties.clock = p->clock;
    m->properties.buffer_size_kb = p->buffer_size_kb;
    m->properties.minimum_buffers = p->minimum_buffers;
    m->properties.maximum_buffers = p->maximum_buffers;
    m->properties.maximum_file_size = p->maximum_file_size;
    m->properties.log_file_mode = p->log_file_mode;
    m->properties.flush_timer_s = p->flush_timer_s;
    m->properties.enable_flags = p->enable_flags;
    m->properties.log_file = p->log_file ? p->log_file : (char *) "";
    m->properties.bias_minutes = p->bias_minutes;
    m->properties.flush_threshold = p->flush_threshold;
    m->properties.v2_options = p->v2_options;

    m->session = (Etwd__Session) ETWD__SESSION__INIT;
    m->session.handle = session_handle(s);
    m->session.properties = &m->properties;
    m->session.owner_uid = session_owner_uid(s);
    m->session.owner_pid = session_owner_pid(s);
    m->session.buffers = session_buffers(s);
    m->session.buffers_free = session_buffers_free(s);
    m->session.buffers_written = k.buffers_written;
    m->session.log_buffers_lost = k.log_buffers_lost;
    m->session.real_time_buffers_lost = k.real_time_buffers_lost;
    m->session.written = k.written;
    m->session.recorded = k.recorded;
    m->session.overwritten = k.overwritten;
    for (int i = 0; i < LOSS_CAUSES; i++) {
        m->lost[i] = (Etwd__Lost) ETWD__LOST__INIT;
        m->lost[i].cause = (char *) loss_cause_name((enum loss_cause) i);
        m->lost[i].events = k.lost[i];
        m->lost_list[i] = &m->lost[i];
    }
    m->session.n_lost = LOSS_CAUSES;
    m->session.lost = m->lost_list;
    m->session.inert_flags = session_inert_flags(s);
    m->session.start_time = session_start_filetime(s);
    m->session.bound = session_is_bound(s);
    m->session.logger_thread_id = (uint32_t) gettid();
}

static void reply_session(struct connection *c, uint64_t id, const struct refusal *refusal,
                          const struct session *s)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__SessionReply body = ETWD__SESSION_REPLY__INIT;
    struct session_message sm;

    m.id = id;
    if (refusal) {
        m.status = refusal->status;
        m.reason = (char *) refusal->reason;
    }
    if (s) {
        session_fill(&sm, s);
        body.session = &sm.session;
        m.body_case = ETWD__MESSAGE__BODY_SESSION_REPLY;
        m.session_reply = &body;
    }
    connection_send(c, &m);
}

struct pending *pending_new(struct connection *c, uint64_t id)
{
    struct pending *p = malloc(sizeof(*p));
    if (!p) {
        reply_status(c, id, ETW_ERROR_NOT_ENOUGH_MEMORY, "etwd is out of memory");
        return NULL;
    }
    *p = (struct pending){
        .server = connection_server(c), .connection = connection_number(c), .id = id};
    connection_request_begin(c);
    return p;
}

void pending_status(struct pending *p, uint32_t status, const char *reason)
{
    struct connection *c = server_find(p->server, p->connection);
    if (c) {
        reply_status(c, p->id, status, reason);
        connection_request_end(c);
    }
    free(p);
}

static void pending_reply(const struct refusal *refusal, const struct session *s, void *userdata)
{
    struct pending *p = userdata;
    struct connection *c = server_find(p->server, p->connection);
    if (c) {
        reply_session(c, p->id, refusal, s);
        connection_request_end(c);
    }
    free(p);
}

static void on_hello(struct connection *c, uint64_t id, const Etwd__Hello *hello)
{
    struct server *s = connection_server(c);
    if (hello->protocol != ETWD_PROTOCOL) {
        char reason[128];
        (void) snprintf(reason, sizeof(reason), "the library speaks protocol %u, etwd %s speaks %d",
                        hello->protocol, ETWD_VERSION, ETWD_PROTOCOL);
        reply_status(c, id, ETW_ERROR_REVISION_MISMATCH, reason);
        return;
    }
    connection_set_greeted(c);
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__HelloReply body = ETWD__HELLO_REPLY__INIT;
    body.protocol = ETWD_PROTOCOL;
    body.version = (char *) ETWD_VERSION;
    body.processors = s->env.cpus;
    m.id = id;
    m.body_case = ETWD__MESSAGE__BODY_HELLO_REPLY;
    m.hello_reply = &body;
    connection_send(c, &m);
}

/* Strings of protobuf are never NULL; an empty one means that it is not given. */
static int string_take(const char *s, char **ret)
{
    *ret = s && *s ? strdup(s) : NULL;
    return s && *s && !*ret ? -ENOMEM : 0;
}

static int properties_take(const Etwd__SessionProperties *m, struct session_properties *ret)
{
    *ret = (struct session_properties){
        .clock = m->clock,
        .buffer_size_kb = m->buffer_size_kb,
        .minimum_buffers = m->minimum_buffers,
        .maximum_buffers = m->maximum_buffers,
        .maximum_file_size = m->maximum_file_size,
        .log_file_mode = m->log_file_mode,
        .flush_timer_s = m->flush_timer_s,
        .enable_flags = m->enable_flags,
        .flush_threshold = m->flush_threshold,
        .v2_options = m->v2_options,
        .bias_minutes = m->bias_minutes,
    };
    if (m->guid.len != 0 && m->guid.len != sizeof(ret->guid))
        return -EBADMSG;
    if (m->guid.len)
        memcpy(&ret->guid, m->guid.data, sizeof(ret->guid));
    if (string_take(m->name, &ret->name) < 0 || string_take(m->log_file, &ret->log_file) < 0) {
        session_properties_clear(ret);
        return -ENOMEM;
    }
    return 0;
}

static int stacks_take(Etwd__StackId *const *list, size_t n, struct stack_id **ret)
{
    struct stack_id *ids = calloc(n ? n : 1, sizeof(*ids));
    if (!ids)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (list[i]->guid.len != sizeof(ids[i].guid)) {
            free(ids);
            return -EBADMSG;
        }
        memcpy(&ids[i].guid, list[i]->guid.data, sizeof(ids[i].guid));
        ids[i].type = list[i]->type;
    }
    *ret = ids;
    return 0;
}

void reply_errno(struct connection *c, uint64_t id, int r)
{
    if (r == -EBADMSG)
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER, "a GUID in the request is not 16 bytes");
    else if (r == -EDQUOT)
        reply_status(c, id, ETW_ERROR_NO_SYSTEM_RESOURCES,
                     "etwd has no room left in its descriptor store (FdStoreMax)");
    else
        reply_status(c, id, etw_winerror_from_errno(r), strerror(-r));
}

static void on_start(struct connection *c, uint64_t id, const Etwd__StartSession *m, int *fds,
                     size_t n_fds)
{
    const struct peer *peer = connection_peer(c);
    _cleanup_free_ struct stack_id *stacks = NULL;
    int r;

    if (!m->properties) {
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER, "the request has no properties");
        return;
    }
    if (m->n_stacks > ETW_STACK_IDS_MAX) {
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER, "more than 256 stack ids");
        return;
    }
    struct session_request req = {
        .kernel_call = m->kernel,
        .may_kernel = policy_may_start(peer, true),
        .privileged = peer->privileged,
        .bound = m->bound,
        .connection = connection_number(c),
        .uid = peer->uid,
        .pid = (uint32_t) peer->pid,
        .fd = -1,
        .n_stacks = m->n_stacks,
    };
    r = properties_take(m->properties, &req.properties);
    if (r < 0) {
        reply_errno(c, id, r);
        return;
    }
    r = stacks_take(m->stacks, m->n_stacks, &stacks);
    if (r == 0 && m->bound) /* else a restart of etwd would be its end */
        r = connection_keep(c);
    struct pending *p = r < 0 ? NULL : pending_new(c, id);
    if (!p) {
        if (r < 0)
            reply_errno(c, id, r);
        session_properties_clear(&req.properties);
        return;
    }
    req.stacks = stacks;
    if (n_fds > 0 && req.properties.log_file)
        req.fd = take_fd(&fds[0]);
    sessions_start(connection_server(c)->env.sessions, &req, pending_reply, p);
}

struct session *session_for(struct connection *c, uint64_t id, const char *name, uint64_t handle,
                            bool control)
{
    struct server *sv = connection_server(c);
    struct session *s;

    if (name && *name)
        s = sessions_find_name(sv->env.sessions, name);
    else if (handle == 0 || handle == UINT64_MAX) {
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER,
                     "the request names no session: neither name nor handle");
        return NULL;
    } else
        s = sessions_find_handle(sv->env.sessions, handle);
    if (!s) {
        reply_status(c, id, ETW_ERROR_WMI_INSTANCE_NOT_FOUND, "no such session is running");
        return NULL;
    }
    const struct peer *peer = connection_peer(c);
    bool kernel = session_is_kernel(s);
    uid_t owner = session_owner_uid(s);
    if (!(control ? policy_may_control(peer, owner, kernel)
                  : policy_may_see(peer, owner, kernel))) {
        reply_status(c, id, ETW_ERROR_ACCESS_DENIED,
                     kernel ? "access denied: the kernel logger needs root or group 'etw' (usermod "
                              "-aG etw USER)"
                            : "access denied: the session is another user's; root and group 'etw' "
                              "may control it");
        return NULL;
    }
    return s;
}

static void on_update(struct connection *c, uint64_t id, struct session *s,
                      const Etwd__SessionProperties *m, int *fds, size_t n_fds)
{
    struct session_properties p;
    int r;

    if (!m) {
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER, "the request has no properties");
        return;
    }
    r = properties_take(m, &p);
    if (r < 0) {
        reply_errno(c, id, r);
        return;
    }
    struct pending *pending = pending_new(c, id);
    if (pending)
        sessions_update(connection_server(c)->env.sessions, s, &p,
                        n_fds > 0 && p.log_file ? take_fd(&fds[0]) : -1, pending_reply, pending);
    session_properties_clear(&p);
}

static void on_flush(struct connection *c, uint64_t id, struct session *s,
                     const Etwd__SessionProperties *m, int *fds, size_t n_fds)
{
    struct sessions *ss = connection_server(c)->env.sessions;
    const struct peer *peer = connection_peer(c);
    const char *file = m && m->log_file ? m->log_file : "";
    const char *own = session_properties(s)->log_file;

    if (*file && !session_in_memory(s) && (!own || strcmp(file, own) != 0)) {
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER,
                     "only a session in buffering mode can be written into a file of the caller's");
        return;
    }
    struct pending *p = pending_new(c, id);
    if (!p)
        return;
    if (*file && session_in_memory(s))
        sessions_snapshot(ss, s, n_fds > 0 ? take_fd(&fds[0]) : -1, file, peer->uid,
                          peer->privileged, pending_reply, p);
    else
        sessions_flush(ss, s, pending_reply, p);
}

static void on_control(struct connection *c, uint64_t id, const Etwd__ControlSession *m, int *fds,
                       size_t n_fds)
{
    struct sessions *ss = connection_server(c)->env.sessions;
    struct pending *p;

    bool query = m->code == ETWD__CONTROL_SESSION__CODE__QUERY;
    struct session *s = session_for(c, id, m->name, m->handle, !query);
    if (!s)
        return;
    switch (m->code) {
    case ETWD__CONTROL_SESSION__CODE__QUERY:
        sessions_refresh(ss);
        reply_session(c, id, NULL, s);
        return;
    case ETWD__CONTROL_SESSION__CODE__STOP:
        p = pending_new(c, id);
        if (p)
            sessions_stop(ss, s, pending_reply, p);
        return;
    case ETWD__CONTROL_SESSION__CODE__UPDATE:
        on_update(c, id, s, m->properties, fds, n_fds);
        return;
    case ETWD__CONTROL_SESSION__CODE__FLUSH:
        on_flush(c, id, s, m->properties, fds, n_fds);
        return;
    case ETWD__CONTROL_SESSION__CODE__INCREMENT_FILE:
        reply_status(c, id, ETW_ERROR_NOT_SUPPORTED,
                     "this etwd does not have moving a session to its next log file yet");
        return;
    case ETWD__CONTROL_SESSION__CODE__CONVERT_TO_REALTIME:
        reply_status(c, id, ETW_ERROR_NOT_SUPPORTED,
                     "this etwd does not have real-time delivery yet");
        return;
    default:
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER, "the control code is not known");
        return;
    }
}

static void on_list(struct connection *c, uint64_t id, const Etwd__ListSessions *m)
{
    struct server *sv = connection_server(c);
    const struct peer *peer = connection_peer(c);
    Etwd__Message reply = ETWD__MESSAGE__INIT;
    Etwd__SessionList body = ETWD__SESSION_LIST__INIT;
    /* A page takes at least this many of the longest names. */
    struct session_message sm[64];
    Etwd__Session *list[ARRAY_SIZE(sm)];
    size_t bytes = 0;

    sessions_refresh(sv->env.sessions);
    uint32_t after = m->after_id;
    for (struct session *s; (s = sessions_next(sv->env.sessions, after));) {
        after = session_id(s);
        if (!policy_may_see(peer, session_owner_uid(s), session_is_kernel(s)))
            continue;
        if (body.n_sessions == ARRAY_SIZE(sm) || bytes > ETWD_LIST_BYTES) {
            body.more = true;
            break;
        }
        session_fill(&sm[body.n_sessions], s);
        list[body.n_sessions] = &sm[body.n_sessions].session;
        bytes += etwd__session__get_packed_size(list[body.n_sessions]);
        body.n_sessions++;
    }
    body.sessions = list;
    reply.id = id;
    reply.body_case = ETWD__MESSAGE__BODY_SESSION_LIST;
    reply.session_list = &body;
    connection_send(c, &reply);
}

static void on_query_daemon(struct connection *c, uint64_t id)
{
    struct server *sv = connection_server(c);
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__DaemonReply body = ETWD__DAEMON_REPLY__INIT;
    const char *why = "the kernel logger could not be set up";

    body.version = (char *) ETWD_VERSION;
    body.pid = (uint32_t) getpid();
    body.processors = sv->env.cpus;
    body.start_time = sv->start_filetime;
    body.sessions = sessions_count(sv->env.sessions);
    body.max_sessions = (uint32_t) sv->env.conf->max_sessions;
    /* Those that are being closed still hold a descriptor. */
    body.connections = sv->count + uid_workers_closing(sv->env.workers);
    body.kernel_available = sv->env.kernel && kernel_logger_available(sv->env.kernel, &why);
    body.kernel_unavailable_why = (char *) (body.kernel_available ? "" : why);
    body.kernel_programs = sv->env.kernel ? kernel_logger_programs(sv->env.kernel) : 0;
    body.image_helper = sv->env.image_helper;
    body.user = (char *) sv->env.user;
    m.id = id;
    m.body_case = ETWD__MESSAGE__BODY_DAEMON_REPLY;
    m.daemon_reply = &body;
    connection_send(c, &m);
}

static void on_stack_tracing(struct connection *c, uint64_t id, const Etwd__StackTracing *m)
{
    struct refusal refusal;
    uint32_t masks[8] = {0};

    struct session *s = session_for(c, id, NULL, m->handle, true);
    if (!s)
        return;
    if (m->n_stacks > ETW_STACK_IDS_MAX) {
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER, "more than 256 stack ids");
        return;
    }
    if (session_is_kernel(s))
        etl_masks_from_flags(session_properties(s)->enable_flags & ~session_inert_flags(s), masks);
    _cleanup_free_ struct stack_id *stacks = NULL;
    int r = stacks_take(m->stacks, m->n_stacks, &stacks);
    if (r < 0) {
        reply_errno(c, id, r);
        return;
    }
    for (size_t i = 0; i < m->n_stacks; i++)
        if (session_stack_check(&stacks[i].guid, stacks[i].type, masks, &refusal) < 0) {
            reply_status(c, id, refusal.status, refusal.reason);
            return;
        }
    reply_session(c, id, NULL, s);
}

void dispatch(struct connection *c, const Etwd__Message *m, int *fds, size_t n_fds)
{
    if (!connection_greeted(c) && m->body_case != ETWD__MESSAGE__BODY_HELLO)
        reply_status(c, m->id, ETW_ERROR_REVISION_MISMATCH,
                     "the first message of a connection must be Hello");
    else
        switch (m->body_case) {
        case ETWD__MESSAGE__BODY_HELLO:
            on_hello(c, m->id, m->hello);
            break;
        case ETWD__MESSAGE__BODY_START_SESSION:
            on_start(c, m->id, m->start_session, fds, n_fds);
            break;
        case ETWD__MESSAGE__BODY_CONTROL_SESSION:
            on_control(c, m->id, m->control_session, fds, n_fds);
            break;
        case ETWD__MESSAGE__BODY_LIST_SESSIONS:
            on_list(c, m->id, m->list_sessions);
            break;
        case ETWD__MESSAGE__BODY_QUERY_DAEMON:
            on_query_daemon(c, m->id);
            break;
        case ETWD__MESSAGE__BODY_STACK_TRACING:
            on_stack_tracing(c, m->id, m->stack_tracing);
            break;
        case ETWD__MESSAGE__BODY_TRACE_INFORMATION:
            dispatch_information(c, m->id, m->trace_information);
            break;
        default:
            if (!dispatch_provider(c, m, fds, n_fds))
                reply_status(c, m->id, ETW_ERROR_NOT_SUPPORTED,
                             "this etwd does not know the request (is the library newer?)");
            break;
        }
    for (size_t i = 0; i < n_fds; i++)
        connection_close_fd(c, take_fd(&fds[i]));
}
