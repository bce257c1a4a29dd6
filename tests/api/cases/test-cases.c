/* SPDX-License-Identifier: Apache-2.0
 *
 * Every documented code of the API: reads cases.tsv and makes each row's call against one private
 * etwd, as root or as an ordinary user. A row whose condition nobody wrote fails. See cases.h.
 */
#include "cases.h"

#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534
#define ROWS_MAX 2000

struct row {
    char *function, *condition, *code, *source, *who;
};

static struct row rows[ROWS_MAX];
static int n_rows;
static struct test_daemon *d;
static char dir[4096];

static const struct function functions[] = {
    {"StartTraceA", START, false, 0},
    {"StartTraceW", START, true, 0},
    {"StartKernelTrace", KERNEL, false, 0},
    {"StartKernelTraceW", KERNEL, true, 0},
    {"ControlTraceA(QUERY)", CONTROL, false, EVENT_TRACE_CONTROL_QUERY},
    {"ControlTraceW(QUERY)", CONTROL, true, EVENT_TRACE_CONTROL_QUERY},
    {"ControlTraceA(STOP)", CONTROL, false, EVENT_TRACE_CONTROL_STOP},
    {"ControlTraceW(STOP)", CONTROL, true, EVENT_TRACE_CONTROL_STOP},
    {"ControlTraceA(UPDATE)", CONTROL, false, EVENT_TRACE_CONTROL_UPDATE},
    {"ControlTraceW(UPDATE)", CONTROL, true, EVENT_TRACE_CONTROL_UPDATE},
    {"ControlTraceA(FLUSH)", CONTROL, false, EVENT_TRACE_CONTROL_FLUSH},
    {"ControlTraceW(FLUSH)", CONTROL, true, EVENT_TRACE_CONTROL_FLUSH},
    {"ControlTraceA(6)", CONTROL, false, 6},
    {"ControlTraceW(6)", CONTROL, true, 6},
    {"QueryTraceA", CONTROL, false, EVENT_TRACE_CONTROL_QUERY},
    {"QueryTraceW", CONTROL, true, EVENT_TRACE_CONTROL_QUERY},
    {"StopTraceA", CONTROL, false, EVENT_TRACE_CONTROL_STOP},
    {"StopTraceW", CONTROL, true, EVENT_TRACE_CONTROL_STOP},
    {"UpdateTraceA", CONTROL, false, EVENT_TRACE_CONTROL_UPDATE},
    {"UpdateTraceW", CONTROL, true, EVENT_TRACE_CONTROL_UPDATE},
    {"FlushTraceA", CONTROL, false, EVENT_TRACE_CONTROL_FLUSH},
    {"FlushTraceW", CONTROL, true, EVENT_TRACE_CONTROL_FLUSH},
    {"QueryAllTracesA", ALL, false, 0},
    {"QueryAllTracesW", ALL, true, 0},
    {"EnableTrace", ENABLE, false, 0},
    {"EnableTraceEx", ENABLE, false, 1},
    {"EnableTraceEx2", ENABLE, false, 2},
    {"EnumerateTraceGuids", GUIDS, false, 0},
    {"EnumerateTraceGuidsEx", GUIDS_EX, false, 0},
    {"TraceSetInformation", SET, false, 0},
    {"TraceQueryInformation", QUERY, false, 0},
    {"OpenTraceA", OPEN, false, 0},
    {"OpenTraceW", OPEN, true, 0},
    {"ProcessTrace", PROCESS, false, 0},
    {"CloseTrace", CLOSE, false, 0},
    {"EventRegister", PROVIDER, false, 0},
    {"EventUnregister", PROVIDER, false, 0},
    {"EventWrite", PROVIDER, false, 0},
    {"EventWriteTransfer", PROVIDER, false, 0},
    {"EventWriteEx", PROVIDER, false, 0},
    {"EventWriteString", PROVIDER, false, 0},
    {"EventActivityIdControl", PROVIDER, false, 0},
    {"EventSetInformation", PROVIDER, false, 0},
};

static void become_user(const struct call *c)
{
    if (c->as_user)
        ck_assert_int_eq(setgroups(0, NULL) | setgid(NOBODY) | setuid(NOBODY), 0);
}

static ULONG call_control(struct call *c, const WCHAR *name_w)
{
    bool by_control = c->f->name[0] == 'C';
    if (by_control)
        return c->f->wide ? ControlTraceW(c->handle, c->name ? name_w : NULL, c->p, c->f->control)
                          : ControlTraceA(c->handle, c->name, c->p, c->f->control);
    static ULONG (*const w[])(TRACEHANDLE, LPCWSTR, PEVENT_TRACE_PROPERTIES) = {
        QueryTraceW, StopTraceW, UpdateTraceW, FlushTraceW};
    static ULONG (*const a[])(TRACEHANDLE, LPCSTR, PEVENT_TRACE_PROPERTIES) = {
        QueryTraceA, StopTraceA, UpdateTraceA, FlushTraceA};
    return c->f->wide ? w[c->f->control](c->handle, c->name ? name_w : NULL, c->p)
                      : a[c->f->control](c->handle, c->name, c->p);
}

static ULONG call_enable(struct call *c)
{
    switch (c->f->control) {
    case 0:
        return EnableTrace(c->code, 1, c->level, c->provider, c->handle);
    case 1:
        return EnableTraceEx(c->provider, NULL, c->handle, c->code, (UCHAR) c->level, 1, 0, 0,
                             NULL);
    default:
        return EnableTraceEx2(c->handle, c->provider, c->code, (UCHAR) c->level, 1, 0, c->timeout,
                              c->parameters);
    }
}

static ULONG call_open(struct call *c)
{
    TRACEHANDLE h;
    SetLastError(ERROR_SUCCESS);
    h = c->f->wide ? OpenTraceW(c->log_w) : OpenTraceA(c->log_a);
    if (h == INVALID_PROCESSTRACE_HANDLE)
        return GetLastError();
    return CloseTrace(h);
}

ULONG call_now(struct call *c)
{
    static WCHAR name_w[2048];

    if (c->name)
        wide(name_w, c->name);
    become_user(c);
    switch (c->f->family) {
    case START:
        return c->f->wide ? StartTraceW(c->out, c->name ? name_w : NULL, c->p)
                          : StartTraceA(c->out, c->name, c->p);
    case KERNEL:
        return c->f->wide ? StartKernelTraceW(c->out, c->p, c->stacks, c->n_stacks)
                          : StartKernelTrace(c->out, c->p, c->stacks, c->n_stacks);
    case CONTROL:
        return call_control(c, name_w);
    case ALL:
        return c->f->wide ? QueryAllTracesW(c->array, c->n, c->length)
                          : QueryAllTracesA(c->array, c->n, c->length);
    case ENABLE:
        return call_enable(c);
    case GUIDS:
        return EnumerateTraceGuids(c->array, c->n, c->length);
    case GUIDS_EX:
        return EnumerateTraceGuidsEx((TRACE_QUERY_INFO_CLASS) c->class, c->in, c->in_size, c->data,
                                     c->size, c->length);
    case SET:
        return TraceSetInformation(c->handle, (TRACE_INFO_CLASS) c->class, c->data, c->size);
    case QUERY:
        return TraceQueryInformation(c->handle, (TRACE_INFO_CLASS) c->class, c->data, c->size,
                                     c->length);
    case OPEN:
        return call_open(c);
    case PROCESS:
        return ProcessTrace(c->handles, c->n, c->from, c->to);
    case CLOSE:
        return CloseTrace(c->handle);
    case PROVIDER:
        break;
    }
    ck_abort_msg("%s is called by its conditions", c->f->name);
}

TRACEHANDLE session_start(const char *name, const char *file)
{
    static struct test_properties t;
    TRACEHANDLE h;

    properties_init(&t, file);
    t.p.BufferSize = 4;
    ck_assert_uint_eq(StartTraceA(&h, name, &t.p), ERROR_SUCCESS);
    return h;
}

ULONG session_query(const char *name)
{
    static struct test_properties t;
    properties_init(&t, NULL);
    return QueryTraceA(0, name, &t.p);
}

void file_name_set(struct call *c, const char *file)
{
    if (c->f->wide)
        wide((WCHAR *) (void *) (c->t.names + ROOM), file);
    else
        strcpy(c->t.names + ROOM, file);
}

void daemon_away(void)
{
    setenv("ETWD_SOCKET", "/nonexistent/control.sock", 1);
}

/* What rows before have left, whatever became of them. */
static void stop_all(void)
{
    static struct test_properties t[64];
    EVENT_TRACE_PROPERTIES *list[64];
    ULONG count;

    for (int i = 0; i < 64; i++) {
        properties_init(&t[i], NULL);
        list[i] = &t[i].p;
    }
    ck_assert_uint_eq(QueryAllTracesA(list, 64, &count), ERROR_SUCCESS);
    for (ULONG i = 0; i < count; i++)
        ck_assert_uint_eq(StopTraceA(t[i].p.Wnode.HistoricalContext, NULL, &t[i].p), ERROR_SUCCESS);
}

/* A call that succeeds. */
static void call_prepare(struct call *c, bool as_user)
{
    static const GUID provider = {0xCA5E0001, 1, 2, {3, 4, 5, 6, 7, 8, 9, 10}};
    static TRACEHANDLE out;
    static ULONG length;

    c->as_user = as_user;
    if (c->f->family == KERNEL)
        properties_init_kernel(&c->t, NULL);
    else
        properties_init(&c->t, NULL);
    c->p = &c->t.p;
    out = 77;
    c->out = &out;
    c->length = &length;
    if (c->f->family & (START | KERNEL)) {
        c->name = "New";
        (void) unlink("new.etl"); /* another user's, perhaps */
        file_name_set(c, "new.etl");
    } else if (c->f->family & (CONTROL | ENABLE | SET | QUERY))
        c->handle = session_start("Target", "target.etl");
    c->provider = &provider;
    c->code = EVENT_CONTROL_CODE_ENABLE_PROVIDER;
    c->level = 4;
}

static const struct condition *condition_find(const struct condition *list, unsigned family,
                                              const char *name, size_t n)
{
    for (; list->name; list++)
        if (list->families & family && strlen(list->name) == n && memcmp(list->name, name, n) == 0)
            return list;
    return NULL;
}

static uint32_t code_of(const char *name)
{
    static const struct {
        const char *name;
        uint32_t code;
    } more[] = {
#define CODE(x) {#x, ERROR_##x}
        CODE(SUCCESS),
        CODE(INVALID_FUNCTION),
        CODE(FILE_NOT_FOUND),
        CODE(PATH_NOT_FOUND),
        CODE(ACCESS_DENIED),
        CODE(INVALID_HANDLE),
        CODE(BAD_LENGTH),
        CODE(NOT_SUPPORTED),
        CODE(INVALID_PARAMETER),
        CODE(DISK_FULL),
        CODE(INSUFFICIENT_BUFFER),
        CODE(INVALID_NAME),
        CODE(BAD_PATHNAME),
        CODE(ALREADY_EXISTS),
        CODE(MORE_DATA),
        CODE(ARITHMETIC_OVERFLOW),
        CODE(INVALID_FLAGS),
        CODE(CANCELLED),
        CODE(FILE_CORRUPT),
        CODE(NO_SYSTEM_RESOURCES),
        CODE(TIMEOUT),
        CODE(INVALID_TIME),
        CODE(WMI_GUID_NOT_FOUND),
        CODE(WMI_INSTANCE_NOT_FOUND),
        CODE(WMI_SERVER_UNAVAILABLE),
    };
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
        if (strcmp(more[i].name, name) == 0)
            return more[i].code;
    ck_abort_msg("cases.tsv: no code '%s'", name);
}

START_TEST(row)
{
    static struct call c;
    const struct row *r = &rows[_i];
    const char *colon = strchr(r->condition, ':');
    size_t n = colon ? (size_t) (colon - r->condition) : strlen(r->condition);
    const struct condition *k = NULL;
    ULONG code;

    test_need_root();
    ck_assert_int_eq(chdir(dir), 0);
    stop_all();
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (strcmp(functions[i].name, r->function) == 0)
            c.f = &functions[i];
    if (c.f)
        k = condition_find(session_conditions, c.f->family, r->condition, n);
    if (c.f && !k)
        k = condition_find(other_conditions, c.f->family, r->condition, n);
    if (!k)
        ck_abort_msg("cases.tsv: nobody wrote %s, %s", r->function, r->condition);
    call_prepare(&c, strcmp(r->who, "user") == 0);
    code = k->fn(&c, colon ? colon + 1 : "");
    if (code != code_of(r->code))
        ck_abort_msg("%s, %s as %s: %u, and %s says %s", r->function, r->condition, r->who, code,
                     r->source, r->code);
    if (code != ERROR_SUCCESS && c.f->family & (START | KERNEL) && c.out)
        ck_assert_uint_eq(*c.out, 0);
}
END_TEST

static void setup(void)
{
    (void) snprintf(dir, sizeof(dir), "%s/cases", test_tempdir());
    ck_assert_int_eq(mkdir(dir, 0777) | chmod(dir, 0777), 0);
    d = test_daemon_start("-o", "MaxSessions=12", "-o", "MaxSessionsPerUser=3");
}

static void teardown(void)
{
    test_daemon_alive(d);
    test_daemon_stop(d);
    d = test_daemon_free(d);
}

static void read_rows(const char *path)
{
    char *line = NULL;
    size_t size = 0;
    FILE *f = fopen(path, "re");

    if (!f) {
        perror(path);
        exit(2);
    }

    while (getline(&line, &size, f) > 0) {
        char *at;
        struct row *r = &rows[n_rows];
        char **fields[] = {&r->function, &r->condition, &r->code, &r->source, &r->who};
        if (*line == '#')
            continue;
        line[strcspn(line, "\n")] = '\0';
        at = strdup(line);
        if (n_rows == ROWS_MAX) {
            (void) fprintf(stderr, "%s: more than %d rows\n", path, ROWS_MAX);
            exit(2);
        }
        for (size_t i = 0; i < 5; i++) {
            *fields[i] = strsep(&at, "\t");
            if (!*fields[i]) {
                (void) fprintf(stderr, "%s: row %d has no field %zu\n", path, n_rows + 1, i + 1);
                exit(2);
            }
        }
        n_rows++;
    }
    free(line);
    (void) fclose(f);
}

int main(int argc, char **argv)
{
    Suite *s = suite_create("api-cases");
    TCase *tc = tcase_create("cases");

    if (argc != 2)
        return 2;
    read_rows(argv[1]);
    tcase_set_timeout(tc, TEST_HANG_LIMIT_S);
    tcase_add_unchecked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, row, 0, n_rows);
    suite_add_tcase(s, tc);
    return test_main(s);
}
