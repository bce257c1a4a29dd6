/* SPDX-License-Identifier: Apache-2.0
 *
 * Provider processes over the death of their daemon, with a descriptor store of the test's own.
 */
#include "providers-fixture.h"

#define STORED 32

static struct stored {
    enum state_fd_kind kind;
    uint64_t key;
    int fd;
} stored[STORED];
static size_t n_stored;
static bool storing;

bool __wrap_state_kept(const struct state *st);
int __wrap_state_fd_store(struct state *st, enum state_fd_kind kind, uint64_t key, int fd);
int __wrap_state_fd_take(struct state *st, enum state_fd_kind kind, uint64_t key);
void __wrap_state_fd_drop(struct state *st, enum state_fd_kind kind, uint64_t key);

bool __wrap_state_kept(const struct state *st)
{
    return storing && st;
}

int __wrap_state_fd_store(struct state *st, enum state_fd_kind kind, uint64_t key, int fd)
{
    if (!storing)
        return 0;
    ck_assert_uint_lt(n_stored, STORED);
    stored[n_stored++] = (struct stored){kind, key, dup(fd)};
    return 0;
}

int __wrap_state_fd_take(struct state *st, enum state_fd_kind kind, uint64_t key)
{
    for (size_t i = 0; i < n_stored; i++)
        if (stored[i].kind == kind && stored[i].key == key)
            return dup(stored[i].fd);
    return -ENOENT;
}

void __wrap_state_fd_drop(struct state *st, enum state_fd_kind kind, uint64_t key)
{
    for (size_t i = 0; i < n_stored; i++)
        if (stored[i].kind == kind && stored[i].key == key) {
            close(stored[i].fd);
            stored[i] = stored[--n_stored];
            return;
        }
}

static struct session *find(void *userdata, uint64_t handle)
{
    struct world *w = userdata;
    for (unsigned n = 0; n < SESSIONS; n++)
        if (w->sessions[n] && session_handle(w->sessions[n]) == handle)
            return w->sessions[n];
    return NULL;
}

static bool alone(struct world *w, void *context)
{
    const struct fake *const *two = context;
    unsigned n = 0;
    for (const struct provider_process *pp = w->p->first; pp; pp = pp->next)
        n += pp == two[0]->pp || pp == two[1]->pp ? 1 : 100;
    return n == 2;
}

/* The daemon dies between any two calls; what it had told and promised holds. */
START_TEST(successor)
{
    static struct world a, b; /* the first is left as a killed daemon leaves it */
    struct fake busy, fresh, lost;
    struct shm_match m;
    uint64_t stamp;

    storing = true;
    world_open(&a);
    fake_attach(&a, &busy, 1, 0, 1000);
    fake_attach(&a, &fresh, 2, 0, 1000);
    fake_attach(&a, &lost, 3, 0, 1000);
    (void) fake_register(&busy, 0, &guid_a);
    (void) fake_register(&busy, 1, &guid_b);
    ck_assert_uint_eq(enable(&a, 0, &guid_a), 0);
    ck_assert_uint_eq(enable(&a, 1, &guid_b), 0);
    ck_assert_uint_eq(enable(&a, 2, &guid_b), 0);
    ck_assert_int_eq(provider_arena_mapped(busy.pp, 0, 0), 0);
    ck_assert_uint_eq(matched(&busy, 1, 4, 7), 3);
    write_event(&busy, 0, &guid_a);
    expect_recorded(&a, 0, 1);
    write_event(&busy, 0, &guid_a);
    write_event(&busy, 0, &guid_a);
    /* One under way, whose table has been replaced since. */
    ck_assert_uint_eq(write_begin(&busy, 1, &m, &stamp), 3);
    ck_assert_uint_eq(disable(&a, 2, &guid_b), 0);
    /* Not told, not mapped, not there any more. */
    busy.deaf = true;
    struct answer ignored;
    struct enable_request req = {.guid = guid_a, .code = 1, .level = 2};
    ck_assert_uint_eq(enable_full(&a, 0, 0, true, &req, &ignored), 0);
    ck_assert(fake_register(&fresh, 7, &guid_a));
    ck_assert(fake_register(&lost, 0, &guid_a));
    ck_assert_uint_eq(fresh.offers, 1);
    size_t told = busy.n_told;
    uint64_t counted = busy.pp->user->memory;

    memset(&b, 0, sizeof(b));
    fixture_session(&b.f, &(struct fixture_params){.buffer_kb = 64, .cpus = 4});
    b.f.session->id = 2;
    b.f.session->generation = 1;
    b.sessions[0] = b.f.session;
    fixture_open(&b.f);
    session_make(&b, 1); /* the third has ended meanwhile */
    b.conf = a.conf;
    ck_assert_int_eq(state_load(dup(state_fd(a.state)), &b.state), 0);
    ck_assert_int_eq(router_new(b.f.loop, 1000000, &b.router), 0);
    router_set_state(b.router, b.state);
    struct providers_env env = {
        .loop = b.f.loop, .router = b.router, .state = b.state, .conf = &b.conf, .cpus = 4};
    ck_assert_int_eq(providers_new(&env, &b.p), 0);
    ck_assert_int_eq(loop_timer_new(b.f.loop, tick, &b, &b.timer), 0);
    ck_assert_int_eq(providers_takeover(b.p, find, &b), 0);
    busy.deaf = false;
    ck_assert_int_eq(provider_reattach(b.p, &ops, &busy, 1, -1, &busy.pp), 0);
    ck_assert_int_eq(provider_reattach(b.p, &ops, &busy, 1, -1, &busy.pp), -ENOENT);
    ck_assert_int_eq(provider_reattach(b.p, &ops, &busy, 9, -1, &busy.pp), -ENOENT);
    ck_assert_int_eq(provider_reattach(b.p, &ops, &fresh, 2, -1, &fresh.pp), 0);
    provider_resume(busy.pp);
    provider_resume(fresh.pp);
    providers_takeover_done(b.p);

    ck_assert_uint_eq(busy.n_told, told + 1);
    ck_assert_uint_eq(busy.told[told].code, 1);
    ck_assert_uint_eq(busy.told[told].level, 2);
    ck_assert_uint_eq(busy.offers, 1);
    ck_assert_uint_eq(fresh.offers, 2);
    ck_assert_int_eq(provider_arena_mapped(fresh.pp, 0, 0), 0);
    ck_assert_uint_eq(matched(&fresh, 7, 2, 7), 1);
    ck_assert_uint_eq(matched(&busy, 0, 4, 7), 0);
    ck_assert_uint_eq(matched(&busy, 0, 2, 7), 1);
    ck_assert_uint_eq(matched(&busy, 1, 4, 7), 2);
    write_end(&busy, 1, &m, stamp, &guid_b); /* as its table was: but the third session is gone */
    write_event(&busy, 1, &guid_b);
    expect_recorded(&b, 0, 2); /* what the first had not taken */
    expect_recorded(&b, 1, 2);
    run_until(&b, settled, &busy);
    run_until(&b, alone, (void *) (const struct fake *[]){&busy, &fresh});
    ck_assert_uint_ge(busy.pp->user->memory, counted - 2 * SHM_ARENA_HEADER);
    for (int i = 0; i < LOSS_CAUSES; i++)
        ck_assert_uint_eq(b.sessions[0]->counters.lost[i], 0);

    fake_die(&b, &busy);
    fake_die(&b, &fresh);
    fake_close(&lost);
    run_until(&b, no_process, NULL);
    ck_assert_uint_eq(n_stored, 0);
    world_close(&b);
    free(a.f.path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("providers-takeover");
    TCase *tc = tcase_create("takeover");
    tcase_add_test(tc, successor);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
