/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker thread: a queue of jobs in, a list of finished ones out, an eventfd to tell the loop.
 * worker_submit() and the done calls: loop thread. run: the worker's thread, with all signals
 * blocked.
 */
#include "worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"

struct job {
    void (*run)(void *userdata);
    void (*done)(void *userdata);
    void *userdata;
    struct job *next;
};

struct queue {
    struct job *first, *last;
};

struct worker {
    int event_fd;
    struct loop_watch *watch;
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t cond;
    struct queue todo;
    struct queue finished;
    bool running;
    bool stopping;
};

static void queue_put(struct queue *q, struct job *j)
{
    j->next = NULL;
    if (q->last)
        q->last->next = j;
    else
        q->first = j;
    q->last = j;
}

static struct job *queue_take(struct queue *q)
{
    struct job *j = q->first;
    if (j) {
        q->first = j->next;
        if (!q->first)
            q->last = NULL;
    }
    return j;
}

static void queue_clear(struct queue *q)
{
    for (struct job *j; (j = queue_take(q));)
        free(j);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    (void) pthread_mutex_lock(&w->mutex);
    for (;;) {
        while (!w->stopping && !w->todo.first)
            (void) pthread_cond_wait(&w->cond, &w->mutex);
        if (w->stopping)
            break;
        struct job *j = queue_take(&w->todo);
        w->running = true;
        (void) pthread_mutex_unlock(&w->mutex);
        j->run(j->userdata);
        (void) pthread_mutex_lock(&w->mutex);
        w->running = false;
        bool tell = !w->finished.first;
        queue_put(&w->finished, j);
        if (tell)
            (void) eventfd_write(w->event_fd, 1);
    }
    (void) pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static void worker_ready(int fd, uint32_t revents, void *userdata)
{
    struct worker *w = userdata;
    eventfd_t value;
    (void) eventfd_read(fd, &value);

    (void) pthread_mutex_lock(&w->mutex);
    struct queue finished = w->finished;
    w->finished = (struct queue){0};
    (void) pthread_mutex_unlock(&w->mutex);
    for (struct job *j; (j = queue_take(&finished));) {
        if (j->done)
            j->done(j->userdata);
        free(j);
    }
}

int worker_new(struct loop *l, const char *thread_name, struct worker **ret)
{
    int r;

    struct worker *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    (void) pthread_mutex_init(&w->mutex, NULL);
    (void) pthread_cond_init(&w->cond, NULL);
    w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->event_fd < 0) {
        r = -errno;
        goto fail;
    }
    r = loop_watch_new(l, w->event_fd, POLLIN, worker_ready, w, &w->watch);
    if (r < 0)
        goto fail;

    sigset_t all, old;
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &old);
    r = -pthread_create(&w->thread, NULL, worker_main, w);
    (void) pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r < 0)
        goto fail;
    w->started = true;
    (void) pthread_setname_np(w->thread, thread_name);
    *ret = w;
    return 0;

fail:
    worker_free(w);
    return r;
}

struct worker *worker_free(struct worker *w)
{
    if (!w)
        return NULL;
    if (w->started) {
        (void) pthread_mutex_lock(&w->mutex);
        w->stopping = true;
        (void) pthread_cond_signal(&w->cond);
        (void) pthread_mutex_unlock(&w->mutex);
        (void) pthread_join(w->thread, NULL);
    }
    queue_clear(&w->todo);
    queue_clear(&w->finished);
    (void) loop_watch_free(w->watch);
    (void) safe_close(w->event_fd);
    (void) pthread_cond_destroy(&w->cond);
    (void) pthread_mutex_destroy(&w->mutex);
    free(w);
    return NULL;
}

bool worker_idle(struct worker *w)
{
    (void) pthread_mutex_lock(&w->mutex);
    bool idle = !w->running && !w->todo.first && !w->finished.first;
    (void) pthread_mutex_unlock(&w->mutex);
    return idle;
}

bool worker_settle(struct worker *w)
{
    worker_ready(w->event_fd, POLLIN, w);
    return worker_idle(w);
}

static void close_run(void *userdata)
{
    (void) safe_close((int) (intptr_t) userdata);
}

void worker_close(struct worker *w, int fd)
{
    if (fd >= 0 && worker_submit(w, close_run, NULL, (void *) (intptr_t) fd) < 0)
        (void) safe_close(fd);
}

int worker_submit(struct worker *w, void (*run)(void *userdata), void (*done)(void *userdata),
                  void *userdata)
{
    struct job *j = malloc(sizeof(*j));
    if (!j)
        return -ENOMEM;
    *j = (struct job){.run = run, .done = done, .userdata = userdata};
    (void) pthread_mutex_lock(&w->mutex);
    queue_put(&w->todo, j);
    (void) pthread_cond_signal(&w->cond);
    (void) pthread_mutex_unlock(&w->mutex);
    return 0;
}
