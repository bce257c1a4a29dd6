/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: instrumentation manifests. What is read holds together: members of structs, counts
 * and lengths refer to fields that are there, and each event is found by its id.
 */
#include "fuzz.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tdh/manifest.h"

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_template(const struct template *t)
{
    check(t->n_top <= t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct field *f = &t->fields[i];
        if (f->flags & PropertyStruct)
            check((uint32_t) f->first + f->members <= t->n);
        if (f->flags & PropertyParamCount)
            check(f->count < t->n);
        if (f->flags & PropertyParamLength)
            check(f->length < t->n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest *m;
    const char *why = NULL;

    if (manifest_read(data, size, &m, &why) < 0) {
        check(why != NULL);
        return 0;
    }
    for (uint32_t p = 0; p < m->n_providers; p++) {
        const struct provider *provider = &m->providers[p];
        for (uint32_t i = 0; i < provider->n_templates; i++)
            check_template(&provider->templates[i]);
        for (uint32_t i = 0; i < provider->n_events; i++) {
            const struct event *e = &provider->events[i];
            const struct event *found = provider_event(provider, e->id, e->version);
            check(found && found->id == e->id && found->version == e->version);
        }
        for (uint32_t i = 0; i < provider->n_maps; i++)
            check(provider_map(provider, provider->maps[i].name) != NULL);
    }
    manifest_free(m);
    return 0;
}
