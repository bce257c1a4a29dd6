/* SPDX-License-Identifier: Apache-2.0
 *
 * The image cache of the kernel logger, with a made-up etwd-image at the other end of the socket,
 * run by the same loop.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "io/loop.h"
#include "kernel/images.h"
#include "lib/test.h"

static struct loop *loop;
static struct images *images;
static struct loop_timer *limit;

/* The helper's end. */
static int helper_fd = -1;
static struct loop_watch *helper_watch;
static unsigned n_requests; /* seen by the helper */
static unsigned n_held;     /* seen and not answered */
static unsigned max_held;
static struct image_request held[ETW_IMAGE_IN_FLIGHT_MAX + 1];
static bool held_pidfd[ETW_IMAGE_IN_FLIGHT_MAX + 1];
static char last_path[IMAGE_PATH_MAX + 1];
static bool auto_answer;
static int answer_status;
static uint64_t answer_change_time;

/* The waiters'. */
static unsigned n_done;
static unsigned n_known;
static struct image_identity last_id;
static unsigned stop_after; /* ends the loop at that many answers */

static void on_limit(void *userdata)
{
    ck_abort_msg("nothing happened for %d s", TEST_HANG_LIMIT_S);
}

static void run(unsigned until_done)
{
    stop_after = until_done;
    if (n_done >= until_done)
        return;
    ck_assert_int_eq(
        loop_timer_arm(limit, etw_clock_boottime() + TEST_HANG_LIMIT_S * ETW_NSEC_PER_SEC), 0);
    ck_assert_int_eq(loop_run(loop), 0);
    loop_timer_disarm(limit);
}

static void on_pause(void *userdata)
{
    loop_exit(loop, 0);
}

/* Lets the loop run for a while. */
static void run_ms(unsigned ms)
{
    struct loop_timer *t;

    ck_assert_int_eq(loop_timer_new(loop, on_pause, NULL, &t), 0);
    ck_assert_int_eq(loop_timer_arm(t, etw_clock_boottime() + ms * 1000000ULL), 0);
    ck_assert_int_eq(loop_run(loop), 0);
    loop_timer_free(t);
}

static void helper_answer(const struct image_request *req)
{
    struct image_reply rep = {
        .protocol = IMAGE_PROTOCOL,
        .status = answer_status,
        .id = req->id,
    };

    if (rep.status == 0) {
        rep.span = 0x1000 * (req->inode + 1);
        rep.change_time_ns = answer_change_time;
        rep.build_id_size = 8;
        memcpy(rep.build_id, &req->inode, 8);
    }
    ck_assert_int_eq(send(helper_fd, &rep, sizeof(rep), 0), sizeof(rep));
}

static void helper_answer_held(void)
{
    unsigned n = n_held;

    n_held = 0;
    for (unsigned i = 0; i < n; i++)
        helper_answer(&held[i]);
}

static void on_helper(int fd, uint32_t revents, void *userdata)
{
    union {
        struct image_request req;
        char buf[sizeof(struct image_request) + IMAGE_PATH_MAX];
    } packet;
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = &packet, .iov_len = sizeof(packet)};
    struct msghdr mh = {.msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof(control)};
    struct cmsghdr *c;
    ssize_t n;
    int pidfd = -1;

    n = recvmsg(fd, &mh, MSG_DONTWAIT);
    if (n <= 0) {
        helper_watch = loop_watch_free(helper_watch);
        return;
    }
    ck_assert_int_ge(n, sizeof(packet.req));
    ck_assert_uint_eq(packet.req.protocol, IMAGE_PROTOCOL);
    ck_assert_uint_eq(packet.req.path_size, (size_t) n - sizeof(packet.req));
    memcpy(last_path, packet.req.path, packet.req.path_size);
    last_path[packet.req.path_size] = '\0';
    c = CMSG_FIRSTHDR(&mh);
    if (c) {
        memcpy(&pidfd, CMSG_DATA(c), sizeof(pidfd));
        ck_assert_int_eq(close(pidfd), 0);
    }
    ck_assert_int_eq(packet.req.has_pidfd != 0, pidfd >= 0);

    n_requests++;
    ck_assert_uint_le(n_held, ETW_IMAGE_IN_FLIGHT_MAX);
    held_pidfd[n_held] = pidfd >= 0;
    held[n_held++] = packet.req;
    if (n_held > max_held)
        max_held = n_held;
    if (auto_answer)
        helper_answer_held();
}

static void setup_conf(unsigned long timeout_ms, bool with_helper)
{
    struct etw_conf conf;
    int pair[2] = {-1, -1};

    etw_conf_init(&conf);
    if (timeout_ms)
        conf.image_timeout_ms = timeout_ms;
    n_requests = n_held = max_held = n_done = n_known = 0;
    auto_answer = true;
    answer_status = 0;
    answer_change_time = 5;
    ck_assert_int_eq(loop_new(&loop), 0);
    ck_assert_int_eq(loop_timer_new(loop, on_limit, NULL, &limit), 0);
    if (with_helper) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        helper_fd = pair[1];
        ck_assert_int_eq(loop_watch_new(loop, helper_fd, POLLIN, on_helper, NULL, &helper_watch),
                         0);
    }
    ck_assert_int_eq(images_new(loop, &conf, pair[0], &images), 0);
}

static void teardown(void)
{
    images = images_free(images);
    helper_watch = loop_watch_free(helper_watch);
    helper_fd = safe_close(helper_fd);
    limit = loop_timer_free(limit);
    loop = loop_free(loop);
}

static void on_done(const struct image_identity *id, void *userdata)
{
    n_done++;
    n_known += id->known;
    last_id = *id;
    if (n_done >= stop_after)
        loop_exit(loop, 0);
}

static int lookup_done(uint64_t inode, images_done_fn done, struct image_identity *ret)
{
    struct image_key key = {.dev_major = 8, .dev_minor = 1, .inode = inode, .change_time_ns = 5};

    return images_lookup(images, &key, getpid(), 0x1000, 0x2000, "/some/file", done, NULL, ret);
}

static int lookup(uint64_t inode, struct image_identity *ret)
{
    return lookup_done(inode, on_done, ret);
}

START_TEST(asks_once_and_remembers)
{
    struct image_identity id;

    setup_conf(0, true);
    ck_assert(images_available(images));
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(lookup(7, &id), 0);
    ck_assert_uint_eq(n_done, 0); /* never from inside */
    run(50);
    ck_assert_uint_eq(n_done, 50);
    ck_assert_uint_eq(n_known, 50);
    ck_assert_uint_eq(n_requests, 1);
    ck_assert_uint_eq(last_id.span, 0x8000);
    ck_assert_uint_eq(last_id.build_id_size, 8);
    ck_assert_str_eq(last_path, "/some/file");

    memset(&id, 0, sizeof(id));
    ck_assert_int_eq(lookup(7, &id), 1);
    ck_assert(id.known);
    ck_assert_uint_eq(id.span, 0x8000);
    ck_assert_uint_eq(id.build_id[0], 7);
    ck_assert_uint_eq(n_requests, 1);
    teardown();
}
END_TEST

START_TEST(keys_differ)
{
    struct image_key key = {.dev_major = 8, .dev_minor = 1, .inode = 9, .change_time_ns = 5};
    struct image_key other;
    struct image_identity id;

    setup_conf(0, true);
    ck_assert_int_eq(images_lookup(images, &key, 1, 1, 2, NULL, on_done, NULL, &id), 0);
    other = key;
    other.dev_major++;
    ck_assert_int_eq(images_lookup(images, &other, 1, 1, 2, NULL, on_done, NULL, &id), 0);
    other = key;
    other.dev_minor++;
    ck_assert_int_eq(images_lookup(images, &other, 1, 1, 2, NULL, on_done, NULL, &id), 0);
    other = key;
    other.inode++;
    ck_assert_int_eq(images_lookup(images, &other, 1, 1, 2, NULL, on_done, NULL, &id), 0);
    other = key;
    other.change_time_ns++;
    ck_assert_int_eq(images_lookup(images, &other, 1, 1, 2, NULL, on_done, NULL, &id), 0);
    run(5);
    ck_assert_uint_eq(n_requests, 5);
    ck_assert_str_eq(last_path, "");
    teardown();
}
END_TEST

/* A process that is gone: no pidfd, the path is all there is. A relative path is none. */
START_TEST(process_gone)
{
    struct image_key key = {.inode = 9, .change_time_ns = 5};
    struct image_identity id;
    pid_t pid;

    setup_conf(0, true);
    auto_answer = false;
    pid = fork();
    if (pid == 0)
        _exit(0);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(images_lookup(images, &key, pid, 1, 2, "relative", on_done, NULL, &id), 0);
    key.inode++;
    ck_assert_int_eq(images_lookup(images, &key, getpid(), 1, 2, "/x", on_done, NULL, &id), 0);
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100 && n_held < 2; i++)
        run_ms(10);
    ck_assert_uint_eq(n_held, 2);
    ck_assert(!held_pidfd[0]);
    ck_assert_uint_eq(held[0].path_size, 0);
    ck_assert(held_pidfd[1]);
    ck_assert_uint_eq(held[1].path_size, 2);
    ck_assert_int_eq(held[1].pid, getpid());
    helper_answer_held();
    run(2);
    teardown();
}
END_TEST

START_TEST(few_under_way)
{
    struct image_identity id;

    setup_conf(0, true);
    auto_answer = false;
    for (uint64_t i = 0; i < 200; i++)
        ck_assert_int_eq(lookup(i, &id), 0);
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100 && n_held < ETW_IMAGE_IN_FLIGHT_MAX; i++)
        run_ms(10);
    run_ms(50); /* no more come */
    ck_assert_uint_eq(n_held, ETW_IMAGE_IN_FLIGHT_MAX);
    while (n_done < 200) {
        run_ms(2);
        helper_answer_held();
    }
    ck_assert_uint_eq(n_known, 200);
    ck_assert_uint_eq(n_requests, 200);
    ck_assert_uint_eq(max_held, ETW_IMAGE_IN_FLIGHT_MAX);
    teardown();
}
END_TEST

START_TEST(too_many_wait)
{
    struct image_identity id;
    unsigned asked = 0, refused = 0;

    setup_conf(50, true);
    auto_answer = false;
    for (uint64_t i = 0; i < ETW_IMAGE_QUEUE_MAX + 100; i++) {
        id.known = true;
        if (lookup(i, &id) == 0)
            asked++;
        else {
            ck_assert(!id.known);
            refused++;
        }
    }
    ck_assert_uint_eq(asked, ETW_IMAGE_QUEUE_MAX + ETW_IMAGE_IN_FLIGHT_MAX);
    ck_assert_uint_eq(refused, 100 - ETW_IMAGE_IN_FLIGHT_MAX);
    /* Those already asked for may have more waiters, up to their limit. */
    refused = 0;
    for (unsigned i = 0; i < ETW_IMAGE_WAITERS_MAX; i++)
        refused += lookup(3, &id) == 1;
    ck_assert_uint_eq(refused, asked);
    run(ETW_IMAGE_WAITERS_MAX);
    ck_assert_uint_eq(n_done, ETW_IMAGE_WAITERS_MAX);
    ck_assert_uint_eq(n_known, 0);
    teardown();
}
END_TEST

START_TEST(late_answer)
{
    struct image_identity id;
    uint64_t before;

    setup_conf(500, true);
    auto_answer = false;
    before = etw_clock_boottime();
    ck_assert_int_eq(lookup(7, &id), 0);
    run(1);
    ck_assert_uint_ge(etw_clock_boottime() - before, 500 * 1000000ULL);
    ck_assert_uint_eq(n_known, 0);
    ck_assert(images_available(images));
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100 && n_held < 1; i++)
        run_ms(10);

    /* Asked already: another waiter does not ask again. It gets the answer, and so does the cache.
     */
    ck_assert_int_eq(lookup(7, &id), 0);
    ck_assert_uint_eq(n_requests, 1);
    helper_answer_held();
    run(2);
    ck_assert_uint_eq(n_known, 1);
    ck_assert_int_eq(lookup(7, &id), 1);
    ck_assert(id.known);
    teardown();
}
END_TEST

/* What nobody waits for any more is not asked for. */
START_TEST(queue_forgets)
{
    struct image_identity id;

    setup_conf(30, true);
    auto_answer = false;
    for (uint64_t i = 0; i < 100; i++)
        ck_assert_int_eq(lookup(i, &id), 0);
    run(100);
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100 && n_requests < ETW_IMAGE_IN_FLIGHT_MAX; i++) {
        helper_answer_held();
        run_ms(10);
    }
    helper_answer_held();
    run_ms(50);
    ck_assert_uint_eq(n_requests, ETW_IMAGE_IN_FLIGHT_MAX);
    teardown();
}
END_TEST

/* Whether an answer that came after `before` must still hold: not on a machine that stood still. */
static bool within_negative(uint64_t before)
{
    return etw_clock_boottime() - before < ETW_IMAGE_NEGATIVE_MS * 1000000ULL;
}

START_TEST(no_data)
{
    struct image_identity id;

    uint64_t before = etw_clock_boottime();

    setup_conf(0, true);
    answer_status = -ENOENT;
    ck_assert_int_eq(lookup(1, &id), 0);
    run(1);
    ck_assert_uint_eq(n_known, 0);
    id.known = true;
    ck_assert_msg(lookup(1, &id) == 1 || !within_negative(before), "asked again at once");
    ck_assert(!id.known || !within_negative(before));

    answer_status = -ENOEXEC;
    ck_assert_int_eq(lookup(2, &id), 0);
    run(2);
    ck_assert_uint_eq(n_known, 0);

    run_ms(ETW_IMAGE_NEGATIVE_MS + 50);
    answer_status = 0;
    ck_assert_int_eq(lookup(1, &id), 0); /* asked again */
    run(3);
    ck_assert_uint_eq(n_known, 1);
    ck_assert_int_eq(lookup(2, &id), 1); /* no ELF file becomes one without a new change time */
    ck_assert(!id.known);
    ck_assert_uint_eq(n_requests, 3);
    teardown();
}
END_TEST

/* The file has another change time than the probe saw: what is said of it holds for a while only.
 */
START_TEST(changed_meanwhile)
{
    struct image_identity id;

    uint64_t before = etw_clock_boottime();

    setup_conf(0, true);
    answer_change_time = 6;
    ck_assert_int_eq(lookup(1, &id), 0);
    run(1);
    ck_assert_uint_eq(n_known, 1);
    ck_assert_msg(lookup(1, &id) == 1 || !within_negative(before), "asked again at once");
    ck_assert(id.known || !within_negative(before));
    run_ms(ETW_IMAGE_NEGATIVE_MS + 50);
    ck_assert_int_eq(lookup(1, &id), 0);
    run(2);
    teardown();
}
END_TEST

START_TEST(forgets_the_oldest)
{
    struct image_identity id;
    uint64_t i;

    setup_conf(0, true);
    for (i = 0; i < ETW_IMAGE_CACHE_MAX; i++) {
        ck_assert_int_eq(lookup(i, &id), 0);
        if (i % 64 == 63)
            run((unsigned) i + 1);
    }
    run((unsigned) i);
    ck_assert_int_eq(lookup(0, &id), 1); /* used again: not the oldest any more */
    ck_assert_int_eq(lookup(i, &id), 0);
    run((unsigned) i + 1);
    ck_assert_int_eq(lookup(0, &id), 1);
    ck_assert_int_eq(lookup(2, &id), 1);
    ck_assert_int_eq(lookup(1, &id), 0);
    run((unsigned) i + 2);
    ck_assert_uint_eq(n_requests, ETW_IMAGE_CACHE_MAX + 2);
    teardown();
}
END_TEST

static void gone(bool available_after)
{
    struct image_identity id = {.known = true};

    ck_assert_uint_eq(n_known, 0);
    ck_assert_int_eq(images_available(images), available_after);
    ck_assert_int_eq(lookup(1, &id), 1);
    ck_assert(!id.known);
}

START_TEST(helper_ends)
{
    struct image_identity id;

    setup_conf(60000, true);
    auto_answer = false;
    for (uint64_t i = 0; i < 100; i++)
        ck_assert_int_eq(lookup(i, &id), 0);
    run_ms(10);
    helper_watch = loop_watch_free(helper_watch);
    helper_fd = safe_close(helper_fd);
    run(100); /* not after the time-out of a minute */
    gone(false);
    teardown();
}
END_TEST

/* The same, noticed when something is sent. */
START_TEST(helper_ended_before)
{
    struct image_identity id;

    setup_conf(60000, true);
    helper_watch = loop_watch_free(helper_watch);
    helper_fd = safe_close(helper_fd);
    ck_assert_int_eq(lookup(1, &id), 0);
    ck_assert_uint_eq(n_done, 0);
    run(1);
    gone(false);
    teardown();
}
END_TEST

START_TEST(helper_talks_nonsense)
{
    static const struct image_reply valid = {.protocol = IMAGE_PROTOCOL, .id = 1};

    for (int kind = 0; kind < 6; kind++) {
        struct image_reply rep = valid;
        struct image_identity id;
        size_t size = sizeof(rep);

        setup_conf(60000, true);
        auto_answer = false;
        ck_assert_int_eq(lookup(1, &id), 0);
        switch (kind) {
        case 0:
            size--;
            break;
        case 1:
            rep.protocol++;
            break;
        case 2:
            rep.id = 2; /* nobody asked */
            break;
        case 3:
            rep.status = 1;
            break;
        case 4:
            rep.build_id_size = IMAGE_BUILD_ID_MAX + 1;
            break;
        default:
            size = 1;
        }
        ck_assert_int_eq(send(helper_fd, &rep, size, 0), size);
        run(1);
        gone(false);
        teardown();
    }
}
END_TEST

START_TEST(no_helper)
{
    struct image_identity id = {.known = true};

    setup_conf(0, false);
    ck_assert(!images_available(images));
    ck_assert_int_eq(lookup(1, &id), 1);
    ck_assert(!id.known);
    teardown();
    ck_assert_ptr_null(images_free(NULL));
}
END_TEST

static void on_done_ask_more(const struct image_identity *id, void *userdata)
{
    struct image_identity other;

    /* The one that is being told, and a new one. */
    ck_assert_int_eq(lookup(1, &other), 1);
    ck_assert(other.known);
    ck_assert_int_eq(lookup(2 + n_done, &other), 0);
    on_done(id, userdata);
}

START_TEST(look_up_from_callback)
{
    struct image_identity id;

    setup_conf(0, true);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(lookup_done(1, on_done_ask_more, &id), 0);
    run(6);
    ck_assert_uint_eq(n_known, 6);
    ck_assert_uint_eq(n_requests, 4);
    teardown();
}
END_TEST

START_TEST(free_tells_waiters)
{
    struct image_identity id;

    setup_conf(0, true);
    auto_answer = false;
    stop_after = UINT32_MAX;
    for (uint64_t i = 0; i < 100; i++)
        ck_assert_int_eq(lookup(i, &id), 0);
    images = images_free(images);
    ck_assert_uint_eq(n_done, 100);
    ck_assert_uint_eq(n_known, 0);
    teardown();
}
END_TEST

START_TEST(place)
{
    /* A library: segments at 0, 0x26000 (executable, same offset), span 0x1e2000. */
    struct image_identity lib = {
        .known = true, .span = 0x1e2000, .exec_vaddr = 0x26000, .exec_offset = 0x26000};
    /* A program at a fixed place whose segments lie apart from their offsets. */
    struct image_identity fixed = {.known = true,
                                   .first_vaddr = 0x400000,
                                   .span = 0x5000,
                                   .exec_vaddr = 0x402040,
                                   .exec_offset = 0x1040};
    struct image_identity unknown_id = {0};
    uint64_t base, size;

    image_place(&lib, 0x7f0000026000, 0x7f000017b000, 0x26000, &base, &size);
    ck_assert_uint_eq(base, 0x7f0000000000);
    ck_assert_uint_eq(size, 0x1e2000);
    /* A mapping that begins inside the segment. */
    image_place(&lib, 0x7f0000027000, 0x7f000017b000, 0x27000, &base, &size);
    ck_assert_uint_eq(base, 0x7f0000000000);

    image_place(&fixed, 0x402000, 0x403000, 0x1000, &base, &size);
    ck_assert_uint_eq(base, 0x400000);
    ck_assert_uint_eq(size, 0x5000);

    image_place(&unknown_id, 0x7f0000026000, 0x7f000017b000, 0x26000, &base, &size);
    ck_assert_uint_eq(base, 0x7f0000000000);
    ck_assert_uint_eq(size, 0x17b000);
    image_place(&unknown_id, 0x1000, 0x2000, UINT64_MAX, &base, &size);
    ck_assert_uint_eq(base, 0x1000);
    ck_assert_uint_eq(size, 0x1000);

    /* Files that lie. */
    lib.exec_vaddr = 0;
    image_place(&lib, 0x7f0000026000, 0x7f000017b000, 0x26000, &base, &size);
    ck_assert_uint_le(base, 0x7f0000026000);
    ck_assert_uint_ge(base + size, 0x7f000017b000);
    lib.exec_vaddr = UINT64_MAX - 0x1000;
    image_place(&lib, 0x7f0000026000, 0x7f000017b000, 0x26000, &base, &size);
    ck_assert_uint_eq(base, 0x7f0000000000);
    ck_assert_uint_eq(size, 0x17b000);
    lib.exec_vaddr = 0x26000;
    lib.span = UINT64_MAX;
    image_place(&lib, 0x7f0000026000, 0x7f000017b000, 0x26000, &base, &size);
    ck_assert_uint_eq(size, 0x17b000);
    lib.span = 0x1000;
    image_place(&lib, 0x7f0000026000, 0x7f000017b000, 0x26000, &base, &size);
    ck_assert_uint_eq(size, 0x17b000);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("images");
    TCase *t = tcase_create("cache");

    tcase_add_test(t, asks_once_and_remembers);
    tcase_add_test(t, keys_differ);
    tcase_add_test(t, process_gone);
    tcase_add_test(t, few_under_way);
    tcase_add_test(t, too_many_wait);
    tcase_add_test(t, late_answer);
    tcase_add_test(t, queue_forgets);
    tcase_add_test(t, no_data);
    tcase_add_test(t, changed_meanwhile);
    tcase_add_test(t, forgets_the_oldest);
    tcase_add_test(t, helper_ends);
    tcase_add_test(t, helper_ended_before);
    tcase_add_test(t, helper_talks_nonsense);
    tcase_add_test(t, no_helper);
    tcase_add_test(t, look_up_from_callback);
    tcase_add_test(t, free_tells_waiters);
    tcase_add_test(t, place);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
