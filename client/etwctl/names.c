/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes and threads of a trace; see names.h. One thread.
 */
#include "names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Linux has no more ids (PID_MAX_LIMIT); a file that names more is not asked for them. */
#define IDS_MAX (4u * 1024 * 1024)
#define NAME_MAX_BYTES 255

/* Open addressing; `used` tells an entry from an empty place, since 0 is an id. */
struct entry {
    uint32_t id;
    bool used;
    uint32_t pid; /* of a thread */
    char *name;   /* of a process */
};
struct map {
    struct entry *entries;
    size_t room; /* a power of two */
    size_t n;
};

struct names {
    struct map processes;
    struct map threads;
    bool is_linux;
};

static size_t slot_of(const struct map *m, uint32_t id)
{
    return (size_t) (id * 0x9E3779B1u) & (m->room - 1);
}

static struct entry *map_find(const struct map *m, uint32_t id)
{
    if (m->room == 0)
        return NULL;
    for (size_t i = slot_of(m, id);; i = (i + 1) & (m->room - 1)) {
        struct entry *e = &m->entries[i];
        if (!e->used)
            return NULL;
        if (e->id == id)
            return e;
    }
}

static int map_grow(struct map *m)
{
    struct map bigger = {.room = m->room ? m->room * 2 : 1024};

    bigger.entries = calloc(bigger.room, sizeof(*bigger.entries));
    if (!bigger.entries)
        return -ENOMEM;
    for (size_t i = 0; i < m->room; i++) {
        if (!m->entries[i].used)
            continue;
        size_t at = slot_of(&bigger, m->entries[i].id);
        while (bigger.entries[at].used)
            at = (at + 1) & (bigger.room - 1);
        bigger.entries[at] = m->entries[i];
    }
    bigger.n = m->n;
    free(m->entries);
    *m = bigger;
    return 0;
}

/* The id's entry, made if need be; NULL: no memory or too many ids. */
static struct entry *map_get(struct map *m, uint32_t id)
{
    struct entry *e = map_find(m, id);

    if (e)
        return e;
    if (m->n >= IDS_MAX)
        return NULL;
    if (m->n * 2 >= m->room && map_grow(m) < 0)
        return NULL;
    size_t at = slot_of(m, id);
    while (m->entries[at].used)
        at = (at + 1) & (m->room - 1);
    m->entries[at] = (struct entry){.id = id, .used = true};
    m->n++;
    return &m->entries[at];
}

struct names *names_new(void)
{
    struct names *n = calloc(1, sizeof(*n));

    if (!n)
        return NULL;
    /* the idle threads of all processors */
    names_process(n, 0, "Idle", 4);
    names_thread(n, 0, 0);
    return n;
}

struct names *names_free(struct names *n)
{
    if (!n)
        return NULL;
    for (size_t i = 0; i < n->processes.room; i++)
        free(n->processes.entries[i].name);
    free(n->processes.entries);
    free(n->threads.entries);
    free(n);
    return NULL;
}

void names_process(struct names *n, uint32_t pid, const char *name, size_t len)
{
    struct entry *e = map_get(&n->processes, pid);

    if (!e)
        return;
    if (len > NAME_MAX_BYTES)
        len = NAME_MAX_BYTES;
    if (e->name && strlen(e->name) == len && !memcmp(e->name, name, len))
        return;
    char *copy = strndup(name, len);
    if (!copy)
        return;
    free(e->name);
    e->name = copy;
}

void names_thread(struct names *n, uint32_t tid, uint32_t pid)
{
    struct entry *e = map_get(&n->threads, tid);

    if (e)
        e->pid = pid;
}

void names_set_linux(struct names *n)
{
    n->is_linux = true;
}

const char *names_of(const struct names *n, uint32_t pid)
{
    const struct entry *e = map_find(&n->processes, pid);

    return e ? e->name : NULL;
}

bool names_pid_of(const struct names *n, uint32_t tid, uint32_t *ret_pid)
{
    const struct entry *e = map_find(&n->threads, tid);

    if (e) {
        *ret_pid = e->pid;
        return true;
    }
    if (n->is_linux && map_find(&n->processes, tid)) {
        *ret_pid = tid;
        return true;
    }
    return false;
}

const char *wait_reason_name(int reason)
{
    static const char *const names[] = {
        [0] = "Executive",        [1] = "FreePage",          [2] = "PageIn",
        [3] = "PoolAllocation",   [4] = "DelayExecution",    [5] = "Suspended",
        [6] = "UserRequest",      [7] = "WrExecutive",       [8] = "WrFreePage",
        [9] = "WrPageIn",         [10] = "WrPoolAllocation", [11] = "WrDelayExecution",
        [12] = "WrSuspended",     [13] = "WrUserRequest",    [14] = "WrEventPair",
        [15] = "WrQueue",         [16] = "WrLpcReceive",     [17] = "WrLpcReply",
        [18] = "WrVirtualMemory", [19] = "WrPageOut",        [20] = "WrRendezvous",
        [22] = "WrTerminated",    [30] = "WrQuantumEnd",     [31] = "WrDispatchInt",
        [32] = "WrPreempted",     [33] = "WrYieldExecution", [34] = "WrFastMutex",
        [35] = "WrGuardedMutex",  [36] = "WrRundown",
    };

    return reason >= 0 && (size_t) reason < ARRAY_SIZE(names) ? names[reason] : NULL;
}

const char *thread_state_name(int state)
{
    static const char *const names[] = {
        "Initialized", "Ready",   "Running",    "Standby",
        "Terminated",  "Waiting", "Transition", "DeferredReady",
    };

    return state >= 0 && (size_t) state < ARRAY_SIZE(names) ? names[state] : NULL;
}

const char *adjust_reason_name(int reason)
{
    static const char *const names[] = {"None", "Unwait", "Boost"};

    return reason >= 0 && (size_t) reason < ARRAY_SIZE(names) ? names[reason] : NULL;
}
