/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions in buffering mode: the newest events stay in memory, snapshots are whole files of them,
 * taken while the session goes on and over the death of etwd; codes.
 *
 *     test-buffering PROVIDER-PROGRAM
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/properties.h"
#include "lib/manager.h"
#include "provider-tests.h"

static struct test_daemon *d;
static char *file;

static void setup(void)
{
    d = test_daemon_start();
    file = test_path("snapshot.etl");
}

static void teardown(void)
{
    test_daemon_alive(d);
    test_daemon_stop(d);
    d = test_daemon_free(d);
    free(file);
}

static ULONG flush_named(const char *name, const char *path, const char *own)
{
    struct test_properties t;
    properties_init(&t, path);
    ULONG code = FlushTraceA(0, name, &t.p);
    /* The caller's, as it was; of a session with a file, that one. */
    if (code == ERROR_SUCCESS && path)
        ck_assert_str_eq(t.names + ROOM, own ? own : path);
    return code;
}

static ULONG flush_into(const char *name, const char *path)
{
    return flush_named(name, path, NULL);
}

/* `count` events of one thread, all recorded when it returns. */
static void write_numbered(const char *name, const char *count)
{
    struct provider p;
    char arg[64];
    uint64_t before = session_show(name).written;

    snprintf(arg, sizeof(arg), "count=%s", count);
    provider_start(&p, "guid=1", "threads=1", "source=0", arg, "retry=1");
    provider_end(&p);
    for (int i = 0; i < TEST_HANG_LIMIT_S * 10; i++) {
        if (session_show(name).written - before >= (uint64_t) atoll(count))
            return;
        usleep(100000);
    }
    ck_abort_msg("the events of a program did not arrive");
}

/* What the file has is what the session says it has. */
static void check_in_memory(const char *name)
{
    struct session_counts c = session_show(name);
    struct walk w;

    walk_file(&w, file);
    ck_assert(w.whole);
    ck_assert_uint_eq(w.backwards, 0);
    ck_assert_uint_eq(w.events, c.recorded - c.overwritten);
    ck_assert_uint_eq(c.buffers_written, 0);
}

START_TEST(all_that_fits)
{
    static struct tally t;
    TRACEHANDLE h = session_start("Memory", NULL, 64, 16, 0, EVENT_TRACE_BUFFERING_MODE);

    session_enable(h, 1);
    write_numbered("Memory", "1000");
    ck_assert_uint_eq(flush_into("Memory", NULL), ERROR_SUCCESS); /* nothing to do */
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(flush_into("Memory", file), ERROR_SUCCESS);
        check_in_memory("Memory");
        tally_file(&t, file);
        tally_sound(&t);
        tally_complete(&t, 0, 1000); /* the oldest, too, each time */
    }
    struct session_counts c = session_stop("Memory");
    ck_assert_uint_eq(c.overwritten, 0);
    ck_assert_uint_eq(c.lost, c.ring_full);
}
END_TEST

/* The ring has gone round many times: the newest, without a gap. */
START_TEST(the_newest)
{
    static struct tally t;
    TRACEHANDLE h = session_start(
        "Ring", NULL, 4, 8, 0, EVENT_TRACE_BUFFERING_MODE | EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING);
    struct test_output o;

    session_enable(h, 1);
    write_numbered("Ring", "20000");
    ck_assert_uint_eq(flush_into("Ring", file), ERROR_SUCCESS);
    check_in_memory("Ring");
    tally_file(&t, file);
    tally_sound(&t);
    const struct tally_source *s = &t.sources[0];
    ck_assert_uint_eq(s->next, 20000);
    ck_assert_uint_eq(s->count + s->left_out, 20000);
    /* 8 buffers of about 35 events; the last ones are MachineInfo and ClockSync. */
    ck_assert_uint_ge(s->count, 150);
    ck_assert_uint_le(s->count, 350);
    ck_assert_uint_gt(session_show("Ring").overwritten, 19000);
    /* At most as much memory as it asked for. */
    test_etwctl_ok(&o, "show", "--json", "Ring");
    struct json_object *j = test_json(o.out);
    ck_assert_uint_eq(test_json_u64(j, "min_buffers"), 8);
    ck_assert_uint_eq(test_json_u64(j, "max_buffers"), 8);
    ck_assert_uint_le(test_json_u64(j, "buffers_in_use"), 8);
    json_object_put(j);
    test_output_done(&o);
    /* Which the reader that others use agrees with. */
    test_etwctl(&o, "summary", "--json", file);
    j = test_json(o.out);
    ck_assert(test_json_bool(j, "complete"));
    json_object_put(j);
    test_output_done(&o);
    struct session_counts c = session_stop("Ring");
    ck_assert_uint_eq(c.lost, c.ring_full); /* each of these was written once more */
}
END_TEST

/* Snapshots one after the other while programs write: each sound, none in the way. */
START_TEST(under_load)
{
    static struct tally t;
    TRACEHANDLE h = session_start("Load", NULL, 16, 64, 0, EVENT_TRACE_BUFFERING_MODE);
    struct provider p;

    session_enable(h, 1);
    provider_start(&p, "guid=1", "threads=2", "source=0", "count=0", "rate=40000", "retry=1");
    provider_wait_ready(&p, 2);
    for (int i = 0; i < 5; i++) {
        usleep(50000);
        ck_assert_uint_eq(flush_into("Load", file), ERROR_SUCCESS);
        tally_file(&t, file);
        tally_sound(&t);
        ck_assert_uint_gt(t.ours, 0);
    }
    p.page->stop = 1;
    provider_end(&p);
    struct session_counts c = session_stop("Load");
    ck_assert_uint_eq(c.no_buffer, 0);
    ck_assert_uint_eq(c.disk, 0);
}
END_TEST

START_TEST(over_a_death)
{
    static const struct test_manager_options none;
    static struct tally t;
    struct test_manager *m = test_manager_start(&none);

    file = test_path("death.etl");
    TRACEHANDLE h = session_start("Death", NULL, 4, 600, 0, EVENT_TRACE_BUFFERING_MODE);
    session_enable(h, 1);
    write_numbered("Death", "2000");
    test_manager_kill(m);
    ck_assert_uint_eq(flush_into("Death", file), ERROR_SUCCESS);
    check_in_memory("Death");
    tally_file(&t, file);
    tally_complete(&t, 0, 2000);
    test_manager_kill(m);
    ck_assert_uint_eq(flush_into("Death", file), ERROR_SUCCESS);
    check_in_memory("Death");
    tally_file(&t, file);
    tally_complete(&t, 0, 2000);
    struct session_counts c = session_stop("Death");
    ck_assert_uint_eq(c.lost, c.ring_full);
    test_manager_stop(m);
    char *log = test_manager_log(m);
    ck_assert_msg(!strstr(log, "Sanitizer"), "%s", log);
    free(log);
    test_manager_free(m);
    free(file);
}
END_TEST

START_TEST(by_etwctl)
{
    struct test_output o;
    char *plain = test_path("plain.etl"), *none = test_path("none.etl");

    test_etwctl_ok(&o, "start", "Words", "--mode", "buffering", "--buffer-size", "8K");
    test_output_done(&o);
    test_etwctl_ok(&o, "mark", "here I am");
    test_output_done(&o);
    test_etwctl_ok(&o, "snapshot", "Words", "-o", file, "--json");
    struct json_object *j = test_json(o.out);
    ck_assert_str_eq(test_json_str(j, "name"), "Words");
    ck_assert(!test_json_has(j, "log_file"));
    json_object_put(j);
    test_output_done(&o);
    test_etwctl_ok(&o, "dump", file);
    ck_assert_ptr_nonnull(strstr(o.out, "here I am"));
    test_output_done(&o);
    /* Other sessions, and their files. */
    test_etwctl_ok(&o, "start", "Plain", "-o", plain);
    test_output_done(&o);
    test_etwctl(&o, "snapshot", "Plain", "-o", none);
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "buffering"));
    test_output_done(&o);
    ck_assert_int_ne(access(none, F_OK), 0);
    ck_assert_uint_eq(flush_named("Plain", none, plain), ERROR_SUCCESS); /* into its own, as ever */
    ck_assert_int_ne(access(none, F_OK), 0);
    test_etwctl(&o, "snapshot", "Words", "-o", plain);
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "in use by session 'Plain'"));
    test_output_done(&o);
    ck_assert_uint_eq(flush_into("Words", plain), ERROR_BAD_PATHNAME);
    ck_assert_uint_eq(flush_into("Words", "/nonexistent/x.etl"), ERROR_PATH_NOT_FOUND);
    ck_assert_uint_eq(flush_into("Words", "/dev/full"), ERROR_BAD_PATHNAME);
    struct test_properties t;
    properties_init(&t, none); /* no log file for what has none */
    ck_assert_uint_eq(UpdateTraceA(0, "Words", &t.p), ERROR_INVALID_PARAMETER);
    ck_assert_int_ne(access(none, F_OK), 0);
    test_etwctl_ok(&o, "stop", "Plain");
    test_output_done(&o);
    test_etwctl_ok(&o, "summary", plain);
    test_output_done(&o);
    test_etwctl_ok(&o, "stop", "Words");
    test_output_done(&o);
    test_etwctl(&o, "start", "Words", "--mode", "buffering", "-o", file);
    ck_assert_int_eq(o.status, 2);
    test_output_done(&o);
    free(plain);
    free(none);
}
END_TEST

/* A path that the smallest buffer's header has no room for. */
START_TEST(long_path)
{
    char path[1000];

    (void) session_start("Small", NULL, 4, 0, 0, EVENT_TRACE_BUFFERING_MODE);
    size_t at = (size_t) snprintf(path, sizeof(path), "%s/", test_tempdir());
    while (at < sizeof(path) - 6) {
        path[at] = at % 2 ? '/' : '.';
        at++;
    }
    strcpy(path + (path[at - 1] == '/' ? at : at - 1), "s.etl");
    ck_assert_uint_eq(flush_into("Small", path), ERROR_SUCCESS);
    struct walk w;
    walk_file(&w, path);
    ck_assert(w.whole);
    (void) session_stop("Small");
}
END_TEST

/* All the buffers that it may come to count, not those alone that hold its newest events. */
START_TEST(quota)
{
    struct test_daemon *small = test_daemon_start("-o", "MaxBufferMemoryMB=16");
    struct test_output o;

    test_etwctl(&o, "start", "Much", "--mode", "buffering");
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "MaxBufferMemoryMB=16"));
    test_output_done(&o);
    test_daemon_stop(small);
    test_daemon_free(small);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("buffering");
    TCase *t = tcase_create("snapshots");
    tcase_set_timeout(t, 600);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, all_that_fits);
    tcase_add_test(t, the_newest);
    tcase_add_test(t, under_load);
    tcase_add_test(t, by_etwctl);
    tcase_add_test(t, long_path);
    suite_add_tcase(s, t);
    t = tcase_create("takeover");
    tcase_set_timeout(t, 600);
    tcase_add_test(t, over_a_death);
    tcase_add_test(t, quota);
    suite_add_tcase(s, t);
    return s;
}

int main(int argc, char **argv)
{
    provider_tests_init(argc, argv);
    return test_main(suite());
}
