/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGTERM while a log file does not let itself be written: etwd waits for ShutdownTimeout, tells
 * what it leaves, and makes room for another.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "hostile/client.h"
#include "hostile/fuse-server.h"

static void wait_log(const struct test_daemon *d, const char *text)
{
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100; i++) {
        char *log = test_daemon_log(d);
        bool found = strstr(log, text) != NULL;
        free(log);
        if (found)
            return;
        usleep(10000);
    }
    ck_abort_msg("etwd does not say '%s'; it wrote:\n%s", text, test_daemon_log(d));
}

START_TEST(held_file)
{
    static const char content[8192] = "x";
    static const char *const args[] = {"-o", "ShutdownTimeout=1", NULL};
    char *point = test_path("held"), *program, *path = test_path("held.etl");
    int status;

    test_need_root();
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fuse < 0)
        test_skip("no /dev/fuse: %m");
    ck_assert_int_eq(mkdir(point, 0755), 0);
    pid_t server = fuse_server_start(fuse, content, sizeof(content));
    if (fuse_mount_at(fuse, point) < 0) {
        kill(server, SIGKILL);
        test_skip("FUSE cannot be mounted here");
    }
    program = test_path("held/program");
    int file = open(program, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(file >= 0, "%s: %m", program);
    void *never_there = mmap(NULL, sizeof(content), PROT_READ, MAP_PRIVATE, file, 0);
    ck_assert_ptr_ne(never_there, MAP_FAILED);
    safe_close(file);
    ck_assert_int_eq(umount2(point, MNT_DETACH), 0);

    struct test_daemon *d = test_daemon_start_args(args);
    int sock = client_new(), fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    p.name = (char *) "held";
    p.log_file = path;
    ck_assert_uint_eq(client_start(sock, &p, false, false, &fd, 1, NULL), 0);

    /* A process in the middle of a write to it, whose memory does not come. */
    ck_assert_int_eq(kill(server, SIGSTOP), 0);
    pid_t holder = fork();
    ck_assert_int_ge(holder, 0);
    if (holder == 0)
        _exit(write(fd, never_there, 4096) < 0);
    usleep(200000); /* until it sleeps there */

    pid_t old = d->pid;
    ck_assert_int_eq(kill(old, SIGTERM), 0);
    wait_log(d, "ShutdownTimeout");
    /* Its thread may hang in the kernel still; that hinders nobody. */
    test_daemon_again(d, NULL);
    safe_close(sock);
    sock = client_new();
    ck_assert_uint_eq(client_count_sessions(sock), 0);

    ck_assert_int_eq(kill(server, SIGCONT), 0);
    ck_assert_int_eq(waitpid(old, &status, 0), old);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status 0x%x", status);
    ck_assert_int_eq(waitpid(holder, &status, 0), holder);
    munmap(never_there, sizeof(content));
    kill(server, SIGKILL);
    safe_close(fuse);
    ck_assert_int_eq(waitpid(server, NULL, 0), server);
    safe_close(fd);
    safe_close(sock);
    test_daemon_stop(d);
    test_daemon_free(d);
    free(program);
    free(point);
    free(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("shutdown");
    TCase *c = tcase_create("shutdown");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, held_file);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_main(suite());
}
