/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what the iterator programs write. Worker thread; the caller has raised the capabilities
 * that BPF wants.
 */
#include "walk.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

/* The iterators' own buffer is 8 pages. */
#define READ_SIZE 65536u

static int walk_room(struct walk *w, size_t more)
{
    size_t need, cap = w->cap ? w->cap : 4 * READ_SIZE;

    if (__builtin_add_overflow(w->size, more, &need))
        return -ENOMEM;
    if (need <= w->cap)
        return 0;
    while (cap < need)
        if (__builtin_mul_overflow(cap, 2, &cap))
            return -ENOMEM;
    uint8_t *records = realloc(w->records, cap);
    if (!records)
        return -ENOMEM;
    w->records = records;
    w->cap = cap;
    return 0;
}

static int read_iterator(struct walk *w, int link)
{
    int r;

    _cleanup_close_ int fd = bpf_iter_create(link);
    if (fd < 0)
        return -errno;
    for (;;) {
        r = walk_room(w, READ_SIZE);
        if (r < 0)
            return r;
        ssize_t n = read(fd, w->records + w->size, READ_SIZE);
        if (n == 0)
            return 0;
        if (n < 0) {
            if (errno == EINTR || errno == EAGAIN)
                continue;
            return -errno;
        }
        w->size += (size_t) n;
    }
}

static int read_command(struct walk *w, uint32_t tgid)
{
    char path[32];
    static const size_t cap = RAW_ARGS_MAX;
    size_t size = 0;

    (void) snprintf(path, sizeof(path), "/proc/%u/cmdline", tgid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* gone, or hidden from us */
    _cleanup_free_ char *args = malloc(cap);
    if (!args)
        return -ENOMEM;
    while (size < cap) {
        ssize_t n = read(fd, args + size, cap - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        size += (size_t) n;
    }
    if (size == 0)
        return 0;
    if (w->n_commands == w->commands_cap) {
        size_t more = w->commands_cap ? w->commands_cap * 2 : 64;
        struct walk_command *commands = reallocarray(w->commands, more, sizeof(*commands));
        if (!commands)
            return -ENOMEM;
        w->commands = commands;
        w->commands_cap = more;
    }
    char *fitting = realloc(args, size);
    if (fitting)
        args = fitting;
    w->commands[w->n_commands++] = (struct walk_command){tgid, (uint32_t) size, TAKE_PTR(args)};
    return 0;
}

static int by_tgid(const void *a, const void *b)
{
    const struct walk_command *x = a, *y = b;
    return x->tgid < y->tgid ? -1 : x->tgid > y->tgid;
}

int walk_new(int task_link, int vma_link, struct walk **ret)
{
    size_t offset = 0;
    const struct etl_record *rec;
    int r = 0;

    struct walk *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    if (task_link >= 0)
        r = read_iterator(w, task_link);
    size_t tasks_end = w->size;
    if (r == 0 && vma_link >= 0)
        r = read_iterator(w, vma_link);
    while (r == 0 && offset < tasks_end && (rec = walk_next(w, &offset))) {
        struct raw_walk_task t;
        memcpy(&t, rec + 1, sizeof(t));
        if (rec->registration == RAW_TASK && t.task.tid == t.task.tgid &&
            !(t.task.flags & RAW_TASK_KERNEL))
            r = read_command(w, t.task.tgid);
    }
    if (r < 0) {
        walk_free(w);
        return r;
    }
    if (w->n_commands > 0)
        qsort(w->commands, w->n_commands, sizeof(*w->commands), by_tgid);
    *ret = w;
    return 0;
}

struct walk *walk_free(struct walk *w)
{
    if (!w)
        return NULL;
    for (size_t i = 0; i < w->n_commands; i++)
        free(w->commands[i].args);
    free(w->commands);
    free(w->records);
    free(w);
    return NULL;
}

const struct etl_record *walk_next(const struct walk *w, size_t *offset)
{
    struct etl_record rec;
    size_t left = w->size - *offset;

    if (left < sizeof(rec))
        return NULL;
    const struct etl_record *r = (const void *) (w->records + *offset);
    memcpy(&rec, r, sizeof(rec));
    if (rec.size < sizeof(rec) || rec.size > left)
        return NULL;
    size_t need =
        rec.registration == RAW_TASK ? sizeof(struct raw_walk_task) : sizeof(struct raw_map);
    if (rec.size < sizeof(rec) + need)
        return NULL;
    *offset += rec.size;
    return r;
}

const struct walk_command *walk_command_find(const struct walk *w, uint32_t tgid)
{
    struct walk_command key = {.tgid = tgid};

    return w->n_commands > 0
               ? bsearch(&key, w->commands, w->n_commands, sizeof(*w->commands), by_tgid)
               : NULL;
}
