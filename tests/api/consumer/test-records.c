/* SPDX-License-Identifier: Apache-2.0
 *
 * What callbacks see of each kind of event header: EVENT_RECORD and EVENT_TRACE, extended items,
 * alignment, processor; and of damaged buffers and files.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "trace.h"

static const GUID guid_a = {0x11223344, 0x5566, 0x7788, {1, 2, 3, 4, 5, 6, 7, 8}};
static const GUID guid_b = {0xAABBCCDD, 0xEEFF, 0x0102, {9, 8, 7, 6, 5, 4, 3, 2}};
static const uint8_t user_data[] = {0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9};

/* The last event, its data and items copied. */
static struct {
    size_t count;
    EVENT_RECORD record;
    EVENT_HEADER_EXTENDED_DATA_ITEM items[8];
    uint8_t item_data[8][64];
    EVENT_TRACE event;
    uint8_t data[256];
    uintptr_t data_at;
} got;

static void take_record(PEVENT_RECORD e)
{
    got.count++;
    got.record = *e;
    ck_assert_uint_le(e->ExtendedDataCount, 8);
    for (unsigned i = 0; i < e->ExtendedDataCount; i++) {
        got.items[i] = e->ExtendedData[i];
        ck_assert_uint_le(got.items[i].DataSize, 64);
        memcpy(got.item_data[i], (const void *) (uintptr_t) got.items[i].DataPtr,
               got.items[i].DataSize);
    }
    got.data_at = (uintptr_t) e->UserData;
    if (e->UserDataLength > 0 && e->UserDataLength <= sizeof(got.data))
        memcpy(got.data, e->UserData, e->UserDataLength);
    /* The structure is the callback's: what it does to it must not matter. */
    memset(e, 0xEE, sizeof(*e));
}

static void take_event(PEVENT_TRACE e)
{
    got.count++;
    got.event = *e;
    got.data_at = (uintptr_t) e->MofData;
    if (e->MofLength > 0 && e->MofLength <= sizeof(got.data))
        memcpy(got.data, e->MofData, e->MofLength);
    memset(e, 0xEE, sizeof(*e));
}

static char *path;
static struct synthetic *file;

/* A file with one more event at 2000 than the caller adds; begins buffer 1 of processor 5. */
static void begin(void)
{
    static const struct synthetic_params params = {.logger_id = 9, .buffer_size = 65536};

    path = test_path("records.etl");
    file = synthetic_new(path, &params);
    synthetic_begin(file, 5, 0);
    synthetic_event(file, 2000, 1);
}

static void process(ULONG mode, uint16_t buffer_flags)
{
    EVENT_TRACE_LOGFILEA lf = {.LogFileName = path, .Context = &got};
    TRACEHANDLE h;

    memset(synthetic_buffer(file, NULL) + offsetof(struct etl_buffer_header, flags), 0,
           sizeof(uint16_t));
    synthetic_flush(file, 9000, buffer_flags);
    synthetic_finish(file, 0);
    memset(&got, 0, sizeof(got));
    lf.ProcessTraceMode = mode;
    if (mode & PROCESS_TRACE_MODE_EVENT_RECORD)
        lf.EventRecordCallback = take_record;
    else
        lf.EventCallback = take_event;
    h = OpenTraceA(&lf);
    ck_assert(h != INVALID_PROCESSTRACE_HANDLE);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    free(path);
}

static void check_common(USHORT flags, const GUID *provider)
{
    const EVENT_HEADER *h = &got.record.EventHeader;

    ck_assert_uint_eq(got.count, 4); /* header, extension, the first event, ours */
    ck_assert_uint_eq(h->Flags, flags | EVENT_HEADER_FLAG_PROCESSOR_INDEX);
    ck_assert_uint_ne(h->HeaderType, 0); /* the kind of header in the file */
    ck_assert_int_eq(h->TimeStamp.QuadPart, time_of(3000));
    ck_assert(IsEqualGUID(&h->ProviderId, provider));
    ck_assert_ptr_eq(got.record.UserContext, &got);
    ck_assert_uint_eq(got.record.BufferContext.ProcessorIndex, 5);
    ck_assert_uint_eq(got.record.BufferContext.LoggerId, 9);
    ck_assert_uint_eq(got.record.UserDataLength, sizeof(user_data));
    ck_assert_int_eq(memcmp(got.data, user_data, sizeof(user_data)), 0);
}

static void put(uint8_t *p, const void *header, size_t size)
{
    memcpy(p, header, size);
    memcpy(p + size, user_data, sizeof(user_data));
}

static void add_system(uint16_t version, const uint64_t *extra, unsigned extras)
{
    struct etl_system_header h = {
        .version = version,
        .header_type = ETL_SYSTEM64,
        .marker = ETL_MARKER_TRACE,
        .size = (uint16_t) (sizeof(h) + 8 * extras + sizeof(user_data)),
        .type = 36,
        .group = 5,
        .thread_id = 77,
        .process_id = 66,
        .time_stamp = 3000,
        .kernel_time = 4,
        .user_time = 3,
    };
    uint8_t *p = synthetic_reserve(file, h.size);

    memcpy(p, &h, sizeof(h));
    if (extras)
        memcpy(p + sizeof(h), extra, 8 * extras);
    memcpy(p + sizeof(h) + 8 * extras, user_data, sizeof(user_data));
}

START_TEST(system_record)
{
    const EVENT_HEADER *h = &got.record.EventHeader;

    begin();
    add_system(4, NULL, 0);
    process(PROCESS_TRACE_MODE_EVENT_RECORD, ETL_BUFFER_PROC_INDEX);
    check_common(EVENT_HEADER_FLAG_64_BIT_HEADER | EVENT_HEADER_FLAG_CLASSIC_HEADER, &ThreadGuid);
    ck_assert_uint_eq(h->EventDescriptor.Id, 0);
    ck_assert_uint_eq(h->EventDescriptor.Version, 4);
    ck_assert_uint_eq(h->EventDescriptor.Opcode, 36);
    ck_assert_uint_eq(h->EventDescriptor.Level, 0);
    ck_assert_uint_eq(h->EventDescriptor.Keyword, 0);
    ck_assert_uint_eq(h->ThreadId, 77);
    ck_assert_uint_eq(h->ProcessId, 66);
    ck_assert_uint_eq(h->KernelTime, 4);
    ck_assert_uint_eq(h->UserTime, 3);
    ck_assert_uint_eq(h->Size, 80 + sizeof(user_data));
    ck_assert_uint_eq(got.record.ExtendedDataCount, 0);
    ck_assert_ptr_null(got.record.ExtendedData);
    ck_assert_uint_eq(got.data_at % 8, 0);
}
END_TEST

/* Counters between header and data are items of the record. */
START_TEST(system_record_with_counters)
{
    static const uint64_t extra[] = {0x5150, 11, 22, 33};

    begin();
    add_system(0x8000 | 3 << 8 | 4, extra, 4);
    process(PROCESS_TRACE_MODE_EVENT_RECORD, ETL_BUFFER_PROC_INDEX);
    check_common(EVENT_HEADER_FLAG_64_BIT_HEADER | EVENT_HEADER_FLAG_CLASSIC_HEADER |
                     EVENT_HEADER_FLAG_EXTENDED_INFO,
                 &ThreadGuid);
    ck_assert_uint_eq(got.record.ExtendedDataCount, 2);
    ck_assert_uint_eq(got.items[0].ExtType, EVENT_HEADER_EXT_TYPE_PEBS_INDEX);
    ck_assert_uint_eq(got.items[0].DataSize, 8);
    ck_assert_uint_eq(got.items[0].Linkage, 1);
    ck_assert_int_eq(memcmp(got.item_data[0], extra, 8), 0);
    ck_assert_uint_eq(got.items[1].ExtType, EVENT_HEADER_EXT_TYPE_PMC_COUNTERS);
    ck_assert_uint_eq(got.items[1].DataSize, 24);
    ck_assert_uint_eq(got.items[1].Linkage, 0);
    ck_assert_int_eq(memcmp(got.item_data[1], extra + 1, 24), 0);
}
END_TEST

/* Headers without thread and process say so; an image load is of class Image. */
START_TEST(perfinfo_record)
{
    static const struct etl_perfinfo_header h = {
        .version = 3,
        .header_type = ETL_PERFINFO32,
        .marker = ETL_MARKER_TRACE,
        .size = sizeof(h) + sizeof(user_data),
        .type = 0x0A,
        .group = 3,
        .time_stamp = 3000,
    };

    begin();
    put(synthetic_reserve(file, h.size), &h, sizeof(h));
    process(PROCESS_TRACE_MODE_EVENT_RECORD, ETL_BUFFER_PROC_INDEX);
    check_common(EVENT_HEADER_FLAG_32_BIT_HEADER | EVENT_HEADER_FLAG_CLASSIC_HEADER,
                 &ImageLoadGuid);
    ck_assert_uint_eq(got.record.EventHeader.ThreadId, UINT32_MAX);
    ck_assert_uint_eq(got.record.EventHeader.ProcessId, UINT32_MAX);
    ck_assert_uint_eq(got.record.EventHeader.EventDescriptor.Opcode, 10);
    ck_assert_uint_eq(got.record.EventHeader.EventDescriptor.Version, 3);
}
END_TEST

static struct etl_full_header full_header(uint8_t type, uint16_t size)
{
    struct etl_full_header h = {
        .size = size,
        .header_type = type,
        .marker = ETL_MARKER_TRACE,
        .type = 17,
        .level = 4,
        .version = 0x0203,
        .thread_id = 77,
        .process_id = 66,
        .time_stamp = 3000,
        .kernel_time = 1,
        .user_time = 2,
    };

    memcpy(&h.guid, &guid_a, sizeof(h.guid));
    return h;
}

START_TEST(classic_record)
{
    struct etl_full_header h = full_header(ETL_FULL64, sizeof(h) + sizeof(user_data));
    const EVENT_DESCRIPTOR *d = &got.record.EventHeader.EventDescriptor;

    begin();
    put(synthetic_reserve(file, h.size), &h, sizeof(h));
    process(PROCESS_TRACE_MODE_EVENT_RECORD, ETL_BUFFER_PROC_INDEX);
    check_common(EVENT_HEADER_FLAG_64_BIT_HEADER | EVENT_HEADER_FLAG_CLASSIC_HEADER, &guid_a);
    ck_assert_uint_eq(d->Opcode, 17);
    ck_assert_uint_eq(d->Level, 4);
    ck_assert_uint_eq(d->Version, 3);
    ck_assert_uint_eq(d->Id, 0);
    ck_assert_uint_eq(got.record.EventHeader.ThreadId, 77);
    ck_assert_uint_eq(got.record.EventHeader.ProcessId, 66);
    ck_assert_uint_eq(got.record.EventHeader.UserTime, 2);
}
END_TEST

static void add_instance(void)
{
    struct {
        struct etl_full_header full;
        struct etl_instance_extra extra;
    } h = {
        .full = full_header(ETL_INSTANCE64, sizeof(h) + sizeof(user_data)),
        .extra = {.instance_id = 501, .parent_instance_id = 401},
    };

    memcpy(&h.extra.parent_guid, &guid_b, sizeof(guid_b));
    put(synthetic_reserve(file, h.full.size), &h, sizeof(h));
}

START_TEST(instance_record)
{
    EVENT_EXTENDED_ITEM_INSTANCE item;

    begin();
    add_instance();
    process(PROCESS_TRACE_MODE_EVENT_RECORD, ETL_BUFFER_PROC_INDEX);
    check_common(EVENT_HEADER_FLAG_64_BIT_HEADER | EVENT_HEADER_FLAG_CLASSIC_HEADER |
                     EVENT_HEADER_FLAG_EXTENDED_INFO,
                 &guid_a);
    ck_assert_uint_eq(got.record.ExtendedDataCount, 1);
    ck_assert_uint_eq(got.items[0].ExtType, EVENT_HEADER_EXT_TYPE_INSTANCE_INFO);
    ck_assert_uint_eq(got.items[0].DataSize, sizeof(item));
    memcpy(&item, got.item_data[0], sizeof(item));
    ck_assert_uint_eq(item.InstanceId, 501);
    ck_assert_uint_eq(item.ParentInstanceId, 401);
    ck_assert(IsEqualGUID(&item.ParentGuid, &guid_b));
}
END_TEST

/* An item of the file at p; returns where the next one goes. */
static uint8_t *put_item(uint8_t *p, uint16_t type, const void *data, uint16_t size, int more)
{
    struct etl_item_header h = {
        .size = (uint16_t) etl_padded(8u + size),
        .type = type,
        .linkage = more ? 1 : 0,
        .data_size = size,
    };

    memcpy(p, &h, sizeof(h));
    memcpy(p + 8, data, size);
    return p + h.size;
}

static void add_event_header(int with_items, uint8_t type)
{
    static const uint64_t stack[] = {0, 0x1000, 0x2000};
    struct etl_event_header h = {
        .size = (uint16_t) (sizeof(h) + (with_items ? 24 + 32 + 16 : 0) + sizeof(user_data)),
        .header_type = type,
        .marker = ETL_MARKER_TRACE,
        .flags = with_items ? ETL_EVENT_FLAG_EXTENDED_INFO : 0,
        .event_property = EVENT_HEADER_PROPERTY_RELOGGABLE,
        .thread_id = 77,
        .process_id = 66,
        .time_stamp = 3000,
        .descriptor = {.id = 700,
                       .version = 2,
                       .channel = 16,
                       .level = 5,
                       .opcode = 9,
                       .task = 1234,
                       .keyword = 0x8000000000000010},
        .kernel_time = 6,
        .user_time = 7,
    };
    uint8_t *start;
    uint8_t *p;

    memcpy(&h.provider_id, &guid_a, sizeof(guid_a));
    memcpy(&h.activity_id, &guid_b, sizeof(guid_b));
    start = p = synthetic_reserve(file, h.size);
    memcpy(p, &h, sizeof(h));
    p += sizeof(h);
    if (with_items) {
        p = put_item(p, ETL_ITEM_RELATED_ACTIVITYID, &guid_b, 16, 1);
        p = put_item(p, ETL_ITEM_STACK_TRACE64, stack, 24, 1);
        p = put_item(p, ETL_ITEM_EVENT_SCHEMA_TL, "\x05\0\0x", 5, 0);
    }
    memcpy(p, user_data, sizeof(user_data));
    ck_assert_uint_eq((size_t) (p + sizeof(user_data) - start), h.size);
}

START_TEST(manifest_record)
{
    const EVENT_HEADER *h = &got.record.EventHeader;

    begin();
    add_event_header(0, ETL_EVENT32);
    process(PROCESS_TRACE_MODE_EVENT_RECORD, ETL_BUFFER_PROC_INDEX);
    check_common(EVENT_HEADER_FLAG_32_BIT_HEADER, &guid_a);
    ck_assert_uint_eq(h->Size, 80 + sizeof(user_data));
    ck_assert_uint_eq(h->EventProperty, EVENT_HEADER_PROPERTY_RELOGGABLE);
    ck_assert_uint_eq(h->EventDescriptor.Id, 700);
    ck_assert_uint_eq(h->EventDescriptor.Version, 2);
    ck_assert_uint_eq(h->EventDescriptor.Channel, 16);
    ck_assert_uint_eq(h->EventDescriptor.Level, 5);
    ck_assert_uint_eq(h->EventDescriptor.Opcode, 9);
    ck_assert_uint_eq(h->EventDescriptor.Task, 1234);
    ck_assert_uint_eq(h->EventDescriptor.Keyword, 0x8000000000000010);
    ck_assert(IsEqualGUID(&h->ActivityId, &guid_b));
    ck_assert_uint_eq(h->KernelTime, 6);
    ck_assert_uint_eq(got.record.ExtendedDataCount, 0);
}
END_TEST

START_TEST(manifest_record_with_items)
{
    static const uint64_t addresses[] = {0x1000, 0x2000};

    begin();
    add_event_header(1, ETL_EVENT64);
    process(PROCESS_TRACE_MODE_EVENT_RECORD, ETL_BUFFER_PROC_INDEX);
    check_common(EVENT_HEADER_FLAG_64_BIT_HEADER | EVENT_HEADER_FLAG_EXTENDED_INFO, &guid_a);
    ck_assert_uint_eq(got.record.ExtendedDataCount, 3);
    ck_assert_uint_eq(got.items[0].ExtType, EVENT_HEADER_EXT_TYPE_RELATED_ACTIVITYID);
    ck_assert_int_eq(memcmp(got.item_data[0], &guid_b, 16), 0);
    ck_assert_uint_eq(got.items[1].ExtType, EVENT_HEADER_EXT_TYPE_STACK_TRACE64);
    ck_assert_uint_eq(got.items[1].DataSize, 24);
    ck_assert_int_eq(memcmp(got.item_data[1] + 8, addresses, 16), 0);
    ck_assert_uint_eq(got.items[1].DataPtr % 8, 0);
    ck_assert_uint_eq(got.items[2].ExtType, EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL);
    ck_assert_uint_eq(got.items[2].DataSize, 5);
    ck_assert_uint_eq(got.items[0].Linkage + got.items[1].Linkage, 2);
    ck_assert_uint_eq(got.items[2].Linkage, 0);
    ck_assert_uint_eq(got.data_at % 8, 0);
}
END_TEST

static void add_message(void)
{
    struct {
        struct etl_message_header h;
        uint32_t sequence;
        GUID guid;
        uint64_t stamp;
        uint32_t tid;
        uint32_t pid;
    } __attribute__((packed)) m = {
        .h = {.size = sizeof(m) + sizeof(user_data),
              .marker = ETL_MARKER_MESSAGE,
              .number = 43,
              .flags = ETL_MESSAGE_SEQUENCE | ETL_MESSAGE_GUID | ETL_MESSAGE_TIMESTAMP |
                       ETL_MESSAGE_SYSTEMINFO | ETL_MESSAGE_POINTER64},
        .sequence = 4711,
        .guid = guid_a,
        .stamp = 3000,
        .tid = 77,
        .pid = 66,
    };

    put(synthetic_reserve(file, m.h.size), &m, sizeof(m));
}

START_TEST(message_record)
{
    begin();
    add_message();
    process(PROCESS_TRACE_MODE_EVENT_RECORD, ETL_BUFFER_PROC_INDEX);
    check_common(EVENT_HEADER_FLAG_64_BIT_HEADER | EVENT_HEADER_FLAG_TRACE_MESSAGE, &guid_a);
    ck_assert_uint_eq(got.record.EventHeader.EventDescriptor.Id, 43);
    ck_assert_uint_eq(got.record.EventHeader.ThreadId, 77);
    ck_assert_uint_eq(got.record.EventHeader.ProcessId, 66);
}
END_TEST

START_TEST(header_record)
{
    TRACE_LOGFILE_HEADER lf;

    path = test_path("header.etl");
    file = synthetic_new(path, NULL);
    synthetic_begin(file, 0, 0);
    /* No data event: the last record is the extension; so look at the first through the bounds. */
    {
        EVENT_TRACE_LOGFILEA in = {.LogFileName = path, .EventRecordCallback = take_record};
        FILETIME t = filetime((int64_t) SYNTHETIC_START);
        static uint8_t whole[1024];
        TRACEHANDLE h;
        int fd;

        synthetic_finish(file, SYNTHETIC_START + 5);
        fd = open(path, O_RDWR | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(pread(fd, whole, sizeof(whole), 0), sizeof(whole));
        /* Cut the buffer behind its first event: fields SavedOffset, Offset. */
        {
            uint16_t size;
            uint32_t end;

            memcpy(&size, whole + 0x4C, sizeof(size));
            end = 0x48 + etl_padded(size);
            ck_assert_int_eq(pwrite(fd, &end, 4, 0x04), 4);
            ck_assert_int_eq(pwrite(fd, &end, 4, 0x30), 4);
        }
        close(fd);
        in.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
        h = OpenTraceA(&in);
        ck_assert_uint_eq(ProcessTrace(&h, 1, &t, &t), ERROR_SUCCESS);
        CloseTrace(h);
    }
    ck_assert_uint_eq(got.count, 1);
    ck_assert(IsEqualGUID(&got.record.EventHeader.ProviderId, &EventTraceGuid));
    ck_assert_uint_eq(got.record.EventHeader.EventDescriptor.Opcode, EVENT_TRACE_TYPE_INFO);
    ck_assert_uint_eq(got.record.EventHeader.ThreadId, 11);
    ck_assert_uint_ge(got.record.UserDataLength, sizeof(lf));
    ck_assert_uint_gt(got.record.UserDataLength, 280);
    free(path);
}
END_TEST

/* Before Windows 8 the buffer names a processor number of one byte. */
START_TEST(old_processor_number)
{
    begin();
    add_system(2, NULL, 0);
    process(PROCESS_TRACE_MODE_EVENT_RECORD, 0);
    ck_assert_uint_eq(got.record.EventHeader.Flags & EVENT_HEADER_FLAG_PROCESSOR_INDEX, 0);
    ck_assert_uint_eq(got.record.BufferContext.ProcessorNumber, 5);
    ck_assert_uint_eq(got.record.BufferContext.Alignment, 8);
    ck_assert_uint_eq(GetEventProcessorIndex(&got.record), 5);
}
END_TEST

START_TEST(raw_stamps)
{
    begin();
    add_system(2, NULL, 0);
    process(PROCESS_TRACE_MODE_EVENT_RECORD | PROCESS_TRACE_MODE_RAW_TIMESTAMP,
            ETL_BUFFER_PROC_INDEX);
    ck_assert_int_eq(got.record.EventHeader.TimeStamp.QuadPart, 3000);
}
END_TEST

/* The largest event there is. */
START_TEST(largest_record)
{
    struct etl_full_header h = full_header(ETL_FULL64, 65400);

    begin();
    put(synthetic_reserve(file, h.size), &h, sizeof(h));
    process(PROCESS_TRACE_MODE_EVENT_RECORD, ETL_BUFFER_PROC_INDEX);
    ck_assert_uint_eq(got.count, 4);
    ck_assert_uint_eq(got.record.UserDataLength, 65400 - 48);
    ck_assert_uint_eq(got.record.EventHeader.Size, 65400 - 48 + 80);
}
END_TEST

/* ---- EVENT_TRACE ---- */

START_TEST(legacy_system)
{
    const EVENT_TRACE *e = &got.event;

    begin();
    add_system(4, NULL, 0);
    process(0, ETL_BUFFER_PROC_INDEX);
    ck_assert_uint_eq(got.count, 4);
    ck_assert(IsEqualGUID(&e->Header.Guid, &ThreadGuid));
    ck_assert_uint_eq(e->Header.Class.Type, 36);
    ck_assert_uint_eq(e->Header.Class.Version, 4);
    ck_assert_uint_eq(e->Header.ThreadId, 77);
    ck_assert_uint_eq(e->Header.ProcessId, 66);
    ck_assert_int_eq(e->Header.TimeStamp.QuadPart, time_of(3000));
    ck_assert_uint_eq(e->Header.KernelTime, 4);
    ck_assert_uint_eq(e->Header.UserTime, 3);
    ck_assert_uint_eq(e->Header.Size, 48 + sizeof(user_data));
    ck_assert_uint_eq(e->MofLength, sizeof(user_data));
    ck_assert_int_eq(memcmp(got.data, user_data, sizeof(user_data)), 0);
    ck_assert_uint_eq(e->BufferContext.ProcessorIndex, 5);
    ck_assert_uint_eq(e->BufferContext.LoggerId, 9);
    ck_assert_uint_eq(got.data_at % 8, 0);
}
END_TEST

START_TEST(legacy_instance)
{
    begin();
    add_instance();
    process(0, ETL_BUFFER_PROC_INDEX);
    ck_assert(IsEqualGUID(&got.event.Header.Guid, &guid_a));
    ck_assert_uint_eq(got.event.Header.Class.Type, 17);
    ck_assert_uint_eq(got.event.Header.Class.Level, 4);
    ck_assert_uint_eq(got.event.Header.Class.Version, 0x0203); /* 16 bits here */
    ck_assert_uint_eq(got.event.InstanceId, 501);
    ck_assert_uint_eq(got.event.ParentInstanceId, 401);
    ck_assert(IsEqualGUID(&got.event.ParentGuid, &guid_b));
    ck_assert_uint_eq(got.event.MofLength, sizeof(user_data));
}
END_TEST

START_TEST(legacy_manifest_and_message)
{
    begin();
    add_event_header(1, ETL_EVENT64);
    process(0, ETL_BUFFER_PROC_INDEX);
    ck_assert(IsEqualGUID(&got.event.Header.Guid, &guid_a));
    ck_assert_uint_eq(got.event.Header.Class.Type, 9);
    ck_assert_uint_eq(got.event.Header.Class.Level, 5);
    ck_assert_uint_eq(got.event.Header.Class.Version, 2);
    ck_assert_uint_eq(got.event.MofLength, sizeof(user_data));
    begin();
    add_message();
    process(PROCESS_TRACE_MODE_RAW_TIMESTAMP, ETL_BUFFER_PROC_INDEX);
    ck_assert(IsEqualGUID(&got.event.Header.Guid, &guid_a));
    ck_assert_uint_eq(got.event.Header.Class.Version, 43);
    ck_assert_uint_eq(got.event.InstanceId, 4711);
    ck_assert_int_eq(got.event.Header.TimeStamp.QuadPart, 3000);
}
END_TEST

/* ---- damage ---- */

/* Garbage ends its buffer; what was before it and all other buffers are delivered. */
START_TEST(garbage_in_a_buffer)
{
    char *name = test_path("garbage.etl");
    struct synthetic *s = synthetic_new(name, NULL);

    for (unsigned b = 0; b < 3; b++) {
        synthetic_begin(s, 0, 0);
        for (unsigned i = 0; i < 10; i++) {
            uint32_t used;
            uint8_t *bytes = synthetic_buffer(s, &used);

            synthetic_event(s, 2000 + 1000 * b + i, 10 * b + i);
            if (b == 1 && i == 4)
                memset(bytes + used, 0x55, 16);
        }
        synthetic_flush(s, 9000, ETL_BUFFER_PROC_INDEX);
    }
    synthetic_finish(s, 0);
    process_noted(name, NULL, NULL);
    ck_assert_uint_eq(notes.data, 24);
    ck_assert_uint_eq(notes.events[notes.count - 1].id, 29);
    ck_assert_uint_eq(notes.buffers, 4);
    free(name);
}
END_TEST

/* A file cut anywhere: what is whole comes, in order, and no more is lost than was cut. */
START_TEST(cut_anywhere)
{
    static const struct synthetic_params params = {.buffer_size = 1024};
    char *name = test_path("cut.etl");
    struct synthetic *s = synthetic_new(name, &params);
    size_t before = 0;
    uint64_t size;

    for (unsigned b = 0; b < 3; b++) {
        synthetic_begin(s, 0, 0);
        for (unsigned i = 0; i < 20; i++)
            synthetic_event(s, 2000 + 1000 * b + i, 100 * b + i);
        synthetic_flush(s, 9000, ETL_BUFFER_PROC_INDEX);
    }
    size = synthetic_size(s);
    synthetic_finish(s, 0);
    process_noted(name, NULL, NULL);
    ck_assert_uint_eq(notes.data, 60);
    for (uint64_t cut = 1024; cut < size; cut += 7) {
        char *part = test_path("part.etl");
        size_t n;
        char *data = test_read_file(name, &n);
        FILE *f = fopen(part, "we");
        uint64_t whole = cut / 1024 - 1;
        uint64_t rest = cut % 1024;
        size_t expected = whole * 20;

        if (rest > 72)
            expected += rest >= 72 + 20 * 40 ? 20 : (rest - 72) / 40;
        fwrite(data, 1, cut, f);
        fclose(f);
        notes_reset();
        process_noted(part, NULL, NULL);
        ck_assert_uint_eq(notes.data, expected);
        ck_assert_uint_ge(notes.data, before);
        before = notes.data;
        free(data);
        free(part);
    }
    free(name);
}
END_TEST

/* Buffers of types that hold no events are stepped over; garbage at the end is no harm. */
START_TEST(other_buffers_and_trailing_garbage)
{
    char *name = test_path("types.etl");
    struct synthetic *s = synthetic_new(name, NULL);
    uint16_t type = ETL_BUFFER_DBG_INFO;

    synthetic_begin(s, 0, 0);
    memcpy(synthetic_buffer(s, NULL) + 0x36, &type, sizeof(type));
    synthetic_event(s, 1500, 99);
    synthetic_flush(s, 9000, ETL_BUFFER_PROC_INDEX);
    synthetic_begin(s, 0, 0);
    synthetic_event(s, 2000, 1);
    synthetic_flush(s, 9000, ETL_BUFFER_PROC_INDEX);
    synthetic_append(s,
                     "garbage garbage garbage garbage garbage garbage garbage garbage garbage "
                     "garbage garbage garbage",
                     90);
    synthetic_finish(s, 0);
    process_noted(name, NULL, NULL);
    ck_assert_uint_eq(notes.data, 1);
    free(name);
}
END_TEST

/* The file is cut while it is read: no signal, no error. */
static char *shrinking;

static void shrink(PEVENT_RECORD e)
{
    note_event(e);
    if (notes.data == 3)
        ck_assert_int_eq(truncate(shrinking, 6000), 0);
}

START_TEST(cut_while_it_is_read)
{
    EVENT_TRACE_LOGFILEA lf = {.EventRecordCallback = shrink};
    TRACEHANDLE h;

    shrinking = long_file("shrink.etl", 10, 5);
    lf.LogFileName = shrinking;
    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    h = OpenTraceA(&lf);
    ck_assert_uint_eq(ProcessTrace(&h, 1, NULL, NULL), ERROR_SUCCESS);
    ck_assert_uint_eq(notes.data, 5);
    CloseTrace(h);
    free(shrinking);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("consumer-records");
    TCase *t = tcase_create("records");

    tcase_add_test(t, system_record);
    tcase_add_test(t, system_record_with_counters);
    tcase_add_test(t, perfinfo_record);
    tcase_add_test(t, classic_record);
    tcase_add_test(t, instance_record);
    tcase_add_test(t, manifest_record);
    tcase_add_test(t, manifest_record_with_items);
    tcase_add_test(t, message_record);
    tcase_add_test(t, header_record);
    tcase_add_test(t, old_processor_number);
    tcase_add_test(t, raw_stamps);
    tcase_add_test(t, largest_record);
    tcase_add_test(t, legacy_system);
    tcase_add_test(t, legacy_instance);
    tcase_add_test(t, legacy_manifest_and_message);
    suite_add_tcase(s, t);
    t = tcase_create("damage");
    tcase_add_test(t, garbage_in_a_buffer);
    tcase_add_test(t, cut_anywhere);
    tcase_add_test(t, other_buffers_and_trailing_garbage);
    tcase_add_test(t, cut_while_it_is_read);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
