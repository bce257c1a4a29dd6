/* SPDX-License-Identifier: Apache-2.0
 *
 * A consumer in the shape that Windows programs have: OpenTrace, ProcessTrace, and in the callback
 * TdhGetEventInformation, TdhGetEventMapInformation, TdhGetProperty for counts and lengths, and
 * TdhFormatProperty over all properties, structures and arrays among them. Compiles as C and C++.
 *
 *   windows_consumer FILE.etl
 *
 * Prints a line "EVENT {provider} id version" for each event, behind it "NAME=VALUE" for each value
 * (control characters as dots), or "?" when nobody can decode it. Exit status 0, or 1 with a
 * message.
 */
#ifndef _GNU_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <evntcons.h>
#include <evntrace.h>
#include <tdh.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16

struct decoder {
    PEVENT_RECORD event;
    PTRACE_EVENT_INFO info;
    PBYTE data;
    PBYTE end;
    ULONG pointer_size;
};

static int broken;

static void print_wide(const WCHAR *s)
{
    for (; *s != 0; s++) {
        ULONG c = (ULONG) *s;

        if (c >= 0xD800 && c < 0xDC00 && (ULONG) s[1] >= 0xDC00 && (ULONG) s[1] < 0xE000)
            c = 0x10000 + ((c - 0xD800) << 10) + ((ULONG) * ++s - 0xDC00);
        if (c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0xD800 && c < 0xE000)) {
            putchar('.');
        } else if (c < 0x80) {
            putchar((int) c);
        } else if (c < 0x800) {
            printf("%c%c", (int) (0xC0 | c >> 6), (int) (0x80 | (c & 0x3F)));
        } else if (c < 0x10000) {
            printf("%c%c%c", (int) (0xE0 | c >> 12), (int) (0x80 | (c >> 6 & 0x3F)),
                   (int) (0x80 | (c & 0x3F)));
        } else {
            printf("%c%c%c%c", (int) (0xF0 | c >> 18), (int) (0x80 | (c >> 12 & 0x3F)),
                   (int) (0x80 | (c >> 6 & 0x3F)), (int) (0x80 | (c & 0x3F)));
        }
    }
}

static const WCHAR *text_at(const struct decoder *d, ULONG offset)
{
    return (const WCHAR *) (const void *) ((PBYTE) d->info + offset);
}

static void *grow(void *old, ULONG size)
{
    void *p = realloc(old, size);

    if (p == NULL) {
        perror("realloc");
        exit(1);
    }
    return p;
}

/* The value of a property that holds a count or a length. */
static ULONG number_of(const struct decoder *d, ULONG index)
{
    PROPERTY_DATA_DESCRIPTOR name;
    ULONG size = 0;
    ULONG value = 0;

    memset(&name, 0, sizeof(name));
    name.PropertyName =
        (ULONGLONG) (size_t) text_at(d, d->info->EventPropertyInfoArray[index].NameOffset);
    name.ArrayIndex = 0xFFFFFFFFu;
    if (TdhGetPropertySize(d->event, 0, NULL, 1, &name, &size) != ERROR_SUCCESS ||
        size > sizeof(value) ||
        TdhGetProperty(d->event, 0, NULL, 1, &name, size, (PBYTE) &value) != ERROR_SUCCESS)
        broken = 1;
    return value;
}

static PEVENT_MAP_INFO map_of(const struct decoder *d, ULONG offset)
{
    PEVENT_MAP_INFO map = NULL;
    ULONG size = 0;
    ULONG code;

    if (offset == 0)
        return NULL;
    code = TdhGetEventMapInformation(d->event, (LPWSTR) (size_t) text_at(d, offset), NULL, &size);
    if (code != ERROR_INSUFFICIENT_BUFFER)
        return NULL;
    map = (PEVENT_MAP_INFO) grow(NULL, size);
    code = TdhGetEventMapInformation(d->event, (LPWSTR) (size_t) text_at(d, offset), map, &size);
    if (code == ERROR_SUCCESS)
        return map;
    free(map);
    return NULL;
}

/* Whether it went well. */
static int print_property(struct decoder *d, ULONG index, int depth);

static int print_element(struct decoder *d, const EVENT_PROPERTY_INFO *p, PEVENT_MAP_INFO map)
{
    ULONG size = 256;
    PWSTR text = (PWSTR) grow(NULL, size);
    USHORT length = p->length;
    USHORT used = 0;
    ULONG code;

    if (p->Flags & PropertyParamLength)
        length = (USHORT) number_of(d, p->lengthPropertyIndex);
    for (;;) {
        code = TdhFormatProperty(d->info, map, d->pointer_size, p->nonStructType.InType,
                                 p->nonStructType.OutType, length, (USHORT) (d->end - d->data),
                                 d->data, &size, text, &used);
        if (code == ERROR_INSUFFICIENT_BUFFER) {
            text = (PWSTR) grow(text, size);
            continue;
        }
        /* A value that the map does not know. */
        if (code == ERROR_EVT_INVALID_EVENT_DATA && map != NULL) {
            map = NULL;
            continue;
        }
        break;
    }
    if (code == ERROR_SUCCESS) {
        print_wide(text_at(d, p->NameOffset));
        putchar('=');
        print_wide(text);
        putchar('\n');
        d->data += used;
    }
    free(text);
    return code == ERROR_SUCCESS;
}

static int print_property(struct decoder *d, ULONG index, int depth)
{
    const EVENT_PROPERTY_INFO *p = &d->info->EventPropertyInfoArray[index];
    ULONG count = p->count;
    PEVENT_MAP_INFO map = NULL;
    int good = 1;
    ULONG i;
    ULONG m;

    if (depth > DEPTH_MAX)
        return 0;
    if (p->Flags & PropertyParamCount)
        count = number_of(d, p->countPropertyIndex);
    if (!(p->Flags & PropertyStruct))
        map = map_of(d, p->nonStructType.MapNameOffset);
    for (i = 0; i < count && good; i++) {
        if (p->Flags & PropertyStruct) {
            for (m = 0; m < p->structType.NumOfStructMembers && good; m++)
                good = print_property(d, (ULONG) p->structType.StructStartIndex + m, depth + 1);
        } else {
            good = print_element(d, p, map);
        }
    }
    free(map);
    return good;
}

static void WINAPI event_record(PEVENT_RECORD event)
{
    const GUID *g = &event->EventHeader.ProviderId;
    struct decoder d;
    ULONG size = 0;
    ULONG code;
    ULONG i;

    printf("EVENT {%08x-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x} %u %u\n", g->Data1, g->Data2,
           g->Data3, g->Data4[0], g->Data4[1], g->Data4[2], g->Data4[3], g->Data4[4], g->Data4[5],
           g->Data4[6], g->Data4[7], event->EventHeader.EventDescriptor.Id,
           event->EventHeader.EventDescriptor.Version);
    memset(&d, 0, sizeof(d));
    d.event = event;
    code = TdhGetEventInformation(event, 0, NULL, NULL, &size);
    if (code == ERROR_INSUFFICIENT_BUFFER) {
        d.info = (PTRACE_EVENT_INFO) grow(NULL, size);
        code = TdhGetEventInformation(event, 0, NULL, d.info, &size);
    }
    if (code != ERROR_SUCCESS) {
        printf("?\n");
        free(d.info);
        return;
    }
    d.pointer_size = event->EventHeader.Flags & EVENT_HEADER_FLAG_32_BIT_HEADER ? 4 : 8;
    d.data = (PBYTE) event->UserData;
    d.end = d.data + event->UserDataLength;
    for (i = 0; i < d.info->TopLevelPropertyCount; i++)
        if (!print_property(&d, i, 0)) {
            printf("?\n");
            break;
        }
    free(d.info);
}

int main(int argc, char **argv)
{
    EVENT_TRACE_LOGFILEA log;
    TRACEHANDLE handle;
    ULONG code;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE.etl\n", argv[0]);
        return 2;
    }
    memset(&log, 0, sizeof(log));
    log.LogFileName = argv[1];
    log.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    log.EventRecordCallback = event_record;
    handle = OpenTraceA(&log);
    if (handle == INVALID_PROCESSTRACE_HANDLE) {
        fprintf(stderr, "OpenTrace failed with %u\n", GetLastError());
        return 1;
    }
    code = ProcessTrace(&handle, 1, NULL, NULL);
    if (code != ERROR_SUCCESS)
        fprintf(stderr, "ProcessTrace failed with %u\n", code);
    (void) CloseTrace(handle);
    if (broken)
        fprintf(stderr, "a count or a length could not be read\n");
    return code != ERROR_SUCCESS || broken;
}
