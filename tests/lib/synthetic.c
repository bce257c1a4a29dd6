/* SPDX-License-Identifier: Apache-2.0
 *
 * See synthetic.h. Everything goes through proto/etl/build.h; damage is what callers do to
 * synthetic_buffer().
 */
#include "synthetic.h"

#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

struct synthetic {
    int fd;
    struct etl_logfile_params params;
    struct etl_logfile_totals totals;
    uint8_t *first;
    uint8_t *buffer;
    uint32_t used;
    uint64_t size;
    int64_t sequence;
};

static const uint16_t logger_name[] = {'s', 'y', 'n', 't', 'h', 'e', 't', 'i', 'c', 0};
static const uint16_t log_file_name[] = {'/', 't', '.', 'e', 't', 'l', 0};

static void write_all(int fd, const void *data, size_t size)
{
    const uint8_t *p = data;

    while (size > 0) {
        ssize_t n = write(fd, p, size);

        if (n < 0)
            err(1, "write of a synthetic file");
        p += n;
        size -= (size_t) n;
    }
}

static void *allocate(size_t size)
{
    void *p = aligned_alloc(64, (size + 63) & ~(size_t) 63);

    if (!p)
        err(1, "memory for a synthetic file");
    return p;
}

struct synthetic *synthetic_new(const char *path, const struct synthetic_params *p)
{
    static const struct synthetic_params none;
    struct synthetic *s = calloc(1, sizeof(*s));
    int r;

    if (!s)
        err(1, "memory for a synthetic file");
    if (!p)
        p = &none;
    s->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (s->fd < 0)
        err(1, "%s", path);
    s->params = (struct etl_logfile_params){
        .buffer_size = p->buffer_size ? p->buffer_size : 4096,
        .processors = p->processors ? p->processors : 1,
        .log_file_mode = p->mode,
        .boot_time = SYNTHETIC_START - 36000000000ULL,
        .start_time = p->start ? p->start : SYNTHETIC_START,
        .start_raw = p->start_raw ? p->start_raw : 1000,
        .frequency = p->frequency ? p->frequency : ETW_NSEC_PER_SEC,
        .clock_type = p->clock_type ? p->clock_type : ETW_CLOCK_QPC,
        .cpu_mhz = 3000,
        .tid = 11,
        .pid = 10,
        .logger_id = p->logger_id,
        .bias_minutes = -60,
        .kernel = !p->plain,
        .logger_name = logger_name,
        .log_file_name = log_file_name,
    };
    s->totals.events_lost = p->events_lost;
    s->first = allocate(s->params.buffer_size);
    s->buffer = allocate(s->params.buffer_size);
    r = etl_logfile_buffer_put(s->first, &s->params, &s->totals);
    if (r < 0)
        errx(1, "%s: a buffer of %u bytes is too small for the header", path,
             s->params.buffer_size);
    write_all(s->fd, s->first, s->params.buffer_size);
    s->size = s->params.buffer_size;
    s->totals.buffers_written = 1;
    return s;
}

void synthetic_begin(struct synthetic *s, uint16_t cpu, int64_t sequence)
{
    s->sequence++;
    etl_buffer_begin(s->buffer, s->params.buffer_size, cpu, s->params.logger_id,
                     sequence ? sequence : s->sequence, ETL_BUFFER_GENERIC);
    s->used = ETL_BUFFER_HEADER_SIZE;
}

void *synthetic_reserve(struct synthetic *s, uint32_t size)
{
    uint32_t padded = etl_padded(size);
    void *p = s->buffer + s->used;

    if (padded > s->params.buffer_size - s->used)
        return NULL;
    memset(p, 0, padded);
    s->used += padded;
    return p;
}

int synthetic_event(struct synthetic *s, uint64_t stamp, uint64_t id)
{
    uint8_t *p;
    uint32_t header;

    p = synthetic_reserve(s,
                          sizeof(struct etl_perfinfo_header) + sizeof(struct etl_Thread_CSwitch));
    if (!p)
        return 0;
    header =
        etl_header_put(p, ETL_ROW_Thread_CSwitch, sizeof(struct etl_Thread_CSwitch), 0, 0, stamp);
    memcpy(p + header, &id, sizeof(id));
    return 1;
}

uint8_t *synthetic_buffer(struct synthetic *s, uint32_t *ret_used)
{
    if (ret_used)
        *ret_used = s->used;
    return s->buffer;
}

void synthetic_flush(struct synthetic *s, uint64_t stamp, uint16_t flags)
{
    etl_buffer_close(s->buffer, s->used, stamp, flags);
    synthetic_append(s, s->buffer, s->params.buffer_size);
    s->totals.buffers_written++;
}

uint64_t synthetic_size(const struct synthetic *s)
{
    return s->size;
}

void synthetic_append(struct synthetic *s, const void *data, size_t size)
{
    write_all(s->fd, data, size);
    s->size += size;
}

void synthetic_finish(struct synthetic *s, uint64_t end)
{
    s->totals.end_time = end;
    etl_logfile_buffer_update(s->first, &s->totals);
    if (pwrite(s->fd, s->first, s->params.buffer_size, 0) != (ssize_t) s->params.buffer_size)
        err(1, "write of a synthetic file");
    if (close(s->fd) < 0)
        err(1, "close of a synthetic file");
    free(s->first);
    free(s->buffer);
    free(s);
}

/* xorshift64*: the same file in every run. */
static uint32_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t) (*state * 2685821657736338717ULL >> 32);
}

uint64_t synthetic_kernel_file(const char *path, uint64_t bytes, uint32_t buffer_size,
                               uint32_t processors, uint32_t burst)
{
    struct synthetic_params p = {.buffer_size = buffer_size, .processors = processors};
    struct synthetic *s = synthetic_new(path, &p);
    uint8_t **open_buffers = calloc(processors, sizeof(*open_buffers));
    uint32_t *used = calloc(processors, sizeof(*used));
    uint64_t state = 88172645463325252ULL;
    uint64_t now = s->params.start_raw;
    uint64_t events = 2; /* header and extension */
    uint64_t planned = s->size;

    if (!open_buffers || !used)
        err(1, "memory for a synthetic file");
    free(s->buffer);
    for (uint32_t cpu = 0; cpu < processors; cpu++)
        open_buffers[cpu] = allocate(buffer_size);
    while (planned < bytes) {
        uint32_t cpu = draw(&state) % processors;
        uint32_t run = burst > 1 ? 1 + draw(&state) % (2 * burst - 1) : 1;

        for (uint32_t i = 0; i < run; i++) {
            s->buffer = open_buffers[cpu];
            s->used = used[cpu];
            now += 1 + draw(&state) % 200;
            if (s->used == 0) {
                synthetic_begin(s, (uint16_t) cpu, 0);
                planned += buffer_size;
            }
            if (!synthetic_event(s, now, events)) {
                synthetic_flush(s, now, ETL_BUFFER_PROC_INDEX);
                synthetic_begin(s, (uint16_t) cpu, 0);
                planned += buffer_size;
                (void) synthetic_event(s, now, events);
            }
            used[cpu] = s->used;
            events++;
        }
    }
    for (uint32_t cpu = 0; cpu < processors; cpu++) {
        s->buffer = open_buffers[cpu];
        s->used = used[cpu];
        if (used[cpu] > 0)
            synthetic_flush(s, now, ETL_BUFFER_PROC_INDEX);
        free(open_buffers[cpu]);
    }
    s->buffer = NULL;
    free(open_buffers);
    free(used);
    synthetic_finish(s, SYNTHETIC_START + (now - 1000) / 100);
    return events;
}
