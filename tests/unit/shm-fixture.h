/* SPDX-License-Identifier: Apache-2.0
 *
 * An arena and a control area in this process, etwd's and the provider's mappings of both, for unit
 * tests of proto/shm. One ring is given memory; the arena is sealed.
 */
#pragma once

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "shm/arena.h"
#include "shm/clock.h"
#include "shm/control.h"
#include "shm/ring.h"
#include "shm/slots.h"

struct shm_fixture {
    uint32_t ring_size;
    int arena_fd, control_fd, client_fd;
    struct shm_arena *arena;      /* the process's */
    const struct shm_arena *read; /* etwd's */
    const void *control;          /* the process's */
    void *base;                   /* etwd's */
    struct shm_control *area;
};

static inline void shm_fixture_open(struct shm_fixture *f, uint32_t ring_size)
{
    *f = (struct shm_fixture){.ring_size = ring_size};
    ck_assert_int_eq(shm_arena_create(ring_size, &f->arena_fd), 0);
    ck_assert_int_eq(shm_control_create(&f->control_fd, &f->client_fd), 0);
    ck_assert_int_eq(shm_control_map_write(f->control_fd, &f->base), 0);
    ck_assert_int_eq(shm_control_new(f->control_fd, f->base, ring_size, &f->area), 0);
    ck_assert_int_eq(shm_arena_map(f->arena_fd, ring_size, &f->arena), 0);
    ck_assert_int_eq(shm_control_map(f->client_fd, &f->control), 0);
    ck_assert_int_eq(shm_arena_seal(f->arena_fd, ring_size), 0);
    ck_assert_int_eq(shm_arena_map_read(f->arena_fd, ring_size, &f->read), 0);
    ck_assert_int_eq(shm_arena_give_ring(f->arena_fd, ring_size, 0), 0);
    ck_assert_int_eq(shm_control_add_ring(f->area, 0), 0);
    shm_control_set_rings(f->area, 1);
}

static inline void shm_fixture_close(struct shm_fixture *f)
{
    shm_control_free(f->area);
    shm_arena_unmap(f->arena, f->ring_size);
    shm_arena_unmap(f->read, f->ring_size);
    shm_control_unmap(f->control);
    shm_control_unmap(f->base);
    close(f->arena_fd);
    close(f->control_fd);
    close(f->client_fd);
}

static inline int shm_membarrier(int command)
{
    return (int) syscall(SYS_membarrier, command, 0, 0);
}

/* A small generator: the same numbers at each run. */
static inline uint64_t shm_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15ull;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
