/* SPDX-License-Identifier: Apache-2.0
 *
 * What the daemon makes of a caller's properties: every documented refusal, and every adjustment.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/winerror.h"
#include "etl/build.h"
#include "lib/test.h"
#include "sessions/properties.h"

static struct etw_conf conf;
static struct session_properties p;
static struct session_plan plan;
static struct refusal refusal;

static void setup(void)
{
    etw_conf_init(&conf);
    p = (struct session_properties){.name = strdup("s"), .log_file = strdup("/var/log/s.etl")};
}

static void teardown(void)
{
    session_properties_clear(&p);
}

static void set(char **field, const char *value)
{
    free(*field);
    *field = value ? strdup(value) : NULL;
}

static uint32_t adjust_as(bool kernel_call, unsigned cpus)
{
    memset(&plan, 0xEE, sizeof(plan));
    refusal = (struct refusal){0};
    if (session_properties_adjust(&p, kernel_call, cpus, &conf, &plan, &refusal) == 0)
        return 0;
    ck_assert_uint_ne(refusal.status, 0);
    ck_assert_uint_gt(strlen(refusal.reason), 0);
    return refusal.status;
}

static uint32_t adjust(void)
{
    return adjust_as(false, 2);
}

START_TEST(defaults)
{
    ck_assert_uint_eq(adjust(), 0);
    ck_assert_uint_eq(p.buffer_size_kb, 64);
    ck_assert_uint_eq(p.minimum_buffers, 4);
    ck_assert_uint_eq(p.maximum_buffers, 24);
    ck_assert_uint_eq(p.clock, ETW_CLOCK_QPC);
    ck_assert(!etw_guid_is_null(&p.guid));
    ck_assert(!plan.kernel);
    ck_assert_uint_eq(plan.file_bytes_max, 0);
    ck_assert_uint_eq(p.log_file_mode, 0);
}
END_TEST

START_TEST(sizes)
{
    p.buffer_size_kb = 1;
    ck_assert_uint_eq(adjust(), 0);
    ck_assert_uint_eq(p.buffer_size_kb, 4);
    p.buffer_size_kb = 1000000;
    ck_assert_uint_eq(adjust(), 0);
    ck_assert_uint_eq(p.buffer_size_kb, 16384);
    p.buffer_size_kb = 5;
    ck_assert_uint_eq(adjust(), 0);
    ck_assert_uint_eq(p.buffer_size_kb, 5);

    p.minimum_buffers = 1;
    p.maximum_buffers = 2;
    ck_assert_uint_eq(adjust_as(false, 8), 0);
    ck_assert_uint_eq(p.minimum_buffers, 16);
    ck_assert_uint_eq(p.maximum_buffers, 16);
    p.minimum_buffers = 0;
    p.maximum_buffers = 0;
    p.log_file_mode = ETL_MODE_NO_PER_PROCESSOR_BUFFERING;
    ck_assert_uint_eq(adjust_as(false, 8), 0);
    ck_assert_uint_eq(p.minimum_buffers, 2);
    ck_assert_uint_eq(p.maximum_buffers, 22);
    p.minimum_buffers = UINT32_MAX;
    p.maximum_buffers = 0;
    ck_assert_uint_eq(adjust(), 0); /* the quota refuses it */
    ck_assert_uint_eq(p.maximum_buffers, UINT32_MAX);
}
END_TEST

/* Two names of 1024 characters need more than 4 KiB for the header's event. */
START_TEST(header_room)
{
    char name[1025], path[1025];
    memset(name, 'n', 1024);
    memset(path, 'p', 1024);
    path[0] = '/';
    name[1024] = path[1024] = '\0';
    set(&p.name, name);
    set(&p.log_file, path);
    p.buffer_size_kb = 4;
    ck_assert_uint_eq(adjust(), 0);
    ck_assert_uint_eq(p.buffer_size_kb, 8);
}
END_TEST

START_TEST(modes_excluded)
{
    static const uint32_t bad[] = {
        ETL_MODE_SEQUENTIAL | ETL_MODE_CIRCULAR,
        ETL_MODE_SEQUENTIAL | ETL_MODE_NEWFILE,
        ETL_MODE_SEQUENTIAL | ETL_MODE_BUFFERING,
        ETL_MODE_CIRCULAR | ETL_MODE_APPEND,
        ETL_MODE_CIRCULAR | ETL_MODE_NEWFILE,
        ETL_MODE_CIRCULAR | ETL_MODE_BUFFERING,
        ETL_MODE_APPEND | ETL_MODE_NEWFILE,
        ETL_MODE_APPEND | ETL_MODE_REAL_TIME,
        ETL_MODE_APPEND | ETL_MODE_BUFFERING,
        ETL_MODE_APPEND | ETL_MODE_PRIVATE_LOGGER,
        ETL_MODE_NEWFILE | ETL_MODE_BUFFERING,
        ETL_MODE_PREALLOCATE | ETL_MODE_BUFFERING,
        ETL_MODE_PREALLOCATE | ETL_MODE_PRIVATE_LOGGER,
        ETL_MODE_REAL_TIME | ETL_MODE_BUFFERING,
        ETL_MODE_REAL_TIME | ETL_MODE_PRIVATE_LOGGER,
        ETL_MODE_PRIVATE_LOGGER | ETL_MODE_INDEPENDENT_SESSION,
        ETL_MODE_USE_GLOBAL_SEQUENCE | ETL_MODE_USE_LOCAL_SEQUENCE,
        ETL_MODE_SYSTEM_LOGGER | ETL_MODE_USE_PAGED_MEMORY,
        ETL_MODE_STOP_ON_HYBRID_SHUTDOWN | ETL_MODE_PERSIST_ON_HYBRID_SHUTDOWN,
        ETL_MODE_PRIVATE_IN_PROC,
        ETL_MODE_NONSTOPPABLE,
    };
    p.maximum_file_size = 100;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        p.log_file_mode = bad[i];
        ck_assert_msg(adjust() == ETW_ERROR_INVALID_PARAMETER, "mode 0x%x", bad[i]);
    }
    p.maximum_file_size = 0;
    static const uint32_t sized[] = {ETL_MODE_CIRCULAR, ETL_MODE_NEWFILE, ETL_MODE_PREALLOCATE};
    for (size_t i = 0; i < 3; i++) {
        p.log_file_mode = sized[i];
        ck_assert_uint_eq(adjust(), ETW_ERROR_INVALID_PARAMETER);
    }
}
END_TEST

START_TEST(later)
{
    static const struct {
        uint32_t mode;
        const char *word;
    } modes[] = {
        {ETL_MODE_NEWFILE, "newfile"},       {ETL_MODE_PRIVATE_LOGGER, "private"},
        {ETL_MODE_COMPRESSED, "compressed"}, {ETL_MODE_SYSTEM_LOGGER, "system logger"},
        {ETL_MODE_SECURE, "secure"},
    };
    p.maximum_file_size = 100;
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        p.log_file_mode = modes[i].mode;
        ck_assert_uint_eq(adjust(), ETW_ERROR_NOT_SUPPORTED);
        ck_assert_msg(strstr(refusal.reason, modes[i].word) != NULL, "%s", refusal.reason);
    }
    p.log_file_mode = 0;
    for (uint32_t clock = ETW_CLOCK_QPC; clock <= ETW_CLOCK_CYCLE; clock++) {
        p.clock = clock;
        ck_assert_uint_eq(adjust(), 0);
        ck_assert_uint_eq(p.clock, clock);
    }
    p.clock = 4;
    ck_assert_uint_eq(adjust(), ETW_ERROR_INVALID_PARAMETER);
    p.clock = 0;
    set(&p.log_file, NULL);
    p.log_file_mode = ETL_MODE_REAL_TIME;
    ck_assert_uint_eq(adjust(), ETW_ERROR_NOT_SUPPORTED);
    ck_assert_ptr_nonnull(strstr(refusal.reason, "real-time"));
}
END_TEST

START_TEST(destination)
{
    p.log_file_mode = ETL_MODE_REAL_TIME; /* with a name: both */
    ck_assert_uint_eq(adjust(), 0);
    ck_assert_uint_eq(p.flush_timer_s, 1);
    p.log_file_mode = ETL_MODE_SEQUENTIAL;
    set(&p.log_file, "relative.etl");
    ck_assert_uint_eq(adjust(), ETW_ERROR_BAD_PATHNAME);
    set(&p.log_file, NULL);
    ck_assert_uint_eq(adjust(), ETW_ERROR_BAD_PATHNAME);
    p.log_file_mode = 0;
    ck_assert_uint_eq(adjust(), ETW_ERROR_BAD_PATHNAME);
}
END_TEST

START_TEST(kernel_names)
{
    struct etw_guid other = {.data1 = 1};

    set(&p.name, "nt kernel logger");
    p.guid = other;
    ck_assert_uint_eq(adjust(), 0); /* StartTrace: overridden in silence */
    ck_assert(plan.kernel);
    ck_assert(etw_guid_equal(&p.guid, &system_trace_control_guid));
    ck_assert_uint_eq(p.maximum_buffers, conf.kernel_default_buffers);

    set(&p.name, "other");
    ck_assert_uint_eq(adjust(), ETW_ERROR_INVALID_PARAMETER);
    ck_assert_uint_eq(adjust_as(true, 2), 0); /* StartKernelTrace: the name is given */
    ck_assert_str_eq(p.name, KERNEL_LOGGER_NAME);
    p.guid = other;
    ck_assert_uint_eq(adjust_as(true, 2), ETW_ERROR_INVALID_PARAMETER);
    p.guid = (struct etw_guid){0};
    ck_assert_uint_eq(adjust_as(true, 2), ETW_ERROR_INVALID_PARAMETER);

    p.guid = system_trace_control_guid;
    static const uint32_t bad[] = {ETL_MODE_PRIVATE_LOGGER, ETL_MODE_NEWFILE,
                                   ETL_MODE_USE_PAGED_MEMORY};
    p.maximum_file_size = 1;
    for (size_t i = 0; i < 3; i++) {
        p.log_file_mode = bad[i];
        ck_assert_uint_eq(adjust_as(true, 2), ETW_ERROR_INVALID_PARAMETER);
    }
}
END_TEST

START_TEST(names_refused)
{
    set(&p.name, NULL);
    ck_assert_uint_eq(adjust(), ETW_ERROR_INVALID_PARAMETER);
    set(&p.name, "\xc3");
    ck_assert_uint_eq(adjust(), ETW_ERROR_INVALID_PARAMETER);
}
END_TEST

START_TEST(kernel_flags)
{
    set(&p.name, KERNEL_LOGGER_NAME);
    p.guid = system_trace_control_guid;
    p.enable_flags = 0x17 | 0x800; /* process, thread, image, cswitch, dispatcher */
    ck_assert_uint_eq(adjust_as(true, 2), 0);
    ck_assert_uint_eq(plan.masks[0] & 7, 7);
    ck_assert_uint_eq(plan.masks[1], 0x204);
    ck_assert_uint_eq(plan.inert_flags, 0);
    p.enable_flags = 0x08000001; /* the one undefined bit */
    ck_assert_uint_eq(adjust_as(true, 2), ETW_ERROR_INVALID_FLAGS);
    ck_assert_uint_eq(adjust(), 0); /* StartTrace ignores it */
    ck_assert_uint_eq(plan.masks[0], 1);
    p.enable_flags = 0x101;
    ck_assert_uint_eq(adjust_as(true, 2), ETW_ERROR_NOT_SUPPORTED);
    ck_assert_ptr_nonnull(strstr(refusal.reason, "disk_io"));
    p.enable_flags = 0x00020000 | 0x00100000 | 0x00800000 | 0x20000000 | 0x40000000 | 1;
    ck_assert_uint_eq(adjust_as(true, 2), 0);
    ck_assert_uint_eq(plan.inert_flags, p.enable_flags & ~1u);
    ck_assert_uint_eq(plan.masks[0], 1);
    ck_assert_uint_eq(plan.masks[1], 0);

    set(&p.name, "plain");
    p.guid = (struct etw_guid){0};
    ck_assert_uint_eq(adjust(), 0);
    ck_assert_uint_eq(p.enable_flags, 0);
}
END_TEST

START_TEST(stacks)
{
    struct session_plan masks = {0};
    const struct etw_guid *thread = &etl_rows[ETL_ROW_Thread_CSwitch].guid;
    const struct etw_guid *image = &etl_rows[ETL_ROW_Image_Load].guid;
    struct etw_guid unknown = {.data1 = 42};

    ck_assert_int_eq(session_flags_check(0x10 | 0x4, true, &masks, &refusal), 0);
    ck_assert_int_lt(session_stack_check(thread, 36, masks.masks, &refusal), 0);
    ck_assert_uint_eq(refusal.status, ETW_ERROR_NOT_SUPPORTED);
    ck_assert_ptr_nonnull(strstr(refusal.reason, "CSwitch"));
    ck_assert_int_lt(session_stack_check(image, 10, masks.masks, &refusal), 0);
    ck_assert_int_eq(session_stack_check(thread, 50, masks.masks, &refusal), 0); /* not enabled */
    ck_assert_int_eq(session_stack_check(thread, 99, masks.masks, &refusal), 0); /* no such event */
    ck_assert_int_eq(session_stack_check(thread, 256 + 36, masks.masks, &refusal), 0);
    ck_assert_int_eq(session_stack_check(&unknown, 36, masks.masks, &refusal), 0);
}
END_TEST

START_TEST(maximum_size)
{
    p.maximum_file_size = 1;
    p.buffer_size_kb = 512;
    ck_assert_uint_eq(adjust(), 0);
    ck_assert_uint_eq(plan.file_bytes_max, 1 << 20);
    p.buffer_size_kb = 513;
    ck_assert_uint_eq(adjust(), ETW_ERROR_INVALID_PARAMETER);
    p.buffer_size_kb = 4;
    p.log_file_mode = ETL_MODE_USE_KBYTES_FOR_SIZE;
    p.maximum_file_size = 8;
    ck_assert_uint_eq(adjust(), 0);
    ck_assert_uint_eq(plan.file_bytes_max, 8192);
    p.maximum_file_size = 7;
    ck_assert_uint_eq(adjust(), ETW_ERROR_INVALID_PARAMETER);
    p.log_file_mode = 0;
    p.maximum_file_size = UINT32_MAX;
    ck_assert_uint_eq(adjust(), 0);
    ck_assert_uint_eq(plan.file_bytes_max, (uint64_t) UINT32_MAX << 20);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("properties");
    TCase *t = tcase_create("properties");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, defaults);
    tcase_add_test(t, sizes);
    tcase_add_test(t, header_room);
    tcase_add_test(t, modes_excluded);
    tcase_add_test(t, later);
    tcase_add_test(t, destination);
    tcase_add_test(t, kernel_names);
    tcase_add_test(t, names_refused);
    tcase_add_test(t, kernel_flags);
    tcase_add_test(t, stacks);
    tcase_add_test(t, maximum_size);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
