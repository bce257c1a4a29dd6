/* SPDX-License-Identifier: Apache-2.0
 *
 * The ELF reader of etwd-image: real files against readelf, and files made to hurt. That it reads
 * only inside the file is checked by the source it is given.
 */
#include <check.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "image/elf_identity.h"
#include "lib/test.h"

struct memory_file {
    const uint8_t *data;
    size_t size;
    unsigned reads;
    int fail; /* what read() returns, when not 0 */
};

static int memory_read(void *userdata, uint64_t offset, void *buf, size_t size)
{
    struct memory_file *f = userdata;

    ck_assert_msg(offset <= f->size && size <= f->size - offset,
                  "read of %zu bytes at %" PRIu64 " in a file of %zu", size, offset, f->size);
    f->reads++;
    if (f->fail)
        return f->fail;
    memcpy(buf, f->data + offset, size);
    return 0;
}

static int read_memory(struct memory_file *f, struct elf_identity *ret)
{
    return elf_read_identity(
        &(struct elf_source){.read = memory_read, .userdata = f, .size = f->size}, 4096, ret);
}

static int read_bytes(const void *data, size_t size, struct elf_identity *ret)
{
    return read_memory(&(struct memory_file){.data = data, .size = size}, ret);
}

/* An ELF file with a header, n program headers right after it and room for notes behind. */
struct made {
    Elf64_Ehdr eh;
    Elf64_Phdr ph[8];
    uint8_t notes[512];
};

static struct made good(void)
{
    struct made m = {
        .eh = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
               .e_type = ET_DYN,
               .e_phoff = sizeof(Elf64_Ehdr),
               .e_phentsize = sizeof(Elf64_Phdr),
               .e_phnum = 3},
        .ph =
            {
                {.p_type = PT_LOAD,
                 .p_flags = PF_R,
                 .p_vaddr = 0x1000,
                 .p_offset = 0,
                 .p_filesz = 0x200,
                 .p_memsz = 0x200},
                {.p_type = PT_LOAD,
                 .p_flags = PF_R | PF_X,
                 .p_vaddr = 0x3040,
                 .p_offset = 0x40,
                 .p_filesz = 0x100,
                 .p_memsz = 0x2100},
                {.p_type = PT_NOTE, .p_offset = offsetof(struct made, notes), .p_align = 4},
            },
    };
    return m;
}

static size_t put_note(struct made *m, size_t at, uint32_t type, const char *name,
                       uint32_t name_size, uint32_t desc_size, size_t align)
{
    Elf64_Nhdr nh = {.n_namesz = name_size, .n_descsz = desc_size, .n_type = type};

    memcpy(m->notes + at, &nh, sizeof(nh));
    at += sizeof(nh);
    memcpy(m->notes + at, name, name_size);
    at += (name_size + align - 1) & ~(align - 1);
    for (uint32_t i = 0; i < desc_size; i++)
        m->notes[at + i] = (uint8_t) (0xA0 + i);
    at += (desc_size + align - 1) & ~(align - 1);
    m->ph[2].p_filesz = at;
    return at;
}

static int read_made(const struct made *m, struct elf_identity *ret)
{
    return read_bytes(m, sizeof(*m), ret);
}

static void check_real(const char *path)
{
    struct elf_identity id, again;
    struct test_output out;
    char hex[2 * IMAGE_BUILD_ID_MAX + 1] = "";
    uint64_t low = UINT64_MAX, high = 0, exec_vaddr = 0, exec_offset = 0;
    uint8_t *data;
    size_t size;
    char *save = NULL;

    data = (uint8_t *) test_read_file(path, &size);
    ck_assert_int_eq(read_bytes(data, size, &id), 0);
    for (uint32_t i = 0; i < id.build_id_size; i++)
        snprintf(hex + 2 * i, 3, "%02x", id.build_id[i]);
    ck_assert_uint_gt(id.build_id_size, 0);

    test_run_ok(&out, "readelf", "-nW", path);
    ck_assert_msg(strstr(out.out, hex) != NULL, "%s: build-id %s not in:\n%s", path, hex, out.out);
    test_output_done(&out);

    /* "  LOAD 0xOFFSET 0xVADDR 0xPADDR 0xFILESZ 0xMEMSZ FLAGS 0xALIGN" */
    test_run_ok(&out, "readelf", "-lW", path);
    for (char *line = strtok_r(out.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        uint64_t offset, vaddr, memsz;
        char flags[4] = "";

        if (sscanf(line, " LOAD 0x%" SCNx64 " 0x%" SCNx64 " 0x%*x 0x%*x 0x%" SCNx64 " %3c", &offset,
                   &vaddr, &memsz, flags) != 4)
            continue;
        if (vaddr < low)
            low = vaddr;
        if (vaddr + memsz > high)
            high = vaddr + memsz;
        if (strchr(flags, 'E') && exec_vaddr == 0) {
            exec_vaddr = vaddr;
            exec_offset = offset;
        }
    }
    test_output_done(&out);
    low &= ~4095ULL;
    high = (high + 4095) & ~4095ULL;
    ck_assert_uint_eq(id.first_vaddr, low);
    ck_assert_uint_eq(id.span, high - low);
    ck_assert_uint_eq(id.exec_vaddr, exec_vaddr);
    ck_assert_uint_eq(id.exec_offset, exec_offset);

    /* A failure at any read is passed on and leaves the output alone. */
    memset(&again, 0x55, sizeof(again));
    {
        struct memory_file f = {.data = data, .size = size, .fail = -EIO};
        ck_assert_int_eq(read_memory(&f, &again), -EIO);
        ck_assert_uint_eq(again.span, 0x5555555555555555);
    }
    free(data);
}

START_TEST(real_files)
{
    static const char *const libraries[] = {
        "/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"};
    unsigned seen = 0;

    check_real("/bin/true");
    check_real("/bin/sh");
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (access(libraries[i], R_OK) == 0) {
            check_real(libraries[i]);
            seen++;
        }
    ck_assert_uint_ge(seen, 2);
}
END_TEST

START_TEST(segments)
{
    struct elf_identity id;
    struct made m = good();

    ck_assert_int_eq(read_made(&m, &id), 0);
    ck_assert_uint_eq(id.first_vaddr, 0x1000);
    ck_assert_uint_eq(id.span, 0x6000 - 0x1000); /* 0x3040 + 0x2100, up to a page */
    ck_assert_uint_eq(id.exec_vaddr, 0x3040);
    ck_assert_uint_eq(id.exec_offset, 0x40);
    ck_assert_uint_eq(id.build_id_size, 0);

    /* None is executable: the first one's place. */
    m.ph[1].p_flags = PF_R;
    ck_assert_int_eq(read_made(&m, &id), 0);
    ck_assert_uint_eq(id.exec_vaddr, 0x1000);
    ck_assert_uint_eq(id.exec_offset, 0);

    /* Order does not matter, empty ones do not count. */
    m = good();
    m.ph[3] = m.ph[0];
    m.ph[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = 0x10};
    m.eh.e_phnum = 4;
    ck_assert_int_eq(read_made(&m, &id), 0);
    ck_assert_uint_eq(id.first_vaddr, 0x1000);
    ck_assert_uint_eq(id.span, 0x5000);
}
END_TEST

START_TEST(refused)
{
    struct elf_identity id = {.span = 77};
    struct made m;

#define REFUSED(change)                                                                            \
    do {                                                                                           \
        m = good();                                                                                \
        change;                                                                                    \
        ck_assert_msg(read_made(&m, &id) == -ENOEXEC, "accepted: %s", #change);                    \
        ck_assert_uint_eq(id.span, 77);                                                            \
    } while (0)

    REFUSED(m.eh.e_ident[0] = 'E');
    REFUSED(m.eh.e_ident[EI_CLASS] = ELFCLASS32);
    REFUSED(m.eh.e_ident[EI_DATA] = ELFDATA2MSB);
    REFUSED(m.eh.e_ident[EI_VERSION] = 2);
    REFUSED(m.eh.e_type = ET_CORE);
    REFUSED(m.eh.e_type = ET_REL);
    REFUSED(m.eh.e_phentsize = 32);
    REFUSED(m.eh.e_phnum = 0);
    REFUSED(m.eh.e_phnum = PN_XNUM);
    REFUSED(m.eh.e_phnum = ETW_ELF_PHDRS_MAX + 1);
    REFUSED(m.eh.e_phnum = ETW_ELF_PHDRS_MAX); /* the file ends before */
    REFUSED(m.eh.e_phoff = UINT64_MAX);
    REFUSED(m.eh.e_phoff = UINT64_MAX - 56);
    REFUSED(m.eh.e_phoff = sizeof(m) - 8);
    REFUSED(m.ph[0].p_vaddr = UINT64_MAX);
    REFUSED(m.ph[0].p_memsz = UINT64_MAX);
    REFUSED((m.ph[0].p_vaddr = UINT64_MAX - 0x300, m.ph[0].p_memsz = 0x200));
    REFUSED(m.ph[0].p_filesz = m.ph[0].p_memsz + 1);
    REFUSED((m.ph[0].p_type = PT_NULL, m.ph[1].p_type = PT_NULL)); /* nothing to load */
    ck_assert_int_eq(read_bytes("", 0, &id), -ENOEXEC);
    ck_assert_int_eq(read_bytes("\177ELF", 4, &id), -ENOEXEC);
}
END_TEST

START_TEST(notes)
{
    struct elf_identity id;
    struct made m = good();
    size_t at;

    /* Not the first note, nor the first with that type, nor the first with that name. */
    at = put_note(&m, 0, NT_GNU_ABI_TAG, "GNU", 4, 16, 4);
    at = put_note(&m, at, NT_GNU_BUILD_ID, "Go\0", 4, 7, 4);
    put_note(&m, at, NT_GNU_BUILD_ID, "GNU", 4, 20, 4);
    ck_assert_int_eq(read_made(&m, &id), 0);
    ck_assert_uint_eq(id.build_id_size, 20);
    ck_assert_uint_eq(id.build_id[0], 0xA0);
    ck_assert_uint_eq(id.build_id[19], 0xA0 + 19);
    ck_assert_uint_eq(id.build_id[20], 0);

    /* Padding to 8 in a segment aligned to 8. */
    m = good();
    m.ph[2].p_align = 8;
    at = put_note(&m, 0, NT_GNU_PROPERTY_TYPE_0, "GNU", 4, 12, 8);
    put_note(&m, at, NT_GNU_BUILD_ID, "GNU", 4, 8, 8);
    ck_assert_int_eq(read_made(&m, &id), 0);
    ck_assert_uint_eq(id.build_id_size, 8);

    /* The longest that has room, and one byte more. */
    m = good();
    put_note(&m, 0, NT_GNU_BUILD_ID, "GNU", 4, IMAGE_BUILD_ID_MAX, 4);
    ck_assert_int_eq(read_made(&m, &id), 0);
    ck_assert_uint_eq(id.build_id_size, IMAGE_BUILD_ID_MAX);
    m = good();
    put_note(&m, 0, NT_GNU_BUILD_ID, "GNU", 4, IMAGE_BUILD_ID_MAX + 1, 4);
    ck_assert_int_eq(read_made(&m, &id), 0);
    ck_assert_uint_eq(id.build_id_size, 0);

    /* An odd size whose padding is cut off by the segment's end. */
    m = good();
    put_note(&m, 0, NT_GNU_BUILD_ID, "GNU", 4, 17, 4);
    m.ph[2].p_filesz = sizeof(Elf64_Nhdr) + 4 + 17;
    ck_assert_int_eq(read_made(&m, &id), 0);
    ck_assert_uint_eq(id.build_id_size, 17);
    m.ph[2].p_filesz--;
    ck_assert_int_eq(read_made(&m, &id), 0);
    ck_assert_uint_eq(id.build_id_size, 0);

    /* Sizes that lie: the segments are still told. */
    for (int field = 0; field < 2; field++)
        for (int value = 0; value < 3; value++) {
            static const uint32_t lies[] = {UINT32_MAX, UINT32_MAX - 11, 0x7FFFFFFF};
            Elf64_Nhdr nh;

            m = good();
            put_note(&m, 0, NT_GNU_BUILD_ID, "GNU", 4, 20, 4);
            memcpy(&nh, m.notes, sizeof(nh));
            if (field == 0)
                nh.n_namesz = lies[value];
            else
                nh.n_descsz = lies[value];
            memcpy(m.notes, &nh, sizeof(nh));
            ck_assert_int_eq(read_made(&m, &id), 0);
            ck_assert_uint_eq(id.build_id_size, 0);
            ck_assert_uint_eq(id.span, 0x5000);
        }
    m = good();
    put_note(&m, 0, NT_GNU_BUILD_ID, "GNU", 4, 20, 4);
    m.ph[2].p_offset = UINT64_MAX - 8;
    ck_assert_int_eq(read_made(&m, &id), 0);
    ck_assert_uint_eq(id.build_id_size, 0);
    m.ph[2].p_offset = offsetof(struct made, notes);
    m.ph[2].p_filesz = UINT64_MAX;
    ck_assert_int_eq(read_made(&m, &id), 0);
    ck_assert_uint_eq(id.build_id_size, 0);
}
END_TEST

/* Segments full of empty notes, overlapping, as many as fit: the work is bounded. */
START_TEST(work_is_bounded)
{
    static const size_t size = 1024 * 1024;
    struct memory_file f = {.size = size};
    struct elf_identity id;
    struct made m = good();
    uint8_t *data;

    data = calloc(1, size);
    m.eh.e_phnum = ETW_ELF_PHDRS_MAX;
    memcpy(data, &m, sizeof(m));
    for (unsigned i = 2; i < ETW_ELF_PHDRS_MAX; i++) {
        Elf64_Phdr ph = {.p_type = PT_NOTE, .p_offset = 512 * 1024, .p_filesz = 512 * 1024};

        memcpy(data + sizeof(Elf64_Ehdr) + i * sizeof(ph), &ph, sizeof(ph));
    }
    f.data = data;
    ck_assert_int_eq(read_memory(&f, &id), 0);
    ck_assert_uint_eq(id.build_id_size, 0);
    ck_assert_uint_le(f.reads, 1 + ETW_ELF_PHDRS_MAX + 3 * ETW_ELF_NOTES_MAX);
    free(data);
}
END_TEST

/* Every length of a real file's beginning, and every byte of its headers changed: either an answer
 * or a refusal, never a read outside (memory_read checks). */
START_TEST(cut_and_flipped)
{
    struct elf_identity id;
    size_t size, cut_max;
    uint8_t *data;

    data = (uint8_t *) test_read_file("/bin/true", &size);
    cut_max = size < 4096 ? size : 4096;
    for (size_t cut = 0; cut <= cut_max; cut++) {
        /* A copy of exactly that size, so that a sanitizer sees the end as well. */
        uint8_t *part = malloc(cut + 1);
        int r;

        memcpy(part, data, cut);
        r = read_bytes(part, cut, &id);
        ck_assert_msg(r == 0 || r == -ENOEXEC, "cut to %zu: %d", cut, r);
        free(part);
    }
    for (size_t at = 0; at < 1024 && at < size; at++)
        for (int bit = 0; bit < 8; bit++) {
            int r;

            data[at] ^= (uint8_t) (1 << bit);
            r = read_bytes(data, size, &id);
            ck_assert_msg(r == 0 || r == -ENOEXEC, "bit %d of byte %zu: %d", bit, at, r);
            data[at] ^= (uint8_t) (1 << bit);
        }
    free(data);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("elf");
    TCase *t = tcase_create("reader");

    tcase_add_test(t, real_files);
    tcase_add_test(t, segments);
    tcase_add_test(t, refused);
    tcase_add_test(t, notes);
    tcase_add_test(t, work_is_bounded);
    tcase_add_test(t, cut_and_flipped);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
