/* SPDX-License-Identifier: Apache-2.0
 *
 * See captured.h.
 */
#include "captured.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"

static struct captured *into;
static GUID wanted;

static void *copy(const void *data, size_t size)
{
    void *p = malloc(size + 1);

    ck_assert_ptr_nonnull(p);
    if (size)
        memcpy(p, data, size);
    ((uint8_t *) p)[size] = 0;
    return p;
}

static void WINAPI take(PEVENT_RECORD r)
{
    struct captured_event *e;

    if (!IsEqualGUID(&r->EventHeader.ProviderId, &wanted))
        return;
    /* Each time it is twice as many: a sanitizer copies all of them for every growth. */
    if ((into->n & (into->n - 1)) == 0)
        into->events = reallocarray(into->events, into->n ? 2 * into->n : 1, sizeof(*into->events));
    ck_assert_ptr_nonnull(into->events);
    e = &into->events[into->n++];
    *e = (struct captured_event){
        .h = r->EventHeader,
        .cpu = GetEventProcessorIndex(r),
        .data = copy(r->UserData, r->UserDataLength),
        .size = r->UserDataLength,
    };
    ck_assert_uint_le(r->ExtendedDataCount, CAPTURED_ITEMS);
    for (USHORT i = 0; i < r->ExtendedDataCount; i++) {
        const EVENT_HEADER_EXTENDED_DATA_ITEM *x = &r->ExtendedData[i];
        e->items[e->n_items++] = (struct captured_item){
            .type = x->ExtType,
            .size = x->DataSize,
            .data = copy((const void *) (uintptr_t) x->DataPtr, x->DataSize),
        };
    }
}

void capture(struct captured *ret, const char *path, const GUID *provider)
{
    EVENT_TRACE_LOGFILEA l;
    TRACEHANDLE h;

    *ret = (struct captured){0};
    into = ret;
    wanted = *provider;
    memset(&l, 0, sizeof(l));
    l.LogFileName = (LPSTR) (uintptr_t) path;
    l.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    l.EventRecordCallback = take;
    h = OpenTraceA(&l);
    ck_assert_msg(h != INVALID_PROCESSTRACE_HANDLE, "OpenTrace of %s: %u", path, GetLastError());
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    into = NULL;
}

void captured_done(struct captured *c)
{
    for (size_t i = 0; i < c->n; i++) {
        for (unsigned k = 0; k < c->events[i].n_items; k++)
            free(c->events[i].items[k].data);
        free(c->events[i].data);
    }
    free(c->events);
    *c = (struct captured){0};
}

const struct captured_item *captured_item(const struct captured_event *e, USHORT type)
{
    for (unsigned k = 0; k < e->n_items; k++)
        if (e->items[k].type == type)
            return &e->items[k];
    return NULL;
}

void captured_ids(const struct captured *c, const char *what, const USHORT *ids, size_t n)
{
    char have[512] = "", want[512] = "";
    bool same = c->n == n;

    for (size_t i = 0; i < c->n; i++) {
        size_t at = strlen(have);
        snprintf(have + at, sizeof(have) - at, " %u", c->events[i].h.EventDescriptor.Id);
        same = same && c->events[i].h.EventDescriptor.Id == ids[i];
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = strlen(want);
        snprintf(want + at, sizeof(want) - at, " %u", ids[i]);
    }
    ck_assert_msg(same, "%s: events%s instead of%s", what, have, want);
}
