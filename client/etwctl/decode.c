/* SPDX-License-Identifier: Apache-2.0
 *
 * From an EVENT_RECORD to what can be printed; see decode.h. One thread.
 */
#include "decode.h"

#include <string.h>

#include "base/cleanup.h"
#include "etl/classes.h"
#include "messages.h"

const char *kind_name(enum kind k)
{
    static const char *const names[] = {
        [KIND_EVENT] = "event",     [KIND_TRACELOGGING] = "tracelogging",
        [KIND_CLASSIC] = "classic", [KIND_MESSAGE] = "message",
        [KIND_SYSTEM] = "system",
    };

    return names[k];
}

enum kind kind_of_event(const struct etl_event *e)
{
    struct etl_item item;
    uint32_t pos = 0;

    if (etl_header_is_system(e->header_type))
        return KIND_SYSTEM;
    switch (e->header_type) {
    case ETL_MESSAGE:
        return KIND_MESSAGE;
    case ETL_EVENT32:
    case ETL_EVENT64:
        while (etl_item_next(e, &pos, &item) > 0)
            if (item.type == ETL_ITEM_EVENT_SCHEMA_TL)
                return KIND_TRACELOGGING;
        return KIND_EVENT;
    default:
        return KIND_CLASSIC;
    }
}

/* GUID, opcode and version decide what an event is; the tables are searched once for each. */
struct known {
    struct etw_guid guid;
    uint8_t opcode;
    uint8_t version;
    bool used;
    const char *name;
    const struct etl_class_row *row;
};

static const char *find_name(const struct etw_guid *guid)
{
    const char *name = etl_class_name(guid);

    for (size_t i = 0; !name && i < ETL_ROW_COUNT; i++)
        if (etw_guid_equal(&etl_rows[i].guid, guid))
            name = etl_rows[i].class_name;
    return name;
}

static const struct known *known_get(const struct etw_guid *guid, uint8_t opcode, uint8_t version)
{
    static struct known cache[1024];
    uint32_t hash = (guid->data1 ^ (uint32_t) guid->data4[7] << 8 ^ opcode) * 0x9E3779B1u;
    struct known *k = &cache[(hash ^ version) >> 3 & (ARRAY_SIZE(cache) - 1)];

    if (!k->used || k->opcode != opcode || k->version != version || !etw_guid_equal(&k->guid, guid))
        *k = (struct known){
            .guid = *guid,
            .opcode = opcode,
            .version = version,
            .used = true,
            .name = find_name(guid),
            .row = etl_find_any_row(guid, opcode, version),
        };
    return k;
}

const char *provider_name(const struct etw_guid *guid)
{
    return known_get(guid, 0, 0)->name;
}

/* Of the class of `like`, in any version, with an opcode from first to last. */
static bool is_of(const struct etl_class_row *row, enum etl_row like, uint8_t first, uint8_t last)
{
    return row->opcode >= first && row->opcode <= last &&
           etw_guid_equal(&row->guid, &etl_rows[like].guid);
}

/* Some group of the kernel has this class. */
static bool is_hook_class(const struct etw_guid *guid)
{
    static struct etw_guid classes[256];
    static unsigned n;

    if (n == 0)
        for (unsigned g = 0; g < 256; g++) {
            const struct etw_guid *c = etl_hook_guid((uint8_t) g, 0xFF);
            if (c && !etw_guid_is_null(c))
                classes[n++] = *c;
        }
    for (unsigned i = 0; i < n; i++)
        if (etw_guid_equal(&classes[i], guid))
            return true;
    return false;
}

static enum kind kind_of_record(const EVENT_RECORD *r, const struct etw_guid *guid, bool has_tl)
{
    if (r->EventHeader.Flags & EVENT_HEADER_FLAG_TRACE_MESSAGE)
        return KIND_MESSAGE;
    if (!(r->EventHeader.Flags & EVENT_HEADER_FLAG_CLASSIC_HEADER))
        return has_tl ? KIND_TRACELOGGING : KIND_EVENT;
    uint8_t type = (uint8_t) r->EventHeader.HeaderType;
    if (type != 0)
        return etl_header_is_system(type) ? KIND_SYSTEM : KIND_CLASSIC;
    return etw_guid_is_null(guid) || is_hook_class(guid) ? KIND_SYSTEM : KIND_CLASSIC;
}

/* Extended data: what of it dump shows. */
static void take_items(struct decoded *d)
{
    const EVENT_RECORD *r = d->record;
    const void *schema = NULL;
    uint16_t schema_size = 0;

    for (unsigned i = 0; i < r->ExtendedDataCount; i++) {
        const EVENT_HEADER_EXTENDED_DATA_ITEM *item = &r->ExtendedData[i];
        const uint8_t *data = (const uint8_t *) (uintptr_t) item->DataPtr;
        const char *name;
        uint32_t len;

        switch (item->ExtType) {
        case ETL_ITEM_RELATED_ACTIVITYID:
            if (item->DataSize >= 16)
                d->related_activity = data;
            break;
        case ETL_ITEM_STACK_TRACE32:
        case ETL_ITEM_STACK_TRACE64:
            if (item->DataSize < 8)
                break;
            d->stack = data + 8;
            d->stack_size = item->DataSize - 8u;
            d->stack_width = item->ExtType == ETL_ITEM_STACK_TRACE32 ? 4 : 8;
            break;
        case ETL_ITEM_EVENT_SCHEMA_TL:
            schema = data;
            schema_size = item->DataSize;
            break;
        case ETL_ITEM_PROV_TRAITS:
            if (etl_tl_provider_name(data, item->DataSize, &name, &len) == 0 && len > 0) {
                d->provider = name;
                d->provider_len = len;
            }
            break;
        default:
            break;
        }
    }
    if (schema && etl_tl_init(&d->tl, schema, schema_size, r->UserData, r->UserDataLength,
                              d->e.pointer_size) == 0) {
        d->has_tl = true;
        d->event = d->tl.event_name;
        d->event_len = d->tl.event_name_len;
    }
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

/* A process event: its name, whatever the event (a trace may know a process by its end alone). */
static void take_process(struct trace_state *t, struct decoded *d)
{
    struct etl_fields f;
    struct etl_value v;
    bool ends =
        d->row->opcode == ETL_OPCODE_Process_End || d->row->opcode == ETL_OPCODE_Process_DCEnd;

    etl_fields_init(&f, d->row, &d->e);
    while (etl_fields_next(&f, &v) > 0) {
        if (!strcmp(v.field->name, "ProcessId")) {
            d->subject_pid = (uint32_t) v.integer;
            d->has_subject_pid = true;
        } else if (!strcmp(v.field->name, "ImageFileName")) {
            if (d->has_subject_pid && v.size > 0 && (!ends || !names_of(t->names, d->subject_pid)))
                names_process(t->names, d->subject_pid, (const char *) v.data, v.size);
            return;
        }
    }
}

static void take_image(struct trace_state *t, struct decoded *d)
{
    struct etl_fields f;
    struct etl_value v;
    uint64_t base = 0;

    etl_fields_init(&f, d->row, &d->e);
    while (!d->has_subject_pid && etl_fields_next(&f, &v) > 0) {
        if (!strcmp(v.field->name, "ImageBase"))
            base = v.integer;
        if (!strcmp(v.field->name, "ProcessId")) {
            d->subject_pid = (uint32_t) v.integer;
            d->has_subject_pid = true;
        }
    }
    if (!d->has_subject_pid)
        return;
    bool goes =
        d->row->opcode == ETL_OPCODE_Image_UnLoad || d->row->opcode == ETL_OPCODE_Image_DCEnd;
    d->build_id =
        (goes ? image_ids_goes : image_ids_comes)(t->image_ids, d->raw, d->subject_pid, base);
}

static void take_build_id(struct trace_state *t, const struct decoded *d)
{
    struct build_id b = {.stamp = d->raw};
    struct etl_tl tl = d->tl;
    struct etl_tl_value v;

    while (etl_tl_next(&tl, &v) > 0) {
        if (v.name_len == 9 && !memcmp(v.name, "ProcessId", 9))
            b.pid = (uint32_t) v.integer;
        else if (v.name_len == 9 && !memcmp(v.name, "ImageBase", 9))
            b.base = v.integer;
        else if (v.name_len == 7 && !memcmp(v.name, "BuildId", 7) && v.kind == ETL_TL_IS_BINARY &&
                 v.size > 0 && v.size <= sizeof(b.bytes)) {
            memcpy(b.bytes, v.data, v.size);
            b.size = (uint8_t) v.size;
        }
    }
    if (b.size > 0)
        image_ids_told(t->image_ids, &b);
}

static bool is_image(const struct etl_class_row *row)
{
    return is_of(row, ETL_ROW_Image_Load, ETL_OPCODE_Image_UnLoad, ETL_OPCODE_Image_DCEnd) ||
           is_of(row, ETL_ROW_Image_Load, ETL_OPCODE_Image_Load, ETL_OPCODE_Image_Load);
}

/* What the event says about processes and threads, before it is shown. */
static void take_facts(struct trace_state *t, struct decoded *d)
{
    if (d->has_tl) {
        if (etw_guid_equal(&d->guid, &etl_rows[ETL_ROW_LinuxKernel_ImageBuildId].guid)) {
            names_set_linux(t->names);
            if (d->event_len == 12 && !memcmp(d->event, "ImageBuildId", 12))
                take_build_id(t, d);
        } else if (etw_guid_equal(&d->guid, &etl_rows[ETL_ROW_LinuxEtwd_MachineInfo].guid)) {
            names_set_linux(t->names);
        }
        return;
    }
    if (!d->row)
        return;
    if (is_of(d->row, ETL_ROW_Process_Start, ETL_OPCODE_Process_Start, ETL_OPCODE_Process_DCEnd)) {
        take_process(t, d);
    } else if (is_of(d->row, ETL_ROW_Thread_Start, ETL_OPCODE_Thread_Start,
                     ETL_OPCODE_Thread_DCEnd)) {
        if (d->e.data_size < 8)
            return;
        /* the first layout had them the other way round */
        bool swapped = d->row->version == 0;
        d->subject_pid = get32(d->e.data + (swapped ? 4 : 0));
        d->subject_tid = get32(d->e.data + (swapped ? 0 : 4));
        d->has_subject_pid = d->has_subject_tid = true;
        names_thread(t->names, d->subject_tid, d->subject_pid);
    } else if (is_of(d->row, ETL_ROW_Thread_Start, ETL_OPCODE_Thread_CSwitch,
                     ETL_OPCODE_Thread_CSwitch)) {
        if (d->e.data_size < 8)
            return;
        d->tid = get32(d->e.data);
        d->has_tid = true;
        d->has_pid = names_pid_of(t->names, d->tid, &d->pid);
        d->subject_tid = get32(d->e.data + 4);
        d->has_subject_tid = true;
        d->has_subject_pid = names_pid_of(t->names, d->subject_tid, &d->subject_pid);
    } else if (is_of(d->row, ETL_ROW_Thread_Start, ETL_OPCODE_Thread_ReadyThread,
                     ETL_OPCODE_Thread_ReadyThread)) {
        if (d->e.data_size < 4)
            return;
        d->subject_tid = get32(d->e.data);
        d->has_subject_tid = true;
        d->has_subject_pid = names_pid_of(t->names, d->subject_tid, &d->subject_pid);
    } else if (is_image(d->row)) {
        take_image(t, d);
    }
}

/* An event that somebody else describes. */
static void take_schema(struct decoded *d)
{
    d->is_text = (d->record->EventHeader.Flags & EVENT_HEADER_FLAG_STRING_ONLY) != 0;
    if (d->is_text)
        return;
    d->schema = schemas_of(d->record);
    if (!d->schema)
        return;
    const char *provider = schema_provider(d->schema), *event = schema_event(d->schema);
    if (provider && !d->provider) {
        d->provider = provider;
        d->provider_len = (uint32_t) strlen(provider);
    }
    if (event) {
        d->event = event;
        d->event_len = (uint32_t) strlen(event);
    }
}

/* A WPP message: the names first, since the text stays in their place. */
static void take_message(struct decoded *d)
{
    const char *provider, *name;

    if (!messages_text(d->record, &d->message_size))
        return;
    provider = messages_provider(d->record);
    name = messages_name(d->record);
    d->message = messages_text(d->record, &d->message_size);
    if (*provider) {
        d->provider = provider;
        d->provider_len = (uint32_t) strlen(provider);
    }
    if (*name) {
        d->event = name;
        d->event_len = (uint32_t) strlen(name);
    }
}

void decode_event(struct trace_state *t, const EVENT_RECORD *record, struct decoded *ret)
{
    const EVENT_HEADER *h = &record->EventHeader;
    struct decoded *d = ret;

    memset(d, 0, offsetof(struct decoded, tl));
    memset(&d->e, 0, sizeof(*d) - offsetof(struct decoded, e));
    d->record = record;
    memcpy(&d->guid, &h->ProviderId, sizeof(d->guid));
    d->e.guid = d->guid;
    d->e.opcode = h->EventDescriptor.Opcode;
    d->e.version = h->EventDescriptor.Version;
    d->e.data = record->UserData;
    d->e.data_size = record->UserDataLength;
    d->e.pointer_size = h->Flags & EVENT_HEADER_FLAG_32_BIT_HEADER ? 4 : 8;
    d->raw = (uint64_t) h->TimeStamp.QuadPart;
    d->unix_ns = etw_timebase_unix_ns(&t->timebase, d->raw);
    d->filetime = etw_timebase_filetime(&t->timebase, d->raw);
    d->cpu = GetEventProcessorIndex(record);
    d->has_pid = h->ProcessId != UINT32_MAX;
    d->has_tid = h->ThreadId != UINT32_MAX;
    d->pid = h->ProcessId;
    d->tid = h->ThreadId;

    if (record->ExtendedDataCount > 0)
        take_items(d);
    d->kind = kind_of_record(record, &d->guid, d->has_tl);

    bool by_class = d->kind == KIND_SYSTEM || d->kind == KIND_CLASSIC;
    if (by_class || !d->provider) {
        const struct known *k =
            known_get(&d->guid, by_class ? d->e.opcode : 0, by_class ? d->e.version : 0);
        if (by_class)
            d->row = k->row;
        if (d->kind == KIND_CLASSIC && d->row)
            d->e.pointer_size = etl_row_pointer_size(d->row, &d->e);
        if (!d->provider && k->name) {
            d->provider = k->name;
            d->provider_len = (uint32_t) strlen(k->name);
        }
    }
    if (d->kind == KIND_EVENT)
        take_schema(d);
    else if (d->kind == KIND_MESSAGE)
        take_message(d);
    if (d->row) {
        d->event = d->row->event_name;
        d->event_len = (uint32_t) strlen(d->event);
    }
    take_facts(t, d);
    if (d->has_pid)
        d->process = names_of(t->names, d->pid);
}
