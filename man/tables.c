/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds manual pages: copies a page and puts tables, made from the same tables that the programs
 * use, where a line says `.\" @NAME@`. Runs while building, never installed.
 *
 *   @layouts@      the event layouts of classes.def, with offsets
 *   @tracelogging@ the self-describing events
 *   @classes@      group and class GUID
 *   @kernel@       kernel events with the flag that turns them on
 *   @flags@        the EnableFlags and what becomes of them
 *   @conf@         the keys of etwd.conf
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/guid.h"
#include "base/limits.h"
#include "etl/classes.h"

struct type {
    const char *name;
    unsigned size; /* 0: variable */
};

static const struct type types[] = {
    [ETL_T_u8] = {"u8", 1},       [ETL_T_i8] = {"i8", 1},   [ETL_T_u16] = {"u16", 2},
    [ETL_T_i16] = {"i16", 2},     [ETL_T_u32] = {"u32", 4}, [ETL_T_i32] = {"i32", 4},
    [ETL_T_u64] = {"u64", 8},     [ETL_T_i64] = {"i64", 8}, [ETL_T_hex64] = {"hex64", 8},
    [ETL_T_ptr] = {"ptr", 8},     [ETL_T_ft] = {"ft", 8},   [ETL_T_wch] = {"wch", 2},
    [ETL_T_guid] = {"guid", 16},  [ETL_T_sid] = {"sid", 0}, [ETL_T_asz] = {"asz", 0},
    [ETL_T_wsz] = {"wsz", 0},     [ETL_T_bin] = {"bin", 0}, [ETL_T_stamp] = {"stamp", 8},
    [ETL_T_ticks] = {"ticks", 8},
};

static const char *header_name(unsigned type)
{
    switch (type) {
    case ETL_SYSTEM64:
        return "SYSTEM64";
    case ETL_PERFINFO64:
        return "PERFINFO64";
    case ETL_FULL64:
        return "FULL64";
    case ETL_EVENT64:
        return "EVENT64";
    default:
        fprintf(stderr, "tables: no name for header type %u\n", type);
        exit(1);
    }
}

static bool same_layout(const struct etl_class_row *a, const struct etl_class_row *b)
{
    size_t i;

    if (!etw_guid_equal(&a->guid, &b->guid) || a->header != b->header || a->version != b->version)
        return false;
    for (i = 0; a->fields[i].name && b->fields[i].name; i++)
        if (strcmp(a->fields[i].name, b->fields[i].name) != 0 ||
            a->fields[i].type != b->fields[i].type || a->fields[i].count != b->fields[i].count)
            return false;
    return !a->fields[i].name && !b->fields[i].name;
}

/* The flag names (EnableFlags) that a row's mask bit stands for. */
static void print_flags(const struct etl_class_row *row)
{
    uint32_t masks[8] = {0};
    uint32_t flags;
    const char *separator = "";

    if (row->mask_bit == 0) {
        printf("always");
        return;
    }
    masks[row->mask] = row->mask_bit;
    flags = etl_flags_from_masks(masks);
    for (const struct etl_enable_flag *f = etl_enable_flags; f->name; f++)
        if (f->bit & flags) {
            printf("%s%s", separator, f->name);
            separator = ", ";
        }
    if (*separator == '\0') {
        fprintf(stderr, "tables: no flag for %s %s\n", row->class_name, row->event_name);
        exit(1);
    }
}

static void print_fields(const struct etl_class_row *row)
{
    unsigned offset = 0;
    bool fixed = true;

    if (!row->fields[0].name) {
        printf("No fields.\n");
        return;
    }
    printf(".Bl -column \"offset\" \"u32[100]\" \"OldThreadWaitIdealProcessor\" -compact\n");
    printf(".It Em offset Ta Em type Ta Em field\n");
    for (const struct etl_field *f = row->fields; f->name; f++) {
        const struct type *t = &types[f->type];

        if (fixed)
            printf(".It %u Ta ", offset);
        else
            printf(".It then Ta ");
        if (f->count > 1)
            printf("%s[%u]", t->name, f->count);
        else
            printf("%s", t->name);
        printf(" Ta %s\n", f->name);
        if (t->size == 0)
            fixed = false;
        offset += t->size * (f->count ? f->count : 1);
    }
    printf(".El\n");
}

static void print_layouts(void)
{
    for (unsigned i = 0; i < ETL_ROW_COUNT;) {
        const struct etl_class_row *row = &etl_rows[i];
        unsigned end = i + 1;

        while (end < ETL_ROW_COUNT && same_layout(row, &etl_rows[end]))
            end++;
        if (row->header != ETL_EVENT64) {
            printf(".Ss %s: ", row->class_name);
            for (unsigned j = i; j < end; j++)
                printf("%s%s", j == i ? "" : ", ", etl_rows[j].event_name);
            printf("\n%s, version %u.\n", header_name(row->header), row->version);
            for (unsigned j = i; j < end; j++) {
                const struct etl_class_row *r = &etl_rows[j];

                printf("%s is type %u", r->event_name, r->opcode);
                if (r->header != ETL_FULL64)
                    printf(" of group 0x%02x", r->group);
                printf("%s\n", j + 1 == end ? "." : ",");
            }
            printf(".Pp\n");
            print_fields(row);
        }
        i = end;
    }
}

static void print_tracelogging(void)
{
    char guid[ETW_GUID_STRING_MAX];

    for (unsigned i = 0; i < ETL_ROW_COUNT; i++) {
        const struct etl_class_row *row = &etl_rows[i];

        if (row->header != ETL_EVENT64)
            continue;
        printf(".Ss %s: %s\n", row->class_name, row->event_name);
        printf("Provider %s, level %u, keyword 0x%llx.\n", etw_guid_format(&row->guid, guid),
               row->level, (unsigned long long) row->keyword);
        printf(".Pp\n");
        print_fields(row);
    }
}

static void print_classes(void)
{
    char guid[ETW_GUID_STRING_MAX];
    const char *last = "";

    printf(".Bl -column \"group\" \"SystemConfig\" \"00000000-0000-0000-0000-000000000000\" "
           "-compact\n");
    printf(".It Em group Ta Em class Ta Em GUID\n");
    for (unsigned i = 0; i < ETL_ROW_COUNT; i++) {
        const struct etl_class_row *row = &etl_rows[i];

        if (row->header == ETL_EVENT64 || strcmp(row->class_name, last) == 0)
            continue;
        last = row->class_name;
        /* Image load is logged under the process group: its own group is that of the others. */
        if (row->header == ETL_FULL64)
            printf(".It \\(en Ta ");
        else if (etl_hook_guid(row->group, 0) &&
                 etw_guid_equal(etl_hook_guid(row->group, 0), &row->guid))
            printf(".It 0x%02x Ta ", row->group);
        else
            printf(".It 0x%02x Ta ", etl_rows[i + 1].group);
        printf("%s Ta %s\n", row->class_name, etw_guid_format(&row->guid, guid));
    }
    printf(".El\n");
}

static void print_kernel(void)
{
    printf(".Bl -column \"SystemConfig\" \"ReadyThread\" \"opcode\" \"version\" \"image\" "
           "-compact\n");
    printf(".It Em class Ta Em event Ta Em opcode Ta Em version Ta Em flag\n");
    for (unsigned i = 0; i < ETL_ROW_COUNT; i++) {
        const struct etl_class_row *row = &etl_rows[i];

        if (row->header == ETL_EVENT64)
            continue;
        printf(".It %s Ta %s Ta %u Ta %u Ta ", row->class_name, row->event_name, row->opcode,
               row->version);
        print_flags(row);
        printf("\n");
    }
    printf(".El\n");
}

static void print_enable_flags(void)
{
    static const char *const support[] = {
        [ETL_FLAG_INERT] = "inert: accepted, without meaning on Linux",
        [ETL_FLAG_LATER] = "not there yet: refused",
        [ETL_FLAG_PROBED] = "traced",
        [ETL_FLAG_CONTROL] = "changes what else is recorded",
    };

    printf(".Bl -column \"0x00000000\" \"process_counters\" \"what becomes of it\" -compact\n");
    printf(".It Em bit Ta Em name Ta Em state\n");
    for (const struct etl_enable_flag *f = etl_enable_flags; f->name; f++)
        printf(".It 0x%08x Ta %s Ta %s\n", f->bit, f->name, support[f->support]);
    printf(".El\n");
}

static void print_takes_effect(const char *key)
{
    const char *from = etw_conf_takes_effect(key);
    if (from)
        printf("A reload changes it %s.\n", from);
}

static void print_conf(void)
{
#define CONF(key, field, def, min, max, why)                                                       \
    printf(".It Cm " #key "\n%lu (from %lu to %lu): %s.\n", (unsigned long) (def),                 \
           (unsigned long) (min), (unsigned long) (max), why);                                     \
    print_takes_effect(#key);
#define CONF_TEXT(key, field, why)                                                                 \
    printf(".It Cm " #key "\nNone: %s.\n", why);                                                   \
    print_takes_effect(#key);
    printf(".Bl -tag -width Ds\n");
    ETW_CONF_KEYS(CONF)
    ETW_CONF_TEXTS(CONF_TEXT)
    printf(".El\n");
#undef CONF
#undef CONF_TEXT
}

static const struct {
    const char *name;
    void (*print)(void);
} tables[] = {
    {"layouts", print_layouts}, {"tracelogging", print_tracelogging}, {"classes", print_classes},
    {"kernel", print_kernel},   {"flags", print_enable_flags},        {"conf", print_conf},
};

static bool print_table(const char *line)
{
    char name[32];

    if (sscanf(line, ".\\\" @%31[a-z]@", name) != 1)
        return false;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (strcmp(tables[i].name, name) == 0) {
            tables[i].print();
            return true;
        }
    fprintf(stderr, "tables: there is no table '%s'\n", name);
    exit(1);
}

int main(int argc, char **argv)
{
    char line[1024];
    FILE *page;

    if (argc != 2 || !(page = fopen(argv[1], "re"))) {
        fprintf(stderr, "usage: tables PAGE.in > PAGE\n");
        return 1;
    }
    while (fgets(line, sizeof(line), page))
        if (!print_table(line))
            fputs(line, stdout);
    fclose(page);
    return ferror(stdout) || fflush(stdout) != 0;
}
