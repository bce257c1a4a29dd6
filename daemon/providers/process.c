/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that attached: how they come and go, and what is known of them. Their shared memory is
 * arenas.c's, what they registered registrations.c's. Loop thread only.
 */
#include "process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/boot.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/siphash.h"
#include "io/loop.h"
#include "sessions/session.h"
#include "shm/clock.h"

static void committed(void *userdata)
{
    (void) providers_publish(userdata);
}

int providers_new(const struct providers_env *env, struct providers **ret)
{
    int r;

    struct providers *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->env = *env;
    p->next_cookie = 1;
    p->next_enable = 1;
    p->tsc_usable = env->conf->fast_clock && shm_clock_usable();
    etw_boot_key(p->boot_key);
    if (getrandom(p->hash_key, sizeof(p->hash_key), 0) != (ssize_t) sizeof(p->hash_key)) {
        r = -errno;
        goto fail;
    }
    r = providers_timer_new(p);
    if (r < 0)
        goto fail;
    struct rings_env re = {
        .loop = env->loop,
        .router = env->router,
        .state = env->state,
        .conf = env->conf,
        .cpus = env->cpus,
        .first_record = enables_wait_for_first,
        .userdata = p,
    };
    r = rings_new(&re, &p->rings);
    if (r < 0)
        goto fail;
    if (env->state) {
        p->hook = (struct state_hook){.after_commit = committed, .userdata = p};
        state_add_hook(env->state, &p->hook);
    }
    *ret = p;
    return 0;

fail:
    providers_free(p);
    return r;
}

struct providers *providers_free(struct providers *p)
{
    if (!p)
        return NULL;
    while (p->first) {
        p->first->ops = NULL;
        process_gone(p->first);
    }
    for (unsigned b = 0; b < PROVIDER_BUCKETS; b++)
        while (p->buckets[b]) {
            struct provider *pr = p->buckets[b];
            p->buckets[b] = pr->next;
            while (pr->enables) {
                struct enable *e = pr->enables;
                pr->enables = e->next;
                state_begin(p->env.state);
                state_block_free(p->env.state, e->image);
                state_commit(p->env.state);
                enable_free(e);
            }
            free(pr);
        }
    if (p->env.state && p->hook.userdata)
        state_remove_hook(p->env.state, &p->hook);
    providers_timer_free(p);
    rings_free(p->rings);
    free(p);
    return NULL;
}

/* ---- users: what is counted against quotas ---- */

struct user *user_get(struct providers *p, uid_t uid)
{
    for (struct user *u = p->users; u; u = u->next)
        if (u->uid == uid) {
            u->refs++;
            return u;
        }
    struct user *u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    *u = (struct user){.next = p->users, .uid = uid, .refs = 1};
    p->users = u;
    return u;
}

struct user *user_put(struct providers *p, struct user *u)
{
    if (!u || --u->refs > 0)
        return NULL;
    for (struct user **at = &p->users; *at; at = &(*at)->next)
        if (*at == u) {
            *at = u->next;
            break;
        }
    free(u);
    return NULL;
}

/* ---- processes ---- */

const char *process_label(const struct provider_process *pp, char buf[64])
{
    (void) snprintf(buf, 64, "provider process %d of uid %u", (int) pp->image->pid,
                    (unsigned) pp->image->uid);
    return buf;
}

const struct process_facts *process_facts(const struct provider_process *pp)
{
    return &pp->facts;
}

/* PROCESS_START_KEY: the same for all that this process ever writes, another one for every other
 * process until the next boot. */
void process_facts_make(struct provider_process *pp)
{
    const struct process_image *i = pp->image;
    uint64_t words[2] = {(uint32_t) i->pid, i->start_ticks};
    pp->facts = (struct process_facts){
        .pid = (uint32_t) i->pid,
        .uid = i->uid,
        .start_key = etw_siphash24(words, sizeof(words), pp->providers->boot_key),
        .session_id = i->session_id,
    };
}

void process_misbehaved(struct provider_process *pp, const char *what)
{
    if (!pp->misbehaved) {
        char label[64];
        pp->misbehaved = true;
        log_notice("%s: it broke the rules of its rings (%s); told once", process_label(pp, label),
                   what);
    }
    for (uint32_t i = 0; i < pp->n_counters; i++)
        if (pp->counters[i].of.session)
            session_count_lost(pp->counters[i].of.session, LOSS_INVALID, 1);
}

int process_new(struct providers *p, uint64_t number, uid_t uid, struct provider_process **ret)
{
    struct provider_process *pp = calloc(1, sizeof(*pp));
    if (!pp)
        return -ENOMEM;
    pp->providers = p;
    pp->number = number;
    pp->pidfd = -1;
    pp->control_fd = -1;
    for (unsigned i = 0; i < ARENAS_MAX; i++)
        pp->arenas[i].fd = -1;
    pp->user = user_get(p, uid);
    if (!pp->user) {
        free(pp);
        return -ENOMEM;
    }
    pp->next = p->first;
    p->first = pp;
    *ret = pp;
    return 0;
}

void process_gone(struct provider_process *pp)
{
    struct providers *p = pp->providers;

    waits_drop_all(pp);
    state_begin(p->env.state);
    for (uint32_t i = 0; i < pp->n_lines; i++)
        line_free(pp->lines[i]);
    process_arenas_free(pp);
    state_block_free(p->env.state, pp->image);
    state_commit(p->env.state);
    for (struct provider_process **at = &p->first; *at; at = &(*at)->next)
        if (*at == pp) {
            *at = pp->next;
            break;
        }
    (void) safe_close(pp->pidfd);
    thread_ids_free(pp->thread_ids);
    user_put(p, pp->user);
    free(pp->counters);
    free(pp->lines);
    free(pp->exe);
    free(pp);
}

int provider_attach(struct providers *p, const struct provider_peer_ops *ops, void *peer,
                    const struct provider_peer *who, int pidfd, struct provider_process **ret)
{
    struct process_identity id;
    struct provider_process *pp;
    int r;

    r = process_identify(who->pid, pidfd, &id);
    if (r < 0)
        return r;
    for (struct provider_process *o = p->first; o; o = o->next)
        if (o->ops && who->pid > 0 && o->image->pid == who->pid && o->image->uid == who->uid &&
            o->image->start_ticks == id.start_ticks)
            o->ops->replaced(o->peer);

    r = process_new(p, who->number, who->uid, &pp);
    if (r < 0)
        return r;
    state_begin(p->env.state);
    r = keep_block_new(p, STATE_PROCESS, who->number, sizeof(*pp->image), (void **) &pp->image);
    if (r == 0)
        *pp->image = (struct process_image){
            .pid = who->pid,
            .uid = who->uid,
            .gid = who->gid,
            .session_id = id.session,
            .start_ticks = id.start_ticks,
            .clock_offset = id.clock_offset,
            .ring_size = (uint32_t) p->env.conf->ring_size_kb * 1024u,
            .fences = who->fences,
            .threadless = who->threadless,
            .foreign_pids = id.foreign_pids,
            .same_time = id.same_time,
        };
    state_commit(p->env.state);
    if (r == 0 && id.foreign_pids)
        r = thread_ids_new(who->pid, &pp->thread_ids);
    if (r < 0) {
        process_gone(pp);
        return r;
    }
    process_facts_make(pp);
    pp->ops = ops;
    pp->peer = peer;
    pp->pidfd = pidfd;
    *ret = pp;
    return 0;
}

void provider_detach(struct provider_process *pp)
{
    struct state *st = pp->providers->env.state;

    pp->ops = NULL;
    pp->peer = NULL;
    pp->dying = true;
    waits_drop_all(pp);
    state_begin(st);
    for (uint32_t i = 0; i < pp->n_lines; i++)
        if (pp->lines[i] && pp->lines[i]->provider)
            line_unbind(pp->lines[i]);
    state_commit(st);
    if (pp->rings)
        ring_set_dead(pp->rings, process_gone);
    else
        process_gone(pp);
}

void provider_wake(struct provider_process *pp)
{
    if (pp->rings)
        ring_set_wake(pp->rings);
}
