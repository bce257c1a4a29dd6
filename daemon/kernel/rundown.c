/* SPDX-License-Identifier: Apache-2.0
 *
 * Rundown, see rundown.h. Loop thread only.
 */
#include "rundown.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kernel/sysconfig.h"

/* Free buffers that a rundown leaves to others, who write little at the same time. */
#define LEFT_LOW_MAX 16u

/* What a process is called that began before we looked: its comm, since that is what was asked for
 * (a shell started as `sh` stays `sh` although the file is dash); and since comm has 15 characters
 * the file's name where that goes on from there. */
static struct text *walked_name(const struct raw_walk_task *t)
{
    size_t comm = strnlen(t->task.comm, sizeof(t->task.comm));
    size_t exe = t->exe_size < sizeof(t->exe) ? t->exe_size : sizeof(t->exe) - 1;

    if (comm == sizeof(t->task.comm) - 1 && exe > comm && memcmp(t->exe, t->task.comm, comm) == 0)
        return text_new(t->exe, exe);
    return text_new(t->task.comm, comm);
}

static struct text *walked_command(const struct walk *w, uint32_t tgid)
{
    const struct walk_command *c = walk_command_find(w, tgid);
    return c ? finish_command_text(c->args, c->size, c->size >= RAW_ARGS_MAX) : NULL;
}

static void apply_task(struct process_table *table, const struct walk *w,
                       const struct raw_walk_task *t, uint64_t stamp)
{
    const struct raw_task *task = &t->task;
    struct process *p = process_find(table, task->tgid);
    struct thread *th = thread_find(table, task->tid);

    if (task->leader_start > stamp || task->start > stamp)
        return;
    if (p && p->start != task->leader_start) {
        process_remove(table, p);
        p = NULL;
        th = thread_find(table, task->tid);
    }
    if (!p) {
        if (process_add(table, task, &p) < 0)
            return;
        process_set_name(p, walked_name(t));
        process_set_command(p, walked_command(w, task->tgid));
    } else if (p->exec_id != task->exec_id) {
        return; /* it runs another program since: its record comes */
    } else if (task->tid == task->tgid) {
        process_refresh(p, task);
        if (p->kernel)
            process_set_name(p, walked_name(t));
    }
    if (th && (th->process != p || th->start != task->start)) {
        thread_remove(table, th);
        th = NULL;
    }
    if (th)
        thread_refresh(th, task);
    else
        (void) thread_add(table, p, task, &th);
}

static void apply_map(struct process_table *table, const struct raw_map *m, const char *path)
{
    struct process *p = process_find(table, m->tgid);
    struct image_file *file;
    size_t i;

    if (!p || p->images_known || p->start != m->leader_start || p->exec_id != m->exec_id ||
        m->start >= m->end || image_overlap(p, m->start, m->end, &i) == 0)
        return;
    if (image_file_of(table, m, path, &file) < 0)
        return;
    if (image_add(p, m->start, m->end, m->offset, file) < 0)
        image_file_unref(file);
}

void rundown_apply(struct process_table *table, const struct walk *w, uint64_t stamp, bool images)
{
    const struct etl_record *rec;
    size_t offset = 0;

    while ((rec = walk_next(w, &offset))) {
        if (rec->registration == RAW_TASK) {
            struct raw_walk_task t;
            memcpy(&t, rec + 1, sizeof(t));
            apply_task(table, w, &t, stamp);
        } else if (rec->registration == RAW_MAP && images) {
            struct raw_map m;
            memcpy(&m, rec + 1, sizeof(m));
            if (m.path_size <= rec->size - sizeof(*rec) - sizeof(m))
                apply_map(table, &m, (const char *) (rec + 1) + sizeof(m));
        }
    }
    if (!images)
        return;
    size_t n;
    struct process **list = process_table_list(table, &n);
    for (size_t i = 0; i < n; i++) {
        list[i]->images_known = true;
        process_touch(list[i]);
    }
    free(list);
}

void rundown_refresh(struct finish *f, struct process_table *table, const struct walk *w)
{
    const struct etl_record *rec;
    uint64_t began = UINT64_MAX;
    size_t offset = 0, n;

    struct process **list = process_table_list(table, &n);
    while ((rec = walk_next(w, &offset))) {
        struct raw_walk_task t;
        if (rec->registration != RAW_TASK)
            continue;
        memcpy(&t, rec + 1, sizeof(t));
        if (t.stamp < began)
            began = t.stamp;
        struct thread *th = thread_find(table, t.task.tid);
        if (!th || th->start != t.task.start || th->process->tgid != t.task.tgid)
            continue;
        th->seen = th->process->seen = true;
        if (th->process->exec_id != t.task.exec_id)
            continue;
        thread_refresh(th, &t.task);
        if (t.task.tid != t.task.tgid)
            continue;
        process_refresh(th->process, &t.task);
        if (th->process->kernel)
            process_set_name(th->process, walked_name(&t));
    }
    bool lossy = finish_lost(f);
    for (size_t i = 0; i < n; i++) {
        struct thread *next;
        for (struct thread *th = list[i]->threads; th; th = next) {
            next = th->sibling;
            if (lossy && !th->seen && th->start < began)
                thread_remove(table, th);
            else
                th->seen = false;
        }
        if (lossy && !list[i]->seen && list[i]->start < began)
            process_remove(table, list[i]);
        else
            list[i]->seen = false;
    }
    free(list);
}

/* What is being described. Each step is some events of one process. Part of the state's format. */
enum phase { PHASE_HEAD, PHASE_IDLE, PHASE_THREADS, PHASE_IMAGES, PHASE_TAIL, PHASE_DONE };

struct rundown {
    struct rundown_params p;
    enum phase phase;
    struct process **list; /* by tgid */
    size_t n, at;
    struct thread *thread; /* the next one */
    uint32_t threads;      /* that have been described */
    size_t image;
    uint32_t left_low; /* buffers: at that many it waits */
};

/* Where a predecessor left off. The table is as it was then, but for processes that could not be
 * handed on. */
static void go_on(struct rundown *r, const struct rundown_progress *from)
{
    r->phase = from->phase <= PHASE_DONE ? (enum phase) from->phase : PHASE_DONE;
    if (r->phase != PHASE_THREADS && r->phase != PHASE_IMAGES)
        return;
    while (r->at < r->n && r->list[r->at]->tgid < from->tgid)
        r->at++;
    if (r->at == r->n) {
        r->phase = PHASE_TAIL;
        return;
    }
    const struct process *p = r->list[r->at];
    r->thread = p->threads;
    if (p->tgid != from->tgid) {
        r->phase = PHASE_THREADS;
        return;
    }
    for (; r->threads < from->threads && r->thread; r->threads++)
        r->thread = r->thread->sibling;
    r->image = from->image;
}

int rundown_new(const struct rundown_params *p, const struct rundown_progress *from,
                struct rundown **ret)
{
    uint32_t maximum = session_properties(p->target->session)->maximum_buffers;

    struct rundown *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->p = *p;
    r->left_low = maximum / 4 < LEFT_LOW_MAX ? maximum / 4 : LEFT_LOW_MAX;
    if (process_table_size(p->table) > 0) {
        r->list = process_table_list(p->table, &r->n);
        if (!r->list) {
            free(r);
            return -ENOMEM;
        }
    }
    if (from)
        go_on(r, from);
    *ret = r;
    return 0;
}

void rundown_progress(const struct rundown *r, struct rundown_progress *ret)
{
    *ret = (struct rundown_progress){
        .phase = r->phase,
        .tgid = r->at < r->n ? r->list[r->at]->tgid : 0,
        .threads = r->threads,
        .image = (uint32_t) r->image,
    };
}

bool rundown_progress_done(const struct rundown_progress *p)
{
    return p->phase >= PHASE_DONE;
}

struct rundown *rundown_free(struct rundown *r)
{
    if (!r)
        return NULL;
    free(r->list);
    free(r);
    return NULL;
}

static void masks_event(struct events *e, struct kernel_target *t, uint64_t stamp, enum etl_row row,
                        const uint32_t masks[8])
{
    struct event_context c = {
        .stamp = stamp,
        .tid = (uint32_t) gettid(),
        .pid = (uint32_t) getpid(),
        .only = t,
    };
    struct etl_EventTrace_Extension x = {.KernelEventVersion = ETL_KERNEL_EVENT_VERSION};

    _Static_assert(offsetof(struct etl_EventTrace_Extension, KernelEventVersion) == 32,
                   "eight masks");
    memcpy(&x, masks, 32);
    events_fixed(e, row, &c, &x, sizeof(x));
}

static void complete_event(struct events *e, struct kernel_target *t, uint64_t stamp)
{
    struct event_context c = {.stamp = stamp, .only = t};
    events_fixed(e, ETL_ROW_EventTrace_RDComplete, &c, NULL, 0);
}

static const uint32_t no_masks[8];

static void head(const struct rundown_params *p)
{
    struct events *e = p->events;
    struct kernel_target *t = p->target;

    switch (p->kind) {
    case RUNDOWN_START:
        masks_event(e, t, p->stamp, ETL_ROW_EventTrace_EndExtension, no_masks);
        if (p->sysconfig)
            sysconfig_emit_network(p->sysconfig, e->router, t->session, p->stamp);
        masks_event(e, t, p->stamp, ETL_ROW_EventTrace_Extension, t->masks);
        if (p->sysconfig)
            sysconfig_emit(p->sysconfig, e->router, t->session, p->stamp);
        break;
    case RUNDOWN_UPDATE:
        masks_event(e, t, p->stamp, ETL_ROW_EventTrace_EndExtension, p->old_masks);
        masks_event(e, t, p->stamp, ETL_ROW_EventTrace_Extension, t->masks);
        break;
    case RUNDOWN_END:
        if (p->sysconfig)
            sysconfig_emit(p->sysconfig, e->router, t->session, p->stamp);
        masks_event(e, t, p->stamp, ETL_ROW_EventTrace_EndExtension, t->masks);
        break;
    }
}

/* pid 0: one thread a CPU, all of them tid 0, and the kernel. */
static void describe_idle(const struct rundown_params *p)
{
    bool end = p->kind == RUNDOWN_END;
    struct event_context c = {.stamp = p->stamp, .only = p->target};
    struct process idle = {.name = text_new("Idle", 4)};
    struct thread th = {.process = &idle};

    idle.unique_key = process_key(p->table, 0, 0, 0);
    if (!end)
        events_process(p->events, ETL_ROW_Process_DCStart, &c, &idle, 0);
    for (unsigned cpu = 0; cpu < p->cpus; cpu++) {
        th.affinity = cpu < 64 ? 1ULL << cpu : 0;
        (void) snprintf(th.comm, sizeof(th.comm), "swapper/%u", cpu % 10000000u);
        events_thread(p->events, end ? ETL_ROW_Thread_DCEnd : ETL_ROW_Thread_DCStart, &c, &th);
    }
    if (end)
        events_process(p->events, ETL_ROW_Process_DCEnd, &c, &idle, 0);
    events_image_known(p->events, end ? ETL_ROW_Image_DCEnd : ETL_ROW_Image_DCStart, &c, 0,
                       p->kernel->base, p->kernel->size, "vmlinux", &p->kernel->id);
    text_unref(idle.name);
}

/* The next process begins, or all have been described. */
static void next_process(struct rundown *r)
{
    if (r->at == r->n) {
        r->phase = PHASE_TAIL;
        return;
    }
    r->thread = r->list[r->at]->threads;
    r->threads = 0;
    r->image = 0;
    r->phase = PHASE_THREADS;
}

/* One event, or a few. The process comes before its threads at the start, after them at the end. */
static void describe_threads(struct rundown *r)
{
    const struct process *p = r->list[r->at];
    bool end = r->p.kind == RUNDOWN_END;
    struct event_context c = {
        .stamp = r->p.stamp, .tid = p->tgid, .pid = p->tgid, .only = r->p.target};

    if (!end && r->threads == 0)
        events_process(r->p.events, ETL_ROW_Process_DCStart, &c, p, EXIT_STATUS_RUNNING);
    if (r->thread) {
        c.tid = r->thread->tid;
        events_thread(r->p.events, end ? ETL_ROW_Thread_DCEnd : ETL_ROW_Thread_DCStart, &c,
                      r->thread);
        r->thread = r->thread->sibling;
        r->threads++;
    }
    if (r->thread)
        return;
    c.tid = p->tgid;
    if (end)
        events_process(r->p.events, ETL_ROW_Process_DCEnd, &c, p, EXIT_STATUS_RUNNING);
    r->phase = PHASE_IMAGES;
}

static void describe_image(struct rundown *r)
{
    const struct process *p = r->list[r->at];
    struct event_context c = {
        .stamp = r->p.stamp, .tid = p->tgid, .pid = p->tgid, .only = r->p.target};

    if (r->image < p->n_images) {
        events_image(r->p.events,
                     r->p.kind == RUNDOWN_END ? ETL_ROW_Image_DCEnd : ETL_ROW_Image_DCStart, &c,
                     p->tgid, &p->images[r->image]);
        r->image++;
        return;
    }
    r->at++;
    next_process(r);
}

bool rundown_step(struct rundown *r, bool pace)
{
    struct kernel_target *t = r->p.target;
    uint32_t masks[8];

    if (r->phase == PHASE_HEAD) {
        head(&r->p);
        r->phase = PHASE_IDLE;
    }
    /* An update: what was on has been described already. */
    memcpy(masks, t->masks, sizeof(masks));
    for (unsigned i = 0; i < 8 && r->p.kind == RUNDOWN_UPDATE; i++)
        t->masks[i] &= ~r->p.old_masks[i];
    while (r->phase < PHASE_TAIL && (!pace || session_buffers_left(t->session) > r->left_low)) {
        if (r->phase == PHASE_IDLE) {
            describe_idle(&r->p);
            next_process(r);
        } else if (r->phase == PHASE_THREADS)
            describe_threads(r);
        else
            describe_image(r);
    }
    memcpy(t->masks, masks, sizeof(masks));
    if (r->phase == PHASE_TAIL) {
        if (r->p.kind != RUNDOWN_END)
            complete_event(r->p.events, t, r->p.stamp);
        r->phase = PHASE_DONE;
    }
    return r->phase == PHASE_DONE;
}

void rundown_finish(struct events *e, struct kernel_target *t, uint64_t stamp)
{
    masks_event(e, t, stamp, ETL_ROW_EventTrace_Extension, no_masks);
    complete_event(e, t, stamp);
}

/* The build-id among the kernel's own notes. */
static void read_notes(struct image_identity *id)
{
    uint8_t notes[4096];
    size_t size = 0, at = 0;

    _cleanup_fclose_ FILE *f = fopen("/sys/kernel/notes", "re");
    if (f)
        size = fread(notes, 1, sizeof(notes), f);
    while (size - at >= 12) {
        uint32_t h[3]; /* name size, descriptor size, type */
        memcpy(h, notes + at, sizeof(h));
        at += sizeof(h);
        size_t name = ALIGN_UP((size_t) h[0], 4), desc = ALIGN_UP((size_t) h[1], 4);
        if (name > size - at || desc > size - at - name)
            return;
        if (h[2] == 3 /* NT_GNU_BUILD_ID */ && h[0] == 4 && memcmp(notes + at, "GNU", 4) == 0 &&
            h[1] > 0 && h[1] <= sizeof(id->build_id)) {
            memcpy(id->build_id, notes + at + name, h[1]);
            id->build_id_size = h[1];
            id->known = true;
            return;
        }
        at += name + desc;
    }
}

void kernel_image_read(struct kernel_image *ret)
{
    char line[512];
    uint64_t text = 0, end = 0;

    *ret = (struct kernel_image){0};
    read_notes(&ret->id);
    _cleanup_fclose_ FILE *f = fopen("/proc/kallsyms", "re");
    if (!f)
        return;
    while ((!text || !end) && fgets(line, sizeof(line), f)) {
        /* Zeros for those who may not know. */
        if (strncmp(line, "0000000000000000", 16) == 0)
            return;
        if (strstr(line, " _text\n"))
            text = strtoull(line, NULL, 16);
        else if (strstr(line, " _end\n"))
            end = strtoull(line, NULL, 16);
    }
    ret->base = text;
    ret->size = end > text ? end - text : 0;
}
