#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast a trace file is read: ProcessTrace, `etwctl summary` and `etwctl dump`, beside
babeltrace2 on a CTF trace of the same events and `cat` of the file, taking turns.

The file lies in the page cache. Output goes through a pipe to this program, which throws it away;
`first` is the time from the start of the program to the first bytes of its output, `memory` the
most it had resident (at least what this program has). A smaller file is dumped: dumping takes a hundred times as long as reading.
Without babeltrace2 (package babeltrace2) only etwctl is measured.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

CHUNK = 1 << 20


def fail(text):
    sys.exit(f"bench-read: {text}")


def measure(command):
    """Seconds, seconds of CPU, seconds to the first output, bytes of output, KiB of memory."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    pipe = process.stdout.fileno()
    first, size = None, 0
    while True:
        data = os.read(pipe, CHUNK)
        if not data:
            break
        if first is None:
            first = time.monotonic() - begin
        size += len(data)
    _, status, usage = os.wait4(process.pid, 0)
    end = time.monotonic()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        fail(f"{' '.join(command)}: status {process.returncode}")
    return end - begin, usage.ru_utime + usage.ru_stime, first or 0, size, usage.ru_maxrss


def compare(title, events, file_bytes, commands, rounds):
    """commands: name -> command. The first is what the others are compared with."""
    print(f"\n{title}: {events} events, {file_bytes >> 20} MiB")
    print(f"  {'':24}{'events/s':>12}{'ratio':>8}{'file MB/s':>11}{'out MB/s':>10}{'first ms':>10}"
          f"{'spread s':>14}{'memory MiB':>12}")
    runs = {name: [] for name in commands}
    names = list(commands)
    for i in range(rounds):
        for k in range(len(names)):
            name = names[(i + k) % len(names)]
            runs[name].append(measure(commands[name]))
    base = statistics.median(r[0] for r in runs[names[0]])
    for name in names:
        seconds = statistics.median(r[0] for r in runs[name])
        low, high = min(r[0] for r in runs[name]), max(r[0] for r in runs[name])
        first = statistics.median(r[2] for r in runs[name])
        size = runs[name][-1][3]
        memory = max(r[4] for r in runs[name])
        print(f"  {name:24}{events / seconds:12.0f}{base / seconds:8.2f}"
              f"{file_bytes / seconds / 1e6:11.1f}{size / seconds / 1e6:10.1f}{first * 1e3:10.1f}"
              f"{f'{low:.2f}-{high:.2f}':>14}{memory / 1024:12.1f}")
    sys.stdout.flush()


def make(options, folder, name, mib):
    path = os.path.join(folder, name)
    done = subprocess.run([os.environ["BENCH_GEN"], path, str(mib), str(options.processors),
                           str(options.burst)], capture_output=True, text=True, check=True)
    subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)
    return path, int(done.stdout.split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--dump-mib", type=int, default=64)
    parser.add_argument("--processors", type=int, default=8)
    parser.add_argument("--burst", type=int, default=20, help="events of one processor in a row")
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    etwctl = os.environ["ETWCTL"]

    folder = tempfile.mkdtemp(prefix="bench-read.", dir=options.folder)
    try:
        path, events = make(options, folder, "small.etl", options.dump_mib)
        commands = {}
        if shutil.which("babeltrace2"):
            ctf = os.path.join(folder, "ctf")
            os.mkdir(ctf)
            n = int(subprocess.run([os.environ["BENCH_CTF"], path, ctf], capture_output=True,
                                   text=True, check=True).stdout)
            # The file has a few of its own beside them.
            if not events - 10 <= n < events:
                fail(f"the CTF trace has {n} events, the file {events}")
            commands["babeltrace2"] = ["babeltrace2", ctf]
        else:
            print("babeltrace2 is not there: etwctl alone")
        commands["etwctl dump --json"] = [etwctl, "dump", "--json", path]
        commands["etwctl dump"] = [etwctl, "dump", path]
        commands["cat"] = ["cat", path]
        compare("all events as text", events, os.path.getsize(path), commands, options.rounds)
        os.remove(path)

        path, events = make(options, folder, "large.etl", options.mib)
        size = os.path.getsize(path)
        compare("one pass", events, size,
                {"cat": ["cat", path], "etwctl summary": [etwctl, "summary", path]},
                options.rounds)
        print("\nProcessTrace over the same file")
        sys.stdout.flush()
        subprocess.run([os.environ["BENCH_PROCESS_TRACE"], "-n", str(options.rounds), path],
                       check=True)
        seconds, _, first, out, memory = measure([etwctl, "dump", "--json", path])
        print(f"\netwctl dump --json of all {size >> 20} MiB: {events / seconds:.0f} events/s, "
              f"{out / seconds / 1e6:.1f} MB/s, first output after {first * 1e3:.1f} ms, "
              f"{memory / 1024:.1f} MiB of memory")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
