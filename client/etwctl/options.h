/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading what stands on the command line: sizes, times, flags by name, and the options that a
 * later release brings, which are refused by name instead of being ignored. Functions that return
 * an exit code have printed a message. One thread.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* A number in decimal or 0xHEX, no sign, nothing behind it. -EINVAL, -ERANGE. */
int parse_u64(const char *s, uint64_t *ret);
int parse_u32(const char *s, uint32_t *ret);
/* A size with K, M, G; a plain number counts in `unit` bytes. Result in bytes. */
int parse_size(const char *s, uint64_t unit, uint64_t *ret);
/* A time with ns us ms s m h; a plain number counts in `unit` ns. Result in ns. */
int parse_duration(const char *s, uint64_t unit, uint64_t *ret);
/* RFC 3339 ("2026-11-30T21:11:00.5Z", any offset; date and time without one are UTC): nanoseconds
 * since 1970; *ret_relative false. Or a duration: nanoseconds, *ret_relative true. */
int parse_moment(const char *s, uint64_t *ret_ns, bool *ret_relative);
/* "process,thread" or a number: EVENT_TRACE_FLAG_*. EXIT_OK or EXIT_USAGE after a message. */
int parse_kernel_flags(const char *s, uint32_t *ret);

/* A list of numbers, "1,2,3": appended to *list. -EINVAL, -ERANGE, -ENOMEM. */
struct number_list {
    uint64_t *numbers;
    size_t n;
};
int number_list_add(struct number_list *list, const char *s);
bool number_list_has(const struct number_list *list, uint64_t v);
void number_list_clear(struct number_list *list);

/* getopt_long() says '?': EXIT_USAGE after its message and ours. */
int usage_error(const char *verb);
/* "VERB: OPTION: MESSAGE", EXIT_USAGE. */
int bad_option(const char *verb, const char *option, const char *value, int r);
/* What a later release brings: EXIT_ERROR after a message. */
int not_yet(const char *verb, const char *what);

/* Options that every verb has. */
enum {
    OPT_JSON = 0x100,
    OPT_NO_LEGEND,
    OPT_HELP,
    OPT_VERB, /* a verb's own begin here */
};
#define COMMON_OPTIONS                                                                             \
    {"json", no_argument, NULL, OPT_JSON}, {"no-legend", no_argument, NULL, OPT_NO_LEGEND},        \
    {                                                                                              \
        "help", no_argument, NULL, OPT_HELP                                                        \
    }
