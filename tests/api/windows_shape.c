/* SPDX-License-Identifier: Apache-2.0
 *
 * A tracing program in the shape that Windows programs have: start the kernel logger, let something
 * happen, stop it, open the file and process it. Compiles as C and C++, with and without UNICODE.
 *
 *   windows_shape FILE.etl
 *
 * Prints "events N lost N starts N"; exit status 0, or 1 with a message.
 */
#ifndef _GNU_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <KernelTraceControl.h>
#include <evntcons.h>
#include <evntrace.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAXIMUM_NAME 1024

struct counts {
    ULONGLONG events;
    ULONGLONG process_starts;
    ULONGLONG buffers;
    LONGLONG last_time;
    int header_seen;
    int disorder;
};

/* IsEqualGUID takes pointers in C and references in C++, as on Windows. */
static int is_class(const EVENT_RECORD *event, const GUID *guid)
{
    return memcmp(&event->EventHeader.ProviderId, guid, sizeof(GUID)) == 0;
}

static void WINAPI event_record(PEVENT_RECORD event)
{
    struct counts *counts = (struct counts *) event->UserContext;

    counts->events++;
    if (event->EventHeader.TimeStamp.QuadPart < counts->last_time)
        counts->disorder = 1;
    counts->last_time = event->EventHeader.TimeStamp.QuadPart;
    if (is_class(event, &EventTraceGuid) &&
        event->EventHeader.EventDescriptor.Opcode == EVENT_TRACE_TYPE_INFO) {
        counts->header_seen = 1;
        return;
    }
    if (is_class(event, &ProcessGuid) &&
        event->EventHeader.EventDescriptor.Opcode == EVENT_TRACE_TYPE_START)
        counts->process_starts++;
}

static ULONG WINAPI buffer_done(PEVENT_TRACE_LOGFILE logfile)
{
    struct counts *counts = (struct counts *) logfile->Context;

    counts->buffers++;
    return TRUE;
}

static int failed(const char *what, ULONG code)
{
    char text[256] = "";

    if (FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0,
                       text, sizeof(text), NULL) == 0)
        strcpy(text, "unknown error");
    fprintf(stderr, "%s failed with %u: %s\n", what, code, text);
    return 1;
}

/* The name in the width that the functions of this build take, with its NUL. Returns bytes. */
static size_t put_name(void *place, const char *name)
{
    TCHAR *to = (TCHAR *) place;
    size_t i;

    for (i = 0; name[i] != '\0' && i < MAXIMUM_NAME; i++)
        to[i] = (TCHAR) name[i];
    to[i] = 0;
    return (i + 1) * sizeof(TCHAR);
}

/* Something to see: a few processes. */
static void work(void)
{
    int i;

    for (i = 0; i < 5; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(execl("/bin/true", "true", (char *) NULL));
        if (pid > 0)
            (void) waitpid(pid, NULL, 0);
    }
}

static EVENT_TRACE_PROPERTIES *make_properties(const char *file)
{
    size_t names = (MAXIMUM_NAME + 1) * sizeof(TCHAR);
    size_t size = sizeof(EVENT_TRACE_PROPERTIES) + 2 * names;
    EVENT_TRACE_PROPERTIES *p = (EVENT_TRACE_PROPERTIES *) calloc(1, size);

    if (p == NULL)
        return NULL;
    p->Wnode.BufferSize = (ULONG) size;
    p->Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    p->Wnode.ClientContext = 1;
    p->Wnode.Guid = SystemTraceControlGuid;
    p->EnableFlags = EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_THREAD;
    p->LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
    p->LoggerNameOffset = (ULONG) sizeof(EVENT_TRACE_PROPERTIES);
    p->LogFileNameOffset = (ULONG) (sizeof(EVENT_TRACE_PROPERTIES) + names);
    (void) put_name((char *) p + p->LogFileNameOffset, file);
    return p;
}

static ULONG process(const char *file, struct counts *counts)
{
    static TCHAR name[MAXIMUM_NAME + 1];
    EVENT_TRACE_LOGFILE logfile;
    TRACEHANDLE handle;
    ULONG status;

    (void) put_name(name, file);
    memset(&logfile, 0, sizeof(logfile));
    logfile.LogFileName = name;
    logfile.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    logfile.EventRecordCallback = event_record;
    logfile.BufferCallback = buffer_done;
    logfile.Context = counts;
    handle = OpenTrace(&logfile);
    if (handle == INVALID_PROCESSTRACE_HANDLE)
        return GetLastError();
    status = ProcessTrace(&handle, 1, NULL, NULL);
    (void) CloseTrace(handle);
    return status;
}

int main(int argc, char *argv[])
{
    EVENT_TRACE_PROPERTIES *properties;
    TRACEHANDLE session = 0;
    struct counts counts;
    ULONG status, lost;

    if (argc != 2) {
        fprintf(stderr, "usage: windows_shape FILE.etl\n");
        return 2;
    }
    properties = make_properties(argv[1]);
    if (properties == NULL)
        return failed("calloc", ERROR_OUTOFMEMORY);

    status = StartKernelTrace(&session, properties, NULL, 0);
    if (status != ERROR_SUCCESS) {
        free(properties);
        return failed("StartKernelTrace", status);
    }
    work();
    status = StopTrace(session, KERNEL_LOGGER_NAME, properties);
    lost = properties->EventsLost;
    free(properties);
    if (status != ERROR_SUCCESS)
        return failed("StopTrace", status);

    memset(&counts, 0, sizeof(counts));
    status = process(argv[1], &counts);
    if (status != ERROR_SUCCESS)
        return failed("OpenTrace or ProcessTrace", status);
    if (!counts.header_seen || counts.disorder || counts.buffers == 0) {
        fprintf(stderr, "header %d, disorder %d, buffers %llu\n", counts.header_seen,
                counts.disorder, counts.buffers);
        return 1;
    }
    printf("events %llu lost %u starts %llu\n", counts.events, lost, counts.process_starts);
    return 0;
}
