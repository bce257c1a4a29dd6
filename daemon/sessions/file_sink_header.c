/* SPDX-License-Identifier: Apache-2.0
 *
 * The first buffer of a log file: its totals are rewritten from time to time, for those who wait,
 * and for the last time at the end. See file_sink_internal.h.
 */
#include "file_sink_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "behind.h"
#include "clock.h"
#include "io/worker.h"

static uint32_t sum(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static void totals_now(const struct file_sink *f, bool final, struct etl_logfile_totals *ret)
{
    struct session *s = f->session;
    if (s->refresh)
        s->refresh(s);
    *ret = (struct etl_logfile_totals){
        .end_time = final ? session_clock_filetime(s) : 0,
        .buffers_written = (uint32_t) (sink_file_end(f) / f->buffer_bytes),
        .events_lost = sum(f->before.events_lost, session_events_lost(s)),
        .buffers_lost = sum(f->before.buffers_lost, s->counters.log_buffers_lost),
    };
}

static void close_run(void *userdata)
{
    struct file_sink *f = userdata;
    /* Gives back what was reserved and not used. */
    if (f->reserved > 0)
        (void) ftruncate(f->fd, (off_t) sink_file_end(f));
    /* A write error that the page cache kept to itself shows here. */
    f->job_result = fsync(f->fd) < 0 ? -errno : 0;
    f->fd = safe_close(f->fd);
}

static void close_done(void *userdata)
{
    struct file_sink *f = userdata;
    f->on_worker = false;
    f->fn(f->job_result, f->userdata);
}

/* Tells those whose buffers are settled, and the header in the file knows of it. */
static void waiters_run(struct file_sink *f, int result)
{
    struct waiter *ready = NULL, **tail = &ready;
    for (struct waiter **p = &f->waiters; *p;) {
        struct waiter *w = *p;
        if (w->ticket <= f->header_settled) {
            *p = w->next;
            w->next = NULL;
            *tail = w;
            tail = &w->next;
        } else
            p = &w->next;
    }
    while (ready) {
        struct waiter *w = ready;
        ready = w->next;
        w->fn(result, w->userdata);
        free(w);
    }
}

static void header_written(int result, void *userdata)
{
    struct file_sink *f = userdata;
    f->header_busy = false;
    if (f->header_dirty) {
        sink_header_write(f);
        return;
    }
    waiters_run(f, result);
    if (f->header_final) {
        if (result < 0)
            log_warning("session '%s': file '%s': the final header could not be written: %s",
                        f->session->properties.name, f->session->properties.log_file,
                        strerror(-result));
        if (f->behind)
            behind_end(f->behind);
        f->on_worker = true;
        if (worker_submit(f->syncer, close_run, close_done, f) < 0) {
            close_run(f);
            close_done(f);
        }
        return;
    }
    sink_pump(f);
}

void sink_header_prepare(struct file_sink *f, bool final)
{
    struct etl_logfile_totals totals;

    loop_timer_disarm(f->header_timer);
    f->header_timer_armed = false;
    f->header_dirty = false;
    totals_now(f, final, &totals);
    f->header_settled = sink_settled(f);
    etl_logfile_buffer_update(f->header, &totals);
}

void sink_header_write(struct file_sink *f)
{
    int r;

    /* During a job the file's end may change hands. */
    if (f->header_busy || f->turning) {
        f->header_dirty = true;
        return;
    }
    sink_header_prepare(f, f->header_final);
    f->header_busy = true;
    r = sink_write(f, f->header, HEADER_WRITE, 0, -1, header_written, f);
    if (r < 0)
        header_written(r, f);
}

void sink_header_fired(void *userdata)
{
    struct file_sink *f = userdata;
    f->header_timer_armed = false;
    sink_header_write(f);
}

void sink_header_soon(struct file_sink *f)
{
    if (f->header_timer_armed || f->header_final)
        return;
    uint64_t when = etw_clock_boottime() + ETWD_HEADER_INTERVAL_MS * 1000000ULL;
    f->header_timer_armed = loop_timer_arm(f->header_timer, when) == 0;
}

bool sink_waiter_ready(struct file_sink *f)
{
    uint64_t upto = sink_settled(f);
    for (const struct waiter *w = f->waiters; w; w = w->next)
        if (w->ticket <= upto)
            return true;
    return false;
}
