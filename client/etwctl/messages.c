/* SPDX-License-Identifier: Apache-2.0
 *
 * See messages.h. Folders are searched in the order in which they were named. One thread.
 */
#include "messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "base/winerror.h"
#include "output.h"

static TDH_HANDLE handle;
static char *folders;
static uint8_t *text;
static ULONG text_room;
static char *provider_cache, *name_cache;

void messages_clear(void)
{
    if (handle)
        (void) TdhCloseDecodingHandle(handle);
    handle = NULL;
    free(folders);
    folders = NULL;
    free(text);
    text = NULL;
    free(provider_cache);
    free(name_cache);
    provider_cache = name_cache = NULL;
    text_room = 0;
}

static ULONG set(TDH_CONTEXT_TYPE type, const char *value)
{
    _cleanup_free_ uint16_t *wide = etw_utf8_dup_utf16(value, SIZE_MAX);
    TDH_CONTEXT context = {.ParameterValue = (uintptr_t) wide, .ParameterType = type};

    return wide ? TdhSetDecodingParameter(handle, &context) : ERROR_NOT_ENOUGH_MEMORY;
}

int messages_add(const char *path)
{
    struct stat st;
    ULONG code = ERROR_SUCCESS;

    if (stat(path, &st) < 0) {
        say("%s: %s", path, strerror(errno));
        return errno == EACCES ? EXIT_DENIED : EXIT_ERROR;
    }
    if (!handle)
        code = TdhOpenDecodingHandle(&handle);
    if (code == ERROR_SUCCESS && S_ISDIR(st.st_mode)) {
        char *all = NULL;
        if (strchr(path, ';')) {
            say("%s: a folder of TMF files must not have ';' in its name", path);
            return EXIT_ERROR;
        }
        if (asprintf(&all, "%s%s%s", folders ? folders : "", folders ? ";" : "", path) < 0) {
            code = ERROR_NOT_ENOUGH_MEMORY;
        } else {
            free(folders);
            folders = all;
            code = set(TDH_CONTEXT_WPP_TMFSEARCHPATH, folders);
        }
    } else if (code == ERROR_SUCCESS) {
        code = set(TDH_CONTEXT_WPP_TMFFILE, path);
    }
    if (code == ERROR_SUCCESS)
        return EXIT_OK;
    const char *why = etw_winerror_text(code);
    if (code == ERROR_FILE_CORRUPT)
        why = "this is not a TMF file";
    say("%s: %s", path, why ? why : "it cannot be read");
    return code == ERROR_ACCESS_DENIED ? EXIT_DENIED : EXIT_ERROR;
}

/* A property into `text`; its bytes, 0: there is none. */
static ULONG get(const EVENT_RECORD *r, const char *name)
{
    _cleanup_free_ uint16_t *wide = etw_utf8_dup_utf16(name, SIZE_MAX);
    PEVENT_RECORD record = (PEVENT_RECORD) (uintptr_t) r;
    ULONG size = text_room, code;

    if (!wide)
        return 0;
    code = TdhGetWppProperty(handle, record, (LPWSTR) wide, &size, text);
    if (code == ERROR_INSUFFICIENT_BUFFER) {
        uint8_t *more = realloc(text, size);
        if (!more)
            return 0;
        text = more;
        text_room = size;
        code = TdhGetWppProperty(handle, record, (LPWSTR) wide, &size, text);
    }
    return code == ERROR_SUCCESS ? size : 0;
}

const void *messages_text(const EVENT_RECORD *r, size_t *ret_size)
{
    ULONG size = handle ? get(r, "FormattedString") : 0;

    if (size < 2)
        return NULL;
    *ret_size = size - 2;
    return text;
}

static const char *name_of(const EVENT_RECORD *r, const char *property, char **cache)
{
    free(*cache);
    *cache = get(r, property) ? etw_utf16_dup_utf8(text, SIZE_MAX) : NULL;
    return *cache ? *cache : "";
}

const char *messages_provider(const EVENT_RECORD *r)
{
    return name_of(r, "GuidName", &provider_cache);
}

const char *messages_name(const EVENT_RECORD *r)
{
    return name_of(r, "GuidTypeName", &name_cache);
}
