/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes .etl files of any shape for tests and benchmarks, also ones that no session would write:
 * buffers in any order, stamps that fall, damage. One thread. Errors end the program with a
 * message.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "etl/build.h"

/* 2024-01-01 00:00:00 UTC as FILETIME: what files start at unless said otherwise. */
#define SYNTHETIC_START 133485408000000000ULL

struct synthetic_params {
    uint32_t buffer_size; /* 0: 4096 */
    uint32_t processors;  /* 0: 1 */
    uint64_t start;       /* FILETIME; 0: SYNTHETIC_START */
    uint64_t start_raw;   /* 0: 1000 */
    uint64_t frequency;   /* 0: 10^9 */
    uint32_t clock_type;  /* 0: QPC */
    uint32_t mode;        /* LogFileMode */
    uint32_t events_lost; /* for the header */
    uint16_t logger_id;
    int plain; /* not a kernel session */
};

struct synthetic;

/* Creates path (an old file is overwritten) and writes the first buffer. p may be NULL. */
struct synthetic *synthetic_new(const char *path, const struct synthetic_params *p);

/* Begins a buffer of a processor; `sequence` 0: the next number. */
void synthetic_begin(struct synthetic *s, uint16_t cpu, int64_t sequence);
/* Where the next `size` bytes of an event go, 8-aligned; NULL: they do not fit. The buffer's fill
 * grows by the padded size. */
void *synthetic_reserve(struct synthetic *s, uint32_t size);
/* A PERFINFO64 event, CSwitch by its hook, with 24 bytes of data that begin with `id`: 40 bytes.
 * False: it does not fit. */
int synthetic_event(struct synthetic *s, uint64_t stamp, uint64_t id);
/* The bytes of the buffer under construction, to damage them; and its fill. */
uint8_t *synthetic_buffer(struct synthetic *s, uint32_t *ret_used);
/* Closes and writes the buffer. Flags of buffers; PROC_INDEX is usual. */
void synthetic_flush(struct synthetic *s, uint64_t stamp, uint16_t flags);
/* Bytes written so far. */
uint64_t synthetic_size(const struct synthetic *s);
/* Any bytes at the end of the file. */
void synthetic_append(struct synthetic *s, const void *data, size_t size);
/* Writes the totals (`end`: FILETIME; 0: never closed) and frees. */
void synthetic_finish(struct synthetic *s, uint64_t end);

/* A kernel-like file of `bytes`: 40-byte events of `processors` CPUs, the CPU of each drawn at
 * random for runs of 1 to 2 * burst - 1 events. Returns the number of events, header ones
 * included. */
uint64_t synthetic_kernel_file(const char *path, uint64_t bytes, uint32_t buffer_size,
                               uint32_t processors, uint32_t burst);
