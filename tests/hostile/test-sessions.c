/* SPDX-License-Identifier: Apache-2.0
 *
 * Attacks on etwd through well-formed requests: log files that are none, names that bite, numbers
 * at their ends, other users' sessions, clients that leave in the middle. A refusal leaves nothing
 * behind; nobody else notices.
 */
#include <check.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client.h"
#include "fuse-server.h"

#define NOBODY 65534u
#define FLAG_PROCESS 0x00000001u
#define MODE_SEQUENTIAL 0x00000001u

static struct test_daemon *etwd;
static int honest = -1;
static size_t fds_before;

static void setup(void)
{
    etwd = test_daemon_start();
    honest = client_new();
    client_wait_alone(honest);
    fds_before = test_count_fds(etwd->pid);
}

static void teardown(void)
{
    ck_assert_uint_eq(client_count_sessions(honest), 0);
    client_wait_alone(honest);
    client_wait_fds(etwd, fds_before);
    honest = safe_close(honest);
    test_daemon_stop(etwd);
    etwd = test_daemon_free(etwd);
}

static Etwd__SessionProperties properties(const char *name, const char *log_file)
{
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;

    p.name = (char *) name;
    p.log_file = (char *) log_file;
    p.log_file_mode = MODE_SEQUENTIAL;
    return p;
}

static int open_log(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

    ck_assert_msg(fd >= 0, "%s: %m", path);
    return fd;
}

/* A start with these descriptors must be refused, and leave no session. */
static void refused_descriptor(const char *what, const int *fds, size_t n_fds)
{
    Etwd__SessionProperties p = properties("bad file", "/tmp/x.etl");
    uint32_t status = client_start(honest, &p, false, true, fds, n_fds, NULL);

    ck_assert_msg(status != 0, "accepted: %s", what);
    ck_assert_uint_eq(client_count_sessions(honest), 0);
}

static void refused_fd(const char *what, int fd)
{
    ck_assert_msg(fd >= 0, "%s: %m", what);
    refused_descriptor(what, &fd, 1);
    safe_close(fd);
}

START_TEST(descriptors_that_are_no_log_file)
{
    char *path = test_path("file"), *fifo = test_path("fifo"), *dir = test_path("folder");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int pair[2], fd;

    safe_close(open_log(path));
    refused_descriptor("none", NULL, 0);
    ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
    refused_fd("a pipe to write", pair[1]);
    refused_fd("a pipe to read", pair[0]);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    refused_fd("a socket", pair[0]);
    refused_fd("a socket whose other end is closed", pair[1]);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    strncpy(a.sun_path, etwd->socket, sizeof(a.sun_path) - 1);
    ck_assert_int_eq(connect(fd, (struct sockaddr *) &a, sizeof(a)), 0);
    refused_fd("a connection to etwd", fd);
    refused_fd("O_PATH", open(path, O_PATH | O_CLOEXEC));
    refused_fd("O_APPEND", open(path, O_RDWR | O_APPEND | O_CLOEXEC));
    refused_fd("read-only", open(path, O_RDONLY | O_CLOEXEC));
    refused_fd("/dev/null", open("/dev/null", O_RDWR | O_CLOEXEC));
    refused_fd("/dev/full", open("/dev/full", O_RDWR | O_CLOEXEC));
    ck_assert_int_eq(mkfifo(fifo, 0644), 0);
    refused_fd("a FIFO", open(fifo, O_RDWR | O_CLOEXEC));
    ck_assert_int_eq(mkdir(dir, 0755), 0);
    refused_fd("a folder", open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    refused_fd("a file of /proc", open("/proc/self/comm", O_RDWR | O_CLOEXEC));
    refused_fd("its own memory", open("/proc/self/mem", O_RDWR | O_CLOEXEC));
    refused_fd("a memfd", memfd_create("x", MFD_CLOEXEC));
    refused_fd("an eventfd", eventfd(0, EFD_CLOEXEC));
    refused_fd("an epoll instance", epoll_create1(EPOLL_CLOEXEC));
    fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        refused_fd("a file of /sys", fd);

    /* More than one. */
    {
        int two[2] = {open_log(path), open_log(path)};
        Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
        Etwd__StartSession start = ETWD__START_SESSION__INIT;
        Etwd__SessionProperties p = properties("two", path);
        int sock = client_new();

        start.properties = &p;
        start.bound = true;
        m.id = 9;
        m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
        m.start_session = &start;
        ck_assert_int_eq(wire_send(sock, &m, two, 2, 0), 0);
        reply = client_receive(sock);
        ck_assert(!reply || reply->status != 0);
        wire_message_free(reply);
        safe_close(sock);
        safe_close(two[0]);
        safe_close(two[1]);
    }
    /* A refused file keeps its content. */
    {
        char *content;
        size_t size;

        fd = open_log(path);
        ck_assert_int_eq(write(fd, "precious", 8), 8);
        safe_close(fd);
        refused_fd("read-only", open(path, O_RDONLY | O_CLOEXEC));
        refused_fd("O_APPEND", open(path, O_RDWR | O_APPEND | O_CLOEXEC));
        content = test_read_file(path, &size);
        ck_assert_str_eq(content, "precious");
        free(content);
    }
    free(path);
    free(fifo);
    free(dir);
}
END_TEST

START_TEST(one_file_for_two_sessions)
{
    char *path = test_path("shared.etl"), *link = test_path("hard-link.etl");
    Etwd__SessionProperties p = properties("first", path), q = properties("second", path);
    int fd = open_log(path), other, sock = client_new();

    ck_assert_uint_eq(client_start(sock, &p, false, true, &fd, 1, NULL), 0);
    /* The same descriptor, another one of the same file, another name of it. */
    ck_assert_uint_eq(client_start(sock, &q, false, true, &fd, 1, NULL), ETW_ERROR_BAD_PATHNAME);
    other = open_log(path);
    ck_assert_uint_eq(client_start(sock, &q, false, true, &other, 1, NULL), ETW_ERROR_BAD_PATHNAME);
    safe_close(other);
    ck_assert_int_eq(linkat(AT_FDCWD, path, AT_FDCWD, link, 0), 0);
    q.log_file = link;
    other = open_log(link);
    ck_assert_uint_eq(client_start(sock, &q, false, true, &other, 1, NULL), ETW_ERROR_BAD_PATHNAME);
    safe_close(other);
    ck_assert_uint_eq(client_count_sessions(honest), 1);
    safe_close(fd);
    ck_assert_uint_eq(client_stop(sock, "first"), 0);
    safe_close(sock);
    free(path);
    free(link);
}
END_TEST

/* The client does to its file what it likes while etwd writes. */
START_TEST(file_changes_under_the_session)
{
    char *path = test_path("mine.etl");
    Etwd__SessionProperties p = properties("mine", path);
    int fd = open_log(path), sock = client_new();

    ck_assert_uint_eq(client_start(sock, &p, false, true, &fd, 1, NULL), 0);
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    ck_assert_uint_eq(client_control(sock, "mine", 0, ETWD__CONTROL_SESSION__CODE__FLUSH), 0);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(lseek(fd, 1 << 20, SEEK_SET), 1 << 20);
    ck_assert_int_eq(write(fd, "noise", 5), 5);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_APPEND), 0); /* of the open file: etwd's, too */
    ck_assert_uint_eq(client_control(sock, "mine", 0, ETWD__CONTROL_SESSION__CODE__FLUSH), 0);
    (void) client_stop(sock, "mine");
    safe_close(fd);
    safe_close(sock);
    free(path);
}
END_TEST

START_TEST(hostile_names)
{
    static const char *const names[] = {
        "\033[31mred\033[0m",
        "two\nlines",
        "tab\tand\rreturn",
        "a\x7f\x9b",
        "\xc2\x9b"
        "31m",
        "..",
        "/etc/passwd",
        "%s%n%x",
        "\xe2\x80\xae"
        "txt.exe",
        "--json",
        "' OR 1=1",
        "$(reboot)",
    };
    static const char *const invalid[] = {"\xff\xfe", "a\xc3", "\xed\xa0\x80", "\xc0\xaf",
                                          "\xf4\x90\x80\x80"};
    char *path = test_path("names.etl"), *longest, *log;
    int fd = open_log(path), sock = client_new();
    Etwd__SessionProperties p;
    struct test_output out;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        uint32_t status;

        p = properties(names[i], path);
        status = client_start(sock, &p, false, true, &fd, 1, NULL);
        /* Taken or refused, and no terminal is told what to do by it. */
        test_etwctl_ok(&out, "list");
        for (size_t k = 0; k < out.out_size; k++)
            ck_assert_msg((unsigned char) out.out[k] >= 0x20 || out.out[k] == '\n',
                          "name %zu: control character %#x in: %s", i, (unsigned) out.out[k],
                          out.out);
        ck_assert_ptr_null(memmem(out.out, out.out_size, "\xc2\x9b", 2));
        ck_assert_ptr_null(memmem(out.out, out.out_size, "\xe2\x80\xae", 3));
        test_output_done(&out);
        test_etwctl_ok(&out, "list", "--json");
        json_object_put(test_json(out.out));
        test_output_done(&out);
        if (status == 0)
            ck_assert_uint_eq(client_stop(sock, names[i]), 0);
        else
            ck_assert(status == ETW_ERROR_INVALID_PARAMETER || status == ETW_ERROR_INVALID_NAME);
    }
    for (size_t i = 0; i < ARRAY_SIZE(invalid); i++) {
        p = properties(invalid[i], path);
        ck_assert_uint_ne(client_start(sock, &p, false, true, &fd, 1, NULL), 0);
        ck_assert_uint_ne(client_stop(sock, invalid[i]), 0);
    }
    p = properties("", path);
    ck_assert_uint_ne(client_start(sock, &p, false, true, &fd, 1, NULL), 0);

    /* 1024 characters are allowed, whatever their bytes; one more is not. */
    longest = calloc(1, 4 * (ETW_NAME_MAX + 2));
    for (int i = 0; i < ETW_NAME_MAX; i++)
        strcat(longest, "ä");
    p = properties(longest, path);
    ck_assert_uint_eq(client_start(sock, &p, false, true, &fd, 1, NULL), 0);
    ck_assert_uint_eq(client_stop(sock, longest), 0);
    strcat(longest, "x");
    ck_assert_uint_ne(client_start(sock, &p, false, true, &fd, 1, NULL), 0);
    memset(longest, 'x', 4 * ETW_NAME_MAX);
    ck_assert_uint_ne(client_start(sock, &p, false, true, &fd, 1, NULL), 0);

    /* Paths: they are only shown and written into the header, but must be what they say. */
    p = properties("paths", "relative.etl");
    ck_assert_uint_ne(client_start(sock, &p, false, true, &fd, 1, NULL), 0);
    longest[0] = '/';
    p.log_file = longest;
    ck_assert_uint_ne(client_start(sock, &p, false, true, &fd, 1, NULL), 0);
    p.log_file = (char *) "/bad\xff.etl";
    {
        /* File names are bytes on Linux: such a file may well exist. */
        if (client_start(sock, &p, false, true, &fd, 1, NULL) == 0)
            ck_assert_uint_eq(client_stop(sock, "paths"), 0);
    }
    p.log_file = (char *) "/esc\033]0;title\007.etl";
    if (client_start(sock, &p, false, true, &fd, 1, NULL) == 0) {
        test_etwctl_ok(&out, "show", "paths");
        ck_assert_ptr_null(memchr(out.out, 033, out.out_size));
        test_output_done(&out);
        ck_assert_uint_eq(client_stop(sock, "paths"), 0);
    }
    log = test_daemon_log(etwd);
    ck_assert_ptr_null(strchr(log, 033));
    free(log);
    free(longest);
    safe_close(fd);
    safe_close(sock);
    free(path);
}
END_TEST

/* A NUL inside a string of the message: whatever it is taken for, it is not two different names. */
START_TEST(nul_in_a_name)
{
    char *path = test_path("nul.etl");
    Etwd__SessionProperties p = properties("nameXhidden", path);
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__StartSession start = ETWD__START_SESSION__INIT;
    int fd = open_log(path), sock = client_new();
    uint8_t *data, *at;
    size_t size;

    start.properties = &p;
    start.bound = true;
    m.id = 77;
    m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    m.start_session = &start;
    ck_assert_int_eq(wire_pack(&m, (void **) &data, &size), 0);
    at = memmem(data, size, "nameXhidden", 11);
    ck_assert_ptr_nonnull(at);
    at[4] = '\0';
    ck_assert_int_eq(client_send_raw(sock, data, size, &fd, 1), 0);
    reply = client_receive(sock);
    if (reply && reply->status == 0) {
        ck_assert_str_eq(reply->session_reply->session->properties->name, "name");
        ck_assert_uint_eq(client_stop(sock, "name"), 0);
    }
    wire_message_free(reply);
    free(data);
    safe_close(fd);
    safe_close(sock);
    free(path);
}
END_TEST

START_TEST(numbers_at_their_ends)
{
    static const uint32_t numbers[] = {0, 1, 2, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF};
    char *path = test_path("numbers.etl");
    int fd = open_log(path), sock = client_new();
    size_t resident = test_resident_kb(etwd->pid);

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        for (int field = 0; field < 8; field++) {
            Etwd__SessionProperties p = properties("numbers", path);
            uint32_t *fields[] = {
                &p.buffer_size_kb, &p.minimum_buffers, &p.maximum_buffers, &p.maximum_file_size,
                &p.flush_timer_s,  &p.flush_threshold, &p.clock,           &p.enable_flags};

            *fields[field] = numbers[i];
            if (client_start(sock, &p, false, true, &fd, 1, NULL) == 0)
                ck_assert_uint_eq(client_stop(sock, "numbers"), 0);
            ck_assert_uint_eq(client_count_sessions(honest), 0);
        }
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        Etwd__SessionProperties p = properties("numbers", path);

        p.buffer_size_kb = p.minimum_buffers = p.maximum_buffers = p.flush_timer_s = numbers[i];
        p.bias_minutes = (int32_t) numbers[i];
        p.v2_options = numbers[i] * 0x100000001ULL;
        if (client_start(sock, &p, false, true, &fd, 1, NULL) == 0)
            ck_assert_uint_eq(client_stop(sock, "numbers"), 0);
    }
    for (int bit = 0; bit < 32; bit++) {
        Etwd__SessionProperties p = properties("modes", path);

        p.log_file_mode = 1u << bit;
        p.maximum_file_size = 1;
        if (client_start(sock, &p, false, true, &fd, 1, NULL) == 0)
            ck_assert_uint_eq(client_stop(sock, "modes"), 0);
        p.log_file_mode = ~(1u << bit);
        if (client_start(sock, &p, false, true, &fd, 1, NULL) == 0)
            ck_assert_uint_eq(client_stop(sock, "modes"), 0);
    }
    /* GUIDs of the wrong size. */
    for (size_t size = 0; size <= 40; size++) {
        static uint8_t bytes[40] = {1, 2, 3};
        Etwd__SessionProperties p = properties("guid", path);
        uint32_t status;

        p.guid.data = bytes;
        p.guid.len = size;
        status = client_start(sock, &p, false, true, &fd, 1, NULL);
        if (size == 0 || size == 16) {
            ck_assert_uint_eq(status, 0);
            ck_assert_uint_eq(client_stop(sock, "guid"), 0);
        } else
            ck_assert_uint_eq(status, ETW_ERROR_INVALID_PARAMETER);
    }
    /* What was refused has cost nothing that stays. */
    ck_assert_uint_lt(test_resident_kb(etwd->pid), resident + client_memory_slack_kb());
    safe_close(fd);
    safe_close(sock);
    free(path);
}
END_TEST

START_TEST(forged_handles)
{
    char *path = test_path("handles.etl");
    Etwd__SessionProperties p = properties("real", path);
    int fd = open_log(path), sock = client_new();
    uint64_t handle = 0, old;

    ck_assert_uint_eq(client_start(sock, &p, false, true, &fd, 1, &handle), 0);
    ck_assert_uint_ne(handle, 0);
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t forged = handle ^ 1ULL << bit;

        if ((forged & 0xFFFF) == (handle & 0xFFFF) && forged >> 16 == 0)
            continue; /* generation 0 means whatever runs under the number */
        ck_assert_uint_ne(client_control(sock, NULL, forged, ETWD__CONTROL_SESSION__CODE__QUERY),
                          0);
    }
    ck_assert_uint_ne(client_control(sock, NULL, 0, ETWD__CONTROL_SESSION__CODE__STOP), 0);
    ck_assert_uint_ne(client_control(sock, NULL, UINT64_MAX, ETWD__CONTROL_SESSION__CODE__STOP), 0);
    ck_assert_uint_ne(client_control(sock, NULL, handle, (Etwd__ControlSession__Code) 99), 0);
    ck_assert_uint_ne(client_control(sock, NULL, handle, (Etwd__ControlSession__Code) -1), 0);
    ck_assert_uint_eq(client_control(sock, NULL, handle, ETWD__CONTROL_SESSION__CODE__QUERY), 0);
    ck_assert_uint_eq(client_control(sock, NULL, handle, ETWD__CONTROL_SESSION__CODE__STOP), 0);

    /* The handle of a session that has ended does not reach its successor. */
    old = handle;
    ck_assert_uint_eq(client_start(sock, &p, false, true, &fd, 1, &handle), 0);
    ck_assert_uint_ne(old, handle);
    ck_assert_uint_eq(client_control(sock, NULL, old, ETWD__CONTROL_SESSION__CODE__STOP),
                      ETW_ERROR_WMI_INSTANCE_NOT_FOUND);
    ck_assert_uint_eq(client_stop(sock, "real"), 0);
    safe_close(fd);
    safe_close(sock);
    free(path);
}
END_TEST

static bool kernel_events_there(void)
{
    Etwd__Message *reply = client_query_daemon(honest);
    bool there = reply->daemon_reply->kernel_available;

    wire_message_free(reply);
    return there;
}

/* Clients that leave at any moment of a start: a bound session ends with its client, so none is
 * left. */
START_TEST(leaves_in_the_middle)
{
    bool kernel = kernel_events_there();

    for (int i = 0; i < test_scale(60); i++) {
        char name[32], *path;
        Etwd__SessionProperties p;
        Etwd__Message m = ETWD__MESSAGE__INIT;
        Etwd__StartSession start = ETWD__START_SESSION__INIT;
        int fd, sock = client_new();

        snprintf(name, sizeof(name), "left%d.etl", i % 3);
        path = test_path(name);
        fd = open_log(path);
        p = properties(name, path);
        if (kernel && i % 3 == 0) {
            p.name = (char *) "NT Kernel Logger";
            p.enable_flags = FLAG_PROCESS;
        }
        start.properties = &p;
        start.bound = true;
        m.id = 1;
        m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
        m.start_session = &start;
        ck_assert_int_eq(wire_send(sock, &m, &fd, 1, 0), 0);
        safe_close(fd);
        if (i % 4 != 0)
            usleep((useconds_t) (i * 137 % 4000));
        if (i % 5 == 0) { /* a stop right behind, whose answer nobody waits for either */
            Etwd__Message stop = ETWD__MESSAGE__INIT;
            Etwd__ControlSession control = ETWD__CONTROL_SESSION__INIT;

            control.name = p.name;
            control.code = ETWD__CONTROL_SESSION__CODE__STOP;
            stop.id = 2;
            stop.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
            stop.control_session = &control;
            ck_assert_int_eq(wire_send(sock, &stop, NULL, 0, 0), 0);
        }
        safe_close(sock);
        /* The kernel logger is one for all: the next round may only begin when it has ended, which
         * it may have once its connection is gone. */
        client_wait_alone(honest);
        for (int k = 0; k < TEST_HANG_LIMIT_S * 100 && client_count_sessions(honest) > 0; k++)
            usleep(10000);
        ck_assert_uint_eq(client_count_sessions(honest), 0);
        free(path);
    }
    ck_assert_uint_eq(client_count_sessions(honest), 0);
}
END_TEST

/* Many requests before the first answer is read. */
START_TEST(all_at_once)
{
    char *path = test_path("at-once.etl");
    Etwd__SessionProperties p = properties("at once", path);
    Etwd__Message start_message = ETWD__MESSAGE__INIT, stop_message = ETWD__MESSAGE__INIT;
    Etwd__StartSession start = ETWD__START_SESSION__INIT;
    Etwd__ControlSession stop = ETWD__CONTROL_SESSION__INIT;
    int fd = open_log(path), sock = client_new();
    unsigned started = 0, stopped = 0, answers = 0, n = 0;

    start.properties = &p;
    start.bound = true;
    start_message.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    start_message.start_session = &start;
    stop.name = p.name;
    stop.code = ETWD__CONTROL_SESSION__CODE__STOP;
    stop_message.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
    stop_message.control_session = &stop;
    for (n = 0; n < 60; n++) {
        Etwd__Message *m = n % 3 == 2 ? &stop_message : &start_message;

        m->id = n + 1;
        if (wire_send(sock, m, &fd, n % 3 == 2 ? 0 : 1, 0) < 0)
            break;
    }
    ck_assert_uint_eq(n, 60);
    for (; answers < n; answers++) {
        Etwd__Message *reply = client_receive(sock);

        ck_assert_ptr_nonnull(reply);
        ck_assert_uint_ge(reply->id, 1);
        ck_assert_uint_le(reply->id, n);
        if (reply->status == 0) {
            if ((reply->id - 1) % 3 == 2)
                stopped++;
            else
                started++;
        }
        wire_message_free(reply);
    }
    ck_assert_uint_ge(started, 1);
    if (started > stopped)
        ck_assert_uint_eq(client_stop(sock, "at once"), 0);
    safe_close(fd);
    safe_close(sock);
    free(path);
}
END_TEST

/* Runs fn as another user, in a child. */
static void as_user(uid_t uid, void (*fn)(void))
{
    pid_t pid = fork();
    int status;

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
            ck_abort_msg("setuid: %m");
        fn();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(status == 0, "the other user's part failed (status %x), see above", status);
}

static char *user_path; /* in a folder that everybody may write to */

static void user_attacks(void)
{
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__ListSessions list = ETWD__LIST_SESSIONS__INIT;
    Etwd__StackTracing stacks = ETWD__STACK_TRACING__INIT;
    Etwd__SessionProperties p;
    int sock = client_new(), fd = open_log(user_path);
    uint64_t handle = 0;

    /* The kernel logger, by either way of starting it. */
    p = properties("NT Kernel Logger", user_path);
    p.enable_flags = FLAG_PROCESS;
    ck_assert_uint_eq(client_start(sock, &p, false, true, &fd, 1, NULL), ETW_ERROR_ACCESS_DENIED);
    p.guid.data = (uint8_t *) "\xad\x4a\x81\x9e\x04\x32\xd2\x11\x9a\x82\x00\x60\x08\xa8\x69\x39";
    p.guid.len = 16;
    ck_assert_uint_eq(client_start(sock, &p, true, true, &fd, 1, NULL), ETW_ERROR_ACCESS_DENIED);

    /* Root's session: every code, by name and by handle; not in the list. */
    for (int code = 0; code <= 5; code++) {
        ck_assert_uint_eq(client_control(sock, "roots", 0, (Etwd__ControlSession__Code) code),
                          ETW_ERROR_ACCESS_DENIED);
        ck_assert_uint_eq(client_control(sock, "ROOTS", 0, (Etwd__ControlSession__Code) code),
                          ETW_ERROR_ACCESS_DENIED);
    }
    for (uint64_t id = 2; id < 70; id++) {
        uint32_t status = client_control(sock, NULL, id, ETWD__CONTROL_SESSION__CODE__STOP);

        ck_assert(status == ETW_ERROR_ACCESS_DENIED || status == ETW_ERROR_WMI_INSTANCE_NOT_FOUND);
    }
    for (uint64_t id = 2; id < 70; id++) {
        stacks.handle = id;
        m.body_case = ETWD__MESSAGE__BODY_STACK_TRACING;
        m.stack_tracing = &stacks;
        reply = client_call(sock, &m, NULL, 0);
        ck_assert_uint_ne(reply->status, 0);
        wire_message_free(reply);
    }
    m.body_case = ETWD__MESSAGE__BODY_LIST_SESSIONS;
    m.list_sessions = &list;
    reply = client_call(sock, &m, NULL, 0);
    ck_assert_uint_eq(reply->status, 0);
    ck_assert_uint_eq(reply->session_list->n_sessions, 0);
    wire_message_free(reply);

    /* Own sessions are fine, up to the quota; root's name and file are taken. */
    p = properties("RoOtS", user_path);
    ck_assert_uint_ne(client_start(sock, &p, false, true, &fd, 1, NULL), 0);
    p = properties("own", user_path);
    ck_assert_uint_eq(client_start(sock, &p, false, true, &fd, 1, &handle), 0);
    ck_assert_uint_eq(client_control(sock, NULL, handle, ETWD__CONTROL_SESSION__CODE__FLUSH), 0);
    ck_assert_uint_eq(client_stop(sock, "own"), 0);
    {
        unsigned started = 0;
        uint32_t status = 0;

        for (int i = 0; i < 100 && status == 0; i++) {
            char name[32], path[4200];
            int other;

            snprintf(name, sizeof(name), "own%d", i);
            snprintf(path, sizeof(path), "%s.%d", user_path, i);
            other = open_log(path);
            p = properties(name, path);
            status = client_start(sock, &p, false, true, &other, 1, NULL);
            started += status == 0;
            safe_close(other);
        }
        ck_assert_uint_eq(status, ETW_ERROR_NO_SYSTEM_RESOURCES);
        ck_assert_uint_eq(started, 32); /* MaxSessionsPerUser */
    }
    /* Too much memory for one session. */
    p = properties("memory", user_path);
    p.buffer_size_kb = 16384;
    p.maximum_buffers = 0xFFFFFFFF;
    ck_assert_uint_ne(client_start(sock, &p, false, true, &fd, 1, NULL), 0);
    safe_close(fd);
    safe_close(sock);
}

START_TEST(another_user)
{
    char *path = test_path("roots.etl"), *folder = test_path("public");
    Etwd__SessionProperties p = properties("roots", path);
    int fd = open_log(path), sock = client_new();

    test_need_root();
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    user_path = test_path("public/user.etl");
    ck_assert_uint_eq(client_start(sock, &p, false, false, &fd, 1, NULL), 0);
    as_user(NOBODY, user_attacks);
    ck_assert_uint_eq(client_control(sock, "roots", 0, ETWD__CONTROL_SESSION__CODE__QUERY), 0);
    /* What the user left bound ends with it. */
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100 && client_count_sessions(honest) > 1; i++)
        usleep(10000);
    ck_assert_uint_eq(client_count_sessions(honest), 1);
    ck_assert_uint_eq(client_stop(sock, "roots"), 0);
    safe_close(fd);
    safe_close(sock);
    free(path);
    free(folder);
    free(user_path);
}
END_TEST

/* A user's process in the middle of write(2) to its log file, with the inode locked until the
 * memory that it writes from is there, which the user serves itself. */
static void *never_there; /* a mapping of a file of a stopped FUSE server */
static int fuse = -1;

static void user_holds_its_file(void)
{
    Etwd__SessionProperties p = properties("held", user_path);
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__StartSession start = ETWD__START_SESSION__INIT;
    int fd = open_log(user_path), other = open_log(user_path), sock = client_new();

    /* Who waits for the server must not keep it connected. */
    fuse = safe_close(fuse);
    if (fork() == 0)
        _exit(write(other, never_there, 4096) < 0);
    usleep(200000); /* until it sleeps there; too short a time makes the attack weaker */
    start.properties = &p;
    start.bound = true;
    m.id = 1;
    m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    m.start_session = &start;
    ck_assert_int_eq(wire_send(sock, &m, &fd, 1, 0), 0);
    while (client_count_sessions(honest) == 0)
        usleep(10000);
}

START_TEST(file_that_its_owner_holds)
{
    static const char content[8192] = "x";
    char *point = test_path("held"), *folder = test_path("public-too"), *path;
    Etwd__SessionProperties p;
    pid_t server;
    int fd, file;

    test_need_root();
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    user_path = test_path("public-too/user.etl");
    fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fuse < 0)
        test_skip("no /dev/fuse: %m");
    ck_assert_int_eq(mkdir(point, 0755), 0);
    server = fuse_server_start(fuse, content, sizeof(content));
    if (fuse_mount_at(fuse, point) < 0) {
        kill(server, SIGKILL);
        test_skip("FUSE cannot be mounted here");
    }
    path = test_path("held/program");
    file = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(file >= 0, "%s: %m", path);
    never_there = mmap(NULL, sizeof(content), PROT_READ, MAP_PRIVATE, file, 0);
    ck_assert_ptr_ne(never_there, MAP_FAILED);
    /* Only the mapping stays, and nothing of it when this process ends. */
    safe_close(file);
    ck_assert_int_eq(umount2(point, MNT_DETACH), 0);
    ck_assert_int_eq(kill(server, SIGSTOP), 0);

    as_user(NOBODY, user_holds_its_file);
    free(path);
    path = test_path("other.etl");
    p = properties("other", path);
    fd = open_log(path);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(client_start(honest, &p, false, true, &fd, 1, NULL), 0);
        ck_assert_uint_eq(client_stop(honest, "other"), 0);
    }
    safe_close(fd);

    ck_assert_int_eq(kill(server, SIGCONT), 0);
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100 && client_count_sessions(honest) > 0; i++)
        usleep(10000);
    munmap(never_there, sizeof(content));
    kill(server, SIGKILL);
    fuse = safe_close(fuse);
    ck_assert_int_eq(waitpid(server, NULL, 0), server);
    free(path);
    free(point);
    free(folder);
    free(user_path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sessions");
    TCase *t = tcase_create("attacks");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 240);
    tcase_add_test(t, descriptors_that_are_no_log_file);
    tcase_add_test(t, one_file_for_two_sessions);
    tcase_add_test(t, file_changes_under_the_session);
    tcase_add_test(t, hostile_names);
    tcase_add_test(t, nul_in_a_name);
    tcase_add_test(t, numbers_at_their_ends);
    tcase_add_test(t, forged_handles);
    tcase_add_test(t, leaves_in_the_middle);
    tcase_add_test(t, all_at_once);
    tcase_add_test(t, another_user);
    suite_add_tcase(s, t);

    t = tcase_create("waits");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 240);
    tcase_add_test(t, file_that_its_owner_holds);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
