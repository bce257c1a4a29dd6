/* SPDX-License-Identifier: Apache-2.0
 *
 * What registering and controlling cost, for bench-provider.py, each order one line of JSON:
 *   provider-controls register N          EventRegister: N times in a process, and the first one of
 *                                         each of N/20 processes
 *   provider-controls crowd PROCESSES REGISTRATIONS
 *                                         that many processes, with as many registrations each;
 * says when they are there, stays until stdin ends provider-controls calls N HANDLE...   N control
 * calls on these sessions: query, enable, disable; their times
 */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <evntprov.h>
#include <evntrace.h>

static uint64_t now_ns(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * 1000000000u + (uint64_t) ts.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a;
    double y = *(const double *) b;

    return (x > y) - (x < y);
}

static unsigned number(const char *text, unsigned max)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);

    if (*end || v == 0 || v > max)
        errx(2, "'%s' is not a number from 1 to %u", text, max);
    return (unsigned) v;
}

/* Microseconds. */
static void print_times(const char *name, double *v, unsigned n, const char *end)
{
    qsort(v, n, sizeof(*v), compare);
    printf("\"%s\": {\"n\": %u, \"p50\": %.2f, \"p90\": %.2f, \"p99\": %.2f, \"max\": %.2f}%s",
           name, n, v[n / 2], v[n * 9 / 10], v[n * 99 / 100], v[n - 1], end);
}

static double first_registration(const GUID *guid)
{
    double us = 0;
    int pipes[2];
    int status;
    pid_t pid;

    if (pipe(pipes) < 0)
        err(1, "pipe");
    pid = fork();
    if (pid < 0)
        err(1, "fork");
    if (pid == 0) {
        REGHANDLE h;
        uint64_t begin = now_ns();
        ULONG code = EventRegister(guid, NULL, NULL, &h);

        us = (double) (now_ns() - begin) / 1e3;
        _exit(code != ERROR_SUCCESS || write(pipes[1], &us, sizeof(us)) != sizeof(us));
    }
    if (waitpid(pid, &status, 0) != pid || status != 0 ||
        read(pipes[0], &us, sizeof(us)) != sizeof(us))
        errx(1, "a first registration failed");
    (void) close(pipes[0]);
    (void) close(pipes[1]);
    return us;
}

static int registrations(unsigned n)
{
    GUID guid = {0xbe7c4001, 0, 0x4000, {0x80}};
    double *first = calloc(n, sizeof(double));
    double *in = calloc(n, sizeof(double));
    double *out = calloc(n, sizeof(double));
    unsigned n_first = n / 20 + 1;
    REGHANDLE h;

    if (!first || !in || !out)
        err(1, "times");
    /* Before this process has a connection of its own. */
    for (unsigned i = 0; i < n_first; i++)
        first[i] = first_registration(&guid);
    if (EventRegister(&guid, NULL, NULL, &h) != ERROR_SUCCESS)
        errx(1, "EventRegister failed");
    for (unsigned i = 0; i < n; i++) {
        uint64_t t[3];
        REGHANDLE other;

        guid.Data2 = (USHORT) i;
        t[0] = now_ns();
        if (EventRegister(&guid, NULL, NULL, &other) != ERROR_SUCCESS)
            errx(1, "EventRegister failed");
        t[1] = now_ns();
        (void) EventUnregister(other);
        t[2] = now_ns();
        in[i] = (double) (t[1] - t[0]) / 1e3;
        out[i] = (double) (t[2] - t[1]) / 1e3;
    }
    printf("{");
    print_times("first", first, n_first, ", ");
    print_times("register", in, n, ", ");
    print_times("unregister", out, n, "}\n");
    (void) EventUnregister(h);
    free(first);
    free(in);
    free(out);
    return 0;
}

static int crowd(unsigned processes, unsigned each)
{
    int ready[2];
    int stop[2];
    char c;

    if (pipe(ready) < 0 || pipe(stop) < 0)
        err(1, "pipe");
    for (unsigned i = 0; i < processes; i++) {
        pid_t pid = fork();

        if (pid < 0)
            err(1, "fork");
        if (pid > 0)
            continue;
        (void) close(stop[1]);
        (void) close(0);
        for (unsigned k = 0; k < each; k++) {
            GUID guid = {0xbe7c4002, (USHORT) (i % 64), 0x4000, {0x80, 0, (UCHAR) k}};
            REGHANDLE h;

            if (EventRegister(&guid, NULL, NULL, &h) != ERROR_SUCCESS)
                errx(1, "EventRegister failed");
        }
        (void) !write(ready[1], "x", 1);
        (void) !read(stop[0], &c, 1);
        _exit(0);
    }
    for (unsigned i = 0; i < processes; i++)
        if (read(ready[0], &c, 1) != 1)
            err(1, "read");
    printf("{\"ready\": %u}\n", processes);
    (void) fflush(stdout);
    while (read(0, &c, 1) > 0)
        ;
    (void) close(stop[1]);
    for (unsigned i = 0; i < processes; i++)
        (void) wait(NULL);
    return 0;
}

static int calls(unsigned n, unsigned n_handles, char **handles)
{
    enum { QUERY, ENABLE, DISABLE, KINDS };
    static const char *const names[KINDS] = {"query", "enable", "disable"};
    struct {
        EVENT_TRACE_PROPERTIES p;
        char names[2 * 1100];
    } *props = calloc(1, sizeof(*props));
    double *us[KINDS];

    if (n_handles == 0)
        errx(2, "no handles");
    for (int k = 0; k < KINDS; k++) {
        us[k] = calloc(n, sizeof(double));
        if (!us[k] || !props)
            err(1, "times");
    }
    for (unsigned i = 0; i < n; i++) {
        TRACEHANDLE h = strtoull(handles[i % n_handles], NULL, 10);
        GUID guid = {0xbe7c4002, (USHORT) (i % 64), 0x4000, {0x80, 0, (UCHAR) (i % 10)}};
        ULONG code = ERROR_SUCCESS;

        for (int k = 0; k < KINDS; k++) {
            uint64_t begin;

            memset(props, 0, sizeof(*props));
            props->p.Wnode.BufferSize = sizeof(*props);
            props->p.LoggerNameOffset = sizeof(props->p);
            props->p.LogFileNameOffset = sizeof(props->p) + 1100;
            begin = now_ns();
            if (k == QUERY)
                code = ControlTraceA(h, NULL, &props->p, EVENT_TRACE_CONTROL_QUERY);
            else
                code = EnableTraceEx2(h, &guid,
                                      k == ENABLE ? EVENT_CONTROL_CODE_ENABLE_PROVIDER
                                                  : EVENT_CONTROL_CODE_DISABLE_PROVIDER,
                                      5, 0, 0, 0, NULL);
            us[k][i] = (double) (now_ns() - begin) / 1e3;
            if (code != ERROR_SUCCESS)
                errx(1, "%s of session %s failed with code %u", names[k], handles[i % n_handles],
                     code);
        }
    }
    printf("{");
    for (int k = 0; k < KINDS; k++) {
        print_times(names[k], us[k], n, k + 1 < KINDS ? ", " : "}\n");
        free(us[k]);
    }
    free(props);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "register") == 0)
        return registrations(number(argv[2], 60000));
    if (argc == 4 && strcmp(argv[1], "crowd") == 0)
        return crowd(number(argv[2], 10000), number(argv[3], 250));
    if (argc > 3 && strcmp(argv[1], "calls") == 0)
        return calls(number(argv[2], 1000000), (unsigned) argc - 3, argv + 3);
    errx(2, "usage: %s register N | crowd PROCESSES REGISTRATIONS | calls N HANDLE...", argv[0]);
}
