/* SPDX-License-Identifier: Apache-2.0
 *
 * Each allocation of the controller functions fails once: a documented code, nothing leaked,
 * nothing left behind. The allocator is glibc's with a countdown for the calling thread; not with
 * sanitizers, which have their own.
 */
#include "lib/test.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake-daemon.h"
#include "properties.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

/* Allocations of this thread until one fails; < 0: none does. */
static _Thread_local long countdown = -1;

#define EXPORTED __attribute__((visibility("default")))

static bool fails(void)
{
    if (countdown < 0 || countdown-- > 0)
        return false;
    errno = ENOMEM;
    return true;
}

EXPORTED void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

EXPORTED void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

EXPORTED void *realloc(void *p, size_t size)
{
    return fails() ? NULL : __libc_realloc(p, size);
}

static struct fake_daemon *d;
static struct test_properties t;
static char *file;

static void setup(void)
{
    d = fake_daemon_start();
    d->session = fake_session("session", "/tmp/x.etl");
    file = test_path("memory.etl");
}

static void teardown(void)
{
    d = fake_daemon_stop(d);
    (void) unlink(file);
    free(file);
}

static STACK_TRACING_EVENT_ID stacks[3];

static ULONG start_kernel(void)
{
    WCHAR wide_file[300];
    TRACEHANDLE h = 1;

    properties_init_kernel(&t, NULL);
    wide(wide_file, file);
    memcpy(t.names + ROOM, wide_file, sizeof(wide_file));
    return StartKernelTraceW(&h, &t.p, stacks, 3);
}

static ULONG start_plain(void)
{
    TRACEHANDLE h = 1;

    properties_init(&t, file);
    return StartTraceA(&h, "session", &t.p);
}

static ULONG query(void)
{
    properties_init(&t, NULL);
    return QueryTraceW(0, ETW_W("session"), &t.p);
}

static ULONG message(void)
{
    char *text = NULL;

    if (FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_ALLOCATE_BUFFER, NULL,
                       ERROR_BUSY, 0, (LPSTR) &text, 0, NULL) == 0)
        return GetLastError();
    (void) LocalFree(text);
    return ERROR_SUCCESS;
}

static const struct {
    ULONG (*call)(void);
    ULONG code;
    unsigned at_least; /* allocations, or nothing was tried */
    unsigned refused;  /* of these, told as a lack of memory */
} calls[] = {
    {start_kernel, ERROR_OUTOFMEMORY, 20, 6},
    {start_plain, ERROR_NOT_ENOUGH_MEMORY, 20, 6},
    {query, ERROR_NOT_ENOUGH_MEMORY, 15, 4},
    {message, ERROR_NOT_ENOUGH_MEMORY, 2, 2},
};

START_TEST(each_allocation)
{
    unsigned refused = 0, n;
    size_t before;
    ULONG code;
    long left;

    ck_assert_uint_eq(calls[_i].call(), ERROR_SUCCESS); /* what is made once is made */
    (void) unlink(file);
    for (int i = 0; i < 1000 && test_count_fds(getpid()) > 8; i++)
        usleep(100);
    before = test_count_fds(getpid());
    for (n = 0;; n++) {
        ck_assert_uint_lt(n, 1000);
        countdown = (long) n;
        code = calls[_i].call();
        left = countdown;
        countdown = -1;
        if (code == ERROR_SUCCESS && left >= 0)
            break; /* there were no more */
        if (code == ERROR_SUCCESS) {
            (void) unlink(file); /* the C library did without: a time zone */
            continue;
        }
        /* An answer that could not be taken in for lack of memory is none. */
        ck_assert_msg(code == calls[_i].code || code == ERROR_WMI_SERVER_UNAVAILABLE,
                      "allocation %u: %u", n, code);
        if (code == calls[_i].code)
            refused++;
        ck_assert_int_ne(access(file, F_OK), 0);
    }
    ck_assert_uint_ge(n, calls[_i].at_least);
    ck_assert_uint_ge(refused, calls[_i].refused);
    for (int i = 0; i < TEST_HANG_LIMIT_S * 1000 && test_count_fds(getpid()) > before; i++)
        usleep(1000);
    ck_assert_uint_le(test_count_fds(getpid()), before);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("memory");
    TCase *c = tcase_create("memory");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, each_allocation, 0, sizeof(calls) / sizeof(calls[0]));
    suite_add_tcase(s, c);
    return test_main(s);
}
