/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbered events: what the test provider (provider-program.c) writes and tests look for, and the
 * page in which both tell each other how far they are. Everything in an event follows from its
 * source (a thread) and its number, so that a reader can verify each byte. Not a test.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <evntprov.h>

/* {5ad1c0de-7e57-4b0a-9e11-0000000000NN} */
#define NUMBERED_GUID(n)                                                                           \
    {                                                                                              \
        0x5ad1c0de, 0x7e57, 0x4b0a,                                                                \
        {                                                                                          \
            0x9e, 0x11, 0, 0, 0, 0, 0, (UCHAR) (n)                                                 \
        }                                                                                          \
    }
#define NUMBERED_LEVEL 4
#define NUMBERED_KEYWORD 0x10

struct numbered {
    uint32_t source;
    uint32_t size; /* of it all */
    uint64_t number;
    uint8_t fill[];
};
#define NUMBERED_MAX 4096u

static inline uint64_t numbered_mix(uint32_t source, uint64_t number)
{
    uint64_t x = (number + 1) * 0x9e3779b97f4a7c15ull + source * 0xff51afd7ed558ccdull;

    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ull;
    return x ^ x >> 32;
}

/* Bytes of an event: 16 and at least 8, sizes of all remainders, now and then a larger one. */
static inline uint32_t numbered_size(uint32_t source, uint64_t number)
{
    uint64_t x = numbered_mix(source, number);

    return 24 + (uint32_t) (x & 7) + (x % 101 == 0 ? (uint32_t) (x >> 40) % 400 : 0);
}

static inline USHORT numbered_id(uint64_t number)
{
    return (USHORT) (100 + number % 4);
}

static inline uint8_t numbered_fill(uint64_t x, uint32_t i)
{
    return (uint8_t) ((x >> 8 * (i & 7)) + i / 8 * 37);
}

/* buf holds NUMBERED_MAX bytes; the event's size. */
static inline uint32_t numbered_make(void *buf, uint32_t source, uint64_t number)
{
    struct numbered *n = buf;
    uint64_t x = numbered_mix(source, number);

    *n = (struct numbered){
        .source = source, .size = numbered_size(source, number), .number = number};
    memcpy(n->fill, &x, sizeof(x));
    for (uint32_t i = sizeof(x); i < n->size - sizeof(*n); i++)
        n->fill[i] = numbered_fill(x, i);
    return n->size;
}

static inline bool numbered_check(const void *data, uint32_t size, uint32_t *ret_source,
                                  uint64_t *ret_number)
{
    struct numbered n;
    const uint8_t *fill = (const uint8_t *) data + sizeof(n);
    uint64_t x;

    if (size < sizeof(n) + sizeof(x))
        return false;
    memcpy(&n, data, sizeof(n));
    if (n.size != size || numbered_size(n.source, n.number) != size)
        return false;
    x = numbered_mix(n.source, n.number);
    for (uint32_t i = 0; i < size - sizeof(n); i++)
        if (fill[i] != numbered_fill(x, i))
            return false;
    *ret_source = n.source;
    *ret_number = n.number;
    return true;
}

/* ---- the page that a program and its test share ---- */

#define NUMBERED_THREADS_MAX 64

struct numbered_thread {
    _Atomic uint64_t returned;  /* calls that returned SUCCESS */
    _Atomic uint64_t ring_full; /* ERROR_NOT_ENOUGH_MEMORY */
    _Atomic uint64_t other;     /* other codes, the last one in `code` */
    _Atomic uint32_t code;
    _Atomic uint32_t tid;
    uint8_t pad[32];
};

struct numbered_page {
    _Atomic uint32_t go;         /* the test: write now (option go) */
    _Atomic uint32_t stop;       /* the test: no more events */
    _Atomic uint32_t waiting;    /* threads that are enabled, and that wait for `go` if told so */
    _Atomic uint32_t ended;      /* threads that have written all */
    _Atomic uint64_t elapsed_ns; /* of the thread that took longest */
    uint8_t pad[40];
    struct numbered_thread threads[NUMBERED_THREADS_MAX];
};
_Static_assert(sizeof(struct numbered_page) == 64 + 64 * NUMBERED_THREADS_MAX, "lines");
