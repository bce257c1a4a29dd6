/* SPDX-License-Identifier: Apache-2.0
 *
 * See fileio.h.
 */
#include "fileio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"

#define STEP 16384u

int etw_read_file(int dir, const char *path, size_t max, bool only_regular, char **ret,
                  size_t *ret_size)
{
    _cleanup_close_ int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    _cleanup_free_ char *data = NULL;
    size_t size = 0, room = 0;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (only_regular && !S_ISREG(st.st_mode))
        return -EBADMSG;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    /* The size is a hint: files of /proc have none, others grow. */
    if (S_ISREG(st.st_mode) && st.st_size > 0)
        room = (size_t) st.st_size < max ? (size_t) st.st_size + 2 : max + 2;
    for (;;) {
        if (!data || size + 1 >= room) {
            room = data ? 2 * room : room > STEP ? room : STEP;
            char *more = realloc(data, room);
            if (!more)
                return -ENOMEM;
            data = more;
        }
        ssize_t n = read(fd, data + size, room - 1 - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        size += (size_t) n;
        if (size > max)
            return -EFBIG;
    }
    data[size] = '\0';
    *ret = TAKE_PTR(data);
    *ret_size = size;
    return 0;
}

ssize_t etw_pread(int fd, void *buf, size_t n, uint64_t offset)
{
    size_t done = 0;

    while (done < n) {
        ssize_t r = pread(fd, (uint8_t *) buf + done, n - done, (off_t) (offset + done));
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return -errno;
        if (r == 0)
            break;
        done += (size_t) r;
    }
    return (ssize_t) done;
}

int etw_pwrite(int fd, const void *data, size_t n, uint64_t offset)
{
    size_t done = 0;

    while (done < n) {
        ssize_t r = pwrite(fd, (const uint8_t *) data + done, n - done, (off_t) (offset + done));
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return r < 0 ? -errno : -EIO;
        done += (size_t) r;
    }
    return 0;
}
