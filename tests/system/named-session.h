/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions by etwctl with nothing but a name, which is their file's too.
 */
#pragma once

#include <stdlib.h>

#include "lib/test.h"

static inline void start(const char *name)
{
    struct test_output o;
    char *path = test_path(name);
    test_etwctl_ok(&o, "start", name, "-o", path);
    test_output_done(&o);
    free(path);
}

static inline void stop(const char *name)
{
    struct test_output o;
    test_etwctl_ok(&o, "stop", name);
    test_output_done(&o);
}
