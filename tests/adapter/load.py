#!/usr/bin/env python3
"""Runs jobs through the NCCL plugin beside more runnable processes than the machine has cores. No
job may fail: load makes it slow and is no fault of a peer."""

import argparse
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from daemon import Programs
from two_hosts import TwoHosts

COMPUTES = "while True: pass"
# Two thirds of a core in slices of 20 ms, ahead of every ordinary thread. More of it would leave
# these nothing: the kernel lets SCHED_RR have 95 % of each core.
COMPUTES_FIRST = """
import os, time
os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
while True:
    end = time.monotonic() + 0.02
    while time.monotonic() < end: pass
    time.sleep(0.01)
"""
JOB = ["allreduce", "--json", "--no-kernel", "--iterations", "5",
       "--bytes", "8", "--bytes", "65536", "--bytes", "4194304"]
# After the end, with nothing beside them.
LAST_JOBS_S = 120


class Load:
    """The processes that compute, inside a `with` block."""

    def __init__(self, ordinary, realtime):
        self._programs = [COMPUTES] * ordinary + [COMPUTES_FIRST] * realtime
        self._running = []

    def __enter__(self):
        for program in self._programs:
            self._running.append(processes.start([sys.executable, "-c", program]))
        return self

    def __exit__(self, *_exception):
        for process in self._running:
            processes.end(process)

    def check(self):
        if any(process.poll() is not None for process in self._running):
            raise SystemExit("a process that computes has ended; class SCHED_RR needs root")


class Jobs:
    """So many jobs at a time, each followed by another one."""

    def __init__(self, command, environment, count):
        self._command, self._environment = command, environment
        self._running = [self._start() for _ in range(count)]
        self.seconds = []
        self.died = []

    def _start(self):
        process = processes.start(self._command, env=self._environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return process, time.monotonic()

    def look(self, goes_on):
        for entry in list(self._running):
            process, since = entry
            if process.poll() is None:
                continue
            said, complaint = process.communicate()
            self._running.remove(entry)
            self.seconds.append(time.monotonic() - since)
            if process.returncode != 0:
                self.died.append(f"status {process.returncode} after {self.seconds[-1]:.0f} s: "
                                 f"{complaint.strip() or said.strip()}")
            if goes_on:
                self._running.append(self._start())

    def finish(self, patience_s):
        end = time.monotonic() + patience_s
        while self._running and time.monotonic() < end:
            self.look(goes_on=False)
            time.sleep(0.2)
        for process, since in self._running:
            processes.end(process)
            self.died.append(f"did not end within {time.monotonic() - since:.0f} s")


def run(options):
    environment = dict(os.environ, LYRE_DATA_DIR=os.path.join(options.build, "tools/lyre"))
    with TwoHosts(Programs(options.build)) as hosts:
        command = [Programs(options.build).lyre, *JOB, "--timeout", "600",
                   "--host", f"A={hosts.a.socket}", "--host", f"B={hosts.b.socket}"]
        with Load(options.processes - options.realtime, options.realtime) as load:
            jobs = Jobs(command, environment, options.jobs)
            end = time.monotonic() + options.seconds
            while time.monotonic() < end:
                load.check()
                jobs.look(goes_on=True)
                time.sleep(0.2)
        jobs.finish(LAST_JOBS_S)
        logs = [host.log_tail() for host in (hosts.a, hosts.b)] if jobs.died else []
    return jobs, logs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/check/normal")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=5, help="at a time")
    parser.add_argument("--processes", type=int, default=22, help="that compute")
    parser.add_argument("--realtime", type=int, default=1, help="of these, in class SCHED_RR")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    processes.exit_on_signals()
    jobs, logs = run(options)
    print(json.dumps({"jobs": len(jobs.seconds), "died": len(jobs.died),
                      "longest_s": round(max(jobs.seconds, default=0), 1)}))
    for line in [*jobs.died, *logs]:
        print(line, file=sys.stderr)
    return 1 if jobs.died else 0


if __name__ == "__main__":
    sys.exit(main())
