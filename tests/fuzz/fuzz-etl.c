/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: .etl files and single buffers. The first byte of the input says which: the rest is a
 * file as it would lie on disk, a buffer in memory, or one event.
 */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "../unit/etl-walk.h"
#include "etl/append.h"

enum { INPUT_FILE, INPUT_BUFFER, INPUT_EVENT, INPUT_KINDS };

static void as_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct walk w = {0};

    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    WALK_CHECK(fd >= 0 && ftruncate(fd, 0) == 0);
    WALK_CHECK(pwrite(fd, data, size, 0) == (ssize_t) size);
    (void) walk_file(&w, fd);

    /* Whether it can be added to; what that would do stays inside what was checked. */
    struct etl_append a;
    const char *why = NULL;
    uint32_t processors = size > 0x7c ? data[0x74] : 0;
    if (etl_append_look(fd, size, processors, &a, &why) != ETL_APPEND_OK) {
        WALK_CHECK(why != NULL);
        return;
    }
    WALK_CHECK(a.buffer_size >= 4096 && a.end % a.buffer_size == 0 && a.end >= a.buffer_size);
    WALK_CHECK(a.end <= size && a.next_sequence > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct etl_buffer_info info;
    struct walk w = {0};
    struct etl_event e;

    if (size == 0)
        return 0;
    switch (data[0] % INPUT_KINDS) {
    case INPUT_FILE:
        as_file(data + 1, size - 1);
        break;
    case INPUT_BUFFER:
        if (etl_buffer_parse(data + 1, size - 1, &info) == 0)
            walk_buffer(&w, data + 1, size - 1, info.end);
        break;
    case INPUT_EVENT:
        if (etl_event_parse(data + 1, size - 1, &e) == 0)
            walk_event(&w, &e, data + 1, data + size);
        break;
    }
    return 0;
}
