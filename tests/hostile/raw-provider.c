/* SPDX-License-Identifier: Apache-2.0
 *
 * See raw-provider.h.
 */
#include "raw-provider.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "shm/arena.h"
#include "shm/clock.h"
#include "shm/slots.h"

/* Only ends a hang. */
#define WAIT_MS 90000

uint64_t raw_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

void raw_random_bytes(uint64_t *state, void *p, size_t size)
{
    uint8_t *out = p;

    while (size > 0) {
        uint64_t r = raw_random(state);
        size_t n = size < sizeof(r) ? size : sizeof(r);

        memcpy(out, &r, n);
        out += n;
        size -= n;
    }
}

static void drop_offer(struct raw_provider *p)
{
    p->offer.arena_fd = safe_close(p->offer.arena_fd);
    p->offer.control_fd = safe_close(p->offer.control_fd);
    p->offer.there = false;
}

int raw_connect(struct raw_provider *p)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Hello hello = ETWD__HELLO__INIT;
    const char *path = getenv("ETWD_SOCKET");
    uint32_t status;
    int r;

    *p = (struct raw_provider){
        .sock = -1, .offer = {.arena_fd = -1, .control_fd = -1}, .patience_ms = WAIT_MS};
    if (!path || strlen(path) >= sizeof(a.sun_path))
        return -EINVAL;
    memcpy(a.sun_path, path, strlen(path) + 1);
    p->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (p->sock < 0)
        return -errno;
    if (connect(p->sock, (struct sockaddr *) &a, sizeof(a)) < 0) {
        r = -errno;
        p->sock = safe_close(p->sock);
        return r;
    }
    hello.protocol = ETWD_PROTOCOL;
    hello.library = (char *) "raw";
    m.body_case = ETWD__MESSAGE__BODY_HELLO;
    m.hello = &hello;
    r = raw_call(p, &m, NULL, 0, &status);
    return r < 0 ? r : status != 0 ? -EPROTO : 0;
}

void raw_done(struct raw_provider *p)
{
    p->sock = safe_close(p->sock);
    drop_offer(p);
    shm_arena_unmap(p->arena, p->ring_size);
    shm_control_unmap(p->control);
    p->arena = NULL;
    p->control = NULL;
}

int raw_send(struct raw_provider *p, Etwd__Message *m, const int *fds, size_t n_fds, bool answered)
{
    if (p->sock < 0)
        return -ECONNRESET;
    m->id = answered ? ++p->id : 0;
    return wire_send(p->sock, m, fds, n_fds, 0);
}

/* The next message, whose descriptors are those of an offer or too many. */
static int take(struct raw_provider *p, int timeout_ms, Etwd__Message **ret)
{
    struct pollfd poll_fd = {.fd = p->sock, .events = POLLIN};
    const Etwd__ArenaOffer *offer = NULL;
    Etwd__Message *m = NULL;
    int fds[4];
    size_t n_fds = 0;
    int r;

    if (p->sock < 0)
        return -ECONNRESET;
    r = poll(&poll_fd, 1, timeout_ms);
    if (r < 0)
        return -errno;
    if (r == 0)
        return -ETIMEDOUT;
    r = wire_receive(p->sock, 0, &m, fds, ARRAY_SIZE(fds), &n_fds);
    if (r < 0) {
        if (r == -ECONNRESET || r == -EPIPE)
            p->sock = safe_close(p->sock);
        return r;
    }
    if (m->body_case == ETWD__MESSAGE__BODY_ARENA_OFFER)
        offer = m->arena_offer;
    else if (m->body_case == ETWD__MESSAGE__BODY_REGISTER_REPLY)
        offer = m->register_reply->arena;
    if (offer) {
        drop_offer(p);
        p->offer = (struct raw_offer){
            .there = true,
            .control = offer->control,
            .arena = offer->arena,
            .ring_size = offer->ring_size,
            .arena_fd = n_fds > 0 ? fds[0] : -1,
            .control_fd = n_fds > 1 ? fds[1] : -1,
        };
    }
    for (size_t i = offer ? 2 : 0; i < n_fds; i++)
        safe_close(fds[i]);
    if (m->body_case == ETWD__MESSAGE__BODY_ENABLE_CHANGE) {
        p->changes++;
        p->cookie = m->enable_change->cookie;
        if (p->cookie != 0 && !p->mute)
            (void) raw_callback_done(p, p->cookie);
    }
    *ret = m;
    return 0;
}

int raw_answer(struct raw_provider *p, uint32_t *ret_status, Etwd__Message **ret)
{
    for (;;) {
        Etwd__Message *m = NULL;
        int r = take(p, WAIT_MS, &m);

        if (r < 0)
            return r;
        if (m->id == p->id) {
            *ret_status = m->status;
            if (ret)
                *ret = m;
            else
                wire_message_free(m);
            return 0;
        }
        wire_message_free(m);
    }
}

int raw_call(struct raw_provider *p, Etwd__Message *m, const int *fds, size_t n_fds,
             uint32_t *ret_status)
{
    int r = raw_send(p, m, fds, n_fds, true);

    return r < 0 ? r : raw_answer(p, ret_status, NULL);
}

int raw_wait_offer(struct raw_provider *p)
{
    while (!p->offer.there) {
        Etwd__Message *m = NULL;
        int r = take(p, WAIT_MS, &m);

        if (r < 0)
            return r;
        wire_message_free(m);
    }
    return 0;
}

void raw_pump(struct raw_provider *p)
{
    Etwd__Message *m = NULL;

    while (take(p, 0, &m) == 0)
        wire_message_free(m);
}

int raw_attach(struct raw_provider *p, uint32_t version, bool fences, uint32_t *ret_status)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Attach attach = ETWD__ATTACH__INIT;

    attach.shm_version = version;
    attach.fences = fences;
    m.body_case = ETWD__MESSAGE__BODY_ATTACH;
    m.attach = &attach;
    return raw_call(p, &m, NULL, 0, ret_status);
}

int raw_register(struct raw_provider *p, uint32_t index, const void *guid, size_t guid_size,
                 const void *traits, size_t size, uint32_t *ret_status)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Register reg = ETWD__REGISTER__INIT;

    reg.index = index;
    reg.guid = (ProtobufCBinaryData){.len = guid_size, .data = (uint8_t *) (uintptr_t) guid};
    reg.traits = (ProtobufCBinaryData){.len = size, .data = (uint8_t *) (uintptr_t) traits};
    m.body_case = ETWD__MESSAGE__BODY_REGISTER;
    m.register_ = &reg;
    return raw_call(p, &m, NULL, 0, ret_status);
}

int raw_unregister(struct raw_provider *p, uint32_t index, uint32_t *ret_status)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Unregister unregister = ETWD__UNREGISTER__INIT;

    unregister.index = index;
    m.body_case = ETWD__MESSAGE__BODY_UNREGISTER;
    m.unregister = &unregister;
    return raw_call(p, &m, NULL, 0, ret_status);
}

int raw_traits(struct raw_provider *p, uint32_t index, const void *traits, size_t size,
               uint32_t *ret_status)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__SetTraits set = ETWD__SET_TRAITS__INIT;

    set.index = index;
    set.traits = (ProtobufCBinaryData){.len = size, .data = (uint8_t *) (uintptr_t) traits};
    m.body_case = ETWD__MESSAGE__BODY_SET_TRAITS;
    m.set_traits = &set;
    return raw_call(p, &m, NULL, 0, ret_status);
}

int raw_more_rings(struct raw_provider *p, uint32_t *ret_status)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__MoreRings more = ETWD__MORE_RINGS__INIT;

    m.body_case = ETWD__MESSAGE__BODY_MORE_RINGS;
    m.more_rings = &more;
    return raw_call(p, &m, NULL, 0, ret_status);
}

int raw_wake(struct raw_provider *p)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Wake wake = ETWD__WAKE__INIT;

    m.body_case = ETWD__MESSAGE__BODY_WAKE;
    m.wake = &wake;
    return raw_send(p, &m, NULL, 0, false);
}

int raw_callback_done(struct raw_provider *p, uint64_t cookie)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__CallbackDone done = ETWD__CALLBACK_DONE__INIT;

    done.cookie = cookie;
    m.body_case = ETWD__MESSAGE__BODY_CALLBACK_DONE;
    m.callback_done = &done;
    return raw_send(p, &m, NULL, 0, false);
}

int raw_map(struct raw_provider *p)
{
    int r;

    if (!p->offer.there)
        return -ENOENT;
    if (p->offer.control && !p->control) {
        r = shm_control_map(p->offer.control_fd, &p->control);
        if (r < 0)
            return r;
    }
    shm_arena_unmap(p->arena, p->ring_size);
    p->arena = NULL;
    r = shm_arena_map(p->offer.arena_fd, p->offer.ring_size, &p->arena);
    if (r < 0)
        return r;
    p->ring_size = p->offer.ring_size;
    p->arena_number = p->offer.arena;
    return 0;
}

int raw_mapped(struct raw_provider *p, uint32_t arena, uint32_t status, uint32_t *ret_status)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__ArenaMapped mapped = ETWD__ARENA_MAPPED__INIT;

    mapped.arena = arena;
    mapped.status = status;
    m.body_case = ETWD__MESSAGE__BODY_ARENA_MAPPED;
    m.arena_mapped = &mapped;
    return raw_call(p, &m, NULL, 0, ret_status);
}

int raw_claim(struct raw_provider *p)
{
    const struct shm_process *words = shm_control_process(p->control);
    uint32_t rings = atomic_load(&words->rings);
    uint32_t first = p->arena_number * SHM_RINGS_PER_ARENA;

    for (uint32_t i = 0; i < SHM_RINGS_PER_ARENA && first + i < rings; i++)
        if (shm_writer_claim(&p->writer, p->arena, p->control, p->arena_number, i, p->ring_size,
                             true, (uint32_t) syscall(SYS_gettid)) == 0)
            return 0;
    return -EAGAIN;
}

int raw_open(struct raw_provider *p, const struct etw_guid *guid)
{
    uint32_t status = 0;
    int r;

    r = raw_connect(p);
    if (r < 0)
        return r;
    r = raw_attach(p, SHM_VERSION, true, &status);
    if (r < 0 || status != 0)
        return r < 0 ? r : (int) status;
    r = raw_register(p, 0, guid, sizeof(*guid), NULL, 0, &status);
    if (r < 0 || status != 0)
        return r < 0 ? r : (int) status;
    r = raw_wait_offer(p);
    if (r < 0)
        return r;
    r = raw_map(p);
    if (r < 0)
        return r;
    r = raw_mapped(p, p->offer.arena, 0, &status);
    if (r < 0 || status != 0)
        return r < 0 ? r : (int) status;
    return raw_claim(p);
}

bool raw_record(struct raw_provider *p, const struct etw_guid *guid, uint64_t number,
                struct raw_record *ret)
{
    struct shm_match m;
    uint8_t flags;
    uint64_t stamp;

    shm_writer_begin(&p->writer);
    stamp = shm_writer_now(&p->writer, &flags);
    if (!shm_slots_match(p->control, 0, 4, 1, 1, &m) || m.slots == 0) {
        shm_writer_abandon(&p->writer);
        return false;
    }
    *ret = (struct raw_record){
        .prefix = {.size = sizeof(*ret),
                   .type = SHM_RECORD_EVENT,
                   .flags = flags,
                   .generation = (uint16_t) m.generation,
                   .slots = m.slots},
        .event = {.size = (uint16_t) (offsetof(struct raw_record, data) - sizeof(ret->prefix)),
                  .header_type = ETL_EVENT64,
                  .marker = 0xC0,
                  .thread_id = (uint32_t) syscall(SYS_gettid),
                  .process_id = (uint32_t) getpid(),
                  .time_stamp = stamp,
                  .provider_id = *guid,
                  .descriptor = {.id = 1, .level = 4, .keyword = 1}},
        .number = number,
    };
    ret->prefix.size = shm_record_size(ret->event.size);
    return true;
}

int raw_push(struct raw_provider *p, const void *record, uint32_t size)
{
    static const struct timespec tick = {.tv_nsec = 1000000};

    for (unsigned i = 0; i < p->patience_ms; i++) {
        void *to = shm_writer_reserve(&p->writer, size);

        if (to) {
            memcpy(to, record, size);
            if (shm_writer_publish(&p->writer, size))
                (void) raw_wake(p);
            return 0;
        }
        (void) raw_wake(p);
        (void) nanosleep(&tick, NULL);
    }
    return -EAGAIN;
}

unsigned raw_write(struct raw_provider *p, const struct etw_guid *guid, uint64_t number,
                   unsigned count)
{
    struct raw_record record;

    for (unsigned i = 0; i < count; i++)
        if (!raw_record(p, guid, number + i, &record) ||
            raw_push(p, &record, record.prefix.size) < 0)
            return i;
    return count;
}
