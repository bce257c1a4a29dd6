/* SPDX-License-Identifier: Apache-2.0
 *
 * A plug-in that writes events and is unloaded again, for test-provider-lifecycle.
 */
#include <evntprov.h>
#include <winerror.h>

int plugin_write(const GUID *guid, USHORT id);

static void NTAPI on_change(LPCGUID source, ULONG enabled, UCHAR level, ULONGLONG any,
                            ULONGLONG all, PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    ++*(volatile ULONG *) context;
}

__attribute__((visibility("default"))) int plugin_write(const GUID *guid, USHORT id)
{
    static ULONG calls;
    EVENT_DESCRIPTOR d = {.Id = id, .Level = 4};
    REGHANDLE h;

    if (EventRegister(guid, on_change, &calls, &h) != ERROR_SUCCESS ||
        EventWrite(h, &d, 0, NULL) != ERROR_SUCCESS)
        return 1;
    return EventUnregister(h) == ERROR_SUCCESS ? 0 : 2;
}
