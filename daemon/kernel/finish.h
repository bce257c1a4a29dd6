/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of raw records: the router hands them over in stamp order, and here they change the
 * process table and turn into events, by the rules of etw-kernel-events(7). Loop thread only.
 */
#pragma once

#include "kernel/events.h"
#include "router/router.h"

struct finish;

int finish_new(struct process_table *table, struct events *events, struct finish **ret);
struct finish *finish_free(struct finish *f);

/* The router's callbacks; userdata is the object. */
void finish_raw(void *userdata, const struct etl_record *rec, uint64_t stamp);
void finish_touch(void *userdata, enum etl_row row, void *event, uint64_t stamp, uint16_t cpu);

/* Whether the table follows processes, and images: from a walk on, while the programs are attached.
 * Ending it forgets what is known. */
void finish_follow(struct finish *f, bool processes, bool images);
/* Nobody traces: gives memory back. */
void finish_rest(struct finish *f);
bool finish_follows(const struct finish *f, bool *ret_images);

/* What a predecessor followed, and whether it had lost records; its table is here already. */
void finish_restore(struct finish *f, bool processes, bool images, bool lossy);

/* `n` records of a kind, or of a row, found their ring full: every session counts the events that
 * it would have got of them. index: of struct lost_counters. */
void finish_count_lost(struct finish *f, unsigned index, uint64_t n);
/* Whether records that change the table have been lost since this was last asked; and without
 * asking. */
bool finish_lost(struct finish *f);
bool finish_is_lossy(const struct finish *f);

/* A command line: the arguments, separated by NUL, joined by blanks; `cut`: they went on. NULL: no
 * memory. */
struct text *finish_command_text(const char *args, size_t size, bool cut);

/* What ExitStatus says: 0x103 while it runs; the exit code; 128 + the signal that killed it. */
int32_t finish_exit_status(int32_t wait_status);
#define EXIT_STATUS_RUNNING 0x103
