/* SPDX-License-Identifier: Apache-2.0
 *
 * The controller functions against a real, private etwd: sessions as programs use them, and the
 * codes that the daemon decides.
 */
#include "lib/test.h"

#include <evntcons.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "properties.h"

#define NOBODY 65534

static struct test_daemon *d;
static struct test_properties t;
static TRACEHANDLE handle;

static void setup(void)
{
    d = test_daemon_start();
    ck_assert_int_eq(chdir(test_tempdir()), 0);
    handle = 0;
}

static void teardown(void)
{
    test_daemon_alive(d);
    test_daemon_stop(d);
    d = test_daemon_free(d);
}

static ULONG start(const char *name, const char *file, ULONG mode)
{
    properties_init(&t, file);
    t.p.LogFileMode = mode;
    return StartTraceA(&handle, name, &t.p);
}

static ULONG control(TRACEHANDLE h, const char *name, ULONG code)
{
    properties_init(&t, NULL);
    return ControlTraceA(h, name, &t.p, code);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Events of a file, the header's included; UINT32_MAX: not readable. */
static ULONG counted;

static void WINAPI count(PEVENT_RECORD r)
{
    (void) r;
    counted++;
}

static ULONG events_in(char *path)
{
    EVENT_TRACE_LOGFILEA l;
    TRACEHANDLE h;
    ULONG code;

    memset(&l, 0, sizeof(l));
    l.LogFileName = path;
    l.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    l.EventRecordCallback = count;
    h = OpenTraceA(&l);
    if (h == INVALID_PROCESSTRACE_HANDLE)
        return UINT32_MAX;
    counted = 0;
    code = ProcessTrace(&h, 1, NULL, NULL);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    return code == ERROR_SUCCESS ? counted : UINT32_MAX;
}

START_TEST(life_of_a_session)
{
    static const GUID none;
    char file[] = "life.etl", path[4200];
    TRACEHANDLE first;
    GUID guid;

    ck_assert_uint_eq(start("Life", file, 0), ERROR_SUCCESS);
    ck_assert_uint_ne(handle, 0);
    ck_assert_uint_eq(t.p.Wnode.HistoricalContext, handle);
    ck_assert(!IsEqualGUID(&t.p.Wnode.Guid, &none)); /* a zero GUID is replaced */
    guid = t.p.Wnode.Guid;
    ck_assert_uint_eq(t.p.Wnode.ClientContext, 1);
    ck_assert_uint_eq(t.p.BufferSize, 64);
    ck_assert_uint_ge(t.p.MinimumBuffers, 2 * (ULONG) sysconf(_SC_NPROCESSORS_ONLN));
    ck_assert_uint_eq(t.p.MaximumBuffers, t.p.MinimumBuffers + 20);
    ck_assert_str_eq(t.names, "Life");
    ck_assert(exists(file));
    first = handle;

    /* By name in any case, and by handle: the same session. */
    ck_assert_uint_eq(control(0, "lIFE", EVENT_TRACE_CONTROL_QUERY), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.Wnode.HistoricalContext, first);
    ck_assert(IsEqualGUID(&t.p.Wnode.Guid, &guid));
    ck_assert_str_eq(t.names, "Life");
    (void) snprintf(path, sizeof(path), "%s/life.etl", test_tempdir());
    ck_assert_str_eq(t.names + ROOM, path);
    ck_assert_uint_eq(control(first, NULL, EVENT_TRACE_CONTROL_FLUSH), ERROR_SUCCESS);
    ck_assert_uint_eq(control(first & 0xFFFF, NULL, EVENT_TRACE_CONTROL_QUERY), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.Wnode.HistoricalContext, first);
    /* The name wins over a handle. */
    ck_assert_uint_eq(control(first + 0x70000, "Life", EVENT_TRACE_CONTROL_QUERY), ERROR_SUCCESS);

    ck_assert_uint_eq(control(first, NULL, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
    ck_assert_uint_ge(t.p.BuffersWritten, 1);
    ck_assert_uint_eq(t.p.EventsLost, 0);
    ck_assert_uint_eq(t.p.LogBuffersLost, 0);
    ck_assert_str_eq(t.names, "Life");
    ck_assert_uint_ne(events_in(file), UINT32_MAX);
    ck_assert_uint_gt(counted, 0);

    for (ULONG code = 0; code <= EVENT_TRACE_CONTROL_FLUSH; code++) {
        ck_assert_uint_eq(control(first, NULL, code), ERROR_WMI_INSTANCE_NOT_FOUND);
        ck_assert_uint_eq(control(0, "Life", code), ERROR_WMI_INSTANCE_NOT_FOUND);
    }
    /* The id is used again, the handle is not. */
    ck_assert_uint_eq(start("Second", "second.etl", 0), ERROR_SUCCESS);
    ck_assert_uint_ne(handle, first);
    ck_assert_uint_eq(control(first, NULL, EVENT_TRACE_CONTROL_STOP), ERROR_WMI_INSTANCE_NOT_FOUND);
    ck_assert_uint_eq(control(handle, NULL, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}
END_TEST

START_TEST(wide_functions)
{
    static const WCHAR name[] = ETW_W("Weite \u00DCbersicht \u20ac");
    static const WCHAR file[] = ETW_W("weit-\u00fc.etl");
    char ascii[] = "weit-\xC3\xBC.etl";

    properties_init(&t, NULL);
    memcpy(t.names + ROOM, file, sizeof(file));
    ck_assert_uint_eq(StartTraceW(&handle, name, &t.p), ERROR_SUCCESS);
    ck_assert_mem_eq(t.names, name, sizeof(name));
    properties_init(&t, NULL);
    ck_assert_uint_eq(QueryTraceW(0, ETW_W("WEITE \u00FCBERSICHT \u20ac"), &t.p), ERROR_SUCCESS);
    ck_assert_mem_eq(t.names, name, sizeof(name));
    ck_assert_uint_eq(FlushTraceW(handle, NULL, &t.p), ERROR_SUCCESS);
    properties_init(&t, NULL);
    ck_assert_uint_eq(StopTraceW(0, name, &t.p), ERROR_SUCCESS);
    ck_assert_uint_ne(events_in(ascii), UINT32_MAX);
}
END_TEST

START_TEST(longest_name)
{
    char name[1025], back[1025];

    memset(name, 'n', 1024);
    name[1024] = '\0';
    ck_assert_uint_eq(start(name, "long.etl", 0), ERROR_SUCCESS);
    ck_assert_str_eq(t.names, name);
    ck_assert_uint_eq(control(handle, NULL, EVENT_TRACE_CONTROL_QUERY), ERROR_SUCCESS);
    memcpy(back, t.names, sizeof(back));
    ck_assert_str_eq(back, name);
    ck_assert_uint_eq(control(0, name, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}
END_TEST

START_TEST(second_of_a_name_or_guid)
{
    GUID guid;

    ck_assert_uint_eq(start("Twice", "one.etl", 0), ERROR_SUCCESS);
    guid = t.p.Wnode.Guid;
    ck_assert_uint_eq(start("tWICE", "two.etl", 0), ERROR_ALREADY_EXISTS);
    ck_assert_uint_eq(handle, 0);
    ck_assert(!exists("two.etl"));
    properties_init(&t, "two.etl");
    t.p.Wnode.Guid = guid;
    ck_assert_uint_eq(StartTraceA(&handle, "Other", &t.p), ERROR_ALREADY_EXISTS);
    ck_assert(!exists("two.etl"));
    ck_assert_uint_eq(control(0, "Twice", EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}
END_TEST

START_TEST(file_of_a_running_session)
{
    struct stat before, after;

    ck_assert_uint_eq(start("One", "one.etl", 0), ERROR_SUCCESS);
    ck_assert_uint_eq(control(0, "One", EVENT_TRACE_CONTROL_FLUSH), ERROR_SUCCESS);
    ck_assert_int_eq(stat("one.etl", &before), 0);
    ck_assert_int_eq(link("one.etl", "other-name.etl"), 0);
    ck_assert_uint_eq(start("Two", "one.etl", 0), ERROR_BAD_PATHNAME);
    ck_assert_uint_eq(start("Two", "other-name.etl", 0), ERROR_BAD_PATHNAME);
    ck_assert_int_eq(stat("one.etl", &after), 0);
    ck_assert_int_eq(after.st_size, before.st_size);
    ck_assert_uint_eq(control(0, "One", EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
    /* Free again. */
    ck_assert_uint_eq(start("Two", "one.etl", 0), ERROR_SUCCESS);
    ck_assert_uint_eq(control(0, "Two", EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}
END_TEST

START_TEST(existing_file)
{
    char file[] = "old.etl", *content;
    int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    for (int i = 0; i < 100000; i++)
        ck_assert_int_eq(write(fd, "old content", 11), 11);
    ck_assert_int_eq(close(fd), 0);
    /* A start that fails leaves it; one that succeeds replaces all of it. */
    ck_assert_uint_eq(start("Old", file, EVENT_TRACE_FILE_MODE_CIRCULAR), ERROR_INVALID_PARAMETER);
    properties_init(&t, file);
    t.p.LogFileMode = EVENT_TRACE_SYSTEM_LOGGER_MODE;
    ck_assert_uint_eq(StartTraceA(&handle, "Old", &t.p), ERROR_NOT_SUPPORTED);
    content = test_read_file(file, NULL);
    ck_assert_int_eq(strncmp(content, "old content", 11), 0);
    free(content);
    ck_assert_uint_eq(start("Old", file, 0), ERROR_SUCCESS);
    ck_assert_uint_eq(control(0, "Old", EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
    ck_assert_uint_ne(events_in(file), UINT32_MAX);
    content = test_read_file(file, NULL);
    ck_assert_ptr_null(strstr(content, "old content"));
    free(content);
}
END_TEST

static const struct {
    ULONG mode;
    ULONG clock;
    ULONG size;
    const char *file;
    ULONG code;
} later[] = {
    {EVENT_TRACE_FILE_MODE_APPEND, 1, 0, "x.etl", ERROR_INVALID_PARAMETER},
    {EVENT_TRACE_FILE_MODE_NEWFILE, 1, 10, "x%d.etl", ERROR_NOT_SUPPORTED},
    {EVENT_TRACE_PRIVATE_LOGGER_MODE, 1, 0, "x.etl", ERROR_NOT_SUPPORTED},
    {EVENT_TRACE_REAL_TIME_MODE, 1, 0, NULL, ERROR_NOT_SUPPORTED},
    {EVENT_TRACE_SYSTEM_LOGGER_MODE, 1, 0, "x.etl", ERROR_NOT_SUPPORTED},
};

START_TEST(later_versions)
{
    properties_init(&t, later[_i].file);
    if (!later[_i].file)
        t.p.LogFileNameOffset = 0;
    t.p.LogFileMode = later[_i].mode;
    t.p.Wnode.ClientContext = later[_i].clock;
    t.p.MaximumFileSize = later[_i].size;
    ck_assert_uint_eq(StartTraceA(&handle, "Later", &t.p), later[_i].code);
    ck_assert_uint_eq(handle, 0);
    ck_assert(!exists("x.etl") && !exists("x%d.etl"));
    ck_assert_uint_eq(control(0, "Later", EVENT_TRACE_CONTROL_QUERY), ERROR_WMI_INSTANCE_NOT_FOUND);
}
END_TEST

START_TEST(real_time_with_a_file_gives_the_file)
{
    char file[] = "rt.etl";

    ck_assert_uint_eq(start("Rt", file, EVENT_TRACE_REAL_TIME_MODE), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.LogFileMode & EVENT_TRACE_REAL_TIME_MODE, EVENT_TRACE_REAL_TIME_MODE);
    ck_assert_uint_eq(control(0, "Rt", EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
    ck_assert_uint_ne(events_in(file), UINT32_MAX);
}
END_TEST

START_TEST(stop_with_too_little_room_stops_all_the_same)
{
    ck_assert_uint_eq(start("A session of some length", "short.etl", 0), ERROR_SUCCESS);
    properties_init(&t, NULL);
    t.p.LogFileNameOffset = t.p.LoggerNameOffset + 6;
    ck_assert_uint_eq(StopTraceA(handle, NULL, &t.p), ERROR_MORE_DATA);
    ck_assert_str_eq(t.names, "A ses");
    ck_assert_uint_ge(t.p.BuffersWritten, 1);
    ck_assert_uint_eq(control(handle, NULL, EVENT_TRACE_CONTROL_QUERY),
                      ERROR_WMI_INSTANCE_NOT_FOUND);
}
END_TEST

START_TEST(update)
{
    ck_assert_uint_eq(start("Change", "change.etl", EVENT_TRACE_REAL_TIME_MODE), ERROR_SUCCESS);
    properties_init(&t, NULL);
    t.p.FlushTimer = 33;
    t.p.MaximumBuffers = 60;
    t.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
    ck_assert_uint_eq(UpdateTraceA(handle, NULL, &t.p), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.FlushTimer, 33);
    ck_assert_uint_eq(t.p.MaximumBuffers, 60);
    ck_assert_uint_eq(control(0, "Change", EVENT_TRACE_CONTROL_QUERY), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.FlushTimer, 33);
    ck_assert_uint_ne(t.p.LogFileMode & EVENT_TRACE_REAL_TIME_MODE, 0);
    /* LogFileMode 0 ends live delivery; zeros keep the rest. */
    properties_init(&t, NULL);
    ck_assert_uint_eq(UpdateTraceA(handle, NULL, &t.p), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.FlushTimer, 33);
    ck_assert_uint_eq(t.p.LogFileMode & EVENT_TRACE_REAL_TIME_MODE, 0);
    ck_assert_uint_eq(control(0, "Change", EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}
END_TEST

START_TEST(daemon_that_dies)
{
    ck_assert_uint_eq(start("Dies", "dies.etl", 0), ERROR_SUCCESS);
    test_daemon_kill(d);
    ck_assert_uint_eq(control(0, "Dies", EVENT_TRACE_CONTROL_QUERY), ERROR_WMI_SERVER_UNAVAILABLE);
    test_daemon_again(d, (const char *const[]){NULL});
    ck_assert_uint_eq(control(handle, NULL, EVENT_TRACE_CONTROL_QUERY),
                      ERROR_WMI_INSTANCE_NOT_FOUND);
    ck_assert_uint_eq(start("Dies", "dies.etl", 0), ERROR_SUCCESS);
    ck_assert_uint_eq(control(0, "Dies", EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}
END_TEST

/* As nobody, in a process of its own. */
static int as_nobody(int (*f)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
            _exit(255);
        _exit(f());
    }
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int nobody_tries(void)
{
    for (ULONG code = 0; code <= EVENT_TRACE_CONTROL_FLUSH; code++)
        if (control(0, "Roots", code) != ERROR_ACCESS_DENIED)
            return 1;
    properties_init_kernel(&t, "nobody/kernel.etl");
    if (StartKernelTrace(&handle, &t.p, NULL, 0) != ERROR_ACCESS_DENIED || handle != 0 ||
        exists("nobody/kernel.etl"))
        return 2;
    if (start("Own", "nobody/own.etl", 0) != ERROR_SUCCESS)
        return 3;
    if (control(0, "Own", EVENT_TRACE_CONTROL_QUERY) != ERROR_SUCCESS)
        return 4;
    return control(0, "Own", EVENT_TRACE_CONTROL_STOP) == ERROR_SUCCESS ? 0 : 5;
}

START_TEST(rights)
{
    test_need_root();
    ck_assert_int_eq(mkdir("nobody", 0777), 0);
    ck_assert_int_eq(chmod("nobody", 0777), 0);
    ck_assert_uint_eq(start("Roots", "roots.etl", 0), ERROR_SUCCESS);
    ck_assert_int_eq(as_nobody(nobody_tries), 0);
    ck_assert_uint_eq(control(0, "Roots", EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}
END_TEST

/* The kernel logger: needs root, and a kernel that lets us. */
static ULONG start_kernel(ULONG flags, const STACK_TRACING_EVENT_ID *stacks, ULONG n)
{
    properties_init_kernel(&t, "kernel.etl");
    t.p.EnableFlags = flags;
    handle = 5;
    return StartKernelTrace(&handle, &t.p, stacks, n);
}

static ULONG stop_kernel(void)
{
    properties_init(&t, NULL);
    return StopTraceA(0, KERNEL_LOGGER_NAMEA, &t.p);
}

#define PROCESS EVENT_TRACE_FLAG_PROCESS

START_TEST(kernel_logger)
{
    TRACEHANDLE first;
    char file[] = "kernel.etl";

    test_need_root();
    ck_assert_uint_eq(start_kernel(PROCESS | EVENT_TRACE_FLAG_THREAD, NULL, 0), ERROR_SUCCESS);
    ck_assert_uint_eq(handle & 0xFFFF, 0xFFFF);
    ck_assert_str_eq(t.names, KERNEL_LOGGER_NAMEA);
    ck_assert_uint_eq(t.p.EnableFlags, PROCESS | EVENT_TRACE_FLAG_THREAD);
    first = handle;
    ck_assert_uint_eq(start_kernel(PROCESS, NULL, 0), ERROR_ALREADY_EXISTS);
    ck_assert_uint_eq(handle, 0);
    properties_init(&t, "other.etl");
    ck_assert_uint_eq(StartTraceA(&handle, KERNEL_LOGGER_NAMEA, &t.p), ERROR_ALREADY_EXISTS);
    ck_assert(!exists("other.etl") && exists(file));
    ck_assert_uint_eq(control(first, NULL, EVENT_TRACE_CONTROL_QUERY), ERROR_SUCCESS);
    ck_assert_str_eq(t.names, KERNEL_LOGGER_NAMEA);
    ck_assert(IsEqualGUID(&t.p.Wnode.Guid, &SystemTraceControlGuid));
    ck_assert_uint_eq(stop_kernel(), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.EventsLost, 0);
    ck_assert_uint_gt(events_in(file), 10); /* rundown of what lives at least */
    ck_assert_uint_ne(counted, UINT32_MAX);
    ck_assert_uint_eq(stop_kernel(), ERROR_WMI_INSTANCE_NOT_FOUND);
}
END_TEST

START_TEST(kernel_logger_through_starttrace)
{
    test_need_root();
    properties_init(&t, "plain.etl");
    t.p.EnableFlags = PROCESS;
    ck_assert_uint_eq(StartTraceA(&handle, "nt kernel logger", &t.p), ERROR_SUCCESS);
    ck_assert(IsEqualGUID(&t.p.Wnode.Guid, &SystemTraceControlGuid)); /* overridden, told */
    ck_assert_uint_eq(start_kernel(PROCESS, NULL, 0), ERROR_ALREADY_EXISTS);
    ck_assert_uint_eq(stop_kernel(), ERROR_SUCCESS);
}
END_TEST

START_TEST(kernel_flags)
{
    test_need_root();
    ck_assert_uint_eq(start_kernel(0x08000000, NULL, 0), ERROR_INVALID_FLAGS);
    ck_assert_uint_eq(start_kernel(PROCESS | EVENT_TRACE_FLAG_DISK_IO, NULL, 0),
                      ERROR_NOT_SUPPORTED);
    ck_assert_uint_eq(handle, 0);
    ck_assert(!exists("kernel.etl"));
    ck_assert_uint_eq(stop_kernel(), ERROR_WMI_INSTANCE_NOT_FOUND);
    /* Without meaning here: accepted. */
    ck_assert_uint_eq(start_kernel(PROCESS | EVENT_TRACE_FLAG_REGISTRY | EVENT_TRACE_FLAG_ALPC |
                                       EVENT_TRACE_FLAG_DRIVER | EVENT_TRACE_FLAG_FORWARD_WMI |
                                       EVENT_TRACE_FLAG_ENABLE_RESERVE |
                                       EVENT_TRACE_FLAG_NO_SYSCONFIG,
                                   NULL, 0),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(stop_kernel(), ERROR_SUCCESS);
}
END_TEST

START_TEST(kernel_stacks)
{
    STACK_TRACING_EVENT_ID ids[256];

    test_need_root();
    memset(ids, 0, sizeof(ids));
    for (unsigned i = 0; i < 256; i++)
        ids[i].Type = (UCHAR) i; /* no such class */
    ids[10].EventGuid = ThreadGuid;
    ids[10].Type = 36; /* CSwitch: not enabled */
    ids[11].EventGuid = ProcessGuid;
    ids[11].Type = 200; /* no such type */
    ck_assert_uint_eq(start_kernel(PROCESS, ids, 256), ERROR_SUCCESS);
    ck_assert_uint_eq(stop_kernel(), ERROR_SUCCESS);
    ck_assert_int_eq(unlink("kernel.etl"), 0);
    /* Decodable and enabled: not in this version. */
    ck_assert_uint_eq(start_kernel(PROCESS | EVENT_TRACE_FLAG_CSWITCH, ids, 256),
                      ERROR_NOT_SUPPORTED);
    ck_assert(!exists("kernel.etl"));
    ids[12].EventGuid = ProcessGuid;
    ids[12].Type = EVENT_TRACE_TYPE_START;
    ck_assert_uint_eq(start_kernel(PROCESS, ids, 256), ERROR_NOT_SUPPORTED);
    ck_assert_uint_eq(stop_kernel(), ERROR_WMI_INSTANCE_NOT_FOUND);
}
END_TEST

START_TEST(kernel_update_of_flags)
{
    test_need_root();
    ck_assert_uint_eq(start_kernel(PROCESS, NULL, 0), ERROR_SUCCESS);
    properties_init(&t, NULL);
    t.p.EnableFlags = PROCESS | EVENT_TRACE_FLAG_THREAD;
    ck_assert_uint_eq(UpdateTraceA(0, KERNEL_LOGGER_NAMEA, &t.p), ERROR_SUCCESS);
    ck_assert_uint_eq(t.p.EnableFlags, PROCESS | EVENT_TRACE_FLAG_THREAD);
    ck_assert_uint_eq(stop_kernel(), ERROR_SUCCESS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon");
    TCase *c = tcase_create("sessions");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, life_of_a_session);
    tcase_add_test(c, wide_functions);
    tcase_add_test(c, longest_name);
    tcase_add_test(c, second_of_a_name_or_guid);
    tcase_add_test(c, file_of_a_running_session);
    tcase_add_test(c, existing_file);
    tcase_add_loop_test(c, later_versions, 0, sizeof(later) / sizeof(later[0]));
    tcase_add_test(c, real_time_with_a_file_gives_the_file);
    tcase_add_test(c, stop_with_too_little_room_stops_all_the_same);
    tcase_add_test(c, update);
    tcase_add_test(c, daemon_that_dies);
    tcase_add_test(c, rights);
    tcase_add_test(c, kernel_logger);
    tcase_add_test(c, kernel_logger_through_starttrace);
    tcase_add_test(c, kernel_flags);
    tcase_add_test(c, kernel_stacks);
    tcase_add_test(c, kernel_update_of_flags);
    suite_add_tcase(s, c);
    return test_main(s);
}
