/* SPDX-License-Identifier: Apache-2.0
 *
 * See buffers.h. The memfd may not shrink; it may grow, for an UPDATE of MaximumBuffers, and it
 * never gets F_SEAL_FUTURE_WRITE, since a successor of this daemon has to map it again.
 */
#include "buffers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/memfd.h"
#include "io/loop.h"
#include "state/state.h"

struct range {
    uint64_t offset; /* in the memfd, page-aligned */
    uint32_t first;  /* buffer */
    uint32_t count;
    uint32_t unused;
    uint32_t free_head;
    int fixed;
    bool populated;
    uint64_t idle_since;
};

struct mapping {
    void *address;
    size_t size;
};

struct buffers {
    struct loop *loop;
    struct loop_timer *idle_timer;
    bool idle_armed;
    int fd;
    uint32_t buffer_bytes;
    uint32_t minimum;
    uint32_t maximum;
    uint32_t allocated;
    uint32_t out;
    uint64_t file_size;
    uint64_t resident;
    struct buffer *items;
    struct range *ranges;
    uint32_t n_ranges;
    struct mapping *mappings; /* one, and one more for each growth */
    uint32_t n_mappings;
    uint32_t *touched;
    uint32_t n_touched;
};

/* The books for a successor, then the ranges, then an item a buffer. */
struct buffers_image {
    uint32_t buffer_bytes;
    uint32_t minimum;
    uint32_t maximum;
    uint32_t allocated;
    uint32_t n_ranges;
    uint32_t reserved;
};

struct range_image {
    uint64_t offset;
    uint32_t first;
    uint32_t count;
};

struct item_image {
    uint64_t ticket;
    uint32_t events;
    uint16_t flags;
    uint16_t out;
};
_Static_assert(sizeof(struct buffers_image) == 24 && sizeof(struct range_image) == 16 &&
                   sizeof(struct item_image) == 16,
               "part of the format");

static uint64_t page_up(uint64_t n)
{
    return ALIGN_UP(n, (uint64_t) 4096 * 16); /* the largest page size in use: 64 KiB */
}

static uint64_t range_bytes(const struct buffers *b, const struct range *r)
{
    return page_up((uint64_t) r->count * b->buffer_bytes);
}

static void idle_fired(void *userdata);

int buffers_set_maximum(struct buffers *b, uint32_t maximum)
{
    if (maximum <= b->maximum)
        return 0;

    uint32_t per_range = ETWD_RANGE_BYTES / b->buffer_bytes;
    if (per_range == 0)
        per_range = 1;
    uint32_t per_first = ETWD_FIRST_RANGE_BYTES / b->buffer_bytes;
    if (per_first == 0)
        per_first = 1;

    uint32_t more = maximum - b->maximum;
    uint32_t most_ranges = more / per_range + 2;
    size_t bytes;
    if (__builtin_mul_overflow((size_t) b->n_ranges + most_ranges, sizeof(struct range), &bytes))
        return -EOVERFLOW;
    struct range *ranges = realloc(b->ranges, bytes);
    if (!ranges)
        return -ENOMEM;
    b->ranges = ranges;
    if (__builtin_mul_overflow((size_t) maximum, sizeof(struct buffer), &bytes))
        return -EOVERFLOW;
    struct buffer *items = realloc(b->items, bytes);
    if (!items)
        return -ENOMEM;
    b->items = items;
    if (__builtin_mul_overflow((size_t) maximum, sizeof(*b->touched), &bytes))
        return -EOVERFLOW;
    uint32_t *touched = realloc(b->touched, bytes);
    if (!touched)
        return -ENOMEM;
    b->touched = touched;
    struct mapping *mappings = realloc(b->mappings, (b->n_mappings + 1) * sizeof(*mappings));
    if (!mappings)
        return -ENOMEM;
    b->mappings = mappings;

    /* Lay the new ranges out, then make room for them; only then they count. */
    uint32_t n_ranges = b->n_ranges, next = b->maximum;
    uint64_t offset = b->file_size;
    while (next < maximum) {
        struct range *r = &b->ranges[n_ranges];
        uint32_t count = n_ranges == 0 ? per_first : per_range;
        if (count > maximum - next)
            count = maximum - next;
        *r = (struct range){
            .offset = offset, .first = next, .count = count, .unused = count, .fixed = -1};
        offset += range_bytes(b, r);
        next += count;
        n_ranges++;
    }
    size_t size = (size_t) (offset - b->file_size);
    if (ftruncate(b->fd, (off_t) offset) < 0)
        return -errno;
    uint8_t *address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, b->fd,
                            (off_t) b->file_size);
    if (address == MAP_FAILED)
        return -errno;
    b->mappings[b->n_mappings++] = (struct mapping){.address = address, .size = size};
    for (uint32_t i = b->n_ranges; i < n_ranges; i++) {
        struct range *r = &b->ranges[i];
        uint8_t *base = address + (r->offset - b->file_size);
        for (uint32_t k = 0; k < r->count; k++)
            b->items[r->first + k] = (struct buffer){
                .data = base + (uint64_t) k * b->buffer_bytes,
                .fixed = -1,
                .range = i,
                .next = k + 1 < r->count ? r->first + k + 1 : BUFFER_NONE,
            };
        r->free_head = r->first;
    }
    b->n_ranges = n_ranges;
    b->file_size = offset;
    b->maximum = maximum;
    return 0;
}

int buffers_new(struct loop *l, uint32_t buffer_bytes, uint32_t minimum, uint32_t maximum,
                struct buffers **ret)
{
    int r;

    struct buffers *b = calloc(1, sizeof(*b));
    if (!b)
        return -ENOMEM;
    *b = (struct buffers){
        .loop = l,
        .fd = -1,
        .buffer_bytes = buffer_bytes,
        .minimum = minimum,
        .allocated = minimum,
    };
    r = loop_timer_new(l, idle_fired, b, &b->idle_timer);
    if (r < 0)
        goto fail;
    r = b->fd = etw_memfd("etwd-buffers", 0, F_SEAL_SHRINK);
    if (r < 0)
        goto fail;
    r = buffers_set_maximum(b, maximum);
    if (r < 0)
        goto fail;
    *ret = b;
    return 0;

fail:
    buffers_free(b);
    return r;
}

static void range_drop(struct buffers *b, struct range *r)
{
    loop_range_unregister(b->loop, r->fixed);
    r->fixed = -1;
    r->populated = false;
    b->resident -= range_bytes(b, r);
    (void) fallocate(b->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) r->offset,
                     (off_t) range_bytes(b, r));
}

struct buffers *buffers_free(struct buffers *b)
{
    if (!b)
        return NULL;
    for (uint32_t i = 0; i < b->n_ranges; i++)
        loop_range_unregister(b->loop, b->ranges[i].fixed);
    for (uint32_t i = 0; i < b->n_mappings; i++)
        (void) munmap(b->mappings[i].address, b->mappings[i].size);
    loop_timer_free(b->idle_timer);
    (void) safe_close(b->fd);
    free(b->items);
    free(b->ranges);
    free(b->mappings);
    free(b->touched);
    free(b);
    return NULL;
}

void buffers_touch(struct buffers *b, uint32_t index)
{
    if (b->items[index].touched)
        return;
    b->items[index].touched = true;
    b->touched[b->n_touched++] = index;
}

static int range_populate(struct buffers *b, struct range *r)
{
    uint64_t size = range_bytes(b, r);
    if (fallocate(b->fd, 0, (off_t) r->offset, (off_t) size) < 0)
        return errno == EINTR ? -EAGAIN : -ENOMEM;
    r->populated = true;
    b->resident += size;
    /* Without registration (limits, epoll) writes are plain: slower, not wrong. */
    if (loop_range_register(b->loop, b->items[r->first].data, size, &r->fixed) < 0)
        r->fixed = -1;
    for (uint32_t k = 0; k < r->count; k++)
        b->items[r->first + k].fixed = r->fixed;
    return 0;
}

int buffers_take(struct buffers *b, uint32_t *ret_index)
{
    int r;

    if (b->out == b->maximum)
        return -ENOBUFS;
    for (uint32_t i = 0; i < b->n_ranges; i++) {
        struct range *rg = &b->ranges[i];
        if (rg->unused == 0)
            continue;
        if (!rg->populated) {
            r = range_populate(b, rg);
            if (r < 0)
                return -ENOMEM;
        }
        uint32_t index = rg->free_head;
        struct buffer *item = &b->items[index];
        rg->free_head = item->next;
        rg->unused--;
        item->next = BUFFER_NONE;
        item->events = 0;
        item->flags = 0;
        item->ticket = 0;
        item->out = true;
        item->pinned = false;
        buffers_touch(b, index);
        b->out++;
        if (b->out > b->allocated)
            b->allocated = b->out;
        *ret_index = index;
        return 0;
    }
    return -ENOBUFS;
}

void buffers_give(struct buffers *b, uint32_t index)
{
    struct buffer *item = &b->items[index];
    struct range *r = &b->ranges[item->range];
    if (!item->out)
        return;
    item->out = false;
    item->ticket = 0;
    buffers_touch(b, index);
    item->next = r->free_head;
    r->free_head = index;
    b->out--;
    if (++r->unused < r->count)
        return;
    r->idle_since = etw_clock_boottime();
    if (!b->idle_armed &&
        loop_timer_arm(b->idle_timer, r->idle_since + ETWD_RANGE_IDLE_S * ETW_NSEC_PER_SEC) == 0)
        b->idle_armed = true;
}

static void idle_fired(void *userdata)
{
    struct buffers *b = userdata;
    uint64_t now = etw_clock_boottime(), next = UINT64_MAX;
    b->idle_armed = false;
    for (uint32_t i = 0; i < b->n_ranges; i++) {
        struct range *r = &b->ranges[i];
        if (!r->populated || r->unused < r->count)
            continue;
        uint64_t due = r->idle_since + ETWD_RANGE_IDLE_S * ETW_NSEC_PER_SEC;
        if (due <= now)
            range_drop(b, r);
        else if (due < next)
            next = due;
    }
    if (next != UINT64_MAX && loop_timer_arm(b->idle_timer, next) == 0)
        b->idle_armed = true;
}

struct buffer *buffers_get(struct buffers *b, uint32_t index)
{
    return &b->items[index];
}

uint32_t buffers_maximum(const struct buffers *b)
{
    return b->maximum;
}

uint32_t buffers_out(const struct buffers *b)
{
    return b->out;
}

uint32_t buffers_allocated(const struct buffers *b)
{
    return b->allocated;
}

uint32_t buffers_unused(const struct buffers *b)
{
    return b->allocated - b->out;
}

uint64_t buffers_resident(const struct buffers *b)
{
    return b->resident;
}

/* ---- what a successor gets ---- */

int buffers_fd(const struct buffers *b)
{
    return b->fd;
}

size_t buffers_image_size(const struct buffers *b)
{
    return sizeof(struct buffers_image) + b->n_ranges * sizeof(struct range_image) +
           b->maximum * sizeof(struct item_image);
}

void buffers_image_write(struct buffers *b, struct state *st, void *image, bool all)
{
    struct buffers_image *head = image;
    struct range_image *ranges = (struct range_image *) (head + 1);
    struct item_image *items = (struct item_image *) (ranges + b->n_ranges);
    struct buffers_image now = {
        .buffer_bytes = b->buffer_bytes,
        .minimum = b->minimum,
        .maximum = b->maximum,
        .allocated = b->allocated,
        .n_ranges = b->n_ranges,
    };
    if (memcmp(head, &now, sizeof(now)) != 0) {
        state_save(st, head, sizeof(*head));
        *head = now;
    }
    for (uint32_t i = 0; all && i < b->n_ranges; i++) {
        const struct range *r = &b->ranges[i];
        state_save(st, &ranges[i], sizeof(ranges[i]));
        ranges[i] = (struct range_image){r->offset, r->first, r->count};
    }
    uint32_t n = all ? b->maximum : b->n_touched;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = all ? k : b->touched[k];
        const struct buffer *item = &b->items[i];
        state_save(st, &items[i], sizeof(items[i]));
        items[i] = (struct item_image){item->ticket, item->events, item->flags, item->out};
    }
    for (uint32_t k = 0; k < b->n_touched; k++)
        b->items[b->touched[k]].touched = false;
    b->n_touched = 0;
}

/* That the ranges hold each buffer once, one behind the other, and the memfd holds the ranges. */
static int image_check(const void *image, size_t size, uint32_t buffer_bytes, uint64_t file_size)
{
    const struct buffers_image *head = image;
    if (size < sizeof(*head) || head->buffer_bytes != buffer_bytes || buffer_bytes == 0 ||
        head->n_ranges == 0 || head->n_ranges > head->maximum || head->minimum > head->maximum ||
        head->allocated > head->maximum ||
        size != sizeof(*head) + (uint64_t) head->n_ranges * sizeof(struct range_image) +
                    (uint64_t) head->maximum * sizeof(struct item_image))
        return -EBADMSG;
    const struct range_image *ranges = (const struct range_image *) (head + 1);
    uint64_t offset = 0, next = 0;
    for (uint32_t i = 0; i < head->n_ranges; i++) {
        /* Between ranges may lie what a predecessor could not finish. */
        if (ranges[i].offset < offset || ranges[i].offset != page_up(ranges[i].offset) ||
            ranges[i].offset > file_size || ranges[i].first != next || ranges[i].count == 0)
            return -EBADMSG;
        next += ranges[i].count;
        offset = ranges[i].offset + page_up((uint64_t) ranges[i].count * buffer_bytes);
        if (next > head->maximum || offset > file_size)
            return -EBADMSG;
    }
    return next == head->maximum ? 0 : -EBADMSG;
}

static int items_take_over(struct buffers *b, const struct buffers_image *head)
{
    const struct range_image *ranges = (const struct range_image *) (head + 1);
    const struct item_image *items = (const struct item_image *) (ranges + head->n_ranges);
    int r;

    for (uint32_t i = 0; i < b->n_ranges; i++) {
        struct range *rg = &b->ranges[i];
        rg->offset = ranges[i].offset;
        rg->first = ranges[i].first;
        rg->count = ranges[i].count;
        uint8_t *base = (uint8_t *) b->mappings[0].address + rg->offset;
        for (uint32_t k = rg->count; k-- > 0;) {
            const struct item_image *image = &items[rg->first + k];
            b->items[rg->first + k] = (struct buffer){
                .data = base + (uint64_t) k * b->buffer_bytes,
                .fixed = -1,
                .range = i,
                .next = BUFFER_NONE,
                .events = image->events,
                .flags = image->flags,
                .ticket = image->out ? image->ticket : 0,
                .out = image->out != 0,
            };
            if (image->out) {
                b->out++;
                continue;
            }
            b->items[rg->first + k].next = rg->free_head;
            rg->free_head = rg->first + k;
            rg->unused++;
        }
        if (rg->unused < rg->count) {
            r = range_populate(b, rg);
            if (r < 0)
                return r;
        } else
            (void) fallocate(b->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) rg->offset,
                             (off_t) range_bytes(b, rg));
    }
    return 0;
}

int buffers_new_from(struct loop *l, int fd, uint32_t buffer_bytes, const void *image, size_t size,
                     struct buffers **ret)
{
    const struct buffers_image *head = image;
    struct stat sb;
    int r;

    if (fstat(fd, &sb) < 0)
        return -errno;
    if (sb.st_size <= 0 || (uint64_t) sb.st_size != page_up((uint64_t) sb.st_size))
        return -EBADMSG;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return -EBADMSG;
    r = image_check(image, size, buffer_bytes, (uint64_t) sb.st_size);
    if (r < 0)
        return r;
    struct buffers *b = calloc(1, sizeof(*b));
    if (!b)
        return -ENOMEM;
    *b = (struct buffers){
        .loop = l,
        .fd = -1,
        .buffer_bytes = buffer_bytes,
        .minimum = head->minimum,
        .maximum = head->maximum,
        .allocated = head->allocated,
        .file_size = (uint64_t) sb.st_size,
        .items = calloc(head->maximum, sizeof(*b->items)),
        .ranges = calloc(head->n_ranges, sizeof(*b->ranges)),
        .touched = calloc(head->maximum, sizeof(*b->touched)),
        .mappings = calloc(1, sizeof(*b->mappings)),
    };
    r = b->items && b->ranges && b->touched && b->mappings ? 0 : -ENOMEM;
    if (r == 0) {
        b->n_ranges = head->n_ranges;
        for (uint32_t i = 0; i < b->n_ranges; i++)
            b->ranges[i] = (struct range){.free_head = BUFFER_NONE, .fixed = -1};
        r = loop_timer_new(l, idle_fired, b, &b->idle_timer);
    }
    if (r == 0) {
        void *address =
            mmap(NULL, b->file_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (address == MAP_FAILED)
            r = -errno;
        else
            b->mappings[b->n_mappings++] = (struct mapping){address, b->file_size};
    }
    if (r == 0) {
        b->fd = fd;
        r = items_take_over(b, head);
    }
    if (r < 0) {
        b->fd = -1; /* the caller's */
        buffers_free(b);
        return r;
    }
    *ret = b;
    return 0;
}
