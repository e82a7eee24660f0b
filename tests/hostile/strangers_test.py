#!/usr/bin/env python3
"""What a stranger on the wire may not do to a daemon and the connections of others.

A host without a kernel attacks over AF_PACKET. Beside it a Linux kernel transfers to the same
daemon and back: its bytes must come, and its transfers must not stop. Throughput is printed, and
never asserted.

usage: strangers_test.py --build FOLDER [--seconds S] [TEST...]   exit status 77: skipped
"""

import argparse
import itertools
import multiprocessing
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "interop"), os.path.join(HERE, "..", "support")]

import bed
import processes
import raw_host
from network import NetworkError, VethPair
from peers import Namespace, receive_all
from raw_host import RawConnection, RawHost

ECHO_PORT, OTHER_PORT = 7007, 7008
HONEST_PORT = 40000
STRANGERS = [f"10.9.2.{number}" for number in range(100, 110)]
TRANSFER_BYTES = 1 << 20
STEP_TIMEOUT_S = 60
SKIPPED = 77
# Of stack/channel/abi.h and stack/worker/passive_open.cc.
COMPLETION_ENTRIES, COOKIE_BURST = 1024, 128
# A little of each attack before the honest transfers are looked at.
BEGUN_AFTER = 2


class Run:
    """An attack as its process sees it."""

    def __init__(self):
        self._over = multiprocessing.Event()
        self.begun = multiprocessing.Event()
        self.rounds = multiprocessing.Value("L", 0)

    def goes_on(self):
        """Asked once a round."""
        with self.rounds.get_lock():
            self.rounds.value += 1
        if self.rounds.value > BEGUN_AFTER:
            self.begun.set()
        return not self._over.is_set()

    def end(self):
        self._over.set()


class Attack:
    """A process in the kernel's namespace that attacks inside a `with` block."""

    def __init__(self, wire, mac, action):
        self.run = Run()
        self._process = multiprocessing.get_context("fork").Process(
            target=self._main, args=(wire, mac, action), daemon=True)

    def _main(self, wire, mac, action):
        with Namespace(wire.right):
            host = RawHost(wire.device, STRANGERS, bed.LYRE, mac)
        host.announce()
        action(host, self.run)
        host.close()

    def __enter__(self):
        self._process.start()
        end = time.monotonic() + STEP_TIMEOUT_S
        while not self.run.begun.wait(0.1):
            if not self._process.is_alive() or time.monotonic() > end:
                self._process.kill()
                raise RuntimeError("the attack did not begin")
        return self

    def __exit__(self, *_exception):
        self.run.end()
        self._process.join(STEP_TIMEOUT_S)
        if self._process.exitcode != 0:
            self._process.kill()
            raise RuntimeError(f"the attack ended with {self._process.exitcode}")


def open_connections(host, count, port):
    """By their own port."""
    return {number: RawConnection(host, (number, port)).connect()
            for number in range(20000, 20000 + count)}


def take_answers(host, connections):
    """Reads what came. The connections that were reset are opened again."""
    while segment := host.receive():
        own = connections.get(segment.target_port)
        if own is None:
            continue
        if segment.flags & raw_host.RST:
            connections[own.ports[0]] = RawConnection(host, own.ports).connect()
        else:
            own.take(segment)


def reset_all(connections):
    for connection in connections.values():
        connection.reset()


def bytes_behind_a_gap(host, run):
    """10 200 segments of a byte, each behind a gap, over and over."""
    connections = open_connections(host, 5, ECHO_PORT)
    while run.goes_on():
        for at in range(1, 4081, 2):
            for connection in connections.values():
                host.send(connection.packet(at, b"x"))
        take_answers(host, connections)
    reset_all(connections)


def fill_a_stopped_server(host, run):
    """64 connections send as much as their windows take, and more."""
    connections = open_connections(host, 64, OTHER_PORT)
    text = b"x" * 1000
    while run.goes_on():
        for connection in list(connections.values()):
            for at in range(connection.acked, connection.acked + 8000, 1000):
                host.send(connection.packet(at, text))
            take_answers(host, connections)
    reset_all(connections)


def open_at_a_stopped_server(host, run):
    """As many handshakes as find a place, and some more."""
    ports = range(20000, 20000 + COMPLETION_ENTRIES + COOKIE_BURST + 100)
    for number in ports:
        try:
            RawConnection(host, (number, OTHER_PORT)).connect(patience_s=0.03)
        except TimeoutError:
            pass
    while run.goes_on():
        time.sleep(0.05)
    for number in ports:
        host.send_tcp((number, OTHER_PORT), RawConnection.start, 0, raw_host.RST)


def flood_with_syns(host, run):
    """5 000 SYNs a second."""
    ports = itertools.cycle(range(1024, 65536))
    options = raw_host.syn_options()
    next_at = time.monotonic()
    while run.goes_on():
        for _ in range(50):
            host.send_tcp((next(ports), ECHO_PORT), random.getrandbits(32), 0, raw_host.SYN,
                          source=random.choice(host.addresses), options=options)
        while host.receive():
            pass
        next_at += 0.01
        time.sleep(max(0, next_at - time.monotonic()))


def split_sack_blocks(host, run):
    """A receiver of small segments that acknowledges other bytes of them 3 000 times a second."""
    connection = RawConnection.accept(host, OTHER_PORT, mss=536)
    choose = random.Random(6)
    next_at = time.monotonic()
    while run.goes_on():
        while segment := host.receive():
            connection.take(segment)
        # In slow start first; then a byte in a while keeps the connection alive.
        behind = connection.peer_next // 2
        for _ in range(30):
            edges = sorted(choose.randrange(behind, connection.peer_next + 2) for _ in range(8))
            blocks = [(left, left + 1 + choose.randrange(3)) for left in edges[::2]]
            connection.acknowledge(min(behind, connection.peer_next), blocks[:4])
        next_at += 0.01
        time.sleep(max(0, next_at - time.monotonic()))
    connection.reset()


def forged_templates(host):
    """A correct frame of each kind."""
    link = host.target_mac + host.mac
    own = host.addresses[0]
    ports = (5555, ECHO_PORT)
    packets = [
        raw_host.tcp(own, host.target, ports, 1, 0, raw_host.SYN, options=raw_host.syn_options()),
        raw_host.tcp(own, host.target, ports, 1, 1, raw_host.ACK, text=b"text" * 20),
        raw_host.tcp(own, host.target, ports, 1, 1, raw_host.ACK,
                     options=raw_host.sack_option([(1, 2), (3, 4), (5, 6)])),
        raw_host.ipv4(own, host.target, raw_host.ICMP, b"\x08\0\xf7\xff\0\0\0\0"),
        raw_host.icmp(own, host.target, 3, 4, 68, b"\x45" + b"\0" * 27)]
    frames = [link + b"\x08\0" + packet for packet in packets]
    frames.append(link + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + host.mac + own +
                  b"\0" * 6 + host.target)
    frames.append(link + b"\x86\xdd\x60\0\0\0\0\x08\x3a\xff" + b"\xfe\x80" + b"\0" * 13 + b"\x01" +
                  b"\xff\x02" + b"\0" * 13 + b"\x01" + b"\x80\0\0\0\0\0\0\0")
    return frames


def send_garbage(host, run):
    """Frames of noise, and correct ones that are cut, changed, or longer than they say."""
    choose = random.Random(8)
    templates = forged_templates(host)
    while run.goes_on():
        for _ in range(200):
            frame = bytearray(choose.choice(templates))
            kind = choose.randrange(4)
            if kind == 0:
                del frame[choose.randrange(14, len(frame)):]
            elif kind == 1:
                for _ in range(1 + choose.randrange(4)):
                    frame[choose.randrange(12, len(frame))] = choose.getrandbits(8)
            elif kind == 2:
                frame += choose.randbytes(choose.randrange(1, 1400 - len(frame)))
            else:
                frame[14:] = choose.randbytes(choose.randrange(1, 1400))
            host.send_frame(bytes(frame))
        while host.receive():
            pass


def break_an_honest_connection(host, run):
    """Resets, SYNs, ACKs and ICMP errors in the kernel's name, by one who sees none of its
    packets; and segments to closed ports."""
    choose = random.Random(9)
    kernel, ports = raw_host.packed(bed.KERNEL), (HONEST_PORT, ECHO_PORT)
    while run.goes_on():
        for _ in range(50):
            seq, ack = choose.getrandbits(32), choose.getrandbits(32)
            for flags in (raw_host.RST, raw_host.RST | raw_host.ACK, raw_host.SYN, raw_host.ACK):
                host.send_tcp(ports, seq, ack, flags, source=kernel)
            sent = raw_host.tcp(host.target, kernel, ports[::-1], seq, ack, raw_host.ACK)
            for code, rest in ((0, 0), (1, 0), (3, 0), (4, 68)):
                host.send(raw_host.icmp(host.addresses[0], host.target, 3, code, rest, sent))
            host.send_tcp((5555, choose.randrange(1024, 65536)), seq, ack, raw_host.ACK)
        while host.receive():
            pass


class Strangers(unittest.TestCase):
    seconds = 3

    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(bed.Bed(sections={"tcp": {}}))
        cls.mac = cls.bed.daemon.look("status")["ports"][0]["mac"]

    def setUp(self):
        self.assertEqual([], self.own_sessions())
        self.free_before = self.worker()["rx_slots_free"]
        self.addCleanup(self.check_that_nothing_is_left)
        self.start_echo(ECHO_PORT)

    def check_that_nothing_is_left(self):
        """After the clients: the daemon runs, and has no session and no receive slot in use."""
        self.assertTrue(self.bed.daemon.is_running(), self.bed.daemon.log_tail())
        self.until(lambda: self.own_sessions() == [], lambda: f"left: {self.own_sessions()}")
        self.until(lambda: self.worker()["rx_slots_free"] >= self.free_before,
                   lambda: f"{self.free_before} slots were free, now {self.worker()}")

    def start_echo(self, port, *options):
        command, environment = self.bed.lyre_peer("echo", f":{port}", *options)
        echo = processes.start(command, env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(echo.stdout.close)
        self.addCleanup(processes.end, echo)
        self.assertEqual("listening\n", echo.stdout.readline())
        return echo

    def stop_process(self, process):
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)

    def worker(self):
        return self.bed.daemon.look("status")["workers"][0]

    def own_sessions(self):
        """State, and both ends, of those that are not listeners."""
        return [(row["state"], row["local"], row["remote"])
                for row in self.bed.daemon.look("sessions")["sessions"]
                if row["state"] not in ("LISTEN", "TIME-WAIT")]

    def until(self, is_true, what):
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while not is_true():
            if time.monotonic() > deadline:
                self.fail(what())
            time.sleep(0.05)

    def honest_socket(self, port=0, to=ECHO_PORT):
        with Namespace(self.bed.wire.right):
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.settimeout(STEP_TIMEOUT_S)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.addCleanup(made.close)
        made.bind((bed.KERNEL, port))
        made.connect((bed.LYRE, to))
        return made

    def exchange(self, connection, text):
        """Sends the text from another thread, and expects it back."""
        sender = threading.Thread(target=connection.sendall, args=(text,))
        sender.start()
        got = bytearray()
        while len(got) < len(text):
            part = connection.recv(1 << 16)
            self.assertTrue(part, "the connection ended")
            got += part
        sender.join()
        self.assertEqual(text, bytes(got))

    def transfer_beside(self, action):
        """Transfers on one connection, which is open before the attack, until the time is over, at
        least once."""
        with self.honest_socket(HONEST_PORT) as connection:
            with self.attack(action) as attack:
                begin, count = time.monotonic(), 0
                while count == 0 or time.monotonic() < begin + self.seconds:
                    self.exchange(connection, random.Random(count).randbytes(TRANSFER_BYTES))
                    count += 1
                rate = count * (TRANSFER_BYTES >> 20) / (time.monotonic() - begin)
            connection.shutdown(socket.SHUT_WR)
            self.assertEqual(b"", receive_all(connection))
        print(f"{action.__name__}: {rate:.0f} MiB/s each way beside {attack.run.rounds.value} "
              "rounds", flush=True)

    def attack(self, action):
        return Attack(self.bed.wire, self.mac, action)

    def test_bytes_behind_a_gap(self):
        self.transfer_beside(bytes_behind_a_gap)

    def test_a_stopped_server(self):
        stopped = self.start_echo(OTHER_PORT)
        self.stop_process(stopped)
        self.transfer_beside(fill_a_stopped_server)

    def test_a_flood_of_syns(self):
        with self.attack(flood_with_syns) as attack:
            end, count = time.monotonic() + self.seconds, 0
            while count == 0 or time.monotonic() < end:
                with self.honest_socket() as connection:
                    self.exchange(connection, b"opened beside a flood" * 100)
                count += 1
            print(f"{count} connections opened beside {50 * attack.run.rounds.value} SYNs",
                  flush=True)

    def test_handshakes_at_a_stopped_server(self):
        """With a backlog of 1 cookies answer. What the server was not told of stays bounded."""
        server = self.start_echo(OTHER_PORT, "--backlog", "1")
        self.stop_process(server)
        with self.attack(open_at_a_stopped_server):
            with self.honest_socket() as connection:
                self.exchange(connection, b"opened beside it" * 100)
            opened = sum(state == "ESTABLISHED" for state, _, _ in self.own_sessions())
            self.assertGreater(opened, COMPLETION_ENTRIES // 2)
            self.assertLess(opened, COMPLETION_ENTRIES + COOKIE_BURST + 2)

    def test_split_sack_blocks(self):
        text = os.path.join(self.bed.folder, "text")
        with open(text, "wb") as file:
            file.truncate(64 << 20)
        command, environment = self.bed.lyre_peer("connect", f"{STRANGERS[0]}:{OTHER_PORT}")
        with open(text, "rb") as file:
            sender = processes.start(command, env=environment, stdin=file,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(processes.end, sender)
        self.transfer_beside(split_sack_blocks)
        sender.wait(STEP_TIMEOUT_S)

    def test_garbage(self):
        self.transfer_beside(send_garbage)

    def test_resets_and_icmp_errors(self):
        self.transfer_beside(break_an_honest_connection)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, help="folder with the finished build")
    parser.add_argument("--seconds", type=float, default=Strangers.seconds, help="of each attack")
    parser.add_argument("tests", nargs="*", help="such as Strangers.test_garbage; default: all")
    options = parser.parse_args()
    bed.options.build, Strangers.seconds = options.build, options.seconds
    processes.exit_on_signals()
    try:
        with VethPair(bed.OFFLOADS):
            pass
    except NetworkError as error:
        print(f"SKIP: {error}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *options.tests], verbosity=2)


if __name__ == "__main__":
    main()
