/* SPDX-License-Identifier: Apache-2.0
 *
 * The memfds of providers: what a process may do with what it was given, and above all what not.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "shm-fixture.h"

#define RING 16384u

static struct shm_fixture f;

static int reopen(int fd, int flags)
{
    char path[64];
    int r;

    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    r = open(path, flags | O_CLOEXEC);
    return r < 0 ? -errno : r;
}

static blkcnt_t blocks(int fd)
{
    struct stat st;

    ck_assert_int_eq(fstat(fd, &st), 0);
    return st.st_blocks;
}

START_TEST(before_the_seal)
{
    struct stat st;
    int fd = -1;
    int client;

    ck_assert_int_eq(shm_arena_create(5000, &fd), -EINVAL);
    ck_assert_int_eq(shm_arena_create(2048, &fd), -EINVAL);
    ck_assert_int_eq(shm_arena_create(SHM_RING_SIZE_MAX * 2, &fd), -EINVAL);
    ck_assert_int_eq(fd, -1);
    ck_assert_int_eq(shm_arena_create(RING, &fd), 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
    ck_assert_int_eq(st.st_size, (off_t) shm_arena_size(RING));
    ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, 0), -1);
    ck_assert_int_eq(ftruncate(fd, 1 << 30), -1);
    /* Not sealed yet: not to be read. */
    const struct shm_arena *read = NULL;
    ck_assert_int_eq(shm_arena_map_read(fd, RING, &read), -EPROTO);
    ck_assert_ptr_null(read);
    /* A process takes nothing else for an arena. */
    struct shm_arena *arena = NULL;
    ck_assert_int_eq(shm_arena_map(fd, 2 * RING, &arena), -EPROTO);
    ck_assert_int_eq(shm_arena_map(STDERR_FILENO, RING, &arena), -EPROTO);
    ck_assert_int_eq(shm_arena_map(-1, RING, &arena), -EBADF);
    close(fd);
    ck_assert_int_eq(shm_control_create(&fd, &client), 0);
    ck_assert_int_eq(shm_arena_map(fd, RING, &arena), -EPROTO);
    const void *control = NULL;
    ck_assert_int_eq(shm_control_map(STDERR_FILENO, &control), -EPROTO);
    ck_assert_ptr_null(control);
    ck_assert_ptr_null(arena);
    close(fd);
    close(client);
}
END_TEST

START_TEST(after_the_seal)
{
    uint8_t *ring;
    void *p;

    shm_fixture_open(&f, RING);
    ring = (uint8_t *) f.arena + SHM_ARENA_HEADER;
    ck_assert_int_eq(
        fallocate(f.arena_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, SHM_ARENA_HEADER, 4096),
        -1);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_eq(madvise(ring, 4096, MADV_REMOVE), -1);
    ck_assert_int_eq(ftruncate(f.arena_fd, 4096), -1);
    ck_assert_int_eq(ftruncate(f.arena_fd, 1 << 30), -1);
    ck_assert_int_eq(pwrite(f.arena_fd, "x", 1, 0), -1);
    ck_assert_int_eq(fcntl(f.arena_fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f.arena_fd, 0);
    ck_assert_ptr_eq(p, MAP_FAILED);
    struct shm_arena *again = NULL;
    ck_assert_int_lt(shm_arena_map(f.arena_fd, RING, &again), 0);
    /* What etwd has can never be made writable. */
    ck_assert_int_eq(mprotect((void *) (uintptr_t) f.read, 4096, PROT_READ | PROT_WRITE), -1);
    /* The mapping made before goes on. */
    ring[5] = 77;
    ck_assert_uint_eq(((const uint8_t *) f.read)[SHM_ARENA_HEADER + 5], 77);
    /* A second seal, and rings that there are not. */
    ck_assert_int_eq(shm_arena_seal(f.arena_fd, RING), -EPROTO);
    ck_assert_int_eq(shm_arena_give_ring(f.arena_fd, RING, SHM_RINGS_PER_ARENA), -EINVAL);
    shm_fixture_close(&f);
}
END_TEST

START_TEST(memory)
{
    shm_fixture_open(&f, RING);
    ck_assert_int_eq(blocks(f.arena_fd), (SHM_ARENA_HEADER + RING) / 512);
    for (uint32_t i = 1; i < SHM_RINGS_PER_ARENA; i++) {
        ck_assert_int_eq(shm_arena_give_ring(f.arena_fd, RING, i), 0);
        ck_assert_int_eq(blocks(f.arena_fd), (SHM_ARENA_HEADER + (i + 1) * RING) / 512);
    }
    /* The control area: words, a page of tails; then what is used. */
    ck_assert_int_eq(blocks(f.control_fd), 2 * 4096 / 512);
    ck_assert_int_eq(shm_control_add_registration(f.area, 63), 0);
    ck_assert_int_eq(shm_control_add_registration(f.area, 0), 0);
    ck_assert_int_eq(blocks(f.control_fd), 3 * 4096 / 512);
    ck_assert_int_eq(shm_control_add_registration(f.area, SHM_REGISTRATIONS_MAX), -EINVAL);
    ck_assert_int_eq(shm_control_add_ring(f.area, SHM_RINGS_MAX), -EINVAL);
    ck_assert_int_eq(shm_control_add_ring(f.area, SHM_RINGS_MAX - 1), 0);
    ck_assert_int_eq(blocks(f.control_fd), 4 * 4096 / 512);
    uint32_t generation;
    ck_assert_int_eq(shm_control_publish(f.area, 64, NULL, 0, &generation), 0);
    ck_assert_int_eq(blocks(f.control_fd), 5 * 4096 / 512);
    /* A later etwd reads no holes into being. */
    struct shm_control *c;
    ck_assert_int_eq(shm_control_load(f.control_fd, f.base, &c), 0);
    ck_assert_int_eq(blocks(f.control_fd), 5 * 4096 / 512);
    shm_control_free(c);
    shm_fixture_close(&f);
}
END_TEST

/* Holes that were punched before the seal are filled by it, and seals of the process's own make are
 * noticed. */
START_TEST(tampered)
{
    static const int seals[] = {F_SEAL_SEAL, F_SEAL_WRITE, F_SEAL_FUTURE_WRITE};
    struct shm_arena *arena = NULL;
    int fd;

    for (size_t i = 0; i < ARRAY_SIZE(seals); i++) {
        ck_assert_int_eq(shm_arena_create(RING, &fd), 0);
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals[i]), 0);
        /* FUTURE_WRITE alone is what etwd adds itself. */
        ck_assert_int_eq(shm_arena_seal(fd, RING), seals[i] == F_SEAL_FUTURE_WRITE ? 0 : -EPROTO);
        close(fd);
    }
    ck_assert_int_eq(shm_arena_create(RING, &fd), 0);
    ck_assert_int_eq(shm_arena_map(fd, RING, &arena), 0);
    memset(arena, 1, shm_arena_size(RING));
    ck_assert_int_eq(madvise(arena, shm_arena_size(RING), MADV_REMOVE), 0);
    ck_assert_int_eq(blocks(fd), 0);
    ck_assert_int_eq(shm_arena_seal(fd, RING), 0);
    ck_assert_int_eq(blocks(fd), SHM_ARENA_HEADER / 512);
    ck_assert_int_eq(shm_arena_give_ring(fd, RING, 0), 0);
    ck_assert_int_eq(blocks(fd), (SHM_ARENA_HEADER + RING) / 512);
    shm_arena_unmap(arena, RING);
    close(fd);
    ck_assert_int_eq(shm_control_create(&fd, &(int){-1}), 0);
    ck_assert_int_eq(shm_arena_seal(fd, RING), -EPROTO);
    close(fd);
}
END_TEST

/* The control area in the hands of another uid. */
START_TEST(control_area)
{
    pid_t pid;
    int status;
    void *p;

    shm_fixture_open(&f, RING);
    ck_assert_int_eq(fcntl(f.client_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    ck_assert_int_eq(fcntl(f.client_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f.client_fd, 0);
    ck_assert_ptr_eq(p, MAP_FAILED);
    ck_assert_int_eq(mprotect((void *) (uintptr_t) f.control, 4096, PROT_READ | PROT_WRITE), -1);
    ck_assert_int_eq(madvise((void *) (uintptr_t) f.control, 4096, MADV_REMOVE), -1);
    ck_assert_int_eq(ftruncate(f.client_fd, 0), -1);
    ck_assert_int_eq(ftruncate(f.control_fd, 0), -1);
    /* A later etwd maps it again. */
    ck_assert_int_eq(shm_control_map_write(f.control_fd, &p), 0);
    shm_control_unmap(p);
    shm_control_process(f.base)->ring_size = 5;
    ck_assert_uint_eq(shm_control_process(f.control)->ring_size, 5);
    if (geteuid() != 0) {
        shm_fixture_close(&f);
        test_skip("another uid needs root");
    }
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int bad = 0;
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(99);
        bad |= reopen(f.client_fd, O_RDWR) != -EACCES ? 1 : 0;
        bad |= reopen(f.client_fd, O_RDONLY) != -EACCES ? 2 : 0;
        bad |= fchmod(f.client_fd, 0666) == 0 ? 4 : 0;
        bad |= fcntl(f.client_fd, F_ADD_SEALS, F_SEAL_WRITE) == 0 ? 8 : 0;
        /* Inherited: enable words are read in a child. */
        bad |= shm_control_process(f.control)->ring_size != 5 ? 16 : 0;
        _exit(bad);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    shm_fixture_close(&f);
}
END_TEST

START_TEST(not_inherited)
{
    pid_t pid;
    int status;

    shm_fixture_open(&f, RING);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        /* Nothing is mapped there. */
        unsigned char v;
        _exit(mincore(f.arena, 4096, &v) == -1 && errno == ENOMEM ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    shm_fixture_close(&f);
}
END_TEST

START_TEST(identity)
{
    struct shm_identity id = {0};
    int pair[2];
    int fd;
    int same;

    ck_assert_int_eq(shm_identity_get(-1, &id), -EBADF);
    ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
    ck_assert_int_eq(shm_identity_get(pair[0], &id), 0);
    same = dup(pair[1]);
    ck_assert(shm_identity_is(pair[0], &id));
    ck_assert(shm_identity_is(same, &id));
    ck_assert(!shm_identity_is(-1, &id));
    close(pair[0]);
    ck_assert(!shm_identity_is(pair[0], &id));
    /* The number names something else. */
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(fd, pair[0]);
    ck_assert(!shm_identity_is(fd, &id));
    close(fd);
    close(same);
    close(pair[1]);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("arena");
    TCase *t = tcase_create("arena");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, before_the_seal);
    tcase_add_test(t, after_the_seal);
    tcase_add_test(t, memory);
    tcase_add_test(t, tampered);
    tcase_add_test(t, control_area);
    tcase_add_test(t, not_inherited);
    tcase_add_test(t, identity);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
