/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: one record of a hostile provider into the sessions of a table. The input is the
 * table (struct setting), then the record with its prefix as it lies in the ring. What gets into a
 * session must be a whole event of the size that was reserved, with etwd's stamp, process and
 * thread, extended items that hold together, and nothing that the session did not ask for. Memory
 * outside the record, and events for sessions that the record does not name, are findings.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "etl/iterate.h"
#include "providers/deliver.h"
#include "providers/tables.h"
#include "sessions/session.h"

#define CHECK(c)                                                                                   \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

#define SESSIONS 3u
#define CPUS 4u
#define PID 4242u
#define TID 4343u
#define STAMP 987654321u
#define GUID1 0x1234u

struct setting {
    uint32_t used; /* of the table; slots with a session are those below SESSIONS */
    uint16_t properties[SESSIONS];
    uint8_t ended; /* bit n: session n is not there any more */
    uint8_t no_room;
    uint8_t no_table;
    uint8_t forged_stamp;
};

struct session {
    struct session_head head;
    uint8_t *event; /* NULL: it got none */
    uint32_t size;
    uint64_t lost;
};

static struct session sessions[SESSIONS];
static struct table table;
static struct setting setting;
static uint64_t misbehaved;

const struct table *tables_find(const struct provider_process *pp, uint16_t registration,
                                uint16_t generation)
{
    return setting.no_table ? NULL : &table;
}

const struct process_facts *process_facts(const struct provider_process *pp)
{
    static const struct process_facts facts = {
        .pid = PID, .uid = 1000, .start_key = 77, .session_id = 5};

    return &facts;
}

void process_misbehaved(struct provider_process *pp, const char *what)
{
    misbehaved++;
}

void *session_reserve(struct session *s, uint16_t cpu, uint64_t stamp, uint32_t size)
{
    CHECK(cpu < CPUS && stamp == STAMP && size <= ETW_EVENT_MAX && size >= 80);
    CHECK(!s->event);
    if (setting.no_room & 1u << (s - sessions)) {
        s->lost++;
        return NULL;
    }
    s->event = malloc(size);
    s->size = size;
    CHECK(s->event);
    memset(s->event, 0xEE, size);
    return s->event;
}

void session_convert_stamp(const struct session *s, void *event, uint64_t stamp)
{
    abort(); /* none of these sessions has a clock of its own */
}

void session_count_lost(struct session *s, enum loss_cause cause, uint64_t events)
{
    CHECK(events == 1 && (cause == LOSS_INVALID || cause == LOSS_TOO_BIG));
    s->lost++;
}

static void check_event(unsigned n, const struct etl_record *prefix)
{
    const struct session *s = &sessions[n];
    uint32_t properties = setting.properties[n];
    struct etl_item item;
    struct etl_event e;
    uint32_t pos = 0;
    uint64_t sum = 0;
    int r = 0;

    CHECK(prefix->slots & table.used & 1u << n);
    CHECK(!(setting.ended & 1u << n) && !setting.no_table);
    CHECK(etl_event_parse(s->event, s->size, &e) == 0);
    CHECK(e.size == s->size && e.header_type == ETL_EVENT64 && e.pointer_size == 8);
    CHECK(e.process_id == PID && e.thread_id == TID && e.time_stamp == STAMP);
    CHECK(etw_guid_equal(&e.guid, &(const struct etw_guid){.data1 = GUID1}));
    while (e.items && (r = etl_item_next(&e, &pos, &item)) == 1) {
        CHECK(item.data >= s->event && item.data + item.size <= s->event + s->size);
        CHECK(item.type != ETL_ITEM_SID || properties & 0x001);
        CHECK(item.type != ETL_ITEM_TS_ID || properties & 0x002);
        CHECK(item.type != ETL_ITEM_PROCESS_START_KEY || properties & 0x080);
        CHECK(item.type != ETL_ITEM_EVENT_KEY || properties & 0x100);
        for (uint16_t i = 0; i < item.size; i++)
            sum += item.data[i];
    }
    CHECK(r == 0);
    for (uint32_t i = 0; i < e.data_size; i++)
        sum += e.data[i];
    __asm__ volatile("" ::"r"(sum));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct deliver *deliver;
    struct deliver_record r = {.stamp = STAMP, .thread_id = TID};
    struct etl_record prefix;
    uint8_t *record;
    size_t room;

    if (!deliver)
        CHECK(deliver_new(CPUS, &deliver) == 0);
    if (size < sizeof(setting) + sizeof(prefix))
        return 0;
    memcpy(&setting, data, sizeof(setting));
    data += sizeof(setting);
    size -= sizeof(setting);
    memcpy(&prefix, data, sizeof(prefix));
    /* The ring's reader has checked the size: it is that of the memory. */
    room = size & ~15ull;
    if (room > SHM_RING_SIZE_DEFAULT / 2)
        room = SHM_RING_SIZE_DEFAULT / 2;
    prefix.size = (uint32_t) room;
    record = malloc(room);
    CHECK(record);
    memcpy(record, data, room);
    memcpy(record, &prefix, sizeof(prefix));
    memset(sessions, 0, sizeof(sessions));
    misbehaved = 0;
    table =
        (struct table){.guid.data1 = GUID1, .generation = prefix.generation, .used = setting.used};
    for (unsigned i = 0; i < SESSIONS; i++)
        table.slots[i] = (struct table_slot){
            .session = setting.ended & 1u << i ? NULL : &sessions[i],
            .properties = setting.properties[i],
        };
    r.prefix = &prefix;
    r.record = record;
    r.forged_stamp = setting.forged_stamp & 1;
    deliver_event(deliver, &r);
    for (unsigned i = 0; i < SESSIONS; i++) {
        if (sessions[i].event)
            check_event(i, &prefix);
        CHECK(sessions[i].lost <= 1 + (uint64_t) r.forged_stamp);
        free(sessions[i].event);
    }
    free(record);
    return 0;
}
