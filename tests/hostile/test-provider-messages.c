/* SPDX-License-Identifier: Apache-2.0
 *
 * Provider processes that say to etwd what they like: messages out of order, foreign descriptors,
 * an end at every step; and processes that read nothing. etwd goes on, and others lose nothing and
 * wait for nothing.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "provider-fixture.h"
#include "shm/arena.h"

static void setup(void)
{
    fixture_begin(NULL);
}

static void teardown(void)
{
    fixture_end();
}

/* ---- words out of order ---- */

/* Each message of providers on a connection that is none. */
static void not_attached(const void *arg)
{
    struct raw_provider p;
    uint32_t status;

    (void) arg;
    ck_assert_int_eq(raw_connect(&p), 0);
    status = 0;
    if (raw_register(&p, 0, &attacked_guid, 16, NULL, 0, &status) == 0)
        ck_assert_uint_ne(status, 0);
    if (p.sock < 0)
        ck_assert_int_eq(raw_connect(&p), 0);
    status = 0;
    if (raw_mapped(&p, 0, 0, &status) == 0)
        ck_assert_uint_ne(status, 0);
    if (p.sock < 0)
        ck_assert_int_eq(raw_connect(&p), 0);
    status = 0;
    if (raw_more_rings(&p, &status) == 0)
        ck_assert_uint_ne(status, 0);
    if (p.sock < 0)
        ck_assert_int_eq(raw_connect(&p), 0);
    status = 0;
    if (raw_traits(&p, 0, "x", 1, &status) == 0)
        ck_assert_uint_ne(status, 0);
    (void) raw_wake(&p);
    (void) raw_callback_done(&p, 1);
    raw_done(&p);
}

static void attached_wrongly(const void *arg)
{
    static const uint32_t versions[] = {0, SHM_VERSION + 1, UINT32_MAX};
    struct raw_provider p, second;
    uint32_t status;

    (void) arg;
    for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
        ck_assert_int_eq(raw_connect(&p), 0);
        status = 0;
        if (raw_attach(&p, versions[i], false, &status) == 0)
            ck_assert_uint_eq(status, ETW_ERROR_REVISION_MISMATCH);
        raw_done(&p);
    }
    /* Twice on one connection; then a second connection of this process, again and again. */
    attach_raw(&p);
    status = 0;
    (void) raw_attach(&p, SHM_VERSION, true, &status);
    for (int i = 0; i < 50; i++) {
        attach_raw(&second);
        ck_assert_int_eq(
            raw_register(&second, 0, &attacked_guid, sizeof(attacked_guid), NULL, 0, &status), 0);
        raw_done(&p);
        p = second;
    }
    raw_done(&p);
}

static void answers_of_its_own(const void *arg)
{
    static const uint32_t arenas[] = {0, 1, 5, 63, 64, 65, 0x7FFFFFFF, 0xFFFFFFFF};
    struct raw_provider p;
    uint32_t status;

    (void) arg;
    /* Nothing was offered. */
    attach_raw(&p);
    for (size_t i = 0; i < ARRAY_SIZE(arenas); i++) {
        status = 0;
        if (raw_mapped(&p, arenas[i], 0, &status) < 0)
            attach_raw(&p);
        else
            ck_assert_uint_ne(status, 0);
    }
    raw_done(&p);
    /* An arena was offered, but not that one; then that one, twice, and as a failure. */
    for (int round = 0; round < 3; round++) {
        attach_raw(&p);
        ck_assert_int_eq(
            raw_register(&p, 0, &attacked_guid, sizeof(attacked_guid), NULL, 0, &status), 0);
        ck_assert_int_eq(raw_wait_offer(&p), 0);
        for (size_t i = 1; i < ARRAY_SIZE(arenas) && p.sock >= 0; i++) {
            status = 0;
            if (raw_mapped(&p, arenas[i], 0, &status) == 0)
                ck_assert_uint_ne(status, 0);
        }
        if (round == 1)
            (void) raw_mapped(&p, 0, 8, &status);
        if (round == 2) {
            ck_assert_int_eq(raw_map(&p), 0);
            (void) raw_mapped(&p, 0, 0, &status);
            (void) raw_mapped(&p, 0, 0, &status);
            (void) raw_mapped(&p, 0, 8, &status);
            (void) raw_claim(&p);
        }
        raw_done(&p);
    }
    /* Never an answer, and yet it writes. */
    attach_raw(&p);
    ck_assert_int_eq(raw_register(&p, 0, &attacked_guid, sizeof(attacked_guid), NULL, 0, &status),
                     0);
    ck_assert_int_eq(raw_wait_offer(&p), 0);
    ck_assert_int_eq(raw_map(&p), 0);
    for (int i = 0; i < 100; i++) {
        atomic_fetch_add(&p.arena->rings[0].head, 4096);
        (void) raw_wake(&p);
    }
    usleep(50000);
    raw_done(&p);
}

static void wrong_registers(const void *arg)
{
    static const uint32_t indexes[] = {1024, 1025, 65536, 0x7FFFFFFF, 0xFFFFFFFF};
    static uint8_t bytes[60000];
    uint64_t seed = 5;
    struct raw_provider p;
    uint32_t status;

    (void) arg;
    attach_raw(&p);
    for (size_t i = 0; i < ARRAY_SIZE(indexes); i++) {
        status = 0;
        if (raw_register(&p, indexes[i], &attacked_guid, 16, NULL, 0, &status) < 0)
            attach_raw(&p);
        else
            ck_assert_uint_ne(status, 0);
        if (raw_unregister(&p, indexes[i], &status) < 0)
            attach_raw(&p);
    }
    /* GUIDs of any length but 16. */
    for (size_t n = 0; n < 40; n += n == 15 ? 2 : 1) {
        status = 0;
        if (raw_register(&p, 0, bytes, n, NULL, 0, &status) < 0)
            attach_raw(&p);
        else
            ck_assert_uint_ne(status, 0);
    }
    /* One index for two. */
    ck_assert_int_eq(raw_register(&p, 7, &attacked_guid, 16, NULL, 0, &status), 0);
    ck_assert_uint_eq(status, 0);
    ck_assert_int_eq(raw_register(&p, 7, &honest_guid, 16, NULL, 0, &status), 0);
    ck_assert_uint_ne(status, 0);
    /* Traits of any kind. */
    for (int i = 0; i < 200; i++) {
        size_t n = i == 0 ? sizeof(bytes) : raw_random(&seed) % (i < 20 ? sizeof(bytes) : 300);

        raw_random_bytes(&seed, bytes, sizeof(bytes));
        if (n >= 2 && i % 2) {
            /* A size that is right, and a name of escapes and no end. */
            memcpy(bytes, &(uint16_t){(uint16_t) n}, 2);
            memset(bytes + 2, i % 4 == 1 ? 0x1B : 'x', n - 2);
        }
        if (raw_traits(&p, 7, bytes, n, &status) < 0 ||
            raw_register(&p, 8, &attacked_guid, 16, bytes, n, &status) < 0 ||
            raw_unregister(&p, 8, &status) < 0) {
            raw_done(&p);
            attach_raw(&p);
            (void) raw_register(&p, 7, &attacked_guid, 16, NULL, 0, &status);
        }
    }
    raw_done(&p);
}

START_TEST(words_out_of_order)
{
    attack("not attached", not_attached, NULL);
    attack("attached wrongly", attached_wrongly, NULL);
    attack("answers of its own", answers_of_its_own, NULL);
    attack("wrong registers", wrong_registers, NULL);
}
END_TEST

/* ---- foreign descriptors ---- */

static void foreign_descriptors(const void *arg)
{
    struct raw_provider p, other;
    int fds[8], pair[2], pipes[2];
    uint32_t status;

    (void) arg;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    ck_assert_int_eq(raw_connect(&other), 0);
    fds[0] = pair[0];
    fds[1] = pipes[0];
    fds[2] = pipes[1];
    fds[3] = eventfd(0, EFD_CLOEXEC);
    fds[4] = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    fds[5] = open("/dev/null", O_RDWR | O_CLOEXEC);
    fds[6] = other.sock;
    fds[7] = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    for (size_t n = 1; n <= ARRAY_SIZE(fds); n++) {
        Etwd__Message m = ETWD__MESSAGE__INIT;
        Etwd__Wake wake = ETWD__WAKE__INIT;
        Etwd__ArenaMapped mapped = ETWD__ARENA_MAPPED__INIT;
        Etwd__Register reg = ETWD__REGISTER__INIT;
        Etwd__Attach attach = ETWD__ATTACH__INIT;

        ck_assert_int_eq(raw_connect(&p), 0);
        attach.shm_version = SHM_VERSION;
        m.body_case = ETWD__MESSAGE__BODY_ATTACH;
        m.attach = &attach;
        (void) raw_call(&p, &m, fds, n, &status);
        raw_done(&p);
        attach_raw(&p);
        m.body_case = ETWD__MESSAGE__BODY_WAKE;
        m.wake = &wake;
        (void) raw_send(&p, &m, fds + ARRAY_SIZE(fds) - n, n, false);
        m.body_case = ETWD__MESSAGE__BODY_REGISTER;
        m.register_ = &reg;
        reg.guid = (ProtobufCBinaryData){.len = 16, .data = (uint8_t *) (uintptr_t) &attacked_guid};
        (void) raw_call(&p, &m, fds, n, &status);
        m.body_case = ETWD__MESSAGE__BODY_ARENA_MAPPED;
        m.arena_mapped = &mapped;
        (void) raw_call(&p, &m, fds, n, &status);
        raw_done(&p);
    }
    raw_done(&other);
}

START_TEST(descriptors)
{
    attack("foreign descriptors", foreign_descriptors, NULL);
}
END_TEST

/* ---- it reads nothing ---- */

static void reads_nothing(const void *arg)
{
    int out = *(const int *) arg;
    struct raw_provider p;

    open_raw(&p);
    ck_assert_int_eq(write(out, "x", 1), 1);
    for (;;)
        (void) pause();
}

static void never_calls_back(const void *arg)
{
    int out = *(const int *) arg;
    struct raw_provider p;

    open_raw(&p);
    p.mute = true;
    ck_assert_int_eq(write(out, "x", 1), 1);
    for (;;) {
        raw_pump(&p);
        usleep(1000);
        if (p.sock < 0)
            break;
    }
    raw_done(&p);
}

START_TEST(enables_of_the_deaf)
{
    static void (*const deaf[])(const void *) = {reads_nothing, never_calls_back};

    for (size_t k = 0; k < ARRAY_SIZE(deaf); k++) {
        struct enable_args a = {
            .session = shared_session, .guid = &attacked_guid, .code = 1, .level = 5};
        pid_t pid;
        int pipes[2];
        char c;

        ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
        pid = attack_begin(attacker_uid(), deaf[k], &pipes[1]);
        ck_assert_int_eq(read(pipes[0], &c, 1), 1);
        for (int i = 0; i < test_scale(1000); i++) {
            a.level = (uint32_t) (1 + i % 5);
            a.any = (uint64_t) i;
            a.code = i % 10 == 9 ? 0 : i % 10 == 8 ? 2 : 1;
            ck_assert_uint_eq(enable_with(honest, &a), 0);
        }
        check_well("enables that somebody does not read");
        /* Who waits for its callbacks waits as long as he said. */
        a.code = 1;
        a.timeout_ms = 300;
        ck_assert_uint_eq(enable_with(honest, &a), ETW_ERROR_TIMEOUT);
        check_well("a callback that does not come");
        /* Who would wait for ever is done when it dies. */
        {
            Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
            Etwd__EnableProvider e = ETWD__ENABLE_PROVIDER__INIT;
            int sock = client_new();

            e.handle = shared_session;
            e.guid =
                (ProtobufCBinaryData){.len = 16, .data = (uint8_t *) (uintptr_t) &attacked_guid};
            e.control_code = 1;
            e.level = 5;
            e.timeout_ms = UINT32_MAX;
            m.id = 77;
            m.body_case = ETWD__MESSAGE__BODY_ENABLE_PROVIDER;
            m.enable_provider = &e;
            ck_assert_int_eq(wire_send(sock, &m, NULL, 0, 0), 0);
            check_well("somebody who waits for ever");
            kill(pid, SIGKILL);
            reply = client_receive(sock);
            ck_assert_ptr_nonnull(reply);
            ck_assert_uint_eq(reply->id, 77);
            ck_assert_uint_eq(reply->status, 0);
            wire_message_free(reply);
            safe_close(sock);
        }
        attack_end("it is deaf", pid);
        safe_close(pipes[0]);
        safe_close(pipes[1]);
    }
}
END_TEST

/* ---- an end at each step ---- */

static void dies_at(const void *arg)
{
    int step = *(const int *) arg, n = 0;
    struct raw_provider p;
    struct raw_record r;
    uint32_t status;
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Attach attach = ETWD__ATTACH__INIT;
    Etwd__Register reg = ETWD__REGISTER__INIT;
    Etwd__ArenaMapped mapped = ETWD__ARENA_MAPPED__INIT;

#define STEP                                                                                       \
    do {                                                                                           \
        if (step == n++)                                                                           \
            kill(getpid(), SIGKILL);                                                               \
    } while (0)
    STEP;
    ck_assert_int_eq(raw_connect(&p), 0);
    STEP;
    attach.shm_version = SHM_VERSION;
    attach.fences = true;
    m.body_case = ETWD__MESSAGE__BODY_ATTACH;
    m.attach = &attach;
    ck_assert_int_eq(raw_send(&p, &m, NULL, 0, true), 0);
    STEP;
    ck_assert_int_eq(raw_answer(&p, &status, NULL), 0);
    STEP;
    reg.guid = (ProtobufCBinaryData){.len = 16, .data = (uint8_t *) (uintptr_t) &attacked_guid};
    m.body_case = ETWD__MESSAGE__BODY_REGISTER;
    m.register_ = &reg;
    ck_assert_int_eq(raw_send(&p, &m, NULL, 0, true), 0);
    STEP;
    ck_assert_int_eq(raw_answer(&p, &status, NULL), 0);
    STEP;
    ck_assert_int_eq(raw_wait_offer(&p), 0);
    STEP;
    ck_assert_int_eq(raw_map(&p), 0);
    STEP;
    mapped.arena = p.arena_number;
    m.body_case = ETWD__MESSAGE__BODY_ARENA_MAPPED;
    m.arena_mapped = &mapped;
    ck_assert_int_eq(raw_send(&p, &m, NULL, 0, true), 0);
    STEP;
    ck_assert_int_eq(raw_answer(&p, &status, NULL), 0);
    ck_assert_uint_eq(status, 0);
    STEP;
    ck_assert_int_eq(raw_claim(&p), 0);
    STEP;
    ck_assert(raw_record(&p, &attacked_guid, 1, &r));
    STEP; /* busy */
    memcpy(shm_writer_reserve(&p.writer, r.prefix.size), &r, 50);
    STEP; /* half a record */
    ck_assert_int_eq(raw_push(&p, &r, r.prefix.size), 0);
    STEP; /* one that counts */
    atomic_store(&p.writer.line->busy, 1);
    STEP;
    ck_assert_int_eq(raw_more_rings(&p, &status), 0);
    STEP;
    ck_assert_int_eq(raw_unregister(&p, 0, &status), 0);
    STEP;
    raw_done(&p);
    STEP;
#undef STEP
    _exit(1); /* no such step */
}

START_TEST(an_end_at_each_step)
{
    int step = 0;

    for (;; step++) {
        int status = 0;
        pid_t pid = attack_begin(attacker_uid(), dies_at, &step);

        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && step >= 18)
            break;
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "step %d", step);
        check_well("an end at some step");
        fixture_expect(pid, step >= 13 ? 1 : 0);
    }
    ck_assert_int_eq(step, 18);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-messages");
    TCase *t = tcase_create("attacks");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, words_out_of_order);
    tcase_add_test(t, descriptors);
    tcase_add_test(t, enables_of_the_deaf);
    tcase_add_test(t, an_end_at_each_step);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
