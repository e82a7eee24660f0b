"""The measurements of tools/bench, by group. In each round the contenders of a group take turns."""

import contextlib
import json
import os
import re
import subprocess
import tempfile
import time

import processes
from cores_apart import line_ns_now
from network import VethPair
from record import Row
from two_hosts import (ADDRESSES, SUPER_PACKETS, TwoHosts, cores, scratch_folder,
                       super_packets_refusal)

KERNEL = {"left": "10.9.4.1", "right": "10.9.4.2"}
PORT = 5201
PATIENCE_S = 120
SESSIONS_AT_ONCE = 4096
# Two daemons and two clients.
SPINNERS = 4
# Round trips of daemons that have just started, before those that count.
WARM_UP = ["--ping-pong", "--count", "1000"]
# Packets of at most the MTU cross the wire. It computes checksums, as a NIC does.
HONEST = ["tso", "off", "gso", "on", "gro", "on", "tx", "on"]
COMPUTED = ["tso", "off", "gso", "on", "gro", "on", "tx", "off"]
TRUSTED = {"port": {"trusted": True}}
# Connections in TIME-WAIT count for a minute after they were closed.
MANY_CLOSE = {**TRUSTED, "tcp": {"connections_max": 65536}}
# Packets of up to 64 KiB cross it uncut.
SUPER = ["tso", "on", "gso", "on", "gro", "on", "tx", "on"]


class Failed(Exception):
    """One line for the user."""


class Bench:
    def __init__(self, programs, build, rounds, seconds, table, near_ns=None):
        self.programs, self.rounds, self.seconds, self.table = programs, rounds, seconds, table
        self.near_ns = near_ns
        self.build = os.path.abspath(build)

    def program(self, path):
        full = os.path.join(self.build, path)
        if not os.access(full, os.X_OK):
            raise Failed(f"{full} has not been built")
        return full


def has_super_packets(bench):
    refusal = super_packets_refusal(bench.programs)
    if refusal:
        print(f"  (no row with 64 KiB packets: {refusal})", flush=True)
    return not refusal


def on_core(core, command):
    return ["taskset", "-c", str(core), *command]


def output_of(command, what, **options):
    done = processes.run(command, PATIENCE_S, capture_output=True, **options)
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        raise Failed(f"{what} ended with status {done.returncode}: {said}")
    return done.stdout


class Side:
    """Where the server and the client of `lyre perf` run."""

    def __init__(self, server, client, address, options=()):
        self.server, self.client, self.address = server, client, address
        self.options = list(options)

    @contextlib.contextmanager
    def serving(self, server_options=(), port=PORT):
        command, environment = self.server
        listening = processes.start(
            [*command, "perf", "server", "--listen", f"0.0.0.0:{port}", *self.options,
             *server_options], env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)
        try:
            if "listening" not in processes.read_line(listening, PATIENCE_S):
                raise Failed("lyre perf server does not listen")
            yield listening
        finally:
            processes.end(listening)
            listening.stderr.close()

    def client_command(self, arguments, port=PORT):
        command, environment = self.client
        return [*command, "--json", "perf", "client", f"{self.address}:{port}", *self.options,
                *arguments], environment

    def run(self, arguments, server_options=()):
        """The client's JSON."""
        with self.serving(server_options):
            command, environment = self.client_command(arguments)
            return json.loads(output_of(command, "lyre perf", env=environment))

    def run_several(self, count, arguments):
        """The JSON of as many clients, each with a server of its own, that run side by side."""
        with contextlib.ExitStack() as stack:
            clients = []
            for port in range(PORT, PORT + count):
                stack.enter_context(self.serving(port=port))
            for port in range(PORT, PORT + count):
                command, environment = self.client_command(arguments, port)
                clients.append(processes.start(command, env=environment, text=True,
                                               stdout=subprocess.PIPE, stderr=subprocess.PIPE))
                stack.callback(processes.end, clients[-1])
            said = [client.communicate(timeout=PATIENCE_S) for client in clients]
        for client, (_, complaint) in zip(clients, said):
            if client.returncode != 0:
                raise Failed(f"lyre perf ended with status {client.returncode}: {complaint}")
        return [json.loads(out) for out, _ in said]


def siblings(core):
    """The processors of the same physical core."""
    path = f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"
    try:
        with open(path, encoding="ascii") as file:
            ranges = [part.split("-") for part in file.read().strip().split(",")]
    except OSError:
        return {core}
    return {cpu for ends in ranges for cpu in range(int(ends[0]), int(ends[-1]) + 1)}


def client_cores():
    """A physical core for each of two clients that is no daemon's, where there are enough; else
    cores()."""
    taken, free = set().union(*map(siblings, cores())), []
    for core in sorted(os.sched_getaffinity(0)):
        if core not in taken:
            free.append(core)
            taken |= siblings(core)
    return (free[0], free[-1]) if len(free) >= 2 else cores()


def lyre_side(hosts, on_cores=None):
    """Without `on_cores` each client runs on the core of its daemon, as on a host with one core for
    the network."""
    (server, server_env), (client, client_env) = hosts.a.lyre(), hosts.b.lyre()
    first, second = on_cores or cores()
    return Side((on_core(first, server), server_env), (on_core(second, client), client_env),
                ADDRESSES["host-a"])


def free_side(hosts):
    (server, server_env), (client, client_env) = hosts.a.lyre(), hosts.b.lyre()
    return Side((server, server_env), (client, client_env), ADDRESSES["host-a"])


def kernel_side(programs, wire, on_cores=None):
    first, second = on_cores or cores()
    inside = [on_core(core, wire.inside(name, programs.lyre))
              for core, name in ((first, wire.left), (second, wire.right))]
    return Side((inside[0], dict(os.environ)), (inside[1], dict(os.environ)), KERNEL["left"],
                ["--kernel"])


@contextlib.contextmanager
def kernel_wire(offloads, mtu):
    with VethPair(offloads, mtu) as wire:
        wire.give_address(wire.left, KERNEL["left"])
        wire.give_address(wire.right, KERNEL["right"])
        yield wire


def gbps(report):
    return sum(report[way]["bits_per_s"] for way in ("sent", "received") if way in report) / 1e9


class Contest:
    """Contenders that take turns: `add` them, then `run` all rounds."""

    def __init__(self, bench, group):
        self.bench, self.group = bench, group
        self.contenders = []

    def add(self, name, unit, measure, command, beside=None, lower_is_better=False):
        if not self.bench.table.wants(self.group, name):
            return
        self.contenders.append((Row(self.group, name, unit, [], command,
                                    lower_is_better=lower_is_better), measure, beside))

    def run(self):
        for _ in range(self.bench.rounds):
            for row, measure, _ in self.contenders:
                row.values.append(measure())
        rows = {row.name: row for row, _, _ in self.contenders}
        for row, _, beside in self.contenders:
            row.beside = rows.get(beside)
            self.bench.table.add(row)


# ---- engine ----

def engine(bench):
    program = bench.program("tests/bench/engine_bench")
    for mss, at_once, name in ((1460, 0, "1460 bytes, one by one"),
                               (8960, 0, "8960 bytes, one by one"),
                               (1460, 65536, "1460 bytes, 64 KiB at a time")):
        if not bench.table.wants("engine", name):
            continue
        command = [program, f"--benchmark_filter=bulk/{mss}/{at_once}$",
                   f"--benchmark_repetitions={bench.rounds}", "--benchmark_format=json",
                   f"--benchmark_min_time={bench.seconds / 8}"]
        report = json.loads(output_of(command, "engine_bench"))
        values = [run["per_segment"] * 1e9 for run in report["benchmarks"]
                  if run["run_type"] == "iteration"]
        bench.table.add(Row("engine", name, "ns/segment", values, " ".join(command),
                            lower_is_better=True))
        bench.table.add(Row("engine", name + ", instructions", "/segment",
                            [instructions(program, mss, at_once)],
                            f"valgrind --tool=callgrind {program} --rounds N {mss} {at_once}",
                            lower_is_better=True))


def instructions(program, mss, at_once):
    """Instructions for each segment: the difference of two runs, without the start."""
    counts = []
    for rounds in (200, 1200):
        with tempfile.NamedTemporaryFile() as sink:
            done = processes.run(
                ["valgrind", "--tool=callgrind", f"--callgrind-out-file={sink.name}", program,
                 "--rounds", str(rounds), str(mss), str(at_once)], PATIENCE_S, capture_output=True)
        spent = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode != 0 or spent is None:
            raise Failed(f"valgrind: {done.stderr.strip()[-200:]}")
        counts.append((int(spent.group(1)), int(done.stdout)))
    (few, few_segments), (many, many_segments) = counts
    return (many - few) / (many_segments - few_segments)


# ---- the wire's own limits ----

def pass_through(bench, mtu, payload):
    """What the sender and the receiver print."""
    program = bench.program("tests/bench/passthrough")
    first, second = cores()
    folder = scratch_folder()
    wire = os.path.join(folder, "wire.sock")
    environment = dict(os.environ, RUNTIME_DIRECTORY=folder)
    receiver = processes.start([program, "receiver", wire, str(mtu), payload, str(first)],
                               stdout=subprocess.PIPE, text=True, env=environment)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not os.path.exists(wire) and receiver.poll() is None:
            if time.monotonic() > deadline:
                raise Failed("passthrough: the receiver does not listen")
            time.sleep(0.01)
        sender = output_of([program, "sender", wire, str(mtu), payload, str(second),
                            str(bench.seconds)], "passthrough", env=environment)
        return json.loads(sender), json.loads(receiver.communicate(timeout=PATIENCE_S)[0])
    finally:
        processes.end(receiver)
        subprocess.run(["rm", "-rf", folder], check=False)


def add_limits(contest, mtu):
    bench = contest.bench
    for name, payload in (("raw memif, no client", "raw"),
                          ("pass-through, not touched", "untouched"),
                          ("pass-through, written and read", "touched")):
        contest.add(name, "Gb/s",
                    lambda payload=payload: pass_through(bench, mtu, payload)[1]["gbps"],
                    f"passthrough sender|receiver WIRE {mtu} {payload} CORE")


# ---- goodput ----

def bulk(bench, mtu):
    group = f"bulk, MTU {mtu}"
    seconds = ["--seconds", str(bench.seconds)]
    with TwoHosts(bench.programs, mtu, sections=TRUSTED) as hosts, \
            kernel_wire(HONEST, mtu) as honest:
        lyre, free = lyre_side(hosts), free_side(hosts)
        kernel = kernel_side(bench.programs, honest)
        contest = Contest(bench, group)

        def add(name, side, *options, beside=None, server=()):
            contest.add(name, "Gb/s",
                        lambda: gbps(side.run([*seconds, *options], server)),
                        "lyre perf client " + " ".join([*side.options, *seconds, *options]), beside)
        add_limits(contest, mtu)
        add("kernel", kernel)
        add("kernel, not touched", kernel, "--untouched")
        add("kernel, MSG_ZEROCOPY", kernel, "--zerocopy", beside="kernel")
        add("kernel, 8 sessions", kernel, "--sessions", "8")
        add("kernel, both directions", kernel, "--direction", "both")
        add("one session", lyre, beside="kernel")
        add("one session, not touched", lyre, "--untouched", beside="pass-through, not touched")
        add("one session, the other direction", lyre, "--direction", "rx", beside="kernel")
        add("one session, both directions", lyre, "--direction", "both",
            beside="kernel, both directions")
        add("one session, copying calls", lyre, "--copy", beside="kernel", server=["--copy"])
        add("8 sessions", lyre, "--sessions", "8", beside="kernel, 8 sessions")
        add("8 sessions, 512 KiB under way each", lyre, "--sessions", "8", "--unacked", "512KiB",
            beside="kernel, 8 sessions")
        add("one session, clients on any core", free, beside="kernel")
        contest.run()
    bulk_with_checksums(bench, mtu, group, seconds)


def bulk_with_checksums(bench, mtu, group, seconds):
    """Lyre and the kernel with checksums, and both on a wire that carries 64 KiB packets."""
    command = "lyre perf client " + " ".join(seconds)
    with TwoHosts(bench.programs, mtu) as hosts, kernel_wire(COMPUTED, mtu) as wire:
        lyre, kernel = lyre_side(hosts), kernel_side(bench.programs, wire)
        contest = Contest(bench, group)
        contest.add("kernel, checksums computed", "Gb/s", lambda: gbps(kernel.run(seconds)),
                    command + " --kernel")
        contest.add("one session, checksums computed", "Gb/s", lambda: gbps(lyre.run(seconds)),
                    command, "kernel, checksums computed")
        contest.run()
    if not has_super_packets(bench):
        return
    with TwoHosts(bench.programs, mtu, sections=SUPER_PACKETS) as hosts, \
            kernel_wire(SUPER, mtu) as wire:
        lyre, above = lyre_side(hosts), kernel_side(bench.programs, wire)
        contest = Contest(bench, group)
        contest.add("kernel, 64 KiB packets on the wire", "Gb/s", lambda: gbps(above.run(seconds)),
                    command + " --kernel")
        contest.add("one session, 64 KiB packets on the wire", "Gb/s",
                    lambda: gbps(lyre.run(seconds)), command, "kernel, 64 KiB packets on the wire")
        contest.run()


# ---- round trips ----

def latency(bench):
    """Lyre beside a kernel client that blocks, and one that spins. Lyre also spins when each of its
    two daemons and two clients has a core; otherwise they share cores, and yield."""
    spin = ["--spin"]
    busy = ("busy", spin) if client_cores() != cores() else ("adaptive", [])
    for (idle, own), rival in ((("adaptive", []), []), (busy, spin)):
        sections = {**TRUSTED, "workers": {"idle": idle}}
        group = f"round trips, {idle} beside a {'spinning' if rival else 'blocking'} kernel client"
        with kernel_wire(HONEST, 1500) as honest:
            kernel = kernel_side(bench.programs, honest, client_cores())
            sides = {"kernel": (lambda kernel=kernel: contextlib.nullcontext(kernel), rival),
                     "lyre": (lambda sections=sections: warm_lyre(bench.programs, sections), own)}
            for size in ("1", "64", "4096"):
                round_trips(bench, group, sides, size)


@contextlib.contextmanager
def warm_lyre(programs, sections):
    """The side of two daemons that run only inside: they take no time while the kernel is measured,
    whose code is always warm."""
    with TwoHosts(programs, sections=sections) as hosts:
        side = lyre_side(hosts, client_cores())
        side.run(WARM_UP)
        yield side


def round_trips(bench, group, sides, size):
    """`sides`: by name how to enter the context of a Side, and options for both its programs."""
    count = str(int(10000 * bench.seconds))
    arguments = ["--ping-pong", "--message", size, "--count", count]
    reports = {name: [] for name in sides}
    label = f"{size} B"
    if not any(bench.table.wants(group, f"{who}{label}") for who in ("", "kernel, ")):
        return
    distances = {name: [] for name in sides}
    for _ in range(bench.rounds):
        for name, (running, spin) in sides.items():
            distances[name].append(line_ns_now(bench.program("tests/bench/line_probe")))
            with running() as side:
                reports[name].append(side.run([*arguments, *spin], spin)["ping_pong"])
    for key in ("p50", "p99", "p999"):
        rows = {}
        for name, (_, spin) in sides.items():
            title, kernel = (f"kernel, {label}, {key}", ["--kernel"]) if name == "kernel" else (
                f"{label}, {key}", [])
            rows[name] = Row(group, title, "us", [r[f"{key}_ns"] / 1e3 for r in reports[name]],
                             "lyre perf client " + " ".join([*kernel, *arguments, *spin]),
                             rows.get("kernel"), lower_is_better=True,
                             line_ns=distances[name])
            bench.table.add(rows[name])


def requests(bench):
    """Requests of 64 bytes a second, on one session and on a thousand."""
    with TwoHosts(bench.programs, sections=MANY_CLOSE) as hosts, \
            kernel_wire(HONEST, 1500) as honest:
        contest = Contest(bench, "requests")
        sides = {"kernel": kernel_side(bench.programs, honest), "": lyre_side(hosts)}
        # So many that connecting, which counts, is a small part of the time.
        for sessions, count in ((1, 20000), (1000, 200)):
            for name, side in sides.items():
                arguments = ["--ping-pong", "--sessions", str(sessions), "--count",
                             str(int(count * max(bench.seconds, 1)))]
                text = f"{sessions} session{'s' if sessions > 1 else ''}, by elapsed time"
                contest.add(f"{name}, {text}" if name else text, "requests/s",
                            lambda side=side, arguments=arguments:
                            side.run(arguments)["ping_pong"]["requests_per_s"],
                            "lyre perf client " + " ".join(arguments),
                            None if name else f"kernel, {text}")
        contest.run()


# ---- more cores ----

def scaling(bench):
    """Workers on both hosts, as many pairs of clients, and eight sessions of each."""
    available = sorted(os.sched_getaffinity(0))
    arguments = ["--seconds", str(bench.seconds), "--sessions", "8"]
    alone = None
    for workers in (1, 2, 4, 8):
        # With too few cores for both hosts, the hosts share them.
        if workers > 1 and 2 * workers > max(len(available), SPINNERS):
            break
        values = []
        for host_cores in [(available[:workers], available[-workers:])] * bench.rounds:
            values.append(with_workers(bench, host_cores, arguments))
        row = Row("scaling", f"{workers} worker{'s' if workers > 1 else ''} a host", "Gb/s", values,
                  "lyre perf client " + " ".join(arguments), alone)
        alone = alone or row
        bench.table.add(row)


def with_workers(bench, host_cores, arguments):
    first, second = host_cores
    hosts = TwoHosts(bench.programs, sections=TRUSTED, cores_of={"host-a": first, "host-b": second})
    with hosts:
        reports = free_side(hosts).run_several(len(first), arguments)
        used = [worker["counters"]["tcp_payload_in"] for worker in hosts.a.look("stats")["workers"]]
    if min(used) == 0:
        raise Failed(f"a worker had nothing to do: {used}")
    return sum(map(gbps, reports))


# ---- many sessions, and none ----

def connections(bench):
    """A whole client: process, attach, connections, a round trip on each, close."""
    with TwoHosts(bench.programs, sections=MANY_CLOSE) as hosts:
        contest = Contest(bench, "connections")
        side = lyre_side(hosts)
        one, many = (["--sessions", str(sessions), "--ping-pong", "--count", "1"]
                     for sessions in (1, SESSIONS_AT_ONCE))
        for name, arguments in (("1 session", one), (f"{SESSIONS_AT_ONCE} sessions", many)):
            contest.add(f"process, attach, round trips and close: {name}", "ms",
                        lambda arguments=arguments: life_s(side, arguments) * 1000,
                        "lyre perf client " + " ".join(arguments), lower_is_better=True)
        contest.add(f"the same, connections: {SESSIONS_AT_ONCE} sessions", "/s",
                    lambda: SESSIONS_AT_ONCE / life_s(side, many),
                    "lyre perf client " + " ".join(many))
        contest.run()


def life_s(side, arguments):
    with side.serving():
        command, environment = side.client_command(arguments)
        begun = time.monotonic()
        output_of(command, "lyre perf", env=environment)
        return time.monotonic() - begun


def idle_sessions(bench):
    program = bench.program("tests/bench/sessions_bench")
    sessions = 10_000 if bench.seconds < 1 else 100_000
    reports = [json.loads(output_of([program, str(sessions)], "sessions_bench"))
               for _ in range(bench.rounds)]
    for key, name, unit in (("bytes", "resident memory of each", "bytes"),
                            ("turn_ns", "a worker's turn that finds nothing", "ns"),
                            ("few_turn_ns", "the same with 100 sessions", "ns"),
                            ("open_ns", "opening one, both hosts", "ns")):
        bench.table.add(Row(f"{sessions} idle sessions", name, unit,
                            [report[key] for report in reports], f"sessions_bench {sessions}",
                            lower_is_better=True))


GROUPS = {
    "engine": engine,
    "bulk, MTU 1500": lambda bench: bulk(bench, 1500),
    "bulk, MTU 9000": lambda bench: bulk(bench, 9000),
    "round trips": latency,
    "requests": requests,
    "scaling": scaling,
    "connections": connections,
    "sessions": idle_sessions,
}
