/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages to stderr, one write(2) a line so that lines of several threads do not mix. Escapes what
 * could harm a terminal or fake a second line. Any thread; not from a signal handler.
 */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "utf8.h"

/* A message with two paths of 4096 bytes is cut; the part that says what happened comes first. */
#define MESSAGE_MAX 4096
#define LINE_MAX_BYTES (MESSAGE_MAX + 256)

static struct {
    char program[64];
    enum etw_log_level max;
    bool journal;
} log_state = {.max = ETW_LOG_NOTICE};

/* systemd sets JOURNAL_STREAM to device:inode of the stream it connected. */
static bool stderr_is_journal(void)
{
    const char *e = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;

    if (!e || sscanf(e, "%llu:%llu", &dev, &ino) != 2 || fstat(STDERR_FILENO, &st) < 0)
        return false;
    return st.st_dev == dev && st.st_ino == ino;
}

void etw_log_init(const char *program, enum etw_log_level max)
{
    (void) snprintf(log_state.program, sizeof(log_state.program), "%s", program ? program : "");
    log_state.max = max;
    log_state.journal = stderr_is_journal();
}

/* Characters that a terminal obeys or that reorder what the eye sees. */
static bool harmful(uint32_t c)
{
    return c == ETW_UTF8_INVALID || c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C ||
           c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

size_t etw_escape(const char *s, size_t len, char *out, size_t cap)
{
    static const char hex[] = "0123456789abcdef";
    size_t used = 0;

    if (len == SIZE_MAX)
        len = strlen(s);
    while (len > 0) {
        uint32_t c;
        size_t n = etw_utf8_decode(s, len, &c);
        bool bad = harmful(c);
        size_t need = bad ? 4 * n : n;
        if (need > cap - 1 - used)
            break;
        if (bad) {
            for (size_t i = 0; i < n; i++) {
                uint8_t b = (uint8_t) s[i];
                memcpy(out + used, (const char[]){'\\', 'x', hex[b >> 4], hex[b & 15]}, 4);
                used += 4;
            }
        } else {
            memcpy(out + used, s, n);
            used += n;
        }
        s += n;
        len -= n;
    }
    out[used] = 0;
    return used;
}

void etw_log(enum etw_log_level level, const char *format, ...)
{
    char message[MESSAGE_MAX], line[LINE_MAX_BYTES];
    int saved = errno, prefix = 0;
    size_t used;
    va_list ap;

    if (level > log_state.max)
        return;
    va_start(ap, format);
    (void) vsnprintf(message, sizeof(message), format, ap);
    va_end(ap);
    if (log_state.journal)
        prefix = snprintf(line, sizeof(line), "<%d>", (int) level);
    if (log_state.program[0])
        prefix +=
            snprintf(line + prefix, sizeof(line) - (size_t) prefix, "%s: ", log_state.program);
    used = (size_t) prefix;
    /* One byte stays for the newline, which takes the NUL's place. */
    used += etw_escape(message, SIZE_MAX, line + used, sizeof(line) - used);
    line[used++] = '\n';
    for (size_t done = 0; done < used;) {
        ssize_t n = write(STDERR_FILENO, line + done, used - done);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            break;
        }
        done += (size_t) n;
    }
    errno = saved;
}
