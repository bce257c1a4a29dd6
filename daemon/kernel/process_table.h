/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of the machine as the merged stream of records tells them: identity, texts,
 * threads, executable mappings. It makes no events (finish.c does) and asks nobody. Loop thread
 * only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/raw.h"
#include "kernel/images.h"

/* A shared, counted, immutable text: forks share the command line of their parent. */
struct text {
    unsigned refs;
    uint32_t size; /* without the NUL */
    char s[];
};
/* NULL: no memory. Without s the caller fills in the bytes. */
struct text *text_new(const char *s, size_t size);
struct text *text_ref(struct text *t);
struct text *text_unref(struct text *t); /* NULL */
static inline const char *text_str(const struct text *t)
{
    return t ? t->s : "";
}

/* A file that is mapped somewhere, by identity. What etwd-image says about it is asked once. */
struct image_file {
    unsigned refs;
    struct process_table *table;
    struct image_key key;
    uint64_t hash; /* of key and path */
    struct text *path;
    bool waiting; /* asked; answer comes */
    bool answered;
    struct image_identity id;
    /* Events that wait for the answer, oldest first: finish.c's. */
    struct pending_image *pending_first, **pending_last;
    struct image_file *next; /* hash chain */
    uint64_t number;         /* never given twice by a table */
    void *block;             /* keep.c's */
    struct image_file *next_changed, **changed_at;
};
struct image_file *image_file_ref(struct image_file *f);
struct image_file *image_file_unref(struct image_file *f);

struct image {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    struct image_file *file;
};

struct thread {
    uint32_t tid;
    struct process *process;
    uint64_t start;
    uint64_t affinity;
    uint64_t stack_base;
    uint64_t stack_limit;
    uint64_t entry;
    uint64_t thread_pointer;
    int32_t prio;
    bool seen; /* by a walk that is being looked at */
    char comm[RAW_COMM_SIZE];
    struct thread *next;                  /* hash chain */
    struct thread *sibling, **sibling_at; /* of the process */
};

struct process {
    struct process_table *table;
    uint32_t tgid;
    uint32_t parent;
    uint32_t session;
    uint32_t uid;
    uint64_t start; /* of its leader */
    uint64_t exec_id;
    uint64_t unique_key;
    bool kernel;
    bool images_known; /* the images are complete: walked, or born while images are traced */
    bool dying;        /* its last thread begins to exit */
    bool seen;         /* by a walk that is being looked at */
    int32_t status;    /* then: as wait(2) gives it */
    uint64_t dying_since;
    struct text *name;
    struct text *command;
    struct thread *threads;
    unsigned n_threads;
    struct image *images; /* by start */
    size_t n_images, images_cap;
    struct process *next; /* hash chain */
    struct process *next_dying, **dying_at;
    void *block; /* keep.c's */
    struct process *next_changed, **changed_at;
};

struct process_table;

/* boot_key: makes UniqueProcessKey unlike that of another boot. */
int process_table_new(const uint8_t boot_key[16], struct process_table **ret);
struct process_table *process_table_free(struct process_table *t);
/* From now on what changes is listed for whoever hands the table on; gone() is told of the block of
 * a process or file that goes. */
void process_table_keep(struct process_table *t, void (*gone)(void *userdata, void *block),
                        void *userdata);
/* Takes the next one off the list; NULL: there is none. */
struct process *process_table_changed(struct process_table *t);
struct image_file *process_table_changed_file(struct process_table *t);
/* Puts it on, once: for changes that the functions here do not make. */
void process_touch(struct process *p);
void image_file_touch(struct image_file *f);
/* Numbers of files to come are above this one. */
void process_table_number(struct process_table *t, uint64_t number);
/* Forgets everything. */
void process_table_clear(struct process_table *t);
/* Forgets the images of all processes: nobody traces them any more. */
void process_table_forget_images(struct process_table *t);

size_t process_table_size(const struct process_table *t);
/* All processes by tgid, in memory of malloc(3); NULL and *ret_n 0: none, or no memory. */
struct process **process_table_list(const struct process_table *t, size_t *ret_n);

uint64_t process_key(const struct process_table *t, uint32_t tgid, uint64_t start,
                     uint64_t exec_id);

struct process *process_find(const struct process_table *t, uint32_t tgid);
/* A new process without threads; -EEXIST when the tgid is there. */
int process_add(struct process_table *t, const struct raw_task *task, struct process **ret);
void process_remove(struct process_table *t, struct process *p);
/* Takes what may change from a newer look at it. Texts and identity stay, and the parent: who it
 * was when the program began, not who inherited it. */
void process_refresh(struct process *p, const struct raw_task *task);
/* The process runs another program now. */
void process_exec(struct process_table *t, struct process *p, const struct raw_task *task);
void process_set_name(struct process *p, struct text *name);       /* takes the reference */
void process_set_command(struct process *p, struct text *command); /* takes the reference */

/* A list of those that wait for the exit of a thread, oldest first. */
void process_dying(struct process_table *t, struct process *p);
struct process *process_dying_first(const struct process_table *t);

struct thread *thread_find(const struct process_table *t, uint32_t tid);
int thread_add(struct process_table *t, struct process *p, const struct raw_task *task,
               struct thread **ret);
void thread_remove(struct process_table *t, struct thread *th);
void thread_refresh(struct thread *th, const struct raw_task *task);

/* The one object for a file; takes a reference for the caller. The first path is kept. */
int image_file_get(struct process_table *t, const struct image_key *key, const char *path,
                   size_t path_size, struct image_file **ret);
/* The same for a mapping as the probes tell it. */
int image_file_of(struct process_table *t, const struct raw_map *m, const char *path,
                  struct image_file **ret);
/* Puts an image in, where none overlaps it; the caller's reference to the file is taken over on
 * success. -EDQUOT: the process has ETW_PROCESS_IMAGES_MAX. */
int image_add(struct process *p, uint64_t start, uint64_t end, uint64_t offset,
              struct image_file *file);
/* The first image that overlaps [start, end); -ENOENT. */
int image_overlap(const struct process *p, uint64_t start, uint64_t end, size_t *ret_index);
void image_remove(struct process *p, size_t index);
void images_clear(struct process *p);
/* The child begins with the parent's images. */
int images_copy(struct process *child, const struct process *parent);
