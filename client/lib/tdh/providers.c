/* SPDX-License-Identifier: Apache-2.0
 *
 * TdhEnumerateProviders: whose events can be read without help of the event. Any thread.
 */
#include <string.h>

#include "base/utf16.h"
#include "internal.h"
#include "manifest.h"

/* TRACE_PROVIDER_INFO.SchemaSource */
#define SOURCE_MANIFEST 0
#define SOURCE_CLASSES 1

/* The kernel's trace provider has all classes. */
static const char system_trace[] = "Windows Kernel Trace";

static uint64_t put_provider(PROVIDER_ENUMERATION_INFO *info, uint32_t index, uint64_t at,
                             const void *guid, ULONG source, const char *name)
{
    size_t units = etw_utf8_to_utf16_size(name, SIZE_MAX) + 1;

    if (info) {
        TRACE_PROVIDER_INFO *p = &info->TraceProviderInfoArray[index];
        memcpy(&p->ProviderGuid, guid, sizeof(p->ProviderGuid));
        p->SchemaSource = source;
        p->ProviderNameOffset = (ULONG) at;
        (void) etw_utf8_to_utf16(name, SIZE_MAX, (uint8_t *) info + at, units);
    }
    return at + units * sizeof(uint16_t);
}

/* Bytes; writes when info is not NULL. The store is locked. */
static uint64_t put_providers(PROVIDER_ENUMERATION_INFO *info)
{
    const struct provider *p;
    uint32_t n = 0;

    while (store_at(n))
        n++;
    uint64_t at = sizeof(*info) + (uint64_t) n * sizeof(TRACE_PROVIDER_INFO);
    at = put_provider(info, 0, at, &SystemTraceControlGuid, SOURCE_CLASSES, system_trace);
    for (uint32_t i = 0; (p = store_at(i)); i++)
        at = put_provider(info, i + 1, at, &p->guid, SOURCE_MANIFEST, p->name);
    if (info) {
        info->NumberOfProviders = n + 1;
        info->Reserved = 0;
    }
    return at;
}

ULONG WINAPI TdhEnumerateProviders(PPROVIDER_ENUMERATION_INFO pBuffer, ULONG *pBufferSize)
{
    ULONG code = ERROR_SUCCESS;

    if (!pBufferSize || (!pBuffer && *pBufferSize > 0))
        return finish(ERROR_INVALID_PARAMETER);
    no_cancel();
    store_lock();
    uint64_t size = put_providers(NULL);
    if (size > UINT32_MAX)
        code = ERROR_NOT_ENOUGH_MEMORY;
    else if (!pBuffer || *pBufferSize < size)
        code = ERROR_INSUFFICIENT_BUFFER;
    else
        (void) put_providers(pBuffer);
    if (code != ERROR_NOT_ENOUGH_MEMORY)
        *pBufferSize = (ULONG) size;
    store_unlock();
    return finish(code);
}
