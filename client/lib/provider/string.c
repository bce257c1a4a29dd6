/* SPDX-License-Identifier: Apache-2.0
 *
 * EventWriteString: an event whose data are one text. Any thread, also in signal handlers.
 */
#include "internal.h"

#include "../control/internal.h"
#include "base/limits.h"

/* EVENT_HEADER.Flags, evntcons.h. */
#define STRING_ONLY 0x0004

ULONG EVNTAPI EventWriteString(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword, PCWSTR String)
{
    EVENT_DESCRIPTOR d = {.Level = Level, .Keyword = Keyword};
    EVENT_DATA_DESCRIPTOR data;
    uint32_t index;
    size_t n = 0;

    if (!registration_find(RegHandle, &index))
        return finish(ERROR_INVALID_HANDLE);
    if (!String)
        return finish(ERROR_INVALID_PARAMETER);
    if (!etw_provider_wants(RegHandle, Level, Keyword))
        return ERROR_SUCCESS;
    /* Longer ones are too long in any case. */
    while (n < ETW_EVENT_MAX && String[n] != 0)
        n++;
    EventDataDescCreate(&data, String, (ULONG) ((n + 1) * sizeof(WCHAR)));
    return provider_write(RegHandle, &d, 0, NULL, NULL, 1, &data, STRING_ONLY);
}
