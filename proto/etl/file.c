/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and reads the buffers of an .etl file. Sizes come from the file, so each is held against
 * the file's own length before memory or reads depend on it. Not a cache, not a merge. One thread
 * at a time.
 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../base/batch.h"
#include "../base/cleanup.h"
#include "../base/fileio.h"
#include "../base/limits.h"
#include "lz77.h"
#include "peek.h"

/* One read a buffer in the pass: the header and enough of the first event to see its stamp. */
#define PROBE_BYTES 128u
_Static_assert(PROBE_BYTES <= ETW_BATCH_BYTES, "a probe is one read of a batch");
/* The header event stands first and is an event. */
#define FIRST_BYTES (ETL_BUFFER_HEADER_SIZE + ETW_EVENT_MAX)

struct etl_file {
    int fd;
    uint64_t size;
    uint8_t *first; /* the first buffer's beginning: header names point into it */
    struct etl_buffer_info first_info;
    struct etl_logfile header;

    bool indexed;
    bool truncated;
    struct etl_buffer_ref *refs;
    size_t n_refs;
    size_t cap_refs;
    size_t buffer_bytes; /* the most memory that a buffer takes */
    uint8_t *scratch;    /* compressed bytes of the buffer being read */
    size_t scratch_size;
};

static int read_first(struct etl_file *f)
{
    struct etl_event e;
    struct etl_iter it;
    ssize_t n;
    int r;

    f->first = malloc(FIRST_BYTES);
    if (!f->first)
        return -ENOMEM;
    n = etw_pread(f->fd, f->first, FIRST_BYTES, 0);
    if (n < 0)
        return (int) n;
    r = etl_buffer_parse(f->first, (size_t) n, &f->first_info);
    if (r < 0)
        return r;
    if (f->first_info.flags & ETL_BUFFER_COMPRESSED)
        return -EBADMSG; /* nobody writes that */
    etl_iter_init(&it, f->first, (size_t) n, f->first_info.end);
    if (etl_iter_next(&it, &e) != 1)
        return (uint64_t) n < FIRST_BYTES && n < f->first_info.end ? -ENODATA : -EBADMSG;
    return etl_logfile_parse(&e, &f->header);
}

int etl_file_open_fd(int fd, struct etl_file **ret)
{
    struct etl_file *f;
    struct stat st;
    int r;

    f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (f->fd < 0) {
        r = -errno;
        goto fail;
    }
    if (fstat(f->fd, &st) < 0) {
        r = -errno;
        goto fail;
    }
    f->size = S_ISREG(st.st_mode) ? (uint64_t) st.st_size : 0;
    r = f->size == 0 ? (S_ISREG(st.st_mode) ? -ENODATA : -EBADMSG) : read_first(f);
    if (r < 0)
        goto fail;
    *ret = f;
    return 0;

fail:
    (void) etl_file_free(f);
    return r;
}

struct etl_file *etl_file_free(struct etl_file *f)
{
    if (!f)
        return NULL;
    (void) safe_close(f->fd);
    free(f->first);
    free(f->refs);
    free(f->scratch);
    free(f);
    return NULL;
}

const struct etl_logfile *etl_file_header(const struct etl_file *f)
{
    return &f->header;
}

uint64_t etl_file_size(const struct etl_file *f)
{
    return f->size;
}

/* How many of a buffer's bytes are in the file. */
static uint64_t bytes_present(const struct etl_file *f, uint64_t offset, uint32_t size)
{
    uint64_t left = f->size - offset;

    return size < left ? size : left;
}

/* Memory that a buffer takes when it is read. */
static size_t memory_needed(const struct etl_file *f, uint64_t offset,
                            const struct etl_buffer_info *info)
{
    uint64_t present = bytes_present(f, offset, info->size);

    return (size_t) (info->flags & ETL_BUFFER_COMPRESSED && info->end > present ? info->end
                                                                                : present);
}

/* Stamp of the first event that has one, from the whole buffer: the first bytes did not tell. */
static int first_stamp(struct etl_file *f, const struct etl_buffer_ref *ref, size_t memory,
                       uint64_t *ret)
{
    _cleanup_free_ uint8_t *buf = malloc(memory);
    struct etl_buffer_info info;
    struct etl_event e;
    struct etl_iter it;
    size_t len;
    int r;

    if (!buf)
        return -ENOMEM;
    *ret = UINT64_MAX;
    r = etl_file_read_buffer(f, ref, buf, memory, &info, &len);
    if (r < 0)
        return r == -EBADMSG ? 0 : r; /* damaged: it has none */
    etl_iter_init(&it, buf, len, info.end);
    while (etl_iter_next(&it, &e) == 1)
        if (e.has_time) {
            *ret = e.time_stamp;
            break;
        }
    return 0;
}

/* The same from the n bytes that the pass reads of each buffer. */
static bool probe_stamp(const struct etl_buffer_info *info, const uint8_t *probe, size_t n,
                        uint64_t *ret)
{
    const uint8_t *data = probe + ETL_BUFFER_HEADER_SIZE;
    uint8_t plain[PROBE_BYTES - ETL_BUFFER_HEADER_SIZE];
    size_t size = n - ETL_BUFFER_HEADER_SIZE;

    if (info->flags & ETL_BUFFER_COMPRESSED) {
        /* Both ends are arbitrary, so that this says -EBADMSG; what came out is what counts. */
        (void) etl_lz77_decompress(data, size, plain, sizeof(plain), &size);
        data = plain;
    }
    return etl_peek_stamp(data, size, ret);
}

static int append_ref(struct etl_file *f, const struct etl_buffer_ref *ref)
{
    if (f->n_refs == f->cap_refs) {
        size_t cap = f->cap_refs ? 2 * f->cap_refs : 64;
        struct etl_buffer_ref *refs = reallocarray(f->refs, cap, sizeof(*refs));
        if (!refs)
            return -ENOMEM;
        f->refs = refs;
        f->cap_refs = cap;
    }
    f->refs[f->n_refs++] = *ref;
    return 0;
}

/* Whether consumers find events in a buffer of this type. */
static bool has_events(uint16_t type)
{
    switch (type) {
    case ETL_BUFFER_GENERIC:
    case ETL_BUFFER_RUNDOWN:
    case ETL_BUFFER_CTX_SWAP:
    case ETL_BUFFER_HEADER:
    case ETL_BUFFER_BATCHED:
        return true;
    default:
        return false;
    }
}

static int index_buffer(struct etl_file *f, uint64_t offset, const struct etl_buffer_info *info,
                        const uint8_t *probe, size_t n)
{
    struct etl_buffer_ref ref = {
        .offset = offset,
        .first_time = UINT64_MAX,
        .sequence_number = info->sequence_number,
        .size = info->size,
        .processor = info->processor,
        .flags = info->flags,
    };
    size_t memory = memory_needed(f, offset, info);
    int r;

    if (!has_events(info->type))
        return 0;
    if (info->end > ETL_BUFFER_HEADER_SIZE && !probe_stamp(info, probe, n, &ref.first_time)) {
        r = first_stamp(f, &ref, memory, &ref.first_time);
        if (r < 0)
            return r;
    }
    if (memory > f->buffer_bytes)
        f->buffer_bytes = memory;
    return append_ref(f, &ref);
}

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

/* The size in a buffer header that is damaged otherwise, when it is the session's; else 0. */
static uint32_t session_buffer(const struct etl_file *f, const uint8_t *p, size_t n)
{
    uint32_t size;

    if (n < ETL_BUFFER_HEADER_SIZE)
        return 0;
    memcpy(&size, p, sizeof(size));
    return size >= ETL_BUFFER_HEADER_SIZE && size == f->header.buffer_size ? size : 0;
}

/* The pass reads PROBE_BYTES of each buffer. Most files have buffers of one size, so that the next
 * places are known: they are read ahead in rounds, where io_uring lets us. */
struct probes {
    struct etw_batch *batch;
    bool refused;   /* there is no batch */
    uint64_t first; /* the round's first place */
    uint64_t stride;
    unsigned count;   /* places in the round */
    uint64_t last;    /* the place asked for last */
    unsigned regular; /* how many times in a row the distance was `stride` */
};
#define PROBES_REGULAR 16u

static void probes_ahead(const struct etl_file *f, struct probes *p, uint64_t offset)
{
    uint64_t left = (f->size - offset) / p->stride;

    p->count = 0;
    if (p->refused || left < PROBES_REGULAR)
        return;
    if (!p->batch && etw_batch_new(&p->batch) < 0) {
        p->refused = true;
        return;
    }
    p->first = offset;
    p->count = left < ETW_BATCH_READS ? (unsigned) left : ETW_BATCH_READS;
    if (etw_batch_read(p->batch, f->fd, offset, p->stride, p->count, PROBE_BYTES) < 0) {
        p->refused = true;
        p->count = 0;
    }
}

/* PROBE_BYTES at offset, short at the end of the file. */
static ssize_t probes_get(const struct etl_file *f, struct probes *p, uint64_t offset, void *buf)
{
    uint64_t stride = offset - p->last;

    p->regular = stride == p->stride ? p->regular + 1 : 0;
    p->stride = stride;
    p->last = offset;
    if (p->regular >= PROBES_REGULAR) {
        const uint8_t *bytes;
        uint64_t at;
        ssize_t n;

        if (p->count == 0 || offset < p->first || (offset - p->first) / stride >= p->count)
            probes_ahead(f, p, offset);
        at = p->count > 0 ? (offset - p->first) / stride : 0;
        if (at < p->count && p->first + at * stride == offset) {
            bytes = etw_batch_get(p->batch, (unsigned) at, &n);
            if (n == PROBE_BYTES) {
                memcpy(buf, bytes, PROBE_BYTES);
                return n;
            }
        }
    } else {
        p->count = 0;
    }
    return etw_pread(f->fd, buf, PROBE_BYTES, offset);
}

static int walk_buffers(struct etl_file *f, struct probes *probes)
{
    uint64_t offset = 0;
    int r;

    f->n_refs = 0;
    f->buffer_bytes = 0;
    f->truncated = false;
    while (offset < f->size) {
        uint8_t probe[PROBE_BYTES];
        struct etl_buffer_info info;
        ssize_t n = probes_get(f, probes, offset, probe);

        if (n < 0)
            return (int) n;
        if (n == 0) {
            f->truncated = true; /* the file shrank */
            break;
        }
        r = etl_buffer_parse(probe, (size_t) n, &info);
        if (r < 0) {
            uint32_t size = session_buffer(f, probe, (size_t) n);
            /* Zeros are the unused end of a preallocated file. */
            if (!all_zero(probe, (size_t) n))
                f->truncated = true;
            if (size == 0 || size > f->size - offset)
                break;
            offset += size;
            continue;
        }
        r = index_buffer(f, offset, &info, probe, (size_t) n);
        if (r < 0)
            return r;
        if (info.size > f->size - offset) {
            f->truncated = true;
            break;
        }
        offset += info.size;
    }
    return 0;
}

static int build_index(struct etl_file *f)
{
    struct probes probes = {0};
    int r;

    r = walk_buffers(f, &probes);
    (void) etw_batch_free(probes.batch);
    return r;
}

int etl_file_index(struct etl_file *f, const struct etl_buffer_ref **ret_refs, size_t *ret_count,
                   bool *ret_truncated)
{
    int r;

    if (!f->indexed) {
        struct etl_buffer_ref *fitted;

        r = build_index(f);
        if (r < 0)
            return r;
        fitted = f->n_refs > 0 ? reallocarray(f->refs, f->n_refs, sizeof(*f->refs)) : NULL;
        if (fitted) {
            f->refs = fitted;
            f->cap_refs = f->n_refs;
        }
        f->indexed = true;
    }
    *ret_refs = f->refs;
    *ret_count = f->n_refs;
    *ret_truncated = f->truncated;
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const struct etl_buffer_ref *x = a;
    const struct etl_buffer_ref *y = b;

    if (x->first_time != y->first_time)
        return x->first_time < y->first_time ? -1 : 1;
    if (x->sequence_number != y->sequence_number)
        return x->sequence_number < y->sequence_number ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Buffers lie nearly in order, each a few places off: an insertion sort is done in one pass then,
 * and in place (qsort(3) takes as much memory again). False: the file is not like that. */
static bool insertion_sort(struct etl_buffer_ref *refs, size_t n)
{
    enum { MOVES_PER_REF = 64 };
    size_t moves = 0;

    for (size_t i = 1; i < n; i++) {
        struct etl_buffer_ref moving = refs[i];
        size_t at = i;

        while (at > 0 && by_time(&moving, &refs[at - 1]) < 0) {
            refs[at] = refs[at - 1];
            at--;
        }
        refs[at] = moving;
        moves += i - at;
        if (moves / MOVES_PER_REF > i + MOVES_PER_REF)
            return false;
    }
    return true;
}

int etl_file_index_by_time(struct etl_file *f, const struct etl_buffer_ref **ret_refs,
                           size_t *ret_count, bool *ret_truncated)
{
    int r;

    r = etl_file_index(f, ret_refs, ret_count, ret_truncated);
    if (r < 0)
        return r;
    if (f->n_refs > 1 && !insertion_sort(f->refs, f->n_refs))
        qsort(f->refs, f->n_refs, sizeof(*f->refs), by_time);
    *ret_refs = f->refs;
    return 0;
}

size_t etl_file_buffer_bytes(const struct etl_file *f)
{
    return f->buffer_bytes > PROBE_BYTES ? f->buffer_bytes : PROBE_BYTES;
}

/* Reads and decompresses a buffer, whose header is in buf already. */
static int read_compressed(struct etl_file *f, const struct etl_buffer_ref *ref,
                           const struct etl_buffer_info *info, uint8_t *buf, size_t size,
                           size_t *ret_len)
{
    size_t packed = (size_t) bytes_present(f, ref->offset, info->size), good = 0;
    ssize_t n;

    if (info->end > size)
        return -ENOBUFS;
    if (packed <= ETL_BUFFER_HEADER_SIZE)
        return -EBADMSG;
    packed -= ETL_BUFFER_HEADER_SIZE;
    if (packed > f->scratch_size) {
        uint8_t *scratch = realloc(f->scratch, packed);
        if (!scratch)
            return -ENOMEM;
        f->scratch = scratch;
        f->scratch_size = packed;
    }
    n = etw_pread(f->fd, f->scratch, packed, ref->offset + ETL_BUFFER_HEADER_SIZE);
    if (n < 0)
        return (int) n;
    /* A damaged stream is good up to the damage. */
    (void) etl_lz77_decompress(f->scratch, (size_t) n, buf + ETL_BUFFER_HEADER_SIZE,
                               info->end - ETL_BUFFER_HEADER_SIZE, &good);
    *ret_len = ETL_BUFFER_HEADER_SIZE + good;
    return 0;
}

int etl_file_read_buffer(struct etl_file *f, const struct etl_buffer_ref *ref, void *buf,
                         size_t size, struct etl_buffer_info *ret_info, size_t *ret_len)
{
    struct etl_buffer_info info;
    size_t want, len;
    ssize_t n;
    int r;

    if (ref->offset >= f->size)
        return -EBADMSG;
    want = ref->flags & ETL_BUFFER_COMPRESSED ? ETL_BUFFER_HEADER_SIZE
                                              : (size_t) bytes_present(f, ref->offset, ref->size);
    if (want > size)
        return -ENOBUFS;
    n = etw_pread(f->fd, buf, want, ref->offset);
    if (n < 0)
        return (int) n;
    /* The file may be another one by now: judge the header that came with these bytes. */
    r = etl_buffer_parse(buf, (size_t) n, &info);
    if (r < 0 || (info.flags ^ ref->flags) & ETL_BUFFER_COMPRESSED)
        return -EBADMSG;
    len = (size_t) n;
    if (info.flags & ETL_BUFFER_COMPRESSED) {
        r = read_compressed(f, ref, &info, buf, size, &len);
        if (r < 0)
            return r;
    }
    *ret_info = info;
    *ret_len = len;
    return 0;
}
