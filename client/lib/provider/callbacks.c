/* SPDX-License-Identifier: Apache-2.0
 *
 * Enable callbacks: queued by whoever reads the socket, run in order, one at a time a registration,
 * by a thread of their own, or by EventRegister for the registration it makes. Only here the
 * library runs the program's code, with no lock held. Not the events themselves.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits.h"

/* Callbacks of this thread that run now: one may register another provider, whose own runs in it.
 */
static __thread unsigned depth ETW_TLS;

bool provider_in_callback(void)
{
    return depth != 0;
}

/* ---- queue; under the lock ---- */

static void job_push(struct process *p, struct job *j)
{
    j->next = NULL;
    *p->jobs_end = j;
    p->jobs_end = &j->next;
    atomic_fetch_add(&p->jobs_changed, 1);
    futex_wake(&p->jobs_changed, INT32_MAX);
}

static void job_unlink(struct process *p, struct job **at)
{
    struct job *j = *at;

    *at = j->next;
    if (p->jobs_end == &j->next)
        p->jobs_end = at;
}

/* The first that may run: of this registration, or (SHM_REGISTRATIONS_MAX) of one whose callback
 * nobody runs. */
static struct job *job_pop(struct process *p, uint32_t index)
{
    for (struct job **at = &p->jobs; *at; at = &(*at)->next) {
        struct job *j = *at;
        if (index < SHM_REGISTRATIONS_MAX ? j->index == index : p->running[j->index] == 0) {
            job_unlink(p, at);
            return j;
        }
    }
    return NULL;
}

static struct job *job_new(uint32_t index, const Etwd__EnableChange *change)
{
    const Etwd__Filter *filter = change->filter;
    size_t size = filter ? filter->data.len : 0;
    struct job *j;

    if (size > ETW_FILTER_DATA_MAX)
        return NULL;
    j = calloc(1, sizeof(*j) + size);
    if (!j)
        return NULL;
    j->index = index;
    j->handle = atomic_load(&provider_registrations[index].handle);
    j->code = change->control_code;
    j->level = (uint8_t) change->level;
    j->any = change->any;
    j->all = change->all;
    j->cookie = change->cookie;
    if (change->source_id.len == sizeof(j->source))
        memcpy(&j->source, change->source_id.data, sizeof(j->source));
    if (filter) {
        j->filtered = true;
        if (size > 0)
            memcpy(j->data, filter->data.data, size);
        j->filter.Ptr = (ULONGLONG) (uintptr_t) j->data;
        j->filter.Size = (ULONG) size;
        j->filter.Type = filter->type;
    }
    return j;
}

/* The daemon does not read: it will. Without the lock, which is taken for each attempt. */
static void tell_done(struct process *p, uint64_t cookie)
{
    if (cookie == 0)
        return;
    for (int i = 0; i < 100; i++) {
        int r;
        process_lock(p);
        r = connection_callback_done(p, cookie);
        process_unlock(p);
        if (r != -EAGAIN)
            return;
        (void) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

static void job_run(struct process *p, struct job *j)
{
    const struct registration *r = &provider_registrations[j->index];

    /* The registration is not given to another one while `running` says that we are here. */
    if (atomic_load(&r->handle) == j->handle && r->callback) {
        depth++;
        r->callback((LPCGUID) &j->source, j->code, j->level, j->any, j->all,
                    j->filtered ? &j->filter : NULL, r->context);
        depth--;
    }
    tell_done(p, j->cookie);
    free(j);
}

/* ---- thread ---- */

static void *callbacks_main(void *arg)
{
    struct process *p = arg;

    (void) prctl(PR_SET_NAME, "etw-callbacks");
    for (;;) {
        uint32_t seen = atomic_load(&p->jobs_changed);
        struct job *j;
        uint32_t index;

        process_lock(p);
        j = job_pop(p, SHM_REGISTRATIONS_MAX);
        if (j)
            p->running[j->index] = thread_id();
        process_unlock(p);
        if (!j) {
            futex_wait(&p->jobs_changed, seen, 0);
            continue;
        }
        index = j->index;
        job_run(p, j);
        process_lock(p);
        p->running[index] = 0;
        process_changed(p);
        process_unlock(p);
    }
    return NULL;
}

void callbacks_queue(struct process *p, uint32_t index, const Etwd__EnableChange *change)
{
    const struct registration *r = &provider_registrations[index];
    struct job *j;

    if (change->control_code <= 1)
        p->enabled[index] = change->control_code == 1;
    if (p->bare)
        return;
    j = atomic_load(&r->handle) != 0 && r->callback ? job_new(index, change) : NULL;
    if (!j) {
        if (change->cookie != 0)
            (void) connection_callback_done(p, change->cookie);
        return;
    }
    job_push(p, j);
    if (p->running[index] != 0 || p->callbacks != 0 || p->threadless)
        return;
    if (thread_start(callbacks_main, p) >= 0)
        p->callbacks = 1;
}

void callbacks_drop(struct process *p, uint32_t index)
{
    struct job *j;

    while ((j = job_pop(p, index))) {
        if (j->cookie != 0)
            (void) connection_callback_done(p, j->cookie);
        free(j);
    }
}

void callbacks_run(struct process *p, uint32_t index)
{
    for (;;) {
        struct job *j;

        process_lock(p);
        j = job_pop(p, index);
        if (!j) {
            p->running[index] = 0;
            process_changed(p);
            process_unlock(p);
            return;
        }
        process_unlock(p);
        job_run(p, j);
    }
}
