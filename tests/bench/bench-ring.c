/* SPDX-License-Identifier: Apache-2.0
 *
 * What an event costs its writer, part by part: ns an event on one thread, the least of the rounds,
 * which alternate between the variants. Nobody reads the ring; its space is given back at once. The
 * event is an EVENT_HEADER64 with 24 bytes of payload.
 */
#include <err.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "shm/arena.h"
#include "shm/clock.h"
#include "shm/control.h"
#include "shm/slots.h"

#define EVENTS 200000u
#define EVENT_SIZE (80u + 24u)

static struct shm_writer writer;
static const void *control;
static void *base;
static struct shm_control *area;
static const volatile uint8_t payload[24] = "payload";

enum clock { CLOCK_NONE, CLOCK_GETTIME, CLOCK_LINE };

struct variant {
    const char *name;
    enum clock clock;
    bool match;  /* with the enable slots */
    bool record; /* reserve, fill, publish; else abandon */
    bool fences;
    uint32_t registration;
};

/* Not inlined, so that every variant pays the same for the call. */
static __attribute__((noinline)) uint64_t event(const struct variant *v, uint64_t n)
{
    struct etl_record *p;
    struct shm_match m = {.slots = 1, .generation = 1};
    uint64_t stamp = n;
    uint8_t flags = 0;
    uint32_t size = shm_record_size(EVENT_SIZE);
    uint8_t *e;

    shm_writer_begin(&writer);
    if (v->clock != CLOCK_NONE)
        stamp = shm_writer_now(&writer, &flags);
    if (v->match && !shm_slots_match(control, v->registration, 4, 2, 7, &m)) {
        shm_writer_abandon(&writer);
        return 0;
    }
    if (!v->record) {
        shm_writer_abandon(&writer);
        return stamp;
    }
    p = shm_writer_reserve(&writer, size);
    if (!p)
        errx(1, "the ring is full");
    *p = (struct etl_record){.size = size,
                             .type = SHM_RECORD_EVENT,
                             .flags = flags,
                             .generation = (uint16_t) m.generation,
                             .slots = m.slots};
    e = (uint8_t *) (p + 1);
    memset(e, 0, 80);
    memcpy(e + 16, &stamp, sizeof(stamp));
    memcpy(e + 80, (const void *) (uintptr_t) payload, sizeof(payload));
    (void) shm_writer_publish(&writer, size);
    return stamp;
}

static double round_ns(const struct variant *v)
{
    struct shm_tail_line *tail = shm_control_tail(base, 0);
    uint64_t begin;
    uint64_t end;

    writer.fences = v->fences;
    shm_clock_publish(shm_control_clock(base), NULL);
    if (v->clock == CLOCK_LINE) {
        struct shm_clock_fit fit = {0};
        uint64_t tsc;
        uint64_t ns;
        for (int i = 0; i < 2; i++) {
            shm_clock_sample(&tsc, &ns);
            (void) shm_clock_fit_add(&fit, tsc, ns);
            while (i == 0 && etw_clock_boottime() - ns < SHM_CLOCK_FIT_NS / 5)
                (void) sched_yield();
        }
        if (!fit.good)
            errx(1, "the clock line cannot be fitted");
        shm_clock_publish(shm_control_clock(base), &fit);
    }
    begin = etw_clock_boottime();
    for (uint32_t i = 0; i < EVENTS; i++) {
        (void) event(v, i);
        if (i % 512 == 0)
            atomic_store_explicit(&tail->tail, writer.head, memory_order_release);
    }
    end = etw_clock_boottime();
    atomic_store_explicit(&tail->tail, writer.head, memory_order_release);
    return (double) (end - begin) / EVENTS;
}

static void enable(uint32_t registration, unsigned slots)
{
    struct shm_slot_config config[SHM_SLOTS_MAX];
    uint32_t generation;

    for (unsigned i = 0; i < slots; i++)
        config[i] = (struct shm_slot_config){
            .state = SHM_SLOT_OPEN, .level = 5, .any = 6, .largest_event = 60000};
    if (shm_control_publish(area, registration, config, slots, &generation) < 0)
        errx(1, "shm_control_publish failed");
}

int main(void)
{
    static const struct variant variants[] = {
        {"begin and abandon", CLOCK_NONE, false, false},
        {"record, no clock", CLOCK_NONE, false, true},
        {"record, no clock, fences", CLOCK_NONE, false, true, .fences = true},
        {"match alone, 1 session", CLOCK_NONE, true, false, .registration = 1},
        {"match alone, 8 sessions", CLOCK_NONE, true, false, .registration = 8},
        {"match alone, 32 sessions", CLOCK_NONE, true, false, .registration = 32},
        {"record, 1 session, no clock", CLOCK_NONE, true, true, .registration = 1},
        {"record, 1 session, clock_gettime", CLOCK_GETTIME, true, true, .registration = 1},
        {"record, 1 session, clock line", CLOCK_LINE, true, true, .registration = 1},
        {"record, 8 sessions, clock line", CLOCK_LINE, true, true, .registration = 8},
    };
    double best[ARRAY_SIZE(variants)];
    struct shm_arena *arena;
    int arena_fd;
    int control_fd;
    int client_fd;
    cpu_set_t cpu;

    CPU_ZERO(&cpu);
    CPU_SET((unsigned) sched_getcpu(), &cpu);
    (void) sched_setaffinity(0, sizeof(cpu), &cpu);
    if (shm_arena_create(SHM_RING_SIZE_DEFAULT, &arena_fd) < 0 ||
        shm_control_create(&control_fd, &client_fd) < 0 ||
        shm_control_map_write(control_fd, &base) < 0 ||
        shm_control_new(control_fd, base, SHM_RING_SIZE_DEFAULT, &area) < 0 ||
        shm_arena_map(arena_fd, SHM_RING_SIZE_DEFAULT, &arena) < 0 ||
        shm_control_map(client_fd, &control) < 0 ||
        shm_arena_seal(arena_fd, SHM_RING_SIZE_DEFAULT) < 0 ||
        shm_arena_give_ring(arena_fd, SHM_RING_SIZE_DEFAULT, 0) < 0 ||
        shm_control_add_ring(area, 0) < 0 ||
        shm_writer_claim(&writer, arena, control, 0, 0, SHM_RING_SIZE_DEFAULT, false, 1) < 0)
        errx(1, "cannot make an arena");
    enable(1, 1);
    enable(8, 8);
    enable(32, 32);
    for (int round = 0; round < 9; round++)
        for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
            double ns;
            if (variants[i].clock == CLOCK_LINE && !shm_clock_usable())
                continue;
            ns = round_ns(&variants[i]);
            if (round == 0 || ns < best[i])
                best[i] = ns;
        }
    printf("%-34s %8s\n", "ring writer", "ns/event");
    for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
        if (variants[i].clock == CLOCK_LINE && !shm_clock_usable())
            printf("%-34s %8s\n", variants[i].name, "-");
        else
            printf("%-34s %8.1f\n", variants[i].name, best[i]);
    shm_control_free(area);
    shm_arena_unmap(arena, SHM_RING_SIZE_DEFAULT);
    shm_control_unmap(control);
    shm_control_unmap(base);
    return 0;
}
