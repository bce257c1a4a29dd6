/* SPDX-License-Identifier: Apache-2.0
 *
 * Providers from inside: shared by process.c, registrations.c, enables.c, tables.c, list.c, keep.c.
 * Loop thread only.
 *
 * One `provider` a GUID that somebody registered or enabled; a `line` a registration's index in a
 * process (it outlives the registration: its tables wait until no record of them is left); an
 * `enable` a session's wish for a GUID.
 *
 * What a successor needs lies in blocks of the state (keep.c); a change of it is a transaction, and
 * what the process sees of it (its table) is published once the transaction is through.
 */
#pragma once

#include "identify.h"
#include "providers.h"
#include "rings.h"
#include "state/state.h"
#include "tables.h"

struct enable;
struct line;
struct provider;
struct enable_op;

#define ARENAS_MAX (SHM_RINGS_MAX / SHM_RINGS_PER_ARENA)

/* A session as the state names it. */
struct session_ref {
    struct session *session; /* NULL: it ended */
    uint64_t handle;
};

/* ---- what lies in the state ---- */

struct process_image {
    int32_t pid;
    uint32_t uid;
    uint32_t gid;
    uint32_t session_id;
    uint64_t start_ticks;
    int64_t clock_offset;
    uint32_t ring_size;
    uint32_t rings; /* that have memory */
    uint16_t n_arenas;
    uint16_t n_mapped;
    uint8_t fences;
    uint8_t threadless;
    uint8_t foreign_pids; /* of another pid namespace: thread ids are to be translated */
    uint8_t same_time;    /* in etwd's time namespace */
    uint8_t control;      /* there is a control area */
    uint8_t reserved[7];
};
_Static_assert(sizeof(struct process_image) == 56, "part of the format");

#define PROVIDER_NAME_MAX 256u

enum slot_use { SLOT_FREE, SLOT_USED, SLOT_DRAINING };

struct slot_image {
    uint64_t session; /* handle */
    uint64_t enable;  /* its number; 0: none */
    uint32_t gone;    /* draining: the first generation without it */
    uint16_t counter;
    uint8_t use;
    uint8_t reserved;
};
_Static_assert(sizeof(struct slot_image) == 24, "part of the format");

struct line_image {
    struct etw_guid guid;
    uint8_t registered;
    uint8_t tell;    /* a change that the process was perhaps not told of */
    uint8_t capture; /* a capture state, likewise */
    uint8_t reserved[5];
    struct slot_image slots[SHM_SLOTS_MAX];
    char name[PROVIDER_NAME_MAX]; /* from the traits */
};

struct table_image {
    struct etw_guid guid;
    uint32_t generation;
    uint32_t used;
    struct {
        uint64_t session;
        uint32_t properties;
        uint32_t reserved;
    } slots[SHM_SLOTS_MAX];
};

/* Filters follow: sorted ids, pids, schematized data, names. */
struct enable_image {
    uint64_t number;
    uint64_t session;
    struct etw_guid guid;
    struct etw_guid source;
    uint64_t any, all;
    uint32_t properties;
    uint32_t owner;
    uint8_t level;
    uint8_t all_uids;
    uint8_t filter_ids; /* there is such a filter */
    uint8_t filter_in;
    uint8_t filter_pids;
    uint8_t reserved[3];
    uint32_t n_ids, n_pids, schema_size, names_size;
};

/* ---- in memory ---- */

struct table_node {
    struct table table;
    struct table_image *image;
    struct table_node *older;
};

struct line_slot {
    struct enable *enable; /* SLOT_USED */
    bool fresh;            /* not in any table that was published */
};

/* What the process is still to be told of a registration: it has no arena yet, or does not read. */
struct deferred {
    bool change, capture;
    uint64_t change_cookie, capture_cookie;
    uint64_t change_enable, capture_enable; /* numbers, for source and filter */
};

struct line {
    struct provider_process *process;
    uint16_t index;
    struct provider *provider; /* NULL: not registered now */
    struct line *next_of_provider;
    struct line_image *image;
    struct line_slot slots[SHM_SLOTS_MAX];
    struct table_node *tables; /* newest first */
    unsigned n_tables;
    bool dirty;     /* the newest table is to be published */
    bool waits;     /* a publication failed, or a slot was missing: look again */
    bool concerned; /* by the call under way */
    struct line *next_dirty;
    struct deferred deferred;
};

struct counter {
    struct session_ref of;
    uint32_t refs;
};

struct arena {
    int fd;
    bool mapped;
};

/* A callback that somebody waits for. */
struct wait {
    struct wait *next;
    uint64_t cookie;
    uint16_t index;
    struct enable_op *op; /* NULL: nobody waits any more */
};

struct user {
    struct user *next;
    uid_t uid;
    unsigned refs;
    unsigned long registrations;
    uint64_t memory;
};

struct provider_process {
    struct providers *providers;
    struct provider_process *next;
    uint64_t number;
    const struct provider_peer_ops *ops;
    void *peer; /* NULL with ops NULL: gone, or not back yet */
    int pidfd;
    struct user *user;
    struct process_image *image;
    struct process_facts facts;
    char *exe; /* path or name of the executable, read when a filter asks for it */
    struct thread_ids *thread_ids;

    int control_fd;
    void *control_base;
    struct shm_control *control;
    struct ring_set *rings;
    struct arena arenas[ARENAS_MAX];
    uint64_t memory; /* counted at the user */
    bool ready;      /* arena 0 is mapped: tables may be opened */
    bool growing;    /* a look at the rings is due */
    bool short_of_memory;
    bool dying;
    bool misbehaved;

    struct line **lines; /* by index; NULL where there never was one */
    uint32_t n_lines;
    unsigned n_registered;
    struct counter *counters;
    uint32_t n_counters;
    struct wait *waits;
    bool has_deferred;
    uint64_t calls_since; /* MoreRings that were heeded in this second */
    unsigned calls;
};

struct enable {
    struct provider *provider;
    struct enable *next;
    struct enable *next_all;
    uint64_t number;
    struct session_ref of;
    struct enable_image *image; /* of any size: the filters are in it */
    const uint16_t *ids;
    const struct process_ref *pids;
    const uint8_t *schema;
    const char *names; /* UTF-8, each with its NUL */
};

struct provider {
    struct provider *next; /* hash chain */
    struct etw_guid guid;
    struct line *lines;
    struct enable *enables;
    unsigned n_enables;
};

#define PROVIDER_BUCKETS 4096u

struct enable_op {
    struct enable_op *next;
    struct providers *providers;
    enable_done_fn done;
    void *userdata;
    uint64_t waiter;
    uint64_t deadline; /* UINT64_MAX: for ever */
    unsigned pending;
};

struct providers {
    struct providers_env env;
    struct rings *rings;
    struct provider_process *first;
    struct user *users;
    struct provider *buckets[PROVIDER_BUCKETS];
    uint8_t hash_key[16];
    uint8_t boot_key[16];
    struct enable *enables; /* all */
    struct line *dirty;
    struct state_hook hook;
    struct loop_timer *timer; /* the next enable_op's deadline */
    struct enable_op *ops;
    uint64_t next_cookie;
    uint64_t next_enable;
    bool tsc_usable;
    bool growing; /* deferred to the loop */
};

/* process.c */
struct user *user_get(struct providers *p, uid_t uid);
struct user *user_put(struct providers *p, struct user *u);
/* A process without connection, image and identity. */
int process_new(struct providers *p, uint64_t number, uid_t uid, struct provider_process **ret);
/* Everything of it; its rings are drained or never were. */
void process_gone(struct provider_process *pp);
/* A name for messages: "pid 12 (uid 3)". */
const char *process_label(const struct provider_process *pp, char buf[64]);
void process_facts_make(struct provider_process *pp);

/* arenas.c */
/* Control area and first arena, offered to the process. 0 also when that is under way. Outside
 * transactions. -EDQUOT: ArenaMemoryMB. */
int process_offer_first(struct provider_process *pp);
/* What was offered and not answered, once more. */
void process_offer_again(struct provider_process *pp);
/* The control area is mapped and so is an arena: the router's part begins. */
int process_rings_begin(struct provider_process *pp);
void process_arenas_free(struct provider_process *pp);
/* It claimed a ring: spare ones are made from the loop. */
void process_grow_later(struct provider_process *pp);

/* registrations.c */
struct line *line_get(struct provider_process *pp, uint32_t index);
/* With a block that is there. */
struct line *line_adopt(struct provider_process *pp, uint16_t index, struct line_image *image);
struct line *line_free(struct line *l);
/* What a callback gets: over all enables that see the process. */
void line_composite(const struct line *l, struct provider_enabled *ret);
/* Tells the process, now or when it can be told; e: for source and filter, may be NULL. */
void line_tell(struct line *l, bool capture, const struct enable *e, uint64_t cookie);
void process_tell_deferred(struct provider_process *pp);
struct provider *provider_get(struct providers *p, const struct etw_guid *guid, bool make);
/* Frees it when nobody registered or enabled it. */
void provider_settle(struct providers *p, struct provider *pr);
void line_bind(struct line *l, struct provider *pr);
void line_unbind(struct line *l);

/* enables.c */
/* For the rings: some session's flush timer starts with its first event. */
bool enables_wait_for_first(void *userdata);
int providers_timer_new(struct providers *p);
void providers_timer_free(struct providers *p);
bool enable_sees(const struct enable *e, struct provider_process *pp);
struct enable *enable_find(struct providers *p, const struct provider *pr, uint64_t number);
struct enable *enable_free(struct enable *e);
/* Into the lists, with its provider and image. */
void enable_link(struct providers *p, struct enable *e);
/* Sets the pointers into the image; -EBADMSG. */
int enable_bind_image(struct enable *e, size_t size);
/* They count as done: all of the process, of one registration, of one cookie. */
void waits_drop_all(struct provider_process *pp);
void waits_drop_line(struct line *l);
void waits_drop(struct provider_process *pp, uint64_t cookie);
void waits_move(struct provider_process *pp, uint64_t from, uint64_t to);

/* tables.c */
/* Brings the slots of a registration in line with the enables; force: their values changed. In a
 * transaction; the table is published when it is through. -ENOMEM, -ENOSPC: some enable has no slot
 * (-EBUSY: not yet). */
int line_update(struct line *l, bool force);
/* After the outermost commit. Returns the first error. */
int providers_publish(struct providers *p);
/* Commit, and publish when that was the outermost one. */
int providers_commit(struct providers *p);
void line_tables_free(struct line *l);
/* The session is not to get anything any more. */
void line_forget_session(struct line *l, const struct session *s);
void counter_put(struct provider_process *pp, uint16_t counter);
void line_wait_past(struct line *l);
/* The newest table is not in force yet. */
void line_republish(struct line *l);
int counter_bind(struct provider_process *pp, uint16_t counter, const struct session_ref *of);

/* keep.c: the blocks; without a state they are ordinary memory. */
int keep_block_new(struct providers *p, enum state_kind kind, uint64_t key, size_t size,
                   void **ret);
uint64_t keep_line_key(const struct provider_process *pp, uint16_t index);
uint64_t keep_table_key(const struct provider_process *pp, uint16_t index, uint32_t generation);
#define KEEP_SAVE(p, field) state_save((p)->env.state, &(field), sizeof(field))
