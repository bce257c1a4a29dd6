/* SPDX-License-Identifier: Apache-2.0
 *
 * Enables: which session wants which provider, from the call of a controller to the last callback.
 * An enable is there before anybody registered its provider, and goes with its session. Loop thread
 * only.
 */
#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/winerror.h"
#include "filters.h"
#include "io/loop.h"
#include "router/router.h"
#include "sessions/session.h"

#define CODE_DISABLE 0u
#define CODE_ENABLE 1u
#define CODE_CAPTURE 2u
#define INFINITE_MS 0xFFFFFFFFu

/* ---- who waits for callbacks ---- */

static void op_finish(struct enable_op *op, uint32_t status, const char *why)
{
    struct providers *p = op->providers;
    for (struct enable_op **at = &p->ops; *at; at = &(*at)->next)
        if (*at == op) {
            *at = op->next;
            break;
        }
    for (struct provider_process *pp = p->first; op->pending > 0 && pp; pp = pp->next)
        for (struct wait *w = pp->waits; w; w = w->next)
            if (w->op == op) {
                w->op = NULL;
                op->pending--;
            }
    op->done(status, why, op->userdata);
    free(op);
}

static void timer_arm(struct providers *p)
{
    uint64_t next = UINT64_MAX;
    for (const struct enable_op *op = p->ops; op; op = op->next)
        if (op->deadline < next)
            next = op->deadline;
    if (next == UINT64_MAX)
        loop_timer_disarm(p->timer);
    else if (loop_timer_arm(p->timer, next) < 0)
        log_warning("providers: no memory for a timer: a time-out comes late");
}

static void timer_fired(void *userdata)
{
    struct providers *p = userdata;
    uint64_t now = etw_clock_boottime();

    for (struct enable_op *op = p->ops, *next; op; op = next) {
        next = op->next;
        if (op->deadline <= now)
            op_finish(op, ETW_ERROR_TIMEOUT,
                      "not every callback ran within the time; the change holds");
    }
    timer_arm(p);
}

int providers_timer_new(struct providers *p)
{
    return loop_timer_new(p->env.loop, timer_fired, p, &p->timer);
}

void providers_timer_free(struct providers *p)
{
    while (p->ops)
        op_finish(p->ops, ETW_ERROR_CANCELLED, "etwd ends");
    loop_timer_free(p->timer);
    p->timer = NULL;
}

void providers_waiter_gone(struct providers *p, uint64_t waiter)
{
    for (struct enable_op *op = p->ops, *next; op; op = next) {
        next = op->next;
        if (op->waiter == waiter)
            op_finish(op, ETW_ERROR_CANCELLED, "nobody waits any more");
    }
}

static int wait_add(struct line *l, uint64_t cookie, struct enable_op *op)
{
    struct provider_process *pp = l->process;
    struct wait *w = malloc(sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct wait){.next = pp->waits, .cookie = cookie, .index = l->index, .op = op};
    pp->waits = w;
    op->pending++;
    return 0;
}

/* Those of the cookie, of the index, or all. */
static void waits_end(struct provider_process *pp, const uint64_t *cookie, const uint16_t *index)
{
    struct wait *ended = NULL;
    for (struct wait **at = &pp->waits; *at;) {
        struct wait *w = *at;
        if ((cookie && w->cookie != *cookie) || (index && w->index != *index)) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = ended;
        ended = w;
    }
    while (ended) {
        struct wait *w = ended;
        ended = w->next;
        if (w->op && --w->op->pending == 0)
            op_finish(w->op, ETW_ERROR_SUCCESS, NULL);
        free(w);
    }
}

void waits_drop(struct provider_process *pp, uint64_t cookie)
{
    if (cookie != 0)
        waits_end(pp, &cookie, NULL);
}

void waits_drop_line(struct line *l)
{
    waits_end(l->process, NULL, &l->index);
}

void waits_drop_all(struct provider_process *pp)
{
    waits_end(pp, NULL, NULL);
}

void waits_move(struct provider_process *pp, uint64_t from, uint64_t to)
{
    for (struct wait *w = pp->waits; w; w = w->next)
        if (w->cookie == from)
            w->cookie = to;
}

void provider_callback_done(struct provider_process *pp, uint64_t cookie)
{
    waits_drop(pp, cookie);
}

/* ---- enables ---- */

struct enable *enable_find(struct providers *p, const struct provider *pr, uint64_t number)
{
    for (struct enable *e = pr && number ? pr->enables : NULL; e; e = e->next)
        if (e->number == number)
            return e;
    return NULL;
}

struct enable *enable_free(struct enable *e)
{
    free(e);
    return NULL;
}

static struct enable *enable_of(const struct provider *pr, const struct session *s)
{
    for (struct enable *e = pr ? pr->enables : NULL; e; e = e->next)
        if (e->of.session == s)
            return e;
    return NULL;
}

/* A call under way: what it says to whom. */
struct call {
    struct providers *p;
    struct provider *provider;
    const struct enable_request *req;
    struct enable_op *op; /* NULL: nobody waits */
    uint32_t status;
    const char *why;
};

static void refuse_call(struct call *c, uint32_t status, const char *why)
{
    c->status = status;
    c->why = why;
}

static void tell(struct call *c, struct line *l, bool capture, const struct enable *e)
{
    uint64_t cookie = 0;
    if (c->op) {
        cookie = c->p->next_cookie++;
        if (wait_add(l, cookie, c->op) < 0) {
            cookie = 0;
            refuse_call(c, ETW_ERROR_NOT_ENOUGH_MEMORY, "no memory to wait for every callback");
        }
    }
    line_tell(l, capture, e, cookie);
}

/* All that was concerned gets its table, memory, callback. e NULL: the enable is gone. */
static void carry_out(struct call *c, const struct enable *e)
{
    int r;

    for (struct line *l = c->provider->lines; l; l = l->next_of_provider) {
        if (!l->concerned)
            continue;
        r = line_update(l, true);
        if (r < 0 && r != -EBUSY)
            refuse_call(c,
                        r == -ENOSPC ? ETW_ERROR_NO_SYSTEM_RESOURCES : ETW_ERROR_NOT_ENOUGH_MEMORY,
                        "a process has no enable slot or no memory left for the session");
    }
    r = providers_commit(c->p);
    if (r < 0)
        refuse_call(c, ETW_ERROR_NOT_ENOUGH_MEMORY,
                    "a process has no memory left for its enable slots");
    for (struct line *l = c->provider->lines; l; l = l->next_of_provider) {
        struct provider_process *pp = l->process;
        if (!l->concerned)
            continue;
        l->concerned = false;
        if (e && !pp->ready && enable_sees(e, pp)) {
            r = process_offer_first(pp);
            if (r < 0) {
                refuse_call(
                    c, r == -EDQUOT ? ETW_ERROR_NO_SYSTEM_RESOURCES : ETW_ERROR_NOT_ENOUGH_MEMORY,
                    r == -EDQUOT ? "a process has no arena: quota of its user "
                                   "(ArenaMemoryMB, FdStoreMax); the enable stays"
                                 : "a process has no arena: no memory; the enable stays");
                continue;
            }
        }
        tell(c, l, false, e);
    }
}

static void concern(struct provider *pr, const struct enable *e)
{
    for (struct line *l = pr->lines; l; l = l->next_of_provider)
        l->concerned |= enable_sees(e, l->process);
}

void enable_link(struct providers *p, struct enable *e)
{
    e->next = e->provider->enables;
    e->provider->enables = e;
    e->provider->n_enables++;
    e->next_all = p->enables;
    p->enables = e;
}

/* Out of the lists; its slots follow with the tables. */
static void enable_unlink(struct providers *p, struct enable *e)
{
    struct provider *pr = e->provider;
    for (struct enable **at = &pr->enables; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    pr->n_enables--;
    for (struct enable **at = &p->enables; *at; at = &(*at)->next_all)
        if (*at == e) {
            *at = e->next_all;
            break;
        }
    for (struct line *l = pr->lines; l; l = l->next_of_provider)
        for (unsigned i = 0; i < SHM_SLOTS_MAX; i++)
            if (l->slots[i].enable == e)
                l->slots[i].enable = NULL;
    state_block_free(p->env.state, e->image);
    enable_free(e);
}

static void disable(struct call *c, struct enable *e)
{
    struct providers *p = c->p;
    state_begin(p->env.state);
    concern(c->provider, e);
    enable_unlink(p, e);
    carry_out(c, NULL);
    provider_settle(p, c->provider);
}

static void capture(struct call *c, const struct enable *e)
{
    for (struct line *l = c->provider->lines; l; l = l->next_of_provider)
        if (enable_sees(e, l->process))
            tell(c, l, true, e);
}

/* Sessions of ordinary users share a registration's slots with those that see all: each kind has
 * its number, so that a user cannot keep root out. */
static unsigned enables_beside(const struct provider *pr, bool all_uids, uid_t owner)
{
    unsigned n = 0;
    for (const struct enable *e = pr->enables; e; e = e->next)
        n += e->image->all_uids == all_uids && (all_uids || e->image->owner == owner);
    return n;
}

static void enable(struct call *c, struct session *s, bool all_uids, uid_t owner)
{
    struct providers *p = c->p;
    struct filter_refusal refusal = {0};
    int r;

    struct enable *e = enable_of(c->provider, s);
    if (!e &&
        enables_beside(c->provider, all_uids, owner) >= p->env.conf->max_sessions_per_provider) {
        refuse_call(c, ETW_ERROR_NO_SYSTEM_RESOURCES,
                    "the provider is enabled by as many sessions as there may be "
                    "(MaxSessionsPerProvider)");
        return;
    }
    struct enable *fresh = calloc(1, sizeof(*fresh));
    if (!fresh) {
        refuse_call(c, ETW_ERROR_NOT_ENOUGH_MEMORY, "etwd is out of memory");
        return;
    }
    fresh->provider = c->provider;
    fresh->of = (struct session_ref){s, session_handle(s)};
    fresh->number = e ? e->number : p->next_enable++;
    state_begin(p->env.state);
    r = enable_image_make(p, c->req, fresh, &refusal);
    if (r < 0) {
        state_commit(p->env.state);
        enable_free(fresh);
        refuse_call(c, refusal.status, refusal.why);
        return;
    }
    fresh->image->all_uids = all_uids;
    fresh->image->owner = owner;
    if (e) {
        /* Its place in the lists and in slots stays, its values change. */
        concern(c->provider, e);
        struct enable old = *e;
        fresh->next = e->next;
        fresh->next_all = e->next_all;
        *e = *fresh;
        state_block_free(p->env.state, old.image);
        enable_free(fresh);
    } else {
        e = fresh;
        enable_link(p, e);
    }
    concern(c->provider, e);
    carry_out(c, e);
    router_kick(p->env.router); /* it may be to sleep less deeply now */
}

bool enables_wait_for_first(void *userdata)
{
    const struct providers *p = userdata;
    for (const struct enable *e = p->enables; e; e = e->next_all)
        if (e->of.session && session_waits_for_first(e->of.session))
            return true;
    return false;
}

static struct enable_op *op_new(struct providers *p, const struct enable_request *req)
{
    struct enable_op *op = calloc(1, sizeof(*op));
    if (!op)
        return NULL;
    op->providers = p;
    op->waiter = req->waiter;
    op->pending = 1; /* the call itself */
    op->deadline = req->timeout_ms == INFINITE_MS
                       ? UINT64_MAX
                       : etw_clock_boottime() + req->timeout_ms * 1000000ULL;
    return op;
}

void providers_enable(struct providers *p, struct session *s, bool all_uids, uid_t owner,
                      const struct enable_request *req, enable_done_fn done, void *userdata)
{
    struct call c = {.p = p, .req = req};
    struct filter_refusal refusal;

    if (req->code > CODE_CAPTURE) {
        done(ETW_ERROR_INVALID_PARAMETER, "the control code is not known", userdata);
        return;
    }
    if (req->code == CODE_ENABLE && enable_properties_check(req->properties, &refusal) < 0) {
        done(refusal.status, refusal.why, userdata);
        return;
    }
    c.provider = provider_get(p, &req->guid, req->code == CODE_ENABLE);
    struct enable *e = enable_of(c.provider, s);
    if (req->code != CODE_ENABLE && !e) {
        if (req->code == CODE_DISABLE)
            done(ETW_ERROR_SUCCESS, NULL, userdata); /* nothing is to be undone */
        else
            done(ETW_ERROR_NOT_FOUND, "the session has not enabled the provider", userdata);
        return;
    }
    if (c.provider && req->timeout_ms != 0)
        c.op = op_new(p, req);
    if (!c.provider || (req->timeout_ms != 0 && !c.op)) {
        if (c.provider)
            provider_settle(p, c.provider);
        done(ETW_ERROR_NOT_ENOUGH_MEMORY, "etwd is out of memory", userdata);
        return;
    }
    if (req->code == CODE_DISABLE)
        disable(&c, e);
    else if (req->code == CODE_CAPTURE)
        capture(&c, e);
    else {
        enable(&c, s, all_uids, owner);
        provider_settle(p, c.provider);
    }

    if (!c.op) {
        done(c.status, c.why, userdata);
        return;
    }
    c.op->pending--;
    if (c.op->pending == 0 || c.status != ETW_ERROR_SUCCESS) {
        c.op->done = done;
        c.op->userdata = userdata;
        op_finish(c.op, c.status, c.why);
        return;
    }
    c.op->done = done;
    c.op->userdata = userdata;
    c.op->next = p->ops;
    p->ops = c.op;
    timer_arm(p);
}

/* ---- the end of a session ---- */

static void process_forget_session(struct provider_process *pp, const struct session *s)
{
    bool known = false;
    for (uint32_t i = 0; i < pp->n_counters; i++)
        if (pp->counters[i].of.session == s) {
            pp->counters[i].of.session = NULL;
            known = true;
        }
    for (uint32_t i = 0; known && i < pp->n_lines; i++)
        if (pp->lines[i])
            line_forget_session(pp->lines[i], s);
}

void providers_session_gone(struct providers *p, struct session *s)
{
    static const struct enable_request nothing = {.code = CODE_DISABLE};

    rings_sync_losses(p->rings);
    state_begin(p->env.state);
    for (struct provider_process *pp = p->first; pp; pp = pp->next)
        process_forget_session(pp, s);
    for (struct enable *e = p->enables, *next; e; e = next) {
        next = e->next_all;
        if (e->of.session != s)
            continue;
        struct call c = {.p = p, .provider = e->provider, .req = &nothing};
        disable(&c, e);
    }
    (void) providers_commit(p);
}

void providers_sync_losses(struct providers *p)
{
    rings_sync_losses(p->rings);
}
