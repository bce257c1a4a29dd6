/* SPDX-License-Identifier: Apache-2.0
 *
 * Instrumentation manifests: XML into providers with their events, templates and maps
 * (manifest_read.c), and those that this process knows (manifest_store.c). Not exported. Reading:
 * any thread; what was read is not changed any more.
 */
#pragma once

#include "schema.h"

struct named {
    const char *name; /* as it stands in the manifest: "win:Informational" */
    const char *text; /* for people; the name where it has no message */
    uint64_t value;
};

/* An opcode of a task alone, or (task OPCODE_ANY_TASK) of all. */
#define OPCODE_ANY_TASK UINT32_MAX
struct opcode {
    struct named named;
    uint32_t task;
};

struct map_entry {
    uint32_t value;
    const char *text;
};

struct map {
    const char *name;
    bool bitmap;
    struct map_entry *entries;
    uint32_t n;
};

/* Laid out as EVENT_PROPERTY_INFO wants it. */
struct template
{
    const char *id;
    struct field *fields;
    uint32_t n, n_top;
};

struct event {
    uint16_t id, task;
    uint8_t version, channel, level, opcode;
    uint64_t keywords;
    const char *symbol;
    const char *message;
    const struct template *template; /* NULL: no data */
};

struct provider {
    struct etw_guid guid;
    const char *name;
    const char *message;
    struct named *levels, *channels, *keywords, *tasks;
    uint32_t n_levels, n_channels, n_keywords, n_tasks;
    struct opcode *opcodes;
    uint32_t n_opcodes;
    struct map *maps;
    uint32_t n_maps;
    struct template *templates;
    uint32_t n_templates;
    struct event *events; /* by id, version */
    uint32_t n_events;
};

/* All its memory is its own, in few large pieces. */
struct piece;
struct manifest {
    struct provider *providers;
    uint32_t n_providers;
    struct piece *pieces;
};

/* 0; -EBADMSG: it is no manifest (*ret_why, static text, says what is wrong); -ENOMEM. */
int manifest_read(const void *xml, size_t size, struct manifest **ret, const char **ret_why);
struct manifest *manifest_free(struct manifest *m);

const struct event *provider_event(const struct provider *p, uint16_t id, uint8_t version);
const struct map *provider_map(const struct provider *p, const char *name);

/* ---- the store ---- */

/* Holds the store for reading; pointers into it are good until store_unlock(). The first call reads
 * the manifests of the system and of the user. */
void store_lock(void);
void store_unlock(void);
/* Of the newest manifest that has it; NULL. Locked. */
const struct provider *store_find(const struct etw_guid *guid);
/* All, for enumerators: index 0 ...; NULL at the end. Locked. */
const struct provider *store_at(uint32_t index);

/* Adds a manifest, taken over; one of the same path goes. 0, -ENOMEM. path may be NULL: it came
 * from memory. */
int store_add(const char *path, struct manifest *m);
/* -ENOENT: none of this path. */
int store_remove(const char *path);
