/* SPDX-License-Identifier: Apache-2.0
 *
 * What a caller asks of a session, checked and adjusted as ETW documents. The library has checked
 * before; nothing is believed. Pure functions, but for memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "session.h"

#define KERNEL_LOGGER_NAME "NT Kernel Logger"
#define GLOBAL_LOGGER_NAME "GlobalLogger"
extern const struct etw_guid system_trace_control_guid;

/* A refusal as it goes to the client: a Win32 code, and one line for people. */
struct refusal {
    uint32_t status;
    char reason[512];
};
/* Fills it in and returns -EINVAL; what is cut is only the end of the line. */
int refuse(struct refusal *f, uint32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What the properties make of the session. */
struct session_plan {
    bool kernel;
    uint32_t masks[8];
    uint32_t inert_flags;
    uint64_t file_bytes_max; /* 0: no limit */
};

/* MaximumFileSize in bytes; 0: no limit. */
uint64_t session_file_bytes(const struct session_properties *p);

/* Checks p and writes the values that will hold into it. kernel_call: by StartKernelTrace's rules.
 * 0, or a negative errno and the refusal. */
int session_properties_adjust(struct session_properties *p, bool kernel_call, unsigned cpus,
                              const struct etw_conf *conf, struct session_plan *ret,
                              struct refusal *refusal);

/* EnableFlags of a kernel session. `strict`: undefined bits are refused (StartKernelTrace), else
 * ignored (StartTrace). */
int session_flags_check(uint32_t flags, bool strict, struct session_plan *ret,
                        struct refusal *refusal);

/* One id of a list of events that want stacks: refused when it names an event that is logged under
 * these masks, since stacks are not there yet; ignored as ETW does when nothing decodes it. */
int session_stack_check(const struct etw_guid *guid, uint32_t type, const uint32_t masks[8],
                        struct refusal *refusal);
