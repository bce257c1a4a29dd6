/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions of the functions for enables, providers, information and consumers. See cases.h.
 */
#include "cases.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static ULONG provider_null(struct call *c, const char *a)
{
    (void) a;
    c->provider = NULL;
    return call_now(c);
}

static ULONG provider_zero(struct call *c, const char *a)
{
    static const GUID none;
    (void) a;
    c->provider = &none;
    return call_now(c);
}

static ULONG stopped_before(struct call *c, const char *a)
{
    static struct test_properties t;
    properties_init(&t, NULL);
    ck_assert_uint_eq(StopTraceA(c->handle, NULL, &t.p), ERROR_SUCCESS);
    return a[0] ? handle_is(c, a) : call_now(c);
}

static ULONG code_is(struct call *c, const char *a)
{
    c->code = number(a);
    return call_now(c);
}

static ULONG capture(struct call *c, const char *a)
{
    (void) a;
    ck_assert_uint_eq(EnableTraceEx2(c->handle, c->provider, 1, 4, 0, 0, 0, NULL), ERROR_SUCCESS);
    return code_is(c, "2");
}

static ULONG level_is(struct call *c, const char *a)
{
    c->level = number(a);
    return call_now(c);
}

static ULONG ninth_session(struct call *c, const char *a)
{
    (void) a;
    for (int i = 0; i < 8; i++) {
        char name[32], file[32];
        (void) snprintf(name, sizeof(name), "Enabler %d", i);
        (void) snprintf(file, sizeof(file), "enabler%d.etl", i);
        ck_assert_uint_eq(
            EnableTraceEx2(session_start(name, file), c->provider, 1, 4, 0, 0, 0, NULL), 0);
    }
    return call_now(c);
}

static ULONG kernel_logger(struct call *c, const char *a)
{
    static struct test_properties t;
    (void) a;
    properties_init_kernel(&t, "kernel.etl");
    ck_assert_uint_eq(StartKernelTrace(&c->handle, &t.p, NULL, 0), ERROR_SUCCESS);
    return call_now(c);
}

static ENABLE_TRACE_PARAMETERS parameters;
static EVENT_FILTER_DESCRIPTOR filters[14];
static unsigned char filter_data[8192];

static ULONG version_is(struct call *c, const char *a)
{
    parameters.Version = number(a);
    c->parameters = &parameters;
    return call_now(c);
}

static ULONG property_is(struct call *c, const char *a)
{
    parameters.EnableProperty = number(a);
    return version_is(c, "2");
}

/* "COUNT of TYPE, SIZE" */
static ULONG filters_are(struct call *c, const char *a)
{
    unsigned n, type, size;
    ck_assert_int_eq(sscanf(a, "%u of %x, %u", &n, &type, &size), 3);
    for (unsigned i = 0; i < n; i++)
        filters[i] = (EVENT_FILTER_DESCRIPTOR){
            .Ptr = (ULONGLONG) (uintptr_t) filter_data, .Size = size, .Type = type};
    parameters.EnableFilterDesc = filters;
    parameters.FilterDescCount = n;
    return version_is(c, "2");
}

static ULONG event_ids(struct call *c, const char *a)
{
    EVENT_FILTER_EVENT_ID head = {.FilterIn = 1, .Count = (USHORT) number(a)};
    char text[64];
    memcpy(filter_data, &head, sizeof(head));
    (void) snprintf(text, sizeof(text), "1 of 80000200, %u", 4 + 2 * number(a));
    return filters_are(c, text);
}

static int release_pipe[2];

static void WINAPI waits(LPCGUID s, ULONG on, UCHAR l, ULONGLONG any, ULONGLONG all,
                         PEVENT_FILTER_DESCRIPTOR f, PVOID x)
{
    char byte;
    (void) s, (void) on, (void) l, (void) any, (void) all, (void) f, (void) x;
    (void) !read(release_pipe[0], &byte, 1);
}

static ULONG callback_hangs(struct call *c, const char *a)
{
    REGHANDLE h;
    ULONG code;
    ck_assert_int_eq(pipe(release_pipe), 0);
    ck_assert_uint_eq(EventRegister(c->provider, waits, NULL, &h), ERROR_SUCCESS);
    c->timeout = number(a);
    code = call_now(c);
    ck_assert_int_eq(close(release_pipe[1]), 0);
    return code;
}

/* ---- lists of providers ---- */

static ULONG guids_as(struct call *c, const char *a)
{
    static TRACE_GUID_PROPERTIES one;
    static TRACE_GUID_PROPERTIES *list[] = {&one};
    REGHANDLE h;

    if (strchr(a, '+'))
        ck_assert_uint_eq(EventRegister(c->provider, NULL, NULL, &h), ERROR_SUCCESS);
    c->array = strchr(a, 'a') ? NULL : list;
    c->length = strchr(a, 'c') ? NULL : c->length;
    if (strchr(a, 'e'))
        list[0] = NULL;
    c->n = number(a + strcspn(a, "0123456789"));
    return call_now(c);
}

/* "CLASS, IN, SIZE"; a provider is registered. */
static ULONG guids_ex(struct call *c, const char *a)
{
    static unsigned char out[65536];
    static GUID guid;
    REGHANDLE h;

    guid = *c->provider;
    ck_assert_uint_eq(EventRegister(c->provider, NULL, NULL, &h), ERROR_SUCCESS);
    ck_assert_int_eq(sscanf(a, "%u, %u, %u", &c->class, &c->in_size, &c->size), 3);
    if (c->class == TraceGuidQueryProcess) {
        ULONG pid = (ULONG) getpid();
        memcpy(&guid, &pid, sizeof(pid));
    }
    c->in = c->in_size ? &guid : NULL;
    c->data = out;
    return call_now(c);
}

static ULONG guids_ex_unknown(struct call *c, const char *a)
{
    static GUID guid = {0xDEAD, 1, 2, {3}};
    static unsigned char out[64];
    (void) a;
    c->class = TraceGuidQueryInfo;
    c->in = &guid;
    c->in_size = sizeof(guid);
    c->data = out;
    c->size = sizeof(out);
    return call_now(c);
}

static ULONG length_null(struct call *c, const char *a)
{
    (void) a;
    c->length = NULL;
    return call_now(c);
}

static ULONG out_null(struct call *c, const char *a)
{
    c->size = number(a);
    return call_now(c);
}

/* ---- information ---- */

static unsigned char information[16384];

/* "CLASS, SIZE" */
static ULONG class_is(struct call *c, const char *a)
{
    ck_assert_int_eq(sscanf(a, "%u, %u", &c->class, &c->size), 2);
    c->data = information;
    return call_now(c);
}

static ULONG class_null(struct call *c, const char *a)
{
    ck_assert_int_eq(sscanf(a, "%u, %u", &c->class, &c->size), 2);
    return call_now(c);
}

static ULONG class_no_session(struct call *c, const char *a)
{
    int at = 0;
    ck_assert_int_ge(sscanf(a, "%llu, %n", (unsigned long long *) &c->handle, &at), 1);
    return class_is(c, a + at);
}

static ULONG class_stopped(struct call *c, const char *a)
{
    static struct test_properties t;
    properties_init(&t, NULL);
    ck_assert_uint_eq(StopTraceA(c->handle, NULL, &t.p), ERROR_SUCCESS);
    return class_is(c, a);
}

static ULONG class_of_kernel(struct call *c, const char *a)
{
    static struct test_properties t;
    CLASSIC_EVENT_ID id = {.EventGuid = ProcessGuid, .Type = 1};
    ULONG flags = EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_THREAD;

    properties_init_kernel(&t, "kernel.etl");
    ck_assert_uint_eq(StartKernelTrace(&c->handle, &t.p, NULL, 0), ERROR_SUCCESS);
    if (number(a) == TraceStackTracingInfo)
        memcpy(information, &id, sizeof(id));
    else
        memcpy(information, &flags, sizeof(flags));
    return class_is(c, a);
}

static ULONG class_filled(struct call *c, const char *a)
{
    memset(information, 0xFF, sizeof(information));
    return class_is(c, a);
}

/* ---- consumers ---- */

static ULONG open_as(struct call *c, const char *a)
{
    static EVENT_TRACE_LOGFILEA la;
    static EVENT_TRACE_LOGFILEW lw;
    static char file[512];
    static WCHAR file_w[512];

    (void) snprintf(file, sizeof(file), "%s", a);
    wide(file_w, file);
    la.LogFileName = *a ? file : NULL;
    lw.LogFileName = *a ? file_w : NULL;
    c->log_a = &la;
    c->log_w = &lw;
    return call_now(c);
}

static ULONG open_garbage(struct call *c, const char *a)
{
    int fd = open("garbage.etl", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    (void) a;
    ck_assert_int_eq(write(fd, filter_data, sizeof(filter_data)), sizeof(filter_data));
    ck_assert_int_eq(close(fd), 0);
    return open_as(c, "garbage.etl");
}

static ULONG open_secret(struct call *c, const char *a)
{
    int fd = open("secret.etl", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    (void) a;
    ck_assert_int_eq(close(fd), 0);
    return open_as(c, "secret.etl");
}

static TRACEHANDLE a_trace(const char *mark)
{
    static struct test_properties t;
    static EVENT_TRACE_LOGFILEA l;
    static char file[64];
    TRACEHANDLE h = session_start("Traced", "traced.etl");

    (void) mark;
    properties_init(&t, NULL);
    ck_assert_uint_eq(StopTraceA(h, NULL, &t.p), ERROR_SUCCESS);
    strcpy(file, "traced.etl");
    l.LogFileName = file;
    h = OpenTraceA(&l);
    ck_assert_uint_ne(h, INVALID_PROCESSTRACE_HANDLE);
    return h;
}

static ULONG open_valid(struct call *c, const char *a)
{
    (void) CloseTrace(a_trace(a));
    return open_as(c, "traced.etl");
}

static ULONG process_as(struct call *c, const char *a)
{
    static TRACEHANDLE handles[65];
    static FILETIME from = {0, 2}, to = {0, 1};

    handles[0] = strchr(a, 'h') ? 0x123456 : a_trace(a);
    c->handles = strchr(a, 'n') ? NULL : handles;
    c->n = number(a + strcspn(a, "0123456789"));
    if (strchr(a, 't')) {
        c->from = &from;
        c->to = &to;
    }
    if (strchr(a, '2'))
        ck_assert_uint_eq(CloseTrace(handles[0]), ERROR_SUCCESS);
    return call_now(c);
}

static ULONG close_open(struct call *c, const char *a)
{
    c->handle = a_trace(a);
    return call_now(c);
}

static ULONG close_twice(struct call *c, const char *a)
{
    c->handle = a_trace(a);
    ck_assert_uint_eq(call_now(c), ERROR_SUCCESS);
    return call_now(c);
}

/* ---- providers: the condition makes the call ---- */

static ULONG register_null(struct call *c, const char *a)
{
    REGHANDLE h = 5;
    ULONG code =
        EventRegister(strchr(a, 'g') ? NULL : c->provider, NULL, NULL, strchr(a, 'h') ? NULL : &h);
    if (code != ERROR_SUCCESS && !strchr(a, 'h'))
        ck_assert_uint_eq(h, 0);
    return code;
}

static ULONG register_valid(struct call *c, const char *a)
{
    REGHANDLE h;
    if (strchr(a, 'd'))
        daemon_away();
    if (strchr(a, '2'))
        ck_assert_uint_eq(EventRegister(c->provider, NULL, NULL, &h), ERROR_SUCCESS);
    return EventRegister(c->provider, NULL, NULL, &h);
}

static ULONG register_many(struct call *c, const char *a)
{
    REGHANDLE h;
    for (ULONG i = 0; i < number(a); i++)
        ck_assert_uint_eq(EventRegister(c->provider, NULL, NULL, &h), ERROR_SUCCESS);
    return EventRegister(c->provider, NULL, NULL, &h);
}

static ULONG unregister(struct call *c, const char *a)
{
    REGHANDLE h = 0;
    if (*a == '0')
        return EventUnregister(0);
    ck_assert_uint_eq(EventRegister(c->provider, NULL, NULL, &h), ERROR_SUCCESS);
    if (*a == '2')
        ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
    return EventUnregister(h);
}

static ULONG write_one(const struct call *c, REGHANDLE h, const EVENT_DESCRIPTOR *e, ULONG n,
                       EVENT_DATA_DESCRIPTOR *d)
{
    const char *f = c->f->name;
    if (strcmp(f, "EventWrite") == 0)
        return EventWrite(h, e, n, d);
    if (strcmp(f, "EventWriteTransfer") == 0)
        return EventWriteTransfer(h, e, NULL, NULL, n, d);
    if (strcmp(f, "EventWriteEx") == 0)
        return EventWriteEx(h, e, 0, 0, NULL, NULL, n, d);
    return EventWriteString(h, 4, 1, e ? u"text" : NULL);
}

/* Letters: h handle 0, u unregistered, e no descriptor or string, d no data, n 129 data, b above
 * 64 KiB, s above the session's buffer, + enabled. */
static ULONG write_as(struct call *c, const char *a)
{
    static const EVENT_DESCRIPTOR e = {.Id = 1, .Level = 4, .Keyword = 1};
    static EVENT_DATA_DESCRIPTOR d[129];
    static unsigned char data[70000];
    ULONG n = 0;
    REGHANDLE h;

    if (strchr(a, '+'))
        ck_assert_uint_eq(
            EnableTraceEx2(session_start("Target", "target.etl"), c->provider, 1, 5, 0, 0, 0, NULL),
            ERROR_SUCCESS);
    ck_assert_uint_eq(EventRegister(c->provider, NULL, NULL, &h), ERROR_SUCCESS);
    if (strchr(a, 'u'))
        ck_assert_uint_eq(EventUnregister(h), ERROR_SUCCESS);
    if (strchr(a, 'd'))
        n = 1;
    if (strchr(a, 'n'))
        n = 129;
    if (strchr(a, 'b') || strchr(a, 's')) {
        EventDataDescCreate(&d[0], data, strchr(a, 'b') ? 70000 : 10000);
        n = 1;
    }
    return write_one(c, strchr(a, 'h') ? 0 : h, strchr(a, 'e') ? NULL : &e, n,
                     strchr(a, 'd') ? NULL : d);
}

static ULONG activity(struct call *c, const char *a)
{
    GUID g = {0};
    (void) c;
    return EventActivityIdControl(number(a), strchr(a, 'n') ? NULL : &g);
}

/* "HANDLE CLASS, SIZE": handle - or +. */
static ULONG provider_information(struct call *c, const char *a)
{
    unsigned class, size;
    REGHANDLE h;

    ck_assert_int_eq(sscanf(a + 1, " %u, %u", &class, &size), 2);
    ck_assert_uint_eq(EventRegister(c->provider, NULL, NULL, &h), ERROR_SUCCESS);
    return EventSetInformation(*a == '-' ? 0 : h, (EVENT_INFO_CLASS) class,
                               size ? information : NULL, size);
}

const struct condition other_conditions[] = {
    {ENABLE | GUIDS | GUIDS_EX | SET | QUERY, "no daemon", no_daemon},
    {ENABLE, "valid", plain},
    {ENABLE, "provider NULL", provider_null},
    {ENABLE, "provider 0", provider_zero},
    {ENABLE | CLOSE, "handle", handle_is},
    {ENABLE, "stopped before", stopped_before},
    {ENABLE, "control code", code_is},
    {ENABLE, "enabled before, capture state", capture},
    {ENABLE, "level", level_is},
    {ENABLE, "ninth session", ninth_session},
    {ENABLE, "kernel logger", kernel_logger},
    {ENABLE, "version", version_is},
    {ENABLE, "property", property_is},
    {ENABLE, "filters", filters_are},
    {ENABLE, "event ids", event_ids},
    {ENABLE, "callback hangs, timeout", callback_hangs},
    {GUIDS, "array", guids_as},
    {GUIDS_EX, "class, in, out", guids_ex},
    {GUIDS_EX, "unknown GUID", guids_ex_unknown},
    {GUIDS_EX, "length NULL", length_null},
    {GUIDS_EX, "out NULL", out_null},
    {SET | QUERY, "class", class_is},
    {SET | QUERY, "NULL, class", class_null},
    {SET | QUERY, "handle and class", class_no_session},
    {SET | QUERY, "stopped, class", class_stopped},
    {SET | QUERY, "kernel logger, class", class_of_kernel},
    {SET, "ones, class", class_filled},
    {OPEN, "structure NULL", plain},
    {OPEN, "file", open_as},
    {OPEN, "garbage", open_garbage},
    {OPEN, "unreadable", open_secret},
    {OPEN, "valid", open_valid},
    {PROCESS, "handles", process_as},
    {CLOSE, "open", close_open},
    {CLOSE, "closed before", close_twice},
    {PROVIDER, "NULL", register_null},
    {PROVIDER, "register", register_valid},
    {PROVIDER, "registrations before", register_many},
    {PROVIDER, "unregister", unregister},
    {PROVIDER, "write", write_as},
    {PROVIDER, "activity", activity},
    {PROVIDER, "information", provider_information},
    {0},
};
