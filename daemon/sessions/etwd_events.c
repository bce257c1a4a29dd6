/* SPDX-License-Identifier: Apache-2.0
 *
 * See etwd_events.h. The wall clock's steps are told by a timerfd that the kernel cancels when
 * somebody sets the clock; it and the ten-minute timer exist only while a session runs.
 */
#include "etwd_events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "etl/build.h"
#include "io/loop.h"
#include "router/router.h"
#include "state/state.h"
#include "table.h"

/* Texts of the machine are cut to this. */
#define TEXT_MAX 200

struct etwd_events {
    struct sessions *sessions;
    struct loop_timer *timer;
    int step_fd;
    struct loop_watch *step_watch;
    struct utsname uts;
    char os_name[TEXT_MAX];
    char boot_id[TEXT_MAX];
    bool watching;
};

/* One line of a small world-readable file, or "". */
static void read_line(const char *path, const char *prefix, char out[TEXT_MAX])
{
    char line[1024];
    out[0] = '\0';
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    if (!f)
        return;
    while (fgets(line, sizeof(line), f)) {
        size_t n = strlen(prefix);
        if (strncmp(line, prefix, n) != 0)
            continue;
        char *text = line + n;
        text[strcspn(text, "\n")] = '\0';
        size_t len = strlen(text);
        if (len >= 2 && text[0] == '"' && text[len - 1] == '"') {
            text[len - 1] = '\0';
            text++;
        }
        (void) snprintf(out, TEXT_MAX, "%s", text);
        return;
    }
}

static void timer_fired(void *userdata);

int etwd_events_new(struct sessions *ss, struct etwd_events **ret)
{
    int r;

    struct etwd_events *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    e->sessions = ss;
    e->step_fd = -1;
    r = loop_timer_new(ss->env.loop, timer_fired, e, &e->timer);
    if (r < 0) {
        free(e);
        return r;
    }
    (void) uname(&e->uts);
    read_line("/etc/os-release", "PRETTY_NAME=", e->os_name);
    read_line("/proc/sys/kernel/random/boot_id", "", e->boot_id);
    *ret = e;
    return 0;
}

static void watch_end(struct etwd_events *e)
{
    loop_timer_disarm(e->timer);
    e->step_watch = loop_watch_free(e->step_watch);
    e->step_fd = safe_close(e->step_fd);
    e->watching = false;
}

struct etwd_events *etwd_events_free(struct etwd_events *e)
{
    if (!e)
        return NULL;
    watch_end(e);
    loop_timer_free(e->timer);
    free(e);
    return NULL;
}

static void write_event(struct session *s, struct etl_writer *w, enum etl_row row, uint64_t stamp)
{
    int size = etl_event_end(w, row, 0, (uint32_t) gettid(), (uint32_t) getpid(), stamp);
    if (size <= 0)
        return; /* cannot be: the texts are bounded */
    void *p = session_reserve(s, 0, stamp, (uint32_t) size);
    if (!p)
        return;
    memcpy(p, w->data, (size_t) size);
    if (session_converts(s))
        session_convert(s, row, p, (uint32_t) size, stamp);
}

static void write_clock_sync(struct session *s, uint64_t stamp, enum clock_sync_reason reason)
{
    _Alignas(8) uint8_t memory[512];
    struct etl_writer w = {.data = memory, .cap = sizeof(memory)};
    /* Read back to back; being put off between the first and the last would show as a gap between
     * two readings of the same clock, then once more. */
    struct etl_LinuxEtwd_ClockSync data = {.Reason = reason};
    for (int i = 0; i < 10; i++) {
        data.Boottime = etw_clock_boottime();
        data.Monotonic = etw_clock_ns(CLOCK_MONOTONIC);
        data.Realtime = etw_clock_ns(CLOCK_REALTIME);
        if (etw_clock_boottime() - data.Boottime < 2000)
            break;
    }
    etl_event_begin(&w, ETL_ROW_LinuxEtwd_ClockSync);
    etl_put(&w, &data, sizeof(data));
    write_event(s, &w, ETL_ROW_LinuxEtwd_ClockSync, stamp);
}

static void write_machine(struct etwd_events *e, struct session *s, uint64_t stamp)
{
    _Alignas(8) uint8_t memory[4096];
    struct etl_writer w = {.data = memory, .cap = sizeof(memory)};

    if (s->kernel) {
        char text[3 * TEXT_MAX];
        (void) snprintf(text, sizeof(text), "%s %s %s %s", e->uts.sysname, e->uts.release,
                        e->uts.machine, e->uts.version);
        etl_event_begin(&w, ETL_ROW_EventTrace_BuildInfo);
        etl_put_asz(&w, text, SIZE_MAX);
        write_event(s, &w, ETL_ROW_EventTrace_BuildInfo, stamp);
        w = (struct etl_writer){.data = memory, .cap = sizeof(memory)};
    }
    etl_event_begin(&w, ETL_ROW_LinuxEtwd_MachineInfo);
    etl_put_asz(&w, e->uts.sysname, SIZE_MAX);
    etl_put_asz(&w, e->uts.release, SIZE_MAX);
    etl_put_asz(&w, e->uts.version, SIZE_MAX);
    etl_put_asz(&w, e->uts.machine, SIZE_MAX);
    etl_put_asz(&w, e->os_name, SIZE_MAX);
    etl_put_asz(&w, e->boot_id, SIZE_MAX);
    etl_put_asz(&w, ETWD_VERSION, SIZE_MAX);
    write_event(s, &w, ETL_ROW_LinuxEtwd_MachineInfo, stamp);
}

void etwd_events_begin(struct etwd_events *e, struct session *s)
{
    write_machine(e, s, s->line.start_boottime);
    write_clock_sync(s, s->line.start_boottime, CLOCK_SYNC_START);
}

void etwd_events_file(struct etwd_events *e, struct session *s, uint64_t stamp)
{
    write_machine(e, s, stamp);
    write_clock_sync(s, stamp, CLOCK_SYNC_FILE);
}

void etwd_events_mark(struct session *s, uint64_t stamp, const char *text)
{
    _Alignas(8) uint8_t memory[ETWD_MARK_MAX + 512];
    struct etl_writer w = {.data = memory, .cap = sizeof(memory)};
    etl_event_begin(&w, ETL_ROW_LinuxEtwd_Mark);
    etl_put_asz(&w, text, ETWD_MARK_MAX);
    write_event(s, &w, ETL_ROW_LinuxEtwd_Mark, stamp);
}

static void sync_all(struct etwd_events *e, enum clock_sync_reason reason)
{
    struct router *r = e->sessions->env.router;
    struct state *st = e->sessions->env.state;

    router_pass(r); /* so that its time is not far behind */
    state_begin(st);
    for (struct session *s = e->sessions->first; s; s = s->next)
        if (s->state == SESSION_RUNNING)
            write_clock_sync(s, router_time(r), reason);
    state_commit(st);
}

static void timer_arm(struct etwd_events *e)
{
    (void) loop_timer_arm(e->timer, etw_clock_boottime() + ETWD_CLOCK_SYNC_S * ETW_NSEC_PER_SEC);
}

static void timer_fired(void *userdata)
{
    struct etwd_events *e = userdata;
    sync_all(e, CLOCK_SYNC_PERIODIC);
    timer_arm(e);
}

/* A time-out that never comes: only its cancellation counts. */
static int step_arm(int fd)
{
    struct itimerspec never = {.it_value.tv_sec = INT32_MAX};
    never.it_value.tv_sec += (time_t) (etw_clock_ns(CLOCK_REALTIME) / ETW_NSEC_PER_SEC);
    return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) < 0
               ? -errno
               : 0;
}

static void step_ready(int fd, uint32_t revents, void *userdata)
{
    struct etwd_events *e = userdata;
    uint64_t expirations;
    if (read(fd, &expirations, sizeof(expirations)) < 0 && errno != ECANCELED)
        return;
    /* Armed first: a step while the events are written is told again. */
    if (step_arm(fd) < 0) {
        log_warning("clock: steps of the wall clock cannot be watched any more");
        e->step_watch = loop_watch_free(e->step_watch);
    }
    sync_all(e, CLOCK_SYNC_STEP);
}

void etwd_events_watch(struct etwd_events *e, int sessions_run)
{
    if (e->watching == (sessions_run > 0))
        return;
    if (sessions_run == 0) {
        watch_end(e);
        return;
    }
    e->watching = true;
    timer_arm(e);
    e->step_fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (e->step_fd < 0 || step_arm(e->step_fd) < 0 ||
        loop_watch_new(e->sessions->env.loop, e->step_fd, POLLIN, step_ready, e, &e->step_watch) <
            0)
        log_warning("clock: steps of the wall clock cannot be watched: sessions learn of them "
                    "within ten minutes");
}
