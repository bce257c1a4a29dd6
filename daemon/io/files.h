/* SPDX-License-Identifier: Apache-2.0
 *
 * What a log file's descriptor must be before etwd writes to it. The client opened it with its own
 * rights; etwd believes nothing about it. Worker thread (fstat may wait), but for the pure parts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct file_facts {
    uint64_t dev;
    uint64_t ino;
    uint64_t size;
    uint64_t free_bytes; /* of the file system, for this user */
    bool slow;           /* of a type that only the configuration allows: calls may wait for ever */
};

/* Checks fd: writable, not O_PATH, not O_APPEND, on a mount whose type is listed (told by mount
 * tables, before anything asks the file system itself), a regular file. 0 and the facts; -errno and
 * one line why, for the client. extra: further types, of etwd.conf (ExtraFileSystems);
 * -EINPROGRESS, without a question to such a file system, unless patient. */
int file_check(int fd, const char *extra, bool patient, struct file_facts *ret,
               const char **ret_why);

/* Whether etwd writes to this type of file system from its loop. Pure. */
bool file_system_listed(const char *type);
/* Whether it is one of the words of `extra`. Pure. */
bool file_system_extra(const char *type, const char *extra);
/* Finds the type of mount `id` in the text of a mountinfo file. 0; -ENOENT. Pure. */
int file_mount_type(const char *mountinfo, int id, char *type, unsigned size);
