/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of the daemon and its helpers to stderr, with the <N> priority prefix that the journal
 * understands when stderr goes there. Control characters of arguments are escaped: names of
 * sessions and processes are hostile. Any thread; never from a signal handler. A function either
 * logs an error or returns it, never both. libetw never logs.
 */
#pragma once

#include <stdbool.h>

enum etw_log_level {
    ETW_LOG_ERR = 3,
    ETW_LOG_WARNING = 4,
    ETW_LOG_NOTICE = 5,
    ETW_LOG_INFO = 6,
    ETW_LOG_DEBUG = 7,
};

/* Program name put before each message; messages above `max` are dropped (default: NOTICE). */
void etw_log_init(const char *program, enum etw_log_level max);
void etw_log(enum etw_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define log_error(...) etw_log(ETW_LOG_ERR, __VA_ARGS__)
#define log_warning(...) etw_log(ETW_LOG_WARNING, __VA_ARGS__)
#define log_notice(...) etw_log(ETW_LOG_NOTICE, __VA_ARGS__)
#define log_info(...) etw_log(ETW_LOG_INFO, __VA_ARGS__)
#define log_debug(...) etw_log(ETW_LOG_DEBUG, __VA_ARGS__)
