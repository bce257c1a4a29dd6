/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The walks that tell what was there before: all tasks, and all executable mappings of files. The
 * daemon reads their output from iterator descriptors, as a stream of records with the prefix of
 * etl/record.h. Stamps are those of the visit. Tasks that have exited and wait for their parent are
 * not there any more.
 */
#include "file.bpf.h"
#include "task.bpf.h"

struct walk_task_record {
    struct etl_record prefix;
    struct raw_walk_task w;
};

/* Too big for the stack of a program. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, struct walk_task_record);
} walk_scratch SEC(".maps");

static __always_inline void prefix_fill(struct etl_record *r, uint32_t size, uint16_t kind)
{
    r->size = size;
    r->cpu = 0;
    r->type = ETL_RECORD_RAW;
    r->flags = 0;
    r->registration = kind;
    r->generation = 0;
    r->slots = 0;
}

SEC("iter/task")
int walk_tasks(struct bpf_iter__task *ctx)
{
    struct task_struct *t = ctx->task;
    uint32_t zero = 0;
    struct walk_task_record *r = bpf_map_lookup_elem(&walk_scratch, &zero);

    if (!t || !r || t->pid == 0 || t->exit_state)
        return 0;
    prefix_fill(&r->prefix, sizeof(*r), RAW_TASK);
    r->w.stamp = bpf_ktime_get_boot_ns();
    r->w.exe_size = 0;
    r->w.reserved = 0;
    task_fill(&r->w.task, t);
    task_fill_stack(&r->w.task, t);
    if (!(r->w.task.flags & RAW_TASK_KERNEL)) {
        struct dentry *d = BPF_CORE_READ(t, mm, exe_file, f_path.dentry);
        long n =
            bpf_probe_read_kernel_str(r->w.exe, sizeof(r->w.exe), BPF_CORE_READ(d, d_name.name));
        r->w.exe_size = n > 0 ? (uint32_t) n - 1 : 0;
    }
    bpf_seq_write(ctx->meta->seq, r, sizeof(*r));
    return 0;
}

/* One executable mapping. Of the threads that share an address space only the process's first is
 * asked. */
SEC("iter/task_vma")
int walk_images(struct bpf_iter__task_vma *ctx)
{
    struct task_struct *t = ctx->task;
    struct vm_area_struct *vma = ctx->vma;
    struct {
        struct etl_record prefix;
        struct raw_map m;
    } r;

    if (!t || !vma || t->pid != t->tgid || !(vma->vm_flags & VM_EXEC) || !vma->vm_file)
        return 0;
    struct path_scratch *s = file_path(vma->vm_file);
    if (!s)
        return 0;
    uint32_t pos = s->pos;
    if (pos > RAW_PATH_MAX)
        return 0;
    uint32_t len = RAW_PATH_MAX - pos;

    uint32_t padded = (len + 7) & ~7u; /* records keep their alignment */

    prefix_fill(&r.prefix, sizeof(r) + padded, RAW_MAP);
    r.m.stamp = bpf_ktime_get_boot_ns();
    r.m.tid = (uint32_t) t->pid;
    r.m.tgid = (uint32_t) t->tgid;
    r.m.start = vma->vm_start;
    r.m.end = vma->vm_end;
    r.m.offset = vma->vm_pgoff << 12;
    r.m.leader_start = t->start_boottime;
    r.m.exec_id = t->self_exec_id;
    file_identity(&r.m.file, vma->vm_file);
    r.m.path_size = len;
    r.m.path_cut = s->cut;
    bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
    bpf_seq_write(ctx->meta->seq, &s->text[pos], padded);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
