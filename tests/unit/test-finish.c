/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw records of the kernel's probes into events: order, identity and content of what becomes of a
 * fork, an exec, an exit, a mapping; images whose file is not known yet; records that are missing,
 * told twice, or cut short; walks. The router, the sessions and the image cache are fakes, so that
 * the events can be read as text.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf16.h"
#include "etl/iterate.h"
#include "kernel/events.h"
#include "kernel/finish.h"
#include "kernel/priority.h"
#include "kernel/rundown.h"
#include "kernel/sysconfig.h"
#include "kernel/walk.h"
#include "lib/test.h"
#include "state/state.h"

static const uint32_t all_masks[8] = {0x7, 0x204};
static const uint8_t boot_key[16] = "0123456789abcdef";

static struct process_table *table;
static struct events *events;
static struct finish *finish;
static struct kernel_target target;

/* Events as lines, until they are compared. */
static char log_text[1 << 16];
static uint64_t last_stamp, last_key[2]; /* of the last event; of the last two process events */
static uint32_t last_size;
static uint64_t lost[LOSS_CAUSES];

/* Check writes to a file at each of its assertions: not where there are thousands. */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

static size_t put(size_t at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(log_text + at, sizeof(log_text) - at, format, args);
    va_end(args);
    must(n >= 0 && at + (size_t) n < sizeof(log_text));
    return at + (size_t) n;
}

void state_begin(struct state *st)
{
}

void state_commit(struct state *st)
{
}

void router_emit(struct router *r, enum etl_row row, uint16_t cpu, uint64_t stamp,
                 const void *event, uint32_t size, struct session *only)
{
    static const char *const skipped[] = {
        "StackBase",     "StackLimit",     "UserStackBase", "UserStackLimit", "Affinity",
        "SubProcessTag", "PagePriority",   "IoPriority",    "ThreadFlags",    "DirectoryTableBase",
        "Flags",         "ImageChecksum",  "TimeDateStamp", "SignatureLevel", "SignatureType",
        "Reserved0",     "Reserved1",      "Reserved2",     "Reserved3",      "Reserved4",
        "DefaultBase",   "Win32StartAddr", "TebBase",       "UserSID",        "PackageFullName",
        "ApplicationId", "SessionId",
    };
    struct etl_event e;
    struct etl_fields f;
    struct etl_value v;
    const struct etl_class_row *c = &etl_rows[row];
    size_t at = strlen(log_text);

    must(etl_event_parse(event, size, &e) == 0);
    must(e.size == size);
    must(e.time_stamp == stamp);
    must(only == target.session);
    at = put(at, "%s.%s", c->class_name, c->event_name);
    if (c->header == ETL_SYSTEM64 && e.process_id == (uint32_t) getpid())
        at = put(at, " <self>");
    else if (c->header == ETL_SYSTEM64)
        at = put(at, " <%u/%u>", e.process_id, e.thread_id);
    etl_fields_init(&f, c, &e);
    while (etl_fields_next(&f, &v) == 1) {
        bool skip = false;
        for (size_t i = 0; i < sizeof(skipped) / sizeof(skipped[0]); i++)
            skip |= strcmp(skipped[i], v.field->name) == 0;
        if (strcmp(v.field->name, "UniqueProcessKey") == 0) {
            last_key[0] = last_key[1];
            last_key[1] = v.integer;
            continue;
        }
        if (skip || strstr(v.field->name, "UniqueProcessKey"))
            continue;
        if (v.is_integer) {
            at = put(at, " %llu", (unsigned long long) v.integer);
        } else if (v.field->type == ETL_T_wsz) {
            char *s = etw_utf16_dup_utf8(v.data, v.size / 2);
            at = put(at, " '%s'", s);
            free(s);
        } else if (v.field->type == ETL_T_asz) {
            at = put(at, " '%.*s'", (int) v.size, (const char *) v.data);
        } else {
            at = put(at, " ");
            for (uint32_t i = 0; i < v.size; i++)
                at = put(at, "%02x", v.data[i]);
        }
    }
    put(at, "\n");
    last_stamp = stamp;
    last_size = size;
}

static void expect(const char *text)
{
    ck_assert_str_eq(log_text, text);
    log_text[0] = '\0';
}

void session_count_lost(struct session *s, enum loss_cause cause, uint64_t n)
{
    ck_assert_ptr_eq(s, target.session);
    lost[cause] += n;
}

/* Configuration is another test's. */
void sysconfig_emit(const struct sysconfig *c, struct router *r, struct session *s, uint64_t stamp)
{
    put(strlen(log_text), "sysconfig\n");
}

void sysconfig_emit_network(const struct sysconfig *c, struct router *r, struct session *s,
                            uint64_t stamp)
{
    put(strlen(log_text), "network\n");
}

/* The image cache: answers at once, or keeps the question. */
static bool answer_now;
static unsigned asked;
static images_done_fn question;
static void *question_data;
static struct image_identity identity;

int images_lookup(struct images *i, const struct image_key *key, int pid, uint64_t start,
                  uint64_t end, const char *path, images_done_fn done, void *userdata,
                  struct image_identity *ret)
{
    asked++;
    if (answer_now) {
        *ret = identity;
        return 1;
    }
    ck_assert_ptr_null(question);
    question = done;
    question_data = userdata;
    return 0;
}

void image_place(const struct image_identity *id, uint64_t start, uint64_t end, uint64_t offset,
                 uint64_t *ret_base, uint64_t *ret_size)
{
    *ret_base = id->known ? start - id->exec_vaddr + id->first_vaddr : start - offset;
    *ret_size = id->known ? id->span : end - *ret_base;
}

static void answer(bool known)
{
    images_done_fn done = question;
    question = NULL;
    struct image_identity id = identity;
    id.known = known;
    done(&id, question_data);
}

static void setup(void)
{
    log_text[0] = '\0';
    memset(lost, 0, sizeof(lost));
    memset(last_key, 0, sizeof(last_key));
    answer_now = true;
    asked = 0;
    question = NULL;
    identity = (struct image_identity){
        .known = true,
        .span = 0x5000,
        .exec_vaddr = 0x1000,
        .exec_offset = 0x1000,
        .build_id_size = 20,
        .build_id = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20},
    };
    ck_assert_int_eq(process_table_new(boot_key, &table), 0);
    ck_assert_int_eq(events_new(table, NULL, &events), 0);
    ck_assert_int_eq(finish_new(table, events, &finish), 0);
    target = (struct kernel_target){
        .session = (struct session *) &target, .end = UINT64_MAX, .max_event = 65535 - 72};
    memcpy(target.masks, all_masks, sizeof(target.masks));
    events->targets = &target;
    finish_follow(finish, true, true);
}

static void teardown(void)
{
    finish = finish_free(finish);
    events = events_free(events);
    table = process_table_free(table);
}

/* Records. */

static union {
    struct etl_record rec;
    uint8_t
        bytes[sizeof(struct etl_record) + sizeof(struct raw_exec) + RAW_PATH_MAX + RAW_ARGS_MAX];
} record;

static void raw(uint16_t kind, uint64_t stamp, void *data, size_t size, size_t room)
{
    memcpy(data, &stamp, sizeof(stamp));
    memcpy(record.bytes + sizeof(record.rec), data, size);
    record.rec = (struct etl_record){
        .size = (uint32_t) (sizeof(record.rec) + size + room),
        .cpu = 1,
        .type = ETL_RECORD_RAW,
        .registration = kind,
    };
    finish_raw(finish, &record.rec, stamp);
}

/* start of a leader or thread: its tid times 10. */
static struct raw_task task(uint32_t tgid, uint32_t tid, uint64_t exec_id)
{
    struct raw_task t = {
        .tid = tid,
        .tgid = tgid,
        .parent_tgid = 1,
        .session = 7,
        .uid = 1000,
        .prio = 120,
        .leader_start = tgid * 10ULL,
        .start = tid * 10ULL,
        .exec_id = exec_id,
        .affinity = 3,
    };
    snprintf(t.comm, sizeof(t.comm), "comm%u", tid);
    return t;
}

static void fork_process(uint64_t stamp, uint32_t creator, uint32_t tgid)
{
    struct raw_fork r = {.creator_tid = creator, .creator_tgid = creator};
    r.task = task(tgid, tgid, 0);
    r.task.parent_tgid = creator;
    raw(RAW_FORK, stamp, &r, sizeof(r), 0);
}

static void make_thread(uint64_t stamp, uint32_t tgid, uint32_t tid)
{
    struct raw_fork r = {.creator_tid = tgid, .creator_tgid = tgid};
    r.task = task(tgid, tid, 0);
    raw(RAW_THREAD, stamp, &r, sizeof(r), 0);
}

static void exec_process(uint64_t stamp, uint32_t old_tid, uint32_t tgid, uint64_t exec_id,
                         const char *path, const char *args, uint32_t args_size)
{
    struct raw_exec r = {
        .old_tid = old_tid,
        .path_size = (uint32_t) strlen(path),
        .args_offset = RAW_PATH_MAX,
        .args_size = args_size,
    };
    r.task = task(tgid, tgid, exec_id);
    uint8_t *data = record.bytes + sizeof(record.rec) + sizeof(r);
    memcpy(data, path, strlen(path));
    memcpy(data + RAW_PATH_MAX, args, args_size);
    raw(RAW_EXEC, stamp, &r, sizeof(r), RAW_PATH_MAX + args_size);
}

static void exit_thread(uint64_t stamp, uint32_t tgid, uint32_t tid, bool last, int32_t status)
{
    struct raw_exit r = {.status = status};
    r.task = task(tgid, tid, 0);
    raw(last ? RAW_EXIT_LAST : RAW_EXIT, stamp, &r, sizeof(r), 0);
}

static void map(uint64_t stamp, uint32_t tgid, uint64_t exec_id, uint64_t start, const char *path)
{
    struct raw_map r = {
        .tid = tgid,
        .tgid = tgid,
        .start = start,
        .end = start + 0x2000,
        .offset = 0x1000,
        .leader_start = tgid * 10ULL,
        .exec_id = exec_id,
        .file = {.inode = strlen(path), .dev_major = 8},
        .path_size = (uint32_t) strlen(path),
    };
    memcpy(record.bytes + sizeof(record.rec) + sizeof(r), path, strlen(path));
    raw(RAW_MAP, stamp, &r, sizeof(r), strlen(path));
}

static void unmap(uint64_t stamp, uint32_t tgid, uint64_t start, uint64_t end)
{
    struct raw_unmap r = {.tid = tgid, .tgid = tgid, .start = start, .end = end};
    raw(RAW_UNMAP, stamp, &r, sizeof(r), 0);
}

/* pid 50, running "sh" with a command line. */
static void begin_shell(void)
{
    fork_process(100, 1, 50);
    exec_process(110, 50, 50, 1, "/bin/sh", "sh\0-c\0x y", 10);
    log_text[0] = '\0';
}

START_TEST(fork_has_the_parents_program)
{
    begin_shell();
    uint64_t shell = last_key[1];
    fork_process(200, 50, 60);
    ck_assert_uint_eq(last_stamp, 200);
    ck_assert_uint_ne(last_key[1], shell);
    expect("Process.Start <50/50> 60 50 259 'sh' 'sh -c x y'\n"
           "Thread.Start <50/50> 60 60 5 'comm60'\n");
}
END_TEST

START_TEST(fork_of_an_unknown_parent)
{
    fork_process(200, 999, 60);
    expect("Process.Start <999/999> 60 999 259 'comm60' ''\n"
           "Thread.Start <999/999> 60 60 5 'comm60'\n");
}
END_TEST

START_TEST(threads)
{
    begin_shell();
    make_thread(200, 50, 51);
    exit_thread(300, 50, 51, false, 0);
    expect("Thread.Start <50/50> 50 51 5 'comm51'\n"
           "Thread.End <50/51> 50 51 5 'comm51'\n");
}
END_TEST

START_TEST(exec_ends_and_starts)
{
    begin_shell();
    fork_process(200, 50, 60);
    uint64_t forked = last_key[1];
    log_text[0] = '\0';
    exec_process(210, 60, 60, 1, "/usr/bin/true", "/usr/bin/true", 14);
    ck_assert_uint_eq(last_key[0], forked); /* the End has the key of its Start */
    ck_assert_uint_ne(last_key[1], forked);
    expect("Thread.End <60/60> 60 60 5 'comm60'\n"
           "Process.End <60/60> 60 50 0 'sh' 'sh -c x y'\n"
           "Process.Start <60/60> 60 1 259 'true' '/usr/bin/true'\n"
           "Thread.Start <60/60> 60 60 5 'comm60'\n"
           "Linux-Kernel.Exec 60 60 '/usr/bin/true'\n");
    uint64_t key = last_key[1];
    exit_thread(220, 60, 60, true, 3 << 8);
    ck_assert_uint_eq(last_key[1], key);
    expect("Thread.End <60/60> 60 60 5 'comm60'\n"
           "Process.End <60/60> 60 1 3 'true' '/usr/bin/true'\n");
}
END_TEST

/* A thread that is not the first calls exec: it becomes the first. */
START_TEST(exec_by_another_thread)
{
    begin_shell();
    make_thread(200, 50, 51);
    make_thread(201, 50, 52);
    log_text[0] = '\0';
    exit_thread(210, 50, 50, false, 0);
    exit_thread(211, 50, 52, false, 0);
    exec_process(212, 51, 50, 2, "new", "new", 4);
    expect("Thread.End <50/50> 50 50 5 'comm50'\n"
           "Thread.End <50/52> 50 52 5 'comm52'\n"
           "Thread.End <50/51> 50 51 5 'comm51'\n"
           "Process.End <50/51> 50 1 0 'sh' 'sh -c x y'\n"
           "Process.Start <50/50> 50 1 259 'new' 'new'\n"
           "Thread.Start <50/50> 50 50 5 'comm50'\n"
           "Linux-Kernel.Exec 50 51 'new'\n");
    exit_thread(220, 50, 50, true, 0);
    expect("Thread.End <50/50> 50 50 5 'comm50'\n"
           "Process.End <50/50> 50 1 0 'new' 'new'\n");
}
END_TEST

/* Two threads exit together and both see that nobody else is left. */
START_TEST(last_threads_together)
{
    begin_shell();
    make_thread(200, 50, 51);
    log_text[0] = '\0';
    exit_thread(210, 50, 51, true, 9);
    expect("Thread.End <50/51> 50 51 5 'comm51'\n");
    exit_thread(211, 50, 50, true, 9);
    expect("Thread.End <50/50> 50 50 5 'comm50'\n"
           "Process.End <50/50> 50 1 137 'sh' 'sh -c x y'\n");
    ck_assert_ptr_null(process_find(table, 50));
    ck_assert_ptr_null(thread_find(table, 51));
}
END_TEST

/* The exit of a thread is missing: the process ends all the same, but not at once. */
START_TEST(last_thread_with_a_lost_exit)
{
    begin_shell();
    make_thread(200, 50, 51);
    log_text[0] = '\0';
    exit_thread(210, 50, 50, true, 0);
    expect("Thread.End <50/50> 50 50 5 'comm50'\n");
    make_thread(1000000000, 70, 71);
    log_text[0] = '\0';
    make_thread(3000000000, 70, 72);
    expect("Process.End <50/50> 50 1 0 'sh' 'sh -c x y'\n"
           "Thread.Start <70/70> 70 72 5 'comm72'\n");
}
END_TEST

START_TEST(exit_statuses)
{
    ck_assert_int_eq(finish_exit_status(0), 0);
    ck_assert_int_eq(finish_exit_status(255 << 8), 255);
    ck_assert_int_eq(finish_exit_status(9), 137);
    ck_assert_int_eq(finish_exit_status(0x80 | 11), 139); /* with a core dump */
}
END_TEST

#define LIBC "/lib/libc.so"
#define IDENTITY(pid, base)                                                                        \
    "ImageId.DbgIdRSDS " base " " pid " 0102030405060708090a0b0c0d0e0f10 1 'libc.so'\n"            \
    "Linux-Kernel.ImageBuildId " pid " " base                                                      \
    " 0102030405060708090a0b0c0d0e0f1011121314 '/lib/libc.so'\n"

START_TEST(image_life)
{
    begin_shell();
    map(200, 50, 1, 0x11000, LIBC);
    expect(IDENTITY("50", "65536") "Image.Load <50/50> 65536 20480 50 '/lib/libc.so'\n");
    ck_assert_uint_eq(asked, 1);

    /* Another mapping of the file: not asked again. */
    map(201, 50, 1, 0x31000, LIBC);
    expect(IDENTITY("50", "196608") "Image.Load <50/50> 196608 20480 50 '/lib/libc.so'\n");
    ck_assert_uint_eq(asked, 1);

    /* The child has the parent's images, after its Start. */
    fork_process(210, 50, 60);
    expect("Process.Start <50/50> 60 50 259 'sh' 'sh -c x y'\n"
           "Thread.Start <50/50> 60 60 5 'comm60'\n" IDENTITY(
               "60", "65536") "Image.Load <60/60> 65536 20480 60 '/lib/libc.so'\n" //
           IDENTITY("60", "196608") "Image.Load <60/60> 196608 20480 60 '/lib/libc.so'\n");

    /* Somewhere else, beside it, into it. */
    unmap(220, 50, 0x90000, 0x91000);
    unmap(221, 50, 0x13000, 0x31000);
    expect("");
    unmap(222, 50, 0x12000, 0x13000);
    expect("Image.UnLoad <50/50> 65536 20480 50 '/lib/libc.so'\n");

    exec_process(230, 60, 60, 1, "x", "x", 2);
    expect("Thread.End <60/60> 60 60 5 'comm60'\n"
           "Image.UnLoad <60/60> 65536 20480 60 '/lib/libc.so'\n"
           "Image.UnLoad <60/60> 196608 20480 60 '/lib/libc.so'\n"
           "Process.End <60/60> 60 50 0 'sh' 'sh -c x y'\n"
           "Process.Start <60/60> 60 1 259 'x' 'x'\n"
           "Thread.Start <60/60> 60 60 5 'comm60'\n"
           "Linux-Kernel.Exec 60 60 'x'\n");
    exit_thread(240, 50, 50, true, 0);
    expect("Thread.End <50/50> 50 50 5 'comm50'\n"
           "Image.UnLoad <50/50> 196608 20480 50 '/lib/libc.so'\n"
           "Process.End <50/50> 50 1 0 'sh' 'sh -c x y'\n");
}
END_TEST

/* A new mapping over an old one, and a mapping of a program that is not the present one. */
START_TEST(image_over_image)
{
    begin_shell();
    identity.known = false;
    map(200, 50, 1, 0x11000, LIBC);
    log_text[0] = '\0';
    map(201, 50, 1, 0x12000, "/lib/other");
    expect("Image.UnLoad <50/50> 65536 12288 50 '/lib/libc.so'\n"
           "Image.Load <50/50> 69632 12288 50 '/lib/other'\n");
    map(202, 50, 2, 0x51000, "/lib/late");
    expect("");
}
END_TEST

/* While the file is being asked for, its events wait, in their order; the rest goes on. */
START_TEST(image_waits)
{
    answer_now = false;
    begin_shell();
    map(200, 50, 1, 0x11000, LIBC);
    expect("");
    fork_process(210, 50, 60);
    expect("Process.Start <50/50> 60 50 259 'sh' 'sh -c x y'\n"
           "Thread.Start <50/50> 60 60 5 'comm60'\n");
    exit_thread(220, 60, 60, true, 0);
    expect("Thread.End <60/60> 60 60 5 'comm60'\n"
           "Process.End <60/60> 60 50 0 'sh' 'sh -c x y'\n");
    ck_assert_uint_eq(events_waiting(events), 0);
    ck_assert_uint_eq(asked, 1);
    answer(true);
    expect(IDENTITY("50", "65536") "Image.Load <50/50> 65536 20480 50 '/lib/libc.so'\n" //
           IDENTITY("60", "65536") "Image.Load <60/60> 65536 20480 60 '/lib/libc.so'\n"
                                   "Image.UnLoad <60/60> 65536 20480 60 '/lib/libc.so'\n");
    ck_assert_uint_eq(last_stamp, 219); /* before the End, whatever buffer it is in */
    ck_assert_uint_eq(events_waiting(events), 3);
}
END_TEST

/* No answer in time: without identity, base and size from the mapping; asked again later. */
START_TEST(image_without_answer)
{
    answer_now = false;
    begin_shell();
    map(200, 50, 1, 0x11000, LIBC);
    answer(false);
    expect("Image.Load <50/50> 65536 12288 50 '/lib/libc.so'\n");
    fork_process(210, 50, 60);
    ck_assert_uint_eq(asked, 2);
    log_text[0] = '\0';
    answer(true);
    expect(IDENTITY("60", "65536") "Image.Load <60/60> 65536 20480 60 '/lib/libc.so'\n");
}
END_TEST

/* A session that is at its end gets what happened before, and nothing else. */
START_TEST(image_after_the_end)
{
    answer_now = false;
    begin_shell();
    map(200, 50, 1, 0x11000, LIBC);
    target.end = 205;
    fork_process(210, 50, 60);
    expect("");
    answer(true);
    expect(IDENTITY("50", "65536") "Image.Load <50/50> 65536 20480 50 '/lib/libc.so'\n");
}
END_TEST

START_TEST(only_what_is_wanted)
{
    target.masks[0] = 0x2;
    begin_shell();
    fork_process(200, 50, 60);
    exec_process(210, 60, 60, 1, "/usr/bin/true", "true", 5);
    map(211, 60, 1, 0x11000, LIBC);
    exit_thread(220, 60, 60, true, 0);
    expect("Thread.Start <50/50> 60 60 5 'comm60'\n"
           "Thread.End <60/60> 60 60 5 'comm60'\n"
           "Thread.Start <60/60> 60 60 5 'comm60'\n"
           "Thread.End <60/60> 60 60 5 'comm60'\n");
    ck_assert_uint_eq(asked, 0);
}
END_TEST

/* A process whose birth nobody told: whoever traced by then gets it as one that was there. */
START_TEST(lost_birth)
{
    target.begin = 800;
    exit_thread(900, 50, 51, false, 0); /* born at 500 and 510 */
    expect("Process.DCStart <50/51> 50 1 259 'comm51' ''\n"
           "Thread.End <50/51> 50 51 5 'comm51'\n");
    target.begin = 0;
    exit_thread(910, 90, 90, true, 0); /* born at 900 */
    expect("Thread.End <90/90> 90 90 5 'comm90'\n"
           "Process.End <90/90> 90 1 0 'comm90' ''\n");
}
END_TEST

/* A number that is given again although the end of its last owner has been lost. */
START_TEST(lost_death)
{
    struct raw_fork r = {.creator_tid = 1, .creator_tgid = 1};
    begin_shell();
    r.task = task(50, 50, 0);
    r.task.start = r.task.leader_start = 999;
    raw(RAW_FORK, 999, &r, sizeof(r), 0);
    expect("Process.Start <1/1> 50 1 259 'comm50' ''\n"
           "Thread.Start <1/1> 50 50 5 'comm50'\n");
}
END_TEST

START_TEST(lost_counts)
{
    target.masks[0] = 0x1; /* processes alone */
    finish_count_lost(finish, LOST_RAW(RAW_FORK), 10);
    ck_assert_uint_eq(lost[LOSS_PROBE_RING_FULL], 10);
    finish_count_lost(finish, LOST_RAW(RAW_THREAD), 10);
    ck_assert_uint_eq(lost[LOSS_PROBE_RING_FULL], 10);
    finish_count_lost(finish, LOST_RAW(RAW_EXEC), 1); /* End, Start, Exec */
    ck_assert_uint_eq(lost[LOSS_PROBE_RING_FULL], 13);
    finish_count_lost(finish, ETL_ROW_Thread_CSwitch, 5);
    ck_assert_uint_eq(lost[LOSS_PROBE_RING_FULL], 18);
    target.masks[1] = 0;
    finish_count_lost(finish, ETL_ROW_Thread_CSwitch, 5);
    finish_count_lost(finish, LOST_COUNT, 5);
    ck_assert_uint_eq(lost[LOSS_PROBE_RING_FULL], 18);
    ck_assert(finish_lost(finish));
    ck_assert(!finish_lost(finish));
}
END_TEST

/* Cut at any byte, or with sizes that reach out: counted, never read. */
START_TEST(short_records)
{
    static const struct {
        uint16_t kind;
        size_t size;
    } kinds[] = {
        {RAW_FORK, sizeof(struct raw_fork)},   {RAW_THREAD, sizeof(struct raw_fork)},
        {RAW_EXEC, sizeof(struct raw_exec)},   {RAW_EXIT, sizeof(struct raw_exit)},
        {RAW_MAP, sizeof(struct raw_map)},     {RAW_EXIT_LAST, sizeof(struct raw_exit)},
        {RAW_UNMAP, sizeof(struct raw_unmap)},
    };
    uint64_t expected = 0;

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (size_t size = 8; size < kinds[k].size; size++) {
            /* Malloced, so that a checker sees a read beyond. */
            struct etl_record *rec = calloc(1, sizeof(*rec) + size);
            must(rec);
            rec->size = (uint32_t) (sizeof(*rec) + size);
            rec->registration = kinds[k].kind;
            finish_raw(finish, rec, 1);
            free(rec);
            expected++;
        }
    ck_assert_uint_eq(lost[LOSS_INVALID], expected);
    expect("");

    struct raw_exec e = {.path_size = 1, .args_offset = UINT32_MAX, .args_size = UINT32_MAX};
    raw(RAW_EXEC, 1, &e, sizeof(e), 16);
    struct raw_map m = {.path_size = 17};
    raw(RAW_MAP, 1, &m, sizeof(m), 16);
    raw(RAW_KINDS, 1, &m, sizeof(m), 16);
    ck_assert_uint_eq(lost[LOSS_INVALID], expected + 3);
    expect("");
}
END_TEST

START_TEST(command_lines)
{
    static const struct {
        const char *args;
        size_t size;
        bool cut;
        const char *line;
    } cases[] = {
        {"", 0, false, ""},
        {"a", 2, false, "a"},
        {"a\0b", 4, false, "a b"},
        {"a\0\0b", 5, false, "a  b"},
        {"a b\0c", 6, false, "a b c"},
        {"\0\0", 3, false, ""},
        {"abc", 3, true, "abc\xE2\x80\xA6"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct text *t = finish_command_text(cases[i].args, cases[i].size, cases[i].cut);
        ck_assert_ptr_nonnull(t);
        ck_assert_str_eq(t->s, cases[i].line);
        ck_assert_uint_eq(t->size, strlen(cases[i].line));
        text_unref(t);
    }
}
END_TEST

/* Texts are cut for buffers that are small, and never above 16 KiB. */
START_TEST(long_texts)
{
    static const uint32_t rooms[] = {4096 - 72, 8192 - 72, 65535 - 72};
    static char args[RAW_ARGS_MAX], path[RAW_PATH_MAX];

    memset(args, 'x', sizeof(args));
    for (size_t i = 0; i < sizeof(path) - 1; i++)
        path[i] = i % 100 ? 'p' : '/';
    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
        fork_process(100 + i, 1, 60);
        target.max_event = rooms[i];
        log_text[0] = '\0';
        exec_process(110 + i, 60, 60, 1, path, args, sizeof(args));
        char *start = strstr(log_text, "Process.Start");
        char *line = strstr(start, "' '");
        ck_assert_ptr_nonnull(line);
        size_t length = strcspn(line + 3, "'");
        ck_assert_int_eq(memcmp(line + 3 + length - 3, "\xE2\x80\xA6", 3), 0);
        if (rooms[i] > 40000)
            ck_assert_uint_eq(length - 2, 8191);
        else
            ck_assert_uint_gt(length, rooms[i] / 4);
        ck_assert_uint_le(last_size, rooms[i]);
        log_text[0] = '\0';
        path[sizeof(path) - 1] = '\0';
        map(120 + i, 60, 1, 0x11000, path);
        ck_assert_uint_le(last_size, rooms[i]);
        log_text[0] = '\0';
        exit_thread(130 + i, 60, 60, true, 0);
    }
    ck_assert_uint_eq(lost[LOSS_TOO_BIG], 0);
}
END_TEST

START_TEST(wait_times)
{
    struct {
        struct etl_perfinfo_header h;
        struct etl_Thread_CSwitch e;
    } s = {0};
    static const uint64_t tick = 15625000;

    s.e.OldThreadId = 7;
    finish_touch(finish, ETL_ROW_Thread_CSwitch, &s, 1000, 0);
    ck_assert_uint_eq(s.e.NewThreadWaitTime, 0);
    s.e.OldThreadId = 0;
    s.e.NewThreadId = 7;
    finish_touch(finish, ETL_ROW_Thread_CSwitch, &s, 1000 + 3 * tick - 1, 0);
    ck_assert_uint_eq(s.e.NewThreadWaitTime, 2);
    finish_touch(finish, ETL_ROW_Thread_CSwitch, &s, 1000 + 3 * tick, 0);
    ck_assert_uint_eq(s.e.NewThreadWaitTime, 3);
    /* Another thread in the same place of the table: unknown. */
    s.e.NewThreadWaitTime = 0;
    s.e.NewThreadId = 7 + 65536;
    finish_touch(finish, ETL_ROW_Thread_CSwitch, &s, 1000 + 4 * tick, 0);
    ck_assert_uint_eq(s.e.NewThreadWaitTime, 0);
}
END_TEST

START_TEST(priorities)
{
    for (int prio = 0; prio < 140; prio++)
        ck_assert_int_eq(etw_priority(prio), 31 - prio * 31 / 139);
    ck_assert_int_eq(etw_priority(-1), 31);
    ck_assert_int_eq(etw_priority(139), 0);
    ck_assert_int_eq(etw_priority(1000), 0);
}
END_TEST

/* Walks. */

static void walk_put(struct walk *w, uint16_t kind, void *data, size_t size, const char *more)
{
    struct etl_record rec = {
        .size = (uint32_t) (sizeof(rec) + size + (more ? (strlen(more) + 7) & ~7ULL : 0)),
        .type = ETL_RECORD_RAW,
        .registration = kind,
    };
    w->records = realloc(w->records, w->size + rec.size);
    ck_assert_ptr_nonnull(w->records);
    memcpy(w->records + w->size, &rec, sizeof(rec));
    memcpy(w->records + w->size + sizeof(rec), data, size);
    if (more) {
        uint8_t *to = w->records + w->size + sizeof(rec) + size;
        memset(to, 0, (strlen(more) + 7) & ~7ULL);
        memcpy(to, more, strlen(more));
    }
    w->size += rec.size;
}

static void walk_task(struct walk *w, uint32_t tgid, uint32_t tid, uint64_t exec_id,
                      const char *comm, const char *exe)
{
    struct raw_walk_task t = {.stamp = 5000, .exe_size = (uint32_t) strlen(exe)};
    t.task = task(tgid, tid, exec_id);
    snprintf(t.task.comm, sizeof(t.task.comm), "%s", comm);
    snprintf(t.exe, sizeof(t.exe), "%s", exe);
    walk_put(w, RAW_TASK, &t, sizeof(t), NULL);
}

static void walk_map(struct walk *w, uint32_t tgid, uint64_t exec_id, const char *path)
{
    struct raw_map m = {
        .tgid = tgid,
        .start = 0x11000,
        .end = 0x13000,
        .offset = 0x1000,
        .leader_start = tgid * 10ULL,
        .exec_id = exec_id,
        .file = {.inode = strlen(path), .dev_major = 8},
        .path_size = (uint32_t) strlen(path),
    };
    walk_put(w, RAW_MAP, &m, sizeof(m), path);
}

/* Buffers, as the rundown sees them: so many, then none until it has been asked again. */
static uint32_t buffers_left = UINT32_MAX;

uint32_t session_buffers_left(const struct session *s)
{
    if (buffers_left == UINT32_MAX)
        return 1000;
    return buffers_left > 0 ? buffers_left-- : 0;
}

const struct session_properties *session_properties(const struct session *s)
{
    static const struct session_properties p = {.maximum_buffers = 3};
    return &p;
}

static struct kernel_image kernel_image = {.base = 4096, .size = 8192};

/* Writes a whole rundown; how often it had to wait. */
static unsigned describe(enum rundown_kind kind, unsigned cpus, const uint32_t old[8])
{
    struct rundown_params p = {
        .kind = kind,
        .events = events,
        .table = table,
        .kernel = &kernel_image,
        .sysconfig = (struct sysconfig *) &kernel_image,
        .cpus = cpus,
        .target = &target,
        .stamp = 1000,
    };
    struct rundown *r;
    unsigned waits = 0;
    if (old)
        memcpy(p.old_masks, old, sizeof(p.old_masks));
    ck_assert_int_eq(rundown_new(&p, NULL, &r), 0);
    while (!rundown_step(r, true)) {
        waits++;
        buffers_left = 2;
    }
    rundown_free(r);
    if (kind == RUNDOWN_END)
        rundown_finish(events, &target, 1000);
    return waits;
}

START_TEST(rundown_order)
{
    struct walk *w = calloc(1, sizeof(*w));
    static struct walk_command commands[1] = {{50, 8, NULL}};

    ck_assert_ptr_nonnull(w);
    walk_task(w, 60, 60, 0, "fifteen-letters", "fifteen-letters-and-more");
    walk_task(w, 50, 50, 1, "sh", "dash");
    walk_task(w, 50, 51, 1, "helper", "dash");
    walk_task(w, 200, 200, 0, "younger", "younger"); /* born at 2000 */
    walk_map(w, 50, 1, LIBC);
    commands[0].args = malloc(8);
    ck_assert_ptr_nonnull(commands[0].args);
    memcpy(commands[0].args, "sh\0-c\0x", 8);
    w->commands = commands;
    w->n_commands = 1;
    identity.build_id_size = 0;
    rundown_apply(table, w, 1000, true);
    ck_assert_uint_eq(describe(RUNDOWN_START, 2, NULL), 0);
    expect("EventTrace.EndExtension <self> 0 0 0 0 0 0 0 0 70\n"
           "network\n"
           "EventTrace.Extension <self> 7 516 0 0 0 0 0 0 70\n"
           "sysconfig\n"
           "Process.DCStart <0/0> 0 0 0 'Idle' ''\n"
           "Thread.DCStart <0/0> 0 0 0 'swapper/0'\n"
           "Thread.DCStart <0/0> 0 0 0 'swapper/1'\n"
           "Image.DCStart <0/0> 4096 8192 0 'vmlinux'\n"
           "Process.DCStart <50/50> 50 1 259 'sh' 'sh -c x'\n"
           "Thread.DCStart <50/51> 50 51 5 'helper'\n"
           "Thread.DCStart <50/50> 50 50 5 'sh'\n"
           "Image.DCStart <50/50> 65536 20480 50 '/lib/libc.so'\n"
           "Process.DCStart <60/60> 60 1 259 'fifteen-letters-and-more' ''\n"
           "Thread.DCStart <60/60> 60 60 5 'fifteen-letters'\n"
           "EventTrace.RDComplete\n");

    /* What the walk told is not told again by the records of the same moments. */
    fork_process(1001, 1, 60);
    exec_process(1002, 50, 50, 1, "/bin/sh", "sh", 3);
    map(1003, 50, 1, 0x11000, LIBC);
    struct raw_fork r = {.creator_tid = 50, .creator_tgid = 50};
    r.task = task(50, 51, 1);
    raw(RAW_THREAD, 1004, &r, sizeof(r), 0);
    expect("");

    /* Names change; who is younger than the walk stays; nothing goes without loss. */
    struct walk *again = calloc(1, sizeof(*again));
    ck_assert_ptr_nonnull(again);
    walk_task(again, 50, 50, 1, "renamed", "dash");
    rundown_refresh(finish, table, again);
    describe(RUNDOWN_END, 2, NULL);
    expect("sysconfig\n"
           "EventTrace.EndExtension <self> 7 516 0 0 0 0 0 0 70\n"
           "Thread.DCEnd <0/0> 0 0 0 'swapper/0'\n"
           "Thread.DCEnd <0/0> 0 0 0 'swapper/1'\n"
           "Process.DCEnd <0/0> 0 0 0 'Idle' ''\n"
           "Image.DCEnd <0/0> 4096 8192 0 'vmlinux'\n"
           "Thread.DCEnd <50/51> 50 51 5 'helper'\n"
           "Thread.DCEnd <50/50> 50 50 5 'renamed'\n"
           "Process.DCEnd <50/50> 50 1 259 'sh' 'sh -c x'\n"
           "Image.DCEnd <50/50> 65536 20480 50 '/lib/libc.so'\n"
           "Thread.DCEnd <60/60> 60 60 5 'fifteen-letters'\n"
           "Process.DCEnd <60/60> 60 1 259 'fifteen-letters-and-more' ''\n"
           "EventTrace.Extension <self> 0 0 0 0 0 0 0 0 70\n"
           "EventTrace.RDComplete\n");

    /* With loss, who is not there is gone: 51 and 60, not the one born since. */
    fork_process(6000, 50, 700);
    finish_count_lost(finish, LOST_RAW(RAW_EXIT), 1);
    rundown_refresh(finish, table, again);
    ck_assert_ptr_nonnull(process_find(table, 50));
    ck_assert_ptr_null(thread_find(table, 51));
    ck_assert_ptr_null(process_find(table, 60));
    ck_assert_ptr_nonnull(process_find(table, 700));
    free(again->records);
    free(again);
    free(commands[0].args);
    free(w->records);
    free(w);
}
END_TEST

/* Changed masks: only what is new is described. */
START_TEST(rundown_of_new_masks)
{
    static const uint32_t old[8] = {0x1};

    begin_shell();
    target.masks[0] = 0x3;
    kernel_image = (struct kernel_image){0};
    describe(RUNDOWN_UPDATE, 1, old);
    expect("EventTrace.EndExtension <self> 1 0 0 0 0 0 0 0 70\n"
           "EventTrace.Extension <self> 3 516 0 0 0 0 0 0 70\n"
           "Thread.DCStart <0/0> 0 0 0 'swapper/0'\n"
           "Thread.DCStart <50/50> 50 50 5 'comm50'\n"
           "EventTrace.RDComplete\n");
    ck_assert_uint_eq(target.masks[0], 0x3);
}
END_TEST

/* With few free buffers it stops, and goes on where it was: the same events, each once. */
START_TEST(rundown_waits_for_buffers)
{
    static char at_once[sizeof(log_text)];

    begin_shell();
    make_thread(200, 50, 51);
    map(201, 50, 1, 0x11000, LIBC);
    fork_process(210, 50, 60);
    log_text[0] = '\0';
    static const enum rundown_kind kinds[] = {RUNDOWN_START, RUNDOWN_END};
    for (size_t i = 0; i < 2; i++) {
        buffers_left = UINT32_MAX;
        ck_assert_uint_eq(describe(kinds[i], 2, NULL), 0);
        memcpy(at_once, log_text, sizeof(at_once));
        ck_assert_ptr_nonnull(strstr(at_once, " 51 "));
        log_text[0] = '\0';
        buffers_left = 0;
        ck_assert_uint_gt(describe(kinds[i], 2, NULL), 2);
        expect(at_once);
    }
}
END_TEST

/* Many processes, threads and files: every one is found, and all go. */
START_TEST(big_table)
{
    for (uint32_t i = 1; i <= 5000; i++) {
        log_text[0] = '\0';
        fork_process(i, i - 1, i * 2);
        make_thread(i, i * 2, i * 2 + 1);
        char path[32];
        snprintf(path, sizeof(path), "/f%u", i);
        map(i, i * 2, 0, 0x11000, path);
    }
    ck_assert_uint_eq(process_table_size(table), 5000);
    for (uint32_t i = 1; i <= 5000; i++) {
        must(process_find(table, i * 2));
        must(thread_find(table, i * 2 + 1)->process == process_find(table, i * 2));
    }
    for (uint32_t i = 1; i <= 5000; i++) {
        log_text[0] = '\0';
        exit_thread(i + 5000, i * 2, i * 2 + 1, false, 0);
        exit_thread(i + 5000, i * 2, i * 2, true, 0);
    }
    ck_assert_uint_eq(process_table_size(table), 0);
    ck_assert_ptr_null(thread_find(table, 3));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("finish");
    TCase *c = tcase_create("records");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, fork_has_the_parents_program);
    tcase_add_test(c, fork_of_an_unknown_parent);
    tcase_add_test(c, threads);
    tcase_add_test(c, exec_ends_and_starts);
    tcase_add_test(c, exec_by_another_thread);
    tcase_add_test(c, last_threads_together);
    tcase_add_test(c, last_thread_with_a_lost_exit);
    tcase_add_test(c, exit_statuses);
    tcase_add_test(c, image_life);
    tcase_add_test(c, image_over_image);
    tcase_add_test(c, image_waits);
    tcase_add_test(c, image_without_answer);
    tcase_add_test(c, image_after_the_end);
    tcase_add_test(c, only_what_is_wanted);
    tcase_add_test(c, lost_birth);
    tcase_add_test(c, lost_death);
    tcase_add_test(c, lost_counts);
    tcase_add_test(c, short_records);
    tcase_add_test(c, command_lines);
    tcase_add_test(c, long_texts);
    tcase_add_test(c, wait_times);
    tcase_add_test(c, priorities);
    tcase_add_test(c, big_table);
    suite_add_tcase(s, c);
    c = tcase_create("rundown");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, rundown_order);
    tcase_add_test(c, rundown_of_new_masks);
    tcase_add_test(c, rundown_waits_for_buffers);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_main(suite());
}
