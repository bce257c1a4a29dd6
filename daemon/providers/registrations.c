/* SPDX-License-Identifier: Apache-2.0
 *
 * What processes registered, and what they are told of it: each change once, as soon as the process
 * has its arena and reads its socket; what comes meanwhile takes the place of what waits. Loop
 * thread only.
 */
#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/siphash.h"
#include "shm/control.h"

#define CODE_DISABLE 0u
#define CODE_ENABLE 1u
#define CODE_CAPTURE 2u
#define FILTER_SCHEMATIZED 0x80000000u
/* EVENT_FILTER_HEADER: Id, Version, Reserved, InstanceId at 8, Size, NextOffset. */
#define FILTER_INSTANCE 8u

/* ---- providers, by GUID ---- */

static struct provider **bucket_of(struct providers *p, const struct etw_guid *guid)
{
    return &p->buckets[etw_siphash24(guid, sizeof(*guid), p->hash_key) % PROVIDER_BUCKETS];
}

struct provider *provider_get(struct providers *p, const struct etw_guid *guid, bool make)
{
    struct provider **bucket = bucket_of(p, guid);
    for (struct provider *pr = *bucket; pr; pr = pr->next)
        if (etw_guid_equal(&pr->guid, guid))
            return pr;
    struct provider *pr = make ? calloc(1, sizeof(*pr)) : NULL;
    if (!pr)
        return NULL;
    pr->guid = *guid;
    pr->next = *bucket;
    *bucket = pr;
    return pr;
}

void provider_settle(struct providers *p, struct provider *pr)
{
    if (pr->lines || pr->enables)
        return;
    for (struct provider **at = bucket_of(p, &pr->guid); *at; at = &(*at)->next)
        if (*at == pr) {
            *at = pr->next;
            break;
        }
    free(pr);
}

/* ---- lines ---- */

static int lines_grow(struct provider_process *pp, uint32_t index)
{
    if (index >= pp->n_lines) {
        uint32_t n = index + 8 < SHM_REGISTRATIONS_MAX ? index + 8 : SHM_REGISTRATIONS_MAX;
        struct line **lines = realloc(pp->lines, n * sizeof(*lines));
        if (!lines)
            return -ENOMEM;
        memset(lines + pp->n_lines, 0, (n - pp->n_lines) * sizeof(*lines));
        pp->lines = lines;
        pp->n_lines = n;
    }
    return 0;
}

struct line *line_adopt(struct provider_process *pp, uint16_t index, struct line_image *image)
{
    if (lines_grow(pp, index) < 0 || pp->lines[index])
        return NULL;
    struct line *l = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    l->process = pp;
    l->index = index;
    l->image = image;
    pp->lines[index] = l;
    return l;
}

struct line *line_get(struct provider_process *pp, uint32_t index)
{
    struct line_image *image;

    if (index < pp->n_lines && pp->lines[index])
        return pp->lines[index];
    if (keep_block_new(pp->providers, STATE_REGISTRATION, keep_line_key(pp, (uint16_t) index),
                       sizeof(*image), (void **) &image) < 0)
        return NULL;
    struct line *l = line_adopt(pp, (uint16_t) index, image);
    if (!l)
        state_block_free(pp->providers->env.state, image);
    return l;
}

struct line *line_free(struct line *l)
{
    if (!l)
        return NULL;
    struct provider_process *pp = l->process;
    line_unbind(l);
    line_tables_free(l);
    state_block_free(pp->providers->env.state, l->image);
    pp->lines[l->index] = NULL;
    free(l);
    return NULL;
}

void line_bind(struct line *l, struct provider *pr)
{
    struct provider_process *pp = l->process;
    l->provider = pr;
    l->next_of_provider = pr->lines;
    pr->lines = l;
    pp->n_registered++;
    pp->user->registrations++;
}

void line_unbind(struct line *l)
{
    struct provider_process *pp = l->process;
    struct provider *pr = l->provider;
    if (!pr)
        return;
    for (struct line **at = &pr->lines; *at; at = &(*at)->next_of_provider)
        if (*at == l) {
            *at = l->next_of_provider;
            break;
        }
    l->provider = NULL;
    l->deferred = (struct deferred){0};
    pp->n_registered--;
    pp->user->registrations--;
    KEEP_SAVE(pp->providers, l->image->registered);
    l->image->registered = false;
    waits_drop_line(l);
    provider_settle(pp->providers, pr);
}

void line_composite(const struct line *l, struct provider_enabled *ret)
{
    struct provider_enabled c = {.all = UINT64_MAX};
    bool every_level = false;

    for (const struct enable *e = l->provider ? l->provider->enables : NULL; e; e = e->next) {
        const struct enable_image *i = e->image;
        if (!e->of.session || !enable_sees(e, l->process))
            continue;
        c.enabled = true;
        every_level |= i->level == 0;
        if (i->level > c.level)
            c.level = i->level;
        c.any |= i->any != 0 ? i->any : UINT64_MAX;
        c.all &= i->all;
    }
    /* Level 0 of a session means every level, as it does to callbacks. */
    if (every_level)
        c.level = 0;
    if (!c.enabled)
        c.all = 0;
    *ret = c;
}

/* ---- telling ---- */

static unsigned slot_of(const struct line *l, const struct enable *e)
{
    for (unsigned i = 0; i < SHM_SLOTS_MAX; i++)
        if (l->image->slots[i].use == SLOT_USED && l->slots[i].enable == e)
            return i;
    return SHM_SLOTS_MAX;
}

static bool send_change(struct line *l, bool capture, uint64_t number, uint64_t cookie)
{
    struct provider_process *pp = l->process;
    const struct enable *e = enable_find(pp->providers, l->provider, number);
    uint8_t filter[ETW_FILTER_DATA_MAX];
    size_t size = e ? e->image->schema_size : 0;
    struct provider_enabled c;

    line_composite(l, &c);
    if (size > sizeof(filter))
        size = sizeof(filter);
    if (size > 0) {
        memcpy(filter, e->schema, size);
        unsigned slot = slot_of(l, e);
        uint64_t instance = slot < SHM_SLOTS_MAX ? 1ull << slot : 0;
        if (size >= FILTER_INSTANCE + sizeof(instance))
            memcpy(filter + FILTER_INSTANCE, &instance, sizeof(instance));
    }
    uint32_t code = capture ? CODE_CAPTURE : c.enabled ? CODE_ENABLE : CODE_DISABLE;
    static const struct etw_guid nobody;
    return pp->ops->change(pp->peer, l->index, code, c.level, c.any, c.all,
                           e ? &e->image->source : &nobody, size > 0 ? FILTER_SCHEMATIZED : 0,
                           filter, size, cookie);
}

/* What waits for this registration, when it can be told now. */
static bool line_tell_now(struct line *l)
{
    struct provider_process *pp = l->process;
    struct deferred *d = &l->deferred;

    if (!d->change && !d->capture)
        return true;
    if (pp->image->threadless) {
        waits_drop(pp, d->change_cookie);
        waits_drop(pp, d->capture_cookie);
        *d = (struct deferred){0};
    }
    if ((d->change || d->capture) && (!pp->ready || !pp->ops))
        return false;
    if (d->change) {
        if (!send_change(l, false, d->change_enable, d->change_cookie))
            return false;
        d->change = false;
    }
    if (d->capture) {
        if (!send_change(l, true, d->capture_enable, d->capture_cookie))
            return false;
        d->capture = false;
    }
    struct providers *p = pp->providers;
    state_begin(p->env.state);
    KEEP_SAVE(p, l->image->tell);
    KEEP_SAVE(p, l->image->capture);
    l->image->tell = l->image->capture = false;
    state_commit(p->env.state);
    return true;
}

void line_tell(struct line *l, bool capture, const struct enable *e, uint64_t cookie)
{
    struct provider_process *pp = l->process;
    struct providers *p = pp->providers;
    struct deferred *d = &l->deferred;
    uint64_t *waiting = capture ? &d->capture_cookie : &d->change_cookie;
    bool *due = capture ? &d->capture : &d->change;

    if (!*due)
        *waiting = cookie;
    else if (cookie != 0) {
        if (*waiting != 0)
            waits_move(pp, *waiting, cookie); /* one callback answers both */
        *waiting = cookie;
    }
    *due = true;
    *(capture ? &d->capture_enable : &d->change_enable) = e ? e->number : 0;
    state_begin(p->env.state);
    if (capture) {
        KEEP_SAVE(p, l->image->capture);
        l->image->capture = true;
    } else {
        KEEP_SAVE(p, l->image->tell);
        l->image->tell = true;
    }
    state_commit(p->env.state);
    /* In their order: behind those that wait. */
    if (pp->has_deferred || !line_tell_now(l))
        pp->has_deferred = true;
}

void process_tell_deferred(struct provider_process *pp)
{
    if (!pp->has_deferred)
        return;
    pp->has_deferred = false;
    for (uint32_t i = 0; i < pp->n_lines; i++)
        if (pp->lines[i] && !line_tell_now(pp->lines[i])) {
            pp->has_deferred = true;
            return;
        }
}

void provider_writable(struct provider_process *pp)
{
    process_tell_deferred(pp);
}

/* ---- requests ---- */

static void traits_take(struct line *l, const void *traits, size_t size)
{
    /* u16 size, the name with its NUL, then what we do not need. */
    const char *name = (const char *) traits + sizeof(uint16_t);
    size_t n = 0;

    KEEP_SAVE(l->process->providers, l->image->name);
    memset(l->image->name, 0, sizeof(l->image->name));
    if (size > sizeof(uint16_t))
        n = strnlen(name, size - sizeof(uint16_t));
    if (n > sizeof(l->image->name) - 1) {
        n = sizeof(l->image->name) - 1;
        while (n > 0 && ((uint8_t) name[n] & 0xC0) == 0x80)
            n--; /* whole characters */
    }
    if (n > 0)
        memcpy(l->image->name, name, n);
}

static int register_new(struct provider_process *pp, uint32_t index, const struct etw_guid *guid,
                        const void *traits, size_t traits_size)
{
    struct providers *p = pp->providers;
    int r;

    if (pp->user->registrations >= p->env.conf->max_registrations_per_user)
        return -EDQUOT;
    struct line *l = line_get(pp, index);
    struct provider *pr = l ? provider_get(p, guid, true) : NULL;
    if (!pr)
        return -ENOMEM;
    r = pp->control ? shm_control_add_registration(pp->control, index) : 0;
    if (r < 0) {
        provider_settle(p, pr);
        return r;
    }
    KEEP_SAVE(p, l->image->guid);
    KEEP_SAVE(p, l->image->registered);
    l->image->guid = *guid;
    l->image->registered = true;
    traits_take(l, traits, traits_size);
    line_bind(l, pr);
    r = line_update(l, false);
    if (r < 0)
        log_debug("registration %u: not every session that enabled it has a slot: %s", index,
                  strerror(-r));
    return 0;
}

int provider_register(struct provider_process *pp, uint32_t index, const struct etw_guid *guid,
                      const void *traits, size_t traits_size, struct provider_enabled *ret)
{
    struct providers *p = pp->providers;
    struct provider_enabled enabled;
    int r;

    if (index >= SHM_REGISTRATIONS_MAX)
        return -ERANGE;
    struct line *l = index < pp->n_lines ? pp->lines[index] : NULL;
    if (l && l->provider && !etw_guid_equal(&l->provider->guid, guid))
        return -EEXIST;
    if (!l || !l->provider) {
        state_begin(p->env.state);
        r = register_new(pp, index, guid, traits, traits_size);
        (void) providers_commit(p); /* told already */
        if (r < 0)
            return r;
        l = pp->lines[index];
    }
    line_composite(l, &enabled);
    if ((enabled.enabled || pp->image->threadless) && !pp->ready) {
        r = process_offer_first(pp);
        if (r < 0) /* it stays registered, and the next enable tries again */
            enabled = (struct provider_enabled){0};
    }
    *ret = enabled;
    return 0;
}

int provider_unregister(struct provider_process *pp, uint32_t index)
{
    struct providers *p = pp->providers;
    struct line *l = index < pp->n_lines ? pp->lines[index] : NULL;

    if (!l || !l->provider)
        return -ENOENT;
    state_begin(p->env.state);
    line_unbind(l);
    (void) line_update(l, false);
    return providers_commit(p);
}

int provider_set_traits(struct provider_process *pp, uint32_t index, const void *traits,
                        size_t size)
{
    struct providers *p = pp->providers;
    struct line *l = index < pp->n_lines ? pp->lines[index] : NULL;

    if (!l || !l->provider)
        return -ENOENT;
    state_begin(p->env.state);
    traits_take(l, traits, size);
    state_commit(p->env.state);
    return 0;
}
