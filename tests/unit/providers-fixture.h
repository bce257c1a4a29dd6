/* SPDX-License-Identifier: Apache-2.0
 *
 * Provider processes that a test plays, and etwd's side of them without a daemon: their arenas are
 * mapped here, their writers write here, what they are told is kept.
 */
#pragma once

#include <sys/syscall.h>

#include "daemon-fixture.h"
#include "etl/layout.h"
#include "base/winerror.h"
#include "providers/process.h"
#include "router/router.h"
#include "shm/arena.h"
#include "shm/clock.h"
#include "shm/ring.h"
#include "shm/slots.h"
#include "state/state.h"

#define SESSIONS 9
#define CHANGES 64

struct told {
    uint32_t index, code;
    uint8_t level;
    uint64_t any, all, cookie;
    struct etw_guid source;
    uint8_t filter[1024];
    size_t filter_size;
};

/* A process as it sees itself. */
struct fake {
    struct provider_process *pp;
    uint32_t ring_size;
    unsigned offers;
    int arena_fds[8];
    struct shm_arena *arenas[8];
    const void *control;
    bool deaf; /* reads nothing */
    struct told told[CHANGES];
    size_t n_told;
    unsigned replaced;
    struct shm_writer writer;
    bool writing;
};

struct world {
    struct fixture f;
    struct etw_conf conf;
    struct state *state;
    struct router *router;
    struct providers *p;
    struct session *sessions[SESSIONS];
    int sinks;
    struct loop_timer *timer;
    bool (*until)(struct world *w, void *context);
    void *context;
    uint64_t deadline;
    bool reached;
};

static inline void offer_arena(void *peer, uint32_t arena, uint32_t ring_size, int arena_fd,
                               int control_fd)
{
    struct fake *k = peer;
    ck_assert_uint_lt(arena, ARRAY_SIZE(k->arenas));
    ck_assert_int_eq(control_fd >= 0, arena == 0);
    k->ring_size = ring_size;
    if (!k->arenas[arena])
        ck_assert_int_eq(shm_arena_map(arena_fd, ring_size, &k->arenas[arena]), 0);
    if (control_fd >= 0 && !k->control)
        ck_assert_int_eq(shm_control_map(control_fd, &k->control), 0);
    k->offers++;
}

static inline bool change(void *peer, uint32_t index, uint32_t code, uint8_t level, uint64_t any,
                          uint64_t all, const struct etw_guid *source, uint32_t filter_type,
                          const void *filter, size_t filter_size, uint64_t cookie)
{
    struct fake *k = peer;
    if (k->deaf)
        return false;
    ck_assert_uint_lt(k->n_told, CHANGES);
    struct told *t = &k->told[k->n_told++];
    *t = (struct told){.index = index,
                       .code = code,
                       .level = level,
                       .any = any,
                       .all = all,
                       .cookie = cookie,
                       .source = *source,
                       .filter_size = filter_size};
    ck_assert_uint_le(filter_size, sizeof(t->filter));
    if (filter_size)
        memcpy(t->filter, filter, filter_size);
    return true;
}

static inline void replaced(void *peer)
{
    ((struct fake *) peer)->replaced++;
}

static const struct provider_peer_ops ops = {offer_arena, change, replaced};

static inline void tick(void *userdata)
{
    struct world *w = userdata;
    w->reached = w->until(w, w->context);
    if (w->reached || etw_clock_boottime() > w->deadline)
        loop_exit(w->f.loop, 0);
    else
        ck_assert_int_eq(loop_timer_arm(w->timer, etw_clock_boottime() + 2000000), 0);
}

static inline void run_until(struct world *w, bool (*until)(struct world *, void *), void *context)
{
    w->until = until;
    w->context = context;
    w->reached = false;
    w->deadline = etw_clock_boottime() + 60 * ETW_NSEC_PER_SEC;
    /* Behind what is due now. */
    ck_assert_int_eq(loop_timer_arm(w->timer, etw_clock_boottime() + 1000000), 0);
    ck_assert_int_eq(loop_run(w->f.loop), 0);
    ck_assert_msg(w->reached, "waited a minute for what never came");
}

static inline struct session *session_make(struct world *w, unsigned n)
{
    if (w->sessions[n])
        return w->sessions[n];
    struct session_properties props = {
        .buffer_size_kb = 64, .minimum_buffers = 4, .maximum_buffers = 16};
    struct session *s;
    char name[32];
    (void) snprintf(name, sizeof(name), "s%u", n);
    props.name = strdup(name);
    ck_assert_int_eq(session_new(w->f.loop, &props, w->f.session->n_streams, &s), 0);
    ck_assert_int_eq(buffers_new(w->f.loop, s->buffer_bytes, 4, 16, &s->buffers), 0);
    s->id = (uint16_t) (2 + n);
    s->generation = n + 1;
    w->sessions[n] = s;
    return s;
}

static inline void world_open(struct world *w)
{
    memset(w, 0, sizeof(*w));
    fixture_session(&w->f, &(struct fixture_params){.buffer_kb = 64, .cpus = 4});
    w->f.session->id = 2;
    w->f.session->generation = 1;
    w->sessions[0] = w->f.session;
    fixture_open(&w->f);
    etw_conf_init(&w->conf);
    w->conf.ring_size_kb = 16;
    ck_assert_int_eq(state_new(&w->state), 0);
    ck_assert_int_eq(router_new(w->f.loop, 1000000, &w->router), 0);
    router_set_state(w->router, w->state);
    struct providers_env env = {
        .loop = w->f.loop, .router = w->router, .state = w->state, .conf = &w->conf, .cpus = 4};
    ck_assert_int_eq(providers_new(&env, &w->p), 0);
    ck_assert_int_eq(loop_timer_new(w->f.loop, tick, w, &w->timer), 0);
}

static inline void world_close(struct world *w)
{
    fixture_identity(&w->f);
    providers_free(w->p);
    router_free(w->router);
    loop_timer_free(w->timer);
    for (unsigned n = 1; n < SESSIONS; n++)
        session_free(w->sessions[n]);
    fixture_close(&w->f);
    fixture_free(&w->f);
    state_free(w->state);
}

static inline void fake_attach(struct world *w, struct fake *k, uint64_t number, pid_t pid,
                               uid_t uid)
{
    memset(k, 0, sizeof(*k));
    struct provider_peer who = {.number = number, .pid = pid, .uid = uid, .gid = uid};
    int pidfd = pid > 0 ? (int) syscall(SYS_pidfd_open, pid, 0) : -1;
    ck_assert_int_eq(provider_attach(w->p, &ops, k, &who, pidfd, &k->pp), 0);
}

static inline void fake_close(struct fake *k)
{
    for (unsigned i = 0; i < ARRAY_SIZE(k->arenas); i++)
        shm_arena_unmap(k->arenas[i], k->ring_size);
    shm_control_unmap(k->control);
}

static inline bool no_process(struct world *w, void *context)
{
    return w->p->first == NULL;
}

static inline void fake_die(struct world *w, struct fake *k)
{
    provider_detach(k->pp);
    k->pp = NULL;
    fake_close(k);
}

static const struct etw_guid guid_a = ETW_GUID(0xa, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
static const struct etw_guid guid_b = ETW_GUID(0xb, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);

struct answer {
    unsigned times;
    uint32_t status;
};

static inline void answered(uint32_t status, const char *reason, void *userdata)
{
    struct answer *a = userdata;
    a->times++;
    a->status = status;
    ck_assert_msg(status == 0 || reason, "a refusal without a reason");
}

static inline uint32_t enable_full(struct world *w, unsigned session, uid_t owner, bool all,
                                   const struct enable_request *req, struct answer *a)
{
    *a = (struct answer){0};
    providers_enable(w->p, session_make(w, session), all, owner, req, answered, a);
    return a->times ? a->status : UINT32_MAX;
}

static inline uint32_t enable(struct world *w, unsigned session, const struct etw_guid *guid)
{
    struct answer a;
    struct enable_request req = {.guid = *guid, .code = 1, .level = 4};
    return enable_full(w, session, 0, true, &req, &a);
}

static inline uint32_t disable(struct world *w, unsigned session, const struct etw_guid *guid)
{
    struct answer a;
    struct enable_request req = {.guid = *guid, .code = 0};
    return enable_full(w, session, 0, true, &req, &a);
}

static inline bool fake_register(struct fake *k, uint32_t index, const struct etw_guid *guid)
{
    static const char traits[] = "\x0b\0A name";
    struct provider_enabled e;
    ck_assert_int_eq(provider_register(k->pp, index, guid, traits, sizeof(traits), &e), 0);
    return e.enabled;
}

static inline uint32_t matched(const struct fake *k, uint32_t index, uint8_t level, uint16_t id)
{
    struct shm_match m;
    if (!k->control)
        return 0;
    return shm_slots_match(k->control, index, level, 1, id, &m);
}

static inline void claim(struct fake *k)
{
    if (k->writing)
        return;
    ck_assert_int_eq(shm_writer_claim(&k->writer, k->arenas[0], k->control, 0, 0, k->ring_size,
                                      false, (uint32_t) gettid()),
                     0);
    k->writing = true;
}

/* Begin and match alone; write_end() publishes. */
static inline uint32_t write_begin(struct fake *k, uint32_t index, struct shm_match *m,
                                   uint64_t *stamp)
{
    uint8_t flags;
    claim(k);
    shm_writer_begin(&k->writer);
    *stamp = shm_writer_now(&k->writer, &flags);
    return shm_slots_match(k->control, index, 4, 1, 7, m);
}

static inline void write_end(struct fake *k, uint32_t index, const struct shm_match *m,
                             uint64_t stamp, const struct etw_guid *guid)
{
    uint32_t event = sizeof(struct etl_event_header) + 8;
    uint32_t size = shm_record_size(event);
    uint8_t *p = shm_writer_reserve(&k->writer, size);
    ck_assert_ptr_nonnull(p);
    memset(p, 0, size);
    struct etl_record rec = {.size = sizeof(rec) + event,
                             .cpu = 1,
                             .type = SHM_RECORD_EVENT,
                             .registration = (uint16_t) index,
                             .generation = (uint16_t) m->generation,
                             .slots = m->slots};
    rec.size = size;
    struct etl_event_header h = {
        .size = (uint16_t) event,
        .header_type = ETL_EVENT64,
        .marker = ETL_MARKER_TRACE,
        .time_stamp = stamp,
        .provider_id = *guid,
        .descriptor = {.id = 7, .level = 4, .keyword = 1},
    };
    memcpy(p, &rec, sizeof(rec));
    memcpy(p + sizeof(rec), &h, sizeof(h));
    (void) shm_writer_publish(&k->writer, size);
}

static inline void write_event(struct fake *k, uint32_t index, const struct etw_guid *guid)
{
    struct shm_match m;
    uint64_t stamp;
    if (write_begin(k, index, &m, &stamp))
        write_end(k, index, &m, stamp, guid);
    else
        shm_writer_abandon(&k->writer);
}

struct expect {
    unsigned session;
    uint64_t recorded;
};

static inline bool recorded(struct world *w, void *context)
{
    const struct expect *e = context;
    router_kick(w->router);
    return w->sessions[e->session]->counters.recorded >= e->recorded;
}

static inline void expect_recorded(struct world *w, unsigned session, uint64_t n)
{
    struct expect e = {session, n};
    run_until(w, recorded, &e);
    ck_assert_uint_eq(w->sessions[session]->counters.recorded, n);
}

/* Every slot that drained has its number back. */
static inline bool settled(struct world *w, void *context)
{
    const struct fake *k = context;
    router_kick(w->router);
    for (uint32_t i = 0; i < k->pp->n_lines; i++)
        for (unsigned n = 0; k->pp->lines[i] && n < SHM_SLOTS_MAX; n++)
            if (k->pp->lines[i]->image->slots[n].use == SLOT_DRAINING)
                return false;
    return true;
}
