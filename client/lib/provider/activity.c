/* SPDX-License-Identifier: Apache-2.0
 *
 * EventActivityIdControl: the thread's activity id, and new ones. Any thread, also in signal
 * handlers: no lock, no allocation.
 */
#include "internal.h"

#include <string.h>
#include <sys/random.h>

#include "../control/internal.h"
#include "base/clock.h"

__thread GUID provider_activity ETW_TLS;

/* New ids are a process's number (unique by the kernel's random bytes, drawn again in a child) and
 * a count. */
static _Atomic uint64_t count;
static _Atomic uint64_t number;
static _Atomic uint32_t number_epoch;

static uint64_t process_number(void)
{
    /* A child has another epoch than its parent had, once it noticed; the thread below also mixes
     * its number in, which no living thread of another process has. */
    uint32_t epoch = provider_process ? atomic_load(&provider_process->epoch) : UINT32_MAX;
    uint64_t n = atomic_load(&number);

    if (n == 0 || atomic_load(&number_epoch) != epoch) {
        uint64_t drawn;
        if (getrandom(&drawn, sizeof(drawn), GRND_NONBLOCK) != (ssize_t) sizeof(drawn))
            drawn = etw_clock_boottime() * 0x9E3779B97F4A7C15ull;
        n = drawn | 1;
        atomic_store(&number, n);
        atomic_store(&number_epoch, epoch);
    }
    return n;
}

static void create(GUID *ret)
{
    struct {
        uint32_t thread;
        uint32_t count;
        uint64_t number;
    } id;
    uint64_t n = process_number();

    id.count = (uint32_t) atomic_fetch_add(&count, 1);
    id.thread = thread_id();
    id.number = n;
    _Static_assert(sizeof(id) == sizeof(*ret), "a GUID's size");
    memcpy(ret, &id, sizeof(*ret));
}

ULONG EVNTAPI EventActivityIdControl(ULONG ControlCode, LPGUID ActivityId)
{
    GUID before = provider_activity;

    if (!ActivityId)
        return finish(ERROR_INVALID_PARAMETER);
    switch (ControlCode) {
    case EVENT_ACTIVITY_CTRL_GET_ID:
        *ActivityId = before;
        return ERROR_SUCCESS;
    case EVENT_ACTIVITY_CTRL_SET_ID:
        provider_activity = *ActivityId;
        return ERROR_SUCCESS;
    case EVENT_ACTIVITY_CTRL_CREATE_ID:
        create(ActivityId);
        return ERROR_SUCCESS;
    case EVENT_ACTIVITY_CTRL_GET_SET_ID:
        provider_activity = *ActivityId;
        *ActivityId = before;
        return ERROR_SUCCESS;
    case EVENT_ACTIVITY_CTRL_CREATE_SET_ID:
        create(&provider_activity);
        *ActivityId = before;
        return ERROR_SUCCESS;
    default:
        return finish(ERROR_INVALID_PARAMETER);
    }
}
