/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of the ring's protocol: states, steps, and the search over them.
 */
#include "ring-model.h"

#include <stdlib.h>
#include <string.h>

/* What a writer does for one event, and the reader in one pass. */
enum writer_op {
    W_BUSY,
    W_FENCE,
    W_CLOCK,
    W_STAMP,
    W_ROOM,
    W_DATA_A,
    W_DATA_B,
    W_HEAD,
    W_CLEAR,
    W_WAKE,
    W_END,
};

enum reader_op {
    R_TIME,
    R_BARRIER, /* each writer in turn: an interrupt at any of its steps */
    R_BUSY,
    R_STAMP,
    R_HEAD,
    R_LOOKED, /* at one ring; back to the look at the next */
    R_EARLY_TAIL,
    R_COPY_A,
    R_COPY_B,
    R_TAIL,
    R_SLEEP, /* raise the number, when nothing is left */
    R_SLEEP_BARRIER,
    R_SLEEP_LOOK,
    R_ASLEEP,
    R_AWAKE,
    R_END,
};

/* Places in memory. */
enum { A_BUSY, A_STAMP, A_HEAD, A_TAIL, A_DATA_A, A_DATA_B = A_DATA_A + MODEL_CAPACITY };
enum { A_OF_WRITER = A_DATA_B + MODEL_CAPACITY, A_SLEEP = MODEL_WRITERS * A_OF_WRITER, A_COUNT };

struct buffer {
    uint8_t n;
    uint8_t address[MODEL_STORES], value[MODEL_STORES];
};

struct writer {
    uint8_t pc, event, skip, dead;
    uint8_t stamp, answered;
    uint8_t head;                    /* published by it: the event at each place, below */
    uint8_t published[MODEL_EVENTS]; /* event numbers + 1 */
    uint8_t stamps[MODEL_EVENTS];    /* of the published ones */
    struct buffer stores;
};

/* Bytes only, so that equal states are equal memory. */
struct state {
    uint8_t memory[A_COUNT];
    uint8_t now;
    uint8_t woken, hung_up; /* a message, the end of a connection */
    struct writer w[MODEL_WRITERS];
    struct {
        uint8_t pc, pass, ring;
        uint8_t time;
        uint8_t busy, stamp, head; /* registers of a look */
        uint8_t got;               /* half a record */
        uint8_t sleep_number;
        uint8_t watermark, emitted; /* the smallest vouch of this pass; stamp of the last record */
        uint8_t highest_watermark;
        uint8_t vouch[MODEL_WRITERS];
        uint8_t vouched[MODEL_WRITERS]; /* R5: what holds for each record above `end` */
        uint8_t idle[MODEL_WRITERS];    /* T of the last look that saw it idle */
        uint8_t end[MODEL_WRITERS], position[MODEL_WRITERS];
        uint8_t passed[MODEL_WRITERS]; /* was passed over, and not all it wrote then was read */
        uint8_t dead[MODEL_WRITERS];   /* known before this pass */
        struct buffer stores;
    } r;
};

struct search {
    const struct model *m;
    struct model_result *result;
    enum writer_op writer[16];
    enum reader_op reader[16];
    uint64_t *seen; /* hashes of visited states; 0 is an empty place */
    uint64_t mask, max;
};

static uint64_t hash(const struct state *s)
{
    const uint8_t *p = (const uint8_t *) s;
    uint64_t h = 0x9E3779B97F4A7C15ull;

    for (size_t i = 0; i < sizeof(*s); i += 8) {
        uint64_t v = 0;
        memcpy(&v, p + i, sizeof(*s) - i < 8 ? sizeof(*s) - i : 8);
        h = (h ^ v) * 0xBF58476D1CE4E5B9ull;
        h ^= h >> 29;
    }
    h *= 0x94D049BB133111EBull;
    return (h ^ (h >> 32)) | 1;
}

/* First time here? States are told apart by 63 bits: among ten million the odds of taking a new one
 * for a known one are one in 100 000. */
static bool visit(struct search *q, const struct state *s)
{
    uint64_t h = hash(s);
    uint64_t at = h >> 1;

    for (;; at++) {
        uint64_t *place = &q->seen[at & q->mask];
        if (*place == h)
            return false;
        if (*place == 0) {
            *place = h;
            break;
        }
    }
    if (++q->result->states >= q->max)
        q->result->incomplete = true;
    return true;
}

static void violate(struct search *q, const char *what)
{
    if (!q->result->violation)
        q->result->violation = what;
}

/* ---- memory ---- */

static bool has_room(const struct search *q, const struct buffer *b)
{
    return b->n < q->m->stores;
}

static void store(struct buffer *b, unsigned address, unsigned value)
{
    b->address[b->n] = (uint8_t) address;
    b->value[b->n++] = (uint8_t) value;
}

static void drain_one(struct state *s, struct buffer *b)
{
    s->memory[b->address[0]] = b->value[0];
    b->n--;
    memmove(b->address, b->address + 1, b->n);
    memmove(b->value, b->value + 1, b->n);
    b->address[b->n] = b->value[b->n] = 0;
}

static void drain(struct state *s, struct buffer *b)
{
    while (b->n > 0)
        drain_one(s, b);
}

static unsigned place(unsigned writer, unsigned what)
{
    return writer * A_OF_WRITER + what;
}

/* ---- the writer ---- */

/* One step of a writer; false: it has to wait, or is done. */
static bool writer_step(struct search *q, struct state *s, unsigned i)
{
    struct writer *w = &s->w[i];
    unsigned slot = w->head % MODEL_CAPACITY;
    unsigned id = w->event + 1u;

    if (w->dead || w->event == q->m->events)
        return false;
    switch (q->writer[w->pc]) {
    case W_BUSY:
    case W_CLEAR:
        if (!has_room(q, &w->stores))
            return false;
        store(&w->stores, place(i, A_BUSY), q->writer[w->pc] == W_BUSY);
        break;
    case W_FENCE:
        if (w->stores.n > 0)
            return false;
        break;
    case W_CLOCK:
        w->stamp = ++s->now;
        break;
    case W_STAMP:
        if (!has_room(q, &w->stores))
            return false;
        store(&w->stores, place(i, A_STAMP), w->stamp);
        break;
    case W_ROOM:
        w->skip = (uint8_t) (w->head - s->memory[place(i, A_TAIL)]) >= MODEL_CAPACITY;
        if (w->skip)
            q->result->refused++;
        break;
    case W_DATA_A:
    case W_DATA_B:
        if (w->skip)
            break;
        if (!has_room(q, &w->stores))
            return false;
        /* A mutation may have moved it behind W_HEAD. */
        if (q->m->mutation == MODEL_DATA_LAST)
            slot = (w->head - 1u) % MODEL_CAPACITY;
        store(&w->stores, place(i, (q->writer[w->pc] == W_DATA_A ? A_DATA_A : A_DATA_B) + slot),
              id);
        break;
    case W_HEAD:
        if (w->skip)
            break;
        if (!has_room(q, &w->stores))
            return false;
        w->published[w->head] = (uint8_t) id;
        w->stamps[w->head] = w->stamp;
        w->head++;
        store(&w->stores, place(i, A_HEAD), w->head);
        break;
    case W_WAKE: {
        uint8_t sleep = s->memory[A_SLEEP];
        if (!w->skip && sleep != 0 && sleep != w->answered &&
            w->head != s->memory[place(i, A_TAIL)]) {
            w->answered = sleep;
            s->woken = 1;
        }
        break;
    }
    case W_END:
        break;
    }
    w->pc++;
    if (q->writer[w->pc] == W_END) {
        w->pc = 0;
        w->event++;
        w->skip = w->stamp = 0;
    }
    return true;
}

/* ---- the reader ---- */

static bool writer_gone(const struct search *q, const struct state *s, unsigned i)
{
    return (s->w[i].dead == 2 || (!s->w[i].dead && s->w[i].event == q->m->events)) &&
           s->w[i].stores.n == 0;
}

/* What a look at ring i says. `over`: its writer, if busy, is taken for stopped. */
static void looked(struct search *q, struct state *s, unsigned i, bool over)
{
    bool busy = s->r.busy && !s->r.dead[i];
    uint8_t vouch;

    if (s->r.head < s->r.end[i])
        violate(q, "head went back");
    /* R5 and R6: what appeared is not older than the ring vouched for. */
    for (unsigned k = s->r.end[i]; k < s->r.head; k++)
        if (s->w[i].stamps[k] < s->r.vouched[i])
            violate(q, "a record is older than its ring vouched for");
    if (!busy) {
        vouch = s->r.idle[i] = s->r.time;
        if (s->r.position[i] == s->r.head)
            s->r.passed[i] = 0;
    } else {
        q->result->busy++;
        vouch = s->r.stamp > s->r.idle[i] ? s->r.stamp : s->r.idle[i];
    }
    if (vouch > s->r.vouched[i])
        s->r.vouched[i] = vouch;
    if (busy && over) {
        s->r.passed[i] = 1;
        vouch = s->r.time;
    }
    s->r.end[i] = s->r.head;
    s->r.vouch[i] = vouch;
    s->r.busy = s->r.stamp = s->r.head = 0;
}

/* The ring with the oldest record below the watermark, or -1. */
static int oldest(const struct search *q, const struct state *s)
{
    int best = -1;

    for (unsigned i = 0; i < q->m->writers; i++) {
        if (s->r.position[i] == s->r.end[i])
            continue;
        uint8_t stamp = s->w[i].stamps[s->r.position[i]];
        if (stamp >= s->r.watermark)
            continue;
        if (best < 0 || stamp < s->w[best].stamps[s->r.position[best]])
            best = (int) i;
    }
    return best;
}

static void emit(struct search *q, struct state *s, unsigned i)
{
    uint8_t stamp = s->w[i].stamps[s->r.position[i]];

    if (stamp < s->r.emitted || stamp < s->r.highest_watermark) {
        /* The late rule: only behind a writer that was passed over. */
        q->result->late++;
        if (!s->r.passed[i])
            violate(q, "a record came late and its writer was never passed over");
    } else {
        s->r.emitted = stamp;
    }
}

/* One step of the reader; false: it has to wait, or is done. */
static bool reader_step(struct search *q, struct state *s, bool over)
{
    unsigned n = q->m->writers;
    unsigned ring = s->r.ring;
    int from;

    switch (q->reader[s->r.pc]) {
    case R_TIME:
        /* The last pass sees everything. */
        if (!q->m->sleep && s->r.pass + 1u == q->m->passes)
            for (unsigned i = 0; i < n; i++)
                if (!writer_gone(q, s, i))
                    return false;
        for (unsigned i = 0; i < n; i++)
            s->r.dead[i] = s->w[i].dead == 2;
        s->hung_up = 0;
        s->r.time = ++s->now;
        s->r.pc++;
        return true;
    case R_BARRIER:
    case R_SLEEP_BARRIER:
        /* A full barrier of the caller and, one after the other, of each writer's processor where
         * the writer registered for it. */
        drain(s, &s->r.stores);
        if (!q->m->fences)
            drain(s, &s->w[ring].stores);
        if (++s->r.ring == n) {
            s->r.ring = 0;
            s->r.pc++;
        }
        return true;
    case R_BUSY:
        s->r.busy = s->memory[place(ring, A_BUSY)];
        s->r.pc++;
        return true;
    case R_STAMP:
        s->r.stamp = s->memory[place(ring, A_STAMP)];
        s->r.pc++;
        return true;
    case R_HEAD:
        s->r.head = s->memory[place(ring, A_HEAD)];
        s->r.pc++;
        return true;
    case R_LOOKED:
        looked(q, s, ring, over);
        if (++s->r.ring < n) {
            s->r.pc -= 3;
            return true;
        }
        s->r.ring = 0;
        s->r.watermark = UINT8_MAX;
        for (unsigned i = 0; i < n; i++)
            if (s->r.vouch[i] < s->r.watermark)
                s->r.watermark = s->r.vouch[i];
        memset(s->r.vouch, 0, sizeof(s->r.vouch));
        s->r.time = 0;
        s->r.pc++;
        return true;
    case R_EARLY_TAIL:
    case R_TAIL:
        if (!has_room(q, &s->r.stores))
            return false;
        /* Early: what this pass is going to copy. */
        store(&s->r.stores, place(ring, A_TAIL),
              q->reader[s->r.pc] == R_TAIL ? s->r.position[ring] : s->r.end[ring]);
        if (++s->r.ring == n) {
            s->r.ring = 0;
            s->r.pc++;
        }
        return true;
    case R_COPY_A:
        from = oldest(q, s);
        if (from < 0) {
            if (s->r.watermark > s->r.highest_watermark)
                s->r.highest_watermark = s->r.watermark;
            s->r.watermark = 0;
            s->r.pc += 2;
            return true;
        }
        s->r.got =
            s->memory[place((unsigned) from, A_DATA_A + s->r.position[from] % MODEL_CAPACITY)];
        s->r.pc++;
        return true;
    case R_COPY_B:
        from = oldest(q, s);
        if (s->r.got != s->w[from].published[s->r.position[from]] ||
            s->r.got !=
                s->memory[place((unsigned) from, A_DATA_B + s->r.position[from] % MODEL_CAPACITY)])
            violate(q, "a record is torn, lost or there twice");
        s->r.got = 0;
        emit(q, s, (unsigned) from);
        s->r.position[from]++;
        s->r.pc--;
        return true;
    case R_SLEEP:
        for (unsigned i = 0; i < n; i++)
            if (s->r.position[i] != s->r.end[i]) {
                /* Above the watermark: it polls, which is left out until it can help. */
                for (unsigned k = 0; k < n; k++)
                    if (s->memory[place(k, A_BUSY)] && !writer_gone(q, s, k))
                        return false;
                s->r.pc = 0;
                return true;
            }
        if (!has_room(q, &s->r.stores))
            return false;
        store(&s->r.stores, A_SLEEP, ++s->r.sleep_number);
        s->woken = 0; /* messages for older numbers are read before */
        s->r.pc++;
        return true;
    case R_SLEEP_LOOK:
        if (q->m->mutation != MODEL_NO_LAST_LOOK &&
            s->memory[place(ring, A_HEAD)] != s->r.end[ring]) {
            s->r.ring = 0;
            s->r.pc += 2;
            return true;
        }
        if (++s->r.ring == n) {
            s->r.ring = 0;
            s->r.pc++;
        }
        return true;
    case R_ASLEEP:
        q->result->slept++;
        if (!s->woken && !s->hung_up)
            return false;
        s->r.pc++;
        return true;
    case R_AWAKE:
        if (!has_room(q, &s->r.stores))
            return false;
        store(&s->r.stores, A_SLEEP, 0);
        s->woken = 0;
        s->r.pc = 0;
        return true;
    case R_END:
        if (s->r.pass + 1u == q->m->passes)
            return false;
        s->r.pass++;
        s->r.pc = 0;
        return true;
    }
    return false;
}

/* ---- search ---- */

/* Nothing can happen any more: all is written, all was read. */
static void check_end(struct search *q, const struct state *s)
{
    q->result->ends++;
    for (unsigned i = 0; i < q->m->writers; i++) {
        if (!writer_gone(q, s, i))
            violate(q, "a writer waits for ever");
        if (s->r.position[i] != s->memory[place(i, A_HEAD)])
            violate(q, q->m->sleep ? "the reader sleeps and a record is there"
                                   : "a record was never read");
        if (s->memory[place(i, A_HEAD)] != s->w[i].head)
            violate(q, "a published record is not visible");
    }
}

static void explore(struct search *q, const struct state *s)
{
    struct state next;
    bool any = false;

    if (q->result->violation || q->result->incomplete || !visit(q, s))
        return;
    for (unsigned i = 0; i < q->m->writers; i++) {
        next = *s;
        if (writer_step(q, &next, i)) {
            any = true;
            explore(q, &next);
        }
        if (s->w[i].stores.n > 0) {
            any = true;
            next = *s;
            drain_one(&next, &next.w[i].stores);
            explore(q, &next);
        }
        if (q->m->deaths && !s->w[i].dead && s->w[i].event < q->m->events) {
            any = true;
            next = *s;
            next.w[i].dead = 1;
            next.w[i].pc = next.w[i].skip = next.w[i].stamp = 0;
            explore(q, &next);
        }
        /* Its memory is as it left it before anybody hears of its death. */
        if (s->w[i].dead == 1 && s->w[i].stores.n == 0) {
            any = true;
            next = *s;
            next.w[i].dead = 2;
            next.hung_up = 1;
            explore(q, &next);
        }
    }
    next = *s;
    if (reader_step(q, &next, false)) {
        any = true;
        explore(q, &next);
    }
    if (q->m->pass_over && q->reader[s->r.pc] == R_LOOKED && s->r.busy) {
        next = *s;
        if (reader_step(q, &next, true))
            explore(q, &next);
    }
    if (s->r.stores.n > 0) {
        any = true;
        next = *s;
        drain_one(&next, &next.r.stores);
        explore(q, &next);
    }
    if (!any)
        check_end(q, s);
}

static void writer_program(struct search *q)
{
    const struct model *m = q->m;
    enum writer_op *p = q->writer;
    bool data_last = m->mutation == MODEL_DATA_LAST;

    if (m->mutation == MODEL_CLOCK_FIRST)
        *p++ = W_CLOCK;
    *p++ = W_BUSY;
    if (m->fences && m->mutation != MODEL_NO_STORE_FENCE)
        *p++ = W_FENCE;
    if (m->mutation != MODEL_CLOCK_FIRST)
        *p++ = W_CLOCK;
    *p++ = W_STAMP;
    *p++ = W_ROOM;
    if (!data_last) {
        *p++ = W_DATA_A;
        *p++ = W_DATA_B;
    }
    if (m->mutation == MODEL_CLEAR_FIRST)
        *p++ = W_CLEAR;
    *p++ = W_HEAD;
    if (data_last) {
        *p++ = W_DATA_A;
        *p++ = W_DATA_B;
    }
    if (m->fences && m->sleep && m->mutation != MODEL_NO_HEAD_FENCE)
        *p++ = W_FENCE;
    if (m->mutation != MODEL_CLEAR_FIRST)
        *p++ = W_CLEAR;
    if (m->sleep)
        *p++ = W_WAKE;
    *p = W_END;
}

static void reader_program(struct search *q)
{
    const struct model *m = q->m;
    enum reader_op *p = q->reader;

    *p++ = R_TIME;
    if (m->mutation != MODEL_NO_MEMBARRIER)
        *p++ = R_BARRIER;
    if (m->mutation == MODEL_HEAD_FIRST)
        *p++ = R_HEAD;
    *p++ = R_BUSY;
    if (m->mutation != MODEL_STAMP_LAST)
        *p++ = R_STAMP;
    if (m->mutation != MODEL_HEAD_FIRST)
        *p++ = R_HEAD;
    if (m->mutation == MODEL_STAMP_LAST)
        *p++ = R_STAMP;
    *p++ = R_LOOKED;
    if (m->mutation == MODEL_TAIL_EARLY)
        *p++ = R_EARLY_TAIL;
    *p++ = R_COPY_A;
    *p++ = R_COPY_B;
    if (m->mutation != MODEL_TAIL_EARLY)
        *p++ = R_TAIL;
    if (m->sleep) {
        *p++ = R_SLEEP;
        if (m->mutation != MODEL_NO_SLEEP_BARRIER)
            *p++ = R_SLEEP_BARRIER;
        *p++ = R_SLEEP_LOOK;
        *p++ = R_ASLEEP;
        *p++ = R_AWAKE;
    }
    *p = R_END;
}

void model_explore(const struct model *m, uint64_t max_states, struct model_result *ret)
{
    struct search q = {.m = m, .result = ret, .max = max_states, .mask = 1};
    struct state s;

    memset(ret, 0, sizeof(*ret));
    while (q.mask < max_states * 2)
        q.mask <<= 1;
    q.mask--;
    q.seen = calloc(q.mask + 1, sizeof(*q.seen));
    if (!q.seen)
        abort();
    writer_program(&q);
    reader_program(&q);
    memset(&s, 0, sizeof(s));
    explore(&q, &s);
    free(q.seen);
}
