/* SPDX-License-Identifier: Apache-2.0
 *
 * The memfds of provider processes and consumers. A process is trusted with the content of its
 * arena or returns, never with the memory behind it: after the seal it can neither cut the memfd
 * nor punch holes in it, so etwd reads without fear of SIGBUS and nothing is charged to it that it
 * did not give.
 */
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/cleanup.h"
#include "../base/memfd.h"

/* Since Linux 6.3; glibc 2.36 does not know it. */
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define ARENA_SEALS (SIZE_SEALS | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
#define CONTROL_SEALS (SIZE_SEALS | F_SEAL_SEAL)

/* The seals are these, and the size is this. */
static int memfd_check(int fd, size_t size, int seals)
{
    struct stat st;
    int have;

    have = fcntl(fd, F_GET_SEALS);
    if (have < 0)
        return errno == EINVAL ? -EPROTO : -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if ((have & ~F_SEAL_EXEC) != seals || !S_ISREG(st.st_mode) || st.st_size != (off_t) size)
        return -EPROTO;
    return 0;
}

static int give_memory(int fd, size_t offset, size_t size)
{
    int r;

    do
        r = fallocate(fd, 0, (off_t) offset, (off_t) size);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return errno == ENOSPC ? -ENOMEM : -errno;
    return 0;
}

static int map(int fd, size_t size, int protection, void **ret)
{
    void *p;

    p = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -errno;
    *ret = p;
    return 0;
}

int shm_arena_create(uint32_t ring_size, int *ret_fd)
{
    if (!shm_ring_size_valid(ring_size))
        return -EINVAL;
    int fd = etw_memfd("etw-arena", shm_arena_size(ring_size), SIZE_SEALS);
    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}

int shm_arena_seal(int fd, uint32_t ring_size)
{
    struct stat st;
    int r;

    if (!shm_ring_size_valid(ring_size))
        return -EINVAL;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
        return errno == EPERM || errno == EBUSY ? -EPROTO : -errno;
    r = memfd_check(fd, shm_arena_size(ring_size), ARENA_SEALS);
    if (r < 0)
        return r;
    r = give_memory(fd, 0, SHM_ARENA_HEADER);
    if (r < 0)
        return r;
    if (fstat(fd, &st) < 0)
        return -errno;
    return st.st_blocks * 512 >= (blkcnt_t) SHM_ARENA_HEADER ? 0 : -EPROTO;
}

int shm_arena_map_read(int fd, uint32_t ring_size, const struct shm_arena **ret)
{
    void *p = NULL;
    int r;

    if (!shm_ring_size_valid(ring_size))
        return -EINVAL;
    r = memfd_check(fd, shm_arena_size(ring_size), ARENA_SEALS);
    if (r < 0)
        return r;
    r = map(fd, shm_arena_size(ring_size), PROT_READ, &p);
    if (r < 0)
        return r;
    *ret = p;
    return 0;
}

int shm_arena_give_ring(int fd, uint32_t ring_size, uint32_t index)
{
    if (!shm_ring_size_valid(ring_size) || index >= SHM_RINGS_PER_ARENA)
        return -EINVAL;
    return give_memory(fd, SHM_ARENA_HEADER + (size_t) index * ring_size, ring_size);
}

int shm_control_reopen(int fd, int *ret_client_fd)
{
    char path[64];
    int r;

    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    r = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (r < 0)
        return -errno;
    *ret_client_fd = r;
    return 0;
}

int shm_control_create(int *ret_fd, int *ret_client_fd)
{
    int r;

    _cleanup_close_ int fd = etw_memfd("etw-control", SHM_CONTROL_SIZE, CONTROL_SEALS);
    if (fd < 0)
        return fd;
    r = shm_control_reopen(fd, ret_client_fd);
    if (r < 0)
        return r;
    *ret_fd = take_fd(&fd);
    return 0;
}

int shm_control_map_write(int fd, void **ret)
{
    int r;

    r = memfd_check(fd, SHM_CONTROL_SIZE, CONTROL_SEALS);
    if (r < 0)
        return r;
    return map(fd, SHM_CONTROL_SIZE, PROT_READ | PROT_WRITE, ret);
}

int shm_arena_map(int fd, uint32_t ring_size, struct shm_arena **ret)
{
    void *p = NULL;
    int r;

    if (!shm_ring_size_valid(ring_size))
        return -EINVAL;
    r = memfd_check(fd, shm_arena_size(ring_size), SIZE_SEALS);
    if (r < 0)
        return r;
    r = map(fd, shm_arena_size(ring_size), PROT_READ | PROT_WRITE, &p);
    if (r < 0)
        return r;
    /* Two processes writing one ring would break both. */
    if (madvise(p, shm_arena_size(ring_size), MADV_DONTFORK) < 0) {
        r = -errno;
        shm_arena_unmap(p, ring_size);
        return r;
    }
    *ret = p;
    return 0;
}

int shm_control_map(int fd, const void **ret)
{
    void *p = NULL;
    int r;

    r = memfd_check(fd, SHM_CONTROL_SIZE, CONTROL_SEALS);
    if (r < 0)
        return r;
    r = map(fd, SHM_CONTROL_SIZE, PROT_READ, &p);
    if (r < 0)
        return r;
    *ret = p;
    return 0;
}

int shm_stream_create(int *ret_fd, int *ret_client_fd)
{
    int r;

    _cleanup_close_ int fd = etw_memfd("etw-stream", SHM_STREAM_SIZE, CONTROL_SEALS);
    if (fd < 0)
        return fd;
    r = give_memory(fd, 0, SHM_STREAM_SIZE);
    if (r < 0)
        return r;
    r = shm_control_reopen(fd, ret_client_fd);
    if (r < 0)
        return r;
    *ret_fd = take_fd(&fd);
    return 0;
}

int shm_stream_map_write(int fd, struct shm_stream **ret)
{
    void *p = NULL;
    int r;

    r = memfd_check(fd, SHM_STREAM_SIZE, CONTROL_SEALS);
    if (r < 0)
        return r;
    r = map(fd, SHM_STREAM_SIZE, PROT_READ | PROT_WRITE, &p);
    if (r < 0)
        return r;
    *ret = p;
    return 0;
}

int shm_returns_create(int *ret_fd)
{
    int fd = etw_memfd("etw-returns", SHM_RETURNS_SIZE, SIZE_SEALS);

    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}

int shm_returns_seal(int fd, const struct shm_returns **ret)
{
    void *p = NULL;
    int have, r;

    have = fcntl(fd, F_GET_SEALS);
    if (have < 0)
        return errno == EINVAL ? -EPROTO : -errno;
    if (!(have & F_SEAL_SEAL) && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
        return errno == EPERM || errno == EBUSY ? -EPROTO : -errno;
    r = memfd_check(fd, SHM_RETURNS_SIZE, ARENA_SEALS);
    if (r < 0)
        return r;
    /* Holes may have been punched before. */
    r = give_memory(fd, 0, SHM_RETURNS_SIZE);
    if (r < 0)
        return r;
    r = map(fd, SHM_RETURNS_SIZE, PROT_READ, &p);
    if (r < 0)
        return r;
    *ret = p;
    return 0;
}

static int map_for_consumer(int fd, size_t size, int seals, int protection, void **ret)
{
    int r;

    r = memfd_check(fd, size, seals);
    if (r < 0)
        return r;
    r = map(fd, size, protection, ret);
    if (r < 0)
        return r;
    if (madvise(*ret, size, MADV_DONTFORK) < 0) {
        r = -errno;
        (void) munmap(*ret, size);
        return r;
    }
    return 0;
}

int shm_stream_map(int fd, const struct shm_stream **ret)
{
    void *p = NULL;
    int r;

    r = map_for_consumer(fd, SHM_STREAM_SIZE, CONTROL_SEALS, PROT_READ, &p);
    if (r < 0)
        return r;
    *ret = p;
    return 0;
}

int shm_returns_map(int fd, struct shm_returns **ret)
{
    void *p = NULL;
    int r;

    r = map_for_consumer(fd, SHM_RETURNS_SIZE, SIZE_SEALS, PROT_READ | PROT_WRITE, &p);
    if (r < 0)
        return r;
    *ret = p;
    return 0;
}

int shm_identity_get(int fd, struct shm_identity *ret)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    *ret = (struct shm_identity){.dev = st.st_dev, .ino = st.st_ino};
    return 0;
}

bool shm_identity_is(int fd, const struct shm_identity *id)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == id->dev && st.st_ino == id->ino;
}

void shm_arena_unmap(const struct shm_arena *arena, uint32_t ring_size)
{
    if (arena)
        (void) munmap((void *) (uintptr_t) arena, shm_arena_size(ring_size));
}

void shm_control_unmap(const void *control)
{
    if (control)
        (void) munmap((void *) (uintptr_t) control, SHM_CONTROL_SIZE);
}

void shm_stream_unmap(const struct shm_stream *stream)
{
    if (stream)
        (void) munmap((void *) (uintptr_t) stream, SHM_STREAM_SIZE);
}

void shm_returns_unmap(const struct shm_returns *returns)
{
    if (returns)
        (void) munmap((void *) (uintptr_t) returns, SHM_RETURNS_SIZE);
}
