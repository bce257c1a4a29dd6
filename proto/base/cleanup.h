/* SPDX-License-Identifier: Apache-2.0
 *
 * Scoped ownership: _cleanup_free_ char *p = NULL; _cleanup_close_ int fd = -1;
 */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

static inline void freep(void *p)
{
    free(*(void **) p);
}

/* Closes and forgets; keeps errno. Returns -1 so that fd = safe_close(fd) works. */
static inline int safe_close(int fd)
{
    if (fd >= 0) {
        int saved = errno;
        (void) close(fd);
        errno = saved;
    }
    return -1;
}

static inline void closep(int *fd)
{
    *fd = safe_close(*fd);
}

static inline void fclosep(FILE **f)
{
    if (*f)
        (void) fclose(*f);
}

#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)
#define _cleanup_fclose_ _cleanup_(fclosep)

#define TAKE_PTR(p)                                                                                \
    ({                                                                                             \
        __typeof__(p) *_pp = &(p);                                                                 \
        __typeof__(p) _v = *_pp;                                                                   \
        *_pp = NULL;                                                                               \
        _v;                                                                                        \
    })

static inline int take_fd(int *fd)
{
    int v = *fd;
    *fd = -1;
    return v;
}

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define ALIGN_UP(x, a) (((x) + ((a) -1)) & ~((__typeof__(x)) (a) -1))
#define container_of(p, type, member)                                                              \
    ((type *) ((char *) (1 ? (p) : &((type *) 0)->member) - offsetof(type, member)))
