/* SPDX-License-Identifier: Apache-2.0
 *
 * Main of the fuzz targets without libFuzzer: runs each file given, and each file of each folder
 * given, once, from memory of exactly its size. Fails when there was none.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "fuzz.h"

static size_t runs;

static int replay_file(const char *path, size_t size)
{
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    _cleanup_free_ uint8_t *data = malloc(size ? size : 1);

    if (!f || !data || fread(data, 1, size, f) != size) {
        fprintf(stderr, "replay: cannot read %s: %s\n", path, strerror(errno));
        return -1;
    }
    (void) LLVMFuzzerTestOneInput(data, size);
    runs++;
    return 0;
}

static int replay(const char *path)
{
    struct stat st;
    struct dirent *e;
    int r = 0;
    DIR *d;

    if (stat(path, &st) < 0) {
        fprintf(stderr, "replay: cannot read %s: %s\n", path, strerror(errno));
        return -1;
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path, (size_t) st.st_size);
    d = opendir(path);
    if (!d) {
        fprintf(stderr, "replay: cannot read %s: %s\n", path, strerror(errno));
        return -1;
    }
    while (r == 0 && (e = readdir(d))) {
        char name[4096];
        if (e->d_name[0] == '.')
            continue;
        (void) snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        r = replay(name);
    }
    (void) closedir(d);
    return r;
}

int main(int argc, char *argv[])
{
    for (int i = 1; i < argc; i++)
        if (replay(argv[i]) < 0)
            return 1;
    if (runs == 0) {
        fprintf(stderr, "replay: no input\n");
        return 1;
    }
    printf("%zu inputs\n", runs);
    return 0;
}
