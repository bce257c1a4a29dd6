/* SPDX-License-Identifier: Apache-2.0
 *
 * See provider-daemon.h.
 */
#include "provider-daemon.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/winerror.h"
#include "lib/test.h"

#define RECORD_MAX 70000u

static void send_message(struct pd_connection *c, const Etwd__Message *m, const int *fds, size_t n)
{
    (void) wire_send(c->fd, m, fds, n, 0);
}

static void reply_plain(struct pd_connection *c, uint64_t id, uint32_t status)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;

    m.id = id;
    m.status = status;
    send_message(c, &m, NULL, 0);
}

static struct pd_enable *enable_of(struct provider_daemon *d, const struct etw_guid *guid)
{
    for (unsigned i = 0; i < PD_ENABLES; i++)
        if (d->enables[i].used && etw_guid_equal(&d->enables[i].guid, guid))
            return &d->enables[i];
    return NULL;
}

static void composite(const struct pd_enable *e, Etwd__EnableChange *ret)
{
    ret->control_code = e && e->n_slots > 0;
    ret->level = e ? e->level : 0;
    ret->any = e ? e->any : 0;
    ret->all = e ? e->all : 0;
}

static void publish(struct provider_daemon *d, struct pd_connection *c, uint32_t index)
{
    struct pd_enable *e = enable_of(d, &c->registrations[index].guid);
    uint32_t generation;

    if (e)
        ck_assert_int_eq(shm_control_publish(c->area, index, e->slots, e->n_slots, &generation), 0);
}

/* The next arena, offered by the caller. */
static void arena_make(struct provider_daemon *d, struct pd_connection *c, int fds[2],
                       size_t *ret_n)
{
    unsigned n = c->n_arenas;

    ck_assert_uint_lt(n, PD_ARENAS);
    ck_assert_int_eq(shm_arena_create(d->ring_size, &c->arena_fds[n]), 0);
    fds[0] = c->arena_fds[n];
    *ret_n = 1;
    if (n == 0) {
        ck_assert_int_eq(shm_control_create(&c->control_fd, &c->client_fd), 0);
        ck_assert_int_eq(shm_control_map_write(c->control_fd, &c->base), 0);
        ck_assert_int_eq(shm_control_new(c->control_fd, c->base, d->ring_size, &c->area), 0);
        for (uint32_t i = 0; i < SHM_REGISTRATIONS_MAX; i++)
            if (c->registrations[i].used)
                ck_assert_int_eq(shm_control_add_registration(c->area, i), 0);
        fds[1] = c->client_fd;
        *ret_n = 2;
    }
}

static void rings_give(struct provider_daemon *d, struct pd_connection *c, unsigned n)
{
    for (; n > 0 && c->n_rings < c->n_arenas * SHM_RINGS_PER_ARENA; n--) {
        unsigned ring = c->n_rings++;
        unsigned arena = ring / SHM_RINGS_PER_ARENA;
        ck_assert_int_eq(
            shm_arena_give_ring(c->arena_fds[arena], d->ring_size, ring % SHM_RINGS_PER_ARENA), 0);
        ck_assert_int_eq(shm_control_add_ring(c->area, ring), 0);
        ck_assert_int_eq(shm_reader_init(&c->readers[ring], c->arenas[arena], c->base, arena,
                                         ring % SHM_RINGS_PER_ARENA, d->ring_size,
                                         etw_clock_boottime()),
                         0);
        shm_control_set_rings(c->area, c->n_rings);
    }
}

static void on_register(struct provider_daemon *d, struct pd_connection *c, const Etwd__Message *m)
{
    Etwd__Message reply = ETWD__MESSAGE__INIT;
    Etwd__RegisterReply body = ETWD__REGISTER_REPLY__INIT;
    Etwd__ArenaOffer offer = ETWD__ARENA_OFFER__INIT;
    Etwd__EnableChange change = ETWD__ENABLE_CHANGE__INIT;
    struct pd_registration *r = &c->registrations[m->register_->index];
    struct pd_enable *e;
    size_t n_fds = 0;
    int fds[2];

    c->was = true;
    c->registers++;
    if (d->register_status != 0) {
        reply_plain(c, m->id, d->register_status);
        return;
    }
    ck_assert_uint_eq(m->register_->guid.len, sizeof(r->guid));
    /* Asked again after Restarted: the same. */
    ck_assert(!r->used || memcmp(&r->guid, m->register_->guid.data, sizeof(r->guid)) == 0);
    r->used = true;
    memcpy(&r->guid, m->register_->guid.data, sizeof(r->guid));
    r->traits_size = m->register_->traits.len < sizeof(r->traits) ? m->register_->traits.len : 0;
    if (r->traits_size > 0)
        memcpy(r->traits, m->register_->traits.data, r->traits_size);
    e = enable_of(d, &r->guid);
    reply.id = m->id;
    reply.body_case = ETWD__MESSAGE__BODY_REGISTER_REPLY;
    reply.register_reply = &body;
    if (c->area)
        ck_assert_int_eq(shm_control_add_registration(c->area, m->register_->index), 0);
    if (c->area && c->n_arenas > 0)
        publish(d, c, m->register_->index);
    if (e && e->n_slots > 0) {
        body.enabled = true;
        change.index = m->register_->index;
        composite(e, &change);
        body.change = &change;
    }
    if ((body.enabled || c->threadless) && !c->area) {
        arena_make(d, c, fds, &n_fds);
        offer.ring_size = d->ring_size;
        offer.control = true;
        body.arena = &offer;
    }
    send_message(c, &reply, fds, n_fds);
}

static void on_mapped(struct provider_daemon *d, struct pd_connection *c, const Etwd__Message *m)
{
    unsigned n = m->arena_mapped->arena;

    ck_assert_uint_eq(m->arena_mapped->status, 0);
    ck_assert_uint_lt(n, PD_ARENAS);
    if (n == c->n_arenas) {
        ck_assert_int_eq(shm_arena_seal(c->arena_fds[n], d->ring_size), 0);
        ck_assert_int_eq(shm_arena_map_read(c->arena_fds[n], d->ring_size, &c->arenas[n]), 0);
        c->n_arenas++;
        rings_give(d, c, n == 0 ? d->rings_first : d->rings_more);
        if (n == 0)
            for (uint32_t i = 0; i < SHM_REGISTRATIONS_MAX; i++)
                if (c->registrations[i].used)
                    publish(d, c, i);
    }
    reply_plain(c, m->id, 0);
}

static void offer_arena(struct provider_daemon *d, struct pd_connection *c)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__ArenaOffer offer = ETWD__ARENA_OFFER__INIT;
    size_t n_fds;
    int fds[2];

    arena_make(d, c, fds, &n_fds);
    offer.arena = c->n_arenas;
    offer.ring_size = d->ring_size;
    offer.control = n_fds > 1;
    m.body_case = ETWD__MESSAGE__BODY_ARENA_OFFER;
    m.arena_offer = &offer;
    send_message(c, &m, fds, n_fds);
}

static void on_more(struct provider_daemon *d, struct pd_connection *c, const Etwd__Message *m)
{
    c->more_rings++;
    if (d->rings_more == 0 || c->n_arenas == 0) {
        reply_plain(c, m->id, ETW_ERROR_NO_SYSTEM_RESOURCES);
        return;
    }
    if (c->n_rings == c->n_arenas * SHM_RINGS_PER_ARENA && c->n_arenas < PD_ARENAS)
        offer_arena(d, c);
    else
        rings_give(d, c, d->rings_more);
    reply_plain(c, m->id, 0);
}

static void on_hello(struct provider_daemon *d, struct pd_connection *c, const Etwd__Message *m)
{
    Etwd__Message reply = ETWD__MESSAGE__INIT;
    Etwd__HelloReply body = ETWD__HELLO_REPLY__INIT;

    ck_assert_uint_eq(m->hello->protocol, ETWD_PROTOCOL);
    reply.id = m->id;
    reply.status = d->hello_status;
    body.protocol = ETWD_PROTOCOL;
    reply.body_case = ETWD__MESSAGE__BODY_HELLO_REPLY;
    reply.hello_reply = &body;
    send_message(c, &reply, NULL, 0);
}

static void connection_close(struct pd_connection *c)
{
    if (c->fd >= 0)
        (void) close(c->fd);
    c->fd = -1;
}

static void on_message(struct provider_daemon *d, struct pd_connection *c, const Etwd__Message *m)
{
    switch (m->body_case) {
    case ETWD__MESSAGE__BODY_WAKE:
        c->wakes++;
        return;
    case ETWD__MESSAGE__BODY_CALLBACK_DONE:
        if (c->n_done < 64)
            c->done[c->n_done++] = m->callback_done->cookie;
        return;
    default:
        break;
    }
    if (d->silent)
        return;
    switch (m->body_case) {
    case ETWD__MESSAGE__BODY_HELLO:
        on_hello(d, c, m);
        break;
    case ETWD__MESSAGE__BODY_ATTACH:
        ck_assert_uint_eq(m->attach->shm_version, SHM_VERSION);
        for (unsigned i = 0; i < PD_CONNECTIONS; i++) {
            struct pd_connection *other = &d->connections[i];
            if (other != c && other->fd >= 0 && other->attached && other->pid == c->pid)
                connection_close(other);
        }
        c->attached = true;
        c->threadless = m->attach->threadless;
        reply_plain(c, m->id, 0);
        break;
    case ETWD__MESSAGE__BODY_REGISTER:
        on_register(d, c, m);
        break;
    case ETWD__MESSAGE__BODY_UNREGISTER:
        c->unregisters++;
        c->registrations[m->unregister->index].used = false;
        if (c->area) {
            uint32_t generation;
            ck_assert_int_eq(
                shm_control_publish(c->area, m->unregister->index, NULL, 0, &generation), 0);
        }
        reply_plain(c, m->id, 0);
        break;
    case ETWD__MESSAGE__BODY_SET_TRAITS: {
        struct pd_registration *r = &c->registrations[m->set_traits->index];
        r->traits_size =
            m->set_traits->traits.len < sizeof(r->traits) ? m->set_traits->traits.len : 0;
        if (r->traits_size > 0)
            memcpy(r->traits, m->set_traits->traits.data, r->traits_size);
        reply_plain(c, m->id, 0);
        break;
    }
    case ETWD__MESSAGE__BODY_ARENA_MAPPED:
        on_mapped(d, c, m);
        break;
    case ETWD__MESSAGE__BODY_MORE_RINGS:
        on_more(d, c, m);
        break;
    default:
        reply_plain(c, m->id, ETW_ERROR_NOT_SUPPORTED);
        break;
    }
}

static void serve(struct provider_daemon *d, struct pd_connection *c)
{
    Etwd__Message *m = NULL;
    size_t n_fds;

    if (c->fd < 0)
        return;
    if (wire_receive(c->fd, MSG_DONTWAIT, &m, NULL, 0, &n_fds) < 0) {
        connection_close(c);
        return;
    }
    on_message(d, c, m);
    (void) wire_message_free(m);
}

static void connection_clear(struct pd_connection *c)
{
    connection_close(c);
    if (c->area) {
        (void) shm_control_free(c->area);
        shm_control_unmap(c->base);
        (void) close(c->control_fd);
        (void) close(c->client_fd);
    }
    for (unsigned i = 0; i < PD_ARENAS; i++) {
        shm_arena_unmap(c->arenas[i], c->readers[0].size);
        if (c->arena_fds[i] > 0)
            (void) close(c->arena_fds[i]);
    }
    free(c->registrations);
    memset(c, 0, sizeof(*c));
    c->fd = -1;
}

static void accept_one(struct provider_daemon *d)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);
    struct pd_connection *c;

    if (fd < 0)
        return;
    c = &d->connections[d->accepted % PD_CONNECTIONS];
    connection_clear(c);
    c->fd = fd;
    c->registrations = calloc(SHM_REGISTRATIONS_MAX, sizeof(*c->registrations));
    ck_assert_ptr_nonnull(c->registrations);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0)
        c->pid = peer.pid;
    d->accepted++;
}

static void *run(void *arg)
{
    struct provider_daemon *d = arg;

    for (;;) {
        struct pollfd p[PD_CONNECTIONS + 2];
        pthread_mutex_lock(&d->lock);
        p[0] = (struct pollfd){.fd = d->listener, .events = POLLIN};
        p[1] = (struct pollfd){.fd = d->stop[0], .events = POLLIN};
        for (unsigned i = 0; i < PD_CONNECTIONS; i++)
            p[i + 2] = (struct pollfd){.fd = d->connections[i].fd, .events = POLLIN};
        pthread_mutex_unlock(&d->lock);
        /* Not for ever: the test closes connections too. */
        (void) poll(p, PD_CONNECTIONS + 2, 20);
        if (p[1].revents)
            return NULL;
        pthread_mutex_lock(&d->lock);
        for (unsigned i = 0; i < PD_CONNECTIONS; i++)
            if (p[i + 2].revents && d->connections[i].fd == p[i + 2].fd)
                serve(d, &d->connections[i]);
        if (p[0].revents)
            accept_one(d);
        pthread_mutex_unlock(&d->lock);
    }
}

struct provider_daemon *pd_start(const char *path, uint32_t ring_size)
{
    struct provider_daemon *d = calloc(1, sizeof(*d));
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    ck_assert_ptr_nonnull(d);
    for (unsigned i = 0; i < PD_CONNECTIONS; i++)
        d->connections[i].fd = -1;
    d->ring_size = ring_size;
    d->rings_first = SHM_RINGS_PER_ARENA;
    d->rings_more = 4;
    d->path = path ? strdup(path) : test_path("provider.sock");
    ck_assert_uint_lt(strlen(d->path), sizeof(sa.sun_path));
    strcpy(sa.sun_path, d->path);
    (void) unlink(d->path);
    d->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(d->listener, 0);
    ck_assert_int_eq(bind(d->listener, (const struct sockaddr *) &sa, sizeof(sa)), 0);
    ck_assert_int_eq(listen(d->listener, 64), 0);
    ck_assert_int_eq(pipe(d->stop), 0);
    pthread_mutex_init(&d->lock, NULL);
    ck_assert_int_eq(pthread_create(&d->thread, NULL, run, d), 0);
    ck_assert_int_eq(setenv("ETWD_SOCKET", d->path, 1), 0);
    return d;
}

struct provider_daemon *pd_stop(struct provider_daemon *d)
{
    if (!d)
        return NULL;
    (void) !write(d->stop[1], "", 1);
    (void) pthread_join(d->thread, NULL);
    (void) close(d->listener);
    (void) close(d->stop[0]);
    (void) close(d->stop[1]);
    for (unsigned i = 0; i < PD_CONNECTIONS; i++)
        connection_clear(&d->connections[i]);
    (void) unlink(d->path);
    pthread_mutex_destroy(&d->lock);
    free(d->path);
    free(d);
    return NULL;
}

static void send_change(struct pd_connection *c, Etwd__EnableChange *change)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;

    m.body_case = ETWD__MESSAGE__BODY_ENABLE_CHANGE;
    m.enable_change = change;
    send_message(c, &m, NULL, 0);
}

static bool arenas_made(struct provider_daemon *d, void *arg)
{
    const struct etw_guid *guid = arg;

    for (unsigned k = 0; k < PD_CONNECTIONS; k++) {
        struct pd_connection *c = &d->connections[k];
        bool has = false;
        for (uint32_t i = 0; c->fd >= 0 && i < SHM_REGISTRATIONS_MAX; i++)
            has |= c->registrations[i].used && etw_guid_equal(&c->registrations[i].guid, guid);
        if (has && c->n_arenas == 0)
            return false;
    }
    return true;
}

void pd_enable(struct provider_daemon *d, const struct etw_guid *guid,
               const struct shm_slot_config *slots, unsigned n, uint64_t cookie)
{
    struct pd_enable *e;

    pthread_mutex_lock(&d->lock);
    e = enable_of(d, guid);
    for (unsigned i = 0; !e && i < PD_ENABLES; i++)
        if (!d->enables[i].used)
            e = &d->enables[i];
    ck_assert_ptr_nonnull(e);
    *e = (struct pd_enable){.used = true, .guid = *guid, .n_slots = n, .all = ~0ull};
    for (unsigned i = 0; i < n; i++) {
        e->slots[i] = slots[i];
        e->any |= slots[i].any;
        e->all &= slots[i].all;
        if (slots[i].level > e->level)
            e->level = slots[i].level;
    }
    for (unsigned k = 0; k < PD_CONNECTIONS; k++) {
        struct pd_connection *c = &d->connections[k];
        bool offered = c->area != NULL;
        for (uint32_t i = 0; c->fd >= 0 && i < SHM_REGISTRATIONS_MAX; i++) {
            if (!c->registrations[i].used || !etw_guid_equal(&c->registrations[i].guid, guid))
                continue;
            if (!offered && n > 0)
                offer_arena(d, c);
            else if (c->n_arenas > 0)
                publish(d, c, i);
            offered = true;
        }
    }
    pthread_mutex_unlock(&d->lock);
    pd_wait(d, arenas_made, (void *) (uintptr_t) guid);
    pthread_mutex_lock(&d->lock);
    for (unsigned k = 0; k < PD_CONNECTIONS; k++) {
        struct pd_connection *c = &d->connections[k];
        for (uint32_t i = 0; c->fd >= 0 && !c->threadless && i < SHM_REGISTRATIONS_MAX; i++) {
            Etwd__EnableChange change = ETWD__ENABLE_CHANGE__INIT;
            if (!c->registrations[i].used || !etw_guid_equal(&c->registrations[i].guid, guid))
                continue;
            change.index = i;
            change.cookie = cookie;
            composite(e, &change);
            send_change(c, &change);
        }
    }
    pthread_mutex_unlock(&d->lock);
}

void pd_change(struct provider_daemon *d, const struct etw_guid *guid, uint32_t code,
               const struct etw_guid *source, const void *filter, size_t filter_size,
               uint64_t cookie)
{
    pthread_mutex_lock(&d->lock);
    for (unsigned k = 0; k < PD_CONNECTIONS; k++) {
        struct pd_connection *c = &d->connections[k];
        for (uint32_t i = 0; c->fd >= 0 && i < SHM_REGISTRATIONS_MAX; i++) {
            Etwd__EnableChange change = ETWD__ENABLE_CHANGE__INIT;
            Etwd__Filter f = ETWD__FILTER__INIT;
            if (!c->registrations[i].used || !etw_guid_equal(&c->registrations[i].guid, guid))
                continue;
            composite(enable_of(d, guid), &change);
            change.index = i;
            change.control_code = code;
            change.cookie = cookie;
            if (source) {
                change.source_id.data = (uint8_t *) (uintptr_t) source;
                change.source_id.len = sizeof(*source);
            }
            if (filter) {
                f.type = 0x80000000u;
                f.data.data = (uint8_t *) (uintptr_t) filter;
                f.data.len = filter_size;
                change.filter = &f;
            }
            send_change(c, &change);
        }
    }
    pthread_mutex_unlock(&d->lock);
}

void pd_restarted(struct provider_daemon *d)
{
    pthread_mutex_lock(&d->lock);
    for (unsigned k = 0; k < PD_CONNECTIONS; k++) {
        Etwd__Message m = ETWD__MESSAGE__INIT;
        Etwd__Restarted body = ETWD__RESTARTED__INIT;
        if (d->connections[k].fd < 0)
            continue;
        m.body_case = ETWD__MESSAGE__BODY_RESTARTED;
        m.restarted = &body;
        send_message(&d->connections[k], &m, NULL, 0);
    }
    pthread_mutex_unlock(&d->lock);
}

void pd_wait(struct provider_daemon *d, pd_condition condition, void *arg)
{
    uint64_t deadline = etw_clock_boottime() + TEST_HANG_LIMIT_S * ETW_NSEC_PER_SEC;

    for (;;) {
        bool holds;
        pthread_mutex_lock(&d->lock);
        holds = condition(d, arg);
        pthread_mutex_unlock(&d->lock);
        if (holds)
            return;
        ck_assert_msg(etw_clock_boottime() < deadline, "nothing happens");
        (void) usleep(500);
    }
}

static struct pd_connection *newest(struct provider_daemon *d)
{
    for (unsigned i = 1; i <= PD_CONNECTIONS && i <= d->accepted; i++) {
        struct pd_connection *c = &d->connections[(d->accepted - i) % PD_CONNECTIONS];
        if (c->was)
            return c;
    }
    return NULL;
}

static bool has_connection(struct provider_daemon *d, void *arg)
{
    return newest(d) != NULL;
}

struct pd_connection *pd_connection(struct provider_daemon *d)
{
    pd_wait(d, has_connection, NULL);
    return newest(d);
}

size_t pd_read(struct provider_daemon *d, struct pd_connection *c, struct pd_event **ret)
{
    struct pd_event *events = NULL;
    uint8_t *record = malloc(RECORD_MAX);
    size_t room = 0;
    size_t n = 0;

    ck_assert_ptr_nonnull(record);
    pthread_mutex_lock(&d->lock);
    for (unsigned ring = 0; ring < c->n_rings; ring++) {
        struct shm_reader *r = &c->readers[ring];
        uint64_t vouch;
        int size;
        ck_assert_int_eq(shm_reader_look(r, etw_clock_boottime(), false, &vouch), 0);
        while ((size = shm_reader_next(r, record, RECORD_MAX)) > 0) {
            struct etl_record prefix;
            struct pd_event *e;
            memcpy(&prefix, record, sizeof(prefix));
            if (prefix.type == SHM_RECORD_CLAIM) {
                memcpy(&c->tids[ring], record + sizeof(prefix), sizeof(uint32_t));
                continue;
            }
            ck_assert_uint_eq(prefix.type, SHM_RECORD_EVENT);
            if (n == room) {
                room = room ? room * 2 : 64;
                events = reallocarray(events, room, sizeof(*events));
                ck_assert_ptr_nonnull(events);
            }
            e = &events[n++];
            *e = (struct pd_event){
                .registration = prefix.registration,
                .generation = prefix.generation,
                .cpu = prefix.cpu,
                .flags = prefix.flags,
                .slots = prefix.slots,
                .tid = c->tids[ring],
                .ring = ring,
                .size = (uint32_t) size - (uint32_t) sizeof(prefix),
            };
            e->bytes = malloc(e->size);
            ck_assert_ptr_nonnull(e->bytes);
            memcpy(e->bytes, record + sizeof(prefix), e->size);
            ck_assert_int_eq(etl_event_parse(e->bytes, e->size, &e->event), 0);
        }
        ck_assert_int_eq(size, 0);
        shm_reader_commit(r);
    }
    pthread_mutex_unlock(&d->lock);
    free(record);
    *ret = events;
    return n;
}

void pd_events_free(struct pd_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(events[i].bytes);
    free(events);
}

uint64_t pd_lost(struct provider_daemon *d, struct pd_connection *c, unsigned counter,
                 enum shm_lost_cause cause)
{
    uint64_t sum = 0;

    pthread_mutex_lock(&d->lock);
    for (unsigned i = 0; i < c->n_arenas; i++)
        sum += c->arenas[i]->lost[counter].events[cause];
    pthread_mutex_unlock(&d->lock);
    return sum;
}

void pd_sleep(struct provider_daemon *d, struct pd_connection *c, uint32_t sleep)
{
    pthread_mutex_lock(&d->lock);
    shm_control_set_sleep(c->area, sleep);
    pthread_mutex_unlock(&d->lock);
}
