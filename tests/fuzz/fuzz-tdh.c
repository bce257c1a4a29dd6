/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: schemas, values and texts of hostile events. The first byte says whether the event
 * is a class's (then its row, version) or describes itself (then the length of its metadata in
 * units of two bytes); the metadata follow, the rest is the event's data. Every property is read,
 * whole and by elements, and made text, also as types that are drawn from the data.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <tdh.h>

#include "etl/classes.h"

#define ROOM 65536u

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void format(TRACE_EVENT_INFO *info, uint16_t in, uint16_t out, uint16_t length,
                   const uint8_t *data, size_t size)
{
    static WCHAR text[256];
    ULONG bytes = sizeof(text);
    USHORT consumed = 0, n = size > UINT16_MAX ? UINT16_MAX : (USHORT) size;
    /* Its own memory, so that reading beyond is seen. */
    uint8_t *copy = malloc(n ? n : 1);

    if (!copy)
        return;
    memcpy(copy, data, n);
    ULONG code =
        TdhFormatProperty(info, NULL, 8, in, out, length, n, copy, &bytes, text, &consumed);
    if (code == ERROR_SUCCESS)
        check(consumed <= n && bytes >= 2 && bytes <= sizeof(text) && text[bytes / 2 - 1] == 0);
    free(copy);
}

static void property(EVENT_RECORD *r, TRACE_EVENT_INFO *info, unsigned i, uint8_t *value)
{
    const EVENT_PROPERTY_INFO *p = &info->EventPropertyInfoArray[i];
    static const ULONG indexes[] = {0xFFFFFFFF, 0, 1, 7};

    for (size_t k = 0; k < sizeof(indexes) / sizeof(indexes[0]); k++) {
        PROPERTY_DATA_DESCRIPTOR d = {.PropertyName = (uintptr_t) info + p->NameOffset,
                                      .ArrayIndex = indexes[k]};
        ULONG size = 0;
        ULONG code = TdhGetPropertySize(r, 0, NULL, 1, &d, &size);
        check(code != ERROR_SUCCESS || size <= r->UserDataLength);
        check(TdhGetProperty(r, 0, NULL, 1, &d, ROOM, value) == code);
        if (code == ERROR_SUCCESS && !(p->Flags & PropertyStruct))
            format(info, p->nonStructType.InType, p->nonStructType.OutType,
                   p->Flags & PropertyParamLength ? (USHORT) size : p->length, value, size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t value[ROOM];
    EVENT_HEADER_EXTENDED_DATA_ITEM item = {.ExtType = EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL};
    EVENT_RECORD r = {.EventHeader.Flags = EVENT_HEADER_FLAG_64_BIT_HEADER};
    uint8_t *metadata = NULL, *payload;
    ULONG need = 0;

    if (size < 4 || size > UINT16_MAX)
        return 0;
    size_t at = 3;
    if (data[0] & 1) {
        const struct etl_class_row *row = &etl_rows[data[1] % ETL_ROW_COUNT];
        r.EventHeader.Flags |= EVENT_HEADER_FLAG_CLASSIC_HEADER;
        memcpy(&r.EventHeader.ProviderId, &row->guid, sizeof(GUID));
        r.EventHeader.EventDescriptor.Opcode = row->opcode;
        r.EventHeader.EventDescriptor.Version = data[2];
        if (data[0] & 2)
            r.EventHeader.Flags |= EVENT_HEADER_FLAG_32_BIT_HEADER;
    } else {
        size_t n = (size_t) data[1] * 2;
        if (n > size - at)
            n = size - at;
        metadata = malloc(n ? n : 1);
        if (!metadata)
            return 0;
        memcpy(metadata, data + at, n);
        item.DataSize = (USHORT) n;
        item.DataPtr = (uintptr_t) metadata;
        r.ExtendedData = &item;
        r.ExtendedDataCount = 1;
        at += n;
    }
    payload = malloc(size - at ? size - at : 1);
    if (payload) {
        memcpy(payload, data + at, size - at);
        r.UserData = payload;
        r.UserDataLength = (USHORT) (size - at);
    }
    TRACE_EVENT_INFO *info = NULL;
    if (payload && TdhGetEventInformation(&r, 0, NULL, NULL, &need) == ERROR_INSUFFICIENT_BUFFER)
        info = malloc(need);
    if (info && TdhGetEventInformation(&r, 0, NULL, info, &need) == ERROR_SUCCESS) {
        check(info->TopLevelPropertyCount <= info->PropertyCount);
        for (unsigned i = 0; i < info->PropertyCount && i < 64; i++)
            property(&r, info, i, value);
        format(info, data[1] < 26 ? data[1] : (uint16_t) (300 + data[1] % 12),
               (uint16_t) (data[2] % 40), data[0] >> 2, payload, size - at);
    }
    free(info);
    free(payload);
    free(metadata);
    return 0;
}
