/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast ProcessTrace delivers files: events and bytes a second of CPU and of wall time, and the
 * time from the call to the first event. The callback looks at each event's stamp and first data
 * bytes. Files are read once before, so that they lie in the page cache.
 *
 *   bench-process-trace [-n ROUNDS] [-m MIB] [-p PROCESSORS] [-b BURST] [FILE...]
 *
 * Without FILE one of MIB (1024) is made beside the working directory and removed again.
 */
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <evntcons.h>
#include <evntrace.h>

#include "lib/synthetic.h"

#define FILES_MAX 64
#define ROUNDS_MAX 1000

static struct {
    uint64_t events;
    uint64_t bytes; /* sum of data, so that it is read */
    int64_t last;
    uint64_t backwards;
    uint64_t begin_ns;
    uint64_t first_ns;
} seen;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec ts;

    (void) clock_gettime(clock, &ts);
    return (uint64_t) ts.tv_sec * 1000000000u + (uint64_t) ts.tv_nsec;
}

static void on_event(PEVENT_RECORD e)
{
    if (seen.events++ == 0)
        seen.first_ns = now_ns(CLOCK_MONOTONIC) - seen.begin_ns;
    if (e->EventHeader.TimeStamp.QuadPart < seen.last)
        seen.backwards++;
    seen.last = e->EventHeader.TimeStamp.QuadPart;
    if (e->UserDataLength > 0)
        seen.bytes += *(const uint8_t *) e->UserData;
}

static uint64_t read_through(const char *path)
{
    static char buf[1 << 20];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t size = 0;
    ssize_t n;

    if (fd < 0)
        err(1, "%s", path);
    while ((n = read(fd, buf, sizeof(buf))) > 0)
        size += (uint64_t) n;
    if (n < 0)
        err(1, "%s", path);
    (void) close(fd);
    return size;
}

static void one_round(char *const files[], unsigned count)
{
    TRACEHANDLE handles[FILES_MAX];
    ULONG code;

    memset(&seen, 0, sizeof(seen));
    for (unsigned i = 0; i < count; i++) {
        EVENT_TRACE_LOGFILEA lf = {
            .LogFileName = files[i],
            .EventRecordCallback = on_event,
        };

        lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
        handles[i] = OpenTraceA(&lf);
        if (handles[i] == INVALID_PROCESSTRACE_HANDLE)
            errx(1, "%s: OpenTrace failed with code %u", files[i], GetLastError());
    }
    seen.begin_ns = now_ns(CLOCK_MONOTONIC);
    code = ProcessTrace(handles, count, NULL, NULL);
    if (code != ERROR_SUCCESS)
        errx(1, "ProcessTrace failed with code %u", code);
    for (unsigned i = 0; i < count; i++)
        (void) CloseTrace(handles[i]);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a;
    double y = *(const double *) b;

    return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
    qsort(v, n, sizeof(*v), compare);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static unsigned number(const char *text, unsigned max)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);

    if (*end || v == 0 || v > max)
        errx(2, "'%s' is not a number from 1 to %u", text, max);
    return (unsigned) v;
}

int main(int argc, char **argv)
{
    static double wall[ROUNDS_MAX], cpu[ROUNDS_MAX], first[ROUNDS_MAX];
    char made[] = "./bench-XXXXXX.etl";
    char *made_list[] = {made};
    char *const *files;
    unsigned rounds = 5, mib = 1024, processors = 8, burst = 1, count;
    uint64_t bytes = 0;
    struct rusage usage;
    int option;

    while ((option = getopt(argc, argv, "n:m:p:b:")) != -1) {
        switch (option) {
        case 'n':
            rounds = number(optarg, ROUNDS_MAX);
            break;
        case 'm':
            mib = number(optarg, 1u << 20);
            break;
        case 'p':
            processors = number(optarg, 1024);
            break;
        case 'b':
            burst = number(optarg, 100000);
            break;
        default:
            fprintf(stderr, "usage: %s [-n ROUNDS] [-m MIB] [-p PROCESSORS] [-b BURST] [FILE...]\n",
                    argv[0]);
            return 2;
        }
    }
    count = (unsigned) (argc - optind);
    files = argv + optind;
    if (count > FILES_MAX)
        errx(2, "at most %d files", FILES_MAX);
    if (count == 0) {
        int fd = mkstemps(made, 4);

        if (fd < 0)
            err(1, "%s", made);
        (void) close(fd);
        (void) synthetic_kernel_file(made, (uint64_t) mib << 20, 65536, processors, burst);
        files = made_list;
        count = 1;
    }
    for (unsigned i = 0; i < count; i++)
        bytes += read_through(files[i]);
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
        uint64_t wall_ns = now_ns(CLOCK_MONOTONIC);

        one_round((char *const *) files, count);
        wall[i] = (double) (now_ns(CLOCK_MONOTONIC) - wall_ns) / 1e9;
        cpu[i] = (double) (now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns) / 1e9;
        first[i] = (double) seen.first_ns / 1e6;
    }
    if (files == made_list)
        (void) unlink(made);
    (void) getrusage(RUSAGE_SELF, &usage);
    {
        double cpu_s = median(cpu, rounds);
        double wall_s = median(wall, rounds);

        printf("%llu events, %.0f MB, %u rounds, medians:\n", (unsigned long long) seen.events,
               (double) bytes / 1e6, rounds);
        printf("  CPU   %6.2f M events/s  %7.0f MB/s  %5.1f ns/event (fastest %.2f, slowest %.2f "
               "M events/s)\n",
               (double) seen.events / cpu_s / 1e6, (double) bytes / cpu_s / 1e6,
               cpu_s * 1e9 / (double) seen.events, (double) seen.events / cpu[0] / 1e6,
               (double) seen.events / cpu[rounds - 1] / 1e6);
        printf("  wall  %6.2f M events/s  %7.0f MB/s\n", (double) seen.events / wall_s / 1e6,
               (double) bytes / wall_s / 1e6);
        printf("  first event after %.1f ms; %llu stamps before the one ahead; %ld KiB resident at "
               "most\n",
               median(first, rounds), (unsigned long long) seen.backwards, usage.ru_maxrss);
    }
    return seen.backwards ? 1 : 0;
}
