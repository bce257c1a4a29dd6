/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of WPP messages: decoding handles, TMF files and folders, every code of their functions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tdh.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "lib/test.h"

#define GUID_TEXT "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
static const GUID guid = {
    0x0f1e2d3c, 0x4b5a, 0x6978, {0x87, 0x96, 0xa5, 0xb4, 0xc3, 0xd2, 0xe1, 0xf0}};

static const char tmf[] =
    "// PDB:  example.pdb\r\n" GUID_TEXT " example // SRC=example.c MJ= MN=\r\n"
    "#typev example_c1 10 \"%0a=%10!d! b=%11!s!%% in %!FUNC!\" //   LEVEL=INFO FLAGS=net "
    "FUNC=main\n"
    "{\n"
    "x, ItemLong -- 10\n"
    "name(\"a, b\"), ItemWString -- 11\n"
    "}\n"
    "#typev example_c2 11 \"%0%10!p! %11!s! %12!s! %13!s! %14!s!\" //   LEVEL=INFO FUNC=main\n"
    "{\n"
    "p, ItemPtr -- 10\n"
    "t, ItemTimeDelta -- 11\n"
    "l, ItemListShort(Low,High) -- 12\n"
    "s, ItemSetByte(1,2,3) -- 13\n"
    "r, ItemRString -- 14\n"
    "}\n"
    "#typev example_c3 12 \"%0%10!d!\" //   LEVEL=INFO FUNC=main\n"
    "{\n"
    "x, ItemOfNoTypeThatIsKnown -- 10\n"
    "}\n";

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static ULONG set(TDH_HANDLE h, TDH_CONTEXT_TYPE type, const char *value)
{
    _cleanup_free_ uint16_t *wide = etw_utf8_dup_utf16(value, SIZE_MAX);
    TDH_CONTEXT c = {.ParameterValue = (uintptr_t) wide, .ParameterType = type};

    return TdhSetDecodingParameter(h, &c);
}

static EVENT_RECORD message(uint16_t number, const void *data, size_t size)
{
    EVENT_RECORD r = {.UserData = (PVOID) (uintptr_t) data, .UserDataLength = (USHORT) size};

    r.EventHeader.ProviderId = guid;
    r.EventHeader.Flags = EVENT_HEADER_FLAG_64_BIT_HEADER | EVENT_HEADER_FLAG_TRACE_MESSAGE;
    r.EventHeader.EventDescriptor.Id = number;
    r.EventHeader.ThreadId = 7;
    r.EventHeader.ProcessId = 8;
    return r;
}

/* The text of a property; fails on another code. */
static char *property(TDH_HANDLE h, EVENT_RECORD *r, const char *name, ULONG want)
{
    _cleanup_free_ uint16_t *wide = etw_utf8_dup_utf16(name, SIZE_MAX);
    BYTE buffer[1024];
    ULONG size = 0, again;
    ULONG code = TdhGetWppProperty(h, r, (LPWSTR) wide, &size, NULL);

    if (want != ERROR_SUCCESS) {
        ck_assert_msg(code == want, "%s: %u", name, code);
        return NULL;
    }
    ck_assert_msg(code == ERROR_INSUFFICIENT_BUFFER, "%s: %u", name, code);
    ck_assert_uint_le(size, sizeof(buffer));
    again = size - 1;
    ck_assert_uint_eq(TdhGetWppProperty(h, r, (LPWSTR) wide, &again, buffer),
                      ERROR_INSUFFICIENT_BUFFER);
    ck_assert_uint_eq(again, size);
    again = sizeof(buffer);
    ck_assert_uint_eq(TdhGetWppProperty(h, r, (LPWSTR) wide, &again, buffer), ERROR_SUCCESS);
    ck_assert_uint_eq(again, size);
    return etw_utf16_dup_utf8(buffer, SIZE_MAX);
}

static void is(TDH_HANDLE h, EVENT_RECORD *r, const char *name, const char *want)
{
    _cleanup_free_ char *got = property(h, r, name, ERROR_SUCCESS);
    ck_assert_str_eq(got, want);
}

static const uint8_t data1[] = {0xFE, 0xFF, 0xFF, 0xFF, 'o', 0, 'k', 0, 0, 0};
static const uint8_t data2[] = {1, 2, 3, 4, 5, 6, 7, 8,   0x80, 0xF0, 0xFA, 2,
                                0, 0, 0, 0, 1, 0, 5, 'x', '\r', '\n', 0};

START_TEST(texts)
{
    TDH_HANDLE h = NULL;
    EVENT_RECORD r1 = message(10, data1, sizeof(data1)), r2 = message(11, data2, sizeof(data2));
    EVENT_RECORD r3 = message(12, data1, sizeof(data1));
    _cleanup_free_ char *path = test_path("one.tmf");
    _cleanup_free_ uint16_t *thread = etw_utf8_dup_utf16("ThreadId", SIZE_MAX);
    ULONG number = 0, size = sizeof(number);

    write_file(path, tmf);
    ck_assert_uint_eq(TdhOpenDecodingHandle(&h), ERROR_SUCCESS);
    (void) property(h, &r1, "FormattedString", ERROR_NOT_FOUND);
    ck_assert_uint_eq(set(h, TDH_CONTEXT_WPP_TMFFILE, path), ERROR_SUCCESS);
    is(h, &r1, "FormattedString", "a=-2 b=ok% in main");
    is(h, &r1, "GuidName", "example");
    is(h, &r1, "GuidTypeName", "example_c1");
    is(h, &r1, "FunctionName", "main");
    is(h, &r1, "LevelName", "INFO");
    is(h, &r1, "FlagsName", "net");
    is(h, &r2, "FlagsName", "");
    is(h, &r2, "FormattedString", "0807060504030201 5.000s 0x00000001(High) [1,3] x");
    ck_assert_uint_eq(TdhGetWppProperty(h, &r1, (LPWSTR) thread, &size, (PBYTE) &number),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(number, 7);
    (void) property(h, &r1, "NoSuchProperty", ERROR_NOT_FOUND);
    /* a type that nobody knows; a number that is not there; no WPP message */
    (void) property(h, &r3, "FormattedString", ERROR_NOT_FOUND);
    r3.EventHeader.EventDescriptor.Id = 99;
    (void) property(h, &r3, "FormattedString", ERROR_NOT_FOUND);
    r1.EventHeader.Flags = EVENT_HEADER_FLAG_64_BIT_HEADER;
    (void) property(h, &r1, "FormattedString", ERROR_NOT_FOUND);
    /* data that are too short */
    r2.UserDataLength = 12;
    (void) property(h, &r2, "FormattedString", ERROR_EVT_INVALID_EVENT_DATA);
    ck_assert_uint_eq(TdhCloseDecodingHandle(h), ERROR_SUCCESS);
}
END_TEST

START_TEST(folders)
{
    TDH_HANDLE h = NULL;
    EVENT_RECORD r = message(10, data1, sizeof(data1));
    _cleanup_free_ char *empty = test_path("empty"), *full = test_path("full"), *both = NULL,
                        *file = test_path("full/" GUID_TEXT ".tmf");
    TDH_CONTEXT c = {.ParameterType = TDH_CONTEXT_WPP_TMFSEARCHPATH};

    ck_assert_int_eq(mkdir(empty, 0755), 0);
    ck_assert_int_eq(mkdir(full, 0755), 0);
    write_file(file, tmf);
    ck_assert_int_ge(asprintf(&both, "%s;;%s", empty, full), 0);
    ck_assert_uint_eq(TdhOpenDecodingHandle(&h), ERROR_SUCCESS);
    ck_assert_uint_eq(TdhGetDecodingParameter(h, &c), ERROR_NOT_FOUND);
    ck_assert_uint_eq(set(h, TDH_CONTEXT_WPP_TMFSEARCHPATH, empty), ERROR_SUCCESS);
    (void) property(h, &r, "FormattedString", ERROR_NOT_FOUND);
    ck_assert_uint_eq(set(h, TDH_CONTEXT_WPP_TMFSEARCHPATH, both), ERROR_SUCCESS);
    is(h, &r, "FormattedString", "a=-2 b=ok% in main");
    ck_assert_uint_eq(TdhGetDecodingParameter(h, &c), ERROR_SUCCESS);
    _cleanup_free_ char *got =
        etw_utf16_dup_utf8((const void *) (uintptr_t) c.ParameterValue, SIZE_MAX);
    ck_assert_str_eq(got, both);
    /* many GUIDs that no folder has */
    for (ULONG i = 1; i < 500; i++) {
        EVENT_RECORD other = r;
        other.EventHeader.ProviderId.Data1 = i;
        (void) property(h, &other, "FormattedString", ERROR_NOT_FOUND);
    }
    is(h, &r, "FormattedString", "a=-2 b=ok% in main");
    ck_assert_uint_eq(TdhCloseDecodingHandle(h), ERROR_SUCCESS);
}
END_TEST

START_TEST(codes)
{
    TDH_HANDLE h = NULL;
    EVENT_RECORD r = message(10, data1, sizeof(data1));
    TDH_CONTEXT c = {.ParameterType = TDH_CONTEXT_POINTERSIZE, .ParameterValue = 5};
    _cleanup_free_ char *bad = test_path("bad.tmf");
    ULONG size = 0;

    write_file(bad, "this is something else\n");
    ck_assert_uint_eq(TdhOpenDecodingHandle(NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhCloseDecodingHandle(NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhOpenDecodingHandle(&h), ERROR_SUCCESS);
    ck_assert_uint_eq(TdhSetDecodingParameter(h, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhSetDecodingParameter(NULL, &c), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhSetDecodingParameter(h, &c), ERROR_INVALID_PARAMETER);
    c.ParameterValue = 4;
    ck_assert_uint_eq(TdhSetDecodingParameter(h, &c), ERROR_SUCCESS);
    c.ParameterValue = 0;
    ck_assert_uint_eq(TdhGetDecodingParameter(h, &c), ERROR_SUCCESS);
    ck_assert_uint_eq(c.ParameterValue, 4);
    c.ParameterType = TDH_CONTEXT_PDB_PATH;
    ck_assert_uint_eq(TdhSetDecodingParameter(h, &c), ERROR_NOT_SUPPORTED);
    c.ParameterType = TDH_CONTEXT_MAXIMUM;
    ck_assert_uint_eq(TdhSetDecodingParameter(h, &c), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhGetDecodingParameter(h, &c), ERROR_INVALID_PARAMETER);
    c.ParameterType = TDH_CONTEXT_WPP_TMFFILE;
    c.ParameterValue = 0;
    ck_assert_uint_eq(TdhSetDecodingParameter(h, &c), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(set(h, TDH_CONTEXT_WPP_TMFFILE, "/nowhere/x.tmf"), ERROR_FILE_NOT_FOUND);
    ck_assert_uint_eq(set(h, TDH_CONTEXT_WPP_TMFFILE, bad), ERROR_FILE_CORRUPT);
    ck_assert_uint_eq(TdhGetWppMessage(h, &r, NULL, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhGetWppMessage(h, NULL, &size, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhGetWppMessage(NULL, &r, &size, NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(TdhGetWppMessage(h, &r, &size, NULL), ERROR_NOT_FOUND);
    ck_assert_uint_eq(TdhCloseDecodingHandle(h), ERROR_SUCCESS);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("wpp");
    TCase *tc = tcase_create("wpp");

    tcase_add_test(tc, texts);
    tcase_add_test(tc, folders);
    tcase_add_test(tc, codes);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
