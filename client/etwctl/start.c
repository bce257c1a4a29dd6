/* SPDX-License-Identifier: Apache-2.0
 *
 * start, and what record shares with it: options of a new session, its log file, the request. One
 * thread.
 */
#include "sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/winerror.h"
#include "etl/classes.h"
#include "etl/layout.h"
#include "etwctl.h"
#include "options.h"

/* 9e814aad-3204-11d2-9a82-006008a86939, SystemTraceControlGuid */
static const struct etw_guid kernel_guid =
    ETW_GUID(0x9e814aad, 0x3204, 0x11d2, 0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39);

/* Without --flags: cheap, and enough to say who ran what. */
#define DEFAULT_FLAGS "process,thread,image"

enum {
    OPT_KERNEL = OPT_START,
    OPT_FLAGS,
    OPT_STACKS,
    OPT_PROFILE_INTERVAL,
    OPT_HEAP,
    OPT_NAME,
    OPT_SAMPLE,
    OPT_MODE,
    OPT_REAL_TIME,
    OPT_BUFFER_SIZE,
    OPT_BUFFERS,
    OPT_MAX_SIZE,
    OPT_FLUSH_TIMER,
    OPT_LATENCY,
    OPT_CLOCK,
    OPT_BOUND,
    OPT_STRICT,
};

const struct option start_long_options[] = {
    COMMON_OPTIONS,
    {"kernel", no_argument, NULL, OPT_KERNEL},
    {"flags", required_argument, NULL, OPT_FLAGS},
    {"stacks", required_argument, NULL, OPT_STACKS},
    {"profile-interval", required_argument, NULL, OPT_PROFILE_INTERVAL},
    {"heap", required_argument, NULL, OPT_HEAP},
    {"name", required_argument, NULL, OPT_NAME},
    {"sample", required_argument, NULL, OPT_SAMPLE},
    {"provider", required_argument, NULL, 'p'},
    {"output", required_argument, NULL, 'o'},
    {"mode", required_argument, NULL, OPT_MODE},
    {"real-time", no_argument, NULL, OPT_REAL_TIME},
    {"buffer-size", required_argument, NULL, OPT_BUFFER_SIZE},
    {"buffers", required_argument, NULL, OPT_BUFFERS},
    {"max-size", required_argument, NULL, OPT_MAX_SIZE},
    {"flush-timer", required_argument, NULL, OPT_FLUSH_TIMER},
    {"latency", required_argument, NULL, OPT_LATENCY},
    {"clock", required_argument, NULL, OPT_CLOCK},
    {"bound", no_argument, NULL, OPT_BOUND},
    {"strict", no_argument, NULL, OPT_STRICT},
    {0},
};

static int parse_mode(const char *verb, const char *arg, uint32_t *mode)
{
    static const char *const later[] = {"newfile", "compressed"};
    static const struct {
        const char *word;
        uint32_t bit;
    } modes[] = {
        {"sequential", ETL_MODE_SEQUENTIAL}, {"circular", ETL_MODE_CIRCULAR},
        {"append", ETL_MODE_APPEND},         {"preallocate", ETL_MODE_PREALLOCATE},
        {"buffering", ETL_MODE_BUFFERING},
    };
    _cleanup_free_ char *copy = strdup(arg);
    char *state = NULL;

    if (!copy)
        return bad_option(verb, "--mode", arg, -ENOMEM);
    for (char *word = strtok_r(copy, ",", &state); word; word = strtok_r(NULL, ",", &state)) {
        uint32_t bit = 0;
        for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
            if (!strcmp(word, modes[i].word))
                bit = modes[i].bit;
        *mode |= bit;
        if (bit)
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(later); i++)
            if (!strcmp(word, later[i])) {
                char what[64];
                (void) snprintf(what, sizeof(what), "--mode %s", word);
                return not_yet(verb, what);
            }
        return bad_option(verb, "--mode", word, -EINVAL);
    }
    return EXIT_OK;
}

static int parse_buffers(const char *verb, const char *arg, struct start_options *s)
{
    _cleanup_free_ char *copy = strdup(arg);
    char *colon;
    int r;

    if (!copy)
        return bad_option(verb, "--buffers", arg, -ENOMEM);
    colon = strchr(copy, ':');
    if (colon)
        *colon = '\0';
    r = parse_u32(copy, &s->minimum_buffers);
    if (r == 0 && colon)
        r = parse_u32(colon + 1, &s->maximum_buffers);
    if (r < 0)
        return bad_option(verb, "--buffers", arg, r);
    if (colon && s->maximum_buffers < s->minimum_buffers) {
        say("%s: --buffers %s: the maximum is below the minimum", verb, arg);
        return usage_error(verb);
    }
    return EXIT_OK;
}

static int take_value(struct start_options *s, const char *verb, int opt, const char *arg)
{
    uint64_t v;
    int r;

    switch (opt) {
    case OPT_BUFFER_SIZE:
        r = parse_size(arg, 1024, &v);
        if (r == 0 && (v % 1024 || v / 1024 < 1 || v / 1024 > ETW_BUFFER_KB_MAX))
            r = -ERANGE;
        if (r < 0)
            return bad_option(verb, "--buffer-size", arg, r);
        s->buffer_size_kb = (uint32_t) (v / 1024);
        return EXIT_OK;
    case OPT_MAX_SIZE:
        r = parse_size(arg, 1024 * 1024, &v);
        if (r == 0 && (v % 1024 || v == 0 || v / 1024 > UINT32_MAX))
            r = -ERANGE;
        if (r < 0)
            return bad_option(verb, "--max-size", arg, r);
        s->maximum_bytes = v;
        return EXIT_OK;
    case OPT_FLUSH_TIMER:
        r = parse_duration(arg, ETW_NSEC_PER_SEC, &v);
        if (r == 0 && (v % ETW_NSEC_PER_SEC || v == 0 || v / ETW_NSEC_PER_SEC > UINT32_MAX)) {
            say("%s: --flush-timer %s: whole seconds are wanted, 1s or more", verb, arg);
            return usage_error(verb);
        }
        if (r < 0)
            return bad_option(verb, "--flush-timer", arg, r);
        s->flush_timer_s = (uint32_t) (v / ETW_NSEC_PER_SEC);
        return EXIT_OK;
    case OPT_CLOCK:
        if (!strcmp(arg, "qpc"))
            s->clock = ETW_CLOCK_QPC;
        else if (!strcmp(arg, "system"))
            s->clock = ETW_CLOCK_SYSTEM;
        else if (!strcmp(arg, "cycle"))
            s->clock = ETW_CLOCK_CYCLE;
        else
            return bad_option(verb, "--clock", arg, -EINVAL);
        return EXIT_OK;
    default:
        return usage_error(verb);
    }
}

static void start_help(const char *verb)
{
    bool record = !strcmp(verb, "record");

    printf("etwctl %s [OPTION]... %s\n"
           "  -o, --output FILE        the .etl file; an existing one is overwritten\n"
           "      --kernel             the kernel logger, session '%s'\n"
           "      --flags F,...        its events: names or 0xHEX (default %s)\n"
           "  -p, --provider P         PROVIDER[:LEVEL[:ANY[:ALL]]]: events of programs; may be\n"
           "                           repeated; see `etwctl enable --help`\n"
           "      --mode M,...         how the file is written: sequential; circular: of the size\n"
           "                           --max-size, the newest events; preallocate: that size is\n"
           "                           reserved on the disk; append: behind what is in the file;\n"
           "                           buffering: no file, the newest events stay in memory for\n"
           "                           `etwctl snapshot`\n"
           "      --real-time          also for consumers that read along\n"
           "      --buffer-size K      of one buffer, in KiB or with K, M (default 64K)\n"
           "      --buffers MIN[:MAX]  number of buffers\n"
           "      --max-size M         of the file, in MiB or with K, M, G; then logging ends\n"
           "      --flush-timer T      write buffers at least this often\n"
           "      --clock C            of the time stamps: qpc (the default), system, cycle\n",
           verb,
           record ? "--kernel | -p PROVIDER -o FILE -- COMMAND [ARGUMENT]..."
                  : "NAME -o FILE | --kernel -o FILE",
           KERNEL_SESSION, DEFAULT_FLAGS);
    if (record)
        printf("      --strict             exit 4 when events were lost\n"
               "COMMAND is traced from its first instruction; its exit status is etwctl's. The\n"
               "first Ctrl-C ends the trace and keeps the file, the second quits.\n");
    else
        printf("      --bound              stay, and end the session on Ctrl-C\n");
    printf("      --json, --no-legend, --help\n"
           "Kernel flags:");
    for (const struct etl_enable_flag *f = etl_enable_flags; f->name; f++)
        if (f->support == ETL_FLAG_PROBED)
            printf(" %s", f->name);
    printf("\n");
}

bool start_option(struct start_options *s, const char *verb, int opt, const char *arg,
                  int *ret_code)
{
    bool record = !strcmp(verb, "record");
    int r = EXIT_OK;

    switch (opt) {
    case 'o':
        s->file = arg;
        break;
    case OPT_KERNEL:
        s->kernel = true;
        break;
    case OPT_FLAGS:
        r = parse_kernel_flags(arg, &s->flags);
        s->has_flags = true;
        break;
    case OPT_REAL_TIME:
        s->real_time = true;
        break;
    case OPT_BOUND:
        s->bound = true;
        break;
    case OPT_STRICT:
        if (!record) {
            say("%s: --strict belongs to `record`", verb);
            r = usage_error(verb);
        }
        s->strict = true;
        break;
    case OPT_JSON:
        s->json = true;
        break;
    case OPT_NO_LEGEND:
        s->no_legend = true;
        break;
    case OPT_MODE:
        r = parse_mode(verb, arg, &s->mode);
        break;
    case OPT_BUFFERS:
        r = parse_buffers(verb, arg, s);
        break;
    case OPT_BUFFER_SIZE:
    case OPT_MAX_SIZE:
    case OPT_FLUSH_TIMER:
    case OPT_CLOCK:
        r = take_value(s, verb, opt, arg);
        break;
    case 'p':
        r = provider_args_add(&s->providers, verb, arg);
        break;
    case OPT_STACKS:
        r = not_yet(verb, "--stacks (call stacks)");
        break;
    case OPT_PROFILE_INTERVAL:
        r = not_yet(verb, "--profile-interval (sampled profile)");
        break;
    case OPT_HEAP:
    case OPT_NAME:
    case OPT_SAMPLE:
        r = not_yet(verb, "--heap, --name, --sample (heap tracing)");
        break;
    case OPT_LATENCY:
        r = not_yet(verb, "--latency (live consumers)");
        break;
    case OPT_HELP:
    case 'h':
        start_help(verb);
        *ret_code = EXIT_OK;
        return false;
    default:
        r = usage_error(verb);
        break;
    }
    *ret_code = r;
    return r == EXIT_OK;
}

int start_options_check(struct start_options *s, const char *verb)
{
    int r;

    if (s->has_flags && !s->kernel) {
        say("%s: --flags belongs to --kernel", verb);
        return usage_error(verb);
    }
    if (s->kernel && s->providers.n > 0) {
        say("%s: the kernel logger takes the kernel's events alone: start another session for -p",
            verb);
        return usage_error(verb);
    }
    if (s->kernel && !s->has_flags) {
        r = parse_kernel_flags(DEFAULT_FLAGS, &s->flags);
        if (r != EXIT_OK)
            return r;
    }
    if (s->kernel) {
        if (s->name) {
            say("%s: the kernel logger is always called '%s': no NAME besides --kernel", verb,
                KERNEL_SESSION);
            return usage_error(verb);
        }
        s->name = KERNEL_SESSION;
    }
    if (s->mode & ETL_MODE_BUFFERING) {
        if (s->file) {
            say("%s: --mode buffering writes no file: take -o to `etwctl snapshot`", verb);
            return usage_error(verb);
        }
        if (s->real_time || s->mode & ~(uint32_t) ETL_MODE_BUFFERING || s->maximum_bytes) {
            say("%s: --mode buffering goes with no other mode and with no file's size", verb);
            return usage_error(verb);
        }
        if (!strcmp(verb, "record")) {
            say("%s: --mode buffering would leave nothing behind", verb);
            return usage_error(verb);
        }
    }
    if (!s->file && s->real_time)
        return not_yet(verb, "--real-time without -o FILE (live consumers)");
    if (!s->file && !(s->mode & ETL_MODE_BUFFERING)) {
        say("%s: -o FILE is wanted: where the events go", verb);
        return usage_error(verb);
    }
    if (s->file && (!*s->file || strlen(s->file) > ETW_NAME_MAX)) {
        say("%s: -o: a file name of 1 to %d bytes is wanted", verb, ETW_NAME_MAX);
        return usage_error(verb);
    }
    if (s->name && (!*s->name || strlen(s->name) > ETW_NAME_MAX)) {
        say("%s: a session name of 1 to %d bytes is wanted", verb, ETW_NAME_MAX);
        return usage_error(verb);
    }
    if (s->real_time)
        s->mode |= ETL_MODE_REAL_TIME;
    else if (!(s->mode & (ETL_MODE_CIRCULAR | ETL_MODE_BUFFERING)))
        s->mode |= ETL_MODE_SEQUENTIAL;
    if (s->mode & (ETL_MODE_CIRCULAR | ETL_MODE_PREALLOCATE) && s->maximum_bytes == 0) {
        say("%s: --mode %s: --max-size is wanted: how large the file may be", verb,
            s->mode & ETL_MODE_CIRCULAR ? "circular" : "preallocate");
        return usage_error(verb);
    }
    return EXIT_OK;
}

/* The file as a descriptor made with this user's rights. Never truncates: etwd does, once it has
 * agreed to the session. Negative errno. */
static int open_log_file(const char *path, bool *ret_created)
{
    int fd;

    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
    if (fd >= 0) {
        *ret_created = true;
        return fd;
    }
    if (errno != EEXIST)
        return -errno;
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    *ret_created = false;
    return fd;
}

int log_file_open(const char *name, const char *path, bool *ret_created)
{
    int fd = open_log_file(path, ret_created);

    if (fd >= 0)
        return fd;
    say("%s: the log file cannot be opened for writing: %s", name, strerror(-fd));
    return fd == -EACCES || fd == -EPERM ? -EXIT_DENIED : -EXIT_ERROR;
}

/* Takes away the file that this call made: only if the name still means it. */
void log_file_unlink(const char *path, int fd)
{
    struct stat by_name, by_fd;

    if (fstat(fd, &by_fd) == 0 && lstat(path, &by_name) == 0 && by_fd.st_dev == by_name.st_dev &&
        by_fd.st_ino == by_name.st_ino)
        (void) unlink(path);
}

char *absolute_path(const char *path)
{
    _cleanup_free_ char *cwd = NULL;
    char *abs;

    if (path[0] == '/')
        return strdup(path);
    cwd = getcwd(NULL, 0);
    if (!cwd || asprintf(&abs, "%s/%s", cwd, path) < 0)
        return NULL;
    return abs;
}

static int32_t bias_minutes(void)
{
    time_t now = time(NULL);
    struct tm tm;

    return localtime_r(&now, &tm) ? (int32_t) (-tm.tm_gmtoff / 60) : 0;
}

struct search {
    const char *name;
    uint32_t uid;
    uint32_t pid;
    bool found;
};

static int find_session(const Etwd__Session *s, void *userdata)
{
    struct search *search = userdata;

    if (!s->properties || strcasecmp(s->properties->name, search->name) != 0)
        return 0;
    search->uid = s->owner_uid;
    search->pid = s->owner_pid;
    search->found = true;
    return 1;
}

/* Refused since it runs already: whose is it? */
static int explain_exists(struct conn *c, const struct start_options *s, const Etwd__Message *reply,
                          const char *subject)
{
    struct search search = {.name = s->name};
    char owner[SESSION_OWNER_MAX];

    (void) session_each(c, find_session, &search);
    if (!search.found)
        return reply_explain(subject, reply);
    say("%s runs already: started by %s (uid %u, process %u): stop it with `etwctl stop %s%s%s` "
        "(ERROR_ALREADY_EXISTS)",
        subject, session_owner(search.uid, owner), search.uid, search.pid,
        s->kernel ? "--kernel" : "'", s->kernel ? "" : s->name, s->kernel ? "" : "'");
    return EXIT_ERROR;
}

int session_start(struct conn *c, const struct start_options *s, Etwd__Message **ret_reply)
{
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    Etwd__StartSession start = ETWD__START_SESSION__INIT;
    Etwd__Message m = ETWD__MESSAGE__INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_free_ char *path = s->file ? absolute_path(s->file) : NULL;
    _cleanup_free_ char *subject = NULL;
    _cleanup_close_ int fd = -1;
    struct etw_guid guid = {0};
    bool created = false;
    int r;

    if (asprintf(&subject, "session '%s'", s->name) < 0) {
        subject = NULL;
        return conn_explain(c, -ENOMEM);
    }
    if (s->file && !path) {
        say("%s: the working directory cannot be read: %s", s->file, strerror(errno));
        return EXIT_ERROR;
    }
    if (path) {
        fd = log_file_open(s->file, path, &created);
        if (fd < 0)
            return -fd;
    }

    if (s->kernel)
        guid = kernel_guid;
    p.name = (char *) s->name;
    p.guid.data = (uint8_t *) &guid;
    p.guid.len = sizeof(guid);
    p.clock = s->clock ? s->clock : s->mode & ETL_MODE_APPEND ? ETW_CLOCK_SYSTEM : ETW_CLOCK_QPC;
    p.buffer_size_kb = s->buffer_size_kb;
    p.minimum_buffers = s->minimum_buffers;
    p.maximum_buffers = s->maximum_buffers;
    p.log_file_mode = s->mode;
    if (s->maximum_bytes % (1024 * 1024)) {
        p.log_file_mode |= ETL_MODE_USE_KBYTES_FOR_SIZE;
        p.maximum_file_size = (uint32_t) (s->maximum_bytes / 1024);
    } else {
        p.maximum_file_size = (uint32_t) (s->maximum_bytes / (1024 * 1024));
    }
    p.flush_timer_s = s->flush_timer_s;
    p.enable_flags = s->flags;
    p.log_file = path ? path : (char *) "";
    p.bias_minutes = bias_minutes();
    start.properties = &p;
    start.bound = s->bound;
    start.kernel = s->kernel;
    start.created_file = created;
    m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    m.start_session = &start;

    r = conn_call(c, &m, &fd, fd >= 0 ? 1 : 0, &reply);
    if (r < 0) {
        if (created)
            log_file_unlink(path, fd);
        return conn_explain(c, r);
    }
    if (reply->status != ETW_ERROR_SUCCESS) {
        if (created)
            log_file_unlink(path, fd);
        if (reply->status == ETW_ERROR_ALREADY_EXISTS)
            return explain_exists(c, s, reply, subject);
        return reply_explain(subject, reply);
    }
    if (reply->body_case != ETWD__MESSAGE__BODY_SESSION_REPLY || !reply->session_reply->session) {
        say("%s: etwd's reply is not what was asked for", subject);
        return EXIT_ERROR;
    }
    r = providers_enable(c, s->name, &s->providers, NULL);
    if (r != EXIT_OK) {
        _cleanup_message_ Etwd__Message *end = NULL;
        (void) session_control(c, s->name, ETWD__CONTROL_SESSION__CODE__STOP, &end);
        if (created)
            log_file_unlink(path, fd);
        return r;
    }
    *ret_reply = TAKE_PTR(reply);
    return EXIT_OK;
}

/* start --bound: the session ends with this process. */
static int stay(struct conn *c, const char *name, const sigset_t *ends)
{
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_close_ int sfd = signalfd(-1, ends, SFD_CLOEXEC);
    struct pollfd p[] = {{.fd = sfd, .events = POLLIN}, {.fd = c->fd, .events = POLLRDHUP}};
    int r;

    if (sfd < 0) {
        say("signals cannot be waited for: %s", strerror(errno));
        return EXIT_ERROR;
    }
    do
        r = poll(p, ARRAY_SIZE(p), -1);
    while (r < 0 && errno == EINTR);
    if (!(p[0].revents & POLLIN))
        return conn_explain(c, -ECONNRESET);
    /* this one is taken, a second Ctrl-C quits */
    struct signalfd_siginfo si;
    if (read(sfd, &si, sizeof(si)) != sizeof(si))
        return EXIT_ERROR;
    (void) sigprocmask(SIG_UNBLOCK, ends, NULL);
    r = session_control(c, name, ETWD__CONTROL_SESSION__CODE__STOP, &reply);
    if (r != EXIT_OK)
        return r;
    session_say_result(reply->session_reply->session);
    return session_events_lost(reply->session_reply->session) ? EXIT_LOSS : EXIT_OK;
}

int verb_start(int argc, char **argv)
{
    _cleanup_conn_ struct conn c = CONN_INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_start_options_ struct start_options s = {0};
    sigset_t ends;
    int opt, r;

    while ((opt = getopt_long(argc, argv, START_SHORT_OPTIONS "h", start_long_options, NULL)) >= 0)
        if (!start_option(&s, argv[0], opt, optarg, &r))
            return r;
    if (argc - optind > 1) {
        say("start: exactly one session is wanted: '%s' is too much", argv[optind + 1]);
        return usage_error(argv[0]);
    }
    s.name = optind < argc ? argv[optind] : NULL;
    if (!s.name && !s.kernel) {
        say("start: the session's NAME is missing (or --kernel)");
        return usage_error(argv[0]);
    }
    r = start_options_check(&s, argv[0]);
    if (r != EXIT_OK)
        return r;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    if (s.bound)
        (void) sigprocmask(SIG_BLOCK, &ends, NULL);

    r = conn_open_or_say(&c);
    if (r == EXIT_OK)
        r = provider_args_resolve(&s.providers, argv[0], &c);
    if (r == EXIT_OK)
        r = session_start(&c, &s, &reply);
    if (r != EXIT_OK)
        return r;
    if (s.json) {
        r = session_print_json(&c, reply->session_reply->session);
        if (r != EXIT_OK)
            return r;
    }
    return s.bound ? stay(&c, s.name, &ends) : EXIT_OK;
}
