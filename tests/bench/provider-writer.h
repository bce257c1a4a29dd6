/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that writes events as bench-provider.py says, whatever tracer is behind: the file that
 * includes this defines what one event is. Orders come line by line on stdin, each is answered by
 * one line of JSON on stdout:
 *   burst THREADS BURSTS EVENTS PAUSE_US   BURSTS times EVENTS events a thread, with pauses
 *   idle N                                 what a disabled event costs
 *   quit
 * Thread n runs on processor n of those there are. Times are of the bursts alone.
 */
#pragma once

#include <err.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WRITER_THREADS_MAX 64
#define WRITER_BURSTS_MAX 100000u
#define WRITER_TEXT "hello world" /* 12 bytes with its NUL */

/* Defined by the includer. write: one event; whether it was lost (as far as the tracer says). */
static int writer_event(uint32_t a, uint64_t b, const char *text);
static int writer_idle(uint32_t a, uint64_t b, const char *text);
static void writer_idle_test(uint32_t a, uint64_t b, const char *text);

struct writer_job {
    pthread_t thread;
    unsigned cpu;
    uint32_t bursts, events, pause_us;
    double *wall; /* ns an event of each burst */
    uint64_t cpu_ns, lost;
};

static uint64_t writer_now(clockid_t clock)
{
    struct timespec ts;

    (void) clock_gettime(clock, &ts);
    return (uint64_t) ts.tv_sec * 1000000000u + (uint64_t) ts.tv_nsec;
}

static void *writer_run(void *arg)
{
    struct writer_job *j = arg;
    const char *volatile text = WRITER_TEXT;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(j->cpu, &set);
    (void) pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    /* The first event claims memory; it is not what is measured. */
    (void) writer_event(0, 0, text);
    usleep(20000);
    for (uint32_t i = 0; i < j->bursts; i++) {
        uint64_t cpu = writer_now(CLOCK_THREAD_CPUTIME_ID);
        uint64_t wall = writer_now(CLOCK_MONOTONIC);

        for (uint32_t k = 0; k < j->events; k++)
            j->lost += (uint64_t) writer_event(k, i, text);
        j->wall[i] = (double) (writer_now(CLOCK_MONOTONIC) - wall) / j->events;
        j->cpu_ns += writer_now(CLOCK_THREAD_CPUTIME_ID) - cpu;
        if (j->pause_us > 0)
            usleep(j->pause_us);
    }
    return NULL;
}

static int writer_compare(const void *a, const void *b)
{
    double x = *(const double *) a;
    double y = *(const double *) b;

    return (x > y) - (x < y);
}

static void writer_burst(unsigned threads, uint32_t bursts, uint32_t events, uint32_t pause_us)
{
    static struct writer_job jobs[WRITER_THREADS_MAX];
    double *wall = calloc((size_t) threads * bursts, sizeof(double));
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t cpu_ns = 0;
    uint64_t lost = 0;
    size_t n = (size_t) threads * bursts;

    if (!wall)
        err(1, "bursts");
    for (unsigned i = 0; i < threads; i++) {
        jobs[i] = (struct writer_job){.cpu = i % (unsigned) cpus,
                                      .bursts = bursts,
                                      .events = events,
                                      .pause_us = pause_us,
                                      .wall = wall + (size_t) i * bursts};
        if (pthread_create(&jobs[i].thread, NULL, writer_run, &jobs[i]) != 0)
            errx(1, "cannot make a thread");
    }
    for (unsigned i = 0; i < threads; i++) {
        (void) pthread_join(jobs[i].thread, NULL);
        cpu_ns += jobs[i].cpu_ns;
        lost += jobs[i].lost;
    }
    qsort(wall, n, sizeof(*wall), writer_compare);
    printf("{\"wall_ns\": %.2f, \"wall_low_ns\": %.2f, \"cpu_ns\": %.2f, \"events\": %llu, "
           "\"lost\": %llu}\n",
           wall[n / 2], wall[n / 10], (double) cpu_ns / ((double) n * events),
           (unsigned long long) n * events + threads, (unsigned long long) lost);
    free(wall);
}

static void writer_idle_cost(uint32_t n)
{
    const char *volatile text = WRITER_TEXT;
    double best[3] = {1e9, 1e9, 1e9};

    for (int round = 0; round < 7; round++) {
        uint64_t t[4];

        t[0] = writer_now(CLOCK_MONOTONIC);
        for (uint32_t i = 0; i < n; i++) {
            const char *p = text;
            __asm__ volatile("" ::"r"(p) : "memory");
        }
        t[1] = writer_now(CLOCK_MONOTONIC);
        for (uint32_t i = 0; i < n; i++)
            (void) writer_idle(i, i, text);
        t[2] = writer_now(CLOCK_MONOTONIC);
        for (uint32_t i = 0; i < n; i++)
            writer_idle_test(i, i, text);
        t[3] = writer_now(CLOCK_MONOTONIC);
        for (int k = 0; k < 3; k++) {
            double ns = (double) (t[k + 1] - t[k]) / n;
            if (ns < best[k])
                best[k] = ns;
        }
    }
    printf("{\"loop_ns\": %.3f, \"call_ns\": %.3f, \"test_ns\": %.3f}\n", best[0],
           best[1] - best[0], best[2] - best[0]);
}

static int writer_main(void)
{
    char line[256];

    (void) setvbuf(stdout, NULL, _IOLBF, 0);
    printf("{\"ready\": true}\n");
    while (fgets(line, sizeof(line), stdin)) {
        unsigned threads;
        uint32_t bursts, events, pause_us;

        if (sscanf(line, "burst %u %u %u %u", &threads, &bursts, &events, &pause_us) == 4 &&
            threads > 0 && threads <= WRITER_THREADS_MAX && bursts > 0 &&
            bursts <= WRITER_BURSTS_MAX && events > 0)
            writer_burst(threads, bursts, events, pause_us);
        else if (sscanf(line, "idle %u", &events) == 1 && events > 0)
            writer_idle_cost(events);
        else if (strcmp(line, "quit\n") == 0)
            return 0;
        else
            errx(2, "not an order: %s", line);
    }
    return 0;
}
