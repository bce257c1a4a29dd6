/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of processes, threads and image files: three hash tables with chains, keyed by tgid,
 * tid and file identity. Loop thread only.
 */
#include "process_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/siphash.h"

/* Buckets at first; doubled when there are as many entries. */
#define BUCKETS_MIN 256u

struct process_table {
    uint8_t boot_key[16];
    uint8_t hash_key[16];
    struct process **processes;
    size_t n_processes, process_buckets;
    struct thread **threads;
    size_t n_threads, thread_buckets;
    struct image_file **files;
    size_t n_files, file_buckets;
    struct process *dying, **dying_last;
    uint64_t next_number; /* of a file */
    /* For whoever hands the table on; gone NULL: nobody does. */
    void (*gone)(void *userdata, void *block);
    void *userdata;
    struct process *changed;
    struct image_file *changed_files;
};

struct text *text_new(const char *s, size_t size)
{
    struct text *t;

    if (size > UINT32_MAX - sizeof(*t) - 1)
        return NULL;
    t = malloc(sizeof(*t) + size + 1);
    if (!t)
        return NULL;
    t->refs = 1;
    t->size = (uint32_t) size;
    if (s)
        memcpy(t->s, s, size);
    t->s[size] = '\0';
    return t;
}

struct text *text_ref(struct text *t)
{
    if (t)
        t->refs++;
    return t;
}

struct text *text_unref(struct text *t)
{
    if (t && --t->refs == 0)
        free(t);
    return NULL;
}

/* Fibonacci hashing: identifiers are dense numbers. */
static size_t bucket_of(uint64_t key, size_t buckets)
{
    return (size_t) ((key * 0x9E3779B97F4A7C15ULL) >> 32) & (buckets - 1);
}

/* Whoever may make links chooses paths: with a key that nobody else knows the chains stay short. */
static uint64_t file_hash(const struct process_table *t, const struct image_key *key,
                          const char *path, size_t path_size)
{
    uint64_t words[4] = {etw_siphash24(path, path_size, t->hash_key), key->inode,
                         (uint64_t) key->dev_major << 32 | key->dev_minor, key->change_time_ns};
    return etw_siphash24(words, sizeof(words), t->hash_key);
}

/* A list of entries that have changed, each at most once. */
#define CHANGED_PUT(table, list, e)                                                                \
    do {                                                                                           \
        if (!(table) || !(table)->gone || (e)->changed_at)                                         \
            break;                                                                                 \
        (e)->next_changed = (table)->list;                                                         \
        if ((e)->next_changed)                                                                     \
            (e)->next_changed->changed_at = &(e)->next_changed;                                    \
        (e)->changed_at = &(table)->list;                                                          \
        (table)->list = (e);                                                                       \
    } while (0)

#define CHANGED_REMOVE(e)                                                                          \
    do {                                                                                           \
        if (!(e)->changed_at)                                                                      \
            break;                                                                                 \
        *(e)->changed_at = (e)->next_changed;                                                      \
        if ((e)->next_changed)                                                                     \
            (e)->next_changed->changed_at = (e)->changed_at;                                       \
        (e)->changed_at = NULL;                                                                    \
    } while (0)

void process_table_keep(struct process_table *t, void (*gone)(void *userdata, void *block),
                        void *userdata)
{
    t->gone = gone;
    t->userdata = userdata;
}

void process_touch(struct process *p)
{
    CHANGED_PUT(p->table, changed, p);
}

void image_file_touch(struct image_file *f)
{
    CHANGED_PUT(f->table, changed_files, f);
}

struct process *process_table_changed(struct process_table *t)
{
    struct process *p = t->changed;
    if (p)
        CHANGED_REMOVE(p);
    return p;
}

struct image_file *process_table_changed_file(struct process_table *t)
{
    struct image_file *f = t->changed_files;
    if (f)
        CHANGED_REMOVE(f);
    return f;
}

void process_table_number(struct process_table *t, uint64_t number)
{
    if (number >= t->next_number)
        t->next_number = number + 1;
}

/* Doubles a chained table. Failing is no error: the chains get longer. */
#define GROW(table, type, entries, n, buckets, hash_expr)                                          \
    do {                                                                                           \
        if ((table)->n < (table)->buckets)                                                         \
            break;                                                                                 \
        size_t _count = (table)->buckets * 2;                                                      \
        type **_new = calloc(_count, sizeof(*_new));                                               \
        if (!_new)                                                                                 \
            break;                                                                                 \
        for (size_t _i = 0; _i < (table)->buckets; _i++) {                                         \
            type *e = (table)->entries[_i];                                                        \
            while (e) {                                                                            \
                type *_next = e->next;                                                             \
                size_t _b = bucket_of(hash_expr, _count);                                          \
                e->next = _new[_b];                                                                \
                _new[_b] = e;                                                                      \
                e = _next;                                                                         \
            }                                                                                      \
        }                                                                                          \
        free((table)->entries);                                                                    \
        (table)->entries = _new;                                                                   \
        (table)->buckets = _count;                                                                 \
    } while (0)

int process_table_new(const uint8_t boot_key[16], struct process_table **ret)
{
    struct process_table *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    memcpy(t->boot_key, boot_key, sizeof(t->boot_key));
    t->dying_last = &t->dying;
    if (getrandom(t->hash_key, sizeof(t->hash_key), 0) != sizeof(t->hash_key)) {
        free(t);
        return -EIO;
    }
    t->process_buckets = t->thread_buckets = t->file_buckets = BUCKETS_MIN;
    t->processes = calloc(BUCKETS_MIN, sizeof(struct process *));
    t->threads = calloc(BUCKETS_MIN, sizeof(struct thread *));
    t->files = calloc(BUCKETS_MIN, sizeof(struct image_file *));
    if (!t->processes || !t->threads || !t->files) {
        process_table_free(t);
        return -ENOMEM;
    }
    *ret = t;
    return 0;
}

void process_table_clear(struct process_table *t)
{
    for (size_t i = 0; i < t->process_buckets; i++)
        while (t->processes[i])
            process_remove(t, t->processes[i]);
}

struct process_table *process_table_free(struct process_table *t)
{
    if (!t)
        return NULL;
    if (t->processes && t->threads && t->files)
        process_table_clear(t);
    free(t->processes);
    free(t->threads);
    /* Files that an unanswered question still holds outlive the table. */
    for (size_t i = 0; t->files && i < t->file_buckets; i++)
        for (struct image_file *f = t->files[i]; f; f = f->next) {
            CHANGED_REMOVE(f);
            f->table = NULL;
        }
    free(t->files);
    free(t);
    return NULL;
}

void process_table_forget_images(struct process_table *t)
{
    for (size_t i = 0; i < t->process_buckets; i++)
        for (struct process *p = t->processes[i]; p; p = p->next) {
            images_clear(p);
            p->images_known = false;
            process_touch(p);
        }
}

size_t process_table_size(const struct process_table *t)
{
    return t->n_processes;
}

static int by_tgid(const void *a, const void *b)
{
    const struct process *x = *(struct process *const *) a, *y = *(struct process *const *) b;
    return x->tgid < y->tgid ? -1 : x->tgid > y->tgid;
}

struct process **process_table_list(const struct process_table *t, size_t *ret_n)
{
    size_t n = 0;

    *ret_n = 0;
    struct process **list = t->n_processes ? calloc(t->n_processes, sizeof(*list)) : NULL;
    if (!list)
        return NULL;
    for (size_t i = 0; i < t->process_buckets; i++)
        for (struct process *p = t->processes[i]; p; p = p->next)
            list[n++] = p;
    qsort(list, n, sizeof(*list), by_tgid);
    *ret_n = n;
    return list;
}

uint64_t process_key(const struct process_table *t, uint32_t tgid, uint64_t start, uint64_t exec_id)
{
    uint64_t words[3] = {tgid, start, exec_id};
    return etw_siphash24(words, sizeof(words), t->boot_key);
}

struct process *process_find(const struct process_table *t, uint32_t tgid)
{
    struct process *p = t->processes[bucket_of(tgid, t->process_buckets)];
    while (p && p->tgid != tgid)
        p = p->next;
    return p;
}

void process_refresh(struct process *p, const struct raw_task *task)
{
    p->session = task->session;
    p->uid = task->uid;
    p->kernel = task->flags & RAW_TASK_KERNEL;
    process_touch(p);
}

int process_add(struct process_table *t, const struct raw_task *task, struct process **ret)
{
    if (process_find(t, task->tgid))
        return -EEXIST;
    struct process *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->table = t;
    p->tgid = task->tgid;
    p->start = task->leader_start;
    p->exec_id = task->exec_id;
    p->unique_key = process_key(t, p->tgid, p->start, p->exec_id);
    p->parent = task->parent_tgid;
    process_refresh(p, task);

    GROW(t, struct process, processes, n_processes, process_buckets, e->tgid);
    size_t b = bucket_of(p->tgid, t->process_buckets);
    p->next = t->processes[b];
    t->processes[b] = p;
    t->n_processes++;
    *ret = p;
    return 0;
}

void process_remove(struct process_table *t, struct process *p)
{
    while (p->threads)
        thread_remove(t, p->threads);
    images_clear(p);
    CHANGED_REMOVE(p);
    if (p->block)
        t->gone(t->userdata, p->block);
    free(p->images);
    text_unref(p->name);
    text_unref(p->command);
    if (p->dying_at) {
        *p->dying_at = p->next_dying;
        if (p->next_dying)
            p->next_dying->dying_at = p->dying_at;
        else
            t->dying_last = p->dying_at;
    }
    struct process **at = &t->processes[bucket_of(p->tgid, t->process_buckets)];
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    t->n_processes--;
    free(p);
}

void process_dying(struct process_table *t, struct process *p)
{
    if (p->dying_at)
        return;
    p->dying_at = t->dying_last;
    *t->dying_last = p;
    t->dying_last = &p->next_dying;
}

struct process *process_dying_first(const struct process_table *t)
{
    return t->dying;
}

void process_exec(struct process_table *t, struct process *p, const struct raw_task *task)
{
    p->exec_id = task->exec_id;
    p->unique_key = process_key(t, p->tgid, p->start, p->exec_id);
    p->parent = task->parent_tgid;
    process_refresh(p, task);
}

void process_set_name(struct process *p, struct text *name)
{
    text_unref(p->name);
    p->name = name;
    process_touch(p);
}

void process_set_command(struct process *p, struct text *command)
{
    text_unref(p->command);
    p->command = command;
    process_touch(p);
}

struct thread *thread_find(const struct process_table *t, uint32_t tid)
{
    struct thread *th = t->threads[bucket_of(tid, t->thread_buckets)];
    while (th && th->tid != tid)
        th = th->next;
    return th;
}

void thread_refresh(struct thread *th, const struct raw_task *task)
{
    th->affinity = task->affinity;
    th->prio = task->prio;
    memcpy(th->comm, task->comm, sizeof(th->comm));
    th->comm[sizeof(th->comm) - 1] = '\0';
    process_touch(th->process);
}

int thread_add(struct process_table *t, struct process *p, const struct raw_task *task,
               struct thread **ret)
{
    if (thread_find(t, task->tid))
        return -EEXIST;
    struct thread *th = calloc(1, sizeof(*th));
    if (!th)
        return -ENOMEM;
    th->tid = task->tid;
    th->process = p;
    th->start = task->start;
    th->stack_base = task->stack_base;
    th->stack_limit = task->stack_limit;
    th->entry = task->entry;
    th->thread_pointer = task->thread_pointer;
    thread_refresh(th, task);

    GROW(t, struct thread, threads, n_threads, thread_buckets, e->tid);
    size_t b = bucket_of(th->tid, t->thread_buckets);
    th->next = t->threads[b];
    t->threads[b] = th;
    t->n_threads++;
    th->sibling = p->threads;
    th->sibling_at = &p->threads;
    if (th->sibling)
        th->sibling->sibling_at = &th->sibling;
    p->threads = th;
    p->n_threads++;
    *ret = th;
    return 0;
}

void thread_remove(struct process_table *t, struct thread *th)
{
    *th->sibling_at = th->sibling;
    if (th->sibling)
        th->sibling->sibling_at = th->sibling_at;
    th->process->n_threads--;
    struct thread **at = &t->threads[bucket_of(th->tid, t->thread_buckets)];
    while (*at != th)
        at = &(*at)->next;
    *at = th->next;
    t->n_threads--;
    process_touch(th->process);
    free(th);
}

struct image_file *image_file_ref(struct image_file *f)
{
    f->refs++;
    return f;
}

struct image_file *image_file_unref(struct image_file *f)
{
    if (!f || --f->refs > 0)
        return NULL;
    struct process_table *t = f->table;
    if (t) {
        struct image_file **at = &t->files[bucket_of(f->hash, t->file_buckets)];
        while (*at != f)
            at = &(*at)->next;
        *at = f->next;
        t->n_files--;
        CHANGED_REMOVE(f);
        if (f->block)
            t->gone(t->userdata, f->block);
    }
    text_unref(f->path);
    free(f);
    return NULL;
}

static bool key_equal(const struct image_key *a, const struct image_key *b)
{
    return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
           a->change_time_ns == b->change_time_ns;
}

int image_file_get(struct process_table *t, const struct image_key *key, const char *path,
                   size_t path_size, struct image_file **ret)
{
    uint64_t hash = file_hash(t, key, path, path_size);
    struct image_file *f = t->files[bucket_of(hash, t->file_buckets)];

    /* A file with several names, or renamed since, is told by each of them. */
    while (f && !(f->hash == hash && key_equal(&f->key, key) && f->path->size == path_size &&
                  memcmp(f->path->s, path, path_size) == 0))
        f = f->next;
    if (f) {
        *ret = image_file_ref(f);
        return 0;
    }
    f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->path = text_new(path, path_size);
    if (!f->path) {
        free(f);
        return -ENOMEM;
    }
    f->refs = 1;
    f->table = t;
    f->key = *key;
    f->hash = hash;
    f->number = t->next_number++;
    f->pending_last = &f->pending_first;
    GROW(t, struct image_file, files, n_files, file_buckets, e->hash);
    size_t b = bucket_of(hash, t->file_buckets);
    f->next = t->files[b];
    t->files[b] = f;
    t->n_files++;
    image_file_touch(f);
    *ret = f;
    return 0;
}

int image_file_of(struct process_table *t, const struct raw_map *m, const char *path,
                  struct image_file **ret)
{
    struct image_key key = {
        .dev_major = m->file.dev_major,
        .dev_minor = m->file.dev_minor,
        .inode = m->file.inode,
        .change_time_ns = m->file.change_time_ns,
    };
    return image_file_get(t, &key, path, m->path_size, ret);
}

int image_add(struct process *p, uint64_t start, uint64_t end, uint64_t offset,
              struct image_file *file)
{
    size_t at;

    if (p->n_images >= ETW_PROCESS_IMAGES_MAX)
        return -EDQUOT;
    if (p->n_images == p->images_cap) {
        size_t cap = p->images_cap ? p->images_cap * 2 : 8;
        struct image *images = reallocarray(p->images, cap, sizeof(*images));
        if (!images)
            return -ENOMEM;
        p->images = images;
        p->images_cap = cap;
    }
    for (at = p->n_images; at > 0 && p->images[at - 1].start > start; at--)
        p->images[at] = p->images[at - 1];
    p->images[at] = (struct image){start, end, offset, file};
    p->n_images++;
    process_touch(p);
    return 0;
}

int image_overlap(const struct process *p, uint64_t start, uint64_t end, size_t *ret_index)
{
    size_t low = 0, high = p->n_images;

    /* They do not overlap each other: the ends are in order, too. */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->images[middle].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == p->n_images || p->images[low].start >= end)
        return -ENOENT;
    *ret_index = low;
    return 0;
}

void image_remove(struct process *p, size_t index)
{
    image_file_unref(p->images[index].file);
    p->n_images--;
    memmove(&p->images[index], &p->images[index + 1], (p->n_images - index) * sizeof(*p->images));
    process_touch(p);
}

void images_clear(struct process *p)
{
    for (size_t i = 0; i < p->n_images; i++)
        image_file_unref(p->images[i].file);
    if (p->n_images > 0)
        process_touch(p);
    p->n_images = 0;
}

int images_copy(struct process *child, const struct process *parent)
{
    struct image *images = NULL;

    if (parent->n_images > 0) {
        images = calloc(parent->n_images, sizeof(*images));
        if (!images)
            return -ENOMEM;
        for (size_t i = 0; i < parent->n_images; i++) {
            images[i] = parent->images[i];
            image_file_ref(images[i].file);
        }
    }
    images_clear(child);
    free(child->images);
    child->images = images;
    child->n_images = child->images_cap = parent->n_images;
    child->images_known = parent->images_known;
    process_touch(child);
    return 0;
}
