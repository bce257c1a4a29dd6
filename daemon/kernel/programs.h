/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel programs: which ones the union of group masks needs, loading, attaching and letting go
 * of them. A program nobody needs is not in the kernel. Raises and restores the capabilities that
 * this needs. Worker thread, one job at a time; only programs_available(), programs_need() and
 * programs_count() elsewhere, and at the start, before there are jobs, programs_adopt() and the
 * like.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct programs;
struct probe_rings;
struct ring_image;
struct walk;

int programs_new(struct programs **ret);
struct programs *programs_free(struct programs *p);

/* Whether kernel events can be had at all, or why not (static text). Any thread. */
bool programs_available(const char **ret_why);

/* probe_rings_new() with the capabilities for it. */
int programs_rings(unsigned cpus, uint64_t bytes, struct probe_rings **ret);

/* probe_rings_adopt() with the capabilities for it. */
int programs_adopt_rings(unsigned cpus, uint64_t bytes, const int *fds,
                         const struct ring_image *const *images, struct probe_rings **ret);

/* What the masks need. */
struct program_needs {
    bool processes; /* births, execs, deaths */
    bool images;
    bool switches;
    bool ready;
};
struct program_needs programs_need(const uint32_t masks[8]);
static inline bool programs_any(struct program_needs n)
{
    return n.processes || n.images || n.switches || n.ready;
}
/* Attaches what is missing; nothing is let go. On failure what this call attached is gone again. */
int programs_attach(struct programs *p, const struct probe_rings *rings,
                    struct program_needs needs);
/* Lets go of what is not needed. */
void programs_keep(struct programs *p, struct program_needs needs);
/* Walks executable mappings, tasks, or both. */
int programs_walk(struct programs *p, bool images, bool tasks, struct walk **ret);
/* Their descriptors, for whoever keeps them: n below PROGRAMS_MAX; -1: that one is not attached.
 * While no job of the worker runs. */
#define PROGRAMS_MAX 15
int programs_fd(const struct programs *p, unsigned n);
/* One that a predecessor of the same hash attached; taken over on success. -EBADMSG: it is none. */
int programs_adopt(struct programs *p, unsigned n, int fd);
/* All are adopted: what is not whole goes. False: of what is needed something is missing. */
bool programs_adopted(struct programs *p, struct program_needs needs);
/* What tells one build's programs from another's. */
uint64_t programs_hash(void);
/* Attached programs. */
unsigned programs_count(const struct programs *p);
