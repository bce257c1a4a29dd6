/* SPDX-License-Identifier: Apache-2.0
 *
 * See properties.h. The order of the checks is the documented one: mode, names, destination; then
 * what is valid but not there yet.
 */
#include "properties.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf16.h"
#include "base/winerror.h"
#include "etl/build.h"
#include "names.h"

const struct etw_guid system_trace_control_guid =
    ETW_GUID(0x9e814aad, 0x3204, 0x11d2, 0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39);

int refuse(struct refusal *f, uint32_t status, const char *format, ...)
{
    va_list ap;
    f->status = status;
    va_start(ap, format);
    (void) vsnprintf(f->reason, sizeof(f->reason), format, ap);
    va_end(ap);
    return -EINVAL;
}

static const struct {
    uint32_t bits; /* may not stand together */
    const char *names;
} exclusions[] = {
    {ETL_MODE_SEQUENTIAL | ETL_MODE_CIRCULAR, "sequential and circular"},
    {ETL_MODE_SEQUENTIAL | ETL_MODE_NEWFILE, "sequential and newfile"},
    {ETL_MODE_SEQUENTIAL | ETL_MODE_BUFFERING, "sequential and buffering"},
    {ETL_MODE_CIRCULAR | ETL_MODE_APPEND, "circular and append"},
    {ETL_MODE_CIRCULAR | ETL_MODE_NEWFILE, "circular and newfile"},
    {ETL_MODE_CIRCULAR | ETL_MODE_BUFFERING, "circular and buffering"},
    {ETL_MODE_APPEND | ETL_MODE_NEWFILE, "append and newfile"},
    {ETL_MODE_APPEND | ETL_MODE_REAL_TIME, "append and real time"},
    {ETL_MODE_APPEND | ETL_MODE_BUFFERING, "append and buffering"},
    {ETL_MODE_APPEND | ETL_MODE_PRIVATE_LOGGER, "append and private"},
    {ETL_MODE_NEWFILE | ETL_MODE_BUFFERING, "newfile and buffering"},
    {ETL_MODE_PREALLOCATE | ETL_MODE_BUFFERING, "preallocate and buffering"},
    {ETL_MODE_PREALLOCATE | ETL_MODE_PRIVATE_LOGGER, "preallocate and private"},
    {ETL_MODE_REAL_TIME | ETL_MODE_BUFFERING, "real time and buffering"},
    {ETL_MODE_REAL_TIME | ETL_MODE_PRIVATE_LOGGER, "real time and private"},
    {ETL_MODE_PRIVATE_LOGGER | ETL_MODE_INDEPENDENT_SESSION, "private and independent"},
    {ETL_MODE_USE_GLOBAL_SEQUENCE | ETL_MODE_USE_LOCAL_SEQUENCE, "global and local sequence"},
    {ETL_MODE_STOP_ON_HYBRID_SHUTDOWN | ETL_MODE_PERSIST_ON_HYBRID_SHUTDOWN,
     "stop and persist on hybrid shutdown"},
    {ETL_MODE_SYSTEM_LOGGER | ETL_MODE_USE_PAGED_MEMORY, "system logger and paged memory"},
};

static const struct {
    uint32_t bit;
    const char *name;
} later_modes[] = {
    {ETL_MODE_NEWFILE, "a sequence of log files (newfile)"},
    {ETL_MODE_PRIVATE_LOGGER, "private sessions"},
    {ETL_MODE_SYSTEM_LOGGER, "system loggers besides the kernel logger"},
    {ETL_MODE_COMPRESSED, "compressed log files"},
    {ETL_MODE_SECURE, "secure sessions"},
    {ETL_MODE_RELOG, "relogging"},
    {ETL_MODE_RESERVED, "heap sessions"},
};

static int mode_check(const struct session_properties *p, struct refusal *refusal)
{
    uint32_t mode = p->log_file_mode;
    for (size_t i = 0; i < ARRAY_SIZE(exclusions); i++)
        if ((mode & exclusions[i].bits) == exclusions[i].bits)
            return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                          "LogFileMode 0x%x: %s exclude each other", mode, exclusions[i].names);
    if ((mode & ETL_MODE_PRIVATE_IN_PROC) && !(mode & ETL_MODE_PRIVATE_LOGGER))
        return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                      "LogFileMode 0x%x: private-in-process needs the private logger mode", mode);
    if ((mode & (ETL_MODE_CIRCULAR | ETL_MODE_NEWFILE | ETL_MODE_PREALLOCATE)) &&
        p->maximum_file_size == 0)
        return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                      "LogFileMode 0x%x needs a MaximumFileSize", mode);
    if (mode & ETL_MODE_NONSTOPPABLE)
        return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                      "LogFileMode 0x%x: a session that cannot be stopped is for autologgers only",
                      mode);
    if (p->clock > ETW_CLOCK_CYCLE)
        return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                      "clock %u: 1 is QPC, 2 the system time, 3 the cycle counter", p->clock);
    if ((mode & ETL_MODE_APPEND) && p->clock != ETW_CLOCK_SYSTEM)
        return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                      "LogFileMode 0x%x: appending needs the system time as clock (2), not %u",
                      mode, p->clock);
    return 0;
}

static int later_check(const struct session_properties *p, struct refusal *refusal)
{
    for (size_t i = 0; i < ARRAY_SIZE(later_modes); i++)
        if (p->log_file_mode & later_modes[i].bit)
            return refuse(refusal, ETW_ERROR_NOT_SUPPORTED,
                          "LogFileMode 0x%x: this etwd does not have %s yet", p->log_file_mode,
                          later_modes[i].name);
    if (!p->log_file && (p->log_file_mode & ETL_MODE_REAL_TIME))
        return refuse(refusal, ETW_ERROR_NOT_SUPPORTED,
                      "this etwd does not have real-time delivery yet; name a log file");
    if (p->v2_options != 0)
        return refuse(refusal, ETW_ERROR_NOT_SUPPORTED,
                      "this etwd does not have V2Options (0x%llx) yet",
                      (unsigned long long) p->v2_options);
    return 0;
}

static int names_check(struct session_properties *p, bool kernel_call, bool *ret_kernel,
                       struct refusal *refusal)
{
    const char *fault;

    if (kernel_call) {
        if (!etw_guid_equal(&p->guid, &system_trace_control_guid))
            return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                          "StartKernelTrace needs SystemTraceControlGuid");
        char *name = strdup(KERNEL_LOGGER_NAME);
        if (!name)
            return refuse(refusal, ETW_ERROR_NOT_ENOUGH_MEMORY, "etwd is out of memory");
        free(p->name);
        p->name = name;
    }
    fault = p->name ? session_name_fault(p->name) : "the session has no name";
    if (fault)
        return refuse(refusal, ETW_ERROR_INVALID_PARAMETER, "%s", fault);
    bool kernel = strcasecmp(p->name, KERNEL_LOGGER_NAME) == 0;
    if (!kernel && etw_guid_equal(&p->guid, &system_trace_control_guid))
        return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                      "SystemTraceControlGuid is for the session '%s' only", KERNEL_LOGGER_NAME);
    if (kernel) {
        if (p->log_file_mode &
            (ETL_MODE_PRIVATE_LOGGER | ETL_MODE_NEWFILE | ETL_MODE_USE_PAGED_MEMORY))
            return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                          "LogFileMode 0x%x: the kernel logger cannot be private, paged, or write "
                          "a sequence of files",
                          p->log_file_mode);
        p->guid = system_trace_control_guid;
    }
    *ret_kernel = kernel;
    return 0;
}

static int destination_check(const struct session_properties *p, struct refusal *refusal)
{
    if (!p->log_file) {
        if (p->log_file_mode & (ETL_MODE_REAL_TIME | ETL_MODE_BUFFERING))
            return 0;
        return refuse(refusal, ETW_ERROR_BAD_PATHNAME,
                      "the session has no log file, and its mode names no other destination");
    }
    if (p->log_file[0] != '/')
        return refuse(refusal, ETW_ERROR_BAD_PATHNAME, "the log file's path is not absolute");
    if (etw_utf8_to_utf16_size(p->log_file, strlen(p->log_file)) > ETW_NAME_MAX)
        return refuse(refusal, ETW_ERROR_BAD_PATHNAME,
                      "the log file's path is longer than %d characters", ETW_NAME_MAX);
    return 0;
}

int session_flags_check(uint32_t flags, bool strict, struct session_plan *ret,
                        struct refusal *refusal)
{
    char names[256] = "";
    size_t used = 0;
    uint32_t known = 0, later = 0, inert = 0;

    for (const struct etl_enable_flag *f = etl_enable_flags; f->name; f++) {
        known |= f->bit;
        if (!(flags & f->bit))
            continue;
        if (f->support == ETL_FLAG_INERT)
            inert |= f->bit;
        if (f->support != ETL_FLAG_LATER)
            continue;
        later |= f->bit;
        int n = snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "", f->name);
        if (n > 0 && (size_t) n < sizeof(names) - used)
            used += (size_t) n;
    }
    if (strict && (flags & ~known))
        return refuse(refusal, ETW_ERROR_INVALID_FLAGS, "EnableFlags 0x%x: 0x%x is not defined",
                      flags, flags & ~known);
    if (later)
        return refuse(refusal, ETW_ERROR_NOT_SUPPORTED,
                      "EnableFlags 0x%x: this etwd does not have these kernel events yet: %s",
                      flags, names);
    ret->inert_flags = inert;
    etl_masks_from_flags(flags & known & ~inert, ret->masks);
    return 0;
}

int session_stack_check(const struct etw_guid *guid, uint32_t type, const uint32_t masks[8],
                        struct refusal *refusal)
{
    if (type > UINT8_MAX)
        return 0;
    const struct etl_class_row *row = etl_find_row(guid, (uint8_t) type, UINT8_MAX);
    if (!row || !row->mask_bit || !(masks[row->mask] & row->mask_bit))
        return 0;
    return refuse(refusal, ETW_ERROR_NOT_SUPPORTED,
                  "%s %s: this etwd does not have stacks of kernel events yet", row->class_name,
                  row->event_name);
}

/* The least buffer that takes the log-file header with both names, in KiB. */
static int header_need_kb(const struct session_properties *p, bool kernel, uint32_t *ret)
{
    _cleanup_free_ uint16_t *name = etw_utf8_dup_utf16(p->name, SIZE_MAX);
    _cleanup_free_ uint16_t *file = etw_utf8_dup_utf16(p->log_file ? p->log_file : "", SIZE_MAX);
    if (!name || !file)
        return -ENOMEM;
    struct etl_logfile_params lf = {.kernel = kernel, .logger_name = name, .log_file_name = file};
    uint32_t kb = (etl_logfile_buffer_need(&lf) + 1023) / 1024;
    *ret = ALIGN_UP(kb, ETW_BUFFER_KB_MIN);
    return 0;
}

uint64_t session_file_bytes(const struct session_properties *p)
{
    uint64_t unit = p->log_file_mode & ETL_MODE_USE_KBYTES_FOR_SIZE ? 1024 : 1024 * 1024;
    return p->maximum_file_size * unit;
}

int session_properties_adjust(struct session_properties *p, bool kernel_call, unsigned cpus,
                              const struct etw_conf *conf, struct session_plan *ret,
                              struct refusal *refusal)
{
    struct session_plan plan = {0};
    int r;

    r = mode_check(p, refusal);
    if (r < 0)
        return r;
    r = names_check(p, kernel_call, &plan.kernel, refusal);
    if (r < 0)
        return r;
    if (plan.kernel) {
        r = session_flags_check(p->enable_flags, kernel_call, &plan, refusal);
        if (r < 0)
            return r;
    } else
        p->enable_flags = 0; /* for system loggers only */
    r = destination_check(p, refusal);
    if (r < 0)
        return r;
    r = later_check(p, refusal);
    if (r < 0)
        return r;

    if (p->clock == 0)
        p->clock = ETW_CLOCK_QPC;

    uint32_t need_kb;
    r = header_need_kb(p, plan.kernel, &need_kb);
    if (r < 0)
        return refuse(refusal, ETW_ERROR_NOT_ENOUGH_MEMORY, "etwd is out of memory");
    if (p->buffer_size_kb == 0)
        p->buffer_size_kb = ETW_BUFFER_KB_DEFAULT;
    if (p->buffer_size_kb < ETW_BUFFER_KB_MIN)
        p->buffer_size_kb = ETW_BUFFER_KB_MIN;
    if (p->buffer_size_kb > ETW_BUFFER_KB_MAX)
        p->buffer_size_kb = ETW_BUFFER_KB_MAX;
    if (p->buffer_size_kb < need_kb)
        p->buffer_size_kb = need_kb;

    /* Two a CPU: one is filled while the other is written. */
    uint32_t least = p->log_file_mode & ETL_MODE_NO_PER_PROCESSOR_BUFFERING ? 2 : 2 * cpus;
    if (p->minimum_buffers < least)
        p->minimum_buffers = least;
    if (p->maximum_buffers == 0) {
        uint32_t more;
        if (__builtin_add_overflow(p->minimum_buffers, (uint32_t) ETW_BUFFERS_EXTRA, &more))
            more = UINT32_MAX;
        if (plan.kernel && more < conf->kernel_default_buffers)
            more = (uint32_t) conf->kernel_default_buffers;
        p->maximum_buffers = more;
    }
    if (p->maximum_buffers < p->minimum_buffers)
        p->maximum_buffers = p->minimum_buffers;

    if (p->log_file_mode & ETL_MODE_BUFFERING) {
        /* MinimumBuffers of memory, nothing else; files come with FlushTrace. */
        p->maximum_buffers = p->minimum_buffers;
        p->maximum_file_size = 0;
        p->flush_timer_s = 0;
        free(p->log_file);
        p->log_file = NULL;
    }
    if (p->log_file_mode & ETL_MODE_USE_MS_FLUSH_TIMER && p->flush_timer_s > 0 &&
        p->flush_timer_s < ETWD_FLUSH_MS_MIN)
        p->flush_timer_s = ETWD_FLUSH_MS_MIN;
    if (p->log_file && (p->log_file_mode & ETL_MODE_REAL_TIME) && p->flush_timer_s == 0 &&
        !(p->log_file_mode & ETL_MODE_USE_MS_FLUSH_TIMER))
        p->flush_timer_s = 1; /* documented: with real time, a second */

    plan.file_bytes_max = session_file_bytes(p);
    if (plan.file_bytes_max > 0) {
        uint64_t places = plan.file_bytes_max / (p->buffer_size_kb * 1024) - 1;
        if (plan.file_bytes_max < 2 * (uint64_t) p->buffer_size_kb * 1024)
            return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                          "MaximumFileSize %u: below two buffers of %u KiB, one of them the "
                          "header's",
                          p->maximum_file_size, p->buffer_size_kb);
        if ((p->log_file_mode & ETL_MODE_CIRCULAR) && places > ETWD_CIRCULAR_BUFFERS_MAX)
            return refuse(refusal, ETW_ERROR_INVALID_PARAMETER,
                          "MaximumFileSize %u: a circular file has at most %u buffers, here of %u "
                          "KiB: take larger ones",
                          p->maximum_file_size, ETWD_CIRCULAR_BUFFERS_MAX, p->buffer_size_kb);
    }
    if (etw_guid_is_null(&p->guid) && etw_guid_random(&p->guid) < 0)
        return refuse(refusal, ETW_ERROR_GEN_FAILURE, "no random numbers could be had");
    *ret = plan;
    return 0;
}
