/* SPDX-License-Identifier: Apache-2.0
 *
 * Every limit of the system with its reason, and the table of etwd.conf keys. `etwd -o KEY=VALUE`
 * sets any key.
 */
#pragma once

/* ETW documents 1024 characters for session and file names, without the NUL. */
#define ETW_NAME_MAX 1024
/* One control message, SOCK_SEQPACKET: the largest request (256 stack ids, two names of 1024
 * characters) is below 16 KiB; long lists are paged. */
#define ETW_MESSAGE_MAX 65536
/* SCM_MAX_FD of the kernel: 253 descriptors a message. */
#define ETW_MESSAGE_FDS_MAX 253
/* StartKernelTrace documents it. */
#define ETW_STACK_IDS_MAX 256
/* The size field of an event is 16 bits. */
#define ETW_EVENT_MAX 65535
/* Buffer size in KiB: ETW's limits since Windows 8; 1 to 3 are raised to 4. */
#define ETW_BUFFER_KB_MIN 4
#define ETW_BUFFER_KB_MAX 16384
#define ETW_BUFFER_KB_DEFAULT 64
/* Buffers above the minimum, ETW's habit. */
#define ETW_BUFFERS_EXTRA 20
/* A process's command line in an event: what fits any session's buffer with the other fields. */
#define ETW_COMMAND_LINE_MAX 16384
/* A path as the kernel gives it. */
#define ETW_PATH_MAX 4096
/* ProcessTrace documents it. */
#define ETW_PROCESS_TRACE_HANDLES_MAX 64
/* Handles: generation << 16 | id; ids from 2; the kernel logger's is fixed. */
#define ETW_KERNEL_LOGGER_ID 0xFFFFu
#define ETW_FIRST_LOGGER_ID 2u

/* CONF(key, field, default, minimum, maximum, why): unsigned numbers, sizes in the unit the key
 * names. The first column is what `-o KEY=VALUE` and etwd.conf know. */
#define ETW_CONF_KEYS(CONF)                                                                        \
    CONF(MaxSessions, max_sessions, 64, 1, 4096, "ETW's default; ids and names stay readable")     \
    CONF(MaxConnections, max_connections, 1024, 1, 100000,                                         \
         "per uid: one per process is usual, more is a leak")                                      \
    CONF(MaxBufferMemoryMB, max_buffer_memory_mb, 1024, 1, 1048576,                                \
         "per uid: buffers of all its sessions at their maximum")                                  \
    CONF(KernelRingKB, kernel_ring_kb, 4096, 64, 1048576,                                          \
         "per CPU: 4 MiB hold 8 ms at 4.4 million events/s, the passes come every 1 to 5 ms")      \
    CONF(KernelDefaultBuffers, kernel_default_buffers, 256, 4, 65536,                              \
         "maximum buffers of a kernel session that names none: 16 MiB ride out a disk's pause")    \
    CONF(PassIntervalUs, pass_interval_us, 3000, 200, 100000,                                      \
         "between router passes while a kernel session runs")                                      \
    CONF(ImageTimeoutMs, image_timeout_ms, 2000, 10, 60000,                                        \
         "an image record waits this long for its identity, then goes without")

struct etw_conf {
#define CONF(key, field, def, min, max, why) unsigned long field;
    ETW_CONF_KEYS(CONF)
#undef CONF
};

/* All defaults. */
void etw_conf_init(struct etw_conf *conf);
/* "KEY=VALUE". 0; -ENOENT unknown key; -EINVAL not a number; -ERANGE outside the limits. On an
 * error *ret_reason (static text, or NULL to ignore) says what is wrong. */
int etw_conf_set(struct etw_conf *conf, const char *assignment, const char **ret_reason);
