/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared memory between etwd and one consumer of a real-time session. Buffers are lent: the
 * consumer reads them where they lie, in a read-only mapping of the session's memfd. Two areas of
 * fixed size go with it, each a memfd that etwd makes (arena.h), both for this consumer alone:
 *
 *  - The stream: etwd writes, the consumer only reads. Which buffers are lent, how far each is
 *    filled, the watermark, what was not lent.
 *  - The returns: the consumer writes, etwd only reads (it seals the memfd with F_SEAL_FUTURE_WRITE
 *    once the consumer has mapped it). Which buffers it is done with, the sleep number.
 *
 * So neither side can forge the other's words, and no consumer sees or hurts what another one does.
 * A contract: SHM_STREAM_VERSION changes with every change of a layout or a rule here.
 *
 *  L1  A loan is a buffer in a slot of the stream. Each has a number, 1 for the first one, going on
 *      by one; loan n stands in slot order[n % SHM_STREAM_SLOTS]. etwd fills the slot and the
 * order, then stores `lent` = n (release). A consumer loads `lent` (acquire) and finds the loans up
 *      to it. A slot is not used again before its loan was returned, so the order of loans that
 *      an honest consumer did not see yet is never written over.
 *  L2  `fill` counts the bytes of the buffer that may be read, with SHM_STREAM_CLOSED when there
 *      will be no more. It only grows, stands at the end of a whole event, and is stored (release)
 *      after those bytes. Bytes below it do not change while the loan lasts. The buffer's header is
 *      valid once it is closed; until then only the events are to be read.
 *  L3  Events from `from` on are this consumer's: one that came when the buffer was open already
 *      gets what is written from then on.
 *  L4  watermark: each event of the session with a stamp below it, late ones apart, lies below the
 *      `fill` of its loan or was counted in `missed`. etwd stores it (release) after all of these;
 *      a consumer loads it (acquire) before `lent` and the fills. It only grows.
 *  L5  The consumer gives a closed buffer back by a store (release) of the loan's number in
 *      returned[slot]: it reads nothing of it afterwards. A number stored before the buffer is
 *      closed counts when it is. Any other number counts for nothing. That is all a consumer can
 *      say: a false one makes it read what is written over, or keeps its own loans out, of which
 *      etwd lends it a limited number.
 *  L6  At the limit a buffer is not lent; it and its events are counted in `missed_buffers` and
 *      `missed_events`, before the watermark passes them, or come later from elsewhere.
 *  L7  Sleep. A consumer that finds nothing to do stores a new sleep number that is not 0, fences
 *      (seq_cst) and looks once more before it waits on its socket. etwd, after it stored what a
 *      pass brought, fences (seq_cst) and loads the number: one it has not answered yet gets one
 *      message. So neither misses the other, and a consumer that is awake costs no system call.
 *  L8  state: ENDED is stored (release) after all else; nothing follows it.
 *  L9  All of it can be mapped again by a later etwd (shm_lender_resume()): what stands in the
 *      areas tells all that is needed. Death between two stores leaves at worst a loan in a slot
 *      that `lent` does not tell of yet: it was not made.
 *
 * etwd's end runs on its loop thread, the consumer's on the thread in ProcessTrace.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_STREAM_VERSION 1u
/* Loans to one consumer at most; a power of two. */
#define SHM_STREAM_SLOTS 1024u
/* Where a buffer's events begin: after its header (etl/layout.h). */
#define SHM_STREAM_FIRST 72u
/* In `fill`: the buffer takes no more events. */
#define SHM_STREAM_CLOSED 0x80000000u

enum shm_stream_state { SHM_STREAM_RUNNING = 1, SHM_STREAM_ENDED = 2 };

struct shm_stream_slot {
    uint64_t offset;   /* of the buffer, in the memfd of the buffers */
    uint64_t sequence; /* the buffer's */
    uint64_t number;   /* of the loan; 0: not lent */
    uint32_t from;     /* L3 */
    uint16_t cpu;
    uint16_t late; /* 1: of late records */
    _Atomic uint32_t fill;
    uint32_t buffer; /* etwd's index of it */
    uint8_t reserved[24];
};
_Static_assert(sizeof(struct shm_stream_slot) == 64, "one cache line");
_Static_assert(offsetof(struct shm_stream_slot, number) == 16, "ABI");
_Static_assert(offsetof(struct shm_stream_slot, from) == 24, "ABI");
_Static_assert(offsetof(struct shm_stream_slot, fill) == 32, "ABI");

struct shm_stream {
    uint32_t version;
    uint32_t buffer_bytes;
    uint8_t reserved[56];
    /* Changed by every pass. */
    _Alignas(64) _Atomic uint64_t watermark;
    _Atomic uint64_t lent;
    _Atomic uint64_t missed_buffers;
    _Atomic uint64_t missed_events;
    _Atomic uint32_t state; /* enum shm_stream_state */
    uint8_t reserved2[28];
    _Alignas(64) _Atomic uint16_t order[SHM_STREAM_SLOTS];
    struct shm_stream_slot slots[SHM_STREAM_SLOTS];
};
_Static_assert(offsetof(struct shm_stream, watermark) == 64, "ABI");
_Static_assert(offsetof(struct shm_stream, order) == 128, "ABI");
_Static_assert(offsetof(struct shm_stream, slots) == 128 + 2 * SHM_STREAM_SLOTS, "ABI");
_Static_assert((SHM_STREAM_SLOTS & (SHM_STREAM_SLOTS - 1)) == 0, "L1 takes it modulo");

struct shm_returns {
    _Atomic uint32_t sleep; /* L7 */
    uint8_t reserved[60];
    _Alignas(64) _Atomic uint64_t returned[SHM_STREAM_SLOTS];
};
_Static_assert(offsetof(struct shm_returns, returned) == 64, "ABI");

/* Whole pages. */
#define SHM_STREAM_SIZE ((sizeof(struct shm_stream) + 65535u) & ~(size_t) 65535u)
#define SHM_RETURNS_SIZE ((sizeof(struct shm_returns) + 65535u) & ~(size_t) 65535u)

/* A loan, as both ends speak of it. */
struct shm_loan {
    uint64_t number;
    uint64_t offset;
    uint64_t sequence;
    uint32_t slot;
    uint32_t buffer;
    uint32_t from;
    uint32_t fill; /* bytes, without the mark */
    uint16_t cpu;
    bool late;
    bool closed;
};

/* ---- etwd ---- */

struct shm_lender {
    struct shm_stream *stream;
    const struct shm_returns *returns; /* hostile */
    uint32_t limit;                    /* 1 .. SHM_STREAM_SLOTS */
    uint32_t lent;                     /* now */
    uint32_t answered;                 /* the sleep number that got its message */
    uint64_t number;                   /* of the last loan */
    uint32_t n_free;
    uint16_t free[SHM_STREAM_SLOTS];       /* slots: n_free of them */
    uint16_t lent_slots[SHM_STREAM_SLOTS]; /* `lent` of them */
};

/* Over a new area, all zeros. -EINVAL: such a limit or buffer size cannot be. */
int shm_lender_init(struct shm_lender *l, struct shm_stream *stream,
                    const struct shm_returns *returns, uint32_t buffer_bytes, uint32_t limit);
/* Over an area that an earlier etwd wrote; loans of more than `limit` stay until they come back.
 * -EBADMSG: it does not hold together. */
int shm_lender_resume(struct shm_lender *l, struct shm_stream *stream,
                      const struct shm_returns *returns, uint32_t buffer_bytes, uint32_t limit);
/* Lends what stands in loan (number and slot are filled in). -ENOBUFS: the limit is reached, see
 * L6; -EINVAL: fill or from cannot be. */
int shm_lender_lend(struct shm_lender *l, struct shm_loan *loan);
/* The buffer of a lent slot has so many bytes now, and no more when closed. */
void shm_lender_fill(struct shm_lender *l, uint32_t slot, uint32_t fill, bool closed);
/* A buffer that was not lent and the events in it. */
void shm_lender_missed(struct shm_lender *l, uint64_t events);
void shm_lender_watermark(struct shm_lender *l, uint64_t stamp);
void shm_lender_end(struct shm_lender *l);
/* After a pass: the consumer sleeps and is to get one message. */
bool shm_lender_must_wake(struct shm_lender *l);
/* Takes back what was returned: the buffers' indices, at most cap; returns how many. */
uint32_t shm_lender_collect(struct shm_lender *l, uint32_t *ret_buffers, uint32_t cap);
/* The consumer is gone: takes back all, returned or not, open or closed. */
uint32_t shm_lender_reclaim(struct shm_lender *l, uint32_t *ret_buffers, uint32_t cap);

/* ---- consumer ---- */

struct shm_borrower {
    const struct shm_stream *stream;
    struct shm_returns *returns;
    uint32_t buffer_bytes;
    uint32_t sleep;
    uint64_t number; /* of the last loan that was seen */
};

/* -EPROTO: another version, or an area that cannot be. */
int shm_borrower_init(struct shm_borrower *b, const struct shm_stream *stream,
                      struct shm_returns *returns);
/* To be called before shm_borrower_next() and shm_borrower_look(), for L4. */
uint64_t shm_borrower_watermark(const struct shm_borrower *b);
/* 1 and the next new loan, 0: there is none, -EPROTO: the stream breaks its rules. The caller
 * checks offset against what it has mapped. */
int shm_borrower_next(struct shm_borrower *b, struct shm_loan *ret);
/* Brings fill and closed of a loan up to date. -EPROTO as above. */
int shm_borrower_look(const struct shm_borrower *b, struct shm_loan *loan);
/* Done with it; the bytes are not read again. */
void shm_borrower_return(struct shm_borrower *b, const struct shm_loan *loan);
/* Tells that the caller will sleep; it looks once more before it does. */
void shm_borrower_sleep(struct shm_borrower *b);
bool shm_borrower_ended(const struct shm_borrower *b);
