/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared memory of a provider process: made at its first enable, handed over, sealed once it is
 * mapped, given memory ring by ring within the quota of its user. Loop thread only.
 *
 * What a successor must have is in the descriptor store before the process gets it.
 */
#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "io/loop.h"
#include "shm/arena.h"
#include "shm/control.h"

static uint64_t arena_key(const struct provider_process *pp, unsigned arena)
{
    return pp->number << 8 | arena;
}

/* Memory that is about to be given; counted at once. */
static int memory_take(struct provider_process *pp, uint64_t bytes)
{
    uint64_t limit = (uint64_t) pp->providers->env.conf->arena_memory_mb << 20;
    if (pp->user->memory + bytes > limit) {
        if (!pp->short_of_memory) {
            char label[64];
            pp->short_of_memory = true;
            log_notice("%s: quota of arena memory of its user (ArenaMemoryMB=%lu): its threads "
                       "lose events",
                       process_label(pp, label), pp->providers->env.conf->arena_memory_mb);
        }
        return -EDQUOT;
    }
    pp->user->memory += bytes;
    pp->memory += bytes;
    return 0;
}

static void memory_give(struct provider_process *pp, uint64_t bytes)
{
    pp->user->memory -= bytes;
    pp->memory -= bytes;
}

static void control_free(struct provider_process *pp)
{
    pp->control = shm_control_free(pp->control);
    shm_control_unmap(pp->control_base);
    pp->control_base = NULL;
    pp->control_fd = safe_close(pp->control_fd);
    state_fd_drop(pp->providers->env.state, STATE_FD_CONTROL, pp->number);
}

void process_arenas_free(struct provider_process *pp)
{
    pp->rings = ring_set_free(pp->rings);
    for (unsigned i = 0; i < ARENAS_MAX; i++) {
        if (pp->arenas[i].fd < 0)
            continue;
        pp->arenas[i].fd = safe_close(pp->arenas[i].fd);
        state_fd_drop(pp->providers->env.state, STATE_FD_ARENA, arena_key(pp, i));
    }
    control_free(pp);
    memory_give(pp, pp->memory);
}

static int first_mapped(struct provider_process *pp);

static int control_make(struct provider_process *pp, int *ret_client_fd)
{
    struct providers *p = pp->providers;
    _cleanup_close_ int client_fd = -1;
    int r;

    r = shm_control_create(&pp->control_fd, &client_fd);
    if (r < 0)
        return r;
    r = shm_control_map_write(pp->control_fd, &pp->control_base);
    if (r == 0)
        r = shm_control_new(pp->control_fd, pp->control_base, pp->image->ring_size, &pp->control);
    for (uint32_t i = 0; r == 0 && i < pp->n_lines; i++)
        if (pp->lines[i])
            r = shm_control_add_registration(pp->control, i);
    if (r == 0)
        r = state_fd_store(p->env.state, STATE_FD_CONTROL, pp->number, pp->control_fd);
    if (r < 0) {
        control_free(pp);
        return r;
    }
    state_begin(p->env.state);
    KEEP_SAVE(p, pp->image->control);
    pp->image->control = true;
    state_commit(p->env.state);
    *ret_client_fd = take_fd(&client_fd);
    return 0;
}

static int arena_make(struct provider_process *pp)
{
    struct providers *p = pp->providers;
    unsigned n = pp->image->n_arenas;
    _cleanup_close_ int fd = -1;
    int r;

    if (n >= ARENAS_MAX)
        return -ENOSPC;
    /* With its first ring: without one it is of no use. */
    r = memory_take(pp, SHM_ARENA_HEADER);
    if (r < 0)
        return r;
    r = shm_arena_create(pp->image->ring_size, &fd);
    if (r == 0)
        r = state_fd_store(p->env.state, STATE_FD_ARENA, arena_key(pp, n), fd);
    if (r < 0) {
        memory_give(pp, SHM_ARENA_HEADER);
        return r;
    }
    pp->arenas[n] = (struct arena){.fd = take_fd(&fd)};
    state_begin(p->env.state);
    KEEP_SAVE(p, pp->image->n_arenas);
    pp->image->n_arenas++;
    state_commit(p->env.state);
    return 0;
}

/* The last one: the process could not take it. */
static void arena_drop(struct provider_process *pp)
{
    struct providers *p = pp->providers;
    unsigned n = pp->image->n_arenas - 1u;

    state_begin(p->env.state);
    KEEP_SAVE(p, pp->image->n_arenas);
    pp->image->n_arenas--;
    pp->arenas[n].fd = safe_close(pp->arenas[n].fd);
    state_fd_drop(p->env.state, STATE_FD_ARENA, arena_key(pp, n));
    state_commit(p->env.state);
    memory_give(pp, SHM_ARENA_HEADER);
}

int process_offer_first(struct provider_process *pp)
{
    struct providers *p = pp->providers;
    _cleanup_close_ int client_fd = -1;
    int r;

    if (pp->dying || !pp->ops || pp->ready)
        return 0;
    if (pp->image->n_mapped > 0)
        return first_mapped(pp); /* there was no memory for its first ring */
    if (pp->image->n_arenas > 0)
        return 0;
    if (pp->user->memory + SHM_ARENA_HEADER + pp->image->ring_size >
        (uint64_t) p->env.conf->arena_memory_mb << 20)
        return memory_take(pp, SHM_ARENA_HEADER + (uint64_t) pp->image->ring_size);
    r = pp->control ? shm_control_reopen(pp->control_fd, &client_fd) : control_make(pp, &client_fd);
    if (r == 0)
        r = arena_make(pp);
    if (r < 0) {
        char label[64];
        log_warning("%s: no shared memory for its events: %s", process_label(pp, label),
                    r == -EDQUOT ? "quota (ArenaMemoryMB, FdStoreMax)" : strerror(-r));
        return r;
    }
    pp->ops->offer_arena(pp->peer, 0, pp->image->ring_size, pp->arenas[0].fd, client_fd);
    return 0;
}

static int offer_next(struct provider_process *pp)
{
    int r;

    if (!pp->ops)
        return -ENOTCONN;
    r = arena_make(pp);
    if (r < 0)
        return r;
    unsigned n = pp->image->n_arenas - 1u;
    pp->ops->offer_arena(pp->peer, n, pp->image->ring_size, pp->arenas[n].fd, -1);
    return 0;
}

void process_offer_again(struct provider_process *pp)
{
    unsigned n = pp->image->n_mapped;
    _cleanup_close_ int client_fd = -1;

    if (n >= pp->image->n_arenas || !pp->ops)
        return;
    if (n == 0 && shm_control_reopen(pp->control_fd, &client_fd) < 0) {
        pp->ops->replaced(pp->peer); /* without it there is nothing to go on with */
        return;
    }
    pp->ops->offer_arena(pp->peer, n, pp->image->ring_size, pp->arenas[n].fd, client_fd);
}

/* ---- rings ---- */

static uint32_t thread_id(struct provider_process *pp, uint32_t tid)
{
    process_grow_later(pp);
    if (!pp->thread_ids)
        return pp->image->pid > 0 ? tid : 0;
    return thread_ids_find(pp->thread_ids, tid);
}

int process_rings_begin(struct provider_process *pp)
{
    struct ring_set_config c = {
        .process = pp,
        .number = pp->number,
        .control = pp->control,
        .control_base = pp->control_base,
        .ring_size = pp->image->ring_size,
        .clock_offset = pp->image->clock_offset,
        .fast_clock = pp->providers->tsc_usable && pp->image->same_time,
        .thread_id = thread_id,
    };
    return ring_set_new(pp->providers->rings, &c, &pp->rings);
}

static int ring_give(struct provider_process *pp, uint32_t ring)
{
    uint32_t size = pp->image->ring_size;
    int r;

    r = memory_take(pp, size);
    if (r < 0)
        return r;
    r = shm_arena_give_ring(pp->arenas[ring / SHM_RINGS_PER_ARENA].fd, size,
                            ring % SHM_RINGS_PER_ARENA);
    if (r == 0)
        r = shm_control_add_ring(pp->control, ring);
    if (r == 0)
        r = ring_set_add_rings(pp->rings, ring + 1);
    if (r < 0)
        memory_give(pp, size);
    return r;
}

/* Up to `want` rings that may be claimed, as far as memory and mapped arenas go. */
static int rings_give(struct provider_process *pp, uint32_t want)
{
    struct providers *p = pp->providers;
    uint32_t have = pp->image->rings, room = pp->image->n_mapped * SHM_RINGS_PER_ARENA;
    int r = 0;

    if (want > SHM_RINGS_MAX)
        want = SHM_RINGS_MAX;
    while (have < want && have < room && (r = ring_give(pp, have)) == 0)
        have++;
    if (have > pp->image->rings) {
        state_begin(p->env.state);
        KEEP_SAVE(p, pp->image->rings);
        pp->image->rings = have;
        state_commit(p->env.state);
        shm_control_set_rings(pp->control, have);
    }
    if (r < 0 || have >= want)
        return r;
    if (pp->image->n_arenas > pp->image->n_mapped)
        return -EINPROGRESS;
    r = offer_next(pp);
    return r < 0 ? r : -EINPROGRESS;
}

static uint32_t rings_wanted(const struct provider_process *pp, uint32_t least)
{
    uint32_t claimed = ring_set_claimed(pp->rings);
    return claimed + (claimed > least ? claimed : least);
}

static void grow(void *userdata)
{
    struct providers *p = userdata;
    p->growing = false;
    for (struct provider_process *pp = p->first; pp; pp = pp->next) {
        if (!pp->growing)
            continue;
        pp->growing = false;
        if (!pp->dying && pp->ready)
            (void) rings_give(pp, rings_wanted(pp, 1));
    }
}

void process_grow_later(struct provider_process *pp)
{
    struct providers *p = pp->providers;
    pp->growing = true;
    if (!p->growing && loop_defer(p->env.loop, grow, p) == 0)
        p->growing = true;
}

int provider_more_rings(struct provider_process *pp)
{
    if (!pp->ready && pp->image->n_mapped > 0)
        return first_mapped(pp);
    if (!pp->ready)
        return pp->image->n_arenas > 0 ? -EINPROGRESS : -EINVAL;
    uint64_t now = etw_clock_boottime();
    if (now - pp->calls_since > ETW_NSEC_PER_SEC) {
        pp->calls_since = now;
        pp->calls = 0;
    }
    if (++pp->calls > ETWD_PROCESS_CALLS_PER_S)
        return -EBUSY;
    /* Rings that were given back can be claimed again once they are read. They may be far from half
     * full, so that nobody wakes us for them. */
    ring_set_wake(pp->rings);
    /* Who asks found all of them taken, and is perhaps not the only one. */
    return rings_give(pp, rings_wanted(pp, 4));
}

/* ---- the process's answer ---- */

static int first_mapped(struct provider_process *pp)
{
    struct providers *p = pp->providers;
    int r;

    r = rings_give(pp, 1);
    if (r < 0)
        return r;
    pp->ready = true;
    state_begin(p->env.state);
    for (uint32_t i = 0; i < pp->n_lines; i++)
        if (pp->lines[i])
            (void) line_update(pp->lines[i], false);
    r = providers_commit(p);
    process_tell_deferred(pp);
    return r;
}

int provider_arena_mapped(struct provider_process *pp, uint32_t arena, uint32_t status)
{
    struct providers *p = pp->providers;
    const struct shm_arena *mapping;
    char label[64];
    int r;

    if (arena < pp->image->n_mapped)
        return 0; /* told again */
    if (arena >= pp->image->n_arenas)
        return -EINVAL;
    if (status != 0) {
        log_notice("%s: it could not map arena %u (code %u)", process_label(pp, label), arena,
                   status);
        arena_drop(pp);
        return 0;
    }
    r = shm_arena_seal(pp->arenas[arena].fd, pp->image->ring_size);
    if (r == 0)
        r = shm_arena_map_read(pp->arenas[arena].fd, pp->image->ring_size, &mapping);
    if (r < 0) {
        if (r == -EPROTO)
            log_notice("%s: it tampered with its arena %u", process_label(pp, label), arena);
        return r;
    }
    if (!pp->rings)
        r = process_rings_begin(pp);
    if (r == 0)
        r = ring_set_add_arena(pp->rings, arena, mapping);
    if (r < 0) {
        shm_arena_unmap(mapping, pp->image->ring_size);
        return r;
    }
    pp->arenas[arena].mapped = true;
    state_begin(p->env.state);
    KEEP_SAVE(p, pp->image->n_mapped);
    pp->image->n_mapped++;
    state_commit(p->env.state);
    if (!pp->ready)
        return first_mapped(pp);
    r = rings_give(pp, rings_wanted(pp, 1));
    return r == -EINPROGRESS ? 0 : r;
}
