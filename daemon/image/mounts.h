/* SPDX-License-Identifier: Apache-2.0
 *
 * A mountinfo file of /proc, read whole: which device and file system type a mount id has. Reading
 * it touches no file system, so it cannot hang on a dead server; what must not hang asks here
 * before it touches a file. Any thread; a table is used by one at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mount_table {
    char *text;
    size_t size;
};

/* One line. The pointers go into the table's text: no NUL at their end, octal escapes inside. */
struct mount_entry {
    uint64_t id;
    unsigned dev_major; /* of the super block: what the kernel calls s_dev */
    unsigned dev_minor;
    const char *point;
    size_t point_size;
    const char *type;
    size_t type_size;
    const char *source;
    size_t source_size;
    bool local; /* of a type whose files this machine serves itself */
};

/* Reads `name` relative to dirfd. On failure the table stays as it was. */
int mount_table_read(struct mount_table *t, int dirfd, const char *name);
void mount_table_clear(struct mount_table *t);

/* Lines one after the other; *pos begins at 0. What does not look like a line is passed over. */
bool mount_table_next(const struct mount_table *t, size_t *pos, struct mount_entry *ret);
bool mount_table_find_id(const struct mount_table *t, uint64_t id, struct mount_entry *ret);

/* A type name against the list of local file systems. */
bool mount_type_local(const char *type, size_t size);
/* Decodes \ooo escapes. -ENAMETOOLONG when it does not fit with its NUL. */
int mount_unescape(const char *text, size_t size, char *out, size_t cap);
