"""The main job: `lyre allreduce` through the plugin and over kernel TCP, alone on the machine, with
small sizes, and beside processes that compute."""

import contextlib
import functools
import json
import os
import sys

import needs
import processes
from cores_apart import CoresApart, are_near
from driver_share import DriverShare
from measures import (HONEST, KERNEL, SUPER, SUPER_PACKETS, TRUSTED, Failed, has_super_packets,
                      kernel_wire, output_of, pass_through)
from record import Row
from rest import processor_s
from two_hosts import TwoHosts, cores
from wires import DriverWire, TapWire

MTU = 1500
# A process that only computes, at nice 0.
COMPUTES = [sys.executable, "-c", "while True: pass"]
SMALL = [8, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 512 << 10]
AFTER_A_LARGE_ONE = [8, 4 << 10, 64 << 10, 512 << 10]
LARGE = [1 << 20, 4 << 20, 16 << 20, 64 << 20]
# NCCL has two channels for each peer by default, and 32 at most.
CHANNELS = [2, 8, 32]
EXCHANGED = [([64 << 10, 1 << 20], 300), ([16 << 20, 64 << 20], 10)]
AFTER_A_GAP = [8, 64 << 10, 1 << 20, 4 << 20, 16 << 20]
# With --near, so many rounds at most are run for each that shall count.
TRIES = 6
# Twenty of the small ones would be over before threads and cores have found each other.
BESIDE = [([8, 64 << 10], 300), ([1 << 20, 4 << 20, 16 << 20], 20)]
OTHERS = [("alone", []), ("beside one computing process", [None]),
          ("beside a computing process on each core", cores())]
KERNEL_PORTS = {"AF_PACKET": functools.partial(DriverWire, "net_af_packet"),
                "AF_XDP": functools.partial(DriverWire, "net_af_xdp"),
                "TAP": TapWire}


def time_us(bucket):
    return bucket["time_ns"] / 1e3


def gb_per_s(bucket):
    return bucket["bus_bits_per_s"] / 8e9


def large(bench):
    with Job(bench, LARGE, iterations=3) as job:
        for i, size in enumerate(LARGE):
            job.add("all-reduce", i, size, "GB/s bus", gb_per_s)


def large_uncut(bench):
    """On wires that carry 64 KiB packets: the kernel's with TSO on, Lyre's with super-packets."""
    if not has_super_packets(bench):
        return
    with Job(bench, LARGE, iterations=3, is_uncut=True) as job:
        for i, size in enumerate(LARGE):
            job.add("64 KiB packets, all-reduce", i, size, "GB/s bus", gb_per_s)


def small(bench):
    """In a row of all sizes; each size alone; and each right after a large one."""
    with Job(bench, SMALL, iterations=100) as job:
        for i, size in enumerate(SMALL):
            job.add("small all-reduce", i, size, "us", time_us)
    for size in SMALL:
        with Job(bench, [size], iterations=300) as job:
            job.add("small all-reduce, alone", 0, size, "us", time_us)
    with Job(bench, [each for size in AFTER_A_LARGE_ONE for each in (1 << 20, size)],
             iterations=50) as job:
        for i, size in enumerate(AFTER_A_LARGE_ONE):
            job.add("small all-reduce, after 1 MiB", 2 * i + 1, size, "us", time_us)


def send_and_receive(bench):
    """Each rank sends to the other one, and receives from it, as in an all-to-all: over few
    connections and over many."""
    for channels in CHANNELS:
        options = ["--collective", "sendrecv", "--channels", str(channels)]
        for sizes, iterations in EXCHANGED:
            with Job(bench, sizes, iterations, options=options) as job:
                for i, size in enumerate(sizes):
                    job.add(f"send and receive, {channels} channels", i, size, "us", time_us)


def after_a_gap(bench):
    """Each after the ranks have rested, as they do while a GPU computes."""
    with Job(bench, AFTER_A_GAP, iterations=10, options=["--rest-ms", "50"]) as job:
        for i, size in enumerate(AFTER_A_GAP):
            job.add("first after a gap", i, size, "us", time_us)


def beside_others(bench):
    for group, pinned_to in OTHERS[1:]:
        for sizes, iterations in BESIDE:
            with Job(bench, sizes, iterations, computing=pinned_to) as job:
                for i, size in enumerate(sizes):
                    job.add(group, i, size, "us", time_us)


def over_kernel_port(driver, wire, bench):
    """Lyre's ports are the kernel's, on wires like those of its TCP. Such a port announces packets,
    and the kernel copies each of them at both ends."""
    for group, pinned_to in OTHERS:
        for sizes, iterations in BESIDE:
            with Job(bench, sizes, iterations, computing=pinned_to, wire=wire) as job:
                for i, size in enumerate(sizes):
                    job.add(f"over {driver}, {group}", i, size, "us", time_us)


def over_packet_sockets_uncut(bench):
    """With TSO on at both wires, for the kernel's TCP and for packets of Lyre's sockets."""
    with Job(bench, LARGE, iterations=3, is_uncut=True, wire=KERNEL_PORTS["AF_PACKET"]) as job:
        for i, size in enumerate(LARGE):
            job.add("64 KiB packets, over AF_PACKET", i, size, "GB/s bus", gb_per_s)


def has_services():
    if needs.session_groups():
        return True
    print("  (no row as services: the scheduler of this kernel has no groups of sessions)",
          flush=True)
    return False


@contextlib.contextmanager
def service_job(bench, sizes, iterations, **options):
    """A Job whose daemons, ranks and others are groups of their own for the kernel's scheduler, as
    services, jobs and containers are."""
    with processes.as_services(), \
            Job(bench, sizes, iterations, options=["--setsid"], **options) as job:
        yield job


def as_services(bench):
    """The rows above are of one group, as started from one shell."""
    if not has_services():
        return
    for group, pinned_to in OTHERS:
        for sizes, iterations in BESIDE:
            with service_job(bench, sizes, iterations, computing=pinned_to) as job:
                for i, size in enumerate(sizes):
                    job.add(f"as services, {group}", i, size, "us", time_us)


def processor(bench):
    """What ranks and daemons take of the cores during all-reduces. What the kernel does for TCP
    counts where it happens: mostly in the ranks."""
    wire_alone(bench)
    for others, pinned_to in OTHERS:
        with Job(bench, [16 << 20], iterations=24, computing=pinned_to,
                 counts_processor=True) as job:
            job.add_processor("processor seconds a GiB", others)
        if not has_services():
            continue
        with service_job(bench, [16 << 20], iterations=24, computing=pinned_to,
                         counts_processor=True) as job:
            job.add_processor("processor seconds a GiB", f"as services, {others}")


def wire_alone(bench):
    """What memif's driver takes of the cores for as many bytes, there and back, calls that move
    nothing left out. A NIC copies them itself, and its driver has the rest: descriptors and
    buffers."""
    row = Row("processor seconds a GiB", "memif's driver, for as many bytes", "s", [],
              f"2 * passthrough sender|receiver WIRE {MTU} touched CORE", lower_is_better=True,
              line_ns=[])
    for _ in range(bench.rounds):
        with CoresApart(bench.program("tests/bench/line_probe")) as apart:
            ends = pass_through(bench, MTU, "touched")
        row.values.append(2 * sum(end["driver_s_per_gib"] for end in ends))
        row.line_ns.append(apart.line_ns)
    bench.table.add(row)


@contextlib.contextmanager
def computing_processes(pinned_to):
    """One process for each entry, on that core; None: the scheduler chooses."""
    with contextlib.ExitStack() as stack:
        for core in pinned_to:
            pin = [] if core is None else ["taskset", "-c", str(core)]
            stack.callback(processes.end, processes.start([*pin, *COMPUTES]))
        yield


class Job:
    """`lyre allreduce` of some sizes, once a round, each time with the kernel's transports beside
    the plugin. Runs when the `with` block begins; `add()` makes rows of it."""

    def __init__(self, bench, sizes, iterations, computing=(), options=(), is_uncut=False,
                 counts_processor=False, wire=None):
        """`wire` makes one for Lyre in place of memif, from offloads and an MTU. `is_uncut`: on
        wires that carry 64 KiB packets."""
        self._bench, self._sizes, self._iterations = bench, sizes, iterations
        self._computing = computing
        self._options = list(options)
        self._offloads = SUPER if is_uncut else HONEST
        # A port on packet sockets finds out by itself what its interface carries.
        self._sections = SUPER_PACKETS if is_uncut and wire is None else TRUSTED
        self._counts_processor = counts_processor
        self._wire = wire
        self._reports = []
        self._plugin_s = []
        self._line_ns = []
        self._text = ""

    def __enter__(self):
        bench = self._bench
        environment = dict(os.environ, LYRE_DATA_DIR=os.path.join(bench.build, "tools/lyre"))
        memif = contextlib.nullcontext()
        with self._wire(self._offloads, MTU) if self._wire else memif as wire_of_lyre, \
                TwoHosts(bench.programs, sections=self._sections, wire=wire_of_lyre) as hosts, \
                kernel_wire(self._offloads, MTU) as wire, computing_processes(self._computing):
            command = self._command(hosts, wire)

            def report_of(*more):
                return json.loads(output_of([*command, *more], "lyre allreduce", env=environment))

            for _ in range(TRIES * bench.rounds):
                if len(self._reports) < bench.rounds:
                    self._run_round(hosts, report_of)
        if not self._reports:
            raise Failed(f"a cache line took more than {bench.near_ns} ns between the cores in "
                         f"each of {TRIES * bench.rounds} rounds")
        self._text = " ".join(command)
        return self

    def _run_round(self, hosts, report_of):
        bench = self._bench
        plugin_s = None
        with CoresApart(bench.program("tests/bench/line_probe")) as all_transports:
            report = report_of()
        lines_ns = [all_transports.line_ns]
        if self._counts_processor:
            with CoresApart(bench.program("tests/bench/line_probe")) as plugin:
                plugin_s = self._processor_s(hosts, report_of)
            lines_ns.append(plugin.line_ns)
        if not are_near(lines_ns, bench.near_ns):
            return
        self._reports.append(report)
        self._plugin_s.append(plugin_s)
        self._line_ns.append(max((ns for ns in lines_ns if ns is not None), default=None))

    def _processor_s(self, hosts, report_of):
        """Of the plugin's ranks and of both daemons, in a run of their own: daemons at rest while
        the kernel's transports are measured do not count. Daemons work in the warm-up, too. The
        time without the wire's whole driver is None where perf is not installed."""
        before = daemons_s(hosts)
        with DriverShare([hosts.a.pid, hosts.b.pid]) as driver:
            ranks = report_of("--no-kernel")["plugin"]["processor_ns"] / 1e9
        daemons = (daemons_s(hosts) - before) * self._iterations / (self._iterations + 1)
        return {"all": ranks + daemons,
                "without the driver": None if driver.share is None
                else ranks + daemons * (1 - driver.share)}

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
        return command + self._options

    def add(self, group, index, size, unit, value):
        """Two rows: the better of the kernel's transports in each round, and Lyre beside it."""
        is_time = unit == "us"
        best = min if is_time else max
        self._add_pair(
            group, text_of(size), unit, is_time,
            [best(value(k["buckets"][index]) for k in report["kernel"])
             for report in self._reports],
            [value(report["plugin"]["buckets"][index]) for report in self._reports])

    def add_processor(self, group, name):
        gib = sum(self._sizes) * self._iterations / (1 << 30)
        kernel = self._add_pair(
            group, name, "s", True,
            [min(k["processor_ns"] for k in report["kernel"]) / 1e9 / gib
             for report in self._reports],
            [seconds["all"] / gib for seconds in self._plugin_s])
        rest = [seconds["without the driver"] for seconds in self._plugin_s]
        if None in rest:
            print("  (no row without memif's whole driver: no samples of perf; "
                  "apt-get install linux-perf)", flush=True)
            return
        self._add(group, f"{name}, without memif's whole driver", "s", True,
                  [seconds / gib for seconds in rest], kernel)

    def _add_pair(self, group, name, unit, lower_is_better, kernel, lyre):
        """Returns the kernel's row."""
        beside = self._add(group, f"kernel's best, {name}", unit, lower_is_better, kernel)
        self._add(group, name, unit, lower_is_better, lyre, beside)
        return beside

    def _add(self, group, name, unit, lower_is_better, values, beside=None):
        return self._bench.table.add(Row(group, name, unit, values, self._text, beside,
                                         lower_is_better=lower_is_better, line_ns=self._line_ns))


def daemons_s(hosts):
    return processor_s(hosts.a.pid) + processor_s(hosts.b.pid)


def text_of(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >> shift:
            return f"{size >> shift} {unit}"
    return f"{size} B"


GROUPS = {
    "all-reduce": large,
    "64 KiB packets, all-reduce": large_uncut,
    "small all-reduce": small,
    "send and receive": send_and_receive,
    "first after a gap": after_a_gap,
    "beside": beside_others,
    **{f"over {driver}": functools.partial(over_kernel_port, driver, port)
       for driver, port in KERNEL_PORTS.items()},
    "64 KiB packets, over AF_PACKET": over_packet_sockets_uncut,
    "as services": as_services,
    "processor seconds a GiB": processor,
}
