/* SPDX-License-Identifier: Apache-2.0
 *
 * See behind.h. Two ranges of half the size that stays: the one that grows, and the one whose pages
 * are on their way to the disk since the former was full. When the growing one is full, the other
 * is waited for and dropped, and takes its place: the disk always has one range to work on, and
 * nobody waits for it who has something else to do.
 */
#include "behind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/loop.h"
#include "io/worker.h"

struct range {
    uint64_t begin, end;
};

struct behind {
    struct worker *syncer;
    struct loop_timer *timer; /* NULL: no interval */
    int fd;
    uint64_t half;
    uint64_t interval_ns;
    struct range growing;
    struct range leaving;
    bool armed;
    bool sync_wanted;
    bool busy; /* a job is under way */
    bool ended;
    bool orphan; /* freed while busy */
    uint64_t dropped, synced;
    /* The job's. */
    struct range drop, start;
    bool sync;
};

static void pump(struct behind *b);

static void fired(void *userdata)
{
    struct behind *b = userdata;

    b->armed = false;
    b->sync_wanted = true;
    pump(b);
}

int behind_new(struct loop *l, struct worker *syncer, int fd, uint64_t cache, uint64_t interval_ns,
               struct behind **ret)
{
    struct behind *b = malloc(sizeof(*b));
    int r;

    if (!b)
        return -ENOMEM;
    *b = (struct behind){.syncer = syncer, .fd = fd, .half = cache / 2, .interval_ns = interval_ns};
    if (interval_ns > 0) {
        r = loop_timer_new(l, fired, b, &b->timer);
        if (r < 0) {
            free(b);
            return r;
        }
    }
    *ret = b;
    return 0;
}

struct behind *behind_free(struct behind *b)
{
    if (!b)
        return NULL;
    if (b->timer)
        b->timer = loop_timer_free(b->timer);
    b->ended = true;
    if (b->busy)
        b->orphan = true;
    else
        free(b);
    return NULL;
}

/* Errors are left to the fsync at the end: the kernel keeps those of writing for it, and a file
 * system that knows none of these calls is no worse than before. */
static void run(void *userdata)
{
    struct behind *b = userdata;

    if (b->start.end > b->start.begin)
        (void) sync_file_range(b->fd, (off_t) b->start.begin,
                               (off_t) (b->start.end - b->start.begin), SYNC_FILE_RANGE_WRITE);
    if (b->drop.end > b->drop.begin) {
        off_t at = (off_t) b->drop.begin;
        off_t size = (off_t) (b->drop.end - b->drop.begin);
        (void) sync_file_range(b->fd, at, size,
                               SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                   SYNC_FILE_RANGE_WAIT_AFTER);
        (void) posix_fadvise(b->fd, at, size, POSIX_FADV_DONTNEED);
    }
    if (b->sync)
        (void) fdatasync(b->fd);
}

static void done(void *userdata)
{
    struct behind *b = userdata;

    b->busy = false;
    b->dropped += b->drop.end > b->drop.begin;
    b->synced += b->sync;
    if (b->orphan)
        free(b);
    else
        pump(b);
}

static void pump(struct behind *b)
{
    bool full = b->half > 0 && b->growing.end - b->growing.begin >= b->half;

    if (b->busy || b->ended || (!full && !b->sync_wanted))
        return;
    b->drop = b->start = (struct range){0, 0};
    if (full) {
        b->drop = b->leaving;
        b->start = b->leaving = b->growing;
        b->growing = (struct range){b->leaving.end, b->leaving.end};
    }
    b->sync = b->sync_wanted;
    b->sync_wanted = false;
    b->busy = true;
    /* Without memory for a job: the pages stay, the kernel writes them when it likes. */
    if (worker_submit(b->syncer, run, done, b) < 0) {
        b->busy = false;
        b->sync_wanted = b->sync; /* with the next write */
    }
}

void behind_wrote(struct behind *b, uint64_t offset, uint64_t size)
{
    if (!b->armed && b->timer)
        b->armed = loop_timer_arm(b->timer, etw_clock_boottime() + b->interval_ns) == 0;
    /* Elsewhere in the file than before: what grew until now stays until the kernel wants it. */
    if (offset != b->growing.end)
        b->growing = (struct range){offset, offset};
    b->growing.end = offset + size;
    pump(b);
}

void behind_end(struct behind *b)
{
    b->ended = true;
    if (b->timer)
        loop_timer_disarm(b->timer);
}

uint64_t behind_dropped(const struct behind *b)
{
    return b->dropped;
}

uint64_t behind_synced(const struct behind *b)
{
    return b->synced;
}
