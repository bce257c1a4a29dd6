/* SPDX-License-Identifier: Apache-2.0
 *
 * The main of all test programs. Check runs in a child and reports to this process through a pipe
 * of its own, so that what tests print cannot be taken for results; this process passes the lines
 * on and turns a test that skipped itself into `ok N - name # SKIP reason`, which Check cannot say.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reasons of tests that skipped themselves, written by the tests' processes. */
struct skip_note {
    char test[128];
    char reason[384];
};
#define SKIPS_MAX 256

struct shared {
    _Atomic(size_t) count;
    struct skip_note notes[SKIPS_MAX];
};
static struct shared *shared;

void test_skip_at(const char *test, const char *format, ...)
{
    va_list ap;
    size_t i;

    if (!shared)
        ck_abort_msg("test_skip outside test_main");
    i = shared->count;
    if (i >= SKIPS_MAX)
        ck_abort_msg("more than %d skipped tests", SKIPS_MAX);
    snprintf(shared->notes[i].test, sizeof(shared->notes[i].test), "%s", test);
    va_start(ap, format);
    vsnprintf(shared->notes[i].reason, sizeof(shared->notes[i].reason), format, ap);
    va_end(ap);
    shared->count = i + 1;
    /* Check runs each test in a process of its own: ending it well is how a test passes. */
    exit(EXIT_SUCCESS);
}

void test_skip_all(const char *format, ...)
{
    va_list ap;

    printf("1..0 # SKIP ");
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    printf("\n");
    exit(EXIT_SUCCESS);
}

/* "ok 3 - file.c:suite:name: Passed" of a test that noted a skip. Functions that START_TEST makes
 * are called name_fn. */
static const char *find_skip(const char *line)
{
    size_t n = shared->count;

    if (strncmp(line, "ok ", 3) != 0)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const struct skip_note *note = &shared->notes[i];
        char needle[160];
        size_t len = strlen(note->test);

        if (len > 3 && strcmp(note->test + len - 3, "_fn") == 0)
            len -= 3;
        snprintf(needle, sizeof(needle), ":%.*s: ", (int) len, note->test);
        if (strstr(line, needle))
            return note->reason;
    }
    return NULL;
}

/* The result of the next test, or the plan: what is neither belongs to a message of several lines.
 */
static bool is_result(const char *line)
{
    static unsigned int last;
    unsigned int n;

    int end = 0;

    if (sscanf(line, "1..%u%n", &n, &end) == 1 && line[end] == '\0')
        return n == last;
    /* ok 3 - file.c:suite:name: message */
    (void) sscanf(line, "ok %u - %*[^:]:%*[^:]:%*[^:]:%n", &n, &end);
    if (end == 0)
        (void) sscanf(line, "not ok %u - %*[^:]:%*[^:]:%*[^:]:%n", &n, &end);
    if (end == 0)
        return false;
    if (n != last + 1)
        return false;
    last = n;
    return true;
}

static void print_line(char *line)
{
    const char *reason;
    char *file, *slash;

    if (!is_result(line)) {
        printf("# %s\n", line);
        fflush(stdout);
        return;
    }
    reason = find_skip(line);
    /* The folder of the source file says nothing. */
    file = strstr(line, " - ");
    slash = file ? memrchr(file, '/', strcspn(file, ":")) : NULL;
    if (slash)
        memmove(file + 3, slash + 1, strlen(slash + 1) + 1);
    /* What follows a '#' would be a directive. */
    for (const char *p = line; *p; p++)
        putchar(*p == '#' ? '+' : *p);
    if (reason) {
        printf(" # SKIP ");
        for (const char *p = reason; *p; p++)
            putchar(*p == '\n' ? ' ' : *p);
    }
    putchar('\n');
    fflush(stdout);
}

/* Passes complete lines on; keeps the rest at the front of buf. */
static size_t print_lines(char *buf, size_t len)
{
    char *start = buf;
    char *nl;

    while ((nl = memchr(start, '\n', len - (size_t) (start - buf)))) {
        *nl = '\0';
        print_line(start);
        start = nl + 1;
    }
    len -= (size_t) (start - buf);
    memmove(buf, start, len);
    return len;
}

static int pass_results(int fd, int pidfd)
{
    static char buf[65536];
    size_t len = 0;
    bool ended = false;

    for (;;) {
        struct pollfd p[2] = {{.fd = fd, .events = POLLIN},
                              {.fd = ended ? -1 : pidfd, .events = POLLIN}};
        ssize_t n;

        /* A process that outlived the tests may hold the pipe open: the end of the runner counts.
         */
        if (poll(p, 2, ended ? 0 : -1) < 0 && errno != EINTR)
            return -errno;
        if (p[1].revents)
            ended = true;
        if (p[0].revents & (POLLIN | POLLHUP)) {
            n = read(fd, buf + len, sizeof(buf) - 1 - len);
            if (n <= 0)
                return 0;
            len = print_lines(buf, len + (size_t) n);
            if (len == sizeof(buf) - 1)
                return -EMSGSIZE;
        } else if (ended) {
            return 0;
        }
    }
}

static int run_suite(Suite *suite, int fd)
{
    SRunner *runner = srunner_create(suite);
    char path[64];
    int failed;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    unsetenv("CK_TAP_LOG_FILE_NAME");
    srunner_set_tap(runner, path);
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed;
}

/* A folder for those of all tests, which this process removes: a test that is killed cannot. */
static char *make_base(void)
{
    const char *base = getenv("TMPDIR");
    char *dir;

    if (asprintf(&dir, "%s/etw-test-XXXXXX", base && *base ? base : "/tmp") < 0 || !mkdtemp(dir) ||
        chmod(dir, 0755) < 0 || setenv("TMPDIR", dir, 1) < 0)
        return NULL;
    return dir;
}

/* Trace files that others have made may lie beside the source. */
__attribute__((constructor)) static void find_samples(void)
{
    const char *root = getenv("ETW_SOURCE_ROOT");
    char path[4096];

    if (getenv("ETW_SAMPLES") || !root)
        return;
    (void) snprintf(path, sizeof(path), "%s/../shared/etl-samples/expected.json", root);
    if (access(path, R_OK) < 0)
        return;
    *strrchr(path, '/') = '\0';
    (void) setenv("ETW_SAMPLES", path, 1);
}

int test_main(Suite *suite)
{
    char *base = make_base();
    int fds[2], pidfd, status, r;
    pid_t pid;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!base || shared == MAP_FAILED || pipe2(fds, O_CLOEXEC) < 0) {
        perror("test_main");
        return 1;
    }
    fflush(stdout);

    pid = fork();
    if (pid < 0) {
        perror("test_main: fork");
        return 1;
    }
    if (pid == 0) {
        close(fds[0]);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        exit(run_suite(suite, fds[1]) > 0 ? 1 : 0);
    }
    close(fds[1]);
    pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
    r = pass_results(fds[0], pidfd);
    if (waitpid(pid, &status, 0) < 0)
        r = -errno;
    test_remove_tree(base);
    if (r < 0 || !WIFEXITED(status)) {
        printf("Bail out! the test runner died\n");
        return 1;
    }
    return WEXITSTATUS(status);
}

int test_scale(int n)
{
    const char *s = getenv("ETW_TEST_SCALE");
    double scale = s && *s ? strtod(s, NULL) : 1.0;
    double scaled = n * scale;

    if (!(scale > 0))
        ck_abort_msg("ETW_TEST_SCALE is not a positive number: '%s'", s);
    return scaled < 1 ? 1 : scaled > 1e9 ? 1000000000 : (int) scaled;
}

const char *test_env(const char *name)
{
    const char *s = getenv(name);

    if (!s || !*s)
        ck_abort_msg("%s is not set: run this through 'meson test'", name);
    return s;
}
