/* SPDX-License-Identifier: Apache-2.0
 *
 * All events of all files in the order of time. Runs on the thread that is in ProcessTrace.
 *
 * How: one pass over the buffer headers gives 32 bytes a buffer (etl_file), sorted by the time of
 * the first event. A buffer is read when the merge reaches that time and given back when it is
 * empty, so memory holds only buffers that overlap in time. The open buffers stand in a binary heap
 * by their next event; the top one is drained as long as its events come before the next best.
 *
 * Invariants:
 *  - A buffer's key never falls: an event whose stamp lies before the one ahead of it in its buffer
 *    (impossible, so damaged) keeps its place in the buffer.
 *  - The order is total: key, file, first buffer, stamp, sequence number, offset. Within a buffer
 * it is the buffer's own. So equal stamps come in the same order in every run.
 *  - With one file the key is the raw stamp; with several, whose clocks may differ, nanoseconds
 *    since 1970.
 *  - The first buffer of a file opens before its other ones, so that the log-file header event is
 *    the file's first event, also when rundown carries earlier stamps.
 *  - At any callback the state is whole: merge_free() is all that is needed after a longjmp.
 *
 * At most ETW_MERGE_BUFFERS_MAX buffers or ETW_MERGE_BYTES_MAX bytes are open. A file whose buffers
 * overlap more than that is delivered oldest first all the same, but an event of a buffer that had
 * to wait comes late.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "etl/peek.h"

struct source;

/* An open buffer. What every event touches stands first. */
struct buffer {
    struct etl_iter iter; /* at the next event */
    uint64_t key;         /* of the next event */
    uint64_t stamp;       /* raw, of the next event; without one of its own, of the one before */
    struct source *source;
    bool header; /* the file's first one */
    int64_t sequence;
    uint64_t offset;
    struct etl_buffer_info info;
    uint8_t *data;
    void *mapping;       /* where data lies */
    size_t touched;      /* most bytes that were ever read into it */
    const uint8_t *last; /* the event delivered last, for BufferCallback; NULL: none yet */
    uint64_t last_stamp;
    struct buffer *next_free;
    struct buffer *next_all;
};

struct source {
    struct trace *trace;
    unsigned number;
    const struct etl_buffer_ref *refs; /* sorted by first_time */
    size_t count;
    size_t header; /* the buffer at offset 0; count when there is none or it has been opened */
    size_t next;
    bool has_next;
    uint64_t next_key;
    unsigned open;       /* buffers in the heap */
    size_t buffer_bytes; /* memory that any buffer of the file fits into */
    struct buffer *free; /* with memory, not in the heap */
    struct buffer *all;
};

struct entry {
    uint64_t key;
    struct buffer *buffer; /* NULL: the end of the heap, behind everything */
};

struct merge {
    struct delivery *d;
    struct source *next; /* whose next buffer comes first; NULL: all are open or done */
    size_t bytes;        /* memory behind all buffers */
    unsigned source_count;
    unsigned open;           /* entries of the heap, without the end */
    unsigned used;           /* of `buffers` that were ever given to a source */
    struct buffer *returned; /* by sources that are done */
    struct etl_event event;  /* under delivery */
    struct source sources[ETW_PROCESS_TRACE_HANDLES_MAX];
    struct entry heap[ETW_MERGE_BUFFERS_MAX + 1];
    struct buffer buffers[ETW_MERGE_BUFFERS_MAX];
};

static void *map(size_t size, int more_flags)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | more_flags;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static uint64_t key_of(const struct merge *m, const struct source *s, uint64_t stamp)
{
    return m->source_count == 1 ? stamp : etw_timebase_unix_ns(&s->trace->timebase, stamp);
}

/* ---- the heap ---- */

static bool tie_before(const struct buffer *x, const struct buffer *y)
{
    if (!x || !y)
        return x;
    if (x->source != y->source)
        return x->source->number < y->source->number;
    if (x->header != y->header)
        return x->header;
    if (x->stamp != y->stamp)
        return x->stamp < y->stamp;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence;
    return x->offset < y->offset;
}

static inline bool before(const struct entry *a, const struct entry *b)
{
    if (__builtin_expect(a->key == b->key, 0))
        return tie_before(a->buffer, b->buffer);
    return a->key < b->key;
}

static void heap_end(struct merge *m)
{
    m->heap[m->open] = (struct entry){.key = UINT64_MAX};
}

/* The choice between two children is a coin toss for the processor: arithmetic, not a branch. */
static void sift_down(struct merge *m)
{
    struct entry *heap = m->heap;
    struct entry moving = heap[0];
    unsigned at = 0;

    for (;;) {
        unsigned child = 2 * at + 1;

        if (child >= m->open)
            break;
        child += before(&heap[child + 1], &heap[child]);
        if (!before(&heap[child], &moving))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void push(struct merge *m, struct buffer *b)
{
    struct entry moving = {.key = b->key, .buffer = b};
    unsigned at = m->open++;

    heap_end(m);
    while (at > 0 && before(&moving, &m->heap[(at - 1) / 2])) {
        m->heap[at] = m->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    m->heap[at] = moving;
    b->source->open++;
}

static void pop(struct merge *m)
{
    m->heap[0].buffer->source->open--;
    m->heap[0] = m->heap[--m->open];
    heap_end(m);
    if (m->open > 1)
        sift_down(m);
}

/* ---- buffers ---- */

/* Buffers are filled at about the same rate, so their events would meet in the same cache sets,
 * were all buffers to begin at the same place of a page. */
#define POPULATE_MAX (1u << 20)
#define PREFETCH_AHEAD 256u
#define COLOUR_STEP 320u
#define COLOUR_SPAN 4096u

static size_t mapping_size(const struct source *s)
{
    return s->buffer_bytes + COLOUR_SPAN;
}

static struct buffer *buffer_take(struct merge *m, struct source *s)
{
    struct buffer *b = s->free;
    void *mapping;

    if (b) {
        s->free = b->next_free;
        return b;
    }
    /* One call for all pages of a usual buffer, not a fault for each. A damaged file may claim
     * large ones. */
    mapping = map(mapping_size(s), s->buffer_bytes <= POPULATE_MAX ? MAP_POPULATE : 0);
    if (!mapping)
        return NULL;
    b = m->returned;
    if (b)
        m->returned = b->next_all;
    else
        b = &m->buffers[m->used++];
    *b = (struct buffer){
        .source = s,
        .mapping = mapping,
        .data = (uint8_t *) mapping + (size_t) (b - m->buffers) * COLOUR_STEP % COLOUR_SPAN,
        .next_all = s->all,
    };
    s->all = b;
    return b;
}

static void buffer_give(struct buffer *b)
{
    b->next_free = b->source->free;
    b->source->free = b;
}

/* Gives the memory of all buffers of s back: none is in the heap. */
static void buffers_unmap(struct merge *m, struct source *s)
{
    while (s->all) {
        struct buffer *b = s->all;

        s->all = b->next_all;
        m->bytes -= b->touched;
        (void) munmap(b->mapping, mapping_size(s));
        b->next_all = m->returned;
        m->returned = b;
    }
    s->free = NULL;
}

/* Looks at the stamp of the next event, without parsing it: that it is one is seen when its turn
 * comes. False: the buffer is empty. */
static bool look_ahead(const struct merge *m, struct buffer *b)
{
    uint64_t key;

    if (b->iter.pos >= b->iter.end)
        return false;
    /* With many buffers open the processor does not see by itself that each is read on and on. */
    __builtin_prefetch(b->iter.data + b->iter.pos + PREFETCH_AHEAD);
    (void) etl_peek_stamp(b->iter.data + b->iter.pos, b->iter.end - b->iter.pos, &b->stamp);
    key = key_of(m, b->source, b->stamp);
    if (key > b->key)
        b->key = key;
    return true;
}

/* ---- which buffer opens next ---- */

static void choose_next(struct merge *m)
{
    m->next = NULL;
    for (unsigned i = 0; i < m->source_count; i++) {
        struct source *s = &m->sources[i];

        if (s->has_next && (!m->next || s->next_key < m->next->next_key))
            m->next = s;
    }
}

/* Finds the buffer of s that opens next, after the last one was opened. */
static void source_advance(const struct merge *m, struct source *s)
{
    const struct etl_buffer_ref *ref;

    s->has_next = false;
    while (s->next < s->count && s->refs[s->next].offset == 0)
        s->next++;
    if (s->next >= s->count)
        return;
    ref = &s->refs[s->next];
    if (m->d->bounded && ref->first_time != UINT64_MAX &&
        etw_timebase_filetime(&s->trace->timebase, ref->first_time) > m->d->end)
        return; /* nor does any later one hold an event that is wanted */
    s->next_key = key_of(m, s, ref->first_time);
    s->has_next = true;
}

static void source_begin(const struct merge *m, struct source *s)
{
    uint64_t first;

    source_advance(m, s);
    if (s->header >= s->count)
        return;
    first = key_of(m, s, s->refs[s->header].first_time);
    if (!s->has_next || first < s->next_key)
        s->next_key = first;
    s->has_next = true;
}

/* Whether the limits keep another buffer of s from being opened. A buffer that is given back keeps
 * its memory for the next one. */
static bool is_full(const struct merge *m, const struct source *s)
{
    if (m->open >= ETW_MERGE_BUFFERS_MAX)
        return true;
    return !s->free && ((m->used >= ETW_MERGE_BUFFERS_MAX && !m->returned) ||
                        m->bytes + s->buffer_bytes > ETW_MERGE_BYTES_MAX);
}

/* Reads the buffer at ref into b and puts it into the heap. A damaged one is passed over. `key`: of
 * a log-file header event. */
static int read_into(struct merge *m, struct buffer *b, const struct etl_buffer_ref *ref,
                     uint64_t key)
{
    struct source *s = b->source;
    size_t len;
    int r;

    r = etl_file_read_buffer(s->trace->file, ref, b->data, s->buffer_bytes, &b->info, &len);
    if (r < 0) {
        buffer_give(b);
        return r == -EBADMSG ? 0 : r;
    }
    if (len > b->touched) {
        m->bytes += len - b->touched;
        b->touched = len;
    }
    b->key = 0;
    b->stamp = ref->first_time == UINT64_MAX ? b->info.time_stamp : ref->first_time;
    b->header = ref->offset == 0;
    b->sequence = b->info.sequence_number;
    b->offset = ref->offset;
    b->last = NULL;
    etl_iter_init(&b->iter, b->data, len, b->info.end);
    if (look_ahead(m, b)) {
        if (b->header)
            b->key = key;
        push(m, b);
        return 0;
    }
    r = deliver_buffer(m->d, s->trace, &b->info, NULL, 0) ? 0 : -ECANCELED;
    buffer_give(b);
    return r;
}

/* Opens the buffer that comes next. -EAGAIN: not now, the limit of open buffers is reached. */
static int open_next(struct merge *m)
{
    struct source *s = m->next;
    uint64_t key = s->next_key;
    const struct etl_buffer_ref *ref;
    struct buffer *b;

    /* Closed: what is open is still delivered, nothing more is read. */
    if (atomic_load_explicit(&s->trace->closed, memory_order_relaxed)) {
        s->has_next = false;
        choose_next(m);
        return 0;
    }
    if (m->open > 0 && is_full(m, s))
        return -EAGAIN;
    b = buffer_take(m, s);
    if (!b)
        return m->open > 0 ? -EAGAIN : -ENOMEM;
    if (s->header < s->count) {
        ref = &s->refs[s->header];
        s->header = s->count;
    } else {
        ref = &s->refs[s->next++];
    }
    source_advance(m, s);
    choose_next(m);
    return read_into(m, b, ref, key);
}

/* ---- delivery ---- */

/* The top buffer is empty: tells the program and gives the memory back. `last`: the event delivered
 * last of it, or NULL. */
static int close_top(struct merge *m, const uint8_t *last, uint64_t last_stamp)
{
    struct buffer *b = m->heap[0].buffer;
    struct source *s = b->source;
    struct etl_event event;
    bool go_on;

    pop(m);
    if (last && etl_event_parse(last, (size_t) (b->data + b->iter.end - last), &event) < 0)
        last = NULL;
    go_on = deliver_buffer(m->d, s->trace, &b->info, last ? &event : NULL, last_stamp);
    buffer_give(b);
    if (s->open == 0 && !s->has_next)
        buffers_unmap(m, s); /* files that follow each other take turns with the memory */
    return go_on ? 0 : -ECANCELED;
}

/* Parses the event that is due, into m->event. 1; 0: the buffer holds no more; -EAGAIN: something
 * that is no event was stepped over, and the event behind it is due later: b->key says when. */
static int parse_due(struct merge *m, struct buffer *b)
{
    uint32_t pos = b->iter.pos;
    uint64_t key;

    if (etl_iter_next(&b->iter, &m->event) <= 0)
        return 0;
    if (m->event.raw == b->data + pos)
        return 1;
    b->stamp = m->event.has_time ? m->event.time_stamp : b->stamp;
    key = key_of(m, b->source, b->stamp);
    if (key <= b->key)
        return 1;
    b->iter.pos = (uint32_t) (m->event.raw - b->data);
    b->key = key;
    return -EAGAIN;
}

/* Delivers from the top buffer as long as it has the oldest event. `blocked`: no buffer can be
 * opened now. */
static int run_top(struct merge *m, bool blocked)
{
    struct entry *top = &m->heap[0];
    struct buffer *b = top->buffer;
    bool has_next = m->next && !blocked;
    const struct entry *second = &m->heap[1];
    const uint8_t *last = b->last;
    uint64_t last_stamp = b->last_stamp;
    uint64_t limit;
    int r;

    /* heap[1] is there always: an entry or the end. */
    if (m->open > 2)
        second += before(&m->heap[2], &m->heap[1]);
    limit = second->key;
    if (has_next && m->next->next_key < limit)
        limit = m->next->next_key;
    do {
        r = parse_due(m, b);
        if (r == 0)
            return close_top(m, last, last_stamp);
        if (r > 0) {
            last = m->event.raw;
            last_stamp = b->stamp;
            deliver_event(m->d, b->source->trace, &b->info, &m->event, last_stamp);
            if (!look_ahead(m, b))
                return close_top(m, last, last_stamp);
        }
        top->key = b->key;
    } while (b->key < limit || ((!has_next || b->key < m->next->next_key) && before(top, second)));
    b->last = last;
    b->last_stamp = last_stamp;
    sift_down(m);
    return 0;
}

int merge_run(struct merge *m)
{
    for (;;) {
        bool blocked = false;
        int r;

        while (m->next && (m->open == 0 || m->next->next_key <= m->heap[0].key)) {
            r = open_next(m);
            if (r == -EAGAIN) {
                blocked = true;
                break;
            }
            if (r < 0)
                return r;
        }
        if (m->open == 0)
            return 0;
        r = run_top(m, blocked);
        if (r < 0)
            return r;
    }
}

/* ---- setting up ---- */

static int source_init(struct merge *m, unsigned number, struct trace *t)
{
    struct source *s = &m->sources[number];
    bool truncated;
    int r;

    s->trace = t;
    s->number = number;
    r = etl_file_index_by_time(t->file, &s->refs, &s->count, &truncated);
    if (r < 0)
        return r;
    s->header = s->count;
    for (size_t i = 0; i < s->count; i++) {
        if (s->refs[i].offset == 0)
            s->header = i;
    }
    s->buffer_bytes = etl_file_buffer_bytes(t->file);
    source_begin(m, s);
    return 0;
}

int merge_new(struct trace *const *traces, unsigned count, struct delivery *d, struct merge **ret)
{
    struct merge *m;

    m = map(sizeof(*m), 0);
    if (!m)
        return -ENOMEM;
    m->d = d;
    heap_end(m);
    m->source_count = count;
    for (unsigned i = 0; i < count; i++) {
        int r = source_init(m, i, traces[i]);

        if (r < 0) {
            merge_free(m);
            return r;
        }
    }
    choose_next(m);
    *ret = m;
    return 0;
}

struct merge *merge_free(struct merge *m)
{
    if (!m)
        return NULL;
    for (unsigned i = 0; i < m->source_count; i++)
        buffers_unmap(m, &m->sources[i]);
    (void) munmap(m, sizeof(*m));
    return NULL;
}
