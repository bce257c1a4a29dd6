/* SPDX-License-Identifier: Apache-2.0
 *
 * The codes of the provider functions, with no daemon and with one that is told what to answer.
 */
#include "lib/test.h"

#include <evntprov.h>
#include <evntrace.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "provider-daemon.h"

static const GUID guid = {0x11223344, 0x5566, 0x7788, {1, 2, 3, 4, 5, 6, 7, 8}};
static struct etw_guid id;
static const EVENT_DESCRIPTOR plain = {.Id = 7, .Level = 4, .Keyword = 2};
static struct provider_daemon *d;

static void setup(void)
{
    memcpy(&id, &guid, sizeof(id));
}

static void setup_daemon(void)
{
    setup();
    d = pd_start(NULL, 65536);
}

static void teardown_daemon(void)
{
    d = pd_stop(d);
}

/* No socket anywhere near. */
static void no_daemon(void)
{
    char *path = test_path("nowhere/below/etwd.sock");

    ck_assert_int_eq(setenv("ETWD_SOCKET", path, 1), 0);
    free(path);
}

static size_t threads(void)
{
    char *status = test_read_file("/proc/self/status", NULL);
    const char *at = strstr(status, "\nThreads:");
    size_t n = strtoul(at + 9, NULL, 10);

    free(status);
    return n;
}

START_TEST(nothing_before_the_first_registration)
{
    size_t fds = test_count_fds(getpid());
    GUID activity;

    ck_assert(!EventProviderEnabled(0, 0, 0));
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_CREATE_SET_ID, &activity), 0);
    ck_assert_uint_eq(EventWrite(0, &plain, 0, NULL), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(threads(), 1);
    ck_assert_uint_eq(test_count_fds(getpid()), fds);
}
END_TEST

START_TEST(handles)
{
    REGHANDLE h = 99;
    REGHANDLE forged[6];

    no_daemon();
    ck_assert_uint_eq(EventRegister(NULL, NULL, NULL, &h), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(h, 0);
    ck_assert_uint_eq(GetLastError(), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventUnregister(0), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    ck_assert_uint_ne(h, 0);
    forged[0] = 0;
    forged[1] = h + 1;
    forged[2] = h + (1ull << 32);
    forged[3] = ~0ull;
    forged[4] = h & 0xFFFFFFFFu;
    forged[5] = h | 1024;
    for (unsigned i = 0; i < 6; i++) {
        ck_assert_uint_eq(EventUnregister(forged[i]), ERROR_INVALID_HANDLE);
        ck_assert_uint_eq(EventWrite(forged[i], &plain, 0, NULL), ERROR_INVALID_HANDLE);
        ck_assert_uint_eq(EventWriteTransfer(forged[i], &plain, NULL, NULL, 0, NULL),
                          ERROR_INVALID_HANDLE);
        ck_assert_uint_eq(EventWriteEx(forged[i], &plain, 0, 0, NULL, NULL, 0, NULL),
                          ERROR_INVALID_HANDLE);
        ck_assert_uint_eq(EventWriteString(forged[i], 1, 1, u"text"), ERROR_INVALID_HANDLE);
        ck_assert_uint_eq(EventWriteString(forged[i], 1, 1, NULL), ERROR_INVALID_HANDLE);
        ck_assert(!EventEnabled(forged[i], &plain));
        ck_assert(!EventProviderEnabled(forged[i], 0, 0));
        ck_assert(!etw_provider_wants(forged[i], 0, 0));
        ck_assert_uint_eq(EventSetInformation(forged[i], EventProviderBinaryTrackInfo, NULL, 0),
                          ERROR_INVALID_PARAMETER);
    }
    ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
    ck_assert_uint_eq(EventUnregister(h), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(parameters)
{
    EVENT_DATA_DESCRIPTOR data[129];
    REGHANDLE h;

    no_daemon();
    memset(data, 0, sizeof(data));
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWrite(h, NULL, 0, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventWrite(h, &plain, 1, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventWrite(h, &plain, 129, data), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(GetLastError(), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventWrite(h, &plain, 128, data), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWriteEx(h, &plain, 0, 4, NULL, NULL, 0, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventWriteEx(h, &plain, ~0ull, 3, NULL, NULL, 0, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWriteString(h, 0, 0, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventWriteString(h, 0, 0, u"text"), ERROR_SUCCESS);
    ck_assert(!EventEnabled(h, NULL));
    ck_assert(!EventEnabled(h, &plain));
    ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
}
END_TEST

START_TEST(information)
{
    /* size, "ab", a piece of type 1 with a GUID */
    uint8_t traits[2 + 3 + 19] = {24, 0, 'a', 'b', 0, 19, 0, 1};
    uint8_t name_only[] = {5, 0, 'a', 'b', 0};
    uint8_t bad[3][8] = {{8, 0, 'a', 'b', 'c', 'd', 'e', 'f'},
                         {7, 0, 'a', 0, 2, 0, 1, 0},
                         {8, 0, 'a', 0, 9, 0, 1, 0}};
    BOOLEAN yes = TRUE;
    REGHANDLE h;
    REGHANDLE g;

    no_daemon();
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &g), ERROR_SUCCESS);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderBinaryTrackInfo, NULL, 0), ERROR_SUCCESS);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderBinaryTrackInfo, &yes, 1),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderSetReserved1, NULL, 0),
                      ERROR_NOT_SUPPORTED);
    ck_assert_uint_eq(EventSetInformation(h, MaxEventInfo, NULL, 0), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderUseDescriptorType, &yes, 1),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderUseDescriptorType, &yes, 4),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderUseDescriptorType, NULL, 1),
                      ERROR_INVALID_PARAMETER);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(EventSetInformation(h, EventProviderSetTraits, bad[i], 8),
                          ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderSetTraits, traits, sizeof(traits) - 1),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderSetTraits, NULL, 0),
                      ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderSetTraits, traits, sizeof(traits)),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderSetTraits, traits, sizeof(traits)),
                      ERROR_ALREADY_EXISTS);
    ck_assert_uint_eq(EventSetInformation(g, EventProviderSetTraits, name_only, sizeof(name_only)),
                      ERROR_SUCCESS);
}
END_TEST

START_TEST(activities)
{
    static const GUID zero;
    GUID a = {1, 2, 3, {4}};
    GUID b = a;
    GUID created;

    ck_assert_uint_eq(EventActivityIdControl(0, &a), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventActivityIdControl(6, &a), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventActivityIdControl(1, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_ID, &b), 0);
    ck_assert(IsEqualGUID(&b, &zero));
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_SET_ID, &a), 0);
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_ID, &b), 0);
    ck_assert(IsEqualGUID(&b, &a));
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_CREATE_ID, &created), 0);
    ck_assert(!IsEqualGUID(&created, &zero));
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_CREATE_ID, &b), 0);
    ck_assert(!IsEqualGUID(&created, &b));
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_SET_ID, &b), 0);
    ck_assert(IsEqualGUID(&b, &a));
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_CREATE_SET_ID, &created), 0);
    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_ID, &b), 0);
    ck_assert(!IsEqualGUID(&b, &created));
    ck_assert(!IsEqualGUID(&b, &a));
}
END_TEST

static void limit_of_registrations(void)
{
    static REGHANDLE h[1025];

    for (unsigned i = 0; i < 1024; i++)
        ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h[i]), ERROR_SUCCESS);
    h[1024] = 5;
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h[1024]), ERROR_NO_SYSTEM_RESOURCES);
    ck_assert_uint_eq(h[1024], 0);
    ck_assert_uint_eq(EventUnregister(h[500]), ERROR_SUCCESS);
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h[1024]), ERROR_SUCCESS);
    ck_assert_uint_ne(h[1024], h[500]);
    ck_assert_uint_eq(EventUnregister(h[500]), ERROR_INVALID_HANDLE);
}

START_TEST(limit_without_daemon)
{
    no_daemon();
    limit_of_registrations();
}
END_TEST

START_TEST(limit_with_daemon)
{
    limit_of_registrations();
    ck_assert_uint_eq(pd_connection(d)->registers, 1025);
    ck_assert_uint_eq(pd_connection(d)->unregisters, 1);
}
END_TEST

START_TEST(refused_registration)
{
    REGHANDLE h = 1;

    d->register_status = ERROR_NO_SYSTEM_RESOURCES;
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_NO_SYSTEM_RESOURCES);
    ck_assert_uint_eq(h, 0);
    ck_assert_uint_eq(GetLastError(), ERROR_NO_SYSTEM_RESOURCES);
    d->register_status = ERROR_ACCESS_DENIED;
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_ACCESS_DENIED);
    d->register_status = 0;
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
}
END_TEST

START_TEST(daemon_that_does_not_answer)
{
    uint64_t before = etw_clock_boottime();
    REGHANDLE h;
    REGHANDLE g;

    d->silent = true;
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    ck_assert_uint_ge(etw_clock_boottime() - before, 900000000u);
    ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
    /* Once: a program with a hundred providers is not held up for longer. */
    for (unsigned i = 0; i < 100; i++)
        ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &g), ERROR_SUCCESS);
    /* A new one on the same connection hears all of it. */
    d->silent = false;
    pd_restarted(d);
    pd_enable(d, &id, &(struct shm_slot_config){.state = SHM_SLOT_OPEN, .largest_event = 30000}, 1,
              0);
    for (int i = 0; i < TEST_HANG_LIMIT_S * 1000 && !EventProviderEnabled(g, 0, 0); i++)
        (void) usleep(1000);
    ck_assert(EventProviderEnabled(h, 0, 0));
    ck_assert(EventProviderEnabled(g, 0, 0));
}
END_TEST

static bool refusals_came(struct provider_daemon *daemon, void *arg)
{
    return daemon->accepted >= 3;
}

START_TEST(daemon_that_refuses_the_protocol)
{
    REGHANDLE h;

    d->hello_status = ERROR_REVISION_MISMATCH;
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
    ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
    /* It is asked again, less and less often. */
    pd_wait(d, refusals_came, NULL);
    d->hello_status = 0;
    pd_enable(d, &id, &(struct shm_slot_config){.state = SHM_SLOT_OPEN, .largest_event = 30000}, 1,
              0);
    for (int i = 0; i < TEST_HANG_LIMIT_S * 1000 && !EventProviderEnabled(h, 0, 0); i++)
        (void) usleep(1000);
    ck_assert(EventProviderEnabled(h, 0, 0));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-codes");
    TCase *t = tcase_create("alone");

    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, nothing_before_the_first_registration);
    tcase_add_test(t, handles);
    tcase_add_test(t, parameters);
    tcase_add_test(t, information);
    tcase_add_test(t, activities);
    tcase_add_test(t, limit_without_daemon);
    suite_add_tcase(s, t);
    t = tcase_create("daemon");
    tcase_add_checked_fixture(t, setup_daemon, teardown_daemon);
    tcase_add_test(t, limit_with_daemon);
    tcase_add_test(t, refused_registration);
    tcase_add_test(t, daemon_that_does_not_answer);
    tcase_add_test(t, daemon_that_refuses_the_protocol);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
