/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's state, its lock, waiting, and starting threads. Not what the state means. The lock
 * is a futex and not a pthread mutex so that a child made by a raw clone(2) finds it free: it lies
 * in memory that the kernel clears. Any thread; process_trylock() and what it guards also in signal
 * handlers.
 */
#include "internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

struct process *provider_process;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

uint32_t thread_id(void)
{
    return (uint32_t) syscall(SYS_gettid);
}

/* The deadline is one of CLOCK_BOOTTIME, which futexes do not know: what is left of it then. */
void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline)
{
    struct timespec ts;
    struct timespec *limit = NULL;

    if (deadline != 0) {
        uint64_t now = etw_clock_boottime();
        uint64_t left = deadline > now ? deadline - now : 0;
        if (left == 0)
            return;
        ts.tv_sec = (time_t) (left / ETW_NSEC_PER_SEC);
        ts.tv_nsec = (long) (left % ETW_NSEC_PER_SEC);
        limit = &ts;
    }
    (void) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, limit, NULL, 0);
}

void futex_wake(_Atomic uint32_t *word, int n)
{
    (void) syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

bool process_trylock(struct process *p)
{
    uint32_t expected = 0;

    return atomic_compare_exchange_strong(&p->lock, &expected, 1);
}

void process_lock(struct process *p)
{
    if (process_trylock(p))
        return;
    while (atomic_exchange(&p->lock, 2) != 0)
        futex_wait(&p->lock, 2, 0);
}

void process_unlock(struct process *p)
{
    if (atomic_exchange(&p->lock, 0) == 2)
        futex_wake(&p->lock, 1);
}

void process_changed(struct process *p)
{
    atomic_fetch_add(&p->changes, 1);
    if (atomic_load(&p->waiters) != 0)
        futex_wake(&p->changes, INT32_MAX);
}

void process_wait(struct process *p, uint32_t seen, uint64_t deadline)
{
    atomic_fetch_add(&p->waiters, 1);
    futex_wait(&p->changes, seen, deadline);
    atomic_fetch_sub(&p->waiters, 1);
}

static int process_make(void)
{
    struct process *p;
    int r;

    r = rings_init();
    if (r < 0)
        return r;
    r = connect_init();
    if (r < 0)
        return r;
    p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return -ENOMEM;
    r = madvise(p, sizeof(*p), MADV_WIPEONFORK) < 0 ? -errno : 0;
    if (r >= 0)
        r = fork_init();
    if (r < 0) {
        (void) munmap(p, sizeof(*p));
        return r;
    }
    p->jobs_end = &p->jobs;
    p->threadless = getauxval(AT_SECURE) != 0;
    epoch_raise(p);
    __atomic_store_n(&provider_process, p, __ATOMIC_RELEASE);
    return 0;
}

int process_init(void)
{
    int r = 0;

    if (__atomic_load_n(&provider_process, __ATOMIC_ACQUIRE))
        return 0;
    (void) pthread_mutex_lock(&init_lock);
    if (!provider_process)
        r = process_make();
    (void) pthread_mutex_unlock(&init_lock);
    return r;
}

int thread_start(void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all;
    sigset_t before;
    pthread_t thread;
    int r;

    r = pthread_attr_init(&attr);
    if (r != 0)
        return -r;
    (void) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&thread, &attr, run, arg);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void) pthread_attr_destroy(&attr);
    return -r;
}
