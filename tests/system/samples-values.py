#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""etwctl dump on trace files that Windows wrote: hashes of all stamps and all user data, values that
independent readers published, texts of WPP messages. ETW_SAMPLES names the folder, else
../shared/etl-samples beside the source. Prints TAP.

  samples-values.py ETWCTL SOURCE_ROOT
"""
import hashlib
import json
import os
import re
import struct
import subprocess
import sys

etwctl, root = sys.argv[1:3]
folder = os.environ.get("ETW_SAMPLES") or os.path.join(root, "..", "shared", "etl-samples")
failed = 0
done = 0


def result(name, problems):
    global failed, done
    done += 1
    print(f"{'not ok' if problems else 'ok'} {done} - {name}")
    for p in problems[:20]:
        print(f"# {p}")
    failed += bool(problems)


def dump(name, *options):
    run = subprocess.run([etwctl, "dump", "--json", "--raw", *options, os.path.join(folder, name)],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
    if run.returncode not in (0, 4):
        raise RuntimeError(run.stderr.decode())
    return [json.loads(line) for line in run.stdout.splitlines()]


def hashes(name, e):
    lines = dump(name)
    problems = []
    stamps = sorted(line["raw_timestamp"] for line in lines)
    digest = hashlib.sha256(b"".join(struct.pack("<q", s) for s in stamps)).hexdigest()
    if digest != e["sorted_raw_ts_sha256"]:
        problems.append(f"stamps hash to {digest}")
    data = sorted(hashlib.sha256(bytes.fromhex(line["raw"])).digest() for line in lines)
    digest = hashlib.sha256(b"".join(data)).hexdigest()
    if digest != e["userdata_multiset_sha256"]:
        problems.append(f"user data hash to {digest}")
    if len(lines) != e["events_total"]:
        problems.append(f"{len(lines)} events of {e['events_total']}")
    times = [line["timestamp"] for line in lines]
    if times != sorted(times):
        problems.append("time runs backwards")
    return problems


def number(text):
    return int(text.replace(",", ""), 0)


def same_value(field, wanted, got):
    """Texts of the other reader are cut at 20 characters, numbers have commas, words differ."""
    if isinstance(got, bool):
        return wanted.lower() == str(got).lower()
    if isinstance(got, (int, float)):
        return number(wanted) == got
    if field == "int64_type":
        # the event's own metadata says unsigned; the other reader prints all 64 bits signed
        return number(wanted) % 2**64 == int(got)
    if field.endswith("time_type") or field.endswith("Time"):
        return True  # in its own time zone; the raw bytes are compared above
    if wanted.endswith("..."):
        return str(got).lower().startswith(wanted[:-3].lower())
    if len(str(got)) == 1 and wanted.isdigit():
        return ord(got) == int(wanted)
    if str(got).startswith("0x"):
        return number(wanted) == number(got)
    return str(got) == wanted


names = {"SessionName": "SessionNameString", "LogFileName": "LogFileNameString"}


def events(name, d):
    lines = dump(name)
    problems = []
    compared = 0
    for e in d["events"]:
        found = [x for x in lines if x["raw_timestamp"] == e["raw_ts"] and x["cpu"] == e["processor"]]
        found = [x for x in found if "payload_hex" not in e or x["raw"] == e["payload_hex"]]
        if not found:
            problems.append(f"no event at {e['raw_ts']}")
            continue
        line = found[0]
        for key in ("pid", "tid", "filetime", "id", "version", "opcode", "task", "level", "channel"):
            if key in e and "provider" in e and line[key] != e[key]:
                problems.append(f"{e['raw_ts']}: {key} is {line[key]}, not {e[key]}")
        if "provider" in e and (line["provider"]["guid"] != e["provider"] or
                                int(line["keyword"], 0) != int(e["keyword"], 0)):
            problems.append(f"{e['raw_ts']}: provider or keyword")
        if not line["payload"]:
            continue  # the file brings no description of it, and this machine has none
        for field, wanted in e["fields"].items():
            field = names.get(field, field)
            if field == "UtcOffsetMinutes":
                continue  # the other reader's own, of TimeZoneInformation
            if field not in line["payload"]:
                problems.append(f"{e['name']}: no field {field}")
            elif not same_value(field, wanted, line["payload"][field]):
                problems.append(f"{e['name']}.{field}: {line['payload'][field]!r}, not {wanted!r}")
            else:
                compared += 1
    if compared < 10:
        problems.append(f"only {compared} values were compared")
    return problems


def images(name, d):
    problems = []
    modules = d["modules"]
    order = [(3, m) for m in modules] + [(2, modules[0]), (10, modules[0])]
    lines = [x for x in dump(name) if x["provider"]["name"] == "Image"]
    if len(lines) != len(order):
        problems.append(f"{len(lines)} image events")
    for line, (opcode, m) in zip(lines, order):
        p = line["payload"] or {}
        # the first version of the class had other names
        base, size, path = (("ImageBase", "ImageSize", "FileName") if "ImageBase" in p else
                            ("BaseAddress", "ModuleSize", "ImageFileName"))
        got = (line["opcode"], int(str(p.get(base, -1)), 0), int(str(p.get(size, -1)), 0),
               p.get(path))
        if got != (opcode, m["base"], m["size"], m["name"]):
            problems.append(f"{got} is not {opcode}, {m}")
        if line["version"] >= 2 and (p["ImageChecksum"], p["TimeDateStamp"]) != (
                m["image_checksum"], m["time_date_stamp"]):
            problems.append(f"{p} is not {m}")
    return problems


def processes(name, d):
    problems = []
    known = d["processes"]
    order = ([(3, p) for p in known[:-1]] + [(1, known[-1]), (2, known[-1])] +
             [(4, p) for p in known[:-1]])
    lines = [x for x in dump(name) if x["provider"]["name"] == "Process"]
    if len(lines) != len(order):
        problems.append(f"{len(lines)} process events")
    for line, (opcode, want) in zip(lines, order):
        p = line["payload"] or {}
        got = (line["opcode"], p.get("ProcessId"), p.get("ParentId"), p.get("SessionId"),
               p.get("UserSID"), p.get("ImageFileName"), p.get("CommandLine"))
        wanted = (opcode, want["pid"], want["parent"], want["session"], want["sid"], want["image"],
                  want["command_line"])
        if got != wanted:
            problems.append(f"{got} is not {wanted}")
        if opcode == 2 and p["ExitStatus"] != 0:
            problems.append(f"exit status {p['ExitStatus']}")
    return problems


def messages(name, d):
    problems = []
    lines = [x for x in dump(name, "--tmf", os.path.join(folder, "tmf")) if x["kind"] == "message"]
    if len(lines) != len(d["events"]):
        problems.append(f"{len(lines)} messages")
    for line, e in zip(lines, d["events"]):
        got = (line["raw_timestamp"], line["id"], line["provider"]["guid"], line["pid"],
               line["tid"], line["raw"], (line["payload"] or {}).get("message"))
        want = (e["raw_ts"], e["message"], e["guid"], e["pid"], e["tid"], e["payload_hex"], e["text"])
        if got != want:
            problems.append(f"{got} is not {want}")
    return problems


if not os.path.exists(os.path.join(folder, "expected.json")):
    print(f"1..0 # SKIP no expected.json in {folder} (ETW_SAMPLES)")
    sys.exit(0)
with open(os.path.join(folder, "expected.json"), encoding="utf-8") as f:
    expected = json.load(f)
for file, entry in expected["files"].items():
    result(f"hashes of {file}", hashes(file, entry))
for file, entry in expected["decode"].items():
    if "modules" in entry:
        result(f"values of {file}", images(file, entry))
    elif "processes" in entry:
        result(f"values of {file}", processes(file, entry))
    elif "tmf_guid" in entry:
        result(f"texts of {file}", messages(file, entry))
    else:
        result(f"values of {file}", events(file, entry))
print(f"1..{done}")
sys.exit(failed > 0)
