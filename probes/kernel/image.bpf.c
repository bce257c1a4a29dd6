/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Executable mappings of files: those that exec makes (program and its interpreter), and those that
 * mmap makes; and every munmap, which the daemon holds against its table of images. A program on
 * sys_exit slows every system call of the machine: loaded only for IMAGE_LOAD.
 *
 * At the exit of mmap the file is taken from the descriptor, not from the mapping: that needs no
 * lock of the address space, so nothing is missed in a program whose threads all map.
 */
#include "file.bpf.h"
#include "task.bpf.h"

#define SMALL_MAP_PATH 192
#define PAGE_OFFSET_MASK 4095ULL

struct map_small {
    struct etl_record prefix;
    struct raw_map m;
    char path[SMALL_MAP_PATH];
};
struct map_large {
    struct etl_record prefix;
    struct raw_map m;
    char path[RAW_PATH_MAX];
};

struct mapping {
    struct file *file;
    uint64_t start;
    uint64_t end;
    uint64_t offset;
};

static __always_inline void map_fill(struct raw_map *m, const struct mapping *v, uint32_t len,
                                     uint32_t cut)
{
    uint64_t id = bpf_get_current_pid_tgid();
    struct task_struct *t = (void *) bpf_get_current_task();
    struct task_struct *leader = BPF_CORE_READ(t, group_leader);

    m->tid = (uint32_t) id;
    m->tgid = (uint32_t) (id >> 32);
    m->start = v->start;
    m->end = v->end;
    m->offset = v->offset;
    m->leader_start = BPF_CORE_READ(leader, start_boottime);
    m->exec_id = BPF_CORE_READ(leader, self_exec_id);
    file_identity(&m->file, v->file);
    m->path_size = len;
    m->path_cut = cut;
    m->stamp = bpf_ktime_get_boot_ns();
}

static __attribute__((noinline)) int map_record(struct mapping *v)
{
    struct path_scratch *s = file_path(v->file);
    if (!s)
        return 0;
    uint32_t pos = s->pos;
    if (pos > RAW_PATH_MAX)
        return 0;
    uint32_t len = RAW_PATH_MAX - pos;

    if (len <= SMALL_MAP_PATH) {
        struct map_small *r = raw_reserve(sizeof(*r) - sizeof(r->prefix), RAW_MAP);
        if (!r)
            return 0;
        /* A fixed size, which the verifier follows: on past the path into the spare half. */
        bpf_probe_read_kernel(r->path, sizeof(r->path), &s->text[pos]);
        map_fill(&r->m, v, len, s->cut);
        record_submit(r);
    } else {
        struct map_large *r = raw_reserve(sizeof(*r) - sizeof(r->prefix), RAW_MAP);
        if (!r)
            return 0;
        bpf_probe_read_kernel(r->path, len, &s->text[pos]);
        map_fill(&r->m, v, len, s->cut);
        record_submit(r);
    }
    return 0;
}

/* Descriptor `fd` of the current task; NULL when it is not open. */
static __always_inline struct file *current_file(uint32_t fd)
{
    struct task_struct *t = (void *) bpf_get_current_task();
    struct fdtable *table = BPF_CORE_READ(t, files, fdt);
    struct file *f = NULL;

    if (fd >= BPF_CORE_READ(table, max_fds))
        return NULL;
    bpf_probe_read_kernel(&f, sizeof(f), BPF_CORE_READ(table, fd) + fd);
    return f;
}

static long mapping_found(struct task_struct *t, struct vm_area_struct *vma, struct mapping *v)
{
    v->file = BPF_CORE_READ(vma, vm_file);
    v->start = BPF_CORE_READ(vma, vm_start);
    v->end = BPF_CORE_READ(vma, vm_end);
    v->offset = BPF_CORE_READ(vma, vm_pgoff) << 12;
    return 0;
}

static __always_inline void on_mmap(uint64_t ret, uint64_t len, uint64_t prot, uint64_t flags,
                                    uint64_t fd, uint64_t offset)
{
    struct mapping v;

    if (!(prot & PROT_EXEC) || flags & MAP_ANONYMOUS || ret > (uint64_t) -4096)
        return;
    v.file = current_file((uint32_t) fd);
    if (!v.file) {
        /* Another thread has closed it since. */
        if (bpf_find_vma(bpf_get_current_task_btf(), ret, mapping_found, &v, 0) < 0 || !v.file) {
            count_lost(bpf_get_smp_processor_id(), LOST_RAW(RAW_MAP));
            return;
        }
    }
    v.start = ret;
    v.end = ret + ((len + PAGE_OFFSET_MASK) & ~PAGE_OFFSET_MASK);
    v.offset = offset;
    map_record(&v);
}

static __always_inline void on_munmap(uint64_t ret, uint64_t start, uint64_t len)
{
    struct {
        struct etl_record prefix;
        struct raw_unmap u;
    } * r;

    if (ret)
        return;
    r = raw_reserve(sizeof(r->u), RAW_UNMAP);
    if (!r)
        return;
    uint64_t id = bpf_get_current_pid_tgid();
    r->u.tid = (uint32_t) id;
    r->u.tgid = (uint32_t) (id >> 32);
    r->u.start = start;
    r->u.end = start + ((len + PAGE_OFFSET_MASK) & ~PAGE_OFFSET_MASK);
    r->u.stamp = bpf_ktime_get_boot_ns();
    record_submit(r);
}

#if defined(__TARGET_ARCH_x86)
#define TS_COMPAT 2

static __always_inline bool current_is_32bit(void)
{
    struct task_struct *t = (void *) bpf_get_current_task();
    struct thread_info___x86 *info = (void *) &t->thread_info;
    return BPF_CORE_READ(info, status) & TS_COMPAT;
}

/* The arguments are still in the registers when a system call ends; only ax is its result. */
SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long ret)
{
    switch (regs->orig_ax) {
    case 9: /* mmap; in 32-bit: link */
        if (!current_is_32bit())
            on_mmap((uint64_t) ret, regs->si, regs->dx, regs->r10, regs->r8, regs->r9);
        break;
    case 11: /* munmap; in 32-bit: execve */
        if (!current_is_32bit())
            on_munmap((uint64_t) ret, regs->di, regs->si);
        break;
    case 91: /* 32-bit munmap; else: fchmod */
        if (current_is_32bit())
            on_munmap((uint64_t) ret, (uint32_t) regs->bx, (uint32_t) regs->cx);
        break;
    case 192: /* 32-bit mmap2, offset in pages; else: lgetxattr. */
        if (current_is_32bit())
            on_mmap((uint32_t) ret, (uint32_t) regs->cx, (uint32_t) regs->dx, (uint32_t) regs->si,
                    (uint32_t) regs->di, (uint64_t) (uint32_t) regs->bp << 12);
        break;
    }
    return 0;
}
#else
SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long ret)
{
    switch (regs->syscallno) {
    case 222:
        on_mmap((uint64_t) ret, regs->regs[1], regs->regs[2], regs->regs[3], regs->regs[4],
                regs->regs[5]);
        break;
    case 215:
        /* The first argument's register holds the result; it is kept beside. */
        on_munmap((uint64_t) ret, regs->orig_x0, regs->regs[1]);
        break;
    }
    return 0;
}
#endif

/* The program's code, then the code where the process begins to run: its interpreter's, or the
 * same. Nobody else has the new address space yet, so the search fails only beside a reader that
 * waits to write; then the code range that the loader noted must do. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec_images, struct task_struct *t, int old_tid, struct linux_binprm *bprm)
{
    struct mapping v = {NULL, 0, 0, 0};
    uint64_t code = BPF_CORE_READ(t, mm, start_code);

    if (bpf_find_vma(t, code, mapping_found, &v, 0) < 0 || !v.file) {
        v.file = BPF_CORE_READ(t, mm, exe_file);
        v.start = code & ~PAGE_OFFSET_MASK;
        v.end = (BPF_CORE_READ(t, mm, end_code) + PAGE_OFFSET_MASK) & ~PAGE_OFFSET_MASK;
        v.offset = 0;
    }
    if (v.file)
        map_record(&v);

    uint64_t ip = task_ip(t);
    if (ip >= v.start && ip < v.end)
        return 0;
    v.file = NULL;
    bpf_find_vma(t, ip, mapping_found, &v, 0);
    if (v.file)
        map_record(&v);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
