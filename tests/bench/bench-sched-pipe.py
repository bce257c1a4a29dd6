#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tracing context switches costs: `perf bench sched pipe` untraced, traced by etwd, and traced
by `perf record -e sched:sched_switch -a`, taking turns.

Prints medians and spread of the benchmark's own time per operation, bytes per event of both files,
losses, and the run time of etwd's BPF programs per run. The kernel measures that run time only
while a descriptor is open here (BPF_ENABLE_STATS), so that nothing has to be put back.
"""

import argparse
import ctypes
import itertools
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
BPF_ENABLE_STATS = 32


def fail(text):
    sys.exit(f"bench-sched-pipe: {text}")


def run(*command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **kwargs)
    return done


def run_ok(*command, allowed=(0,)):
    done = run(*command)
    if done.returncode not in allowed:
        fail(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class Daemon:
    def __init__(self, folder):
        self.folder = os.path.join(folder, "run")
        os.mkdir(self.folder)
        self.log = open(os.path.join(folder, "etwd.log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.environ["ETWD"], "--runtime-dir", self.folder],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )
        os.environ["ETWD_SOCKET"] = os.path.join(self.folder, "control.sock")
        self.etwctl = os.environ["ETWCTL"]
        for _ in range(600):
            if run(self.etwctl, "status").returncode == 0:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.stop()
        fail("etwd does not start: " + open(self.log.name, encoding="utf-8").read())

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(120)

    def start_session(self, file):
        run_ok(self.etwctl, "start", "--kernel", "--flags", "cswitch", "-o", file)

    def stop_session(self):
        run_ok(self.etwctl, "stop", "--kernel", allowed=(0, 4))

    def bpf_programs(self):
        """id -> (name, run_time_ns, run_cnt) of the programs that etwd holds, by its descriptors."""
        ids = set()
        folder = f"/proc/{self.process.pid}/fdinfo"
        for fd in os.listdir(folder):
            try:
                text = open(os.path.join(folder, fd), encoding="utf-8").read()
            except OSError:
                continue
            ids.update(int(i) for i in re.findall(r"^prog_id:\s*(\d+)", text, re.M))
        found = {}
        for p in json.loads(run_ok("bpftool", "-j", "prog", "show").stdout):
            if p["id"] in ids:
                found[p["id"]] = (p.get("name", "?"), p.get("run_time_ns", 0), p.get("run_cnt", 0))
        return found


def bench(options):
    """Microseconds per operation, as the benchmark says."""
    command = ["perf", "bench", "sched", "pipe", "-l", str(options.loops)]
    if options.pin is not None:
        command = ["taskset", "-c", str(options.pin)] + command
    return command


def usecs(done):
    m = re.search(r"([0-9.]+) usecs/op", done.stdout)
    if done.returncode != 0 or not m:
        fail(f"perf bench sched pipe: {done.stdout}{done.stderr}")
    return float(m.group(1))


def measure(options, daemon, folder):
    times = {"untraced": [], "etwd": [], "perf record": []}
    sizes = {"etwd": [], "perf record": []}
    lost = {"etwd": 0, "perf record": 0}
    etl = os.path.join(folder, "bench.etl")
    data = os.path.join(folder, "perf.data")

    def untraced():
        times["untraced"].append(usecs(run(*bench(options))))

    def etwd():
        daemon.start_session(etl)
        times["etwd"].append(usecs(run(*bench(options))))
        daemon.stop_session()
        summary = json.loads(run_ok(daemon.etwctl, "summary", "--json", etl, allowed=(0, 4)).stdout)
        lost["etwd"] += summary["events_lost"]
        sizes["etwd"].append((os.path.getsize(etl), switches(summary)))

    def perf():
        done = run("perf", "record", "-q", "-a", "-e", "sched:sched_switch", "-o", data, "--",
                   *bench(options))
        times["perf record"].append(usecs(done))
        stats = run_ok("perf", "report", "--stats", "-i", data).stdout
        samples = int(re.search(r"SAMPLE events:\s*(\d+)", stats).group(1))
        m = re.search(r"LOST events:\s*(\d+)", stats)
        lost["perf record"] += int(m.group(1)) if m else 0
        sizes["perf record"].append((os.path.getsize(data), samples))

    # Each variant follows each other one as often, and none pays for the files of the one before.
    orders = list(itertools.permutations([untraced, etwd, perf]))
    for i in range(options.rounds):
        for variant in orders[i % len(orders)]:
            os.sync()
            variant()
    os.remove(data)
    return times, sizes, lost, etl


def switches(summary):
    return sum(c["count"] for c in summary["counts"]
               if c["kind"] == "system" and c["opcode"] == 36 and
               c["provider"] == "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c")


def bpf_run_time(options, daemon, etl):
    """(name, runs, ns a run) of each program over one run of the benchmark."""
    libc = ctypes.CDLL(None, use_errno=True)
    attr = (ctypes.c_uint32 * 32)()
    fd = libc.syscall(SYS_BPF, BPF_ENABLE_STATS, ctypes.byref(attr), ctypes.sizeof(attr))
    if fd < 0:
        return [(f"not measured: {os.strerror(ctypes.get_errno())}", 0, 0.0)]
    try:
        daemon.start_session(etl)
        before = daemon.bpf_programs()
        usecs(run(*bench(options)))
        after = daemon.bpf_programs()
        daemon.stop_session()
    finally:
        os.close(fd)
    rows = []
    for ident, (name, ns, runs) in sorted(after.items()):
        _, ns0, runs0 = before.get(ident, (name, 0, 0))
        if runs > runs0:
            rows.append((name, runs - runs0, (ns - ns0) / (runs - runs0)))
    return rows


def quartiles(values):
    if len(values) < 4:
        return min(values), max(values)
    q = statistics.quantiles(values, n=4)
    return q[0], q[2]


def report(title, times, sizes, lost):
    base = statistics.median(times["untraced"])
    print(f"\n{title}: {len(times['untraced'])} rounds, microseconds an operation (2 switches)")
    print(f"  {'':12}{'median':>9}{'quartiles':>18}{'min':>9}{'max':>9}{'extra':>9}"
          f"{'bytes/event':>13}{'lost':>7}")
    for name, values in times.items():
        low, high = quartiles(values)
        per_event = ""
        if name in sizes:
            per_event = f"{statistics.median(b / max(n, 1) for b, n in sizes[name]):.1f}"
        print(f"  {name:12}{statistics.median(values):9.3f}{f'{low:.3f}-{high:.3f}':>18}"
              f"{min(values):9.3f}{max(values):9.3f}{statistics.median(values) - base:+9.3f}"
              f"{per_event:>13}{lost.get(name, 0):7}")
    ours, theirs = statistics.median(times["etwd"]), statistics.median(times["perf record"])
    spread = max(quartiles(v)[1] - quartiles(v)[0] for v in times.values())
    verdict = "not above" if ours <= theirs + spread else "ABOVE"
    print(f"  etwd is {verdict} perf record: {ours:.3f} against {theirs:.3f}, spread {spread:.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--loops", type=int, default=100000)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("needs root")
        return 77
    if not shutil.which("perf") or not shutil.which("bpftool"):
        print("needs perf and bpftool")
        return 77
    load = os.getloadavg()[0]
    if load > 1:
        print(f"NOTE: the machine was busy (load average {load:.1f}): times are worth little")
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="etw-bench-") as folder:
        os.chmod(folder, 0o755)
        daemon = Daemon(folder)
        try:
            for title, pin in (("both threads on processor 0", 0), ("on all processors", None)):
                options.pin = pin
                times, sizes, lost, etl = measure(options, daemon, folder)
                report(title, times, sizes, lost)
                print("  BPF programs (about 80 ns of a run are the measuring):")
                for name, runs, ns in bpf_run_time(options, daemon, etl):
                    print(f"    {name:24}{runs:10} runs{ns:9.0f} ns a run")
                sys.stdout.flush()
        finally:
            daemon.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
