/* SPDX-License-Identifier: Apache-2.0
 *
 * etwd.conf keys: defaults, "KEY=VALUE", and what a change means. Not the reader of the file, which
 * is conf_file.c. Pure functions, any thread.
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

struct conf_text {
    const char *key;
    size_t offset;
};

static const struct conf_text conf_texts[] = {
#define CONF_TEXT(key, field, why) {#key, offsetof(struct etw_conf, field)},
    ETW_CONF_TEXTS(CONF_TEXT)
#undef CONF_TEXT
};

static const struct {
    size_t offset;
    const char *from;
} conf_reloaded[] = {
#define RELOADED(field, from) {offsetof(struct etw_conf, field), from},
    ETW_CONF_RELOADED(RELOADED)
#undef RELOADED
};

static const char *takes_effect(size_t offset)
{
    for (size_t i = 0; i < ARRAY_SIZE(conf_reloaded); i++)
        if (conf_reloaded[i].offset == offset)
            return conf_reloaded[i].from;
    return NULL;
}

const char *etw_conf_takes_effect(const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(conf_keys); i++)
        if (strcmp(conf_keys[i].key, key) == 0)
            return takes_effect(conf_keys[i].offset);
    for (size_t i = 0; i < ARRAY_SIZE(conf_texts); i++)
        if (strcmp(conf_texts[i].key, key) == 0)
            return takes_effect(conf_texts[i].offset);
    return NULL;
}

static unsigned long *conf_field(struct etw_conf *conf, const struct conf_key *k)
{
    return (unsigned long *) (void *) ((char *) conf + k->offset);
}

void etw_conf_init(struct etw_conf *conf)
{
    for (size_t i = 0; i < ARRAY_SIZE(conf_keys); i++)
        *conf_field(conf, &conf_keys[i]) = conf_keys[i].def;
    for (size_t i = 0; i < ARRAY_SIZE(conf_texts); i++)
        *((char *) conf + conf_texts[i].offset) = '\0';
}

void etw_conf_reload(struct etw_conf *conf, const struct etw_conf *next,
                     void (*changed)(void *userdata, const char *key, const char *from),
                     void *userdata)
{
    for (size_t i = 0; i < ARRAY_SIZE(conf_keys); i++) {
        const struct conf_key *k = &conf_keys[i];
        const char *from = takes_effect(k->offset);
        unsigned long value =
            *(const unsigned long *) (const void *) ((const char *) next + k->offset);
        if (*conf_field(conf, k) == value)
            continue;
        if (from)
            *conf_field(conf, k) = value;
        changed(userdata, k->key, from);
    }
    for (size_t i = 0; i < ARRAY_SIZE(conf_texts); i++) {
        const struct conf_text *t = &conf_texts[i];
        const char *from = takes_effect(t->offset);
        char *mine = (char *) conf + t->offset;
        const char *theirs = (const char *) next + t->offset;
        if (strcmp(mine, theirs) == 0)
            continue;
        if (from)
            memcpy(mine, theirs, ETW_CONF_TEXT_MAX);
        changed(userdata, t->key, from);
    }
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

/* Words of small letters, digits and what names of file systems have, one space between them. */
static int set_words(char *field, const char *value, const char **ret_reason)
{
    char words[ETW_CONF_TEXT_MAX] = "";
    size_t n = 0;

    for (const char *p = value; *p; p++) {
        bool space = *p == ' ' || *p == '\t';
        if (space && (n == 0 || words[n - 1] == ' '))
            continue;
        if (!space && !(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') &&
            !(*p >= '0' && *p <= '9') && !strchr("._-", *p))
            return fail(-EINVAL, "the value is not words with spaces between them", ret_reason);
        if (n + 1 == sizeof(words))
            return fail(-ERANGE, "the value has more than 255 characters", ret_reason);
        words[n++] = space ? ' ' : *p;
    }
    if (n > 0 && words[n - 1] == ' ')
        words[n - 1] = '\0';
    memcpy(field, words, sizeof(words));
    return 0;
}

int etw_conf_set(struct etw_conf *conf, const char *assignment, const char **ret_reason)
{
    const char *eq = strchr(assignment, '=');
    const struct conf_key *k = NULL;
    unsigned long value = 0;

    if (!eq)
        return fail(-EINVAL, "not KEY=VALUE", ret_reason);
    for (size_t i = 0; i < ARRAY_SIZE(conf_texts); i++)
        if (strlen(conf_texts[i].key) == (size_t) (eq - assignment) &&
            strncmp(conf_texts[i].key, assignment, (size_t) (eq - assignment)) == 0)
            return set_words((char *) conf + conf_texts[i].offset, eq + 1, ret_reason);
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
    if (!eq[1]) {
        *conf_field(conf, k) = k->def;
        return 0;
    }
    /* strtoul() would take signs, spaces and 0x. */
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
