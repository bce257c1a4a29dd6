/* SPDX-License-Identifier: Apache-2.0
 *
 * See conf_file.h.
 */
#include "conf_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "fileio.h"

/* The longest line: the longest key and value with room for spaces. */
#define LINE_MAX_BYTES 1024

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* 0, or why not. */
static const char *parse_line(struct etw_conf *conf, const char *line, size_t size)
{
    char text[LINE_MAX_BYTES];
    const char *reason = NULL;

    while (size > 0 && blank(line[0]))
        line++, size--;
    while (size > 0 && blank(line[size - 1]))
        size--;
    if (size == 0 || line[0] == '#' || line[0] == ';')
        return NULL;
    if (line[0] == '[')
        return size == strlen("[etwd]") && memcmp(line, "[etwd]", size) == 0
                   ? NULL
                   : "the only section is [etwd]";
    if (memchr(line, '\0', size))
        return "the line has a NUL";
    if (size >= sizeof(text))
        return "the line is longer than 1023 characters";
    const char *eq = memchr(line, '=', size);
    if (!eq)
        return "not KEY=VALUE";
    size_t key = (size_t) (eq - line), value = key + 1;
    while (key > 0 && blank(line[key - 1]))
        key--;
    while (value < size && blank(line[value]))
        value++;
    memcpy(text, line, key);
    text[key] = '=';
    memcpy(text + key + 1, line + value, size - value);
    text[key + 1 + size - value] = '\0';
    return etw_conf_set(conf, text, &reason) < 0 ? reason : NULL;
}

unsigned etw_conf_parse(struct etw_conf *conf, const char *file, const char *text, size_t size,
                        etw_conf_bad_fn bad, void *userdata)
{
    unsigned n = 0, number = 0;

    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t length = end ? (size_t) (end - text) : size;
        const char *reason = parse_line(conf, text, length);
        number++;
        if (reason) {
            bad(userdata, file, number, reason);
            n++;
        }
        length += end ? 1 : 0;
        text += length;
        size -= length;
    }
    return n;
}

static int load_file(struct etw_conf *conf, const char *path, bool must_exist, etw_conf_bad_fn bad,
                     void *userdata)
{
    _cleanup_free_ char *text = NULL;
    size_t size = 0;

    int r = etw_read_file(AT_FDCWD, path, ETW_CONF_FILE_MAX, false, &text, &size);
    if (r == -ENOMEM)
        return r;
    if (r == -ENOENT && !must_exist)
        return 0;
    if (r < 0) {
        bad(userdata, path, 0, r == -EFBIG ? "larger than 1 MiB" : strerror(-r));
        return 1;
    }
    return (int) etw_conf_parse(conf, path, text, size, bad, userdata);
}

static int is_drop_in(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return e->d_name[0] != '.' && n > 5 && strcmp(e->d_name + n - 5, ".conf") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int etw_conf_load(struct etw_conf *conf, const char *path, int must_exist, etw_conf_bad_fn bad,
                  void *userdata)
{
    _cleanup_free_ char *folder = NULL;
    struct dirent **names = NULL;
    int complaints, r;

    complaints = load_file(conf, path, must_exist, bad, userdata);
    if (complaints < 0)
        return complaints;
    if (asprintf(&folder, "%s.d", path) < 0)
        return -ENOMEM;
    int n = scandir(folder, &names, is_drop_in, by_name);
    if (n < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return complaints;
        if (errno == ENOMEM)
            return -ENOMEM;
        bad(userdata, folder, 0, strerror(errno));
        return complaints + 1;
    }
    r = 0;
    for (int i = 0; i < n; i++) {
        _cleanup_free_ char *file = NULL;
        if (r >= 0 && i < ETW_CONF_DROP_INS_MAX) {
            r = asprintf(&file, "%s/%s", folder, names[i]->d_name) < 0
                    ? -ENOMEM
                    : load_file(conf, file, true, bad, userdata);
            complaints += r > 0 ? r : 0;
        } else if (i == ETW_CONF_DROP_INS_MAX) {
            bad(userdata, folder, 0, "more than 1000 files: the others are not read");
            complaints++;
        }
        free(names[i]);
    }
    free(names);
    return r < 0 ? r : complaints;
}
