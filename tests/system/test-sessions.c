/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions through the control socket, spoken by hand: their life, names and handles, limits,
 * rights, what may be a log file, bound sessions, the daemon's end. Plain sessions only: what needs
 * the kernel's events stands in test-sessions-kernel.c.
 */
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "etl/file.h"
#include "etl/iterate.h"
#include "etl/layout.h"
#include "hostile/client.h"

#define NOBODY 65534u

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED false
#endif

static struct test_daemon *etwd;

static void begin_with(const char *const args[])
{
    etwd = test_daemon_start_args(args);
}

static void begin(void)
{
    begin_with(NULL);
}

static void end(void)
{
    test_daemon_stop(etwd);
    char *log = test_daemon_log(etwd);
    ck_assert_msg(strstr(log, "Sanitizer") == NULL, "%s", log);
    free(log);
    etwd = test_daemon_free(etwd);
}

struct start {
    const char *name;
    const char *file; /* path, as named */
    int fd;           /* -1: the file is opened here */
    uint32_t mode, buffers, buffer_kb, max_file, flags;
    bool bound, kernel, no_fd;
    const struct etw_guid *guid;
};

static int open_log(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_msg(fd >= 0, "%s: %m", path);
    return fd;
}

/* The whole answer. */
static Etwd__Message *start(int sock, const struct start *s)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__StartSession body = ETWD__START_SESSION__INIT;
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    char *path = s->file ? NULL : test_path(s->name);
    int fd = s->fd > 0 ? s->fd : s->no_fd ? -1 : open_log(s->file ? s->file : path);

    p.name = (char *) s->name;
    p.log_file = (char *) (s->file ? s->file : path);
    p.log_file_mode = s->mode;
    p.maximum_buffers = s->buffers;
    p.buffer_size_kb = s->buffer_kb;
    p.maximum_file_size = s->max_file;
    p.enable_flags = s->flags;
    if (s->guid) {
        p.guid.data = (uint8_t *) s->guid;
        p.guid.len = sizeof(*s->guid);
    }
    body.properties = &p;
    body.bound = s->bound;
    body.kernel = s->kernel;
    m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    m.start_session = &body;
    Etwd__Message *reply = client_call(sock, &m, &fd, fd >= 0 ? 1 : 0);
    if (reply->status != 0)
        ck_assert_str_ne(reply->reason, "");
    if (s->fd <= 0)
        safe_close(fd);
    free(path);
    return reply;
}

static uint32_t start_status(int sock, const struct start *s)
{
    Etwd__Message *m = start(sock, s);
    uint32_t status = m->status;
    wire_message_free(m);
    return status;
}

static Etwd__Message *control(int sock, const char *name, uint64_t handle,
                              Etwd__ControlSession__Code code, Etwd__SessionProperties *p)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__ControlSession body = ETWD__CONTROL_SESSION__INIT;
    body.name = (char *) (name ? name : "");
    body.handle = handle;
    body.code = code;
    body.properties = p;
    m.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
    m.control_session = &body;
    return client_call(sock, &m, NULL, 0);
}

#define QUERY ETWD__CONTROL_SESSION__CODE__QUERY
#define STOP ETWD__CONTROL_SESSION__CODE__STOP
#define UPDATE ETWD__CONTROL_SESSION__CODE__UPDATE
#define FLUSH ETWD__CONTROL_SESSION__CODE__FLUSH

static unsigned list(int sock, char names[][64], unsigned cap)
{
    unsigned n = 0;
    uint32_t after = 0;
    for (;;) {
        Etwd__Message m = ETWD__MESSAGE__INIT;
        Etwd__ListSessions body = ETWD__LIST_SESSIONS__INIT;
        body.after_id = after;
        m.body_case = ETWD__MESSAGE__BODY_LIST_SESSIONS;
        m.list_sessions = &body;
        Etwd__Message *reply = client_call(sock, &m, NULL, 0);
        ck_assert_uint_eq(reply->status, 0);
        for (size_t i = 0; i < reply->session_list->n_sessions; i++) {
            Etwd__Session *s = reply->session_list->sessions[i];
            ck_assert_uint_gt(s->handle & 0xFFFF, after);
            after = s->handle & 0xFFFF;
            if (n < cap)
                snprintf(names[n], 64, "%.63s", s->properties->name);
            n++;
        }
        bool more = reply->session_list->more;
        wire_message_free(reply);
        if (!more)
            return n;
    }
}

static void identity(const Etwd__Session *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n_lost; i++)
        sum += s->lost[i]->events;
    ck_assert_uint_eq(s->written, s->recorded + sum);
}

/* As uid nobody, without groups, in a child: the body's asserts fail the test. */
#define AS_NOBODY(...)                                                                             \
    do {                                                                                           \
        pid_t child_ = fork();                                                                     \
        ck_assert_int_ge(child_, 0);                                                               \
        if (child_ == 0) {                                                                         \
            ck_assert_int_eq(setgroups(0, NULL), 0);                                               \
            ck_assert_int_eq(setresgid(NOBODY, NOBODY, NOBODY), 0);                                \
            ck_assert_int_eq(setresuid(NOBODY, NOBODY, NOBODY), 0);                                \
            __VA_ARGS__;                                                                           \
            _exit(0);                                                                              \
        }                                                                                          \
        int status_;                                                                               \
        ck_assert_int_eq(waitpid(child_, &status_, 0), child_);                                    \
        ck_assert_int_eq(status_, 0);                                                              \
    } while (0)

/* A folder where nobody may write. */
static char *nobody_path(const char *name)
{
    char *dir = test_path("nobody"), *path;
    if (mkdir(dir, 0777) == 0)
        ck_assert_int_eq(chmod(dir, 0777), 0);
    ck_assert_int_gt(asprintf(&path, "%s/%s", dir, name), 0);
    free(dir);
    return path;
}

static void check_file(const char *path, uint32_t buffers, bool ended)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct etl_file *f;
    const struct etl_buffer_ref *refs;
    size_t n;
    bool truncated;
    ck_assert_msg(fd >= 0, "%s: %m", path);
    ck_assert_int_eq(etl_file_open_fd(fd, &f), 0);
    ck_assert_int_eq(etl_file_index(f, &refs, &n, &truncated), 0);
    ck_assert(!truncated);
    ck_assert_uint_eq(n, buffers);
    const struct etl_logfile *h = etl_file_header(f);
    ck_assert_uint_eq(h->buffers_written, buffers);
    ck_assert_int_eq(h->end_time != 0, ended);
    etl_file_free(f);
    close(fd);
}

START_TEST(life)
{
    static const char *const epoll[] = {"-o", "IoUring=0", NULL};
    begin_with(_i ? epoll : NULL);
    int sock = client_new();
    Etwd__Message *m = start(sock, &(struct start){.name = "Première"});
    ck_assert_uint_eq(m->status, 0);
    Etwd__Session *s = m->session_reply->session;
    uint64_t handle = s->handle;
    ck_assert_uint_eq(handle & 0xFFFF, 2);
    ck_assert_uint_gt(handle >> 16, 0);
    ck_assert_uint_eq(s->owner_uid, getuid());
    ck_assert_uint_eq(s->owner_pid, (uint32_t) getpid());
    ck_assert_uint_eq(s->properties->guid.len, 16);
    struct etw_guid guid;
    memcpy(&guid, s->properties->guid.data, 16);
    ck_assert(!etw_guid_is_null(&guid));
    ck_assert_uint_eq(s->properties->buffer_size_kb, 64);
    ck_assert_uint_eq(s->buffers, s->properties->minimum_buffers);
    wire_message_free(m);

    /* By name in any case, by handle, by handle without generation; not by a wrong one. */
    static const char *const same[] = {"Première", "PREMIÈRE", "première"};
    for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
        m = control(sock, same[i], 0, QUERY, NULL);
        ck_assert_uint_eq(m->status, 0);
        ck_assert_str_eq(m->session_reply->session->properties->name, "Première");
        identity(m->session_reply->session);
        wire_message_free(m);
    }
    uint64_t handles[] = {handle, handle & 0xFFFF, handle + (1 << 16), 3, handle | 1ULL << 63};
    for (size_t i = 0; i < ARRAY_SIZE(handles); i++)
        ck_assert_uint_eq(client_control(sock, NULL, handles[i], QUERY),
                          i < 2 ? 0 : ETW_ERROR_WMI_INSTANCE_NOT_FOUND);
    ck_assert_uint_eq(client_control(sock, NULL, 0, QUERY), ETW_ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(client_control(sock, NULL, UINT64_MAX, QUERY), ETW_ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(client_control(sock, "no such", handle, QUERY),
                      ETW_ERROR_WMI_INSTANCE_NOT_FOUND); /* the name wins */
    ck_assert_uint_eq(client_control(sock, NULL, handle, 77), ETW_ERROR_INVALID_PARAMETER);

    /* The same name, the same GUID: exists. */
    char *other = test_path("other.etl");
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "première", .file = other}),
                      ETW_ERROR_ALREADY_EXISTS);
    ck_assert_uint_eq(
        start_status(sock, &(struct start){.name = "x", .file = other, .guid = &guid}),
        ETW_ERROR_ALREADY_EXISTS);

    ck_assert_uint_eq(client_control(sock, NULL, handle, FLUSH), 0);
    char *path = test_path("Première");
    check_file(path, 2, false);
    ck_assert_uint_eq(client_control(sock, NULL, handle, FLUSH), 0);
    check_file(path, 2, false); /* nothing new, nothing written */

    m = control(sock, NULL, handle, STOP, NULL);
    ck_assert_uint_eq(m->status, 0);
    identity(m->session_reply->session);
    ck_assert_uint_eq(m->session_reply->session->buffers_written, 2);
    wire_message_free(m);
    check_file(path, 2, true);
    ck_assert_uint_eq(client_control(sock, NULL, handle, STOP), ETW_ERROR_WMI_INSTANCE_NOT_FOUND);

    /* The number is given again, with another generation. */
    m = start(sock, &(struct start){.name = "Première"});
    ck_assert_uint_eq(m->status, 0);
    ck_assert_uint_eq(m->session_reply->session->handle & 0xFFFF, 2);
    ck_assert_uint_ne(m->session_reply->session->handle, handle);
    wire_message_free(m);
    ck_assert_uint_eq(client_control(sock, NULL, handle, QUERY), ETW_ERROR_WMI_INSTANCE_NOT_FOUND);
    safe_close(sock);
    free(path);
    free(other);
    end();
}
END_TEST

START_TEST(many_and_lists)
{
    static const char *const args[] = {"-o", "MaxSessions=100", NULL};
    begin_with(args);
    int sock = client_new();
    /* Names so long that a page of the list cannot hold them all. */
    char name[1025];
    for (int i = 0; i < 100; i++) {
        memset(name, 'n', 1024);
        name[1024] = '\0';
        (void) snprintf(name, sizeof(name), "%03d", i);
        name[3] = 'n';
        char *file = test_path(i % 2 ? "odd" : "even");
        char *path;
        ck_assert_int_gt(asprintf(&path, "%s%d", file, i), 0);
        ck_assert_uint_eq(start_status(sock, &(struct start){.name = name, .file = path}), 0);
        free(path);
        free(file);
    }
    char *path = test_path("one-more");
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "more", .file = path}),
                      ETW_ERROR_NO_SYSTEM_RESOURCES);
    static char names[200][64];
    ck_assert_uint_eq(list(sock, names, 200), 100);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(atoi(names[i]), i);
    /* Stops of half of them, all sent before any answer is read. */
    for (int i = 0; i < 100; i += 2) {
        Etwd__Message m = ETWD__MESSAGE__INIT;
        Etwd__ControlSession body = ETWD__CONTROL_SESSION__INIT;
        body.handle = 2 + (uint64_t) i;
        body.code = STOP;
        m.id = 1000 + (uint64_t) i;
        m.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
        m.control_session = &body;
        ck_assert_int_eq(wire_send(sock, &m, NULL, 0, 0), 0);
    }
    bool seen[100] = {0};
    for (int i = 0; i < 100; i += 2) {
        Etwd__Message *m = client_receive(sock);
        ck_assert_ptr_nonnull(m);
        ck_assert_uint_eq(m->status, 0);
        ck_assert_uint_lt(m->id - 1000, 100);
        ck_assert(!seen[m->id - 1000]);
        seen[m->id - 1000] = true;
        wire_message_free(m);
    }
    ck_assert_uint_eq(list(sock, names, 200), 50);
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "more", .file = path}), 0);
    free(path);
    safe_close(sock);
    end(); /* the others are finalised */
}
END_TEST

START_TEST(quotas)
{
    test_need_root();
    static const char *const args[] = {"-o", "MaxBufferMemoryMB=8", "-o", "MaxSessionsPerUser=3",
                                       NULL};
    begin_with(args);
    int sock = client_new();
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "big", .buffers = 129}),
                      ETW_ERROR_NO_SYSTEM_RESOURCES);
    ck_assert_uint_eq(
        start_status(sock,
                     &(struct start){.name = "big", .buffers = UINT32_MAX, .buffer_kb = 16384}),
        ETW_ERROR_NO_SYSTEM_RESOURCES);
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "a", .buffers = 100}), 0);
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "b", .buffers = 29}),
                      ETW_ERROR_NO_SYSTEM_RESOURCES);
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "b", .buffers = 28}), 0);
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    p.maximum_buffers = 101;
    Etwd__Message *m = control(sock, "a", 0, UPDATE, &p);
    ck_assert_uint_eq(m->status, ETW_ERROR_NO_SYSTEM_RESOURCES);
    ck_assert_ptr_nonnull(strstr(m->reason, "MaxBufferMemoryMB"));
    wire_message_free(m);

    /* Another user's quota is its own. */
    char *path = nobody_path("n");
    AS_NOBODY({
        int s = client_new();
        char file[512], name[8];
        for (int i = 0; i < 3; i++) {
            snprintf(file, sizeof(file), "%s%d", path, i);
            snprintf(name, sizeof(name), "n%d", i);
            ck_assert_uint_eq(start_status(s, &(struct start){.name = name, .file = file}), 0);
        }
        m = start(s, &(struct start){.name = "n3", .file = path});
        ck_assert_uint_eq(m->status, ETW_ERROR_NO_SYSTEM_RESOURCES);
        ck_assert_ptr_nonnull(strstr(m->reason, "MaxSessionsPerUser"));
    });
    free(path);
    safe_close(sock);
    end();
}
END_TEST

START_TEST(rights)
{
    test_need_root();
    begin();
    int sock = client_new();
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "root's"}), 0);
    char *path = nobody_path("own.etl");
    AS_NOBODY({
        int s = client_new();
        char names[4][64];
        ck_assert_uint_eq(client_control(s, "root's", 0, QUERY), ETW_ERROR_ACCESS_DENIED);
        ck_assert_uint_eq(client_control(s, "root's", 0, STOP), ETW_ERROR_ACCESS_DENIED);
        ck_assert_uint_eq(client_control(s, NULL, 2, FLUSH), ETW_ERROR_ACCESS_DENIED);
        ck_assert_uint_eq(client_control(s, NULL, 2, UPDATE), ETW_ERROR_ACCESS_DENIED);
        ck_assert_uint_eq(list(s, names, 4), 0);
        ck_assert_uint_eq(start_status(s, &(struct start){.name = "own", .file = path}), 0);
        ck_assert_uint_eq(list(s, names, 4), 1);
        ck_assert_str_eq(names[0], "own");
        ck_assert_uint_eq(client_control(s, "own", 0, FLUSH), 0);
        ck_assert_uint_eq(client_control(s, "own", 0, QUERY), 0);
        /* The kernel logger, by either door. */
        static const struct etw_guid kernel = {
            0x9e814aad, 0x3204, 0x11d2, {0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39}};
        char file[512];
        snprintf(file, sizeof(file), "%s.kernel", path);
        Etwd__Message *m = start(
            s, &(struct start){
                   .name = "NT Kernel Logger", .file = file, .kernel = true, .guid = &kernel});
        ck_assert_uint_eq(m->status, ETW_ERROR_ACCESS_DENIED);
        ck_assert_ptr_nonnull(strstr(m->reason, "group 'etw'"));
        ck_assert_uint_eq(
            start_status(s, &(struct start){.name = "nt kernel logger", .file = file}),
            ETW_ERROR_ACCESS_DENIED);
        ck_assert_uint_eq(client_control(s, "NT Kernel Logger", 0, QUERY),
                          ETW_ERROR_WMI_INSTANCE_NOT_FOUND);
    });
    /* It outlives the process that started it, and root may end it. */
    char names[4][64];
    ck_assert_uint_eq(list(sock, names, 4), 2);
    ck_assert_uint_eq(client_stop(sock, "own"), 0);
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_uid, NOBODY);
    free(path);
    safe_close(sock);
    end();
}
END_TEST

/* What a log file's descriptor may be, row by row. A refusal leaves nothing behind. */
struct file_row {
    const char *what;
    int fd;
    uint32_t status;
};

START_TEST(file_rules)
{
    char *path = test_path("rules.etl"), *dir = test_path("folder"), *fifo = test_path("fifo");
    int p[2], sv[2];

    begin();
    int sock = client_new();
    safe_close(open_log(path));
    ck_assert_int_eq(mkdir(dir, 0755), 0);
    ck_assert_int_eq(mkfifo(fifo, 0644), 0);
    ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    const struct file_row rows[] = {
        {"read-only", open(path, O_RDONLY | O_CLOEXEC), ETW_ERROR_BAD_PATHNAME},
        {"O_PATH", open(path, O_PATH | O_CLOEXEC), ETW_ERROR_BAD_PATHNAME},
        {"O_APPEND", open(path, O_RDWR | O_APPEND | O_CLOEXEC), ETW_ERROR_BAD_PATHNAME},
        {"a folder", open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), ETW_ERROR_BAD_PATHNAME},
        {"a FIFO", open(fifo, O_RDWR | O_CLOEXEC), ETW_ERROR_BAD_PATHNAME},
        {"a pipe", dup(p[1]), ETW_ERROR_BAD_PATHNAME},
        {"a socket", dup(sv[0]), ETW_ERROR_BAD_PATHNAME},
        {"a device", open("/dev/null", O_RDWR | O_CLOEXEC), ETW_ERROR_BAD_PATHNAME},
        {"a full device", open("/dev/full", O_RDWR | O_CLOEXEC), ETW_ERROR_BAD_PATHNAME},
        {"a memfd", memfd_create("x", MFD_CLOEXEC), ETW_ERROR_BAD_PATHNAME},
        {"a proc file", open("/proc/self/comm", O_RDWR | O_CLOEXEC), ETW_ERROR_BAD_PATHNAME},
        {"write-only", open(path, O_WRONLY | O_CLOEXEC), 0},
        {"non-blocking", open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC), 0},
        {"in memory", open("/dev/shm", O_RDWR | O_TMPFILE | O_NONBLOCK | O_CLOEXEC, 0600), 0},
        {"a file", open(path, O_RDWR | O_CLOEXEC), 0},
        {"without a name", open(path, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600), 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int fd = rows[i].fd;
        if (strcmp(rows[i].what, "without a name") == 0 && fd < 0)
            fd = open(test_tempdir(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
        ck_assert_msg(fd >= 0, "%s", rows[i].what);
        Etwd__Message *m = start(sock, &(struct start){.name = "rules", .file = path, .fd = fd});
        ck_assert_msg(m->status == rows[i].status, "%s: %u, %s", rows[i].what, m->status,
                      m->reason);
        if (m->status == 0)
            ck_assert_uint_eq(client_stop(sock, "rules"), 0);
        wire_message_free(m);
        safe_close(fd);
        ck_assert_uint_eq(client_count_sessions(sock), 0);
    }
    /* No descriptor; no path; a relative path; a descriptor that nobody asked for. */
    ck_assert_uint_eq(
        start_status(sock, &(struct start){.name = "rules", .file = path, .no_fd = true}),
        ETW_ERROR_INVALID_PARAMETER);
    int fd = open_log(path);
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "rules", .file = "", .fd = fd}),
                      ETW_ERROR_BAD_PATHNAME);
    ck_assert_uint_eq(
        start_status(sock, &(struct start){.name = "rules", .file = "r.etl", .fd = fd}),
        ETW_ERROR_BAD_PATHNAME);
    safe_close(fd);
    client_wait_fds(etwd, test_count_fds(etwd->pid)); /* it lives */
    safe_close(sock);
    free(path);
    free(dir);
    free(fifo);
    end();
}
END_TEST

START_TEST(file_in_use)
{
    char *path = test_path("used.etl"), *link_path = test_path("hard-link.etl");
    begin();
    int sock = client_new();
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "first", .file = path}), 0);
    ck_assert_int_eq(link(path, link_path), 0);
    Etwd__Message *m = start(sock, &(struct start){.name = "second", .file = link_path});
    ck_assert_uint_eq(m->status, ETW_ERROR_BAD_PATHNAME);
    ck_assert_ptr_nonnull(strstr(m->reason, "first"));
    wire_message_free(m);
    ck_assert_uint_eq(client_control(sock, "first", 0, FLUSH), 0);
    check_file(path, 2, false); /* not emptied by the attempt */
    ck_assert_uint_eq(client_stop(sock, "first"), 0);
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "second", .file = link_path}), 0);
    ck_assert_uint_eq(client_stop(sock, "second"), 0);
    safe_close(sock);
    free(path);
    free(link_path);
    end();
}
END_TEST

/* A start that fails leaves a file's content alone; one that succeeds replaces it. */
START_TEST(file_untouched)
{
    char *path = test_path("content.etl");
    static const char text[] = "something that matters";
    begin();
    int sock = client_new();
    int fd = open_log(path);
    ck_assert_int_eq(write(fd, text, sizeof(text)), sizeof(text));
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "content", .file = path}), 0);
    ck_assert_uint_eq(client_stop(sock, "content"), 0);
    check_file(path, 2, true);

    ck_assert_int_eq(ftruncate(fd, 0), 0);
    ck_assert_int_eq(pwrite(fd, text, sizeof(text), 0), sizeof(text));
    static const struct {
        uint32_t mode, buffers, max_file;
        uint32_t status;
    } bad[] = {
        {0x2, 0, 0, ETW_ERROR_INVALID_PARAMETER},          /* circular without a size */
        {0x2, 0, UINT32_MAX, ETW_ERROR_INVALID_PARAMETER}, /* circular of 4 PiB */
        {0x20, 0, UINT32_MAX, ETW_ERROR_DISK_FULL},        /* preallocated */
        {0x4, 0, 0, ETW_ERROR_INVALID_PARAMETER},          /* append without clock 2 */
        {0x3, 0, 1, ETW_ERROR_INVALID_PARAMETER},          /* sequential and circular */
        {0, UINT32_MAX, 0, ETW_ERROR_NO_SYSTEM_RESOURCES}, /* quota of memory */
        {0, 0, UINT32_MAX, ETW_ERROR_DISK_FULL},           /* 4 PiB */
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        uint32_t status = start_status(sock, &(struct start){.name = "content",
                                                             .file = path,
                                                             .mode = bad[i].mode,
                                                             .buffers = bad[i].buffers,
                                                             .max_file = bad[i].max_file});
        ck_assert_msg(status == bad[i].status, "row %zu: %u", i, status);
        size_t size;
        char *now = test_read_file(path, &size);
        ck_assert_uint_eq(size, sizeof(text));
        ck_assert_str_eq(now, text);
        free(now);
        ck_assert_uint_eq(client_count_sessions(sock), 0);
    }
    safe_close(fd);
    safe_close(sock);
    free(path);
    end();
}
END_TEST

START_TEST(bound)
{
    begin();
    int sock = client_new(), owner = client_new();
    size_t fds = test_count_fds(etwd->pid);
    char *path = test_path("bound.etl");
    ck_assert_uint_eq(
        start_status(owner, &(struct start){.name = "bound", .file = path, .bound = true}), 0);
    ck_assert_uint_eq(start_status(owner, &(struct start){.name = "free"}), 0);
    ck_assert_uint_eq(client_count_sessions(sock), 2);
    safe_close(owner);
    char names[4][64];
    while (list(sock, names, 4) != 1)
        usleep(10000); /* the test's own limit ends a hang */
    ck_assert_str_eq(names[0], "free");
    check_file(path, 2, true);
    ck_assert_uint_eq(client_stop(sock, "free"), 0);
    client_wait_fds(etwd, fds - 1);

    /* Closed before the start is through. */
    for (int i = 0; i < test_scale(50); i++) {
        Etwd__Message m = ETWD__MESSAGE__INIT;
        Etwd__StartSession body = ETWD__START_SESSION__INIT;
        Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
        int fd = open_log(path);
        owner = client_new();
        p.name = (char *) "bound";
        p.log_file = path;
        body.properties = &p;
        body.bound = true;
        m.id = 1;
        m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
        m.start_session = &body;
        ck_assert_int_eq(wire_send(owner, &m, &fd, 1, 0), 0);
        if (i % 2)
            usleep((useconds_t) (i * 20));
        safe_close(owner);
        safe_close(fd);
        while (client_count_sessions(sock) != 0)
            usleep(1000);
    }
    client_wait_fds(etwd, fds - 1);
    safe_close(sock);
    free(path);
    end();
}
END_TEST

START_TEST(update)
{
    begin();
    int sock = client_new();
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "u", .buffers = 10}), 0);
    p.flush_timer_s = 7;
    p.maximum_buffers = 50;
    Etwd__Message *m = control(sock, "u", 0, UPDATE, &p);
    ck_assert_uint_eq(m->status, 0);
    ck_assert_uint_eq(m->session_reply->session->properties->flush_timer_s, 7);
    ck_assert_uint_eq(m->session_reply->session->properties->maximum_buffers, 50);
    wire_message_free(m);
    p.flush_timer_s = 0; /* 0 keeps both; less than there is stays */
    p.maximum_buffers = 5;
    m = control(sock, "u", 0, UPDATE, &p);
    ck_assert_uint_eq(m->status, 0);
    ck_assert_uint_eq(m->session_reply->session->properties->flush_timer_s, 7);
    ck_assert_uint_eq(m->session_reply->session->properties->maximum_buffers, 50);
    wire_message_free(m);
    p.log_file_mode = ETL_MODE_REAL_TIME;
    m = control(sock, "u", 0, UPDATE, &p);
    ck_assert_uint_eq(m->status, ETW_ERROR_NOT_SUPPORTED);
    wire_message_free(m);
    p.log_file_mode = 0;
    p.log_file = test_path("u");
    m = control(sock, "u", 0, UPDATE, &p);
    ck_assert_uint_eq(m->status, ETW_ERROR_BAD_PATHNAME);
    wire_message_free(m);
    free(p.log_file);
    p.log_file = test_path("elsewhere");
    m = control(sock, "u", 0, UPDATE, &p);
    ck_assert_uint_eq(m->status, ETW_ERROR_INVALID_PARAMETER);
    wire_message_free(m);
    m = control(sock, "u", 0, FLUSH, &p); /* a snapshot: of sessions in memory alone */
    ck_assert_uint_eq(m->status, ETW_ERROR_INVALID_PARAMETER);
    wire_message_free(m);
    free(p.log_file);
    ck_assert_uint_eq(client_control(sock, "u", 0, ETWD__CONTROL_SESSION__CODE__INCREMENT_FILE),
                      ETW_ERROR_NOT_SUPPORTED);
    ck_assert_uint_eq(
        client_control(sock, "u", 0, ETWD__CONTROL_SESSION__CODE__CONVERT_TO_REALTIME),
        ETW_ERROR_NOT_SUPPORTED);
    ck_assert_uint_eq(client_control(sock, "u", 0, UPDATE), ETW_ERROR_INVALID_PARAMETER);
    safe_close(sock);
    end();
}
END_TEST

/* Real time with a name gives a file, too. */
START_TEST(real_time_with_a_file)
{
    begin();
    int sock = client_new();
    char *path = test_path("rt.etl");
    Etwd__Message *m =
        start(sock, &(struct start){.name = "rt", .file = path, .mode = ETL_MODE_REAL_TIME});
    ck_assert_uint_eq(m->status, 0);
    ck_assert_uint_eq(m->session_reply->session->properties->log_file_mode, ETL_MODE_REAL_TIME);
    wire_message_free(m);
    ck_assert_uint_eq(client_stop(sock, "rt"), 0);
    check_file(path, 2, true);
    ck_assert_uint_eq(
        start_status(
            sock,
            &(struct start){.name = "rt", .file = "", .mode = ETL_MODE_REAL_TIME, .no_fd = true}),
        ETW_ERROR_NOT_SUPPORTED);
    free(path);
    safe_close(sock);
    end();
}
END_TEST

START_TEST(cycles)
{
    begin();
    int sock = client_new();
    char *path = test_path("cycle.etl");
    size_t fds = 0, kb = 0;
    int n = test_scale(1000);
    for (int i = 0; i < n; i++) {
        if (i == n / 10) {
            client_wait_alone(sock);
            fds = test_count_fds(etwd->pid);
            kb = test_resident_kb(etwd->pid);
        }
        ck_assert_uint_eq(start_status(sock, &(struct start){.name = "cycle", .file = path}), 0);
        ck_assert_uint_eq(client_stop(sock, "cycle"), 0);
    }
    client_wait_fds(etwd, fds);
    /* A leak of one session's smallest part, 1 KiB, would show as n KiB. A sanitizer keeps what was
     * freed. */
    if (!SANITIZED)
        ck_assert_uint_le(test_resident_kb(etwd->pid), kb + 512 + (size_t) n / 4);
    free(path);
    safe_close(sock);
    end();
}
END_TEST

/* The end by SIGTERM finalises every session; a second one does not cut it short. */
START_TEST(terminate)
{
    char *paths[20];
    begin();
    int sock = client_new();
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof(name), "t%d", i);
        paths[i] = test_path(name);
        ck_assert_uint_eq(start_status(sock, &(struct start){.name = name, .file = paths[i]}), 0);
    }
    ck_assert_int_eq(kill(etwd->pid, SIGTERM), 0);
    ck_assert_int_eq(kill(etwd->pid, SIGTERM), 0);
    ck_assert_int_eq(kill(etwd->pid, SIGINT), 0);
    int status;
    ck_assert_int_eq(waitpid(etwd->pid, &status, 0), etwd->pid);
    ck_assert_int_eq(status, 0);
    etwd->pid = 0;
    for (int i = 0; i < 20; i++) {
        check_file(paths[i], 2, true);
        free(paths[i]);
    }
    safe_close(sock);
    struct stat st;
    ck_assert_int_lt(stat(etwd->socket, &st), 0);
    test_daemon_again(etwd, NULL);
    end();
}
END_TEST

/* A daemon that was killed leaves files that open, and its socket to the next one. */
START_TEST(killed)
{
    char *path = test_path("killed.etl");
    begin();
    int sock = client_new();
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "k", .file = path}), 0);
    ck_assert_uint_eq(client_control(sock, "k", 0, FLUSH), 0);
    test_daemon_kill(etwd);
    ck_assert_ptr_null(client_receive(sock));
    safe_close(sock);
    check_file(path, 2, false);
    test_daemon_again(etwd, NULL);
    sock = client_new();
    ck_assert_uint_eq(client_count_sessions(sock), 0);
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "k", .file = path}), 0);
    safe_close(sock);
    end();
    check_file(path, 2, true);
    free(path);
}
END_TEST

START_TEST(one_daemon_a_socket)
{
    struct test_output out;
    begin();
    test_run(&out, test_env("ETWD"), "--runtime-dir", etwd->dir);
    ck_assert_int_eq(out.status, 1);
    ck_assert_ptr_nonnull(strstr(out.err, "another etwd serves it"));
    test_output_done(&out);
    int sock = client_new();
    ck_assert_uint_eq(client_count_sessions(sock), 0);
    safe_close(sock);
    end();
}
END_TEST

START_TEST(many_processors)
{
    static const char *const args[] = {"--cpus", "64", NULL};
    begin_with(args);
    int sock = client_new();
    Etwd__Message *m = start(sock, &(struct start){.name = "64"});
    ck_assert_uint_eq(m->status, 0);
    ck_assert_uint_eq(m->session_reply->session->properties->minimum_buffers, 128);
    ck_assert_uint_eq(m->session_reply->session->properties->maximum_buffers, 148);
    wire_message_free(m);
    m = start(sock, &(struct start){.name = "1", .mode = ETL_MODE_NO_PER_PROCESSOR_BUFFERING});
    ck_assert_uint_eq(m->status, 0);
    ck_assert_uint_eq(m->session_reply->session->properties->minimum_buffers, 2);
    wire_message_free(m);
    safe_close(sock);
    end();
}
END_TEST

/* Events of the file by reason of ClockSync. */
static unsigned clock_syncs(const char *path, uint32_t reason)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct etl_file *f;
    const struct etl_buffer_ref *refs;
    size_t n;
    bool truncated;
    unsigned found = 0;
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(etl_file_open_fd(fd, &f), 0);
    ck_assert_int_eq(etl_file_index(f, &refs, &n, &truncated), 0);
    uint8_t *buf = malloc(etl_file_buffer_bytes(f));
    for (size_t i = 1; i < n; i++) {
        struct etl_buffer_info info;
        struct etl_iter it;
        struct etl_event e;
        size_t len;
        ck_assert_int_eq(
            etl_file_read_buffer(f, &refs[i], buf, etl_file_buffer_bytes(f), &info, &len), 0);
        etl_iter_init(&it, buf, len, info.end);
        while (etl_iter_next(&it, &e) == 1) {
            struct etl_LinuxEtwd_ClockSync data;
            if (!etw_guid_equal(&e.guid, &etl_rows[ETL_ROW_LinuxEtwd_ClockSync].guid) ||
                e.data_size != sizeof(data))
                continue;
            memcpy(&data, e.data, sizeof(data));
            if (data.Reason != reason)
                continue;
            found++;
            ck_assert_uint_ge(data.Boottime + ETW_NSEC_PER_SEC,
                              data.Monotonic); /* read in this order */
            ck_assert_uint_gt(data.Realtime, data.Boottime);
        }
    }
    free(buf);
    etl_file_free(f);
    close(fd);
    return found;
}

static uint64_t written(int sock, const char *name)
{
    Etwd__Message *m = control(sock, name, 0, QUERY, NULL);
    ck_assert_uint_eq(m->status, 0);
    uint64_t n = m->session_reply->session->written;
    wire_message_free(m);
    return n;
}

/* Somebody sets the wall clock (to what it is): every session learns of it. */
START_TEST(clock_is_set)
{
    test_need_root();
    begin();
    int sock = client_new();
    char *paths[2] = {test_path("clock0"), test_path("clock1")};
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "clock0"}), 0);
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "clock1"}), 0);
    uint64_t before[2] = {written(sock, "clock0"), written(sock, "clock1")};
    struct timespec now;
    ck_assert_int_eq(clock_gettime(CLOCK_REALTIME, &now), 0);
    if (clock_settime(CLOCK_REALTIME, &now) < 0)
        test_skip("the clock cannot be set here: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        char name[8];
        snprintf(name, sizeof(name), "clock%d", i);
        while (written(sock, name) == before[i])
            usleep(10000); /* the test's own limit ends a hang */
        ck_assert_uint_eq(client_stop(sock, name), 0);
        ck_assert_uint_eq(clock_syncs(paths[i], 1), 1);
        ck_assert_uint_ge(clock_syncs(paths[i], 4), 1);
        free(paths[i]);
    }
    safe_close(sock);
    end();
}
END_TEST

/* Started by nobody: plain sessions are served, the kernel's events are not, and it says why. */
START_TEST(without_rights)
{
    test_need_root();
    char *script = test_path("etwd-as-nobody");
    char *real = strdup(test_env("ETWD"));
    FILE *f = fopen(script, "we");
    fprintf(f,
            "#!/bin/sh\nchown nobody \"$2\"\nexec setpriv --reuid=65534 --regid=65534 "
            "--clear-groups --bounding-set=-all %s \"$@\"\n",
            real);
    fclose(f);
    ck_assert_int_eq(chmod(script, 0755), 0);
    ck_assert_int_eq(chmod(test_tempdir(), 0777), 0);
    ck_assert_int_eq(setenv("ETWD", script, 1), 0);
    begin();
    int sock = client_new();
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__QueryDaemon query = ETWD__QUERY_DAEMON__INIT;
    m.body_case = ETWD__MESSAGE__BODY_QUERY_DAEMON;
    m.query_daemon = &query;
    reply = client_call(sock, &m, NULL, 0);
    ck_assert(!reply->daemon_reply->kernel_available);
    ck_assert_str_ne(reply->daemon_reply->kernel_unavailable_why, "");
    ck_assert(!reply->daemon_reply->image_helper);
    ck_assert_str_eq(reply->daemon_reply->user, "uid 65534");
    wire_message_free(reply);
    static const struct etw_guid kernel = {
        0x9e814aad, 0x3204, 0x11d2, {0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39}};
    reply = start(
        sock,
        &(struct start){.name = "NT Kernel Logger", .kernel = true, .guid = &kernel, .flags = 1});
    ck_assert_uint_eq(reply->status, ETW_ERROR_NOT_SUPPORTED);
    ck_assert_str_ne(reply->reason, "");
    wire_message_free(reply);
    char *path = test_path("plain");
    ck_assert_uint_eq(start_status(sock, &(struct start){.name = "plain"}), 0);
    ck_assert_uint_eq(client_stop(sock, "plain"), 0);
    check_file(path, 2, true);
    safe_close(sock);
    end();
    free(path);
    free(real);
    free(script);
}
END_TEST

START_TEST(command_line)
{
    static const struct {
        const char *arg[3];
        int status;
        const char *says;
    } rows[] = {
        {{"--version"}, 0, "etwd "},
        {{"--help"}, 0, "MaxSessions"},
        {{"--no-such"}, 2, "no-such"},
        {{"surplus"}, 2, "surplus"},
        {{"-o", "NoSuchKey=1"}, 2, "NoSuchKey"},
        {{"-o", "MaxSessions=0"}, 2, "MaxSessions"},
        {{"-o", "MaxSessions=x"}, 2, "MaxSessions"},
        {{"--cpus", "0"}, 2, "--cpus"},
        {{"--cpus", "1x"}, 2, "--cpus"},
        {{"--runtime-dir", "relative"}, 2, "relative"},
        {{"--user", "no such user\x1b[31m"}, 1, "no such user"},
        {{"--runtime-dir", "/proc/nowhere/at/all"}, 1, "/proc/nowhere"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct test_output out;
        test_run_limit(&out, 0,
                       (const char *const[]){test_env("ETWD"), rows[i].arg[0], rows[i].arg[1],
                                             rows[i].arg[2], NULL});
        ck_assert_msg(out.status == rows[i].status, "row %zu: %d, %s", i, out.status, out.err);
        ck_assert_msg(strstr(rows[i].status ? out.err : out.out, rows[i].says), "row %zu: %s%s", i,
                      out.out, out.err);
        ck_assert_ptr_null(strchr(out.err, '\x1b'));
        test_output_done(&out);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sessions");
    TCase *t = tcase_create("sessions");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, life, 0, 2);
    tcase_add_test(t, many_and_lists);
    tcase_add_test(t, quotas);
    tcase_add_test(t, rights);
    tcase_add_test(t, file_rules);
    tcase_add_test(t, file_in_use);
    tcase_add_test(t, file_untouched);
    tcase_add_test(t, bound);
    tcase_add_test(t, update);
    tcase_add_test(t, real_time_with_a_file);
    tcase_add_test(t, cycles);
    tcase_add_test(t, terminate);
    tcase_add_test(t, killed);
    tcase_add_test(t, one_daemon_a_socket);
    tcase_add_test(t, many_processors);
    tcase_add_test(t, clock_is_set);
    tcase_add_test(t, without_rights);
    tcase_add_test(t, command_line);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
