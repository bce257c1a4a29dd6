/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the provider share: registrations, the process's state, the connection, rings,
 * callbacks. Nothing here is exported. Which thread may call what stands at each part.
 *
 * Two kinds of memory. The table of registrations and the list of threads are ordinary memory, so a
 * forked child has its parent's. All that belongs to one process alone (connection, locks, who owns
 * which ring) lies in struct process, whose pages the kernel clears in a child (MADV_WIPEONFORK):
 * a child sees epoch 0, knows that it is one, and begins anew (fork.c).
 *
 * Epochs. Rings belong to an epoch, which ends with the connection. A writer marks itself as in
 * progress, then looks whether its ring's epoch is the process's. Whoever ends an epoch (raises the
 * number, then membarrier) knows that writers that are not in progress will not touch the old rings
 * any more.
 *
 * Functions return negative errno, those that check what the program gave return the Win32 code
 * that it gets.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include <evntprov.h>

#include "base/guid.h"
#include "provider.h"
#include "shm/arena.h"
#include "shm/ring.h"
#include "wire/frame.h"

#define ETW_TLS __attribute__((tls_model("initial-exec")))

/* ---- registrations.c ---- */

struct registration {
    _Atomic uint64_t handle; /* 0: none */
    struct etw_guid guid;
    const void *traits; /* the program's */
    PENABLECALLBACK callback;
    void *context;
    uint32_t generation;
    uint16_t traits_size;
    bool types; /* descriptors' Type is set */
};

/* Not wiped; written under the lock, read by writers once `handle` is theirs. */
extern struct registration provider_registrations[SHM_REGISTRATIONS_MAX];
/* Indexes from here on were never used. */
extern _Atomic uint32_t provider_registrations_end;
_Static_assert(sizeof(struct registration) <= 64, "one line a registration");

/* The registration of a handle, NULL when it is not one. Any thread, signal handlers too. */
static inline struct registration *registration_find(REGHANDLE handle, uint32_t *ret_index)
{
    uint32_t index = (uint32_t) handle - 1;
    struct registration *r = &provider_registrations[index % SHM_REGISTRATIONS_MAX];

    if (index >= SHM_REGISTRATIONS_MAX ||
        atomic_load_explicit(&r->handle, memory_order_acquire) != handle)
        return NULL;
    *ret_index = index;
    return r;
}

/* Where the header's test looks: at nothing, at everything (a child that has not noticed), at the
 * control area. Any thread. */
void enable_table_none(void);
void enable_table_all(void);
void enable_table_publish(uint32_t index);

/* ---- the process ---- */

/* How far the daemon knows a registration. */
enum link {
    LINK_NONE,    /* not at all; to be told when there is a handle */
    LINK_SENT,    /* Register, not answered */
    LINK_LIVE,    /* answered */
    LINK_REFUSED, /* answered with `answers` */
    LINK_GOING,   /* Unregister has to be sent */
    LINK_GONE,    /* Unregister, not answered: the index is not free yet */
};

struct job;

struct process {
    /* What each event looks at. */
    _Atomic uint32_t epoch; /* 0: a child that has not noticed */
    bool fences;
    bool threadless;           /* no thread of ours in this process, now or later */
    bool bare;                 /* nor malloc(3) and the like: a child that libc knows nothing of */
    _Atomic int fd;            /* the connection + 1; 0: none */
    _Atomic uint64_t verified; /* when fd was found to be ours, CLOCK_BOOTTIME */
    _Atomic uint64_t more_after; /* the daemon refused rings; ask again from then on */
    _Atomic uint32_t more_asked;
    _Atomic uint32_t changes; /* futex: something below changed */
    _Atomic uint32_t waiters; /* for that */
    _Atomic uint64_t kicked;
    uint8_t pad[SHM_CACHE_LINE];

    /* Under the lock (a futex: 0 free, 1 taken, 2 taken and waited for). */
    _Atomic uint32_t lock;
    bool in_child; /* fork(3) ran our handler in this process: libc is whole here */
    bool attached;
    bool hello;
    bool connecting;              /* the helper is about to know */
    bool dirty;                   /* something could not be sent */
    bool mute;                    /* it was waited for in vain, and nothing came since */
    uint32_t helper;              /* number of the helper that is in charge; 0: none */
    uint32_t callbacks;           /* 1: the callback thread runs */
    struct shm_identity identity; /* of fd */
    bool control;                 /* provider_control is this process's */
    uint32_t ring_size;
    /* Bit n: ArenaMapped of arena n has no answer, has not been sent. */
    uint64_t unanswered_arenas;
    uint64_t untold_arenas;
    struct job *jobs;
    struct job **jobs_end;
    _Atomic uint32_t jobs_changed; /* futex */

    /* Written under the lock, read by writers. */
    _Atomic(struct shm_arena *) arenas[SHM_RINGS_MAX / SHM_RINGS_PER_ARENA];
    _Atomic uint32_t ring_owners[SHM_RINGS_MAX]; /* 0 or the number of a thread */

    uint8_t links[SHM_REGISTRATIONS_MAX];
    bool traits_unsent[SHM_REGISTRATIONS_MAX];
    bool enabled[SHM_REGISTRATIONS_MAX];     /* as the last job says */
    uint32_t answers[SHM_REGISTRATIONS_MAX]; /* LINK_REFUSED: the code */
    uint32_t running[SHM_REGISTRATIONS_MAX]; /* thread in (or about to be in) its callback */
};

/* NULL until the first EventRegister. */
extern struct process *provider_process;
/* The control area: always at one place once it was mapped, since writers may be reading it; not
 * connected: zeros. NULL: never mapped. */
extern const void *provider_control;

/* ---- process.c: locks and waiting ---- */

/* Makes provider_process and what is made once. 0; -ENOMEM. Not in signal handlers. */
int process_init(void);
void process_lock(struct process *p);
bool process_trylock(struct process *p);
void process_unlock(struct process *p);
/* `changes` was raised; wakes who waits. */
void process_changed(struct process *p);
/* Waits until `changes` differs from seen, or until the deadline (CLOCK_BOOTTIME; 0: none). */
void process_wait(struct process *p, uint32_t seen, uint64_t deadline);
void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline);
void futex_wake(_Atomic uint32_t *word, int n);
uint32_t thread_id(void);
/* A detached thread, all signals blocked. */
int thread_start(void *(*run)(void *), void *arg);

/* ---- attach.c: what is said to the daemon; under the lock, but where said ---- */

/* A packet and its message, without malloc(3): a child may be where malloc must not be called. */
struct receiver;
int receiver_new(struct receiver **ret);
struct receiver *receiver_free(struct receiver *rx);

/* The next number; under the lock. */
void epoch_raise(struct process *p);
bool connection_ours(struct process *p);
/* Takes a connected socket: hello, attach, all registrations. */
void connection_begin(struct process *p, int fd);
/* In a child: closes its copy of the parent's, which would keep it open beyond the parent's end. */
void connection_disinherit(void);
/* Ends it: rings are given up, nothing is enabled, callbacks hear so. */
void connection_end(struct process *p);
/* Sends what has to be told of this registration; -EAGAIN: later. */
int connection_tell(struct process *p, uint32_t index);
/* All that could not be sent. */
void connection_flush(struct process *p);
int connection_callback_done(struct process *p, uint64_t cookie);
/* The thread needs a ring. May be called without the lock. */
int connection_more_rings(struct process *p);
/* One WAKE. No lock; a signal handler may run it. now: CLOCK_BOOTTIME. */
void connection_wake(struct process *p, uint64_t now);
/* Without a helper nobody sees that the daemon went: looks, and connects anew. No lock. */
void connection_revive(struct process *p);
/* fd is not ours any more (no lock): has the daemon end the connection, so that the helper sees. */
void connection_kick(struct process *p, uint64_t now);
/* One message: waits without the lock (helper). -ECONNRESET and others: the connection is over. */
int connection_receive(struct receiver *rx, int fd, int flags);
/* What came last. -EPROTO: the connection is of no use. */
int connection_dispatch(struct process *p, struct receiver *rx);
/* Closes the descriptors of a message that is not dispatched. */
void receiver_drop(struct receiver *rx);
/* Reads and dispatches until the registration (SHM_REGISTRATIONS_MAX: all of them) is settled. */
void connection_pump(struct process *p, uint32_t index, uint64_t deadline);
/* The same for one message. */
void connection_pump_one(struct process *p, uint64_t deadline);
/* Nothing is to come for it: live with its arena mapped, refused, or not connected. */
bool connection_settled(const struct process *p, uint32_t index);

/* ---- connect.c ---- */

/* The daemon's address, found once a process. */
int connect_init(void);
/* Connects. wait: also while the daemon's queue is full. No lock needed. */
int connect_socket(bool wait, int *ret_fd);
/* Under the lock: connects without waiting and tells everything; no helper needed. */
int connect_now(struct process *p);
/* Under the lock: the thread that reads the socket and watches for a daemon. */
void helper_start(struct process *p);

/* ---- rings.c ---- */

/* Not 0, which is that of a child. */
#define EPOCH_NONE UINT32_MAX

/* A thread that writes. Never freed; given to another thread when its own is gone. */
struct thread {
    /* The address of a struct mark in the frame that writes; 0: nobody. */
    _Atomic uintptr_t in_progress;
    uint32_t epoch; /* of the ring, or EPOCH_NONE */
    uint32_t ring;
    struct shm_writer writer;
    uint32_t keys;       /* event keys given */
    uint64_t more_after; /* it waited in vain for a ring; again from then on */
    _Atomic uint32_t waking;
    _Atomic uint32_t owner; /* tid; 0: free */
    struct thread *next;
};

extern __thread struct thread *provider_thread ETW_TLS;

/* This thread's, made when needed; NULL: no memory. */
struct thread *thread_get(void);
/* Makes the ring ready; the thread is in progress. 0; -ENOENT: not connected; -ENOBUFS: no ring. */
int ring_ready(struct process *p, struct thread *t);
/* Under the lock. Maps what the daemon offers; takes the descriptors. */
int arena_map(struct process *p, uint32_t arena, uint32_t ring_size, int arena_fd, int control_fd);
/* Under the lock, after the epoch was raised: gives all arenas up, the control area reads 0. */
void arenas_retire(struct process *p);
/* Sleep numbers begin anew. */
void rings_forget_wakes(void);
/* In a child: the other threads are gone. */
void threads_after_fork(void);
int rings_init(void);
bool threads_quiet(void);

/* ---- callbacks.c ---- */

struct job {
    struct job *next;
    uint32_t index;
    uint64_t handle;
    uint32_t code;
    uint8_t level;
    uint64_t any, all;
    GUID source;
    uint64_t cookie;
    bool filtered;
    EVENT_FILTER_DESCRIPTOR filter;
    /* filter data */
    uint8_t data[];
};

/* Under the lock: a callback has to run. Starts the thread when no other is going to. */
void callbacks_queue(struct process *p, uint32_t index, const Etwd__EnableChange *change);
/* Under the lock: those of a registration that ends. */
void callbacks_drop(struct process *p, uint32_t index);
/* Runs those of a registration on this thread until there is none; `running` is this thread's. */
void callbacks_run(struct process *p, uint32_t index);

/* ---- fork.c ---- */

int fork_init(void);
/* A child that has not noticed. In signal handlers too: a child that another thread is taking care
 * of just goes on. */
void fork_recover(struct process *p);

/* ---- write.c ---- */

ULONG provider_write(REGHANDLE handle, PCEVENT_DESCRIPTOR descriptor, uint64_t filter,
                     LPCGUID activity, LPCGUID related, ULONG n, const EVENT_DATA_DESCRIPTOR *data,
                     uint16_t flags);

/* An address in the frame that writes. Its check tells whether the frame still stands: what
 * overwrites a frame that was left by longjmp(3) does not write that. */
struct mark {
    volatile uintptr_t check;
};
static inline uintptr_t mark_check(uintptr_t at)
{
    return at ^ (uintptr_t) 0x5E7A9D01C3B2F64Bull;
}

/* ---- activity.c ---- */

extern __thread GUID provider_activity ETW_TLS;
