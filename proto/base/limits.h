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
/* A manifest of events: the largest of Windows take 2 MiB. One is wholly in memory while it is
 * read.
 */
#define ETW_MANIFEST_MAX (32u << 20)
/* SCM_MAX_FD of the kernel: 253 descriptors a message. */
#define ETW_MESSAGE_FDS_MAX 253
/* QueryAllTraces takes at least as many elements as ETW documents, where MaxSessions= is lower. */
#define ETW_SESSIONS_DOCUMENTED 64
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
/* Descriptors that libetw holds during a call: above what programs count on (0 to 2, and what they
 * close or dup to by number). */
#define ETW_CLIENT_FD_MIN 100
/* A daemon that accepted a connection says hello at once; a stopped one never does. */
#define ETW_CLIENT_HELLO_MS 10000
/* EventRegister waits this long for a daemon that does not answer: programs start in spite of it.
 */
#define ETW_CLIENT_REGISTER_MS 1000
/* A thread without a ring waits this long for one at its first event, and the next thread (or its
 * next event) does so only this much later. */
#define ETW_CLIENT_RING_MS 10
#define ETW_CLIENT_RING_AGAIN_MS 100
/* Before a WAKE goes to the daemon the descriptor is looked at when the last look is older: a look
 * costs as much as the WAKE. */
#define ETW_CLIENT_VERIFY_MS 100
/* Between two attempts to make a daemon end a connection whose descriptor the program closed. */
#define ETW_CLIENT_KICK_MS 1000
/* A daemon that refuses a process is asked again after this time, twice as long each time. */
#define ETW_CLIENT_RETRY_MS 10
#define ETW_CLIENT_RETRY_MAX_MS 60000
/* Provider traits: names and groups are below 256 bytes by ETW's advice; one message takes them. */
#define ETW_TRAITS_MAX 4096
/* ProcessTrace documents it. */
#define ETW_PROCESS_TRACE_HANDLES_MAX 64
/* Traces opened by OpenTrace in one process: each holds a descriptor, of which few processes may
 * have more. */
#define ETW_TRACE_HANDLES_MAX 65536
/* Buffers that ProcessTrace holds open at once, since they overlap in time: 64 files of 256
 * processors each; and the memory behind them: 512 processors with buffers of 1 MiB, twice. A file
 * that overlaps more is damaged or made to hurt; it is delivered less well sorted. */
#define ETW_MERGE_BUFFERS_MAX 16384
#define ETW_MERGE_BYTES_MAX (1ULL << 30)
/* Handles: generation << 16 | id; ids from 2; the kernel logger's is fixed. */
#define ETW_KERNEL_LOGGER_ID 0xFFFFu
#define ETW_GLOBAL_LOGGER_ID 1u
#define ETW_FIRST_LOGGER_ID 2u

/* Executable files whose load span and build-id etwd keeps: a desktop maps 2 000 to 5 000, a build
 * machine four times that; an entry takes about 200 bytes. */
#define ETW_IMAGE_CACHE_MAX 16384
/* Executable mappings of one process that are followed: big programs have some hundreds, the
 * largest two thousand. Each fork tells all of them again, so a hostile one must not have any
 * number. */
#define ETW_PROCESS_IMAGES_MAX 4096
/* Files waiting for etwd-image, and records waiting for their answers: a rundown of a big machine
 * asks for all its files at once; beyond that records go without identity. */
#define ETW_IMAGE_QUEUE_MAX 4096
#define ETW_IMAGE_WAITERS_MAX 65536
/* Requests on the way to etwd-image: all fit its socket, so that sending never has to wait. */
#define ETW_IMAGE_IN_FLIGHT_MAX 16
/* An answer "no data" that may change (the process was gone, the file could not be opened) holds
 * this long: a burst of short-lived processes asks once, a later one has its chance. */
#define ETW_IMAGE_NEGATIVE_MS 1000
/* A worker of etwd-image that does not answer is killed: reading the headers of a file takes
 * microseconds, 2 s is a file system that hangs. */
#define ETW_IMAGE_WORKER_MS 2000
/* Killed workers that do not go away (asleep in a dead file system) before etwd-image stops making
 * new ones: they hold memory and a process id each. */
#define ETW_IMAGE_WORKERS_STUCK_MAX 8
/* etwd gives etwd-image up when its oldest request waits longer: every request ahead of it may
 * have cost a worker its time. */
#define ETW_IMAGE_HELPER_MS ((ETW_IMAGE_IN_FLIGHT_MAX + 1) * ETW_IMAGE_WORKER_MS)
/* Disks, logical disks and network interfaces that a trace describes, of each kind: a container
 * host has an interface a container; more would not be read by anybody. */
#define ETW_SYSCONFIG_ITEMS_MAX 1024
/* Program headers of an ELF file: what the kernel's own loader takes (64 KiB of 56 bytes). */
#define ETW_ELF_PHDRS_MAX 1170
/* Notes looked at in search of the build-id, which stands among the first in practice. */
#define ETW_ELF_NOTES_MAX 256
/* /proc/PID/mountinfo: 100 000 mounts of 160 bytes. */
#define ETW_MOUNTINFO_MAX (16 * 1024 * 1024)

/* etwd's priority where it is started by root: a ring of 512 KiB is full in 16 ms at 250 000 events
 * a second, and two threads that never rest keep a third at the same priority waiting for longer.
 */
#define ETWD_NICE (-10)
/* A start that fails takes this long where a service manager repeats it without a pause. */
#define ETWD_FAILED_START_S 1
/* Requests that etwd's io_uring takes before it submits: a pass closes at most a few dozen buffers;
 * more just means one more system call. */
#define ETWD_URING_ENTRIES 256
/* Kernel threads for writes that would block: local disks are served well by four, and a file
 * system that hangs holds no more. */
#define ETWD_URING_WORKERS 4
/* Writes of one session on the way at once: enough to keep a disk busy with 64 KiB buffers. */
#define ETWD_SINK_DEPTH 8
/* Buffers of a circular file: etwd knows of each how many events it holds, 4 MiB in all. 64 GiB of
 * default buffers; who wants more takes larger ones. */
#define ETWD_CIRCULAR_BUFFERS_MAX (1u << 20)
/* The header of a running session's file is rewritten at most this often, so that a file that
 * nobody closed is short of the truth by at most this. */
#define ETWD_HEADER_INTERVAL_MS 2000
/* Between two messages that a session's file cannot be written. */
#define ETWD_TROUBLE_LOG_S 60
/* Late buffers of a session open at once: one takes records of one CPU in time order; more of them
 * would only hold memory, fewer would close half-empty ones when answers come out of order. */
#define ETWD_LATE_BUFFERS 8
/* Memory of a session is faulted in and registered by pieces of this size, the first one smaller,
 * since many sessions never need more; unused pieces are given back after this time. */
#define ETWD_RANGE_BYTES (1024 * 1024)
#define ETWD_FIRST_RANGE_BYTES (256 * 1024)
#define ETWD_RANGE_IDLE_S 60
/* Between two ClockSync events of a session: a clock that drifts by 20 ppm is off by 12 ms then. */
#define ETWD_CLOCK_SYNC_S 600
/* Bytes of records that a router pass takes before it lets the loop look at other things: about
 * 2 ms of work. */
#define ETWD_PASS_BYTES (4 * 1024 * 1024)
/* STOP and FLUSH wait at most this long for records still under way. */
#define ETWD_DRAIN_MS 500
/* A ring whose writer is busy with an event older than this holds the others up no longer: it was
 * stopped or lost its CPU, and what it writes then is late. Readers of live events notice 0.1 s. */
#define ETWD_BUSY_MAX_MS 100
/* Requests of one connection that wait for an answer; more are read when some are answered. */
#define ETWD_CONNECTION_REQUESTS 16
/* Replies that wait because the client does not read; then nothing more is read from it, and when
 * it takes none of them for this time it is cut off. */
#define ETWD_CONNECTION_REPLIES 32
#define ETWD_CONNECTION_STALL_S 10
/* Messages read from one connection before the others have their turn. */
#define ETWD_CONNECTION_BATCH 16
/* Users whose calls that may sleep have threads of their own, two each; more share one. */
#define ETWD_UID_WORKERS_MAX 64
/* The threads of a user who has neither connection nor session go after this time. */
#define ETWD_UID_WORKER_IDLE_S 2
/* At its end etwd waits this long for them to close what clients have left. */
#define ETWD_UID_WORKER_SETTLE_MS 500
/* Supplementary groups of a peer that are looked at (the kernel's limit). */
#define ETWD_GROUPS_MAX 65536
/* Bytes of sessions in one page of a list: below ETW_MESSAGE_MAX with room for one more session. */
#define ETWD_LIST_BYTES 49152
/* Bytes of a mark's text: with its header it fits the smallest buffer. */
#define ETWD_MARK_MAX 2048
/* Threads of a process in another pid namespace that are looked at to find the one that claims a
 * ring, and how often: each is a file of /proc, and the loop thread reads them. */
#define ETWD_THREADS_LOOKED_AT_MAX 1024
#define ETWD_THREADS_LOOK_MS 50
/* Tables of one registration that wait for records of older generations: as many changes while one
 * writer is stopped in the middle of an event. Older ones go, their records are invalid then. */
#define ETWD_TABLES_MAX 64
/* Wakes and requests for rings that are heeded from one process: a look at the rings each. */
#define ETWD_PROCESS_CALLS_PER_S 1000
/* Requests of one process that wait until it has mapped its next arena. */
#define ETWD_RINGS_WAITING_MAX 64
/* Filters of one enable (MAX_EVENT_FILTERS_COUNT of a recent SDK), and bytes of the two whose size
 * ETW limits. */
#define ETW_FILTERS_MAX 13
#define ETW_FILTER_DATA_MAX 1024
/* Providers in one page of a list: each may name every session and many processes. */
#define ETWD_LIST_PROVIDERS 64
/* The shortest flush timer of EVENT_TRACE_USE_MS_FLUSH_TIMER, in ms: every flush writes a buffer of
 * each CPU. */
#define ETWD_FLUSH_MS_MIN 100

/* CONF(key, field, default, minimum, maximum, why): unsigned numbers, sizes in the unit the key
 * names. The first column is what `-o KEY=VALUE` and etwd.conf know. */
#define ETW_CONF_KEYS(CONF)                                                                        \
    CONF(MaxSessions, max_sessions, 64, 1, 4096, "ETW's default; ids and names stay readable")     \
    CONF(MaxSessionsPerUser, max_sessions_per_user, 32, 1, 4096,                                   \
         "of one uid that is neither root nor in group etw: leaves the others room")               \
    CONF(MaxConnections, max_connections, 1024, 1, 100000,                                         \
         "per uid: one per process is usual, more is a leak")                                      \
    CONF(MaxBufferMemoryMB, max_buffer_memory_mb, 1024, 1, 1048576,                                \
         "per uid: buffers of all its sessions at their maximum")                                  \
    CONF(MaxRegistrationsPerUser, max_registrations_per_user, 16384, 1, 1000000,                   \
         "of one uid: a thousand processes of sixteen providers each")                             \
    CONF(MaxSessionsPerProvider, max_sessions_per_provider, 8, 1, 32, "ETW's limit")               \
    CONF(ArenaMemoryMB, arena_memory_mb, 1024, 1, 1048576,                                         \
         "per uid: rings that have memory; a process takes two at first")                          \
    CONF(RingSizeKB, ring_size_kb, 512, 4, 16384,                                                  \
         "of one thread, a power of two: a burst of 3500 events, or 4 ms at a million a second")   \
    CONF(FastClock, fast_clock, 0, 0, 1,                                                           \
         "1: providers stamp by the time stamp counter while it agrees with the clock")            \
    CONF(FdStoreMax, fd_store_max, 10000, 16, 1000000,                                             \
         "descriptors in the service manager's store, three a process, two a session, one a "      \
         "processor and kernel program: not above its own FileDescriptorStoreMax=, beyond which "  \
         "it drops them silently")                                                                 \
    CONF(ShutdownTimeout, shutdown_timeout, 60, 1, 86400,                                          \
         "seconds from SIGTERM until etwd leaves files unclosed that do not let it write: below "  \
         "systemd's 90 s")                                                                         \
    CONF(KernelRingKB, kernel_ring_kb, 4096, 64, 1048576,                                          \
         "per CPU: 4 MiB hold 8 ms at 4.4 million events/s, the passes come every 1 to 5 ms")      \
    CONF(KernelDefaultBuffers, kernel_default_buffers, 256, 4, 65536,                              \
         "maximum buffers of a kernel session that names none: 16 MiB ride out a disk's pause")    \
    CONF(IoUring, io_uring, 1, 0, 1, "0: epoll and a writer thread, as where io_uring is refused") \
    CONF(DirectIO, direct_io, 0, 0, 1,                                                             \
         "1: log files bypass the page cache where alignment allows: more CPU, other files stay "  \
         "cached")                                                                                 \
    CONF(FileCacheMB, file_cache_mb, 4, 0, 1048576,                                                \
         "of each log file, the newest part: what is older is dropped from the page cache, which " \
         "belongs to the machine's programs; 0: the kernel decides")                               \
    CONF(SyncInterval, sync_interval, 30, 0, 86400,                                                \
         "seconds until what was written to a log file is on the disk, at most; 0: the kernel "    \
         "decides")                                                                                \
    CONF(PassIntervalUs, pass_interval_us, 3000, 200, 100000,                                      \
         "between router passes while a kernel session runs")                                      \
    CONF(ImageTimeoutMs, image_timeout_ms, 2000, 10, 60000,                                        \
         "an image record waits this long for its identity, then goes without")

/* Keys with words: CONF_TEXT(key, field, why). */
#define ETW_CONF_TEXT_MAX 256
#define ETW_CONF_TEXTS(CONF_TEXT)                                                                  \
    CONF_TEXT(ExtraFileSystems, extra_file_systems,                                                \
              "types of file systems (nfs4, fuse.sshfs), with spaces between them, to which etwd " \
              "writes log files beside local ones: on threads of the file's owner, since their "   \
              "servers may keep a call waiting")

/* RELOADED(field, from): keys whose change in etwd.conf takes effect without a restart: for what
 * is asked from then on, or for sessions that are started from then on. All others stay as they
 * were when etwd was started. */
#define ETW_CONF_RELOADED(RELOADED)                                                                \
    RELOADED(max_sessions, "at once")                                                              \
    RELOADED(max_sessions_per_user, "at once")                                                     \
    RELOADED(max_connections, "at once")                                                           \
    RELOADED(max_buffer_memory_mb, "at once")                                                      \
    RELOADED(max_registrations_per_user, "at once")                                                \
    RELOADED(max_sessions_per_provider, "at once")                                                 \
    RELOADED(arena_memory_mb, "at once")                                                           \
    RELOADED(shutdown_timeout, "at once")                                                          \
    RELOADED(kernel_default_buffers, "for the next session")                                       \
    RELOADED(direct_io, "for the next session")                                                    \
    RELOADED(file_cache_mb, "for the next session")                                                \
    RELOADED(sync_interval, "for the next session")                                                \
    RELOADED(extra_file_systems, "for the next session")

struct etw_conf {
#define CONF(key, field, def, min, max, why) unsigned long field;
    ETW_CONF_KEYS(CONF)
#undef CONF
#define CONF_TEXT(key, field, why) char field[ETW_CONF_TEXT_MAX];
    ETW_CONF_TEXTS(CONF_TEXT)
#undef CONF_TEXT
};

/* All defaults. */
void etw_conf_init(struct etw_conf *conf);
/* "KEY=VALUE"; no value: the default again. 0; -ENOENT unknown key; -EINVAL not a number; -ERANGE
 * outside the limits. On an error *ret_reason (static text, or NULL to ignore) says what is wrong.
 */
int etw_conf_set(struct etw_conf *conf, const char *assignment, const char **ret_reason);
/* Takes the values of `next` that need no restart. Each key that differs is told, with when it
 * takes effect, NULL: at the next start. */
void etw_conf_reload(struct etw_conf *conf, const struct etw_conf *next,
                     void (*changed)(void *userdata, const char *key, const char *from),
                     void *userdata);
/* When a change of this key in etwd.conf takes effect: "at once"; NULL: at the next start. */
const char *etw_conf_takes_effect(const char *key);
