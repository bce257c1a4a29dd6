/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of etwd, page by page, and QueryAllTraces. Any thread.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/limits.h"

void pages_done(struct pages *p)
{
    for (size_t i = 0; i < p->n; i++)
        (void) wire_message_free(p->m[i]);
    free(p->m);
    *p = (struct pages){0};
}

/* Takes the reply over. */
static uint32_t page_add(struct pages *p, Etwd__Message **reply)
{
    Etwd__Message **more = realloc(p->m, (p->n + 1) * sizeof(*more));
    if (!more)
        return ERROR_NOT_ENOUGH_MEMORY;
    p->m = more;
    p->m[p->n++] = TAKE_PTR(*reply);
    return ERROR_SUCCESS;
}

uint32_t pages_ask(int fd, Etwd__Message *request, Etwd__Message__BodyCase expected,
                   struct pages *ret, const Etwd__Message **ret_page)
{
    _cleanup_message_ Etwd__Message *reply = NULL;
    uint32_t code;
    bool sent;

    if (connection_call(fd, request, NULL, 0, &reply, &sent, &code) < 0)
        return code;
    if (reply->status != ERROR_SUCCESS)
        return reply->status;
    if (reply->body_case != expected)
        return ERROR_GEN_FAILURE;
    code = page_add(ret, &reply);
    if (code == ERROR_SUCCESS)
        *ret_page = ret->m[ret->n - 1];
    return code;
}

uint32_t daemon_max_sessions(int fd, uint32_t *ret)
{
    Etwd__QueryDaemon body = ETWD__QUERY_DAEMON__INIT;
    Etwd__Message request = ETWD__MESSAGE__INIT;
    _cleanup_pages_ struct pages pages = {0};
    const Etwd__Message *page;
    uint32_t code;

    request.body_case = ETWD__MESSAGE__BODY_QUERY_DAEMON;
    request.query_daemon = &body;
    code = pages_ask(fd, &request, ETWD__MESSAGE__BODY_DAEMON_REPLY, &pages, &page);
    if (code == ERROR_SUCCESS)
        *ret = page->daemon_reply->max_sessions;
    return code;
}

static uint32_t sessions_list(int fd, struct pages *ret)
{
    Etwd__ListSessions body = ETWD__LIST_SESSIONS__INIT;
    Etwd__Message request = ETWD__MESSAGE__INIT;
    const Etwd__Message *page;
    uint32_t code;

    request.body_case = ETWD__MESSAGE__BODY_LIST_SESSIONS;
    request.list_sessions = &body;
    for (;;) {
        code = pages_ask(fd, &request, ETWD__MESSAGE__BODY_SESSION_LIST, ret, &page);
        if (code != ERROR_SUCCESS)
            return code;
        const Etwd__SessionList *l = page->session_list;
        if (!l->more || l->n_sessions == 0)
            return ERROR_SUCCESS;
        body.after_id = (uint32_t) (l->sessions[l->n_sessions - 1]->handle & 0xFFFF);
    }
}

static size_t sessions_total(const struct pages *p)
{
    size_t total = 0;
    for (size_t i = 0; i < p->n; i++)
        total += p->m[i]->session_list->n_sessions;
    return total;
}

/* All elements that are to be filled are looked at before the first one is written. */
static uint32_t fill_all(const struct pages *pages, PEVENT_TRACE_PROPERTIES *array, size_t n,
                         bool wide)
{
    struct properties v;
    uint32_t code;
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        if (!array[i])
            return ERROR_INVALID_PARAMETER;
        code = properties_view(array[i], wide, 0, &v);
        if (code != ERROR_SUCCESS)
            return code;
    }
    for (size_t i = 0; i < pages->n; i++) {
        const Etwd__SessionList *l = pages->m[i]->session_list;
        for (size_t k = 0; k < l->n_sessions && at < n; k++) {
            code = properties_view(array[at++], wide, 0, &v);
            if (code != ERROR_SUCCESS)
                return code; /* another thread changed it */
            properties_write(&v, l->sessions[k]);
            (void) properties_write_names(&v, l->sessions[k]->properties);
        }
    }
    return ERROR_SUCCESS;
}

static uint32_t query_all(PEVENT_TRACE_PROPERTIES *array, ULONG n, PULONG count, bool wide)
{
    _cleanup_pages_ struct pages pages = {0};
    _cleanup_close_ int fd = -1;
    uint32_t code, limit;
    size_t total;

    if (!array || n == 0 || !count)
        return ERROR_INVALID_PARAMETER;
    if (connection_open(&fd, &code) < 0)
        return code;
    code = daemon_max_sessions(fd, &limit);
    if (code != ERROR_SUCCESS)
        return code;
    if (n > (limit > ETW_SESSIONS_DOCUMENTED ? limit : ETW_SESSIONS_DOCUMENTED))
        return ERROR_INVALID_PARAMETER;
    code = sessions_list(fd, &pages);
    if (code != ERROR_SUCCESS)
        return code;
    total = sessions_total(&pages);
    code = fill_all(&pages, array, total < n ? total : n, wide);
    if (code != ERROR_SUCCESS)
        return code;
    *count = (ULONG) total;
    return total > n ? ERROR_MORE_DATA : ERROR_SUCCESS;
}

ULONG WMIAPI QueryAllTracesA(PEVENT_TRACE_PROPERTIES *PropertyArray, ULONG PropertyArrayCount,
                             PULONG LoggerCount)
{
    no_cancel();

    return finish(query_all(PropertyArray, PropertyArrayCount, LoggerCount, false));
}

ULONG WMIAPI QueryAllTracesW(PEVENT_TRACE_PROPERTIES *PropertyArray, ULONG PropertyArrayCount,
                             PULONG LoggerCount)
{
    no_cancel();

    return finish(query_all(PropertyArray, PropertyArrayCount, LoggerCount, true));
}
