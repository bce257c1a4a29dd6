/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: self-describing events. The input's first byte is the length of the metadata in
 * units of two bytes, the metadata follow, the rest is the event's data. What the reader hands out
 * lies inside what it was given; what it opened can be closed.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "etl/tracelogging.h"

static void check(bool ok)
{
    if (!ok)
        abort();
}

static volatile uint8_t sink;

static void touch(const void *from, size_t len, const uint8_t *begin, const uint8_t *end)
{
    const uint8_t *p = from;

    if (len == 0)
        return;
    check(p >= begin && p < end && len <= (size_t) (end - p));
    sink = (uint8_t) (p[0] + p[len - 1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct etl_tl_value v;
    struct etl_tl tl;
    const char *name;
    uint32_t name_len;
    int depth = 0, r;

    if (size == 0)
        return 0;
    size_t meta_len = (size_t) data[0] * 2;
    if (meta_len > size - 1)
        meta_len = size - 1;
    const uint8_t *meta = data + 1, *payload = meta + meta_len, *end = data + size;

    if (etl_tl_provider_name(meta, meta_len, &name, &name_len) == 0)
        touch(name, name_len, meta, payload);
    if (etl_tl_init(&tl, meta, meta_len, payload, (size_t) (end - payload), 8) < 0)
        return 0;
    touch(tl.event_name, tl.event_name_len, meta, payload);
    while ((r = etl_tl_next(&tl, &v)) > 0) {
        touch(v.name, v.name_len, meta, payload);
        touch(v.data, v.size, payload, end);
        depth += r == ETL_TL_STRUCT_BEGIN || r == ETL_TL_ARRAY_BEGIN;
        depth -= r == ETL_TL_STRUCT_END || r == ETL_TL_ARRAY_END;
        check(depth >= 0);
    }
    while (etl_tl_unwind(&tl) > 0)
        depth--;
    check(depth == 0);
    return 0;
}
