/* SPDX-License-Identifier: Apache-2.0
 *
 * Providers as a list for controllers, in the order of their GUIDs, page by page. What the caller
 * may see is the caller's business. Loop thread only.
 */
#include "process.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* As they are read: by the text of the GUID. */
static int guid_order(const struct etw_guid *a, const struct etw_guid *b)
{
    if (a->data1 != b->data1)
        return a->data1 < b->data1 ? -1 : 1;
    if (a->data2 != b->data2)
        return a->data2 < b->data2 ? -1 : 1;
    if (a->data3 != b->data3)
        return a->data3 < b->data3 ? -1 : 1;
    return memcmp(a->data4, b->data4, sizeof(a->data4));
}

static bool matches(const struct provider *pr, pid_t pid, const struct session *only)
{
    bool found = pid == 0;
    for (const struct line *l = pr->lines; l && !found; l = l->next_of_provider)
        found = l->process->image->pid == pid;
    if (!found || !only)
        return found;
    for (const struct enable *e = pr->enables; e; e = e->next)
        if (e->of.session == only)
            return true;
    return false;
}

static const char *name_of(const struct provider *pr)
{
    for (const struct line *l = pr->lines; l; l = l->next_of_provider)
        if (l->image->name[0])
            return l->image->name;
    return "";
}

static int by_process(const void *a, const void *b)
{
    const struct provider_process *x = *(struct provider_process *const *) a,
                                  *y = *(struct provider_process *const *) b;
    if (x->image->pid != y->image->pid)
        return x->image->pid < y->image->pid ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* The sessions whose enables hold for the process. */
static size_t enabled_by(const struct provider *pr, struct provider_process *pp,
                         const struct session *ret[SHM_SLOTS_MAX])
{
    size_t n = 0;
    for (const struct enable *e = pr->enables; e && n < SHM_SLOTS_MAX; e = e->next)
        if (e->of.session && enable_sees(e, pp))
            ret[n++] = e->of.session;
    return n;
}

/* Those of `pid` alone unless 0, and of pids above after_pid unless 0. */
static void visit_instances(const struct provider *pr, pid_t pid, pid_t after_pid,
                            const struct provider_visit *v, void *userdata)
{
    const struct session *sessions[SHM_SLOTS_MAX];
    size_t n = 0;
    for (const struct line *l = pr->lines; l; l = l->next_of_provider)
        n++;
    _cleanup_free_ struct provider_process **list = calloc(n ? n : 1, sizeof(*list));
    if (!list)
        return;
    n = 0;
    for (const struct line *l = pr->lines; l; l = l->next_of_provider)
        if ((pid == 0 || l->process->image->pid == pid) &&
            (after_pid == 0 || l->process->image->pid > after_pid))
            list[n++] = l->process;
    qsort(list, n, sizeof(*list), by_process);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && list[k] == list[i]; k++)
            ;
        struct provider_process *pp = list[i];
        if (!pp->exe)
            (void) process_executable(pp->image->pid, &pp->exe);
        v->instance(userdata, pp->image->pid, pp->image->uid, pp->exe ? pp->exe : "",
                    (uint32_t) (k - i), sessions, enabled_by(pr, pp, sessions));
    }
}

/* Texts of filters are bounded: what is cut ends in "...". */
#define FILTER_TEXT 512

static void text_add(char *text, size_t *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void text_add(char *text, size_t *at, const char *format, ...)
{
    va_list ap;
    if (*at >= FILTER_TEXT - 4)
        return;
    va_start(ap, format);
    int n = vsnprintf(text + *at, FILTER_TEXT - *at, format, ap);
    va_end(ap);
    if (n > 0)
        *at += (size_t) n;
    if (*at >= FILTER_TEXT - 4) {
        (void) strcpy(text + FILTER_TEXT - 4, "...");
        *at = FILTER_TEXT;
    }
}

static void visit_enable(const struct enable *e, const struct provider_visit *v, void *userdata)
{
    const struct enable_image *i = e->image;
    char texts[4][FILTER_TEXT] = {""};
    const char *list[4];
    size_t n = 0, at = 0;

    if (i->filter_pids) {
        text_add(texts[n], &at, i->n_pids ? "pid " : "pid: none");
        for (uint32_t k = 0; k < i->n_pids; k++)
            text_add(texts[n], &at, k ? ", %d" : "%d", e->pids[k].pid);
        n++;
    }
    if (i->names_size > 0) {
        at = 0;
        text_add(texts[n], &at, "executable ");
        for (const char *p = e->names; p < e->names + i->names_size; p += strlen(p) + 1)
            text_add(texts[n], &at, p > e->names ? ", %s" : "%s", p);
        n++;
    }
    if (i->filter_ids) {
        at = 0;
        text_add(texts[n], &at, i->filter_in ? "event id in " : "event id not in ");
        for (uint32_t k = 0; k < i->n_ids; k++)
            text_add(texts[n], &at, k ? ", %u" : "%u", e->ids[k]);
        n++;
    }
    if (i->schema_size > 0) {
        at = 0;
        text_add(texts[n], &at, "provider's own, %u bytes", i->schema_size);
        n++;
    }
    for (size_t k = 0; k < n; k++)
        list[k] = texts[k];
    v->enable(userdata, e->of.session, i->level, i->any, i->all, i->properties, list, n);
}

/* The next `max` GUIDs above, in order: an insertion into a short list for each of thousands. */
static size_t select_page(struct providers *p, const struct etw_guid *after, pid_t pid,
                          const struct session *only, size_t max, const struct provider **page)
{
    size_t n = 0;
    for (unsigned b = 0; b < PROVIDER_BUCKETS; b++)
        for (const struct provider *pr = p->buckets[b]; pr; pr = pr->next) {
            if (after && guid_order(&pr->guid, after) <= 0)
                continue;
            if (n == max && guid_order(&pr->guid, &page[n - 1]->guid) > 0)
                continue;
            if (!matches(pr, pid, only))
                continue;
            size_t at = n < max ? n++ : n - 1;
            for (; at > 0 && guid_order(&pr->guid, &page[at - 1]->guid) < 0; at--)
                page[at] = page[at - 1];
            page[at] = pr;
        }
    return n;
}

/* The enables first: there are few of them, and a page may not take all processes. */
static void visit_provider(const struct provider *pr, pid_t pid, pid_t after_pid,
                           const struct session *only, const struct provider_visit *v,
                           void *userdata)
{
    v->provider(userdata, &pr->guid, name_of(pr));
    for (const struct enable *e = pr->enables; e; e = e->next)
        if (e->of.session && (!only || e->of.session == only))
            visit_enable(e, v, userdata);
    visit_instances(pr, pid, after_pid, v, userdata);
}

bool providers_visit_one(struct providers *p, const struct etw_guid *guid, pid_t after_pid,
                         const struct provider_visit *v, void *userdata)
{
    const struct provider *pr = provider_get(p, guid, false);
    if (!pr)
        return false;
    visit_provider(pr, 0, after_pid, NULL, v, userdata);
    return true;
}

bool providers_visit(struct providers *p, const struct etw_guid *after, pid_t pid,
                     const struct session *only, size_t max, const struct provider_visit *v,
                     void *userdata, struct etw_guid *ret_last)
{
    /* One more than asked for tells whether there are more. */
    _cleanup_free_ const struct provider **page = calloc(max + 1, sizeof(*page));
    if (!page)
        return false;
    size_t n = select_page(p, after, pid, only, max + 1, page);
    for (size_t i = 0; i < n && i < max; i++) {
        *ret_last = page[i]->guid;
        visit_provider(page[i], pid, 0, only, v, userdata);
    }
    return n > max;
}
