/* SPDX-License-Identifier: Apache-2.0
 *
 * proto/wire/frame.c over a socket pair: messages, descriptors, and what a hostile peer sends.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "wire/frame.h"

static int a, b;

static void setup(void)
{
    int s[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
    a = s[0];
    b = s[1];
}

static void teardown(void)
{
    close(a);
    close(b);
}

static size_t open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    ck_assert_ptr_nonnull(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* A raw packet with n descriptors (all /dev/null). */
static void send_raw(const void *data, size_t len, size_t n)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 253)];
    } control = {0};
    struct iovec iov = {.iov_base = (void *) (uintptr_t) data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    if (n > 0) {
        struct cmsghdr *c;
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n);
        for (size_t i = 0; i < n; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
    }
    ck_assert_int_eq(sendmsg(a, &msg, MSG_NOSIGNAL), (ssize_t) len);
    close(fd);
}

static Etwd__Message hello(uint64_t id)
{
    static Etwd__Hello body;
    static char library[] = "libetw test";
    Etwd__Message m = ETWD__MESSAGE__INIT;

    etwd__hello__init(&body);
    body.protocol = ETWD_PROTOCOL;
    body.library = library;
    m.id = id;
    m.body_case = ETWD__MESSAGE__BODY_HELLO;
    m.hello = &body;
    return m;
}

START_TEST(message_round_trip)
{
    Etwd__Message m = hello(77), *got = NULL;
    size_t n_fds = 99;

    ck_assert_int_eq(wire_send(a, &m, NULL, 0, 0), 0);
    ck_assert_int_eq(wire_receive(b, 0, &got, NULL, 0, &n_fds), 0);
    ck_assert_uint_eq(n_fds, 0);
    ck_assert_uint_eq(got->id, 77);
    ck_assert_int_eq(got->body_case, ETWD__MESSAGE__BODY_HELLO);
    ck_assert_uint_eq(got->hello->protocol, ETWD_PROTOCOL);
    ck_assert_str_eq(got->hello->library, "libetw test");
    ck_assert_ptr_null(wire_message_free(got));
    ck_assert_ptr_null(wire_message_free(NULL));
}
END_TEST

START_TEST(properties_round_trip)
{
    /* Every field of the largest message keeps its value. */
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    Etwd__StartSession s = ETWD__START_SESSION__INIT;
    Etwd__Message m = ETWD__MESSAGE__INIT, *got;
    Etwd__StackId ids[256], *pointers[256];
    uint8_t guid[16] = {1, 2, 3};
    char name[1025], file[1025];
    size_t n_fds;

    memset(name, 'n', 1024);
    memset(file, 'f', 1024);
    name[1024] = file[1024] = 0;
    p.name = name;
    p.log_file = file;
    p.guid.data = guid;
    p.guid.len = sizeof(guid);
    p.bias_minutes = -720;
    p.enable_flags = 0xFFFFFFFF;
    p.v2_options = UINT64_MAX;
    for (size_t i = 0; i < 256; i++) {
        etwd__stack_id__init(&ids[i]);
        ids[i].guid.data = guid;
        ids[i].guid.len = sizeof(guid);
        ids[i].type = (uint32_t) i;
        pointers[i] = &ids[i];
    }
    s.properties = &p;
    s.bound = s.kernel = s.created_file = true;
    s.n_stacks = 256;
    s.stacks = pointers;
    m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    m.start_session = &s;
    ck_assert_int_eq(wire_send(a, &m, NULL, 0, 0), 0);
    ck_assert_int_eq(wire_receive(b, 0, &got, NULL, 0, &n_fds), 0);
    ck_assert_str_eq(got->start_session->properties->name, name);
    ck_assert_str_eq(got->start_session->properties->log_file, file);
    ck_assert_mem_eq(got->start_session->properties->guid.data, guid, 16);
    ck_assert_int_eq(got->start_session->properties->bias_minutes, -720);
    ck_assert_uint_eq(got->start_session->properties->v2_options, UINT64_MAX);
    ck_assert_uint_eq(got->start_session->n_stacks, 256);
    ck_assert_uint_eq(got->start_session->stacks[255]->type, 255);
    ck_assert(got->start_session->bound && got->start_session->kernel);
    wire_message_free(got);
}
END_TEST

START_TEST(descriptors)
{
    Etwd__Message m = hello(1), *got;
    struct stat sent, received;
    size_t before = open_fds(), n_fds;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fds[4];
    const int two[] = {fd, fd};

    ck_assert_int_eq(wire_send(a, &m, two, 2, 0), 0);
    ck_assert_int_eq(wire_receive(b, 0, &got, fds, 4, &n_fds), 0);
    ck_assert_uint_eq(n_fds, 2);
    ck_assert_int_eq(fstat(fd, &sent), 0);
    for (size_t i = 0; i < n_fds; i++) {
        ck_assert_int_eq(fstat(fds[i], &received), 0);
        ck_assert_uint_eq(received.st_ino, sent.st_ino);
        ck_assert_int_eq(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        close(fds[i]);
    }
    wire_message_free(got);
    close(fd);
    ck_assert_uint_eq(open_fds(), before);
}
END_TEST

START_TEST(most_descriptors)
{
    Etwd__Message m = hello(1), *got;
    int fds[ETW_MESSAGE_FDS_MAX + 1], got_fds[ETW_MESSAGE_FDS_MAX];
    size_t before = open_fds(), n_fds;

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fds[i] = a;
    ck_assert_int_eq(wire_send(a, &m, fds, ETW_MESSAGE_FDS_MAX + 1, 0), -EINVAL);
    ck_assert_int_eq(wire_send(a, &m, fds, ETW_MESSAGE_FDS_MAX, 0), 0);
    ck_assert_int_eq(wire_receive(b, 0, &got, got_fds, ETW_MESSAGE_FDS_MAX, &n_fds), 0);
    ck_assert_uint_eq(n_fds, ETW_MESSAGE_FDS_MAX);
    ck_assert_uint_eq(open_fds(), before + ETW_MESSAGE_FDS_MAX);
    for (size_t i = 0; i < n_fds; i++)
        close(got_fds[i]);
    wire_message_free(got);
}
END_TEST

START_TEST(surplus_descriptors_are_closed)
{
    Etwd__Message m = hello(1), *got = NULL;
    size_t before = open_fds(), n_fds = 55;
    void *data;
    size_t len;
    int fds[2] = {-5, -5};

    ck_assert_int_eq(wire_pack(&m, &data, &len), 0);
    for (size_t max = 0; max <= 2; max++) {
        send_raw(data, len, 3);
        ck_assert_int_eq(wire_receive(b, 0, &got, fds, max, &n_fds), -EBADMSG);
        ck_assert_uint_eq(open_fds(), before);
        ck_assert_uint_eq(n_fds, 55);
        ck_assert_ptr_null(got);
    }
    send_raw(data, len, 253);
    ck_assert_int_eq(wire_receive(b, 0, &got, NULL, 0, &n_fds), -EBADMSG);
    ck_assert_uint_eq(open_fds(), before);
    /* The next message is not harmed. */
    send_raw(data, len, 0);
    ck_assert_int_eq(wire_receive(b, 0, &got, NULL, 0, &n_fds), 0);
    wire_message_free(got);
    free(data);
}
END_TEST

START_TEST(garbage_with_descriptors)
{
    static const uint8_t bad[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    Etwd__Message *got;
    size_t before = open_fds(), n_fds;
    int fds[4];

    send_raw(bad, sizeof(bad), 3);
    ck_assert_int_eq(wire_receive(b, 0, &got, fds, 4, &n_fds), -EBADMSG);
    ck_assert_uint_eq(open_fds(), before);
    /* An empty packet with descriptors. */
    send_raw("", 0, 2);
    ck_assert_int_eq(wire_receive(b, 0, &got, fds, 4, &n_fds), -ECONNRESET);
    ck_assert_uint_eq(open_fds(), before);
}
END_TEST

START_TEST(too_long)
{
    static char huge[ETW_MESSAGE_MAX + 1];
    Etwd__Message m = hello(1), *got;
    size_t before = open_fds(), n_fds;
    int size = 1 << 20;
    int fds[1];

    ck_assert_int_eq(setsockopt(a, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
    memset(huge, 'x', sizeof(huge) - 1);
    m.reason = huge;
    ck_assert_int_eq(wire_send(a, &m, NULL, 0, 0), -EMSGSIZE);
    /* A peer that does not ask: cut packets are refused, whatever they begin with. */
    send_raw(huge, sizeof(huge), 1);
    ck_assert_int_eq(wire_receive(b, 0, &got, fds, 1, &n_fds), -EBADMSG);
    ck_assert_uint_eq(open_fds(), before);
    /* The longest that fits. */
    m = hello(1);
    m.reason = huge;
    huge[ETW_MESSAGE_MAX - etwd__message__get_packed_size(&(Etwd__Message) ETWD__MESSAGE__INIT) -
         40] = 0;
    ck_assert_int_eq(wire_send(a, &m, NULL, 0, 0), 0);
    ck_assert_int_eq(wire_receive(b, 0, &got, NULL, 0, &n_fds), 0);
    ck_assert_uint_eq(strlen(got->reason), strlen(huge));
    wire_message_free(got);
}
END_TEST

START_TEST(unknown_body)
{
    /* Field 200 of a newer client, length-delimited: kept out of the way, body not set. */
    static const uint8_t newer[] = {0x08, 0x05, 0xC2, 0x0C, 0x02, 0x08, 0x01};
    Etwd__Message *m;

    ck_assert_int_eq(wire_unpack(newer, sizeof(newer), &m), 0);
    ck_assert_uint_eq(m->id, 5);
    ck_assert_int_eq(m->body_case, ETWD__MESSAGE__BODY__NOT_SET);
    wire_message_free(m);
    ck_assert_int_eq(wire_unpack("", 0, &m), 0);
    ck_assert_int_eq(m->body_case, ETWD__MESSAGE__BODY__NOT_SET);
    wire_message_free(m);
}
END_TEST

START_TEST(two_bodies)
{
    /* A oneof that is there twice: the last one counts, nothing leaks. */
    static const uint8_t twice[] = {0x52, 0x02, 0x08, 0x01, 0x6A, 0x02, 0x08, 0x07};
    Etwd__Message *m;

    ck_assert_int_eq(wire_unpack(twice, sizeof(twice), &m), 0);
    ck_assert_int_eq(m->body_case, ETWD__MESSAGE__BODY_LIST_SESSIONS);
    ck_assert_uint_eq(m->list_sessions->after_id, 7);
    wire_message_free(m);
}
END_TEST

START_TEST(cut_and_mutated)
{
    Etwd__Message m = hello(0x1234567), *got;
    _cleanup_free_ void *data = NULL;
    size_t len, bad = 0;

    ck_assert_int_eq(wire_pack(&m, &data, &len), 0);
    for (size_t n = 0; n < len; n++) {
        _cleanup_free_ uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, data, n);
        int r = wire_unpack(copy, n, &got);
        ck_assert(r == 0 || r == -EBADMSG);
        if (r == 0)
            wire_message_free(got);
        bad += r < 0;
    }
    ck_assert_uint_gt(bad, len / 2);
    for (size_t i = 0; i < len; i++)
        for (unsigned v = 0; v < 256; v++) {
            _cleanup_free_ uint8_t *copy = malloc(len);
            memcpy(copy, data, len);
            copy[i] = (uint8_t) v;
            int r = wire_unpack(copy, len, &got);
            ck_assert(r == 0 || r == -EBADMSG);
            if (r == 0)
                wire_message_free(got);
        }
    ck_assert_int_eq(wire_unpack(data, ETW_MESSAGE_MAX + 1, &got), -EBADMSG);
}
END_TEST

START_TEST(end_of_connection)
{
    Etwd__Message m = hello(1), *got;
    size_t n_fds;

    ck_assert_int_eq(wire_receive(b, MSG_DONTWAIT, &got, NULL, 0, &n_fds), -EAGAIN);
    ck_assert_int_eq(wire_send(a, &m, NULL, 0, 0), 0);
    shutdown(a, SHUT_RDWR);
    /* What was sent before is still there. */
    ck_assert_int_eq(wire_receive(b, 0, &got, NULL, 0, &n_fds), 0);
    wire_message_free(got);
    ck_assert_int_eq(wire_receive(b, 0, &got, NULL, 0, &n_fds), -ECONNRESET);
    /* No SIGPIPE: this process would be gone. */
    ck_assert_int_eq(wire_send(b, &m, NULL, 0, 0), -EPIPE);
    ck_assert_int_eq(wire_send(-1, &m, NULL, 0, 0), -EBADF);
    ck_assert_int_eq(wire_receive(-1, 0, &got, NULL, 0, &n_fds), -EBADF);
}
END_TEST

START_TEST(full_socket)
{
    Etwd__Message m = hello(1), *got;
    size_t n_fds, sent = 0;
    int r;

    while ((r = wire_send(a, &m, NULL, 0, MSG_DONTWAIT)) == 0)
        sent++;
    ck_assert_int_eq(r, -EAGAIN);
    for (size_t i = 0; i < sent; i++) {
        ck_assert_int_eq(wire_receive(b, 0, &got, NULL, 0, &n_fds), 0);
        wire_message_free(got);
    }
    ck_assert_int_eq(wire_receive(b, MSG_DONTWAIT, &got, NULL, 0, &n_fds), -EAGAIN);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("frame");
    TCase *t = tcase_create("frame");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, message_round_trip);
    tcase_add_test(t, properties_round_trip);
    tcase_add_test(t, descriptors);
    tcase_add_test(t, most_descriptors);
    tcase_add_test(t, surplus_descriptors_are_closed);
    tcase_add_test(t, garbage_with_descriptors);
    tcase_add_test(t, too_long);
    tcase_add_test(t, unknown_body);
    tcase_add_test(t, two_bodies);
    tcase_add_test(t, cut_and_mutated);
    tcase_add_test(t, end_of_connection);
    tcase_add_test(t, full_socket);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
