/* SPDX-License-Identifier: Apache-2.0
 *
 * The state: blocks, transactions, hooks, what a successor finds; and a crash at every instruction
 * of a transaction, which a child runs under single steps: whatever the successor finds is what was
 * last committed, all of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "state/internal.h"
#include "state/state.h"

static struct state *fresh(void)
{
    struct state *st;
    ck_assert_int_eq(state_new(&st), 0);
    return st;
}

static void *block(struct state *st, enum state_kind kind, uint64_t key, size_t size)
{
    void *p;
    state_begin(st);
    ck_assert_int_eq(state_block_new(st, kind, key, size, &p), 0);
    state_commit(st);
    return p;
}

/* Its own descriptor and mapping, as a successor has. */
static struct state *load(const struct state *st)
{
    struct state *next;
    int fd = fcntl(state_fd(st), F_DUPFD_CLOEXEC, 3);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(state_load(fd, &next), 0);
    return next;
}

START_TEST(blocks)
{
    struct state *st = fresh();
    char *p = block(st, STATE_SESSION, 1, 100), *q = block(st, STATE_SESSION, 2, 5000);
    size_t size;
    void *other;
    ck_assert_uint_eq((uintptr_t) p % 64, 0);
    ck_assert_uint_eq((uintptr_t) q % 64, 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(p[i], 0);
    state_begin(st);
    ck_assert_int_eq(state_block_new(st, STATE_SESSION, 1, 10, &other), -EEXIST);
    state_commit(st);
    ck_assert_ptr_eq(state_block_find(st, STATE_SESSION, 2, &size), q);
    ck_assert_uint_eq(size, 5000);
    ck_assert_ptr_eq(state_block_find(st, STATE_SINK, 2, NULL), NULL);

    uint64_t position = 0, key, keys = 0;
    while (state_block_next(st, STATE_SESSION, &position, &key, &size))
        keys += key;
    ck_assert_uint_eq(keys, 3);

    /* Freed memory is used again, zeroed, but not within the transaction. */
    memset(p, 7, 100);
    state_begin(st);
    state_block_free(st, p);
    ck_assert_ptr_eq(state_block_find(st, STATE_SESSION, 1, NULL), NULL);
    ck_assert_int_eq(state_block_new(st, STATE_SESSION, 1, 100, &other), 0);
    ck_assert_ptr_ne(other, p);
    state_commit(st);
    char *again = block(st, STATE_SINK, 1, 100);
    ck_assert_ptr_eq(again, p);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(again[i], 0);
    state_free(st);
}
END_TEST

START_TEST(many_blocks)
{
    struct state *st = fresh();
    unsigned seed = 3;
    enum { N = 3000 };
    for (uint64_t i = 0; i < N; i++) {
        uint64_t *p = block(st, STATE_RING, i, (size_t) (rand_r(&seed) % 3000) + 8);
        *p = i;
    }
    for (uint64_t i = 0; i < N; i += 3) {
        state_begin(st);
        state_block_free(st, state_block_find(st, STATE_RING, i, NULL));
        state_commit(st);
    }
    struct state *next = load(st);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t *p = state_block_find(next, STATE_RING, i, NULL);
        ck_assert_int_eq(p != NULL, i % 3 != 0);
        if (p)
            ck_assert_uint_eq(*p, i);
    }
    state_free(next);
    state_free(st);
}
END_TEST

/* Without a state blocks are memory. */
START_TEST(no_state)
{
    void *p;
    ck_assert_int_eq(state_block_new(NULL, STATE_RING, 1, 100, &p), 0);
    state_begin(NULL);
    state_save(NULL, p, 100);
    memset(p, 1, 100);
    state_commit(NULL);
    ck_assert(!state_kept(NULL));
    ck_assert_uint_eq(state_epoch(NULL), 0);
    ck_assert_ptr_eq(state_block_find(NULL, STATE_RING, 1, NULL), NULL);
    state_block_free(NULL, p);
}
END_TEST

/* What a transaction that did not end has changed is as before it. */
START_TEST(undone)
{
    struct state *st = fresh();
    uint64_t *p = block(st, STATE_RING, 1, 64), *q = block(st, STATE_RING, 2, 64);
    void *other;
    state_begin(st);
    state_save(st, p, 16);
    p[0] = 1;
    p[1] = 2;
    state_commit(st);

    uint64_t epoch = state_epoch(st);
    state_begin(st);
    state_begin(st); /* the inner one ends nothing */
    state_save(st, p, 8);
    p[0] = 10;
    state_save(st, p, 16);
    p[0] = 11;
    p[1] = 12;
    state_block_free(st, q);
    ck_assert_int_eq(state_block_new(st, STATE_RING, 3, 64, &other), 0);
    ck_assert_int_eq(state_block_new(st, STATE_RING, 2, 6400, &other), 0);
    state_commit(st);

    struct state *next = load(st);
    uint64_t *np = state_block_find(next, STATE_RING, 1, NULL);
    size_t size;
    ck_assert_uint_eq(np[0], 1);
    ck_assert_uint_eq(np[1], 2);
    ck_assert_ptr_nonnull(state_block_find(next, STATE_RING, 2, &size));
    ck_assert_uint_eq(size, 64);
    ck_assert_ptr_null(state_block_find(next, STATE_RING, 3, NULL));
    ck_assert_uint_gt(state_epoch(next), epoch);
    state_free(next);
    state_free(st);
}
END_TEST

/* More than the undo list takes: the transaction goes on, but a successor must not believe it; with
 * its end all is well. */
START_TEST(journal_full)
{
    struct state *st = fresh(), *next;
    size_t size = 4 << 20;
    uint8_t *p = block(st, STATE_RING, 1, size);
    state_begin(st);
    for (int i = 0; i < 20; i++)
        state_save(st, p, size);
    memset(p, 1, size);
    int fd = fcntl(state_fd(st), F_DUPFD_CLOEXEC, 3);
    ck_assert_int_eq(state_load(fd, &next), -EBADMSG);
    state_commit(st);
    ck_assert_int_eq(state_load(fd, &next), 0);
    ck_assert_uint_eq(((uint8_t *) state_block_find(next, STATE_RING, 1, NULL))[size - 1], 1);
    state_free(next);
    state_free(st);
}
END_TEST

struct counted {
    struct state *st;
    uint64_t *block;
    int before, after, more;
    bool committed;
};

static void before(void *userdata)
{
    struct counted *c = userdata;
    c->before++;
    c->committed = false;
    ck_assert(state_active(c->st));
    state_save(c->st, c->block, 8);
    c->block[0]++;
}

static void after(void *userdata)
{
    struct counted *c = userdata;
    c->after++;
    ck_assert(!state_active(c->st));
    if (c->more-- > 0) {
        state_begin(c->st);
        state_commit(c->st);
    }
}

START_TEST(hooks)
{
    struct state *st = fresh();
    struct counted c = {.st = st, .block = block(st, STATE_RING, 1, 8), .more = 2};
    struct state_hook h = {.before_commit = before, .after_commit = after, .userdata = &c};
    state_add_hook(st, &h);
    state_begin(st);
    state_begin(st);
    state_commit(st);
    ck_assert_int_eq(c.before, 0);
    state_commit(st);
    ck_assert_int_eq(c.before, 3);
    ck_assert_int_eq(c.after, 3);
    ck_assert_uint_eq(c.block[0], 3);
    state_remove_hook(st, &h);
    state_begin(st);
    state_commit(st);
    ck_assert_int_eq(c.before, 3);
    state_free(st);
}
END_TEST

/* ---- a crash at every instruction ---- */

enum { WORDS = 8, KEYS = 6 };

/* What all of it is, as a number: blocks, their sizes and contents. Each committed step has its
 * own. */
static uint64_t digest(struct state *st)
{
    uint64_t sum = 0, position = 0, key;
    size_t size;
    const uint64_t *p;
    while ((p = state_block_next(st, STATE_RING, &position, &key, &size))) {
        uint64_t h = key * 1000003 + size;
        for (size_t i = 0; i < size / 8; i++)
            h = (h ^ p[i]) * 0x100000001B3ULL;
        sum += h;
    }
    return sum;
}

/* One transaction of many kinds of change, the n-th. */
static __attribute__((noinline)) void step(struct state *st, uint64_t n)
{
    void *p;
    state_begin(st);
    for (uint64_t k = 0; k < KEYS; k++) {
        uint64_t *words = state_block_find(st, STATE_RING, k, NULL);
        if (!words) {
            if (state_block_new(st, STATE_RING, k, WORDS * 8 << (n % 3), &p) < 0)
                _exit(3);
            words = p;
        } else if ((n + k) % 4 == 0) {
            state_block_free(st, words);
            continue;
        }
        for (unsigned i = 0; i < WORDS; i++) {
            state_save(st, &words[i], 8);
            words[i] = n * 100 + i + k;
        }
        state_save(st, words, 16); /* once more */
        words[0]++;
    }
    state_commit(st);
}

/* What a successor would find if the process died now: a copy, so that the undo is the copy's. */
static int found_now(int fd, uint64_t *ret)
{
    struct state_header h;
    struct state *next;
    static char piece[65536];
    int r = 0;

    int copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(copy, 0);
    ck_assert_int_eq(pread(fd, &h, sizeof(h), 0), sizeof(h));
    struct stat sb;
    ck_assert_int_eq(fstat(fd, &sb), 0);
    ck_assert_int_eq(ftruncate(copy, sb.st_size), 0);
    ck_assert_int_eq(fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    ck_assert_int_eq(pwrite(copy, &h, sizeof(h), 0), sizeof(h));
    const struct {
        off_t from;
        uint64_t size;
    } parts[] = {{STATE_JOURNAL_OFFSET, h.journal_used == STATE_BROKEN ? 0 : h.journal_used},
                 {STATE_HEAP_OFFSET, h.heap_end - STATE_HEAP_OFFSET}};
    for (unsigned i = 0; i < ARRAY_SIZE(parts); i++) {
        ck_assert_uint_le(parts[i].size, sizeof(piece));
        ck_assert_int_eq(pread(fd, piece, parts[i].size, parts[i].from), (ssize_t) parts[i].size);
        ck_assert_int_eq(pwrite(copy, piece, parts[i].size, parts[i].from),
                         (ssize_t) parts[i].size);
    }
    r = state_load(copy, &next);
    if (r < 0) {
        close(copy);
        return r;
    }
    *ret = digest(next);
    state_free(next);
    return 0;
}

START_TEST(crash_at_every_instruction)
{
    enum { STEPS = 7 };
    uint64_t expected[STEPS + 1];
    struct state *st = fresh();
    int status;

    /* The same in another state, for what each step leaves. */
    struct state *plain = fresh();
    expected[0] = digest(plain);
    for (uint64_t n = 1; n <= STEPS; n++) {
        step(plain, n);
        expected[n] = digest(plain);
    }
    state_free(plain);

    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        /* The mapping does not come along: its own, as a successor. */
        struct state *own;
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            _exit(2);
        if (state_load(fcntl(state_fd(st), F_DUPFD_CLOEXEC, 3), &own) < 0)
            _exit(4);
        (void) raise(SIGSTOP);
        for (uint64_t n = 1; n <= STEPS; n++)
            step(own, n);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
        state_free(st);
        test_skip("a child cannot be single-stepped here");
    }
    ck_assert(WIFSTOPPED(status));
    /* Sanitized code has many times the instructions: some of them then. */
    unsigned long steps = 0, looked = 0, reached = 0, every = 1;
    unsigned long whole = getenv("ETW_SANITIZED") ? 1000 : 50000;
    while (true) {
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
            ck_abort_msg("single step: %m");
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status))
            break;
        ck_assert(WIFSTOPPED(status));
        if (++steps % every != 0)
            continue;
        if (steps > whole)
            every = 1 + steps / 1000;
        uint64_t found;
        int r = found_now(state_fd(st), &found);
        ck_assert_msg(r == 0, "after %lu instructions: %s", steps, strerror(-r));
        looked++;
        if (found == expected[reached])
            continue;
        ck_assert_msg(reached < STEPS && found == expected[reached + 1],
                      "after %lu instructions, step %lu: neither the old nor the new", steps,
                      reached);
        reached++;
    }
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_uint_eq(reached, STEPS);
    ck_assert_uint_gt(looked, 1000);
    state_free(st);
}
END_TEST

/* Killed at random while a successor already undoes, again and again. */
START_TEST(killed_at_random)
{
    struct state *st = fresh();
    unsigned seed = 11;
    int rounds = test_scale(60);
    struct shared {
        _Atomic uint64_t begun, done;
        _Atomic bool loaded;
    } *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    for (int i = 0; i < rounds; i++) {
        shared->loaded = false;
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            struct state *own;
            if (state_load(fcntl(state_fd(st), F_DUPFD_CLOEXEC, 3), &own) < 0)
                _exit(4);
            shared->loaded = true;
            for (uint64_t n = shared->done + 1;; n++) {
                shared->begun = n;
                step(own, n);
                shared->done = n;
            }
        }
        /* Now and then while it still undoes. */
        for (int t = 0; i % 4 && !shared->loaded && t < TEST_HANG_LIMIT_S * 10000; t++)
            usleep(100);
        usleep((useconds_t) (rand_r(&seed) % 3000));
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(WIFSIGNALED(status), "the child ended with 0x%x", status);
        uint64_t found;
        ck_assert_int_eq(found_now(state_fd(st), &found), 0);
        /* It is what the last step left, or that which was just ending. */
        uint64_t last = 0, n = 0;
        struct state *next = load(st);
        for (uint64_t k = 0; k < KEYS; k++) {
            const uint64_t *words = state_block_find(next, STATE_RING, k, NULL);
            if (!words)
                continue;
            n = (words[1] - 1 - k) / 100;
            ck_assert_uint_eq(words[0], n * 100 + k + 1);
            for (unsigned w = 1; w < WORDS; w++)
                ck_assert_uint_eq(words[w], n * 100 + w + k);
            ck_assert_msg(last == 0 || n == last, "blocks of two steps");
            last = n;
        }
        ck_assert_msg(last == shared->done || last == shared->begun, "step %llu, not %llu or %llu",
                      (unsigned long long) last, (unsigned long long) shared->done,
                      (unsigned long long) shared->begun);
        shared->done = last;
        state_free(next);
    }
    ck_assert_uint_gt(shared->done, 0);
    munmap(shared, 4096);
    state_free(st);
}
END_TEST

/* Bytes that do not hold together are refused, whatever they are. */
START_TEST(damaged)
{
    struct state *st = fresh(), *next;
    unsigned seed = 5;
    for (uint64_t i = 0; i < 50; i++)
        (void) block(st, STATE_RING, i, 100 + i * 10);
    state_begin(st);
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t *p = state_block_find(st, STATE_RING, i, NULL);
        state_save(st, p, 100);
        p[0] = 1;
    }
    int fd = state_fd(st), refused = 0, rounds = test_scale(3000);
    for (int i = 0; i < rounds; i++) {
        /* A word somewhere in the header, the journal or the blocks. */
        off_t at[] = {rand_r(&seed) % 40, 4096 + rand_r(&seed) % 2500,
                      (off_t) STATE_HEAP_OFFSET + rand_r(&seed) % 20000};
        off_t where = at[rand_r(&seed) % 3];
        uint64_t old, bad = (uint64_t) rand_r(&seed) << (rand_r(&seed) % 34);
        struct state_header h = *st->header;
        static uint8_t heap[65536], journal[4096];
        ck_assert_int_eq(pread(fd, heap, sizeof(heap), STATE_HEAP_OFFSET), sizeof(heap));
        ck_assert_int_eq(pread(fd, journal, sizeof(journal), 4096), sizeof(journal));
        ck_assert_int_eq(pread(fd, &old, 8, where), 8);
        ck_assert_int_eq(pwrite(fd, &bad, 8, where), 8);
        int dup_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (state_load(dup_fd, &next) == 0)
            state_free(next);
        else {
            refused++;
            close(dup_fd);
        }
        ck_assert_int_eq(pwrite(fd, heap, sizeof(heap), STATE_HEAP_OFFSET), sizeof(heap));
        ck_assert_int_eq(pwrite(fd, journal, sizeof(journal), 4096), sizeof(journal));
        ck_assert_int_eq(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
    }
    ck_assert_int_gt(refused, 0);
    state_commit(st);
    state_free(st);
}
END_TEST

START_TEST(not_a_state)
{
    struct state *next;
    int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(state_load(fd, &next), -EBADMSG);
    ck_assert_int_eq(ftruncate(fd, STATE_HEAP_OFFSET), 0);
    /* Who could cut it could kill us. */
    ck_assert_int_eq(state_load(fd, &next), -EBADMSG);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    ck_assert_int_eq(state_load(fd, &next), -EBADMSG);
    close(fd);
    int p[2];
    ck_assert_int_eq(pipe(p), 0);
    ck_assert_int_eq(state_load(p[0], &next), -EBADMSG);
    close(p[0]);
    close(p[1]);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("state");
    TCase *c = tcase_create("state");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, blocks);
    tcase_add_test(c, many_blocks);
    tcase_add_test(c, no_state);
    tcase_add_test(c, undone);
    tcase_add_test(c, journal_full);
    tcase_add_test(c, hooks);
    tcase_add_test(c, crash_at_every_instruction);
    tcase_add_test(c, killed_at_random);
    tcase_add_test(c, damaged);
    tcase_add_test(c, not_a_state);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_main(suite());
}
