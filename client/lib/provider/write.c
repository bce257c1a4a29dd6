/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing events: the hot path. No system call, no lock, no allocation, but where the thread has no
 * ring yet, or the daemon has to be woken. Any thread, also in signal handlers.
 *
 * A record is what etl/record.h and shm/abi.h say: the prefix, an EVENT_HEADER64 event whose
 * process, thread and size the daemon sets itself, extended items, data.
 *
 * A write in a signal handler that interrupted a write of the same thread would spoil the ring: the
 * thread is marked as in progress with an address in the frame that writes. A frame that was left
 * by longjmp(3) leaves the mark behind: it is recognised by where the stack is now, or by the check
 * word in it that something else overwrote.
 */
#include "internal.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../control/internal.h"
#include "base/clock.h"
#include "base/limits.h"
#include "etl/layout.h"
#include "shm/clock.h"
#include "shm/slots.h"

/* ---- the mark ---- */

/* Reads a word of a frame that may not be mapped any more. */
static bool peek(uintptr_t at, uintptr_t *ret)
{
    struct iovec local = {.iov_base = ret, .iov_len = sizeof(*ret)};
    struct iovec remote = {.iov_base = (void *) at, .iov_len = sizeof(*ret)};
    long n = syscall(SYS_process_vm_readv, syscall(SYS_getpid), &local, 1, &remote, 1, 0);

    return n == (long) sizeof(*ret);
}

/* Whether the frame of that mark was left for good; here: where the stack is. */
static bool mark_is_dead(uintptr_t mark, uintptr_t here)
{
    uintptr_t word;
    stack_t ss;
    bool mark_on_other;
    bool here_on_other;

    if (syscall(SYS_sigaltstack, NULL, &ss) < 0)
        return false;
    here_on_other = (ss.ss_flags & SS_ONSTACK) != 0;
    mark_on_other = !(ss.ss_flags & SS_DISABLE) && mark - (uintptr_t) ss.ss_sp < ss.ss_size;
    /* The handler's stack was left. */
    if (mark_on_other && !here_on_other)
        return true;
    if (mark_on_other == here_on_other && mark <= here)
        return true;
    return peek(mark, &word) && word != mark_check(mark);
}

/* ---- the event ---- */

struct event {
    const EVENT_DESCRIPTOR *descriptor;
    const EVENT_DATA_DESCRIPTOR *data;
    ULONG n;
    const GUID *activity; /* not NULL */
    const GUID *related;
    const void *metadata;
    const void *traits;
    uint16_t metadata_size;
    uint16_t traits_size;
    uint16_t flags;
    bool typed;       /* some descriptors are not data */
    ULONG first;      /* those before it are metadata */
    uint32_t payload; /* bytes */
};

static inline uint32_t item_size(uint32_t data)
{
    return ((uint32_t) sizeof(struct etl_item_header) + data + 7) & ~7u;
}

/* A piece that is not plain data. ERROR_SUCCESS and *ret_plain; else the code. */
static __attribute__((noinline)) uint32_t event_piece(const struct registration *r, struct event *e,
                                                      const EVENT_DATA_DESCRIPTOR *d,
                                                      bool *ret_plain)
{
    *ret_plain = false;
    /* An old program does not know that the field means something. */
    if (!r->types && (d->Reserved1 != 0 || d->Reserved2 != 0)) {
        *ret_plain = true;
        return ERROR_SUCCESS;
    }
    switch (d->Type) {
    case EVENT_DATA_DESCRIPTOR_TYPE_NONE:
        *ret_plain = true;
        return ERROR_SUCCESS;
    case EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA:
        if (e->metadata)
            return ERROR_INVALID_PARAMETER;
        if (d->Size > ETW_EVENT_MAX)
            return ERROR_ARITHMETIC_OVERFLOW;
        e->metadata = (const void *) (uintptr_t) d->Ptr;
        e->metadata_size = (uint16_t) d->Size;
        break;
    case EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA:
        if (e->traits)
            return ERROR_INVALID_PARAMETER;
        if (d->Size > ETW_EVENT_MAX)
            return ERROR_ARITHMETIC_OVERFLOW;
        e->traits = (const void *) (uintptr_t) d->Ptr;
        e->traits_size = (uint16_t) d->Size;
        break;
    case EVENT_DATA_DESCRIPTOR_TYPE_TIMESTAMP_OVERRIDE:
        return ERROR_NOT_SUPPORTED;
    default:
        return ERROR_INVALID_PARAMETER;
    }
    e->typed = true;
    return ERROR_SUCCESS;
}

/* The two descriptors that TraceLoggingWrite begins with, provider's and event's metadata, by their
 * whole third word: both reserved bytes are 0. */
static inline void event_metadata(const struct registration *r, struct event *e)
{
    const EVENT_DATA_DESCRIPTOR *d = e->data;

    if (e->n < 2 || d[0].Reserved != EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA ||
        d[1].Reserved != EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA || !r->types ||
        d[0].Size > ETW_EVENT_MAX || d[1].Size > ETW_EVENT_MAX)
        return;
    e->traits = (const void *) (uintptr_t) d[0].Ptr;
    e->traits_size = (uint16_t) d[0].Size;
    e->metadata = (const void *) (uintptr_t) d[1].Ptr;
    e->metadata_size = (uint16_t) d[1].Size;
    e->typed = true;
    e->first = 2;
}

/* Looks at the pieces; *ret_size is the event's without what slots ask for. */
static inline uint32_t event_measure(const struct registration *r, struct event *e,
                                     uint32_t *ret_size)
{
    uint64_t payload = 0;
    uint64_t size = sizeof(struct etl_event_header);

    event_metadata(r, e);
    for (ULONG i = e->first; i < e->n; i++) {
        const EVENT_DATA_DESCRIPTOR *d = &e->data[i];
        if (__builtin_expect(d->Reserved != 0, 0)) {
            bool plain;
            uint32_t code = event_piece(r, e, d, &plain);
            if (code != ERROR_SUCCESS)
                return code;
            if (!plain)
                continue;
        }
        payload += d->Size;
    }
    if (e->related)
        size += item_size(sizeof(GUID));
    if (__builtin_expect(e->typed, 0)) {
        if (e->metadata && !e->traits) {
            e->traits = __atomic_load_n(&r->traits, __ATOMIC_ACQUIRE);
            e->traits_size = e->traits ? r->traits_size : 0;
        }
        if (e->traits)
            size += item_size(e->traits_size);
        if (e->metadata)
            size += item_size(e->metadata_size);
    }
    size += payload;
    if (size > ETW_EVENT_MAX)
        return ERROR_ARITHMETIC_OVERFLOW;
    e->payload = (uint32_t) payload;
    *ret_size = (uint32_t) size;
    return ERROR_SUCCESS;
}

/* Data of an item: some dozen bytes, for which a call of memcpy(3) takes longer than the copy. */
static inline void item_data_put(uint8_t *at, const uint8_t *data, uint32_t size)
{
    if (size > 64 || size < 8) {
        memcpy(at, data, size);
        return;
    }
    for (uint32_t i = 0; i + 8 <= size; i += 8)
        memcpy(at + i, data + i, 8);
    memcpy(at + size - 8, data + size - 8, 8);
}

static inline uint8_t *item_put(uint8_t *at, uint16_t type, const void *data, uint16_t size,
                                uint16_t **last)
{
    struct etl_item_header *h = (struct etl_item_header *) at;
    uint32_t whole = item_size(size);

    memset(at + whole - 8, 0, 8); /* the padding, and a header without data whole */
    *h = (struct etl_item_header){
        .size = (uint16_t) whole, .type = type, .linkage = 0, .data_size = size};
    item_data_put((uint8_t *) (h + 1), data, size);
    if (*last)
        **last = 1;
    *last = &h->linkage;
    return at + whole;
}

static inline uint8_t *items_put(uint8_t *at, const struct event *e, const uint64_t *key)
{
    uint16_t *last = NULL;

    if (e->related)
        at = item_put(at, ETL_ITEM_RELATED_ACTIVITYID, e->related, sizeof(GUID), &last);
    if (e->traits)
        at = item_put(at, ETL_ITEM_PROV_TRAITS, e->traits, e->traits_size, &last);
    if (e->metadata)
        at = item_put(at, ETL_ITEM_EVENT_SCHEMA_TL, e->metadata, e->metadata_size, &last);
    if (key)
        at = item_put(at, ETL_ITEM_EVENT_KEY, key, sizeof(*key), &last);
    return at;
}

static inline void bytes_put(uint8_t *at, const void *data, size_t size)
{
    const uint8_t *from = data;

    /* Two copies that may overlap, instead of a jump by the size. */
    if (size >= 8 && size <= 16) {
        memcpy(at, from, 8);
        memcpy(at + size - 8, from + size - 8, 8);
    } else if (size >= 4 && size < 8) {
        memcpy(at, from, 4);
        memcpy(at + size - 4, from + size - 4, 4);
    } else {
        memcpy(at, from, size);
    }
}

static inline __attribute__((always_inline)) void
payload_put(uint8_t *at, const struct registration *r, const struct event *e)
{
    for (ULONG i = e->first; i < e->n; i++) {
        const EVENT_DATA_DESCRIPTOR *d = &e->data[i];
        if (__builtin_expect(d->Reserved != 0, 0) && e->typed && d->Reserved1 == 0 &&
            d->Reserved2 == 0 && d->Type != EVENT_DATA_DESCRIPTOR_TYPE_NONE)
            continue;
        if (d->Size == 0)
            continue;
        bytes_put(at, (const void *) (uintptr_t) d->Ptr, d->Size);
        at += d->Size;
    }
}

static inline uint16_t cpu_now(void)
{
    if (__builtin_expect(__rseq_size != 0, 1)) {
#if defined(__x86_64__)
        const char *tp;
        __asm__("mov %%fs:0, %0" : "=r"(tp));
#else
        const char *tp = __builtin_thread_pointer();
#endif
        const struct rseq *rs = (const void *) (tp + __rseq_offset);
        uint32_t cpu = __atomic_load_n(&rs->cpu_id, __ATOMIC_RELAXED);
        if (__builtin_expect(cpu <= UINT16_MAX, 1))
            return (uint16_t) cpu;
    }
    {
        int cpu = sched_getcpu();
        return cpu < 0 ? 0 : (uint16_t) cpu;
    }
}

static inline __attribute__((always_inline)) void event_put(uint8_t *at,
                                                            const struct registration *r,
                                                            const struct event *e, uint64_t stamp,
                                                            uint32_t size, const uint64_t *key)
{
    struct etl_event_header *h = (struct etl_event_header *) at;
    bool items = e->related || e->typed || key;

    h->size = (uint16_t) size;
    h->header_type = ETL_EVENT64;
    h->marker = ETL_MARKER_TRACE;
    h->flags = (uint16_t) (e->flags | (items ? ETL_EVENT_FLAG_EXTENDED_INFO : 0));
    h->event_property = 0;
    h->thread_id = 0; /* the daemon knows them */
    h->process_id = 0;
    h->time_stamp = stamp;
    h->provider_id = r->guid;
    memcpy(&h->descriptor, e->descriptor, sizeof(h->descriptor));
    h->kernel_time = 0;
    h->user_time = 0;
    memcpy(&h->activity_id, e->activity, sizeof(h->activity_id));
    at += sizeof(*h);
    if (__builtin_expect(items, 0))
        at = items_put(at, e, key);
    payload_put(at, r, e);
}

/* ---- who gets it ---- */

/* Some sessions that want the event cannot take it: who does all the same, and what the program
 * gets. Counts the losses. See SHM_SLOT_INDEPENDENT. */
static __attribute__((noinline)) uint32_t refusals(struct shm_writer *w, uint32_t index,
                                                   const struct shm_match *m, uint32_t fit,
                                                   uint32_t *ret_slots)
{
    uint32_t too_big = m->slots & ~fit;
    uint32_t refused = too_big | m->full;
    uint32_t code = m->full ? STATUS_LOG_FILE_FULL : ERROR_MORE_DATA;

    if (too_big)
        code = ERROR_MORE_DATA;
    if (refused & ~m->independent) {
        uint32_t others = fit & ~m->independent;
        /* They miss it for the same reason. */
        if (too_big & ~m->independent)
            too_big |= others;
        else if (others)
            shm_writer_lost(w, SHM_LOST_SESSION_FULL, index, others);
        fit &= m->independent;
    } else if (fit != 0) {
        code = ERROR_SUCCESS;
    }
    if (too_big)
        shm_writer_lost(w, SHM_LOST_TOO_BIG, index, too_big);
    if (m->full)
        shm_writer_lost(w, SHM_LOST_SESSION_FULL, index, m->full);
    *ret_slots = fit;
    return code;
}

/* Counts an event that finds no ring, or interrupts another. */
static void lost_without_ring(struct process *p, enum shm_lost_cause cause, uint32_t index,
                              const EVENT_DESCRIPTOR *d, uint64_t filter)
{
    struct shm_arena *arena = atomic_load(&p->arenas[0]);
    struct shm_match m;

    if (!arena || !provider_control)
        return;
    if (shm_slots_match(provider_control, index, d->Level, d->Keyword, d->Id, &m))
        shm_lost_add(arena, provider_control, cause, index,
                     (m.slots | m.full) & ~(uint32_t) filter);
}

/* This thread, ready to be marked; NULL: the event is lost or nobody's, *ret_code says it. */
static __attribute__((noinline)) struct thread *thread_enter(struct process *p, uintptr_t here,
                                                             uint32_t index,
                                                             const EVENT_DESCRIPTOR *d,
                                                             uint64_t filter, uint32_t *ret_code)
{
    struct thread *t = thread_get();
    uintptr_t mark;
    int saved = errno;

    if (!t) {
        *ret_code = ERROR_NOT_ENOUGH_MEMORY;
        return NULL;
    }
    mark = atomic_load_explicit(&t->in_progress, memory_order_relaxed);
    /* In a child the mark is one of the parent's. */
    if (mark == 0 || atomic_load(&p->epoch) == 0 || mark_is_dead(mark, here)) {
        errno = saved;
        return t;
    }
    lost_without_ring(p, SHM_LOST_NESTED, index, d, filter);
    errno = saved;
    *ret_code = ERROR_NOT_ENOUGH_MEMORY;
    return NULL;
}

static __attribute__((noinline)) void thread_wake(struct process *p, struct thread *t)
{
    int saved = errno;

    connection_wake(p, t->writer.stamp);
    errno = saved;
    atomic_store_explicit(&t->waking, 0, memory_order_release);
}

/* The ring is full: does the daemon still know that it has to look? */
static __attribute__((noinline)) void ring_full(struct process *p, uint64_t now)
{
    int saved = errno;

    if (now - atomic_load_explicit(&p->verified, memory_order_relaxed) >
        ETW_CLIENT_KICK_MS * 1000000ull) {
        atomic_store_explicit(&p->verified, now, memory_order_relaxed);
        if (p->threadless)
            connection_revive(p);
        else if (!connection_ours(p))
            connection_kick(p, now);
    }
    errno = saved;
}

/* Between mark and unmark: the ring is this thread's. */
static inline __attribute__((always_inline)) uint32_t
write_marked(struct process *p, struct thread *t, const struct registration *r, uint32_t index,
             struct event *e, uint32_t size, uint64_t filter, bool *ret_wake)
{
    struct shm_writer *w = &t->writer;
    const EVENT_DESCRIPTOR *d = e->descriptor;
    uint32_t code = ERROR_SUCCESS;
    struct etl_record *record;
    struct shm_match m;
    uint32_t record_size;
    uint32_t slots;
    uint64_t stamp;
    uint64_t key;
    uint8_t flags;
    bool keyed;

    shm_writer_begin(w);
    stamp = shm_writer_now(w, &flags);
    do {
        if (!shm_slots_match(w->control, index, d->Level, d->Keyword, d->Id, &m))
            goto abandon;
        if (__builtin_expect(filter != 0, 0)) {
            m.slots &= ~(uint32_t) filter;
            m.full &= ~(uint32_t) filter;
            if ((m.slots | m.full) == 0)
                goto abandon;
        }
        keyed = (m.items & SHM_ITEM_EVENT_KEY) != 0;
        if (__builtin_expect(keyed, 0) && size + item_size(sizeof(key)) > ETW_EVENT_MAX) {
            code = ERROR_ARITHMETIC_OVERFLOW;
            shm_writer_lost(w, SHM_LOST_TOO_BIG, index, m.slots | m.full);
            goto abandon;
        }
        slots = m.slots;
        record_size = size + (keyed ? item_size(sizeof(key)) : 0);
    } while (__builtin_expect(record_size > m.largest, 0) &&
             !shm_slots_fit(w->control, index, &m, record_size, &slots));
    if (__builtin_expect(slots != m.slots || m.full != 0, 0)) {
        code = refusals(w, index, &m, slots, &slots);
        if (slots == 0)
            goto abandon;
    }
    if (__builtin_expect(keyed, 0))
        key = (uint64_t) atomic_load_explicit(&t->owner, memory_order_relaxed) << 32 | ++t->keys;
    record = shm_writer_reserve(w, shm_record_size(record_size));
    if (__builtin_expect(!record, 0)) {
        shm_writer_lost(w, SHM_LOST_RING_FULL, index, slots);
        shm_writer_abandon(w);
        ring_full(p, stamp);
        return ERROR_NOT_ENOUGH_MEMORY;
    }
    *record = (struct etl_record){
        .size = shm_record_size(record_size),
        .cpu = cpu_now(),
        .type = SHM_RECORD_EVENT,
        .flags = flags,
        .registration = (uint16_t) index,
        .generation = (uint16_t) m.generation,
        .slots = slots,
    };
    event_put((uint8_t *) (record + 1), r, e, stamp, record_size, keyed ? &key : NULL);
    if (__builtin_expect(shm_writer_publish(w, shm_record_size(record_size)), 0)) {
        /* Once the ring may be written again by a signal handler. */
        atomic_store_explicit(&t->waking, 1, memory_order_relaxed);
        *ret_wake = true;
    }
    return code;

abandon:
    shm_writer_abandon(w);
    return code;
}

/* The thread has no ring of this epoch. */
static __attribute__((noinline)) uint32_t ring_prepare(struct process *p, struct thread *t,
                                                       uint32_t index, const EVENT_DESCRIPTOR *d,
                                                       uint64_t filter, bool *ret_ready)
{
    int r = ring_ready(p, t);

    *ret_ready = r == 0;
    if (r != -ENOBUFS)
        return ERROR_SUCCESS;
    lost_without_ring(p, SHM_LOST_RING_FULL, index, d, filter);
    return ERROR_NOT_ENOUGH_MEMORY;
}

static inline __attribute__((always_inline)) ULONG
write_event(REGHANDLE handle, PCEVENT_DESCRIPTOR descriptor, uint64_t filter, LPCGUID activity,
            LPCGUID related, ULONG n, const EVENT_DATA_DESCRIPTOR *data, uint16_t flags)
{
    struct process *p = provider_process;
    struct registration *r;
    struct event e;
    struct mark mark;
    struct thread *t;
    bool wake = false;
    uint32_t index;
    uint32_t size;
    uint32_t code;

    r = registration_find(handle, &index);
    if (__builtin_expect(!r, 0))
        return finish(ERROR_INVALID_HANDLE);
    if (__builtin_expect(!descriptor || (n > 0 && !data) || n > MAX_EVENT_DATA_DESCRIPTORS, 0))
        return finish(ERROR_INVALID_PARAMETER);
    if (!etw_provider_wants(handle, descriptor->Level, descriptor->Keyword))
        return ERROR_SUCCESS;
    e = (struct event){
        .descriptor = descriptor,
        .data = data,
        .n = n,
        .activity = activity ? activity : &provider_activity,
        .related = related,
        .flags = flags,
    };
    code = event_measure(r, &e, &size);
    if (__builtin_expect(code != ERROR_SUCCESS, 0))
        return finish(code);
    t = provider_thread;
    if (__builtin_expect(!t || atomic_load_explicit(&t->in_progress, memory_order_relaxed) != 0,
                         0)) {
        t = thread_enter(p, (uintptr_t) &mark, index, descriptor, filter, &code);
        if (!t)
            return finish(code);
    }
    mark.check = mark_check((uintptr_t) &mark);
    atomic_store_explicit(&t->in_progress, (uintptr_t) &mark, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(t->epoch != atomic_load_explicit(&p->epoch, memory_order_acquire), 0)) {
        bool ready;
        code = ring_prepare(p, t, index, descriptor, filter, &ready);
        if (!ready)
            goto out;
    }
    code = write_marked(p, t, r, index, &e, size, filter, &wake);

out:
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&t->in_progress, 0, memory_order_release);
    if (__builtin_expect(wake, 0))
        thread_wake(p, t);
    return __builtin_expect(code == ERROR_SUCCESS, 1) ? ERROR_SUCCESS : finish(code);
}

ULONG provider_write(REGHANDLE handle, PCEVENT_DESCRIPTOR descriptor, uint64_t filter,
                     LPCGUID activity, LPCGUID related, ULONG n, const EVENT_DATA_DESCRIPTOR *data,
                     uint16_t flags)
{
    return write_event(handle, descriptor, filter, activity, related, n, data, flags);
}

ULONG EVNTAPI EventWrite(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor,
                         ULONG UserDataCount, PEVENT_DATA_DESCRIPTOR UserData)
{
    return write_event(RegHandle, EventDescriptor, 0, NULL, NULL, UserDataCount, UserData, 0);
}

ULONG EVNTAPI EventWriteTransfer(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor,
                                 LPCGUID ActivityId, LPCGUID RelatedActivityId, ULONG UserDataCount,
                                 PEVENT_DATA_DESCRIPTOR UserData)
{
    return write_event(RegHandle, EventDescriptor, 0, ActivityId, RelatedActivityId, UserDataCount,
                       UserData, 0);
}

ULONG EVNTAPI EventWriteEx(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor, ULONG64 Filter,
                           ULONG Flags, LPCGUID ActivityId, LPCGUID RelatedActivityId,
                           ULONG UserDataCount, PEVENT_DATA_DESCRIPTOR UserData)
{
    uint32_t index;

    if (!registration_find(RegHandle, &index))
        return finish(ERROR_INVALID_HANDLE);
    if (Flags & ~(EVENT_WRITE_FLAG_NO_FAULTING | EVENT_WRITE_FLAG_INPRIVATE))
        return finish(ERROR_INVALID_PARAMETER);
    return provider_write(RegHandle, EventDescriptor, Filter, ActivityId, RelatedActivityId,
                          UserDataCount, UserData, 0);
}
