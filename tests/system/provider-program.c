/* SPDX-License-Identifier: Apache-2.0
 *
 * The provider that tests run: registers, waits until it is enabled, and writes numbered events
 * (numbered.h) from some threads, as fast or as slow as it is told. What its calls returned stands
 * in a page shared with the test, and is good whenever the program dies.
 *
 *     provider-program PAGE [KEY=NUMBER]...
 *
 * PAGE  a file with a struct numbered_page; "-": none
 *   guid=0       the provider: NUMBERED_GUID(n)
 *   threads=1    each is one source of events
 *   source=0     of the first thread; the others have the next numbers
 *   count=1000   events of each thread; 0: until `stop` in the page
 *   rate=0       events a second and thread; 0: no pause. A thread that falls behind does not catch
 *                up: the rate is a maximum.
 *   wait=1       1: begin once the provider is enabled; 0: write at once
 *   go=0         1: also wait for `go` in the page
 *   retry=0      1: an event that found no room is tried again with the same number
 *   cpu=-1       all threads run on this processor only
 *   marks=0      1: write(2)s of "MARK" to descriptor -1, before the events and after them
 *   warm=0       events of each thread before the first mark
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "numbered.h"

#define TICK_NS 1000000u
#define HANG_S 120

static struct {
    const char *key;
    long value;
} options[] = {
    {"guid", 0}, {"threads", 1}, {"source", 0}, {"count", 1000}, {"rate", 0}, {"wait", 1},
    {"go", 0},   {"retry", 0},   {"cpu", -1},   {"marks", 0},    {"warm", 0},
};

static struct numbered_page *page;
static REGHANDLE provider;
static pthread_barrier_t barrier;

static long *option(const char *key)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (strcmp(options[i].key, key) == 0)
            return &options[i].value;
    fprintf(stderr, "provider-program: no option '%s'\n", key);
    exit(2);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t) (ns / 1000000000u),
                         .tv_nsec = (long) (ns % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void hung(const char *what)
{
    fprintf(stderr, "provider-program: %s\n", what);
    _exit(3);
}

static ULONG write_one(uint32_t source, uint64_t number, uint8_t *buf)
{
    EVENT_DESCRIPTOR descriptor;
    EVENT_DATA_DESCRIPTOR data[3];
    uint32_t size = numbered_make(buf, source, number);

    EventDescCreate(&descriptor, numbered_id(number), 0, 0, NUMBERED_LEVEL, 0, 0, NUMBERED_KEYWORD);
    EventDataDescCreate(&data[0], buf, 4);
    EventDataDescCreate(&data[1], buf + 4, 12);
    EventDataDescCreate(&data[2], buf + 16, size - 16);
    return EventWrite(provider, &descriptor, 3, data);
}

static void mark(void)
{
    if (*option("marks") && syscall(SYS_write, -1, "MARK", 4) >= 0)
        hung("write to descriptor -1 did not fail");
}

static void add(_Atomic uint64_t *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* Events number from .. to; false: the test says stop. */
static bool write_range(uint32_t index, uint64_t from, uint64_t to)
{
    struct numbered_thread *t = &page->threads[index];
    uint32_t source = (uint32_t) *option("source") + index;
    uint64_t rate = (uint64_t) *option("rate"), next = now_ns(), owed = 0;
    bool retry = *option("retry");
    uint8_t buf[NUMBERED_MAX];

    for (uint64_t n = from; n < to;) {
        ULONG code;

        if (atomic_load_explicit(&page->stop, memory_order_relaxed))
            return false;
        if (rate && owed < 1000) {
            uint64_t now = now_ns();
            if (next > now)
                sleep_until(next);
            else
                next = now;
            /* Owed in thousandths of an event; slow ones get a tick of their own length. */
            uint64_t tick = rate < 1000 ? 1000000000u / rate : TICK_NS;
            next += tick;
            owed += rate < 1000 ? 1000 : rate;
        }
        code = write_one(source, n, buf);
        if (code == ERROR_SUCCESS)
            add(&t->returned);
        else if (code == ERROR_NOT_ENOUGH_MEMORY) {
            add(&t->ring_full);
            if (retry) {
                sched_yield();
                continue;
            }
        } else {
            atomic_store_explicit(&t->code, code, memory_order_relaxed);
            add(&t->other);
        }
        n++;
        owed -= rate ? 1000 : 0;
    }
    return true;
}

static void *writer(void *arg)
{
    uint32_t index = (uint32_t) (uintptr_t) arg;
    uint64_t count = (uint64_t) *option("count"), warm = (uint64_t) *option("warm");
    uint64_t start, elapsed, before;

    page->threads[index].tid = (uint32_t) syscall(SYS_gettid);
    pthread_barrier_wait(&barrier);
    atomic_fetch_add(&page->waiting, 1);
    start = now_ns();
    while (*option("go") && !atomic_load(&page->go)) {
        if (now_ns() - start > HANG_S * 1000000000ull)
            hung("nobody said go");
        sleep_until(now_ns() + TICK_NS / 4);
    }
    if (warm)
        (void) write_range(index, 0, warm);
    mark();
    start = now_ns();
    (void) write_range(index, warm, count ? warm + count : UINT64_MAX);
    elapsed = now_ns() - start;
    mark();
    before = atomic_load(&page->elapsed_ns);
    while (before < elapsed && !atomic_compare_exchange_weak(&page->elapsed_ns, &before, elapsed))
        ;
    atomic_fetch_add(&page->ended, 1);
    return NULL;
}

static struct numbered_page *map_page(const char *path)
{
    void *p;
    int fd;

    if (strcmp(path, "-") == 0)
        return calloc(1, sizeof(struct numbered_page));
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    p = mmap(NULL, sizeof(struct numbered_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

int main(int argc, char **argv)
{
    pthread_t threads[NUMBERED_THREADS_MAX];
    uint64_t start = now_ns();
    long n;

    if (argc < 2)
        hung("usage: provider-program PAGE [KEY=NUMBER]...");
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            hung("an option has no value");
        *value++ = '\0';
        *option(argv[i]) = strtol(value, NULL, 0);
    }
    n = *option("threads");
    if (n < 1 || n > NUMBERED_THREADS_MAX)
        hung("1 to 64 threads");
    page = map_page(argv[1]);
    if (!page)
        hung("cannot map the page");
    if (*option("cpu") >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((int) *option("cpu"), &set);
        if (sched_setaffinity(0, sizeof(set), &set) < 0)
            hung("cannot bind to the processor");
    }

    const GUID guid = NUMBERED_GUID(*option("guid"));
    if (EventRegister(&guid, NULL, NULL, &provider) != ERROR_SUCCESS)
        hung("EventRegister failed");
    while (*option("wait") && !EventProviderEnabled(provider, NUMBERED_LEVEL, NUMBERED_KEYWORD)) {
        if (now_ns() - start > HANG_S * 1000000000ull)
            hung("nobody enabled the provider");
        sleep_until(now_ns() + TICK_NS / 4);
    }
    pthread_barrier_init(&barrier, NULL, (unsigned) n);
    for (long i = 1; i < n; i++)
        if (pthread_create(&threads[i], NULL, writer, (void *) (uintptr_t) i) != 0)
            hung("cannot make a thread");
    writer(NULL);
    for (long i = 1; i < n; i++)
        pthread_join(threads[i], NULL);
    return EventUnregister(provider) == ERROR_SUCCESS ? 0 : 4;
}
