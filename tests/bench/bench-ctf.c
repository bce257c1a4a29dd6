/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the context switches of an .etl file as a CTF 1.8 trace, for readers of such: the same
 * events with the same fields, a stream of packets a processor. bench-ctf FILE.etl FOLDER; the
 * folder must be there. Prints the number of events.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <evntcons.h>
#include <evntrace.h>

#define CPUS_MAX 256
#define PACKET 65536u
#define MAGIC 0xC1FC1FC1u
#define OPCODE_CSWITCH 36
#define DATA 24u
/* FILETIME of 1970-01-01. */
#define UNIX_EPOCH 116444736000000000LL

static const char metadata[] =
    "/* CTF 1.8 */\n"
    "typealias integer { size = 8; align = 8; signed = false; } := u8;\n"
    "typealias integer { size = 8; align = 8; signed = true; } := i8;\n"
    "typealias integer { size = 16; align = 8; signed = false; } := u16;\n"
    "typealias integer { size = 32; align = 8; signed = false; } := u32;\n"
    "typealias integer { size = 64; align = 8; signed = false; } := u64;\n"
    "trace { major = 1; minor = 8; byte_order = le;\n"
    "  packet.header := struct { u32 magic; u32 stream_id; }; };\n"
    "clock { name = boot; freq = 1000000000; };\n"
    "typealias integer { size = 64; align = 8; signed = false; map = clock.boot.value; } := "
    "stamp;\n"
    "stream { id = 0;\n"
    "  packet.context := struct { stamp timestamp_begin; stamp timestamp_end;\n"
    "    u64 content_size; u64 packet_size; u32 cpu_id; };\n"
    "  event.header := struct { u16 id; stamp timestamp; }; };\n"
    "event { id = 0; name = CSwitch; stream_id = 0; fields := struct {\n"
    "  u32 NewThreadId; u32 OldThreadId; i8 NewThreadPriority; i8 OldThreadPriority;\n"
    "  u8 PreviousCState; i8 SpareByte; i8 OldThreadWaitReason; i8 ThreadFlags;\n"
    "  i8 OldThreadState; i8 OldThreadWaitIdealProcessor; u32 NewThreadWaitTime;\n"
    "  u32 Reserved; }; };\n";

struct __attribute__((packed)) packet {
    uint32_t magic, stream_id;
    uint64_t begin, end;
    uint64_t content_bits, packet_bits;
    uint32_t cpu;
};

struct __attribute__((packed)) event {
    uint16_t id;
    uint64_t stamp;
    uint8_t data[DATA];
};

struct stream {
    FILE *f;
    size_t used;
    uint8_t bytes[PACKET];
};

static const char *folder;
static struct stream *streams[CPUS_MAX];
static uint64_t n_events;

static void packet_write(struct stream *s)
{
    struct packet h;

    memcpy(&h, s->bytes, sizeof(h));
    h.content_bits = s->used * 8;
    h.packet_bits = PACKET * 8;
    memcpy(s->bytes, &h, sizeof(h));
    memset(s->bytes + s->used, 0, PACKET - s->used);
    if (fwrite(s->bytes, PACKET, 1, s->f) != 1)
        err(1, "%s", folder);
    s->used = 0;
}

static struct stream *stream_of(unsigned cpu)
{
    char path[4096];

    if (cpu >= CPUS_MAX)
        errx(1, "processor %u", cpu);
    if (streams[cpu])
        return streams[cpu];
    streams[cpu] = calloc(1, sizeof(struct stream));
    (void) snprintf(path, sizeof(path), "%s/cpu%u", folder, cpu);
    if (!streams[cpu] || !(streams[cpu]->f = fopen(path, "we")))
        err(1, "%s", path);
    return streams[cpu];
}

static void on_event(PEVENT_RECORD r)
{
    unsigned cpu = r->BufferContext.ProcessorIndex;
    uint64_t stamp = (uint64_t) (r->EventHeader.TimeStamp.QuadPart - UNIX_EPOCH) * 100;
    struct event e = {.stamp = stamp};
    struct stream *s;

    if (r->EventHeader.EventDescriptor.Opcode != OPCODE_CSWITCH || r->UserDataLength != DATA)
        return;
    s = stream_of(cpu);
    if (s->used + sizeof(e) > PACKET)
        packet_write(s);
    if (s->used == 0) {
        struct packet h = {.magic = MAGIC, .begin = stamp, .cpu = cpu};
        memcpy(s->bytes, &h, sizeof(h));
        s->used = sizeof(h);
    }
    memcpy(e.data, r->UserData, DATA);
    memcpy(s->bytes + s->used, &e, sizeof(e));
    memcpy(s->bytes + offsetof(struct packet, end), &stamp, sizeof(stamp));
    s->used += sizeof(e);
    n_events++;
}

int main(int argc, char **argv)
{
    EVENT_TRACE_LOGFILEA log = {0};
    char path[4096];
    FILE *f;
    ULONG code;

    if (argc != 3)
        errx(2, "usage: %s FILE.etl FOLDER", argv[0]);
    folder = argv[2];
    log.LogFileName = argv[1];
    log.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    log.EventRecordCallback = on_event;
    TRACEHANDLE h = OpenTraceA(&log);
    if (h == INVALID_PROCESSTRACE_HANDLE)
        errx(1, "%s: error %u", argv[1], GetLastError());
    code = ProcessTrace(&h, 1, NULL, NULL);
    if (code != ERROR_SUCCESS)
        errx(1, "%s: error %u", argv[1], code);
    (void) CloseTrace(h);
    for (unsigned i = 0; i < CPUS_MAX; i++) {
        struct stream *s = streams[i];
        if (!s)
            continue;
        if (s->used > 0)
            packet_write(s);
        if (fclose(s->f) != 0)
            err(1, "%s", folder);
        free(s);
    }
    (void) snprintf(path, sizeof(path), "%s/metadata", folder);
    f = fopen(path, "we");
    if (!f || fwrite(metadata, sizeof(metadata) - 1, 1, f) != 1 || fclose(f) != 0)
        err(1, "%s", path);
    printf("%llu\n", (unsigned long long) n_events);
    return 0;
}
