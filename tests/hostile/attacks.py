"""Attacks on a daemon by frames written by hand, each in a process of its own.

An attack is a function of a RawHost and a Run. It goes on until run.goes_on() is false, and resets
its connections then.
"""

import itertools
import multiprocessing
import random
import struct
import time

import raw_host
from peers import Namespace
from raw_host import RawConnection, RawHost

# Servers of the attacked daemon, and what an honest peer of it uses.
ECHO_PORT, OTHER_PORT = 7007, 7008
HONEST_PORT = 40000
HONEST = "10.9.2.2"
# The addresses of those who attack.
STRANGERS = [f"10.9.2.{number}" for number in range(100, 110)]
STEP_TIMEOUT_S = 60
# A little of each attack before the honest transfers are looked at.
BEGUN_AFTER = 2
# Handshakes at once at a server with a backlog of 1.
HANDSHAKES = 200


class Run:
    """An attack as its process sees it."""

    def __init__(self):
        self._over = multiprocessing.Event()
        self.begun = multiprocessing.Event()
        self.rounds = multiprocessing.Value("L", 0)
        # Of attacks that count them: segments sent, and answers that came.
        self.asked = multiprocessing.Value("L", 0)
        self.answered = multiprocessing.Value("L", 0)

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
    """A process that attacks inside a `with` block, as hosts with `addresses` at a device of a
    network namespace. `target` and `mac` are the daemon's."""

    def __init__(self, place, addresses, target, mac, action):
        self.run = Run()
        self._process = multiprocessing.get_context("fork").Process(
            target=self._main, args=(place, addresses, target, mac, action), daemon=True)

    def _main(self, place, addresses, target, mac, action):
        namespace, device = place
        with Namespace(namespace):
            host = RawHost(device, addresses, target, mac)
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
    """16 384 segments of a byte, each behind a gap, over and over: two for each receive slot. A
    connection keeps some 170 of them, which is its window in slots."""
    connections = open_connections(host, 64, ECHO_PORT)
    while run.goes_on():
        for at in range(1, 513, 2):
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
    """All SYNs first, so that most are answered with cookies; then the ACK of each answer, all of
    them again and again."""
    ports = range(20000, 20000 + HANDSHAKES)
    answers = {}
    while run.goes_on():
        for number in ports:
            if number not in answers:
                host.send_tcp((number, OTHER_PORT), RawConnection.start - 1, 0, raw_host.SYN,
                              options=raw_host.syn_options())
        while segment := host.receive(timeout_s=0.05):
            if segment.flags & raw_host.SYN:
                answers[segment.target_port] = segment.seq + 1
        for number, ack in answers.items():
            host.send_tcp((number, OTHER_PORT), RawConnection.start, ack, raw_host.ACK)
    for number in ports:
        host.send_tcp((number, OTHER_PORT), RawConnection.start, 0, raw_host.RST)


def ask_for_resets(host, run):
    """Segments of no connection. Each asks for an RST (RFC 9293 3.10.7.1)."""
    ports = itertools.cycle(range(10000, 30000))
    while run.goes_on():
        for _ in range(500):
            host.send_tcp((5555, next(ports)), 1, 1, raw_host.ACK)
            run.asked.value += 1
            while segment := host.receive():
                run.answered.value += bool(segment.flags & raw_host.RST)


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


def deny_losses(host, run):
    """A receiver of small segments. 1 000 times a second it reports the last three alone, as if
    those before them were lost, and then that what was sent again came twice."""
    connection = RawConnection.accept(host, OTHER_PORT, mss=536)
    next_at = time.monotonic()
    while run.goes_on():
        while segment := host.receive():
            connection.take(segment)
        behind, end = connection.peer_next // 2, connection.peer_next
        for _ in range(10):
            connection.acknowledge(behind, [(end - 3 * 536, end)])
            for _ in range(2):
                connection.acknowledge(behind, [(behind, behind + 536), (behind, end)])
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
            if not is_false_claim(frame, host):
                host.send_frame(bytes(frame))
        while host.receive():
            pass


def is_false_claim(frame, host):
    """ARP in the name of another host: receivers accept it (RFC 826), so it is no
    garbage."""
    return frame[12:14] == b"\x08\x06" and bytes(frame[28:32]) not in host.addresses


def break_an_honest_connection(host, run):
    """Resets, SYNs, ACKs and ICMP errors in the kernel's name, by one who sees none of its
    packets; and segments to closed ports."""
    choose = random.Random(9)
    kernel, ports = raw_host.packed(HONEST), (HONEST_PORT, ECHO_PORT)
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
