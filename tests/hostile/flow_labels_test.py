#!/usr/bin/env python3
"""IPv6 flow labels as another host sees them (RFC 6437): one for a connection, not those of others,
and none that follows from addresses and ports alone.

That their key is not the one of sequence numbers, tables and cookies cannot be seen on the wire:
Ipv6.FlowLabelsComeFromAKeyOfTheirOwn (tests/unit/stack/worker/ipv6_test.cc) checks it.
"""

import os
import random
import socket
import struct
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "interop"), os.path.join(HERE, "..", "support")]

import bed
import processes
from network import Namespace

ECHO_PORT = 7007
FIRST_PORT, CONNECTIONS = 40000, 16
TEXT_BYTES = 100_000
STEP_TIMEOUT_S = 60
ETH_P_ALL, ETH_P_IPV6 = 3, 0x86DD
SO_RCVBUFFORCE = 33  # asm-generic/socket.h
TCP = 6
RESETS_AT_CLOSE = struct.pack("ii", 1, 0)


class FlowLabels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(bed.Bed())

    def setUp(self):
        with Namespace(self.bed.wire.right):
            self.tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.addCleanup(self.tap.close)
        # Beyond net.core.rmem_max, which is less than what a connection exchanges.
        self.tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        self.tap.bind((self.bed.wire.device, ETH_P_ALL))
        self.tap.setblocking(False)

    def labels(self):
        """Those of the packets that came from Lyre's server since the last call, by the port of the
        peer."""
        found, server = {}, socket.inet_pton(socket.AF_INET6, bed.LYRE6)
        while True:
            try:
                frame = self.tap.recv(2048)
            except BlockingIOError:
                return found
            if (struct.unpack_from("!H", frame, 12)[0] != ETH_P_IPV6 or frame[20] != TCP
                    or frame[22:38] != server):
                continue
            label = struct.unpack_from("!I", frame, 14)[0] & 0xFFFFF
            found.setdefault(struct.unpack_from("!H", frame, 56)[0], set()).add(label)

    def talk(self, port):
        """A connection from this port, each time the same, with text both ways."""
        with Namespace(self.bed.wire.right):
            made = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        with made:
            made.settimeout(STEP_TIMEOUT_S)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS_AT_CLOSE)
            made.bind((bed.KERNEL6, port))
            made.connect((bed.LYRE6, ECHO_PORT))
            text, got = random.Random(port).randbytes(TEXT_BYTES), b""
            made.sendall(text)
            while len(got) < len(text):
                part = made.recv(1 << 16)
                self.assertTrue(part, "the connection ended")
                got += part
            self.assertEqual(text, got)

    def labels_of_connections(self):
        command, environment = self.bed.lyre_peer("echo", f":{ECHO_PORT}")
        echo = processes.start(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual("listening\n", processes.read_line(echo, STEP_TIMEOUT_S, echo.stdout))
            self.labels()
            found = {}
            # Read after each, since the tap holds the packets of a few connections only.
            for port in range(FIRST_PORT, FIRST_PORT + CONNECTIONS):
                self.talk(port)
                for peer, labels in self.labels().items():
                    found.setdefault(peer, set()).update(labels)
            return found
        finally:
            processes.end(echo)
            echo.stdout.close()

    def test_one_for_a_connection_that_nobody_can_tell_before(self):
        first = self.labels_of_connections()
        self.assertEqual(CONNECTIONS, len(first))
        self.assertEqual({1}, {len(labels) for labels in first.values()}, "labels of a connection")
        # Two of so few labels of 20 bits are equal once in ten thousand runs, three never.
        self.assertGreaterEqual(len(set.union(*first.values())), CONNECTIONS - 1)
        self.bed.daemon.stop()
        self.bed.daemon.start()
        self.bed.daemon.wait_link()
        # The same addresses and ports: a hash without a secret gives the same labels.
        second = self.labels_of_connections()
        self.assertEqual(first.keys(), second.keys())
        self.assertLessEqual(sum(first[port] == second[port] for port in first), 1)


if __name__ == "__main__":
    bed.options.family = 6
    sys.argv[1:1] = ["--family", "6"]
    bed.main()
