/* SPDX-License-Identifier: Apache-2.0
 *
 * A daemon for tests of libetw's provider: speaks the messages of provider processes over a socket
 * of its own, with real arenas and control areas of proto/shm, and reads what the process writes.
 * One thread serves all connections; every function here takes its lock.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/guid.h"
#include "etl/iterate.h"
#include "shm/arena.h"
#include "shm/control.h"
#include "shm/ring.h"
#include "wire/frame.h"

#define PD_CONNECTIONS 16
#define PD_ARENAS 4
#define PD_ENABLES 8

struct pd_registration {
    bool used;
    struct etw_guid guid;
    uint8_t traits[64];
    size_t traits_size;
};

struct pd_connection {
    int fd; /* -1: none */
    pid_t pid;
    bool attached;
    bool threadless;
    bool was; /* it had registered something */
    struct pd_registration *registrations;
    int arena_fds[PD_ARENAS];
    const struct shm_arena *arenas[PD_ARENAS];
    unsigned n_arenas; /* mapped by the process */
    int control_fd, client_fd;
    void *base;
    struct shm_control *area;
    struct shm_reader readers[PD_ARENAS * SHM_RINGS_PER_ARENA];
    uint32_t tids[PD_ARENAS * SHM_RINGS_PER_ARENA];
    unsigned n_rings;
    unsigned wakes;
    unsigned more_rings;
    unsigned registers, unregisters;
    uint64_t done[64]; /* cookies of CallbackDone */
    unsigned n_done;
};

struct pd_enable {
    bool used;
    struct etw_guid guid;
    struct shm_slot_config slots[SHM_SLOTS_MAX];
    unsigned n_slots;
    uint8_t level;
    uint64_t any, all;
};

struct provider_daemon {
    char *path;
    int listener;
    int stop[2];
    pthread_t thread;
    pthread_mutex_t lock;
    uint32_t ring_size;
    unsigned rings_first;     /* given with an arena */
    unsigned rings_more;      /* with each MoreRings; 0: refused */
    bool silent;              /* answers nothing */
    uint32_t hello_status;    /* of Hello */
    uint32_t register_status; /* of Register */
    unsigned accepted;
    struct pd_enable enables[PD_ENABLES];
    struct pd_connection connections[PD_CONNECTIONS];
};

/* Listens at path (NULL: a new one) and sets ETWD_SOCKET. Set members under the lock. */
struct provider_daemon *pd_start(const char *path, uint32_t ring_size);
/* Closes everything, as when a daemon dies. */
struct provider_daemon *pd_stop(struct provider_daemon *d);

/* Enables a provider with these slots, for those that are and that come; n 0: disables it. */
void pd_enable(struct provider_daemon *d, const struct etw_guid *guid,
               const struct shm_slot_config *slots, unsigned n, uint64_t cookie);
/* Sends an EnableChange to each registration of the GUID; nothing else changes. */
void pd_change(struct provider_daemon *d, const struct etw_guid *guid, uint32_t code,
               const struct etw_guid *source, const void *filter, size_t filter_size,
               uint64_t cookie);
/* Forgets what it has not answered and says Restarted. */
void pd_restarted(struct provider_daemon *d);

/* The newest connection that registered something, waited for. */
struct pd_connection *pd_connection(struct provider_daemon *d);
/* Waits until a condition of the daemon holds (under its lock); fails the test after long. */
typedef bool (*pd_condition)(struct provider_daemon *d, void *arg);
void pd_wait(struct provider_daemon *d, pd_condition condition, void *arg);

/* A record of an event. `event` parsed from `bytes`. */
struct pd_event {
    uint16_t registration;
    uint16_t generation;
    uint16_t cpu;
    uint8_t flags;
    uint32_t slots;
    uint32_t tid;
    unsigned ring;
    uint32_t size;
    uint8_t *bytes;
    struct etl_event event;
};
/* All events in the rings of a connection, ring by ring; the space is given back. Freed by
 * pd_events_free(). */
size_t pd_read(struct provider_daemon *d, struct pd_connection *c, struct pd_event **ret);
void pd_events_free(struct pd_event *events, size_t n);
/* Of all arenas: what slot counter `counter` says. */
uint64_t pd_lost(struct provider_daemon *d, struct pd_connection *c, unsigned counter,
                 enum shm_lost_cause cause);
/* The sleep number in the control area. */
void pd_sleep(struct provider_daemon *d, struct pd_connection *c, uint32_t sleep);
