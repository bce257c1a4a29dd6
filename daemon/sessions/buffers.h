/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of one session: a memfd of room for the maximum, mapped once, taken into use by
 * ranges. It knows nothing of events and files. Loop thread only.
 *
 * A range is faulted in (so that a lack of memory is an error code, not a SIGBUS) and registered
 * with the loop when its first buffer is taken, and given back when all its buffers have been free
 * for ETWD_RANGE_IDLE_S. Buffers come from the lowest range that has one, so that the high ones
 * fall idle.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct buffers;
struct state;

/* A buffer that is out: who took it keeps its books here. */
struct buffer {
    uint8_t *data;
    int fixed; /* index of the registered range, or -1 */
    uint32_t events;
    uint32_t next; /* in its owner's list, or in the list of free ones */
    uint32_t range;
    uint16_t flags; /* enum etl_buffer_flags, given at closing */
    bool out;
    bool pinned;  /* memory sink: a snapshot writes it */
    bool touched; /* since the last buffers_image_write() */
    /* File sink: where it is going, and what became of it. */
    uint64_t offset;
    uint64_t ticket; /* 0: not in the sink */
    int result;
};

#define BUFFER_NONE UINT32_MAX

/* maximum >= minimum >= 1. Nothing is faulted in yet. */
int buffers_new(struct loop *l, uint32_t buffer_bytes, uint32_t minimum, uint32_t maximum,
                struct buffers **ret);
struct buffers *buffers_free(struct buffers *b);

/* 0, -ENOBUFS when all are out, -ENOMEM when no memory could be had. */
int buffers_take(struct buffers *b, uint32_t *ret_index);
void buffers_give(struct buffers *b, uint32_t index);
struct buffer *buffers_get(struct buffers *b, uint32_t index);

/* More buffers at most; never fewer. */
int buffers_set_maximum(struct buffers *b, uint32_t maximum);
uint32_t buffers_maximum(const struct buffers *b);
uint32_t buffers_out(const struct buffers *b);
/* As ETW counts: those made so far (the minimum from the start), and how many are not in use. */
uint32_t buffers_allocated(const struct buffers *b);
uint32_t buffers_unused(const struct buffers *b);
/* Bytes faulted in. */
uint64_t buffers_resident(const struct buffers *b);

/* ---- what a successor gets ---- */

/* The memfd; stays the buffers'. */
int buffers_fd(const struct buffers *b);
/* Events, flags or ticket of a buffer changed; taking and giving count by themselves. */
void buffers_touch(struct buffers *b, uint32_t index);
/* The books as bytes of a block of the state; the size changes with the maximum only. */
size_t buffers_image_size(const struct buffers *b);
/* Brings them up to date: with `all` everything, else what was touched. */
void buffers_image_write(struct buffers *b, struct state *st, void *image, bool all);
/* From those of a predecessor; fd is taken over on success. -EBADMSG: they do not hold together. */
int buffers_new_from(struct loop *l, int fd, uint32_t buffer_bytes, const void *image, size_t size,
                     struct buffers **ret);
