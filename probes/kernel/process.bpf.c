/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Births, execs and deaths of threads and processes, as raw records. What events become of them,
 * and in which order, is decided in the daemon, which keeps the table of processes.
 *
 * task_newtask and not sched_process_fork: the latter does not see the threads that the kernel
 * itself puts into a process (io_uring, vhost), whose exits are seen.
 */
#include "task.bpf.h"

SEC("tp_btf/task_newtask")
int BPF_PROG(on_newtask, struct task_struct *child, unsigned long clone_flags)
{
    struct {
        struct etl_record prefix;
        struct raw_fork f;
    } * r;

    int tid = BPF_CORE_READ(child, pid);
    if (tid == 0) /* the idle thread of a CPU that comes online */
        return 0;
    uint16_t kind = tid == BPF_CORE_READ(child, tgid) ? RAW_FORK : RAW_THREAD;
    r = raw_reserve(sizeof(r->f), kind);
    if (!r)
        return 0;
    uint64_t creator = bpf_get_current_pid_tgid();
    r->f.creator_tid = (uint32_t) creator;
    r->f.creator_tgid = (uint32_t) (creator >> 32);
    task_fill(&r->f.task, child);
    if (kind == RAW_THREAD && !(r->f.task.flags & RAW_TASK_KERNEL)) {
        task_fill_stack(&r->f.task, child);
        r->f.task.entry = task_ip(child);
    }
    r->f.stamp = bpf_ktime_get_boot_ns();
    record_submit(r);
    return 0;
}

/* `live` counts the threads that have not begun to exit. Two that exit together may both see 0: the
 * daemon ends the process after the last thread's End. (The argument group_dead exists since 6.16
 * only, and has the same gap.) */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *t)
{
    struct {
        struct etl_record prefix;
        struct raw_exit e;
    } * r;
    struct signal_struct *signal = BPF_CORE_READ(t, signal);
    uint16_t kind = BPF_CORE_READ(signal, live.counter) == 0 ? RAW_EXIT_LAST : RAW_EXIT;

    r = raw_reserve(sizeof(r->e), kind);
    if (!r)
        return 0;
    task_fill(&r->e.task, t);
    if (BPF_CORE_READ(signal, flags) & SIGNAL_GROUP_EXIT)
        r->e.status = BPF_CORE_READ(signal, group_exit_code);
    else
        r->e.status = BPF_CORE_READ(t, group_leader, exit_code);
    r->e.reserved = 0;
    r->e.stamp = bpf_ktime_get_boot_ns();
    record_submit(r);
    return 0;
}

/* Two sizes of exec record, most are small. */
#define SMALL_PATH 256
#define SMALL_ARGS 1024
#define CHUNK 4096

#define EXEC_RECORD(name, path_max, args_max)                                                      \
    struct name {                                                                                  \
        struct etl_record prefix;                                                                  \
        struct raw_exec e;                                                                         \
        char path[path_max];                                                                       \
        char args[args_max];                                                                       \
    }
EXEC_RECORD(exec_small, SMALL_PATH, SMALL_ARGS);
EXEC_RECORD(exec_large, RAW_PATH_MAX, RAW_ARGS_MAX);

static __always_inline void exec_fill(struct raw_exec *e, uint32_t old_tid, uint32_t path_size,
                                      uint32_t args_offset, struct task_struct *t)
{
    e->old_tid = old_tid;
    e->path_size = path_size;
    e->args_offset = args_offset;
    e->reserved = 0;
    task_fill(&e->task, t);
}

static __always_inline bool exec_record_small(struct task_struct *t, uint32_t old_tid,
                                              const char *filename, uint64_t args, uint64_t len)
{
    struct exec_small *r = raw_reserve(sizeof(*r) - sizeof(r->prefix), RAW_EXEC);
    if (!r)
        return true; /* lost, and counted */
    long n = bpf_probe_read_kernel_str(r->path, sizeof(r->path), filename);
    if (n == sizeof(r->path)) { /* perhaps longer */
        record_discard(r);
        return false;
    }
    exec_fill(&r->e, old_tid, n > 0 ? (uint32_t) n - 1 : 0, SMALL_PATH, t);
    r->e.args_cut = 0;
    r->e.args_size = 0;
    if (len > 0 && len <= SMALL_ARGS && bpf_probe_read_user(r->args, len, (void *) args) == 0)
        r->e.args_size = (uint32_t) len;
    r->e.stamp = bpf_ktime_get_boot_ns();
    record_submit(r);
    return true;
}

static __always_inline void exec_record_large(struct task_struct *t, uint32_t old_tid,
                                              const char *filename, uint64_t args, uint64_t len)
{
    struct exec_large *r = raw_reserve(sizeof(*r) - sizeof(r->prefix), RAW_EXEC);
    if (!r)
        return;
    long n = bpf_probe_read_kernel_str(r->path, sizeof(r->path), filename);
    exec_fill(&r->e, old_tid, n > 0 ? (uint32_t) n - 1 : 0, RAW_PATH_MAX, t);
    r->e.args_cut = len > RAW_ARGS_MAX;
    if (len > RAW_ARGS_MAX)
        len = RAW_ARGS_MAX;
    uint32_t done = 0;
    for (uint32_t i = 0; i < RAW_ARGS_MAX / CHUNK; i++) {
        char *to = r->args + i * CHUNK;
        const char *from = (const char *) args + i * CHUNK;
        if (len >= (i + 1) * CHUNK) {
            if (bpf_probe_read_user(to, CHUNK, from) < 0)
                break;
            done += CHUNK;
        } else {
            uint32_t rest = (uint32_t) len & (CHUNK - 1);
            if (bpf_probe_read_user(to, rest, from) == 0)
                done += rest;
            break;
        }
    }
    r->e.args_size = done;
    r->e.stamp = bpf_ktime_get_boot_ns();
    record_submit(r);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *t, int old_tid, struct linux_binprm *bprm)
{
    const char *filename = BPF_CORE_READ(bprm, filename);
    struct mm_struct *mm = BPF_CORE_READ(t, mm);
    uint64_t start = BPF_CORE_READ(mm, arg_start);
    uint64_t end = BPF_CORE_READ(mm, arg_end);
    uint64_t len = end > start ? end - start : 0;

    if (len > SMALL_ARGS || !exec_record_small(t, (uint32_t) old_tid, filename, start, len))
        exec_record_large(t, (uint32_t) old_tid, filename, start, len);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
