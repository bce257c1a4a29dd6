/* SPDX-License-Identifier: Apache-2.0
 *
 * See providers.h: what a provider on the command line means. One thread.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tdh.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "etl/classes.h"
#include "options.h"
#include "output.h"
#include "providers.h"

/* Everything that the provider has. */
#define LEVEL_ALL 255u

static const char *const level_names[] = {
    [1] = "critical", [2] = "error", [3] = "warning", [4] = "information", [5] = "verbose",
};

static int parse_level(const char *s, uint8_t *ret)
{
    uint64_t v;
    int r;

    for (size_t i = 1; i < ARRAY_SIZE(level_names); i++)
        if (strcasecmp(s, level_names[i]) == 0 || (i == 4 && strcasecmp(s, "info") == 0)) {
            *ret = (uint8_t) i;
            return 0;
        }
    r = parse_u64(s, &v);
    if (r == 0 && v > UINT8_MAX)
        r = -ERANGE;
    if (r == 0)
        *ret = (uint8_t) v;
    return r;
}

/* One part up to the next ':' cut off; empty ones stand for their default. */
static char *cut(char **rest)
{
    char *s = *rest, *colon = s ? strchr(s, ':') : NULL;

    if (colon)
        *colon = '\0';
    *rest = colon ? colon + 1 : NULL;
    return s && *s ? s : NULL;
}

/* A GUID, *NAME, or another name, which is looked up when there is a daemon. */
static int parse_which(const char *s, struct provider_arg *p)
{
    if (etw_guid_parse(s, &p->guid) == 0)
        return 0;
    if (s[0] == '*')
        return s[1] ? etw_guid_from_name(s + 1, &p->guid) : -EINVAL;
    if (s[0] == '{')
        return -EINVAL;
    for (size_t i = 0; i < ETL_ROW_COUNT; i++)
        if (etl_rows[i].keyword != 0 && strcasecmp(etl_rows[i].class_name, s) == 0) {
            p->guid = etl_rows[i].guid;
            return 0;
        }
    p->name = strdup(s);
    return p->name ? 0 : -ENOMEM;
}

static int parse(char *copy, struct provider_arg *p)
{
    char *rest = copy, *which, *part;
    int r;

    which = cut(&rest);
    if (!which)
        return -EINVAL;
    part = cut(&rest);
    r = part ? parse_level(part, &p->level) : 0;
    part = cut(&rest);
    if (r == 0 && part)
        r = parse_u64(part, &p->any);
    part = cut(&rest);
    if (r == 0 && part)
        r = parse_u64(part, &p->all);
    if (r == 0 && rest)
        r = -EINVAL;
    return r < 0 ? r : parse_which(which, p);
}

int provider_args_add(struct provider_args *l, const char *verb, const char *text)
{
    struct provider_arg p = {.text = text, .level = LEVEL_ALL};
    _cleanup_free_ char *copy = strdup(text);
    struct provider_arg *more = reallocarray(l->items, l->n + 1, sizeof(*more));
    int r = -ENOMEM;

    if (more)
        l->items = more;
    if (copy && more)
        r = parse(copy, &p);
    if (r < 0) {
        free(p.name);
        say("%s: provider '%s': PROVIDER[:LEVEL[:ANY[:ALL]]] is wanted: a GUID, a name or *NAME, a "
            "level of 0 to 255 or its name, keywords as numbers%s",
            verb, text, r == -ERANGE ? " (one is too large)" : "");
        return usage_error(verb);
    }
    l->items[l->n++] = p;
    return EXIT_OK;
}

void provider_args_clear(struct provider_args *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->items[i].name);
    free(l->items);
    *l = (struct provider_args){0};
}

/* ---- by name ---- */

static int match(const Etwd__Provider *p, void *userdata)
{
    struct provider_arg *a = userdata;

    if (p->guid.len != sizeof(a->guid) || strcasecmp(p->name, a->name) != 0)
        return 0;
    memcpy(&a->guid, p->guid.data, sizeof(a->guid));
    free(a->name);
    a->name = NULL;
    return 1;
}

/* Of an installed manifest. */
static void match_manifests(struct provider_arg *a)
{
    PROVIDER_ENUMERATION_INFO *all = NULL;
    ULONG size = 0;

    if (TdhEnumerateProviders(NULL, &size) == ERROR_INSUFFICIENT_BUFFER)
        all = malloc(size);
    if (all && TdhEnumerateProviders(all, &size) == ERROR_SUCCESS)
        for (ULONG i = 0; i < all->NumberOfProviders && a->name; i++) {
            const TRACE_PROVIDER_INFO *p = &all->TraceProviderInfoArray[i];
            _cleanup_free_ char *name =
                etw_utf16_dup_utf8((const uint8_t *) all + p->ProviderNameOffset, SIZE_MAX);
            if (!name || strcasecmp(name, a->name) != 0)
                continue;
            memcpy(&a->guid, &p->ProviderGuid, sizeof(a->guid));
            free(a->name);
            a->name = NULL;
        }
    free(all);
}

int provider_args_resolve(struct provider_args *l, const char *verb, struct conn *c)
{
    for (size_t i = 0; i < l->n; i++) {
        struct provider_arg *a = &l->items[i];
        if (!a->name)
            continue;
        match_manifests(a);
        if (!a->name)
            continue;
        int r = providers_each(c, 0, 0, match, a);
        if (r != EXIT_OK && a->name)
            return r;
        if (a->name) {
            say("%s: provider '%s': no program has registered it and no manifest names it: give "
                "its "
                "GUID, or *%s when the GUID is made from the name",
                verb, a->name, a->name);
            return usage_error(verb);
        }
    }
    return EXIT_OK;
}
