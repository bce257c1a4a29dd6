/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Linux priorities (0..139, deadline below 0) as ETW's 0..31. Compiled by programs and daemon.
 */
#pragma once

/* 31 - prio * 31 / 139. The division is a multiplication that is exact for 0..139: divisions are
 * dear in the hottest program. */
static inline __attribute__((always_inline)) signed char etw_priority(int prio)
{
    if (prio < 0)
        return 31;
    if (prio > 139)
        return 0;
    return (signed char) (31 - (((unsigned int) prio * 31u * 60351u) >> 23));
}
