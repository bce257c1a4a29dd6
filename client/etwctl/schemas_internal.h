/* SPDX-License-Identifier: Apache-2.0
 *
 * What schemas.c, schemas_learn.c and schemas_emit.c share. One thread.
 */
#pragma once

#include "base/guid.h"
#include "schemas.h"

struct key {
    struct etw_guid guid;
    uint16_t id;
    uint16_t version;
};

struct schema {
    struct key key;
    TRACE_EVENT_INFO *info; /* NULL: nobody knows */
    char *provider, *event;
    char **names; /* of the properties */
    EVENT_MAP_INFO **maps;
};

/* Copies (memory of malloc) of what the files told; NULL: nothing. */
TRACE_EVENT_INFO *schemas_told_info(const struct key *k);
EVENT_MAP_INFO *schemas_told_map(const GUID *provider, LPCWSTR name);
void schemas_told_clear(void);
