/* SPDX-License-Identifier: Apache-2.0
 *
 * Reader of BPF ring buffers. libbpf's own stores the position after each record and offers no
 * merge; this one takes what is there as a batch, sorts it by stamp and stores the position once
 * the router has everything in its buffers. Loop thread, see rings.h.
 *
 * The format, fixed by the kernel's user interface: a page with the consumer's position (the only
 * one mapped writable), a page with the producer's, then the data, mapped twice in a row so that
 * no record is broken. A record is a u32 of length and flags, a u32 that is the kernel's, the data,
 * padded to 8.
 *
 * Invariants:
 *  - entries[] are records between `consumed` and `scanned`, by stamp; those before `next` have
 *    been popped;
 *  - the stored position is never past a record that has not been popped;
 *  - ahead[] are the records behind it that have been popped: only a successor asks for them;
 *  - whatever is not visible below `scanned` has a stamp that begin() did not vouch for.
 */
#include "rings.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/raw.h"

/* Clocks of CPUs may differ by this much at most in what they show each other. */
#define VOUCH_NS 50000u
/* Records taken in one pass: the rest is there for the next one. */
#define BATCH_MAX 65536u

#define HEADER_SIZE 8u
#define BUSY (1u << 31)
#define DISCARD (1u << 30)

struct entry {
    uint64_t stamp;
    uint64_t position; /* of its header in the ring */
};

struct ring {
    struct router_source source;
    struct probe_rings *rings;
    unsigned cpu;
    int fd;
    uint64_t *consumer; /* one page */
    const uint64_t *producer;
    const uint8_t *data;
    size_t mapped;     /* bytes behind producer */
    uint64_t consumed; /* stored position */
    uint64_t scanned;  /* records up to here are in entries, or gone */
    uint64_t vouched;  /* never falls */
    struct entry *entries;
    size_t n, cap, next;
    /* Positions of popped records that are not before the first one that has not been. */
    uint64_t ahead[RING_AHEAD_MAX];
    unsigned n_ahead;
    bool by_order;           /* there were more */
    struct entry newest;     /* popped, in order of entries */
    uint64_t scanned_before; /* by a predecessor */
    bool changed;            /* since its image was taken */
    uint64_t lost_seen[LOST_COUNT];
};

struct probe_rings {
    unsigned cpus;
    uint64_t bytes;
    size_t page;
    int array_fd;
    int lost_fd;
    const struct lost_counters *lost;
    size_t lost_size;
    struct router *router;
    probe_rings_lost_fn on_lost;
    void *userdata;
    struct ring *ring; /* cpus of them */
};

static uint64_t begin(struct router_source *s, uint64_t now);
static const struct etl_record *peek(struct router_source *s, uint64_t *ret_stamp);
static void pop(struct router_source *s);
static void commit(struct router_source *s);
static uint64_t pending(struct router_source *s);

static const struct router_source_ops ring_ops = {
    .name = "kernel probes",
    .begin = begin,
    .peek = peek,
    .pop = pop,
    .commit = commit,
    .pending = pending,
};

static int ring_map(struct probe_rings *r, struct ring *ring)
{
    ring->mapped = r->page + 2 * (size_t) r->bytes;
    void *p = mmap(NULL, r->page, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
    if (p == MAP_FAILED)
        return -errno;
    ring->consumer = p;
    p = mmap(NULL, ring->mapped, PROT_READ, MAP_SHARED, ring->fd, (off_t) r->page);
    if (p == MAP_FAILED)
        return -errno;
    ring->producer = p;
    ring->data = (const uint8_t *) p + r->page;
    ring->consumed = ring->scanned = __atomic_load_n(ring->consumer, __ATOMIC_RELAXED);
    return 0;
}

int probe_rings_new(unsigned cpus, uint64_t bytes, struct probe_rings **ret)
{
    int r;

    struct probe_rings *rs = calloc(1, sizeof(*rs));
    if (!rs)
        return -ENOMEM;
    rs->cpus = cpus;
    rs->bytes = bytes;
    rs->page = (size_t) sysconf(_SC_PAGESIZE);
    rs->array_fd = rs->lost_fd = -1;
    rs->ring = calloc(cpus, sizeof(*rs->ring));
    if (!rs->ring) {
        r = -ENOMEM;
        goto fail;
    }
    for (unsigned i = 0; i < cpus; i++)
        rs->ring[i].fd = -1;
    for (unsigned i = 0; i < cpus; i++) {
        struct ring *ring = &rs->ring[i];
        ring->source.ops = &ring_ops;
        ring->rings = rs;
        ring->cpu = i;
        ring->fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "etwd_ring", 0, 0, (uint32_t) bytes, NULL);
        if (ring->fd < 0) {
            r = -errno;
            goto fail;
        }
        r = ring_map(rs, ring);
        if (r < 0)
            goto fail;
        if (rs->array_fd < 0) {
            LIBBPF_OPTS(bpf_map_create_opts, opts, .inner_map_fd = (uint32_t) ring->fd);
            rs->array_fd =
                bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "etwd_rings", 4, 4, cpus, &opts);
            if (rs->array_fd < 0) {
                r = -errno;
                goto fail;
            }
        }
        uint32_t key = i;
        if (bpf_map_update_elem(rs->array_fd, &key, &ring->fd, BPF_ANY) < 0) {
            r = -errno;
            goto fail;
        }
    }
    LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
    rs->lost_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "etwd_lost", 4, sizeof(struct lost_counters),
                                 cpus, &opts);
    if (rs->lost_fd < 0) {
        r = -errno;
        goto fail;
    }
    rs->lost_size = ALIGN_UP(cpus * sizeof(struct lost_counters), rs->page);
    void *p = mmap(NULL, rs->lost_size, PROT_READ, MAP_SHARED, rs->lost_fd, 0);
    if (p == MAP_FAILED) {
        r = -errno;
        goto fail;
    }
    rs->lost = p;
    *ret = rs;
    return 0;

fail:
    probe_rings_free(rs);
    return r;
}

struct probe_rings *probe_rings_free(struct probe_rings *r)
{
    if (!r)
        return NULL;
    for (unsigned i = 0; r->ring && i < r->cpus; i++) {
        struct ring *ring = &r->ring[i];
        if (ring->consumer)
            (void) munmap(ring->consumer, r->page);
        if (ring->producer)
            (void) munmap((void *) ring->producer, ring->mapped);
        safe_close(ring->fd);
        free(ring->entries);
    }
    if (r->lost)
        (void) munmap((void *) r->lost, r->lost_size);
    safe_close(r->array_fd);
    safe_close(r->lost_fd);
    free(r->ring);
    free(r);
    return NULL;
}

/* The kernel's word for what a descriptor is. */
static bool map_is(int fd, uint32_t type, uint32_t value_size, uint32_t entries)
{
    struct bpf_map_info info = {0};
    uint32_t size = sizeof(info);

    return bpf_obj_get_info_by_fd(fd, &info, &size) == 0 && info.type == type &&
           info.value_size == value_size && info.max_entries == entries;
}

static int ring_restore(struct ring *ring, const struct ring_image *image)
{
    uint64_t produced = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);

    if (image->consumed < ring->consumed || image->scanned < image->consumed ||
        image->scanned > produced || image->n_ahead > RING_AHEAD_MAX || image->consumed % 8 != 0)
        return -EBADMSG;
    ring->consumed = ring->scanned = image->consumed;
    ring->scanned_before = image->scanned;
    ring->newest = (struct entry){image->newest_stamp, image->newest_position};
    ring->by_order = image->by_order != 0;
    ring->n_ahead = image->n_ahead;
    memcpy(ring->ahead, image->ahead, sizeof(ring->ahead));
    memcpy(ring->lost_seen, image->lost_seen, sizeof(ring->lost_seen));
    __atomic_store_n(ring->consumer, ring->consumed, __ATOMIC_RELEASE);
    return 0;
}

int probe_rings_adopt(unsigned cpus, uint64_t bytes, const int *fds,
                      const struct ring_image *const *images, struct probe_rings **ret)
{
    int r = -EBADMSG;

    struct probe_rings *rs = calloc(1, sizeof(*rs));
    if (!rs)
        return -ENOMEM;
    rs->cpus = cpus;
    rs->bytes = bytes;
    rs->page = (size_t) sysconf(_SC_PAGESIZE);
    rs->array_fd = rs->lost_fd = -1;
    rs->ring = calloc(cpus, sizeof(*rs->ring));
    if (!rs->ring) {
        free(rs);
        return -ENOMEM;
    }
    if (bytes == 0 || bytes > 1u << 30 || (bytes & (bytes - 1)) != 0 || bytes % rs->page != 0 ||
        !map_is(fds[cpus], BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, cpus) ||
        !map_is(fds[cpus + 1], BPF_MAP_TYPE_ARRAY, sizeof(struct lost_counters), cpus))
        goto fail;
    for (unsigned i = 0; i < cpus; i++) {
        struct ring *ring = &rs->ring[i];
        ring->source.ops = &ring_ops;
        ring->rings = rs;
        ring->cpu = i;
        ring->fd = fds[i];
        if (!map_is(fds[i], BPF_MAP_TYPE_RINGBUF, 0, (uint32_t) bytes))
            goto fail;
        r = ring_map(rs, ring);
        if (r == 0)
            r = ring_restore(ring, images[i]);
        if (r < 0)
            goto fail;
        r = -EBADMSG;
    }
    rs->lost_size = ALIGN_UP(cpus * sizeof(struct lost_counters), rs->page);
    void *p = mmap(NULL, rs->lost_size, PROT_READ, MAP_SHARED, fds[cpus + 1], 0);
    if (p == MAP_FAILED) {
        r = -errno;
        goto fail;
    }
    rs->lost = p;
    rs->array_fd = fds[cpus];
    rs->lost_fd = fds[cpus + 1];
    *ret = rs;
    return 0;

fail:
    for (unsigned i = 0; i < cpus; i++)
        rs->ring[i].fd = -1; /* still the caller's */
    probe_rings_free(rs);
    return r;
}

int probe_rings_fd(const struct probe_rings *r, unsigned cpu)
{
    return r->ring[cpu].fd;
}

int probe_rings_array_fd(const struct probe_rings *r)
{
    return r->array_fd;
}

int probe_rings_lost_fd(const struct probe_rings *r)
{
    return r->lost_fd;
}

int probe_rings_attach(struct probe_rings *r, struct router *router, probe_rings_lost_fn lost,
                       void *userdata)
{
    int ret;

    if (r->router)
        return 0;
    r->on_lost = lost;
    r->userdata = userdata;
    r->router = router;
    for (unsigned i = 0; i < r->cpus; i++) {
        ret = router_add_source(router, &r->ring[i].source);
        if (ret < 0) {
            while (i-- > 0)
                router_remove_source(router, &r->ring[i].source);
            r->router = NULL;
            return ret;
        }
    }
    return 0;
}

void probe_rings_detach(struct probe_rings *r)
{
    for (unsigned i = 0; r->router && i < r->cpus; i++)
        router_remove_source(r->router, &r->ring[i].source);
    r->router = NULL;
}

static void ring_sync(struct ring *ring)
{
    struct probe_rings *r = ring->rings;
    const struct lost_counters *lost = &r->lost[ring->cpu];

    for (unsigned i = 0; i < LOST_COUNT; i++) {
        uint64_t now = __atomic_load_n(&lost->n[i], __ATOMIC_RELAXED);
        if (now == ring->lost_seen[i])
            continue;
        uint64_t more = now - ring->lost_seen[i];
        ring->lost_seen[i] = now;
        ring->changed = true;
        r->on_lost(r->userdata, i, more);
    }
}

void probe_rings_sync(struct probe_rings *r)
{
    for (unsigned i = 0; r->router && i < r->cpus; i++)
        ring_sync(&r->ring[i]);
}

/* The stamp of a record: where its kind of header has it. */
static uint64_t record_stamp(const struct etl_record *rec, uint32_t size)
{
    const uint8_t *event = (const uint8_t *) (rec + 1);
    uint64_t stamp = 0;
    size_t at = 0;

    if (rec->type == ETL_RECORD_FINAL && size >= sizeof(*rec) + 4)
        at = event[2] == ETL_PERFINFO64 ? offsetof(struct etl_perfinfo_header, time_stamp)
                                        : offsetof(struct etl_system_header, time_stamp);
    if (size >= sizeof(*rec) + at + sizeof(stamp))
        memcpy(&stamp, event + at, sizeof(stamp));
    return stamp;
}

/* Puts one in at its place: nearly always the end; interrupts that nest change places of a few. */
static bool entry_add(struct ring *ring, uint64_t stamp, uint64_t position)
{
    size_t i;

    if (ring->n == ring->cap) {
        size_t cap = ring->cap ? ring->cap * 2 : 1024;
        struct entry *entries = reallocarray(ring->entries, cap, sizeof(*entries));
        if (!entries)
            return false;
        ring->entries = entries;
        ring->cap = cap;
    }
    for (i = ring->n; i > ring->next && ring->entries[i - 1].stamp > stamp; i--)
        ring->entries[i] = ring->entries[i - 1];
    ring->entries[i] = (struct entry){stamp, position};
    ring->n++;
    return true;
}

static bool entry_after(const struct entry *a, const struct entry *b)
{
    return a->stamp != b->stamp ? a->stamp > b->stamp : a->position > b->position;
}

/* Whether a predecessor has popped it. */
static bool popped_before(const struct ring *ring, const struct entry *e)
{
    if (e->position >= ring->scanned_before)
        return false;
    for (unsigned i = 0; i < ring->n_ahead; i++)
        if (ring->ahead[i] == e->position)
            return true;
    return ring->by_order && !entry_after(e, &ring->newest);
}

/* Lets go of what has been popped: the position up to which nothing is left, and what was popped
 * behind it. */
static uint64_t settle(struct ring *ring)
{
    uint64_t position = ring->scanned;
    unsigned kept = 0;

    for (size_t i = ring->next; i < ring->n; i++)
        if (ring->entries[i].position < position)
            position = ring->entries[i].position;
    for (unsigned i = 0; i < ring->n_ahead; i++)
        if (ring->ahead[i] >= position)
            ring->ahead[kept++] = ring->ahead[i];
    ring->n_ahead = kept;
    if (position == ring->scanned && ring->scanned >= ring->scanned_before)
        ring->by_order = false;
    for (size_t i = 0; i < ring->next; i++) {
        const struct entry *e = &ring->entries[i];
        if (entry_after(e, &ring->newest))
            ring->newest = *e;
        if (e->position < position)
            continue;
        if (ring->n_ahead < RING_AHEAD_MAX)
            ring->ahead[ring->n_ahead++] = e->position;
        else
            ring->by_order = true;
    }
    if (ring->next > 0) {
        ring->n -= ring->next;
        memmove(ring->entries, ring->entries + ring->next, ring->n * sizeof(*ring->entries));
        ring->next = 0;
    }
    return position;
}

bool probe_rings_image(struct probe_rings *r, unsigned cpu, struct ring_image *ret)
{
    struct ring *ring = &r->ring[cpu];

    if (!ring->changed)
        return false;
    ring->changed = false;
    memset(ret, 0, sizeof(*ret));
    ret->consumed = settle(ring);
    ret->scanned = ring->scanned > ring->scanned_before ? ring->scanned : ring->scanned_before;
    ret->newest_stamp = ring->newest.stamp;
    ret->newest_position = ring->newest.position;
    ret->by_order = ring->by_order;
    ret->n_ahead = ring->n_ahead;
    memcpy(ret->ahead, ring->ahead, ring->n_ahead * sizeof(ring->ahead[0]));
    memcpy(ret->lost_seen, ring->lost_seen, sizeof(ret->lost_seen));
    return true;
}

static uint64_t begin(struct router_source *s, uint64_t now)
{
    struct ring *ring = container_of(s, struct ring, source);
    const struct probe_rings *r = ring->rings;
    uint64_t mask = r->bytes - 1;
    /* Nothing that is reserved after this look has a stamp before `now`. */
    uint64_t produced = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
    bool all = true;
    uint64_t last = ring->n > ring->next ? ring->entries[ring->n - 1].stamp : 0;

    while (ring->scanned < produced) {
        const uint8_t *header = ring->data + (ring->scanned & mask);
        uint32_t word = __atomic_load_n((const uint32_t *) header, __ATOMIC_ACQUIRE);
        uint32_t len = word & ~(BUSY | DISCARD);
        if (word & BUSY || ring->n - ring->next >= BATCH_MAX) {
            all = false;
            break;
        }
        if (!(word & DISCARD)) {
            const struct etl_record *rec = (const void *) (header + HEADER_SIZE);
            uint64_t stamp = len >= sizeof(*rec) ? record_stamp(rec, len) : 0;
            struct entry e = {stamp, ring->scanned};
            if (popped_before(ring, &e)) {
                /* is in sessions */
            } else if (!entry_add(ring, stamp, ring->scanned)) {
                all = false; /* no memory: in the next pass */
                break;
            }
            if (stamp > last)
                last = stamp;
        }
        ring->changed = true;
        ring->scanned += ALIGN_UP((uint64_t) len + HEADER_SIZE, 8u);
    }
    ring_sync(ring);

    uint64_t vouched = now > VOUCH_NS ? now - VOUCH_NS : 0;
    if (!all)
        vouched = last;
    if (vouched > ring->vouched)
        ring->vouched = vouched;
    return ring->vouched;
}

static const struct etl_record *peek(struct router_source *s, uint64_t *ret_stamp)
{
    struct ring *ring = container_of(s, struct ring, source);

    if (ring->next == ring->n)
        return NULL;
    const struct entry *e = &ring->entries[ring->next];
    *ret_stamp = e->stamp;
    return (const void *) (ring->data + (e->position & (ring->rings->bytes - 1)) + HEADER_SIZE);
}

static void pop(struct router_source *s)
{
    struct ring *ring = container_of(s, struct ring, source);

    ring->next++;
    ring->changed = true;
}

static void commit(struct router_source *s)
{
    struct ring *ring = container_of(s, struct ring, source);
    uint64_t position = settle(ring);

    if (position == ring->consumed)
        return;
    ring->consumed = position;
    __atomic_store_n(ring->consumer, position, __ATOMIC_RELEASE);
}

static uint64_t pending(struct router_source *s)
{
    struct ring *ring = container_of(s, struct ring, source);
    return __atomic_load_n(ring->producer, __ATOMIC_RELAXED) - ring->consumed;
}
