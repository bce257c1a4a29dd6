/* SPDX-License-Identifier: Apache-2.0
 *
 * A provider process made by hand: it speaks the wire messages and the shared memory's rules
 * directly, so that tests can break each of them. Nothing here fails a test: what etwd answers, and
 * that it closed the connection, is handed back. One process has one; single-threaded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/guid.h"
#include "etl/layout.h"
#include "shm/ring.h"
#include "wire/frame.h"

struct raw_offer {
    bool there;
    bool control;
    uint32_t arena, ring_size;
    int arena_fd, control_fd; /* -1: none came */
};

struct raw_provider {
    int sock; /* -1: not connected, or etwd closed it */
    uint64_t id;
    struct raw_offer offer; /* the last one; its descriptors are ours */
    uint32_t arena_number, ring_size;
    struct shm_arena *arena; /* NULL: none mapped */
    const void *control;
    struct shm_writer writer; /* of raw_claim() */
    unsigned patience_ms;     /* of raw_push() */
    bool mute;                /* leaves EnableChange unanswered */
    unsigned changes;         /* of them that came */
    uint64_t cookie;          /* of the last */
};

/* One record as an honest writer makes it, to be spoilt. */
struct raw_record {
    struct etl_record prefix;
    struct etl_event_header event;
    uint64_t number;
    uint8_t data[40]; /* room for items */
};
_Static_assert(sizeof(struct raw_record) % SHM_RECORD_ALIGN == 0, "whole");

/* Pseudo-random numbers, the same in each run. */
uint64_t raw_random(uint64_t *state);
void raw_random_bytes(uint64_t *state, void *p, size_t size);

/* Connects to ETWD_SOCKET and says Hello. 0, -errno. */
int raw_connect(struct raw_provider *p);
/* Closes and unmaps everything. */
void raw_done(struct raw_provider *p);

/* Sends a request; does not wait. id 0 is for what has no answer. 0, -errno. */
int raw_send(struct raw_provider *p, Etwd__Message *m, const int *fds, size_t n_fds, bool answered);
/* Takes what comes until the answer to the last request: arena offers are kept, changes answered.
 * 0 and its status (m: the reply, to be freed, or NULL to drop it); -ECONNRESET; -ETIMEDOUT. */
int raw_answer(struct raw_provider *p, uint32_t *ret_status, Etwd__Message **ret);
/* Both. */
int raw_call(struct raw_provider *p, Etwd__Message *m, const int *fds, size_t n_fds,
             uint32_t *ret_status);
/* Takes notifications until an arena is offered. 0, -errno. */
int raw_wait_offer(struct raw_provider *p);
/* Takes what lies there, without waiting. */
void raw_pump(struct raw_provider *p);

int raw_attach(struct raw_provider *p, uint32_t version, bool fences, uint32_t *ret_status);
int raw_register(struct raw_provider *p, uint32_t index, const void *guid, size_t guid_size,
                 const void *traits, size_t size, uint32_t *ret_status);
int raw_unregister(struct raw_provider *p, uint32_t index, uint32_t *ret_status);
int raw_traits(struct raw_provider *p, uint32_t index, const void *traits, size_t size,
               uint32_t *ret_status);
int raw_more_rings(struct raw_provider *p, uint32_t *ret_status);
int raw_wake(struct raw_provider *p);
int raw_callback_done(struct raw_provider *p, uint64_t cookie);

/* Maps what was offered. 0, -errno. */
int raw_map(struct raw_provider *p);
int raw_mapped(struct raw_provider *p, uint32_t arena, uint32_t status, uint32_t *ret_status);
/* The first ring that can be had. */
int raw_claim(struct raw_provider *p);

/* From nothing to a claimed ring, with registration 0 of an enabled provider. 0, -errno (status: in
 * the positive). */
int raw_open(struct raw_provider *p, const struct etw_guid *guid);

/* An honest record of registration 0 into *ret; false: no session wants it. Between begin and
 * publish or abandon: raw_begin() is part of it. */
bool raw_record(struct raw_provider *p, const struct etw_guid *guid, uint64_t number,
                struct raw_record *ret);
/* Puts size bytes as a record into the ring and publishes; waits for room
 * (-EAGAIN: none came in patience_ms). */
int raw_push(struct raw_provider *p, const void *record, uint32_t size);
/* Honest records number, number + 1 ...; how many. */
unsigned raw_write(struct raw_provider *p, const struct etw_guid *guid, uint64_t number,
                   unsigned count);
