/* SPDX-License-Identifier: Apache-2.0
 *
 * See provider-fixture.h.
 */
#include "provider-fixture.h"

#include <evntprov.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "etl/file.h"
#include "etl/iterate.h"

#define MODE_SEQUENTIAL 0x00000001u
#define ATTACKERS_MAX 4096

const struct etw_guid attacked_guid =
    ETW_GUID(0xa77ac3ed, 0x0001, 0x4000, 0x80, 0, 0, 0, 0, 0, 0, 1);
const struct etw_guid honest_guid = ETW_GUID(0x40ae5700, 0x0002, 0x4000, 0x80, 0, 0, 0, 0, 0, 0, 2);

struct test_daemon *etwd;
int honest = -1;
uint64_t shared_session, quiet_session;

/* The honest provider's words. */
static struct {
    _Atomic uint64_t written, failed;
    _Atomic bool stop;
} * words;
static pid_t honest_pid;
static char *shared_path, *quiet_path;
static uint64_t quiet_begin; /* events of etwd itself in the quiet session */
static size_t fds_before, resident_before;

/* pid: its events may be in the file; expected: how many. */
static struct {
    pid_t pid;
    uint64_t expected, found;
} attackers[ATTACKERS_MAX];
static size_t n_attackers;

static uint64_t start_session(const char *name, const char *path)
{
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    uint64_t handle = 0;

    ck_assert_msg(fd >= 0, "%s: %m", path);
    p.name = (char *) (uintptr_t) name;
    p.log_file = (char *) (uintptr_t) path;
    p.log_file_mode = MODE_SEQUENTIAL;
    p.minimum_buffers = 16;
    p.maximum_buffers = 256;
    ck_assert_uint_eq(client_start(honest, &p, false, false, &fd, 1, &handle), 0);
    safe_close(fd);
    return handle;
}

uint32_t enable_with(int sock, const struct enable_args *a)
{
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__EnableProvider e = ETWD__ENABLE_PROVIDER__INIT;
    uint32_t status;

    e.handle = a->session;
    e.guid =
        (ProtobufCBinaryData){.len = sizeof(*a->guid), .data = (uint8_t *) (uintptr_t) a->guid};
    e.control_code = a->code;
    e.level = a->level;
    e.any = a->any;
    e.all = a->all;
    e.properties = a->properties;
    e.timeout_ms = a->timeout_ms;
    e.filters = a->filters;
    e.n_filters = a->n_filters;
    e.pid_filter = a->pid_filter;
    m.body_case = ETWD__MESSAGE__BODY_ENABLE_PROVIDER;
    m.enable_provider = &e;
    reply = client_call(sock, &m, a->fds, a->n_fds);
    status = reply->status;
    wire_message_free(reply);
    return status;
}

uint32_t enable(int sock, uint64_t session, const struct etw_guid *guid)
{
    return enable_with(
        sock, &(struct enable_args){.session = session, .guid = guid, .code = 1, .level = 5});
}

void query_counts(uint64_t session, struct session_counts *ret)
{
    Etwd__Message m = ETWD__MESSAGE__INIT, *reply;
    Etwd__ControlSession control = ETWD__CONTROL_SESSION__INIT;
    const Etwd__Session *s;

    control.name = (char *) "";
    control.handle = session;
    control.code = ETWD__CONTROL_SESSION__CODE__QUERY;
    m.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
    m.control_session = &control;
    reply = client_call(honest, &m, NULL, 0);
    ck_assert_uint_eq(reply->status, 0);
    s = reply->session_reply->session;
    *ret = (struct session_counts){.written = s->written, .recorded = s->recorded};
    for (size_t i = 0; i < s->n_lost; i++) {
        ret->lost += s->lost[i]->events;
        if (strcmp(s->lost[i]->cause, "invalid") == 0)
            ret->invalid += s->lost[i]->events;
    }
    wire_message_free(reply);
}

static void __attribute__((noreturn)) be_honest(void)
{
    EVENT_DESCRIPTOR event = {.Id = 1, .Level = 4, .Keyword = 1};
    uint64_t number = 0;
    uint8_t more[40] = {0};
    EVENT_DATA_DESCRIPTOR data[2] = {
        {.Ptr = (uintptr_t) &number, .Size = sizeof(number)},
        {.Ptr = (uintptr_t) more, .Size = sizeof(more)},
    };
    REGHANDLE h = 0;
    GUID guid;

    memcpy(&guid, &honest_guid, sizeof(guid));
    if (EventRegister(&guid, NULL, NULL, &h) != ERROR_SUCCESS)
        _exit(1);
    while (!atomic_load(&words->stop)) {
        if (EventWrite(h, &event, 2, data) == ERROR_SUCCESS) {
            number++;
            atomic_fetch_add(&words->written, 1);
        } else
            atomic_fetch_add(&words->failed, 1);
        usleep(1000);
    }
    (void) EventUnregister(h);
    _exit(0);
}

void fixture_begin(const char *const args[])
{
    struct session_counts c;

    etwd = test_daemon_start_args(args ? args : (const char *const[]){NULL});
    honest = client_new();
    shared_path = test_path("shared.etl");
    quiet_path = test_path("quiet.etl");
    shared_session = start_session("shared", shared_path);
    quiet_session = start_session("quiet", quiet_path);
    query_counts(quiet_session, &c);
    quiet_begin = c.written;
    ck_assert_uint_eq(enable(honest, shared_session, &attacked_guid), 0);
    ck_assert_uint_eq(enable(honest, shared_session, &honest_guid), 0);
    ck_assert_uint_eq(enable(honest, quiet_session, &honest_guid), 0);

    words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(words, MAP_FAILED);
    honest_pid = fork();
    ck_assert_int_ge(honest_pid, 0);
    if (honest_pid == 0)
        be_honest();
    for (int i = 0; i < TEST_HANG_LIMIT_S * 100 && atomic_load(&words->written) < 50; i++)
        usleep(10000);
    check_well("the beginning");
    fds_before = test_count_fds(etwd->pid);
    resident_before = test_resident_kb(etwd->pid);
}

void check_well(const char *what)
{
    uint64_t written = atomic_load(&words->written);
    struct session_counts c;

    test_daemon_alive(etwd);
    ck_assert_uint_gt(written, 0);
    /* What was written before a flush is there when it returns. */
    ck_assert_uint_eq(
        client_control(honest, NULL, quiet_session, ETWD__CONTROL_SESSION__CODE__FLUSH), 0);
    query_counts(quiet_session, &c);
    ck_assert_msg(c.written >= quiet_begin + written,
                  "%s: %ju events are out, the honest provider wrote %ju", what,
                  (uintmax_t) (c.written - quiet_begin), (uintmax_t) written);
    ck_assert_msg(c.lost == 0, "%s: the quiet session lost %ju events", what, (uintmax_t) c.lost);
    ck_assert_msg(atomic_load(&words->failed) == 0, "%s: the honest provider's calls failed", what);
}

void attach_raw(struct raw_provider *p)
{
    uint32_t status = 1;

    ck_assert_int_eq(raw_connect(p), 0);
    ck_assert_int_eq(raw_attach(p, SHM_VERSION, true, &status), 0);
    ck_assert_uint_eq(status, 0);
}

void open_raw(struct raw_provider *p)
{
    int r = raw_open(p, &attacked_guid);

    ck_assert_msg(r == 0, "an honest beginning failed: %d", r);
}

uid_t attacker_uid(void)
{
    return geteuid() == 0 ? NOBODY : geteuid();
}

void fixture_expect(pid_t pid, uint64_t count)
{
    size_t i = 0;

    while (i < n_attackers && attackers[i].pid != pid)
        i++;
    ck_assert_uint_lt(i, ATTACKERS_MAX);
    if (i == n_attackers)
        n_attackers++;
    attackers[i].pid = pid;
    attackers[i].expected = count;
}

pid_t attack_begin(uid_t uid, void (*fn)(const void *arg), const void *arg)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (geteuid() != uid && (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
                                 setresuid(uid, uid, uid) < 0))
            ck_abort_msg("setuid: %m");
        honest = -1; /* the controller's, not the attacker's */
        fn(arg);
        /* Nothing of the test is to be cleaned up here. */
        _exit(0);
    }
    fixture_expect(pid, UINT64_MAX);
    return pid;
}

void attack_end(const char *name, pid_t pid)
{
    int status = 0;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    /* One that ends by its own SIGKILL has done what it was to do. */
    ck_assert_msg(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
                  "%s: the attacker failed (status %x), see above", name, (unsigned) status);
    check_well(name);
}

void attack(const char *name, void (*fn)(const void *arg), const void *arg)
{
    fprintf(stderr, "# %s\n", name);
    attack_end(name, attack_begin(attacker_uid(), fn, arg));
}

static void see_event(const struct etl_event *e, uint8_t *seen, uint64_t wanted)
{
    struct etl_item item;
    uint32_t pos = 0;
    uint64_t number;
    size_t i = 0;
    int r = 0;

    while (e->items && (r = etl_item_next(e, &pos, &item)) == 1)
        ;
    ck_assert_msg(r == 0, "an event's items are garbage");
    if (!e->has_guid)
        return;
    if (etw_guid_equal(&e->guid, &honest_guid)) {
        ck_assert_uint_eq(e->process_id, (uint32_t) honest_pid);
        ck_assert_uint_eq(e->data_size, 48);
        memcpy(&number, e->data, sizeof(number));
        ck_assert_uint_lt(number, wanted);
        ck_assert_msg(!seen[number], "event %ju is there twice", (uintmax_t) number);
        seen[number] = 1;
        return;
    }
    if (!etw_guid_equal(&e->guid, &attacked_guid))
        return;
    while (i < n_attackers && attackers[i].pid != (pid_t) e->process_id)
        i++;
    ck_assert_msg(i < n_attackers, "an event says that it is of process %u, which is none of ours",
                  e->process_id);
    attackers[i].found++;
}

/* Every event of the honest provider is in the file once, and buffers are in order. */
static void read_file(const char *path, uint64_t wanted)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    _cleanup_free_ uint8_t *seen = calloc(1, wanted + 1), *buf = NULL;
    const struct etl_buffer_ref *refs;
    struct etl_file *f = NULL;
    bool truncated;
    size_t n;

    ck_assert(seen != NULL);
    ck_assert_int_eq(etl_file_open_fd(fd, &f), 0);
    ck_assert_int_eq(etl_file_index(f, &refs, &n, &truncated), 0);
    ck_assert(!truncated);
    buf = malloc(etl_file_buffer_bytes(f));
    ck_assert(buf != NULL);
    for (size_t i = 0; i < n; i++) {
        struct etl_buffer_info info;
        struct etl_iter it;
        struct etl_event e;
        uint64_t last = 0;
        size_t len;

        ck_assert_int_eq(
            etl_file_read_buffer(f, &refs[i], buf, etl_file_buffer_bytes(f), &info, &len), 0);
        etl_iter_init(&it, buf, len, info.end);
        while (etl_iter_next(&it, &e) == 1) {
            if (e.has_time) {
                ck_assert_uint_ge(e.time_stamp, last);
                last = e.time_stamp;
            }
            see_event(&e, seen, wanted);
        }
        ck_assert_int_eq(it.error, 0);
    }
    f = etl_file_free(f);
    for (uint64_t i = 0; i < wanted; i++)
        ck_assert_msg(seen[i], "%s: event %ju of %ju is missing", path, (uintmax_t) i,
                      (uintmax_t) wanted);
}

void fixture_end(void)
{
    uint64_t written;
    int status = 0;

    check_well("the end");
    atomic_store(&words->stop, true);
    ck_assert_int_eq(waitpid(honest_pid, &status, 0), honest_pid);
    ck_assert_int_eq(status, 0);
    written = atomic_load(&words->written);
    ck_assert_uint_eq(atomic_load(&words->failed), 0);
    /* Nothing is left of the attackers; the honest process held a few. */
    for (int i = 0; test_count_fds(etwd->pid) > fds_before; i++) {
        ck_assert_msg(i < TEST_HANG_LIMIT_S * 100, "etwd holds %zu descriptors, %zu before",
                      test_count_fds(etwd->pid), fds_before);
        usleep(10000);
    }
    ck_assert_uint_le(test_resident_kb(etwd->pid), resident_before + client_memory_slack_kb());
    ck_assert_uint_eq(client_stop(honest, "shared"), 0);
    ck_assert_uint_eq(client_stop(honest, "quiet"), 0);
    ck_assert_uint_eq(client_count_sessions(honest), 0);
    for (size_t i = 0; i < n_attackers; i++)
        attackers[i].found = 0;
    read_file(quiet_path, written);
    read_file(shared_path, written);
    for (size_t i = 0; i < n_attackers; i++)
        ck_assert_msg(
            attackers[i].expected == UINT64_MAX || attackers[i].found == attackers[i].expected,
            "process %d: %ju events are in the file, %ju are expected", (int) attackers[i].pid,
            (uintmax_t) attackers[i].found, (uintmax_t) attackers[i].expected);
    munmap(words, 4096);
    honest = safe_close(honest);
    test_daemon_stop(etwd);
    etwd = test_daemon_free(etwd);
    free(shared_path);
    free(quiet_path);
}
