/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel sessions through the control socket under load: what is refused and leaves nothing behind,
 * full disks, losses, the end by size, by SIGTERM and by SIGKILL, changes while it runs. What the
 * events say is tested elsewhere; here they are bytes that must be accounted for.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "etl/file.h"
#include "etl/iterate.h"
#include "etl/layout.h"
#include "hostile/client.h"

#define CSWITCH 0x10u
#define PROCESS 0x1u
#define THREAD 0x2u

static const struct etw_guid kernel_guid = {
    0x9e814aad, 0x3204, 0x11d2, {0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39}};

static struct test_daemon *etwd;
static int sock = -1;

static void begin_with(const char *const args[])
{
    test_need_root();
    etwd = test_daemon_start_args(args);
    sock = client_new();
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__QueryDaemon query = ETWD__QUERY_DAEMON__INIT;
    m.body_case = ETWD__MESSAGE__BODY_QUERY_DAEMON;
    m.query_daemon = &query;
    reply = client_call(sock, &m, NULL, 0);
    if (!reply->daemon_reply->kernel_available)
        test_skip("no kernel events: %s", reply->daemon_reply->kernel_unavailable_why);
    wire_message_free(reply);
    /* The harness's own connection, which told that etwd is there, has gone by then. */
    client_wait_alone(sock);
}

static void end(void)
{
    sock = safe_close(sock);
    if (etwd->pid)
        test_daemon_stop(etwd);
    char *log = test_daemon_log(etwd);
    ck_assert_msg(strstr(log, "Sanitizer") == NULL, "%s", log);
    free(log);
    etwd = test_daemon_free(etwd);
}

struct start {
    const char *file;
    uint32_t flags, buffer_kb, minimum, maximum, mode, max_file, flush_timer;
};

static Etwd__Message *start(const struct start *s)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__StartSession body = ETWD__START_SESSION__INIT;
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    int fd = open(s->file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_msg(fd >= 0, "%s: %m", s->file);
    p.name = (char *) "NT Kernel Logger";
    p.guid.data = (uint8_t *) &kernel_guid;
    p.guid.len = sizeof(kernel_guid);
    p.log_file = (char *) s->file;
    p.enable_flags = s->flags;
    p.buffer_size_kb = s->buffer_kb;
    p.minimum_buffers = s->minimum;
    p.maximum_buffers = s->maximum;
    p.log_file_mode = s->mode;
    p.maximum_file_size = s->max_file;
    p.flush_timer_s = s->flush_timer;
    body.properties = &p;
    body.kernel = true;
    m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    m.start_session = &body;
    Etwd__Message *reply = client_call(sock, &m, &fd, 1);
    safe_close(fd);
    return reply;
}

static void start_ok(const struct start *s)
{
    Etwd__Message *m = start(s);
    ck_assert_msg(m->status == 0, "start: %u %s", m->status, m->reason);
    wire_message_free(m);
}

struct numbers {
    uint32_t status;
    uint64_t written, recorded, lost, disk, no_buffer, probe;
    uint32_t buffers_written, log_buffers_lost, flags;
};

static struct numbers control(Etwd__ControlSession__Code code, Etwd__SessionProperties *p)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__ControlSession body = ETWD__CONTROL_SESSION__INIT;
    struct numbers n = {0};
    body.handle = 0xFFFF;
    body.code = code;
    body.properties = p;
    m.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
    m.control_session = &body;
    Etwd__Message *reply = client_call(sock, &m, NULL, 0);
    n.status = reply->status;
    if (n.status == 0) {
        Etwd__Session *s = reply->session_reply->session;
        n.written = s->written;
        n.recorded = s->recorded;
        n.buffers_written = s->buffers_written;
        n.log_buffers_lost = s->log_buffers_lost;
        n.flags = s->properties->enable_flags;
        for (size_t i = 0; i < s->n_lost; i++) {
            n.lost += s->lost[i]->events;
            if (strcmp(s->lost[i]->cause, "disk") == 0)
                n.disk = s->lost[i]->events;
            if (strcmp(s->lost[i]->cause, "no_buffer") == 0)
                n.no_buffer = s->lost[i]->events;
            if (strcmp(s->lost[i]->cause, "probe_ring_full") == 0)
                n.probe = s->lost[i]->events;
        }
        ck_assert_uint_eq(n.written, n.recorded + n.lost);
    }
    wire_message_free(reply);
    return n;
}

#define QUERY ETWD__CONTROL_SESSION__CODE__QUERY
#define STOP ETWD__CONTROL_SESSION__CODE__STOP
#define UPDATE ETWD__CONTROL_SESSION__CODE__UPDATE
#define FLUSH ETWD__CONTROL_SESSION__CODE__FLUSH

/* Two processes that wake each other: context switches. rounds 0: until killed. */
static pid_t load(unsigned rounds)
{
    pid_t parent = fork();
    ck_assert_int_ge(parent, 0);
    if (parent)
        return parent;
    int a[2], b[2];
    char c = 0;
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pipe(a) < 0 || pipe(b) < 0)
        _exit(1);
    pid_t child = fork();
    if (child == 0) {
        close(a[1]);
        close(b[0]);
        while (read(a[0], &c, 1) == 1 && write(b[1], &c, 1) == 1)
            ;
        _exit(0);
    }
    close(a[0]);
    close(b[1]);
    for (unsigned i = 0; rounds == 0 || i < rounds; i++)
        if (write(a[1], &c, 1) != 1 || read(b[0], &c, 1) != 1)
            _exit(1);
    close(a[1]);
    _exit(waitpid(child, NULL, 0) == child ? 0 : 1);
}

static void load_wait(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

static void load_kill(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

struct file {
    struct etl_logfile header;
    size_t buffers;
    uint64_t events; /* without the first buffer's */
    bool truncated;
};

static struct file read_file(const char *path, bool one_stream)
{
    struct file ret = {0};
    const struct etl_buffer_ref *refs;
    struct etl_file *f;
    uint64_t last = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(etl_file_open_fd(fd, &f), 0);
    ret.header = *etl_file_header(f);
    ck_assert_int_eq(etl_file_index(f, &refs, &ret.buffers, &ret.truncated), 0);
    uint8_t *buf = malloc(etl_file_buffer_bytes(f));
    for (size_t i = 1; i < ret.buffers; i++) {
        struct etl_buffer_info info;
        struct etl_iter it;
        struct etl_event e;
        size_t len;
        if (!one_stream)
            last = 0;
        ck_assert_int_eq(
            etl_file_read_buffer(f, &refs[i], buf, etl_file_buffer_bytes(f), &info, &len), 0);
        etl_iter_init(&it, buf, len, info.end);
        while (etl_iter_next(&it, &e) == 1) {
            ck_assert_uint_ge(e.time_stamp, last);
            last = e.time_stamp;
            ret.events++;
        }
        ck_assert_int_eq(it.error, 0);
    }
    free(buf);
    etl_file_free(f);
    close(fd);
    return ret;
}

/* The file of a session that was stopped says what the answer said. */
/* The buffers of a file that is being written, as far as its header tells. */
static uint32_t header_says(const char *path)
{
    struct etl_file *f;
    uint32_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    if (etl_file_open_fd(fd, &f) == 0) {
        n = etl_file_header(f)->buffers_written;
        etl_file_free(f);
    }
    close(fd);
    return n;
}

static void check_stopped(const char *path, const struct numbers *n)
{
    struct file f = read_file(path, false);
    ck_assert(!f.truncated);
    ck_assert_uint_eq(f.buffers, f.header.buffers_written);
    ck_assert_uint_ne(f.header.end_time, 0);
    if (!n)
        return;
    ck_assert_uint_eq(f.buffers, n->buffers_written);
    ck_assert_uint_eq(f.events, n->recorded);
    ck_assert_uint_eq(f.header.events_lost, n->lost);
    ck_assert_uint_eq(f.header.buffers_lost, n->log_buffers_lost);
}

START_TEST(life)
{
    char *path = test_path("life.etl");
    begin_with(NULL);
    Etwd__Message *m =
        start(&(struct start){.file = path, .flags = CSWITCH | PROCESS | 0x00020000});
    ck_assert_msg(m->status == 0, "%s", m->reason);
    Etwd__Session *s = m->session_reply->session;
    ck_assert_uint_eq(s->handle & 0xFFFF, 0xFFFF);
    ck_assert_uint_eq(s->inert_flags, 0x00020000);
    ck_assert_str_eq(s->properties->name, "NT Kernel Logger");
    ck_assert_mem_eq(s->properties->guid.data, &kernel_guid, 16);
    ck_assert_uint_eq(s->properties->maximum_buffers, 256);
    wire_message_free(m);

    char *other = test_path("second.etl"), pid[32];
    snprintf(pid, sizeof(pid), "pid %d", (int) getpid());
    m = start(&(struct start){.file = other, .flags = CSWITCH});
    ck_assert_uint_eq(m->status, ETW_ERROR_ALREADY_EXISTS);
    ck_assert_ptr_nonnull(strstr(m->reason, pid));
    wire_message_free(m);

    load_wait(load(1000));
    struct numbers before = control(QUERY, NULL), n = control(FLUSH, NULL);
    ck_assert_uint_eq(n.status, 0);
    ck_assert_uint_gt(n.recorded, 2000);
    struct file f = read_file(path, false);
    /* All until the flush, and perhaps more by now; the answer also counts what came meanwhile. */
    ck_assert_uint_ge(f.events, before.recorded);
    ck_assert_uint_le(f.header.buffers_written, f.buffers);
    ck_assert_uint_ge(f.header.buffers_written, n.buffers_written);
    n = control(STOP, NULL);
    ck_assert_uint_eq(n.status, 0);
    ck_assert_uint_eq(n.lost, 0);
    check_stopped(path, &n);
    ck_assert_uint_eq(control(QUERY, NULL).status, ETW_ERROR_WMI_INSTANCE_NOT_FOUND);
    free(path);
    free(other);
    end();
}
END_TEST

START_TEST(refusals_leave_nothing)
{
    char *path = test_path("refused.etl");
    struct stat st;
    begin_with(NULL);
    static const struct {
        uint32_t flags, mode;
        uint32_t status;
    } rows[] = {
        {0x08000000 | CSWITCH, 0, ETW_ERROR_INVALID_FLAGS},
        {0x100 | CSWITCH, 0, ETW_ERROR_NOT_SUPPORTED},
        {0x80000000, 0, ETW_ERROR_NOT_SUPPORTED},
        {CSWITCH, 0x800, ETW_ERROR_INVALID_PARAMETER},
        {CSWITCH, 0x01000000, ETW_ERROR_INVALID_PARAMETER},
    };
    size_t fds = test_count_fds(etwd->pid);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_eq(write(fd, "content", 7), 7);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        Etwd__Message *m =
            start(&(struct start){.file = path, .flags = rows[i].flags, .mode = rows[i].mode});
        ck_assert_msg(m->status == rows[i].status, "row %zu: %u %s", i, m->status, m->reason);
        ck_assert_str_ne(m->reason, "");
        wire_message_free(m);
        ck_assert_uint_eq(client_count_sessions(sock), 0);
    }
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(st.st_size, 7);
    safe_close(fd);
    client_wait_fds(etwd, fds);
    free(path);
    end();
}
END_TEST

/* A small file system fills, has room again, and the session goes on all the time. */
START_TEST(disk_full)
{
    char *dir = test_path("small"), *path, *filler;
    ck_assert_int_gt(asprintf(&path, "%s/full.etl", dir), 0);
    ck_assert_int_gt(asprintf(&filler, "%s/filler", dir), 0);
    test_need_root();
    ck_assert_int_eq(mkdir(dir, 0755), 0);
    ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    ck_assert_int_eq(mount("small", dir, "tmpfs", 0, "size=1m"), 0);
    int fd = open(filler, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(posix_fallocate(fd, 0, 768 * 1024), 0);
    begin_with(NULL); /* in the mount namespace of the disk */
    start_ok(&(struct start){.file = path, .flags = CSWITCH | THREAD, .buffer_kb = 16});
    pid_t busy = load(0);
    struct numbers n;
    do {
        usleep(20000);
        n = control(QUERY, NULL);
        ck_assert_uint_eq(n.status, 0);
    } while (n.log_buffers_lost < 10);
    ck_assert_uint_gt(n.disk, 0);
    control(FLUSH, NULL);
    struct file f = read_file(path, false);
    ck_assert(!f.truncated);
    ck_assert_uint_eq(f.header.buffers_written, f.buffers);
    uint32_t full_at = f.header.buffers_written;
    ck_assert_uint_gt(f.header.events_lost, 0);

    ck_assert_int_eq(ftruncate(fd, 0), 0);
    do {
        usleep(20000);
        n = control(QUERY, NULL);
    } while (n.buffers_written < full_at + 10);
    load_kill(busy);
    n = control(STOP, NULL);
    ck_assert_uint_eq(n.status, 0);
    check_stopped(path, &n);
    close(fd);
    end();
    ck_assert_int_eq(umount(dir), 0);
    free(dir);
    free(path);
    free(filler);
}
END_TEST

/* The smallest rings and buffers beside a noisy load: losses there are, and all are counted. */
START_TEST(losses_are_counted)
{
    static const char *const args[] = {"-o", "KernelRingKB=64", "-o", "PassIntervalUs=100000",
                                       NULL};
    char *path = test_path("losses.etl");
    begin_with(args);
    start_ok(&(struct start){.file = path,
                             .flags = CSWITCH | THREAD | PROCESS | 0x800,
                             .buffer_kb = 4,
                             .minimum = 1,
                             .maximum = 1});
    pid_t busy[3];
    for (int i = 0; i < 3; i++)
        busy[i] = load(0);
    struct numbers n;
    do {
        usleep(20000);
        n = control(QUERY, NULL);
        ck_assert_uint_eq(n.status, 0);
    } while (n.no_buffer + n.probe == 0 || n.recorded < 10000);
    for (int i = 0; i < 3; i++)
        load_kill(busy[i]);
    n = control(STOP, NULL);
    ck_assert_uint_eq(n.status, 0);
    ck_assert_uint_gt(n.lost, 0);
    check_stopped(path, &n);
    free(path);
    end();
}
END_TEST

START_TEST(maximum_size)
{
    char *path = test_path("size.etl");
    begin_with(NULL);
    start_ok(&(struct start){.file = path, .flags = CSWITCH, .buffer_kb = 16, .max_file = 1});
    pid_t busy = load(0);
    struct numbers n;
    do {
        usleep(10000);
        n = control(QUERY, NULL);
        ck_assert(n.status == 0 || n.status == ETW_ERROR_WMI_INSTANCE_NOT_FOUND);
    } while (n.status == 0);
    load_kill(busy);
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_size, 1 << 20);
    check_stopped(path, NULL);
    ck_assert_uint_eq(client_count_sessions(sock), 0);
    start_ok(&(struct start){.file = path, .flags = CSWITCH});
    ck_assert_uint_eq(control(STOP, NULL).status, 0);
    free(path);
    end();
}
END_TEST

START_TEST(terminated)
{
    char *path = test_path("terminated.etl");
    begin_with(NULL);
    start_ok(&(struct start){.file = path, .flags = CSWITCH | THREAD | PROCESS});
    pid_t busy = load(0);
    while (control(QUERY, NULL).recorded < 2000)
        usleep(10000); /* the test's own limit ends a hang */
    test_daemon_stop(etwd);
    load_kill(busy);
    check_stopped(path, NULL);
    struct file f = read_file(path, false);
    ck_assert_uint_gt(f.events, 1000);
    ck_assert_uint_eq(f.header.events_lost, 0);
    free(path);
    end();
}
END_TEST

/* Whatever was flushed is there after SIGKILL, and the header knows of what is some seconds old. */
START_TEST(killed)
{
    char *path = test_path("killed.etl");
    begin_with(NULL);
    start_ok(&(struct start){.file = path, .flags = CSWITCH | THREAD, .flush_timer = 1});
    pid_t busy = load(0);
    usleep(200000);
    struct numbers n = control(FLUSH, NULL);
    ck_assert_uint_eq(n.status, 0);
    /* The header is rewritten all the time. */
    while (header_says(path) < n.buffers_written + 20)
        usleep(100000);
    test_daemon_kill(etwd);
    load_kill(busy);
    struct file f = read_file(path, false);
    ck_assert_uint_eq(f.header.end_time, 0);
    ck_assert_uint_ge(f.events, n.recorded);
    ck_assert_uint_ge(f.header.buffers_written, n.buffers_written + 20);
    ck_assert_uint_le(f.header.buffers_written, f.buffers + f.truncated);
    sock = safe_close(sock);

    /* The probes died with it; a new daemon begins anew. */
    test_daemon_again(etwd, NULL);
    sock = client_new();
    start_ok(&(struct start){.file = path, .flags = CSWITCH});
    load_wait(load(100));
    n = control(STOP, NULL);
    check_stopped(path, &n);
    free(path);
    end();
}
END_TEST

START_TEST(one_stream)
{
    char *path = test_path("one.etl");
    begin_with(NULL);
    start_ok(&(struct start){
        .file = path, .flags = CSWITCH, .mode = ETL_MODE_NO_PER_PROCESSOR_BUFFERING});
    load_wait(load(3000));
    struct numbers n = control(STOP, NULL);
    check_stopped(path, &n);
    /* File order is time order, unless a record came late, which gets a buffer of its own. */
    struct file f = read_file(path, true);
    ck_assert_uint_gt(f.events, 5000);
    free(path);
    end();
}
END_TEST

START_TEST(update)
{
    char *path = test_path("update.etl");
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    begin_with(NULL);
    start_ok(&(struct start){.file = path, .flags = PROCESS});
    load_wait(load(500));
    struct numbers before = control(FLUSH, NULL);
    p.enable_flags = PROCESS | CSWITCH;
    struct numbers n = control(UPDATE, &p);
    ck_assert_uint_eq(n.status, 0);
    ck_assert_uint_eq(n.flags, PROCESS | CSWITCH);
    load_wait(load(500));
    n = control(FLUSH, NULL);
    ck_assert_uint_gt(n.recorded, before.recorded + 1000);
    p.enable_flags = 0x100;
    ck_assert_uint_eq(control(UPDATE, &p).status, ETW_ERROR_NOT_SUPPORTED);
    p.enable_flags = 0x08000000;
    ck_assert_uint_eq(control(UPDATE, &p).status, ETW_ERROR_INVALID_FLAGS);
    p.enable_flags = 0; /* everything off */
    ck_assert_uint_eq(control(UPDATE, &p).status, 0);
    before = control(FLUSH, NULL);
    load_wait(load(500));
    n = control(FLUSH, NULL);
    ck_assert_uint_lt(n.recorded, before.recorded + 100);
    p.enable_flags = CSWITCH;
    ck_assert_uint_eq(control(UPDATE, &p).status, 0);
    load_wait(load(500));
    n = control(STOP, NULL);
    ck_assert_uint_gt(n.recorded, before.recorded + 1000);
    check_stopped(path, &n);
    free(path);
    end();
}
END_TEST

/* A stop sent while the start or a change is still under way. */
START_TEST(crossing)
{
    char *path = test_path("crossing.etl");
    begin_with(NULL);
    size_t fds = test_count_fds(etwd->pid);
    for (int i = 0; i < test_scale(10); i++) {
        Etwd__Message m = ETWD__MESSAGE__INIT;
        Etwd__ControlSession body = ETWD__CONTROL_SESSION__INIT;
        Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
        start_ok(&(struct start){.file = path, .flags = PROCESS});
        p.enable_flags = PROCESS | CSWITCH;
        body.handle = 0xFFFF;
        body.code = UPDATE;
        body.properties = &p;
        m.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
        m.control_session = &body;
        m.id = 1;
        ck_assert_int_eq(wire_send(sock, &m, NULL, 0, 0), 0);
        body.code = FLUSH;
        m.id = 2;
        ck_assert_int_eq(wire_send(sock, &m, NULL, 0, 0), 0);
        body.code = STOP;
        m.id = 3;
        ck_assert_int_eq(wire_send(sock, &m, NULL, 0, 0), 0);
        m.id = 4;
        ck_assert_int_eq(wire_send(sock, &m, NULL, 0, 0), 0);
        uint32_t status[5] = {0};
        for (int k = 0; k < 4; k++) {
            Etwd__Message *reply = client_receive(sock);
            if (!reply) {
                usleep(200000);
                test_daemon_alive(etwd);
            }
            ck_assert_ptr_nonnull(reply);
            ck_assert_uint_le(reply->id, 4);
            status[reply->id] = reply->status;
            wire_message_free(reply);
        }
        ck_assert_uint_eq(status[1], 0);
        ck_assert(status[2] == 0 || status[2] == ETW_ERROR_WMI_INSTANCE_NOT_FOUND);
        ck_assert_uint_eq(status[3], 0);
        ck_assert_uint_eq(status[4], ETW_ERROR_ACTIVE_CONNECTIONS);
        check_stopped(path, NULL);
    }
    client_wait_fds(etwd, fds);
    free(path);
    end();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sessions-kernel");
    TCase *t = tcase_create("sessions-kernel");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, life);
    tcase_add_test(t, refusals_leave_nothing);
    tcase_add_test(t, disk_full);
    tcase_add_test(t, losses_are_counted);
    tcase_add_test(t, maximum_size);
    tcase_add_test(t, terminated);
    tcase_add_test(t, killed);
    tcase_add_test(t, one_stream);
    tcase_add_test(t, update);
    tcase_add_test(t, crossing);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
