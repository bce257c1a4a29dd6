/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding handles: the TMF files that a program names, and the texts of WPP messages by them. A
 * handle is one thread's at a time; files found in folders are kept, and so is that there was none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fileio.h"
#include "base/limits.h"
#include "base/utf16.h"
#include "base/winerror.h"
#include "internal.h"
#include "manifest.h"
#include "tmf.h"

/* Message GUIDs looked for in folders: a program has one a source file. */
#define LOOKED_MAX 65536u

struct looked {
    struct etw_guid guid;
    struct tmf *tmf; /* NULL: no folder has it */
};

struct handle {
    struct tmf **files; /* of TMFFILE; the last one counts */
    size_t n_files;
    uint16_t *file, *path; /* as set */
    char *folders;         /* path in UTF-8 */
    ULONGLONG gmt, pointer_size;
    bool has_gmt;
    struct looked *looked; /* hash table, n of cap; cap is a power of two */
    size_t n, cap;
};

static size_t slot_of(const struct handle *h, const struct etw_guid *guid)
{
    uint64_t words[2];
    size_t i;

    memcpy(words, guid, sizeof(words));
    i = (size_t) ((words[0] ^ words[1] * 3) * 0x9E3779B97F4A7C15u >> 32) & (h->cap - 1);
    while (!etw_guid_is_null(&h->looked[i].guid) && !etw_guid_equal(&h->looked[i].guid, guid))
        i = (i + 1) & (h->cap - 1);
    return i;
}

static void forget(struct handle *h)
{
    for (size_t i = 0; i < h->cap; i++)
        (void) tmf_free(h->looked[i].tmf);
    free(h->looked);
    h->looked = NULL;
    h->n = h->cap = 0;
}

static int make_room(struct handle *h)
{
    struct handle bigger = {.cap = h->cap ? h->cap * 2 : 64};

    if (h->cap && h->n < h->cap / 2)
        return 0;
    bigger.looked = calloc(bigger.cap, sizeof(*bigger.looked));
    if (!bigger.looked)
        return -ENOMEM;
    for (size_t i = 0; i < h->cap; i++)
        if (!etw_guid_is_null(&h->looked[i].guid))
            bigger.looked[slot_of(&bigger, &h->looked[i].guid)] = h->looked[i];
    free(h->looked);
    h->looked = bigger.looked;
    h->cap = bigger.cap;
    return 0;
}

static int read_tmf(const char *path, struct tmf **ret)
{
    _cleanup_free_ char *data = NULL;
    size_t size;
    int r = etw_read_file(AT_FDCWD, path, ETW_MANIFEST_MAX, true, &data, &size);

    return r < 0 ? r : tmf_read(data, size, ret);
}

/* FOLDER/GUID.tmf of the first folder that has it. */
static struct tmf *look_in_folders(const char *folders, const struct etw_guid *guid)
{
    char name[ETW_GUID_STRING_MAX];
    struct tmf *t;

    (void) etw_guid_format(guid, name);
    for (const char *p = folders; p && *p;) {
        _cleanup_free_ char *path = NULL;
        size_t n = strcspn(p, ";");

        if (n > 0 && asprintf(&path, "%.*s/%s.tmf", (int) n, p, name) < 0)
            path = NULL;
        if (path && read_tmf(path, &t) == 0)
            return t;
        p += n + (p[n] != '\0');
    }
    return NULL;
}

static uint32_t find(struct handle *h, const EVENT_RECORD *r, const struct tmf_message **ret)
{
    struct etw_guid guid;

    memcpy(&guid, &r->EventHeader.ProviderId, sizeof(guid));
    if (!(r->EventHeader.Flags & EVENT_HEADER_FLAG_TRACE_MESSAGE) || etw_guid_is_null(&guid))
        return ERROR_NOT_FOUND;
    USHORT number = r->EventHeader.EventDescriptor.Id;
    for (size_t i = h->n_files; i-- > 0;) {
        *ret = tmf_find(h->files[i], &guid, number);
        if (*ret)
            return ERROR_SUCCESS;
    }
    if (!h->folders)
        return ERROR_NOT_FOUND;
    if (make_room(h) < 0)
        return ERROR_NOT_ENOUGH_MEMORY;
    struct looked *l = &h->looked[slot_of(h, &guid)];
    if (etw_guid_is_null(&l->guid)) {
        if (h->n == LOOKED_MAX)
            return ERROR_NOT_FOUND;
        l->tmf = look_in_folders(h->folders, &guid);
        l->guid = guid;
        h->n++;
    }
    *ret = l->tmf ? tmf_find(l->tmf, &guid, number) : NULL;
    return *ret ? ERROR_SUCCESS : ERROR_NOT_FOUND;
}

ULONG WINAPI TdhOpenDecodingHandle(PTDH_HANDLE Handle)
{
    struct handle *h;

    if (!Handle)
        return finish(ERROR_INVALID_PARAMETER);
    h = calloc(1, sizeof(*h));
    if (!h)
        return finish(ERROR_NOT_ENOUGH_MEMORY);
    *Handle = h;
    return ERROR_SUCCESS;
}

ULONG WINAPI TdhCloseDecodingHandle(TDH_HANDLE Handle)
{
    struct handle *h = Handle;

    if (!h)
        return finish(ERROR_INVALID_PARAMETER);
    for (size_t i = 0; i < h->n_files; i++)
        (void) tmf_free(h->files[i]);
    forget(h);
    free(h->files);
    free(h->file);
    free(h->path);
    free(h->folders);
    free(h);
    return ERROR_SUCCESS;
}

static uint32_t add_file(struct handle *h, const char *path)
{
    struct tmf **more = reallocarray(h->files, h->n_files + 1, sizeof(*more));
    int r;

    if (!more)
        return ERROR_NOT_ENOUGH_MEMORY;
    h->files = more;
    r = read_tmf(path, &h->files[h->n_files]);
    if (r == -EBADMSG || r == -EFBIG)
        return ERROR_FILE_CORRUPT;
    if (r == -ENOENT || r == -ENOTDIR)
        return ERROR_FILE_NOT_FOUND;
    if (r < 0)
        return etw_winerror_from_errno(r);
    h->n_files++;
    return ERROR_SUCCESS;
}

static uint32_t set_text(struct handle *h, const TDH_CONTEXT *c)
{
    const void *wide = (const void *) (uintptr_t) c->ParameterValue;
    bool is_file = c->ParameterType == TDH_CONTEXT_WPP_TMFFILE;
    uint32_t code;

    if (!wide)
        return ERROR_INVALID_PARAMETER;
    _cleanup_free_ char *utf8 = etw_utf16_dup_utf8(wide, SIZE_MAX);
    _cleanup_free_ uint16_t *copy = utf8 ? etw_utf8_dup_utf16(utf8, SIZE_MAX) : NULL;
    if (!copy)
        return ERROR_NOT_ENOUGH_MEMORY;
    if (is_file) {
        code = add_file(h, utf8);
        if (code != ERROR_SUCCESS)
            return code;
    } else {
        forget(h);
        free(h->folders);
        h->folders = utf8;
        utf8 = NULL;
    }
    free(is_file ? h->file : h->path);
    *(is_file ? &h->file : &h->path) = copy;
    copy = NULL;
    return ERROR_SUCCESS;
}

ULONG WINAPI TdhSetDecodingParameter(TDH_HANDLE Handle, PTDH_CONTEXT TdhContext)
{
    struct handle *h = Handle;

    if (!h || !TdhContext)
        return finish(ERROR_INVALID_PARAMETER);
    no_cancel();
    switch (TdhContext->ParameterType) {
    case TDH_CONTEXT_WPP_TMFFILE:
    case TDH_CONTEXT_WPP_TMFSEARCHPATH:
        return finish(set_text(h, TdhContext));
    case TDH_CONTEXT_WPP_GMT:
        h->gmt = TdhContext->ParameterValue;
        h->has_gmt = true;
        return ERROR_SUCCESS;
    case TDH_CONTEXT_POINTERSIZE:
        if (TdhContext->ParameterValue != 0 && TdhContext->ParameterValue != 4 &&
            TdhContext->ParameterValue != 8)
            return finish(ERROR_INVALID_PARAMETER);
        h->pointer_size = TdhContext->ParameterValue;
        return ERROR_SUCCESS;
    case TDH_CONTEXT_PDB_PATH:
        return finish(ERROR_NOT_SUPPORTED);
    default:
        return finish(ERROR_INVALID_PARAMETER);
    }
}

ULONG WINAPI TdhGetDecodingParameter(TDH_HANDLE Handle, PTDH_CONTEXT TdhContext)
{
    const struct handle *h = Handle;
    ULONGLONG value;

    if (!h || !TdhContext)
        return finish(ERROR_INVALID_PARAMETER);
    switch (TdhContext->ParameterType) {
    case TDH_CONTEXT_WPP_TMFFILE:
    case TDH_CONTEXT_WPP_TMFSEARCHPATH:
        value =
            (uintptr_t) (TdhContext->ParameterType == TDH_CONTEXT_WPP_TMFFILE ? h->file : h->path);
        if (!value)
            return finish(ERROR_NOT_FOUND);
        break;
    case TDH_CONTEXT_WPP_GMT:
        if (!h->has_gmt)
            return finish(ERROR_NOT_FOUND);
        value = h->gmt;
        break;
    case TDH_CONTEXT_POINTERSIZE:
        if (!h->pointer_size)
            return finish(ERROR_NOT_FOUND);
        value = h->pointer_size;
        break;
    default:
        return finish(ERROR_INVALID_PARAMETER);
    }
    TdhContext->ParameterValue = value;
    TdhContext->ParameterSize = sizeof(value);
    return ERROR_SUCCESS;
}

static uint32_t answer(const void *value, size_t bytes, ULONG *size, PBYTE buffer)
{
    bool fits = buffer && bytes <= *size;

    *size = (ULONG) bytes;
    if (!fits)
        return ERROR_INSUFFICIENT_BUFFER;
    memcpy(buffer, value, bytes);
    return ERROR_SUCCESS;
}

static uint32_t answer_text(const char *utf8, ULONG *size, PBYTE buffer)
{
    _cleanup_free_ uint16_t *wide = etw_utf8_dup_utf16(utf8, SIZE_MAX);

    if (!wide)
        return ERROR_NOT_ENOUGH_MEMORY;
    return answer(wide, (etw_utf16_len(wide, SIZE_MAX) + 1) * sizeof(*wide), size, buffer);
}

static uint32_t answer_message(const struct handle *h, const struct tmf_message *m,
                               const EVENT_RECORD *r, ULONG *size, PBYTE buffer)
{
    const EVENT_HEADER *e = &r->EventHeader;
    struct tmf_header header = {
        .thread_id = e->ThreadId,
        .process_id = e->ProcessId,
        .cpu = GetEventProcessorIndex(r),
        .filetime = (uint64_t) e->TimeStamp.QuadPart,
    };
    _cleanup_free_ char *text = NULL;
    uint8_t pointer_size = (uint8_t) h->pointer_size;
    int code;

    if (!pointer_size)
        pointer_size = e->Flags & EVENT_HEADER_FLAG_32_BIT_HEADER ? 4 : 8;
    code = tmf_text(m, &header, r->UserData, r->UserDataLength, pointer_size, &text);
    if (code == -EBADMSG)
        return ERROR_EVT_INVALID_EVENT_DATA;
    if (code < 0)
        return ERROR_NOT_ENOUGH_MEMORY;
    return answer_text(text, size, buffer);
}

static uint32_t get_property(struct handle *h, const EVENT_RECORD *r, const char *name, ULONG *size,
                             PBYTE buffer)
{
    const EVENT_HEADER *e = &r->EventHeader;
    const struct tmf_message *m;
    const struct {
        const char *name;
        ULONG value;
    } numbers[] = {
        {"ThreadId", e->ThreadId},
        {"ProcessId", e->ProcessId},
        {"CpuNumber", GetEventProcessorIndex(r)},
        {"Version", e->EventDescriptor.Id},
    };
    uint32_t code = find(h, r, &m);

    if (code != ERROR_SUCCESS)
        return code;
    const struct {
        const char *name, *value;
    } texts[] = {
        {"GuidName", m->provider},      {"GuidTypeName", m->name}, {"FunctionName", m->function},
        {"ComponentName", m->provider}, {"LevelName", m->level},   {"FlagsName", m->flags},
    };
    if (!strcmp(name, "FormattedString"))
        return answer_message(h, m, r, size, buffer);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (!strcmp(name, texts[i].name))
            return answer_text(texts[i].value, size, buffer);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (!strcmp(name, numbers[i].name))
            return answer(&numbers[i].value, sizeof(ULONG), size, buffer);
    if (!strcmp(name, "TraceGuid"))
        return answer(&e->ProviderId, sizeof(GUID), size, buffer);
    if (!strcmp(name, "RawSystemTime"))
        return answer(&e->TimeStamp, sizeof(e->TimeStamp), size, buffer);
    return ERROR_NOT_FOUND;
}

ULONG WINAPI TdhGetWppProperty(TDH_HANDLE Handle, PEVENT_RECORD EventRecord, LPWSTR PropertyName,
                               ULONG *BufferSize, PBYTE Buffer)
{
    _cleanup_free_ char *name = NULL;

    if (!Handle || !EventRecord || !PropertyName || !BufferSize ||
        (EventRecord->UserDataLength > 0 && !EventRecord->UserData))
        return finish(ERROR_INVALID_PARAMETER);
    no_cancel();
    name = etw_utf16_dup_utf8(PropertyName, SIZE_MAX);
    if (!name)
        return finish(ERROR_NOT_ENOUGH_MEMORY);
    return finish(get_property(Handle, EventRecord, name, BufferSize, Buffer));
}

ULONG WINAPI TdhGetWppMessage(TDH_HANDLE Handle, PEVENT_RECORD EventRecord, ULONG *BufferSize,
                              PBYTE Buffer)
{
    static const uint16_t name[] = {'F', 'o', 'r', 'm', 'a', 't', 't', 'e',
                                    'd', 'S', 't', 'r', 'i', 'n', 'g', 0};

    return TdhGetWppProperty(Handle, EventRecord, (LPWSTR) (uintptr_t) name, BufferSize, Buffer);
}
