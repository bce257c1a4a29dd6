/* SPDX-License-Identifier: Apache-2.0
 *
 * etwctl: the command line of etwd. This file knows the verbs and nothing else; each verb group has
 * a file of its own. One thread.
 */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "etwctl.h"
#include "options.h"

struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *arguments;
    const char *what;
};

static const struct verb verbs[] = {
    {"status", verb_status, "", "whether the daemon is there and what it holds"},
    {"doctor", verb_doctor, "", "what this user may do, what is missing, what mends it"},
    {"list", verb_list, "", "the sessions that run"},
    {"show", verb_show, "NAME | --kernel", "one session: properties and counters"},
    {"start", verb_start, "NAME -o FILE | --kernel [--flags F,...] -o FILE", "start a session"},
    {"stop", verb_stop, "NAME | --kernel", "stop a session and close its file"},
    {"flush", verb_flush, "NAME | --kernel", "write what a session has in its buffers"},
    {"update", verb_update, "NAME | --kernel [OPTION]...", "change a session that runs"},
    {"snapshot", verb_snapshot, "NAME | --kernel -o FILE",
     "write a session in buffering mode into a file"},
    {"record", verb_record, "--kernel | -p PROVIDER -o FILE -- COMMAND...",
     "trace while COMMAND runs"},
    {"enable", verb_enable, "NAME PROVIDER[:LEVEL[:ANY[:ALL]]]...",
     "a session wants a provider's events"},
    {"disable", verb_disable, "NAME PROVIDER...", "it does not want them any more"},
    {"providers", verb_providers, "[--pid N]", "who has registered, and who enabled them"},
    {"mark", verb_mark, "TEXT", "write an event with TEXT into the sessions"},
    {"summary", verb_summary, "FILE...", "header, counts and losses of trace files"},
    {"dump", verb_dump, "FILE...", "the events of trace files in time order"},
};

/* Verbs that a later release brings. */
static const char *const later_verbs[] = {
    "rotate", "convert", "rundown", "watch",    "report",
    "export", "heap",    "merge",   "manifest", "check",
};

static void usage(FILE *to)
{
    fputs("etwctl VERB [OPTION]... [ARGUMENT]...\n"
          "Records events of this machine into .etl files and reads such files.\n\n",
          to);
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        fprintf(to, "  %-9s %-48s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].what);
    fputs("\nEvery verb takes --json, --no-legend and --help. ETWD_SOCKET names another daemon's\n"
          "socket than /run/etwd/control.sock. `summary` and `dump` need no daemon.\n\n"
          "Exit codes: 0 done, 1 error, 2 wrong usage, 3 daemon not reachable, 4 done but events\n"
          "were lost or a file is incomplete, 5 access denied. See etwctl(1).\n",
          to);
}

int main(int argc, char **argv)
{
    /* A reader that goes away is seen as EPIPE; `record` gives its command the default back. */
    (void) signal(SIGPIPE, SIG_IGN);
    (void) setlocale(LC_CTYPE, "C.UTF-8");

    if (argc < 2) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        usage(stdout);
        return EXIT_OK;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("etwctl " ETWD_VERSION);
        return EXIT_OK;
    }
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        if (!strcmp(argv[1], verbs[i].name))
            return verbs[i].run(argc - 1, argv + 1);
    for (size_t i = 0; i < ARRAY_SIZE(later_verbs); i++)
        if (!strcmp(argv[1], later_verbs[i])) {
            say("verb '%s': not there yet; a later release brings it", argv[1]);
            return EXIT_ERROR;
        }
    say("no verb '%s': `etwctl --help` lists them", argv[1]);
    return EXIT_USAGE;
}
