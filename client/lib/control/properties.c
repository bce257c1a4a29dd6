/* SPDX-License-Identifier: Apache-2.0
 *
 * EVENT_TRACE_PROPERTIES and the names behind it: sizes and places checked, names read, results
 * written back. The structure is the caller's, in the caller's memory: what it says is checked once
 * and then used from the view. Names need not be aligned. Any thread, one caller a structure.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/utf16.h"

_Static_assert(sizeof(WCHAR) == 2 && sizeof(ULONG) == 4, "Windows types");
_Static_assert(sizeof(EVENT_TRACE_PROPERTIES) == 120 && sizeof(EVENT_TRACE_PROPERTIES_V2) == 144,
               "layouts of Windows");

static uint32_t minimum(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Bytes from offset to the other name or the end. offset < size. */
static uint32_t room(uint32_t offset, uint32_t other, uint32_t size)
{
    return (other > offset ? minimum(other, size) : size) - offset;
}

uint32_t properties_view(EVENT_TRACE_PROPERTIES *p, bool wide, size_t name_size,
                         struct properties *ret)
{
    struct properties v = {.p = p, .wide = wide};
    uint32_t size, fixed;

    size = p->Wnode.BufferSize;
    if (size < sizeof(EVENT_TRACE_PROPERTIES))
        return ERROR_BAD_LENGTH;
    v.v2 = p->Wnode.Flags & WNODE_FLAG_VERSIONED_PROPERTIES;
    fixed = v.v2 ? sizeof(EVENT_TRACE_PROPERTIES_V2) : sizeof(EVENT_TRACE_PROPERTIES);
    if (size < fixed)
        return ERROR_BAD_LENGTH;
    v.name_offset = p->LoggerNameOffset;
    v.file_offset = p->LogFileNameOffset;

    /* The order is ETW's: room for the name, then whether the offsets make sense. */
    if (v.name_offset) {
        if (v.name_offset >= size)
            return ERROR_BAD_LENGTH;
        v.name_room = room(v.name_offset, v.file_offset, size);
        if (name_size > v.name_room)
            return ERROR_BAD_LENGTH;
    }
    if (v.file_offset) {
        if (v.file_offset >= size)
            return ERROR_BAD_LENGTH;
        v.file_room = room(v.file_offset, v.name_offset, size);
    }
    if (v.name_offset && v.name_offset < fixed)
        return ERROR_INVALID_PARAMETER;
    if (v.file_offset && v.file_offset < fixed)
        return ERROR_INVALID_PARAMETER;
    if (v.name_offset && v.name_offset == v.file_offset)
        return ERROR_INVALID_PARAMETER;
    *ret = v;
    return ERROR_SUCCESS;
}

/* Units of 16 bits before the NUL, at most max. */
static size_t wide_len(const unsigned char *s, size_t max)
{
    size_t n = 0;
    while (n < max && (s[2 * n] || s[2 * n + 1]))
        n++;
    return n;
}

uint32_t properties_file_name(const struct properties *v, char **ret)
{
    const unsigned char *place = (const unsigned char *) v->p + v->file_offset;
    char *s;
    size_t n;

    if (!v->file_offset) {
        *ret = NULL;
        return ERROR_SUCCESS;
    }
    if (v->wide) {
        n = wide_len(place, v->file_room / 2);
        if (n == v->file_room / 2 || n > ETW_NAME_MAX)
            return ERROR_BAD_LENGTH;
    } else {
        n = strnlen((const char *) place, v->file_room);
        if (n == v->file_room || etw_utf8_to_utf16_size((const char *) place, n) > ETW_NAME_MAX)
            return ERROR_BAD_LENGTH;
    }
    if (n == 0) {
        *ret = NULL;
        return ERROR_SUCCESS;
    }
    s = v->wide ? etw_utf16_dup_utf8(place, n) : strndup((const char *) place, n);
    if (!s)
        return ERROR_NOT_ENOUGH_MEMORY;
    *ret = s;
    return ERROR_SUCCESS;
}

static uint32_t events_lost(const Etwd__Session *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s->n_lost; i++)
        if (__builtin_add_overflow(n, s->lost[i]->events, &n))
            return UINT32_MAX;
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t) n;
}

void properties_write(const struct properties *v, const Etwd__Session *s)
{
    EVENT_TRACE_PROPERTIES *p = v->p;
    const Etwd__SessionProperties *sp = s->properties;

    p->Wnode.HistoricalContext = s->handle;
    p->Wnode.Flags |= WNODE_FLAG_TRACED_GUID;
    p->NumberOfBuffers = s->buffers;
    p->FreeBuffers = s->buffers_free;
    p->EventsLost = events_lost(s);
    p->BuffersWritten = s->buffers_written;
    p->LogBuffersLost = s->log_buffers_lost;
    p->RealTimeBuffersLost = s->real_time_buffers_lost;
    p->LoggerThreadId = (HANDLE) (uintptr_t) s->logger_thread_id;
    if (!sp)
        return;
    if (sp->guid.len == sizeof(p->Wnode.Guid))
        memcpy(&p->Wnode.Guid, sp->guid.data, sizeof(p->Wnode.Guid));
    p->Wnode.ClientContext = sp->clock;
    p->BufferSize = sp->buffer_size_kb;
    p->MinimumBuffers = sp->minimum_buffers;
    p->MaximumBuffers = sp->maximum_buffers;
    p->MaximumFileSize = sp->maximum_file_size;
    p->LogFileMode = sp->log_file_mode;
    p->FlushTimer = sp->flush_timer_s;
    p->EnableFlags = sp->enable_flags;
    if (v->v2) {
        EVENT_TRACE_PROPERTIES_V2 *p2 = (EVENT_TRACE_PROPERTIES_V2 *) p;
        p2->FlushThreshold = (LONG) sp->flush_threshold;
        p2->V2Options = sp->v2_options;
    }
}

void properties_write_name(const struct properties *v, const void *name, size_t bytes)
{
    if (v->name_offset && bytes <= v->name_room)
        memcpy((unsigned char *) v->p + v->name_offset, name, bytes);
}

/* One name into its place; what does not fit is cut between characters. False: it was cut. */
static bool write_name(const struct properties *v, uint32_t offset, uint32_t space,
                       const char *name)
{
    unsigned char *place = (unsigned char *) v->p + offset;
    size_t n;

    if (!offset)
        return true;
    if (!v->wide) {
        n = strlen(name);
        if (n < space) {
            memcpy(place, name, n + 1);
            return true;
        }
        n = space - 1;
        while (n > 0 && ((unsigned char) name[n] & 0xC0) == 0x80)
            n--;
        memcpy(place, name, n);
        place[n] = '\0';
        return false;
    }
    if (space < sizeof(uint16_t)) /* not even the NUL */
        return false;
    n = space / sizeof(uint16_t);
    if (n > ETW_PATH_MAX + 1)
        n = ETW_PATH_MAX + 1;
    {
        uint16_t units[ETW_PATH_MAX + 1];
        size_t written = etw_utf8_to_utf16(name, SIZE_MAX, units, n);
        memcpy(place, units, (written + 1) * sizeof(uint16_t));
    }
    return etw_utf8_to_utf16_size(name, SIZE_MAX) < n;
}

bool properties_write_names(const struct properties *v, const Etwd__SessionProperties *s)
{
    bool name, file;

    name = write_name(v, v->name_offset, v->name_room, s && s->name ? s->name : "");
    file = write_name(v, v->file_offset, v->file_room, s && s->log_file ? s->log_file : "");
    return name && file;
}

int name_read(const void *s, bool wide, struct name *ret)
{
    struct name n = {0};

    if (wide) {
        n.units = wide_len(s, SIZE_MAX / 2);
        n.bytes = (n.units + 1) * sizeof(WCHAR);
        n.utf8 = etw_utf16_dup_utf8(s, n.units);
    } else {
        size_t len = strlen(s);
        n.units = etw_utf8_to_utf16_size(s, len);
        n.bytes = len + 1;
        n.utf8 = strdup(s);
    }
    if (!n.utf8)
        return -ENOMEM;
    *ret = n;
    return 0;
}

void name_done(struct name *n)
{
    free(n->utf8);
    *n = (struct name){0};
}

bool name_is_kernel_logger(const char *utf8)
{
    return strcasecmp(utf8, KERNEL_LOGGER_NAMEA) == 0;
}
