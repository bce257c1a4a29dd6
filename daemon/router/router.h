/* SPDX-License-Identifier: Apache-2.0
 *
 * The router takes records from sources, in time order under a watermark, into the buffers of the
 * sessions that want them. Loop thread only.
 *
 * A pass is one transaction of the state: read time T; begin() every source (each says up to which
 * stamp it vouches that nothing older will come); the smallest is the watermark; merge all records
 * below it; commit the state, which publishes what the sinks got; commit() every source. A record
 * older than the watermark already emitted is late: the session puts it into its late buffer, so
 * that time never runs backwards inside a buffer.
 *
 * Order of publication (what a takeover stands on): session buffers and counters first, one
 * epoch, then positions of sources and fill offsets.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "etl/classes.h"
#include "etl/record.h"

struct loop;
struct router;
struct session;
struct router_source;
struct state;

struct router_source_ops {
    const char *name;
    /* A pass begins at time `now`: take what is visible. Returns the stamp vouched for. */
    uint64_t (*begin)(struct router_source *s, uint64_t now);
    /* The next record in stamp order, or NULL; the same one until pop(). The memory stays valid
     * until commit(). *ret_stamp is its stamp. */
    const struct etl_record *(*peek)(struct router_source *s, uint64_t *ret_stamp);
    void (*pop)(struct router_source *s);
    /* Everything popped is in session buffers: give the space back. */
    void (*commit)(struct router_source *s);
    /* Bytes waiting after commit, to pick the next pass's time; may be NULL. */
    uint64_t (*pending)(struct router_source *s);
    /* Takes the record that peek gave into sessions, instead of the rows and masks here: for
     * sources whose records are not probes'. NULL: as probes' records. */
    void (*deliver)(struct router_source *s, const struct etl_record *rec, uint64_t stamp);
    /* After a pass that found nothing, when all sources have this and agree, the router sleeps
     * without a timer until router_kick(). The source may look once more at its rings and say no.
     * NULL: a source that has to be looked at (probes). */
    bool (*sleep)(struct router_source *s);
    /* In what time its fullest part fills up, as fast as it did before this pass: so soon has the
     * next one to come. UINT64_MAX: it got nothing. May be NULL. */
    uint64_t (*fill_ns)(struct router_source *s);
};
/* A source that fills up in less time gets passes without a pause. */
#define ROUTER_FLOOD_NS 400000u

/* Embed in the source's own struct. */
struct router_source {
    const struct router_source_ops *ops;
    void *router_data; /* the router's */
};

int router_new(struct loop *l, uint64_t interval_ns, struct router **ret);
struct router *router_free(struct router *r);
/* Before the first pass. */
void router_set_state(struct router *r, struct state *st);

int router_add_source(struct router *r, struct router_source *s);
void router_remove_source(struct router *r, struct router_source *s);

/* Sessions that get probe events: rows wanted by group mask, none at first. Masks may change while
 * added. Adding, removing and changing masks: never from inside a pass. */
int router_add_session(struct router *r, struct session *s);
void router_remove_session(struct router *r, struct session *s);
void router_set_masks(struct router *r, struct session *s, const uint32_t masks[8]);
/* The union over sessions, and one session's. */
void router_union_masks(struct router *r, uint32_t masks[8]);
bool router_wants(const struct router *r, enum etl_row row);

/* Raw records go to the finisher, which calls router_emit() for the events it makes of them, in
 * order; it also sees final records that need a last touch before they are copied (may change the
 * payload of the private copy: returns true when it did so in place). One finisher: the kernel's.
 */
struct router_finisher {
    void (*raw)(void *userdata, const struct etl_record *rec, uint64_t stamp);
    /* Called for final rows for which `touch_rows` is set: event is a private copy. */
    void (*touch)(void *userdata, enum etl_row row, void *event, uint64_t stamp, uint16_t cpu);
    bool touch_rows[ETL_ROW_COUNT];
    void *userdata;
};
void router_set_finisher(struct router *r, const struct router_finisher *f);

/* Emits one whole event (file layout, unpadded size, stamp inside) to every session whose masks
 * want `row`, or to `only` when it is not NULL (rundown). Counts it `written` there. From the
 * finisher, or outside a pass for records that come late. */
void router_emit(struct router *r, enum etl_row row, uint16_t cpu, uint64_t stamp,
                 const void *event, uint32_t size, struct session *only);

/* The stamp that an event of etwd itself takes so that it is in order in every session: all earlier
 * records are out, no later one is. The present time when no source is there. As old as the last
 * pass: who wants it to be now makes one first. */
uint64_t router_time(const struct router *r);

/* The watermark of the last pass: everything older is in the sessions' buffers. It stands still
 * while the router sleeps. */
uint64_t router_emitted(const struct router *r);

/* Holds the merge: no record newer than `stamp` is emitted until released (UINT64_MAX). Rundown
 * uses it so that its records, stamped T0, come before live ones. */
void router_hold(struct router *r, uint64_t stamp);

/* Passes until everything stamped before `stamp` is emitted, at most 500 ms, then calls done (with
 * false when time ran out: a busy writer). STOP and FLUSH wait on it. */
int router_drain(struct router *r, uint64_t stamp, void (*done)(bool complete, void *userdata),
                 void *userdata);
/* Whether somebody waits for the present pass to take all that is older: a drain, or who calls
 * router_pass(). Others may vouch for a little less where that costs less. */
bool router_exact(const struct router *r);
/* A source has something, asleep or not: the next pass comes at once, from the loop. */
void router_kick(struct router *r);
/* The same, at this time at the latest. */
void router_kick_by(struct router *r, uint64_t when);
/* One pass now. Not inside a transaction of the state (a pass is one): there it comes from the loop
 * at once. */
void router_pass(struct router *r);
