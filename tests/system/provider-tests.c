/* SPDX-License-Identifier: Apache-2.0
 *
 * See provider-tests.h.
 */
#include "provider-tests.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/properties.h"
#include "etl/file.h"

extern char **environ;

static const char *program;

void provider_tests_init(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s PROVIDER-PROGRAM\n", argv[0]);
        exit(2);
    }
    program = argv[1];
}

const char *provider_program(void)
{
    return program;
}

bool slow_build(void)
{
    return getenv("ETW_SANITIZED") != NULL;
}

/* ---- the test provider ---- */

void provider_start_args(struct provider *ret, const char *const args[])
{
    static unsigned count;
    const char *argv[32] = {program};
    char name[32];
    size_t n = 2;
    int fd, r;

    snprintf(name, sizeof(name), "page%u", count++);
    *ret = (struct provider){.path = test_path(name)};
    fd = open(ret->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, sizeof(struct numbered_page)), 0);
    ret->page = mmap(NULL, sizeof(struct numbered_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(ret->page, MAP_FAILED);
    close(fd);
    argv[1] = ret->path;
    for (size_t i = 0; args[i]; i++) {
        ck_assert_uint_lt(n + 1, sizeof(argv) / sizeof(argv[0]));
        argv[n++] = args[i];
    }
    r = posix_spawn(&ret->pid, program, NULL, NULL, (char *const *) argv, environ);
    ck_assert_msg(r == 0, "%s: %s", program, strerror(r));
}

static void still_there(const struct provider *p)
{
    siginfo_t info = {0};

    if (waitid(P_PID, (id_t) p->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid != 0)
        ck_abort_msg("the test provider ended: status %d", info.si_status);
}

void provider_wait_ready(const struct provider *p, unsigned threads)
{
    for (int i = 0; p->page->waiting < threads; i++) {
        ck_assert_msg(i < TEST_HANG_LIMIT_S * 1000, "%u of %u threads are enabled",
                      p->page->waiting, threads);
        still_there(p);
        usleep(1000);
    }
}

void provider_end(struct provider *p)
{
    int status;

    ck_assert_int_eq(waitpid(p->pid, &status, 0), p->pid);
    p->pid = 0;
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  "the test provider ended with status 0x%x", status);
}

void provider_kill(struct provider *p)
{
    ck_assert_int_eq(kill(p->pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(p->pid, NULL, 0), p->pid);
    p->pid = 0;
}

void provider_free(struct provider *p)
{
    if (p->pid > 0)
        provider_kill(p);
    if (p->page)
        munmap(p->page, sizeof(*p->page));
    if (p->path)
        (void) unlink(p->path);
    free(p->path);
    *p = (struct provider){0};
}

uint64_t provider_returned(const struct provider *p)
{
    uint64_t n = 0;

    for (size_t i = 0; i < NUMBERED_THREADS_MAX; i++)
        n += p->page->threads[i].returned;
    return n;
}

uint64_t provider_ring_full(const struct provider *p)
{
    uint64_t n = 0;

    for (size_t i = 0; i < NUMBERED_THREADS_MAX; i++)
        n += p->page->threads[i].ring_full;
    return n;
}

uint64_t provider_attempts(const struct provider *p)
{
    uint64_t n = provider_returned(p) + provider_ring_full(p);

    for (size_t i = 0; i < NUMBERED_THREADS_MAX; i++) {
        const struct numbered_thread *t = &p->page->threads[i];
        ck_assert_msg(t->other == 0, "%llu calls of thread %zu failed, the last one with %u",
                      (unsigned long long) t->other, i, t->code);
    }
    return n;
}

pid_t hog_start(int cpu)
{
    struct sched_param param = {0};
    cpu_set_t set;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid)
        return pid;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || sched_setaffinity(0, sizeof(set), &set) < 0 ||
        sched_setscheduler(0, SCHED_IDLE, &param) < 0)
        _exit(1);
    for (volatile uint64_t n = 0;; n++)
        ;
}

void hog_end(pid_t pid)
{
    int status;

    (void) kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status), "a hog could not run");
}

/* ---- sessions ---- */

TRACEHANDLE session_start(const char *name, const char *file, ULONG buffer_kb, ULONG minimum,
                          ULONG maximum, ULONG mode)
{
    struct test_properties t;
    TRACEHANDLE h = 0;
    ULONG code;

    properties_init(&t, file);
    t.p.BufferSize = buffer_kb;
    t.p.MinimumBuffers = minimum;
    t.p.MaximumBuffers = maximum;
    t.p.LogFileMode = mode;
    code = StartTraceA(&h, name, &t.p);
    ck_assert_msg(code == ERROR_SUCCESS, "StartTrace of %s: %u", name, code);
    return h;
}

void session_enable_guid(TRACEHANDLE session, const GUID *guid, UCHAR level, ULONGLONG any,
                         ULONGLONG all)
{
    ULONG code = EnableTraceEx2(session, guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, level, any, all,
                                INFINITE, NULL);

    ck_assert_msg(code == ERROR_SUCCESS, "EnableTraceEx2: %u", code);
}

void session_enable(TRACEHANDLE session, unsigned guid)
{
    const GUID g = NUMBERED_GUID(guid);

    session_enable_guid(session, &g, 0xff, 0, 0);
}

static uint64_t cause(struct json_object *session, const char *name)
{
    struct json_object *lost = test_json_get(session, "lost");
    struct json_object *n;

    return json_object_object_get_ex(lost, name, &n) ? json_object_get_uint64(n) : 0;
}

static struct session_counts counts(const char *verb, const char *name)
{
    struct session_counts c;
    struct json_object *s;
    struct test_output o;

    test_run_limit(&o, 300, (const char *const[]){test_env("ETWCTL"), verb, "--json", name, NULL});
    ck_assert_msg(o.status == 0 || o.status == 4, "%s: %d %s", verb, o.status, o.err);
    s = test_json(o.out);
    test_loss_identity_object(s);
    c = (struct session_counts){
        .written = test_json_u64(s, "written"),
        .recorded = test_json_u64(s, "recorded"),
        .overwritten = test_json_u64(s, "overwritten"),
        .ring_full = cause(s, "ring_full"),
        .nested = cause(s, "nested"),
        .too_big = cause(s, "too_big"),
        .no_buffer = cause(s, "no_buffer"),
        .disk = cause(s, "disk"),
        .invalid = cause(s, "invalid"),
        .slow_consumer = cause(s, "slow_consumer"),
        .buffers_written = test_json_u64(s, "buffers_written"),
    };
    c.lost = c.written - c.recorded;
    ck_assert_uint_eq(c.lost, test_json_u64(s, "events_lost"));
    if (strcmp(verb, "stop") == 0)
        ck_assert_int_eq(o.status, c.lost ? 4 : 0);
    json_object_put(s);
    test_output_done(&o);
    return c;
}

struct session_counts session_stop(const char *name)
{
    return counts("stop", name);
}

struct session_counts session_show(const char *name)
{
    return counts("show", name);
}

/* ---- files ---- */

static bool numbered_provider(const void *guid)
{
    static const GUID base = NUMBERED_GUID(0);

    return memcmp(guid, &base, sizeof(base) - 1) == 0;
}

static struct tally *tally;
static int64_t last_stamp;

static void note(const EVENT_HEADER *h, const void *data, uint32_t size)
{
    struct tally_source *s;
    uint32_t source;
    uint64_t number;

    tally->ours++;
    if (!numbered_check(data, size, &source, &number) || source >= TALLY_SOURCES ||
        h->EventDescriptor.Id != numbered_id(number) ||
        h->EventDescriptor.Level != NUMBERED_LEVEL ||
        h->EventDescriptor.Keyword != NUMBERED_KEYWORD) {
        tally->bad++;
        return;
    }
    s = &tally->sources[source];
    if (s->count++ == 0) {
        s->pid = h->ProcessId;
        s->tid = h->ThreadId;
    }
    s->mixed |= s->pid != h->ProcessId || s->tid != h->ThreadId;
    if (number < s->next) {
        s->backwards++;
        return;
    }
    s->left_out += number - s->next;
    s->next = number + 1;
}

static void WINAPI take(PEVENT_RECORD r)
{
    const EVENT_HEADER *h = &r->EventHeader;

    if (h->TimeStamp.QuadPart < last_stamp)
        tally->unsorted++;
    last_stamp = h->TimeStamp.QuadPart;
    if (IsEqualGUID(&h->ProviderId, &EventTraceGuid))
        return;
    tally->events++;
    if (numbered_provider(&h->ProviderId))
        note(h, r->UserData, r->UserDataLength);
}

void tally_file(struct tally *ret, const char *path)
{
    EVENT_TRACE_LOGFILEA l;
    struct walk w;
    TRACEHANDLE h;
    ULONG code;

    memset(ret, 0, sizeof(*ret));
    memset(&l, 0, sizeof(l));
    l.LogFileName = (LPSTR) (uintptr_t) path;
    l.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    l.EventRecordCallback = take;
    h = OpenTraceA(&l);
    ck_assert_msg(h != INVALID_PROCESSTRACE_HANDLE, "OpenTrace of %s: %u", path, GetLastError());
    ret->events_lost = l.LogfileHeader.EventsLost;
    tally = ret;
    last_stamp = INT64_MIN;
    code = ProcessTrace(&h, 1, NULL, NULL);
    ck_assert_uint_eq(code, ERROR_SUCCESS);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    tally = NULL;

    walk_file(&w, path);
    ck_assert_msg(w.whole, "%s is damaged", path);
    ck_assert_uint_eq(w.backwards, 0);
    ck_assert_uint_eq(w.ours, ret->ours);
    ck_assert_uint_eq(w.events_lost, ret->events_lost);
}

void tally_sound(const struct tally *t)
{
    uint64_t sum = 0;

    ck_assert_uint_eq(t->bad, 0);
    ck_assert_uint_eq(t->unsorted, 0);
    for (uint32_t i = 0; i < TALLY_SOURCES; i++) {
        const struct tally_source *s = &t->sources[i];
        ck_assert_msg(s->backwards == 0, "source %u: %llu events came twice or too late", i,
                      (unsigned long long) s->backwards);
        ck_assert_msg(!s->mixed, "source %u: several threads", i);
        sum += s->count;
    }
    ck_assert_uint_eq(sum, t->ours);
}

void tally_complete(const struct tally *t, uint32_t source, uint64_t count)
{
    const struct tally_source *s = &t->sources[source];

    ck_assert_msg(s->count == count && s->left_out == 0 && s->backwards == 0 && !s->mixed,
                  "source %u: %llu of %llu events, %llu left out before the last one, %llu out of "
                  "order%s",
                  source, (unsigned long long) s->count, (unsigned long long) count,
                  (unsigned long long) s->left_out, (unsigned long long) s->backwards,
                  s->mixed ? ", of several threads" : "");
}

static void walk_buffer(struct walk *w, const uint8_t *buf, size_t len, uint32_t end, bool first,
                        uint64_t *processor_last)
{
    struct etl_iter it;
    struct etl_event e;
    uint64_t last = 0;
    bool begun = false;

    etl_iter_init(&it, buf, len, end);
    while (etl_iter_next(&it, &e) == 1) {
        if (first)
            continue;
        w->events++;
        if (e.has_guid && numbered_provider(&e.guid))
            w->ours++;
        if (!e.has_time)
            continue;
        if (!begun && e.time_stamp < *processor_last)
            w->late++;
        begun = true;
        w->backwards += e.time_stamp < last;
        last = e.time_stamp;
    }
    if (last != 0)
        *processor_last = last;
    if (it.error)
        w->whole = false;
}

static int by_sequence(const void *a, const void *b)
{
    const struct etl_buffer_ref *x = a, *y = b;

    return (x->sequence_number > y->sequence_number) - (x->sequence_number < y->sequence_number);
}

void walk_file(struct walk *ret, const char *path)
{
    const struct etl_buffer_ref *refs;
    struct etl_buffer_ref *sorted;
    uint64_t *last = calloc(65536, sizeof(*last));
    struct etl_file *f;
    bool truncated;
    uint8_t *buf;
    size_t n;
    int fd;

    *ret = (struct walk){.whole = true};
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    ck_assert_int_eq(etl_file_open_fd(fd, &f), 0);
    ck_assert_int_eq(etl_file_index(f, &refs, &n, &truncated), 0);
    buf = malloc(etl_file_buffer_bytes(f));
    sorted = reallocarray(NULL, n, sizeof(*sorted));
    ck_assert(buf && sorted && last);
    memcpy(sorted, refs, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_sequence);
    for (size_t i = 0; i < n; i++) {
        struct etl_buffer_info info;
        size_t len;

        ck_assert_int_eq(
            etl_file_read_buffer(f, &sorted[i], buf, etl_file_buffer_bytes(f), &info, &len), 0);
        ck_assert_msg(i == 0 || sorted[i].sequence_number != sorted[i - 1].sequence_number,
                      "two buffers are number %lld", (long long) sorted[i].sequence_number);
        walk_buffer(ret, buf, len, info.end, sorted[i].offset == 0, &last[info.processor]);
    }
    ret->buffers = n;
    ret->events_lost = etl_file_header(f)->events_lost;
    ret->buffers_written = etl_file_header(f)->buffers_written;
    if (truncated || etl_file_header(f)->end_time == 0 || n != ret->buffers_written)
        ret->whole = false;
    free(sorted);
    free(buf);
    free(last);
    etl_file_free(f);
    close(fd);
}
