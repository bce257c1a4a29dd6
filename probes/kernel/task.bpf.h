/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Facts of a task into struct raw_task. For programs off the hot paths: every access is a checked
 * read, so that any kernel's verifier takes it for any kind of pointer.
 */
#pragma once

#include "record.bpf.h"

/* AT_ENTRY: where the program begins, in whatever order the vector stands. */
static __always_inline uint64_t mm_entry(struct mm_struct *mm)
{
    uint64_t pair[2];

    for (int i = 0; i < AUXV_WORDS / 2; i++) {
        if (bpf_core_read(pair, sizeof(pair), &mm->saved_auxv[2 * i]) < 0 || pair[0] == 0)
            break;
        if (pair[0] == AT_ENTRY)
            return pair[1];
    }
    return 0;
}

static __always_inline uint64_t task_thread_pointer(struct task_struct *t)
{
    struct thread_struct___x86 *x86 = (void *) &t->thread;
    struct thread_struct___arm64 *arm64 = (void *) &t->thread;
    uint64_t v = 0;

    if (bpf_core_field_exists(x86->fsbase))
        v = BPF_CORE_READ(x86, fsbase);
    else if (bpf_core_field_exists(arm64->uw))
        v = BPF_CORE_READ(arm64, uw.tp_value);
    return v;
}

/* Everything but the user stack and the entry of a thread that is not its process's first. */
static __always_inline void task_fill(struct raw_task *r, struct task_struct *t)
{
    struct task_struct *leader = BPF_CORE_READ(t, group_leader);
    struct signal_struct *signal = BPF_CORE_READ(t, signal);
    struct mm_struct *mm = BPF_CORE_READ(t, mm);
    struct pid *session = NULL;
    uint32_t flags = BPF_CORE_READ(t, flags);

    r->tid = (uint32_t) BPF_CORE_READ(t, pid);
    r->tgid = (uint32_t) BPF_CORE_READ(t, tgid);
    r->parent_tgid = (uint32_t) BPF_CORE_READ(t, real_parent, tgid);
    bpf_core_read(&session, sizeof(session), &signal->pids[PIDTYPE_SID]);
    r->session = session ? (uint32_t) BPF_CORE_READ(session, numbers[0].nr) : 0;
    r->uid = BPF_CORE_READ(t, cred, uid.val);
    r->flags = flags & PF_KTHREAD ? RAW_TASK_KERNEL : 0;
    r->prio = BPF_CORE_READ(t, prio);
    r->reserved = 0;
    r->leader_start = BPF_CORE_READ(leader, start_boottime);
    r->start = BPF_CORE_READ(t, start_boottime);
    r->exec_id = BPF_CORE_READ(leader, self_exec_id);
    r->affinity = BPF_CORE_READ(t, cpus_mask.bits[0]);
    r->stack_base = 0;
    r->stack_limit = 0;
    r->entry = 0;
    r->thread_pointer = 0;
    if (mm && !(flags & PF_KTHREAD)) {
        r->thread_pointer = task_thread_pointer(t);
        if (r->tid == r->tgid) {
            uint64_t limit = BPF_CORE_READ(signal, rlim[RLIMIT_STACK].rlim_cur);
            r->stack_base = BPF_CORE_READ(mm, start_stack);
            if (limit < r->stack_base)
                r->stack_limit = r->stack_base - limit;
            r->entry = mm_entry(mm);
        }
    }
    bpf_core_read(r->comm, sizeof(r->comm), &t->comm);
}

struct stack_search {
    uint64_t base;
    uint64_t limit;
};

static long stack_found(struct task_struct *t, struct vm_area_struct *vma, struct stack_search *s)
{
    s->limit = BPF_CORE_READ(vma, vm_start);
    s->base = BPF_CORE_READ(vma, vm_end);
    return 0;
}

/* For a thread that is not the first: the stack is the mapping around its stack pointer. Unknown
 * where the address space is locked just now. */
static __always_inline void task_fill_stack(struct raw_task *r, struct task_struct *t)
{
    if (r->tid == r->tgid || r->flags & RAW_TASK_KERNEL)
        return;
    struct pt_regs *regs = (void *) bpf_task_pt_regs(t);
    if (!regs)
        return;
    uint64_t sp = BPF_CORE_READ(regs, sp);
    struct stack_search s = {0, 0};
    if (sp && bpf_find_vma(t, sp, stack_found, &s, 0) == 0) {
        r->stack_base = s.base;
        r->stack_limit = s.limit;
    }
}

static __always_inline uint64_t task_ip(struct task_struct *t)
{
    struct pt_regs *regs = (void *) bpf_task_pt_regs(t);
#if defined(__TARGET_ARCH_x86)
    return regs ? BPF_CORE_READ(regs, ip) : 0;
#else
    return regs ? BPF_CORE_READ(regs, pc) : 0;
#endif
}
