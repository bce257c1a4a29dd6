/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd's command line. Main thread, once.
 */
#pragma once

#include <stdbool.h>

#include "base/limits.h"

struct options {
    const char *runtime_dir; /* NULL: the default */
    const char *user;        /* NULL: "etwd" when there is such a user */
    unsigned cpus;           /* 0: as the machine has */
    bool verbose;
    struct etw_conf conf;
};

/* 0: run. 1: help or version was printed. -EINVAL: the error was printed. */
int options_parse(int argc, char **argv, struct options *ret);
