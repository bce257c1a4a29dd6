/* SPDX-License-Identifier: Apache-2.0
 *
 * `etwctl record` of a shell that starts 200 programs: every process, thread and image of it is in
 * the trace, whole, once, and in the right order, from its first instruction to its end.
 */
#include "lib/test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLAGS "process,thread,image,cswitch,dispatcher"
#define N 200
#define STILL_ACTIVE 259

/* One life of a program in a process: from its Start to its End. */
struct life {
    uint64_t pid, parent;
    char image[64];
    char command[256];
    char key[32];
    uint64_t start, end; /* raw stamps */
    size_t start_line, end_line;
    int64_t status;
    bool ended;
    unsigned ends;
    unsigned loads, load_program, load_loader, load_libc;
    unsigned threads_started, threads_ended;
};

struct trace {
    struct life *lives;
    size_t n;
    size_t lines;
    unsigned execs; /* Linux-Kernel Exec events of the lives */
};

static const char *payload_str(struct json_object *e, const char *field)
{
    char path[64];

    snprintf(path, sizeof(path), "payload.%s", field);
    return test_json_str(e, path);
}

static int64_t payload_int(struct json_object *e, const char *field)
{
    char path[64];

    snprintf(path, sizeof(path), "payload.%s", field);
    return json_object_get_int64(test_json_get(e, path));
}

static bool is_event(struct json_object *e, const char *provider, const char *event)
{
    return test_json_has(e, "event") && test_json_has(e, "provider.name") &&
           strcmp(test_json_str(e, "provider.name"), provider) == 0 &&
           strcmp(test_json_str(e, "event"), event) == 0;
}

/* The life of pid that goes on at this place of the dump. */
static struct life *current(struct trace *t, uint64_t pid)
{
    for (size_t i = t->n; i > 0; i--)
        if (t->lives[i - 1].pid == pid)
            return t->lives[i - 1].ended ? NULL : &t->lives[i - 1];
    return NULL;
}

static void on_process_start(struct trace *t, struct json_object *e)
{
    struct life *l;

    t->lives = realloc(t->lives, (t->n + 1) * sizeof(*t->lives));
    ck_assert_ptr_nonnull(t->lives);
    l = &t->lives[t->n++];
    memset(l, 0, sizeof(*l));
    l->pid = (uint64_t) payload_int(e, "ProcessId");
    l->parent = (uint64_t) payload_int(e, "ParentId");
    snprintf(l->image, sizeof(l->image), "%s", payload_str(e, "ImageFileName"));
    snprintf(l->command, sizeof(l->command), "%s", payload_str(e, "CommandLine"));
    snprintf(l->key, sizeof(l->key), "%s", payload_str(e, "UniqueProcessKey"));
    l->start = test_json_u64(e, "timestamp");
    l->start_line = t->lines;
    ck_assert_int_eq(payload_int(e, "ExitStatus"), STILL_ACTIVE);
}

static void on_process_end(struct trace *t, struct json_object *e)
{
    const char *key = payload_str(e, "UniqueProcessKey");

    for (size_t i = t->n; i > 0; i--) {
        struct life *l = &t->lives[i - 1];

        if (strcmp(l->key, key) != 0)
            continue;
        ck_assert_int_eq(payload_int(e, "ProcessId"), (int64_t) l->pid);
        l->ends++;
        l->ended = true;
        l->end = test_json_u64(e, "timestamp");
        l->end_line = t->lines;
        l->status = payload_int(e, "ExitStatus");
        return;
    }
}

/* sh is a link to a shell with another name. */
static const char *file_of(const char *image)
{
    static char sh[PATH_MAX];

    if (strcmp(image, "sh") != 0)
        return image;
    if (!sh[0] && !realpath("/bin/sh", sh))
        ck_abort_msg("/bin/sh: %m");
    return strrchr(sh, '/') + 1;
}

static void on_image(struct trace *t, struct json_object *e)
{
    struct life *l = current(t, (uint64_t) payload_int(e, "ProcessId"));
    const char *path = payload_str(e, "FileName");
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

    if (!l)
        return;
    l->loads++;
    l->load_program += strcmp(name, file_of(l->image)) == 0;
    l->load_loader += strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld-2", 4) == 0;
    l->load_libc += strncmp(name, "libc.so", 7) == 0 || strncmp(name, "libc-2", 6) == 0;
}

static void read_trace(const char *file, struct trace *t)
{
    struct test_output o;
    char *save = NULL;

    memset(t, 0, sizeof(*t));
    test_run_limit(&o, 600,
                   (const char *const[]){test_env("ETWCTL"), "dump", "--json", file, NULL});
    ck_assert_msg(o.status == 0, "dump: status %d: %s", o.status, o.err);
    for (char *line = strtok_r(o.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        struct json_object *e;

        t->lines++;
        /* Most events are context switches. */
        if (strstr(line, "\"CSwitch\"") || strstr(line, "\"ReadyThread\""))
            continue;
        e = test_json(line);
        if (is_event(e, "Process", "Start")) {
            on_process_start(t, e);
        } else if (is_event(e, "Process", "End")) {
            on_process_end(t, e);
        } else if (is_event(e, "Thread", "Start")) {
            struct life *l = current(t, (uint64_t) payload_int(e, "ProcessId"));

            if (l)
                l->threads_started++;
        } else if (is_event(e, "Thread", "End")) {
            struct life *l = current(t, (uint64_t) payload_int(e, "ProcessId"));

            if (l)
                l->threads_ended++;
        } else if (is_event(e, "Image", "Load")) {
            on_image(t, e);
        } else if (is_event(e, "Linux-Kernel", "Exec")) {
            const char *key = payload_str(e, "NewUniqueProcessKey");

            for (size_t i = 0; i < t->n; i++)
                t->execs += strcmp(t->lives[i].key, key) == 0;
        }
        json_object_put(e);
    }
    test_output_done(&o);
}

/* The shell after exec: the one Start whose command line has the marker and whose parent's has
 * not. */
static const struct life *main_shell(const struct trace *t, const char *marker)
{
    const struct life *found = NULL;

    for (size_t i = 0; i < t->n; i++) {
        const struct life *l = &t->lives[i];
        bool child = false;

        if (!strstr(l->command, marker) || strcmp(l->image, "sh") != 0)
            continue;
        for (size_t j = 0; j < t->n; j++)
            child |= t->lives[j].pid == l->parent && strstr(t->lives[j].command, marker) &&
                     strcmp(t->lives[j].image, "sh") == 0;
        if (!child) {
            ck_assert_msg(!found, "two shells with the marker");
            found = l;
        }
    }
    ck_assert_msg(found, "the shell's start is not in the trace");
    return found;
}

static const struct life *next_life(const struct trace *t, const struct life *l)
{
    for (const struct life *n = l + 1; n < t->lives + t->n; n++)
        if (n->pid == l->pid)
            return n;
    return NULL;
}

static void check_whole(const struct life *l)
{
    ck_assert_msg(l->ends == 1, "%s %llu ended %u times", l->image, (unsigned long long) l->pid,
                  l->ends);
    ck_assert_uint_eq(l->threads_started, 1);
    ck_assert_uint_eq(l->threads_ended, 1);
    ck_assert_uint_ge(l->end, l->start);
}

/* A program that was started by exec: itself, the loader and the C library. */
static void check_images(const struct life *l)
{
    ck_assert_msg(l->load_program == 1 && l->load_loader == 1 && l->load_libc == 1,
                  "%s %llu: %u images: itself %u, loader %u, libc %u", l->image,
                  (unsigned long long) l->pid, l->loads, l->load_program, l->load_loader,
                  l->load_libc);
}

static void summary_without_loss(const char *file)
{
    struct test_output o;
    struct json_object *s;

    test_etwctl_ok(&o, "summary", "--json", file);
    s = test_json(o.out);
    ck_assert_uint_eq(test_json_u64(s, "events_lost"), 0);
    ck_assert_uint_eq(test_json_u64(s, "buffers_lost"), 0);
    ck_assert(test_json_bool(s, "complete"));
    json_object_put(s);
    test_output_done(&o);
}

START_TEST(two_hundred_programs)
{
    struct test_daemon *d;
    struct test_output o;
    struct trace t;
    const struct life *shell;
    unsigned trues = 0, seqs = 0, forks = 0, followed = 0;
    char *file = test_path("t.etl");
    char marker[64], script[256];

    test_need_root();
    d = test_daemon_start();
    snprintf(marker, sizeof(marker), "marker-%d", (int) getpid());
    snprintf(script, sizeof(script), "for i in $(seq %d); do /bin/true; done #%s", N, marker);
    test_etwctl_ok(&o, "record", "--kernel", "--flags", FLAGS, "-o", file, "--", "sh", "-c",
                   script);
    test_output_done(&o);
    summary_without_loss(file);
    read_trace(file, &t);

    shell = main_shell(&t, marker);
    check_whole(shell);
    check_images(shell);
    ck_assert_int_eq(shell->status, 0);
    for (size_t i = 0; i < t.n; i++) {
        const struct life *l = &t.lives[i];

        if (l->parent != shell->pid || l->pid == shell->pid)
            continue;
        check_whole(l);
        ck_assert_int_eq(l->status, 0);
        if (strcmp(l->image, "true") == 0) {
            trues++;
            ck_assert_str_eq(l->command, "/bin/true");
            check_images(l);
        } else if (strcmp(l->image, "seq") == 0) {
            char command[32];

            seqs++;
            snprintf(command, sizeof(command), "seq %d", N);
            ck_assert_str_eq(l->command, command);
            check_images(l);
        } else {
            const struct life *next = next_life(&t, l);

            /* From fork to exec: the parent's program, and its images. */
            ck_assert_str_eq(l->image, "sh");
            ck_assert_ptr_nonnull(strstr(l->command, marker));
            check_images(l);
            forks++;
            ck_assert_msg(next, "sh %llu ends without exec", (unsigned long long) l->pid);
            ck_assert_uint_eq(next->parent, shell->pid);
            ck_assert_uint_eq(next->start, l->end);
            ck_assert_uint_lt(l->end_line, next->start_line);
            ck_assert_str_ne(next->key, l->key);
            followed += strcmp(next->image, "true") == 0;
        }
        ck_assert_uint_ge(l->start, shell->start);
        ck_assert_uint_le(l->end, shell->end);
    }
    ck_assert_uint_eq(trues, N);
    ck_assert_uint_eq(seqs, 1);
    ck_assert_uint_eq(forks, N + 1);
    ck_assert_uint_eq(followed, N);
    /* Each of them, and the shell itself. */
    ck_assert_uint_ge(t.execs, N + 2);
    free(t.lives);
    free(file);
    test_daemon_stop(d);
    test_daemon_free(d);
}
END_TEST

START_TEST(exit_status)
{
    static const struct {
        const char *script;
        int status; /* of record and of the shell's End alike */
    } cases[] = {
        {"exit 0", 0},
        {"exit 7", 7},
        {"exit 255", 255},
        {"kill -9 $$", 128 + 9},
        {"kill -TERM $$", 128 + 15},
    };
    struct test_daemon *d;
    char *file = test_path("t.etl");

    test_need_root();
    d = test_daemon_start();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct test_output o;
        struct trace t;
        const struct life *shell;
        char marker[64], script[256];

        snprintf(marker, sizeof(marker), "status-%zu-%d", i, (int) getpid());
        snprintf(script, sizeof(script), ": %s; %s", marker, cases[i].script);
        test_etwctl(&o, "record", "--kernel", "--flags", "process,thread,image", "-o", file, "--",
                    "sh", "-c", script);
        ck_assert_msg(o.status == cases[i].status, "record of '%s': %d %s", cases[i].script,
                      o.status, o.err);
        test_output_done(&o);
        read_trace(file, &t);
        shell = main_shell(&t, marker);
        check_whole(shell);
        ck_assert_int_eq(shell->status, cases[i].status);
        free(t.lives);
    }
    free(file);
    test_daemon_stop(d);
    test_daemon_free(d);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("record-processes");
    TCase *tc = tcase_create("record-processes");

    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, two_hundred_programs);
    tcase_add_test(tc, exit_status);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return test_main(suite());
}
