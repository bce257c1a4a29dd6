/* SPDX-License-Identifier: Apache-2.0
 *
 * What /proc tells everybody about a process: its start, session, namespaces, program, threads. The
 * peer is known by its pidfd; a process that ended meanwhile is -ESRCH. No state but that of
 * thread_ids. Loop thread only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A process for ever: numbers are given again, not at the same tick. */
struct process_ref {
    int32_t pid;
    uint32_t reserved;
    uint64_t start_ticks;
};

struct process_identity {
    uint64_t start_ticks; /* since boot, USER_HZ */
    uint32_t session;     /* the kernel's session id */
    int64_t clock_offset; /* its CLOCK_BOOTTIME minus ours */
    bool same_time;       /* its time namespace is ours */
    bool foreign_pids;    /* its pid namespace is another */
};

/* pidfd -1: nobody vouches that pid still is the process. */
int process_identify(pid_t pid, int pidfd, struct process_identity *ret);
/* The process that a pidfd refers to, as we see it. -EBADF: it is no pidfd; -ESRCH: it ended, or
 * cannot be seen from here. */
int pidfd_identify(int pidfd, struct process_ref *ret);
/* Whether a pidfd's process still runs. */
bool pidfd_alive(int pidfd);
/* The path of its program, or as much of its name as everybody may see. */
int process_executable(pid_t pid, char **ret);

/* Thread ids of a process of another pid namespace. */
struct thread_ids;
int thread_ids_new(pid_t pid, struct thread_ids **ret);
struct thread_ids *thread_ids_free(struct thread_ids *t);
/* Ours for theirs; 0: there is no such thread. */
uint32_t thread_ids_find(struct thread_ids *t, uint32_t theirs);
