#!/usr/bin/env python3
"""Linux sockets as peers of Lyre, with correct and incorrect behaviour."""

import errno
import hashlib
import os
import random
import socket
import struct
import subprocess
import threading
import unittest

import bed
import processes
from network import Namespace

PORT = 7000
ECHO_PORT = 7007
CLOSED_PORT = 7999
NOBODY = {4: "10.9.2.77", 6: "fd00:9:2::77"}
# The largest ping payload in a frame of 1500 bytes.
PING_BYTES_MAX = {4: 1472, 6: 1452}
STEP_TIMEOUT_S = 120
# LYRE_E codes, which lyre_peer exits with.
RESET, REFUSED, TIMED_OUT, UNREACHABLE = 1, 2, 3, 4
# None of these occurs on the wire without a defect of the kernel or of Lyre, whatever the peers do.
FAULTS = ("malformed packets", "bad TCP checksums", "bad IP checksums", "bad ICMPv6 checksums")


def noise(count, seed=1):
    return random.Random(seed).randbytes(count)


def receive_all(connection):
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


class PeersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(bed.Bed())
        cls.capture = cls.bed.capture("peers", 256)
        cls.capture.__enter__()
        cls.addClassCleanup(cls.judge_wire)
        command, environment = cls.bed.lyre_peer("echo", f":{ECHO_PORT}")
        cls.echo = processes.start(command, env=environment, stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.echo.stdout.close)
        cls.addClassCleanup(processes.end, cls.echo)
        line = processes.read_line(cls.echo, STEP_TIMEOUT_S, cls.echo.stdout)
        if line != "listening\n":
            raise RuntimeError(f"the echo server said {line!r}")

    @classmethod
    def judge_wire(cls):
        """After the last test: checks the packets of all tests."""
        cls.capture.__exit__()
        faults = cls.capture.faults(FAULTS)
        if not cls.capture.packets() or faults:
            raise AssertionError("on the wire: " + "\n".join(faults[:20]))

    def setUp(self):
        """What an earlier test has left of its connections is not taken for this one's."""
        processes.forget_lines(self.echo.stdout)

    def socket(self):
        with Namespace(self.bed.wire.right):
            family = socket.AF_INET if bed.options.family == 4 else socket.AF_INET6
            made = socket.socket(family, socket.SOCK_STREAM)
        made.settimeout(STEP_TIMEOUT_S)
        self.addCleanup(made.close)
        return made

    def listener(self, backlog=128):
        made = self.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((bed.kernel(), PORT))
        made.listen(backlog)
        return made

    def connect(self, port=ECHO_PORT):
        made = self.socket()
        made.connect((bed.lyre(), port))
        return made

    def accept(self, listener):
        made, _ = listener.accept()
        made.settimeout(STEP_TIMEOUT_S)
        self.addCleanup(made.close)
        return made

    def lyre_connects(self, *options, address=None, port=PORT, text=b""):
        """Starts Lyre's client; `ended()` waits for its exit status and what it received."""
        remote = bed.endpoint(address or bed.kernel(), port)
        command, environment = self.bed.lyre_peer("connect", remote, *options)
        # Input comes from a file: writing to a pipe could block while the client is connecting.
        with open(os.path.join(self.bed.folder, "input"), "wb+") as file:
            file.write(text)
            file.seek(0)
            process = processes.start(command, env=environment, stdin=file, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE)
        self.addCleanup(processes.end, process)
        return process

    def ended(self, process):
        out, errors = process.communicate(timeout=STEP_TIMEOUT_S)
        return process.returncode, out, errors.decode()

    def echo_ended(self):
        """The code with which the echo server's next connection ended."""
        line = processes.read_line(self.echo, STEP_TIMEOUT_S, self.echo.stdout)
        self.assertTrue(line.startswith("ended "), line)
        return int(line.split()[1])

    def ask_echo(self, connection, text):
        """Sends everything from another thread, so that both directions are busy."""
        def send():
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        try:
            return receive_all(connection)
        finally:
            sender.join(STEP_TIMEOUT_S)

    def test_answers_ping(self):
        for payload_bytes in (0, 56, PING_BYTES_MAX[bed.options.family]):
            # All at once: ping waits for the last answer no longer than its interval.
            done = processes.run(
                self.bed.in_kernel("ping", "-n", "-q", "-c", "5", "-l", "5", "-i", "10", "-s",
                                   str(payload_bytes), "-M", "do", bed.lyre()),
                STEP_TIMEOUT_S, capture_output=True)
            self.assertIn(" 5 received", done.stdout, done.stderr)

    def test_refuses_at_a_closed_port(self):
        with self.assertRaises(ConnectionRefusedError):
            self.connect(CLOSED_PORT)

    def test_is_refused_at_a_closed_port(self):
        client = self.lyre_connects(port=CLOSED_PORT)
        code, _, said = self.ended(client)
        self.assertEqual(code, REFUSED, said)

    def test_nobody_has_the_address(self):
        code, _, said = self.ended(self.lyre_connects(address=NOBODY[bed.options.family]))
        self.assertIn(code, (UNREACHABLE, TIMED_OUT), said)

    def test_half_close_by_the_kernel(self):
        text = noise(3_000_001)
        self.assertEqual(self.ask_echo(self.connect(), text), text)
        self.assertEqual(self.echo_ended(), 0)

    def test_half_close_by_lyre(self):
        listener = self.listener()
        question, answer = noise(1_000_003, 2), noise(2_000_003, 3)
        client = self.lyre_connects(text=question)
        connection = self.accept(listener)
        self.assertEqual(receive_all(connection), question)
        connection.sendall(answer)
        connection.close()
        self.assertEqual(self.ended(client), (0, answer, ""))

    def test_both_close_at_once(self):
        listener = self.listener()
        for _ in range(20):
            client = self.lyre_connects()
            self.accept(listener).close()
            self.assertEqual(self.ended(client), (0, b"", ""))

    def test_kernel_resets(self):
        listener = self.listener()
        client = self.lyre_connects(text=noise(1000))
        connection = self.accept(listener)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        code, _, said = self.ended(client)
        self.assertEqual(code, RESET, said)

    def test_kernel_resets_a_server(self):
        connection = self.connect()
        connection.sendall(b"once")
        self.assertEqual(connection.recv(4), b"once")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        self.assertEqual(self.echo_ended(), RESET)

    def test_lyre_resets(self):
        listener = self.listener()
        client = self.lyre_connects("--abort-after", "1")
        connection = self.accept(listener)
        connection.sendall(b"x")
        # Lyre's FIN came first; the reset follows it.
        code, _, said = self.ended(client)
        self.assertEqual(code, 0, said)
        with self.assertRaises(OSError) as caught:
            while True:
                connection.sendall(b"into the void")
        self.assertIn(caught.exception.errno, (errno.ECONNRESET, errno.EPIPE))

    def test_many_short_connections_of_the_kernel(self):
        for number in range(300):
            text = noise(1 + number % 50, number)
            with self.connect() as connection:
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
                self.assertEqual(receive_all(connection), text)
            self.assertEqual(self.echo_ended(), 0)

    def test_many_short_connections_of_lyre(self):
        listener = self.listener()
        client = self.lyre_connects("--times", "300", text=b"short")
        for _ in range(300):
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(STEP_TIMEOUT_S)
                self.assertEqual(receive_all(connection), b"short")
                connection.sendall(b"and sweet")
        self.assertEqual(self.ended(client), (0, b"and sweet", ""))

    def test_connections_side_by_side(self):
        connections = [self.connect() for _ in range(64)]
        texts = [noise(100_000 + number, number) for number in range(len(connections))]
        got = [b""] * len(connections)

        def talk(number):
            got[number] = self.ask_echo(connections[number], texts[number])
        threads = [threading.Thread(target=talk, args=(n,)) for n in range(len(connections))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(STEP_TIMEOUT_S)
        self.assertEqual([hashlib.sha256(text).hexdigest() for text in got],
                         [hashlib.sha256(text).hexdigest() for text in texts])
        self.assertEqual([self.echo_ended() for _ in connections], [0] * len(connections))

    def test_one_byte_at_a_time(self):
        connection = self.connect()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        text = noise(2000, 5)
        for at in range(len(text)):
            connection.sendall(text[at:at + 1])
        connection.shutdown(socket.SHUT_WR)
        self.assertEqual(receive_all(connection), text)
        self.assertEqual(self.echo_ended(), 0)

    def test_kernel_reads_late(self):
        """The peer's window closes, is probed, and opens again."""
        listener = self.listener()
        text = noise(16 << 20, 6)
        client = self.lyre_connects(text=text)
        connection = self.accept(listener)
        # The pause only lets the window fill; no time is asserted.
        threading.Event().wait(1.5)
        self.assertEqual(hashlib.sha256(receive_all(connection)).digest(),
                         hashlib.sha256(text).digest())
        connection.close()
        self.assertEqual(self.ended(client), (0, b"", ""))

    def test_lyre_reads_late(self):
        listener = self.listener()
        text = noise(16 << 20, 7)
        client = self.lyre_connects("--pause-ms", "1500")
        connection = self.accept(listener)
        connection.sendall(text)
        connection.close()
        code, out, said = self.ended(client)
        self.assertEqual((code, said), (0, ""))
        self.assertEqual(hashlib.sha256(out).digest(), hashlib.sha256(text).digest())

    def test_kernels_without_options(self):
        """Lyre offers timestamps, SACK and window scaling; a peer may decline each of them."""
        for option in ("tcp_timestamps", "tcp_sack", "tcp_window_scaling"):
            path = f"/proc/sys/net/ipv4/{option}"
            with self.subTest(option=option):
                self.bed.wire.run(self.bed.wire.right, "sh", "-c", f"echo 0 > {path}")
                try:
                    text = noise(2_000_000, 8)
                    self.assertEqual(self.ask_echo(self.connect(), text), text)
                    self.assertEqual(self.echo_ended(), 0)
                finally:
                    self.bed.wire.run(self.bed.wire.right, "sh", "-c", f"echo 1 > {path}")

    def test_peer_vanishes(self):
        """The link goes down during a transfer: the user timeout ends the connection."""
        listener = self.listener()
        client = self.lyre_connects(text=noise(32 << 20, 9))
        connection = self.accept(listener)
        self.assertTrue(connection.recv(1000))
        self.bed.wire.pull_out(self.bed.wire.right)
        try:
            code, _, said = self.ended(client)
        finally:
            self.bed.wire.plug_in(self.bed.wire.right)
        self.assertEqual(code, TIMED_OUT, said)
        self.bed.daemon.wait_link()


if __name__ == "__main__":
    bed.main()
