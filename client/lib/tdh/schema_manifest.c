/* SPDX-License-Identifier: Apache-2.0
 *
 * Schemas of events that a manifest describes, and its maps. The texts are the manifest's: the
 * store stays locked as long as the schema lives. Any thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manifest.h"
#include "manifest_words.h"

static struct text named_text(const struct named *items, uint32_t n, uint64_t value,
                              enum word_kind kind)
{
    for (uint32_t i = 0; i < n; i++)
        if (items[i].value == value)
            return text_of(items[i].text);
    return text_of(manifest_word_text(kind, value));
}

static struct text opcode_text(const struct provider *p, const struct event *e)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < p->n_opcodes; i++)
            if (p->opcodes[i].named.value == e->opcode &&
                p->opcodes[i].task == (pass ? OPCODE_ANY_TASK : e->task))
                return text_of(p->opcodes[i].named.text);
    return text_of(manifest_word_text(WORD_OPCODE, e->opcode));
}

static void add_keyword(struct schema *s, const char *text)
{
    if (s->n_keywords < sizeof(s->keywords) / sizeof(s->keywords[0]))
        s->keywords[s->n_keywords++] = text_of(text);
}

/* Those of the event as it was written: it may have more than its manifest says. */
static void keyword_texts(struct schema *s, const struct provider *p, uint64_t keywords)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t mask = 1ull << bit;
        const char *text = NULL;
        if (!(keywords & mask))
            continue;
        for (uint32_t i = 0; i < p->n_keywords && !text; i++)
            if (p->keywords[i].value == mask)
                text = p->keywords[i].text;
        if (!text)
            text = manifest_word_text(WORD_KEYWORD, mask);
        if (text)
            add_keyword(s, text);
    }
}

static int fill(struct schema *s, const struct provider *p, const struct event *e,
                const EVENT_RECORD *r)
{
    const struct template *t = e->template;

    s->provider = p->guid;
    s->source = DecodingSourceXMLFile;
    s->provider_name = text_of(p->name);
    s->provider_message = text_of(p->message);
    s->message = text_of(e->message);
    s->level = named_text(p->levels, p->n_levels, e->level, WORD_LEVEL);
    s->channel = named_text(p->channels, p->n_channels, e->channel, WORD_CHANNEL);
    s->task = named_text(p->tasks, p->n_tasks, e->task, WORD_TASK);
    s->opcode = opcode_text(p, e);
    keyword_texts(s, p, r->EventHeader.EventDescriptor.Keyword);
    if (!t || t->n == 0)
        return 0;
    s->fields = malloc(t->n * sizeof(*s->fields));
    if (!s->fields)
        return -ENOMEM;
    memcpy(s->fields, t->fields, t->n * sizeof(*s->fields));
    s->n = s->cap = t->n;
    s->n_top = t->n_top;
    return 0;
}

int schema_from_manifest(struct schema *s, const EVENT_RECORD *r)
{
    const EVENT_DESCRIPTOR *d = &r->EventHeader.EventDescriptor;
    const struct event *e = NULL;
    struct etw_guid guid;

    if (r->EventHeader.Flags & (EVENT_HEADER_FLAG_CLASSIC_HEADER | EVENT_HEADER_FLAG_TRACE_MESSAGE |
                                EVENT_HEADER_FLAG_STRING_ONLY))
        return -ENOENT;
    memcpy(&guid, &r->EventHeader.ProviderId, sizeof(guid));
    store_lock();
    s->locked = true; /* schema_done() unlocks */
    const struct provider *p = store_find(&guid);
    if (p)
        e = provider_event(p, d->Id, d->Version);
    return e ? fill(s, p, e, r) : -ENOENT;
}
