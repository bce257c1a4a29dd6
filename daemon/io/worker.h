/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread for calls that may sleep. Jobs run in the order given; `done` runs on the loop thread.
 * A job owns nothing of the loop's state: what it needs travels in its userdata.
 */
#pragma once

#include "loop.h"

struct worker;

int worker_new(struct loop *l, const char *thread_name, struct worker **ret);
/* Waits for the running job; jobs not begun are dropped, their done is not called. */
struct worker *worker_free(struct worker *w);
/* No job waits, runs, or waits for its done. */
bool worker_idle(struct worker *w);
/* Runs the done of finished jobs without the loop; true: idle. */
bool worker_settle(struct worker *w);
/* Closes it there: the last close of what a client has handed over may take any time. */
void worker_close(struct worker *w, int fd);
int worker_submit(struct worker *w, void (*run)(void *userdata), void (*done)(void *userdata),
                  void *userdata);
