/* SPDX-License-Identifier: Apache-2.0
 *
 * See boot.h. Any thread.
 */
#include "boot.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"

void etw_boot_key(uint8_t ret[16])
{
    char text[64] = "";
    size_t n = 0;

    memset(ret, 0, 16);
    _cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
        return;
    for (const char *p = text; *p && n < 32; p++) {
        int digit = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : -1;
        if (digit < 0)
            continue;
        ret[n / 2] = (uint8_t) (ret[n / 2] << 4 | digit);
        n++;
    }
}
