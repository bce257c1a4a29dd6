/* SPDX-License-Identifier: Apache-2.0
 *
 * How StartTrace opens the log file: a row for each rule, as root and as an ordinary user.
 */
#include "lib/test.h"

#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake-daemon.h"
#include "properties.h"

#define NOBODY 65534

static struct fake_daemon *d;
static struct test_properties t;
static TRACEHANDLE handle;

static void setup(void)
{
    ck_assert_int_eq(chdir(test_tempdir()), 0);
    d = fake_daemon_start();
    ck_assert_int_eq(chmod(d->path, 0666), 0);
}

static void teardown(void)
{
    d = fake_daemon_stop(d);
}

static ULONG start(const char *file)
{
    properties_init(&t, file);
    handle = 3;
    return StartTraceA(&handle, "session", &t.p);
}

/* What came is the file of this name, and opened as it must be. */
static void check_came(const char *path)
{
    struct stat st;

    ck_assert(d->had_file && d->file_regular);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert(st.st_dev == d->file_dev && st.st_ino == d->file_ino);
    ck_assert_int_eq(d->file_flags & O_ACCMODE, O_RDWR);
    ck_assert_int_eq(d->file_flags & (O_APPEND | O_NONBLOCK | O_PATH), 0);
}

START_TEST(absolute)
{
    char *path = test_path("abs.etl");

    ck_assert_uint_eq(start(path), ERROR_SUCCESS);
    ck_assert_str_eq(fake_start_request(d)->properties->log_file, path);
    check_came(path);
    free(path);
}
END_TEST

START_TEST(relative)
{
    char *path = test_path("rel.etl");

    ck_assert_uint_eq(start("rel.etl"), ERROR_SUCCESS);
    ck_assert_str_eq(fake_start_request(d)->properties->log_file, path);
    check_came(path);
    free(path);
    /* From the root there is no double slash. */
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_uint_eq(start("proc/none/x.etl"), ERROR_PATH_NOT_FOUND);
    properties_init(&t, "dev/null");
    ck_assert_uint_eq(StartTraceA(&handle, "s", &t.p), ERROR_BAD_PATHNAME);
}
END_TEST

START_TEST(taken_as_it_is)
{
    static const char *const names[] = {"no extension", "%TEMP%.etl", "$HOME.etl",   "~.etl",
                                        "a\\b.etl",     "x%d.etl",    "\xC3\xA4.etl"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        ck_assert_uint_eq(start(names[i]), ERROR_SUCCESS);
        check_came(names[i]);
    }
}
END_TEST

START_TEST(mode_of_a_new_file)
{
    struct stat st;
    mode_t old = umask(027);

    ck_assert_uint_eq(start("umask.etl"), ERROR_SUCCESS);
    (void) umask(old);
    ck_assert_int_eq(stat("umask.etl", &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0640);
}
END_TEST

START_TEST(missing_directory)
{
    ck_assert_uint_eq(start("missing/x.etl"), ERROR_PATH_NOT_FOUND);
    ck_assert_uint_eq(start("/nonexistent/x.etl"), ERROR_PATH_NOT_FOUND);
    ck_assert_int_eq(close(open("file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    ck_assert_uint_eq(start("file/x.etl"), ERROR_PATH_NOT_FOUND);
    ck_assert_uint_eq(handle, 0);
    ck_assert_ptr_null(d->request); /* never asked */
}
END_TEST

START_TEST(not_a_file)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(mkdir("dir", 0755), 0);
    ck_assert_uint_eq(start("dir"), ERROR_BAD_PATHNAME);
    ck_assert_uint_eq(start("dir/"), ERROR_BAD_PATHNAME);
    ck_assert_int_eq(mkfifo("fifo", 0600), 0); /* and no reader: must not wait */
    ck_assert_uint_eq(start("fifo"), ERROR_BAD_PATHNAME);
    ck_assert_int_eq(bind(s, (const struct sockaddr *) &sa, sizeof(sa)), 0);
    ck_assert_uint_eq(start("socket"), ERROR_BAD_PATHNAME);
    ck_assert_int_eq(close(s), 0);
    ck_assert_uint_eq(start("/dev/null"), ERROR_BAD_PATHNAME);
    ck_assert_int_eq(access("fifo", F_OK), 0);
    ck_assert_int_eq(access("/dev/null", F_OK), 0);
    ck_assert_ptr_null(d->request);
}
END_TEST

START_TEST(symbolic_links)
{
    ck_assert_int_eq(symlink("nothing", "dangling"), 0);
    ck_assert_uint_eq(start("dangling"), ERROR_BAD_PATHNAME);
    ck_assert_int_eq(symlink("loop", "loop"), 0);
    ck_assert_uint_eq(start("loop"), ERROR_BAD_PATHNAME);
    /* One to a file is followed, with the caller's rights. */
    ck_assert_int_eq(close(open("target.etl", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    ck_assert_int_eq(symlink("target.etl", "link.etl"), 0);
    ck_assert_uint_eq(start("link.etl"), ERROR_SUCCESS);
    check_came("target.etl");
}
END_TEST

START_TEST(long_paths)
{
    char name[1025];

    memset(name, 'x', 1024);
    name[1024] = '\0';
    ck_assert_uint_eq(start(name), ERROR_BAD_PATHNAME); /* longer than the system's 255 */
    for (size_t i = 0; i + 1 < sizeof(name); i += 2)
        memcpy(name + i, "./", 2);
    memcpy(name + 1024 - 5, "x.etl", 5);
    ck_assert_uint_eq(start(name), ERROR_SUCCESS); /* 1024 characters are allowed */
}
END_TEST

START_TEST(working_directory_gone)
{
    ck_assert_int_eq(mkdir("gone", 0755), 0);
    ck_assert_int_eq(chdir("gone"), 0);
    ck_assert_int_eq(rmdir("../gone"), 0);
    ck_assert_uint_eq(start("x.etl"), ERROR_PATH_NOT_FOUND);
}
END_TEST

START_TEST(modes_without_a_file)
{
    static const ULONG modes[] = {EVENT_TRACE_FILE_MODE_NEWFILE, EVENT_TRACE_BUFFERING_MODE,
                                  EVENT_TRACE_PRIVATE_LOGGER_MODE};

    /* A daemon of this version refuses them; no file comes and goes meanwhile. */
    d->reply_status = ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        properties_init(&t, "mode%d.etl");
        t.p.LogFileMode = modes[i];
        t.p.MaximumFileSize = 1;
        ck_assert_uint_eq(StartTraceA(&handle, "s", &t.p), ERROR_NOT_SUPPORTED);
        ck_assert(!d->had_file);
        ck_assert_ptr_nonnull(strstr(fake_start_request(d)->properties->log_file, "/mode%d.etl"));
        ck_assert_int_ne(access("mode%d.etl", F_OK), 0);
    }
}
END_TEST

START_TEST(real_time_with_a_file)
{
    properties_init(&t, "rt.etl");
    t.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
    ck_assert_uint_eq(StartTraceA(&handle, "s", &t.p), ERROR_SUCCESS);
    check_came("rt.etl");
}
END_TEST

/* As nobody, in a process of its own; exit status: the code. */
static ULONG start_as_nobody(const char *file)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
            _exit(255);
        _exit((int) start(file));
    }
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return (ULONG) WEXITSTATUS(status);
}

START_TEST(unwritable)
{
    struct stat st;

    test_need_root();
    ck_assert_int_eq(mkdir("closed", 0755), 0);
    ck_assert_int_eq(mkdir("open", 0777), 0);
    ck_assert_int_eq(chmod("open", 0777), 0);
    ck_assert_int_eq(close(open("open/root.etl", O_CREAT | O_WRONLY | O_CLOEXEC, 0644)), 0);
    ck_assert_uint_eq(start_as_nobody("closed/x.etl"), ERROR_ACCESS_DENIED);
    ck_assert_uint_eq(start_as_nobody("open/root.etl"), ERROR_ACCESS_DENIED);
    ck_assert_uint_eq(start_as_nobody("open/own.etl"), ERROR_SUCCESS);
    ck_assert_int_eq(stat("open/own.etl", &st), 0);
    ck_assert_uint_eq(st.st_uid, NOBODY); /* the caller's file, whoever the daemon is */
}
END_TEST

START_TEST(unwritable_file_system)
{
    ck_assert_uint_eq(start("/proc/x.etl"), ERROR_PATH_NOT_FOUND);
    ck_assert_uint_eq(start("/sys/x.etl"), ERROR_ACCESS_DENIED);
}
END_TEST

START_TEST(socket_that_may_not_be_used)
{
    test_need_root();
    ck_assert_int_eq(chmod(d->path, 0600), 0);
    ck_assert_uint_eq(start_as_nobody("x.etl"), ERROR_ACCESS_DENIED);
}
END_TEST

/* Somebody moves the new file away and puts another in its place. */
static void replace(struct fake_daemon *daemon)
{
    const char *path = daemon->request->start_session->properties->log_file;
    int fd;

    if (rename(path, "moved.etl") < 0)
        return;
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    (void) !write(fd, "theirs", 6);
    (void) close(fd);
}

START_TEST(file_replaced_meanwhile)
{
    char *content;

    d->on_request = replace;
    d->reply_status = ERROR_ALREADY_EXISTS;
    ck_assert_uint_eq(start("x.etl"), ERROR_ALREADY_EXISTS);
    content = test_read_file("x.etl", NULL); /* not the one that this call made: stays */
    ck_assert_str_eq(content, "theirs");
    free(content);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("log-file");
    TCase *c = tcase_create("rules");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, absolute);
    tcase_add_test(c, relative);
    tcase_add_test(c, taken_as_it_is);
    tcase_add_test(c, mode_of_a_new_file);
    tcase_add_test(c, missing_directory);
    tcase_add_test(c, not_a_file);
    tcase_add_test(c, symbolic_links);
    tcase_add_test(c, long_paths);
    tcase_add_test(c, working_directory_gone);
    tcase_add_test(c, modes_without_a_file);
    tcase_add_test(c, real_time_with_a_file);
    tcase_add_test(c, unwritable);
    tcase_add_test(c, unwritable_file_system);
    tcase_add_test(c, socket_that_may_not_be_used);
    tcase_add_test(c, file_replaced_meanwhile);
    suite_add_tcase(s, c);
    return test_main(s);
}
