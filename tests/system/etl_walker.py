#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads .etl files by the page etl(5) and nothing else, and says what is in them.

This is a second, independent reader: it shares no code and no table with the rest of the tree, so
that both can be compared. For each file it prints one JSON object: the header, the numbers of
events by kind, and `errors`, everything in the file that etl(5) does not allow. The exit status is
1 when there are errors. With --unfinished the file is one of a session that was not stopped.
"""

import json
import struct
import sys
import uuid
from collections import Counter

BUFFER_HEADER = struct.Struct("<IIIiQqQHHIIHHQQ")
LOGFILE_FIXED = struct.Struct("<I4BIIQIIIIIIIIQQ176sQQQII")

SYSTEM64, PERFINFO64, EVENT64, FULL64 = 0x02, 0x11, 0x13, 0x14
HEADER_SIZES = {SYSTEM64: 32, PERFINFO64: 16, EVENT64: 80, FULL64: 48}

CLASSES = {
    0x00: "68fdd900-4a3e-11d1-84f4-0000f80464e3",
    0x03: "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c",
    0x05: "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c",
    0x0B: "01853a65-418f-4f36-aefc-dc0f1d2fd235",
    0x14: "2cb15d1d-5fc1-11d2-abe1-00a0c911f518",
}
IMAGE_LOAD = (0x03, 10)
IMAGE_ID = "b3e675d7-2554-4f18-830b-2762732560de"

# Data of the events: bytes of fixed size, then s (sid), a (asz), w (wsz).
LAYOUTS = {
    (CLASSES[0x00], (0,)): (280, "ww"),
    (CLASSES[0x00], (5, 32)): (36, ""),
    (CLASSES[0x00], (8,)): (0, ""),
    (CLASSES[0x00], (66,)): (0, "a"),
    (CLASSES[0x03], (1, 2, 3, 4)): (36, "sawww"),
    (CLASSES[0x05], (1, 2, 3, 4)): (72, "w"),
    (CLASSES[0x05], (36,)): (24, ""),
    (CLASSES[0x05], (50,)): (8, ""),
    (CLASSES[0x14], (2, 3, 4, 10)): (56, "w"),
    (IMAGE_ID, (36,)): (32, "a"),
    (CLASSES[0x0B], (10,)): (828, ""),
    (CLASSES[0x0B], (11,)): (568, ""),
    (CLASSES[0x0B], (12,)): (112, ""),
    (CLASSES[0x0B], (13,)): (20, "www"),
    (CLASSES[0x0B], (17,)): (16, ""),
    (CLASSES[0x0B], (25,)): (0, "wwww"),
}
LAYOUT_OF = {(guid, t): layout for (guid, types), layout in LAYOUTS.items() for t in types}


def utf16(data):
    return data.decode("utf-16-le", "replace")


def wsz(data, pos):
    """A wsz at pos: the text and where it ends; None when no 0 ends it."""
    end = pos
    while data[end : end + 2] != b"\0\0":
        if end + 2 > len(data):
            return None, pos
        end += 2
    return utf16(data[pos:end]), end + 2


def asz(data, pos):
    end = data.find(b"\0", pos)
    if end < 0:
        return None, pos
    return data[pos:end].decode("utf-8", "replace"), end + 1


def data_size(data, layout):
    """The bytes that the layout's fields take in data; None when they do not fit."""
    pos, variable = layout
    for kind in variable:
        if kind == "s":
            if data[pos : pos + 4] == b"\0\0\0\0":
                pos += 4
            elif len(data) < pos + 24 or data[pos + 16] != 1:
                return None
            else:
                pos += 24 + 4 * data[pos + 17]
        else:
            text, pos = (asz if kind == "a" else wsz)(data, pos)
            if text is None:
                return None
    return pos if pos <= len(data) else None


class Walker:
    def __init__(self, path, unfinished):
        self.path = path
        self.unfinished = unfinished
        self.errors = []
        self.counts = Counter()
        self.events = 0
        self.header = None
        self.base = None
        self.first_time = None
        self.last_time = None
        self.last_flagged = False
        self.sequences = {}
        self.loss_marks = 0
        self.cpus = Counter()
        self.buffers = 0

    def error(self, pos, text):
        if len(self.errors) < 50:
            self.errors.append(f"at {pos:#x}: {text}")

    # One event: (size, type, time, key) or None.
    def parse_event(self, data, pos, end, where):
        if end - pos < 8:
            self.error(where, f"{end - pos} bytes before the end of events")
            return None
        word = struct.unpack_from("<I", data, pos)[0]
        kind = word >> 16 & 0xFF
        if word >> 24 != 0xC0 or kind not in HEADER_SIZES:
            self.error(where, f"not an event: {word:#010x}")
            return None
        system = kind in (SYSTEM64, PERFINFO64)
        size = struct.unpack_from("<H", data, pos + (4 if system else 0))[0]
        if size < HEADER_SIZES[kind] or pos + size > end:
            self.error(where, f"size {size} of an event with header {kind:#x}")
            return None
        payload = data[pos + HEADER_SIZES[kind] : pos + size]
        if system:
            version, _, _, _, opcode, group = struct.unpack_from("<HBBHBB", data, pos)
            time = struct.unpack_from("<Q", data, pos + (16 if kind == SYSTEM64 else 8))[0]
            if version > 0xFF:
                self.error(where, f"version word {version:#x}")
            provider = CLASSES.get(0x14 if (group, opcode) == IMAGE_LOAD else group)
            if provider is None:
                self.error(where, f"group {group:#x} is not in etl(5)")
            key = ("system", provider, None, None, version & 0xFF, opcode)
        elif kind == FULL64:
            opcode, _, version = struct.unpack_from("<BBH", data, pos + 4)
            time = struct.unpack_from("<Q", data, pos + 16)[0]
            guid = str(uuid.UUID(bytes_le=bytes(data[pos + 24 : pos + 40])))
            key = ("classic", guid, None, None, version, opcode)
        else:
            flags = struct.unpack_from("<H", data, pos + 4)[0]
            time = struct.unpack_from("<Q", data, pos + 16)[0]
            guid = str(uuid.UUID(bytes_le=bytes(data[pos + 24 : pos + 40])))
            ident, version, _, _, opcode = struct.unpack_from("<HBBBB", data, pos + 40)
            name = None
            if flags & 1:
                name, payload = self.parse_items(payload, where)
            kind_name = "event" if name is None else "tracelogging"
            key = (kind_name, guid, name, ident, version, opcode)
        return size, kind, time, key, payload

    def parse_items(self, data, where):
        """The event's own name from item 11, and the data after the last item."""
        pos, name, more = 0, None, True
        while more:
            if pos + 8 > len(data):
                self.error(where, "extended items reach past the event")
                return name, b""
            size, kind, linkage, length = struct.unpack_from("<HHHH", data, pos)
            if size % 8 or size < 8 + length or pos + size > len(data):
                self.error(where, f"extended item of size {size} with {length} bytes")
                return name, b""
            item = data[pos + 8 : pos + 8 + length]
            if kind in (11, 12) and struct.unpack_from("<H", item)[0] != length:
                self.error(where, f"item {kind} states another size than its own")
            if kind == 11:
                name, _ = asz(item, 3)
            more = linkage & 1
            pos += size
        return name, data[pos:]

    def parse_logfile(self, where, kind, key, time, payload):
        if kind != SYSTEM64 or key[5] != 0 or key[1] != CLASSES[0]:
            self.error(where, "the first event is not the log-file header")
            return
        fields = LOGFILE_FIXED.unpack_from(payload)
        names = (
            "buffer_size major minor sub subminor provider_version processors end_time "
            "timer_resolution maximum_file_size log_file_mode buffers_written start_buffers "
            "pointer_size events_lost cpu_mhz logger_name_field log_file_name_field time_zone "
            "boot_time perf_frequency start_time clock buffers_lost"
        ).split()
        h = dict(zip(names, fields))
        h["logger_name"], pos = wsz(payload, LOGFILE_FIXED.size)
        h["log_file_name"], pos = wsz(payload, pos)
        if h["logger_name"] is None or h["log_file_name"] is None or pos != len(payload):
            self.error(where, "the names do not fill the rest of the header event")
        del h["time_zone"]
        for name, value in (
            ("major", 10), ("minor", 0), ("sub", 1), ("subminor", 5), ("provider_version", 19041),
            ("timer_resolution", 156250), ("start_buffers", 1), ("pointer_size", 8),
            ("logger_name_field", 0), ("log_file_name_field", 0), ("perf_frequency", 10**9),
            ("clock", 1),
        ):
            if h[name] != value:
                self.error(where, f"{name} is {h[name]}")
        if h["end_time"] and h["end_time"] < h["start_time"]:
            self.error(where, "EndTime before StartTime")
        if h["boot_time"] > h["start_time"]:
            self.error(where, "BootTime after StartTime")
        self.header = h
        self.base = time

    def walk_events(self, data, buf_pos, end, cpu, first):
        pos, last = 72, None
        while pos < end:
            where = buf_pos + pos
            if data[pos : pos + 4] == b"\xff\xff\xff\xff":
                self.error(where, "filler before the end of events")
                return
            event = self.parse_event(data, pos, end, where)
            if event is None:
                return
            size, kind, time, key, payload = event
            if first and pos == 72:
                self.parse_logfile(where, kind, key, time, payload)
            if last is not None and time < last:
                self.error(where, f"time runs back by {last - time}")
            last = time
            self.first_time = time if self.first_time is None else min(self.first_time, time)
            self.last_time = time if self.last_time is None else max(self.last_time, time)
            self.events += 1
            self.cpus[cpu] += 1
            self.check_data(where, key, payload)
            self.counts[key] += 1
            pos += (size + 7) & ~7

    def check_data(self, where, key, payload):
        kind, provider, _, _, _, opcode = key
        if kind not in ("system", "classic"):
            return
        layout = LAYOUT_OF.get((provider, opcode))
        if layout is None:
            self.error(where, f"type {opcode} of {provider} is not in etl(5)")
        elif data_size(payload, layout) != len(payload):
            self.error(where, f"{len(payload)} bytes of data do not fit type {opcode} of {provider}")

    def walk_buffer(self, data, pos):
        (size, saved, _, references, stamp, sequence, clock, cpu, _, state, end, flags, kind, ref0,
         ref1) = BUFFER_HEADER.unpack_from(data)
        first = pos == 0
        cpu &= 0x7FF
        if not 72 <= end <= size or end % 8:
            self.error(pos, f"events end at {end} in a buffer of {size}")
            end = min(max(end, 72), size)
        if saved != end or references or clock or state != 3 or ref0 or ref1:
            self.error(pos, f"buffer header {(saved, references, clock, state, ref0, ref1)}")
        if kind != (4 if first else 0):
            self.error(pos, f"buffer type {kind}")
        if flags & ~0x23 or not flags & 0x20:
            self.error(pos, f"buffer flags {flags:#x}")
        if first and (stamp or sequence or not flags & 1):
            self.error(pos, "time, sequence number or flags of the first buffer")
        if not first:
            if sequence < 1 or sequence in self.sequences:
                self.error(pos, f"sequence number {sequence} again or below 1")
            self.sequences[sequence] = cpu
            if self.last_flagged:
                self.error(pos, "a buffer after the one marked as the last")
            self.last_flagged = bool(flags & 1)
            self.loss_marks += bool(flags & 2)
        if data[end:].strip(b"\xff"):
            self.error(pos, "what follows the events is not 0xFF")
        self.walk_events(data, pos, end, cpu, first)
        if not first and self.header and cpu >= self.header["processors"]:
            self.error(pos, f"processor {cpu} of {self.header['processors']}")

    def walk(self):
        with open(self.path, "rb") as f:
            pos = 0
            while True:
                head = f.read(72)
                if not head:
                    break
                size = struct.unpack_from("<I", head)[0] if len(head) >= 4 else 0
                if len(head) < 72 or size < 72:
                    self.error(pos, "not a buffer")
                    break
                if self.header and size != self.header["buffer_size"]:
                    self.error(pos, f"buffer of {size} bytes")
                    if size > 1 << 26:
                        break
                rest = f.read(size - 72)
                if len(rest) < size - 72:
                    self.error(pos, "the last buffer reaches past the end of the file")
                    break
                self.walk_buffer(head + rest, pos)
                self.buffers += 1
                if self.header is None:
                    break
                pos += size
        if self.header is None:
            self.error(0, "no header")
            return
        written = self.header["buffers_written"]
        if self.unfinished:
            if written > self.buffers:
                self.error(0, f"BuffersWritten {written} of {self.buffers}")
            return
        if written != self.buffers:
            self.error(0, f"BuffersWritten {written} of {self.buffers}")
        if not self.last_flagged and self.buffers > 1:
            self.error(0, "no last buffer: the session was not stopped")
        if not self.header["end_time"]:
            self.error(0, "EndTime is 0")
        elif self.filetime(self.last_time) > self.header["end_time"]:
            self.error(0, "EndTime before the last event")
        missing = len(self.sequences) and max(self.sequences) - len(self.sequences)
        if missing > self.header["buffers_lost"]:
            self.error(0, f"{missing} sequence numbers are missing")

    def filetime(self, t):
        h = self.header
        return h["start_time"] + (t - self.base) * 10**7 // h["perf_frequency"]

    def result(self):
        h = self.header or {}
        counts = [
            {
                "kind": kind, "provider": provider, "event": name, "id": ident,
                "version": version, "opcode": opcode, "count": count,
            }
            for (kind, provider, name, ident, version, opcode), count in sorted(
                self.counts.items(), key=str
            )
        ]
        return {
            "file": self.path,
            "errors": self.errors,
            "header": h,
            "buffers": self.buffers,
            "events": self.events,
            "events_by_processor": dict(sorted(self.cpus.items())),
            "loss_marks": self.loss_marks,
            "first_filetime": self.filetime(self.first_time) if self.header else None,
            "last_filetime": self.filetime(self.last_time) if self.header else None,
            "counts": counts,
        }


def main():
    paths = [a for a in sys.argv[1:] if a != "--unfinished"]
    if not paths:
        print("usage: etl_walker.py [--unfinished] FILE...", file=sys.stderr)
        return 2
    status = 0
    for path in paths:
        walker = Walker(path, "--unfinished" in sys.argv)
        walker.walk()
        print(json.dumps(walker.result()))
        status |= bool(walker.errors)
    return status


if __name__ == "__main__":
    sys.exit(main())
