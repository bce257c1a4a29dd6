/* SPDX-License-Identifier: Apache-2.0
 *
 * What a provider process and the daemon tell each other: hello, attach, registrations, arenas,
 * changes of enablement. A state machine that never waits: requests are sent as the state says, and
 * each message that comes moves it on. All under the process's lock but where said; whoever reads
 * the socket (the helper, or without one the thread that waits) calls connection_dispatch().
 */
#include "internal.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "message.h"

/* ---- telling ---- */

static int tell_register(struct process *p, uint32_t index)
{
    const struct registration *r = &provider_registrations[index];
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Register body = ETWD__REGISTER__INIT;
    int e;

    body.index = index;
    body.guid.data = (uint8_t *) (uintptr_t) &r->guid;
    body.guid.len = sizeof(r->guid);
    body.traits.data = (uint8_t *) (uintptr_t) r->traits;
    body.traits.len = r->traits ? r->traits_size : 0;
    m.id = REQUEST_ID(REQUEST_REGISTER, index);
    m.body_case = ETWD__MESSAGE__BODY_REGISTER;
    m.register_ = &body;
    e = message_send(p, &m);
    if (e < 0)
        return e;
    p->links[index] = LINK_SENT;
    p->traits_unsent[index] = false;
    return 0;
}

static int tell_unregister(struct process *p, uint32_t index)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Unregister body = ETWD__UNREGISTER__INIT;
    int e;

    body.index = index;
    m.id = REQUEST_ID(REQUEST_UNREGISTER, index);
    m.body_case = ETWD__MESSAGE__BODY_UNREGISTER;
    m.unregister = &body;
    e = message_send(p, &m);
    if (e < 0)
        return e;
    p->links[index] = LINK_GONE;
    p->traits_unsent[index] = false;
    return 0;
}

static int tell_traits(struct process *p, uint32_t index)
{
    const struct registration *r = &provider_registrations[index];
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__SetTraits body = ETWD__SET_TRAITS__INIT;
    int e;

    body.index = index;
    body.traits.data = (uint8_t *) (uintptr_t) r->traits;
    body.traits.len = r->traits_size;
    m.id = REQUEST_ID(REQUEST_TRAITS, index);
    m.body_case = ETWD__MESSAGE__BODY_SET_TRAITS;
    m.set_traits = &body;
    e = message_send(p, &m);
    if (e < 0)
        return e;
    p->traits_unsent[index] = false;
    return 0;
}

int connection_tell(struct process *p, uint32_t index)
{
    bool registered = atomic_load(&provider_registrations[index].handle) != 0;
    int r = 0;

    if (atomic_load(&p->fd) == 0)
        return 0;
    switch ((enum link) p->links[index]) {
    case LINK_NONE:
        if (registered)
            r = tell_register(p, index);
        break;
    case LINK_GOING:
        r = tell_unregister(p, index);
        break;
    case LINK_SENT:
    case LINK_LIVE:
        if (registered && p->traits_unsent[index])
            r = tell_traits(p, index);
        break;
    case LINK_REFUSED:
    case LINK_GONE:
        break;
    }
    if (r < 0)
        p->dirty = true;
    return r;
}

static void tell_mapped(struct process *p, uint32_t arena, uint32_t status)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__ArenaMapped body = ETWD__ARENA_MAPPED__INIT;

    body.arena = arena;
    body.status = status;
    m.id = REQUEST_ID(REQUEST_ARENA, arena);
    m.body_case = ETWD__MESSAGE__BODY_ARENA_MAPPED;
    m.arena_mapped = &body;
    if (message_send(p, &m) >= 0)
        p->untold_arenas &= ~(1ull << arena);
    else
        p->dirty = true;
}

void connection_flush(struct process *p)
{
    uint32_t end = atomic_load(&provider_registrations_end);

    p->dirty = false;
    for (uint32_t n = 0; n < SHM_RINGS_MAX / SHM_RINGS_PER_ARENA; n++)
        if (p->untold_arenas & 1ull << n)
            tell_mapped(p, n, 0);
    for (uint32_t i = 0; i < end && !p->dirty; i++)
        (void) connection_tell(p, i);
}

int connection_callback_done(struct process *p, uint64_t cookie)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__CallbackDone body = ETWD__CALLBACK_DONE__INIT;

    if (atomic_load(&p->fd) == 0)
        return 0;
    body.cookie = cookie;
    m.body_case = ETWD__MESSAGE__BODY_CALLBACK_DONE;
    m.callback_done = &body;
    return message_send(p, &m);
}

int connection_more_rings(struct process *p)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__MoreRings body = ETWD__MORE_RINGS__INIT;

    m.id = REQUEST_MORE_RINGS;
    m.body_case = ETWD__MESSAGE__BODY_MORE_RINGS;
    m.more_rings = &body;
    return message_send(p, &m);
}

/* ---- begin and end ---- */

static uint32_t last_epoch;

void epoch_raise(struct process *p)
{
    last_epoch = last_epoch + 1 == EPOCH_NONE ? 1 : last_epoch + 1;
    atomic_store(&p->epoch, last_epoch);
}

/* A copy of the last one that a child can see. */
static struct {
    int fd;
    struct shm_identity identity;
} inheritance = {.fd = -1};

void connection_disinherit(void)
{
    if (inheritance.fd >= 0 && shm_identity_is(inheritance.fd, &inheritance.identity))
        (void) syscall(SYS_close, inheritance.fd);
    inheritance.fd = -1;
}

void connection_begin(struct process *p, int fd)
{
    p->hello = false;
    p->attached = false;
    p->dirty = false;
    p->mute = false;
    p->ring_size = 0;
    p->unanswered_arenas = 0;
    p->untold_arenas = 0;
    atomic_store(&p->more_asked, 0);
    atomic_store(&p->more_after, 0);
    p->fences = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) < 0;
    if (shm_identity_get(fd, &p->identity) < 0) {
        (void) syscall(SYS_close, fd);
        return;
    }
    inheritance.identity = p->identity;
    inheritance.fd = fd;
    atomic_store(&p->fd, fd + 1);
    /* The socket is empty: these cannot be refused but for an end, which the reader sees. */
    if (message_send_hello(fd) >= 0 && message_send_attach(fd, p->fences, p->threadless) >= 0)
        connection_flush(p);
    process_changed(p);
}

void connection_end(struct process *p)
{
    uint32_t end = atomic_load(&provider_registrations_end);
    int fd = atomic_load(&p->fd) - 1;
    bool ours;

    if (fd < 0)
        return;
    ours = connection_ours(p);
    atomic_store(&p->fd, 0);
    enable_table_none();
    epoch_raise(p);
    arenas_retire(p);
    /* After that: nobody is about to send on it. */
    if (ours)
        (void) syscall(SYS_close, fd);
    inheritance.fd = -1;
    p->attached = false;
    p->unanswered_arenas = 0;
    p->dirty = false;
    for (uint32_t i = 0; i < end; i++) {
        bool enabled = p->enabled[i];
        p->links[i] = LINK_NONE;
        p->traits_unsent[i] = false;
        p->enabled[i] = false;
        /* The sessions went with the daemon. */
        if (enabled && atomic_load(&provider_registrations[i].handle) != 0) {
            Etwd__EnableChange change = ETWD__ENABLE_CHANGE__INIT;
            change.index = i;
            callbacks_queue(p, i, &change);
        }
    }
    process_changed(p);
}

/* ---- hearing ---- */

static void hear_arena(struct process *p, struct received *got, const Etwd__ArenaOffer *offer)
{
    int arena = got->n_fds > 0 ? got->fds[0] : -1;
    int control = offer->control && got->n_fds > 1 ? got->fds[1] : -1;
    int r;

    if (offer->arena >= SHM_RINGS_MAX / SHM_RINGS_PER_ARENA)
        return;
    got->fds[0] = -1;
    if (control >= 0)
        got->fds[1] = -1;
    r = arena_map(p, offer->arena, offer->ring_size, arena, control);
    if (r >= 0) {
        p->unanswered_arenas |= 1ull << offer->arena;
        p->untold_arenas |= 1ull << offer->arena;
    }
    tell_mapped(p, offer->arena, r < 0 ? (uint32_t) -r : 0);
}

static void hear_registered(struct process *p, struct received *got, uint32_t index)
{
    const Etwd__Message *m = got->message;
    const Etwd__RegisterReply *reply =
        m->body_case == ETWD__MESSAGE__BODY_REGISTER_REPLY ? m->register_reply : NULL;

    /* The process's first arena, whatever became of the registration meanwhile. */
    if (p->links[index] == LINK_SENT) {
        if (m->status == 0) {
            p->links[index] = LINK_LIVE;
        } else {
            p->links[index] = LINK_REFUSED;
            p->answers[index] = m->status;
        }
    }
    if (m->status == 0 && reply && reply->arena)
        hear_arena(p, got, reply->arena);
    if (p->links[index] != LINK_LIVE)
        return;
    if (p->control)
        enable_table_publish(index);
    if (reply && reply->enabled && reply->change)
        callbacks_queue(p, index, reply->change);
}

static int hear_reply(struct process *p, struct received *got)
{
    const Etwd__Message *m = got->message;
    uint32_t index = request_index(m->id);

    switch (request_of(m->id)) {
    case REQUEST_HELLO:
        p->hello = true;
        return m->status == 0 ? 0 : -EPROTO;
    case REQUEST_ATTACH:
        p->attached = m->status == 0;
        return m->status == 0 ? 0 : -EPROTO;
    case REQUEST_MORE_RINGS:
        if (m->status != 0)
            atomic_store(&p->more_after,
                         etw_clock_boottime() + ETW_CLIENT_RING_AGAIN_MS * 1000000ull);
        atomic_store(&p->more_asked, 0);
        return 0;
    case REQUEST_REGISTER:
        if (index < SHM_REGISTRATIONS_MAX)
            hear_registered(p, got, index);
        return 0;
    case REQUEST_UNREGISTER:
        if (index < SHM_REGISTRATIONS_MAX && p->links[index] == LINK_GONE)
            p->links[index] = LINK_NONE;
        return 0;
    case REQUEST_ARENA:
        if (index < SHM_RINGS_MAX / SHM_RINGS_PER_ARENA)
            p->unanswered_arenas &= ~(1ull << index);
        return 0;
    case REQUEST_TRAITS:
    default:
        return 0;
    }
}

/* Another daemon reads what this one did not: ask again. */
static void hear_restarted(struct process *p)
{
    uint32_t end = atomic_load(&provider_registrations_end);
    int fd = atomic_load(&p->fd) - 1;

    if (!connection_ours(p))
        return;
    if (!p->hello)
        (void) message_send_hello(fd);
    if (!p->attached)
        (void) message_send_attach(fd, p->fences, p->threadless);
    for (uint32_t i = 0; i < end; i++) {
        if (p->links[i] == LINK_SENT)
            p->links[i] = LINK_NONE;
        else if (p->links[i] == LINK_GONE)
            p->links[i] = LINK_GOING;
        if (p->links[i] == LINK_LIVE && provider_registrations[i].traits)
            p->traits_unsent[i] = true;
    }
    p->untold_arenas = p->unanswered_arenas;
    atomic_store(&p->more_asked, 0);
    rings_forget_wakes();
    connection_flush(p);
}

int connection_dispatch(struct process *p, struct receiver *rx)
{
    struct received *got = receiver_got(rx);
    const Etwd__Message *m = got->message;
    int r = 0;

    p->mute = false;
    if (m->id != 0) {
        r = hear_reply(p, got);
    } else {
        switch (m->body_case) {
        case ETWD__MESSAGE__BODY_ARENA_OFFER:
            hear_arena(p, got, m->arena_offer);
            break;
        case ETWD__MESSAGE__BODY_ENABLE_CHANGE:
            if (m->enable_change->index < SHM_REGISTRATIONS_MAX)
                callbacks_queue(p, m->enable_change->index, m->enable_change);
            break;
        case ETWD__MESSAGE__BODY_RESTARTED:
            hear_restarted(p);
            break;
        default: /* of a newer daemon */
            break;
        }
    }
    receiver_drop(rx);
    if (r >= 0 && p->dirty)
        connection_flush(p);
    process_changed(p);
    return r;
}

bool connection_settled(const struct process *p, uint32_t index)
{
    uint32_t end = atomic_load(&provider_registrations_end);

    if (atomic_load(&p->fd) == 0)
        return !p->connecting;
    if (p->unanswered_arenas != 0)
        return false;
    if (index < SHM_REGISTRATIONS_MAX)
        return p->links[index] == LINK_LIVE || p->links[index] == LINK_REFUSED;
    for (uint32_t i = 0; i < end; i++)
        if (p->links[i] == LINK_SENT || p->links[i] == LINK_GONE)
            return false;
    return p->attached;
}

/* For pumping, under the lock. Ordinary memory: a child takes its copy over. */
static struct receiver *pump_receiver;

/* One message: 1; 0: none until the deadline; -errno: the connection has ended. */
static int pump_one(struct process *p, uint64_t deadline)
{
    struct pollfd poll = {.fd = atomic_load(&p->fd) - 1, .events = POLLIN};
    uint64_t now = etw_clock_boottime();
    struct timespec left;
    long n;
    int r;

    if (poll.fd < 0)
        return -ENOTCONN;
    if (now >= deadline)
        return 0;
    if (!pump_receiver) {
        r = receiver_new(&pump_receiver);
        if (r < 0)
            return r;
    }
    if (!connection_ours(p)) {
        connection_end(p);
        return -ENOTCONN;
    }
    left.tv_sec = (time_t) ((deadline - now) / ETW_NSEC_PER_SEC);
    left.tv_nsec = (long) ((deadline - now) % ETW_NSEC_PER_SEC);
    n = syscall(SYS_ppoll, &poll, 1, &left, NULL, 0);
    if (n == 0 || (n < 0 && errno == EINTR))
        return 1;
    r = connection_receive(pump_receiver, poll.fd, MSG_DONTWAIT);
    if (r == -EAGAIN)
        return 1;
    if (r >= 0)
        r = connection_dispatch(p, pump_receiver);
    if (r < 0) {
        connection_end(p);
        return r;
    }
    return 1;
}

void connection_pump(struct process *p, uint32_t index, uint64_t deadline)
{
    while (!connection_settled(p, index))
        if (pump_one(p, deadline) <= 0)
            return;
}

void connection_pump_one(struct process *p, uint64_t deadline)
{
    (void) pump_one(p, deadline);
}

void connection_revive(struct process *p)
{
    uint64_t now = etw_clock_boottime();

    if (!process_trylock(p))
        return;
    (void) pump_one(p, now + 1000000);
    if (atomic_load(&p->fd) == 0 && connect_now(p) >= 0)
        connection_pump(p, SHM_REGISTRATIONS_MAX, now + ETW_CLIENT_RING_MS * 1000000ull);
    process_unlock(p);
}
