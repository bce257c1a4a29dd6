/* SPDX-License-Identifier: Apache-2.0
 *
 * Attacks on etwd's control socket below the meaning of messages: garbage, halves, floods,
 * descriptors, clients that do not read or do not stay. After each, another client is served as
 * before and etwd holds what it held before.
 */
#include <check.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "client.h"

#define NOBODY 65534u

static struct test_daemon *etwd;
static int honest = -1; /* a client that behaves, connected all the time */
static size_t fds_before;

static void setup(void)
{
    struct rlimit rl;

    etwd = test_daemon_start();
    honest = client_new();
    client_wait_alone(honest);
    ck_assert_uint_eq(client_count_sessions(honest), 0);
    fds_before = test_count_fds(etwd->pid);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &rl), 0);
    rl.rlim_cur = rl.rlim_max;
    (void) setrlimit(RLIMIT_NOFILE, &rl);
}

/* Nothing is left of the attack, nobody else has suffered. */
static void teardown(void)
{
    for (int i = 0; i < 10; i++)
        ck_assert_uint_eq(client_count_sessions(honest), 0);
    client_wait_fds(etwd, fds_before);
    honest = safe_close(honest);
    test_daemon_stop(etwd);
    etwd = test_daemon_free(etwd);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Whatever comes back to an attack on a connection: a refusal or the end, never silence for ever,
 * never success. */
static void expect_refusal(int sock)
{
    Etwd__Message *m = client_receive(sock);

    if (m)
        ck_assert_uint_ne(m->status, 0);
    wire_message_free(m);
}

static size_t pack_start(uint8_t **ret)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__StartSession start = ETWD__START_SESSION__INIT;
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    size_t size;

    p.name = (char *) "victim";
    p.log_file = (char *) "/nowhere/x.etl";
    p.buffer_size_kb = 64;
    start.properties = &p;
    m.id = 1;
    m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    m.start_session = &start;
    ck_assert_int_eq(wire_pack(&m, (void **) ret, &size), 0);
    return size;
}

START_TEST(garbage)
{
    static uint8_t packet[200000];

    for (int i = 0; i < test_scale(300); i++) {
        size_t size = 1 + next_random() % (i % 10 == 0 ? sizeof(packet) : 512);
        int sock = i % 2 ? client_new() : client_connect();

        for (size_t k = 0; k < size; k++)
            packet[k] = (uint8_t) (next_random() >> 24);
        if (client_send_raw(sock, packet, size, NULL, 0) == 0)
            expect_refusal(sock);
        safe_close(sock);
    }
}
END_TEST

START_TEST(size_limits)
{
    uint8_t *packet = calloc(1, 2 * ETW_MESSAGE_MAX);
    static const size_t sizes[] = {ETW_MESSAGE_MAX - 1, ETW_MESSAGE_MAX, ETW_MESSAGE_MAX + 1,
                                   2 * ETW_MESSAGE_MAX};
    uint8_t *start;
    size_t start_size = pack_start(&start);

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        int sock = client_new();

        /* A message that is right up to its end, then padding that is an unknown field. */
        memcpy(packet, start, start_size);
        packet[start_size] = 0xFA; /* field 511, bytes */
        packet[start_size + 1] = 0x1F;
        {
            size_t rest = sizes[i] - start_size - 5;

            packet[start_size + 2] = (uint8_t) (0x80 | (rest & 0x7F));
            packet[start_size + 3] = (uint8_t) (0x80 | (rest >> 7 & 0x7F));
            packet[start_size + 4] = (uint8_t) (rest >> 14);
        }
        if (client_send_raw(sock, packet, sizes[i], NULL, 0) == 0)
            expect_refusal(sock);
        safe_close(sock);
    }
    /* An empty packet. */
    {
        int sock = client_new();

        (void) client_send_raw(sock, packet, 0, NULL, 0);
        ck_assert_ptr_null(client_receive(sock));
        safe_close(sock);
    }
    free(start);
    free(packet);
}
END_TEST

START_TEST(half_messages)
{
    uint8_t *start;
    size_t size = pack_start(&start);

    for (size_t cut = 1; cut < size; cut++) {
        int sock = client_new();

        ck_assert_int_eq(client_send_raw(sock, start, cut, NULL, 0), 0);
        expect_refusal(sock);
        safe_close(sock);
    }
    /* Each byte changed. */
    for (size_t at = 0; at < size; at++) {
        int sock = client_new();
        uint8_t old = start[at];

        start[at] = (uint8_t) (old ^ (1 + next_random() % 255));
        ck_assert_int_eq(client_send_raw(sock, start, size, NULL, 0), 0);
        /* It may have become another request, even one that is granted. */
        wire_message_free(client_receive(sock));
        start[at] = old;
        safe_close(sock);
    }
    free(start);
}
END_TEST

/* Sub-messages in sub-messages, and thousands of them. */
START_TEST(bombs)
{
    static uint8_t packet[ETW_MESSAGE_MAX];
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__StartSession start = ETWD__START_SESSION__INIT;
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    Etwd__StackId id = ETWD__STACK_ID__INIT;
    Etwd__StackId *ids[21000];
    size_t size, resident = test_resident_kb(etwd->pid);
    void *data;
    int sock;

    /* As many stack ids as fit, each of two bytes in the packet and dozens in memory. */
    p.name = (char *) "bomb";
    p.log_file = (char *) "/nowhere/bomb.etl";
    start.properties = &p;
    start.stacks = ids;
    for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
        ids[i] = &id;
    start.n_stacks = ARRAY_SIZE(ids);
    m.id = 1;
    m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    m.start_session = &start;
    ck_assert_int_eq(wire_pack(&m, &data, &size), 0);
    for (int i = 0; i < 20; i++) {
        sock = client_new();
        ck_assert_int_eq(client_send_raw(sock, data, size, NULL, 0), 0);
        expect_refusal(sock);
        safe_close(sock);
    }
    free(data);

    /* Groups opened again and again (an obsolete kind of field), and lengths beyond the end. */
    for (int kind = 0; kind < 4; kind++) {
        static const uint8_t bytes[] = {0x0B, 0x5A, 0xFF, 0x80};

        memset(packet, bytes[kind], sizeof(packet));
        sock = client_new();
        if (client_send_raw(sock, packet, sizeof(packet), NULL, 0) == 0)
            expect_refusal(sock);
        safe_close(sock);
    }
    ck_assert_uint_lt(test_resident_kb(etwd->pid), resident + client_memory_slack_kb());
}
END_TEST

START_TEST(not_greeted)
{
    static const uint32_t protocols[] = {0, ETWD_PROTOCOL + 1, UINT32_MAX};
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__Hello hello = ETWD__HELLO__INIT;
    Etwd__QueryDaemon query = ETWD__QUERY_DAEMON__INIT;
    int sock = client_connect();

    m.body_case = ETWD__MESSAGE__BODY_QUERY_DAEMON;
    m.query_daemon = &query;
    reply = client_call(sock, &m, NULL, 0);
    ck_assert_uint_ne(reply->status, 0);
    wire_message_free(reply);
    safe_close(sock);

    for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
        sock = client_connect();
        hello.protocol = protocols[i];
        m.body_case = ETWD__MESSAGE__BODY_HELLO;
        m.hello = &hello;
        reply = client_call(sock, &m, NULL, 0);
        ck_assert_uint_eq(reply->status, ETW_ERROR_REVISION_MISMATCH);
        ck_assert_str_ne(reply->reason, "");
        wire_message_free(reply);
        safe_close(sock);
    }
}
END_TEST

/* Messages that only etwd sends, and none at all. */
START_TEST(wrong_direction)
{
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__SessionReply session = ETWD__SESSION_REPLY__INIT;
    Etwd__SessionList list = ETWD__SESSION_LIST__INIT;
    Etwd__HelloReply hello = ETWD__HELLO_REPLY__INIT;
    Etwd__DaemonReply daemon_reply = ETWD__DAEMON_REPLY__INIT;
    int sock = client_new();

    for (int i = 0; i < 5; i++) {
        m = (Etwd__Message) ETWD__MESSAGE__INIT;
        switch (i) {
        case 0:
            break;
        case 1:
            m.body_case = ETWD__MESSAGE__BODY_SESSION_REPLY;
            m.session_reply = &session;
            break;
        case 2:
            m.body_case = ETWD__MESSAGE__BODY_SESSION_LIST;
            m.session_list = &list;
            break;
        case 3:
            m.body_case = ETWD__MESSAGE__BODY_HELLO_REPLY;
            m.hello_reply = &hello;
            break;
        default:
            m.body_case = ETWD__MESSAGE__BODY_DAEMON_REPLY;
            m.daemon_reply = &daemon_reply;
        }
        reply = client_call(sock, &m, NULL, 0);
        ck_assert_uint_eq(reply->status, ETW_ERROR_NOT_SUPPORTED);
        wire_message_free(reply);
    }
    safe_close(sock);
}
END_TEST

/* Descriptors where none is expected, as many as the kernel lets through, also with garbage. */
START_TEST(descriptor_floods)
{
    int fds[ETW_MESSAGE_FDS_MAX];
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__QueryDaemon query = ETWD__QUERY_DAEMON__INIT;
    void *data;
    size_t size;

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = eventfd(0, EFD_CLOEXEC);
        ck_assert_int_ge(fds[i], 0);
    }
    m.body_case = ETWD__MESSAGE__BODY_QUERY_DAEMON;
    m.query_daemon = &query;
    m.id = 5;
    ck_assert_int_eq(wire_pack(&m, &data, &size), 0);
    for (int round = 0; round < test_scale(20); round++) {
        static const size_t counts[] = {1, 2, 7, ETW_MESSAGE_FDS_MAX};

        for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
            int sock = client_new();
            Etwd__Message *reply;

            ck_assert_int_eq(client_send_raw(sock, data, size, fds, counts[k]), 0);
            /* Answered or cut off, as etwd likes; none may stay there (teardown). */
            reply = client_receive(sock);
            wire_message_free(reply);
            if (reply && client_send_raw(sock, "garbage", 7, fds, counts[k]) == 0)
                expect_refusal(sock);
            safe_close(sock);
        }
    }
    free(data);
    /* The connection's own end in flight in the connection: a circle that only the kernel frees. */
    for (int i = 0; i < 20; i++) {
        int sock = client_new();

        (void) client_send_raw(sock, "x", 1, &sock, 1);
        safe_close(sock);
    }
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        safe_close(fds[i]);
}
END_TEST

/* A socket whose last close waits for a peer that reads nothing: *ret_peer, whose end ends it. */
static int lingering_socket(int *ret_peer)
{
    static const struct linger linger = {.l_onoff = 1, .l_linger = 3600};
    static const char bytes[65536];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert(listener >= 0 && fd >= 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *) &a, sizeof(a)), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *) &a, &len), 0);
    ck_assert_msg(connect(fd, (struct sockaddr *) &a, sizeof(a)) == 0, "connect: %m");
    *ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(*ret_peer, 0);
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    safe_close(listener);
    return fd;
}

enum hold_up { HOLD_QUERY, HOLD_START, HOLD_GARBAGE, HOLD_MANY, HOLD_UNREAD, HOLD_UPS };

/* As another user, whom etwd owes nothing. */
static void hold_up(enum hold_up how, int fd)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__QueryDaemon query = ETWD__QUERY_DAEMON__INIT;
    int many[ETW_MESSAGE_FDS_MAX], sock;
    uint8_t *start;
    size_t size = pack_start(&start);

    if (setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
        _exit(1);
    sock = client_new();
    m.body_case = ETWD__MESSAGE__BODY_QUERY_DAEMON;
    m.query_daemon = &query;
    for (size_t i = 0; i < ARRAY_SIZE(many); i++)
        many[i] = fd;
    switch (how) {
    case HOLD_QUERY:
        (void) wire_send(sock, &m, &fd, 1, 0);
        break;
    case HOLD_START:
        (void) client_send_raw(sock, start, size, &fd, 1);
        break;
    case HOLD_GARBAGE:
        (void) client_send_raw(sock, "garbage", 7, &fd, 1);
        break;
    case HOLD_MANY:
        (void) client_send_raw(sock, "garbage", 7, many, ARRAY_SIZE(many));
        break;
    default: /* what comes behind the end is thrown away with the connection */
        (void) client_send_raw(sock, "garbage", 7, NULL, 0);
        (void) client_send_raw(sock, "", 0, NULL, 0);
        (void) client_send_raw(sock, "garbage", 7, &fd, 1);
    }
    _exit(0);
}

/* Descriptors whose close may take as long as their sender likes: nobody else waits for it. */
START_TEST(descriptors_that_hold_up)
{
    int peers[HOLD_UPS];

    test_need_root();
    for (int how = 0; how < HOLD_UPS; how++) {
        int fd = lingering_socket(&peers[how]), status;
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (pid == 0)
            hold_up((enum hold_up) how, fd);
        /* etwd has the last one. */
        safe_close(fd);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        /* What the other began ends soon after it is gone; every question is answered meanwhile. */
        for (int i = 0; i < TEST_HANG_LIMIT_S * 100 && client_count_sessions(honest) > 0; i++)
            usleep(10000);
        ck_assert_uint_eq(client_count_sessions(honest), 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(peers); i++)
        safe_close(peers[i]);
}
END_TEST

/* Clients that send and do not read. etwd stops reading from them, and they cost nobody else. */
START_TEST(never_reads)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__ListSessions list = ETWD__LIST_SESSIONS__INIT;
    int socks[20];
    size_t before = test_resident_kb(etwd->pid);
    unsigned sent = 0;

    m.body_case = ETWD__MESSAGE__BODY_LIST_SESSIONS;
    m.list_sessions = &list;
    for (size_t i = 0; i < ARRAY_SIZE(socks); i++)
        socks[i] = client_new();
    for (int round = 0; round < 5000; round++)
        for (size_t i = 0; i < ARRAY_SIZE(socks); i++) {
            if (wire_send(socks[i], &m, NULL, 0, MSG_DONTWAIT) == 0)
                sent++;
            if (round % 500 == 0 && i == 0)
                ck_assert_uint_eq(client_count_sessions(honest), 0);
        }
    ck_assert_uint_gt(sent, 1000);
    ck_assert_uint_eq(client_count_sessions(honest), 0);
    ck_assert_uint_lt(test_resident_kb(etwd->pid), before + client_memory_slack_kb());
    /* They are cut off in the end, without having been closed by us. */
    client_wait_fds(etwd, fds_before);
    for (size_t i = 0; i < ARRAY_SIZE(socks); i++)
        safe_close(socks[i]);
}
END_TEST

START_TEST(many_connections)
{
    static int socks[500];

    for (size_t i = 0; i < ARRAY_SIZE(socks); i++)
        socks[i] = i % 2 ? client_new() : client_connect();
    for (int i = 0; i < 20; i++)
        ck_assert_uint_eq(client_count_sessions(honest), 0);
    for (size_t i = 1; i < ARRAY_SIZE(socks); i += 2)
        ck_assert_uint_eq(client_count_sessions(socks[i]), 0);
    for (size_t i = 0; i < ARRAY_SIZE(socks); i++)
        safe_close(socks[i]);
    client_wait_fds(etwd, fds_before);

    /* Opened and closed as fast as it goes. */
    for (int i = 0; i < test_scale(2000); i++)
        safe_close(client_connect());
}
END_TEST

/* All at once, half of them silent; every question is answered meanwhile, and all memory comes
 * back. */
START_TEST(ten_thousand_connections)
{
    static int socks[10000];
    size_t n = (size_t) test_scale(ARRAY_SIZE(socks));
    struct rlimit rl;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &rl), 0);
    if (rl.rlim_cur < n + 500)
        test_skip("%zu descriptors are wanted", n + 500);
    honest = safe_close(honest);
    test_daemon_stop(etwd);
    test_daemon_again(etwd, (const char *const[]){"-o", "MaxConnections=20000", NULL});
    honest = client_new();
    client_wait_alone(honest);
    fds_before = test_count_fds(etwd->pid);
    size_t before = test_resident_kb(etwd->pid);
    for (size_t i = 0; i < n; i++) {
        socks[i] = i % 2 ? client_new() : client_connect();
        if (i % 500 == 0)
            ck_assert_uint_eq(client_count_sessions(honest), 0);
    }
    for (size_t i = 1; i < n; i += 100)
        ck_assert_uint_eq(client_count_sessions(socks[i]), 0);
    /* A connection is some hundred bytes and a watch: 8 KiB would be too much. */
    if (!getenv("ETW_SANITIZED"))
        ck_assert_uint_lt(test_resident_kb(etwd->pid), before + 8 * n);
    for (size_t i = 0; i < n; i++)
        safe_close(socks[i]);
    ck_assert_uint_eq(client_count_sessions(honest), 0);
    client_wait_alone(honest);
}
END_TEST

START_TEST(quota_of_connections)
{
    int socks[12], refused = 0, served = 0;

    honest = safe_close(honest);
    test_daemon_stop(etwd);
    test_daemon_again(etwd, (const char *const[]){"-o", "MaxConnections=8", NULL});
    for (size_t i = 0; i < ARRAY_SIZE(socks); i++) {
        Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
        Etwd__Hello hello = ETWD__HELLO__INIT;

        socks[i] = client_connect();
        hello.protocol = ETWD_PROTOCOL;
        m.id = 1;
        m.body_case = ETWD__MESSAGE__BODY_HELLO;
        m.hello = &hello;
        (void) wire_send(socks[i], &m, NULL, 0, 0);
        reply = client_receive(socks[i]);
        ck_assert_ptr_nonnull(reply);
        if (reply->status == 0)
            served++;
        else {
            ck_assert_uint_eq(reply->status, ETW_ERROR_NO_SYSTEM_RESOURCES);
            ck_assert_ptr_nonnull(strstr(reply->reason, "MaxConnections"));
            refused++;
        }
        wire_message_free(reply);
    }
    ck_assert_int_eq(served, 8);
    ck_assert_int_eq(refused, 4);
    for (size_t i = 0; i < ARRAY_SIZE(socks); i++)
        safe_close(socks[i]);
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100 && honest < 0; i++) {
        /* Room comes back when etwd has seen the others go. */
        int sock = client_connect();
        Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
        Etwd__Hello hello = ETWD__HELLO__INIT;

        hello.protocol = ETWD_PROTOCOL;
        m.body_case = ETWD__MESSAGE__BODY_HELLO;
        m.hello = &hello;
        (void) wire_send(sock, &m, NULL, 0, 0);
        reply = client_receive(sock);
        if (reply && reply->status == 0)
            honest = sock;
        else {
            safe_close(sock);
            usleep(10000);
        }
        wire_message_free(reply);
    }
    ck_assert_int_ge(honest, 0);
    client_wait_alone(honest);
    fds_before = test_count_fds(etwd->pid);
}
END_TEST

/* Floods from other processes while an honest client asks: it is answered all the time. */
START_TEST(nobody_else_is_delayed)
{
    pid_t attackers[4];

    for (size_t i = 0; i < ARRAY_SIZE(attackers); i++) {
        attackers[i] = fork();
        ck_assert_int_ge(attackers[i], 0);
        if (attackers[i] == 0) {
            static uint8_t noise[4096];

            for (;;) {
                int sock = client_connect();

                if (i % 2 == 0)
                    client_hello(sock);
                for (int k = 0; k < 50; k++) {
                    for (size_t b = 0; b < 64; b++)
                        noise[b] = (uint8_t) next_random();
                    if (client_send_raw(sock, noise, 1 + next_random() % sizeof(noise), &sock,
                                        k % 3 == 0) < 0)
                        break;
                }
                safe_close(sock);
            }
        }
    }
    for (int i = 0; i < test_scale(500); i++)
        ck_assert_uint_eq(client_count_sessions(honest), 0);
    for (size_t i = 0; i < ARRAY_SIZE(attackers); i++) {
        ck_assert_int_eq(kill(attackers[i], SIGKILL), 0);
        ck_assert_int_eq(waitpid(attackers[i], NULL, 0), attackers[i]);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("packets");
    TCase *t = tcase_create("attacks");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 240);
    tcase_add_test(t, garbage);
    tcase_add_test(t, size_limits);
    tcase_add_test(t, half_messages);
    tcase_add_test(t, bombs);
    tcase_add_test(t, not_greeted);
    tcase_add_test(t, wrong_direction);
    tcase_add_test(t, descriptor_floods);
    tcase_add_test(t, never_reads);
    tcase_add_test(t, many_connections);
    tcase_add_test(t, ten_thousand_connections);
    tcase_add_test(t, quota_of_connections);
    tcase_add_test(t, nobody_else_is_delayed);
    suite_add_tcase(s, t);

    t = tcase_create("waits");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 240);
    tcase_add_test(t, descriptors_that_hold_up);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
