/* SPDX-License-Identifier: Apache-2.0
 *
 * See fake-daemon.h. The thread touches the test's memory only under the lock; the test changes
 * behaviour, status and session only between its calls of libetw, which wait for the answer.
 */
#include "fake-daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lib/test.h"

static void reply_hello(int fd, const Etwd__Message *hello, uint32_t status)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__HelloReply body = ETWD__HELLO_REPLY__INIT;

    m.id = hello->id;
    m.status = status;
    body.protocol = ETWD_PROTOCOL;
    m.body_case = ETWD__MESSAGE__BODY_HELLO_REPLY;
    m.hello_reply = &body;
    (void) wire_send(fd, &m, NULL, 0, 0);
}

static void reply_session(struct fake_daemon *d, int fd, uint64_t id)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__SessionReply body = ETWD__SESSION_REPLY__INIT;

    m.id = id;
    m.status = d->reply_status;
    body.session = d->session;
    if (d->behaviour != FAKE_NO_BODY && d->reply_status == 0) {
        m.body_case = ETWD__MESSAGE__BODY_SESSION_REPLY;
        m.session_reply = &body;
    }
    (void) wire_send(fd, &m, NULL, 0, 0);
}

static void keep_file(struct fake_daemon *d, int file)
{
    struct stat st;

    d->had_file = file >= 0;
    if (file < 0)
        return;
    d->file_flags = fcntl(file, F_GETFL);
    if (fstat(file, &st) == 0) {
        d->file_regular = S_ISREG(st.st_mode);
        d->file_dev = st.st_dev;
        d->file_ino = st.st_ino;
    }
}

static void serve_request(struct fake_daemon *d, int fd)
{
    Etwd__Message *request = NULL;
    int files[2] = {-1, -1};
    size_t n_files = 0;
    uint64_t id;

    if (wire_receive(fd, 0, &request, files, 2, &n_files) < 0)
        return;
    id = request->id;
    pthread_mutex_lock(&d->lock);
    d->request = wire_message_free(d->request);
    d->request = request;
    keep_file(d, n_files > 0 ? files[0] : -1);
    pthread_mutex_unlock(&d->lock);
    if (d->on_request)
        d->on_request(d);
    if (d->behaviour == FAKE_WRITE_CLOSE && n_files > 0)
        (void) !write(files[0], "begun", 5);
    for (size_t i = 0; i < n_files; i++)
        (void) close(files[i]);
    switch (d->behaviour) {
    case FAKE_CLOSE_REQUEST:
    case FAKE_WRITE_CLOSE:
        return;
    case FAKE_GARBAGE:
        (void) !send(fd, "\xff\xff\xff\xff garbage", 12, MSG_NOSIGNAL);
        return;
    case FAKE_OTHER_FIRST:
        reply_session(d, fd, 0);
        reply_session(d, fd, id + 77);
        break;
    default:
        break;
    }
    reply_session(d, fd, id);
}

static void serve(struct fake_daemon *d, int fd)
{
    Etwd__Message *hello = NULL;
    struct ucred peer;
    socklen_t len = sizeof(peer);
    size_t n;

    if (wire_receive(fd, 0, &hello, NULL, 0, &n) < 0)
        return;
    pthread_mutex_lock(&d->lock);
    d->connections++;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0) {
        d->last_pid = peer.pid;
        d->last_uid = peer.uid;
    }
    pthread_mutex_unlock(&d->lock);
    if (d->behaviour == FAKE_SILENT) {
        char byte;
        (void) !recv(fd, &byte, 1, 0); /* until the other side gives up */
    } else if (hello->body_case == ETWD__MESSAGE__BODY_HELLO &&
               hello->hello->protocol == ETWD_PROTOCOL &&
               strncmp(hello->hello->library, "libetw ", 7) == 0 &&
               d->behaviour != FAKE_CLOSE_HELLO) {
        reply_hello(fd, hello, d->behaviour == FAKE_REFUSE_HELLO ? d->reply_status : 0);
        if (d->behaviour != FAKE_REFUSE_HELLO)
            serve_request(d, fd);
    }
    (void) wire_message_free(hello);
}

static void *run(void *arg)
{
    struct fake_daemon *d = arg;

    for (;;) {
        int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL; /* shut down */
        serve(d, fd);
        (void) close(fd);
    }
}

struct fake_daemon *fake_daemon_start(void)
{
    struct fake_daemon *d = calloc(1, sizeof(*d));
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    ck_assert_ptr_nonnull(d);
    d->path = test_path("fake.sock");
    ck_assert_uint_lt(strlen(d->path), sizeof(sa.sun_path));
    strcpy(sa.sun_path, d->path);
    (void) unlink(d->path);
    d->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(d->listener, 0);
    ck_assert_int_eq(bind(d->listener, (const struct sockaddr *) &sa, sizeof(sa)), 0);
    ck_assert_int_eq(listen(d->listener, 64), 0);
    pthread_mutex_init(&d->lock, NULL);
    d->session = fake_session("session", NULL);
    ck_assert_int_eq(pthread_create(&d->thread, NULL, run, d), 0);
    ck_assert_int_eq(setenv("ETWD_SOCKET", d->path, 1), 0);
    return d;
}

struct fake_daemon *fake_daemon_stop(struct fake_daemon *d)
{
    if (!d)
        return NULL;
    (void) shutdown(d->listener, SHUT_RDWR);
    (void) pthread_join(d->thread, NULL);
    (void) close(d->listener);
    (void) unlink(d->path);
    (void) wire_message_free(d->request);
    pthread_mutex_destroy(&d->lock);
    free(d->path);
    free(d);
    return NULL;
}

Etwd__Session *fake_session(const char *name, const char *log_file)
{
    static Etwd__Session s;
    static Etwd__SessionProperties p;
    static Etwd__Lost lost[2], *losts[2] = {&lost[0], &lost[1]};
    static uint8_t guid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    static char name_copy[8192], file_copy[8192];
    static char causes[2][16] = {"disk", "no_buffer"};

    etwd__session__init(&s);
    etwd__session_properties__init(&p);
    strncpy(name_copy, name, sizeof(name_copy) - 1);
    strncpy(file_copy, log_file ? log_file : "", sizeof(file_copy) - 1);
    p.name = name_copy;
    p.log_file = file_copy;
    p.guid = (ProtobufCBinaryData){.len = sizeof(guid), .data = guid};
    p.clock = 1;
    p.buffer_size_kb = 64;
    p.minimum_buffers = 4;
    p.maximum_buffers = 24;
    p.maximum_file_size = 77;
    p.log_file_mode = 1;
    p.flush_timer_s = 9;
    p.enable_flags = 3;
    p.flush_threshold = 5;
    p.v2_options = 6;
    for (int i = 0; i < 2; i++) {
        etwd__lost__init(&lost[i]);
        lost[i].cause = causes[i];
        lost[i].events = (uint64_t) i + 20;
    }
    s.handle = 0x0000000300020011;
    s.properties = &p;
    s.buffers = 6;
    s.buffers_free = 2;
    s.buffers_written = 11;
    s.log_buffers_lost = 12;
    s.real_time_buffers_lost = 13;
    s.n_lost = 2;
    s.lost = losts;
    s.logger_thread_id = 4321;
    return &s;
}

const Etwd__StartSession *fake_start_request(const struct fake_daemon *d)
{
    ck_assert_ptr_nonnull(d->request);
    ck_assert_int_eq(d->request->body_case, ETWD__MESSAGE__BODY_START_SESSION);
    return d->request->start_session;
}

const Etwd__ControlSession *fake_control_request(const struct fake_daemon *d)
{
    ck_assert_ptr_nonnull(d->request);
    ck_assert_int_eq(d->request->body_case, ETWD__MESSAGE__BODY_CONTROL_SESSION);
    return d->request->control_session;
}
