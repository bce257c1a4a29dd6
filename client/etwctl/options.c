/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading what stands on the command line; see options.h. One thread.
 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "etl/classes.h"
#include "output.h"

int parse_u64(const char *s, uint64_t *ret)
{
    bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    uint64_t v = 0;

    if (hex)
        s += 2;
    if (!*s)
        return -EINVAL;
    for (; *s; s++) {
        unsigned digit;
        if (*s >= '0' && *s <= '9')
            digit = (unsigned) (*s - '0');
        else if (hex && isxdigit((unsigned char) *s))
            digit = (unsigned) (tolower((unsigned char) *s) - 'a' + 10);
        else
            return -EINVAL;
        if (__builtin_mul_overflow(v, hex ? 16u : 10u, &v) || __builtin_add_overflow(v, digit, &v))
            return -ERANGE;
    }
    *ret = v;
    return 0;
}

int parse_u32(const char *s, uint32_t *ret)
{
    uint64_t v;
    int r;

    r = parse_u64(s, &v);
    if (r < 0)
        return r;
    if (v > UINT32_MAX)
        return -ERANGE;
    *ret = (uint32_t) v;
    return 0;
}

/* Splits "12.5ms" into a number with up to nine decimals, as billionths, and the suffix. */
static int parse_scaled(const char *s, uint64_t *ret_whole, uint32_t *ret_billionths,
                        const char **ret_suffix)
{
    uint64_t whole = 0;
    uint32_t fraction = 0, weight = 100000000;

    if (*s < '0' || *s > '9')
        return -EINVAL;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(whole, 10u, &whole) ||
            __builtin_add_overflow(whole, (unsigned) (*s - '0'), &whole))
            return -ERANGE;
    if (*s == '.') {
        s++;
        if (*s < '0' || *s > '9')
            return -EINVAL;
        for (; *s >= '0' && *s <= '9'; s++, weight /= 10)
            fraction += (uint32_t) (*s - '0') * weight;
    }
    *ret_whole = whole;
    *ret_billionths = fraction;
    *ret_suffix = s;
    return 0;
}

static int scale(uint64_t whole, uint32_t billionths, uint64_t factor, uint64_t *ret)
{
    uint64_t v;

    if (__builtin_mul_overflow(whole, factor, &v))
        return -ERANGE;
    uint64_t part = (uint64_t) ((unsigned __int128) billionths * factor / 1000000000u);
    if (__builtin_add_overflow(v, part, &v))
        return -ERANGE;
    *ret = v;
    return 0;
}

int parse_size(const char *s, uint64_t unit, uint64_t *ret)
{
    const char *suffix;
    uint64_t whole, factor;
    uint32_t part;
    int r;

    r = parse_scaled(s, &whole, &part, &suffix);
    if (r < 0)
        return r;
    if (!*suffix)
        factor = unit;
    else if (!strcasecmp(suffix, "K") || !strcasecmp(suffix, "KiB"))
        factor = 1024;
    else if (!strcasecmp(suffix, "M") || !strcasecmp(suffix, "MiB"))
        factor = 1024 * 1024;
    else if (!strcasecmp(suffix, "G") || !strcasecmp(suffix, "GiB"))
        factor = 1024 * 1024 * 1024;
    else
        return -EINVAL;
    return scale(whole, part, factor, ret);
}

int parse_duration(const char *s, uint64_t unit, uint64_t *ret)
{
    static const struct {
        const char *suffix;
        uint64_t ns;
    } units[] = {
        {"ns", 1},
        {"us", 1000},
        {"ms", 1000000},
        {"s", ETW_NSEC_PER_SEC},
        {"m", 60 * ETW_NSEC_PER_SEC},
        {"h", 3600 * ETW_NSEC_PER_SEC},
    };
    const char *suffix;
    uint64_t whole;
    uint32_t part;
    int r;

    r = parse_scaled(s, &whole, &part, &suffix);
    if (r < 0)
        return r;
    if (!*suffix)
        return scale(whole, part, unit, ret);
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (!strcmp(suffix, units[i].suffix))
            return scale(whole, part, units[i].ns, ret);
    return -EINVAL;
}

/* Exactly `digits` digits at *s. */
static int take_digits(const char **s, int digits, int *ret)
{
    int v = 0;

    for (int i = 0; i < digits; i++, (*s)++) {
        if (**s < '0' || **s > '9')
            return -EINVAL;
        v = v * 10 + (**s - '0');
    }
    *ret = v;
    return 0;
}

static bool take_char(const char **s, const char *any_of)
{
    if (!**s || !strchr(any_of, **s))
        return false;
    (*s)++;
    return true;
}

static int parse_rfc3339(const char *s, uint64_t *ret_ns)
{
    struct tm tm = {0};
    uint32_t ns = 0, weight = 100000000;
    int hours, minutes, r = 0;
    int64_t offset = 0;

    if (take_digits(&s, 4, &tm.tm_year) < 0 || !take_char(&s, "-") ||
        take_digits(&s, 2, &tm.tm_mon) < 0 || !take_char(&s, "-") ||
        take_digits(&s, 2, &tm.tm_mday) < 0)
        return -EINVAL;
    if (*s) {
        if (!take_char(&s, "Tt ") || take_digits(&s, 2, &tm.tm_hour) < 0 || !take_char(&s, ":") ||
            take_digits(&s, 2, &tm.tm_min) < 0)
            return -EINVAL;
        if (take_char(&s, ":")) {
            r = take_digits(&s, 2, &tm.tm_sec);
            if (r < 0)
                return r;
            if (take_char(&s, "."))
                for (; *s >= '0' && *s <= '9'; s++, weight /= 10)
                    ns += (uint32_t) (*s - '0') * weight;
        }
        if (*s == '+' || *s == '-') {
            int sign = *s++ == '-' ? -1 : 1;
            if (take_digits(&s, 2, &hours) < 0 || !take_char(&s, ":") ||
                take_digits(&s, 2, &minutes) < 0)
                return -EINVAL;
            offset = sign * (hours * 3600 + minutes * 60);
        } else {
            (void) take_char(&s, "Zz");
        }
    }
    if (*s || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 ||
        tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60 || tm.tm_year < 1970)
        return -EINVAL;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    int64_t seconds = (int64_t) timegm(&tm) - offset;
    if (seconds < 0)
        return -ERANGE;
    uint64_t v;
    if (__builtin_mul_overflow((uint64_t) seconds, ETW_NSEC_PER_SEC, &v) ||
        __builtin_add_overflow(v, ns, &v))
        return -ERANGE;
    *ret_ns = v;
    return 0;
}

int parse_moment(const char *s, uint64_t *ret_ns, bool *ret_relative)
{
    int r;

    if (strlen(s) >= 5 && s[4] == '-') {
        r = parse_rfc3339(s, ret_ns);
        if (r < 0)
            return r;
        *ret_relative = false;
        return 0;
    }
    r = parse_duration(*s == '+' ? s + 1 : s, ETW_NSEC_PER_SEC, ret_ns);
    if (r < 0)
        return r;
    *ret_relative = true;
    return 0;
}

int parse_kernel_flags(const char *s, uint32_t *ret)
{
    _cleanup_free_ char *copy = strdup(s);
    uint32_t flags = 0, number;
    char *state = NULL;

    if (!copy) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    for (char *word = strtok_r(copy, ",", &state); word; word = strtok_r(NULL, ",", &state)) {
        const struct etl_enable_flag *f;
        if (parse_u32(word, &number) == 0) {
            flags |= number;
            continue;
        }
        for (f = etl_enable_flags; f->name; f++)
            if (!strcasecmp(f->name, word))
                break;
        if (!f->name) {
            _cleanup_free_ char *names = NULL;
            size_t len = 0;
            FILE *m = open_memstream(&names, &len);
            for (f = etl_enable_flags; m && f->name; f++)
                fprintf(m, "%s%s", f == etl_enable_flags ? "" : ",", f->name);
            if (m)
                (void) fclose(m);
            say("--flags: no kernel flag '%s': known are %s, or give a number", word,
                names ? names : "");
            return EXIT_USAGE;
        }
        flags |= f->bit;
    }
    *ret = flags;
    return EXIT_OK;
}

int number_list_add(struct number_list *list, const char *s)
{
    _cleanup_free_ char *copy = strdup(s);
    char *state = NULL;
    size_t before = list->n;
    int r;

    if (!copy)
        return -ENOMEM;
    for (char *word = strtok_r(copy, ",", &state); word; word = strtok_r(NULL, ",", &state)) {
        uint64_t v;
        r = parse_u64(word, &v);
        if (r < 0)
            return r;
        uint64_t *more = reallocarray(list->numbers, list->n + 1, sizeof(*more));
        if (!more)
            return -ENOMEM;
        list->numbers = more;
        list->numbers[list->n++] = v;
    }
    return list->n > before ? 0 : -EINVAL;
}

bool number_list_has(const struct number_list *list, uint64_t v)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->numbers[i] == v)
            return true;
    return false;
}

void number_list_clear(struct number_list *list)
{
    free(list->numbers);
    *list = (struct number_list){0};
}

int usage_error(const char *verb)
{
    fprintf(stderr, "Try `etwctl %s --help`.\n", verb);
    return EXIT_USAGE;
}

int bad_option(const char *verb, const char *option, const char *value, int r)
{
    if (r == -ENOMEM) {
        say("not enough memory");
        return EXIT_ERROR;
    }
    say("%s: %s: '%s' is %s", verb, option, value,
        r == -ERANGE ? "out of range" : "not understood");
    return usage_error(verb);
}

int not_yet(const char *verb, const char *what)
{
    say("%s: %s: not there yet; a later release brings it", verb, what);
    return EXIT_ERROR;
}
