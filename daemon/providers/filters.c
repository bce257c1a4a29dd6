/* SPDX-License-Identifier: Apache-2.0
 *
 * What a controller asks of an enable, checked and put into the form in which it is kept: one block
 * with the filters behind it. Which processes an enable sees. All of a request is hostile. Loop
 * thread only.
 */
#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "base/winerror.h"
#include "filters.h"

#define PROPERTIES_DONE                                                                            \
    (0x001u | 0x002u | 0x010u | 0x040u | 0x080u | 0x100u) /* SID TS_ID IGNORE_0 ENABLE_0 START KEY \
                                                           */
#define PROPERTIES_KNOWN 0xFFFu
#define PROPERTY_STACK 0x004u
#define PROPERTY_GROUP 0x020u

#define FILTER_NONE 0u
#define FILTER_SCHEMATIZED 0x80000000u
#define FILTER_PID 0x80000004u
#define FILTER_EXECUTABLE 0x80000008u
#define FILTER_EVENT_ID 0x80000200u

static int say(struct filter_refusal *f, uint32_t status, const char *why)
{
    f->status = status;
    f->why = why;
    return -EINVAL;
}

int enable_properties_check(uint32_t properties, struct filter_refusal *refusal)
{
    if (properties & ~PROPERTIES_KNOWN)
        return say(refusal, ETW_ERROR_INVALID_PARAMETER, "an enable property is not known");
    if (properties & PROPERTY_STACK)
        return say(refusal, ETW_ERROR_NOT_SUPPORTED,
                   "this etwd does not have stacks of events yet "
                   "(EVENT_ENABLE_PROPERTY_STACK_TRACE)");
    if (properties & PROPERTY_GROUP)
        return say(refusal, ETW_ERROR_NOT_SUPPORTED,
                   "this etwd does not have provider groups yet "
                   "(EVENT_ENABLE_PROPERTY_PROVIDER_GROUP)");
    if (properties & ~PROPERTIES_DONE)
        return say(refusal, ETW_ERROR_NOT_SUPPORTED, "an enable property has no meaning here yet");
    return 0;
}

/* ---- one block ---- */

struct parts {
    const struct enable_request *req;
    uint16_t ids[SHM_FILTER_IDS_MAX];
    uint32_t n_ids;
    bool filter_ids, filter_in;
    struct process_ref pids[ETW_MESSAGE_FDS_MAX];
    uint32_t n_pids;
    const void *schema;
    uint32_t schema_size;
    char *names; /* each with its NUL */
    uint32_t names_size;
};

static size_t ids_bytes(uint32_t n)
{
    return ALIGN_UP((size_t) n * sizeof(uint16_t), 8);
}

static size_t image_bytes(const struct enable_image *i)
{
    return sizeof(*i) + ids_bytes(i->n_ids) + (size_t) i->n_pids * sizeof(struct process_ref) +
           ALIGN_UP((size_t) i->schema_size, 8) + i->names_size;
}

int enable_bind_image(struct enable *e, size_t size)
{
    const struct enable_image *i = e->image;
    const uint8_t *p = (const uint8_t *) (i + 1);

    if (size < sizeof(*i) || i->n_ids > SHM_FILTER_IDS_MAX || i->n_pids > ETW_MESSAGE_FDS_MAX ||
        i->schema_size > ETW_FILTER_DATA_MAX || i->names_size > 2 * ETW_FILTER_DATA_MAX ||
        image_bytes(i) > size)
        return -EBADMSG;
    e->ids = (const uint16_t *) p;
    p += ids_bytes(i->n_ids);
    e->pids = (const struct process_ref *) p;
    p += (size_t) i->n_pids * sizeof(struct process_ref);
    e->schema = p;
    p += ALIGN_UP((size_t) i->schema_size, 8);
    e->names = (const char *) p;
    return i->names_size > 0 && e->names[i->names_size - 1] != '\0' ? -EBADMSG : 0;
}

static int ids_order(const void *a, const void *b)
{
    uint16_t x = *(const uint16_t *) a, y = *(const uint16_t *) b;
    return x < y ? -1 : x > y;
}

/* EVENT_FILTER_EVENT_ID: u8 FilterIn, u8, u16 Count, u16 Events[]. */
static int ids_take(struct parts *p, const struct enable_filter *f, struct filter_refusal *refusal)
{
    const uint8_t *d = f->data;
    uint16_t count;

    if (f->size < 4)
        return say(refusal, ETW_ERROR_INVALID_PARAMETER, "the event id filter is cut off");
    memcpy(&count, d + 2, sizeof(count));
    if (count > SHM_FILTER_IDS_MAX)
        return say(refusal, ETW_ERROR_INVALID_PARAMETER,
                   "the event id filter has more than 64 ids");
    if (f->size < 4 + (size_t) count * 2)
        return say(refusal, ETW_ERROR_INVALID_PARAMETER, "the event id filter is cut off");
    memcpy(p->ids, d + 4, (size_t) count * 2);
    qsort(p->ids, count, sizeof(p->ids[0]), ids_order);
    p->n_ids = count;
    p->filter_in = d[0] != 0;
    p->filter_ids = true;
    return 0;
}

/* UTF-16, separated by ';', perhaps with a NUL at the end. */
static int names_take(struct parts *p, const struct enable_filter *f,
                      struct filter_refusal *refusal)
{
    if (f->size == 0 || f->size > ETW_FILTER_DATA_MAX || f->size % 2 != 0)
        return say(refusal, ETW_ERROR_INVALID_PARAMETER,
                   "the executable name filter has no valid size (at most 1024 bytes of UTF-16)");
    uint16_t text[ETW_FILTER_DATA_MAX / 2 + 1];
    memcpy(text, f->data, f->size);
    text[f->size / 2] = 0;
    char *names = etw_utf16_dup_utf8(text, SIZE_MAX);
    if (!names)
        return say(refusal, ETW_ERROR_NOT_ENOUGH_MEMORY, "etwd is out of memory");
    /* "a;;b" -> "a\0b\0" */
    size_t at = 0, n = strlen(names);
    bool begun = false;
    for (size_t i = 0; i <= n; i++) {
        if (names[i] != ';' && names[i] != '\0') {
            names[at++] = names[i];
            begun = true;
        } else if (begun) {
            names[at++] = '\0';
            begun = false;
        }
    }
    p->names = names;
    p->names_size = (uint32_t) at;
    if (at == 0 || at > 2 * ETW_FILTER_DATA_MAX) {
        return say(refusal, ETW_ERROR_INVALID_PARAMETER,
                   "the executable name filter names no program");
    }
    return 0;
}

static int filter_take(struct parts *p, const struct enable_filter *f,
                       struct filter_refusal *refusal)
{
    switch (f->type) {
    case FILTER_NONE:
        return 0;
    case FILTER_SCHEMATIZED:
        if (f->size > ETW_FILTER_DATA_MAX)
            return say(refusal, ETW_ERROR_INVALID_PARAMETER,
                       "the filter for the provider has more than 1024 bytes");
        p->schema = f->data;
        p->schema_size = (uint32_t) f->size;
        return 0;
    case FILTER_EXECUTABLE:
        return names_take(p, f, refusal);
    case FILTER_EVENT_ID:
        return ids_take(p, f, refusal);
    case FILTER_PID:
        return say(refusal, ETW_ERROR_INVALID_PARAMETER,
                   "a process id filter travels as pidfds, not as numbers");
    default:
        return say(refusal, ETW_ERROR_NOT_SUPPORTED,
                   "this etwd does not have filters of this type yet");
    }
}

static int pids_take(struct parts *p, struct filter_refusal *refusal)
{
    const struct enable_request *req = p->req;

    if (!req->pid_filter && req->n_pidfds > 0)
        return say(refusal, ETW_ERROR_INVALID_PARAMETER,
                   "the request brings descriptors, but has no process id filter");
    for (size_t i = 0; i < req->n_pidfds && i < ARRAY_SIZE(p->pids); i++) {
        int r = pidfd_identify(req->pidfds[i], &p->pids[p->n_pids]);
        if (r == -EBADF)
            return say(refusal, ETW_ERROR_INVALID_PARAMETER, "a descriptor is not a pidfd");
        if (r == 0)
            p->n_pids++; /* a process that is gone matches nobody */
    }
    return 0;
}

static int image_make(struct providers *p, const struct parts *parts, struct enable *e)
{
    const struct enable_request *req = parts->req;
    struct enable_image head = {
        .number = e->number,
        .session = e->of.handle,
        .guid = req->guid,
        .source = req->source,
        .any = req->any,
        .all = req->all,
        .properties = req->properties,
        .level = req->level,
        .filter_ids = parts->filter_ids,
        .filter_in = parts->filter_in,
        .filter_pids = req->pid_filter,
        .n_ids = parts->n_ids,
        .n_pids = parts->n_pids,
        .schema_size = parts->schema_size,
        .names_size = parts->names_size,
    };
    int r;

    r = keep_block_new(p, STATE_ENABLE, p->next_enable++, image_bytes(&head), (void **) &e->image);
    if (r < 0)
        return r;
    *e->image = head;
    (void) enable_bind_image(e, image_bytes(&head));
    memcpy((void *) (uintptr_t) e->ids, parts->ids, parts->n_ids * sizeof(parts->ids[0]));
    memcpy((void *) (uintptr_t) e->pids, parts->pids, parts->n_pids * sizeof(parts->pids[0]));
    if (parts->schema_size)
        memcpy((void *) (uintptr_t) e->schema, parts->schema, parts->schema_size);
    if (parts->names_size)
        memcpy((void *) (uintptr_t) e->names, parts->names, parts->names_size);
    return 0;
}

int enable_image_make(struct providers *p, const struct enable_request *req, struct enable *e,
                      struct filter_refusal *refusal)
{
    struct parts parts = {.req = req};
    int r;

    if (req->n_filters > ETW_FILTERS_MAX)
        return say(refusal, ETW_ERROR_INVALID_PARAMETER, "more than 13 filters");
    for (size_t i = 0; i < req->n_filters; i++)
        for (size_t k = 0; k < i; k++)
            if (req->filters[k].type == req->filters[i].type)
                return say(refusal, ETW_ERROR_INVALID_PARAMETER, "two filters of the same type");
    r = pids_take(&parts, refusal);
    for (size_t i = 0; i < req->n_filters && r == 0; i++)
        r = filter_take(&parts, &req->filters[i], refusal);
    if (r == 0) {
        r = image_make(p, &parts, e);
        if (r < 0)
            r = say(refusal, ETW_ERROR_NOT_ENOUGH_MEMORY, "etwd is out of memory");
    }
    free(parts.names);
    return r;
}

/* ---- who is seen ---- */

static bool named(const struct enable *e, struct provider_process *pp)
{
    if (!pp->exe && process_executable(pp->image->pid, &pp->exe) < 0)
        return false;
    const char *slash = strrchr(pp->exe, '/');
    const char *base = slash ? slash + 1 : pp->exe;
    for (const char *n = e->names; n < e->names + e->image->names_size; n += strlen(n) + 1)
        if (strcmp(n, strchr(n, '/') ? pp->exe : base) == 0)
            return true;
    return false;
}

bool enable_sees(const struct enable *e, struct provider_process *pp)
{
    const struct enable_image *i = e->image;

    if (!i->all_uids && i->owner != pp->image->uid)
        return false;
    if (i->filter_pids) {
        bool found = false;
        for (uint32_t k = 0; k < i->n_pids && !found; k++)
            found = e->pids[k].pid == pp->image->pid &&
                    e->pids[k].start_ticks == pp->image->start_ticks;
        if (!found)
            return false;
    }
    return i->names_size == 0 || named(e, pp);
}
