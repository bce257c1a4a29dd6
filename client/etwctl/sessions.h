/* SPDX-License-Identifier: Apache-2.0
 *
 * What several verbs do with sessions: showing one, starting one, stopping one. One thread.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "connect.h"
#include "output.h"
#include "providers.h"

#define KERNEL_SESSION "NT Kernel Logger"

/* Options of `start` and `record`; all zero to begin with. */
struct start_options {
    const char *file;
    const char *name;
    bool kernel;
    bool has_flags;
    bool real_time;
    bool bound;
    bool strict;
    uint32_t flags;
    uint32_t clock;
    uint32_t mode;
    uint32_t buffer_size_kb;
    uint32_t minimum_buffers;
    uint32_t maximum_buffers;
    uint64_t maximum_bytes;
    uint32_t flush_timer_s;
    bool json;
    bool no_legend;
    struct provider_args providers;
};

static inline void start_options_done(struct start_options *s)
{
    provider_args_clear(&s->providers);
}
#define _cleanup_start_options_ __attribute__((cleanup(start_options_done)))

/* Options common to `start` and `record`: long options for getopt_long. */
#define OPT_START 0x200
extern const struct option start_long_options[];
#define START_SHORT_OPTIONS "o:p:"

/* Takes one option; *ret_code is set and false returned when the verb must end. */
bool start_option(struct start_options *s, const char *verb, int opt, const char *arg,
                  int *ret_code);
/* Checks them together. EXIT_OK or an exit code after a message. */
int start_options_check(struct start_options *s, const char *verb);
/* Opens the log file with this user's rights, starts the session, and on failure removes what it
 * made. EXIT_OK and the session, or an exit code after a message. */
int session_start(struct conn *c, const struct start_options *s, Etwd__Message **ret_reply);

/* Opens path, which the user calls `name`, with this user's rights for etwd to write. A descriptor,
 * or minus an exit code after a message. */
int log_file_open(const char *name, const char *path, bool *ret_created);
/* Takes away a file that the above made: only if the path still means it. */
void log_file_unlink(const char *path, int fd);
/* In memory of malloc(3); NULL: errno says why. */
char *absolute_path(const char *path);

/* STOP, FLUSH, QUERY by name. EXIT_OK and a SessionReply with a session, or an exit code after a
 * message. */
int session_control(struct conn *c, const char *name, Etwd__ControlSession__Code code,
                    Etwd__Message **ret_reply);

/* Pages through all sessions: calls `each` until it returns nonzero, which is returned. An exit
 * code after a message when the daemon cannot be asked. */
int session_each(struct conn *c, int (*each)(const Etwd__Session *s, void *userdata),
                 void *userdata);

uint64_t session_events_lost(const Etwd__Session *s);
/* The object of `stop --json`: of a session that has ended, which has no providers any more; NULL
 * without memory. */
struct json_object *session_json(const Etwd__Session *s);
/* Prints one that runs, with its providers, as all that a verb prints. EXIT_OK, or an exit code
 * after a message. */
int session_print_json(struct conn *c, const Etwd__Session *s);
/* "sequential,real_time" for people. `buf` takes any mode. */
#define SESSION_MODES_MAX 512
const char *session_modes(uint32_t modes, char buf[SESSION_MODES_MAX]);
const char *session_clock(uint32_t clock);
/* "root" or "1000"; for people. `buf` takes any name of NSS, cut. */
#define SESSION_OWNER_MAX 64
const char *session_owner(uint32_t uid, char buf[SESSION_OWNER_MAX]);
/* One line about what a finished session left, on stderr. */
void session_say_result(const Etwd__Session *s);
