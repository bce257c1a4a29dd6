/* SPDX-License-Identifier: Apache-2.0
 *
 * A session from inside: what daemon/sessions and its tests share. Loop thread only.
 *
 * Streams: one open buffer for each CPU (one in all with NO_PER_PROCESSOR_BUFFERING), and up to
 * ETWD_LATE_BUFFERS late ones. In each, stamps never fall; a CPU's buffers taken by sequence number
 * do not overlap in time. A record that would break this (it came late) goes to a late buffer of
 * its CPU whose last stamp is not above it. A buffer gets its sequence number when it is opened.
 */
#pragma once

#include "session.h"

#include "base/clock.h"
#include "buffers.h"
#include "etl/build.h"

struct file_sink;
struct memory_sink;
struct loop;
struct session_keeper;
struct state;

struct stream {
    uint8_t *data;
    uint32_t end;    /* where the next event goes; buffer_bytes while no buffer is open */
    uint32_t events; /* in the open buffer */
    uint64_t last;   /* stamp of the last event */
    uint32_t buffer; /* BUFFER_NONE: none is open */
    uint16_t cpu;
};

enum session_state { SESSION_STARTING, SESSION_RUNNING, SESSION_STOPPING };

struct session {
    /* The hot half. */
    struct session_head head;
    uint32_t buffer_bytes;
    uint32_t n_streams;
    bool single; /* one stream for all CPUs */
    bool sealed; /* takes no more events */
    bool dirty;  /* a successor's image of it is behind, or nobody keeps one */
    struct stream *streams;
    struct session_counters counters;

    /* Where it is handed on from, keep.c's; NULL: nowhere. */
    struct state *kept;
    struct session_keeper *keeper;
    struct session *next_dirty;
    struct session *next_released; /* a commit let its sink go on */
    bool released;
    void *image, *buffers_image, *sink_image;
    uint32_t *slots_image;

    struct loop *loop;
    struct buffers *buffers;
    struct file_sink *sink;     /* NULL: it has no file */
    struct memory_sink *memory; /* in place of it, in buffering mode */
    struct uid_worker *workers; /* of its owner */
    struct stream late[ETWD_LATE_BUFFERS];
    int64_t next_sequence;
    uint64_t data_buffers_max; /* that the file has room for; UINT64_MAX: no limit */
    uint16_t pending_flags;    /* EVENTS_LOST, BUFFER_LOST: for the next buffer that is closed */
    struct loop_timer *flush_timer;
    uint64_t flush_interval_ns; /* 0: only full buffers */
    bool flush_armed;
    /* Takes what waits in rings for it, before it is flushed by its timer; NULL: there are none. */
    void (*gather)(struct session *s);
    /* Brings losses that others count up to date; NULL: there are none. */
    void (*refresh)(struct session *s);
    /* The file has its maximum size: called from a timer, never from inside a pass. */
    void (*full)(struct session *s);
    struct loop_timer *full_timer;

    struct session_properties properties;
    char *folded_name; /* for comparison */
    uint32_t inert_flags;
    uint32_t masks[8];
    uint16_t id;
    uint64_t generation;
    enum session_state state;
    bool trusted; /* its owner was root or in group etw at the start */
    bool kernel;
    bool kernel_tracing; /* in kernel_logger's hands */
    bool bound;
    uint64_t connection; /* that it is bound to */
    uint32_t owner_uid;
    uint32_t owner_pid;
    struct etw_clock_line line; /* of its stamps; start_raw: the log-file header's */
    uint64_t start_filetime;    /* the same moment */
    uint64_t file_dev, file_ino;
    bool has_file;
    /* The table's. */
    struct sessions *table;
    struct session *next;
    bool updating;    /* a change of the kernel's masks is under way: a stop waits for it */
    bool stop_wanted; /* as soon as it runs */
    struct stop_op *stop;
};

/* Takes over the strings of p; p is left empty. cpus: possible CPUs. No buffers yet. */
int session_new(struct loop *l, struct session_properties *p, unsigned cpus, struct session **ret);
/* Before it has buffers: theirs are of this size instead. */
void session_set_buffer_size(struct session *s, uint32_t bytes);
/* Everything it holds; the sink must be idle. */
struct session *session_free(struct session *s);

/* Closes the open buffers that hold events and gives them to the sink, in the order of their last
 * stamps. final: the session takes no more events, and the last buffer gets the flush marker. */
void session_flush(struct session *s, bool final);
/* A buffer came back: its events are in the file, or (lost) counted as lost to the disk. */
void session_buffer_done(struct session *s, uint32_t index, bool lost);
/* Sum of all causes, as the header and the API have it. */
uint32_t session_events_lost(const struct session *s);
/* Open buffers that a predecessor left are flushed in time. */
void session_resume(struct session *s);
/* Takes the flush timer's value from the properties. */
void session_set_flush_timer(struct session *s);

/* Something of it changes that a successor has to know; in a transaction of s->kept, or one comes
 * of itself soon. */
void session_dirtied(struct session *s);
static inline void session_touch(struct session *s)
{
    if (!s->dirty)
        session_dirtied(s);
}
