/* SPDX-License-Identifier: Apache-2.0
 *
 * LogFileMode: which combinations ETW excludes, from the documented lists. Whether a valid mode is
 * there yet is etwd's answer, not ours. Pure functions.
 */
#include "internal.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "etl/layout.h"

#define SEQ ETL_MODE_SEQUENTIAL
#define CIRC ETL_MODE_CIRCULAR
#define APP ETL_MODE_APPEND
#define NEW ETL_MODE_NEWFILE
#define PRE ETL_MODE_PREALLOCATE
#define RT ETL_MODE_REAL_TIME
#define BUF ETL_MODE_BUFFERING
#define PRIV ETL_MODE_PRIVATE_LOGGER

/* A session has at most one mode of `a` and `b` each: not one of both sides. */
static const struct {
    uint32_t a, b;
} exclusions[] = {
    {SEQ, CIRC | NEW | BUF},
    {CIRC, APP | NEW | BUF},
    {APP, NEW | RT | BUF | PRIV},
    {NEW, BUF},
    {PRE, BUF | PRIV},
    {RT, BUF | PRIV},
    {PRIV, ETL_MODE_INDEPENDENT_SESSION},
    {ETL_MODE_USE_GLOBAL_SEQUENCE, ETL_MODE_USE_LOCAL_SEQUENCE},
    {ETL_MODE_STOP_ON_HYBRID_SHUTDOWN, ETL_MODE_PERSIST_ON_HYBRID_SHUTDOWN},
    {ETL_MODE_SYSTEM_LOGGER, ETL_MODE_USE_PAGED_MEMORY},
};

uint32_t mode_check(uint32_t mode, bool kernel_logger)
{
    for (size_t i = 0; i < ARRAY_SIZE(exclusions); i++)
        if (mode & exclusions[i].a && mode & exclusions[i].b)
            return ERROR_INVALID_PARAMETER;
    if (mode & ETL_MODE_PRIVATE_IN_PROC && !(mode & PRIV))
        return ERROR_INVALID_PARAMETER;
    /* Its events come from the kernel: not private, not pageable; and one file. */
    if (kernel_logger && mode & (PRIV | NEW | ETL_MODE_USE_PAGED_MEMORY))
        return ERROR_INVALID_PARAMETER;
    return ERROR_SUCCESS;
}

/* One "%d" and no other per cent sign. */
static bool is_pattern(const char *file)
{
    const char *p = strchr(file, '%');
    return p && p[1] == 'd' && !strchr(p + 1, '%');
}

uint32_t mode_check_start(uint32_t mode, uint32_t clock, uint32_t maximum_file_size,
                          const char *file)
{
    if (mode & APP && clock != ETW_CLOCK_SYSTEM)
        return ERROR_INVALID_PARAMETER;
    if (mode & (CIRC | NEW | PRE) && maximum_file_size == 0)
        return ERROR_INVALID_PARAMETER;
    if (mode & ETL_MODE_NONSTOPPABLE) /* for sessions that start with the machine */
        return ERROR_INVALID_PARAMETER;
    if (!file)
        return mode & (RT | BUF) ? ERROR_SUCCESS : ERROR_BAD_PATHNAME;
    if (mode & NEW && !is_pattern(file))
        return ERROR_INVALID_NAME;
    return ERROR_SUCCESS;
}

bool mode_opens_file(uint32_t mode)
{
    return !(mode & (NEW | BUF | PRIV));
}
