/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions that a file brings: manifests cut into events (id 0xFFFE) go to libtdh when they are
 * whole; TRACE_EVENT_INFO and EVENT_MAP_INFO that a merge put in are checked and kept here. One
 * thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "etl/file.h"
#include "schemas_internal.h"

/* Providers write their manifests when they are enabled and disabled; merges at the end. */
#define EDGE_BYTES (64u << 20)
#define CHUNK_HEADER 8u
#define CHUNK_MAGIC 0x5Bu
#define MANIFEST_EVENT 0xFFFEu
/* Manifests being put together, and descriptions: more are of a file made to hurt. */
#define PARTS_MAX 256u
#define TOLD_MAX 65536u

static const struct etw_guid metadata_guid =
    ETW_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71);
enum { OPCODE_EVENT_INFO = 32, OPCODE_MAP_INFO = 33 };

/* A manifest under way. */
struct part {
    struct etw_guid guid;
    uint32_t pid;
    uint32_t chunks, next;
    uint8_t *data;
    size_t size;
};

static struct part parts[PARTS_MAX];
static unsigned n_parts;

struct told {
    bool is_map;
    struct key key; /* id and version of an event */
    uint8_t *data;
    size_t size;
    size_t order; /* of those that describe the same, the first one counts */
};

/* Sorted when the first one is looked for: a file made to hurt has all that may be, and asks for
 * each of them. */
static struct told *told;
static size_t n_told, cap_told;
static bool told_sorted;

void schemas_told_clear(void)
{
    for (size_t i = 0; i < n_told; i++)
        free(told[i].data);
    free(told);
    told = NULL;
    n_told = cap_told = 0;
    for (unsigned i = 0; i < n_parts; i++)
        free(parts[i].data);
    n_parts = 0;
}

/* ---- manifests ---- */

static struct part *part_of(const struct etl_event *e)
{
    for (unsigned i = 0; i < n_parts; i++)
        if (parts[i].pid == e->process_id && etw_guid_equal(&parts[i].guid, &e->guid))
            return &parts[i];
    if (n_parts == PARTS_MAX)
        return NULL;
    parts[n_parts] = (struct part){.guid = e->guid, .pid = e->process_id};
    return &parts[n_parts++];
}

static void take_chunk(const struct etl_event *e)
{
    uint16_t total, number;

    if (e->data_size <= CHUNK_HEADER || e->data[0] != 1 || e->data[3] != CHUNK_MAGIC)
        return;
    memcpy(&total, e->data + 4, sizeof(total));
    memcpy(&number, e->data + 6, sizeof(number));
    struct part *p = part_of(e);
    if (!p || total == 0)
        return;
    if (number == 0) {
        p->size = 0;
        p->next = 0;
        p->chunks = total;
    }
    size_t more = e->data_size - CHUNK_HEADER;
    if (number != p->next || total != p->chunks || p->size + more > ETW_MANIFEST_MAX)
        return;
    uint8_t *data = realloc(p->data, p->size + more);
    if (!data)
        return;
    memcpy(data + p->size, e->data + CHUNK_HEADER, more);
    p->data = data;
    p->size += more;
    if (++p->next == p->chunks)
        (void) TdhLoadManifestFromMemory(p->data, (ULONG) p->size);
}

/* ---- descriptions of merges ---- */

/* A text with its NUL inside, or none. */
static bool text_valid(const uint8_t *data, size_t size, ULONG offset)
{
    if (offset == 0)
        return true;
    for (size_t i = offset; i + 1 < size; i += 2)
        if (data[i] == 0 && data[i + 1] == 0)
            return true;
    return false;
}

static bool property_valid(const TRACE_EVENT_INFO *info, size_t size, const EVENT_PROPERTY_INFO *p,
                           ULONG index)
{
    const uint8_t *data = (const uint8_t *) info;
    ULONG n = info->PropertyCount;

    if (!p->NameOffset || !text_valid(data, size, p->NameOffset))
        return false;
    if ((p->Flags & PropertyParamCount) && p->countPropertyIndex >= n)
        return false;
    if ((p->Flags & PropertyParamLength) && p->lengthPropertyIndex >= n)
        return false;
    if (p->Flags & PropertyStruct)
        /* Members come behind: no struct holds itself. */
        return p->structType.StructStartIndex > index &&
               (ULONG) p->structType.StructStartIndex + p->structType.NumOfStructMembers <= n;
    return text_valid(data, size, p->nonStructType.MapNameOffset);
}

static bool info_valid(const TRACE_EVENT_INFO *info, size_t size)
{
    const uint8_t *data = (const uint8_t *) info;
    size_t fixed = offsetof(TRACE_EVENT_INFO, EventPropertyInfoArray);

    if (size < fixed || info->PropertyCount > (size - fixed) / sizeof(EVENT_PROPERTY_INFO) ||
        info->TopLevelPropertyCount > info->PropertyCount)
        return false;
    if (!text_valid(data, size, info->ProviderNameOffset) ||
        !text_valid(data, size, info->TaskNameOffset) ||
        !text_valid(data, size, info->OpcodeNameOffset))
        return false;
    for (ULONG i = 0; i < info->PropertyCount; i++)
        if (!property_valid(info, size, &info->EventPropertyInfoArray[i], i))
            return false;
    return true;
}

static bool map_valid(const EVENT_MAP_INFO *map, size_t size)
{
    const uint8_t *data = (const uint8_t *) map;
    size_t fixed = offsetof(EVENT_MAP_INFO, MapEntryArray);

    if (size < fixed || map->EntryCount > (size - fixed) / sizeof(EVENT_MAP_ENTRY) ||
        !map->NameOffset || !text_valid(data, size, map->NameOffset))
        return false;
    for (ULONG i = 0; i < map->EntryCount; i++)
        if (!map->MapEntryArray[i].OutputOffset ||
            !text_valid(data, size, map->MapEntryArray[i].OutputOffset))
            return false;
    return true;
}

static uint8_t *copy_of(const void *p, size_t size)
{
    /* At least one whole structure, however few properties it has. */
    uint8_t *copy = calloc(1, size + sizeof(TRACE_EVENT_INFO));
    return copy ? memcpy(copy, p, size) : NULL;
}

static void keep(bool is_map, const struct key *k, uint8_t *data, size_t size)
{
    if (n_told == cap_told && n_told < TOLD_MAX) {
        size_t cap = cap_told ? 2 * cap_told : 64;
        struct told *more = reallocarray(told, cap, sizeof(*more));
        if (more) {
            told = more;
            cap_told = cap;
        }
    }
    if (n_told == cap_told) {
        free(data);
        return;
    }
    told[n_told] = (struct told){is_map, *k, data, size, n_told};
    n_told++;
    told_sorted = false;
}

static void take_info(const struct etl_event *e)
{
    uint8_t *data = copy_of(e->data, e->data_size);
    const TRACE_EVENT_INFO *info = (const TRACE_EVENT_INFO *) data;
    struct key k = {0};

    if (!data)
        return;
    if (!info_valid(info, e->data_size) || info->DecodingSource != DecodingSourceXMLFile) {
        free(data);
        return;
    }
    memcpy(&k.guid, &info->ProviderGuid, sizeof(k.guid));
    k.id = info->EventDescriptor.Id;
    k.version = info->EventDescriptor.Version;
    keep(false, &k, data, e->data_size);
}

static void take_map(const struct etl_event *e)
{
    struct key k = {0};

    if (e->data_size <= sizeof(k.guid))
        return;
    size_t size = e->data_size - sizeof(k.guid);
    uint8_t *data = copy_of(e->data + sizeof(k.guid), size);
    if (!data)
        return;
    if (!map_valid((const EVENT_MAP_INFO *) data, size)) {
        free(data);
        return;
    }
    memcpy(&k.guid, e->data, sizeof(k.guid));
    keep(true, &k, data, size);
}

static int compare_texts(const uint8_t *a, const uint8_t *b)
{
    /* Both have their NUL. */
    while (a[0] == b[0] && a[1] == b[1] && (a[0] || a[1])) {
        a += 2;
        b += 2;
    }
    return a[0] != b[0] ? a[0] - b[0] : a[1] - b[1];
}

/* What it describes; `name`: of a map that is looked for. */
static int compare_subjects(const struct told *a, const uint8_t *name, const struct told *b)
{
    int r = a->is_map - b->is_map;

    if (r == 0)
        r = memcmp(&a->key, &b->key, sizeof(a->key));
    if (r == 0 && a->is_map)
        r = compare_texts(name, b->data + ((const EVENT_MAP_INFO *) b->data)->NameOffset);
    return r;
}

static int compare_told(const void *x, const void *y)
{
    const struct told *a = x, *b = y;
    const uint8_t *name =
        a->is_map ? a->data + ((const EVENT_MAP_INFO *) a->data)->NameOffset : NULL;
    int r = compare_subjects(a, name, b);

    return r ? r : (a->order > b->order) - (a->order < b->order);
}

static uint8_t *find(const struct told *wanted, const uint8_t *name)
{
    size_t low = 0, high = n_told;

    if (!told_sorted && n_told > 0)
        qsort(told, n_told, sizeof(*told), compare_told);
    told_sorted = true;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_subjects(wanted, name, &told[middle]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_told && compare_subjects(wanted, name, &told[low]) == 0
               ? copy_of(told[low].data, told[low].size)
               : NULL;
}

TRACE_EVENT_INFO *schemas_told_info(const struct key *k)
{
    const struct told wanted = {.key = *k};

    return (TRACE_EVENT_INFO *) find(&wanted, NULL);
}

EVENT_MAP_INFO *schemas_told_map(const GUID *provider, LPCWSTR name)
{
    struct told wanted = {.is_map = true};

    memcpy(&wanted.key.guid, provider, sizeof(wanted.key.guid));
    return (EVENT_MAP_INFO *) find(&wanted, (const uint8_t *) name);
}

/* ---- the file ---- */

static void take(const struct etl_event *e)
{
    if ((e->header_type == ETL_EVENT32 || e->header_type == ETL_EVENT64) &&
        e->descriptor.id == MANIFEST_EVENT)
        take_chunk(e);
    else if ((e->header_type == ETL_FULL32 || e->header_type == ETL_FULL64) && e->has_guid &&
             etw_guid_equal(&e->guid, &metadata_guid)) {
        if (e->opcode == OPCODE_EVENT_INFO)
            take_info(e);
        else if (e->opcode == OPCODE_MAP_INFO)
            take_map(e);
    }
}

void schemas_learn(struct etl_file *f)
{
    const struct etl_buffer_ref *refs;
    uint8_t *buffer = NULL;
    bool truncated;
    size_t n;

    uint64_t size = etl_file_size(f);
    if (etl_file_index(f, &refs, &n, &truncated) == 0)
        buffer = malloc(etl_file_buffer_bytes(f));
    for (size_t i = 0; buffer && i < n; i++) {
        struct etl_buffer_info info;
        struct etl_event e;
        struct etl_iter it;
        size_t len;

        if (refs[i].offset > EDGE_BYTES && size - refs[i].offset > EDGE_BYTES)
            continue;
        if (etl_file_read_buffer(f, &refs[i], buffer, etl_file_buffer_bytes(f), &info, &len) < 0)
            continue;
        etl_iter_init(&it, buffer, len, info.end);
        while (etl_iter_next(&it, &e) > 0)
            take(&e);
    }
    free(buffer);
}
