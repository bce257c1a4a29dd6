/* SPDX-License-Identifier: Apache-2.0
 *
 * A file sink from inside: file_sink.c has the buffers' way, file_sink_header.c the first buffer,
 * those who wait for it, and the end; file_sink_open.c how a file is begun, also one that takes the
 * place of another. Loop thread, but for what runs on a worker.
 */
#pragma once

#include "file_sink.h"

#include <stdbool.h>
#include <stdint.h>

#include "etl/append.h"
#include "internal.h"
#include "io/loop.h"
#include "slots.h"

struct behind;
struct worker;

/* What is rewritten of the first buffer, and kept of it: the totals lie within its first 400 bytes;
 * 4096 suits any disk's sector. Buffers have at least that. */
#define HEADER_WRITE FILE_SINK_HEADER
#define RESULT_PENDING 1
_Static_assert(HEADER_WRITE == ETL_APPEND_HEADER, "what is kept of a file that is added to");

struct waiter {
    uint64_t ticket; /* all up to this one are settled */
    file_sink_fn fn;
    void *userdata;
    struct waiter *next;
};

struct list {
    uint32_t first, last;
    uint32_t n;
};

struct file_sink {
    struct loop *loop;
    struct worker *worker;
    struct worker *syncer;
    struct worker *writer; /* NULL: the loop */
    struct session *session;
    int fd;
    uint32_t buffer_bytes;
    bool open;
    bool closing;
    bool on_worker; /* a job is under way */
    bool turning;   /* it is the one that begins another file */
    struct list queue;
    struct list flight;
    uint32_t finished; /* of those in flight */
    uint32_t failed;
    int trouble; /* of the last write */
    uint64_t lost_in_trouble;
    bool trouble_told;
    uint64_t tell_after;
    uint64_t committed; /* in all; what a circular file overwrites counts, too */
    struct slots slots;
    uint64_t reserved;     /* bytes that the file has on the disk from the start; 0: as it grows */
    struct behind *behind; /* NULL: the kernel alone says when pages go */
    uint64_t next_ticket;
    struct waiter *waiters;
    /* The first buffer. */
    uint8_t *header;
    struct etl_logfile_totals before; /* of sessions that wrote to the file before */
    uint64_t header_settled;          /* what the header under way, or the last, tells of */
    bool header_busy;
    bool header_dirty;
    bool header_final;
    struct loop_timer *header_timer;
    bool header_timer_armed;
    file_sink_fn fn; /* of open or close */
    void *userdata;
    /* Another file is to take the place of this one. */
    struct {
        int fd;          /* -1: none is */
        uint64_t ticket; /* the last one of this file */
        uint8_t *header;
        uint64_t old_end;
        file_sink_fn fn;
        void *userdata;
    } turn;
    uint64_t cache, interval_ns; /* of behind */
    /* For the job. */
    int job_result;
    bool job_direct;
    uint64_t job_end; /* of what is in the file and stays; 0: nothing */
    struct {
        uint64_t end; /* of the file */
        uint64_t blank[ETWD_SINK_DEPTH];
        uint32_t n_blank;
    } cut;
};

/* ---- file_sink.c ---- */

/* Starts what may be started. */
void sink_pump(struct file_sink *f);
int sink_write(struct file_sink *f, const void *data, size_t len, uint64_t offset, int index,
               loop_write_fn fn, void *userdata);
/* What of the file is there. */
uint64_t sink_file_end(const struct file_sink *f);
/* All tickets up to this one are in the file or lost: queue and flight are in their order. */
uint64_t sink_settled(struct file_sink *f);
/* Its pages are watched from now on; see behind.h. */
int sink_behind_begin(struct file_sink *f);

/* ---- file_sink_header.c ---- */

void sink_header_write(struct file_sink *f);
void sink_header_soon(struct file_sink *f);
/* A loop_timer_fn. */
void sink_header_fired(void *userdata);
/* Now, for who writes it himself: the totals in f->header, for those that wait. */
void sink_header_prepare(struct file_sink *f, bool final);
/* Whether a waiter has all it waits for but the header. */
bool sink_waiter_ready(struct file_sink *f);

/* ---- file_sink_open.c ---- */

/* Asks the disk for what a preallocated file will need. On a worker. */
int sink_reserve(const struct file_sink *f);
/* Another file is to take the place, and all of this one is written. */
void sink_turn_begin(struct file_sink *f);
