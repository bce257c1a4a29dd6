#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What events of programs cost: EventWrite and TraceLoggingWrite against a tracepoint of LTTng-UST
with the same fields (u32, u64, a text of 12 bytes), each into a file, taking turns.

Writers write bursts that the buffers of both take, with pauses in between; a burst that lost events
is told. Times are of the bursts: `ns/event` the median burst (all threads) by the clock, `low` the
fastest tenth of them (what other load on the machine disturbs least), `cpu` the CPU time of the
writer's bursts plus that of the daemon (etwd; LTTng's consumerd) over the whole round, an event.
LTTng runs as an ordinary user with a session daemon of its own; both have buffers of 1 MiB, LTTng 8
of them a processor. Without LTTng only etwd is measured.

Then: a disabled event, 1 to 32 sessions on one provider, registrations, and control calls while the
machine has many sessions, processes and registrations.
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

NOBODY = 65534


def fail(text):
    sys.exit(f"bench-provider: {text}")


def run(*command, **kwargs):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          check=False, **kwargs)


def run_ok(*command, allowed=(0,), **kwargs):
    done = run(*command, **kwargs)
    if done.returncode not in allowed:
        fail(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def cpu_ns(pid):
    """CPU time of a process and its threads so far."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
                total += int(f.read().split()[0])
        except OSError:
            pass
    return total


def guid(n):
    return f"{{be7c4000-{n:04x}-4000-8000-000000000000}}"


TL_GUID = "{be7c4000-0000-4000-8000-000000000001}"


class Writer:
    """A program that takes orders; see provider-writer.h."""

    def __init__(self, command, env=None, uid=None):
        def become():
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            env={**os.environ, **(env or {})}, preexec_fn=become if uid is not None else None)
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            fail(f"a writer ended with status {self.process.wait()}")
        return json.loads(line)

    def order(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        return self.read()

    def stop(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Etwd:
    name = "etwd"

    def __init__(self, folder, name, *options):
        self.folder = os.path.join(folder, name)
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o755)
        self.log = open(os.path.join(folder, name + ".log"), "w", encoding="utf-8")
        command = [os.environ["ETWD"], "--runtime-dir", self.folder]
        for option in options:
            command += ["-o", option]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log)
        self.env = {"ETWD_SOCKET": os.path.join(self.folder, "control.sock")}
        for _ in range(600):
            if self.etwctl("status", allowed=range(256)).returncode == 0:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        with open(self.log.name, encoding="utf-8") as f:
            fail("etwd does not start: " + f.read())

    def etwctl(self, *words, allowed=(0,)):
        return run_ok(os.environ["ETWCTL"], *words, allowed=allowed,
                      env={**os.environ, **self.env})

    def start_session(self, name, *providers, minimum=64, maximum=512, size="64K"):
        file = os.path.join(self.folder, name + ".etl")
        words = ["start", name, "-o", file, "--buffers", f"{minimum}:{maximum}",
                 "--buffer-size", size]
        for p in providers:
            words += ["-p", p + ":5"]
        self.etwctl(*words)
        return file

    def show(self, name):
        return json.loads(self.etwctl("show", name, "--json").stdout)

    def stop_session(self, name):
        """Events in the file and lost ones."""
        shown = self.show(name)
        self.etwctl("stop", name, allowed=(0, 4))
        return shown["recorded"], sum(shown["lost"].values())

    def writer(self, *words):
        return Writer([os.environ["BENCH_WRITER_ETW"], *words], self.env)

    def settle(self, name):
        """All that was written is in the file."""
        self.etwctl("flush", name)

    def cpu(self):
        return cpu_ns(self.process.pid)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()


class Lttng:
    name = "consumerd"

    def __init__(self, folder):
        self.folder = os.path.join(folder, "lttng")
        os.mkdir(self.folder)
        self.uid = NOBODY if os.geteuid() == 0 else None
        if self.uid is not None:
            os.chown(self.folder, self.uid, self.uid)
        self.env = {"LTTNG_HOME": self.folder, "HOME": self.folder,
                    "LTTNG_UST_REGISTER_TIMEOUT": "-1"}
        self.log = open(os.path.join(folder, "lttng.log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            ["lttng-sessiond", "--no-kernel"], stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log, env={**os.environ, **self.env}, preexec_fn=self.become)
        for _ in range(300):
            if self.lttng("list", allowed=range(256)).returncode == 0:
                break
            if self.process.poll() is not None:
                fail("lttng-sessiond does not start: " + open(self.log.name).read())
            time.sleep(0.1)
        self.n = 0

    def become(self):
        if self.uid is not None:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)

    def lttng(self, *words, allowed=(0,)):
        return run_ok("lttng", *words, allowed=allowed, env={**os.environ, **self.env},
                      preexec_fn=self.become)

    def start_session(self):
        self.n += 1
        name = f"bench{self.n}"
        self.lttng("create", name, "--output", os.path.join(self.folder, name))
        self.lttng("enable-channel", "-u", "-s", name, "--subbuf-size", "1M", "--num-subbuf", "8",
                   "channel")
        self.lttng("enable-event", "-u", "-s", name, "-c", "channel", "etw_bench:event")
        self.lttng("start", name)
        return name

    def stop_session(self, name):
        """Lost events."""
        self.lttng("stop", name)
        text = self.lttng("list", name).stdout
        lost = sum(int(n) for n in re.findall(r"(?:Discarded|Lost) (?:events|packets): (\d+)", text))
        self.lttng("destroy", name)
        shutil.rmtree(os.path.join(self.folder, name), ignore_errors=True)
        return lost

    def writer(self):
        return Writer([os.environ["BENCH_WRITER_LTTNG"]], self.env, self.uid)

    def consumers(self):
        text = run("ps", "-o", "pid=,comm=", "--ppid", str(self.process.pid)).stdout
        return [int(l.split()[0]) for l in text.splitlines() if "consumer" in l]

    def cpu(self):
        return sum(cpu_ns(pid) for pid in self.consumers())

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()


def quartiles(values):
    if len(values) < 4:
        return min(values), max(values)
    q = statistics.quantiles(values, n=4)
    return q[0], q[2]


class Variant:
    def __init__(self, title, tracer, writer, round_begin, round_end):
        self.title, self.tracer, self.writer = title, tracer, writer
        self.round_begin, self.round_end = round_begin, round_end
        self.reset()

    def reset(self):
        self.wall, self.low, self.cpu, self.writer_cpu, self.lost = [], [], [], [], 0

    def round(self, options, threads):
        token = self.round_begin()
        before = self.tracer.cpu()
        done = self.writer.order("burst", threads, options.bursts, options.events, options.pause)
        lost = self.round_end(token)
        after = self.tracer.cpu()
        self.wall.append(done["wall_ns"])
        self.low.append(done["wall_low_ns"])
        self.writer_cpu.append(done["cpu_ns"])
        self.cpu.append(done["cpu_ns"] + (after - before) / done["events"])
        self.lost += max(lost, done["lost"])


def etwd_variant(title, daemon, kind, number):
    provider = TL_GUID if kind == "tl" else guid(number)
    state = {}

    def begin():
        # Buffers as LTTng has them.
        state["file"] = daemon.start_session("bench", provider, minimum=8, maximum=64, size="1M")
        return "bench"

    def end(name):
        daemon.settle(name)
        _, lost = daemon.stop_session(name)
        os.remove(state["file"])
        return lost
    return Variant(title, daemon, daemon.writer(kind, str(number)), begin, end)


def compare_writers(options, folder):
    daemons = [Etwd(folder, "etwd"), Etwd(folder, "etwd-fast", "FastClock=1")]
    lttng = None
    variants = []
    try:
        if os.environ.get("BENCH_WRITER_LTTNG") and shutil.which("lttng-sessiond"):
            lttng = Lttng(folder)
            variants.append(Variant("LTTng tracepoint", lttng, lttng.writer(),
                                    lttng.start_session, lttng.stop_session))
        else:
            print("LTTng-UST is not there: etwd alone (packages lttng-tools, liblttng-ust-dev)")
        variants.append(etwd_variant("EventWrite", daemons[0], "write", 1))
        variants.append(etwd_variant("TraceLoggingWrite", daemons[0], "tl", 0))
        variants.append(etwd_variant("EventWrite, FastClock", daemons[1], "write", 1))
        variants.append(etwd_variant("TraceLoggingWrite, FastClock", daemons[1], "tl", 0))
        for threads in (1, 2):
            for v in variants:
                v.reset()
            for i in range(options.rounds):
                for k in range(len(variants)):
                    variants[(i + k) % len(variants)].round(options, threads)
            report(options, variants, threads, lttng is not None)
        print("\na disabled event, ns above an empty loop")
        for v in variants[:3]:
            idle = v.writer.order("idle", 20000000)
            print(f"  {v.title:24} call {idle['call_ns']:6.2f}   test {idle['test_ns']:6.2f}")
    finally:
        for v in variants:
            v.writer.stop()
        for d in daemons + ([lttng] if lttng else []):
            d.stop()


def report(options, variants, threads, has_peer):
    print(f"\n{threads} thread{'s' if threads > 1 else ''}, {options.rounds} rounds of "
          f"{options.bursts} bursts of {options.events} events a thread")
    print(f"  {'':30}{'ns/event':>9}{'quartiles':>15}{'ratio':>7}{'low':>8}{'ratio':>7}"
          f"{'cpu: all':>10}{'writer':>8}{'daemon':>8}{'ratio':>7}{'lost':>8}")
    base = variants[0]
    for v in variants:
        low, high = quartiles(v.wall)
        wall, cpu = statistics.median(v.wall), statistics.median(v.cpu)
        writer, least = statistics.median(v.writer_cpu), statistics.median(v.low)
        ratios = ("", "", "")
        if has_peer:
            ratios = (f"{wall / statistics.median(base.wall):.2f}",
                      f"{least / statistics.median(base.low):.2f}",
                      f"{cpu / statistics.median(base.cpu):.2f}")
        print(f"  {v.title:30}{wall:9.1f}{f'{low:.1f}-{high:.1f}':>15}{ratios[0]:>7}{least:8.1f}"
              f"{ratios[1]:>7}{cpu:10.1f}{writer:8.1f}{cpu - writer:8.1f}{ratios[2]:>7}{v.lost:8}")
    sys.stdout.flush()


def many_sessions(options, folder):
    print("\nsessions on one provider, EventWrite (a file each)")
    daemon = Etwd(folder, "etwd-many", "MaxSessionsPerProvider=32")
    writers = []
    try:
        counts = (1, 8, 32)
        for i, n in enumerate(counts):
            for k in range(n):
                daemon.start_session(f"s{n}-{k}", guid(i + 1), minimum=16, maximum=64)
            writers.append(daemon.writer("write", str(i + 1)))
        wall = {n: [] for n in counts}
        cpu = {n: [] for n in counts}
        lost = {n: 0 for n in counts}
        for i in range(options.rounds):
            for k in range(len(counts)):
                n = counts[(i + k) % len(counts)]
                before = daemon.cpu()
                done = writers[(i + k) % len(counts)].order("burst", 1, max(options.bursts // 10, 1),
                                                             options.events, 20000)
                daemon.settle(f"s{n}-0")
                wall[n].append(done["wall_ns"])
                cpu[n].append((daemon.cpu() - before) / done["events"])
                lost[n] += done["lost"]
        for n in counts:
            low, high = quartiles(wall[n])
            session_lost = sum(sum(daemon.show(f"s{n}-{k}")["lost"].values()) for k in range(n))
            print(f"  {n:3} sessions {statistics.median(wall[n]):8.1f} ns/event "
                  f"({low:.1f}-{high:.1f})   etwd {statistics.median(cpu[n]):8.1f} ns/event   "
                  f"lost {lost[n]} writes, {session_lost} in sessions")
            for k in range(n):
                daemon.stop_session(f"s{n}-{k}")
    finally:
        for w in writers:
            w.stop()
        daemon.stop()


def show_times(title, t):
    print(f"  {title:34} p50 {t['p50']:9.1f}   p90 {t['p90']:9.1f}   p99 {t['p99']:9.1f}   "
          f"max {t['max']:9.1f} us   ({t['n']})")


def controls(options, folder):
    program = os.environ["BENCH_CONTROLS"]
    daemon = Etwd(folder, "etwd-controls")
    env = {**os.environ, **daemon.env}
    crowd = None
    writer = None
    try:
        print("\nregistrations")
        done = json.loads(run_ok(program, "register", "1000", env=env).stdout)
        show_times("first EventRegister of a process", done["first"])
        show_times("EventRegister", done["register"])
        show_times("EventUnregister", done["unregister"])
        daemon.start_session("one", guid(1))
        writer = daemon.writer("write", "1")
        alone = [writer.order("burst", 1, options.bursts // 4 or 1, options.events,
                              options.pause)["wall_ns"] for _ in range(options.rounds)]
        for i in range(63):
            daemon.start_session(f"crowd{i}", f"{{be7c4002-{i:04x}-4000-8000-010000000000}}",
                                 minimum=4, maximum=24)
        crowd = Writer([program, "crowd", str(options.processes), "10"], daemon.env)
        handles = [str(s["handle"]) for s in json.loads(daemon.etwctl("list", "--json").stdout)]
        print(f"\ncontrol calls with {len(handles)} sessions, {options.processes} processes, "
              f"{options.processes * 10} registrations")
        done = json.loads(run_ok(program, "calls", str(options.calls), *handles, env=env).stdout)
        for name in ("query", "enable", "disable"):
            show_times(name, done[name])
        among = [writer.order("burst", 1, options.bursts // 4 or 1, options.events,
                              options.pause)["wall_ns"] for _ in range(options.rounds)]
        print(f"  an event: {statistics.median(alone):.1f} ns alone, "
              f"{statistics.median(among):.1f} ns among them")
        with open(f"/proc/{daemon.process.pid}/status", encoding="utf-8") as f:
            print("  etwd: " + re.search(r"VmRSS:\s*(.*)", f.read()).group(1) + " resident")
    finally:
        for w in (crowd, writer):
            if w:
                w.stop()
        daemon.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bursts", type=int, default=200)
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--pause", type=int, default=1500, help="microseconds between bursts")
    parser.add_argument("--processes", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--only", choices=("writers", "sessions", "controls"))
    options = parser.parse_args()
    load = os.getloadavg()[0]
    if load > 1:
        print(f"NOTE: the machine was busy (load average {load:.1f}): times are worth little")
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda *_: sys.exit(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65536)), hard))
    with tempfile.TemporaryDirectory(prefix="etw-bench-") as folder:
        os.chmod(folder, 0o755)
        for name, part in (("writers", compare_writers), ("sessions", many_sessions),
                           ("controls", controls)):
            if options.only in (None, name):
                part(options, folder)
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
