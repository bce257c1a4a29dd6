/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd.conf: the files in their order, what is wrong in them, reading them again, and what a key
 * does then; the manual names every key.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "lib/test.h"

static struct test_daemon *etwd;
static char *conf;

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void drop_in(const char *name, const char *text)
{
    char *path;
    ck_assert_int_ge(asprintf(&path, "%s.d", conf), 0);
    (void) mkdir(path, 0755);
    free(path);
    ck_assert_int_ge(asprintf(&path, "%s.d/%s", conf, name), 0);
    write_file(path, text);
    free(path);
}

static void begin(const char *text)
{
    conf = test_path("etwd.conf");
    write_file(conf, text);
    etwd = test_daemon_start("--config", conf, "-o", "MaxSessionsPerUser=7");
}

static void end(void)
{
    test_daemon_stop(etwd);
    etwd = test_daemon_free(etwd);
    free(conf);
}

static uint64_t max_sessions(void)
{
    struct test_output o;
    test_etwctl_ok(&o, "status", "--json");
    struct json_object *s = test_json(o.out);
    uint64_t n = test_json_u64(s, "max_sessions");
    json_object_put(s);
    test_output_done(&o);
    return n;
}

static bool log_says(const char *text)
{
    char *log = test_daemon_log(etwd);
    bool found = strstr(log, text) != NULL;
    free(log);
    return found;
}

/* How often the log says it. */
static unsigned log_count(const char *text)
{
    char *log = test_daemon_log(etwd);
    unsigned n = 0;
    for (const char *p = log; (p = strstr(p, text)); p++)
        n++;
    free(log);
    return n;
}

/* Until the log says it once more. */
static void reload(const char *text)
{
    unsigned before = log_count(text);
    ck_assert_int_eq(kill(etwd->pid, SIGHUP), 0);
    for (int i = 0; log_count(text) == before; i++) {
        char *log = test_daemon_log(etwd);
        ck_assert_msg(i < TEST_HANG_LIMIT_S * 100, "not '%s' but: %s", text, log);
        free(log);
        test_daemon_alive(etwd);
        usleep(10000);
    }
}

START_TEST(files_in_order)
{
    conf = test_path("etwd.conf");
    drop_in("20-b.conf", "MaxSessions=22\n");
    drop_in("10-a.conf", "MaxSessions = 11\nMaxSessionsPerUser=1\n");
    drop_in("30-c", "MaxSessions=33\n");
    drop_in(".40.conf", "MaxSessions=44\n");
    free(conf);
    begin("# first\n[etwd]\nMaxSessions=9\n");
    ck_assert_uint_eq(max_sessions(), 22);
    /* The reload says nothing of the key that the command line has set. */
    drop_in("50.conf", "MaxSessions=55\nMaxSessionsPerUser=2\n");
    reload("read again");
    ck_assert_uint_eq(max_sessions(), 55);
    ck_assert(!log_says("MaxSessionsPerUser is changed"));
    drop_in("60.conf", "MaxSessions=\n");
    reload("read again");
    ck_assert_uint_eq(max_sessions(), 64);
    end();
}
END_TEST

/* At the start a wrong line is told and passed over; at a reload nothing is changed. */
START_TEST(what_is_wrong)
{
    begin("MaxSessions=70\nMaxSession=5\n\nMaxConnections=0\n[other]\nwords\n");
    ck_assert_uint_eq(max_sessions(), 70);
    ck_assert(log_says("etwd.conf:2: unknown key"));
    ck_assert(log_says("etwd.conf:4: MaxConnections must be between 1 and 100000"));
    ck_assert(log_says("etwd.conf:5: the only section is [etwd]"));
    ck_assert(log_says("etwd.conf:6: not KEY=VALUE"));
    write_file(conf, "MaxSessions=71\nSyncInterval=x\n");
    reload("1 errors; nothing is changed");
    ck_assert(log_says("etwd.conf:2: the value is not a number"));
    ck_assert_uint_eq(max_sessions(), 70);
    ck_assert_int_eq(unlink(conf), 0);
    reload("1 errors; nothing is changed");
    ck_assert_uint_eq(max_sessions(), 70);
    write_file(conf, "MaxSessions=72\n");
    reload("read again");
    ck_assert_uint_eq(max_sessions(), 72);
    end();
}
END_TEST

START_TEST(when_it_takes_effect)
{
    struct test_output o;
    char *path = test_path("one.etl");

    begin("MaxSessions=2\n");
    test_etwctl_ok(&o, "start", "one", "-o", path);
    test_output_done(&o);
    write_file(conf, "MaxSessions=1\nRingSizeKB=64\nSyncInterval=5\n");
    reload("read again");
    ck_assert(log_says("MaxSessions is changed, at once"));
    ck_assert(log_says("SyncInterval is changed, for the next session"));
    ck_assert(log_says("RingSizeKB is changed: takes effect when etwd is restarted"));
    /* What runs goes on; no more than the new limit begin. */
    test_etwctl(&o, "start", "two", "-o", "/dev/shm/etw-two.etl");
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "MaxSessions=1"));
    test_output_done(&o);
    test_loss_identity("one");
    test_etwctl_ok(&o, "stop", "one");
    test_output_done(&o);
    for (int i = 0; i < 20; i++) /* in heaps */
        ck_assert_int_eq(kill(etwd->pid, SIGHUP), 0);
    ck_assert_uint_eq(max_sessions(), 1);
    free(path);
    end();
}
END_TEST

START_TEST(no_such_file)
{
    struct test_output o;
    test_run_limit(&o, 0,
                   (const char *const[]){test_env("ETWD"), "--config", "/nowhere/etwd.conf",
                                         "--runtime-dir", "/proc/none", NULL});
    ck_assert_int_eq(o.status, 1); /* there is no such folder */
    ck_assert_ptr_nonnull(strstr(o.err, "/nowhere/etwd.conf: No such file"));
    test_output_done(&o);
}
END_TEST

/* A type of file system that is not served unless the configuration says so. */
START_TEST(file_systems)
{
    static const char file[] = "/dev/etw-configuration.etl";
    struct test_output o;

    test_need_root();
    test_run(&o, "stat", "-f", "-c", "%T", "/dev");
    test_output_done(&o);
    char *mounts = test_read_file("/proc/self/mounts", NULL);
    bool there = strstr(mounts, " /dev devtmpfs ") != NULL;
    free(mounts);
    if (!there)
        test_skip("/dev is no devtmpfs");
    begin("");
    test_etwctl(&o, "start", "one", "-o", file);
    ck_assert_int_eq(o.status, 1);
    ck_assert_ptr_nonnull(strstr(o.err, "ExtraFileSystems"));
    test_output_done(&o);
    ck_assert_int_ne(access(file, F_OK), 0);
    write_file(conf, "ExtraFileSystems=nfs4 devtmpfs\n");
    reload("read again");
    test_etwctl_ok(&o, "start", "one", "-o", file);
    test_output_done(&o);
    test_etwctl_ok(&o, "flush", "one");
    test_output_done(&o);
    test_loss_identity("one");
    test_etwctl_ok(&o, "stop", "one");
    test_output_done(&o);
    test_etwctl_ok(&o, "summary", file); /* 4 if it were incomplete */
    test_output_done(&o);
    (void) unlink(file);
    end();
}
END_TEST

/* The manual is made from the table; a key without its paragraph cannot be. */
START_TEST(manual)
{
    char *path, *page, *help;
    struct test_output o;

    ck_assert_int_ge(asprintf(&path, "%s/man/etwd.conf.5", test_env("ETW_BUILD_ROOT")), 0);
    page = test_read_file(path, NULL);
    test_run_ok(&o, test_env("ETWD"), "--help");
    help = o.out;
#define CONF(key, field, def, min, max, why)                                                       \
    ck_assert_msg(strstr(page, "\n.It Cm " #key "\n" #def " (from "), #key);                       \
    ck_assert_msg(strstr(help, "\n  " #key " "), #key);
#define CONF_TEXT(key, field, why)                                                                 \
    ck_assert_msg(strstr(page, "\n.It Cm " #key "\n"), #key);                                      \
    ck_assert_msg(strstr(help, "\n  " #key " "), #key);
    ETW_CONF_KEYS(CONF)
    ETW_CONF_TEXTS(CONF_TEXT)
#undef CONF
#undef CONF_TEXT
    test_output_done(&o);
    free(page);
    free(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("configuration");
    TCase *t = tcase_create("configuration");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, files_in_order);
    tcase_add_test(t, what_is_wrong);
    tcase_add_test(t, when_it_takes_effect);
    tcase_add_test(t, no_such_file);
    tcase_add_test(t, file_systems);
    tcase_add_test(t, manual);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
