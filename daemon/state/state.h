/* SPDX-License-Identifier: Apache-2.0
 *
 * What must outlive the daemon: one memfd of blocks, changed in transactions, and the descriptors
 * that the service manager keeps. Everybody who has something to hand on keeps it in a block of his
 * own and changes it there, between state_begin() and state_commit(). It knows nothing of sessions,
 * providers and routers. Loop thread only.
 *
 * Exactly once. A transaction is an undo list: state_save() copies what is about to change. A
 * successor that finds it unfinished puts the old bytes back; state_commit() ends it with one store
 * of the epoch. What others can see of it (tails of rings, fill offsets, writes to files, messages)
 * is published only after the outermost commit, from state_after_commit(), and so that doing it
 * again does no harm: the successor does all of it again. The router makes each pass one
 * transaction; every other change of a block is one too, however small.
 *
 * Blocks hold no pointers and no descriptors, only keys.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATE_VERSION 3

struct state;

/* Whose block it is; a key tells those of one kind apart. Part of the format: numbers are never
 * given to something else. */
enum state_kind {
    STATE_DAEMON = 1,   /* key: enum state_daemon_key */
    STATE_SESSION = 16, /* sessions/: key is the logger id | generation */
    STATE_BUFFERS = 17,
    STATE_SINK = 18,
    STATE_SLOTS = 19,
    STATE_PROCESS = 32, /* providers/: key is the process's number */
    STATE_REGISTRATION = 33,
    STATE_TABLE = 34,
    STATE_ENABLE = 35,
    STATE_RING = 36,
    STATE_LOSSES = 37,
    STATE_KERNEL = 48,         /* kernel/: the logger, key 0 */
    STATE_KERNEL_RING = 49,    /* key: CPU */
    STATE_KERNEL_TARGET = 50,  /* key: as STATE_SESSION */
    STATE_KERNEL_PROCESS = 51, /* key: process ID */
    STATE_KERNEL_FILE = 52,    /* key: the file's number */
    STATE_KERNEL_IMAGE = 53,   /* key: the waiting event's number */
};

/* What there is one of. */
enum state_daemon_key {
    STATE_DAEMON_SESSIONS = 1,    /* sessions/: the next generation */
    STATE_DAEMON_CONNECTIONS = 2, /* control/: the next connection's number */
};

/* A fresh state, without a store: state_kept() is false (takeover.h makes one with). */
int state_new(struct state **ret);
/* That of a predecessor: fd is taken over on success. An unfinished transaction is undone.
 * -EPROTONOSUPPORT: another version; -EBADMSG: it does not hold together. */
int state_load(int fd, struct state **ret);
struct state *state_free(struct state *st);
int state_fd(const struct state *st);

/* ---- transactions ---- */

/* They nest; the outermost one counts. NULL is fine in all of these four: nothing is handed on
 * (unit tests of others). */
void state_begin(struct state *st);
void state_commit(struct state *st);
/* p lies in a block, size bytes are about to change; a second time in one transaction costs
 * memory, not correctness. Inside a transaction only. */
void state_save(struct state *st, const void *p, size_t size);
/* Counts the outermost transactions: who saved something in this one need not do it again. Never
 * falls, also not across a takeover. */
uint64_t state_epoch(const struct state *st);
/* Inside a transaction. */
bool state_active(const struct state *st);

/* Called before and after each outermost commit, in the order of registration; either may be NULL.
 * before_commit is still inside: it brings blocks up to date with what was changed elsewhere.
 * after_commit may begin transactions: the hooks run once more for them. */
struct state_hook {
    void (*before_commit)(void *userdata);
    void (*after_commit)(void *userdata);
    void *userdata;
    struct state_hook *next;
};
void state_add_hook(struct state *st, struct state_hook *hook);
void state_remove_hook(struct state *st, struct state_hook *hook);

/* ---- blocks; inside a transaction ---- */

/* Zeroed memory of size bytes, 64-byte aligned, that does not move. -EEXIST, -ENOMEM. Never fails
 * with st NULL but for memory: then the block is ordinary memory. */
int state_block_new(struct state *st, enum state_kind kind, uint64_t key, size_t size, void **ret);
void state_block_free(struct state *st, void *block);
/* What is there, any order: start with *position 0; NULL at the end. */
void *state_block_next(struct state *st, enum state_kind kind, uint64_t *position,
                       uint64_t *ret_key, size_t *ret_size);
void *state_block_find(struct state *st, enum state_kind kind, uint64_t key, size_t *ret_size);

/* ---- descriptors in the service manager's store ---- */

enum state_fd_kind {
    STATE_FD_LISTEN = 'l',
    STATE_FD_BUFFERS = 'b', /* key: as STATE_SESSION */
    STATE_FD_LOG_FILE = 'f',
    STATE_FD_CONNECTION = 'c', /* key: connection number, as STATE_PROCESS has it */
    STATE_FD_CONTROL = 'm',    /* control area; key: the process's number */
    STATE_FD_KERNEL = 'k',     /* maps and links of the kernel's programs; key: kernel/keep.h's */
    STATE_FD_ARENA = 'a',      /* key: the process's number << 8 | arena */
};

/* Whether somebody keeps descriptors for us: without, a daemon's end is its sessions' end. */
bool state_kept(const struct state *st);
/* Before anybody else uses it. Returns when the manager has it (sd_notify's barrier is not waited
 * for: a socket keeps order). 0 also when there is nobody; -EDQUOT: the store is full, by our
 * count (FdStoreMax); the caller says ERROR_NO_SYSTEM_RESOURCES. -EEXIST: there is one. fd stays
 * the caller's. */
int state_fd_store(struct state *st, enum state_fd_kind kind, uint64_t key, int fd);
/* Takes it out, once the present transaction is through. None: nothing happens. */
void state_fd_drop(struct state *st, enum state_fd_kind kind, uint64_t key);
/* What the predecessor stored; the caller's from now on, and still in the store. -ENOENT. */
int state_fd_take(struct state *st, enum state_fd_kind kind, uint64_t key);
/* The keys of one kind that are stored, any order: start with *position 0; false at the end. */
bool state_fd_next(struct state *st, enum state_fd_kind kind, uint64_t *position,
                   uint64_t *ret_key);
