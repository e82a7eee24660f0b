"""What an honest pair keeps under attack: a Linux kernel and the daemon, over a veth wire.

In each round every measurement is made once. The attacker, both ends of the pair and the daemon
share the cores of this machine, so a ratio contains the time that the attacker computes as well.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(FOLDER), name) for name in ("interop", "hostile")]

import attacks
import bed
import processes
from attacks import ECHO_PORT, OTHER_PORT, STRANGERS, Attack
from measures import PATIENCE_S, PORT, Contest, Failed, Side, gbps
from record import Row

GROUP = "under attack"
GREEDY_SESSIONS = 64
# More than a peer that acknowledges little takes while it is measured.
TEXT_BYTES = 64 << 20


class Place:
    """A daemon, its honest peer, and those who attack it."""

    def __init__(self, bench, up):
        self.up, self.seconds = up, bench.seconds
        self._mac = up.daemon.look("status")["ports"][0]["mac"]
        inside, environment = up.in_kernel(up.programs.lyre), dict(os.environ)
        self._honest = Side(up.daemon.lyre(), (inside, environment), bed.LYRE)
        self._greedy = Side((inside, environment), up.daemon.lyre(), bed.KERNEL)

    def goodput(self, direction):
        """Of the honest pair; "tx" is towards the daemon."""
        return gbps(self._honest.run(["--seconds", str(self.seconds), "--direction", direction,
                                      "--kernel"]))

    def attack(self, action):
        return Attack((self.up.wire.right, self.up.wire.device), STRANGERS, bed.LYRE, self._mac,
                      action)

    @contextlib.contextmanager
    def peer(self, *arguments, is_stopped=False, **streams):
        """A client of the daemon's beside the honest one."""
        command, environment = self.up.lyre_peer(*arguments)
        process = processes.start(command, env=environment, stderr=subprocess.DEVNULL, **streams)
        try:
            if (arguments[0] == "echo" and
                    processes.read_line(process, PATIENCE_S, process.stdout) != "listening\n"):
                raise Failed(f"{' '.join(command)} does not listen")
            if is_stopped:
                process.send_signal(signal.SIGSTOP)
            yield
        finally:
            process.send_signal(signal.SIGCONT)
            processes.end(process)

    def echo(self, port, is_stopped=False):
        return self.peer("echo", f":{port}", is_stopped=is_stopped, stdout=subprocess.PIPE)

    def beside(self, action, victim):
        with victim, self.attack(action):
            return self.goodput("tx")

    def beside_sack_blocks(self):
        with open(os.path.join(self.up.folder, "text"), "w+b") as text:
            text.truncate(TEXT_BYTES)
            with self.peer("connect", f"{STRANGERS[0]}:{OTHER_PORT}", stdin=text,
                           stdout=subprocess.DEVNULL), self.attack(attacks.split_sack_blocks):
                return self.goodput("tx")

    def beside_greedy_client(self):
        arguments = ["--sessions", str(GREEDY_SESSIONS), "--seconds", str(3 * self.seconds + 5)]
        # The server is the kernel's.
        with self._greedy.serving(["--kernel"], port=PORT + 1):
            command, environment = self._greedy.client_command(arguments, port=PORT + 1)
            greedy = processes.start(command, env=environment, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            try:
                self._wait_for_sessions(GREEDY_SESSIONS)
                return self.goodput("rx")
            finally:
                processes.end(greedy)

    def _wait_for_sessions(self, count):
        deadline = time.monotonic() + PATIENCE_S
        while sum(row["state"] == "ESTABLISHED" and row["bytes_sent"] > 0 for row in
                  self.up.daemon.look("sessions")["sessions"]) < count:
            if time.monotonic() > deadline:
                raise Failed(f"the client has not opened {count} sessions")
            time.sleep(0.05)


def inbound(bench, place):
    contest = Contest(bench, GROUP)
    command = f"lyre perf client --kernel --direction tx --seconds {bench.seconds}"
    alone = "in, alone"

    def add(name, measure):
        contest.add(name, "Gb/s", measure, command, beside=None if name == alone else alone)
    add(alone, lambda: place.goodput("tx"))
    add("in, 5 000 SYNs a second",
        lambda: place.beside(attacks.flood_with_syns, place.echo(ECHO_PORT)))
    add("in, segments of a byte behind gaps",
        lambda: place.beside(attacks.bytes_behind_a_gap, place.echo(ECHO_PORT)))
    add("in, 3 000 ACKs a second with SACK blocks of a few bytes", place.beside_sack_blocks)
    add("in, 64 unread sessions of a client that is stopped",
        lambda: place.beside(attacks.fill_a_stopped_server,
                             place.echo(OTHER_PORT, is_stopped=True)))
    contest.run()


def outbound(bench, place):
    """Two clients of the daemon send: the fair share of each is a half."""
    name = f"out, a client with {GREEDY_SESSIONS} sessions"
    if not bench.table.wants(GROUP, name):
        return
    alone, beside = [], []
    for _ in range(bench.rounds):
        alone.append(place.goodput("rx"))
        beside.append(place.beside_greedy_client())
    command = f"lyre perf client --kernel --direction rx --seconds {bench.seconds}"
    bench.table.add(Row(GROUP, "out, alone", "Gb/s", alone, command))
    fair = bench.table.add(Row(GROUP, "out, half of that: the fair share", "Gb/s",
                               [value / 2 for value in alone], ""))
    bench.table.add(Row(GROUP, name, "Gb/s", beside, command, fair))


def attacked(bench):
    bench.program("tests/interop/lyre_peer")
    bed.options.build = bench.build
    with bed.Bed(sections={"tcp": {}}) as up:
        place = Place(bench, up)
        inbound(bench, place)
        outbound(bench, place)


GROUPS = {GROUP: attacked}
