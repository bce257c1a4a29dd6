/* SPDX-License-Identifier: Apache-2.0
 *
 * EventRegister, EventUnregister, EventSetInformation, EventEnabled, EventProviderEnabled, and the
 * tables behind them: registrations, and where the header's test of enablement looks. Not what is
 * said to the daemon (attach.c). Any thread; the two tests also in signal handlers.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>

#include "../control/internal.h"
#include "base/clock.h"
#include "base/limits.h"
#include "shm/slots.h"

_Static_assert(sizeof(struct etw_enable_line) == sizeof(struct shm_registration) &&
                   offsetof(struct etw_enable_line, Any) == offsetof(struct shm_enable_word, any) &&
                   offsetof(struct etw_enable_line, On) == offsetof(struct shm_enable_word, on) &&
                   ETW_ENABLE_CHUNKS * ETW_ENABLE_CHUNK_LINES == SHM_REGISTRATIONS_MAX,
               "the public header has the layout of the enable words");
/* A chunk is a page: it is looked at only once the daemon gave it memory. */
_Static_assert(ETW_ENABLE_CHUNK_LINES * sizeof(struct etw_enable_line) == 4096, "a page");

struct registration provider_registrations[SHM_REGISTRATIONS_MAX];
_Atomic uint32_t provider_registrations_end;

static const struct etw_enable_line none[ETW_ENABLE_CHUNK_LINES];
#define ALL                                                                                        \
    {                                                                                              \
        .Level = 255, .On = 1, .Any = ~0ull                                                        \
    }
#define ALL8 ALL, ALL, ALL, ALL, ALL, ALL, ALL, ALL
static const struct etw_enable_line all[ETW_ENABLE_CHUNK_LINES] = {ALL8, ALL8, ALL8, ALL8,
                                                                   ALL8, ALL8, ALL8, ALL8};

#define NONE4 none, none, none, none
const struct etw_enable_line *etw_enable_table[ETW_ENABLE_CHUNKS] = {NONE4, NONE4, NONE4, NONE4};

static void chunk_set(unsigned chunk, const struct etw_enable_line *lines)
{
    __atomic_store_n(&etw_enable_table[chunk], lines, __ATOMIC_RELEASE);
}

void enable_table_none(void)
{
    for (unsigned i = 0; i < ETW_ENABLE_CHUNKS; i++)
        chunk_set(i, none);
}

void enable_table_all(void)
{
    for (unsigned i = 0; i < ETW_ENABLE_CHUNKS; i++)
        chunk_set(i, all);
}

void enable_table_publish(uint32_t index)
{
    uint32_t first = index - index % ETW_ENABLE_CHUNK_LINES;

    chunk_set(index / ETW_ENABLE_CHUNK_LINES,
              (const void *) shm_control_registration(provider_control, first));
}

/* ---- register ---- */

/* An index that is free here and at the daemon. -EAGAIN: one is about to be. -ENOSPC. */
static int index_find(const struct process *p, uint32_t *ret)
{
    bool going = false;

    for (uint32_t i = 0; i < SHM_REGISTRATIONS_MAX; i++) {
        if (atomic_load_explicit(&provider_registrations[i].handle, memory_order_relaxed) != 0)
            continue;
        if (p->links[i] == LINK_NONE && p->running[i] == 0) {
            *ret = i;
            return 0;
        }
        going = true;
    }
    return going ? -EAGAIN : -ENOSPC;
}

/* Under the lock, which is given up while waiting. */
static int index_take(struct process *p, uint64_t deadline, uint32_t *ret)
{
    int r;

    for (;;) {
        uint32_t seen = atomic_load(&p->changes);
        r = index_find(p, ret);
        if (r != -EAGAIN || p->mute || etw_clock_boottime() >= deadline)
            return r;
        if (p->helper == 0 && atomic_load(&p->fd) != 0) {
            connection_pump(p, SHM_REGISTRATIONS_MAX, deadline);
            continue;
        }
        process_unlock(p);
        process_wait(p, seen, deadline);
        process_lock(p);
    }
}

/* Waits for what the daemon says; a daemon that lets one wait in vain is not waited for again until
 * it says something. Under the lock, which is given up meanwhile. */
static void await(struct process *p, uint32_t index, uint64_t deadline)
{
    while (!connection_settled(p, index) && !p->mute) {
        uint32_t seen = atomic_load(&p->changes);
        if (etw_clock_boottime() >= deadline) {
            p->mute = true;
            return;
        }
        if (p->helper == 0 && atomic_load(&p->fd) != 0) {
            connection_pump(p, index, deadline);
            continue;
        }
        process_unlock(p);
        process_wait(p, seen, p->dirty ? etw_clock_boottime() + 10000000 : deadline);
        process_lock(p);
        if (p->dirty)
            connection_flush(p);
    }
}

/* Tells the daemon, and waits. Under the lock, which may be given up meanwhile. */
static void announce(struct process *p, uint32_t index, uint64_t deadline)
{
    if (atomic_load(&p->fd) != 0 && !connection_ours(p)) {
        /* The program closed it. Whoever reads it will see that it is not in charge any more. */
        p->helper = 0;
        connection_end(p);
    }
    if (atomic_load(&p->fd) != 0)
        (void) connection_tell(p, index);
    else if (p->helper == 0)
        (void) connect_now(p);
    await(p, index, deadline);
    helper_start(p);
}

ULONG EVNTAPI EventRegister(LPCGUID ProviderId, PENABLECALLBACK EnableCallback,
                            PVOID CallbackContext, PREGHANDLE RegHandle)
{
    no_cancel();
    struct registration *reg;
    struct process *p;
    uint64_t deadline;
    uint64_t handle;
    uint32_t index;
    int r;

    if (RegHandle)
        *RegHandle = 0;
    if (!ProviderId || !RegHandle)
        return finish(ERROR_INVALID_PARAMETER);
    r = process_init();
    if (r < 0)
        return finish(code_from_errno(r));
    p = provider_process;
    if (atomic_load(&p->epoch) == 0)
        fork_recover(p);
    deadline = etw_clock_boottime() + ETW_CLIENT_REGISTER_MS * 1000000ull;
    process_lock(p);
    r = index_take(p, deadline, &index);
    if (r < 0) {
        process_unlock(p);
        return finish(ERROR_NO_SYSTEM_RESOURCES);
    }
    reg = &provider_registrations[index];
    memcpy(&reg->guid, ProviderId, sizeof(reg->guid));
    reg->traits = NULL;
    reg->traits_size = 0;
    reg->types = false;
    reg->callback = EnableCallback;
    reg->context = CallbackContext;
    reg->generation = reg->generation == UINT32_MAX ? 1 : reg->generation + 1;
    handle = (uint64_t) reg->generation << 32 | (index + 1);
    p->enabled[index] = false;
    p->traits_unsent[index] = false;
    /* Callbacks that come now are run below. */
    p->running[index] = thread_id();
    *RegHandle = handle;
    if (index >= atomic_load(&provider_registrations_end))
        atomic_store(&provider_registrations_end, index + 1);
    atomic_store_explicit(&reg->handle, handle, memory_order_release);
    announce(p, index, deadline);
    if (p->links[index] == LINK_REFUSED) {
        uint32_t code = p->answers[index];
        atomic_store(&reg->handle, 0);
        *RegHandle = 0;
        p->links[index] = LINK_NONE;
        callbacks_drop(p, index);
        p->running[index] = 0;
        process_changed(p);
        process_unlock(p);
        return finish(code);
    }
    process_unlock(p);
    callbacks_run(p, index);
    return ERROR_SUCCESS;
}

ULONG EVNTAPI EventUnregister(REGHANDLE RegHandle)
{
    no_cancel();
    struct process *p = provider_process;
    struct registration *reg;
    uint64_t deadline = 0;
    uint32_t index;
    uint32_t self = thread_id();

    if (!p || !registration_find(RegHandle, &index))
        return finish(ERROR_INVALID_HANDLE);
    if (atomic_load(&p->epoch) == 0)
        fork_recover(p);
    process_lock(p);
    reg = registration_find(RegHandle, &index);
    if (!reg) {
        process_unlock(p);
        return finish(ERROR_INVALID_HANDLE);
    }
    atomic_store(&reg->handle, 0);
    callbacks_drop(p, index);
    /* Two callbacks that unregister each other's registration must not wait for ever. */
    if (provider_in_callback())
        deadline = etw_clock_boottime() + ETW_CLIENT_REGISTER_MS * 1000000ull;
    while (p->running[index] != 0 && p->running[index] != self &&
           (deadline == 0 || etw_clock_boottime() < deadline)) {
        uint32_t seen = atomic_load(&p->changes);
        process_unlock(p);
        process_wait(p, seen, deadline);
        process_lock(p);
    }
    switch ((enum link) p->links[index]) {
    case LINK_SENT:
    case LINK_LIVE:
        p->links[index] = LINK_GOING;
        (void) connection_tell(p, index);
        break;
    case LINK_NONE:
    case LINK_REFUSED:
        p->links[index] = LINK_NONE;
        break;
    case LINK_GOING:
    case LINK_GONE:
        break;
    }
    process_unlock(p);
    return ERROR_SUCCESS;
}

/* ---- what else is told ---- */

/* The blob holds together: its size, a name, pieces up to the end. */
static bool traits_valid(const uint8_t *blob, uint32_t size)
{
    uint16_t total;
    uint32_t at;

    if (size < sizeof(total) || size > ETW_TRAITS_MAX)
        return false;
    memcpy(&total, blob, sizeof(total));
    if (total != size)
        return false;
    at = (uint32_t) (sizeof(total) + strnlen((const char *) blob + sizeof(total), size - 2u) + 1);
    if (at > size)
        return false;
    while (at < size) {
        uint16_t piece;
        if (size - at < 3)
            return false;
        memcpy(&piece, blob + at, sizeof(piece));
        if (piece < 3 || piece > size - at)
            return false;
        at += piece;
    }
    return true;
}

static uint32_t traits_set(struct process *p, REGHANDLE handle, const void *blob, uint32_t size)
{
    struct registration *reg;
    uint32_t index;
    uint32_t code = ERROR_SUCCESS;

    if (!blob || !traits_valid(blob, size))
        return ERROR_INVALID_PARAMETER;
    process_lock(p);
    reg = registration_find(handle, &index);
    if (!reg) {
        code = ERROR_INVALID_PARAMETER;
    } else if (reg->traits) {
        code = ERROR_ALREADY_EXISTS;
    } else {
        reg->traits_size = (uint16_t) size;
        __atomic_store_n(&reg->traits, blob, __ATOMIC_RELEASE);
        reg->types = true;
        if (p->links[index] == LINK_SENT || p->links[index] == LINK_LIVE) {
            p->traits_unsent[index] = true;
            (void) connection_tell(p, index);
        }
    }
    process_unlock(p);
    return code;
}

ULONG EVNTAPI EventSetInformation(REGHANDLE RegHandle, EVENT_INFO_CLASS InformationClass,
                                  PVOID EventInformation, ULONG InformationLength)
{
    no_cancel();
    struct process *p = provider_process;
    struct registration *reg;
    uint32_t index;

    reg = registration_find(RegHandle, &index);
    if (!p || !reg)
        return finish(ERROR_INVALID_PARAMETER);
    switch ((int) InformationClass) {
    case EventProviderBinaryTrackInfo:
        if (EventInformation || InformationLength != 0)
            return finish(ERROR_INVALID_PARAMETER);
        return ERROR_SUCCESS;
    case EventProviderSetReserved1:
        return finish(ERROR_NOT_SUPPORTED);
    case EventProviderSetTraits:
        return finish(traits_set(p, RegHandle, EventInformation, InformationLength));
    case EventProviderUseDescriptorType:
        if (!EventInformation || InformationLength != sizeof(BOOLEAN))
            return finish(ERROR_INVALID_PARAMETER);
        reg->types = *(const BOOLEAN *) EventInformation != FALSE;
        return ERROR_SUCCESS;
    default:
        return finish(ERROR_INVALID_PARAMETER);
    }
}

/* ---- tests ---- */

BOOLEAN EVNTAPI EventProviderEnabled(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword)
{
    uint32_t index;

    if (!etw_provider_wants(RegHandle, Level, Keyword) || !registration_find(RegHandle, &index))
        return FALSE;
    if (__builtin_expect(atomic_load(&provider_process->epoch) == 0, 0)) {
        fork_recover(provider_process);
        return etw_provider_wants(RegHandle, Level, Keyword);
    }
    return TRUE;
}

BOOLEAN EVNTAPI EventEnabled(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor)
{
    struct shm_match m;
    uint32_t index;

    if (!EventDescriptor ||
        !EventProviderEnabled(RegHandle, EventDescriptor->Level, EventDescriptor->Keyword) ||
        !registration_find(RegHandle, &index) || !provider_control)
        return FALSE;
    return shm_slots_match(provider_control, index, EventDescriptor->Level,
                           EventDescriptor->Keyword, EventDescriptor->Id, &m) != 0;
}
