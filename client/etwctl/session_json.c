/* SPDX-License-Identifier: Apache-2.0
 *
 * One session as JSON and in words; see sessions.h. One thread.
 */
#include "sessions.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "etl/classes.h"
#include "etl/layout.h"

static const struct {
    uint32_t bit;
    const char *name;
} mode_names[] = {
    {ETL_MODE_SEQUENTIAL, "sequential"},
    {ETL_MODE_CIRCULAR, "circular"},
    {ETL_MODE_APPEND, "append"},
    {ETL_MODE_NEWFILE, "newfile"},
    {ETL_MODE_USE_MS_FLUSH_TIMER, "use_ms_flush_timer"},
    {ETL_MODE_PREALLOCATE, "preallocate"},
    {ETL_MODE_NONSTOPPABLE, "nonstoppable"},
    {ETL_MODE_SECURE, "secure"},
    {ETL_MODE_REAL_TIME, "real_time"},
    {ETL_MODE_DELAY_OPEN_FILE, "delay_open_file"},
    {ETL_MODE_BUFFERING, "buffering"},
    {ETL_MODE_PRIVATE_LOGGER, "private_logger"},
    {ETL_MODE_ADD_HEADER, "add_header"},
    {ETL_MODE_USE_KBYTES_FOR_SIZE, "use_kbytes_for_size"},
    {ETL_MODE_USE_GLOBAL_SEQUENCE, "use_global_sequence"},
    {ETL_MODE_USE_LOCAL_SEQUENCE, "use_local_sequence"},
    {ETL_MODE_RELOG, "relog"},
    {ETL_MODE_PRIVATE_IN_PROC, "private_in_proc"},
    {ETL_MODE_RESERVED, "reserved"},
    {ETL_MODE_STOP_ON_HYBRID_SHUTDOWN, "stop_on_hybrid_shutdown"},
    {ETL_MODE_PERSIST_ON_HYBRID_SHUTDOWN, "persist_on_hybrid_shutdown"},
    {ETL_MODE_USE_PAGED_MEMORY, "use_paged_memory"},
    {ETL_MODE_SYSTEM_LOGGER, "system_logger"},
    {ETL_MODE_COMPRESSED, "compressed"},
    {ETL_MODE_INDEPENDENT_SESSION, "independent_session"},
    {ETL_MODE_NO_PER_PROCESSOR_BUFFERING, "no_per_processor_buffering"},
};

const char *session_modes(uint32_t modes, char buf[SESSION_MODES_MAX])
{
    size_t at = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(mode_names); i++) {
        if (!(modes & mode_names[i].bit))
            continue;
        int n =
            snprintf(buf + at, SESSION_MODES_MAX - at, "%s%s", at ? "," : "", mode_names[i].name);
        if (n < 0 || (size_t) n >= SESSION_MODES_MAX - at)
            break;
        at += (size_t) n;
    }
    return at ? buf : "none";
}

static struct json_object *modes_json(uint32_t modes)
{
    struct json_object *a = json_object_new_array();

    for (size_t i = 0; a && i < ARRAY_SIZE(mode_names); i++)
        if (modes & mode_names[i].bit)
            json_object_array_add(a, json_object_new_string(mode_names[i].name));
    return a;
}

/* Flags by name; bits without one as one "0x..." string, so that nothing is hidden. */
static struct json_object *flags_json(uint32_t flags)
{
    struct json_object *a = json_object_new_array();

    for (const struct etl_enable_flag *f = etl_enable_flags; a && f->name; f++)
        if (flags & f->bit) {
            json_object_array_add(a, json_object_new_string(f->name));
            flags &= ~f->bit;
        }
    if (a && flags)
        json_object_array_add(a, json_hex(flags));
    return a;
}

const char *session_clock(uint32_t clock)
{
    switch (clock) {
    case ETW_CLOCK_SYSTEM:
        return "system";
    case ETW_CLOCK_CYCLE:
        return "cycle";
    default:
        return "qpc"; /* 0 is ETW's default, QPC */
    }
}

const char *session_owner(uint32_t uid, char buf[SESSION_OWNER_MAX])
{
    const struct passwd *pw = getpwuid(uid);

    if (pw)
        (void) snprintf(buf, SESSION_OWNER_MAX, "%s", pw->pw_name);
    else
        (void) snprintf(buf, SESSION_OWNER_MAX, "%u", uid);
    return buf;
}

uint64_t session_events_lost(const Etwd__Session *s)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->n_lost; i++)
        if (__builtin_add_overflow(sum, s->lost[i]->events, &sum))
            return UINT64_MAX;
    return sum;
}

struct json_object *session_json(const Etwd__Session *s)
{
    static const Etwd__SessionProperties none = ETWD__SESSION_PROPERTIES__INIT;
    const Etwd__SessionProperties *p = s->properties ? s->properties : &none;
    struct json_object *o = json_object_new_object(), *lost = json_object_new_object();
    uint32_t in_use = s->buffers > s->buffers_free ? s->buffers - s->buffers_free : 0;

    if (!o || !lost) {
        json_object_put(o);
        json_object_put(lost);
        return NULL;
    }
    for (size_t i = 0; i < s->n_lost; i++) {
        struct json_object *cause = json_text(s->lost[i]->cause);
        if (cause)
            json_object_object_add(lost, json_object_get_string(cause),
                                   json_u64(s->lost[i]->events));
        json_object_put(cause);
    }

    json_object_object_add(o, "name", json_text(p->name));
    json_object_object_add(o, "handle", json_u64(s->handle));
    json_object_object_add(o, "guid", p->guid.len == 16 ? json_guid(p->guid.data) : NULL);
    json_object_object_add(o, "owner_uid", json_u64(s->owner_uid));
    json_object_object_add(o, "owner_pid", s->owner_pid ? json_u64(s->owner_pid) : NULL);
    json_object_object_add(o, "bound", json_object_new_boolean(s->bound));
    json_object_object_add(o, "start_time", json_filetime(s->start_time));
    json_object_object_add(o, "modes", modes_json(p->log_file_mode));
    json_object_object_add(o, "log_file", p->log_file[0] ? json_text(p->log_file) : NULL);
    json_object_object_add(o, "maximum_file_size", json_u64(p->maximum_file_size));
    json_object_object_add(o, "clock", json_object_new_string(session_clock(p->clock)));
    json_object_object_add(o, "buffer_size_kb", json_u64(p->buffer_size_kb));
    json_object_object_add(o, "min_buffers", json_u64(p->minimum_buffers));
    json_object_object_add(o, "max_buffers", json_u64(p->maximum_buffers));
    json_object_object_add(o, "buffers", json_u64(s->buffers));
    json_object_object_add(o, "buffers_in_use", json_u64(in_use));
    json_object_object_add(o, "buffers_written", json_u64(s->buffers_written));
    json_object_object_add(o, "flush_timer_s", json_u64(p->flush_timer_s));
    json_object_object_add(o, "real_time_consumers", json_u64(s->real_time_consumers));
    json_object_object_add(o, "written", json_u64(s->written));
    json_object_object_add(o, "recorded", json_u64(s->recorded));
    json_object_object_add(o, "overwritten", json_u64(s->overwritten));
    json_object_object_add(o, "lost", lost);
    json_object_object_add(o, "events_lost", json_u64(session_events_lost(s)));
    json_object_object_add(o, "log_buffers_lost", json_u64(s->log_buffers_lost));
    json_object_object_add(o, "real_time_buffers_lost", json_u64(s->real_time_buffers_lost));
    json_object_object_add(o, "enable_flags", flags_json(p->enable_flags));
    json_object_object_add(o, "inert_flags", flags_json(s->inert_flags));
    json_object_object_add(o, "providers", json_object_new_array());
    return o;
}

int session_print_json(struct conn *c, const Etwd__Session *s)
{
    struct json_object *o = session_json(s), *providers = NULL;
    int r = o ? session_providers_json(c, s->handle, &providers) : EXIT_OK;

    if (r != EXIT_OK) {
        json_object_put(o);
        return r;
    }
    if (o)
        json_object_object_add(o, "providers", providers);
    return print_json(o);
}

void session_say_result(const Etwd__Session *s)
{
    const char *file = s->properties ? s->properties->log_file : "";

    say("%s: %llu events, %llu lost, %u buffers", file, (unsigned long long) s->recorded,
        (unsigned long long) session_events_lost(s), s->buffers_written);
    for (size_t i = 0; i < s->n_lost; i++)
        if (s->lost[i]->events)
            say("%s: lost %llu: %s", file, (unsigned long long) s->lost[i]->events,
                s->lost[i]->cause);
    if (s->log_buffers_lost)
        say("%s: %u buffers could not be written", file, s->log_buffers_lost);
}
