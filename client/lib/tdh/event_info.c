/* SPDX-License-Identifier: Apache-2.0
 *
 * TdhGetEventInformation and TdhGetEventMapInformation: a schema as TRACE_EVENT_INFO. Any thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "internal.h"
#include "manifest.h"

_Static_assert(offsetof(TRACE_EVENT_INFO, EventPropertyInfoArray) == 112, "Windows' layout");
_Static_assert(sizeof(EVENT_PROPERTY_INFO) == 24, "Windows' layout");

static const char *level_name(uint8_t level)
{
    static const char *const names[] = {
        NULL, "Critical", "Error", "Warning", "Information", "Verbose",
    };
    return level < ARRAY_SIZE(names) ? names[level] : NULL;
}

static const char *opcode_name(uint8_t opcode)
{
    static const char *const names[] = {
        "Info",      "Start", "Stop",   "DCStart", "DCStop",
        "Extension", "Reply", "Resume", "Suspend", "Send",
    };
    if (opcode == 240)
        return "Receive";
    return opcode < ARRAY_SIZE(names) ? names[opcode] : NULL;
}

/* Texts are put behind the properties; without memory only their place is counted. */
struct texts {
    uint8_t *base;
    uint64_t size; /* bytes of everything so far */
};

static ULONG put_text(struct texts *t, struct text text, const char *suffix)
{
    size_t units = etw_utf8_to_utf16_size(text.utf8, text.length);
    size_t more = suffix ? strlen(suffix) : 0;
    uint64_t at = t->size;

    t->size += (units + more + 1) * sizeof(uint16_t);
    if (t->base) {
        units = etw_utf8_to_utf16(text.utf8, text.length, t->base + at, units + 1);
        (void) etw_utf8_to_utf16(more ? suffix : "", more, t->base + at + units * sizeof(uint16_t),
                                 more + 1);
    }
    return (ULONG) at;
}

static ULONG put_optional(struct texts *t, struct text text)
{
    return text.length ? put_text(t, text, NULL) : 0;
}

/* One after the other, an empty one at the end. */
static ULONG put_keywords(struct texts *t, const struct schema *s)
{
    ULONG at = (ULONG) t->size;

    if (s->n_keywords == 0)
        return 0;
    for (uint32_t i = 0; i < s->n_keywords; i++)
        (void) put_text(t, s->keywords[i], NULL);
    (void) put_text(t, (struct text){"", 0}, NULL);
    return at;
}

static void put_properties(struct texts *t, const struct schema *s, TRACE_EVENT_INFO *info)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];
        ULONG name = put_text(t, f->name, f->suffix);
        ULONG map = put_optional(t, f->map);
        if (!info)
            continue;
        EVENT_PROPERTY_INFO *p = &info->EventPropertyInfoArray[i];
        p->Flags = (PROPERTY_FLAGS) f->flags;
        p->NameOffset = name;
        if (f->flags & PropertyStruct) {
            p->structType.StructStartIndex = f->first;
            p->structType.NumOfStructMembers = f->members;
        } else {
            p->nonStructType.InType = f->in;
            p->nonStructType.OutType = f->out;
            p->nonStructType.MapNameOffset = map;
        }
        p->count = f->count;
        p->length = f->length;
        p->Tags = f->tags;
    }
}

/* Returns the bytes it takes; writes when info is not NULL, which is zeroed. */
static uint64_t put_info(const struct schema *s, const EVENT_RECORD *r, TRACE_EVENT_INFO *info)
{
    const EVENT_DESCRIPTOR *d = &r->EventHeader.EventDescriptor;
    struct text opcode = s->opcode.length ? s->opcode : text_of(opcode_name(d->Opcode));
    struct text level_text = s->level.length ? s->level : text_of(level_name(d->Level));
    struct texts t = {
        .base = (uint8_t *) info,
        /* One property is there in any case. */
        .size =
            sizeof(TRACE_EVENT_INFO) + (s->n > 1 ? (s->n - 1) * sizeof(EVENT_PROPERTY_INFO) : 0),
    };
    ULONG provider = put_optional(&t, s->provider_name);
    ULONG level = put_optional(&t, level_text);
    ULONG channel = put_optional(&t, s->channel);
    ULONG keywords = put_keywords(&t, s);
    ULONG task = put_optional(&t, s->task);
    ULONG op = put_optional(&t, opcode);
    ULONG name = put_optional(&t, s->event_name);
    ULONG message = put_optional(&t, s->message);
    ULONG provider_message = put_optional(&t, s->provider_message);

    put_properties(&t, s, info);
    if (!info)
        return t.size;
    memcpy(&info->ProviderGuid, &s->provider, sizeof(info->ProviderGuid));
    memcpy(&info->EventGuid, &s->event, sizeof(info->EventGuid));
    info->EventDescriptor = *d;
    info->DecodingSource = s->source;
    info->ProviderNameOffset = provider;
    info->LevelNameOffset = level;
    info->ChannelNameOffset = channel;
    info->KeywordsNameOffset = keywords;
    info->TaskNameOffset = task;
    info->OpcodeNameOffset = op;
    info->EventNameOffset = name;
    info->EventMessageOffset = message;
    info->ProviderMessageOffset = provider_message;
    info->PropertyCount = s->n;
    info->TopLevelPropertyCount = s->n_top;
    info->Tags = s->tags;
    return t.size;
}

/* What all enumerators say of their two arguments. */
static bool buffer_valid(const void *buffer, const ULONG *size)
{
    return size && (buffer || *size == 0);
}

ULONG WINAPI TdhGetEventInformation(PEVENT_RECORD pEvent, ULONG TdhContextCount,
                                    PTDH_CONTEXT pTdhContext, PTRACE_EVENT_INFO pBuffer,
                                    ULONG *pBufferSize)
{
    _cleanup_schema_ struct schema s = {0};
    uint32_t code;

    if (!pEvent || !buffer_valid(pBuffer, pBufferSize) || (TdhContextCount > 0 && !pTdhContext))
        return finish(ERROR_INVALID_PARAMETER);
    code = schema_of(pEvent, &s);
    if (code != ERROR_SUCCESS)
        return finish(code);
    uint64_t size = put_info(&s, pEvent, NULL);
    if (size > UINT32_MAX)
        return finish(ERROR_NOT_FOUND);
    if (size > *pBufferSize) {
        *pBufferSize = (ULONG) size;
        return finish(ERROR_INSUFFICIENT_BUFFER);
    }
    *pBufferSize = (ULONG) size;
    memset(pBuffer, 0, size);
    (void) put_info(&s, pEvent, pBuffer);
    return ERROR_SUCCESS;
}

/* Returns the bytes it takes; writes when info is not NULL, which is zeroed. */
static uint64_t put_map(const struct map *map, EVENT_MAP_INFO *info)
{
    struct texts t = {
        .base = (uint8_t *) info,
        /* One entry is there in any case. */
        .size =
            sizeof(*info) + (map->n > 1 ? (uint64_t) (map->n - 1) * sizeof(EVENT_MAP_ENTRY) : 0),
    };
    ULONG name = put_text(&t, text_of(map->name), NULL);

    if (info) {
        info->NameOffset = name;
        info->Flag =
            map->bitmap ? EVENTMAP_INFO_FLAG_MANIFEST_BITMAP : EVENTMAP_INFO_FLAG_MANIFEST_VALUEMAP;
        info->EntryCount = map->n;
        info->MapEntryValueType = EVENTMAP_ENTRY_VALUETYPE_ULONG;
    }
    for (uint32_t i = 0; i < map->n; i++) {
        ULONG text = put_text(&t, text_of(map->entries[i].text), " ");
        if (!info)
            continue;
        info->MapEntryArray[i].OutputOffset = text;
        info->MapEntryArray[i].Value = map->entries[i].value;
    }
    return t.size;
}

static uint32_t map_answer(const struct map *map, EVENT_MAP_INFO *info, ULONG *size)
{
    uint64_t need = put_map(map, NULL);

    if (need > UINT32_MAX)
        return ERROR_NOT_FOUND;
    bool fits = need <= *size;
    *size = (ULONG) need;
    if (!fits)
        return ERROR_INSUFFICIENT_BUFFER;
    memset(info, 0, need);
    (void) put_map(map, info);
    return ERROR_SUCCESS;
}

ULONG WINAPI TdhGetEventMapInformation(PEVENT_RECORD pEvent, LPWSTR pMapName,
                                       PEVENT_MAP_INFO pBuffer, ULONG *pBufferSize)
{
    _cleanup_free_ char *name = NULL;
    struct etw_guid guid;

    if (!pEvent || !pMapName || !buffer_valid(pBuffer, pBufferSize))
        return finish(ERROR_INVALID_PARAMETER);
    name = etw_utf16_dup_utf8(pMapName, SIZE_MAX);
    if (!name)
        return finish(ERROR_NOT_ENOUGH_MEMORY);
    memcpy(&guid, &pEvent->EventHeader.ProviderId, sizeof(guid));
    store_lock();
    const struct provider *p = store_find(&guid);
    const struct map *map = p ? provider_map(p, name) : NULL;
    uint32_t code = map ? map_answer(map, pBuffer, pBufferSize) : ERROR_NOT_FOUND;
    store_unlock();
    return finish(code);
}
