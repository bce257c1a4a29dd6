/* SPDX-License-Identifier: Apache-2.0
 *
 * What of the kernel logger a successor gets: the rings, counters and links of the programs as
 * descriptors, so that they go on recording while nobody reads; and as blocks of the state how far
 * each ring has been read, the table of processes, files and waiting image events, what is traced
 * for whom, and the rundown under way. All of it is changed freely; what changed is brought into
 * the blocks at the end of each transaction, so that it stands there as of the same moment as the
 * sessions' events. keep.c writes, takeover.c reads. Loop thread only.
 */
#pragma once

#include "kernel/operations.h"
#include "state/state.h"

/* Raised with any change of the images below, of the raw records, and of what the programs count.
 */
#define KERNEL_STATE_VERSION 1

/* Keys of the descriptors: what | a number. */
enum kernel_fd {
    KERNEL_FD_RING = 1, /* | CPU */
    KERNEL_FD_ARRAY = 2,
    KERNEL_FD_LOST = 3,
    KERNEL_FD_LINK = 4, /* | number of the program */
};
#define KERNEL_FD_KEY(what, n) ((uint64_t) (what) << 32 | (n))

struct logger_image {
    uint32_t version;
    uint32_t cpus;
    uint64_t ring_bytes;
    uint64_t programs; /* programs_hash() */
    uint64_t waiting_next;
    uint64_t handle; /* of the operation's session */
    uint64_t stamp;
    uint32_t operation; /* 0: none whose rundown has begun; else 1 + enum operation_kind */
    uint32_t old_masks[8];
    struct rundown_progress progress;
    uint32_t broken; /* something could not be kept */
    uint8_t processes, images, lossy;
    uint8_t reserved[5];
};
_Static_assert(sizeof(struct logger_image) == 112, "part of the format");

struct target_image {
    uint64_t begin, end;
    uint32_t masks[8];
    uint32_t sysconfig;
    uint32_t reserved;
};
_Static_assert(sizeof(struct target_image) == 56, "part of the format");

/* Then the images, name and command line each padded to 8 bytes, the threads, oldest first. */
struct process_image {
    uint64_t start, exec_id, dying_since;
    uint32_t parent, session, uid;
    int32_t status;
    uint32_t name_size, command_size; /* UINT32_MAX: there is none */
    uint32_t n_images, n_threads;
    uint8_t kernel, images_known, dying;
    uint8_t reserved[5];
};
_Static_assert(sizeof(struct process_image) == 64, "part of the format");

struct mapping_image {
    uint64_t start, end, offset;
    uint64_t file; /* its number */
};

struct thread_image {
    uint64_t start, affinity, stack_base, stack_limit, entry, thread_pointer;
    uint32_t tid;
    int32_t prio;
    char comm[RAW_COMM_SIZE];
};
_Static_assert(sizeof(struct thread_image) == 72, "part of the format");

/* Then the path. */
struct file_image {
    uint64_t inode, change_time_ns;
    uint64_t first_vaddr, span, exec_vaddr, exec_offset;
    uint32_t dev_major, dev_minor;
    uint32_t path_size;
    uint32_t build_id_size;
    uint8_t build_id[IMAGE_BUILD_ID_MAX];
    uint8_t answered, known;
    uint8_t reserved[6];
};
_Static_assert(sizeof(struct file_image) == 136, "part of the format");

struct waiting_image {
    struct mapping_image mapping;
    uint64_t stamp;
    uint64_t only; /* handle; 0: everybody */
    uint32_t row;
    uint32_t tid, context_pid, pid;
    uint32_t cpu;
    uint32_t reserved;
};
_Static_assert(sizeof(struct waiting_image) == 72, "part of the format");

/* k->keeper; NULL when nobody keeps descriptors for us. */
int kernel_keeper_new(struct kernel_logger *k);
struct kernel_keeper *kernel_keeper_free(struct kernel_keeper *kk);
/* The rings, counters and links that are there into the store, those that are gone out of it; while
 * no job of the worker runs. -EDQUOT: no room. NULL is fine. */
int kernel_keep_descriptors(struct kernel_keeper *kk);
/* An object's block, before the object goes. userdata: the state. */
void kernel_keep_gone(void *userdata, void *block);
/* Nothing is left for a successor, whatever there was. */
void kernel_keep_drop(struct kernel_keeper *kk);
