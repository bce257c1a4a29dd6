/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel programs: which ones the union of group masks needs, loading, attaching and letting go
 * of them. A program nobody needs is not in the kernel. Raises and restores the capabilities that
 * this needs. Worker thread, one job at a time; only programs_available(), programs_need() and
 * programs_count() elsewhere.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct programs;
struct probe_rings;
struct walk;

int programs_new(struct programs **ret);
struct programs *programs_free(struct programs *p);

/* Whether kernel events can be had at all, or why not (static text). Any thread. */
bool programs_available(const char **ret_why);

/* probe_rings_new() with the capabilities for it. */
int programs_rings(unsigned cpus, uint64_t bytes, struct probe_rings **ret);

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
/* Attached programs. */
unsigned programs_count(const struct programs *p);
