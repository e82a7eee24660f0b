"""Processor time of idle daemons, and the time to wake up: the group "idle" of tools/bench."""

import contextlib
import ctypes
import json
import os
import re
import shutil
import statistics
import subprocess
import time

import processes
from daemon import Daemon, Settings
from measures import (HONEST, KERNEL, PATIENCE_S, TRUSTED, Contest, Failed, kernel_side,
                      kernel_wire, lyre_side, on_core, output_of)
from network import VethPair
from record import Row
from two_hosts import TwoHosts, cores, scratch_folder
from wires import DriverWire

IDLE_S = 3
SESSION_TIMEOUT_S = 10
ANSWERS = 20
PROBE_MAC = "02:00:00:00:00:77"
PING = ["ping", "-n", "-c", str(ANSWERS + 1), "-i", "0.1", KERNEL["right"]]


@contextlib.contextmanager
def packet_hosts(programs):
    with DriverWire("net_af_packet", HONEST) as wire, TwoHosts(programs, wire=wire) as hosts:
        yield hosts


REST = {"the port wakes it (memif)": lambda programs: TwoHosts(programs, sections=TRUSTED),
        "the port wakes it (AF_PACKET)": packet_hosts}


def idle(bench):
    """Runs the group, over memif and over AF_PACKET."""
    shares(bench)
    for how, hosts in REST.items():
        with hosts(bench.programs) as pair:
            round_trips_after_rest(bench, how, lyre_side(pair))
    with kernel_wire(HONEST, 1500) as wire:
        round_trips_after_rest(bench, "the kernel", kernel_side(bench.programs, wire))
    wake_ups(bench)


def shares(bench):
    """Processor time of daemons, of clients, and of a process that only sleeps."""
    sleeper = "a process that only sleeps, as long as a daemon whose port cannot wake it"
    probe = [bench.program("tests/bench/rest_probe"), "sleep", str(IDLE_S)]
    contest = Contest(bench, "idle")
    contest.add(sleeper, "% of a core", lambda: json.loads(
        output_of([*probe, str(cores()[0])], "rest_probe"))["percent_of_core"],
        f"rest_probe sleep {IDLE_S} CORE", lower_is_better=True)
    for (how, hosts), beside in zip(REST.items(), (sleeper, None)):
        contest.add(f"daemon, {how}", "% of a core",
                    lambda hosts=hosts: daemon_share(hosts(bench.programs)),
                    f"clock_getcpuclockid() over {IDLE_S} s", beside, lower_is_better=True)
        contest.add(f"client with an idle session, {how}", "% of a core",
                    lambda hosts=hosts: client_share(hosts(bench.programs)),
                    f"clock_getcpuclockid() over {IDLE_S} s", lower_is_better=True)
    contest.run()


def daemon_share(hosts):
    with hosts as pair:
        return share_of(pair.a.pid)


def client_share(hosts):
    """Processor time of a server with one session; a minute passes between two requests."""
    with hosts as pair, contextlib.ExitStack() as stack:
        side = lyre_side(pair)
        server = stack.enter_context(side.serving())
        command, environment = side.client_command(
            ["--ping-pong", "--count", "2", "--interval", "60"])
        peer = processes.start(command, env=environment, stdout=subprocess.DEVNULL)
        stack.callback(processes.end, peer)
        deadline = time.monotonic() + SESSION_TIMEOUT_S
        while not is_established(pair.a):
            if time.monotonic() > deadline:
                raise Failed("the idle session does not come about")
            time.sleep(0.05)
        return share_of(server.pid)


def is_established(daemon):
    return any(session["state"] == "ESTABLISHED" for session in daemon.look("sessions")["sessions"])


def share_of(pid):
    before = processor_s(pid)
    time.sleep(IDLE_S)
    return (processor_s(pid) - before) / IDLE_S * 100


def round_trips_after_rest(bench, how, side):
    options = ["--ping-pong", "--count", "20", "--interval", "0.1"]
    values = [side.run(options)["ping_pong"]["p50_ns"] / 1e3 for _ in range(bench.rounds)]
    bench.table.add(Row("idle", f"round trip after 0.1 s of rest, {how}", "us", values,
                        "lyre perf client " + " ".join(options), lower_is_better=True))


def wake_ups(bench):
    """What one wake-up of one daemon takes: the answer after a rest, beside that of a daemon that
    never sleeps, and of the least that can answer. A kernel's pings are timed where packets come
    in, and arp_probe spins, so that no other thread wakes up meanwhile."""
    contest = Contest(bench, "idle")

    def add_ping(who, answerer, beside=None):
        name = f"ping after 0.1 s of rest, answered by {who}"
        contest.add(name, "us", lambda: ping_us(answerer()), " ".join(PING), beside,
                    lower_is_better=True)
        return name
    add_ping("the kernel", lambda: kernel_wire(HONEST, 1500))
    bare = bench.program("tests/bench/rest_probe")
    for what, how, who, idle in (("spins", "spin", "never sleeps", "busy"),
                                 ("blocks", "block", "the port wakes", "adaptive")):
        least = add_ping(f"a process that {what} on a packet socket",
                         lambda how=how: probe_beside_kernel(bare, how))
        add_ping(f"a daemon that {who} (AF_PACKET)",
                 lambda idle=idle: daemon_beside_kernel(bench.programs, idle), least)
    probe = bench.program("tests/bench/arp_probe")
    for how, idle in (("never sleeps", "busy"), ("the port wakes", "adaptive")):
        contest.add(f"ARP after 0.1 s of rest, answered by a daemon that {how} (memif)", "us",
                    lambda idle=idle: arp_us(bench.programs, probe, idle),
                    f"arp_probe SOCKET {KERNEL['right']} CORE {ANSWERS}", lower_is_better=True)
    contest.run()


@contextlib.contextmanager
def scratch():
    folder = scratch_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def resting_daemon(programs, device, idle, folder, inside=()):
    """A daemon on the first core, with the kernel at the other end of its wire or a probe."""
    daemon = Daemon(programs, Settings("lyre", device, f"{KERNEL['right']}/24", cores()[0],
                                       sections={"workers": {"idle": idle}}), folder, inside)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.stop()


@contextlib.contextmanager
def daemon_beside_kernel(programs, idle):
    """A wire with the kernel on its left and a daemon on its right."""
    with scratch() as folder, VethPair(HONEST) as wire:
        wire.give_address(wire.left, KERNEL["left"])
        with resting_daemon(programs, f"net_af_packet0,iface={wire.device}", idle, folder,
                            wire.inside(wire.right)) as daemon:
            daemon.wait_link()
            yield wire


@contextlib.contextmanager
def probe_beside_kernel(probe, how):
    """The same wire with rest_probe on its right, on the core that the daemon would have."""
    with VethPair(HONEST) as wire:
        wire.give_address(wire.left, KERNEL["left"])
        # It answers no ARP.
        wire.run(wire.right, "ip", "link", "set", wire.device, "address", PROBE_MAC)
        wire.run(wire.left, "ip", "neigh", "add", KERNEL["right"], "lladdr", PROBE_MAC,
                 "dev", wire.device)
        answerer = processes.start(
            wire.inside(wire.right, probe, "answer", wire.device, how, str(cores()[0])),
            stdout=subprocess.PIPE, text=True)
        try:
            if "ready" not in processes.read_line(answerer, PATIENCE_S, answerer.stdout):
                raise Failed("rest_probe does not answer")
            yield wire
        finally:
            processes.end(answerer)
            answerer.stdout.close()


def ping_us(answerer):
    """The median of the answers but the first, which includes the resolution of a MAC address."""
    with answerer as wire:
        said = output_of(on_core(cores()[1], wire.inside(wire.left, *PING)), "ping")
    return statistics.median(float(ms) * 1000 for ms in re.findall(r"time=(\S+) ms", said)[1:])


def arp_us(programs, probe, idle):
    with scratch() as folder:
        wire = os.path.join(folder, "wire.sock")
        device = f"net_memif0,role=server,socket={wire},socket-abstract=no"
        with resting_daemon(programs, device, idle, folder):
            said = output_of([probe, wire, KERNEL["right"], str(cores()[1]), str(ANSWERS)],
                             "arp_probe", env=dict(os.environ, RUNTIME_DIRECTORY=folder))
    return statistics.median(json.loads(said))


def processor_s(pid):
    """Processor time that the process has used, by the kernel's clock of that process."""
    clock = ctypes.c_int()
    if processes.libc.clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
        raise Failed(f"process {pid} has no clock")
    return time.clock_gettime(clock.value)
