/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the embedded BPF object, once for all units that are missing at that moment (it costs some
 * 50 ms: all the kernel's types are read), and keeps the links of its programs, which units let go
 * of. Rings and counters are shared by descriptor. Worker thread.
 */
#include "programs.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/siphash.h"
#include "etl/classes.h"
#include "kernel/rings.h"
#include "kernel/walk.h"
#include "privilege.h"
#include "probes.skel.h"

#define CAPABILITIES (PRIVILEGE_BIT(CAP_BPF) | PRIVILEGE_BIT(CAP_PERFMON))
#define UNIT_PROGRAMS_MAX 3

/* What comes and goes together. */
enum unit_id {
    UNIT_PROCESSES, /* before the images: at an exec the process's record comes first */
    UNIT_IMAGES,
    UNIT_SWITCHES,
    UNIT_READY,
    UNIT_WALK,
    UNITS
};

static const char *const unit_programs[UNITS][UNIT_PROGRAMS_MAX + 1] = {
    [UNIT_PROCESSES] = {"on_newtask", "on_exit", "on_exec"},
    [UNIT_IMAGES] = {"on_sys_exit", "on_exec_images"},
    [UNIT_SWITCHES] = {"on_switch"},
    [UNIT_READY] = {"on_waking", "on_wakeup_new"},
    [UNIT_WALK] = {"walk_tasks", "walk_images"},
};

/* The programs stay as long as somebody holds their links: the object they came from is closed. */
struct unit {
    bool attached;
    int links[UNIT_PROGRAMS_MAX]; /* -1: none */
};

_Static_assert(PROGRAMS_MAX == UNITS * UNIT_PROGRAMS_MAX, "a number for each");

struct programs {
    struct unit units[UNITS];
    unsigned count; /* atomic: read by the loop thread */
};

int programs_new(struct programs **ret)
{
    struct programs *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    for (int i = 0; i < UNITS; i++)
        for (int k = 0; k < UNIT_PROGRAMS_MAX; k++)
            p->units[i].links[k] = -1;
    *ret = p;
    return 0;
}

static void unit_close(struct programs *p, enum unit_id id)
{
    struct unit *u = &p->units[id];

    for (unsigned i = 0; i < UNIT_PROGRAMS_MAX; i++) {
        if (u->links[i] < 0)
            continue;
        u->links[i] = safe_close(u->links[i]);
        __atomic_fetch_sub(&p->count, 1, __ATOMIC_RELAXED);
    }
    u->attached = false;
}

struct programs *programs_free(struct programs *p)
{
    if (!p)
        return NULL;
    for (int i = 0; i < UNITS; i++)
        unit_close(p, (enum unit_id) i);
    free(p);
    return NULL;
}

bool programs_available(const char **ret_why)
{
    if (!privilege_permitted(CAPABILITIES))
        *ret_why = "etwd has neither root's rights nor the capabilities BPF and PERFMON";
    else if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
        *ret_why = "the kernel describes no types (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF)";
    else {
        *ret_why = NULL;
        return true;
    }
    return false;
}

unsigned programs_count(const struct programs *p)
{
    return __atomic_load_n(&p->count, __ATOMIC_RELAXED);
}

/* libbpf's own words, for whoever runs etwd with --verbose. */
static int libbpf_words(enum libbpf_print_level level, const char *format, va_list args)
{
    char text[1024];

    if (level == LIBBPF_DEBUG)
        return 0;
    int n = vsnprintf(text, sizeof(text), format, args);
    if (n > 0)
        log_debug("%.*s", (int) strcspn(text, "\n"), text);
    return n;
}

/* Uses a map that was made already. */
static int share(struct bpf_object *object, const char *map, int fd)
{
    struct bpf_map *m = bpf_object__find_map_by_name(object, map);
    if (!m)
        return -ENOENT;
    return bpf_map__reuse_fd(m, fd);
}

static bool unit_has(enum unit_id id, const char *program)
{
    for (unsigned i = 0; unit_programs[id][i]; i++)
        if (strcmp(unit_programs[id][i], program) == 0)
            return true;
    return false;
}

/* Loads the programs of the units in `which`. */
static int object_load(const bool which[UNITS], const struct probe_rings *rings,
                       struct bpf_object **ret)
{
    struct bpf_program *prog;
    size_t size;
    int r;

    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "etwd");
    const void *bytes = probes_bpf__elf_bytes(&size);
    struct bpf_object *o = bpf_object__open_mem(bytes, size, &opts);
    if (!o)
        return -errno;
    r = share(o, "rings", probe_rings_array_fd(rings));
    if (r == 0)
        r = share(o, "lost", probe_rings_lost_fd(rings));
    bpf_object__for_each_program(prog, o)
    {
        bool wanted = false;
        for (int i = 0; i < UNITS; i++)
            wanted |= which[i] && unit_has((enum unit_id) i, bpf_program__name(prog));
        (void) bpf_program__set_autoload(prog, wanted);
    }
    if (r == 0)
        r = bpf_object__load(o);
    if (r < 0) {
        bpf_object__close(o);
        return r;
    }
    *ret = o;
    return 0;
}

static int unit_attach(struct programs *p, enum unit_id id, struct bpf_object *object)
{
    struct unit *u = &p->units[id];

    for (unsigned i = 0; unit_programs[id][i]; i++) {
        struct bpf_program *prog = bpf_object__find_program_by_name(object, unit_programs[id][i]);
        struct bpf_link *link = prog ? bpf_program__attach(prog) : NULL;
        if (!link)
            return prog ? -errno : -ENOENT;
        u->links[i] = fcntl(bpf_link__fd(link), F_DUPFD_CLOEXEC, 3);
        int r = u->links[i] < 0 ? -errno : 0;
        (void) bpf_link__destroy(link); /* closes its own descriptor */
        if (r < 0)
            return r;
        __atomic_fetch_add(&p->count, 1, __ATOMIC_RELAXED);
    }
    u->attached = true;
    return 0;
}

int programs_fd(const struct programs *p, unsigned n)
{
    return p->units[n / UNIT_PROGRAMS_MAX].links[n % UNIT_PROGRAMS_MAX];
}

int programs_adopt(struct programs *p, unsigned n, int fd)
{
    struct bpf_link_info info = {0};
    uint32_t size = sizeof(info);
    unsigned unit = n / UNIT_PROGRAMS_MAX, i = n % UNIT_PROGRAMS_MAX;

    if (unit >= UNITS || i >= UNIT_PROGRAMS_MAX || p->units[unit].links[i] >= 0)
        return -EBADMSG;
    (void) privilege_raise(CAPABILITIES);
    int r = bpf_obj_get_info_by_fd(fd, &info, &size);
    privilege_restore();
    if (r < 0 ||
        info.type != (unit == UNIT_WALK ? BPF_LINK_TYPE_ITER : BPF_LINK_TYPE_RAW_TRACEPOINT))
        return -EBADMSG;
    p->units[unit].links[i] = fd;
    __atomic_fetch_add(&p->count, 1, __ATOMIC_RELAXED);
    return 0;
}

static void needs_as_array(struct program_needs n, bool ret[UNITS])
{
    ret[UNIT_PROCESSES] = n.processes;
    ret[UNIT_IMAGES] = n.images;
    ret[UNIT_SWITCHES] = n.switches;
    ret[UNIT_READY] = n.ready;
    ret[UNIT_WALK] = n.processes; /* runs only when read */
}

bool programs_adopted(struct programs *p, struct program_needs needs)
{
    bool need[UNITS], all = true;

    needs_as_array(needs, need);
    for (int id = 0; id < UNITS; id++) {
        bool whole = true;
        for (unsigned i = 0; unit_programs[id][i]; i++)
            whole &= p->units[id].links[i] >= 0;
        p->units[id].attached = whole && need[id];
        if (!p->units[id].attached)
            unit_close(p, (enum unit_id) id);
        all &= whole || !need[id];
    }
    return all;
}

uint64_t programs_hash(void)
{
    static const uint8_t key[16] = "etwd's programs";
    size_t size;
    const void *bytes = probes_bpf__elf_bytes(&size);
    return etw_siphash24(bytes, size, key);
}

int programs_rings(unsigned cpus, uint64_t bytes, struct probe_rings **ret)
{
    int r;

    (void) privilege_raise(CAPABILITIES);
    r = probe_rings_new(cpus, bytes, ret);
    privilege_restore();
    return r;
}

int programs_adopt_rings(unsigned cpus, uint64_t bytes, const int *fds,
                         const struct ring_image *const *images, struct probe_rings **ret)
{
    int r;

    (void) privilege_raise(CAPABILITIES);
    r = probe_rings_adopt(cpus, bytes, fds, images, ret);
    privilege_restore();
    return r;
}

static bool wants(const uint32_t masks[8], enum etl_row row)
{
    return (masks[etl_rows[row].mask] & etl_rows[row].mask_bit) != 0;
}

struct program_needs programs_need(const uint32_t masks[8])
{
    struct program_needs n = {
        .images = wants(masks, ETL_ROW_Image_Load),
        .switches = wants(masks, ETL_ROW_Thread_CSwitch),
        .ready = wants(masks, ETL_ROW_Thread_ReadyThread),
    };
    /* Images belong to processes: they end with them. */
    n.processes =
        n.images || wants(masks, ETL_ROW_Process_Start) || wants(masks, ETL_ROW_Thread_Start);
    return n;
}

int programs_attach(struct programs *p, const struct probe_rings *rings, struct program_needs needs)
{
    bool missing[UNITS], any = false;
    struct bpf_object *object = NULL;
    int r;

    needs_as_array(needs, missing);
    for (int i = 0; i < UNITS; i++) {
        missing[i] = missing[i] && !p->units[i].attached;
        any |= missing[i];
    }
    if (!any)
        return 0;
    (void) libbpf_set_print(libbpf_words);
    (void) privilege_raise(CAPABILITIES);
    r = object_load(missing, rings, &object);
    for (int i = 0; r == 0 && i < UNITS; i++)
        if (missing[i])
            r = unit_attach(p, (enum unit_id) i, object);
    for (int i = 0; r < 0 && i < UNITS; i++)
        if (missing[i])
            unit_close(p, (enum unit_id) i);
    bpf_object__close(object);
    privilege_restore();
    return r;
}

void programs_keep(struct programs *p, struct program_needs needs)
{
    bool need[UNITS];

    needs_as_array(needs, need);
    (void) privilege_raise(CAPABILITIES);
    for (int i = 0; i < UNITS; i++)
        if (!need[i])
            unit_close(p, (enum unit_id) i);
    privilege_restore();
}

int programs_walk(struct programs *p, bool images, bool tasks, struct walk **ret)
{
    const struct unit *u = &p->units[UNIT_WALK];
    int r;

    if (!u->attached)
        return -ENOENT;
    (void) privilege_raise(CAPABILITIES);
    r = walk_new(tasks ? u->links[0] : -1, images ? u->links[1] : -1, ret);
    privilege_restore();
    return r;
}
