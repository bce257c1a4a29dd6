/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of etwd.conf: lines of KEY=VALUE, comments behind # or ; at the beginning of a line,
 * an optional line [etwd]; then the files PATH.d/NAME.conf in order of their names, of which later
 * ones win. Reads files: where that may not wait, on another thread.
 */
#pragma once

#include <stddef.h>

#include "limits.h"

/* A file of a hundred keys has 10 KiB; drop-ins are made by packages and administrators. */
#define ETW_CONF_FILE_MAX (1u << 20)
#define ETW_CONF_DROP_INS_MAX 1000

/* What is wrong: line 0 means the file as a whole. The texts end with the call. */
typedef void (*etw_conf_bad_fn)(void *userdata, const char *file, unsigned line,
                                const char *reason);

/* The text of one file; bad lines are told and passed over. Their number. Pure. */
unsigned etw_conf_parse(struct etw_conf *conf, const char *file, const char *text, size_t size,
                        etw_conf_bad_fn bad, void *userdata);
/* PATH (-ENOENT counts as nothing wrong unless `must_exist`) and its drop-ins into conf, which has
 * its values before. What cannot be read or is wrong is told and passed over. The number of such
 * complaints, or -ENOMEM. */
int etw_conf_load(struct etw_conf *conf, const char *path, int must_exist, etw_conf_bad_fn bad,
                  void *userdata);
