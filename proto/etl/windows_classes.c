/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that windows.def makes, and the look-up of readers in them and in those of classes.def.
 * Constant data and pure functions, any thread.
 */
#include "../base/cleanup.h"
#include "class_guids.h"
#include "iterate.h"

/* Pass 1: the fields of each layout. */
#define CLASS(class, ...)
#define LAYOUT(class, n) static const struct etl_field fields_##class##_##n[] = {
#define F(type, name) {#name, ETL_T_##type, 0},
#define A(type, name, count) {#name, ETL_T_##type, count},
#define LAYOUT_END                                                                                 \
    {                                                                                              \
        NULL                                                                                       \
    }                                                                                              \
    }                                                                                              \
    ;
#define ROW(class, n, version, opcode, name)
#include "windows.def"

/* Pass 2: GUIDs. */
#define CLASS(class, ...) GUID_PARTS(class, __VA_ARGS__)
#define LAYOUT(class, n)
#define F(type, name)
#define A(type, name, count)
#define LAYOUT_END
#define ROW(class, n, version, opcode, name)
#include "windows.def"

/* Pass 3: the rows. */
static const struct etl_class_row rows[] = {
#define CLASS(class, ...)
#define LAYOUT(class, n)
#define F(type, name)
#define A(type, name, count)
#define LAYOUT_END
#define ROW(class, n, version_, opcode_, name)                                                     \
    {                                                                                              \
        .class_name = #class,                                                                      \
        .event_name = name,                                                                        \
        .guid = GUID_OF(class),                                                                    \
        .version = version_,                                                                       \
        .opcode = opcode_,                                                                         \
        .fields = fields_##class##_##n,                                                            \
    },
#include "windows.def"
};

size_t etl_windows_rows(const struct etl_class_row **ret)
{
    *ret = rows;
    return ARRAY_SIZE(rows);
}

const struct etl_class_row *etl_find_any_row(const struct etw_guid *class_guid, uint8_t opcode,
                                             uint8_t version)
{
    const struct etl_class_row *best = etl_find_row(class_guid, opcode, version);

    if (best && best->version == version)
        return best;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct etl_class_row *row = &rows[i];
        if (row->opcode != opcode || row->version > version ||
            (best && row->version <= best->version) || !etw_guid_equal(&row->guid, class_guid))
            continue;
        best = row;
    }
    return best;
}

/* The data are the layout's, to the last byte. */
static bool fits(const struct etl_class_row *row, const struct etl_event *e, uint8_t pointer_size)
{
    struct etl_event as = *e;
    struct etl_fields f;
    struct etl_value v;
    int r;

    as.pointer_size = pointer_size;
    etl_fields_init(&f, row, &as);
    while ((r = etl_fields_next(&f, &v)) > 0)
        ;
    return r == 0 && f.pos == f.size && !f.next->name;
}

uint8_t etl_row_pointer_size(const struct etl_class_row *row, const struct etl_event *e)
{
    uint8_t other = e->pointer_size == 4 ? 8 : 4;

    return !fits(row, e, e->pointer_size) && fits(row, e, other) ? other : e->pointer_size;
}
