/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenTrace, ProcessTrace, CloseTrace as calls: every code that is documented, handles, buffer
 * callbacks, closing while a thread is at work. One test a row.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "trace.h"

/* What OpenTraceA says to this path, which it must refuse. */
static DWORD refusal(const char *path)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = (LPSTR) (uintptr_t) path};
    TRACEHANDLE h;

    SetLastError(0);
    h = OpenTraceA(&lf);
    ck_assert_uint_eq(h, 0xFFFFFFFFFFFFFFFFull);
    return GetLastError();
}

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "we");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

/* ---- OpenTrace ---- */

START_TEST(open_null)
{
    SetLastError(0);
    ck_assert_uint_eq(OpenTraceA(NULL), INVALID_PROCESSTRACE_HANDLE);
    ck_assert_uint_eq(GetLastError(), ERROR_INVALID_PARAMETER);
    SetLastError(0);
    ck_assert_uint_eq(OpenTraceW(NULL), INVALID_PROCESSTRACE_HANDLE);
    ck_assert_uint_eq(GetLastError(), ERROR_INVALID_PARAMETER);
}
END_TEST

START_TEST(open_names)
{
    _Static_assert(ETW_PATH_MAX == 4096, "the name below is too long");
    char *missing = test_path("none.etl");
    char *no_directory = test_path("none/none.etl");
    char *below_file = test_path("file/none.etl");
    char *file = test_path("file");
    char *fifo = test_path("fifo");
    char *loop = test_path("loop");
    char name[5000];

    write_file(file, "x", 1);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    ck_assert_int_eq(symlink("loop", loop), 0);
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    ck_assert_uint_eq(refusal(NULL), ERROR_BAD_PATHNAME);
    ck_assert_uint_eq(refusal(""), ERROR_BAD_PATHNAME);
    ck_assert_uint_eq(refusal(name), ERROR_BAD_PATHNAME);
    name[1000] = '\0'; /* a name of more than 255 characters */
    ck_assert_uint_eq(refusal(name), ERROR_BAD_PATHNAME);
    ck_assert_uint_eq(refusal(missing), ERROR_FILE_NOT_FOUND);
    ck_assert_uint_eq(refusal("no-such-file.etl"), ERROR_FILE_NOT_FOUND);
    ck_assert_uint_eq(refusal("/no-such-file.etl"), ERROR_FILE_NOT_FOUND);
    ck_assert_uint_eq(refusal(no_directory), ERROR_PATH_NOT_FOUND);
    ck_assert_uint_eq(refusal("no-such-directory/x.etl"), ERROR_PATH_NOT_FOUND);
    ck_assert_uint_eq(refusal(below_file), ERROR_PATH_NOT_FOUND);
    ck_assert_uint_eq(refusal(test_tempdir()), ERROR_BAD_PATHNAME);
    ck_assert_uint_eq(refusal(fifo), ERROR_BAD_PATHNAME); /* and it does not wait for a writer */
    ck_assert_uint_eq(refusal(loop), ERROR_BAD_PATHNAME);
    ck_assert_uint_eq(refusal("/dev/null"), ERROR_BAD_PATHNAME);
    free(missing);
    free(no_directory);
    free(below_file);
    free(file);
    free(fifo);
    free(loop);
}
END_TEST

START_TEST(open_without_access)
{
    char *path = simple_file("secret.etl", 1);

    ck_assert_int_eq(chmod(path, 0), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(seteuid(65534), 0);
    ck_assert_uint_eq(refusal(path), ERROR_ACCESS_DENIED);
    ck_assert_int_eq(seteuid(getuid()), 0);
    free(path);
}
END_TEST

START_TEST(open_what_is_no_trace)
{
    char *path = test_path("bad.etl");
    char *good = simple_file("good.etl", 1);
    size_t size;
    char *data = test_read_file(good, &size);
    char zeros[8192] = {0};

    write_file(path, "", 0);
    ck_assert_uint_eq(refusal(path), ERROR_FILE_CORRUPT);
    write_file(path, "this is a text, not a trace\n", 28);
    ck_assert_uint_eq(refusal(path), ERROR_FILE_CORRUPT);
    write_file(path, zeros, sizeof(zeros));
    ck_assert_uint_eq(refusal(path), ERROR_FILE_CORRUPT);
    write_file(path, data, 0x60); /* ends in the header event */
    ck_assert_uint_eq(refusal(path), ERROR_FILE_CORRUPT);
    data[0x4E] = 5; /* another hook than the log-file header's */
    write_file(path, data, size);
    ck_assert_uint_eq(refusal(path), ERROR_FILE_CORRUPT);
    free(data);
    free(good);
    free(path);
}
END_TEST

START_TEST(open_without_descriptors)
{
    char *path = simple_file("fds.etl", 1);
    struct rlimit limit = {.rlim_cur = 3, .rlim_max = 3};
    struct rlimit before;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit.rlim_max = before.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_eq(refusal(path), ERROR_TOO_MANY_OPEN_FILES);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    process_noted(path, NULL, NULL);
    free(path);
}
END_TEST

START_TEST(open_fills_the_header)
{
    static const struct synthetic_params params = {
        .buffer_size = 8192,
        .processors = 6,
        .events_lost = 41,
        .mode = ETL_MODE_SEQUENTIAL,
    };
    char *path = test_path("header.etl");
    struct synthetic *s = synthetic_new(path, &params);
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path};
    TRACE_LOGFILE_HEADER *h = &lf.LogfileHeader;
    TRACEHANDLE handle;

    synthetic_begin(s, 0, 0);
    synthetic_event(s, 2000, 1);
    synthetic_flush(s, 3000, ETL_BUFFER_PROC_INDEX);
    synthetic_finish(s, SYNTHETIC_START + 77);
    handle = OpenTraceA(&lf);
    ck_assert(handle != INVALID_PROCESSTRACE_HANDLE);
    ck_assert_ptr_eq(lf.LogFileName, path);
    ck_assert_uint_eq(lf.BufferSize, 8192);
    ck_assert_uint_eq(lf.EventsLost, 41);
    ck_assert_uint_eq(lf.IsKernelTrace, 1);
    ck_assert_uint_eq(h->BufferSize, 8192);
    ck_assert_uint_eq(h->VersionDetail.MajorVersion, 10);
    ck_assert_uint_eq(h->ProviderVersion, 19041);
    ck_assert_uint_eq(h->NumberOfProcessors, 6);
    ck_assert_int_eq(h->StartTime.QuadPart, (int64_t) SYNTHETIC_START);
    ck_assert_int_eq(h->EndTime.QuadPart, (int64_t) SYNTHETIC_START + 77);
    ck_assert_int_eq(h->BootTime.QuadPart, (int64_t) SYNTHETIC_START - 36000000000);
    ck_assert_uint_eq(h->TimerResolution, 156250);
    ck_assert_uint_eq(h->LogFileMode, ETL_MODE_SEQUENTIAL);
    ck_assert_uint_eq(h->BuffersWritten, 2);
    ck_assert_uint_eq(h->StartBuffers, 1);
    ck_assert_uint_eq(h->PointerSize, 8);
    ck_assert_uint_eq(h->EventsLost, 41);
    ck_assert_int_eq(h->PerfFreq.QuadPart, 1000000000);
    ck_assert_uint_eq(h->ReservedFlags, 1);
    ck_assert_int_eq(h->TimeZone.Bias, -60);
    ck_assert_str_eq(lf.LoggerName, "synthetic");
    ck_assert_int_eq(memcmp(h->LoggerName, u"synthetic", sizeof(u"synthetic")), 0);
    ck_assert_int_eq(memcmp(h->LogFileName, u"/t.etl", sizeof(u"/t.etl")), 0);
    ck_assert_uint_eq(CloseTrace(handle), ERROR_SUCCESS);
    free(path);
}
END_TEST

START_TEST(open_plain_session)
{
    static const struct synthetic_params params = {.plain = 1};
    char *path = test_path("plain.etl");
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path};
    TRACEHANDLE handle;

    synthetic_finish(synthetic_new(path, &params), 0);
    handle = OpenTraceA(&lf);
    ck_assert(handle != INVALID_PROCESSTRACE_HANDLE);
    ck_assert_uint_eq(lf.IsKernelTrace, 0);
    ck_assert_int_eq(lf.LogfileHeader.EndTime.QuadPart, 0); /* never closed */
    CloseTrace(handle);
    free(path);
}
END_TEST

/* The structure may be used again as it is: the name that was put out is no request. */
START_TEST(open_again_with_the_same_structure)
{
    char *path = simple_file("again.etl", 1);
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path};

    for (int i = 0; i < 3; i++) {
        TRACEHANDLE handle = OpenTraceA(&lf);

        ck_assert(handle != INVALID_PROCESSTRACE_HANDLE);
        ck_assert_uint_eq(ProcessTrace(&handle, 1, NULL, NULL), ERROR_SUCCESS);
        ck_assert_uint_eq(CloseTrace(handle), ERROR_SUCCESS);
    }
    free(path);
}
END_TEST

static ULONG wide_buffer(PEVENT_TRACE_LOGFILEW lf)
{
    notes.buffers++;
    ck_assert_int_eq(memcmp(lf->LoggerName, u"synthetic", sizeof(u"synthetic")), 0);
    ck_assert_int_eq(lf->LogFileName[0], '/');
    return TRUE;
}

START_TEST(open_wide)
{
    char *path = simple_file("d\u00fcrr\u20ac.etl", 2);
    EVENT_TRACE_LOGFILEW lf = {.BufferCallback = wide_buffer, .EventRecordCallback = note_event};
    WCHAR name[512];
    WCHAR high[] = {0xD800, 'x', 0}; /* half a character */
    TRACEHANDLE handle;
    size_t n = 0;

    for (const char *p = test_tempdir(); *p; p++)
        name[n++] = (WCHAR) (unsigned char) *p;
    memcpy(name + n, u"/d\u00fcrr\u20ac.etl", sizeof(u"/d\u00fcrr\u20ac.etl"));
    lf.LogFileName = name;
    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    handle = OpenTraceW(&lf);
    ck_assert(handle != INVALID_PROCESSTRACE_HANDLE);
    ck_assert_int_eq(memcmp(lf.LoggerName, u"synthetic", sizeof(u"synthetic")), 0);
    ck_assert_uint_eq(ProcessTrace(&handle, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(notes.data, 2);
    ck_assert_uint_eq(notes.buffers, 2);
    CloseTrace(handle);
    lf.LogFileName = high;
    ck_assert_uint_eq(OpenTraceW(&lf), INVALID_PROCESSTRACE_HANDLE);
    free(path);
}
END_TEST

/* ---- ProcessTrace ---- */

START_TEST(process_parameters)
{
    char *path = simple_file("p.etl", 1);
    TRACEHANDLE h = open_noted(path, 0, 0);
    TRACEHANDLE many[65] = {0};
    FILETIME early = filetime(time_of(2000));
    FILETIME late = filetime(time_of(3000));
    TRACEHANDLE bad;

    ck_assert_uint_eq(ProcessTrace(NULL, 1, NULL, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(GetLastError(), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(ProcessTrace(&h, 0, NULL, NULL), ERROR_BAD_LENGTH);
    ck_assert_uint_eq(ProcessTrace(many, 65, NULL, NULL), ERROR_BAD_LENGTH);
    ck_assert_uint_eq(ProcessTrace(many, 64, NULL, NULL), ERROR_INVALID_HANDLE);
    bad = INVALID_PROCESSTRACE_HANDLE;
    ck_assert_uint_eq(ProcessTrace(&bad, 1, NULL, NULL), ERROR_INVALID_HANDLE);
    bad = h + 1; /* the next slot */
    ck_assert_uint_eq(ProcessTrace(&bad, 1, NULL, NULL), ERROR_INVALID_HANDLE);
    bad = h + (1ull << 32); /* the slot's next generation */
    ck_assert_uint_eq(ProcessTrace(&bad, 1, NULL, NULL), ERROR_INVALID_HANDLE);
    /* One bad among good ones, and one named twice. */
    many[0] = h;
    many[1] = bad;
    ck_assert_uint_eq(ProcessTrace(many, 2, NULL, NULL), ERROR_INVALID_HANDLE);
    many[1] = h;
    ck_assert_uint_eq(ProcessTrace(many, 2, NULL, NULL), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(ProcessTrace(&h, 1, &late, &early), ERROR_INVALID_TIME);
    ck_assert_uint_eq(notes.count, 0);
    /* None of that used the handle up. */
    ck_assert_uint_eq(ProcessTrace(&h, 1, &early, &late), ERROR_SUCCESS);
    ck_assert_uint_eq(notes.data, 1);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    free(path);
}
END_TEST

START_TEST(process_once)
{
    char *path = simple_file("once.etl", 1);
    TRACEHANDLE h = open_noted(path, 0, 0);
    size_t fds = test_count_fds(getpid());

    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(notes.data, 1);
    ck_assert_uint_eq(test_count_fds(getpid()), fds - 1); /* the file is not held until the close */
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_INVALID_HANDLE);
    free(path);
}
END_TEST

START_TEST(process_64_files)
{
    TRACEHANDLE handles[64];
    char *paths[64];

    for (unsigned i = 0; i < 64; i++) {
        char name[16];

        snprintf(name, sizeof(name), "m%u.etl", i);
        paths[i] = simple_file(name, 10);
        handles[i] = open_noted(paths[i], i, 0);
    }
    ck_assert_uint_eq(ProcessTrace(handles, 64, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(notes.data, 640);
    for (size_t i = 1; i < notes.count; i++)
        ck_assert_int_le(notes.events[i - 1].time, notes.events[i].time);
    for (unsigned i = 0; i < 64; i++) {
        ck_assert_uint_eq(CloseTrace(handles[i]), ERROR_SUCCESS);
        free(paths[i]);
    }
}
END_TEST

START_TEST(live_sessions)
{
    char *path = simple_file("file.etl", 1);
    EVENT_TRACE_LOGFILEA lf = {.LoggerName = (LPSTR) (uintptr_t) "no such session"};
    TRACEHANDLE h[2];
    FILETIME early = filetime(time_of(2000));
    FILETIME late = filetime(time_of(3000));

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME;
    h[0] = OpenTraceA(&lf);
    ck_assert(h[0] != INVALID_PROCESSTRACE_HANDLE);
    h[1] = open_noted(path, 0, 0);
    ck_assert_uint_eq(ProcessTrace(h, 2, NULL, NULL), ERROR_INVALID_PARAMETER);
    CloseTrace(h[1]);
    h[1] = OpenTraceA(&lf);
    ck_assert_uint_eq(ProcessTrace(h, 2, NULL, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(ProcessTrace(h, 1, &late, &early), ERROR_INVALID_TIME);
    ck_assert_uint_eq(ProcessTrace(h, 1, NULL, NULL), ERROR_NOT_SUPPORTED);
    ck_assert_uint_eq(CloseTrace(h[0]), ERROR_SUCCESS);
    ck_assert_uint_eq(CloseTrace(h[1]), ERROR_SUCCESS);
    lf.LoggerName = NULL;
    ck_assert_uint_eq(OpenTraceA(&lf), INVALID_PROCESSTRACE_HANDLE);
    ck_assert_uint_eq(GetLastError(), ERROR_BAD_PATHNAME);
    lf.LogFileName = path; /* a file, and to be read as a session */
    ck_assert_uint_eq(OpenTraceA(&lf), INVALID_PROCESSTRACE_HANDLE);
    ck_assert_uint_eq(GetLastError(), ERROR_INVALID_PARAMETER);
    free(path);
}
END_TEST

START_TEST(no_callbacks)
{
    char *path = simple_file("none.etl", 3);

    for (ULONG mode = 0; mode <= PROCESS_TRACE_MODE_EVENT_RECORD;
         mode += PROCESS_TRACE_MODE_EVENT_RECORD) {
        EVENT_TRACE_LOGFILEA lf = {.LogFileName = path};
        TRACEHANDLE h;

        lf.ProcessTraceMode = mode;
        h = OpenTraceA(&lf);
        ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
        ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    }
    free(path);
}
END_TEST

START_TEST(buffer_callback)
{
    char *path = long_file("buffers.etl", 7, 11);

    process_noted(path, NULL, NULL);
    ck_assert_uint_eq(notes.data, 77);
    ck_assert_uint_eq(notes.buffers, 8);
    ck_assert_uint_eq(notes.last_buffer.BuffersRead, 8);
    ck_assert_uint_eq(notes.last_buffer.BufferSize, 4096);
    ck_assert_uint_eq(notes.last_buffer.Filled, 72 + 11 * 40);
    ck_assert_int_eq(notes.last_buffer.CurrentTime, time_of(1000 + 7700));
    ck_assert_int_eq(notes.last_buffer.CurrentEvent.Header.TimeStamp.QuadPart,
                     time_of(1000 + 7700));
    ck_assert_uint_eq(notes.last_buffer.CurrentEvent.MofLength, 24);
    ck_assert_uint_eq(notes.last_buffer.LogfileHeader.BuffersWritten, 8);
    free(path);
}
END_TEST

START_TEST(buffer_callback_cancels)
{
    char *path = long_file("cancel.etl", 7, 11);
    TRACEHANDLE h = open_noted(path, 0, 0);

    notes.cancel_after = 3; /* the first buffer, then two of data */
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_CANCELLED);
    ck_assert_uint_eq(GetLastError(), ERROR_CANCELLED);
    ck_assert_uint_eq(notes.data, 22);
    ck_assert_uint_eq(notes.buffers, 3);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    free(path);
}
END_TEST

/* ---- CloseTrace ---- */

START_TEST(close_invalid)
{
    char *path = simple_file("close.etl", 1);
    TRACEHANDLE h = open_noted(path, 0, 0);

    ck_assert_uint_eq(CloseTrace(0), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(GetLastError(), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(CloseTrace(INVALID_PROCESSTRACE_HANDLE), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(CloseTrace(h + (1ull << 32)), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    ck_assert_uint_eq(CloseTrace(h), ERROR_INVALID_HANDLE);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_INVALID_HANDLE);
    /* The slot is used again, by another handle. */
    ck_assert(open_noted(path, 0, 0) != h);
    ck_assert_uint_eq(CloseTrace(h), ERROR_INVALID_HANDLE);
    free(path);
}
END_TEST

static TRACEHANDLE closing;
static ULONG close_code;
static size_t close_at;

static void close_inside(PEVENT_RECORD e)
{
    note_event(e);
    if (notes.data >= close_at && close_code == 0) {
        TRACEHANDLE again = closing;

        close_code = CloseTrace(closing);
        ck_assert_uint_eq(ProcessTrace(&again, 1, NULL, NULL), ERROR_INVALID_HANDLE);
        ck_assert_uint_eq(CloseTrace(closing), ERROR_INVALID_HANDLE); /* closed is closed */
    }
}

START_TEST(close_in_event_callback)
{
    char *path = long_file("inside.etl", 20, 5);
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = close_inside};
    size_t fds = test_count_fds(getpid());

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    close_at = 8;
    closing = OpenTraceA(&lf);
    ck_assert_uint_eq(ProcessTrace(&closing, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(close_code, ERROR_CTX_CLOSE_PENDING);
    ck_assert_uint_eq(notes.data, 10); /* to the end of the buffer */
    ck_assert_uint_eq(test_count_fds(getpid()), fds);
    ck_assert_uint_eq(CloseTrace(closing), ERROR_INVALID_HANDLE);
    free(path);
}
END_TEST

static ULONG close_in_buffer(PEVENT_TRACE_LOGFILEA lf)
{
    (void) note_buffer(lf);
    if (notes.buffers == 4)
        close_code = CloseTrace(closing);
    return TRUE;
}

START_TEST(close_in_buffer_callback)
{
    char *path = long_file("inbuffer.etl", 20, 5);
    EVENT_TRACE_LOGFILEA lf = {
        .LogFileName = path,
        .BufferCallback = close_in_buffer,
        .EventRecordCallback = note_event,
    };

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    closing = OpenTraceA(&lf);
    ck_assert_uint_eq(ProcessTrace(&closing, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(close_code, ERROR_CTX_CLOSE_PENDING);
    ck_assert_uint_le(notes.data, 20); /* three buffers, and one may have been open */
    ck_assert_uint_ge(notes.data, 15);
    free(path);
}
END_TEST

/* Closing one of several files ends that one. */
START_TEST(close_one_of_two)
{
    char *paths[2] = {long_file("one.etl", 20, 5), long_file("two.etl", 20, 5)};
    TRACEHANDLE h[2];
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = paths[0], .EventRecordCallback = close_inside};
    size_t of_second = 0;

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    close_at = 8;
    closing = h[0] = OpenTraceA(&lf);
    h[1] = open_noted(paths[1], 1, 0);
    ck_assert_uint_eq(ProcessTrace(h, 2, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(close_code, ERROR_CTX_CLOSE_PENDING);
    for (size_t i = 0; i < notes.count; i++)
        of_second += !notes.events[i].header && notes.events[i].file == 1;
    ck_assert_uint_eq(of_second, 100);
    ck_assert_uint_lt(notes.data - of_second, 15);
    ck_assert_uint_eq(CloseTrace(h[1]), ERROR_SUCCESS);
    free(paths[0]);
    free(paths[1]);
}
END_TEST

static atomic_int step;

static void wait_for_closer(PEVENT_RECORD e)
{
    note_event(e);
    if (notes.data != 3)
        return;
    atomic_store(&step, 1);
    while (atomic_load(&step) != 2)
        usleep(1000);
}

static void *closer(void *arg)
{
    while (atomic_load(&step) != 1)
        usleep(1000);
    close_code = CloseTrace(closing);
    atomic_store(&step, 2);
    return arg;
}

START_TEST(close_from_another_thread)
{
    char *path = long_file("thread.etl", 20, 5);
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = wait_for_closer};
    pthread_t thread;

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    closing = OpenTraceA(&lf);
    ck_assert_int_eq(pthread_create(&thread, NULL, closer, NULL), 0);
    ck_assert_uint_eq(ProcessTrace(&closing, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(close_code, ERROR_CTX_CLOSE_PENDING);
    ck_assert_uint_eq(notes.data, 5);
    free(path);
}
END_TEST

static char *shared_path;

static void count_only(PEVENT_RECORD e)
{
    ++*(size_t *) e->UserContext;
}

static void *process_own(void *arg)
{
    size_t *total = arg;

    for (int i = 0; i < 50; i++) {
        EVENT_TRACE_LOGFILEA lf = {
            .LogFileName = shared_path,
            .EventRecordCallback = count_only,
            .Context = total,
        };
        TRACEHANDLE h;

        lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
        h = OpenTraceA(&lf);
        if (h == INVALID_PROCESSTRACE_HANDLE || ProcessTrace(&h, 1, NULL, NULL) != ERROR_SUCCESS ||
            CloseTrace(h) != ERROR_SUCCESS)
            *total = 1u << 30;
    }
    return NULL;
}

START_TEST(several_threads)
{
    pthread_t threads[4];
    size_t totals[4] = {0};
    size_t fds = test_count_fds(getpid());

    shared_path = long_file("shared.etl", 5, 20);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, process_own, &totals[i]), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(totals[i], 50 * 102);
    }
    ck_assert_uint_eq(test_count_fds(getpid()), fds);
    free(shared_path);
}
END_TEST

/* A callback may read another trace. */
static void nested(PEVENT_RECORD e)
{
    size_t *total = e->UserContext;

    if (++*total == 5) {
        size_t inner = 0;
        EVENT_TRACE_LOGFILEA lf = {
            .LogFileName = shared_path,
            .EventRecordCallback = count_only,
            .Context = &inner,
        };
        TRACEHANDLE h;

        lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
        h = OpenTraceA(&lf);
        ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
        ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
        ck_assert_uint_eq(inner, 12);
    }
}

START_TEST(process_in_a_callback)
{
    size_t total = 0;
    EVENT_TRACE_LOGFILEA lf = {.EventRecordCallback = nested, .Context = &total};
    TRACEHANDLE h;

    shared_path = simple_file("nested.etl", 10);
    lf.LogFileName = shared_path;
    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    h = OpenTraceA(&lf);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(total, 12);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    free(shared_path);
}
END_TEST

static pid_t forked;

static void fork_inside(PEVENT_RECORD e)
{
    note_event(e);
    if (notes.data == 3)
        forked = fork();
}

/* Parent and child both go on with the file. */
START_TEST(fork_in_a_callback)
{
    char *path = long_file("fork.etl", 4, 5);
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .EventRecordCallback = fork_inside};
    TRACEHANDLE h;
    ULONG code;
    int status;

    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    h = OpenTraceA(&lf);
    code = ProcessTrace(&h, 1, NULL, NULL);
    if (forked == 0) {
        struct sigaction sa;

        sigaction(SIGSEGV, NULL, &sa);
        _exit(code == ERROR_SUCCESS && notes.data == 20 && sa.sa_handler == SIG_DFL ? 0 : 1);
    }
    ck_assert_int_gt(forked, 0);
    ck_assert_uint_eq(code, ERROR_SUCCESS);
    ck_assert_uint_eq(notes.data, 20);
    ck_assert_int_eq(waitpid(forked, &status, 0), forked);
    ck_assert_int_eq(status, 0);
    CloseTrace(h);
    free(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("consumer-calls");
    TCase *t = tcase_create("calls");

    tcase_add_test(t, open_null);
    tcase_add_test(t, open_names);
    tcase_add_test(t, open_without_access);
    tcase_add_test(t, open_what_is_no_trace);
    tcase_add_test(t, open_without_descriptors);
    tcase_add_test(t, open_fills_the_header);
    tcase_add_test(t, open_plain_session);
    tcase_add_test(t, open_again_with_the_same_structure);
    tcase_add_test(t, open_wide);
    tcase_add_test(t, process_parameters);
    tcase_add_test(t, process_once);
    tcase_add_test(t, process_64_files);
    tcase_add_test(t, live_sessions);
    tcase_add_test(t, no_callbacks);
    tcase_add_test(t, buffer_callback);
    tcase_add_test(t, buffer_callback_cancels);
    tcase_add_test(t, close_invalid);
    tcase_add_test(t, close_in_event_callback);
    tcase_add_test(t, close_in_buffer_callback);
    tcase_add_test(t, close_one_of_two);
    tcase_add_test(t, close_from_another_thread);
    tcase_add_test(t, several_threads);
    tcase_add_test(t, process_in_a_callback);
    tcase_add_test(t, fork_in_a_callback);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
