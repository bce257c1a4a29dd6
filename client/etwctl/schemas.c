/* SPDX-License-Identifier: Apache-2.0
 *
 * See schemas.h: the cache, and how an event is called. The file's own descriptions are hostile:
 * TRACE_EVENT_INFO from a file is checked whole before anything is taken from it. One thread.
 */
#include "schemas.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "schemas_internal.h"

/* Different events of one trace: big ones have some thousands. */
#define SLOTS 16384u

static struct schema *table[SLOTS];
static unsigned n_schemas;

static uint32_t hash(const struct key *k)
{
    const uint8_t *p = (const uint8_t *) k;
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < sizeof(*k); i++)
        h = (h ^ p[i]) * 16777619u;
    return h;
}

static struct schema **slot_of(const struct key *k)
{
    uint32_t i = hash(k) & (SLOTS - 1);

    while (table[i] && memcmp(&table[i]->key, k, sizeof(*k)) != 0)
        i = (i + 1) & (SLOTS - 1);
    return &table[i];
}

static void schema_free(struct schema *s)
{
    if (!s)
        return;
    for (ULONG i = 0; s->names && i < s->info->PropertyCount; i++) {
        free(s->names[i]);
        free(s->maps[i]);
    }
    free(s->names);
    free(s->maps);
    free(s->provider);
    free(s->event);
    free(s->info);
    free(s);
}

void schemas_clear(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        schema_free(table[i]);
        table[i] = NULL;
    }
    n_schemas = 0;
    schemas_told_clear();
}

static char *text_at(const TRACE_EVENT_INFO *info, ULONG offset)
{
    char *s = offset ? etw_utf16_dup_utf8((const uint8_t *) info + offset, SIZE_MAX) : NULL;

    /* Texts of manifests may end in spaces or line ends. */
    for (size_t n = s ? strlen(s) : 0; n > 0 && strchr(" \r\n", s[n - 1]); n--)
        s[n - 1] = '\0';
    return s;
}

/* Manifests give events no names of their own: task and opcode. */
static char *event_name(const TRACE_EVENT_INFO *info)
{
    _cleanup_free_ char *task = text_at(info, info->TaskNameOffset);
    _cleanup_free_ char *opcode = text_at(info, info->OpcodeNameOffset);
    char *name = NULL;

    if (!task || !*task)
        return NULL;
    if (!opcode || !*opcode || info->EventDescriptor.Opcode == 0)
        return strdup(task);
    return asprintf(&name, "%s/%s", task, opcode) < 0 ? NULL : name;
}

static EVENT_MAP_INFO *map_of(const EVENT_RECORD *r, const TRACE_EVENT_INFO *info,
                              const EVENT_PROPERTY_INFO *p)
{
    if ((p->Flags & PropertyStruct) || !p->nonStructType.MapNameOffset)
        return NULL;
    LPWSTR name = (LPWSTR) ((uintptr_t) info + p->nonStructType.MapNameOffset);
    EVENT_MAP_INFO *map = schemas_told_map(&info->ProviderGuid, name);
    if (map)
        return map;
    ULONG size = 0;
    PEVENT_RECORD record = (PEVENT_RECORD) (uintptr_t) r;
    if (TdhGetEventMapInformation(record, name, NULL, &size) != ERROR_INSUFFICIENT_BUFFER)
        return NULL;
    map = malloc(size);
    if (map && TdhGetEventMapInformation(record, name, map, &size) != ERROR_SUCCESS) {
        free(map);
        map = NULL;
    }
    return map;
}

static TRACE_EVENT_INFO *info_of(const EVENT_RECORD *r, const struct key *k)
{
    TRACE_EVENT_INFO *info = schemas_told_info(k);
    PEVENT_RECORD record = (PEVENT_RECORD) (uintptr_t) r;
    ULONG size = 0;

    if (info)
        return info;
    if (TdhGetEventInformation(record, 0, NULL, NULL, &size) != ERROR_INSUFFICIENT_BUFFER)
        return NULL;
    info = malloc(size);
    if (info && TdhGetEventInformation(record, 0, NULL, info, &size) != ERROR_SUCCESS) {
        free(info);
        info = NULL;
    }
    return info;
}

/* With info NULL it says that there is none, so that it is not looked for again. */
static struct schema *schema_new(const EVENT_RECORD *r, const struct key *k)
{
    struct schema *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->key = *k;
    s->info = info_of(r, k);
    if (!s->info)
        return s;
    s->provider = text_at(s->info, s->info->ProviderNameOffset);
    s->event = event_name(s->info);
    size_t n = s->info->PropertyCount ? s->info->PropertyCount : 1;
    s->names = calloc(n, sizeof(*s->names));
    s->maps = calloc(n, sizeof(*s->maps));
    for (ULONG i = 0; s->names && s->maps && i < s->info->PropertyCount; i++) {
        const EVENT_PROPERTY_INFO *p = &s->info->EventPropertyInfoArray[i];
        s->names[i] = text_at(s->info, p->NameOffset);
        s->maps[i] = map_of(r, s->info, p);
    }
    if (!s->names || !s->maps) {
        free(s->names);
        free(s->maps);
        s->names = NULL;
        s->maps = NULL;
        free(s->info);
        s->info = NULL;
    }
    return s;
}

const struct schema *schemas_of(const EVENT_RECORD *r)
{
    struct key k = {.id = r->EventHeader.EventDescriptor.Id,
                    .version = r->EventHeader.EventDescriptor.Version};

    memcpy(&k.guid, &r->EventHeader.ProviderId, sizeof(k.guid));
    struct schema **slot = slot_of(&k);
    if (!*slot) {
        if (n_schemas > SLOTS / 2)
            return NULL;
        *slot = schema_new(r, &k);
        if (!*slot)
            return NULL;
        n_schemas++;
    }
    return (*slot)->info ? *slot : NULL;
}

const char *schema_provider(const struct schema *s)
{
    return s->provider;
}

const char *schema_event(const struct schema *s)
{
    return s->event;
}
