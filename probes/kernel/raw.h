/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What the kernel programs hand to the daemon where a record in file layout cannot be made in the
 * kernel: raw structs that follow the 16-byte prefix of etl/record.h (type ETL_RECORD_RAW,
 * registration = enum raw_kind), each beginning with its stamp; and the layout of the loss
 * counters. Compiled by both sides; the daemon checks sizes before it looks inside.
 *
 * Identifiers are those of the first pid namespace. Kernel addresses are never put in.
 */
#pragma once

#include "etl/classes.h"

enum raw_kind {
    RAW_NONE,
    RAW_FORK,      /* a new process, with its first thread: raw_fork */
    RAW_THREAD,    /* one more thread: raw_fork */
    RAW_EXEC,      /* raw_exec and text */
    RAW_EXIT,      /* a thread that others survive: raw_exit */
    RAW_EXIT_LAST, /* the last, or one of the last: raw_exit */
    RAW_MAP,       /* an executable mapping of a file was made: raw_map and the path */
    RAW_UNMAP,     /* a range of addresses was unmapped: raw_unmap */
    RAW_TASK,      /* a task found by a walk, not by an event: raw_walk_task */
    RAW_KINDS
};

/* A record that found its ring full is counted under its row, raw kinds after the rows. */
#define LOST_RAW(kind) (ETL_ROW_COUNT + (kind))
#define LOST_COUNT (ETL_ROW_COUNT + RAW_KINDS)

/* One a CPU, in an array map that the daemon maps read-only. */
struct lost_counters {
    uint64_t n[LOST_COUNT];
};

#define RAW_COMM_SIZE 16
#define RAW_NAME_MAX 256
#define RAW_PATH_MAX 4096
#define RAW_ARGS_MAX 16384

struct raw_task {
    uint32_t tid;
    uint32_t tgid;
    uint32_t parent_tgid; /* of real_parent */
    uint32_t session;
    uint32_t uid;
    uint32_t flags; /* enum raw_task_flags */
    int32_t prio;
    uint32_t reserved;
    uint64_t leader_start; /* start_boottime of the process's leader: with tgid and exec_id the */
    uint64_t start;        /* process's identity; and the task's own */
    uint64_t exec_id;
    uint64_t affinity;
    uint64_t stack_base; /* user stack: highest address, lowest; 0 unknown */
    uint64_t stack_limit;
    uint64_t entry; /* user address where it begins; 0 unknown */
    uint64_t thread_pointer;
    char comm[RAW_COMM_SIZE];
};
ETL_ASSERT(sizeof(struct raw_task) == 112, "raw_task");

enum raw_task_flags {
    RAW_TASK_KERNEL = 1, /* a kernel thread: no user address space */
};

struct raw_fork {
    uint64_t stamp;
    uint32_t creator_tid;
    uint32_t creator_tgid;
    struct raw_task task;
};

/* Text lies at fixed places, so that the verifier has little to prove: the path given to exec at
 * data[0], the arguments, separated by NUL, at data[args_offset]. */
struct raw_exec {
    uint64_t stamp;
    uint32_t old_tid;
    uint32_t path_size; /* without NUL */
    uint32_t args_offset;
    uint32_t args_size;
    uint32_t args_cut; /* the arguments went on */
    uint32_t reserved;
    struct raw_task task;
    /* data */
};

struct raw_exit {
    uint64_t stamp;
    int32_t status; /* the process's, as wait(2) gives it; of RAW_EXIT_LAST only */
    uint32_t reserved;
    struct raw_task task;
};

/* The file of a mapping. */
struct raw_file {
    uint64_t inode;
    uint64_t change_time_ns;
    uint32_t dev_major;
    uint32_t dev_minor;
};

struct raw_map {
    uint64_t stamp;
    uint32_t tid;
    uint32_t tgid;
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint64_t leader_start;
    uint64_t exec_id;
    struct raw_file file;
    uint32_t path_size; /* without NUL */
    uint32_t path_cut;  /* the front is missing */
    /* the path */
};

struct raw_unmap {
    uint64_t stamp;
    uint32_t tid;
    uint32_t tgid;
    uint64_t start;
    uint64_t end;
};

/* From the walk over tasks. */
struct raw_walk_task {
    uint64_t stamp;
    struct raw_task task;
    uint32_t exe_size; /* of the base name of the file that it runs; 0 unknown */
    uint32_t reserved;
    char exe[RAW_NAME_MAX];
};
