/* SPDX-License-Identifier: Apache-2.0
 *
 * Every public structure and constant has the layout and value of Windows: what mingw-w64 declares
 * is compared with it, the rest with reference.def; C and C++ see the same.
 */
#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <KernelTraceControl.h>
#include <evntcons.h>
#include <evntprov.h>
#include <tdh.h>
#include <evntrace.h>
#include <winerror.h>
#include <wmistr.h>

#include "table.h"

static struct layout_row *table(unsigned (*fill)(struct layout_row *), unsigned *ret_n)
{
    struct layout_row *rows = calloc(LAYOUT_ROWS_MAX, sizeof(*rows));

    ck_assert_ptr_nonnull(rows);
    *ret_n = fill(rows);
    ck_assert_uint_le(*ret_n, LAYOUT_ROWS_MAX);
    return rows;
}

static unsigned differences(const struct layout_row *a, const struct layout_row *b, unsigned n)
{
    unsigned found = 0;

    for (unsigned i = 0; i < n; i++) {
        ck_assert_str_eq(a[i].name, b[i].name);
        ck_assert_str_eq(a[i].member, b[i].member);
        if (a[i].value == b[i].value && a[i].size == b[i].size &&
            memcmp(a[i].bytes, b[i].bytes, sizeof(a[i].bytes)) == 0)
            continue;
        fprintf(stderr, "%s %s: 0x%llx size %llu, here 0x%llx size %llu\n", a[i].name, a[i].member,
                a[i].value, a[i].size, b[i].value, b[i].size);
        found++;
    }
    return found;
}

START_TEST(mingw)
{
    unsigned n_theirs, n_ours;
    struct layout_row *theirs = table(layout_mingw, &n_theirs);
    struct layout_row *ours = table(layout_ours_c, &n_ours);

    ck_assert_uint_eq(n_theirs, n_ours);
    ck_assert_uint_gt(n_theirs, 700); /* the list was made, not empty */
    ck_assert_uint_eq(differences(theirs, ours, n_ours), 0);
    free(theirs);
    free(ours);
}
END_TEST

START_TEST(cxx)
{
    unsigned n_c, n_cxx;
    struct layout_row *c = table(layout_ours_c, &n_c);
    struct layout_row *c_plus = table(layout_ours_cxx, &n_cxx);

    ck_assert_uint_eq(n_c, n_cxx);
    ck_assert_uint_eq(differences(c, c_plus, n_c), 0);
    free(c);
    free(c_plus);
}
END_TEST

START_TEST(reference)
{
#define STRUCT(type, size) ck_assert_msg(sizeof(type) == (size), #type);
#define MEMBER(type, member, offset, size)                                                         \
    ck_assert_msg(offsetof(type, member) == (offset) && sizeof(((type *) 0)->member) == (size),    \
                  #type "." #member);
#define BITS(type, member, at, value)                                                              \
    {                                                                                              \
        unsigned char bytes[sizeof(type)];                                                         \
        type t;                                                                                    \
        memset(&t, 0, sizeof(t));                                                                  \
        t.member--;                                                                                \
        memcpy(bytes, &t, sizeof(t));                                                              \
        for (size_t i = 0; i < sizeof(t); i++)                                                     \
            ck_assert_msg(                                                                         \
                bytes[i] ==                                                                        \
                    (i - (at) < 8 ? (unsigned char) ((value##ULL) >> (8 * (i - (at)))) : 0),       \
                #type "." #member);                                                                \
    }
#define CONSTANT(name, value)                                                                      \
    ck_assert_msg((unsigned long long) (name) == (unsigned long long) (value), #name);
#include "reference.def"
#undef STRUCT
#undef MEMBER
#undef BITS
#undef CONSTANT
}
END_TEST

static int guid_is(const GUID *g, const char *text)
{
    char s[37];

    snprintf(s, sizeof(s), "%08x-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x", g->Data1, g->Data2,
             g->Data3, g->Data4[0], g->Data4[1], g->Data4[2], g->Data4[3], g->Data4[4], g->Data4[5],
             g->Data4[6], g->Data4[7]);
    return strcmp(s, text) == 0;
}

START_TEST(guids)
{
    ck_assert(guid_is(&EventTraceGuid, "68fdd900-4a3e-11d1-84f4-0000f80464e3"));
    ck_assert(guid_is(&SystemTraceControlGuid, "9e814aad-3204-11d2-9a82-006008a86939"));
    ck_assert(guid_is(&EventTraceConfigGuid, "01853a65-418f-4f36-aefc-dc0f1d2fd235"));
    ck_assert(guid_is(&DefaultTraceSecurityGuid, "0811c1af-7a07-4a06-82ed-869455cdf713"));
    ck_assert(guid_is(&KernelRundownGuid, "3b9c9951-3480-4220-9377-9c8e5184f5cd"));
    ck_assert(guid_is(&AlpcGuid, "45d8cccd-539f-4b72-a8b7-5c683142609a"));
    ck_assert(guid_is(&DiskIoGuid, "3d6fa8d4-fe05-11d0-9dda-00c04fd7ba7c"));
    ck_assert(guid_is(&FileIoGuid, "90cbdc39-4a3e-11d1-84f4-0000f80464e3"));
    ck_assert(guid_is(&ImageLoadGuid, "2cb15d1d-5fc1-11d2-abe1-00a0c911f518"));
    ck_assert(guid_is(&PageFaultGuid, "3d6fa8d3-fe05-11d0-9dda-00c04fd7ba7c"));
    ck_assert(guid_is(&PerfInfoGuid, "ce1dbfb4-137e-4da6-87b0-3f59aa102cbc"));
    ck_assert(guid_is(&ProcessGuid, "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c"));
    ck_assert(guid_is(&RegistryGuid, "ae53722e-c863-11d2-8659-00c04fa321a1"));
    ck_assert(guid_is(&SplitIoGuid, "d837ca92-12b9-44a5-ad6a-3a65b3578aa8"));
    ck_assert(guid_is(&TcpIpGuid, "9a280ac0-c8e0-11d1-84e2-00c04fb998a2"));
    ck_assert(guid_is(&ThreadGuid, "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c"));
    ck_assert(guid_is(&UdpIpGuid, "bf3a50c5-a9c9-4988-a005-2df0b7c80f80"));
}
END_TEST

START_TEST(handles)
{
    ck_assert(INVALID_PROCESSTRACE_HANDLE == 0xFFFFFFFFFFFFFFFFull);
    ck_assert(INVALID_HANDLE_VALUE == (HANDLE) ~(uintptr_t) 0);
    ck_assert_str_eq(DIAG_LOGGER_NAME, "DiagLog");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("layout");
    TCase *c = tcase_create("layout");

    tcase_add_test(c, mingw);
    tcase_add_test(c, cxx);
    tcase_add_test(c, reference);
    tcase_add_test(c, guids);
    tcase_add_test(c, handles);
    suite_add_tcase(s, c);
    return test_main(s);
}
