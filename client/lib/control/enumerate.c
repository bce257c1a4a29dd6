/* SPDX-License-Identifier: Apache-2.0
 *
 * EnumerateTraceGuids and EnumerateTraceGuidsEx: who registered which provider, and which sessions
 * enabled it, from etwd's list, which has only what the caller may see. Any thread, enable
 * callbacks included.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* TRACE_PROVIDER_INSTANCE_INFO.Flags */
#define INSTANCE_PRE_ENABLE 2u

static uint32_t list_providers(int fd, uint32_t pid, struct pages *ret)
{
    Etwd__ListProviders body = ETWD__LIST_PROVIDERS__INIT;
    Etwd__Message request = ETWD__MESSAGE__INIT;
    const Etwd__Message *page;
    uint32_t code;

    body.pid = pid;
    request.body_case = ETWD__MESSAGE__BODY_LIST_PROVIDERS;
    request.list_providers = &body;
    for (;;) {
        code = pages_ask(fd, &request, ETWD__MESSAGE__BODY_PROVIDER_LIST, ret, &page);
        if (code != ERROR_SUCCESS)
            return code;
        const Etwd__ProviderList *l = page->provider_list;
        for (size_t i = 0; i < l->n_providers; i++)
            if (l->providers[i]->guid.len != sizeof(GUID))
                return ERROR_GEN_FAILURE;
        if (!l->more || l->n_providers == 0)
            return ERROR_SUCCESS;
        body.after_guid = l->providers[l->n_providers - 1]->guid; /* stays the page's */
    }
}

/* One provider, with all its processes. */
static uint32_t list_one(int fd, const GUID *guid, struct pages *ret)
{
    Etwd__ListProviders body = ETWD__LIST_PROVIDERS__INIT;
    Etwd__Message request = ETWD__MESSAGE__INIT;
    const Etwd__Message *page;
    uint32_t code;

    body.guid.data = (uint8_t *) (uintptr_t) guid;
    body.guid.len = sizeof(*guid);
    request.body_case = ETWD__MESSAGE__BODY_LIST_PROVIDERS;
    request.list_providers = &body;
    for (;;) {
        code = pages_ask(fd, &request, ETWD__MESSAGE__BODY_PROVIDER_LIST, ret, &page);
        if (code != ERROR_SUCCESS)
            return code;
        const Etwd__ProviderList *l = page->provider_list;
        if (l->n_providers == 0)
            return ret->n == 1 ? ERROR_WMI_GUID_NOT_FOUND : ERROR_SUCCESS;
        const Etwd__Provider *p = l->providers[0];
        if (!p->more_instances || p->n_instances == 0)
            return ERROR_SUCCESS;
        body.after_pid = p->instances[p->n_instances - 1]->pid;
    }
}

static size_t providers_total(const struct pages *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += p->m[i]->provider_list->n_providers;
    return n;
}

static void fill_properties(const Etwd__Provider *p, TRACE_GUID_PROPERTIES *ret)
{
    TRACE_GUID_PROPERTIES t;

    memset(&t, 0, sizeof(t));
    memcpy(&t.Guid, p->guid.data, sizeof(t.Guid));
    if (p->n_enables > 0) {
        /* One session has room in this structure: the first. */
        const Etwd__ProviderEnable *e = p->enables[0];
        t.IsEnable = 1;
        t.LoggerId = (ULONG) (e->handle & 0xFFFF);
        t.EnableLevel = e->level;
        t.EnableFlags = (ULONG) e->any;
    }
    *ret = t;
}

static uint32_t enumerate(PTRACE_GUID_PROPERTIES *array, ULONG n, PULONG count)
{
    _cleanup_pages_ struct pages pages = {0};
    _cleanup_close_ int fd = -1;
    uint32_t code;
    size_t total, at = 0;

    if ((n > 0 && !array) || !count)
        return ERROR_INVALID_PARAMETER;
    for (ULONG i = 0; i < n; i++)
        if (!array[i])
            return ERROR_INVALID_PARAMETER;
    if (connection_open(&fd, &code) < 0)
        return code;
    code = list_providers(fd, 0, &pages);
    if (code != ERROR_SUCCESS)
        return code;
    total = providers_total(&pages);
    for (size_t i = 0; i < pages.n; i++) {
        const Etwd__ProviderList *l = pages.m[i]->provider_list;
        for (size_t k = 0; k < l->n_providers && at < n; k++)
            fill_properties(l->providers[k], array[at++]);
    }
    *count = (ULONG) total;
    return total > n ? ERROR_MORE_DATA : ERROR_SUCCESS;
}

ULONG WMIAPI EnumerateTraceGuids(PTRACE_GUID_PROPERTIES *GuidPropertiesArray,
                                 ULONG PropertyArrayCount, PULONG GuidCount)
{
    no_cancel();

    return finish(enumerate(GuidPropertiesArray, PropertyArrayCount, GuidCount));
}

/* Where an answer goes: what does not fit is only counted. */
struct output {
    unsigned char *at;
    size_t size, used;
};

static void put(struct output *o, const void *data, size_t size)
{
    if (o->used <= o->size && size <= o->size - o->used)
        memcpy(o->at + o->used, data, size);
    o->used += size;
}

static uint32_t output_code(const struct output *o, PULONG ret_length)
{
    if (o->used > UINT32_MAX)
        return ERROR_ARITHMETIC_OVERFLOW;
    *ret_length = (ULONG) o->used;
    return o->used > o->size ? ERROR_INSUFFICIENT_BUFFER : ERROR_SUCCESS;
}

static void put_guids(struct output *o, const struct pages *pages)
{
    for (size_t i = 0; i < pages->n; i++) {
        const Etwd__ProviderList *l = pages->m[i]->provider_list;
        for (size_t k = 0; k < l->n_providers; k++)
            put(o, l->providers[k]->guid.data, sizeof(GUID));
    }
}

static void put_enable(struct output *o, const Etwd__ProviderEnable *e)
{
    const TRACE_ENABLE_INFO info = {
        .IsEnabled = 1,
        .Level = (UCHAR) e->level,
        .LoggerId = (USHORT) e->handle,
        .EnableProperty = e->properties,
        .MatchAnyKeyword = e->any,
        .MatchAllKeyword = e->all,
    };
    put(o, &info, sizeof(info));
}

static bool holds_for(const Etwd__ProviderEnable *e, const Etwd__ProviderInstance *instance)
{
    if (!instance)
        return true;
    for (size_t i = 0; i < instance->n_sessions; i++)
        if (instance->sessions[i] == e->handle)
            return true;
    return false;
}

/* One registration and its enables; NULL: nobody registered it, sessions wait for it. */
static void put_instance(struct output *o, const Etwd__Provider *p,
                         const Etwd__ProviderInstance *instance, bool last)
{
    TRACE_PROVIDER_INSTANCE_INFO info = {
        .Pid = instance ? instance->pid : 0,
        .Flags = instance ? 0 : INSTANCE_PRE_ENABLE,
    };
    for (size_t i = 0; i < p->n_enables; i++)
        info.EnableCount += holds_for(p->enables[i], instance);
    if (!last)
        info.NextOffset = (ULONG) (sizeof(info) + info.EnableCount * sizeof(TRACE_ENABLE_INFO));
    put(o, &info, sizeof(info));
    for (size_t i = 0; i < p->n_enables; i++)
        if (holds_for(p->enables[i], instance))
            put_enable(o, p->enables[i]);
}

static void put_info(struct output *o, const struct pages *pages)
{
    uint64_t left = 0;
    TRACE_GUID_INFO info = {0};

    for (size_t i = 0; i < pages->n; i++)
        for (size_t k = 0; k < pages->m[i]->provider_list->n_providers; k++) {
            const Etwd__Provider *p = pages->m[i]->provider_list->providers[k];
            for (size_t j = 0; j < p->n_instances; j++)
                left += p->instances[j]->registrations;
        }
    info.InstanceCount = left > 0 ? (ULONG) left : 1;
    put(o, &info, sizeof(info));
    if (left == 0) {
        put_instance(o, pages->m[0]->provider_list->providers[0], NULL, true);
        return;
    }
    for (size_t i = 0; i < pages->n; i++)
        for (size_t k = 0; k < pages->m[i]->provider_list->n_providers; k++) {
            const Etwd__Provider *p = pages->m[i]->provider_list->providers[k];
            for (size_t j = 0; j < p->n_instances; j++)
                for (uint32_t r = 0; r < p->instances[j]->registrations; r++)
                    put_instance(o, p, p->instances[j], --left == 0);
        }
}

/* Sizes of what goes in; ERROR_NOT_SUPPORTED for what there is not. */
static uint32_t enumerate_check(TRACE_QUERY_INFO_CLASS class, const void *in, ULONG in_size)
{
    switch ((int) class) {
    case TraceGuidQueryList:
    case TraceMaxLoggersQuery:
        return ERROR_SUCCESS;
    case TraceGuidQueryInfo:
        return in && in_size == sizeof(GUID) ? ERROR_SUCCESS : ERROR_INVALID_PARAMETER;
    case TraceGuidQueryProcess:
        return in && in_size == sizeof(ULONG) ? ERROR_SUCCESS : ERROR_INVALID_PARAMETER;
    case TraceGroupQueryList: /* there are no provider groups */
        return ERROR_NOT_SUPPORTED;
    case TraceGroupQueryInfo:
        return in && in_size == sizeof(GUID) ? ERROR_NOT_SUPPORTED : ERROR_INVALID_PARAMETER;
    case TraceDisallowListQuery: /* nor lists of providers that a session never gets */
        return in && in_size == sizeof(TRACEHANDLE) ? ERROR_NOT_SUPPORTED : ERROR_INVALID_PARAMETER;
    default:
        return ERROR_INVALID_PARAMETER;
    }
}

static uint32_t enumerate_ex(TRACE_QUERY_INFO_CLASS class, const void *in, ULONG in_size, void *out,
                             ULONG out_size, PULONG ret_length)
{
    _cleanup_pages_ struct pages pages = {0};
    struct output o = {.at = out, .size = out_size};
    _cleanup_close_ int fd = -1;
    uint32_t code, max;
    ULONG pid = 0;
    GUID guid;

    if (!ret_length || (out_size > 0 && !out))
        return ERROR_INVALID_PARAMETER;
    code = enumerate_check(class, in, in_size);
    if (code != ERROR_SUCCESS)
        return code;
    if (connection_open(&fd, &code) < 0)
        return code;
    switch ((int) class) {
    case TraceMaxLoggersQuery:
        code = daemon_max_sessions(fd, &max);
        if (code == ERROR_SUCCESS)
            put(&o, &max, sizeof(max));
        break;
    case TraceGuidQueryInfo:
        memcpy(&guid, in, sizeof(guid));
        code = list_one(fd, &guid, &pages);
        if (code == ERROR_SUCCESS)
            put_info(&o, &pages);
        break;
    case TraceGuidQueryProcess:
        memcpy(&pid, in, sizeof(pid));
        if (pid == 0) /* no process that could register */
            break;
        __attribute__((fallthrough));
    default:
        code = list_providers(fd, pid, &pages);
        if (code == ERROR_SUCCESS)
            put_guids(&o, &pages);
    }
    return code == ERROR_SUCCESS ? output_code(&o, ret_length) : code;
}

ULONG WMIAPI EnumerateTraceGuidsEx(TRACE_QUERY_INFO_CLASS TraceQueryInfoClass, PVOID InBuffer,
                                   ULONG InBufferSize, PVOID OutBuffer, ULONG OutBufferSize,
                                   PULONG ReturnLength)
{
    no_cancel();

    return finish(enumerate_ex(TraceQueryInfoClass, InBuffer, InBufferSize, OutBuffer,
                               OutBufferSize, ReturnLength));
}
