/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A file's identity and path. bpf_d_path is not to be had at tracepoints, so the path is walked
 * from dentry to mount to parent mount, up to the root of the mount namespace, into a buffer that
 * fills from its end. A path longer than the buffer loses its front.
 */
#pragma once

#include "record.bpf.h"

/* The kernel's own bound is the path size; deeper paths than this lose their front. */
#define PATH_STEPS 256
#define PATH_MASK (RAW_PATH_MAX - 1)

struct path_scratch {
    uint32_t pos; /* the path begins at text[pos] and ends at text[RAW_PATH_MAX] */
    uint32_t cut;
    struct dentry *dentry;
    struct dentry *root; /* of the mount */
    struct mount *mount;
    /* The verifier sees any index up to RAW_PATH_MAX followed by any padded length up to it. */
    char text[2 * RAW_PATH_MAX + 8];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, uint32_t);
    __type(value, struct path_scratch);
} path_scratch __weak SEC(".maps");

static long path_step(uint32_t i, void *ctx)
{
    uint32_t zero = 0;
    struct path_scratch *s = bpf_map_lookup_elem(&path_scratch, &zero);
    if (!s)
        return 1;
    struct dentry *d = s->dentry;
    struct dentry *parent = BPF_CORE_READ(d, d_parent);

    if (d == s->root) {
        struct mount *here = s->mount;
        struct mount *up = BPF_CORE_READ(here, mnt_parent);
        if (!up || up == here)
            return 1;
        s->dentry = BPF_CORE_READ(here, mnt_mountpoint);
        s->mount = up;
        s->root = BPF_CORE_READ(up, mnt.mnt_root);
        return 0;
    }

    uint32_t len = BPF_CORE_READ(d, d_name.len);
    if (len > 255)
        len = 255;
    if (s->pos < len + 1) {
        s->cut = 1;
        return 1;
    }
    uint32_t pos = s->pos - len;
    bpf_probe_read_kernel(&s->text[pos & PATH_MASK], len & 0xff, BPF_CORE_READ(d, d_name.name));
    pos--;
    s->text[pos & PATH_MASK] = '/';
    s->pos = pos;
    s->dentry = parent;
    /* A file without a directory: a memfd. */
    return d == parent;
}

/* Leaves the path in the scratch of this CPU; NULL when there is none. */
static __always_inline struct path_scratch *file_path(struct file *f)
{
    uint32_t zero = 0;
    struct path_scratch *s = bpf_map_lookup_elem(&path_scratch, &zero);
    if (!s)
        return NULL;
    struct vfsmount *mnt = BPF_CORE_READ(f, f_path.mnt);
    s->pos = RAW_PATH_MAX;
    s->cut = 0;
    s->dentry = BPF_CORE_READ(f, f_path.dentry);
    s->root = BPF_CORE_READ(mnt, mnt_root);
    s->mount = (void *) mnt - bpf_core_field_offset(struct mount, mnt);
    bpf_loop(PATH_STEPS, path_step, NULL, 0);
    return s;
}

static __always_inline void file_identity(struct raw_file *r, struct file *f)
{
    struct inode *inode = BPF_CORE_READ(f, f_inode);
    struct inode___ctime *plain = (void *) inode;
    struct inode___private_ctime *private = (void *) inode;
    struct inode___split_ctime *split = (void *) inode;
    uint32_t dev = BPF_CORE_READ(inode, i_sb, s_dev);
    int64_t sec = 0;
    uint32_t nsec = 0;

    if (bpf_core_field_exists(split->i_ctime_sec)) {
        sec = BPF_CORE_READ(split, i_ctime_sec);
        nsec = BPF_CORE_READ(split, i_ctime_nsec);
    } else if (bpf_core_field_exists(private->__i_ctime)) {
        sec = BPF_CORE_READ(private, __i_ctime.tv_sec);
        nsec = (uint32_t) BPF_CORE_READ(private, __i_ctime.tv_nsec);
    } else if (bpf_core_field_exists(plain->i_ctime)) {
        sec = BPF_CORE_READ(plain, i_ctime.tv_sec);
        nsec = (uint32_t) BPF_CORE_READ(plain, i_ctime.tv_nsec);
    }
    r->inode = BPF_CORE_READ(inode, i_ino);
    /* The kernel's top bit says that somebody asked for the time. */
    r->change_time_ns = (uint64_t) sec * 1000000000ULL + (nsec & 0x7fffffffu);
    r->dev_major = dev >> 20;
    r->dev_minor = dev & 0xfffffu;
}
