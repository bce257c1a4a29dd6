/* SPDX-License-Identifier: Apache-2.0
 *
 * Builders of events, one function a class. Text that does not fit a session's buffers is cut for
 * that session, never the event lost. Loop thread only.
 */
#include "events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kernel/images.h"
#include "kernel/priority.h"
#include "state/state.h"

/* Linux has neither; Windows tools show what is not normal. */
#define PAGE_PRIORITY_NORMAL 5
#define IO_PRIORITY_NORMAL 2
/* Bytes that an event has besides its one long text: headers, fixed parts, SID, terminators,
 * TraceLogging metadata; generous. */
#define OVERHEAD 512u

int events_new(struct process_table *table, struct router *r, struct events **ret)
{
    struct events *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    e->table = table;
    e->router = r;
    e->waiting_last = &e->waiting_first;
    *ret = e;
    return 0;
}

static void pending_free(struct events *e, struct pending_image *p)
{
    *p->at = p->next;
    if (p->next)
        p->next->at = p->at;
    else
        e->waiting_last = p->at;
    if (e->waiting_unkept == p)
        e->waiting_unkept = p->next;
    if (p->block)
        e->gone(e->gone_userdata, p->block);
    image_file_unref(p->file);
    free(p);
    e->n_waiting--;
}

struct events *events_free(struct events *e)
{
    if (!e)
        return NULL;
    while (e->waiting_first)
        pending_free(e, e->waiting_first);
    free(e);
    return NULL;
}

void events_forget(struct events *e)
{
    while (e->waiting_first) {
        struct image_file *f = e->waiting_first->file;
        f->pending_first = NULL;
        f->pending_last = &f->pending_first;
        pending_free(e, e->waiting_first);
    }
}

bool target_wants(const struct kernel_target *t, enum etl_row row)
{
    const struct etl_class_row *c = &etl_rows[row];
    return c->mask_bit == 0 || (t->masks[c->mask] & c->mask_bit) != 0;
}

bool events_wanted(const struct events *e, enum etl_row row)
{
    for (const struct kernel_target *t = e->targets; t; t = t->next)
        if (target_wants(t, row))
            return true;
    return false;
}

void events_lost(struct events *e, enum etl_row row, const struct event_context *c,
                 enum loss_cause cause)
{
    for (struct kernel_target *t = e->targets; t; t = t->next)
        if (target_wants(t, row) && c->stamp >= t->begin && c->stamp <= t->end)
            session_count_lost(t->session, cause, 1);
}

/* Builds into w, with texts cut so that the event is no larger than `limit`. */
typedef int (*build_fn)(struct etl_writer *w, enum etl_row row, const struct event_context *c,
                        uint32_t limit, const void *userdata);

/* `as`: the row whose mask decides (TraceLogging events have none of their own). */
static void emit(struct events *e, enum etl_row row, enum etl_row as, const struct event_context *c,
                 build_fn build, const void *userdata)
{
    int size = -1;

    for (struct kernel_target *t = e->targets; t; t = t->next) {
        if ((c->only && c->only != t) || !target_wants(t, as) || c->stamp < t->begin ||
            c->stamp > t->end)
            continue;
        if (size < 0 || (uint32_t) size > t->max_event) {
            struct etl_writer w = {.data = e->scratch, .cap = sizeof(e->scratch)};
            size = build(&w, row, c, t->max_event, userdata);
        }
        if (size < 0) {
            session_count_lost(t->session, LOSS_TOO_BIG, 1);
            continue;
        }
        router_emit(e->router, row, c->cpu, c->stamp, e->scratch, (uint32_t) size, t->session);
        if ((uint32_t) size < OVERHEAD)
            continue;
        /* Perhaps cut for this one: the next gets its own. */
        size = -1;
    }
}

/* Units or bytes that a text may have. */
static size_t text_room(uint32_t limit, uint32_t used, unsigned unit)
{
    return limit > used + OVERHEAD ? (limit - used - OVERHEAD) / unit : 16;
}

static void put_asz_cut(struct etl_writer *w, const char *s, size_t size, size_t room)
{
    static const char ellipsis[] = "\xE2\x80\xA6";

    if (size <= room) {
        etl_put_asz(w, s, size);
        return;
    }
    room -= sizeof(ellipsis) - 1;
    while (room > 0 && ((uint8_t) s[room] & 0xC0) == 0x80) /* not inside a character */
        room--;
    etl_put(w, s, (uint32_t) room);
    etl_put(w, ellipsis, sizeof(ellipsis));
}

struct fixed_data {
    const void *data;
    uint32_t size;
};

static int build_fixed(struct etl_writer *w, enum etl_row row, const struct event_context *c,
                       uint32_t limit, const void *userdata)
{
    const struct fixed_data *f = userdata;

    etl_event_begin(w, row);
    etl_put(w, f->data, f->size);
    return etl_event_end(w, row, 0, c->tid, c->pid, c->stamp);
}

void events_fixed(struct events *e, enum etl_row row, const struct event_context *c,
                  const void *data, uint32_t size)
{
    emit(e, row, row, c, build_fixed, &(struct fixed_data){data, size});
}

struct process_data {
    const struct process *process;
    int32_t status;
};

static int build_process(struct etl_writer *w, enum etl_row row, const struct event_context *c,
                         uint32_t limit, const void *userdata)
{
    const struct process_data *d = userdata;
    const struct process *p = d->process;
    struct etl_Process_TypeGroup1 f = {
        .UniqueProcessKey = p->unique_key,
        .ProcessId = p->tgid,
        .ParentId = p->parent,
        .SessionId = p->session,
        .ExitStatus = d->status,
    };
    uint8_t sid[ETL_SID_MAX];
    uint32_t sid_size = etl_sid_from_uid(p->uid, sid);
    const char *name = text_str(p->name);
    size_t name_size = p->name ? p->name->size : 0;
    size_t room = text_room(limit, 0, 2);

    if (name_size > room)
        name_size = room;
    room = text_room(limit, (uint32_t) name_size, 2);
    if (room > ETW_COMMAND_LINE_MAX / 2 - 1)
        room = ETW_COMMAND_LINE_MAX / 2 - 1;

    etl_event_begin(w, row);
    etl_put(w, &f, sizeof(f));
    etl_put_user_sid(w, sid, sid_size);
    etl_put_asz(w, name, name_size);
    etl_put_wsz(w, text_str(p->command), p->command ? p->command->size : 0, room);
    etl_put_wsz(w, "", 0, 0); /* PackageFullName */
    etl_put_wsz(w, "", 0, 0); /* ApplicationId */
    return etl_event_end(w, row, 0, c->tid, c->pid, c->stamp);
}

void events_process(struct events *e, enum etl_row row, const struct event_context *c,
                    const struct process *p, int32_t exit_status)
{
    emit(e, row, row, c, build_process, &(struct process_data){p, exit_status});
}

static int build_thread(struct etl_writer *w, enum etl_row row, const struct event_context *c,
                        uint32_t limit, const void *userdata)
{
    const struct thread *th = userdata;
    struct etl_Thread_TypeGroup1 f = {
        .ProcessId = th->process->tgid,
        .ThreadId = th->tid,
        .UserStackBase = th->stack_base,
        .UserStackLimit = th->stack_limit,
        .Affinity = th->affinity,
        .Win32StartAddr = th->entry,
        .TebBase = th->thread_pointer,
        .BasePriority = th->tid ? (uint8_t) etw_priority(th->prio) : 0,
        .PagePriority = PAGE_PRIORITY_NORMAL,
        .IoPriority = IO_PRIORITY_NORMAL,
    };

    etl_event_begin(w, row);
    etl_put(w, &f, sizeof(f));
    etl_put_wsz(w, th->comm, strnlen(th->comm, sizeof(th->comm)), sizeof(th->comm));
    return etl_event_end(w, row, 0, c->tid, c->pid, c->stamp);
}

void events_thread(struct events *e, enum etl_row row, const struct event_context *c,
                   const struct thread *th)
{
    emit(e, row, row, c, build_thread, th);
}

struct exec_data {
    struct etl_LinuxKernel_Exec fixed;
    const char *path;
    size_t path_size;
};

static int build_exec(struct etl_writer *w, enum etl_row row, const struct event_context *c,
                      uint32_t limit, const void *userdata)
{
    const struct exec_data *d = userdata;

    etl_event_begin(w, row);
    etl_put(w, &d->fixed, sizeof(d->fixed));
    put_asz_cut(w, d->path, d->path_size, text_room(limit, 0, 1));
    return etl_event_end(w, row, 0, c->tid, c->pid, c->stamp);
}

void events_exec(struct events *e, const struct event_context *c, uint32_t tgid, uint32_t old_tid,
                 uint64_t old_key, uint64_t new_key, const char *path, size_t path_size)
{
    struct exec_data d = {
        .fixed =
            {
                .ProcessId = tgid,
                .OldThreadId = old_tid,
                .OldUniqueProcessKey = old_key,
                .NewUniqueProcessKey = new_key,
            },
        .path = path,
        .path_size = path_size,
    };
    emit(e, ETL_ROW_LinuxKernel_Exec, ETL_ROW_Process_Start, c, build_exec, &d);
}

struct image_data {
    uint64_t base;
    uint64_t size;
    uint32_t pid;
    const char *path;
    size_t path_size;
    const char *name; /* its last part */
    const struct image_identity *id;
};

static int build_image(struct etl_writer *w, enum etl_row row, const struct event_context *c,
                       uint32_t limit, const void *userdata)
{
    const struct image_data *d = userdata;
    struct etl_Image_TypeGroup1 f = {
        .ImageBase = d->base,
        .ImageSize = d->size,
        .ProcessId = d->pid,
    };

    etl_event_begin(w, row);
    etl_put(w, &f, sizeof(f));
    etl_put_wsz(w, d->path, d->path_size, text_room(limit, 0, 2));
    return etl_event_end(w, row, 0, c->tid, c->pid, c->stamp);
}

static int build_rsds(struct etl_writer *w, enum etl_row row, const struct event_context *c,
                      uint32_t limit, const void *userdata)
{
    const struct image_data *d = userdata;
    struct etl_ImageId_DbgIdRSDS f = {.ImageBase = d->base, .ProcessId = d->pid, .Age = 1};
    uint32_t n = d->id->build_id_size;

    memcpy(&f.GuidSig, d->id->build_id, n < sizeof(f.GuidSig) ? n : sizeof(f.GuidSig));
    etl_event_begin(w, row);
    etl_put(w, &f, sizeof(f));
    put_asz_cut(w, d->name, strlen(d->name), text_room(limit, 0, 1));
    return etl_event_end(w, row, 0, c->tid, c->pid, c->stamp);
}

static int build_build_id(struct etl_writer *w, enum etl_row row, const struct event_context *c,
                          uint32_t limit, const void *userdata)
{
    const struct image_data *d = userdata;
    struct etl_LinuxKernel_ImageBuildId f = {.ProcessId = d->pid, .ImageBase = d->base};

    etl_event_begin(w, row);
    etl_put(w, &f, sizeof(f));
    etl_put_bin(w, d->id->build_id, (uint16_t) d->id->build_id_size);
    put_asz_cut(w, d->path, d->path_size, text_room(limit, 0, 1));
    return etl_event_end(w, row, 0, c->tid, c->pid, c->stamp);
}

static void emit_image(struct events *e, enum etl_row row, const struct event_context *c,
                       const struct image_data *d)
{
    /* Readers look for the identity where an image appears. */
    if ((row == ETL_ROW_Image_Load || row == ETL_ROW_Image_DCStart) && d->id->known &&
        d->id->build_id_size > 0 && d->id->build_id_size <= sizeof(d->id->build_id)) {
        emit(e, ETL_ROW_ImageId_DbgIdRSDS, row, c, build_rsds, d);
        emit(e, ETL_ROW_LinuxKernel_ImageBuildId, row, c, build_build_id, d);
    }
    emit(e, row, row, c, build_image, d);
}

void events_image_known(struct events *e, enum etl_row row, const struct event_context *c,
                        uint32_t pid, uint64_t base, uint64_t size, const char *path,
                        const struct image_identity *id)
{
    const char *slash = strrchr(path, '/');
    struct image_data d = {
        .base = base,
        .size = size,
        .pid = pid,
        .path = path,
        .path_size = strlen(path),
        .name = slash ? slash + 1 : path,
        .id = id,
    };
    emit_image(e, row, c, &d);
}

static void place_and_emit(struct events *e, enum etl_row row, const struct event_context *c,
                           uint32_t pid, const struct image *image)
{
    uint64_t base, size;

    image_place(&image->file->id, image->start, image->end, image->offset, &base, &size);
    events_image_known(e, row, c, pid, base, size, text_str(image->file->path), &image->file->id);
}

/* A question travels with what the answer needs. */
struct question {
    struct events *events;
    struct image_file *file;
};

static void answer(const struct image_identity *id, void *userdata)
{
    struct question *q = userdata;
    struct image_file *f = q->file;
    struct events *e = q->events;
    struct pending_image *p;

    free(q);
    /* What waited and what comes of it change places at once. */
    state_begin(e->state);
    f->waiting = false;
    f->answered = true;
    f->id = *id;
    image_file_touch(f);
    while ((p = f->pending_first)) {
        f->pending_first = p->next_of_file;
        place_and_emit(e, p->row, &p->context, p->pid, &p->image);
        pending_free(e, p);
    }
    f->pending_last = &f->pending_first;
    image_file_unref(f);
    state_commit(e->state);
    if (e->answered)
        e->answered(e->userdata);
}

void events_image_ask(struct events *e, const struct image *image, uint32_t pid, bool appears)
{
    struct image_file *f = image->file;
    int r;

    /* A negative answer may have been that of a process that was gone. */
    if (f->waiting || (f->answered && (f->id.known || !appears)))
        return;
    struct question *q = malloc(sizeof(*q));
    if (q) {
        *q = (struct question){e, image_file_ref(f)};
        r = images_lookup(e->images, &f->key, (int) pid, image->start, image->end,
                          text_str(f->path), answer, q, &f->id);
        if (r == 0) {
            f->waiting = true;
            return;
        }
        free(q);
        image_file_unref(f);
        if (r < 0)
            f->id = (struct image_identity){0};
    }
    f->answered = true;
    image_file_touch(f);
}

/* The stamp of an event that waits. It lands in another buffer than the process's Start or End of
 * the same moment, and readers cannot tell which of two events with one stamp came first. */
static uint64_t waiting_stamp(enum etl_row row, uint64_t stamp)
{
    switch (row) {
    case ETL_ROW_Image_Load:
    case ETL_ROW_Image_DCStart:
        return stamp + 1;
    case ETL_ROW_Image_UnLoad:
        return stamp - 1;
    default:
        return stamp;
    }
}

static void pending_put(struct events *e, struct pending_image *p)
{
    struct image_file *f = p->file;

    p->at = e->waiting_last;
    if (!e->waiting_unkept && !p->block)
        e->waiting_unkept = p;
    *f->pending_last = p;
    f->pending_last = &p->next_of_file;
    *e->waiting_last = p;
    e->waiting_last = &p->next;
    e->n_waiting++;
}

int events_image_restore(struct events *e, const struct pending_image *p)
{
    struct pending_image *own = malloc(sizeof(*own));
    if (!own)
        return -ENOMEM;
    *own = *p;
    own->image.file = own->file;
    own->next_of_file = own->next = NULL;
    pending_put(e, own);
    if (p->number >= e->waiting_next)
        e->waiting_next = p->number + 1;
    return 0;
}

void events_image_ask_again(struct events *e)
{
    static const struct image_identity unknown;
    struct pending_image *p = e->waiting_first;

    while (p) {
        struct image_file *f = p->file;
        if (!f->waiting && !f->answered)
            events_image_ask(e, &p->image, p->pid, true);
        if (f->waiting) {
            p = p->next;
            continue;
        }
        /* Answered at once: all of this file go. */
        struct question *q = malloc(sizeof(*q));
        if (!q)
            return; /* the next answer about the file takes them along */
        *q = (struct question){e, image_file_ref(f)};
        struct image_identity id = f->answered ? f->id : unknown;
        answer(&id, q);
        p = e->waiting_first;
    }
}

void events_image(struct events *e, enum etl_row row, const struct event_context *c, uint32_t pid,
                  const struct image *image)
{
    struct image_file *f = image->file;

    if (!events_wanted(e, row))
        return;
    events_image_ask(e, image, pid, row == ETL_ROW_Image_Load || row == ETL_ROW_Image_DCStart);
    if (f->waiting) {
        /* A helper that hangs beside a storm of forks: the rest goes without identity. */
        struct pending_image *p = e->n_waiting < ETW_IMAGE_WAITERS_MAX ? malloc(sizeof(*p)) : NULL;
        if (p) {
            *p = (struct pending_image){
                .file = image_file_ref(f),
                .image = *image,
                .row = row,
                .context = *c,
                .pid = pid,
                .number = e->waiting_next++,
            };
            p->context.stamp = waiting_stamp(row, c->stamp);
            pending_put(e, p);
            return;
        }
    }
    place_and_emit(e, row, c, pid, image);
}

uint64_t events_waiting(const struct events *e)
{
    return e->waiting_first ? e->waiting_first->number : e->waiting_next;
}
