/* SPDX-License-Identifier: Apache-2.0
 *
 * See keep.h: the reading half. The kernel logger of a predecessor: its probes have gone on
 * recording into their rings, and everything else stands as of the last record that was taken out
 * of these. So nothing has to be described anew, and nothing is missing but what rings had no room
 * for, which the probes counted. Loop thread, before the loop runs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "io/loop.h"
#include "kernel/keep.h"
#include "sessions/session.h"

/* Files by number, while processes and waiting events are read. */
struct file_list {
    struct image_file **files;
    size_t n, cap;
};

static int by_number(const void *a, const void *b)
{
    const struct image_file *x = *(struct image_file *const *) a;
    const struct image_file *y = *(struct image_file *const *) b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static struct image_file *file_find(const struct file_list *l, uint64_t number)
{
    struct image_file key = {.number = number}, *k = &key;
    struct image_file **f = l->n ? bsearch(&k, l->files, l->n, sizeof(*l->files), by_number) : NULL;
    return f ? *f : NULL;
}

static void files_free(struct file_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        image_file_unref(l->files[i]);
    free(l->files);
}

static int file_load(struct kernel_logger *k, uint64_t number, void *block, size_t size,
                     struct file_list *l)
{
    struct file_image image;
    struct image_file *f;
    int r;

    if (size < sizeof(image))
        return -EBADMSG;
    memcpy(&image, block, sizeof(image));
    if (image.path_size > size - sizeof(image) || image.build_id_size > IMAGE_BUILD_ID_MAX)
        return -EBADMSG;
    struct image_key key = {
        .dev_major = image.dev_major,
        .dev_minor = image.dev_minor,
        .inode = image.inode,
        .change_time_ns = image.change_time_ns,
    };
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        struct image_file **files = reallocarray(l->files, cap, sizeof(*files));
        if (!files)
            return -ENOMEM;
        l->files = files;
        l->cap = cap;
    }
    r = image_file_get(k->table, &key, (const char *) block + sizeof(image), image.path_size, &f);
    if (r < 0)
        return r;
    l->files[l->n++] = f;
    if (f->block)
        return -EBADMSG; /* one file twice */
    f->block = block;
    f->number = number;
    process_table_number(k->table, number);
    f->answered = image.answered;
    f->id = (struct image_identity){
        .known = image.known,
        .first_vaddr = image.first_vaddr,
        .span = image.span,
        .exec_vaddr = image.exec_vaddr,
        .exec_offset = image.exec_offset,
        .build_id_size = image.build_id_size,
    };
    memcpy(f->id.build_id, image.build_id, sizeof(f->id.build_id));
    return 0;
}

static int files_load(struct kernel_logger *k, struct file_list *l)
{
    uint64_t position = 0, number;
    size_t size;
    void *block;

    while ((block = state_block_next(k->state, STATE_KERNEL_FILE, &position, &number, &size))) {
        int r = file_load(k, number, block, size, l);
        if (r < 0)
            return r;
    }
    if (l->n > 0)
        qsort(l->files, l->n, sizeof(*l->files), by_number);
    return 0;
}

static int threads_load(struct kernel_logger *k, struct process *p, const uint8_t *at, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, at += sizeof(struct thread_image)) {
        struct thread_image image;
        struct thread *th;
        memcpy(&image, at, sizeof(image));
        struct raw_task task = {
            .tid = image.tid,
            .start = image.start,
            .affinity = image.affinity,
            .stack_base = image.stack_base,
            .stack_limit = image.stack_limit,
            .entry = image.entry,
            .thread_pointer = image.thread_pointer,
            .prio = image.prio,
        };
        memcpy(task.comm, image.comm, sizeof(task.comm));
        int r = thread_add(k->table, p, &task, &th);
        if (r < 0)
            return r == -EEXIST ? -EBADMSG : r;
    }
    return 0;
}

/* `size` bytes at *at, padded; false: there are not so many before `end`. */
static bool text_load(const uint8_t **at, const uint8_t *end, uint32_t size, struct text **ret)
{
    if (size == UINT32_MAX)
        return true;
    if (ALIGN_UP((uint64_t) size, 8u) > (uint64_t) (end - *at))
        return false;
    *ret = text_new((const char *) *at, size);
    *at += ALIGN_UP((uint64_t) size, 8u);
    return *ret != NULL;
}

static int process_load(struct kernel_logger *k, uint64_t key, void *block, size_t size,
                        const struct file_list *l)
{
    const uint8_t *at = block, *end = at + size;
    struct process_image image;
    struct text *text = NULL;
    struct process *p;
    int r;

    if (size < sizeof(image) || key > UINT32_MAX)
        return -EBADMSG;
    memcpy(&image, at, sizeof(image));
    at += sizeof(image);
    struct raw_task task = {
        .tgid = (uint32_t) key,
        .parent_tgid = image.parent,
        .session = image.session,
        .uid = image.uid,
        .flags = image.kernel ? RAW_TASK_KERNEL : 0,
        .leader_start = image.start,
        .exec_id = image.exec_id,
    };
    r = process_add(k->table, &task, &p);
    if (r < 0)
        return r;
    p->block = block;
    p->images_known = image.images_known;
    p->dying = image.dying;
    p->status = image.status;
    p->dying_since = image.dying_since;
    if (image.n_images > (size_t) (end - at) / sizeof(struct mapping_image))
        return -EBADMSG;
    for (uint32_t i = 0; i < image.n_images; i++, at += sizeof(struct mapping_image)) {
        struct mapping_image m;
        size_t index;
        memcpy(&m, at, sizeof(m));
        struct image_file *f = file_find(l, m.file);
        if (!f || m.start >= m.end || image_overlap(p, m.start, m.end, &index) == 0)
            return -EBADMSG;
        r = image_add(p, m.start, m.end, m.offset, f);
        if (r < 0)
            return r;
        (void) image_file_ref(f);
    }
    if (!text_load(&at, end, image.name_size, &text))
        return -EBADMSG;
    process_set_name(p, text);
    text = NULL;
    if (!text_load(&at, end, image.command_size, &text))
        return -EBADMSG;
    process_set_command(p, text);
    if (image.n_threads > (size_t) (end - at) / sizeof(struct thread_image))
        return -EBADMSG;
    return threads_load(k, p, at, image.n_threads);
}

static int by_dying(const void *a, const void *b)
{
    const struct process *x = *(struct process *const *) a, *y = *(struct process *const *) b;
    return x->dying_since < y->dying_since ? -1 : x->dying_since > y->dying_since;
}

static int processes_load(struct kernel_logger *k, const struct file_list *l)
{
    uint64_t position = 0, key;
    size_t size, n;
    void *block;

    while ((block = state_block_next(k->state, STATE_KERNEL_PROCESS, &position, &key, &size))) {
        int r = process_load(k, key, block, size, l);
        if (r < 0)
            return r;
    }
    struct process **list = process_table_list(k->table, &n);
    if (!list)
        return process_table_size(k->table) ? -ENOMEM : 0;
    qsort(list, n, sizeof(*list), by_dying);
    for (size_t i = 0; i < n; i++)
        if (list[i]->dying)
            process_dying(k->table, list[i]);
    free(list);
    return 0;
}

static struct kernel_target *target_find(struct kernel_logger *k, uint64_t handle)
{
    struct kernel_target *t = k->events->targets;
    while (t && session_handle(t->session) != handle)
        t = t->next;
    return t;
}

static int by_waiting(const void *a, const void *b)
{
    const struct pending_image *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int waiting_load(struct kernel_logger *k, const struct file_list *l)
{
    _cleanup_free_ struct pending_image *list = NULL;
    uint64_t position = 0, number;
    size_t size, n = 0, cap = 0;
    void *block;

    while ((block = state_block_next(k->state, STATE_KERNEL_IMAGE, &position, &number, &size))) {
        struct waiting_image image;
        if (size < sizeof(image))
            return -EBADMSG;
        memcpy(&image, block, sizeof(image));
        struct image_file *f = file_find(l, image.mapping.file);
        struct kernel_target *only = image.only ? target_find(k, image.only) : NULL;
        if (!f || image.row >= ETL_ROW_COUNT)
            return -EBADMSG;
        if (image.only && !only) { /* of a session that has not been taken over */
            state_block_free(k->state, block);
            continue;
        }
        if (n == cap) {
            cap = cap ? cap * 2 : 64;
            struct pending_image *more = reallocarray(list, cap, sizeof(*more));
            if (!more)
                return -ENOMEM;
            list = more;
        }
        list[n++] = (struct pending_image){
            .file = f,
            .image = {image.mapping.start, image.mapping.end, image.mapping.offset, f},
            .row = (enum etl_row) image.row,
            .context = {.stamp = image.stamp,
                        .cpu = (uint16_t) image.cpu,
                        .tid = image.tid,
                        .pid = image.context_pid,
                        .only = only},
            .pid = image.pid,
            .number = number,
            .block = block,
        };
    }
    if (n > 0)
        qsort(list, n, sizeof(*list), by_waiting);
    for (size_t i = 0; i < n; i++) {
        (void) image_file_ref(list[i].file);
        int r = events_image_restore(k->events, &list[i]);
        if (r < 0) {
            image_file_unref(list[i].file);
            return r;
        }
    }
    return 0;
}

static int targets_load(struct kernel_logger *k,
                        struct session *(*find)(void *userdata, uint64_t handle), void *userdata)
{
    uint64_t position = 0, handle;
    size_t size;
    void *block;

    while ((block = state_block_next(k->state, STATE_KERNEL_TARGET, &position, &handle, &size))) {
        struct session *s = find(userdata, handle);
        struct target_image image;
        struct traced *t;
        if (!s) { /* its start was not through */
            state_block_free(k->state, block);
            continue;
        }
        if (size < sizeof(image))
            return -EBADMSG;
        memcpy(&image, block, sizeof(image));
        int r = logger_add(k, s, &t);
        if (r < 0)
            return r;
        t->target.block = block;
        t->target.begin = image.begin;
        t->target.end = image.end;
        memcpy(t->target.masks, image.masks, sizeof(image.masks));
        t->sysconfig = image.sysconfig != 0;
        router_set_masks(k->router, s, image.masks);
    }
    return 0;
}

static int fd_take(struct kernel_logger *k, enum kernel_fd what, unsigned n)
{
    return state_fd_take(k->state, STATE_FD_KERNEL, KERNEL_FD_KEY(what, n));
}

static int rings_load(struct kernel_logger *k, const struct logger_image *image)
{
    unsigned n = k->cpus + 2;
    _cleanup_free_ int *fds = malloc(n * sizeof(*fds));
    _cleanup_free_ struct ring_image *images = calloc(k->cpus, sizeof(*images));
    _cleanup_free_ const struct ring_image **pointers = calloc(k->cpus, sizeof(*pointers));
    int r = 0;

    if (!fds || !images || !pointers)
        return -ENOMEM;
    for (unsigned i = 0; i < n; i++) {
        fds[i] = i < k->cpus    ? fd_take(k, KERNEL_FD_RING, i)
                 : i == k->cpus ? fd_take(k, KERNEL_FD_ARRAY, 0)
                                : fd_take(k, KERNEL_FD_LOST, 0);
        if (fds[i] < 0)
            r = -ENOENT;
    }
    for (unsigned i = 0; r == 0 && i < k->cpus; i++) {
        size_t size;
        const void *block = state_block_find(k->state, STATE_KERNEL_RING, i, &size);
        if (!block || size < sizeof(images[i])) {
            r = -EBADMSG;
            break;
        }
        memcpy(&images[i], block, sizeof(images[i]));
        pointers[i] = &images[i];
    }
    if (r == 0)
        r = programs_adopt_rings(k->cpus, image->ring_bytes, fds, pointers, &k->rings);
    for (unsigned i = 0; r < 0 && i < n; i++)
        (void) safe_close(fds[i]);
    return r;
}

static int programs_load(struct kernel_logger *k)
{
    struct program_needs needs = logger_needs(k, NULL, NULL);

    for (unsigned i = 0; i < PROGRAMS_MAX; i++) {
        int fd = fd_take(k, KERNEL_FD_LINK, i);
        if (fd >= 0 && programs_adopt(k->programs, i, fd) < 0)
            (void) close(fd);
    }
    return programs_adopted(k->programs, needs) ? 0 : -ENOENT;
}

/* What it was about when the predecessor ended. */
static void operation_load(struct kernel_logger *k, const struct logger_image *image)
{
    struct kernel_target *t = image->operation ? target_find(k, image->handle) : NULL;

    if (!t || image->operation > 1 + (uint32_t) STOP)
        return;
    if (operation_resume(k, container_of(t, struct traced, target),
                         (enum operation_kind)(image->operation - 1), image->stamp,
                         image->old_masks, &image->progress) < 0)
        log_warning("kernel logger: no memory to go on with a rundown: what is there is not all "
                    "described");
}

static int load(struct kernel_logger *k, const struct logger_image *image)
{
    struct file_list files = {0};
    int r;

    r = files_load(k, &files);
    if (r == 0)
        r = processes_load(k, &files);
    if (r == 0)
        r = waiting_load(k, &files);
    files_free(&files);
    if (r == 0)
        r = rings_load(k, image);
    if (r == 0)
        r = programs_load(k);
    if (r == 0)
        r = logger_rings_attach(k);
    if (r < 0)
        return r;
    finish_restore(k->finish, image->processes, image->images, image->lossy);
    if (image->waiting_next > k->events->waiting_next)
        k->events->waiting_next = image->waiting_next;
    return 0;
}

static const char *why_not(const struct kernel_logger *k, const struct logger_image *image)
{
    if (image->version != KERNEL_STATE_VERSION)
        return "another version of etwd left it";
    if (image->broken)
        return "the etwd before had no memory for all of it";
    if (image->programs != programs_hash())
        return "its programs are not those of this etwd";
    if (image->cpus != k->cpus)
        return "it was for another number of processors";
    return NULL;
}

/* What is in the state and belongs to no object. */
static void drop_all(struct kernel_logger *k)
{
    static const enum state_kind kinds[] = {
        STATE_KERNEL_TARGET,
        STATE_KERNEL_PROCESS,
        STATE_KERNEL_FILE,
        STATE_KERNEL_IMAGE,
    };

    state_begin(k->state);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint64_t position = 0, key;
        void *block;
        while ((block = state_block_next(k->state, kinds[i], &position, &key, NULL)))
            state_block_free(k->state, block);
    }
    state_commit(k->state);
    kernel_keep_drop(k->keeper);
}

void kernel_logger_takeover(struct kernel_logger *k,
                            struct session *(*find)(void *userdata, uint64_t handle),
                            void *userdata)
{
    struct logger_image image = {0};
    const char *why = "its state does not hold together";
    size_t size;
    int r = -EBADMSG;

    if (!k->keeper)
        return;
    const void *block = state_block_find(k->state, STATE_KERNEL, 0, &size);
    if (block && size >= sizeof(image)) {
        memcpy(&image, block, sizeof(image));
        why = why_not(k, &image);
    }
    state_begin(k->state);
    if (!why) {
        r = targets_load(k, find, userdata);
        if (r == 0 && k->events->targets) {
            k->ring_bytes = image.ring_bytes;
            r = load(k, &image);
        }
        if (r < 0)
            why = r == -ENOENT    ? "not all of it is in the descriptor store"
                  : r == -EBADMSG ? "its state does not hold together"
                                  : strerror(-r);
    }
    if (why || !k->events->targets) {
        if (block && why)
            log_warning("kernel logger of the etwd before: it cannot be taken over: %s", why);
        logger_forget(k);
        drop_all(k);
        state_commit(k->state);
        return;
    }
    r = kernel_keep_descriptors(k->keeper);
    if (r < 0)
        log_warning("kernel logger: descriptor store: %s", strerror(-r));
    operation_load(k, &image);
    state_commit(k->state);
    events_image_ask_again(k->events);
}
