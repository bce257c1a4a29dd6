/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that Windows wrote, cut short at every 512 bytes and with single bytes changed: readers
 * deliver all whole records before the damage, decode what they can, and neither crash nor hang.
 * ETW_SAMPLES names the folder; skipped without it. test-damaged-files MUTATIONS: of each file.
 *
 * The consumer is of the usual shape, and decodes each event from memory that ends where the event
 * does, so that a sanitizer sees a step beyond.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <evntcons.h>
#include <evntrace.h>
#include <tdh.h>

#include "base/cleanup.h"
#include "etl/file.h"
#include "lib/test.h"

#define STEP 512u
#define SAMPLES_MAX 64

static unsigned mutations;

struct sample {
    char *name;
    uint8_t *data;
    size_t size;
    int fd; /* a private copy to damage */
    char path[32];
    size_t first_buffer;
    /* Of each record, in the order of the file: where it begins and where it is whole. */
    uint64_t *begin, *end;
    size_t n;
};

static struct sample samples[SAMPLES_MAX];
static size_t n_samples;

/* ---- the consumer ---- */

static uint64_t delivered;
static uint8_t info_space[1 << 20], text_space[1 << 18], value_space[1 << 17];

static void decode(PEVENT_RECORD r)
{
    TRACE_EVENT_INFO *info = (TRACE_EVENT_INFO *) info_space;
    ULONG size = sizeof(info_space);
    USHORT at = 0;

    if (TdhGetEventInformation(r, 0, NULL, info, &size) != ERROR_SUCCESS)
        return;
    for (ULONG i = 0; i < info->TopLevelPropertyCount; i++) {
        EVENT_PROPERTY_INFO *p = &info->EventPropertyInfoArray[i];
        PROPERTY_DATA_DESCRIPTOR d = {
            .PropertyName = (ULONGLONG) (uintptr_t) (info_space + p->NameOffset),
            .ArrayIndex = UINT32_MAX,
        };
        ULONG bytes;
        if (TdhGetPropertySize(r, 0, NULL, 1, &d, &bytes) == ERROR_SUCCESS) {
            ck_assert_uint_le(bytes, r->UserDataLength);
            (void) TdhGetProperty(r, 0, NULL, 1, &d, sizeof(value_space), value_space);
        }
    }
    for (ULONG i = 0; i < info->TopLevelPropertyCount; i++) {
        EVENT_PROPERTY_INFO *p = &info->EventPropertyInfoArray[i];
        ULONG space = sizeof(text_space);
        USHORT used = 0;
        if (p->Flags & (PropertyStruct | PropertyParamCount | PropertyParamLength))
            break;
        if (TdhFormatProperty(info, NULL,
                              r->EventHeader.Flags & EVENT_HEADER_FLAG_32_BIT_HEADER ? 4 : 8,
                              p->nonStructType.InType, p->nonStructType.OutType, p->length,
                              (USHORT) (r->UserDataLength - at), (BYTE *) r->UserData + at, &space,
                              (WCHAR *) text_space, &used) != ERROR_SUCCESS)
            break;
        ck_assert_uint_le(used, r->UserDataLength - at);
        at = (USHORT) (at + used);
    }
}

static void WINAPI on_event(PEVENT_RECORD r)
{
    PVOID data = r->UserData;
    uint8_t *copy = malloc(r->UserDataLength ? r->UserDataLength : 1);

    delivered++;
    ck_assert_ptr_nonnull(copy);
    if (r->UserDataLength > 0)
        memcpy(copy, data, r->UserDataLength);
    r->UserData = copy;
    decode(r);
    r->UserData = data;
    free(copy);
}

/* How many records come of the file as it is now; 0 where it is no trace. */
static uint64_t process(struct sample *s)
{
    EVENT_TRACE_LOGFILEA log = {.LogFileName = s->path, .EventRecordCallback = on_event};
    ULONG code;

    delivered = 0;
    log.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    TRACEHANDLE h = OpenTraceA(&log);
    if (h == INVALID_PROCESSTRACE_HANDLE)
        return 0;
    code = ProcessTrace(&h, 1, NULL, NULL);
    ck_assert_msg(code == ERROR_SUCCESS || code == ERROR_FILE_CORRUPT || code == ERROR_INVALID_DATA,
                  "%s: ProcessTrace: %u", s->name, code);
    ck_assert_uint_eq(CloseTrace(h), ERROR_SUCCESS);
    return delivered;
}

/* ---- the samples ---- */

static void sample_records(struct sample *s)
{
    const struct etl_buffer_ref *refs;
    struct etl_file *f;
    uint8_t *buffer;
    size_t n, cap = 0;
    bool truncated;

    ck_assert_int_eq(etl_file_open_fd(s->fd, &f), 0);
    ck_assert_int_eq(etl_file_index(f, &refs, &n, &truncated), 0);
    buffer = malloc(etl_file_buffer_bytes(f));
    ck_assert_ptr_nonnull(buffer);
    s->first_buffer = refs[0].size;
    for (size_t i = 0; i < n; i++) {
        struct etl_buffer_info info;
        struct etl_event e;
        struct etl_iter it;
        size_t len;
        ck_assert_int_eq(
            etl_file_read_buffer(f, &refs[i], buffer, etl_file_buffer_bytes(f), &info, &len), 0);
        etl_iter_init(&it, buffer, len, info.end);
        while (etl_iter_next(&it, &e) > 0) {
            /* Of a compressed buffer nobody knows where in the file a record lies. */
            bool whole = (info.flags & ETL_BUFFER_COMPRESSED) != 0;
            uint64_t at = refs[i].offset + (whole ? 0 : (uint64_t) (e.raw - buffer));
            if (s->n == cap) {
                cap = cap ? 2 * cap : 256;
                s->begin = reallocarray(s->begin, cap, sizeof(*s->begin));
                s->end = reallocarray(s->end, cap, sizeof(*s->end));
                ck_assert(s->begin && s->end);
            }
            s->begin[s->n] = at;
            s->end[s->n++] = whole ? refs[i].offset + refs[i].size : at + e.size;
        }
    }
    free(buffer);
    etl_file_free(f);
}

static void samples_load(void)
{
    const char *folder = getenv("ETW_SAMPLES");
    struct dirent *entry;
    DIR *d;

    if (!folder || !*folder)
        test_skip("ETW_SAMPLES is not set");
    d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    while ((entry = readdir(d))) {
        size_t len = strlen(entry->d_name);
        struct sample *s = &samples[n_samples];
        char *path = NULL;
        if (len < 4 || strcmp(entry->d_name + len - 4, ".etl") != 0)
            continue;
        ck_assert_uint_lt(n_samples, SAMPLES_MAX);
        s->name = strdup(entry->d_name);
        ck_assert_int_ge(asprintf(&path, "%s/%s", folder, s->name), 0);
        s->data = (uint8_t *) test_read_file(path, &s->size);
        free(path);
        s->fd = memfd_create("sample", MFD_CLOEXEC);
        ck_assert_int_ge(s->fd, 0);
        ck_assert_int_eq(pwrite(s->fd, s->data, s->size, 0), (ssize_t) s->size);
        (void) snprintf(s->path, sizeof(s->path), "/proc/self/fd/%d", s->fd);
        sample_records(s);
        ck_assert_msg(process(s) == s->n, "%s: %llu records, not %zu", s->name,
                      (unsigned long long) delivered, s->n);
        n_samples++;
    }
    (void) closedir(d);
    ck_assert_uint_gt(n_samples, 0);
}

/* ---- tests ---- */

START_TEST(cut_short)
{
    samples_load();
    for (size_t i = 0; i < n_samples; i++) {
        struct sample *s = &samples[i];
        for (size_t at = s->size / STEP * STEP; at > 0; at -= STEP) {
            uint64_t least = 0, most = 0;
            ck_assert_int_eq(ftruncate(s->fd, (off_t) at), 0);
            for (size_t k = 0; k < s->n; k++) {
                least += s->end[k] <= at;
                most += s->begin[k] < at;
            }
            uint64_t got = process(s);
            ck_assert_msg(got >= least && got <= most,
                          "%s, cut to %zu bytes: %llu records, %llu are whole and %llu begin",
                          s->name, at, (unsigned long long) got, (unsigned long long) least,
                          (unsigned long long) most);
        }
        ck_assert_int_eq(ftruncate(s->fd, 0), 0);
        ck_assert_uint_eq(process(s), 0);
    }
}
END_TEST

static uint64_t random_state = 0x9E3779B97F4A7C15ull;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

START_TEST(bytes_changed)
{
    samples_load();
    for (size_t i = 0; i < n_samples; i++) {
        struct sample *s = &samples[i];
        for (unsigned m = 0; m < mutations; m++) {
            size_t at = random_next() % s->size;
            uint8_t was = s->data[at];
            uint8_t now = (uint8_t) (was ^ (1 + random_next() % 255));
            uint64_t least = 0;
            ck_assert_int_eq(pwrite(s->fd, &now, 1, (off_t) at), 1);
            /* The first buffer says how the others are to be read; behind it, what lies ahead of
             * the damage does not depend on it. */
            for (size_t k = 0; at >= s->first_buffer && k < s->n; k++)
                least += s->end[k] <= at;
            uint64_t got = process(s);
            ck_assert_msg(got >= least, "%s, byte %zu %02x -> %02x: %llu records, %llu lie ahead",
                          s->name, at, was, now, (unsigned long long) got,
                          (unsigned long long) least);
            ck_assert_int_eq(pwrite(s->fd, &was, 1, (off_t) at), 1);
        }
        ck_assert_uint_eq(process(s), s->n);
    }
}
END_TEST

/* What is missing is told: a buffer is cut, or the header counts more of them, or an end. */
START_TEST(told_by_etwctl)
{
    static const unsigned parts[] = {1, 3, 5, 7};
    char *path = test_path("cut.etl");

    samples_load();
    for (size_t i = 0; i < n_samples; i++) {
        struct sample *s = &samples[i];
        for (size_t k = 0; k < ARRAY_SIZE(parts); k++) {
            size_t size = s->first_buffer + (s->size - s->first_buffer) * parts[k] / 8;
            struct test_output o;
            if (size == s->size)
                continue;
            int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
            ck_assert_int_ge(fd, 0);
            ck_assert_int_eq(write(fd, s->data, size), (ssize_t) size);
            ck_assert_int_eq(close(fd), 0);
            test_etwctl(&o, "summary", path);
            ck_assert_msg(o.status == 4, "%s, %zu of %zu bytes: status %d\n%s%s", s->name, size,
                          s->size, o.status, o.out, o.err);
            test_output_done(&o);
            test_etwctl(&o, "dump", path);
            ck_assert_msg(o.status == 4, "%s, %zu of %zu bytes: status %d\n%s", s->name, size,
                          s->size, o.status, o.err);
            test_output_done(&o);
        }
    }
    free(path);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("damaged-files");
    TCase *t = tcase_create("damaged-files");

    tcase_set_timeout(t, 7200);
    tcase_add_test(t, cut_short);
    tcase_add_test(t, bytes_changed);
    tcase_add_test(t, told_by_etwctl);
    suite_add_tcase(s, t);
    return s;
}

int main(int argc, char **argv)
{
    mutations = argc > 1 ? (unsigned) test_scale(atoi(argv[1])) : 10;
    return test_main(suite());
}
