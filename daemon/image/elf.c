/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounds-checked ELF reader of etwd-image's worker (elf_identity.h). Any thread.
 */
#include "image/elf_identity.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/limits.h"

/* Bytes [offset, offset + size) of the file; -ENOEXEC when the file ends before. */
static int source_read(const struct elf_source *src, uint64_t offset, void *buf, size_t size)
{
    uint64_t end;

    if (__builtin_add_overflow(offset, size, &end) || end > src->size)
        return -ENOEXEC;
    return src->read(src->userdata, offset, buf, size);
}

struct load_state {
    bool any;
    bool executable;
    uint64_t low;
    uint64_t high; /* page-aligned, exclusive */
};

static int add_load(struct load_state *st, const Elf64_Phdr *ph, uint64_t page_size,
                    struct elf_identity *id)
{
    uint64_t low = ph->p_vaddr & ~(page_size - 1);
    uint64_t high;

    if (ph->p_memsz == 0)
        return 0;
    if (ph->p_filesz > ph->p_memsz)
        return -ENOEXEC;
    if (__builtin_add_overflow(ph->p_vaddr, ph->p_memsz, &high) ||
        __builtin_add_overflow(high, page_size - 1, &high))
        return -ENOEXEC;
    high &= ~(page_size - 1);

    if (!st->any || (!st->executable && (ph->p_flags & PF_X))) {
        id->exec_vaddr = ph->p_vaddr;
        id->exec_offset = ph->p_offset;
    }
    if (ph->p_flags & PF_X)
        st->executable = true;
    if (!st->any || low < st->low)
        st->low = low;
    if (!st->any || high > st->high)
        st->high = high;
    st->any = true;
    return 0;
}

/* Looks for the GNU build-id among the notes of one segment. *notes_left bounds the work over all
 * segments. A malformed note ends the search here: the file still has its segments. Returns 1 when
 * found, 0 when not, -errno of the reader. */
static int find_build_id(const struct elf_source *src, const Elf64_Phdr *ph, unsigned *notes_left,
                         struct elf_identity *id)
{
    /* Notes of an 8-byte aligned segment (GNU properties) are padded to 8. */
    uint64_t align = ph->p_align == 8 ? 8 : 4;
    uint64_t pos = ph->p_offset;
    uint64_t end;

    if (__builtin_add_overflow(ph->p_offset, ph->p_filesz, &end) || end > src->size)
        return 0;

    while (*notes_left > 0 && pos <= end && end - pos >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr nh;
        uint64_t left, name_size, desc_size;
        int r;

        (*notes_left)--;
        r = source_read(src, pos, &nh, sizeof(nh));
        if (r < 0)
            return r;
        pos += sizeof(nh);
        left = end - pos;
        /* 32-bit sizes cannot overflow 64 bits here. */
        name_size = ((uint64_t) nh.n_namesz + align - 1) & ~(align - 1);
        desc_size = ((uint64_t) nh.n_descsz + align - 1) & ~(align - 1);
        if (name_size > left || nh.n_descsz > left - name_size)
            return 0;

        if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == sizeof(ELF_NOTE_GNU) &&
            nh.n_descsz > 0 && nh.n_descsz <= IMAGE_BUILD_ID_MAX) {
            char name[sizeof(ELF_NOTE_GNU)];

            r = source_read(src, pos, name, sizeof(name));
            if (r < 0)
                return r;
            if (memcmp(name, ELF_NOTE_GNU, sizeof(name)) == 0) {
                uint8_t build_id[IMAGE_BUILD_ID_MAX] = {0};

                r = source_read(src, pos + name_size, build_id, nh.n_descsz);
                if (r < 0)
                    return r;
                memcpy(id->build_id, build_id, sizeof(build_id));
                id->build_id_size = nh.n_descsz;
                return 1;
            }
        }
        /* The padding of the last note may be cut off. */
        if (desc_size > left - name_size)
            return 0;
        pos += name_size + desc_size;
    }
    return 0;
}

int elf_read_identity(const struct elf_source *src, uint64_t page_size, struct elf_identity *ret)
{
    struct elf_identity id = {0};
    struct load_state loads = {0};
    unsigned notes_left = ETW_ELF_NOTES_MAX;
    Elf64_Ehdr eh;
    int r;

    r = source_read(src, 0, &eh, sizeof(eh));
    if (r < 0)
        return r;
    if (memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
        eh.e_ident[EI_DATA] != ELFDATA2LSB || eh.e_ident[EI_VERSION] != EV_CURRENT)
        return -ENOEXEC;
    if (eh.e_type != ET_EXEC && eh.e_type != ET_DYN)
        return -ENOEXEC;
    if (eh.e_phentsize != sizeof(Elf64_Phdr) || eh.e_phnum == 0 || eh.e_phnum > ETW_ELF_PHDRS_MAX)
        return -ENOEXEC;

    for (unsigned i = 0; i < eh.e_phnum; i++) {
        Elf64_Phdr ph;
        uint64_t offset;

        if (__builtin_add_overflow(eh.e_phoff, (uint64_t) i * sizeof(ph), &offset))
            return -ENOEXEC;
        r = source_read(src, offset, &ph, sizeof(ph));
        if (r < 0)
            return r;
        if (ph.p_type == PT_LOAD) {
            r = add_load(&loads, &ph, page_size, &id);
            if (r < 0)
                return r;
        } else if (ph.p_type == PT_NOTE && id.build_id_size == 0) {
            r = find_build_id(src, &ph, &notes_left, &id);
            if (r < 0)
                return r;
        }
    }
    if (!loads.any)
        return -ENOEXEC;

    id.first_vaddr = loads.low;
    id.span = loads.high - loads.low;
    *ret = id;
    return 0;
}
