/* SPDX-License-Identifier: Apache-2.0
 *
 * A daemon that answers as a test tells it: one thread that accepts connections on a socket of its
 * own, checks the hello, keeps a copy of the request and sends the reply that the test prepared.
 * For tests of what libetw sends and what it makes of an answer.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/frame.h"

enum fake_behaviour {
    FAKE_ANSWER,        /* hello, then the reply */
    FAKE_REFUSE_HELLO,  /* hello with reply_status */
    FAKE_CLOSE_HELLO,   /* close at the hello */
    FAKE_SILENT,        /* never answer the hello */
    FAKE_CLOSE_REQUEST, /* hello, take the request, close */
    FAKE_WRITE_CLOSE,   /* the same, but write into the file that came with it first */
    FAKE_NO_BODY,       /* success without a session */
    FAKE_OTHER_FIRST,   /* a notification and a reply to something else before the reply */
    FAKE_GARBAGE,       /* hello, then bytes that are no message */
};

struct fake_daemon {
    char *path;
    int listener;
    pthread_t thread;
    enum fake_behaviour behaviour;
    uint32_t reply_status;
    void (*on_request)(struct fake_daemon *d); /* on its thread, before the answer; or NULL */
    Etwd__Session *session;                    /* what replies carry; the caller's */
    /* What came last. */
    pthread_mutex_t lock;
    Etwd__Message *request; /* the request after the hello, or NULL */
    bool had_file;
    bool file_regular;
    int file_flags; /* F_GETFL of the descriptor that came */
    dev_t file_dev;
    ino_t file_ino;
    unsigned connections;
    pid_t last_pid; /* whose connection it was */
    uid_t last_uid;
};

/* Listens and sets ETWD_SOCKET. */
struct fake_daemon *fake_daemon_start(void);
struct fake_daemon *fake_daemon_stop(struct fake_daemon *d);

/* A session as a daemon would describe it, with this name and file; static memory. */
Etwd__Session *fake_session(const char *name, const char *log_file);

/* The request of the last connection as its type; fails the test when it is another. */
const Etwd__StartSession *fake_start_request(const struct fake_daemon *d);
const Etwd__ControlSession *fake_control_request(const struct fake_daemon *d);
