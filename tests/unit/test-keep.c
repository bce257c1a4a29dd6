/* SPDX-License-Identifier: Apache-2.0
 *
 * A session over the deaths of its daemon, in small: children one after the other run one session
 * and its file, number the events that they put into it, and are killed at any moment; each goes on
 * with the state, the buffers and the file of the one before. In the end each number is in the file
 * exactly once. And books that were damaged: refused or taken, never a crash.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "daemon-fixture.h"
#include "io/uid_workers.h"
#include "sessions/keep.h"
#include "state/internal.h"

enum { GOT_STATE, GOT_BUFFERS, GOT_FILE, GOT_MAX };

/* What a child hands on, and what it was handed. */
static int to_parent = -1;
static int handed[GOT_MAX] = {-1, -1, -1};

static void hand_on(int what, int fd)
{
    char data = (char) what;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = &data, .iov_len = 1};
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    if (sendmsg(to_parent, &h, 0) != 1)
        _exit(10);
}

static void take_what_came(int sock)
{
    char data;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = &data, .iov_len = 1};
    for (;;) {
        struct msghdr h = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};
        if (recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
            return;
        int fd;
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(fd));
        ck_assert_int_eq(handed[(int) data], -1); /* each once */
        handed[(int) data] = fd;
    }
}

/* The descriptor store of this test: the linker puts these in place of the real ones. */
bool __wrap_state_kept(const struct state *st);
int __wrap_state_fd_store(struct state *st, enum state_fd_kind kind, uint64_t key, int fd);
int __wrap_state_fd_take(struct state *st, enum state_fd_kind kind, uint64_t key);
void __wrap_state_fd_drop(struct state *st, enum state_fd_kind kind, uint64_t key);

bool __wrap_state_kept(const struct state *st)
{
    return st != NULL;
}

int __wrap_state_fd_store(struct state *st, enum state_fd_kind kind, uint64_t key, int fd)
{
    if (to_parent >= 0)
        hand_on(kind == STATE_FD_BUFFERS ? GOT_BUFFERS : GOT_FILE, fd);
    return 0;
}

int __wrap_state_fd_take(struct state *st, enum state_fd_kind kind, uint64_t key)
{
    int fd = handed[kind == STATE_FD_BUFFERS ? GOT_BUFFERS : GOT_FILE];
    return fd < 0 ? -ENOENT : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void __wrap_state_fd_drop(struct state *st, enum state_fd_kind kind, uint64_t key)
{
}

struct run {
    struct fixture f;
    struct state *state;
    struct session_keeper *keeper;
    struct uid_workers *workers;
    struct loop_timer *timer;
    struct counter {
        uint64_t next;
        uint64_t stamp;
    } * counter; /* a block: as much as a pass is worth */
    bool last;   /* no kill any more: some passes, then the end */
    unsigned passes, seed;
};

static uint64_t key_of_run(void)
{
    return 1u << 16 | 5;
}

#define CHILD(c)                                                                                   \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c);                                \
            _exit(20);                                                                             \
        }                                                                                          \
    } while (0)

static void closed(int result, void *userdata)
{
    struct run *r = userdata;
    CHILD(result == 0);
    keep_end(r->keeper, r->f.session);
    loop_exit(r->f.loop, 0);
}

/* One transaction: some events, as a router's pass. */
static void pass(void *userdata)
{
    struct run *r = userdata;
    struct fixture *f = &r->f;

    if (r->last && ++r->passes > 20) {
        state_begin(r->state);
        session_flush(f->session, true);
        state_commit(r->state);
        CHILD(file_sink_close(f->session->sink, closed, r) == 0);
        return;
    }
    state_begin(r->state);
    state_save(r->state, r->counter, sizeof(*r->counter));
    for (int i = rand_r(&r->seed) % 40; i > 0 && session_buffers_left(f->session) > 12; i--) {
        uint16_t cpu = (uint16_t) (rand_r(&r->seed) % 2);
        uint32_t size = 48 + (uint32_t) rand_r(&r->seed) % 400;
        r->counter->stamp += 1000;
        /* Some are late. */
        uint64_t stamp = r->counter->stamp -
                         (rand_r(&r->seed) % 16 == 0 ? (uint64_t) rand_r(&r->seed) % 9999 : 0);
        CHILD(fixture_event(f, cpu, stamp, size, (uint32_t) r->counter->next));
        r->counter->next++;
    }
    state_commit(r->state);
    if (rand_r(&r->seed) % 64 == 0) {
        state_begin(r->state);
        session_flush(f->session, false);
        state_commit(r->state);
    }
    CHILD(loop_timer_arm(r->timer,
                         etw_clock_boottime() + (uint64_t) (rand_r(&r->seed) % 50) * 1000) == 0);
}

static void opened(int result, void *userdata)
{
    struct run *r = userdata;
    CHILD(result == 0);
    r->f.session->state = SESSION_RUNNING;
    /* Whoever dies before this has not begun. */
    hand_on(GOT_STATE, state_fd(r->state));
    CHILD(keep_files(r->keeper, r->f.session) == 0);
    CHILD(keep_session(r->keeper, r->f.session) == 0);
    CHILD(loop_timer_arm(r->timer, 0) == 0);
}

static void begin_first(struct run *r)
{
    static const uint16_t name[] = {'u', 0};
    struct etl_logfile_params lf = {
        .buffer_size = r->f.session->buffer_bytes,
        .processors = r->f.session->n_streams,
        .start_time = etw_filetime_now(),
        .start_raw = 1,
        .frequency = ETW_NSEC_PER_SEC,
        .clock_type = ETW_CLOCK_QPC,
        .logger_name = name,
        .log_file_name = name,
    };
    state_begin(r->state);
    CHILD(state_block_new(r->state, STATE_RING, 1, sizeof(*r->counter), (void **) &r->counter) ==
          0);
    r->counter->stamp = 100000;
    state_commit(r->state);
    r->f.session->id = 5;
    r->f.session->generation = 1;
    CHILD(file_sink_open(r->f.session->sink, &lf, false, opened, r) == 0);
}

static void begin_next(struct run *r)
{
    size_t size;
    char *name = NULL;
    void *image = state_block_find(r->state, STATE_SESSION, key_of_run(), &size);
    if (!image) /* it died before the session was there */
        _exit(7);
    r->counter = state_block_find(r->state, STATE_RING, 1, NULL);
    CHILD(r->counter);
    int e = keep_load(r->keeper, key_of_run(), image, size, 2, &r->f.session, &name);
    if (e < 0)
        fprintf(stderr, "keep_load: %s\n", strerror(-e));
    CHILD(e == 0);
    CHILD(strcmp(name, "unit") == 0);
    free(name);
    r->f.session->workers = uid_workers_get(r->workers, getuid(), true);
    CHILD(keep_load_sink(r->keeper, r->f.session) == 0);
    fixture_identity(&r->f);
    CHILD(loop_timer_arm(r->timer, 0) == 0);
}

static void child_run(bool last, unsigned seed, bool epoll, const char *path)
{
    static struct run r;
    r.last = last;
    r.seed = seed;
    bool first = handed[GOT_STATE] < 0;
    if (first) {
        fixture_session(&r.f, &(struct fixture_params){
                                  .minimum = 4, .maximum = 24, .epoll = epoll, .path = path});
        r.f.session->trusted = true;
        CHILD(state_new(&r.state) == 0);
    } else {
        CHILD(loop_new_backend(epoll ? LOOP_EPOLL : LOOP_URING, &r.f.loop) == 0);
        CHILD(worker_new(r.f.loop, "worker", &r.f.worker) == 0);
        CHILD(state_load(fcntl(handed[GOT_STATE], F_DUPFD_CLOEXEC, 3), &r.state) == 0);
    }
    CHILD(uid_workers_new(r.f.loop, &r.workers) == 0);
    CHILD(keeper_new(r.f.loop, r.state, &r.keeper) == 0);
    CHILD(loop_timer_new(r.f.loop, pass, &r, &r.timer) == 0);
    if (first)
        begin_first(&r);
    else
        begin_next(&r);
    CHILD(loop_run(r.f.loop) == 0);
    CHILD(state_block_find(r.state, STATE_SESSION, key_of_run(), NULL) == NULL);
    _exit(0);
}

/* Each number below n once; time never runs backwards inside a buffer. */
static void check_numbers(const char *path, uint64_t n)
{
    uint8_t *seen = calloc(n + 1, 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    struct etl_file *file;
    ck_assert_int_eq(etl_file_open_fd(fd, &file), 0);
    const struct etl_buffer_ref *refs;
    size_t buffers, len;
    uint64_t events = 0;
    bool truncated;
    ck_assert_int_eq(etl_file_index(file, &refs, &buffers, &truncated), 0);
    ck_assert(!truncated);
    ck_assert_uint_eq(etl_file_size(file), buffers * etl_file_header(file)->buffer_size);
    uint8_t *buf = malloc(etl_file_buffer_bytes(file));
    for (size_t i = 1; i < buffers; i++) {
        struct etl_buffer_info info;
        struct etl_iter it;
        struct etl_event e;
        uint64_t last = 0;
        ck_assert_int_eq(
            etl_file_read_buffer(file, &refs[i], buf, etl_file_buffer_bytes(file), &info, &len), 0);
        etl_iter_init(&it, buf, len, info.end);
        while (etl_iter_next(&it, &e) == 1) {
            ck_assert_uint_ge(e.time_stamp, last);
            last = e.time_stamp;
            ck_assert_uint_lt(e.thread_id, n);
            ck_assert_msg(!seen[e.thread_id], "event %u is there twice", e.thread_id);
            seen[e.thread_id] = 1;
            events++;
        }
        ck_assert_int_eq(it.error, 0);
    }
    ck_assert_msg(events == n, "%llu events of %llu", (unsigned long long) events,
                  (unsigned long long) n);
    free(buf);
    etl_file_free(file);
    close(fd);
    free(seen);
}

static uint64_t counted(void)
{
    struct state *st;
    ck_assert_int_eq(state_load(fcntl(handed[GOT_STATE], F_DUPFD_CLOEXEC, 3), &st), 0);
    const struct counter *c = state_block_find(st, STATE_RING, 1, NULL);
    ck_assert_ptr_nonnull(c);
    uint64_t n = c->next;
    state_free(st);
    return n;
}

static void deaths(bool epoll, unsigned seed)
{
    char *path = test_path(epoll ? "epoll.etl" : "uring.etl");
    int pair[2], rounds = test_scale(60), killed = 0;

    for (int i = 0; i < GOT_MAX; i++)
        handed[i] = -1;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    for (int i = 0; i <= rounds; i++) {
        bool last = i == rounds;
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            to_parent = pair[1];
            child_run(last, seed + (unsigned) i, epoll, path);
        }
        int status;
        if (!last) {
            /* The first is given time to begin. */
            while (i == 0 && handed[GOT_FILE] < 0) {
                take_what_came(pair[0]);
                usleep(1000);
            }
            usleep((useconds_t) (rand_r(&seed) % 20000) + 1000);
            ck_assert_int_eq(kill(pid, SIGKILL), 0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        take_what_came(pair[0]);
        if (last)
            ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status 0x%x", status);
        else
            ck_assert_msg(WIFSIGNALED(status), "status 0x%x", status);
        killed++;
    }
    uint64_t n = counted();
    ck_assert_msg(n > (uint64_t) killed, "only %llu events", (unsigned long long) n);
    check_numbers(path, n);
    for (int i = 0; i < GOT_MAX; i++)
        handed[i] = safe_close(handed[i]);
    close(pair[0]);
    close(pair[1]);
    free(path);
}

START_TEST(each_once)
{
    deaths(false, 1);
}
END_TEST

START_TEST(each_once_epoll)
{
    deaths(true, 2);
}
END_TEST

/* ---- damaged books ---- */

static void done(int result, void *userdata)
{
    loop_exit(((struct run *) userdata)->f.loop, 0);
}

/* A session with open, closed and free buffers, its blocks, and copies of what it hands on. */
static void damage(unsigned seed)
{
    static const enum state_kind kinds[] = {STATE_SESSION, STATE_BUFFERS, STATE_SINK};
    struct run r = {0};
    unsigned rng = seed;
    char *path = test_path("damaged.etl");
    int taken = 0, refused = 0;

    fixture_session(&r.f, &(struct fixture_params){.minimum = 4, .maximum = 24, .path = path});
    r.f.session->id = 5;
    r.f.session->generation = 1;
    r.f.session->state = SESSION_RUNNING;
    fixture_open(&r.f);
    ck_assert_int_eq(state_new(&r.state), 0);
    ck_assert_int_eq(keeper_new(r.f.loop, r.state, &r.keeper), 0);
    ck_assert_int_eq(keep_session(r.keeper, r.f.session), 0);
    state_begin(r.state);
    for (uint32_t i = 0; i < 200; i++)
        (void) fixture_event(&r.f, (uint16_t) (i % 2), 1000 + i * 10 - (i % 7 == 0 ? 50 : 0), 100,
                             i);
    /* As a process that dies now leaves it: some buffers wait in the sink. */
    r.f.session->kept = NULL;
    state_commit(r.state);
    r.f.session->kept = r.state;
    handed[GOT_BUFFERS] = fcntl(buffers_fd(r.f.session->buffers), F_DUPFD_CLOEXEC, 3);
    handed[GOT_FILE] = open(path, O_RDWR | O_CLOEXEC);

    int rounds = test_scale(400);
    for (int i = 0; i < rounds; i++) {
        struct run n = {0};
        int copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        static uint8_t bytes[65536];
        ck_assert_int_ge(copy, 0);
        ck_assert_int_eq(pread(state_fd(r.state), bytes, sizeof(struct state_header), 0),
                         sizeof(struct state_header));
        ck_assert_int_eq(pwrite(copy, bytes, sizeof(struct state_header), 0),
                         sizeof(struct state_header));
        ck_assert_uint_le(r.state->header->heap_end - STATE_HEAP_OFFSET, sizeof(bytes));
        ck_assert_int_eq(pread(state_fd(r.state), bytes, sizeof(bytes), STATE_HEAP_OFFSET),
                         sizeof(bytes));
        ck_assert_int_eq(pwrite(copy, bytes, sizeof(bytes), STATE_HEAP_OFFSET), sizeof(bytes));
        ck_assert_int_eq(fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        ck_assert_int_eq(state_load(copy, &n.state), 0);

        for (int k = 1 + rand_r(&rng) % 3; k > 0; k--) {
            size_t size;
            uint8_t *block =
                state_block_find(n.state, kinds[rand_r(&rng) % 3], key_of_run(), &size);
            ck_assert_ptr_nonnull(block);
            if (size > 700)
                size = 700; /* not the header's bytes alone */
            size_t at = (size_t) rand_r(&rng) % (size - 4);
            uint32_t v = rand_r(&rng) % 3 == 0 ? UINT32_MAX : (uint32_t) rand_r(&rng) % 300;
            memcpy(block + at, &v, 1 + (size_t) rand_r(&rng) % 4);
        }
        ck_assert_int_eq(loop_new_backend(LOOP_EPOLL, &n.f.loop), 0);
        ck_assert_int_eq(uid_workers_new(n.f.loop, &n.workers), 0);
        ck_assert_int_eq(keeper_new(n.f.loop, n.state, &n.keeper), 0);
        size_t size;
        char *name = NULL;
        void *image = state_block_find(n.state, STATE_SESSION, key_of_run(), &size);
        int e = keep_load(n.keeper, key_of_run(), image, size, 2, &n.f.session, &name);
        free(name);
        if (e == 0) {
            n.f.session->workers = uid_workers_get(n.workers, getuid(), true);
            e = keep_load_sink(n.keeper, n.f.session);
            if (e == 0) {
                taken++;
                state_begin(n.state);
                for (uint32_t k = 0; k < 50; k++)
                    (void) fixture_event(&n.f, (uint16_t) (k % 2), 5000 + k, 100, k);
                session_flush(n.f.session, true);
                state_commit(n.state);
                ck_assert_int_eq(file_sink_close(n.f.session->sink, done, &n), 0);
                ck_assert_int_eq(loop_run(n.f.loop), 0);
            } else
                refused++;
            keep_end(n.keeper, n.f.session);
            session_free(n.f.session);
        } else
            refused++;
        keeper_free(n.keeper);
        uid_workers_settle(n.workers);
        uid_workers_free(n.workers);
        loop_free(n.f.loop);
        state_free(n.state);
    }
    ck_assert_int_gt(taken, 0);
    ck_assert_int_gt(refused, 0);
    handed[GOT_BUFFERS] = safe_close(handed[GOT_BUFFERS]);
    handed[GOT_FILE] = safe_close(handed[GOT_FILE]);
    fixture_sync(&r.f);
    fixture_close(&r.f);
    keep_end(r.keeper, r.f.session);
    r.f.session = session_free(r.f.session);
    keeper_free(r.keeper);
    fixture_free(&r.f);
    state_free(r.state);
    free(path);
}

START_TEST(damaged_books)
{
    damage(77);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("keep");
    TCase *c = tcase_create("keep");
    tcase_set_timeout(c, 600);
    tcase_add_test(c, each_once);
    tcase_add_test(c, each_once_epoll);
    tcase_add_test(c, damaged_books);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_main(suite());
}
