/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifests that this process knows: those installed on the machine and by its user, read when
 * the first event without another schema is met, and those it loads itself, which come before. Any
 * thread; readers do not wait for each other.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fileio.h"
#include "base/limits.h"
#include "base/utf16.h"
#include "base/winerror.h"
#include "internal.h"
#include "manifest.h"

struct loaded {
    struct loaded *next;
    char *path; /* NULL: from memory */
    struct manifest *manifest;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t installed = PTHREAD_ONCE_INIT;
static struct loaded *newest;

static void loaded_free(struct loaded *l)
{
    manifest_free(l->manifest);
    free(l->path);
    free(l);
}

/* Locked for writing. */
static int take_out(const char *path)
{
    for (struct loaded **p = &newest; *p; p = &(*p)->next) {
        struct loaded *l = *p;
        if (!l->path || strcmp(l->path, path) != 0)
            continue;
        *p = l->next;
        loaded_free(l);
        return 0;
    }
    return -ENOENT;
}

int store_add(const char *path, struct manifest *m)
{
    struct loaded *l = calloc(1, sizeof(*l));
    char *copy = path ? strdup(path) : NULL;

    if (!l || (path && !copy)) {
        free(l);
        free(copy);
        return -ENOMEM;
    }
    l->path = copy;
    l->manifest = m;
    (void) pthread_rwlock_wrlock(&lock);
    if (path)
        (void) take_out(path);
    l->next = newest;
    newest = l;
    (void) pthread_rwlock_unlock(&lock);
    return 0;
}

int store_remove(const char *path)
{
    (void) pthread_rwlock_wrlock(&lock);
    int r = take_out(path);
    (void) pthread_rwlock_unlock(&lock);
    return r;
}

static int load(int dir, const char *name, const char *path)
{
    _cleanup_free_ char *data = NULL;
    struct manifest *m;
    const char *why;
    size_t size = 0;
    int r;

    r = etw_read_file(dir, name, ETW_MANIFEST_MAX, true, &data, &size);
    if (r < 0)
        return r;
    r = manifest_read(data, size, &m, &why);
    if (r < 0)
        return r;
    r = store_add(path, m);
    if (r < 0)
        manifest_free(m);
    return r;
}

static void closedirp(DIR **d)
{
    if (*d)
        (void) closedir(*d);
}
#define _cleanup_closedir_ __attribute__((cleanup(closedirp)))

/* A broken file is no reason to know nothing of the others; `etwctl manifest` tells of it. */
static void load_folder(const char *folder)
{
    _cleanup_closedir_ DIR *dir = opendir(folder);

    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        size_t n = strlen(e->d_name);
        _cleanup_free_ char *path = NULL;
        if (n < 5 ||
            (strcmp(e->d_name + n - 4, ".man") != 0 && strcmp(e->d_name + n - 4, ".xml") != 0) ||
            e->d_name[0] == '.' || asprintf(&path, "%s/%s", folder, e->d_name) < 0)
            continue;
        (void) load(dirfd(dir), e->d_name, path);
    }
}

static void load_installed(void)
{
    const char *data = secure_getenv("XDG_DATA_HOME"), *home = secure_getenv("HOME");
    _cleanup_free_ char *own = NULL;

    load_folder("/usr/share/etwd/manifests");
    load_folder("/etc/etwd/manifests");
    if (data && data[0] == '/') {
        if (asprintf(&own, "%s/etwd/manifests", data) < 0)
            own = NULL;
    } else if (home && home[0] == '/' && asprintf(&own, "%s/.local/share/etwd/manifests", home) < 0)
        own = NULL;
    if (own)
        load_folder(own);
}

void store_lock(void)
{
    (void) pthread_once(&installed, load_installed);
    (void) pthread_rwlock_rdlock(&lock);
}

void store_unlock(void)
{
    (void) pthread_rwlock_unlock(&lock);
}

const struct provider *store_at(uint32_t index)
{
    for (const struct loaded *l = newest; l; l = l->next) {
        if (index < l->manifest->n_providers)
            return &l->manifest->providers[index];
        index -= l->manifest->n_providers;
    }
    return NULL;
}

const struct provider *store_find(const struct etw_guid *guid)
{
    for (const struct loaded *l = newest; l; l = l->next)
        for (uint32_t i = 0; i < l->manifest->n_providers; i++)
            if (etw_guid_equal(&l->manifest->providers[i].guid, guid))
                return &l->manifest->providers[i];
    return NULL;
}

/* ---- the public functions ---- */

static uint32_t load_code(int r)
{
    switch (r) {
    case 0:
        return ERROR_SUCCESS;
    case -EBADMSG:
    case -EFBIG:
        return ERROR_XML_PARSE_ERROR;
    case -ENOENT:
    case -ENOTDIR:
        return ERROR_FILE_NOT_FOUND;
    default:
        return etw_winerror_from_errno(r);
    }
}

/* A path of at most MAX_PATH characters in UTF-8, memory of malloc(3). */
static uint32_t path_of(const WCHAR *wide, char **ret)
{
    if (!wide || etw_utf16_len((const uint16_t *) wide, MAX_PATH + 1) > MAX_PATH)
        return ERROR_INVALID_PARAMETER;
    *ret = etw_utf16_dup_utf8(wide, SIZE_MAX);
    return *ret ? ERROR_SUCCESS : ERROR_NOT_ENOUGH_MEMORY;
}

ULONG WINAPI TdhLoadManifest(LPWSTR Manifest)
{
    _cleanup_free_ char *path = NULL;
    uint32_t code;

    no_cancel();
    code = path_of(Manifest, &path);
    if (code != ERROR_SUCCESS)
        return finish(code);
    return finish(load_code(load(AT_FDCWD, path, path)));
}

ULONG WINAPI TdhUnloadManifest(LPWSTR Manifest)
{
    _cleanup_free_ char *path = NULL;
    uint32_t code;

    no_cancel();
    code = path_of(Manifest, &path);
    if (code != ERROR_SUCCESS)
        return finish(code);
    return finish(load_code(store_remove(path)));
}

ULONG WINAPI TdhLoadManifestFromMemory(LPVOID pData, ULONG cbData)
{
    struct manifest *m;
    const char *why;
    int r;

    if (!pData || cbData == 0)
        return finish(ERROR_INVALID_PARAMETER);
    no_cancel();
    r = manifest_read(pData, cbData, &m, &why);
    if (r < 0)
        return finish(load_code(r));
    r = store_add(NULL, m);
    if (r < 0)
        manifest_free(m);
    return finish(load_code(r));
}
