/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel logger: what it owns, the sessions that it traces, and the queue of starts, updates
 * and stops, which run one after the other (operations.c). Loop thread.
 */
#include "logger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/boot.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "io/loop.h"
#include "kernel/keep.h"
#include "kernel/operations.h"
#include "sessions/session.h"

/* Bytes of a ring: a power of two of at least one page. */
static uint64_t ring_bytes(const struct etw_conf *conf)
{
    uint64_t want = (uint64_t) conf->kernel_ring_kb * 1024;
    uint64_t bytes = (uint64_t) sysconf(_SC_PAGESIZE);

    while (bytes < want && bytes < 1ULL << 30)
        bytes *= 2;
    return bytes;
}

int kernel_logger_new(struct loop *l, struct worker *w, struct router *r, struct state *st,
                      const struct etw_conf *conf, unsigned cpus, int image_fd,
                      struct kernel_logger **ret)
{
    uint8_t key[16];
    int e;

    struct kernel_logger *k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    k->loop = l;
    k->state = st;
    k->worker = w;
    k->router = r;
    k->cpus = cpus;
    k->ring_bytes = ring_bytes(conf);
    k->last = &k->first;
    etw_boot_key(key);
    e = process_table_new(key, &k->table);
    if (e >= 0)
        e = programs_new(&k->programs);
    if (e >= 0)
        e = events_new(k->table, r, &k->events);
    if (e >= 0)
        e = finish_new(k->table, k->events, &k->finish);
    if (e >= 0)
        e = kernel_keeper_new(k);
    /* Last: on success it has taken image_fd over. */
    if (e >= 0)
        e = images_new(l, conf, image_fd, &k->images);
    if (e < 0) {
        kernel_logger_free(k);
        return e;
    }
    k->events->images = k->images;
    k->events->answered = operation_images_answered;
    k->events->userdata = k;
    struct router_finisher f = {.raw = finish_raw, .touch = finish_touch, .userdata = k->finish};
    f.touch_rows[ETL_ROW_Thread_CSwitch] = true;
    router_set_finisher(r, &f);
    *ret = k;
    return 0;
}

void traced_unlink(struct kernel_logger *k, struct traced *t)
{
    struct kernel_target **at = &k->events->targets;

    while (*at && *at != &t->target)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = t->target.next;
    router_remove_session(k->router, t->target.session);
    if (t->target.block)
        kernel_keep_gone(k->state, t->target.block);
    t->target.block = NULL;
}

static void traced_free(struct kernel_logger *k, struct traced *t)
{
    traced_unlink(k, t);
    free(t);
}

struct kernel_logger *kernel_logger_free(struct kernel_logger *k)
{
    if (!k)
        return NULL;
    router_set_finisher(k->router, NULL);
    while (k->first) {
        struct operation *op = k->first;
        k->first = op->next;
        operation_free(op);
    }
    if (k->resumed)
        operation_free(k->resumed);
    /* Waiting look-ups are answered now, into sessions that are still there. */
    k->images = images_free(k->images);
    while (k->events && k->events->targets)
        traced_free(k, container_of(k->events->targets, struct traced, target));
    if (k->rings)
        probe_rings_detach(k->rings);
    k->finish = finish_free(k->finish);
    k->events = events_free(k->events);
    k->programs = programs_free(k->programs);
    k->rings = probe_rings_free(k->rings);
    k->table = process_table_free(k->table);
    k->keeper = kernel_keeper_free(k->keeper);
    free(k);
    return NULL;
}

bool kernel_logger_available(const struct kernel_logger *k, const char **ret_why)
{
    return programs_available(ret_why);
}

unsigned kernel_logger_programs(const struct kernel_logger *k)
{
    return programs_count(k->programs);
}

static struct traced *traced_find(struct kernel_logger *k, struct session *s)
{
    struct kernel_target *t = k->events->targets;
    while (t && t->session != s)
        t = t->next;
    return t ? container_of(t, struct traced, target) : NULL;
}

bool kernel_logger_traces(struct kernel_logger *k, struct session *s)
{
    return traced_find(k, s) != NULL;
}

static void lost(void *userdata, unsigned index, uint64_t n)
{
    struct kernel_logger *k = userdata;
    finish_count_lost(k->finish, index, n);
}

int logger_rings_attach(struct kernel_logger *k)
{
    return probe_rings_attach(k->rings, k->router, lost, k);
}

void logger_forget(struct kernel_logger *k)
{
    static const struct program_needs nothing;

    while (k->events->targets)
        traced_free(k, container_of(k->events->targets, struct traced, target));
    programs_keep(k->programs, nothing);
    if (k->rings)
        probe_rings_detach(k->rings);
    k->rings = probe_rings_free(k->rings);
    events_forget(k->events);
    process_table_clear(k->table);
    finish_follow(k->finish, false, false);
}

struct program_needs logger_needs(struct kernel_logger *k, const struct traced *t,
                                  const uint32_t masks[8])
{
    uint32_t all[8] = {0};

    for (struct kernel_target *o = k->events->targets; o; o = o->next)
        for (int i = 0; i < 8 && (!t || o != &t->target); i++)
            all[i] |= o->masks[i];
    for (int i = 0; i < 8 && masks; i++)
        all[i] |= masks[i];
    return programs_need(all);
}

/* Queues an operation; it begins at once when none runs. */
static int operation_new(struct kernel_logger *k, enum operation_kind kind, struct traced *t,
                         const uint32_t masks[8], kernel_done_fn done, void *userdata)
{
    int r;

    struct operation *op = k->resumed;
    if (op && kind == STOP && op->traced == t)
        k->resumed = NULL;
    else
        op = calloc(1, sizeof(*op));
    if (!op)
        return -ENOMEM;
    op->kind = kind;
    op->logger = k;
    op->traced = t;
    if (masks)
        memcpy(op->masks, masks, sizeof(op->masks));
    op->done = done;
    op->userdata = userdata;
    *k->last = op;
    k->last = &op->next;
    if (k->first != op)
        return 0;
    r = operation_begin(k);
    if (r < 0) {
        k->first = NULL;
        k->last = &k->first;
        free(op);
    }
    return r;
}

/* Without a session there are no rings: their memory is large. */
static void probe_rings_drop(struct kernel_logger *k)
{
    if (!k->rings || k->events->targets)
        return;
    probe_rings_detach(k->rings);
    k->rings = probe_rings_free(k->rings);
    finish_rest(k->finish);
}

void operation_end(struct operation *op, int result)
{
    struct kernel_logger *k = op->logger;
    kernel_done_fn done = op->done;
    void *userdata = op->userdata;

    router_hold(k->router, UINT64_MAX);
    if ((op->kind == START && result < 0) || op->kind == STOP)
        traced_free(k, op->traced);
    probe_rings_drop(k);
    if (kernel_keep_descriptors(k->keeper) < 0)
        log_warning(
            "kernel logger: descriptor store: the kernel's sessions would end with this etwd");
    k->first = op->next;
    if (!k->first)
        k->last = &k->first;
    operation_free(op);
    /* What done() asks for runs at once when nothing waits: it must not be begun again. */
    bool waiting = k->first != NULL;
    if (done)
        done(result, userdata);
    if (waiting && k->first && operation_begin(k) < 0)
        operation_end(k->first, -ENOMEM);
}

int logger_add(struct kernel_logger *k, struct session *s, struct traced **ret)
{
    uint32_t room = session_properties(s)->buffer_size_kb * 1024 - ETL_BUFFER_HEADER_SIZE;
    int r;

    struct traced *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->target.session = s;
    t->target.begin = t->target.end = UINT64_MAX;
    t->target.max_event = room < ETW_EVENT_MAX ? room : ETW_EVENT_MAX;
    r = router_add_session(k->router, s);
    if (r < 0) {
        free(t);
        return r;
    }
    t->target.next = k->events->targets;
    k->events->targets = &t->target;
    *ret = t;
    return 0;
}

int kernel_logger_start(struct kernel_logger *k, struct session *s, const uint32_t masks[8],
                        bool sysconfig, kernel_done_fn done, void *userdata)
{
    struct traced *t;
    int r;

    if (traced_find(k, s))
        return -EALREADY;
    r = logger_add(k, s, &t);
    if (r < 0)
        return r;
    t->sysconfig = sysconfig;
    r = operation_new(k, START, t, masks, done, userdata);
    if (r < 0)
        traced_free(k, t);
    return r;
}

int kernel_logger_update(struct kernel_logger *k, struct session *s, const uint32_t masks[8],
                         kernel_done_fn done, void *userdata)
{
    struct traced *t = traced_find(k, s);

    if (!t)
        return -ENOENT;
    return operation_new(k, UPDATE, t, masks, done, userdata);
}

int kernel_logger_stop(struct kernel_logger *k, struct session *s, kernel_done_fn done,
                       void *userdata)
{
    struct traced *t = traced_find(k, s);

    if (!t)
        return -ENOENT;
    return operation_new(k, STOP, t, NULL, done, userdata);
}

void kernel_logger_sync_losses(struct kernel_logger *k)
{
    if (k->rings)
        probe_rings_sync(k->rings);
}
