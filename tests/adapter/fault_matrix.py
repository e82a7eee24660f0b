#!/usr/bin/env python3
"""Causes one fault in the network of two ranks in one phase of their work, and checks the outcome.

What can be survived must be: every byte arrives, verified by the receiver. What cannot must end
with ncclRemoteError, in bounded time, in one line that names the peer.

`--cell FAULT/PHASE` picks cells (shell patterns), `--repeat N` runs them N times, `--list` prints
them. With `--keeping` the ports behave as NICs whose drivers keep what they are given
(tests/support/keeping_nic.cc), and no packet may change before its NIC has read it.
"""

import argparse
import contextlib
import fnmatch
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import processes
from daemon import Programs
from reset import StreamResetter
from wired_hosts import KEEPING_NIC, NO_OFFLOADS, PACKET_SOCKETS, TwoRails, WiredHosts

FAULTS = ["stream", "port", "outage", "nic-reset", "nic-gone", "pause-of-sender",
          "pause-of-receiver", "daemon-of-sender", "daemon-of-receiver", "process-of-sender",
          "process-of-receiver", "host-of-sender", "host-of-receiver"]
# "hello": TCP is connected, and the sender has not sent its hello. "await": the receiver has posted
# a receive, and the sender sends much later.
PHASES = ["connect", "hello", "idle", "await", "message", "close"]
SENDER, RECEIVER = 0, 1
# The processes that the fault ends.
DEADLY = {"process-of-sender": SENDER, "process-of-receiver": RECEIVER,
          "host-of-sender": SENDER, "host-of-receiver": RECEIVER}
# Closing needs nothing from a peer that has ended.
HARMLESS = {(fault, "close") for fault in DEADLY}
# A reset needs the sequence numbers of a connection, which an absent or idle one does not show. A
# process that waits in accept() is not connected with the peer that ends.
MEANINGLESS = {(fault, phase) for phase in ("connect", "hello")
               for fault in ("stream", "process-of-sender", "host-of-sender")}
ANSWER_S = 60
SETTLE_S = 0.3
AWAIT_S = 14  # more than both timeouts of ENVIRONMENT
OUTAGE_S = 4.5  # less than LYRE_RESUME_SECONDS
PAUSE_S = 10  # more than that and its margin
RESET_TRIES = 10
ENVIRONMENT = {"LYRE_STREAMS": "4", "LYRE_PEER_TIMEOUT_SECONDS": "12",
               "LYRE_RESUME_SECONDS": "6"}
# Where a daemon is started again: the machine may start it slowly.
SLOW_START = {"LYRE_RESUME_SECONDS": "60"}
DAEMON_SECTIONS = {"tcp": {"user_timeout_ms": 5000}}
# The links are down while there is something to send: a driver keeps packets then.
KEEPING = {("port", "message"), ("outage", "message"), ("host-of-receiver", "message")}


class Wrong(Exception):
    """A cell of the matrix had another outcome than expected."""


class Rank:
    """A fault_rank process. A thread reads its answers."""

    def __init__(self, arguments, index, socket, environment):
        environment = dict(os.environ, LYRE_SOCKET=socket, LYRE_TEST_PLUGIN=arguments.plugin,
                           LYRE_RAILS=arguments.rails, **environment)
        self.name = "sender" if index == SENDER else "receiver"
        self.process = processes.start([arguments.rank, str(index), str(arguments.abi)],
                                       env=environment, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.lines = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.strip())
                self._changed.notify_all()
        with self._changed:
            self.lines.append("gone")
            self._changed.notify_all()

    def send_line(self, line):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def await_answer(self, *words):
        """Takes the first answer that begins with one of the words, and drops all before it."""
        deadline = time.monotonic() + ANSWER_S
        with self._changed:
            while True:
                for i, line in enumerate(self.lines):
                    if line.startswith(words):
                        del self.lines[:i + 1]
                        return line
                    if line.startswith(("error", "gone")):
                        raise Wrong(f"{self.name}: {line}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Wrong(f"{self.name} says nothing for {ANSWER_S} s, waiting for {words}")
                self._changed.wait(left)

    def end(self):
        processes.end(self.process)


class Cell:
    """One job, its network, and its fault."""

    def __init__(self, arguments, fault, phase):
        self.arguments = arguments
        self.fault = fault
        self.phase = phase
        self.victim = DEADLY.get(fault, RECEIVER)
        self.witness = 1 - self.victim
        self.stack = contextlib.ExitStack()
        # Virtual devices are not reset.
        self.has_nics = arguments.keeping or fault == "nic-reset"
        self.events = None  # where drivers are told what to report
        self.kept = None  # where drivers write what they kept

    def run(self):
        with self.stack:
            self.build()
            try:
                if self.fault in DEADLY and (self.fault, self.phase) not in HARMLESS:
                    self.expect_error()
                else:
                    self.expect_survival()
            except Wrong as wrong:
                logs = "".join(daemon.log_tail() for daemon in self.daemons)
                raise Wrong(f"{wrong}\n{logs}") from wrong

    def build(self):
        hosts = self.stack.enter_context(
            WiredHosts(Programs(self.arguments.build), TwoRails(NO_OFFLOADS), DAEMON_SECTIONS,
                       self.prefix(), KEEPING_NIC if self.has_nics else PACKET_SOCKETS))
        self.wire = hosts.wire
        self.daemons = [hosts.a, hosts.b]
        environment = dict(ENVIRONMENT)
        if self.fault.startswith("daemon-of-"):
            environment.update(SLOW_START)
        self.ranks = [Rank(self.arguments, index, self.daemons[index].socket, environment)
                      for index in (0, 1)]
        for rank in self.ranks:
            self.stack.callback(rank.end)
            rank.await_answer("ready")
        self.ranks[RECEIVER].send_line("handle")
        self.ranks[SENDER].send_line(self.ranks[RECEIVER].await_answer("handle"))
        self.ranks[SENDER].await_answer("handle")

    def prefix(self):
        """Of the daemons' command lines: drivers that behave as none of a virtual device does."""
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="lyre-drivers-"))
        libraries, variables = [], []
        if self.fault == "nic-reset":
            self.events = os.path.join(folder, "events")
            libraries.append("libnic_events.so")
            variables.append(f"LYRE_TEST_NIC_EVENTS={self.events}")
        if self.has_nics:
            self.kept = os.path.join(folder, "kept")
            self.stack.callback(self.check_kept)  # when the daemons have ended
            libraries.append("libkeeping_nic.so")
            variables.append(f"LYRE_TEST_KEEPING_NIC={self.kept}")
        if not libraries:
            return []
        support = os.path.join(os.path.abspath(self.arguments.build), "tests", "support")
        preloaded = ":".join(os.path.join(support, library) for library in libraries)
        return ["env", f"LD_PRELOAD={preloaded}", *variables]

    def check_kept(self):
        lines = []
        if os.path.exists(self.kept):
            with open(self.kept, encoding="utf-8") as file:
                lines = file.read().splitlines()
        changed = [line for line in lines if line != "kept"]
        if changed:
            raise Wrong(f"a NIC would have read other bytes than it was given: {len(changed)} "
                        f"packets, first {changed[0]}")
        if self.arguments.keeping and (self.fault, self.phase) in KEEPING and not lines:
            raise Wrong("no driver kept a packet")

    def both(self, word):
        for rank in self.ranks:
            rank.send_line(word)

    def all_answer(self, word):
        for rank in self.ranks:
            rank.await_answer(word)

    def together(self, word):
        self.both(word)
        self.all_answer(word)

    # ---- Faults ----

    def strike(self):
        getattr(self, "strike_" + self.fault.replace("-", "_"))()
        if self.phase == "hello":
            self.ranks[SENDER].process.send_signal(signal.SIGCONT)
            self.ranks[SENDER].send_line("connect")

    def strike_stream(self):
        """Until a daemon counts a reset connection. A comm that closes may leave none to reset."""
        before = self.resets()
        with StreamResetter(self.wire.left, self.wire.device) as resetter:
            for _ in range(RESET_TRIES):
                if self.phase in ("idle", "await"):
                    self.both("say")  # a packet that shows the sequence numbers
                resetter.reset()
                if self.phase in ("idle", "await"):
                    self.all_answer("say")
                if self.phase == "close" or self.resets() > before:
                    return
        raise Wrong(f"no connection was reset in {RESET_TRIES} tries")

    def resets(self):
        """Connections that RST segments have ended, at both hosts."""
        return sum(worker["counters"]["tcp_resets_in"] for daemon in self.daemons
                   for worker in daemon.look("stats")["workers"])

    def strike_port(self):
        self.wire.pull_out(self.wire.left)

    def set_links(self, end, state):
        for device in (self.wire.device, self.wire.second):
            self.wire.run(end, "ip", "link", "set", device, state)

    def strike_outage(self):
        self.set_links(self.wire.left, "down")
        time.sleep(OUTAGE_S)
        self.set_links(self.wire.left, "up")

    def strike_nic_reset(self):
        """The drivers of a port ask for a reset at both hosts."""
        for daemon in self.daemons:
            with open(f"{self.events}.{daemon.pid}", "w", encoding="utf-8") as fifo:
                fifo.write("net_af_packet0\n")
        deadline = time.monotonic() + ANSWER_S
        while not all("runs again" in daemon.log_tail() for daemon in self.daemons):
            if time.monotonic() > deadline:
                raise Wrong(f"a port was not reset within {ANSWER_S} s")
            time.sleep(0.05)
        for daemon in self.daemons:
            daemon.wait_link()

    def strike_nic_gone(self):
        """A port's device is taken away at both hosts, and comes back."""
        self.wire.take_away()
        time.sleep(OUTAGE_S)
        self.wire.bring_back()
        for daemon in self.daemons:
            daemon.wait_link()

    def pause(self, rank):
        rank.process.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_S)
        rank.process.send_signal(signal.SIGCONT)

    def strike_pause_of_sender(self):
        self.pause(self.ranks[SENDER])

    def strike_pause_of_receiver(self):
        self.pause(self.ranks[RECEIVER])

    def strike_daemon_of_sender(self):
        self.restart(self.daemons[SENDER])

    def strike_daemon_of_receiver(self):
        self.restart(self.daemons[RECEIVER])

    def kill_process(self):
        self.ranks[self.victim].process.kill()

    def kill_host(self):
        self.set_links((self.wire.left, self.wire.right)[self.victim], "down")
        self.kill_process()
        self.daemons[self.victim].kill()

    strike_process_of_sender = strike_process_of_receiver = kill_process
    strike_host_of_sender = strike_host_of_receiver = kill_host

    @staticmethod
    def restart(daemon):
        daemon.kill()
        daemon.start()

    # ---- Outcomes ----

    def begin(self):
        """Runs the job up to the fault."""
        if self.phase == "connect":
            self.ranks[SENDER].send_line("connect")
            return
        if self.phase == "hello":
            self.ranks[SENDER].send_line("dial")
            self.ranks[SENDER].await_answer("dial")
            self.ranks[SENDER].process.send_signal(signal.SIGSTOP)
            time.sleep(SETTLE_S)
            return
        self.together("connect")
        self.together("say")
        if self.phase == "message":
            self.both("stream")
            for rank in self.ranks:
                rank.await_answer("moved")
        if self.phase == "await":
            time.sleep(SETTLE_S)  # until all streams are connected
            self.ranks[RECEIVER].send_line("say")

    def expect_survival(self):
        self.begin()
        if self.phase == "close":
            self.both("close")
            self.strike()
            self.ranks[self.witness].await_answer("close")
            if self.fault not in DEADLY:
                self.ranks[self.victim].await_answer("close")
            return
        self.strike()
        if self.phase in ("connect", "hello"):
            self.ranks[RECEIVER].send_line("connect")
            self.all_answer("connect")
        if self.phase == "message":
            for rank in self.ranks:
                rank.await_answer("moved")
            time.sleep(SETTLE_S)
            self.ranks[SENDER].send_line("stop")
            self.all_answer("stream")
        if self.phase == "await":
            time.sleep(AWAIT_S)
            self.ranks[SENDER].send_line("say")
            self.all_answer("say")
        self.together("say")
        self.together("close")

    def expect_error(self):
        if self.phase == "connect":
            self.strike()
            self.ranks[SENDER].send_line("connect")
        else:
            self.begin()
            self.strike()
        witness = self.ranks[self.witness]
        if self.phase in ("idle", "await"):
            witness.send_line("stream")
        # The text tells whose error it is, and the wait for it ends: no time is asserted.
        line = witness.await_answer("error")
        names = [f"host {socket.gethostname()} ", str(self.ranks[self.victim].process.pid)]
        if "ncclRemoteError" not in line or not all(name in line for name in names):
            raise Wrong(f"an error that does not say what and who: {line}")
        # Where the host lives, its daemon tells at once, before anybody's timeout.
        is_told = self.fault.startswith("process") and self.phase not in ("connect", "hello")
        if is_told and "its process ended" not in line:
            raise Wrong(f"the death of a process was found out, and not told: {line}")


def cells(patterns):
    every = [(fault, phase) for fault in FAULTS for phase in PHASES
             if (fault, phase) not in MEANINGLESS]
    return [cell for cell in every
            if any(fnmatch.fnmatch("/".join(cell), pattern) for pattern in patterns)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--rank", required=True, help="the fault_rank program")
    parser.add_argument("--abi", type=int, default=11)
    parser.add_argument("--rails", default="all", help="LYRE_RAILS: all (the default) or own")
    parser.add_argument("--keeping", action="store_true",
                        help="ports whose drivers keep what they are given")
    parser.add_argument("--cell", action="append", metavar="FAULT/PHASE")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    chosen = cells(arguments.cell or ["*"])
    if arguments.list:
        print("\n".join("/".join(cell) for cell in chosen))
        return 0
    processes.exit_on_signals()
    failures = 0
    for round_number in range(arguments.repeat):
        for fault, phase in chosen:
            began = time.monotonic()
            try:
                Cell(arguments, fault, phase).run()
                verdict = "ok"
            except Exception as error:  # the other cells run all the same
                failures += 1
                verdict = f"FAILED: {type(error).__name__}: {error}"
            print(f"{round_number + 1:3} {fault + '/' + phase:28} {time.monotonic() - began:5.1f} s"
                  f"  {verdict}", flush=True)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
