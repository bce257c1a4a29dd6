/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of etwd against a reader that shares nothing with it: etl_walker.py, written from etl(5).
 * Both must count the same, and the walker must find nothing that the page does not allow.
 */
#include "lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLAGS "process,thread,image,cswitch,dispatcher"
/* Many short processes, then many context switches of two of them. */
#define LOAD                                                                                       \
    "for i in $(seq 30); do /bin/true; done; perf bench sched pipe -l 5000 >/dev/null 2>&1 || "    \
    "true"

static struct test_daemon *daemon_;

static void stop_daemon(void)
{
    if (daemon_)
        test_daemon_stop(daemon_);
    daemon_ = test_daemon_free(daemon_);
}

static struct json_object *walk(const char *file, bool unfinished)
{
    struct test_output o;
    struct json_object *walked;

    test_run_limit(&o, 600,
                   (const char *const[]){test_env("PYTHON"), test_env("ETL_WALKER"), file,
                                         unfinished ? "--unfinished" : NULL, NULL});
    if (o.out_size == 0)
        ck_abort_msg("etl_walker.py: %s", o.err);
    walked = test_json(o.out);
    ck_assert_msg(o.status == 0 && json_object_array_length(test_json_get(walked, "errors")) == 0,
                  "%s is not as etl(5) says: %s", file,
                  json_object_to_json_string(test_json_get(walked, "errors")));
    test_output_done(&o);
    return walked;
}

static struct json_object *summarize(const char *file, int expected_status)
{
    struct test_output o;
    struct json_object *lines, *summary;

    test_etwctl(&o, "summary", "--json", file);
    ck_assert_msg(o.status == expected_status, "summary of %s: status %d: %s", file, o.status,
                  o.err);
    lines = test_json_lines(o.out);
    ck_assert_uint_eq(json_object_array_length(lines), 1);
    summary = json_object_get(json_object_array_get_idx(lines, 0));
    json_object_put(lines);
    test_output_done(&o);
    return summary;
}

static const char *string_or_empty(struct json_object *o, const char *key)
{
    return test_json_has(o, key) ? test_json_str(o, key) : "";
}

/* What both readers name the same way. */
static void event_key(struct json_object *count, char *out, size_t size)
{
    const char *kind = test_json_str(count, "kind");

    if (strcmp(kind, "tracelogging") == 0)
        snprintf(out, size, "%s %s %s", kind, test_json_str(count, "provider"),
                 string_or_empty(count, "event"));
    else
        snprintf(out, size, "%s %s %llu %llu", kind, test_json_str(count, "provider"),
                 (unsigned long long) test_json_u64(count, "opcode"),
                 (unsigned long long) test_json_u64(count, "version"));
}

/* Adds up counts by key into an object {key: count}. */
static struct json_object *add_up(struct json_object *file)
{
    struct json_object *counts = test_json_get(file, "counts");
    struct json_object *sums = json_object_new_object();

    for (size_t i = 0; i < json_object_array_length(counts); i++) {
        struct json_object *c = json_object_array_get_idx(counts, i);
        struct json_object *old = NULL;
        uint64_t n = test_json_u64(c, "count");
        char key[512];

        event_key(c, key, sizeof(key));
        if (json_object_object_get_ex(sums, key, &old))
            n += json_object_get_uint64(old);
        json_object_object_add(sums, key, json_object_new_uint64(n));
    }
    return sums;
}

static void compare(struct json_object *walked, struct json_object *summary)
{
    static const char *const same[][2] = {
        {"buffers", "buffers"},
        {"events", "events"},
        {"header.buffer_size", "buffer_size"},
        {"header.events_lost", "events_lost"},
        {"header.buffers_lost", "buffers_lost"},
        {"header.processors", "processors"},
        {"header.pointer_size", "pointer_size"},
        {"header.perf_frequency", "perf_frequency"},
        {"first_filetime", "first_filetime"},
        {"last_filetime", "last_filetime"},
    };
    struct json_object *a = add_up(walked);
    struct json_object *b = add_up(summary);

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        ck_assert_msg(test_json_u64(walked, same[i][0]) == test_json_u64(summary, same[i][1]),
                      "%s: the walker has %llu, summary %llu", same[i][1],
                      (unsigned long long) test_json_u64(walked, same[i][0]),
                      (unsigned long long) test_json_u64(summary, same[i][1]));
    ck_assert_str_eq(test_json_str(walked, "header.logger_name"),
                     test_json_str(summary, "logger_name"));
    ck_assert_str_eq(test_json_str(walked, "header.log_file_name"),
                     test_json_str(summary, "log_file_name"));
    ck_assert_msg(json_object_equal(a, b), "counts differ:\n%s\n%s", json_object_to_json_string(a),
                  json_object_to_json_string(b));
    json_object_put(a);
    json_object_put(b);
}

/* dump --json has as many lines as there are events, and time never runs backwards in it. */
static void check_dump(const char *file, uint64_t events)
{
    struct test_output o;
    uint64_t lines = 0, last = 0;
    char *save = NULL;

    test_run_limit(&o, 600,
                   (const char *const[]){test_env("ETWCTL"), "dump", "--json", file, NULL});
    ck_assert_msg(o.status == 0, "dump: status %d: %s", o.status, o.err);
    for (char *line = strtok_r(o.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        struct json_object *e = test_json(line);
        uint64_t stamp = test_json_u64(e, "timestamp");

        ck_assert_msg(stamp >= last, "time runs backwards in dump at line %llu: %s",
                      (unsigned long long) lines + 1, line);
        last = stamp;
        lines++;
        json_object_put(e);
    }
    ck_assert_uint_eq(lines, events);
    test_output_done(&o);
}

static uint64_t count_of(struct json_object *sums, const char *key)
{
    struct json_object *n;

    return json_object_object_get_ex(sums, key, &n) ? json_object_get_uint64(n) : 0;
}

START_TEST(kernel_file)
{
    struct test_output o;
    char *file = test_path("kernel.etl");
    struct json_object *walked, *summary, *sums;

    test_need_root();
    daemon_ = test_daemon_start();
    test_etwctl_ok(&o, "record", "--kernel", "--flags", FLAGS, "-o", file, "--", "sh", "-c", LOAD);
    test_output_done(&o);

    walked = walk(file, false);
    summary = summarize(file, 0);
    compare(walked, summary);
    ck_assert(test_json_bool(summary, "complete"));
    sums = add_up(walked);
    ck_assert_uint_ge(count_of(sums, "system 3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c 36 4"), 1000);
    ck_assert_uint_ge(count_of(sums, "system 3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c 50 2"), 1000);
    ck_assert_uint_ge(count_of(sums, "system 3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c 1 4"), 30);
    ck_assert_uint_ge(count_of(sums, "system 2cb15d1d-5fc1-11d2-abe1-00a0c911f518 10 3"), 30);
    ck_assert_uint_ge(count_of(sums, "tracelogging c7ba43bd-aec8-5c05-1738-71882fab1a0d Exec"), 30);
    check_dump(file, test_json_u64(walked, "events"));
    json_object_put(sums);
    json_object_put(walked);
    json_object_put(summary);
    free(file);
    stop_daemon();
}
END_TEST

START_TEST(small_buffers)
{
    struct test_output o;
    char *file = test_path("small.etl");
    struct json_object *walked, *summary;

    test_need_root();
    daemon_ = test_daemon_start();
    test_etwctl_ok(&o, "record", "--kernel", "--flags", FLAGS, "--buffer-size", "4", "--buffers",
                   "64:4096", "-o", file, "--", "sh", "-c", LOAD);
    test_output_done(&o);
    walked = walk(file, false);
    summary = summarize(file, 0);
    compare(walked, summary);
    ck_assert_uint_eq(test_json_u64(summary, "buffer_size"), 4096);
    ck_assert_uint_ge(test_json_u64(summary, "buffers"), 50);
    check_dump(file, test_json_u64(walked, "events"));
    json_object_put(walked);
    json_object_put(summary);
    free(file);
    stop_daemon();
}
END_TEST

START_TEST(plain_file)
{
    struct test_output o;
    char *file = test_path("plain.etl");
    struct json_object *walked, *summary;

    daemon_ = test_daemon_start();
    test_etwctl_ok(&o, "start", "plain", "-o", file);
    test_output_done(&o);
    test_loss_identity("plain");
    test_etwctl_ok(&o, "stop", "plain");
    test_output_done(&o);
    walked = walk(file, false);
    summary = summarize(file, 0);
    compare(walked, summary);
    ck_assert_str_eq(test_json_str(summary, "logger_name"), "plain");
    ck_assert_str_eq(test_json_str(summary, "log_file_name"), file);
    check_dump(file, test_json_u64(walked, "events"));
    json_object_put(walked);
    json_object_put(summary);
    free(file);
    stop_daemon();
}
END_TEST

/* The smallest rings, passes that come late, and a load that overruns them: events are lost, are
 * counted, and the file says so and stays a file. */
START_TEST(file_with_losses)
{
    struct test_output o;
    char *file = test_path("lossy.etl");
    struct json_object *walked, *summary, *shown;
    uint64_t lost;

    test_need_root();
    daemon_ = test_daemon_start("-o", "KernelRingKB=64", "-o", "PassIntervalUs=100000");
    test_etwctl_ok(&o, "start", "--kernel", "--flags", FLAGS, "-o", file);
    test_output_done(&o);
    test_run_ok(&o, "perf", "bench", "sched", "pipe", "-l", "30000");
    test_output_done(&o);
    test_etwctl_ok(&o, "show", "--kernel", "--json");
    shown = test_json(o.out);
    test_loss_identity_object(shown);
    lost = test_json_u64(shown, "lost.probe_ring_full");
    ck_assert_msg(lost > 0, "nothing was lost: %s", o.out);
    ck_assert_uint_ge(test_json_u64(shown, "events_lost"), lost);
    json_object_put(shown);
    test_output_done(&o);

    test_etwctl(&o, "stop", "--kernel");
    ck_assert_msg(o.status == 0 || o.status == 4, "stop: %d %s", o.status, o.err);
    test_output_done(&o);
    walked = walk(file, false);
    summary = summarize(file, 4);
    compare(walked, summary);
    ck_assert_uint_ge(test_json_u64(summary, "events_lost"), lost);
    ck_assert_uint_ge(test_json_u64(walked, "loss_marks"), 1);
    json_object_put(walked);
    json_object_put(summary);
    free(file);
    stop_daemon();
}
END_TEST

/* What was flushed when the daemon is killed is in the file, and the file can be read. */
START_TEST(file_of_a_killed_daemon)
{
    struct test_output o;
    char *file = test_path("killed.etl");
    struct json_object *walked, *summary, *shown;
    uint64_t recorded;

    test_need_root();
    daemon_ = test_daemon_start();
    test_etwctl_ok(&o, "start", "--kernel", "--flags", FLAGS, "-o", file);
    test_output_done(&o);
    test_run_ok(&o, "sh", "-c", LOAD);
    test_output_done(&o);
    test_etwctl_ok(&o, "flush", "--kernel");
    test_output_done(&o);
    test_etwctl_ok(&o, "show", "--kernel", "--json");
    shown = test_json(o.out);
    recorded = test_json_u64(shown, "recorded");
    json_object_put(shown);
    test_output_done(&o);
    test_daemon_kill(daemon_);

    walked = walk(file, true);
    /* show came after the flush, so some of what it counts may have been in memory. */
    ck_assert_uint_ge(test_json_u64(walked, "events"), recorded / 2);
    summary = summarize(file, 4);
    ck_assert(!test_json_bool(summary, "complete"));
    ck_assert_uint_eq(test_json_u64(summary, "events"), test_json_u64(walked, "events"));
    json_object_put(walked);
    json_object_put(summary);
    daemon_ = test_daemon_free(daemon_);
    free(file);
}
END_TEST

/* The walker itself: it must see damage. */
START_TEST(walker_sees_damage)
{
    static const struct {
        const char *what;
        unsigned buffer; /* in which buffer */
        long offset;     /* in that buffer */
        unsigned char value;
    } damages[] = {
        {"Offset", 1, 48, 0x4c},
        {"BufferType", 1, 54, 9},
        {"marker of an event", 1, 75, 0},
        {"PointerSize", 0, 0x94, 4},
        {"State", 1, 44, 1},
        {"size of the header event", 0, 0x4c, 1},
    };
    struct test_output o;
    char *file = test_path("damage.etl");
    char *copy = test_path("damaged.etl");

    daemon_ = test_daemon_start();
    test_etwctl_ok(&o, "start", "damage", "-o", file);
    test_output_done(&o);
    test_etwctl_ok(&o, "stop", "damage");
    test_output_done(&o);
    json_object_put(walk(file, false));
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        uint32_t buffer_size;
        size_t size;
        char *bytes = test_read_file(file, &size);
        size_t at;
        FILE *f;

        memcpy(&buffer_size, bytes, sizeof(buffer_size));
        at = damages[i].buffer * buffer_size + (size_t) damages[i].offset;
        ck_assert_uint_lt(at, size);
        ck_assert_int_ne((unsigned char) bytes[at], damages[i].value);
        bytes[at] = (char) damages[i].value;
        f = fopen(copy, "we");
        ck_assert_ptr_nonnull(f);
        ck_assert_uint_eq(fwrite(bytes, 1, size, f), size);
        ck_assert_int_eq(fclose(f), 0);
        free(bytes);
        test_run(&o, test_env("PYTHON"), test_env("ETL_WALKER"), copy);
        ck_assert_msg(o.status == 1, "the walker does not see a wrong %s: %s%s", damages[i].what,
                      o.out, o.err);
        test_output_done(&o);
    }
    free(file);
    free(copy);
    stop_daemon();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("reader");
    TCase *tc = tcase_create("reader");

    tcase_set_timeout(tc, 900);
    tcase_add_test(tc, plain_file);
    tcase_add_test(tc, walker_sees_damage);
    tcase_add_test(tc, kernel_file);
    tcase_add_test(tc, small_buffers);
    tcase_add_test(tc, file_with_losses);
    tcase_add_test(tc, file_of_a_killed_daemon);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
