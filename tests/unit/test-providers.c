/* SPDX-License-Identifier: Apache-2.0
 *
 * Provider processes, registrations, enables and tables, with processes that this test plays.
 */
#include "providers-fixture.h"

/* Enabled before: the first event after the hand-over is recorded. */
START_TEST(pre_enabled)
{
    struct world w;
    struct fake k;

    world_open(&w);
    ck_assert_uint_eq(enable(&w, 0, &guid_a), 0);
    fake_attach(&w, &k, 1, 0, 1000);
    ck_assert(!fake_register(&k, 0, &guid_b));
    ck_assert_uint_eq(k.offers, 0);
    ck_assert(fake_register(&k, 3, &guid_a));
    ck_assert_uint_eq(k.offers, 1);
    ck_assert_uint_eq(matched(&k, 3, 4, 7), 0); /* not before it is mapped */
    ck_assert_int_eq(provider_arena_mapped(k.pp, 0, 0), 0);
    ck_assert_int_eq(provider_arena_mapped(k.pp, 0, 0), 0); /* asked again: the same */
    ck_assert_int_eq(provider_arena_mapped(k.pp, 1, 0), -EINVAL);
    ck_assert_uint_eq(matched(&k, 3, 4, 7), 1);
    ck_assert_uint_eq(matched(&k, 3, 5, 7), 0);
    ck_assert_uint_eq(matched(&k, 0, 4, 7), 0);
    ck_assert_uint_eq(k.n_told, 0); /* its Register had it */
    write_event(&k, 3, &guid_a);
    expect_recorded(&w, 0, 1);

    ck_assert_uint_eq(disable(&w, 0, &guid_a), 0);
    ck_assert_uint_eq(matched(&k, 3, 4, 7), 0);
    ck_assert_uint_eq(k.n_told, 1);
    ck_assert_uint_eq(k.told[0].code, 0);
    run_until(&w, settled, &k);
    ck_assert_int_eq(provider_unregister(k.pp, 3), 0);
    ck_assert_int_eq(provider_unregister(k.pp, 3), -ENOENT);
    ck_assert_uint_eq(disable(&w, 0, &guid_a), 0); /* of what is not enabled */
    fake_die(&w, &k);
    run_until(&w, no_process, NULL);
    ck_assert_uint_eq(w.f.session->counters.recorded, 1);
    world_close(&w);
}
END_TEST

/* Registered before; who waits hears of the callback, of the time-out, of the death. */
START_TEST(waits)
{
    struct world w;
    struct fake k;
    struct answer a, b;
    struct enable_request req = {.guid = guid_a, .code = 1, .timeout_ms = UINT32_MAX, .waiter = 5};

    world_open(&w);
    fake_attach(&w, &k, 1, 0, 1000);
    ck_assert(!fake_register(&k, 0, &guid_a));
    req.source.data1 = 77;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), UINT32_MAX);
    ck_assert_uint_eq(k.offers, 1);
    ck_assert_uint_eq(k.n_told, 0); /* told once it can record */
    ck_assert_int_eq(provider_arena_mapped(k.pp, 0, 0), 0);
    ck_assert_uint_eq(k.n_told, 1);
    ck_assert_uint_eq(k.told[0].code, 1);
    ck_assert_uint_eq(k.told[0].source.data1, 77);
    ck_assert_uint_ne(k.told[0].cookie, 0);
    provider_callback_done(k.pp, k.told[0].cookie + 12345);
    provider_callback_done(k.pp, 0);
    ck_assert_uint_eq(a.times, 0);
    provider_callback_done(k.pp, k.told[0].cookie);
    ck_assert_uint_eq(a.times, 1);
    ck_assert_uint_eq(a.status, 0);

    /* Capture state of two calls, one of which gives up. */
    req.code = 2;
    req.timeout_ms = 20;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), UINT32_MAX);
    req.timeout_ms = UINT32_MAX;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &b), UINT32_MAX);
    ck_assert_uint_eq(k.n_told, 3);
    ck_assert_uint_eq(k.told[1].code, 2);
    while (a.times == 0)
        run_until(&w, settled, &k);
    ck_assert_uint_eq(a.status, ETW_ERROR_TIMEOUT);
    ck_assert_uint_eq(b.times, 0);
    providers_waiter_gone(w.p, 4);
    ck_assert_uint_eq(b.times, 0);
    providers_waiter_gone(w.p, 5);
    ck_assert_uint_eq(b.times, 1);

    req.code = 1;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), UINT32_MAX);
    fake_die(&w, &k);
    ck_assert_uint_eq(a.times, 1);
    ck_assert_uint_eq(a.status, 0);
    run_until(&w, no_process, NULL);

    req.code = 2;
    ck_assert_uint_eq(enable_full(&w, 1, 0, true, &req, &a), ETW_ERROR_NOT_FOUND);
    req.code = 3;
    ck_assert_uint_eq(enable_full(&w, 1, 0, true, &req, &a), ETW_ERROR_INVALID_PARAMETER);
    world_close(&w);
}
END_TEST

/* A user's session sees the user's processes. */
START_TEST(users)
{
    struct world w;
    struct fake mine, other;
    struct answer a;
    struct enable_request req = {.guid = guid_a, .code = 1};

    world_open(&w);
    fake_attach(&w, &mine, 1, 0, 1000);
    fake_attach(&w, &other, 2, 0, 1001);
    (void) fake_register(&mine, 0, &guid_a);
    (void) fake_register(&other, 0, &guid_a);
    ck_assert_uint_eq(enable_full(&w, 0, 1000, false, &req, &a), 0);
    ck_assert_uint_eq(mine.offers, 1);
    ck_assert_uint_eq(other.offers, 0);
    ck_assert_uint_eq(enable_full(&w, 1, 0, true, &req, &a), 0);
    ck_assert_uint_eq(other.offers, 1);
    ck_assert_int_eq(provider_arena_mapped(mine.pp, 0, 0), 0);
    ck_assert_int_eq(provider_arena_mapped(other.pp, 0, 0), 0);
    ck_assert_uint_eq(__builtin_popcount(matched(&mine, 0, 1, 1)), 2);
    ck_assert_uint_eq(__builtin_popcount(matched(&other, 0, 1, 1)), 1);
    write_event(&other, 0, &guid_a);
    write_event(&mine, 0, &guid_a);
    expect_recorded(&w, 1, 2);
    expect_recorded(&w, 0, 1);
    fake_die(&w, &mine);
    fake_die(&w, &other);
    run_until(&w, no_process, NULL);
    world_close(&w);
}
END_TEST

/* Process ids, programs, event ids; the provider's own filter. */
START_TEST(scopes_and_ids)
{
    struct world w;
    struct fake self, none;
    struct answer a;
    uint16_t exe[64];
    char name[256];
    struct enable_filter f = {.type = 0x80000008u, .data = exe};
    struct enable_request req = {.guid = guid_a, .code = 1, .filters = &f};
    int pidfd = (int) syscall(SYS_pidfd_open, getpid(), 0);
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    world_open(&w);
    fake_attach(&w, &self, 1, getpid(), 1000);
    fake_attach(&w, &none, 2, 0, 1000);
    (void) fake_register(&self, 0, &guid_a);
    (void) fake_register(&none, 0, &guid_a);
    ck_assert_uint_eq(enable(&w, 0, &guid_a), 0);
    ck_assert_int_eq(provider_arena_mapped(self.pp, 0, 0), 0);
    ck_assert_int_eq(provider_arena_mapped(none.pp, 0, 0), 0);
    ck_assert_uint_eq(disable(&w, 0, &guid_a), 0);

    req.pid_filter = true;
    req.pidfds = &pidfd;
    req.n_pidfds = 1;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), 0);
    ck_assert_uint_ne(matched(&self, 0, 1, 1), 0);
    ck_assert_uint_eq(matched(&none, 0, 1, 1), 0);
    req.n_pidfds = 0; /* matches nobody */
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), 0);
    ck_assert_uint_eq(matched(&self, 0, 1, 1), 0);
    ck_assert_uint_eq(self.told[self.n_told - 1].code, 0);
    req.pidfds = &null_fd;
    req.n_pidfds = 1;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), ETW_ERROR_INVALID_PARAMETER);
    req.pid_filter = false;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), ETW_ERROR_INVALID_PARAMETER);
    req.n_pidfds = 0;

    ssize_t n = readlink("/proc/self/exe", name, sizeof(name) - 1);
    ck_assert_int_gt(n, 0);
    name[n] = '\0';
    const char *base = strrchr(name, '/') + 1;
    size_t at = 0;
    for (const char *p = "nobody;"; *p; p++)
        exe[at++] = (uint16_t) *p;
    for (const char *p = base; *p; p++)
        exe[at++] = (uint16_t) *p;
    req.n_filters = 1;
    f.size = at * 2;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), 0);
    ck_assert_uint_ne(matched(&self, 0, 1, 1), 0);
    ck_assert_uint_eq(matched(&none, 0, 1, 1), 0);
    f.size = 6 * 2; /* "nobody" */
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), 0);
    ck_assert_uint_eq(matched(&self, 0, 1, 1), 0);
    f.size = 7;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), ETW_ERROR_INVALID_PARAMETER);

    static const uint16_t in[] = {1, 3, 9, 7, 8}, out[] = {0, 1, 7};
    f = (struct enable_filter){.type = 0x80000200u, .data = in, .size = sizeof(in)};
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), 0);
    ck_assert_uint_ne(matched(&self, 0, 1, 7), 0);
    ck_assert_uint_eq(matched(&self, 0, 1, 6), 0);
    f = (struct enable_filter){.type = 0x80000200u, .data = out, .size = sizeof(out)};
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), 0);
    ck_assert_uint_eq(matched(&self, 0, 1, 7), 0);
    ck_assert_uint_ne(matched(&self, 0, 1, 6), 0);
    f.size = 5; /* cut */
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), ETW_ERROR_INVALID_PARAMETER);
    ck_assert_uint_ne(matched(&self, 0, 1, 6), 0); /* refused: as it was */

    uint8_t own[32] = {0};
    f = (struct enable_filter){.type = 0x80000000u, .data = own, .size = sizeof(own)};
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), 0);
    const struct told *t = &self.told[self.n_told - 1];
    uint64_t instance;
    ck_assert_uint_eq(t->filter_size, sizeof(own));
    memcpy(&instance, t->filter + 8, sizeof(instance));
    ck_assert_uint_eq(instance, matched(&self, 0, 1, 1));
    f.type = 0x80000100u;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), ETW_ERROR_NOT_SUPPORTED);
    req.n_filters = 0;
    req.properties = 4;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), ETW_ERROR_NOT_SUPPORTED);
    req.properties = 0x10000;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), ETW_ERROR_INVALID_PARAMETER);
    fake_die(&w, &self);
    fake_die(&w, &none);
    run_until(&w, no_process, NULL);
    close(pidfd);
    close(null_fd);
    world_close(&w);
}
END_TEST

/* The composite that callbacks get, and the limit of sessions. */
START_TEST(composite_and_limit)
{
    struct world w;
    struct fake k;
    struct answer a;
    struct enable_request req = {.guid = guid_a, .code = 1, .level = 2, .any = 3, .all = 1};

    world_open(&w);
    fake_attach(&w, &k, 1, 0, 1000);
    (void) fake_register(&k, 0, &guid_a);
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), 0);
    ck_assert_int_eq(provider_arena_mapped(k.pp, 0, 0), 0);
    ck_assert_uint_eq(k.told[0].level, 2);
    ck_assert_uint_eq(k.told[0].any, 3);
    ck_assert_uint_eq(k.told[0].all, 1);
    req.level = 5;
    req.any = 8;
    req.all = 9;
    ck_assert_uint_eq(enable_full(&w, 1, 0, true, &req, &a), 0);
    ck_assert_uint_eq(k.told[1].level, 5);
    ck_assert_uint_eq(k.told[1].any, 11);
    ck_assert_uint_eq(k.told[1].all, 1);
    ck_assert_uint_eq(disable(&w, 1, &guid_a), 0);
    ck_assert_uint_eq(k.told[2].code, 1); /* one is left */
    ck_assert_uint_eq(k.told[2].level, 2);
    req.level = 0;
    req.any = 0;
    ck_assert_uint_eq(enable_full(&w, 1, 0, true, &req, &a), 0);
    ck_assert_uint_eq(k.told[3].level, 0);
    ck_assert_uint_eq(k.told[3].any, UINT64_MAX);
    for (unsigned n = 2; n < 8; n++)
        ck_assert_uint_eq(enable(&w, n, &guid_a), 0);
    ck_assert_uint_eq(enable(&w, 8, &guid_a), ETW_ERROR_NO_SYSTEM_RESOURCES);
    ck_assert_uint_eq(enable(&w, 8, &guid_b), 0);
    ck_assert_uint_eq(enable(&w, 7, &guid_a), 0); /* an update */
    /* Users have their own number. */
    req.level = 1;
    ck_assert_uint_eq(enable_full(&w, 8, 1000, false, &req, &a), 0);
    fake_die(&w, &k);
    run_until(&w, no_process, NULL);
    world_close(&w);
}
END_TEST

/* A slot of a table that a record may still mean is nobody else's. */
START_TEST(generations)
{
    struct world w;
    struct fake k;
    struct shm_match m;
    uint64_t stamp;

    world_open(&w);
    fake_attach(&w, &k, 1, 0, 1000);
    (void) fake_register(&k, 0, &guid_a);
    ck_assert_uint_eq(enable(&w, 0, &guid_a), 0);
    ck_assert_int_eq(provider_arena_mapped(k.pp, 0, 0), 0);
    write_event(&k, 0, &guid_a);
    expect_recorded(&w, 0, 1);

    ck_assert_uint_eq(write_begin(&k, 0, &m, &stamp), 1);
    ck_assert_uint_eq(disable(&w, 0, &guid_a), 0);
    ck_assert_uint_eq(enable(&w, 1, &guid_a), 0);
    ck_assert_uint_eq(matched(&k, 0, 4, 7), 2); /* not slot 0 */
    for (int i = 0; i < 20; i++)
        router_pass(w.router);
    ck_assert_uint_eq(k.pp->lines[0]->image->slots[0].use, SLOT_DRAINING);
    write_end(&k, 0, &m, stamp, &guid_a);
    expect_recorded(&w, 0, 2); /* as the table was when it began */
    run_until(&w, settled, &k);
    ck_assert_uint_eq(w.sessions[1]->counters.recorded, 0);
    ck_assert_uint_eq(enable(&w, 2, &guid_a), 0);
    ck_assert_uint_eq(matched(&k, 0, 4, 7), 3);
    ck_assert_uint_eq(k.pp->lines[0]->image->slots[0].session, session_handle(w.sessions[2]));

    /* A session that ends gets nothing more, not even from before. */
    ck_assert_uint_eq(write_begin(&k, 0, &m, &stamp), 3);
    providers_session_gone(w.p, w.sessions[2]);
    write_end(&k, 0, &m, stamp, &guid_a);
    expect_recorded(&w, 1, 1);
    ck_assert_uint_eq(w.sessions[2]->counters.written, 0);
    run_until(&w, settled, &k);
    /* Its tables of before are gone. */
    ck_assert_uint_eq(k.pp->lines[0]->n_tables, 1);

    /* The index again, for another provider: generations go on. */
    uint32_t before = k.pp->lines[0]->tables->table.generation;
    ck_assert_int_eq(provider_unregister(k.pp, 0), 0);
    ck_assert_uint_eq(enable(&w, 3, &guid_b), 0);
    ck_assert(fake_register(&k, 0, &guid_b));
    ck_assert_uint_gt(k.pp->lines[0]->tables->table.generation, before + 1);
    fake_die(&w, &k);
    run_until(&w, no_process, NULL);
    world_close(&w);
}
END_TEST

/* A process that does not read gets the newest, once. */
START_TEST(slow_reader)
{
    struct world w;
    struct fake k;
    struct answer a, b;
    struct enable_request req = {.guid = guid_a, .code = 1, .level = 1, .timeout_ms = UINT32_MAX};

    world_open(&w);
    fake_attach(&w, &k, 1, 0, 1000);
    (void) fake_register(&k, 0, &guid_a);
    ck_assert_uint_eq(enable(&w, 0, &guid_a), 0);
    ck_assert_int_eq(provider_arena_mapped(k.pp, 0, 0), 0);
    ck_assert_uint_eq(k.n_told, 1);
    k.deaf = true;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), UINT32_MAX);
    req.level = 3;
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &b), UINT32_MAX);
    for (int i = 0; i < 1000; i++)
        ck_assert_uint_eq(enable(&w, 0, &guid_a), 0);
    k.deaf = false;
    provider_writable(k.pp);
    ck_assert_uint_eq(k.n_told, 2);
    ck_assert_uint_eq(k.told[1].level, 4);
    ck_assert_uint_eq(a.times + b.times, 0);
    provider_callback_done(k.pp, k.told[1].cookie);
    ck_assert_uint_eq(a.times, 1);
    ck_assert_uint_eq(b.times, 1);
    fake_die(&w, &k);
    run_until(&w, no_process, NULL);
    world_close(&w);
}
END_TEST

static bool two_offers(struct world *w, void *context)
{
    return ((struct fake *) context)->offers >= 2;
}

/* Rings on demand, a second arena, the quota. */
START_TEST(memory)
{
    struct world w;
    struct fake k, poor;
    struct shm_writer writers[20];
    uint32_t n = 0;
    int r;

    world_open(&w);
    fake_attach(&w, &k, 1, 0, 1000);
    (void) fake_register(&k, 0, &guid_a);
    ck_assert_int_eq(provider_more_rings(k.pp), -EINVAL);
    ck_assert_uint_eq(enable(&w, 0, &guid_a), 0);
    ck_assert_int_eq(provider_arena_mapped(k.pp, 0, 0), 0);
    const struct shm_process *words = shm_control_process(k.control);
    ck_assert_uint_eq(words->rings, 1);
    while (n < 18) {
        if (n >= words->rings) {
            r = provider_more_rings(k.pp);
            ck_assert_int_eq(r == 0 || r == -EINPROGRESS, 1);
            if (r == -EINPROGRESS)
                ck_assert_int_eq(provider_arena_mapped(k.pp, k.offers - 1, 0), 0);
            ck_assert_uint_gt(words->rings, n);
        }
        ck_assert_int_eq(shm_writer_claim(&writers[n], k.arenas[n / 16], k.control, n / 16, n % 16,
                                          k.ring_size, false, 100 + n),
                         0);
        n++;
    }
    run_until(&w, two_offers, &k);
    ck_assert_uint_ge(words->rings, 18);
    uint64_t counted = k.pp->user->memory;
    ck_assert_uint_eq(counted, k.offers * SHM_ARENA_HEADER + (uint64_t) words->rings * k.ring_size);

    w.conf.arena_memory_mb = 1;
    w.conf.ring_size_kb = 1024;
    fake_attach(&w, &poor, 2, 0, 1001);
    struct provider_enabled e;
    ck_assert_int_eq(provider_register(poor.pp, 0, &guid_a, NULL, 0, &e), 0);
    ck_assert(!e.enabled);
    ck_assert_uint_eq(poor.offers, 0);
    ck_assert_uint_eq(enable(&w, 0, &guid_a), ETW_ERROR_NO_SYSTEM_RESOURCES);
    w.conf.arena_memory_mb = 100;
    ck_assert_uint_eq(enable(&w, 0, &guid_a), 0);
    ck_assert_uint_eq(poor.offers, 1);

    w.conf.max_registrations_per_user = 2;
    ck_assert(fake_register(&poor, 5, &guid_a));
    ck_assert_int_eq(provider_register(poor.pp, 6, &guid_a, NULL, 0, &e), -EDQUOT);
    ck_assert_int_eq(provider_register(poor.pp, 5, &guid_a, NULL, 0, &e), 0); /* the same */
    ck_assert_int_eq(provider_register(poor.pp, 5, &guid_b, NULL, 0, &e), -EEXIST);
    ck_assert_int_eq(provider_register(poor.pp, 1024, &guid_b, NULL, 0, &e), -ERANGE);
    ck_assert_int_eq(provider_unregister(poor.pp, 5), 0);
    ck_assert(fake_register(&poor, 6, &guid_a));
    fake_die(&w, &poor);
    fake_die(&w, &k);
    run_until(&w, no_process, NULL);
    ck_assert_ptr_null(w.p->users);
    world_close(&w);
}
END_TEST

/* The same process anew: the older connection is told to end. */
START_TEST(replaced_connection)
{
    struct world w;
    struct fake older, newer;

    world_open(&w);
    fake_attach(&w, &older, 1, getpid(), 1000);
    fake_attach(&w, &newer, 2, getpid(), 1000);
    ck_assert_uint_eq(older.replaced, 1);
    ck_assert_uint_eq(newer.replaced, 0);
    ck_assert_uint_eq(older.pp->facts.start_key, newer.pp->facts.start_key);
    ck_assert_uint_eq(older.pp->facts.session_id, (uint32_t) getsid(0));
    fake_die(&w, &older);
    fake_die(&w, &newer);
    run_until(&w, no_process, NULL);
    world_close(&w);
}
END_TEST

struct listed {
    struct etw_guid guids[256];
    size_t n, instances, enables;
    char filters[256];
    char name[64];
};

static void list_provider(void *userdata, const struct etw_guid *guid, const char *name)
{
    struct listed *l = userdata;
    l->guids[l->n++] = *guid;
    (void) snprintf(l->name, sizeof(l->name), "%s", name);
}

static void list_instance(void *userdata, pid_t pid, uid_t uid, const char *image,
                          uint32_t registrations, const struct session *const *enabled_by,
                          size_t n_enabled_by)
{
    ((struct listed *) userdata)->instances += registrations;
}

static void list_enable(void *userdata, const struct session *s, uint8_t level, uint64_t any,
                        uint64_t all, uint32_t properties, const char *const *filters,
                        size_t n_filters)
{
    struct listed *l = userdata;
    l->enables++;
    if (n_filters)
        (void) snprintf(l->filters, sizeof(l->filters), "%s", filters[0]);
}

START_TEST(listing)
{
    static const struct provider_visit visit = {list_provider, list_instance, list_enable};
    struct world w;
    struct fake k;
    struct listed l = {0};
    struct etw_guid last;
    struct answer a;
    static const uint16_t in[] = {1, 2, 9, 7};
    struct enable_filter f = {.type = 0x80000200u, .data = in, .size = sizeof(in)};
    struct enable_request req = {.guid = guid_a, .code = 1, .filters = &f, .n_filters = 1};

    world_open(&w);
    fake_attach(&w, &k, 1, 0, 1000);
    for (uint32_t i = 0; i < 200; i++) {
        struct etw_guid g = {.data1 = (i * 7919) % 200 * 256 + 5};
        (void) fake_register(&k, i, &g);
    }
    bool more = true;
    for (int pages = 0; more; pages++) {
        ck_assert_int_lt(pages, 4);
        more = providers_visit(w.p, pages ? &last : NULL, 0, NULL, 64, &visit, &l, &last);
    }
    ck_assert_uint_eq(l.n, 200);
    ck_assert_uint_eq(l.instances, 200);
    for (size_t i = 0; i < l.n; i++)
        ck_assert_uint_eq(l.guids[i].data1, i * 256 + 5);
    ck_assert_str_eq(l.name, "A name");

    l = (struct listed){0};
    ck_assert_uint_eq(enable_full(&w, 0, 0, true, &req, &a), 0);
    ck_assert(!providers_visit(w.p, NULL, 0, w.sessions[0], 64, &visit, &l, &last));
    ck_assert_uint_eq(l.n, 1);
    ck_assert_uint_eq(l.enables, 1);
    ck_assert_str_eq(l.filters, "event id in 7, 9");
    fake_die(&w, &k);
    run_until(&w, no_process, NULL);
    world_close(&w);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("providers");
    TCase *tc = tcase_create("providers");
    tcase_add_test(tc, pre_enabled);
    tcase_add_test(tc, waits);
    tcase_add_test(tc, users);
    tcase_add_test(tc, scopes_and_ids);
    tcase_add_test(tc, composite_and_limit);
    tcase_add_test(tc, generations);
    tcase_add_test(tc, slow_reader);
    tcase_add_test(tc, memory);
    tcase_add_test(tc, replaced_connection);
    tcase_add_test(tc, listing);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
