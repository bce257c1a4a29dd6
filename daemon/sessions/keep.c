/* SPDX-License-Identifier: Apache-2.0
 *
 * See keep.h. An image is compared with what is in the block before it is saved and replaced, piece
 * by piece, so that a pass of few events costs few bytes of the journal. Loop thread only.
 */
#include "keep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "file_sink.h"
#include "internal.h"
#include "io/loop.h"
#include "io/uid_workers.h"
#include "memory_sink.h"
#include "names.h"
#include "properties.h"
#include "state/state.h"

struct session_keeper {
    struct loop *loop;
    struct state *state;
    struct state_hook hook;
    struct session *dirty;
    struct session *released;
    bool deferred;
};

struct stream_image {
    uint64_t last;
    uint32_t end;
    uint32_t events;
    uint32_t buffer;
    uint16_t cpu;
    uint16_t reserved;
};
_Static_assert(sizeof(struct stream_image) == 24, "part of the format");

/* Then the streams, one a CPU; then name and log file, each with its NUL. */
struct session_image {
    uint64_t generation;
    uint64_t connection;
    struct etw_clock_line line;
    uint64_t start_filetime;
    uint64_t file_dev, file_ino;
    int64_t next_sequence;
    uint64_t data_buffers_max;
    uint64_t v2_options;
    struct session_counters counters;
    struct etw_guid guid;
    uint32_t masks[8];
    uint32_t owner_uid, owner_pid;
    uint32_t inert_flags;
    uint32_t clock;
    uint32_t buffer_size_kb;
    uint32_t minimum_buffers, maximum_buffers;
    uint32_t maximum_file_size;
    uint32_t log_file_mode;
    uint32_t flush_timer_s;
    uint32_t enable_flags;
    uint32_t flush_threshold;
    int32_t bias_minutes;
    uint32_t state;
    uint32_t n_streams;
    uint32_t name_size, log_file_size;
    uint16_t id;
    uint16_t pending_flags;
    uint8_t single, sealed, trusted, kernel, bound;
    uint8_t reserved[7];
    struct stream_image late[ETWD_LATE_BUFFERS];
};
_Static_assert(sizeof(struct etw_clock_line) == 24, "part of the format");
_Static_assert(sizeof(struct session_counters) == 112, "part of the format");
_Static_assert(sizeof(struct session_image) % 8 == 0, "part of the format");

/* In place of the next, of a session in buffering mode. */
struct memory_image {
    uint64_t ticket;
};

struct sink_image {
    struct file_sink_position position;
    uint8_t header[FILE_SINK_HEADER];
};
_Static_assert(sizeof(struct file_sink_position) == 24, "part of the format");

static struct stream_image *streams_of(struct session_image *image)
{
    return (struct stream_image *) (image + 1);
}

/* ---- images ---- */

static struct stream_image stream_image(const struct stream *st)
{
    return (struct stream_image){
        .last = st->last,
        .end = st->end,
        .events = st->events,
        .buffer = st->buffer,
        .cpu = st->cpu,
    };
}

static void head_make(const struct session *s, struct session_image *ret)
{
    const struct session_properties *p = &s->properties;
    memset(ret, 0, sizeof(*ret)); /* padding too: it is compared */
    ret->generation = s->generation;
    ret->connection = s->connection;
    ret->line = s->line;
    ret->start_filetime = s->start_filetime;
    ret->file_dev = s->file_dev;
    ret->file_ino = s->file_ino;
    ret->next_sequence = s->next_sequence;
    ret->data_buffers_max = s->data_buffers_max;
    ret->v2_options = p->v2_options;
    ret->counters = s->counters;
    ret->guid = p->guid;
    memcpy(ret->masks, s->masks, sizeof(ret->masks));
    ret->owner_uid = s->owner_uid;
    ret->owner_pid = s->owner_pid;
    ret->inert_flags = s->inert_flags;
    ret->clock = p->clock;
    ret->buffer_size_kb = p->buffer_size_kb;
    ret->minimum_buffers = p->minimum_buffers;
    ret->maximum_buffers = p->maximum_buffers;
    ret->maximum_file_size = p->maximum_file_size;
    ret->log_file_mode = p->log_file_mode;
    ret->flush_timer_s = p->flush_timer_s;
    ret->enable_flags = p->enable_flags;
    ret->flush_threshold = p->flush_threshold;
    ret->bias_minutes = p->bias_minutes;
    ret->state = s->state;
    ret->n_streams = s->n_streams;
    ret->name_size = (uint32_t) strlen(p->name) + 1;
    ret->log_file_size = (uint32_t) strlen(p->log_file ? p->log_file : "") + 1;
    ret->id = s->id;
    ret->pending_flags = s->pending_flags;
    ret->single = s->single;
    ret->sealed = s->sealed;
    ret->trusted = s->trusted;
    ret->kernel = s->kernel;
    ret->bound = s->bound;
    for (unsigned i = 0; i < ETWD_LATE_BUFFERS; i++)
        ret->late[i] = stream_image(&s->late[i]);
}

static inline void replace(struct state *st, void *old, const void *new, size_t size)
{
    if (memcmp(old, new, size) == 0)
        return;
    state_save(st, old, size);
    memcpy(old, new, size);
}

static size_t sink_image_size(const struct session_properties *p)
{
    return p->log_file_mode & ETL_MODE_BUFFERING ? sizeof(struct memory_image)
                                                 : sizeof(struct sink_image);
}

static void image_write(struct session *s)
{
    struct session_image *image = s->image, now;
    struct sink_image *sink = s->sink_image;
    struct file_sink_position position;

    head_make(s, &now);
    replace(s->kept, image, &now, sizeof(now));
    for (uint32_t i = 0; i < s->n_streams; i++) {
        struct stream_image st = stream_image(&s->streams[i]);
        replace(s->kept, &streams_of(image)[i], &st, sizeof(st));
    }
    if (s->memory) {
        struct memory_image memory = {.ticket = memory_sink_ticket(s->memory)};
        replace(s->kept, sink, &memory, sizeof(memory));
    }
    buffers_image_write(s->buffers, s->kept, s->buffers_image, false);
    if (s->memory)
        return;
    file_sink_position(s->sink, &position);
    replace(s->kept, &sink->position, &position, sizeof(position));
}

/* ---- transactions ---- */

static void commit_deferred(void *userdata)
{
    struct session_keeper *k = userdata;
    k->deferred = false;
    state_begin(k->state);
    state_commit(k->state);
}

void session_dirtied(struct session *s)
{
    struct session_keeper *k = s->keeper;
    s->dirty = true;
    s->next_dirty = k->dirty;
    k->dirty = s;
    /* Without memory the next transaction takes it along. */
    if (!state_active(k->state) && !k->deferred)
        k->deferred = loop_defer(k->loop, commit_deferred, k) == 0;
}

static void before_commit(void *userdata)
{
    struct session_keeper *k = userdata;
    while (k->dirty) {
        struct session *s = k->dirty;
        k->dirty = s->next_dirty;
        if (s->memory)
            memory_sink_trim(s->memory);
        image_write(s);
        s->dirty = false;
        if (s->released || !s->sink)
            continue;
        s->released = true;
        s->next_released = k->released;
        k->released = s;
    }
}

static void after_commit(void *userdata)
{
    struct session_keeper *k = userdata;
    while (k->released) {
        struct session *s = k->released;
        k->released = s->next_released;
        s->released = false;
        file_sink_released(s->sink);
    }
}

static void forget(struct session_keeper *k, struct session *s)
{
    for (struct session **p = &k->dirty; *p; p = &(*p)->next_dirty)
        if (*p == s) {
            *p = s->next_dirty;
            break;
        }
    for (struct session **p = &k->released; *p; p = &(*p)->next_released)
        if (*p == s) {
            *p = s->next_released;
            break;
        }
    s->released = false;
}

int keeper_new(struct loop *l, struct state *st, struct session_keeper **ret)
{
    struct session_keeper *k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    *k = (struct session_keeper){
        .loop = l,
        .state = st,
        .hook = {.before_commit = before_commit, .after_commit = after_commit, .userdata = k},
    };
    state_add_hook(st, &k->hook);
    *ret = k;
    return 0;
}

struct session_keeper *keeper_free(struct session_keeper *k)
{
    if (!k)
        return NULL;
    state_remove_hook(k->state, &k->hook);
    free(k);
    return NULL;
}

/* ---- a session comes and goes ---- */

static uint64_t key_of(const struct session *s)
{
    return session_handle(s);
}

int keep_files(struct session_keeper *k, struct session *s)
{
    int r;

    if (!k)
        return 0;
    r = state_fd_store(k->state, STATE_FD_BUFFERS, key_of(s), buffers_fd(s->buffers));
    if (r < 0 || !s->sink)
        return r;
    r = state_fd_store(k->state, STATE_FD_LOG_FILE, key_of(s), file_sink_fd(s->sink));
    if (r < 0)
        state_fd_drop(k->state, STATE_FD_BUFFERS, key_of(s));
    return r;
}

static size_t image_size(uint32_t n_streams, size_t name_size, size_t log_file_size)
{
    return sizeof(struct session_image) + n_streams * sizeof(struct stream_image) + name_size +
           log_file_size;
}

static int blocks_make(struct session_keeper *k, struct session *s)
{
    const struct session_properties *p = &s->properties;
    const char *log_file = p->log_file ? p->log_file : "";
    size_t name_size = strlen(p->name) + 1, log_file_size = strlen(log_file) + 1;
    struct state *st = k->state;
    int r;

    if ((r = state_block_new(st, STATE_SESSION, key_of(s),
                             image_size(s->n_streams, name_size, log_file_size), &s->image)) < 0 ||
        (r = state_block_new(st, STATE_BUFFERS, key_of(s), buffers_image_size(s->buffers),
                             &s->buffers_image)) < 0 ||
        (r = state_block_new(st, STATE_SINK, key_of(s), sink_image_size(p), &s->sink_image)) < 0)
        return r;
    uint64_t n_slots = 0;
    const uint32_t *slots = s->sink ? file_sink_slots(s->sink, &n_slots) : NULL;
    if (n_slots > 0) {
        r = state_block_new(st, STATE_SLOTS, key_of(s), n_slots * sizeof(*slots),
                            (void **) &s->slots_image);
        if (r < 0)
            return r;
        memcpy(s->slots_image, slots, n_slots * sizeof(*slots));
    }
    char *strings = (char *) (streams_of(s->image) + s->n_streams);
    memcpy(strings, p->name, name_size);
    memcpy(strings + name_size, log_file, log_file_size);
    if (s->sink)
        memcpy(((struct sink_image *) s->sink_image)->header, file_sink_header(s->sink),
               FILE_SINK_HEADER);
    buffers_image_write(s->buffers, st, s->buffers_image, true);
    return 0;
}

static void blocks_free(struct session_keeper *k, struct session *s)
{
    state_block_free(k->state, s->image);
    state_block_free(k->state, s->buffers_image);
    state_block_free(k->state, s->sink_image);
    state_block_free(k->state, s->slots_image);
    s->image = s->buffers_image = s->sink_image = NULL;
    s->slots_image = NULL;
}

void keep_slot(struct session *s, uint64_t place, uint32_t events)
{
    if (!s->slots_image)
        return;
    state_save(s->kept, &s->slots_image[place], sizeof(events));
    s->slots_image[place] = events;
}

int keep_session(struct session_keeper *k, struct session *s)
{
    int r;

    if (!k)
        return 0;
    state_begin(k->state);
    r = blocks_make(k, s);
    if (r < 0)
        blocks_free(k, s);
    else {
        s->kept = k->state;
        s->keeper = k;
        s->dirty = false;
        session_touch(s);
    }
    state_commit(k->state);
    return r;
}

/* It goes on, but a restart would be its end. */
static void unkeep(struct session *s)
{
    struct session_keeper *k = s->keeper;
    struct state *st = k->state;
    state_begin(st);
    forget(k, s);
    blocks_free(k, s);
    state_fd_drop(st, STATE_FD_BUFFERS, key_of(s));
    state_fd_drop(st, STATE_FD_LOG_FILE, key_of(s));
    s->keeper = NULL;
    s->kept = NULL;
    s->dirty = true;
    state_commit(st);
}

void keep_resize(struct session *s)
{
    struct session_keeper *k = s->keeper;
    if (!k || !s->image)
        return;
    state_begin(k->state);
    state_block_free(k->state, s->buffers_image);
    s->buffers_image = NULL;
    int r = state_block_new(k->state, STATE_BUFFERS, key_of(s), buffers_image_size(s->buffers),
                            &s->buffers_image);
    if (r == 0) {
        buffers_image_write(s->buffers, k->state, s->buffers_image, true);
        session_touch(s);
    } else {
        log_warning("session '%s': no memory to hand it on: it would not outlive a restart of etwd",
                    s->properties.name);
        unkeep(s);
    }
    state_commit(k->state);
    if (r < 0 && s->sink)
        file_sink_released(s->sink);
}

void keep_file(struct session *s)
{
    struct session_keeper *k = s->keeper;
    if (!k || !s->image)
        return;
    state_begin(k->state);
    state_fd_drop(k->state, STATE_FD_LOG_FILE, key_of(s));
    int r = state_fd_store(k->state, STATE_FD_LOG_FILE, key_of(s), file_sink_fd(s->sink));
    blocks_free(k, s);
    if (r == 0)
        r = blocks_make(k, s);
    if (r == 0)
        session_touch(s);
    else {
        log_warning("session '%s': no room to hand it on: it would not outlive a restart of etwd",
                    s->properties.name);
        unkeep(s);
    }
    state_commit(k->state);
}

void keep_end(struct session_keeper *k, struct session *s)
{
    if (!k)
        return;
    if (s->keeper) {
        unkeep(s);
        return;
    }
    /* It never ran. */
    state_begin(k->state);
    state_fd_drop(k->state, STATE_FD_BUFFERS, key_of(s));
    state_fd_drop(k->state, STATE_FD_LOG_FILE, key_of(s));
    state_commit(k->state);
}

/* ---- a successor ---- */

/* The strings of an image: copies. */
static int strings_take(const struct session_image *image, size_t size, char **ret_name,
                        char **ret_log_file)
{
    size_t streams;
    if (size < sizeof(*image) || image->name_size == 0 || image->log_file_size == 0 ||
        __builtin_mul_overflow(image->n_streams, sizeof(struct stream_image), &streams) ||
        streams > size - sizeof(*image) ||
        size != sizeof(*image) + streams + image->name_size + image->log_file_size)
        return -EBADMSG;
    const char *name = (const char *) (image + 1) + streams, *file = name + image->name_size;
    if (memchr(name, '\0', image->name_size) != name + image->name_size - 1 ||
        memchr(file, '\0', image->log_file_size) != file + image->log_file_size - 1)
        return -EBADMSG;
    *ret_name = strdup(name);
    *ret_log_file = *file ? strdup(file) : NULL;
    return *ret_name && (*ret_log_file || !*file) ? 0 : -ENOMEM;
}

static int head_take(struct session *s, const struct session_image *i, uint64_t handle)
{
    s->generation = i->generation;
    s->connection = i->connection;
    s->line = i->line;
    s->head.converts = s->line.type == ETW_CLOCK_SYSTEM || s->line.type == ETW_CLOCK_CYCLE;
    s->start_filetime = i->start_filetime;
    s->file_dev = i->file_dev;
    s->file_ino = i->file_ino;
    s->has_file = !(s->properties.log_file_mode & ETL_MODE_BUFFERING);
    s->next_sequence = i->next_sequence;
    s->data_buffers_max = i->data_buffers_max;
    s->counters = i->counters;
    memcpy(s->masks, i->masks, sizeof(s->masks));
    s->owner_uid = i->owner_uid;
    s->owner_pid = i->owner_pid;
    s->inert_flags = i->inert_flags;
    s->state = (enum session_state) i->state;
    s->id = i->id;
    s->pending_flags = i->pending_flags;
    s->sealed = i->sealed != 0;
    s->trusted = i->trusted != 0;
    s->kernel = i->kernel != 0;
    s->bound = i->bound != 0;
    return session_handle(s) == handle &&
                   (s->state == SESSION_RUNNING || s->state == SESSION_STOPPING) &&
                   s->next_sequence > 0
               ? 0
               : -EBADMSG;
}

/* A stream with an open buffer of its own; `owned` marks those that have an owner. */
static int stream_take(struct session *s, struct stream *st, const struct stream_image *i,
                       uint8_t *owned)
{
    st->last = i->last;
    if (i->buffer == BUFFER_NONE)
        return 0;
    if (i->buffer >= buffers_maximum(s->buffers) || owned[i->buffer] ||
        i->end < ETL_BUFFER_HEADER_SIZE || i->end > s->buffer_bytes || i->end % 8 != 0)
        return -EBADMSG;
    const struct buffer *b = buffers_get(s->buffers, i->buffer);
    if (!b->out || b->ticket)
        return -EBADMSG;
    owned[i->buffer] = 1;
    st->buffer = i->buffer;
    st->data = b->data;
    st->end = i->end;
    st->events = i->events;
    st->cpu = i->cpu;
    return 0;
}

static int streams_take(struct session *s, const struct session_image *image)
{
    const struct stream_image *streams = (const struct stream_image *) (image + 1);
    uint32_t n = buffers_maximum(s->buffers);
    int r = 0;

    _cleanup_free_ uint8_t *owned = calloc(n, 1);
    if (!owned)
        return -ENOMEM;
    for (uint32_t i = 0; i < image->n_streams && r == 0; i++)
        r = stream_take(s, &s->streams[i], &streams[i], owned);
    for (uint32_t i = 0; i < ETWD_LATE_BUFFERS && r == 0; i++)
        r = stream_take(s, &s->late[i], &image->late[i], owned);
    for (uint32_t i = 0; i < n && r == 0; i++) {
        const struct buffer *b = buffers_get(s->buffers, i);
        if (b->out && !b->ticket && !owned[i])
            r = -EBADMSG;
    }
    return r;
}

static int session_from(struct session_keeper *k, const struct session_image *i, size_t size,
                        unsigned cpus, struct session **ret, char **ret_name)
{
    struct session_properties p = {
        .guid = i->guid,
        .clock = i->clock,
        .buffer_size_kb = i->buffer_size_kb,
        .minimum_buffers = i->minimum_buffers,
        .maximum_buffers = i->maximum_buffers,
        .maximum_file_size = i->maximum_file_size,
        .log_file_mode = i->log_file_mode,
        .flush_timer_s = i->flush_timer_s,
        .enable_flags = i->enable_flags,
        .flush_threshold = i->flush_threshold,
        .v2_options = i->v2_options,
        .bias_minutes = i->bias_minutes,
    };
    int r;

    r = strings_take(i, size, &p.name, &p.log_file);
    if (p.name)
        *ret_name = strdup(p.name);
    bool single = (p.log_file_mode & ETL_MODE_NO_PER_PROCESSOR_BUFFERING) != 0;
    if (r == 0 &&
        (p.buffer_size_kb < ETW_BUFFER_KB_MIN || p.buffer_size_kb > ETW_BUFFER_KB_MAX ||
         i->n_streams == 0 || i->n_streams > UINT16_MAX + 1u || (single && i->n_streams != 1)))
        r = -EBADMSG;
    /* Another number of processors than before: none loses its stream. */
    if (r == 0 && !p.log_file != !!(p.log_file_mode & ETL_MODE_BUFFERING))
        r = -EBADMSG;
    if (r == 0)
        r = session_new(k->loop, &p, i->n_streams > cpus ? i->n_streams : cpus, ret);
    session_properties_clear(&p);
    return r;
}

int keep_load(struct session_keeper *k, uint64_t handle, const void *image, size_t size,
              unsigned cpus, struct session **ret, char **ret_name)
{
    const struct session_image *i = image;
    struct session *s = NULL;
    size_t buffers_size, sink_size;
    int r;

    *ret_name = NULL;
    if (size < sizeof(*i))
        return -EBADMSG;
    void *books = state_block_find(k->state, STATE_BUFFERS, handle, &buffers_size);
    void *sink = state_block_find(k->state, STATE_SINK, handle, &sink_size);
    r = session_from(k, i, size, cpus, &s, ret_name);
    if (r < 0)
        return r;
    r = head_take(s, i, handle);
    if (r == 0 && (!books || !sink || sink_size != sink_image_size(&s->properties)))
        r = -EBADMSG;
    if (r == 0) {
        s->folded_name = session_name_fold(s->properties.name);
        if (!s->folded_name)
            r = -ENOMEM;
    }
    _cleanup_close_ int fd = -1;
    if (r == 0)
        r = fd = state_fd_take(k->state, STATE_FD_BUFFERS, handle);
    if (r >= 0)
        r = buffers_new_from(k->loop, fd, s->buffer_bytes, books, buffers_size, &s->buffers);
    if (r == 0) {
        (void) take_fd(&fd);
        r = streams_take(s, i);
    }
    if (r < 0) {
        session_free(s);
        return r;
    }
    s->image = (void *) image;
    s->buffers_image = books;
    s->sink_image = sink;
    *ret = s;
    return 0;
}

static int load_file_sink(struct session_keeper *k, struct session *s)
{
    const struct sink_image *sink = s->sink_image;
    int r;

    r = state_fd_take(k->state, STATE_FD_LOG_FILE, key_of(s));
    if (r < 0)
        return r;
    r = file_sink_new(k->loop, s->workers->files, s->workers->syncer, s, r, &s->sink);
    if (r < 0)
        return r;
    if (!s->trusted)
        file_sink_write_by(s->sink, s->workers->files);
    uint64_t n_slots;
    size_t slots_size = 0;
    r = file_sink_shape(s->sink, session_file_bytes(&s->properties));
    if (r < 0)
        return r;
    (void) file_sink_slots(s->sink, &n_slots);
    s->slots_image = state_block_find(k->state, STATE_SLOTS, key_of(s), &slots_size);
    if ((s->slots_image ? slots_size : 0) != n_slots * sizeof(uint32_t))
        return -EBADMSG;
    return file_sink_resume(s->sink, &sink->position, s->slots_image, sink->header);
}

static int load_memory_sink(struct session *s)
{
    const struct memory_image *image = s->sink_image;
    int r;

    r = memory_sink_new(s, &s->memory);
    return r < 0 ? r : memory_sink_resume(s->memory, image->ticket);
}

int keep_load_sink(struct session_keeper *k, struct session *s)
{
    uint32_t n_streams = ((const struct session_image *) s->image)->n_streams;
    int r;

    r = s->properties.log_file_mode & ETL_MODE_BUFFERING ? load_memory_sink(s)
                                                         : load_file_sink(k, s);
    if (r < 0)
        return r;
    if (n_streams != s->n_streams) {
        state_begin(k->state);
        blocks_free(k, s);
        r = keep_session(k, s);
        state_commit(k->state);
        return r;
    }
    state_begin(k->state);
    s->kept = k->state;
    s->keeper = k;
    s->dirty = false;
    session_touch(s); /* its sink goes on with the commit */
    state_commit(k->state);
    return 0;
}

void keep_drop(struct session_keeper *k, uint64_t handle)
{
    static const enum state_kind kinds[] = {STATE_SESSION, STATE_BUFFERS, STATE_SINK, STATE_SLOTS};
    state_begin(k->state);
    for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
        void *block = state_block_find(k->state, kinds[i], handle, NULL);
        if (block)
            state_block_free(k->state, block);
    }
    state_fd_drop(k->state, STATE_FD_BUFFERS, handle);
    state_fd_drop(k->state, STATE_FD_LOG_FILE, handle);
    state_commit(k->state);
}
