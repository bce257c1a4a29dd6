/* SPDX-License-Identifier: Apache-2.0
 *
 * See uid_workers.h. A user's threads go when nobody holds them and they have nothing to do, looked
 * at by a timer: never from inside a job's done.
 */
#include "uid_workers.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"

struct member {
    struct uid_worker worker;
    struct uid_workers *all;
    uid_t uid;
    unsigned refs;
    unsigned closing;
    struct member *next;
};

struct uid_workers {
    struct loop *loop;
    struct member trusted, rest;
    struct member *first;
    unsigned n;
    unsigned closing;
    struct loop_timer *timer;
    bool armed;
};

static void timer_fired(void *userdata);

int uid_workers_new(struct loop *l, struct uid_workers **ret)
{
    int r;

    struct uid_workers *u = calloc(1, sizeof(*u));
    if (!u)
        return -ENOMEM;
    u->loop = l;
    u->trusted.all = u->rest.all = u;
    if ((r = loop_timer_new(l, timer_fired, u, &u->timer)) < 0 ||
        (r = worker_new(l, "etwd-files", &u->trusted.worker.files)) < 0 ||
        (r = worker_new(l, "etwd-sync", &u->trusted.worker.syncer)) < 0 ||
        (r = worker_new(l, "etwd-rest", &u->rest.worker.files)) < 0) {
        uid_workers_free(u);
        return r;
    }
    u->rest.worker.syncer = u->rest.worker.files;
    *ret = u;
    return 0;
}

static bool idle(const struct member *m)
{
    return (!m->worker.files || worker_idle(m->worker.files)) &&
           (!m->worker.syncer || worker_idle(m->worker.syncer));
}

static bool settle(struct member *m)
{
    bool files = worker_settle(m->worker.files), syncer = worker_settle(m->worker.syncer);
    return files && syncer && idle(m);
}

void uid_workers_settle(struct uid_workers *u)
{
    for (int ms = 0; ms < ETWD_UID_WORKER_SETTLE_MS; ms++) {
        bool all = settle(&u->trusted);
        all &= settle(&u->rest);
        for (struct member *m = u->first; m; m = m->next)
            all &= settle(m);
        if (all)
            return;
        (void) usleep(1000);
    }
}

static void member_done(struct member *m)
{
    if (m->worker.syncer != m->worker.files)
        worker_free(m->worker.syncer);
    worker_free(m->worker.files);
}

struct uid_workers *uid_workers_free(struct uid_workers *u)
{
    if (!u)
        return NULL;
    loop_timer_free(u->timer);
    bool hangs = !idle(&u->rest);
    if (!hangs)
        member_done(&u->rest);
    for (struct member *m = u->first, *next; m; m = next) {
        next = m->next;
        if (!idle(m)) {
            hangs = true;
            continue;
        }
        member_done(m);
        free(m);
    }
    member_done(&u->trusted);
    if (!hangs) /* else somebody may look at it once more */
        free(u);
    return NULL;
}

static struct member *member_new(struct uid_workers *u, uid_t uid)
{
    struct member *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->all = u;
    m->uid = uid;
    if (worker_new(u->loop, "etwd-files-u", &m->worker.files) < 0 ||
        worker_new(u->loop, "etwd-sync-u", &m->worker.syncer) < 0) {
        member_done(m);
        free(m);
        return NULL;
    }
    m->next = u->first;
    u->first = m;
    u->n++;
    return m;
}

struct uid_worker *uid_workers_get(struct uid_workers *u, uid_t uid, bool trusted)
{
    struct member *m = u->first;

    while (m && m->uid != uid)
        m = m->next;
    if (trusted)
        m = &u->trusted;
    else if (!m && uid != (uid_t) -1 && u->n < ETWD_UID_WORKERS_MAX)
        m = member_new(u, uid);
    if (!m)
        m = &u->rest;
    m->refs++;
    return &m->worker;
}

static void timer_set(struct uid_workers *u)
{
    uint64_t when = etw_clock_boottime() + ETWD_UID_WORKER_IDLE_S * ETW_NSEC_PER_SEC;
    u->armed = loop_timer_arm(u->timer, when) == 0;
}

void uid_worker_put(struct uid_worker *w)
{
    if (!w)
        return;
    struct member *m = container_of(w, struct member, worker);
    if (--m->refs == 0 && m != &m->all->trusted && m != &m->all->rest && !m->all->armed)
        timer_set(m->all);
}

static void timer_fired(void *userdata)
{
    struct uid_workers *u = userdata;
    bool again = false;

    u->armed = false;
    for (struct member **at = &u->first; *at;) {
        struct member *m = *at;
        if (m->refs > 0 || !idle(m)) {
            again |= m->refs == 0;
            at = &m->next;
            continue;
        }
        *at = m->next;
        u->n--;
        member_done(m);
        free(m);
    }
    if (again)
        timer_set(u);
}

struct closing {
    struct member *member;
    int fd;
};

static void close_run(void *userdata)
{
    struct closing *c = userdata;
    (void) safe_close(c->fd);
}

static void close_done(void *userdata)
{
    struct closing *c = userdata;
    c->member->closing--;
    c->member->all->closing--;
    free(c);
}

void uid_worker_close(struct uid_worker *w, int fd)
{
    if (fd < 0)
        return;
    struct closing *c = malloc(sizeof(*c));
    if (c) {
        *c = (struct closing){.member = container_of(w, struct member, worker), .fd = fd};
        if (worker_submit(w->files, close_run, close_done, c) == 0) {
            c->member->closing++;
            c->member->all->closing++;
            return;
        }
        free(c);
    }
    (void) safe_close(fd); /* without memory: here, rather than never */
}

unsigned uid_worker_closing(const struct uid_worker *w)
{
    return container_of(w, const struct member, worker)->closing;
}

unsigned uid_workers_closing(const struct uid_workers *u)
{
    return u->closing;
}
