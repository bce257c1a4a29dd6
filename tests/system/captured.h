/* SPDX-License-Identifier: Apache-2.0
 *
 * The events of a file as ProcessTrace delivers them, kept for a look: for tests with few events.
 * Helpers fail the running test. Single-threaded.
 */
#pragma once

#include <evntcons.h>
#include <evntrace.h>

#include <stdbool.h>
#include <stdint.h>

#define CAPTURED_ITEMS 12

struct captured_item {
    USHORT type;
    USHORT size;
    uint8_t *data;
};

struct captured_event {
    EVENT_HEADER h;
    ULONG cpu;
    struct captured_item items[CAPTURED_ITEMS];
    unsigned n_items;
    uint8_t *data;
    uint32_t size;
};

struct captured {
    struct captured_event *events; /* of the provider asked for, in the order of delivery */
    size_t n;
};

/* Those of this provider. */
void capture(struct captured *ret, const char *path, const GUID *provider);
void captured_done(struct captured *c);
/* NULL: it has none. */
const struct captured_item *captured_item(const struct captured_event *e, USHORT type);
/* The ids are exactly these, in this order. */
void captured_ids(const struct captured *c, const char *what, const USHORT *ids, size_t n);
