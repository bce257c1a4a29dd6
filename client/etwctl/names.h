/* SPDX-License-Identifier: Apache-2.0
 *
 * What the events of one trace tell about processes and threads, as of the event reached: names by
 * process id, processes by thread id. Fed with events in time order. Also the words for numbers
 * that kernel events carry. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct names;

struct names *names_new(void);
struct names *names_free(struct names *n);

/* A process began or was found under this name (kept up to 255 bytes); it keeps it after its end,
 * until the id is used again. */
void names_process(struct names *n, uint32_t pid, const char *name, size_t len);
void names_thread(struct names *n, uint32_t tid, uint32_t pid);
/* The trace is one of Linux: a process's first thread has its id. */
void names_set_linux(struct names *n);

/* NULL: unknown. Valid until the next names_process(). */
const char *names_of(const struct names *n, uint32_t pid);
bool names_pid_of(const struct names *n, uint32_t tid, uint32_t *ret_pid);

/* Words for CSwitch and ReadyThread fields; NULL: none known. */
const char *wait_reason_name(int reason);
const char *thread_state_name(int state);
const char *adjust_reason_name(int reason);
