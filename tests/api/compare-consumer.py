#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what windows_consumer printed of a file with `etwctl dump --json`: the same events in the
same order, the same fields in the same order, the same numbers and texts. How times, addresses and
flags are written is each one's own.

    compare-consumer.py ETWCTL FILE.etl PRINTED
"""

import json
import subprocess
import sys


def leaves(value, name=None):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, name)
    else:
        yield name, value


def printed_events(path):
    events = []
    with open(path, encoding="utf-8", newline="\n") as f:
        for line in f.read().split("\n")[:-1]:
            if line.startswith("EVENT {"):
                _, guid, number, version = line.split()
                events.append((guid.strip("{}"), int(number), int(version), []))
            elif line == "?":
                events[-1][3].append(("?", None))
            else:
                name, _, value = line.partition("=")
                events[-1][3].append((name, value))
    return events


def plain(text):
    return "".join("." if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 else c for c in text)


def main():
    etwctl, path, printed = sys.argv[1:]
    done = subprocess.run([etwctl, "dump", "--json", path], capture_output=True, check=False)
    if done.returncode not in (0, 4):
        sys.exit(f"etwctl dump: status {done.returncode}: {done.stderr.decode()}")
    dumped = [json.loads(line) for line in done.stdout.splitlines()]
    events = printed_events(printed)
    if len(events) != len(dumped):
        sys.exit(f"{len(events)} events are printed, {len(dumped)} dumped")
    compared = fields = 0
    for i, (event, d) in enumerate(zip(events, dumped)):
        guid, number, version, values = event
        where = f"event {i} {{{guid}}}"
        if guid != d["provider"]["guid"]:
            sys.exit(f"{where}: dumped as {d['provider']['guid']}")
        if d["id"] is not None and (number, version) != (d["id"], d["version"]):
            sys.exit(f"{where}: id {number} version {version}, dumped as {d['id']}, {d['version']}")
        # The log-file header is dumped in words of its own.
        if d["event"] == "Header" or d["kind"] == "system":
            continue
        wanted = list(leaves(d["payload"] or {}))
        if [n for n, _ in values] != [n for n, _ in wanted]:
            sys.exit(f"{where}: {values}, dumped as {wanted}")
        for (name, value), (_, want) in zip(values, wanted):
            fields += 1
            if isinstance(want, bool):
                same = value == ("true" if want else "false")
            elif isinstance(want, int):
                same = value.lstrip("-").isdigit() and int(value) == want
                if not same and not value.lstrip("-").isdigit():
                    continue # hexadecimal, or a word of a map
            elif isinstance(want, str) and not want.startswith("0x") and "T" not in value[10:11]:
                same = plain(want) == value or want.lower() == value.strip("{}").lower()
            else:
                continue
            compared += 1
            if not same:
                sys.exit(f"{where}: {name} is '{value}', dumped as '{want}'")
    print(f"{len(events)} events, {fields} fields, {compared} compared")
    if compared < fields / 2 or compared == 0:
        sys.exit("too few fields could be compared")


if __name__ == "__main__":
    main()
