/* SPDX-License-Identifier: Apache-2.0
 *
 * See tables.h; and how the tables come: slots follow the enables, each change is a new generation.
 * A slot that is not wanted any more keeps its number until no writer can mean it (S3 of abi.h:
 * ring_set_when_past()), and so does its loss counter. A counter belongs to one session in the
 * whole process: all its slots share it. Loop thread only.
 */
#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "etl/layout.h"
#include "sessions/session.h"
#include "shm/control.h"

#define PROPERTY_SID 0x001u
#define PROPERTY_TS_ID 0x002u
#define PROPERTY_PROCESS_START_KEY 0x080u
#define PROPERTY_EVENT_KEY 0x100u

/* ---- what records are told by ---- */

const struct table *tables_find(const struct provider_process *pp, uint16_t registration,
                                uint16_t generation)
{
    const struct line *l = registration < pp->n_lines ? pp->lines[registration] : NULL;
    if (!l)
        return NULL;
    for (const struct table_node *n = l->tables; n; n = n->older)
        if ((uint16_t) n->table.generation == generation)
            return &n->table;
    return NULL;
}

struct session *tables_counter(const struct provider_process *pp, uint16_t counter)
{
    return counter < pp->n_counters ? pp->counters[counter].of.session : NULL;
}

uint32_t tables_counters(const struct provider_process *pp)
{
    return pp->n_counters;
}

/* ---- counters ---- */

int counter_bind(struct provider_process *pp, uint16_t counter, const struct session_ref *of)
{
    if (counter >= SHM_LOST_COUNTERS)
        return -EBADMSG;
    if (counter >= pp->n_counters) {
        uint32_t n = counter + 8u < SHM_LOST_COUNTERS ? counter + 8u : SHM_LOST_COUNTERS;
        struct counter *c = realloc(pp->counters, n * sizeof(*c));
        if (!c)
            return -ENOMEM;
        memset(c + pp->n_counters, 0, (n - pp->n_counters) * sizeof(*c));
        pp->counters = c;
        pp->n_counters = n;
    }
    struct counter *c = &pp->counters[counter];
    if (c->refs > 0 && c->of.handle != of->handle)
        return -EBADMSG;
    c->of = *of;
    c->refs++;
    return 0;
}

static int counter_get(struct provider_process *pp, const struct session_ref *of, uint16_t *ret)
{
    uint32_t free_one = SHM_LOST_COUNTERS;
    int r;

    for (uint32_t i = 0; i < pp->n_counters; i++) {
        if (pp->counters[i].refs > 0 && pp->counters[i].of.handle == of->handle) {
            pp->counters[i].refs++;
            *ret = (uint16_t) i;
            return 0;
        }
        if (pp->counters[i].refs == 0 && free_one == SHM_LOST_COUNTERS)
            free_one = i;
    }
    if (free_one == SHM_LOST_COUNTERS)
        free_one = pp->n_counters;
    if (free_one >= SHM_LOST_COUNTERS)
        return -ENOSPC;
    /* What was counted since nobody had it belongs to nobody. */
    if (pp->rings && free_one < pp->n_counters)
        ring_set_sync_losses(pp->rings);
    r = counter_bind(pp, (uint16_t) free_one, of);
    if (r < 0)
        return r;
    *ret = (uint16_t) free_one;
    return 0;
}

void counter_put(struct provider_process *pp, uint16_t counter)
{
    struct counter *c = &pp->counters[counter];
    if (--c->refs > 0)
        return;
    if (pp->rings)
        ring_set_sync_losses(pp->rings);
    c->of = (struct session_ref){0};
}

/* ---- slots ---- */

static uint32_t next_generation(const struct line *l)
{
    if (l->dirty)
        return l->tables->table.generation;
    uint32_t g = shm_control_generation(l->process->control, l->index) + 1;
    return g != 0 ? g : 2; /* as shm_control_publish() counts */
}

static bool wants(const struct line *l, const struct enable *e)
{
    struct provider_process *pp = l->process;
    return e && l->provider && l->provider == e->provider && pp->ready && !pp->dying &&
           e->of.session && enable_sees(e, pp);
}

static void slot_free(struct line *l, unsigned i)
{
    struct slot_image *si = &l->image->slots[i];
    KEEP_SAVE(l->process->providers, *si);
    si->use = SLOT_FREE;
    si->session = 0;
    si->enable = 0;
    l->slots[i] = (struct line_slot){0};
    counter_put(l->process, si->counter);
}

static void slot_drain(struct line *l, unsigned i)
{
    struct slot_image *si = &l->image->slots[i];
    if (l->slots[i].fresh) {
        slot_free(l, i);
        return;
    }
    KEEP_SAVE(l->process->providers, *si);
    si->use = SLOT_DRAINING;
    si->enable = 0;
    si->gone = next_generation(l);
    l->slots[i].enable = NULL;
}

static int slot_take(struct line *l, struct enable *e)
{
    struct provider_process *pp = l->process;
    unsigned slot = SHM_SLOTS_MAX;
    bool draining = false;
    int r;

    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++) {
        const struct slot_image *si = &l->image->slots[i];
        /* One of the same session that still drains: its number means the same before and after. */
        if (si->use == SLOT_DRAINING && si->session == e->of.handle) {
            slot = i;
            break;
        }
        draining |= si->use == SLOT_DRAINING;
        if (si->use == SLOT_FREE && slot == SHM_SLOTS_MAX)
            slot = i;
    }
    if (slot == SHM_SLOTS_MAX)
        return draining ? -EBUSY : -ENOSPC;
    struct slot_image *si = &l->image->slots[slot];
    KEEP_SAVE(pp->providers, *si);
    if (si->use == SLOT_FREE) {
        uint16_t counter;
        r = counter_get(pp, &e->of, &counter);
        if (r < 0)
            return r;
        si->counter = counter;
        l->slots[slot].fresh = true;
    }
    si->use = SLOT_USED;
    si->session = e->of.handle;
    si->enable = e->number;
    si->gone = 0;
    l->slots[slot].enable = e;
    return 0;
}

static bool has_slot(const struct line *l, const struct enable *e)
{
    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++)
        if (l->image->slots[i].use == SLOT_USED && l->slots[i].enable == e)
            return true;
    return false;
}

/* ---- tables ---- */

static void node_free(struct line *l, struct table_node *n)
{
    state_block_free(l->process->providers->env.state, n->image);
    free(n);
    l->n_tables--;
}

static void nodes_cut(struct line *l, struct table_node **from)
{
    while (*from) {
        struct table_node *n = *from;
        *from = n->older;
        node_free(l, n);
    }
}

static void undirty(struct line *l)
{
    if (!l->dirty)
        return;
    l->dirty = false;
    for (struct line **at = &l->process->providers->dirty; *at; at = &(*at)->next_dirty)
        if (*at == l) {
            *at = l->next_dirty;
            break;
        }
}

void line_tables_free(struct line *l)
{
    undirty(l);
    nodes_cut(l, &l->tables);
}

static void node_forget_slot(struct providers *p, struct table_node *n, unsigned i)
{
    n->table.slots[i].session = NULL;
    KEEP_SAVE(p, n->image->slots[i]);
    n->image->slots[i].session = 0;
}

void line_forget_session(struct line *l, const struct session *s)
{
    for (struct table_node *n = l->tables; n; n = n->older)
        for (unsigned i = 0; i < SHM_SLOTS_MAX; i++)
            if (n->table.slots[i].session == s)
                node_forget_slot(l->process->providers, n, i);
}

/* The table could not be made: what was in force stays, less what was taken away. */
static void table_failed(struct line *l, uint32_t generation)
{
    l->waits = true;
    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++) {
        if (l->slots[i].fresh)
            slot_free(l, i);
        else if (l->image->slots[i].use == SLOT_DRAINING && l->image->slots[i].gone == generation)
            for (struct table_node *n = l->tables; n; n = n->older)
                node_forget_slot(l->process->providers, n, i);
    }
}

/* The newest table, not published yet, from the slots. */
static int table_make(struct line *l)
{
    struct providers *p = l->process->providers;
    struct table_node *n;
    int r;

    if (l->dirty)
        n = l->tables;
    else {
        uint32_t generation = next_generation(l);
        n = calloc(1, sizeof(*n));
        r = n ? keep_block_new(p, STATE_TABLE, keep_table_key(l->process, l->index, generation),
                               sizeof(*n->image), (void **) &n->image)
              : -ENOMEM;
        if (r < 0) {
            free(n);
            table_failed(l, generation);
            return r;
        }
        n->table.generation = generation;
        n->older = l->tables;
        l->tables = n;
        l->n_tables++;
        l->dirty = true;
        l->next_dirty = p->dirty;
        p->dirty = l;
        if (l->n_tables > ETWD_TABLES_MAX) {
            struct table_node **at = &l->tables;
            for (unsigned i = 0; i < ETWD_TABLES_MAX; i++)
                at = &(*at)->older;
            nodes_cut(l, at);
        }
    }
    KEEP_SAVE(p, *n->image);
    memset(n->image, 0, sizeof(*n->image));
    n->table.guid = n->image->guid = l->image->guid;
    n->table.used = 0;
    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++) {
        const struct enable *e = l->slots[i].enable;
        n->table.slots[i] = (struct table_slot){0};
        if (l->image->slots[i].use != SLOT_USED)
            continue;
        n->table.used |= 1u << i;
        n->table.slots[i] = (struct table_slot){e->of.session, e->image->properties};
        n->image->slots[i].session = e->of.handle;
        n->image->slots[i].properties = e->image->properties;
    }
    n->image->generation = n->table.generation;
    n->image->used = n->table.used;
    return 0;
}

int line_update(struct line *l, bool force)
{
    struct provider_process *pp = l->process;
    bool changed = false;
    int r, result = 0;

    if (!pp->control)
        return 0;
    l->waits = false;
    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++) {
        if (l->image->slots[i].use != SLOT_USED)
            continue;
        if (wants(l, l->slots[i].enable)) {
            changed |= force;
            continue;
        }
        slot_drain(l, i);
        changed = true;
    }
    for (struct enable *e = l->provider ? l->provider->enables : NULL; e; e = e->next) {
        if (!wants(l, e) || has_slot(l, e))
            continue;
        r = slot_take(l, e);
        if (r < 0) {
            result = r;
            l->waits = true;
        } else
            changed = true;
    }
    if (changed) {
        r = table_make(l);
        if (r < 0)
            result = r;
    }
    return result;
}

/* The largest event of a session: its buffer less the header and what deliver.c adds. */
static uint32_t largest_event(const struct enable *e, uint32_t ring_size)
{
    uint32_t limit = session_properties(e->of.session)->buffer_size_kb * 1024u;
    uint32_t properties = e->image->properties, added = 0;
    limit -= ETL_BUFFER_HEADER_SIZE;
    if (limit > ETW_EVENT_MAX)
        limit = ETW_EVENT_MAX;
    if (properties & PROPERTY_SID)
        added += 8 + 16; /* S-1-22-1-uid */
    if (properties & PROPERTY_TS_ID)
        added += 8 + 8;
    if (properties & PROPERTY_PROCESS_START_KEY)
        added += 8 + 8;
    limit -= added;
    uint32_t ring = shm_event_max(ring_size);
    return limit < ring ? limit : ring;
}

static int line_publish(struct line *l)
{
    struct provider_process *pp = l->process;
    struct shm_slot_config slots[SHM_SLOTS_MAX];
    uint32_t generation;
    unsigned n = 0;
    int r;

    memset(slots, 0, sizeof(slots));
    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++) {
        const struct slot_image *si = &l->image->slots[i];
        const struct enable *e = l->slots[i].enable;
        slots[i].counter = si->counter;
        if (si->use != SLOT_FREE)
            n = i + 1;
        if (si->use != SLOT_USED || !e->of.session)
            continue;
        const struct enable_image *ei = e->image;
        slots[i].state = SHM_SLOT_OPEN;
        slots[i].level = ei->level;
        slots[i].items = ei->properties & PROPERTY_EVENT_KEY ? SHM_ITEM_EVENT_KEY : 0;
        slots[i].properties = ei->properties;
        slots[i].any = ei->any;
        slots[i].all = ei->all;
        slots[i].largest_event = largest_event(e, pp->image->ring_size);
        slots[i].independent =
            session_properties(e->of.session)->log_file_mode & ETL_MODE_INDEPENDENT_SESSION;
        slots[i].filtered = ei->filter_ids;
        slots[i].filter_in = ei->filter_in;
        slots[i].n_ids = (uint16_t) ei->n_ids;
        slots[i].ids = e->ids;
    }
    r = shm_control_publish(pp->control, l->index, slots, n, &generation);
    if (r < 0) {
        char label[64];
        log_warning("%s: registration %u: its enable slots could not be changed: %s",
                    process_label(pp, label), l->index, strerror(-r));
        struct table_node *node = l->tables;
        uint32_t failed = node->table.generation;
        state_begin(pp->providers->env.state);
        l->tables = node->older;
        node_free(l, node);
        table_failed(l, failed);
        state_commit(pp->providers->env.state);
        return r;
    }
    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++)
        l->slots[i].fresh = false;
    line_wait_past(l);
    return 0;
}

/* ---- S3 ---- */

static void line_past(struct provider_process *pp, uint64_t cookie)
{
    uint32_t index = (uint32_t) (cookie >> 32), generation = (uint32_t) cookie;
    struct line *l = index < pp->n_lines ? pp->lines[index] : NULL;
    struct state *st = pp->providers->env.state;

    if (!l)
        return;
    state_begin(st);
    for (struct table_node *n = l->tables; n; n = n->older)
        if (n->table.generation == generation) {
            nodes_cut(l, &n->older);
            break;
        }
    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++) {
        const struct slot_image *si = &l->image->slots[i];
        if (si->use == SLOT_DRAINING && (int32_t) (si->gone - generation) <= 0)
            slot_free(l, i);
    }
    if (l->waits)
        (void) line_update(l, false);
    (void) providers_commit(pp->providers);
}

void line_wait_past(struct line *l)
{
    struct provider_process *pp = l->process;
    if (!pp->rings || !l->tables)
        return;
    /* Without memory the next change of the registration brings it up again: these calls are
     * answered in order, and a later one covers an earlier one. */
    if (ring_set_when_past(pp->rings, line_past,
                           (uint64_t) l->index << 32 | l->tables->table.generation) < 0)
        log_debug("registration %u: no memory to wait for its older tables", l->index);
}

/* ---- publication ---- */

void line_republish(struct line *l)
{
    if (l->dirty)
        return;
    l->dirty = true;
    l->next_dirty = l->process->providers->dirty;
    l->process->providers->dirty = l;
}

int providers_publish(struct providers *p)
{
    int result = 0;
    if (state_active(p->env.state))
        return 0; /* the hook comes back */
    while (p->dirty) {
        struct line *l = p->dirty;
        p->dirty = l->next_dirty;
        l->dirty = false;
        int r = line_publish(l);
        if (r < 0 && result == 0)
            result = r;
    }
    return result;
}

int providers_commit(struct providers *p)
{
    state_commit(p->env.state);
    return providers_publish(p);
}
