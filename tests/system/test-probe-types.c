/* SPDX-License-Identifier: Apache-2.0
 *
 * Every access of the kernel programs to a kernel type must find its member: in the types of the
 * oldest kernel that we support (Debian 12's 6.1, kept as tests/data/debian-6.1.btf), and in those
 * of the kernel that runs. Members that only some kernels have stand in types with a ___suffix and
 * behind a test for their existence: those may be missing.
 *
 * ETW_BTF names another file of types to look at. Nothing is attached.
 */
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/test.h"
#include "probes.skel.h"

static char last_relocation[512];
static unsigned relocations, missing, optional;
static char complaint[2048];

/* libbpf tells each relocation: first what it looks for, then, if that is nowhere, that it puts an
 * invalid instruction there. */
static int listen(enum libbpf_print_level level, const char *format, va_list args)
{
    char line[2048];

    vsnprintf(line, sizeof(line), format, args);
    if (strstr(line, ": relo #") && strchr(line, '<')) {
        if (!strstr(line, "candidate") && !strstr(line, "patched")) {
            relocations++;
            snprintf(last_relocation, sizeof(last_relocation), "%.500s", line);
        }
    } else if (strstr(line, "substituting insn")) {
        if (strstr(last_relocation, "___")) {
            optional++;
        } else {
            missing++;
            snprintf(complaint, sizeof(complaint), "%s", last_relocation);
        }
    }
    return 0;
}

static void relocate(const char *btf)
{
    size_t size;
    const void *bytes = probes_bpf__elf_bytes(&size);
    struct bpf_program *p;

    relocations = missing = optional = 0;
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "etwd_test", .btf_custom_path = btf);
    libbpf_set_print(listen);
    struct bpf_object *object = bpf_object__open_mem(bytes, size, &opts);
    ck_assert_ptr_nonnull(object);
    bpf_object__for_each_program(p, object) bpf_program__set_autoload(p, true);
    /* With the types of another kernel the running one may refuse: only the relocations count. */
    int r = bpf_object__load(object);
    if (!btf)
        ck_assert_msg(r == 0, "the programs do not load: %s", strerror(-r));
    bpf_object__close(object);
    libbpf_set_print(NULL);
    ck_assert_msg(relocations > 100, "only %u relocations seen: has libbpf changed its words?",
                  relocations);
    ck_assert_msg(missing == 0, "%u accesses find no member, the last: %s", missing, complaint);
    fprintf(stderr, "%s: %u relocations, %u of them optional and missing\n",
            btf ? btf : "running kernel", relocations, optional);
}

START_TEST(running_kernel)
{
    test_need_root();
    relocate(NULL);
}
END_TEST

START_TEST(oldest_kernel)
{
    char path[4096];

    test_need_root();
    snprintf(path, sizeof(path), "%s/tests/data/debian-6.1.btf", test_env("ETW_SOURCE_ROOT"));
    relocate(path);
    ck_assert_uint_gt(optional, 0); /* it has no split change time, for one */
}
END_TEST

START_TEST(named_types)
{
    test_need_root();
    relocate(getenv("ETW_BTF"));
}
END_TEST

/* The check can fail: types without the scheduler's. */
START_TEST(sees_what_is_missing)
{
    size_t size;
    char *path = test_path("broken.btf"), source[4096];

    test_need_root();
    snprintf(source, sizeof(source), "%s/tests/data/debian-6.1.btf", test_env("ETW_SOURCE_ROOT"));
    char *btf = test_read_file(source, &size);
    static const char name[] = "prev_sum_exec_runtime";
    char *at = memmem(btf, size, name, sizeof(name));
    ck_assert_ptr_nonnull(at);
    at[0] = 'q';
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(btf, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);

    relocations = missing = 0;
    const void *bytes = probes_bpf__elf_bytes(&size);
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "etwd_test", .btf_custom_path = path);
    libbpf_set_print(listen);
    struct bpf_object *object = bpf_object__open_mem(bytes, size, &opts);
    ck_assert_ptr_nonnull(object);
    (void) bpf_object__load(object);
    bpf_object__close(object);
    libbpf_set_print(NULL);
    ck_assert_uint_gt(missing, 0);
    ck_assert_ptr_nonnull(strstr(complaint, name));
    free(btf);
    free(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("probe-types");
    TCase *c = tcase_create("relocations");
    tcase_add_test(c, running_kernel);
    tcase_add_test(c, oldest_kernel);
    if (getenv("ETW_BTF"))
        tcase_add_test(c, named_types);
    tcase_add_test(c, sees_what_is_missing);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_main(suite());
}
