/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of rights, row by row; which file systems are served; session names.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/policy.h"
#include "io/files.h"
#include "lib/test.h"
#include "sessions/names.h"

#define ETW 500u
#define NO_GROUP ((gid_t) -1)

START_TEST(who_is_privileged)
{
    gid_t some[] = {4, 20, ETW}, others[] = {4, 20, 30};
    ck_assert(policy_privileged(0, 0, NULL, 0, NO_GROUP));
    ck_assert(policy_privileged(0, 100, NULL, 0, ETW));
    ck_assert(policy_privileged(1000, ETW, NULL, 0, ETW));
    ck_assert(policy_privileged(1000, 1000, some, 3, ETW));
    ck_assert(!policy_privileged(1000, 1000, others, 3, ETW));
    ck_assert(!policy_privileged(1000, 1000, some, 2, ETW));
    /* Without the group nobody is in it, gid -1 neither. */
    ck_assert(!policy_privileged(1000, NO_GROUP, NULL, 0, NO_GROUP));
    ck_assert(!policy_privileged(1000, 0, NULL, 0, ETW)); /* group root is not root */
}
END_TEST

START_TEST(table)
{
    const struct peer root = {.uid = 0, .privileged = true}, etw = {.uid = 7, .privileged = true},
                      user = {.uid = 1000}, other = {.uid = 1001};
    static const bool kinds[] = {false, true};
    for (int i = 0; i < 2; i++) {
        bool kernel = kinds[i];
        ck_assert(policy_may_start(&root, kernel));
        ck_assert(policy_may_start(&etw, kernel));
        ck_assert_int_eq(policy_may_start(&user, kernel), !kernel);
        ck_assert(policy_may_see(&root, 1000, kernel));
        ck_assert(policy_may_see(&etw, 1000, kernel));
        ck_assert_int_eq(policy_may_see(&user, 1000, kernel), !kernel);
        ck_assert(!policy_may_see(&other, 1000, kernel));
        ck_assert(!policy_may_see(&user, 0, kernel));
        ck_assert(policy_may_control(&root, 1000, kernel));
        ck_assert(policy_may_control(&etw, 0, kernel));
        ck_assert_int_eq(policy_may_control(&user, 1000, kernel), !kernel);
        ck_assert(!policy_may_control(&other, 1000, kernel));
    }
}
END_TEST

START_TEST(mount_types)
{
    static const char text[] = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
                               "36 22 0:32 / /mnt/a\\040b rw shared:1 master:2 - fuse.sshfs x rw\n"
                               "360 22 0:33 / /mnt/c rw - nfs4 server:/x rw,addr=1\n"
                               "37 22 0:34 / /mnt/d rw - \n"
                               "38 22 0:35 / /mnt/e rw";
    char type[16];
    ck_assert_int_eq(file_mount_type(text, 22, type, sizeof(type)), 0);
    ck_assert_str_eq(type, "ext4");
    ck_assert_int_eq(file_mount_type(text, 36, type, sizeof(type)), 0);
    ck_assert_str_eq(type, "fuse.sshfs");
    ck_assert_int_eq(file_mount_type(text, 360, type, sizeof(type)), 0);
    ck_assert_str_eq(type, "nfs4");
    ck_assert_int_eq(file_mount_type(text, 3, type, sizeof(type)), -ENOENT);
    ck_assert_int_eq(file_mount_type(text, 37, type, sizeof(type)), -ENOENT);
    ck_assert_int_eq(file_mount_type(text, 38, type, sizeof(type)), -ENOENT);
    ck_assert_int_eq(file_mount_type(text, 36, type, 5), -ENOENT);
    ck_assert_int_eq(file_mount_type("", 36, type, sizeof(type)), -ENOENT);

    static const char *const served[] = {"ext4", "xfs", "btrfs", "tmpfs", "overlay"};
    static const char *const refused[] = {"nfs", "nfs4", "cifs",  "fuse", "fuse.sshfs", "fuseblk",
                                          "9p",  "proc", "sysfs", "",     "ext",        "ext44"};
    for (size_t i = 0; i < sizeof(served) / sizeof(*served); i++)
        ck_assert(file_system_listed(served[i]));
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
        ck_assert(!file_system_listed(refused[i]));
    ck_assert(file_system_extra("nfs4", "nfs4"));
    ck_assert(file_system_extra("fuse.sshfs", "nfs4 fuse.sshfs 9p"));
    ck_assert(file_system_extra("9p", "nfs4 fuse.sshfs 9p"));
    ck_assert(!file_system_extra("nfs", "nfs4 fuse.sshfs 9p"));
    ck_assert(!file_system_extra("fuse", "nfs4 fuse.sshfs 9p"));
    ck_assert(!file_system_extra("", "nfs4"));
    ck_assert(!file_system_extra("nfs4", ""));
}
END_TEST

static void same(const char *a, const char *b, bool expected)
{
    char *x = session_name_fold(a), *y = session_name_fold(b);
    ck_assert_msg((strcmp(x, y) == 0) == expected, "'%s' and '%s'", a, b);
    ck_assert_uint_eq(strlen(x), strlen(a));
    free(x);
    free(y);
}

START_TEST(names)
{
    same("NT Kernel Logger", "nt kernel LOGGER", true);
    same("abc", "abd", false);
    same("Äpfel", "äPFEL", true);
    same("ÿ", "Ÿ", false); /* not a pair within Latin-1 */
    same("×", "÷", false);
    same("ΣΩ", "σω", true);
    same("ПРИВЕТ ЁЖ", "привет ёж", true);
    same("Žluť Őr ŁÓDŹ", "žluť őr łódź", true);
    same("İ", "i", false);
    same("漢字", "漢字", true);
    same("a\xff", "A\xff", true);

    ck_assert_ptr_null(session_name_fault("x"));
    ck_assert_ptr_null(session_name_fault("\x1b[31m"));
    ck_assert_ptr_nonnull(session_name_fault(""));
    ck_assert_ptr_nonnull(session_name_fault("bad\xff"));
    ck_assert_ptr_nonnull(session_name_fault("\xed\xa0\x80")); /* a surrogate */
    char longest[1026];
    memset(longest, 'n', sizeof(longest));
    longest[1025] = '\0';
    ck_assert_ptr_nonnull(session_name_fault(longest));
    longest[1024] = '\0';
    ck_assert_ptr_null(session_name_fault(longest));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("policy");
    TCase *t = tcase_create("policy");
    tcase_add_test(t, who_is_privileged);
    tcase_add_test(t, table);
    tcase_add_test(t, mount_types);
    tcase_add_test(t, names);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
