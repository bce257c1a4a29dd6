/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of provider processes, and those of controllers about providers. A process's
 * connection carries its notifications: one that does not read gets none but the newest, kept by
 * providers/ until it reads. All of a message is hostile. Loop thread only.
 */
#include "dispatch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/winerror.h"
#include "providers/providers.h"
#include "sessions/sessions.h"
#include "shm/abi.h"

/* A connection as a provider process. */
struct provider_peer_state {
    struct connection *connection;
    struct provider_process *process;
    /* Register's reply takes what is offered meanwhile. */
    bool registering;
    bool offered;
    Etwd__ArenaOffer offer;
    int offer_fds[2];
    size_t n_offer_fds;
    /* MoreRings that wait for the next arena. */
    uint64_t waiting[ETWD_RINGS_WAITING_MAX];
    size_t n_waiting;
};

static void offer_drop(struct provider_peer_state *s)
{
    for (size_t i = 0; i < s->n_offer_fds; i++)
        (void) safe_close(s->offer_fds[i]);
    s->n_offer_fds = 0;
    s->offered = false;
}

static void offer_arena(void *peer, uint32_t arena, uint32_t ring_size, int arena_fd,
                        int control_fd)
{
    struct provider_peer_state *s = peer;
    Etwd__ArenaOffer body = ETWD__ARENA_OFFER__INIT;
    const int fds[2] = {arena_fd, control_fd};
    size_t n_fds = control_fd >= 0 ? 2 : 1;

    body.arena = arena;
    body.ring_size = ring_size;
    body.control = control_fd >= 0;
    if (!s->registering) {
        Etwd__Message m = ETWD__MESSAGE__INIT;
        m.body_case = ETWD__MESSAGE__BODY_ARENA_OFFER;
        m.arena_offer = &body;
        connection_send_fds(s->connection, &m, fds, n_fds);
        return;
    }
    offer_drop(s);
    for (size_t i = 0; i < n_fds; i++) {
        s->offer_fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (s->offer_fds[i] < 0) {
            connection_hang_up(s->connection);
            offer_drop(s);
            return;
        }
        s->n_offer_fds++;
    }
    s->offer = body;
    s->offered = true;
}

static bool change(void *peer, uint32_t index, uint32_t code, uint8_t level, uint64_t any,
                   uint64_t all, const struct etw_guid *source, uint32_t filter_type,
                   const void *filter, size_t filter_size, uint64_t cookie)
{
    struct provider_peer_state *s = peer;
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__EnableChange body = ETWD__ENABLE_CHANGE__INIT;
    Etwd__Filter f = ETWD__FILTER__INIT;

    if (!connection_reads(s->connection))
        return false;
    body.index = index;
    body.control_code = code;
    body.level = level;
    body.any = any;
    body.all = all;
    body.source_id.data = (uint8_t *) (uintptr_t) source;
    body.source_id.len = sizeof(*source);
    body.cookie = cookie;
    if (filter_size > 0) {
        f.type = filter_type;
        f.data.data = (uint8_t *) (uintptr_t) filter;
        f.data.len = filter_size;
        body.filter = &f;
    }
    m.body_case = ETWD__MESSAGE__BODY_ENABLE_CHANGE;
    m.enable_change = &body;
    connection_send(s->connection, &m);
    return true;
}

static void replaced(void *peer)
{
    struct provider_peer_state *s = peer;
    connection_hang_up(s->connection);
}

static const struct provider_peer_ops peer_ops = {
    .offer_arena = offer_arena,
    .change = change,
    .replaced = replaced,
};

static struct provider_peer_state *state_new_for(struct connection *c)
{
    struct provider_peer_state *s = calloc(1, sizeof(*s));
    if (s)
        s->connection = c;
    return s;
}

void dispatch_gone(struct connection *c)
{
    struct provider_peer_state *s = connection_provider(c);
    struct providers *p = connection_server(c)->env.providers;

    if (p)
        providers_waiter_gone(p, connection_number(c));
    if (!s)
        return;
    offer_drop(s);
    connection_set_provider(c, NULL);
    provider_detach(s->process);
    free(s);
}

void dispatch_writable(struct connection *c)
{
    struct provider_peer_state *s = connection_provider(c);
    if (s)
        provider_writable(s->process);
}

void dispatch_adopted(struct connection *c)
{
    struct providers *p = connection_server(c)->env.providers;
    struct provider_peer_state *s = p ? state_new_for(c) : NULL;
    int r;

    if (!s)
        return;
    _cleanup_close_ int pidfd = connection_pidfd(c);
    r = provider_reattach(p, &peer_ops, s, connection_number(c), pidfd, &s->process);
    if (r < 0) {
        free(s); /* not a provider's */
        return;
    }
    (void) take_fd(&pidfd);
    connection_set_provider(c, s);
}

void dispatch_resumed(struct connection *c)
{
    struct provider_peer_state *s = connection_provider(c);
    if (s)
        provider_resume(s->process);
}

/* ---- provider processes ---- */

static void reply_attached(struct connection *c, uint64_t id)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__AttachReply body = ETWD__ATTACH_REPLY__INIT;
    body.max_registrations = SHM_REGISTRATIONS_MAX;
    m.id = id;
    m.body_case = ETWD__MESSAGE__BODY_ATTACH_REPLY;
    m.attach_reply = &body;
    connection_send(c, &m);
}

static void on_attach(struct connection *c, uint64_t id, const Etwd__Attach *m)
{
    const struct peer *peer = connection_peer(c);
    int r;

    if (m->shm_version != SHM_VERSION) {
        reply_status(c, id, ETW_ERROR_REVISION_MISMATCH,
                     "the library's shared memory is of another version than etwd's");
        return;
    }
    if (connection_provider(c)) {
        reply_attached(c, id);
        return;
    }
    _cleanup_close_ int pidfd = connection_pidfd(c);
    if (pidfd < 0) {
        connection_hang_up(c); /* nobody is there who could read it */
        return;
    }
    struct provider_peer_state *s = state_new_for(c);
    r = s ? connection_keep(c) : -ENOMEM;
    if (r == 0) {
        const struct provider_peer who = {
            .number = connection_number(c),
            .pid = peer->pid,
            .uid = peer->uid,
            .gid = peer->gid,
            .fences = m->fences,
            .threadless = m->threadless,
        };
        r = provider_attach(connection_server(c)->env.providers, &peer_ops, s, &who, pidfd,
                            &s->process);
    }
    if (r < 0) {
        free(s);
        reply_errno(c, id, r);
        return;
    }
    (void) take_fd(&pidfd);
    connection_set_provider(c, s);
    reply_attached(c, id);
}

/* NULL: it is no provider process's, and was told so. */
static struct provider_peer_state *attached(struct connection *c, uint64_t id)
{
    struct provider_peer_state *s = connection_provider(c);
    if (!s)
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER,
                     "the connection is not a provider process's (Attach)");
    return s;
}

static void reply_provider(struct connection *c, uint64_t id, int r)
{
    switch (r) {
    case 0:
        reply_status(c, id, ETW_ERROR_SUCCESS, NULL);
        return;
    case -EDQUOT:
        reply_status(c, id, ETW_ERROR_NO_SYSTEM_RESOURCES,
                     "quota of the user: registrations (MaxRegistrationsPerUser) or arena memory "
                     "(ArenaMemoryMB)");
        return;
    case -ENOSPC:
        reply_status(c, id, ETW_ERROR_NO_SYSTEM_RESOURCES,
                     "the process has as many rings as a process may have");
        return;
    case -ENOENT:
        reply_status(c, id, ETW_ERROR_NOT_FOUND, "there is no such registration");
        return;
    case -EEXIST:
        reply_status(c, id, ETW_ERROR_ALREADY_EXISTS, "the registration's index is taken");
        return;
    case -EINVAL:
    case -ERANGE:
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER,
                     "there is no such index, or no such arena");
        return;
    case -EBUSY:
        reply_status(c, id, ETW_ERROR_BUSY, "too many requests for rings");
        return;
    default:
        reply_errno(c, id, r);
    }
}

static void on_register(struct connection *c, uint64_t id, const Etwd__Register *m)
{
    struct provider_peer_state *s = attached(c, id);
    struct provider_enabled enabled;
    struct etw_guid guid;
    int r;

    if (!s)
        return;
    if (!message_guid(&m->guid, &guid)) {
        reply_errno(c, id, -EBADMSG);
        return;
    }
    s->registering = true;
    r = provider_register(s->process, m->index, &guid, m->traits.data, m->traits.len, &enabled);
    s->registering = false;
    if (r < 0) {
        offer_drop(s);
        reply_provider(c, id, r);
        return;
    }
    Etwd__Message reply = ETWD__MESSAGE__INIT;
    Etwd__RegisterReply body = ETWD__REGISTER_REPLY__INIT;
    Etwd__EnableChange first = ETWD__ENABLE_CHANGE__INIT;
    body.enabled = enabled.enabled;
    if (enabled.enabled) {
        first.index = m->index;
        first.control_code = 1;
        first.level = enabled.level;
        first.any = enabled.any;
        first.all = enabled.all;
        body.change = &first;
    }
    if (s->offered)
        body.arena = &s->offer;
    reply.id = id;
    reply.body_case = ETWD__MESSAGE__BODY_REGISTER_REPLY;
    reply.register_reply = &body;
    connection_send_fds(c, &reply, s->offer_fds, s->n_offer_fds);
    offer_drop(s);
}

static void waiting_answer(struct provider_peer_state *s, int r)
{
    size_t n = s->n_waiting;
    s->n_waiting = 0;
    for (size_t i = 0; i < n; i++)
        reply_provider(s->connection, s->waiting[i], r);
}

static void on_arena_mapped(struct connection *c, uint64_t id, const Etwd__ArenaMapped *m)
{
    struct provider_peer_state *s = attached(c, id);
    int r;

    if (!s)
        return;
    r = provider_arena_mapped(s->process, m->arena, m->status);
    if (r == -EPROTO) {
        connection_hang_up(c);
        return;
    }
    reply_provider(c, id, r);
    waiting_answer(s, m->status != 0 ? -ENOMEM : r);
}

static void on_more_rings(struct connection *c, uint64_t id)
{
    struct provider_peer_state *s = attached(c, id);
    int r;

    if (!s)
        return;
    r = provider_more_rings(s->process);
    if (r == -EINPROGRESS && s->n_waiting < ARRAY_SIZE(s->waiting)) {
        s->waiting[s->n_waiting++] = id;
        return;
    }
    reply_provider(c, id, r == -EINPROGRESS ? -EBUSY : r);
}

/* ---- controllers ---- */

static void enable_done(uint32_t status, const char *reason, void *userdata)
{
    pending_status(userdata, status, reason);
}

static void on_enable(struct connection *c, uint64_t id, const Etwd__EnableProvider *m,
                      const int *fds, size_t n_fds)
{
    struct enable_filter filters[ETW_FILTERS_MAX];
    struct enable_request req = {
        .code = m->control_code,
        .level = (uint8_t) m->level,
        .any = m->any,
        .all = m->all,
        .properties = m->properties,
        .timeout_ms = m->timeout_ms,
        .filters = filters,
        .n_filters = m->n_filters,
        .pid_filter = m->pid_filter,
        .pidfds = fds,
        .n_pidfds = n_fds,
        .waiter = connection_number(c),
    };

    struct session *s = session_for(c, id, m->name, m->handle, true);
    if (!s)
        return;
    if (session_is_kernel(s)) {
        reply_status(c, id, ETW_ERROR_NOT_SUPPORTED,
                     "the kernel logger takes the kernel's events alone: this etwd does not have "
                     "system loggers with providers yet");
        return;
    }
    if (session_is_stopping(s)) {
        reply_status(c, id, ETW_ERROR_WMI_INSTANCE_NOT_FOUND, "the session is being stopped");
        return;
    }
    if (!message_guid(&m->guid, &req.guid) ||
        (m->source_id.len != 0 && !message_guid(&m->source_id, &req.source))) {
        reply_errno(c, id, -EBADMSG);
        return;
    }
    if (m->level > UINT8_MAX || m->n_filters > ARRAY_SIZE(filters) || etw_guid_is_null(&req.guid)) {
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER,
                     "the level is above 255, there are more than 13 filters, or the provider is "
                     "the null GUID");
        return;
    }
    for (size_t i = 0; i < m->n_filters; i++)
        filters[i] = (struct enable_filter){
            .type = m->filters[i]->type,
            .data = m->filters[i]->data.data,
            .size = m->filters[i]->data.len,
        };
    struct pending *p = pending_new(c, id);
    if (!p)
        return;
    providers_enable(connection_server(c)->env.providers, s, session_is_trusted(s),
                     session_owner_uid(s), &req, enable_done, p);
}

static bool mark_may(const void *context, const struct session *s)
{
    const struct peer *peer = context;
    return policy_may_control(peer, session_owner_uid(s), session_is_kernel(s));
}

static void mark_done(unsigned marked, void *userdata)
{
    if (marked > 0)
        pending_status(userdata, ETW_ERROR_SUCCESS, NULL);
    else
        pending_status(userdata, ETW_ERROR_WMI_INSTANCE_NOT_FOUND,
                       "there is no session that the caller may mark");
}

static void on_mark(struct connection *c, uint64_t id, const Etwd__Mark *m)
{
    if (strlen(m->text) > ETWD_MARK_MAX) {
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER, "the text has more than 2048 bytes");
        return;
    }
    struct pending *p = pending_new(c, id);
    if (p)
        sessions_mark(connection_server(c)->env.sessions, m->text, mark_may, connection_peer(c),
                      sizeof(struct peer), mark_done, p);
}

bool dispatch_provider(struct connection *c, const Etwd__Message *m, int *fds, size_t n_fds)
{
    struct provider_peer_state *s;

    if (!connection_server(c)->env.providers)
        return false;
    switch (m->body_case) {
    case ETWD__MESSAGE__BODY_ATTACH:
        on_attach(c, m->id, m->attach);
        return true;
    case ETWD__MESSAGE__BODY_REGISTER:
        on_register(c, m->id, m->register_);
        return true;
    case ETWD__MESSAGE__BODY_UNREGISTER:
        s = attached(c, m->id);
        if (s)
            reply_provider(c, m->id, provider_unregister(s->process, m->unregister->index));
        return true;
    case ETWD__MESSAGE__BODY_SET_TRAITS:
        s = attached(c, m->id);
        if (s)
            reply_provider(c, m->id,
                           provider_set_traits(s->process, m->set_traits->index,
                                               m->set_traits->traits.data,
                                               m->set_traits->traits.len));
        return true;
    case ETWD__MESSAGE__BODY_ARENA_MAPPED:
        on_arena_mapped(c, m->id, m->arena_mapped);
        return true;
    case ETWD__MESSAGE__BODY_MORE_RINGS:
        on_more_rings(c, m->id);
        return true;
    case ETWD__MESSAGE__BODY_WAKE:
        s = connection_provider(c);
        if (s)
            provider_wake(s->process);
        return true;
    case ETWD__MESSAGE__BODY_CALLBACK_DONE:
        s = connection_provider(c);
        if (s)
            provider_callback_done(s->process, m->callback_done->cookie);
        return true;
    case ETWD__MESSAGE__BODY_ENABLE_PROVIDER:
        on_enable(c, m->id, m->enable_provider, fds, n_fds);
        return true;
    case ETWD__MESSAGE__BODY_LIST_PROVIDERS:
        dispatch_list_providers(c, m->id, m->list_providers);
        return true;
    case ETWD__MESSAGE__BODY_MARK:
        on_mark(c, m->id, m->mark);
        return true;
    default:
        return false;
    }
}
