/* SPDX-License-Identifier: Apache-2.0
 *
 * How a log file is begun, on the worker, since truncating and the first write may wait for the
 * disk; and how another one takes its place. See file_sink_internal.h.
 */
#include "file_sink_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fileio.h"
#include "base/log.h"
#include "behind.h"
#include "io/worker.h"
#include "state/state.h"

int sink_reserve(const struct file_sink *f)
{
    if (f->reserved == 0)
        return 0;
    int r;
    do
        r = fallocate(f->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t) f->reserved);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : 0;
}

static void open_run(void *userdata)
{
    struct file_sink *f = userdata;
    /* The library may have opened it so for fear of a FIFO. io_uring would give up instead of
     * waiting for the disk. */
    int flags = fcntl(f->fd, F_GETFL);
    if (flags >= 0 && (flags & O_NONBLOCK))
        (void) fcntl(f->fd, F_SETFL, flags & ~O_NONBLOCK);
    /* Asked for first, so that a disk without room for it leaves what is in the file. */
    f->job_result = sink_reserve(f);
    if (f->job_result < 0) {
        struct stat sb;
        if (fstat(f->fd, &sb) == 0)
            (void) ftruncate(f->fd, sb.st_size);
        return;
    }
    if (ftruncate(f->fd, (off_t) f->job_end) < 0) {
        f->job_result = -errno;
        return;
    }
    f->job_result = sink_reserve(f);
    if (f->job_result < 0)
        return;
    f->job_result = etw_pwrite(f->fd, f->header, f->job_end ? HEADER_WRITE : f->buffer_bytes, 0);
    if (f->job_result < 0) {
        if (f->job_end == 0)
            (void) ftruncate(f->fd, 0);
        return;
    }
    if (!f->job_direct)
        return;
    /* Ours alone: only after the first write, and only where sizes suit every disk. */
    flags = fcntl(f->fd, F_GETFL);
    if (flags >= 0 && fcntl(f->fd, F_SETFL, flags | O_DIRECT) == 0) {
        ssize_t n = pwrite(f->fd, f->header, HEADER_WRITE, 0);
        if (n != HEADER_WRITE) /* accepted, but it does not work here */
            (void) fcntl(f->fd, F_SETFL, flags);
    }
}

static void open_done(void *userdata)
{
    struct file_sink *f = userdata;
    f->on_worker = false;
    int r = f->job_result;
    if (r == 0) {
        uint8_t *start = aligned_alloc(4096, HEADER_WRITE);
        if (start) {
            memcpy(start, f->header, HEADER_WRITE);
            free(f->header);
            f->header = start;
        }
        f->open = true;
        f->committed = f->job_end ? f->job_end : f->buffer_bytes;
        f->session->counters.buffers_written = (uint32_t) (f->committed / f->buffer_bytes);
    }
    f->fn(r, f->userdata);
    if (r == 0)
        sink_pump(f);
}

static int open_begin(struct file_sink *f, bool direct, file_sink_fn fn, void *userdata)
{
    int r;

    f->fn = fn;
    f->userdata = userdata;
    f->job_direct = direct && f->buffer_bytes % HEADER_WRITE == 0;
    f->on_worker = true;
    r = worker_submit(f->worker, open_run, open_done, f);
    if (r < 0)
        f->on_worker = false;
    return r;
}

int file_sink_open(struct file_sink *f, const struct etl_logfile_params *p, bool direct,
                   file_sink_fn fn, void *userdata)
{
    struct etl_logfile_totals totals = {.buffers_written = 1};
    int r;

    r = etl_logfile_buffer_put(f->header, p, &totals);
    return r < 0 ? r : open_begin(f, direct, fn, userdata);
}

int file_sink_open_append(struct file_sink *f, const struct etl_append *a, bool direct,
                          file_sink_fn fn, void *userdata)
{
    struct etl_logfile_totals totals = {.buffers_written = (uint32_t) (a->end / a->buffer_size)};

    if (a->buffer_size != f->buffer_bytes || a->end / a->buffer_size > UINT32_MAX)
        return -EINVAL;
    memcpy(f->header, a->header, HEADER_WRITE);
    etl_logfile_buffer_totals(f->header, &f->before);
    totals.events_lost = f->before.events_lost;
    totals.buffers_lost = f->before.buffers_lost;
    etl_logfile_buffer_update(f->header, &totals);
    f->job_end = a->end;
    return open_begin(f, direct, fn, userdata);
}

/* Another file. */

struct old_file {
    int fd;
    uint64_t cut; /* to give back what was reserved; 0: nothing was */
};

static void old_run(void *userdata)
{
    struct old_file *o = userdata;
    if (o->cut > 0)
        (void) ftruncate(o->fd, (off_t) o->cut);
    (void) fsync(o->fd);
    (void) safe_close(o->fd);
}

/* The new file is begun as file_sink_open() does it; then the old one's header is final. Killed
 * before the end is committed, a successor finds the old one and goes on there. */
static void turn_run(void *userdata)
{
    struct file_sink *f = userdata;
    struct file_sink new = {
        .fd = f->turn.fd,
        .header = f->turn.header,
        .buffer_bytes = f->buffer_bytes,
        .reserved = f->reserved,
        .job_direct = f->job_direct,
    };
    open_run(&new);
    f->job_result = new.job_result;
    if (f->job_result == 0 && etw_pwrite(f->fd, f->header, HEADER_WRITE, 0) < 0)
        log_warning("session '%s': file '%s': the final header could not be written",
                    f->session->properties.name, f->session->properties.log_file);
}

static void turn_end(struct file_sink *f, int result)
{
    file_sink_fn fn = f->turn.fn;
    void *userdata = f->turn.userdata;

    free(f->turn.header);
    f->turn.header = NULL;
    f->turn.fn = NULL;
    fn(result, userdata);
    if (f->header_dirty)
        sink_header_write(f);
    sink_pump(f);
}

static void turn_done(void *userdata)
{
    struct file_sink *f = userdata;
    struct old_file *old = NULL;
    int r = f->job_result;

    f->on_worker = false;
    f->turning = false;
    if (r == 0) {
        old = malloc(sizeof(*old));
        r = old ? 0 : -ENOMEM;
    }
    if (r < 0) {
        worker_close(f->worker, f->turn.fd);
        f->turn.fd = -1;
        f->header_dirty = true; /* it is not final */
        turn_end(f, r);
        return;
    }
    state_begin(f->session->kept);
    session_touch(f->session);
    *old = (struct old_file){.fd = f->fd, .cut = f->reserved > 0 ? sink_file_end(f) : 0};
    f->behind = behind_free(f->behind);
    f->fd = f->turn.fd;
    f->turn.fd = -1;
    memcpy(f->header, f->turn.header, HEADER_WRITE);
    f->before = (struct etl_logfile_totals){0};
    f->committed = f->buffer_bytes;
    f->session->counters.buffers_written++;
    slots_clear(&f->slots);
    if (sink_behind_begin(f) < 0)
        log_debug("session '%s': no memory to watch its file's pages", f->session->properties.name);
    turn_end(f, 0);
    state_commit(f->session->kept);
    /* Behind what was submitted for it before. */
    if (worker_submit(f->syncer, old_run, free, old) < 0) {
        old_run(old);
        free(old);
    }
}

void sink_turn_begin(struct file_sink *f)
{
    if (f->header_busy) /* comes back when it is written */
        return;
    sink_header_prepare(f, true);
    f->on_worker = true;
    f->turning = true;
    if (worker_submit(f->worker, turn_run, turn_done, f) < 0) {
        f->job_result = -ENOMEM;
        turn_done(f);
    }
}

int file_sink_turn(struct file_sink *f, int fd, const struct etl_logfile_params *p, file_sink_fn fn,
                   void *userdata)
{
    struct etl_logfile_totals totals = {.buffers_written = 1};
    int r;

    if (f->turn.fn || f->closing || !f->open)
        return -EBUSY;
    uint8_t *header = aligned_alloc(4096, ALIGN_UP((size_t) f->buffer_bytes, (size_t) 4096));
    if (!header)
        return -ENOMEM;
    r = etl_logfile_buffer_put(header, p, &totals);
    if (r < 0) {
        free(header);
        return r;
    }
    f->turn.fd = fd;
    f->turn.ticket = f->next_ticket;
    f->turn.header = header;
    f->turn.fn = fn;
    f->turn.userdata = userdata;
    sink_pump(f);
    return 0;
}
