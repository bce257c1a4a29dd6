/* SPDX-License-Identifier: Apache-2.0
 *
 * How a session writes its file: sequential up to a size, preallocated, circular. In each mode
 * numbered events come back complete, in order, once; what is overwritten is counted.
 *
 *     test-modes PROVIDER-PROGRAM
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/properties.h"
#include "lib/manager.h"
#include "provider-tests.h"

#define SEQ EVENT_TRACE_FILE_MODE_SEQUENTIAL
#define CIRC EVENT_TRACE_FILE_MODE_CIRCULAR
#define APPEND EVENT_TRACE_FILE_MODE_APPEND
#define PRE EVENT_TRACE_FILE_MODE_PREALLOCATE
#define KB EVENT_TRACE_USE_KBYTES_FOR_SIZE
#define ONE EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING

#define COUNT 10000u

static struct test_daemon *d;
static struct test_manager *manager;
static REGHANDLE provider;
static char *path;
static ULONG clock_type = 1;
static uint64_t written; /* numbered events so far, of source 0 */

static void setup(void)
{
    const GUID guid = NUMBERED_GUID(1);

    d = test_daemon_start();
    path = test_path("modes.etl");
    written = 0;
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &provider), ERROR_SUCCESS);
}

static void teardown(void)
{
    ck_assert_uint_eq(EventUnregister(provider), ERROR_SUCCESS);
    test_daemon_alive(d);
    test_daemon_stop(d);
    char *log = test_daemon_log(d);
    ck_assert_msg(!strstr(log, "Sanitizer"), "%s", log);
    free(log);
    d = test_daemon_free(d);
    free(path);
}

static ULONG start_code(ULONG mode, ULONG size, ULONG buffer_kb)
{
    struct test_properties t;
    TRACEHANDLE h = 0;
    ULONG code;

    properties_init(&t, path);
    t.p.Wnode.ClientContext = clock_type;
    t.p.LogFileMode = mode;
    t.p.MaximumFileSize = size;
    t.p.BufferSize = buffer_kb;
    t.p.MaximumBuffers = 1000; /* a disk that is busy elsewhere must not cost events */
    code = StartTraceA(&h, "Modes", &t.p);
    if (code == ERROR_SUCCESS)
        session_enable(h, 1);
    return code;
}

/* n more numbered events, none of which is lost. */
static void write_events(uint64_t n)
{
    _Alignas(8) uint8_t buf[NUMBERED_MAX];

    for (uint64_t i = 0; i < n; written++, i++) {
        EVENT_DESCRIPTOR e = {
            .Id = numbered_id(written), .Level = NUMBERED_LEVEL, .Keyword = NUMBERED_KEYWORD};
        EVENT_DATA_DESCRIPTOR piece;
        EventDataDescCreate(&piece, buf, numbered_make(buf, 0, written));
        ULONG code;
        /* A full ring: etwd is behind. */
        while ((code = EventWrite(provider, &e, 1, &piece)) == ERROR_NOT_ENOUGH_MEMORY)
            usleep(1000);
        ck_assert_uint_eq(code, ERROR_SUCCESS);
    }
}

static void flush(void)
{
    struct test_output o;
    test_etwctl_ok(&o, "flush", "Modes");
    test_output_done(&o);
}

static struct stat file_stat(void)
{
    struct stat sb;
    ck_assert_int_eq(stat(path, &sb), 0);
    return sb;
}

static bool session_runs(void)
{
    struct test_output o;
    test_etwctl(&o, "show", "Modes");
    bool there = o.status == 0;
    test_output_done(&o);
    return there;
}

/* ---- sequential ---- */

START_TEST(complete)
{
    static const struct {
        ULONG mode, size;
    } modes[] = {
        {0, 0},         {SEQ, 0},          {SEQ, 8},        {SEQ | KB, 8192},
        {SEQ | ONE, 8}, {SEQ | PRE, 8},    {PRE, 8},        {SEQ | PRE | KB | ONE, 8192},
        {CIRC, 8},      {CIRC | KB, 8192}, {CIRC | PRE, 8}, {CIRC | PRE | ONE, 8},
    };
    static struct tally t;

    ck_assert_uint_eq(start_code(modes[_i].mode, modes[_i].size, 4), ERROR_SUCCESS);
    write_events(COUNT);
    struct session_counts c = session_stop("Modes");
    ck_assert_uint_eq(c.overwritten, 0);
    ck_assert_uint_eq(c.lost, c.ring_full); /* those that were written again */
    tally_file(&t, path);
    tally_sound(&t);
    tally_complete(&t, 0, COUNT);
    ck_assert_uint_eq(t.events, c.recorded);
}
END_TEST

/* The session ends when its file has the size; what is in it is whole. */
START_TEST(sequential_end)
{
    static const struct {
        ULONG mode, size, bytes;
    } rows[] = {{SEQ, 1, 1 << 20}, {SEQ | KB, 200, 200 << 10}, {SEQ | KB | PRE, 201, 201 << 10}};
    static struct tally t;

    ck_assert_uint_eq(start_code(rows[_i].mode, rows[_i].size, 4), ERROR_SUCCESS);
    for (int i = 0; session_runs(); i++) {
        ck_assert_int_lt(i, TEST_HANG_LIMIT_S * 10);
        write_events(1000);
    }
    ck_assert_uint_eq((uint64_t) file_stat().st_size, rows[_i].bytes / 4096 * 4096);
    tally_file(&t, path);
    tally_sound(&t);
    ck_assert_uint_gt(t.sources[0].count, 100);
    tally_complete(&t, 0, t.sources[0].count);
}
END_TEST

/* ---- preallocated ---- */

START_TEST(preallocated)
{
    static const ULONG modes[] = {SEQ | PRE, CIRC | PRE};
    static struct tally t;

    ck_assert_uint_eq(start_code(modes[_i], 16, 64), ERROR_SUCCESS);
    struct stat sb = file_stat();
    ck_assert_uint_ge((uint64_t) sb.st_blocks * 512, 16 << 20);
    ck_assert_uint_le((uint64_t) sb.st_size, 1 << 20); /* readers see what is there */
    write_events(1000);
    (void) session_stop("Modes");
    sb = file_stat();
    ck_assert_uint_lt((uint64_t) sb.st_blocks * 512, 2 << 20);
    tally_file(&t, path);
    tally_complete(&t, 0, 1000);
}
END_TEST

/* A small file system: what does not fit is refused, and the file that was there is as it was. */
START_TEST(preallocated_too_large)
{
    static const char text[] = "something that matters";
    struct test_output o;
    char *dir = test_path("small"), *content;

    test_need_root();
    ck_assert_int_eq(mkdir(dir, 0755), 0);
    test_run_ok(&o, "mount", "-t", "tmpfs", "-o", "size=3m", "none", dir);
    test_output_done(&o);
    free(path);
    ck_assert_int_gt(asprintf(&path, "%s/x.etl", dir), 0);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_eq(write(fd, text, sizeof(text)), sizeof(text));
    ck_assert_uint_eq(start_code(SEQ | PRE, 4, 64), ERROR_DISK_FULL);
    content = test_read_file(path, NULL);
    ck_assert_str_eq(content, text);
    free(content);
    ck_assert_uint_eq(start_code(SEQ | PRE, 2, 64), ERROR_SUCCESS);
    struct stat sb = file_stat();
    ck_assert_uint_ge((uint64_t) sb.st_blocks * 512, 2 << 20);
    (void) session_stop("Modes");
    close(fd);
    ck_assert_int_eq(unlink(path), 0);
    test_run_ok(&o, "umount", dir);
    test_output_done(&o);
    free(dir);
}
END_TEST

/* ---- circular ---- */

/* The last events, without a gap, up to `upto`; how many. */
static uint64_t check_newest(uint64_t upto, const struct session_counts *c)
{
    static struct tally t;
    tally_file(&t, path);
    ck_assert_uint_eq(t.bad, 0);
    ck_assert_uint_eq(t.unsorted, 0);
    const struct tally_source *s = &t.sources[0];
    ck_assert_uint_eq(s->backwards, 0);
    ck_assert_uint_eq(s->next, upto);
    ck_assert_uint_eq(s->count, t.ours);
    ck_assert_uint_eq(s->left_out, upto - s->count);
    if (c)
        ck_assert_uint_eq(t.events, c->recorded - c->overwritten);
    return s->count;
}

START_TEST(circular_wraps)
{
    static const struct {
        ULONG mode, size, buffer_kb, bytes;
    } rows[] = {
        {CIRC | KB, 256, 4, 256 << 10}, {CIRC | KB | ONE, 255, 8, 248 << 10},
        {CIRC | PRE, 1, 16, 1 << 20},   {CIRC | KB | ONE, 8, 4, 8 << 10}, /* one place */
        {CIRC | KB, 64, 16, 64 << 10},
    };
    uint64_t bytes = 0;

    ck_assert_uint_eq(start_code(rows[_i].mode, rows[_i].size, rows[_i].buffer_kb), ERROR_SUCCESS);
    while (bytes < 10ull * rows[_i].bytes) {
        write_events(500);
        bytes += 500 * 100; /* a little less than it is */
    }
    flush();
    ck_assert_uint_eq((uint64_t) file_stat().st_size, rows[_i].bytes);
    write_events(3);
    struct session_counts c = session_stop("Modes");
    ck_assert_uint_eq(c.lost, c.ring_full);
    ck_assert_uint_gt(c.overwritten, 0);
    ck_assert_uint_eq((uint64_t) file_stat().st_size, rows[_i].bytes);
    uint64_t newest = check_newest(written, &c);
    /* All of the file is used, but for what is kept and closed early. */
    if (rows[_i].bytes >= 256 << 10)
        ck_assert_uint_gt(newest * 150, rows[_i].bytes / 2);
    ck_assert_uint_ge(newest, 3);
}
END_TEST

/* A reader finds the newest events while the session goes on. */
START_TEST(circular_read_meanwhile)
{
    ck_assert_uint_eq(start_code(CIRC | KB, 128, 4), ERROR_SUCCESS);
    for (int i = 0; i < 20; i++) {
        struct test_output o;
        write_events(300);
        flush();
        struct session_counts c = session_show("Modes");
        test_etwctl(&o, "summary", "--json", path);
        ck_assert_int_eq(o.status, 4); /* not closed */
        struct json_object *j = test_json(o.out);
        ck_assert_str_eq(test_json_str(j, "incomplete_why"), "the session was not closed");
        ck_assert_uint_eq(test_json_u64(j, "events"), c.recorded - c.overwritten + 1);
        json_object_put(j);
        test_output_done(&o);
    }
    struct session_counts c = session_stop("Modes");
    (void) check_newest(written, &c);
}
END_TEST

START_TEST(sizes_refused)
{
    ck_assert_uint_eq(start_code(CIRC, 0, 4), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(start_code(PRE, 0, 4), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(start_code(CIRC | KB, 7, 4), ERROR_INVALID_PARAMETER); /* no place */
    ck_assert_uint_eq(start_code(CIRC, 5000, 4), ERROR_INVALID_PARAMETER);   /* too many */
    ck_assert_uint_eq(start_code(SEQ | PRE, UINT32_MAX, 4), ERROR_DISK_FULL);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* ---- append ---- */

static void check_complete(uint64_t count)
{
    static struct tally t;
    tally_file(&t, path);
    tally_sound(&t);
    tally_complete(&t, 0, count);
}

/* Three sessions, one file: of the first one's buffer size, whatever the others want. */
START_TEST(append)
{
    static const ULONG modes[] = {APPEND, SEQ | APPEND, SEQ | APPEND | ONE, APPEND | PRE};
    uint64_t recorded = 0, buffers = 0;

    clock_type = 2;
    for (ULONG i = 0; i < 3; i++) {
        ck_assert_uint_eq(start_code(modes[_i], 16, 4u << i), ERROR_SUCCESS);
        write_events(COUNT / 4 + i);
        flush();
        write_events(COUNT / 12);
        struct session_counts c = session_stop("Modes");
        ck_assert_uint_eq(c.lost, c.ring_full);
        ck_assert_uint_gt(c.buffers_written, buffers);
        buffers = c.buffers_written;
        recorded += c.recorded;
        check_complete(written);
        ck_assert_uint_eq((uint64_t) file_stat().st_size, buffers * 4096);
    }
    static struct tally t;
    tally_file(&t, path);
    ck_assert_uint_eq(t.events, recorded);
}
END_TEST

static void append_refused(ULONG code)
{
    size_t before, after;
    char *was = test_read_file(path, &before);
    ck_assert_uint_eq(start_code(APPEND, 0, 4), code);
    char *is = test_read_file(path, &after);
    ck_assert_uint_eq(before, after);
    ck_assert_mem_eq(was, is, before);
    free(was);
    free(is);
}

static void put(off_t offset, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, bytes, size, offset), (ssize_t) size);
    close(fd);
}

START_TEST(append_to_what)
{
    static const uint8_t zeros[5000];

    /* The clock first: there is no file yet, and none comes. */
    ck_assert_uint_eq(start_code(APPEND, 0, 4), ERROR_INVALID_PARAMETER);
    clock_type = 0;
    ck_assert_uint_eq(start_code(APPEND, 0, 4), ERROR_INVALID_PARAMETER);
    clock_type = 3;
    ck_assert_uint_eq(start_code(APPEND, 0, 4), ERROR_INVALID_PARAMETER);
    ck_assert_int_ne(access(path, F_OK), 0);

    /* Files of other kinds. */
    clock_type = 2;
    put(0, zeros, 100);
    append_refused(ERROR_FILE_CORRUPT);
    put(0, zeros, sizeof(zeros));
    append_refused(ERROR_FILE_CORRUPT);
    clock_type = 1;
    ck_assert_uint_eq(start_code(SEQ, 0, 4), ERROR_SUCCESS);
    (void) session_stop("Modes");
    clock_type = 2;
    append_refused(ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(start_code(CIRC | KB, 100, 4), ERROR_SUCCESS);
    (void) session_stop("Modes");
    append_refused(ERROR_INVALID_PARAMETER);

    /* A good one; another number of processors; a buffer size that no session has. */
    ck_assert_uint_eq(start_code(SEQ, 0, 4), ERROR_SUCCESS);
    write_events(1000);
    (void) session_stop("Modes");
    check_complete(1000);
    uint32_t word = 77, processors;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(pread(fd, &processors, 4, 0x74), 4);
    close(fd);
    put(0x74, &word, 4);
    append_refused(ERROR_INVALID_PARAMETER);
    put(0x74, &processors, 4);
    put(0x68, &word, 4);
    append_refused(ERROR_FILE_CORRUPT);
    word = 4096;
    put(0x68, &word, 4);

    /* The rest of a session that nobody stopped: cut, and gone on with. */
    put(file_stat().st_size, zeros, sizeof(zeros));
    ck_assert_uint_eq(start_code(APPEND, 0, 64), ERROR_SUCCESS);
    write_events(1000);
    (void) session_stop("Modes");
    check_complete(2000);

    /* As large as it may be. */
    ck_assert_uint_eq(start_code(APPEND | KB, 64, 4), ERROR_DISK_FULL);
    check_complete(2000);
    uint64_t size = (uint64_t) file_stat().st_size;
    ck_assert_uint_eq(start_code(APPEND | KB, (ULONG) (size / 1024 + 40), 4), ERROR_SUCCESS);
    for (int i = 0; session_runs(); i++) {
        ck_assert_int_lt(i, TEST_HANG_LIMIT_S * 10);
        write_events(1000);
    }
    ck_assert_uint_eq((uint64_t) file_stat().st_size, size + 40 * 1024);
    static struct tally t;
    tally_file(&t, path);
    tally_complete(&t, 0, t.sources[0].count);
    ck_assert_uint_gt(t.sources[0].count, 2000);
}
END_TEST

/* ---- another file ---- */

static ULONG update_file(const char *file)
{
    struct test_properties t;

    properties_init(&t, file);
    return ControlTraceA(0, "Modes", &t.p, EVENT_TRACE_CONTROL_UPDATE);
}

/* All files together have all events, each has its own header and clock. */
START_TEST(other_files)
{
    static const struct {
        ULONG mode, size, clock;
    } rows[] = {{0, 0, 1}, {SEQ | PRE, 8, 2}, {SEQ | ONE | KB, 4096, 1}, {CIRC | KB, 4096, 3}};
    static struct tally t;
    char *paths[4];
    uint64_t next = 0, events = 0;

    clock_type = rows[_i].clock;
    ck_assert_uint_eq(start_code(rows[_i].mode, rows[_i].size, 4), ERROR_SUCCESS);
    for (unsigned i = 0; i < 4; i++) {
        char name[32];
        (void) snprintf(name, sizeof(name), "other%u.etl", i);
        paths[i] = test_path(name);
        write_events(COUNT / 8);
        if (i & 1)
            flush();
        ck_assert_uint_eq(update_file(paths[i]), ERROR_SUCCESS);
        write_events(COUNT / 8);
    }
    /* Not one of its own, nor a folder that is not there, and nothing changes. */
    ck_assert_uint_eq(update_file(paths[3]), ERROR_BAD_PATHNAME);
    ck_assert_uint_eq(update_file("/nowhere/x.etl"), ERROR_PATH_NOT_FOUND);
    write_events(7);
    struct session_counts c = session_stop("Modes");
    ck_assert_uint_eq(c.lost, c.ring_full);
    ck_assert_uint_eq(c.overwritten, 0);
    for (int i = -1; i < 4; i++) {
        tally_file(&t, i < 0 ? path : paths[i]);
        ck_assert_uint_eq(t.bad, 0);
        ck_assert_uint_eq(t.unsorted, 0);
        const struct tally_source *s = &t.sources[0];
        ck_assert_uint_eq(s->next - s->count, next);
        ck_assert_uint_eq(s->left_out, next);
        ck_assert_uint_gt(s->count, 0);
        next = s->next;
        events += t.events;
        if (i >= 0)
            free(paths[i]);
    }
    ck_assert_uint_eq(next, written);
    ck_assert_uint_eq(events, c.recorded);
}
END_TEST

/* A disk on which the new file cannot be begun: the session goes on in the old one. */
START_TEST(other_file_fails)
{
    struct test_output o;
    char *dir = test_path("tiny"), *file;

    test_need_root();
    ck_assert_int_eq(mkdir(dir, 0755), 0);
    test_run_ok(&o, "mount", "-t", "tmpfs", "-o", "size=8k", "none", dir);
    test_output_done(&o);
    ck_assert_int_gt(asprintf(&file, "%s/x.etl", dir), 0);
    ck_assert_uint_eq(start_code(SEQ, 0, 64), ERROR_SUCCESS);
    write_events(500);
    ck_assert_uint_eq(update_file(file), ERROR_DISK_FULL);
    ck_assert_int_ne(access(file, F_OK), 0);
    write_events(500);
    (void) session_stop("Modes");
    check_complete(1000);
    test_run_ok(&o, "umount", dir);
    test_output_done(&o);
    free(file);
    free(dir);
}
END_TEST

/* ---- a killed etwd ---- */

START_TEST(takeover)
{
    static const struct {
        ULONG mode, size;
    } rows[] = {{CIRC | KB, 128}, {CIRC | KB | PRE, 256}, {SEQ | PRE, 16}, {APPEND, 16}, {SEQ, 0}};
    static struct tally t;
    const GUID guid = NUMBERED_GUID(1);

    manager = test_manager_start(&(struct test_manager_options){0});
    path = test_path("modes.etl");
    written = 0;
    ck_assert_uint_eq(EventRegister(&guid, NULL, NULL, &provider), ERROR_SUCCESS);
    if (rows[_i].mode & APPEND) {
        clock_type = 2;
        ck_assert_uint_eq(start_code(SEQ, 0, 8), ERROR_SUCCESS);
        write_events(500);
        ck_assert_uint_eq(session_stop("Modes").lost, 0);
    }
    ck_assert_uint_eq(start_code(rows[_i].mode, rows[_i].size, 4), ERROR_SUCCESS);
    for (int i = 0; i < 5; i++) {
        write_events(600);
        if (i & 1)
            flush();
        test_manager_kill(manager);
        (void) session_show("Modes");
    }
    write_events(100);
    if (rows[_i].mode == SEQ) { /* in another file, and so after the next kill */
        char *second = test_path("second.etl");
        uint64_t first = written;
        ck_assert_uint_eq(update_file(second), ERROR_SUCCESS);
        write_events(500);
        test_manager_kill(manager);
        write_events(500);
        ck_assert_uint_eq(session_stop("Modes").disk, 0);
        check_complete(first);
        free(path);
        path = second;
        tally_file(&t, path);
        ck_assert_uint_eq(t.sources[0].count, 1000);
        ck_assert_uint_eq(t.sources[0].left_out, first);
        goto finish;
    }
    struct session_counts c = session_stop("Modes");
    ck_assert_uint_eq(c.lost, c.ring_full);
    if (rows[_i].mode & CIRC)
        (void) check_newest(written, &c);
    else {
        tally_file(&t, path);
        tally_complete(&t, 0, written);
        ck_assert_uint_lt((uint64_t) file_stat().st_blocks * 512, 4 << 20);
    }
finish:
    ck_assert_uint_eq(EventUnregister(provider), ERROR_SUCCESS);
    test_manager_stop(manager);
    char *log = test_manager_log(manager);
    ck_assert_msg(!strstr(log, "Sanitizer"), "%s", log);
    free(log);
    manager = test_manager_free(manager);
    free(path);
}
END_TEST

/* ---- the kernel's ---- */

/* Whether an event of class Process names this process. */
static bool process_named(struct json_object *all, uint64_t pid, const char *image)
{
    for (size_t i = 0; i < json_object_array_length(all); i++) {
        struct json_object *e = json_object_array_get_idx(all, i), *p;
        if (strcmp(test_json_str(e, "provider.name"), "Process") != 0 ||
            !json_object_object_get_ex(e, "payload", &p) || !test_json_has(p, "ProcessId") ||
            !test_json_has(p, "ImageFileName"))
            continue;
        if (test_json_u64(p, "ProcessId") == pid &&
            strcmp(test_json_str(p, "ImageFileName"), image) == 0)
            return true;
    }
    return false;
}

static struct json_object *dump(void)
{
    struct test_output o;
    test_etwctl(&o, "dump", "--json", path);
    struct json_object *all = test_json_lines(o.out);
    test_output_done(&o);
    return all;
}

/* Those that were there from the start also while it runs, those that came later at its end. */
START_TEST(circular_kernel)
{
    struct test_output o;

    test_need_root();
    test_etwctl(&o, "start", "--kernel", "--flags", "process,thread,cswitch", "--mode", "circular",
                "--max-size", "1M", "--buffer-size", "8K", "-o", path);
    if (o.status != 0 && strstr(o.err, "kernel's events cannot be had"))
        test_skip("%s", o.err);
    ck_assert_msg(o.status == 0, "%s", o.err);
    test_output_done(&o);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void) execl("/bin/sleep", "sleep", "1000", (char *) NULL);
        _exit(127);
    }
    /* Until the file has wrapped several times. */
    uint64_t before = 0;
    for (int i = 0;; i++) {
        ck_assert_int_lt(i, TEST_HANG_LIMIT_S * 100);
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            for (int k = 0; k < 200; k++)
                usleep(1);
            _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        if (i % 20)
            continue;
        before = session_show("NT Kernel Logger").buffers_written;
        if (before > 128 * 2)
            break;
    }
    test_etwctl_ok(&o, "flush", "--kernel");
    test_output_done(&o);
    struct json_object *all = dump();
    ck_assert(process_named(all, (uint64_t) getpid(), "test-modes"));
    json_object_put(all);
    struct session_counts c = session_stop("NT Kernel Logger");
    ck_assert_uint_gt(c.overwritten, 0);
    all = dump();
    ck_assert_uint_eq(json_object_array_length(all), c.recorded - c.overwritten + 2);
    ck_assert(process_named(all, (uint64_t) getpid(), "test-modes"));
    ck_assert(process_named(all, (uint64_t) child, "sleep"));
    json_object_put(all);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("modes");
    TCase *t = tcase_create("modes");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, complete, 0, 12);
    tcase_add_loop_test(t, sequential_end, 0, 3);
    tcase_add_loop_test(t, preallocated, 0, 2);
    tcase_add_test(t, preallocated_too_large);
    tcase_add_loop_test(t, circular_wraps, 0, 5);
    tcase_add_test(t, circular_read_meanwhile);
    tcase_add_test(t, sizes_refused);
    tcase_add_test(t, circular_kernel);
    tcase_add_loop_test(t, append, 0, 4);
    tcase_add_test(t, append_to_what);
    tcase_add_loop_test(t, other_files, 0, 4);
    tcase_add_test(t, other_file_fails);
    suite_add_tcase(s, t);

    t = tcase_create("takeover");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, takeover, 0, 5);
    suite_add_tcase(s, t);
    return s;
}

int main(int argc, char **argv)
{
    provider_tests_init(argc, argv);
    return test_main(suite());
}
