/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd.conf keys: defaults and "KEY=VALUE". Not the reader of the file. Pure functions, any thread.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "limits.h"

struct conf_key {
    const char *key;
    size_t offset;
    unsigned long def;
    unsigned long min;
    unsigned long max;
    const char *range; /* what the limits are, for people */
};

static const struct conf_key conf_keys[] = {
#define CONF(key, field, def, min, max, why)                                                       \
    {#key, offsetof(struct etw_conf, field),          def, min,                                    \
     max,  #key " must be between " #min " and " #max},
    ETW_CONF_KEYS(CONF)
#undef CONF
};

static unsigned long *conf_field(struct etw_conf *conf, const struct conf_key *k)
{
    return (unsigned long *) (void *) ((char *) conf + k->offset);
}

void etw_conf_init(struct etw_conf *conf)
{
    for (size_t i = 0; i < ARRAY_SIZE(conf_keys); i++)
        *conf_field(conf, &conf_keys[i]) = conf_keys[i].def;
}

static int fail(int r, const char *reason, const char **ret_reason)
{
    if (ret_reason)
        *ret_reason = reason;
    return r;
}

/* Keys that are on or off take the words of systemd's files too. */
static bool parse_switch(const char *s, unsigned long *ret)
{
    static const char *const words[2][3] = {{"no", "false", "off"}, {"yes", "true", "on"}};

    for (unsigned long v = 0; v < 2; v++)
        for (size_t i = 0; i < ARRAY_SIZE(words[v]); i++)
            if (strcmp(s, words[v][i]) == 0) {
                *ret = v;
                return true;
            }
    return false;
}

int etw_conf_set(struct etw_conf *conf, const char *assignment, const char **ret_reason)
{
    const char *eq = strchr(assignment, '=');
    const struct conf_key *k = NULL;
    unsigned long value = 0;

    if (!eq)
        return fail(-EINVAL, "not KEY=VALUE", ret_reason);
    for (size_t i = 0; i < ARRAY_SIZE(conf_keys) && !k; i++)
        if (strlen(conf_keys[i].key) == (size_t) (eq - assignment) &&
            strncmp(conf_keys[i].key, assignment, (size_t) (eq - assignment)) == 0)
            k = &conf_keys[i];
    if (!k)
        return fail(-ENOENT, "unknown key", ret_reason);
    if (k->min == 0 && k->max == 1 && parse_switch(eq + 1, &value)) {
        *conf_field(conf, k) = value;
        return 0;
    }
    /* strtoul() would take signs, spaces and 0x. */
    if (!eq[1])
        return fail(-EINVAL, "the value is not a number", ret_reason);
    for (const char *p = eq + 1; *p; p++) {
        if (*p < '0' || *p > '9')
            return fail(-EINVAL, "the value is not a number", ret_reason);
        if (__builtin_mul_overflow(value, 10ul, &value) ||
            __builtin_add_overflow(value, (unsigned long) (*p - '0'), &value))
            return fail(-ERANGE, k->range, ret_reason);
    }
    if (value < k->min || value > k->max)
        return fail(-ERANGE, k->range, ret_reason);
    if (conf_field(conf, k) == &conf->ring_size_kb && (value & (value - 1)) != 0)
        return fail(-ERANGE, "RingSizeKB must be a power of two", ret_reason);
    *conf_field(conf, k) = value;
    return 0;
}
