/* SPDX-License-Identifier: Apache-2.0
 *
 * GetLastError, SetLastError, FormatMessage, LocalFree.
 */
#include "lib/test.h"

#include <pthread.h>
#include <string.h>

#include <evntrace.h>

START_TEST(last_error_is_kept)
{
    SetLastError(ERROR_BUSY);
    ck_assert_uint_eq(GetLastError(), ERROR_BUSY);
    SetLastError(0);
    ck_assert_uint_eq(GetLastError(), 0);
}
END_TEST

static void *other_thread(void *arg)
{
    *(DWORD *) arg = GetLastError();
    SetLastError(ERROR_EMPTY);
    return NULL;
}

START_TEST(last_error_is_the_threads)
{
    pthread_t t;
    DWORD theirs = 99;

    SetLastError(ERROR_TIMEOUT);
    ck_assert_int_eq(pthread_create(&t, NULL, other_thread, &theirs), 0);
    ck_assert_int_eq(pthread_join(t, NULL), 0);
    ck_assert_uint_eq(theirs, 0);
    ck_assert_uint_eq(GetLastError(), ERROR_TIMEOUT);
}
END_TEST

START_TEST(failing_call_leaves_its_code)
{
    SetLastError(0);
    ck_assert_uint_eq(StartTraceA(NULL, "x", NULL), ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(GetLastError(), ERROR_INVALID_PARAMETER);
}
END_TEST

#define SYSTEM (FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS)

START_TEST(format_a)
{
    char text[64];
    DWORD n;

    n = FormatMessageA(SYSTEM, NULL, ERROR_ACCESS_DENIED, 0, text, sizeof(text), NULL);
    ck_assert_str_eq(text, "Access is denied.\r\n");
    ck_assert_uint_eq(n, strlen(text));
    n = FormatMessageA(SYSTEM | FORMAT_MESSAGE_MAX_WIDTH_MASK, NULL, ERROR_ACCESS_DENIED, 0, text,
                       sizeof(text), NULL);
    ck_assert_str_eq(text, "Access is denied. ");
    ck_assert_uint_eq(n, strlen(text));
}
END_TEST

START_TEST(format_w)
{
    static const WCHAR expected[] = ETW_W("Access is denied.\r\n");
    WCHAR text[64];
    DWORD n;

    n = FormatMessageW(SYSTEM, NULL, ERROR_ACCESS_DENIED, 0, text, 64, NULL);
    ck_assert_uint_eq(n, sizeof(expected) / 2 - 1);
    ck_assert_mem_eq(text, expected, sizeof(expected));
}
END_TEST

START_TEST(format_exact_room)
{
    char text[20] = "....................";
    WCHAR wide[20];

    /* 19 characters: 20 hold them, 19 do not and stay as they are. */
    SetLastError(0);
    ck_assert_uint_eq(FormatMessageA(SYSTEM, NULL, 5, 0, text, 19, NULL), 0);
    ck_assert_uint_eq(GetLastError(), ERROR_INSUFFICIENT_BUFFER);
    ck_assert_mem_eq(text, "....................", 20);
    ck_assert_uint_eq(FormatMessageA(SYSTEM, NULL, 5, 0, text, 20, NULL), 19);
    ck_assert_uint_eq(FormatMessageW(SYSTEM, NULL, 5, 0, wide, 19, NULL), 0);
    ck_assert_uint_eq(FormatMessageW(SYSTEM, NULL, 5, 0, wide, 20, NULL), 19);
}
END_TEST

START_TEST(format_allocates)
{
    char *text = NULL;
    WCHAR *wide = NULL;
    DWORD n;

    n = FormatMessageA(SYSTEM | FORMAT_MESSAGE_ALLOCATE_BUFFER, NULL, ERROR_CANCELLED, 0,
                       (LPSTR) &text, 500, NULL);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(n, strlen(text));
    memset(text, 'x', 500); /* nSize is the least size */
    ck_assert_ptr_null(LocalFree(text));
    n = FormatMessageW(SYSTEM | FORMAT_MESSAGE_ALLOCATE_BUFFER, NULL, ERROR_CANCELLED, 0,
                       (LPWSTR) &wide, 0, NULL);
    ck_assert_ptr_nonnull(wide);
    ck_assert_uint_eq(wide[n], 0);
    ck_assert_uint_eq(wide[n - 1], '\n');
    ck_assert_ptr_null(LocalFree(wide));
    ck_assert_ptr_null(LocalFree(NULL));
}
END_TEST

START_TEST(format_refuses)
{
    char text[64];

    ck_assert_uint_eq(FormatMessageA(SYSTEM, NULL, 424242, 0, text, 64, NULL), 0);
    ck_assert_uint_eq(GetLastError(), ERROR_MR_MID_NOT_FOUND);
    ck_assert_uint_eq(FormatMessageA(0, NULL, 5, 0, text, 64, NULL), 0);
    ck_assert_uint_eq(GetLastError(), ERROR_INVALID_PARAMETER);
    SetLastError(0);
    ck_assert_uint_eq(FormatMessageA(FORMAT_MESSAGE_FROM_STRING, "x", 5, 0, text, 64, NULL), 0);
    ck_assert_uint_eq(GetLastError(), ERROR_INVALID_PARAMETER);
    SetLastError(0);
    ck_assert_uint_eq(FormatMessageA(SYSTEM, NULL, 5, 0, NULL, 64, NULL), 0);
    ck_assert_uint_eq(GetLastError(), ERROR_INVALID_PARAMETER);
}
END_TEST

START_TEST(every_code_has_a_text)
{
    char text[128];
#define WINERROR(name, value, words)                                                               \
    ck_assert_msg(FormatMessageA(SYSTEM, NULL, name, 0, text, sizeof(text), NULL) > 3, #name);
#include "base/winerror.def"
#undef WINERROR
}
END_TEST

int main(void)
{
    Suite *s = suite_create("errors");
    TCase *c = tcase_create("errors");

    tcase_add_test(c, last_error_is_kept);
    tcase_add_test(c, last_error_is_the_threads);
    tcase_add_test(c, failing_call_leaves_its_code);
    tcase_add_test(c, format_a);
    tcase_add_test(c, format_w);
    tcase_add_test(c, format_exact_room);
    tcase_add_test(c, format_allocates);
    tcase_add_test(c, format_refuses);
    tcase_add_test(c, every_code_has_a_text);
    suite_add_tcase(s, c);
    return test_main(s);
}
