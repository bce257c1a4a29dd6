/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of etwd.conf on any bytes: every value stays within its limits, every complaint has a
 * reason and a line of the text.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf_file.h"
#include "fuzz.h"

static void check(bool held)
{
    if (!held)
        abort();
}

struct seen {
    unsigned complaints, lines;
};

static void bad(void *userdata, const char *file, unsigned line, const char *reason)
{
    struct seen *s = userdata;
    s->complaints++;
    check(strcmp(file, "x") == 0 && line >= 1 && line <= s->lines && reason && *reason);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen seen = {.lines = 1};
    struct etw_conf conf;

    for (size_t i = 0; i < size; i++)
        seen.lines += data[i] == '\n';
    etw_conf_init(&conf);
    check(etw_conf_parse(&conf, "x", (const char *) data, size, bad, &seen) == seen.complaints);
#define CONF(key, field, def, min, max, why)                                                       \
    check(conf.field + 1 >= (min) + 1ul && conf.field <= (max));
    ETW_CONF_KEYS(CONF)
#undef CONF
#define CONF_TEXT(key, field, why) check(memchr(conf.field, '\0', sizeof(conf.field)) != NULL);
    ETW_CONF_TEXTS(CONF_TEXT)
#undef CONF_TEXT
    return 0;
}
