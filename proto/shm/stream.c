/* SPDX-License-Identifier: Apache-2.0
 *
 * Both ends of a stream; see stream.h. etwd's end reads one kind of word that others write, and
 * compares it with what it knows. The consumer's end trusts etwd, but not that its memory is
 * sound: it checks what it would index by.
 */
#include "stream.h"

#include <errno.h>
#include <string.h>

static bool fill_valid(uint32_t from, uint32_t fill, uint32_t buffer_bytes)
{
    return from >= SHM_STREAM_FIRST && from <= fill && fill <= buffer_bytes;
}

static int books_init(struct shm_lender *l, struct shm_stream *stream,
                      const struct shm_returns *returns, uint32_t buffer_bytes, uint32_t limit)
{
    if (limit == 0 || limit > SHM_STREAM_SLOTS || buffer_bytes <= SHM_STREAM_FIRST ||
        buffer_bytes >= SHM_STREAM_CLOSED)
        return -EINVAL;
    memset(l, 0, sizeof(*l));
    l->stream = stream;
    l->returns = returns;
    l->limit = limit;
    return 0;
}

int shm_lender_init(struct shm_lender *l, struct shm_stream *stream,
                    const struct shm_returns *returns, uint32_t buffer_bytes, uint32_t limit)
{
    int r;

    r = books_init(l, stream, returns, buffer_bytes, limit);
    if (r < 0)
        return r;
    /* The lowest slots first: less memory is touched. */
    for (uint32_t i = 0; i < SHM_STREAM_SLOTS; i++)
        l->free[i] = (uint16_t) (SHM_STREAM_SLOTS - 1 - i);
    l->n_free = SHM_STREAM_SLOTS;
    stream->version = SHM_STREAM_VERSION;
    stream->buffer_bytes = buffer_bytes;
    atomic_store_explicit(&stream->state, SHM_STREAM_RUNNING, memory_order_release);
    return 0;
}

int shm_lender_resume(struct shm_lender *l, struct shm_stream *stream,
                      const struct shm_returns *returns, uint32_t buffer_bytes, uint32_t limit)
{
    uint64_t number = atomic_load_explicit(&stream->lent, memory_order_acquire);
    uint32_t state = atomic_load_explicit(&stream->state, memory_order_relaxed);
    int r;

    r = books_init(l, stream, returns, buffer_bytes, limit);
    if (r < 0)
        return r;
    if (stream->version != SHM_STREAM_VERSION || stream->buffer_bytes != buffer_bytes ||
        (state != SHM_STREAM_RUNNING && state != SHM_STREAM_ENDED))
        return -EBADMSG;
    l->number = number;
    for (uint32_t i = SHM_STREAM_SLOTS; i-- > 0;) {
        struct shm_stream_slot *slot = &stream->slots[i];
        uint32_t fill = atomic_load_explicit(&slot->fill, memory_order_relaxed);

        if (slot->number > number)
            slot->number = 0; /* L9: it was not made */
        if (slot->number == 0) {
            l->free[l->n_free++] = (uint16_t) i;
            continue;
        }
        if (!fill_valid(slot->from, fill & ~SHM_STREAM_CLOSED, buffer_bytes))
            return -EBADMSG;
        l->lent_slots[l->lent++] = (uint16_t) i;
    }
    return 0;
}

int shm_lender_lend(struct shm_lender *l, struct shm_loan *loan)
{
    struct shm_stream *s = l->stream;
    struct shm_stream_slot *slot;
    uint32_t i;

    if (!fill_valid(loan->from, loan->fill, s->buffer_bytes))
        return -EINVAL;
    if (l->lent >= l->limit)
        return -ENOBUFS;
    i = l->free[--l->n_free];
    l->lent_slots[l->lent++] = (uint16_t) i;
    slot = &s->slots[i];
    slot->offset = loan->offset;
    slot->sequence = loan->sequence;
    slot->from = loan->from;
    slot->cpu = loan->cpu;
    slot->late = loan->late;
    slot->buffer = loan->buffer;
    atomic_store_explicit(&slot->fill, loan->fill | (loan->closed ? SHM_STREAM_CLOSED : 0),
                          memory_order_release);
    slot->number = ++l->number;
    atomic_store_explicit(&s->order[l->number % SHM_STREAM_SLOTS], (uint16_t) i,
                          memory_order_relaxed);
    atomic_store_explicit(&s->lent, l->number, memory_order_release);
    loan->slot = i;
    loan->number = l->number;
    return 0;
}

void shm_lender_fill(struct shm_lender *l, uint32_t slot, uint32_t fill, bool closed)
{
    atomic_store_explicit(&l->stream->slots[slot].fill, fill | (closed ? SHM_STREAM_CLOSED : 0),
                          memory_order_release);
}

static void add(_Atomic uint64_t *word, uint64_t n)
{
    /* One writer. */
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + n,
                          memory_order_release);
}

void shm_lender_missed(struct shm_lender *l, uint64_t events)
{
    add(&l->stream->missed_events, events);
    add(&l->stream->missed_buffers, 1);
}

void shm_lender_watermark(struct shm_lender *l, uint64_t stamp)
{
    if (stamp > atomic_load_explicit(&l->stream->watermark, memory_order_relaxed))
        atomic_store_explicit(&l->stream->watermark, stamp, memory_order_release);
}

void shm_lender_end(struct shm_lender *l)
{
    atomic_store_explicit(&l->stream->state, SHM_STREAM_ENDED, memory_order_release);
}

bool shm_lender_must_wake(struct shm_lender *l)
{
    uint32_t sleep;

    atomic_thread_fence(memory_order_seq_cst);
    sleep = atomic_load_explicit(&l->returns->sleep, memory_order_relaxed);
    if (sleep == 0 || sleep == l->answered)
        return false;
    l->answered = sleep;
    return true;
}

static uint32_t take_back(struct shm_lender *l, uint32_t *ret_buffers, uint32_t cap, bool all)
{
    uint32_t n = 0;

    for (uint32_t i = l->lent; i-- > 0 && n < cap;) {
        uint16_t at = l->lent_slots[i];
        struct shm_stream_slot *slot = &l->stream->slots[at];

        if (!all &&
            (atomic_load_explicit(&l->returns->returned[at], memory_order_acquire) !=
                 slot->number ||
             !(atomic_load_explicit(&slot->fill, memory_order_relaxed) & SHM_STREAM_CLOSED)))
            continue;
        ret_buffers[n++] = slot->buffer;
        slot->number = 0;
        l->lent_slots[i] = l->lent_slots[--l->lent];
        l->free[l->n_free++] = at;
    }
    return n;
}

uint32_t shm_lender_collect(struct shm_lender *l, uint32_t *ret_buffers, uint32_t cap)
{
    return take_back(l, ret_buffers, cap, false);
}

uint32_t shm_lender_reclaim(struct shm_lender *l, uint32_t *ret_buffers, uint32_t cap)
{
    return take_back(l, ret_buffers, cap, true);
}

int shm_borrower_init(struct shm_borrower *b, const struct shm_stream *stream,
                      struct shm_returns *returns)
{
    uint32_t state = atomic_load_explicit(&stream->state, memory_order_acquire);

    if (stream->version != SHM_STREAM_VERSION || stream->buffer_bytes <= SHM_STREAM_FIRST ||
        stream->buffer_bytes >= SHM_STREAM_CLOSED ||
        (state != SHM_STREAM_RUNNING && state != SHM_STREAM_ENDED))
        return -EPROTO;
    *b = (struct shm_borrower){
        .stream = stream,
        .returns = returns,
        .buffer_bytes = stream->buffer_bytes,
        .sleep = atomic_load_explicit(&returns->sleep, memory_order_relaxed),
    };
    return 0;
}

uint64_t shm_borrower_watermark(const struct shm_borrower *b)
{
    return atomic_load_explicit(&b->stream->watermark, memory_order_acquire);
}

static int fill_read(const struct shm_borrower *b, struct shm_loan *loan)
{
    uint32_t word = atomic_load_explicit(&b->stream->slots[loan->slot].fill, memory_order_acquire);
    uint32_t fill = word & ~SHM_STREAM_CLOSED;

    if (!fill_valid(loan->from, fill, b->buffer_bytes) || fill < loan->fill ||
        (loan->closed && (fill != loan->fill || !(word & SHM_STREAM_CLOSED))))
        return -EPROTO;
    loan->fill = fill;
    loan->closed = word & SHM_STREAM_CLOSED;
    return 0;
}

int shm_borrower_next(struct shm_borrower *b, struct shm_loan *ret)
{
    uint64_t lent = atomic_load_explicit(&b->stream->lent, memory_order_acquire);
    const struct shm_stream_slot *slot;
    struct shm_loan loan;
    uint32_t at;
    int r;

    if (lent == b->number)
        return 0;
    if (lent < b->number || lent - b->number > SHM_STREAM_SLOTS)
        return -EPROTO;
    at = atomic_load_explicit(&b->stream->order[(b->number + 1) % SHM_STREAM_SLOTS],
                              memory_order_relaxed);
    if (at >= SHM_STREAM_SLOTS)
        return -EPROTO;
    slot = &b->stream->slots[at];
    loan = (struct shm_loan){
        .number = b->number + 1,
        .offset = slot->offset,
        .sequence = slot->sequence,
        .slot = at,
        .buffer = slot->buffer,
        .from = slot->from,
        .cpu = slot->cpu,
        .late = slot->late,
    };
    if (slot->number != loan.number)
        return -EPROTO;
    r = fill_read(b, &loan);
    if (r < 0)
        return r;
    b->number++;
    *ret = loan;
    return 1;
}

int shm_borrower_look(const struct shm_borrower *b, struct shm_loan *loan)
{
    return fill_read(b, loan);
}

void shm_borrower_return(struct shm_borrower *b, const struct shm_loan *loan)
{
    atomic_store_explicit(&b->returns->returned[loan->slot], loan->number, memory_order_release);
}

void shm_borrower_sleep(struct shm_borrower *b)
{
    if (++b->sleep == 0)
        b->sleep = 1;
    atomic_store_explicit(&b->returns->sleep, b->sleep, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

bool shm_borrower_ended(const struct shm_borrower *b)
{
    return atomic_load_explicit(&b->stream->state, memory_order_acquire) == SHM_STREAM_ENDED;
}
