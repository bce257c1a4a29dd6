/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast the router takes records into a session and its file: synthetic sources with records in
 * final layout, or the rings of a provider process, one router, one session, a file sink, all as in
 * etwd. It fills the sources as fast as the session has buffers, so what it finds is the speed
 * without loss. Rings are filled by this thread, in time that is not counted. Not a test.
 *
 * --keep: the session is kept for a successor, as under a service manager.
 *
 * bench-router [--sources N | --rings N] [--size BYTES] [--events N] [--epoll] [--direct] [--keep]
 *     FILE
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf16.h"
#include "etl/build.h"
#include "io/loop.h"
#include "io/worker.h"
#include "providers/rings.h"
#include "providers/tables.h"
#include "router/router.h"
#include "sessions/file_sink.h"
#include "sessions/internal.h"
#include "shm/arena.h"
#include "shm/control.h"
#include "shm/ring.h"
#include "sessions/keep.h"
#include "state/state.h"

#define BATCH_BYTES (1024u * 1024)

struct source {
    struct router_source base;
    uint8_t *records;
    uint32_t record_size;
    uint32_t n, next;
    uint64_t last;
};

static struct {
    struct loop *loop;
    struct worker *worker;
    struct router *router;
    struct loop_timer *timer;
    struct session *session;
    struct source *sources;
    unsigned n_sources;
    /* Instead of sources. */
    unsigned n_rings;
    struct rings *rings;
    struct ring_set *set;
    struct shm_arena *arena;
    void *control;
    const void *client_control;
    struct shm_control *area;
    struct shm_writer *writers;
    struct etw_conf conf;
    uint32_t event_size;
    uint64_t stamp;
    uint64_t fill_wall, fill_cpu; /* ns that filling took */
    uint64_t events, wanted;
    struct state *state;
    struct session_keeper *keeper;
    bool direct, keep;
    bool opened;
    int result;
} b;

static uint64_t source_begin(struct router_source *base, uint64_t now)
{
    struct source *s = (struct source *) base;
    uint32_t need = b.n_sources * (BATCH_BYTES / b.session->buffer_bytes + 2);
    if (s->next < s->n || session_buffers_left(b.session) < need)
        return now;
    s->next = 0;
    for (uint32_t i = 0; i < s->n; i++)
        etl_event_set_stamp(s->records + (size_t) i * s->record_size + sizeof(struct etl_record),
                            ++s->last);
    return now;
}

static const struct etl_record *source_peek(struct router_source *base, uint64_t *ret_stamp)
{
    struct source *s = (struct source *) base;
    if (s->next == s->n)
        return NULL;
    const uint8_t *rec = s->records + (size_t) s->next * s->record_size;
    memcpy(ret_stamp, rec + sizeof(struct etl_record) + 16, sizeof(*ret_stamp));
    return (const struct etl_record *) rec;
}

static void source_pop(struct router_source *base)
{
    ((struct source *) base)->next++;
    b.events++;
}

static void source_commit(struct router_source *base)
{
}

static const struct router_source_ops ops = {
    .name = "synthetic",
    .begin = source_begin,
    .peek = source_peek,
    .pop = source_pop,
    .commit = source_commit,
};

static int source_init(struct source *s, uint16_t cpu, uint32_t event_size)
{
    s->base.ops = &ops;
    s->record_size = (uint32_t) sizeof(struct etl_record) + etl_padded(event_size);
    s->n = s->next = BATCH_BYTES / s->record_size;
    s->records = calloc(s->n, s->record_size);
    if (!s->records)
        return -ENOMEM;
    s->last = etw_clock_boottime();
    for (uint32_t i = 0; i < s->n; i++) {
        uint8_t *rec = s->records + (size_t) i * s->record_size;
        *(struct etl_record *) rec = (struct etl_record){
            .size = s->record_size,
            .cpu = cpu,
            .type = ETL_RECORD_FINAL,
            .registration = ETL_ROW_Thread_ReadyThread,
        };
        etl_header_put(rec + sizeof(struct etl_record), ETL_ROW_Thread_ReadyThread,
                       event_size - etl_header_size(ETL_ROW_Thread_ReadyThread), i, 1, 0);
    }
    return 0;
}

/* ---- the rings of a process ---- */

struct provider_process {
    struct table table;
    struct process_facts facts;
};

static struct provider_process process = {
    .table = {.generation = 1, .used = 1},
    .facts = {.pid = 1},
};

const struct table *tables_find(const struct provider_process *pp, uint16_t registration,
                                uint16_t generation)
{
    return &pp->table;
}

struct session *tables_counter(const struct provider_process *pp, uint16_t counter)
{
    return NULL;
}

uint32_t tables_counters(const struct provider_process *pp)
{
    return 0;
}

const struct process_facts *process_facts(const struct provider_process *pp)
{
    return &pp->facts;
}

void process_misbehaved(struct provider_process *pp, const char *what)
{
    (void) fprintf(stderr, "bench-router: %s\n", what);
    exit(1);
}

static int rings_init(void)
{
    struct rings_env env = {
        .loop = b.loop,
        .router = b.router,
        .state = b.state,
        .conf = &b.conf,
        .cpus = b.n_sources,
    };
    const struct shm_arena *mapping;
    int arena_fd, control_fd, client_fd, r;

    etw_conf_init(&b.conf);
    process.table.slots[0].session = b.session;
    b.writers = calloc(b.n_rings, sizeof(*b.writers));
    if (!b.writers)
        return -ENOMEM;
    if ((r = rings_new(&env, &b.rings)) < 0 ||
        (r = shm_arena_create(SHM_RING_SIZE_DEFAULT, &arena_fd)) < 0 ||
        (r = shm_control_create(&control_fd, &client_fd)) < 0 ||
        (r = shm_control_map_write(control_fd, &b.control)) < 0 ||
        (r = shm_control_map(client_fd, &b.client_control)) < 0 ||
        (r = shm_control_new(control_fd, b.control, SHM_RING_SIZE_DEFAULT, &b.area)) < 0 ||
        (r = shm_arena_map(arena_fd, SHM_RING_SIZE_DEFAULT, &b.arena)) < 0 ||
        (r = shm_arena_seal(arena_fd, SHM_RING_SIZE_DEFAULT)) < 0 ||
        (r = shm_arena_map_read(arena_fd, SHM_RING_SIZE_DEFAULT, &mapping)) < 0)
        return r;
    struct ring_set_config c = {
        .process = &process,
        .control = b.area,
        .control_base = b.control,
        .ring_size = SHM_RING_SIZE_DEFAULT,
    };
    if ((r = ring_set_new(b.rings, &c, &b.set)) < 0 ||
        (r = ring_set_add_arena(b.set, 0, mapping)) < 0)
        return r;
    for (unsigned i = 0; i < b.n_rings; i++)
        if ((r = shm_arena_give_ring(arena_fd, SHM_RING_SIZE_DEFAULT, i)) < 0 ||
            (r = ring_set_add_rings(b.set, i + 1)) < 0 ||
            (r = shm_writer_claim(&b.writers[i], b.arena, b.client_control, 0, i,
                                  SHM_RING_SIZE_DEFAULT, false, i + 1)) < 0)
            return r;
    b.stamp = etw_clock_boottime();
    return 0;
}

static uint64_t cpu_ns(void)
{
    return etw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Fills the rings turn by turn, as threads at the same speed do. */
static void rings_fill(void)
{
    uint64_t wall = etw_clock_boottime(), cpu = cpu_ns();
    uint32_t size = shm_record_size(b.event_size);
    uint32_t need = b.n_rings * (SHM_RING_SIZE_DEFAULT / b.session->buffer_bytes + 2);
    struct etl_record *p;

    if (session_buffers_left(b.session) < need)
        return;
    for (unsigned i = 0;; i = (i + 1) % b.n_rings) {
        struct shm_writer *w = &b.writers[i];
        p = shm_writer_reserve(w, size);
        if (!p)
            break;
        *p = (struct etl_record){.size = size,
                                 .cpu = (uint16_t) (i % b.n_sources),
                                 .type = SHM_RECORD_EVENT,
                                 .generation = 1,
                                 .slots = 1};
        struct etl_event_header *h = (struct etl_event_header *) (p + 1);
        memset(h, 0, sizeof(*h));
        h->size = (uint16_t) b.event_size;
        h->time_stamp = b.stamp++;
        (void) shm_writer_publish(w, size);
        b.events++;
    }
    b.fill_wall += etw_clock_boottime() - wall;
    b.fill_cpu += cpu_ns() - cpu;
}

static void rings_done(void)
{
    ring_set_free(b.set);
    rings_free(b.rings);
    shm_control_free(b.area);
    shm_arena_unmap(b.arena, SHM_RING_SIZE_DEFAULT);
    shm_control_unmap(b.control);
    shm_control_unmap(b.client_control);
    free(b.writers);
}

/* ---- the run ---- */

static void closed(int result, void *userdata)
{
    b.result = result;
    loop_exit(b.loop, 0);
}

static void turn(void *userdata)
{
    uint64_t before = b.events;
    if (b.n_rings > 0)
        rings_fill();
    router_pass(b.router);
    if (b.events >= b.wanted) {
        router_remove_session(b.router, b.session);
        state_begin(b.state);
        session_flush(b.session, true);
        state_commit(b.state);
        (void) file_sink_close(b.session->sink, closed, NULL);
        return;
    }
    if (b.events > before)
        (void) loop_defer(b.loop, turn, NULL);
    else /* the session has no room: let the disk work */
        (void) loop_timer_arm(b.timer, etw_clock_boottime() + 50000);
}

static void opened(int result, void *userdata)
{
    b.result = result;
    b.opened = true;
    loop_exit(b.loop, 0);
}

static double seconds(const struct timeval *t)
{
    return (double) t->tv_sec + (double) t->tv_usec / 1e6;
}

static int setup(const char *path, enum loop_backend_kind kind, uint32_t event_size)
{
    static const uint32_t masks[8] = {[1] = 0x200};
    struct session_properties p = {
        .buffer_size_kb = 64, .minimum_buffers = 2 * b.n_sources, .maximum_buffers = 256};
    int r;

    p.name = strdup("bench");
    p.log_file = strdup(path);
    if ((r = loop_new_backend(kind, &b.loop)) < 0 ||
        (r = worker_new(b.loop, "worker", &b.worker)) < 0 ||
        (r = router_new(b.loop, 3000000, &b.router)) < 0 ||
        (r = loop_timer_new(b.loop, turn, NULL, &b.timer)) < 0 ||
        (r = session_new(b.loop, &p, b.n_sources, &b.session)) < 0)
        return r;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    if ((r = buffers_new(b.loop, b.session->buffer_bytes, 2 * b.n_sources, 256,
                         &b.session->buffers)) < 0 ||
        (r = file_sink_new(b.loop, b.worker, b.worker, b.session, fd, &b.session->sink)) < 0)
        return r;
    b.event_size = event_size;
    b.sources = calloc(b.n_sources, sizeof(*b.sources));
    if (!b.sources)
        return -ENOMEM;
    for (unsigned i = 0; i < b.n_sources && b.n_rings == 0; i++)
        if ((r = source_init(&b.sources[i], (uint16_t) i, event_size)) < 0 ||
            (r = router_add_source(b.router, &b.sources[i].base)) < 0)
            return r;

    _cleanup_free_ uint16_t *name = etw_utf8_dup_utf16("bench", SIZE_MAX);
    struct etl_logfile_params lf = {
        .buffer_size = b.session->buffer_bytes,
        .processors = b.n_sources,
        .start_time = etw_filetime_now(),
        .start_raw = etw_clock_boottime(),
        .frequency = ETW_NSEC_PER_SEC,
        .clock_type = ETW_CLOCK_QPC,
        .kernel = true,
        .logger_name = name,
        .log_file_name = name,
    };
    r = file_sink_open(b.session->sink, &lf, b.direct, opened, NULL);
    if (r < 0)
        return r;
    r = loop_run(b.loop);
    if (r < 0 || b.result < 0)
        return r < 0 ? r : b.result;
    if (b.keep) {
        if ((r = state_new(&b.state)) < 0 || (r = keeper_new(b.loop, b.state, &b.keeper)) < 0 ||
            (r = keep_session(b.keeper, b.session)) < 0)
            return r;
        router_set_state(b.router, b.state);
    }
    if (b.n_rings > 0 && (r = rings_init()) < 0)
        return r;
    if ((r = router_add_session(b.router, b.session)) < 0)
        return r;
    router_set_masks(b.router, b.session, masks);
    return loop_defer(b.loop, turn, NULL);
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"sources", required_argument, NULL, 's'}, {"size", required_argument, NULL, 'z'},
        {"events", required_argument, NULL, 'n'},  {"epoll", no_argument, NULL, 'e'},
        {"direct", no_argument, NULL, 'd'},        {"keep", no_argument, NULL, 'k'},
        {"rings", required_argument, NULL, 'r'},   {0},
    };
    enum loop_backend_kind kind = LOOP_AUTO;
    uint32_t event_size = 104;
    int c, r;

    b.n_sources = 2;
    b.wanted = 20000000;
    while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0)
        switch (c) {
        case 's':
            b.n_sources = (unsigned) strtoul(optarg, NULL, 10);
            break;
        case 'r':
            b.n_rings = (unsigned) strtoul(optarg, NULL, 10);
            break;
        case 'z':
            event_size = (uint32_t) strtoul(optarg, NULL, 10);
            break;
        case 'n':
            b.wanted = strtoull(optarg, NULL, 10);
            break;
        case 'e':
            kind = LOOP_EPOLL;
            break;
        case 'd':
            b.direct = true;
            break;
        case 'k':
            b.keep = true;
            break;
        default:
            return 2;
        }
    if (optind + 1 != argc || b.n_sources == 0 || event_size < (b.n_rings ? 80 : 40) ||
        event_size > 4096 || b.n_rings > SHM_RINGS_PER_ARENA) {
        (void) fprintf(stderr, "usage: bench-router [--sources N | --rings N] [--size BYTES] "
                               "[--events N] [--epoll] [--direct] [--keep] FILE\n");
        return 2;
    }
    r = setup(argv[optind], kind, event_size);
    if (r < 0) {
        (void) fprintf(stderr, "bench-router: %s: %s\n", argv[optind], strerror(-r));
        return 1;
    }

    struct rusage before, after;
    (void) getrusage(RUSAGE_SELF, &before);
    uint64_t start = etw_clock_boottime();
    r = loop_run(b.loop);
    uint64_t end = etw_clock_boottime();
    (void) getrusage(RUSAGE_SELF, &after);
    if (r < 0 || b.result < 0) {
        (void) fprintf(stderr, "bench-router: %s\n", strerror(r < 0 ? -r : -b.result));
        return 1;
    }
    struct session_counters k;
    session_counters(b.session, &k);
    struct stat st;
    (void) stat(argv[optind], &st);
    double wall = (double) (end - start - b.fill_wall) / 1e9;
    double user = seconds(&after.ru_utime) - seconds(&before.ru_utime) - (double) b.fill_cpu / 1e9;
    double sys = seconds(&after.ru_stime) - seconds(&before.ru_stime);
    uint64_t lost = k.written - k.recorded;
    (void) printf("%s%s, %u %s, %u-byte events: %.2f M events/s, %.2f M events per CPU "
                  "second (%.2f s user, %.2f s system, %.2f s wall), lost %llu, %.3f of the "
                  "events' bytes in the file\n",
                  loop_backend_name(b.loop), b.direct ? " O_DIRECT" : "",
                  b.n_rings ? b.n_rings : b.n_sources, b.n_rings ? "rings" : "sources", event_size,
                  (double) k.recorded / wall / 1e6, (double) k.recorded / (user + sys) / 1e6, user,
                  sys, wall, (unsigned long long) lost,
                  (double) st.st_size / ((double) k.recorded * event_size));

    loop_timer_free(b.timer);
    if (b.n_rings > 0)
        rings_done();
    session_free(b.session);
    router_free(b.router);
    worker_free(b.worker);
    loop_free(b.loop);
    for (unsigned i = 0; i < b.n_sources; i++)
        free(b.sources[i].records);
    free(b.sources);
    return lost ? 1 : 0;
}
