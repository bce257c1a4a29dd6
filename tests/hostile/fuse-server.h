/* SPDX-License-Identifier: Apache-2.0
 *
 * A FUSE file system with one file, "program", served by a child process that can be stopped: what
 * a user can put under etwd's eyes to make it wait. No library, just /dev/fuse.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FUSE_FILE_NODE 2u

static inline void fuse_reply(int fd, uint64_t unique, int error, const void *data, size_t size)
{
    struct fuse_out_header out = {
        .len = (uint32_t) (sizeof(out) + size), .error = error, .unique = unique};
    struct iovec iov[2] = {{&out, sizeof(out)}, {(void *) data, size}};

    /* The request may have been given up meanwhile. */
    (void) !writev(fd, iov, 2);
}

static inline struct fuse_attr fuse_attr_of(uint64_t node, size_t size)
{
    bool file = node == FUSE_FILE_NODE;

    return (struct fuse_attr){
        .ino = node,
        .size = file ? size : 0,
        .mode = file ? S_IFREG | 0755 : S_IFDIR | 0755,
        .nlink = 1,
        .blksize = 4096,
    };
}

static inline void fuse_serve_one(int fd, const char *request, const char *content, size_t size)
{
    const struct fuse_in_header *in = (const void *) request;
    const char *arg = request + sizeof(*in);

    switch (in->opcode) {
    case FUSE_INIT: {
        struct fuse_init_out out = {
            .major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = 65536, .max_write = 4096};

        fuse_reply(fd, in->unique, 0, &out, sizeof(out));
        break;
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out out = {.nodeid = FUSE_FILE_NODE,
                                     .entry_valid = 3600,
                                     .attr_valid = 3600,
                                     .attr = fuse_attr_of(FUSE_FILE_NODE, size)};

        if (strcmp(arg, "program") == 0)
            fuse_reply(fd, in->unique, 0, &out, sizeof(out));
        else
            fuse_reply(fd, in->unique, -ENOENT, NULL, 0);
        break;
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = {.attr_valid = 3600, .attr = fuse_attr_of(in->nodeid, size)};

        fuse_reply(fd, in->unique, 0, &out, sizeof(out));
        break;
    }
    case FUSE_OPEN: {
        struct fuse_open_out out = {.fh = 1};

        fuse_reply(fd, in->unique, 0, &out, sizeof(out));
        break;
    }
    case FUSE_READ: {
        struct fuse_read_in read_in;
        size_t n = 0;

        memcpy(&read_in, arg, sizeof(read_in));
        if (read_in.offset < size) {
            n = size - (size_t) read_in.offset;
            if (n > read_in.size)
                n = read_in.size;
        }
        fuse_reply(fd, in->unique, 0, content + (n ? read_in.offset : 0), n);
        break;
    }
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break;
    default:
        fuse_reply(fd, in->unique, -ENOSYS, NULL, 0);
    }
}

/* Serves the descriptor in a child, once it is mounted; content must live as long. */
static inline pid_t fuse_server_start(int fd, const char *content, size_t size)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    for (;;) {
        static char request[65536 + 4096] __attribute__((aligned(8)));
        ssize_t n = read(fd, request, sizeof(request));

        if (n >= (ssize_t) sizeof(struct fuse_in_header))
            fuse_serve_one(fd, request, content, size);
        else if (n < 0 && errno == ENODEV)
            _exit(0); /* unmounted */
        else
            usleep(1000); /* not mounted yet (EPERM), or a request was taken back */
    }
}

static inline int fuse_mount_at(int fd, const char *point)
{
    char options[128];

    (void) snprintf(options, sizeof(options),
                    "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd);
    return mount("hostile", point, "fuse", MS_NOSUID | MS_NODEV, options) < 0 ? -errno : 0;
}
