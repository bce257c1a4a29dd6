/* SPDX-License-Identifier: Apache-2.0
 *
 * The finisher: raw records in, changes of the process table and events out. Loop thread only.
 *
 * Records may be missing (a ring was full) and may tell what a walk has told already (the walk sees
 * the machine some milliseconds after the moment it stands for). So nothing here trusts that a
 * process is known, or unknown: identity is (tgid, start time, exec number), what is already in the
 * table with that identity is not told again, and what is missing is learned from the record.
 */
#include "finish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"

/* Switch-out stamps by tid: direct-mapped, tagged. Twice the default pid_max of a small machine; a
 * collision only makes a wait time unknown. */
#define SWITCH_SLOTS 65536u
/* A process whose last thread began to exit, but of whose threads an exit is missing: it has been
 * lost, or that thread sleeps on its way. Then it ends without. */
#define DYING_NS (2 * ETW_NSEC_PER_SEC)
#define TICK_NS (ETW_TIMER_RESOLUTION * 100ULL)

struct switch_slot {
    uint64_t stamp;
    uint32_t tid;
};

struct finish {
    struct process_table *table;
    struct events *events;
    bool processes, images;
    bool lossy;                   /* the table may hold what is gone */
    struct switch_slot *switches; /* SWITCH_SLOTS, made at first use */
};

int finish_new(struct process_table *table, struct events *events, struct finish **ret)
{
    struct finish *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->table = table;
    f->events = events;
    *ret = f;
    return 0;
}

struct finish *finish_free(struct finish *f)
{
    if (!f)
        return NULL;
    free(f->switches);
    free(f);
    return NULL;
}

void finish_follow(struct finish *f, bool processes, bool images)
{
    if (f->processes && !processes)
        process_table_clear(f->table);
    else if (f->images && !images)
        process_table_forget_images(f->table);
    f->processes = processes;
    f->images = processes && images;
}

void finish_restore(struct finish *f, bool processes, bool images, bool lossy)
{
    f->processes = processes;
    f->images = processes && images;
    f->lossy = lossy;
}

void finish_rest(struct finish *f)
{
    free(f->switches);
    f->switches = NULL;
}

bool finish_follows(const struct finish *f, bool *ret_images)
{
    *ret_images = f->images;
    return f->processes;
}

int32_t finish_exit_status(int32_t wait_status)
{
    int32_t signal = wait_status & 0x7f;
    return signal ? 128 + signal : (wait_status >> 8) & 0xff;
}

/* A copy that is as long as the struct and whose texts end. */
#define TAKE(rec, type, ret)                                                                       \
    ((rec)->size >= sizeof(*(rec)) + sizeof(type) ? (memcpy(ret, (rec) + 1, sizeof(type)), true)   \
                                                  : false)

/* The text of `size` bytes at `at` in the data behind the struct; NULL: the record is shorter. */
static const char *record_text(const struct etl_record *rec, size_t struct_size, uint32_t at,
                               uint32_t size)
{
    uint64_t end = sizeof(*rec) + struct_size + (uint64_t) at + size;
    return end <= rec->size ? (const char *) (rec + 1) + struct_size + at : NULL;
}

static struct text *comm_text(const struct raw_task *task)
{
    return text_new(task->comm, strnlen(task->comm, sizeof(task->comm)));
}

static void unload_all(struct finish *f, const struct event_context *c, struct process *p)
{
    for (size_t i = 0; i < p->n_images; i++)
        events_image(f->events, ETL_ROW_Image_UnLoad, c, p->tgid, &p->images[i]);
    images_clear(p);
}

static void end_process(struct finish *f, const struct event_context *c, struct process *p)
{
    while (p->threads)
        thread_remove(f->table, p->threads);
    unload_all(f, c, p);
    events_process(f->events, ETL_ROW_Process_End, c, p, finish_exit_status(p->status));
    process_remove(f->table, p);
}

/* Another process has that number now: of this one the last records have been lost, or wait for an
 * exit that was lost. */
static void retire(struct finish *f, const struct event_context *c, struct process *p)
{
    struct event_context own = *c;

    own.tid = own.pid = p->tgid;
    if (p->dying)
        end_process(f, &own, p);
    else
        process_remove(f->table, p);
}

/* A process that should be in the table, but is not: a record of it has been lost, or it came and
 * went around the walk. */
static struct process *learn(struct finish *f, const struct event_context *c,
                             const struct raw_task *task)
{
    struct process *p = process_find(f->table, task->tgid);

    if (p && p->start == task->leader_start)
        return p;
    if (p)
        retire(f, c, p);
    if (process_add(f->table, task, &p) < 0)
        return NULL;
    process_set_name(p, comm_text(task));
    return p;
}

/* The same, and whoever traced when it began gets it as one that was there: late. */
static struct process *learn_and_tell(struct finish *f, const struct raw_task *task,
                                      const struct event_context *c)
{
    struct process *known = process_find(f->table, task->tgid);
    struct process *p = learn(f, c, task);

    if (!p || p == known)
        return p;
    for (struct kernel_target *t = f->events->targets; t; t = t->next) {
        struct event_context dc = {t->begin, c->cpu, task->tid, task->tgid, t};
        if (task->leader_start <= t->begin && c->stamp <= t->end)
            events_process(f->events, ETL_ROW_Process_DCStart, &dc, p, EXIT_STATUS_RUNNING);
    }
    return p;
}

static void on_fork(struct finish *f, const struct event_context *c, const struct raw_fork *r)
{
    struct process *parent = process_find(f->table, r->creator_tgid);
    struct process *p = process_find(f->table, r->task.tgid);
    struct thread *th;

    if (p && p->start == r->task.leader_start)
        return; /* the walk saw it */
    if (p)
        retire(f, c, p);
    th = thread_find(f->table, r->task.tid);
    if (th)
        thread_remove(f->table, th);
    if (process_add(f->table, &r->task, &p) < 0)
        return;
    if (parent && parent != p && !p->kernel) {
        process_set_name(p, text_ref(parent->name));
        process_set_command(p, text_ref(parent->command));
    }
    if (!p->name)
        process_set_name(p, comm_text(&r->task));
    events_process(f->events, ETL_ROW_Process_Start, c, p, EXIT_STATUS_RUNNING);
    if (thread_add(f->table, p, &r->task, &th) == 0)
        events_thread(f->events, ETL_ROW_Thread_Start, c, th);
    p->images_known = f->images;
    if (!f->images || !parent || images_copy(p, parent) < 0)
        return;
    struct event_context own = *c;
    own.tid = r->task.tid;
    own.pid = r->task.tgid;
    for (size_t i = 0; i < p->n_images; i++)
        events_image(f->events, ETL_ROW_Image_Load, &own, p->tgid, &p->images[i]);
}

static void on_thread(struct finish *f, const struct event_context *c, const struct raw_fork *r)
{
    struct process *p = learn_and_tell(f, &r->task, c);
    struct thread *th = thread_find(f->table, r->task.tid);

    if (!p)
        return;
    if (th && th->start == r->task.start)
        return; /* the walk saw it */
    if (th)
        thread_remove(f->table, th);
    if (thread_add(f->table, p, &r->task, &th) == 0)
        events_thread(f->events, ETL_ROW_Thread_Start, c, th);
}

/* The last part of a path. */
static const char *base_name(const char *path, size_t size, size_t *ret_size)
{
    const char *slash = memrchr(path, '/', size);
    size_t skip = slash ? (size_t) (slash - path) + 1 : 0;

    *ret_size = size - skip;
    return path + skip;
}

/* Arguments are separated by NUL; a command line by blanks. The last one's NUL goes. */
struct text *finish_command_text(const char *args, size_t size, bool cut)
{
    static const char ellipsis[] = "\xE2\x80\xA6";

    while (size > 0 && args[size - 1] == '\0')
        size--;
    struct text *t = text_new(NULL, cut ? size + sizeof(ellipsis) - 1 : size);
    if (!t)
        return NULL;
    for (size_t i = 0; i < size; i++)
        t->s[i] = args[i] == '\0' ? ' ' : args[i];
    if (cut)
        memcpy(t->s + size, ellipsis, sizeof(ellipsis) - 1);
    return t;
}

static void on_exec(struct finish *f, const struct event_context *c, const struct raw_exec *r,
                    const char *path, const char *args)
{
    struct process *p = process_find(f->table, r->task.tgid);
    bool known = p && p->start == r->task.leader_start;
    uint64_t old_key =
        process_key(f->table, r->task.tgid, r->task.leader_start, r->task.exec_id - 1);
    struct thread *th;
    size_t name_size;
    const char *name = base_name(path, r->path_size, &name_size);

    if (known && p->exec_id >= r->task.exec_id)
        return; /* the walk saw the new program */

    if (known) {
        th = thread_find(f->table, r->old_tid);
        if (th && th->process == p) {
            events_thread(f->events, ETL_ROW_Thread_End, c, th);
            thread_remove(f->table, th);
        }
        unload_all(f, c, p);
        events_process(f->events, ETL_ROW_Process_End, c, p, 0);
        old_key = p->unique_key;
        /* The others' Ends came from their exits; who is left is one whose exit has been lost. */
        while (p->threads)
            thread_remove(f->table, p->threads);
        process_exec(f->table, p, &r->task);
    } else {
        p = learn(f, c, &r->task);
        if (!p)
            return;
    }
    p->images_known = f->images;
    /* fexecve: a path of no use. */
    if (name_size == 0 || (r->path_size > 8 && memcmp(path, "/dev/fd/", 8) == 0))
        process_set_name(p, comm_text(&r->task));
    else
        process_set_name(p, text_new(name, name_size));
    process_set_command(p, finish_command_text(args, r->args_size, r->args_cut != 0));

    struct event_context now = *c;
    now.tid = r->task.tid;
    now.pid = r->task.tgid;
    events_process(f->events, ETL_ROW_Process_Start, &now, p, EXIT_STATUS_RUNNING);
    th = thread_find(f->table, r->task.tid);
    if (th)
        thread_remove(f->table, th);
    if (thread_add(f->table, p, &r->task, &th) == 0)
        events_thread(f->events, ETL_ROW_Thread_Start, &now, th);
    events_exec(f->events, &now, p->tgid, r->old_tid, old_key, p->unique_key, path, r->path_size);
}

static void on_exit_of_thread(struct finish *f, const struct event_context *c,
                              const struct raw_exit *r, bool last)
{
    struct process *p = learn_and_tell(f, &r->task, c);
    struct thread *th = thread_find(f->table, r->task.tid);

    if (!p)
        return;
    if (!th || th->process != p) {
        if (th)
            thread_remove(f->table, th);
        if (thread_add(f->table, p, &r->task, &th) < 0)
            return;
    }
    thread_refresh(th, &r->task);
    events_thread(f->events, ETL_ROW_Thread_End, c, th);
    thread_remove(f->table, th);
    if (p->kernel) /* named only after its birth */
        process_set_name(p, comm_text(&r->task));
    if (last && !p->dying) {
        p->dying = true;
        p->status = r->status;
        p->dying_since = c->stamp;
    }
    if (!p->dying)
        return;
    process_refresh(p, &r->task);
    if (p->n_threads == 0) {
        end_process(f, c, p);
    } else {
        process_dying(f->table, p);
    }
}

/* Ends those that have waited too long for an exit that does not come. */
static void end_overdue(struct finish *f, const struct event_context *c)
{
    struct process *p;

    while ((p = process_dying_first(f->table)) && p->dying_since + DYING_NS < c->stamp) {
        struct event_context own = *c;
        own.tid = own.pid = p->tgid;
        end_process(f, &own, p);
    }
}

static void on_map(struct finish *f, const struct event_context *c, const struct raw_map *r,
                   const char *path)
{
    struct process *p = process_find(f->table, r->tgid);
    struct image_file *file;
    size_t i;

    if (!f->images || !p || p->start != r->leader_start || p->exec_id != r->exec_id ||
        r->start >= r->end)
        return;
    if (image_file_of(f->table, r, path, &file) < 0)
        return;
    while (image_overlap(p, r->start, r->end, &i) == 0) {
        struct image *old = &p->images[i];
        if (old->file == file && old->start == r->start && old->end == r->end) {
            image_file_unref(file); /* the walk saw it */
            return;
        }
        events_image(f->events, ETL_ROW_Image_UnLoad, c, p->tgid, old);
        image_remove(p, i);
    }
    if (image_add(p, r->start, r->end, r->offset, file) < 0) {
        image_file_unref(file);
        events_lost(f->events, ETL_ROW_Image_Load, c, LOSS_QUOTA);
        return;
    }
    struct image image = {r->start, r->end, r->offset, file};
    events_image(f->events, ETL_ROW_Image_Load, c, p->tgid, &image);
}

static void on_unmap(struct finish *f, const struct event_context *c, const struct raw_unmap *r)
{
    struct process *p = process_find(f->table, r->tgid);
    size_t i;

    if (!f->images || !p)
        return;
    while (image_overlap(p, r->start, r->end, &i) == 0) {
        events_image(f->events, ETL_ROW_Image_UnLoad, c, p->tgid, &p->images[i]);
        image_remove(p, i);
    }
}

/* False: the record cannot hold what it says. */
static bool take(struct finish *f, const struct etl_record *rec, struct event_context c)
{
    switch (rec->registration) {
    case RAW_FORK:
    case RAW_THREAD: {
        struct raw_fork r;
        if (!TAKE(rec, struct raw_fork, &r))
            return false;
        c.tid = r.creator_tid;
        c.pid = r.creator_tgid;
        if (rec->registration == RAW_FORK)
            on_fork(f, &c, &r);
        else
            on_thread(f, &c, &r);
        break;
    }
    case RAW_EXEC: {
        struct raw_exec r;
        if (!TAKE(rec, struct raw_exec, &r))
            return false;
        const char *path = record_text(rec, sizeof(r), 0, r.path_size);
        const char *args = record_text(rec, sizeof(r), r.args_offset, r.args_size);
        if (!path || !args)
            return false;
        c.tid = r.old_tid;
        c.pid = r.task.tgid;
        on_exec(f, &c, &r, path, args);
        break;
    }
    case RAW_EXIT:
    case RAW_EXIT_LAST: {
        struct raw_exit r;
        if (!TAKE(rec, struct raw_exit, &r))
            return false;
        c.tid = r.task.tid;
        c.pid = r.task.tgid;
        on_exit_of_thread(f, &c, &r, rec->registration == RAW_EXIT_LAST);
        break;
    }
    case RAW_MAP: {
        struct raw_map r;
        if (!TAKE(rec, struct raw_map, &r))
            return false;
        const char *path = record_text(rec, sizeof(r), 0, r.path_size);
        if (!path)
            return false;
        c.tid = r.tid;
        c.pid = r.tgid;
        on_map(f, &c, &r, path);
        break;
    }
    case RAW_UNMAP: {
        struct raw_unmap r;
        if (!TAKE(rec, struct raw_unmap, &r))
            return false;
        c.tid = r.tid;
        c.pid = r.tgid;
        on_unmap(f, &c, &r);
        break;
    }
    default:
        return false;
    }
    return true;
}

void finish_raw(void *userdata, const struct etl_record *rec, uint64_t stamp)
{
    struct finish *f = userdata;
    struct event_context c = {.stamp = stamp, .cpu = rec->cpu};

    if (!f->processes)
        return;
    end_overdue(f, &c);
    if (take(f, rec, c))
        return;
    for (struct kernel_target *t = f->events->targets; t; t = t->next)
        if (t->end == UINT64_MAX)
            session_count_lost(t->session, LOSS_INVALID, 1);
}

/* NewThreadWaitTime: ticks since the thread was switched out; 0 unknown. */
void finish_touch(void *userdata, enum etl_row row, void *event, uint64_t stamp, uint16_t cpu)
{
    struct finish *f = userdata;
    struct etl_Thread_CSwitch *e =
        (void *) ((uint8_t *) event + sizeof(struct etl_perfinfo_header));

    if (row != ETL_ROW_Thread_CSwitch)
        return;
    if (!f->switches) {
        f->switches = calloc(SWITCH_SLOTS, sizeof(*f->switches));
        if (!f->switches)
            return;
    }
    if (e->OldThreadId)
        f->switches[e->OldThreadId % SWITCH_SLOTS] = (struct switch_slot){stamp, e->OldThreadId};
    if (e->NewThreadId) {
        const struct switch_slot *s = &f->switches[e->NewThreadId % SWITCH_SLOTS];
        if (s->tid == e->NewThreadId && s->stamp <= stamp)
            e->NewThreadWaitTime = (uint32_t) ((stamp - s->stamp) / TICK_NS);
    }
}

void finish_count_lost(struct finish *f, unsigned index, uint64_t n)
{
    /* What one record of a kind becomes. Unmaps are told at the end of the process after all. */
    static const enum etl_row of_kind[RAW_KINDS][6] = {
        [RAW_FORK] = {ETL_ROW_Process_Start, ETL_ROW_Thread_Start},
        [RAW_THREAD] = {ETL_ROW_Thread_Start},
        [RAW_EXEC] = {ETL_ROW_Thread_End, ETL_ROW_Process_End, ETL_ROW_Process_Start,
                      ETL_ROW_Thread_Start, ETL_ROW_Process_Start /* Exec goes with it */},
        [RAW_EXIT] = {ETL_ROW_Thread_End},
        [RAW_EXIT_LAST] = {ETL_ROW_Thread_End, ETL_ROW_Process_End},
        [RAW_MAP] = {ETL_ROW_Image_Load},
    };
    enum etl_row one[2] = {(enum etl_row) index, 0};
    const enum etl_row *rows = one;

    if (index >= LOST_COUNT)
        return;
    if (index >= ETL_ROW_COUNT) {
        rows = of_kind[index - ETL_ROW_COUNT];
        f->lossy = true;
    }
    for (struct kernel_target *t = f->events->targets; t; t = t->next) {
        uint64_t events = 0;
        for (const enum etl_row *row = rows; *row != ETL_ROW_EventTrace_Header; row++)
            events += target_wants(t, *row);
        if (events > 0 && t->end == UINT64_MAX)
            session_count_lost(t->session, LOSS_PROBE_RING_FULL, events * n);
    }
}

bool finish_lost(struct finish *f)
{
    bool lossy = f->lossy;
    f->lossy = false;
    return lossy;
}

bool finish_is_lossy(const struct finish *f)
{
    return f->lossy;
}
