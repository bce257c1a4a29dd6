/* SPDX-License-Identifier: Apache-2.0
 *
 * update: what may change in a session that runs. The session is asked first and what is not named
 * stays, since an UPDATE with a zero in flags or mode means to take them away. One thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "etl/layout.h"
#include "etwctl.h"
#include "options.h"
#include "sessions.h"

enum { OPT_KERNEL = OPT_VERB, OPT_FLAGS, OPT_BUFFERS, OPT_FLUSH_TIMER };

struct changes {
    const char *name;
    bool json;
    bool has_flags;
    uint32_t flags;
    uint32_t maximum_buffers;
    uint32_t flush_timer_s;
};

static void update_help(void)
{
    printf("etwctl update NAME | --kernel [OPTION]...\n"
           "Changes a session that runs; what is not named stays as it is.\n"
           "      --buffers MAX        the greatest number of buffers; it can only grow\n"
           "      --flush-timer T      write buffers at least this often\n"
           "      --flags F,...        of the kernel logger: its events, names or 0xHEX\n"
           "      --json, --no-legend, --help\n");
}

static int take_option(struct changes *c, const char *verb, int opt, const char *arg)
{
    uint64_t v;
    int r;

    switch (opt) {
    case OPT_JSON:
        c->json = true;
        return EXIT_OK;
    case OPT_NO_LEGEND:
        return EXIT_OK;
    case OPT_KERNEL:
        c->name = KERNEL_SESSION;
        return EXIT_OK;
    case OPT_FLAGS:
        c->has_flags = true;
        return parse_kernel_flags(arg, &c->flags);
    case OPT_BUFFERS:
        r = parse_u32(arg, &c->maximum_buffers);
        if (r == 0 && c->maximum_buffers == 0)
            r = -ERANGE;
        return r < 0 ? bad_option(verb, "--buffers", arg, r) : EXIT_OK;
    case OPT_FLUSH_TIMER:
        r = parse_duration(arg, ETW_NSEC_PER_SEC, &v);
        if (r == 0 && (v % ETW_NSEC_PER_SEC || v == 0 || v / ETW_NSEC_PER_SEC > UINT32_MAX)) {
            say("%s: --flush-timer %s: whole seconds are wanted, 1s or more", verb, arg);
            return usage_error(verb);
        }
        if (r < 0)
            return bad_option(verb, "--flush-timer", arg, r);
        c->flush_timer_s = (uint32_t) (v / ETW_NSEC_PER_SEC);
        return EXIT_OK;
    default:
        return usage_error(verb);
    }
}

static int take_arguments(int argc, char **argv, struct changes *c)
{
    if (c->name ? optind < argc : optind + 1 != argc) {
        say("update: %s",
            c->name ? "--kernel needs no name" : "the name of one session is wanted, or --kernel");
        return usage_error(argv[0]);
    }
    if (!c->name)
        c->name = argv[optind];
    if (!c->has_flags && !c->maximum_buffers && !c->flush_timer_s) {
        say("update: nothing to change: --buffers, --flush-timer or --flags is wanted");
        return usage_error(argv[0]);
    }
    return EXIT_OK;
}

static int update(struct conn *conn, const struct changes *c, Etwd__Message **ret_reply)
{
    _cleanup_message_ Etwd__Message *now = NULL;
    Etwd__ControlSession control = ETWD__CONTROL_SESSION__INIT;
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    Etwd__Message m = ETWD__MESSAGE__INIT;

    int r = session_control(conn, c->name, ETWD__CONTROL_SESSION__CODE__QUERY, &now);
    if (r != EXIT_OK)
        return r;
    const Etwd__Session *s = now->session_reply->session;
    p.enable_flags = c->has_flags ? c->flags : s->properties->enable_flags;
    p.log_file_mode = s->properties->log_file_mode & ETL_MODE_REAL_TIME;
    p.maximum_buffers = c->maximum_buffers;
    p.flush_timer_s = c->flush_timer_s;
    if (c->maximum_buffers && c->maximum_buffers < s->properties->maximum_buffers) {
        say("session '%s': it may have %u buffers already, and their number can only grow", c->name,
            s->properties->maximum_buffers);
        return EXIT_ERROR;
    }
    /* By its handle: not a namesake that has taken its place. */
    control.handle = s->handle;
    control.code = ETWD__CONTROL_SESSION__CODE__UPDATE;
    control.properties = &p;
    m.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
    m.control_session = &control;
    char subject[ETW_NAME_MAX * 4 + 16];
    (void) snprintf(subject, sizeof(subject), "session '%s'", c->name);
    return conn_call_or_say(conn, subject, &m, NULL, 0, ETWD__MESSAGE__BODY_SESSION_REPLY,
                            ret_reply);
}

int verb_update(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"kernel", no_argument, NULL, OPT_KERNEL},
        {"flags", required_argument, NULL, OPT_FLAGS},
        {"buffers", required_argument, NULL, OPT_BUFFERS},
        {"flush-timer", required_argument, NULL, OPT_FLUSH_TIMER},
        {0},
    };
    _cleanup_conn_ struct conn conn = CONN_INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    struct changes c = {0};
    int opt, r;

    while ((opt = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (opt == OPT_HELP || opt == 'h') {
            update_help();
            return EXIT_OK;
        }
        r = take_option(&c, argv[0], opt, optarg);
        if (r != EXIT_OK)
            return r;
    }
    r = take_arguments(argc, argv, &c);
    if (r == EXIT_OK)
        r = conn_open_or_say(&conn);
    if (r == EXIT_OK)
        r = update(&conn, &c, &reply);
    if (r == EXIT_OK && c.json)
        r = session_print_json(&conn, reply->session_reply->session);
    return r;
}
