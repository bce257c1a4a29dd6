/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns an event of a file into the EVENT_RECORD or EVENT_TRACE that callbacks see, and calls them.
 * It reads no bytes of files by itself but through proto/etl. Runs on the thread that is in
 * ProcessTrace; the callbacks may leave by longjmp (a fault) or by an exception.
 *
 * Everything that an event points to lies in the buffer it came from, which lives until its last
 * event and its BufferCallback are through.
 */
#include "internal.h"

#include <string.h>

_Static_assert(sizeof(GUID) == sizeof(struct etw_guid), "one layout of GUID");
_Static_assert(sizeof(EVENT_RECORD) == 112, "EVENT_RECORD has the Windows layout");
_Static_assert(sizeof(EVENT_TRACE) == 88, "EVENT_TRACE has the Windows layout");
_Static_assert(sizeof(EVENT_HEADER_EXTENDED_DATA_ITEM) == 16, "items have the Windows layout");

/* The Version word of a system header: what stands between header and data. */
#define VERSION_PEBS 0x8000u
#define VERSION_COUNTERS(version) (((version) >> 8) & 7u)

static void copy_guid(GUID *to, const struct etw_guid *from)
{
    memcpy(to, from, sizeof(*to));
}

static bool is_event_header(const struct etl_event *e)
{
    return e->header_type == ETL_EVENT32 || e->header_type == ETL_EVENT64;
}

/* The provider, or the class of a kernel event. A WPP message may have a component's number only.
 */
static void fill_guid(GUID *guid, const struct etl_event *e)
{
    if (e->has_guid)
        copy_guid(guid, &e->guid);
    else
        *guid = (GUID){.Data1 = e->component_id};
}

static void add_item(struct delivery *d, unsigned *count, uint16_t type, const void *data,
                     size_t size)
{
    EVENT_HEADER_EXTENDED_DATA_ITEM *item = &d->items[*count];

    if (*count >= sizeof(d->items) / sizeof(d->items[0]))
        return;
    if (*count > 0)
        item[-1].Linkage = 1;
    *item = (EVENT_HEADER_EXTENDED_DATA_ITEM){
        .ExtType = type,
        .DataSize = (USHORT) size,
        .DataPtr = (ULONGLONG) (uintptr_t) data,
    };
    ++*count;
}

/* Items of the file, and what other headers carry between header and data. */
static unsigned fill_items(struct delivery *d, const struct etl_event *e)
{
    unsigned count = 0;

    if (e->items_size > 0) {
        struct etl_item item;
        uint32_t pos = 0;

        while (etl_item_next(e, &pos, &item) > 0)
            add_item(d, &count, item.type, item.data, item.size);
    } else if (e->header_type == ETL_INSTANCE32 || e->header_type == ETL_INSTANCE64) {
        add_item(d, &count, EVENT_HEADER_EXT_TYPE_INSTANCE_INFO,
                 e->raw + sizeof(struct etl_full_header), sizeof(struct etl_instance_extra));
    } else if (etl_header_is_system(e->header_type) && (e->raw[1] & 0x87u)) {
        unsigned version = (unsigned) e->raw[1] << 8;
        unsigned counters = VERSION_COUNTERS(version);
        unsigned pebs = version & VERSION_PEBS ? 1 : 0;
        const uint8_t *extra = e->data - sizeof(uint64_t) * (pebs + counters);

        /* The iterator has checked that they are there. */
        if (pebs)
            add_item(d, &count, EVENT_HEADER_EXT_TYPE_PEBS_INDEX, extra, sizeof(uint64_t));
        if (counters)
            add_item(d, &count, EVENT_HEADER_EXT_TYPE_PMC_COUNTERS, extra + pebs * sizeof(uint64_t),
                     counters * sizeof(uint64_t));
    }
    return count;
}

static void fill_context(ETW_BUFFER_CONTEXT *c, const struct etl_buffer_info *info)
{
    if (info->flags & ETL_BUFFER_PROC_INDEX) {
        c->ProcessorIndex = info->processor;
    } else {
        c->ProcessorNumber = (UCHAR) info->processor;
        c->Alignment = 8;
    }
    c->LoggerId = info->logger_id;
}

static void fill_record(struct delivery *d, const struct trace *t,
                        const struct etl_buffer_info *info, const struct etl_event *e,
                        uint64_t time)
{
    EVENT_RECORD *rec = &d->record;
    EVENT_HEADER *h = &rec->EventHeader;
    unsigned items = 0;
    USHORT flags =
        e->pointer_size == 4 ? EVENT_HEADER_FLAG_32_BIT_HEADER : EVENT_HEADER_FLAG_64_BIT_HEADER;

    if (info->flags & ETL_BUFFER_PROC_INDEX)
        flags |= EVENT_HEADER_FLAG_PROCESSOR_INDEX;
    /* ETW reserves it; here the kind of header in the file, which tells a classic event from a
     * kernel event of the same class. */
    h->HeaderType = e->header_type;
    h->ThreadId = e->thread_id;
    h->ProcessId = e->process_id;
    h->TimeStamp.QuadPart = (LONGLONG) time;
    fill_guid(&h->ProviderId, e);
    h->KernelTime = e->kernel_time;
    h->UserTime = e->user_time;
    if (is_event_header(e)) {
        h->Size = (USHORT) e->size;
        h->EventProperty = e->event_property;
        memcpy(&h->EventDescriptor, &e->descriptor, sizeof(h->EventDescriptor));
        copy_guid(&h->ActivityId, &e->activity_id);
        flags |= e->flags & (USHORT) ~EVENT_HEADER_FLAG_EXTENDED_INFO;
        if (e->items_size > 0)
            items = fill_items(d, e);
    } else {
        uint32_t size = (uint32_t) sizeof(EVENT_HEADER) + e->data_size;

        h->Size = size > UINT16_MAX ? UINT16_MAX : (USHORT) size;
        h->EventProperty = 0;
        h->EventDescriptor = (EVENT_DESCRIPTOR){
            .Version = e->version,
            .Level = e->level,
            .Opcode = e->opcode,
        };
        h->ActivityId = (GUID){0};
        if (e->header_type == ETL_MESSAGE) {
            h->EventDescriptor.Id = e->message_number;
            flags |= EVENT_HEADER_FLAG_TRACE_MESSAGE;
        } else {
            flags |= EVENT_HEADER_FLAG_CLASSIC_HEADER;
            items = fill_items(d, e);
        }
    }
    if (items > 0)
        flags |= EVENT_HEADER_FLAG_EXTENDED_INFO;
    h->Flags = flags;
    fill_context(&rec->BufferContext, info);
    rec->ExtendedDataCount = (USHORT) items;
    rec->ExtendedData = items > 0 ? d->items : NULL;
    rec->UserDataLength = (USHORT) e->data_size;
    rec->UserData = (PVOID) (uintptr_t) e->data;
    rec->UserContext = t->context;
}

/* 16 bits wide in EVENT_TRACE: what classic headers have there, the number of a WPP message. */
static USHORT class_version(const struct etl_event *e)
{
    USHORT version = e->version;

    switch (e->header_type) {
    case ETL_MESSAGE:
        return e->message_number;
    case ETL_FULL32:
    case ETL_FULL64:
    case ETL_INSTANCE32:
    case ETL_INSTANCE64:
        memcpy(&version, e->raw + offsetof(struct etl_full_header, version), sizeof(version));
        break;
    default:
        break;
    }
    return version;
}

static void fill_trace(EVENT_TRACE *out, const struct etl_buffer_info *info,
                       const struct etl_event *e, uint64_t time)
{
    EVENT_TRACE_HEADER *h = &out->Header;
    uint32_t size = (uint32_t) sizeof(EVENT_TRACE_HEADER) + e->data_size;

    *out = (EVENT_TRACE){0};
    h->Size = size > UINT16_MAX ? UINT16_MAX : (USHORT) size;
    h->HeaderType = e->header_type;
    h->MarkerFlags = e->raw[3];
    h->Class.Type = e->opcode;
    h->Class.Level = e->level;
    h->Class.Version = class_version(e);
    h->ThreadId = e->thread_id;
    h->ProcessId = e->process_id;
    h->TimeStamp.QuadPart = (LONGLONG) time;
    fill_guid(&h->Guid, e);
    h->KernelTime = e->kernel_time;
    h->UserTime = e->user_time;
    if (e->header_type == ETL_MESSAGE) {
        out->InstanceId = e->message_sequence;
    } else {
        out->InstanceId = e->instance.instance_id;
        out->ParentInstanceId = e->instance.parent_instance_id;
        copy_guid(&out->ParentGuid, &e->instance.parent_guid);
    }
    out->MofData = (PVOID) (uintptr_t) e->data;
    out->MofLength = e->data_size;
    fill_context(&out->BufferContext, info);
}

void deliver_event(struct delivery *d, struct trace *t, const struct etl_buffer_info *info,
                   const struct etl_event *e, uint64_t stamp)
{
    uint64_t time = stamp;

    if (d->bounded || !t->raw_timestamp) {
        uint64_t filetime = etw_timebase_filetime(&t->timebase, stamp);

        if (d->bounded && (filetime < d->start || filetime > d->end))
            return;
        if (!t->raw_timestamp)
            time = filetime;
    }
    if (t->record_callback) {
        fill_record(d, t, info, e, time);
        d->frame->in_callback = 1;
        t->record_callback(&d->record);
        d->frame->in_callback = 0;
    } else if (t->event_callback) {
        fill_trace(&d->event, info, e, time);
        d->frame->in_callback = 1;
        t->event_callback(&d->event);
        d->frame->in_callback = 0;
    }
}

bool deliver_buffer(struct delivery *d, struct trace *t, const struct etl_buffer_info *info,
                    const struct etl_event *last, uint64_t last_stamp)
{
    EVENT_TRACE_LOGFILEW *lf = &t->logfile;
    ULONG go_on;

    lf->BuffersRead++;
    if (!t->buffer_callback)
        return true;
    lf->Filled = info->end;
    lf->CurrentEvent = (EVENT_TRACE){0};
    if (last) {
        uint64_t filetime = etw_timebase_filetime(&t->timebase, last_stamp);

        lf->CurrentTime = (LONGLONG) filetime;
        fill_trace(&lf->CurrentEvent, info, last, t->raw_timestamp ? last_stamp : filetime);
    }
    d->frame->in_callback = 1;
    go_on = t->buffer_callback(lf);
    d->frame->in_callback = 0;
    return go_on != 0;
}
