/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of the kernel logger's operations. One operation at a time; loop thread, and jobs on
 * the worker for what may sleep.
 *
 * start:
 *  - worker: rings, programs, configuration, a first walk over mapped files;
 *  - these files are asked for, and waited for a while;
 *  - T0 := now; the merge is held at T0; drain to T0, and beside it the worker walks;
 *  - table := walk; masks on; done() is told;
 *  - rundown stamped T0, as fast as the session has buffers; the merge goes on.
 *
 * update: the same with the new masks; then the worker lets go of programs that nobody needs.
 *
 * stop:
 *  - worker: configuration, walk;
 *  - T := now; the merge is held at T; drain to T;
 *  - rundown stamped T; masks off; the merge goes on;
 *  - worker: lets go of programs; beside it image events that wait get their answers;
 *  - the last two events; done() is told.
 *
 * While the merge is held at T the process table stands exactly at T.
 */
#include "kernel/operations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "io/loop.h"
#include "io/worker.h"
#include "kernel/keep.h"
#include "sessions/session.h"

/* Between steps of a rundown that waits for free buffers; and how long it waits while none becomes
 * free, as when the disk hangs: the merge is held meanwhile, for all sessions. */
#define STEP_NS 1000000ULL
#define PATIENCE_NS (2 * ETW_NSEC_PER_SEC)
/* How long a start waits for what etwd-image says about the files that are mapped: some
 * milliseconds are usual. What is not known then comes late. */
#define ASK_NS (500 * 1000000ULL)

void operation_free(struct operation *op)
{
    probe_rings_free(op->rings);
    rundown_free(op->rundown);
    loop_timer_free(op->timer);
    loop_timer_free(op->ask_timer);
    for (size_t i = 0; i < op->n_files; i++)
        image_file_unref(op->files[i]);
    free(op->files);
    walk_free(op->walk);
    sysconfig_free(op->config);
    free(op);
}

/* The step that ends every operation's change of what is traced. */
static void follow(struct operation *op)
{
    struct kernel_logger *k = op->logger;

    state_begin(k->state);
    finish_follow(k->finish, op->needs.processes, op->needs.images);
    state_commit(k->state);
}

static void let_go_run(void *userdata)
{
    struct operation *op = userdata;
    programs_keep(op->logger->programs, op->needs);
}

static void let_go_done(void *userdata)
{
    struct operation *op = userdata;
    follow(op);
    operation_end(op, op->result);
}

/* What went wrong stands in op->result: lets go of what only this operation wanted, and ends it. */
static void operation_fail(struct operation *op)
{
    struct kernel_logger *k = op->logger;

    router_hold(k->router, UINT64_MAX);
    op->needs = op->before;
    if (worker_submit(k->worker, let_go_run, let_go_done, op) < 0) {
        follow(op);
        operation_end(op, op->result);
    }
}

static struct rundown_params rundown_of(struct operation *op)
{
    static const enum rundown_kind kinds[] = {
        [START] = RUNDOWN_START, [UPDATE] = RUNDOWN_UPDATE, [STOP] = RUNDOWN_END};
    struct kernel_logger *k = op->logger;
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    struct rundown_params p = {
        .kind = kinds[op->kind],
        .events = k->events,
        .table = k->table,
        .kernel = &k->kernel,
        .sysconfig = op->traced->sysconfig ? op->config : NULL,
        .cpus = online > 0 ? (unsigned) online : 1,
        .target = &op->traced->target,
        .stamp = op->stamp,
    };
    memcpy(p.old_masks, op->old_masks, sizeof(p.old_masks));
    return p;
}

static void rundown_written(struct operation *op);

/* What it writes and how far it is are one for a successor. */
static bool step(struct operation *op, bool pace)
{
    struct kernel_logger *k = op->logger;

    state_begin(k->state);
    bool done = rundown_step(op->rundown, pace);
    rundown_progress(op->rundown, &op->progress);
    state_commit(k->state);
    return done;
}

/* Writes the rundown at the pace at which the session's buffers are written. */
static void rundown_go_on(void *userdata)
{
    struct operation *op = userdata;
    struct session *s = op->traced->target.session;
    uint64_t now = etw_clock_boottime();
    uint32_t left = session_buffers_left(s);

    if (left > op->buffers_left)
        op->patience_until = now + PATIENCE_NS;
    if (op->rundown && !step(op, op->timer && now < op->patience_until)) {
        op->buffers_left = session_buffers_left(s);
        if (loop_timer_arm(op->timer, now + STEP_NS) == 0)
            return;
        (void) step(op, false);
    }
    op->rundown = rundown_free(op->rundown);
    rundown_written(op);
}

/* Without memory for it the rundown is missing. */
static void rundown_begin(struct operation *op, const struct rundown_params *p)
{
    int r = rundown_new(p, op->described ? &op->progress : NULL, &op->rundown);
    if (r < 0)
        log_warning("kernel rundown: %s: what is there is not described", strerror(-r));
    op->described = true;
    if (!op->timer && loop_timer_new(op->logger->loop, rundown_go_on, op, &op->timer) < 0)
        op->timer = NULL;
    op->buffers_left = session_buffers_left(op->traced->target.session);
    op->patience_until = etw_clock_boottime() + PATIENCE_NS;
    if (op->rundown)
        (void) step(op, true);
    else /* nothing is to be written */
        op->progress.phase = UINT32_MAX;
}

/* START, UPDATE: the table stands at T0 and the walk is there. */
static void begin_described(struct operation *op)
{
    struct kernel_logger *k = op->logger;
    struct traced *t = op->traced;

    if (op->result < 0) {
        operation_fail(op);
        return;
    }
    state_begin(k->state);
    kernel_logger_sync_losses(k);
    follow(op);
    if (op->walk)
        rundown_apply(k->table, op->walk, op->stamp, op->walk_images);
    memcpy(op->old_masks, t->target.masks, sizeof(op->old_masks));
    memcpy(t->target.masks, op->masks, sizeof(t->target.masks));
    router_set_masks(k->router, t->target.session, op->masks);
    struct rundown_params p = rundown_of(op);
    if (op->kind == START)
        t->target.begin = op->stamp;
    rundown_begin(op, &p);
    state_commit(k->state);
    if (op->kind == START) {
        /* The probes are on: whoever waits may go on, and the session's file begin. */
        kernel_done_fn done = op->done;
        op->done = NULL;
        done(0, op->userdata);
    }
    rundown_go_on(op);
}

static void begin_step(struct operation *op)
{
    if (--op->waiting == 0)
        begin_described(op);
}

static void walk_run(void *userdata)
{
    struct operation *op = userdata;
    op->result = programs_walk(op->logger->programs, op->walk_images, true, &op->walk);
}

static void walk_done(void *userdata)
{
    begin_step(userdata);
}

static void drained(bool complete, void *userdata)
{
    struct operation *op = userdata;
    if (!complete)
        log_warning("kernel probes: records from before this moment took too long and come late");
    begin_step(op);
}

/* T0: every probe is there. What happens from now on is in the trace. */
static void begin_now(struct operation *op)
{
    struct kernel_logger *k = op->logger;
    bool images;

    op->asking = false;
    op->walk = walk_free(op->walk);
    op->stamp = etw_clock_boottime();
    router_hold(k->router, op->stamp);
    op->waiting = 1;
    /* Walk when something is to be described that nobody follows yet, and when the session wants
     * fresh names of what is followed. */
    bool processes = finish_follows(k->finish, &images);
    if (op->needs.processes && (!processes || programs_need(op->masks).processes)) {
        op->walk_images = op->needs.images && !images;
        op->waiting++;
        op->result = worker_submit(k->worker, walk_run, walk_done, op);
        if (op->result < 0)
            op->waiting--;
    }
    if (op->result == 0)
        op->result = router_drain(k->router, op->stamp, drained, op);
    if (op->result < 0)
        begin_step(op);
}

static bool files_wait(const struct operation *op)
{
    for (size_t i = 0; i < op->n_files; i++)
        if (op->files[i]->waiting)
            return true;
    return false;
}

static void asked_long_enough(void *userdata)
{
    begin_now(userdata);
}

/* Asks for every file that the first walk saw, so that the rundown, which holds up the merge, finds
 * the answers. Without memory they come late. */
static void ask_ahead(struct operation *op)
{
    struct kernel_logger *k = op->logger;
    const struct etl_record *rec;
    size_t offset = 0, cap = 0;

    while ((rec = walk_next(op->walk, &offset))) {
        struct raw_map m;
        struct image_file *file;
        if (rec->registration != RAW_MAP)
            continue;
        memcpy(&m, rec + 1, sizeof(m));
        if (m.path_size > rec->size - sizeof(*rec) - sizeof(m) ||
            image_file_of(k->table, &m, (const char *) (rec + 1) + sizeof(m), &file) < 0)
            continue;
        if (op->n_files == cap) {
            cap = cap ? cap * 2 : 64;
            struct image_file **files = reallocarray(op->files, cap, sizeof(*files));
            if (!files) {
                image_file_unref(file);
                return;
            }
            op->files = files;
        }
        struct image image = {m.start, m.end, m.offset, file};
        op->files[op->n_files++] = file;
        events_image_ask(k->events, &image, m.tgid, true);
    }
}

static void attached(void *userdata)
{
    struct operation *op = userdata;
    struct kernel_logger *k = op->logger;

    if (op->rings)
        k->rings = TAKE_PTR(op->rings);
    if (op->result == 0 && k->rings)
        op->result = logger_rings_attach(k);
    /* Before anything of it is in a session that a successor goes on with. */
    if (op->result == 0)
        op->result = kernel_keep_descriptors(k->keeper);
    if (op->result < 0) {
        operation_fail(op);
        return;
    }
    if (op->walk)
        ask_ahead(op);
    if (files_wait(op) && loop_timer_new(k->loop, asked_long_enough, op, &op->ask_timer) == 0 &&
        loop_timer_arm(op->ask_timer, etw_clock_boottime() + ASK_NS) == 0)
        op->asking = true;
    else
        begin_now(op);
}

static void attach_run(void *userdata)
{
    struct operation *op = userdata;
    struct kernel_logger *k = op->logger;

    op->result = 0;
    if (!k->rings && programs_any(op->needs))
        op->result = programs_rings(k->cpus, k->ring_bytes, &op->rings);
    if (op->result == 0)
        op->result = programs_attach(k->programs, op->rings ? op->rings : k->rings, op->needs);
    if (op->result == 0 && op->traced->sysconfig && op->kind == START)
        op->result = sysconfig_read(&op->config);
    /* The files that are mapped now, without holding up anything. */
    if (op->result == 0 && op->needs.images && !op->before.images) {
        int r = programs_walk(k->programs, true, false, &op->walk);
        if (r < 0)
            log_debug("kernel rundown: cannot walk ahead: %s", strerror(-r));
    }
    if (op->result == 0 && !k->kernel_known && op->needs.images) {
        kernel_image_read(&k->kernel);
        k->kernel_known = true;
    }
}

/* STOP goes on when the programs are gone and no image event of the session waits any more. */
static void end_step(struct operation *op)
{
    struct kernel_logger *k = op->logger;

    if (op->waiting > 0)
        return;
    state_begin(k->state);
    rundown_finish(k->events, &op->traced->target, op->stamp);
    traced_unlink(k, op->traced);
    state_commit(k->state);
    operation_end(op, 0);
}

void operation_images_answered(void *userdata)
{
    struct kernel_logger *k = userdata;
    struct operation *op = k->first;

    if (op && op->asking && !files_wait(op)) {
        loop_timer_disarm(op->ask_timer);
        begin_now(op);
        return;
    }
    if (!op || !op->images_wanted || events_waiting(k->events) < op->images_until)
        return;
    op->images_wanted = false;
    op->waiting--;
    end_step(op);
}

static void detached(void *userdata)
{
    struct operation *op = userdata;

    follow(op);
    op->waiting--;
    end_step(op);
}

/* STOP, after the drain: the table stands at T. */
static void end_described(bool complete, void *userdata)
{
    struct operation *op = userdata;
    struct kernel_logger *k = op->logger;
    struct traced *t = op->traced;

    state_begin(k->state);
    kernel_logger_sync_losses(k);
    if (op->walk)
        rundown_refresh(k->finish, k->table, op->walk);
    t->target.end = op->stamp;
    struct rundown_params p = rundown_of(op);
    rundown_begin(op, &p);
    state_commit(k->state);
    rundown_go_on(op);
}

/* What follows the rundown. */
static void rundown_written(struct operation *op)
{
    static const uint32_t none[8];
    struct kernel_logger *k = op->logger;
    struct traced *t = op->traced;

    switch (op->kind) {
    case START:
        operation_end(op, 0);
        break;
    case UPDATE:
        router_hold(k->router, UINT64_MAX);
        op->needs = logger_needs(k, t, t->target.masks);
        if (worker_submit(k->worker, let_go_run, let_go_done, op) < 0)
            operation_end(op, 0); /* they stay until the next change */
        break;
    case STOP:
        router_set_masks(k->router, t->target.session, none);
        router_hold(k->router, UINT64_MAX);
        op->images_until = k->events->waiting_next;
        op->images_wanted = true;
        op->waiting = 2;
        if (worker_submit(k->worker, let_go_run, detached, op) < 0)
            op->waiting--; /* they stay until the next change */
        operation_images_answered(k);
        break;
    }
}

static void walked(void *userdata)
{
    struct operation *op = userdata;
    struct kernel_logger *k = op->logger;

    op->stamp = etw_clock_boottime();
    router_hold(k->router, op->stamp);
    if (router_drain(k->router, op->stamp, end_described, op) < 0)
        end_described(false, op);
}

static void end_run(void *userdata)
{
    struct operation *op = userdata;
    struct kernel_logger *k = op->logger;
    int r;

    if (op->traced->sysconfig && sysconfig_read(&op->config) < 0)
        op->config = NULL;
    if (!programs_need(op->traced->target.masks).processes)
        return;
    /* Names change while a thread lives. Without the walk the rundown has the ones from the start.
     */
    r = programs_walk(k->programs, false, true, &op->walk);
    if (r < 0)
        log_warning("kernel rundown: cannot walk the tasks: %s", strerror(-r));
}

/* What the rundown of a predecessor still needs. */
static void resume_run(void *userdata)
{
    struct operation *op = userdata;
    struct kernel_logger *k = op->logger;

    if (!k->kernel_known && op->before.images) {
        kernel_image_read(&k->kernel);
        k->kernel_known = true;
    }
}

static void resume_done(void *userdata)
{
    struct operation *op = userdata;

    if (!rundown_progress_done(&op->progress)) {
        struct rundown_params p = rundown_of(op);
        rundown_begin(op, &p);
    }
    rundown_go_on(op);
}

int operation_resume(struct kernel_logger *k, struct traced *t, enum operation_kind kind,
                     uint64_t stamp, const uint32_t old_masks[8],
                     const struct rundown_progress *progress)
{
    static const uint32_t none[8];
    bool done = rundown_progress_done(progress);

    if (kind != STOP && done)
        return 0; /* there is nothing left to do */
    struct operation *op = calloc(1, sizeof(*op));
    if (!op)
        return -ENOMEM;
    op->kind = kind;
    op->logger = k;
    op->traced = t;
    memcpy(op->masks, t->target.masks, sizeof(op->masks));
    memcpy(op->old_masks, old_masks, sizeof(op->old_masks));
    op->stamp = stamp;
    op->described = true;
    op->progress = *progress;
    if (!done)
        router_hold(k->router, stamp);
    else
        router_set_masks(k->router, t->target.session, none);
    if (kind == STOP) {
        k->resumed = op;
        return 0;
    }
    *k->last = op;
    k->last = &op->next;
    return operation_begin(k);
}

int operation_begin(struct kernel_logger *k)
{
    struct operation *op = k->first;

    if (!op)
        return 0;
    if (op->described) {
        op->before = logger_needs(k, op->traced, op->traced->target.masks);
        op->needs = op->kind == STOP ? logger_needs(k, op->traced, NULL) : op->before;
        return worker_submit(k->worker, resume_run, resume_done, op);
    }
    op->before = logger_needs(k, op->traced, op->kind == START ? NULL : op->traced->target.masks);
    if (op->kind == STOP) {
        op->needs = logger_needs(k, op->traced, NULL);
        return worker_submit(k->worker, end_run, walked, op);
    }
    op->needs = logger_needs(k, op->traced, op->masks);
    /* An update lets go of what it does not need when the new is there. */
    op->needs.processes |= op->before.processes;
    op->needs.images |= op->before.images;
    op->needs.switches |= op->before.switches;
    op->needs.ready |= op->before.ready;
    return worker_submit(k->worker, attach_run, attached, op);
}
