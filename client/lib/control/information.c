/* SPDX-License-Identifier: Apache-2.0
 *
 * TraceQueryInformation and TraceSetInformation: the table of classes, sizes, what etwd answers and
 * what this library knows by itself. Any thread.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"

/* Log files are made and read by ETW's processing version 1: TRACE_LOGFILE_HEADER 10.0. */
#define PROCESSING_VERSION 1u

enum support {
    NEVER, /* the class has no such direction: ERROR_INVALID_PARAMETER */
    LATER, /* it has, but not here: ERROR_NOT_SUPPORTED */
    HERE,
};

struct info_class {
    ULONG minimum, multiple; /* bytes; multiple 0: minimum exactly, or more for a query */
    enum support query, set;
    bool global; /* the handle is not looked at */
};

static const struct info_class classes[MaxTraceSetInfoClass] = {
    [TraceStackTracingInfo] = {0, sizeof(CLASSIC_EVENT_ID), HERE, HERE, false},
    [TraceSystemTraceEnableFlagsInfo] = {8 * sizeof(ULONG), sizeof(ULONG), HERE, HERE, false},
    [TraceSampledProfileIntervalInfo] = {sizeof(TRACE_PROFILE_INTERVAL), 0, LATER, LATER, true},
    [TraceProfileSourceConfigInfo] = {sizeof(ULONG), sizeof(ULONG), LATER, LATER, true},
    [TraceProfileSourceListInfo] = {0, 0, LATER, NEVER, true},
    [TracePmcEventListInfo] = {0, sizeof(CLASSIC_EVENT_ID), LATER, LATER, false},
    [TracePmcCounterListInfo] = {0, sizeof(ULONG), LATER, LATER, false},
    [TraceSetDisallowList] = {0, sizeof(GUID), NEVER, LATER, false},
    [TraceVersionInfo] = {sizeof(TRACE_VERSION_INFO), 0, HERE, NEVER, true},
    [TraceDisallowListQuery] = {0, sizeof(GUID), LATER, NEVER, false},
    [TraceCompressionInfo] = {sizeof(ETW_COMPRESSION_RESUMPTION_MODE), 0, LATER, LATER, false},
    [TracePeriodicCaptureStateListInfo] = {sizeof(TRACE_PERIODIC_CAPTURE_STATE_INFO), 8, NEVER,
                                           LATER, false},
    [TracePeriodicCaptureStateInfo] = {sizeof(TRACE_PERIODIC_CAPTURE_STATE_INFO), 8, LATER, NEVER,
                                       false},
    [TraceProviderBinaryTracking] = {sizeof(BOOLEAN), 0, LATER, LATER, false},
    [TraceMaxLoggersQuery] = {sizeof(ULONG), 0, HERE, NEVER, true},
    [TraceLbrConfigurationInfo] = {sizeof(ULONG), 0, LATER, LATER, false},
    [TraceLbrEventListInfo] = {0, sizeof(CLASSIC_EVENT_ID), LATER, LATER, false},
    [TraceMaxPmcCounterQuery] = {sizeof(ULONG), 0, HERE, NEVER, true},
    [TraceStreamCount] = {sizeof(ULONG), 0, HERE, NEVER, false},
    [TraceStackCachingInfo] = {sizeof(ULONG), 0, LATER, LATER, false},
    [TracePmcCounterOwners] = {0, 0, LATER, NEVER, true},
    [TraceUnifiedStackCachingInfo] = {sizeof(ULONG), 0, LATER, LATER, false},
    [TracePmcSessionInformation] = {0, 0, LATER, LATER, false},
    [TraceContextRegisterInfo] = {0, 0, LATER, LATER, false},
};

/* NULL: none of this family's. */
static const struct info_class *class_find(TRACE_INFO_CLASS class)
{
    const struct info_class *k;

    if ((unsigned) class >= MaxTraceSetInfoClass)
        return NULL;
    k = &classes[class];
    return k->query == NEVER && k->set == NEVER ? NULL : k;
}

static uint32_t ask(TRACEHANDLE handle, TRACE_INFO_CLASS class, bool set, const void *data,
                    size_t size, struct pages *ret)
{
    Etwd__TraceInformation body = ETWD__TRACE_INFORMATION__INIT;
    Etwd__Message request = ETWD__MESSAGE__INIT;
    _cleanup_close_ int fd = -1;
    const Etwd__Message *page;
    uint32_t code;

    if (connection_open(&fd, &code) < 0)
        return code;
    body.handle = handle;
    body.information_class = class;
    body.set = set;
    body.data.data = (uint8_t *) (uintptr_t) data;
    body.data.len = size;
    request.body_case = ETWD__MESSAGE__BODY_TRACE_INFORMATION;
    request.trace_information = &body;
    return pages_ask(fd, &request,
                     set ? ETWD__MESSAGE__BODY__NOT_SET
                         : ETWD__MESSAGE__BODY_TRACE_INFORMATION_REPLY,
                     ret, &page);
}

/* What a query answers with. */
struct answer {
    ULONG number;
    TRACE_VERSION_INFO version;
    struct pages pages;
    const void *data;
    size_t size;
};

static uint32_t answer_number(struct answer *a, ULONG number)
{
    a->number = number;
    a->data = &a->number;
    a->size = sizeof(a->number);
    return ERROR_SUCCESS;
}

static uint32_t answer_max_loggers(struct answer *a)
{
    _cleanup_close_ int fd = -1;
    uint32_t code, max = 0;

    if (connection_open(&fd, &code) < 0)
        return code;
    code = daemon_max_sessions(fd, &max);
    return code == ERROR_SUCCESS ? answer_number(a, max) : code;
}

static uint32_t answer(TRACEHANDLE handle, TRACE_INFO_CLASS class, struct answer *ret)
{
    uint32_t code;

    switch ((int) class) {
    case TraceVersionInfo:
        ret->version.EtwTraceProcessingVersion = PROCESSING_VERSION;
        ret->data = &ret->version;
        ret->size = sizeof(ret->version);
        return ERROR_SUCCESS;
    case TraceMaxLoggersQuery:
        return answer_max_loggers(ret);
    case TraceMaxPmcCounterQuery: /* none can be asked for */
        return answer_number(ret, 0);
    default:
        code = ask(handle, class, false, NULL, 0, &ret->pages);
        if (code != ERROR_SUCCESS)
            return code;
        ret->data = ret->pages.m[0]->trace_information_reply->data.data;
        ret->size = ret->pages.m[0]->trace_information_reply->data.len;
        return ERROR_SUCCESS;
    }
}

static uint32_t query(TRACEHANDLE handle, TRACE_INFO_CLASS class, void *buffer, ULONG length,
                      PULONG ret_length)
{
    const struct info_class *k = class_find(class);
    struct answer a = {0};
    uint32_t code;

    if (!k || k->query == NEVER || (length > 0 && !buffer))
        return ERROR_INVALID_PARAMETER;
    if (length < k->minimum) {
        if (ret_length)
            *ret_length = k->minimum;
        return ERROR_BAD_LENGTH;
    }
    if (k->query == LATER)
        return ERROR_NOT_SUPPORTED;
    if (!k->global && !handle_possible(handle))
        return ERROR_INVALID_PARAMETER;
    code = answer(handle, class, &a);
    if (code == ERROR_SUCCESS && a.size > UINT32_MAX)
        code = ERROR_ARITHMETIC_OVERFLOW;
    if (code == ERROR_SUCCESS) {
        if (ret_length)
            *ret_length = (ULONG) a.size;
        if (a.size > length)
            code = ERROR_BAD_LENGTH;
        else if (a.size > 0)
            memcpy(buffer, a.data, a.size);
    }
    pages_done(&a.pages);
    return code;
}

ULONG WMIAPI TraceQueryInformation(TRACEHANDLE SessionHandle, TRACE_INFO_CLASS InformationClass,
                                   PVOID TraceInformation, ULONG InformationLength,
                                   PULONG ReturnLength)
{
    no_cancel();

    return finish(
        query(SessionHandle, InformationClass, TraceInformation, InformationLength, ReturnLength));
}

static uint32_t set_stacks(TRACEHANDLE handle, const CLASSIC_EVENT_ID *ids, ULONG n)
{
    Etwd__StackTracing body = ETWD__STACK_TRACING__INIT;
    Etwd__Message request = ETWD__MESSAGE__INIT;
    _cleanup_free_ Etwd__StackId **list = NULL;
    _cleanup_pages_ struct pages pages = {0};
    _cleanup_close_ int fd = -1;
    const Etwd__Message *page;
    Etwd__StackId *items;
    uint32_t code;

    if (n > ETW_STACK_IDS_MAX)
        return ERROR_INVALID_PARAMETER;
    list = calloc(n + 1, sizeof(*list) + sizeof(*items));
    if (!list)
        return ERROR_NOT_ENOUGH_MEMORY;
    items = (Etwd__StackId *) (list + n + 1);
    for (ULONG i = 0; i < n; i++) {
        etwd__stack_id__init(&items[i]);
        items[i].guid.data = (uint8_t *) (uintptr_t) &ids[i].EventGuid;
        items[i].guid.len = sizeof(ids[i].EventGuid);
        items[i].type = ids[i].Type;
        list[i] = &items[i];
    }
    if (connection_open(&fd, &code) < 0)
        return code;
    body.handle = handle;
    body.stacks = list;
    body.n_stacks = n;
    request.body_case = ETWD__MESSAGE__BODY_STACK_TRACING;
    request.stack_tracing = &body;
    return pages_ask(fd, &request, ETWD__MESSAGE__BODY_SESSION_REPLY, &pages, &page);
}

static uint32_t set(TRACEHANDLE handle, TRACE_INFO_CLASS class, const void *buffer, ULONG length)
{
    const struct info_class *k = class_find(class);
    _cleanup_pages_ struct pages pages = {0};

    if (!k || k->set == NEVER || (length > 0 && !buffer))
        return ERROR_INVALID_PARAMETER;
    if (length < k->minimum || (k->multiple && (length - k->minimum) % k->multiple != 0))
        return ERROR_BAD_LENGTH;
    /* One group mask, and nothing else: a whole EVENT_TRACE_PROPERTIES is a mistake. */
    if (class == TraceSystemTraceEnableFlagsInfo && length != k->minimum)
        return ERROR_INVALID_PARAMETER;
    if (k->set == LATER)
        return ERROR_NOT_SUPPORTED;
    if (!handle_possible(handle))
        return ERROR_INVALID_PARAMETER;
    if (class == TraceStackTracingInfo)
        return set_stacks(handle, buffer, length / (ULONG) sizeof(CLASSIC_EVENT_ID));
    return ask(handle, class, true, buffer, length, &pages);
}

ULONG WMIAPI TraceSetInformation(TRACEHANDLE SessionHandle, TRACE_INFO_CLASS InformationClass,
                                 PVOID TraceInformation, ULONG InformationLength)
{
    no_cancel();

    return finish(set(SessionHandle, InformationClass, TraceInformation, InformationLength));
}
