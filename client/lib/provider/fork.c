/* SPDX-License-Identifier: Apache-2.0
 *
 * Children. A child of fork(2), _Fork(3) or a raw clone(2) without CLONE_VM finds its process state
 * cleared by the kernel, the arenas not mapped, and its parent's registrations, handles and control
 * area. Its first event sees epoch 0 and comes here: it connects as a process of its own.
 *
 * That happens by system calls alone, since it may be in a child that libc does not know of, with
 * malloc(3) or the lock of another thread left half-way. After fork(3), where libc is whole (it ran
 * our handler), the helper is started as well, on the thread that writes; other children have none
 * (Attach.threadless): their slots and words change in shared memory all the same, but no callbacks
 * run.
 *
 * Until then the handler of fork(3) lets the header's test see everything enabled, so that the
 * first event of any kind comes here: the words that the child inherited are its parent's.
 *
 * A child of vfork(2) shares its parent's memory, and cannot be told from it: it must not write. A
 * child forked in a signal handler that interrupted the writing of an event must not return to it.
 */
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <sys/auxv.h>

#include "base/clock.h"
#include "base/limits.h"

static void in_child(void)
{
    struct process *p = provider_process;

    if (!p)
        return;
    p->in_child = true;
    connection_disinherit();
    if (atomic_load(&provider_registrations_end) > 0)
        enable_table_all();
}

int fork_init(void)
{
    return -pthread_atfork(NULL, NULL, in_child);
}

void fork_recover(struct process *p)
{
    int saved = errno;
    bool secure;

    if (!process_trylock(p))
        return;
    if (atomic_load(&p->epoch) == 0) {
        threads_after_fork();
        secure = getauxval(AT_SECURE) != 0;
        p->jobs_end = &p->jobs;
        p->bare = !p->in_child;
        p->threadless = secure || p->bare;
        connection_disinherit();
        enable_table_none();
        epoch_raise(p);
        arenas_retire(p); /* the control area is the parent's */
        if (connect_now(p) >= 0)
            connection_pump(p, SHM_REGISTRATIONS_MAX,
                            etw_clock_boottime() + ETW_CLIENT_REGISTER_MS * 1000000ull);
        helper_start(p);
    }
    process_unlock(p);
    errno = saved;
}
