/* SPDX-License-Identifier: Apache-2.0
 *
 * TraceQueryInformation and TraceSetInformation: the classes that are a session's. Which classes
 * there are, and how large, the library checks first; nothing of that is believed. Loop thread
 * only.
 */
#include "dispatch.h"

#include <string.h>

#include "base/winerror.h"
#include "etl/classes.h"
#include "sessions/sessions.h"

/* TRACE_QUERY_INFO_CLASS */
enum {
    STACK_TRACING = 3,
    SYSTEM_TRACE_ENABLE_FLAGS = 4,
    STREAM_COUNT = 23,
};

static void reply_data(struct connection *c, uint64_t id, const void *data, size_t size)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__TraceInformationReply body = ETWD__TRACE_INFORMATION_REPLY__INIT;
    body.data.data = (uint8_t *) (uintptr_t) data;
    body.data.len = size;
    m.id = id;
    m.body_case = ETWD__MESSAGE__BODY_TRACE_INFORMATION_REPLY;
    m.trace_information_reply = &body;
    connection_send(c, &m);
}

static void query(struct connection *c, uint64_t id, const struct session *s, uint32_t class)
{
    uint32_t masks[8] = {0}, streams;

    switch (class) {
    case STACK_TRACING: /* ids that nothing decodes are not kept, others are refused */
        reply_data(c, id, NULL, 0);
        return;
    case SYSTEM_TRACE_ENABLE_FLAGS:
        if (session_is_kernel(s))
            etl_masks_from_flags(session_properties(s)->enable_flags, masks);
        reply_data(c, id, masks, sizeof(masks));
        return;
    case STREAM_COUNT:
        streams = session_streams(s);
        reply_data(c, id, &streams, sizeof(streams));
        return;
    default:
        reply_status(c, id, ETW_ERROR_NOT_SUPPORTED,
                     "this etwd does not have this class of information");
    }
}

static void set_done(const struct refusal *refusal, const struct session *s, void *userdata)
{
    (void) s;
    if (refusal)
        pending_status(userdata, refusal->status, refusal->reason);
    else
        pending_status(userdata, ETW_ERROR_SUCCESS, NULL);
}

static void set_masks(struct connection *c, uint64_t id, struct session *s,
                      const ProtobufCBinaryData *data)
{
    uint32_t masks[8], again[8], flags;

    if (data->len != sizeof(masks)) {
        reply_status(c, id, ETW_ERROR_INVALID_PARAMETER, "a group mask has 32 bytes");
        return;
    }
    memcpy(masks, data->data, sizeof(masks));
    flags = etl_flags_from_masks(masks);
    etl_masks_from_flags(flags, again);
    if (memcmp(masks, again, sizeof(masks)) != 0) {
        reply_status(c, id, ETW_ERROR_NOT_SUPPORTED,
                     "the group mask has events that no EnableFlags name: this etwd does not have "
                     "them yet");
        return;
    }
    struct pending *p = pending_new(c, id);
    if (p)
        sessions_set_flags(connection_server(c)->env.sessions, s, flags, set_done, p);
}

void dispatch_information(struct connection *c, uint64_t id, const Etwd__TraceInformation *m)
{
    struct session *s = session_for(c, id, NULL, m->handle, m->set);
    if (!s)
        return;
    if (!m->set)
        query(c, id, s, m->information_class);
    else if (m->information_class == SYSTEM_TRACE_ENABLE_FLAGS)
        set_masks(c, id, s, &m->data);
    else
        reply_status(c, id, ETW_ERROR_NOT_SUPPORTED,
                     "this etwd does not have setting this class of information");
}
