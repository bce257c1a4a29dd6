/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The kernel types that the programs touch, with the members they touch and nothing else. libbpf
 * relocates every access against the running kernel's BTF (CO-RE), so neither order nor offsets
 * matter here; what changed its shape between 6.1 and now stands once per shape, with a ___suffix.
 * Only for BPF programs; also the integer types of proto/etl, which they share with the daemon.
 */
#pragma once

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

typedef __u8 uint8_t;
typedef __s8 int8_t;
typedef __u16 uint16_t;
typedef __s16 int16_t;
typedef __u32 uint32_t;
typedef __s32 int32_t;
typedef __u64 uint64_t;
typedef __s64 int64_t;

#define NULL ((void *) 0)
typedef _Bool bool;
#define true 1
#define false 0

/* From the kernel's user interface. */
enum {
    BPF_MAP_TYPE_ARRAY = 2,
    BPF_MAP_TYPE_PERCPU_ARRAY = 6,
    BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
    BPF_MAP_TYPE_RINGBUF = 27,
    BPF_F_MMAPABLE = 1 << 10,
    BPF_RB_NO_WAKEUP = 1,
};

/* task_struct.flags */
#define PF_IDLE 0x00000002u
#define PF_KTHREAD 0x00200000u
/* task_struct.__state */
#define TASK_INTERRUPTIBLE 0x0001u
#define TASK_UNINTERRUPTIBLE 0x0002u
#define __TASK_STOPPED 0x0004u
#define __TASK_TRACED 0x0008u
#define TASK_PARKED 0x0040u
#define TASK_DEAD 0x0080u
#define TASK_NOLOAD 0x0400u
#define TASK_FROZEN 0x8000u
/* signal_struct */
#define SIGNAL_GROUP_EXIT 0x0004u
#define PIDTYPE_SID 3
#define RLIMIT_STACK 3
#define RLIM_INFINITY (~0ULL)
/* mm_struct.saved_auxv */
#define AT_ENTRY 9
#define AUXV_WORDS 40
#define PROT_EXEC 0x4
#define MAP_ANONYMOUS 0x20
#define VM_EXEC 0x4

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
    struct list_head *next, *prev;
};

typedef struct {
    int counter;
} atomic_t;

struct qstr {
    uint32_t len;
    const unsigned char *name;
};

struct super_block {
    uint32_t s_dev;
};

struct inode {
    unsigned short i_mode;
    struct super_block *i_sb;
    unsigned long i_ino;
};

struct timespec64 {
    int64_t tv_sec;
    long tv_nsec;
};

/* Change time: i_ctime up to 6.5, __i_ctime up to 6.10, two members since. */
struct inode___ctime {
    struct timespec64 i_ctime;
};
struct inode___private_ctime {
    struct timespec64 __i_ctime;
};
struct inode___split_ctime {
    int64_t i_ctime_sec;
    uint32_t i_ctime_nsec;
};

struct dentry {
    struct dentry *d_parent;
    struct qstr d_name;
};

struct vfsmount {
    struct dentry *mnt_root;
};

struct mount {
    struct mount *mnt_parent;
    struct dentry *mnt_mountpoint;
    struct vfsmount mnt;
};

struct path {
    struct vfsmount *mnt;
    struct dentry *dentry;
};

struct file {
    struct path f_path;
    struct inode *f_inode;
};

struct fdtable {
    unsigned int max_fds;
    struct file **fd;
};

struct files_struct {
    struct fdtable *fdt;
};

struct vm_area_struct {
    unsigned long vm_start;
    unsigned long vm_end;
    unsigned long vm_flags;
    unsigned long vm_pgoff;
    struct file *vm_file;
};

struct mm_struct {
    unsigned long start_code;
    unsigned long end_code;
    unsigned long start_stack;
    unsigned long arg_start;
    unsigned long arg_end;
    unsigned long saved_auxv[AUXV_WORDS];
    struct file *exe_file;
};

typedef struct {
    unsigned int val;
} kuid_t;

struct cred {
    kuid_t uid;
};

struct upid {
    int nr;
};

struct pid {
    struct upid numbers[1];
};

struct rlimit {
    unsigned long rlim_cur;
};

struct signal_struct {
    atomic_t live;
    int group_exit_code;
    unsigned int flags;
    struct pid *pids[4];
    struct rlimit rlim[16];
};

struct sched_entity {
    uint64_t sum_exec_runtime;
    uint64_t prev_sum_exec_runtime;
};

/* The length of a slice lies in the entity since 6.6. */
struct sched_entity___slice {
    uint64_t slice;
};

struct cpumask {
    unsigned long bits[1];
};
typedef struct cpumask cpumask_t;

/* The thread pointer. */
struct thread_struct {
    unsigned long sp;
};
struct thread_struct___x86 {
    unsigned long fsbase;
};
struct thread_struct___arm64_words {
    unsigned long tp_value;
};
struct thread_struct___arm64 {
    struct thread_struct___arm64_words uw;
};

/* x86: whether the system call that runs is a 32-bit one (TS_COMPAT). */
struct thread_info {
    unsigned long flags;
};
struct thread_info___x86 {
    uint32_t status;
};

struct task_struct {
    struct thread_info thread_info;
    unsigned int __state;
    unsigned int flags;
    int prio;
    struct sched_entity se;
    cpumask_t cpus_mask;
    struct mm_struct *mm;
    int exit_state;
    int exit_code;
    unsigned int in_iowait : 1;
    int pid;
    int tgid;
    struct task_struct *real_parent;
    struct task_struct *group_leader;
    uint64_t start_boottime;
    const struct cred *cred;
    char comm[16];
    struct files_struct *files;
    struct signal_struct *signal;
    uint64_t self_exec_id;
    struct thread_struct thread;
};

struct linux_binprm {
    const char *filename;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
    unsigned long bp;
    unsigned long r8;
    unsigned long r9;
    unsigned long r10;
    unsigned long bx;
    unsigned long cx;
    unsigned long dx;
    unsigned long si;
    unsigned long di;
    unsigned long orig_ax;
    unsigned long ip;
    unsigned long sp;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
    uint64_t regs[31];
    uint64_t sp;
    uint64_t pc;
    uint64_t orig_x0;
    int32_t syscallno;
};
#else
#error "this processor is not known to the probes"
#endif

struct seq_file;
struct bpf_iter_meta {
    struct seq_file *seq;
};
struct bpf_iter__task {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
};
struct bpf_iter__task_vma {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
    struct vm_area_struct *vma;
};

#pragma clang attribute pop
