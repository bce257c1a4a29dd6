/* SPDX-License-Identifier: Apache-2.0
 *
 * See memfd.h. Any thread.
 */
#include "memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"

/* Since Linux 6.3; glibc 2.36 does not know it. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

int etw_memfd(const char *name, size_t size, int seals)
{
    _cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL) /* an older kernel */
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t) size) < 0 ||
        fcntl(fd, F_ADD_SEALS, seals) < 0)
        return -errno;
    return take_fd(&fd);
}
