/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenTraceA, OpenTraceW: opens an .etl file with the caller's own rights, reads its header and
 * tells the caller about it; or takes down the name of a real-time session, which is not asked for
 * before ProcessTrace. Any thread.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "base/winerror.h"

_Static_assert(sizeof(EVENT_TRACE_LOGFILEA) == 448, "EVENT_TRACE_LOGFILEA has the Windows layout");
_Static_assert(sizeof(EVENT_TRACE_LOGFILEW) == 448, "EVENT_TRACE_LOGFILEW has the Windows layout");
_Static_assert(sizeof(TIME_ZONE_INFORMATION) == 172, "TIME_ZONE_INFORMATION is as in files");

/* How much of the first buffer is searched for the record that only kernel sessions write. It is
 * the second of the file. */
#define KERNEL_SEARCH_MAX 65536u

/* A caller's string in either encoding, as an owned copy and as UTF-8. */
static DWORD copy_string(const void *s, bool wide, size_t max, void **ret_copy, char **ret_utf8)
{
    _cleanup_free_ char *utf8 = NULL;
    _cleanup_free_ void *copy = NULL;
    size_t len = wide ? etw_utf16_len(s, max + 1) : strnlen(s, max + 1);
    size_t unit = wide ? sizeof(uint16_t) : 1;

    if (len == 0 || len > max)
        return ERROR_BAD_PATHNAME;
    copy = malloc((len + 1) * unit);
    if (!copy)
        return ERROR_NOT_ENOUGH_MEMORY;
    memcpy(copy, s, len * unit);
    memset((char *) copy + len * unit, 0, unit);
    utf8 = wide ? etw_utf16_dup_utf8(copy, len) : strdup(copy);
    if (!utf8)
        return ERROR_NOT_ENOUGH_MEMORY;
    *ret_copy = TAKE_PTR(copy);
    *ret_utf8 = TAKE_PTR(utf8);
    return ERROR_SUCCESS;
}

/* Windows tells a missing file from a missing directory; open(2) does not. */
static DWORD code_of_missing(const char *path)
{
    _cleanup_free_ char *directory = strdup(path);
    char *slash;
    struct stat st;

    if (!directory)
        return ERROR_NOT_ENOUGH_MEMORY;
    slash = strrchr(directory, '/');
    if (!slash)
        return ERROR_FILE_NOT_FOUND;
    slash[slash == directory] = '\0';
    return stat(directory, &st) < 0 ? ERROR_PATH_NOT_FOUND : ERROR_FILE_NOT_FOUND;
}

static DWORD code_of_open(int error, const char *path)
{
    switch (error) {
    case ENOENT:
        return code_of_missing(path);
    case ENOTDIR:
        return ERROR_PATH_NOT_FOUND;
    case EACCES:
    case EPERM:
        return ERROR_ACCESS_DENIED;
    case EMFILE:
    case ENFILE:
        return ERROR_TOO_MANY_OPEN_FILES;
    case ENAMETOOLONG:
    case ELOOP:
    case EISDIR:
    case ENXIO:
        return ERROR_BAD_PATHNAME;
    default:
        return etw_winerror_from_errno(-error);
    }
}

static DWORD code_of_read(int r)
{
    switch (r) {
    case -EBADMSG:
    case -ENODATA:
        return ERROR_FILE_CORRUPT;
    case -EIO:
        return ERROR_READ_FAULT;
    case -EMFILE:
    case -ENFILE:
        return ERROR_TOO_MANY_OPEN_FILES;
    default:
        return etw_winerror_from_errno(r);
    }
}

/* Only kernel sessions write their group masks into the first buffer. */
static bool has_group_masks(int fd)
{
    _cleanup_free_ uint8_t *data = malloc(KERNEL_SEARCH_MAX);
    struct etl_buffer_info info;
    struct etl_event event;
    struct etl_iter it;
    ssize_t n;

    if (!data)
        return false;
    n = pread(fd, data, KERNEL_SEARCH_MAX, 0);
    if (n < 0 || etl_buffer_parse(data, (size_t) n, &info) < 0)
        return false;
    etl_iter_init(&it, data, (size_t) n, info.end);
    while (etl_iter_next(&it, &event) > 0)
        if (etl_header_is_system(event.header_type) &&
            event.group == ETL_GROUP_EventTrace_Extension &&
            event.opcode == ETL_OPCODE_EventTrace_Extension)
            return true;
    return false;
}

static DWORD copy_header_name(const uint8_t *s, uint32_t len, uint16_t **ret)
{
    uint16_t *name = calloc((size_t) len + 1, sizeof(*name));

    if (!name)
        return ERROR_NOT_ENOUGH_MEMORY;
    if (len > 0)
        memcpy(name, s, (size_t) len * sizeof(*name));
    *ret = name;
    return ERROR_SUCCESS;
}

static void fill_header(TRACE_LOGFILE_HEADER *out, const struct etl_logfile *in)
{
    *out = (TRACE_LOGFILE_HEADER){
        .BufferSize = in->buffer_size,
        .ProviderVersion = in->provider_version,
        .NumberOfProcessors = in->processors,
        .TimerResolution = in->timer_resolution,
        .MaximumFileSize = in->maximum_file_size,
        .LogFileMode = in->log_file_mode,
        .BuffersWritten = in->buffers_written,
        .ReservedFlags = in->clock_type,
        .BuffersLost = in->buffers_lost,
    };
    out->VersionDetail.MajorVersion = in->version[0];
    out->VersionDetail.MinorVersion = in->version[1];
    out->VersionDetail.SubVersion = in->version[2];
    out->VersionDetail.SubMinorVersion = in->version[3];
    out->EndTime.QuadPart = (LONGLONG) in->end_time;
    out->StartBuffers = in->start_buffers;
    out->PointerSize = in->pointer_size;
    out->EventsLost = in->events_lost;
    out->CpuSpeedInMHz = in->cpu_mhz;
    memcpy(&out->TimeZone, in->time_zone, sizeof(out->TimeZone));
    out->BootTime.QuadPart = (LONGLONG) in->boot_time;
    out->PerfFreq.QuadPart = (LONGLONG) in->perf_frequency;
    out->StartTime.QuadPart = (LONGLONG) in->start_time;
}

/* Opens path and fills t->logfile from its header. */
static DWORD open_file(struct trace *t, const char *path, bool wide)
{
    /* O_NONBLOCK: a FIFO must not hang us; regular files ignore it. */
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    EVENT_TRACE_LOGFILEW *lf = &t->logfile;
    const struct etl_logfile *header;
    struct stat st;
    DWORD code;
    int r;

    if (fd < 0)
        return code_of_open(errno, path);
    if (fstat(fd, &st) < 0)
        return code_of_open(errno, path);
    if (!S_ISREG(st.st_mode))
        return ERROR_BAD_PATHNAME;
    r = etl_file_open_fd(fd, &t->file);
    if (r < 0)
        return code_of_read(r);
    header = etl_file_header(t->file);
    etl_logfile_timebase(header, &t->timebase);

    code = copy_header_name(header->logger_name, header->logger_name_len, &t->header_logger_name);
    if (code != ERROR_SUCCESS)
        return code;
    code = copy_header_name(header->log_file_name, header->log_file_name_len,
                            &t->header_log_file_name);
    if (code != ERROR_SUCCESS)
        return code;
    if (!wide) {
        t->logger_name = etw_utf16_dup_utf8(t->header_logger_name, SIZE_MAX);
        if (!t->logger_name)
            return ERROR_NOT_ENOUGH_MEMORY;
    }
    fill_header(&lf->LogfileHeader, header);
    lf->LogfileHeader.LoggerName = (LPWSTR) t->header_logger_name;
    lf->LogfileHeader.LogFileName = (LPWSTR) t->header_log_file_name;
    lf->LoggerName = (LPWSTR) (wide ? t->header_logger_name : t->logger_name);
    lf->BufferSize = header->buffer_size;
    lf->EventsLost = header->events_lost;
    lf->IsKernelTrace =
        has_group_masks(fd) || (header->log_file_mode & ETL_MODE_SYSTEM_LOGGER) ? 1 : 0;
    return ERROR_SUCCESS;
}

static DWORD open_named(struct trace *t, const EVENT_TRACE_LOGFILEW *in, bool wide)
{
    _cleanup_free_ char *path = NULL;
    DWORD code;

    code = copy_string(in->LogFileName, wide, ETW_PATH_MAX - 1, &t->log_file_name, &path);
    if (code != ERROR_SUCCESS)
        return code;
    t->logfile.LogFileName = t->log_file_name;
    return open_file(t, path, wide);
}

static DWORD open_session(struct trace *t, const EVENT_TRACE_LOGFILEW *in, bool wide)
{
    _cleanup_free_ char *name = NULL;
    DWORD code;

    code = copy_string(in->LoggerName, wide, ETW_NAME_MAX, &t->logger_name, &name);
    if (code == ERROR_BAD_PATHNAME)
        return ERROR_INVALID_PARAMETER;
    if (code != ERROR_SUCCESS)
        return code;
    t->real_time = true;
    t->logfile.LoggerName = t->logger_name;
    return ERROR_SUCCESS;
}

/* The variants differ in the type of two strings and one callback's parameter only. */
static TRACEHANDLE open_trace(EVENT_TRACE_LOGFILEW *logfile, bool wide)
{
    _cleanup_(trace_freep) struct trace *t = NULL;
    TRACEHANDLE handle;
    DWORD code;
    int r;

    if (!logfile) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return INVALID_PROCESSTRACE_HANDLE;
    }
    t = trace_new();
    if (!t) {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return INVALID_PROCESSTRACE_HANDLE;
    }
    t->raw_timestamp = logfile->ProcessTraceMode & PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    t->buffer_callback = logfile->BufferCallback;
    t->context = logfile->Context;
    if (logfile->ProcessTraceMode & PROCESS_TRACE_MODE_EVENT_RECORD)
        t->record_callback = logfile->EventRecordCallback;
    else
        t->event_callback = logfile->EventCallback;
    t->logfile.ProcessTraceMode = logfile->ProcessTraceMode;
    t->logfile.BufferCallback = logfile->BufferCallback;
    t->logfile.EventRecordCallback = logfile->EventRecordCallback;
    t->logfile.Context = logfile->Context;

    /* The output LoggerName of an earlier call may still stand there: the file comes first. */
    if (logfile->LogFileName && !(logfile->ProcessTraceMode & PROCESS_TRACE_MODE_REAL_TIME))
        code = open_named(t, logfile, wide);
    else if (logfile->LoggerName)
        code = open_session(t, logfile, wide);
    else
        code = logfile->LogFileName ? ERROR_INVALID_PARAMETER : ERROR_BAD_PATHNAME;
    if (code != ERROR_SUCCESS) {
        SetLastError(code);
        return INVALID_PROCESSTRACE_HANDLE;
    }
    logfile->CurrentTime = 0;
    logfile->BuffersRead = 0;
    logfile->CurrentEvent = (EVENT_TRACE){0};
    logfile->LogfileHeader = t->logfile.LogfileHeader;
    logfile->BufferSize = t->logfile.BufferSize;
    logfile->Filled = 0;
    logfile->EventsLost = t->logfile.EventsLost;
    logfile->IsKernelTrace = t->logfile.IsKernelTrace;
    if (!t->real_time)
        logfile->LoggerName = t->logfile.LoggerName;

    r = trace_publish(t, &handle);
    if (r < 0) {
        SetLastError(r == -EMFILE ? ERROR_TOO_MANY_OPEN_FILES : ERROR_NOT_ENOUGH_MEMORY);
        return INVALID_PROCESSTRACE_HANDLE;
    }
    t = NULL;
    return handle;
}

TRACEHANDLE WMIAPI OpenTraceA(PEVENT_TRACE_LOGFILEA Logfile)
{
    return open_trace((EVENT_TRACE_LOGFILEW *) Logfile, false);
}

TRACEHANDLE WMIAPI OpenTraceW(PEVENT_TRACE_LOGFILEW Logfile)
{
    return open_trace(Logfile, true);
}
