/* SPDX-License-Identifier: Apache-2.0
 *
 * Enable callbacks: what they get, when and where they run, and that nothing called in them hangs.
 */
#include "lib/test.h"

#include <evntprov.h>
#include <evntrace.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "provider-daemon.h"

static const GUID guid = {0x11223344, 0x5566, 0x7788, {1, 2, 3, 4, 5, 6, 7, 8}};
static const GUID guid_b = {0xB, 0x5566, 0x7788, {1, 2, 3, 4, 5, 6, 7, 8}};
static const struct shm_slot_config slot = {
    .state = SHM_SLOT_OPEN, .level = 4, .any = 6, .all = 2, .largest_event = 30000};
static const EVENT_DESCRIPTOR plain = {.Id = 7, .Level = 4, .Keyword = 2};
static struct etw_guid id, id_b;
static struct provider_daemon *d;

struct call {
    GUID source;
    ULONG code;
    UCHAR level;
    ULONGLONG any, all;
    bool filtered;
    ULONG filter_type, filter_size;
    uint8_t filter[32];
    long tid;
    bool blocked; /* signals */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct call calls[256];
static unsigned n_calls;
static atomic_uint inside, overlaps;
static void (*act)(void); /* in the callback */

static void NTAPI callback(LPCGUID source, ULONG code, UCHAR level, ULONGLONG any, ULONGLONG all,
                           PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    struct call c = {.source = *source,
                     .code = code,
                     .level = level,
                     .any = any,
                     .all = all,
                     .tid = syscall(SYS_gettid)};
    sigset_t set;

    if (atomic_fetch_add(&inside, 1) != 0)
        atomic_fetch_add(&overlaps, 1);
    ck_assert_ptr_eq(context, &calls);
    if (pthread_sigmask(SIG_SETMASK, NULL, &set) == 0)
        c.blocked = sigismember(&set, SIGTERM) && sigismember(&set, SIGUSR1);
    if (filter) {
        c.filtered = true;
        c.filter_type = filter->Type;
        c.filter_size = filter->Size;
        memcpy(c.filter, (const void *) (uintptr_t) filter->Ptr, filter->Size);
    }
    if (act)
        act();
    (void) atomic_fetch_sub(&inside, 1);
    pthread_mutex_lock(&lock);
    if (n_calls < 256)
        calls[n_calls++] = c;
    pthread_mutex_unlock(&lock);
}

static unsigned count(void)
{
    unsigned n;

    pthread_mutex_lock(&lock);
    n = n_calls;
    pthread_mutex_unlock(&lock);
    return n;
}

static void wait_calls(unsigned n)
{
    for (int i = 0; i < TEST_HANG_LIMIT_S * 1000 && count() < n; i++)
        (void) usleep(1000);
    ck_assert_uint_eq(count(), n);
}

static void setup(void)
{
    memcpy(&id, &guid, sizeof(id));
    memcpy(&id_b, &guid_b, sizeof(id_b));
    d = pd_start(NULL, 65536);
}

static void teardown(void)
{
    d = pd_stop(d);
}

static REGHANDLE reg(const GUID *g)
{
    REGHANDLE h;

    ck_assert_uint_eq(EventRegister(g, callback, &calls, &h), ERROR_SUCCESS);
    return h;
}

static bool done(struct provider_daemon *daemon, void *arg)
{
    uint64_t cookie = *(uint64_t *) arg;

    for (unsigned k = 0; k < PD_CONNECTIONS; k++)
        for (unsigned i = 0; i < daemon->connections[k].n_done; i++)
            if (daemon->connections[k].done[i] == cookie)
                return true;
    return false;
}

static void wait_done(uint64_t cookie)
{
    pd_wait(d, done, &cookie);
}

START_TEST(enabled_before)
{
    REGHANDLE h;

    pd_enable(d, &id, &slot, 1, 0);
    h = reg(&guid);
    /* It ran before EventRegister returned, on this thread. */
    ck_assert_uint_eq(count(), 1);
    ck_assert_uint_eq(calls[0].code, EVENT_CONTROL_CODE_ENABLE_PROVIDER);
    ck_assert_uint_eq(calls[0].level, 4);
    ck_assert_uint_eq(calls[0].any, 6);
    ck_assert_uint_eq(calls[0].all, 2);
    ck_assert(!calls[0].filtered);
    ck_assert_int_eq(calls[0].tid, syscall(SYS_gettid));
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
}
END_TEST

START_TEST(changes_in_order)
{
    static const struct etw_guid source = {7, 7, 7, {7}};
    static const GUID zero;
    uint8_t filter[24] = {1, 0, 2};
    REGHANDLE h = reg(&guid);

    ck_assert_uint_eq(count(), 0);
    pd_enable(d, &id, &slot, 1, 0);
    wait_calls(1);
    ck_assert(IsEqualGUID(&calls[0].source, &zero));
    ck_assert_int_ne(calls[0].tid, syscall(SYS_gettid));
    ck_assert(calls[0].blocked);
    pd_change(d, &id, EVENT_CONTROL_CODE_CAPTURE_STATE, &source, filter, sizeof(filter), 77);
    wait_done(77);
    wait_calls(2);
    ck_assert_uint_eq(calls[1].code, EVENT_CONTROL_CODE_CAPTURE_STATE);
    ck_assert_mem_eq(&calls[1].source, &source, sizeof(source));
    ck_assert(calls[1].filtered);
    ck_assert_uint_eq(calls[1].filter_type, EVENT_FILTER_TYPE_SCHEMATIZED);
    ck_assert_uint_eq(calls[1].filter_size, sizeof(filter));
    ck_assert_mem_eq(calls[1].filter, filter, sizeof(filter));
    for (unsigned i = 0; i < 50; i++)
        pd_change(d, &id, i % 2, NULL, NULL, 0, 100 + i);
    wait_calls(52);
    for (unsigned i = 0; i < 50; i++)
        ck_assert_uint_eq(calls[2 + i].code, i % 2);
    wait_done(149);
    pd_enable(d, &id, NULL, 0, 0);
    wait_calls(53);
    ck_assert_uint_eq(calls[52].code, EVENT_CONTROL_CODE_DISABLE_PROVIDER);
    ck_assert_uint_eq(overlaps, 0);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
    pd_change(d, &id, 1, NULL, NULL, 0, 0);
    (void) usleep(50000);
    ck_assert_uint_eq(count(), 53);
}
END_TEST

START_TEST(no_callback_is_done_at_once)
{
    REGHANDLE h;

    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    pd_enable(d, &id, &slot, 1, 55);
    wait_done(55);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
}
END_TEST

/* ---- inside ---- */

static REGHANDLE handle, handle_b;
static atomic_uint results;
static atomic_bool go;

static void unregister_self(void)
{
    if (EventUnregister(handle) == ERROR_SUCCESS)
        atomic_fetch_add(&results, 1);
}

START_TEST(unregister_inside)
{
    handle = reg(&guid);
    act = unregister_self;
    pd_enable(d, &id, &slot, 1, 9);
    wait_done(9);
    wait_calls(1);
    ck_assert_uint_eq(results, 1);
    ck_assert_uint_eq(EventUnregister(handle), ERROR_INVALID_HANDLE);
    act = NULL;
    handle = reg(&guid);
    ck_assert_uint_eq(count(), 2);
}
END_TEST

static void register_another(void)
{
    REGHANDLE h;

    act = NULL;
    if (EventRegister(&guid_b, callback, &calls, &h) == ERROR_SUCCESS &&
        EventWrite(h, &plain, 0, NULL) == ERROR_SUCCESS)
        atomic_fetch_add(&results, 1);
    handle_b = h;
}

START_TEST(register_inside)
{
    handle = reg(&guid);
    pd_enable(d, &id_b, &slot, 1, 0);
    act = register_another;
    pd_enable(d, &id, &slot, 1, 9);
    wait_done(9);
    wait_calls(2);
    ck_assert_uint_eq(results, 1);
    ck_assert_uint_eq(EventUnregister(handle_b), ERROR_SUCCESS);
    ck_assert_uint_eq(EventUnregister(handle), ERROR_SUCCESS);
}
END_TEST

static void controller_inside(void)
{
    struct {
        EVENT_TRACE_PROPERTIES p;
        char name[64];
    } t;

    memset(&t, 0, sizeof(t));
    t.p.Wnode.BufferSize = sizeof(t);
    t.p.LoggerNameOffset = sizeof(t.p);
    /* The daemon here does not know sessions: any answer will do, but there must be one. */
    if (ControlTraceA(0, "x", &t.p, EVENT_TRACE_CONTROL_QUERY) == ERROR_NOT_SUPPORTED &&
        CloseTrace(12345) == ERROR_INVALID_HANDLE)
        atomic_fetch_add(&results, 1);
}

START_TEST(control_trace_inside)
{
    handle = reg(&guid);
    act = controller_inside;
    pd_enable(d, &id, &slot, 1, 9);
    wait_done(9);
    ck_assert_uint_eq(results, 1);
    ck_assert_uint_eq(EventUnregister(handle), ERROR_SUCCESS);
}
END_TEST

static void wait_go(void)
{
    atomic_fetch_add(&results, 1);
    while (!atomic_load(&go))
        (void) usleep(1000);
}

static void *unregister_thread(void *arg)
{
    ck_assert_uint_eq(EventUnregister(handle), ERROR_SUCCESS);
    atomic_fetch_add(&results, 10);
    return NULL;
}

START_TEST(unregister_waits_for_the_callback)
{
    pthread_t t;

    handle = reg(&guid);
    act = wait_go;
    pd_enable(d, &id, &slot, 1, 9);
    while (results != 1)
        (void) usleep(1000);
    ck_assert_int_eq(pthread_create(&t, NULL, unregister_thread, NULL), 0);
    (void) usleep(100000);
    ck_assert_uint_eq(results, 1);
    /* Others go on meanwhile: registrations and their own first callbacks. */
    pd_enable(d, &id_b, &(struct shm_slot_config){.state = SHM_SLOT_OPEN, .largest_event = 1000}, 1,
              0);
    ck_assert_uint_eq(EventRegister(&guid_b, NULL, NULL, &handle_b), ERROR_SUCCESS);
    ck_assert(EventProviderEnabled(handle_b, 0, 0));
    ck_assert_uint_eq(EventUnregister(handle_b), ERROR_SUCCESS);
    atomic_store(&go, true);
    ck_assert_int_eq(pthread_join(t, NULL), 0);
    ck_assert_uint_eq(results, 11);
    wait_done(9);
}
END_TEST

/* Each callback ends the other's registration. */
static pthread_t registering;

static void unregister_other(void)
{
    REGHANDLE other = pthread_equal(pthread_self(), registering) ? handle : handle_b;

    while (atomic_load(&inside) < 2 && !atomic_load(&go))
        (void) usleep(1000);
    atomic_store(&go, true);
    (void) EventUnregister(other);
    atomic_fetch_add(&results, 1);
}

START_TEST(unregister_each_other)
{
    handle = reg(&guid);
    registering = pthread_self();
    act = unregister_other;
    pd_enable(d, &id_b, &slot, 1, 0);
    pd_enable(d, &id, &slot, 1, 9);
    /* The callback of the other runs on this thread, in EventRegister. */
    ck_assert_uint_eq(EventRegister(&guid_b, callback, &calls, &handle_b), ERROR_SUCCESS);
    wait_calls(2);
    ck_assert_uint_eq(results, 2);
}
END_TEST

static void *churn(void *arg)
{
    for (int i = 0; i < 200; i++) {
        REGHANDLE h;
        if (EventRegister(&guid, callback, &calls, &h) != ERROR_SUCCESS)
            atomic_fetch_add(&results, 1);
        if (EventUnregister(h) != ERROR_SUCCESS)
            atomic_fetch_add(&results, 1);
    }
    return NULL;
}

START_TEST(registering_while_it_changes)
{
    pthread_t t[4];

    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, churn, NULL), 0);
    for (unsigned i = 0; i < 100; i++) {
        pd_enable(d, &id, &slot, i % 2, 0);
        (void) usleep(1000);
    }
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(t[i], NULL), 0);
    ck_assert_uint_eq(results, 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-callbacks");
    TCase *t = tcase_create("callbacks");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, enabled_before);
    tcase_add_test(t, changes_in_order);
    tcase_add_test(t, no_callback_is_done_at_once);
    tcase_add_test(t, unregister_inside);
    tcase_add_test(t, register_inside);
    tcase_add_test(t, control_trace_inside);
    tcase_add_test(t, unregister_waits_for_the_callback);
    tcase_add_test(t, unregister_each_other);
    tcase_add_test(t, registering_while_it_changes);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
