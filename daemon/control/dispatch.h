/* SPDX-License-Identifier: Apache-2.0
 *
 * What dispatch.c and dispatch_providers.c share. Loop thread only.
 */
#pragma once

#include "base/guid.h"
#include "connection.h"

struct session;

void reply_status(struct connection *c, uint64_t id, uint32_t status, const char *reason);
void reply_errno(struct connection *c, uint64_t id, int r);
/* The session that a request means, when the peer may do that to it; else the refusal is sent. */
struct session *session_for(struct connection *c, uint64_t id, const char *name, uint64_t handle,
                            bool control);

/* An answer that comes later. */
struct pending {
    struct server *server;
    uint64_t connection;
    uint64_t id;
};
struct pending *pending_new(struct connection *c, uint64_t id);
/* Answers with a status alone; frees it. */
void pending_status(struct pending *p, uint32_t status, const char *reason);

/* list_providers.c: a GUID of 16 bytes; one page of providers. */
bool message_guid(const ProtobufCBinaryData *data, struct etw_guid *ret);
void dispatch_list_providers(struct connection *c, uint64_t id, const Etwd__ListProviders *m);

/* information.c */
void dispatch_information(struct connection *c, uint64_t id, const Etwd__TraceInformation *m);

/* dispatch_providers.c: true when the message was one of its kind. */
bool dispatch_provider(struct connection *c, const Etwd__Message *m, int *fds, size_t n_fds);
