/* SPDX-License-Identifier: Apache-2.0
 *
 * What a successor needs of providers, and how it takes it over: processes with their arenas,
 * registrations, tables of all generations that a record may come from, enables. The blocks are
 * checked once; a process that does not hold together goes, its library begins anew. Loop thread
 * only.
 */
#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "shm/arena.h"
#include "shm/control.h"

int keep_block_new(struct providers *p, enum state_kind kind, uint64_t key, size_t size, void **ret)
{
    return state_block_new(p->env.state, kind, key, size, ret);
}

uint64_t keep_line_key(const struct provider_process *pp, uint16_t index)
{
    return pp->number << 16 | index;
}

uint64_t keep_table_key(const struct provider_process *pp, uint16_t index, uint32_t generation)
{
    return pp->number << 32 | (uint64_t) index << 16 | (uint16_t) generation;
}

typedef struct session *(*find_fn)(void *userdata, uint64_t handle);

struct takeover {
    struct providers *p;
    find_fn find;
    void *userdata;
};

static struct provider_process *process_find(struct providers *p, uint64_t number)
{
    for (struct provider_process *pp = p->first; pp; pp = pp->next)
        if (pp->number == number)
            return pp;
    return NULL;
}

/* ---- memory ---- */

static int arenas_take(struct provider_process *pp)
{
    struct providers *p = pp->providers;
    struct process_image *i = pp->image;
    int r;

    if (!shm_ring_size_valid(i->ring_size) || i->n_arenas > ARENAS_MAX ||
        i->n_mapped > i->n_arenas || i->rings > i->n_mapped * SHM_RINGS_PER_ARENA ||
        (i->n_arenas > 0 && !i->control))
        return -EBADMSG;
    if (!i->control)
        return 0;
    pp->control_fd = state_fd_take(p->env.state, STATE_FD_CONTROL, pp->number);
    if (pp->control_fd < 0)
        return pp->control_fd;
    r = shm_control_map_write(pp->control_fd, &pp->control_base);
    if (r == 0)
        r = shm_control_load(pp->control_fd, pp->control_base, &pp->control);
    for (unsigned n = 0; r == 0 && n < i->n_arenas; n++) {
        pp->arenas[n].fd = state_fd_take(p->env.state, STATE_FD_ARENA, pp->number << 8 | n);
        if (pp->arenas[n].fd < 0)
            r = pp->arenas[n].fd;
        pp->memory += SHM_ARENA_HEADER;
    }
    pp->memory += (uint64_t) i->rings * i->ring_size;
    pp->user->memory += pp->memory;
    return r;
}

static int rings_take(struct provider_process *pp)
{
    struct process_image *i = pp->image;
    int r;

    if (i->n_mapped == 0)
        return 0;
    r = process_rings_begin(pp);
    for (unsigned n = 0; r == 0 && n < i->n_mapped; n++) {
        const struct shm_arena *mapping;
        r = shm_arena_map_read(pp->arenas[n].fd, i->ring_size, &mapping);
        if (r < 0)
            break;
        r = ring_set_add_arena(pp->rings, n, mapping);
        if (r < 0)
            shm_arena_unmap(mapping, i->ring_size);
        pp->arenas[n].mapped = true;
    }
    if (r == 0 && i->rings > 0)
        r = ring_set_add_rings(pp->rings, i->rings);
    if (r == 0)
        r = ring_set_takeover(pp->rings);
    if (r < 0)
        return r;
    /* The count may have been raised after the words were last written. */
    shm_control_set_rings(pp->control, i->rings);
    pp->ready = i->rings > 0;
    return 0;
}

static int process_take(struct takeover *t, struct process_image *image, uint64_t number)
{
    struct provider_process *pp;
    int r;

    r = process_new(t->p, number, image->uid, &pp);
    if (r < 0)
        return r;
    pp->image = image;
    process_facts_make(pp);
    r = image->foreign_pids ? thread_ids_new(image->pid, &pp->thread_ids) : 0;
    if (r == 0)
        r = arenas_take(pp);
    if (r == 0)
        r = rings_take(pp);
    if (r < 0) {
        char label[64];
        log_warning("%s: its rings could not be taken over: %s", process_label(pp, label),
                    strerror(-r));
        process_gone(pp);
    }
    return 0;
}

/* ---- enables ---- */

static int enable_take(struct takeover *t, struct enable_image *image, uint64_t key, size_t size)
{
    struct providers *p = t->p;
    int r;

    if (key >= p->next_enable)
        p->next_enable = key + 1;
    if (size < sizeof(*image))
        return -EBADMSG;
    if (image->number >= p->next_enable)
        p->next_enable = image->number + 1;
    struct session *s = t->find(t->userdata, image->session);
    if (!s)
        return -ENOENT; /* it ended, this was to follow */
    struct enable *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    e->image = image;
    e->number = image->number;
    e->of = (struct session_ref){s, image->session};
    r = enable_bind_image(e, size);
    e->provider = r == 0 ? provider_get(p, &image->guid, true) : NULL;
    if (!e->provider) {
        enable_free(e);
        return r < 0 ? r : -ENOMEM;
    }
    enable_link(p, e);
    return 0;
}

/* ---- registrations and tables ---- */

static int line_take(struct takeover *t, struct line_image *image, uint64_t key, size_t size)
{
    struct provider_process *pp = process_find(t->p, key >> 16);
    uint16_t index = (uint16_t) key;

    if (!pp)
        return -ENOENT;
    if (size < sizeof(*image) || index >= SHM_REGISTRATIONS_MAX ||
        image->name[sizeof(image->name) - 1] != '\0')
        return -EBADMSG;
    struct provider *pr = image->registered ? provider_get(t->p, &image->guid, true) : NULL;
    struct line *l = !image->registered || pr ? line_adopt(pp, index, image) : NULL;
    if (l && pr)
        line_bind(l, pr);
    else if (pr)
        provider_settle(t->p, pr);
    return l ? 0 : -ENOMEM;
}

static int slots_take(struct takeover *t, struct line *l)
{
    int r;

    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++) {
        struct slot_image *si = &l->image->slots[i];
        if (si->use == SLOT_FREE)
            continue;
        if (si->use > SLOT_DRAINING)
            return -EBADMSG;
        struct session_ref of = {t->find(t->userdata, si->session), si->session};
        r = counter_bind(l->process, si->counter, &of);
        if (r < 0)
            return r;
        if (si->use == SLOT_USED)
            l->slots[i].enable = enable_find(t->p, l->provider, si->enable);
    }
    return 0;
}

static int table_take(struct takeover *t, struct table_image *image, uint64_t key, size_t size)
{
    struct provider_process *pp = process_find(t->p, key >> 32);
    uint32_t index = (uint32_t) key >> 16;
    struct line *l = pp && index < pp->n_lines ? pp->lines[index] : NULL;

    if (!l)
        return -ENOENT;
    if (size < sizeof(*image) || (uint16_t) image->generation != (uint16_t) key)
        return -EBADMSG;
    struct table_node *n = calloc(1, sizeof(*n));
    if (!n)
        return -ENOMEM;
    n->image = image;
    n->table.guid = image->guid;
    n->table.generation = image->generation;
    n->table.used = image->used;
    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++)
        if (image->used >> i & 1)
            n->table.slots[i] = (struct table_slot){
                image->slots[i].session ? t->find(t->userdata, image->slots[i].session) : NULL,
                image->slots[i].properties};
    struct table_node **at = &l->tables;
    while (*at && (int32_t) ((*at)->table.generation - n->table.generation) > 0)
        at = &(*at)->older;
    n->older = *at;
    *at = n;
    l->n_tables++;
    return 0;
}

/* Each block of a kind; what cannot be taken goes. */
static void take_all(struct takeover *t, enum state_kind kind)
{
    struct state *st = t->p->env.state;
    uint64_t position = 0, key;
    size_t size;
    void *block;

    while ((block = state_block_next(st, kind, &position, &key, &size))) {
        int r = -EBADMSG;
        if (kind == STATE_PROCESS && size >= sizeof(struct process_image))
            r = process_take(t, block, key);
        else if (kind == STATE_ENABLE)
            r = enable_take(t, block, key, size);
        else if (kind == STATE_REGISTRATION)
            r = line_take(t, block, key, size);
        else if (kind == STATE_TABLE)
            r = table_take(t, block, key, size);
        if (r == 0)
            continue;
        if (r != -ENOENT)
            log_warning("providers: what a predecessor left could not be taken over: %s",
                        strerror(-r));
        state_block_free(st, block);
    }
}

static int process_complete(struct takeover *t, struct provider_process *pp)
{
    int r;

    for (uint32_t i = 0; i < pp->n_lines; i++) {
        struct line *l = pp->lines[i];
        if (!l)
            continue;
        r = slots_take(t, l);
        if (r < 0)
            return r;
        if (!pp->control)
            continue;
        r = shm_control_add_registration(pp->control, i);
        if (r < 0)
            return r;
        /* A table that was committed and not published: now. */
        if (l->tables && l->tables->table.generation != shm_control_generation(pp->control, i))
            line_republish(l);
        else
            line_wait_past(l);
        (void) line_update(l, false);
    }
    return 0;
}

int providers_takeover(struct providers *p,
                       struct session *(*find)(void *userdata, uint64_t handle), void *userdata)
{
    struct takeover t = {.p = p, .find = find, .userdata = userdata};
    char label[64];

    if (!p->env.state)
        return 0;
    state_begin(p->env.state);
    take_all(&t, STATE_PROCESS);
    take_all(&t, STATE_ENABLE);
    take_all(&t, STATE_REGISTRATION);
    take_all(&t, STATE_TABLE);
    for (struct provider_process *pp = p->first, *next; pp; pp = next) {
        next = pp->next;
        int r = process_complete(&t, pp);
        if (r < 0) {
            log_warning("%s: its registrations could not be taken over: %s",
                        process_label(pp, label), strerror(-r));
            process_gone(pp);
        }
    }
    return providers_commit(p);
}

int provider_reattach(struct providers *p, const struct provider_peer_ops *ops, void *peer,
                      uint64_t number, int pidfd, struct provider_process **ret)
{
    struct provider_process *pp = process_find(p, number);

    if (!pp || pp->ops)
        return -ENOENT;
    pp->ops = ops;
    pp->peer = peer;
    pp->pidfd = pidfd;
    *ret = pp;
    return 0;
}

void provider_resume(struct provider_process *pp)
{
    process_offer_again(pp);
    for (uint32_t i = 0; i < pp->n_lines; i++) {
        struct line *l = pp->lines[i];
        if (!l || !l->provider)
            continue;
        if (l->image->tell)
            line_tell(l, false, NULL, 0);
        if (l->image->capture)
            line_tell(l, true, NULL, 0);
    }
}

void providers_takeover_done(struct providers *p)
{
    for (struct provider_process *pp = p->first, *next; pp; pp = next) {
        next = pp->next;
        if (!pp->ops && !pp->dying)
            provider_detach(pp);
    }
}
