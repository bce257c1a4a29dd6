/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of the list of providers, as messages: what the peer may see of each. Loop thread only.
 */
#include "dispatch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/winerror.h"
#include "providers/providers.h"
#include "sessions/sessions.h"

bool message_guid(const ProtobufCBinaryData *data, struct etw_guid *ret)
{
    if (data->len != sizeof(*ret))
        return false;
    memcpy(ret, data->data, sizeof(*ret));
    return true;
}

/* One page under construction; what the peer may not see is left out, and providers of which
 * nothing is left with it. */
struct page {
    const struct peer *peer;
    struct provider_item *items;
    size_t n, bytes;
    bool more, failed;
    bool open; /* the last item takes what comes */
};

struct provider_item {
    Etwd__Provider m;
    struct etw_guid guid;
    size_t bytes;
};

static Etwd__ProviderInstance *instance_free(Etwd__ProviderInstance *i)
{
    if (i) {
        free(i->image);
        free(i->sessions);
    }
    free(i);
    return NULL;
}

static Etwd__ProviderEnable *enable_item_free(Etwd__ProviderEnable *e)
{
    if (e) {
        free(e->session);
        for (size_t i = 0; i < e->n_filters; i++)
            free(e->filters[i]);
        free(e->filters);
    }
    free(e);
    return NULL;
}

static void item_clear(struct provider_item *it)
{
    for (size_t i = 0; i < it->m.n_instances; i++)
        instance_free(it->m.instances[i]);
    for (size_t i = 0; i < it->m.n_enables; i++)
        enable_item_free(it->m.enables[i]);
    free(it->m.instances);
    free(it->m.enables);
    free(it->m.name);
}

/* The last provider is complete: it stays if somebody sees anything of it, and there is room. */
static void page_close(struct page *pg)
{
    if (!pg->open)
        return;
    pg->open = false;
    struct provider_item *it = &pg->items[pg->n - 1];
    if (it->m.n_instances == 0 && it->m.n_enables == 0) {
        item_clear(it);
        pg->n--;
        return;
    }
    if (pg->n > 1 && pg->bytes + it->bytes > ETWD_LIST_BYTES) {
        item_clear(it);
        pg->n--;
        pg->more = true;
        return;
    }
    pg->bytes += it->bytes;
}

static void page_provider(void *userdata, const struct etw_guid *guid, const char *name)
{
    struct page *pg = userdata;
    page_close(pg);
    if (pg->more || pg->failed)
        return;
    struct provider_item *it = &pg->items[pg->n];
    *it = (struct provider_item){.m = ETWD__PROVIDER__INIT, .guid = *guid, .bytes = 64};
    it->m.name = strdup(name);
    if (!it->m.name) {
        pg->failed = true;
        return;
    }
    it->bytes += strlen(name);
    it->m.guid.data = (uint8_t *) &it->guid;
    it->m.guid.len = sizeof(it->guid);
    pg->n++;
    pg->open = true;
}

/* Room for one more pointer behind n of them. */
static bool grow_list(void *list, size_t n)
{
    void **at = list;
    if (n % 16 != 0)
        return true;
    void *more = realloc(*at, (n + 16) * sizeof(void *));
    if (!more)
        return false;
    *at = more;
    return true;
}

static void page_instance(void *userdata, pid_t pid, uid_t uid, const char *image,
                          uint32_t registrations, const struct session *const *enabled_by,
                          size_t n_enabled_by)
{
    struct page *pg = userdata;
    struct provider_item *it = pg->open ? &pg->items[pg->n - 1] : NULL;

    if (!it || (!pg->peer->privileged && pg->peer->uid != uid))
        return;
    /* A provider of a thousand processes: the first of them make a message that can be sent. */
    if (it->bytes > ETWD_LIST_BYTES) {
        it->m.more_instances = true;
        return;
    }
    Etwd__ProviderInstance *i = malloc(sizeof(*i));
    if (!i || !grow_list(&it->m.instances, it->m.n_instances)) {
        free(i);
        pg->failed = true;
        return;
    }
    *i = (Etwd__ProviderInstance) ETWD__PROVIDER_INSTANCE__INIT;
    i->sessions = calloc(n_enabled_by ? n_enabled_by : 1, sizeof(*i->sessions));
    for (size_t k = 0; i->sessions && k < n_enabled_by; k++)
        if (policy_may_see(pg->peer, session_owner_uid(enabled_by[k]),
                           session_is_kernel(enabled_by[k])))
            i->sessions[i->n_sessions++] = session_handle(enabled_by[k]);
    it->bytes += 10 * i->n_sessions;
    pg->failed |= !i->sessions;
    i->pid = (uint32_t) pid;
    i->uid = uid;
    i->registrations = registrations;
    i->image = strdup(image);
    it->m.instances[it->m.n_instances++] = i;
    it->bytes += 32 + strlen(image);
    pg->failed |= !i->image;
}

static void page_enable(void *userdata, const struct session *s, uint8_t level, uint64_t any,
                        uint64_t all, uint32_t properties, const char *const *filters,
                        size_t n_filters)
{
    struct page *pg = userdata;
    struct provider_item *it = pg->open ? &pg->items[pg->n - 1] : NULL;

    if (!it || !policy_may_see(pg->peer, session_owner_uid(s), session_is_kernel(s)) ||
        it->bytes > ETWD_LIST_BYTES)
        return;
    Etwd__ProviderEnable *e = malloc(sizeof(*e));
    if (!e || !grow_list(&it->m.enables, it->m.n_enables)) {
        free(e);
        pg->failed = true;
        return;
    }
    *e = (Etwd__ProviderEnable) ETWD__PROVIDER_ENABLE__INIT;
    it->m.enables[it->m.n_enables++] = e;
    e->handle = session_handle(s);
    e->session = strdup(session_properties(s)->name);
    e->level = level;
    e->any = any;
    e->all = all;
    e->properties = properties;
    e->filters = calloc(n_filters ? n_filters : 1, sizeof(*e->filters));
    pg->failed |= !e->session || !e->filters;
    it->bytes += 64 + strlen(session_properties(s)->name);
    for (size_t i = 0; e->filters && i < n_filters; i++) {
        e->filters[i] = strdup(filters[i]);
        if (!e->filters[i]) {
            pg->failed = true;
            break;
        }
        e->n_filters++;
        it->bytes += 4 + strlen(filters[i]);
    }
}

void dispatch_list_providers(struct connection *c, uint64_t id, const Etwd__ListProviders *m)
{
    static const struct provider_visit visit = {page_provider, page_instance, page_enable};
    struct server *sv = connection_server(c);
    const struct peer *peer = connection_peer(c);
    struct page pg = {.peer = peer};
    struct session *only = NULL;
    struct etw_guid after = {0};

    if ((m->after_guid.len != 0 && !message_guid(&m->after_guid, &after)) ||
        (m->guid.len != 0 && m->guid.len != sizeof(after))) {
        reply_errno(c, id, -EBADMSG);
        return;
    }
    if (m->pid > INT32_MAX || m->after_pid > INT32_MAX) {
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER, "there is no such process id");
        return;
    }
    if (m->session != 0) {
        only = session_for(c, id, NULL, m->session, false);
        if (!only)
            return;
    }
    pg.items = calloc(ETWD_LIST_PROVIDERS, sizeof(*pg.items));
    const Etwd__Provider *list[ETWD_LIST_PROVIDERS];
    bool more = false;
    if (pg.items && m->guid.len != 0) {
        struct etw_guid guid;
        if (message_guid(&m->guid, &guid))
            (void) providers_visit_one(sv->env.providers, &guid, (pid_t) m->after_pid, &visit, &pg);
        page_close(&pg);
    }
    bool first = m->after_guid.len == 0;
    /* A page of which the peer may see nothing is no end of the list. */
    for (bool again = pg.items && m->guid.len == 0; again;) {
        struct etw_guid last = after;
        more = providers_visit(sv->env.providers, first ? NULL : &after, (pid_t) m->pid, only,
                               ETWD_LIST_PROVIDERS, &visit, &pg, &last);
        page_close(&pg);
        after = last;
        first = false;
        again = more && pg.n == 0 && !pg.failed;
    }
    if (!pg.items || pg.failed)
        reply_status(c, id, ETW_ERROR_NOT_ENOUGH_MEMORY, "etwd is out of memory");
    else {
        Etwd__Message reply = ETWD__MESSAGE__INIT;
        Etwd__ProviderList body = ETWD__PROVIDER_LIST__INIT;
        for (size_t i = 0; i < pg.n; i++) {
            pg.items[i].m.guid.data = (uint8_t *) &pg.items[i].guid;
            list[i] = &pg.items[i].m;
        }
        body.providers = (Etwd__Provider **) (uintptr_t) list;
        body.n_providers = pg.n;
        body.more = more || pg.more;
        reply.id = id;
        reply.body_case = ETWD__MESSAGE__BODY_PROVIDER_LIST;
        reply.provider_list = &body;
        connection_send(c, &reply);
    }
    for (size_t i = 0; i < pg.n; i++)
        item_clear(&pg.items[i]);
    free(pg.items);
}
