/* SPDX-License-Identifier: Apache-2.0
 *
 * See options.h.
 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "etl/layout.h"

static void usage(void)
{
    (void) printf(
        "Usage: etwd [OPTIONS]\n"
        "The tracing daemon: keeps sessions, takes the kernel's events, writes .etl files.\n"
        "\n"
        "  --runtime-dir DIR   folder of the control socket (default /run/etwd)\n"
        "  --user USER         run as this user (default: etwd when it exists and root starts it)\n"
        "  --config FILE       instead of /etc/etwd/etwd.conf (and FILE.d/*.conf)\n"
        "  -o KEY=VALUE        set a key of etwd.conf; may be given again\n"
        "  --cpus N            act as if the machine had N processors (for tests)\n"
        "  --verbose           tell more on stderr\n"
        "  --version           print the version\n"
        "  --help              print this\n"
        "\n"
        "Keys:\n");
#define CONF(key, field, def, min, max, why)                                                       \
    (void) printf("  %-22s %-8d %s\n", #key, (int) (def), why);
    ETW_CONF_KEYS(CONF)
#undef CONF
#define CONF_TEXT(key, field, why) (void) printf("  %-22s %-8s %s\n", #key, "", why);
    ETW_CONF_TEXTS(CONF_TEXT)
#undef CONF_TEXT
    (void) printf(
        "\nThe socket is where ETWD_SOCKET says, when it is set. See etwd(8), etwd.conf(5).\n");
}

int options_conf_load(const struct options *o, struct etw_conf *ret, etw_conf_bad_fn bad,
                      void *userdata)
{
    struct etw_conf conf;

    etw_conf_init(&conf);
    int r = etw_conf_load(&conf, o->config ? o->config : OPTIONS_CONFIG_DEFAULT, o->config != NULL,
                          bad, userdata);
    if (r < 0)
        return r;
    for (unsigned i = 0; i < o->n_assignments; i++)
        (void) etw_conf_set(&conf, o->assignments[i], NULL); /* checked before */
    *ret = conf;
    return r;
}

int options_parse(int argc, char **argv, struct options *ret)
{
    enum { RUNTIME_DIR = 256, USER, CONFIG, CPUS, VERBOSE, VERSION, HELP };
    static const struct option longs[] = {
        {"runtime-dir", required_argument, NULL, RUNTIME_DIR},
        {"user", required_argument, NULL, USER},
        {"config", required_argument, NULL, CONFIG},
        {"cpus", required_argument, NULL, CPUS},
        {"verbose", no_argument, NULL, VERBOSE},
        {"version", no_argument, NULL, VERSION},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    struct options o = {0};
    const char *reason;
    int c;

    etw_conf_init(&o.conf);
    while ((c = getopt_long(argc, argv, "o:h", longs, NULL)) >= 0)
        switch (c) {
        case RUNTIME_DIR:
            if (optarg[0] != '/') {
                log_error("--runtime-dir '%s': not an absolute path", optarg);
                return -EINVAL;
            }
            o.runtime_dir = optarg;
            break;
        case USER:
            o.user = optarg;
            break;
        case CONFIG:
            o.config = optarg;
            break;
        case 'o':
            if (etw_conf_set(&o.conf, optarg, &reason) < 0) {
                log_error("-o %s: %s", optarg, reason);
                return -EINVAL;
            }
            if (o.n_assignments == OPTIONS_ASSIGNMENTS_MAX) {
                log_error("-o %s: more than %d of them", optarg, OPTIONS_ASSIGNMENTS_MAX);
                return -EINVAL;
            }
            o.assignments[o.n_assignments++] = optarg;
            break;
        case CPUS: {
            char *end;
            unsigned long n = strtoul(optarg, &end, 10);
            if (*end || end == optarg || n < 1 || n > ETL_PROCESSOR_INDEX_MASK + 1) {
                log_error("--cpus '%s': a number from 1 to %u", optarg,
                          ETL_PROCESSOR_INDEX_MASK + 1);
                return -EINVAL;
            }
            o.cpus = (unsigned) n;
            break;
        }
        case VERBOSE:
            o.verbose = true;
            break;
        case VERSION:
            (void) printf("etwd %s\n", ETWD_VERSION);
            return 1;
        case HELP:
        case 'h':
            usage();
            return 1;
        default:
            return -EINVAL; /* getopt has printed it */
        }
    if (optind < argc) {
        log_error("'%s': etwd takes no arguments", argv[optind]);
        return -EINVAL;
    }
    *ret = o;
    return 0;
}
