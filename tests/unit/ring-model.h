/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of the ring's protocol (proto/shm/abi.h) and its exhaustive exploration.
 *
 * Writers and the reader are small programs whose steps are single memory accesses, clock readings
 * and barriers. Stores go through a store buffer for each thread (first in, first out: x86's total
 * store order), and leave it at any time. All interleavings of all steps are visited; each state
 * once. What is checked is written at check() and at the steps in ring-model.c.
 *
 * Where the protocol is broken on purpose (enum model_mutation), the checker must say so.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_WRITERS 2
#define MODEL_EVENTS 4
#define MODEL_CAPACITY 2
#define MODEL_STORES 8

enum model_mutation {
    MODEL_SOUND,
    MODEL_CLEAR_FIRST,      /* the writer clears busy before it publishes head */
    MODEL_CLOCK_FIRST,      /* the writer reads the clock before it sets busy */
    MODEL_DATA_LAST,        /* the writer publishes head before the record is whole */
    MODEL_NO_STORE_FENCE,   /* fences: none after busy */
    MODEL_NO_HEAD_FENCE,    /* fences: none after head */
    MODEL_NO_MEMBARRIER,    /* the reader calls no membarrier in a pass */
    MODEL_HEAD_FIRST,       /* the reader looks at head before busy */
    MODEL_STAMP_LAST,       /* the reader looks at the stamp word after head */
    MODEL_TAIL_EARLY,       /* the reader gives space back before it copied */
    MODEL_NO_SLEEP_BARRIER, /* no membarrier between raising the sleep number and the last look */
    MODEL_NO_LAST_LOOK,     /* the reader sleeps without looking once more */
    MODEL_MUTATIONS
};

struct model {
    const char *name;
    unsigned writers, events;
    unsigned stores; /* that a buffer holds, at most MODEL_STORES */
    unsigned passes; /* of the reader, the last one when all is done; without sleep */
    bool fences;     /* the writers fence and the reader does not membarrier */
    bool sleep;      /* low latency: the reader sleeps when there is nothing, writers wake it */
    bool deaths;     /* writers may die at any step */
    bool pass_over;  /* the reader may take any busy writer for stopped */
    enum model_mutation mutation;
};

struct model_result {
    const char *violation; /* NULL: none in any interleaving */
    uint64_t states;
    uint64_t ends;    /* states where nothing can happen any more */
    uint64_t refused; /* states in which a writer met a full ring */
    uint64_t late;    /* states in which a record came late */
    uint64_t busy;    /* states in which the reader met a busy writer */
    uint64_t slept;   /* states in which the reader slept */
    bool incomplete;  /* too many states */
};

void model_explore(const struct model *m, uint64_t max_states, struct model_result *ret);
