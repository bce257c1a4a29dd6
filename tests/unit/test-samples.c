/* SPDX-License-Identifier: Apache-2.0
 *
 * The readers against real files that Windows wrote, and expected.json beside them: counts, header,
 * times, and the hashes of all stamps and all user data. ETW_SAMPLES names the folder; skipped
 * without it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf16.h"
#include "etl/file.h"
#include "lib/test.h"
#include "sha256.h"

static struct json_object *expectations;
static const char *folder;

struct found {
    const struct etl_logfile *lf;
    size_t buffers, compressed;
    uint64_t events, data_bytes, inversions;
    uint64_t first, last, last_raw;
    uint64_t *stamps;
    uint8_t (*hashes)[32];
    size_t n_stamps, n_hashes, cap;
    bool broken;
};

static int compare_u64(const void *a, const void *b)
{
    uint64_t x, y;

    memcpy(&x, a, 8);
    memcpy(&y, b, 8);
    return x < y ? -1 : x > y;
}

static int compare_hash(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

static void take_event(struct found *f, const struct etw_timebase *tb, const struct etl_event *e)
{
    if (f->n_hashes == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 256;
        f->stamps = reallocarray(f->stamps, f->cap, sizeof(*f->stamps));
        f->hashes = reallocarray(f->hashes, f->cap, sizeof(*f->hashes));
        ck_assert(f->stamps && f->hashes);
    }
    f->events++;
    f->data_bytes += e->data_size;
    sha256(e->data, e->data_size, f->hashes[f->n_hashes++]);
    if (e->has_time) {
        uint64_t ft = etw_timebase_filetime(tb, e->time_stamp);
        if (f->n_stamps > 0 && e->time_stamp < f->last_raw)
            f->inversions++;
        f->last_raw = e->time_stamp;
        if (f->n_stamps == 0 || ft < f->first)
            f->first = ft;
        if (ft > f->last)
            f->last = ft;
        f->stamps[f->n_stamps++] = e->time_stamp;
    }
}

static void read_all(struct etl_file *file, struct found *f)
{
    const struct etl_buffer_ref *refs;
    _cleanup_free_ uint8_t *buf = NULL;
    struct etw_timebase tb;
    bool truncated;

    f->lf = etl_file_header(file);
    etl_logfile_timebase(f->lf, &tb);
    ck_assert_int_eq(etl_file_index(file, &refs, &f->buffers, &truncated), 0);
    f->broken = truncated;
    buf = malloc(etl_file_buffer_bytes(file));
    ck_assert_ptr_nonnull(buf);
    for (size_t i = 0; i < f->buffers; i++) {
        struct etl_buffer_info info;
        struct etl_iter it;
        struct etl_event e;
        uint64_t first = UINT64_MAX;
        size_t len;

        ck_assert_int_eq(
            etl_file_read_buffer(file, &refs[i], buf, etl_file_buffer_bytes(file), &info, &len), 0);
        f->compressed += (info.flags & ETL_BUFFER_COMPRESSED) != 0;
        etl_iter_init(&it, buf, len, info.end);
        while (etl_iter_next(&it, &e) == 1) {
            if (e.has_time && first == UINT64_MAX)
                first = e.time_stamp;
            take_event(f, &tb, &e);
        }
        ck_assert_int_eq(it.error, 0);
        ck_assert_uint_eq(refs[i].first_time, first);
    }
}

static void check_text(const uint8_t *s, uint32_t units, const char *expected)
{
    _cleanup_free_ char *text = etw_utf16_dup_utf8(s, units);

    ck_assert_str_eq(text, expected);
}

static void check_hash(const void *data, size_t size, const char *expected)
{
    uint8_t hash[32];
    char hex[65];

    sha256(data, size, hash);
    for (size_t i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    ck_assert_str_eq(hex, expected);
}

static uint64_t clock_number(const char *name)
{
    return strcmp(name, "SystemTime") == 0 ? 2 : strcmp(name, "QPC") == 0 ? 1 : 3;
}

START_TEST(sample)
{
    struct json_object *files = test_json_get(expectations, "files"), *o;
    struct json_object_iterator at = json_object_iter_begin(files);
    struct etl_file *file;
    struct found f = {0};
    char path[8192], version[64];
    const char *name;

    for (int i = 0; i < _i; i++)
        json_object_iter_next(&at);
    name = json_object_iter_peek_name(&at);
    o = json_object_iter_peek_value(&at);
    fprintf(stderr, "%s\n", name);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(etl_file_open_fd(fd, &file), 0);
    read_all(file, &f);

    ck_assert(!f.broken);
    ck_assert_uint_eq(etl_file_size(file), test_json_u64(o, "size"));
    ck_assert_uint_eq(f.buffers, test_json_u64(o, "buffers"));
    ck_assert_uint_eq(f.compressed, test_json_u64(o, "compressed_buffers"));
    ck_assert_uint_eq(f.events, test_json_u64(o, "events_total"));
    ck_assert_uint_eq(f.lf->events_lost, test_json_u64(o, "events_lost"));
    ck_assert_uint_eq(f.lf->buffers_lost, test_json_u64(o, "buffers_lost"));
    ck_assert_uint_eq(f.lf->buffer_size, test_json_u64(o, "header_buffer_size"));
    ck_assert_uint_eq(f.lf->processors, test_json_u64(o, "processors_in_header"));
    ck_assert_uint_eq(f.lf->pointer_size, test_json_u64(o, "pointer_size"));
    ck_assert_uint_eq(f.lf->buffers_written, test_json_u64(o, "buffers_written_in_header"));
    ck_assert_uint_eq(f.lf->maximum_file_size, test_json_u64(o, "maximum_file_size"));
    ck_assert_uint_eq(f.lf->log_file_mode, strtoul(test_json_str(o, "log_file_mode"), NULL, 16));
    ck_assert_uint_eq(f.lf->perf_frequency, test_json_u64(o, "perf_freq"));
    ck_assert_uint_eq(f.lf->cpu_mhz, test_json_u64(o, "cpu_mhz"));
    ck_assert_uint_eq(f.lf->timer_resolution, test_json_u64(o, "timer_resolution"));
    ck_assert_uint_eq(f.lf->boot_time, test_json_u64(o, "boot_filetime"));
    ck_assert_uint_eq(f.lf->start_time, test_json_u64(o, "start_filetime"));
    ck_assert_uint_eq(f.lf->end_time, test_json_u64(o, "end_filetime"));
    ck_assert_uint_eq(f.lf->start_raw, test_json_u64(o, "header_event_raw_ts"));
    ck_assert_uint_eq(f.lf->clock_type, clock_number(test_json_str(o, "clock")));
    snprintf(version, sizeof(version), "%u.%u.%u", f.lf->version[0], f.lf->version[1],
             f.lf->provider_version);
    ck_assert_str_eq(version, test_json_str(o, "os_version"));
    check_text(f.lf->logger_name, f.lf->logger_name_len, test_json_str(o, "logger_name"));
    check_text(f.lf->log_file_name, f.lf->log_file_name_len, test_json_str(o, "log_file_name"));
    ck_assert_uint_eq(f.inversions, test_json_u64(o, "time_inversions_in_file_order"));
    ck_assert_uint_eq(f.first, test_json_u64(o, "first_filetime"));
    ck_assert_uint_eq(f.last, test_json_u64(o, "last_filetime"));
    ck_assert_uint_eq(f.data_bytes, test_json_u64(o, "userdata_bytes"));
    qsort(f.stamps, f.n_stamps, sizeof(*f.stamps), compare_u64);
    check_hash(f.stamps, f.n_stamps * sizeof(*f.stamps), test_json_str(o, "sorted_raw_ts_sha256"));
    qsort(f.hashes, f.n_hashes, sizeof(*f.hashes), compare_hash);
    check_hash(f.hashes, f.n_hashes * sizeof(*f.hashes),
               test_json_str(o, "userdata_multiset_sha256"));
    free(f.stamps);
    free(f.hashes);
    etl_file_free(file);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("samples");
    TCase *t = tcase_create("samples");
    struct json_object *files;
    char path[8192];

    folder = getenv("ETW_SAMPLES");
    if (!folder || !*folder)
        test_skip_all("ETW_SAMPLES names no folder of trace files");
    snprintf(path, sizeof(path), "%s/expected.json", folder);
    expectations = json_object_from_file(path);
    if (!expectations || !json_object_object_get_ex(expectations, "files", &files)) {
        fprintf(stderr, "%s cannot be read\n", path);
        return 1;
    }
    tcase_add_loop_test(t, sample, 0, json_object_object_length(files));
    suite_add_tcase(s, t);
    return test_main(s);
}
