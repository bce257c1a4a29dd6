/* SPDX-License-Identifier: Apache-2.0
 *
 * GetLastError, SetLastError, FormatMessage and LocalFree for the codes of winerror.def. Not for
 * other texts: nothing is looked up anywhere else. Any thread.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "base/winerror.h"

/* Initial-exec: written in signal handlers too, where a thread's first access must not allocate. */
static _Thread_local DWORD last_error __attribute__((tls_model("initial-exec")));

DWORD WINAPI GetLastError(void)
{
    return last_error;
}

void WINAPI SetLastError(DWORD dwErrCode)
{
    last_error = dwErrCode;
}

ULONG finish(uint32_t code)
{
    if (code != ERROR_SUCCESS)
        last_error = code;
    return code;
}

uint32_t code_from_errno(int r)
{
    return etw_winerror_from_errno(r);
}

/* A text with its line end in bytes, or NULL with the reason in *ret_code. */
static char *message_text(DWORD flags, const void *buffer, DWORD id, uint32_t *ret_code)
{
    bool one_line = (flags & FORMAT_MESSAGE_MAX_WIDTH_MASK) == FORMAT_MESSAGE_MAX_WIDTH_MASK;
    const char *end = one_line ? " " : "\r\n", *text;
    size_t n;
    char *s;

    if (!buffer || !(flags & FORMAT_MESSAGE_FROM_SYSTEM)) {
        *ret_code = ERROR_INVALID_PARAMETER;
        return NULL;
    }
    text = etw_winerror_text(id);
    if (!text) {
        *ret_code = ERROR_MR_MID_NOT_FOUND;
        return NULL;
    }
    n = strlen(text);
    s = malloc(n + strlen(end) + 1);
    if (!s) {
        *ret_code = ERROR_NOT_ENOUGH_MEMORY;
        return NULL;
    }
    memcpy(s, text, n);
    strcpy(s + n, end);
    return s;
}

/* Where `units` units of `width` bytes and a NUL go: the caller's buffer, or new memory. */
static void *message_place(DWORD flags, void *buffer, DWORD size, size_t units, size_t width,
                           uint32_t *ret_code)
{
    void *place;

    if (!(flags & FORMAT_MESSAGE_ALLOCATE_BUFFER)) {
        if (size > units)
            return buffer;
        *ret_code = ERROR_INSUFFICIENT_BUFFER;
        return NULL;
    }
    place = calloc(size > units ? size : units + 1, width);
    if (!place) {
        *ret_code = ERROR_NOT_ENOUGH_MEMORY;
        return NULL;
    }
    /* The parameter's type is a string's; with this flag it is the address of one. */
    memcpy(buffer, &place, sizeof(place));
    return place;
}

DWORD WINAPI FormatMessageA(DWORD dwFlags, LPCVOID lpSource, DWORD dwMessageId, DWORD dwLanguageId,
                            LPSTR lpBuffer, DWORD nSize, void *Arguments)
{
    _cleanup_free_ char *text = NULL;
    uint32_t code;
    size_t n;
    char *place;

    text = message_text(dwFlags, lpBuffer, dwMessageId, &code);
    if (!text)
        return finish(code), 0;
    n = strlen(text);
    place = message_place(dwFlags, lpBuffer, nSize, n, sizeof(CHAR), &code);
    if (!place)
        return finish(code), 0;
    memcpy(place, text, n + 1);
    return (DWORD) n;
}

DWORD WINAPI FormatMessageW(DWORD dwFlags, LPCVOID lpSource, DWORD dwMessageId, DWORD dwLanguageId,
                            LPWSTR lpBuffer, DWORD nSize, void *Arguments)
{
    _cleanup_free_ char *text = NULL;
    uint32_t code;
    size_t n;
    void *place;

    text = message_text(dwFlags, lpBuffer, dwMessageId, &code);
    if (!text)
        return finish(code), 0;
    n = etw_utf8_to_utf16_size(text, SIZE_MAX);
    place = message_place(dwFlags, lpBuffer, nSize, n, sizeof(WCHAR), &code);
    if (!place)
        return finish(code), 0;
    return (DWORD) etw_utf8_to_utf16(text, SIZE_MAX, place, n + 1);
}

HLOCAL WINAPI LocalFree(HLOCAL hMem)
{
    free(hMem);
    return NULL;
}
