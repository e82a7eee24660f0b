"""The main job: `lyre allreduce` through the plugin and over kernel TCP, alone on the machine, with
small sizes, and beside processes that compute."""

import contextlib
import json
import os
import sys

import processes
from measures import HONEST, KERNEL, TRUSTED, kernel_wire, output_of
from record import Row
from two_hosts import TwoHosts, cores

# A process that only computes, at nice 0.
HOG = [sys.executable, "-c", "while True: pass"]
SMALL = [8, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 512 << 10]
LARGE = [1 << 20, 4 << 20, 16 << 20, 64 << 20]
BESIDE = [8, 64 << 10, 1 << 20, 4 << 20, 16 << 20]


def large(bench):
    with Job(bench, LARGE, iterations=3) as job:
        for i, size in enumerate(LARGE):
            job.add("all-reduce", i, size, "GB/s bus", lambda bucket: bucket["busbw_gb_per_s"])


def small(bench):
    with Job(bench, SMALL, iterations=100) as job:
        for i, size in enumerate(SMALL):
            job.add("small all-reduce", i, size, "us", lambda bucket: bucket["time_us"])


def beside_others(bench):
    for group, pinned_to in (("beside one hog", [None]), ("beside a hog on each core", cores())):
        with Job(bench, BESIDE, iterations=20, hogs=pinned_to) as job:
            for i, size in enumerate(BESIDE):
                job.add(group, i, size, "us", lambda bucket: bucket["time_us"])


@contextlib.contextmanager
def hogs(pinned_to):
    """One process for each entry, on that core; None: the scheduler chooses."""
    with contextlib.ExitStack() as stack:
        for core in pinned_to:
            pin = [] if core is None else ["taskset", "-c", str(core)]
            stack.callback(processes.end, processes.start([*pin, *HOG]))
        yield


class Job:
    """`lyre allreduce` of some sizes, once a round, each time with the kernel's transports beside
    the plugin. Runs when the `with` block begins; `add()` makes rows of it."""

    def __init__(self, bench, sizes, iterations, hogs=()):
        self._bench, self._sizes, self._iterations, self._hogs = bench, sizes, iterations, hogs
        self._reports = []
        self._text = ""

    def __enter__(self):
        bench = self._bench
        environment = dict(os.environ, LYRE_DATA_DIR=os.path.join(bench.build, "tools/lyre"))
        with TwoHosts(bench.programs, sections=TRUSTED) as hosts, \
                kernel_wire(HONEST, 1500) as wire, hogs(self._hogs):
            command = self._command(hosts, wire)
            for _ in range(bench.rounds):
                self._reports.append(json.loads(
                    output_of(command, "lyre allreduce", env=environment)))
        self._text = " ".join(command)
        return self

    def __exit__(self, *_exception):
        return False

    def _command(self, hosts, wire):
        names = {"A": wire.left, "B": wire.right}
        command = [self._bench.programs.lyre, "allreduce", "--json",
                   "--iterations", str(self._iterations),
                   "--host", f"A={hosts.a.socket}", "--host", f"B={hosts.b.socket}"]
        for host, address in (("A", KERNEL["left"]), ("B", KERNEL["right"])):
            command += ["--kernel-addr", f"{host}={address}",
                        "--kernel-netns", f"{host}={names[host]}"]
        for size in self._sizes:
            command += ["--bytes", str(size)]
        return command

    def add(self, group, index, size, unit, value):
        """Two rows: the better of the kernel's transports in each round, and Lyre beside it."""
        is_time = unit == "us"
        best = min if is_time else max
        kernel = self._bench.table.add(Row(
            group, f"kernel's best, {text_of(size)}", unit,
            [best(value(k["buckets"][index]) for k in report["kernel"])
             for report in self._reports],
            self._text, lower_is_better=is_time))
        self._bench.table.add(Row(
            group, text_of(size), unit,
            [value(report["plugin"]["buckets"][index]) for report in self._reports],
            self._text, kernel, lower_is_better=is_time))


def text_of(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >> shift:
            return f"{size >> shift} {unit}"
    return f"{size} B"


GROUPS = {
    "all-reduce": large,
    "small all-reduce": small,
    "beside": beside_others,
}
