/* SPDX-License-Identifier: Apache-2.0
 *
 * One registered provider, enabled by one session that takes everything, for tests of writing.
 */
#pragma once

#include "lib/test.h"

#include <errno.h>
#include <evntprov.h>
#include <evntrace.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "provider-daemon.h"

#define RING 65536u
#define LARGEST 30000u

static const GUID guid = {0x11223344, 0x5566, 0x7788, {1, 2, 3, 4, 5, 6, 7, 8}};
static const EVENT_DESCRIPTOR plain = {.Id = 7,
                                       .Version = 3,
                                       .Channel = 9,
                                       .Level = 4,
                                       .Opcode = 12,
                                       .Task = 77,
                                       .Keyword = 0x8000000000000002};
static const struct shm_slot_config open_slot = {
    .state = SHM_SLOT_OPEN, .largest_event = LARGEST, .counter = 5};
static struct etw_guid id;
static struct provider_daemon *d;
static REGHANDLE h;

static inline void setup(void)
{
    memcpy(&id, &guid, sizeof(id));
    d = pd_start(NULL, RING);
    pd_enable(d, &id, &open_slot, 1, 0);
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &h), ERROR_SUCCESS);
}

static inline void teardown(void)
{
    (void) EventUnregister(h);
    d = pd_stop(d);
}

/* The one event that is there. */
static inline struct pd_event *read_one(void)
{
    struct pd_event *e;

    ck_assert_uint_eq(pd_read(d, pd_connection(d), &e), 1);
    return e;
}

static inline void read_none(void)
{
    struct pd_event *e;
    size_t n = pd_read(d, pd_connection(d), &e);

    ck_assert_uint_eq(n, 0);
    pd_events_free(e, n);
}
