/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd's command line. Main thread, once.
 */
#pragma once

#include <stdbool.h>

#include "base/conf_file.h"
#include "base/limits.h"

/* As many as a command line of tests has, and more. */
#define OPTIONS_ASSIGNMENTS_MAX 128

struct options {
    const char *runtime_dir; /* NULL: the default */
    const char *user;        /* NULL: "etwd" when there is such a user */
    unsigned cpus;           /* 0: as the machine has */
    bool verbose;
    const char *config; /* the file; NULL: the default, which may be missing */
    /* Of -o, in their order: they win over the file, at a reload, too. */
    const char *assignments[OPTIONS_ASSIGNMENTS_MAX];
    unsigned n_assignments;
    struct etw_conf conf;
};

#define OPTIONS_CONFIG_DEFAULT "/etc/etwd/etwd.conf"

/* The configuration by defaults, files and -o. What is wrong in the files is told to `bad` and
 * passed over. The number of complaints, or -ENOMEM. It reads files: not on the loop's thread. */
int options_conf_load(const struct options *o, struct etw_conf *ret, etw_conf_bad_fn bad,
                      void *userdata);

/* 0: run. 1: help or version was printed. -EINVAL: the error was printed. */
int options_parse(int argc, char **argv, struct options *ret);
