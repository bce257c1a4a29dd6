/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot: what a session in buffering mode has in memory, into a file. One thread.
 */
#include "sessions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "etwctl.h"
#include "options.h"

enum { OPT_KERNEL = OPT_VERB };

struct snapshot {
    const char *name;
    const char *file;
    bool json;
};

static void help(void)
{
    printf("etwctl snapshot NAME | --kernel -o FILE\n"
           "  -o, --output FILE        the .etl file; an existing one is overwritten\n"
           "      --kernel             the session '%s'\n"
           "      --json, --help\n"
           "Writes what a session in buffering mode has in memory. The session goes on.\n",
           KERNEL_SESSION);
}

static bool take_options(int argc, char **argv, struct snapshot *ret, int *ret_code)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"kernel", no_argument, NULL, OPT_KERNEL},
        {"output", required_argument, NULL, 'o'},
        {0},
    };
    struct snapshot s = {0};
    bool kernel = false;
    int opt;

    *ret_code = EXIT_OK;
    while ((opt = getopt_long(argc, argv, "ho:", options, NULL)) >= 0) {
        switch (opt) {
        case OPT_JSON:
            s.json = true;
            break;
        case OPT_NO_LEGEND:
            break;
        case OPT_KERNEL:
            kernel = true;
            break;
        case 'o':
            s.file = optarg;
            break;
        case OPT_HELP:
        case 'h':
            help();
            return false;
        default:
            *ret_code = usage_error(argv[0]);
            return false;
        }
    }
    if (argc - optind + (kernel ? 1 : 0) != 1) {
        say("%s: exactly one session is wanted, by name or as --kernel", argv[0]);
        *ret_code = usage_error(argv[0]);
        return false;
    }
    s.name = kernel ? KERNEL_SESSION : argv[optind];
    if (!s.file || !*s.file || strlen(s.file) > ETW_NAME_MAX) {
        say("%s: -o FILE is wanted: a file name of 1 to %d bytes", argv[0], ETW_NAME_MAX);
        *ret_code = usage_error(argv[0]);
        return false;
    }
    *ret = s;
    return true;
}

static int ask(struct conn *c, const struct snapshot *s, const char *path, int fd,
               Etwd__Message **ret_reply)
{
    Etwd__SessionProperties properties = ETWD__SESSION_PROPERTIES__INIT;
    Etwd__ControlSession control = ETWD__CONTROL_SESSION__INIT;
    Etwd__Message m = ETWD__MESSAGE__INIT;
    _cleanup_free_ char *subject = NULL;

    if (asprintf(&subject, "session '%s'", s->name) < 0) {
        subject = NULL;
        return conn_explain(c, -ENOMEM);
    }
    properties.log_file = (char *) path;
    control.name = (char *) s->name;
    control.code = ETWD__CONTROL_SESSION__CODE__FLUSH;
    control.properties = &properties;
    m.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
    m.control_session = &control;
    return conn_call_or_say(c, subject, &m, &fd, 1, ETWD__MESSAGE__BODY_SESSION_REPLY, ret_reply);
}

int verb_snapshot(int argc, char **argv)
{
    _cleanup_conn_ struct conn c = CONN_INIT;
    _cleanup_message_ Etwd__Message *reply = NULL;
    _cleanup_free_ char *path = NULL;
    _cleanup_close_ int fd = -1;
    struct snapshot s;
    bool created = false;
    int r;

    if (!take_options(argc, argv, &s, &r))
        return r;
    r = conn_open_or_say(&c);
    if (r != EXIT_OK)
        return r;
    path = absolute_path(s.file);
    if (!path) {
        say("%s: the working directory cannot be read: %s", s.file, strerror(errno));
        return EXIT_ERROR;
    }
    r = log_file_open(s.file, path, &created);
    if (r < 0)
        return -r;
    fd = r;
    r = ask(&c, &s, path, fd, &reply);
    if (r == EXIT_OK && !reply->session_reply->session) {
        say("session '%s': etwd's reply is not what was asked for", s.name);
        r = EXIT_ERROR;
    }
    if (r != EXIT_OK) {
        if (created)
            log_file_unlink(path, fd);
        return r;
    }
    return s.json ? session_print_json(&c, reply->session_reply->session) : EXIT_OK;
}
