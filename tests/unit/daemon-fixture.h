/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop, a worker, a session with a file sink, and the file read back: for unit tests of
 * daemon/sessions and daemon/router, without a daemon. Each test takes its own.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "etl/build.h"
#include "etl/file.h"
#include "etl/iterate.h"
#include "io/loop.h"
#include "io/worker.h"
#include "lib/test.h"
#include "sessions/file_sink.h"
#include "sessions/internal.h"

struct fixture {
    struct loop *loop;
    struct worker *worker;
    struct session *session;
    char *path;
    int result; /* of the last call that was waited for */
};

struct fixture_params {
    uint32_t buffer_kb;
    uint32_t minimum, maximum;
    unsigned cpus;
    uint32_t mode;
    uint64_t file_bytes; /* of a circular file */
    bool epoll;
    const char *path; /* NULL: a file in the test's folder */
};

static inline void fixture_wake(int result, void *userdata)
{
    struct fixture *f = userdata;
    f->result = result;
    loop_exit(f->loop, 0);
}

static inline void fixture_session(struct fixture *f, const struct fixture_params *p)
{
    struct session_properties props = {
        .buffer_size_kb = p->buffer_kb ? p->buffer_kb : 4,
        .minimum_buffers = p->minimum ? p->minimum : 4,
        .maximum_buffers = p->maximum ? p->maximum : 64,
        .log_file_mode = p->mode,
    };
    memset(f, 0, sizeof(*f));
    f->path = p->path ? strdup(p->path) : test_path("session.etl");
    props.name = strdup("unit");
    props.log_file = strdup(f->path);
    ck_assert_int_eq(loop_new_backend(p->epoll ? LOOP_EPOLL : LOOP_URING, &f->loop), 0);
    ck_assert_int_eq(worker_new(f->loop, "worker", &f->worker), 0);
    ck_assert_int_eq(session_new(f->loop, &props, p->cpus ? p->cpus : 2, &f->session), 0);
    f->session->start_filetime = etw_filetime_now();
    f->session->line.start_boottime = etw_clock_boottime();
    ck_assert_int_eq(buffers_new(f->loop, f->session->buffer_bytes,
                                 f->session->properties.minimum_buffers,
                                 f->session->properties.maximum_buffers, &f->session->buffers),
                     0);
    int fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(
        file_sink_new(f->loop, f->worker, f->worker, f->session, fd, &f->session->sink), 0);
    ck_assert_int_eq(file_sink_shape(f->session->sink, p->file_bytes), 0);
}

/* The first buffer into the file; from then on buffers are written. */
static inline void fixture_open(struct fixture *f)
{
    static const uint16_t name[] = {'u', 0};
    struct etl_logfile_params lf = {
        .buffer_size = f->session->buffer_bytes,
        .processors = f->session->n_streams,
        .start_time = f->session->start_filetime,
        .start_raw = 1,
        .frequency = ETW_NSEC_PER_SEC,
        .clock_type = ETW_CLOCK_QPC,
        .logger_name = name,
        .log_file_name = name,
    };
    ck_assert_int_eq(file_sink_open(f->session->sink, &lf, false, fixture_wake, f), 0);
    ck_assert_int_eq(loop_run(f->loop), 0);
}

static inline void fixture_sync(struct fixture *f)
{
    ck_assert_int_eq(file_sink_sync(f->session->sink, fixture_wake, f), 0);
    ck_assert_int_eq(loop_run(f->loop), 0);
}

/* Final flush, final header, file closed. */
static inline void fixture_close(struct fixture *f)
{
    session_flush(f->session, true);
    ck_assert_int_eq(file_sink_close(f->session->sink, fixture_wake, f), 0);
    ck_assert_int_eq(loop_run(f->loop), 0);
}

static inline void fixture_free(struct fixture *f)
{
    f->session = session_free(f->session);
    f->worker = worker_free(f->worker);
    f->loop = loop_free(f->loop);
    free(f->path);
}

/* One event of `size` bytes (>= 40) whose thread id is `mark`. Whether it was taken. */
static inline bool fixture_event(struct fixture *f, uint16_t cpu, uint64_t stamp, uint32_t size,
                                 uint32_t mark)
{
    uint8_t *p = session_reserve(f->session, cpu, stamp, size);
    if (!p)
        return false;
    memset(p, 0xAB, size);
    uint32_t header = etl_header_size(ETL_ROW_Thread_ReadyThread);
    ck_assert_uint_eq(etl_header_put(p, ETL_ROW_Thread_ReadyThread, size - header, mark, 4, stamp),
                      header);
    return true;
}

static inline void fixture_identity(const struct fixture *f)
{
    struct session_counters k;
    uint64_t sum = 0;
    session_counters(f->session, &k);
    for (int i = 0; i < LOSS_CAUSES; i++)
        sum += k.lost[i];
    ck_assert_uint_eq(k.written, k.recorded + sum);
}

/* The file as a reader finds it: each data buffer's header, each event. Stamps never fall inside a
 * buffer, there is no gap, sequence numbers are those of no other buffer. */
struct fixture_file {
    struct etl_logfile header;
    size_t buffers; /* the first one included */
    size_t events;  /* of data buffers */
    uint32_t marks[4096];
    uint64_t stamps[4096];
    uint16_t cpus[4096];
    uint16_t buffer_flags[256];
    int64_t sequences[256];
    uint16_t buffer_cpus[256];
    size_t buffer_events[256];
};

static inline void fixture_read(const char *path, struct fixture_file *ret)
{
    memset(ret, 0, sizeof(*ret));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    struct etl_file *file;
    ck_assert_int_eq(etl_file_open_fd(fd, &file), 0);
    ret->header = *etl_file_header(file);
    const struct etl_buffer_ref *refs;
    bool truncated;
    ck_assert_int_eq(etl_file_index(file, &refs, &ret->buffers, &truncated), 0);
    ck_assert(!truncated);
    ck_assert_uint_eq(etl_file_size(file), ret->buffers * ret->header.buffer_size);
    uint8_t *buf = malloc(etl_file_buffer_bytes(file));
    for (size_t i = 1; i < ret->buffers; i++) {
        struct etl_buffer_info info;
        struct etl_iter it;
        struct etl_event e;
        size_t len;
        uint64_t last = 0;
        ck_assert_int_eq(
            etl_file_read_buffer(file, &refs[i], buf, etl_file_buffer_bytes(file), &info, &len), 0);
        ck_assert_uint_lt(i, ARRAY_SIZE(ret->sequences));
        ret->sequences[i] = info.sequence_number;
        ret->buffer_flags[i] = info.flags;
        ret->buffer_cpus[i] = info.processor;
        /* (A place that could not be written has none.) */
        for (size_t k = 1; k < i && info.end > ETL_BUFFER_HEADER_SIZE; k++)
            ck_assert_int_ne(ret->sequences[k], info.sequence_number);
        etl_iter_init(&it, buf, len, info.end);
        while (etl_iter_next(&it, &e) == 1) {
            ck_assert_uint_ge(e.time_stamp, last);
            last = e.time_stamp;
            ck_assert_uint_lt(ret->events, ARRAY_SIZE(ret->marks));
            ret->marks[ret->events] = e.thread_id;
            ret->stamps[ret->events] = e.time_stamp;
            ret->cpus[ret->events++] = info.processor;
            ret->buffer_events[i]++;
        }
        ck_assert_int_eq(it.error, 0);
    }
    free(buf);
    etl_file_free(file);
    (void) close(fd);
}
