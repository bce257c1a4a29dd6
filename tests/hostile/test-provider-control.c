/* SPDX-License-Identifier: Apache-2.0
 *
 * Controllers that enable providers with what is no filter, and users who reach for other users'
 * providers. etwd refuses or takes what can be taken, and the honest provider's events go on.
 */
#include <check.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "provider-fixture.h"

#define FILTER_PID 0x80000004u
#define FILTER_EXE 0x80000008u
#define FILTER_EVENT_ID 0x80000200u
#define FILTER_SCHEMATIZED 0x80000000u
#define MODE_SEQUENTIAL 0x00000001u

static const struct etw_guid other_guid =
    ETW_GUID(0x07e40000, 0x0003, 0x4000, 0x80, 0, 0, 0, 0, 0, 0, 3);

static void setup(void)
{
    fixture_begin(NULL);
}

static void teardown(void)
{
    fixture_end();
}

static uint32_t enable_filtered(int sock, const struct etw_guid *guid, Etwd__Filter *filters,
                                size_t n)
{
    Etwd__Filter *list[64];

    for (size_t i = 0; i < n; i++)
        list[i] = &filters[i];
    return enable_with(sock, &(struct enable_args){.session = shared_session,
                                                   .guid = guid,
                                                   .code = 1,
                                                   .level = 5,
                                                   .filters = list,
                                                   .n_filters = n});
}

static Etwd__Filter filter(uint32_t type, const void *data, size_t size)
{
    Etwd__Filter f = ETWD__FILTER__INIT;

    f.type = type;
    f.data = (ProtobufCBinaryData){.len = size, .data = (uint8_t *) (uintptr_t) data};
    return f;
}

/* EVENT_FILTER_EVENT_ID whose count and size say different things. */
START_TEST(event_id_filters)
{
    static uint8_t data[4096];
    uint64_t seed = 3;
    Etwd__Filter f;

    for (unsigned count = 0; count < 300; count += count < 70 ? 1 : 37)
        for (unsigned have = 0; have < 300; have += have < 4 ? 1 : 60) {
            uint32_t status;

            raw_random_bytes(&seed, data, sizeof(data));
            data[0] = (uint8_t) (count & 1);
            memcpy(data + 2, &(uint16_t){(uint16_t) count}, 2);
            f = filter(FILTER_EVENT_ID, data, 4 + (size_t) have * 2);
            status = enable_filtered(honest, &other_guid, &f, 1);
            if (count > 64 || have < count)
                ck_assert_msg(status != 0, "%u ids of %u were accepted", count, have);
        }
    for (size_t size = 0; size < 6; size++) {
        memset(data, 0xFF, sizeof(data));
        f = filter(FILTER_EVENT_ID, data, size);
        ck_assert_uint_ne(enable_filtered(honest, &other_guid, &f, 1), 0);
    }
    check_well("event id filters");
}
END_TEST

START_TEST(filters_of_any_kind)
{
    static const uint32_t types[] = {0,          1,          0x80000000, 0x80000001, 0x80000002,
                                     0x80000004, 0x80000008, 0x80000010, 0x80000020, 0x80000100,
                                     0x80000200, 0x80000400, 0x80001000, 0x80002000, 0x80004000,
                                     0x80008000, 0x7FFFFFFF, 0xFFFFFFFF};
    static const size_t sizes[] = {0, 1, 2, 3, 7, 8, 24, 255, 1024, 1025, 4096, 4097, 50000};
    static uint8_t data[50000];
    Etwd__Filter list[64], f;
    uint64_t seed = 4;

    for (size_t t = 0; t < ARRAY_SIZE(types); t++)
        for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
            raw_random_bytes(&seed, data, sizes[s]);
            f = filter(types[t], data, sizes[s]);
            (void) enable_filtered(honest, &other_guid, &f, 1);
            /* And for providers that are there, whose processes get it. */
            if (sizes[s] <= 4096)
                (void) enable_filtered(honest, &attacked_guid, &f, 1);
        }
    /* Too large for its kind, too many, twice the same. */
    f = filter(FILTER_SCHEMATIZED, data, 1025);
    ck_assert_uint_ne(enable_filtered(honest, &other_guid, &f, 1), 0);
    for (size_t i = 0; i < ARRAY_SIZE(list); i++)
        list[i] = filter(0x80000000u + (uint32_t) i, data, 24);
    ck_assert_uint_ne(enable_filtered(honest, &other_guid, list, ARRAY_SIZE(list)), 0);
    list[0] = list[1] = filter(FILTER_EXE, u"a;b", 8);
    ck_assert_uint_ne(enable_filtered(honest, &other_guid, list, 2), 0);
    /* Names without an end, with halves of characters, of nothing but separators. */
    {
        static uint16_t names[500];

        for (int i = 0; i < 20; i++) {
            for (size_t k = 0; k < ARRAY_SIZE(names); k++)
                names[k] = i == 0   ? ';'
                           : i == 1 ? 0xD800
                           : i == 2 ? 0xDC00
                           : i == 3 ? '/'
                                    : (uint16_t) raw_random(&seed);
            f = filter(FILTER_EXE, names, sizeof(names) - (size_t) (i & 1));
            (void) enable_filtered(honest, &attacked_guid, &f, 1);
        }
    }
    check_well("filters");
    ck_assert_uint_eq(enable(honest, shared_session, &attacked_guid), 0);
}
END_TEST

START_TEST(pid_filters)
{
    int fds[ETW_MESSAGE_FDS_MAX + 1], pipes[2];
    struct enable_args a = {
        .session = shared_session, .guid = &other_guid, .code = 1, .level = 5, .pid_filter = true};
    pid_t dead;

    /* As many pidfds as a message takes: of this process, of one that ended. */
    dead = fork();
    if (dead == 0)
        _exit(0);
    fds[0] = (int) syscall(SYS_pidfd_open, dead, 0);
    ck_assert_int_ge(fds[0], 0);
    ck_assert_int_eq(waitpid(dead, NULL, 0), dead);
    for (size_t i = 1; i < ARRAY_SIZE(fds); i++) {
        fds[i] = (int) syscall(SYS_pidfd_open, getpid(), 0);
        ck_assert_int_ge(fds[i], 0);
    }
    a.fds = fds;
    a.n_fds = 1;
    ck_assert_uint_eq(enable_with(honest, &a), 0);
    a.n_fds = ETW_MESSAGE_FDS_MAX;
    (void) enable_with(honest, &a);
    check_well("253 pidfds");
    /* One more: the kernel does not send it. */
    {
        uint8_t byte = 0;
        struct iovec iov = {.iov_base = &byte, .iov_len = 1};
        union {
            char buf[CMSG_SPACE(sizeof(fds))];
            struct cmsghdr align;
        } control = {{0}};
        struct msghdr mh = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control.buf)};
        struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
        int sock = client_new();

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(fds));
        memcpy(CMSG_DATA(c), fds, sizeof(fds));
        ck_assert_int_lt(sendmsg(sock, &mh, MSG_NOSIGNAL), 0);
        safe_close(sock);
    }
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fds[i] = safe_close(fds[i]);
    /* None matches nobody. */
    a.n_fds = 0;
    ck_assert_uint_eq(enable_with(honest, &a), 0);
    /* What is no pidfd. */
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    fds[0] = pipes[0];
    fds[1] = pipes[1];
    fds[2] = eventfd(0, EFD_CLOEXEC);
    fds[3] = memfd_create("x", MFD_CLOEXEC);
    fds[4] = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fds[5] = open("/dev/null", O_RDWR | O_CLOEXEC);
    fds[6] = client_new();
    for (size_t i = 0; i < 7; i++) {
        int one = fds[i];

        ck_assert_int_ge(one, 0);
        a.fds = &one;
        a.n_fds = 1;
        ck_assert_msg(enable_with(honest, &a) != 0, "descriptor %zu was taken for a pidfd", i);
        safe_close(one);
    }
    /* Descriptors without the filter they are for. */
    fds[0] = (int) syscall(SYS_pidfd_open, getpid(), 0);
    a.fds = fds;
    a.n_fds = 1;
    a.pid_filter = false;
    (void) enable_with(honest, &a);
    safe_close(fds[0]);
    check_well("pid filters");
}
END_TEST

START_TEST(numbers_at_their_ends)
{
    static const uint32_t words[] = {0, 1, 2, 3, 255, 256, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    struct enable_args a = {.session = shared_session, .guid = &other_guid};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        for (size_t k = 0; k < ARRAY_SIZE(words); k++) {
            a.code = words[i];
            a.level = words[k];
            a.any = (uint64_t) words[k] << 32 | words[i];
            a.all = (uint64_t) words[i] << 32 | words[k];
            a.properties = words[k];
            a.timeout_ms = words[(i + k) % 5]; /* nobody's callbacks: at once */
            (void) enable_with(honest, &a);
        }
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        a.code = words[i] > 2 ? words[i] : 3;
        a.level = 5;
        a.properties = 0;
        ck_assert_uint_ne(enable_with(honest, &a), 0);
    }
    /* Sessions that are not there. */
    a.code = 1;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        a.session = (uint64_t) words[i] << 32 | 0x7777;
        ck_assert_uint_ne(enable_with(honest, &a), 0);
    }
    /* Many providers that nobody registered: they cost memory of the session's owner, and end with
     * it. */
    a.session = shared_session;
    for (uint32_t i = 0; i < 2000; i++) {
        struct etw_guid g = {.data1 = i, .data2 = 9};

        a.guid = &g;
        if (enable_with(honest, &a) != 0)
            break;
    }
    check_well("numbers");
}
END_TEST

/* ---- users ---- */

/* A session of its own that enables everything; runs until it is killed. */
static char *user_file;
static int to_test[2];

static void users_session(const void *arg)
{
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__ListProviders list = ETWD__LIST_PROVIDERS__INIT;
    int sock = client_new(), fd = open(user_file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    uint64_t handle = 0;
    uint8_t saw_other = 0;

    (void) arg;
    ck_assert_int_ge(fd, 0);
    p.name = (char *) "users";
    p.log_file = user_file;
    p.log_file_mode = MODE_SEQUENTIAL;
    ck_assert_uint_eq(client_start(sock, &p, false, true, &fd, 1, &handle), 0);
    ck_assert_uint_eq(enable(sock, handle, &attacked_guid), 0);
    ck_assert_uint_eq(enable(sock, handle, &honest_guid), 0);
    /* Root's sessions are not its. */
    ck_assert_uint_ne(enable(sock, shared_session, &attacked_guid), 0);
    ck_assert_uint_ne(enable(sock, quiet_session, &attacked_guid), 0);
    /* Nor does it learn of other users' processes and sessions. */
    m.body_case = ETWD__MESSAGE__BODY_LIST_PROVIDERS;
    m.list_providers = &list;
    reply = client_call(sock, &m, NULL, 0);
    ck_assert_uint_eq(reply->status, 0);
    for (size_t i = 0; i < reply->provider_list->n_providers; i++) {
        const Etwd__Provider *pr = reply->provider_list->providers[i];

        for (size_t k = 0; k < pr->n_instances; k++)
            saw_other |= pr->instances[k]->uid != geteuid();
        for (size_t k = 0; k < pr->n_enables; k++)
            saw_other |= pr->enables[k]->handle != handle;
    }
    wire_message_free(reply);
    ck_assert_int_eq(write(to_test[1], &saw_other, 1), 1);
    for (;;)
        (void) pause();
}

/* Of another user, with the same GUID: writes ten events that "shared" gets, and only it. */
static void somebodys_provider(const void *arg)
{
    struct raw_provider p;
    struct raw_record r;

    (void) arg;
    ck_assert_int_eq(raw_open(&p, &attacked_guid), 0);
    ck_assert(raw_record(&p, &attacked_guid, 0, &r));
    ck_assert_uint_eq(r.prefix.slots & (r.prefix.slots - 1), 0); /* one session */
    shm_writer_abandon(&p.writer);
    ck_assert_uint_eq(raw_write(&p, &attacked_guid, 0, 10), 10);
    raw_done(&p);
}

/* Of the session's own user: both get it. */
static void nobodys_provider(const void *arg)
{
    struct raw_provider p;
    struct raw_record r;

    (void) arg;
    ck_assert_int_eq(raw_open(&p, &attacked_guid), 0);
    ck_assert(raw_record(&p, &attacked_guid, 0, &r));
    ck_assert_uint_ne(r.prefix.slots & (r.prefix.slots - 1), 0);
    shm_writer_abandon(&p.writer);
    raw_done(&p);
}

START_TEST(another_user)
{
    char *folder = test_path("public");
    uint8_t saw_other = 1;
    pid_t user, pid;

    test_need_root();
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    user_file = test_path("public/user.etl");
    ck_assert_int_eq(pipe2(to_test, O_CLOEXEC), 0);
    user = attack_begin(NOBODY, users_session, NULL);
    ck_assert_int_eq(read(to_test[0], &saw_other, 1), 1);
    ck_assert_msg(saw_other == 0, "a user saw another one's processes or sessions");
    pid = attack_begin(SOMEBODY, somebodys_provider, NULL);
    attack_end("somebody's provider", pid);
    fixture_expect(pid, 10);
    attack_end("nobody's provider", attack_begin(NOBODY, nobodys_provider, NULL));
    kill(user, SIGKILL);
    attack_end("a user's session", user);
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100 && client_count_sessions(honest) > 2; i++)
        usleep(10000);
    ck_assert_uint_eq(client_count_sessions(honest), 2);
    free(folder);
    free(user_file);
    safe_close(to_test[0]);
    safe_close(to_test[1]);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-control");
    TCase *t = tcase_create("attacks");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, event_id_filters);
    tcase_add_test(t, filters_of_any_kind);
    tcase_add_test(t, pid_filters);
    tcase_add_test(t, numbers_at_their_ends);
    tcase_add_test(t, another_user);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
