/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may do what, with two users and root: each call of the one on a session of the other, names
 * and lists, the kernel logger, and whose events a session sees. Users are numbers; nobody of that
 * name need be there.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <KernelTraceControl.h>
#include <evntprov.h>

#include "api/properties.h"
#include "base/cleanup.h"
#include "provider-tests.h"

static const uid_t users[] = {64001, 64002, 0};
enum { OWNER, OTHER, ROOT };

static struct test_daemon *d;
static char *folder; /* where all may make files */

static void setup(void)
{
    if (geteuid() != 0)
        return;
    d = test_daemon_start();
    folder = test_path("public");
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    ck_assert_int_eq(chmod(folder, 0777), 0); /* whatever the umask */
}

static void teardown(void)
{
    if (!d)
        return;
    test_daemon_stop(d);
    d = test_daemon_free(d);
    free(folder);
}

/* What `act` returns as that user. */
static ULONG as_user(int who, ULONG (*act)(const char *session), const char *session)
{
    ULONG *result =
        mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;

    ck_assert_ptr_ne(result, MAP_FAILED);
    *result = 999999;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        uid_t uid = users[who];
        if (uid != 0 && (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
                         setresuid(uid, uid, uid) < 0))
            _exit(1);
        *result = act(session);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ULONG code = *result;
    munmap(result, sizeof(*result));
    return code;
}

static ULONG control(const char *session, ULONG code)
{
    struct test_properties t;
    properties_init(&t, NULL);
    return ControlTraceA(0, session, &t.p, code);
}

static ULONG query(const char *session)
{
    return control(session, EVENT_TRACE_CONTROL_QUERY);
}

static ULONG update(const char *session)
{
    return control(session, EVENT_TRACE_CONTROL_UPDATE);
}

static ULONG flush(const char *session)
{
    return control(session, EVENT_TRACE_CONTROL_FLUSH);
}

static ULONG stop(const char *session)
{
    return control(session, EVENT_TRACE_CONTROL_STOP);
}

/* By the handle that the owner got: known to anybody who counts. */
static TRACEHANDLE *handle;

static ULONG enable(const char *session)
{
    const GUID g = NUMBERED_GUID(1);
    return EnableTraceEx2(*handle, &g, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0xff, 0, 0, 0, NULL);
}

static ULONG stop_by_handle(const char *session)
{
    struct test_properties t;
    properties_init(&t, NULL);
    return ControlTraceA(*handle, NULL, &t.p, EVENT_TRACE_CONTROL_STOP);
}

static ULONG start(const char *session)
{
    struct test_properties t;
    char *file;

    if (asprintf(&file, "%s/%s-%u.etl", folder, session, (unsigned) geteuid()) < 0)
        return 888888;
    properties_init(&t, file);
    free(file);
    return StartTraceA(handle, session, &t.p);
}

static ULONG start_kernel(const char *session)
{
    struct test_properties t;
    TRACEHANDLE h;
    char *file;

    if (asprintf(&file, "%s/kernel-%u.etl", folder, (unsigned) geteuid()) < 0)
        return 888888;
    properties_init_kernel(&t, file);
    free(file);
    return StartTraceA(&h, KERNEL_LOGGER_NAMEA, &t.p);
}

/* Into a file of the session's owner. */
static ULONG start_into_file(const char *file)
{
    struct test_properties t;
    TRACEHANDLE h;
    properties_init(&t, file);
    return StartTraceA(&h, "somebody's file", &t.p);
}

/* How many sessions `list` tells this user of. */
static ULONG listed(const char *session)
{
    struct test_output o;
    test_etwctl_ok(&o, "list", "--json");
    struct json_object *list = test_json(o.out);
    ULONG n = (ULONG) json_object_array_length(list);
    json_object_put(list);
    test_output_done(&o);
    return n;
}

static void begin(void)
{
    test_need_root();
    handle = mmap(NULL, sizeof(*handle), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(handle, MAP_FAILED);
}

/* Rows: whose session; columns: who calls. */
START_TEST(matrix)
{
    static ULONG (*const calls[])(const char *) = {query,  update,         flush,
                                                   enable, stop_by_handle, stop};
    static const char *const names[] = {"query",  "update",         "flush",
                                        "enable", "stop by handle", "stop"};

    begin();
    for (int owner = OWNER; owner <= ROOT; owner++) {
        for (int who = OWNER; who <= ROOT; who++) {
            bool may = who == owner || who == ROOT;
            ck_assert_uint_eq(as_user(owner, start, "theirs"), ERROR_SUCCESS);
            ck_assert_uint_eq(as_user(who, listed, NULL), may ? 1 : 0);
            for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
                ULONG expected = may ? ERROR_SUCCESS : ERROR_ACCESS_DENIED;
                ULONG code = as_user(who, calls[i], "theirs");
                if (may && calls[i] == stop)
                    expected = ERROR_WMI_INSTANCE_NOT_FOUND; /* stopped by its handle */
                ck_assert_msg(code == expected, "%s by uid %u of a session of uid %u: %u", names[i],
                              (unsigned) users[who], (unsigned) users[owner], (unsigned) code);
            }
            /* A name is taken, whoever has it, in whatever case. */
            if (!may) {
                ck_assert_uint_eq(as_user(who, start, "THEIRS"), ERROR_ALREADY_EXISTS);
                ck_assert_uint_eq(as_user(owner, query, "theirs"), ERROR_SUCCESS);
                ck_assert_uint_eq(as_user(owner, stop, "theirs"), ERROR_SUCCESS);
            }
        }
    }
}
END_TEST

START_TEST(kernel_logger)
{
    begin();
    ck_assert_uint_eq(as_user(OWNER, start_kernel, NULL), ERROR_ACCESS_DENIED);
    ULONG code = as_user(ROOT, start_kernel, NULL);
    if (code == ERROR_NOT_SUPPORTED)
        test_skip("the kernel's events cannot be had here");
    ck_assert_uint_eq(code, ERROR_SUCCESS);
    ck_assert_uint_eq(as_user(OWNER, query, KERNEL_LOGGER_NAMEA), ERROR_ACCESS_DENIED);
    ck_assert_uint_eq(as_user(OWNER, flush, KERNEL_LOGGER_NAMEA), ERROR_ACCESS_DENIED);
    ck_assert_uint_eq(as_user(OWNER, update, KERNEL_LOGGER_NAMEA), ERROR_ACCESS_DENIED);
    ck_assert_uint_eq(as_user(OWNER, stop, KERNEL_LOGGER_NAMEA), ERROR_ACCESS_DENIED);
    ck_assert_uint_eq(as_user(OWNER, listed, NULL), 0);
    ck_assert_uint_eq(as_user(ROOT, stop, KERNEL_LOGGER_NAMEA), ERROR_SUCCESS);
}
END_TEST

/* Its handle is known before it is there. */
START_TEST(global_logger)
{
    begin();
    ck_assert_uint_eq(as_user(OWNER, start, "globalLOGGER"), ERROR_ACCESS_DENIED);
    ck_assert_uint_eq(as_user(ROOT, start, "GlobalLogger"), ERROR_SUCCESS);
    ck_assert_uint_eq(as_user(ROOT, stop, "GlobalLogger"), ERROR_SUCCESS);
}
END_TEST

/* The library opens the file as who calls: nobody writes where they could not. */
START_TEST(files)
{
    struct stat st;
    char *path, *root_file = test_path("root.etl");

    begin();
    ck_assert_uint_eq(as_user(OWNER, start, "mine"), ERROR_SUCCESS);
    ck_assert_int_ge(asprintf(&path, "%s/mine-%u.etl", folder, (unsigned) users[OWNER]), 0);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_uid, users[OWNER]);
    ck_assert_uint_eq(as_user(OTHER, start_into_file, path), ERROR_ACCESS_DENIED);
    /* Also root does not write where a session does. */
    ck_assert_uint_ne(as_user(ROOT, start_into_file, path), ERROR_SUCCESS);
    ck_assert_uint_eq(as_user(OWNER, stop, "mine"), ERROR_SUCCESS);
    /* A folder of root: nothing is made. */
    ck_assert_uint_eq(as_user(OWNER, start_into_file, root_file), ERROR_ACCESS_DENIED);
    ck_assert_int_eq(access(root_file, F_OK), -1);
    free(path);
    free(root_file);
}
END_TEST

/* Ten events with this number as their source. */
static ULONG write_ten(const char *source)
{
    const GUID g = NUMBERED_GUID(1);
    EVENT_DESCRIPTOR descriptor;
    REGHANDLE h;

    ULONG code = EventRegister(&g, NULL, NULL, &h);
    for (uint64_t i = 0; code == ERROR_SUCCESS && i < 10; i++) {
        EVENT_DATA_DESCRIPTOR data;
        uint8_t buf[NUMBERED_MAX];
        EventDescCreate(&descriptor, numbered_id(i), 0, 0, NUMBERED_LEVEL, 0, 0, NUMBERED_KEYWORD);
        EventDataDescCreate(&data, buf, numbered_make(buf, (uint32_t) atoi(source), i));
        code = EventWrite(h, &descriptor, 1, &data);
    }
    return code;
}

START_TEST(events)
{
    static const char *const names[] = {"owner", "other", "root"};
    static struct tally t;

    begin();
    for (int who = OWNER; who <= ROOT; who++) {
        ck_assert_uint_eq(as_user(who, start, names[who]), ERROR_SUCCESS);
        ck_assert_uint_eq(as_user(who, enable, NULL), ERROR_SUCCESS);
    }
    for (int who = OWNER; who <= ROOT; who++) {
        char source[8];
        snprintf(source, sizeof(source), "%d", who);
        ck_assert_uint_eq(as_user(who, write_ten, source), ERROR_SUCCESS);
    }
    for (int who = OWNER; who <= ROOT; who++) {
        char *path;
        test_loss_identity(names[who]);
        ck_assert_uint_eq(as_user(who, stop, names[who]), ERROR_SUCCESS);
        ck_assert_int_ge(asprintf(&path, "%s/%s-%u.etl", folder, names[who], (unsigned) users[who]),
                         0);
        tally_file(&t, path);
        tally_sound(&t);
        ck_assert_uint_eq(t.ours, who == ROOT ? 30 : 10);
        for (int source = OWNER; source <= ROOT; source++)
            if (who == ROOT || source == who)
                tally_complete(&t, (uint32_t) source, 10);
        free(path);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("rights");
    TCase *t = tcase_create("rights");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, matrix);
    tcase_add_test(t, kernel_logger);
    tcase_add_test(t, global_logger);
    tcase_add_test(t, files);
    tcase_add_test(t, events);
    suite_add_tcase(s, t);
    return s;
}

int main(int argc, char **argv)
{
    provider_tests_init(argc, argv);
    return test_main(suite());
}
