/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: the ELF reader of etwd-image. Crashes, reads outside the file, endless work and
 * nonsensical answers are findings.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "image/elf_identity.h"

struct input {
    const uint8_t *data;
    size_t size;
    unsigned reads;
};

static int input_read(void *userdata, uint64_t offset, void *buf, size_t size)
{
    struct input *in = userdata;

    if (offset > in->size || size > in->size - offset)
        abort();
    if (++in->reads > 1 + ETW_ELF_PHDRS_MAX + 3 * ETW_ELF_NOTES_MAX)
        abort();
    memcpy(buf, in->data + offset, size);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.data = data, .size = size};
    struct elf_source src = {.read = input_read, .userdata = &in, .size = size};
    struct elf_identity id;
    int r;

    memset(&id, 0x5A, sizeof(id));
    r = elf_read_identity(&src, 4096, &id);
    if (r == -ENOEXEC) {
        if (id.span != 0x5A5A5A5A5A5A5A5A)
            abort(); /* output touched on failure */
        return 0;
    }
    if (r != 0 || id.build_id_size > IMAGE_BUILD_ID_MAX || id.span == 0 || id.span % 4096 != 0 ||
        id.first_vaddr % 4096 != 0 || id.first_vaddr + id.span < id.first_vaddr)
        abort();
    for (size_t i = id.build_id_size; i < IMAGE_BUILD_ID_MAX; i++)
        if (id.build_id[i] != 0)
            abort();
    return 0;
}
