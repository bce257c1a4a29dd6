/* SPDX-License-Identifier: Apache-2.0
 *
 * See deliver.h. Loop thread only; no allocation, no system call.
 *
 * What is decided upon is a private copy: of the whole record when it is small or has extended
 * items (which are looked at), else of its header; the rest is opaque bytes, copied once from the
 * ring to where they stay.
 */
#include "deliver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "etl/build.h"
#include "sessions/session.h"
#include "shm/abi.h"
#include "tables.h"

/* Of struct table_slot.properties, what becomes of an event's items. */
#define PROPERTY_SID 0x001u
#define PROPERTY_TS_ID 0x002u
#define PROPERTY_STACK_TRACE 0x004u
#define PROPERTY_PROCESS_START_KEY 0x080u
#define PROPERTY_EVENT_KEY 0x100u
#define PROPERTIES_ADD (PROPERTY_SID | PROPERTY_TS_ID | PROPERTY_PROCESS_START_KEY)

/* Up to here a second copy costs less than finding out whether it is needed. */
#define WHOLE_BYTES 512u
/* A writer puts in at most one of each kind; more is somebody who plays. */
#define ITEMS_MAX 16u
/* Flags of the header that are the writer's to say: the text of EventWriteString. */
#define EVENT_FLAG_STRING_ONLY 0x0004u

struct item {
    uint16_t offset, size;
    uint32_t property; /* a session gets it when it asked for that; 0: always */
};

struct deliver {
    unsigned cpus;
    /* Of the event at hand: */
    uint32_t size;    /* of the event */
    uint32_t copied;  /* bytes of it in event[] */
    uint32_t payload; /* where it begins */
    uint32_t n_items;
    uint32_t optional; /* properties that its items depend on */
    struct item items[ITEMS_MAX];
    _Alignas(16) uint8_t event[ETW_EVENT_MAX + 1];
};

int deliver_new(unsigned cpus, struct deliver **ret)
{
    struct deliver *d = aligned_alloc(64, ALIGN_UP(sizeof(*d), (size_t) 64));
    if (!d)
        return -ENOMEM;
    d->cpus = cpus;
    *ret = d;
    return 0;
}

struct deliver *deliver_free(struct deliver *d)
{
    free(d);
    return NULL;
}

/* ---- checks ---- */

/* Bytes [from, to) of the event from the ring, once. */
static inline void fetch(struct deliver *d, const struct deliver_record *r, uint32_t from,
                         uint32_t to)
{
    memcpy(d->event + from, (const uint8_t *) r->record + sizeof(struct etl_record) + from,
           to - from);
    /* What is looked at is this copy, not again what it was made of. */
    __asm__ volatile("" ::: "memory");
    d->copied = to;
}

/* The items of the private copy: inside the event, whole, linked, of kinds that a writer may put
 * there. */
static bool items_check(struct deliver *d)
{
    uint32_t at = sizeof(struct etl_event_header);
    bool more = true;

    while (more) {
        struct etl_item_header h;
        uint32_t property = 0;
        if (d->n_items == ITEMS_MAX || d->size - at < sizeof(h))
            return false;
        memcpy(&h, d->event + at, sizeof(h));
        if (h.linkage > 1 || h.size > d->size - at ||
            h.size != ALIGN_UP((uint32_t) sizeof(h) + h.data_size, (uint32_t) 8))
            return false;
        switch (h.type) {
        case ETL_ITEM_RELATED_ACTIVITYID:
        case ETL_ITEM_EVENT_SCHEMA_TL:
        case ETL_ITEM_PROV_TRAITS:
            break;
        case ETL_ITEM_EVENT_KEY:
            property = PROPERTY_EVENT_KEY;
            break;
        case ETL_ITEM_STACK_TRACE32:
        case ETL_ITEM_STACK_TRACE64:
            property = PROPERTY_STACK_TRACE;
            break;
        default: /* those that etwd alone adds, too */
            return false;
        }
        d->optional |= property;
        d->items[d->n_items++] = (struct item){(uint16_t) at, h.size, property};
        at += h.size;
        more = h.linkage & 1;
    }
    d->payload = at;
    return true;
}

/* The private copy, in order; NULL, or what is wrong with it. */
static const char *event_check(struct deliver *d, const struct deliver_record *r)
{
    struct etl_event_header *h = (struct etl_event_header *) d->event;
    uint32_t room = r->prefix->size - (uint32_t) sizeof(struct etl_record);

    d->n_items = d->optional = 0;
    d->payload = sizeof(*h);
    if (r->prefix->size < sizeof(struct etl_record) + sizeof(*h))
        return "a record without an event header";
    if (r->prefix->cpu >= d->cpus)
        return "a processor that does not exist";
    if (room <= WHOLE_BYTES)
        fetch(d, r, 0, room);
    else
        fetch(d, r, 0, sizeof(*h));
    d->size = h->size;
    if (d->size < sizeof(*h) || shm_record_size(d->size) != r->prefix->size)
        return "an event of another size than its record";
    if (h->flags & ETL_EVENT_FLAG_EXTENDED_INFO) {
        if (d->copied < d->size)
            fetch(d, r, d->copied, d->size);
        if (!items_check(d))
            return "extended items that do not hold together";
    }
    if (d->copied > d->size)
        d->copied = d->size;
    return NULL;
}

static void count(const struct table *t, uint32_t slots, enum loss_cause cause)
{
    for (; slots; slots &= slots - 1) {
        struct session *s = t->slots[__builtin_ctz(slots)].session;
        if (s)
            session_count_lost(s, cause, 1);
    }
}

/* ---- into sessions ---- */

static inline void payload_put(const struct deliver *d, const struct deliver_record *r,
                               uint32_t from, uint8_t *to)
{
    if (from < d->copied) {
        memcpy(to, d->event + from, d->copied - from);
        to += d->copied - from;
        from = d->copied;
    }
    if (from < d->size)
        memcpy(to, (const uint8_t *) r->record + sizeof(struct etl_record) + from, d->size - from);
}

static uint32_t item_put(uint8_t *to, uint16_t type, const void *data, uint16_t size)
{
    uint16_t padded = (uint16_t) ALIGN_UP((uint32_t) sizeof(struct etl_item_header) + size, 8u);
    struct etl_item_header h = {.size = padded, .type = type, .linkage = 1, .data_size = size};

    memset(to + padded - 8, 0, 8);
    memcpy(to, &h, sizeof(h));
    memcpy(to + sizeof(h), data, size);
    return padded;
}

/* With items that are added and others that are left out. */
static void put_changed(struct deliver *d, const struct deliver_record *r, struct session *s,
                        uint32_t properties)
{
    const struct process_facts *f = process_facts(r->process);
    _Alignas(8) uint8_t added[3 * 8 + ALIGN_UP(ETL_SID_MAX, 8) + 2 * 8];
    uint8_t sid[ETL_SID_MAX];
    uint32_t n_added = 0, kept = 0, last = 0;

    for (uint32_t i = 0; i < d->n_items; i++)
        if (!(d->items[i].property & ~properties)) {
            last = kept;
            kept += d->items[i].size;
        }
    uint32_t last_added = 0;
    if (properties & PROPERTY_SID) {
        last_added = n_added;
        n_added +=
            item_put(added + n_added, ETL_ITEM_SID, sid, (uint16_t) etl_sid_from_uid(f->uid, sid));
    }
    if (properties & PROPERTY_TS_ID) {
        last_added = n_added;
        n_added += item_put(added + n_added, ETL_ITEM_TS_ID, &f->session_id, sizeof(f->session_id));
    }
    if (properties & PROPERTY_PROCESS_START_KEY) {
        last_added = n_added;
        n_added += item_put(added + n_added, ETL_ITEM_PROCESS_START_KEY, &f->start_key,
                            sizeof(f->start_key));
    }
    if (n_added > 0)
        last = kept + last_added;

    uint32_t size =
        (uint32_t) sizeof(struct etl_event_header) + kept + n_added + d->size - d->payload;
    if (size > ETW_EVENT_MAX) {
        session_count_lost(s, LOSS_TOO_BIG, 1);
        return;
    }
    uint8_t *p = session_reserve(s, r->prefix->cpu, r->stamp, size);
    if (!p)
        return;
    struct etl_event_header h;
    memcpy(&h, d->event, sizeof(h));
    h.size = (uint16_t) size;
    h.flags = (uint16_t) ((h.flags & ~ETL_EVENT_FLAG_EXTENDED_INFO) |
                          (kept + n_added > 0 ? ETL_EVENT_FLAG_EXTENDED_INFO : 0));
    memcpy(p, &h, sizeof(h));
    uint8_t *items = p + sizeof(h), *to = items;
    for (uint32_t i = 0; i < d->n_items; i++)
        if (!(d->items[i].property & ~properties)) {
            uint16_t linkage = 1;
            memcpy(to, d->event + d->items[i].offset, d->items[i].size);
            memcpy(to + offsetof(struct etl_item_header, linkage), &linkage, sizeof(linkage));
            to += d->items[i].size;
        }
    memcpy(to, added, n_added);
    to += n_added;
    if (to > items)
        memset(items + last + offsetof(struct etl_item_header, linkage), 0, sizeof(uint16_t));
    payload_put(d, r, d->payload, to);
    if (session_converts(s))
        session_convert_stamp(s, p, r->stamp);
}

static void put(struct deliver *d, const struct deliver_record *r, const struct table_slot *slot)
{
    if (((slot->properties & PROPERTIES_ADD) | (d->optional & ~slot->properties)) != 0) {
        put_changed(d, r, slot->session, slot->properties);
        return;
    }
    uint8_t *p = session_reserve(slot->session, r->prefix->cpu, r->stamp, d->size);
    if (!p)
        return;
    payload_put(d, r, 0, p);
    if (session_converts(slot->session))
        session_convert_stamp(slot->session, p, r->stamp);
}

void deliver_event(struct deliver *d, const struct deliver_record *r)
{
    const struct etl_record *prefix = r->prefix;
    const struct table *t = tables_find(r->process, prefix->registration, prefix->generation);
    struct etl_event_header *h = (struct etl_event_header *) d->event;

    if (!t) {
        process_misbehaved(r->process, "an event of a generation of slots that is not there");
        return;
    }
    const char *wrong = prefix->type != SHM_RECORD_EVENT  ? "a record of an unknown type"
                        : prefix->slots == 0              ? "an event for nobody"
                        : (prefix->slots & ~t->used) != 0 ? "an event for slots that are free"
                                                          : event_check(d, r);
    uint32_t slots = prefix->slots & t->used;
    if (wrong || r->forged_stamp)
        count(t, slots, LOSS_INVALID);
    if (wrong) {
        if (slots == 0)
            process_misbehaved(r->process, wrong);
        return;
    }
    h->header_type = ETL_EVENT64;
    h->marker = ETL_MARKER_TRACE;
    h->flags &= ETL_EVENT_FLAG_EXTENDED_INFO | EVENT_FLAG_STRING_ONLY;
    h->thread_id = r->thread_id;
    h->process_id = process_facts(r->process)->pid;
    h->time_stamp = r->stamp;
    h->provider_id = t->guid;
    for (; slots; slots &= slots - 1) {
        const struct table_slot *slot = &t->slots[__builtin_ctz(slots)];
        if (slot->session)
            put(d, r, slot);
    }
}
