/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Context switches and ready threads, written in file layout. The hottest programs of all: a few
 * loads, one reserve, no other map. What needs memory of the past (NewThreadWaitTime) is filled in
 * by the daemon.
 */
#include "record.bpf.h"

#include "priority.h"

/* Wait reasons, modes and states of etw-kernel-events(7). */
enum {
    STATE_READY = 1,
    STATE_TERMINATED = 4,
    STATE_WAITING = 5,
    REASON_EXECUTIVE = 0,
    REASON_PAGE_IN = 2,
    REASON_SUSPENDED = 5,
    REASON_USER_REQUEST = 6,
    REASON_QUEUE = 15,
    REASON_TERMINATED = 22,
    REASON_QUANTUM_END = 30,
    REASON_PREEMPTED = 32,
    MODE_KERNEL = 0,
    MODE_USER = 1,
    ADJUST_UNWAIT = 1,
};

/* A slice where the kernel does not say its length: the default of EEVDF and the usual one of CFS.
 */
#define SLICE_NS 3000000ULL

static __always_inline bool slice_ended(struct task_struct *prev)
{
    struct sched_entity___slice *with_slice = (void *) &prev->se;
    uint64_t ran = prev->se.sum_exec_runtime - prev->se.prev_sum_exec_runtime;
    uint64_t slice = SLICE_NS;

    if (bpf_core_field_exists(with_slice->slice))
        slice = with_slice->slice;
    return ran >= slice;
}

static __always_inline int8_t task_priority(struct task_struct *t)
{
    return t->pid ? etw_priority(t->prio) : 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
             unsigned int prev_state)
{
    struct {
        struct etl_record prefix;
        struct etl_perfinfo_header h;
        struct etl_Thread_CSwitch e;
    } *r = record_reserve(sizeof(*r) - sizeof(r->prefix), ETL_RECORD_FINAL, ETL_ROW_Thread_CSwitch,
                          ETL_ROW_Thread_CSwitch);
    if (!r)
        return 0;

    r->h.version = ETL_VERSION_Thread_CSwitch;
    r->h.header_type = 0x11;
    r->h.marker = 0xC0;
    r->h.size = sizeof(r->h) + sizeof(r->e);
    r->h.type = ETL_OPCODE_Thread_CSwitch;
    r->h.group = ETL_GROUP_Thread_CSwitch;
    r->h.time_stamp = bpf_ktime_get_boot_ns();

    r->e.NewThreadId = (uint32_t) next->pid;
    r->e.OldThreadId = (uint32_t) prev->pid;
    r->e.NewThreadPriority = task_priority(next);
    r->e.OldThreadPriority = task_priority(prev);
    r->e.PreviousCState = 0;
    r->e.SpareByte = 0;
    r->e.OldThreadWaitIdealProcessor = (int8_t) r->prefix.cpu;
    r->e.NewThreadWaitTime = 0;
    r->e.Reserved = 0;

    int8_t state = STATE_WAITING, reason, mode = MODE_KERNEL;
    if (preempt || prev_state == 0) {
        state = STATE_READY;
        reason = prev->pid && slice_ended(prev) ? REASON_QUANTUM_END : REASON_PREEMPTED;
    } else if (prev_state & TASK_DEAD) {
        state = STATE_TERMINATED;
        reason = REASON_TERMINATED;
    } else if (prev_state & (__TASK_STOPPED | __TASK_TRACED | TASK_PARKED | TASK_FROZEN)) {
        reason = REASON_SUSPENDED;
    } else if (prev_state & TASK_INTERRUPTIBLE) {
        if (prev->flags & PF_KTHREAD) {
            reason = REASON_QUEUE;
        } else {
            reason = REASON_USER_REQUEST;
            mode = MODE_USER;
        }
    } else if (prev_state & TASK_NOLOAD) {
        reason = REASON_QUEUE;
    } else if (BPF_CORE_READ_BITFIELD(prev, in_iowait)) {
        reason = REASON_PAGE_IN;
    } else {
        reason = REASON_EXECUTIVE;
    }
    r->e.OldThreadState = state;
    r->e.OldThreadWaitReason = reason;
    r->e.ThreadFlags = mode;
    record_submit(r);
    return 0;
}

static __always_inline int ready(struct task_struct *p, int8_t reason)
{
    struct {
        struct etl_record prefix;
        struct etl_system_header h;
        struct etl_Thread_ReadyThread e;
    } *r = record_reserve(sizeof(*r) - sizeof(r->prefix), ETL_RECORD_FINAL,
                          ETL_ROW_Thread_ReadyThread, ETL_ROW_Thread_ReadyThread);
    if (!r)
        return 0;

    uint64_t waker = bpf_get_current_pid_tgid();
    r->h.version = ETL_VERSION_Thread_ReadyThread;
    r->h.header_type = 0x02;
    r->h.marker = 0xC0;
    r->h.size = sizeof(r->h) + sizeof(r->e);
    r->h.type = ETL_OPCODE_Thread_ReadyThread;
    r->h.group = ETL_GROUP_Thread_ReadyThread;
    r->h.thread_id = (uint32_t) waker;
    r->h.process_id = (uint32_t) (waker >> 32);
    r->h.kernel_time = 0;
    r->h.user_time = 0;
    r->e.TThreadId = (uint32_t) p->pid;
    r->e.AdjustReason = reason;
    r->e.AdjustIncrement = 0;
    r->e.Flag = 0; /* whether it was in an interrupt cannot be told everywhere */
    r->e.Reserved = 0;
    r->h.time_stamp = bpf_ktime_get_boot_ns();
    record_submit(r);
    return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
    return ready(p, ADJUST_UNWAIT);
}

/* A new thread is ready without having waited. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
    return ready(p, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
