/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the controller share: the connection to etwd, the caller's properties, modes,
 * the log file. Nothing here is exported. Any thread; nothing is kept between calls.
 *
 * Functions that check what the caller gave return the Win32 code that the caller gets, since only
 * they know which documented row failed; functions that do something return negative errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <KernelTraceControl.h>
#include <evntrace.h>

#include "../cancel.h"
#include "wire/frame.h"

/* ---- error.c ---- */

/* Leaves a failing code for GetLastError(); returns the code. */
ULONG finish(uint32_t code);
/* The code for what went wrong in this process; connection failures have their own. */
uint32_t code_from_errno(int r);

/* ---- connection.c ---- */

struct sockaddr_un;
/* Where the daemon is to be found. 0; -ENAMETOOLONG. */
int connection_address(struct sockaddr_un *ret);
/* Connects and says hello. 0 and a descriptor; otherwise *ret_code is what the caller gets.
 * -EPROTO: the daemon refused. */
int connection_open(int *ret_fd, uint32_t *ret_code);
/* Sends a request and waits for its reply. 0 and a reply for wire_message_free(); otherwise
 * *ret_code is what the caller gets, and *ret_sent tells whether the daemon may have acted. */
int connection_call(int fd, Etwd__Message *request, const int *fds, size_t n_fds,
                    Etwd__Message **ret_reply, bool *ret_sent, uint32_t *ret_code);

static inline void wire_message_freep(Etwd__Message **m)
{
    *m = wire_message_free(*m);
}
#define _cleanup_message_ __attribute__((cleanup(wire_message_freep)))

/* The same descriptor under a high number: low ones belong to the program, which may have closed
 * its standard output and print all the same. Takes fd; returns it when there is no better one. */
int fd_move_up(int fd);

/* ---- list.c ---- */

/* Replies that are parts of one answer. */
struct pages {
    Etwd__Message **m;
    size_t n;
};
void pages_done(struct pages *p);
#define _cleanup_pages_ __attribute__((cleanup(pages_done)))
/* Asks for one more, of this kind. The code of the reply, or of the connection. */
uint32_t pages_ask(int fd, Etwd__Message *request, Etwd__Message__BodyCase expected,
                   struct pages *ret, const Etwd__Message **ret_page);
/* MaxSessions= */
uint32_t daemon_max_sessions(int fd, uint32_t *ret);

/* ---- properties.c ---- */

/* A checked view of the caller's structure and the two names behind it. The sizes are copies. */
struct properties {
    EVENT_TRACE_PROPERTIES *p;
    bool wide;            /* names are UTF-16 */
    bool v2;              /* EVENT_TRACE_PROPERTIES_V2 */
    uint32_t name_offset; /* 0: there is no place for it */
    uint32_t name_room;   /* bytes */
    uint32_t file_offset;
    uint32_t file_room;
};

/* BufferSize, and the places of both names. `name` (may be NULL) is what has to fit at
 * LoggerNameOffset, name_size bytes with its NUL. ERROR_SUCCESS, _BAD_LENGTH, _INVALID_PARAMETER.
 */
uint32_t properties_view(EVENT_TRACE_PROPERTIES *p, bool wide, size_t name_size,
                         struct properties *ret);
/* The caller's log file name in UTF-8 in memory of malloc(3); NULL when there is none.
 * ERROR_SUCCESS, _BAD_LENGTH, _NOT_ENOUGH_MEMORY. */
uint32_t properties_file_name(const struct properties *v, char **ret);
/* Writes all members, not the names. */
void properties_write(const struct properties *v, const Etwd__Session *s);
/* Writes a name of `bytes` bytes that properties_view() found room for. */
void properties_write_name(const struct properties *v, const void *name, size_t bytes);
/* Writes both names of a session. False: one was cut. */
bool properties_write_names(const struct properties *v, const Etwd__SessionProperties *s);

/* The size in bytes of a name of either width with its NUL, its length in UTF-16 units, and the
 * name in UTF-8 in memory of malloc(3). A name above ETW_NAME_MAX is reported as its true length.
 */
struct name {
    char *utf8;
    size_t units;
    size_t bytes;
};
/* 0; -ENOMEM. s is not NULL. */
int name_read(const void *s, bool wide, struct name *ret);
void name_done(struct name *n);
#define _cleanup_name_ __attribute__((cleanup(name_done)))
bool name_is_kernel_logger(const char *utf8);

/* ---- control.c ---- */

/* Whether a session can have this handle. */
bool handle_possible(TRACEHANDLE h);

/* ---- modes.c ---- */

/* The combinations that ETW excludes. ERROR_SUCCESS, _INVALID_PARAMETER. */
uint32_t mode_check(uint32_t mode, bool kernel_logger);
/* What only a start decides: the clock, sizes, the pattern of new-file names, whether there is a
 * place for the events. `file` may be NULL. ERROR_SUCCESS, _INVALID_PARAMETER, _INVALID_NAME,
 * _BAD_PATHNAME. */
uint32_t mode_check_start(uint32_t mode, uint32_t clock, uint32_t maximum_file_size,
                          const char *file);
/* Whether this library opens the log file; for the other modes etwd does, or nobody. */
bool mode_opens_file(uint32_t mode);

/* ---- log_file.c ---- */

struct log_file {
    int fd;
    char *path; /* absolute */
    bool created;
    dev_t dev;
    ino_t ino;
};
#define LOG_FILE_NONE ((struct log_file){.fd = -1})

/* The absolute path of a name. 0; -ENAMETOOLONG; -errno of getcwd(3). */
int log_file_path(const char *name, char **ret);
/* Opens it with the caller's rights for etwd to write, and makes it when it is not there. Nothing
 * is changed in a file that is. 0; -errno; -ENODEV: not a regular file. */
int log_file_open(const char *name, struct log_file *ret);
/* Closes it. `keep` false removes it when log_file_open() made it and it is still the same file. */
void log_file_done(struct log_file *f, bool keep);
static inline void log_file_donep(struct log_file *f)
{
    log_file_done(f, false);
}
#define _cleanup_log_file_ __attribute__((cleanup(log_file_donep)))
uint32_t log_file_code(int r);
