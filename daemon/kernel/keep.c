/* SPDX-License-Identifier: Apache-2.0
 *
 * See keep.h: the writing half. Loop thread only.
 */
#include "kernel/keep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

/* Bytes that are compared and saved at once. */
#define PIECE 256u

struct kernel_keeper {
    struct kernel_logger *logger;
    struct state *state;
    struct state_hook hook;
    struct logger_image *image; /* a block; NULL: nothing is traced */
    bool broken;
    uint64_t hash;
    uint8_t *scratch;
    size_t scratch_size;
};

static void replace(struct state *st, void *old, const void *new, size_t size)
{
    for (size_t at = 0; at < size; at += PIECE) {
        size_t n = size - at < PIECE ? size - at : PIECE;
        uint8_t *o = (uint8_t *) old + at;
        if (memcmp(o, (const uint8_t *) new + at, n) == 0)
            continue;
        state_save(st, o, n);
        memcpy(o, (const uint8_t *) new + at, n);
    }
}

static void broken(struct kernel_keeper *kk)
{
    if (!kk->broken)
        log_warning("kernel logger: no memory for what a restarted etwd has to know; the kernel's "
                    "sessions would end with this etwd");
    kk->broken = true;
}

/* Brings *block up to date; it moves when it is too small. */
static void block_write(struct kernel_keeper *kk, enum state_kind kind, uint64_t key, void **block,
                        const void *image, size_t size)
{
    size_t have = 0;

    if (*block && (!state_block_find(kk->state, kind, key, &have) || have < size)) {
        state_block_free(kk->state, *block);
        *block = NULL;
    }
    if (!*block &&
        state_block_new(kk->state, kind, key, ALIGN_UP(size, (size_t) PIECE), block) < 0) {
        *block = NULL;
        broken(kk);
        return;
    }
    replace(kk->state, *block, image, size);
}

static uint8_t *scratch(struct kernel_keeper *kk, size_t size)
{
    if (size > kk->scratch_size) {
        uint8_t *p = realloc(kk->scratch, size * 2);
        if (!p)
            return NULL;
        kk->scratch = p;
        kk->scratch_size = size * 2;
    }
    memset(kk->scratch, 0, size); /* padding too: it is compared */
    return kk->scratch;
}

static size_t padded(size_t size)
{
    return ALIGN_UP(size, (size_t) 8);
}

static void process_write(struct kernel_keeper *kk, struct process *p)
{
    size_t name = p->name ? p->name->size : 0, command = p->command ? p->command->size : 0;
    size_t size = sizeof(struct process_image) + p->n_images * sizeof(struct mapping_image) +
                  padded(name) + padded(command) + p->n_threads * sizeof(struct thread_image);
    uint8_t *at = scratch(kk, size);

    if (!at) {
        broken(kk);
        return;
    }
    struct process_image *image = (struct process_image *) at;
    *image = (struct process_image){
        .start = p->start,
        .exec_id = p->exec_id,
        .dying_since = p->dying_since,
        .parent = p->parent,
        .session = p->session,
        .uid = p->uid,
        .status = p->status,
        .name_size = p->name ? p->name->size : UINT32_MAX,
        .command_size = p->command ? p->command->size : UINT32_MAX,
        .n_images = (uint32_t) p->n_images,
        .n_threads = p->n_threads,
        .kernel = p->kernel,
        .images_known = p->images_known,
        .dying = p->dying,
    };
    struct mapping_image *m = (struct mapping_image *) (image + 1);
    for (size_t i = 0; i < p->n_images; i++)
        m[i] = (struct mapping_image){p->images[i].start, p->images[i].end, p->images[i].offset,
                                      p->images[i].file->number};
    at = (uint8_t *) (m + p->n_images);
    memcpy(at, text_str(p->name), name);
    at += padded(name);
    memcpy(at, text_str(p->command), command);
    at += padded(command);
    struct thread_image *t = (struct thread_image *) at + p->n_threads;
    for (const struct thread *th = p->threads; th; th = th->sibling) {
        *--t = (struct thread_image){
            .start = th->start,
            .affinity = th->affinity,
            .stack_base = th->stack_base,
            .stack_limit = th->stack_limit,
            .entry = th->entry,
            .thread_pointer = th->thread_pointer,
            .tid = th->tid,
            .prio = th->prio,
        };
        memcpy(t->comm, th->comm, sizeof(t->comm));
    }
    block_write(kk, STATE_KERNEL_PROCESS, p->tgid, &p->block, image, size);
}

static void file_write(struct kernel_keeper *kk, struct image_file *f)
{
    size_t size = sizeof(struct file_image) + f->path->size;
    struct file_image *image = (struct file_image *) scratch(kk, size);

    if (!image) {
        broken(kk);
        return;
    }
    image->inode = f->key.inode;
    image->change_time_ns = f->key.change_time_ns;
    image->dev_major = f->key.dev_major;
    image->dev_minor = f->key.dev_minor;
    image->path_size = f->path->size;
    image->answered = f->answered;
    if (f->answered && f->id.known) {
        image->known = true;
        image->first_vaddr = f->id.first_vaddr;
        image->span = f->id.span;
        image->exec_vaddr = f->id.exec_vaddr;
        image->exec_offset = f->id.exec_offset;
        image->build_id_size = f->id.build_id_size;
        memcpy(image->build_id, f->id.build_id, sizeof(image->build_id));
    }
    memcpy(image + 1, f->path->s, f->path->size);
    block_write(kk, STATE_KERNEL_FILE, f->number, &f->block, image, size);
}

static void waiting_write(struct kernel_keeper *kk, struct pending_image *p)
{
    struct waiting_image image = {
        .mapping = {p->image.start, p->image.end, p->image.offset, p->file->number},
        .stamp = p->context.stamp,
        .only = p->context.only ? session_handle(p->context.only->session) : 0,
        .row = p->row,
        .tid = p->context.tid,
        .context_pid = p->context.pid,
        .pid = p->pid,
        .cpu = p->context.cpu,
    };
    block_write(kk, STATE_KERNEL_IMAGE, p->number, &p->block, &image, sizeof(image));
}

static void target_write(struct kernel_keeper *kk, struct kernel_target *t)
{
    struct target_image image = {
        .begin = t->begin,
        .end = t->end,
        .sysconfig = container_of(t, struct traced, target)->sysconfig,
    };
    memcpy(image.masks, t->masks, sizeof(image.masks));
    block_write(kk, STATE_KERNEL_TARGET, session_handle(t->session), &t->block, &image,
                sizeof(image));
}

static void logger_write(struct kernel_keeper *kk)
{
    struct kernel_logger *k = kk->logger;
    const struct operation *op = k->first;
    bool images;
    struct logger_image now = {
        .version = KERNEL_STATE_VERSION,
        .cpus = k->cpus,
        .ring_bytes = k->ring_bytes,
        .programs = kk->hash,
        .waiting_next = k->events->waiting_next,
        .processes = finish_follows(k->finish, &images),
        .lossy = finish_is_lossy(k->finish),
        .broken = kk->broken,
    };

    now.images = images;
    if (op && op->described) {
        now.operation = 1 + (uint32_t) op->kind;
        now.handle = session_handle(op->traced->target.session);
        now.stamp = op->stamp;
        memcpy(now.old_masks, op->old_masks, sizeof(now.old_masks));
        now.progress = op->progress;
    }
    replace(kk->state, kk->image, &now, sizeof(now));
}

static void before_commit(void *userdata)
{
    struct kernel_keeper *kk = userdata;
    struct kernel_logger *k = kk->logger;
    struct image_file *f;
    struct process *p;

    if (!kk->image || !k->rings)
        return;
    while ((f = process_table_changed_file(k->table)))
        file_write(kk, f);
    while ((p = process_table_changed(k->table)))
        process_write(kk, p);
    for (; k->events->waiting_unkept; k->events->waiting_unkept = k->events->waiting_unkept->next)
        waiting_write(kk, k->events->waiting_unkept);
    for (struct kernel_target *t = k->events->targets; t; t = t->next)
        target_write(kk, t);
    for (unsigned i = 0; i < k->cpus; i++) {
        struct ring_image image;
        void *block = state_block_find(kk->state, STATE_KERNEL_RING, i, NULL);
        if (block && probe_rings_image(k->rings, i, &image))
            replace(kk->state, block, &image, sizeof(image));
    }
    logger_write(kk);
}

int kernel_keeper_new(struct kernel_logger *k)
{
    if (!state_kept(k->state))
        return 0;
    struct kernel_keeper *kk = calloc(1, sizeof(*kk));
    if (!kk)
        return -ENOMEM;
    kk->logger = k;
    kk->state = k->state;
    kk->hash = programs_hash();
    kk->hook = (struct state_hook){.before_commit = before_commit, .userdata = kk};
    state_add_hook(k->state, &kk->hook);
    process_table_keep(k->table, kernel_keep_gone, k->state);
    k->events->state = k->state;
    k->events->gone = kernel_keep_gone;
    k->events->gone_userdata = k->state;
    k->keeper = kk;
    return 0;
}

struct kernel_keeper *kernel_keeper_free(struct kernel_keeper *kk)
{
    if (!kk)
        return NULL;
    state_remove_hook(kk->state, &kk->hook);
    free(kk->scratch);
    free(kk);
    return NULL;
}

void kernel_keep_gone(void *userdata, void *block)
{
    struct state *st = userdata;
    state_begin(st);
    state_block_free(st, block);
    state_commit(st);
}

/* ---- descriptors, and the blocks that go with them ---- */

static int blocks_begin(struct kernel_keeper *kk)
{
    void *block;
    int r = 0;

    if (kk->image)
        return 0;
    /* The objects may have been changed before, unlisted: nothing of them is in a block yet. */
    state_begin(kk->state);
    r = state_block_new(kk->state, STATE_KERNEL, 0, sizeof(struct logger_image),
                        (void **) &kk->image);
    for (unsigned i = 0; r == 0 && i < kk->logger->cpus; i++)
        r = state_block_new(kk->state, STATE_KERNEL_RING, i, sizeof(struct ring_image), &block);
    if (r == -EEXIST) /* adopted */
        r = 0;
    kk->image = state_block_find(kk->state, STATE_KERNEL, 0, NULL);
    kk->broken = false;
    state_commit(kk->state);
    return kk->image ? r : -ENOMEM;
}

static int store(struct kernel_keeper *kk, uint64_t key, int fd)
{
    int r = state_fd_store(kk->state, STATE_FD_KERNEL, key, fd);
    return r == -EEXIST ? 0 : r;
}

int kernel_keep_descriptors(struct kernel_keeper *kk)
{
    struct kernel_logger *k;
    int r;

    if (!kk)
        return 0;
    k = kk->logger;
    if (!k->rings) {
        kernel_keep_drop(kk);
        return 0;
    }
    r = blocks_begin(kk);
    for (unsigned i = 0; r == 0 && i < k->cpus; i++)
        r = store(kk, KERNEL_FD_KEY(KERNEL_FD_RING, i), probe_rings_fd(k->rings, i));
    if (r == 0)
        r = store(kk, KERNEL_FD_KEY(KERNEL_FD_ARRAY, 0), probe_rings_array_fd(k->rings));
    if (r == 0)
        r = store(kk, KERNEL_FD_KEY(KERNEL_FD_LOST, 0), probe_rings_lost_fd(k->rings));
    for (unsigned i = 0; r == 0 && i < PROGRAMS_MAX; i++) {
        int fd = programs_fd(k->programs, i);
        if (fd >= 0)
            r = store(kk, KERNEL_FD_KEY(KERNEL_FD_LINK, i), fd);
        else
            state_fd_drop(kk->state, STATE_FD_KERNEL, KERNEL_FD_KEY(KERNEL_FD_LINK, i));
    }
    return r;
}

void kernel_keep_drop(struct kernel_keeper *kk)
{
    static const enum state_kind kinds[] = {
        STATE_KERNEL,         STATE_KERNEL_RING, STATE_KERNEL_TARGET,
        STATE_KERNEL_PROCESS, STATE_KERNEL_FILE, STATE_KERNEL_IMAGE,
    };
    uint64_t position, key;

    kk->image = NULL;
    state_begin(kk->state);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        void *block;
        position = 0;
        /* Those that objects still hold go with the objects. */
        if (kinds[i] == STATE_KERNEL_FILE || kinds[i] == STATE_KERNEL_PROCESS ||
            kinds[i] == STATE_KERNEL_IMAGE || kinds[i] == STATE_KERNEL_TARGET)
            continue;
        while ((block = state_block_next(kk->state, kinds[i], &position, &key, NULL)))
            state_block_free(kk->state, block);
    }
    position = 0;
    while (state_fd_next(kk->state, STATE_FD_KERNEL, &position, &key))
        state_fd_drop(kk->state, STATE_FD_KERNEL, key);
    state_commit(kk->state);
}
