/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that write and their rings: a thread's own state, claiming a ring and giving it back, the
 * arenas that the daemon offers, and what becomes of them when the daemon is gone. Not the writing
 * itself (write.c).
 *
 * Claiming makes system calls only and takes no lock, since it happens in signal handlers and in
 * children that libc knows nothing of: who owns which ring is a table of thread numbers that are
 * set by compare and exchange; the ring's own words are then this thread's to change.
 */
#include "internal.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"

__thread struct thread *provider_thread ETW_TLS;
const void *provider_control;

static _Atomic(struct thread *) threads;
static pthread_key_t exit_key;

/* ---- threads ---- */

static void ring_give_back(struct process *p, struct thread *t, uint32_t owner)
{
    uint32_t epoch = atomic_load(&p->epoch);

    if (t->epoch != EPOCH_NONE) {
        if (t->epoch == epoch)
            shm_writer_release(&t->writer);
        (void) atomic_compare_exchange_strong(&p->ring_owners[t->ring], &owner, 0);
    }
    t->epoch = EPOCH_NONE;
}

static void thread_exit(void *arg)
{
    struct process *p = provider_process;
    struct thread *t = arg;
    struct mark mark;

    /* The arenas stay mapped, and a signal handler that writes now has to lose its event. */
    mark.check = mark_check((uintptr_t) &mark);
    atomic_store(&t->in_progress, (uintptr_t) &mark);
    ring_give_back(p, t, atomic_load(&t->owner));
    provider_thread = NULL;
    atomic_store(&t->in_progress, 0);
    atomic_store(&t->owner, 0);
}

int rings_init(void)
{
    int r = pthread_key_create(&exit_key, thread_exit);

    return r == 0 ? 0 : r == EAGAIN ? -EMFILE : -r;
}

static struct thread *thread_take_free(uint32_t self)
{
    for (struct thread *t = atomic_load(&threads); t; t = t->next) {
        uint32_t none = 0;
        if (atomic_compare_exchange_strong(&t->owner, &none, self))
            return t;
    }
    return NULL;
}

static struct thread *threads_more(uint32_t self)
{
    enum { SIZE = 16384 };
    struct thread *t;
    unsigned n = SIZE / sizeof(*t);

    t = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED)
        return NULL;
    atomic_store(&t[0].owner, self);
    for (unsigned i = 0; i < n; i++) {
        t[i].epoch = EPOCH_NONE;
        t[i].next = i + 1 < n ? &t[i + 1] : NULL;
    }
    t[n - 1].next = atomic_load(&threads);
    while (!atomic_compare_exchange_weak(&threads, &t[n - 1].next, t))
        ;
    return &t[0];
}

/* glibc has room for this many keys in each thread; one above would have to allocate. */
#define KEYS_AT_HAND 32

struct thread *thread_get(void)
{
    struct thread *expected = NULL;
    struct thread *t;
    int saved = errno;
    uint32_t self;

    if (provider_thread)
        return provider_thread;
    self = thread_id();
    t = thread_take_free(self);
    if (!t)
        t = threads_more(self);
    if (t && !__atomic_compare_exchange_n(&provider_thread, &expected, t, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED)) {
        /* A signal handler that wrote has been here meanwhile. */
        atomic_store(&t->owner, 0);
        t = expected;
    } else if (t && exit_key < KEYS_AT_HAND) {
        /* Without that the ring comes back when it is missed: threads_reap(). */
        (void) pthread_setspecific(exit_key, t);
    }
    errno = saved;
    return t;
}

/* Takes back what threads left that ended without a word. */
static bool threads_reap(struct process *p)
{
    pid_t pid = (pid_t) syscall(SYS_getpid);
    uint32_t self = thread_id();
    bool any = false;

    if (!process_trylock(p))
        return false;
    for (struct thread *t = atomic_load(&threads); t; t = t->next) {
        uint32_t owner = atomic_load(&t->owner);
        if (owner == 0 || owner == self || syscall(SYS_tgkill, pid, owner, 0) == 0 ||
            errno != ESRCH || !atomic_compare_exchange_strong(&t->owner, &owner, UINT32_MAX))
            continue;
        ring_give_back(p, t, owner);
        atomic_store(&t->in_progress, 0);
        atomic_store(&t->waking, 0);
        atomic_store(&t->owner, 0);
        any = true;
    }
    process_unlock(p);
    return any;
}

void threads_after_fork(void)
{
    struct thread *self = provider_thread;

    for (struct thread *t = atomic_load(&threads); t; t = t->next) {
        t->epoch = EPOCH_NONE;
        atomic_store(&t->waking, 0);
        atomic_store(&t->in_progress, 0);
        atomic_store(&t->owner, t == self ? thread_id() : 0);
    }
}

bool threads_quiet(void)
{
    struct thread *self = provider_thread;

    for (struct thread *t = atomic_load(&threads); t; t = t->next)
        if (t != self && atomic_load(&t->owner) != 0 &&
            (atomic_load(&t->in_progress) != 0 || atomic_load(&t->waking) != 0))
            return false;
    return true;
}

void rings_forget_wakes(void)
{
    for (struct thread *t = atomic_load(&threads); t; t = t->next)
        __atomic_store_n(&t->writer.answered, 0, __ATOMIC_RELAXED);
}

/* ---- claiming ---- */

static int ring_claim(struct process *p, struct thread *t, uint32_t epoch)
{
    uint32_t self = atomic_load_explicit(&t->owner, memory_order_relaxed);
    const void *control = provider_control;
    uint32_t rings;

    if (!control || atomic_load(&p->fd) == 0)
        return -ENOENT;
    rings = atomic_load(&shm_control_process(control)->rings);
    if (rings > SHM_RINGS_MAX)
        rings = SHM_RINGS_MAX;
    for (uint32_t i = 0; i < rings; i++) {
        struct shm_arena *arena = atomic_load(&p->arenas[i / SHM_RINGS_PER_ARENA]);
        uint32_t nobody = 0;

        if (!arena || atomic_load_explicit(&p->ring_owners[i], memory_order_relaxed) != 0 ||
            !atomic_compare_exchange_strong(&p->ring_owners[i], &nobody, self))
            continue;
        if (shm_writer_claim(&t->writer, arena, control, i / SHM_RINGS_PER_ARENA,
                             i % SHM_RINGS_PER_ARENA, p->ring_size, p->fences, self) == 0) {
            t->ring = i;
            t->epoch = epoch;
            return 0;
        }
        atomic_store(&p->ring_owners[i], 0);
    }
    return -ENOBUFS;
}

/* Without a helper the answer has to be read here, if nobody else is about to. */
static void rings_wait(struct process *p, uint32_t seen, uint64_t deadline)
{
    if (!p->threadless) {
        process_wait(p, seen, deadline);
        return;
    }
    if (!process_trylock(p)) {
        process_wait(p, seen, etw_clock_boottime() + 1000000);
        return;
    }
    connection_pump_one(p, deadline);
    process_unlock(p);
}

static int ring_wait(struct process *p, struct thread *t, uint32_t epoch)
{
    uint64_t now = etw_clock_boottime();
    uint64_t deadline = now + ETW_CLIENT_RING_MS * 1000000ull;
    uint32_t none = 0;
    int r;

    if (now < atomic_load(&p->more_after) || now < t->more_after)
        return -ENOBUFS;
    for (;;) {
        uint32_t seen = atomic_load(&p->changes);

        if (atomic_load(&p->epoch) != epoch)
            return -ENOENT;
        none = 0;
        if (atomic_compare_exchange_strong(&p->more_asked, &none, 1) &&
            connection_more_rings(p) < 0)
            atomic_store(&p->more_asked, 0);
        rings_wait(p, seen, deadline);
        r = ring_claim(p, t, epoch);
        if (r != -ENOBUFS)
            return r;
        now = etw_clock_boottime();
        if (now >= deadline || now < atomic_load(&p->more_after))
            break;
    }
    t->more_after = now + ETW_CLIENT_RING_AGAIN_MS * 1000000ull;
    atomic_store(&p->more_asked, 0);
    return -ENOBUFS;
}

int ring_ready(struct process *p, struct thread *t)
{
    int saved = errno;
    uint32_t epoch;
    int r;

    if (atomic_load(&p->epoch) == 0) {
        uintptr_t mark = atomic_load(&t->in_progress);
        fork_recover(p);
        atomic_store(&t->in_progress, mark);
    }
    epoch = atomic_load(&p->epoch);
    if (epoch == 0) {
        r = -ENOENT;
    } else if (t->epoch == epoch) {
        r = 0;
    } else {
        ring_give_back(p, t, atomic_load(&t->owner));
        r = ring_claim(p, t, epoch);
        if (r == -ENOBUFS && threads_reap(p))
            r = ring_claim(p, t, epoch);
        if (r == -ENOBUFS)
            r = ring_wait(p, t, epoch);
    }
    errno = saved;
    return r;
}

/* ---- arenas ---- */

static void fds_close(int arena_fd, int control_fd)
{
    if (arena_fd >= 0)
        (void) syscall(SYS_close, arena_fd);
    if (control_fd >= 0)
        (void) syscall(SYS_close, control_fd);
}

static int control_map(struct process *p, int fd)
{
    const void *c;
    int r;

    r = shm_control_map(fd, &c);
    if (r < 0)
        return r;
    if (shm_control_process(c)->version != SHM_VERSION) {
        shm_control_unmap(c);
        return -EPROTO;
    }
    if (!provider_control) {
        __atomic_store_n(&provider_control, c, __ATOMIC_RELEASE);
    } else if (mremap((void *) (uintptr_t) c, SHM_CONTROL_SIZE, SHM_CONTROL_SIZE,
                      MREMAP_MAYMOVE | MREMAP_FIXED, provider_control) == MAP_FAILED) {
        r = -errno;
        shm_control_unmap(c);
        return r;
    }
    p->control = true;
    return 0;
}

static int arena_map_new(struct process *p, uint32_t arena, uint32_t ring_size, int arena_fd,
                         int control_fd)
{
    struct shm_arena *base;
    uint32_t end = atomic_load(&provider_registrations_end);
    int r;

    if (arena_fd < 0 || (p->ring_size != 0 && p->ring_size != ring_size))
        return -EPROTO;
    if (!p->control) {
        if (control_fd < 0)
            return -EPROTO;
        r = control_map(p, control_fd);
        if (r < 0)
            return r;
    }
    r = shm_arena_map(arena_fd, ring_size, &base);
    if (r < 0)
        return r;
    p->ring_size = ring_size;
    atomic_store(&p->arenas[arena], base);
    for (uint32_t i = 0; i < end; i++)
        if (p->links[i] == LINK_LIVE)
            enable_table_publish(i);
    return 0;
}

int arena_map(struct process *p, uint32_t arena, uint32_t ring_size, int arena_fd, int control_fd)
{
    int r = 0;

    /* Offered again by a daemon that does not know that it was. */
    if (!atomic_load(&p->arenas[arena]))
        r = arena_map_new(p, arena, ring_size, arena_fd, control_fd);
    fds_close(arena_fd, control_fd);
    return r;
}

/* Empty memory in the place of a mapping: who still writes there hurts nobody. */
static void overlay(const void *base, size_t size, int protection)
{
    (void) mmap((void *) (uintptr_t) base, size, protection,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void arenas_retire(struct process *p)
{
    bool quiet = false;

    for (unsigned i = 0; i < SHM_RINGS_MAX / SHM_RINGS_PER_ARENA; i++) {
        struct shm_arena *base = atomic_load(&p->arenas[i]);
        if (base)
            overlay(base, shm_arena_size(p->ring_size), PROT_READ | PROT_WRITE);
    }
    if (provider_control)
        overlay(provider_control, SHM_CONTROL_SIZE, PROT_READ);
    p->control = false;
    /* Writers that began before the epoch ended get a moment; the memory of one that is stopped
     * right there stays reserved. */
    if (!p->fences && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0)
        for (int i = 0; !(quiet = threads_quiet()) && !p->threadless && i < 20; i++)
            (void) usleep(500);
    for (unsigned i = 0; i < SHM_RINGS_MAX / SHM_RINGS_PER_ARENA; i++) {
        struct shm_arena *base = atomic_exchange(&p->arenas[i], NULL);
        if (base && quiet)
            shm_arena_unmap(base, p->ring_size);
    }
    for (unsigned i = 0; i < SHM_RINGS_MAX; i++)
        atomic_store_explicit(&p->ring_owners[i], 0, memory_order_relaxed);
    p->ring_size = 0;
}
