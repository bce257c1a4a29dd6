/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the files of corpus/etl and corpus/frame that begin the search: make-corpus FOLDER. The
 * kept ones came from it; run it again when a layout or a message is added, and add the new files.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../unit/etl-sample.h"
#include "base/cleanup.h"
#include "wire/frame.h"

static const char *folder;

static void put_file(const char *target, const char *name, const void *data, size_t size)
{
    char path[4096];

    (void) snprintf(path, sizeof(path), "%s/%s/%s", folder, target, name);
    _cleanup_fclose_ FILE *f = fopen(path, "we");
    if (!f || fwrite(data, 1, size, f) != size || fflush(f) != 0) {
        fprintf(stderr, "make-corpus: cannot write %s: %s\n", path, strerror(errno));
        exit(1);
    }
}

/* An event with the byte that tells the target what it is. */
static void put_event(const char *name, struct etl_writer *w)
{
    w->data[-1] = 2;
    put_file("etl", name, w->data - 1, w->size + 1);
}

static void make_events(void)
{
    static uint8_t memory[65536];
    static const uint8_t system[] = {ETL_SYSTEM32, ETL_COMPACT32, ETL_COMPACT64, ETL_PERFINFO32};
    struct etl_writer w = {.data = memory + 1, .cap = sizeof(memory) - 1};
    char name[64];

    for (int row = 0; row < ETL_ROW_COUNT; row++) {
        const struct etl_class_row *r = &etl_rows[row];
        /* One of each layout: those with several opcodes share it. */
        if (row > 0 && r->fields == etl_rows[row - 1].fields)
            continue;
        w.size = 0;
        if (sample_event(&w, (enum etl_row) row, (uint32_t) row, 1000) < 0)
            exit(1);
        (void) snprintf(name, sizeof(name), "row-%s-%s", r->class_name, r->event_name);
        put_event(name, &w);
    }
    for (size_t i = 0; i < sizeof(system); i++) {
        w.size = 0;
        sample_system(&w, system[i], 0x8203, 0x030A, 1000, 100);
        (void) snprintf(name, sizeof(name), "system-%02x", system[i]);
        put_event(name, &w);
    }
    w.size = 0;
    sample_full(&w, ETL_INSTANCE32, 1000, 20);
    put_event("instance", &w);
    w.size = 0;
    sample_modern(&w, ETL_EVENT32, 1000, 3, 9);
    put_event("items", &w);
    for (uint16_t flags = 0; flags < 256; flags += 51) {
        w.size = 0;
        sample_message(&w, flags, 1000, 10);
        (void) snprintf(name, sizeof(name), "message-%02x", flags);
        put_event(name, &w);
    }
}

static void make_files(void)
{
    static uint8_t file[1 + 4 * 8192], small[1 + 2048];
    static const uint8_t skipped[24] = {24, 0, 0, 0xB0}, error[8] = {8, 0, ETL_ERROR, 0xC0};
    struct etl_logfile_params p = sample_params(1024, true);
    struct etl_logfile_totals totals = {1, 2, 3, 4};
    struct etl_writer w = {.data = small + 1025, .cap = 1024, .size = ETL_BUFFER_HEADER_SIZE};
    size_t size = sample_file(file + 1, sizeof(file) - 1, 8192, 1, NULL);
    uint32_t end, plain, at = 8192 + ETL_BUFFER_HEADER_SIZE, out;
    static uint8_t packed[1 + 8192 + 16384];

    file[0] = 0;
    put_file("etl", "file", file, 1 + size);
    file[8192] = 1; /* a byte of filler */
    put_file("etl", "buffer", file + 8192, 1 + 8192);
    file[8192] = 0xFF;

    /* Its second buffer compressed, without matches. */
    memcpy(packed, file, 1 + 8192 + ETL_BUFFER_HEADER_SIZE);
    memcpy(&end, file + 1 + 8192 + 0x30, 4);
    out = 1 + at;
    for (plain = ETL_BUFFER_HEADER_SIZE; plain <= end; plain += 32) {
        uint32_t n = end - plain < 32 ? end - plain : 32;
        uint32_t flags = n < 32 ? UINT32_MAX >> n : 0;
        memcpy(packed + out, &flags, 4);
        memcpy(packed + out + 4, file + 1 + 8192 + plain, n);
        out += 4 + n;
    }
    at = out - 1 - 8192;
    memcpy(packed + 1 + 8192, &at, 4);
    packed[1 + 8192 + 0x34] |= ETL_BUFFER_COMPRESSED;
    put_file("etl", "file-compressed", packed, out);

    /* A small one, quick to mutate. */
    if (etl_logfile_buffer_put(small + 1, &p, &totals) < 0)
        exit(1);
    etl_buffer_begin(small + 1025, 1024, 1, 3, 1, ETL_BUFFER_GENERIC);
    etl_put(&w, skipped, sizeof(skipped));
    etl_put(&w, error, sizeof(error));
    sample_message(&w, 0xAA, 5000, 3);
    sample_pad(&w);
    if (sample_event(&w, ETL_ROW_Process_Start, 5, 5001) < 0)
        exit(1);
    sample_pad(&w);
    if (sample_event(&w, ETL_ROW_LinuxKernel_ImageBuildId, 5, 5002) < 0)
        exit(1);
    sample_pad(&w);
    etl_buffer_close(small + 1025, w.size, 5003, ETL_BUFFER_FLUSH_MARKER);
    put_file("etl", "file-small", small, sizeof(small));
}

static void put_message(const char *name, const Etwd__Message *m)
{
    void *data;
    size_t len;

    if (wire_pack(m, &data, &len) < 0)
        exit(1);
    put_file("frame", name, data, len);
    free(data);
}

static void make_messages(void)
{
    Etwd__Message m = ETWD__MESSAGE__INIT;
    Etwd__Hello hello = ETWD__HELLO__INIT;
    Etwd__StartSession start = ETWD__START_SESSION__INIT;
    Etwd__ControlSession control = ETWD__CONTROL_SESSION__INIT;
    Etwd__ListSessions list = ETWD__LIST_SESSIONS__INIT;
    Etwd__SessionProperties p = ETWD__SESSION_PROPERTIES__INIT;
    Etwd__StackId id = ETWD__STACK_ID__INIT, *ids[] = {&id, &id};
    Etwd__StackTracing stacks = ETWD__STACK_TRACING__INIT;
    Etwd__Session session = ETWD__SESSION__INIT, *sessions[] = {&session, &session};
    Etwd__Lost lost = ETWD__LOST__INIT, *losses[] = {&lost};
    Etwd__SessionReply reply = ETWD__SESSION_REPLY__INIT;
    Etwd__SessionList answer = ETWD__SESSION_LIST__INIT;
    uint8_t guid[16] = {1, 2, 3, 4};

    m.id = 1;
    hello.protocol = ETWD_PROTOCOL;
    hello.library = (char *) "libetw 0.1.0";
    m.body_case = ETWD__MESSAGE__BODY_HELLO;
    m.hello = &hello;
    put_message("hello", &m);

    p.name = (char *) "NT Kernel Logger";
    p.log_file = (char *) "/var/tmp/t.etl";
    p.guid.data = guid;
    p.guid.len = sizeof(guid);
    p.clock = 1;
    p.buffer_size_kb = 64;
    p.enable_flags = 0x817;
    p.bias_minutes = -60;
    id.guid = p.guid;
    id.type = 36;
    start.properties = &p;
    start.n_stacks = 2;
    start.stacks = ids;
    start.kernel = start.bound = true;
    m.body_case = ETWD__MESSAGE__BODY_START_SESSION;
    m.start_session = &start;
    put_message("start-session", &m);

    control.name = p.name;
    control.handle = 0xFFFF;
    control.code = ETWD__CONTROL_SESSION__CODE__STOP;
    control.properties = &p;
    m.body_case = ETWD__MESSAGE__BODY_CONTROL_SESSION;
    m.control_session = &control;
    put_message("control-session", &m);

    list.after_id = 2;
    m.body_case = ETWD__MESSAGE__BODY_LIST_SESSIONS;
    m.list_sessions = &list;
    put_message("list-sessions", &m);

    stacks.handle = 5;
    stacks.n_stacks = 2;
    stacks.stacks = ids;
    m.body_case = ETWD__MESSAGE__BODY_STACK_TRACING;
    m.stack_tracing = &stacks;
    put_message("stack-tracing", &m);

    lost.cause = (char *) "disk";
    lost.events = 77;
    session.handle = 0x1000A;
    session.properties = &p;
    session.n_lost = 1;
    session.lost = losses;
    session.written = 1000;
    reply.session = &session;
    m.status = 183;
    m.reason = (char *) "session 'NT Kernel Logger' is running already";
    m.body_case = ETWD__MESSAGE__BODY_SESSION_REPLY;
    m.session_reply = &reply;
    put_message("session-reply", &m);

    answer.n_sessions = 2;
    answer.sessions = sessions;
    answer.more = true;
    m.body_case = ETWD__MESSAGE__BODY_SESSION_LIST;
    m.session_list = &answer;
    put_message("session-list", &m);

    /* A body of a newer client, and a field of the wrong kind. */
    put_file("frame", "unknown-body", "\x08\x05\xC2\x0C\x02\x08\x01", 7);
    put_file("frame", "wrong-kind", "\x0D\x01\x02\x03\x04\x52\x00", 7);
}

int main(int argc, char *argv[])
{
    char path[4096];

    if (argc != 2) {
        fprintf(stderr, "usage: make-corpus FOLDER\n");
        return 2;
    }
    folder = argv[1];
    (void) mkdir(folder, 0777);
    (void) snprintf(path, sizeof(path), "%s/etl", folder);
    (void) mkdir(path, 0777);
    (void) snprintf(path, sizeof(path), "%s/frame", folder);
    (void) mkdir(path, 0777);
    make_events();
    make_files();
    make_messages();
    return 0;
}
