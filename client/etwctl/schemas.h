/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions of events that do not describe themselves: of manifests (libtdh), and of those that
 * travel in the file, as manifests in events or as records that a merge has put in. Prints their
 * fields. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tdh.h>

struct emitter;
struct etl_file;
struct schema;

/* Takes the manifests and descriptions that a file brings: from its beginning and its end, where
 * providers and merges write them. Errors are of no interest: the events come in hex then. */
void schemas_learn(struct etl_file *f);
/* The description of an event's id and version; NULL: nobody knows. Cached. */
const struct schema *schemas_of(const EVENT_RECORD *r);
void schemas_clear(void);

/* UTF-8; NULL: it has none. */
const char *schema_provider(const struct schema *s);
const char *schema_event(const struct schema *s);

/* All fields of an event's data. 0, or -EBADMSG: the data do not hold what is said of them (what
 * was there is written). */
int emit_schema_fields(struct emitter *em, const struct schema *s, const EVENT_RECORD *r);
